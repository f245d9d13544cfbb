//! The cluster identity on a server's disk, and datastores that are replaced.

use std::time::Duration;

use jiff::Timestamp;
use windrow_decide::ClusterIdentity;

use super::Drive;
use super::daemon::{RETRY, earliest};
use crate::cluster::Snapshot;

/// How late the daemon connects to kube-apiserver again, at most: the longest pause between two attempts.
const RECONNECTS: Duration = Duration::from_secs(30);
/// How long the daemon does not scan its directory (`staging.rescan`).
const RESCAN: Duration = Duration::from_secs(60);
/// How long RKE2 answers from a removed datastore, at most.
const LOSES: Duration = Duration::from_secs(60);

/// The identity of a server's cluster on its disk.
#[derive(Debug, Default)]
pub(super) struct Membership {
    pub(super) identity: ClusterIdentity,
    /// The identity that RKE2 writes when it starts.
    next: Option<(Timestamp, ClusterIdentity)>,
    /// The datastore is removed from the disk, and RKE2 stops and starts with this snapshot or without one. It answers until
    /// then.
    losing: Option<(Timestamp, Option<Snapshot>)>,
    names: u32,
}

impl Membership {
    pub(super) fn next_at(&self) -> Option<Timestamp> {
        let next = self.next.as_ref().map(|(at, _)| *at);
        earliest([next, self.losing.as_ref().map(|(at, _)| *at)])
    }

    pub(super) fn is_losing(&self) -> bool {
        self.losing.is_some()
    }

    /// Was the datastore removed, and does the new one not exist yet?
    pub(super) fn is_between(&self) -> bool {
        self.names > 0 && self.identity.datastore.is_none()
    }

    /// RKE2 generates its member name in etcd.
    fn draw(&mut self, who: usize) -> ClusterIdentity {
        self.names += 1;
        ClusterIdentity {
            ca: Some("ca".to_owned()),
            datastore: Some(format!("{who}-{}", self.names)),
        }
    }

    /// RKE2 writes it before kube-apiserver answers.
    fn is_written(&mut self, is_up: bool, now: Timestamp) -> bool {
        let due = self.next.take_if(|(at, _)| is_up || *at <= now);
        due.map(|(_, identity)| self.identity = identity).is_some()
    }
}

