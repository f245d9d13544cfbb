//! The values that [`super::decide`] reads, kept up to date: files, plan, observation and ledger.
//!
//! The daemon, the sandbox, the simulation and `check` have one each. They differ in their input, and in how they
//! carry out its actions. Pure: no I/O, no clock. Only the ledger of a decision is kept.

mod adopt;
mod by_hand;
mod cluster;
mod unread;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use jiff::{SignedDuration, Timestamp};
use windrow_model::findings::Finding;
use windrow_model::manifest::{self, BaseName, FileContent, ManifestPath, ObjectRef};
use windrow_plan::knowledge::NodeFacts;
use windrow_plan::readiness::{self, ObjectSeen, ObservedCluster};
use windrow_plan::rules::{Platform, RuleSet};
use windrow_plan::{self as plan, Examined, Plan, SourceMap};

pub use self::by_hand::OrderError;
use self::unread::UnreadPath;
use super::action::Action;
use super::decision::{Decision, decide};
use super::interests::interests;
use super::ledger::{Ledger, LedgerEntry};
use super::mark::Mark;
use super::observation::{
    ClusterEvent, Directory, FileChange, Forgotten, Interests, Marker, MarkerTrouble, Observation,
};
use super::reported_findings::ReportedFindings;
use crate::settings::Settings;

#[derive(Debug, Clone)]
pub struct StagingState {
    settings: Arc<Settings>,
    rules: Arc<RuleSet>,
    platform: Option<Platform>,
    /// Facts about the node in addition to its platform.
    node: NodeFacts,
    /// The files of the directory as they were last read, by path. A file is examined again when its bytes
    /// change.
    examined: Arc<BTreeMap<ManifestPath, Arc<Examined>>>,
    /// The examined files that were not read since the settings changed.
    outdated: BTreeSet<ManifestPath>,
    /// The paths that could not be read in the last scan.
    unread: BTreeMap<ManifestPath, UnreadPath>,
    /// Has this process read the directory since it was last missing?
    directory_is_known: bool,
    /// Since when the directory as a whole cannot be read.
    directory_unread_since: Option<Timestamp>,
    /// Base names of files that are being written, or for which there was no room.
    being_written: BTreeSet<BaseName>,
    plan: Arc<Plan>,
    /// Was the plan made with other settings?
    plan_is_outdated: bool,
    observation: Observation,
    ledger: Arc<Ledger>,
    /// Was the ledger changed outside of a decision, so that it has to be written?
    ledger_is_unsaved: bool,
    forgotten: Forgotten,
    /// How often all answers had to be requested again.
    renewed: u64,
    /// Only answers of a session that began for this value of `renewed` are from the present cluster; `None` if all
    /// are.
    session_from: Option<u64>,
    /// Are the markers those of a former cluster? Only until the next decision.
    has_former_markers: bool,
    reported: ReportedFindings,
    /// Were all findings of the present plan reported?
    all_reported: bool,
}

impl StagingState {
    /// A new state, which knows only the ledger of an earlier process.
    pub fn new(
        settings: impl Into<Arc<Settings>>,
        rules: impl Into<Arc<RuleSet>>,
        platform: Option<Platform>,
        ledger: impl Into<Arc<Ledger>>,
        now: Timestamp,
    ) -> Self {
        let rules = rules.into();
        let phases = rules.knowledge.phases_on(&platform.into());
        let ledger = begun_by(ledger.into(), now);
        Self {
            settings: settings.into(),
            rules,
            platform,
            node: NodeFacts::default(),
            examined: Arc::default(),
            outdated: BTreeSet::new(),
            unread: BTreeMap::new(),
            directory_is_known: false,
            directory_unread_since: None,
            being_written: BTreeSet::new(),
            plan: Arc::new(Plan {
                platform,
                phases,
                ..Plan::default()
            }),
            plan_is_outdated: false,
            observation: Observation {
                started: now,
                ..Observation::default()
            },
            session_from: ledger.datastore_removed.then_some(u64::MAX),
            ledger,
            ledger_is_unsaved: false,
            forgotten: Forgotten::default(),
            renewed: 0,
            has_former_markers: false,
            reported: ReportedFindings::default(),
            all_reported: false,
        }
    }

