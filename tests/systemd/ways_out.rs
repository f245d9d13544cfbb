//! No hold without a way out, on a booted machine. Whatever happens to Windrow (masked, disabled, removed, replaced,
//! broken, hanging, shut out of its directories), each hold is either lifted, where lifting does no harm, or that
//! boot's journal warns which file stays hidden and how to free it.
//!
//! One machine serves several cases, one boot after the other.

use machine::{Builder, Machine, say, skipped};
use serde_json::Value;

use crate::support::machine;

const MANIFESTS: &str = "/var/lib/rancher/rke2/server/manifests";
const APPLIED: &str = "/var/lib/rancher/rke2/applied";
const DROP_IN: &str = "/etc/rancher/rke2/config.yaml.d/99-zz9-windrow-gates.yaml";
const ORPHANS: &str = "/etc/systemd/system/windrow-orphans.service";
/// The journal's number for a warning.
const WARNING: u8 = 4;

/// Its kind is not served: held, and lifting it does no harm.
const WIDGET: &str =
    "apiVersion: example.com/v1\nkind: Widget\nmetadata: {name: widget, namespace: default}\n";
/// Applying it too early blocks the cluster for good: held, whatever happens.
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

/// Hidden by Harvester's own, empty marker while a node is upgraded (from v1.7.2 on).
const HARVESTERS: &str = "rke2-multus.yaml";

fn node() -> Builder {
    Builder::node()
        .file(
            "/usr/lib/windrow/conf.d/10-image.yaml",
            "platform: harvester\n",
        )
        .file(&format!("{MANIFESTS}/widget.yaml"), WIDGET)
        .file(&format!("{MANIFESTS}/vm.yaml"), VM)
        .file(&format!("{MANIFESTS}/{HARVESTERS}"), WIDGET)
        .file(&skip(HARVESTERS), "")
}

/// The same where Windrow wrote a feature gate for the installed version of RKE2.
fn node_with_gates() -> Builder {
    let rke2 = std::fs::read_to_string(machine::repository("tests/machine/rke2"));
    let rke2 = rke2.expect("the stand-in");
    let (shebang, rest) = rke2.split_once('\n').expect("a script");
    node()
        .script(
            "/usr/local/bin/rke2",
            &format!("{shebang}\n# v1.36.3+rke2r1\n{rest}"),
        )
        .file(
            "/usr/lib/windrow/conf.d/20-gates.yaml",
            "featureGates:\n  kubeApiserver:\n    APIResponseCompression: false\n",
        )
}

fn skip(name: &str) -> String {
    format!("{MANIFESTS}/{name}.skip")
}

fn held(machine: &Machine, name: &str) -> bool {
    machine.exists(&skip(name))
}

fn applied(machine: &Machine, name: &str) -> bool {
    machine
        .read(APPLIED)
        .is_some_and(|names| names.lines().any(|line| line == name))
}

/// Waits until the daemon holds both files and RKE2 has looked at the directory.
fn wait_held(machine: &Machine) {
    machine.wait_unit("windrow.service", "active");
    machine.wait_unit("rke2-server.service", "active");
    machine.wait_until("both are held", |machine| {
        held(machine, "widget.yaml") && held(machine, "vm.yaml")
    });
}

/// Makes the daemon hold both files again, although they were released.
fn hold_again(machine: &Machine) {
    machine.sh(&format!(
        "systemctl stop rke2-server.service windrow.service; rm -rf /var/lib/rancher/windrow {APPLIED}; \
         rm -f {MANIFESTS}/widget.yaml.skip {MANIFESTS}/vm.yaml.skip; \
         systemctl start windrow.service rke2-server.service"
    ));
    wait_held(machine);
}

fn messages(machine: &Machine, arguments: &[&str], worst: u8) -> Vec<String> {
    let entries = machine.journal(arguments);
    let text = |value: &Value| value.as_str().map(str::to_owned);
    entries
        .iter()
        .filter(|entry| {
            let priority = text(&entry["PRIORITY"]).and_then(|one| one.parse::<u8>().ok());
            priority.is_some_and(|priority| priority <= worst)
        })
        .filter_map(|entry| text(&entry["MESSAGE"]))
        .collect()
}

