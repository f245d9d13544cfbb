//! A database's file whose creation a crash or a power cut ended.
//!
//! The library makes the file as long as it has to be, writes a header without its magic number, and that number last
//! of all. A file without that number is refused as another format from then on, although nothing was ever in it.

use std::io;

use redb::StorageBackend;

/// The first page contains everything that the library writes before its magic number.
const PAGE: usize = 4096;
const MAGIC: usize = 9;

/// Empties a file that was never finished, so that it is made again. Any other one stays as it is.
pub(super) fn empty_unfinished(file: &impl StorageBackend) -> io::Result<()> {
    let length = file.len()?;
    let mut page = [0; PAGE];
    let mut at = 0;
    while at < length {
        let rest = usize::try_from(length - at).unwrap_or(PAGE);
        let read = &mut page[..rest.min(PAGE)];
        file.read(at, read)?;
        let never_written = if at == 0 {
            read.len().min(MAGIC)
        } else {
            read.len()
        };
        if read[..never_written].iter().any(|byte| *byte != 0) {
            return Ok(());
        }
        at += PAGE as u64;
    }
    file.set_len(0)
}