impl Drive<'_> {
    pub(super) fn take_snapshot(&mut self) {
        let takes = self.faults.replaced > 0 && self.node.is_alone();
        if takes && self.node.cluster().is_up() && self.more.throw(10) {
            self.snapshot = Some(self.node.cluster().snapshot());
        }
    }

    pub(super) fn write_identity(&mut self, who: usize, now: Timestamp) {
        let is_up = self.node.cluster().is_up_on(who);
        let is_alive = self.daemons[who].away.is_none();
        let membership = &mut self.daemons[who].membership;
        if is_up && membership.identity == ClusterIdentity::default() && membership.next.is_none() {
            membership.identity = membership.draw(who);
            // The first one is reported at once.
            if is_alive {
                self.tell_identity(who, now);
            }
        } else if membership.is_losing() {
            self.stop_lost(who, now);
        } else if membership.is_written(is_up, now) {
            self.look_soon(who, now);
        }
    }

    /// The daemon scans once a minute, and every five seconds while kube-apiserver does not answer.
    fn look_soon(&mut self, who: usize, now: Timestamp) {
        let late = match self.node.cluster().is_up_on(who) {
            true => self.more.up_to(RESCAN),
            false => self.more.up_to(RETRY),
        };
        let reads = &mut self.daemons[who].reads;
        reads.look_at = earliest([reads.look_at, Some(now + late)]);
    }

    /// The identity that the daemon reads with each scan of its directory.
    pub(super) fn tell_identity(&mut self, who: usize, now: Timestamp) {
        let daemon = &mut self.daemons[who];
        // A flight has no identities.
        if daemon.tape.is_some() {
            return;
        }
        let identity = daemon.membership.identity.clone();
        let is_news = daemon.state.set_cluster(identity).is_some();
        // Without its ledger it cannot know that there was another one.
        if is_news || daemon.oracle.is_lost && daemon.knows_cluster() {
            daemon.oracle.enter_cluster(now);
            self.record_fault(who, "Windrow sees another cluster");
        }
    }

    /// A server's member of etcd is removed: its cluster starts empty, is restored from a snapshot, or the server joins it again.
    pub(super) fn lose_datastore(&mut self, who: usize, now: Timestamp) {
        let membership = &self.daemons[who].membership;
        let daemon = &self.daemons[who];
        let api = &daemon.state.observation().api;
        // Windrow asks every five seconds: until then it assumes that kube-apiserver is stopped.
        let is_late = api.unreachable.is_some() && !api.refused;
        let is_heard = daemon.deaf.is_none() && daemon.reconnects.is_none() && !is_late;
        // In practice a datastore is not removed at the moment of its first answer.
        let is_known = self.daemons[who].saved.datastore == membership.identity.datastore;
        let is_settled = is_heard
            && is_known
            && membership.identity.datastore.is_some()
            && !membership.is_losing();
        if !self.node.cluster().is_up_on(who) || !is_settled {
            return;
        }
        let is_replaced = self.node.is_alone() && self.faults.replaced > 0 && !self.more.throw(4);
        if is_replaced {
            let snapshot = self.snapshot.clone().filter(|_| self.more.throw(2));
            let what = match snapshot {
                Some(_) => "a snapshot is restored",
                None => "the datastore is removed",
            };
            self.record_fault(who, what);
            // RKE2 is stopped before, or only afterwards.
            let late = match self.more.throw(2) {
                true => self.more.up_to(LOSES),
                false => Duration::ZERO,
            };
            let membership = &mut self.daemons[who].membership;
            membership.identity.datastore = None;
            membership.losing = Some((now + late, snapshot));
            self.look_soon(who, now);
            self.stop_lost(who, now);
        } else {
            self.record_fault(who, "the server leaves its cluster and joins it again");
            let off = self.node.rejoin(who);
            self.start_with_new_name(who, off, now);
        }
        if self.daemons[who].away.is_none() && self.more.throw(2) {
            self.record_fault(who, "Windrow restarts with the machine");
            let daemon = &mut self.daemons[who];
            daemon
                .oracle
                .forget_unwritten(&self.disks[who], &daemon.saved);
            self.daemons[who].begin_boot(now);
            self.restart_daemon(who, now);
            self.daemons[who].wake = Some(now);
        }
    }

    /// RKE2 stops, and starts with the content of the disk.
    fn stop_lost(&mut self, who: usize, now: Timestamp) {
        let losing = &mut self.daemons[who].membership.losing;
        let Some((_, snapshot)) = losing.take_if(|(at, _)| *at <= now) else {
            return;
        };
        let off = self.node.replace_datastore(snapshot);
        let daemon = &mut self.daemons[who];
        if daemon.knows_cluster() {
            // Windrow already knows that the datastore is gone: releases by it or by a user since then count.
            let let_go = std::mem::take(&mut daemon.oracle.let_go);
            let let_through = std::mem::take(&mut daemon.oracle.let_through);
            daemon.oracle.enter_cluster(now);
            (daemon.oracle.let_go, daemon.oracle.let_through) = (let_go, let_through);
        } else {
            daemon.oracle.lose_cluster();
        }
        self.start_with_new_name(who, off, now);
    }

    fn start_with_new_name(&mut self, who: usize, off: Duration, now: Timestamp) {
        let reconnects = self.more.up_to(RECONNECTS);
        let daemon = &mut self.daemons[who];
        daemon.watch.cut();
        daemon.reconnects = Some(reconnects);
        let membership = &mut daemon.membership;
        let next = membership.draw(who);
        membership.identity.datastore = None;
        membership.next = Some((now + off, next));
        self.look_soon(who, now);
    }
}
