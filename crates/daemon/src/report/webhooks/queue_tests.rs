use std::collections::VecDeque;

use proptest::prelude::*;
use windrow_decide::settings::WebhookTemplate;
use windrow_decide::{
    Cause, FailedFile, FileStatus, HeldFile, Holder, NodeRole, Pace, Phase, PhaseStatus, Readiness,
    Status, StatusWriter,
};
use windrow_model::findings::Location;
use windrow_model::reasons::Code;
use windrow_plan::rules::Platform;

use super::*;
use crate::report::publish::sample;
use crate::report::server::ServerState;

pub(super) fn at(second: i64) -> Timestamp {
    Timestamp::from_second(1_000_000 + second).unwrap()
}

pub(super) fn seconds(count: u64) -> Duration {
    Duration::from_secs(count)
}

pub(super) fn hook(event: WebhookEvent, url: &str) -> Webhook {
    Webhook {
        at: Location::line("windrow.yaml", 1),
        event,
        method: "POST".to_owned(),
        url: WebhookTemplate::parse(url).unwrap(),
        headers: Vec::new(),
        payload: None,
        insecure: false,
        fingerprint: None,
        basic_auth: None,
        every: None,
    }
}

pub(super) fn node(readiness: Readiness, boot: &str) -> Status {
    let mut status = sample("x");
    status.readiness = readiness;
    status.writer = Some(StatusWriter {
        pid: 1,
        start_ticks: 1,
        boot_id: boot.to_owned(),
    });
    status
}

fn queue(hooks: &[(WebhookEvent, &str)]) -> WebhookQueue {
    again(DeliveryMemory::default(), hooks)
}

pub(super) fn again(memory: DeliveryMemory, hooks: &[(WebhookEvent, &str)]) -> WebhookQueue {
    let mut queue = WebhookQueue::new(memory);
    let hooks = hooks.iter().map(|(event, url)| hook(*event, url));
    queue.configure(hooks.collect(), at(0));
    queue
}

fn observe(queue: &mut WebhookQueue, status: &Status, now: i64) {
    queue.observe(&EventInputs {
        status,
        cluster: Some("cluster"),
        server: &ServerState::NotServed,
        now: at(now),
    });
}

pub(super) fn end(
    queue: &mut WebhookQueue,
    tried: &DeliveryTry,
    result: Result<(), &str>,
    now: u64,
) -> TryOutcome {
    let result = result.map_err(str::to_owned);
    let wall = at(i64::try_from(now).unwrap());
    queue.finished(tried, result, seconds(now), wall, |pause| pause)
}

/// The requests that are sent now, each answered with 200.
fn sent(queue: &mut WebhookQueue, now: u64) -> Vec<&'static str> {
    let mut told = Vec::new();
    loop {
        let tries = queue.start(seconds(now));
        if tries.is_empty() {
            return told;
        }
        for tried in tries {
            told.push(tried.hook.event.name());
            end(queue, &tried, Ok(()), now);
        }
    }
}

const ALL: [(WebhookEvent, &str); 7] = [
    (WebhookEvent::NodeReady, "http://c/1"),
    (WebhookEvent::NodeDegraded, "http://c/2"),
    (WebhookEvent::NodeFailed, "http://c/3"),
    (WebhookEvent::ClusterReady, "http://c/4"),
    (WebhookEvent::StagingBlocked, "http://c/5"),
    (WebhookEvent::NodeStalled, "http://c/6"),
    (WebhookEvent::NodePhase, "http://c/7"),
];

#[test]
fn webhooks_of_one_event_and_url_are_each_sent_where_they_differ_in_what_they_send() {
    let payload = |text: &str| Webhook {
        payload: Some(WebhookTemplate::parse(text).unwrap()),
        ..hook(WebhookEvent::NodeReady, "http://c/hook")
    };
    let tenant = Webhook {
        headers: vec![("X-Tenant".to_owned(), "b".to_owned())],
        ..hook(WebhookEvent::NodeReady, "http://c/hook")
    };
    let hooks = [
        payload("#rack"),
        payload("#on-call"),
        tenant,
        payload("#rack"),
    ];
    let mut queue = WebhookQueue::default();
    queue.configure(hooks.to_vec(), at(0));
    observe(&mut queue, &node(Readiness::Ready, "b1"), 1);
    let mut tries = Vec::new();
    while let Some(tried) = queue.start(seconds(1)).pop() {
        end(&mut queue, &tried, Ok(()), 1);
        tries.push(tried.hook);
    }
    // The last one is the first one once more.
    assert_eq!(tries, hooks[..3]);
    // Not again over a restart.
    let mut queue = WebhookQueue::new(queue.memory().clone());
    queue.configure(hooks.to_vec(), at(2));
    observe(&mut queue, &node(Readiness::Ready, "b1"), 2);
    assert!(queue.start(seconds(2)).is_empty());
}

