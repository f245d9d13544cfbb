//! The daemon's core without its edges: files and events go in, actions and a status come out.
//!
//! It owns the values that [`super::decide`] reads and keeps them consistent. `windrow run`, the
//! sandbox, the simulation tests and the rehearsal all drive this same type; only what feeds it and
//! what carries its actions out differ. Pure: no I/O, no clock.

mod deciding;
mod markers;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use jiff::{SignedDuration, Timestamp};
use smol_str::SmolStr;
use windrow_model::manifest::{self, Content};
use windrow_model::reasons::Code;
use windrow_plan::readiness::{self, NeedState, ObjectSeen, Observed};
use windrow_plan::rke2;
use windrow_plan::rules::{Platform, RuleSet};
use windrow_plan::{self as plan, Examined, Finding, Plan, Shown, base_name};

use super::interests;
use super::ledger::{Entry, Manual, State, Told};
use super::library::{Library, Planned};
use super::needs::Needs;
use super::verdicts::Verdicts;
use super::{ClusterEvent, Event, Interests, Ledger, Marker, Observation, ProbeInterest};
use crate::settings::Settings;

pub use self::markers::provisional;

/// One look at the manifests directory.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Directory {
    /// Every manifest file that is there, by path below the directory. What is not in the list is
    /// gone.
    pub files: Vec<FileChange>,
    /// Every marker.
    pub markers: Vec<Marker>,
}

/// One manifest file, as a look at the directory found it.
#[derive(Debug, Clone, PartialEq)]
pub struct FileChange {
    /// Path below the manifests directory, with `/`.
    pub path: String,
    /// What it is; `None` when it has not changed since the last look.
    pub content: Option<Arc<Content>>,
}

/// The core. See the module's documentation.
#[derive(Debug)]
pub struct Engine {
    settings: Arc<Settings>,
    rules: Arc<RuleSet>,
    platform: Option<Platform>,
    examined: Arc<BTreeMap<String, Arc<Examined>>>,
    library: Arc<Library>,
    planned: Planned,
    needs: Needs,
    verdicts: Verdicts,
    /// What has to be watched, as long as it is known to be that.
    interests: Option<Arc<Interests>>,
    observation: Observation,
    ledger: Arc<Ledger>,
    /// The ledger was changed outside of a decision and has to be written.
    unsaved: bool,
    /// Findings of the plan that were told, so that each is told once.
    told: BTreeSet<(Code, String)>,
    /// Those of the plan in force are.
    all_told: bool,
}

impl Engine {
    /// A core that knows nothing yet but what an earlier run left in the ledger.
    pub fn new(
        settings: impl Into<Arc<Settings>>,
        rules: impl Into<Arc<RuleSet>>,
        platform: Option<Platform>,
        ledger: impl Into<Arc<Ledger>>,
        now: Timestamp,
    ) -> Self {
        Self {
            settings: settings.into(),
            rules: rules.into(),
            platform,
            examined: Arc::default(),
            library: Arc::default(),
            planned: Planned::default().on(platform),
            needs: Needs::default(),
            verdicts: Verdicts::default(),
            interests: None,
            observation: Observation {
                started: now,
                ..Observation::default()
            },
            ledger: ledger.into(),
            unsaved: false,
            told: BTreeSet::new(),
            all_told: false,
        }
    }

    /// The same with files that need not be read again: of these settings, rules and platform.
    #[must_use]
    pub fn knowing(mut self, library: Arc<Library>) -> Self {
        self.library = library;
        self
    }

    /// Which cluster the manifests directory belongs to, seen together with a scan of it: `None`
    /// while RKE2 has not started for the first time. A ledger of another cluster (RKE2 was removed
    /// and installed anew, its data wiped) counts for nothing but what a person holds: "released"
    /// there would let a machine start here before its time.
    pub fn cluster(&mut self, identity: Option<String>) -> Option<Event> {
        if self.ledger.cluster == identity {
            return None;
        }
        let other = self.ledger.cluster.is_some();
        let ledger = Arc::make_mut(&mut self.ledger);
        ledger.cluster = identity;
        self.unsaved = true;
        self.interests = None;
        self.verdicts.outdate();
        if !other {
            return None;
        }
        ledger
            .files
            .retain(|_, entry| entry.manual.as_ref().is_some_and(|manual| manual.hold));
        Some(Event {
            code: Code::NewCluster,
            file: None,
            message: Code::NewCluster.say(&[]),
        })
    }

