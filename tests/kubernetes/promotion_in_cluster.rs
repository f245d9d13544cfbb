//! Level 4: Harvester's own promotion of agents to servers, on Nodes with the condition that Windrow writes, and what Windrow says
//! of an agent that is not promoted.

#![allow(clippy::unwrap_used, reason = "a helper of tests fails as a test does")]

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use jiff::{SignedDuration, Timestamp};
use kube::Client;
use kube::api::{Api, DeleteParams, DynamicObject, Patch, PatchParams};
use serde_json::{Value, json};
use support::cluster::{Cluster, DEADLINE, HarvesterControllers, Spec, Who, eventually};
use support::objects::{JOB, NAMESPACE, NODE, api, make, status};
use windrow::observe::objects::diagnosed;
use windrow_decide::{NodeRole, Readiness};
use windrow_harvester::node_condition::{CONDITION, FORMER_CONDITION};
use windrow_model::reasons::Code;

use crate::node_outlet_in_cluster::Open;
use crate::support;

const HARVESTER: &str = "harvester-system";
const NODES: [&str; 3] = ["n1", "n2", "n3"];
const SERVER: &str = "node-role.kubernetes.io/control-plane";
const ETCD: &str = "node-role.kubernetes.io/etcd";
const WITNESS: &str = "node-role.harvesterhci.io/witness";
const PROMOTION: &str = "harvesterhci.io/promote-status";
const ZONE: &str = "topology.kubernetes.io/zone";

/// What the controller reads: Harvester's release, which names the image of its Jobs.
async fn install_harvester(client: &Client) {
    make(
        client,
        NAMESPACE,
        "",
        json!({"metadata": {"name": HARVESTER}}),
    )
    .await;
    let release = json!({
        "name": "harvester", "namespace": HARVESTER, "version": 1, "info": {"status": "deployed"},
        "chart": {"metadata": {"name": "harvester", "version": "1.8.2", "apiVersion": "v2"}, "values": {}},
        "config": {"generalJob": {"image": {"repository": "rancher/harvester", "tag": "v1.8.2"}}},
    });
    let secret = json!({
        "metadata": {"name": "sh.helm.release.v1.harvester.v1",
            "labels": {"owner": "helm", "name": "harvester", "status": "deployed", "version": "1"}},
        "type": "helm.sh/release.v1",
        "stringData": {"release": BASE64.encode(release.to_string())},
    });
    make(client, ("", "v1", "Secret"), HARVESTER, secret).await;
}

/// Changes a Node, and returns its version.
async fn label(nodes: &Api<DynamicObject>, node: &str, name: &str) -> String {
    let patch = Patch::Merge(json!({"metadata": {"labels": {name: "true"}}}));
    let node = nodes
        .patch(node, &PatchParams::default(), &patch)
        .await
        .unwrap();
    node.metadata.resource_version.unwrap()
}

async fn promotion(nodes: &Api<DynamicObject>, node: &str) -> Option<String> {
    let node = nodes.get(node).await.unwrap();
    node.metadata
        .annotations
        .and_then(|mut all| all.remove(PROMOTION))
}

/// Waits for a status of the promotion on one of these Nodes, and returns the Node.
async fn promoted<'n>(nodes: &Api<DynamicObject>, of: &[&'n str], expected: &str) -> &'n str {
    eventually(
        &format!("one of {of:?} is {expected}"),
        DEADLINE,
        async || {
            for node in of {
                if promotion(nodes, node).await.as_deref() == Some(expected) {
                    return Some(*node);
                }
            }
            None
        },
    )
    .await
}

/// Waits until a Node has Windrow's condition with this status, and no former one.
async fn has_condition(nodes: &Api<DynamicObject>, node: &str, expected: &str) {
    eventually(&format!("{node} is {expected}"), DEADLINE, async || {
        let node = nodes.get(node).await.unwrap();
        let conditions = node.data["status"]["conditions"].as_array()?.clone();
        let status = |name: &str| {
            let found = conditions
                .iter()
                .find(|condition| condition["type"] == name);
            found.and_then(|condition| condition["status"].as_str())
        };
        (status(CONDITION) == Some(expected) && status(FORMER_CONDITION).is_none()).then_some(())
    })
    .await;
}

