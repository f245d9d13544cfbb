//! Groups reports by machine, and finds the expected node of each. This is a pure function of the set of identities. The hardware
//! address takes precedence over the serial number, and the serial number over the host name. Contradictions are reported.

use std::borrow::Cow;
use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};

use jiff::Timestamp;

use crate::identity::NodeIdentity;
use crate::inventory::{ExpectedNode, Inventory};
use crate::record::NodeRecord;

#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum MachineKey {
    Mac(String),
    Serial(String),
    Host(String),
}

impl MachineKey {
    pub(crate) fn text(&self) -> &str {
        match self {
            Self::Mac(text) | Self::Serial(text) | Self::Host(text) => text,
        }
    }
}

pub(crate) struct Machine<'r> {
    pub(crate) key: MachineKey,
    pub(crate) serials: BTreeSet<&'r str>,
    pub(crate) names: BTreeSet<String>,
    pub(crate) record: Cow<'r, NodeRecord>,
    /// Index of the expected node.
    pub(crate) expected: Option<usize>,
    pub(crate) conflicts: Vec<String>,
}

pub(crate) fn machines<'r>(
    inventory: &Inventory,
    records: &'r BTreeMap<NodeIdentity, NodeRecord>,
) -> Vec<Machine<'r>> {
    let mut machines = grouped(inventory, records);
    for machine in machines.values_mut() {
        if machine.record.reports_of_two_boots() {
            machine.conflicts.push(
                "two boots of it report at the same time: two machines may share its address or name"
                    .to_owned(),
            );
        }
        if let Some(contradiction) = machine.record.contradiction() {
            machine.conflicts.push(contradiction.to_string());
        }
    }
    let mut machines: Vec<Machine<'r>> = machines.into_values().collect();
    match_inventory(inventory, &mut machines);
    machines
}

fn grouped<'r>(
    inventory: &Inventory,
    records: &'r BTreeMap<NodeIdentity, NodeRecord>,
) -> BTreeMap<MachineKey, Machine<'r>> {
    let mut machines: BTreeMap<MachineKey, Machine<'r>> = BTreeMap::new();
    let with_mac = records.iter().filter(|(one, _)| !one.mac.is_empty());
    for (identity, record) in with_mac {
        add(
            &mut machines,
            MachineKey::Mac(identity.mac.clone()),
            identity,
            record,
        );
    }
    // A report without a hardware address belongs to the only machine with its serial number.
    let by_serial = |machines: &BTreeMap<MachineKey, Machine<'r>>, serial: &str| {
        let mut with = machines
            .iter()
            .filter(|(_, one)| one.serials.contains(serial));
        match (with.next(), with.next()) {
            (Some((key, _)), None) => key.clone(),
            _ => MachineKey::Serial(serial.to_owned()),
        }
    };
    let expected_mac = |serial: &str| {
        let mut nodes = inventory.nodes.iter();
        let node = nodes.find(|node| node.identity.serial == serial)?;
        (!node.identity.mac.is_empty()).then(|| MachineKey::Mac(node.identity.mac.clone()))
    };
    let keys: Vec<_> = records
        .iter()
        .filter(|(one, _)| one.mac.is_empty() && !one.serial.is_empty())
        .map(|(identity, record)| {
            let key = expected_mac(&identity.serial)
                .filter(|key| machines.contains_key(key))
                .unwrap_or_else(|| by_serial(&machines, &identity.serial));
            (key, identity, record)
        })
        .collect();
    for (key, identity, record) in keys {
        add(&mut machines, key, identity, record);
    }
    let by_name = names_of(&machines);
    let hosts = records
        .iter()
        .filter(|(one, _)| one.mac.is_empty() && one.serial.is_empty());
    let mut ambiguous = Vec::new();
    let mut keys = Vec::new();
    for (identity, record) in hosts {
        let known = identity.own_host().into_iter();
        let known = known.chain(record.names.iter().map(String::as_str));
        let known: BTreeSet<&MachineKey> = known
            .filter_map(|name| by_name.get(name))
            .flatten()
            .collect();
        let own = MachineKey::Host(identity.host.clone());
        match known.len() {
            1 => keys.extend(known.into_iter().map(|key| (key.clone(), identity, record))),
            0 => keys.push((own, identity, record)),
            _ => {
                ambiguous.push(own.clone());
                keys.push((own, identity, record));
            }
        }
    }
    for (key, identity, record) in keys {
        add(&mut machines, key, identity, record);
    }
    for key in ambiguous {
        if let Some(machine) = machines.get_mut(&key) {
            let text = format!("several machines are called {}", key.text());
            machine.conflicts.push(text);
        }
    }
    machines
}

fn names_of(
    machines: &BTreeMap<MachineKey, Machine<'_>>,
) -> BTreeMap<String, BTreeSet<MachineKey>> {
    let mut names: BTreeMap<String, BTreeSet<MachineKey>> = BTreeMap::new();
    for (key, machine) in machines {
        for name in &machine.names {
            names.entry(name.clone()).or_default().insert(key.clone());
        }
    }
    names
}

