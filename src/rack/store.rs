//! The state that a rack keeps over restarts: every report, and from time to time the records that result from them.
//!
//! ```text
//!   reports ──> one thread: a batch, one commit, one fsync ──> "kept"
//!                 └── too many or too old: records are written, the reports in them are removed
//! ```
//!
//! A record is the join of its reports, so a crash between the two does no harm: reading a report twice changes
//! nothing. A file that cannot be read is set aside under another name; a rack goes on without its past rather than not
//! at all.

mod durable_length;
mod unfinished;

use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::sync::mpsc;

use jiff::{SignedDuration, Timestamp};
use redb::backends::FileBackend;
use redb::{Database, DatabaseError, ReadableDatabase, ReadableTable, TableDefinition};
use tokio::sync::oneshot;
use windrow_rack::{NodeIdentity, NodeRecord, NodeReport};

use self::durable_length::DurableLength;
use self::unfinished::empty_unfinished;
use crate::files::make_private;
use crate::fs;
use crate::lock::Lock;

const REPORTS: TableDefinition<'_, u64, &[u8]> = TableDefinition::new("reports");
const RECORDS: TableDefinition<'_, &str, &[u8]> = TableDefinition::new("records");
const FILE: &str = "rack.redb";
const LOCK: &str = "rack.lock";
/// Most reports, and most bytes of them, before the older half is folded into records.
const MOST_REPORTS: usize = 20_000;
const MOST_BYTES: usize = 32 << 20;
/// Most bytes of reports and of records to read at the start: a file of an older version may have far more.
const MOST_READ: usize = 2 * MOST_BYTES;
/// A machine without news for this long is forgotten.
const KEPT: SignedDuration = SignedDuration::from_hours(90 * 24);
/// Memory for its pages.
const CACHE: usize = 8 << 20;
/// Most reports in one commit.
const BATCH: usize = 512;

#[derive(Debug, Default)]
pub(crate) struct Restored {
    pub(crate) records: Vec<(NodeIdentity, NodeRecord)>,
    /// In the order of arrival.
    pub(crate) reports: Vec<NodeReport>,
    pub(crate) notes: Vec<String>,
}

#[derive(Debug, thiserror::Error)]
pub(crate) enum StoreError {
    /// Another process has it.
    #[error("{0} is in use by another windrow rack")]
    InUse(PathBuf),
    #[error("{path}: {why}")]
    Io { path: PathBuf, why: String },
}

struct Kept {
    report: NodeReport,
    done: oneshot::Sender<Result<(), String>>,
}

/// The open store. Its thread ends with it.
#[derive(Clone)]
pub(crate) struct Store(mpsc::Sender<Kept>);

/// The callbacks of the store's thread.
pub(crate) struct StoreOwner {
    pub(crate) records: Box<dyn Fn() -> Vec<(NodeIdentity, NodeRecord)> + Send>,
    /// The store calls it when reports were folded, or with the reason why not.
    pub(crate) folded: Box<dyn Fn(Result<(), String>) + Send>,
}

