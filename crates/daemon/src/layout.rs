//! The node's paths. All of them hang off one root, so that the whole program runs under a temporary directory as it
//! runs under `/`.

use std::path::{Component, Path, PathBuf};

use windrow_plan::rke2;

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Layout {
    root: PathBuf,
    data_dir: PathBuf,
}

impl Layout {
    /// Everything below `root` (`/` on a node), with RKE2's default data directory.
    pub fn new(root: impl Into<PathBuf>) -> Self {
        let root = root.into();
        let data_dir = below(&root, rke2::DATA_DIR);
        Self { root, data_dir }
    }

    /// Replaces RKE2's data directory (`data-dir` in RKE2's configuration), an absolute path on the node.
    #[must_use]
    pub fn with_data_dir(mut self, data_dir: &str) -> Self {
        self.data_dir = below(&self.root, data_dir);
        self
    }

    pub fn root(&self) -> &Path {
        &self.root
    }

    /// Whether this is the machine on which the process runs, and not a directory that stands for another one.
    pub fn is_this_machine(&self) -> bool {
        self.root == Path::new("/")
    }

    pub fn path(&self, absolute: &str) -> PathBuf {
        below(&self.root, absolute)
    }

    /// A path below the root, as the node itself names it.
    pub fn shown(&self, path: &Path) -> String {
        let inside = path.strip_prefix(&self.root).unwrap_or(path);
        Path::new("/").join(inside).display().to_string()
    }

    pub fn data_dir(&self) -> &Path {
        &self.data_dir
    }

    pub fn harvester_config(&self) -> PathBuf {
        self.path(windrow_harvester::INSTALLER_CONFIG)
    }

    pub fn kubelet_kubeconfig(&self) -> PathBuf {
        self.data_dir.join("agent/kubelet.kubeconfig")
    }

    pub fn manifests(&self) -> PathBuf {
        self.data_dir.join("server/manifests")
    }

    /// RKE2's own certificate authority, made at the first start of a cluster and the same on all its servers: it
    /// identifies a cluster even while no API answers.
    pub fn server_ca(&self) -> PathBuf {
        self.data_dir.join("server/tls/server-ca.crt")
    }

    /// The name under which this node is in etcd: a new one for each new data directory.
    pub fn etcd_name(&self) -> PathBuf {
        self.data_dir.join("server/db/etcd/name")
    }

    /// The default path of RKE2's admin kubeconfig; its configuration may set another path. To use one, ask
    /// [`admin_kubeconfig`](crate::observe::rke2::admin_kubeconfig).
    pub fn default_kubeconfig(&self) -> PathBuf {
        self.path("/etc/rancher/rke2/rke2.yaml")
    }

    /// The admin kubeconfig that RKE2 itself uses. Every server has it (k3s `pkg/daemons/control/deps/deps.go`).
    pub fn own_admin_kubeconfig(&self) -> PathBuf {
        self.data_dir.join("server/cred/admin.kubeconfig")
    }

    pub fn rke2_config_dir(&self) -> PathBuf {
        self.path("/etc/rancher/rke2/config.yaml.d")
    }

    /// Directories with `windrow.yaml`, `conf.d`, `rules.d` and `knowledge.d`, the last one winning.
    pub fn config_dirs(&self) -> [PathBuf; 4] {
        [
            self.path("/usr/lib/windrow"),
            self.path("/run/windrow"),
            self.path("/etc/windrow"),
            // On Harvester only /etc/rancher, /etc/systemd and /var/lib/rancher persist.
            self.path("/etc/rancher/windrow"),
        ]
    }

    /// Windrow's own state: survives reboots, on Harvester too.
    pub fn state_dir(&self) -> PathBuf {
        self.path("/var/lib/rancher/windrow")
    }

    pub fn ledger(&self) -> PathBuf {
        self.state_dir().join("ledger.json")
    }

    pub fn hardware(&self) -> PathBuf {
        self.state_dir().join("hardware.json")
    }

