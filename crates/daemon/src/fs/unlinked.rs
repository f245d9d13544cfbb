//! Directories in which root writes, below directories of other users.

use std::io;
use std::os::fd::{AsRawFd as _, OwnedFd};
use std::path::{Component, Path, PathBuf};

use nix::errno::Errno;
use nix::fcntl::{OFlag, open, openat};
use nix::sys::stat::Mode;

/// A directory that was opened without following a link. Another user may own one above it, and could make it a link to a
/// directory of root.
#[derive(Debug)]
pub(crate) struct UnlinkedDirectory(OwnedFd);

impl UnlinkedDirectory {
    /// The directory of this file.
    ///
    /// # Errors
    ///
    /// Those of the file system, and if its path leads through a link.
    pub(crate) fn of_file(file: &Path) -> io::Result<Self> {
        let flags = OFlag::O_PATH | OFlag::O_DIRECTORY | OFlag::O_NOFOLLOW | OFlag::O_CLOEXEC;
        let start = if file.is_absolute() { "/" } else { "." };
        let mut opened = open(start, flags, Mode::empty())?;
        for part in file.parent().into_iter().flat_map(Path::components) {
            let name = match part {
                Component::Normal(name) => name,
                Component::ParentDir => return Err(through_link()),
                Component::RootDir | Component::CurDir | Component::Prefix(_) => continue,
            };
            let next = openat(&opened, name, flags, Mode::empty());
            opened = next.map_err(|error| match error {
                Errno::ELOOP | Errno::ENOTDIR => through_link(),
                error => error.into(),
            })?;
        }
        Ok(Self(opened))
    }

    /// The open directory as a path, even if the directory is renamed in the meantime.
    pub(crate) fn path(&self) -> PathBuf {
        PathBuf::from(format!("/proc/self/fd/{}", self.0.as_raw_fd()))
    }

    pub(crate) fn file(&self, named: &Path) -> PathBuf {
        self.path().join(named.file_name().unwrap_or_default())
    }
}

fn through_link() -> io::Error {
    io::Error::other("its path leads through a link or a file: use the real path of the directory")
}
