//! What is read of a setup's files, once for all of its runs.

use std::sync::Arc;

use windrow_decide::Library;
use windrow_decide::settings::Settings;
use windrow_plan::rules::RuleSet;

use super::cluster::Shown;
use super::drive;
use super::files::Files;
use super::reading::Readings;
use super::run::{Run, Setup};

/// The files of a setup, read. It is good for that setup, and for others that differ in nothing but the
/// scenario's versions.
#[derive(Debug, Clone, Default)]
pub struct Known {
    pub(super) readings: Readings,
    /// By server.
    pub(super) libraries: Vec<Arc<Library>>,
    pub(super) shown: Arc<Shown>,
}

impl Known {
    /// Reads them.
    pub fn of(setup: &Setup) -> Self {
        let mut known = Self::default();
        known.take(setup, &setup.files, &setup.settings, &setup.rules);
        for join in &setup.joins {
            known.take(setup, &join.files, &join.settings, &join.rules);
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

    fn take(&mut self, setup: &Setup, files: &Files, settings: &Settings, rules: &RuleSet) {
        for (path, file) in files.manifests() {
            match setup.files.get(path) {
                Some(first) if first.content() == file.content() => {
                    self.readings
                        .read_alike(path, file.content(), first.content());
                }
                _ => {
                    self.readings.read(path, file.content());
                }
            }
        }
        self.libraries.push(Arc::new(Library::of(
            files.manifests().map(|(path, file)| (path, file.content())),
            &settings.staging.limits,
            rules,
            Some(setup.platform()),
        )));
    }
}
