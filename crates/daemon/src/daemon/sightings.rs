//! Decides which incidents count: those that two looks in a row have found, until two in a row have not. A list that is
//! a moment old when the next one is fetched can show an incident that does not exist; readiness and webhooks must not
//! follow it back and forth.
//!
//! An incident that counts on the examining server counts on the others too. The server that looks next goes on from
//! there.

use std::collections::BTreeMap;

use windrow_decide::Event;
use windrow_harvester::incidents::{DetectorId, IncidentFinding};
use windrow_model::findings::Finding;
use windrow_model::reasons::Code;

/// Looks in a row that agree before they change anything.
const ENOUGH: u8 = 2;

#[derive(Debug, Default)]
pub(super) struct Sightings(BTreeMap<DetectorId, Vec<Sighting>>);

#[derive(Debug)]
struct Sighting {
    finding: Finding,
    counts: bool,
    /// How many looks in a row contradict it.
    against: u8,
}

impl Sightings {
    /// Takes in the findings of one look of a detector. Returns the events to report.
    pub(super) fn take(&mut self, detector: DetectorId, found: Vec<IncidentFinding>) -> Vec<Event> {
        let known = self.0.entry(detector).or_default();
        let mut left: Vec<Finding> = found.iter().map(IncidentFinding::in_status).collect();
        for sighting in known.iter_mut() {
            let again = left.iter().position(|one| is_same(one, &sighting.finding));
            let seen = again.map(|at| left.remove(at));
            let agrees = seen.is_some() == sighting.counts;
            sighting.against = if agrees { 0 } else { sighting.against + 1 };
            if let Some(finding) = seen {
                sighting.finding = finding;
            }
        }
        known.extend(left.into_iter().map(|finding| Sighting {
            finding,
            counts: false,
            against: 1,
        }));
        let mut events = Vec::new();
        for sighting in known.iter_mut().filter(|one| one.against >= ENOUGH) {
            sighting.counts = !sighting.counts;
            sighting.against = 0;
            events.push(sighting.event());
        }
        known.retain(|one| one.counts || one.against > 0);
        events
    }

    pub(super) fn counted(&self) -> impl Iterator<Item = &Finding> {
        let all = self.0.values().flatten();
        all.filter(|one| one.counts).map(|one| &one.finding)
    }

    pub(super) fn counted_of_cluster(&self) -> BTreeMap<DetectorId, Vec<Finding>> {
        let of_cluster = self.0.iter().filter(|(detector, _)| !detector.is_of_node());
        let counted = of_cluster.map(|(detector, sightings)| {
            let counted = sightings.iter().filter(|one| one.counts);
            let counted: Vec<Finding> = counted.map(|one| one.finding.clone()).collect();
            (detector.clone(), counted)
        });
        counted.filter(|(_, found)| !found.is_empty()).collect()
    }

    /// Takes over the counted findings of the server that examines the cluster, in place of this server's own.
    pub(super) fn follow(&mut self, counted: BTreeMap<DetectorId, Vec<Finding>>) {
        self.0.retain(|detector, _| detector.is_of_node());
        self.0.extend(counted.into_iter().map(|(detector, found)| {
            let counted = found.into_iter().map(|finding| Sighting {
                finding,
                counts: true,
                against: 0,
            });
            (detector, counted.collect())
        }));
    }

    pub(super) fn is_undecided(&self) -> bool {
        self.0.values().flatten().any(|one| one.against > 0)
    }

    /// Removes the findings of all other detectors. Returns whether it removed any.
    pub(super) fn retain(&mut self, keep: impl Fn(&DetectorId) -> bool) -> bool {
        let before = self.0.len();
        self.0.retain(|detector, _| keep(detector));
        self.0.len() < before
    }
}

impl Sighting {
    fn event(&self) -> Event {
        let finding = &self.finding;
        let incident = finding.incident.as_ref();
        if self.counts {
            // The problem, and the command that cures it.
            let line = match incident.and_then(|incident| incident.cure.as_ref()) {
                Some(cure) => format!("{} (cure: {cure})", finding.message),
                None => finding.message.clone(),
            };
            return Event::new(finding.code, line);
        }
        let line = Code::IncidentOver.say(&[
            ("subject", incident.map_or("", |incident| &incident.subject)),
            ("code", finding.code.as_str()),
        ]);
        Event::new(Code::IncidentOver, line)
    }
}

