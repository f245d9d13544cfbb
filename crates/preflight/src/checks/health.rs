//! Checks the temperatures of the machine and the errors of its links.

use windrow_host::health::{ERRORS_PER_MILLION, LinkCounts, MARGIN, too_hot, too_many_errors};
use windrow_model::checks::NoFacts::NotChecked;
use windrow_model::checks::{CheckFacts, CheckResult};

use super::Judged;

pub(super) fn temperatures(judged: &Judged<'_>) -> CheckResult {
    let sensors = match judged.host.temperatures.get() {
        Ok(sensors) => sensors,
        Err(_) => return Err(NotChecked("no sensor was read")),
    };
    if sensors
        .iter()
        .all(|sensor| sensor.critical.known().is_none())
    {
        return Err(NotChecked("no sensor reports its critical temperature"));
    }
    let hot: Vec<String> = sensors
        .iter()
        .filter_map(|sensor| too_hot(sensor, MARGIN))
        .collect();
    let hottest = sensors
        .iter()
        .max_by(|a, b| a.celsius.total_cmp(&b.celsius));
    let found = hottest.map(|sensor| {
        format!(
            "{} sensors, the hottest {} with {:.0} °C",
            sensors.len(),
            sensor.sensor,
            sensor.celsius
        )
    });
    Ok(CheckFacts {
        found: found.into_iter().collect(),
        problems: hot,
        ..CheckFacts::default()
    })
}

pub(super) fn link_errors(judged: &Judged<'_>) -> CheckResult {
    if let Err(why) = judged.host.links.get() {
        return Ok(CheckFacts::unknown(why));
    }
    let mut facts = CheckFacts::default();
    for nic in judged.host.nics() {
        let judged = too_many_errors(&nic.name, LinkCounts::of(nic), ERRORS_PER_MILLION);
        match judged {
            Some(Err(why)) => facts.warnings.push(why),
            _ if nic.errors > 0 => facts.found.push(format!(
                "{}: {} errors since the boot",
                nic.name, nic.errors
            )),
            _ => {}
        }
    }
    Ok(facts)
}

pub(super) fn clock(judged: &Judged<'_>) -> CheckResult {
    Ok(match judged.host.clock.synchronised.get() {
        Ok(true) => CheckFacts::found("systemd says that it is synchronised"),
        Ok(false) => CheckFacts {
            warnings: vec!["systemd says that it is not synchronised (yet)".to_owned()],
            ..CheckFacts::default()
        },
        Err(why) => CheckFacts::unknown(why),
    })
}