    /// Takes a look at the directory in: reads what changed and plans anew if anything did.
    pub fn scanned(&mut self, directory: Directory) {
        self.take_markers(directory.markers);
        self.adopt_markers();
        if self.knows_files(&directory.files) {
            return;
        }
        if self.examined.is_empty()
            && let Some(examined) = self.library.all(&directory.files)
        {
            self.examined = Arc::clone(examined);
            self.link();
            return;
        }
        let mut kept = BTreeMap::new();
        let mut changed = false;
        let before = Arc::make_mut(&mut self.examined);
        for FileChange { path, content } in directory.files {
            let known = before.remove(&path);
            let examined = match (content, known) {
                (None, Some(known)) => known,
                (None, None) => continue,
                (Some(content), known) => {
                    let new = known.is_none();
                    let known = known.or_else(|| self.library.file(&path).cloned());
                    if let Some(same) = self.library.same(&path, &content) {
                        changed |= known.is_none_or(|known| !Arc::ptr_eq(&known, same)) || new;
                        kept.insert(path, Arc::clone(same));
                        continue;
                    }
                    if let (Content::Bytes(bytes), Some(known)) = (&*content, &known)
                        && known.sha256() == manifest::sha256_hex(bytes)
                    {
                        // Written anew with the same bytes, as yip does at every boot.
                        changed |= new;
                        kept.insert(path, known.clone());
                        continue;
                    }
                    let limits = &self.settings.staging.limits;
                    let shown = Shown::itself(&path);
                    let (rules, platform) = (&self.rules, self.platform);
                    let file =
                        plan::examine_content(&path, &content, limits, shown, rules, platform);
                    let same = known.filter(|known| known.is_same_as(&file));
                    match same {
                        // What has no bytes to be known by: a pipe is the pipe that it was.
                        Some(known) => {
                            changed |= new;
                            known
                        }
                        None => {
                            changed = true;
                            Arc::new(file)
                        }
                    }
                }
            };
            kept.insert(path, examined);
        }
        // What is left was there before and is gone.
        changed |= !before.is_empty();
        self.examined = Arc::new(kept);
        if changed {
            self.link();
        }
    }

    fn link(&mut self) {
        self.planned = match self.library.planned(&self.examined) {
            Some(planned) => planned.clone(),
            None => {
                let examined: Vec<Arc<Examined>> = self.examined.values().cloned().collect();
                Planned::from(plan::link(&examined, &self.rules, self.platform))
            }
        };
        self.all_told = false;
        self.outdate();
        let interests = self.interests();
        self.observation.forget_all_but(&interests);
        self.observation.objects.reserve(interests.objects.len());
        self.observation.kinds.reserve(interests.kinds.len());
    }

    /// Takes a change in the cluster in.
    pub fn observed(&mut self, event: ClusterEvent, now: Timestamp) {
        let event = match event {
            ClusterEvent::Object(object, ObjectSeen::Absent) => {
                let seen = self.gone(&object);
                ClusterEvent::Object(object, seen)
            }
            other => other,
        };
        let lookup = &self.planned.lookup;
        self.needs.hear(&event, lookup);
        match &event {
            ClusterEvent::Object(object, seen) if readiness::has_related(object) => {
                let related = |seen: &ObjectSeen| match seen {
                    ObjectSeen::Present(value) => readiness::related(object, value),
                    _ => readiness::Related::default(),
                };
                if related(self.observation.object(object)) != related(seen) {
                    self.interests = None;
                }
            }
            ClusterEvent::Addon(addon, _) | ClusterEvent::ApplyFailed { addon, .. } => {
                self.verdicts.doubt(lookup.of_addon(addon));
            }
            ClusterEvent::Addons(_) => self.verdicts.outdate(),
            ClusterEvent::ApiReachable | ClusterEvent::ApiUnreachable { .. } => {
                let before = self.observation.api.clone();
                self.observation.apply(event, now);
                if self.observation.api != before {
                    self.verdicts.outdate();
                }
                return;
            }
            _ => {}
        }
        self.observation.apply(event, now);
    }

