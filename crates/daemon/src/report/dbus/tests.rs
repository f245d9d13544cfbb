use windrow_decide::{Phase, Readiness};

use super::*;
use crate::report::publish::sample;

#[test]
fn only_properties_that_differ_are_announced() {
    let mut status = sample("a");
    let before = AgentProperties::from_status(Some(&status));
    assert!(before.differs_from(&before).is_empty());
    status.generation += 1;
    status.readiness = Readiness::Ready;
    status.phase = Phase::Rke2Installed;
    let now = AgentProperties::from_status(Some(&status));
    let changed = now.differs_from(&before);
    let mut names: Vec<&str> = changed.keys().copied().collect();
    names.sort_unstable();
    assert_eq!(names, ["Generation", "Phase", "Readiness"]);
    assert_eq!(changed["Readiness"], "Ready".into());
    assert_eq!(changed["Phase"], "rke2-installed".into());
}

#[test]
fn without_a_status_nothing_is_claimed() {
    let face = AgentProperties::from_status(None);
    let unknown = face.differs_from(&AgentProperties::default());
    assert_eq!(unknown.len(), 1);
    assert_eq!(unknown["Readiness"], "Unknown".into());
}

#[test]
fn an_answer_that_is_too_long_for_the_bus_is_refused() {
    let fits = "x".repeat(1 << 20);
    assert_eq!(agent::bounded_answer(fits.clone()).unwrap(), fits);
    let refused = agent::bounded_answer(fits + "x").unwrap_err();
    assert!(refused.to_string().contains("status.json"), "{refused}");
}
