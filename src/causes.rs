//! The cause of an error, in words for an operator.

use std::error::Error;

/// The innermost cause says most: the outer ones only say that something failed, or repeat a URL, which may be secret.
pub(crate) fn innermost<'e>(error: &'e (dyn Error + 'static)) -> &'e (dyn Error + 'static) {
    let mut inner = error;
    while let Some(cause) = inner.source() {
        inner = cause;
    }
    inner
}

/// The innermost cause as a text.
pub(crate) fn in_words(error: &(dyn Error + 'static)) -> String {
    let text = innermost(error).to_string();
    // rustls prints the name of a type of webpki's.
    if text.contains("CaUsedAsEndEntity") {
        return "the server presents a CA certificate as its own".to_owned();
    }
    match text.split_once(" (os error ") {
        Some((words, _)) => words.to_owned(),
        None => text,
    }
}

#[cfg(test)]
mod tests {
    use std::io;

    use super::*;

    #[test]
    fn the_innermost_cause_is_told_without_the_system_s_number() {
        let refused = io::Error::from_raw_os_error(111);
        let outer = io::Error::other(io::Error::new(io::ErrorKind::NotConnected, refused));
        assert_eq!(in_words(&outer), "Connection refused");
    }

    #[test]
    fn a_ca_that_serves_its_own_certificate_is_named_in_words() {
        let error =
            io::Error::other("invalid peer certificate: Other(OtherError(CaUsedAsEndEntity))");
        let words = in_words(&error);
        assert_eq!(words, "the server presents a CA certificate as its own");
    }
}
