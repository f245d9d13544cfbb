//! The daemon's part in feature gates: before READY=1 the drop-in is made fit for the version that
//! will start; after it the status tells what is asked for, written and in effect.
//!
//! [`settle`] is also the larger part of what runs before every start of RKE2 (`windrow gates settle`,
//! [`super::hook`]), so that it never meets a gate of ours that the version which starts would refuse,
//! whoever started it. It reads files only and waits for nothing.

use std::fs;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use jiff::Timestamp;
use tokio::sync::watch;
use windrow_decide::Event;
use windrow_decide::settings::{OnChange, Settings};
use windrow_gates::{
    Component, GateSet, GatesStatus, KnownGood, LeftOut, Moment, Past, Refused, Rejected, Resolved,
    Settled, Trial, assess, check, list, resolve,
};
use windrow_model::reasons::{Code, Severity};
use windrow_plan::Finding;
use windrow_plan::rke2::config::{ConfigFile, Place, merge};

use super::guard::Guard;
use super::spools;
use super::trial::Conductor;
use crate::act::{Memory, put_drop_in, read_drop_in};
use crate::apiserver::ApiServer;
use crate::configuration::{Configuration, Published};
use crate::layout::Layout;
use crate::observe::effect;
use crate::observe::requests::{Request, read_spool};
use crate::observe::rke2::{candidates_on_disk, config_files};
use crate::observe::systemd::{RKE2_UNITS, Systemd};
use crate::observe::upgrade::upgrade;
use crate::report::journal;

/// How often it is looked for an upgrade: its preparations take longer.
const UPGRADES: Duration = Duration::from_secs(5 * 60);

/// What the status document says of feature gates.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct View {
    /// Its `gates` section.
    pub section: GatesStatus,
    /// What is wrong or worth knowing.
    pub findings: Vec<Finding>,
}

/// What became of the drop-in, and what is to be told of it.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Outcome {
    /// For the status; `None` when gates are nobody's concern on this node.
    pub view: Option<View>,
    /// For the journal.
    pub events: Vec<Event>,
}

/// Everything that the drop-in depends on, as it lies on the disk.
pub(super) struct Node {
    pub(super) layout: Layout,
    pub(super) settings: Settings,
    pub(super) own: String,
    /// RKE2's configuration without our drop-in.
    pub(super) files: Vec<ConfigFile>,
    pub(super) current: Option<String>,
    pub(super) resolved: Resolved,
    pub(super) past: Past,
    /// The trial that is under way.
    trial: Option<Trial>,
}

impl Node {
    /// With an upgrade that is on its way: what will start may be another version.
    pub(super) fn read(configuration: &Configuration) -> Self {
        Self::read_for(configuration, true)
    }

    fn read_for(configuration: &Configuration, upgrades: bool) -> Self {
        let settings = configuration.settings().clone();
        let layout = configuration.layout().clone();
        let own = layout.gates_drop_in().display().to_string();
        let mut files = config_files(&layout).files;
        files.retain(|file| file.path != own);
        let mut candidates = candidates_on_disk(&layout, &settings.data_dir);
        if upgrades {
            candidates.upgrade = Memory::Upgrade.recall(&layout).unwrap_or_default();
        }
        let resolved = resolve(&candidates);
        // What cannot be read shows nothing; the next trial writes it anew.
        let known = Memory::KnownGood.recall::<KnownGood>(&layout);
        let refused = Memory::Refused.recall::<Refused>(&layout);
        let trial = Memory::Trial.recall::<Trial>(&layout).unwrap_or_default();
        Self {
            past: Past {
                proven: known.ok().flatten().map(|known| known.proven(&own)),
                rejected: refused.ok().flatten().map(|refused| Rejected {
                    gates: refused.gates(&own),
                    version: refused.version,
                    why: refused.why,
                }),
                tried: trial.as_ref().and_then(|trial| trial.trusted(&own)),
            },
            // What cannot be read is overwritten.
            current: read_drop_in(&layout).unwrap_or_default(),
            trial: trial.filter(Trial::under_way),
            files,
            resolved,
            settings,
            own,
            layout,
        }
    }

