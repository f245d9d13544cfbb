//! The facts about this machine, compared with the output of its commands; and those about a machine made of files.

mod unreadable;

use std::fs;
use std::os::unix::fs::symlink;
use std::process::Command;

use tempfile::TempDir;
use windrow_host::{DiskKind, LinkState};

use super::*;

fn said(program: &str, arguments: &[&str]) -> Option<String> {
    let output = Command::new(program)
        .args(arguments)
        .env("LC_ALL", "C")
        .output();
    let output = output.ok().filter(|output| output.status.success());
    if output.is_none() {
        eprintln!("skipped: {program} does not run here");
    }
    Some(String::from_utf8(output?.stdout).unwrap())
}

fn here() -> HostFacts {
    read_host(&Layout::new("/"), Timestamp::now())
}

#[test]
fn processors_and_memory_are_those_that_the_kernel_has() {
    let host = here();
    let cpus = host.cpus.known().unwrap();
    if let Some(count) = said("nproc", &["--all"]) {
        assert_eq!(cpus.logical.to_string(), count.trim());
    }
    if let Some(text) = said("lscpu", &[]) {
        let has = |word: &str| text.split_whitespace().any(|one| one == word);
        let known = cpus.virtualisation.known().map(String::as_str);
        match known {
            Some("none") => assert!(!has("vmx") && !has("svm")),
            Some(flag) => assert!(has(flag), "{flag}"),
            None => assert!(!text.contains("Flags:")),
        }
    }
    let table = fs::read_to_string("/proc/meminfo").unwrap();
    let line = table
        .lines()
        .find(|line| line.starts_with("MemTotal"))
        .unwrap();
    let kib: u64 = line.split_whitespace().nth(1).unwrap().parse().unwrap();
    let memory = host.memory.known().unwrap();
    assert_eq!(memory.total, kib * 1024);
    assert!(memory.available <= memory.total && memory.available > 0);
}

#[test]
fn links_are_those_that_ip_lists_with_address_and_mtu() {
    let host = here();
    let links = host.links.known().unwrap();
    let Some(text) = said("ip", &["-o", "link"]) else {
        return;
    };
    for link in links {
        let line = text
            .lines()
            .find(|line| {
                line.split(": ")
                    .nth(1)
                    .is_some_and(|name| name.split('@').next() == Some(&link.name))
            })
            .unwrap_or_else(|| panic!("{} is not in {text}", link.name));
        // The address of a bond's port is at the end of its line (`permaddr`).
        assert!(line.contains(&link.mac.to_string()), "{line}");
        assert!(line.contains(&format!("mtu {} ", link.mtu)), "{line}");
        let is_up = line.contains("LOWER_UP");
        assert_eq!(link.state.known() == Some(&LinkState::Up), is_up, "{line}");
    }
}

#[test]
fn a_directory_has_the_room_that_df_shows() {
    let host = here();
    for directory in &host.directories {
        let Some(text) = said("df", &["--output=size,itotal", "-B1", &directory.path]) else {
            return;
        };
        let line = text.lines().nth(1).unwrap();
        let figures: Vec<&str> = line.split_whitespace().collect();
        assert_eq!(directory.total.to_string(), figures[0], "{text}");
        assert_eq!(
            directory.inodes.to_string(),
            figures[1].replace('-', "0"),
            "{text}"
        );
        assert!(directory.free <= directory.total);
    }
    assert!(!host.directories.is_empty());
}

#[test]
fn the_boot_is_the_one_that_the_kernel_counts_from() {
    let text = fs::read_to_string("/proc/stat").unwrap();
    let line = text
        .lines()
        .find_map(|line| line.strip_prefix("btime "))
        .unwrap();
    let booted = here().clock.booted.known().copied().unwrap();
    assert_eq!(booted.as_second().to_string(), line.trim());
}

