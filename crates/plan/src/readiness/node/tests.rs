//! Tests the judgement of a node with examples, with reports from the field, and with properties.

mod custom;
mod issues;
mod judgement;
mod oracle;
mod phase_times;
mod properties;
mod shown;
mod transitions;
mod tuning;

use std::collections::BTreeMap;

use jiff::{SignedDuration, Timestamp};

use super::*;
use crate::knowledge::LearnedPhase;
use crate::rules::Platform;

/// A node with its probes, a clock, and a state that is kept across restarts.
struct Node {
    seen: Option<NodeSeen>,
    platform: Option<Platform>,
    memory: NodeMemory,
    manifests: Manifests,
    trouble: Option<KnownProblem>,
    custom: Vec<CustomProbe>,
    tunings: Vec<ProbeTuning>,
    learned: Vec<LearnedPhase>,
    now: Timestamp,
}

impl Node {
    fn new(role: NodeRole, platform: Platform) -> Self {
        let mut node = Self {
            seen: None,
            platform: Some(platform),
            memory: NodeMemory::default(),
            manifests: Manifests::Settled {
                total: 3,
                kept: None,
            },
            trouble: None,
            custom: Vec::new(),
            tunings: Vec::new(),
            learned: Vec::new(),
            now: Timestamp::from_second(1_800_000_000).unwrap(),
        };
        node.boots(role, "boot-1");
        node
    }

    fn harvester(role: NodeRole) -> Self {
        Self::new(role, Platform::Harvester)
    }

    fn boots(&mut self, role: NodeRole, boot: &str) {
        self.seen = None;
        self.becomes(role, boot);
    }

    fn becomes(&mut self, role: NodeRole, boot: &str) {
        let mut all = tuned_specs(role, self.platform, &self.tunings);
        all.extend(custom_specs(&self.custom, role, self.platform));
        self.event(NodeEvent::Probing {
            role,
            boot: boot.to_owned(),
            specs: all,
        });
    }

    fn event(&mut self, event: NodeEvent) {
        NodeSeen::apply(&mut self.seen, event, self.now);
    }

    fn probes(&self) -> Vec<String> {
        let seen = self.seen.as_ref().unwrap();
        seen.probes.keys().map(ToString::to_string).collect()
    }

    fn answer(&mut self, probe: &str, outcome: ProbeOutcome) {
        let seen = self.seen.as_ref().unwrap();
        let id = seen.probes.keys().find(|id| id.as_str() == probe);
        let id = id.unwrap_or_else(|| panic!("{probe} does not apply to this node"));
        self.event(NodeEvent::Probed(id.clone(), outcome));
    }

    /// The same answer often enough to count, 10 s apart.
    fn settles(&mut self, probe: &str, outcome: &ProbeOutcome) {
        let seen = self.seen.as_ref().unwrap();
        let track = seen.probes.iter().find(|(id, _)| id.as_str() == probe);
        let times = track.map_or(3, |(_, track)| track.spec.fall.max(3));
        for _ in 0..times {
            self.answer(probe, outcome.clone());
        }
    }

    fn fails(&mut self, probe: &str, why: &str) {
        self.settles(probe, &ProbeOutcome::failed(why));
    }

    fn refused(&mut self, probe: &str, why: &str) {
        self.settles(probe, &ProbeOutcome::unknown("GET something", why));
    }

    /// Every probe passes except for these.
    fn passes_but(&mut self, others: &[&str]) {
        for probe in self.probes() {
            if !others.contains(&probe.as_str()) {
                self.settles(&probe, &ProbeOutcome::Passed);
            }
        }
    }

    /// Advances the time while every probe repeats its answer.
    fn later(&mut self, minutes: i64) {
        self.now += SignedDuration::from_mins(minutes);
        let seen = self.seen.as_ref().unwrap();
        let same: Vec<_> = seen
            .probes
            .values()
            .filter(|track| !track.message.contains("asked"))
            .map(|track| {
                let outcome = match track.state {
                    ProbeState::Passing => ProbeOutcome::Passed,
                    ProbeState::Failing => ProbeOutcome::Failed {
                        why: track.message.clone(),
                        code: track.code,
                        stuck: track.stuck,
                    },
                    ProbeState::Unknown => {
                        let parts = track.message.split_once(": ");
                        let (asked, why) = parts.unwrap_or(("something", &track.message));
                        ProbeOutcome::unknown(asked, why)
                    }
                };
                (track.spec.id.clone(), outcome)
            })
            .collect();
        for (id, outcome) in same {
            self.event(NodeEvent::Probed(id, outcome));
        }
    }

