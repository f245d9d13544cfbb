//! Feature gates on a booted machine: Windrow's units, and under rke2-server.service a real kube-apiserver that takes its
//! arguments from RKE2's configuration files (`tests/cluster/node/rke2-standin`).
//!
//! What a user has: the program, the units, the files, the journal, the API. Without the machine's root, root's rights or
//! the cluster's binaries each test says so in a line and is skipped.

#[path = "support/cluster/assets.rs"]
mod assets;
#[path = "support/machine.rs"]
mod machine;

use assets::Minor;
use machine::{Builder, Machine, say, skipped};
use serde_json::Value;

const DROP_IN: &str = "/etc/rancher/rke2/config.yaml.d/99-zz9-windrow-gates.yaml";
const RKE2: &str = "/usr/local/bin/rke2";
const WISHES: &str = "/etc/windrow/conf.d/gates.yaml";
const SERVER: &str = "rke2-server.service";

/// An `rke2` of a version: it starts the stand-in with that minor's kube-apiserver, and holds its version as RKE2's binary
/// does.
fn rke2(minor: Minor) -> String {
    let version = match minor {
        Minor::V1_33 => "v1.33.13+rke2r1",
        Minor::V1_36 => "v1.36.3+rke2r1",
    };
    format!(
        "#!/bin/sh\n# {version}\nexec /usr/local/bin/rke2-standin --binaries=/opt/k8s-{}\n",
        minor.text()
    )
}

/// A node with an `rke2` of this minor; `None` when its parts are not here. Both minors' kube-apiservers are there.
fn node(minor: Minor) -> Option<Builder> {
    if skipped() {
        return None;
    }
    let found = [
        assets::find(Minor::V1_36, "rke2-standin"),
        assets::find(Minor::V1_36, "kube-apiserver"),
        assets::find(Minor::V1_33, "kube-apiserver"),
    ];
    let [Ok(standin), Ok(new), Ok(old)] = found else {
        let why = found.into_iter().find_map(Result::err).unwrap_or_default();
        assert!(
            std::env::var_os("WINDROW_REQUIRE_CLUSTER").is_none(),
            "WINDROW_REQUIRE_CLUSTER is set, and {why}"
        );
        say(&format!("skipped: {why}"));
        return None;
    };
    let node = Builder::node()
        .bind(standin, "/usr/local/bin/rke2-standin")
        .bind(new, "/opt/k8s-1.36/kube-apiserver")
        .bind(old, "/opt/k8s-1.33/kube-apiserver")
        .script(RKE2, &rke2(minor))
        // The stand-in does not hear a stop that comes while it waits for its definitions.
        .drop_in(SERVER, "[Service]\nRestartSec=500ms\nTimeoutStopSec=3s\n");
    Some(node)
}

fn wishes(gates: &str) -> String {
    format!("featureGates:\n  kubeApiserver:\n{gates}")
}

fn status(machine: &Machine) -> Value {
    let text = machine.read("/run/windrow/status.json");
    text.and_then(|text| serde_json::from_str(&text).ok())
        .unwrap_or_default()
}

/// The status document's findings of this code.
fn findings(machine: &Machine, code: &str) -> Vec<String> {
    let status = status(machine);
    let findings = status["findings"].as_array().cloned().unwrap_or_default();
    findings
        .iter()
        .filter(|finding| finding["code"] == code)
        .map(|finding| finding["message"].as_str().unwrap_or_default().to_owned())
        .collect()
}

/// What kube-apiserver says of a gate; `None` while it does not answer.
fn in_effect(machine: &Machine, gate: &str) -> Option<bool> {
    // The machine has no curl; cloud-init brought Python and its YAML.
    const GET: &str = "
import base64, http.client, re, ssl, sys, tempfile, yaml
config = yaml.safe_load(open('/etc/rancher/rke2/rke2.yaml'))
cluster, user = config['clusters'][0]['cluster'], config['users'][0]['user']
def place(text):
    file = tempfile.NamedTemporaryFile(delete=False)
    file.write(base64.b64decode(text))
    file.close()
    return file.name
context = ssl.create_default_context(cadata=base64.b64decode(cluster['certificate-authority-data']).decode())
context.load_cert_chain(place(user['client-certificate-data']), place(user['client-key-data']))
connection = http.client.HTTPSConnection(cluster['server'].split('//')[1], context=context)
connection.request('GET', '/metrics')
text = connection.getresponse().read().decode()
print(re.search('kubernetes_feature_enabled.name=.' + sys.argv[1] + '.,.* ([01])', text).group(1))
";
    let output = machine.run(&["python3", "-c", GET, gate]);
    match String::from_utf8_lossy(&output.stdout).trim() {
        "1" => Some(true),
        "0" => Some(false),
        _ => None,
    }
}