fn is_same(one: &Finding, other: &Finding) -> bool {
    let about = |finding: &Finding| {
        let incident = finding.incident.as_ref();
        incident.map(|incident| (incident.subject.clone(), incident.rule.clone()))
    };
    one.code == other.code && about(one) == about(other)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn stuck(name: &str) -> IncidentFinding {
        IncidentFinding::new(Code::AddonStuck, format!("Addon x/{name}"), "it waits")
    }

    fn told(looks: &[&[&str]]) -> Vec<Vec<&'static str>> {
        let mut sightings = Sightings::default();
        let look = |found: &&[&str]| {
            let found = found.iter().map(|name| stuck(name)).collect();
            let events = sightings.take(DetectorId::new("addons"), found);
            events.iter().map(|event| event.code.as_str()).collect()
        };
        looks.iter().map(look).collect()
    }

    #[test]
    fn an_incident_counts_once_it_was_seen_twice_in_a_row_and_is_over_when_it_was_missed_twice() {
        let (new, over) = ("addon-stuck", "incident-over");
        assert_eq!(
            told(&[&["a"], &["a"], &["a"], &[], &[], &[], &["a"], &["a"]]),
            [
                vec![],
                vec![new],
                vec![],
                vec![],
                vec![over],
                vec![],
                vec![],
                vec![new]
            ]
        );
    }

    #[test]
    fn what_comes_and_goes_from_look_to_look_changes_nothing() {
        assert_eq!(
            told(&[&["a"], &[], &["a"], &[], &["a"], &[]]),
            vec![Vec::<&str>::new(); 6]
        );
        let (new, none) = (vec!["addon-stuck"], Vec::new);
        assert_eq!(
            told(&[&["a"], &["a"], &[], &["a"], &[], &["a", "b"], &["a", "b"]]),
            [none(), new.clone(), none(), none(), none(), none(), new]
        );
    }

    #[test]
    fn the_next_look_comes_sooner_while_something_is_not_decided() {
        let mut sightings = Sightings::default();
        let mut look = |found: Vec<IncidentFinding>| {
            sightings.take(DetectorId::new("addons"), found);
            (sightings.is_undecided(), sightings.counted().count())
        };
        assert_eq!(look(vec![stuck("a")]), (true, 0));
        assert_eq!(look(vec![stuck("a")]), (false, 1));
        assert_eq!(look(vec![]), (true, 1));
        assert_eq!(look(vec![]), (false, 0));
    }

    #[test]
    fn what_is_told_of_an_incident_is_what_was_seen_last() {
        let mut sightings = Sightings::default();
        for message in ["it waits", "it waits for b"] {
            let found = IncidentFinding::new(Code::AddonStuck, "Addon x/a", message);
            sightings.take(DetectorId::new("addons"), vec![found]);
        }
        let counted: Vec<&Finding> = sightings.counted().collect();
        assert!(matches!(counted[..], [one] if one.message.ends_with(": it waits for b")));
    }

    #[test]
    fn the_server_that_looks_next_goes_on_from_what_counted_on_the_one_before() {
        let mut first = Sightings::default();
        for _ in 0..2 {
            first.take(DetectorId::new("addons"), vec![stuck("a"), stuck("b")]);
        }
        first.take(DetectorId::new("addons"), vec![stuck("a"), stuck("c")]);
        first.take(DetectorId::new("addons"), vec![stuck("a"), stuck("c")]);
        let mut second = Sightings::default();
        second.take(DetectorId::new("kubelet-credential"), vec![stuck("own")]);
        second.take(DetectorId::new("kubelet-credential"), vec![stuck("own")]);
        second.take(
            DetectorId::new("charts"),
            vec![stuck("seen before by itself")],
        );
        second.follow(first.counted_of_cluster());
        let about = |sightings: &Sightings| -> Vec<String> {
            let counted = sightings.counted();
            let mut all: Vec<String> = counted
                .map(|one| one.incident.as_ref().unwrap().subject.clone())
                .collect();
            all.sort();
            all
        };
        assert_eq!(about(&second), ["Addon x/a", "Addon x/c", "Addon x/own"]);
        assert!(second.counted_of_cluster().values().flatten().count() == 2);
        // Its own first look misses one, which counts on, and its second ends it.
        let mut look = || {
            second
                .take(DetectorId::new("addons"), vec![stuck("a")])
                .len()
        };
        assert_eq!((look(), look(), look()), (0, 1, 0));
        assert_eq!(about(&second), ["Addon x/a", "Addon x/own"]);
    }
}
