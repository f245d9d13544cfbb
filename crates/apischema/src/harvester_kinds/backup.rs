//! Backups of VMs and their schedules.

use std::collections::BTreeSet;

use windrow_model::grammars::is_subdomain;
use windrow_model::manifest::{Node, Object};
use windrow_model::schedule;

use super::{Judged, line_of, text};

/// A schedule with this annotation may run more often, and at any distance from others.
const EXEMPT_FROM_INTERVALS: &str = "harvesterhci.io/svmbackupSkipCronCheck";

impl Judged {
    pub(super) fn schedule_of_backups(&mut self, object: &Object, spec: &Node) {
        let number = |name: &str, default: i64| match spec.get(name) {
            None => Some(default),
            Some(node) => node.to_json().as_i64(),
        };
        if let (Some(failures), Some(kept)) = (number("maxFailure", 4), number("retain", 8))
            && failures >= kept
        {
            let why = format!("it has to be less than `retain`, {kept}");
            self.add(line_of(spec, "maxFailure"), "spec.maxFailure", &why);
        }
        let Some((cron, line)) = spec
            .get("cron")
            .and_then(|node| Some((node.as_str()?, node.line)))
        else {
            return;
        };
        let is_exempt = is_exempt(object);
        match error(cron) {
            Some(why) => self.add(line, "spec.cron", &why),
            None if !is_exempt && is_too_often(cron) => {
                let why = format!(
                    "its runs are less than an hour apart; only the annotation {EXEMPT_FROM_INTERVALS} allows that"
                );
                self.add(line, "spec.cron", &why);
            }
            None => {}
        }
    }

    pub(super) fn backup(&mut self, spec: &Node) {
        if let Some(source) = spec.get("source")
            && text(source, "name").is_empty()
            && source.get("name").is_some()
        {
            self.add(
                line_of(source, "name"),
                "spec.source.name",
                "it names no VM",
            );
        }
    }

    pub(super) fn restore(&mut self, spec: &Node) {
        if let Some(name) = spec.at(&["target", "name"])
            && name.as_str().is_some_and(|name| !is_subdomain(name))
        {
            self.add_at(name, "spec.target.name", "it is not a DNS subdomain");
        }
    }
}

pub(crate) fn is_exempt(object: &Object) -> bool {
    let annotation = object.annotation(EXEMPT_FROM_INTERVALS);
    annotation.is_some_and(|(value, _)| !value.is_empty())
}

/// Why a schedule cannot be read.
pub(super) fn error(cron: &str) -> Option<String> {
    match cron.contains("TZ=") {
        // A CronJob has a field for it.
        true => Some("it cannot have a time zone".to_owned()),
        false => schedule::error(cron),
    }
}

/// GetCronGranularity: each hour has all the minutes, so two of them are less than an hour apart.
fn is_too_often(cron: &str) -> bool {
    if let Some(duration) = cron.strip_prefix("@every ") {
        return seconds(duration).is_some_and(|seconds| seconds < 3600.0);
    }
    let first = words_as_numbers(cron).split_whitespace().next();
    first.is_some_and(|minutes| numbers(minutes, 59).len() > 1)
}

/// When the VM of a schedule is saved.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Runs {
    /// Day of the month, month and day of the week, as written.
    days: Vec<String>,
    /// One in each hour.
    minutes_of_day: BTreeSet<u32>,
}

impl Runs {
    /// None for a schedule that is not of this form.
    pub(crate) fn of(object: &Object) -> Option<Self> {
        let cron = object.node.at(&["spec", "cron"])?.as_str()?;
        let is_read = error(cron).is_none() && !cron.starts_with("@every");
        let fields: Vec<&str> = words_as_numbers(cron).split_whitespace().collect();
        let [minute, hours, days @ ..] = &fields[..] else {
            return None;
        };
        let minutes = numbers(minute, 59);
        let minute = minutes.first().filter(|_| is_read && minutes.len() == 1)?;
        let hours = numbers(hours, 23).into_iter();
        Some(Self {
            days: days
                .iter()
                .map(|day| day.to_lowercase().replace('?', "*"))
                .collect(),
            minutes_of_day: hours.map(|hour| hour * 60 + minute).collect(),
        })
    }

    /// CalculateCronOffset: the same interval, and less than 10 minutes between them. Around midnight only if both run every day.
    pub(crate) fn are_close_to(&self, other: &Self) -> bool {
        const DAY: u32 = 24 * 60;
        let is_every_day = self.days.iter().all(|day| day == "*");
        self.days == other.days
            && (0..10).any(|apart| {
                let is_shift = |from: &Self, to: &Self| {
                    let later = from.minutes_of_day.iter().map(|minute| minute + apart);
                    let later: BTreeSet<u32> = later
                        .map(|minute| if is_every_day { minute % DAY } else { minute })
                        .collect();
                    later == to.minutes_of_day
                };
                is_shift(self, other) || is_shift(other, self)
            })
    }
}

/// The words that stand for a schedule, written out.
fn words_as_numbers(cron: &str) -> &str {
    match cron {
        "@yearly" | "@annually" => "0 0 1 1 *",
        "@monthly" => "0 0 1 * *",
        "@weekly" => "0 0 * * 0",
        "@daily" | "@midnight" => "0 0 * * *",
        "@hourly" => "0 * * * *",
        other => other,
    }
}

/// The numbers of a valid field of a schedule.
fn numbers(field: &str, most: u32) -> BTreeSet<u32> {
    let mut numbers = BTreeSet::new();
    for part in field.split(',').filter(|part| !part.is_empty()) {
        let (range, step) = match part.split_once('/') {
            Some((range, step)) => (range, Some(step.parse().unwrap_or(1))),
            None => (part, None),
        };
        let number = |text: &str| text.parse().unwrap_or(0);
        let (from, to) = match range.split_once('-') {
            _ if range.starts_with(['*', '?']) => (0, most),
            Some((from, to)) => (number(from), number(to)),
            None if step.is_some() => (number(range), most),
            None => (number(range), number(range)),
        };
        numbers.extend((from..=to.min(most)).step_by(step.unwrap_or(1).max(1)));
    }
    numbers
}

/// A duration of Go, for example 1h30m.
fn seconds(duration: &str) -> Option<f64> {
    let mut rest = duration;
    let mut seconds = 0.0;
    while !rest.is_empty() {
        let is_of_number = |letter: char| letter.is_ascii_digit() || letter == '.';
        let (number, after) = rest.split_at(rest.find(|letter| !is_of_number(letter))?);
        let end = after.find(is_of_number).unwrap_or(after.len());
        let (unit, after) = after.split_at(end);
        let length = match unit {
            "h" => 3600.0,
            "m" => 60.0,
            "s" => 1.0,
            "ms" => 1e-3,
            _ => return None,
        };
        seconds += number.parse::<f64>().ok()? * length;
        rest = after;
    }
    (!duration.is_empty()).then_some(seconds)
}
