//! The image that a node of Harvester boots, and the partition that contains its system images (COS_STATE).

use jiff::Timestamp;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::node_condition::ANNOTATION;
use crate::objects::text;

/// An upgrade writes its new system into an image of this size, next to the existing ones (`package/upgrade/upgrade_node.sh`,
/// `upgrade.system.size`, v1.4.0 to v1.9.0-rc6). The image is a sparse file, so less can be enough.
pub const NEW_IMAGE: u64 = 3072 << 20;
/// The image size of an upgrade to v1.8.0 or later: `transition.img` takes 4.3 GiB (harvester#10687).
pub const NEW_IMAGE_4300: u64 = 4608 << 20;
/// A partition that the installer created with 15 GiB is not smaller than this, and one with 8 GiB is: a file system takes a part
/// of it.
pub const LEAST_PARTITION: u64 = 14_848 << 20;
/// The annotation rounds down to this, so that it seldom changes.
const STEP: u64 = 64;

/// The partition of a node's system images according to its annotation: in MiB, rounded down.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct SystemPartition {
    #[serde(rename = "capacityMiB")]
    pub capacity: u64,
    #[serde(rename = "freeMiB")]
    pub free: u64,
}

impl SystemPartition {
    /// The report of the daemon on a Node, if that runs.
    pub fn from_node(node: &Value) -> Option<Self> {
        let annotations = node.pointer("/metadata/annotations")?;
        let described = text(annotations, &format!("/{}", ANNOTATION.replace('/', "~1")));
        let described: Value = serde_json::from_str(described).ok()?;
        serde_json::from_value(described.get("systemPartition")?.clone()).ok()
    }
}

impl From<&SystemImages> for SystemPartition {
    fn from(images: &SystemImages) -> Self {
        let rounded = |bytes: u64| (bytes >> 20) / STEP * STEP;
        Self {
            capacity: rounded(images.capacity),
            free: rounded(images.free),
        }
    }
}

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

pub fn mebibytes(bytes: u64) -> String {
    format!("{} MiB", bytes >> 20)
}

pub fn booted_image(command_line: &str) -> Option<&str> {
    let words = command_line.split_ascii_whitespace();
    words
        .filter_map(|word| word.strip_prefix("cos-img/filename="))
        .next_back()
}

/// When the kernel booted: `btime` of `/proc/stat`.
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