    fn judge(&mut self) -> NodeJudgement {
        let judged = judge(&NodeInputs {
            seen: self.seen.as_ref().unwrap(),
            platform: self.platform,
            learned: &self.learned,
            memory: &self.memory,
            manifests: &self.manifests,
            trouble: self.trouble.as_ref(),
            now: self.now,
        });
        self.memory = judged.memory.clone();
        judged
    }

    fn verdict(&mut self) -> (Readiness, Phase, windrow_model::reasons::Code) {
        let judged = self.judge();
        (judged.readiness, judged.phase, judged.code)
    }
}

#[test]
fn every_probe_belongs_to_a_phase_that_its_platform_has_and_names_no_other_twice() {
    for role in [
        NodeRole::FirstServer,
        NodeRole::JoinedServer,
        NodeRole::Agent,
        NodeRole::Witness,
        NodeRole::Unknown,
    ] {
        for platform in [None, Some(Platform::Rke2), Some(Platform::Harvester)] {
            let specs = specs(role, platform);
            let mut ids: Vec<_> = specs.iter().map(|spec| spec.id.clone()).collect();
            ids.sort();
            ids.dedup();
            assert_eq!(ids.len(), specs.len(), "{role} on {platform:?}");
            for spec in specs {
                assert!(
                    Phase::bootstrap(platform).contains(&spec.phase),
                    "{}",
                    spec.id
                );
                assert!(spec.rise > 0 && spec.fall > 0, "{}", spec.id);
                assert!(spec.timeout < spec.period, "{}", spec.id);
                let patience = (spec.period + spec.timeout) * (spec.fall + 1);
                assert!(spec.rest() + spec.timeout < patience, "{}", spec.id);
            }
        }
    }
}

#[test]
fn an_agent_is_asked_nothing_that_only_a_server_can_answer() {
    for role in [NodeRole::Agent, NodeRole::Witness] {
        let ids: Vec<String> = specs(role, Some(Platform::Harvester))
            .into_iter()
            .map(|spec| spec.id.to_string())
            .collect();
        for admin in [
            "rancher",
            "managed-chart",
            "webhook",
            "settings",
            "storage-network",
        ] {
            assert!(!ids.iter().any(|id| id == admin), "{role}: {admin}");
        }
        assert!(ids.iter().any(|id| id == "node"), "{role}");
    }
}

#[test]
fn a_machine_whose_role_is_not_known_is_asked_what_any_machine_can_answer() {
    let specs = specs(NodeRole::Unknown, Some(Platform::Harvester));
    let ids: Vec<&str> = specs.iter().map(|spec| spec.id.as_str()).collect();
    assert_eq!(
        ids,
        [
            "default-route",
            "nic-carrier",
            "rke2-installed",
            "clock",
            "disk-space",
            "disk-inodes",
            "memory",
            "load",
            "temperature",
            "link-errors",
            "hardware",
        ]
    );
}

/// The roles of a probe in the words of the documentation.
fn in_words(roles: &[NodeRole]) -> &'static str {
    let has = |role| roles.contains(&role);
    match (
        has(NodeRole::FirstServer),
        has(NodeRole::JoinedServer),
        has(NodeRole::Agent),
        has(NodeRole::Witness),
    ) {
        (true, true, true, true) => "all",
        (true, true, false, false) => "servers",
        (true, true, true, false) => "servers, agent",
        (true, true, false, true) => "servers, witness",
        (true, false, false, false) => "first server",
        (false, true, true, true) => "joined, agent, witness",
        other => panic!("the documentation has no words for {other:?}"),
    }
}

#[test]
fn the_documentation_has_every_probe_as_the_table_has_it() {
    let documentation = include_str!("../../../../../docs/readiness.md");
    for row in BUILTIN {
        let severity = match row.severity {
            ProbeSeverity::Required => "required",
            ProbeSeverity::Wanted => "wanted",
        };
        let phase = serde_json::to_value(row.phase).unwrap();
        let phase = phase.as_str().unwrap();
        let found = documentation.lines().any(|line| {
            line.starts_with(&format!("| `{}` | {} | ", row.name, in_words(row.roles)))
                && line.contains(&format!(" | {} s | {severity}", row.period))
                && line.contains(&format!(" | {phase} | {} |", row.asks))
                && line.contains("(day 0)") == row.day_zero
                && line.contains("| Harvester |") == row.platform.is_some()
        });
        assert!(found, "docs/readiness.md lacks or mistells {}", row.name);
    }
    let rows = documentation.lines().filter(|line| line.starts_with("| `"));
    // The other table of the page has five rows.
    assert_eq!(rows.count(), BUILTIN.len() + 5);
}
