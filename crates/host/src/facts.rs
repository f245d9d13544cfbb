//! What a machine is and how it is: a value that is read once, kept, compared and judged.

use std::net::IpAddr;

use jiff::Timestamp;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use windrow_harvester::network::MacAddress;

use crate::Reading;

/// All that is known of a machine.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct HostFacts {
    /// Which machine it is.
    pub machine: MachineIdentity,
    /// Its processors.
    pub cpus: Reading<Cpus>,
    /// Its memory.
    pub memory: Reading<Memory>,
    /// Its disks.
    pub disks: Reading<Vec<BlockDevice>>,
    /// The file systems of the directories that matter.
    pub directories: Vec<DirectorySpace>,
    /// The load.
    pub load: Reading<LoadAverage>,
    /// Its sensors.
    pub temperatures: Reading<Vec<Temperature>>,
    /// Its network links.
    pub links: Reading<Vec<HostLink>>,
    /// Its clock.
    pub clock: ClockState,
}

/// Which machine it is.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct MachineIdentity {
    /// The name that the kernel has.
    pub hostname: Reading<String>,
    /// Who made it.
    pub vendor: Reading<String>,
    /// What it is called.
    pub product: Reading<String>,
    /// Its serial number. Root alone may read it.
    pub serial: Reading<String>,
    /// Its UUID, which Harvester needs to be a different one on every node. Root alone may read it.
    pub uuid: Reading<String>,
    /// The architecture, as the kernel calls it.
    pub architecture: Reading<String>,
    /// What it was booted by.
    pub firmware: Reading<Firmware>,
    /// The hypervisor that it runs on; `none` on bare metal.
    pub hypervisor: Reading<String>,
    /// Is `/dev/kvm` there?
    pub kvm: Reading<bool>,
}

/// What a machine is booted by.
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
    /// What they are called; empty where they have no name.
    pub model: String,
    /// How many the kernel schedules on: what `nproc --all` counts.
    pub logical: u32,
    /// How many cores they have.
    pub cores: Reading<u32>,
    /// The extension for virtual machines that they have: `vmx`, `svm`; `none` where they have none, or it is switched off.
    pub virtualisation: Reading<String>,
}

/// Memory, in bytes.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Memory {
    /// What the kernel can use.
    pub total: u64,
    /// What is available now.
    pub available: u64,
    /// What is installed, as the firmware says.
    pub installed: Reading<u64>,
    /// The modules, as the firmware says.
    pub modules: Reading<Vec<MemoryModule>>,
}

/// A memory module.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct MemoryModule {
    /// The slot, as the board calls it.
    pub slot: String,
    /// Bytes.
    pub size: u64,
}

/// How a disk stores.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum DiskKind {
    /// Flash on NVMe.
    Nvme,
    /// It does not turn.
    SolidState,
    /// It turns.
    Rotational,
    /// A hypervisor's: what it is made of is not known.
    Virtual,
}

/// A disk.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct BlockDevice {
    /// Its name: `sda`.
    pub name: String,
    /// Bytes.
    pub size: u64,
    /// How it stores.
    pub kind: Reading<DiskKind>,
    /// What it is called; empty where it has no name.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub model: String,
    /// Its serial number, or its World Wide Name; empty where it has none.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub serial: String,
    /// Other names of its device: `/dev/disk/by-id/…`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub links: Vec<String>,
    /// Can it be taken out (a USB stick)?
    pub removable: bool,
    /// Is it reached over Fibre Channel? It may be a volume that comes and goes.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub fibre_channel: bool,
}

/// What a directory is for.
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
    /// The kubelet's.
    Kubelet,
    /// What else is kept.
    State,
}

/// The file system of a directory.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct DirectorySpace {
    /// The directory, or the next one above it that is there.
    pub path: String,
    /// What it is for.
    pub role: DirectoryRole,
    /// The kind of file system, as the kernel calls it; empty where it is not known.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub file_system: String,
    /// The names of the disks that it lies on; empty where they are not known.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub disks: Vec<String>,
    /// Bytes.
    pub total: u64,
    /// Bytes that are free for all.
    pub free: u64,
    /// Inodes; 0 where they are not counted.
    pub inodes: u64,
    /// Inodes that are free.
    pub free_inodes: u64,
    /// Why the room is not known; the figures are 0 then.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub unknown: Option<String>,
}

/// How many processes ran or waited, on average.
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

/// A sensor, in degrees Celsius.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Temperature {
    /// What it is called.
    pub sensor: String,
    /// What it shows.
    pub celsius: f32,
    /// What it must not reach, as it says itself.
    pub critical: Reading<f32>,
}

/// Is a link up?
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum LinkState {
    /// It is up and has a carrier.
    Up,
    /// It is up and nothing is at the other end.
    NoCarrier,
    /// It is switched off: whether something is at the other end is not known.
    Down,
}

/// A network link.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct HostLink {
    /// Its name.
    pub name: String,
    /// Its own hardware address, also where it lends itself the one of a bond.
    pub mac: MacAddress,
    /// Is there a device behind it? A bond, a bridge or a VLAN has none.
    pub physical: bool,
    /// Is it a virtual function of another link (SR-IOV)? Its address may be another one after each boot.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub virtual_function: bool,
    /// The VLAN whose packets it carries; absent where it is no VLAN's link.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub vlan: Option<u16>,
    /// Is it up?
    pub state: Reading<LinkState>,
    /// Mb/s.
    pub speed: Reading<u32>,
    /// The longest packet, in bytes.
    pub mtu: u32,
    /// Its addresses, with the length of their networks' prefixes.
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
    /// What it showed when the facts were read.
    pub now: Reading<Timestamp>,
    /// When the machine was booted.
    pub booted: Reading<Timestamp>,
    /// Does systemd say that it is synchronised?
    pub synchronised: Reading<bool>,
}

impl HostFacts {
    /// A link by its name.
    pub fn link(&self, name: &str) -> Option<&HostLink> {
        let links = self.links.known()?;
        links.iter().find(|link| link.name == name)
    }

    /// The first link of a VLAN.
    pub fn vlan_link(&self, vlan: u16) -> Option<&HostLink> {
        let links = self.links.known()?;
        links.iter().find(|link| link.vlan == Some(vlan))
    }

    /// The links with a device behind them.
    pub fn nics(&self) -> impl Iterator<Item = &HostLink> {
        let links = self.links.known().into_iter().flatten();
        links.filter(|link| link.physical)
    }
}
