//! Repeats recorded decisions: passes the same values to the same function.
//!
//! With other rules, it shows what would have been held and released instead. The cluster is still the recorded one:
//! only a simulated boot shows how the cluster would have changed.

use std::collections::BTreeMap;
use std::sync::Arc;

use jiff::Timestamp;
use serde::Serialize;
use serde_json::Value;
use windrow_decide::flight::{
    FlightLine, RecordedConfiguration, RecordedDecision, RecordedFiles, RecordedStage, facts,
    file_stages, marker_changes, recorded_actions,
};
use windrow_decide::sentence::word_of;
use windrow_decide::settings::{self, Settings};
use windrow_decide::{Action, Decision, FileStage, Ledger, Marker, Observation, Phase, decide};
use windrow_model::manifest::{BaseName, ManifestPath, MarkerPath};
use windrow_model::reasons::Code;
use windrow_plan::knowledge::NodeFacts;
use windrow_plan::rules::{Platform, RuleSet};
use windrow_plan::{self as plan, Examined, Plan, SourceMap};

use crate::Segment;

/// The maximum number of decisions that follow only from deadlines between two recorded ones.
const ROUNDS: usize = 100;

pub struct Replay<'s> {
    lines: std::slice::Iter<'s, (usize, FlightLine)>,
    further: Vec<(String, String)>,
    settings: Settings,
    rules: RuleSet,
    platform: Option<Platform>,
    node: NodeFacts,
    files: BTreeMap<ManifestPath, Arc<Examined>>,
    plan: Plan,
    stale: bool,
    facts: BTreeMap<String, Value>,
    recorded: BTreeMap<ManifestPath, RecordedStage>,
    ledger: Arc<Ledger>,
    other: Option<OtherRules>,
    /// Files whose objects are not in the flight.
    pub left_out: Vec<String>,
}

/// The decisions with other rules so far.
#[derive(Default)]
struct OtherRules {
    begun: bool,
    markers: BTreeMap<BaseName, Marker>,
    wake: Option<Timestamp>,
    times: BTreeMap<ManifestPath, FileTimes>,
}

pub struct ReplayedDecision<'s> {
    pub line: usize,
    pub recorded: &'s RecordedDecision,
    pub decision: Decision,
    /// Always empty with other rules.
    pub differences: Vec<Difference>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Difference {
    pub what: String,
    pub recorded: String,
    pub replayed: String,
}

/// When a file reached each state.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct FileTimes {
    /// When it was first held.
    pub held: Option<Timestamp>,
    /// The last reason for a hold.
    pub code: Option<Code>,
    /// When it was first released.
    pub released: Option<Timestamp>,
}

/// A file that other rules would have held or released at another time.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct ChangedTimes {
    pub file: ManifestPath,
    pub recorded: FileTimes,
    pub instead: FileTimes,
}

impl<'s> Replay<'s> {
    pub fn new(segment: &'s Segment) -> Self {
        Self {
            lines: segment.lines.iter(),
            further: Vec::new(),
            settings: Settings::default(),
            rules: RuleSet::default(),
            platform: None,
            node: NodeFacts::default(),
            files: BTreeMap::new(),
            plan: Plan::default(),
            stale: true,
            facts: BTreeMap::new(),
            recorded: BTreeMap::new(),
            ledger: Arc::default(),
            other: None,
            left_out: Vec::new(),
        }
    }

    /// With additional rule packs (name and text). Each replaces the recorded pack with its base name.
    pub fn with_rules(segment: &'s Segment, further: Vec<(String, String)>) -> Self {
        Self {
            further,
            other: Some(OtherRules::default()),
            ..Self::new(segment)
        }
    }