    pub(super) fn settled(&self, moment: Moment) -> Settled {
        // A trial is not disturbed: what it put there stays, or what it saved goes back.
        let (moment, current) = match &self.trial {
            Some(trial) if trial.going_back() => {
                let saved = trial.saved.clone().unwrap_or_default();
                (Moment::Running, saved.content)
            }
            Some(trial) if trial.in_force() => (Moment::Running, self.current.clone()),
            _ => (moment, self.current.clone()),
        };
        windrow_gates::settle(
            &self.settings.feature_gates,
            &self.resolved.target,
            &merge(&self.files),
            current.as_deref().map(|text| (self.own.as_str(), text)),
            moment,
            &self.past,
        )
    }

    /// What the status says once the drop-in is `settled`.
    fn view(&self, settled: &Settled) -> View {
        let mut section = GatesStatus::of(
            &self.resolved,
            &self.settings.feature_gates,
            &settled.asked.left_out,
        );
        section.pending = settled.pending;
        let mut files = self.files.clone();
        if let Some(content) = &settled.content {
            files.push(ConfigFile::new(Place::DropIn, &self.own, content.clone()));
        }
        let assessment = assess(&merge(&files), Some(&self.own), &self.resolved.target);
        for view in &assessment.components {
            section
                .effective
                .extend(view.gates.iter().map(|gate| GateSet {
                    component: view.component.to_string(),
                    gate: gate.gate.clone(),
                    value: gate.value,
                    at: gate.at.clone(),
                }));
        }
        let mut findings: Vec<Finding> = assessment.findings;
        // What is wrong with ours is said of the place where a person asked for it.
        findings.retain(|finding| {
            finding.at.is_empty() || finding.at.iter().any(|at| at.file != self.own)
        });
        let mut add = |finding: Finding| {
            if !findings.contains(&finding) {
                findings.push(finding);
            }
        };
        for finding in check(&settled.kept, &self.resolved.target) {
            // A person who forced a gate has heard it, and a trial has shown otherwise.
            if finding.severity != Severity::Error {
                add(finding);
            }
        }
        for left in settled.asked.left_out.iter().filter(|left| !left.not_meant) {
            add(left_out(Code::GateLeftOut, left));
        }
        if settled.pending {
            add(Finding {
                incident: None,
                code: Code::GatePending,
                severity: Code::GatePending.severity(),
                message: pending(settled),
                at: self
                    .settings
                    .feature_gates
                    .first()
                    .map(|request| request.at.clone())
                    .into_iter()
                    .collect(),
            });
        }
        View { section, findings }
    }
}

/// Watches over the feature gates while the daemon runs.
pub struct Keeper {
    /// Published also when somebody asks for something that concerns gates: what is in force is then as fresh as the request.
    configured: Published,
    api: ApiServer,
    view: watch::Sender<Option<View>>,
    /// What follows from files alone.
    base: Option<View>,
    conductor: Conductor,
    guard: Guard,
    /// When it was last looked for an upgrade.
    upgrades: Option<Instant>,
    /// There are requests that could not be answered: they are taken up again.
    unanswered: bool,
}

impl Keeper {
    /// Does what has to be done before RKE2 starts. Where nobody asks for a gate that is nothing.
    pub async fn begin(
        configured: Published,
        api: ApiServer,
        view: watch::Sender<Option<View>>,
        now: fn() -> Timestamp,
    ) -> Self {
        let mut keeper = Self {
            conductor: Conductor::new(configured.clone(), api.clone(), now),
            guard: Guard::new(configured.clone(), api.clone(), now),
            configured,
            api,
            view,
            base: None,
            upgrades: None,
            unanswered: false,
        };
        if concerns(&keeper.configuration()) {
            keeper.look().await;
        }
        keeper
    }

