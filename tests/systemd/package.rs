//! The packages as users get them, in a booted machine: `packaging/build` packs the program just built, dpkg and rpm install,
//! upgrade and remove it, and systemd runs its units. `WINDROW_MACHINE_PACKAGES` names the directory of a release whose packages
//! are taken instead, and `WINDROW_MACHINE_PACKAGES_BEFORE` that of the version that they replace.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;

use machine::{Builder, Machine, repository, say, skipped, stripped};
use serde_json::Value;

use crate::support::machine;
use crate::support::own_directory::own_directory;

const RELEASE: &str = "WINDROW_MACHINE_PACKAGES";
const RELEASE_BEFORE: &str = "WINDROW_MACHINE_PACKAGES_BEFORE";
const DEB: &str = if cfg!(target_arch = "aarch64") {
    "_arm64.deb"
} else {
    "_amd64.deb"
};
const RPM: &str = if cfg!(target_arch = "aarch64") {
    ".aarch64.rpm"
} else {
    ".x86_64.rpm"
};
const MANIFESTS: &str = "/var/lib/rancher/rke2/server/manifests";
const APPLIED: &str = "/var/lib/rancher/rke2/applied";
const STATE: &str = "/var/lib/rancher/windrow";
const DROP_IN: &str = "/etc/rancher/rke2/config.yaml.d/99-zz9-windrow-gates.yaml";
const SITE: &str = "/etc/windrow/conf.d/20-site.yaml";
const CONFIGURATION: &str = "\
platform: harvester
featureGates:
  kubeApiserver:
    APIResponseCompression: false
";
/// Its kind is not served.
const WIDGET: &str =
    "apiVersion: example.com/v1\nkind: Widget\nmetadata: {name: widget, namespace: default}\n";
/// It would block the cluster for good if it were applied too early: the fail-safe keeps its hold.
const VM: &str = "\
apiVersion: kubevirt.io/v1
kind: VirtualMachine
metadata: {name: first, namespace: default}
spec:
  runStrategy: Always
  template:
    spec:
      domain: {devices: {}}
";

/// Harvester's own, whose name begins as those of RKE2's units do.
const SHUTDOWN: &str = "rke2-shutdown.service";

/// The packages of the program under test, made once: names by suffix.
struct Packages {
    directory: PathBuf,
    /// Those that are installed first; usually the same.
    before: PathBuf,
}

/// The package in a directory whose name ends like this.
fn named(directory: &Path, suffix: &str) -> String {
    let entries = std::fs::read_dir(directory).expect("a directory of packages");
    let found = entries
        .map(|entry| {
            entry
                .expect("an entry")
                .file_name()
                .to_string_lossy()
                .into_owned()
        })
        .find(|name| name.ends_with(suffix));
    found.unwrap_or_else(|| panic!("no {suffix} in {}", directory.display()))
}

/// Builds them, or says why not.
fn packages() -> Option<&'static Packages> {
    static PACKAGES: OnceLock<Option<Packages>> = OnceLock::new();
    if skipped() {
        return None;
    }
    let made = PACKAGES.get_or_init(|| {
        if let Some(release) = std::env::var_os(RELEASE) {
            let before = std::env::var_os(RELEASE_BEFORE).unwrap_or_else(|| release.clone());
            return Some(Packages {
                directory: release.into(),
                before: before.into(),
            });
        }
        for tool in ["dpkg-deb", "rpmbuild", "strip", "python3"] {
            if Command::new(tool).arg("--version").output().is_err() {
                assert!(
                    std::env::var_os("WINDROW_REQUIRE_MACHINE").is_none(),
                    "WINDROW_REQUIRE_MACHINE is set, and there is no {tool} to build a package with"
                );
                say(&format!("skipped: no {tool} to build a package with"));
                return None;
            }
        }
        Some(build())
    });
    made.as_ref()
}

