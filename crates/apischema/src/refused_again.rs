//! Unknown fields for which RKE2 fails with an object that is there.
//!
//! kube-apiserver drops an unknown field. Its deploy controller compares what it wrote down of the object, where longer texts are cut off,
//! with the file; a map or list that differs in a field which Go's type has not ends the comparison (`handleMapDiff` and `handleSliceDiff`
//! in pkg/util/strategicpatch of k8s.io/apimachinery). It compares when it starts, and in each pass after one in which a file failed.

use windrow_model::manifest::{Node, NodeValue};

use crate::immutable::{NAMES_OF_ITEMS, REMEMBERED};
use crate::path::Path;

/// Groups of kinds that it has no types of: they are compared as JSON.
const WITHOUT_TYPES: [&str; 2] = ["apiextensions.k8s.io", "apiregistration.k8s.io"];

/// Lists whose items are compared one by one. Others are replaced as a whole.
const BY_ITEMS: [&str; 6] = [
    "containers",
    "env",
    "imagePullSecrets",
    "initContainers",
    "secrets",
    "volumes",
];

/// Does RKE2 fail with an object for this value of a field that is not known?
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

/// Is any text in it cut off?
fn is_cut(value: &Node) -> bool {
    match &value.value {
        NodeValue::Mapping(entries) => entries.iter().any(|entry| match entry.value.as_str() {
            Some(text) => text.len() > REMEMBERED,
            None => is_cut(&entry.value),
        }),
        NodeValue::Sequence(items) => items.iter().any(|item| match &item.value {
            // What names an item is not cut off, and a text in a list neither.
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
