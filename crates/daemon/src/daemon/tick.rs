//! One tick: mark, scan, decide, act, report.

mod begin;
mod configure;
mod learn;
mod ledger;
mod scan;
mod tell;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::{mpsc, watch};
use tokio::time::Instant;
use windrow_decide::transitions::Transitions;
use windrow_decide::{
    Action, ClusterEvent, Decision, Event, Interests, MarkerTrouble, StagingState, WebhookStatus,
};
use windrow_model::findings::Finding;
use windrow_model::manifest::{BaseName, ManifestPath};
use windrow_model::reasons::Code;
use windrow_plan::Plan;

use super::appearances::AppearanceWatch;
use super::clock::SteadyClock;
use super::configuration_events::webhook_findings;
use super::data_dir::DataDir;
use super::event_journal::EventJournal;
use super::flight::FlightRecorder;
use super::full_disks::{ByWriter as FullByWriter, FullDisks};
use super::gates::GatesView;
use super::manifest_scanner::ManifestScanner;
use super::marking_thread::MarkingContext;
use super::reloading::Reloading;
use super::requests::SpooledRequests;
use crate::act::Executor;
use crate::configuration::Configuration;
use crate::fs;
use crate::layout::Layout;
use crate::observe::files::FileEvent;
use crate::orders::spool::spools;
use crate::report::journal;
use crate::report::metrics::DaemonCounters;
use crate::report::notify::ServiceManager;
use crate::report::publish::{Publisher, StatusWatch};
use crate::report::server::ServerState;

/// How long a tick collects further events before it decides.
pub(super) const BURST: Duration = Duration::from_millis(20);

/// How often to check which cluster the node belongs to while kube-apiserver does not answer: RKE2 begins with another
/// datastore then.
const CLUSTER_LOOK: Duration = Duration::from_secs(5);
/// How often a disk that is as good as full is checked again.
const LOOK_AT_DISKS: Duration = Duration::from_secs(5);

/// How often one tick decides again because its actions changed something.
const ROUNDS: usize = 3;

/// The cluster, as the daemon sees it: events come in, interests go out.
pub struct Link {
    pub(super) events: mpsc::Receiver<ClusterEvent>,
    pub(super) interests: watch::Sender<Interests>,
}

struct WithheldEvent {
    event: Event,
    since: Instant,
}

pub struct Daemon {
    /// The configuration in force, for every part. Only the daemon loads it.
    configuration: watch::Sender<Arc<Configuration>>,
    pub(super) reloading: Reloading,
    root: Layout,
    layout: Layout,
    clock: SteadyClock,
    state: StagingState,
    scanner: ManifestScanner,
    data_dir: DataDir,
    executor: Executor,
    requests: SpooledRequests,
    publisher: Publisher,
    transitions: Transitions,
    manager: ServiceManager,
    pub(super) files: mpsc::Receiver<FileEvent>,
    marking: MarkingContext,
    pub(super) link: Link,
    /// The name of the node's Node, once the kubelet has a credential.
    node_name: Option<String>,
    told: BTreeSet<String>,
    scanned_once: bool,
    /// Since when the ledger of the earlier process cannot be read. It is not overwritten then.
    ledger_unread: Option<Instant>,
    deadline: Option<Instant>,
    retry: Option<Instant>,
    watchdog: Option<(Duration, Instant)>,
    startup: Vec<Event>,
    pub(super) gates: watch::Receiver<Option<GatesView>>,
    pub(super) incidents: watch::Receiver<Vec<Finding>>,
    pub(super) webhooks: watch::Receiver<Vec<WebhookStatus>>,
    pub(super) server: watch::Receiver<ServerState>,
    pub(super) counters: DaemonCounters,
    /// The plan in force, for readers that need the manifests without reading them again.
    plans: watch::Sender<Arc<Plan>>,
    flight: FlightRecorder,
    pub(super) appearances: AppearanceWatch,
    /// Harvester's version, once its file says it.
    harvester: Option<String>,
    /// Decisions that could not be carried out yet, by file: reported once they are.
    /// Base names of files that changed since the last decision: their markers stay.
    held_back: BTreeSet<BaseName>,
    withheld: BTreeMap<ManifestPath, WithheldEvent>,
    events: EventJournal,
    /// The places where Windrow's own writes find no space.
    full_disks: FullDisks,
    /// The directories for which that was reported.
    reported_full: BTreeSet<String>,
    /// Wakes when that changes.
    pub(super) full: watch::Receiver<FullByWriter>,
}

