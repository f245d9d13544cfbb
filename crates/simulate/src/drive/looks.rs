//! The oracle: whenever RKE2 scans a directory, are all files hidden that would do harm in the present cluster?

use std::time::Duration;

use jiff::Timestamp;
use windrow_decide::FileStage;
use windrow_plan::rules::{OnDeadline, Tier};
use windrow_plan::{PlanFile, Requirement};

use super::Drive;
use super::oracle::{JudgedServer, Oracle};
use super::truth::Truth;

/// A younger file may not be marked by Windrow yet, and a younger process may not have scanned the directory yet.
const SOON: Duration = Duration::from_secs(10);

impl Oracle {
    /// RKE2 has scanned the directory and will apply these files.
    fn judge_shown(
        &mut self,
        truth: &Truth<'_>,
        server: &JudgedServer<'_>,
        shown: &[&PlanFile],
        now: Timestamp,
    ) {
        for file in shown {
            let is_recent = |at: Timestamp| now.duration_since(at).unsigned_abs() < SOON;
            let entry = server.disk.get(&file.path);
            let is_new = entry.is_none_or(|entry| {
                is_recent(entry.mtime) || entry.reading(&file.path).sha256 != file.sha256
            });
            // Its marker was removed, and Windrow cannot scan the directory to restore it.
            let entry = server.state.ledger().files.get(&file.path);
            let is_held = entry.is_some_and(|entry| {
                entry.digest == file.digest && matches!(entry.state, FileStage::Held { .. })
            });
            if server.is_directory_unread && is_held || self.is_unknown(server, file) {
                continue;
            }
            // RKE2 had it before Windrow could read it.
            let content = (file.path.clone(), file.digest.clone());
            let read_at = self.read_at.get(&content).copied();
            if is_new
                || read_at.is_none_or(is_recent)
                || file.owner.is_some()
                || server.troubles.contains_key(&file.name)
                // RKE2 may have begun its scan before the disk accepted the marker.
                || self.not_made.get(&file.name).copied().is_some_and(is_recent)
                || truth.has_applied(file)
                || self.is_let_through(file)
            {
                continue;
            }
            let keeps = |one: &&Requirement| {
                one.tier == Tier::Required
                    && one.takes_part()
                    && !one.inferred
                    && one.on_deadline == OnDeadline::Keep
            };
            let mut keeps = file.requirements().filter(keeps);
            if let Some(lacks) = keeps.find(|one| truth.lacks(one, server.view())) {
                let path = &file.path;
                let need = &server.plan.needs[lacks.need];
                self.untrue.insert(format!(
                    "RKE2 looks at {path}: {} {} is not so in the present cluster",
                    need.target, need.condition
                ));
            }
        }
    }
}

impl Drive<'_> {
    /// Judges the files that RKE2 will apply, if it has scanned the directory just now.
    pub(super) fn judge_look(&mut self, who: usize, now: Timestamp) {
        let passes = self.node.deploy_of(who).passes();
        let daemon = &mut self.daemons[who];
        if std::mem::replace(&mut daemon.oracle.passes, passes) == passes
            || daemon.away.is_some()
            || daemon.oracle.waits.began_within(SOON, now)
        {
            return;
        }
        let plan = std::sync::Arc::clone(&daemon.true_plan);
        let shown = self.node.deploy_of(who).shown();
        let shown: Vec<&PlanFile> = shown
            .filter_map(|path| plan.files.iter().find(|file| file.path == *path))
            .collect();
        let (oracle, truth, server) = daemon.judged(who, &self.node, &self.disks[who], now);
        oracle.judge_shown(&truth, &server, &shown, now);
    }
}
