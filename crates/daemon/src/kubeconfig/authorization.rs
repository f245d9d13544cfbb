//! The `Authorization` header of every request.

use std::path::PathBuf;

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use http::HeaderValue;

use crate::files::{Kept, read_text};

/// How a request authenticates, if it uses a token or a password.
pub enum Authorization {
    /// Not at all: there is a client certificate, or the kubeconfig names no user.
    None,
    Always(HeaderValue),
    /// By the token in a file, which is written again before the token runs out.
    File(TokenFile),
}

/// A token, and its file, which is read again when it changes.
pub struct TokenFile {
    path: PathBuf,
    kept: Kept<HeaderValue>,
    /// Counts until the file can be read.
    otherwise: Option<HeaderValue>,
}

impl Authorization {
    /// The token of a file; `otherwise` counts until the file can be read.
    ///
    /// # Errors
    ///
    /// Why there is no token, if there is no other one.
    pub(super) fn of_file(path: PathBuf, otherwise: Option<HeaderValue>) -> Result<Self, String> {
        let file = TokenFile {
            path,
            kept: Kept::default(),
            otherwise,
        };
        match file.read() {
            Err(why) if file.otherwise.is_none() => Err(why),
            _ => Ok(Self::File(file)),
        }
    }

    /// The header as it is now. While a token cannot be read the last one counts: kube-apiserver says
    /// whether it still does.
    pub(crate) fn header(&self) -> Option<HeaderValue> {
        match self {
            Self::None => None,
            Self::Always(value) => Some(value.clone()),
            Self::File(file) => {
                let now = file.read().ok().or_else(|| file.kept.last());
                now.map(|value| (*value).clone())
                    .or_else(|| file.otherwise.clone())
            }
        }
    }
}

impl TokenFile {
    fn read(&self) -> Result<std::sync::Arc<HeaderValue>, String> {
        let shown = self.path.display();
        self.kept.get(&[&self.path], || {
            let text = read_text(&self.path).map_err(|error| format!("{shown}: {error}"))?;
            let token = text.trim();
            let header = bearer(token).filter(|_| !token.is_empty());
            header.ok_or_else(|| format!("{shown} has no token: write one on one line"))
        })
    }
}

/// `None` when there are characters in it that no header can carry.
pub fn bearer(token: &str) -> Option<HeaderValue> {
    secret(format!("Bearer {token}"))
}

/// RFC 7617.
pub(super) fn basic(name: &str, password: &str) -> Option<HeaderValue> {
    let pair = BASE64_STANDARD.encode(format!("{name}:{password}"));
    secret(format!("Basic {pair}"))
}

fn secret(text: String) -> Option<HeaderValue> {
    let mut value = HeaderValue::try_from(text).ok()?;
    value.set_sensitive(true);
    Some(value)
}
