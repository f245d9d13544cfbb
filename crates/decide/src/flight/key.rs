//! Digests in a flight. A short secret can be guessed from its digest, so a flight has no plain digests: each is
//! digested once more with a key. Each process has its own key, which is never written to disk. Equal digests stay
//! equal, and a decision needs no more than that.

use serde_json::Value;
use windrow_model::manifest::sha256_hex;

use super::FlightLine;

/// The key of the digests in a flight.
#[derive(Clone)]
pub struct DigestKey([u8; 32]);

impl DigestKey {
    /// The bytes have to be random.
    pub fn new(bytes: [u8; 32]) -> Self {
        Self(bytes)
    }

    /// A line as it is written: its digests are made with the key, except for the digest of the settings and rules,
    /// which the line contains in full.
    ///
    /// # Errors
    ///
    /// If the line cannot be JSON, which never happens.
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

    /// Both parts have a fixed length, so nothing can be appended to them.
    fn digest(&self, digest: &str) -> String {
        sha256_hex(&[&self.0[..], digest.as_bytes()].concat())
    }
}

impl std::fmt::Debug for DigestKey {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("DigestKey(left out)")
    }
}

fn is_digest(text: &str) -> bool {
    text.len() == 64
        && text
            .bytes()
            .all(|byte| byte.is_ascii_digit() || (b'a'..=b'f').contains(&byte))
}
