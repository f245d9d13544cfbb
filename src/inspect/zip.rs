//! The files of a ZIP archive, within bounds for its list of files and for their contents.

use std::cell::Cell;
use std::io::{self, Read, Seek, SeekFrom};
use std::rc::Rc;

use ::zip::ZipArchive;

/// How a ZIP file begins.
pub(super) const MAGIC: [u8; 4] = *b"PK\x03\x04";
/// Most bytes that are read until the list of files is known.
const LARGEST_LIST: u64 = 16 << 20;

/// Passes the content of each wanted file to `take`, up to this number of bytes for all together.
///
/// # Errors
///
/// Why the archive cannot be read.
pub(super) fn read_each(
    archive: impl Read + Seek,
    mut left: u64,
    is_wanted: impl Fn(&str) -> bool,
    mut take: impl FnMut(&str, Vec<u8>),
) -> io::Result<()> {
    let bound = Rc::new(Cell::new(LARGEST_LIST));
    let mut archive = ZipArchive::new(Bounded {
        archive,
        left: Rc::clone(&bound),
    })
    .map_err(io::Error::other)?;
    bound.set(u64::MAX);
    for number in 0..archive.len() {
        let name = archive.name_for_index(number).transpose();
        let name = name.map_err(io::Error::other)?.unwrap_or_default();
        let name = name.into_owned();
        if !is_wanted(&name) {
            continue;
        }
        let file = archive.by_index(number).map_err(io::Error::other)?;
        let mut content = Vec::new();
        file.take(left + 1).read_to_end(&mut content)?;
        left = left
            .checked_sub(content.len() as u64)
            .ok_or_else(|| io::Error::other("the files in the archive are too large"))?;
        take(&name, content);
    }
    Ok(())
}

/// An archive whose reads have a bound.
struct Bounded<A> {
    archive: A,
    left: Rc<Cell<u64>>,
}

impl<A: Read> Read for Bounded<A> {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        let read = self.archive.read(into)?;
        let left = self.left.get().checked_sub(read as u64);
        self.left.set(left.ok_or_else(|| {
            io::Error::other("the list of the files in the archive is too large")
        })?);
        Ok(read)
    }
}

impl<A: Seek> Seek for Bounded<A> {
    fn seek(&mut self, to: SeekFrom) -> io::Result<u64> {
        self.archive.seek(to)
    }
}

#[cfg(test)]
pub(super) mod tests {
    use std::io::{Cursor, Write as _};

    use ::zip::write::SimpleFileOptions;
    use ::zip::{CompressionMethod, ZipWriter};

    use super::*;

    /// An archive of stored and deflated files.
    pub(in super::super) fn pack(files: &[(&str, &str)]) -> Vec<u8> {
        let mut archive = ZipWriter::new(Cursor::new(Vec::new()));
        let methods = [CompressionMethod::Stored, CompressionMethod::Deflated];
        for ((name, text), method) in files.iter().zip(methods.into_iter().cycle()) {
            let options = SimpleFileOptions::default().compression_method(method);
            archive.start_file(*name, options).unwrap();
            archive.write_all(text.as_bytes()).unwrap();
        }
        archive.finish().unwrap().into_inner()
    }

    fn read(archive: &[u8], most: u64) -> io::Result<Vec<(String, Vec<u8>)>> {
        let mut found = Vec::new();
        let take = |name: &str, content| found.push((name.to_owned(), content));
        read_each(Cursor::new(archive), most, |name| name != "b", take)?;
        Ok(found)
    }

    #[test]
    fn stored_and_deflated_files_are_read_and_others_left_alone() {
        let archive = pack(&[("a", "text"), ("dir/c", "packed"), ("b", "unwanted")]);
        let expected = [
            ("a".to_owned(), b"text".to_vec()),
            ("dir/c".to_owned(), b"packed".to_vec()),
        ];
        assert_eq!(read(&archive, 100).unwrap(), expected);
        assert_eq!(read(&archive, 10).unwrap().len(), 2);
        assert!(read(&archive, 9).is_err(), "a bound for all files");
    }

    #[test]
    fn a_list_of_files_is_read_within_its_bound() {
        let mut archive = Bounded {
            archive: Cursor::new([0; 8]),
            left: Rc::new(Cell::new(6)),
        };
        let mut into = [0; 4];
        archive.read_exact(&mut into).unwrap();
        assert!(archive.read_exact(&mut into).is_err());
    }

    #[test]
    fn a_broken_archive_is_an_error_wherever_it_is_cut_and_never_a_panic() {
        let archive = pack(&[("a", "text"), ("dir/c", "packed")]);
        for cut in 0..archive.len() {
            assert!(read(&archive[..cut], 100).is_err(), "{cut}");
        }
        for at in 0..archive.len() {
            for value in [0, 0x7f, 0xff] {
                let mut changed = archive.clone();
                changed[at] = value;
                let _ = read(&changed, 100);
            }
        }
    }
}
