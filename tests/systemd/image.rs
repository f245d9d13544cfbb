//! Level 5: an image of packaging/image on an emulated machine. It boots from its boot loader, configures itself from its seed, and
//! has its power cut while Windrow holds, releases and writes gates.
//!
//! `WINDROW_POWER_CUTS=50` sets the number of cuts (2), `WINDROW_SEED=n` their moments.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::time::{Duration, Instant};

use machine::{repository, say};
use qemu::{Disk, Guest, Image, skipped};
use serde_json::Value;
use windrow_decide::{FileStage, Ledger, Mark};
use windrow_model::manifest::ManifestPath;

use crate::support::machine;
use crate::support::qemu;

const MANIFESTS: &str = "/var/lib/rancher/rke2/server/manifests";
const STATE: &str = "/var/lib/rancher/windrow";
const CONFIG: &str = "/etc/rancher/rke2/config.yaml.d";
const DROP_IN: &str = "99-zz9-windrow-gates.yaml";

fn text(path: &str) -> String {
    std::fs::read_to_string(repository(path)).expect("a file of the repository")
}

/// The image: Windrow's package, and a stand-in for RKE2 that starts at every boot.
fn image() -> &'static Image {
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
  - [sh, -c, '(echo console: && windrow console --once) >/dev/console; echo end >/dev/ttyS1']
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
    let mut lines = console.lines().map(str::trim);
    let shown = lines.find(|line| *line == "console:").and(lines.next());
    let shown = shown.unwrap_or_else(|| panic!("no line of the console in {console}"));
    assert!(
        shown.contains("127.0.0.1:9345 refuses connections") && shown.chars().count() <= 65,
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

    // The disk says the same, after an orderly end.
    let read = disk.read_back(&[MANIFESTS, CONFIG]);
    let marker = read.path().join(&MANIFESTS[1..]).join("10-app.yaml.skip");
    let marker = std::fs::read(marker).expect("a marker on the disk");
    assert!(Mark::parse(&marker).is_some());
}

/// A generator of our own: the moments depend on the seed alone (SplitMix64).
struct Chance(u64);

impl Chance {
    fn below(&mut self, bound: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (z ^ (z >> 31)) % bound
    }
}

fn number(name: &str, default: u64) -> u64 {
    let set = std::env::var(name).ok();
    set.map_or(default, |text| {
        text.parse()
            .unwrap_or_else(|_| panic!("{name} is no number"))
    })
}

/// The seed of a node under load: its cloud-init does its work once, and the boots after a cut are quick.
const LOADED: &str = r#"#cloud-config
growpart: {mode: "off"}
resize_rootfs: false
write_files:
  - path: /etc/windrow/conf.d/20-site.yaml
    content: |
      platform: rke2
  - {path: /etc/windrow-load, content: ""}
  - {path: /etc/cloud/cloud-init.disabled, content: ""}
"#;

/// The promises of the guest (`tests/image/load`): the last word about each file, and about the gates.
#[derive(Default)]
struct Promises {
    /// `held` or `released`; absent while it is changing.
    files: BTreeMap<String, String>,
    /// Which set of gates; absent while it is changing.
    gates: Option<String>,
    /// What was begun, to report what a cut may have hit.
    begun: Vec<String>,
    count: usize,
}

impl Promises {
    fn heard(&mut self, line: &str) {
        assert!(!line.starts_with("failed"), "{line}");
        let Some((word, about)) = line.split_once(' ') else {
            return;
        };
        self.count += 1;
        match (word, word.strip_prefix('?')) {
            ("held" | "released", _) => {
                self.begun.retain(|begun| !begun.ends_with(about));
                self.files.insert(about.to_owned(), word.to_owned());
            }
            ("gates", _) => {
                self.begun.retain(|begun| !begun.starts_with("?gates"));
                self.gates = Some(about.to_owned());
            }
            (_, Some("gates")) => {
                self.gates = None;
                self.begun.retain(|begun| !begun.starts_with("?gates"));
                self.begun.push(line.to_owned());
            }
            (_, Some(_)) => {
                self.files.remove(about);
                self.begun.retain(|begun| !begun.ends_with(about));
                self.begun.push(line.to_owned());
            }
            _ => {}
        }
    }
}

