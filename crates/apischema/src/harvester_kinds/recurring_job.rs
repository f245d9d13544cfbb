//! RecurringJobs of Longhorn (`datastore/longhorn.go`, ValidateRecurringJob). The definition of the kind has the tasks.

use windrow_model::grammars::label_key_error;
use windrow_model::manifest::{Node, Object};

use super::{Judged, backup, line_of, text};

/// `NameMaximumLength`.
const LONGEST: usize = 40;
/// `MaxSnapshotNum`, the most that the setting recurring-job-max-retention allows.
const MOST_KEPT: i64 = 250;

impl Judged {
    pub(super) fn recurring_job(&mut self, object: &Object, spec: &Node) {
        let name = object.id.name.as_str();
        let line = object.node.at(&["metadata", "name"]);
        let line = line.map_or(object.line, |node| node.line);
        if name.len() < 2 {
            self.add(line, "metadata.name", "it needs at least two characters");
        }
        // Without a name, its mutator takes that of the object.
        let (own, at) = match text(spec, "name") {
            "" => (name, line),
            own => (own, line_of(spec, "name")),
        };
        if own.len() > LONGEST {
            let why = format!("at most {LONGEST} characters");
            self.add(at, "spec.name", &why);
        }
        if text(spec, "task").is_empty() {
            self.add(line_of(spec, "task"), "spec.task", "it is missing");
        }
        match text(spec, "cron") {
            "" => self.add(line_of(spec, "cron"), "spec.cron", "it is missing"),
            cron => {
                if let Some(why) = backup::error(cron) {
                    self.add(line_of(spec, "cron"), "spec.cron", &why);
                }
            }
        }
        if let Some(node) = spec.get("retain")
            && node.to_json().as_i64().is_some_and(|kept| kept > MOST_KEPT)
        {
            self.add_at(node, "spec.retain", &format!("at most {MOST_KEPT}"));
        }
        for group in spec.list("groups") {
            let is_right = |(index, letter): (usize, char)| {
                letter.is_ascii_alphanumeric() || (index > 0 && "_.-".contains(letter))
            };
            let of_group = group.as_str().unwrap_or("default");
            if of_group.len() < 2 || !of_group.char_indices().all(is_right) {
                let why = "a group has at least two letters, digits or `_.-`, and begins with a letter or digit";
                self.add_at(group, "spec.groups[]", why);
            }
        }
        for label in spec.get("labels").map_or(&[][..], Node::entries) {
            let is_reserved = ["KubernetesStatus", "ranchervm-base-image"].contains(&&*label.key);
            let why = match label_key_error(&label.key) {
                Some(why) => why,
                None if label.value.as_str() == Some("") => "a label needs a value",
                None if is_reserved => "Longhorn sets this label itself",
                None => continue,
            };
            self.add(label.line, "spec.labels", why);
        }
        self.parameters(spec);
    }

    fn parameters(&mut self, spec: &Node) {
        if !["backup", "backup-force-create"].contains(&text(spec, "task")) {
            return;
        }
        for entry in spec.get("parameters").map_or(&[][..], Node::entries) {
            let value = entry.value.as_str().unwrap_or_default();
            let why = match &*entry.key {
                "full-backup-interval" if value.parse::<i64>().is_ok() => continue,
                "full-backup-interval" => "`full-backup-interval` is not a whole number",
                // From Longhorn 1.9 on, which Harvester v1.6 has.
                "volume-backup-policy"
                    if self.is_since((1, 6))
                        && ["always", "disabled", "if-not-present"].contains(&value) =>
                {
                    continue;
                }
                "volume-backup-policy" if self.is_since((1, 6)) => {
                    "`volume-backup-policy` is one of always, disabled and if-not-present"
                }
                _ => "a backup has no such parameter",
            };
            self.add(entry.line, "spec.parameters", why);
        }
    }
}
