//! Checks name servers, time servers and the cluster to join.

use windrow_model::checks::NoFacts::NotChecked;
use windrow_model::checks::{CheckFacts, CheckResult};
use windrow_model::span;

use super::{Judged, OFFLINE};
use crate::dns::ROOT;
use crate::{DnsReading, NoAnswer};

pub(super) fn names(judged: &Judged<'_>) -> CheckResult {
    let around = judged.surroundings;
    let wanted = judged.wanted;
    let is_named = !wanted.name_servers.is_empty() || wanted.names().next().is_some();
    if around.offline || (around.not_asked.is_some() && !is_named) {
        return Err(NotChecked(match is_named {
            true => OFFLINE,
            false => "no name server is given",
        }));
    }
    if let Some(why) = &around.not_asked {
        return Ok(CheckFacts::unknown(why));
    }
    if around.name_servers.is_empty() {
        let Some(name) = wanted.names().next() else {
            return Err(NotChecked("no name server is given"));
        };
        let why = format!(
            "{name} must be resolved, but neither the configuration nor DHCP provides a name server"
        );
        return Ok(judged.of_its_network(CheckFacts::problem(why)));
    }
    let mut facts = CheckFacts::default();
    answering(&around.name_servers, &mut facts);
    for one in &around.name_servers {
        judge_name(&around.name_servers, one, &mut facts);
    }
    Ok(judged.of_its_network(facts))
}

/// The meaning of a missing answer. Older documents do not contain it.
fn kind(no_answer: Option<NoAnswer>) -> NoAnswer {
    no_answer.unwrap_or(NoAnswer::Silent)
}

/// Reports which servers answer at all.
fn answering(servers: &[DnsReading], facts: &mut CheckFacts) {
    let (mut answering, mut silent, mut not_asked) = (Vec::new(), Vec::new(), Vec::new());
    for one in servers {
        match (one.answer.get(), kind(one.no_answer)) {
            (Ok(_), _) | (Err(_), NoAnswer::Refused) => answering.push(one.server.as_str()),
            (Err(why), NoAnswer::Silent) => silent.push(format!("{} {why}", one.server)),
            (Err(why), NoAnswer::NotAsked) => not_asked.push(format!("{} {why}", one.server)),
        }
    }
    answering.dedup();
    silent.dedup();
    not_asked.dedup();
    if !answering.is_empty() {
        facts
            .found
            .push(format!("{} answers", answering.join(", ")));
    }
    match (answering.is_empty(), not_asked.is_empty()) {
        (true, true) => facts.problems.extend(silent),
        (true, false) => facts.unknown.extend(silent.into_iter().chain(not_asked)),
        // Resolvers use the answering server instead, after a time-out for every name.
        (false, _) => facts.warnings.extend(silent.into_iter().chain(not_asked)),
    }
}

/// Reports whether the answering servers know a name.
fn judge_name(servers: &[DnsReading], one: &DnsReading, facts: &mut CheckFacts) {
    let why = match (one.answer.get(), kind(one.no_answer)) {
        (Ok(addresses), _) if addresses.is_empty() && one.name != ROOT => {
            format!("{} does not know {}", one.server, one.name)
        }
        (Err(why), NoAnswer::Refused) => {
            format!("{}, asked for {}, {why}", one.server, one.name)
        }
        _ => return,
    };
    let asked = || servers.iter().filter(|it| it.name == one.name);
    let is_known = asked().any(|it| it.answer.known().is_some_and(|all| !all.is_empty()));
    let may_be_known = asked().any(|it| it.no_answer == Some(NoAnswer::NotAsked));
    match (is_known, may_be_known) {
        (true, _) => facts.warnings.push(why),
        (false, true) => facts.unknown.push(why),
        (false, false) => facts.problems.push(why),
    }
}

pub(super) fn times(judged: &Judged<'_>) -> CheckResult {
    let servers = &judged.surroundings.time_servers;
    if servers.is_empty() {
        let named = judged.wanted.time_servers.first();
        return judged.not_asked(named, "no time server is given");
    }
    let bound = i64::from(judged.published.clock.offset_millis);
    let mut facts = CheckFacts::default();
    let told = servers
        .iter()
        .any(|one| one.behind_millis.known().is_some());
    let all_were_asked = servers
        .iter()
        .all(|one| one.no_answer != Some(NoAnswer::NotAsked));
    for one in servers {
        match one.behind_millis.get() {
            Ok(behind) => {
                let side = if *behind < 0 { "ahead" } else { "behind" };
                let apart = behind.unsigned_abs();
                let text = format!("the clock is {} {side} of {}", lasting(apart), one.server);
                match behind.abs() > bound {
                    // NTP corrects the clock once the servers are in use.
                    true => facts.warnings.push(text),
                    false => facts.found.push(text),
                }
            }
            Err(why) => {
                let why = format!("{} {why}", one.server);
                match (told, all_were_asked) {
                    (true, _) => facts.warnings.push(why),
                    (false, true) => facts.problems.push(why),
                    (false, false) => facts.unknown.push(why),
                }
            }
        }
    }
    Ok(judged.of_its_network(facts))
}

fn lasting(millis: u64) -> String {
    match millis {
        0..1_000 => format!("{millis} ms"),
        _ => span(millis / 1000),
    }
}

pub(super) fn join(judged: &Judged<'_>) -> CheckResult {
    let Some(join) = &judged.surroundings.join else {
        let named = judged.wanted.join.as_ref();
        let why = "this node joins no cluster, or none is given";
        return judged.not_asked(named, why);
    };
    let server = &join.server;
    let facts = match (join.answers.get(), kind(join.no_answer)) {
        (Ok(true), _) => CheckFacts::found(format!("{server} takes connections")),
        (Ok(false), _) => CheckFacts::problem(format!("{server} does not answer")),
        (Err(why), NoAnswer::NotAsked) => CheckFacts::unknown(format!("{server}: {why}")),
        (Err(why), _) => CheckFacts::problem(format!("{server}: {why}")),
    };
    Ok(judged.of_its_network(facts))
}
