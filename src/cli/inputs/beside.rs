//! Files next to a configuration that it includes: Butane's local files, the directory of an Edge Image Builder definition.

use std::io;
use std::path::{Component, Path, PathBuf};

use windrow_inputs::extract::{FileBeside, FileKind, FilesBeside, kind_of};
use windrow_model::manifest::ReadLimits;

use super::sources::{STANDARD_INPUT, name_of};
use crate::files::read_bytes;
use crate::fs;

/// Most files of one directory.
const MOST_FILES: usize = 10_000;
/// Most levels of directories.
const DEEPEST: usize = 32;

pub(super) struct DirectoryBeside {
    directory: PathBuf,
    file_bytes: u64,
}

impl DirectoryBeside {
    /// The directory of a file, by the file's name in messages; `None` for standard input.
    pub(super) fn of(shown: &str, limits: &ReadLimits) -> Option<Self> {
        let directory = Path::new(shown).parent()?;
        (shown != STANDARD_INPUT).then(|| Self {
            directory: directory.to_owned(),
            file_bytes: limits.file_bytes,
        })
    }

    /// A path below the directory; butane refuses one that leads out of it, too.
    fn path(&self, below: &str) -> Result<PathBuf, String> {
        let is_below = |part| matches!(part, Component::Normal(_) | Component::CurDir);
        match Path::new(below).components().all(is_below) {
            true => Ok(self.directory.join(below)),
            false => Err("it leads out of the directory of this file".to_owned()),
        }
    }
}

impl FilesBeside for DirectoryBeside {
    fn read(&self, path: &str) -> Result<Option<FileBeside>, String> {
        let path = self.path(path)?;
        let metadata = match fs::metadata(&path) {
            Ok(metadata) => metadata,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(format!("cannot be read: {error}")),
        };
        // Opening a FIFO or a device could block forever.
        if !metadata.is_file() {
            return Err("it is not a regular file".to_owned());
        }
        if metadata.len() > self.file_bytes {
            let size = metadata.len();
            let limit = self.file_bytes;
            return Err(format!("it has {size} bytes, the limit is {limit}"));
        }
        let bytes = read_bytes(&path).map_err(|error| format!("cannot be read: {error}"))?;
        let shown = name_of(&path);
        Ok(Some(FileBeside { shown, bytes }))
    }

    fn below(&self, directory: &str) -> Result<Option<Vec<String>>, String> {
        let root = self.path(directory)?;
        if !fs::is_dir(&root) {
            return Ok(None);
        }
        let mut found = Vec::new();
        walk(&root, "", DEEPEST, &mut found)?;
        found.sort();
        Ok(Some(found))
    }
}

/// Adds the files of a directory and of those below it. `before` is its own path below the first one.
fn walk(
    directory: &Path,
    before: &str,
    depth: usize,
    found: &mut Vec<String>,
) -> Result<(), String> {
    let unreadable = |error: io::Error| format!("cannot be read: {error}");
    for entry in fs::read_dir(directory).map_err(unreadable)? {
        let entry = entry.map_err(unreadable)?;
        let name = entry.file_name();
        let Some(name) = name.to_str() else {
            return Err(format!(
                "the name of {} is not UTF-8 text",
                entry.path().display()
            ));
        };
        let below = match before {
            "" => name.to_owned(),
            before => format!("{before}/{name}"),
        };
        // A link to a directory is not followed: it could form a loop.
        if entry.file_type().map_err(unreadable)?.is_dir() {
            if depth == 0 {
                return Err(format!("{} is too deep", entry.path().display()));
            }
            walk(&entry.path(), &below, depth - 1, found)?;
        } else {
            found.push(below);
        }
        if found.len() > MOST_FILES {
            return Err(format!("it has more than {MOST_FILES} files"));
        }
    }
    Ok(())
}

/// The definition of Edge Image Builder in a directory, if it has one: all other files in it belong to the definition.
///
/// # Errors
///
/// If there are several: an image is built from one of them.
pub(in crate::cli) fn definition_in(directory: &Path) -> Result<Option<PathBuf>, String> {
    let entries = fs::read_dir(directory).into_iter().flatten().flatten();
    let mut paths: Vec<PathBuf> = entries
        .map(|entry| entry.path())
        .filter(|path| {
            let ending = path.extension().and_then(|ending| ending.to_str());
            matches!(ending, Some("yaml" | "yml")) && fs::is_file(path)
        })
        .collect();
    paths.sort();
    paths.retain(|path| {
        read_bytes(path).is_ok_and(|bytes| {
            let text = String::from_utf8_lossy(&bytes);
            kind_of(&text) == FileKind::ImageBuilder
        })
    });
    if paths.len() > 1 {
        let names: Vec<String> = paths
            .iter()
            .map(|path| path.display().to_string())
            .collect();
        return Err(format!(
            "{}: there are several Edge Image Builder definitions here, and an image has only one; pass one of them: {}",
            directory.display(),
            names.join(", ")
        ));
    }
    Ok(paths.pop())
}
