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
    // Requests are taken in the order of their names.
    let stem = format!(
        "{:020}-{}-{}",
        request.at.as_nanosecond(),
        std::process::id(),
        shorten(about)
    );
    let name = format!("{stem}.json");
    let text = serde_json::to_string_pretty(request)? + "\n";
    let [disk, memory] = spools(layout);
    write_into(&disk, &name, &text)
        .or_else(|why| write_into(&memory, &name, &text).map_err(|_| why))?;
    Ok(stem)
}

fn write_into(spool: &Path, name: &str, text: &str) -> anyhow::Result<()> {
    files::make_private(spool)
        .map_err(|error| anyhow::anyhow!("{} cannot be created: {error}", spool.display()))?;
    let path = spool.join(name);
    files::replace(&path, text.as_bytes(), 0o600, files::Durability::Durable)
        .map_err(|error| anyhow::anyhow!("{} cannot be written: {error}", path.display()))
}

/// A part of a file's name that leaves room for the rest of it and still keeps two apart.
fn shorten(about: &str) -> Cow<'_, str> {
    if about.len() <= LONGEST_SUBJECT {
        return about.into();
    }
    let begin: String = about.chars().take(LONGEST_SUBJECT / 4).collect();
    format!("{begin}-{}", &manifest::sha256_hex(about.as_bytes())[..32]).into()
}
