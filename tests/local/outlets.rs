//! Level 3: the real program sends webhooks to a console and serves its status, as configured.

#![allow(clippy::unwrap_used, reason = "a helper of tests fails as a test does")]

use std::fs;
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::process::Command;
use std::sync::mpsc::Receiver;
use std::time::Duration;

use console::console;
use nix::sys::signal::Signal;
use serde_json::Value;
use support::{Daemon, Node};
use widgets::{KEEP, WIDGET};
use windrow_model::manifest::sha256_hex;

use crate::support::console;
use crate::support::daemon as support;
use crate::support::widgets;

/// Far longer than anything takes: reaching it is a failure, not a measurement.
const DEADLINE: Duration = Duration::from_secs(180);

fn start(node: &Node) -> Daemon {
    let daemon = node.start_with(Command::new(env!("CARGO_BIN_EXE_windrowd")), false);
    daemon.hear("READY=1");
    daemon
}

#[test]
fn a_console_is_told_as_windrows_and_as_harvesters_configuration_say() {
    let (url, requests) = console();
    let node = Node::with(&[("a.yaml", WIDGET)]);
    node.write("/etc/windrow/rules.d/90-test.yaml", KEEP);
    // No kube-apiserver ever answers here.
    node.write(
        "/etc/windrow/conf.d/10-blind.yaml",
        "staging: {blindDeadline: 1s}\n",
    );
    node.write(
        "/etc/rancher/windrow/conf.d/50-console.yaml",
        &format!(
            "webhooks:\n- event: STAGING_BLOCKED\n  url: {url}/ours/{{{{.Hostname}}}}\n- event: \
             NODE_READY\n  url: {url}/{{{{.Nothing}}}}\n"
        ),
    );
    node.write(
        "/oem/harvester.config",
        &format!(
            "install:\n  webhooks:\n  - event: STARTED\n    url: {url}/not-ours\n  - event: \
             STAGING_BLOCKED\n    method: PUT\n    url: {url}/theirs\n    payload: '{{{{.Event}}}}'\n    \
             basicauth: {{user: ann, password: geheim}}\n"
        ),
    );
    let daemon = start(&node);
    let mut told = Vec::new();
    for _ in 0..2 {
        told.push(
            requests.recv_timeout(DEADLINE).unwrap_or_else(|_| {
                panic!("nothing arrives: {}\n{:#}", daemon.said(), node.status())
            }),
        );
    }
    told.sort();
    let (head, body) = &told[0];
    assert!(head.starts_with("POST /ours/"), "{head}");
    let event: Value = serde_json::from_str(body).unwrap();
    assert_eq!(event["type"], "dev.windrow.staging.blocked");
    assert!(
        event["data"]["blocked"]["count"].as_u64() >= Some(1),
        "{event:#}"
    );
    let (head, body) = &told[1];
    assert!(head.starts_with("PUT /theirs "), "{head}");
    assert!(
        head.to_lowercase().contains("authorization: basic "),
        "{head}"
    );
    assert_eq!(body, "STAGING_BLOCKED");

    daemon.eventually("both to be shown as delivered", || {
        let status = node.status();
        let hooks = status["webhooks"].as_array().cloned().unwrap_or_default();
        hooks.len() == 2 && hooks.iter().all(|hook| hook["state"] == "delivered")
    });
    let shown = node.status().to_string();
    assert!(
        !shown.contains("geheim") && !shown.contains("/theirs"),
        "{shown}"
    );
    let said = daemon.said();
    let expected = "50-console.yaml:5: webhooks[1].url: there is no field .Nothing";
    assert!(said.contains(expected), "{said}");
    assert!(!said.contains("geheim"));

    // After a restart nothing is sent again; a webhook that is added by a reload gets the current state.
    assert!(daemon.end(Signal::SIGTERM).success());
    while requests.try_recv().is_ok() {}
    let daemon = start(&node);
    daemon.eventually("what was delivered to be known", || {
        let status = node.status();
        let hooks = status["webhooks"].as_array().cloned().unwrap_or_default();
        hooks.len() == 2 && hooks.iter().all(|hook| hook["state"] == "delivered")
    });
    node.write(
        "/etc/windrow/conf.d/60-late.yaml",
        &format!("webhooks: [{{event: STAGING_BLOCKED, url: '{url}/late'}}]\n"),
    );
    daemon.signal(Signal::SIGHUP);
    let (head, _) = requests.recv_timeout(DEADLINE).unwrap();
    assert!(head.starts_with("POST /late "), "{head}");
}

