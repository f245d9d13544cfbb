//! What hardware a machine has had since its first boot, and what of it is missing or slower now.
//!
//! What is new is taken in, what was not known is filled in, and nothing is ever taken out by itself: a module that is lost once
//! is said until a person says that it was meant.

use std::collections::BTreeMap;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use windrow_harvester::network::MacAddress;

use crate::{BlockDevice, HostFacts, HostLink, MemoryModule};

/// Most entries of a kind that are kept.
const MOST: usize = 512;
/// How much of the memory the kernel may keep for itself one time more than another, in percent.
const KEPT_PERCENT: u64 = 3;
const GIB: u64 = 1 << 30;

/// What hardware a machine has had.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct HardwareInventory {
    /// The format.
    pub version: u32,
    /// When it was begun.
    pub since: Timestamp,
    /// Logical processors.
    pub cpus: Option<u32>,
    /// Bytes of memory, as the kernel counts them.
    pub memory: Option<u64>,
    /// Memory modules.
    pub modules: Vec<MemoryModule>,
    /// Disks.
    pub disks: Vec<KnownDisk>,
    /// Links.
    pub links: Vec<KnownLink>,
}

/// A disk.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct KnownDisk {
    /// Its name, which may be another one after each boot.
    pub name: String,
    /// Its serial number; empty where it has none.
    pub serial: String,
    /// Bytes.
    pub size: u64,
}

/// A link.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct KnownLink {
    /// Its name.
    pub name: String,
    /// Its hardware address.
    pub mac: MacAddress,
    /// The fastest that it was, in Mb/s.
    pub speed: Option<u32>,
}

impl KnownDisk {
    fn is(&self, disk: &BlockDevice) -> bool {
        match self.serial.as_str() {
            "" => self.name == disk.name && self.size == disk.size,
            serial => serial == disk.serial,
        }
    }
}

impl HardwareInventory {
    /// The format that this program writes.
    pub const VERSION: u32 = 1;

    /// An inventory without anything in it.
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

    /// Is nothing in it?
    pub fn is_empty(&self) -> bool {
        *self == Self::begun(self.since)
    }

    /// Takes in what is new or was not known. What is missing stays.
    #[must_use]
    pub fn with(mut self, host: &HostFacts) -> Self {
        if let Some(cpus) = host.cpus.known() {
            self.cpus = self.cpus.max(Some(cpus.logical));
        }
        if let Some(memory) = host.memory.known() {
            self.memory = self.memory.max(Some(memory.total));
            for (slot, now) in by_slot(memory.modules.known().into_iter().flatten()) {
                // Some boards call every slot the same.
                if self.modules.iter().filter(|one| one.slot == slot).count() < now.len() {
                    self.modules.retain(|one| one.slot != slot);
                    self.modules.extend(now.into_iter().cloned());
                }
            }
        }
        for disk in fixed(host) {
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

    /// What is missing or slower now, a line each.
    ///
    /// # Errors
    ///
    /// Nothing can be compared, because nothing could be read.
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
                .filter(|one| !fixed(host).any(|disk| one.is(disk)));
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

    /// Modules by slot where the firmware names them, else the sum.
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

/// The modules of each name.
fn by_slot<'m>(
    modules: impl IntoIterator<Item = &'m MemoryModule>,
) -> BTreeMap<&'m str, Vec<&'m MemoryModule>> {
    let mut found: BTreeMap<&str, Vec<&MemoryModule>> = BTreeMap::new();
    for module in modules {
        found.entry(&module.slot).or_default().push(module);
    }
    found
}

/// What is missing of the modules of one name.
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
            "{left} memory modules {slot} with {has} GiB, {count} with {had} before"
        )),
        2.. if has < had => Some(format!(
            "memory modules {slot} have {has} GiB, {had} before"
        )),
        _ => None,
    }
}

/// The NICs that are known again after a boot: a virtual function may have another address each time.
fn own_nics(host: &HostFacts) -> impl Iterator<Item = &HostLink> {
    host.nics().filter(|nic| !nic.virtual_function)
}

impl KnownLink {
    /// Was it written down by an address that is none of a NIC's own: a virtual function's, or that of the bond that the NIC was in?
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

/// The disks that stay in the machine.
fn fixed(host: &HostFacts) -> impl Iterator<Item = &BlockDevice> {
    let disks = host.disks.known().into_iter().flatten();
    disks.filter(|disk| !disk.removable)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Cpus, DiskKind, LinkState, Memory, Reading};