impl Store {
    /// Opens the store in a directory, and reads its content.
    ///
    /// # Errors
    ///
    /// When another process has it, or nothing can be written there.
    pub(crate) fn open(directory: &Path, now: Timestamp) -> Result<(Opened, Restored), StoreError> {
        let path = directory.join(FILE);
        let failed = |error: &dyn std::fmt::Display| StoreError::Io {
            path: path.clone(),
            why: error.to_string(),
        };
        make_private(directory).map_err(|error| failed(&error))?;
        // The library's own lock ends with a broken file, before that one is set aside.
        let lock = Lock::take(&directory.join(LOCK)).map_err(|error| failed(&error))?;
        let Some(lock) = lock else {
            return Err(StoreError::InUse(path));
        };
        let mut notes = Vec::new();
        // The library panics on some broken files.
        let read_file = |path: &Path| {
            catch_unwind(AssertUnwindSafe(|| -> Result<_, Broken> {
                let database = open(path)?;
                let restored = read_all(&database, now)?;
                Ok((database, restored))
            }))
            .unwrap_or_else(|_| Err(Broken::File("it is not a database".to_owned())))
        };
        let (database, read) = match read_file(&path) {
            Ok(opened) => opened,
            Err(Broken::InUse) => return Err(StoreError::InUse(path)),
            Err(Broken::Io(error)) => return Err(failed(&error)),
            Err(Broken::File(why)) => {
                let aside = set_aside(&path).map_err(|error| failed(&error))?;
                notes.push(format!(
                    "{} could not be read ({why}); it is now {}, and this rack begins again",
                    path.display(),
                    aside.display()
                ));
                match read_file(&path) {
                    Ok(opened) => opened,
                    Err(Broken::InUse) => return Err(StoreError::InUse(path)),
                    Err(Broken::Io(error)) => return Err(failed(&error)),
                    Err(Broken::File(why)) => return Err(failed(&why)),
                }
            }
        };
        if read.unreadable > 0 {
            notes.push(format!(
                "reports and records in {} that this version cannot read, and does not show: {}",
                path.display(),
                read.unreadable
            ));
        }
        if read.left_out > 0 {
            notes.push(format!(
                "{} has more than is kept ({} MiB): the oldest reports and records are left out, {} in all",
                path.display(),
                MOST_READ >> 20,
                read.left_out
            ));
        }
        let opened = Opened {
            held: read.held,
            database: Some(database),
            path,
            _lock: lock,
        };
        let restored = Restored {
            records: read.records,
            reports: read.reports,
            notes,
        };
        Ok((opened, restored))
    }

    /// Keeps a report. Returns once it is on the disk.
    ///
    /// # Errors
    ///
    /// Why it could not be written, in a line.
    pub(crate) async fn keep(&self, report: NodeReport) -> Result<(), String> {
        let (done, kept) = oneshot::channel();
        let order = Kept { report, done };
        let gone = || "the store has ended".to_owned();
        self.0.send(order).map_err(|_| gone())?;
        kept.await.unwrap_or_else(|_| Err(gone()))
    }
}

#[derive(Debug, Clone, Copy)]
struct Held {
    number: u64,
    bytes: usize,
}

/// An open store that does not write yet.
pub(crate) struct Opened {
    /// `None` after an error of the disk: the library accepts nothing from then on, until the file is opened again.
    database: Option<Database>,
    path: PathBuf,
    held: std::collections::VecDeque<Held>,
    _lock: Lock,
}

impl Opened {
    /// Starts its thread.
    ///
    /// # Errors
    ///
    /// When the system gives no thread.
    pub(crate) fn start(self, owner: StoreOwner) -> io::Result<Store> {
        self.start_within(MOST_REPORTS, MOST_BYTES, owner)
    }

    fn start_within(mut self, most: usize, bytes: usize, owner: StoreOwner) -> io::Result<Store> {
        let (orders, received) = mpsc::channel();
        std::thread::Builder::new()
            .name("rack-store".to_owned())
            .spawn(move || {
                while let Ok(first) = received.recv() {
                    let mut batch = vec![first];
                    batch.extend(received.try_iter().take(BATCH - 1));
                    self.write(batch);
                    if self.held.len() > most || self.held_bytes() > bytes {
                        // Reports that could not be folded now are folded after the next batch.
                        let folded = self.fold(&(owner.records)());
                        (owner.folded)(self.or_opened_again(folded));
                    }
                }
            })?;
        Ok(Store(orders))
    }

    fn held_bytes(&self) -> usize {
        self.held.iter().map(|held| held.bytes).sum()
    }

    fn write(&mut self, batch: Vec<Kept>) {
        let mut waiting = Vec::new();
        let mut reports = Vec::new();
        for kept in batch {
            reports.push(kept.report);
            waiting.push(kept.done);
        }
        let written = self.append(&reports);
        let written = self.or_opened_again(written);
        for done in waiting {
            // The waiting task may be gone.
            let _ = done.send(written.clone());
        }
    }

