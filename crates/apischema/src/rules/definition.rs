//! Validates CustomResourceDefinitions: names, versions, conversion and columns. `structural` validates their schemas.
//!
//! Source: pkg/apis/apiextensions/validation of k8s.io/apiextensions-apiserver v0.36.3.

use windrow_model::manifest::{Node, NodeValue, Object};

use super::Checker;
use crate::custom::{is_true, items_of};
use crate::formats;
use crate::path::Path;
use crate::problem::Reason;

const LABEL: &str = "a DNS-1035 label must consist of lower case alphanumeric characters or '-', start with an alphabetic character, and end with an alphanumeric character";

/// Keywords at the root of a schema if the definition has the subresource `status`.
const AT_ROOT_WITH_STATUS: [&str; 23] = [
    "description",
    "type",
    "format",
    "title",
    "maximum",
    "exclusiveMaximum",
    "minimum",
    "exclusiveMinimum",
    "maxLength",
    "minLength",
    "pattern",
    "maxItems",
    "minItems",
    "uniqueItems",
    "multipleOf",
    "required",
    "items",
    "properties",
    "externalDocs",
    "example",
    "x-kubernetes-preserve-unknown-fields",
    "x-kubernetes-validations",
    "$schema",
];

impl Checker<'_> {
    pub(super) fn definition(&mut self, object: &Object) {
        let path = Path::ROOT.field("spec");
        let Some(spec) = self.whole(&object.node, "spec") else {
            return;
        };
        self.definition_name(object, spec);
        self.definition_group(object, spec, &path);
        let scope = spec.str_at(&["scope"]).unwrap_or("Cluster");
        if !["Cluster", "Namespaced"].contains(&scope) {
            let line = line_of(spec, "scope");
            let why = "supported values: \"Cluster\", \"Namespaced\"";
            self.add(line, &path.field("scope"), Reason::Unsupported, why);
        }
        if is_true(spec, "preserveUnknownFields") {
            let why = "cannot set to true, set x-kubernetes-preserve-unknown-fields to true in spec.versions[*].schema instead";
            let line = line_of(spec, "preserveUnknownFields");
            let at = path.field("preserveUnknownFields");
            self.add(line, &at, Reason::Invalid, why);
        }
        if let Some(names) = self.whole(spec, "names") {
            self.definition_names(names, &path.field("names"));
        }
        self.versions(spec, &path);
        if let Some(conversion) = self.whole(spec, "conversion") {
            self.conversion(conversion, &path.field("conversion"));
        }
    }

    /// The name consists of the resource and its group.
    fn definition_name(&mut self, object: &Object, spec: &Node) {
        let group = spec.str_at(&["group"]).unwrap_or_default();
        let plural = spec.str_at(&["names", "plural"]).unwrap_or_default();
        let name = object.node.at(&["metadata", "name"]);
        let Some(text) = name.and_then(Node::as_str) else {
            return;
        };
        if text != format!("{plural}.{group}") {
            let line = name.map_or(object.line, |name| name.line);
            let metadata = Path::ROOT.field("metadata");
            self.add(
                line,
                &metadata.field("name"),
                Reason::Invalid,
                "must be spec.names.plural+\".\"+spec.group",
            );
        }
    }

    fn definition_group(&mut self, object: &Object, spec: &Node, path: &Path<'_>) {
        let Some(group) = spec.str_at(&["group"]) else {
            return;
        };
        let why = match formats::is_subdomain(group) {
            false => {
                "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.'"
            }
            true if !group.contains('.') => "should be a domain with at least one dot",
            true => "",
        };
        if !why.is_empty() {
            let line = line_of(spec, "group");
            self.add(line, &path.field("group"), Reason::Invalid, why);
        }
        let is_protected = ["k8s.io", "kubernetes.io"].iter().any(|domain| {
            group
                .strip_suffix(domain)
                .is_some_and(|rest| rest.is_empty() || rest.ends_with('.'))
        });
        let annotation = object.annotation("api-approved.kubernetes.io");
        let approval = annotation.map_or("", |(text, _)| text);
        let is_approved = approval.starts_with("unapproved") || approval.contains("://");
        if is_protected && !is_approved {
            let metadata = Path::ROOT.field("metadata");
            let annotations = metadata.field("annotations");
            let at = annotations.key("api-approved.kubernetes.io");
            let why = "protected groups must have approval annotation \"api-approved.kubernetes.io\" with either a URL or a reason starting with \"unapproved\"";
            match annotation.filter(|(text, _)| !text.is_empty()) {
                Some((_, line)) => self.add(line, &at, Reason::Invalid, why),
                None => self.add(object.line, &at, Reason::Required, why),
            }
        }
    }

    fn definition_names(&mut self, names: &Node, path: &Path<'_>) {
        for field in ["plural", "singular", "kind", "listKind"] {
            let Some(text) = names.str_at(&[field]) else {
                continue;
            };
            let is_kind = field.ends_with("ind");
            let is_label = match is_kind {
                true => formats::is_dns_1035_label(&text.to_ascii_lowercase()),
                false => formats::is_dns_1035_label(text),
            };
            if !is_label {
                let line = line_of(names, field);
                self.add(line, &path.field(field), Reason::Invalid, LABEL);
            }
        }
        let kind = names.str_at(&["kind"]);
        if kind.is_some() && kind == names.str_at(&["listKind"]) {
            let line = line_of(names, "listKind");
            let why = "kind and listKind may not be the same";
            let at = path.field("listKind");
            self.add(line, &at, Reason::Invalid, why);
        }
        for field in ["shortNames", "categories"] {
            let list = path.field(field);
            for (index, name) in items_of(names, field).iter().enumerate() {
                let text = name.as_str().unwrap_or_default();
                if !formats::is_dns_1035_label(text) {
                    self.add(name.line, &list.index(index), Reason::Invalid, LABEL);
                }
            }
        }
    }

    fn versions(&mut self, spec: &Node, path: &Path<'_>) {
        let list = path.field("versions");
        let versions = items_of(spec, "versions");
        let mut names: Vec<&str> = Vec::new();
        for (index, version) in versions.iter().enumerate() {
            let at = list.index(index);
            let name = version.str_at(&["name"]).unwrap_or_default();
            if !name.is_empty() && !formats::is_dns_1035_label(name) {
                let line = line_of(version, "name");
                self.add(line, &at.field("name"), Reason::Invalid, LABEL);
            }
            if names.contains(&name) {
                let line = line_of(version, "name");
                let why = "must contain unique version names";
                self.add(line, &at.field("name"), Reason::Invalid, why);
            }
            names.push(name);
            self.version(version, &at);
        }
        let stored = versions
            .iter()
            .filter(|one| is_true(one, "storage"))
            .count();
        if stored != 1 && spec.get("versions").is_some_and(|node| !node.is_null()) {
            let line = line_of(spec, "versions");
            let why = "must have exactly one version marked as storage version";
            self.add(line, &list, Reason::Invalid, why);
        }
    }

    fn version(&mut self, version: &Node, path: &Path<'_>) {
        let at = path.field("schema");
        let schema = version
            .at(&["schema", "openAPIV3Schema"])
            .filter(|schema| !schema.is_null());
        match schema {
            None => {
                let line = line_of(version, "schema");
                self.add(line, &at.field("openAPIV3Schema"), Reason::Required, "");
            }
            Some(schema) => {
                let status = version.at(&["subresources", "status"]);
                if status.is_some_and(|status| !status.is_null()) {
                    self.root_with_status(schema, &at);
                }
                self.schema(schema, &at.field("openAPIV3Schema"));
            }
        }
        let warning = version
            .get("deprecationWarning")
            .filter(|node| !node.is_null());
        if let Some(warning) = warning {
            let text = warning.as_str().unwrap_or_default();
            let why = match (is_true(version, "deprecated"), text.len()) {
                (false, _) => "can only be set for deprecated versions",
                (true, 0) => "must not be an empty string",
                (true, 257..) => "must be <= 256 characters long",
                (true, _) => "",
            };
            if !why.is_empty() {
                let at = path.field("deprecationWarning");
                self.add(warning.line, &at, Reason::Invalid, why);
            }
        }
        let list = path.field("additionalPrinterColumns");
        let columns = items_of(version, "additionalPrinterColumns");
        for (index, column) in columns.iter().enumerate() {
            self.column(column, &list.index(index));
        }
        if let Some(scale) = version
            .at(&["subresources", "scale"])
            .filter(|scale| !scale.is_null())
        {
            let at = path.field("subresources");
            self.scale(scale, &at.field("scale"));
        }
    }

    fn root_with_status(&mut self, schema: &Node, path: &Path<'_>) {
        let is_set = |node: &Node| match &node.value {
            NodeValue::Null | NodeValue::Bool(false) => false,
            NodeValue::String(text) => !text.is_empty(),
            NodeValue::Sequence(items) => !items.is_empty(),
            _ => true,
        };
        for entry in schema.entries() {
            let is_known = AT_ROOT_WITH_STATUS.contains(&&*entry.key);
            let is_schema = crate::catalogue::CATALOGUE
                .fields("crd.JSONSchemaProps")
                .iter()
                .any(|field| field.name == entry.key);
            if is_schema && !is_known && is_set(&entry.value) {
                let at = path.field("openAPIV3Schema");
                let why =
                    "is not allowed at the root of the schema if the status subresource is enabled";
                self.add(entry.line, &at, Reason::Invalid, why);
            }
        }
    }

    fn column(&mut self, column: &Node, path: &Path<'_>) {
        const TYPES: [&str; 5] = ["integer", "number", "string", "boolean", "date"];
        const FORMATS: [&str; 8] = [
            "int32",
            "int64",
            "float",
            "double",
            "byte",
            "date",
            "date-time",
            "password",
        ];
        self.require(column, path, "name");
        for (field, known) in [("type", &TYPES[..]), ("format", &FORMATS[..])] {
            let text = column.str_at(&[field]);
            let why = format!("must be one of {}", known.join(","));
            match text {
                None if field == "type" => {
                    self.add(column.line, &path.field(field), Reason::Required, &why);
                }
                Some(text) if !known.contains(&text) => {
                    let line = line_of(column, field);
                    self.add(line, &path.field(field), Reason::Invalid, &why);
                }
                _ => {}
            }
        }
        self.json_path(column, path, "jsonPath", &["."]);
    }

    fn scale(&mut self, scale: &Node, path: &Path<'_>) {
        self.json_path(scale, path, "specReplicasPath", &[".spec."]);
        self.json_path(scale, path, "statusReplicasPath", &[".status."]);
        if scale.str_at(&["labelSelectorPath"]).is_some() {
            self.json_path(scale, path, "labelSelectorPath", &[".spec.", ".status."]);
        }
    }

    /// The path is required and begins with one of `heads`.
    fn json_path(&mut self, owner: &Node, path: &Path<'_>, field: &str, heads: &[&str]) {
        let at = path.field(field);
        let Some(text) = owner.str_at(&[field]) else {
            self.add(line_of(owner, field), &at, Reason::Required, "");
            return;
        };
        if !heads.iter().any(|head| text.starts_with(head)) {
            let why = format!(
                "must be a simple json path starting with {}",
                heads.join(" or ")
            );
            self.add(line_of(owner, field), &at, Reason::Invalid, &why);
        }
    }

    fn conversion(&mut self, conversion: &Node, path: &Path<'_>) {
        let webhook = conversion.get("webhook").filter(|node| !node.is_null());
        let part = |field: &str| {
            webhook
                .and_then(|webhook| webhook.get(field))
                .filter(|node| !node.is_null())
        };
        let (client, versions) = (part("clientConfig"), part("conversionReviewVersions"));
        let at = path.field("webhook");
        match conversion.str_at(&["strategy"]) {
            Some("Webhook") => {
                match client {
                    None => {
                        let why = "required when strategy is set to Webhook";
                        let at = at.field("clientConfig");
                        self.add(conversion.line, &at, Reason::Required, why);
                    }
                    Some(client) => self.webhook_client(client, &at.field("clientConfig")),
                }
                self.review_versions(conversion.line, versions, &at);
            }
            Some("None") => {
                let is_set =
                    client.is_some() || versions.is_some_and(|node| !node.items().is_empty());
                if let Some(webhook) = webhook.filter(|_| is_set) {
                    let why = "should not be set when strategy is not set to Webhook";
                    self.add(webhook.line, &at, Reason::Forbidden, why);
                }
            }
            None => {}
            Some(_) => {
                let why = "supported values: \"None\", \"Webhook\"";
                let line = line_of(conversion, "strategy");
                let at = path.field("strategy");
                self.add(line, &at, Reason::Unsupported, why);
            }
        }
    }

    fn review_versions(&mut self, line: u32, versions: Option<&Node>, webhook: &Path<'_>) {
        let at = webhook.field("conversionReviewVersions");
        match versions.filter(|node| !node.items().is_empty()) {
            None => self.add(line, &at, Reason::Required, ""),
            Some(node) => {
                let known = |one: &Node| matches!(one.as_str(), Some("v1" | "v1beta1"));
                if !node.items().iter().any(known) {
                    let why = "must include at least one of v1, v1beta1";
                    self.add(node.line, &at, Reason::Invalid, why);
                }
            }
        }
    }
}

pub(super) fn line_of(owner: &Node, field: &str) -> u32 {
    owner.entry(field).map_or(owner.line, |entry| entry.line)
}
