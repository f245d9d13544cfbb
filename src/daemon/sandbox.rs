//! The sandbox: the real daemon, with real files, markers, inotify and ledger below a directory. Only the node's
//! cluster is simulated, under a clock that runs faster.
//!
//! This is the cluster's side: it reads the directory as RKE2 would, runs the simulated node, passes the daemon what
//! its watches would report, and prints what happens.

use std::collections::BTreeMap;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use tokio::sync::{mpsc, watch};
use tokio::time::{Instant, sleep_until};
use windrow_decide::{Cause, ClusterEvent, Interests, Mark, Status};
use windrow_model::manifest::{FileContent, ManifestPath, MarkerPath, ReadLimits};
use windrow_model::reasons::Code;
use windrow_simulate::{
    BootstrapVerdict, HappeningKind, Setup, SimulatedDirectory, SimulatedNode, Watch,
    without_windrow,
};

use super::clock::Clock;
use crate::observe::scan::{FileStamps, ScanResult, ScannedContent, scan};

/// How often the sandbox looks at the directory, because no event reports its changes.
const STEP: Duration = Duration::from_millis(25);
/// How long nothing may have changed, in real time, before the sandbox ends.
const CALM: Duration = Duration::from_secs(2);

/// One run of the sandbox.
pub struct Sandbox {
    setup: Setup,
    seed: u64,
    manifests: PathBuf,
    clock: Clock,
    start: Timestamp,
    node: SimulatedNode,
    watch: Watch,
    files: SimulatedDirectory,
    stamps: FileStamps,
    told: usize,
    held: BTreeMap<ManifestPath, Hold>,
    order: Vec<ManifestPath>,
}

/// One file that Windrow kept back.
struct Hold {
    since: Timestamp,
    /// Every reason for which it was held, in order.
    whys: Vec<String>,
    until: Option<Timestamp>,
    cause: Option<Cause>,
}

/// What the sandbox and the daemon share.
pub struct Ends {
    /// What the daemon wants watched.
    pub interests: watch::Receiver<Interests>,
    /// What its watches report.
    pub events: mpsc::Sender<ClusterEvent>,
    /// The daemon's status.
    pub status: watch::Receiver<Option<Arc<Status>>>,
}

impl Sandbox {
    /// A node that is switched on once the daemon is ready.
    pub fn new(setup: Setup, seed: u64, manifests: PathBuf, clock: Clock) -> Self {
        let start = setup.scenario.start;
        Self {
            node: SimulatedNode::new(setup.scenario.clone(), seed),
            setup,
            seed,
            manifests,
            clock,
            start,
            watch: Watch::default(),
            files: SimulatedDirectory::new(),
            stamps: FileStamps::new(),
            told: 0,
            held: BTreeMap::new(),
            order: Vec::new(),
        }
    }

    /// Runs until nothing can change any more. True when the node came up.
    ///
    /// # Errors
    ///
    /// When the output cannot be written.
    pub async fn run(mut self, mut ends: Ends, out: &mut (dyn Write + Send)) -> io::Result<bool> {
        // Windrow's unit is ordered before RKE2's: RKE2 starts once Windrow is ready.
        if ends.status.wait_for(Option::is_some).await.is_err() {
            return Ok(false);
        }
        self.start = self.clock.now();
        self.setup.scenario.start = self.start;
        self.node = SimulatedNode::new(self.setup.scenario.clone(), self.seed);
        let mut calm_since = Instant::now();
        loop {
            let now = self.clock.now();
            let before = (self.files.generation(), self.node.log().len());
            self.mirror(now, out)?;
            self.node.advance(now, &self.files);
            self.print_news(out)?;
            let interests = ends.interests.borrow_and_update().clone();
            for event in self.watch.poll(self.node.cluster(), &interests) {
                if ends.events.send(event).await.is_err() {
                    return Ok(false);
                }
            }
            let status = ends.status.borrow_and_update().clone();
            if let Some(status) = &status {
                self.learn(status);
            }
            let after = (self.files.generation(), self.node.log().len());
            let settled = self.node.is_settled(&self.files)
                && status.is_some_and(|status| !has_deadline(&status, now));
            if before.0 != after.0 || !settled {
                calm_since = Instant::now();
            }
            if calm_since.elapsed() > CALM {
                return self.summary(out);
            }
            let next = self
                .node
                .next_event_at()
                .map_or_else(|| Instant::now() + STEP, |at| self.clock.instant(at));
            tokio::select! {
                () = sleep_until(next.clamp(
                    Instant::now() + Duration::from_millis(1),
                    Instant::now() + STEP,
                )) => {}
                changed = ends.interests.changed() => if changed.is_err() { return Ok(false) },
            }
        }
    }

