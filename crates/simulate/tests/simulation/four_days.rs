//! Four days of one daemon's core on a simulated node that never comes to rest: its memory, requests and writes do not grow.
//!
//! A file changes each half minute, and others come for a while; definitions and namespaces go and come back; watches end, are
//! rejected for minutes, the machine restarts, the process does, it pauses for an hour, and the wall clock is set by up to a day.
//! The second two days are compared with the first two: single days differ by a fifth, as chance has it.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use windrow_decide::flight::{Recorder, Tap};
use windrow_decide::{Action, Ledger, StagingState};
use windrow_plan::rules::{Platform, RuleSet};
use windrow_simulate::{Chance, Scenario, SimulatedDirectory, SimulatedNode, Watch};

use crate::bootstraps::{custom, definition};

const HOURS: usize = 96;
const FILES: u64 = 50;
/// Files that appear for five minutes, under different names each time for two hours.
const PASSING: u64 = 24;
const STEP: Duration = Duration::from_secs(30);
/// Limit on the consecutive decisions.
const ROUNDS: usize = 20;

/// The costs of one hour.
#[derive(Debug, Default, Clone, Copy)]
struct Hour {
    decisions: usize,
    events: usize,
    actions: usize,
    reported: usize,
    flight: usize,
    /// The maximum at any time in this hour.
    ledger: usize,
    observation: usize,
    interests: usize,
    status: usize,
}

