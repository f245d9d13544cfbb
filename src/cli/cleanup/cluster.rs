//! Traces of Windrow in the cluster: the condition and the annotation of this node's Node, and the Leases of all
//! servers.

use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::api::core::v1::Node;
use kube::Client;
use kube::api::{Api, DeleteParams, ListParams, Preconditions};
use serde_json::{Value, json};
use windrow_gates::TrialNote;
use windrow_harvester::node_condition::{ANNOTATION, CONDITION, FORMER_CONDITION, has_own_entries};

use super::super::Context;
use crate::act::ClusterLease;
use crate::act::repair::{NoteFailure, RestoreNote};
use crate::apiserver::{ApiServer, within};
use crate::fs;
use crate::kubeconfig;
use crate::layout::Layout;
use crate::observe::management::lease_holder;
use crate::observe::rke2::admin_kubeconfig;
use crate::printable::shell_word;
use crate::report::cluster::{NodeWriter, remove_condition};

/// Removes both, and prints the remaining traces with the command that removes them. They do no harm, so this is not a failure. False
/// if a repair of this server has not restored its changes.
pub(super) fn clean_up(context: &Context) -> anyhow::Result<bool> {
    let data_dir = context.settings().settings.data_dir;
    let layout = context.layout.clone().with_data_dir(&data_dir);
    let own = layout.kubelet_kubeconfig();
    // Without a kubelet there was never a Node.
    let Some(node) = kubeconfig::node_name(&own) else {
        return Ok(true);
    };
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?;
    let writer = NodeWriter {
        kubeconfig: own,
        node,
    };
    let api = ApiServer::for_verb(&layout);
    runtime.block_on(async {
        clean_up_node(&api, &writer).await;
        Ok(clean_up_leases(&api, &layout, &writer.node).await)
    })
}

async fn clean_up_node(api: &ApiServer, writer: &NodeWriter) {
    let node = &writer.node;
    match remove_condition(api, writer).await {
        Ok(()) => {
            println!(
                "removed the condition {CONDITION} and the annotation {ANNOTATION} from Node {node}"
            );
        }
        Err(why) => {
            let conditions =
                [CONDITION, FORMER_CONDITION].map(|name| json!({"$patch": "delete", "type": name}));
            let patch = json!({"status": {"conditions": conditions}});
            eprintln!("windrow: Node {node} keeps the condition {CONDITION}: {why}. To remove it:");
            let node = shell_word(node);
            eprintln!(
                "  kubectl patch node {node} --subresource=status --type=strategic -p '{patch}'"
            );
            eprintln!("  kubectl annotate node {node} {ANNOTATION}-");
        }
    }
}

async fn clean_up_leases(api: &ApiServer, layout: &Layout, node: &str) -> bool {
    let kubeconfig = admin_kubeconfig(layout);
    let holder = lease_holder(layout);
    let mut is_clean = true;
    let removed = if fs::is_file(&kubeconfig) {
        match api.client(&kubeconfig).await {
            Ok(client) => {
                let mut left = match RestoreNote::entries(&client).await {
                    Ok(left) => left,
                    // Deleting them fails for the same reason.
                    Err(NoteFailure::Unanswered(_)) => Vec::new(),
                    Err(why) => {
                        eprintln!(
                            "windrow: the Leases stay, because repairs may have left changes: {why}"
                        );
                        let _ = return_lease(&client, holder).await;
                        return false;
                    }
                };
                left.retain(|entry| !entry.changes.is_empty());
                for entry in &left {
                    let (subject, server, record) = (&entry.subject, &entry.server, &entry.record);
                    eprintln!(
                        "windrow: a repair of {subject}, begun by {server}, has not restored what it changed. On a server, run \
                         `windrow repair --undo {}`",
                        shell_word(record)
                    );
                    is_clean &= entry.server != holder;
                }
                if !left.is_empty() {
                    // The changes left to restore are in a Lease.
                    let _ = return_lease(&client, holder).await;
                    return is_clean;
                }
                let removed = remove_leases(&client, node, &holder).await;
                match &removed {
                    Ok(_) => removed,
                    Err(_) => return_lease(&client, holder.clone()).await.and(removed),
                }
            }
            Err(why) => Err(why),
        }
    } else {
        Err("only a server may delete them".to_owned())
    };
    match removed {
        Ok(names) => {
            for name in names {
                println!("removed the Lease {name} from {}", ClusterLease::NAMESPACE);
            }
        }
        Err(why) => println!(
            "left Windrow's Leases in the cluster: {why}. After you have removed Windrow from the last node: \
             kubectl delete lease -n {} --ignore-not-found {}",
            ClusterLease::NAMESPACE,
            ClusterLease::NAMES.join(" ")
        ),
    }
    is_clean
}

/// Another server need not wait for a trial that was ended here.
async fn return_lease(client: &Client, holder: String) -> Result<(), String> {
    let lease = ClusterLease::new(ClusterLease::GATES, holder.clone(), ClusterLease::ANSWER);
    let before = lease.note(client).await?;
    // An unreadable note stays as it is.
    let note = TrialNote::parse(before.as_deref()).ok();
    let ended = note.clone().map(|note| note.left_by(&holder));
    if let Some(ended) = ended.filter(|ended| Some(ended) != note.as_ref()) {
        // Without the lease, the entry counts for a day.
        let _ = lease
            .write_note(client, before.as_deref(), ended.text())
            .await;
    }
    lease.release(client).await
}

