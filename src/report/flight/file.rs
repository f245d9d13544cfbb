//! The file of a flight on the disk: appended to, set aside when it is full, copied when the node fails.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Read as _, Seek as _, SeekFrom, Write as _};
use std::os::unix::fs::{FileExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};

use nix::fcntl::OFlag;
use windrow_decide::settings::CopyTo;

use crate::files::{Durability, make_private, replace};
use crate::layout::Layout;

/// Where the flight is written.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FlightDestination {
    /// The file.
    pub path: PathBuf,
    /// Its bound in bytes.
    pub bound: u64,
    /// The directory of the copy that is made when the node is Failed.
    pub copy_to: Option<PathBuf>,
    /// Which boot this is.
    pub boot: Option<String>,
}

/// The copy's name.
pub(super) const COPY: &str = "windrow-flight.jsonl";
/// Harvester's partition for configuration, which survives the loss of the other one.
const OEM: &str = "/oem";

/// The directory of the copy, by the setting `flight.copyTo`.
pub fn copy_directory(layout: &Layout, wanted: &CopyTo) -> Option<PathBuf> {
    match wanted {
        CopyTo::Auto => Some(layout.path(OEM)).filter(|oem| oem.is_dir()),
        CopyTo::None => None,
        CopyTo::Directory(path) => Some(layout.path(path)),
    }
}

/// Removes the copy from its directory, and returns the path if there was one.
///
/// # Errors
///
/// If the file cannot be removed.
pub fn remove_copy(directory: &Path) -> io::Result<Option<PathBuf>> {
    let copy = directory.join(COPY);
    match fs::remove_file(&copy) {
        Ok(()) => Ok(Some(copy)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error),
    }
}

/// The file before this one.
fn older(path: &Path) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(".1");
    PathBuf::from(name)
}

/// The file, once it is open.
pub(super) struct FlightFile {
    destination: FlightDestination,
    file: Option<File>,
    /// Where the file ends.
    end: u64,
}

impl FlightFile {
    pub(super) fn new(destination: FlightDestination) -> Self {
        Self {
            destination,
            file: None,
            end: 0,
        }
    }

    pub(super) fn bound(&self) -> u64 {
        self.destination.bound
    }

    pub(super) fn boot(&self) -> Option<String> {
        self.destination.boot.clone()
    }

    pub(super) fn end(&self) -> u64 {
        self.end
    }

    /// Is it time for the next file? The beginning alone, up to `begun_at`, may be large: the file has to grow by half
    /// of the bound before the next one.
    pub(super) fn is_full(&self, begun_at: u64) -> bool {
        let bound = self.destination.bound;
        self.end > bound && self.end > begun_at + bound / 2
    }

    /// Opens the file to continue at its end; a full one is set aside first.
    pub(super) fn open(&mut self) -> io::Result<()> {
        if let Some(directory) = self.destination.path.parent() {
            make_private(directory)?;
        }
        let length = fs::symlink_metadata(&self.destination.path).map_or(0, |found| found.len());
        if length > self.destination.bound {
            fs::rename(&self.destination.path, older(&self.destination.path))?;
        }
        let mut file = OpenOptions::new()
            .read(true)
            .append(true)
            .create(true)
            .mode(0o600)
            .custom_flags((OFlag::O_NOFOLLOW | OFlag::O_NONBLOCK).bits())
            .open(&self.destination.path)?;
        if !file.metadata()?.is_file() {
            return Err(io::Error::other("it is not a regular file"));
        }
        self.end = file.seek(SeekFrom::End(0))?;
        if self.end > 0 {
            let mut last = [0];
            file.read_exact_at(&mut last, self.end - 1)?;
            if last != *b"\n" {
                // Torn by a power cut. Ended here, it is a line of its own and is skipped.
                file.write_all(b"\n")?;
                self.end += 1;
            }
        }
        if let Some(directory) = self.destination.path.parent() {
            File::open(directory)?.sync_all()?;
        }
        self.file = Some(file);
        Ok(())
    }

    /// Appends a line; returns where it begins.
    pub(super) fn append(&mut self, line: &[u8]) -> io::Result<u64> {
        let at = self.end;
        let file = self
            .file
            .as_mut()
            .ok_or_else(|| io::Error::other("not open"))?;
        file.write_all(line)?;
        self.end += line.len() as u64;
        Ok(at)
    }

    /// A line that was appended before, even to the previous file while that is still open.
    pub(super) fn read(&self, at: u64, length: usize) -> io::Result<Vec<u8>> {
        let mut line = vec![0; length];
        if let Some(file) = &self.file {
            file.read_exact_at(&mut line, at)?;
        }
        Ok(line)
    }

    /// Puts everything that was appended on the disk.
    pub(super) fn sync(&self) -> io::Result<()> {
        self.file.as_ref().map_or(Ok(()), File::sync_data)
    }

    /// Copies both files, the older one first, to a place that survives the node's disk.
    pub(super) fn copy(&self) -> io::Result<()> {
        let Some(directory) = &self.destination.copy_to else {
            return Ok(());
        };
        let mut content = Vec::new();
        for path in [older(&self.destination.path), self.destination.path.clone()] {
            match File::open(path) {
                Ok(mut file) => {
                    file.read_to_end(&mut content)?;
                }
                Err(error) if error.kind() == io::ErrorKind::NotFound => {}
                Err(error) => return Err(error),
            }
        }
        let copy = directory.join(COPY);
        replace(&copy, &content, 0o600, Durability::Durable).map_err(|error| {
            io::Error::new(error.kind(), format!("copy to {}: {error}", copy.display()))
        })
    }
}