/// The Job controller writes these conditions.
async fn end_job(jobs: &Api<DynamicObject>, job: &str, conditions: &[&str]) {
    let now = Timestamp::now().strftime("%Y-%m-%dT%H:%M:%SZ").to_string();
    let condition = |name: &&str| {
        json!({"type": name, "status": "True", "reason": "x", "message": "x",
            "lastProbeTime": now, "lastTransitionTime": now})
    };
    let conditions: Vec<Value> = conditions.iter().map(condition).collect();
    let mut end = json!({"startTime": now, "conditions": conditions});
    match conditions[1]["type"] == "Complete" {
        true => (end["completionTime"], end["succeeded"]) = (json!(now), json!(1)),
        false => end["failed"] = json!(3),
    }
    status(jobs, job, end).await;
}

/// The script of the promotion has ended on the node, and RKE2 gives it this role.
async fn finish_promotion(client: &Client, nodes: &Api<DynamicObject>, node: &str, role: &str) {
    let jobs = api(client, JOB, HARVESTER);
    let job = format!("harvester-promote-{node}");
    eventually(&format!("there is Job {job}"), DEADLINE, async || {
        jobs.get_opt(&job).await.unwrap()
    })
    .await;
    end_job(&jobs, &job, &["SuccessCriteriaMet", "Complete"]).await;
    promoted(nodes, &[node], "complete").await;
    label(nodes, node, role).await;
}

/// A Node of Harvester with these labels, and these conditions besides `Ready`. It has them from the first moment, as under a kubelet:
/// Harvester promotes a Node without conditions.
async fn make_node(client: &Client, name: &str, mut labels: Value, more: &[(&str, &str)]) {
    let entry = |(name, status): (&str, &str)| {
        json!({"type": name, "status": status, "lastHeartbeatTime": "2026-11-21T20:00:00Z",
            "lastTransitionTime": "2026-11-21T20:00:00Z"})
    };
    let own = [("MemoryPressure", "False"), ("Ready", "True")];
    let conditions: Vec<Value> = own.iter().chain(more).copied().map(entry).collect();
    labels["harvesterhci.io/managed"] = json!("true");
    let node = json!({"metadata": {"name": name, "labels": labels,
        "annotations": {"node.alpha.kubernetes.io/ttl": "0"}}, "status": {"conditions": conditions}});
    make(client, NODE, "", node).await;
}

/// Nodes of Harvester with these conditions besides `Ready`; the first one is a server.
async fn make_nodes(client: &Client, more: &[(&str, &str)]) -> Api<DynamicObject> {
    let nodes = api(client, NODE, "");
    for name in NODES {
        make_node(client, name, json!({}), more).await;
    }
    label(&nodes, "n1", SERVER).await;
    nodes
}

/// Harvester promotes no Node before a change of it, so each changes after the first list.
async fn change_after_first_list(harvester: &HarvesterControllers, nodes: &Api<DynamicObject>) {
    for name in NODES {
        let version = nodes.get(name).await.unwrap().metadata.resource_version;
        harvester.handled(name, &version.unwrap()).await;
    }
    for name in NODES {
        let version = label(nodes, name, "example.com/changed").await;
        harvester.handled(name, &version).await;
    }
}

fn report(windrow: &[Open], name: &str, role: NodeRole, readiness: Readiness) {
    let index = NODES.iter().position(|node| *node == name).unwrap();
    windrow[index].publish_as(role, readiness, Code::ProbeUnknown, "x");
}

fn is_cordoned(node: &DynamicObject) -> bool {
    node.data["spec"]["unschedulable"] == Value::Bool(true)
}

