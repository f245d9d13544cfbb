//! Unknown fields that make RKE2 fail once the object exists.
//!
//! kube-apiserver drops an unknown field. The deploy controller compares the file with its copy of the object, in which long
//! texts are truncated. The comparison ends with an error if a map or list differs in a field that is missing from Go's type
//! (`handleMapDiff` and `handleSliceDiff` in pkg/util/strategicpatch of k8s.io/apimachinery). It compares when it starts, and in
//! each pass after one in which a file failed.

use windrow_model::manifest::{Node, NodeValue};

use crate::immutable::{NAMES_OF_ITEMS, REMEMBERED};
use crate::path::Path;

/// Groups without Go types in the deploy controller. Their objects are compared as JSON.
const WITHOUT_TYPES: [&str; 2] = ["apiextensions.k8s.io", "apiregistration.k8s.io"];

/// Lists that are compared item by item. Other lists are replaced as a whole.
const BY_ITEMS: [&str; 6] = [
    "containers",
    "env",
    "imagePullSecrets",
    "initContainers",
    "secrets",
    "volumes",
];

/// Whether RKE2 fails with an existing object because of this value of an unknown field.
pub(crate) fn is_refused_again(group: &str, path: &Path<'_>, value: &Node) -> bool {
    let is_collection = matches!(value.value, NodeValue::Mapping(_) | NodeValue::Sequence(_));
    is_collection && !WITHOUT_TYPES.contains(&group) && is_compared(path) && is_cut(value)
}

fn is_compared(path: &Path<'_>) -> bool {
    let path = path.to_string();
    // The last part is the field itself.
    let mut lists = path.split('.').filter_map(|part| part.split_once('['));
    lists.all(|(name, _)| BY_ITEMS.contains(&name) || path.starts_with("spec.ports["))
}

/// Whether a text in it is truncated.
fn is_cut(value: &Node) -> bool {
    match &value.value {
        NodeValue::Mapping(entries) => entries.iter().any(|entry| match entry.value.as_str() {
            Some(text) => text.len() > REMEMBERED,
            None => is_cut(&entry.value),
        }),
        NodeValue::Sequence(items) => items.iter().any(|item| match &item.value {
            // Texts in lists and identifiers of items are not truncated.
            NodeValue::Mapping(entries) => entries.iter().any(|entry| match entry.value.as_str() {
                Some(text) => {
                    text.len() > REMEMBERED && !NAMES_OF_ITEMS.contains(&entry.key.as_str())
                }
                None => is_cut(&entry.value),
            }),
            _ => is_cut(item),
        }),
        _ => false,
    }
}
