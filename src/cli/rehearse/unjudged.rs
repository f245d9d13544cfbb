//! The parts of the inputs that no rule judges.

use windrow_inputs::extract::{FileKind, field, kind_of};
use windrow_model::findings::Location;
use windrow_model::manifest::{DATA_DIR, ManifestFile, Node, Object, yaml};
use windrow_model::object::pods;
use windrow_model::unchecked::{CanStop, NotChecked};
use windrow_plan::SourceMap;
use windrow_plan::knowledge::installed_chart;
use windrow_plan::rke2::config::Rke2ConfigFile;
use windrow_plan::rke2::{Rke2Role, profile};

/// Directories of which Windrow judges files.
const JUDGED: [&str; 3] = ["/etc/rancher/rke2/", "/etc/windrow/", DATA_DIR];

/// The charts of the files: what they install is known only in part.
pub(super) fn contents_of_charts(read: &[(&ManifestFile, &SourceMap)]) -> Vec<NotChecked> {
    let objects = read
        .iter()
        .flat_map(|(file, shown)| file.objects().map(move |object| (object, shown)));
    let charts = objects.filter_map(|(object, shown)| {
        let is_config = object.id.group == "helm.cattle.io" && object.id.kind == "HelmChartConfig";
        let what = match installed_chart(object) {
            Some(chart) => format!("the contents and values of the chart {}", chart.name()),
            None if is_config => format!("the values of {}", object.id),
            None => return None,
        };
        Some(NotChecked {
            what,
            why: "Windrow does not render charts".to_owned(),
            can_stop: CanStop::Itself,
            at: vec![shown.at(Some(values_line(object)))],
        })
    });
    charts.collect()
}

/// The line of a chart's values, or else of the chart.
fn values_line(object: &Object) -> u32 {
    let values = object.node.get("spec");
    let values = values.and_then(|spec| spec.entry("valuesContent"));
    values.map_or(object.line, |entry| entry.line)
}

/// Names in objects that only a network or a machine could prove: images, unless a list of them is given, and network interfaces.
pub(super) fn names_outside(
    read: &[(&ManifestFile, &SourceMap)],
    has_images: bool,
) -> Vec<NotChecked> {
    let (mut images, mut nics, mut addresses) = (Vec::new(), Vec::new(), Vec::new());
    for (file, shown) in read {
        for object in file.objects() {
            let at = |node: &Node| shown.at(Some(node.line));
            let pods = object.pod_template().filter(|_| !has_images);
            let containers = pods
                .into_iter()
                .flat_map(|pods| pods::containers(pods.spec));
            images.extend(containers.filter_map(|one| one.node.get("image").map(at)));
            if object.id.kind == "VirtualMachineImage" {
                addresses.extend(object.node.at(&["spec", "url"]).map(at));
            }
            if object.id.kind == "VlanConfig" {
                let names = object.node.at(&["spec", "uplink", "nics"]);
                nics.extend(names.map_or(&[][..], Node::items).iter().map(at));
            }
        }
    }
    let entry = |what: &str, why: &str, at: Vec<Location>| NotChecked {
        what: what.to_owned(),
        why: why.to_owned(),
        can_stop: CanStop::Itself,
        at,
    };
    let images = entry(
        "images",
        "Windrow fetches none; `--images` compares them with a list",
        images,
    );
    let nics = entry(
        "network interfaces",
        "only the machine shows whether they exist",
        nics,
    );
    let addresses = entry(
        "addresses of images of VMs",
        "Windrow fetches none",
        addresses,
    );
    let found = [images, addresses, nics].into_iter();
    found.filter(|one| !one.at.is_empty()).collect()
}

