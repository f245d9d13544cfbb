//! Readers of what a cluster answers.

use jiff::Timestamp;
use serde_json::{Value, json};
use windrow_gates::{Component, TrialNote, TriedDropIn, last_refusal, metrics, pod_arguments};
use windrow_harvester::drain;
use windrow_harvester::incidents::diagnose;
use windrow_harvester::objects::{ObjectKind, Objects};
use windrow_plan::rules::Platform;
use windrow_preflight::upgrade_check::{NodeReadings, check};
use windrow_preflight::{PlannedRole, Preflight, WantedNode, preflight};

use crate::{check_messages, text};

/// Values that a field may have and nobody thought of.
fn odd(choice: u8) -> Value {
    match choice % 12 {
        0 => Value::Null,
        1 => json!(true),
        2 => json!(-1),
        3 => json!(u64::MAX),
        4 => json!(0.5),
        5 => json!(""),
        6 => json!("2026-11-24T00:00:00Z"),
        7 => json!("9999999999999999999999"),
        8 => json!([]),
        9 => json!([null, 7, "x", {}]),
        10 => json!({}),
        _ => json!({"a": {"b": ["c"]}}),
    }
}

/// Puts an odd value somewhere into another one: the bytes say where.
fn twist(value: &mut Value, way: &mut impl Iterator<Item = u8>) {
    let Some(step) = way.next() else {
        return;
    };
    let step = usize::from(step);
    match value {
        Value::Object(fields) if !fields.is_empty() && !step.is_multiple_of(7) => {
            let at = step % fields.len();
            if let Some(inner) = fields.values_mut().nth(at) {
                twist(inner, way);
            }
        }
        Value::Array(items) if !items.is_empty() && !step.is_multiple_of(7) => {
            let at = step % items.len();
            twist(&mut items[at], way);
        }
        other => *other = odd(way.next().unwrap_or_default()),
    }
}

/// Objects in JSON, one in a line; behind a line that is empty, where odd values stand instead.
pub(super) fn objects(bytes: &[u8]) {
    let (lines, twists) = match bytes.windows(2).position(|pair| pair == b"\n\n") {
        Some(at) => (&bytes[..at], &bytes[at + 2..]),
        None => (bytes, &[][..]),
    };
    let lines = text(lines).lines();
    let mut given: Vec<Value> = lines
        .filter_map(|line| serde_json::from_str(line).ok())
        .collect();
    let mut way = twists.iter().copied();
    while let Some(which) = way.next() {
        if given.is_empty() {
            break;
        }
        let at = usize::from(which) % given.len();
        twist(&mut given[at], &mut way);
    }
    let mut objects = Objects::default();
    for kind in ObjectKind::ALL {
        let listed = windrow_harvester::objects::KindListing::Objects(Vec::new());
        objects.insert(kind.group_kind(), listed);
    }
    for object in given {
        objects.add(object);
    }
    let now = Timestamp::UNIX_EPOCH;
    let found = diagnose(&objects, now);
    check_messages(&found.unknown);
    check_messages(&found.upgrade);
    check(
        &objects,
        &NodeReadings::default(),
        "1.6.1".parse().ok(),
        now,
    );
    drain::check_all(&objects, now);
}

/// Metrics, static pods, and logs of Kubernetes' components.
pub(super) fn component(bytes: &[u8]) {
    let text = text(bytes);
    metrics(text);
    for component in Component::ALL {
        pod_arguments(component, text);
    }
    last_refusal(text, Timestamp::UNIX_EPOCH..);
    last_refusal(text, ..);
}

/// What a preflight printed on another machine.
pub(super) fn machine(bytes: &[u8]) {
    let Ok(read) = serde_json::from_slice::<Preflight>(bytes) else {
        return;
    };
    for platform in [Platform::Rke2, Platform::Harvester] {
        let wanted = WantedNode::bare(platform, PlannedRole::Server);
        let judged = preflight(&read.host, &read.surroundings, &wanted, read.at);
        let written = serde_json::to_value(&judged);
        assert!(written.is_ok_and(|written| written != Value::Null));
    }
}

/// What other servers, or anybody who may write the Lease, noted of gate trials.
pub(super) fn gate_note(bytes: &[u8]) {
    let note = match TrialNote::parse(Some(text(bytes))) {
        Ok(note) => note,
        Err(why) => return check_messages([why]),
    };
    assert_eq!(TrialNote::parse(Some(&note.text())).as_ref(), Ok(&note));
    let trial = TriedDropIn {
        by: "n1".to_owned(),
        request: "r".to_owned(),
        version: "1.34.2".to_owned(),
        content: None,
        at: Timestamp::UNIX_EPOCH,
        why: None,
    };
    check_messages(note.against(&trial, true, None));
    let begun = note.begun(trial).map(|note| note.text());
    assert!(begun.is_ok_and(|text| TrialNote::parse(Some(&text)).is_ok()));
}
