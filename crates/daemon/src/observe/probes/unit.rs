//! RKE2's unit: whether it is installed, runs, or crashes again and again.

use std::sync::Mutex;

use jiff::Timestamp;
use windrow_model::reasons::Code;
use windrow_plan::readiness::node::{NodeEvent, NodeRole, ProbeOutcome, Transition};
use windrow_plan::rules::Platform;

use super::answer::ProbeAnswer;
use super::bus::{ProcessEnd, UnitState};
use super::context::ProbeContext;
use super::upgrade::{self, SignMemory};
use crate::locked::lock;

/// A unit that ends this often without running in between crashes again and again.
const AGAIN: u32 = 2;
/// A unit that systemd has restarted this often, and that never ran during this process, is in a crash loop, even if
/// the count did not rise meanwhile.
const MANY: u32 = 3;
/// The counts in messages: a message that changes with every answer would look like progress.
const SHOWN: [u32; 8] = [2, 3, 5, 10, 20, 50, 100, 1000];

/// The memory of the unit's restarts between two questions.
#[derive(Default)]
pub(super) struct RestartMemory(Mutex<RestartHistory>);

#[derive(Debug, Clone, Copy, Default)]
struct RestartHistory {
    /// The unit: a promoted node has another one.
    unit: &'static str,
    /// systemd's own count of the restarts that it made.
    last: Option<u32>,
    /// How often that count has risen since the unit last ran.
    rises: u32,
    since: Option<Timestamp>,
    end: Option<ProcessEnd>,
    has_run: bool,
    ran: bool,
    by_hand: bool,
}

impl RestartHistory {
    /// Whether systemd had restarted it often before this process started. A count from before it ran is history.
    fn is_found_looping(&self, unit: &UnitState) -> bool {
        !self.has_run && unit.restarts >= MANY
    }

    /// How often it ended, since when, and how it ended last.
    fn in_words(&self, unit: &UnitState, name: &str) -> String {
        let (count, since) = if self.rises >= AGAIN {
            (self.rises, self.since)
        } else {
            (unit.restarts, None)
        };
        let shown = SHOWN.iter().rev().find(|shown| **shown <= count);
        let count = shown.unwrap_or(&count);
        let mut why = format!("{name} has ended {count}+ times");
        if let Some(since) = since {
            why = format!("{why} since {} UTC", since.strftime("%H:%M"));
        }
        if let Some(end) = self.end {
            why = format!("{why} (last with {end})");
        }
        why
    }
}

pub(super) fn name_of(role: NodeRole) -> Option<&'static str> {
    match role {
        NodeRole::FirstServer | NodeRole::JoinedServer | NodeRole::Witness => {
            Some("rke2-server.service")
        }
        NodeRole::Agent => Some("rke2-agent.service"),
        NodeRole::Unknown => None,
    }
}

/// Whether it is installed. While the role is unknown, either unit counts.
pub(super) async fn installed(context: &ProbeContext, role: NodeRole) -> ProbeOutcome {
    let names: &[&str] = match name_of(role) {
        Some("rke2-agent.service") => &["rke2-agent.service"],
        Some(_) => &["rke2-server.service"],
        None => &["rke2-server.service", "rke2-agent.service"],
    };
    let mut outcome = ProbeOutcome::failed("no rke2 unit yet");
    for name in names {
        match context.bus.unit(name).await {
            Ok(unit) => match loaded(name, &unit) {
                ProbeOutcome::Passed => return ProbeOutcome::Passed,
                other if unit.load != "not-found" => outcome = other,
                _ => {}
            },
            Err(why) => return ProbeOutcome::unknown(format!("systemd about {name}"), why),
        }
    }
    outcome
}

fn loaded(name: &str, unit: &UnitState) -> ProbeOutcome {
    match unit.load.as_str() {
        "loaded" => ProbeOutcome::Passed,
        "not-found" => ProbeOutcome::failed(format!("there is no {name}")),
        "masked" => ProbeOutcome::stuck(format!("{name} is masked: `systemctl unmask {name}`")),
        "" => ProbeOutcome::unknown(format!("systemd about {name}"), "no LoadState"),
        other => ProbeOutcome::stuck(format!("{name} cannot be loaded ({other})")),
    }
}

