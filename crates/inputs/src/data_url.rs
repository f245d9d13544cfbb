//! `data:` addresses, which contain their content (RFC 2397), read as Ignition reads them
//! (`github.com/vincent-petithory/dataurl`, which v2.26 vendors).

use percent_encoding::percent_decode;
use windrow_model::manifest::encoding::decode_base64;

/// The content; `None` for any other address.
pub(crate) fn decode(address: &str) -> Option<Result<Vec<u8>, String>> {
    let (kind, data) = match address.strip_prefix("data:")?.split_once(',') {
        Some(parts) => parts,
        None => return Some(Err("it has no `,` in front of its content".to_owned())),
    };
    Some(match kind.ends_with(";base64") {
        // Only base64: to Ignition, text with a `%` is not valid base64.
        true => decode_base64(data.as_bytes()),
        false => decode_percent(data),
    })
}

/// Unlike a browser, Ignition rejects a `%` without two digits after it, and characters that are not ASCII.
fn decode_percent(data: &str) -> Result<Vec<u8>, String> {
    if let Some(at) = data.find(|ch: char| !ch.is_ascii()) {
        return Err(format!(
            "the character at {} is not ASCII; write it with `%`",
            at + 1
        ));
    }
    let is_digit = |byte: Option<&u8>| byte.is_some_and(u8::is_ascii_hexdigit);
    let bytes = data.as_bytes();
    let stray = data.match_indices('%').find(|(at, _)| {
        let digits = (bytes.get(at + 1), bytes.get(at + 2));
        !(is_digit(digits.0) && is_digit(digits.1))
    });
    match stray {
        Some((at, _)) => Err(format!(
            "the `%` at {} is not followed by two hexadecimal digits; write it as `%25`",
            at + 1
        )),
        None => Ok(percent_decode(bytes).collect()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_stands_in_a_data_address_is_read_in_both_its_forms() {
        for (address, content) in [
            ("data:,", ""),
            ("data:,a%20b%0A", "a b\n"),
            ("data:,a+b,c", "a+b,c"),
            ("data:text/plain;charset=utf-8,x%3A%201", "x: 1"),
            ("data:;base64,aGk=", "hi"),
            ("data:text/plain;charset=utf-8;base64,aGl5", "hiy"),
        ] {
            let decoded = decode(address).unwrap().unwrap();
            assert_eq!(decoded, content.as_bytes(), "{address}");
        }
        assert_eq!(decode("https://example.com/a"), None);
    }

    #[test]
    fn what_ignition_refuses_is_an_error() {
        for address in [
            "data:",
            "data:text/plain",
            "data:,100%",
            "data:,%zz",
            "data:,\u{e9}",
            "data:;base64,aGk",
            "data:;base64,aGk%3D",
        ] {
            assert!(decode(address).unwrap().is_err(), "{address}");
        }
    }
}
