//! Checks processors, memory, firmware, identity and host name.

use windrow_harvester::versions::Fact;
use windrow_host::Firmware;
use windrow_model::checks::NoFacts::NotChecked;
use windrow_model::checks::{CheckFacts, CheckResult};
use windrow_model::grammars::is_subdomain;
use windrow_model::reasons::Severity;

use super::Judged;
use crate::PlannedRole;
use crate::minimums::Figure;

const GIB: u64 = 1 << 30;
/// The share that the kernel reserves. The installer allows for the same (harvester-installer pkg/preflight/checks.go).
const KEPT_PERCENT: u64 = 10;
/// Default UUIDs and serial numbers of boards whose vendor has not set any.
const PLACEHOLDERS: &[&str] = &[
    "to be filled by o.e.m.",
    "default string",
    "not specified",
    "not applicable",
    "system serial number",
    "none",
    "0123456789",
    "00000000-0000-0000-0000-000000000000",
    "ffffffff-ffff-ffff-ffff-ffffffffffff",
    "03000200-0400-0500-0006-000700080009",
];

pub(super) fn architecture(judged: &Judged<'_>) -> CheckResult {
    const BUILT: [&str; 4] = ["x86_64", "amd64", "aarch64", "arm64"];
    Ok(match judged.host.machine.architecture.get() {
        Ok(architecture) if BUILT.contains(&architecture.as_str()) => {
            CheckFacts::found(architecture)
        }
        Ok(architecture) => CheckFacts {
            problems: vec![format!(
                "{architecture}: Harvester and RKE2 are built for x86_64 and arm64"
            )],
            ..CheckFacts::default()
        },
        Err(why) => CheckFacts::unknown(why),
    })
}

pub(super) fn cpus(judged: &Judged<'_>) -> CheckResult {
    let cpus = match judged.host.cpus.get() {
        Ok(cpus) => cpus,
        Err(why) => return Ok(CheckFacts::unknown(why)),
    };
    let cores = match cpus.cores.known() {
        Some(cores) => format!(" on {cores} cores"),
        None => String::new(),
    };
    let model = match cpus.model.as_str() {
        "" => String::new(),
        model => format!(", {model}"),
    };
    let mut facts = CheckFacts::found(format!("{} processors{cores}{model}", cpus.logical));
    if let Some(minimum) = judged.minimum(Figure::Cpus) {
        let has = u64::from(cpus.logical);
        judged.against(&mut facts, minimum, "", |asked| has >= asked);
    }
    Ok(facts)
}

pub(super) fn memory(judged: &Judged<'_>) -> CheckResult {
    let memory = match judged.host.memory.get() {
        Ok(memory) => memory,
        Err(why) => return Ok(CheckFacts::unknown(why)),
    };
    let installed = memory.installed.known().copied();
    let text = match installed {
        Some(bytes) => format!(
            "{} installed, {} for the kernel",
            gib(bytes),
            gib(memory.total)
        ),
        None => format!(
            "{} for the kernel, which is less than the installed memory",
            gib(memory.total)
        ),
    };
    let mut facts = CheckFacts::found(text);
    if let Some(modules) = memory.modules.known().filter(|modules| !modules.is_empty()) {
        facts.found.push(format!("{} modules", modules.len()));
    }
    if let Some(minimum) = judged.minimum(Figure::MemoryGib) {
        judged.against(&mut facts, minimum, " GiB", |asked| match installed {
            Some(bytes) => bytes / GIB >= asked,
            None => memory.total >= asked * GIB / 100 * (100 - KEPT_PERCENT),
        });
    }
    Ok(facts)
}

pub(super) fn gib(bytes: u64) -> String {
    let tenths = u128::from(bytes) * 10 / u128::from(GIB);
    match tenths % 10 {
        0 => format!("{} GiB", tenths / 10),
        rest => format!("{}.{rest} GiB", tenths / 10),
    }
}

