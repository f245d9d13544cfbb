//! Base64 and gzip, for `!!binary` and for the encodings that cloud-init and Harvester accept.

use std::io::Read;

use base64::Engine as _;
use base64::alphabet::STANDARD;
use base64::engine::{GeneralPurpose, GeneralPurposeConfig};

/// Like Go's `base64.StdEncoding`, with which RKE2 reads: padding is required, and the unused bits of the last digit
/// are ignored.
const AS_GO: GeneralPurpose = GeneralPurpose::new(
    &STANDARD,
    GeneralPurposeConfig::new().with_decode_allow_trailing_bits(true),
);

/// Decodes standard base64 with padding. Line breaks are ignored.
pub fn decode_base64(text: &[u8]) -> Result<Vec<u8>, String> {
    let digits: Vec<u8> = text
        .iter()
        .copied()
        .filter(|byte| !b"\r\n".contains(byte))
        .collect();
    let stray = |byte: &u8| !byte.is_ascii_alphanumeric() && !b"+/=\r\n".contains(byte);
    AS_GO
        .decode(digits)
        .map_err(|_| match text.iter().position(stray) {
            Some(position) => format!("unexpected character {}", position + 1),
            None => {
                "it ends in the middle of a group, or its padding is missing or in the wrong place"
                    .to_owned()
            }
        })
}

/// The bytes as text, with U+FFFD for each byte that is not UTF-8, as Go writes it into JSON.
pub fn lossy(bytes: &[u8]) -> String {
    let mut text = String::with_capacity(bytes.len());
    for chunk in bytes.utf8_chunks() {
        text.push_str(chunk.valid());
        text.extend(chunk.invalid().iter().map(|_| char::REPLACEMENT_CHARACTER));
    }
    text
}

/// Whether the bytes begin like gzip (RFC 1952).
pub fn is_gzip(bytes: &[u8]) -> bool {
    bytes.starts_with(&[0x1f, 0x8b])
}

/// Unpacks at most `limit` bytes of gzip: a small file can hold a very large one.
pub fn gunzip(packed: &[u8], limit: u64) -> Result<Vec<u8>, String> {
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
            assert_eq!(
                decode_base64(text.as_bytes()).unwrap(),
                bytes.as_bytes(),
                "{text}"
            );
        }
    }

    #[test]
    fn every_byte_that_is_not_utf_8_is_one_replacement() {
        // The first two bytes of three, and a surrogate.
        assert_eq!(lossy(b"a\xe2\x82b"), "a\u{fffd}\u{fffd}b");
        assert_eq!(lossy(b"\xed\xa0\x80"), "\u{fffd}\u{fffd}\u{fffd}");
        assert_eq!(lossy("é".as_bytes()), "é");
    }

    #[test]
    fn base64_that_is_none_is_refused() {
        for text in [
            "a", "aGk", "aG k=", "====", "aGk=aGk=", "aGk==", "aGl5=", "-_-_",
        ] {
            assert!(decode_base64(text.as_bytes()).is_err(), "{text}");
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
