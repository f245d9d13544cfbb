//! The lessons of one boot: a row of the `boots` of a knowledge file. It is one line of JSON, which a user can read and
//! delete.

use std::collections::BTreeSet;

use jiff::Timestamp;
use schemars::JsonSchema;
use serde::{Deserialize, Deserializer, Serialize};
use windrow_decide::flight::Appeared;
use windrow_model::manifest::{GroupKind, ObjectRef};
use windrow_plan::readiness::node::{NodeRole, Phase};
use windrow_plan::rules::Platform;
use windrow_replay::BootState;

/// The format of the rows that this program writes.
pub const ROW_FORMAT: u32 = 1;

/// One boot of one node.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ObservedBoot {
    /// The format of the row.
    pub format: u32,
    /// When the boot began, by the node's clock.
    pub at: Timestamp,
    /// The boot: a short digest of the kernel's boot id.
    pub id: String,
    /// The version of Windrow that recorded it.
    pub windrow: String,
    /// The node's platform.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub platform: Option<Platform>,
    /// kube-apiserver's version.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub kubernetes: Option<String>,
    /// Harvester's version.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub harvester: Option<String>,
    /// The node's role.
    #[serde(default, skip_serializing_if = "is_unknown_role")]
    pub role: NodeRole,
    /// The class of the hardware.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hardware: Option<String>,
    /// Was the node installed before?
    #[serde(default, skip_serializing_if = "is_false")]
    pub installed: bool,
    /// The boot log does not contain its beginning: a thing that is missing in it contradicts nothing.
    #[serde(default, skip_serializing_if = "is_false")]
    pub cut: bool,
    /// Does the boot log record objects that came into the cluster? Older versions of Windrow did not record them.
    #[serde(default, skip_serializing_if = "is_false")]
    pub watched: bool,
    /// The result of the boot.
    pub end: BootState,
    /// How long it was in each phase.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub phases: Vec<ObservedPhase>,
    /// How long RKE2 took with each file, from its release until it was applied, in milliseconds, the quickest first.
    /// For a large number of files, an even choice.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub polls: Vec<u64>,
    /// The providers and their objects.
    #[serde(
        default,
        skip_serializing_if = "Vec::is_empty",
        deserialize_with = "without_guesses"
    )]
    pub brought: Vec<ObservedBringer>,
    /// Requests that kube-apiserver refused.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub refusals: Vec<ObservedRefusal>,
}

/// A phase of a boot.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
pub struct ObservedPhase {
    /// The phase.
    pub phase: PhaseName,
    /// How long, in milliseconds: the sum of all its stays.
    pub ms: u64,
    /// The node was in it when the boot log ended: it takes longer than that.
    #[serde(default, skip_serializing_if = "is_false")]
    pub open: bool,
}

/// A phase, sorted by its name.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(transparent)]
pub struct PhaseName(pub Phase);

impl PartialOrd for PhaseName {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for PhaseName {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        let place = |name: &Self| Phase::ALL.iter().position(|one| *one == name.0);
        place(self).cmp(&place(other))
    }
}

/// A provider of things in a boot, or a chart that was deployed in it.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
pub struct ObservedBringer {
    /// The provider.
    pub by: Who,
    /// Was it deployed, according to Helm?
    #[serde(default, skip_serializing_if = "is_false")]
    pub done: bool,
    /// The things that it provided.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub things: Vec<ObservedThing>,
}

/// A thing that appeared in the cluster.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
pub struct ObservedThing {
    /// Its text: `Widget.example.com`, `cluster:WidgetClass.example.com`, `Namespace widgets`,
    /// `storage.k8s.io/StorageClass widgets`.
    #[serde(with = "thing_text")]
    #[schemars(with = "String")]
    pub what: Appeared,
    /// How long after the responsible manifest was applied, in milliseconds; absent if unknown.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub after: Option<u64>,
    /// How long after kube-apiserver's first answer, in milliseconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub api: Option<u64>,
}

/// The provider of a thing, according to labels, annotations and owner references of the object.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", tag = "is")]
pub enum Who {
    /// A Helm chart.
    Chart {
        /// Its name in its repository.
        name: String,
        /// Its version, if the HelmChart or a label has it.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        version: Option<String>,
        /// Its repository or address, without the part before the host.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        repository: Option<String>,
        /// Is its HelmChart in the manifests directory? Otherwise, the platform or a user installed it.
        #[serde(default, skip_serializing_if = "is_false")]
        manifest: bool,
    },
    /// A Helm release whose chart is unknown.
    Release {
        /// Its name.
        name: String,
        /// Its namespace.
        namespace: String,
    },
    /// A manifest of the directory itself.
    Addon {
        /// The Addon.
        name: String,
    },
    /// A bundle of Fleet.
    Fleet {
        /// The bundle.
        bundle: String,
    },
    /// The controller of an object's kind.
    Owner {
        /// The kind.
        kind: GroupKind,
    },
    /// Unknown. Earlier builds wrote the field manager (`manager`), which proves nothing.
    #[serde(alias = "manager")]
    Unknown,
}

