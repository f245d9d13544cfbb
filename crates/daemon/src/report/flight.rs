//! The flight recorder's file. A separate thread writes it, so that a slow disk delays nothing else.
//!
//! `flight.jsonl` grows to a bound and becomes `flight.jsonl.1`. The next file begins with all records that a replay of
//! it requires. A line is on the disk before the next one is taken. A failed write also begins the file again, so that
//! a torn line costs only itself.

mod file;
#[cfg(test)]
mod seen_tests;

use std::collections::BTreeMap;
use std::io::{self, Read as _};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::thread;
use std::time::Duration;

use jiff::Timestamp;
use windrow_decide::flight::{
    DecisionToRecord, DigestKey, FlightHead, FlightLine, RecordedConfiguration, RecordedFile,
    RecordedFiles, RecordedMachine, RecordedRepair, Recorder, VERSION,
};
use windrow_decide::{Ledger, Readiness};
use windrow_model::manifest::{self, FileContent, ManifestPath, Problem, ReadLimits};
use windrow_model::reasons::Code;

use self::file::FlightFile;

pub use self::file::{FlightDestination, copy_directory, remove_copy};

/// Most memory for the values of one file while it is recorded: the daemon reads it at the same time.
const LARGEST_VALUES: usize = 4 << 20;
/// Most items that wait to be written. More of them mean that the disk does not answer.
const MOST_WAITING: usize = 2000;
/// Longest wait for the disk when the daemon stops.
const LAST_WORDS: Duration = Duration::from_secs(5);
/// How long after a failed write the file is tried again though there is nothing new to write.
const TRY_AGAIN: Duration = Duration::from_secs(10);
/// The fraction of the file (one in this many) that manifests may take.
const SHARE_OF_MANIFESTS: u64 = 4;

/// The fraction of the file for new objects in the cluster, and for older ones.
const SHARE_OF_SEEN: u64 = 8;
const SHARE_OF_LISTED: u64 = 16;

pub enum FlightItem {
    Configuration(Box<RecordedConfiguration>, ReadLimits),
    Files {
        at: Timestamp,
        changed: Vec<(ManifestPath, Arc<FileContent>)>,
        gone: Vec<ManifestPath>,
    },
    Decision(Box<DecisionToRecord>),
    Repair(Box<RecordedRepair>),
    Machine(RecordedMachine),
    /// Objects that appeared in the cluster, a line each. No replay requires them: they may be left out.
    Seen {
        at: Timestamp,
        lines: Vec<FlightLine>,
    },
    /// Answered when everything before it is on the disk.
    Flush(Sender<()>),
}

impl FlightItem {
    fn at(&self) -> Option<Timestamp> {
        match self {
            Self::Configuration(configuration, _) => Some(configuration.at),
            Self::Files { at, .. } | Self::Seen { at, .. } => Some(*at),
            Self::Decision(made) => Some(made.at),
            Self::Repair(repaired) => Some(repaired.at),
            Self::Machine(machine) => Some(machine.at),
            Self::Flush(_) => None,
        }
    }
}

/// The owner's handle of the recorder. It writes until it is dropped.
#[derive(Debug)]
pub struct FlightWriter {
    items: Sender<FlightItem>,
    waiting: Arc<AtomicUsize>,
}

