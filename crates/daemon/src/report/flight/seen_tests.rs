//! Observed objects in a file with a bound, and the machine in every file.

use std::fs;
use std::path::Path;

use windrow_decide::flight::{Appeared, Provenance, RecordedAppearance, Tap};
use windrow_decide::settings::Settings;
use windrow_decide::{NodeRole, StagingState};
use windrow_model::manifest::ObjectRef;
use windrow_plan::rules::RuleSet;
use windrow_replay::Flights;

use super::*;

const AT: Timestamp = Timestamp::constant(1_767_225_600, 0);

fn writer(path: &Path, bound: u64) -> FlightWriter {
    let destination = FlightDestination {
        path: path.to_owned(),
        bound,
        copy_to: None,
        boot: None,
    };
    let writer = FlightWriter::begin(destination, |error| panic!("{error:?}")).unwrap();
    let configuration = RecordedConfiguration {
        at: AT,
        digest: String::new(),
        origin: Vec::new(),
        platform: None,
        node: Default::default(),
        settings: BTreeMap::new(),
        rules: Vec::new(),
    };
    let limits = ReadLimits::default();
    writer.record(FlightItem::Configuration(Box::new(configuration), limits));
    writer
}

fn came(number: u32, was_there: bool) -> FlightLine {
    let name = format!("namespace-{number}");
    FlightLine::Appeared(RecordedAppearance {
        at: AT,
        created: None,
        was_there,
        what: Appeared::Object(ObjectRef::cluster("", "Namespace", name)),
        by: Provenance::NotKnown,
    })
}

#[test]
fn what_came_takes_a_share_of_the_file_and_what_was_there_leaves_room_for_it() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("flight.jsonl");
    let bound = 64 << 10;
    let writer = writer(&path, bound);
    for was_there in [true, false] {
        let lines = (0..2000).map(|number| came(number, was_there)).collect();
        writer.record(FlightItem::Seen { at: AT, lines });
    }
    writer.flush();
    let text = fs::read_to_string(&path).unwrap();
    let (listed, new): (Vec<&str>, Vec<&str>) = text
        .split_inclusive('\n')
        .filter(|line| line.contains("appeared"))
        .partition(|line| line.contains("wasThere"));
    let bytes = |lines: &[&str]| lines.iter().map(|line| line.len() as u64).sum::<u64>();
    let (listed, all) = (bytes(&listed), bytes(&listed) + bytes(&new));
    // As much as there is room for, to a line.
    assert!(
        (bound / 16 - 200..=bound / 16).contains(&listed),
        "{listed}"
    );
    assert!((bound / 8 - 200..=bound / 8).contains(&all), "{all}");
    assert_eq!(Flights::read(&text).unwrap().damage, [""; 0]);
}

#[test]
fn every_file_names_the_machine_in_its_beginning() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("flight.jsonl");
    let writer = writer(&path, 4 << 10);
    let machine = RecordedMachine {
        at: AT,
        hardware: Some("16cpu-64g-nvme".to_owned()),
        kubernetes: None,
        harvester: None,
        role: NodeRole::FirstServer,
    };
    writer.record(FlightItem::Machine(machine));
    let repair = || RecordedRepair {
        at: AT,
        event: Code::RepairDone,
        code: Code::AddonStuck,
        subject: "x".repeat(500),
        by: String::new(),
        message: String::new(),
        steps: Vec::new(),
        done: 0,
        record: String::new(),
    };
    for _ in 0..20 {
        writer.record(FlightItem::Repair(Box::new(repair())));
    }
    let (settings, rules) = (Settings::default(), RuleSet::default());
    let mut state = StagingState::new(settings, rules, None, Ledger::default(), AT);
    let mut tap = Tap::default();
    tap.before(state.ledger());
    let decision = state.decide(AT);
    tap.decided(AT, &decision, state.observation());
    let made = tap.acted(&[], &[]).unwrap();
    writer.record(FlightItem::Decision(Box::new(made)));
    writer.flush();
    assert!(directory.path().join("flight.jsonl.1").exists());
    let text = fs::read_to_string(&path).unwrap();
    let flights = Flights::read(&text).unwrap();
    let lines = &flights.segments[0].lines;
    let machines = lines.iter().filter_map(|(_, line)| match line {
        FlightLine::Machine(machine) => machine.hardware.as_deref(),
        _ => None,
    });
    assert_eq!(machines.collect::<Vec<_>>(), ["16cpu-64g-nvme"], "{text}");
}
