//! The hardware class of a machine. Similar machines share one class, so that boot times are compared only between them.

use crate::{DiskKind, HostFacts};

/// Usual numbers of logical processors. Any other number counts as the next larger one.
const CPUS: &[u64] = &[
    1, 2, 4, 6, 8, 12, 16, 20, 24, 28, 32, 40, 48, 56, 64, 72, 80, 96, 112, 128, 160, 192, 224,
    256, 320, 384, 512,
];
/// Usual memory sizes in GiB. The firmware reserves a part, so the measured size is rounded up.
const GIBIBYTES: &[u64] = &[
    1, 2, 4, 6, 8, 12, 16, 24, 32, 48, 64, 96, 128, 192, 256, 384, 512, 768, 1024, 1536, 2048,
    3072, 4096,
];
const GIB: u64 = 1 << 30;

/// The hardware class, for example `16cpu-64g-nvme`: logical processors, memory in GiB, and the kind of the disk with etcd's data
/// (`nvme`, `ssd`, `hdd`, `virtual` or `unknown`). A virtual machine has the suffix `-vm`. `None` if the number of processors or
/// the memory is unknown.
pub fn hardware_class(facts: &HostFacts) -> Option<String> {
    let cpus = rounded_up(u64::from(facts.cpus.known()?.logical), CPUS);
    let memory = facts.memory.known()?;
    let bytes = memory.installed.known().copied().unwrap_or_default();
    let bytes = bytes.max(memory.total);
    let gibibytes = rounded_up(bytes.div_ceil(GIB), GIBIBYTES);
    let disk = disk(facts);
    let hypervisor = facts.machine.hypervisor.known();
    let vm = match hypervisor.is_some_and(|name| name != "none") {
        true => "-vm",
        false => "",
    };
    Some(format!("{cpus}cpu-{gibibytes}g-{disk}{vm}"))
}

/// The next usual size, or the next power of two if there is none.
fn rounded_up(size: u64, sold: &[u64]) -> u64 {
    let sold = sold.iter().copied().find(|one| *one >= size);
    // No real machine has a size near the largest number.
    sold.unwrap_or_else(|| size.checked_next_power_of_two().unwrap_or(u64::MAX))
}

/// The kind of the disk with the first directory, which is etcd's: a server waits for its writes. A directory on several disks of
/// different kinds is unknown.
fn disk(facts: &HostFacts) -> &'static str {
    let on = facts.directories.first().map(|directory| &directory.disks);
    let all = facts.disks.known().map_or(&[][..], Vec::as_slice);
    let kinds = on.into_iter().flatten().map(|name| {
        let found = all.iter().find(|disk| disk.name == *name);
        found.and_then(|disk| disk.kind.known().copied())
    });
    let kinds: Vec<Option<DiskKind>> = kinds.collect();
    match kinds.split_first() {
        Some((Some(first), rest)) if rest.iter().all(|one| *one == Some(*first)) => match first {
            DiskKind::Nvme => "nvme",
            DiskKind::SolidState => "ssd",
            DiskKind::Rotational => "hdd",
            DiskKind::Virtual => "virtual",
        },
        _ => "unknown",
    }
}

#[cfg(test)]
mod tests {
    use crate::{BlockDevice, Cpus, DirectoryRole, DirectorySpace, Memory, Reading};

    use super::*;

    fn machine(cpus: u32, total: u64, installed: Option<u64>) -> HostFacts {
        HostFacts {
            cpus: Reading::Known(Cpus {
                model: String::new(),
                logical: cpus,
                cores: Reading::default(),
                virtualisation: Reading::default(),
            }),
            memory: Reading::Known(Memory {
                total,
                available: total,
                installed: installed.ok_or(String::new()).into(),
                modules: Reading::default(),
            }),
            ..HostFacts::default()
        }
    }

    fn with_disks(on: &[&str], disks: &[(&str, DiskKind)]) -> HostFacts {
        let mut facts = machine(4, 8 * GIB, None);
        let disks = disks.iter().map(|(name, kind)| BlockDevice {
            name: (*name).to_owned(),
            size: 1 << 40,
            kind: Reading::Known(*kind),
            model: String::new(),
            serial: String::new(),
            links: Vec::new(),
            removable: false,
            fibre_channel: false,
        });
        facts.disks = Reading::Known(disks.collect());
        facts.directories = vec![DirectorySpace {
            path: "/var/lib".to_owned(),
            role: DirectoryRole::Etcd,
            file_system: "ext4".to_owned(),
            disks: on.iter().map(|name| (*name).to_owned()).collect(),
            total: 0,
            free: 0,
            inodes: 0,
            free_inodes: 0,
            unknown: None,
        }];
        facts
    }

    #[test]
    fn equal_machines_are_of_one_class_whatever_the_firmware_keeps_to_itself() {
        let cases = [
            (16, 67_315_712_000, Some(64 * GIB), "16cpu-64g-unknown"),
            (16, 66_900_000_000, None, "16cpu-64g-unknown"),
            (3, 3 * GIB, None, "4cpu-4g-unknown"),
            (1, 1, None, "1cpu-1g-unknown"),
            (88, 750 * GIB, Some(768 * GIB), "96cpu-768g-unknown"),
            (1000, 5000 * GIB, None, "1024cpu-8192g-unknown"),
        ];
        for (cpus, total, installed, expected) in cases {
            let class = hardware_class(&machine(cpus, total, installed));
            assert_eq!(class.as_deref(), Some(expected));
        }
    }

    #[test]
    fn the_disk_that_counts_is_the_one_with_etcds_data() {
        let all = [
            ("nvme0n1", DiskKind::Nvme),
            ("nvme1n1", DiskKind::Nvme),
            ("sda", DiskKind::SolidState),
            ("sdb", DiskKind::Rotational),
            ("vda", DiskKind::Virtual),
        ];
        let cases: &[(&[&str], &str)] = &[
            (&["nvme0n1"], "4cpu-8g-nvme"),
            (&["sda"], "4cpu-8g-ssd"),
            (&["sdb"], "4cpu-8g-hdd"),
            (&["vda"], "4cpu-8g-virtual"),
            (&["nvme0n1", "nvme1n1"], "4cpu-8g-nvme"),
            (&["nvme0n1", "sda"], "4cpu-8g-unknown"),
            (&["sdz"], "4cpu-8g-unknown"),
            (&[], "4cpu-8g-unknown"),
        ];
        for (on, expected) in cases {
            let class = hardware_class(&with_disks(on, &all));
            assert_eq!(class.as_deref(), Some(*expected), "{on:?}");
        }
    }

    #[test]
    fn a_virtual_machine_is_compared_with_its_like_and_half_a_class_is_none() {
        let mut facts = with_disks(&["sda"], &[("sda", DiskKind::SolidState)]);
        facts.machine.hypervisor = Reading::Known("kvm".to_owned());
        assert_eq!(hardware_class(&facts).as_deref(), Some("4cpu-8g-ssd-vm"));
        facts.machine.hypervisor = Reading::Known("none".to_owned());
        assert_eq!(hardware_class(&facts).as_deref(), Some("4cpu-8g-ssd"));
        facts.memory = Reading::default();
        assert_eq!(hardware_class(&facts), None);
        facts = machine(4, 8 * GIB, None);
        facts.cpus = Reading::default();
        assert_eq!(hardware_class(&facts), None);
    }
}
