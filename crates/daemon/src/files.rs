//! Careful files. They are written whole or not at all: temporary name in the same directory, fsync, rename, fsync of
//! the directory. They are read only when they are regular and of a sane size.

use std::io::{self, Read, Write};
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::Path;
use std::sync::{Arc, Mutex};

use jiff::Timestamp;
use nix::fcntl::OFlag;
use nix::sys::statvfs::Statvfs;
use tempfile::NamedTempFile;

use crate::fs::{self, DirBuilder, Permissions};

/// How temporary names begin and end. RKE2 reads neither manifests nor configuration under them.
const TEMPORARY: (&str, &str) = (".windrow-", ".tmp");
/// A temporary file that was not written to for this long, in seconds, is abandoned.
const LEFT_BEHIND: i64 = 60;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Durability {
    /// The old or the new content is there afterwards.
    Durable,
    /// The file lives in memory (`/run`) or can be made again: no fsync.
    Volatile,
}

/// Replaces a file as a whole: a reader sees the old content or the new one, never a part. The
/// temporary name (`.windrow-*.tmp`) is one that RKE2 does not read.
///
/// # Errors
///
/// Those of the file system; the old content is then still there.
pub fn replace(path: &Path, content: &[u8], mode: u32, durability: Durability) -> io::Result<()> {
    let directory = directory_of(path)?;
    // Both stay open until the temporary is gone.
    let (inside, entry) = (fs::resolve(directory)?, fs::resolve_entry(path)?);
    let mut temporary = temporary_in(inside.as_ref(), mode)?;
    // Not through the temporary, which would put its own name, different each time, into an error.
    temporary.as_file_mut().write_all(content)?;
    // The umask may have taken bits away that readers need.
    temporary
        .as_file()
        .set_permissions(Permissions::from_mode(mode))?;
    if durability == Durability::Durable {
        temporary.as_file().sync_all()?;
    }
    temporary.persist(&entry).map_err(|error| error.error)?;
    if durability == Durability::Durable {
        fs::sync_directory(directory)?;
    }
    Ok(())
}

/// Writes a file without a temporary name next to it, for directories in which others read every name: the old content is
/// overwritten. The file is empty if that fails.
///
/// # Errors
///
/// Those of the file system, or if the path is a link or not a regular file.
pub(crate) fn overwrite(
    path: &Path,
    content: &[u8],
    mode: u32,
    durability: Durability,
) -> io::Result<()> {
    let mut file = fs::OpenOptions::new()
        .write(true)
        .create(true)
        .truncate(false)
        .mode(mode)
        .custom_flags((OFlag::O_NOFOLLOW | OFlag::O_NONBLOCK).bits())
        .open(path)?;
    if !file.metadata()?.is_file() {
        return Err(io::Error::other("it is not a regular file"));
    }
    file.set_permissions(Permissions::from_mode(mode))?;
    let written = file
        .write_all(content)
        .and_then(|()| file.set_len(content.len() as u64))
        .and_then(|()| match durability {
            Durability::Durable => file.sync_all(),
            Durability::Volatile => Ok(()),
        });
    if written.is_err() {
        // Half a text has another meaning, and uses space that others need.
        file.set_len(0)?;
    }
    written
}

/// Removes a file, so that it is gone after a power cut too.
///
/// # Errors
///
/// Those of the file system.
pub(crate) fn remove_durably(path: &Path) -> io::Result<()> {
    fs::remove_file(path)?;
    fs::sync_directory(directory_of(path)?)
}

fn directory_of(path: &Path) -> io::Result<&Path> {
    path.parent()
        .ok_or_else(|| io::Error::other("a file needs a directory"))
}

/// Whether a write failed because the file system, or the quota on it, is full.
pub(crate) fn is_no_space(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded
    )
}

/// With less than this in bytes nothing useful can be written: some file systems keep a few blocks back.
pub(crate) const NO_SPACE: u64 = 1 << 20;

/// Whether the file system of this path has space left. True if it does not answer, because there is no sign of a
/// problem then.
pub(crate) fn has_space(path: &Path) -> bool {
    let Ok(found) = fs::statvfs(path) else {
        return true;
    };
    let has_inodes = found.files() == 0 || found.files_available() > 0;
    available(&found) >= NO_SPACE && has_inodes
}

/// How many bytes the file system of this path has left for everyone.
pub(crate) fn free_space(path: &Path) -> io::Result<u64> {
    Ok(available(&fs::statvfs(path)?))
}

fn available(found: &Statvfs) -> u64 {
    found
        .blocks_available()
        .saturating_mul(found.fragment_size())
}

