//! Asks the status servers that nodes announce in their events, if the operator has allowed it.
//!
//! A node may be hostile. The rack only polls the machine that has sent the event, under the certificate that it has
//! announced (`windrow_rack::announced_server`). That certificate proves nothing about its identity. So the token only
//! goes to servers whose certificate is in the inventory, or to all if that is allowed.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use jiff::SignedDuration;
use jiff::Timestamp;
use tokio::task::AbortHandle;
use windrow_rack::{AnnouncedServer, Inventory, NodeIdentity, NodeReport, announced_server};

use super::Hub;
use super::ask::{self, AskWith, AskedServer};
use crate::locked::lock;

/// Most announced servers to poll, and most at one address.
const MOST: usize = 2_000;
const MOST_AT_ONE: usize = 16;
/// The announcements of a node are processed at most this often.
const BETWEEN: SignedDuration = SignedDuration::from_secs(30);
/// A server that has not answered for this long is polled again only after a new announcement.
const PATIENCE: Duration = Duration::from_secs(60 * 60);

/// Who is asked of those that are announced.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum AskAnnounced {
    /// Servers whose certificate is in the list of expected nodes
    Known,
    /// All servers: every host that may send events also gets the token of the nodes' status servers
    Any,
}

pub(crate) struct Announced {
    who: AskAnnounced,
    with: AskWith,
    /// The nodes in the list that have a certificate and are not polled yet, by certificate.
    known: BTreeMap<String, NodeIdentity>,
    asked: Mutex<BTreeMap<NodeIdentity, Asked>>,
    /// The servers that may be asked; a test asks this machine.
    allowed: fn(&windrow_rack::StatusServer, IpAddr) -> Result<AnnouncedServer, &'static str>,
}

struct Asked {
    server: AnnouncedServer,
    peer: IpAddr,
    since: Timestamp,
    task: AbortHandle,
}

impl Drop for Asked {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl Announced {
    pub(crate) fn new(who: AskAnnounced, with: AskWith, inventory: &Inventory) -> Self {
        let nodes = inventory.nodes().iter();
        let known = nodes.filter(|node| node.url.is_empty() && !node.fingerprint.is_empty());
        Self {
            who,
            with,
            known: known
                .map(|node| (node.fingerprint.clone(), node.identity.clone()))
                .collect(),
            asked: Mutex::default(),
            allowed: announced_server,
        }
    }

    /// For tests, which have no other machine.
    #[cfg(test)]
    pub(crate) fn on_this_machine(mut self) -> Self {
        self.allowed = |server, _| {
            Ok(AnnouncedServer {
                url: server.url.clone(),
                fingerprint: server.fingerprint.clone(),
            })
        };
        self
    }

    #[cfg(test)]
    pub(crate) fn asked(&self) -> usize {
        lock(&self.asked).len()
    }

    pub(crate) fn hear(&self, hub: &Arc<Hub>, report: &NodeReport, peer: IpAddr) {
        let Some(announced) = &report.state.server else {
            return;
        };
        // Even if it may not be asked, the page still shows the node's announcement.
        let Ok(server) = (self.allowed)(announced, peer) else {
            return;
        };
        let identity = match (self.known.get(&server.fingerprint), self.who) {
            // The certificate identifies the node, not the name in the event.
            (Some(known), _) => known.clone(),
            (None, AskAnnounced::Any) => report.identity.clone(),
            (None, AskAnnounced::Known) => return,
        };
        let now = hub.now();
        let mut asked = lock(&self.asked);
        asked.retain(|_, one| !one.task.is_finished());
        match asked.get(&identity) {
            Some(one) if one.server == server => return,
            Some(one) if now.duration_since(one.since).abs() < BETWEEN => return,
            Some(_) => {}
            None if asked.len() >= MOST => return,
            None => {}
        }
        let at_one = asked
            .iter()
            .filter(|(of, one)| one.peer == peer && **of != identity);
        if at_one.count() >= MOST_AT_ONE {
            return;
        }
        let follow = ask::follow(
            hub.clone(),
            AskedServer {
                url: server.url.clone(),
                fingerprint: server.fingerprint.clone(),
                identity: Some(identity.clone()),
            },
            self.with.clone(),
            Some(PATIENCE),
        );
        let one = Asked {
            server,
            peer,
            since: now,
            task: tokio::spawn(follow).abort_handle(),
        };
        asked.insert(identity, one);
    }
}
