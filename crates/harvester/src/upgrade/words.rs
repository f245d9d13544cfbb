//! An upgrade in words: one line for a node's status, which changes only when something does, and several lines with durations
//! for users.

use jiff::Timestamp;

use windrow_model::span;

use super::{HarvesterUpgrade, NodeStage, UpgradingNode};
use crate::objects::text;

/// Limit on the nodes to name in a line.
const NAMED: usize = 3;

pub(super) struct OverallFacts {
    /// As in the label of Harvester.
    pub(super) state: &'static str,
    /// The condition with which it begins; empty for the first.
    pub(super) follows: &'static str,
    waits_for: &'static str,
}

const fn overall(
    state: &'static str,
    follows: &'static str,
    waits_for: &'static str,
) -> OverallFacts {
    OverallFacts {
        state,
        follows,
        waits_for,
    }
}

pub(super) const OVERALL: &[OverallFacts] = &[
    overall("PreparingLoggingInfra", "", "its logging"),
    overall("LoggingInfraPrepared", "LogReady", "its image"),
    overall("CreatingUpgradeImage", "LogReady", "its image"),
    overall("PreparingRepo", "ImageReady", "its repository"),
    overall(
        "RepoPrepared",
        "ImageReady",
        "the release information of its repository",
    ),
    overall(
        "PreparingNodes",
        "RepoReady",
        "the nodes to load the new images",
    ),
    overall(
        "UpgradingSystemServices",
        "NodesPrepared",
        "Harvester's own charts",
    ),
    overall(
        "UpgradingNodes",
        "SystemServicesUpgraded",
        "its nodes, one after the other",
    ),
];

impl HarvesterUpgrade<'_> {
    /// One line for a node's status: the active nodes, since when they are active, and their next event.
    pub fn in_a_line(&self) -> String {
        let state = match self.state() {
            "" => "just begun",
            state => state,
        };
        let busy: Vec<String> = self.busy().map(UpgradingNode::in_a_line).collect();
        let (named, more) = busy.split_at(busy.len().min(NAMED));
        let mut line = format!("Harvester: {state}");
        match (named, self.waits_for()) {
            ([], "") => {}
            ([], waits_for) => line = format!("{line}, waits for {waits_for}"),
            (named, _) => line = format!("{line}; {}", named.join("; ")),
        }
        if !more.is_empty() {
            line = format!("{line}; and {} more nodes", more.len());
        }
        line
    }

    /// Line by line for users: the upgrade, then every node that is not done.
    pub fn in_lines(&self, now: Timestamp) -> Vec<String> {
        let to = match text(self.object, "/spec/version") {
            "" => String::new(),
            version => format!(" to {version}"),
        };
        let state = match self.state() {
            "" => "just begun",
            state => state,
        };
        let since = self.since().map(|since| lasting(since, now));
        let waits_for = match self.waits_for() {
            "" => String::new(),
            waits_for => format!(", waits for {waits_for}"),
        };
        let done = self.in_stage(NodeStage::Succeeded).count();
        let mut lines = vec![format!(
            "{}{to}: {state}{}{waits_for}; {done} of {} nodes done",
            self.subject(),
            since.unwrap_or_default(),
            self.nodes.len()
        )];
        let left = self.nodes.iter();
        let left = left.filter(|node| node.stage != NodeStage::Succeeded);
        lines.extend(left.map(|node| node.in_words(now)));
        lines
    }

    fn waits_for(&self) -> &'static str {
        let known = OVERALL.iter().find(|one| one.state == self.state());
        known.map_or("", |one| one.waits_for)
    }

    pub(super) fn busy(&self) -> impl Iterator<Item = &UpgradingNode<'_>> {
        let rests = |node: &&UpgradingNode<'_>| node.stage.rests() && !node.runs_alone;
        self.nodes.iter().filter(move |node| !rests(node))
    }
}

impl UpgradingNode<'_> {
    fn in_a_line(&self) -> String {
        let since = self.since.map_or(String::new(), |since| {
            format!(" since {} UTC", since.strftime("%Y-%m-%d %H:%M"))
        });
        format!("{} is {}{since}{}", self.name, self.state, self.waiting())
    }

    fn in_words(&self, now: Timestamp) -> String {
        let since = self.since.map(|since| lasting(since, now));
        let usual = self.stage.facts().map_or(i64::MAX, |facts| facts.usual);
        let long = match self.is_there_for(usual, now) {
            true => format!(" (longer than {usual} min)"),
            false => String::new(),
        };
        format!(
            "Node {}: {}{}{long}{}",
            self.name,
            self.state,
            since.unwrap_or_default(),
            self.waiting()
        )
    }

    fn waiting(&self) -> String {
        match self.stage.facts().map_or("", |facts| facts.waits_for) {
            _ if self.runs_alone => ", its upgrade runs".to_owned(),
            _ if self.stage == NodeStage::PreDrained && self.post_drained.is_some() => {
                ", its post-drain Job is complete, waits for Harvester to see that".to_owned()
            }
            "" => String::new(),
            waits_for => format!(", waits for {waits_for}"),
        }
    }
}

/// ` for 1 h 5 min`.
fn lasting(since: Timestamp, now: Timestamp) -> String {
    let seconds = now.duration_since(since).as_secs().max(0);
    format!(" for {}", span(seconds.unsigned_abs()))
}
