//! Public keys, as golang.org/x/crypto/ssh (`ParseAuthorizedKey`) reads them.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use windrow_model::manifest::Node;

use super::{Judged, line_of, text};

impl Judged {
    pub(super) fn key_pair(&mut self, spec: &Node) {
        let key = text(spec, "publicKey");
        if !key.lines().any(is_key_line) {
            let why = "it is not a public key of OpenSSH; write it like `ssh-ed25519 AAAA... name`";
            self.add(line_of(spec, "publicKey"), "spec.publicKey", why);
        }
    }
}

/// `TYPE KEY`, maybe after options. The type is not read: the key begins with it.
fn is_key_line(line: &str) -> bool {
    let line = line.trim();
    let is_key = |line: &str| {
        let after = line.split_once([' ', '\t']).map(|(_, after)| after.trim());
        let key = after.and_then(|after| after.split([' ', '\t']).next());
        key.is_some_and(is_key)
    };
    !line.starts_with('#') && (is_key(line) || is_key(without_options(line)))
}

/// The text after the first blank outside quotation marks.
fn without_options(line: &str) -> &str {
    let (mut is_quoted, mut before) = (false, ' ');
    let end = line.find(|letter| {
        let is_end = !is_quoted && [' ', '\t'].contains(&letter);
        if letter == '"' && before != '\\' {
            is_quoted = !is_quoted;
        }
        before = letter;
        is_end
    });
    end.map_or("", |end| line[end..].trim_start())
}

/// Whether it is the base64 of a key of a known type.
fn is_key(text: &str) -> bool {
    let Some((kind, parts)) = STANDARD.decode(text).ok().and_then(|bytes| parts(&bytes)) else {
        return false;
    };
    match (&*kind, &*parts) {
        ("ssh-rsa", [exponent, modulus]) => !exponent.is_empty() && !modulus.is_empty(),
        ("ssh-dss", [_, _, _, _]) => true,
        ("ssh-ed25519", [key]) | ("sk-ssh-ed25519@openssh.com", [key, _]) => key.len() == 32,
        ("ecdsa-sha2-nistp256" | "ecdsa-sha2-nistp384" | "ecdsa-sha2-nistp521", [curve, _]) => {
            kind.ends_with(&*String::from_utf8_lossy(curve))
        }
        ("sk-ecdsa-sha2-nistp256@openssh.com", [curve, _, _]) => curve == b"nistp256",
        _ => false,
    }
}

/// The type of a key and its other parts, each after its length.
fn parts(mut bytes: &[u8]) -> Option<(String, Vec<Vec<u8>>)> {
    let mut parts = Vec::new();
    while !bytes.is_empty() {
        let (length, after) = bytes.split_first_chunk::<4>()?;
        let (part, after) = after.split_at_checked(u32::from_be_bytes(*length) as usize)?;
        parts.push(part.to_vec());
        bytes = after;
    }
    let kind = String::from_utf8(parts.first()?.clone()).ok()?;
    // A certificate has numbers without a length, too.
    Some((kind, parts.split_off(1)))
}