#[test]
fn a_delivery_that_failed_until_its_event_was_over_is_shown_until_another_one_arrives() {
    let mut queue = queue(&[ALL[1]]);
    observe(&mut queue, &node(Readiness::Degraded, "b1"), 1);
    let tries = queue.start(seconds(1));
    end(&mut queue, &tries[0], Err("no answer"), 1);
    let shown = |queue: &WebhookQueue| {
        let view = queue.view().remove(0);
        (view.state, view.message)
    };
    let failing = (DeliveryState::Failing, "no answer".to_owned());
    assert_eq!(shown(&queue), failing);
    observe(&mut queue, &node(Readiness::Ready, "b1"), 2);
    let given_up = (DeliveryState::GivenUp, "no answer".to_owned());
    assert_eq!(shown(&queue), given_up);
    assert_eq!(sent(&mut queue, 1_000), [""; 0]);
    observe(&mut queue, &node(Readiness::Degraded, "b1"), 1_001);
    assert_eq!(sent(&mut queue, 1_001), ["NODE_DEGRADED"]);
    assert_eq!(shown(&queue).0, DeliveryState::Delivered);
}

/// A node on its way, as it gets on in a phase.
fn on_its_way(phase: Phase, pace: Pace, boot: &str) -> Status {
    let mut status = node(Readiness::SettingUp, boot);
    status.phase = phase;
    status.pace = Some(pace);
    status.phases = vec![PhaseStatus::current(phase)];
    status
}

#[test]
fn a_boot_that_hangs_is_told_once_for_each_phase_and_only_who_asks_hears_of_phases() {
    let see = |queue: &mut WebhookQueue, status: &Status, now: u64| {
        observe(queue, status, i64::try_from(now).unwrap());
        sent(queue, now)
    };
    let mut stalls = queue(&[ALL[2], ALL[5]]);
    let mut phases = queue(&ALL[6..7]);
    let course = [
        (on_its_way(Phase::Api, Pace::Moving, "b1"), false, true),
        (on_its_way(Phase::Api, Pace::Slow, "b1"), false, false),
        (on_its_way(Phase::Api, Pace::Stalled, "b1"), true, false),
        (on_its_way(Phase::Api, Pace::Moving, "b1"), false, false),
        (on_its_way(Phase::Api, Pace::Stalled, "b1"), false, false),
        (on_its_way(Phase::Node, Pace::Stalled, "b1"), true, true),
        (on_its_way(Phase::Node, Pace::Stuck, "b1"), false, false),
        (on_its_way(Phase::Node, Pace::Stalled, "b2"), true, true),
    ];
    for (now, (status, stalled, phase)) in (1..).zip(&course) {
        let expected: &[&str] = if *stalled { &["NODE_STALLED"] } else { &[] };
        assert_eq!(see(&mut stalls, status, now), expected, "{now}");
        let expected: &[&str] = if *phase { &["NODE_PHASE"] } else { &[] };
        assert_eq!(see(&mut phases, status, now), expected, "{now}");
    }
    // Windrow begins again: the state is unknown yet, and was reported.
    let mut later = again(stalls.memory().clone(), &[ALL[2], ALL[5]]);
    for pace in [Pace::Moving, Pace::Stalled] {
        let status = on_its_way(Phase::Node, pace, "b2");
        assert_eq!(see(&mut later, &status, 20), [""; 0]);
    }
    let mut was_ready = on_its_way(Phase::Rancher, Pace::Stalled, "b2");
    was_ready.first_ready = Some(at(0));
    assert_eq!(see(&mut stalls, &was_ready, 21), [""; 0]);
}

#[test]
fn a_node_is_told_of_when_it_changes_and_not_in_between() {
    let mut queue = queue(&ALL);
    let mut see = |readiness, boot: &str, now: u64| {
        observe(
            &mut queue,
            &node(readiness, boot),
            i64::try_from(now).unwrap(),
        );
        sent(&mut queue, now)
    };
    assert_eq!(see(Readiness::Unknown, "b1", 0), [""; 0]);
    assert_eq!(see(Readiness::SettingUp, "b1", 1), [""; 0]);
    assert_eq!(see(Readiness::Ready, "b1", 2), ["NODE_READY"]);
    assert_eq!(see(Readiness::Ready, "b1", 3), [""; 0]);
    assert_eq!(see(Readiness::SettingUp, "b1", 4), [""; 0]);
    assert_eq!(
        see(Readiness::Ready, "b1", 5),
        [""; 0],
        "nothing was sent in between"
    );
    assert_eq!(see(Readiness::Degraded, "b1", 6), ["NODE_DEGRADED"]);
    assert_eq!(see(Readiness::Failed, "b1", 7), ["NODE_FAILED"]);
    assert_eq!(see(Readiness::Ready, "b1", 8), ["NODE_READY"]);
    assert_eq!(see(Readiness::Unknown, "b2", 9), [""; 0]);
    assert_eq!(
        see(Readiness::Ready, "b2", 10),
        ["NODE_READY"],
        "another boot"
    );
}

