//! Reads an archive from elsewhere: nothing is unpacked onto the disk, and nothing in it is
//! believed to be of a sane size.

use std::collections::BTreeMap;
use std::io::Read;
use std::path::Component;

use flate2::read::GzDecoder;
use serde_json::Value;
use thiserror::Error;

use super::{INDEX, ReportIndex};

/// Most bytes of an archive, unpacked.
const LARGEST: u64 = 512 << 20;
/// Most files.
const MOST: usize = 20_000;

/// Why an archive cannot be read.
#[derive(Debug, Error)]
pub enum ReadError {
    /// It is no `tar.gz`, or was cut off.
    #[error("it is no archive of windrow report, or was cut off on its way: {0}")]
    Broken(#[from] std::io::Error),
    /// It is larger than anything that Windrow writes.
    #[error("it unpacks to more than Windrow ever writes: nothing was read")]
    TooLarge,
    /// It has no index.
    #[error("it has no {INDEX}: `windrow report` makes such archives")]
    NoIndex,
    /// Its index cannot be read.
    #[error("its {INDEX} cannot be read: {0}")]
    ReportIndex(#[from] serde_json::Error),
    /// Its index is another one.
    #[error(
        "its {INDEX} is a {0}, not a Report of windrow.dev/v1: use the Windrow that wrote it, or a newer one"
    )]
    Version(String),
}

/// An archive in memory.
#[derive(Debug, Clone)]
pub struct Archive {
    /// Its index.
    pub index: ReportIndex,
    /// Its files by their path below its one directory.
    pub files: BTreeMap<String, Vec<u8>>,
}

/// A packed file that Windrow wrote.
#[derive(Debug)]
pub enum Packed {
    /// An archive of `windrow report`.
    Report(Archive),
    /// The copy of a flight.
    Flight(Vec<u8>),
}

impl Packed {
    /// Tells the two apart, and reads them. Of a flight that was cut off, the part before is read.
    ///
    /// # Errors
    ///
    /// Those of an archive.
    pub fn read(packed: &[u8]) -> Result<Self, ReadError> {
        let mut unpacked = GzDecoder::new(packed).take(LARGEST + 1);
        let mut first = [0];
        if unpacked.read_exact(&mut first).is_err() || first != *b"{" {
            return Archive::read(packed).map(Self::Report);
        }
        let mut flight = first.to_vec();
        // What was unpacked before an error stays.
        let _ = unpacked.read_to_end(&mut flight);
        if flight.len() as u64 > LARGEST {
            return Err(ReadError::TooLarge);
        }
        Ok(Self::Flight(flight))
    }
}

impl Archive {
    /// Reads an archive.
    ///
    /// # Errors
    ///
    /// When it is none, or not of a version that is known.
    pub fn read(packed: impl Read) -> Result<Self, ReadError> {
        let unpacked = GzDecoder::new(packed).take(LARGEST + 1);
        let mut archive = tar::Archive::new(unpacked);
        let mut files = BTreeMap::new();
        let mut total = 0u64;
        for entry in archive.entries()? {
            let mut entry = entry?;
            if !entry.header().entry_type().is_file() {
                continue;
            }
            // The one directory is only there for who unpacks it by hand.
            let path = entry.path()?.into_owned();
            let mut parts = path.components();
            parts.next();
            let inner = parts.as_path();
            if inner
                .components()
                .any(|part| !matches!(part, Component::Normal(_)))
            {
                continue;
            }
            let Some(name) = inner.to_str().filter(|name| !name.is_empty()) else {
                continue;
            };
            let name = name.to_owned();
            let mut content = Vec::new();
            total += entry.read_to_end(&mut content)? as u64;
            files.insert(name, content);
            if total > LARGEST || files.len() > MOST {
                return Err(ReadError::TooLarge);
            }
        }
        let own = files.remove(INDEX).ok_or(ReadError::NoIndex)?;
        let own: Value = serde_json::from_slice(&own)?;
        let text = |key: &str| own[key].as_str().unwrap_or("?").to_owned();
        if text("apiVersion") != "windrow.dev/v1" || text("kind") != "Report" {
            return Err(ReadError::Version(format!(
                "{} of {}",
                text("kind"),
                text("apiVersion")
            )));
        }
        Ok(Self {
            index: serde_json::from_value(own)?,
            files,
        })
    }

    /// A file that holds JSON.
    pub fn json(&self, path: &str) -> Option<Value> {
        serde_json::from_slice(self.files.get(path)?).ok()
    }

    /// The objects of a kind; `None` when the archive does not say which there are: they were not
    /// asked for, or refused (`index.missing` says why). The core group is called `core`.
    pub fn objects(&self, group: &str, kind: &str) -> Option<Vec<Value>> {
        let list = self.json(&super::objects_path(group, kind))?;
        list["items"].as_array().cloned()
    }
}