    /// The database. A full disk may have room again: then the content from before the error is there.
    fn database(&mut self) -> Result<&Database, redb::Error> {
        let database = match self.database.take() {
            Some(database) => database,
            None => catch_unwind(AssertUnwindSafe(|| open(&self.path)))
                .unwrap_or_else(|_| Err(Broken::File("it is not a database".to_owned())))
                .map_err(|broken| redb::Error::Io(broken.into_io()))?,
        };
        Ok(self.database.insert(database))
    }

    /// After an error the file is closed, and opened again for the next operation.
    fn or_opened_again<T>(&mut self, done: Result<T, redb::Error>) -> Result<T, String> {
        done.map_err(|error| {
            let database = self.database.take();
            // The library may panic on content that it could not write.
            let _ = catch_unwind(AssertUnwindSafe(|| drop(database)));
            error.to_string()
        })
    }

    fn append(&mut self, reports: &[NodeReport]) -> Result<(), redb::Error> {
        let mut number = self.held.back().map_or(0, |held| held.number + 1);
        let mut held = Vec::new();
        let transaction = self.database()?.begin_write()?;
        {
            let mut table = transaction.open_table(REPORTS)?;
            for report in reports {
                let bytes = serde_json::to_vec(report)
                    .map_err(|error| redb::Error::Io(io::Error::other(error)))?;
                table.insert(number, bytes.as_slice())?;
                held.push(Held {
                    number,
                    bytes: bytes.len(),
                });
                number += 1;
            }
        }
        transaction.commit()?;
        self.held.extend(held);
        Ok(())
    }

    /// Writes the records, and removes the older half of the reports that they hold.
    fn fold(&mut self, records: &[(NodeIdentity, NodeRecord)]) -> Result<(), redb::Error> {
        let invalid = |error: serde_json::Error| redb::Error::Io(io::Error::other(error));
        let older = self.held.len().div_ceil(2);
        let transaction = self.database()?.begin_write()?;
        {
            let mut table = transaction.open_table(RECORDS)?;
            table.retain(|_, _| false)?;
            for (identity, record) in records {
                let key = serde_json::to_string(identity).map_err(invalid)?;
                let value = serde_json::to_vec(record).map_err(invalid)?;
                table.insert(key.as_str(), value.as_slice())?;
            }
            let mut table = transaction.open_table(REPORTS)?;
            for held in self.held.iter().take(older) {
                table.remove(held.number)?;
            }
        }
        transaction.commit()?;
        self.held.drain(..older);
        Ok(())
    }
}

enum Broken {
    InUse,
    Io(io::Error),
    File(String),
}

impl Broken {
    fn into_io(self) -> io::Error {
        match self {
            Self::InUse => io::Error::other("another process has it"),
            Self::Io(error) => error,
            Self::File(why) => io::Error::other(why),
        }
    }
}

impl From<redb::Error> for Broken {
    fn from(error: redb::Error) -> Self {
        match error {
            redb::Error::DatabaseAlreadyOpen => Self::InUse,
            // A file that is too short, or has something else in it.
            redb::Error::Io(error)
                if !matches!(
                    error.kind(),
                    io::ErrorKind::InvalidData | io::ErrorKind::UnexpectedEof
                ) =>
            {
                Self::Io(error)
            }
            error => Self::File(error.to_string()),
        }
    }
}

fn open(path: &Path) -> Result<Database, Broken> {
    // Its directory may be open to other users.
    let file = fs::OpenOptions::new()
        .read(true)
        .write(true)
        .create(true)
        .truncate(false)
        .mode(0o600)
        .open(path)
        .map_err(Broken::Io)?;
    let opened = FileBackend::new(file).and_then(|file| {
        // No other process writes it from here on.
        empty_unfinished(&file)?;
        Database::builder()
            .set_cache_size(CACHE)
            .create_with_backend(DurableLength(file))
    });
    Ok(opened.map_err(|error: DatabaseError| redb::Error::from(error))?)
}

