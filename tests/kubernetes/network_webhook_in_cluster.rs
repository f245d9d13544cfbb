//! Level 4: what the webhook of Harvester's network-controller refuses, in its own code, beside what Windrow's rules wait for.

#![allow(clippy::unwrap_used, reason = "a helper of tests fails as a test does")]

use futures::future::join_all;
use kube::Client;
use kube::api::{DeleteParams, PostParams};
use serde_json::{Value, json};
use support::cluster::{Cluster, DEADLINE, HarvesterWebhook, eventually};
use support::objects::{
    CLUSTER_NETWORK, Gvk, NETWORK, VLAN_CONFIG, VLAN_STATUS, VM, VMI, api, create, make, namespace,
    serve_published, status,
};
use windrow_model::manifest::{self, FileContent, ReadLimits};
use windrow_plan::rules::{NeedCondition, RuleSet};

use crate::harvester_webhook_in_cluster::{
    change, objects_of, objects_of_the_example, refusal, refusal_of_creation,
};
use crate::support;

const DENIED: &str = "denied the request: Internal error occurred: can't";

/// A cluster with this webhook, which answers; `None`, after one line, if it is not built.
async fn cluster_with_the_webhook() -> Option<(Cluster, Client, HarvesterWebhook)> {
    let (cluster, client) = Cluster::with_its_admin().await?;
    let served = [
        (CLUSTER_NETWORK, "Cluster"),
        (VLAN_CONFIG, "Cluster"),
        (VLAN_STATUS, "Cluster"),
        (NETWORK, "Namespaced"),
        (VM, "Namespaced"),
        (VMI, "Namespaced"),
    ];
    join_all(served.map(|(gvk, scope)| serve_published(&client, gvk, scope))).await;
    let webhook = cluster.network_webhook().await?;
    let refused = cluster_network("far-too-long-a-name");
    eventually("the webhook answers", DEADLINE, async || {
        refusal_of_creation(&client, &refused).await
    })
    .await;
    Some((cluster, client, webhook))
}

fn object((group, version, kind): Gvk, name: &str, rest: Value) -> Value {
    let mut object = rest;
    object["apiVersion"] = json!(format!("{group}/{version}"));
    object["kind"] = json!(kind);
    object["metadata"]["name"] = json!(name);
    object
}

fn cluster_network(name: &str) -> Value {
    object(CLUSTER_NETWORK, name, json!({}))
}

fn vlan_config(cluster_network: &str) -> Value {
    let spec = json!({"clusterNetwork": cluster_network, "uplink": {"nics": ["ens4"]}});
    object(VLAN_CONFIG, "all", json!({"spec": spec}))
}

fn network(bridge: &str, labels: Value) -> Value {
    let config = json!({"cniVersion": "0.3.1", "name": "servers", "type": "bridge", "bridge": bridge, "vlan": 210, "ipam": {}});
    let rest = json!({"metadata": {"namespace": "default", "labels": labels}, "spec": {"config": config.to_string()}});
    object(NETWORK, "servers", rest)
}

fn labelled(cluster_network: &str) -> Value {
    json!({"network.harvesterhci.io/clusternetwork": cluster_network})
}

/// The cluster networks that Windrow waits for before it releases the object, and whether they have to be ready.
fn awaited(object: &Value) -> Vec<(String, bool)> {
    let bytes = FileContent::Bytes(object.to_string().into_bytes());
    let file = manifest::read("a.yaml", &bytes, &ReadLimits::default());
    let rules = RuleSet::shipped();
    let mut awaited: Vec<_> = file
        .objects()
        .flat_map(|object| rules.references_of(object))
        .filter(|reference| reference.target.kind == "ClusterNetwork")
        .map(|reference| {
            let is_ready = *reference.condition == NeedCondition::Ready;
            (reference.target.name.to_string(), is_ready)
        })
        .collect();
    awaited.dedup();
    awaited
}

#[tokio::test]
async fn a_network_is_refused_until_its_cluster_network_exists_and_windrow_waits_for_that_and_no_longer()
 {
    let Some((_cluster, client, _own)) = cluster_with_the_webhook().await else {
        return;
    };
    let of_uplink = [
        vlan_config("uplink"),
        network("uplink-br", labelled("uplink")),
        network("uplink-br", json!({})),
    ];
    let of_mgmt = network("mgmt-br", labelled("mgmt"));
    for (object, name) in of_uplink
        .iter()
        .map(|object| (object, "uplink"))
        .chain([(&of_mgmt, "mgmt")])
    {
        let (code, words) = refusal_of_creation(&client, object).await.unwrap();
        assert_eq!(code, 500, "{words}");
        let missing = format!("clusternetworks.network.harvesterhci.io \"{name}\" not found");
        assert!(
            words.contains(DENIED) && words.ends_with(&missing),
            "{words}"
        );
        assert_eq!(awaited(object), [(name.to_owned(), false)], "{object}");
    }

    // Nobody reports that it is ready, and nothing waits for that.
    for name in ["uplink", "mgmt"] {
        make(
            &client,
            CLUSTER_NETWORK,
            "",
            json!({"metadata": {"name": name}}),
        )
        .await;
    }
    for object in of_uplink.iter().chain([&of_mgmt]) {
        eventually("it is accepted", DEADLINE, async || {
            refusal_of_creation(&client, object)
                .await
                .is_none()
                .then_some(())
        })
        .await;
    }
    let ready = json!({"conditions": [{"type": "ready", "status": "True"}]});
    status(&api(&client, CLUSTER_NETWORK, ""), "uplink", ready).await;
    for object in &of_uplink {
        assert_eq!(refusal_of_creation(&client, object).await, None);
    }
}