/// Free at this moment; if another process takes it, Windrow tries again until it is free again.
fn free_address() -> SocketAddr {
    let free = TcpListener::bind("127.0.0.1:0").unwrap();
    free.local_addr().unwrap()
}

/// A client that accepts any certificate and shows which one it was.
fn unverified() -> reqwest::Client {
    let _ = rustls::crypto::ring::default_provider().install_default();
    reqwest::Client::builder()
        .tls_danger_accept_invalid_certs(true)
        .tls_info(true)
        .no_proxy()
        .timeout(DEADLINE)
        .build()
        .unwrap()
}

/// The status code of an answer, and SHA-256 of the certificate behind it.
async fn ask(address: SocketAddr, token: &str) -> (u16, String) {
    let url = format!("https://{address}/status");
    let answer = unverified().get(url).bearer_auth(token).send().await;
    let answer = answer.unwrap();
    let tls = answer.extensions().get::<reqwest::tls::TlsInfo>().unwrap();
    let fingerprint = sha256_hex(tls.peer_certificate().unwrap());
    (answer.status().as_u16(), fingerprint)
}

/// The next event of a console.
fn next_event(requests: &Receiver<(String, String)>) -> Value {
    let (_, body) = requests.recv_timeout(DEADLINE).unwrap();
    serde_json::from_str(&body).unwrap()
}

#[tokio::test]
async fn a_node_is_seen_before_rke2_exists_with_a_server_whose_fingerprint_it_tells() {
    const RACK: &str = "token-of-the-whole-rack";
    let (url, requests) = console();
    let node = Node::with(&[("a.yaml", WIDGET)]);
    let address = free_address();
    node.write(
        "/etc/windrow/conf.d/50-rack.yaml",
        &format!(
            "statusServer: {{enabled: true, listen: '{address}'}}\nwebhooks: [{{event: NODE_SEEN, \
             url: '{url}', every: 10s}}]\n"
        ),
    );
    let credentials = tempfile::tempdir().unwrap();
    let credential = credentials.path().join("windrow.status-token");
    fs::write(&credential, format!("{RACK}\n")).unwrap();
    let private: fs::Permissions = std::os::unix::fs::PermissionsExt::from_mode(0o400);
    fs::set_permissions(&credential, private).unwrap();
    let start = || {
        let mut command = Command::new(env!("CARGO_BIN_EXE_windrowd"));
        command.env("CREDENTIALS_DIRECTORY", credentials.path());
        let daemon = node.start_with(command, false);
        daemon.hear("READY=1");
        daemon
    };
    let daemon = start();
    let first = next_event(&requests);
    assert_eq!(first["type"], "dev.windrow.node.seen");
    let server = &first["data"]["statusServer"];
    assert_eq!(server["url"], format!("https://{address}/status"));
    let fingerprint = server["fingerprint"].as_str().unwrap().to_owned();
    assert_eq!(ask(address, RACK).await, (200, fingerprint.clone()));
    daemon.eventually("the status document says it too", || {
        node.status()["server"]["fingerprint"] == fingerprint.as_str()
    });
    let said = daemon.said();
    assert!(said.contains(&format!("SHA-256 {fingerprint}")), "{said}");
    assert!(!said.contains(RACK));
    let shown = Command::new(env!("CARGO_BIN_EXE_windrow"))
        .args(["status", "-v", "--root"])
        .arg(node.root.path())
        .output()
        .unwrap();
    let shown = String::from_utf8_lossy(&shown.stdout).into_owned();
    assert!(shown.contains(&format!("SHA-256 {fingerprint}")), "{shown}");

    // It is seen again and again: another event, of the same boot, with a greater number.
    let again = next_event(&requests);
    let number = |event: &Value| event["data"]["sequence"].as_u64().unwrap();
    assert_ne!(again["id"], first["id"]);
    assert_eq!(again["data"]["bootId"], first["data"]["bootId"]);
    assert!(number(&again) > number(&first));

    // Another start: the same certificate, and numbers go on. The node's own token comes before the rack's.
    let own = node.write(
        "/etc/rancher/windrow/status-token",
        "token-of-this-one-node",
    );
    let private: fs::Permissions = std::os::unix::fs::PermissionsExt::from_mode(0o600);
    fs::set_permissions(own, private).unwrap();
    assert!(daemon.end(Signal::SIGTERM).success());
    while requests.try_recv().is_ok() {}
    let daemon = start();
    daemon.eventually("the server is back", || {
        node.status()["server"]["fingerprint"] == fingerprint.as_str()
    });
    assert_eq!(ask(address, RACK).await.0, 401);
    assert_eq!(ask(address, "token-of-this-one-node").await.0, 200);

    // RKE2 has made its certificate: it is served with, and those who have pinned the first one are told.
    let made = rcgen::generate_simple_self_signed(vec!["127.0.0.1".to_owned()]).unwrap();
    let agent = "/var/lib/rancher/rke2/agent";
    let key = made.signing_key.serialize_pem();
    node.write(&format!("{agent}/serving-kubelet.key"), &key);
    node.write(&format!("{agent}/serving-kubelet.crt"), &made.cert.pem());
    let rke2 = sha256_hex(made.cert.der());
    assert_eq!(
        ask(address, "token-of-this-one-node").await,
        (200, rke2.clone())
    );
    let mut told = next_event(&requests);
    while told["data"]["statusServer"]["certificate"] != "rke2" {
        told = next_event(&requests);
    }
    assert_eq!(told["data"]["statusServer"]["fingerprint"], rke2);
    assert!(number(&told) > number(&again));

    // The key stays on the node.
    let archive = node.path("/report.tar.gz");
    let report = Command::new(env!("CARGO_BIN_EXE_windrow"))
        .args(["report", "--output-file"])
        .arg(&archive)
        .arg("--root")
        .arg(node.root.path())
        .output()
        .unwrap();
    assert!(report.status.success(), "{report:?}");
    let listed = Command::new("tar")
        .arg("-tzf")
        .arg(&archive)
        .output()
        .unwrap();
    let listed = String::from_utf8_lossy(&listed.stdout).into_owned();
    assert!(listed.contains("windrow/state/webhooks.json"), "{listed}");
    assert!(!listed.contains("status-server"), "{listed}");
}