fn machine(files: &[(&str, &str)]) -> (TempDir, Layout) {
    let root = TempDir::new().unwrap();
    let layout = Layout::new(root.path());
    for (path, text) in files {
        let path = layout.path(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }
    (root, layout)
}

#[test]
fn of_another_root_what_the_machine_alone_tells_is_unknown() {
    let (_root, layout) = machine(&[]);
    let host = read_host(&layout, Timestamp::UNIX_EPOCH);
    assert!(host.cpus.known().is_none() && host.memory.known().is_none());
    assert!(host.temperatures.known().is_none() && host.load.known().is_none());
    assert!(host.links.known().is_none() && host.disks.known().is_none());
    assert!(host.machine.firmware.known().is_none() && host.machine.kvm.known().is_none());
}

#[test]
fn disks_are_told_from_sticks_volumes_and_what_is_made_of_others() {
    let (_root, layout) = machine(&[
        ("/sys/devices/pci0/nvme0n1/size", "3750748848\n"),
        ("/sys/devices/pci0/nvme0n1/queue/rotational", "0\n"),
        ("/sys/devices/pci0/nvme0n1/device/model", "PM9A3    \n"),
        ("/sys/devices/pci0/nvme0n1/device/serial", "S64\n"),
        ("/sys/devices/pci0/ata1/sda/size", "2000\n"),
        ("/sys/devices/pci0/ata1/sda/queue/rotational", "1\n"),
        ("/sys/devices/pci0/usb1/sdb/size", "2000\n"),
        ("/sys/devices/pci0/usb1/sdb/queue/rotational", "1\n"),
        ("/sys/devices/platform/host2/session1/sdc/size", "2000\n"),
        ("/sys/devices/pci0/ata2/sdd/size", "0\n"),
        ("/sys/devices/virtual/block/dm-0/size", "2000\n"),
        ("/sys/devices/pci0/virtio0/vda/size", "2000\n"),
        ("/sys/block/.keep", ""),
        ("/dev/disk/by-id/.keep", ""),
    ]);
    for device in [
        "pci0/nvme0n1",
        "pci0/ata1/sda",
        "pci0/usb1/sdb",
        "platform/host2/session1/sdc",
        "pci0/ata2/sdd",
        "virtual/block/dm-0",
        "pci0/virtio0/vda",
    ] {
        let name = device.rsplit('/').next().unwrap();
        let link = layout.path(&format!("/sys/block/{name}"));
        symlink(format!("../devices/{device}"), link).unwrap();
    }
    let link = layout.path("/dev/disk/by-id/nvme-PM9A3_S64");
    symlink("../../nvme0n1", link).unwrap();
    let disks = disks::disks(&layout);
    let disks = disks.known().unwrap();
    let shown: Vec<_> = disks
        .iter()
        .map(|disk| {
            (
                disk.name.as_str(),
                disk.kind.known().copied(),
                disk.removable,
            )
        })
        .collect();
    assert_eq!(
        shown,
        [
            ("nvme0n1", Some(DiskKind::Nvme), false),
            ("sda", Some(DiskKind::Rotational), false),
            ("sdb", Some(DiskKind::Rotational), true),
            ("vda", Some(DiskKind::Virtual), false),
        ]
    );
    assert_eq!(disks[0].size, 3_750_748_848 * 512);
    assert_eq!(
        (disks[0].model.as_str(), disks[0].serial.as_str()),
        ("PM9A3", "S64")
    );
    assert_eq!(disks[0].links, ["/dev/disk/by-id/nvme-PM9A3_S64"]);
}

#[test]
fn a_disk_over_a_network_is_none_of_the_machine() {
    let (_root, layout) = machine(&[
        ("/sys/block/nvme0n1/size", "2000\n"),
        ("/sys/block/nvme0n1/device/transport", "pcie\n"),
        ("/sys/block/nvme1n1/size", "2000\n"),
        ("/sys/block/nvme1n1/device/transport", "tcp\n"),
        ("/sys/block/nvme2n1/size", "2000\n"),
        ("/sys/block/nvme2n1/device/nvme2/transport", "tcp\n"),
        ("/sys/block/nvme3n1/size", "2000\n"),
        ("/sys/block/nvme3n1/device/nvme3/transport", "pcie\n"),
        ("/sys/block/ublkb0/size", "2000\n"),
    ]);
    let disks = disks::disks(&layout);
    let shown: Vec<_> = disks
        .known()
        .unwrap()
        .iter()
        .map(|disk| &disk.name)
        .collect();
    assert_eq!(shown, ["nvme0n1", "nvme3n1"]);
}

#[test]
fn the_name_of_a_disk_is_followed_through_every_link() {
    let (_root, layout) = machine(&[
        ("/sys/block/sda/size", "2000\n"),
        ("/dev/sda", ""),
        ("/dev/sda1", ""),
        ("/dev/disk/by-label/.keep", ""),
    ]);
    symlink("sda", layout.path("/dev/rootdisk")).unwrap();
    symlink("../../rootdisk", layout.path("/dev/disk/by-label/OS")).unwrap();
    for device in ["/dev/sda", "/dev/rootdisk", "/dev/disk/by-label/OS"] {
        let behind = device_behind(&layout, device);
        assert_eq!(behind.known().map(String::as_str), Some("sda"), "{device}");
    }
    for device in ["/dev/sda1", "/dev/sdb"] {
        assert!(device_behind(&layout, device).known().is_none(), "{device}");
    }
}

#[test]
fn a_port_of_a_bond_keeps_its_own_address() {
    let (_root, layout) = machine(&[
        ("/sys/class/net/ens3/device/vendor", ""),
        ("/sys/class/net/ens3/address", "52:54:00:00:00:05\n"),
        (
            "/sys/class/net/ens3/bonding_slave/perm_hwaddr",
            "52:54:00:00:00:05\n",
        ),
        ("/sys/class/net/ens4/device/vendor", ""),
        ("/sys/class/net/ens4/address", "52:54:00:00:00:05\n"),
        (
            "/sys/class/net/ens4/bonding_slave/perm_hwaddr",
            "52:54:00:00:00:06\n",
        ),
        ("/sys/class/net/ens5/device/physfn/x", ""),
        ("/sys/class/net/ens5/address", "a2:11:00:00:00:01\n"),
        ("/sys/class/net/mgmt-bo/bonding/x", ""),
        ("/sys/class/net/mgmt-bo/address", "52:54:00:00:00:05\n"),
    ]);
    let links = links::links(&layout);
    let shown: Vec<_> = links
        .known()
        .unwrap()
        .iter()
        .map(|link| {
            (
                link.name.as_str(),
                link.mac.to_string(),
                link.virtual_function,
            )
        })
        .collect();
    let mac = |last: &str| format!("52:54:00:00:00:{last}");
    assert_eq!(
        shown,
        [
            ("ens3", mac("05"), false),
            ("ens4", mac("06"), false),
            ("ens5", "a2:11:00:00:00:01".to_owned(), true),
            ("mgmt-bo", mac("05"), false),
        ]
    );
}

#[test]
fn a_link_that_is_down_has_no_speed_and_pods_links_are_left_out() {
    let (_root, layout) = machine(&[
        ("/sys/class/net/ens3/device/vendor", ""),
        ("/sys/class/net/ens3/address", "52:54:00:00:00:01\n"),
        ("/sys/class/net/ens3/flags", "0x1003\n"),
        ("/sys/class/net/ens3/carrier", "1\n"),
        ("/sys/class/net/ens3/speed", "25000\n"),
        ("/sys/class/net/ens3/mtu", "9000\n"),
        ("/sys/class/net/ens3/statistics/rx_errors", "3\n"),
        ("/sys/class/net/ens3/statistics/tx_errors", "4\n"),
        ("/sys/class/net/ens4/device/vendor", ""),
        ("/sys/class/net/ens4/address", "52:54:00:00:00:02\n"),
        ("/sys/class/net/ens4/flags", "0x1002\n"),
        ("/sys/class/net/ens4/speed", "-1\n"),
        ("/sys/class/net/mgmt-br/bridge/x", ""),
        ("/sys/class/net/mgmt-br/address", "52:54:00:00:00:03\n"),
        ("/sys/class/net/mgmt-br/flags", "0x1003\n"),
        ("/sys/class/net/mgmt-br/carrier", "0\n"),
        ("/sys/class/net/cali1/address", "ee:ee:ee:ee:ee:ee\n"),
        ("/sys/class/net/mgmt-br.100/address", "52:54:00:00:00:03\n"),
        (
            "/proc/net/vlan/config",
            "VLAN Dev name\t | VLAN ID\nName-Type: VLAN_NAME_TYPE_RAW_PLUS_VID_NO_PAD\nmgmt-br.100    | 100  | mgmt-br\n",
        ),
    ]);
    let links = links::links(&layout);
    let shown: Vec<_> = links
        .known()
        .unwrap()
        .iter()
        .map(|link| {
            (
                link.name.as_str(),
                link.physical,
                link.state.known().copied(),
                link.speed.known().copied(),
            )
        })
        .collect();
    assert_eq!(
        shown,
        [
            ("ens3", true, Some(LinkState::Up), Some(25_000)),
            ("ens4", true, Some(LinkState::Down), None),
            ("mgmt-br", false, Some(LinkState::NoCarrier), None),
            ("mgmt-br.100", false, None, None),
        ]
    );
    let vlans = links.known().unwrap().iter().map(|link| link.vlan);
    assert_eq!(vlans.collect::<Vec<_>>(), [None, None, None, Some(100)]);
    assert_eq!(links.known().unwrap()[0].errors, 7);
}

#[test]
fn firmware_hypervisor_and_kvm_are_told_by_files() {
    let (_root, layout) = machine(&[
        ("/sys/firmware/efi/fw_platform_size", "64"),
        (
            "/proc/cpuinfo",
            "processor\t: 0\nflags\t\t: fpu svm hypervisor\n",
        ),
        ("/sys/class/dmi/id/sys_vendor", "QEMU\n"),
        ("/sys/class/dmi/id/product_serial", "\n"),
        ("/dev/kvm", ""),
    ]);
    let read = machine::identity(&layout);
    assert_eq!(read.firmware.known(), Some(&windrow_host::Firmware::Uefi));
    assert_eq!(read.hypervisor.known().map(String::as_str), Some("qemu"));
    assert_eq!(read.kvm.known(), Some(&true));
    let (_root, layout) = machine(&[
        ("/sys/firmware/acpi/x", ""),
        ("/proc/cpuinfo", "flags\t\t: fpu vmx\n"),
    ]);
    let read = machine::identity(&layout);
    assert_eq!(read.firmware.known(), Some(&windrow_host::Firmware::Bios));
    assert_eq!(read.hypervisor.known().map(String::as_str), Some("none"));
    assert!(read.vendor.known().is_none());
}

#[test]
fn a_directory_lies_on_the_disks_below_its_partition_and_below_what_is_made_of_several() {
    let root = TempDir::new().unwrap();
    let layout = Layout::new(root.path().canonicalize().unwrap());
    let write = |path: &str, text: &str| {
        let path = layout.path(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    };
    for (device, disk) in [("sda5", "sda"), ("sdb1", "sdb")] {
        write(&format!("/sys/devices/x/{disk}/{device}/partition"), "1\n");
        fs::create_dir_all(layout.path("/sys/class/block")).unwrap();
        let class = layout.path(&format!("/sys/class/block/{device}"));
        symlink(format!("../../devices/x/{disk}/{device}"), class).unwrap();
        write(&format!("/sys/class/block/dm-0/slaves/{device}/there"), "");
        write(&format!("/dev/{device}"), "");
    }
    write("/dev/dm-0", "");
    write("/dev/nvme0n1", "");
    write("/sys/class/block/nvme0n1/size", "2000\n");
    write("/dev/mapper/there", "");
    symlink("../dm-0", layout.path("/dev/mapper/data")).unwrap();
    let cases: &[(&str, &[&str])] = &[
        ("/dev/sda5", &["sda"]),
        ("/dev/mapper/data", &["sda", "sdb"]),
        ("/dev/nvme0n1", &["nvme0n1"]),
        ("overlay", &[]),
    ];
    for (source, disks) in cases {
        let here = layout.root().display();
        write(
            "/proc/self/mounts",
            &format!("{source} {here} ext4 rw 0 0\n"),
        );
        let found = mounts::directories(&layout);
        assert_eq!(found[0].disks, *disks, "{source}");
    }
}
