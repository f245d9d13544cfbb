//! Checks the temperatures of the machine and the errors of its links.

use super::{Judged, Looked, NotAsked, Seen};
use crate::health::{ERRORS_PER_MILLION, LinkCounts, MARGIN, too_hot, too_many_errors};

pub(super) fn temperatures(judged: &Judged<'_>) -> Looked {
    let sensors = match judged.host.temperatures.get() {
        Ok(sensors) => sensors,
        Err(_) => return Err(NotAsked("no sensor was read")),
    };
    if sensors
        .iter()
        .all(|sensor| sensor.critical.known().is_none())
    {
        return Err(NotAsked("no sensor reports its critical temperature"));
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
    Ok(Seen {
        found: found.into_iter().collect(),
        wrong: hot,
        ..Seen::default()
    })
}

pub(super) fn link_errors(judged: &Judged<'_>) -> Looked {
    if let Err(why) = judged.host.links.get() {
        return Ok(Seen::unknown(why));
    }
    let mut seen = Seen::default();
    for nic in judged.host.nics() {
        let judged = too_many_errors(&nic.name, LinkCounts::of(nic), ERRORS_PER_MILLION);
        match judged {
            Some(Err(why)) => seen.look.push(why),
            _ if nic.errors > 0 => seen.found.push(format!(
                "{}: {} errors since the boot",
                nic.name, nic.errors
            )),
            _ => {}
        }
    }
    Ok(seen)
}

pub(super) fn clock(judged: &Judged<'_>) -> Looked {
    Ok(match judged.host.clock.synchronised.get() {
        Ok(true) => Seen::found("systemd says that it is synchronised"),
        Ok(false) => Seen {
            look: vec!["systemd says that it is not synchronised (yet)".to_owned()],
            ..Seen::default()
        },
        Err(why) => Seen::unknown(why),
    })
}