    /// The flight recorder's file: observations, decisions and actions.
    pub fn flight(&self) -> PathBuf {
        self.state_dir().join("flight.jsonl")
    }

    /// Every file that holds a flight, the older one first: a full one is set aside.
    pub fn flights(&self) -> [PathBuf; 2] {
        let mut older = self.flight().into_os_string();
        older.push(".1");
        [older.into(), self.flight()]
    }

    /// The records of feature gates: trials, and gates that worked.
    pub fn gates_dir(&self) -> PathBuf {
        self.state_dir().join("gates")
    }

    /// The record of events that were sent to webhook receivers.
    pub fn webhooks(&self) -> PathBuf {
        self.state_dir().join("webhooks.json")
    }

    pub fn status_certificate(&self) -> PathBuf {
        self.state_dir().join("status-server.pem")
    }

    /// Certificates with their keys that RKE2 gives the node to serve with, the first one preferred
    /// (k3s `pkg/agent/config/config.go`, `pkg/daemons/control/deps/deps.go`).
    pub fn serving_certificates(&self) -> [(PathBuf, PathBuf); 2] {
        ["agent/serving-kubelet", "server/tls/serving-kube-apiserver"].map(|name| {
            let file = |ending: &str| self.data_dir.join(format!("{name}.{ending}"));
            (file("crt"), file("key"))
        })
    }

    pub fn gates_drop_in(&self) -> PathBuf {
        self.rke2_config_dir().join(windrow_gates::DROP_IN)
    }

    pub fn run_dir(&self) -> PathBuf {
        self.path("/run/windrow")
    }

    /// How the clock of a sandbox runs.
    pub fn sandbox_time(&self) -> PathBuf {
        self.run_dir().join("sandbox-time.json")
    }

    /// Locked by the daemon while it runs.
    pub fn lock(&self) -> PathBuf {
        self.run_dir().join("lock")
    }

    /// The text that agetty shows above its prompt.
    pub fn issue(&self) -> PathBuf {
        self.path("/run/issue.d/windrow.issue")
    }

    /// The text that `pam_motd` shows after a login.
    pub fn motd(&self) -> PathBuf {
        self.path("/run/motd.d/windrow")
    }

    pub fn status(&self) -> PathBuf {
        self.run_dir().join("status.json")
    }
}

/// A path of the node below its root. `..` does not lead above it, as on the node; after a name it stays, since the
/// name may be a link.
fn below(root: &Path, absolute: &str) -> PathBuf {
    let mut path = root.to_owned();
    let mut depth = 0_usize;
    for part in Path::new(absolute).components() {
        match part {
            Component::Normal(_) => depth += 1,
            Component::ParentDir if depth > 0 => depth -= 1,
            _ => continue,
        }
        path.push(part);
    }
    path
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_directory_that_stands_for_a_node_is_not_this_machine_and_its_paths_are_shown_without_it() {
        let (here, saved) = (Layout::new("/"), Layout::new("/mnt/n1"));
        assert!(here.is_this_machine() && !saved.is_this_machine());
        for layout in [here, saved] {
            let path = layout.path("/etc/windrow");
            assert_eq!(layout.shown(&path), "/etc/windrow");
        }
        let elsewhere = Layout::new("/mnt/n1").shown(Path::new("/srv/x"));
        assert_eq!(elsewhere, "/srv/x");
    }

    #[test]
    fn no_path_of_the_node_climbs_above_its_root() {
        for (absolute, expected) in [
            ("/../../x", "/mnt/n1/x"),
            ("../x/./y", "/mnt/n1/x/y"),
            ("/a/../../b/../c", "/mnt/n1/a/../b/../c"),
            ("/a/..", "/mnt/n1/a/.."),
            ("//a/b", "/mnt/n1/a/b"),
        ] {
            let layout = Layout::new("/mnt/n1").with_data_dir(absolute);
            assert_eq!(layout.path(absolute), Path::new(expected));
            assert_eq!(layout.data_dir(), Path::new(expected));
        }
    }
}
