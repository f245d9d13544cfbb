//! A node and its consoles.

use windrow_plan::rules::Platform;

use super::*;
use crate::report::publish::PublishedStatus;

struct Node {
    directory: tempfile::TempDir,
    status: watch::Sender<Option<PublishedStatus>>,
    server: watch::Sender<ServerState>,
    hooks: watch::Sender<Vec<Webhook>>,
    view: watch::Receiver<Vec<WebhookStatus>>,
    task: JoinHandle<()>,
}

impl Node {
    fn new(hooks: Vec<Webhook>) -> Self {
        Self::start(tempfile::tempdir().unwrap(), hooks)
    }

    fn start(directory: tempfile::TempDir, hooks: Vec<Webhook>) -> Self {
        let (status, statuses) = watch::channel(None);
        let (hooks, configured) = watch::channel(hooks);
        let (shown, view) = watch::channel(Vec::new());
        let (server, served) = watch::channel(ServerState::NotServed);
        let context = WebhookContext {
            memory: directory.path().join("state/webhooks.json"),
            identity: Arc::new(|| NodeIdentity {
                hostname: "node1".to_owned(),
                mac: "52:54:00:00:00:01".to_owned(),
                serial: "J3X9K2".to_owned(),
                ipv4: "10.1.2.3".to_owned(),
                ipv6: String::new(),
                addresses: ["192.168.0.7", "10.1.2.3", "2001:db8::1"]
                    .map(|ip| ip.parse().unwrap())
                    .to_vec(),
                reached_at: "192.168.0.7".parse().ok(),
                uptime: Some(Duration::from_secs(83)),
            }),
            cluster: Arc::new(|| Some("cluster".to_owned())),
            server: served,
            now: Timestamp::now,
        };
        let task = tokio::spawn(deliver(context, configured, statuses, shown));
        Self {
            directory,
            status,
            server,
            hooks,
            view,
            task,
        }
    }

    fn is(&self, readiness: Readiness) {
        let mut status = sample("it is so \"now\"");
        status.readiness = readiness;
        status.role = NodeRole::FirstServer;
        status.platform = Some(Platform::Rke2);
        self.status.send_replace(Some(PublishedStatus::new(status)));
    }

    fn hangs(&self) {
        let mut status = sample("127.0.0.1:6443 refuses connections");
        status.phase = Phase::Api;
        status.pace = Some(Pace::Stalled);
        status.pace_since = Some(Timestamp::UNIX_EPOCH);
        status.phase_since = Some(Timestamp::UNIX_EPOCH);
        status.headline = "Setting up (kube-apiserver, 20+ min, stalled)".to_owned();
        status.phases = vec![PhaseStatus {
            name: Phase::Api,
            state: PhaseState::Current,
            done: 0,
            total: 1,
            began: Some(Timestamp::UNIX_EPOCH),
            seconds: None,
            expected: Some(PhaseExpectation {
                seconds: 900,
                from: ExpectationSource::Default,
                usual: None,
            }),
        }];
        self.status.send_replace(Some(PublishedStatus::new(status)));
    }

    async fn shows(&mut self, hook: usize, state: DeliveryState) -> WebhookStatus {
        let view = self
            .view
            .wait_for(|view| view.get(hook).is_some_and(|hook| hook.state == state));
        let view = tokio::time::timeout(DEADLINE, view).await;
        view.unwrap_or_else(|_| panic!("never {state:?}")).unwrap()[hook].clone()
    }

    async fn again(self) -> Self {
        self.task.abort();
        let hooks = self.hooks.borrow().clone();
        let _ = self.task.await;
        Self::start(self.directory, hooks)
    }
}

#[tokio::test]
async fn a_console_hears_of_a_boot_that_hangs_where_for_how_long_and_what_is_usual() {
    let mut console = Console::new(Says::Http(200, "")).await;
    let ready = hook(WebhookEvent::NodeReady, &console.url);
    let stalled = hook(WebhookEvent::NodeStalled, &console.url);
    let node = Node::new(vec![ready, stalled]);
    node.hangs();
    let event: Value = serde_json::from_str(&console.next().await.body).unwrap();
    assert_eq!(event["type"], "dev.windrow.node.stalled");
    let data = &event["data"];
    for (field, expected) in [
        ("hostname", json!("node1")),
        ("nodeName", json!("node1")),
        ("readiness", json!("SettingUp")),
        ("phase", json!("api")),
        ("pace", json!("stalled")),
        ("phaseSince", json!("1970-01-01T00:00:00Z")),
        ("paceSince", json!("1970-01-01T00:00:00Z")),
        ("expected", json!({"seconds": 900, "from": "default"})),
        (
            "headline",
            json!("Setting up (kube-apiserver, 20+ min, stalled)"),
        ),
    ] {
        assert_eq!(data[field], expected, "{field}: {event:#}");
    }
    assert!(console.is_silent());
}

