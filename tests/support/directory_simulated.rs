//! The simulated deploy controller on a directory.

use std::collections::BTreeMap;

use jiff::Timestamp;
use serde_json::Value;
use windrow::decide::{Interests, Observation};
use windrow::manifest::{Content, ObjectRef};
use windrow::simulate::{Files, Node, Scenario, Watch, What};

use super::directories::{Directory, Edit};
use super::{Outcome, Pass, called, is_left_alone, kinds, named, words};

/// The simulated node.
pub(super) struct Simulated<'a> {
    directory: &'a Directory,
    node: Node,
    files: Files,
}

impl<'a> Simulated<'a> {
    pub(super) fn new(directory: &'a Directory) -> Self {
        // 2026-01-01T00:00:00Z
        let start = Timestamp::constant(1_767_225_600, 0);
        Self {
            directory,
            node: Node::new(Scenario::rke2(start), 1),
            files: Files::new(),
        }
    }

    pub(super) fn run(&mut self) -> Outcome {
        let mut due = 0;
        for (edits, passes) in self.directory.steps {
            for edit in *edits {
                self.edit(*edit);
            }
            due += passes;
            while self.passes().len() < due {
                let next = self.node.next_event_at().unwrap();
                self.node.advance(next, &self.files);
            }
        }
        let passes = self.passes();
        let said: usize = passes.iter().map(|pass| pass.events.len()).sum();
        let counts = self.node.counts();
        assert_eq!(
            said as u64, counts.events,
            "{}: {counts:?}",
            self.directory.name
        );
        let mut observation = Observation::default();
        let now = self.node.cluster().now();
        for event in Watch::default().poll(self.node.cluster(), &Interests::default()) {
            observation.apply(event, now);
        }
        let addons = observation.addons.unwrap_or_default();
        Outcome {
            passes,
            addons: addons
                .into_iter()
                .map(|(name, addon)| {
                    let (_, file) = addon.source.split_once("/manifests/").unwrap();
                    (name, (addon.checksum, file.to_owned()))
                })
                .collect(),
            objects: self.objects(|id, json| {
                let owner = self.node.cluster().owner(id)?;
                Some((called(&id.kind, &json["metadata"]), owner.to_owned()))
            }),
            order: self
                .objects(|id, json| {
                    let revision: u64 =
                        json["metadata"]["resourceVersion"].as_str()?.parse().ok()?;
                    self.node.cluster().owner(id)?;
                    is_left_alone(&id.kind).then(|| (revision, called(&id.kind, &json["metadata"])))
                })
                .into_values()
                .collect(),
            writes: counts.writes as usize,
        }
    }

    fn edit(&mut self, edit: Edit) {
        let now = self.node.cluster().now();
        let named = |text| named(text, self.directory);
        match edit {
            Edit::Write(path, content) => self.files.write(named(path), named(content), now),
            Edit::Remove(path) => assert!(self.files.remove(&named(path)), "no {path}"),
            Edit::Dangle(path) => {
                let target = "nowhere".to_owned();
                self.files
                    .put(named(path), Content::DanglingSymlink { target }, now);
            }
        }
    }

    /// The passes that are over.
    fn passes(&self) -> Vec<Pass> {
        let mut over = Vec::new();
        let mut pass = Pass::default();
        for happening in self.node.log() {
            match &happening.what {
                What::Applied { file } => pass.events.extend(
                    ["ApplyingManifest", "AppliedManifest"]
                        .map(|reason| format!("{file} {reason}")),
                ),
                What::ApplyFailed {
                    file,
                    reason,
                    message,
                } => {
                    if reason == "ApplyManifestFailed" {
                        pass.events.push(format!("{file} ApplyingManifest"));
                    }
                    if !reason.is_empty() {
                        pass.events.push(format!("{file} {reason}"));
                    }
                    pass.failed.insert(file.clone(), words(reason, message));
                }
                What::PassAborted { why } => {
                    pass.aborted = Some(why.clone());
                    over.push(std::mem::take(&mut pass));
                }
                What::PassEnded { .. } => over.push(std::mem::take(&mut pass)),
                _ => {}
            }
        }
        over
    }

    fn objects<K: Ord, V>(
        &self,
        of: impl Fn(&ObjectRef, &Value) -> Option<(K, V)>,
    ) -> BTreeMap<K, V> {
        let cluster = self.node.cluster();
        kinds(self.directory)
            .iter()
            .flat_map(|kind| cluster.list(&kind.group, &kind.kind).collect::<Vec<_>>())
            .filter_map(|(id, json)| of(id, json))
            .collect()
    }

    pub(super) fn content(&self, name: &str) -> Option<Value> {
        self.objects(|id, json| Some((called(&id.kind, &json["metadata"]), json.clone())))
            .remove(name)
    }
}
