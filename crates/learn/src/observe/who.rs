//! The providers of things: the provenance of each, with the chart of its Helm release.
//!
//! Only labels, annotations and owner references of the object itself prove its provider. A kind of a chart's `crds/`
//! has none of them, and many programs share the name of a field manager: the provider of such a thing stays unknown.
//!
//! Helm does not delete objects with `helm.sh/resource-policy: keep`, and the release's name stays on them, even if the
//! chart's next version does not contain them. So an object that existed before, and is older than the release's
//! present revision, is no evidence for the present version.

use std::collections::BTreeMap;

use jiff::{SignedDuration, Timestamp};
use windrow_decide::flight::{Provenance, RecordedAppearance, RecordedFiles, RecordedRelease};
use windrow_model::manifest::{GroupKind, ManifestPath, sha256_hex};
use windrow_plan::knowledge::installed_chart;

use super::ClockTime;
use crate::bounds::{MOST_OF_A_BOOT, MOST_THINGS, is_digest, is_name, is_thing, is_who, is_word};
use crate::row::{ObservedBringer, ObservedThing, Who};

/// An object that was created this long before it was observed was observed late.
const LATE: SignedDuration = SignedDuration::from_secs(2);
/// Times from two kube-apiservers differ by this much.
const CLOCKS_APART: SignedDuration = SignedDuration::from_secs(5);
/// How long Helm waits for the kinds of `crds/` before it continues.
const KINDS_FIRST: SignedDuration = SignedDuration::from_secs(60);

/// A release: its name and its namespace.
type ReleaseName = (String, String);

/// The information about providers in the lines of a boot.
#[derive(Debug, Default)]
pub(super) struct Bringers<'f> {
    charts: BTreeMap<ReleaseName, ManifestChart>,
    /// Files with objects of these kinds: a controller acts after they are applied.
    files_of_kinds: BTreeMap<GroupKind, Vec<ManifestPath>>,
    releases: BTreeMap<ReleaseName, Release>,
    appearances: Vec<(&'f RecordedAppearance, ClockTime)>,
}

/// A chart whose HelmChart is in the directory.
#[derive(Debug)]
struct ManifestChart {
    who: Who,
    path: ManifestPath,
}

/// The information about a release in the flight.
#[derive(Debug, Default)]
struct Release {
    /// When its newest revision began.
    newest: Option<Timestamp>,
    deployed: bool,
}

impl<'f> Bringers<'f> {
    pub(super) fn take_files(&mut self, files: &RecordedFiles) {
        for path in &files.gone {
            self.forget(path);
        }
        for file in &files.files {
            self.forget(&file.path);
            for object in file.restore().objects() {
                let kind = object.id.group_kind();
                note(&mut self.files_of_kinds, kind, &file.path);
                let Some(chart) = installed_chart(object) else {
                    continue;
                };
                let version = object.node.str_at(&["spec", "version"]);
                let numbers = chart.version().map(|[a, b, c]| format!("{a}.{b}.{c}"));
                let version = version.map(str::to_owned).or(numbers);
                let who = Who::Chart {
                    name: chart.name().to_owned(),
                    version: version.filter(|word| is_word(word)),
                    repository: repository(
                        object
                            .node
                            .str_at(&["spec", "repo"])
                            .unwrap_or(chart.address()),
                    ),
                    manifest: true,
                };
                let release = (chart.release().to_owned(), chart.namespace().to_owned());
                let path = file.path.clone();
                self.charts.insert(release, ManifestChart { who, path });
            }
        }
    }

    fn forget(&mut self, path: &ManifestPath) {
        self.charts.retain(|_, chart| chart.path != *path);
        for paths in self.files_of_kinds.values_mut() {
            paths.retain(|one| one != path);
        }
    }

    pub(super) fn take_release(&mut self, line: &RecordedRelease) {
        let name = (line.release.clone(), line.namespace.clone());
        let release = self.releases.entry(name).or_default();
        release.newest = release.newest.max(line.began);
        release.deployed |= line.status == "deployed";
    }

    pub(super) fn take_appearance(&mut self, line: &'f RecordedAppearance, at: ClockTime) {
        if self.appearances.len() < MOST_OF_A_BOOT && is_thing(&line.what) {
            self.appearances.push((line, at));
        }
    }

    /// The providers with their things, after the whole boot was read.
    pub(super) fn finish(
        &self,
        applied: &BTreeMap<ManifestPath, Option<ClockTime>>,
        api: Option<ClockTime>,
    ) -> Vec<ObservedBringer> {
        let mut found: BTreeMap<Who, ObservedBringer> = BTreeMap::new();
        // A chart that was deployed and created nothing also counts.
        for (name, chart) in &self.charts {
            let release = self.release(name);
            let one = bringer(&mut found, chart.who.clone());
            one.done |= release.is_some_and(|release| release.deployed);
        }
        let mut seen = BTreeMap::new();
        for (line, at) in &self.appearances {
            // An object may be deleted and created again: the first time counts.
            if seen.insert(&line.what, ()).is_some() {
                continue;
            }
            let came = (!line.was_there).then(|| when(line, *at));
            let since = |from: Option<ClockTime>| came.and_then(|came| came.since(from?));
            let thing = |from: Option<ClockTime>| ObservedThing {
                what: line.what.clone(),
                after: since(from),
                api: since(api),
            };
            let release = release_of(line);
            let chart = release.as_ref().and_then(|name| self.chart(name));
            if self.may_be_kept(line, release.as_ref()) {
                bringer(&mut found, Who::Unknown).take(thing(None));
                continue;
            }
            let from = self.reference(line, chart, applied);
            let one = bringer(&mut found, who(line, release.as_ref(), chart));
            let release = release.and_then(|name| self.releases.get(&name));
            one.done |= release.is_some_and(|release| release.deployed);
            one.take(thing(from));
        }
        let mut found: Vec<ObservedBringer> = found.into_values().take(MOST_THINGS).collect();
        for one in &mut found {
            one.things.sort();
        }
        found
    }

