//! The event `seen`, repeated events, and the numbers of requests.

use windrow_decide::{CertificateSource, ServerStatus, Status};

use super::tests::{again, at, end, hook, node, seconds};
use super::*;
use crate::report::server::ServerState;
use windrow_decide::Readiness;

fn see(queue: &mut WebhookQueue, status: &Status, server: &ServerState, now: u64) {
    queue.observe(&EventInputs {
        status,
        cluster: None,
        server,
        now: at(i64::try_from(now).unwrap()),
    });
}

fn served(fingerprint: &str) -> ServerState {
    ServerState::Served(ServerStatus {
        listen: "0.0.0.0:9346".to_owned(),
        certificate: CertificateSource::SelfSigned,
        fingerprint: fingerprint.to_owned(),
    })
}

/// The requests that are sent now, each answered with 200.
fn sent(queue: &mut WebhookQueue, now: u64) -> Vec<DeliveryTry> {
    let tries = queue.start(seconds(now));
    for tried in &tries {
        end(queue, tried, Ok(()), now);
    }
    tries
}

const SEEN: (WebhookEvent, &str) = (WebhookEvent::NodeSeen, "http://c/seen");

#[test]
fn a_node_is_seen_once_a_boot_whatever_its_state_and_again_with_another_certificate() {
    let mut queue = again(DeliveryMemory::default(), &[SEEN]);
    let mut count = |status: &Status, server: &ServerState, now: u64| {
        see(&mut queue, status, server, now);
        sent(&mut queue, now).len()
    };
    let unknown = node(Readiness::Unknown, "b1");
    assert_eq!(count(&unknown, &ServerState::Starting, 1), 0, "in a moment");
    assert_eq!(count(&unknown, &served("f1"), 2), 1);
    let steps = [
        (&unknown, served("f1"), 0),
        (&node(Readiness::Ready, "b1"), served("f1"), 0),
        (&unknown, ServerState::NotServed, 0),
        (&unknown, served("f1"), 0),
        (&unknown, served("f2"), 1),
        (&node(Readiness::Ready, "b2"), served("f2"), 1),
        (&node(Readiness::Ready, "b2"), ServerState::Starting, 0),
        (&node(Readiness::Ready, "b2"), served("f2"), 0),
    ];
    for (now, (status, server, expected)) in (3..).zip(&steps) {
        assert_eq!(count(status, server, now), *expected, "{now}");
    }
    // Windrow begins again, and its server comes a moment later.
    let mut later = again(queue.memory().clone(), &[SEEN]);
    for server in [ServerState::Starting, served("f2")] {
        see(&mut later, &node(Readiness::Unknown, "b2"), &server, 30);
        assert_eq!(sent(&mut later, 30).len(), 0);
    }
    let mut without = again(DeliveryMemory::default(), &[SEEN]);
    see(&mut without, &unknown, &ServerState::NotServed, 1);
    assert_eq!(sent(&mut without, 1).len(), 1, "there is no server");
}

fn every(event: WebhookEvent, period: u64) -> Webhook {
    Webhook {
        every: Some(seconds(period)),
        ..hook(event, "http://c/again")
    }
}

