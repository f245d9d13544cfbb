//! Level 4: does an admission webhook answer? Tried through the real kube-apiserver, with a webhook server that
//! answers, denies, hangs, dies and comes back.

#![allow(clippy::unwrap_used, reason = "a helper of tests fails as a test does")]

use std::fs;
use std::path::Path;
use std::sync::{Arc, Mutex};

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use jiff::Timestamp;
use kube::api::{Api, ApiResource, DynamicObject, PostParams};
use kube::{Client, Resource};
use serde_json::{Value, json};
use support::cluster::{Cluster, DEADLINE, Spec, Who, eventually};
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpListener;
use tokio::sync::{mpsc, watch};
use tokio::task::JoinHandle;
use tokio_rustls::TlsAcceptor;
use windrow::apiserver::ApiServer;
use windrow::layout::Layout;
use windrow::observe::probes::{Endpoints, ProbeContext, probe};
use windrow_decide::{ClusterEvent, Interests, ProbeInterest};
use windrow_plan::readiness::node::{NodeEvent, ProbeOutcome};
use windrow_plan::rules::Platform;

use crate::support;

/// The webhook's answer.
#[derive(Clone, Copy, PartialEq)]
enum Says {
    Yes,
    No,
    Nothing,
}

/// A webhook server on loopback; it ends with the value.
struct Webhook {
    port: u16,
    says: watch::Sender<Says>,
    /// The requests of the reviews that it received.
    asked: Arc<Mutex<Vec<Value>>>,
    task: JoinHandle<()>,
}

impl Webhook {
    async fn start(port: u16, acceptor: TlsAcceptor) -> Self {
        let listener = TcpListener::bind(("127.0.0.1", port)).await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let (says, how) = watch::channel(Says::Yes);
        let asked = Arc::new(Mutex::new(Vec::new()));
        let log = asked.clone();
        let task = tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                let (acceptor, how, log) = (acceptor.clone(), how.clone(), log.clone());
                tokio::spawn(async move {
                    let Ok(mut stream) = acceptor.accept(stream).await else {
                        return;
                    };
                    let Some(review) = read(&mut stream).await else {
                        return;
                    };
                    let request = review["request"].clone();
                    let says = *how.borrow();
                    let answer = json!({"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview",
                        "response": {"uid": request["uid"], "allowed": says == Says::Yes,
                            "status": {"message": "the test says no"}}});
                    log.lock().unwrap().push(request);
                    if says == Says::Nothing {
                        return std::future::pending().await;
                    }
                    let body = answer.to_string();
                    let head = format!(
                        "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: {}\r\nconnection: close\r\n\r\n",
                        body.len()
                    );
                    let _ = stream.write_all((head + &body).as_bytes()).await;
                    let _ = stream.shutdown().await;
                });
            }
        });
        Self {
            port,
            says,
            asked,
            task,
        }
    }

    /// It is gone, and its port is free.
    async fn stop(self) {
        self.task.abort();
        let _ = self.task.await;
    }
}

/// The review in a request.
async fn read(stream: &mut (impl AsyncRead + Unpin)) -> Option<Value> {
    let mut bytes = Vec::new();
    loop {
        let mut buffer = [0; 4096];
        match stream.read(&mut buffer).await {
            Ok(0) | Err(_) => return None,
            Ok(count) => bytes.extend_from_slice(&buffer[..count]),
        }
        let text = String::from_utf8_lossy(&bytes);
        if let Some((_, body)) = text.split_once("\r\n\r\n")
            && let Ok(review) = serde_json::from_str(body)
        {
            return Some(review);
        }
    }
}

/// A certificate for loopback: in PEM, and a server's half.
fn certificate() -> (String, TlsAcceptor) {
    let made = rcgen::generate_simple_self_signed(vec!["127.0.0.1".to_owned()]).unwrap();
    let key = rustls::pki_types::PrivatePkcs8KeyDer::from(made.signing_key.serialize_der());
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = rustls::ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_no_client_auth()
        .with_single_cert(vec![made.cert.der().clone()], key.into())
        .unwrap();
    (made.cert.pem(), TlsAcceptor::from(Arc::new(config)))
}

/// Makes an object; makes it again until its kind is served.
async fn create(client: &Client, object: Value) -> DynamicObject {
    let types = serde_json::from_value(object.clone()).unwrap();
    let object: DynamicObject = serde_json::from_value(object).unwrap();
    let gvk = kube::core::GroupVersionKind::try_from(&types).unwrap();
    let api: Api<DynamicObject> = Api::all_with(client.clone(), &ApiResource::from_gvk(&gvk));
    eventually("the object is made", DEADLINE, async || {
        api.create(&PostParams::default(), &object).await.ok()
    })
    .await
}

/// A first server with the admin's credential, and its probe's answer about the webhooks.
async fn said(root: &Path) -> ProbeOutcome {
    let endpoints = Endpoints {
        // Only the cluster is probed here.
        bus: Some("unix:path=/nonexistent/bus".to_owned()),
        ..Endpoints::default()
    };
    let context = ProbeContext::new(
        Layout::new(root),
        endpoints,
        ApiServer::new(),
        Timestamp::now,
    )
    .unwrap();
    let interests = Interests {
        probes: Some(ProbeInterest {
            platform: Some(Platform::Harvester),
            ..ProbeInterest::default()
        }),
        ..Interests::default()
    };
    let (_keep, interests) = watch::channel(interests);
    let (events, mut told) = mpsc::channel(64);
    let probing = tokio::spawn(probe(Arc::new(context), interests, events));
    let outcome = tokio::time::timeout(DEADLINE, async {
        loop {
            if let ClusterEvent::Node(NodeEvent::Probed(id, outcome)) = told.recv().await.unwrap()
                && id.as_str() == "webhook"
            {
                return outcome;
            }
        }
    });
    let outcome = outcome.await.expect("the probe answers");
    probing.abort();
    outcome
}

