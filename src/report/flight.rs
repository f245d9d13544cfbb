//! The flight recorder's file. A thread of its own writes it: a slow disk delays nobody.
//!
//! `flight.jsonl` grows to a bound, becomes `flight.jsonl.1` and is begun anew with everything that
//! is needed to replay what follows. A line is on the disk before the next one is waited for. After
//! a write that failed the file is begun anew too, so that a torn line costs nothing but itself.

use std::collections::BTreeMap;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Read as _, Seek as _, SeekFrom, Write as _};
use std::os::unix::fs::{FileExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread;
use std::time::Duration;

use jiff::Timestamp;
use nix::fcntl::OFlag;
use windrow_decide::flight::{
    Configuration, Files, Head, Key, Line, Made, RecordedFile, Recorder, Repaired, VERSION,
};
use windrow_decide::{Ledger, Readiness};
use windrow_model::manifest::{self, Content, Limits, ManifestPath, Problem};
use windrow_model::reasons::Code;

use crate::files::{Durability, make_private, replace};

/// The values of one file take no more memory than this while it is recorded: the daemon reads it at
/// the same time.
const LARGEST_VALUES: usize = 4 << 20;
/// More than this waiting to be written means that the disk does not answer: nothing more is taken.
const MOST_WAITING: usize = 2000;
/// So long a stop waits for what is not written yet.
const LAST_WORDS: Duration = Duration::from_secs(5);
/// So much of the file the manifests may take.
const SHARE_OF_MANIFESTS: u64 = 4;

/// Something to be recorded.
pub enum Item {
    /// The configuration in force.
    Configuration(Box<Configuration>, Limits),
    /// Manifest files that changed.
    Files {
        /// When they were seen.
        at: Timestamp,
        /// What each is now.
        changed: Vec<(ManifestPath, Arc<Content>)>,
        /// Those that are gone.
        gone: Vec<ManifestPath>,
    },
    /// A decision.
    Decision(Box<Made>),
    /// What became of a cure.
    Repair(Box<Repaired>),
    /// Answered when everything before it is on the disk.
    Flush(Sender<()>),
}

/// Where the flight goes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Place {
    /// The file.
    pub path: PathBuf,
    /// Its bound in bytes.
    pub bound: u64,
    /// The directory of the copy that is made when the node is Failed.
    pub copy_to: Option<PathBuf>,
    /// Which boot this is.
    pub boot: Option<String>,
}

/// The recorder, as its owner sees it. It writes until it is dropped.
#[derive(Debug)]
pub struct FlightWriter {
    items: Sender<Item>,
    waiting: Arc<AtomicUsize>,
}

impl FlightWriter {
    /// Begins a flight. Nothing is written yet; nothing that goes wrong later stops anybody, and
    /// `complain` is told once for every new reason.
    ///
    /// # Errors
    ///
    /// When there can be no thread.
    pub fn begin(place: Place, complain: impl Fn(String) + Send + 'static) -> io::Result<Self> {
        let key = key()?;
        let (items, received) = channel();
        let waiting = Arc::new(AtomicUsize::new(0));
        let left = waiting.clone();
        thread::Builder::new()
            .name("flight".to_owned())
            .spawn(move || Log::new(place, key).run(&received, &left, complain))?;
        Ok(Self { items, waiting })
    }

    /// Hands something over to be written, now or soon. False when the disk does not keep up: what is
    /// left out cannot be replayed, so the flight ends there.
    pub fn record(&self, item: Item) -> bool {
        if self.waiting.fetch_add(1, Ordering::Relaxed) >= MOST_WAITING {
            return false;
        }
        self.items.send(item).is_ok()
    }

    /// Waits until everything is on the disk, for a while.
    pub fn flush(&self) {
        let (answer, answered) = channel();
        if self.record(Item::Flush(answer)) {
            // A disk that hangs must not keep the daemon from stopping.
            let _ = answered.recv_timeout(LAST_WORDS);
        }
    }
}

/// Where a file's line stands in the flight.
struct Written {
    sha256: String,
    at: u64,
    length: usize,
}

/// The thread's part.
struct Log {
    place: Place,
    key: Key,
    file: Option<File>,
    /// Where the file ends.
    end: u64,
    /// Where it ended when everything that is needed was written at its beginning.
    begun_at: u64,
    recorder: Recorder,
    configuration: Option<(Timestamp, String)>,
    limits: Limits,
    written: BTreeMap<ManifestPath, Written>,
    /// Files that could not be written yet.
    pending: BTreeMap<ManifestPath, RecordedFile>,
    /// The ledger after the last decision: the first line of a file begun anew carries it.
    ledger: Option<Ledger>,
    /// The last write failed, or none was made yet.
    broken: bool,
    failed: bool,
    complaint: Option<String>,
}

impl Log {
    fn new(place: Place, key: Key) -> Self {
        Self {
            place,
            key,
            file: None,
            end: 0,
            begun_at: 0,
            recorder: Recorder::default(),
            configuration: None,
            limits: Limits::default(),
            written: BTreeMap::new(),
            pending: BTreeMap::new(),
            ledger: None,
            broken: true,
            failed: false,
            complaint: None,
        }
    }

