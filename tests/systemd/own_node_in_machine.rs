//! Level 5: what the look at the own node sees from within the daemon's sandbox: rancherd's journal, while rancherd has not
//! finished, and a link of kube-vip's.

#![allow(clippy::unwrap_used, reason = "a helper of tests fails as a test does")]

use std::fs;

use machine::{Builder, Machine, skipped};
use serde_json::Value;
use windrow::archive::{Archive, OWN_NODE};

use crate::support::machine;

/// As kubectl prints what kube-apiserver says of a webhook that ends the connection (rancher#51979), twice, and what a webhook
/// that is not up yet looks like.
const SAYS: &str = r#"time="2026-11-23T10:00:00Z" level=info msg="Applying plan with checksum abc"
time="2026-11-23T10:00:01Z" level=error msg="will retry failed command [/bin/kubectl apply -f -]: exit status 1, Error from server (InternalError): Internal error occurred: failed calling webhook \"rancher.cattle.io.clusters.provisioning.cattle.io\": failed to call webhook: Post \"https://rancher-webhook.cattle-system.svc:443/v1/webhook/validation\": EOF"
time="2026-11-23T10:00:16Z" level=error msg="will retry failed command [/bin/kubectl apply -f -]: exit status 1, Error from server (InternalError): Internal error occurred: failed calling webhook \"rancher.cattle.io.clusters.provisioning.cattle.io\": failed to call webhook: Post \"https://rancher-webhook.cattle-system.svc:443/v1/webhook/validation\": EOF"
time="2026-11-23T10:00:31Z" level=error msg="will retry failed command [/bin/kubectl apply -f -]: exit status 1, Error from server (InternalError): Internal error occurred: failed calling webhook \"rancher.cattle.io.clusters.provisioning.cattle.io\": failed to call webhook: Post \"https://rancher-webhook.cattle-system.svc:443/v1/webhook/validation\": dial tcp 10.53.0.1:443: connect: connection refused"
"#;
const RANCHERD: &str =
    "[Service]\nType=oneshot\nRemainAfterExit=yes\nExecStart=/bin/cat /usr/lib/rancherd.says\n";
/// It runs in the sandbox of the unit, as the daemon does.
const REPORT: &str = "/var/lib/rancher/from-the-sandbox.tar.gz";

fn reports() -> String {
    format!("[Service]\nExecStartPost=/usr/bin/windrow report --output-file {REPORT}\n")
}

/// What the node's own look has found, from within the sandbox.
fn looked(machine: &Machine) -> Value {
    machine.sh(&format!("rm -f {REPORT}"));
    machine.ok(&["systemctl", "restart", "windrow.service"]);
    machine.wait_until("the report is whole", |machine| {
        machine.unit("windrow.service", "ActiveState") == "active" && machine.exists(REPORT)
    });
    let archive = fs::File::open(machine.inside(REPORT)).unwrap();
    Archive::read(archive).unwrap().json(OWN_NODE).unwrap()
}

#[test]
fn rancherds_lines_are_read_in_the_daemons_sandbox_until_rancherd_is_done() {
    if skipped() {
        return;
    }
    let machine = Builder::node()
        .file("/usr/lib/rancherd.says", SAYS)
        .file("/etc/systemd/system/rancherd.service", RANCHERD)
        .file(
            "/var/log/pods/cattle-system_rancher-webhook-x7l2k_1/rancher-webhook/0.log",
            "2026-11-23T10:00:00Z stderr F starting\n",
        )
        .drop_in("windrow.service", &reports())
        .boot();
    machine.wait_unit("windrow.service", "active");
    assert_eq!(
        looked(&machine)["webhookBreaks"],
        Value::Null,
        "nothing yet"
    );

    machine.ok(&["systemctl", "start", "rancherd.service"]);
    machine.wait_until("the journal has its lines", |machine| {
        let said = machine.sh("journalctl --unit=rancherd.service --no-pager --quiet");
        said.contains("connection refused")
    });
    let breaks = looked(&machine)["webhookBreaks"].clone();
    assert_eq!(breaks["count"], 2, "{breaks:#}");
    let said = breaks["said"].as_str().unwrap();
    assert!(
        said.starts_with("failed calling webhook") && said.ends_with(": EOF"),
        "{said}"
    );

    // rancherd is done: whatever it has said before is over.
    machine.sh("mkdir -p /var/lib/rancher/rancherd; touch /var/lib/rancher/rancherd/bootstrapped");
    assert_eq!(looked(&machine)["webhookBreaks"], Value::Null);
}

#[test]
fn a_link_that_kube_vip_has_left_and_its_address_are_seen_in_the_daemons_sandbox() {
    if skipped() {
        return;
    }
    let machine = Builder::node()
        .drop_in("windrow.service", &reports())
        .boot();
    machine.wait_unit("windrow.service", "active");
    machine.sh(
        "ip link add vip-125ce5a8 link eth0 address 02:00:00:00:00:08 type macvlan mode bridge
         ip address add 192.0.2.99/32 dev vip-125ce5a8; ip link set vip-125ce5a8 up",
    );
    machine.wait_until("the link is up", |machine| {
        machine.sh("ip link show vip-125ce5a8").contains("LOWER_UP")
    });
    let links = looked(&machine)["network"]["links"].clone();
    let mut seen = links.as_array().unwrap().iter();
    let link = seen.find(|one| one["name"] == "vip-125ce5a8");
    let link = link.unwrap_or_else(|| panic!("{links:#}"));
    assert_eq!(link["mac"], "02:00:00:00:00:08");
    assert_eq!(link["running"], true);
    assert!(
        link["addresses"].to_string().contains("192.0.2.99"),
        "{link:#}"
    );
}