pub(super) fn firmware(judged: &Judged<'_>) -> CheckResult {
    if !judged.is_harvester() {
        return Err(NotChecked("RKE2 does not ask for one"));
    }
    Ok(match judged.host.machine.firmware.get() {
        Ok(Firmware::Uefi) => CheckFacts::found("UEFI"),
        Ok(Firmware::Bios) if judged.holds(Fact::BiosRefused) => CheckFacts {
            problems: vec![format!(
                "a legacy BIOS: the installer of v{} ends there, even with `install.skipchecks`",
                judged.wanted.release()
            )],
            ..CheckFacts::default()
        },
        Ok(Firmware::Bios) => {
            let mut facts = CheckFacts::found("a legacy BIOS");
            if judged.holds(Fact::BiosWarned) {
                let why = "a legacy BIOS is deprecated, and v1.8.0 refuses it".to_owned();
                judged.installer_warns(&mut facts, why);
            }
            facts
        }
        Err(why) => CheckFacts::unknown(why),
    })
}

pub(super) fn bare_metal(judged: &Judged<'_>) -> CheckResult {
    if !judged.is_harvester() {
        return Err(NotChecked("RKE2 runs on virtual machines too"));
    }
    Ok(match judged.host.machine.hypervisor.get() {
        Ok(none) if none == "none" => CheckFacts::found("bare metal"),
        Ok(hypervisor) => {
            let mut facts = CheckFacts::default();
            let why = format!("a virtual machine ({hypervisor})");
            match judged.wanted.production {
                true => facts.problems.push(why),
                false => judged.installer_warns(&mut facts, why),
            }
            facts
        }
        Err(why) => CheckFacts::unknown(why),
    })
}

pub(super) fn virtualisation(judged: &Judged<'_>) -> CheckResult {
    if !judged.is_harvester() {
        return Err(NotChecked("plain RKE2 runs no virtual machines"));
    }
    let cpus = judged.host.cpus.get();
    let extension = cpus.and_then(|cpus| cpus.virtualisation.get());
    let kvm = judged.host.machine.kvm.get();
    let mut facts = CheckFacts::default();
    match (kvm, extension) {
        (Ok(true), Ok(extension)) if extension != "none" => {
            facts.found.push(format!("{extension}, /dev/kvm"));
        }
        (Ok(true), _) => facts.found.push("/dev/kvm".to_owned()),
        (Ok(false), extension) => {
            let why = match extension {
                Ok(none) if none == "none" => {
                    "there is no /dev/kvm, and the processors show neither vmx nor svm: they lack virtualisation, or the firmware disables it"
                        .to_owned()
                }
                Ok(extension) => format!(
                    "there is no /dev/kvm, although the processors have {extension}: the module kvm is not loaded, or the firmware locked it"
                ),
                Err(_) => "there is no /dev/kvm".to_owned(),
            };
            match judged.wanted.role {
                // A witness runs no virtual machines, but the installer checks it anyway.
                PlannedRole::Witness => judged.installer_warns(&mut facts, why),
                _ => facts.problems.push(why),
            }
        }
        (Err(why), _) => facts.unknown.push(why.to_owned()),
    }
    Ok(facts)
}

pub(super) fn identity(judged: &Judged<'_>) -> CheckResult {
    let machine = &judged.host.machine;
    let mut facts = CheckFacts::default();
    let name =
        |reading: &windrow_host::Reading<String>| reading.known().cloned().unwrap_or_default();
    let called = format!("{} {}", name(&machine.vendor), name(&machine.product));
    if !called.trim().is_empty() {
        facts.found.push(called.trim().to_owned());
    }
    for (what, reading) in [("serial number", &machine.serial), ("UUID", &machine.uuid)] {
        match reading.get() {
            Ok(value) if is_placeholder(value) => facts
                .warnings
                .push(format!("the {what} is a placeholder: {value:?}")),
            Ok(value) => facts.found.push(format!("{what} {value}")),
            Err(why) => facts.unknown.push(format!("{what}: {why}")),
        }
    }
    for nic in judged.host.nics() {
        facts.found.push(format!("{} {}", nic.name, nic.mac));
    }
    Ok(facts)
}