fn wait_in_effect(machine: &Machine, gate: &str, value: bool) {
    machine.wait_until(format!("{gate} is {value}"), |machine| {
        in_effect(machine, gate) == Some(value)
    });
}

#[test]
fn gates_are_in_place_before_the_first_start_and_what_an_upgrade_refuses_is_gone_before_its_start()
{
    let Some(node) = node(Minor::V1_33) else {
        return;
    };
    let machine = node
        .file(
            WISHES,
            wishes("    APIResponseCompression: false\n    AuthorizeNodeWithSelectors: {value: false, reason: old consoles}\n"),
        )
        .boot();
    machine.wait_unit(SERVER, "active");
    wait_in_effect(&machine, "AuthorizeNodeWithSelectors", false);
    assert_eq!(in_effect(&machine, "APIResponseCompression"), Some(false));
    let mode = machine.ok(&["stat", "--format=%a %U", DROP_IN]);
    assert_eq!(mode, "600 root");
    assert_eq!(
        status(&machine)["gates"]["asked"][1]["reason"],
        "old consoles"
    );

    // As an upgrade does it: the binary is replaced, the service restarted; nobody tells Windrow.
    machine.write(RKE2, &rke2(Minor::V1_36));
    machine.sh(&format!(
        "chmod +x {RKE2}; systemctl restart --no-block {SERVER}"
    ));
    wait_in_effect(&machine, "AuthorizeNodeWithSelectors", true);
    assert_eq!(in_effect(&machine, "APIResponseCompression"), Some(false));
    let drop_in = machine.read(DROP_IN).expect("a drop-in");
    assert!(!drop_in.contains("AuthorizeNodeWithSelectors"), "{drop_in}");
    assert_eq!(machine.unit(SERVER, "NRestarts"), "0", "it never failed");
    // What `journalctl --unit=rke2-server` looks for, too: the hook may be gone before journald asks for its unit.
    machine.wait_journal(
        &["OBJECT_SYSTEMD_UNIT=rke2-server.service"],
        "locked to true in Kubernetes 1.36",
    );
    machine.sh("systemctl reload windrow");
    machine.wait_until("the status says so", |machine| {
        findings(machine, "gate-left-out")
            .iter()
            .any(|message| message.contains("locked"))
    });
}

#[test]
fn a_changed_configuration_waits_while_the_server_runs_and_is_written_once_it_does_not() {
    let Some(node) = node(Minor::V1_36) else {
        return;
    };
    let machine = node
        .file(
            "/etc/rancher/rke2/config.yaml.d/50-site.yaml",
            "debug: false\n",
        )
        .boot();
    machine.wait_unit(SERVER, "active");
    assert!(!machine.exists(DROP_IN), "nothing to set, no file");
    machine.write(WISHES, &wishes("    APIResponseCompression: false\n"));
    machine.sh("systemctl reload windrow");
    machine.wait_until("the status says that it waits", |machine| {
        !findings(machine, "gate-pending").is_empty()
    });
    machine.sh(&format!("systemctl restart {SERVER}"));
    assert!(
        !machine.exists(DROP_IN),
        "a restart by others tries nothing"
    );

    // As at a boot: RKE2 does not run yet when Windrow starts.
    machine.sh(&format!(
        "systemctl stop {SERVER}; systemctl restart windrow"
    ));
    assert!(machine.exists(DROP_IN), "written before READY=1");
    machine.sh(&format!("systemctl start {SERVER}"));
    wait_in_effect(&machine, "APIResponseCompression", false);
}
