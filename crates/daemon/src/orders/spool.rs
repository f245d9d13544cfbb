//! The spool: the directories in which the verbs and parts of the daemon leave requests for the daemon's loop.

use std::borrow::Cow;
use std::io;
use std::path::{Path, PathBuf};

use windrow_model::manifest;

use crate::files;
use crate::fs;
use crate::layout::Layout;
use crate::observe::requests::SpooledRequest;

/// The longest part of a request's subject in its file name, in bytes.
const LONGEST_SUBJECT: usize = 128;

/// The directories for requests. The second one is for requests that cannot be written to the disk, because it is full
/// or read-only: there they last until the end of the boot.
pub fn spools(layout: &Layout) -> [PathBuf; 2] {
    [layout.state_dir(), layout.run_dir()].map(|place| place.join("requests"))
}

#[derive(Debug)]
pub struct PublishedRequest {
    path: PathBuf,
    stem: String,
}

impl PublishedRequest {
    pub fn name(&self) -> &str {
        &self.stem
    }

    /// Takes the request back. `false` if the daemon has taken it: then it is carried out.
    ///
    /// # Errors
    ///
    /// Those of the file system. The request is still there.
    pub fn withdraw(self) -> anyhow::Result<bool> {
        match files::remove_durably(&self.path) {
            Ok(()) => Ok(true),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(false),
            Err(error) => Err(anyhow::anyhow!(
                "{} cannot be removed: {error}",
                self.path.display()
            )),
        }
    }
}

/// Leaves a request in the daemon's spool; `about` becomes part of its file's name.
///
/// # Errors
///
/// Those of the file system.
pub fn publish_request(
    layout: &Layout,
    request: &SpooledRequest,
    about: &str,
) -> anyhow::Result<PublishedRequest> {
    // Requests are taken in the order of their names.
    let stem = format!(
        "{:020}-{}-{}",
        request.at.as_nanosecond(),
        std::process::id(),
        shorten(about)
    );
    let text = serde_json::to_string_pretty(request)? + "\n";
    let [disk, memory] = spools(layout);
    write_into(&disk, &stem, &text)
        .or_else(|why| write_into(&memory, &stem, &text).map_err(|_| why))
}

fn write_into(spool: &Path, stem: &str, text: &str) -> anyhow::Result<PublishedRequest> {
    files::make_private(spool)
        .map_err(|error| anyhow::anyhow!("{} cannot be created: {error}", spool.display()))?;
    let path = spool.join(format!("{stem}.json"));
    files::replace(&path, text.as_bytes(), 0o600, files::Durability::Durable).map_err(|error| {
        // Its name may be there although the disk does not have it yet.
        let _ = fs::remove_file(&path);
        anyhow::anyhow!("{} cannot be written: {error}", path.display())
    })?;
    Ok(PublishedRequest {
        path,
        stem: stem.to_owned(),
    })
}

/// A part of a file's name that leaves room for the rest of it and is still unique.
fn shorten(about: &str) -> Cow<'_, str> {
    if about.len() <= LONGEST_SUBJECT {
        return about.into();
    }
    let begin: String = about.chars().take(LONGEST_SUBJECT / 4).collect();
    format!("{begin}-{}", &manifest::sha256_hex(about.as_bytes())[..32]).into()
}
