//! The daemon's records for the flight recorder: the inputs of each decision, and every decision that changed
//! something.

use std::collections::BTreeSet;
use std::path::Path;
use std::sync::Arc;

use jiff::Timestamp;
use windrow_decide::flight::{
    ConfigurationSource, FlightLine, RecordedConfiguration, RecordedMachine, RecordedRepair,
    RecordedRulePack, Tap,
};
use windrow_decide::settings::{self, Loaded, SiteNames};
use windrow_decide::{Action, Decision, Directory, Event, Ledger, Observation};
use windrow_model::manifest::{FileContent, ManifestPath, sha256_hex};
use windrow_model::reasons::Code;
use windrow_plan::knowledge::NodeFacts;
use windrow_plan::rules::Platform;

use super::full_disks::FullDisks;
use crate::files::is_no_space;
use crate::layout::Layout;
use crate::observe::platform::boot_id;
use crate::report::flight::{
    FlightDestination, FlightItem, FlightReport, FlightWriter, copy_directory,
};
use crate::report::journal;

/// A larger file is recorded only by its name: its objects would not fit.
const LARGEST: usize = 2 << 20;

pub(super) struct FlightRecorder {
    full: FullDisks,
    writer: Option<FlightWriter>,
    destination: Option<FlightDestination>,
    configuration: Option<RecordedConfiguration>,
    known: BTreeSet<ManifestPath>,
    tap: Tap,
    names: SiteNames,
    machine: Option<RecordedMachine>,
}

impl FlightRecorder {
    pub(super) fn none(full: FullDisks) -> Self {
        Self {
            full,
            writer: None,
            destination: None,
            configuration: None,
            known: BTreeSet::new(),
            tap: Tap::default(),
            names: SiteNames::default(),
            machine: None,
        }
    }

    pub(super) fn configured(
        &mut self,
        layout: &Layout,
        loaded: &Loaded,
        (platform, node): (Option<Platform>, NodeFacts),
        now: Timestamp,
    ) {
        let wanted = &loaded.settings.flight;
        self.names = wanted.names;
        let destination = wanted.enabled.then(|| FlightDestination {
            path: layout.flight(),
            bound: wanted.file_bytes,
            copy_to: copy_directory(layout, &wanted.copy_to),
            boot: boot_id(layout),
        });
        if destination != self.destination {
            self.stop();
            self.full.set("flight", BTreeSet::new());
            self.writer = destination
                .as_ref()
                .and_then(|destination| begin(destination.clone(), self.full.clone()));
            self.destination = destination;
            self.tap.start_over();
            self.machine = None;
        }
        let rules: Vec<RecordedRulePack> = settings::rule_sources(&loaded.files, loaded.preset)
            .into_iter()
            .map(|(name, text)| RecordedRulePack { name, text })
            .collect();
        let settings = settings::record(&loaded.settings);
        let mut all = format!("{settings:?}");
        for pack in &rules {
            all.push_str(&pack.name);
            all.push_str(&pack.text);
        }
        self.configuration = Some(RecordedConfiguration {
            at: now,
            digest: sha256_hex(all.as_bytes()),
            origin: loaded
                .files
                .iter()
                .map(|file| ConfigurationSource {
                    path: file.path.display().to_string(),
                    sha256: sha256_hex(file.text.as_bytes()),
                })
                .collect(),
            platform,
            node,
            settings,
            rules,
        });
        self.tell_configuration(loaded.settings.staging.limits.clone());
    }

    pub(super) fn found_platform(&mut self, settings: &settings::Settings, platform: Platform) {
        if let Some(configuration) = &mut self.configuration {
            configuration.platform = Some(platform);
        }
        self.tell_configuration(settings.staging.limits.clone());
    }

    pub(super) fn found_node(&mut self, settings: &settings::Settings, node: NodeFacts) {
        if let Some(configuration) = &mut self.configuration {
            configuration.node = node;
        }
        self.tell_configuration(settings.staging.limits.clone());
    }

    /// After this everything is read again, so every file is recorded again.
    fn tell_configuration(&mut self, limits: windrow_model::manifest::ReadLimits) {
        self.known.clear();
        if let Some(configuration) = self.configuration.clone() {
            self.record(FlightItem::Configuration(Box::new(configuration), limits));
        }
    }

