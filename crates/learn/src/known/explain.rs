//! What is known of one thing, and from where.

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};

use jiff::civil::Date;
use jiff::tz::TimeZone;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use windrow_model::findings::Location;
use windrow_model::manifest::GroupKind;
use windrow_plan::knowledge::{
    Bringer, Knowledge, NodeFacts, is_kubernetes_group, kubernetes_scope,
};
use windrow_plan::readiness::node::Phase;

use super::{EntryReport, KnowledgeReport, PhaseReport, SeenReport, TimesReport};
use crate::boot_set::BootSet;
use crate::interval::predict;
use crate::row::{ObservedBoot, ObservedBringer, ObservedThing, thing_words};
use crate::summary::{Summary, attribute, who_words};

/// Most names that are said beside.
const MOST_NAMES: usize = 20;
/// A name that is no nearer than this is another one (Jaro and Winkler's measure).
const NEAR: f64 = 0.82;

/// Groups of Kubernetes whose kinds are known by their names alone.
const GROUPS: [&str; 10] = [
    "",
    "admissionregistration.k8s.io",
    "apiextensions.k8s.io",
    "apps",
    "autoscaling",
    "batch",
    "networking.k8s.io",
    "policy",
    "rbac.authorization.k8s.io",
    "storage.k8s.io",
];

/// What is known of something that was asked for.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Explanation {
    /// `windrow.dev/v1`
    pub api_version: String,
    /// `KnowledgeExplanation`
    pub kind: String,
    /// What was asked for.
    pub asked: String,
    /// What is called so; empty: nothing is known of it.
    pub things: Vec<KnownThing>,
    /// Names that are near, where nothing is called so.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub nearest: Vec<String>,
}

/// One thing of that name.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct KnownThing {
    /// Its name.
    pub name: String,
    /// Of which sort it is.
    pub sort: ThingSort,
    /// The entries that say who brings it, or what it brings.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub known_by: Vec<KnownBy>,
    /// How long it takes, where it is a phase.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub phases: Vec<PhaseReport>,
    /// What recorded boots saw of it, by who brought it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub observed: Vec<ObservedBy>,
    /// Boots that speak against it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub contradictions: Vec<ContradictionReport>,
    /// What else is known of the same group.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub also: Vec<String>,
}

/// Of which sort a thing is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub enum ThingSort {
    /// A kind.
    Kind,
    /// A namespace or another object.
    Object,
    /// A chart, an operator or a part of the platform.
    Bringer,
    /// A phase of the bootstrap.
    Phase,
}

/// An entry of the knowledge.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct KnownBy {
    /// Who brings it, in words.
    pub by: String,
    /// The entry, as `file/name`; absent for Kubernetes' own kinds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub entry: Option<String>,
    /// Where it is written.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub at: Option<Location>,
    /// In which versions; empty: in all.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub versions: String,
    /// What it brings, where it was asked for itself.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub brings: Vec<String>,
    /// How long it took.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub times: Option<TimesReport>,
    /// The same by class of hardware.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub times_on: BTreeMap<String, TimesReport>,
    /// In how many boots.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub seen: Option<SeenReport>,
    /// Which project says so, or that it was learned.
    pub source: String,
}

/// Who brought it in recorded boots.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ObservedBy {
    /// Who, in words.
    pub by: String,
    /// In how many boots.
    pub boots: usize,
    /// How long after its manifest was applied, or else after kube-apiserver's first answer.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub times: Option<TimesReport>,
    /// From how many boots the times are.
    pub timed: usize,
    /// The day of the last one.
    #[schemars(with = "String")]
    pub last: Date,
}

/// A boot that speaks against an entry.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ContradictionReport {
    /// Who brings it in other boots.
    pub by: String,
    /// What.
    pub what: String,
    /// The boot.
    pub boot: String,
    /// Its day.
    #[schemars(with = "String")]
    pub day: Date,
    /// From whom it came; absent: it did not come.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub came_from: Option<String>,
}

