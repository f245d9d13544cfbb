//! The database's file, in which no header relies on a length that is not on the disk.
//!
//! When the library needs room it makes the file longer and then writes a header that relies on it, both before one
//! sync. A disk that loses power in between may have the header and not the length; the library then panics at every
//! start, although all that was committed before is in the file.

use std::io;

use redb::StorageBackend;

/// Puts every change of the length on the disk before anything else is written.
#[derive(Debug)]
pub(super) struct DurableLength<B>(pub(super) B);

impl<B: StorageBackend> StorageBackend for DurableLength<B> {
    fn len(&self) -> io::Result<u64> {
        self.0.len()
    }

    fn read(&self, offset: u64, out: &mut [u8]) -> io::Result<()> {
        self.0.read(offset, out)
    }

    fn set_len(&self, len: u64) -> io::Result<()> {
        self.0.set_len(len)?;
        self.0.sync_data()
    }

    fn sync_data(&self) -> io::Result<()> {
        self.0.sync_data()
    }

    fn write(&self, offset: u64, data: &[u8]) -> io::Result<()> {
        self.0.write(offset, data)
    }

    fn close(&self) -> io::Result<()> {
        self.0.close()
    }
}