/// Whether it runs. Also reports whether the machine shuts down (the unit ends then), and whether the unit is being
/// restarted, manually or because there is a newer RKE2.
pub(super) async fn service(
    context: &ProbeContext,
    restarts: &RestartMemory,
    upgrade: &SignMemory,
    role: NodeRole,
    platform: Option<Platform>,
) -> ProbeAnswer {
    let Some(name) = name_of(role) else {
        return ProbeOutcome::unknown("RKE2's unit", "the node's role is unknown").into();
    };
    let mut events = Vec::new();
    let outcome = match context.bus.unit(name).await {
        Ok(unit) => {
            let before = Some(*lock(&restarts.0)).filter(|known| known.unit == name);
            let (outcome, next) = runs(name, &unit, before.unwrap_or_default(), (context.now)());
            *lock(&restarts.0) = next;
            events.push(NodeEvent::Transition(
                Transition::Restart,
                next.by_hand
                    .then(|| format!("{name} is {}", unit.active).into()),
            ));
            if upgrade::is_seen_by_signs(platform, role.serves_api()) {
                let down = outcome != ProbeOutcome::Passed;
                events.push(upgrade::take_sign(
                    context,
                    upgrade,
                    upgrade::Sign::Down(down),
                ));
            }
            outcome
        }
        Err(why) => ProbeOutcome::unknown(format!("systemd about {name}"), why),
    };
    if let Ok(stopping) = context.bus.stopping().await {
        events.push(NodeEvent::Transition(
            Transition::Shutdown,
            stopping.then(|| "systemd stops its units".to_owned().into()),
        ));
    }
    ProbeAnswer {
        events,
        ..outcome.into()
    }
}

