//! Level 5: an image of packaging/image on an emulated machine. It boots from its boot loader, configures itself from its seed, and has
//! its clock set.

use std::collections::{BTreeMap, BTreeSet};

use jiff::Timestamp;
use machine::{repository, say};
use qemu::{Disk, Image, skipped};
use serde_json::Value;
use windrow_decide::Mark;

use crate::support::machine;
use crate::support::qemu;

pub(crate) const MANIFESTS: &str = "/var/lib/rancher/rke2/server/manifests";
pub(crate) const CONFIG: &str = "/etc/rancher/rke2/config.yaml.d";
pub(crate) const DROP_IN: &str = "99-zz9-windrow-gates.yaml";

fn text(path: &str) -> String {
    std::fs::read_to_string(repository(path)).expect("a file of the repository")
}

/// The image: Windrow's package, and a stand-in for RKE2 that starts at every boot.
pub(crate) fn image() -> &'static Image {
    qemu::image(|tree| {
        let put = |source: &str, path: &str, mode: u32| {
            use std::os::unix::fs::PermissionsExt;
            let target = tree.join(path);
            std::fs::create_dir_all(target.parent().expect("a directory")).expect("directories");
            std::fs::write(&target, text(source)).expect("a file");
            let mode = std::fs::Permissions::from_mode(mode);
            std::fs::set_permissions(target, mode).expect("a mode");
        };
        let units = "usr/lib/systemd/system";
        let wanted = tree.join("etc/systemd/system/multi-user.target.wants");
        std::fs::create_dir_all(&wanted).expect("directories");
        put("tests/image/rke2", "usr/local/bin/rke2", 0o755);
        put(
            "tests/machine/rke2",
            "usr/local/libexec/rke2-stand-in",
            0o755,
        );
        put("tests/image/load", "usr/local/libexec/load", 0o644);
        put("tests/image/clock", "usr/local/libexec/clock", 0o644);
        let status = tree.join("etc/windrow/conf.d");
        std::fs::create_dir_all(&status).expect("directories");
        std::fs::write(
            status.join("10-status.yaml"),
            "statusServer: {enabled: true}\n",
        )
        .expect("a file");
        for (source, unit) in [
            ("tests/machine/rke2-server.service", "rke2-server.service"),
            ("tests/image/load.service", "load.service"),
        ] {
            put(source, &format!("{units}/{unit}"), 0o644);
            std::os::unix::fs::symlink(format!("/{units}/{unit}"), wanted.join(unit))
                .expect("a link");
        }
        let drop_in = |unit: &str, text: &str| {
            let directory = tree.join(format!("etc/systemd/system/{unit}.d"));
            std::fs::create_dir_all(&directory).expect("directories");
            std::fs::write(directory.join("test.conf"), text).expect("a file");
        };
        drop_in(
            "rke2-server.service",
            "[Unit]\nConditionPathExists=!/etc/windrow-load\n",
        );
        // The program under test may be an unoptimised one, on an emulated processor, on a busy machine.
        drop_in(
            "windrow.service",
            "[Service]\nTimeoutStartSec=10min\nWatchdogSec=10min\n",
        );
    })
}

/// The state of a node at the end of its first boot, in one go. Its console is asked once the first checks of the
/// supervisor are through, however long that takes; the test's deadline ends a machine that never gets there.
const TELL: &str = r#"
  - [stty, -F, /dev/ttyS1, raw]
  - [sh, -c, 'until grep -qsx 20-namespaces.yaml /var/lib/rancher/rke2/applied; do sleep 1; done']
  - [sh, -c, 'windrow config show --origin | sed s,^,settings:, >/dev/ttyS1']
  - [sh, -c, 'sed s,^,seen:, /var/lib/rancher/rke2/seen-at-start >/dev/ttyS1']
  - [sh, -c, 'journalctl -b -o json -u windrow.service -u rke2-server.service | sed s,^,journal:, >/dev/ttyS1']
  - [sh, -c, 'systemctl show --property=ActiveEnterTimestampMonotonic windrow.service | sed s,^,ready:, >/dev/ttyS1']
  - [sh, -c, 'until windrow status -o json | grep -q supervisor-down; do sleep 1; done']
  - [python3, -c, 'import ssl, urllib.request as u; r = u.Request("https://127.0.0.1:9346/status", headers={"authorization": "Bearer 0f7c5d1e9a3b4c6d8e0f"}); open("/dev/ttyS1", "w").write("status: %d\n" % u.urlopen(r, context=ssl._create_unverified_context()).status)']
  - [sh, -c, 'printf "\nconsole:%s\n" "$(windrow console --once)" >/dev/console']
  - [sh, /usr/local/libexec/clock]
  - [sh, -c, 'echo end >/dev/ttyS1']
  - [systemctl, poweroff, --no-block]
"#;

