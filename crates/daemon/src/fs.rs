//! The file system, as in `std::fs`. Every module uses this one (`tests/local/file_access.rs`).
//!
//! Files are read only if they are regular, and up to a bound: a FIFO does not block, and a device does not fill the memory.
//! A path in the tree of another machine never leads to a file of this one ([`confine`]).

mod tree;
mod unlinked;

use std::ffi::OsString;
use std::io::{self, Read as _, Write as _};
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use nix::fcntl::OFlag;
use nix::sys::statvfs::Statvfs;

pub use std::fs::{File, FileType, Metadata, Permissions};
#[cfg(test)]
pub use std::fs::{create_dir, hard_link, remove_dir};

pub use self::tree::{Resolved, canonicalize, confine, resolve, resolve_entry, split_root};
pub(crate) use self::unlinked::UnlinkedDirectory;

/// Largest content of a file, in bytes.
const LARGEST: u64 = 256 << 20;

/// Opens a regular file for reading.
///
/// # Errors
///
/// Those of the file system, and if it is not a regular file.
pub fn open(path: impl AsRef<Path>) -> io::Result<File> {
    let flags = OFlag::O_NONBLOCK | OFlag::O_NOCTTY;
    let file = OpenOptions::new()
        .read(true)
        .custom_flags(flags.bits())
        .open(path)?;
    if !file.metadata()?.is_file() {
        return Err(io::Error::other("it is not a regular file"));
    }
    Ok(file)
}

/// The content of a regular file of at most 256 MiB. Callers that know a smaller bound use `files::read_at_most`.
///
/// # Errors
///
/// Those of the file system, and if the file is larger or not regular.
pub fn read(path: impl AsRef<Path>) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    open(path)?.take(LARGEST + 1).read_to_end(&mut bytes)?;
    if bytes.len() as u64 > LARGEST {
        return Err(io::Error::other("it is larger than 256 MiB"));
    }
    Ok(bytes)
}

/// As [`read`], for UTF-8 text.
///
/// # Errors
///
/// Those of [`read`], and if it is not UTF-8.
pub fn read_to_string(path: impl AsRef<Path>) -> io::Result<String> {
    let not_text = |_| io::Error::new(io::ErrorKind::InvalidData, "it is not UTF-8 text");
    String::from_utf8(read(path)?).map_err(not_text)
}

pub fn write(path: impl AsRef<Path>, content: impl AsRef<[u8]>) -> io::Result<()> {
    let mut options = OpenOptions::new();
    let mut file = options.write(true).create(true).truncate(true).open(path)?;
    file.write_all(content.as_ref())
}

pub fn copy(from: impl AsRef<Path>, to: impl AsRef<Path>) -> io::Result<u64> {
    let mut from = open(from)?;
    let permissions = from.metadata()?.permissions();
    let mut options = OpenOptions::new();
    options.write(true).create(true).truncate(true);
    let mut to = options.mode(permissions.mode()).open(to)?;
    to.set_permissions(permissions)?;
    io::copy(&mut from, &mut to)
}

pub fn metadata(path: impl AsRef<Path>) -> io::Result<Metadata> {
    std::fs::metadata(resolve(path.as_ref())?)
}

pub fn symlink_metadata(path: impl AsRef<Path>) -> io::Result<Metadata> {
    std::fs::symlink_metadata(resolve_entry(path.as_ref())?)
}

pub fn try_exists(path: impl AsRef<Path>) -> io::Result<bool> {
    match metadata(path) {
        Ok(_) => Ok(true),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(false),
        Err(error) => Err(error),
    }
}

pub fn exists(path: impl AsRef<Path>) -> bool {
    metadata(path).is_ok()
}

pub fn is_dir(path: impl AsRef<Path>) -> bool {
    metadata(path).is_ok_and(|found| found.is_dir())
}

pub fn is_file(path: impl AsRef<Path>) -> bool {
    metadata(path).is_ok_and(|found| found.is_file())
}

pub fn read_link(path: impl AsRef<Path>) -> io::Result<PathBuf> {
    std::fs::read_link(resolve_entry(path.as_ref())?)
}

pub(crate) fn remove_file(path: impl AsRef<Path>) -> io::Result<()> {
    std::fs::remove_file(resolve_entry(path.as_ref())?)
}

pub fn remove_dir_all(path: impl AsRef<Path>) -> io::Result<()> {
    std::fs::remove_dir_all(resolve_entry(path.as_ref())?)
}

pub fn rename(from: impl AsRef<Path>, to: impl AsRef<Path>) -> io::Result<()> {
    let (from, to) = (resolve_entry(from.as_ref())?, resolve_entry(to.as_ref())?);
    std::fs::rename(from, to)
}

pub fn set_permissions(path: impl AsRef<Path>, permissions: Permissions) -> io::Result<()> {
    std::fs::set_permissions(resolve(path.as_ref())?, permissions)
}

pub fn create_dir_all(path: impl AsRef<Path>) -> io::Result<()> {
    DirBuilder::new().recursive(true).create(path)
}

pub fn statvfs(path: impl AsRef<Path>) -> io::Result<Statvfs> {
    let path = resolve(path.as_ref())?;
    Ok(nix::sys::statvfs::statvfs(path.as_ref())?)
}

/// Puts the entries of a directory on the disk.
///
/// # Errors
///
/// Those of the file system.
pub(crate) fn sync_directory(path: impl AsRef<Path>) -> io::Result<()> {
    File::open(resolve(path.as_ref())?)?.sync_all()
}