/// A request that kube-apiserver refused.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
pub struct ObservedRefusal {
    /// The kind of the object.
    pub kind: GroupKind,
    /// The text of the refusal, without values.
    pub said: String,
    /// The cause, if it was found.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cause: Option<String>,
}

impl ObservedBoot {
    /// Its line: JSON in ASCII, so that it can be used in YAML without changes.
    pub fn line(&self) -> String {
        // Maps with string keys, strings and numbers are always valid JSON.
        ascii(&serde_json::to_string(self).unwrap_or_default())
    }

    /// Does this boot show which things did *not* come? Only a boot that was watched from its beginning to its end
    /// does.
    pub fn is_whole(&self) -> bool {
        self.watched && !self.cut && self.end.is_end()
    }

    pub(crate) fn known_role(&self) -> Option<NodeRole> {
        Some(self.role).filter(|role| !is_unknown_role(role))
    }

    /// The version of its platform: Harvester's, or on plain RKE2 that of Kubernetes.
    pub fn platform_version(&self) -> Option<&str> {
        match self.platform {
            Some(Platform::Harvester) => self.harvester.as_deref(),
            _ => self.kubernetes.as_deref(),
        }
    }

    /// The amount of information: from two rows of the same boot, the one with more of it is kept.
    fn weight(&self) -> impl Ord + use<> {
        let things: usize = self.brought.iter().map(|one| one.things.len()).sum();
        let phases: u64 = self.phases.iter().map(|phase| phase.ms).sum();
        (!self.cut, self.end.is_end(), things, phases)
    }

    /// From two rows of the same boot, the one with more information. The order of the two does not matter.
    pub fn or_better(self, other: Self) -> Self {
        match (self.weight(), self.line()) < (other.weight(), other.line()) {
            true => other,
            false => self,
        }
    }
}

/// JSON in which every character outside of ASCII is escaped.
pub(crate) fn ascii(json: &str) -> String {
    let mut out = String::with_capacity(json.len());
    for one in json.chars() {
        match one {
            ' '..='~' => out.push(one),
            other => {
                let mut units = [0; 2];
                for unit in other.encode_utf16(&mut units) {
                    out.push_str(&format!("\\u{unit:04x}"));
                }
            }
        }
    }
    out
}

/// Reads the providers. A row of an earlier build also lists, for each chart, the things that it may have provided
/// (`perhaps`). Such a thing appeared, but its provider is unknown: it must count neither for a chart nor against one.
fn without_guesses<'d, D: Deserializer<'d>>(input: D) -> Result<Vec<ObservedBringer>, D::Error> {
    #[derive(Deserialize)]
    struct WrittenBringer {
        #[serde(flatten)]
        bringer: ObservedBringer,
        #[serde(default)]
        perhaps: Vec<ObservedThing>,
    }
    let mut guessed = BTreeSet::new();
    let mut brought = Vec::new();
    for WrittenBringer { bringer, perhaps } in Vec::<WrittenBringer>::deserialize(input)? {
        guessed.extend(perhaps.into_iter().map(|thing| ObservedThing {
            after: None,
            ..thing
        }));
        brought.push(bringer);
    }
    if !guessed.is_empty() {
        brought.push(ObservedBringer {
            by: Who::Unknown,
            done: false,
            things: guessed.into_iter().collect(),
        });
    }
    Ok(brought)
}

fn is_false(flag: &bool) -> bool {
    !flag
}

fn is_unknown_role(role: &NodeRole) -> bool {
    *role == NodeRole::Unknown
}

/// Things as short texts, because a file has many of them.
mod thing_text {
    use serde::{Deserialize, Deserializer, Serializer, de::Error};
    use windrow_decide::flight::Appeared;

    pub(super) fn serialize<S: Serializer>(what: &Appeared, out: S) -> Result<S::Ok, S::Error> {
        out.serialize_str(&super::thing_words(what))
    }

    pub(super) fn deserialize<'d, D: Deserializer<'d>>(input: D) -> Result<Appeared, D::Error> {
        let text = String::deserialize(input)?;
        super::thing_from(&text).ok_or_else(|| D::Error::custom("neither a kind nor an object"))
    }
}

pub fn thing_words(what: &Appeared) -> String {
    match what {
        Appeared::Kind {
            kind,
            namespaced: true,
        } => kind.to_string(),
        Appeared::Kind { kind, .. } => format!("cluster:{kind}"),
        Appeared::Object(object) => match object.group.as_str() {
            "" => object.to_string(),
            group => format!("{group}/{object}"),
        },
    }
}

fn thing_from(text: &str) -> Option<Appeared> {
    let Some((kind, name)) = text.split_once(' ') else {
        let (namespaced, text) = match text.strip_prefix("cluster:") {
            Some(rest) => (false, rest),
            None => (true, text),
        };
        let (kind, group) = text.split_once('.')?;
        let kind = GroupKind::new(group, kind);
        return Some(Appeared::Kind { kind, namespaced });
    };
    let (group, kind) = kind.split_once('/').unwrap_or(("", kind));
    Some(Appeared::Object(match name.split_once('/') {
        Some((namespace, name)) => ObjectRef::namespaced(group, kind, namespace, name),
        None => ObjectRef::cluster(group, kind, name),
    }))
}
