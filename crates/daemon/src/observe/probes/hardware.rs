//! The machine's health, and whether all of its hardware is still there.

use std::collections::BTreeMap;
use std::sync::Mutex;

use windrow_host::health::{LinkCounts, too_hot, too_many_errors};
use windrow_host::{HostFacts, HostLink, Reading, Temperature};
use windrow_plan::readiness::node::{ProbeLimit, ProbeOutcome};

use super::context::ProbeContext;
use crate::locked::lock;
use crate::observe::host::{read_host, read_inventory, read_links, read_temperatures};

pub(super) fn temperature(context: &ProbeContext, limit: Option<ProbeLimit>) -> ProbeOutcome {
    judge_temperature(&read_temperatures(&context.layout()), limit)
}

pub(super) fn judge_temperature(
    read: &Reading<Vec<Temperature>>,
    limit: Option<ProbeLimit>,
) -> ProbeOutcome {
    let Some(ProbeLimit::Degrees(margin)) = limit else {
        return ProbeOutcome::unknown("the sensors", "there is no limit");
    };
    let sensors = match read.get() {
        Ok(sensors) => sensors,
        Err(why) => return ProbeOutcome::unknown("the sensors", why),
    };
    let judged = sensors
        .iter()
        .filter(|sensor| sensor.critical.known().is_some());
    if judged.count() == 0 {
        return ProbeOutcome::unknown("the sensors", "none tells its critical temperature");
    }
    let hot: Vec<String> = sensors
        .iter()
        .filter_map(|sensor| too_hot(sensor, f32::from(margin)))
        .collect();
    match hot.is_empty() {
        true => ProbeOutcome::Passed,
        false => ProbeOutcome::failed(hot.join(", ")),
    }
}

/// The counters of each link at the last judgement, and the result.
#[derive(Default)]
pub(super) struct LinkMemory(Mutex<BTreeMap<String, (LinkCounts, Option<String>)>>);

pub(super) fn link_errors(
    context: &ProbeContext,
    memory: &LinkMemory,
    limit: Option<ProbeLimit>,
) -> ProbeOutcome {
    let read = read_links(&context.layout());
    match read.get() {
        Ok(links) => judge_links(links, memory, limit),
        Err(why) => ProbeOutcome::unknown("the links", why),
    }
}

fn judge_links(links: &[HostLink], memory: &LinkMemory, limit: Option<ProbeLimit>) -> ProbeOutcome {
    let Some(ProbeLimit::ErrorsPerMillion(most)) = limit else {
        return ProbeOutcome::unknown("the links' errors", "there is no limit");
    };
    let mut known = lock(&memory.0);
    known.retain(|name, _| links.iter().any(|link| link.name == *name));
    let nics: Vec<&HostLink> = links.iter().filter(|link| link.physical).collect();
    if nics.is_empty() {
        return ProbeOutcome::unknown("the links", "there is no physical NIC");
    }
    let mut wrong = Vec::new();
    for nic in nics {
        let now = LinkCounts::of(nic);
        let (before, said) = known
            .entry(nic.name.clone())
            .or_insert((LinkCounts::default(), None));
        // Few packets prove nothing: the last result stays.
        if let Some(judged) = too_many_errors(&nic.name, now.since(*before), most.into()) {
            *before = now;
            *said = judged.err();
        }
        wrong.extend(said.clone());
    }
    match wrong.is_empty() {
        true => ProbeOutcome::Passed,
        false => ProbeOutcome::failed(wrong.join(", ")),
    }
}

/// Whether all of the hardware is still there, and as fast as before.
pub(super) fn hardware(context: &ProbeContext) -> ProbeOutcome {
    let layout = context.layout();
    compare(context, &read_host(&layout, (context.now)()))
}

fn compare(context: &ProbeContext, host: &HostFacts) -> ProbeOutcome {
    const ASKED: &str = "what this machine had at first";
    let known = match read_inventory(&context.layout()) {
        Ok(Some(known)) => known,
        Ok(None) => return ProbeOutcome::unknown(ASKED, "it has not been written down yet"),
        Err(why) => return ProbeOutcome::unknown(ASKED, why.to_string()),
    };
    match known.changes(host) {
        Ok(changes) if changes.is_empty() => ProbeOutcome::Passed,
        Ok(changes) => ProbeOutcome::failed(changes.join(", ")),
        Err(why) => ProbeOutcome::unknown(ASKED, why),
    }
}

#[cfg(test)]
mod tests {
    use windrow_host::LinkState;

    use super::*;

    fn sensor(celsius: f32, critical: Option<f32>) -> Temperature {
        Temperature {
            sensor: "cpu".to_owned(),
            celsius,
            critical: critical.ok_or("it tells none".to_owned()).into(),
        }
    }

    #[test]
    fn heat_is_judged_by_what_each_sensor_calls_critical_and_without_one_it_is_not_known() {
        let limit = Some(ProbeLimit::Degrees(5));
        let judge = |sensors| judge_temperature(&Reading::Known(sensors), limit);
        assert_eq!(judge(vec![sensor(89.0, Some(95.0))]), ProbeOutcome::Passed);
        let hot = judge(vec![sensor(91.0, Some(95.0)), sensor(99.0, None)]);
        assert_eq!(
            hot,
            ProbeOutcome::failed("cpu: less than 5 degrees below critical (95 °C)")
        );
        let unknown = |outcome| matches!(outcome, ProbeOutcome::Unknown { .. });
        assert!(unknown(judge(vec![sensor(99.0, None)])));
        assert!(unknown(judge_temperature(&Reading::unknown("none"), limit)));
    }

    #[test]
    fn errors_count_since_the_last_look_and_few_packets_change_nothing() {
        let memory = LinkMemory::default();
        let look = |packets, errors| {
            let link = HostLink {
                name: "ens3".to_owned(),
                mac: "52:54:00:00:00:01".parse().unwrap(),
                physical: true,
                virtual_function: false,
                vlan: None,
                state: Reading::Known(LinkState::Up),
                speed: Reading::Known(10_000),
                mtu: 1500,
                addresses: Vec::new(),
                packets,
                errors,
            };
            judge_links(&[link], &memory, Some(ProbeLimit::ErrorsPerMillion(100)))
        };
        let failed = || ProbeOutcome::failed("ens3: more than 100 errors in a million packets");
        assert_eq!(look(1_000_000, 50), ProbeOutcome::Passed);
        assert_eq!(look(1_100_000, 5_050), failed());
        // Not enough packets have come since to show that the errors are over.
        assert_eq!(look(1_100_100, 5_050), failed());
        assert_eq!(look(1_200_000, 5_050), ProbeOutcome::Passed);
        // A driver that was loaded again counts from the beginning.
        assert_eq!(look(50_000, 0), ProbeOutcome::Passed);
        let none = judge_links(&[], &memory, Some(ProbeLimit::ErrorsPerMillion(100)));
        assert!(matches!(none, ProbeOutcome::Unknown { .. }));
    }
}
