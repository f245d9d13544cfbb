//! Base64 and gzip, for `!!binary` and for the encodings that cloud-init and Harvester take.

use std::io::Read;

/// Decodes standard base64 with padding. Line breaks in it do not count.
pub fn base64(text: &[u8]) -> Result<Vec<u8>, String> {
    let mut bytes = Vec::with_capacity(text.len() / 4 * 3);
    let mut group = 0u32;
    let mut filled = 0;
    let mut padding = 0;
    for (position, &byte) in text.iter().enumerate() {
        let digit = match byte {
            b'A'..=b'Z' => byte - b'A',
            b'a'..=b'z' => byte - b'a' + 26,
            b'0'..=b'9' => byte - b'0' + 52,
            b'+' => 62,
            b'/' => 63,
            b'\n' | b'\r' => continue,
            b'=' if filled >= 2 => {
                padding += 1;
                if filled + padding > 4 {
                    return Err(format!("too much padding at character {}", position + 1));
                }
                continue;
            }
            _ => {
                return Err(format!("unexpected character {}", position + 1));
            }
        };
        if padding > 0 {
            return Err(format!(
                "data after the padding at character {}",
                position + 1
            ));
        }
        group = group << 6 | u32::from(digit);
        filled += 1;
        if filled == 4 {
            bytes.extend_from_slice(&group.to_be_bytes()[1..]);
            group = 0;
            filled = 0;
        }
    }
    match (filled, padding) {
        (0, 0) => {}
        (2, 2) => bytes.push((group >> 4) as u8),
        (3, 1) => bytes.extend_from_slice(&((group >> 2) as u16).to_be_bytes()),
        _ => return Err("it ends in the middle of a group; the padding is missing".to_owned()),
    }
    Ok(bytes)
}

/// Does it begin as gzip does (RFC 1952)?
pub(super) fn is_gzip(bytes: &[u8]) -> bool {
    bytes.starts_with(&[0x1f, 0x8b])
}

/// Unpacks gzip, at most `limit` bytes of it: a small file can hold a very large one.
pub(super) fn gunzip(packed: &[u8], limit: u64) -> Result<Vec<u8>, String> {
    let mut bytes = Vec::new();
    let mut decoder = flate2::read::MultiGzDecoder::new(packed);
    decoder
        .by_ref()
        .take(limit.saturating_add(1))
        .read_to_end(&mut bytes)
        .map_err(|error| error.to_string())?;
    if bytes.len() as u64 > limit {
        return Err(format!("it unpacks to more than {limit} bytes"));
    }
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use super::*;

    #[test]
    fn base64_is_read_as_written_everywhere() {
        for (text, bytes) in [
            ("", ""),
            ("aGk=", "hi"),
            ("aA==", "h"),
            ("aGl5", "hiy"),
            ("aG\nl5\r\naA==", "hiyh"),
        ] {
            assert_eq!(base64(text.as_bytes()).unwrap(), bytes.as_bytes(), "{text}");
        }
    }

    #[test]
    fn base64_that_is_none_is_refused() {
        for text in [
            "a", "aGk", "aG k=", "====", "aGk=aGk=", "aGk==", "aGl5=", "-_-_",
        ] {
            assert!(base64(text.as_bytes()).is_err(), "{text}");
        }
    }

    #[test]
    fn a_gzip_bomb_is_not_unpacked_beyond_the_limit() {
        let mut packer = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::best());
        packer.write_all(&vec![0; 1 << 20]).unwrap();
        let packed = packer.finish().unwrap();
        assert_eq!(gunzip(&packed, 1 << 20).unwrap().len(), 1 << 20);
        assert!(
            gunzip(&packed, (1 << 20) - 1)
                .unwrap_err()
                .contains("more than")
        );
        assert!(gunzip(&packed[..20], 1 << 20).is_err());
        assert!(gunzip(b"no gzip", 1 << 20).is_err());
    }
}
