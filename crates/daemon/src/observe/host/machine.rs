//! The machine's model, processors, memory and sensors.

use jiff::Timestamp;
use sysinfo::{Components, CpuRefreshKind, MemoryRefreshKind, RefreshKind, System};
use windrow_host::smbios::installed_memory;
use windrow_host::{Cpus, Firmware, LoadAverage, MachineIdentity, Memory, Reading, Temperature};

use super::{cannot_read, is_this_machine, text};
use crate::fs;
use crate::layout::Layout;

/// The firmware's tables. They are smaller.
const TABLES: &str = "/sys/firmware/dmi/tables/DMI";
const HYPERVISORS: &[(&str, &str)] = &[
    ("qemu", "qemu"),
    ("kvm", "kvm"),
    ("kubevirt", "kvm"),
    ("vmware", "vmware"),
    ("virtualbox", "virtualbox"),
    ("innotek", "virtualbox"),
    ("xen", "xen"),
    ("amazon ec2", "amazon"),
    ("google compute", "google"),
    ("virtual machine", "microsoft"),
    ("bochs", "bochs"),
    ("parallels", "parallels"),
];

pub(super) fn identity(layout: &Layout) -> MachineIdentity {
    let dmi = |name: &str| Reading::from(text(layout, &format!("/sys/class/dmi/id/{name}")));
    let exists = |path: &str| fs::symlink_metadata(layout.path(path)).is_ok();
    let hostname = text(layout, "/proc/sys/kernel/hostname");
    let architecture = is_this_machine(layout).map(|()| System::cpu_arch());
    MachineIdentity {
        hostname: hostname.into(),
        vendor: dmi("sys_vendor"),
        product: dmi("product_name"),
        serial: dmi("product_serial"),
        uuid: dmi("product_uuid"),
        architecture: architecture.into(),
        // As Harvester's installer decides.
        firmware: match (exists("/sys/firmware/efi"), exists("/sys/firmware")) {
            (true, _) => Reading::Known(Firmware::Uefi),
            (false, true) => Reading::Known(Firmware::Bios),
            (false, false) => Reading::unknown("/sys/firmware is not there"),
        },
        hypervisor: hypervisor(layout).into(),
        kvm: if exists("/dev/kvm") {
            Reading::Known(true)
        } else {
            // The disk of a machine has no devices.
            is_this_machine(layout).map(|()| false).into()
        },
    }
}

/// The hypervisor below the machine: the processors show that there is one, the firmware shows which.
fn hypervisor(layout: &Layout) -> Result<String, String> {
    let cpuinfo = text(layout, "/proc/cpuinfo")?;
    let named = ["sys_vendor", "product_name", "bios_vendor"]
        .iter()
        .filter_map(|name| text(layout, &format!("/sys/class/dmi/id/{name}")).ok())
        .map(|text| text.to_lowercase())
        .find_map(|text| {
            let mut known = HYPERVISORS.iter();
            known.find(|(part, _)| text.contains(part))
        })
        .map(|(_, name)| (*name).to_owned());
    match (flags(&cpuinfo), named) {
        (Some(flags), named) if flags.contains(&"hypervisor") => {
            Ok(named.unwrap_or_else(|| "of an unknown make".to_owned()))
        }
        // Bare metal at the cloud has its vendor's name too.
        (Some(_), _) => Ok("none".to_owned()),
        (None, Some(named)) => Ok(named),
        (None, None) => Err("neither processors nor firmware tell of one".to_owned()),
    }
}

/// The features of the first processor, if the architecture lists them.
fn flags(cpuinfo: &str) -> Option<Vec<&str>> {
    let line = cpuinfo.lines().find(|line| line.starts_with("flags"))?;
    let (_, flags) = line.split_once(':')?;
    Some(flags.split_whitespace().collect())
}

pub(super) fn cpus(layout: &Layout) -> Reading<Cpus> {
    let read = || {
        is_this_machine(layout)?;
        let kinds = RefreshKind::nothing().with_cpu(CpuRefreshKind::nothing());
        let system = System::new_with_specifics(kinds);
        let logical = u32::try_from(system.cpus().len()).unwrap_or(u32::MAX);
        if logical == 0 {
            return Err("the kernel lists no processor".to_owned());
        }
        let model = system.cpus().first().map(|cpu| cpu.brand().trim());
        let cores = System::physical_core_count().and_then(|cores| u32::try_from(cores).ok());
        Ok(Cpus {
            model: model.unwrap_or_default().to_owned(),
            logical,
            cores: cores
                .ok_or("the kernel does not list them".to_owned())
                .into(),
            virtualisation: virtualisation(layout).into(),
        })
    };
    read().into()
}

fn virtualisation(layout: &Layout) -> Result<String, String> {
    let cpuinfo = text(layout, "/proc/cpuinfo")?;
    let flags = flags(&cpuinfo).ok_or("this architecture lists no features")?;
    let known = ["vmx", "svm"].into_iter().find(|one| flags.contains(one));
    Ok(known.unwrap_or("none").to_owned())
}

pub(super) fn memory(layout: &Layout) -> Reading<Memory> {
    let read = || {
        is_this_machine(layout)?;
        let kinds = RefreshKind::nothing().with_memory(MemoryRefreshKind::nothing().with_ram());
        let system = System::new_with_specifics(kinds);
        if system.total_memory() == 0 {
            return Err("the kernel tells of no memory".to_owned());
        }
        let tables = fs::read(layout.path(TABLES))
            .map(|tables| installed_memory(&tables))
            .map_err(|error| cannot_read(TABLES, &error));
        let silent = || format!("{TABLES} does not say it");
        let installed = tables
            .clone()
            .and_then(|found| found.mapped.ok_or_else(silent));
        let modules = tables.and_then(|found| match found.modules.is_empty() {
            true => Err(silent()),
            false => Ok(found.modules),
        });
        Ok(Memory {
            total: system.total_memory(),
            available: system.available_memory(),
            installed: installed.into(),
            modules: modules.into(),
        })
    };
    read().into()
}

pub(super) fn load(layout: &Layout) -> Reading<LoadAverage> {
    let read = is_this_machine(layout).map(|()| {
        let load = System::load_average();
        LoadAverage {
            one: load.one,
            five: load.five,
            fifteen: load.fifteen,
        }
    });
    read.into()
}

pub(super) fn booted(layout: &Layout) -> Reading<Timestamp> {
    let read = is_this_machine(layout).and_then(|()| {
        let seconds = i64::try_from(System::boot_time()).unwrap_or_default();
        match Timestamp::from_second(seconds) {
            Ok(at) if seconds > 0 => Ok(at),
            _ => Err("the kernel does not tell".to_owned()),
        }
    });
    read.into()
}

/// The sensors. One that shows nothing is left out.
pub fn temperatures(layout: &Layout) -> Reading<Vec<Temperature>> {
    let read = is_this_machine(layout).and_then(|()| {
        let components = Components::new_with_refreshed_list();
        let shown = |component: &sysinfo::Component| {
            let celsius = component.temperature().filter(|it| it.is_finite())?;
            let critical = component.critical().filter(|it| it.is_finite());
            Some(Temperature {
                sensor: component.label().to_owned(),
                celsius,
                critical: critical.ok_or("the sensor does not tell".to_owned()).into(),
            })
        };
        let sensors: Vec<Temperature> = components.list().iter().filter_map(shown).collect();
        match sensors.is_empty() {
            true => Err("the machine shows no sensor".to_owned()),
            false => Ok(sensors),
        }
    });
    read.into()
}