/// Waits until this boot's journal warns that `name` stays hidden, with the command that frees it; and tries the
/// command.
fn wait_warned_and_free(machine: &Machine, name: &str) {
    let marker = skip(name);
    let command = format!("rm '{marker}'");
    machine.wait_until(
        format!("a warning names {name} and how to free it"),
        |machine| {
            messages(machine, &["--boot"], WARNING)
                .iter()
                .any(|message| message.contains("stays hidden") && message.contains(&command))
        },
    );
    assert!(held(machine, name) && !applied(machine, name));
    machine.sh(&command);
    machine.wait_until(format!("RKE2 applies {name}"), |machine| {
        applied(machine, name)
    });
}

/// The result of every case: the harmless hold is lifted before or while RKE2 runs, the other one is kept and named.
fn assert_ways_out(machine: &Machine) {
    machine.wait_unit("rke2-server.service", "active");
    machine.wait_until("RKE2 applies what was lifted", |machine| {
        applied(machine, "widget.yaml")
    });
    assert!(!held(machine, "widget.yaml"));
    wait_warned_and_free(machine, "vm.yaml");
}

/// Lifted before RKE2's first look: RKE2 is ordered after it.
fn assert_lifted_before_rke2(machine: &Machine, unit: &str) {
    let done = machine.monotonic(unit, "ExecMainExitTimestamp");
    let rke2 = machine.monotonic("rke2-server.service", "ExecMainStartTimestamp");
    assert!(done > 0 && done <= rke2, "{unit} {done}, rke2 {rke2}");
}

#[test]
fn masked_disabled_and_an_image_without_windrow_leave_no_hold_without_a_way_out() {
    if skipped() {
        return;
    }
    let mut machine = node_with_gates().programs_copied().boot();
    wait_held(&machine);
    assert!(machine.exists(ORPHANS) && machine.exists(DROP_IN));

    machine.sh("systemctl mask windrow.service");
    machine.reboot();
    assert_ways_out(&machine);
    assert_lifted_before_rke2(&machine, "windrow-orphans.service");
    let said = messages(&machine, &["--boot"], WARNING).join("\n");
    assert!(said.contains("windrow.service is masked"), "{said}");
    assert!(
        machine.exists(DROP_IN),
        "the program checks it before each start of RKE2"
    );

    machine.sh("systemctl unmask windrow.service");
    hold_again(&machine);
    machine.sh("systemctl disable windrow.service");
    machine.reboot();
    assert_ways_out(&machine);
    let said = messages(&machine, &["--boot"], WARNING).join("\n");
    assert!(said.contains("windrow.service is disabled"), "{said}");

    // An image without it: what is below /usr is gone, /etc/systemd and /var/lib/rancher persist.
    hold_again(&machine);
    machine.sh(
        "systemctl enable windrow.service; rm -rf /usr/bin/windrow /usr/bin/windrowd /usr/lib/windrow \
         /usr/lib/systemd/system/windrow* /usr/lib/systemd/system/rke2-*.service.d",
    );
    machine.reboot();
    assert_ways_out(&machine);
    assert_lifted_before_rke2(&machine, "windrow-orphans.service");
    assert!(!machine.exists(DROP_IN), "nothing checks its gates");
    assert_eq!(machine.read(&skip(HARVESTERS)).as_deref(), Some(""));
    assert!(!applied(&machine, HARVESTERS));
    let said = messages(&machine, &["--boot"], WARNING).join("\n");
    assert!(said.contains(&format!("removed {DROP_IN}")), "{said}");
    // Nothing of Windrow's is left: the next boot removes the rest.
    assert!(machine.exists(ORPHANS));
    machine.reboot();
    machine.wait_unit("rke2-server.service", "active");
    let left = machine.sh("find /etc/systemd -name '*windrow-orphans*'");
    assert_eq!(left, "");
}