    /// The state of a new process with the same configuration. Files with the same bytes are not examined again.
    #[must_use]
    pub fn restarted(&self, ledger: impl Into<Arc<Ledger>>, now: Timestamp) -> Self {
        let settings = Arc::clone(&self.settings);
        let rules = Arc::clone(&self.rules);
        Self {
            node: self.node.clone(),
            examined: Arc::clone(&self.examined),
            plan: Arc::clone(&self.plan),
            ..Self::new(settings, rules, self.platform, ledger, now)
        }
    }

    /// Adopts the ledger of an earlier process, which could not be read before. New entries and new orders of this
    /// process are kept.
    pub fn recover_ledger(&mut self, earlier: impl Into<Arc<Ledger>>) {
        // It is from before the start of this process, whatever the clock showed then.
        let mut ledger = begun_by(earlier.into(), self.observation.started);
        let recovered = Arc::make_mut(&mut ledger);
        let answered = self.ledger.boot.as_ref().and_then(|boot| boot.reachable);
        if let Some(boot) = &mut recovered.boot {
            boot.reachable = boot.reachable.or(answered);
        }
        let files = &mut recovered.files;
        for (path, entry) in &self.ledger.files {
            let ordered_at = |entry: &LedgerEntry| entry.manual.as_ref().map(|manual| manual.at);
            let is_newer = files
                .get(path)
                .is_none_or(|known| ordered_at(known) < ordered_at(entry));
            if is_newer {
                files.insert(path.clone(), Arc::clone(entry));
            }
        }
        self.ledger = ledger;
        self.ledger_is_unsaved = true;
        if self.ledger.datastore_removed {
            self.session_from = Some(u64::MAX);
        }
    }

    /// Makes the next decision write the ledger, because it was changed before this process read it.
    pub fn save_ledger(&mut self) {
        self.ledger_is_unsaved = true;
    }

    /// Takes a scan of the directory: examines the changed files, and plans again if there are any.
    pub fn take_directory(&mut self, directory: Directory) {
        let directory = self.keep_unread(directory);
        self.take_kept(directory);
    }

    /// Takes a scan in which [`Self::keep_unread`] has replaced unreadable paths with their last known content.
    pub fn take_kept(&mut self, directory: Directory) {
        self.note_directory_read();
        self.observation.markers = directory
            .markers
            .into_iter()
            .map(|marker| (marker.path.hides(), marker))
            .collect();
        self.adopt_markers();
        let before = Arc::clone(&self.examined);
        let mut examined = BTreeMap::new();
        let mut changed = std::mem::take(&mut self.plan_is_outdated);
        for FileChange { path, content } in directory.files {
            let known = before.get(&path);
            let is_read = content.is_some();
            let comparable = known.filter(|_| !self.outdated.contains(&path));
            let new = content.and_then(|content| self.examine(&path, &content, comparable));
            if is_read {
                self.outdated.remove(&path);
            }
            changed |= new.is_some();
            if let Some(file) = new.or_else(|| known.cloned()) {
                examined.insert(path, file);
            }
        }
        changed |= examined.len() != before.len();
        if changed {
            self.examined = Arc::new(examined);
            self.link();
        }
        self.follow_moved_files();
        self.adopt_applied_once();
    }

    /// Examines a file whose content was read; `None` if it has not changed.
    fn examine(
        &self,
        path: &ManifestPath,
        content: &FileContent,
        known: Option<&Arc<Examined>>,
    ) -> Option<Arc<Examined>> {
        if let (FileContent::Bytes(bytes), Some(known)) = (content, known)
            && known.sha256() == manifest::sha256_hex(bytes)
        {
            // Written again with the same bytes, like yip does at every boot.
            return None;
        }
        let limits = &self.settings.staging.limits;
        let shown = SourceMap::itself(path.as_str());
        let file = plan::examine_content(path, content, limits, shown, &self.rules, self.platform);
        // An entry without bytes is compared by its type: a pipe is still a pipe.
        let same = known.is_some_and(|known| known.is_same_as(&file));
        (!same).then(|| Arc::new(file))
    }

