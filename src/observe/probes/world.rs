//! What every probe may touch: paths, addresses, clients, a clock. All of it passed in, so that
//! probes run against a temporary directory and servers on the loopback interface.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, PoisonError};

use jiff::Timestamp;
use windrow_model::manifest::{Node, yaml};
use windrow_plan::readiness::node::Role;

use super::bus::Bus;
use super::harvester::KnownVip;
use super::kubernetes::{Credential, Kubernetes};
use super::upgrade::Signs;
use super::webhooks;
use crate::apiserver::ApiServer;
use crate::layout::Layout;

/// Where things answer on a node.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Endpoints {
    /// RKE2's supervisor.
    pub supervisor: String,
    /// etcd's health.
    pub etcd: String,
    /// The kubelet's health.
    pub kubelet: String,
    /// The VIP's HTTPS port.
    pub vip_https: u16,
    /// The VIP's supervisor port.
    pub vip_join: u16,
    /// The system bus; `None` for the usual one.
    pub bus: Option<String>,
}

impl Default for Endpoints {
    fn default() -> Self {
        Self {
            supervisor: "https://127.0.0.1:9345".to_owned(),
            etcd: "http://127.0.0.1:2381".to_owned(),
            kubelet: "http://127.0.0.1:10248".to_owned(),
            vip_https: 443,
            vip_join: 9345,
            bus: None,
        }
    }
}

/// Where things live; RKE2's data directory may become another one.
#[derive(Clone)]
pub(super) struct Place(Arc<Mutex<Layout>>);

impl Place {
    pub(super) fn layout(&self) -> Layout {
        lock(&self.0).clone()
    }
}

/// Paths of files of the configuration that are being looked at.
pub(super) type Pending = Arc<Mutex<BTreeSet<String>>>;

/// What probes share.
pub struct World {
    place: Place,
    pub(super) endpoints: Endpoints,
    pub(super) http: reqwest::Client,
    pub(super) bus: Bus,
    pub(super) kubernetes: Kubernetes,
    pub(super) now: fn() -> Timestamp,
    /// The VIP, as it was last found.
    pub(super) vip: Mutex<Option<KnownVip>>,
    /// How often RKE2's unit was started anew, as last seen, and whether that rises.
    pub(super) restarts: Mutex<Restarts>,
    pub(super) files: Pending,
    /// Which webhooks there are, and with what they are tried.
    pub(super) webhooks: Mutex<Option<webhooks::Known>>,
    /// What tells that RKE2 is being upgraded.
    pub(super) upgrade: Mutex<Signs>,
}

/// What is remembered of a unit's restarts.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Restarts {
    /// Which unit: a promoted node has another one.
    pub(super) unit: &'static str,
    pub(super) last: Option<u32>,
    pub(super) rises: u32,
    /// Did it run when it was last seen?
    pub(super) ran: bool,
    /// Is it being started anew by hand?
    pub(super) by_hand: bool,
}

impl World {
    /// A node below a layout.
    ///
    /// # Errors
    ///
    /// When no HTTP client can be made.
    pub fn new(
        layout: Layout,
        endpoints: Endpoints,
        api: ApiServer,
        now: fn() -> Timestamp,
    ) -> Result<Self, reqwest::Error> {
        let place = Place(Arc::new(Mutex::new(layout)));
        Ok(Self {
            http: super::http::client()?,
            bus: Bus::new(endpoints.bus.clone()),
            kubernetes: Kubernetes::new(place.clone(), api),
            place,
            endpoints,
            now,
            vip: Mutex::default(),
            restarts: Mutex::default(),
            files: Pending::default(),
            webhooks: Mutex::default(),
            upgrade: Mutex::default(),
        })
    }

    /// Where things live now.
    pub(super) fn layout(&self) -> Layout {
        self.place.layout()
    }

    /// RKE2's data directory is this one (from now on).
    pub(super) fn has_data_dir(&self, data_dir: &str) {
        let known = self.layout();
        let now = known.clone().with_data_dir(data_dir);
        if now != known {
            *lock(&self.place.0) = now;
        }
    }

    /// The credential that a node of this role has.
    pub(super) fn credential(role: Role) -> Credential {
        match role.serves_api() {
            true => Credential::Admin,
            false => Credential::Node,
        }
    }

    /// A configuration file of a few lines; `None` when it is not there or cannot be read as one.
    pub(super) fn config(&self, path: &str) -> Option<Node> {
        let text = std::fs::read_to_string(self.layout().path(path)).ok()?;
        yaml::one(&text).ok().flatten()
    }

    /// rancherd's configuration. It holds the cluster token: nothing of it is ever printed.
    pub(super) fn rancherd(&self) -> Option<Node> {
        self.config("/etc/rancher/rancherd/config.yaml")
    }

    /// Which boot this is.
    pub(super) fn boot(&self) -> String {
        std::fs::read_to_string(self.layout().path("/proc/sys/kernel/random/boot_id"))
            .map(|text| text.trim().to_owned())
            .unwrap_or_default()
    }
}

/// A lock that a panic elsewhere does not take away.
pub(super) fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// What probes share, shared.
pub type Shared = Arc<World>;