    /// A release by its name, even if `flight.names: hash` wrote digests.
    fn release(&self, name: &ReleaseName) -> Option<&Release> {
        let hashed = || (digest(&name.0), digest(&name.1));
        let found = self.releases.get(name);
        found.or_else(|| self.releases.get(&hashed()))
    }

    /// May an earlier revision of its release have left it? If it was created in this boot, it belongs to the present
    /// one.
    fn may_be_kept(&self, line: &RecordedAppearance, release: Option<&ReleaseName>) -> bool {
        let Some(name) = release.filter(|_| line.was_there) else {
            return false;
        };
        let newest = self.release(name).and_then(|release| release.newest);
        match (line.created, newest) {
            // Kinds come first, and the release's own Secret after Helm has waited for them.
            (Some(created), Some(newest)) => {
                newest.duration_since(created) > KINDS_FIRST + CLOCKS_APART
            }
            _ => true,
        }
    }

    /// The chart of a release, even if `flight.names: hash` wrote digests of the release's names.
    fn chart(&self, release: &ReleaseName) -> Option<&ManifestChart> {
        let (name, namespace) = release;
        self.charts.get(release).or_else(|| {
            let is_hashed = is_digest(name) && is_digest(namespace);
            let mut charts = self.charts.iter().filter(|_| is_hashed);
            let found =
                charts.find(|((own, of), _)| digest(own) == *name && digest(of) == *namespace);
            found.map(|(_, chart)| chart)
        })
    }

    /// The start of the measured time: when the responsible manifest was applied.
    fn reference(
        &self,
        line: &RecordedAppearance,
        chart: Option<&ManifestChart>,
        applied: &BTreeMap<ManifestPath, Option<ClockTime>>,
    ) -> Option<ClockTime> {
        let when = |path: &ManifestPath| applied.get(path).copied().flatten();
        if let Some(chart) = chart {
            return when(&chart.path);
        }
        let Provenance::Owner { kind, .. } = &line.by else {
            return None;
        };
        let paths = self.files_of_kinds.get(kind)?;
        paths.iter().filter_map(when).min_by_key(|time| time.at())
    }
}

impl ObservedBringer {
    fn take(&mut self, thing: ObservedThing) {
        if self.things.len() < MOST_THINGS {
            self.things.push(thing);
        }
    }
}

fn note<K: Ord>(files: &mut BTreeMap<K, Vec<ManifestPath>>, key: K, path: &ManifestPath) {
    let paths = files.entry(key).or_default();
    if !paths.contains(path) {
        paths.push(path.clone());
    }
}

/// The release in the object's own metadata.
fn release_of(line: &RecordedAppearance) -> Option<ReleaseName> {
    match &line.by {
        Provenance::Helm {
            release, namespace, ..
        } => (!release.is_empty()).then(|| (release.clone(), namespace.clone())),
        _ => None,
    }
}

/// The provider of a thing: the chart of its release, if that is in the directory.
fn who(
    line: &RecordedAppearance,
    release: Option<&ReleaseName>,
    chart: Option<&ManifestChart>,
) -> Who {
    if let Some(chart) = chart {
        return chart.who.clone();
    }
    let who = match (&line.by, release) {
        (
            Provenance::Helm {
                chart: Some(chart),
                version,
                ..
            },
            _,
        ) => Who::Chart {
            name: chart.clone(),
            // A label cannot contain `+`.
            version: version.as_ref().map(|version| version.replace('_', "+")),
            repository: None,
            manifest: false,
        },
        (_, Some((name, namespace))) => Who::Release {
            name: name.clone(),
            namespace: namespace.clone(),
        },
        (Provenance::Addon { name }, _) => Who::Addon { name: name.clone() },
        (Provenance::Fleet { bundle }, _) => Who::Fleet {
            bundle: bundle.clone(),
        },
        (Provenance::Owner { kind, .. }, _) => Who::Owner { kind: kind.clone() },
        _ => Who::Unknown,
    };
    match is_who(&who) {
        true => who,
        false => Who::Unknown,
    }
}

/// The name that `flight.names: hash` writes.
fn digest(name: &str) -> String {
    let mut digest = sha256_hex(name.as_bytes());
    digest.truncate(12);
    digest
}

fn bringer(found: &mut BTreeMap<Who, ObservedBringer>, who: Who) -> &mut ObservedBringer {
    found.entry(who.clone()).or_insert_with(|| ObservedBringer {
        by: who,
        done: false,
        things: Vec::new(),
    })
}

/// When a thing came: the time of its observation, or its own time if it was observed late.
fn when(line: &RecordedAppearance, at: ClockTime) -> ClockTime {
    match line.created {
        Some(created) if at.at().duration_since(created) > LATE => at.with(created),
        _ => at,
    }
}

/// An address without its scheme, its credentials and its query.
fn repository(address: &str) -> Option<String> {
    let address = address.split_once("://").map_or(address, |(_, rest)| rest);
    let address = address.split(['?', '#']).next().unwrap_or_default();
    let (host, path) = address.split_once('/').unwrap_or((address, ""));
    let host = host.rsplit('@').next().unwrap_or_default();
    let whole = match path {
        "" => host.to_owned(),
        path => format!("{host}/{}", path.trim_end_matches('/')),
    };
    let is_host = host.contains('.') && is_name(host);
    (is_host && is_word(&whole)).then_some(whole)
}
