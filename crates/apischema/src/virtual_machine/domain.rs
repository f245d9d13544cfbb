//! Processors, memory and firmware.

use windrow_model::manifest::Node;
use windrow_model::quantity::milli;

use super::{Judged, has, text};

/// The most processors of QEMU's q35 (`hw/i386/pc_q35.c`, 9.1; fewer before).
const MOST_CPUS: i128 = 4096;

const DOMAIN: &str = "spec.template.spec.domain";

impl Judged {
    pub(super) fn domain(&mut self, spec: &Node, of_instancetype: bool) {
        let Some(domain) = spec.get("domain") else {
            return;
        };
        let at = |field: &str| format!("{DOMAIN}.{field}");
        if let Some(cpu) = domain.get("cpu") {
            for field in ["cores", "maxSockets", "sockets", "threads"] {
                let Some(node) = cpu.get(field).filter(|node| !node.is_null()) else {
                    continue;
                };
                // Text is of the definition's own rules.
                let number = node.to_json().as_f64();
                let fits = |number: f64| (0.0..=f64::from(u32::MAX)).contains(&number);
                if number.is_some_and(|number| !fits(number)) {
                    self.add(
                        node,
                        &at(&format!("cpu.{field}")),
                        "a number from 0 to 4294967295",
                    );
                }
            }
            let number = |field: &str| cpu.get(field).and_then(|node| node.to_json().as_u64());
            if let (Some(node), Some(sockets), Some(most)) =
                (cpu.get("sockets"), number("sockets"), number("maxSockets"))
                && most > 0
                && sockets > most
            {
                self.add(node, &at("cpu.sockets"), "more than `maxSockets`");
            }
            // Its mutator sets `maxSockets: 1` (harvester `pkg/webhook/resources/virtualmachine/mutator.go`, from v1.6.1).
            let has_limit = domain.at(&["resources", "limits", "memory"]).is_some();
            if let (Some(node), Some(2..)) = (cpu.get("sockets"), number("sockets"))
                && self.has_later_rules()
                && !self.has_hotplug
                && has_limit
            {
                let why = "Harvester allows one socket, unless processors and memory can be hotplugged: use `cores`";
                self.add(node, &at("cpu.sockets"), why);
            }
            for feature in cpu.list("features") {
                if let Some((policy, _)) = text(feature, "policy") {
                    let words = ["disable", "forbid", "force", "optional", "require"];
                    self.one_of(policy, &at("cpu.features[].policy"), &words);
                }
            }
        }
        self.resources(domain, of_instancetype);
        self.firmware(domain);
    }

    fn resources(&mut self, domain: &Node, of_instancetype: bool) {
        let amount = |kind: &str, of: &str| {
            let node = domain.at(&["resources", kind, of])?;
            let text = match node.as_str() {
                Some(text) => text.to_owned(),
                None => node.to_json().to_string(),
            };
            Some((node, milli(&text)?))
        };
        let limited = |of: &str| amount("limits", of).is_some_and(|(_, amount)| amount > 0);
        for kind in ["limits", "requests"] {
            for of in ["cpu", "memory"] {
                let Some((node, amount)) = amount(kind, of) else {
                    continue;
                };
                let field = format!("{DOMAIN}.resources.{kind}.{of}");
                // Harvester derives requests from limits.
                if kind == "requests" && self.on_harvester && limited(of) {
                    continue;
                }
                if amount < 0 {
                    self.add(node, &field, "it is negative");
                } else if of == "cpu" && amount > MOST_CPUS * 1000 {
                    self.add(
                        node,
                        &field,
                        "no machine of QEMU has more than 4096 processors",
                    );
                } else if (kind, of) == ("requests", "memory")
                    && (1..1_000_000_000).contains(&amount)
                {
                    self.add(
                        node,
                        &field,
                        "a VM has at least 1M of memory; write for example 512Mi",
                    );
                }
            }
        }
        let of_guest = |field: &str| {
            domain
                .get("memory")
                .is_some_and(|memory| has(memory, field))
        };
        let has_limit = amount("limits", "memory").is_some() || of_guest("guest");
        let has_memory =
            has_limit || amount("requests", "memory").is_some() || of_guest("hugepages");
        let lack = match (has_memory, has_limit) {
            // Elsewhere KubeVirt takes the VM, and never starts it.
            _ if !self.has_later_rules() => None,
            (false, _) => Some("the VM has no memory: write `limits.memory` or `memory.guest`"),
            (true, false) => Some(
                "Harvester does not take `requests.memory` alone: write `limits.memory` or `memory.guest`",
            ),
            _ => None,
        };
        if let Some(why) = lack.filter(|_| !of_instancetype) {
            self.add(domain, &format!("{DOMAIN}.resources"), why);
        }
        // Harvester derives the requests from the limits, and replaces written ones.
        let replaced = self.on_harvester;
        for of in ["cpu", "memory"].iter().filter(|_| !replaced) {
            if let (Some((node, requested)), Some((_, limit))) =
                (amount("requests", of), amount("limits", of))
                && limit > 0
                && requested > limit
            {
                let field = format!("{DOMAIN}.resources.requests.{of}");
                self.add(node, &field, "more than the limit");
            }
        }
    }

    fn firmware(&mut self, domain: &Node) {
        let loader = domain.at(&["firmware", "bootloader"]);
        let efi = loader
            .and_then(|loader| loader.get("efi"))
            .filter(|node| !node.is_null());
        if let (Some(loader), Some(_)) = (loader, efi)
            && has(loader, "bios")
        {
            let field = format!("{DOMAIN}.firmware.bootloader");
            self.add(loader, &field, "it has both `bios` and `efi`");
        }
        let is_on = |node: &Node, field: &str| {
            let value = node.get(field).filter(|node| !node.is_null());
            value.is_none_or(|node| node.as_bool() == Some(true))
        };
        let smm = domain
            .at(&["features", "smm"])
            .filter(|node| !node.is_null());
        if let Some(efi) = efi
            && !self.has_preference
            && is_on(efi, "secureBoot")
            && !smm.is_some_and(|smm| is_on(smm, "enabled"))
        {
            let field = format!("{DOMAIN}.firmware.bootloader.efi.secureBoot");
            let why = "secure boot, which is the default of EFI, needs `features.smm.enabled: true`; or write `secureBoot: false`";
            self.add(efi, &field, why);
        }
        if let Some(machine) = domain.get("machine")
            && let Some((node, kind)) = text(machine, "type")
        {
            let known = ["q35", "pc-q35", "s390-ccw-virtio", "virt"];
            let is_q35 = known.iter().any(|known| kind.starts_with(known));
            let is_old_pc = kind == "pc" || kind.starts_with("pc-i440fx");
            // Only Harvester v1.4 has the older machines.
            if !is_q35 && !(is_old_pc && (self.is_before((1, 5)) || !self.on_harvester)) {
                self.add(node, &format!("{DOMAIN}.machine.type"), "write q35");
            }
        }
    }
}
