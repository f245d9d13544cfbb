//! Reads an archive from elsewhere: nothing is unpacked onto the disk, and no size in it is trusted. One file is in
//! memory at a time, unless the caller keeps it.

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::io::{self, Read};
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Component, Path};

use flate2::read::GzDecoder;
use serde::Deserialize;
use serde_json::Value;
use tar::EntryType;
use thiserror::Error;
use windrow_model::text::cut;

use super::{INDEX, LARGEST_FILE, LARGEST_OF_ALL, ReportIndex};
use crate::json_values::{ValueBudget, ValueError};

/// Most files.
const MOST: usize = 20_000;
/// Largest index, in bytes. Each file and each gap takes a few hundred.
const LARGEST_INDEX: u64 = 4 << 20;
/// Longest path, and longest header for a long path.
const LONGEST_PATH: u64 = 4 << 10;
/// Largest flight, in bytes: two files of at most 32 MiB.
pub const LARGEST_FLIGHT: u64 = 64 << 20;

#[derive(Debug, Error)]
pub enum ReadError {
    #[error("it is not an archive of windrow report, or was cut off: {0}")]
    Broken(#[from] io::Error),
    #[error("it unpacks to more than Windrow ever writes: nothing was read")]
    TooLarge,
    #[error("its file {path} is larger than {} MiB, more than Windrow writes: nothing was read", .most >> 20)]
    FileTooLarge { path: String, most: u64 },
    #[error("it has no {INDEX}: `windrow report` makes such archives")]
    NoIndex,
    #[error("its {INDEX} cannot be read: {0}")]
    ReportIndex(#[from] serde_json::Error),
    #[error(
        "its {INDEX} is a {0}, not a Report of windrow.dev/v1: use the Windrow that wrote it, or a newer one"
    )]
    Version(String),
}

#[derive(Debug, Clone)]
pub struct Archive {
    pub index: ReportIndex,
    /// Its files by their path below its one directory.
    pub files: BTreeMap<String, Vec<u8>>,
}

#[derive(Debug)]
pub enum Packed {
    Report(Archive),
    Flight(Vec<u8>),
}

impl Packed {
    /// Recognises and reads either: of an archive only the files at these paths; of a flight that was cut off, the part
    /// before the cut.
    ///
    /// # Errors
    ///
    /// Those of an archive.
    pub fn read(packed: &[u8], paths: &[&str]) -> Result<Self, ReadError> {
        let mut unpacked = GzDecoder::new(packed).take(LARGEST_FLIGHT + 1);
        let mut first = [0];
        if unpacked.read_exact(&mut first).is_err() || first != *b"{" {
            return Archive::read_some(packed, |path| paths.contains(&path)).map(Self::Report);
        }
        let mut flight = first.to_vec();
        // The part that was unpacked before an error is kept.
        let _ = unpacked.read_to_end(&mut flight);
        if flight.len() as u64 > LARGEST_FLIGHT {
            return Err(ReadError::TooLarge);
        }
        Ok(Self::Flight(flight))
    }
}

pub struct ArchivedFile<'a, R: Read> {
    pub path: String,
    content: &'a mut R,
}

impl<R: Read> ArchivedFile<'_, R> {
    /// Its content.
    ///
    /// # Errors
    ///
    /// If it is larger than Windrow writes, or cut off.
    pub fn read(&mut self) -> Result<Vec<u8>, ReadError> {
        self.read_at_most(LARGEST_FILE)
    }

    fn read_at_most(&mut self, most: u64) -> Result<Vec<u8>, ReadError> {
        let mut content = Vec::new();
        let read = self.content.take(most + 1).read_to_end(&mut content)?;
        if read as u64 > most {
            let path = self.path.clone();
            return Err(ReadError::FileTooLarge { path, most });
        }
        Ok(content)
    }
}

/// The version of the index, checked before anything else in it is read.
#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct IndexVersion {
    api_version: String,
    kind: String,
}

impl Archive {
    /// Reads a whole archive.
    ///
    /// # Errors
    ///
    /// When it is not an archive, or has an unknown version.
    pub fn read(packed: impl Read) -> Result<Self, ReadError> {
        Self::read_some(packed, |_| true)
    }

    /// Reads the index and the `wanted` files.
    ///
    /// # Errors
    ///
    /// When it is not an archive, or has an unknown version.
    pub fn read_some(packed: impl Read, wanted: impl Fn(&str) -> bool) -> Result<Self, ReadError> {
        let mut files = BTreeMap::new();
        let index = read_each(packed, |mut file| {
            if wanted(&file.path) {
                let content = file.read()?;
                files.insert(file.path, content);
            }
            Ok(())
        })?;
        Ok(Self { index, files })
    }

