//! The probes of the sandbox's node: the simulation answers them, and passes the answers to the daemon as real probes
//! would.

use std::collections::BTreeMap;
use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use windrow_decide::{ClusterEvent, Interests, NodeRole};
use windrow_plan::readiness::node::{NodeEvent, ProbeId, ProbeOutcome, ProbeSpec};
use windrow_plan::rules::Platform;
use windrow_simulate::{SimulatedNode, simulated_probes};

const BOOT: &str = "sandbox";
/// How long an answer is believed at least, in real time: a busy machine must not make a node Unknown.
const BELIEVED: Duration = Duration::from_secs(20);

pub(super) struct SimulatedProbing {
    specs: Vec<ProbeSpec>,
    begun: bool,
    answered: BTreeMap<ProbeId, (ProbeOutcome, Timestamp)>,
}

impl SimulatedProbing {
    pub(super) fn new(platform: Platform, speed: u32) -> Self {
        Self {
            specs: simulated_probes(platform, BELIEVED * speed),
            begun: false,
            answered: BTreeMap::new(),
        }
    }

    /// Returns new answers, and repeated ones.
    pub(super) fn ask(
        &mut self,
        node: &SimulatedNode,
        interests: &Interests,
        now: Timestamp,
    ) -> Vec<ClusterEvent> {
        if interests.probes.is_none() {
            return Vec::new();
        }
        let mut events = Vec::new();
        if !std::mem::replace(&mut self.begun, true) {
            events.push(NodeEvent::Probing {
                role: NodeRole::FirstServer,
                boot: BOOT.to_owned(),
                specs: self.specs.clone(),
            });
        }
        for spec in &self.specs {
            let outcome = node.answer_probe(spec.id.as_str());
            let period = SignedDuration::try_from(spec.period).unwrap_or(SignedDuration::MAX);
            let is_news = self
                .answered
                .get(&spec.id)
                .is_none_or(|(last, at)| *last != outcome || now.duration_since(*at) >= period);
            if is_news {
                let answer = (outcome.clone(), now);
                self.answered.insert(spec.id.clone(), answer);
                events.push(NodeEvent::Probed(spec.id.clone(), outcome));
            }
        }
        events.into_iter().map(ClusterEvent::Node).collect()
    }
}
