//! The files on the disk that the drop-in depends on.

use std::io::{self, ErrorKind};

use windrow_decide::settings::Settings;
use windrow_gates::{
    FailedDropIns, GateRequest, KnownGood, RefusedGates, ResolvedVersion, Rke2State, SettleInputs,
    Settled, TakenBack, Trial, TrialHistory, made_fatal, read_gates, request_text,
};
use windrow_model::findings::Finding;
use windrow_plan::rke2::config::Rke2ConfigFile;

use crate::act::{GatesStamp, StateFile, read_drop_in};
use crate::configuration::Configuration;
use crate::files::FileStamp;
use crate::layout::Layout;
use crate::observe::rke2::{
    FoundConfigFiles, candidates_on_disk, config_and_kubelet_files, resolved,
};
use crate::observe::rke2_binary;

pub(super) struct DropInInputs {
    pub(super) layout: Layout,
    pub(super) settings: Settings,
    pub(super) own: String,
    pub(super) files: Vec<Rke2ConfigFile>,
    pub(super) current: Option<String>,
    pub(super) resolved: ResolvedVersion,
    pub(super) history: TrialHistory,
    /// Why the configuration, or RKE2's, was not read completely, if so.
    pub(super) unread: Option<String>,
    /// Whether there is a configuration file of this node. On Harvester, /etc is written at each boot, and may come
    /// late.
    is_configured: bool,
    /// Why the records of failed or undone changes could not be read, if so.
    unread_record: Option<String>,
    /// Are there refusals that only this process knows, because they could not be written?
    pub(super) knows_unwritten: bool,
    /// Why the drop-in cannot be read, if so.
    pub(super) unread_drop_in: Option<String>,
    trial: Option<Trial>,
    stamp: (GatesStamp, Option<FileStamp>),
}

impl DropInInputs {
    /// Reads them while RKE2 runs: during an upgrade, another version may start next.
    pub(super) fn read(configuration: &Configuration) -> Self {
        Self::read_for(configuration, true)
    }

    /// Right before a start (without `upgrades`), the installed version is the one that starts.
    pub(super) fn read_for(configuration: &Configuration, upgrades: bool) -> Self {
        let settings = configuration.settings().clone();
        let layout = configuration.layout().clone();
        // First: a change during the rest of the reading is noticed.
        let stamp = (GatesStamp::read(&layout), rke2_binary::stamp(&layout));
        let own = layout.gates_drop_in().display().to_string();
        let FoundConfigFiles { mut files, errors } = config_and_kubelet_files(&layout);
        files.retain(|file| file.path != own);
        let [shipped, ..] = layout.config_dirs();
        let mut configuration_files = configuration.loaded.files.iter();
        let is_configured = !settings.feature_gates.is_empty()
            || configuration_files.any(|file| !file.path.starts_with(&shipped));
        let configuration_error = configuration.loaded.errors.first();
        let unread = configuration_error
            .map(|error| format!("the configuration has an error: {error}"))
            .or_else(|| errors.into_iter().find(|error| !error.starts_with(&own)));
        let (current, unread_drop_in) = or_unread(&own, read_drop_in(&layout));
        let mut candidates = candidates_on_disk(&layout, &settings.data_dir);
        match upgrades {
            true => candidates.upgrade = StateFile::Upgrade.recall(&layout).unwrap_or_default(),
            // A version starts now. If it is unknown, the version that ran here before does not matter.
            false => candidates.data.clear(),
        }
        let resolved = resolved(&candidates);
        // A record that cannot be read shows nothing; the next trial writes it again.
        let known = StateFile::KnownGood.recall::<KnownGood>(&layout);
        let refused = StateFile::Refused.recall::<RefusedGates>(&layout);
        let trial = StateFile::Trial
            .recall::<Trial>(&layout)
            .unwrap_or_default();
        let failed = StateFile::Failed.recall::<FailedDropIns>(&layout);
        let taken_back = StateFile::TakenBack.recall::<TakenBack>(&layout);
        Self {
            unread_record: (refused.as_ref().err())
                .or(failed.as_ref().err())
                .or(taken_back.as_ref().err())
                .cloned(),
            knows_unwritten: false,
            history: TrialHistory {
                proven: known.ok().flatten().map(|known| known.proven(&own)),
                rejected: refused.ok().flatten().map(|refused| refused.rejected(&own)),
                tried: trial.as_ref().and_then(|trial| trial.trusted(&own)),
                failed: failed.ok().flatten().unwrap_or_default(),
                taken_back: taken_back.ok().flatten(),
            },
            current,
            unread,
            is_configured,
            unread_drop_in,
            stamp,
            trial: trial.filter(Trial::under_way),
            files,
            resolved,
            settings,
            own,
            layout,
        }
    }

