//! `windrow rack` as its user has it: the real program, with real nodes that send to it, on a terminal and in scripts.

#![allow(clippy::unwrap_used, reason = "a helper of tests fails as a test does")]

use std::fs;
use std::io::{BufRead as _, BufReader};
use std::os::unix::fs::PermissionsExt as _;
use std::path::PathBuf;
use std::process::{Child, ChildStdout, Command, Output, Stdio};

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::{Value, json};

use crate::support::daemon::{Node, most_memory};
use crate::support::person::Person;
use crate::support::widgets::WIDGET;

pub(crate) const TOKEN: &str = "0123456789abcdef";
const WINDROW: &str = env!("CARGO_BIN_EXE_windrow");

/// What a rack's operator has: its files.
pub(crate) struct Site(tempfile::TempDir);

impl Site {
    pub(crate) fn new() -> Self {
        let site = Self(tempfile::tempdir().unwrap());
        let token = site.file("token", TOKEN);
        fs::set_permissions(token, fs::Permissions::from_mode(0o600)).unwrap();
        site
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    pub(crate) fn file(&self, name: &str, text: &str) -> PathBuf {
        let path = self.path(name);
        fs::write(&path, text).unwrap();
        path
    }

    /// `windrow rack` in the site's directory.
    pub(crate) fn rack(&self, arguments: &str) -> Command {
        let mut command = Command::new(WINDROW);
        command
            .arg("rack")
            .args(arguments.split_whitespace())
            .current_dir(self.0.path())
            .env_remove("STATE_DIRECTORY")
            .env_remove("CREDENTIALS_DIRECTORY")
            .env_remove("NO_COLOR")
            .env("TERM", "xterm")
            .stdin(Stdio::null());
        command
    }

    pub(crate) fn run(&self, arguments: &str) -> Output {
        self.rack(arguments).output().unwrap()
    }
}

/// A rack that serves. It ends with its owner.
pub(crate) struct Serving {
    child: Child,
    lines: std::io::Lines<BufReader<ChildStdout>>,
    /// `https://0.0.0.0:PORT`, as it says.
    pub(crate) said: String,
    pub(crate) port: u16,
}

impl Serving {
    pub(crate) fn start(mut command: Command) -> Self {
        let mut child = command.stdout(Stdio::piped()).spawn().unwrap();
        let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
        let said = lines.next().unwrap().unwrap();
        let address = said.strip_prefix("windrow rack: events to ").unwrap();
        let address = address.split_once("/events").unwrap().0.to_owned();
        let port = address.rsplit_once(':').unwrap().1.parse().unwrap();
        Self {
            child,
            lines,
            said: address,
            port,
        }
    }

    /// The next line that it prints.
    fn line(&mut self) -> String {
        self.lines.next().unwrap().unwrap()
    }

    /// The most memory that it ever took, in kB.
    pub(crate) fn most_memory(&self) -> u64 {
        most_memory(self.child.id())
    }