fn build() -> Packages {
    let directory = own_directory("packages");
    succeed(
        Command::new(repository("packaging/build"))
            .arg("--fast")
            .arg("--programs")
            .arg(stripped(&directory))
            .arg("-o")
            .arg(&directory),
    );
    Packages {
        before: directory.clone(),
        directory,
    }
}

fn succeed(command: &mut Command) {
    let output = command.output().expect("a program that can be started");
    assert!(output.status.success(), "{command:?}: {output:?}");
}

/// A Harvester node with RKE2 and two manifests, before Windrow is installed.
fn node(packages: &Packages) -> Machine {
    node_with(packages).boot()
}

fn node_with(packages: &Packages) -> Builder {
    let rke2 = std::fs::read_to_string(repository("tests/machine/rke2")).expect("the stand-in");
    // Its version decides which gates it takes; the real binary contains it too.
    let (shebang, rest) = rke2.split_once('\n').expect("a script");
    Builder::rke2()
        .script(
            "/usr/local/bin/rke2",
            &format!("{shebang}\n# v1.36.3+rke2r1\n{rest}"),
        )
        .bind(packages.directory.clone(), "/packages")
        .bind(packages.before.clone(), "/packages-before")
        .file(
            &format!("/etc/systemd/system/{SHUTDOWN}"),
            "[Service]\nExecStart=/bin/true\n",
        )
        .file(SITE, CONFIGURATION)
        .file(&format!("{MANIFESTS}/widget.yaml"), WIDGET)
        .file(&format!("{MANIFESTS}/vm.yaml"), VM)
        .file(&format!("{MANIFESTS}/theirs.yaml"), WIDGET)
        .file(&format!("{MANIFESTS}/theirs.yaml.skip"), "harvester\n")
}

/// What systemd says of the whole machine.
fn system_state(machine: &Machine) -> String {
    let output = machine.run(&["systemctl", "is-system-running"]);
    String::from_utf8_lossy(&output.stdout).trim().to_owned()
}

/// The path of a package in the machine.
fn inside(packages: &Packages, suffix: &str) -> String {
    format!("/packages/{}", named(&packages.directory, suffix))
}

/// The path of the package that it replaces.
fn inside_before(packages: &Packages, suffix: &str) -> String {
    format!("/packages-before/{}", named(&packages.before, suffix))
}

fn held(machine: &Machine, name: &str) -> Option<Value> {
    let content = machine.read(&format!("{MANIFESTS}/{name}.skip"))?;
    serde_json::from_str(&content).ok()
}

fn applied(machine: &Machine, name: &str) -> bool {
    machine
        .read(APPLIED)
        .is_some_and(|names| names.lines().any(|line| line == name))
}

/// The output of a package manager.
fn say_of(machine: &Machine, command: &[&str]) -> String {
    let output = machine.run(command);
    let said = format!(
        "{}{}",
        String::from_utf8_lossy(&output.stdout),
        String::from_utf8_lossy(&output.stderr)
    );
    assert!(output.status.success(), "{command:?}: {said}");
    said
}

/// Both files are held, the gates are written, and RKE2 runs with them.
fn wait_at_work(machine: &Machine) {
    machine.wait_unit("windrow.service", "active");
    machine.ok(&["systemctl", "start", "rke2-server.service"]);
    machine.wait_unit("rke2-server.service", "active");
    assert!(held(machine, "widget.yaml").is_some() && held(machine, "vm.yaml").is_some());
    let drop_in = machine.read(DROP_IN).expect("a gate drop-in");
    assert!(drop_in.contains("APIResponseCompression"), "{drop_in}");
}

