//! Kinds of Harvester with one or two rules.

use serde_json::Value;
use windrow_model::manifest::{Node, Object};

use super::{Judged, field, line_of, text};

const CLAIMS: &str = "harvesterhci.io/volumeClaimTemplates";

impl Judged {
    pub(super) fn template_version(&mut self, object: &Object, spec: &Node) {
        let template = text(spec, "templateId");
        let namespace = template
            .split_once('/')
            .map_or("", |(namespace, _)| namespace);
        let own = object.id.namespace_or_default();
        if spec.get("templateId").is_some() && namespace != own {
            let why =
                format!("write it as {own}/NAME: a version is in the namespace of its template");
            self.add(line_of(spec, "templateId"), "spec.templateId", &why);
        }
        let claims = spec.at(&["vm", "metadata", "annotations"]);
        if let Some(claims) = claims.and_then(|all| all.get(CLAIMS))
            && self.is_since((1, 5))
            && claims
                .as_str()
                .is_some_and(|text| !text.is_empty() && !is_list_of_objects(text))
        {
            let at = format!("spec.vm.metadata.annotations[{CLAIMS}]");
            self.add_at(claims, &at, "it is not a JSON list of objects");
        }
        if let Some(template) = spec
            .at(&["vm", "spec", "template"])
            .filter(|node| !node.is_null())
        {
            let limits = template.at(&["spec", "domain", "resources", "limits"]);
            let has = |name: &str| limits.is_some_and(|limits| limits.get(name).is_some());
            if !has("cpu") || !has("memory") {
                let why = "a version of a template needs `limits` with `cpu` and `memory`";
                let at = "spec.vm.spec.template.spec.domain.resources.limits";
                self.add_at(limits.unwrap_or(template), at, why);
            }
        }
    }

    pub(super) fn resource_quota(&mut self, object: &Object, spec: Option<&Node>) {
        if object.id.name != "default-resource-quota" {
            let line = object.node.at(&["metadata", "name"]);
            let line = line.map_or(object.line, |node| node.line);
            let why = "Harvester takes only the name default-resource-quota";
            self.add(line, "metadata.name", why);
        }
        let sizes = spec.and_then(|spec| spec.at(&["snapshotLimit", "vmTotalSnapshotSizeQuota"]));
        for size in sizes.map_or(&[][..], Node::entries) {
            if size.value.to_json().as_i64().is_some_and(|size| size < 0) {
                let at = "spec.snapshotLimit.vmTotalSnapshotSizeQuota";
                self.add(size.line, at, "a size is not negative");
            }
        }
    }

    pub(super) fn version(&mut self, spec: &Node) {
        let Some(sum) = field(spec, "isoChecksum") else {
            return;
        };
        let is_sum = |sum: &str| {
            sum.is_empty()
                || (sum.len() == 128 && sum.bytes().all(|one| b"0123456789abcdef".contains(&one)))
        };
        if sum.as_str().is_some_and(|sum| !is_sum(sum)) {
            let why = "it is not a SHA-512 sum of 128 hexadecimal digits in lower case";
            self.add_at(sum, "spec.isoChecksum", why);
        }
    }
}

fn is_list_of_objects(text: &str) -> bool {
    match serde_json::from_str(text) {
        Ok(Value::Array(items)) => items.iter().all(|item| item.is_object() || item.is_null()),
        Ok(Value::Null) => true,
        _ => false,
    }
}
