//! The inventory that the daemon keeps of this machine's hardware, as it lies on the disk.

use std::io;

use windrow_host::HardwareInventory;

use crate::files::read_text;
use crate::layout::Layout;

/// The inventory; `None` before the first one was written.
///
/// # Errors
///
/// It cannot be used, and why.
pub fn read_inventory(layout: &Layout) -> Result<Option<HardwareInventory>, String> {
    let path = layout.hardware();
    let wrong = |why: String| format!("{}: {why}", path.display());
    let text = match read_text(&path) {
        Ok(text) => text,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(wrong(error.to_string())),
    };
    let read: HardwareInventory =
        serde_json::from_str(&text).map_err(|error| wrong(error.to_string()))?;
    match read.version == HardwareInventory::VERSION {
        true => Ok(Some(read)),
        false => Err(wrong(format!("format version {}", read.version))),
    }
}