    /// Copies the real directory into the simulated node's.
    fn mirror(&mut self, now: Timestamp, out: &mut dyn Write) -> io::Result<()> {
        let found = match scan(&self.manifests, &ReadLimits::default(), &self.stamps, now) {
            ScanResult::Found(found) => found,
            ScanResult::Missing | ScanResult::Unreadable { .. } => return Ok(()),
        };
        self.stamps = found.stamps();
        let mut present = BTreeMap::new();
        for file in found.files {
            present.insert(
                file.path.to_string(),
                match file.state {
                    // What there was no room for is read at the next look.
                    ScannedContent::Unchanged
                    | ScannedContent::Read(FileContent::NoRoom { .. }) => None,
                    ScannedContent::Read(content) => Some(content),
                },
            );
        }
        for marker in found.markers {
            // Only our own markers matter here.
            let content = marker.mark.map(|mark| mark.to_json().into_bytes());
            present.insert(
                marker.path.to_string(),
                Some(FileContent::Bytes(content.unwrap_or_default())),
            );
        }
        let known: Vec<String> = self.files.iter().map(|(path, _)| path.to_owned()).collect();
        for path in known {
            if !present.contains_key(&path) {
                self.files.remove(&path);
                self.lifted(&path, now, out)?;
            }
        }
        for (path, content) in present {
            let Some(content) = content else { continue };
            let same = self
                .files
                .get(&path)
                .is_some_and(|file| **file.content() == content);
            if !same {
                if MarkerPath::parse(&path).is_some()
                    && let FileContent::Bytes(bytes) = &content
                    && let Some(mark) = Mark::parse(bytes)
                {
                    self.marked(&mark, out)?;
                }
                self.files.put(path, content, now);
            }
        }
        Ok(())
    }

    fn marked(&mut self, mark: &Mark, out: &mut dyn Write) -> io::Result<()> {
        // A marker that exists only while a file is read holds nothing back.
        if mark.code == Code::Provisional || self.held.contains_key(&mark.file) {
            return Ok(());
        }
        self.order.push(mark.file.clone());
        self.held.insert(
            mark.file.clone(),
            Hold {
                since: mark.since,
                whys: Vec::new(),
                until: None,
                cause: None,
            },
        );
        self.line(
            mark.since,
            &format!("Windrow holds {}: {}", mark.file, mark.why),
            out,
        )
    }

    fn lifted(&mut self, marker: &str, now: Timestamp, out: &mut dyn Write) -> io::Result<()> {
        let Some(file) = MarkerPath::parse(marker).map(|marker| marker.file()) else {
            return Ok(());
        };
        let Some(hold) = self.held.get_mut(&file) else {
            return Ok(());
        };
        hold.until = Some(now);
        self.line(now, &format!("Windrow releases {file}"), out)
    }

    /// Records the reasons from the status of each held file: the marker has only the first one.
    fn learn(&mut self, status: &Status) {
        for held in &status.staging.held {
            // Before kube-apiserver answers nothing is known, and that is no reason worth keeping.
            if held.code == Code::WaitsForCluster {
                continue;
            }
            if let Some(hold) = self.held.get_mut(&held.file)
                && !hold.whys.iter().any(|why| *why == held.why)
            {
                hold.whys.push(held.why.to_string());
            }
        }
        let let_go = [&status.staging.released, &status.staging.applied];
        for file in let_go.into_iter().flatten() {
            if let Some(hold) = self.held.get_mut(&file.file) {
                hold.cause = Some(file.cause);
            }
        }
    }

    /// Prints what is new on the node.
    fn print_news(&mut self, out: &mut dyn Write) -> io::Result<()> {
        let fresh = self.node.log()[self.told..].to_vec();
        self.told = self.node.log().len();
        for happening in fresh {
            // Passes come every 15 seconds, kinds by the hundred.
            let noise = matches!(
                happening.what,
                HappeningKind::PassBegan { .. }
                    | HappeningKind::PassEnded { .. }
                    | HappeningKind::Served { .. }
            );
            if !noise {
                self.line(happening.at, &happening.what.to_string(), out)?;
            }
        }
        Ok(())
    }

    fn line(&self, at: Timestamp, text: &str, out: &mut dyn Write) -> io::Result<()> {
        writeln!(out, "{}  {text}", since(self.start, at))?;
        out.flush()
    }

