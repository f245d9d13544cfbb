//! The additions of `windrow knowledge learn`: the number of boots behind a fact, its times, the durations of phases, and
//! rejections. A user may write or change all of them.
//!
//! ```yaml
//! entries:
//!   - name: chart-widgets
//!     ...
//!     times: {p5: 12s, p25: 15s, half: 20s, p75: 28s, p95: 55s}
//!     timesOn:
//!       - {hardware: 4cpu-8g-hdd, times: {p5: 1m, p25: 90s, half: 2m, p75: 3m, p95: 5m}}
//!     seen: {boots: 13, of: 14, last: 2026-11-23}
//! phases:
//!   - phase: api
//!     platform: harvester
//!     versions: ">=1.7.0 <1.7.1"
//!     role: first-server
//!     hardware: 16cpu-64g-nvme
//!     installed: true
//!     times: {p5: 1m, p25: 1m20s, half: 90s, p75: 2m, p95: 3m}
//!     seen: {boots: 14, of: 14, last: 2026-11-23}
//! refusals:
//!   - kind: {group: cert-manager.io, kind: Certificate}
//!     said: failed calling webhook "webhook.cert-manager.io"
//!     cause: the Deployment cert-manager-webhook did not answer yet
//!     seen: {boots: 3, of: 14, last: 2026-11-20}
//! ```

use std::time::Duration;

use jiff::civil::Date;
use smol_str::SmolStr;
use windrow_model::manifest::{GroupKind, Node, NodeValue};

use super::VersionRange;
use super::load::ranges;
use crate::readiness::node::{NodeRole, Phase};
use crate::rules::fields::{Errors, Fields};
use crate::rules::parts::required_kind;
use crate::rules::{Platform, parse_duration};

/// A knowledge file without its `boots`, which only learning reads: other code neither keeps them in memory nor records them. The
/// lines keep their numbers.
pub fn without_boots(text: String) -> String {
    let is_begin = |line: &str| {
        let style = line.strip_prefix("boots:").map(str::trim);
        style.is_some_and(|style| style.starts_with('|'))
    };
    if !text.lines().any(is_begin) {
        return text;
    }
    let mut kept = String::new();
    let mut within = false;
    for line in text.lines() {
        within &= line.is_empty() || line.starts_with([' ', '\t']);
        if is_begin(line) {
            kept.push_str("boots: \"\"");
            within = true;
        } else if !within {
            kept.push_str(line);
        }
        kept.push('\n');
    }
    kept
}

pub(super) const SEEN_KEYS: &[&str] = &["boots", "of", "last"];
pub(super) const TIMES_KEYS: &[&str] = &["p5", "p25", "half", "p75", "p95"];
/// The keys of the times of a hardware class.
pub(super) const CLASS_TIMES_KEYS: &[&str] = &["hardware", "times"];
pub(super) const PHASE_KEYS: &[&str] = &[
    "phase",
    "platform",
    "versions",
    "role",
    "hardware",
    "installed",
    "times",
    "seen",
];
pub(super) const REFUSAL_KEYS: &[&str] = &["kind", "said", "cause", "seen"];

/// The number of boots in which a fact was observed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Seen {
    /// Boots with the observation.
    pub boots: u32,
    /// Boots in which the observation was possible. Those without it contradict the fact.
    pub of: u32,
    /// Day of the last boot with the observation.
    pub last: Date,
}

/// Times from earlier boots, as prediction intervals: `p25` to `p75` contains half of all cases, `p5` to `p95` nine of ten.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LearnedTimes {
    /// One of twenty takes at most this time.
    pub p5: Duration,
    /// One of four takes at most this time.
    pub p25: Duration,
    /// Half of them take at most this time.
    pub half: Duration,
    /// Three of four take at most this time.
    pub p75: Duration,
    /// Nineteen of twenty take at most this time.
    pub p95: Duration,
}

