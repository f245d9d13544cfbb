//! Windrow's own core against the simulated node: the daemon's loop, in memory and in simulated
//! time, with whatever faults are asked for.
//!
//! The directory and the saved ledger are the disk: they outlive a crash, nothing else does.

use std::time::Duration;

use jiff::{SignedDuration, Timestamp};

use super::chance::Chance;
use super::faults::{Dice, Faults};
use super::files::Files;
use super::log::What;
use super::node::Node;
use super::run::{Changes, Release, Run, Setup};
use super::tape::Tape;
use super::watch::Watch;
use crate::decide::{
    Action, Cause, Detail, Engine, Interests, Ledger, Mark, Observation, State, Status,
};
use crate::flight::Line;
use crate::manifest::Content;
use crate::plan::PlanFile;
use crate::readiness::{self, NeedState};
use crate::rules::{Condition, Target, Tier};

/// No bootstrap takes longer; one that does is reported as still under way.
const LIMIT: Duration = Duration::from_secs(12 * 3600);
/// After a failed action it is tried again so much later.
const RETRY: Duration = Duration::from_secs(5);

/// So many decisions may follow from one another at one instant.
const ROUNDS: usize = 20;

/// The bootstrap as it goes without Windrow.
pub fn without_windrow(setup: &Setup, seed: u64) -> Run {
    let mut node = Node::new(setup.scenario.clone(), seed);
    let mut files = setup.files.clone();
    let mut changes = Changes::new(setup);
    let end = setup.scenario.start + LIMIT;
    loop {
        let next = earliest([node.next_event_at(), changes.next_at()]);
        let Some(next) = next.filter(|next| *next < end) else {
            break;
        };
        node.advance(next, &files);
        changes.make(next, &mut files);
        if changes.next_at().is_none() && node.is_settled(&files) {
            break;
        }
    }
    Run {
        seed,
        counts: node.counts(),
        outcome: node.outcome(&files),
        ended: node.cluster().now(),
        log: node.log().to_vec(),
        files,
        ledger: Ledger::default(),
        status: None,
        releases: Vec::new(),
        decisions: 0,
        restless: 0,
    }
}

/// The bootstrap with Windrow, started before RKE2 as its unit is.
pub fn with_windrow(setup: &Setup, faults: &Faults, seed: u64) -> Run {
    Drive::new(setup, *faults, seed).run()
}

/// The same, and what the flight recorder would have written of it. `packs` are the setup's rules as
/// texts.
pub fn recorded(
    setup: &Setup,
    packs: &[(String, String)],
    faults: &Faults,
    seed: u64,
) -> (Run, Vec<Line>) {
    let mut drive = Drive::new(setup, *faults, seed);
    let mut tape = Tape::new(packs);
    tape.begin(setup, setup.scenario.start);
    drive.tape = Some(tape);
    drive.fly()
}

/// The daemon's part.
struct Drive<'a> {
    setup: &'a Setup,
    faults: Faults,
    dice: Dice,
    seed: u64,
    node: Node,
    files: Files,
    changes: Changes,
    engine: Engine,
    watch: Watch,
    /// The directory as the engine knows it.
    seen: Option<Files>,
    /// The ledger on disk.
    saved: Ledger,
    /// The engine's ledger is newer than the one on disk: saving it failed.
    unsaved: bool,
    /// How much the wall clock is ahead of the true time.
    skew: SignedDuration,
    /// What the cluster and the engine were when the watch last told all it could.
    heard: Option<((u64, u64, bool), u64)>,
    /// When a watch that was cut or refused lists again.
    relist: Option<Timestamp>,
    /// When to decide again though nothing happens, in true time.
    wake: Option<Timestamp>,
    status: Option<Status>,
    releases: Vec<Release>,
    decisions: u64,
    restless: u64,
    tape: Option<Tape>,
}

