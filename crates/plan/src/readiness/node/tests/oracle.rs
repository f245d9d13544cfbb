//! Compares the reported state of a node with its real state.
//!
//! Each probe checks a part that works or is down. Its answers are correct, unknown, alternating or missing. Windrow and the node
//! restart, probes are switched off and on, and transitions start and end. The oracle knows the parts and the promises of the
//! documentation, and reads only the reported state from the code under test.

use std::collections::VecDeque;

use proptest::prelude::*;
use windrow_model::findings::Location;

use super::*;

/// How a part answers its probe.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Answering {
    /// With its real state.
    Truly,
    /// With unknown answers.
    Unknown,
    /// Not at all.
    Never,
    /// With its real state or unknown answers, in turns that these bits determine.
    Mixed(u8),
}

#[derive(Debug, Clone)]
enum Happening {
    Part(prop::sample::Index, bool),
    Answers(prop::sample::Index, Answering),
    /// All parts work and answer.
    AllWell,
    WindrowRestarts,
    Reboots,
    /// These probes are switched off, and the others on.
    Reload(&'static [&'static str]),
    Transition(Transition, bool),
}

/// The oracle's state of a part.
#[derive(Debug, Clone)]
struct Part {
    works: bool,
    answering: Answering,
    /// When it last started to work, or went down.
    since: Timestamp,
    /// Since when it answers like this.
    answered_since: Timestamp,
    /// Since when this process checks it.
    asked_since: Timestamp,
    next: Timestamp,
    /// Whether the last answers passed, the newest first.
    answers: VecDeque<bool>,
    count: u8,
}

struct World {
    node: Node,
    role: NodeRole,
    boots: u32,
    parts: BTreeMap<String, Part>,
    /// Whether each transition is running, and since when.
    transitions: BTreeMap<Transition, (bool, Timestamp)>,
}

const NODE_QUESTION: &[&str] = &["node", "node-conditions", "etcd-member", "virt-handler"];
/// The signs of an upgrade by system-upgrade-controller or by a user.
const UPGRADE_SIGNS: &[&str] = &[
    "node",
    "node-conditions",
    "etcd-member",
    "virt-handler",
    "rke2-service",
];
const SECOND: SignedDuration = SignedDuration::from_secs(1);

fn seconds(duration: std::time::Duration) -> SignedDuration {
    SignedDuration::try_from(duration).unwrap()
}

/// `docs/readiness.md`: within this time the answers show that a part is down, or that its state is unknown.
fn shown_within(spec: &ProbeSpec) -> SignedDuration {
    let silence = (spec.period + spec.timeout) * (spec.fall + 1);
    // A resting probe delays the first answer that counts by at most a minute.
    let resting = spec.period * spec.fall + std::time::Duration::from_secs(60);
    seconds(silence.max(resting)) + SECOND
}

/// Within this time the answers show that it works again, or a new process has its state.
const RECOVERED: SignedDuration = SignedDuration::from_secs(90);
/// Within this time a finished transition excuses nothing any more, if its reporters answer.
const FORGOTTEN: SignedDuration = SignedDuration::from_mins(6);

impl World {
    fn new(role: NodeRole, platform: Platform) -> Self {
        let node = Node::new(role, platform);
        let now = node.now;
        let mut world = Self {
            role,
            boots: 1,
            parts: BTreeMap::new(),
            transitions: BTreeMap::new(),
            node,
        };
        for spec in specs(role, Some(platform)) {
            // The test runs are too short for probes with a longer period, and begin after day 0.
            if spec.period.as_secs() <= 60 && !spec.day_zero {
                let part = Part {
                    works: true,
                    answering: Answering::Truly,
                    since: now - SignedDuration::from_hours(1),
                    answered_since: now - SignedDuration::from_hours(1),
                    asked_since: now,
                    next: now,
                    answers: VecDeque::new(),
                    count: 0,
                };
                world.parts.insert(spec.id.to_string(), part);
            }
        }
        world.probe();
        world
    }

    /// The probes that are switched on.
    fn on(&self) -> Vec<(ProbeSpec, &Part)> {
        let all = tuned_specs(self.role, self.node.platform, &self.node.tunings);
        let on = all.into_iter().filter(|spec| spec.off.is_none());
        on.filter_map(|spec| {
            let part = self.parts.get(spec.id.as_str())?;
            Some((spec, part))
        })
        .collect()
    }

    fn boot(&self) -> String {
        format!("boot-{}", self.boots)
    }

    fn probe(&mut self) {
        let specs = tuned_specs(self.role, self.node.platform, &self.node.tunings);
        let known = specs
            .into_iter()
            .filter(|spec| self.parts.contains_key(spec.id.as_str()));
        let event = NodeEvent::Probing {
            role: self.role,
            boot: self.boot(),
            specs: known.collect(),
        };
        self.node.event(event);
    }

    fn restart(&mut self) {
        self.node.seen = None;
        for part in self.parts.values_mut() {
            part.answers.clear();
            (part.asked_since, part.next) = (self.node.now, self.node.now);
        }
        self.probe();
    }

