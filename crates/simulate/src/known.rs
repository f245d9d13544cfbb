//! The files of a setup, read and planned once for all of its runs.

use std::sync::Arc;

use windrow_decide::settings::Settings;
use windrow_decide::{Ledger, StagingState};
use windrow_plan::rules::RuleSet;

use super::drive;
use super::files::Files;
use super::run::{Run, Setup};

/// The files of a setup, read. They serve that setup, and others that differ in nothing but the
/// scenario's versions.
#[derive(Debug, Clone)]
pub struct Known {
    /// The manifests directory of each server at power-on.
    pub(super) disks: Vec<Files>,
    /// What Windrow on each server knows after its first scan.
    pub(super) states: Vec<StagingState>,
}

impl Known {
    /// Reads them.
    pub fn of(setup: &Setup) -> Self {
        let mut known = Self {
            disks: Vec::new(),
            states: Vec::new(),
        };
        known.add_server(setup, &setup.files, &setup.settings, &setup.rules);
        for join in &setup.joins {
            known.add_server(setup, &join.files, &join.settings, &join.rules);
        }
        known
    }

    /// The bootstrap of the setup that these files are of, with Windrow.
    pub fn with_windrow(&self, setup: &Setup, seed: u64) -> Run {
        drive::with(setup, self, seed)
    }

    /// The same without Windrow.
    pub fn without_windrow(&self, setup: &Setup, seed: u64) -> Run {
        drive::alone(setup, self, seed)
    }

    fn add_server(
        &mut self,
        setup: &Setup,
        files: &Files,
        settings: &Arc<Settings>,
        rules: &Arc<RuleSet>,
    ) {
        files.read_all(self.disks.first());
        self.disks.push(files.clone());
        let mut state = StagingState::new(
            Arc::clone(settings),
            Arc::clone(rules),
            Some(setup.platform()),
            Ledger::default(),
            setup.scenario.start,
        );
        state.take_directory(files.look(None));
        self.states.push(state);
    }
}