/// The gates of a drop-in, or of a request.
fn gates_of(text: &str) -> BTreeSet<String> {
    const KNOWN: [&str; 2] = ["APIResponseCompression", "StorageVersionHash"];
    let plain = text.replace(['"', ' '], "").replace(':', "=");
    KNOWN
        .iter()
        .flat_map(|gate| [format!("{gate}=true"), format!("{gate}=false")])
        .filter(|gate| plain.contains(gate.as_str()))
        .collect()
}

/// The sets that the load asks for, in its order.
fn asked() -> [BTreeSet<String>; 3] {
    let set = |gates: &[&str]| gates.iter().map(|&gate| gate.to_owned()).collect();
    [
        set(&["APIResponseCompression=false"]),
        set(&["APIResponseCompression=true", "StorageVersionHash=false"]),
        set(&["StorageVersionHash=true"]),
    ]
}

/// What one cut left.
#[derive(Debug, Default)]
struct Left {
    temporaries: usize,
    careless: usize,
    careless_broken: usize,
}

/// Judges a disk after a cut: nothing of Windrow's is half-written, and every promise is kept.
fn judge_disk(root: &Path, promises: &Promises) -> Left {
    let mut left = Left::default();
    let entries = |path: &str| -> BTreeMap<String, Vec<u8>> {
        let Ok(entries) = std::fs::read_dir(root.join(path.trim_start_matches('/'))) else {
            return BTreeMap::new();
        };
        entries
            .map(|entry| entry.expect("an entry"))
            .filter(|entry| entry.path().is_file())
            .map(|entry| {
                let name = entry.file_name().to_string_lossy().into_owned();
                (name, std::fs::read(entry.path()).expect("a file"))
            })
            .collect()
    };
    let temporary = |name: &str| name.starts_with(".windrow-") && name.ends_with(".tmp");
    let shown = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();

    let manifests = entries(MANIFESTS);
    for (name, content) in &manifests {
        if temporary(name) {
            left.temporaries += 1;
        } else if name.ends_with(".skip") {
            let mark = Mark::parse(content);
            assert!(mark.is_some(), "{name} is no marker: {:?}", shown(content));
        }
    }
    // What the daemon has not read yet is on the disk as a request, and it may be busy with the one before it.
    let requests = entries(&format!("{STATE}/requests"));
    // A release stands in the ledger before its marker goes; the next start takes the marker away.
    let ledger = entries(STATE).remove("ledger.json");
    let ledger = ledger.and_then(|content| serde_json::from_slice::<Ledger>(&content).ok());
    let let_through = |name: &String| {
        let path = ManifestPath::from(name.as_str());
        let entry = ledger.as_ref().and_then(|ledger| ledger.files.get(&path));
        entry.is_some_and(|entry| !matches!(entry.state, FileStage::Held { .. }))
    };
    for (name, word) in &promises.files {
        let there = manifests.contains_key(&format!("{name}.skip"));
        let asked = requests
            .keys()
            .any(|request| request.contains(name.as_str()));
        assert!(
            asked || there == (word == "held") || (there && let_through(name)),
            "{name} was said to be {word}"
        );
    }

    for (name, content) in entries(CONFIG) {
        if temporary(&name) {
            left.temporaries += 1;
            continue;
        }
        assert_eq!(name, DROP_IN);
        let gates = gates_of(&shown(&content));
        assert!(
            asked().contains(&gates) && content.ends_with(b"\n"),
            "no set that was asked for: {:?}",
            shown(&content)
        );
    }
    if let Some(gates) = &promises.gates {
        let wanted = &asked()[gates.parse::<usize>().expect("a number")];
        let drop_in = entries(CONFIG).remove(DROP_IN).unwrap_or_default();
        assert_eq!(&gates_of(&shown(&drop_in)), wanted, "gates were promised");
    }

    for (name, content) in entries(STATE) {
        assert!(!name.contains("corrupt"), "{name}: a ledger was set aside");
        if temporary(&name) {
            left.temporaries += 1;
        } else if name == "ledger.json" {
            let ledger = serde_json::from_slice::<Ledger>(&content);
            assert!(ledger.is_ok(), "{ledger:?} {:?}", shown(&content));
        }
    }
    for place in ["gates", "gates/last-known-good", "requests"] {
        for (name, content) in entries(&format!("{STATE}/{place}")) {
            if temporary(&name) {
                left.temporaries += 1;
            } else if name.ends_with(".json") {
                let value = serde_json::from_slice::<Value>(&content);
                assert!(value.is_ok(), "{place}/{name}: {:?}", shown(&content));
            }
        }
    }

    for (name, content) in entries("/var/lib/rancher/careless") {
        if !name.starts_with('.') {
            left.careless += 1;
            left.careless_broken += usize::from(content.len() != 4000);
        }
    }
    left
}