    fn link(&mut self) {
        let examined: Vec<Arc<Examined>> = self.examined.values().cloned().collect();
        let node = self.node.clone().on(self.platform);
        self.plan = Arc::new(plan::link(&examined, &self.rules, node));
        self.all_reported = false;
        let interests = self.interests();
        if self.forgotten.is_wanted(&interests) {
            self.renewed += 1;
            self.forgotten = Forgotten::default();
        }
        let forgotten = &mut self.forgotten;
        self.observation.forget_all_but(&interests, forgotten);
    }

    pub fn take_event(&mut self, event: ClusterEvent, now: Timestamp) {
        if self.is_of_former_cluster(&event) {
            return;
        }
        let boot = self.ledger.boot.as_ref();
        if event == ClusterEvent::ApiReachable && boot.is_some_and(|boot| boot.reachable.is_none())
        {
            let ledger = Arc::make_mut(&mut self.ledger);
            ledger
                .boot
                .iter_mut()
                .for_each(|boot| boot.reachable = Some(now));
            self.ledger_is_unsaved = true;
        }
        let event = match event {
            ClusterEvent::Object(object, ObjectSeen::Absent) => {
                let seen = self.absent_or_done(&object);
                ClusterEvent::Object(object, seen)
            }
            other => other,
        };
        self.observation.apply(event, now);
    }

    /// An object that was Ready when it was last observed and is now gone has done its work: a completed Job is
    /// removed.
    fn absent_or_done(&self, object: &ObjectRef) -> ObjectSeen {
        match self.observation.object(object) {
            ObjectSeen::Done => ObjectSeen::Done,
            ObjectSeen::Present(value)
                if readiness::completes(object)
                    && readiness::judge(value, object, &self.rules, &self.observation).verdict
                        == readiness::Verdict::Ready =>
            {
                ObjectSeen::Done
            }
            _ => ObjectSeen::Absent,
        }
    }

    /// Replaces all findings of one source other than the plan. The status lists them with the plan's findings, and
    /// they count in the same way.
    pub fn set_findings(&mut self, by: &'static str, findings: &[Finding]) {
        if findings.is_empty() {
            self.observation.found.remove(by);
        } else {
            self.observation
                .found
                .insert(by.to_owned(), findings.to_vec());
        }
    }

    /// Sets the markers whose state differs from the decision. True if that changes the status.
    pub fn set_marker_troubles(&mut self, troubles: BTreeMap<BaseName, MarkerTrouble>) -> bool {
        let news = self.observation.marker_troubles != troubles;
        self.observation.marker_troubles = troubles;
        news
    }

    /// Sets the base names of files that are being written, or that were not read yet.
    pub fn set_being_written(&mut self, names: BTreeSet<BaseName>) {
        self.being_written = names;
    }

    /// Moves all remembered times by the difference by which the wall clock was set, so that no deadline comes early or
    /// late. On bare metal, the clock often starts far off and is set once the network is up.
    pub fn shift_clock(&mut self, by: SignedDuration) {
        let moved = |at: Timestamp| at.saturating_add(by).unwrap_or(at);
        let mut shift = |at: &mut Timestamp| *at = moved(*at);
        self.observation.visit_times(&mut shift);
        for unread in self.unread.values_mut() {
            unread.since.iter_mut().for_each(&mut shift);
        }
        self.directory_unread_since.iter_mut().for_each(&mut shift);
        if let Some(node) = &mut self.observation.node {
            node.clock_jumped(by);
        }
        // A new process would read the old times as times of the new clock.
        self.ledger_is_unsaved = true;
        Arc::make_mut(&mut self.ledger).shift_clock(by);
    }

    /// Takes new settings and rules (SIGHUP). The next scan has to contain the content of every file.
    pub fn configure(
        &mut self,
        settings: impl Into<Arc<Settings>>,
        rules: impl Into<Arc<RuleSet>>,
        platform: Option<Platform>,
    ) {
        self.settings = settings.into();
        self.rules = rules.into();
        self.platform = platform;
        self.outdated = self.examined.keys().cloned().collect();
        self.plan_is_outdated = true;
    }

    /// Sets the facts about the node in addition to its platform. True if they changed: the next scan then has to
    /// contain the content of every file.
    pub fn set_node(&mut self, node: NodeFacts) -> bool {
        let is_news = self.node != node;
        self.plan_is_outdated |= is_news;
        self.node = node;
        is_news
    }