#[tokio::test]
async fn a_console_that_asks_for_it_sees_the_node_with_all_that_identifies_it() {
    let mut console = Console::new(Says::Http(200, "")).await;
    let node = Node::new(vec![hook(WebhookEvent::NodeSeen, &console.url)]);
    node.server.send_replace(ServerState::Served(ServerStatus {
        listen: "0.0.0.0:9346".to_owned(),
        certificate: CertificateSource::SelfSigned,
        fingerprint: "ab".repeat(32),
    }));
    let mut status = sample("nothing is known yet");
    status.readiness = Readiness::Unknown;
    status.versions.windrow = "0.1.0".to_owned();
    status.writer = Some(StatusWriter {
        pid: 1,
        start_ticks: 1,
        boot_id: "b1".to_owned(),
    });
    let phase = |name, state, began: Option<i64>, seconds| PhaseStatus {
        name,
        state,
        done: 0,
        total: 1,
        began: began.map(|second| Timestamp::from_second(second).unwrap()),
        seconds,
        expected: None,
    };
    status.phases = vec![
        phase(Phase::Network, PhaseState::Done, Some(5), Some(8)),
        phase(Phase::Api, PhaseState::Current, Some(13), Some(3)),
        phase(Phase::Ready, PhaseState::Pending, None, None),
    ];
    let finding = |severity, at: &str| Finding {
        code: Code::ConfigurationInvalid,
        severity,
        message: "a secret reason".to_owned(),
        at: vec![Location::line(at, 3)],
        incident: None,
    };
    status.findings = vec![finding(Severity::Notice, "a.yaml"); 30];
    status.findings.push(finding(Severity::Error, "b.yaml"));
    node.status.send_replace(Some(PublishedStatus::new(status)));
    let event: Value = serde_json::from_str(&console.next().await.body).unwrap();
    assert_eq!(event["type"], "dev.windrow.node.seen");
    let data = &event["data"];
    let number = data["sequence"].as_u64().unwrap();
    assert_eq!(event["sequence"], format!("{number:020}"));
    for (field, expected) in [
        ("macAddress", json!("52:54:00:00:00:01")),
        ("serial", json!("J3X9K2")),
        (
            "addresses",
            json!(["10.1.2.3", "192.168.0.7", "2001:db8::1"]),
        ),
        ("bootId", json!("b1")),
        ("uptimeSeconds", json!(83)),
        ("version", json!("0.1.0")),
        ("readiness", json!("Unknown")),
        (
            "phases",
            json!([
                {"name": "network", "since": "1970-01-01T00:00:05Z", "took": 8},
                {"name": "api", "since": "1970-01-01T00:00:13Z"},
                {"name": "ready"},
            ]),
        ),
        (
            "statusServer",
            json!({"url": "https://10.1.2.3:9346/status", "certificate": "self-signed",
                "fingerprint": "ab".repeat(32)}),
        ),
    ] {
        assert_eq!(data[field], expected, "{field}: {event:#}");
    }
    let findings = data["findings"].as_array().unwrap();
    assert_eq!(findings.len(), 20);
    let worst =
        json!({"code": "configuration-invalid", "severity": "error", "subject": "b.yaml:3"});
    assert_eq!(findings[0], worst);
    assert!(data.get("firstBlocker").is_none() && data.get("rke2Version").is_none());

    // RKE2 has made its certificate: clients that have pinned the first one are notified.
    node.server.send_replace(ServerState::Served(ServerStatus {
        listen: "[fd00::7]:9346".to_owned(),
        certificate: CertificateSource::Rke2,
        fingerprint: "cd".repeat(32),
    }));
    let later: Value = serde_json::from_str(&console.next().await.body).unwrap();
    assert_ne!(later["id"], event["id"]);
    assert!(later["data"]["sequence"].as_u64() > Some(number));
    let server = json!({"url": "https://[fd00::7]:9346/status", "certificate": "rke2",
        "fingerprint": "cd".repeat(32)});
    assert_eq!(later["data"]["statusServer"], server);
}

#[tokio::test]
async fn a_console_hears_a_cloud_event_or_the_payload_that_is_configured() {
    let mut console = Console::new(Says::Http(200, "")).await;
    let mut plain = hook(
        WebhookEvent::ClusterReady,
        &format!("{}/up/{{{{.Hostname}}}}", console.url),
    );
    plain.method = "PUT".to_owned();
    let payload =
        "{{.Event}} {{.Readiness}} {{.ReasonCode}} {{.MACAddr}} {{.IPAddrV4}}[{{.IPAddrV6}}]";
    plain.payload = Some(WebhookTemplate::parse(payload).unwrap());
    plain.headers = vec![("Content-Type".to_owned(), "text/x-own".to_owned())];
    let mut get = hook(WebhookEvent::NodeReady, &format!("{}/get", console.url));
    get.method = "GET".to_owned();
    let event = hook(WebhookEvent::NodeReady, &format!("{}/event", console.url));
    let node = Node::new(vec![event, plain, get]);
    node.is(Readiness::Ready);
    let mut requests = Vec::new();
    for _ in 0..3 {
        requests.push(console.next().await);
    }
    let of = |path: &str| {
        let found = requests.iter().find(|request| request.head.contains(path));
        found.unwrap_or_else(|| panic!("{path}: {requests:?}"))
    };
    let event = of("POST /event ");
    assert_eq!(
        event.header("content-type"),
        Some("application/cloudevents+json")
    );
    let body: serde_json::Value = serde_json::from_str(&event.body).unwrap();
    assert_eq!(body["specversion"], "1.0");
    assert_eq!(body["type"], "dev.windrow.node.ready");
    assert_eq!(body["source"], "//windrow.dev/nodes/node1");
    assert_eq!(body["id"].as_str().unwrap().len(), 32);
    assert_eq!(body["data"]["readiness"], "Ready");
    assert_eq!(body["data"]["reason"]["message"], "it is so \"now\"");
    assert_eq!(body["data"]["ipv4"], "10.1.2.3");
    let own = of("PUT /up/node1 ");
    assert_eq!(own.header("content-type"), Some("text/x-own"));
    assert_eq!(
        own.body,
        "CLUSTER_READY Ready staging 52:54:00:00:00:01 10.1.2.3[]"
    );
    assert_eq!(of("GET /get ").body, "");
}

