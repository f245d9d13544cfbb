//! The daemon's inventory of this machine's hardware on the disk.

use std::io;

use windrow_host::HardwareInventory;

use crate::files::read_text;
use crate::layout::Layout;

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum UnreadInventory {
    #[error("{0}")]
    Unreadable(String),
    #[error("{0}")]
    Unusable(String),
}

/// The inventory; `None` before the first one was written.
///
/// # Errors
///
/// It cannot be used, and why.
pub fn read_inventory(layout: &Layout) -> Result<Option<HardwareInventory>, UnreadInventory> {
    let path = layout.hardware();
    let about = |why: &str| format!("{}: {why}", path.display());
    let text = match read_text(&path) {
        Ok(text) => text,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(UnreadInventory::Unreadable(about(&error.to_string()))),
    };
    let unusable = |why: &str| UnreadInventory::Unusable(about(why));
    let read: HardwareInventory =
        serde_json::from_str(&text).map_err(|error| unusable(&error.to_string()))?;
    if read.version != HardwareInventory::VERSION {
        return Err(unusable(&format!("format version {}", read.version)));
    }
    Ok(Some(read))
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn an_inventory_is_there_or_not_yet_or_cannot_be_used() {
        let root = tempfile::tempdir().unwrap();
        let layout = Layout::new(root.path());
        assert_eq!(read_inventory(&layout), Ok(None));
        fs::create_dir_all(layout.state_dir()).unwrap();
        let mut inventory = HardwareInventory::begun("2026-11-23T10:00:00Z".parse().unwrap());
        let write = |inventory: &HardwareInventory| {
            let text = serde_json::to_string(inventory).unwrap();
            fs::write(layout.hardware(), text).unwrap();
        };
        write(&inventory);
        assert_eq!(read_inventory(&layout), Ok(Some(inventory.clone())));
        inventory.version += 1;
        write(&inventory);
        assert!(read_inventory(&layout).is_err());
        fs::write(layout.hardware(), "{").unwrap();
        assert!(read_inventory(&layout).is_err());
    }
}