    /// The next decision; `None` after the last.
    ///
    /// # Errors
    ///
    /// The line that cannot be replayed, and why.
    pub fn step(&mut self) -> Result<Option<ReplayedDecision<'s>>, String> {
        while let Some((number, line)) = self.lines.next() {
            let wrong = |why: String| format!("line {number}: {why}");
            match line {
                // No decision depends on these lines. The changes of a repair were observed.
                FlightLine::Flight(_)
                | FlightLine::Repair(_)
                | FlightLine::Machine(_)
                | FlightLine::Appeared(_)
                | FlightLine::Release(_) => {}
                FlightLine::Configuration(configuration) => {
                    (self.settings, self.rules) =
                        restore(configuration, &self.further).map_err(wrong)?;
                    self.platform = configuration.platform;
                    self.node = configuration.node.clone();
                    self.files.clear();
                    self.stale = true;
                }
                FlightLine::Files(files) => {
                    self.take_files(files);
                    self.stale = true;
                }
                FlightLine::Decision(recorded) => {
                    let number = *number;
                    return self
                        .decide(number, recorded)
                        .map(Some)
                        .map_err(|why| format!("line {number}: {why}"));
                }
            }
        }
        Ok(None)
    }

    fn take_files(&mut self, files: &RecordedFiles) {
        for path in &files.gone {
            self.files.remove(path);
        }
        for file in &files.files {
            if let Some(why) = &file.left_out {
                self.left_out.push(format!("{}: {why}", file.path));
            }
            let examined = plan::examine(
                &file.restore(),
                SourceMap::itself(file.path.as_str()),
                &self.rules,
                self.platform,
            );
            self.files.insert(file.path.clone(), Arc::new(examined));
        }
    }

    fn decide(
        &mut self,
        line: usize,
        recorded: &'s RecordedDecision,
    ) -> Result<ReplayedDecision<'s>, String> {
        if std::mem::take(&mut self.stale) {
            let examined: Vec<Arc<Examined>> = self.files.values().cloned().collect();
            let node = self.node.clone().on(self.platform);
            self.plan = plan::link(&examined, &self.rules, node);
        }
        if self.other.is_some() {
            self.decide_until(recorded.at)?;
        }
        for name in &recorded.gone {
            self.facts.remove(name);
        }
        let news = recorded.facts.iter();
        self.facts
            .extend(news.map(|(name, fact)| (name.clone(), fact.clone())));
        for path in &recorded.forgotten {
            self.recorded.remove(path);
        }
        self.recorded.extend(
            recorded
                .files
                .iter()
                .map(|(path, state)| (path.clone(), *state)),
        );
        if let Some(ledger) = &recorded.ledger {
            self.replace_ledger(ledger);
        }
        let decision = self.decide_at(recorded.at)?;
        let differences = match self.other {
            Some(_) => Vec::new(),
            None => self.differences(recorded, &decision),
        };
        Ok(ReplayedDecision {
            line,
            recorded,
            decision,
            differences,
        })
    }

    fn replace_ledger(&mut self, ledger: &Ledger) {
        match &mut self.other {
            Some(other) if other.begun => {
                // Orders of a user count with any rules; the rest of the recorded ledger is the result of other
                // decisions.
                for (path, entry) in &ledger.files {
                    let files = &mut Arc::make_mut(&mut self.ledger).files;
                    if let Some(known) = files.get_mut(path) {
                        Arc::make_mut(known).manual.clone_from(&entry.manual);
                    }
                }
            }
            Some(other) => {
                other.begun = true;
                self.ledger = Arc::new(ledger.clone());
            }
            None => self.ledger = Arc::new(ledger.clone()),
        }
    }

    /// With other rules, deadlines fall at other times: makes the decisions that would have followed before `until`.
    fn decide_until(&mut self, until: Timestamp) -> Result<(), String> {
        for _ in 0..ROUNDS {
            let wake = self.other.as_ref().and_then(|other| other.wake);
            let Some(wake) = wake.filter(|wake| *wake < until) else {
                break;
            };
            self.decide_at(wake)?;
        }
        Ok(())
    }

    fn decide_at(&mut self, now: Timestamp) -> Result<Decision, String> {
        let mut observation = facts::restore(&self.facts)?;
        if let Some(other) = &self.other {
            other.put_into(&mut observation, &self.plan, &self.ledger);
        }
        let decision = decide(
            &self.settings,
            &self.rules,
            &self.plan,
            &observation,
            &self.ledger,
            now,
        );
        self.ledger = Arc::clone(&decision.ledger);
        if let Some(other) = &mut self.other {
            other.begun = true;
            other.take_decision(&decision, now);
        }
        Ok(decision)
    }

    fn differences(&self, recorded: &RecordedDecision, decision: &Decision) -> Vec<Difference> {
        let mut found = Vec::new();
        let mut compare = |what: &str, recorded: String, replayed: String| {
            if recorded != replayed {
                found.push(Difference {
                    what: what.to_owned(),
                    recorded,
                    replayed,
                });
            }
        };
        compare(
            "actions",
            list(marker_changes(&recorded.actions)),
            list(marker_changes(&recorded_actions(decision))),
        );
        let status = &decision.status;
        let stand = |readiness, phase: Phase, code: Code| {
            let word = word_of(readiness);
            format!("{word}, step: {} ({code})", phase.title())
        };
        compare(
            "readiness",
            stand(recorded.readiness, recorded.phase, recorded.reason.code),
            stand(status.readiness, status.phase, status.reason.code),
        );
        let next = |wake: Option<Timestamp>| wake.map_or("none".to_owned(), |at| at.to_string());
        compare(
            "the next deadline",
            next(recorded.next_wake),
            next(decision.next_wake),
        );
        let now = file_stages(&decision.ledger);
        for path in self.recorded.keys().chain(now.keys()) {
            let word = |state: Option<&RecordedStage>| {
                state.map_or("not staged".to_owned(), ToString::to_string)
            };
            compare(path, word(self.recorded.get(path)), word(now.get(path)));
        }
        found.dedup();
        found
    }

    pub fn plan(&self) -> &Plan {
        &self.plan
    }

    /// When each file was held and released with the other rules.
    pub fn times(&self) -> BTreeMap<ManifestPath, FileTimes> {
        self.other
            .as_ref()
            .map(|other| other.times.clone())
            .unwrap_or_default()
    }
}