/// After an upgrade: another process, the same holds, the same configuration.
fn upgrade(machine: &Machine, command: &[&str]) {
    let before = machine.unit("windrow.service", "MainPID");
    // Its reason may have changed by now; the hold is the same if its time is.
    let since = |machine: &Machine| held(machine, "vm.yaml").map(|mark| mark["since"].clone());
    let known = since(machine);
    assert!(known.is_some());
    say_of(machine, command);
    machine.wait_until("another daemon runs", |machine| {
        machine.unit("windrow.service", "SubState") == "running"
            && machine.unit("windrow.service", "MainPID") != before
    });
    assert_eq!(since(machine), known);
    assert_eq!(machine.read(SITE).as_deref(), Some(CONFIGURATION));
    assert!(machine.exists(DROP_IN));
    assert!(!applied(machine, "vm.yaml") && !applied(machine, "widget.yaml"));
}

/// After a removal: nothing of Windrow's keeps RKE2 from anything, and that was reported.
fn assert_gone(machine: &Machine, said: &str) {
    for what in ["lifted widget.yaml.skip", "lifted vm.yaml.skip", DROP_IN] {
        assert!(said.contains(what), "{what} is not said: {said}");
    }
    assert!(!machine.exists(DROP_IN) && !machine.exists("/usr/bin/windrow"));
    assert!(!machine.exists("/usr/lib/systemd/system/windrow.service"));
    machine.wait_until("RKE2 applies what was held", |machine| {
        applied(machine, "widget.yaml") && applied(machine, "vm.yaml")
    });
    assert!(machine.exists(&format!("{MANIFESTS}/theirs.yaml.skip")));
    assert_eq!(machine.unit("windrow.service", "ActiveState"), "inactive");
    assert_eq!(machine.read(SITE).as_deref(), Some(CONFIGURATION));
    machine.ok(&["systemctl", "restart", "rke2-server.service"]);
}

#[test]
fn the_deb_is_installed_upgraded_removed_and_purged() {
    let Some(packages) = packages() else { return };
    let machine = node(packages);
    let deb = inside(packages, DEB);
    let before = inside_before(packages, DEB);
    say_of(&machine, &["dpkg", "--install", &before]);
    assert_eq!(
        machine.ok(&["systemctl", "is-enabled", "windrow.service"]),
        "enabled"
    );
    wait_at_work(&machine);
    for (unit, has_ours) in [("rke2-server.service", true), (SHUTDOWN, false)] {
        let drop_ins = machine.unit(unit, "DropInPaths");
        assert_eq!(drop_ins.contains("windrow"), has_ours, "{unit}: {drop_ins}");
    }
    assert_eq!(say_of(&machine, &["dpkg", "--verify", "windrow"]), "");
    assert!(
        machine
            .ok(&["windrow", "--version"])
            .starts_with("windrow ")
    );
    // The advice for a message is in the journal's catalogue.
    let listed = machine.ok(&["journalctl", "--list-catalog"]);
    assert!(listed.contains("Windrow: held-by-hand"), "{listed}");

    upgrade(&machine, &["dpkg", "--install", &deb]);

    let said = say_of(&machine, &["dpkg", "--remove", "windrow"]);
    assert_gone(&machine, &said);
    assert!(machine.exists(&format!("{STATE}/ledger.json")), "{said}");
    say_of(&machine, &["dpkg", "--purge", "windrow"]);
    assert!(!machine.exists(STATE));
    assert_eq!(machine.read(SITE).as_deref(), Some(CONFIGURATION));
    let left = machine.sh("find /etc/systemd /usr/lib /usr/share /run -name '*windrow*'");
    assert_eq!(left, "");
}

