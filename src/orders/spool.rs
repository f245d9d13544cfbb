//! The spool: where the verbs and the daemon's own parts leave requests for the daemon's loop.

use std::borrow::Cow;
use std::path::{Path, PathBuf};

use windrow_model::manifest;

use crate::files;
use crate::layout::Layout;
use crate::observe::requests::SpooledRequest;

/// Most of a request's subject that stands in its file's name, in bytes.
const LONGEST_SUBJECT: usize = 128;

/// Where requests are left. The second place is for requests that the disk cannot take, because it is full or
/// read-only: there they last as long as the boot.
pub fn spools(layout: &Layout) -> [PathBuf; 2] {
    [layout.state_dir(), layout.run_dir()].map(|place| place.join("requests"))
}

/// A request that is written and that the daemon does not see yet. Dropping it takes it back.
#[derive(Debug)]
pub struct PreparedRequest {
    file: files::WrittenFile,
    path: PathBuf,
    stem: String,
}

impl PreparedRequest {
    /// Leaves it in the daemon's spool. Returns its name, which the daemon uses in its messages.
    ///
    /// # Errors
    ///
    /// Those of the file system.
    pub fn publish(self) -> anyhow::Result<String> {
        let Self { file, path, stem } = self;
        file.publish()
            .map_err(|error| cannot_write(&path, &error))?;
        Ok(stem)
    }
}

/// Leaves any request in the daemon's spool; `about` becomes part of its file's name. Returns the name, which the
/// daemon uses in its messages.
///
/// # Errors
///
/// Those of the file system.
pub fn lay_request(
    layout: &Layout,
    request: &SpooledRequest,
    about: &str,
) -> anyhow::Result<String> {
    prepare_request(layout, request, about)?.publish()
}

/// Writes a request without the daemon's knowledge: for an order that may still fail.
///
/// # Errors
///
/// Those of the file system.
pub fn prepare_request(
    layout: &Layout,
    request: &SpooledRequest,
    about: &str,
) -> anyhow::Result<PreparedRequest> {
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

fn write_into(spool: &Path, stem: &str, text: &str) -> anyhow::Result<PreparedRequest> {
    files::make_private(spool)
        .map_err(|error| anyhow::anyhow!("{} cannot be created: {error}", spool.display()))?;
    let path = spool.join(format!("{stem}.json"));
    let file = files::write_beside(&path, text.as_bytes(), 0o600, files::Durability::Durable)
        .map_err(|error| cannot_write(&path, &error))?;
    Ok(PreparedRequest {
        file,
        path,
        stem: stem.to_owned(),
    })
}

fn cannot_write(path: &Path, error: &std::io::Error) -> anyhow::Error {
    anyhow::anyhow!("{} cannot be written: {error}", path.display())
}

/// A part of a file's name that leaves room for the rest of it and still keeps two apart.
fn shorten(about: &str) -> Cow<'_, str> {
    if about.len() <= LONGEST_SUBJECT {
        return about.into();
    }
    let begin: String = about.chars().take(LONGEST_SUBJECT / 4).collect();
    format!("{begin}-{}", &manifest::sha256_hex(about.as_bytes())[..32]).into()
}
