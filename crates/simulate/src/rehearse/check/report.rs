//! The report of a check: one verdict, the first reason, and all findings, each of them once.
//!
//! The names of its fields are stable, and `docs/check.schema.json` is generated from these types.

use std::collections::{BTreeMap, BTreeSet};

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use windrow_model::findings::{Finding, Location};
use windrow_model::manifest::ManifestPath;
use windrow_model::reasons::Code;
use windrow_model::unchecked::NotChecked;
use windrow_plan::knowledge::LearnedShare;

use super::super::prediction::Prediction;
use super::super::rehearsal::{EndCount, MemberRole, NodeRehearsal, Rehearsal, Span};
use super::acceptance::{Acceptance, Acceptances};
use super::counts::{CheckCounts, InputSizes};
use super::finding::CheckedFinding;
use super::outcome::{self, CutShort};
use super::verdict::{CheckPart, CheckVerdict};

/// Output of `windrow check -o json`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct CheckReport {
    /// `windrow.dev/v1`
    pub api_version: String,
    /// `Check`
    pub kind: String,
    /// Version of Windrow.
    pub windrow: String,
    /// Verdict; accepted findings do not count.
    pub verdict: CheckVerdict,
    /// First reason; absent if the verdict is pass.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub because: Option<CheckedFinding>,
    /// Verdict of each part; without the simulation if no node boots, or none was simulated.
    pub parts: Vec<PartVerdict>,
    /// How many requirements of the files are known from earlier boots; absent if there are none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub learned: Option<LearnedShare>,
    /// Verdict of each node.
    pub nodes: Vec<NodeVerdict>,
    /// All findings, the worst first; accepted ones come last.
    pub findings: Vec<CheckedFinding>,
    /// What no rule judged. What can keep a component from starting is also a finding, `value-not-checked`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub not_checked: Vec<NotChecked>,
    /// What was read, and the number of findings of each verdict.
    #[serde(default)]
    pub counts: CheckCounts,
}

/// Verdict of a part.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct PartVerdict {
    /// Name of the part.
    pub part: CheckPart,
    /// Verdict.
    pub verdict: CheckVerdict,
}

/// Verdict of a node.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct NodeVerdict {
    /// Name of the node.
    pub name: String,
    /// Role of the node in its cluster.
    #[serde(default)]
    pub role: MemberRole,
    /// Harvester's version; absent for plain RKE2.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub harvester: Option<String>,
    /// Verdict.
    pub verdict: CheckVerdict,
    /// What keeps this node from its first boot, or a component of it from starting; absent if nothing does. Its boot is then
    /// not simulated: `without` and `with` are empty.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stopped_by: Option<StoppedBy>,
    /// Number of simulated boots.
    pub seeds: u64,
    /// Ends of the bootstraps without Windrow, the most frequent first.
    pub without: Vec<EndCount>,
    /// Ends of the bootstraps with Windrow, the most frequent first.
    pub with: Vec<EndCount>,
    /// When everything is up with Windrow, in seconds from power-on: smallest and largest value; absent if it never is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub over: Option<Span>,
    /// The same as a prediction.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub over_in: Option<Prediction>,
}

/// What ends a node before everything that a simulation could show.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "camelCase")]
pub enum StoppedBy {
    /// Harvester's installer refuses the configuration.
    Installer,
    /// Harvester's installer takes a configuration with which no node comes up.
    Installation,
    /// RKE2 or a component of Kubernetes does not start.
    Component,
}

impl StoppedBy {
    pub fn describe(self) -> &'static str {
        match self {
            Self::Installer => "Harvester's installer stops before the first boot",
            Self::Installation => "no node comes up with what Harvester's installer writes",
            Self::Component => "RKE2 or a component of Kubernetes does not start",
        }
    }
}

#[derive(Debug, Clone, Default, PartialEq)]
pub struct CheckedNode {
    /// All findings from before the rehearsal.
    pub findings: Vec<(CheckPart, Finding)>,
    /// Whether an error about its feature gates and arguments keeps a component from starting.
    pub component_stops: bool,
    /// What no rule judged.
    pub not_checked: Vec<NotChecked>,
    /// The position of each manifest for the user.
    pub files: BTreeMap<ManifestPath, Location>,
    /// The position of each VM, by its name in messages.
    pub machines: BTreeMap<String, Location>,
    /// The acceptances in annotations of its manifests.
    pub accepted: Vec<Acceptance>,
    /// How many requirements of its files are known from earlier boots.
    pub learned: LearnedShare,
    /// The inputs that describe it.
    pub inputs: InputSizes,
}

