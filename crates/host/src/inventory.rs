//! What hardware a machine has had since its first boot, and what of it is missing or slower now.
//!
//! What is new is taken in, what was not known is filled in, and nothing is ever taken out by itself: a module that is lost once
//! is said until a person says that it was meant.

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
            for module in memory.modules.known().into_iter().flatten() {
                if self.modules.iter().all(|one| one.slot != module.slot) {
                    self.modules.push(module.clone());
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
        for nic in host.nics() {
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
            let links = self.links.iter();
            lost.extend(links.filter_map(|one| one.change(host.nics())));
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
                for one in &self.modules {
                    match modules.iter().find(|module| module.slot == one.slot) {
                        None => lost.push(format!(
                            "memory module {}, {} GiB, is gone",
                            one.slot,
                            one.size / GIB
                        )),
                        Some(now) if now.size < one.size => lost.push(format!(
                            "memory module {} has {} GiB, {} before",
                            one.slot,
                            now.size / GIB,
                            one.size / GIB
                        )),
                        Some(_) => {}
                    }
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

impl KnownLink {
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
