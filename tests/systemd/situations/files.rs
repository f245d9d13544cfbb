//! What lies in the directory of manifests.

use super::outlets::compare;
use super::*;

/// Its kind is short enough for a line that has a time too.
const PUMP: &str =
    "apiVersion: example.com/v1\nkind: Pump\nmetadata: {name: pump, namespace: default}\n";
const SETTINGS: &str =
    "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: settings, namespace: default}\n";
pub(super) const VM: &str = "\
apiVersion: kubevirt.io/v1
kind: VirtualMachine
metadata: {name: first, namespace: default}
spec:
  runStrategy: Always
  template: {spec: {domain: {devices: {}}}}
";

fn booted_with(files: &[(&str, &str)]) -> Option<Machine> {
    let node = files.iter().fold(node()?, |node, (name, content)| {
        node.file(&format!("{MANIFESTS}/{name}"), content)
    });
    let machine = boot(node);
    rest_of_rke2::start(&machine);
    Some(machine)
}

#[test]
fn a_file_that_is_held() {
    let Some(node) = node() else { return };
    // While the API comes up the reason is told in other words.
    let machine = ready(node);
    machine.write(&format!("{MANIFESTS}/pump.yaml"), PUMP);
    wait_reason(&machine, "waits-for-kind");
    compare(
        &machine,
        "A manifest is held",
        "The API does not serve its kind yet.",
    );
}

#[test]
fn a_file_that_the_api_refuses() {
    let refused = "apiVersion: v1\nkind: Service\nmetadata: {name: web, namespace: default}\nspec: {ports: [{port: 99999}]}\n";
    let Some(machine) = booted_with(&[("service.yaml", refused)]) else {
        return;
    };
    wait_status(&machine, "a file that cannot be applied", |status| {
        status["staging"]["failed"]
            .as_array()
            .is_some_and(|failed| !failed.is_empty())
    });
    compare(
        &machine,
        "The API refuses a manifest",
        "A Service has an invalid port. RKE2 retries it forever.",
    );
}

#[test]
fn two_files_with_one_name() {
    let other = SETTINGS.replace("settings", "others");
    // The names are short enough for a line that has a time too.
    let Some(node) = node() else { return };
    let machine = ready(node.file(&format!("{MANIFESTS}/db.yaml"), SETTINGS));
    // Were RKE2 to take it before Windrow sees it, the node would be setting up for a moment.
    machine.sh("pkill -STOP -x rke2-standin");
    machine.write(&format!("{MANIFESTS}/sub/db.yaml"), &other);
    wait_reason(&machine, "addon-collision");
    machine.sh("pkill -CONT -x rke2-standin");
    wait_status(&machine, "RKE2 has the second", |status| {
        let applied = status["staging"]["applied"].as_array();
        applied.is_some_and(|files| files.len() == 2)
    });
    wait_reason(&machine, "addon-collision");
    compare(
        &machine,
        "Two manifests have the same name",
        "RKE2 uses one Addon for both `db.yaml` and `sub/db.yaml`.",
    );
}

#[test]
fn a_file_that_rke2_took_first() {
    let Some(node) = node() else { return };
    let machine = ready(node);
    // While Windrow does not look, somebody lays a file, and RKE2 is the first to see it.
    machine.sh("systemctl stop windrow.service");
    machine.write(&format!("{MANIFESTS}/pump.yaml"), PUMP);
    machine.wait_until("RKE2 has taken it", |machine| {
        gate_node::get(
            machine,
            "/apis/k3s.cattle.io/v1/namespaces/kube-system/addons/pump",
        )
        .is_some()
    });
    machine.sh("systemctl start windrow.service");
    wait_status(&machine, "what RKE2 made of it", |status| {
        status["readiness"] != "Unknown" && status["reason"]["code"] != "node-ready"
    });
    compare(
        &machine,
        "RKE2 was faster than Windrow",
        "A manifest was added while Windrow was stopped, and RKE2 tried to apply it before its kind existed.",
    );
}

#[test]
fn a_marker_of_somebody_else() {
    let Some(machine) = booted_with(&[("pump.yaml", PUMP), ("pump.yaml.skip", "")]) else {
        return;
    };
    wait_status(&machine, "all but the file is there", |status| {
        status["phase"] != "api" && status["phase"] != "node" && status["readiness"] != "Unknown"
    });
    compare(
        &machine,
        "Another program holds a manifest",
        "Windrow did not create `pump.yaml.skip`, and does not remove it.",
    );
}
