//! User data of VMs: whether cloud-init can read it. What it says is not judged.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use windrow_model::findings::Finding;
use windrow_model::manifest::{Node, Object, ReadLimits, yaml};
use windrow_model::reasons::Code;
use windrow_model::unchecked::{CanStop, NotChecked};
use windrow_plan::SourceMap;

use super::finding;

const HEADER: &str = "#cloud-config";

/// Texts of cloud-init in a Secret or ConfigMap, or in a VirtualMachine itself.
pub(super) fn judge(object: &Object, shown: &SourceMap) -> (Vec<Finding>, Vec<NotChecked>) {
    let node = &object.node;
    let texts: Vec<(u32, String)> = match (object.id.group.as_str(), object.id.kind.as_str()) {
        ("", "Secret") => {
            let coded = entries(node, "data").filter_map(decoded);
            entries(node, "stringData")
                .filter_map(plain)
                .chain(coded)
                .collect()
        }
        ("", "ConfigMap") => entries(node, "data").filter_map(plain).collect(),
        ("kubevirt.io", "VirtualMachine") => sources(object)
            .flat_map(|source| {
                let text = source.get("userData").and_then(plain);
                text.into_iter()
                    .chain(source.get("userDataBase64").and_then(decoded))
            })
            .collect(),
        _ => Vec::new(),
    };
    let (mut findings, mut not_checked) = (Vec::new(), networks(object, shown));
    for (line, text) in texts {
        if text.lines().next().map(str::trim_end) != Some(HEADER) {
            continue;
        }
        let at = vec![shown.at(Some(line))];
        let unjudged = |why: &str, at| NotChecked {
            what: format!("the user data in {}", object.id),
            why: why.to_owned(),
            can_stop: CanStop::Itself,
            at,
        };
        // cloud-init takes the last of two equal keys.
        match yaml::input(&text, &ReadLimits::default()) {
            _ if text.contains("{{") => {
                not_checked.push(unjudged("another program fills in its template", at));
            }
            Ok(_) => {
                let why = "it is not about RKE2, Harvester or Windrow";
                not_checked.push(unjudged(why, at));
            }
            Err(problems) => {
                let why = problems
                    .first()
                    .map_or("", |problem| problem.message.as_str());
                let code = Code::UserDataUnreadable;
                let words = [("object", &*object.id.to_string()), ("why", why)];
                findings.push(finding(code, code.say(&words), at));
            }
        }
    }
    (findings, not_checked)
}

/// The network data of a VM, in it or in a Secret, which cloud-init reads in the VM.
fn networks(object: &Object, shown: &SourceMap) -> Vec<NotChecked> {
    let texts = sources(object).filter_map(|source| source.entry("networkData"));
    // Harvester's name for it in a Secret.
    let of_secret = ["data", "stringData"].into_iter().filter_map(|field| {
        let is_secret = object.id.group.is_empty() && object.id.kind == "Secret";
        object
            .node
            .get(field)
            .filter(|_| is_secret)?
            .entry("networkdata")
    });
    let at: Vec<_> = texts
        .chain(of_secret)
        .map(|text| shown.at(Some(text.line)))
        .collect();
    let entry = NotChecked {
        what: format!("the network data in {}", object.id),
        why: "it is not about RKE2, Harvester or Windrow".to_owned(),
        can_stop: CanStop::Itself,
        at,
    };
    Vec::from_iter(Some(entry).filter(|entry| !entry.at.is_empty()))
}

/// The volumes of cloud-init of a VM.
fn sources(object: &Object) -> impl Iterator<Item = &Node> {
    let volumes = object.node.at(&["spec", "template", "spec", "volumes"]);
    let volumes = volumes.map_or(&[][..], Node::items).iter();
    volumes.flat_map(|volume| {
        let kinds = ["cloudInitNoCloud", "cloudInitConfigDrive"];
        kinds.into_iter().filter_map(|kind| volume.get(kind))
    })
}

fn entries<'n>(node: &'n Node, field: &str) -> impl Iterator<Item = &'n Node> {
    let entries = node.get(field).map_or(&[][..], Node::entries);
    entries.iter().map(|entry| &entry.value)
}

fn plain(node: &Node) -> Option<(u32, String)> {
    Some((node.line, node.as_str()?.to_owned()))
}

fn decoded(node: &Node) -> Option<(u32, String)> {
    let bytes = STANDARD.decode(node.as_str()?.trim()).ok()?;
    Some((node.line, String::from_utf8(bytes).ok()?))
}