    fn run(mut self, items: &Receiver<Item>, waiting: &AtomicUsize, complain: impl Fn(String)) {
        while let Ok(item) = items.recv() {
            let mut answers = Vec::new();
            let mut result = self.take(item, &mut answers);
            waiting.fetch_sub(1, Ordering::Relaxed);
            while let Ok(item) = items.try_recv() {
                result = result.and(self.take(item, &mut answers));
                waiting.fetch_sub(1, Ordering::Relaxed);
            }
            if let (Ok(()), Some(file)) = (&result, &self.file) {
                result = file.sync_data();
            }
            match result {
                Ok(()) => self.complaint = None,
                Err(error) => {
                    self.broken = true;
                    let why = error.to_string();
                    if self.complaint.as_ref() != Some(&why) {
                        complain(why.clone());
                        self.complaint = Some(why);
                    }
                }
            }
            for answer in answers {
                // Who does not wait any more needs no answer.
                let _ = answer.send(());
            }
        }
    }

    fn take(&mut self, item: Item, answers: &mut Vec<Sender<()>>) -> io::Result<()> {
        match item {
            Item::Configuration(configuration, limits) => {
                self.limits = limits;
                // Every file is recorded anew after it: another configuration reads it otherwise.
                self.written.clear();
                self.pending.clear();
                let line = Line::Configuration(*configuration.clone());
                self.configuration = Some((configuration.at, self.key.line(&line)?));
                if self.broken {
                    return self.begin(configuration.at);
                }
                self.write(&line).map(|_| ())
            }
            Item::Files { at, changed, gone } => self.files(at, changed, gone),
            Item::Decision(made) => self.decision(*made),
            Item::Repair(repaired) => {
                if self.broken {
                    self.begin(repaired.at)?;
                }
                self.write(&Line::Repair(*repaired)).map(|_| ())
            }
            Item::Flush(answer) => {
                answers.push(answer);
                Ok(())
            }
        }
    }

    fn files(
        &mut self,
        at: Timestamp,
        changed: Vec<(ManifestPath, Arc<Content>)>,
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
            let limits = Limits {
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
            let room = self.place.bound / SHARE_OF_MANIFESTS;
            let room = usize::try_from(room).unwrap_or(usize::MAX);
            let exceeds = |problem: &Problem| problem.code == Code::LimitExceeded;
            let recorded = if limits != self.limits && file.problems.iter().any(exceeds) {
                let why = "its values take too much memory to be recorded".to_owned();
                RecordedFile {
                    sha256: file.sha256.clone(),
                    ..RecordedFile::left_out(&path, why)
                }
            } else {
                RecordedFile::of(&file, room.saturating_sub(taken))
            };
            self.pending.insert(path, recorded);
        }
        if self.broken {
            // Those that are gone are simply not in what is begun.
            return self.begin(at);
        }
        if !known.is_empty() {
            self.write(&Line::Files(Files {
                at,
                files: Vec::new(),
                gone: known,
            }))?;
        }
        self.settle(at)
    }

    /// Writes the files that are not written yet; one that cannot be stays for the next beginning.
    fn settle(&mut self, at: Timestamp) -> io::Result<()> {
        while let Some((path, recorded)) = self.pending.pop_first() {
            let sha256 = recorded.sha256.clone();
            let line = Line::Files(Files {
                at,
                files: vec![recorded.clone()],
                gone: Vec::new(),
            });
            match self.write(&line) {
                Ok((at, length)) => {
                    self.written.insert(path, Written { sha256, at, length });
                }
                Err(error) => {
                    self.pending.insert(path, recorded);
                    return Err(error);
                }
            }
        }
        Ok(())
    }

    fn decision(&mut self, mut made: Made) -> io::Result<()> {
        let at = made.at;
        // Begun anew only after it has grown by half of the bound: what stands at the beginning may
        // itself be large.
        let full = self.end > self.place.bound && self.end > self.begun_at + self.place.bound / 2;
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
        self.write(&line)?;
        if failed && !self.failed {
            self.copy()?;
        }
        self.failed = failed;
        Ok(())
    }

    /// Begins the file anew: everything that is needed stands in it again.
    fn begin(&mut self, at: Timestamp) -> io::Result<()> {
        let mut lines = Vec::new();
        if let Some(old) = &self.file {
            for written in self.written.values() {
                let mut line = vec![0; written.length];
                old.read_exact_at(&mut line, written.at)?;
                lines.push(line);
            }
        }
        self.broken = true;
        self.open()?;
        self.write(&Line::Flight(Head {
            version: VERSION,
            windrow: env!("CARGO_PKG_VERSION").to_owned(),
            at,
            boot: self.place.boot.clone(),
        }))?;
        if let Some((_, configuration)) = self.configuration.clone() {
            self.put(configuration.as_bytes())?;
        }
        let paths: Vec<ManifestPath> = self.written.keys().cloned().collect();
        for (path, line) in paths.into_iter().zip(lines) {
            let at = self.put(&line)?;
            if let Some(written) = self.written.get_mut(&path) {
                written.at = at;
            }
        }
        self.settle(at)?;
        self.recorder.begin_anew();
        self.begun_at = self.end;
        self.broken = false;
        Ok(())
    }

