//! A bootstrap as a value: its input and its result.

use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use windrow_decide::settings::Settings;
use windrow_decide::{Cause, Ledger, Status};
use windrow_model::manifest::{FileContent, ManifestPath};
use windrow_plan::rules::{Platform, RuleSet};

use super::chance::Chance;
use super::cluster::SimulatedCluster;
use super::files::SimulatedDirectory;
use super::log::{DeployCounts, Happening, HappeningKind};
use super::node::{BootstrapOutcome, SimulatedNode};
use super::scenario::{JoinRole, Scenario};

/// A node, its files, and Windrow's configuration.
#[derive(Debug, Clone)]
pub struct Setup {
    pub scenario: Scenario,
    /// The manifests directory at power-on.
    pub files: SimulatedDirectory,
    pub changes: Vec<DirectoryChange>,
    pub settings: Arc<Settings>,
    pub rules: Arc<RuleSet>,
    /// Further nodes of the same cluster.
    pub joins: Vec<JoiningNode>,
}

#[derive(Debug, Clone)]
pub struct JoiningNode {
    pub name: String,
    pub role: JoinRole,
    /// Its manifests directory at power-on.
    pub files: SimulatedDirectory,
    pub changes: Vec<DirectoryChange>,
    pub settings: Arc<Settings>,
    pub rules: Arc<RuleSet>,
}

/// A change of the directory by others than Windrow.
#[derive(Debug, Clone, Default)]
pub struct DirectoryChange {
    /// From the start.
    pub after: Duration,
    /// The maximum additional delay, by seed.
    pub late: Duration,
    /// The author, if the log is to name it.
    pub by: Option<String>,
    pub path: String,
    /// `None` if the entry is removed.
    pub content: Option<FileContent>,
}

impl Setup {
    pub fn platform(&self) -> Platform {
        match self.scenario.harvester {
            Some(_) => Platform::Harvester,
            None => Platform::Rke2,
        }
    }
}

/// A file that RKE2 may read from now on, as the oracle found it on the disk.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FileRelease {
    pub at: Timestamp,
    pub file: ManifestPath,
    /// The reason in Windrow's view; `None` if Windrow says that it holds the file.
    pub cause: Option<Cause>,
    /// Requirements that were not met in the cluster and that the cause does not excuse.
    pub unmet: Vec<String>,
    /// Does RKE2 fail with it at first in any order? It is part of a cycle, or defines the kind of one of its own objects.
    pub fails_first: bool,
}

/// One bootstrap, from power-on until nothing can change any more.
#[derive(Debug, Clone)]
pub struct Run {
    /// The seed: the same one gives the same run.
    pub seed: u64,
    pub log: Vec<Happening>,
    pub counts: DeployCounts,
    pub outcome: BootstrapOutcome,
    pub ended: Timestamp,
    /// The cluster at the end.
    pub cluster: SimulatedCluster,
    /// The directory at the end.
    pub files: SimulatedDirectory,
    /// Windrow's ledger at the end, as saved.
    pub ledger: Ledger,
    /// Windrow's last status; `None` without Windrow.
    pub status: Option<Status>,
    pub releases: Vec<FileRelease>,
    /// The wrong statements of Windrow, as found by the oracle.
    pub untrue: Vec<String>,
    /// The results of the nodes that joined, in their order.
    pub joined: Vec<JoinedNode>,
    pub decisions: u64,
    /// How often it continued to act although nothing had happened except its own actions. Acting twice has the effect of acting
    /// once, so this is 0.
    pub restless: u64,
}

#[derive(Debug, Clone)]
pub struct JoinedNode {
    /// Does RKE2 apply the manifests on it? On an agent nothing reads them.
    pub applies_manifests: bool,
    /// Files whose present content RKE2 has applied on this node.
    pub applied: Vec<ManifestPath>,
    /// The other files.
    pub unapplied: Vec<ManifestPath>,
    /// Windrow's last status; `None` without Windrow.
    pub status: Option<Status>,
    pub releases: Vec<FileRelease>,
    /// The wrong statements of Windrow there.
    pub untrue: Vec<String>,
}

impl Run {
    /// The applied files, the other files, and Windrow's last status, of the first node (0) or one that joined.
    pub fn results_of(
        &self,
        server: usize,
    ) -> Option<(&[ManifestPath], &[ManifestPath], Option<&Status>)> {
        match server.checked_sub(1) {
            None => Some((
                &self.outcome.applied,
                &self.outcome.unapplied,
                self.status.as_ref(),
            )),
            Some(joined) => self
                .joined
                .get(joined)
                .map(|one| (&one.applied[..], &one.unapplied[..], one.status.as_ref())),
        }
    }
}

struct DueChange {
    at: Timestamp,
    server: usize,
    path: String,
    content: Option<FileContent>,
    by: Option<String>,
}

pub(super) struct DueChanges {
    left: Vec<DueChange>,
}

impl DueChanges {
    pub(super) fn new(setup: &Setup, chance: &mut Chance) -> Self {
        let mut changes = Self { left: Vec::new() };
        let joins = setup.joins.iter().map(|join| &join.changes);
        for (server, all) in std::iter::once(&setup.changes).chain(joins).enumerate() {
            for change in all {
                let late = match change.late.is_zero() {
                    true => Duration::ZERO,
                    false => chance.between((Duration::ZERO, change.late)),
                };
                changes.put(DueChange {
                    at: setup.scenario.start + change.after + late,
                    server,
                    path: change.path.clone(),
                    content: change.content.clone(),
                    by: change.by.clone(),
                });
            }
        }
        changes
    }

    /// Schedules a write of a file. Earlier writes to it stay.
    pub(super) fn add(
        &mut self,
        at: Timestamp,
        server: usize,
        path: &str,
        content: Option<FileContent>,
    ) {
        let mut earlier = self.left.iter().filter(|due| due.at <= at);
        let written = earlier.rfind(|due| due.server == server && due.path == path);
        let content = written.map_or(content, |due| due.content.clone());
        self.put(DueChange {
            at,
            server,
            path: path.to_owned(),
            content,
            by: None,
        });
    }

    pub(super) fn are_due_for(&self, server: usize, path: &str) -> bool {
        let mut left = self.left.iter();
        left.any(|due| due.server == server && due.path == path)
    }

    fn put(&mut self, due: DueChange) {
        self.left.push(due);
        self.left.sort_by_key(|due| due.at);
    }

    pub(super) fn next_at(&self) -> Option<Timestamp> {
        self.left.first().map(|due| due.at)
    }

    pub(super) fn make(
        &mut self,
        now: Timestamp,
        disks: &mut [SimulatedDirectory],
        node: &mut SimulatedNode,
    ) {
        while self.next_at().is_some_and(|at| at <= now) {
            let due = self.left.remove(0);
            if let Some(by) = due.by {
                let file = due.path.clone();
                node.record(due.server, HappeningKind::Written { file, by });
            }
            match due.content {
                Some(content) => disks[due.server].put(due.path, content, due.at),
                None => {
                    disks[due.server].remove(&due.path);
                }
            }
        }
    }
}
