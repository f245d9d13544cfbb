//! Facts about known incidents from this node's files. Read-only; RKE2 and the cluster are not needed.

use std::collections::BTreeSet;

use jiff::{SignedDuration, Timestamp};
use windrow_gates::{Component, set_last_at};
use windrow_harvester::incidents::{GateRefused, OwnManifest, OwnNode};
use windrow_harvester::vip_mode;
use windrow_model::manifest::{
    BaseName, FileContent, ManifestPath, Node, ReadLimits, sha256_hex, yaml,
};
use windrow_plan::rke2;

use crate::act::repair::Records;
use crate::files::read_text;
use crate::fs;
use crate::kubeconfig;
use crate::layout::Layout;
use crate::observe::bootstrap::{server_starts, webhook_breaks};
use crate::observe::network::own_network;
use crate::observe::rke2::config_and_kubelet_files;
use crate::observe::scan::scan_whole;
use crate::observe::system_image::system_images;
use crate::observe::unit_sandbox::is_hidden;
use crate::observe::{effect, kube_vip, management::host_name_of, probes};

/// An older refusal proves nothing: RKE2 starts kube-apiserver again every few minutes.
const RECENT: SignedDuration = SignedDuration::from_mins(30);

/// Reads the node's facts for the incidents: its files with the manifests, and how its server starts.
pub async fn read_own_node(layout: &Layout, limits: &ReadLimits, now: Timestamp) -> OwnNode {
    let (files, limits) = (layout.clone(), limits.clone());
    let read = tokio::task::spawn_blocking(move || manifests(&files, &limits, now));
    OwnNode {
        manifests: read.await.unwrap_or_default(),
        ..read_without_manifests(layout, now).await
    }
}

/// As [`read_own_node`], without the manifests, for callers that have them.
pub async fn read_without_manifests(layout: &Layout, now: Timestamp) -> OwnNode {
    let files = layout.clone();
    let read = tokio::task::spawn_blocking(move || read_files(&files, now));
    OwnNode {
        webhook_breaks: webhook_breaks(layout).await,
        server_starts: server_starts(layout).await,
        ..read.await.unwrap_or_default()
    }
}

fn read_files(layout: &Layout, now: Timestamp) -> OwnNode {
    let kubelet = layout.kubelet_kubeconfig();
    let certificate = layout.data_dir().join("agent/client-kubelet.crt");
    let configuration = read_text(&layout.harvester_config()).ok();
    let configuration =
        configuration.and_then(|text| yaml::parse_configuration(&text).ok().flatten());
    let (missing_under, missing_files) = configuration
        .as_ref()
        .map(|root| missing(root, layout))
        .unwrap_or_default();
    let registered = kubeconfig::node_name(&kubelet);
    OwnNode {
        next_name: registered
            .as_deref()
            .and_then(|name| probes::next_node_name(layout, name)),
        name: registered.unwrap_or_else(|| host_name_of(layout).unwrap_or_default()),
        port_68_refused: kube_vip::port_68_refused(layout, now),
        vip_mode: configuration
            .as_ref()
            .and_then(|root| vip_mode(root).map(str::to_owned)),
        kubelet_until: probes::not_after(&certificate)
            .ok()
            .and_then(|at| Timestamp::from_second(at).ok()),
        gate: gate(layout, now),
        manifests: Vec::new(),
        missing_files,
        missing_under,
        network: own_network(layout),
        images: system_images(layout),
        harvesters_markers: harvesters_markers(layout),
        unfinished_repairs: Records::new(&layout.state_dir()).unfinished_repairs(),
        webhook_breaks: None,
        server_starts: None,
    }
}

/// Harvester puts an empty marker before it upgrades nodes and takes it away at the end (`pkg/controller/master/upgrade/common.go`,
/// v1.7.2 on).
fn harvesters_markers(layout: &Layout) -> Vec<ManifestPath> {
    const MARKER: &str = "rke2-multus.yaml.skip";
    let found = fs::metadata(layout.manifests().join(MARKER));
    let is_there = found.is_ok_and(|found| found.is_file() && found.len() == 0);
    is_there
        .then(|| ManifestPath::from(MARKER))
        .into_iter()
        .collect()
}

/// A gate that is still set, and that a component has just refused.
fn gate(layout: &Layout, now: Timestamp) -> Option<GateRefused> {
    let since = now.checked_sub(RECENT).ok();
    [Component::KubeApiserver, Component::Kubelet]
        .into_iter()
        .find_map(|component| {
            let (said, _) = effect::refusal(layout, component, since)?;
            let files = config_and_kubelet_files(layout).files;
            let set = |gate: String| set_last_at(&files, component, &gate).map(|at| (gate, at));
            let (gate, at) = said.gates.into_iter().find_map(set)?;
            Some(GateRefused {
                component: component.to_string(),
                gate,
                line: said.line,
                at: at.to_string(),
            })
        })
}

/// The manifests that RKE2 reads: not its own, and not those that a marker hides.
fn manifests(layout: &Layout, limits: &ReadLimits, now: Timestamp) -> Vec<OwnManifest> {
    let mut read = Vec::new();
    let mut take = |path: &ManifestPath, content: &FileContent| {
        if let (None, FileContent::Bytes(bytes)) = (rke2::owner(path), content) {
            read.push(OwnManifest {
                addon: path.addon(),
                sha256: sha256_hex(bytes),
                path: path.clone(),
            });
        }
    };
    let Some(markers) = scan_whole(&layout.manifests(), limits, now, &mut take) else {
        return Vec::new();
    };
    let hidden: BTreeSet<BaseName> = markers.iter().map(|one| one.path.hides()).collect();
    read.retain(|file| !hidden.contains(&file.path.name()));
    read.sort_by(|one, other| one.path.cmp(&other.path));
    read
}

