//! The daemon's part in feature gates. Before READY=1 the drop-in is adapted to the version that will start. Afterwards
//! the status reports which gates are requested, written and in effect.
//!
//! ```text
//!   inputs (files on the disk) ──> settle ──> the drop-in, GatesView ──────────────────────────> status
//!                                    ^                                                      ^
//!   hook (before every start of RKE2)┘     GateController ──> TrialDriver (one change) ─────┤
//!                                                └──────────> StartupWatch (between trials) ┘
//! ```
//!
//! [`settle()`] is also the larger part of [`hook`], which runs before every start of RKE2 (`windrow gates settle`):
//! RKE2 never reads a gate of ours that the starting version would refuse, no matter who starts it. It only reads files
//! and waits for nothing.

pub mod hook;
mod inputs;
mod own_refusals;
mod settle;
mod startup_watch;
mod trial;
mod verification;

use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use jiff::Timestamp;
use tokio::sync::watch;
use windrow_decide::settings::OnChange;
use windrow_gates::{Component, Rke2State, Trial};

use self::inputs::DropInInputs;
pub use self::settle::{GatesView, SettleOutcome, concerns, settle};
use self::startup_watch::StartupWatch;
use self::trial::TrialDriver;
use crate::act::StateFile;
use crate::apiserver::ApiServer;
use crate::configuration::{Configuration, Published};
use crate::fs;
use crate::observe::effect;
use crate::observe::requests::{SpooledRequest, UnreadRequest, read_spool};
use crate::observe::rke2::admin_kubeconfig;
use crate::observe::systemd::{RKE2_UNITS, Systemd};
use crate::observe::upgrade::upgrade;
use crate::orders::spool::spools;
use crate::report::journal;
use crate::report::notify::ServiceManager;

/// How often to look for an upgrade: its preparations take longer than this.
const UPGRADES: Duration = Duration::from_secs(5 * 60);

/// Manages the feature gates while the daemon runs.
pub struct GateController {
    /// Published also after a request about gates, so that the gates in force are as fresh as the answer.
    configured: Published,
    api: ApiServer,
    view: watch::Sender<Option<GatesView>>,
    /// The part of the view that follows from files only.
    base: Option<GatesView>,
    trial: TrialDriver,
    startup: StartupWatch,
    upgrades: Option<Instant>,
    /// Some requests could not be read or answered yet: they are retried.
    unanswered: bool,
}

/// How long the look at gates may take: for the version, all of RKE2's binary is read (13.7 s at 12 MB/s).
const SLOW_DISK: Duration = Duration::from_secs(20);

impl GateController {
    /// Does the work that is due before RKE2 starts. Without requested gates it does nothing.
    pub async fn begin(
        configured: Published,
        api: ApiServer,
        view: watch::Sender<Option<GatesView>>,
        now: fn() -> Timestamp,
    ) -> Self {
        let mut controller = Self {
            trial: TrialDriver::new(configured.clone(), api.clone(), now),
            startup: StartupWatch::new(configured.clone(), api.clone(), now),
            configured,
            api,
            view,
            base: None,
            upgrades: None,
            unanswered: false,
        };
        if concerns(&controller.configuration()) {
            ServiceManager::default().starts_within(SLOW_DISK);
            controller.settle().await;
        }
        controller
    }

    /// Checks again after each nudge, runs a trial, and watches RKE2's starts, until the daemon ends.
    pub async fn run(mut self) {
        if rke2_runs().await == Some(true) {
            // For the hook, its next start is a restart, and not the boot's first start, which writes the requested
            // gates.
            hook::mark_started(self.configuration().root());
        }
        // Gates that others set are worth a finding too, but nothing waits for it.
        if self.base.is_none() {
            self.settle().await;
        }
        self.requests().await;
        loop {
            let under_way = self.is_trying();
            let pause = match self.trial.step().await {
                Some(pause) if self.is_trying() || pause.is_zero() => pause,
                // A lease that cannot be returned may be because kube-apiserver does not start.
                Some(pause) => pause.min(self.watch_over().await),
                None => self.watch_over().await,
            };
            match under_way && !self.is_trying() {
                // The requests that waited for this have been answered.
                true => self.settle().await,
                false => self.publish(),
            }
            tokio::select! {
                published = self.configured.changed() => match published {
                    Ok(()) => {
                        self.requests().await;
                        self.settle().await;
                    }
                    Err(_) => return,
                },
                () = tokio::time::sleep(pause) => {
                    if self.unanswered {
                        self.requests().await;
                    }
                }
            }
        }
    }

    fn configuration(&self) -> Arc<Configuration> {
        Arc::clone(&self.configured.borrow())
    }

    fn is_trying(&self) -> bool {
        self.trial.trial().is_some_and(Trial::under_way)
    }

    /// Between trials: checks whether a gate keeps RKE2 from coming up, and whether an upgrade is under way.
    async fn watch_over(&mut self) -> Duration {
        let pause = self.startup.check().await;
        let may_begin = self.trial.may_begin_postponed().await;
        if may_begin {
            // The version that it is judged for has changed too.
            self.upgrades = None;
        }
        let upgrade = self.startup.is_ready() && self.look_for_upgrade().await;
        if self.startup.changed() || upgrade || may_begin {
            self.settle().await;
        }
        pause
    }

