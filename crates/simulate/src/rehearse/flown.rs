//! Rehearses a recorded node again: the files in a state file with another version.

use std::collections::BTreeMap;
use std::time::Duration;

use jiff::Timestamp;
use windrow_decide::flight::{FlightLine, RecordedFile};
use windrow_decide::settings::Settings;
use windrow_harvester::HarvesterVersion;
use windrow_model::manifest::FileContent;
use windrow_plan::rules::{Platform, RuleSet};
use windrow_replay::{Segment, restore};

use crate::{DirectoryChange, Scenario, Setup, SimulatedDirectory};

/// The pack that is active if a storage network is preset.
const PRESET: &str = "name: harvester-preset";
/// Observations this soon after the start of the recording describe the state before it.
const AT_ONCE: Duration = Duration::from_secs(30);

/// The recorded node: its files without the removed parts, its settings and rules. `version` is Harvester's version for a
/// Harvester node; `rewrites_charts` depends on the version of RKE2.
///
/// # Errors
///
/// The recording contains no usable configuration; a sentence for users.
pub fn setup(
    segment: &Segment,
    version: Option<HarvesterVersion>,
    rewrites_charts: bool,
) -> Result<Setup, String> {
    let begun = segment.head.at;
    let mut configured = None;
    let mut first: BTreeMap<&str, &RecordedFile> = BTreeMap::new();
    let mut changes = Vec::new();
    for (number, line) in &segment.lines {
        match line {
            FlightLine::Configuration(configuration) => {
                let (settings, rules) =
                    restore(configuration, &[]).map_err(|why| format!("line {number}: {why}"))?;
                let preset = configuration
                    .rules
                    .iter()
                    .any(|pack| pack.text.contains(PRESET));
                configured = Some((settings, rules, configuration.platform, preset));
            }
            FlightLine::Files(files) => {
                let after = since(begun, files.at);
                for file in &files.files {
                    if after <= AT_ONCE {
                        first.insert(&file.path, file);
                        continue;
                    }
                    // When a configuration is read again, all files are recorded again.
                    if first
                        .get(file.path.as_str())
                        .is_none_or(|known| known.digest != file.digest)
                    {
                        changes.push(change(after, &file.path, Some(content(file))));
                    }
                }
                let gone = files.gone.iter();
                changes.extend(gone.map(|path| change(after, path, None)));
            }
            _ => {}
        }
    }
    let (settings, rules, platform, preset): (Settings, RuleSet, Option<Platform>, bool) =
        configured.ok_or("the boot log contains no configuration")?;
    let mut directory = SimulatedDirectory::new();
    for (path, file) in first {
        directory.put(path, content(file), begun);
    }
    let scenario = match (platform, version) {
        (Some(Platform::Harvester), version) => Scenario::harvester(
            version.unwrap_or(HarvesterVersion::LATEST),
            preset.then_some("(as it was preset)"),
            begun,
        ),
        _ => Scenario::rke2(begun),
    };
    Ok(Setup {
        scenario: Scenario {
            rewrites_charts,
            ..scenario
        },
        files: directory,
        changes,
        settings: settings.into(),
        rules: rules.into(),
        joins: Vec::new(),
    })
}

fn since(begun: Timestamp, at: Timestamp) -> Duration {
    Duration::try_from(at.duration_since(begun)).unwrap_or_default()
}

fn change(after: Duration, path: &str, content: Option<FileContent>) -> DirectoryChange {
    DirectoryChange {
        after,
        path: path.to_owned(),
        content,
        ..DirectoryChange::default()
    }
}

/// The objects as JSON, which is valid YAML.
fn content(file: &RecordedFile) -> FileContent {
    let objects: Vec<String> = file
        .restore()
        .objects()
        .map(|object| object.node.to_json().to_string())
        .collect();
    FileContent::Bytes(objects.join("\n---\n").into_bytes())
}

#[cfg(test)]
mod tests {
    use windrow_replay::Flights;

    use super::*;
    use crate::rehearse::{Ending, rehearse};
    use crate::{Faults, recorded};

    #[test]
    fn the_recorded_node_deadlocks_with_an_old_version_and_comes_up_with_windrow() {
        let start = Timestamp::constant(1_767_225_600, 0);
        let setup = Setup::first_vm(start);
        let sources = RuleSet::shipped_sources();
        let (_, lines) = recorded(&setup, &sources, &Faults::NONE, 1);
        let text: String = lines
            .iter()
            .map(|line| serde_json::to_string(line).unwrap() + "\n")
            .collect();
        let flights = Flights::read(&text).unwrap();
        let segment = &flights.segments[0];
        for (version, ended) in [
            (HarvesterVersion::new(1, 5, 0), Ending::Deadlocked),
            (HarvesterVersion::new(1, 6, 0), Ending::Complete),
        ] {
            // These packs preset no storage network.
            let again = super::setup(segment, Some(version), false).unwrap();
            assert_eq!(again.scenario.storage_network, None);
            let rehearsed = rehearse("n1", &again, 1, Vec::new());
            assert_eq!(rehearsed.without.ends[0].verdict, ended);
            assert_eq!(rehearsed.with.ends[0].verdict, Ending::Complete);
        }
    }
}
