//! Level 4: a drain check against the real scheduler, disruption controller and eviction API. Only the kubelets are
//! played: a bound pod becomes ready.

#![allow(clippy::unwrap_used, reason = "a helper of tests fails as a test does")]

use std::path::Path;
use std::process::Command;

use k8s_openapi::api::core::v1::{Node, Pod};
use kube::Client;
use kube::api::{Api, DeleteParams, EvictParams, ListParams, PostParams};
use serde_json::{Value, json};
use support::cluster::{Cluster, DEADLINE, Spec, Who, eventually};
use support::objects::{
    DEPLOYMENT, NODE, POD, counted, guarded, make, node, patch, pinned, play_kubelets,
};
use windrow_harvester::schedule::{self, Placement, SchedulerView};

use crate::support;

async fn cordon(client: &Client, name: &str) {
    let cordoned = json!({"spec": {"unschedulable": true}});
    patch(client, NODE, "", name, cordoned).await;
}

async fn pods(client: &Client) -> Vec<Pod> {
    let pods: Api<Pod> = Api::namespaced(client.clone(), "default");
    pods.list(&ListParams::default()).await.unwrap().items
}

fn bound(pod: &Pod) -> Option<&str> {
    pod.spec.as_ref()?.node_name.as_deref()
}

fn condition(pod: &Pod, name: &str) -> Option<(String, String)> {
    let conditions = pod.status.as_ref()?.conditions.as_ref()?;
    let found = conditions.iter().find(|one| one.type_ == name)?;
    Some((
        found.status.clone(),
        found.reason.clone().unwrap_or_default(),
    ))
}

fn name(pod: &Pod) -> String {
    pod.metadata.name.clone().unwrap()
}

/// The program's answer: exit code and document.
fn drain_check(cluster: &Cluster, node: &str) -> (i32, Value) {
    let output = Command::new(env!("CARGO_BIN_EXE_windrow"))
        .args(["drain-check", "-o", "json", node, "--kubeconfig"])
        .arg(cluster.kubeconfig(Who::Admin))
        .output()
        .unwrap();
    let document = serde_json::from_slice(&output.stdout).unwrap_or_else(|_| panic!("{output:?}"));
    (output.status.code().unwrap(), document)
}

/// One round of a drain: how many pods are left on the node, and how many of them the API refuses to evict.
async fn evict(client: &Client, node: &str) -> (usize, usize) {
    let api: Api<Pod> = Api::namespaced(client.clone(), "default");
    let at_once = EvictParams {
        delete_options: Some(DeleteParams::default().grace_period(0)),
        ..EvictParams::default()
    };
    let (mut left, mut refused) = (0, 0);
    for pod in pods(client).await {
        if bound(&pod) != Some(node) {
            continue;
        }
        match api.evict(&name(&pod), &at_once).await {
            Ok(_) => {}
            Err(kube::Error::Api(status)) if status.code == 404 => {}
            Err(kube::Error::Api(status)) if status.code == 429 => {
                left += 1;
                refused += 1;
            }
            Err(other) => panic!("{other}"),
        }
    }
    (left, refused)
}

