//! Interfaces and networks.

use std::collections::HashSet;

use windrow_model::manifest::Node;

use super::{Judged, has, interfaces, text};

const INTERFACE: &str = "spec.template.spec.domain.devices.interfaces[]";
const NETWORK: &str = "spec.template.spec.networks[]";
const MODELS: [&str; 7] = [
    "e1000", "e1000e", "igb", "ne2k_pci", "pcnet", "rtl8139", "virtio",
];

impl Judged {
    pub(super) fn networks(&mut self, spec: &Node) {
        let networks = spec.list("networks");
        let names_of = |nodes: &[Node]| -> HashSet<String> {
            let names = nodes.iter().filter_map(|node| node.str_at(&["name"]));
            names.map(str::to_owned).collect()
        };
        let (of_networks, of_interfaces) = (names_of(networks), names_of(interfaces(spec)));
        self.differ(networks, &format!("{NETWORK}.name"));
        self.differ(interfaces(spec), &format!("{INTERFACE}.name"));
        let mut pods = networks.iter().filter(|network| has(network, "pod"));
        let of_pods = pods.next();
        if let Some(second) = pods.next() {
            self.add(
                second,
                NETWORK,
                "a second network of pods; a VM has at most one",
            );
        }
        for network in networks {
            let types = ["multus", "pod"];
            if types.iter().filter(|one| has(network, one)).count() != 1 {
                self.add(
                    network,
                    NETWORK,
                    "it needs exactly one of `multus` and `pod`",
                );
            }
            if let Some(multus) = network.get("multus").filter(|node| !node.is_null())
                && text(multus, "networkName").is_none()
            {
                let field = format!("{NETWORK}.multus.networkName");
                self.add(multus, &field, "it is missing");
            }
            if let Some((name, word)) = text(network, "name")
                && !of_interfaces.contains(word)
            {
                let field = format!("{NETWORK}.name");
                self.add(name, &field, "no interface has this name");
            }
        }
        let pod_name = of_pods.and_then(|network| network.str_at(&["name"]));
        for interface in interfaces(spec) {
            self.interface(interface, &of_networks, pod_name);
        }
    }

    fn interface(&mut self, interface: &Node, networks: &HashSet<String>, pods: Option<&str>) {
        let at = |field: &str| format!("{INTERFACE}.{field}");
        let name = text(interface, "name");
        match name {
            None => self.add(interface, &at("name"), "it is missing"),
            Some((node, word)) => {
                if !networks.contains(word) {
                    self.add(node, &at("name"), "no network has this name");
                }
                let is_right =
                    |letter: char| letter.is_ascii_alphanumeric() || "-_".contains(letter);
                if !word.chars().all(is_right) {
                    self.add(
                        node,
                        &at("name"),
                        "it has only letters, digits, `-` and `_`",
                    );
                }
            }
        }
        let is_of_pods = name.is_some() && name.map(|name| name.1) == pods;
        if let Some(masquerade) = interface.get("masquerade").filter(|node| !node.is_null())
            && !is_of_pods
        {
            let why = "`masquerade` works only on the network of pods; use `bridge`";
            self.add(masquerade, &at("masquerade"), why);
        }
        if let Some((model, word)) = text(interface, "model")
            && !MODELS.contains(&word)
        {
            let why = format!("write one of {}", MODELS.join(", "));
            self.add(model, &at("model"), &why);
        }
        if let Some((address, word)) = text(interface, "macAddress")
            && !is_mac(word)
        {
            self.add(
                address,
                &at("macAddress"),
                "it is not an address of six bytes",
            );
        }
        if let Some((address, word)) = text(interface, "pciAddress")
            && !is_pci(word)
        {
            let why = "write it as 0000:81:01.0";
            self.add(address, &at("pciAddress"), why);
        }
    }

    /// Names that appear twice.
    pub(super) fn differ(&mut self, nodes: &[Node], field: &str) {
        let mut known = HashSet::new();
        for node in nodes {
            if let Some((name, word)) = text(node, "name")
                && !known.insert(word)
            {
                self.add(name, field, "two have the same name");
            }
        }
    }
}

/// Go's `net.ParseMAC`, up to six bytes: pairs with `:` or `-` between them, or groups of four with `.`.
fn is_mac(text: &str) -> bool {
    let groups = |between: char, digits: usize, count: usize| {
        let parts: Vec<&str> = text.split(between).collect();
        parts.len() == count
            && parts.iter().all(|part| {
                part.len() == digits && part.chars().all(|digit| digit.is_ascii_hexdigit())
            })
    };
    // Newer Go also reads twelve digits.
    groups(':', 2, 6) || groups('-', 2, 6) || groups('.', 4, 3) || groups(':', 12, 1)
}

/// `hardware.PCI_ADDRESS_PATTERN`.
pub(super) fn is_pci(text: &str) -> bool {
    let is_hex = |part: &str, digits: usize| {
        part.len() == digits && part.chars().all(|digit| digit.is_ascii_hexdigit())
    };
    let parts: Vec<&str> = text.split([':', '.']).collect();
    let [domain, bus, slot, function] = parts[..] else {
        return false;
    };
    let punctuation: String = text.chars().filter(|one| ":.".contains(*one)).collect();
    punctuation == "::."
        && is_hex(domain, 4)
        && is_hex(bus, 2)
        && is_hex(slot, 2)
        && function.len() == 1
        && function.chars().all(|digit| ('0'..='7').contains(&digit))
}
