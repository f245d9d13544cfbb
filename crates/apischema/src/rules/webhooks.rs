//! Validates webhooks: their targets and the requests that they match.
//!
//! Source: pkg/apis/admissionregistration/validation of k8s.io/kubernetes v1.36.3, pkg/util/webhook/validation.go of
//! k8s.io/apiserver.

use windrow_model::manifest::Node;

use super::Checker;
use super::definition::line_of;
use crate::path::Path;
use crate::problem::Reason;

impl Checker<'_> {
    pub(super) fn webhooks(&mut self, node: &Node) {
        let list = Path::ROOT.field("webhooks");
        let webhooks = node.list("webhooks");
        for (index, webhook) in webhooks.iter().enumerate() {
            let at = list.index(index);
            let name = webhook.str_at(&["name"]).unwrap_or_default();
            if !name.is_empty() && name.split('.').count() < 3 {
                let why = "should be a domain with at least three segments separated by dots";
                let line = line_of(webhook, "name");
                self.add(line, &at.field("name"), Reason::Invalid, why);
            }
            if let Some(client) = self.whole(webhook, "clientConfig") {
                self.webhook_client(client, &at.field("clientConfig"));
            }
            let rules = at.field("rules");
            let items = webhook.list("rules");
            for (index, rule) in items.iter().enumerate() {
                let at = rules.index(index);
                for field in ["operations", "apiGroups", "apiVersions", "resources"] {
                    self.require(rule, &at, field);
                }
            }
        }
    }

    /// A webhook is called at a URL or at a Service.
    pub(super) fn webhook_client(&mut self, client: &Node, path: &Path<'_>) {
        let url = client.get("url").filter(|node| !node.is_null());
        let service = self.whole(client, "service");
        match (url, service) {
            (Some(_), Some(_)) | (None, None) => {
                let why = "exactly one of url or service is required";
                self.add(client.line, path, Reason::Required, why);
            }
            (Some(url), None) => {
                let text = url.as_str().unwrap_or_default();
                if !text.starts_with("https://") {
                    let why = "'https' is the only allowed URL scheme";
                    self.add(url.line, &path.field("url"), Reason::Invalid, why);
                }
            }
            (None, Some(service)) => {
                let at = path.field("service");
                let text = service.str_at(&["path"]).unwrap_or_default();
                if !text.is_empty() && !text.starts_with('/') {
                    let why = "must start with a '/'";
                    let line = line_of(service, "path");
                    self.add(line, &at.field("path"), Reason::Invalid, why);
                }
            }
        }
    }
}
