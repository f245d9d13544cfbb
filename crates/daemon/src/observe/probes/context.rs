//! The tools of every probe: paths, addresses, clients, a clock. All of them are passed in, so that probes run against
//! a temporary directory and servers on the loopback interface.

use jiff::Timestamp;
use windrow_model::manifest::{Node, yaml};

use super::bus::Bus;
use super::current_layout::CurrentLayout;
use super::http;
use super::kubernetes::Kubernetes;
use super::role::LastRole;
use crate::apiserver::ApiServer;
use crate::fs;
use crate::layout::Layout;
use crate::observe::platform::boot_id;

const RANCHERD: &str = "/etc/rancher/rancherd/config.yaml";

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Endpoints {
    pub supervisor: String,
    pub etcd: String,
    pub kubelet: String,
    pub controller_manager: String,
    pub scheduler: String,
    pub vip_https: u16,
    pub vip_join: u16,
    /// The system bus; `None` for the usual one.
    pub bus: Option<String>,
    pub journalctl: String,
}

impl Default for Endpoints {
    fn default() -> Self {
        Self {
            supervisor: "https://127.0.0.1:9345".to_owned(),
            etcd: "http://127.0.0.1:2381".to_owned(),
            kubelet: "http://127.0.0.1:10248".to_owned(),
            controller_manager: "https://127.0.0.1:10257".to_owned(),
            scheduler: "https://127.0.0.1:10259".to_owned(),
            vip_https: 443,
            vip_join: 9345,
            bus: None,
            journalctl: "journalctl".to_owned(),
        }
    }
}

/// The tools of a probe. It keeps none of their answers.
pub struct ProbeContext {
    pub(super) last_role: LastRole,
    layout: CurrentLayout,
    pub(super) endpoints: Endpoints,
    pub(super) http: reqwest::Client,
    pub(super) bus: Bus,
    pub(super) kubernetes: Kubernetes,
    pub(super) now: fn() -> Timestamp,
}

impl ProbeContext {
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
        let layout = CurrentLayout::new(layout);
        Ok(Self {
            last_role: LastRole::default(),
            http: http::client()?,
            bus: Bus::new(endpoints.bus.clone()),
            kubernetes: Kubernetes::new(layout.clone(), api),
            layout,
            endpoints,
            now,
        })
    }

    pub(super) fn layout(&self) -> Layout {
        self.layout.get()
    }

    pub(super) fn set_data_dir(&self, data_dir: &str) {
        self.layout.set_data_dir(data_dir);
    }

    /// rancherd's configuration. It holds the cluster token and is never printed.
    pub(super) fn rancherd(&self) -> Option<Node> {
        rancherd(&self.layout())
    }

    /// The host's name; empty if the kernel does not return it.
    pub(super) fn host_name(&self) -> String {
        fs::read_to_string(self.layout().path("/proc/sys/kernel/hostname"))
            .map(|name| name.trim().to_owned())
            .unwrap_or_default()
    }

    pub(super) fn boot(&self) -> String {
        boot_id(&self.layout()).unwrap_or_default()
    }
}

/// A configuration file of a few lines; `None` if it is missing or cannot be parsed.
pub(super) fn config(layout: &Layout, path: &str) -> Option<Node> {
    let text = fs::read_to_string(layout.path(path)).ok()?;
    yaml::parse_configuration(&text).ok().flatten()
}

pub(super) fn rancherd(layout: &Layout) -> Option<Node> {
    config(layout, RANCHERD)
}

pub(super) fn has_rancherd(layout: &Layout) -> bool {
    fs::exists(layout.path(RANCHERD))
}
