//! What one boot teaches: a row of the `boots` of a knowledge file. One line of JSON, which a person can read and take out.

use std::collections::BTreeSet;

use jiff::Timestamp;
use schemars::JsonSchema;
use serde::{Deserialize, Deserializer, Serialize};
use windrow_decide::flight::{Appeared, BootState};
use windrow_model::manifest::{GroupKind, ObjectRef};
use windrow_plan::readiness::node::{NodeRole, Phase};
use windrow_plan::rules::Platform;

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
    /// The boot: a short digest of the kernel's id of it.
    pub id: String,
    /// The version of Windrow that recorded it.
    pub windrow: String,
    /// What the node is.
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
    /// Its beginning is not in the flight any more: what it lacks contradicts nothing.
    #[serde(default, skip_serializing_if = "is_false")]
    pub cut: bool,
    /// Does the flight say what came into the cluster? Those of older versions do not.
    #[serde(default, skip_serializing_if = "is_false")]
    pub watched: bool,
    /// What it came to.
    pub end: BootState,
    /// How long it was in each phase.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub phases: Vec<ObservedPhase>,
    /// How long RKE2 took with each file, from when it might have it until it had applied it, in milliseconds, the quickest first. Of many
    /// files an even choice.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub polls: Vec<u64>,
    /// Who brought what.
    #[serde(
        default,
        skip_serializing_if = "Vec::is_empty",
        deserialize_with = "without_guesses"
    )]
    pub brought: Vec<ObservedBringer>,
    /// What kube-apiserver refused.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub refusals: Vec<ObservedRefusal>,
}

/// A phase of a boot.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
pub struct ObservedPhase {
    /// Which.
    pub phase: PhaseName,
    /// How long, in milliseconds: all of its stays.
    pub ms: u64,
    /// The node was in it when the flight ended: it takes longer than that.
    #[serde(default, skip_serializing_if = "is_false")]
    pub open: bool,
}

/// A phase by its name, in the order of its name.
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

/// One who brought things in a boot, or was deployed in it.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
pub struct ObservedBringer {
    /// Who.
    pub by: Who,
    /// Was it deployed, as Helm says?
    #[serde(default, skip_serializing_if = "is_false")]
    pub done: bool,
    /// What came from it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub things: Vec<ObservedThing>,
}

/// Something that came.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
pub struct ObservedThing {
    /// What: `Widget.example.com`, `cluster:WidgetClass.example.com`, `Namespace widgets`, `storage.k8s.io/StorageClass widgets`.
    #[serde(with = "thing_text")]
    #[schemars(with = "String")]
    pub what: Appeared,
    /// How long after the manifest was applied that has it brought, in milliseconds. Absent where that is not known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub after: Option<u64>,
    /// How long after kube-apiserver's first answer, in milliseconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub api: Option<u64>,
}

/// Who brought something, as labels, annotations and owner references of the object say.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", tag = "is")]
pub enum Who {
    /// A Helm chart.
    Chart {
        /// What it is called in its repository.
        name: String,
        /// Its version, where the HelmChart or a label says it.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        version: Option<String>,
        /// Its repository or address, without what stands before the host.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        repository: Option<String>,
        /// Is its HelmChart in the manifests directory? Else the platform, or a person, installed it.
        #[serde(default, skip_serializing_if = "is_false")]
        manifest: bool,
    },
    /// A Helm release of which no chart is known.
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
    /// By whom is not known. Earlier builds wrote the field manager (`manager`), which proves nothing.
    #[serde(alias = "manager")]
    Unknown,
}

/// Something that kube-apiserver refused.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
pub struct ObservedRefusal {
    /// An object of this kind.
    pub kind: GroupKind,
    /// In these words, without values.
    pub said: String,
    /// Why, where it was found.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cause: Option<String>,
}

impl ObservedBoot {
    /// Its line: JSON in ASCII, so that it stands in YAML as it is.
    pub fn line(&self) -> String {
        // Maps with string keys, strings and numbers: always JSON.
        ascii(&serde_json::to_string(self).unwrap_or_default())
    }

    /// Says this boot what did *not* come? Only one that was watched from its beginning to its end does.
    pub fn is_whole(&self) -> bool {
        self.watched && !self.cut && self.end.is_end()
    }

    /// Its role, where it is known.
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

    /// How much it says: of two rows of the same boot the one that says more is kept.
    fn weight(&self) -> impl Ord + use<> {
        let things: usize = self.brought.iter().map(|one| one.things.len()).sum();
        let phases: u64 = self.phases.iter().map(|phase| phase.ms).sum();
        (!self.cut, self.end.is_end(), things, phases)
    }

    /// Of two rows of the same boot the one that says more; the same one whatever comes first.
    pub fn or_better(self, other: Self) -> Self {
        match (self.weight(), self.line()) < (other.weight(), other.line()) {
            true => other,
            false => self,
        }
    }
}

/// JSON with every character outside of ASCII escaped.
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

/// Reads who brought what. A row of an earlier build also lists, for each chart, the things that it may have brought (`perhaps`). Such a
/// thing appeared, but its provider is unknown: it must count neither for a chart nor against one.
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

/// Things as short texts: a file holds many of them.
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

/// A thing as a short text.
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
