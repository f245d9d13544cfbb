//! Level 4: does an admission webhook answer? Tried through the real kube-apiserver, with a webhook server that
//! answers, denies, hangs, dies and comes back.

#![allow(clippy::unwrap_used, reason = "a helper of tests fails as a test does")]

use std::fs;
use std::path::Path;
use std::sync::{Arc, Mutex};

use jiff::Timestamp;
use kube::api::{Api, ApiResource, DynamicObject, PostParams};
use kube::{Client, Resource};
use serde_json::{Value, json};
use support::cluster::{Cluster, DEADLINE, Spec, Who, eventually};
use support::objects::{SETTING, serve_published};
use support::webhook::{Certificate, Judge, Refusal, WebhookServer};
use tokio::sync::{mpsc, watch};
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

/// Says the same to every review, and keeps its request.
struct Fixed {
    says: watch::Receiver<Says>,
    asked: Arc<Mutex<Vec<Value>>>,
}

impl Judge for Fixed {
    async fn judge(&self, request: Value) -> Option<Result<(), Refusal>> {
        let says = *self.says.borrow();
        self.asked.lock().unwrap().push(request);
        match says {
            Says::Yes => Some(Ok(())),
            Says::No => Some(Err(Refusal {
                code: 400,
                message: "the test says no".to_owned(),
            })),
            Says::Nothing => None,
        }
    }
}

/// A webhook server on loopback; it ends with the value.
struct Webhook {
    server: WebhookServer,
    says: watch::Sender<Says>,
    /// The requests of the reviews that it received.
    asked: Arc<Mutex<Vec<Value>>>,
}

impl Webhook {
    async fn start(port: u16, certificate: Certificate) -> Self {
        let (says, how) = watch::channel(Says::Yes);
        let asked = Arc::new(Mutex::new(Vec::new()));
        let fixed = Fixed {
            says: how,
            asked: asked.clone(),
        };
        Self {
            server: WebhookServer::start(port, certificate, fixed).await,
            says,
            asked,
        }
    }
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
    serve_published(&client, SETTING, "Cluster").await;
    let setting = json!({"apiVersion": "harvesterhci.io/v1beta1", "kind": "Setting",
        "metadata": {"name": "server-version"}, "value": "v1.8.2"});
    let setting = create(&client, setting).await;
    let certificate = Certificate::new();
    let webhook = Webhook::start(0, certificate.clone()).await;
    let port = webhook.server.port;
    let to = webhook.server.client_config();
    let hook = |name: &str, timeout: u8| {
        json!({"name": name, "admissionReviewVersions": ["v1"], "sideEffects": "None", "failurePolicy": "Fail",
            "timeoutSeconds": timeout,
            "clientConfig": to,
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
    webhook.server.stop().await;
    fails_because("refused").await;
    let webhook = Webhook::start(port, certificate).await;
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
