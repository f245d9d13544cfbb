//! What happens to Windrow itself.

use super::outlets::compare;
use super::*;

#[test]
fn a_daemon_that_is_dead() {
    let Some(node) = node() else { return };
    let machine = ready(node);
    machine.sh("mkdir -p /run/systemd/system/windrow.service.d; \
         printf '[Service]\\nRestart=no\\n' > /run/systemd/system/windrow.service.d/t.conf; \
         systemctl daemon-reload; systemctl kill --signal=KILL windrow.service");
    machine.wait_unit("windrow.service", "failed");
    compare(
        &machine,
        "The daemon is dead",
        "Windrow was killed, and systemd does not restart it. Nothing updates its last state any more.",
    );
}

#[test]
fn a_daemon_that_is_masked() {
    let Some(node) = bare_node() else { return };
    let mut machine = node
        .file(&format!("{MANIFESTS}/vm.yaml"), files::VM)
        .file(
            "/etc/windrow/conf.d/10-platform.yaml",
            "platform: harvester\n",
        )
        .file("/etc/windrow/conf.d/50-test.yaml", "")
        .boot();
    machine.wait_until("the file is held", |machine| {
        machine.exists(&format!("{MANIFESTS}/vm.yaml.skip"))
    });
    machine.sh("systemctl mask windrow.service");
    machine.reboot();
    watched(&machine);
    machine.wait_booted();
    compare(
        &machine,
        "Windrow is masked",
        "`systemctl mask windrow.service` and a reboot, while the manifest of a VM was held.",
    );
}

#[test]
fn a_configuration_that_is_broken() {
    let Some(node) = node() else { return };
    let machine = ready(node.file(
        "/etc/windrow/conf.d/60-typo.yaml",
        "probs: {enabled: true}\n",
    ));
    compare(
        &machine,
        "A configuration file has an error",
        "`conf.d/60-typo.yaml` has an unknown key. The other files are in effect.",
    );
}

#[test]
fn a_webhook_that_is_off() {
    let Some(node) = node() else { return };
    let machine = ready(node.file(
        "/etc/windrow/conf.d/60-webhook.yaml",
        "webhooks:\n- {event: NODE_READY, url: 'http://console/{{range .Nodes}}'}\n",
    ));
    compare(
        &machine,
        "A webhook is off",
        "Its URL uses an unsupported part of Go's templates.",
    );
}
