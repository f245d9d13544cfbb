//! The sandbox: the real daemon, with real files, markers, inotify and ledger below a directory. Only the node's
//! cluster is simulated, with a clock that runs faster.
//!
//! This is the cluster's side: it reads the directory as RKE2 would, runs the simulated node, passes the daemon the
//! events of its watches, and prints the course of events.

mod node_time;
mod pause;
mod probing;
mod summary;

use std::collections::BTreeMap;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::time::Duration;

use jiff::Timestamp;
use tokio::sync::{mpsc, watch};
use tokio::time::{Instant, sleep_until};
use windrow_decide::{Cause, ClusterEvent, Interests, Mark, Readiness, Status};
use windrow_model::manifest::{FileContent, ManifestPath, MarkerPath, ReadLimits};
use windrow_model::reasons::Code;
use windrow_simulate::{
    BootstrapVerdict, HappeningKind, Setup, SimulatedDirectory, SimulatedNode, Watch,
};

pub use self::node_time::NodeTime;
use self::pause::EnterKeys;
pub use self::pause::PausePoint;
use self::probing::SimulatedProbing;
use self::summary::since;

use crate::daemon::Clock;
use crate::fs;
use crate::observe::scan::{FileStamps, ScanResult, ScannedContent, scan};
use crate::report::publish::StatusWatch;

/// How often the sandbox looks at the directory, because no event reports its changes.
const STEP: Duration = Duration::from_millis(25);
/// How long nothing may change, in real time, before the sandbox ends.
const CALM: Duration = Duration::from_secs(2);
/// How long Windrow may take, in real time, to recognise the node's state.
const PATIENCE: Duration = Duration::from_secs(60);

/// The commands to type to look around; they contain a held file, if there is one.
type Hints = dyn Fn(Option<&ManifestPath>) -> String + Send;

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
    probing: SimulatedProbing,
    pauses: Vec<PausePoint>,
    tell_time: Box<dyn Fn(&Clock) + Send>,
    hints: Box<Hints>,
    hinted: bool,
}

struct Hold {
    since: Timestamp,
    whys: Vec<String>,
    until: Option<Timestamp>,
    cause: Option<Cause>,
}

pub struct Ends {
    pub interests: watch::Receiver<Interests>,
    pub events: mpsc::Sender<ClusterEvent>,
    pub status: StatusWatch,
}

impl Sandbox {
    /// A node that is switched on once the daemon is ready.
    pub fn new(setup: Setup, seed: u64, manifests: PathBuf, clock: Clock) -> Self {
        let start = setup.scenario.start;
        Self {
            node: SimulatedNode::new(setup.scenario.clone(), seed),
            probing: SimulatedProbing::new(setup.platform(), clock.speed()),
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
            pauses: Vec::new(),
            tell_time: Box::new(|_| ()),
            hints: Box::new(|_| String::new()),
            hinted: false,
        }
    }

    #[must_use]
    pub fn with_pauses(mut self, pauses: Vec<PausePoint>) -> Self {
        self.pauses = pauses;
        self
    }

    /// Prints the commands to type to look around, once Windrow has decided; with a held file, if there is one.
    #[must_use]
    pub fn with_hints(
        mut self,
        hints: impl Fn(Option<&ManifestPath>) -> String + Send + 'static,
    ) -> Self {
        self.hints = Box::new(hints);
        self
    }

