//! Everything that the drop-in depends on, as it is on the disk.

use windrow_decide::settings::Settings;
use windrow_gates::{
    GateRequest, KnownGood, RefusedGates, Rejected, ResolvedVersion, Rke2State, Settled, Trial,
    TrialHistory, read_gates,
};
use windrow_plan::rke2::config::{Rke2ConfigFile, merge};

use crate::act::{StateFile, read_drop_in};
use crate::configuration::Configuration;
use crate::layout::Layout;
use crate::observe::rke2::{candidates_on_disk, config_and_kubelet_files, resolved};

/// Everything that the drop-in depends on, as it is on the disk.
pub(super) struct DropInInputs {
    pub(super) layout: Layout,
    pub(super) settings: Settings,
    pub(super) own: String,
    /// RKE2's configuration without our drop-in.
    pub(super) files: Vec<Rke2ConfigFile>,
    pub(super) current: Option<String>,
    pub(super) resolved: ResolvedVersion,
    pub(super) history: TrialHistory,
    /// The current trial.
    trial: Option<Trial>,
}

impl DropInInputs {
    /// As while RKE2 runs: where an upgrade is under way, the version that starts next may be another.
    pub(super) fn read(configuration: &Configuration) -> Self {
        Self::read_for(configuration, true)
    }

    /// Right before a start (without `upgrades`) what is installed is what starts.
    pub(super) fn read_for(configuration: &Configuration, upgrades: bool) -> Self {
        let settings = configuration.settings().clone();
        let layout = configuration.layout().clone();
        let own = layout.gates_drop_in().display().to_string();
        let mut files = config_and_kubelet_files(&layout).files;
        files.retain(|file| file.path != own);
        let mut candidates = candidates_on_disk(&layout, &settings.data_dir);
        match upgrades {
            true => candidates.upgrade = StateFile::Upgrade.recall(&layout).unwrap_or_default(),
            // One starts now. Where it does not show, what ran here before says nothing about it.
            false => candidates.data.clear(),
        }
        let resolved = resolved(&candidates);
        // A record that cannot be read shows nothing; the next trial writes it again.
        let known = StateFile::KnownGood.recall::<KnownGood>(&layout);
        let refused = StateFile::Refused.recall::<RefusedGates>(&layout);
        let trial = StateFile::Trial
            .recall::<Trial>(&layout)
            .unwrap_or_default();
        Self {
            history: TrialHistory {
                proven: known.ok().flatten().map(|known| known.proven(&own)),
                rejected: refused.ok().flatten().map(|refused| Rejected {
                    gates: refused.gates(&own),
                    version: refused.version,
                    why: refused.why,
                }),
                tried: trial.as_ref().and_then(|trial| trial.trusted(&own)),
            },
            // A record that cannot be read is overwritten.
            current: read_drop_in(&layout).unwrap_or_default(),
            trial: trial.filter(Trial::under_way),
            files,
            resolved,
            settings,
            own,
            layout,
        }
    }

    /// The gates in the drop-in as it lies there.
    pub(super) fn there(&self) -> Vec<GateRequest> {
        let text = self.current.as_deref().unwrap_or_default();
        read_gates(&self.own, text, &self.settings.feature_gates)
    }

    pub(super) fn settled(&self, rke2: Rke2State) -> Settled {
        // A trial is not disturbed: its gates stay, or what it saved is restored.
        let (rke2, current) = match &self.trial {
            Some(trial) if trial.going_back() => {
                let saved = trial.saved.clone().unwrap_or_default();
                (Rke2State::Running, saved.content)
            }
            Some(trial) if trial.in_force() => (Rke2State::Running, self.current.clone()),
            _ => (rke2, self.current.clone()),
        };
        self.settled_from(current.as_deref(), rke2)
    }

    /// What of an earlier drop-in the version takes that may start now.
    pub(super) fn fit(&self, earlier: Option<&str>) -> Option<String> {
        self.settled_from(earlier, Rke2State::Running).content
    }

    fn settled_from(&self, current: Option<&str>, rke2: Rke2State) -> Settled {
        windrow_gates::settle(
            &self.settings.feature_gates,
            &self.resolved.target,
            &merge(&self.files),
            current.map(|text| (self.own.as_str(), text)),
            rke2,
            &self.history,
        )
    }
}