/// Reports the problems of the configuration that Harvester's installer would report before it checks the machine.
pub(super) fn configuration(judged: &Judged<'_>) -> CheckResult {
    let Some(findings) = &judged.wanted.configuration else {
        return Err(NotChecked("no Harvester configuration is given"));
    };
    let mut facts = CheckFacts::default();
    for finding in findings {
        let places = finding.at.first().map(ToString::to_string);
        let text = format!("{}: {}", places.unwrap_or_default(), finding.message);
        match finding.severity {
            Severity::Error => facts.problems.push(text),
            Severity::Warning => facts.warnings.push(text),
            Severity::Notice => facts.found.push(text),
            Severity::Info => {}
        }
    }
    if facts.problems.is_empty() && facts.warnings.is_empty() {
        facts.found.push("the installer accepts it".to_owned());
    }
    Ok(facts)
}

fn is_placeholder(value: &str) -> bool {
    let value = value.trim().to_lowercase();
    value.is_empty() || PLACEHOLDERS.contains(&value.as_str())
}

pub(super) fn hostname(judged: &Judged<'_>) -> CheckResult {
    let configured = judged.wanted.hostname.as_ref();
    let (name, from) = match (configured, judged.host.machine.hostname.get()) {
        (Some(name), _) => (name.text.as_str(), format!(" ({})", name.at)),
        (None, _) if judged.is_harvester() && judged.wanted.automatic => {
            return Ok(CheckFacts {
                warnings: vec![
                    "the configuration names none: the installer uses the DHCP server's, or generates one"
                        .to_owned(),
                ],
                ..CheckFacts::default()
            });
        }
        (None, Ok(name)) => (name.as_str(), String::new()),
        (None, Err(why)) => return Ok(CheckFacts::unknown(why)),
    };
    let mut facts = CheckFacts::default();
    if !judged.is_harvester() {
        judge_name_of_rke2(name, &from, &mut facts);
        return Ok(facts);
    }
    match illegal(name) {
        Some(why) => facts.problems.push(format!("{name}{from}: {why}")),
        None => facts.found.push(format!("{name}{from}")),
    }
    Ok(facts)
}

/// RKE2 converts the name to lower case (k3s `GetHostnameAndIPs`, `pkg/util/net.go`), and `with-node-id` makes names differ.
fn judge_name_of_rke2(name: &str, from: &str, facts: &mut CheckFacts) {
    let lower = name.to_lowercase();
    match illegal(&lower) {
        Some(why) if is_localhost(&lower) => facts.warnings.push(format!("{name}{from}: {why}")),
        Some(why) => facts.problems.push(format!("{name}{from}: {why}")),
        None if lower != name => facts
            .found
            .push(format!("{name}{from}: RKE2 calls it {lower}")),
        None => facts.found.push(format!("{name}{from}")),
    }
}

fn is_localhost(name: &str) -> bool {
    name == "localhost" || name.starts_with("localhost.")
}

/// The reason why a node cannot have this name. Kubernetes accepts only a lower-case subdomain (RFC 1123), and every machine is
/// called localhost.
fn illegal(name: &str) -> Option<&'static str> {
    const LONGEST_LABEL: usize = 63;
    let is_short = |label: &str| label.len() <= LONGEST_LABEL;
    match name {
        "" => Some("it is empty"),
        _ if is_localhost(name) => {
            Some("every machine has this name, and two nodes cannot have the same name")
        }
        _ if !is_subdomain(name) || !name.split('.').all(is_short) => {
            Some("not a lower-case RFC 1123 subdomain")
        }
        _ => None,
    }
}
