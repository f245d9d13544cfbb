//! The simulated deploy controller on a directory.

use std::collections::BTreeMap;
use std::time::Duration;

use jiff::Timestamp;
use serde_json::Value;
use windrow_decide::{Interests, Observation};
use windrow_model::manifest::{FileContent, GroupKind, ObjectRef};
use windrow_simulate::{
    Arrival, HappeningKind, Scenario, SimulatedDirectory, SimulatedNode, SlowDefinitions, Watch,
};

use super::directories::{Directory, Edit, Kind};
use super::{Outcome, Pass, Promptness, called, is_left_alone, kinds, named, words};

/// The simulated node.
pub(super) struct Simulated<'a> {
    directory: &'a Directory,
    node: SimulatedNode,
    files: SimulatedDirectory,
}

/// What RKE2 alone serves, in the simulation.
pub(super) fn is_served_by_rke2(kind: &GroupKind) -> bool {
    SimulatedNode::new(scenario(), 1)
        .cluster()
        .serves(kind)
        .is_some()
}

fn scenario() -> Scenario {
    // 2026-01-01T00:00:00Z
    Scenario::rke2(Timestamp::constant(1_767_225_600, 0))
}

impl<'a> Simulated<'a> {
    pub(super) fn new(directory: &'a Directory, promptness: Promptness) -> Self {
        let mut scenario = Scenario {
            slow_definitions: (promptness == Promptness::WaitsForOthers)
                .then_some(SlowDefinitions::COUNTED),
            ..scenario()
        };
        let steps = directory.steps.iter().zip(0..);
        for ((edits, _), before) in steps {
            for edit in *edits {
                if let Edit::Bring(kinds) = edit {
                    // Looked up on a second node, which is then dropped.
                    let mut node = Self::of(directory, scenario.clone());
                    node.steps(before);
                    scenario.arrivals.push(node.arrival(kinds));
                }
            }
        }
        Self::of(directory, scenario)
    }

    fn of(directory: &'a Directory, scenario: Scenario) -> Self {
        Self {
            directory,
            node: SimulatedNode::new(scenario, 1),
            files: SimulatedDirectory::new(),
        }
    }

    /// Kinds that come now, long before the next pass.
    fn arrival(&self, kinds: &[Kind]) -> Arrival {
        let mut log = self.node.log().iter();
        let ready = log
            .find(|one| one.what == HappeningKind::ApiReady)
            .unwrap()
            .at;
        let now = self.node.cluster().now();
        Arrival {
            after: now.duration_since(ready).unsigned_abs() + Duration::from_secs(1),
            kinds: kinds
                .iter()
                .map(|kind| (GroupKind::new(kind.group, kind.kind), kind.namespaced))
                .collect(),
            ..Arrival::default()
        }
    }

    /// The first steps, this many.
    fn steps(&mut self, steps: usize) {
        let mut due = 0;
        for (edits, passes) in &self.directory.steps[..steps] {
            for edit in *edits {
                self.edit(*edit);
            }
            due += passes;
            while self.passes().len() < due {
                let next = self.node.next_event_at().unwrap();
                self.node.advance(next, &self.files);
            }
        }
    }

    pub(super) fn run(&mut self) -> Outcome {
        self.steps(self.directory.steps.len());
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
                    (name.into(), (addon.checksum, file.to_owned()))
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
                    .put(named(path), FileContent::DanglingSymlink { target }, now);
            }
            // It comes by itself.
            Edit::Bring(_) => {}
        }
    }

    /// The passes that are over.
    fn passes(&self) -> Vec<Pass> {
        let mut over = Vec::new();
        let mut pass = Pass::default();
        for happening in self.node.log() {
            match &happening.what {
                HappeningKind::Applied { file } => pass.events.extend(
                    ["ApplyingManifest", "AppliedManifest"]
                        .map(|reason| format!("{file} {reason}")),
                ),
                HappeningKind::ApplyFailed {
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
                    pass.failed.insert(file.to_string(), words(reason, message));
                }
                HappeningKind::PassAborted { why } => {
                    pass.aborted = Some(why.clone());
                    over.push(std::mem::take(&mut pass));
                }
                HappeningKind::PassEnded { .. } => over.push(std::mem::take(&mut pass)),
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
            .filter_map(|(id, json)| of(id, &json))
            .collect()
    }

    pub(super) fn content(&self, name: &str) -> Option<Value> {
        self.objects(|id, json| Some((called(&id.kind, &json["metadata"]), json.clone())))
            .remove(name)
    }
}
