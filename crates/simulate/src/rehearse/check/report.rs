//! The report of a check: one verdict, the first reason, and all findings, each of them once.
//!
//! The names of its fields are stable, and `docs/check.schema.json` is generated from these types.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use windrow_model::findings::{Finding, Location};
use windrow_model::manifest::ManifestPath;
use windrow_model::reasons::Code;
use windrow_plan::knowledge::LearnedShare;

use super::super::prediction::Prediction;
use super::super::rehearsal::{EndCount, MemberRole, NodeRehearsal, Rehearsal, Span};
use super::acceptance::{Acceptance, Acceptances};
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
    /// Verdict of each part.
    pub parts: Vec<PartVerdict>,
    /// How many requirements of the files are known from earlier boots; absent if there are none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub learned: Option<LearnedShare>,
    /// Verdict of each node.
    pub nodes: Vec<NodeVerdict>,
    /// All findings, the worst first; accepted ones come last.
    pub findings: Vec<CheckedFinding>,
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

#[derive(Debug, Clone, Default, PartialEq)]
pub struct CheckedNode {
    /// All findings from before the rehearsal.
    pub findings: Vec<(CheckPart, Finding)>,
    /// The position of each manifest for the user.
    pub files: BTreeMap<ManifestPath, Location>,
    /// The position of each VM, by its name in messages.
    pub machines: BTreeMap<String, Location>,
    /// The acceptances in annotations of its manifests.
    pub accepted: Vec<Acceptance>,
    /// How many requirements of its files are known from earlier boots.
    pub learned: LearnedShare,
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
        let mut verdicts: Vec<Vec<usize>> = Vec::new();
        let mut learned = LearnedShare::default();
        for (played, node) in rehearsal.nodes.iter().zip(nodes) {
            learned.merge(node.learned);
            acceptances.entries.extend(node.accepted);
            let ends = outcome::findings(played, &node.files, &node.machines);
            let ends = ends.into_iter().map(|one| (CheckPart::Rehearsal, one));
            let name = several.then_some(played.name.as_str());
            let all = node.findings.into_iter().chain(ends);
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
        let nodes = rehearsal.nodes.iter().zip(verdicts).map(|(played, own)| {
            let counted = own.into_iter().map(|index| findings[index].counts());
            let worst = counted.max().unwrap_or(CheckVerdict::Pass);
            NodeVerdict::new(played, worst)
        });
        let nodes = nodes.collect();
        findings.sort_by_key(CheckedFinding::rank);
        let of_part = |part| {
            let own = findings.iter().filter(|one| one.part == part);
            own.map(CheckedFinding::counts).max()
        };
        let parts = CheckPart::ALL.into_iter().map(|part| PartVerdict {
            part,
            verdict: of_part(part).unwrap_or(CheckVerdict::Pass),
        });
        let parts: Vec<PartVerdict> = parts.collect();
        let worst = parts.iter().map(|part| part.verdict).max();
        Self {
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
        }
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

impl NodeVerdict {
    fn new(played: &NodeRehearsal, verdict: CheckVerdict) -> Self {
        Self {
            name: played.name.clone(),
            role: played.role,
            harvester: played.harvester.clone(),
            verdict,
            seeds: played.seeds,
            without: played.without.ends.clone(),
            with: played.with.ends.clone(),
            over: played.with.over,
            over_in: played.with.over_in,
        }
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