    /// Checks from time to time whether an upgrade is under way, if that matters. True if that has changed.
    async fn look_for_upgrade(&mut self) -> bool {
        let looked = self.upgrades.is_some_and(|at| at.elapsed() < UPGRADES);
        let configuration = self.configuration();
        if looked || !concerns(&configuration) {
            return false;
        }
        self.upgrades = Some(Instant::now());
        let layout = configuration.layout();
        let kubeconfig = admin_kubeconfig(layout);
        let component = Component::KubeApiserver;
        let Ok(client) = effect::client(&self.api, &kubeconfig, component).await else {
            return false;
        };
        // Without an answer, the last known one counts.
        let Ok(upgrade) = upgrade(&client).await else {
            return false;
        };
        let file = StateFile::Upgrade;
        if file.recall(layout) == Ok(upgrade.clone()) {
            return false;
        }
        let kept = match &upgrade {
            Some(upgrade) => file.keep(layout, upgrade),
            None => file.forget(layout),
        };
        kept.is_ok()
    }

    /// Takes up operators' requests. There is no second event for a request that cannot be read now.
    async fn requests(&mut self) {
        self.unanswered = false;
        let mut found = Vec::new();
        for spool in spools(self.configuration().root()) {
            match read_spool(&spool) {
                Ok(spooled) => found.extend(spooled),
                Err(_) => self.unanswered = true,
            }
        }
        for (path, request) in found {
            let request = match request {
                Ok(request) => request,
                // The daemon reports it.
                Err(why) => {
                    self.unanswered |= matches!(why, UnreadRequest::NotNow(_));
                    continue;
                }
            };
            if request.action.is_about_gates() {
                let node = self.node().await;
                self.answer(&path, &request, node).await;
            }
        }
        self.publish();
    }

    /// Answers a request. It stays open while the node's state is unknown.
    async fn answer(&mut self, path: &Path, request: &SpooledRequest, node: Option<DropInInputs>) {
        let Some(node) = node else {
            self.unanswered = true;
            return;
        };
        let name = path.file_stem().and_then(|name| name.to_str());
        self.trial
            .take_request(name.unwrap_or_default(), request, &node)
            .await;
        // Its consequences are on the disk.
        if let Err(error) = fs::remove_file(path) {
            tracing::debug!("{}: {error}", path.display());
        }
    }

    /// This reads RKE2's binary, a hundred megabytes: the loop does not wait for it.
    async fn node(&self) -> Option<DropInInputs> {
        let configuration = self.configuration();
        tokio::task::spawn_blocking(move || DropInInputs::read(&configuration))
            .await
            .ok()
    }

    async fn settle(&mut self) {
        let rke2 = match rke2_runs().await {
            Some(false) => Rke2State::Stopped,
            Some(true) | None => Rke2State::Running,
        };
        let configuration = self.configuration();
        let settled = tokio::task::spawn_blocking(move || settle(&configuration, rke2)).await;
        let Ok(outcome) = settled else { return };
        for event in &outcome.events {
            journal::write_event(event);
        }
        let pending = outcome
            .view
            .as_ref()
            .is_some_and(|view| view.section.pending);
        self.base = outcome.view;
        if pending
            && let Some(node) = self.node().await
            && node.settings.gates.on_change == OnChange::Try
            && !self.is_trying()
        {
            self.trial.changed(&node).await;
        }
        self.publish();
    }

    fn publish(&self) {
        let mut view = self.base.clone();
        let (trial, answered) = self.trial.status();
        let ended = self.trial.finding();
        let fatal = self.startup.findings();
        if trial.is_some() || !answered.is_empty() || !fatal.is_empty() {
            let view = view.get_or_insert_default();
            view.section.trial = trial;
            view.section.answered = answered;
            view.findings.extend(fatal.iter().cloned().chain(ended));
        }
        self.view.send_if_modified(|known| {
            let changed = *known != view;
            *known = view;
            changed
        });
    }
}

async fn rke2_runs() -> Option<bool> {
    let systemd = Systemd::connect().await.ok()?;
    let mut runs = Some(false);
    for unit in RKE2_UNITS {
        match systemd.unit(unit).await {
            Ok(unit) if unit.is_down() => {}
            Ok(_) => return Some(true),
            Err(_) => runs = None,
        }
    }
    runs
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::layout::Layout;

    #[tokio::test]
    async fn a_request_is_kept_until_it_is_known_how_the_node_is() {
        let place = tempfile::tempdir().unwrap();
        let root = Layout::new(place.path());
        let (view, _views) = watch::channel(None);
        let (_publish, configured) = watch::channel(Arc::new(Configuration::load(&root)));
        let mut controller =
            GateController::begin(configured, ApiServer::new(), view, Timestamp::now).await;
        let [spool, _] = spools(&root);
        fs::create_dir_all(&spool).unwrap();
        let path = spool.join("1.json");
        let text = r#"{"action":"gates-rollback","by":"ann","at":"1970-01-01T00:00:00Z"}"#;
        fs::write(&path, text).unwrap();
        let request = read_spool(&spool).unwrap().remove(0).1.unwrap();
        controller.answer(&path, &request, None).await;
        assert!(path.exists() && controller.unanswered);
        // A file in the place of the spool: it cannot be listed.
        let aside = spool.with_extension("aside");
        fs::rename(&spool, &aside).unwrap();
        fs::write(&spool, "").unwrap();
        controller.requests().await;
        assert!(controller.unanswered);
        fs::remove_file(&spool).unwrap();
        fs::rename(&aside, &spool).unwrap();
        controller.requests().await;
        assert!(!path.exists() && !controller.unanswered);
    }
}
