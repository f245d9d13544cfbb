//! The role of the node and the name of its Node.

use rcgen::{CertificateParams, DnType, KeyPair};

use super::*;
use crate::observe::probes::role::{next_node_name, role_and_name};

const CONFIG: &str = "/etc/rancher/rke2/config.yaml";

async fn name_of(place: &TestNode) -> String {
    role_and_name(&place.context()).await.1
}

/// The kubelet's credential for a Node, as RKE2 writes it.
fn certify(place: &TestNode, user: &str) {
    let key = KeyPair::generate().unwrap();
    let mut params = CertificateParams::new(Vec::new()).unwrap();
    params.distinguished_name.push(DnType::CommonName, user);
    let certificate = params.self_signed(&key).unwrap().pem();
    let certificate = place.write(
        "/var/lib/rancher/rke2/agent/client-kubelet.crt",
        certificate,
    );
    let text = format!(
        "users: [{{name: user, user: {{client-certificate: \"{}\"}}}}]\n",
        certificate.display()
    );
    place.write("/var/lib/rancher/rke2/agent/kubelet.kubeconfig", text);
}

#[tokio::test]
async fn the_own_node_is_named_as_rke2_derives_it_from_its_configuration() {
    for (config, expected) in [
        ("{}", "host-1"),
        ("node-name: Node-A", "node-a"),
        ("node-name: 1001", "1001"),
        ("node-name: ''", "host-1"),
        ("with-node-id: true", "host-1-1f2e3d4c"),
        ("with-node-id: 'true'\nnode-name: Node-A", "node-a-1f2e3d4c"),
        ("with-node-id: false", "host-1"),
    ] {
        let place = TestNode::new();
        place.write("/proc/sys/kernel/hostname", "Host-1\n");
        place.write("/etc/rancher/node/id", "1f2e3d4c\n");
        place.write(CONFIG, config);
        assert_eq!(name_of(&place).await, expected, "{config}");
    }
}

#[tokio::test]
async fn the_certificate_of_the_kubelet_names_the_own_node_whatever_the_configuration_says() {
    let place = TestNode::new();
    place.write("/proc/sys/kernel/hostname", "renamed-since\n");
    place.write(CONFIG, "node-name: Node-A");
    certify(&place, "system:node:joined-as");
    assert_eq!(name_of(&place).await, "joined-as");
    certify(&place, "somebody");
    assert_eq!(name_of(&place).await, "node-a");
}

#[test]
fn another_name_at_the_next_start_is_known_unless_something_else_names_the_node() {
    let renamed = || {
        let place = TestNode::new();
        place.write("/proc/sys/kernel/hostname", "rack7\n");
        place.write(CONFIG, "{}");
        place
    };
    let next = |place: &TestNode| next_node_name(&place.layout(), "node1");
    let place = renamed();
    assert_eq!(next(&place).as_deref(), Some("rack7"));
    assert_eq!(next_node_name(&place.layout(), "rack7"), None);
    place.write(
        "/usr/local/lib/systemd/system/rke2-server.service",
        "[Service]\nEnvironmentFile=-/etc/default/%N\nExecStart=/usr/local/bin/rke2 server\n",
    );
    assert_eq!(next(&place).as_deref(), Some("rack7"), "RKE2's own unit");
    for (path, text) in [
        (CONFIG, "node-name: node1"),
        (CONFIG, "node-name: ["),
        ("/etc/default/rke2-server", "RKE2_NODE_NAME=node1"),
        (
            "/usr/lib/systemd/system/rke2-agent.env",
            "RKE2_NODE_NAME=node1",
        ),
        (
            "/etc/systemd/system/rke2-server.service.d/name.conf",
            "[Service]\nEnvironment=RKE2_NODE_NAME=node1\n",
        ),
        (
            "/etc/systemd/system/rke2-agent.service",
            "[Service]\nExecStart=/usr/local/bin/rke2 agent --node-name node1\n",
        ),
        (
            "/etc/systemd/system/rke2-server.service.d/site.conf",
            "[Service]\nEnvironmentFile=/etc/site/rke2.env\n",
        ),
        (
            "/etc/default/rke2-server",
            "RKE2_CONFIG_FILE=/etc/site/rke2.yaml",
        ),
        (
            "/usr/lib/systemd/system/rke2-.service.d/a.conf",
            "Environment=RKE2_NODE_NAME=node1",
        ),
        (
            "/etc/systemd/system.conf.d/a.conf",
            "DefaultEnvironment=RKE2_NODE_NAME=node1",
        ),
        (CONFIG, "cloud-provider-name: aws"),
        (CONFIG, "cloud-provider-metadata-hostname: true"),
        ("/etc/rancher/rancherd/config.yaml", "nodeName: node1"),
        ("/proc/sys/kernel/hostname", "localhost"),
    ] {
        let place = renamed();
        place.write(path, text);
        assert_eq!(next(&place), None, "{path}: {text}");
    }
}

async fn role_of(context: &ProbeContext) -> NodeRole {
    role_and_name(context).await.0
}

/// A server that has run; systemd does not show its units.
fn server(config: &str) -> TestNode {
    let place = TestNode::new();
    place.write("/var/lib/rancher/rke2/server/tls/server-ca.crt", "");
    place.write(CONFIG, config);
    place
}

#[tokio::test]
async fn a_configuration_file_that_cannot_be_read_for_a_moment_changes_no_role() {
    let place = server("server: https://10.0.0.9:9345\n");
    let context = place.context();
    assert_eq!(role_of(&context).await, NodeRole::JoinedServer);
    place.write(CONFIG, "server: [");
    assert_eq!(role_of(&context).await, NodeRole::JoinedServer);
    place.write(CONFIG, "disable-apiserver: true\n");
    assert_eq!(role_of(&context).await, NodeRole::Witness);
}

#[tokio::test]
async fn a_role_that_was_known_in_this_boot_stays_when_nothing_tells_it_any_more() {
    let place = server("{}");
    let context = place.context();
    assert_eq!(role_of(&context).await, NodeRole::FirstServer);
    let tls = place.layout().path("/var/lib/rancher/rke2/server/tls");
    fs::remove_dir_all(tls).unwrap();
    assert_eq!(role_of(&context).await, NodeRole::FirstServer);
}

#[tokio::test]
async fn the_environment_of_the_unit_tells_which_server_it_joins_and_its_name() {
    let place = server("{}");
    place.write(
        "/etc/default/rke2-server",
        "# RKE2_URL=no\nRKE2_URL=\"https://10.0.0.9:9345\"\nRKE2_NODE_NAME=Node-B\n",
    );
    let (role, name) = role_and_name(&place.context()).await;
    assert_eq!((role, name.as_str()), (NodeRole::JoinedServer, "node-b"));
}