impl CheckReport {
    /// Combines the findings of all nodes, in the order of their rehearsals.
    pub fn new(
        rehearsal: &Rehearsal,
        nodes: Vec<CheckedNode>,
        cut: Option<&CutShort>,
        accepted: Acceptances,
        version: &str,
    ) -> Self {
        let mut acceptances = accepted;
        let mut merged = MergedFindings::default();
        let several = rehearsal.nodes.len() > 1;
        let is_simulated = cut.is_some() || rehearsal.nodes.iter().any(|node| node.seeds > 0);
        let mut verdicts: Vec<Vec<usize>> = Vec::new();
        let mut learned = LearnedShare::default();
        let mut not_checked: Vec<NotChecked> = Vec::new();
        let mut inputs = InputSizes::new();
        let mut component_stops = Vec::new();
        for (played, node) in rehearsal.nodes.iter().zip(nodes) {
            component_stops.push(node.component_stops);
            learned.merge(node.learned);
            // Several nodes may have the same file.
            inputs.extend(node.inputs);
            acceptances.entries.extend(node.accepted);
            let ends = match is_simulated {
                true => outcome::findings(played, &node.files, &node.machines),
                false => Vec::new(),
            };
            let ends = ends.into_iter().map(|one| (CheckPart::Rehearsal, one));
            let name = several.then_some(played.name.as_str());
            let unjudged = node
                .not_checked
                .iter()
                .filter(|one| one.can_stop_the_node());
            let unjudged = unjudged.map(|one| (CheckPart::Gates, value_not_checked(one)));
            let unjudged: Vec<_> = unjudged.collect();
            for one in node.not_checked {
                list(&mut not_checked, one);
            }
            let all = node.findings.into_iter().chain(unjudged).chain(ends);
            verdicts.push(all.map(|(part, one)| merged.add(part, one, name)).collect());
        }
        for finding in &rehearsal.findings {
            merged.add(CheckPart::Plan, finding.clone(), None);
        }
        if let Some(cut) = cut {
            // A node whose seeds were not played is not known to come up.
            let unplayed = merged.add(CheckPart::Rehearsal, outcome::cut_short(cut), None);
            verdicts.iter_mut().for_each(|own| own.push(unplayed));
        }
        for finding in std::mem::take(&mut acceptances.findings) {
            merged.add(CheckPart::Config, finding, None);
        }
        let mut findings = merged.findings;
        for stale in acceptances.accept(&mut findings) {
            findings.push(CheckedFinding::new(CheckPart::Config, stale, None));
        }
        let own = verdicts.iter().zip(component_stops);
        let stopped: Vec<Option<StoppedBy>> = own
            .map(|(own, stops)| {
                let own: Vec<&CheckedFinding> = own.iter().map(|index| &findings[*index]).collect();
                stopped_by(&own, stops)
            })
            .collect();
        let played = rehearsal.nodes.iter().zip(&stopped);
        let skipped: BTreeSet<&str> = played
            .filter_map(|(played, by)| by.map(|_| played.name.as_str()))
            .collect();
        // No boot of such a node ends as the simulation says.
        let is_skipped = |one: &CheckedFinding| {
            let mut nodes = one.nodes.iter();
            one.part == CheckPart::Rehearsal
                && !skipped.is_empty()
                && nodes.all(|name| skipped.contains(name.as_str()))
        };
        let nodes = rehearsal.nodes.iter().zip(verdicts).zip(&stopped);
        let nodes = nodes.map(|((played, own), stopped)| {
            let own = own.into_iter().map(|index| &findings[index]);
            let counted = own.filter(|one| stopped.is_none() || one.part != CheckPart::Rehearsal);
            let worst = counted.map(CheckedFinding::counts).max();
            NodeVerdict::new(played, worst.unwrap_or(CheckVerdict::Pass), *stopped)
        });
        let nodes = nodes.collect();
        findings.retain(|one| !is_skipped(one));
        findings.sort_by_key(CheckedFinding::rank);
        let of_part = |part| {
            let own = findings.iter().filter(|one| one.part == part);
            own.map(CheckedFinding::counts).max()
        };
        // A simulation that shows no node is no part of the verdict.
        let is_shown = |part: &CheckPart| {
            *part != CheckPart::Rehearsal || is_simulated && stopped.iter().any(Option::is_none)
        };
        let parts = CheckPart::ALL.into_iter().filter(is_shown);
        let parts = parts.map(|part| PartVerdict {
            part,
            verdict: of_part(part).unwrap_or(CheckVerdict::Pass),
        });
        let parts: Vec<PartVerdict> = parts.collect();
        let worst = parts.iter().map(|part| part.verdict).max();
        Self {
            counts: CheckCounts::new(&inputs, &findings, &not_checked),
            api_version: "windrow.dev/v1".to_owned(),
            kind: "Check".to_owned(),
            windrow: version.to_owned(),
            verdict: worst.unwrap_or(CheckVerdict::Pass),
            because: findings
                .first()
                .filter(|one| one.counts() > CheckVerdict::Pass)
                .cloned(),
            parts,
            learned: Some(learned).filter(|share| !share.things.is_empty()),
            nodes,
            findings,
            not_checked,
        }
    }

