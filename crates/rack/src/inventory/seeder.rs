//! Inventory objects of Harvester's Seeder (`metal.harvesterhci.io/v1alpha1`, harvester/seeder
//! `pkg/api/v1alpha1/inventory_types.go`), as `kubectl get inventories.metal.harvesterhci.io -A -o yaml` writes them.

use windrow_model::manifest::{Node, ReadLimits, nodes};

use super::{Complaints, ExpectedNode, MOST, entry};

const GROUP: &str = "metal.harvesterhci.io/";

/// The nodes of the objects in a file; `None` where it has no such object, and is a list of another form.
pub(super) fn read(text: &str, complaints: &mut Complaints) -> Option<Vec<ExpectedNode>> {
    // Cheap, and right for every file that has one.
    if !text.contains(GROUP) {
        return None;
    }
    let documents = nodes(text, &ReadLimits::default());
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
    let expected = objects.iter().map(|object| one(object, complaints));
    Some(expected.collect())
}

fn is_inventory(object: &Node) -> bool {
    let group = object.str_at(&["apiVersion"]).unwrap_or_default();
    group.starts_with(GROUP) && object.str_at(&["kind"]) == Some("Inventory")
}

fn one(object: &Node, complaints: &mut Complaints) -> ExpectedNode {
    let at = |path: &[&str]| {
        let line = object.at(path).map_or(object.line, |found| found.line);
        let text = object.str_at(path).unwrap_or_default();
        (line, text.to_owned())
    };
    let field = |key: &str| match key {
        "name" => at(&["metadata", "name"]),
        "mac" => at(&["spec", "managementInterfaceMacAddress"]),
        // The cluster that has taken it is the nearest thing to a rack.
        "rack" => at(&["status", "ownerCluster", "name"]),
        _ => (object.line, String::new()),
    };
    let name = object.str_at(&["metadata", "name"]).unwrap_or_default();
    if field("mac").1.is_empty() {
        complaints.add(
            object.line,
            format!("Inventory {name} has no spec.managementInterfaceMacAddress"),
        );
    }
    entry(object.line, field, complaints)
}