#[tokio::test]
async fn the_status_is_served_with_rke2s_certificate_once_it_is_switched_on() {
    const TOKEN: &str = "0123456789abcdef";
    let node = Node::with(&[("a.yaml", WIDGET)]);
    let mut daemon = start(&node);
    let address = free_address();
    let made = rcgen::generate_simple_self_signed(vec!["127.0.0.1".to_owned()]).unwrap();
    let agent = "/var/lib/rancher/rke2/agent";
    node.write(
        &format!("{agent}/serving-kubelet.key"),
        &made.signing_key.serialize_pem(),
    );
    node.write(&format!("{agent}/serving-kubelet.crt"), &made.cert.pem());
    let token = node.write("/etc/rancher/windrow/status-token", TOKEN);
    node.write(
        "/etc/windrow/conf.d/50-status.yaml",
        &format!("statusServer:\n  enabled: true\n  listen: {address}\n"),
    );
    daemon.signal(Signal::SIGHUP);
    daemon.eventually("the token to be refused", || {
        daemon.said().contains("chmod 0600")
    });
    let private = std::os::unix::fs::PermissionsExt::from_mode(0o600);
    fs::set_permissions(&token, private).unwrap();
    // Only the mode has changed, which is no new content.
    fs::write(&token, format!("{TOKEN}\n")).unwrap();

    let _ = rustls::crypto::ring::default_provider().install_default();
    let root = reqwest::Certificate::from_pem(made.cert.pem().as_bytes()).unwrap();
    let client = reqwest::Client::builder()
        .tls_certs_only([root])
        .no_proxy()
        .timeout(DEADLINE)
        .build()
        .unwrap();
    let url = format!("https://{address}/status");
    let answer = client.get(&url).bearer_auth(TOKEN).send().await.unwrap();
    assert_eq!(answer.status().as_u16(), 200);
    let status: Value = serde_json::from_slice(&answer.bytes().await.unwrap()).unwrap();
    assert_eq!(status["staging"]["held"][0]["file"], "a.yaml");
    let wrong = client.get(&url).bearer_auth("fedcba9876543210");
    assert_eq!(wrong.send().await.unwrap().status().as_u16(), 401);
    assert!(!daemon.said().contains(TOKEN));

    // Switched off again, the port is closed.
    fs::remove_file(node.path("/etc/windrow/conf.d/50-status.yaml")).unwrap();
    daemon.signal(Signal::SIGHUP);
    daemon.eventually("the port is closed", || {
        TcpStream::connect(address).is_err()
    });
    assert!(daemon.child.try_wait().unwrap().is_none());
}