    /// A scan of the directory, before decisions are made from it.
    pub(super) fn scanned(&mut self, directory: &Directory, now: Timestamp) {
        if self.writer.is_none() {
            return;
        }
        let changed: Vec<(ManifestPath, Arc<FileContent>)> = directory
            .files
            .iter()
            .filter_map(|file| {
                let content = match file.content.as_ref()? {
                    known
                        if let FileContent::Bytes(bytes) = &**known
                            && bytes.len() > LARGEST =>
                    {
                        Arc::new(FileContent::TooLarge {
                            size: bytes.len() as u64,
                        })
                    }
                    known => Arc::clone(known),
                };
                Some((file.path.clone(), content))
            })
            .collect();
        let present: BTreeSet<ManifestPath> = directory
            .files
            .iter()
            .map(|file| file.path.clone())
            .collect();
        let gone: Vec<ManifestPath> = self.known.difference(&present).cloned().collect();
        self.known = present;
        if !changed.is_empty() || !gone.is_empty() {
            self.record(FlightItem::Files {
                at: now,
                changed,
                gone,
            });
        }
    }

    pub(super) fn before(&mut self, ledger: &Ledger) {
        if self.writer.is_some() {
            self.tap.before(ledger);
        }
    }

    pub(super) fn decided(&mut self, now: Timestamp, decision: &Decision, seen: &Observation) {
        if self.writer.is_some() {
            self.tap.decided(now, decision, seen);
        }
    }

    pub(super) fn acted(&mut self, done: &[Action], told: &[Event]) {
        if let Some(made) = self.tap.acted(done, told) {
            self.record(FlightItem::Decision(Box::new(made)));
        }
    }

    pub(super) fn repaired(&mut self, repaired: RecordedRepair) {
        self.record(FlightItem::Repair(Box::new(repaired)));
    }

    pub(super) fn is_on(&self) -> bool {
        self.writer.is_some()
    }

    /// The facts about the machine now: recorded if they are new.
    pub(super) fn machine(&mut self, machine: RecordedMachine) {
        let at = machine.at;
        let known = self
            .machine
            .clone()
            .map(|known| RecordedMachine { at, ..known });
        if self.writer.is_some() && known.as_ref() != Some(&machine) {
            self.machine = Some(machine.clone());
            self.record(FlightItem::Machine(machine));
        }
    }

    /// Objects that appeared in the cluster. They are left out if the disk is slow: no replay needs them.
    pub(super) fn seen(&mut self, lines: Vec<FlightLine>, now: Timestamp) {
        let names = self.names;
        let lines: Vec<FlightLine> = lines
            .into_iter()
            .map(|line| line.with_names(names))
            .collect();
        let has_room = self.writer.as_ref().is_some_and(FlightWriter::has_room);
        if has_room && !lines.is_empty() {
            self.record(FlightItem::Seen { at: now, lines });
        }
    }

    pub(super) fn stop(&mut self) {
        if let Some(writer) = self.writer.take() {
            writer.flush();
        }
    }

    fn record(&mut self, item: FlightItem) {
        let kept = self
            .writer
            .as_ref()
            .is_none_or(|writer| writer.record(item));
        if !kept {
            self.writer = None;
            complain("the disk does not keep up".to_owned());
        }
    }
}

fn begin(destination: FlightDestination, full: FullDisks) -> Option<FlightWriter> {
    let directory = destination.path.parent().map(Path::to_owned);
    let report = move |report: FlightReport<'_>| {
        let error = match report {
            FlightReport::NotCopied(error) => {
                let why = error.to_string();
                return journal::write_event(&Event::new(
                    Code::FlightNotCopied,
                    Code::FlightNotCopied.say(&[("why", &why)]),
                ));
            }
            FlightReport::NotWritten(error) => Some(error),
            FlightReport::Written => None,
        };
        let is_full = error.is_some_and(is_no_space);
        full.set(
            "flight",
            directory.iter().filter(|_| is_full).cloned().collect(),
        );
        if let Some(error) = error {
            complain(error.to_string());
        }
    };
    FlightWriter::begin(destination, report)
        .map_err(|error| complain(error.to_string()))
        .ok()
}

fn complain(why: String) {
    journal::write_event(&Event::new(
        Code::FlightNotRecorded,
        Code::FlightNotRecorded.say(&[("why", &why)]),
    ));
}
