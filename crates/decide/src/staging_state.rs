//! The values that [`super::decide`] reads, kept up to date: files, plan, observation and ledger.
//!
//! The daemon, the sandbox, the simulation and the rehearsal have one each. They differ in what feeds it and
//! in what carries its actions out. Pure: no I/O, no clock. Nothing that a decision found is kept but its
//! ledger.

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

/// What decisions are made from. See the module's documentation.
#[derive(Debug, Clone)]
pub struct StagingState {
    settings: Arc<Settings>,
    rules: Arc<RuleSet>,
    platform: Option<Platform>,
    /// What is known of the node beside its platform.
    node: NodeFacts,
    /// The files of the directory as they were last read, by path. A file is examined again when its bytes
    /// change.
    examined: Arc<BTreeMap<ManifestPath, Arc<Examined>>>,
    /// Those of them that were examined by earlier settings, and not read since.
    outdated: BTreeSet<ManifestPath>,
    /// What could not be read at the last look.
    unread: BTreeMap<ManifestPath, UnreadPath>,
    /// Has this process read the directory since it was last missing?
    directory_is_known: bool,
    /// Since when the directory as a whole cannot be read.
    directory_unread_since: Option<Timestamp>,
    /// Base names of files that are being written, or that there was no room for.
    being_written: BTreeSet<BaseName>,
    plan: Arc<Plan>,
    /// Was the plan made with other settings?
    plan_is_outdated: bool,
    observation: Observation,
    ledger: Arc<Ledger>,
    /// Was the ledger changed outside of a decision, so that it has to be written?
    ledger_is_unsaved: bool,
    forgotten: Forgotten,
    /// How often everything had to be asked again.
    renewed: u64,
    /// Only a session that began for this number of `renewed` speaks of the present cluster; `None` if each does.
    session_from: Option<u64>,
    /// Are the markers those of a former cluster? Until the next decision.
    has_former_markers: bool,
    /// The findings of the plan that were reported.
    reported: ReportedFindings,
    /// Were those of the plan in force reported?
    all_reported: bool,
}

impl StagingState {
    /// A state that knows only what an earlier run left in the ledger.
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

    /// The state of a new process of the same configuration. Files with the same bytes need not be examined
    /// again.
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

    /// Takes over the ledger of an earlier process, which could not be read before. What it does not know, and what a person ordered
    /// meanwhile, counts as well.
    pub fn recover_ledger(&mut self, earlier: impl Into<Arc<Ledger>>) {
        // It is from before this process began, whatever the clock showed then.
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

    /// Has the ledger written with the next decision: it was changed before it came here.
    pub fn save_ledger(&mut self) {
        self.ledger_is_unsaved = true;
    }

    /// Takes in a look at the directory: examines the files that changed, and plans again when any did.
    pub fn take_directory(&mut self, directory: Directory) {
        let directory = self.keep_unread(directory);
        self.take_kept(directory);
    }

    /// Takes in a look in which [`Self::keep_unread`] has put what is known in place of what could not be read.
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

    /// Examines a file whose content was read; `None` when it is the file that is known.
    fn examine(
        &self,
        path: &ManifestPath,
        content: &FileContent,
        known: Option<&Arc<Examined>>,
    ) -> Option<Arc<Examined>> {
        if let (FileContent::Bytes(bytes), Some(known)) = (content, known)
            && known.sha256() == manifest::sha256_hex(bytes)
        {
            // Written again with the same bytes, as yip does at every boot.
            return None;
        }
        let limits = &self.settings.staging.limits;
        let shown = SourceMap::itself(path.as_str());
        let file = plan::examine_content(path, content, limits, shown, &self.rules, self.platform);
        // What has no bytes is known by what it is: a pipe is still a pipe.
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

    /// Takes in a change of the cluster.
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

    /// An object that was Ready when it was last seen and is gone has done its work: a completed Job is collected.
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

    /// Sets all findings of one finder besides the plan. In the status they stand with the plan's findings, and they
    /// count like them.
    pub fn set_findings(&mut self, by: &'static str, findings: &[Finding]) {
        if findings.is_empty() {
            self.observation.found.remove(by);
        } else {
            self.observation
                .found
                .insert(by.to_owned(), findings.to_vec());
        }
    }

    /// Sets which markers are not as they were decided to be. True when that is news, which changes the status.
    pub fn set_marker_troubles(&mut self, troubles: BTreeMap<BaseName, MarkerTrouble>) -> bool {
        let news = self.observation.marker_troubles != troubles;
        self.observation.marker_troubles = troubles;
        news
    }

    /// Sets the base names of files that are being written, or that were not read yet.
    pub fn set_being_written(&mut self, names: BTreeSet<BaseName>) {
        self.being_written = names;
    }

    /// Moves what is remembered along with the wall clock, which was set. So no deadline comes early or
    /// late. On bare metal the clock often starts far off and is set once the network is up.
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
        // A new process would take the old times for those of the new clock.
        self.ledger_is_unsaved = true;
        Arc::make_mut(&mut self.ledger).shift_clock(by);
    }

    /// Takes new settings and rules (SIGHUP). The next scan has to carry the content of every file.
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

    /// Sets what is known of the node, beside its platform. True when that is news: the next scan then has to carry the content of every
    /// file.
    pub fn set_node(&mut self, node: NodeFacts) -> bool {
        let is_news = self.node != node;
        self.plan_is_outdated |= is_news;
        self.node = node;
        is_news
    }

    /// The marker for a manifest file that is new or being written. It keeps RKE2 from reading half of the
    /// file until a scan has read it whole. `None` when there is a marker already, or the file is not ours
    /// to hold.
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

    /// Enters that an action was carried out, so that the directory need not be scanned for it.
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

    /// Decides, and keeps the ledger of the decision.
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

    /// What has to be watched now.
    pub fn interests(&self) -> Interests {
        Interests {
            renewed: self.renewed,
            ..interests(&self.settings, &self.plan, &self.observation, &self.ledger)
        }
    }

    /// Does a marker of Windrow's hide files of this base name?
    pub fn hides(&self, name: &BaseName) -> bool {
        let marker = self.observation.markers.get(name);
        marker.is_some_and(|marker| marker.mark.is_some())
    }

    /// The plan in force, for who keeps it.
    pub fn shared_plan(&self) -> Arc<Plan> {
        Arc::clone(&self.plan)
    }

    /// The plan in force.
    pub fn plan(&self) -> &Plan {
        &self.plan
    }

    /// The ledger in force.
    pub fn ledger(&self) -> &Arc<Ledger> {
        &self.ledger
    }

    /// What was observed.
    pub fn observation(&self) -> &Observation {
        &self.observation
    }

    /// The settings in force.
    pub fn settings(&self) -> &Settings {
        &self.settings
    }

    /// The rules in force.
    pub fn rules(&self) -> &RuleSet {
        &self.rules
    }
}

/// The ledger with no time in it that is later than now. The clock was set back before this process began, and a wait would last as
/// much longer.
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

/// Adds the writing of the ledger to a decision that did not change it: before anything is lifted.
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