/// The figures of an hour by name.
type Figure = (&'static str, fn(&Hour) -> usize);
const FIGURES: [Figure; 9] = [
    ("decisions", |hour| hour.decisions),
    ("events", |hour| hour.events),
    ("actions", |hour| hour.actions),
    ("what is reported", |hour| hour.reported),
    ("bytes of the flight", |hour| hour.flight),
    ("bytes of the ledger", |hour| hour.ledger),
    ("bytes of what was observed", |hour| hour.observation),
    ("what is watched", |hour| hour.interests),
    ("bytes of the status", |hour| hour.status),
];

struct Machine {
    node: SimulatedNode,
    disk: SimulatedDirectory,
    state: StagingState,
    watch: Watch,
    saved: Arc<Ledger>,
    seen: Option<u64>,
    wake: Option<Timestamp>,
    skew: SignedDuration,
    is_refused: bool,
    tap: Tap,
    recorder: Recorder,
    hour: Hour,
}

impl Machine {
    fn new(start: Timestamp) -> Self {
        let state = StagingState::new(
            Arc::default(),
            Arc::new(RuleSet::shipped()),
            Some(Platform::Rke2),
            Ledger::default(),
            start,
        );
        Self {
            node: SimulatedNode::new(Scenario::rke2(start), 1),
            disk: SimulatedDirectory::new(),
            state,
            watch: Watch::default(),
            saved: Arc::default(),
            seen: None,
            wake: Some(start),
            skew: SignedDuration::ZERO,
            is_refused: false,
            tap: Tap::default(),
            recorder: Recorder::default(),
            hour: Hour::default(),
        }
    }

    fn wall(&self, now: Timestamp) -> Timestamp {
        now + self.skew
    }

    /// A new process, which only has the content of the disk.
    fn restart(&mut self, now: Timestamp) {
        self.state = self
            .state
            .restarted(Arc::clone(&self.saved), self.wall(now));
        self.watch = Watch::default();
        self.seen = None;
        self.wake = Some(now);
        self.tap.start_over();
        self.recorder.start_over();
    }

    /// The time passes up to `until`, with the actions of the daemon in it, or without the daemon.
    fn pass(&mut self, mut now: Timestamp, until: Timestamp, stands_still: bool) {
        while now < until {
            let wake = self.wake.filter(|_| !stands_still);
            let next = [self.node.next_event_at(), wake]
                .into_iter()
                .flatten()
                .min();
            now = next.map_or(until, |next| next.clamp(now, until));
            self.node.advance(now, &self.disk);
            if !stands_still {
                self.turn(now);
            }
            if next.is_none_or(|next| next >= until) {
                return;
            }
        }
    }

    fn turn(&mut self, now: Timestamp) {
        let mut again = self.wake.is_some_and(|wake| wake <= now);
        for _ in 0..ROUNDS {
            if !(self.look() | self.listen(now) | again) {
                return;
            }
            again = self.decide(now);
        }
        panic!("it goes on deciding though nothing happens, at {now}");
    }

    fn look(&mut self) -> bool {
        let is_new = self.seen != Some(self.disk.generation());
        if is_new {
            self.state.take_directory(self.disk.look(self.seen));
            self.seen = Some(self.disk.generation());
        }
        is_new
    }

    fn listen(&mut self, now: Timestamp) -> bool {
        let interests = self.state.interests();
        self.hour.interests = self
            .hour
            .interests
            .max(interests.objects.len() + interests.kinds.len());
        // A rejection is reported once; then the watch lists again.
        let events = match std::mem::take(&mut self.is_refused) {
            true => self.watch.refused(&interests, "503"),
            false => self.watch.poll(self.node.cluster(), &interests),
        };
        self.hour.events += events.len();
        let is_news = !events.is_empty();
        for event in events {
            let at = now + self.skew;
            self.state.take_event(event, at);
        }
        is_news
    }

    fn decide(&mut self, now: Timestamp) -> bool {
        let at = self.wall(now);
        self.tap.before(self.state.ledger());
        let decision = self.state.decide(at);
        self.tap.decided(at, &decision, self.state.observation());
        self.wake = decision.next_wake.map(|wake| (wake - self.skew).max(now));
        for action in &decision.actions {
            match action {
                Action::Hold { path, mark } => {
                    self.disk.write(path.as_str(), mark.to_json(), now);
                }
                Action::Lift { path } => drop(self.disk.remove(path.as_str())),
                Action::SaveLedger(ledger) => self.saved = Arc::clone(ledger),
            }
            self.state.record_done(action);
        }
        if let Some(made) = self.tap.acted(&decision.actions, &decision.events) {
            let line = serde_json::to_string(&self.recorder.record(made)).expect("a line");
            self.hour.flight += line.len() + 1;
        }
        let hour = &mut self.hour;
        hour.decisions += 1;
        hour.actions += decision.actions.len();
        hour.reported += decision.events.len();
        !decision.actions.is_empty()
    }

    /// Measures the size of the stored state.
    fn weigh(&mut self, now: Timestamp) {
        let at = self.wall(now);
        let status = self.state.decide(at).status;
        let hour = &mut self.hour;
        let ledger = serde_json::to_string(&**self.state.ledger())
            .expect("a ledger")
            .len();
        hour.ledger = hour.ledger.max(ledger);
        let observed = format!("{:?}", self.state.observation()).len();
        hour.observation = hour.observation.max(observed);
        let status = serde_json::to_string(&status).expect("a status").len();
        hour.status = hour.status.max(status);
    }
}

/// The present file of a number. Among ten files, one defines a kind, one creates a namespace, three need them, and one has a
/// requirement that is never met.
fn content(number: u64, turn: u64) -> String {
    let group = number / 10 % 4;
    match number % 10 {
        0 => {
            definition(["Apple", "Berry", "Cherry", "Date"][group as usize])
                + &format!("# {turn}\n")
        }
        1 => format!(
            "apiVersion: v1\nkind: Namespace\nmetadata: {{name: space-{group}, labels: {{turn: t{turn}}}}}\n"
        ),
        2..=3 => custom(
            ["Apple", "Berry", "Cherry", "Date"][group as usize],
            &format!("one-{number}-{}", turn % 3),
        ),
        4 => format!(
            "apiVersion: v1\nkind: ConfigMap\nmetadata: {{name: m{number}, namespace: space-{group}}}\ndata: {{turn: '{turn}'}}\n"
        ),
        5 => custom("Never", &format!("never-{}", turn % 3)),
        _ => format!(
            "apiVersion: v1\nkind: ConfigMap\nmetadata: {{name: m{number}}}\ndata: {{turn: '{turn}'}}\n"
        ),
    }
}

fn path(number: u64) -> String {
    format!("{:03}.yaml", number * 37 % FILES)
}

#[test]
fn a_node_that_never_comes_to_rest_for_four_days_makes_nothing_grow() {
    let start = Timestamp::constant(1_767_225_600, 0);
    let mut machine = Machine::new(start);
    let mut chance = Chance::new(48);
    let mut turns: BTreeMap<u64, u64> = BTreeMap::new();
    for number in 0..FILES {
        machine.disk.write(path(number), content(number, 0), start);
    }
    let mut hours = Vec::new();
    let mut now = start;
    for step in 1.. {
        if hours.len() == HOURS {
            break;
        }
        let number = chance.below(FILES);
        let turn = turns.entry(number).or_default();
        *turn += 1;
        match chance.below(8) {
            // It comes back when it is drawn again.
            0 => drop(machine.disk.remove(&path(number))),
            _ => machine
                .disk
                .write(path(number), content(number, *turn), now),
        }
        if step % 10 == 0 {
            let (before, next) = ((step / 10 - 1) % PASSING, step / 10 % PASSING);
            machine.disk.remove(&format!("once-{before}.yaml"));
            let text = content(next % 3 + 4, next);
            machine.disk.write(format!("once-{next}.yaml"), text, now);
        }
        // In minutes of the hour, the hours by turns.
        match (step % 120, hours.len() % 8) {
            (10 | 50 | 90, _) => machine.watch.cut(),
            (20, _) => machine.is_refused = true,
            (60, 1 | 5) => machine.node.reboot(0),
            (62, 1 | 5) | (70, 3) => machine.restart(now),
            (80, 2 | 4 | 6) => {
                let by = chance.below(48 * 3600);
                let by = SignedDuration::from_secs(i64::try_from(by).unwrap() - 24 * 3600);
                machine.state.shift_clock(by);
                machine.skew += by;
            }
            _ => {}
        }
        let next = now + STEP;
        machine.pass(now, next, hours.len() % 8 == 7);
        now = next;
        if step % 60 == 0 {
            machine.weigh(now);
        }
        if step % 120 == 0 {
            hours.push(std::mem::take(&mut machine.hour));
        }
    }
    assert_eq!(now.duration_since(start), SignedDuration::from_hours(96));
    for (name, figure) in FIGURES {
        let sum = |hours: &[Hour]| hours.iter().map(figure).sum::<usize>();
        let (first, second) = (sum(&hours[..HOURS / 2]), sum(&hours[HOURS / 2..]));
        let each: Vec<usize> = hours.iter().map(figure).collect();
        assert!(first > 0, "{name}");
        assert!(
            second <= first + first / 10,
            "{name}: {first} on the first two days, {second} on the next: {each:?}"
        );
    }
}
