//! Removes secrets from everything that leaves the node.
//!
//! Two nets. The first recognises secrets by their context: keys, preceding words, and shapes (private keys, tokens,
//! password hashes, URLs with a password in them). The second has the secrets themselves: a secret that the first net
//! found once is removed everywhere. This includes places without such a context (a password in a line of the journal),
//! and base64. The second net searches first and last: first, because a shape inside a longer secret would leave the
//! rest of it.
//!
//! ```text
//!   everything that was collected ──> learn ──> Redactor ──> value, text ──> the archive
//! ```
//!
//! When in doubt, a text is removed. Public keys, certificates, names of Secrets and digests stay.

mod api;
mod encoded;
mod keys;
mod known;
mod message;
mod pattern;
mod programs;
mod random;
mod shapes;
#[cfg(test)]
mod tests;
mod text;
mod value;

use serde_json::Value;

pub use api::{message, messages};
pub use known::Redactor;
pub use value::is_owners_annotation;

/// How many bytes around a key or an error are searched before a secret is found. Text of other programs can have a key
/// in each of a million places: with the whole rest of the text for each, one message would take minutes.
const NEAR: usize = 1024;

/// Replaces a secret.
pub const REDACTED: &str = "[redacted]";

/// A value of a configuration as an error quotes it: in backquotes if it is a name, a number or a few words; otherwise
/// only its length. A password in the wrong line must not appear in the journal.
#[must_use]
pub fn quoted(value: &str) -> String {
    const LONGEST: usize = 60;
    let plain = |one: char| one.is_alphanumeric() || "-_./:, +*%()$[]".contains(one);
    match value.len() <= LONGEST && value.chars().all(plain) && !tells_a_secret(value) {
        true => format!("`{value}`"),
        false => format!("a text of {} characters", value.chars().count()),
    }
}

/// Whether the key marks the text below it as a secret.
pub fn is_secret(key: &str, value: &str) -> bool {
    match keys::class(key) {
        keys::KeyClass::Plain => false,
        keys::KeyClass::IfRandom => random::is_no_name(value),
        keys::KeyClass::Perhaps
        | keys::KeyClass::Secret
        | keys::KeyClass::Whole
        | keys::KeyClass::Commands => true,
    }
}

/// Whether the first net finds something in the text, or a word of it is not a name that a person would choose.
pub fn tells_a_secret(text: &str) -> bool {
    // Most texts are names in small letters, and there are many of them.
    let name = |byte: u8| byte.is_ascii_lowercase() || matches!(byte, b'-' | b'.' | b'/' | b'_');
    if text.bytes().all(name) {
        return false;
    }
    let word = |word: &str| random::is_no_name(word) && !is_digest(word);
    text.split([' ', '/', ',', '(', ')', '"']).any(word) || message(text) != text
}

/// `sha256:` and its digits, as in images.
fn is_digest(word: &str) -> bool {
    let digits = word.rsplit("sha256:").next().unwrap_or_default();
    digits.len() == 64
        && digits.len() < word.len()
        && digits.bytes().all(|byte| byte.is_ascii_hexdigit())
}

/// Most bytes of secrets in the second net, whose search takes a hundred times as much memory. All secrets of a large
/// cluster take a tenth of it, but users can write any number into their objects.
const MOST_KNOWN: usize = 2 << 20;

/// Collects the secrets that the first net finds, for the second net.
#[derive(Debug)]
pub struct Learner {
    secrets: std::collections::BTreeSet<String>,
    /// How many more bytes of secrets it may learn.
    room: usize,
    is_full: bool,
}

impl Default for Learner {
    fn default() -> Self {
        Self::within(MOST_KNOWN)
    }
}

impl Learner {
    /// Learns at most this many bytes of secrets.
    pub fn within(room: usize) -> Self {
        Self {
            secrets: std::collections::BTreeSet::new(),
            room,
            is_full: false,
        }
    }

    pub fn value(&mut self, value: &Value) {
        value::redact(value, &mut |secret, sure| self.found(secret, sure));
    }

    pub fn text(&mut self, text: &str) {
        text::redact(text, &mut |secret, sure| self.found(secret, sure));
    }

    /// Learns a certain secret: the content of a token file.
    pub fn secret(&mut self, secret: &str) {
        self.found(secret, true);
    }

    /// Learns a text that is a secret only if it looks random, unlike a name.
    pub fn perhaps(&mut self, text: &str) {
        self.found(text, false);
    }

    /// Whether there were more secrets than the limit of the second net. The others are only removed where the first
    /// net finds them.
    pub fn is_full(&self) -> bool {
        self.is_full
    }

    pub fn redactor(self) -> Redactor {
        Redactor::new(&self.secrets)
    }

    fn found(&mut self, secret: &str, sure: bool) {
        let secret = secret.trim();
        if sure || random::looks_random(secret) {
            self.take(secret);
        }
        // Secrets of Kubernetes, htpasswd files and the like are written in base64.
        if let Some(inner) = encoded::decode_text(secret.as_bytes())
            && (sure || random::looks_random(&inner))
        {
            self.take(inner.trim());
        }
        // A long secret of several lines may appear line by line elsewhere.
        if secret.contains('\n') {
            for line in secret.lines().map(str::trim) {
                if line.len() >= 24 && !line.starts_with("-----") {
                    self.take(line);
                }
            }
        }
        // `K10<hash of the CA>::server:<password>`: only the last part is the secret, and it is also used without the
        // rest.
        if let Some((head, password)) = secret.rsplit_once(':')
            && head.starts_with("K10")
        {
            self.take(password);
        }
    }

    fn take(&mut self, secret: &str) {
        if !known::can_be_known(secret) || secret.contains(REDACTED) {
            return;
        }
        if secret.len() > self.room {
            self.is_full = true;
        } else if self.secrets.insert(secret.to_owned()) {
            self.room -= secret.len();
        }
    }
}
