//! The nodes: takes reports, and shows what is known.

use std::collections::BTreeMap;

use jiff::Timestamp;

use crate::identity::NodeIdentity;
use crate::inventory::Inventory;
use crate::record::NodeRecord;
use crate::report::NodeReport;
use crate::row::ViewTime;
use crate::view::{self, RackNotice, RackView};

/// Most identities that the inventory does not know.
pub const MOST_UNKNOWN: usize = 2_000;
/// Most identities of one expected node: without a name yet, with another address.
const MOST_OF_ONE: usize = 32;
/// Most bytes that all records take in memory, about.
pub const MOST_RECORD_BYTES: usize = 32 << 20;

/// The nodes.
#[derive(Debug, Clone)]
pub struct Rack {
    inventory: Inventory,
    /// The inventory's nodes by what they are recognised by.
    index: [BTreeMap<String, usize>; 3],
    records: BTreeMap<NodeIdentity, NodeRecord>,
    /// How many identities the inventory does not know.
    unknown: usize,
    /// How many identities there are of each expected node.
    known: BTreeMap<usize, usize>,
    /// What all records take.
    bytes: usize,
    most_bytes: usize,
    /// Was anything left out because there is more than is kept?
    left_out: bool,
    /// Since when reports come in.
    listening: Option<Timestamp>,
}

/// A report that is not taken.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Refused(pub String);

/// By what a node is recognised, the surest first.
const PARTS: [fn(&NodeIdentity) -> &str; 3] = [|one| &one.mac, |one| &one.serial, |one| &one.host];

/// How much an identity has of an expected node: what is kept longest is the largest. Of two alike, the one that was heard of
/// last is kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Claim {
    /// Nobody expects it.
    Stranger,
    /// It has something of an expected node, and something else contradicts.
    Contradicted,
    /// It has this number of the parts by which the inventory names the node.
    Named(usize),
}

impl Default for Rack {
    fn default() -> Self {
        Self::new(Inventory::default())
    }
}

impl Rack {
    /// Without any report yet.
    pub fn new(inventory: Inventory) -> Self {
        Self::with_room_for(inventory, MOST_RECORD_BYTES)
    }

    /// The same with another bound on what all records take.
    pub(crate) fn with_room_for(inventory: Inventory, most_bytes: usize) -> Self {
        let index = PARTS.map(|part| {
            let nodes = inventory.nodes.iter().enumerate().rev();
            let parts = nodes.map(|(at, node)| (part(&node.identity).to_owned(), at));
            parts.filter(|(part, _)| !part.is_empty()).collect()
        });
        Self {
            inventory,
            index,
            records: BTreeMap::new(),
            unknown: 0,
            known: BTreeMap::new(),
            bytes: 0,
            most_bytes,
            left_out: false,
            listening: None,
        }
    }

    /// Reports come in from now on: of a node that had nothing to tell until then it is not known whether it is silent.
    pub fn listen(&mut self, now: Timestamp) {
        self.listening = Some(now);
    }

    /// Who is expected.
    pub fn inventory(&self) -> &Inventory {
        &self.inventory
    }

    /// Takes a report.
    ///
    /// # Errors
    ///
    /// When there is no room for its node.
    pub fn take(&mut self, report: &NodeReport) -> Result<(), Refused> {
        let mut record = NodeRecord::default();
        record.take(report);
        self.restore(report.identity.clone(), record)
    }

    /// Takes a record that was kept.
    ///
    /// # Errors
    ///
    /// As [`Self::take`].
    pub fn restore(&mut self, identity: NodeIdentity, record: NodeRecord) -> Result<(), Refused> {
        self.admit(&identity, &record)?;
        self.bytes -= self.records.get(&identity).map_or(0, NodeRecord::bytes);
        let known = self.records.entry(identity.clone()).or_default();
        known.join(record);
        self.bytes += known.bytes();
        self.shrink();
        match self.records.contains_key(&identity) {
            true => Ok(()),
            false => Err(Refused(format!(
                "what is known of all nodes takes {} MiB already; no more is kept of this one",
                self.most_bytes >> 20
            ))),
        }
    }

