//! The file system, as in `std::fs`. Every module uses this one (`tests/local/file_access.rs`).
//!
//! Files are read only if they are regular, and up to a bound: a FIFO does not block, and a device does not fill the memory.

use std::io::{self, Read as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::Path;

use nix::fcntl::OFlag;

pub(crate) use std::fs::*;

/// Most bytes that are read of any file.
const LARGEST: u64 = 256 << 20;

/// Opens a regular file for reading.
///
/// # Errors
///
/// Those of the file system, and if it is not a regular file.
pub(crate) fn open(path: impl AsRef<Path>) -> io::Result<File> {
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
pub(crate) fn read(path: impl AsRef<Path>) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    open(path)?.take(LARGEST + 1).read_to_end(&mut bytes)?;
    if bytes.len() as u64 > LARGEST {
        return Err(io::Error::other("it is larger than 256 MiB"));
    }
    Ok(bytes)
}

/// The same of UTF-8 text.
///
/// # Errors
///
/// Those of [`read`], and if it is not UTF-8.
pub(crate) fn read_to_string(path: impl AsRef<Path>) -> io::Result<String> {
    let not_text = |_| io::Error::new(io::ErrorKind::InvalidData, "it is not UTF-8 text");
    String::from_utf8(read(path)?).map_err(not_text)
}

/// Puts the entries of a directory on the disk.
///
/// # Errors
///
/// Those of the file system.
pub(crate) fn sync_directory(path: impl AsRef<Path>) -> io::Result<()> {
    std::fs::File::open(path)?.sync_all()
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
