//! VirtualMachines that share a MAC address or a volume (`pkg/webhook/resources/virtualmachine/validator.go`, v1.4.0 to v1.8.2).

use std::collections::BTreeMap;

use windrow_model::findings::{Finding, Location};
use windrow_model::manifest::{Node, Object, ObjectRef};
use windrow_plan::SourceMap;

use super::{Holder, in_cluster, second, taken_twice};
use crate::MinorRelease;
use crate::cross_check::references::bridge_network;

const CLUSTER_NETWORK: &str = "network.harvesterhci.io/clusternetwork";

#[derive(Debug, Default)]
pub(super) struct Machines {
    machines: Vec<Machine>,
    /// The cluster networks of networks of VMs, by namespace and name.
    networks: BTreeMap<(String, String), String>,
    /// Claims that only one node can mount, by namespace and name.
    of_one: Vec<(String, String)>,
}

#[derive(Debug)]
struct Machine {
    holder: Holder,
    cards: Vec<Card>,
    volumes: Vec<Volume>,
}

/// A network card with an address.
#[derive(Debug)]
struct Card {
    address: String,
    /// The namespace and name of the NetworkAttachmentDefinition; none for the network of pods.
    network: Option<(String, String)>,
    at: Location,
}

/// A volume of a claim.
#[derive(Debug)]
struct Volume {
    claim: (String, String),
    /// Of a claim in the files before it.
    is_of_one: bool,
    has_own_disk: bool,
    at: Location,
}

impl Machines {
    pub(super) fn add(&mut self, object: &Object, namespace: &str, shown: &SourceMap) {
        let own = || (namespace.to_owned(), object.id.name.to_string());
        match (object.id.group.as_str(), object.id.kind.as_str()) {
            ("k8s.cni.cncf.io", "NetworkAttachmentDefinition") => {
                let labels = object.node.at(&["metadata", "labels"]);
                let label = labels.and_then(|labels| labels.str_at(&[CLUSTER_NETWORK]));
                // Without the label, Harvester sets it.
                let bridge = || Some(bridge_network(&object.node)?.0);
                if let Some(network) = label.map(str::to_owned).or_else(bridge) {
                    self.networks.insert(own(), network);
                }
            }
            ("kubevirt.io", "VirtualMachine") => {
                let Some(machine) = object.node.at(&["spec", "template", "spec"]) else {
                    return;
                };
                let holder = Holder {
                    id: object.id.clone(),
                    in_cluster: in_cluster(object),
                    at: shown.at(Some(object.line)),
                };
                self.machines.push(Machine {
                    holder,
                    cards: cards(machine, shown),
                    volumes: self.volumes(machine, namespace, shown),
                });
            }
            ("", "PersistentVolumeClaim") => {
                let modes = object.node.at(&["spec", "accessModes"]);
                let mut modes = modes.map_or(&[][..], Node::items).iter();
                if !modes.any(|mode| mode.as_str() == Some("ReadWriteMany")) {
                    self.of_one.push(own());
                }
            }
            _ => {}
        }
    }

    pub(super) fn finish(
        &self,
        release: Option<MinorRelease>,
        is_taken: &impl Fn(&ObjectRef) -> bool,
    ) -> Vec<Finding> {
        let taken = self.machines.iter().filter(|one| is_taken(&one.holder.id));
        let taken: Vec<&Machine> = taken.collect();
        let mut findings = Self::shared_volumes(&taken, release);
        if release.is_none_or(|release| release >= (1, 5)) {
            findings.extend(self.repeated_addresses(&taken));
        }
        findings
    }

