//! Finds out who created an object, only from its metadata.
//!
//! | who | what it leaves on an object | source |
//! |---|---|---|
//! | Helm | annotations `meta.helm.sh/release-name` and `-namespace`, label `app.kubernetes.io/managed-by: Helm` | helm v3 and v4, `pkg/action/validate.go`, `setMetadataVisitor` |
//! | its charts | label `helm.sh/chart: NAME-VERSION`, `+` written as `_`, cut at 63 characters; older ones `chart` with `heritage: Helm` | helm, `docs/chart_best_practices/labels` and `pkg/chart/chartutil/create.go` |
//! | Helm, for a chart's `crds/` | nothing except the field manager `helm` | helm, `pkg/action/install.go`, `installCRDs` |
//! | RKE2's deploy controller, and every other user of wrangler's apply | annotations `objectset.rio.cattle.io/owner-gvk`, `owner-name` | wrangler v3 and v4, `pkg/apply/desiredset_apply.go` |
//! | Fleet | annotation `objectset.rio.cattle.io/id: default-BUNDLE`, on objects that also have Helm's annotations; field manager `fleetagent` | fleet, `internal/helmdeployer/postrender.go`, `GetSetID` |
//! | a controller | `ownerReferences`, one of them with `controller: true` | Kubernetes |
//! | any program | `managedFields[].manager` | Kubernetes, server-side apply |
//!
//! Nothing is guessed: without a trace, or with several, the creator is unknown.

use std::collections::BTreeMap;
use std::fmt;

use jiff::Timestamp;
use serde::Deserialize;
use serde::de::{Deserializer, IgnoredAny, MapAccess, Visitor};
use windrow_model::manifest::{GroupKind, group_of};

use super::Provenance;

const RELEASE_NAME: &str = "meta.helm.sh/release-name";
const RELEASE_NAMESPACE: &str = "meta.helm.sh/release-namespace";
const CHART: &str = "helm.sh/chart";
const OLD_CHART: &str = "chart";
const HERITAGE: &str = "heritage";
const MANAGED_BY: &str = "app.kubernetes.io/managed-by";
const SET_ID: &str = "objectset.rio.cattle.io/id";
const SET_OWNER_KIND: &str = "objectset.rio.cattle.io/owner-gvk";
const SET_OWNER_NAME: &str = "objectset.rio.cattle.io/owner-name";
/// The labels of Helm's own Secrets (helm, `pkg/storage/driver/secrets.go`).
const OF_RELEASES: &[&str] = &["name", "owner", "status", "version", "modifiedAt"];
/// Every other label and annotation is dropped while it is read: some are hundreds of kilobytes long.
const KEPT: &[&str] = &[
    RELEASE_NAME,
    RELEASE_NAMESPACE,
    CHART,
    OLD_CHART,
    HERITAGE,
    MANAGED_BY,
    SET_ID,
    SET_OWNER_KIND,
    SET_OWNER_NAME,
];
/// The prefix that Fleet's agent puts before the id of a bundle's objects: its default namespace.
const OF_FLEET: &str = "default-";
/// The field managers of Helm: the program, and the library in Fleet's agent.
const HELM: &[&str] = &["helm", "fleetagent"];
/// They write a part of nearly every object. They created an object only if no other manager wrote to it.
const KUBERNETES: &[&str] = &["kube-apiserver", "kube-controller-manager"];
/// The longest name that Kubernetes allows.
const LONGEST: usize = 253;
/// The longest label. One of this length may have been cut.
const LONGEST_LABEL: usize = 63;

/// The parts of an object's metadata that Windrow reads.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ObjectMetadata {
    pub name: String,
    /// Empty for a cluster-scoped object.
    pub namespace: String,
    pub uid: String,
    pub resource_version: String,
    /// In whole seconds.
    pub creation_timestamp: Option<Timestamp>,
    /// Only the labels that identify the creator or a Helm release.
    #[serde(deserialize_with = "kept")]
    pub labels: BTreeMap<String, String>,
    /// Only the annotations that identify the creator.
    #[serde(deserialize_with = "kept")]
    pub annotations: BTreeMap<String, String>,
    pub owner_references: Vec<OwnerReference>,
    pub managed_fields: Vec<FieldManager>,
}

