//! The system images of a node of Harvester, and how full their partition is.

use std::os::unix::fs::MetadataExt as _;
use std::path::Path;

use windrow_harvester::{ImageFile, SystemImages, boot_time, booted_image};

use crate::files::read_text;
use crate::fs;
use crate::layout::Layout;

/// The mount point of the partition COS_STATE while the node runs.
const STATE: &str = "/run/initramfs/cos-state";
/// The unit of `st_blocks`, independent of the file system's block.
const BLOCK: u64 = 512;

/// `None`: this is not a node of Harvester, or its partition cannot be examined.
pub fn system_images(layout: &Layout) -> Option<SystemImages> {
    let state = layout.path(STATE);
    // Without a mount, the figures would be those of /run.
    image(&state.join("cOS/active.img"))?;
    let found = fs::statvfs(&state).ok()?;
    let bytes = |blocks: u64| blocks * found.fragment_size();
    let read = |path: &str| read_text(&layout.path(path)).ok();
    Some(SystemImages {
        capacity: bytes(found.blocks()),
        free: bytes(found.blocks_available()),
        passive: image(&state.join("cOS/passive.img")),
        booted: read("/proc/cmdline").and_then(|line| booted_image(&line).map(str::to_owned)),
        booted_at: read("/proc/stat").and_then(|stat| boot_time(&stat)),
    })
}

fn image(path: &Path) -> Option<ImageFile> {
    let found = fs::metadata(path).ok().filter(fs::Metadata::is_file)?;
    Some(ImageFile {
        length: found.len(),
        allocated: found.blocks() * BLOCK,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_image_takes_what_it_holds_and_a_node_without_one_says_nothing() {
        let root = tempfile::tempdir().unwrap();
        let layout = Layout::new(root.path());
        fs::create_dir_all(layout.path("/run/initramfs/cos-state/cOS")).unwrap();
        assert_eq!(system_images(&layout), None);

        let put = |name: &str| {
            let path = layout.path(&format!("{STATE}/cOS/{name}"));
            fs::write(&path, [1; 64 << 10]).unwrap();
            let file = fs::OpenOptions::new().write(true).open(path).unwrap();
            file.set_len(64 << 20).unwrap();
            file.sync_all().unwrap();
        };
        put("active.img");
        assert_eq!(system_images(&layout).unwrap().passive, None);
        put("passive.img");
        fs::create_dir_all(layout.path("/proc")).unwrap();
        let line = "root=LABEL=COS_STATE cos-img/filename=/cOS/active.img\n";
        fs::write(layout.path("/proc/cmdline"), line).unwrap();
        let seen = system_images(&layout).unwrap();
        let kernels = nix::sys::statvfs::statvfs(root.path()).unwrap();
        assert_eq!(seen.capacity, kernels.blocks() * kernels.fragment_size());
        assert!(seen.capacity > 0 && seen.free <= seen.capacity);
        let passive = seen.passive.unwrap();
        assert_eq!(passive.length, 64 << 20);
        // The rest is a hole.
        assert!(
            ((4 << 10)..(1 << 20)).contains(&passive.allocated),
            "{passive:?}"
        );
        assert_eq!(seen.booted.as_deref(), Some("/cOS/active.img"));
        assert_eq!(seen.booted_at, None);
    }
}
