//! A machine whose rke2-server.service runs a real kube-apiserver with the arguments from RKE2's configuration files
//! (`tests/cluster/node/rke2-standin`), and the checks that tests of feature gates share.

// Each test file uses a part of it.
#![allow(dead_code)]

use super::cluster::assets::{self, Minor};
use super::machine::{Builder, Machine, say, skipped};
use serde_json::Value;
use std::path::PathBuf;
use std::process::Output;

pub(crate) const DROP_IN: &str = "/etc/rancher/rke2/config.yaml.d/99-zz9-windrow-gates.yaml";
pub(crate) const RKE2: &str = "/usr/local/bin/rke2";
pub(crate) const WISHES: &str = "/etc/windrow/conf.d/gates.yaml";
pub(crate) const SERVER: &str = "rke2-server.service";

/// An `rke2` of a version: it starts the stand-in with that minor's kube-apiserver, and holds its version as RKE2's binary
/// does.
pub(crate) fn rke2(minor: Minor) -> String {
    let version = match minor {
        Minor::V1_31 => "v1.31.14+rke2r1",
        Minor::V1_33 => "v1.33.13+rke2r1",
        Minor::V1_36 => "v1.36.3+rke2r1",
    };
    format!(
        "#!/bin/sh\n# {version}\nexec /usr/local/bin/rke2-standin --binaries=/opt/k8s-{}\n",
        minor.text()
    )
}

/// Programs for a machine; `None`, after one line that says why, when they or the machine are not here.
pub(crate) fn parts<const N: usize>(wanted: [(Minor, &str); N]) -> Option<[PathBuf; N]> {
    if skipped() {
        return None;
    }
    let found: Result<Vec<PathBuf>, String> = wanted
        .into_iter()
        .map(|(minor, name)| assets::find(minor, name))
        .collect();
    match found {
        Ok(found) => found.try_into().ok(),
        Err(why) => {
            assert!(
                std::env::var_os("WINDROW_REQUIRE_CLUSTER").is_none(),
                "WINDROW_REQUIRE_CLUSTER is set, and {why}"
            );
            say(&format!("skipped: {why}"));
            None
        }
    }
}

/// A node with an `rke2` of this minor; `None` when its parts are not here. Both minors' kube-apiservers are there.
pub(crate) fn node(minor: Minor) -> Option<Builder> {
    let [standin, new, old] = parts([
        (Minor::V1_36, "rke2-standin"),
        (Minor::V1_36, "kube-apiserver"),
        (Minor::V1_33, "kube-apiserver"),
    ])?;
    let node = Builder::node()
        .bind(standin, "/usr/local/bin/rke2-standin")
        .bind(new, "/opt/k8s-1.36/kube-apiserver")
        .bind(old, "/opt/k8s-1.33/kube-apiserver")
        .script(RKE2, &rke2(minor))
        // It is restarted ten times as often as RKE2, and without end. The stand-in ignores a stop while it waits for
        // its definitions.
        .drop_in(
            SERVER,
            "[Unit]\nStartLimitIntervalSec=0\n[Service]\nRestartSec=500ms\nTimeoutStopSec=3s\n",
        );
    Some(node)
}

/// Such a node whose RKE2 runs, with a directory for drop-ins.
pub(crate) fn running_node(minor: Minor) -> Option<Machine> {
    let site = "/etc/rancher/rke2/config.yaml.d/50-site.yaml";
    let machine = node(minor)?.file(site, "debug: false\n").boot();
    machine.wait_unit(SERVER, "active");
    Some(machine)
}

pub(crate) fn wishes(gates: &str) -> String {
    format!("featureGates:\n  kubeApiserver:\n{gates}")
}

pub(crate) fn status(machine: &Machine) -> Value {
    let text = machine.read("/run/windrow/status.json");
    text.and_then(|text| serde_json::from_str(&text).ok())
        .unwrap_or_default()
}

/// The status document's findings of this code.
pub(crate) fn findings(machine: &Machine, code: &str) -> Vec<String> {
    let status = status(machine);
    let findings = status["findings"].as_array().cloned().unwrap_or_default();
    findings
        .iter()
        .filter(|finding| finding["code"] == code)
        .map(|finding| finding["message"].as_str().unwrap_or_default().to_owned())
        .collect()
}

/// kube-apiserver's answer to the admin; `None` while there is none.
pub(crate) fn get(machine: &Machine, path: &str) -> Option<String> {
    request(machine, "GET", path, "")
}

/// kube-apiserver's answer to what the admin sends; `None` where it refuses, or while there is none.
pub(crate) fn request(machine: &Machine, method: &str, path: &str, body: &str) -> Option<String> {
    // The machine has no curl; cloud-init brought Python and its YAML.
    const REQUEST: &str = "
import base64, http.client, ssl, sys, tempfile, yaml
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
connection.request(sys.argv[1], sys.argv[2], sys.argv[3] or None, {'content-type': 'application/json'})
answer = connection.getresponse()
if answer.status not in (200, 201): sys.exit(1)
print(answer.read().decode())
";
    let output = machine.run(&["python3", "-c", REQUEST, method, path, body]);
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    output.status.success().then_some(text)
}

/// What kube-apiserver reports about a gate; `None` while it does not answer.
pub(crate) fn in_effect(machine: &Machine, gate: &str) -> Option<bool> {
    let line = format!("kubernetes_feature_enabled{{name=\"{gate}\",");
    let metrics = get(machine, "/metrics")?;
    let value = metrics.lines().find(|text| text.starts_with(&line))?;
    Some(value.ends_with('1'))
}

pub(crate) fn wait_in_effect(machine: &Machine, gate: &str, value: bool) {
    machine.wait_until(format!("{gate} is {value}"), |machine| {
        in_effect(machine, gate) == Some(value)
    });
}

/// `windrow gates …`, where /proc/sys is what the daemon sees: nspawn mounts its own boot id over the kernel's, and the
/// daemon's sandbox removes it.
pub(crate) const GATES: &str =
    "systemd-run --quiet --wait --pipe --property=ProtectKernelTunables=yes windrow gates";

pub(crate) fn gates(machine: &Machine, arguments: &[&str]) -> Output {
    let mut command: Vec<&str> = GATES.split(' ').collect();
    command.extend(arguments);
    machine.run(&command)
}

/// The output of a command that must succeed.
pub(crate) fn said(output: &Output, exit: i32) -> String {
    let text = format!(
        "{}{}",
        String::from_utf8_lossy(&output.stdout),
        String::from_utf8_lossy(&output.stderr)
    );
    assert_eq!(output.status.code(), Some(exit), "{text}");
    text
}