    /// The marker for a manifest file that is new or being written. It keeps RKE2 from reading half of the file until a
    /// scan has read it whole. `None` if there is already a marker, or Windrow may not hold the file.
    pub fn provisional_hold(&self, path: &ManifestPath, now: Timestamp) -> Option<Action> {
        if !self.settings.staging.may_hold(path)
            || self.observation.markers.contains_key(&path.name())
        {
            return None;
        }
        Some(Action::Hold {
            path: path.marker(),
            mark: Arc::new(Mark::provisional(path, now)),
        })
    }

    /// Notes that an action was carried out, so that no scan is needed for it.
    pub fn record_done(&mut self, action: &Action) {
        match action {
            Action::Hold { path, mark } => {
                let marker = Marker {
                    path: path.clone(),
                    mark: Some(Arc::clone(mark)),
                };
                self.observation.markers.insert(path.hides(), marker);
            }
            Action::Lift { path } => {
                self.observation.markers.remove(&path.hides());
            }
            Action::SaveLedger(_) => {}
        }
    }

    pub fn decide(&mut self, now: Timestamp) -> Decision {
        self.has_former_markers = false;
        let unread = self.note_unread(now);
        self.observation.being_written = &self.being_written | &self.names_unread(now);
        let mut decision = decide(
            &self.settings,
            &self.rules,
            &self.plan,
            &self.observation,
            &self.ledger,
            now,
        );
        self.ledger = Arc::clone(&decision.ledger);
        if std::mem::take(&mut self.ledger_is_unsaved) {
            save_ledger(&mut decision);
        }
        decision.events.extend(unread);
        if !std::mem::replace(&mut self.all_reported, true) {
            decision
                .events
                .extend(self.reported.changes(&self.plan.findings));
        }
        decision
    }

    pub fn interests(&self) -> Interests {
        Interests {
            renewed: self.renewed,
            ..interests(&self.settings, &self.plan, &self.observation, &self.ledger)
        }
    }

    /// Does a marker of Windrow hide files with this base name?
    pub fn hides(&self, name: &BaseName) -> bool {
        let marker = self.observation.markers.get(name);
        marker.is_some_and(|marker| marker.mark.is_some())
    }

    /// The plan in force, for callers that keep it.
    pub fn shared_plan(&self) -> Arc<Plan> {
        Arc::clone(&self.plan)
    }

    pub fn plan(&self) -> &Plan {
        &self.plan
    }

    pub fn ledger(&self) -> &Arc<Ledger> {
        &self.ledger
    }

    pub fn observation(&self) -> &Observation {
        &self.observation
    }

    pub fn settings(&self) -> &Settings {
        &self.settings
    }

    pub fn rules(&self) -> &RuleSet {
        &self.rules
    }
}

/// The ledger without times later than now. The clock was set back before this process started, and a wait would last
/// longer by that difference.
fn begun_by(mut ledger: Arc<Ledger>, now: Timestamp) -> Arc<Ledger> {
    let is_later = |entry: &Arc<LedgerEntry>| entry.is_later_than(now);
    if ledger.files.values().any(is_later) {
        let entries = Arc::make_mut(&mut ledger).files.values_mut();
        for entry in entries.filter(|entry| is_later(entry)) {
            Arc::make_mut(entry).visit_times(&mut |at| *at = now.min(*at));
        }
    }
    if let Some(boot) = &ledger.boot {
        let mut clamped = boot.clone();
        clamped.visit_times(&mut |at| *at = now.min(*at));
        if clamped != *boot {
            Arc::make_mut(&mut ledger).boot = Some(clamped);
        }
    }
    ledger
}

/// Adds the writing of the ledger to a decision that did not change it: before any marker is removed.
fn save_ledger(decision: &mut Decision) {
    let saves = |action: &Action| matches!(action, Action::SaveLedger(_));
    if decision.actions.iter().any(saves) {
        return;
    }
    let lifts = decision
        .actions
        .iter()
        .position(|action| matches!(action, Action::Lift { .. }))
        .unwrap_or(decision.actions.len());
    let ledger = Arc::clone(&decision.ledger);
    decision.actions.insert(lifts, Action::SaveLedger(ledger));
}
