//! Reads Inventory objects of Harvester's Seeder (`metal.harvesterhci.io/v1alpha1`, harvester/seeder
//! `pkg/api/v1alpha1/inventory_types.go`), as `kubectl get inventories.metal.harvesterhci.io -A -o yaml` prints them.

use std::collections::BTreeMap;

use windrow_model::manifest::{Node, ReadLimits, nodes_and_problems};

use super::{Complaints, ExpectedNode, MOST, entry};

const GROUP: &str = "metal.harvesterhci.io/";

/// The nodes of the objects in a file. `None` if the file has no such object and is a list in another format.
pub(super) fn read(text: &str, complaints: &mut Complaints) -> Option<Vec<ExpectedNode>> {
    // A cheap check that holds for every file with such an object.
    if !text.contains(GROUP) {
        return None;
    }
    let (documents, problems) = nodes_and_problems(text, &ReadLimits::default());
    let objects: Vec<&Node> = documents
        .iter()
        .flat_map(|document| match document.get("items") {
            Some(items) => items.items().iter().collect(),
            None => vec![document],
        })
        .filter(|object| is_inventory(object))
        .take(MOST + 1)
        .collect();
    if objects.is_empty() {
        return None;
    }
    // An unreadable object may describe a node, so it counts as an error.
    for problem in problems {
        complaints.add(problem.line.unwrap_or(1), problem.message);
    }
    // With `-A`, two namespaces may contain objects with the same name.
    let mut names: BTreeMap<Option<&str>, usize> = BTreeMap::new();
    for object in &objects {
        *names.entry(name_of(object)).or_default() += 1;
    }
    let expected = objects
        .iter()
        .map(|object| expected_node(object, names[&name_of(object)] == 1, complaints));
    Some(expected.collect())
}

fn name_of(object: &Node) -> Option<&str> {
    object.str_at(&["metadata", "name"])
}

fn is_inventory(object: &Node) -> bool {
    let group = object.str_at(&["apiVersion"]).unwrap_or_default();
    group.starts_with(GROUP) && object.str_at(&["kind"]) == Some("Inventory")
}

/// The Node of a machine that is already in the cluster (`metal.harvesterhci.io/local-inventory`).
const LOCAL_NODE: &str = "metal.harvesterhci.io/local-node-name";

fn expected_node(object: &Node, is_only: bool, complaints: &mut Complaints) -> ExpectedNode {
    let at = |path: &[&str]| {
        let line = object.at(path).map_or(object.line, |found| found.line);
        let text = object.str_at(path).unwrap_or_default();
        (line, text.to_owned())
    };
    let name = at(&["metadata", "name"]);
    let name = match object.str_at(&["metadata", "namespace"]) {
        Some(namespace) if !is_only => (name.0, format!("{namespace}/{}", name.1)),
        _ => name,
    };
    let field = |key: &str| match key {
        "name" => name.clone(),
        "mac" => at(&["spec", "managementInterfaceMacAddress"]),
        "host" => at(&["metadata", "annotations", LOCAL_NODE]),
        // Seeder has no rack. The cluster that owns the machine is the closest match.
        "rack" => at(&["status", "ownerCluster", "name"]),
        _ => (object.line, String::new()),
    };
    if field("mac").1.is_empty() && field("host").1.is_empty() {
        complaints.add(
            object.line,
            format!(
                "Inventory {} has no spec.managementInterfaceMacAddress",
                name.1
            ),
        );
    }
    entry(object.line, field, complaints)
}