    /// A file that holds JSON.
    pub fn json(&self, path: &str) -> Option<Value> {
        ValueBudget::default().parse(self.files.get(path)?).ok()
    }

    /// The objects of a kind; `None` when the archive does not contain them: they were not requested, or the request
    /// was refused (`index.missing` says why). The core group is called `core`.
    pub fn objects(&self, group: &str, kind: &str) -> Option<Vec<Value>> {
        let bytes = self.files.get(&super::objects_path(group, kind))?;
        items_of(bytes, &mut ValueBudget::default()).ok()
    }
}

/// The objects in a list of an archive.
///
/// # Errors
///
/// If it is not a list, or larger than its values may be.
pub fn items_of(list: &[u8], budget: &mut ValueBudget) -> Result<Vec<Value>, ValueError> {
    match budget.parse(list)?.get_mut("items").map(Value::take) {
        Some(Value::Array(items)) => Ok(items),
        _ => Err(ValueError::NoList),
    }
}

/// Gives each file of an archive to `visit`, and returns the index. A file is in memory only if `visit` reads it.
///
/// # Errors
///
/// When it is not an archive, or has an unknown version; those of `visit`.
pub fn read_each<P: Read>(
    packed: P,
    mut visit: impl FnMut(
        ArchivedFile<'_, tar::Entry<'_, io::Take<GzDecoder<P>>>>,
    ) -> Result<(), ReadError>,
) -> Result<ReportIndex, ReadError> {
    let unpacked = GzDecoder::new(packed).take(LARGEST_OF_ALL + 1);
    let mut archive = tar::Archive::new(unpacked);
    let (mut index, mut long_path, mut total) = (None, None, 0u64);
    // Raw: the library would read a long name of any length into memory.
    for (number, entry) in archive.entries()?.raw(true).enumerate() {
        let mut entry = entry?;
        total = total.saturating_add(entry.size());
        if total > LARGEST_OF_ALL || number >= 2 * MOST {
            return Err(ReadError::TooLarge);
        }
        let kind = entry.header().entry_type();
        if matches!(kind, EntryType::GNULongName | EntryType::XHeader) {
            if entry.size() > LONGEST_PATH {
                return Err(ReadError::TooLarge);
            }
            let mut header = Vec::new();
            entry.read_to_end(&mut header)?;
            long_path = path_in(kind, &header).or(long_path);
            continue;
        }
        if matches!(kind, EntryType::GNULongLink | EntryType::XGlobalHeader) {
            continue;
        }
        let written = entry.path_bytes().into_owned();
        let written = long_path.take().unwrap_or(written);
        if !kind.is_file() {
            continue;
        }
        let Some(path) = inner_path(&written) else {
            continue;
        };
        let mut file = ArchivedFile {
            path,
            content: &mut entry,
        };
        if file.path == INDEX {
            index = Some(file.read_at_most(LARGEST_INDEX)?);
        } else {
            visit(file)?;
        }
    }
    let index = index.ok_or(ReadError::NoIndex)?;
    let version: IndexVersion = serde_json::from_slice(&index)?;
    if version.api_version != "windrow.dev/v1" || version.kind != "Report" {
        let shown = |text: String| {
            cut(
                if text.is_empty() {
                    "?".to_owned()
                } else {
                    text
                },
                64,
            )
        };
        return Err(ReadError::Version(format!(
            "{} of {}",
            shown(version.kind),
            shown(version.api_version)
        )));
    }
    Ok(serde_json::from_slice(&index)?)
}

fn path_in(kind: EntryType, header: &[u8]) -> Option<Vec<u8>> {
    if kind == EntryType::GNULongName {
        return Some(header.split(|byte| *byte == 0).next()?.to_vec());
    }
    let mut extensions = tar::PaxExtensions::new(header).flatten();
    let path = extensions.find(|extension| extension.key_bytes() == b"path")?;
    Some(path.value_bytes().to_vec())
}

/// A path below the archive's one directory, which only serves users who unpack it manually.
fn inner_path(written: &[u8]) -> Option<String> {
    let mut parts = Path::new(OsStr::from_bytes(written)).components();
    parts.next();
    let inner = parts.as_path();
    let is_plain = inner
        .components()
        .all(|part| matches!(part, Component::Normal(_)));
    let name = inner.to_str().filter(|name| !name.is_empty() && is_plain)?;
    Some(name.to_owned())
}
