//! A path below a directory, opened step by step without following a symbolic link.
//!
//! A link in the path could lead a marker out of the manifests directory. A marker hides its name in every directory
//! (k3s `pkg/deploy/controller.go`), so a marker whose path leads over a link is put in the manifests directory itself.
//! The manifests directory may be a link: operators put it on another disk.

use std::io;
use std::os::fd::{AsRawFd, OwnedFd};
use std::path::{Path, PathBuf};

use nix::errno::Errno;
use nix::fcntl::{OFlag, open, openat};
use nix::sys::stat::Mode;

use crate::fs;

/// The open directory that contains the last part of a path.
pub(super) struct ParentDirectory {
    fd: OwnedFd,
    name: String,
}

impl ParentDirectory {
    /// Opens the directory of `path` (relative, with `/`) below `base`. `None` when it is not there.
    pub(super) fn find(base: &Path, path: &str) -> io::Result<Option<Self>> {
        let mut parts: Vec<&str> = path.split('/').collect();
        let plain = |part: &&str| !matches!(*part, "" | "." | "..");
        if !parts.iter().all(plain) {
            return Err(io::Error::other(format!(
                "`{path}` is not a plain path below the manifests directory"
            )));
        }
        let name = parts.pop().unwrap_or_default().to_owned();
        let flags = OFlag::O_RDONLY | OFlag::O_DIRECTORY | OFlag::O_CLOEXEC;
        let base = match fs::resolve(base) {
            Ok(base) => base,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(error),
        };
        let Some(top) = there(open(base.as_ref(), flags, Mode::empty()))? else {
            return Ok(None);
        };
        let mut below: Option<OwnedFd> = None;
        for part in parts {
            let at = below.as_ref().unwrap_or(&top);
            below = match openat(at, part, flags | OFlag::O_NOFOLLOW, Mode::empty()) {
                Ok(next) => Some(next),
                Err(Errno::ENOENT) => return Ok(None),
                // A link, or a file: there is nothing below it for a marker to hide.
                Err(Errno::ELOOP | Errno::ENOTDIR) => return Ok(Some(Self { fd: top, name })),
                Err(error) => return Err(error.into()),
            };
        }
        Ok(Some(Self {
            fd: below.unwrap_or(top),
            name,
        }))
    }

    pub(super) fn fd(&self) -> &OwnedFd {
        &self.fd
    }

    pub(super) fn name(&self) -> &str {
        &self.name
    }

    pub(super) fn path(&self) -> PathBuf {
        PathBuf::from(format!("/proc/self/fd/{}", self.fd.as_raw_fd()))
    }

    /// Device and inode: two paths may lead to one directory.
    pub(super) fn id(&self) -> nix::Result<(u64, u64)> {
        let stat = nix::sys::stat::fstat(&self.fd)?;
        Ok((stat.st_dev, stat.st_ino))
    }

    pub(super) fn sync(&self) -> nix::Result<()> {
        nix::unistd::fsync(&self.fd)
    }
}

fn there(opened: nix::Result<OwnedFd>) -> io::Result<Option<OwnedFd>> {
    match opened {
        Ok(fd) => Ok(Some(fd)),
        Err(Errno::ENOENT) => Ok(None),
        Err(error) => Err(error.into()),
    }
}
