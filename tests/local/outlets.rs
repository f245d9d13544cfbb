//! Level 3: the real program sends webhooks to a console and serves its status, as configured.

#![allow(clippy::unwrap_used, reason = "a helper of tests fails as a test does")]

use std::fs;
use std::net::{TcpListener, TcpStream};
use std::process::Command;
use std::time::Duration;

use console::console;
use nix::sys::signal::Signal;
use serde_json::Value;
use support::{Daemon, Node};
use widgets::{KEEP, WIDGET};

use crate::support::console;
use crate::support::daemon as support;
use crate::support::widgets;

/// Far longer than anything takes: reaching it is a failure, not a measurement.
const DEADLINE: Duration = Duration::from_secs(600);

fn start(node: &Node) -> Daemon {
    let daemon = node.start_with(Command::new(env!("CARGO_BIN_EXE_windrow")), false);
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

#[tokio::test]
async fn the_status_is_served_with_rke2s_certificate_once_it_is_switched_on() {
    const TOKEN: &str = "0123456789abcdef";
    let node = Node::with(&[("a.yaml", WIDGET)]);
    let mut daemon = start(&node);
    // Free at this moment; if another process takes it, Windrow tries again until it is free again.
    let free = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = free.local_addr().unwrap();
    drop(free);
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
