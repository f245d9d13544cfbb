//! The pod specification in an object, and its containers.

use serde_json::Value;

use super::ObjectView;

/// In the order in which the kubelet starts them.
const LISTS: [&str; 2] = ["initContainers", "containers"];
/// Containers that are added to a running pod.
const EPHEMERAL: &str = "ephemeralContainers";

#[derive(Debug)]
pub struct Container<'o, V> {
    /// Its list: `containers` or `initContainers`.
    pub list: &'static str,
    /// Its place in this list.
    pub index: usize,
    pub node: &'o V,
}

impl<V> Container<'_, V> {
    /// Whether it ends before the other containers start. A sidecar (`restartPolicy: Always`) counts too.
    pub fn is_init(&self) -> bool {
        self.list == LISTS[0]
    }
}

/// The path of the pod template in an object of one of Kubernetes' own kinds; empty for a Pod. `None` if such an object makes no pods.
pub fn pod_template_path(group: &str, kind: &str) -> Option<&'static [&'static str]> {
    match (group, kind) {
        ("", "Pod") => Some(&[]),
        ("", "ReplicationController")
        | ("apps", "DaemonSet" | "Deployment" | "ReplicaSet" | "StatefulSet")
        | ("batch", "Job") => Some(&["spec", "template"]),
        ("batch", "CronJob") => Some(&["spec", "jobTemplate", "spec", "template"]),
        _ => None,
    }
}

/// The init containers, then the other containers.
pub fn containers<V: ObjectView>(spec: &V) -> impl Iterator<Item = Container<'_, V>> {
    LISTS.into_iter().flat_map(|list| in_list(spec, list))
}

/// The other containers, then the init containers, as Kubernetes validates and counts them.
pub fn containers_before_init<V: ObjectView>(spec: &V) -> impl Iterator<Item = Container<'_, V>> {
    LISTS.into_iter().rev().flat_map(|list| in_list(spec, list))
}

fn in_list<'o, V: ObjectView>(
    spec: &'o V,
    list: &'static str,
) -> impl Iterator<Item = Container<'o, V>> {
    let containers = spec.list(list).iter().enumerate();
    containers.map(move |(index, node)| Container { list, index, node })
}

/// All containers, including the ephemeral ones, to be changed.
pub fn containers_mut(spec: &mut Value) -> impl Iterator<Item = &mut Value> {
    let lists = spec.as_object_mut().into_iter().flatten();
    let lists = lists.filter(|(key, _)| LISTS.contains(&key.as_str()) || *key == EPHEMERAL);
    lists
        .filter_map(|(_, containers)| containers.as_array_mut())
        .flatten()
}

/// The statuses of a pod's containers: of the init containers, then of the others.
pub fn container_statuses<V: ObjectView>(pod: &V) -> impl Iterator<Item = &V> {
    let lists = ["initContainerStatuses", "containerStatuses"].into_iter();
    lists.flat_map(|list| {
        pod.get("status")
            .map_or(&[][..], |status| status.list(list))
    })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::manifest::yaml;

    const SPEC: &str = "{containers: [{name: a}, {name: b}], initContainers: [{name: i}], ephemeralContainers: [{name: e}]}";

    fn names<'o, V: ObjectView + 'o>(
        containers: impl Iterator<Item = Container<'o, V>>,
    ) -> Vec<(&'o str, usize, bool)> {
        let name = |container: Container<'o, V>| {
            let is_init = container.is_init();
            (container.node.text("name"), container.index, is_init)
        };
        containers.map(name).collect()
    }

    #[test]
    fn both_trees_have_the_same_containers() {
        let node = yaml::parse_configuration(SPEC).unwrap().unwrap();
        let json = node.to_json();
        let expected = [("i", 0, true), ("a", 0, false), ("b", 1, false)];
        assert_eq!(names(containers(&node)), expected);
        assert_eq!(names(containers(&json)), expected);
        let others_first = [expected[1], expected[2], expected[0]];
        assert_eq!(names(containers_before_init(&node)), others_first);
        assert_eq!(names(containers(&json!({"containers": "none"}))), []);
    }

    #[test]
    fn a_change_reaches_ephemeral_containers_too() {
        let mut spec = yaml::parse_configuration(SPEC).unwrap().unwrap().to_json();
        containers_mut(&mut spec).for_each(|container| *container = json!(null));
        assert!(!spec.to_string().contains("name"));
        assert_eq!(containers_mut(&mut json!([])).count(), 0);
    }
}
