//! Base64 in any form: with and without padding, in both alphabets, in the middle of other bytes.

use base64::Engine as _;
use base64::alphabet::STANDARD;
use base64::engine::{DecodePaddingMode, GeneralPurpose, GeneralPurposeConfig};
use base64::prelude::BASE64_STANDARD_NO_PAD;

/// Accepts everything that any decoder may accept.
const LENIENT: GeneralPurpose = GeneralPurpose::new(
    &STANDARD,
    GeneralPurposeConfig::new()
        .with_decode_allow_trailing_bits(true)
        .with_decode_padding_mode(DecodePaddingMode::RequireNone),
);

/// Decodes base64 in either alphabet; `None` when it is invalid. The text after the padding is ignored.
pub(super) fn decode(text: &[u8]) -> Option<Vec<u8>> {
    let digits = text
        .iter()
        .take_while(|byte| **byte != b'=')
        .filter_map(|byte| match byte {
            b'\n' | b'\r' => None,
            b'-' => Some(b'+'),
            b'_' => Some(b'/'),
            other => Some(*other),
        });
    LENIENT.decode(digits.collect::<Vec<u8>>()).ok()
}

/// The text inside, if it is base64 of text.
pub(super) fn decode_text(text: &[u8]) -> Option<String> {
    if text.len() < 8 {
        return None;
    }
    let inner = String::from_utf8(decode(text)?).ok()?;
    let printable = |one: char| !one.is_control() || matches!(one, '\n' | '\r' | '\t');
    inner.chars().all(printable).then_some(inner)
}

/// The characters that a secret leaves in the base64 of any text that contains it: one form for each of its three
/// possible offsets in a group, in both alphabets.
pub(super) fn traces(secret: &str) -> Vec<String> {
    let mut traces = Vec::new();
    for shift in 0..3 {
        let mut bytes = vec![0; shift];
        bytes.extend_from_slice(secret.as_bytes());
        let encoded = BASE64_STANDARD_NO_PAD.encode(&bytes);
        // Characters that depend on the text before or after the secret are not part of it.
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
