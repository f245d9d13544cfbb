//! The report of a check: one verdict, the first reason, and everything that was found, each thing once.
//!
//! The names of its fields are a promise; `docs/check.schema.json` is generated from these types.

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

/// What `windrow check -o json` prints.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct CheckReport {
    /// `windrow.dev/v1`
    pub api_version: String,
    /// `Check`
    pub kind: String,
    /// The version of Windrow that checked.
    pub windrow: String,
    /// What it comes to; findings that are accepted do not count.
    pub verdict: CheckVerdict,
    /// The first reason; absent where it is fine.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub because: Option<CheckedFinding>,
    /// What each part comes to.
    pub parts: Vec<PartVerdict>,
    /// How much of what the files cannot do without is known from earlier boots; absent where nothing is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub learned: Option<LearnedShare>,
    /// What each node comes to.
    pub nodes: Vec<NodeVerdict>,
    /// Everything that was found, the worst first; what is accepted comes last.
    pub findings: Vec<CheckedFinding>,
}

/// What one part comes to.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct PartVerdict {
    /// Which.
    pub part: CheckPart,
    /// What it comes to.
    pub verdict: CheckVerdict,
}

/// What one node comes to.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct NodeVerdict {
    /// How the node is called.
    pub name: String,
    /// What it is in its cluster.
    #[serde(default)]
    pub role: MemberRole,
    /// Harvester's version; absent for RKE2 alone.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub harvester: Option<String>,
    /// What it comes to.
    pub verdict: CheckVerdict,
    /// How many seeds were played.
    pub seeds: u64,
    /// How the bootstraps end without Windrow, the commonest end first.
    pub without: Vec<EndCount>,
    /// And with it.
    pub with: Vec<EndCount>,
    /// When everything is there with Windrow, in seconds from power-on: the least and the most; absent when it never is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub over: Option<Span>,
    /// The same as a prediction.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub over_in: Option<Prediction>,
}

/// One node, as its parts were checked.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct CheckedNode {
    /// Everything that was found before the rehearsal.
    pub findings: Vec<(CheckPart, Finding)>,
    /// Where a person finds each manifest.
    pub files: BTreeMap<ManifestPath, Location>,
    /// And each virtual machine, by its name in messages.
    pub machines: BTreeMap<String, Location>,
    /// What annotations of its manifests accept.
    pub accepted: Vec<Acceptance>,
    /// How much of what its files cannot do without is known from earlier boots.
    pub learned: LearnedShare,
}

impl CheckReport {
    /// Puts together what was found of each node, in the order of the rehearsal's.
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
            // No node is known to come up in what was not played.
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
            let worst = counted.max().unwrap_or(CheckVerdict::Fine);
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
            verdict: of_part(part).unwrap_or(CheckVerdict::Fine),
        });
        let parts: Vec<PartVerdict> = parts.collect();
        let worst = parts.iter().map(|part| part.verdict).max();
        Self {
            api_version: "windrow.dev/v1".to_owned(),
            kind: "Check".to_owned(),
            windrow: version.to_owned(),
            verdict: worst.unwrap_or(CheckVerdict::Fine),
            because: findings
                .first()
                .filter(|one| one.counts() > CheckVerdict::Fine)
                .cloned(),
            parts,
            learned: Some(learned).filter(|share| !share.things.is_empty()),
            nodes,
            findings,
        }
    }

    /// Is everything that cannot work Windrow's own configuration?
    pub fn only_configuration_fails(&self) -> bool {
        let failing = |part: &&PartVerdict| part.verdict == CheckVerdict::CannotWork;
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

/// What is found in several nodes, or by several parts, each thing once.
#[derive(Default)]
struct MergedFindings {
    findings: Vec<CheckedFinding>,
    /// Where each stands, by what makes two the same.
    known: BTreeMap<(Code, String), usize>,
}

impl MergedFindings {
    /// Adds one, and says where it stands.
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
