//! A directory for what a run of the tests builds once, and which is too large to leave lying.

use std::ffi::OsStr;
use std::fs::File;
use std::path::{Path, PathBuf};

/// A directory that is this process' alone until it ends: another run of the tests beside it has one, too. Removes those of
/// the same name whose process has ended.
pub(crate) fn own_directory(name: &str) -> PathBuf {
    let parent = Path::new(env!("CARGO_TARGET_TMPDIR"));
    let prefix = format!("{name}-");
    let lock_in = |directory: &Path| directory.join("lock");
    for entry in std::fs::read_dir(parent).expect("a directory") {
        let left = entry.expect("an entry").path();
        let named = left.file_name().map(OsStr::to_string_lossy);
        // One without a lock is just being made, or its process died in that moment: it is empty.
        if named.is_some_and(|named| named.starts_with(&prefix))
            && File::open(lock_in(&left)).is_ok_and(|lock| lock.try_lock().is_ok())
        {
            std::fs::remove_dir_all(&left).expect("a directory that can be removed");
        }
    }
    let directory = tempfile::Builder::new().prefix(&prefix).tempdir_in(parent);
    let directory = directory.expect("a directory").keep();
    // Locked before it has its name, so that nobody finds it unlocked.
    let unnamed = tempfile::NamedTempFile::new_in(&directory).expect("a file");
    unnamed.as_file().lock().expect("a lock");
    let lock = unnamed.persist(lock_in(&directory)).expect("a file");
    // Open, and so locked, until this process ends.
    std::mem::forget(lock);
    directory
}