#[tokio::test]
async fn a_console_that_was_dead_hears_the_newest_state_when_it_is_back_and_nothing_older() {
    // The address stays taken, and nothing listens there.
    let socket = TcpSocket::new_v4().unwrap();
    socket.bind("127.0.0.1:0".parse().unwrap()).unwrap();
    let address = socket.local_addr().unwrap();
    let of = |event, path: &str| hook(event, &format!("http://{address}/{path}"));
    let mut node = Node::new(vec![
        of(WebhookEvent::NodeFailed, "failed"),
        of(WebhookEvent::NodeReady, "ready"),
    ]);
    node.is(Readiness::Failed);
    let failing = node.shows(0, DeliveryState::Failing).await;
    assert!(failing.message.contains("refused"), "{failing:?}");
    assert_eq!(failing.console, format!("http://{address}"));
    node.is(Readiness::Ready);
    node.shows(1, DeliveryState::Failing).await;
    let listener = socket.listen(16).unwrap();
    let mut console = Console::on(listener, Says::Http(200, ""), None);
    assert!(console.next().await.head.starts_with("POST /ready "));
    node.shows(1, DeliveryState::Delivered).await;
    assert_eq!(node.shows(0, DeliveryState::Waiting).await.message, "");
    assert!(console.is_silent());
}

#[tokio::test]
async fn a_slow_console_keeps_no_other_from_being_told() {
    let mut slow = Console::new(Says::Nothing).await;
    let mut quick = Console::new(Says::Http(200, "")).await;
    let mut node = Node::new(vec![
        hook(WebhookEvent::NodeReady, &slow.url),
        hook(WebhookEvent::NodeReady, &quick.url),
    ]);
    node.is(Readiness::Ready);
    slow.next().await;
    quick.next().await;
    node.shows(1, DeliveryState::Delivered).await;
    // It is still running, or was cancelled if this machine is slower than its limit.
    let slow = node.view.borrow()[0].state;
    assert_ne!(slow, DeliveryState::Delivered);
}

#[tokio::test]
async fn nothing_is_told_twice_over_a_restart_and_nothing_is_lost() {
    let mut console = Console::new(Says::Http(503, "")).await;
    let mut node = Node::new(vec![hook(WebhookEvent::NodeReady, &console.url)]);
    node.is(Readiness::Ready);
    let first = console.next().await;
    node.shows(0, DeliveryState::Failing).await;

    let mut node = node.again().await;
    console.now_says(Says::Http(200, ""));
    node.is(Readiness::Ready);
    let second = console.next().await;
    node.shows(0, DeliveryState::Delivered).await;
    // A try from before the restart may have arrived too.
    while console.requests.try_recv().is_ok() {}
    let id = |request: &Request| -> serde_json::Value {
        let body: serde_json::Value = serde_json::from_str(&request.body).unwrap();
        body["id"].clone()
    };
    assert_eq!(id(&first), id(&second), "it is the same occurrence");

    let mut node = node.again().await;
    node.is(Readiness::Ready);
    node.shows(0, DeliveryState::Delivered).await;
    node.is(Readiness::Unknown);
    // A console that is added now gets the current state, and its answer shows that the other one would have been asked
    // before.
    let mut hooks = node.hooks.borrow().clone();
    let mut late = Console::new(Says::Http(200, "")).await;
    hooks.push(hook(WebhookEvent::NodeReady, &late.url));
    node.hooks.send_replace(hooks);
    node.is(Readiness::Ready);
    late.next().await;
    assert!(console.is_silent(), "told again after a restart");
}

#[tokio::test]
async fn a_full_disk_and_a_broken_memory_do_not_stop_deliveries() {
    let directory = tempfile::tempdir().unwrap();
    fs::create_dir(directory.path().join("state")).unwrap();
    fs::create_dir(directory.path().join("state/webhooks.json")).unwrap();
    let mut console = Console::new(Says::Http(200, "")).await;
    let hooks = vec![hook(WebhookEvent::NodeFailed, &console.url)];
    let mut node = Node::start(directory, hooks);
    node.is(Readiness::Failed);
    console.next().await;
    node.shows(0, DeliveryState::Delivered).await;
}
