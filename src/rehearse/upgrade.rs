//! What stands in the way of the cluster's next upgrade already at its installation (harvester#7647):
//! modelled pods of KubeVirt, put to the same check as `windrow drain-check`.

use serde_json::{Value, json};

use crate::harvester::drain::{Drain, KINDS, check};
use crate::harvester::objects::{Listed, Objects};
use crate::plan::Finding;
use crate::reasons::Code;
use crate::rules::Location;
use crate::simulate::HarvesterVersion;

/// From here on KubeVirt's own pods were bound to control-plane nodes ...
const PINNED: HarvesterVersion = HarvesterVersion::new(1, 4, 0);
/// ... and from here on no longer (harvester#7725).
const FREE: HarvesterVersion = HarvesterVersion::new(1, 4, 2);
/// The label by which they are bound.
const CONTROL_PLANE: &str = "node-role.kubernetes.io/control-plane";

/// A node of the cluster.
pub struct Member<'a> {
    /// How it is called.
    pub name: &'a str,
    /// Where its configuration stands.
    pub at: Location,
    /// Is it a control-plane node?
    pub control_plane: bool,
}

/// Nodes whose drain can never finish, so that an upgrade stays in Pre-drained. One node alone is not
/// drained.
pub fn drains(members: &[Member<'_>], version: HarvesterVersion) -> Vec<Finding> {
    if members.len() < 2 || version < PINNED || version >= FREE {
        return Vec::new();
    }
    let objects = cluster(members);
    members
        .iter()
        .filter_map(|member| {
            let checked = check(&objects, member.name);
            let first = checked.blocked().next()?;
            (checked.drain == Drain::Blocked).then(|| Finding {
                code: Code::DrainBlocked,
                severity: Code::DrainBlocked.severity(),
                message: Code::DrainBlocked.say(&[
                    ("subject", &format!("Node {}", member.name)),
                    (
                        "why",
                        &format!(
                            "KubeVirt of Harvester v{version} runs {} on control-plane nodes alone: {}",
                            first.pod, first.why
                        ),
                    ),
                ]),
                at: vec![member.at.clone()],
                incident: None,
            })
        })
        .collect()
}

/// Nodes, and KubeVirt's pods and budgets as its operator makes them.
fn cluster(members: &[Member<'_>]) -> Objects {
    let mut objects = Objects::default();
    for kind in KINDS {
        objects.insert(kind.group_kind(), Listed::Objects(Vec::new()));
    }
    for member in members {
        let mut labels = json!({"kubernetes.io/hostname": member.name});
        if member.control_plane {
            labels[CONTROL_PLANE] = "true".into();
        }
        objects.add(json!({"apiVersion": "v1", "kind": "Node",
            "metadata": {"name": member.name, "labels": labels},
            "status": {"allocatable": {"cpu": "8", "memory": "32Gi", "pods": "110"}}}));
    }
    let servers: Vec<&str> = members
        .iter()
        .filter(|member| member.control_plane)
        .map(|member| member.name)
        .collect();
    for app in ["virt-api", "virt-controller"] {
        for (replica, node) in servers.iter().cycle().take(2).enumerate() {
            objects.add(pod(app, replica, node));
        }
        objects.add(
            json!({"apiVersion": "policy/v1", "kind": "PodDisruptionBudget",
            "metadata": {"name": format!("{app}-pdb"), "namespace": "harvester-system",
                "generation": 1},
            "spec": {"minAvailable": 1, "selector": {"matchLabels": {"kubevirt.io": app}}},
            "status": {"observedGeneration": 1, "expectedPods": 2, "desiredHealthy": 1}}),
        );
    }
    objects
}

fn pod(app: &str, replica: usize, node: &str) -> Value {
    json!({"apiVersion": "v1", "kind": "Pod",
        "metadata": {"name": format!("{app}-{replica}"), "namespace": "harvester-system",
            "labels": {"kubevirt.io": app},
            "ownerReferences": [{"kind": "ReplicaSet", "name": app, "controller": true}]},
        "spec": {"nodeName": node, "affinity": {"nodeAffinity": {
            "requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [
                {"matchExpressions": [{"key": CONTROL_PLANE, "operator": "Exists"}]}]}}}},
        "status": {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]}})
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_one_control_plane_node_of_several_nodes_blocks_and_only_at_the_pinned_versions() {
        let codes = |control_planes: &[bool], version: (u32, u32, u32)| {
            let names = ["n1", "n2", "n3"];
            let members: Vec<Member<'_>> = names
                .iter()
                .zip(control_planes)
                .map(|(name, control_plane)| Member {
                    name,
                    at: Location::file(*name),
                    control_plane: *control_plane,
                })
                .collect();
            let version = HarvesterVersion::new(version.0, version.1, version.2);
            drains(&members, version)
                .into_iter()
                .map(|finding| (finding.code, finding.at[0].file.clone()))
                .collect::<Vec<_>>()
        };
        let blocked = [(Code::DrainBlocked, "n1".to_owned())];
        assert_eq!(codes(&[true, false], (1, 4, 1)), blocked);
        assert_eq!(codes(&[true, false], (1, 4, 2)), []);
        assert_eq!(codes(&[true, false], (1, 3, 2)), []);
        assert_eq!(codes(&[true], (1, 4, 1)), []);
        assert_eq!(codes(&[true, true, true], (1, 4, 1)), []);
    }
}