    /// Opens the file to go on at its end; a full one is set aside first.
    fn open(&mut self) -> io::Result<()> {
        if let Some(directory) = self.place.path.parent() {
            make_private(directory)?;
        }
        let length = fs::symlink_metadata(&self.place.path).map_or(0, |found| found.len());
        if length > self.place.bound {
            fs::rename(&self.place.path, older(&self.place.path))?;
        }
        let mut file = OpenOptions::new()
            .read(true)
            .append(true)
            .create(true)
            .mode(0o600)
            .custom_flags((OFlag::O_NOFOLLOW | OFlag::O_NONBLOCK).bits())
            .open(&self.place.path)?;
        if !file.metadata()?.is_file() {
            return Err(io::Error::other("it is not a regular file"));
        }
        self.end = file.seek(SeekFrom::End(0))?;
        if self.end > 0 {
            let mut last = [0];
            file.read_exact_at(&mut last, self.end - 1)?;
            if last != *b"\n" {
                // Torn by a power cut; a line of its own, it is left out.
                file.write_all(b"\n")?;
                self.end += 1;
            }
        }
        if let Some(directory) = self.place.path.parent() {
            File::open(directory)?.sync_all()?;
        }
        self.file = Some(file);
        Ok(())
    }

    /// Writes a line: where it begins, and its length.
    fn write(&mut self, line: &Line) -> io::Result<(u64, usize)> {
        let text = self.key.line(line)?;
        Ok((self.put(text.as_bytes())?, text.len()))
    }

    fn put(&mut self, line: &[u8]) -> io::Result<u64> {
        let at = self.end;
        let file = self
            .file
            .as_mut()
            .ok_or_else(|| io::Error::other("not open"))?;
        if let Err(error) = file.write_all(line) {
            self.broken = true;
            return Err(error);
        }
        self.end += line.len() as u64;
        Ok(at)
    }

    /// Puts a copy where it outlives the node's disk: the older file first.
    fn copy(&self) -> io::Result<()> {
        let Some(directory) = &self.place.copy_to else {
            return Ok(());
        };
        let mut content = Vec::new();
        for path in [older(&self.place.path), self.place.path.clone()] {
            match File::open(path) {
                Ok(mut file) => {
                    file.read_to_end(&mut content)?;
                }
                Err(error) if error.kind() == io::ErrorKind::NotFound => {}
                Err(error) => return Err(error),
            }
        }
        let place = directory.join(COPY);
        replace(&place, &content, 0o600, Durability::Durable).map_err(|error| {
            io::Error::new(
                error.kind(),
                format!("copy to {}: {error}", place.display()),
            )
        })
    }
}

/// The copy's name.
pub const COPY: &str = "windrow-flight.jsonl";

/// The file before this one.
pub fn older(path: &Path) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(".1");
    PathBuf::from(name)
}

/// A key that nobody can guess, of the kernel's own randomness.
fn key() -> io::Result<Key> {
    let mut bytes = [0; 32];
    File::open("/dev/urandom")?.read_exact(&mut bytes)?;
    Ok(Key::new(bytes))
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;

    use windrow_decide::flight::{Flights, Tap};
    use windrow_decide::settings::Settings;
    use windrow_decide::{Readiness, StagingState};
    use windrow_plan::rules::RuleSet;

    use super::*;

    #[test]
    fn when_the_node_fails_all_that_was_recorded_is_copied_to_where_it_outlives_the_disk() {
        let directory = tempfile::tempdir().unwrap();
        let oem = directory.path().join("oem");
        fs::create_dir(&oem).unwrap();
        let place = Place {
            path: directory.path().join("state/flight.jsonl"),
            bound: 1 << 20,
            copy_to: Some(oem.clone()),
            boot: None,
        };
        let (complaints, complained) = mpsc::channel();
        let complain = move |why| complaints.send(why).unwrap();
        let writer = FlightWriter::begin(place.clone(), complain).unwrap();
        let start = Timestamp::constant(1_767_225_600, 0);
        let configuration = Configuration {
            at: start,
            digest: String::new(),
            origin: Vec::new(),
            platform: None,
            settings: windrow_decide::settings::record(&Settings::default()),
            rules: Vec::new(),
        };
        writer.record(Item::Configuration(
            Box::new(configuration),
            Limits::default(),
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
        writer.record(Item::Decision(Box::new(made.clone())));
        writer.flush();
        let copy = oem.join(COPY);
        assert!(!copy.exists(), "nothing has failed yet");
        made.status.readiness = Readiness::Failed;
        writer.record(Item::Decision(Box::new(made)));
        writer.flush();
        let copied = fs::read_to_string(&copy).unwrap();
        assert_eq!(copied, fs::read_to_string(&place.path).unwrap());
        let flights = Flights::read(&copied).unwrap();
        assert_eq!((flights.segments.len(), flights.damage.len()), (1, 0));
        assert!(complained.try_recv().is_err());
    }
}