/// A new file under a name that RKE2 does not read. Dropping it removes it.
pub(crate) fn temporary_in(directory: &Path, mode: u32) -> io::Result<NamedTempFile> {
    tempfile::Builder::new()
        .prefix(TEMPORARY.0)
        .suffix(TEMPORARY.1)
        .permissions(Permissions::from_mode(mode))
        .tempfile_in(directory)
        .map_err(without_name)
}

/// Removes the temporary files that a power cut left in a directory. One that cannot be removed is harmless.
pub(crate) fn sweep(directory: &Path, now: Timestamp) {
    let Ok(entries) = fs::read_dir(directory) else {
        return;
    };
    for entry in entries.flatten() {
        let name = entry.file_name();
        let ours = name
            .to_str()
            .is_some_and(|name| name.starts_with(TEMPORARY.0) && name.ends_with(TEMPORARY.1));
        let left = |metadata: fs::Metadata| {
            metadata.is_file() && now.as_second() - metadata.mtime() >= LEFT_BEHIND
        };
        if ours && entry.metadata().is_ok_and(left) {
            let _ = fs::remove_file(entry.path());
        }
    }
}

/// The error without the temporary name, which differs with every try.
fn without_name(error: io::Error) -> io::Error {
    let text = error.to_string();
    match text.split_once(" at path ") {
        Some((why, _)) => io::Error::new(error.kind(), why.to_owned()),
        None => error,
    }
}

/// In bytes.
pub const LARGEST_TEXT: u64 = 4 << 20;

/// Reads a configuration file; anything but a regular file must neither block nor fill the memory.
///
/// # Errors
///
/// Those of the file system; a file that is not regular, larger than 4 MiB or not UTF-8.
pub fn read_text(path: &Path) -> io::Result<String> {
    String::from_utf8(read_bytes(path)?).map_err(|_| io::Error::other("it is not UTF-8 text"))
}

/// As [`read_text`], for bytes of any kind.
///
/// # Errors
///
/// Those of the file system; a file that is not regular or larger than 4 MiB.
pub fn read_bytes(path: &Path) -> io::Result<Vec<u8>> {
    read_at_most(path, LARGEST_TEXT)
}

/// As [`read_bytes`], up to another size in bytes, a whole number of MiB.
///
/// # Errors
///
/// Those of the file system; a file that is not regular or larger than that.
pub fn read_at_most(path: &Path, most: u64) -> io::Result<Vec<u8>> {
    let bytes = read_beginning(path, most + 1)?;
    if bytes.len() as u64 > most {
        let why = format!("it is larger than {} MiB", most >> 20);
        return Err(io::Error::other(why));
    }
    Ok(bytes)
}

/// The beginning of a regular file: at most this number of bytes.
///
/// # Errors
///
/// Those of the file system; a file that is not regular.
pub fn read_beginning(path: &Path, most: u64) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    fs::open(path)?.take(most).read_to_end(&mut bytes)?;
    Ok(bytes)
}

/// Shows whether a file was replaced, written or given other permissions. Its path is only a name: the inode is what
/// matters.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct FileStamp {
    device: u64,
    inode: u64,
    bytes: u64,
    /// Time of the last change of the content, in nanoseconds.
    modified: i128,
    /// Time of the last change of content or inode, in nanoseconds. No program can set it back.
    pub(crate) changed: i128,
}

impl From<&fs::Metadata> for FileStamp {
    fn from(metadata: &fs::Metadata) -> Self {
        let time =
            |seconds: i64, nanos: i64| i128::from(seconds) * 1_000_000_000 + i128::from(nanos);
        Self {
            device: metadata.dev(),
            inode: metadata.ino(),
            bytes: metadata.len(),
            modified: time(metadata.mtime(), metadata.mtime_nsec()),
            changed: time(metadata.ctime(), metadata.ctime_nsec()),
        }
    }
}

pub(crate) struct Kept<T>(Mutex<Option<(Vec<FileStamp>, Arc<T>)>>);

impl<T> Default for Kept<T> {
    fn default() -> Self {
        Self(Mutex::new(None))
    }
}

impl<T> Kept<T> {
    /// The result of `read`, which is called when one of the files has changed since the last time.
    pub(crate) fn get(
        &self,
        paths: &[&Path],
        read: impl FnOnce() -> Result<T, String>,
    ) -> Result<Arc<T>, String> {
        let stamp = |path: &&Path| match fs::metadata(path) {
            Ok(metadata) => Ok(FileStamp::from(&metadata)),
            Err(error) => Err(format!("{}: {error}", path.display())),
        };
        let stamps: Result<Vec<FileStamp>, String> = paths.iter().map(stamp).collect();
        // A value left by a panic elsewhere is read again.
        let Ok(mut kept) = self.0.lock() else {
            return read().map(Arc::new);
        };
        let stamps = stamps?;
        if let Some((known, value)) = &*kept
            && *known == stamps
        {
            return Ok(value.clone());
        }
        let value = Arc::new(read()?);
        *kept = Some((stamps, value.clone()));
        Ok(value)
    }