fn why(outcome: &ProbeOutcome) -> &str {
    match outcome {
        ProbeOutcome::Failed { why, .. } => why,
        other => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn a_webhook_answers_when_kube_apiserver_gets_an_answer_and_nothing_is_changed_for_it() {
    let Some(cluster) = Cluster::start(Spec::default()).await else {
        return;
    };
    let root = tempfile::tempdir().unwrap();
    for path in [
        "etc/rancher/rke2",
        "var/lib/rancher/rke2/server/tls",
        "proc/sys/kernel",
    ] {
        fs::create_dir_all(root.path().join(path)).unwrap();
    }
    fs::write(root.path().join("proc/sys/kernel/hostname"), "node1\n").unwrap();
    let kubeconfig = cluster.kubeconfig(Who::Admin);
    fs::copy(kubeconfig, root.path().join("etc/rancher/rke2/rke2.yaml")).unwrap();
    let root = root.path();

    assert!(why(&said(root).await).contains("not registered"));

    let client = cluster.client(Who::Admin).await;
    create(
        &client,
        json!({"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": "settings.harvesterhci.io"},
        "spec": {"group": "harvesterhci.io", "scope": "Cluster",
            "names": {"kind": "Setting", "plural": "settings", "singular": "setting"},
            "versions": [{"name": "v1beta1", "served": true, "storage": true,
                "schema": {"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": true}}}]}}),
    )
    .await;
    let setting = json!({"apiVersion": "harvesterhci.io/v1beta1", "kind": "Setting",
        "metadata": {"name": "server-version"}, "value": "v1.8.2"});
    let setting = create(&client, setting).await;
    let (pem, acceptor) = certificate();
    let webhook = Webhook::start(0, acceptor.clone()).await;
    let port = webhook.port;
    let hook = |name: &str, timeout: u8| {
        json!({"name": name, "admissionReviewVersions": ["v1"], "sideEffects": "None", "failurePolicy": "Fail",
            "timeoutSeconds": timeout,
            "clientConfig": {"url": format!("https://127.0.0.1:{port}/validate"), "caBundle": BASE64_STANDARD.encode(&pem)},
            "rules": [{"apiGroups": ["harvesterhci.io"], "apiVersions": ["v1beta1"], "resources": ["settings"],
                "operations": ["CREATE", "UPDATE"]}]})
    };
    create(
        &client,
        json!({"apiVersion": "admissionregistration.k8s.io/v1", "kind": "ValidatingWebhookConfiguration",
            "metadata": {"name": "harvester-validator"}, "webhooks": [hook("validator.harvesterhci.io", 3)]}),
    )
    .await;

    // kube-apiserver takes a moment to notice it.
    eventually("the webhook was asked and answered", DEADLINE, async || {
        let passed = said(root).await == ProbeOutcome::Passed;
        (passed && !webhook.asked.lock().unwrap().is_empty()).then_some(())
    })
    .await;
    let asked = webhook.asked.lock().unwrap().clone();
    for request in &asked {
        assert_eq!(request["operation"], "UPDATE");
        assert_eq!(request["dryRun"], true);
        assert_eq!(request["object"]["value"], "v1.8.2");
    }
    // A denial is an answer.
    webhook.says.send_replace(Says::No);
    eventually("a denial counts as an answer", DEADLINE, async || {
        (said(root).await == ProbeOutcome::Passed).then_some(())
    })
    .await;
    assert!(webhook.asked.lock().unwrap().len() > asked.len());
    // It hangs: kube-apiserver gives it up.
    webhook.says.send_replace(Says::Nothing);
    // A busy kube-apiserver may not give it up within the probe's time.
    let fails_because = async |word: &str| {
        eventually(
            &format!("the webhook fails: {word}"),
            DEADLINE,
            async || {
                let outcome = said(root).await;
                let ProbeOutcome::Failed { why, .. } = &outcome else {
                    return None;
                };
                let named = why.starts_with("validator.harvesterhci.io: ");
                (named && why.contains(word)).then_some(())
            },
        )
        .await;
    };
    fails_because("deadline").await;
    // It is dead, and comes back.
    webhook.stop().await;
    fails_because("refused").await;
    let webhook = Webhook::start(port, acceptor).await;
    eventually("the webhook answers again", DEADLINE, async || {
        (said(root).await == ProbeOutcome::Passed).then_some(())
    })
    .await;
    assert!(!webhook.asked.lock().unwrap().is_empty());

    let gvk = kube::core::GroupVersionKind::gvk("harvesterhci.io", "v1beta1", "Setting");
    let settings: Api<DynamicObject> = Api::all_with(client, &ApiResource::from_gvk(&gvk));
    let now = settings.get("server-version").await.unwrap();
    assert_eq!(now.meta(), setting.meta(), "nothing was changed");
}
