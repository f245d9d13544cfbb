//! The cause of an error, in words for an operator.

use std::error::Error;
use std::io;

use jiff::Timestamp;

/// The innermost cause says most: the outer ones only say that something failed, or repeat a URL, which may be secret.
pub fn innermost<'e>(error: &'e (dyn Error + 'static)) -> &'e (dyn Error + 'static) {
    let mut inner = error;
    while let Some(cause) = inner.source() {
        inner = cause;
    }
    inner
}

pub fn in_words(error: &(dyn Error + 'static)) -> String {
    plain(&innermost(error).to_string())
}

/// Whether nothing listens there.
pub fn is_refused(error: &(dyn Error + 'static)) -> bool {
    let cause = innermost(error).downcast_ref::<io::Error>();
    cause.is_some_and(|cause| cause.kind() == io::ErrorKind::ConnectionRefused)
}

pub(crate) fn of_bus(error: &zbus::Error) -> String {
    match error {
        zbus::Error::InputOutput(cause) | zbus::Error::Connection(cause, _)
            if cause.kind() == io::ErrorKind::NotFound =>
        {
            "there is no message bus".to_owned()
        }
        error => in_words(error),
    }
}

/// The words of libraries, and the words that replace them. They are searched for in a text, in this order.
const LIBRARY_WORDS: &[(&str, &str)] = &[
    // rustls: the name of a type of webpki's.
    (
        "invalid peer certificate: Other(OtherError(CaUsedAsEndEntity))",
        "the server presents a CA certificate as its own",
    ),
    (
        "invalid peer certificate: UnknownIssuer",
        "the server's certificate is of an unknown authority",
    ),
    (
        "invalid peer certificate: certificate not valid yet",
        "the server's certificate is not valid yet",
    ),
    (
        "invalid peer certificate: certificate expired",
        "the server's certificate has expired",
    ),
    (
        "invalid peer certificate: ",
        "the server's certificate is refused: ",
    ),
    // rustls, of a connection that ends without a farewell; it goes on with an address of its documentation.
    (
        "peer closed connection without sending TLS close_notify: https://docs.rs/rustls/latest/rustls/manual/_03_howto/index.html#unexpected-eof",
        "the server ended the connection",
    ),
    // hyper and its connectors, zbus.
    ("client error (Connect): ", ""),
    ("tcp connect error: ", ""),
    ("ServiceError: ", ""),
    ("I/O error: ", ""),
    // hyper-util, of a proxy.
    (
        "tunnel error: proxy authorization required",
        "it wants a name and a password (http://NAME:PASSWORD@HOST:PORT)",
    ),
    ("tunnel error: unsuccessful", "it refuses to"),
    ("tunnel error: ", ""),
    (
        "SOCKS error: failed to create underlying connection",
        "it cannot be reached",
    ),
    ("SOCKS error: ", ""),
];

/// A text with plain words in place of those of libraries. All text for users goes through here or [`in_words`]: probes,
/// scans, the journal, the output of the verbs.
pub fn plain(text: &str) -> String {
    let mut plain = text.to_owned();
    for (library, words) in LIBRARY_WORDS {
        if plain.contains(library) {
            plain = plain.replace(library, words);
        }
    }
    without_error_numbers(&with_dates(plain))
}

/// With dates in place of the UNIX times that rustls writes about a certificate's time.
fn with_dates(text: String) -> String {
    const CLOCK: &str = ": verification time ";
    const LIMIT: &str = " (UNIX), but certificate is not valid ";
    let date = |seconds: &str| {
        let at = Timestamp::from_second(seconds.parse().ok()?).ok()?;
        Some(at.strftime("%Y-%m-%d").to_string())
    };
    let in_words = || {
        let (before, rest) = text.split_once(CLOCK)?;
        let (clock, rest) = rest.split_once(LIMIT)?;
        let (side, rest) = rest.split_once(' ')?;
        let (limit, rest) = rest.split_once(" (")?;
        let (_, after) = rest.split_once(')')?;
        let (clock, limit) = (date(clock)?, date(limit)?);
        Some(match side {
            "before" => format!(
                "{before}; the clock says {clock}, and the certificate begins {limit}: set the clock{after}"
            ),
            _ => format!(
                "{before}; the clock says {clock}, and the certificate ended {limit}{after}"
            ),
        })
    };
    in_words().unwrap_or(text)
}

/// Without the system's ` (os error 2)`, which Rust puts behind each of its errors.
fn without_error_numbers(text: &str) -> String {
    const BEGINS: &str = " (os error ";
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some((before, behind)) = rest.split_once(BEGINS) {
        out.push_str(before);
        let digits = behind.bytes().take_while(u8::is_ascii_digit).count();
        rest = match behind[digits..].strip_prefix(')') {
            Some(after) => after,
            None => {
                out.push_str(BEGINS);
                behind
            }
        };
    }
    out.push_str(rest);
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_innermost_cause_is_told_without_the_system_s_number() {
        let refused = io::Error::from_raw_os_error(111);
        let outer = io::Error::other(io::Error::new(io::ErrorKind::NotConnected, refused));
        assert_eq!(in_words(&outer), "Connection refused");
    }

    #[test]
    fn a_text_of_libraries_is_put_in_plain_words_wherever_it_stands() {
        for (text, words) in [
            (
                "a.yaml: No such file or directory (os error 2)",
                "a.yaml: No such file or directory",
            ),
            ("a (os error 2), b (os error 13)", "a, b"),
            ("about (os error handling)", "about (os error handling)"),
            (
                "ServiceError: client error (Connect): tcp connect error: Connection refused (os error 111)",
                "Connection refused",
            ),
            (
                "kube-apiserver does not answer",
                "kube-apiserver does not answer",
            ),
            (
                "invalid peer certificate: certificate not valid yet: verification time 1701254329 (UNIX), but certificate is not valid before 1795858720 (94604391 seconds in future)",
                "the server's certificate is not valid yet; the clock says 2023-11-29, and the certificate begins 2026-11-28: set the clock",
            ),
            (
                "invalid peer certificate: certificate expired: verification time 1795858720 (UNIX), but certificate is not valid after 1701254329 (94604391 seconds ago) (GET /x)",
                "the server's certificate has expired; the clock says 2026-11-28, and the certificate ended 2023-11-29 (GET /x)",
            ),
            (
                "peer closed connection without sending TLS close_notify: https://docs.rs/rustls/latest/rustls/manual/_03_howto/index.html#unexpected-eof",
                "the server ended the connection",
            ),
        ] {
            assert_eq!(plain(text), words);
        }
    }

    #[test]
    fn a_ca_that_serves_its_own_certificate_is_named_in_words() {
        let error =
            io::Error::other("invalid peer certificate: Other(OtherError(CaUsedAsEndEntity))");
        let words = in_words(&error);
        assert_eq!(words, "the server presents a CA certificate as its own");
    }
}