    fn happens(&mut self, happening: &Happening) {
        let now = self.node.now;
        let names: Vec<String> = self.parts.keys().cloned().collect();
        match happening {
            Happening::Part(which, works) => {
                let part = self.parts.get_mut(which.get(&names)).unwrap();
                if part.works != *works {
                    (part.works, part.since) = (*works, now);
                }
            }
            Happening::Answers(which, answering) => {
                let part = self.parts.get_mut(which.get(&names)).unwrap();
                if part.answering != *answering {
                    (part.answering, part.answered_since) = (*answering, now);
                }
            }
            Happening::AllWell => {
                for part in self.parts.values_mut() {
                    if !part.works {
                        (part.works, part.since) = (true, now);
                    }
                    if part.answering != Answering::Truly {
                        (part.answering, part.answered_since) = (Answering::Truly, now);
                    }
                }
            }
            Happening::WindrowRestarts => self.restart(),
            Happening::Reboots => {
                self.boots += 1;
                self.restart();
            }
            Happening::Reload(off) => {
                let tuning = |name: &&str| ProbeTuning {
                    name: (*name).to_owned(),
                    off: Some(Location::file("windrow.yaml")),
                    period: None,
                    fall: None,
                    only_wanted: true,
                    limit: None,
                };
                let before: Vec<String> = self
                    .on()
                    .iter()
                    .map(|(spec, _)| spec.id.to_string())
                    .collect();
                self.node.tunings = off.iter().map(tuning).collect();
                for (name, part) in &mut self.parts {
                    if !before.contains(name) {
                        part.answers.clear();
                        (part.asked_since, part.next) = (now, now);
                    }
                }
                self.probe();
            }
            Happening::Transition(kind, goes_on) => {
                let known = self.transitions.entry(*kind).or_insert((*goes_on, now));
                if known.0 != *goes_on {
                    *known = (*goes_on, now);
                }
            }
        }
    }

