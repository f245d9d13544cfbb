//! Level 5: situations of a night at the rack, each on a booted machine, with a real kube-apiserver where the
//! situation has one: what tty1, the verbs, the journal, the login prompt and a webhook say. tests/systemd/situations/outlets.md is the table.

use serde_json::Value;

use crate::support::cluster::assets::Minor;
use crate::support::gate_node::{self, status};
use crate::support::machine::{Builder, Machine, skipped};
use crate::support::{receiver, rest_of_rke2, terminal};

mod cluster;
mod files;
mod node;
mod outlets;
mod windrow;

const MANIFESTS: &str = "/var/lib/rancher/rke2/server/manifests";
const CONFIGURATION: &str = "\
platform: rke2
webhooks:
- {event: NODE_READY, url: 'http://127.0.0.1:8080/'}
- {event: NODE_DEGRADED, url: 'http://127.0.0.1:8080/'}
- {event: NODE_FAILED, url: 'http://127.0.0.1:8080/'}
- {event: STAGING_BLOCKED, url: 'http://127.0.0.1:8080/'}
";

/// A container has a boot id of its own in each boot. A unit with a /proc of its own would see the host's again.
const BOOT_ID: &str = "[Service]\n\
    ExecStartPre=+-/usr/bin/install -m 0444 /proc/sys/kernel/random/boot_id /run/boot-id\n\
    BindReadOnlyPaths=-/run/boot-id:/proc/sys/kernel/random/boot_id\n";
const BOOT_ID_OF_CONSOLE: &str =
    "[Service]\nBindReadOnlyPaths=-/run/boot-id:/proc/sys/kernel/random/boot_id\n";

/// A node to which something will happen; its RKE2 has a real kube-apiserver with the deploy controller. `None` where the
/// parts are not here.
fn node() -> Option<Builder> {
    Some(furnished(gate_node::node(Minor::V1_36)?))
}

/// The same where RKE2 is a script, for what happens before there is an API.
fn bare_node() -> Option<Builder> {
    (!skipped()).then(|| furnished(Builder::node()))
}

fn furnished(node: Builder) -> Builder {
    let node = receiver::installed(rest_of_rke2::installed(terminal::installed(node)));
    node.file("/etc/windrow/conf.d/50-test.yaml", CONFIGURATION)
        .file(
            "/etc/systemd/system/windrow.service.d/boot-id.conf",
            BOOT_ID,
        )
        .file(
            "/etc/systemd/system/windrow-console@.service.d/boot-id.conf",
            BOOT_ID_OF_CONSOLE,
        )
}

/// Boots it, with somebody in front of tty1 and a console that receives webhooks.
fn boot(node: Builder) -> Machine {
    let machine = node.boot();
    watched(&machine);
    machine
}

fn watched(machine: &Machine) {
    rest_of_rke2::without_time_service(machine);
    receiver::start(machine, "receiver");
    terminal::start_console(machine);
}

/// Boots it and waits until it is Ready, and until the console has been told so.
fn ready(node: Builder) -> Machine {
    let machine = boot(node);
    rest_of_rke2::start(&machine);
    wait_readiness(&machine, "Ready");
    machine.wait_until("the webhook says so", |machine| {
        let events = receiver::events(machine);
        events
            .iter()
            .any(|event| event["type"] == "dev.windrow.node.ready")
    });
    machine
}

fn wait_readiness(machine: &Machine, word: &str) {
    wait_status(machine, word, |status| status["readiness"] == word);
}

fn wait_reason(machine: &Machine, code: &str) {
    wait_status(machine, code, |status| status["reason"]["code"] == code);
}

fn wait_status(machine: &Machine, what: &str, so: impl Fn(&Value) -> bool) {
    machine.wait_until(format!("the status says {what}"), |machine| {
        so(&status(machine))
    });
}