impl FlightWriter {
    /// Begins a flight. Nothing is written yet. Later errors stop nothing: `report` is called once for each new
    /// reason, when the file can be written again, and for a copy that could not be made.
    ///
    /// # Errors
    ///
    /// When there can be no thread.
    pub fn begin(
        destination: FlightDestination,
        report: impl Fn(FlightReport<'_>) + Send + 'static,
    ) -> io::Result<Self> {
        let key = random_key()?;
        let (items, received) = channel();
        let waiting = Arc::new(AtomicUsize::new(0));
        let left = waiting.clone();
        thread::Builder::new()
            .name("flight".to_owned())
            .spawn(move || FlightLog::new(destination, key).run(&received, &left, report))?;
        Ok(Self { items, waiting })
    }

    /// Queues an item to be written. False when the disk does not keep up: a flight with a gap cannot be
    /// replayed, so it ends there.
    pub fn record(&self, item: FlightItem) -> bool {
        if self.waiting.fetch_add(1, Ordering::Relaxed) >= MOST_WAITING {
            return false;
        }
        self.items.send(item).is_ok()
    }

    /// Whether there is room for items that may be left out. A slow disk leaves no room.
    pub fn has_room(&self) -> bool {
        self.waiting.load(Ordering::Relaxed) < MOST_WAITING / 2
    }

    /// Waits until everything is on the disk, for a while.
    pub fn flush(&self) {
        let (answer, answered) = channel();
        if self.record(FlightItem::Flush(answer)) {
            // A disk that hangs must not keep the daemon from stopping.
            let _ = answered.recv_timeout(LAST_WORDS);
        }
    }
}

#[derive(Debug, Clone, Copy)]
pub enum FlightReport<'a> {
    Written,
    NotWritten(&'a io::Error),
    /// The copy for a failed node was not made.
    NotCopied(&'a io::Error),
}

struct WrittenFile {
    sha256: String,
    at: u64,
    length: usize,
}

struct FlightLog {
    file: FlightFile,
    key: DigestKey,
    /// The end of the file after its beginning was written.
    begun_at: u64,
    recorder: Recorder,
    configuration: Option<(Timestamp, String)>,
    machine: Option<RecordedMachine>,
    seen: u64,
    limits: ReadLimits,
    written: BTreeMap<ManifestPath, WrittenFile>,
    pending: BTreeMap<ManifestPath, RecordedFile>,
    /// The ledger after the last decision: it is in the first line of the next file.
    ledger: Option<Ledger>,
    /// The last write failed, or nothing was written yet.
    broken: bool,
    failed: bool,
    /// Whether the node has just failed.
    wants_copy: bool,
    at: Option<Timestamp>,
    complaint: Option<String>,
}

impl FlightLog {
    fn new(destination: FlightDestination, key: DigestKey) -> Self {
        Self {
            file: FlightFile::new(destination),
            key,
            begun_at: 0,
            recorder: Recorder::default(),
            configuration: None,
            machine: None,
            seen: 0,
            limits: ReadLimits::default(),
            written: BTreeMap::new(),
            pending: BTreeMap::new(),
            ledger: None,
            broken: true,
            failed: false,
            wants_copy: false,
            at: None,
            complaint: None,
        }
    }

    fn run(
        mut self,
        items: &Receiver<FlightItem>,
        waiting: &AtomicUsize,
        report: impl Fn(FlightReport<'_>),
    ) {
        loop {
            let mut answers = Vec::new();
            let next = match &self.complaint {
                None => items.recv().map_err(|_| RecvTimeoutError::Disconnected),
                Some(_) => items.recv_timeout(TRY_AGAIN),
            };
            let mut result = match next {
                Ok(item) => {
                    waiting.fetch_sub(1, Ordering::Relaxed);
                    self.write_item(item, &mut answers)
                }
                // Nothing new: failed writes are retried.
                Err(RecvTimeoutError::Timeout) => self.at.map_or(Ok(()), |at| self.begin(at)),
                Err(RecvTimeoutError::Disconnected) => return,
            };
            while let Ok(item) = items.try_recv() {
                result = result.and(self.write_item(item, &mut answers));
                waiting.fetch_sub(1, Ordering::Relaxed);
            }
            result = result.and_then(|()| self.file.sync());
            if std::mem::take(&mut self.wants_copy)
                && let Err(error) = self.file.copy()
            {
                report(FlightReport::NotCopied(&error));
            }
            match result {
                Ok(()) => {
                    if self.complaint.take().is_some() {
                        report(FlightReport::Written);
                    }
                }
                Err(error) => {
                    self.broken = true;
                    let why = error.to_string();
                    if self.complaint.as_ref() != Some(&why) {
                        report(FlightReport::NotWritten(&error));
                        self.complaint = Some(why);
                    }
                }
            }
            for answer in answers {
                // The caller may have stopped waiting.
                let _ = answer.send(());
            }
        }
    }

    fn write_item(&mut self, item: FlightItem, answers: &mut Vec<Sender<()>>) -> io::Result<()> {
        self.at = item.at().or(self.at);
        match item {
            FlightItem::Configuration(configuration, limits) => {
                self.limits = limits;
                // Every file is recorded again after it: another configuration may read it differently.
                self.written.clear();
                self.pending.clear();
                let line = FlightLine::Configuration(*configuration.clone());
                self.configuration = Some((configuration.at, self.key.line(&line)?));
                if self.broken {
                    return self.begin(configuration.at);
                }
                self.write_line(&line).map(|_| ())
            }
            FlightItem::Files { at, changed, gone } => self.record_files(at, changed, gone),
            FlightItem::Decision(made) => self.record_decision(*made),
            FlightItem::Repair(repaired) => {
                if self.broken {
                    self.begin(repaired.at)?;
                }
                self.write_line(&FlightLine::Repair(*repaired)).map(|_| ())
            }
            FlightItem::Machine(machine) => {
                let at = machine.at;
                self.machine = Some(machine.clone());
                if self.broken {
                    // The beginning has it.
                    return self.begin(at);
                }
                self.write_line(&FlightLine::Machine(machine)).map(|_| ())
            }
            FlightItem::Seen { at, lines } => self.record_seen(at, &lines),
            FlightItem::Flush(answer) => {
                answers.push(answer);
                Ok(())
            }
        }
    }

    fn record_files(
        &mut self,
        at: Timestamp,
        changed: Vec<(ManifestPath, Arc<FileContent>)>,
        gone: Vec<ManifestPath>,
    ) -> io::Result<()> {
        let mut known = Vec::new();
        for path in gone {
            let waited = self.pending.remove(&path).is_some();
            if self.written.remove(&path).is_some() || waited {
                known.push(path);
            }
        }
        for (path, content) in changed {
            let limits = ReadLimits {
                expanded_bytes: self.limits.expanded_bytes.min(LARGEST_VALUES),
                ..self.limits.clone()
            };
            let file = manifest::read(&path, &content, &limits);
            drop(content);
            let same = self.written.get(&path);
            if same.is_some_and(|known| known.sha256 == file.sha256 && !file.sha256.is_empty()) {
                continue;
            }
            self.written.remove(&path);
            let taken: usize = self.written.values().map(|known| known.length).sum();
            let room = self.file.bound() / SHARE_OF_MANIFESTS;
            let room = usize::try_from(room).unwrap_or(usize::MAX);
            let exceeds = |problem: &Problem| problem.code == Code::LimitExceeded;
            let recorded = if limits != self.limits && file.problems.iter().any(exceeds) {
                let why = "its values take too much memory to be recorded".to_owned();
                RecordedFile {
                    sha256: file.sha256.clone(),
                    ..RecordedFile::left_out(&path, why)
                }
            } else {
                RecordedFile::from_manifest(&file, room.saturating_sub(taken))
            };
            self.pending.insert(path, recorded);
        }
        if self.broken {
            // Removed files are simply missing from the beginning.
            return self.begin(at);
        }
        if !known.is_empty() {
            self.write_line(&FlightLine::Files(RecordedFiles {
                at,
                files: Vec::new(),
                gone: known,
            }))?;
        }
        self.write_pending(at)
    }

    /// Writes the files that are not written yet. A file that cannot be written stays for the next beginning.
    fn write_pending(&mut self, at: Timestamp) -> io::Result<()> {
        while let Some((path, recorded)) = self.pending.pop_first() {
            let sha256 = recorded.sha256.clone();
            let line = FlightLine::Files(RecordedFiles {
                at,
                files: vec![recorded.clone()],
                gone: Vec::new(),
            });
            match self.write_line(&line) {
                Ok((at, length)) => {
                    self.written
                        .insert(path, WrittenFile { sha256, at, length });
                }
                Err(error) => {
                    self.pending.insert(path, recorded);
                    return Err(error);
                }
            }
        }
        Ok(())
    }

    /// Writes the observed objects, as far as there is room for them: the file is for decisions.
    fn record_seen(&mut self, at: Timestamp, lines: &[FlightLine]) -> io::Result<()> {
        if self.broken {
            self.begin(at)?;
        }
        for line in lines {
            let share = match line {
                FlightLine::Appeared(one) if one.was_there => SHARE_OF_LISTED,
                FlightLine::Release(one) if one.was_there => SHARE_OF_LISTED,
                _ => SHARE_OF_SEEN,
            };
            let text = self.key.line(line)?;
            let after = self.seen + text.len() as u64;
            if after <= self.file.bound() / share {
                self.append(text.as_bytes())?;
                self.seen = after;
            }
        }
        Ok(())
    }

    fn record_decision(&mut self, mut made: DecisionToRecord) -> io::Result<()> {
        let at = made.at;
        let full = self.file.is_full(self.begun_at);
        let after = made.after.clone();
        if (self.broken || full)
            && let Err(error) = self.begin(at)
        {
            self.ledger = Some(after);
            return Err(error);
        }
        if made.before.is_none() && self.recorder.wants_ledger() {
            made.before = Some(self.ledger.take().unwrap_or_default());
        }
        let failed = made.status.readiness == Readiness::Failed;
        let line = self.recorder.record(made);
        self.ledger = Some(after);
        self.write_line(&line)?;
        self.wants_copy |= failed && !self.failed;
        self.failed = failed;
        Ok(())
    }

    /// Begins the file again, with all records that a replay requires.
    fn begin(&mut self, at: Timestamp) -> io::Result<()> {
        let kept = self.written.values();
        let lines = kept
            .map(|written| self.file.read(written.at, written.length))
            .collect::<io::Result<Vec<_>>>()?;
        self.broken = true;
        self.file.open()?;
        self.write_line(&FlightLine::Flight(FlightHead {
            version: VERSION,
            windrow: env!("CARGO_PKG_VERSION").to_owned(),
            at,
            boot: self.file.boot(),
        }))?;
        if let Some((_, configuration)) = self.configuration.clone() {
            self.append(configuration.as_bytes())?;
        }
        if let Some(machine) = self.machine.clone() {
            self.write_line(&FlightLine::Machine(machine))?;
        }
        self.seen = 0;
        let paths: Vec<ManifestPath> = self.written.keys().cloned().collect();
        for (path, line) in paths.into_iter().zip(lines) {
            let at = self.append(&line)?;
            if let Some(written) = self.written.get_mut(&path) {
                written.at = at;
            }
        }
        self.write_pending(at)?;
        self.recorder.start_over();
        self.begun_at = self.file.end();
        self.broken = false;
        Ok(())
    }

    /// Writes a line: where it begins, and its length.
    fn write_line(&mut self, line: &FlightLine) -> io::Result<(u64, usize)> {
        let text = self.key.line(line)?;
        Ok((self.append(text.as_bytes())?, text.len()))
    }

    fn append(&mut self, line: &[u8]) -> io::Result<u64> {
        let written = self.file.append(line);
        self.broken |= written.is_err();
        written
    }
}

fn random_key() -> io::Result<DigestKey> {
    let mut bytes = [0; 32];
    std::fs::File::open("/dev/urandom")?.read_exact(&mut bytes)?;
    Ok(DigestKey::new(bytes))
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::sync::mpsc;

    use windrow_decide::flight::Tap;
    use windrow_decide::settings::Settings;
    use windrow_decide::{Readiness, StagingState};
    use windrow_plan::rules::RuleSet;
    use windrow_replay::Flights;

    use super::file::COPY;
    use super::*;

    #[test]
    fn when_the_node_fails_all_that_was_recorded_is_copied_to_where_it_outlives_the_disk() {
        let directory = tempfile::tempdir().unwrap();
        let oem = directory.path().join("oem");
        fs::create_dir(&oem).unwrap();
        let place = FlightDestination {
            path: directory.path().join("state/flight.jsonl"),
            bound: 1 << 20,
            copy_to: Some(oem.clone()),
            boot: None,
        };
        let (complaints, complained) = mpsc::channel();
        let report = move |report: FlightReport<'_>| {
            complaints.send(format!("{report:?}")).unwrap();
        };
        let writer = FlightWriter::begin(place.clone(), report).unwrap();
        let start = Timestamp::constant(1_767_225_600, 0);
        let configuration = RecordedConfiguration {
            at: start,
            digest: String::new(),
            origin: Vec::new(),
            platform: None,
            node: Default::default(),
            settings: windrow_decide::settings::record(&Settings::default()),
            rules: Vec::new(),
        };
        writer.record(FlightItem::Configuration(
            Box::new(configuration),
            ReadLimits::default(),
        ));
        let mut state = StagingState::new(
            Settings::default(),
            RuleSet::default(),
            None,
            Ledger::default(),
            start,
        );
        let mut tap = Tap::default();
        tap.before(state.ledger());
        let decision = state.decide(start);
        tap.decided(start, &decision, state.observation());
        let mut made = tap.acted(&[], &[]).unwrap();
        writer.record(FlightItem::Decision(Box::new(made.clone())));
        writer.flush();
        let copy = oem.join(COPY);
        assert!(!copy.exists(), "nothing has failed yet");
        made.status.readiness = Readiness::Failed;
        writer.record(FlightItem::Decision(Box::new(made)));
        writer.flush();
        let copied = super::file::decompress(&copy);
        assert_eq!(copied, fs::read(&place.path).unwrap());
        let flights = Flights::read(std::str::from_utf8(&copied).unwrap()).unwrap();
        assert_eq!((flights.segments.len(), flights.damage.len()), (1, 0));
        assert!(complained.try_recv().is_err());
    }
}
