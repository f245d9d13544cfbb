//! Level 3: the metrics of the real program, as Prometheus' own tools read them.

#![allow(clippy::unwrap_used, reason = "a helper of tests fails as a test does")]

use std::fs;
use std::io::Write as _;
use std::net::{SocketAddr, TcpListener};
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};

use jiff::Timestamp;
use nix::sys::signal::Signal;
use percent_encoding::{NON_ALPHANUMERIC, utf8_percent_encode};
use regex::Regex;
use serde_json::Value;
use tokio::sync::watch;
use windrow::configuration::Configuration;
use windrow::daemon::{Clock, Daemon, DaemonSignals, link};
use windrow::https::CertificateFiles;
use windrow::layout::Layout;
use windrow::report::metrics::{MetricsSource, ProcessFacts};
use windrow::report::server::{self, ServedMetrics, ServerContext, ServerSettings, ServerState};
use windrow_decide::{CertificateSource, ClusterEvent, NodeRole};
use windrow_plan::readiness::node::{NodeEvent, ProbeId, ProbeOutcome, specs};
use windrow_plan::rules::Platform;

use crate::support::daemon::Node;
use crate::support::widgets::WIDGET;

/// Far longer than anything takes: reaching it is a failure, not a measurement.
const DEADLINE: Duration = Duration::from_secs(180);
/// Between two questions to Prometheus, which tells nobody that it has news.
const PAUSE: Duration = Duration::from_millis(100);

/// Is there a promtool? A line says so where there is none.
fn has_promtool() -> bool {
    let found = Command::new("promtool")
        .arg("--version")
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status();
    if found.is_err() {
        eprintln!("skipped: there is no promtool");
    }
    found.is_ok()
}

/// Runs promtool, which has nothing to complain about.
fn promtool(args: &[&str], input: &str) {
    let mut child = Command::new("promtool")
        .args(args)
        .current_dir(concat!(env!("CARGO_MANIFEST_DIR"), "/packaging/monitoring"))
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut stdin = child.stdin.take().unwrap();
    stdin.write_all(input.as_bytes()).unwrap();
    drop(stdin);
    let output = child.wait_with_output().unwrap();
    let said = String::from_utf8_lossy(&output.stdout) + String::from_utf8_lossy(&output.stderr);
    assert!(
        output.status.success(),
        "promtool {args:?}: {said}\n{input}"
    );
}

#[test]
fn node_exporter_gets_a_file_that_promtool_takes_and_that_goes_with_the_daemon() {
    let node = Node::with(&[("a.yaml", WIDGET)]);
    let directory = node.path("/var/lib/prometheus/node-exporter");
    let file = directory.join("windrow.prom");
    node.write(
        "/etc/windrow/conf.d/50-metrics.yaml",
        "metrics: {textfile: /var/lib/prometheus/node-exporter/windrow.prom}\n",
    );
    let daemon = node.start_with(Command::new(env!("CARGO_BIN_EXE_windrowd")), false);
    daemon.hear("READY=1");
    // The directory is node_exporter's: it is not made, and the journal says that it is missing, once.
    daemon.eventually("the directory to be missed", || {
        daemon.said().contains("write the metrics to")
    });
    fs::create_dir_all(&directory).unwrap();
    // A new file changes the status.
    fs::write(node.manifest("b.yaml"), WIDGET.replace("w1", "w2")).unwrap();
    let read = || fs::read_to_string(&file).unwrap_or_default();
    daemon.eventually("both files to be counted", || {
        read().contains("windrow_manifests{state=\"held\"} 2.0\n")
    });
    assert_eq!(daemon.said().matches("write the metrics to").count(), 1);
    let mode = fs::metadata(&file).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o644);
    let text = read();
    for sample in [
        "windrow_build_info{version=",
        "windrow_readiness{state=\"Ready\"} 0.0",
        "windrow_marker_latency_seconds_count 1\n",
        "windrow_process_resident_memory_bytes ",
        "windrow_oldest_hold_start_timestamp_seconds ",
    ] {
        assert!(text.contains(sample), "{sample}: {text}");
    }
    assert!(!text.contains("a.yaml"), "{text}");
    if has_promtool() {
        promtool(&["check", "metrics"], &text);
    }

    // Another place, and the old file is gone.
    let other = directory.join("other.prom");
    node.write(
        "/etc/windrow/conf.d/50-metrics.yaml",
        "metrics: {textfile: /var/lib/prometheus/node-exporter/other.prom}\n",
    );
    daemon.signal(Signal::SIGHUP);
    daemon.eventually("the other file", || other.exists() && !file.exists());
    assert!(daemon.end(Signal::SIGTERM).success());
    assert_eq!(fs::read_dir(&directory).unwrap().count(), 0);
}

#[test]
fn rules_and_their_tests_are_what_promtool_takes() {
    if !has_promtool() {
        return;
    }
    promtool(&["check", "rules", "windrow.rules.yml"], "");
    promtool(&["test", "rules", "windrow.rules.test.yml"], "");
    // The files with token and authority are the site's.
    let config = &["check", "config", "--syntax-only", "prometheus.example.yml"];
    promtool(config, "");
}