pub fn read_dir(path: impl AsRef<Path>) -> io::Result<ReadDir> {
    let entries = std::fs::read_dir(resolve(path.as_ref())?)?;
    let directory = Arc::from(path.as_ref());
    Ok(ReadDir { entries, directory })
}

#[derive(Debug)]
pub struct ReadDir {
    entries: std::fs::ReadDir,
    directory: Arc<Path>,
}

impl Iterator for ReadDir {
    type Item = io::Result<DirEntry>;

    fn next(&mut self) -> Option<Self::Item> {
        let directory = Arc::clone(&self.directory);
        let entry = self.entries.next()?;
        Some(entry.map(|entry| DirEntry { entry, directory }))
    }
}

/// As `std::fs::DirEntry`. Its path is below the listed path, no matter how that was resolved.
#[derive(Debug)]
pub struct DirEntry {
    entry: std::fs::DirEntry,
    directory: Arc<Path>,
}

impl DirEntry {
    pub fn file_name(&self) -> OsString {
        self.entry.file_name()
    }

    pub fn path(&self) -> PathBuf {
        self.directory.join(self.entry.file_name())
    }

    pub fn file_type(&self) -> io::Result<FileType> {
        self.entry.file_type()
    }

    pub fn metadata(&self) -> io::Result<Metadata> {
        self.entry.metadata()
    }
}

#[derive(Debug, Clone)]
pub struct OpenOptions {
    options: std::fs::OpenOptions,
    creates: bool,
    flags: i32,
}

#[allow(clippy::new_without_default, reason = "as in the standard library")]
impl OpenOptions {
    pub fn new() -> Self {
        Self {
            options: std::fs::OpenOptions::new(),
            creates: false,
            flags: 0,
        }
    }

    pub fn read(&mut self, read: bool) -> &mut Self {
        self.options.read(read);
        self
    }

    pub fn write(&mut self, write: bool) -> &mut Self {
        self.options.write(write);
        self
    }

    pub(crate) fn append(&mut self, append: bool) -> &mut Self {
        self.options.append(append);
        self
    }

    pub fn truncate(&mut self, truncate: bool) -> &mut Self {
        self.options.truncate(truncate);
        self
    }

    pub fn create(&mut self, create: bool) -> &mut Self {
        self.options.create(create);
        self.creates = create;
        self
    }

    pub fn mode(&mut self, mode: u32) -> &mut Self {
        self.options.mode(mode);
        self
    }

    pub fn custom_flags(&mut self, flags: i32) -> &mut Self {
        self.options.custom_flags(flags);
        self.flags = flags;
        self
    }

    /// Opens the file. In the tree of another machine, no file is made behind a link that leads nowhere.
    pub fn open(&self, path: impl AsRef<Path>) -> io::Result<File> {
        let path = path.as_ref();
        let not_followed = OFlag::O_NOFOLLOW.bits();
        if self.flags & not_followed != 0 {
            return self.options.open(resolve_entry(path)?);
        }
        match resolve(path) {
            Ok(resolved) => self.options.open(resolved),
            Err(error) if self.creates && error.kind() == io::ErrorKind::NotFound => {
                let mut options = self.options.clone();
                options.custom_flags(self.flags | not_followed);
                options.open(resolve_entry(path)?)
            }
            Err(error) => Err(error),
        }
    }
}

#[derive(Debug)]
pub struct DirBuilder {
    recursive: bool,
    mode: u32,
}

#[allow(clippy::new_without_default, reason = "as in the standard library")]
impl DirBuilder {
    pub fn new() -> Self {
        Self {
            recursive: false,
            mode: 0o777,
        }
    }

    pub fn recursive(&mut self, recursive: bool) -> &mut Self {
        self.recursive = recursive;
        self
    }

    pub fn mode(&mut self, mode: u32) -> &mut Self {
        self.mode = mode;
        self
    }

    pub fn create(&self, path: impl AsRef<Path>) -> io::Result<()> {
        let path = path.as_ref();
        let mut builder = std::fs::DirBuilder::new();
        builder.mode(self.mode);
        if !self.recursive || split_root(path).is_none() {
            let made = resolve_entry(path)?;
            return builder.recursive(self.recursive).create(made);
        }
        let make = || builder.create(resolve_entry(path)?);
        let made = match (make(), path.parent()) {
            (Err(error), Some(above)) if error.kind() == io::ErrorKind::NotFound => {
                self.create(above)?;
                make()
            }
            (made, _) => made,
        };
        match made {
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists && is_dir(path) => Ok(()),
            made => made,
        }
    }
}
#[cfg(test)]
mod tests {
    use nix::sys::stat::Mode;
    use nix::unistd::mkfifo;

    use super::*;

    #[test]
    fn a_fifo_and_a_device_are_not_read_and_files_of_the_kernel_are() {
        let place = tempfile::tempdir().unwrap();
        let fifo = place.path().join("fifo");
        mkfifo(&fifo, Mode::S_IRWXU).unwrap();
        for path in [fifo.as_path(), Path::new("/dev/zero"), place.path()] {
            let error = read(path).unwrap_err();
            assert_eq!(error.to_string(), "it is not a regular file");
            assert!(open(path).is_err() && read_to_string(path).is_err());
        }
        let status = read_to_string("/proc/self/status").unwrap();
        assert!(status.starts_with("Name:"), "{status}");
    }
}
