//! Shared parts of unit tests: a separate bus, and servers on loopback.

use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

pub mod bus;
pub mod replies;
pub mod server;

/// An empty directory without any permissions, as systemd mounts it over a hidden one.
pub struct HiddenDirectory(PathBuf);

pub fn hide(path: &Path) -> HiddenDirectory {
    fs::create_dir_all(path).expect("a directory");
    fs::set_permissions(path, Permissions::from_mode(0o000)).expect("no permissions");
    HiddenDirectory(path.to_owned())
}

impl Drop for HiddenDirectory {
    fn drop(&mut self) {
        // The temporary directory cannot be removed without them.
        let _ = fs::set_permissions(&self.0, Permissions::from_mode(0o700));
    }
}
