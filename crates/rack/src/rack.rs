//! The nodes: takes reports, and shows what is known.

use std::collections::BTreeMap;

use jiff::Timestamp;

use crate::identity::NodeIdentity;
use crate::inventory::Inventory;
use crate::record::NodeRecord;
use crate::report::NodeReport;
use crate::view::{self, RackNotice, RackView};

/// Most identities that the inventory does not know.
pub const MOST_UNKNOWN: usize = 2_000;
/// Most identities of one expected node: without a name yet, with another address.
const MOST_OF_ONE: usize = 32;

/// The nodes.
#[derive(Debug, Clone, Default)]
pub struct Rack {
    inventory: Inventory,
    records: BTreeMap<NodeIdentity, NodeRecord>,
    /// How many identities the inventory does not know.
    unknown: usize,
    /// How many identities there are of each expected node.
    known: BTreeMap<usize, usize>,
    /// Was a report refused because there are too many of these?
    full: bool,
}

/// A report that is not taken.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Refused(pub String);

impl Rack {
    /// Without any report yet.
    pub fn new(inventory: Inventory) -> Self {
        Self {
            inventory,
            ..Self::default()
        }
    }

    /// Who is expected.
    pub fn inventory(&self) -> &Inventory {
        &self.inventory
    }

    /// Takes a report.
    ///
    /// # Errors
    ///
    /// When it is of one node more than are kept.
    pub fn take(&mut self, report: &NodeReport) -> Result<(), Refused> {
        self.admit(&report.identity)?;
        let record = self.records.entry(report.identity.clone()).or_default();
        record.take(report);
        Ok(())
    }

    /// Takes a record that was kept.
    ///
    /// # Errors
    ///
    /// As [`Self::take`].
    pub fn restore(&mut self, identity: NodeIdentity, record: NodeRecord) -> Result<(), Refused> {
        self.admit(&identity)?;
        self.records.entry(identity).or_default().join(record);
        Ok(())
    }

    fn admit(&mut self, identity: &NodeIdentity) -> Result<(), Refused> {
        if self.records.contains_key(identity) {
            return Ok(());
        }
        let Some(node) = self.expects(identity) else {
            if self.unknown >= MOST_UNKNOWN {
                self.full = true;
                return Err(Refused(format!(
                    "{MOST_UNKNOWN} nodes that are not in the inventory have reported; no more are taken"
                )));
            }
            self.unknown += 1;
            return Ok(());
        };
        let known = self.known.entry(node).or_default();
        if *known >= MOST_OF_ONE {
            return Err(Refused(format!(
                "this node has come under {MOST_OF_ONE} names and addresses already"
            )));
        }
        *known += 1;
        Ok(())
    }

    /// The expected node that an identity may be.
    fn expects(&self, identity: &NodeIdentity) -> Option<usize> {
        let nodes = &self.inventory.nodes;
        let by = |own: &str, part: fn(&NodeIdentity) -> &String| {
            let mut nodes = nodes.iter();
            let found = nodes.position(|node| part(&node.identity) == own);
            found.filter(|_| !own.is_empty())
        };
        by(&identity.mac, |one| &one.mac)
            .or_else(|| by(&identity.serial, |one| &one.serial))
            .or_else(|| by(identity.own_host()?, |one| &one.host))
    }

    /// What is known of each machine, for whoever keeps it.
    pub fn records(&self) -> impl Iterator<Item = (&NodeIdentity, &NodeRecord)> {
        self.records.iter()
    }

    /// What is known, at this time.
    pub fn view(&self, now: Timestamp) -> RackView {
        let notices = self.full.then(|| RackNotice {
            text: format!(
                "{MOST_UNKNOWN} nodes that are not in the inventory have reported: no further ones are taken"
            ),
        });
        view::view(
            &self.inventory,
            &self.records,
            now,
            notices.into_iter().collect(),
        )
    }
}
