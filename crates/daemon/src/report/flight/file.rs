//! The file of a flight on the disk: appended to, set aside when it is full, copied when the node fails.

use std::io::{self, Seek as _, SeekFrom, Write as _};
use std::os::unix::fs::{FileExt as _, MetadataExt as _};
use std::path::{Path, PathBuf};

use flate2::Compression;
use flate2::write::GzEncoder;
use nix::fcntl::OFlag;
use windrow_decide::settings::CopyTo;

use crate::files::{Durability, free_space, make_private, overwrite};
use crate::fs::{self, File, OpenOptions};
use crate::layout::Layout;

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FlightDestination {
    pub path: PathBuf,
    /// Its bound in bytes.
    pub bound: u64,
    pub copy_to: Option<PathBuf>,
    pub boot: Option<String>,
}

pub(super) const COPY: &str = "windrow-flight.jsonl.gz";
/// The share of the free space that a copy may take: other programs need the rest. An upgrade of Harvester stops if
/// `/oem` is full.
const SHARE: u64 = 4;
/// Harvester's partition for configuration, which survives the loss of the other one.
const OEM: &str = "/oem";

pub fn copy_directory(layout: &Layout, wanted: &CopyTo) -> Option<PathBuf> {
    match wanted {
        CopyTo::Auto => Some(layout.path(OEM)).filter(|oem| fs::is_dir(oem)),
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

fn older(path: &Path) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(".1");
    PathBuf::from(name)
}

pub(super) struct FlightFile {
    destination: FlightDestination,
    file: Option<File>,
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

    /// Whether it is time for the next file. The beginning, up to `begun_at`, may be large: the file has to grow by
    /// half of the bound before the next one.
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
                // Torn by a power cut. The line break makes it a separate line, which is skipped.
                file.write_all(b"\n")?;
                self.end += 1;
            }
        }
        if let Some(directory) = self.destination.path.parent() {
            fs::sync_directory(directory)?;
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

    pub(super) fn sync(&self) -> io::Result<()> {
        self.file.as_ref().map_or(Ok(()), File::sync_data)
    }

    /// Copies the flight to a place that survives the node's disk, without filling that place.
    pub(super) fn copy(&self) -> io::Result<()> {
        let Some(directory) = &self.destination.copy_to else {
            return Ok(());
        };
        let copy = directory.join(COPY);
        let occupied = fs::symlink_metadata(&copy).map_or(0, |found| found.blocks() * 512);
        free_space(directory)
            .and_then(|free| self.copy_within((free + occupied) / SHARE, &copy))
            .and_then(|()| fs::sync_directory(directory))
            .map_err(|error| io::Error::other(format!("{}: {error}", copy.display())))
    }

    /// Copies both files, the older one first. If they need more than `most` bytes, only the newer one is copied: it
    /// has all records that a replay requires.
    fn copy_within(&self, most: u64, copy: &Path) -> io::Result<()> {
        let newer = self.destination.path.clone();
        let mut content = compress(&[older(&newer), newer.clone()])?;
        if content.len() as u64 > most {
            content = compress(&[newer])?;
        }
        if content.len() as u64 > most {
            let needed = content.len();
            return Err(io::Error::other(format!(
                "it needs {needed} bytes and may take {most}, a quarter of the free space"
            )));
        }
        // A reader of `/oem` stops at a name that vanishes, so there is no temporary one.
        overwrite(copy, &content, 0o600, Durability::Durable)
    }
}

/// These files, as far as they exist, one after the other and compressed.
fn compress(paths: &[PathBuf]) -> io::Result<Vec<u8>> {
    let mut packer = GzEncoder::new(Vec::new(), Compression::default());
    for path in paths {
        match fs::open(path) {
            Ok(mut file) => {
                io::copy(&mut file, &mut packer)?;
            }
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) => return Err(error),
        }
    }
    packer.finish()
}

/// The content of a copy.
#[cfg(test)]
pub(super) fn decompress(copy: &Path) -> Vec<u8> {
    let mut content = Vec::new();
    let mut unpacker = flate2::write::GzDecoder::new(&mut content);
    io::Write::write_all(&mut unpacker, &fs::read(copy).unwrap()).unwrap();
    unpacker.finish().unwrap();
    content
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_copy_takes_no_more_than_its_share_of_the_free_space() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("flight.jsonl");
        let copy = directory.path().join(COPY);
        let file = FlightFile::new(FlightDestination {
            path: path.clone(),
            bound: 0,
            copy_to: None,
            boot: None,
        });
        let old: String = (0..4000)
            .map(|line| format!("{{\"o\":{line}}}\n"))
            .collect();
        let new = "{\"n\":1}\n".repeat(4000);
        fs::write(older(&path), &old).unwrap();
        fs::write(&path, &new).unwrap();
        let unpacked = || String::from_utf8(decompress(&copy)).unwrap();
        let length = || fs::metadata(&copy).unwrap().len();

        file.copy_within(1 << 20, &copy).unwrap();
        assert_eq!(unpacked(), format!("{old}{new}"));
        let whole = length();
        file.copy_within(whole, &copy).unwrap();
        assert_eq!(length(), whole);
        file.copy_within(whole - 1, &copy).unwrap();
        assert_eq!(unpacked(), new, "the older file is left out");
        let newer = length();
        let error = file.copy_within(newer - 1, &copy).unwrap_err().to_string();
        assert_eq!(
            error,
            format!(
                "it needs {newer} bytes and may take {}, a quarter of the free space",
                newer - 1
            )
        );
        assert_eq!(unpacked(), new, "the copy of before stays");
    }
}