    /// Prints the speed of the clock, at first and whenever it changes.
    #[must_use]
    pub fn with_time(mut self, tell: impl Fn(&Clock) + Send + 'static) -> Self {
        self.tell_time = Box::new(tell);
        self
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
        (self.tell_time)(&self.clock);
        self.start = self.clock.now();
        self.setup.scenario.start = self.start;
        self.node = SimulatedNode::new(self.setup.scenario.clone(), self.seed);
        let mut settled_since: Option<Instant> = None;
        let mut keys = None;
        loop {
            let now = self.clock.now();
            let before = (self.files.generation(), self.node.log().len());
            self.mirror(now, out)?;
            self.node.advance(now, &self.files);
            self.print_news(out)?;
            let interests = ends.interests.borrow_and_update().clone();
            let seen = self.watch.poll(self.node.cluster(), &interests);
            let probed = self.probing.ask(&self.node, &interests, now);
            for event in seen.into_iter().chain(probed) {
                if ends.events.send(event).await.is_err() {
                    return Ok(false);
                }
            }
            let status = ends.status.borrow_and_update().clone();
            if let Some(status) = &status {
                self.learn(status);
                self.hint(status, out)?;
                if self.stops_at(status, out)? {
                    keys.get_or_insert_with(EnterKeys::listen);
                }
            }
            let after = (self.files.generation(), self.node.log().len());
            let settled = !self.clock.is_stopped()
                && self.node.is_settled(&self.files)
                && status
                    .as_ref()
                    .is_some_and(|status| !has_deadline(status, now));
            if before.0 != after.0 || !settled {
                settled_since = None;
            } else {
                let over = settled_since.get_or_insert_with(Instant::now).elapsed();
                if over > CALM && (over > PATIENCE || self.is_seen(status.as_deref())) {
                    return self.summary(status.as_deref(), out);
                }
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
                typed = pressed(&mut keys), if self.clock.is_stopped() => {
                    if !typed {
                        writeln!(out, "Standard input has ended: the node goes on.")?;
                    }
                    self.clock.go_on();
                    (self.tell_time)(&self.clock);
                }
            }
        }
    }

    /// Whether Windrow says Ready, if the node came up. The last answer of a probe may still be on its way.
    fn is_seen(&mut self, status: Option<&Status>) -> bool {
        let came_up = self.node.outcome(&self.files).verdict == BootstrapVerdict::Complete;
        let arrived =
            |status: &Status| matches!(status.readiness, Readiness::Ready | Readiness::Degraded);
        // If no probe is asked, Windrow never says so.
        !came_up || status.is_some_and(|status| status.probes.is_empty() || arrived(status))
    }

    /// Prints the commands to type to look around, once.
    fn hint(&mut self, status: &Status, out: &mut dyn Write) -> io::Result<()> {
        if std::mem::replace(&mut self.hinted, true) {
            return Ok(());
        }
        let held = status.staging.held.first().map(|held| &held.file);
        let hints = (self.hints)(held);
        writeln!(out, "{hints}")?;
        out.flush()
    }

    fn stops_at(&mut self, status: &Status, out: &mut dyn Write) -> io::Result<bool> {
        let reached = self
            .pauses
            .iter()
            .position(|point| point.is_reached(status));
        let Some(reached) = reached.filter(|_| !self.clock.is_stopped()) else {
            return Ok(false);
        };
        let point = self.pauses.remove(reached);
        self.clock.stop();
        (self.tell_time)(&self.clock);
        writeln!(
            out,
            "{}  -- stopped at {}: the node's clock stands, Windrow answers. Enter goes on --",
            since(self.start, self.clock.now()),
            point.describe()
        )?;
        out.flush()?;
        Ok(true)
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
                    // Files for which there was no room are read at the next look.
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
            // Before kube-apiserver answers, the files' reasons are unknown: this reason is not worth keeping.
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
}

/// Waits for Enter; forever if no keys are read.
async fn pressed(keys: &mut Option<EnterKeys>) -> bool {
    match keys {
        Some(keys) => keys.pressed().await,
        None => std::future::pending().await,
    }
}

/// Whether Windrow will do something automatically later.
fn has_deadline(status: &Status, now: Timestamp) -> bool {
    status
        .staging
        .held
        .iter()
        .any(|held| held.deadline.is_some_and(|at| at > now))
}

/// Writes the manifests of a setup into a directory, as the installer does.
///
/// # Errors
///
/// Those of the file system.
pub fn lay_out(files: &SimulatedDirectory, manifests: &Path) -> io::Result<()> {
    fs::create_dir_all(manifests)?;
    for (path, file) in files.iter() {
        if let FileContent::Bytes(bytes) = &**file.content() {
            let place = manifests.join(path);
            if let Some(directory) = place.parent() {
                fs::create_dir_all(directory)?;
            }
            fs::write(place, bytes)?;
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
