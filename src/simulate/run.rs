//! A bootstrap as a value: what goes into it and what came of it.

use std::time::Duration;

use jiff::Timestamp;

use super::files::Files;
use super::log::{Counts, Happening};
use super::node::{Outcome, Scenario};
use crate::decide::{Cause, Ledger, Status};
use crate::manifest::Content;
use crate::rules::{Platform, RuleSet};
use crate::settings::Settings;

/// A node, its files, and Windrow's configuration.
#[derive(Debug, Clone)]
pub struct Setup {
    /// The node.
    pub scenario: Scenario,
    /// The manifests directory at power-on.
    pub files: Files,
    /// What is done to the directory later.
    pub changes: Vec<Change>,
    /// Windrow's settings.
    pub settings: Settings,
    /// Windrow's rules.
    pub rules: RuleSet,
}

/// A change of the directory by somebody else.
#[derive(Debug, Clone)]
pub struct Change {
    /// When, from the start.
    pub after: Duration,
    /// Which entry.
    pub path: String,
    /// What it is then; `None` when it goes.
    pub content: Option<Content>,
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

/// A file that Windrow let RKE2 have.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Release {
    /// When.
    pub at: Timestamp,
    /// Which.
    pub file: String,
    /// Why.
    pub cause: Cause,
    /// What it required and was not so in truth.
    pub unmet: Vec<String>,
}

/// One bootstrap, from power-on until nothing can change any more.
#[derive(Debug, Clone)]
pub struct Run {
    /// The seed: the same gives the same run.
    pub seed: u64,
    /// Everything that happened.
    pub log: Vec<Happening>,
    /// What RKE2's deploy controller did.
    pub counts: Counts,
    /// What came of it.
    pub outcome: Outcome,
    /// When it ended.
    pub ended: Timestamp,
    /// The directory at the end.
    pub files: Files,
    /// Windrow's ledger at the end, as saved.
    pub ledger: Ledger,
    /// Windrow's last word; none without Windrow.
    pub status: Option<Status>,
    /// Every release, in order.
    pub releases: Vec<Release>,
    /// How often Windrow decided.
    pub decisions: u64,
    /// How often it went on acting though nothing had happened but its own actions. Acting twice is
    /// acting once, so this is 0.
    pub restless: u64,
}

/// Changes that are still to come.
pub(super) struct Changes {
    left: Vec<(Timestamp, String, Option<Content>)>,
}

impl Changes {
    pub(super) fn new(setup: &Setup) -> Self {
        let mut changes = Self { left: Vec::new() };
        for change in &setup.changes {
            let at = setup.scenario.start + change.after;
            changes.add(at, &change.path, change.content.clone());
        }
        changes
    }

    pub(super) fn add(&mut self, at: Timestamp, path: &str, content: Option<Content>) {
        self.left.push((at, path.to_owned(), content));
        self.left.sort_by_key(|(at, ..)| *at);
    }

    pub(super) fn next_at(&self) -> Option<Timestamp> {
        self.left.first().map(|(at, ..)| *at)
    }

    pub(super) fn make(&mut self, now: Timestamp, files: &mut Files) {
        while self.next_at().is_some_and(|at| at <= now) {
            let (at, path, content) = self.left.remove(0);
            match content {
                Some(content) => files.put(path, content, at),
                None => {
                    files.remove(&path);
                }
            }
        }
    }
}