impl Daemon {
    pub fn status(&self) -> StatusWatch {
        self.publisher.subscribe()
    }

    pub fn plans(&self) -> watch::Receiver<Arc<Plan>> {
        self.plans.subscribe()
    }

    pub fn counters(&self) -> DaemonCounters {
        self.counters.clone()
    }

    pub fn layout(&self) -> &Layout {
        &self.layout
    }

    /// The first tick: when it returns, everything that must be held is held.
    pub fn hold_first(&mut self) {
        if self.scanned_once {
            return;
        }
        for event in std::mem::take(&mut self.startup) {
            journal::write_event(&event);
        }
        self.make_spools();
        self.tick();
        // Facts from markers after a lost ledger are not on the disk yet.
        let ledger = self.state.ledger();
        if !ledger.files.is_empty() && !fs::exists(self.layout.ledger()) {
            self.carry_out(vec![Action::SaveLedger(ledger.clone())]);
        }
    }

    /// Everything that must be held is held, and the service manager knows.
    pub(super) fn start(&mut self) {
        self.hold_first();
        self.manager.ready();
        self.sweep();
        let class = self.appearances.hardware.clone();
        super::hardware::read_hardware(self.layout.clone(), self.clock.now(), class);
        // STATUS= matters only from now on; before, systemd shows that the unit starts.
        if let Some(status) = self.publisher.current() {
            self.manager.status(&status);
        }
    }

    /// Removes temporary files that an earlier boot did not finish.
    fn sweep(&self) {
        let gates = self.layout.gates_dir();
        for directory in [
            self.layout.manifests(),
            self.layout.rke2_config_dir(),
            self.layout.state_dir(),
            gates.join("last-known-good"),
            gates,
        ]
        .into_iter()
        .chain(spools(&self.layout))
        {
            crate::files::sweep(&directory, self.clock.now());
        }
    }

    /// A signal asks it to stop. Holds stay.
    pub(super) fn stopped(&mut self) {
        self.manager.stopping();
        for sum in self.events.finish() {
            journal::write_event(&sum);
        }
        journal::write_event(&Event::new(Code::Stopping, Code::Stopping.say(&[])));
        self.flight.stop();
    }

    pub(super) fn next_wake(&self) -> Instant {
        [
            self.deadline,
            self.retry,
            self.watchdog.map(|(_, next)| next),
            self.events.due(),
        ]
        .into_iter()
        .flatten()
        .fold(self.scanner.next(), Instant::min)
    }

    /// An event in the directory. A new file already has its marker, or gets it before the daemon reads the file: an
    /// earlier marker may have been lifted meanwhile.
    pub(super) fn note(&mut self, event: FileEvent) {
        if let Some(path) = self.scanner.note(event)
            && let Some(hold) = self.state.provisional_hold(&path, self.clock.now())
            && self.executor.hold_at_once(&hold)
        {
            self.state.record_done(&hold);
        }
    }

    pub(super) fn observe(&mut self, event: ClusterEvent) {
        let reachable = matches!(event, ClusterEvent::ApiReachable);
        let unreachable = matches!(event, ClusterEvent::ApiUnreachable { .. });
        if reachable {
            // RKE2 has started again, perhaps with another datastore.
            self.look_at_cluster();
        }
        let api = &self.state.observation().api;
        let was_silent = api.first_reachable.is_none() || api.unreachable.is_some();
        // Until it has answered once, silence is normal.
        if unreachable
            && api.first_reachable.is_some()
            && api.unreachable.is_none()
            && let ClusterEvent::ApiUnreachable { why } = &event
        {
            self.tell_event(
                Code::ApiUnreachable,
                Code::ApiUnreachable.say(&[("why", why)]),
            );
        }
        if let ClusterEvent::CredentialRefused { why } = &event
            && api.unreachable.as_ref() != Some(why)
        {
            let line = Code::CredentialRefused.say(&[("why", why)]);
            self.tell_event(Code::CredentialRefused, line);
        }
        if let ClusterEvent::Refused { what, why } = &event {
            // A refused watch is retried again and again: it is reported once.
            let line = Code::Forbidden.say(&[("what", what), ("why", why)]);
            self.tell_once(&format!("refused: {what}"), Code::Forbidden, line);
        }
        self.state.take_event(event, self.clock.now());
        let api = &self.state.observation().api;
        // An answer of a former cluster is not taken.
        let answers = api.first_reachable.is_some() && api.unreachable.is_none();
        if reachable && was_silent && answers {
            self.tell_event(Code::ApiReachable, Code::ApiReachable.say(&[]));
        }
    }

