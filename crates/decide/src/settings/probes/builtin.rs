//! `probes.builtin:` of the configuration: changes to Windrow's own probes.
//!
//! ```yaml
//! probes:
//!   builtin:
//!     disk-space: {limit: 20GiB}
//!     load: {enabled: false}
//!     harvester: {period: 1m, fall: 5, severity: wanted}
//! ```
//!
//! Files are merged by name, as in `probes.custom`. The severity of a probe can be lowered, and never raised above the
//! one that its adapter was written for.

use std::time::Duration;

use windrow_model::duration_text;
use windrow_model::findings::Location;
use windrow_model::manifest::{MapEntry, Node, NodeValue};
use windrow_model::redact::quoted;
use windrow_model::suggest::nearest;
use windrow_plan::readiness::node::{BUILTIN, Builtin, ProbeLimit, ProbeSeverity, ProbeTuning};

use super::super::error::ConfigError;
use super::super::units::{duration, expected, size};
use super::LEAST_PERIOD;
use super::fields::FieldReader;

pub(in crate::settings) const SECTION: &str = "probes.builtin";

const KEYS: &[&str] = &["enabled", "period", "fall", "severity", "limit"];
const DAY: Duration = Duration::from_secs(24 * 60 * 60);

#[derive(Debug)]
pub(in crate::settings) struct TuningSetting {
    pub(in crate::settings) at: Location,
    pub(in crate::settings) tuning: ProbeTuning,
}

impl TuningSetting {
    /// Its changes, as `config show` prints them.
    pub(in crate::settings) fn show(&self) -> String {
        let tuning = &self.tuning;
        let said = [
            tuning.off.as_ref().map(|_| "off".to_owned()),
            tuning
                .period
                .map(|period| format!("every {}", duration_text(period))),
            tuning.fall.map(|fall| format!("fall {fall}")),
            tuning.only_wanted.then(|| "wanted".to_owned()),
            tuning.limit.map(|limit| format!("limit {limit}")),
        ];
        let said: Vec<String> = said.into_iter().flatten().collect();
        match said.as_slice() {
            [] => "as it comes".to_owned(),
            said => said.join(", "),
        }
    }
}

/// Reads the section and reports every error in it.
pub(in crate::settings) fn read(
    file: &str,
    node: &Node,
) -> Result<Vec<TuningSetting>, Vec<ConfigError>> {
    let mut reading = FieldReader::new(file);
    if !matches!(node.value, NodeValue::Mapping(_) | NodeValue::Null) {
        let what = expected("a map of names and what to change", node);
        reading.wrong(node.line, format!("{SECTION}: {what}"));
    }
    let entries = node.entries().iter();
    let settings = entries.filter_map(|entry| reading.tuning(entry)).collect();
    match reading.errors.is_empty() {
        true => Ok(settings),
        false => Err(reading.errors),
    }
}

