//! Validates ValidatingAdmissionPolicies and their bindings.
//!
//! Source: pkg/apis/admissionregistration/validation of k8s.io/kubernetes v1.31 to v1.36.

use windrow_model::manifest::Node;

use super::Checker;
use crate::path::Path;
use crate::problem::Reason;

impl Checker<'_> {
    pub(super) fn policy(&mut self, node: &Node) {
        let path = Path::ROOT.field("spec");
        let Some(spec) = self.whole(node, "spec") else {
            self.add(
                node.line,
                &path.field("matchConstraints"),
                Reason::Required,
                "",
            );
            return;
        };
        self.require(spec, &path, "matchConstraints");
        let is_empty = |field: &str| spec.get(field).is_none_or(|node| node.items().is_empty());
        if is_empty("validations") && is_empty("auditAnnotations") {
            let why = "validations or auditAnnotations must contain at least one item";
            self.add(spec.line, &path.field("validations"), Reason::Required, why);
        }
    }

    pub(super) fn policy_binding(&mut self, node: &Node) {
        let Some(actions) = node.at(&["spec", "validationActions"]) else {
            return;
        };
        let has = |action: &str| {
            actions
                .items()
                .iter()
                .any(|item| item.as_str() == Some(action))
        };
        if has("Deny") && has("Warn") {
            let path = Path::ROOT.field("spec");
            let why = "must not contain both Deny and Warn";
            let at = path.field("validationActions");
            self.add(actions.line, &at, Reason::Invalid, why);
        }
    }
}