#[test]
fn an_image_boots_from_its_boot_loader_and_holds_what_its_seed_brings_before_rke2_starts() {
    if skipped() {
        return;
    }
    let user_data = text("packaging/cloud-init/user-data.yaml");
    let disk = Disk::new(image(), &(user_data.trim_end().to_owned() + TELL));
    // The token of the status server comes from the firmware.
    let token = "type=11,value=io.systemd.credential:windrow.status-token=0f7c5d1e9a3b4c6d8e0f";
    let guest = disk.boot_with(&["-smbios", token]);
    let mut told: BTreeMap<String, Vec<String>> = BTreeMap::new();
    loop {
        let line = guest.next();
        if line == "end" {
            break;
        }
        let (what, rest) = line.split_once(':').unwrap_or(("other", &line));
        let of = told.entry(what.to_owned()).or_default();
        of.push(rest.to_owned());
    }
    let console = guest.wait_off();
    let told = |what: &str| {
        let lines = told.get(what).cloned().unwrap_or_default();
        assert!(!lines.is_empty(), "nothing of {what}\n{console}");
        lines
    };

    assert_eq!(told("status"), [" 200"]);

    // The configuration counts.
    let settings = told("settings").join("\n");
    assert!(
        settings.contains("/etc/windrow/conf.d/20-site.yaml:1"),
        "{settings}"
    );
    // The console's line on the serial line, within its columns: nobody listens where the supervisor would.
    let shown = console
        .lines()
        .find_map(|line| line.trim().strip_prefix("console:"));
    let shown = shown.unwrap_or_else(|| panic!("no line of the console in {console}"));
    assert!(
        shown.contains("RKE2's supervisor (:9345) refuses connections")
            && shown.chars().count() <= 65,
        "{shown}"
    );
    assert!(!console.contains("Invalid cloud-config"), "{console}");

    // What RKE2 read at its start: the gates were there, and the holds.
    let seen = told("seen");
    let at: f64 = seen
        .iter()
        .find_map(|line| line.strip_prefix("at ")?.parse().ok())
        .expect("the time of RKE2's start");
    let gates = format!("config {DROP_IN}");
    assert!(
        seen.iter()
            .any(|line| line.starts_with(&gates) && line.contains("APIResponseCompression=false")),
        "{seen:?}"
    );
    for line in [
        "manifest 10-app.yaml",
        "manifest 10-app.yaml.skip",
        "manifest 20-namespaces.yaml",
        "manifest 30-database.yaml",
    ] {
        assert!(seen.iter().any(|one| one == line), "{line}: {seen:?}");
    }
    // Its namespace comes before it in the same pass.
    let hidden = "manifest 30-database.yaml.skip";
    assert!(!seen.iter().any(|one| one == hidden), "{seen:?}");

    // And the journal has the order, by the kernel's clock: gates, READY, RKE2.
    say(&format!("the console says: {shown}"));
    let journal: Vec<Value> = told("journal")
        .iter()
        .map(|line| serde_json::from_str(line).expect("a journal entry"))
        .collect();
    let moment = |what: &str, is: &dyn Fn(&Value) -> bool| -> f64 {
        let entry = journal.iter().find(|entry| is(entry));
        let entry = entry.unwrap_or_else(|| panic!("no {what} in the journal: {journal:#?}"));
        let micros = entry["__MONOTONIC_TIMESTAMP"].as_str();
        micros
            .and_then(|text| text.parse::<f64>().ok())
            .expect("microseconds")
            / 1e6
    };
    let says = |entry: &Value, text: &str| {
        let message = entry["MESSAGE"].as_str();
        message.is_some_and(|message| message.contains(text))
    };
    let written = moment("gates", &|entry| {
        entry["WINDROW_CODE"] == "gates-written" || says(entry, DROP_IN)
    });
    let held = moment("hold", &|entry| says(entry, "10-app.yaml"));
    let ready: f64 = told("ready")[0]
        .split_once('=')
        .and_then(|(_, micros)| micros.parse::<f64>().ok())
        .map(|micros| micros / 1e6)
        .expect("the time of READY=1");
    let started = moment("start of RKE2", &|entry| {
        says(entry, "starts and reads its configuration")
    });
    say(&format!(
        "gates written {written:.2} s after the kernel's start, hold told {held:.2}, READY {ready:.2}, RKE2 read its files {at:.2}, said so {started:.2}"
    ));
    assert!(
        written <= ready && ready <= at && at <= started + 0.01,
        "gates {written}, READY {ready}, RKE2 read {at}, RKE2 said so {started}"
    );

    judge_clock(&told("clock"), &told("after-clock"));

    // The disk says the same, after an orderly end.
    let read = disk.read_back(&[MANIFESTS, CONFIG]);
    let marker = read.path().join(&MANIFESTS[1..]).join("10-app.yaml.skip");
    let marker = std::fs::read(marker).expect("a marker on the disk");
    assert!(Mark::parse(&marker).is_some());
}

/// Judges what was seen while the wall clock was set (`tests/image/clock`): one process all the time, which goes on deciding and takes
/// its times along.
fn judge_clock(steps: &[String], status: &[String]) {
    let processes: BTreeSet<&str> = steps
        .iter()
        .filter_map(|step| Some(step.rsplit_once(", ")?.1))
        .collect();
    assert!(steps.len() == 6 && processes.len() == 1, "{steps:?}");
    let status: Value = serde_json::from_str(&status.concat()).expect("a status document");
    let held = status["staging"]["held"].as_array().expect("a list");
    let since = |file: &str| -> Timestamp {
        let one = held.iter().find(|one| one["file"] == file);
        let since = one.and_then(|one| one["since"].as_str()?.parse().ok());
        since.unwrap_or_else(|| panic!("{file}: {status:#}"))
    };
    // Whatever the clock said then, each was held after the one before it.
    let mut before = since("10-app.yaml");
    for step in 1..=steps.len() {
        let file = format!("clock-{step}.yaml");
        let then = since(&file);
        assert!(before <= then, "{file}: {before}, {then}");
        before = then;
    }
    say(&format!("the clock was set: {steps:?}"));
}