/// Ignores SIGTERM, as a stuck program does.
const HANGS: &str =
    "#!/bin/sh\ntrap '' TERM\necho windrow hangs >&2\nwhile :; do sleep 1000; done\n";

/// What an earlier boot left behind, of any size.
fn mark(on_failure: &str, why: &str) -> String {
    format!(
        "{{\n  \"by\": \"windrow\",\n  \"file\": \"x\",\n  \"why\": \"{why}\",\n  \"onFailure\": \"{on_failure}\"\n}}\n"
    )
}

#[test]
fn a_program_that_hangs_and_ignores_sigterm_costs_rke2_fifteen_seconds_and_no_hold() {
    if skipped() {
        return;
    }
    let machine = node()
        .programs_replaced(HANGS)
        .file(&skip("widget.yaml"), mark("lift", "it waits"))
        .file(&skip("vm.yaml"), mark("keep", "it waits"))
        .file(DROP_IN, "kube-apiserver-arg+:\n- feature-gates+=A=true\n")
        // It gives up after the first try: the others are the same. And the gates were checked after RKE2 was installed, which is as old as
        // the machine's disk.
        .drop_in(
            "windrow.service",
            &format!(
                "[Unit]\nStartLimitBurst=1\n[Service]\nExecStartPre=+/usr/bin/touch {DROP_IN}\n"
            ),
        )
        .boot();
    // The limits that the units promise.
    let start = machine.unit("windrow.service", "TimeoutStartUSec");
    let start = start.strip_suffix('s').expect("less than a minute");
    let start: u64 = start.parse().expect("seconds");
    assert_eq!(
        machine.unit("windrow.service", "TimeoutStartFailureMode"),
        "kill"
    );
    let hook = machine
        .read("/usr/lib/windrow/before-rke2")
        .expect("a script");
    let hook: u64 = hook
        .split("timeout --signal=KILL ")
        .skip(1)
        .map(|rest| {
            rest.split(' ')
                .next()
                .and_then(|one| one.parse::<u64>().ok())
        })
        .map(|limit| limit.expect("seconds"))
        .sum();
    assert!(start + hook <= 15, "{start} {hook}");

    machine.wait_unit("rke2-server.service", "active");
    // SIGKILL at the limit, and not SIGTERM and a second limit before it.
    let journal = ["--boot", "--unit=windrow.service"];
    machine.wait_journal(&journal, "start operation timed out. Killing.");
    let first = &machine.journal(&journal)[0]["__MONOTONIC_TIMESTAMP"];
    let first = first.as_str().and_then(|one| one.parse::<u64>().ok());
    let started = first.expect("microseconds");
    let rke2 = machine.monotonic("rke2-server.service", "ExecMainStartTimestamp");
    say(&format!(
        "start of a windrow.service that hangs to the start of rke2-server: {:.1} s",
        (rke2 - started) as f64 / 1e6
    ));
    let said = messages(&machine, &["--boot"], WARNING).join("\n");
    assert!(
        said.contains("gates settle did not end within 4 s"),
        "{said}"
    );
    assert!(
        machine.exists(DROP_IN),
        "its gates were checked for the version that was there"
    );
    assert_ways_out(&machine);

    // An upgrade: what lies there was checked for another RKE2. Its own time is that of its build.
    machine.sh("sleep 1; cp -p /usr/local/bin/rke2 /usr/local/bin/rke2.new; mv /usr/local/bin/rke2.new /usr/local/bin/rke2");
    machine.ok(&["systemctl", "restart", "rke2-server.service"]);
    machine.wait_unit("rke2-server.service", "active");
    assert!(!machine.exists(DROP_IN));
    let said = messages(&machine, &["--boot"], WARNING).join("\n");
    assert!(said.contains("was killed or failed: removed"), "{said}");
}