/// A real Prometheus, which ends with this.
struct Prometheus {
    child: Child,
    url: String,
    client: reqwest::Client,
}

impl Drop for Prometheus {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Prometheus {
    /// Scrapes a node every second, by the shipped example and the shipped rules, none of which waits.
    fn start(directory: &Path, node: SocketAddr, token: &Path, authority: &Path) -> Self {
        let shipped = |name: &str| {
            let path = format!("{}/packaging/monitoring/{name}", env!("CARGO_MANIFEST_DIR"));
            fs::read_to_string(path).unwrap()
        };
        let waits = Regex::new(r"(?m)^    for: .*$").unwrap();
        let rules = waits
            .replace_all(&shipped("windrow.rules.yml"), "    for: 0s")
            .into_owned();
        fs::write(directory.join("windrow.rules.yml"), rules).unwrap();
        let config = [
            ("scrape_interval: 30s", "scrape_interval: 1s".to_owned()),
            ("/etc/prometheus/windrow-token", token.display().to_string()),
            (
                "/etc/prometheus/rke2-server-ca.crt",
                authority.display().to_string(),
            ),
            ("node1:9346", node.to_string()),
            ("    - node2:9346\n", String::new()),
        ];
        let config = config
            .iter()
            .fold(shipped("prometheus.example.yml"), |text, (from, to)| {
                assert!(text.contains(from), "{from}");
                text.replace(from, to)
            });
        let config = format!("global: {{evaluation_interval: 1s}}\n{config}");
        fs::write(directory.join("prometheus.yml"), config).unwrap();
        let free = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = free.local_addr().unwrap();
        drop(free);
        let log = fs::File::create(directory.join("log")).unwrap();
        let child = Command::new("prometheus")
            .arg(format!(
                "--config.file={}",
                directory.join("prometheus.yml").display()
            ))
            .arg(format!(
                "--storage.tsdb.path={}",
                directory.join("data").display()
            ))
            .arg(format!("--web.listen-address={address}"))
            .stdout(Stdio::null())
            .stderr(log)
            .spawn()
            .unwrap();
        Self {
            child,
            url: format!("http://{address}/api/v1"),
            client: reqwest::Client::builder().no_proxy().build().unwrap(),
        }
    }

    /// What it answers; `None` before it does.
    async fn get(&self, path: &str, query: &str) -> Option<Value> {
        let encoded = utf8_percent_encode(query, NON_ALPHANUMERIC);
        let url = format!("{}/{path}?query={encoded}", self.url);
        let answer = self.client.get(url).send().await.ok()?;
        serde_json::from_slice(&answer.bytes().await.ok()?).ok()
    }

    /// The samples of a query.
    async fn query(&self, query: &str) -> Vec<Value> {
        let answer = self.get("query", query).await.unwrap_or_default();
        answer["data"]["result"]
            .as_array()
            .cloned()
            .unwrap_or_default()
    }

    /// The alerts that fire.
    async fn alerts(&self) -> Vec<Value> {
        let answer = self.get("alerts", "").await.unwrap_or_default();
        let alerts = answer["data"]["alerts"].as_array().cloned();
        alerts.unwrap_or_default()
    }
}

/// A daemon whose boot hangs: its clock is so quick that twenty minutes are four seconds.
async fn hanging_daemon(root: &Layout) -> (MetricsSource, tokio::task::JoinHandle<()>) {
    let configuration = Arc::new(Configuration::load(root));
    let (link, events, _interests) = link();
    let daemon = Daemon::new(watch::channel(configuration).0, Clock::sped_up(300), link);
    let source = MetricsSource {
        status: daemon.status(),
        counters: daemon.counters(),
        process: Arc::new(ProcessFacts::default),
        now: Timestamp::now,
    };
    let probed = ClusterEvent::Node(NodeEvent::Probing {
        role: NodeRole::FirstServer,
        boot: "boot".to_owned(),
        specs: specs(NodeRole::FirstServer, Some(Platform::Rke2)),
    });
    events.send(probed).await.unwrap();
    let fails = async move {
        loop {
            let why = ProbeOutcome::failed("no rke2 unit");
            let id = ProbeId::builtin("rke2-installed");
            let event = ClusterEvent::Node(NodeEvent::Probed(id, why));
            if events.send(event).await.is_err() {
                return;
            }
            tokio::time::sleep(Duration::from_millis(30)).await;
        }
    };
    let signals = DaemonSignals::listen().unwrap();
    let task = tokio::spawn(async move {
        // Kept, so that nobody stops it.
        let (_stop, stopped) = watch::channel(false);
        tokio::select! {
            () = daemon.run(signals, stopped) => {}
            () = fails => {}
        }
    });
    (source, task)
}

#[tokio::test]
async fn a_real_prometheus_scrapes_a_daemon_and_fires_the_alert_of_its_boot_that_hangs() {
    if !has_promtool() {
        return;
    }
    let _ = rustls::crypto::ring::default_provider().install_default();
    let place = tempfile::tempdir().unwrap();
    let file = |name: &str| place.path().join(name);
    let secret = |name: &str, text: &str| {
        fs::write(file(name), text).unwrap();
        fs::set_permissions(file(name), fs::Permissions::from_mode(0o600)).unwrap();
        file(name)
    };
    let token = secret("status-token", "0123456789abcdef0123456789abcdef");
    let scrape = secret("metrics-token", "fedcba9876543210fedcba9876543210");
    // The daemon's clock is fast, so a hold with a deadline would end while Prometheus starts.
    let held = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a, namespace: default, annotations: {windrow.dev/hold: not yet}}\n";
    let node = Node::with(&[("a.yaml", held)]);
    let (source, running) = hanging_daemon(&Layout::new(node.root.path())).await;