#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct OwnerReference {
    api_version: String,
    kind: String,
    name: String,
    controller: bool,
}

/// A program that wrote some of its fields. The list of these fields is dropped while it is read.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub struct FieldManager {
    manager: String,
    subresource: String,
    time: Option<Timestamp>,
}

/// Reads a map of labels or annotations, and keeps only those in [`KEPT`].
fn kept<'de, D: Deserializer<'de>>(from: D) -> Result<BTreeMap<String, String>, D::Error> {
    struct Kept;
    impl<'de> Visitor<'de> for Kept {
        type Value = BTreeMap<String, String>;

        fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str("labels or annotations")
        }

        fn visit_unit<E>(self) -> Result<Self::Value, E> {
            Ok(BTreeMap::new())
        }

        fn visit_map<M: MapAccess<'de>>(self, mut map: M) -> Result<Self::Value, M::Error> {
            let mut kept = BTreeMap::new();
            while let Some(key) = map.next_key::<String>()? {
                match KEPT.contains(&key.as_str()) || OF_RELEASES.contains(&key.as_str()) {
                    true => drop(kept.insert(key, map.next_value()?)),
                    false => drop(map.next_value::<IgnoredAny>()?),
                }
            }
            Ok(kept)
        }
    }
    from.deserialize_any(Kept)
}

pub fn provenance(of: &ObjectMetadata) -> Provenance {
    let annotation = |key: &str| plausible(of.annotations.get(key));
    let fleet = || {
        let set = annotation(SET_ID).filter(|_| annotation(SET_OWNER_KIND).is_none());
        let bundle = set.and_then(|set| plausible_text(set.strip_prefix(OF_FLEET)?))?;
        Some(Provenance::Fleet {
            bundle: bundle.to_owned(),
        })
    };
    if let Some(release) = annotation(RELEASE_NAME) {
        let chart = chart(&of.labels);
        // Fleet makes a chart of plain manifests and names it after the bundle. Nobody published such a chart.
        if chart.is_none()
            && let Some(fleet) = fleet()
        {
            return fleet;
        }
        let (chart, version) = chart.unwrap_or_default();
        return Provenance::Helm {
            release: release.to_owned(),
            namespace: annotation(RELEASE_NAMESPACE).unwrap_or_default().to_owned(),
            chart: Some(chart).filter(|chart| !chart.is_empty()),
            version,
        };
    }
    if let (Some(kind), Some(name)) = (annotation(SET_OWNER_KIND), annotation(SET_OWNER_NAME)) {
        let kind = set_owner(kind);
        if kind == GroupKind::new("k3s.cattle.io", "Addon") {
            return Provenance::Addon {
                name: name.to_owned(),
            };
        }
        return Provenance::Owner {
            kind,
            name: name.to_owned(),
        };
    }
    fleet()
        .or_else(|| owner(&of.owner_references))
        .unwrap_or_else(|| by_manager(of))
}

/// The controller among the owners, or the first owner.
fn owner(owners: &[OwnerReference]) -> Option<Provenance> {
    let controller = owners.iter().find(|owner| owner.controller);
    let owner = controller.or(owners.first())?;
    Some(Provenance::Owner {
        kind: GroupKind::new(group_of(&owner.api_version), plausible_text(&owner.kind)?),
        name: plausible_text(&owner.name)?.to_owned(),
    })
}

/// The program that created the object, if only one is possible.
fn by_manager(of: &ObjectMetadata) -> Provenance {
    let Some(manager) = creator(of) else {
        let says_helm = of.labels.get(MANAGED_BY).is_some_and(|by| by == "Helm");
        return match of.managed_fields.is_empty() && says_helm {
            true => Provenance::HelmUnnamed,
            false => Provenance::NotKnown,
        };
    };
    match HELM.contains(&manager) {
        true => Provenance::HelmUnnamed,
        false => Provenance::Manager {
            name: manager.to_owned(),
        },
    }
}

