//! The token that a server asks for, read again when its file changes: operators change tokens.

use std::os::unix::fs::MetadataExt;
use std::path::PathBuf;
use std::sync::Arc;

use http::HeaderMap;
use sha2::{Digest, Sha256};
use subtle::ConstantTimeEq;

use crate::files::{Kept, may_be_there, read_text};
use crate::fs;

/// Shorter tokens are refused.
const SHORTEST: usize = 16;

pub struct Token {
    /// The first existing file counts.
    files: Vec<PathBuf>,
    kept: Kept<String>,
}

impl Token {
    pub fn new(files: Vec<PathBuf>) -> Self {
        Self {
            files,
            kept: Kept::default(),
        }
    }

    /// The current token: the file's text without white space around it. A removed token is no longer accepted.
    pub fn get(&self) -> Result<Arc<String>, String> {
        let there = self.files.iter().find(|file| may_be_there(file));
        let path = there.or(self.files.first()).ok_or("no file has a token")?;
        let shown = path.display();
        self.kept.get(&[path], || {
            let mode = fs::metadata(path)
                .map_err(|error| format!("{shown}: {error}"))?
                .mode();
            if mode & 0o007 != 0 {
                return Err(format!(
                    "{shown} can be read by every user (mode {:04o}): chmod 0600 {shown}",
                    mode & 0o7777
                ));
            }
            let text = read_text(path).map_err(|error| format!("{shown}: {error}"))?;
            let token = text.trim();
            let good = token.len() >= SHORTEST && token.bytes().all(|byte| byte.is_ascii_graphic());
            if !good {
                return Err(format!(
                    "{shown} has no token: write {SHORTEST} or more letters and digits on one line \
                     (openssl rand -hex 32)"
                ));
            }
            Ok(token.to_owned())
        })
    }
}

/// Whether the request presents the token. The comparison takes equally long for every token.
pub fn shows_token(headers: &HeaderMap, token: &str) -> bool {
    let mut shown = headers.get_all(http::header::AUTHORIZATION).iter();
    let (Some(header), None) = (shown.next(), shown.next()) else {
        return false;
    };
    let bytes = header.as_bytes();
    let Some((scheme, shown)) = bytes.split_at_checked("Bearer ".len()) else {
        return false;
    };
    // Both have the same length, no matter what was presented.
    let (shown, token) = (Sha256::digest(shown.trim_ascii()), Sha256::digest(token));
    scheme.eq_ignore_ascii_case(b"Bearer ") && bool::from(shown.as_slice().ct_eq(token.as_slice()))
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    const TOKEN: &str = "0123456789abcdef";

    #[test]
    fn the_token_is_shown_once_and_whole() {
        let shows = |authorization: &[&str], token: &str| {
            let mut headers = HeaderMap::new();
            for value in authorization {
                headers.append(http::header::AUTHORIZATION, value.parse().unwrap());
            }
            shows_token(&headers, token)
        };
        let good = format!("Bearer {TOKEN}");
        assert!(shows(&[&good], TOKEN));
        assert!(shows(&[&format!("bearer  {TOKEN} ")], TOKEN));
        for wrong in [
            &[] as &[&str],
            &["Bearer"],
            &["Bearer "],
            &["Bearer 0123456789abcdeg"],
            &["Bearer 0123456789abcdef0"],
            &["Basic 0123456789abcdef"],
            &[TOKEN],
            &[&good, &good],
        ] {
            assert!(!shows(wrong, TOKEN), "{wrong:?}");
        }
    }

    #[test]
    fn a_token_is_read_again_when_it_changes_and_a_bad_one_is_refused_without_showing_it() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("token");
        let token = Token::new(vec![path.clone()]);
        assert!(token.get().unwrap_err().contains("No such file"));
        let write = |text: &str, mode: u32| {
            let temporary = directory.path().join("new");
            fs::write(&temporary, text).unwrap();
            fs::set_permissions(&temporary, fs::Permissions::from_mode(mode)).unwrap();
            fs::rename(temporary, &path).unwrap();
        };
        write("  0123456789abcdef\n", 0o600);
        assert_eq!(*token.get().unwrap(), "0123456789abcdef");
        write("fedcba9876543210\n", 0o640);
        assert_eq!(*token.get().unwrap(), "fedcba9876543210");
        for (text, mode, expected) in [
            ("0123456789abcdef\n", 0o644, "chmod 0600"),
            ("short\n", 0o600, "has no token"),
            ("two words that are long\n", 0o600, "has no token"),
            ("", 0o600, "has no token"),
        ] {
            write(text, mode);
            let why = token.get().unwrap_err();
            assert!(why.contains(expected), "{why}");
            assert!(text.is_empty() || !why.contains(text.trim()), "{why}");
        }
        fs::remove_file(&path).unwrap();
        assert!(token.get().is_err(), "a token that is gone counts no more");
    }
}