    /// Whether boots were simulated, as far as the nodes boot.
    pub fn is_simulated(&self) -> bool {
        let is_part = |part: &PartVerdict| part.part == CheckPart::Rehearsal;
        self.parts.iter().any(is_part) || self.nodes.iter().all(|node| node.stopped_by.is_some())
    }

    /// Whether all fatal findings concern Windrow's own configuration.
    pub fn only_configuration_fails(&self) -> bool {
        let failing = |part: &&PartVerdict| part.verdict == CheckVerdict::Fail;
        let mut failing = self.parts.iter().filter(failing);
        failing
            .next()
            .is_some_and(|part| part.part == CheckPart::Config)
            && failing.next().is_none()
    }
}

/// What ends a node before its boot, by its findings that count.
fn stopped_by(own: &[&CheckedFinding], component_stops: bool) -> Option<StoppedBy> {
    let failing = own.iter().filter(|one| one.counts() == CheckVerdict::Fail);
    let stops = failing.filter_map(|one| match one.finding.code {
        Code::InstallerRefuses => Some(StoppedBy::Installer),
        Code::InstallerOverlooks => Some(StoppedBy::Installation),
        _ if component_stops && one.part == CheckPart::Gates => Some(StoppedBy::Component),
        _ => None,
    });
    stops.min()
}

impl NodeVerdict {
    fn new(played: &NodeRehearsal, verdict: CheckVerdict, stopped_by: Option<StoppedBy>) -> Self {
        let ends = |ends: &[EndCount]| match stopped_by {
            Some(_) => Vec::new(),
            None => ends.to_vec(),
        };
        Self {
            name: played.name.clone(),
            role: played.role,
            harvester: played.harvester.clone(),
            verdict,
            stopped_by,
            seeds: played.seeds,
            without: ends(&played.without.ends),
            with: ends(&played.with.ends),
            over: played.with.over.filter(|_| stopped_by.is_none()),
            over_in: played.with.over_in.filter(|_| stopped_by.is_none()),
        }
    }
}

/// The finding for something that was not judged and that can keep the node from coming up.
fn value_not_checked(one: &NotChecked) -> Finding {
    let code = Code::ValueNotChecked;
    Finding {
        incident: None,
        code,
        severity: code.severity(),
        message: code.say(&[("what", &one.what), ("why", &one.why)]),
        at: one.at.clone(),
    }
}

/// Adds an entry, and only its places if it is in the list.
fn list(known: &mut Vec<NotChecked>, one: NotChecked) {
    let same = |other: &&mut NotChecked| (&other.what, &other.why) == (&one.what, &one.why);
    match known.iter_mut().find(same) {
        Some(other) => {
            let new = one.at.into_iter().filter(|at| !other.at.contains(at));
            let new: Vec<Location> = new.collect();
            other.at.extend(new);
        }
        None => known.push(one),
    }
}

/// Findings of several nodes or parts, merged so that each of them occurs once.
#[derive(Default)]
struct MergedFindings {
    findings: Vec<CheckedFinding>,
    /// The index of each finding, by the properties that make two findings equal.
    known: BTreeMap<(Code, String), usize>,
}

impl MergedFindings {
    /// Adds a finding and returns its index.
    fn add(&mut self, part: CheckPart, finding: Finding, node: Option<&str>) -> usize {
        let key = (finding.code, finding.message.clone());
        let Some(&index) = self.known.get(&key) else {
            self.known.insert(key, self.findings.len());
            self.findings.push(CheckedFinding::new(part, finding, node));
            return self.findings.len() - 1;
        };
        let known = &mut self.findings[index];
        for at in finding.at {
            if !known.finding.at.contains(&at) {
                known.finding.at.push(at);
            }
        }
        if let Some(node) = node
            && known.nodes.last().is_none_or(|last| last != node)
        {
            known.nodes.push(node.to_owned());
        }
        index
    }
}
