//! The files of a setup, read and planned once for all of its runs.

use std::sync::Arc;

use windrow_decide::settings::Settings;
use windrow_decide::{Ledger, StagingState};
use windrow_plan::rules::RuleSet;

use super::files::SimulatedDirectory;
use super::run::Setup;

/// The files of a setup, read. They are valid for that setup, and for others that differ only in the scenario's versions.
#[derive(Debug, Clone)]
pub struct PreparedSetup {
    /// The manifests directory of each server at power-on.
    pub(super) disks: Vec<SimulatedDirectory>,
    /// Windrow's state on each server after its first scan.
    pub(super) states: Vec<StagingState>,
}

impl PreparedSetup {
    pub fn read(setup: &Setup) -> Self {
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

    fn add_server(
        &mut self,
        setup: &Setup,
        files: &SimulatedDirectory,
        settings: &Arc<Settings>,
        rules: &Arc<RuleSet>,
    ) {
        files.read_all(self.disks.first());
        let first = self.disks.first().zip(self.states.first());
        let same = first.filter(|(disk, state)| {
            disk.has_same_files(files)
                && std::ptr::eq(state.settings(), &**settings)
                && std::ptr::eq(state.rules(), &**rules)
        });
        if let Some((disk, state)) = same {
            let (disk, state) = (disk.clone(), state.clone());
            self.disks.push(disk);
            self.states.push(state);
            return;
        }
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
