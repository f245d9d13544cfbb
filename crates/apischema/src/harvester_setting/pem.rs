//! Certificates and keys in PEM, as `pkg/util/tls` of Harvester reads them with Go's `pem.Decode`. Of the contents only the outermost
//! sequence is read.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;

const BEGIN: &str = "-----BEGIN ";
const CERTIFICATE: &str = "CERTIFICATE";

struct Block<'t> {
    label: &'t str,
    contents: Vec<u8>,
}

/// Whether Harvester finds a certificate there, and no other block.
pub(super) fn is_certificates(text: &str) -> bool {
    blocks(text).is_some_and(|blocks| {
        let is_certificate =
            |block: &Block<'_>| block.label == CERTIFICATE && is_sequence(&block.contents);
        !blocks.is_empty() && blocks.iter().all(is_certificate)
    })
}

/// Whether Harvester finds a private key there. It stops at the first of these kinds that it can read.
pub(super) fn is_private_key(text: &str) -> bool {
    let Some(blocks) = blocks(text) else {
        return false;
    };
    let mut keys = 0;
    for block in blocks {
        match block.label {
            "PRIVATE KEY" | "RSA PRIVATE KEY" => return true,
            "EC PRIVATE KEY" => keys += 1,
            "EC PARAMETERS" => {}
            _ => return false,
        }
    }
    keys == 1
}

/// The blocks of a text; `None` if one is broken. Other text around them is ignored.
fn blocks(text: &str) -> Option<Vec<Block<'_>>> {
    let mut found = Vec::new();
    let mut rest = text;
    while let Some((_, after)) = rest.split_once(BEGIN) {
        let (label, after) = after.split_once("-----")?;
        let end = format!("-----END {label}-----");
        let (body, after) = after.split_once(&end)?;
        found.push(Block {
            label,
            contents: decoded(body)?,
        });
        rest = after;
    }
    Some(found)
}

fn decoded(body: &str) -> Option<Vec<u8>> {
    let is_header = |line: &&str| line.contains(':');
    let lines = body.lines().filter(|line| !is_header(line));
    let digits: String = lines.flat_map(str::split_ascii_whitespace).collect();
    STANDARD.decode(digits).ok()
}

/// One sequence of DER, from the first to the last byte.
fn is_sequence(bytes: &[u8]) -> bool {
    let [0x30, length, rest @ ..] = bytes else {
        return false;
    };
    let length = usize::from(*length);
    if length < 0x80 {
        return rest.len() == length;
    }
    let digits = length & 0x7f;
    if digits == 0 || digits > 4 || rest.len() < digits {
        return false;
    }
    let (digits, contents) = rest.split_at(digits);
    let length = digits
        .iter()
        .fold(0_usize, |length, digit| (length << 8) | usize::from(*digit));
    contents.len() == length
}