#[test]
fn the_rpm_is_installed_upgraded_and_erased() {
    let Some(packages) = packages() else { return };
    let machine = node(packages);
    // As SUSE and Fedora have it.
    machine.write(
        "/etc/systemd/system-preset/99-default-disable.preset",
        "disable *\n",
    );
    let rpm = inside(packages, RPM);
    let before = inside_before(packages, RPM);
    // This machine's own packages are dpkg's; rpm does not know them.
    say_of(&machine, &["rpm", "--install", "--nodeps", &before]);
    // As usual for packages of this family, nothing is started, and presets say what is enabled.
    let enabled = machine.run(&["systemctl", "is-enabled", "windrow.service"]);
    assert_eq!(String::from_utf8_lossy(&enabled.stdout).trim(), "disabled");
    assert_eq!(machine.unit("windrow.service", "ActiveState"), "inactive");
    machine.ok(&["systemctl", "enable", "--now", "windrow.service"]);
    wait_at_work(&machine);
    assert_eq!(
        say_of(&machine, &["rpm", "--verify", "--nodeps", "windrow"]),
        ""
    );

    let again = ["rpm", "--upgrade", "--replacepkgs", "--nodeps", &rpm];
    upgrade(&machine, &again);

    let said = say_of(&machine, &["rpm", "--erase", "--nodeps", "windrow"]);
    assert_gone(&machine, &said);
    let left = machine.sh("find /etc/systemd /usr/lib /usr/share /run -name '*windrow*'");
    assert_eq!(left, "");
}

#[test]
fn what_the_administrator_disabled_stays_so_and_no_preset_takes_a_terminal() {
    let Some(packages) = packages() else { return };
    // The boot has an end only when the test says so.
    let booting = "[Unit]\nDefaultDependencies=no\n[Service]\nType=oneshot\n\
                   ExecStart=/bin/sh -c 'until [ -e /run/booted ]; do sleep 0.2; done'\n";
    let machine = node_with(packages)
        .file("/etc/systemd/system/booting.service", booting)
        .file(
            "/etc/systemd/system/multi-user.target.d/booting.conf",
            "[Unit]\nWants=booting.service\n",
        )
        .boot();
    let deb = inside(packages, DEB);
    say_of(&machine, &["dpkg", "--install", &deb]);
    machine.wait_unit("windrow.service", "active");
    machine.ok(&["systemctl", "disable", "--now", "windrow.service"]);
    // An upgrade at boot, and one later.
    for is_up in [false, true] {
        if is_up {
            machine.sh("touch /run/booted");
            machine.wait_until("the system is up", |machine| {
                system_state(machine) != "starting"
            });
        }
        let state = system_state(&machine);
        assert_eq!(state == "starting", !is_up, "{state}");
        say_of(&machine, &["dpkg", "--install", &deb]);
        assert_eq!(machine.unit("windrow.service", "ActiveState"), "inactive");
        assert_eq!(
            machine.sh("systemctl list-jobs windrow.service --no-legend"),
            ""
        );
    }
    let enabled = |unit: &str| {
        let output = machine.run(&["systemctl", "is-enabled", unit]);
        String::from_utf8_lossy(&output.stdout).trim().to_owned()
    };
    assert_eq!(enabled("windrow.service"), "disabled");
    // What a first boot without a machine-id does.
    machine.ok(&["systemctl", "preset-all", "--preset-mode=full"]);
    assert_eq!(enabled("windrow.service"), "enabled");
    assert_eq!(enabled("windrow-console@tty1.service"), "disabled");
    assert_eq!(enabled("getty@tty1.service"), "enabled");
}

#[test]
fn a_removal_takes_the_holds_away_even_when_the_program_cannot_be_executed() {
    let Some(packages) = packages() else { return };
    let machine = node(packages);
    say_of(&machine, &["dpkg", "--install", &inside(packages, DEB)]);
    wait_at_work(&machine);
    machine
        .sh("systemctl stop windrow.service; printf '\\177ELF and then nothing' | tee /usr/bin/windrow >/usr/bin/windrowd");
    let said = say_of(&machine, &["dpkg", "--remove", "windrow"]);
    assert!(said.contains("instead"), "{said}");
    assert!(!machine.exists(DROP_IN));
    assert!(held(&machine, "widget.yaml").is_none() && held(&machine, "vm.yaml").is_none());
    assert!(machine.exists(&format!("{MANIFESTS}/theirs.yaml.skip")));
}

