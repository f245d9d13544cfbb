//! One process at a time: of two daemons on a node each would treat the other's markers as foreign, and of two racks each
//! would write into the other's file.
//!
//! The lock is the kernel's (flock), not the file's existence: it ends with the process, however that
//! ends, and the file stays.

use std::io;
use std::path::Path;

use nix::errno::Errno;
use nix::fcntl::{Flock, FlockArg};

use crate::fs::{self, File, OpenOptions};

/// A held lock. Dropping it releases it.
#[derive(Debug)]
pub struct Lock {
    _file: Flock<File>,
}

impl Lock {
    /// Takes the lock; `None` when another process has it.
    ///
    /// # Errors
    ///
    /// When there can be no lock at this path.
    pub fn take(path: &Path) -> io::Result<Option<Self>> {
        match Flock::lock(open(path)?, FlockArg::LockExclusiveNonblock) {
            Ok(file) => Ok(Some(Self { _file: file })),
            Err((_, Errno::EWOULDBLOCK)) => Ok(None),
            Err((_, error)) => Err(error.into()),
        }
    }
}

fn open(path: &Path) -> io::Result<File> {
    if let Some(directory) = path.parent() {
        fs::create_dir_all(directory)?;
    }
    OpenOptions::new()
        .write(true)
        .create(true)
        .truncate(false)
        // A user who can open it can lock it, and keep the next process from starting.
        .mode(0o600)
        .open(path)
}