/// The content of a file, as far as there is room for it.
#[derive(Default)]
struct ReadFile {
    reports: Vec<NodeReport>,
    records: Vec<(NodeIdentity, NodeRecord)>,
    held: std::collections::VecDeque<Held>,
    /// Reports and records that an older or a newer version wrote and this one cannot read.
    unreadable: usize,
    left_out: usize,
}

fn read_all(database: &Database, now: Timestamp) -> Result<ReadFile, Broken> {
    read_within(database, now, MOST_REPORTS, MOST_READ)
}

fn read_within(
    database: &Database,
    now: Timestamp,
    most: usize,
    bytes: usize,
) -> Result<ReadFile, Broken> {
    let read = || -> Result<ReadFile, redb::Error> {
        let mut all = ReadFile::default();
        let transaction = database.begin_write()?;
        transaction.open_table(REPORTS)?;
        transaction.open_table(RECORDS)?;
        transaction.commit()?;
        let transaction = database.begin_read()?;
        all.read_reports(&transaction.open_table(REPORTS)?, now, 2 * most, bytes)?;
        all.read_records(&transaction.open_table(RECORDS)?, now, bytes)?;
        Ok(all)
    };
    Ok(read()?)
}

impl ReadFile {
    /// The newest of them, in their order.
    fn read_reports(
        &mut self,
        table: &impl ReadableTable<u64, &'static [u8]>,
        now: Timestamp,
        most: usize,
        bytes: usize,
    ) -> Result<(), redb::Error> {
        let mut room = bytes;
        for entry in table.iter()?.rev() {
            let (number, report) = entry?;
            let report = report.value();
            self.held.push_front(Held {
                number: number.value(),
                bytes: report.len(),
            });
            if self.reports.len() == most || report.len() > room {
                room = 0;
                self.left_out += 1;
                continue;
            }
            room -= report.len();
            match serde_json::from_slice::<NodeReport>(report) {
                Ok(report) if now.duration_since(report.received) >= KEPT => {}
                Ok(report) => self.reports.push(report),
                Err(_) => self.unreadable += 1,
            }
        }
        self.reports.reverse();
        Ok(())
    }

    /// The most recent records. Only one of them at a time is in memory until they are selected.
    fn read_records(
        &mut self,
        table: &impl ReadableTable<&'static str, &'static [u8]>,
        now: Timestamp,
        bytes: usize,
    ) -> Result<(), redb::Error> {
        let mut found = Vec::new();
        for entry in table.iter()? {
            let (identity, record) = entry?;
            let (key, bytes) = (identity.value().to_owned(), record.value().len());
            let identity = serde_json::from_str::<NodeIdentity>(&key);
            let record = serde_json::from_slice::<NodeRecord>(record.value());
            let (Ok(identity), Ok(record)) = (identity, record) else {
                self.unreadable += 1;
                continue;
            };
            let heard = record.heard();
            if let Some(heard) = heard.filter(|heard| now.duration_since(*heard) < KEPT) {
                found.push((std::cmp::Reverse(heard), key, bytes, identity));
            }
        }
        found.sort();
        let mut room = bytes;
        for (_, key, bytes, identity) in found {
            if bytes > room {
                room = 0;
                self.left_out += 1;
                continue;
            }
            room -= bytes;
            let Some(record) = table.get(key.as_str())? else {
                continue;
            };
            if let Ok(record) = serde_json::from_slice(record.value()) {
                self.records.push((identity, record));
            }
        }
        Ok(())
    }
}

fn set_aside(path: &Path) -> io::Result<PathBuf> {
    for number in 1..1000 {
        let aside = path.with_extension(format!("redb.broken-{number}"));
        if !fs::exists(&aside) {
            fs::rename(path, &aside)?;
            return Ok(aside);
        }
    }
    Err(io::Error::other("there are a thousand broken ones already"))
}

#[cfg(test)]
mod tests;
