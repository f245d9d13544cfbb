//! Windrow's drop-in in RKE2's configuration, and the documents that remember feature gates. Each is written whole or
//! not at all, and only root may read it.

use std::convert::Infallible;
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError::Disconnected};
use std::thread;
use std::time::{Duration, Instant};

use jiff::Timestamp;
use serde::Serialize;
use serde::de::DeserializeOwned;
use windrow_gates::{FailedDropIn, FailedDropIns, GateRequest, RefusedGates};

use crate::files::{Durability, FileStamp, make_private, replace};
use crate::fs;
use crate::layout::Layout;
use crate::lock::Lock;

/// No document here is larger, in bytes.
const LARGEST: u64 = 4 << 20;

/// The pause between two attempts to take the lock.
const LOCK_PAUSE: Duration = Duration::from_millis(20);

/// While it is held, no other process of Windrow changes the drop-in or the records of gates.
#[derive(Debug)]
pub struct GatesLock {
    _lock: Option<Lock>,
}

impl GatesLock {
    /// How long to wait for another process that changes the gates. The start of RKE2 is not delayed for longer.
    pub const PATIENCE: Duration = Duration::from_secs(1);

    /// Waits for [`GatesLock::PATIENCE`] at most. After that the caller goes on without it: a process that hangs must
    /// not keep RKE2 from starting, or a trial from going back.
    pub fn take(layout: &Layout) -> Self {
        let mut patience = Self::PATIENCE;
        Self::take_within(layout, &mut patience)
    }

    /// As [`GatesLock::take`], with the remaining patience: for a process that takes the lock more than once.
    pub fn take_within(layout: &Layout, patience: &mut Duration) -> Self {
        if patience.is_zero() {
            return Self { _lock: None };
        }
        let began = Instant::now();
        let directory = layout.gates_dir();
        let (send, receive) = mpsc::channel();
        let (waits, caller) = mpsc::channel();
        thread::spawn(move || {
            let lock =
                make_private(&directory).and_then(|()| lock_for(&caller, &directory.join("lock")));
            // If it comes too late, the lock is released.
            let _ = send.send(lock);
        });
        // On a disk that takes no writes there is nothing to protect.
        let lock = receive.recv_timeout(*patience).ok();
        drop(waits);
        *patience = patience.saturating_sub(began.elapsed());
        Self {
            _lock: lock.and_then(Result::ok).flatten(),
        }
    }
}

/// Waits for a lock as long as the caller does, so that no thread stays.
fn lock_for(caller: &Receiver<Infallible>, path: &Path) -> io::Result<Option<Lock>> {
    loop {
        let lock = Lock::take(path)?;
        if lock.is_some() || caller.recv_timeout(LOCK_PAUSE) == Err(Disconnected) {
            return Ok(lock);
        }
    }
}

/// `None` when it is not there.
///
/// # Errors
///
/// Those of the file system. A missing file is not an error.
pub fn read_drop_in(layout: &Layout) -> io::Result<Option<String>> {
    read(&layout.gates_drop_in())
}