    fn host() -> HostFacts {
        let disk = |name: &str, serial: &str| BlockDevice {
            name: name.to_owned(),
            size: 900 * GIB,
            kind: Reading::Known(DiskKind::Nvme),
            model: String::new(),
            serial: serial.to_owned(),
            links: Vec::new(),
            removable: false,
        };
        let link = |name: &str, mac: &str| HostLink {
            name: name.to_owned(),
            mac: mac.parse().unwrap(),
            physical: true,
            virtual_function: false,
            vlan: None,
            state: Reading::Known(LinkState::Up),
            speed: Reading::Known(10_000),
            mtu: 1500,
            addresses: Vec::new(),
            packets: 0,
            errors: 0,
        };
        let module = |slot: &str| MemoryModule {
            slot: slot.to_owned(),
            size: 32 * GIB,
        };
        HostFacts {
            cpus: Reading::Known(Cpus {
                model: String::new(),
                logical: 32,
                cores: Reading::Known(16),
                virtualisation: Reading::default(),
            }),
            memory: Reading::Known(Memory {
                total: 62 * GIB,
                available: GIB,
                installed: Reading::Known(64 * GIB),
                modules: Reading::Known(vec![module("A1"), module("B1")]),
            }),
            disks: Reading::Known(vec![disk("nvme0n1", "S1"), disk("sda", "")]),
            links: Reading::Known(vec![
                link("ens3", "52:54:00:00:00:01"),
                link("ens4", "52:54:00:00:00:02"),
            ]),
            ..HostFacts::default()
        }
    }

    fn known() -> HardwareInventory {
        HardwareInventory::begun("2026-11-23T10:00:00Z".parse().unwrap()).with(&host())
    }

    fn changes(change: impl FnOnce(&mut HostFacts)) -> Vec<String> {
        let mut now = host();
        change(&mut now);
        known().changes(&now).unwrap()
    }

    fn of<T>(reading: &mut Reading<T>) -> &mut T {
        match reading {
            Reading::Known(value) => value,
            Reading::Unknown { unknown } => panic!("{unknown}"),
        }
    }

    #[test]
    fn what_is_as_it_was_is_no_change_and_neither_is_what_came_or_what_cannot_be_read() {
        assert_eq!(changes(|_| {}), Vec::<String>::new());
        let grown = changes(|now| {
            of(&mut now.cpus).logical = 64;
            let mut more = of(&mut now.disks)[0].clone();
            more.serial = "S2".to_owned();
            of(&mut now.disks).push(more);
        });
        assert_eq!(grown, Vec::<String>::new());
        let unread = changes(|now| {
            now.cpus = Reading::default();
            now.memory = Reading::default();
            now.disks = Reading::default();
            of(&mut now.links)[0].speed = Reading::unknown("the cable is out");
        });
        assert_eq!(unread, Vec::<String>::new());
        assert!(known().changes(&HostFacts::default()).is_err());
    }

    #[test]
    fn a_lost_module_a_slower_link_and_a_disk_that_is_gone_are_named() {
        let lost = changes(|now| {
            of(&mut now.cpus).logical = 16;
            of(&mut of(&mut now.memory).modules).remove(0);
            of(&mut now.disks).remove(0);
            of(&mut now.links)[0].speed = Reading::Known(1_000);
            of(&mut now.links).remove(1);
        });
        assert_eq!(
            lost,
            [
                "16 processors, 32 before",
                "memory module A1, 32 GiB, is gone",
                "disk nvme0n1 (S1), 900 GiB, is gone",
                "link ens3 has 1000 Mb/s, 10000 before",
                "link ens4 (52:54:00:00:00:02) is gone",
            ]
        );
    }

    #[test]
    fn modules_that_a_board_calls_by_one_name_are_counted() {
        let with = |count: usize, gib: u64| {
            let module = MemoryModule {
                slot: "DIMM 0".to_owned(),
                size: gib * GIB,
            };
            let mut host = host();
            of(&mut host.memory).modules = Reading::Known(vec![module; count]);
            host
        };
        let begun = HardwareInventory::begun(Timestamp::UNIX_EPOCH);
        let known = begun.clone().with(&with(8, 32));
        assert_eq!(known.modules.len(), 8);
        assert_eq!(known.changes(&with(8, 32)), Ok(Vec::new()));
        assert_eq!(known.clone().with(&with(1, 32)), known);
        for (now, said) in [
            (
                with(1, 32),
                "1 memory modules DIMM 0 with 32 GiB, 8 with 256 before",
            ),
            (
                with(8, 16),
                "memory modules DIMM 0 have 128 GiB, 256 before",
            ),
        ] {
            assert_eq!(known.changes(&now), Ok(vec![said.to_owned()]));
        }
        // An inventory of before has one of them.
        let old = HardwareInventory {
            modules: vec![known.modules[0].clone()],
            ..begun
        };
        assert_eq!(old.changes(&with(8, 32)), Ok(Vec::new()));
        assert_eq!(old.with(&with(8, 32)).modules, known.modules);
    }