#[test]
fn a_stray_sigterm_brings_the_daemon_back_and_a_second_one_neither_loops_nor_lifts() {
    if skipped() {
        return;
    }
    let machine = node().boot();
    wait_held(&machine);
    let mode = machine.sh("stat -c %a /etc/rancher/rke2");
    assert_eq!(
        mode, "755",
        "RKE2's own mode: others may read a kubeconfig there"
    );
    machine.ok(&["systemctl", "kill", "--signal=TERM", "windrow.service"]);
    machine.wait_until("the daemon is there again", |machine| {
        machine.unit("windrow.service", "NRestarts") == "1"
            && machine.unit("windrow.service", "SubState") == "running"
    });
    assert!(held(&machine, "widget.yaml") && held(&machine, "vm.yaml"));
    machine.ok(&["systemctl", "stop", "windrow.service"]);
    assert_eq!(machine.unit("windrow.service", "ActiveState"), "inactive");
    assert_eq!(machine.unit("windrow.service", "Result"), "success");

    // Started by hand, and then by systemd too.
    machine.sh("systemd-run --unit=by-hand --service-type=notify windrowd; systemctl start windrow.service || true");
    machine.wait_unit("windrow-failsafe.service", "inactive");
    machine.wait_journal(
        &["--boot", "--unit=windrow-failsafe.service"],
        "another Windrow runs on this node",
    );
    assert_eq!(machine.unit("windrow.service", "ExecMainStatus"), "75");
    assert_eq!(machine.unit("windrow.service", "NRestarts"), "0");
    assert_eq!(machine.unit("windrow.service", "ActiveState"), "failed");
    assert_eq!(machine.unit("by-hand.service", "ActiveState"), "active");
    assert!(held(&machine, "widget.yaml") && held(&machine, "vm.yaml"));

    // A name as long as names may be, and two files of one name: neither keeps the others from being lifted.
    let long = format!("{}.yaml", "n".repeat(240));
    machine.write(&format!("{MANIFESTS}/{long}"), WIDGET);
    machine.write(&format!("{MANIFESTS}/sub/widget.yaml"), WIDGET);
    machine.wait_until("both are held", |machine| held(machine, &long));
    machine.write(
        "/etc/systemd/system/windrow.service.d/test.conf",
        "[Service]\nExecStart=\nExecStart=/bin/false\nRestartSec=0\n",
    );
    machine.sh("systemctl kill --signal=KILL by-hand.service; systemctl daemon-reload; systemctl reset-failed windrow.service; systemctl start windrow.service || true");
    machine.wait_until("RKE2 applies what was lifted", |machine| {
        applied(machine, "widget.yaml") && applied(machine, &long)
    });
    wait_warned_and_free(&machine, "vm.yaml");

    // A package is removed in a transaction, which has another /var/lib/rancher: what looks after holds stays.
    machine.sh(
        "unshare --mount sh -c 'mount -t tmpfs none /var/lib/rancher && TRANSACTIONAL_UPDATE=true /usr/lib/windrow/failsafe cleanup'",
    );
    assert!(machine.exists(ORPHANS));
    machine.sh("/usr/lib/windrow/failsafe cleanup");
    assert!(!machine.exists(ORPHANS));
}

