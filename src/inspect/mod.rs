//! Looks at a node, its cluster and its surroundings for a verb, and never for the daemon: the files of `windrow report`, saved lists of
//! objects, the answers of servers and neighbours.
//!
//! May know: the crate `daemon`, and `archive`. Nothing here decides or prints.

pub(crate) mod collect;
pub(crate) mod disk_timing;
pub(crate) mod harvester_console;
mod link_masters;
pub(crate) mod saved;
pub(crate) mod servers;
pub(crate) mod sockets;
pub(crate) mod upgrade_check;
pub(crate) mod who_has;

/// A machine made of files.
#[cfg(test)]
fn machine(files: &[(&str, &str)]) -> (tempfile::TempDir, crate::layout::Layout) {
    let root = tempfile::TempDir::new().unwrap();
    let layout = crate::layout::Layout::new(root.path());
    for (path, text) in files {
        let path = layout.path(path);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, text).unwrap();
    }
    (root, layout)
}
