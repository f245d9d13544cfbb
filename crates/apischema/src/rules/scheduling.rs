//! Validates PriorityClasses and APIServices.

use windrow_model::manifest::Object;

use super::Checker;
use crate::path::Path;
use crate::problem::Reason;

/// The highest priority that is not reserved for the system (`pkg/apis/scheduling/types.go` of k8s.io/kubernetes).
const HIGHEST: i64 = 1_000_000_000;

/// The classes that every cluster has.
const OF_SYSTEM: [&str; 2] = ["system-cluster-critical", "system-node-critical"];

impl Checker<'_> {
    pub(super) fn priority_class(&mut self, object: &Object) {
        let name = object.id.name.as_str();
        let node = &object.node;
        if OF_SYSTEM.contains(&name) {
            return;
        }
        if name.starts_with("system-") {
            let line = node
                .at(&["metadata", "name"])
                .map_or(node.line, |name| name.line);
            let metadata = Path::ROOT.field("metadata");
            let why = "priority class names with 'system-' prefix are reserved for system use only";
            self.add(line, &metadata.field("name"), Reason::Forbidden, why);
            return;
        }
        let value = node.get("value");
        if let Some(value) = value.filter(|value| value.to_json().as_i64() > Some(HIGHEST)) {
            let why = format!("maximum allowed value of a user defined priority is {HIGHEST}");
            self.add(
                value.line,
                &Path::ROOT.field("value"),
                Reason::Forbidden,
                &why,
            );
        }
    }

    /// Its name consists of its version and group.
    pub(super) fn api_service(&mut self, object: &Object) {
        let field = |field: &str| object.node.str_at(&["spec", field]).unwrap_or_default();
        let (version, group) = (field("version"), field("group"));
        let name = object.id.name.as_str();
        let due = format!("{version}.{group}");
        if !version.is_empty() && name != due {
            let line = object
                .node
                .at(&["metadata", "name"])
                .map_or(object.line, |name| name.line);
            let metadata = Path::ROOT.field("metadata");
            let why = format!("must be its version and group: {due}");
            self.add(line, &metadata.field("name"), Reason::Invalid, &why);
        }
    }
}