#[test]
fn a_degraded_node_that_is_unknown_after_a_restart_of_windrow_sends_nothing_new() {
    let mut first = queue(&ALL[..2]);
    observe(&mut first, &node(Readiness::Degraded, "b1"), 1);
    assert_eq!(sent(&mut first, 1), ["NODE_DEGRADED"]);
    let mut second = again(first.memory().clone(), &ALL[..2]);
    for (at, readiness) in [(2, Readiness::Unknown), (3, Readiness::Degraded)] {
        observe(&mut second, &node(readiness, "b1"), at);
        assert_eq!(sent(&mut second, 3), [""; 0], "{readiness:?}");
    }
}

#[test]
fn the_cluster_is_told_of_once_by_its_first_server() {
    let mut queue = queue(&ALL[3..4]);
    let mut status = node(Readiness::Ready, "b1");
    for role in [
        NodeRole::Unknown,
        NodeRole::Agent,
        NodeRole::JoinedServer,
        NodeRole::Witness,
    ] {
        status.role = role;
        observe(&mut queue, &status, 1);
        assert_eq!(sent(&mut queue, 1), [""; 0], "{role:?}");
    }
    status.role = NodeRole::FirstServer;
    observe(&mut queue, &status, 2);
    assert_eq!(sent(&mut queue, 2), [""; 0], "the platform is not detected");
    status.platform = Some(Platform::Rke2);
    observe(&mut queue, &status, 2);
    assert_eq!(sent(&mut queue, 2), ["CLUSTER_READY"]);
    for (readiness, boot) in [
        (Readiness::Failed, "b1"),
        (Readiness::Ready, "b1"),
        (Readiness::Ready, "b2"),
    ] {
        let mut later = node(readiness, boot);
        (later.role, later.platform) = (NodeRole::FirstServer, Some(Platform::Rke2));
        observe(&mut queue, &later, 3);
        assert_eq!(sent(&mut queue, 3), [""; 0]);
    }
    queue.observe(&EventInputs {
        status: &status,
        cluster: Some("another"),
        server: &ServerState::NotServed,
        now: at(4),
    });
    assert_eq!(sent(&mut queue, 4), ["CLUSTER_READY"], "installed again");
}

fn held(file: &str, overdue: bool) -> HeldFile {
    HeldFile {
        file: file.into(),
        since: at(0),
        code: Code::WaitsForKind,
        why: "waits".into(),
        by: Holder::Windrow,
        overdue,
        harmful: false,
        deadline: None,
        blockers: Vec::new(),
        name_spares_hold: None,
        no_name_spares_hold: None,
    }
}

fn failed(file: &str, since: i64) -> FailedFile {
    FailedFile {
        file: file.into(),
        since: at(since),
        reason: "ApplyManifestFailed".to_owned(),
        message: "no".to_owned(),
    }
}

fn released(file: &str) -> FileStatus {
    FileStatus {
        file: file.into(),
        since: at(0),
        cause: Cause::Met,
        unread: false,
        relies_on: Vec::new(),
        late: None,
    }
}

