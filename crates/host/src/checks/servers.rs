//! Name servers, time servers, the cluster that is to be joined.

use windrow_model::span;

use super::{Judged, Looked, NotAsked, OFFLINE, Seen};

pub(super) fn names(judged: &Judged<'_>) -> Looked {
    let servers = &judged.surroundings.name_servers;
    if judged.surroundings.offline {
        let wanted = judged.wanted;
        let is_named = !wanted.name_servers.is_empty() || wanted.names().next().is_some();
        return Err(NotAsked(match is_named {
            true => OFFLINE,
            false => "no name server was named",
        }));
    }
    if servers.is_empty() {
        return match judged.wanted.names().next() {
            Some(name) => Ok(Seen {
                wrong: vec![format!(
                    "{name} has to be found, and neither the configuration nor DHCP names a name server"
                )],
                ..Seen::default()
            }),
            None => Err(NotAsked("no name server was named")),
        };
    }
    let mut seen = Seen::default();
    let (mut answering, mut silent) = (Vec::new(), Vec::new());
    for one in servers {
        let known = match one.answer.get() {
            Ok(addresses) => {
                answering.push(one.server.as_str());
                one.name == "." || !addresses.is_empty()
            }
            Err(why) => {
                silent.push((one.server.as_str(), why));
                continue;
            }
        };
        if !known {
            let why = format!("{} does not know {}", one.server, one.name);
            let others = servers.iter().filter(|it| it.name == one.name);
            let elsewhere = others
                .filter_map(|it| it.answer.known())
                .any(|addresses| !addresses.is_empty());
            match elsewhere {
                true => seen.look.push(why),
                false => seen.wrong.push(why),
            }
        }
    }
    answering.dedup();
    silent.dedup();
    if !answering.is_empty() {
        seen.found.push(format!("{} answers", answering.join(", ")));
    }
    for (server, why) in silent {
        let why = format!("{server} {why}");
        match answering.is_empty() {
            true => seen.wrong.push(why),
            // The others are asked in its place, after a time-out for every name.
            false => seen.look.push(why),
        }
    }
    Ok(seen)
}

pub(super) fn times(judged: &Judged<'_>) -> Looked {
    let servers = &judged.surroundings.time_servers;
    if servers.is_empty() {
        let named = judged.wanted.time_servers.first();
        return Err(judged.not_asked(named, "no time server was named"));
    }
    let bound = i64::from(judged.published.clock.offset_millis);
    let mut seen = Seen::default();
    let told = servers
        .iter()
        .filter(|one| one.behind_millis.known().is_some())
        .count();
    for one in servers {
        match one.behind_millis.get() {
            Ok(behind) => {
                let side = if *behind < 0 { "ahead" } else { "behind" };
                let apart = behind.unsigned_abs();
                let text = format!("the clock is {} {side} of {}", lasting(apart), one.server);
                match behind.abs() > bound {
                    // It is corrected once the servers are used.
                    true => seen.look.push(text),
                    false => seen.found.push(text),
                }
            }
            Err(why) => {
                let why = format!("{} {why}", one.server);
                match told {
                    0 => seen.wrong.push(why),
                    _ => seen.look.push(why),
                }
            }
        }
    }
    Ok(seen)
}

/// A time in milliseconds for people.
fn lasting(millis: u64) -> String {
    match millis {
        0..1_000 => format!("{millis} ms"),
        _ => span(millis / 1000),
    }
}

pub(super) fn join(judged: &Judged<'_>) -> Looked {
    let Some(join) = &judged.surroundings.join else {
        let named = judged.wanted.join.as_ref();
        let why = "this node joins no cluster, or none was named";
        return Err(judged.not_asked(named, why));
    };
    Ok(match join.answers.get() {
        Ok(true) => Seen::found(format!("{} takes connections", join.server)),
        Ok(false) => Seen {
            wrong: vec![format!("{} does not answer", join.server)],
            ..Seen::default()
        },
        Err(why) => Seen {
            wrong: vec![format!("{}: {why}", join.server)],
            ..Seen::default()
        },
    })
}