/// Judges the boot after a cut: Windrow has come to what the disk asks for.
fn judge_boot(facts: &str, promises: &Promises) {
    let facts: Value = serde_json::from_str(facts).expect("facts");
    let text = |name: &str| facts[name].as_str().unwrap_or_default().to_owned();
    assert_eq!(text("active"), "active", "{facts:#}");
    let there = facts["manifests"].as_object().expect("the directory");
    for (name, word) in &promises.files {
        let marked = there.contains_key(&format!("{name}.skip"));
        assert_eq!(marked, word == "held", "{name} was {word}: {facts:#}");
    }
    // A file whose kind is not served and that was never released is held.
    for (name, content) in there.iter().filter(|(name, _)| name.starts_with("load-")) {
        if name.ends_with(".skip") {
            let mark = content
                .as_str()
                .and_then(|text| Mark::parse(text.as_bytes()));
            assert!(mark.is_some(), "{name}: {content}");
        }
    }
    let wishes = gates_of(&text("wishes"));
    assert_eq!(gates_of(&text("dropIn")), wishes, "{facts:#}");
    let state = facts["state"].to_string();
    assert!(!state.contains("corrupt"), "{state}");
    let failed = &facts["status"]["staging"]["failed"];
    assert!(
        failed.as_array().is_none_or(Vec::is_empty),
        "{failed}: {facts:#}"
    );
}

/// Lets the load send this many words, and cuts within the time that the next one takes.
fn cut(guest: Guest, promises: &mut Promises, chance: &mut Chance) {
    let words = 3 + chance.below(30);
    let began = Instant::now();
    for _ in 0..words {
        promises.heard(&guest.next());
    }
    let one = u64::try_from(began.elapsed().as_micros()).unwrap_or(u64::MAX) / words;
    let until = Instant::now() + Duration::from_micros(chance.below(one.max(1)));
    while let Some(line) = guest.within(until.saturating_duration_since(Instant::now())) {
        promises.heard(&line);
    }
    for line in guest.cut() {
        promises.heard(&line);
    }
}

#[test]
fn a_power_cut_leaves_nothing_half_written_and_windrow_goes_on_where_it_was() {
    if skipped() {
        return;
    }
    let cuts = number("WINDROW_POWER_CUTS", 2);
    let seed = number("WINDROW_SEED", 1);
    let mut chance = Chance(seed);
    let disk = Disk::new(image(), LOADED);
    let mut promises = Promises::default();
    let mut total = Left::default();
    for cut_number in 1..=cuts {
        let guest = disk.boot();
        judge_boot(&guest.wait_for("facts"), &promises);
        guest.wait_for("load");
        cut(guest, &mut promises, &mut chance);
        let read = disk.read_back(&["/var/lib/rancher", "/etc/rancher"]);
        let left = judge_disk(read.path(), &promises);
        say(&format!(
            "cut {cut_number} of {cuts} (seed {seed}) after {} words, within {:?}: {left:?}",
            promises.count, promises.begun
        ));
        promises.count = 0;
        total.temporaries = left.temporaries;
        total.careless += left.careless;
        total.careless_broken += left.careless_broken;
    }
    let guest = disk.boot();
    judge_boot(&guest.wait_for("facts"), &promises);
    say(&format!(
        "{cuts} cuts: all of Windrow's files whole; of {} files of a careless writer {} broken",
        total.careless, total.careless_broken
    ));
}