impl<'a> Drive<'a> {
    fn new(setup: &'a Setup, faults: Faults, seed: u64) -> Self {
        let start = setup.scenario.start;
        Self {
            setup,
            faults,
            dice: Dice::new(Chance::new(seed).branch(2)),
            seed,
            node: Node::new(setup.scenario.clone(), seed),
            files: setup.files.clone(),
            changes: Changes::new(setup),
            engine: engine(setup, Ledger::default(), start),
            watch: Watch::default(),
            seen: None,
            saved: Ledger::default(),
            unsaved: false,
            skew: SignedDuration::ZERO,
            heard: None,
            relist: None,
            wake: Some(start),
            status: None,
            releases: Vec::new(),
            decisions: 0,
            restless: 0,
            tape: None,
        }
    }

    fn run(self) -> Run {
        self.fly().0
    }

    fn fly(mut self) -> (Run, Vec<Line>) {
        let start = self.setup.scenario.start;
        let mut now = start;
        self.turn(now);
        loop {
            let next = earliest([
                self.node.next_event_at(),
                self.changes.next_at(),
                self.wake,
                self.relist,
            ]);
            let Some(next) = next.filter(|next| *next < start + LIMIT) else {
                break;
            };
            now = now.max(next);
            self.node.advance(now, &self.files);
            self.changes.make(now, &mut self.files);
            if now < start + self.faults.until {
                self.disaster(now);
            } else {
                self.faults = Faults {
                    until: self.faults.until,
                    ..Faults::NONE
                };
            }
            self.turn(now);
            let quiet =
                self.wake.is_none() && self.relist.is_none() && self.changes.next_at().is_none();
            let faultless = now >= start + self.faults.until;
            if quiet && faultless && self.node.is_settled(&self.files) {
                break;
            }
        }
        let run = Run {
            seed: self.seed,
            counts: self.node.counts(),
            outcome: self.node.outcome(&self.files),
            ended: now,
            log: self.node.log().to_vec(),
            files: self.files,
            ledger: self.saved,
            status: self.status,
            releases: self.releases,
            decisions: self.decisions,
            restless: self.restless,
        };
        (run, self.tape.map(Tape::into_lines).unwrap_or_default())
    }

    /// The time as Windrow's wall clock has it.
    fn wall(&self, now: Timestamp) -> Timestamp {
        now.saturating_add(self.skew).unwrap_or(now)
    }

    /// Takes in what is new and carries out what follows, until nothing follows any more.
    fn turn(&mut self, now: Timestamp) {
        if self.relist.is_some_and(|at| at <= now) {
            self.relist = None;
            self.heard = None;
        }
        let due = self.wake.is_some_and(|wake| wake <= now);
        let mut again = due;
        // A decision can change what has to be watched, and that what is decided: a few rounds.
        for _ in 0..ROUNDS {
            let news = self.scan(now) | self.listen(now);
            if !news && !again {
                return;
            }
            again = self.decide(now);
        }
        self.restless += 1;
    }

    fn scan(&mut self, now: Timestamp) -> bool {
        let known = self.seen.as_ref().map(Files::generation);
        if known == Some(self.files.generation()) {
            return false;
        }
        let at = self.wall(now);
        if let Some(tape) = &mut self.tape {
            tape.scanned(&self.files, self.seen.as_ref(), self.setup, at);
        }
        self.engine.scanned(self.files.look(self.seen.as_ref()));
        self.seen = Some(self.files.clone());
        true
    }

    fn listen(&mut self, now: Timestamp) -> bool {
        // What is watched can only have changed with a decision or a scan, which is followed by one.
        let heard = Some((self.node.pulse(), self.decisions));
        if self.heard == heard {
            return false;
        }
        self.heard = heard;
        let interests = self.engine.interests();
        let cluster = self.node.cluster();
        let mut events = match cluster.is_up() && self.dice.throw(self.faults.refused) {
            true => {
                let why = self.dice.refusal();
                self.listen_again(now);
                self.watch.refused(&interests, why)
            }
            false => self.watch.poll(cluster, &interests),
        };
        if !events.is_empty() && self.dice.throw(self.faults.lost) {
            self.watch.cut();
            self.listen_again(now);
            return false;
        }
        self.dice.disturb(&mut events, &self.faults);
        let news = !events.is_empty();
        let wall = self.wall(now);
        for event in events {
            self.engine.observed(event, wall);
        }
        news
    }