    /// An object that is not there (any more): one that was Ready when last seen has done its work,
    /// as a Job that was collected after it completed has.
    fn gone(&self, object: &manifest::ObjectRef) -> ObjectSeen {
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

    /// What somebody else than the plan has found, all of it: it takes the place of what the same one
    /// found before. It stands in the status beside the plan's findings, and counts as they do.
    pub fn found(&mut self, by: &'static str, findings: &[Finding]) {
        if findings.is_empty() {
            self.observation.found.remove(by);
        } else {
            self.observation
                .found
                .insert(by.to_owned(), findings.to_vec());
        }
    }

    /// The wall clock was set: what is remembered moves along, so that no deadline comes early or
    /// late. On bare metal the clock often starts far off and is set once the network is up.
    pub fn clock_jumped(&mut self, by: SignedDuration) {
        let moved = |at: Timestamp| at.saturating_add(by).unwrap_or(at);
        self.observation.started = moved(self.observation.started);
        if let Some(at) = &mut self.observation.api.first_reachable {
            *at = moved(*at);
        }
        if let Some(node) = &mut self.observation.node {
            node.clock_jumped(by);
        }
        self.verdicts.outdate();
        for (_, entry) in Arc::make_mut(&mut self.ledger).files.iter_mut() {
            let entry = Arc::make_mut(entry);
            entry.first_seen = moved(entry.first_seen);
            entry.since = moved(entry.since);
        }
    }

    /// New settings and rules (SIGHUP): examines and plans anew. What the directory holds has to be
    /// scanned again in full.
    pub fn configured(
        &mut self,
        settings: impl Into<Arc<Settings>>,
        rules: impl Into<Arc<RuleSet>>,
        platform: Option<Platform>,
    ) {
        self.settings = settings.into();
        self.rules = rules.into();
        self.platform = platform;
        self.examined = Arc::default();
        self.outdate();
    }

    /// A person holds or releases a file; the next [`Engine::decide`] carries it out.
    ///
    /// # Errors
    ///
    /// When there is no such file, or it is not Windrow's to hold or release; a sentence for the
    /// person who asked.
    pub fn manual(&mut self, path: &str, manual: Manual, now: Timestamp) -> Result<(), String> {
        if let Some(owner) = rke2::owner(path) {
            return Err(format!("{path} is {owner}'s own; Windrow leaves it alone"));
        }
        self.interests = None;
        self.verdicts.outdate();
        let name = base_name(path);
        let foreign = self
            .observation
            .markers
            .get(name)
            .is_some_and(|marker| marker.mark.is_none());
        if foreign {
            return Err(format!(
                "{path} is held by a marker that Windrow did not make; whoever made {name}.skip removes it"
            ));
        }
        let file = self
            .planned
            .plan
            .files
            .iter()
            .find(|file| file.path == path);
        if file.is_none() && !manual.hold {
            return Err(format!("there is no manifest file {path}"));
        }
        let digest = file.map(|file| file.digest.clone()).unwrap_or_default();
        // One marker hides every file of this name: they are held and released together.
        let namesakes: Vec<(String, SmolStr)> = self
            .planned
            .plan
            .files
            .iter()
            .filter(|file| file.name == name && file.path != path && file.owner.is_none())
            .map(|file| (file.path.clone(), file.digest.clone()))
            .collect();
        for (path, digest) in namesakes {
            self.enter_manual(&path, digest, manual.clone(), now);
        }
        self.enter_manual(path, digest, manual, now);
        Ok(())
    }

    fn enter_manual(&mut self, path: &str, digest: SmolStr, manual: Manual, now: Timestamp) {
        let why = manual.reason.clone();
        let entry = Arc::make_mut(&mut self.ledger)
            .files
            .entry(path.into())
            .and_modify(|entry| {
                if !manual.hold && entry.digest != digest {
                    Arc::make_mut(entry).digest.clone_from(&digest);
                }
            })
            .or_insert_with(|| {
                Arc::new(Entry {
                    digest: digest.clone(),
                    first_seen: now,
                    since: now,
                    state: State::Held {
                        code: Code::HeldByHand,
                        why: why.into(),
                    },
                    told: Told::default(),
                    manual: None,
                })
            });
        Arc::make_mut(entry).manual = Some(Box::new(manual));
    }

    /// What has to be watched in the cluster now: what unfinished files need, and what a rule or a
    /// person asked for where a file was released because it was there (it may regress).
    pub fn interests(&mut self) -> Arc<Interests> {
        match &self.interests {
            Some(known) => {
                debug_assert_eq!(**known, *self.interested_in());
                Arc::clone(known)
            }
            None => Arc::clone(self.interests.insert(self.interested_in())),
        }
    }

    /// Has everything decided anew at the next decision. Nothing changes by it unless a change was missed:
    /// whoever runs for months does this now and then, so that no file waits for a restart because of it.
    pub fn reconsider(&mut self) {
        self.outdate();
    }

    /// What is known by now of needs and of what has to be watched holds no longer.
    fn outdate(&mut self) {
        self.needs.outdate();
        self.verdicts.outdate();
        self.interests = None;
    }

    fn interested_in(&self) -> Arc<Interests> {
        let probes = self.settings.probes.enabled.then(|| ProbeInterest {
            platform: self.platform,
            installed: self.ledger.node.installed,
            data_dir: self.settings.data_dir.clone(),
            custom: Arc::clone(&self.settings.probes.custom),
        });
        let Self {
            planned,
            observation,
            ledger,
            ..
        } = self;
        let entries = || interests::entries(&planned.plan, ledger);
        let known = || self.verdicts.entries(planned.plan.files.len());
        debug_assert!(known().is_none_or(|known| known.eq(entries())));
        match known() {
            Some(known) => interests::of(planned, known, observation, probes),
            None => interests::of(planned, entries(), observation, probes),
        }
    }

    /// The plan in force.
    pub fn plan(&self) -> &Plan {
        &self.planned.plan
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

    /// The states of the plan's needs, as they were at the last decision.
    pub fn needs(&self) -> &[NeedState] {
        self.needs.states()
    }

    /// The rules in force.
    pub fn rules(&self) -> &RuleSet {
        &self.rules
    }
}