impl LearnedTimes {
    /// Nine of ten take at most this time: between `p75` and `p95`, in whole milliseconds, so that all machines get the same
    /// result.
    pub fn p90(&self) -> Duration {
        let more = self.p95.saturating_sub(self.p75) * 3 / 4;
        Duration::from_millis(u64::try_from((self.p75 + more).as_millis()).unwrap_or(u64::MAX))
    }
}

/// The times on machines of one hardware class.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ClassTimes {
    pub hardware: SmolStr,
    pub times: LearnedTimes,
}

/// The times for a hardware class, or else for all machines.
pub fn times_on(
    hardware: Option<&str>,
    of_classes: &[ClassTimes],
    all: Option<LearnedTimes>,
) -> Option<LearnedTimes> {
    let mut classes = of_classes.iter();
    let own = classes.find(|one| hardware == Some(one.hardware.as_str()));
    own.map(|one| one.times).or(all)
}

/// The duration of a bootstrap phase on machines of one hardware class.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LearnedPhase {
    pub phase: Phase,
    /// `None` for all platforms.
    pub platform: Option<Platform>,
    /// Versions of Harvester, or of Kubernetes on plain RKE2.
    pub versions: VersionRange,
    /// `None` for all roles.
    pub role: Option<NodeRole>,
    /// `None` for all hardware classes.
    pub hardware: Option<SmolStr>,
    /// Whether the node was already installed. The first boot pulls images and charts.
    pub installed: bool,
    pub times: LearnedTimes,
    pub seen: Seen,
}

/// The durations of a phase for this role, or else for all roles.
pub fn phase_of(
    rows: &[LearnedPhase],
    phase: Phase,
    installed: bool,
    role: NodeRole,
) -> Option<&LearnedPhase> {
    let of = |role: Option<NodeRole>| {
        let is_it =
            |row: &&LearnedPhase| (row.phase, row.installed, row.role) == (phase, installed, role);
        rows.iter().find(is_it)
    };
    of(Some(role)).or_else(|| of(None))
}

/// A rejection by kube-apiserver in earlier boots.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LearnedRefusal {
    /// Kind of the rejected object.
    pub kind: GroupKind,
    /// Message of the rejection, without values.
    pub said: String,
    /// Its cause, if it was found.
    pub cause: Option<String>,
    pub seen: Seen,
}

/// Reads `seen` of an entry, a phase or a refusal.
pub(super) fn seen(fields: &Fields<'_>, errors: &mut Errors<'_>) -> Option<Seen> {
    let node = fields.get("seen")?;
    let before = errors.count();
    let fields = Fields::new(node, "`seen`", SEEN_KEYS, errors)?;
    let mut number = |key: &str| {
        let read = fields.get(key).and_then(|node| match &node.value {
            NodeValue::Number(number) => u32::try_from(number.as_u64()?).ok(),
            _ => None,
        });
        if read.is_none() {
            let at = fields.line_of(key);
            errors.at(at, format!("`{key}` of `seen` is a number of boots"));
        }
        read
    };
    let (boots, of) = (number("boots"), number("of"));
    let last = fields.required("last", errors).and_then(|text| {
        let date = text.parse::<Date>();
        if date.is_err() {
            let at = fields.line_of("last");
            errors.at(at, "`last` of `seen` is a day like 2026-11-23");
        }
        date.ok()
    });
    if let (Some(boots), Some(of)) = (boots, of)
        && (boots > of || of == 0)
    {
        errors.at(
            fields.line(),
            "`boots` of `seen` is at most `of`, which is 1 or more",
        );
    }
    (errors.count() == before).then_some(())?;
    Some(Seen {
        boots: boots?,
        of: of?,
        last: last?,
    })
}