#[test]
fn staging_is_told_of_once_for_each_file_that_gets_stuck() {
    let hooks = &ALL[4..5];
    let mut queue = queue(hooks);
    let mut status = node(Readiness::SettingUp, "b1");
    let see = |queue: &mut WebhookQueue, status: &Status, now: u64| {
        observe(queue, status, i64::try_from(now).unwrap());
        sent(queue, now).len()
    };
    status.staging.held = vec![held("a.yaml", false)];
    status.staging.failed = vec![failed("f.yaml", 0)];
    assert_eq!(see(&mut queue, &status, 299), 0, "RKE2 may yet apply it");
    let seen = EventInputs {
        status: &status,
        cluster: None,
        server: &ServerState::NotServed,
        now: at(299),
    };
    assert_eq!(super::super::event::next_change(&seen), Some(at(300)));
    assert_eq!(see(&mut queue, &status, 300), 1);
    status.staging.held = vec![held("a.yaml", true)];
    assert_eq!(see(&mut queue, &status, 301), 1, "another file");
    assert_eq!(see(&mut queue, &status, 302), 0);
    status.staging.held = vec![held("a.yaml", false)];
    assert_eq!(
        see(&mut queue, &status, 302),
        0,
        "its deadline starts again after a restart"
    );
    status.staging.held = vec![held("a.yaml", true)];
    assert_eq!(see(&mut queue, &status, 302), 0, "it is stuck all the same");
    status.staging.held.clear();
    assert_eq!(see(&mut queue, &status, 303), 0, "one less is no news");
    // The daemon has started again, and RKE2 has not answered yet.
    let mut queue = again(queue.memory().clone(), hooks);
    let mut fresh = node(Readiness::SettingUp, "b1");
    fresh.staging.released = vec![released("f.yaml")];
    assert_eq!(see(&mut queue, &fresh, 304), 0);
    assert_eq!(
        see(&mut queue, &status, 305),
        0,
        "it was sent before the restart"
    );
    status.staging.failed.clear();
    status.staging.applied = vec![released("f.yaml")];
    assert_eq!(see(&mut queue, &status, 306), 0);
    status.staging.failed = vec![failed("f.yaml", 0)];
    assert_eq!(
        see(&mut queue, &status, 307),
        1,
        "it was applied, and is stuck again"
    );
}

#[test]
fn a_restart_tells_what_was_not_told_and_nothing_twice() {
    let mut queue = queue(&ALL[..1]);
    observe(&mut queue, &node(Readiness::Ready, "b1"), 1);
    let tried = queue.start(seconds(1)).remove(0);
    end(&mut queue, &tried, Err("dead"), 2);
    let stored = serde_json::to_string(queue.memory()).unwrap();
    let memory: DeliveryMemory = serde_json::from_str(&stored).unwrap();
    let mut queue = again(memory, &ALL[..1]);
    observe(&mut queue, &node(Readiness::Unknown, "b1"), 3);
    assert_eq!(
        sent(&mut queue, 3),
        [""; 0],
        "not while it is not known to be so"
    );
    observe(&mut queue, &node(Readiness::Ready, "b1"), 4);
    let again_tried = queue.start(seconds(4)).remove(0);
    assert_eq!(
        again_tried.occurrence, tried.occurrence,
        "the same occurrence"
    );
    end(&mut queue, &again_tried, Ok(()), 4);
    let mut queue = again(queue.memory().clone(), &ALL[..2]);
    observe(&mut queue, &node(Readiness::Ready, "b1"), 5);
    assert_eq!(sent(&mut queue, 5), [""; 0]);
    // A console that is added later gets the current state.
    queue.configure(vec![hook(WebhookEvent::NodeReady, "http://new")], at(6));
    observe(&mut queue, &node(Readiness::Ready, "b1"), 6);
    assert_eq!(sent(&mut queue, 6), ["NODE_READY"]);
}

#[test]
fn what_was_not_delivered_gives_way_to_what_is_so_now() {
    let mut queue = queue(&ALL);
    observe(&mut queue, &node(Readiness::Failed, "b1"), 1);
    let tried = queue.start(seconds(1)).remove(0);
    assert_eq!(tried.hook.event, WebhookEvent::NodeFailed);
    observe(&mut queue, &node(Readiness::Ready, "b1"), 2);
    assert!(
        queue.start(seconds(2)).is_empty(),
        "one thing at a time for a console"
    );
    assert_eq!(end(&mut queue, &tried, Err("dead"), 3), TryOutcome::Failing);
    assert_eq!(sent(&mut queue, 3), ["NODE_READY"]);
    assert_eq!(sent(&mut queue, 9_999), [""; 0], "the failure is old news");
    let states: Vec<DeliveryState> = queue.view().iter().map(|hook| hook.state).collect();
    assert_eq!(states[0], DeliveryState::Delivered);
    assert_eq!(states[2], DeliveryState::Waiting);
}

#[test]
fn another_console_does_not_wait_for_a_slow_one() {
    let mut queue = queue(&[
        (WebhookEvent::NodeReady, "http://slow/1"),
        (WebhookEvent::NodeReady, "http://slow/2"),
        (WebhookEvent::NodeReady, "http://quick/1"),
    ]);
    observe(&mut queue, &node(Readiness::Ready, "b1"), 1);
    let tries = queue.start(seconds(1));
    let consoles: Vec<String> = tries.iter().map(|tried| tried.hook.console()).collect();
    assert_eq!(consoles, ["http://slow", "http://quick"]);
    assert_eq!(
        queue.next(),
        None,
        "what waits for the slow one is looked at when it ends"
    );
    end(&mut queue, &tries[0], Ok(()), 30);
    assert_eq!(queue.start(seconds(30)).len(), 1);
}

