//! What a node of Harvester boots, and the partition that its system images lie on (COS_STATE).

use jiff::Timestamp;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// An upgrade writes its new system into an image of this size beside those that are there (`package/upgrade/upgrade_node.sh`,
/// `upgrade.system.size`, v1.4.0 to v1.9.0-rc6). It is filled with holes where nothing is, so less can be enough.
pub(crate) const NEW_IMAGE: u64 = 3072 << 20;

/// The system images of a node.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct SystemImages {
    /// How large their partition is, in bytes.
    pub capacity: u64,
    /// How much of it is free.
    pub free: u64,
    /// The image of the system before this one, to which the node falls back.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub passive: Option<ImageFile>,
    /// The image that was booted, as the kernel's command line names it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub booted: Option<String>,
    /// When the node booted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub booted_at: Option<Timestamp>,
}

/// A file that may have holes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ImageFile {
    /// Its length, in bytes.
    pub length: u64,
    /// How much of the partition it takes.
    pub allocated: u64,
}

/// Bytes for people.
pub(crate) fn mebibytes(bytes: u64) -> String {
    format!("{} MiB", bytes >> 20)
}

/// The image in a kernel's command line.
pub fn booted_image(command_line: &str) -> Option<&str> {
    let words = command_line.split_ascii_whitespace();
    words
        .filter_map(|word| word.strip_prefix("cos-img/filename="))
        .next_back()
}

/// When the kernel says that it booted: `btime` of `/proc/stat`.
pub fn boot_time(proc_stat: &str) -> Option<Timestamp> {
    let seconds = proc_stat
        .lines()
        .find_map(|line| line.strip_prefix("btime "))?;
    Timestamp::from_second(seconds.trim().parse().ok()?).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_booted_image_and_the_time_of_the_boot_are_read_from_what_the_kernel_says() {
        let line = "BOOT_IMAGE=(loop0)/boot/vmlinuz console=tty1 root=LABEL=COS_STATE cos-img/filename=/cOS/passive.img panic=0\n";
        assert_eq!(booted_image(line), Some("/cOS/passive.img"));
        assert_eq!(booted_image("root=/dev/sda1"), None);
        let stat = "cpu  1 2 3\nbtime 1764000000\nprocesses 7\n";
        assert_eq!(boot_time(stat).unwrap().to_string(), "2025-11-24T16:00:00Z");
        assert_eq!(boot_time("cpu 1\nbtime soon\n"), None);
    }
}