    /// Makes room for an identity that is new, where it was heard of later than another of its kind.
    fn admit(&mut self, identity: &NodeIdentity, record: &NodeRecord) -> Result<(), Refused> {
        if self.records.contains_key(identity) {
            return Ok(());
        }
        let node = self.expects(identity);
        let (count, most) = match node {
            None => (self.unknown, MOST_UNKNOWN),
            Some(node) => (
                self.known.get(&node).copied().unwrap_or_default(),
                MOST_OF_ONE,
            ),
        };
        if count >= most {
            self.left_out = true;
            let kind = self.records.iter();
            let kind = kind.filter(|(one, _)| self.expects(one) == node);
            let least = kind.map(|(one, record)| (self.claim(one), record.heard(), one));
            let least = least.min();
            let own = (self.claim(identity), record.heard(), identity);
            let Some((_, _, least)) = least.filter(|least| *least < own) else {
                return Err(Refused(match node {
                    None => format!(
                        "{MOST_UNKNOWN} nodes that are not in the inventory have reported since"
                    ),
                    Some(_) => format!(
                        "this node has come under {MOST_OF_ONE} names and addresses already"
                    ),
                }));
            };
            let least = least.clone();
            self.remove(&least);
        }
        match node {
            None => self.unknown += 1,
            Some(node) => *self.known.entry(node).or_default() += 1,
        }
        Ok(())
    }

    /// Drops what matters least until the rest has room. A little more, so that not every report has to look.
    fn shrink(&mut self) {
        if self.bytes <= self.most_bytes {
            return;
        }
        self.left_out = true;
        let records = self.records.iter();
        let mut all: Vec<_> = records
            .map(|(one, record)| (self.claim(one), record.heard(), one.clone()))
            .collect();
        all.sort();
        let enough = self.most_bytes - self.most_bytes / 8;
        for (_, _, identity) in all {
            if self.bytes <= enough {
                break;
            }
            self.remove(&identity);
        }
    }

    fn remove(&mut self, identity: &NodeIdentity) {
        let Some(record) = self.records.remove(identity) else {
            return;
        };
        self.bytes -= record.bytes();
        match self.expects(identity) {
            None => self.unknown -= 1,
            Some(node) => {
                let known = self.known.entry(node).or_default();
                *known = known.saturating_sub(1);
            }
        }
    }

    /// The expected node that an identity may be.
    fn expects(&self, identity: &NodeIdentity) -> Option<usize> {
        let [mac, serial, host] = &self.index;
        let found = mac.get(&identity.mac);
        let found = found.or_else(|| serial.get(&identity.serial));
        found.or_else(|| host.get(identity.own_host()?)).copied()
    }

    fn claim(&self, identity: &NodeIdentity) -> Claim {
        let Some(node) = self.expects(identity) else {
            return Claim::Stranger;
        };
        let node = &self.inventory.nodes[node].identity;
        let pairs = PARTS.map(|part| (part(node), part(identity)));
        let mut pairs = pairs
            .iter()
            .filter(|(expected, own)| !expected.is_empty() && !own.is_empty());
        let named = pairs.clone().filter(|(expected, own)| expected == own);
        let named = named.count();
        match pairs.any(|(expected, own)| expected != own) {
            true => Claim::Contradicted,
            false => Claim::Named(named),
        }
    }

    /// What is known of each machine, for whoever keeps it.
    pub fn records(&self) -> impl Iterator<Item = (&NodeIdentity, &NodeRecord)> {
        self.records.iter()
    }

    /// What is known, at this time.
    pub fn view(&self, now: Timestamp) -> RackView {
        let notices = self.left_out.then(|| RackNotice {
            text: format!(
                "more has been reported than is kept ({MOST_UNKNOWN} nodes that are not in the inventory, {MOST_OF_ONE} names and addresses of a node, {} MiB): what was heard of longest ago is left out",
                self.most_bytes >> 20
            ),
        });
        view::view(
            &self.inventory,
            &self.records,
            ViewTime {
                now,
                listening: self.listening,
            },
            notices.into_iter().collect(),
        )
    }
}