/// Judges a unit, with the memory of its earlier restarts.
fn runs(
    name: &'static str,
    unit: &UnitState,
    before: RestartHistory,
    now: Timestamp,
) -> (ProbeOutcome, RestartHistory) {
    let more = before
        .last
        .map_or(0, |last| unit.restarts.saturating_sub(last));
    let rose = more > 0;
    // A unit that systemd restarts automatically first waits in auto-restart, and is counted.
    let in_between = matches!(unit.active.as_str(), "activating" | "deactivating");
    let by_hand = in_between
        && !unit.sub.starts_with("auto-restart")
        && !rose
        && (before.ran || before.by_hand);
    let mut restarts = RestartHistory {
        unit: name,
        last: Some(unit.restarts),
        rises: before.rises.saturating_add(more),
        since: before.since.or_else(|| rose.then_some(now)),
        end: unit.end.or(before.end),
        has_run: before.has_run,
        ran: false,
        by_hand,
    };
    // A line has no room for the suffix, which all units have.
    let short = name.trim_end_matches(".service");
    let outcome = match (unit.load.as_str(), unit.active.as_str()) {
        ("loaded", "active" | "reloading" | "refreshing") => {
            restarts.rises = 0;
            restarts.since = None;
            (restarts.ran, restarts.has_run) = (true, true);
            ProbeOutcome::Passed
        }
        ("loaded", state) => {
            let looping = !by_hand && (restarts.rises >= AGAIN || restarts.is_found_looping(unit));
            if looping && state != "inactive" {
                ProbeOutcome::failed_as(Code::RkeCrashLoop, restarts.in_words(unit, short))
            } else {
                match state {
                    "activating" => {
                        ProbeOutcome::failed(format!("{short} is starting ({})", unit.sub))
                    }
                    "failed" => ProbeOutcome::failed(format!("{short} failed ({})", unit.result)),
                    state => ProbeOutcome::failed(
                        unit.queued()
                            .unwrap_or_else(|| format!("{short} is {state}")),
                    ),
                }
            }
        }
        _ => loaded(name, unit),
    };
    (outcome, restarts)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn unit(active: &str, sub: &str, restarts: u32) -> UnitState {
        UnitState {
            load: "loaded".to_owned(),
            active: active.to_owned(),
            sub: sub.to_owned(),
            file: "enabled".to_owned(),
            restarts,
            result: "exit-code".to_owned(),
            end: None,
            waits_for: Vec::new(),
        }
    }

    fn runs(
        name: &'static str,
        unit: &UnitState,
        before: RestartHistory,
    ) -> (ProbeOutcome, RestartHistory) {
        super::runs(name, unit, before, "2026-11-28T10:37:10Z".parse().unwrap())
    }

    fn code(outcome: &ProbeOutcome) -> Option<Code> {
        match outcome {
            ProbeOutcome::Failed { code, .. } => *code,
            _ => panic!("{outcome:?}"),
        }
    }

    #[test]
    fn a_restart_count_that_rises_while_the_unit_does_not_run_is_a_crash_loop() {
        let name = "rke2-server.service";
        let (starting, seen) = runs(
            name,
            &unit("activating", "start", 0),
            RestartHistory::default(),
        );
        assert_eq!(code(&starting), None, "a start may last half an hour");
        let (once, seen) = runs(name, &unit("activating", "auto-restart", 1), seen);
        assert_eq!(code(&once), None, "once is not again and again");
        let (looping, seen) = runs(name, &unit("activating", "auto-restart", 2), seen);
        assert_eq!(code(&looping), Some(Code::RkeCrashLoop));
        let (looping, seen) = runs(name, &unit("activating", "start", 2), seen);
        assert_eq!(code(&looping), Some(Code::RkeCrashLoop), "it did rise");
        let (running, seen) = runs(name, &unit("active", "running", 40), seen);
        assert_eq!(running, ProbeOutcome::Passed);
        let (stopping, _) = runs(name, &unit("deactivating", "stop-sigterm", 40), seen);
        assert_eq!(code(&stopping), None, "a restart by hand counts nothing");
    }

    #[test]
    fn a_crash_loop_is_told_with_its_count_and_the_last_exit_code_while_the_next_start_runs() {
        let crashed = UnitState {
            end: Some(ProcessEnd::Exited(1)),
            ..unit("activating", "auto-restart", 1)
        };
        let (_, history) = runs(
            "rke2-server.service",
            &unit("active", "running", 0),
            RestartHistory::default(),
        );
        let (_, history) = runs("rke2-server.service", &crashed, history);
        // systemd begins the next start: result and status of the last process are reset.
        let starting = |restarts| UnitState {
            result: "success".to_owned(),
            ..unit("activating", "start", restarts)
        };
        let (outcome, history) = runs("rke2-server.service", &starting(2), history);
        let why = "rke2-server has ended 2+ times since 10:37 UTC (last with exit code 1)";
        assert_eq!(outcome, ProbeOutcome::failed_as(Code::RkeCrashLoop, why));
        let (outcome, _) = runs("rke2-server.service", &starting(8), history);
        let why = "rke2-server has ended 5+ times since 10:37 UTC (last with exit code 1)";
        assert_eq!(outcome, ProbeOutcome::failed_as(Code::RkeCrashLoop, why));
    }

    #[test]
    fn an_old_count_of_restarts_makes_the_first_crash_no_loop() {
        let (_, ran) = runs(
            "u",
            &unit("active", "running", 3),
            RestartHistory::default(),
        );
        let (outcome, again) = runs("u", &unit("activating", "auto-restart", 4), ran);
        assert_eq!(code(&outcome), None);
        let (outcome, _) = runs("u", &unit("activating", "start", 5), again);
        assert_eq!(code(&outcome), Some(Code::RkeCrashLoop));
    }

    #[test]
    fn a_unit_that_ran_and_is_stopped_or_started_is_restarted_by_hand_unless_systemd_does_it() {
        let (_, first) = runs(
            "u",
            &unit("activating", "start", 0),
            RestartHistory::default(),
        );
        assert!(!first.by_hand, "the first start of a boot");
        let (_, ran) = runs("u", &unit("active", "running", 2), first);
        let (_, stops) = runs("u", &unit("deactivating", "stop-sigterm", 2), ran);
        // A manual start counts from 0 again.
        let (outcome, starts) = runs("u", &unit("activating", "start", 0), stops);
        assert!(stops.by_hand && starts.by_hand);
        assert_eq!(code(&outcome), None, "and is no crash loop");
        let (_, done) = runs("u", &unit("active", "running", 0), starts);
        assert!(!done.by_hand);
        // It ended without a stop.
        let (_, ended) = runs("u", &unit("activating", "auto-restart", 0), done);
        let (_, again) = runs("u", &unit("activating", "start", 1), ended);
        assert!(!ended.by_hand && !again.by_hand);
        // Stopped manually, permanently.
        let (_, stopped) = runs("u", &unit("inactive", "dead", 0), stops);
        assert!(!stopped.by_hand);
    }

    #[test]
    fn a_unit_that_was_often_started_before_we_came_is_in_a_crash_loop_too() {
        let (outcome, _) = runs(
            "u",
            &unit("activating", "start", 40),
            RestartHistory::default(),
        );
        assert_eq!(code(&outcome), Some(Code::RkeCrashLoop));
    }

    #[test]
    fn a_unit_that_systemd_does_not_start_yet_names_what_is_in_front_of_it() {
        let mut queued = unit("inactive", "dead", 0);
        let mut said = |waits_for: &[&str]| {
            queued.waits_for = waits_for.iter().map(|name| (*name).to_owned()).collect();
            let (outcome, _) = runs("rke2-server.service", &queued, RestartHistory::default());
            outcome
        };
        assert_eq!(said(&[]), ProbeOutcome::failed("rke2-server is inactive"));
        assert_eq!(
            said(&["network.service"]),
            ProbeOutcome::failed("systemd first waits for network.service")
        );
        assert_eq!(
            said(&["network.service", "sys-disk.device", "time.service"]),
            ProbeOutcome::failed("systemd first waits for network.service and 2 more")
        );
    }

    #[test]
    fn a_masked_unit_is_proved_to_stay_down() {
        let masked = UnitState {
            load: "masked".to_owned(),
            ..UnitState::default()
        };
        let (outcome, _) = runs("u", &masked, RestartHistory::default());
        assert!(matches!(outcome, ProbeOutcome::Failed { stuck: true, .. }));
    }
}