    fn reporters(&self, kind: Transition) -> &'static [&'static str] {
        let on_harvester = self.node.platform == Some(Platform::Harvester);
        match kind {
            Transition::Shutdown | Transition::Restart => &["rke2-service"],
            Transition::Upgrade if on_harvester && self.role.serves_api() => &["settings"],
            Transition::Upgrade => UPGRADE_SIGNS,
            _ => NODE_QUESTION,
        }
    }

    /// Runs the probes that are due, as often as the documentation promises.
    fn ask(&mut self) {
        let now = self.node.now;
        let due = self.on().into_iter().filter(|(_, part)| part.next <= now);
        let due: Vec<ProbeSpec> = due.map(|(spec, _)| spec).collect();
        for spec in due {
            let name = spec.id.as_str();
            let part = self.parts.get_mut(name).unwrap();
            part.count = part.count.wrapping_add(1);
            let tells = match part.answering {
                Answering::Truly => Some(true),
                Answering::Unknown => Some(false),
                Answering::Never => None,
                Answering::Mixed(bits) => Some(bits >> (part.count % 8) & 1 == 1),
            };
            let passes = tells == Some(true) && part.works;
            let is_new = part.answers.iter().all(|passed| !passed);
            let pause = match spec.severity {
                _ if passes => seconds(spec.rest()),
                ProbeSeverity::Wanted if is_new && spec.fall <= 3 && part.answers.len() < 3 => {
                    SignedDuration::from_secs(5)
                }
                _ => seconds(spec.period),
            };
            part.next = now + pause;
            let Some(tells) = tells else { continue };
            part.answers.push_front(passes);
            part.answers.truncate(16);
            let outcome = match (tells, part.works) {
                (true, true) => ProbeOutcome::Passed,
                (true, false) => ProbeOutcome::failed("it is down"),
                (false, _) => ProbeOutcome::unknown("GET it", "504"),
            };
            let kinds: Vec<(Transition, bool)> = self
                .transitions
                .iter()
                .map(|(kind, (goes_on, _))| (*kind, *goes_on))
                .collect();
            for (kind, goes_on) in kinds {
                if tells && self.reporters(kind).contains(&name) {
                    let sign = goes_on.then(|| "it goes on".to_owned().into());
                    self.node.event(NodeEvent::Transition(kind, sign));
                }
            }
            self.node.event(NodeEvent::Probed(spec.id.clone(), outcome));
        }
    }

    /// Whether it has worked, or been down, with real answers for this long.
    fn for_long(&self, part: &Part, works: bool, long: SignedDuration) -> bool {
        let since = part.since.max(part.answered_since).max(part.asked_since);
        part.works == works
            && part.answering == Answering::Truly
            && self.node.now.duration_since(since) > long
    }

    fn judge(&mut self) -> Result<(), TestCaseError> {
        let judged = self.node.judge();
        let now = self.node.now;
        let said = judged.readiness;
        let arrived = matches!(said, Readiness::Ready | Readiness::Degraded);
        let on = self.on();
        for (spec, part) in &on {
            let is_down_for_long =
                !part.works && now.duration_since(part.since) > shown_within(spec);
            let is_required = spec.severity == ProbeSeverity::Required;
            if is_required && is_down_for_long {
                prop_assert!(
                    !arrived,
                    "{said:?}, and {} is down since {}",
                    spec.id,
                    part.since
                );
            }
            let is_down_and_told = !part.works
                && part.answering == Answering::Truly
                && part.since.max(part.answered_since) < part.asked_since;
            if !is_required && is_down_and_told {
                prop_assert_ne!(
                    said,
                    Readiness::Ready,
                    "{} is down since before it was first asked",
                    spec.id
                );
            }
            let track = &self.node.seen.as_ref().unwrap().probes[&spec.id];
            let fall = spec.fall as usize;
            let answers = part.answers.iter().take(fall);
            if part.answers.len() >= fall && answers.clone().all(|passed| !passed) {
                prop_assert_ne!(
                    track.state,
                    ProbeState::Passing,
                    "{}: no pass among its last answers",
                    spec.id
                );
            }
        }
        let well_for = |long| on.iter().all(|(_, part)| self.for_long(part, true, long));
        if well_for(SECOND * 60) && self.transitions.values().all(|(goes_on, _)| !goes_on) {
            prop_assert!(
                said != Readiness::Failed && said != Readiness::SettingUp,
                "{judged:?}, and every part works"
            );
        }
        if well_for(RECOVERED) {
            let is_overdue = self
                .transitions
                .values()
                .any(|(goes_on, since)| *goes_on || now.duration_since(*since) < FORGOTTEN);
            prop_assert!(
                said == Readiness::Ready || is_overdue,
                "{judged:?}, and every part works and is answered for"
            );
        }
        let is_over = self.transitions.iter().all(|(kind, (goes_on, since))| {
            let reporters = self.reporters(*kind);
            let reports: Vec<&Part> = on
                .iter()
                .filter(|(spec, _)| reporters.contains(&spec.id.as_str()))
                .map(|(_, part)| *part)
                .collect();
            // A probe that is off reports nothing. One that is on and answers correctly reports the end.
            let is_told = reports.is_empty()
                || reports.iter().any(|part| {
                    part.answering == Answering::Truly
                        && now.duration_since(part.answered_since) > FORGOTTEN
                });
            is_told && (reports.is_empty() || !goes_on && now.duration_since(*since) > FORGOTTEN)
        });
        let was_ready = self.node.memory.ready_boot == self.boot();
        let is_lost = on.iter().any(|(spec, part)| {
            spec.severity == ProbeSeverity::Required
                && self.for_long(part, false, shown_within(spec))
        });
        if is_lost && is_over && was_ready {
            prop_assert_eq!(said, Readiness::Failed, "{:?}: nothing excuses it", judged);
        }
        Ok(())
    }

    fn live(&mut self, long: i64) -> Result<(), TestCaseError> {
        let end = self.node.now + SignedDuration::from_secs(long);
        while self.node.now < end {
            self.ask();
            self.judge()?;
            self.node.now += SECOND * 5;
        }
        Ok(())
    }
}

fn happening() -> impl Strategy<Value = Happening> {
    let which = any::<prop::sample::Index>;
    prop_oneof![
        4 => (which(), prop::bool::weighted(0.4)).prop_map(|(which, works)| Happening::Part(which, works)),
        3 => (which(), prop_oneof![
            2 => Just(Answering::Truly),
            1 => Just(Answering::Unknown),
            1 => Just(Answering::Never),
            3 => any::<u8>().prop_map(Answering::Mixed),
        ]).prop_map(|(which, answering)| Happening::Answers(which, answering)),
        2 => Just(Happening::AllWell),
        2 => Just(Happening::WindrowRestarts),
        1 => Just(Happening::Reboots),
        2 => prop_oneof![
            Just(&[] as &[&str]),
            Just(NODE_QUESTION),
            Just(&["settings"] as &[&str]),
            Just(&["rke2-service"] as &[&str]),
        ].prop_map(Happening::Reload),
        2 => (prop_oneof![
            Just(Transition::Restart),
            Just(Transition::Drain),
            Just(Transition::Promotion),
            Just(Transition::Upgrade),
        ], any::<bool>()).prop_map(|(kind, goes_on)| Happening::Transition(kind, goes_on)),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    #[test]
    fn what_is_announced_of_a_node_is_what_it_is_really_like(
        role in prop_oneof![
            Just(NodeRole::FirstServer),
            Just(NodeRole::JoinedServer),
            Just(NodeRole::Agent),
            Just(NodeRole::Witness),
        ],
        platform in prop_oneof![Just(Platform::Harvester), Just(Platform::Rke2)],
        story in prop::collection::vec((happening(), 0_i64..300), 1..30),
    ) {
        let mut world = World::new(role, platform);
        world.live(60)?;
        for (happening, long) in story {
            world.happens(&happening);
            world.live(long)?;
        }
        world.live(600)?;
    }
}
