//! Validates workloads: selectors, templates, restart policies, schedules, budgets and autoscalers.

use windrow_model::manifest::{Node, NodeValue};
use windrow_model::object::LabelSelector;
use windrow_model::schedule;

use super::Checker;
use crate::path::Path;
use crate::problem::Reason;

impl Checker<'_> {
    pub(super) fn workload(&mut self, node: &Node, kind: &str) {
        let path = Path::ROOT.field("spec");
        let Some(spec) = self.whole(node, "spec") else {
            self.add(node.line, &path.field("selector"), Reason::Required, "");
            return;
        };
        let template = spec.get("template");
        self.selector(spec, template, &path);
        if kind == "Deployment" {
            self.strategy(spec, &path);
        }
        if let Some(template) = template {
            let at = path.field("template");
            self.template(template, &at, kind != "StatefulSet");
            self.restart_policy(template, &at, &["Always"]);
        } else {
            self.add(
                spec.line,
                &path.field("template").field("spec").field("containers"),
                Reason::Required,
                "",
            );
        }
    }

    /// Validates the update strategy of a Deployment.
    fn strategy(&mut self, spec: &Node, path: &Path<'_>) {
        let at = path.field("strategy");
        let rolling = spec
            .at(&["strategy", "rollingUpdate"])
            .filter(|node| !node.is_null());
        let kind = spec.str_at(&["strategy", "type"]).unwrap_or_default();
        if let Some(node) = rolling.filter(|_| kind == "Recreate") {
            let why = "may not be specified when strategy `type` is 'Recreate'";
            self.add(
                node.line,
                &at.field("rollingUpdate"),
                Reason::Forbidden,
                why,
            );
        }
        let is_none = |field: &str| {
            let value = rolling.and_then(|node| node.get(field)).map(Node::to_json);
            value.is_some_and(|value| value == 0 || value == "0%")
        };
        if let Some(node) = rolling.filter(|_| is_none("maxSurge") && is_none("maxUnavailable")) {
            let at = at.field("rollingUpdate");
            let why = "may not be 0 when `maxSurge` is 0";
            self.add(node.line, &at.field("maxUnavailable"), Reason::Invalid, why);
        }
        let number = |field: &str| spec.get(field).and_then(|node| node.to_json().as_i64());
        let ready = number("minReadySeconds").unwrap_or(0);
        // The default is 600.
        let deadline = match spec.get("progressDeadlineSeconds") {
            Some(node) if !node.is_null() => node.to_json().as_i64(),
            _ => Some(600),
        };
        if deadline.is_some_and(|deadline| (0..=ready).contains(&deadline)) {
            let line = spec
                .get("progressDeadlineSeconds")
                .map_or(spec.line, |node| node.line);
            let at = path.field("progressDeadlineSeconds");
            let why = "must be greater than minReadySeconds";
            self.add(line, &at, Reason::Invalid, why);
        }
    }

    pub(super) fn pod_template(&mut self, node: &Node) {
        let path = Path::ROOT.field("template");
        match self.whole(node, "template") {
            Some(template) => self.template(template, &path, true),
            None => {
                let at = path.field("spec");
                self.add(node.line, &at.field("containers"), Reason::Required, "");
            }
        }
    }

    pub(super) fn replication_controller(&mut self, node: &Node) {
        let path = Path::ROOT.field("spec");
        let Some(spec) = self.whole(node, "spec") else {
            self.add(node.line, &path.field("selector"), Reason::Required, "");
            return;
        };
        let Some(template) = self.whole(spec, "template") else {
            self.add(spec.line, &path.field("template"), Reason::Required, "");
            return;
        };
        let at = path.field("template");
        self.template(template, &at, true);
        self.restart_policy(template, &at, &["Always"]);
        self.plain_selector(spec, template, &path);
    }

    /// The selector of a ReplicationController is a map of labels. By default it is the labels of the template.
    fn plain_selector(&mut self, spec: &Node, template: &Node, path: &Path<'_>) {
        let given = spec.get("selector").map_or(&[][..], Node::entries);
        let labels = template.at(&["metadata", "labels"]);
        let has = labels.map_or(&[][..], Node::entries);
        if given.is_empty() && has.is_empty() {
            self.add(spec.line, &path.field("selector"), Reason::Required, "");
        }
        let is_met = |key: &str, value: Option<&str>| {
            has.iter()
                .any(|label| label.key == key && label.value.as_str() == value)
        };
        if !given
            .iter()
            .all(|entry| is_met(&entry.key, entry.value.as_str()))
        {
            let at = path.field("template");
            let at = at.field("metadata");
            let line = labels.map_or(template.line, |node| node.line);
            let why = "`selector` does not match template `labels`";
            self.add(line, &at.field("labels"), Reason::Invalid, why);
        }
    }

    pub(super) fn claim_templates(&mut self, node: &Node) {
        let path = Path::ROOT.field("spec");
        let list = path.field("volumeClaimTemplates");
        let claims = node.at(&["spec", "volumeClaimTemplates"]);
        for (index, claim) in claims.map_or(&[][..], Node::items).iter().enumerate() {
            if let Some(spec) = self.whole(claim, "spec") {
                let at = list.index(index);
                self.claim_spec(spec, &at.field("spec"));
            }
        }
    }

    fn template(&mut self, template: &Node, path: &Path<'_>, all_volumes: bool) {
        let at = path.field("spec");
        match self.whole(template, "spec") {
            Some(spec) => self.pod_spec(spec, &at, all_volumes),
            None => self.add(template.line, &at.field("containers"), Reason::Required, ""),
        }
    }

    /// A selector is required, must not be empty, and must match the labels of the template.
    fn selector(&mut self, spec: &Node, template: Option<&Node>, path: &Path<'_>) {
        let at = path.field("selector");
        let Some(selector) = self.whole(spec, "selector") else {
            self.add(spec.line, &at, Reason::Required, "");
            return;
        };
        let is_empty = |key: &str| {
            let part = selector.get(key);
            part.is_none_or(|part| part.entries().is_empty() && part.items().is_empty())
        };
        if is_empty("matchLabels") && is_empty("matchExpressions") {
            let why = "empty selector is invalid for deployment";
            self.add(selector.line, &at, Reason::Invalid, why);
            return;
        }
        let of_template = template.and_then(|template| template.at(&["metadata", "labels"]));
        let has = |key: &str| {
            let value = of_template?.get(key)?;
            Some(value.as_str().unwrap_or_default())
        };
        if !LabelSelector::parse_known(selector).matches_by(has) {
            let labels = path.field("template");
            let labels = labels.field("metadata");
            let line = of_template.map_or(selector.line, |node| node.line);
            self.add(
                line,
                &labels.field("labels"),
                Reason::Invalid,
                "`selector` does not match template `labels`",
            );
        }
    }

    fn restart_policy(&mut self, template: &Node, path: &Path<'_>, allowed: &[&str]) {
        let Some(policy) = template.at(&["spec", "restartPolicy"]) else {
            if !allowed.contains(&"Always") {
                let line = template.get("spec").map_or(template.line, |spec| spec.line);
                self.unfit_restart_policy(line, path, allowed);
            }
            return;
        };
        let text = policy.as_str().unwrap_or_default();
        let known = ["Always", "OnFailure", "Never"].contains(&text);
        let default = text.is_empty() || policy.is_null();
        let text = if default { "Always" } else { text };
        if (known || default) && !allowed.contains(&text) {
            self.unfit_restart_policy(policy.line, path, allowed);
        }
    }

    fn unfit_restart_policy(&mut self, line: u32, path: &Path<'_>, allowed: &[&str]) {
        let at = path.field("spec");
        let values: Vec<String> = allowed.iter().map(|value| format!("\"{value}\"")).collect();
        let why = format!("supported values: {}", values.join(", "));
        self.add(line, &at.field("restartPolicy"), Reason::Unsupported, &why);
    }

    /// Validates a Job, or the template of a CronJob.
    pub(super) fn job(&mut self, node: &Node, path: &Path<'_>, is_job: bool) {
        let at = path.field("spec");
        let Some(template) = node
            .at(&["spec", "template"])
            .filter(|node| !node.is_null())
        else {
            let at = at.field("template");
            let at = at.field("spec");
            self.add(node.line, &at.field("containers"), Reason::Required, "");
            return;
        };
        let manual = node.at(&["spec", "manualSelector"]).and_then(Node::as_bool);
        let selector = node
            .at(&["spec", "selector"])
            .filter(|node| !node.is_null());
        if let Some(selector) = selector.filter(|_| manual != Some(true) && is_job) {
            let why = "`selector` not auto-generated; remove it";
            self.add(selector.line, &at.field("selector"), Reason::Invalid, why);
        }
        let at = at.field("template");
        self.template(template, &at, true);
        self.restart_policy(template, &at, &["OnFailure", "Never"]);
    }

    pub(super) fn cron_job(&mut self, node: &Node) {
        let path = Path::ROOT.field("spec");
        let Some(spec) = self.whole(node, "spec") else {
            self.add(node.line, &path.field("schedule"), Reason::Required, "");
            return;
        };
        self.require(spec, &path, "schedule");
        if let Some(node) = spec.get("schedule")
            && let Some(text) = node.as_str().filter(|text| !text.is_empty())
            && let Some(why) = schedule::error(text)
        {
            self.add(node.line, &path.field("schedule"), Reason::Invalid, &why);
        }
        if let Some(template) = self.whole(spec, "jobTemplate") {
            self.job(template, &path.field("jobTemplate"), false);
        }
    }

    pub(super) fn budget(&mut self, node: &Node) {
        let both = ["minAvailable", "maxUnavailable"]
            .map(|field| node.at(&["spec", field]).filter(|node| !node.is_null()));
        if let [Some(_), Some(most)] = both {
            let why = "minAvailable and maxUnavailable cannot be both set";
            self.add(most.line, &Path::ROOT.field("spec"), Reason::Invalid, why);
        }
    }

    pub(super) fn autoscaler(&mut self, node: &Node) {
        let path = Path::ROOT.field("spec");
        let Some(spec) = self.whole(node, "spec") else {
            return;
        };
        let number = |field: &str| match spec.get(field).map(|node| &node.value) {
            Some(NodeValue::Number(number)) => number.as_i64(),
            _ => None,
        };
        if let (Some(least), Some(most)) = (number("minReplicas"), number("maxReplicas"))
            && most < least
        {
            let line = spec.get("maxReplicas").map_or(spec.line, |node| node.line);
            let why = "must be greater than or equal to `minReplicas`";
            self.add(line, &path.field("maxReplicas"), Reason::Invalid, why);
        }
    }
}