    /// What was not heard now is told anew a little later.
    fn listen_again(&mut self, now: Timestamp) {
        self.heard = None;
        self.relist = earliest([self.relist, Some(now + RETRY)]);
    }

    /// Decides and acts; true when that may lead to another decision at once.
    fn decide(&mut self, now: Timestamp) -> bool {
        self.decisions += 1;
        let before = self.engine.ledger().clone();
        let at = self.wall(now);
        if let Some(tape) = &mut self.tape {
            tape.before(&self.engine);
        }
        let decision = self.engine.decide(at);
        if let Some(tape) = &mut self.tape {
            tape.decided(at, &decision, &self.engine);
        }
        self.check(&before, now);
        self.wake = decision
            .next_wake
            .map(|wake| wake.saturating_sub(self.skew).unwrap_or(wake).max(now));
        self.status = Some(decision.status);
        let mut done = Vec::new();
        let acts = self.act(decision.actions, &mut done, now);
        if let Some(tape) = &mut self.tape {
            tape.acted(&done, &[]);
        }
        acts
    }

    fn act(&mut self, actions: Vec<Action>, done: &mut Vec<Action>, now: Timestamp) -> bool {
        if self.unsaved {
            self.unsaved = false;
            if !self.carry_out(&Action::SaveLedger(self.engine.ledger().clone()), now) {
                return false;
            }
        }
        let acts = !actions.is_empty();
        for action in actions {
            if !self.carry_out(&action, now) {
                return false;
            }
            done.push(action);
        }
        acts
    }

    /// One action; false when it was not carried out and what follows it must wait.
    fn carry_out(&mut self, action: &Action, now: Timestamp) -> bool {
        // Whether a marker that comes late is late by too much is a matter of RKE2's poll, not of
        // Windrow: faults delay markers only while RKE2 does not run.
        let racing = matches!(action, Action::Hold { .. }) && self.node.cluster().is_up();
        if !racing && self.dice.throw(self.faults.crash) {
            self.crash(now);
            return false;
        }
        if !racing && self.dice.throw(self.faults.disk_full) {
            self.tell_fault("the disk is full");
            self.unsaved = true;
            self.wake = Some(now + RETRY);
            return false;
        }
        match action {
            Action::Hold { path, mark } => {
                if self.is_foreign(path) {
                    return true;
                }
                self.node.tell(What::Held {
                    marker: path.clone(),
                    why: mark.why.clone(),
                });
                self.files.write(path.as_str(), mark.to_json(), now);
            }
            Action::SaveLedger(ledger) => self.saved = ledger.clone(),
            Action::Lift { path } => {
                if self.is_foreign(path) || !self.files.remove(path) {
                    return true;
                }
                self.node.tell(What::Lifted {
                    marker: path.clone(),
                });
            }
        }
        self.engine.done(action);
        true
    }

    fn is_foreign(&self, marker: &str) -> bool {
        self.files
            .get(marker)
            .is_some_and(|file| match &*file.content {
                Content::Bytes(bytes) => Mark::parse(bytes).is_none(),
                _ => true,
            })
    }

    /// Windrow dies and is started again: only the disk remains.
    fn crash(&mut self, now: Timestamp) {
        self.tell_fault("Windrow dies");
        if self.dice.throw(self.faults.ledger_lost) {
            self.tell_fault("the ledger is destroyed");
            self.saved = Ledger::default();
        }
        let at = self.wall(now);
        self.engine = engine(self.setup, self.saved.clone(), at);
        if let Some(tape) = &mut self.tape {
            tape.begin(self.setup, at);
        }
        self.watch = Watch::default();
        self.heard = None;
        self.seen = None;
        self.unsaved = false;
        self.wake = Some(now + RETRY);
    }