#[test]
fn a_program_that_cannot_be_executed_leaves_markers_of_any_size_a_way_out_and_no_gates() {
    if skipped() {
        return;
    }
    // An empty file is a script that succeeds, for a shell.
    let large = "it waits ".repeat(40_000);
    let mut machine = node()
        .programs_replaced("")
        .file(&skip("widget.yaml"), mark("lift", &large))
        .file(&skip("vm.yaml"), mark("keep", &large))
        .file(DROP_IN, "kube-apiserver-arg+:\n- feature-gates+=A=true\n")
        .boot();
    machine.wait_unit("rke2-server.service", "active");
    assert!(
        !machine.exists(DROP_IN),
        "RKE2 starts without unchecked gates"
    );
    assert_ways_out(&machine);
    let said = messages(&machine, &["--boot"], WARNING).join("\n");
    assert!(said.contains(&format!("removed {DROP_IN}")), "{said}");

    // A program that runs, and fails at this: nothing has checked the gates either.
    machine.sh(&format!(
        "printf '#!/bin/sh\\n[ \"$1\" = --version ] || exit 101\\necho windrow 0\\n' >/usr/bin/windrow; \
         mkdir -p $(dirname {DROP_IN}); echo 'kube-apiserver-arg+: [feature-gates+=A=true]' >{DROP_IN}; \
         /usr/lib/windrow/before-rke2"
    ));
    assert!(!machine.exists(DROP_IN), "nothing has checked them");

    // Cut off, and with the manifests directory behind a link.
    let place = "/srv/manifests";
    machine.write(&skip("widget.yaml"), &mark("lift", "it waits"));
    machine.write(&skip("vm.yaml"), &mark("keep", "it waits"));
    machine.sh(&format!(
        "printf '\\177ELF and then nothing' | tee /usr/bin/windrow >/usr/bin/windrowd; systemctl stop rke2-server.service; rm {APPLIED}; \
         mv {MANIFESTS} {place}; ln -s ../../../../..{place} {MANIFESTS}"
    ));
    machine.reboot();
    assert_ways_out(&machine);
}

#[test]
fn data_behind_a_link_is_staged_also_when_what_windrow_remembers_is_read_only() {
    if skipped() {
        return;
    }
    let mut machine = node().boot();
    wait_held(&machine);
    // Relative links: this test looks at the machine's files from outside, where an absolute one leads to the host's.
    // The whole data directory, and then what Windrow remembers, somewhere else.
    machine.sh(
        "systemctl stop rke2-server.service windrow.service; rm -rf /var/lib/rancher/windrow; mkdir -p /srv /data; \
         mv /var/lib/rancher/rke2 /srv/rke2; ln -s ../../../srv/rke2 /var/lib/rancher/rke2; \
         mkdir /srv/windrow; ln -s ../../../srv/windrow /var/lib/rancher/windrow; rm /srv/rke2/server/manifests/*.skip",
    );
    machine.reboot();
    wait_held(&machine);
    assert!(machine.exists("/srv/rke2/server/manifests/vm.yaml.skip"));
    assert!(machine.exists("/srv/windrow/ledger.json"));
    machine.ok(&["windrow", "config", "check"]);

    // What Windrow remembers cannot be written: it holds all the same.
    machine.sh(
        "systemctl stop windrow.service; rm /srv/rke2/server/manifests/*.skip /srv/windrow/ledger.json; \
         mount --bind -o ro /srv/windrow /srv/windrow; systemctl start --no-block windrow.service",
    );
    machine.wait_until("held, or the fail-safe has said why not", |machine| {
        held(machine, "vm.yaml") && machine.unit("windrow.service", "ActiveState") == "active"
    });
    let said = messages(&machine, &["--boot", "--unit=windrow.service"], WARNING).join("\n");
    assert!(said.contains("/var/lib/rancher/windrow"), "{said}");
    machine.sh("systemctl stop windrow.service; umount /srv/windrow");
}

