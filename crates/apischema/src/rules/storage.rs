//! Claims and volumes.

use windrow_model::manifest::Node;

use super::Checker;
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
        self.require(spec, &path, "accessModes");
        let storage = spec.at(&["resources", "requests", "storage"]);
        if storage.is_none_or(Node::is_null) {
            let at = path.field("resources");
            let line = spec.get("resources").map_or(spec.line, |node| node.line);
            self.add(line, &at.key("storage"), Reason::Required, "");
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
