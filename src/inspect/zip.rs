//! Reads files of a ZIP archive: stored or deflated ones, within a bound (APPNOTE.TXT 6.3.10, 4.3). No ZIP64, no encryption.

use std::io::{self, Read, Seek, SeekFrom};

use flate2::read::DeflateDecoder;

/// How a ZIP file begins.
pub(super) const MAGIC: [u8; 4] = *b"PK\x03\x04";
const END: [u8; 4] = *b"PK\x05\x06";
const ENTRY: [u8; 4] = *b"PK\x01\x02";
const END_LENGTH: usize = 22;
const ENTRY_LENGTH: usize = 46;
const LOCAL_LENGTH: usize = 30;
/// The longest comment, which comes last.
const LONGEST_COMMENT: u64 = 0xffff;
/// Largest list of files, in bytes.
const LARGEST_LIST: u64 = 16 << 20;

/// Passes the content of each wanted file to `take`, up to this number of bytes for all together.
///
/// # Errors
///
/// Why the archive cannot be read.
pub(super) fn read_each(
    mut archive: impl Read + Seek,
    mut left: u64,
    is_wanted: impl Fn(&str) -> bool,
    mut take: impl FnMut(&str, Vec<u8>),
) -> io::Result<()> {
    let list = list_of(&mut archive)?;
    let mut rest = &list[..];
    while rest.starts_with(&ENTRY) {
        let header = rest.get(..ENTRY_LENGTH).ok_or_else(broken)?;
        let (method, packed, offset) = (
            number(header, 10, 2),
            number(header, 20, 4),
            number(header, 42, 4),
        );
        let [name, extra, comment] = [28, 30, 32].map(|at| number(header, at, 2) as usize);
        let path = rest
            .get(ENTRY_LENGTH..ENTRY_LENGTH + name)
            .ok_or_else(broken)?;
        let path = String::from_utf8_lossy(path);
        if is_wanted(&path) {
            let found = archive_read(&mut archive, method, packed, offset, left)?;
            left -= found.len() as u64;
            take(&path, found);
        }
        let length = ENTRY_LENGTH + name + extra + comment;
        rest = rest.get(length..).ok_or_else(broken)?;
    }
    Ok(())
}

fn archive_read(
    archive: &mut (impl Read + Seek),
    method: u64,
    packed: u64,
    offset: u64,
    left: u64,
) -> io::Result<Vec<u8>> {
    archive.seek(SeekFrom::Start(offset))?;
    let mut local = [0; LOCAL_LENGTH];
    archive.read_exact(&mut local)?;
    if !local.starts_with(&MAGIC) {
        return Err(broken());
    }
    let skipped = number(&local, 26, 2) + number(&local, 28, 2);
    archive.seek(SeekFrom::Current(skipped as i64))?;
    let packed = archive.take(packed);
    let mut content = Vec::new();
    match method {
        0 => packed.take(left + 1).read_to_end(&mut content)?,
        8 => DeflateDecoder::new(packed)
            .take(left + 1)
            .read_to_end(&mut content)?,
        _ => {
            return Err(io::Error::other(
                "a file in the archive is packed in an unknown way",
            ));
        }
    };
    if content.len() as u64 > left {
        return Err(io::Error::other("the files in the archive are too large"));
    }
    Ok(content)
}

/// The list of all files, which is at the end of the archive.
fn list_of(archive: &mut (impl Read + Seek)) -> io::Result<Vec<u8>> {
    let length = archive.seek(SeekFrom::End(0))?;
    let from = length.saturating_sub(END_LENGTH as u64 + LONGEST_COMMENT);
    archive.seek(SeekFrom::Start(from))?;
    let mut tail = Vec::new();
    archive.take(length - from).read_to_end(&mut tail)?;
    let mut starts = (0..(tail.len() + 1).saturating_sub(END_LENGTH)).rev();
    let end = starts
        .find(|at| tail[*at..].starts_with(&END))
        .ok_or_else(broken)?;
    let (size, offset) = (number(&tail[end..], 12, 4), number(&tail[end..], 16, 4));
    if size > LARGEST_LIST || offset + size > length {
        return Err(broken());
    }
    archive.seek(SeekFrom::Start(offset))?;
    let mut list = Vec::new();
    archive.take(size).read_to_end(&mut list)?;
    Ok(list)
}

/// A number of this many bytes, the lowest first.
fn number(bytes: &[u8], at: usize, length: usize) -> u64 {
    let bytes = bytes[at..at + length].iter().rev();
    bytes.fold(0, |number, byte| number << 8 | u64::from(*byte))
}

fn broken() -> io::Error {
    io::Error::other("it is not a complete ZIP archive")
}

#[cfg(test)]
pub(super) mod tests {
    use std::io::{Cursor, Write as _};

    use flate2::Compression;
    use flate2::write::DeflateEncoder;

    use super::*;

    /// An archive as `zip -r` writes it: with a local header before each file.
    pub(in super::super) fn pack(files: &[(&str, &str)]) -> Vec<u8> {
        let (mut archive, mut list) = (Vec::new(), Vec::new());
        for (number, (name, text)) in files.iter().enumerate() {
            let deflated = number % 2 == 1;
            let content = match deflated {
                true => {
                    let mut encoder = DeflateEncoder::new(Vec::new(), Compression::default());
                    encoder.write_all(text.as_bytes()).unwrap();
                    encoder.finish().unwrap()
                }
                false => text.as_bytes().to_vec(),
            };
            let method = if deflated { 8_u16 } else { 0 };
            let offset = archive.len() as u32;
            let sizes = [content.len() as u32, text.len() as u32]
                .map(u32::to_le_bytes)
                .concat();
            let names = [name.len() as u16, 0].map(u16::to_le_bytes).concat();
            let common = [
                &[20, 0, 0, 0][..],
                &method.to_le_bytes(),
                &[0; 8],
                &sizes,
                &names,
            ]
            .concat();
            archive.extend([&MAGIC[..], &common, name.as_bytes(), &content].concat());
            list.extend(
                [
                    &ENTRY[..],
                    &[20, 0],
                    &common,
                    &[0; 10],
                    &offset.to_le_bytes(),
                    name.as_bytes(),
                ]
                .concat(),
            );
        }
        let count = (files.len() as u16).to_le_bytes();
        let place = [list.len() as u32, archive.len() as u32]
            .map(u32::to_le_bytes)
            .concat();
        [
            &archive[..],
            &list,
            &END,
            &[0; 4],
            &count,
            &count,
            &place,
            &[0, 0],
        ]
        .concat()
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
    fn a_broken_archive_is_an_error_wherever_it_is_cut_or_changed() {
        let archive = pack(&[("a", "text"), ("dir/c", "packed")]);
        for cut in 0..archive.len() {
            assert!(read(&archive[..cut], 100).is_err(), "{cut}");
        }
        for at in 0..archive.len() {
            for value in [0, 0x7f, 0xff] {
                let mut changed = archive.clone();
                changed[at] = value;
                // Without a panic.
                let _ = read(&changed, 100);
            }
        }
    }
}
