//! Validates roles and their bindings.

use windrow_model::manifest::Node;

use super::Checker;
use super::definition::line_of;
use crate::formats::is_subdomain;
use crate::path::Path;
use crate::problem::Reason;

const GROUP: &str = "rbac.authorization.k8s.io";

impl Checker<'_> {
    pub(super) fn binding(&mut self, node: &Node, kind: &str) {
        let at = Path::ROOT.field("roleRef");
        match self.whole(node, "roleRef") {
            None => self.add(
                node.line,
                &at.field("kind"),
                Reason::Unsupported,
                "supported values: \"ClusterRole\", \"Role\"",
            ),
            Some(role) => self.role_ref(role, &at, kind),
        }
        let list = Path::ROOT.field("subjects");
        let subjects = node.list("subjects");
        for (index, subject) in subjects.iter().enumerate() {
            self.subject(subject, &list.index(index), kind);
        }
    }

    fn role_ref(&mut self, role: &Node, path: &Path<'_>, kind: &str) {
        let group = role.str_at(&["apiGroup"]).unwrap_or(GROUP);
        if group != GROUP {
            let line = role.get("apiGroup").map_or(role.line, |node| node.line);
            let why = format!("supported values: \"{GROUP}\"");
            self.add(line, &path.field("apiGroup"), Reason::Unsupported, &why);
        }
        let allowed: &[&str] = match kind {
            "ClusterRoleBinding" => &["ClusterRole"],
            _ => &["Role", "ClusterRole"],
        };
        let named = role.str_at(&["kind"]).unwrap_or_default();
        if !allowed.contains(&named) {
            let line = role.get("kind").map_or(role.line, |node| node.line);
            let values: Vec<String> = allowed.iter().map(|value| format!("\"{value}\"")).collect();
            let why = format!("supported values: {}", values.join(", "));
            self.add(line, &path.field("kind"), Reason::Unsupported, &why);
        }
        self.require(role, path, "name");
    }

    fn subject(&mut self, subject: &Node, path: &Path<'_>, binding: &str) {
        let group = subject.str_at(&["apiGroup"]);
        let kind = subject.str_at(&["kind"]).unwrap_or_default();
        let expected = match kind {
            "ServiceAccount" => "",
            "User" | "Group" => GROUP,
            _ => {
                let line = subject.get("kind").map_or(subject.line, |node| node.line);
                let why = "supported values: \"Group\", \"ServiceAccount\", \"User\"";
                self.add(line, &path.field("kind"), Reason::Unsupported, why);
                return;
            }
        };
        if group.is_some_and(|group| group != expected) {
            let line = subject
                .get("apiGroup")
                .map_or(subject.line, |node| node.line);
            let why = format!("supported values: \"{expected}\"");
            self.add(line, &path.field("apiGroup"), Reason::Unsupported, &why);
        }
        let name = subject.str_at(&["name"]).unwrap_or_default();
        if kind == "ServiceAccount" && !name.is_empty() && !is_subdomain(name) {
            let line = line_of(subject, "name");
            let why = "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.'";
            self.add(line, &path.field("name"), Reason::Invalid, why);
        }
        // In a RoleBinding the default is the namespace of the binding.
        if kind == "ServiceAccount" && binding == "ClusterRoleBinding" {
            self.require(subject, path, "namespace");
        }
    }

    pub(super) fn role(&mut self, node: &Node, kind: &str) {
        let list = Path::ROOT.field("rules");
        for (index, rule) in node.list("rules").iter().enumerate() {
            let at = list.index(index);
            self.require(rule, &at, "verbs");
            let filled = |field: &str| rule.get(field).is_some_and(|node| !node.items().is_empty());
            if filled("nonResourceURLs") {
                if kind == "Role" {
                    let why = "namespaced rules cannot apply to non-resource URLs";
                    self.add(
                        rule.line,
                        &at.field("nonResourceURLs"),
                        Reason::Invalid,
                        why,
                    );
                } else if ["apiGroups", "resources", "resourceNames"]
                    .into_iter()
                    .any(filled)
                {
                    let why = "rules cannot apply to both regular resources and non-resource URLs";
                    self.add(
                        rule.line,
                        &at.field("nonResourceURLs"),
                        Reason::Invalid,
                        why,
                    );
                }
                continue;
            }
            if !filled("apiGroups") {
                let why = "resource rules must supply at least one api group";
                self.add(rule.line, &at.field("apiGroups"), Reason::Required, why);
            }
            if !filled("resources") {
                let why = "resource rules must supply at least one resource";
                self.add(rule.line, &at.field("resources"), Reason::Required, why);
            }
        }
    }
}