    pub(crate) fn last(&self) -> Option<Arc<T>> {
        let kept = self.0.lock().ok()?;
        kept.as_ref().map(|(_, value)| value.clone())
    }
}

/// Makes a private directory, and those above it, unless it exists.
///
/// # Errors
///
/// Those of the file system.
pub fn make_private(path: &Path) -> io::Result<()> {
    DirBuilder::new().recursive(true).mode(0o700).create(path)
}

/// Whether something is there. If the file system does not answer, it counts as there: an error must not put another
/// file in its place.
pub(crate) fn may_be_there(path: &Path) -> bool {
    fs::try_exists(path).unwrap_or(true)
}

/// Whether nothing is there. A path below something that is not a directory counts as missing too.
pub(crate) fn is_missing(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        io::ErrorKind::NotFound | io::ErrorKind::NotADirectory
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_is_replaced_whole_with_its_mode_and_no_temporary_stays() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("status.json");
        for content in ["a long first content", "short"] {
            replace(&path, content.as_bytes(), 0o644, Durability::Durable).unwrap();
            assert_eq!(fs::read_to_string(&path).unwrap(), content);
        }
        assert_eq!(
            fs::metadata(&path).unwrap().permissions().mode() & 0o777,
            0o644
        );
        assert_eq!(fs::read_dir(directory.path()).unwrap().count(), 1);
    }

    #[test]
    fn a_file_is_overwritten_in_place_and_never_through_a_link() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("notice");
        for content in ["a long text", "short"] {
            overwrite(&path, content.as_bytes(), 0o644, Durability::Durable).unwrap();
            assert_eq!(fs::read_to_string(&path).unwrap(), content);
        }
        let inode = fs::metadata(&path).unwrap().ino();
        overwrite(&path, b"the same file", 0o600, Durability::Volatile).unwrap();
        let found = fs::metadata(&path).unwrap();
        assert_eq!((found.ino(), found.mode() & 0o777), (inode, 0o600));

        let link = directory.path().join("link");
        std::os::unix::fs::symlink(&path, &link).unwrap();
        assert!(overwrite(&link, b"x", 0o644, Durability::Volatile).is_err());
        assert_eq!(fs::read_to_string(&path).unwrap(), "the same file");
        // Not a regular file.
        assert!(overwrite(Path::new("/dev/full"), b"x", 0o666, Durability::Volatile).is_err());
    }

    #[test]
    fn what_a_power_cut_left_is_swept_away_and_what_is_being_written_is_not() {
        let directory = tempfile::tempdir().unwrap();
        let put = |name: &str| fs::write(directory.path().join(name), "half").unwrap();
        put(".windrow-a1.tmp");
        put(".windrow-notes.yaml");
        put("vm.yaml");
        let written = fs::metadata(directory.path().join("vm.yaml")).unwrap();
        let at = |seconds: i64| Timestamp::from_second(written.mtime() + seconds).unwrap();
        let names = || {
            let entries = fs::read_dir(directory.path()).unwrap();
            let mut names: Vec<String> = entries
                .map(|entry| entry.unwrap().file_name().into_string().unwrap())
                .collect();
            names.sort();
            names
        };
        sweep(directory.path(), at(LEFT_BEHIND - 10));
        assert_eq!(names().len(), 3);
        sweep(directory.path(), at(LEFT_BEHIND + 10));
        assert_eq!(names(), [".windrow-notes.yaml", "vm.yaml"]);
        sweep(&directory.path().join("absent"), at(0));
    }

    #[test]
    fn a_value_is_read_again_when_its_file_may_be_read_by_others_than_before() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("token");
        let kept = Kept::default();
        let mode = || {
            let read = || Ok(fs::metadata(&path).unwrap().mode() & 0o777);
            *kept.get(&[&path], read).unwrap()
        };
        replace(&path, b"secret", 0o600, Durability::Volatile).unwrap();
        assert_eq!(mode(), 0o600);
        // The clock of a file system goes in steps: until one is over, nothing has changed.
        let changed = || fs::metadata(&path).map(|found| (found.ctime(), found.ctime_nsec()));
        let before = changed().unwrap();
        while changed().unwrap() == before {
            fs::set_permissions(&path, Permissions::from_mode(0o644)).unwrap();
        }
        assert_eq!(mode(), 0o644);
    }

    #[test]
    fn what_cannot_be_renamed_into_place_leaves_no_temporary() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("taken");
        fs::create_dir(&path).unwrap();
        assert!(replace(&path, b"x", 0o644, Durability::Volatile).is_err());
        assert_eq!(fs::read_dir(directory.path()).unwrap().count(), 1);
    }
}