#[tokio::test]
async fn harvester_promotes_agents_whatever_windrow_reports_and_none_with_the_former_condition() {
    let Some(cluster) = Cluster::start(Spec::default()).await else {
        return;
    };
    let client = cluster.client(Who::Admin).await;
    install_harvester(&client).await;
    // As an earlier version of Windrow left it.
    let nodes = make_nodes(&client, &[(FORMER_CONDITION, "True")]).await;
    let Some(harvester) = cluster.harvester_controllers(&["promote"]) else {
        return;
    };
    change_after_first_list(&harvester, &nodes).await;
    for name in NODES {
        assert_eq!(promotion(&nodes, name).await, None, "{name}");
    }

    let windrow = NODES.map(|name| Open::new(cluster.kubeconfig(Who::Admin), name));
    let report = |name: &str, role, readiness| report(&windrow, name, role, readiness);
    report("n1", NodeRole::FirstServer, Readiness::Failed);
    report("n2", NodeRole::Agent, Readiness::SettingUp);
    report("n3", NodeRole::Agent, Readiness::Failed);
    for (name, expected) in NODES.iter().zip(["True", "Unknown", "Unknown"]) {
        has_condition(&nodes, name, expected).await;
    }
    let first = promoted(&nodes, &["n2", "n3"], "running").await;
    assert!(is_cordoned(&nodes.get(first).await.unwrap()));
    finish_promotion(&client, &nodes, first, SERVER).await;
    assert!(!is_cordoned(&nodes.get(first).await.unwrap()));

    // As a server it may say that its bootstrap is incomplete.
    report(first, NodeRole::JoinedServer, Readiness::SettingUp);
    has_condition(&nodes, first, "True").await;
    let second = if first == "n2" { "n3" } else { "n2" };
    promoted(&nodes, &[second], "running").await;
    finish_promotion(&client, &nodes, second, SERVER).await;
    for outlet in windrow {
        outlet.stop().await;
    }
}

#[tokio::test]
async fn harvester_promotes_a_witness_and_the_next_agent_beside_it_in_the_worst_states_that_windrow_reports()
 {
    let Some(cluster) = Cluster::start(Spec::default()).await else {
        return;
    };
    let client = cluster.client(Who::Admin).await;
    install_harvester(&client).await;
    let nodes = make_nodes(&client, &[]).await;
    // Until a Node is ready without Windrow, nothing is promoted.
    let conditions = json!([{"type": "Ready", "status": "False", "lastHeartbeatTime": "2026-11-21T20:00:00Z",
        "lastTransitionTime": "2026-11-21T20:00:00Z"}]);
    status(&nodes, "n3", json!({"conditions": conditions})).await;
    label(&nodes, "n3", WITNESS).await;
    let Some(harvester) = cluster.harvester_controllers(&["promote"]) else {
        return;
    };
    change_after_first_list(&harvester, &nodes).await;
    let windrow = NODES.map(|name| Open::new(cluster.kubeconfig(Who::Admin), name));
    let report = |name: &str, role, readiness| report(&windrow, name, role, readiness);
    report("n1", NodeRole::FirstServer, Readiness::Failed);
    report("n2", NodeRole::Agent, Readiness::Failed);
    report("n3", NodeRole::Agent, Readiness::Failed);
    for (name, expected) in NODES.iter().zip(["True", "Unknown", "Unknown"]) {
        has_condition(&nodes, name, expected).await;
        assert_eq!(promotion(&nodes, name).await, None, "{name}");
    }
    let mut conditions = nodes.get("n3").await.unwrap().data["status"]["conditions"].clone();
    for condition in conditions.as_array_mut().unwrap() {
        if condition["type"] == "Ready" {
            condition["status"] = "True".into();
        }
    }
    status(&nodes, "n3", json!({"conditions": conditions})).await;
    // Harvester chooses the witness first.
    promoted(&nodes, &["n2", "n3"], "running").await;
    assert_eq!(promotion(&nodes, "n2").await, None);
    finish_promotion(&client, &nodes, "n3", ETCD).await;
    report("n3", NodeRole::Witness, Readiness::Failed);
    has_condition(&nodes, "n3", "True").await;
    promoted(&nodes, &["n2"], "running").await;
    finish_promotion(&client, &nodes, "n2", SERVER).await;
    for outlet in windrow {
        outlet.stop().await;
    }
}

