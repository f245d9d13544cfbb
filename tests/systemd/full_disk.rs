//! A full disk is the reason that every outlet gives, until there is space again.

use machine::{Builder, Machine, skipped};
use serde_json::Value;

use crate::support::gate_node::status;
use crate::support::machine;

/// Ends when it finds no space, as etcd and with it rke2-server do.
const RKE2: &str = r#"#!/bin/bash
DIRECTORY=/var/lib/rancher/rke2/server
mkdir -p $DIRECTORY/manifests $DIRECTORY/db
# On behalf of this process: rke2 is a Type=notify service, which listens to its main process only.
systemd-notify --ready --pid=$$
while head -c 65536 /dev/zero >$DIRECTORY/db/wal; do
  rm $DIRECTORY/db/wal
  sleep 0.2
done
rm -f $DIRECTORY/db/wal
exit 1
"#;
const WIDGET: &str =
    "apiVersion: example.com/v1\nkind: Widget\nmetadata: {name: widget, namespace: default}\n";
const FULL: &str = "no space left in /var/lib/rancher";

fn found_full(status: &Value) -> bool {
    let findings = status["findings"].as_array().into_iter().flatten();
    let mut full = findings.filter(|finding| finding["code"] == "disk-full");
    full.any(|finding| finding["severity"] == "error")
}

/// What a person reads on each outlet of the machine.
fn outlets(machine: &Machine) -> [(&'static str, String); 4] {
    let shown = machine.run(&["windrow", "status"]).stdout;
    let notice = machine.read("/run/issue.d/windrow.issue");
    [
        (
            "windrow status",
            String::from_utf8_lossy(&shown).into_owned(),
        ),
        ("STATUS=", machine.unit("windrow.service", "StatusText")),
        ("login notice", notice.unwrap_or_default()),
        (
            "summary",
            status(machine)["summary"]
                .as_str()
                .unwrap_or_default()
                .to_owned(),
        ),
    ]
}

#[test]
fn a_full_disk_is_the_reason_in_every_outlet_until_there_is_space_again() {
    if skipped() {
        return;
    }
    let machine = Builder::node()
        .script("/usr/local/bin/rke2", RKE2)
        .file("/etc/windrow/conf.d/20-site.yaml", "platform: rke2\n")
        .boot();
    machine.wait_unit("windrow.service", "active");
    machine.sh(
        "systemctl stop rke2-server.service windrow.service; mkdir /srv/rancher; cp -a /var/lib/rancher/. /srv/rancher; \
         mount -t tmpfs -o size=16m full /var/lib/rancher; cp -a /srv/rancher/. /var/lib/rancher; \
         systemctl start windrow.service rke2-server.service",
    );
    machine.wait_unit("rke2-server.service", "active");
    machine.sh("cat /dev/zero >/var/lib/rancher/fill || true");
    // Windrow has something to write: a file to hold.
    machine.sh("touch /var/lib/rancher/rke2/server/manifests/widget.yaml");
    machine.write("/srv/widget.yaml", WIDGET);
    machine
        .sh("ln -sf /srv/widget.yaml /var/lib/rancher/rke2/server/manifests/linked.yaml || true");
    machine.wait_until("Windrow's own failed write is a finding", |machine| {
        found_full(&status(machine))
    });
    machine.wait_until("it is the reason", |machine| {
        status(machine)["reason"]["code"] == "disk-full"
    });
    machine.wait_until("each outlet names it first", |machine| {
        outlets(machine).iter().all(|(_, text)| text.contains(FULL))
    });
    machine.wait_until("RKE2 ends again and again", |machine| {
        let restarts = machine.unit("rke2-server.service", "NRestarts");
        restarts.parse::<u32>().is_ok_and(|restarts| restarts > 3)
    });
    machine.wait_until("the loop does not hide the disk", |machine| {
        let probes = status(machine)["probes"].clone();
        let mut probes = probes.as_array().into_iter().flatten();
        probes.any(|probe| probe["code"] == "rke-crash-loop")
    });
    for (outlet, text) in outlets(&machine) {
        assert!(text.contains(FULL), "{outlet}: {text}");
    }
    machine.sh("rm /var/lib/rancher/fill");
    machine.wait_until("the finding is gone", |machine| {
        !found_full(&status(machine))
    });
    machine.wait_until("the reason is gone", |machine| {
        status(machine)["reason"]["code"] != "disk-full"
    });
}
