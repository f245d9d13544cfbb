//! Machines with odd files, and with files that cannot be read: an unknown fact is not a "no".

use super::*;

fn bytes(layout: &Layout, path: &str, content: &[u8]) {
    let path = layout.path(path);
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(path, content).unwrap();
}

/// A link to itself: not even root can read it.
fn unreadable(layout: &Layout, path: &str) {
    let path = layout.path(path);
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    symlink(path.file_name().unwrap(), &path).unwrap();
}

#[test]
fn a_file_that_is_not_utf8_is_read() {
    let (_root, layout) = machine(&[]);
    let root = layout.root().canonicalize().unwrap();
    let mut table = format!("x {} tmpfs rw 0 0\n", root.display()).into_bytes();
    table.extend(b"/dev/sdc1 /mnt/\xff vfat rw 0 0\n");
    bytes(&layout, "/proc/self/mounts", &table);
    let file_system = file_system_of(&layout, &root);
    assert_eq!(file_system.as_deref(), Some("tmpfs"));
}

#[test]
fn a_mount_point_may_contain_every_character_that_the_kernel_escapes() {
    let (_root, layout) = machine(&[]);
    let root = layout.root().canonicalize().unwrap();
    let directory = root.join("a\tb c\\d");
    fs::create_dir(&directory).unwrap();
    let table = format!("x {}/a\\011b\\040c\\134d xfs rw 0 0\n", root.display());
    bytes(&layout, "/proc/self/mounts", table.as_bytes());
    let file_system = file_system_of(&layout, &directory);
    assert_eq!(file_system.as_deref(), Some("xfs"));
}

#[test]
fn a_device_that_the_kernel_does_not_list_is_not_a_disk() {
    let (_root, layout) = machine(&[]);
    let root = layout.root().canonicalize().unwrap();
    let table = format!("/dev/root {} ext4 rw 0 0\n", root.display());
    bytes(&layout, "/proc/self/mounts", table.as_bytes());
    assert!(mounts::directories(&layout)[0].disks.is_empty());
}

#[test]
fn a_directory_that_cannot_be_read_is_not_taken_for_the_directory_above_it() {
    let (_root, layout) = machine(&[]);
    unreadable(&layout, "/var/lib/rancher/rke2/server/db");
    let found = mounts::directories(&layout);
    assert_eq!(found[0].path, "/var/lib/rancher/rke2/server/db");
    assert_eq!((found[0].total, found[0].disks.len()), (0, 0));
    assert!(found.len() > 1, "the others are read all the same");
}

#[test]
fn a_disk_whose_size_cannot_be_read_makes_the_disks_unknown() {
    let (_root, layout) = machine(&[
        ("/sys/block/sda/size", "2000\n"),
        // It was removed while the others were read.
        ("/sys/block/sdb/ro", "0\n"),
    ]);
    let names = |found: &[windrow_host::BlockDevice]| -> Vec<String> {
        found.iter().map(|disk| disk.name.clone()).collect()
    };
    let disks = disks::disks(&layout);
    assert_eq!(names(disks.known().unwrap()), ["sda"]);
    unreadable(&layout, "/sys/block/sdb/size");
    assert!(disks::disks(&layout).known().is_none());
}

#[test]
fn paths_of_an_nvme_disk_and_devices_made_of_others_are_not_disks() {
    let path = "/sys/devices/pci0/nvme0/nvme0c0n1";
    let head = "/sys/devices/virtual/nvme-subsystem/nvme-subsys0/nvme0n1";
    let (_root, layout) = machine(&[
        (&format!("{path}/size"), "2000\n"),
        (&format!("{path}/hidden"), "1\n"),
        (&format!("{head}/size"), "2000\n"),
        (&format!("{head}/hidden"), "0\n"),
        ("/sys/devices/virtual/block/zd0/size", "2000\n"),
        ("/sys/devices/virtual/block/bcache0/size", "2000\n"),
        ("/sys/block/.keep", ""),
    ]);
    for device in [
        path,
        head,
        "/sys/devices/virtual/block/zd0",
        "/sys/devices/virtual/block/bcache0",
    ] {
        let name = device.rsplit('/').next().unwrap();
        let link = layout.path(&format!("/sys/block/{name}"));
        symlink(format!("../..{device}"), link).unwrap();
    }
    let disks = disks::disks(&layout);
    let names: Vec<&String> = disks.known().unwrap().iter().map(|it| &it.name).collect();
    assert_eq!(names, ["nvme0n1"]);
}

#[test]
fn a_nic_is_listed_however_many_virtual_functions_come_before_it() {
    let (_root, layout) = machine(&[]);
    let nic = |name: &str, last: u32, function: bool| {
        let file = |part: &str| format!("/sys/class/net/{name}/{part}");
        let mac = format!("02:00:00:00:{:02x}:{:02x}\n", last >> 8, last & 0xff);
        bytes(&layout, &file("address"), mac.as_bytes());
        bytes(&layout, &file("device/vendor"), b"");
        if function {
            bytes(&layout, &file("device/physfn/vendor"), b"");
        }
    };
    for number in 0..300 {
        nic(&format!("ens1v{number}"), number, true);
    }
    nic("ens9", 300, false);
    let links = links::links(&layout);
    let links = links.known().unwrap();
    assert!(links.iter().any(|link| link.name == "ens9"));
    assert!(links.len() < 300 && links.is_sorted_by_key(|link| &link.name));
}

#[test]
fn a_vlan_is_a_link_although_only_root_may_read_its_number() {
    let (_root, layout) = machine(&[
        ("/sys/class/net/bond0.100/address", "52:54:00:00:00:01\n"),
        (
            "/sys/class/net/bond0.100/uevent",
            "DEVTYPE=vlan\nIFINDEX=9\n",
        ),
    ]);
    let links = links::links(&layout);
    let links = links.known().unwrap();
    assert_eq!((links.len(), links[0].vlan), (1, None));
}

#[test]
fn a_missing_device_for_virtual_machines_is_not_known_of_another_machines_disk() {
    let (_root, layout) = machine(&[("/dev/null", "")]);
    assert!(machine::identity(&layout).kvm.known().is_none());
}
