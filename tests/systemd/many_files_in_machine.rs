//! Many files at once: the journal stays small, and the status has every file.

use machine::{Builder, skipped};

use crate::support::gate_node::status;
use crate::support::machine;

const MANIFESTS: &str = "/var/lib/rancher/rke2/server/manifests";
const FILES: usize = 500;
/// In bytes, as `journalctl` prints it.
const MOST: usize = 20_000;

#[test]
fn the_journal_of_five_hundred_files_that_come_at_once_stays_below_twenty_kilobytes() {
    if skipped() {
        return;
    }
    let machine = Builder::node().boot();
    machine.wait_booted();
    machine.wait_unit("windrow.service", "active");
    // Each needs a namespace that nothing creates.
    machine.sh(&format!(
        "mkdir /root/files; cd /root/files; for i in $(seq {FILES}); do \
         printf 'apiVersion: v1\\nkind: ConfigMap\\nmetadata: {{name: s%s, namespace: slow}}\\n' $i >s$i.yaml; done; \
         cp s*.yaml {MANIFESTS}/"
    ));
    let held = |status: &serde_json::Value| status["staging"]["held"].as_array().map(Vec::len);
    machine.wait_until("all are held", |machine| {
        held(&status(machine)) == Some(FILES)
    });
    // What is summed up is written at the end at the latest.
    machine.ok(&["systemctl", "stop", "windrow.service"]);
    let journal = machine.ok(&["journalctl", "--no-pager", "--unit=windrow.service"]);
    assert!(journal.len() < MOST, "{} bytes: {journal}", journal.len());
    assert!(
        journal.contains("nothing here creates Namespace slow"),
        "{journal}"
    );
    assert!(journal.contains("more files: "), "{journal}");
}