/// Reads `times` of an entry or a phase.
pub(super) fn times(fields: &Fields<'_>, errors: &mut Errors<'_>) -> Option<LearnedTimes> {
    let node = fields.get("times")?;
    let before = errors.count();
    let fields = Fields::new(node, "`times`", TIMES_KEYS, errors)?;
    let mut one = |key| {
        let text = fields.required(key, errors)?;
        let parsed = parse_duration(text);
        if let Err(why) = &parsed {
            errors.at(fields.line_of(key), format!("`{key}`: {why}"));
        }
        parsed.ok()
    };
    let [p5, p25, half, p75, p95] = [one("p5"), one("p25"), one("half"), one("p75"), one("p95")];
    (errors.count() == before).then_some(())?;
    let times = LearnedTimes {
        p5: p5?,
        p25: p25?,
        half: half?,
        p75: p75?,
        p95: p95?,
    };
    let order = [times.p5, times.p25, times.half, times.p75, times.p95];
    if !order.is_sorted() {
        errors.at(
            fields.line(),
            "the durations of `times` do not grow from `p5` to `p95`",
        );
        return None;
    }
    Some(times)
}

/// Reads `timesOn` of an entry.
pub(super) fn class_times(fields: &Fields<'_>, errors: &mut Errors<'_>) -> Vec<ClassTimes> {
    let rows = fields.list("timesOn", errors).iter();
    rows.filter_map(|node| {
        let fields = Fields::new(node, "the row of `timesOn`", CLASS_TIMES_KEYS, errors)?;
        let hardware = fields.required("hardware", errors);
        if fields.get("times").is_none() {
            fields.lacks("`times`", errors);
        }
        Some(ClassTimes {
            times: times(&fields, errors)?,
            hardware: hardware?.into(),
        })
    })
    .collect()
}

/// Reads a row of `phases`.
pub(super) fn phase(node: &Node, errors: &mut Errors<'_>) -> Vec<LearnedPhase> {
    let before = errors.count();
    let Some(fields) = Fields::new(node, "the phase", PHASE_KEYS, errors) else {
        return Vec::new();
    };
    let words: Vec<(&str, Phase)> = Phase::ALL.iter().map(|one| (one.as_str(), *one)).collect();
    let phase = fields.word("phase", &words, errors);
    if fields.get("phase").is_none() {
        fields.lacks("`phase`", errors);
    }
    let platforms = [("harvester", Platform::Harvester), ("rke2", Platform::Rke2)];
    let platform = fields.word("platform", &platforms, errors);
    let versions = ranges(&fields, errors);
    let role = fields.word(
        "role",
        &NodeRole::KNOWN.map(|role| (role.as_str(), role)),
        errors,
    );
    let hardware = fields.text("hardware", errors).map(SmolStr::from);
    let installed = fields.flag("installed", false, errors);
    for key in ["times", "seen"] {
        if fields.get(key).is_none() {
            fields.lacks(&format!("`{key}`"), errors);
        }
    }
    let (times, seen) = (times(&fields, errors), seen(&fields, errors));
    if errors.count() != before {
        return Vec::new();
    }
    let (Some(phase), Some(times), Some(seen)) = (phase, times, seen) else {
        return Vec::new();
    };
    let of_range = |versions| LearnedPhase {
        phase,
        platform,
        versions,
        role,
        hardware: hardware.clone(),
        installed,
        times,
        seen,
    };
    versions.into_iter().map(of_range).collect()
}

/// Reads a row of `refusals`.
pub(super) fn refusal(node: &Node, errors: &mut Errors<'_>) -> Option<LearnedRefusal> {
    let fields = Fields::new(node, "the refusal", REFUSAL_KEYS, errors)?;
    let kind = required_kind(&fields, "kind", ": what was refused", errors);
    let said = fields.required("said", errors).map(str::to_owned);
    let cause = fields.text("cause", errors).map(str::to_owned);
    if fields.get("seen").is_none() {
        fields.lacks("`seen`", errors);
    }
    let seen = seen(&fields, errors);
    Some(LearnedRefusal {
        kind: kind?,
        said: said?,
        cause,
        seen: seen?,
    })
}