impl FieldReader<'_> {
    fn tuning(&mut self, entry: &MapEntry) -> Option<TuningSetting> {
        let path = format!("{SECTION}.{}", entry.key);
        let rows: Vec<&Builtin> = BUILTIN.iter().filter(|row| row.name == entry.key).collect();
        let Some(row) = rows.first() else {
            let hint = match nearest(&entry.key, BUILTIN.iter().map(|row| row.name)) {
                Some(known) => format!("did you mean `{known}`?"),
                None => "docs/readiness.md lists them, and your own are below probes.custom".into(),
            };
            let name = quoted(&entry.key);
            self.wrong(
                entry.line,
                format!("{SECTION}: no probe is called {name}: {hint}"),
            );
            return None;
        };
        if !self.map(&path, entry, KEYS) {
            return None;
        }
        let node = &entry.value;
        let at = Location::line(self.file, entry.line);
        let on = self.boolean(&path, node, "enabled").unwrap_or(true);
        let severity = self.one_of(
            &path,
            node,
            "severity",
            &[
                ("required", ProbeSeverity::Required),
                ("wanted", ProbeSeverity::Wanted),
            ],
        );
        if severity == Some(ProbeSeverity::Required) && row.severity == ProbeSeverity::Wanted {
            let why = "it is only ever wanted: leave out `severity`";
            self.wrong(entry.line, format!("{path}.severity: {why}"));
        }
        let tuning = ProbeTuning {
            name: entry.key.clone(),
            off: (!on).then(|| at.clone()),
            period: self.tuned_period(&path, node, &rows),
            fall: self.in_a_row(&path, node, "fall"),
            only_wanted: severity == Some(ProbeSeverity::Wanted),
            limit: self.limit(&path, node, row),
        };
        Some(TuningSetting { at, tuning })
    }

    /// The period has to be longer than the timeout.
    fn tuned_period(&mut self, path: &str, node: &Node, rows: &[&Builtin]) -> Option<Duration> {
        let timeout = rows.iter().map(|row| row.timeout).max().unwrap_or_default();
        let least = LEAST_PERIOD.max(Duration::from_secs(timeout + 1));
        self.duration(path, node, "period", least)
    }

    fn limit(&mut self, path: &str, node: &Node, row: &Builtin) -> Option<ProbeLimit> {
        let entry = node.entry("limit")?;
        let Some(usual) = row.limit else {
            let why = "it measures nothing that could have a limit";
            self.wrong(entry.line, format!("{path}.limit: {why}"));
            return None;
        };
        self.read(path, node, "limit", |node| read_limit(usual, node))
    }
}

/// A limit in the unit of the probe.
fn read_limit(usual: ProbeLimit, node: &Node) -> Result<ProbeLimit, String> {
    match usual {
        ProbeLimit::Degrees(_) => whole(node, 1..=50)
            .and_then(|degrees| u8::try_from(degrees).ok())
            .map(ProbeLimit::Degrees)
            .ok_or_else(|| expected("degrees below critical, 1 to 50", node)),
        ProbeLimit::ErrorsPerMillion(_) => whole(node, 1..=1_000_000)
            .map(ProbeLimit::ErrorsPerMillion)
            .ok_or_else(|| expected("errors in a million packets, 1 to 1000000", node)),
        ProbeLimit::LoadPerCore(_) => load(node).map(ProbeLimit::LoadPerCore),
        ProbeLimit::Left(_) => duration(node, DAY).map(ProbeLimit::Left),
        ProbeLimit::InodesPercent(_) => percent(node)
            .map(ProbeLimit::InodesPercent)
            .ok_or_else(|| expected("a share from 1% to 99%", node)),
        ProbeLimit::FreePercent(_) | ProbeLimit::FreeBytes(_) => match percent(node) {
            Some(percent) => Ok(ProbeLimit::FreePercent(percent)),
            // A number without a unit could be either.
            None if node.as_str().is_some_and(|text| text.ends_with('B')) => {
                size(node).map(ProbeLimit::FreeBytes)
            }
            None => Err(expected(
                "a share like 10%, or a size like 512MiB or 20GiB",
                node,
            )),
        },
    }
}

fn whole(node: &Node, allowed: std::ops::RangeInclusive<u32>) -> Option<u32> {
    let NodeValue::Number(number) = &node.value else {
        return None;
    };
    let number = number.to_string().parse().ok()?;
    allowed.contains(&number).then_some(number)
}

fn percent(node: &Node) -> Option<u8> {
    let number = node.as_str()?.strip_suffix('%')?.parse().ok()?;
    (1..100).contains(&number).then_some(number)
}

/// The load for each core in hundredths; /proc/loadavg has the load as a decimal number.
fn load(node: &Node) -> Result<u32, String> {
    let text = match &node.value {
        NodeValue::Number(number) => number.to_string(),
        _ => String::new(),
    };
    let load: Option<f64> = text
        .parse()
        .ok()
        .filter(|load| (0.1..=1000.0).contains(load));
    let wrong = || expected("the load for each core, a number from 0.1 to 1000", node);
    // Within these bounds, the cast loses nothing.
    load.map(|load| (load * 100.0).round() as u32)
        .ok_or_else(wrong)
}