/// When the drop-in was last written; `None` if it is not there. It is later than `now` if the clock was set back since then, or starts
/// behind.
pub fn drop_in_written_at(layout: &Layout, now: Timestamp) -> Option<WrittenAt> {
    written_at(&layout.gates_drop_in(), now)
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum WrittenAt {
    /// By the clock of now.
    Past(Timestamp),
    /// By a clock that was ahead of that of now.
    Ahead(Timestamp),
}

impl WrittenAt {
    pub fn past(self) -> Option<Timestamp> {
        match self {
            Self::Past(at) => Some(at),
            Self::Ahead(_) => None,
        }
    }

    pub fn ahead(self) -> Option<Timestamp> {
        match self {
            Self::Past(_) => None,
            Self::Ahead(at) => Some(at),
        }
    }
}

fn written_at(path: &Path, now: Timestamp) -> Option<WrittenAt> {
    /// It may be written between the look at the clock and this one.
    const MEANWHILE: Duration = Duration::from_secs(60);
    let written = fs::metadata(path).and_then(|found| found.modified());
    let written = Timestamp::try_from(written.ok()?).ok()?;
    let latest = now.checked_add(MEANWHILE).unwrap_or(now);
    Some(match written <= latest {
        true => WrittenAt::Past(written),
        false => WrittenAt::Ahead(written),
    })
}

/// Writes the drop-in, or removes it. True when that changed anything. Its directory is made only when there is
/// something to write.
///
/// # Errors
///
/// Those of the file system; the old file is then still there.
pub fn put_drop_in(layout: &Layout, content: Option<&str>) -> io::Result<bool> {
    let path = layout.gates_drop_in();
    let directory = layout.rke2_config_dir();
    if read(&path).is_ok_and(|there| there.as_deref() == content) {
        return Ok(false);
    }
    match content {
        Some(content) => {
            fs::create_dir_all(&directory)?;
            replace(&path, content.as_bytes(), 0o600, Durability::Durable)?;
        }
        None => {
            fs::remove_file(&path)?;
            fs::sync_directory(&directory)?;
        }
    }
    Ok(true)
}

#[derive(Debug)]
pub enum TakenOut {
    /// It was written as requested; whether that changed anything.
    Put(bool),
    Removed(io::Error),
}

/// Writes the drop-in without the lines that may not stay in it. If that fails, as on a full disk, removes it: that
/// needs no room, and RKE2 starts without any of its gates rather than with a wrong one.
///
/// # Errors
///
/// Those of the file system, when it can be neither written nor removed.
pub fn take_out_of_drop_in(layout: &Layout, content: Option<&str>) -> io::Result<TakenOut> {
    match put_drop_in(layout, content) {
        Ok(changed) => Ok(TakenOut::Put(changed)),
        Err(error) => match put_drop_in(layout, None) {
            Ok(_) => Ok(TakenOut::Removed(error)),
            Err(_) => Err(error),
        },
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StateFile {
    KnownGood,
    Trial,
    /// How often RKE2 was started during a trial.
    Starts,
    Refused,
    Failed,
    /// The trial that an operator took back.
    TakenBack,
    /// The last change that followed from the configuration.
    LastChange,
    /// The upgrade that was under way when kube-apiserver last answered.
    Upgrade,
}

/// Which version of its files Windrow has read about gates.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GatesStamp(Vec<Option<FileStamp>>);

impl GatesStamp {
    pub fn read(layout: &Layout) -> Self {
        let records = [
            StateFile::KnownGood,
            StateFile::Trial,
            StateFile::Refused,
            StateFile::Failed,
            StateFile::TakenBack,
        ];
        let records = records.map(|file| file.path(layout));
        let paths = records.into_iter().chain([layout.gates_drop_in()]);
        let stamp = |path| Some(FileStamp::from(&fs::symlink_metadata(path).ok()?));
        Self(paths.map(stamp).collect())
    }
}

impl StateFile {
    pub fn path(self, layout: &Layout) -> PathBuf {
        layout.gates_dir().join(match self {
            StateFile::KnownGood => "last-known-good/gates.json",
            StateFile::Trial => "trial.json",
            StateFile::Starts => "starts.json",
            StateFile::Refused => "refused.json",
            StateFile::Failed => "failed.json",
            StateFile::TakenBack => "taken-back.json",
            StateFile::LastChange => "last-change.json",
            StateFile::Upgrade => "upgrade.json",
        })
    }

    /// `None` when it is not there.
    ///
    /// # Errors
    ///
    /// A line: it cannot be read, or its content is not valid.
    pub fn recall<T: DeserializeOwned>(self, layout: &Layout) -> Result<Option<T>, String> {
        let path = self.path(layout);
        let told = |error: &dyn std::fmt::Display| format!("{}: {error}", path.display());
        match read(&path) {
            Ok(None) => Ok(None),
            Ok(Some(text)) => serde_json::from_str(&text)
                .map(Some)
                .map_err(|error| told(&error)),
            Err(error) => Err(told(&error)),
        }
    }

    /// Reads what is to be written again with more in it. `None` also if its content is not valid: then it is lost already.
    ///
    /// # Errors
    ///
    /// A line: it cannot be read now. Written again, it would lose what it has.
    fn recall_before_change<T: DeserializeOwned>(
        self,
        layout: &Layout,
    ) -> Result<Option<T>, String> {
        let path = self.path(layout);
        match read(&path) {
            Ok(text) => Ok(text.and_then(|text| serde_json::from_str(&text).ok())),
            Err(error) if error.kind() == io::ErrorKind::InvalidData => Ok(None),
            Err(error) => Err(format!("{}: {error}", path.display())),
        }
    }

    /// When it was last written; `None` if it is not there.
    pub fn written_at(self, layout: &Layout, now: Timestamp) -> Option<WrittenAt> {
        written_at(&self.path(layout), now)
    }

    /// # Errors
    ///
    /// Those of the file system. A missing file is not an error.
    pub fn forget(self, layout: &Layout) -> io::Result<()> {
        match fs::remove_file(self.path(layout)) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
            _ => Ok(()),
        }
    }

    /// Writes it so that it survives a power cut.
    ///
    /// # Errors
    ///
    /// Those of the file system; the old one is then still there.
    pub fn keep(self, layout: &Layout, value: &impl Serialize) -> io::Result<()> {
        let path = self.path(layout);
        if let Some(directory) = path.parent() {
            make_private(directory)?;
        }
        let mut content = serde_json::to_vec_pretty(value)?;
        content.push(b'\n');
        replace(&path, &content, 0o600, Durability::Durable)
    }
}

fn read(path: &Path) -> io::Result<Option<String>> {
    let file = match fs::open(path) {
        Ok(file) => file,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(error),
    };
    let mut text = String::new();
    file.take(LARGEST).read_to_string(&mut text)?;
    Ok(Some(text))
}

/// Remembers gates that do not work on a version.
///
/// # Errors
///
/// Those of the file system, in a line.
pub fn remember_refused(
    layout: &Layout,
    version: &str,
    gates: &[GateRequest],
    why: &str,
    own: &str,
) -> Result<(), String> {
    if gates.is_empty() {
        return Ok(());
    }
    let known = StateFile::Refused.recall_before_change(layout)?;
    StateFile::Refused
        .keep(layout, &RefusedGates::and(known, version, gates, why, own))
        .map_err(|error| error.to_string())
}

/// Remembers a drop-in that does not work on a version.
///
/// # Errors
///
/// Those of the file system, in a line.
pub fn remember_failed(layout: &Layout, failed: FailedDropIn) -> Result<(), String> {
    let known: Option<FailedDropIns> = StateFile::Failed.recall_before_change(layout)?;
    let mut all = known.unwrap_or_default();
    all.add(failed);
    StateFile::Failed
        .keep(layout, &all)
        .map_err(|error| error.to_string())
}

/// Removes all records of gates.
///
/// # Errors
///
/// Those of the file system. A missing directory is not an error.
pub fn forget_gates(layout: &Layout) -> io::Result<()> {
    match fs::remove_dir_all(layout.gates_dir()) {
        Ok(()) => fs::sync_directory(layout.state_dir()),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        Err(error) => Err(error),
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use windrow_plan::rke2::config::is_read;

    use super::*;

    #[test]
    fn the_drop_in_is_written_for_root_alone_and_gone_when_nothing_is_to_be_set() {
        let root = tempfile::tempdir().unwrap();
        let layout = Layout::new(root.path());
        assert!(!put_drop_in(&layout, None).unwrap());
        assert!(
            !layout.rke2_config_dir().exists(),
            "nothing is made for nothing"
        );
        assert!(put_drop_in(&layout, Some("a: 1\n")).unwrap());
        let written = read_drop_in(&layout).unwrap();
        assert_eq!(written.as_deref(), Some("a: 1\n"));
        assert!(!put_drop_in(&layout, Some("a: 1\n")).unwrap());
        let mode = fs::metadata(layout.gates_drop_in()).unwrap().permissions();
        assert_eq!(mode.mode() & 0o777, 0o600);
        let names: Vec<String> = fs::read_dir(layout.rke2_config_dir())
            .unwrap()
            .map(|entry| entry.unwrap().file_name().into_string().unwrap())
            .collect();
        assert_eq!(names, [windrow_gates::DROP_IN]);
        assert!(is_read(&names[0]));
        assert!(put_drop_in(&layout, None).unwrap());
        assert_eq!(read_drop_in(&layout).unwrap(), None);
    }

    #[test]
    fn what_is_remembered_is_recalled_and_what_is_broken_is_said() {
        let root = tempfile::tempdir().unwrap();
        let layout = Layout::new(root.path());
        let file = StateFile::KnownGood;
        assert_eq!(file.recall::<Vec<u8>>(&layout), Ok(None));
        file.keep(&layout, &[1, 2]).unwrap();
        assert_eq!(file.recall(&layout), Ok(Some(vec![1, 2])));
        fs::write(file.path(&layout), "{").unwrap();
        assert!(
            file.recall::<Vec<u8>>(&layout)
                .unwrap_err()
                .contains("gates.json")
        );
    }

    #[test]
    fn what_is_forgotten_is_gone_and_forgetting_what_is_not_there_is_no_error() {
        let root = tempfile::tempdir().unwrap();
        let layout = Layout::new(root.path());
        StateFile::Trial.forget(&layout).unwrap();
        StateFile::Trial.keep(&layout, &1).unwrap();
        StateFile::Starts.keep(&layout, &2).unwrap();
        StateFile::Trial.forget(&layout).unwrap();
        assert_eq!(StateFile::Trial.recall::<u8>(&layout), Ok(None));
        assert_eq!(StateFile::Starts.recall(&layout), Ok(Some(2)));
    }

    #[test]
    fn another_process_delays_a_change_by_a_second_at_most() {
        let root = tempfile::tempdir().unwrap();
        let layout = Layout::new(root.path());
        let held = GatesLock::take(&layout);
        assert!(held._lock.is_some());
        let mut patience = GatesLock::PATIENCE;
        for _ in 0..2 {
            let taken = GatesLock::take_within(&layout, &mut patience);
            assert!(taken._lock.is_none() && patience.is_zero());
        }
        drop(held);
        assert!(GatesLock::take(&layout)._lock.is_some());
    }

    #[test]
    fn nothing_waits_for_the_lock_once_its_caller_has_given_up() {
        let place = tempfile::tempdir().unwrap();
        let path = place.path().join("lock");
        let (waits, caller) = mpsc::channel();
        let held = lock_for(&caller, &path).unwrap();
        assert!(held.is_some());
        drop(waits);
        assert!(lock_for(&caller, &path).unwrap().is_none());
        drop(held);
        assert!(lock_for(&caller, &path).unwrap().is_some());
    }

    #[test]
    fn a_record_or_drop_in_that_another_process_changes_is_seen() {
        let root = tempfile::tempdir().unwrap();
        let layout = Layout::new(root.path());
        let before = GatesStamp::read(&layout);
        assert_eq!(GatesStamp::read(&layout), before);
        put_drop_in(&layout, Some("a: 1\n")).unwrap();
        let written = GatesStamp::read(&layout);
        assert_ne!(written, before);
        StateFile::TakenBack.keep(&layout, &1).unwrap();
        assert_ne!(GatesStamp::read(&layout), written);
    }

    #[test]
    fn what_cannot_be_removed_is_not_called_forgotten() {
        let root = tempfile::tempdir().unwrap();
        let layout = Layout::new(root.path());
        // A directory in its place: root cannot write there either.
        fs::create_dir_all(StateFile::Refused.path(&layout)).unwrap();
        assert!(StateFile::Refused.forget(&layout).is_err());
    }

    #[test]
    fn gates_that_do_not_work_are_remembered_beside_those_that_were_known() {
        let root = tempfile::tempdir().unwrap();
        let layout = Layout::new(root.path());
        let own = "own.yaml";
        let gate = |gate: &str| GateRequest {
            component: windrow_gates::Component::Kubelet,
            gate: gate.to_owned(),
            value: true,
            when: None,
            reason: None,
            at: windrow_model::findings::Location::line(own, 1),
        };
        let known = || -> Vec<String> {
            let refused: Option<RefusedGates> = StateFile::Refused.recall(&layout).unwrap();
            let gates = refused.map(|refused| refused.gates(own));
            let gates = gates.unwrap_or_default().into_iter();
            gates.map(|gate| gate.gate).collect()
        };
        let remember =
            |gates: &[GateRequest]| remember_refused(&layout, "1.36.3", gates, "why", own);
        remember(&[]).unwrap();
        assert!(!StateFile::Refused.path(&layout).exists());
        remember(&[gate("A")]).unwrap();
        remember(&[gate("B")]).unwrap();
        assert_eq!(known(), ["A", "B"]);
    }
}