    #[test]
    fn a_virtual_function_may_have_another_address_after_each_boot() {
        let with = |mac: &str| {
            let mut host = host();
            let mut function = of(&mut host.links)[0].clone();
            (function.name, function.virtual_function) = ("ens3v0".to_owned(), true);
            function.mac = mac.parse().unwrap();
            of(&mut host.links).push(function);
            host
        };
        let (first, second) = (with("a2:11:00:00:00:01"), with("a2:11:00:00:00:02"));
        let mut known = HardwareInventory::begun(Timestamp::UNIX_EPOCH).with(&first);
        assert_eq!(known.links.len(), 2);
        assert_eq!(known.changes(&second), Ok(Vec::new()));
        // An inventory of before has it.
        known.links.push(KnownLink {
            name: "ens3v0".to_owned(),
            mac: "a2:11:00:00:00:01".parse().unwrap(),
            speed: None,
        });
        assert_eq!(known.changes(&second), Ok(Vec::new()));
        assert_eq!(known.with(&second).links.len(), 2);
    }

    #[test]
    fn a_nic_that_was_written_down_by_the_address_of_its_bond_is_not_gone() {
        let mut bonded = host();
        let mut bond = of(&mut bonded.links)[0].clone();
        (bond.name, bond.physical) = ("mgmt-bo".to_owned(), false);
        bond.mac = "02:00:00:00:00:09".parse().unwrap();
        let of_bond = KnownLink {
            name: "ens3".to_owned(),
            mac: bond.mac,
            speed: Some(10_000),
        };
        of(&mut bonded.links).push(bond);
        let mut old = HardwareInventory::begun(known().since);
        old.links.push(of_bond);
        assert_eq!(old.changes(&bonded), Ok(Vec::new()));
        assert_eq!(old.clone().with(&bonded), known());
        // The NIC itself is out, and the bond still has its address.
        of(&mut bonded.links).remove(0);
        assert_eq!(
            old.changes(&bonded),
            Ok(vec!["link ens3 (02:00:00:00:00:09) is gone".to_owned()])
        );
    }

    #[test]
    fn a_disk_with_a_serial_number_may_change_its_name_and_a_stick_may_go() {
        let renamed = changes(|now| of(&mut now.disks)[0].name = "nvme1n1".to_owned());
        assert_eq!(renamed, Vec::<String>::new());
        let mut with_stick = host();
        let mut stick = of(&mut with_stick.disks)[0].clone();
        (stick.serial, stick.removable) = ("U1".to_owned(), true);
        of(&mut with_stick.disks).push(stick);
        let known = HardwareInventory::begun(Timestamp::UNIX_EPOCH).with(&with_stick);
        assert_eq!(known.changes(&host()), Ok(Vec::new()));
    }

    #[test]
    fn without_a_serial_number_a_disk_is_known_by_its_name_and_its_size() {
        let other = changes(|now| of(&mut now.disks)[1].name = "sdb".to_owned());
        assert_eq!(other, ["disk sda, 900 GiB, is gone"]);
        let smaller = changes(|now| of(&mut now.disks)[1].size = 400 * GIB);
        assert_eq!(smaller, ["disk sda, 900 GiB, is gone"]);
    }

    #[test]
    fn without_modules_the_sum_counts_but_for_what_the_kernel_keeps() {
        let with = |total: u64| {
            changes(|now| {
                let memory = of(&mut now.memory);
                (memory.total, memory.modules) = (total, Reading::unknown("no right"));
            })
        };
        assert_eq!(with(61 * GIB), Vec::<String>::new());
        assert_eq!(with(30 * GIB), ["30 GiB of memory, 62 before"]);
    }

    #[test]
    fn an_inventory_takes_in_what_is_new_and_keeps_what_is_missing() {
        let mut less = host();
        of(&mut less.disks).clear();
        of(&mut less.links)[0].speed = Reading::Known(1_000);
        of(&mut less.cpus).logical = 8;
        of(&mut less.memory).total = 16 * GIB;
        assert_eq!(known().with(&less), known());
        let mut before = host();
        of(&mut before.links)[0].speed = Reading::unknown("down");
        let first = HardwareInventory::begun(known().since).with(&before);
        assert_eq!(first.links[0].speed, None);
        assert_eq!(first.with(&host()), known());
        assert!(HardwareInventory::begun(known().since).is_empty() && !known().is_empty());
        let text = serde_json::to_string(&known()).unwrap();
        assert_eq!(
            serde_json::from_str::<HardwareInventory>(&text).unwrap(),
            known()
        );
    }
}