    pub(super) fn tick(&mut self) {
        if let Some(jump) = self.clock.jumped() {
            self.state.shift_clock(jump);
            self.transitions.clock_jumped(jump);
            self.appearances.clock_jumped(jump);
        }
        self.retry = self.retry.filter(|retry| *retry > Instant::now());
        self.read_ledger_again();
        if self.scanner.due() {
            self.scan();
        } else {
            self.look_at_cluster();
        }
        // The first tick is only for the markers.
        let ours = &self.state.settings().data_dir;
        if self.scanned_once
            && let Some(findings) = self.data_dir.findings(&self.layout, ours)
        {
            for finding in &findings {
                let at = finding.at.first().map(|at| format!(" ({at})"));
                let message = format!("{}{}", finding.message, at.unwrap_or_default());
                self.tell_once(finding.code.as_str(), finding.code, message);
            }
            for code in [Code::DataDirDiffers, Code::ManifestsReadOnly] {
                if findings.iter().all(|finding| finding.code != code) {
                    self.untell(code.as_str());
                }
            }
            self.state.set_findings("data-dir", &findings);
            self.look_at_rke2();
        }
        let surprised = self.decide();
        if surprised {
            // A marker was changed by another program between the scan and now: scan once more. Further retries come
            // slowly.
            self.scanner.look_again();
            self.scan();
            if self.decide() {
                self.retry_after(Duration::from_secs(1));
            }
        }
        self.feed_watchdog();
    }

    fn decide(&mut self) -> bool {
        let now = self.clock.now();
        let gates = self.gates.borrow_and_update().clone().unwrap_or_default();
        self.state.set_findings("gates", &gates.findings);
        self.state
            .set_findings("incidents", &self.incidents.borrow_and_update());
        let webhooks = webhook_findings(&self.webhooks.borrow_and_update());
        self.state.set_findings("webhooks", &webhooks);
        if self.full_disks.review() {
            self.retry_after(LOOK_AT_DISKS);
        }
        self.full.mark_unchanged();
        self.state
            .set_findings("full-disks", &self.full_disks.findings());
        self.state.set_being_written(self.scanner.being_written());
        let (mut decision, mut surprised) = self.carry_out_decision(now);
        // The status depends on what succeeded: a file without a marker is not held.
        for _ in 0..ROUNDS {
            let is_news = self
                .state
                .set_marker_troubles(self.executor.marker_troubles());
            self.full_disks
                .set("files", self.executor.full_directories());
            let is_full_news = self.full.has_changed().unwrap_or(false);
            if !is_news && !is_full_news {
                break;
            }
            self.full.mark_unchanged();
            self.state
                .set_findings("full-disks", &self.full_disks.findings());
            let (again, surprised_again) = self.carry_out_decision(now);
            decision = again;
            surprised |= surprised_again;
        }
        self.tell_withheld();
        for sum in self.events.sums(Instant::now()) {
            journal::write_event(&sum);
        }
        self.tell_full_disks();
        if !self.executor.lacks_ledger() && self.ledger_unread.is_none() {
            self.requests.finish();
        }
        let interests = self.state.interests();
        self.link.interests.send_if_modified(|known| {
            let changed = *known != interests;
            if changed {
                *known = interests;
            }
            changed
        });
        let is_first = !std::mem::replace(&mut self.scanned_once, true);
        if is_first && self.state.observation().directory_unread.is_none() {
            let line = Code::Scanned.say(&[
                ("files", &self.state.plan().files.len().to_string()),
                ("held", &decision.status.staging.held.len().to_string()),
            ]);
            self.tell_event(Code::Scanned, line);
        }
        self.look_at_appearances(&decision.status, now);
        self.publish(decision.status, now);
        self.tell_transitions(now);
        let wake = decision.next_wake.into_iter().chain(self.transitions.due());
        let wake = wake.chain(decision.late_from);
        let wake = wake.chain(self.appearances.next_wake());
        let deadline = wake.min().map(|at| self.clock.instant(at));
        let look = self
            .cluster_may_change()
            .then(|| Instant::now() + CLUSTER_LOOK);
        self.deadline = deadline.into_iter().chain(look).min();
        surprised
    }

