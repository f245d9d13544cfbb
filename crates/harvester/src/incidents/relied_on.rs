//! The components that a fix relies on. A fix changes the cluster, so Windrow infers nothing from neighbouring releases: each of
//! these components must run in exactly a version whose sources were examined.

use serde_json::Value;

use super::finding::IncidentFinding;
use crate::objects::{ObjectKind, Objects, Unlisted, named, text};
use crate::upgrade::label;
use crate::versions::{HarvesterRelease, HarvesterVersions, the_clusters_version};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ReliedOn {
    /// Harvester's own controllers and webhooks.
    Harvester,
    /// The helm-controller in RKE2's server.
    HelmController,
    /// Rancher and its webhook.
    Rancher,
    Fleet,
    KubeVirt,
    Longhorn,
}

/// The reason why a fix must not be offered; `None` if every component runs in an examined version.
///
/// # Errors
///
/// A kind that was not requested yet.
pub(super) fn unconfirmed(
    objects: &Objects,
    components: &[ReliedOn],
) -> Result<Option<String>, Unlisted> {
    for component in components {
        match confirm(objects, *component) {
            Ok(()) => {}
            Err(Unconfirmed::Because(why)) => return Ok(Some(why)),
            Err(Unconfirmed::Unlisted(unlisted)) if unlisted.wanted => return Err(unlisted),
            Err(Unconfirmed::Unlisted(unlisted)) => return Ok(Some(unlisted.to_string())),
        }
    }
    Ok(None)
}

/// Withdraws the fixes that rely on a component without a confirmed version. The advice then gives the reason.
pub(super) fn withdraw_unconfirmed(
    mut findings: Vec<IncidentFinding>,
    objects: &Objects,
    components: &[ReliedOn],
) -> Result<Vec<IncidentFinding>, Unlisted> {
    let has_cure = |finding: &IncidentFinding| finding.cure.is_some();
    if !findings.iter().any(has_cure) {
        return Ok(findings);
    }
    if let Some(why) = unconfirmed(objects, components)? {
        for finding in findings.iter_mut().filter(|finding| has_cure(finding)) {
            finding.cure = None;
            finding.unconfirmed = true;
            finding.advice += &format!(" Windrow offers no fix: {why}.");
        }
    }
    Ok(findings)
}

enum Unconfirmed {
    Because(String),
    Unlisted(Unlisted),
}

impl From<Unlisted> for Unconfirmed {
    fn from(unlisted: Unlisted) -> Self {
        Self::Unlisted(unlisted)
    }
}

fn confirm(objects: &Objects, component: ReliedOn) -> Result<(), Unconfirmed> {
    let release = running_release(objects)?;
    let (name, version) = match component {
        ReliedOn::Harvester => return Ok(()),
        ReliedOn::HelmController => ("helm-controller", &release.helm_controller),
        ReliedOn::Rancher => ("Rancher", &release.rancher),
        ReliedOn::Fleet => ("Fleet", &release.fleet),
        ReliedOn::KubeVirt => ("KubeVirt", &release.kubevirt),
        ReliedOn::Longhorn => ("Longhorn", &release.longhorn),
    };
    if version.is_none() {
        let harvester = release.version;
        let why = format!("the {name} of Harvester v{harvester} is unknown");
        return Err(Unconfirmed::Because(why));
    }
    if component == ReliedOn::HelmController {
        confirm_rke2(objects, release)?;
    }
    Ok(())
}

fn running_release(objects: &Objects) -> Result<&'static HarvesterRelease, Unconfirmed> {
    let Some(harvester) = the_clusters_version(objects)? else {
        let why = "the version of Harvester is unknown".to_owned();
        return Err(Unconfirmed::Because(why));
    };
    let known = HarvesterVersions::shipped();
    let release = known
        .release(harvester)
        .filter(|_| known.was_read(harvester));
    release.ok_or_else(|| {
        Unconfirmed::Because(format!(
            "the sources of Harvester v{harvester} were not read"
        ))
    })
}

/// During an upgrade the servers run different versions of RKE2, and any of them can be the leader.
fn confirm_rke2(objects: &Objects, release: &HarvesterRelease) -> Result<(), Unconfirmed> {
    let is_server = |node: &&Value| label(node, "node-role.kubernetes.io~1control-plane") == "true";
    let nodes = objects.all(ObjectKind::NODE)?.iter();
    let servers: Vec<&Value> = nodes.filter(is_server).collect();
    if servers.is_empty() {
        let why = "no Node has the role control-plane".to_owned();
        return Err(Unconfirmed::Because(why));
    }
    let rke2 = release.rke2.as_deref().unwrap_or_default();
    let kubelet = |node: &Value| text(node, "/status/nodeInfo/kubeletVersion").to_owned();
    let other = servers.into_iter().find(|node| kubelet(node) != rke2);
    other.map_or(Ok(()), |node| {
        let (node, runs, harvester) = (named(node), kubelet(node), release.version);
        let why =
            format!("Node {node} runs {runs:?} and not {rke2}, the RKE2 of Harvester v{harvester}");
        Err(Unconfirmed::Because(why))
    })
}
