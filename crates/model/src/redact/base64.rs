//! Base64 as it is met in the wild: with and without padding, both alphabets, in the middle of other
//! bytes.

/// Decodes what looks like base64; `None` when it is none.
pub(super) fn decode(text: &[u8]) -> Option<Vec<u8>> {
    let mut bytes = Vec::with_capacity(text.len() / 4 * 3);
    let (mut group, mut filled) = (0u32, 0);
    for &byte in text {
        let digit = match byte {
            b'A'..=b'Z' => byte - b'A',
            b'a'..=b'z' => byte - b'a' + 26,
            b'0'..=b'9' => byte - b'0' + 52,
            b'+' | b'-' => 62,
            b'/' | b'_' => 63,
            b'\n' | b'\r' => continue,
            b'=' => break,
            _ => return None,
        };
        group = group << 6 | u32::from(digit);
        filled += 1;
        if filled == 4 {
            bytes.extend_from_slice(&group.to_be_bytes()[1..]);
            (group, filled) = (0, 0);
        }
    }
    match filled {
        0 => {}
        2 => bytes.push((group >> 4) as u8),
        3 => bytes.extend_from_slice(&((group >> 2) as u16).to_be_bytes()),
        _ => return None,
    }
    Some(bytes)
}

/// The text inside, if it is base64 of text.
pub(super) fn text(text: &[u8]) -> Option<String> {
    if text.len() < 8 {
        return None;
    }
    let inner = String::from_utf8(decode(text)?).ok()?;
    let printable = |one: char| !one.is_control() || matches!(one, '\n' | '\r' | '\t');
    inner.chars().all(printable).then_some(inner)
}

/// The characters that a secret leaves in the base64 of any text that contains it: one form for each
/// of the three ways in which it can lie across groups, in both alphabets.
pub(super) fn traces(secret: &str) -> Vec<String> {
    let mut traces = Vec::new();
    for shift in 0..3 {
        let mut bytes = vec![0; shift];
        bytes.extend_from_slice(secret.as_bytes());
        let encoded = encode(&bytes);
        // Characters that depend on what stands before or after are none of the secret's.
        let first = [0, 2, 3][shift];
        let whole = bytes.len() * 8 / 6;
        let Some(trace) = encoded.get(first..whole).filter(|trace| trace.len() >= 8) else {
            continue;
        };
        let other = trace.replace('+', "-").replace('/', "_");
        if other != trace {
            traces.push(other);
        }
        traces.push(trace.to_owned());
    }
    traces
}

/// Encodes with the standard alphabet, without padding.
pub fn encode(bytes: &[u8]) -> String {
    const DIGITS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let mut text = String::with_capacity(bytes.len() / 3 * 4 + 4);
    for chunk in bytes.chunks(3) {
        let group = chunk
            .iter()
            .chain([0, 0].iter().take(3 - chunk.len()))
            .fold(0u32, |group, byte| group << 8 | u32::from(*byte));
        for digit in 0..=chunk.len() {
            let digit = group >> (18 - 6 * digit) & 63;
            text.push(char::from(DIGITS[digit as usize]));
        }
    }
    text
}