    /// Looks again whenever it is nudged, drives a trial, and watches over RKE2's starts, until the
    /// daemon ends.
    pub async fn run(mut self) {
        // What others set is worth a finding too, but nothing waits for it.
        if self.base.is_none() {
            self.look().await;
        }
        self.requests().await;
        loop {
            let under_way = self.is_trying();
            let pause = match self.conductor.step().await {
                Some(pause) => pause,
                None => self.watch_over().await,
            };
            match under_way && !self.is_trying() {
                // What waited for it waits no longer.
                true => self.look().await,
                false => self.publish(),
            }
            tokio::select! {
                published = self.configured.changed() => match published {
                    Ok(()) => {
                        self.requests().await;
                        self.look().await;
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
        self.conductor.trial().is_some_and(Trial::under_way)
    }

    /// Between trials: is RKE2 kept from coming up by a gate? Is an upgrade on its way?
    async fn watch_over(&mut self) -> Duration {
        let pause = self.guard.look().await;
        let upgrade = self.guard.is_ready() && self.look_for_upgrade().await;
        if self.guard.changed() || upgrade {
            self.look().await;
        }
        pause
    }

    /// Looks now and then whether an upgrade is on its way, where that matters. True when that has changed.
    async fn look_for_upgrade(&mut self) -> bool {
        let looked = self.upgrades.is_some_and(|at| at.elapsed() < UPGRADES);
        let configuration = self.configuration();
        if looked || !concerns(&configuration) {
            return false;
        }
        self.upgrades = Some(Instant::now());
        let layout = configuration.layout();
        let kubeconfig = layout.admin_kubeconfig();
        let component = Component::KubeApiserver;
        let Ok(client) = effect::client(&self.api, &kubeconfig, component).await else {
            return false;
        };
        // Without an answer, what was known before is the best that is known.
        let Ok(upgrade) = upgrade(&client).await else {
            return false;
        };
        let memory = Memory::Upgrade;
        if memory.recall(layout) == Ok(upgrade.clone()) {
            return false;
        }
        let kept = match &upgrade {
            Some(upgrade) => memory.keep(layout, upgrade),
            None => memory.forget(layout),
        };
        kept.is_ok()
    }

    /// Takes up what people ask for.
    async fn requests(&mut self) {
        self.unanswered = false;
        let found =
            spools(self.configuration().root()).map(|spool| read_spool(&spool).unwrap_or_default());
        for (path, request) in found.into_iter().flatten() {
            let Ok(request) = request else { continue };
            if request.action.is_about_gates() {
                let node = self.node().await;
                self.answer(&path, &request, node).await;
            }
        }
        self.publish();
    }

    /// Answers a request. Where it is not known how the node is, it stays until it is.
    async fn answer(&mut self, path: &Path, request: &Request, node: Option<Node>) {
        let Some(node) = node else {
            self.unanswered = true;
            return;
        };
        let name = path.file_stem().and_then(|name| name.to_str());
        self.conductor
            .asked(name.unwrap_or_default(), request, &node)
            .await;
        // Its consequences are on the disk.
        if let Err(error) = fs::remove_file(path) {
            tracing::debug!("{}: {error}", path.display());
        }
    }

    /// It reads RKE2's binary: a hundred megabytes, for which the loop does not wait.
    async fn node(&self) -> Option<Node> {
        let configuration = self.configuration();
        tokio::task::spawn_blocking(move || Node::read(&configuration))
            .await
            .ok()
    }

    async fn look(&mut self) {
        let moment = moment().await;
        let configuration = self.configuration();
        let settled = tokio::task::spawn_blocking(move || settle(&configuration, moment)).await;
        let Ok(outcome) = settled else { return };
        for event in &outcome.events {
            journal::tell(event);
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
            self.conductor.changed(&node).await;
        }
        self.publish();
    }

    fn publish(&self) {
        let mut view = self.base.clone();
        let (trial, answered) = self.conductor.status();
        let ended = self.conductor.finding();
        let fatal = self.guard.findings();
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

/// Does RKE2 run? As long as it is not known to be down it is taken to run.
async fn moment() -> Moment {
    let Ok(systemd) = Systemd::connect().await else {
        return Moment::Running;
    };
    for unit in RKE2_UNITS {
        match systemd.unit(unit).await {
            Ok(unit) if unit.is_down() => {}
            _ => return Moment::Running,
        }
    }
    Moment::Stopped
}

/// Makes the drop-in what it should be at this moment.
pub fn settle(configuration: &Configuration, moment: Moment) -> Outcome {
    settle_on(&Node::read(configuration), moment)
}

/// The same right before a start: what is installed is what starts, whatever is on its way.
pub(super) fn settle_for_start(configuration: &Configuration, moment: Moment) -> Outcome {
    settle_on(&Node::read_for(configuration, false), moment)
}

fn settle_on(node: &Node, moment: Moment) -> Outcome {
    let settled = node.settled(moment);
    let mut events = Vec::new();
    for left in &settled.dropped {
        events.push(event(
            Code::GateDropped,
            left_out(Code::GateDropped, left).message,
        ));
    }
    match put_drop_in(&node.layout, settled.content.as_deref()) {
        Ok(true) => events.push(event(
            Code::GatesWritten,
            Code::GatesWritten.say(&[("path", &node.own), ("gates", &list(&settled.kept))]),
        )),
        Ok(false) => {}
        Err(error) => {
            let what = format!("write {}", node.own);
            events.push(event(
                Code::ActionFailed,
                Code::ActionFailed.say(&[("what", &what), ("error", &error.to_string())]),
            ));
        }
    }
    let concerns = !node.settings.feature_gates.is_empty() || node.current.is_some();
    let view = node.view(&settled);
    Outcome {
        view: (concerns || !view.section.effective.is_empty() || !view.findings.is_empty())
            .then_some(view),
        events,
    }
}

/// Is there anything that has to be done before RKE2 starts? Where nobody asks for a gate, nothing is
/// read and nothing is delayed.
pub fn concerns(configuration: &Configuration) -> bool {
    let layout = configuration.layout();
    !configuration.settings().feature_gates.is_empty()
        || fs::symlink_metadata(layout.gates_drop_in()).is_ok()
        || fs::symlink_metadata(Memory::Trial.path(layout)).is_ok()
}

fn pending(settled: &Settled) -> String {
    Code::GatePending.say(&[("gates", &list(&settled.asked.written))])
}

fn left_out(code: Code, left: &LeftOut) -> Finding {
    let gate = &left.request;
    let message = match code {
        Code::GateDropped => code.say(&[
            ("gate", &gate.gate),
            ("value", &gate.value.to_string()),
            ("component", gate.component.as_str()),
            ("why", &left.why),
        ]),
        _ => code.say(&[
            ("gate", &format!("{}={}", gate.gate, gate.value)),
            ("why", &left.why),
        ]),
    };
    Finding {
        incident: None,
        code,
        severity: code.severity(),
        message,
        at: vec![gate.at.clone()],
    }
}

pub(super) fn event(code: Code, message: String) -> Event {
    Event {
        code,
        file: None,
        message,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_request_is_kept_until_it_is_known_how_the_node_is() {
        let place = tempfile::tempdir().unwrap();
        let root = Layout::new(place.path());
        let (view, _views) = watch::channel(None);
        let (_publish, configured) = watch::channel(Arc::new(Configuration::load(&root)));
        let mut keeper = Keeper::begin(configured, ApiServer::new(), view, Timestamp::now).await;
        let [spool, _] = spools(&root);
        fs::create_dir_all(&spool).unwrap();
        let path = spool.join("1.json");
        let text = r#"{"action":"gates-rollback","by":"ann","at":"1970-01-01T00:00:00Z"}"#;
        fs::write(&path, text).unwrap();
        let request = read_spool(&spool).unwrap().remove(0).1.unwrap();
        keeper.answer(&path, &request, None).await;
        assert!(path.exists() && keeper.unanswered);
        keeper.requests().await;
        assert!(!path.exists() && !keeper.unanswered);
    }
}