    pub(crate) fn end(&mut self, signal: Signal) -> Option<i32> {
        let pid = Pid::from_raw(self.child.id().try_into().unwrap());
        kill(pid, signal).unwrap();
        self.child.wait().unwrap().code()
    }
}

impl Drop for Serving {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

pub(crate) fn event(host: &str, sequence: u64, data: Value) -> String {
    let mut all = json!({"hostname": host, "bootId": "b", "sequence": sequence, "uptimeSeconds": 60, "phase": "api"});
    for (key, value) in data.as_object().unwrap() {
        all[key] = value.clone();
    }
    json!({"specversion": "1.0", "id": format!("{host}-{sequence}"), "type": "dev.windrow.node.phase", "data": all})
        .to_string()
}

pub(crate) async fn post(port: u16, body: String) -> u16 {
    let _ = rustls::crypto::ring::default_provider().install_default();
    let client = reqwest::Client::builder().no_proxy().build().unwrap();
    let request = client
        .post(format!("http://127.0.0.1:{port}/events"))
        .header("content-type", "application/cloudevents+json");
    request.body(body).send().await.unwrap().status().as_u16()
}

pub(crate) fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

#[tokio::test]
async fn a_node_sends_to_a_rack_that_it_knows_by_its_certificate_and_nothing_is_lost_with_it() {
    let site = Site::new();
    let start = || {
        let listen = "--listen 0.0.0.0:0 --token-file token --state state";
        let mut rack = Serving::start(site.rack(listen));
        let line = rack.line();
        let (_, fingerprint) = line.split_once("SHA-256 ").unwrap();
        assert!(line.contains("a self-signed certificate"), "{line}");
        let fingerprint = fingerprint.to_owned();
        (rack, fingerprint)
    };
    let (mut rack, fingerprint) = start();
    assert!(rack.said.starts_with("https://0.0.0.0:"), "{}", rack.said);
    // Who speaks HTTP there gets no further, whatever the token.
    let _ = rustls::crypto::ring::default_provider().install_default();
    let builder = reqwest::Client::builder().no_proxy();
    let client = builder
        .redirect(reqwest::redirect::Policy::none())
        .build()
        .unwrap();
    let plain = format!("http://127.0.0.1:{}", rack.port);
    let page = client.get(&plain).bearer_auth(TOKEN).send().await.unwrap();
    assert_eq!(page.status(), 308);
    let secure = format!("https://127.0.0.1:{}/", rack.port);
    assert_eq!(page.headers()["location"], secure.as_str());
    let posted = client.post(format!("{plain}/events")).bearer_auth(TOKEN);
    assert_eq!(posted.send().await.unwrap().status(), 426);

    // A real node, as docs/rack.md has it configured.
    let node = Node::with(&[("a.yaml", WIDGET)]);
    node.write(
        "/etc/rancher/windrow/conf.d/60-rack.yaml",
        &format!(
            "webhooks:\n- event: NODE_SEEN\n  url: https://127.0.0.1:{}/events\n  fingerprint: \"{fingerprint}\"\n  \
             headers: {{Authorization: [Bearer {TOKEN}]}}\n",
            rack.port
        ),
    );
    let daemon = node.start_with(Command::new(env!("CARGO_BIN_EXE_windrowd")), false);
    daemon.hear("READY=1");
    daemon.eventually("the rack to have taken the event", || {
        node.status()["webhooks"][0]["state"] == "delivered"
    });
    let once = format!(
        "--once -o json --token-file token --listen 0.0.0.0:{}",
        rack.port
    );
    let view: Value = serde_json::from_slice(&site.run(&once).stdout).unwrap();
    assert_eq!(view["nodes"][0]["source"], "event", "{view:#}");
    // However it ends: the same certificate, and all that it heard.
    assert_eq!(rack.end(Signal::SIGKILL), None);
    let (mut again, same) = start();
    assert_eq!(same, fingerprint);
    let once = format!("--once --token-file token --listen 0.0.0.0:{}", again.port);
    let shown = site.run(&format!("{once} --fingerprint {fingerprint}"));
    // Nothing of RKE2 answers here: the node does not know how it is.
    assert_eq!(shown.status.code(), Some(5), "{shown:?}");
    assert!(text(&shown.stdout).contains("Unknown"), "{shown:?}");
    let other = site.run(&format!("{once} --fingerprint {}", "ab".repeat(32)));
    assert!(text(&other.stderr).contains("another one than the fingerprint"));
    assert_eq!(again.end(Signal::SIGTERM), Some(0));
    let mode = fs::metadata(site.path("state/certificate.pem")).unwrap();
    assert_eq!(mode.permissions().mode() & 0o777, 0o600);
}

/// A certificate for this machine and its key, in files of this name; its SHA-256.
fn certificate(site: &Site, name: &str) -> String {
    let made = rcgen::generate_simple_self_signed(vec!["127.0.0.1".to_owned()]).unwrap();
    site.file(&format!("{name}.key"), &made.signing_key.serialize_pem());
    site.file(&format!("{name}.crt"), &made.cert.pem());
    windrow_model::manifest::sha256_hex(made.cert.der())
}

/// Which certificate is served there.
async fn served(port: u16) -> String {
    let _ = rustls::crypto::ring::default_provider().install_default();
    let builder = reqwest::Client::builder().no_proxy().tls_info(true);
    let client = builder
        .tls_danger_accept_invalid_certs(true)
        .build()
        .unwrap();
    let answer = client.get(format!("https://127.0.0.1:{port}/healthz"));
    let answer = answer.send().await.unwrap();
    let tls = answer.extensions().get::<reqwest::tls::TlsInfo>().unwrap();
    windrow_model::manifest::sha256_hex(tls.peer_certificate().unwrap())
}

#[tokio::test]
async fn a_certificate_of_ones_own_is_read_again_and_half_of_a_new_one_changes_nothing() {
    let site = Site::new();
    let first = certificate(&site, "rack");
    let mut rack = Serving::start(
        site.rack("--listen 127.0.0.1:0 --tls-cert-file rack.crt --tls-key-file rack.key"),
    );
    assert!(rack.line().ends_with(&first));
    assert_eq!(served(rack.port).await, first);
    let second = certificate(&site, "new");
    fs::rename(site.path("new.crt"), site.path("rack.crt")).unwrap();
    assert_eq!(served(rack.port).await, first, "its key is not there yet");
    fs::rename(site.path("new.key"), site.path("rack.key")).unwrap();
    assert_eq!(served(rack.port).await, second);
    fs::remove_file(site.path("rack.crt")).unwrap();
    assert_eq!(
        served(rack.port).await,
        second,
        "none other takes its place"
    );
    let once = format!(
        "--once -o json --listen 127.0.0.1:{} --fingerprint {second}",
        rack.port
    );
    let told = site.run(&format!("{once} --tls-cert-file x --tls-key-file x"));
    assert_eq!(
        told.status.code(),
        Some(78),
        "a file that is not there is named: {told:?}"
    );
}

#[test]
fn everything_that_is_wrong_with_a_command_line_is_said_at_once() {
    let site = Site::new();
    site.file("nodes.yaml", "- {mac: x}\n- {serial: none}\n");
    let key = certificate(&site, "rack").len();
    assert_eq!(key, 64);
    site.file("other.key", "-----BEGIN CERTIFICATE-----\n");
    let told = site.run(
        "--listen 0.0.0.0:0 --nodes nodes.yaml --ask ftp://x --ask http://n1/status --ask-token-file token --tls-cert-file rack.crt --tls-key-file other.key",
    );
    assert_eq!(told.status.code(), Some(78), "{told:?}");
    let said = text(&told.stderr);
    for expected in [
        "nodes.yaml:1: mac: `x` is not a hardware address",
        "nodes.yaml:2: serial: `none`",
        "--ask ftp://x: write https://node:9346/status",
        "http://n1/status: the token of --ask-token-file would be sent unencrypted",
        "set a token with --token-file",
        "other.key: it is not a private key in PEM",
    ] {
        assert!(said.contains(expected), "no {expected:?} in {said}");
    }
}

/// Starts to wait.
fn wait(site: &Site, arguments: &str) -> Child {
    let mut command = site.rack(arguments);
    command.stdout(Stdio::piped()).stderr(Stdio::piped());
    command.spawn().unwrap()
}

#[tokio::test]
async fn a_script_waits_until_all_are_ready_or_one_is_proved_stuck_or_the_time_is_over() {
    let site = Site::new();
    site.file(
        "nodes.yaml",
        "- {name: a, host: n1}\n- {name: b, host: n2}\n",
    );
    let mut rack = Serving::start(site.rack("--listen 127.0.0.1:0 --nodes nodes.yaml"));
    let here = format!("--listen 127.0.0.1:{} --for ready", rack.port);
    let over = site.run(&format!("{here} --timeout 1s"));
    assert_eq!(over.status.code(), Some(3), "{over:?}");
    assert!(text(&over.stdout).contains("gave up:"), "{over:?}");
    assert!(text(&over.stdout).contains("Never came"), "{over:?}");

    let ready = json!({"readiness": "Ready", "phase": "ready"});
    assert_eq!(post(rack.port, event("n1", 1, ready.clone())).await, 202);
    let waiting = wait(&site, &here);
    assert_eq!(post(rack.port, event("n2", 1, ready)).await, 202);
    let done = waiting.wait_with_output().unwrap();
    assert_eq!(done.status.code(), Some(0), "{done:?}");
    assert_eq!(text(&done.stdout), "all 2 expected nodes are ready\n");

    let stuck = json!({"readiness": "SettingUp", "pace": "stuck", "headline": "Setting up (kube-apiserver, stuck)",
        "reason": {"code": "api-down", "message": "127.0.0.1:6443 refuses connections"}});
    assert_eq!(post(rack.port, event("n2", 2, stuck)).await, 202);
    let gave_up = site.run(&here);
    assert_eq!(gave_up.status.code(), Some(3), "{gave_up:?}");
    assert_eq!(
        text(&gave_up.stdout),
        "gave up, b is stuck: 127.0.0.1:6443 refuses connections\n"
    );
    assert_eq!(rack.end(Signal::SIGTERM), Some(0));
    // Without a list nobody knows when all are there.
    let unknown = site.run("--listen 127.0.0.1:0 --for ready --timeout 1s");
    assert_eq!(unknown.status.code(), Some(64), "{unknown:?}");
}

#[tokio::test]
async fn on_a_terminal_the_table_stays_current_and_q_leaves_the_terminal_as_it_was() {
    let site = Site::new();
    site.file(
        "nodes.yaml",
        "- {name: r1-n01, host: n1, rack: r1}\n- {name: r1-n02, host: n2}\n",
    );
    let mut person = Person::sits_down(
        site.rack("--listen 127.0.0.1:0 --nodes nodes.yaml"),
        100,
        12,
    );
    person.sees("events to http://127.0.0.1:");
    let until = |person: &Person| {
        person
            .seen
            .split_once("/events")
            .map(|(port, _)| port.to_owned())
    };
    while until(&person).is_none() {
        person.looks(nix::poll::PollTimeout::from(200_u8));
    }
    let port: u16 = until(&person).unwrap().parse().unwrap();
    person.sees("r1-n01");
    person.sees("r1-n02");
    assert!(!person.terminal_is_as_before(), "it echoes keys");
    let hostile = json!({"readiness": "SettingUp", "pace": "moving", "headline": "\u{1b}[2J\u{1b}]0;owned\u{7}",
        "reason": {"code": "x", "message": "\u{1b}[31mred \u{202e}evil"}});
    assert_eq!(post(port, event("n1", 1, hostile)).await, 202);
    person.sees("[31mred");
    assert!(!person.seen.contains("\u{7}") && !person.seen.contains('\u{202e}'));
    person.types("q");
    // r1-n02 never came.
    assert_eq!(person.waits(), Some(3));
    person.sees("\x1b[?25h");
    assert!(person.terminal_is_as_before());
}

#[tokio::test]
async fn a_hostile_node_is_bounded_and_harms_no_other_row() {
    let site = Site::new();
    let rack = Serving::start(site.rack("--listen 127.0.0.1:0 --state state"));
    let ready = json!({"readiness": "Ready", "phase": "ready"});
    assert_eq!(post(rack.port, event("good", 1, ready)).await, 202);
    let evil = "<script>alert(1)</script>\"'><img src=x onerror=alert(1)>\u{0}\u{1b}[2J";
    let data = json!({"readiness": "Failed", "headline": evil, "reason": {"code": evil, "message": evil},
        "firstBlocker": {"file": evil, "why": evil}, "version": evil, "rke2Version": evil, "role": evil, "serial": evil,
        "addresses": ["10.0.0.1"], "findings": [{"code": evil, "severity": evil, "subject": evil}],
        "statusServer": {"url": "javascript:alert(1)", "fingerprint": evil}, "sentAt": "9998-12-31T00:00:00Z"});
    assert_eq!(post(rack.port, event(evil, u64::MAX, data)).await, 202);
    for (body, status) in [
        ("{".to_owned(), 400),
        ("[]".to_owned(), 400),
        (
            format!("{{\"a\": {}1{}}}", "[".repeat(9_000), "]".repeat(9_000)),
            400,
        ),
        (
            event(
                "x",
                1,
                json!({"findings": 7, "phases": "x", "sentAt": "yesterday"}),
            ),
            400,
        ),
        (event("x", 1, json!({"headline": "y".repeat(70_000)})), 413),
    ] {
        assert_eq!(post(rack.port, body.clone()).await, status, "{body:.80}");
    }
    let _ = rustls::crypto::ring::default_provider().install_default();
    let client = reqwest::Client::builder().no_proxy().build().unwrap();
    let at = format!("http://127.0.0.1:{}", rack.port);
    let page = client.get(&at).send().await.unwrap().text().await.unwrap();
    assert!(
        !page.contains("<script>alert") && !page.contains("<img"),
        "{page}"
    );
    assert!(!page.contains('\u{1b}') && page.contains("good"));
    let document = client.get(format!("{at}/rack.json")).send().await.unwrap();
    let view: Value = serde_json::from_str(&document.text().await.unwrap()).unwrap();
    assert_eq!(view["counts"]["total"], 2);
    for node in view["nodes"].as_array().unwrap() {
        let id = node["id"].as_str().unwrap();
        let one = client.get(format!("{at}/nodes/{id}")).send().await.unwrap();
        assert_eq!(one.status(), 200, "{id}");
        assert!(!one.text().await.unwrap().contains("<img"));
    }
    let shown = site.run(&format!("--once --listen 127.0.0.1:{}", rack.port));
    assert_eq!(shown.status.code(), Some(4), "{shown:?}");
    assert!(!shown.stdout.contains(&0x1b), "{shown:?}");
}

#[test]
fn a_state_that_was_cut_off_in_a_write_is_set_aside_and_said() {
    let site = Site::new();
    let start = || Serving::start(site.rack("--listen 127.0.0.1:0 --state state"));
    start().end(Signal::SIGKILL);
    let store = site.path("state/rack.redb");
    for cut in [fs::metadata(&store).unwrap().len() / 2, 100, 1] {
        let file = fs::File::options().write(true).open(&store).unwrap();
        file.set_len(cut).unwrap();
        let rack = start();
        let shown = site.run(&format!("--once --listen 127.0.0.1:{}", rack.port));
        assert!(
            text(&shown.stdout).contains("could not be read"),
            "{cut}: {shown:?}"
        );
        assert!(store.exists());
    }
    // Another process has it.
    let first = start();
    let second = site.run("--listen 127.0.0.1:0 --state state");
    assert_eq!(second.status.code(), Some(75), "{second:?}");
    assert!(text(&second.stderr).contains("in use by another windrow rack"));
    drop(first);
}

#[tokio::test]
async fn a_disk_that_was_full_for_a_moment_keeps_what_comes_after() {
    let site = Site::new();
    let rack = site.rack("--listen 127.0.0.1:0 --state state");
    // A write beyond the limit fails then, and does not end the process.
    let mut with_limits = Command::new("sh");
    with_limits
        .args(["-c", r#"trap "" XFSZ; exec "$0" "$@""#, WINDROW])
        .args(rack.get_args())
        .current_dir(site.path(""))
        .stdin(Stdio::null());
    let mut rack = Serving::start(with_limits);
    let limit = |size: &str| {
        let pid = rack.child.id().to_string();
        let done = Command::new("prlimit")
            .args(["--pid", &pid, &format!("--fsize={size}")])
            .status();
        assert!(done.unwrap().success());
    };
    assert_eq!(post(rack.port, event("n1", 1, json!({}))).await, 202);
    limit("0:unlimited");
    assert_eq!(post(rack.port, event("n1", 2, json!({}))).await, 503);
    limit("unlimited:unlimited");
    for number in 3..6 {
        assert_eq!(post(rack.port, event("n1", number, json!({}))).await, 202);
    }
    rack.end(Signal::SIGTERM);
    let again = Serving::start(site.rack("--listen 127.0.0.1:0 --state state"));
    let client = reqwest::Client::builder().no_proxy().build().unwrap();
    let page = client.get(format!("http://127.0.0.1:{}/", again.port));
    let page = page.send().await.unwrap().text().await.unwrap();
    assert!(page.contains("n1"), "{page}");
}
