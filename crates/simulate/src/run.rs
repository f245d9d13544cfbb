//! A bootstrap as a value: what goes into it and what came of it.

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
    /// The node.
    pub scenario: Scenario,
    /// The manifests directory at power-on.
    pub files: SimulatedDirectory,
    /// What is done to the directory later.
    pub changes: Vec<DirectoryChange>,
    /// Windrow's settings.
    pub settings: Arc<Settings>,
    /// Windrow's rules.
    pub rules: Arc<RuleSet>,
    /// Further nodes of the same cluster.
    pub joins: Vec<JoiningNode>,
}

/// A node that joins the first one.
#[derive(Debug, Clone)]
pub struct JoiningNode {
    /// How it is called.
    pub name: String,
    /// What it is in the cluster.
    pub role: JoinRole,
    /// Its manifests directory at power-on.
    pub files: SimulatedDirectory,
    /// What is done to it later.
    pub changes: Vec<DirectoryChange>,
    /// Windrow's settings there.
    pub settings: Arc<Settings>,
    /// Windrow's rules there.
    pub rules: Arc<RuleSet>,
}

/// A change of the directory that Windrow does not make.
#[derive(Debug, Clone, Default)]
pub struct DirectoryChange {
    /// When, from the start.
    pub after: Duration,
    /// Up to so much later, by seed.
    pub late: Duration,
    /// Who does it, where the log is to tell.
    pub by: Option<String>,
    /// Which entry.
    pub path: String,
    /// What it is then; `None` when it goes.
    pub content: Option<FileContent>,
}

impl Setup {
    /// What the node is.
    pub fn platform(&self) -> Platform {
        match self.scenario.harvester {
            Some(_) => Platform::Harvester,
            None => Platform::Rke2,
        }
    }
}

/// A file that RKE2 may have from now on, as the oracle saw it on the disk.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FileRelease {
    /// When.
    pub at: Timestamp,
    /// Which.
    pub file: ManifestPath,
    /// Why, as Windrow says; `None` when Windrow says that it holds the file.
    pub cause: Option<Cause>,
    /// What it required, was not so in the cluster, and is not excused by the cause.
    pub unmet: Vec<String>,
    /// Does RKE2 fail with it at first in any order? It is part of a cycle, or defines the kind of one of its own objects.
    pub fails_first: bool,
}

/// One bootstrap, from power-on until nothing can change any more.
#[derive(Debug, Clone)]
pub struct Run {
    /// The seed: the same gives the same run.
    pub seed: u64,
    /// Everything that happened.
    pub log: Vec<Happening>,
    /// What RKE2's deploy controller did.
    pub counts: DeployCounts,
    /// What came of it.
    pub outcome: BootstrapOutcome,
    /// When it ended.
    pub ended: Timestamp,
    /// The cluster at the end.
    pub cluster: SimulatedCluster,
    /// The directory at the end.
    pub files: SimulatedDirectory,
    /// Windrow's ledger at the end, as saved.
    pub ledger: Ledger,
    /// Windrow's last word; none without Windrow.
    pub status: Option<Status>,
    /// Every release, in order.
    pub releases: Vec<FileRelease>,
    /// What Windrow said and was not so, as the oracle saw it.
    pub untrue: Vec<String>,
    /// What came of the nodes that joined, in their order.
    pub joined: Vec<JoinedNode>,
    /// How often Windrow decided.
    pub decisions: u64,
    /// How often it went on acting though nothing had happened but its own actions. Acting twice is
    /// acting once, so this is 0.
    pub restless: u64,
}

/// What came of a node that joined.
#[derive(Debug, Clone)]
pub struct JoinedNode {
    /// Does RKE2 apply the manifests on it? On an agent nothing reads them.
    pub applies_manifests: bool,
    /// Files that RKE2 has applied as they are on this node.
    pub applied: Vec<ManifestPath>,
    /// Files that it has not.
    pub unapplied: Vec<ManifestPath>,
    /// Windrow's last word; none without Windrow.
    pub status: Option<Status>,
    /// Every release there, in order.
    pub releases: Vec<FileRelease>,
    /// What Windrow said there and was not so.
    pub untrue: Vec<String>,
}

impl Run {
    /// What RKE2 applied, what it did not, and Windrow's last word, of the first node (0) or one that
    /// joined.
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

/// A change that is still to come.
struct DueChange {
    at: Timestamp,
    server: usize,
    path: String,
    content: Option<FileContent>,
    by: Option<String>,
}

/// Changes that are still to come.
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

    /// Writes a file later. What is written to it before then stays.
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

    /// Is something still to be done to this file?
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