impl OtherRules {
    /// Only markers of these rules exist, and RKE2 has not applied the files that they hold.
    fn put_into(&self, observation: &mut Observation, plan: &Plan, ledger: &Ledger) {
        observation
            .markers
            .retain(|_, marker| marker.mark.is_none());
        observation.markers.extend(self.markers.clone());
        let Some(addons) = &mut observation.addons else {
            return;
        };
        for file in &plan.files {
            let held = match ledger.files.get(&file.path) {
                Some(entry) => matches!(entry.state, FileStage::Held { .. }),
                // New with these rules: the marker decides whether RKE2 was faster.
                None => true,
            };
            let applied = addons
                .get(&file.addon)
                .is_some_and(|addon| addon.checksum == file.sha256);
            if held && applied && file.owner.is_none() {
                addons.remove(&file.addon);
            }
        }
    }

    fn take_decision(&mut self, decision: &Decision, now: Timestamp) {
        self.wake = decision.next_wake.filter(|wake| *wake > now);
        for action in &decision.actions {
            match action {
                Action::Hold { path, mark } => {
                    let marker = Marker {
                        path: path.clone(),
                        mark: Some(Arc::clone(mark)),
                    };
                    self.markers.insert(path.hides(), marker);
                }
                Action::Lift { path } => {
                    self.markers.remove(&path.hides());
                }
                Action::SaveLedger(_) => {}
            }
        }
        for (path, state) in file_stages(&decision.ledger) {
            note(&mut self.times, path, state, now);
        }
    }
}

pub(super) fn note(
    times: &mut BTreeMap<ManifestPath, FileTimes>,
    path: ManifestPath,
    state: RecordedStage,
    now: Timestamp,
) {
    let times = times.entry(path).or_default();
    match state {
        RecordedStage::Held { code } => {
            times.held.get_or_insert(now);
            // Before kube-apiserver answers, every file waits for the cluster.
            if code != Code::WaitsForCluster || times.code.is_none() {
                times.code = Some(code);
            }
        }
        RecordedStage::Released | RecordedStage::Applied => {
            times.released.get_or_insert(now);
        }
    }
}

pub fn recorded_times(segment: &Segment) -> BTreeMap<ManifestPath, FileTimes> {
    let mut times = BTreeMap::new();
    for (_, line) in &segment.lines {
        if let FlightLine::Decision(recorded) = line {
            for (path, state) in &recorded.files {
                note(&mut times, path.clone(), *state, recorded.at);
            }
        }
    }
    times
}

pub fn changes(
    recorded: &BTreeMap<ManifestPath, FileTimes>,
    instead: &BTreeMap<ManifestPath, FileTimes>,
) -> Vec<ChangedTimes> {
    let mut paths: Vec<&ManifestPath> = recorded.keys().chain(instead.keys()).collect();
    paths.sort_unstable();
    paths.dedup();
    paths
        .into_iter()
        .map(|path| ChangedTimes {
            file: path.clone(),
            recorded: recorded.get(path).cloned().unwrap_or_default(),
            instead: instead.get(path).cloned().unwrap_or_default(),
        })
        .filter(|change| change.recorded != change.instead)
        .collect()
}

fn list(
    markers: impl IntoIterator<Item = (windrow_decide::flight::ActionKind, MarkerPath)>,
) -> String {
    let words: Vec<String> = markers
        .into_iter()
        .map(|(what, path)| format!("{what} {path}"))
        .collect();
    match words.is_empty() {
        true => "none".to_owned(),
        false => words.join(", "),
    }
}

/// The recorded settings and rules, with additional rule packs. Each replaces the pack with its name.
pub fn restore(
    configuration: &RecordedConfiguration,
    further: &[(String, String)],
) -> Result<(Settings, RuleSet), String> {
    let settings = settings::restore(&configuration.settings)?;
    let masked = |name: &str| {
        further
            .iter()
            .any(|(other, _)| pack_name(other) == pack_name(name))
    };
    let mut sources: Vec<(String, String)> = configuration
        .rules
        .iter()
        .filter(|pack| !masked(&pack.name))
        .map(|pack| (pack.name.clone(), pack.text.clone()))
        .chain(further.iter().cloned())
        .collect();
    sources.sort_by(|a, b| pack_name(&a.0).cmp(pack_name(&b.0)));
    // Errors in a rule were reported when it was loaded, and the rule was ignored then as well.
    Ok((settings, RuleSet::load(&sources).0))
}

/// The file name without directories. A rule pack replaces another one with the same name.
fn pack_name(path: &str) -> &str {
    path.rsplit_once('/').map_or(path, |(_, name)| name)
}