    /// The same with refusals that could not be written: they count for the start that follows.
    pub(super) fn with_unwritten(mut self, refused: Option<&RefusedGates>) -> Self {
        if let Some(refused) = refused {
            self.history.rejected = Some(refused.rejected(&self.own));
            self.knows_unwritten = true;
        }
        self
    }

    /// The requests of the configuration; `None` if it was not read completely.
    pub(super) fn request_text(&self) -> Option<String> {
        (self.unread.is_none() && self.is_configured)
            .then(|| request_text(&self.settings.feature_gates))
    }

    pub(super) fn there(&self) -> Vec<GateRequest> {
        let text = self.current.as_deref().unwrap_or_default();
        read_gates(&self.own, text, &self.settings.feature_gates)
    }

    pub(super) fn settled(&self, rke2: Rke2State) -> Settled {
        // A trial is not disturbed: its gates stay, or the drop-in that it saved is restored.
        let (rke2, current) = match &self.trial {
            // Changes by others after it is back stay.
            Some(trial) if trial.going_back() && !trial.is_back() => {
                let saved = trial.saved.clone().unwrap_or_default();
                (Rke2State::Running, saved.content)
            }
            Some(trial) if trial.in_force() || trial.going_back() => {
                (Rke2State::Running, self.current.clone())
            }
            _ => (rke2, self.current.clone()),
        };
        self.settled_from(current.as_deref(), rke2)
    }

    /// The part of an earlier drop-in that the starting version accepts.
    pub(super) fn fit(&self, earlier: Option<&str>) -> Option<String> {
        self.settled_from(earlier, Rke2State::Running).content
    }

    fn settled_from(&self, current: Option<&str>, rke2: Rke2State) -> Settled {
        windrow_gates::settle(&self.settle_inputs(current, rke2), &self.history)
    }

    fn settle_inputs<'a>(&'a self, current: Option<&'a str>, rke2: Rke2State) -> SettleInputs<'a> {
        SettleInputs {
            requests: &self.settings.feature_gates,
            target: &self.resolved.target,
            files: &self.files,
            own: &self.own,
            current,
            rke2,
            unread: self
                .unread
                .as_deref()
                .or(self.unread_record.as_deref())
                .or((!self.is_configured).then_some("no configuration file was found")),
        }
    }

    /// The first error that the check finds in a drop-in but not in the present one.
    pub(super) fn made_fatal(&self, content: Option<&str>) -> Option<Finding> {
        let current = self.current.as_deref();
        let inputs = self.settle_inputs(current, Rke2State::Running);
        made_fatal(&inputs, current, content)
    }

    /// Whether the drop-in, the records and RKE2's binary are unchanged since they were read.
    pub(super) fn are_current(&self) -> bool {
        let layout = &self.layout;
        self.stamp == (GatesStamp::read(layout), rke2_binary::stamp(layout))
    }
}

/// The drop-in's text, or why it could not be read. A file that is not text counts as missing: RKE2 cannot read it
/// either.
fn or_unread(own: &str, read: io::Result<Option<String>>) -> (Option<String>, Option<String>) {
    match read {
        Ok(text) => (text, None),
        Err(error) if error.kind() == ErrorKind::InvalidData => (None, None),
        Err(error) => (None, Some(format!("{own}: {error}"))),
    }
}