#[tokio::test]
async fn a_drain_ends_as_it_was_said_before_it_began() {
    let Some(cluster) = Cluster::start(Spec::with_controllers()).await else {
        return;
    };
    let client = cluster.client_that_asks_once(Who::Admin).await;
    let server = json!({"node-role.kubernetes.io/control-plane": "true"});
    node(&client, "n1", server.clone(), json!([])).await;
    // Both of virt-api find a place on the only server; the free deployment may go anywhere.
    for (name, replicas, affinity) in [
        ("virt-api", 2, pinned()),
        ("free", 2, json!({})),
        ("single", 1, json!({})),
    ] {
        guarded(&client, "default", name, "app", replicas, affinity).await;
        counted(&client, "default", name, replicas.into()).await;
    }
    node(&client, "n2", json!({}), json!([])).await;

    let (code, said) = drain_check(&cluster, "n1");
    assert_eq!((code, &said["drain"]), (4, &json!("blocked")), "{said:#}");
    let blocked: Vec<&Value> = said["pods"]
        .as_array()
        .unwrap()
        .iter()
        .filter(|pod| pod["fate"] == "blocked")
        .collect();
    let budgets: Vec<&Value> = blocked.iter().map(|pod| &pod["budget"]).collect();
    assert_eq!(
        budgets,
        ["default/single-pdb", "default/virt-api-pdb"],
        "{said:#}"
    );

    // The drain as kubectl and Rancher do it, until it is where the check predicted: two pods left, both refused, and
    // the scheduler has no node for the replacement.
    cordon(&client, "n1").await;
    eventually(
        "the drain is where it was said to get stuck",
        DEADLINE,
        async || {
            play_kubelets(&client, "default").await;
            let (left, refused) = evict(&client, "n1").await;
            let homeless = pods(&client).await.iter().any(|pod| {
                name(pod).starts_with("virt-api")
                    && condition(pod, "PodScheduled")
                        == Some(("False".into(), "Unschedulable".into()))
            });
            (left == 2 && refused == 2 && homeless).then_some(())
        },
    )
    .await;
    // Half drained, the proof is the same.
    let (code, said) = drain_check(&cluster, "n1");
    assert_eq!(code, 4, "{said:#}");
    let proof = said.to_string();
    assert!(
        proof.contains("no other node takes default/virt-api-"),
        "{proof}"
    );

    // A second server, and the single one scaled up: now it would finish, and it does.
    node(&client, "n3", server, json!([])).await;
    let two = json!({"spec": {"replicas": 2}});
    patch(&client, DEPLOYMENT, "default", "single", two).await;
    counted(&client, "default", "single", 2).await;
    counted(&client, "default", "virt-api", 2).await;
    let (code, said) = drain_check(&cluster, "n1");
    assert_eq!((code, &said["drain"]), (0, &json!("finishes")), "{said:#}");
    eventually("the drain finishes", DEADLINE, async || {
        play_kubelets(&client, "default").await;
        (evict(&client, "n1").await.0 == 0).then_some(())
    })
    .await;
}

#[tokio::test]
async fn a_kind_of_more_than_one_page_is_read_to_its_end() {
    let Some(cluster) = Cluster::start(Spec::default()).await else {
        return;
    };
    let client = cluster.client_that_asks_once(Who::Admin).await;
    node(&client, "n1", json!({}), json!([])).await;
    for number in 0..1050 {
        let pod = json!({
            "metadata": {"name": format!("agent-{number}"), "ownerReferences": [
                {"apiVersion": "apps/v1", "kind": "DaemonSet", "name": "agent", "uid": "1", "controller": true}
            ]},
            "spec": {"nodeName": "n1", "containers": [{"name": "c", "image": "none"}]}
        });
        make(&client, POD, "default", pod).await;
    }
    let (code, said) = drain_check(&cluster, "n1");
    assert_eq!((code, &said["ignored"]), (0, &json!(1050)), "{said:#}");
}

/// The cluster as the schedule module reads it.
async fn places(client: &Client) -> SchedulerView {
    let nodes: Api<Node> = Api::all(client.clone());
    let nodes = nodes.list(&ListParams::default()).await.unwrap().items;
    SchedulerView {
        nodes: nodes
            .iter()
            .map(|node| {
                schedule::SchedulerNode::parse(&serde_json::to_value(node).unwrap()).unwrap()
            })
            .collect(),
        pods: pods(client)
            .await
            .iter()
            .map(|pod| schedule::SchedulerPod::parse(&serde_json::to_value(pod).unwrap()).unwrap())
            .collect(),
        namespaces: Some([("default".to_owned(), windrow_model::object::Labels::new())].into()),
        claims: [].into(),
    }
}