#[test]
fn what_the_script_lifted_is_told_as_such_and_not_held_again_once_the_program_is_back() {
    if skipped() {
        return;
    }
    let machine = node().programs_copied().boot();
    wait_held(&machine);
    // Without RKE2, which would apply a released file: it would not be held again anyway.
    machine.sh(
        "systemctl stop rke2-server.service; mkdir /root/sound; mv /usr/bin/windrow /usr/bin/windrowd /root/sound; \
         install -m 755 /dev/null /usr/bin/windrow; install -m 755 /dev/null /usr/bin/windrowd; systemctl kill --signal=KILL windrow.service",
    );
    machine.wait_unit("windrow.service", "failed");
    machine.wait_until("the script lifts it", |machine| {
        !held(machine, "widget.yaml")
    });
    machine.wait_unit("windrow-failsafe.service", "inactive");
    let laid = machine.sh("cat /var/lib/rancher/windrow/requests/*.json");
    let laid: Value = serde_json::from_str(&laid).expect("one request");
    let digest = laid["digest"].as_str().expect("of one content");
    assert!(
        digest.len() == 64 && laid["file"] == "widget.yaml",
        "{laid}"
    );
    // The command that frees a file works whatever the file's name is.
    let quoted = skip("it's $HOME.yaml");
    machine.write(&quoted, &mark("keep", "it waits"));
    let said = machine.sh("/usr/lib/windrow/failsafe");
    let line = said.lines().find(|line| line.contains("it's $HOME"));
    let (_, command) = line
        .and_then(|line| line.split_once("To free it: "))
        .expect("a command");
    machine.sh(command);
    assert!(!machine.exists(&quoted), "{command}");
    machine.sh(
        "mv /root/sound/* /usr/bin; systemctl reset-failed windrow.service; systemctl start windrow.service",
    );
    let journal = ["--boot", "--unit=windrow.service"];
    machine.wait_journal(&journal, "the fail-safe lifted its hold");
    let said = messages(&machine, &journal, WARNING).join("\n");
    assert!(!said.contains("removed by someone else"), "{said}");
    assert!(!held(&machine, "widget.yaml") && held(&machine, "vm.yaml"));
}

/// Fails five times at once, so that windrow.service gives up.
const NEVER_STARTS: &str = "[Service]\nExecStart=\nExecStart=/bin/false\nRestartSec=0\n";
const TEST_DROP_IN: &str = "/etc/systemd/system/windrow.service.d/test.conf";

/// The names of a list of the status.
fn listed(machine: &Machine, list: &str) -> Vec<String> {
    let text = machine.read("/run/windrow/status.json").unwrap_or_default();
    let status: Value = serde_json::from_str(&text).unwrap_or_default();
    let files = status["staging"][list].as_array();
    let names = files
        .into_iter()
        .flatten()
        .filter_map(|file| file["file"].as_str());
    names.map(str::to_owned).collect()
}