/// Harvester, and the Nodes that there are so far.
struct Growing {
    client: Client,
    nodes: Api<DynamicObject>,
    harvester: HarvesterControllers,
    names: Vec<&'static str>,
    round: u32,
}

impl Growing {
    /// A Node in a zone, with Windrow's condition.
    async fn add(&mut self, name: &'static str, zone: &str, condition: &str) {
        let labels = json!({ZONE: zone});
        make_node(&self.client, name, labels, &[(CONDITION, condition)]).await;
        self.names.push(name);
    }

    /// Changes a Node, and waits until Harvester has handled that.
    async fn change(&self, node: &str, change: Value) {
        let (params, change) = (PatchParams::default(), Patch::Merge(&change));
        let changed = self.nodes.patch(node, &params, &change).await.unwrap();
        let version = changed.metadata.resource_version.unwrap();
        self.harvester.handled(node, &version).await;
    }

    /// Harvester has looked at a change of each Node.
    async fn change_all(&mut self) {
        self.round += 1;
        for name in self.names.clone() {
            let label = json!({"example.com/changed": self.round.to_string()});
            self.change(name, json!({"metadata": {"labels": label}}))
                .await;
        }
    }

    /// What Windrow says of a missing promotion, as of twenty minutes later.
    async fn said(&self) -> Option<String> {
        self.said_after(20).await
    }

    async fn said_after(&self, minutes: i64) -> Option<String> {
        let later = Timestamp::now() + SignedDuration::from_mins(minutes);
        let found = diagnosed(&self.client, later).await.findings;
        let why = found.into_iter().find(|one| one.code == Code::NotPromoted);
        why.map(|one| one.message)
    }

    /// Nothing is promoted, and Windrow says so with these words, or says nothing.
    async fn promotes_none(&mut self, words: Option<&str>) {
        self.change_all().await;
        for name in &self.names {
            let promotion = promotion(&self.nodes, name).await;
            assert_ne!(promotion.as_deref(), Some("running"), "{name}");
        }
        match (words, self.said().await) {
            (None, None) => {}
            (Some(words), Some(said)) => assert!(said.contains(words), "{said}"),
            (words, said) => panic!("{words:?}: {said:?}"),
        }
    }

