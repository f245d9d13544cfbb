//! A simulated bootstrap as a flight: recorded in the same way as by the daemon's recorder.

use jiff::Timestamp;
use windrow_decide::flight::{
    self, FlightHead, FlightLine, RecordedConfiguration, RecordedFile, RecordedRulePack, Recorder,
    Tap,
};
use windrow_decide::settings;
use windrow_decide::{Action, Decision, Event, StagingState};
use windrow_model::manifest::{self, ManifestPath, sha256_hex};

use super::files::SimulatedDirectory;
use super::run::Setup;

/// The limit for the objects of each file, in bytes. A simulation's directory is small.
const ROOM: usize = 1 << 20;

/// The recorder of one simulated bootstrap.
pub(super) struct Tape {
    lines: Vec<FlightLine>,
    recorder: Recorder,
    tap: Tap,
    packs: Vec<RecordedRulePack>,
    /// The directory at the last scan of the process.
    seen: Option<SimulatedDirectory>,
}

impl Tape {
    /// A tape for a node on which these rule packs are in force: those of the setup, as texts.
    pub(super) fn new(packs: &[(String, String)]) -> Self {
        Self {
            lines: Vec::new(),
            recorder: Recorder::default(),
            tap: Tap::default(),
            packs: packs
                .iter()
                .map(|(name, text)| RecordedRulePack {
                    name: name.clone(),
                    text: text.clone(),
                })
                .collect(),
            seen: None,
        }
    }

    pub(super) fn begin(&mut self, setup: &Setup, at: Timestamp) {
        self.recorder.start_over();
        self.tap.start_over();
        self.seen = None;
        let settings = settings::record(&setup.settings);
        self.lines.push(FlightLine::Flight(FlightHead {
            version: flight::VERSION,
            windrow: env!("CARGO_PKG_VERSION").to_owned(),
            at,
            boot: None,
        }));
        self.lines
            .push(FlightLine::Configuration(RecordedConfiguration {
                at,
                digest: sha256_hex(format!("{settings:?}{:?}", self.packs).as_bytes()),
                origin: Vec::new(),
                platform: Some(setup.platform()),
                node: Default::default(),
                settings,
                rules: self.packs.clone(),
            }));
    }

    /// Records a scan of the directory.
    pub(super) fn scanned(&mut self, files: &SimulatedDirectory, setup: &Setup, at: Timestamp) {
        let before = self.seen.replace(files.clone());
        let look = files.look(before.as_ref().map(SimulatedDirectory::generation));
        let gone: Vec<ManifestPath> = before
            .iter()
            .flat_map(SimulatedDirectory::manifests)
            .filter(|(path, _)| look.files.iter().all(|file| file.path != *path))
            .map(|(path, _)| path.into())
            .collect();
        let changed: Vec<RecordedFile> = look
            .files
            .iter()
            .filter_map(|file| {
                let content = file.content.as_ref()?;
                let read = manifest::read(&file.path, content, &setup.settings.staging.limits);
                Some(RecordedFile::from_manifest(&read, ROOM))
            })
            .collect();
        if !changed.is_empty() || !gone.is_empty() {
            self.lines.push(FlightLine::Files(flight::RecordedFiles {
                at,
                files: changed,
                gone,
            }));
        }
    }

    pub(super) fn before(&mut self, state: &StagingState) {
        self.tap.before(state.ledger());
    }

    pub(super) fn decided(&mut self, at: Timestamp, decision: &Decision, state: &StagingState) {
        self.tap.decided(at, decision, state.observation());
    }

    pub(super) fn acted(&mut self, done: &[Action], reported: &[Event]) {
        if let Some(made) = self.tap.acted(done, reported) {
            let line = self.recorder.record(made);
            self.lines.push(line);
        }
    }

    pub(super) fn into_lines(self) -> Vec<FlightLine> {
        self.lines
    }
}