/// Random-looking numbers that are the same in every run.
struct Draw(u64);

impl Draw {
    fn below(&mut self, bound: u64) -> u64 {
        self.0 = self
            .0
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1);
        (self.0 >> 33) % bound
    }

    fn one<const N: usize>(&mut self, of: [&'static str; N]) -> &'static str {
        of[self.below(N as u64) as usize]
    }

    fn pod(&mut self, number: usize) -> Value {
        let app = self.one(["a", "b", "c"]);
        let other = self.one(["a", "b", "c"]);
        let key = self.one(["zone", "kubernetes.io/hostname"]);
        let term = json!({"requiredDuringSchedulingIgnoredDuringExecution": [
            {"labelSelector": {"matchLabels": {"app": other}}, "topologyKey": key}
        ]});
        let mut spec = json!({"affinity": {}, "containers": [{
            "name": "c", "image": "none",
            "resources": {"requests": {"cpu": format!("{}m", 100 + 300 * self.below(6)), "memory": "64Mi"}}
        }]});
        match self.below(8) {
            0 => spec["affinity"]["podAntiAffinity"] = term,
            1 => spec["affinity"]["podAffinity"] = term,
            2 => spec["nodeSelector"] = json!({"zone": self.one(["x", "y"])}),
            3 => {
                spec["topologySpreadConstraints"] = json!([{
                    "maxSkew": 1 + self.below(2), "topologyKey": key, "whenUnsatisfiable": "DoNotSchedule",
                    "labelSelector": {"matchLabels": {"app": app}},
                    "nodeTaintsPolicy": self.one(["Honor", "Ignore"])
                }]);
            }
            4 => spec["tolerations"] = json!([{"key": "dedicated", "operator": "Exists"}]),
            5 => {
                spec["containers"][0]["ports"] =
                    json!([{"containerPort": 80, "hostPort": 8000 + self.below(2)}])
            }
            6 => {
                spec["affinity"]["nodeAffinity"] = json!({"requiredDuringSchedulingIgnoredDuringExecution": {
                    "nodeSelectorTerms": [
                        {"matchExpressions": [{"key": "generation", "operator": "Gt", "values": ["2"]}]},
                        {"matchExpressions": [{"key": "zone", "operator": "NotIn", "values": ["x"]}, {"key": "gpu", "operator": "DoesNotExist"}]}
                    ]
                }});
            }
            _ => {}
        }
        json!({"metadata": {"name": format!("{app}-{number}"), "labels": {"app": app}}, "spec": spec})
    }
}

#[tokio::test]
async fn the_scheduler_puts_each_pod_where_it_was_said_to_fit_and_leaves_what_fits_nowhere() {
    let spec = Spec {
        scheduler: true,
        ..Spec::default()
    };
    let Some(cluster) = Cluster::start(spec).await else {
        return;
    };
    let client = cluster.client_that_asks_once(Who::Admin).await;
    let none = json!([]);
    let taint = json!([{"key": "dedicated", "value": "db", "effect": "NoSchedule"}]);
    node(
        &client,
        "n1",
        json!({"zone": "x", "generation": "1"}),
        none.clone(),
    )
    .await;
    node(
        &client,
        "n2",
        json!({"zone": "x", "generation": "3", "gpu": "yes"}),
        none.clone(),
    )
    .await;
    node(&client, "n3", json!({"zone": "y"}), none.clone()).await;
    node(&client, "n4", json!({"zone": "y"}), taint).await;
    node(&client, "n5", json!({"generation": "4"}), none.clone()).await;
    node(&client, "n6", json!({"zone": "z"}), none).await;
    cordon(&client, "n6").await;

    let api: Api<Pod> = Api::namespaced(client.clone(), "default");
    let mut draw = Draw(4711);
    let (mut placed, mut refused) = (0, 0);
    for number in 0..120 {
        let before = places(&client).await;
        let asked: Pod = serde_json::from_value(draw.pod(number)).unwrap();
        let created = api.create(&PostParams::default(), &asked).await.unwrap();
        let read = schedule::SchedulerPod::parse(&serde_json::to_value(&created).unwrap()).unwrap();
        let said = before.find(&read, None);
        let became = eventually("the scheduler has decided", DEADLINE, async || {
            let pod = api.get(&name(&created)).await.unwrap();
            match bound(&pod) {
                Some(node) => Some(Some(node.to_owned())),
                None => (condition(&pod, "PodScheduled")?.1 == "Unschedulable").then_some(None),
            }
        })
        .await;
        match (&said, &became) {
            (Placement::Fits(nodes), Some(node)) if nodes.contains(node) => placed += 1,
            (Placement::Nowhere(_), None) => {
                refused += 1;
                let at_once = DeleteParams::default().grace_period(0);
                api.delete(&name(&created), &at_once).await.unwrap();
            }
            _ => {
                let pod = serde_json::to_value(api.get(&name(&created)).await.unwrap()).unwrap();
                let others: Vec<String> =
                    before.pods.iter().map(|pod| format!("{pod:?}")).collect();
                panic!(
                    "said {said:?}, became {became:?}: {pod:#}\namong {}",
                    others.join("\n")
                );
            }
        }
    }
    // Both answers were tested.
    assert!(placed > 20 && refused > 20, "{placed} {refused}");
}

#[test]
fn saved_lists_are_checked_without_a_cluster() {
    let directory = tempfile::tempdir().unwrap();
    let write = |name: &str, value: Value| {
        std::fs::write(directory.path().join(name), value.to_string()).unwrap();
    };
    let list = |kind: &str, version: &str, items: Value| json!({"apiVersion": version, "kind": kind, "items": items});
    write(
        "nodes.json",
        list(
            "NodeList",
            "v1",
            json!([{"metadata": {"name": "n1"}}, {"metadata": {"name": "n2"}}]),
        ),
    );
    write(
        "pods.json",
        list(
            "PodList",
            "v1",
            json!([{
                "metadata": {"name": "web-1", "namespace": "d", "labels": {"app": "web"}},
                "spec": {"nodeName": "n1"},
                "status": {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]}
            }]),
        ),
    );
    let run = |path: &Path, node: &[&str]| {
        let output = Command::new(env!("CARGO_BIN_EXE_windrow"))
            .args(["drain-check", "--from"])
            .arg(path)
            .args(node)
            .output()
            .unwrap();
        let said =
            String::from_utf8(output.stdout).unwrap() + &String::from_utf8(output.stderr).unwrap();
        (output.status.code().unwrap(), said)
    };
    // Budgets were not saved: Unknown, not yes.
    let (code, said) = run(directory.path(), &["n1"]);
    assert_eq!(code, 5, "{said}");
    assert!(said.contains("PodDisruptionBudget"), "{said}");
    write(
        "budgets.json",
        list(
            "PodDisruptionBudgetList",
            "policy/v1",
            json!([{
                "metadata": {"name": "web", "namespace": "d"},
                "spec": {"minAvailable": 1, "selector": {"matchLabels": {"app": "web"}}},
                "status": {"expectedPods": 1, "desiredHealthy": 1, "observedGeneration": 1}
            }]),
        ),
    );
    let (code, said) = run(directory.path(), &["n1"]);
    assert_eq!(code, 4, "{said}");
    assert!(said.contains("blocked d/web-1"), "{said}");
    assert_eq!(run(directory.path(), &["n2"]).0, 0);
    let (code, said) = run(directory.path(), &["n3"]);
    assert_eq!(code, 64);
    assert!(
        said.contains("there is no node n3; there are: n1, n2"),
        "{said}"
    );
    assert_eq!(run(directory.path(), &[]).0, 64);
}