    /// One of these is promoted, and Windrow has nothing to say.
    async fn promotes_one_of(&mut self, of: &[&'static str]) -> &'static str {
        self.change_all().await;
        let running = promoted(&self.nodes, of, "running").await;
        assert_eq!(self.said().await, None);
        running
    }

    /// What Windrow advises after a promotion that ended badly.
    async fn clear(&self, node: &str) {
        let job = format!("harvester-promote-{node}");
        let jobs = api(&self.client, JOB, HARVESTER);
        if jobs.get_opt(&job).await.unwrap().is_some() {
            jobs.delete(&job, &DeleteParams::background())
                .await
                .unwrap();
        }
        let without = json!({"metadata": {"annotations": {PROMOTION: null}}});
        self.change(node, without).await;
    }
}

#[tokio::test]
async fn harvester_promotes_by_number_and_zones_and_windrow_names_what_is_in_the_way() {
    let Some(cluster) = Cluster::start(Spec::default()).await else {
        return;
    };
    let client = cluster.client(Who::Admin).await;
    install_harvester(&client).await;
    make_node(
        &client,
        "n1",
        json!({SERVER: "true"}),
        &[(CONDITION, "True")],
    )
    .await;
    let nodes = api(&client, NODE, "");
    let Some(harvester) = cluster.harvester_controllers(&["promote"]) else {
        return;
    };
    let names = vec!["n1"];
    let mut site = Growing {
        client,
        nodes,
        harvester,
        names,
        round: 0,
    };
    site.promotes_none(None).await;
    site.add("n2", "a", "Unknown").await;
    site.promotes_none(None).await;

    // A condition that is True on an agent keeps it out, which is why Windrow writes Unknown there.
    site.add("n3", "b", "True").await;
    site.promotes_none(Some("only 2 of 3 nodes can be servers"))
        .await;
    let mut conditions = site.nodes.get("n3").await.unwrap().data["status"]["conditions"].clone();
    conditions[2]["status"] = json!("False");
    let worker =
        |value: Value| json!({"metadata": {"labels": {"node-role.harvesterhci.io/worker": value}}});
    site.change("n3", worker(json!("true"))).await;
    status(&site.nodes, "n3", json!({"conditions": conditions})).await;
    site.promotes_none(None).await;

    // The server gets a zone before the third agent counts: three zones are needed then.
    site.change("n1", json!({"metadata": {"labels": {ZONE: "a"}}}))
        .await;
    site.change("n3", worker(Value::Null)).await;
    site.promotes_none(Some("2 of 3 zones have a possible server"))
        .await;
    site.add("n4", "c", "Unknown").await;
    let first = site.promotes_one_of(&["n3", "n4"]).await;
    // While its Job neither completes nor fails, Harvester promotes nobody; Windrow says so after three quarters of an hour.
    assert_eq!(site.promotes_one_of(&["n3", "n4"]).await, first);
    let said = site.said_after(60).await.unwrap_or_default();
    let expected = format!("the promotion of {first} has been running since ");
    assert!(said.contains(&expected), "{said}");

    let jobs = api(&site.client, JOB, HARVESTER);
    let job = |node: &str| format!("harvester-promote-{node}");
    end_job(&jobs, &job(first), &["FailureTarget", "Failed"]).await;
    promoted(&site.nodes, &[first], "failed").await;
    site.add("n5", "b", "Unknown").await;
    site.add("n6", "c", "False").await;
    site.promotes_none(Some(&format!("the promotion of {first} ended as failed")))
        .await;
    assert!(is_cordoned(&site.nodes.get(first).await.unwrap()));
    // If only the annotation goes, Harvester begins again, and cannot make the Job beside the one that has failed.
    let other = if first == "n3" { "n4" } else { "n3" };
    site.change(other, worker(json!("true"))).await;
    let without = json!({"metadata": {"annotations": {PROMOTION: null}}});
    site.change(first, without).await;
    promoted(&site.nodes, &[first], "running").await;
    let said = site.said().await.unwrap_or_default();
    let expected = format!("its Job {HARVESTER}/{} has failed", job(first));
    assert!(said.contains(&expected), "{said}");
    site.change(other, worker(Value::Null)).await;
    site.clear(first).await;
    let again = site.promotes_one_of(&["n3", "n4", "n5", "n6"]).await;
    finish_promotion(&site.client, &site.nodes, again, SERVER).await;

    // Of the six, only those of the zone without a server are left.
    let zone = site
        .nodes
        .get(again)
        .await
        .unwrap()
        .metadata
        .labels
        .unwrap()[ZONE]
        .clone();
    let left = if zone == "b" {
        ["n4", "n6"]
    } else {
        ["n3", "n5"]
    };
    let third = site.promotes_one_of(&left).await;
    jobs.delete(&job(third), &DeleteParams::background())
        .await
        .unwrap();
    promoted(&site.nodes, &[third], "unknown").await;
    site.promotes_none(Some(&format!("the promotion of {third} ended as unknown")))
        .await;
    site.clear(third).await;
    let third = site.promotes_one_of(&left).await;
    finish_promotion(&site.client, &site.nodes, third, SERVER).await;
    site.promotes_none(None).await;
}