#[test]
fn an_event_is_sent_again_while_it_is_true_without_a_trace_in_the_view_and_the_record() {
    let mut queue = WebhookQueue::new(DeliveryMemory::default());
    queue.configure(vec![every(WebhookEvent::NodeReady, 60)], at(0));
    let ready = node(Readiness::Ready, "b1");
    see(&mut queue, &ready, &ServerState::NotServed, 1);
    let first = sent(&mut queue, 1);
    assert_eq!((first.len(), first[0].repeat), (1, None));
    let (view, memory) = (queue.view(), queue.memory().clone());
    assert_eq!(view[0].state, DeliveryState::Delivered);
    let mut last = first[0].sequence;
    let mut repeats = Vec::new();
    for round in 1..=3 {
        let due = 1 + 60 * round;
        assert_eq!(queue.next(), Some(seconds(due)), "the one time to wake");
        assert_eq!(sent(&mut queue, due - 1).len(), 0);
        let tries = queue.start(seconds(due));
        assert_eq!(tries.len(), 1);
        assert_eq!(queue.next(), None, "it is under way");
        assert_eq!(queue.view(), view);
        assert_eq!(tries[0].occurrence, first[0].occurrence);
        assert!(tries[0].sequence > last);
        last = tries[0].sequence;
        repeats.push(tries[0].repeat);
        let outcome = end(&mut queue, &tries[0], Ok(()), due);
        assert_eq!(outcome, TryOutcome::Nothing, "no line in the journal");
        assert_eq!((queue.view(), queue.memory()), (view.clone(), &memory));
    }
    repeats.dedup();
    assert!(
        repeats.len() == 3 && !repeats.contains(&None),
        "{repeats:?}"
    );

    // It is over, and comes back.
    see(
        &mut queue,
        &node(Readiness::SettingUp, "b1"),
        &ServerState::NotServed,
        200,
    );
    assert_eq!((queue.next(), sent(&mut queue, 1000).len()), (None, 0));
    see(&mut queue, &ready, &ServerState::NotServed, 1001);
    assert_eq!(sent(&mut queue, 1001).len(), 1);
    // In another boot it is news, and not a repeat.
    see(
        &mut queue,
        &node(Readiness::Ready, "b2"),
        &ServerState::NotServed,
        1002,
    );
    assert_eq!(sent(&mut queue, 1002)[0].repeat, None);

    // After a start of Windrow the next one is a whole time away.
    let mut later = WebhookQueue::new(queue.memory().clone());
    later.configure(vec![every(WebhookEvent::NodeReady, 60)], at(0));
    see(
        &mut later,
        &node(Readiness::Ready, "b2"),
        &ServerState::NotServed,
        5,
    );
    assert_eq!(sent(&mut later, 5).len(), 0);
    assert_eq!(later.next(), Some(seconds(65)));
    assert_eq!(sent(&mut later, 65).len(), 1);
}

#[test]
fn a_repeat_that_fails_is_tried_again_as_itself_and_shown_until_it_arrives() {
    let mut queue = WebhookQueue::new(DeliveryMemory::default());
    queue.configure(vec![every(WebhookEvent::NodeReady, 60)], at(0));
    let ready = node(Readiness::Ready, "b1");
    see(&mut queue, &ready, &ServerState::NotServed, 0);
    sent(&mut queue, 0);
    let first = queue.start(seconds(60));
    let outcome = end(&mut queue, &first[0], Err("no answer"), 60);
    assert_eq!(outcome, TryOutcome::Failing);
    let shown = queue.view().remove(0);
    assert_eq!(
        (shown.state, shown.message.as_str()),
        (DeliveryState::Failing, "no answer")
    );
    assert_eq!(queue.next(), Some(seconds(62)));
    let second = queue.start(seconds(62));
    assert_eq!(second[0].repeat, first[0].repeat);
    assert!(second[0].sequence > first[0].sequence);
    assert_eq!(
        end(&mut queue, &second[0], Ok(()), 62),
        TryOutcome::Delivered
    );
    assert_eq!(queue.view()[0].state, DeliveryState::Delivered);
    assert_eq!(queue.next(), Some(seconds(122)));

    // Something new happens while a repeat is under way: it is sent too.
    let tries = queue.start(seconds(122));
    see(
        &mut queue,
        &node(Readiness::Ready, "b2"),
        &ServerState::NotServed,
        122,
    );
    end(&mut queue, &tries[0], Ok(()), 122);
    let news = sent(&mut queue, 122);
    assert_eq!(news.len(), 1);
    assert_eq!(news[0].repeat, None);
}

#[test]
fn numbers_only_grow_over_restarts_and_seldom_reach_the_disk() {
    let mut memory = DeliveryMemory::default();
    let mut last = 0;
    let mut writes = 0;
    for boot in 0..5_u64 {
        let mut queue = WebhookQueue::new(memory.clone());
        queue.configure(vec![every(WebhookEvent::NodeSeen, 10)], at(0));
        let status = node(Readiness::Unknown, &format!("b{boot}"));
        see(&mut queue, &status, &ServerState::NotServed, 0);
        for now in 0..300 {
            let before = queue.memory().sequence;
            for tried in sent(&mut queue, now * 10) {
                assert!(tried.sequence > last, "{} after {last}", tried.sequence);
                last = tried.sequence;
            }
            assert!(
                queue.memory().sequence >= last,
                "reserved before it is used"
            );
            writes += u64::from(queue.memory().sequence != before);
        }
        memory = queue.memory().clone();
    }
    assert!(last > 1500 && writes < 30, "{last} {writes}");
}