#[tokio::test]
async fn the_networks_of_the_example_are_accepted_in_the_order_of_their_file() {
    let Some((_cluster, client, _own)) = cluster_with_the_webhook().await else {
        return;
    };
    namespace(&client, "orchard").await;
    let mut made = 0;
    for object in objects_of_the_example() {
        let group = object["apiVersion"].as_str().unwrap().to_owned();
        if group.starts_with("network.harvesterhci.io") || group.starts_with("k8s.cni.cncf.io") {
            let kind = objects_of(&client, &object);
            let asked = serde_json::from_value(object).unwrap();
            // The webhook hears of the object before a moment later.
            eventually("it is accepted", DEADLINE, async || {
                kind.create(&PostParams::default(), &asked).await.ok()
            })
            .await;
            made += 1;
        }
    }
    assert_eq!(made, 3);
}

#[tokio::test]
async fn some_networks_are_refused_for_ever() {
    let Some((_cluster, client, _own)) = cluster_with_the_webhook().await else {
        return;
    };
    for name in ["mgmt", "uplink"] {
        make(
            &client,
            CLUSTER_NETWORK,
            "",
            json!({"metadata": {"name": name}}),
        )
        .await;
    }
    eventually("the webhook has heard of them", DEADLINE, async || {
        let both = [
            network("mgmt-br", json!({})),
            network("uplink-br", json!({})),
        ];
        let refused = join_all(
            both.iter()
                .map(|object| refusal_of_creation(&client, object)),
        )
        .await;
        refused.iter().all(Option::is_none).then_some(())
    })
    .await;
    let of_type = |config: &str| {
        let rest = json!({"metadata": {"namespace": "default"}, "spec": {"config": config}});
        object(NETWORK, "servers", rest)
    };
    let large = json!({"clusterNetwork": "uplink", "uplink": {"nics": ["ens4"], "linkAttributes": {"mtu": 90_000}}});
    for (object, words) in [
        (cluster_network("uplink-123456"), "is more than 12"),
        (vlan_config("mgmt"), "cluster network can't be mgmt"),
        (
            object(VLAN_CONFIG, "all", json!({"spec": large})),
            "is out of range",
        ),
        (
            network("br0", json!({})),
            "the length of bridge name br0 is less than 3",
        ),
        (network("bridge0", json!({})), "bridge"),
        (
            network("uplink-br", labelled("mgmt")),
            "the nad label mgmt does not match bridge name uplink",
        ),
        (
            of_type(r#"{"type": "macvlan", "master": "eth0"}"#),
            "the length of bridge name  is less than 3",
        ),
        (
            of_type(r#"{"type": "bridge", "bridge": "uplink-br", "vlan": 5000}"#),
            "vlan 5000 is out of range",
        ),
        (
            of_type("not JSON"),
            "failed to unmarshal nad default/servers config",
        ),
    ] {
        let refused = refusal_of_creation(&client, &object).await;
        let (code, said) = refused.unwrap_or_else(|| panic!("accepted: {object}"));
        assert_eq!(code, 500, "{said}");
        assert!(said.contains(words), "{object}: {said}");
    }
}

#[tokio::test]
async fn a_cluster_network_in_use_is_not_deleted_and_a_network_keeps_its_bridge() {
    let Some((_cluster, client, _own)) = cluster_with_the_webhook().await else {
        return;
    };
    for name in ["mgmt", "uplink"] {
        make(
            &client,
            CLUSTER_NETWORK,
            "",
            json!({"metadata": {"name": name}}),
        )
        .await;
    }
    let networks = api(&client, NETWORK, "default");
    let asked = serde_json::from_value(network("uplink-br", labelled("uplink"))).unwrap();
    eventually("the network is accepted", DEADLINE, async || {
        networks.create(&PostParams::default(), &asked).await.ok()
    })
    .await;
    create(&api(&client, VLAN_CONFIG, ""), vlan_config("uplink")).await;
    let kept = json!({"spec": network("mgmt-br", json!({}))["spec"]});
    let (_, words) = change(&networks, "servers", kept).await.unwrap();
    assert!(
        words.contains("nad bridge name can't be changed from uplink-br to mgmt-br"),
        "{words}"
    );
    let dry = DeleteParams::default().dry_run();
    let cluster_networks = api(&client, CLUSTER_NETWORK, "");
    for (name, why) in [
        ("mgmt", "it is not allowed"),
        (
            "uplink",
            "vlanconfig(s) [all] under this clusternetwork are still existing",
        ),
    ] {
        let words = eventually("it is refused", DEADLINE, async || {
            refusal(cluster_networks.delete(name, &dry)).await
        });
        let (_, words) = words.await;
        assert!(words.contains(why), "{words}");
    }
}