    /// Decides once, acts, and reports the changes that took effect.
    fn carry_out_decision(&mut self, now: jiff::Timestamp) -> (Decision, bool) {
        self.flight.before(self.state.ledger());
        let decision = self.state.decide(now);
        self.counters.decided();
        self.flight
            .decided(now, &decision, self.state.observation());
        let surprised = self.carry_out(decision.actions.clone());
        let troubles = self.executor.marker_troubles();
        for event in &decision.events {
            let file = event.file.as_deref().map(ManifestPath::from);
            // It is reported as soon as it is true.
            let name = file.as_ref().map(ManifestPath::name);
            let trouble = name.as_ref().and_then(|name| troubles.get(name));
            let waits = match (event.code, trouble) {
                (Code::Held, Some(MarkerTrouble::NotMade(_)))
                | (Code::Released | Code::Yielded, Some(MarkerTrouble::NotRemoved(_))) => true,
                (Code::Released | Code::Yielded, _) => {
                    name.is_some_and(|name| self.stays_for_writing(&name))
                }
                _ => false,
            };
            match (&file, waits) {
                (Some(file), true) => {
                    let withheld = WithheldEvent {
                        event: event.clone(),
                        since: Instant::now(),
                    };
                    self.withheld.insert(file.clone(), withheld);
                }
                (file, _) => {
                    // An earlier report about the file no longer holds.
                    if let (true, Some(file)) = (is_about_its_stage(event.code), file) {
                        self.withheld.remove(file);
                    }
                    self.tell_of_file(event.clone());
                }
            }
        }
        (decision, surprised)
    }

    /// Whether a marker of ours stays because files of this base name are being written.
    fn stays_for_writing(&self, name: &BaseName) -> bool {
        let is_written = self.state.observation().being_written.contains(name);
        (is_written || self.held_back.contains(name)) && self.state.hides(name)
    }

    fn carry_out(&mut self, mut actions: Vec<Action>) -> bool {
        if self.ledger_unread.is_some() {
            actions.retain(|action| !matches!(action, Action::SaveLedger(_)));
        }
        let carried = self.executor.carry_out(actions, Instant::now().into_std());
        for action in &carried.done {
            self.state.record_done(action);
        }
        self.flight.acted(&carried.done, &carried.events);
        self.held_back = carried.held_back;
        for event in carried.events {
            self.tell_of_file(event);
        }
        if let Some(retry) = carried.retry {
            self.retry_at(Instant::from_std(retry));
        }
        carried.surprised
    }

    fn retry_after(&mut self, pause: Duration) {
        self.retry_at(Instant::now() + pause);
    }

    fn retry_at(&mut self, at: Instant) {
        self.retry = Some(self.retry.map_or(at, |retry| retry.min(at)));
    }

    /// Only a completed tick gets here.
    fn feed_watchdog(&mut self) {
        if let Some((interval, next)) = &mut self.watchdog
            && *next <= Instant::now()
        {
            *next = Instant::now() + *interval;
            self.manager.alive();
        }
    }

    fn make_spools(&mut self) {
        for spool in spools(&self.layout) {
            if let Err(error) = crate::files::make_private(&spool) {
                let what = format!("make {}", spool.display());
                let line =
                    Code::ActionFailed.say(&[("what", &what), ("error", &error.to_string())]);
                self.tell_event(Code::ActionFailed, line);
            }
        }
    }
}

fn is_about_its_stage(code: Code) -> bool {
    matches!(
        code,
        Code::Held
            | Code::Released
            | Code::Yielded
            | Code::Applied
            | Code::Escaped
            | Code::Vanished
    )
}