/// Deletes the Leases unless another node uses Windrow, and returns the names of the deleted Leases.
async fn remove_leases(
    client: &Client,
    node: &str,
    holder: &str,
) -> Result<Vec<&'static str>, String> {
    let leases: Api<Lease> = Api::namespaced(client.clone(), ClusterLease::NAMESPACE);
    let mut found = Vec::new();
    for name in ClusterLease::NAMES {
        let lease = within(ClusterLease::ANSWER, leases.get_opt(name)).await;
        if let Some(lease) = lease.map_err(|failure| failure.to_string())? {
            found.push((name, lease));
        }
    }
    if found.is_empty() {
        return Ok(Vec::new());
    }
    let nodes: Api<Node> = Api::all(client.clone());
    let all = ListParams::default();
    let nodes = within(ClusterLease::ANSWER, nodes.list(&all)).await;
    let nodes = nodes.map_err(|failure| failure.to_string())?.items;
    let nodes: Vec<Value> = nodes
        .into_iter()
        .filter_map(|node| serde_json::to_value(node).ok())
        .collect();
    let holders = found
        .iter()
        .filter_map(|(_, lease)| lease.spec.as_ref()?.holder_identity.as_deref());
    if let Some(user) = other_user(&nodes, node, holders, holder) {
        return Err(format!("{user} may still use them"));
    }
    let mut removed = Vec::new();
    for (name, lease) in found {
        // A server that takes the Lease meanwhile has changed its version.
        let parameters = DeleteParams {
            preconditions: Some(Preconditions {
                resource_version: lease.metadata.resource_version,
                uid: lease.metadata.uid,
            }),
            ..DeleteParams::default()
        };
        match within(ClusterLease::ANSWER, leases.delete(name, &parameters)).await {
            Ok(_) => removed.push(name),
            Err(failure) if failure.is_conflict() => {
                return Err("another node has just taken one".to_owned());
            }
            Err(failure) => return Err(failure.to_string()),
        }
    }
    Ok(removed)
}

/// Another node on which Windrow may be installed: a server, a Node that has Windrow's condition or annotation, or the
/// holder of a Lease. A server that reports nothing to the cluster has neither, and relies on the notes of earlier
/// repairs in the Leases.
fn other_user<'a>(
    nodes: &'a [Value],
    own_node: &str,
    mut holders: impl Iterator<Item = &'a str>,
    own_holder: &str,
) -> Option<&'a str> {
    let is_server = |node: &Value| {
        let labels = &node["metadata"]["labels"];
        ["control-plane", "etcd"].iter().any(|role| {
            labels
                .get(format!("node-role.kubernetes.io/{role}"))
                .is_some()
        })
    };
    let names = nodes.iter();
    let names = names.filter(|node| has_own_entries(node) || is_server(node));
    let mut names = names.filter_map(|node| node["metadata"]["name"].as_str());
    let holder = holders.find(|holder| !holder.is_empty() && *holder != own_holder);
    names.find(|name| *name != own_node).or(holder)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::act::testing::ObjectStore;

    #[test]
    fn leases_stay_while_another_node_has_the_condition_or_the_annotation_or_holds_one() {
        let node = |name: &str, condition: Option<&str>| {
            let conditions: Vec<Value> = condition
                .iter()
                .map(|name| json!({"type": name, "status": "Unknown"}))
                .collect();
            json!({"metadata": {"name": name}, "status": {"conditions": conditions}})
        };
        let annotated = json!({"metadata": {"name": "n4", "annotations": {ANNOTATION: "{}"}}});
        let server =
            json!({"metadata": {"name": "n5", "labels": {"node-role.kubernetes.io/etcd": "true"}}});
        let own = node("n1", Some(CONDITION));
        for (others, holders, expected) in [
            (vec![], vec![], None),
            (vec![node("n2", Some("Ready"))], vec!["n1-abc", ""], None),
            (vec![node("n2", Some(CONDITION))], vec![], Some("n2")),
            (
                vec![node("n3", Some(FORMER_CONDITION))],
                vec!["n1-abc"],
                Some("n3"),
            ),
            (vec![annotated], vec![], Some("n4")),
            (vec![server], vec![], Some("n5")),
            (
                vec![node("n2", None)],
                vec!["n1-abc", "n2-def"],
                Some("n2-def"),
            ),
        ] {
            let nodes = [vec![own.clone()], others].concat();
            let user = other_user(&nodes, "n1", holders.into_iter(), "n1-abc");
            assert_eq!(user, expected);
        }
    }

    #[tokio::test]
    async fn the_other_servers_learn_that_a_trial_was_ended_by_the_removal_of_windrow() {
        let store = ObjectStore::default();
        let client = store.client();
        let hour = std::time::Duration::from_secs(3600);
        let mut lease = ClusterLease::new(ClusterLease::GATES, "n1-abc".to_owned(), hour);
        let now = jiff::Timestamp::UNIX_EPOCH;
        lease.take(&client, now).await.unwrap();
        let begun = windrow_gates::TriedDropIn {
            by: "n1-abc".to_owned(),
            request: "r1".to_owned(),
            version: "1.34.2".to_owned(),
            content: None,
            at: now,
            why: None,
        };
        let note = TrialNote::default().begun(begun).unwrap().text();
        lease.write_note(&client, None, note).await.unwrap();
        return_lease(&client, "n1-abc".to_owned()).await.unwrap();
        let (holder, note) = lease.holder_and_note(&client).await.unwrap();
        assert_eq!(holder, None);
        assert_eq!(TrialNote::parse(note.as_deref()), Ok(TrialNote::default()));
    }
}