#[cfg(test)]
mod tests {
    use windrow_model::manifest::yaml;

    use super::*;

    fn section(text: &str) -> Result<Vec<TuningSetting>, Vec<ConfigError>> {
        read(
            "windrow.yaml",
            &yaml::parse_configuration(text).unwrap().unwrap(),
        )
    }

    #[test]
    fn a_probe_is_switched_off_counted_for_less_or_given_another_limit() {
        let read = section(
            "\
load: {enabled: false}
harvester: {period: 1m, fall: 5, severity: wanted}
disk-space: {limit: 20GiB}
disk-inodes: {limit: 3%}
memory: {limit: 8%}
certificates: {limit: 30d}
temperature: {limit: 10}
link-errors: {limit: 1000}
vip: {}
",
        )
        .unwrap();
        let shown: Vec<String> = read.iter().map(TuningSetting::show).collect();
        assert_eq!(
            shown,
            [
                "off",
                "every 1m, fall 5, wanted",
                "limit 20480 MiB",
                "limit 3%",
                "limit 8%",
                "limit 30 days",
                "limit 10",
                "limit 1000 in a million",
                "as it comes",
            ]
        );
        let off = read[0].tuning.off.as_ref().map(ToString::to_string);
        assert_eq!(off.as_deref(), Some("windrow.yaml:1"));
        let read = section("load: {limit: 2.5}\n").unwrap();
        assert_eq!(read[0].tuning.limit, Some(ProbeLimit::LoadPerCore(250)));
    }

    #[test]
    fn what_a_probe_of_the_table_does_not_have_is_refused_with_its_line() {
        let wrong = section(
            "\
disk-spaces: {enabled: false}
registry: {enabled: false}
load: {limit: 4%}
memory: {limit: 500}
disk-inodes: {limit: 1GiB}
disk-space: {limit: 100%}
certificates: {limit: 1h}
kubelet: {limit: 1%}
webhook: {period: 20s}
clock: {severity: required}
node: {fal: 2}
vip: off
temperature: {limit: 80}
link-errors: {limit: 1%}
hardware: {limit: 1}
",
        )
        .unwrap_err();
        let starts = [
            ":1: probes.builtin: no probe is called `disk-spaces`: did you mean `disk-space`?",
            ":2: probes.builtin: no probe is called `registry`: docs/readiness.md lists them",
            ":3: probes.builtin.load.limit: expected the load for each core",
            ":4: probes.builtin.memory.limit: expected a share like 10%",
            ":5: probes.builtin.disk-inodes.limit: expected a share from 1% to 99%",
            ":6: probes.builtin.disk-space.limit: expected a share like 10%",
            ":7: probes.builtin.certificates.limit: 1h is too short",
            ":8: probes.builtin.kubelet.limit: it measures nothing",
            ":9: probes.builtin.webhook.period: 20s is too short: write 29s or more",
            ":10: probes.builtin.clock.severity: it is only ever wanted",
            ":11: unknown key `probes.builtin.node.fal`: did you mean `fall`?",
            ":12: probes.builtin.vip: expected a map with enabled",
            ":13: probes.builtin.temperature.limit: expected degrees below critical",
            ":14: probes.builtin.link-errors.limit: expected errors in a million packets",
            ":15: probes.builtin.hardware.limit: it measures nothing",
        ];
        assert_eq!(wrong.len(), starts.len(), "{wrong:#?}");
        for (error, start) in wrong.iter().zip(starts) {
            let said = error.to_string();
            assert!(
                said.starts_with(&format!("windrow.yaml{start}")),
                "{said}, not {start}"
            );
        }
    }
}
