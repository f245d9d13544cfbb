//! The findings on one node's files, by the part of a check that finds them.

use std::collections::BTreeMap;

use windrow_decide::settings::ConfigError;
use windrow_model::findings::{Finding, Location};
use windrow_model::manifest::ManifestPath;
use windrow_model::reasons::Severity;
use windrow_model::unchecked::NotChecked;
use windrow_plan::knowledge::LearnedShare;
use windrow_simulate::rehearse::check::InputSizes;
use windrow_simulate::rehearse::check::acceptance::Acceptances;
use windrow_simulate::rehearse::{SeenPhase, UsedTimes};

#[derive(Default)]
pub(in crate::cli) struct NodeFindings {
    pub(in crate::cli) configuration: Vec<ConfigError>,
    /// Proofs from the files, remarks on their reading, and findings of their plan.
    pub(in crate::cli) files: Vec<Finding>,
    pub(in crate::cli) gates: Vec<Finding>,
    /// Whether one of these keeps a component from starting.
    pub(in crate::cli) component_stops: bool,
    pub(in crate::cli) not_checked: Vec<NotChecked>,
    /// Names, or files, with which the simulation needed less time.
    pub(in crate::cli) layout: Vec<Finding>,
    pub(in crate::cli) accepted: Acceptances,
    /// The share of required dependencies that earlier boots show.
    pub(in crate::cli) learned: LearnedShare,
    /// The size of each input.
    pub(in crate::cli) inputs: InputSizes,
    /// How long phases took on nodes of this kind, at their first boot.
    pub(in crate::cli) phases: Vec<SeenPhase>,
    /// The hosts of the times from earlier boots.
    pub(in crate::cli) times: Option<UsedTimes>,
    /// Whether Windrow's own files are the only inputs. Then there is nothing to accept.
    pub(in crate::cli) only_own: bool,
}

impl NodeFindings {
    /// Whether the node cannot work, whatever a simulation shows.
    pub(super) fn has_error(&self) -> bool {
        self.all()
            .any(|finding| finding.severity == Severity::Error)
    }

    pub(super) fn all(&self) -> impl Iterator<Item = &Finding> {
        self.files.iter().chain(&self.gates).chain(&self.layout)
    }
}

pub(in crate::cli) struct FoundOnNode {
    pub(in crate::cli) findings: NodeFindings,
    /// The place of each manifest.
    pub(in crate::cli) files: BTreeMap<ManifestPath, Location>,
    /// The place of each VM, by its name in messages.
    pub(in crate::cli) machines: BTreeMap<String, Location>,
}
