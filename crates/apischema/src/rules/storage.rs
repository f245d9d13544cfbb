//! Validates claims and volumes.

use windrow_model::manifest::Node;

use super::Checker;
use crate::parts::quantity;
use crate::path::Path;
use crate::problem::Reason;

impl Checker<'_> {
    pub(super) fn claim(&mut self, node: &Node) {
        let path = Path::ROOT.field("spec");
        let Some(spec) = self.whole(node, "spec") else {
            self.add(
                node.line,
                &path.field("accessModes"),
                Reason::Required,
                "at least 1 access mode is required",
            );
            return;
        };
        self.claim_spec(spec, &path);
    }

    /// Validates the spec of a claim, anywhere in an object.
    pub(super) fn claim_spec(&mut self, spec: &Node, path: &Path<'_>) {
        self.require(spec, path, "accessModes");
        let modes = spec.list("accessModes");
        let alone = modes
            .iter()
            .find(|mode| mode.as_str() == Some("ReadWriteOncePod"));
        if let Some(mode) = alone.filter(|_| modes.len() > 1) {
            let why = "may not use ReadWriteOncePod with other access modes";
            self.add(
                mode.line,
                &path.field("accessModes"),
                Reason::Forbidden,
                why,
            );
        }
        let at = path.field("resources");
        match spec.at(&["resources", "requests", "storage"]) {
            Some(size) if !size.is_null() => {
                if quantity(size).is_some_and(|size| size <= 0) {
                    let why = "must be greater than zero";
                    self.add(size.line, &at.key("storage"), Reason::Invalid, why);
                }
            }
            _ => {
                let line = spec.get("resources").map_or(spec.line, |node| node.line);
                self.add(line, &at.key("storage"), Reason::Required, "");
            }
        }
    }

    pub(super) fn volume(&mut self, node: &Node) {
        let path = Path::ROOT.field("spec");
        let Some(spec) = self.whole(node, "spec") else {
            self.add(node.line, &path.field("accessModes"), Reason::Required, "");
            return;
        };
        self.require(spec, &path, "accessModes");
        self.require(spec, &path, "capacity");
    }
}
