//! Label selectors, as Kubernetes reads them.

use std::collections::BTreeMap;

use windrow_model::manifest::Node;

/// Does a selector fit these labels? None at all, and an empty one, fit everything. An operator that
/// is not known fits nothing: nothing is claimed of it.
pub(super) fn matches(selector: Option<&Node>, labels: &BTreeMap<String, String>) -> bool {
    let Some(selector) = selector else {
        return true;
    };
    let exact = selector.get("matchLabels").map_or(&[][..], Node::entries);
    let exact = exact
        .iter()
        .all(|entry| labels.get(&entry.key).map(String::as_str) == entry.value.as_str());
    let expressions = selector
        .get("matchExpressions")
        .map_or(&[][..], Node::items);
    exact && expressions.iter().all(|one| expression(one, labels))
}

fn expression(one: &Node, labels: &BTreeMap<String, String>) -> bool {
    let Some(key) = one.str_at(&["key"]) else {
        return false;
    };
    let value = labels.get(key).map(String::as_str);
    let listed = one
        .get("values")
        .map_or(&[][..], Node::items)
        .iter()
        .any(|item| item.as_str().is_some() && item.as_str() == value);
    match one.str_at(&["operator"]) {
        Some("In") => listed,
        Some("NotIn") => !listed,
        Some("Exists") => value.is_some(),
        Some("DoesNotExist") => value.is_none(),
        _ => false,
    }
}