    fn summary(&mut self, out: &mut dyn Write) -> io::Result<bool> {
        let outcome = self.node.outcome(&self.files);
        writeln!(out, "\nWhat Windrow held")?;
        if self.order.is_empty() {
            writeln!(out, "  nothing: every file could be applied at once")?;
        }
        for file in &self.order {
            if let Some(hold) = self.held.get(file) {
                let cause = match hold.cause {
                    Some(Cause::Met) => ": everything it waited for was there",
                    Some(Cause::Yielded) => ": what it still waited for only orders",
                    _ => "",
                };
                let until = hold.until.map_or_else(
                    || "still held".to_owned(),
                    |until| format!("released {}{cause}", since(self.start, until)),
                );
                writeln!(out, "  {file}")?;
                writeln!(out, "      held {}, {until}", since(self.start, hold.since))?;
                for why in &hold.whys {
                    writeln!(out, "      - {why}")?;
                }
            }
        }
        writeln!(out, "\nWith Windrow\n  {}", verdict(&outcome.verdict))?;
        for (machine, state) in &outcome.machines {
            writeln!(out, "  {machine}: {state}")?;
        }
        let alone = without_windrow(&self.setup, self.seed);
        writeln!(
            out,
            "\nWithout Windrow\n  {}",
            verdict(&alone.outcome.verdict)
        )?;
        for (machine, state) in &alone.outcome.machines {
            let state = if state.is_empty() { "no status" } else { state };
            writeln!(out, "  {machine}: {state}")?;
        }
        let (with, without) = (self.node.counts(), alone.counts);
        writeln!(
            out,
            "\nRKE2 applied files {} times with Windrow ({} failed), {} times without ({} failed).",
            with.applies, with.failed, without.applies, without.failed
        )?;
        Ok(outcome.verdict == BootstrapVerdict::Complete)
    }
}

/// Will Windrow do something by itself later?
fn has_deadline(status: &Status, now: Timestamp) -> bool {
    status
        .staging
        .held
        .iter()
        .any(|held| held.deadline.is_some_and(|at| at > now))
}

fn verdict(verdict: &BootstrapVerdict) -> String {
    match verdict {
        BootstrapVerdict::Complete => "the node comes up, and everything is applied".to_owned(),
        BootstrapVerdict::Underway => "things were still happening".to_owned(),
        BootstrapVerdict::Unconfigured { because } => format!(
            "it comes up, but the storage network you preset is never configured:\n    {}",
            because.join("\n    ")
        ),
        BootstrapVerdict::Stuck { missing } => {
            format!("it is stuck:\n    {}", missing.join("\n    "))
        }
        BootstrapVerdict::Deadlocked { proof } => {
            format!("it never comes up:\n    {}", proof.join("\n    "))
        }
    }
}

/// Minutes and seconds since the node was switched on.
fn since(start: Timestamp, at: Timestamp) -> String {
    let passed: SignedDuration = at.duration_since(start);
    let seconds = passed.as_secs().max(0);
    format!("{:02}:{:02}", seconds / 60, seconds % 60)
}

/// Lays the manifests of a setup into a directory, as the installer does.
///
/// # Errors
///
/// Those of the file system.
pub fn lay_out(files: &SimulatedDirectory, manifests: &Path) -> io::Result<()> {
    std::fs::create_dir_all(manifests)?;
    for (path, file) in files.iter() {
        if let FileContent::Bytes(bytes) = &**file.content() {
            let place = manifests.join(path);
            if let Some(directory) = place.parent() {
                std::fs::create_dir_all(directory)?;
            }
            std::fs::write(place, bytes)?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_large_directory_is_taken_over_in_parts_and_nothing_of_it_is_taken_for_unreadable() {
        let place = tempfile::tempdir().unwrap();
        for name in ["a.yaml", "b.yaml", "c.yaml"] {
            std::fs::write(place.path().join(name), "#".repeat(12 << 20)).unwrap();
        }
        let clock = Clock::real();
        let manifests = place.path().to_owned();
        let mut sandbox = Sandbox::new(Setup::first_vm(Timestamp::UNIX_EPOCH), 1, manifests, clock);
        let paths = |sandbox: &Sandbox| -> Vec<String> {
            let files = sandbox.files.iter();
            files
                .inspect(|(_, file)| assert!(matches!(**file.content(), FileContent::Bytes(_))))
                .map(|(path, _)| path.to_owned())
                .collect()
        };
        for expected in [2, 3] {
            sandbox
                .mirror(Timestamp::now(), &mut std::io::sink())
                .unwrap();
            assert_eq!(paths(&sandbox).len(), expected);
        }
    }
}
