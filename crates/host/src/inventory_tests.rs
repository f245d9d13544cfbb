//! Tests of how an inventory adds and keeps hardware and reports losses.

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
        fibre_channel: false,
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
            "memory modules DIMM 0: 1 with 32 GiB, 8 with 256 before",
        ),
        (
            with(8, 16),
            "memory modules DIMM 0 have 128 GiB, 256 before",
        ),
    ] {
        assert_eq!(known.changes(&now), Ok(vec![said.to_owned()]));
    }
    // An older inventory has only one of them.
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
    // An older inventory contains it.
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
    // The NIC itself is removed, but the bond still has its address.
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
fn a_disk_that_is_detached_is_no_lost_hardware_on_a_virtual_machine_or_behind_fibre_channel() {
    let changes: [fn(&mut HostFacts); 3] = [
        |host| host.machine.hypervisor = Reading::Known("kvm".to_owned()),
        |host| of(&mut host.disks)[0].kind = Reading::Known(DiskKind::Virtual),
        |host| of(&mut host.disks)[0].fibre_channel = true,
    ];
    for change in changes {
        let mut attached = host();
        change(&mut attached);
        let mut detached = attached.clone();
        of(&mut detached.disks).remove(0);
        let inventory = HardwareInventory::begun(known().since).with(&attached);
        assert_eq!(inventory.changes(&detached), Ok(Vec::new()));
        // An older inventory contains the disk; while it is attached, the next start removes it.
        assert_eq!(known().changes(&attached), Ok(Vec::new()));
        let disks = known().with(&attached).disks;
        assert!(disks.iter().all(|disk| disk.serial != "S1"), "{disks:?}");
    }
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
