//! The rack collects reports of nodes and shows their state.

use std::collections::BTreeMap;

use jiff::Timestamp;

use crate::identity::NodeIdentity;
use crate::inventory::Inventory;
use crate::record::NodeRecord;
use crate::report::NodeReport;
use crate::row::ViewTime;
use crate::view::{self, RackNotice, RackView};

/// Limit of identities that are not in the inventory.
pub const MOST_UNKNOWN: usize = 2_000;
/// Limit of identities per expected node, for example before it has a name, or with another address.
const MOST_OF_ONE: usize = 32;
/// Approximate memory limit for all records, in bytes.
pub const MOST_RECORD_BYTES: usize = 32 << 20;

#[derive(Debug, Clone)]
pub struct Rack {
    inventory: Inventory,
    /// The nodes of the inventory by hardware address, serial number and host name.
    index: [BTreeMap<String, usize>; 3],
    records: BTreeMap<NodeIdentity, NodeRecord>,
    /// Number of identities that are not in the inventory.
    unknown: usize,
    /// Number of identities per expected node.
    known: BTreeMap<usize, usize>,
    /// Size of all records.
    bytes: usize,
    most_bytes: usize,
    /// True if anything was dropped because of a limit.
    left_out: bool,
    /// When the rack started to receive reports.
    listening: Option<Timestamp>,
}

/// A rejected report, with the reason.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Refused(pub String);

/// The parts that identify a node, the most reliable first.
const PARTS: [fn(&NodeIdentity) -> &str; 3] = [|one| &one.mac, |one| &one.serial, |one| &one.host];

/// How closely an identity matches an expected node; the largest is kept longest. Among equal identities, the one with the
/// latest report is kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Claim {
    /// It matches no expected node.
    Stranger,
    /// It matches one part of an expected node and contradicts another.
    Contradicted,
    /// It matches this number of the parts that the inventory gives for the node.
    Named(usize),
}

impl Default for Rack {
    fn default() -> Self {
        Self::new(Inventory::default())
    }
}

impl Rack {
    pub fn new(inventory: Inventory) -> Self {
        Self::with_room_for(inventory, MOST_RECORD_BYTES)
    }

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

    /// The rack receives reports from now on. It cannot tell whether a node without earlier reports is silent.
    pub fn listen(&mut self, now: Timestamp) {
        self.listening = Some(now);
    }

    pub fn inventory(&self) -> &Inventory {
        &self.inventory
    }

    /// Adds a report.
    ///
    /// # Errors
    ///
    /// There is no room for its node.
    pub fn take(&mut self, report: &NodeReport) -> Result<(), Refused> {
        let mut record = NodeRecord::default();
        record.take(report);
        self.restore(report.identity.clone(), record)
    }

    /// Adds a stored record.
    ///
    /// # Errors
    ///
    /// See [`Self::take`].
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
                "the state of all nodes already takes {} MiB; Windrow stores no more data about this one",
                self.most_bytes >> 20
            ))),
        }
    }

    /// Makes room for a new identity by removing another one of its kind with a weaker claim or an older report.
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
                        "this node has already reported with {MOST_OF_ONE} names and addresses"
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

    /// Removes the least important records until the others fit. It removes slightly more, so that this does not run for every
    /// report.
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

    /// The records of all machines, for storage.
    pub fn records(&self) -> impl Iterator<Item = (&NodeIdentity, &NodeRecord)> {
        self.records.iter()
    }

    pub fn view(&self, now: Timestamp) -> RackView {
        let notices = self.left_out.then(|| RackNotice {
            text: format!(
                "there are more reports than Windrow stores ({MOST_UNKNOWN} nodes that are not in the inventory, {MOST_OF_ONE} names and addresses of a node, {} MiB): the oldest are left out",
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
