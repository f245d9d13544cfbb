//! The inventory of the hardware on the disk: written whole, as the ledger is.

use std::io;
use std::path::Path;

use windrow_host::HardwareInventory;

use crate::files::{Durability, make_private, replace};

pub fn save_inventory(path: &Path, inventory: &HardwareInventory) -> io::Result<()> {
    if let Some(directory) = path.parent() {
        make_private(directory)?;
    }
    let mut content = serde_json::to_vec_pretty(inventory)?;
    content.push(b'\n');
    replace(path, &content, 0o600, Durability::Durable)
}