#[test]
fn a_package_that_cloud_init_installs_during_the_boot_neither_hangs_it_nor_comes_after_rke2() {
    let Some(packages) = packages() else { return };
    let user_data = format!(
        "#cloud-config\nbootcmd: [[dpkg, -i, {}]]\nwrite_files:\n- path: {MANIFESTS}/late.yaml\n  content: {WIDGET:?}\n",
        inside(packages, DEB)
    );
    let machine = Builder::rke2()
        .bind(packages.directory.clone(), "/packages")
        .bind(packages.before.clone(), "/packages-before")
        .enabled("rke2-server.service")
        .file(
            "/etc/cloud/cloud.cfg.d/99-zz-bootcmd.cfg",
            "cloud_init_modules: [bootcmd, write-files]\n",
        )
        .user_data(&user_data)
        .boot();
    machine.wait_booted();
    assert_eq!(machine.unit("windrow.service", "ActiveState"), "active");
    let ready = machine.monotonic("windrow.service", "ActiveEnterTimestamp");
    let rke2 = machine.monotonic("rke2-server.service", "ExecMainStartTimestamp");
    assert!(ready > 0 && ready <= rke2, "{ready} {rke2}");
    assert!(held(&machine, "late.yaml").is_some() && !applied(&machine, "late.yaml"));
}

/// How exposed each unit may be, in tenths of `systemd-analyze security`'s figure.
const EXPOSURE: &[(&str, &str)] = &[
    ("windrow.service", "19"),
    ("windrow-failsafe.service", "12"),
    ("windrow-console@.service", "12"),
    ("windrow-ready.service", "6"),
    ("windrow-orphans.service", "20"),
    ("windrow-rack.service", "14"),
];

#[test]
fn every_unit_is_less_exposed_than_it_may_be_and_gives_its_reason_for_each_exception() {
    let Some(packages) = packages() else { return };
    let machine = node(packages);
    say_of(&machine, &["dpkg", "--install", &inside(packages, DEB)]);
    machine.wait_unit("windrow.service", "active");
    let services = machine
        .sh("cd /usr/lib/systemd/system && ls -1 windrow*.service && cd ../../windrow && ls -1 *.service");
    let bounded: Vec<&str> = EXPOSURE.iter().map(|(unit, _)| *unit).collect();
    for unit in services.lines() {
        assert!(bounded.contains(&unit), "{unit} has no bound in EXPOSURE");
    }
    for (unit, bound) in EXPOSURE {
        let directory = match *unit {
            // Where the daemon's unit puts it.
            "windrow-orphans.service" => "/etc/systemd/system",
            _ => "/usr/lib/systemd/system",
        };
        let path = format!("{directory}/{unit}");
        let threshold = format!("--threshold={bound}");
        let analyze = [
            "systemd-analyze",
            "security",
            "--offline=true",
            "--no-pager",
        ];
        let command = [&analyze[..], &[&threshold, &path]].concat();
        let judged = machine.run(&command);
        let table = String::from_utf8_lossy(&judged.stdout).into_owned();
        say(table.lines().last().unwrap_or_default());
        assert!(judged.status.success(), "{unit}: {judged:?}");

        let command = [&analyze[..], &["--json=short", &path]].concat();
        let rows: Value = serde_json::from_str(&machine.ok(&command)).expect("JSON");
        let text = machine.read(&path).expect("a unit");
        let silent: Vec<&str> = rows
            .as_array()
            .expect("rows")
            .iter()
            .filter(|row| row["set"] == false && row["exposure"].as_str() != Some("0.0"))
            .filter_map(|row| row["name"].as_str())
            // Of each directive the name before its value; a root image is for containers.
            .filter_map(|name| {
                name.split('=')
                    .next()
                    .filter(|name| !name.starts_with("RootDirectory"))
            })
            .filter(|name| !text.contains(&format!("{name}=")))
            .collect();
        assert!(silent.is_empty(), "{unit} says nothing about {silent:?}");
    }
}
