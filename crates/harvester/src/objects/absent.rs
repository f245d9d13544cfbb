//! Kinds that saved lists do not contain because the cluster does not have them.
//!
//! ```text
//!   the list of APIServices is there ──> a group without an APIService is not served (kube-apiserver registers one for each group and
//!                                        version of its CustomResourceDefinitions: kube-aggregator `crdRegistrationController`)
//!   else no Node has Harvester's label ──> Harvester's kinds do not exist; nor do Rancher's if no pod of Rancher is in the input
//! ```

use std::collections::BTreeSet;

use serde_json::Value;
use windrow_model::manifest::GroupKind;

use super::{KindListing, ObjectKind, Objects, text};

const MANAGED: &str = "/metadata/labels/harvesterhci.io~1managed";
const HARVESTERS: &str = "harvesterhci.io";
/// Groups of Rancher, Fleet and the Cluster API that Rancher brings.
const RANCHERS: [&str; 6] = [
    "management.cattle.io",
    "provisioning.cattle.io",
    "rke.cattle.io",
    "fleet.cattle.io",
    "catalog.cattle.io",
    "cluster.x-k8s.io",
];
const RANCHERS_NAMESPACE: &str = "cattle-system";
/// Every kube-apiserver has this one: without it, the list is not complete.
const ALWAYS: &str = "v1.apps";

impl Objects {
    /// Gives the kinds that the cluster does not have an empty list.
    pub fn fill_absent_kinds(&mut self) {
        let groups = self.served_groups();
        let is_plain = self.is_without_harvester();
        let has_rancher = self.has_pods_in(RANCHERS_NAMESPACE);
        let is_absent = |group: &str| match &groups {
            Some(groups) => !group.is_empty() && !groups.contains(group),
            None if group == HARVESTERS || group.ends_with(".harvesterhci.io") => is_plain,
            None => is_plain && !has_rancher && RANCHERS.contains(&group),
        };
        let absent: Vec<GroupKind> = ObjectKind::ALL
            .iter()
            .filter(|kind| is_absent(kind.group))
            .map(|kind| kind.group_kind())
            .filter(|kind| !self.kinds.contains_key(kind))
            .collect();
        for kind in absent {
            self.insert(kind, KindListing::Objects(Vec::new()));
        }
    }

    /// The groups with an APIService; `None` without a list of all of them.
    fn served_groups(&self) -> Option<BTreeSet<String>> {
        let services = self.all(ObjectKind::API_SERVICE).ok()?;
        let is_whole = services
            .iter()
            .any(|service| text(service, "/metadata/name") == ALWAYS);
        let groups = services.iter().filter_map(|service| {
            let (_, group) = text(service, "/metadata/name").split_once('.')?;
            Some(group.to_owned())
        });
        is_whole.then(|| groups.collect())
    }

    fn is_without_harvester(&self) -> bool {
        let nodes = self.all(ObjectKind::NODE).unwrap_or_default();
        let is_harvesters = |node: &Value| node.pointer(MANAGED).is_some();
        !nodes.is_empty() && !nodes.iter().any(is_harvesters)
    }

    fn has_pods_in(&self, namespace: &str) -> bool {
        let mut pods = self.all(ObjectKind::POD).unwrap_or_default().iter();
        pods.any(|pod| text(pod, "/metadata/namespace") == namespace)
    }
}