/// The manager whose entry is as old as the object, or the only one. An entry has the time of its last change, so the
/// oldest entry may belong to a program that came later.
fn creator(of: &ObjectMetadata) -> Option<&str> {
    let written = of.managed_fields.iter();
    // Programs that find an existing object write status and scale.
    let whole = written.filter(|entry| entry.subresource.is_empty());
    let named = whole.filter_map(|entry| Some((manager_name(&entry.manager)?, entry.time)));
    let all: Vec<(&str, Option<Timestamp>)> = named.collect();
    let others = all.iter().filter(|(name, _)| !KUBERNETES.contains(name));
    let others: Vec<_> = others.copied().collect();
    let candidates = if others.is_empty() { all } else { others };
    let only = |entries: &[(&str, Option<Timestamp>)]| {
        let mut names: Vec<String> = entries.iter().map(|(name, _)| (*name).to_owned()).collect();
        names.dedup();
        names.len() == 1
    };
    if only(&candidates) {
        return Some(candidates[0].0);
    }
    let from_the_start: Vec<_> = candidates
        .into_iter()
        .filter(|(_, time)| time.is_some() && *time == of.creation_timestamp)
        .collect();
    only(&from_the_start).then(|| from_the_start[0].0)
}

/// RKE2's controllers are called `deploy@NODE`. The node's name is dropped.
fn manager_name(manager: &str) -> Option<&str> {
    plausible_text(manager.split('@').next()?)
}

/// A chart's name and version from the labels. No version if the label may have been cut.
fn chart(labels: &BTreeMap<String, String>) -> Option<(String, Option<String>)> {
    let old = || {
        let by_helm = labels.get(HERITAGE).is_some_and(|by| by == "Helm");
        labels.get(OLD_CHART).filter(|_| by_helm)
    };
    let label = plausible(labels.get(CHART).or_else(old))?;
    split_chart(label)
}

/// Splits `NAME-VERSION`. The version is the first part that begins like SemVer, which Helm requires of charts. Both
/// parts may contain hyphens.
fn split_chart(label: &str) -> Option<(String, Option<String>)> {
    let mut hyphens = label.match_indices('-').map(|(at, _)| at);
    let Some(at) = hyphens.find(|at| is_version(&label[at + 1..])) else {
        return plausible_text(label.trim_end_matches('-')).map(|name| (name.to_owned(), None));
    };
    let name = plausible_text(&label[..at])?.to_owned();
    let whole = label.len() < LONGEST_LABEL;
    let version = whole.then(|| label[at + 1..].replacen('_', "+", 1));
    Some((name, version))
}

/// Does it begin with `1.2.3` or `v1.2.3`?
fn is_version(text: &str) -> bool {
    let mut parts = text.strip_prefix('v').unwrap_or(text).splitn(3, '.');
    let number = |part: Option<&str>| {
        part.is_some_and(|part| !part.is_empty() && part.bytes().all(|one| one.is_ascii_digit()))
    };
    number(parts.next())
        && number(parts.next())
        && parts
            .next()
            .is_some_and(|last| last.starts_with(|one: char| one.is_ascii_digit()))
}

/// Parses a kind in wrangler's notation: `k3s.cattle.io/v1, Kind=Addon`, `/v1, Kind=Namespace`.
fn set_owner(text: &str) -> GroupKind {
    let (version, kind) = text.split_once(", Kind=").unwrap_or(("", text));
    GroupKind::new(group_of(version), kind)
}

fn plausible(text: Option<&String>) -> Option<&str> {
    plausible_text(text?)
}

/// A text that can be a name, a version or a kind. An annotation may contain anything.
fn plausible_text(text: &str) -> Option<&str> {
    let graphic = |byte: u8| byte.is_ascii_graphic() || byte == b' ';
    let is_plausible = !text.is_empty() && text.len() <= LONGEST && text.bytes().all(graphic);
    is_plausible.then_some(text)
}

impl ObjectMetadata {
    /// Can its name be a Kubernetes name? A server that answers instead of kube-apiserver may send anything.
    pub fn is_plausible(&self) -> bool {
        plausible_text(&self.name).is_some()
            && (self.namespace.is_empty() || plausible_text(&self.namespace).is_some())
    }
}

#[cfg(test)]
#[path = "provenance_tests.rs"]
mod tests;
