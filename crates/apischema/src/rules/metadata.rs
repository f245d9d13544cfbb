//! Validates the metadata of any object.

use windrow_model::manifest::Node;

use super::Checker;
use crate::path::Path;
use crate::problem::{Problem, ProblemKind, Reason};

/// Finalizers without a domain (`pkg/apis/core/helper/helpers.go` of k8s.io/kubernetes).
const FINALIZERS: [&str; 3] = ["foregroundDeletion", "kubernetes", "orphan"];

impl Checker<'_> {
    pub(super) fn metadata(&mut self, node: &Node) {
        let Some(metadata) = self.whole(node, "metadata") else {
            return;
        };
        let path = Path::ROOT.field("metadata");
        self.created(metadata, &path);
        let list = path.field("finalizers");
        let finalizers = metadata.list("finalizers");
        for (index, finalizer) in finalizers.iter().enumerate() {
            let name = finalizer.as_str().unwrap_or_default();
            if !name.is_empty() && !name.contains('/') && !FINALIZERS.contains(&name) {
                let why = "name is neither a standard finalizer name nor is it fully qualified; write DOMAIN/NAME";
                self.add(finalizer.line, &list.index(index), Reason::Invalid, why);
            }
        }
    }

    /// Objects from `kubectl get -o yaml` cannot be created unchanged (`k8s.io/apiserver/pkg/storage/etcd3/store.go`, `Create`),
    /// or cannot be changed once they exist (`ValidateObjectMetaUpdate` of k8s.io/apimachinery).
    fn created(&mut self, metadata: &Node, path: &Path<'_>) {
        let text = |field: &str| metadata.str_at(&[field]).unwrap_or_default();
        let version = text("resourceVersion");
        let line = |field: &str| metadata.get(field).map_or(metadata.line, |node| node.line);
        if !version.is_empty() && version != "0" {
            let why = "must not be set on a new object: remove the fields that the cluster wrote";
            let at = path.field("resourceVersion");
            self.add(line("resourceVersion"), &at, Reason::Invalid, why);
        }
        for field in ["uid", "deletionTimestamp"] {
            if !text(field).is_empty() {
                self.problems.push(Problem {
                    kind: ProblemKind::RefusedAgain,
                    line: line(field),
                    field: path.field(field).to_string(),
                    message: "is for the cluster to write, and is another one there".to_owned(),
                    refusal: None,
                });
            }
        }
    }
}
