//! The facts about a machine. They are read once, then stored, compared and judged.

use std::net::IpAddr;

use jiff::Timestamp;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use windrow_harvester::network::MacAddress;

use crate::Reading;

/// All facts about a machine.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct HostFacts {
    /// Identity of the machine.
    pub machine: MachineIdentity,
    /// Processors.
    pub cpus: Reading<Cpus>,
    /// Memory.
    pub memory: Reading<Memory>,
    /// Disks.
    pub disks: Reading<Vec<BlockDevice>>,
    /// File systems of the directories that Windrow and RKE2 use.
    pub directories: Vec<DirectorySpace>,
    /// System load.
    pub load: Reading<LoadAverage>,
    /// Temperature sensors.
    pub temperatures: Reading<Vec<Temperature>>,
    /// Network links.
    pub links: Reading<Vec<HostLink>>,
    /// Clock.
    pub clock: ClockState,
}

/// Identity of a machine.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct MachineIdentity {
    /// Host name in the kernel.
    pub hostname: Reading<String>,
    /// Vendor.
    pub vendor: Reading<String>,
    /// Product name.
    pub product: Reading<String>,
    /// Serial number. Only root can read it.
    pub serial: Reading<String>,
    /// Product UUID. Harvester requires a different one on every node. Only root can read it.
    pub uuid: Reading<String>,
    /// Architecture, as the kernel reports it.
    pub architecture: Reading<String>,
    /// Firmware that booted the machine.
    pub firmware: Reading<Firmware>,
    /// Hypervisor below the machine; `none` on bare metal.
    pub hypervisor: Reading<String>,
    /// Whether `/dev/kvm` exists.
    pub kvm: Reading<bool>,
}

/// Firmware that boots a machine.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Firmware {
    /// UEFI.
    Uefi,
    /// A legacy BIOS.
    Bios,
}

/// Processors.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Cpus {
    /// Model name; empty if the processors have none.
    pub model: String,
    /// Number of logical processors, as in `nproc --all`.
    pub logical: u32,
    /// Number of cores.
    pub cores: Reading<u32>,
    /// Hardware extension for virtual machines: `vmx` or `svm`; `none` if the processors have none or it is disabled.
    pub virtualisation: Reading<String>,
}

/// Memory, in bytes.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Memory {
    /// Memory that the kernel can use.
    pub total: u64,
    /// Memory that is available now.
    pub available: u64,
    /// Installed memory, according to the firmware.
    pub installed: Reading<u64>,
    /// Memory modules, according to the firmware.
    pub modules: Reading<Vec<MemoryModule>>,
}

/// A memory module.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct MemoryModule {
    /// Slot, as the board names it.
    pub slot: String,
    /// Bytes.
    pub size: u64,
}

/// Kind of a disk.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum DiskKind {
    /// Flash on NVMe.
    Nvme,
    /// Solid-state disk.
    SolidState,
    /// Rotational disk.
    Rotational,
    /// Virtual disk of a hypervisor. Its physical kind is unknown.
    Virtual,
}

/// A disk.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct BlockDevice {
    /// Name, for example `sda`.
    pub name: String,
    /// Bytes.
    pub size: u64,
    /// Kind of the disk.
    pub kind: Reading<DiskKind>,
    /// Model name; empty if the disk has none.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub model: String,
    /// Serial number or World Wide Name; empty if the disk has none.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub serial: String,
    /// Other names of the device, for example `/dev/disk/by-id/…`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub links: Vec<String>,
    /// Whether the disk is removable, like a USB stick.
    pub removable: bool,
    /// Whether the disk is connected over Fibre Channel. It may then be a volume that is attached and detached.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub fibre_channel: bool,
}

/// Use of a directory.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "kebab-case")]
pub enum DirectoryRole {
    /// etcd's data.
    Etcd,
    /// RKE2's images and containers.
    Images,
    /// RKE2's data directory.
    Rke2,
    /// The kubelet's data.
    Kubelet,
    /// All other data.
    State,
}

/// The file system of a directory.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct DirectorySpace {
    /// The directory, or its nearest parent that exists.
    pub path: String,
    /// Use of the directory.
    pub role: DirectoryRole,
    /// Type of the file system, as the kernel names it; empty if unknown.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub file_system: String,
    /// Names of the disks with this directory; empty if unknown.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub disks: Vec<String>,
    /// Total bytes.
    pub total: u64,
    /// Bytes that are free for all users.
    pub free: u64,
    /// Total inodes; 0 if the file system does not count them.
    pub inodes: u64,
    /// Free inodes.
    pub free_inodes: u64,
    /// Why the space is unknown. The figures are then 0.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub unknown: Option<String>,
}

/// Average number of processes that ran or waited.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct LoadAverage {
    /// Over a minute.
    pub one: f64,
    /// Over five minutes.
    pub five: f64,
    /// Over fifteen minutes.
    pub fifteen: f64,
}

/// A temperature sensor.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Temperature {
    /// Name of the sensor.
    pub sensor: String,
    /// Current temperature in degrees Celsius.
    pub celsius: f32,
    /// Critical temperature in degrees Celsius, as the sensor reports it.
    pub critical: Reading<f32>,
}

/// Whether a link is up.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum LinkState {
    /// The link is up and has a carrier.
    Up,
    /// The link is up, but has no carrier.
    NoCarrier,
    /// The link is switched off, so Windrow cannot tell whether it has a carrier.
    Down,
}

/// A network link.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct HostLink {
    /// Name of the link.
    pub name: String,
    /// Permanent hardware address, even if the link uses the address of its bond.
    pub mac: MacAddress,
    /// Whether the link has a device. A bond, a bridge or a VLAN has none.
    pub physical: bool,
    /// Whether the link is a virtual function of another link (SR-IOV). Its address may change at each boot.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub virtual_function: bool,
    /// VLAN of the link; absent if it is not a VLAN link.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub vlan: Option<u16>,
    /// Whether the link is up.
    pub state: Reading<LinkState>,
    /// Speed in Mb/s.
    pub speed: Reading<u32>,
    /// Largest packet, in bytes.
    pub mtu: u32,
    /// Addresses with the prefix lengths of their networks.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub addresses: Vec<(IpAddr, u8)>,
    /// Packets since the boot, in both directions.
    pub packets: u64,
    /// Errors since the boot, in both directions.
    pub errors: u64,
}

/// The clock.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct ClockState {
    /// Time of the clock when the facts were read.
    pub now: Reading<Timestamp>,
    /// When the machine booted.
    pub booted: Reading<Timestamp>,
    /// Whether systemd reports the clock as synchronised.
    pub synchronised: Reading<bool>,
}

impl HostFacts {
    pub fn link(&self, name: &str) -> Option<&HostLink> {
        let links = self.links.known()?;
        links.iter().find(|link| link.name == name)
    }

    pub fn vlan_link(&self, vlan: u16) -> Option<&HostLink> {
        let links = self.links.known()?;
        links.iter().find(|link| link.vlan == Some(vlan))
    }

    /// The links with a physical device.
    pub fn nics(&self) -> impl Iterator<Item = &HostLink> {
        let links = self.links.known().into_iter().flatten();
        links.filter(|link| link.physical)
    }
}
