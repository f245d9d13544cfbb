//! The files that a kubeconfig was read from: itself, and those that it names.

use std::path::{Path, PathBuf};

use sha2::{Digest as _, Sha256};

use crate::files::read_bytes;

/// The files, and digests of their contents. A file with a token is not included: it is read again whenever it changes.
#[derive(Default)]
pub struct Sources(Vec<(PathBuf, Digest)>);

type Digest = [u8; 32];

impl Sources {
    pub(super) fn add(&mut self, path: &Path, bytes: &[u8]) {
        self.0.push((path.to_owned(), digest(bytes)));
    }

    pub(crate) fn are_unchanged(&self) -> bool {
        let mut files = self.0.iter();
        files.all(|(path, held)| read_bytes(path).is_ok_and(|bytes| digest(&bytes) == *held))
    }
}

/// A digest reveals nothing of a key.
fn digest(bytes: &[u8]) -> Digest {
    Sha256::digest(bytes).into()
}
