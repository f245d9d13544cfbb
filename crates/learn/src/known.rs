//! The whole knowledge as a document.

use std::collections::BTreeMap;

use jiff::civil::Date;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use windrow_decide::flight::Appeared;
use windrow_model::findings::Location;
use windrow_plan::knowledge::{
    Bringer, Knowledge, KnowledgeEntry, LearnedPhase, LearnedRefusal, LearnedTimes, Seen,
};
use windrow_plan::readiness::node::NodeRole;
use windrow_plan::rules::Platform;

use crate::row::thing_words;

/// The whole knowledge.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct KnowledgeReport {
    /// `windrow.dev/v1`
    pub api_version: String,
    /// `KnowledgeList`
    pub kind: String,
    /// The providers and the objects that they create.
    pub entries: Vec<EntryReport>,
    /// The learned durations of phases.
    pub phases: Vec<PhaseReport>,
    /// The requests that were refused in earlier boots.
    pub refusals: Vec<RefusalReport>,
}

/// One provider.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct EntryReport {
    /// `file/name`.
    pub name: String,
    /// The place of the entry.
    pub at: Location,
    /// The provider, as text.
    pub by: String,
    /// The versions for which it is valid; empty for all.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub versions: String,
    /// The kinds: `Widget.example.com`, those without a namespace as `cluster:Widget.example.com`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub kinds: Vec<String>,
    /// Groups whose kinds all come from it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub groups: Vec<String>,
    /// Namespaces and other objects.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub objects: Vec<String>,
    /// How long it took in earlier boots.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub times: Option<TimesReport>,
    /// The same by class of hardware.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub times_on: BTreeMap<String, TimesReport>,
    /// The number of boots; absent in a handwritten entry.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub seen: Option<SeenReport>,
    /// The project that is the source, or a note that it was learned.
    pub source: String,
}

/// A phase of the bootstrap.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct PhaseReport {
    /// The phase.
    pub phase: String,
    /// The platform for which it is valid; absent for all.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub platform: Option<Platform>,
    /// The versions for which it is valid; empty for all.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub versions: String,
    /// The role of the nodes for which it is valid; absent for all.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub role: Option<NodeRole>,
    /// The class of hardware for which it is valid; absent for all.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hardware: Option<String>,
    /// Was the node installed before?
    pub installed: bool,
    /// The durations.
    pub times: TimesReport,
    /// The number of boots.
    pub seen: SeenReport,
}

/// A refusal.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct RefusalReport {
    /// The kind of the object.
    pub kind: String,
    /// The text of the refusal.
    pub said: String,
    /// The cause, if it was found.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cause: Option<String>,
    /// The number of boots.
    pub seen: SeenReport,
}

/// Intervals, in seconds. The share of boots that take at most this long.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct TimesReport {
    /// One of twenty.
    pub p5: f64,
    /// One of four.
    pub p25: f64,
    /// Half of them.
    pub half: f64,
    /// Three of four.
    pub p75: f64,
    /// Nineteen of twenty.
    pub p95: f64,
}

/// The number of boots with an observation.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct SeenReport {
    /// The number of boots with the observation.
    pub boots: u32,
    /// The number of boots in which it was possible.
    pub of: u32,
    /// The day of the last one.
    #[schemars(with = "String")]
    pub last: Date,
}

impl From<LearnedTimes> for TimesReport {
    fn from(times: LearnedTimes) -> Self {
        let bounds = [times.p5, times.p25, times.half, times.p75, times.p95];
        let [p5, p25, half, p75, p95] = bounds.map(|bound| bound.as_secs_f64());
        Self {
            p5,
            p25,
            half,
            p75,
            p95,
        }
    }
}

impl From<Seen> for SeenReport {
    fn from(Seen { boots, of, last }: Seen) -> Self {
        Self { boots, of, last }
    }
}

impl KnowledgeReport {
    pub fn of(knowledge: &Knowledge) -> Self {
        Self {
            api_version: "windrow.dev/v1".to_owned(),
            kind: "KnowledgeList".to_owned(),
            entries: knowledge.entries().iter().map(entry).collect(),
            phases: knowledge.phases().iter().map(phase).collect(),
            refusals: knowledge.refusals().iter().map(refusal).collect(),
        }
    }
}

fn entry(entry: &KnowledgeEntry) -> EntryReport {
    let brings = &entry.brings;
    let kinds = brings.kinds.iter().map(|known| {
        thing_words(&Appeared::Kind {
            kind: known.kind.clone(),
            namespaced: known.namespaced,
        })
    });
    let objects = brings.objects.iter();
    let times_on = entry.times_on.iter();
    let times_on = times_on.map(|one| (one.hardware.to_string(), one.times.into()));
    EntryReport {
        name: entry.name.clone(),
        at: entry.at.clone(),
        by: by(entry),
        versions: entry.versions.to_string().trim().to_owned(),
        kinds: kinds.collect(),
        groups: brings.groups.iter().map(ToString::to_string).collect(),
        objects: objects
            .map(|object| thing_words(&Appeared::Object(object.clone())))
            .collect(),
        times: entry.times.map(TimesReport::from),
        times_on: times_on.collect(),
        seen: entry.seen.map(SeenReport::from),
        source: entry.source.clone(),
    }
}

/// The provider, with its condition.
fn by(entry: &KnowledgeEntry) -> String {
    let who = entry.by();
    match &entry.bringer {
        Bringer::Chart { values, .. } if !values.is_empty() => {
            format!("{who} where {} is true", values.join(" or "))
        }
        Bringer::Chart {
            kinds_unless_false: Some(path),
            ..
        } => format!("{who} unless {path} is false"),
        Bringer::Harvester {
            addon: Some(addon), ..
        } => format!("{who} with the addon {addon}"),
        Bringer::Rke2 {
            selected_by: Some((setting, word)),
            ..
        } => format!("{who} where `{}` names {word}", setting.as_str()),
        Bringer::Operator {
            acts_on: Some(acts_on),
            ..
        } => format!("{who} once there is a {acts_on}"),
        Bringer::Kubernetes { optional: true } => format!("{who} where `runtime-config` has it"),
        _ => who,
    }
}

fn phase(phase: &LearnedPhase) -> PhaseReport {
    PhaseReport {
        phase: phase.phase.as_str().to_owned(),
        platform: phase.platform,
        versions: phase.versions.to_string().trim().to_owned(),
        role: phase.role,
        hardware: phase.hardware.as_ref().map(ToString::to_string),
        installed: phase.installed,
        times: phase.times.into(),
        seen: phase.seen.into(),
    }
}

fn refusal(refusal: &LearnedRefusal) -> RefusalReport {
    RefusalReport {
        kind: refusal.kind.to_string(),
        said: refusal.said.clone(),
        cause: refusal.cause.clone(),
        seen: refusal.seen.into(),
    }
}