fn add<'r>(
    machines: &mut BTreeMap<MachineKey, Machine<'r>>,
    key: MachineKey,
    identity: &'r NodeIdentity,
    record: &'r NodeRecord,
) {
    let machine = machines.entry(key.clone()).or_insert_with(|| Machine {
        key,
        serials: BTreeSet::new(),
        names: BTreeSet::new(),
        record: Cow::Owned(NodeRecord::default()),
        expected: None,
        conflicts: Vec::new(),
    });
    if !identity.serial.is_empty() {
        machine.serials.insert(&identity.serial);
    }
    machine.names.extend(identity.own_host().map(str::to_owned));
    machine.names.extend(record.names.iter().cloned());
    match machine.record.boots.is_empty() {
        true => machine.record = Cow::Borrowed(record),
        false => machine.record.to_mut().join(record.clone()),
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum MatchedBy {
    Mac,
    Serial,
    Host,
    /// The name of the node in the list, for an entry without a host name.
    Name,
}

fn match_inventory(inventory: &Inventory, machines: &mut [Machine<'_>]) {
    let mut index: BTreeMap<(MatchedBy, &str), usize> = BTreeMap::new();
    let names: Vec<String> = inventory.nodes.iter().map(ExpectedNode::own_name).collect();
    for (at, node) in inventory.nodes.iter().enumerate() {
        let identity = &node.identity;
        for (by, part) in [
            (MatchedBy::Mac, &identity.mac),
            (MatchedBy::Serial, &identity.serial),
            (MatchedBy::Host, &identity.host),
            (MatchedBy::Name, &names[at]),
        ] {
            if !part.is_empty() {
                index.insert((by, part), at);
            }
        }
    }
    // The stronger match wins. Of two equal matches, the machine with the latest report wins, for example after a network card
    // was replaced.
    type Strength = (MatchedBy, Reverse<Option<Timestamp>>);
    let mut taken: BTreeMap<usize, (Strength, usize)> = BTreeMap::new();
    for (number, machine) in machines.iter_mut().enumerate() {
        let Some((by, at)) = matched(inventory, &index, machine) else {
            continue;
        };
        let strength = (by, Reverse(machine.record.heard()));
        let better = taken.get(&at).is_none_or(|(known, _)| strength < *known);
        if better {
            taken.insert(at, (strength, number));
        }
        machine.expected = Some(at);
    }
    for (number, machine) in machines.iter_mut().enumerate() {
        let Some(at) = machine.expected else { continue };
        if taken.get(&at).is_some_and(|(_, winner)| *winner != number) {
            machine.expected = None;
            let name = &inventory.nodes[at].name;
            machine.conflicts.push(format!(
                "it looks like {name}, and another machine is that already"
            ));
        }
    }
}

/// Finds the expected node of a machine, and records contradictions.
fn matched(
    inventory: &Inventory,
    index: &BTreeMap<(MatchedBy, &str), usize>,
    machine: &mut Machine<'_>,
) -> Option<(MatchedBy, usize)> {
    let mac = match &machine.key {
        MachineKey::Mac(mac) => mac.as_str(),
        MachineKey::Serial(_) | MachineKey::Host(_) => "",
    };
    let find = |by, part: &str| index.get(&(by, part)).map(|at| (by, *at));
    let serial = machine
        .serials
        .iter()
        .find_map(|serial| find(MatchedBy::Serial, serial));
    let host = machine
        .names
        .iter()
        .find_map(|name| find(MatchedBy::Host, name));
    let named = machine
        .names
        .iter()
        .find_map(|name| find(MatchedBy::Name, name));
    let best = find(MatchedBy::Mac, mac).or(serial).or(host).or(named)?;
    let node = &inventory.nodes[best.1];
    let name = &node.name;
    let differs =
        |expected: &str, own: &str| !expected.is_empty() && !own.is_empty() && expected != own;
    let other_mac = differs(&node.identity.mac, mac);
    if other_mac {
        let expected = &node.identity.mac;
        machine.conflicts.push(format!(
            "{name} is expected with {expected}, and this machine has {mac}"
        ));
    }
    let first = machine.serials.first().copied().unwrap_or_default();
    let other_serial = !machine.serials.contains(node.identity.serial.as_str())
        && differs(&node.identity.serial, first);
    if other_serial {
        let expected = &node.identity.serial;
        machine.conflicts.push(format!(
            "{name} is expected with serial {expected}, and this machine has {first}"
        ));
    }
    // A name alone is no proof against a different address or serial number, and the name in the list is not a host name.
    match best.0 {
        MatchedBy::Name => return None,
        MatchedBy::Host if other_mac || other_serial => return None,
        MatchedBy::Mac | MatchedBy::Serial | MatchedBy::Host => {}
    }
    let weaker = [serial, host, named].into_iter().flatten();
    if let Some((_, other)) = weaker.into_iter().find(|(_, at)| *at != best.1) {
        let other = &inventory.nodes[other].name;
        machine.conflicts.push(format!(
            "it is {name} by its address, and {other} by its serial or name"
        ));
    }
    Some(best)
}