/// What is known of something: a kind (`Widget.example.com`, `Widget`), an object (`Namespace widgets`, `widgets`), who brings
/// something (a chart, an operator, an entry), or a phase.
pub fn explain(asked: &str, knowledge: &Knowledge, boots: &BootSet) -> Explanation {
    let report = KnowledgeReport::of(knowledge);
    let summary = Summary::of_boots(boots);
    let question = Question {
        asked: asked.trim(),
        report: &report,
        summary: &summary,
        boots: &attribute(&boots.boots()),
    };
    let mut things = question.kinds();
    things.extend(question.objects());
    things.extend(question.bringers(knowledge));
    things.extend(question.phase());
    let nearest = match things.is_empty() {
        true => question.nearest(knowledge),
        false => Vec::new(),
    };
    Explanation {
        api_version: "windrow.dev/v1".to_owned(),
        kind: "KnowledgeExplanation".to_owned(),
        asked: asked.to_owned(),
        things,
        nearest,
    }
}

struct Question<'k> {
    asked: &'k str,
    report: &'k KnowledgeReport,
    summary: &'k Summary,
    /// Each with what came beside who brought it.
    boots: &'k [Cow<'k, ObservedBoot>],
}

impl Question<'_> {
    /// Is this kind or object meant?
    fn means(&self, name: &str) -> bool {
        let asked = self.asked;
        if name.eq_ignore_ascii_case(asked) {
            return true;
        }
        match name.split_once(' ') {
            // An object: by its name, or without its group.
            Some((kind, object)) => {
                let kind = kind.rsplit('/').next().unwrap_or(kind);
                object == asked || format!("{kind} {object}").eq_ignore_ascii_case(asked)
            }
            None => name
                .split('.')
                .next()
                .is_some_and(|kind| kind.eq_ignore_ascii_case(asked)),
        }
    }

    /// The names of things in entries and boots that are meant.
    fn meant(&self, of_entry: fn(&EntryReport) -> &[String], is_object: bool) -> BTreeSet<String> {
        let known = self.report.entries.iter().flat_map(of_entry).cloned();
        let brought = self.boots.iter().flat_map(|boot| &boot.brought);
        let seen = brought
            .flat_map(ObservedBringer::all)
            .map(|thing| thing_words(&thing.what))
            .filter(|name| name.contains(' ') == is_object);
        let plain = |name: String| match name.strip_prefix("cluster:") {
            Some(plain) => plain.to_owned(),
            None => name,
        };
        let names = known.chain(seen).map(plain);
        names.filter(|name| self.means(name)).collect()
    }

    fn kinds(&self) -> Vec<KnownThing> {
        let mut names = self.meant(|entry| &entry.kinds, false);
        let groups = match self.asked.split_once('.') {
            Some((kind, group)) => vec![(kind, group)],
            None => GROUPS.map(|group| (self.asked, group)).to_vec(),
        };
        let node = NodeFacts::default();
        let served = groups.into_iter().filter(|(kind, group)| {
            is_kubernetes_group(group) && kubernetes_scope(group, kind, &node).is_some()
        });
        names.extend(served.map(|(kind, group)| GroupKind::new(group, kind).to_string()));
        let names = names.into_iter();
        names.map(|name| self.kind(name)).collect()
    }

    fn kind(&self, name: String) -> KnownThing {
        let group = name.split_once('.').map_or("", |(_, group)| group);
        let cluster = format!("cluster:{name}");
        let brings = |entry: &&EntryReport| {
            let mut kinds = entry.kinds.iter();
            kinds.any(|kind| *kind == name || *kind == cluster)
                || entry.groups.iter().any(|one| one == group)
        };
        let entries = self.report.entries.iter().filter(brings);
        let mut known_by: Vec<KnownBy> = entries.map(|entry| known_by(entry, false)).collect();
        if is_kubernetes_group(group) {
            known_by.push(KnownBy {
                by: "kube-apiserver".to_owned(),
                entry: None,
                at: None,
                versions: String::new(),
                brings: Vec::new(),
                times: None,
                times_on: BTreeMap::new(),
                seen: None,
                source: "Kubernetes' published specification".to_owned(),
            });
        }
        let ending = format!(".{group}");
        let others = self.report.entries.iter().flat_map(|entry| &entry.kinds);
        let others: BTreeSet<&str> = others
            .map(|kind| kind.strip_prefix("cluster:").unwrap_or(kind))
            .filter(|kind| {
                *kind != name
                    && kind.ends_with(&ending)
                    && kind.split_once('.').is_some_and(|(_, of)| of == group)
            })
            .collect();
        KnownThing {
            sort: ThingSort::Kind,
            known_by,
            phases: Vec::new(),
            observed: self.observed(|what| what == name || what == cluster),
            contradictions: self.contradictions(|what, _| what == name || what == cluster),
            also: others
                .into_iter()
                .take(MOST_NAMES)
                .map(str::to_owned)
                .collect(),
            name,
        }
    }

    fn objects(&self) -> Vec<KnownThing> {
        let names = self.meant(|entry| &entry.objects, true).into_iter();
        let thing = |name: String| {
            let brings = |entry: &&EntryReport| entry.objects.contains(&name);
            let entries = self.report.entries.iter().filter(brings);
            KnownThing {
                sort: ThingSort::Object,
                known_by: entries.map(|entry| known_by(entry, false)).collect(),
                phases: Vec::new(),
                observed: self.observed(|what| what == name),
                contradictions: self.contradictions(|what, _| what == name),
                also: Vec::new(),
                name,
            }
        };
        names.map(thing).collect()
    }

    fn bringers(&self, knowledge: &Knowledge) -> Vec<KnownThing> {
        let mut found: BTreeMap<String, Vec<KnownBy>> = BTreeMap::new();
        for (entry, report) in knowledge.entries().iter().zip(&self.report.entries) {
            let own = entry.name.rsplit('/').next().unwrap_or(&entry.name);
            let mut names = vec![entry.name.as_str(), own];
            names.extend(bringer_name(&entry.bringer));
            if names
                .iter()
                .any(|name| name.eq_ignore_ascii_case(self.asked))
            {
                found
                    .entry(entry.by())
                    .or_default()
                    .push(known_by(report, true));
            }
        }
        let found = found.into_iter();
        found
            .map(|(name, known_by)| KnownThing {
                sort: ThingSort::Bringer,
                known_by,
                phases: Vec::new(),
                observed: Vec::new(),
                contradictions: self.contradictions(|_, by| by == name),
                also: Vec::new(),
                name,
            })
            .collect()
    }

    fn phase(&self) -> Option<KnownThing> {
        let mut phases = Phase::ALL.iter().map(|phase| phase.as_str());
        let name = phases.find(|name| name.eq_ignore_ascii_case(self.asked))?;
        let phases = self.report.phases.iter();
        Some(KnownThing {
            name: name.to_owned(),
            sort: ThingSort::Phase,
            known_by: Vec::new(),
            phases: phases
                .filter(|phase| phase.phase == name)
                .cloned()
                .collect(),
            observed: Vec::new(),
            contradictions: Vec::new(),
            also: Vec::new(),
        })
    }

    fn observed(&self, is_meant: impl Fn(&str) -> bool) -> Vec<ObservedBy> {
        /// The times, and the days of all boots.
        type Values = (Vec<u64>, Vec<Date>);
        let mut found: BTreeMap<String, Values> = BTreeMap::new();
        let mut note = |by: String, thing: Option<&ObservedThing>, boot: &ObservedBoot| {
            let (times, days) = found.entry(by).or_default();
            times.extend(thing.and_then(|thing| thing.after.or(thing.api)));
            days.push(day(boot));
        };
        let is_it = |thing: &&ObservedThing| is_meant(&thing_words(&thing.what));
        for boot in self.boots {
            for one in &boot.brought {
                if let Some(thing) = one.things.iter().find(is_it) {
                    note(who_words(&one.by), Some(thing), boot);
                }
            }
            let maybe = boot.brought.iter();
            let maybe = maybe.filter(|one| one.perhaps.iter().any(|thing| is_it(&thing)));
            let maybe: Vec<String> = maybe.map(|one| who_words(&one.by)).collect();
            if !maybe.is_empty() {
                note(maybe.join(" or "), None, boot);
            }
        }
        let found = found.into_iter();
        found
            .filter_map(|(by, (times, days))| {
                Some(ObservedBy {
                    by,
                    boots: days.len(),
                    times: predict(&times).map(TimesReport::from),
                    timed: times.len(),
                    last: days.into_iter().max()?,
                })
            })
            .collect()
    }

    fn contradictions(&self, is_meant: impl Fn(&str, &str) -> bool) -> Vec<ContradictionReport> {
        let all = self.summary.contradictions.iter();
        all.map(|one| ContradictionReport {
            by: one.by.clone(),
            what: thing_words(&one.what),
            boot: one.boot.clone(),
            day: one.day,
            came_from: one.came_from.clone(),
        })
        .filter(|one| is_meant(&one.what, &one.by))
        .take(MOST_NAMES)
        .collect()
    }

    /// The names that are nearest.
    fn nearest(&self, knowledge: &Knowledge) -> Vec<String> {
        let asked = self.asked.to_ascii_lowercase();
        let mut names: BTreeSet<&str> = BTreeSet::new();
        for entry in &self.report.entries {
            names.extend(entry.kinds.iter().chain(&entry.objects).map(String::as_str));
        }
        let bringers = knowledge.entries().iter();
        names.extend(bringers.filter_map(|entry| bringer_name(&entry.bringer)));
        names.extend(Phase::ALL.iter().map(|phase| phase.as_str()));
        let near = |name: &&str| {
            let name = name.strip_prefix("cluster:").unwrap_or(name);
            let small = name.to_ascii_lowercase();
            let plain = match small.split_once(' ') {
                Some((_, object)) => object,
                None => small.split('.').next().unwrap_or(&small),
            };
            strsim::jaro_winkler(&asked, &small).max(strsim::jaro_winkler(&asked, plain))
        };
        let mut found: Vec<(f64, &str)> = names.iter().map(|name| (near(name), *name)).collect();
        found.retain(|(near, _)| *near >= NEAR);
        found.sort_by(|one, other| other.0.total_cmp(&one.0).then(one.1.cmp(other.1)));
        let plain = |name: &str| name.strip_prefix("cluster:").unwrap_or(name).to_owned();
        found
            .into_iter()
            .take(3)
            .map(|(_, name)| plain(name))
            .collect()
    }
}

/// What a bringer is called.
fn bringer_name(bringer: &Bringer) -> Option<&str> {
    match bringer {
        Bringer::Kubernetes { .. } => None,
        Bringer::Rke2 { component, .. } => component.as_deref(),
        Bringer::Harvester { part, .. } => Some(part),
        Bringer::Chart { name, .. } => Some(name),
        Bringer::Operator { deployment, .. } => Some(deployment),
    }
}

fn known_by(entry: &EntryReport, with_things: bool) -> KnownBy {
    let things = entry
        .kinds
        .iter()
        .chain(&entry.groups)
        .chain(&entry.objects);
    KnownBy {
        by: entry.by.clone(),
        entry: Some(entry.name.clone()),
        at: Some(entry.at.clone()),
        versions: entry.versions.clone(),
        brings: match with_things {
            true => things.cloned().collect(),
            false => Vec::new(),
        },
        times: entry.times,
        times_on: entry.times_on.clone(),
        seen: entry.seen,
        source: entry.source.clone(),
    }
}

fn day(boot: &ObservedBoot) -> Date {
    boot.at.to_zoned(TimeZone::UTC).date()
}
