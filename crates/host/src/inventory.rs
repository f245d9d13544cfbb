//! The hardware that a machine has had since its first boot, so that Windrow can report lost or slower parts.
//!
//! New hardware is added and missing details are filled in, but nothing is removed automatically. Windrow keeps reporting a lost
//! module until the operator confirms the change.

use std::collections::BTreeMap;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use windrow_harvester::network::MacAddress;

use crate::{BlockDevice, DiskKind, HostFacts, HostLink, MemoryModule};

/// Limit of entries per kind.
const MOST: usize = 512;
/// The memory that the kernel reserves varies between boots, by at most this share in percent.
const KEPT_PERCENT: u64 = 3;
const GIB: u64 = 1 << 30;

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct HardwareInventory {
    pub version: u32,
    pub since: Timestamp,
    /// Logical processors.
    pub cpus: Option<u32>,
    /// Bytes of memory, as the kernel counts them.
    pub memory: Option<u64>,
    pub modules: Vec<MemoryModule>,
    pub disks: Vec<KnownDisk>,
    pub links: Vec<KnownLink>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct KnownDisk {
    /// May change at each boot.
    pub name: String,
    /// Empty if the disk has none.
    pub serial: String,
    /// In bytes.
    pub size: u64,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct KnownLink {
    pub name: String,
    pub mac: MacAddress,
    /// The highest speed so far, in Mb/s.
    pub speed: Option<u32>,
}

impl KnownDisk {
    fn is(&self, disk: &BlockDevice) -> bool {
        match self.serial.as_str() {
            "" => self.name == disk.name && self.size == disk.size,
            serial => serial == disk.serial,
        }
    }

    /// True for a detachable disk that an older inventory recorded as a part of the machine.
    fn comes_and_goes(&self, host: &HostFacts) -> bool {
        let mut disks = host.disks.known().into_iter().flatten();
        is_virtual_machine(host) || disks.any(|disk| self.is(disk) && !is_own(disk))
    }
}

impl HardwareInventory {
    pub const VERSION: u32 = 1;

    pub fn begun(since: Timestamp) -> Self {
        Self {
            version: Self::VERSION,
            since,
            cpus: None,
            memory: None,
            modules: Vec::new(),
            disks: Vec::new(),
            links: Vec::new(),
        }
    }

    pub fn is_empty(&self) -> bool {
        *self == Self::begun(self.since)
    }

    /// Adds new hardware and missing details. Lost hardware stays.
    #[must_use]
    pub fn with(mut self, host: &HostFacts) -> Self {
        if let Some(cpus) = host.cpus.known() {
            self.cpus = self.cpus.max(Some(cpus.logical));
        }
        if let Some(memory) = host.memory.known() {
            self.memory = self.memory.max(Some(memory.total));
            for (slot, now) in by_slot(memory.modules.known().into_iter().flatten()) {
                // Some boards give every slot the same name.
                if self.modules.iter().filter(|one| one.slot == slot).count() < now.len() {
                    self.modules.retain(|one| one.slot != slot);
                    self.modules.extend(now.into_iter().cloned());
                }
            }
        }
        self.disks.retain(|known| !known.comes_and_goes(host));
        for disk in own_disks(host) {
            if !self.disks.iter().any(|one| one.is(disk)) {
                self.disks.push(KnownDisk {
                    name: disk.name.clone(),
                    serial: disk.serial.clone(),
                    size: disk.size,
                });
            }
        }
        self.links.retain(|one| !one.is_of_no_nic(host));
        for nic in own_nics(host) {
            let speed = nic.speed.known().copied();
            match self.links.iter_mut().find(|one| one.mac == nic.mac) {
                Some(known) => known.speed = known.speed.max(speed),
                None => self.links.push(KnownLink {
                    name: nic.name.clone(),
                    mac: nic.mac,
                    speed,
                }),
            }
        }
        self.modules.truncate(MOST);
        self.disks.truncate(MOST);
        self.links.truncate(MOST);
        self
    }

    /// The lost or slower parts, one line each.
    ///
    /// # Errors
    ///
    /// Nothing was read, so there is nothing to compare.
    pub fn changes(&self, host: &HostFacts) -> Result<Vec<String>, String> {
        if host.links.known().is_none() && host.disks.known().is_none() {
            return Err("neither disks nor links can be read".to_owned());
        }
        let mut lost = Vec::new();
        if let (Some(before), Some(cpus)) = (self.cpus, host.cpus.known())
            && cpus.logical < before
        {
            lost.push(format!("{} processors, {before} before", cpus.logical));
        }
        self.memory_changes(host, &mut lost);
        if host.disks.known().is_some() {
            let gone = self
                .disks
                .iter()
                .filter(|known| !known.comes_and_goes(host))
                .filter(|known| !own_disks(host).any(|disk| known.is(disk)));
            lost.extend(gone.map(|one| {
                let serial = match one.serial.as_str() {
                    "" => String::new(),
                    serial => format!(" ({serial})"),
                };
                format!("disk {}{serial}, {} GiB, is gone", one.name, one.size / GIB)
            }));
        }
        if host.links.known().is_some() {
            let links = self.links.iter().filter(|one| !one.is_of_no_nic(host));
            lost.extend(links.filter_map(|one| one.change(own_nics(host))));
        }
        Ok(lost)
    }

    /// Compares modules by slot if the firmware names them, and the total otherwise.
    fn memory_changes(&self, host: &HostFacts, lost: &mut Vec<String>) {
        let Some(memory) = host.memory.known() else {
            return;
        };
        match memory.modules.known() {
            Some(modules) if !self.modules.is_empty() => {
                let now = by_slot(modules);
                for (slot, before) in by_slot(&self.modules) {
                    let now = now.get(slot).map_or(&[][..], Vec::as_slice);
                    lost.extend(change_of_slot(slot, &before, now));
                }
            }
            _ => {
                if let Some(before) = self.memory
                    && memory.total < before / 100 * (100 - KEPT_PERCENT)
                {
                    lost.push(format!(
                        "{} GiB of memory, {} before",
                        memory.total / GIB,
                        before / GIB
                    ));
                }
            }
        }
    }
}

fn by_slot<'m>(
    modules: impl IntoIterator<Item = &'m MemoryModule>,
) -> BTreeMap<&'m str, Vec<&'m MemoryModule>> {
    let mut found: BTreeMap<&str, Vec<&MemoryModule>> = BTreeMap::new();
    for module in modules {
        found.entry(&module.slot).or_default().push(module);
    }
    found
}

/// The loss of modules under one slot name.
fn change_of_slot(slot: &str, before: &[&MemoryModule], now: &[&MemoryModule]) -> Option<String> {
    let gib = |modules: &[&MemoryModule]| {
        let bytes = modules.iter().map(|one| one.size);
        bytes.fold(0, u64::saturating_add) / GIB
    };
    let (had, has) = (gib(before), gib(now));
    let (count, left) = (before.len(), now.len());
    match count {
        1 if left == 0 => Some(format!("memory module {slot}, {had} GiB, is gone")),
        1 if has < had => Some(format!("memory module {slot} has {has} GiB, {had} before")),
        2.. if left < count => Some(format!(
            "memory modules {slot}: {left} with {has} GiB, {count} with {had} before"
        )),
        2.. if has < had => Some(format!(
            "memory modules {slot} have {has} GiB, {had} before"
        )),
        _ => None,
    }
}

/// The NICs with a stable address. A virtual function may have another address at each boot.
fn own_nics(host: &HostFacts) -> impl Iterator<Item = &HostLink> {
    host.nics().filter(|nic| !nic.virtual_function)
}

impl KnownLink {
    /// True if the recorded address belongs to no NIC: it is that of a virtual function, or of the bond that contained the NIC.
    fn is_of_no_nic(&self, host: &HostFacts) -> bool {
        let links = || host.links.known().into_iter().flatten();
        let is_virtual = links()
            .any(|link| link.virtual_function && (link.mac == self.mac || link.name == self.name));
        let is_bond = links().any(|link| !link.physical && link.mac == self.mac);
        let of_another = host.nics().any(|nic| nic.mac == self.mac);
        let is_there = host.nics().any(|nic| nic.name == self.name);
        is_virtual || (is_bond && !of_another && is_there)
    }

    fn change<'h>(&self, mut nics: impl Iterator<Item = &'h HostLink>) -> Option<String> {
        let Some(nic) = nics.find(|nic| nic.mac == self.mac) else {
            return Some(format!("link {} ({}) is gone", self.name, self.mac));
        };
        let (before, now) = (self.speed?, *nic.speed.known()?);
        (now < before).then(|| format!("link {} has {now} Mb/s, {before} before", nic.name))
    }
}

fn own_disks(host: &HostFacts) -> impl Iterator<Item = &BlockDevice> {
    let disks = host.disks.known().into_iter().flatten();
    disks.filter(|disk| !is_virtual_machine(host) && is_own(disk))
}

/// Kubernetes attaches and detaches volumes as disks of a hypervisor and as disks over Fibre Channel.
fn is_own(disk: &BlockDevice) -> bool {
    !disk.removable && !disk.fibre_channel && disk.kind.known() != Some(&DiskKind::Virtual)
}

/// A hypervisor can attach and detach every disk of its virtual machines, of any kind.
fn is_virtual_machine(host: &HostFacts) -> bool {
    let hypervisor = host.machine.hypervisor.known();
    hypervisor.is_some_and(|name| name != "none")
}

#[cfg(test)]
#[path = "inventory_tests.rs"]
mod tests;