/// What `profile` needs of the machine and no configuration creates: without it RKE2 ends at once (rke2 `pkg/cli/cmds/profile_linux.go`,
/// `validateKernelReqs` and `validateETCDReqs`).
pub(super) fn of_profile(
    files: &[Rke2ConfigFile],
    role: Rke2Role,
    carriers: &[(String, String)],
) -> Option<NotChecked> {
    let profile = profile(files)?;
    let is_written = |words: &[&str]| {
        let mut texts = carriers.iter().map(|(_, text)| text);
        texts.any(|text| words.iter().any(|word| text.contains(word)))
    };
    let parameters = profile.text.starts_with("cis")
        && !is_written(&["kernel.panic_on_oops", "rke2-cis-sysctl"]);
    let user = role == Rke2Role::Server
        && !is_written(&[
            "useradd",
            "adduser",
            "sysusers.d",
            "name: etcd",
            "name: \"etcd\"",
            "- etcd",
            "\"name\": \"etcd\"",
        ]);
    let what = match (parameters, user) {
        (true, true) => "user and group etcd, kernel parameters",
        (true, false) => "kernel parameters",
        (false, true) => "user and group etcd",
        (false, false) => return None,
    };
    Some(NotChecked {
        what: format!(
            "what `profile: {}` needs of the machine ({what})",
            profile.text
        ),
        why: "RKE2 does not start without them, and nothing here creates them".to_owned(),
        can_stop: CanStop::Component,
        at: vec![profile.at],
    })
}

/// The parts of a configuration that are about neither RKE2, Harvester nor Windrow.
pub(super) fn other_parts(shown: &str, text: &str) -> Vec<NotChecked> {
    let kind = kind_of(text);
    let root = yaml::parse_configuration(text).ok().flatten();
    let Some(root) = root else {
        return Vec::new();
    };
    let entry = |what: String, line: u32| NotChecked {
        what,
        why: "it is not about RKE2, Harvester or Windrow".to_owned(),
        can_stop: CanStop::Itself,
        at: vec![Location::line(shown, line)],
    };
    let file = |file: &Node| {
        let path = field(file, "path")?.as_str()?;
        let is_judged = JUDGED.iter().any(|known| path.starts_with(known));
        (!is_judged).then(|| entry(format!("the file {path}"), file.line))
    };
    match kind {
        FileKind::HarvesterConfig => {
            let written = field(&root, "os").and_then(|os| field(os, "writeFiles"));
            let written = written.map_or(&[][..], Node::items);
            written.iter().filter_map(file).collect()
        }
        FileKind::CloudInit => {
            let files = root.list("write_files").iter();
            let files = files.flat_map(|one| file(one).into_iter().chain(owner(one, shown)));
            let others = root.entries().iter();
            let others = others.filter(|one| one.key != "write_files");
            let others = others.map(|one| entry(format!("`{}`", one.key), one.line));
            files.chain(others).collect()
        }
        FileKind::Yip => {
            let stages = root.get("stages").map_or(&[][..], Node::entries).iter();
            let steps = stages.flat_map(|stage| {
                let steps = stage.value.items().iter();
                steps.map(|step| (stage.key.as_str(), step))
            });
            let parts = steps.flat_map(|(stage, step)| {
                let others = step.entries().iter();
                let others = others.filter(|one| !["files", "name"].contains(&one.key.as_str()));
                let others = others.map(|one| {
                    let what = format!("`stages.{stage}[].{}`", one.key);
                    entry(what, one.line)
                });
                let files = step.list("files").iter().filter_map(file);
                files.chain(others).collect::<Vec<_>>()
            });
            let others = root.entries().iter();
            let others = others.filter(|one| !["name", "stages"].contains(&one.key.as_str()));
            let others = others.map(|one| entry(format!("`{}`", one.key), one.line));
            parts.chain(others).collect()
        }
        FileKind::Ignition | FileKind::Butane => {
            let what = format!("the other files, units and commands of {}", kind.name());
            vec![entry(what, first_line(&root))]
        }
        FileKind::ImageBuilder | FileKind::Manifests => Vec::new(),
    }
}

/// An owner that the image may lack: cloud-init ends `write_files` there with an error.
fn owner(file: &Node, shown: &str) -> Option<NotChecked> {
    let owner = field(file, "owner")?;
    let mut parts = owner.as_str()?.split(':').map(str::trim);
    let is_there = parts.all(|part| ["", "root"].contains(&part));
    (!is_there).then(|| NotChecked {
        what: format!("`owner` {}", owner.as_str().unwrap_or_default()),
        why: "the image may have no such user or group".to_owned(),
        can_stop: CanStop::Itself,
        at: vec![Location::line(shown, owner.line)],
    })
}

fn first_line(root: &Node) -> u32 {
    root.entries().first().map_or(root.line, |entry| entry.line)
}