    fn volumes(&self, machine: &Node, namespace: &str, shown: &SourceMap) -> Vec<Volume> {
        let volumes = machine.list("volumes").iter().filter_map(|volume| {
            let claim = volume.at(&["persistentVolumeClaim", "claimName"])?;
            let is_its = |disk: &&Node| disk.str_at(&["name"]) == volume.str_at(&["name"]);
            let disk = devices(machine, "disks").iter().find(is_its);
            let is_shared =
                |disk: &Node| disk.get("shareable").and_then(Node::as_bool) == Some(true);
            let named = (namespace.to_owned(), claim.as_str()?.to_owned());
            Some(Volume {
                is_of_one: self.of_one.contains(&named),
                claim: named,
                has_own_disk: disk.is_some_and(|disk| !is_shared(disk)),
                at: shown.at(Some(claim.line)),
            })
        });
        volumes.collect()
    }

    /// checkForDuplicateMacAddrs, which compares the addresses as texts.
    fn repeated_addresses(&self, machines: &[&Machine]) -> Vec<Finding> {
        let mut holders: BTreeMap<(&str, String), Vec<Holder>> = BTreeMap::new();
        for machine in machines {
            for card in &machine.cards {
                let network = match &card.network {
                    None => "the network of pods".to_owned(),
                    Some(name) => match self.networks.get(name) {
                        Some(cluster_network) => format!("the cluster network {cluster_network}"),
                        None => {
                            let (namespace, name) = name;
                            format!("the network {namespace}/{name}")
                        }
                    },
                };
                let all = holders.entry((&card.address, network)).or_default();
                all.push(Holder {
                    at: card.at.clone(),
                    ..machine.holder.clone()
                });
            }
        }
        let all = holders
            .into_iter()
            .flat_map(|((address, network), holders)| {
                let thing = format!("the MAC address {address} in {network}");
                second(&holders.iter().collect::<Vec<_>>(), &thing)
            });
        all.collect()
    }

    /// checkOccupiedPVCs. From v1.7 on, only claims that exist and are of one node, or of Longhorn.
    fn shared_volumes(machines: &[&Machine], release: Option<MinorRelease>) -> Vec<Finding> {
        let are_never_shared = release.is_some_and(|release| release < (1, 7));
        let mut users: BTreeMap<&(String, String), (&Machine, &Volume)> = BTreeMap::new();
        let mut findings = Vec::new();
        for machine in machines {
            for volume in &machine.volumes {
                let is_for_one = are_never_shared || volume.is_of_one;
                let (first, of_first) = *users.entry(&volume.claim).or_insert((machine, volume));
                let is_other = first.holder.in_cluster != machine.holder.in_cluster;
                if is_other && is_for_one && (are_never_shared || of_first.has_own_disk) {
                    let holder = Holder {
                        at: volume.at.clone(),
                        ..machine.holder.clone()
                    };
                    let (_, claim) = &volume.claim;
                    let thing = format!("the claim {claim}");
                    let other = first.holder.id.to_string();
                    findings.push(taken_twice(
                        &holder,
                        &other,
                        &thing,
                        vec![of_first.at.clone()],
                    ));
                }
            }
        }
        findings
    }
}

fn devices<'n>(machine: &'n Node, list: &str) -> &'n [Node] {
    let devices = machine.at(&["domain", "devices"]);
    devices.map_or(&[], |devices| devices.list(list))
}

fn cards(machine: &Node, shown: &SourceMap) -> Vec<Card> {
    let cards = devices(machine, "interfaces").iter().filter_map(|card| {
        let address = card.get("macAddress")?;
        let name = card.str_at(&["name"])?;
        let is_its = |network: &&Node| network.str_at(&["name"]) == Some(name);
        let network = machine.list("networks").iter().find(is_its);
        let attached = network.and_then(|network| network.str_at(&["multus", "networkName"]));
        let network = attached.map(|attached| {
            let (namespace, name) = attached.split_once('/').unwrap_or(("default", attached));
            (namespace.to_owned(), name.to_owned())
        });
        Some(Card {
            address: address.as_str().filter(|text| !text.is_empty())?.to_owned(),
            network,
            at: shown.at(Some(address.line)),
        })
    });
    cards.collect()
}