    // Before RKE2 has made a certificate: the server has its own.
    let free = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = free.local_addr().unwrap();
    drop(free);
    let (state, mut told) = watch::channel(ServerState::default());
    let settings = ServerSettings {
        listen: address,
        tokens: vec![token],
        certificates: CertificateFiles {
            source: CertificateSource::Rke2,
            pairs: Vec::new(),
            own: Some(file("own.pem")),
        },
        metrics: Some(ServedMetrics {
            token: Some(scrape.clone()),
        }),
    };
    let context = ServerContext {
        status: source.status.clone(),
        metrics: source,
        names: Arc::new(|| vec!["127.0.0.1".to_owned()]),
        state,
    };
    let serving = tokio::spawn(server::serve(settings, context));
    let served = told.wait_for(|state| state.status().is_some());
    drop(
        tokio::time::timeout(DEADLINE, served)
            .await
            .unwrap()
            .unwrap(),
    );
    let pem = fs::read_to_string(file("own.pem")).unwrap();
    let end = "-----END CERTIFICATE-----\n";
    let begin = pem.find("-----BEGIN CERTIFICATE-----").unwrap();
    let certificate = &pem[begin..pem.find(end).unwrap() + end.len()];
    fs::write(file("node.crt"), certificate).unwrap();

    let prometheus = Prometheus::start(place.path(), address, &scrape, &file("node.crt"));
    let deadline = Instant::now() + DEADLINE;
    let alert = loop {
        let alerts = prometheus.alerts().await;
        let stalled = alerts
            .iter()
            .find(|alert| alert["labels"]["alertname"] == "WindrowBootStalled");
        if let Some(alert) = stalled {
            break alert.clone();
        }
        let why = prometheus.get("targets", "").await;
        let log = fs::read_to_string(file("log")).unwrap();
        assert!(Instant::now() < deadline, "{alerts:?}\n{why:#?}\n{log}");
        tokio::time::sleep(PAUSE).await;
    };
    assert_eq!(alert["state"], "firing");
    assert_eq!(alert["labels"]["instance"], address.to_string());
    let said = alert["annotations"]["description"].as_str().unwrap();
    assert!(said.contains("The reason is "), "{said}");
    // It takes nothing of a text that it does not understand.
    let up = prometheus.query("up{job=\"windrow\"}").await;
    assert_eq!(up[0]["value"][1], "1", "{up:?}");
    let held = prometheus.query("windrow_manifests{state=\"kept\"}").await;
    assert_eq!(held[0]["value"][1], "1", "{held:?}");
    // Nothing that is well is alerted of.
    for name in [
        "WindrowAgentGone",
        "WindrowBootStuck",
        "WindrowClockOff",
        "WindrowManifestsFailed",
    ] {
        let alerts = prometheus.alerts().await;
        let fires = alerts
            .iter()
            .any(|alert| alert["labels"]["alertname"] == name);
        assert!(!fires, "{name}: {alerts:#?}");
    }

    // Every query of the dashboard is one, and those of the table know the node.
    let dashboard = include_str!("../../packaging/monitoring/windrow.dashboard.json");
    let dashboard: Value = serde_json::from_str(dashboard).unwrap();
    for panel in dashboard["panels"].as_array().unwrap() {
        for target in panel["targets"].as_array().into_iter().flatten() {
            let query = target["expr"].as_str().unwrap();
            let query = query.replace("$job", ".*").replace("$instance", ".*");
            let may_be_empty = ["Pace", "Findings"]
                .map(Value::from)
                .contains(&target["refId"]);
            let knows_node = panel["title"] == "Nodes" && !may_be_empty;
            // A rule may not have been evaluated yet.
            loop {
                let answer = prometheus.get("query", &query).await.unwrap_or_default();
                assert_eq!(answer["status"], "success", "{query}: {answer}");
                let nodes = answer["data"]["result"].as_array().map_or(0, Vec::len);
                if !knows_node || nodes == 1 {
                    break;
                }
                assert!(Instant::now() < deadline, "{query}: {answer}");
                tokio::time::sleep(PAUSE).await;
            }
        }
    }
    serving.abort();
    running.abort();
}