#[test]
fn pauses_double_up_to_five_minutes_and_it_is_never_given_up() {
    let mut queue = queue(&ALL[..1]);
    observe(&mut queue, &node(Readiness::Ready, "b1"), 0);
    let mut now = 0;
    let mut pauses = VecDeque::new();
    for turn in 0..40 {
        let tried = queue.start(seconds(now)).remove(0);
        let expected = if turn == 0 {
            TryOutcome::Failing
        } else {
            TryOutcome::Nothing
        };
        assert_eq!(end(&mut queue, &tried, Err("HTTP 500"), now), expected);
        let next = queue.next().unwrap().as_secs();
        assert!(queue.start(seconds(next - 1)).is_empty());
        pauses.push_back(next - now);
        now = next;
    }
    let expected = [2, 4, 8, 16, 32, 64, 128, 256, 300, 300];
    assert!(pauses.iter().take(10).eq(expected.iter()), "{pauses:?}");
    let view = queue.view().remove(0);
    assert_eq!(view.state, DeliveryState::Failing);
    assert_eq!(view.message, "HTTP 500");
    assert_eq!(view.since, at(0), "since the first failure");
    assert_eq!(sent(&mut queue, now), ["NODE_READY"]);
    assert_eq!(queue.view()[0].message, "");
}

#[test]
fn the_outcome_of_a_webhook_that_was_configured_away_is_dropped() {
    let mut queue = queue(&ALL[..1]);
    observe(&mut queue, &node(Readiness::Ready, "b1"), 0);
    let tried = queue.start(seconds(0)).remove(0);
    queue.configure(Vec::new(), at(1));
    assert_eq!(end(&mut queue, &tried, Ok(()), 1), TryOutcome::Nothing);
    assert!(queue.is_idle());
}

proptest! {
    /// With any events on the node and the console, the console finally has the current state, never got an occurrence
    /// again that it had answered, and got events in their order.
    #[test]
    fn the_newest_state_arrives_in_the_end(
        steps in prop::collection::vec((0_u8..5, any::<bool>(), any::<bool>()), 1..60)
    ) {
        let mut queue = queue(&ALL[..3]);
        let mut under_way: Vec<DeliveryTry> = Vec::new();
        let mut heard: Vec<(u64, &str)> = Vec::new();
        let mut now = 0_u64;
        let mut last = None;
        for (state, works, restart) in steps {
            now += 1;
            let readiness = [
                Readiness::Ready,
                Readiness::Degraded,
                Readiness::Failed,
                Readiness::SettingUp,
                Readiness::Unknown,
            ][usize::from(state)];
            if state < 3 {
                last = Some(["NODE_READY", "NODE_DEGRADED", "NODE_FAILED"][usize::from(state)]);
            }
            observe(&mut queue, &node(readiness, "b"), i64::try_from(now).unwrap());
            for tried in under_way.drain(..) {
                if works {
                    heard.push((tried.occurrence.number, tried.hook.event.name()));
                }
                let result = if works { Ok(()) } else { Err("no") };
                end(&mut queue, &tried, result, now);
            }
            if restart {
                queue = again(queue.memory().clone(), &ALL[..3]);
            }
            let tries = queue.start(seconds(now));
            prop_assert!(tries.len() <= 1, "one thing at a time");
            under_way.extend(tries);
        }
        // The console is back, and the node is in its last state.
        now += 10_000;
        for tried in under_way {
            heard.push((tried.occurrence.number, tried.hook.event.name()));
            end(&mut queue, &tried, Ok(()), now);
        }
        if let Some(last) = last {
            let readiness = match last {
                "NODE_READY" => Readiness::Ready,
                "NODE_DEGRADED" => Readiness::Degraded,
                _ => Readiness::Failed,
            };
            observe(&mut queue, &node(readiness, "b"), i64::try_from(now).unwrap());
            while let Some(tried) = queue.start(seconds(now)).pop() {
                heard.push((tried.occurrence.number, tried.hook.event.name()));
                end(&mut queue, &tried, Ok(()), now);
            }
            prop_assert_eq!(heard.last().map(|(_, event)| *event), Some(last));
        }
        let numbers: Vec<u64> = heard.iter().map(|(number, _)| *number).collect();
        prop_assert!(numbers.is_sorted_by(|a, b| a < b), "{:?}", heard);
    }
}