#[test]
fn on_a_full_disk_what_is_not_held_is_not_listed_as_held_and_every_release_works() {
    if skipped() {
        return;
    }
    let other = WIDGET.replace("name: widget", "name: other");
    let machine = node()
        .file(&format!("{MANIFESTS}/other.yaml"), &other)
        .boot();
    wait_held(&machine);
    // RKE2's data and Windrow's state on a full file system. Renaming needs no space.
    machine.sh(&format!(
        "systemctl stop rke2-server.service windrow.service; mkdir /srv/rancher; cp -a /var/lib/rancher/. /srv/rancher; \
         mount -t tmpfs -o size=4m full /var/lib/rancher; cp -a /srv/rancher/. /var/lib/rancher; \
         printf '%s' \"$(sed 's/name: widget/name: late/' {MANIFESTS}/widget.yaml)\" >{MANIFESTS}/.late; \
         systemctl start windrow.service; cat /dev/zero >/var/lib/rancher/fill || true; mv {MANIFESTS}/.late {MANIFESTS}/late.yaml"
    ));
    let journal = ["--boot", "--unit=windrow.service"];
    machine.wait_journal(
        &journal,
        "late.yaml cannot be held, so RKE2 may apply it too early",
    );
    machine.wait_until("the status lists it as not held", |machine| {
        listed(machine, "notHeld") == ["late.yaml"]
    });
    assert_eq!(
        listed(&machine, "held"),
        ["other.yaml", "vm.yaml", "widget.yaml"]
    );
    let left = machine.sh(&format!("ls -A {MANIFESTS} | grep -c late"));
    assert_eq!(left, "1", "no half of a marker stays");

    // By hand, by the fail-safe, and by the daemon: each removes the marker, and it does not come back.
    machine.ok(&["windrow", "release", "widget.yaml"]);
    machine.wait_until("it is listed as released", |machine| {
        listed(machine, "released") == ["widget.yaml"]
    });
    assert!(!held(&machine, "widget.yaml"));
    assert_eq!(listed(&machine, "held"), ["other.yaml", "vm.yaml"]);
    machine.write(TEST_DROP_IN, NEVER_STARTS);
    machine.sh("systemctl daemon-reload; systemctl kill --signal=KILL windrow.service");
    machine.wait_until("the fail-safe lifts it", |machine| {
        !held(machine, "other.yaml")
    });
    let failsafe = ["--boot", "--unit=windrow-failsafe.service"];
    machine.wait_journal(&failsafe, "vm.yaml stays hidden from RKE2");
    machine.sh(&format!(
        "rm {TEST_DROP_IN}; systemctl daemon-reload; systemctl reset-failed windrow.service; systemctl start windrow.service"
    ));
    machine.wait_until("it does not hold it again", |machine| {
        listed(machine, "released").contains(&"other.yaml".to_owned())
    });
    assert_eq!(listed(&machine, "held"), ["vm.yaml"]);
    machine.write(
        "/etc/windrow/conf.d/off.yaml",
        "staging: {enabled: false}\n",
    );
    machine.sh("systemctl reload windrow.service");
    machine.wait_until("the daemon lifts it", |machine| !held(machine, "vm.yaml"));
    machine.wait_until("it is not listed as held", |machine| {
        listed(machine, "held").is_empty()
    });
    let said = messages(&machine, &journal, WARNING).join("\n");
    assert!(!said.contains("removed by someone else"), "{said}");
    let daemons = 2;
    let told = said.matches("late.yaml not held").count();
    assert!(told <= daemons, "reported once: {said}");
    machine.sh("rm /var/lib/rancher/fill; systemctl start rke2-server.service");
    for name in ["late.yaml", "other.yaml", "vm.yaml", "widget.yaml"] {
        machine.wait_until(format!("RKE2 applies {name}"), |machine| {
            applied(machine, name)
        });
    }
}

#[test]
fn a_data_directory_that_the_sandbox_does_not_open_is_said_with_commands_that_open_it() {
    if skipped() {
        return;
    }
    let file = "/data/rke2/server/manifests/elsewhere.yaml";
    let marker = format!("{file}.skip");
    let machine = node()
        .file(
            "/usr/lib/windrow/conf.d/30-data.yaml",
            "dataDir: /data/rke2\n",
        )
        .file("/etc/rancher/rke2/config.yaml", "data-dir: /data/rke2\n")
        .file(file, WIDGET)
        .boot();
    let journal = ["--boot", "--unit=windrow.service"];
    machine.wait_journal(&journal, "elsewhere.yaml cannot be held");
    machine.wait_journal(&journal, "the sandbox of windrow.service does not open");
    let commands = machine.wait_for("the status says how to open it", |machine| {
        let status = machine.read("/run/windrow/status.json")?;
        let status: Value = serde_json::from_str(&status).ok()?;
        let findings = status["findings"].as_array()?;
        let found = findings
            .iter()
            .find(|finding| finding["code"] == "manifests-read-only")?;
        let (_, commands) = found["message"].as_str()?.split_once(" Run: ")?;
        Some(commands.to_owned())
    });
    machine.wait_until("the status lists it as not held", |machine| {
        listed(machine, "notHeld") == ["elsewhere.yaml"]
    });
    assert!(listed(&machine, "held").is_empty() && !machine.exists(&marker));
    machine.sh(&commands);
    machine.wait_until("it is held", |machine| {
        machine.exists(&marker) && listed(machine, "held") == ["elsewhere.yaml"]
    });
    // The fail-safe may write there too.
    machine.write(TEST_DROP_IN, NEVER_STARTS);
    machine.sh("systemctl daemon-reload; systemctl kill --signal=KILL windrow.service");
    machine.wait_until("the fail-safe lifts it", |machine| !machine.exists(&marker));
}
