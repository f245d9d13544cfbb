//! Everything that is known, as a document.

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

/// Everything that is known.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct KnowledgeReport {
    /// `windrow.dev/v1`
    pub api_version: String,
    /// `KnowledgeList`
    pub kind: String,
    /// Who brings what.
    pub entries: Vec<EntryReport>,
    /// How long phases take, as it was learned.
    pub phases: Vec<PhaseReport>,
    /// What was refused in earlier boots.
    pub refusals: Vec<RefusalReport>,
}

/// One who brings things.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct EntryReport {
    /// `file/name`.
    pub name: String,
    /// Where it is written.
    pub at: Location,
    /// Who, in words.
    pub by: String,
    /// In which versions; empty: in all.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub versions: String,
    /// The kinds: `Widget.example.com`, those without a namespace as `cluster:Widget.example.com`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub kinds: Vec<String>,
    /// Groups all of whose kinds are brought.
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
    /// In how many boots; absent where a person wrote it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub seen: Option<SeenReport>,
    /// Which project says so, or that it was learned.
    pub source: String,
}

/// A phase of the bootstrap.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct PhaseReport {
    /// Which.
    pub phase: String,
    /// On which platform; absent: on every.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub platform: Option<Platform>,
    /// In which versions; empty: in all.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub versions: String,
    /// On nodes of which role; absent: of all.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub role: Option<NodeRole>,
    /// On which hardware; absent: on every.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hardware: Option<String>,
    /// Was the node installed before?
    pub installed: bool,
    /// How long.
    pub times: TimesReport,
    /// In how many boots.
    pub seen: SeenReport,
}

/// A refusal.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct RefusalReport {
    /// An object of this kind.
    pub kind: String,
    /// In these words.
    pub said: String,
    /// Why, where it was found.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cause: Option<String>,
    /// In how many boots.
    pub seen: SeenReport,
}

/// Intervals, in seconds.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct TimesReport {
    /// One of twenty takes at most this.
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

/// In how many boots something was so.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct SeenReport {
    /// In this many.
    pub boots: u32,
    /// Of this many in which it could have been seen.
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
    /// Of what was loaded.
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

/// Who brings it, and on which condition.
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