/// Missing files that the configuration requires, with the key that requires them.
fn missing(root: &Node, layout: &Layout) -> (String, Vec<String>) {
    let of = |node: &Node, name: &str| {
        let mut entries = node.entries().iter();
        let plain = |key: &str| key.replace(['_', '-'], "").to_lowercase();
        entries
            .find(|entry| plain(&entry.key) == name)
            .map(|entry| (entry.key.clone(), entry.value.clone()))
    };
    let Some((_, os)) = of(root, "os") else {
        return Default::default();
    };
    let Some((key, files)) = of(&os, "writefiles") else {
        return Default::default();
    };
    let paths = files.items().iter().filter_map(|file| {
        let (_, path) = of(file, "path")?;
        path.as_str().map(str::to_owned)
    });
    // The daemon has its own directories for temporary files, and its sandbox hides the homes.
    let is_temporary = |path: &str| {
        ["/tmp/", "/var/tmp/"]
            .iter()
            .any(|&one| path.starts_with(one))
    };
    let missing = paths
        .filter(|path| path.starts_with('/') && !path.split('/').any(|part| part == ".."))
        .filter(|path| !is_temporary(path) && !is_hidden(&layout.path(path)))
        .filter(|path| fs::symlink_metadata(layout.path(path)).is_err());
    (format!("os.{key}"), missing.collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::hide;

    fn write(layout: &Layout, path: &str, text: &str) {
        let path = layout.path(path);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, text).unwrap();
    }

    #[test]
    fn what_lies_on_the_disk_is_seen_and_what_does_not_is_not_made_up() {
        let root = tempfile::tempdir().unwrap();
        let layout = Layout::new(root.path());
        let now: Timestamp = "2026-11-22T00:10:00Z".parse().unwrap();
        let look = || OwnNode {
            manifests: manifests(&layout, &ReadLimits::default(), now),
            ..read_files(&layout, now)
        };
        let nothing = look();
        assert_eq!(nothing.port_68_refused, None);
        assert_eq!((nothing.kubelet_until, nothing.gate), (None, None));
        assert_eq!(
            (nothing.manifests.len(), nothing.missing_files.len()),
            (0, 0)
        );

        write(
            &layout,
            "/var/log/pods/harvester-system_kube-vip-x7l2k_1/kube-vip/0.log",
            "2026-11-22T00:00:00Z stderr F listen udp4 :68: bind: address already in use\n",
        );
        write(
            &layout,
            "/oem/harvester.config",
            "os:\n  write_files:\n  - path: /etc/there\n  - path: /etc/absent\n  - path: /../x\ninstall: {vipmode: dhcp}\n",
        );
        write(&layout, "/etc/there", "");
        let manifests = "/var/lib/rancher/rke2/server/manifests";
        write(&layout, &format!("{manifests}/site.a.yaml"), "a: 1\n");
        write(&layout, &format!("{manifests}/held.yaml"), "a: 1\n");
        write(&layout, &format!("{manifests}/held.yaml.skip"), "");
        write(&layout, &format!("{manifests}/rke2-coredns.yaml"), "a: 1\n");
        write(
            &layout,
            "/var/log/pods/kube-system_kube-apiserver-n1_1/kube-apiserver/0.log",
            "2026-11-22T00:00:00Z stderr F Error: unrecognized feature gate: Nonsense\n",
        );
        let seen = look();
        assert_eq!(
            seen.port_68_refused.as_deref(),
            Some("listen udp4 :68: bind: address already in use")
        );
        assert_eq!(seen.vip_mode.as_deref(), Some("dhcp"));
        assert_eq!(seen.missing_files, ["/etc/absent"]);
        assert_eq!(seen.missing_under, "os.write_files");
        let addons: Vec<&str> = seen
            .manifests
            .iter()
            .map(|one| one.addon.as_str())
            .collect();
        assert_eq!(addons, ["site"]);
        assert_eq!(seen.gate, None, "it is not set any more");
        write(
            &layout,
            "/etc/rancher/rke2/config.yaml",
            "kube-apiserver-arg:\n  - feature-gates=Nonsense=true\n",
        );
        let refused = look().gate.unwrap();
        assert_eq!(refused.gate, "Nonsense");
        assert!(refused.at.contains("config.yaml:2"), "{}", refused.at);
    }

    #[test]
    fn a_file_where_the_sandbox_hides_the_directory_is_not_called_missing() {
        let root = tempfile::tempdir().unwrap();
        let layout = Layout::new(root.path());
        write(
            &layout,
            "/oem/harvester.config",
            "os: {write_files: [{path: /root/.ssh/a}, {path: /tmp/a}, {path: /var/tmp/a}, {path: /etc/a}]}\n",
        );
        let _hidden = hide(&layout.path("/root"));
        let seen = read_files(&layout, Timestamp::now());
        assert_eq!(seen.missing_files, ["/etc/a"]);
    }

    #[test]
    fn the_manifests_of_a_large_directory_are_all_seen() {
        let root = tempfile::tempdir().unwrap();
        let layout = Layout::new(root.path());
        for name in ["a", "b", "c", "held"] {
            let path = format!("/var/lib/rancher/rke2/server/manifests/{name}.yaml");
            write(&layout, &path, &"#".repeat(60));
        }
        write(
            &layout,
            "/var/lib/rancher/rke2/server/manifests/held.yaml.skip",
            "",
        );
        let limits = ReadLimits {
            directory_bytes: 100,
            ..ReadLimits::default()
        };
        let seen = super::manifests(&layout, &limits, Timestamp::now());
        let paths: Vec<&str> = seen.iter().map(|one| one.path.as_str()).collect();
        assert_eq!(paths, ["a.yaml", "b.yaml", "c.yaml"]);
    }
}