    /// What goes wrong around Windrow.
    fn disaster(&mut self, now: Timestamp) {
        if self.dice.throw(self.faults.clock) {
            let day = 24 * 3600;
            let seconds = self.dice.chance().below(2 * day) as i64 - day as i64;
            let by = SignedDuration::from_secs(seconds);
            self.tell_fault(&format!("the wall clock jumps by {by:#}"));
            self.skew += by;
            self.engine.clock_jumped(by);
            self.wake = Some(now);
        }
        if self.dice.throw(self.faults.reboot) {
            self.node.reboot();
            self.crash(now);
            // yip writes its files anew at every boot.
            for (path, file) in self.setup.files.iter() {
                if self.files.get(path).is_some() {
                    self.files.put(path, (*file.content).clone(), now);
                }
            }
        }
        if self.dice.throw(self.faults.files) {
            self.touch_a_file(now);
        }
    }

    fn touch_a_file(&mut self, now: Timestamp) {
        let paths: Vec<&str> = self.setup.files.manifests().map(|(path, _)| path).collect();
        let Some(path) = self.dice.chance().pick(&paths).copied() else {
            return;
        };
        let Some(original) = self.setup.files.get(path) else {
            return;
        };
        let content = (*original.content).clone();
        match (self.dice.chance().below(3), content) {
            (0, content) => {
                self.tell_fault(&format!("{path} is written anew"));
                self.files.put(path, content, now);
            }
            (1, Content::Bytes(mut bytes)) => {
                self.tell_fault(&format!("{path} gets a comment"));
                bytes.extend_from_slice(b"\n# touched\n");
                self.files.write(path, bytes, now);
            }
            (_, content) => {
                self.tell_fault(&format!("{path} vanishes and comes back"));
                self.files.remove(path);
                self.changes.add(now + RETRY, path, Some(content));
            }
        }
    }

    fn tell_fault(&mut self, fault: &str) {
        self.node.tell(What::Fault {
            fault: fault.to_owned(),
        });
    }

    /// Was everything that a newly released file requires so, in truth?
    fn check(&mut self, before: &Ledger, now: Timestamp) {
        let released: Vec<(String, Cause)> = self
            .engine
            .ledger()
            .files
            .iter()
            .filter_map(|(path, entry)| {
                let State::Released { cause } = entry.state else {
                    return None;
                };
                let known = before.files.get(path).is_some_and(|old| {
                    old.digest == entry.digest && !matches!(old.state, State::Held { .. })
                });
                (!known).then(|| (path.clone(), cause))
            })
            .collect();
        for (path, cause) in released {
            let unmet = match self
                .engine
                .plan()
                .files
                .iter()
                .find(|file| file.path == path)
            {
                Some(file) => self.unmet(file),
                None => Vec::new(),
            };
            self.releases.push(Release {
                at: now,
                file: path,
                cause,
                unmet,
            });
        }
    }

    fn unmet(&self, file: &PlanFile) -> Vec<String> {
        let plan = self.engine.plan();
        let required: Vec<_> = file
            .requirements()
            .filter(|one| one.tier == Tier::Required && one.takes_part())
            .map(|one| &plan.needs[one.need])
            .collect();
        let mut interests = Interests::default();
        for need in &required {
            match &need.target {
                Target::Kind(kind) => {
                    interests.kinds.insert(kind.clone());
                }
                Target::Object(object) => {
                    interests.objects.insert(object.clone(), Detail::Full);
                }
            }
        }
        let cluster = self.node.cluster();
        let mut truth = Observation::default();
        for event in Watch::default().poll(cluster, &interests) {
            truth.apply(event, cluster.now());
        }
        required
            .into_iter()
            .filter(|need| {
                let state =
                    readiness::holds(&need.target, &need.condition, &self.setup.rules, &truth);
                // A verdict can rest on more objects than the one that is named; those were not
                // looked up here.
                !matches!(state, NeedState::Met) && need.condition != Condition::Ready
            })
            .map(|need| format!("{} {}", need.target, need.condition))
            .collect()
    }
}

fn engine(setup: &Setup, ledger: Ledger, now: Timestamp) -> Engine {
    Engine::new(
        setup.settings.clone(),
        setup.rules.clone(),
        Some(setup.platform()),
        ledger,
        now,
    )
}

fn earliest<const N: usize>(times: [Option<Timestamp>; N]) -> Option<Timestamp> {
    times.into_iter().flatten().min()
}
