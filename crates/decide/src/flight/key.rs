//! Digests as they stand in a flight. From the digest of a short secret the secret can be guessed, so a flight has
//! none: each is digested once more under a key. Each process has its own key, which is written nowhere. Equal digests
//! stay equal, and a decision asks for no more.

use serde_json::Value;
use windrow_model::manifest::sha256_hex;

use super::FlightLine;

/// What the digests of a flight are made with.
#[derive(Clone)]
pub struct DigestKey([u8; 32]);

impl DigestKey {
    /// A key of these bytes. They have to be random.
    pub fn new(bytes: [u8; 32]) -> Self {
        Self(bytes)
    }

    /// A line as it is written: every digest in it is the key's own, but for that of the settings and
    /// rules, which stand beside it.
    ///
    /// # Errors
    ///
    /// When the line cannot be JSON, which none is.
    pub fn line(&self, line: &FlightLine) -> serde_json::Result<String> {
        let mut value = serde_json::to_value(line)?;
        match line {
            FlightLine::Configuration(_) => self.veil(&mut value["origin"]),
            _ => self.veil(&mut value),
        }
        Ok(value.to_string() + "\n")
    }

    fn veil(&self, value: &mut Value) {
        match value {
            Value::String(text) if is_digest(text) => *text = self.digest(text),
            Value::Array(items) => items.iter_mut().for_each(|item| self.veil(item)),
            Value::Object(fields) => fields.values_mut().for_each(|field| self.veil(field)),
            _ => {}
        }
    }

    /// Both parts have a fixed length: nothing can be put behind them.
    fn digest(&self, digest: &str) -> String {
        sha256_hex(&[&self.0[..], digest.as_bytes()].concat())
    }
}

impl std::fmt::Debug for DigestKey {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("DigestKey(left out)")
    }
}

/// Hex SHA-256.
fn is_digest(text: &str) -> bool {
    text.len() == 64
        && text
            .bytes()
            .all(|byte| byte.is_ascii_digit() || (b'a'..=b'f').contains(&byte))
}
