use serde_json::json;
use windrow_decide::{FailedFile, Readiness, StatusReason};
use windrow_model::reasons::Code;

use super::*;
use crate::report::publish::sample;

const SWITCHES: NodeOutletSwitches = NodeOutletSwitches {
    condition: true,
    events: true,
};

/// One node over simulated time, and the requests that it has sent.
struct Node {
    policy: NodeOutletPolicy,
    began: Instant,
    sent: Vec<(Duration, OutletRequest)>,
    answer: Result<Value, WriteError>,
}

fn status(readiness: Readiness, code: Code, message: &str) -> Arc<Status> {
    let reason = StatusReason {
        code,
        message: message.to_owned(),
    };
    Arc::new(Status {
        readiness,
        reason,
        ..sample(message)
    })
}

fn ready() -> Arc<Status> {
    status(Readiness::Ready, Code::NodeReady, "all well")
}

fn seconds(number: u64) -> Duration {
    Duration::from_secs(number)
}

impl Node {
    fn new() -> Self {
        let began = Instant::now();
        let mut policy = NodeOutletPolicy::new(SWITCHES, began);
        policy.first_write = began;
        Self {
            policy,
            began,
            sent: Vec::new(),
            answer: Ok(json!({})),
        }
    }

    fn time(at: Duration) -> Timestamp {
        Timestamp::UNIX_EPOCH + jiff::SignedDuration::try_from(at).unwrap()
    }

    fn send(&mut self, at: Duration) {
        let now = self.began + at;
        while let Some(request) = self.policy.next(now, Self::time(at)) {
            self.sent.push((at, request.clone()));
            self.policy.answered(request, &self.answer, now);
        }
    }

    /// The node reports this, and time passes until then.
    fn say(&mut self, at: Duration, status: &Arc<Status>, until: Duration) {
        self.policy.observe(status, Self::time(at));
        let mut at = at;
        loop {
            self.send(at);
            match self.policy.due(self.began + at) {
                Some(due) if due - self.began <= until => at = due - self.began,
                _ => return,
            }
        }
    }

    fn writes(&self) -> usize {
        self.sent.iter().filter(|(_, one)| one.is_write()).count()
    }
}

#[test]
fn a_boot_reads_the_node_once_and_writes_each_change_of_reason_once() {
    let mut node = Node::new();
    let course = [
        (Readiness::SettingUp, Code::ApiNotReady),
        (Readiness::SettingUp, Code::NodeNotReady),
        (Readiness::SettingUp, Code::Staging),
        (Readiness::Ready, Code::NodeReady),
    ];
    for (at, (readiness, code)) in (0..).zip(course) {
        let status = status(readiness, code, "x");
        node.say(seconds(at), &status, seconds(at + 1));
    }
    let works: Vec<&Work> = node.sent.iter().map(|(_, one)| &one.0).collect();
    assert!(matches!(works[0], Work::ReadNode));
    let conditions = works
        .iter()
        .filter(|work| matches!(work, Work::WriteCondition { .. }));
    assert_eq!(conditions.count(), course.len());
    // And one event: that it became Ready.
    let events = works
        .iter()
        .filter(|work| matches!(work, Work::CreateEvent { .. }));
    assert_eq!(events.count(), 1);
    assert_eq!(works.len(), 1 + course.len() + 1, "{works:?}");
}

#[test]
fn messages_of_one_reason_are_written_twice_a_minute_however_often_they_change() {
    let mut node = Node::new();
    for second in 0..600 {
        let status = status(Readiness::SettingUp, Code::Staging, &second.to_string());
        node.say(seconds(second), &status, seconds(second + 1));
    }
    assert!((20..=21).contains(&node.writes()), "{}", node.writes());
}

#[test]
fn a_node_that_flaps_for_an_hour_writes_its_condition_and_a_bounded_number_of_events() {
    let mut node = Node::new();
    let failed = status(Readiness::Failed, Code::NodeNotReady, "gone");
    for second in 0..3600 {
        let status = if second % 2 == 0 {
            ready()
        } else {
            failed.clone()
        };
        node.say(seconds(second), &status, seconds(second + 1));
    }
    let is_event = |one: &&(Duration, OutletRequest)| {
        matches!(one.1.0, Work::CreateEvent { .. } | Work::CountEvent { .. })
    };
    let events = node.sent.iter().filter(is_event).count();
    let most = BURST as usize + 3600 / 60;
    assert!(events <= most, "{events}");
    assert_eq!(node.writes() - events, 3600, "a condition a change");
}

#[test]
fn at_rest_a_node_writes_once_in_seven_and_a_half_to_ten_minutes() {
    let mut node = Node::new();
    let day = 24 * 3600;
    node.say(seconds(0), &ready(), seconds(day));
    let beats = node.writes() as u64 - 1;
    assert!((day / 600..=day / 450).contains(&beats), "{beats}");
}

#[test]
fn nodes_that_start_together_do_not_go_on_together() {
    let mut second = Vec::new();
    for _ in 0..500 {
        let mut node = Node::new();
        node.say(seconds(0), &ready(), seconds(600));
        let writes = node.sent.iter().filter(|(_, one)| one.is_write());
        second.push(writes.map(|(at, _)| at.as_secs()).nth(1).unwrap());
    }
    // Within 150 s: only without spreading could one second have a tenth of them.
    let most = (450..=600)
        .map(|at| second.iter().filter(|one| **one == at).count())
        .max();
    assert!(most.unwrap() < 50, "{most:?}");
    let (first, last) = (second.iter().min().unwrap(), second.iter().max().unwrap());
    assert!(last - first > 100, "{first} {last}");
}

#[test]
fn daemons_that_start_together_first_write_within_five_seconds_and_one_that_tells_of_a_failure_at_once()
 {
    let failed = status(Readiness::Failed, Code::NodeNotReady, "gone");
    let mut second = Vec::new();
    for _ in 0..500 {
        let mut node = Node::new();
        node.policy = NodeOutletPolicy::new(SWITCHES, node.began);
        node.say(seconds(0), &ready(), seconds(6));
        assert_eq!((node.sent.len(), node.writes()), (2, 1));
        let (read, write) = (node.sent[0].0, node.sent[1].0);
        assert_eq!(read, write, "the Node is not read before");
        second.push(write.as_secs());

        let mut node = Node::new();
        node.policy = NodeOutletPolicy::new(SWITCHES, node.began);
        node.say(seconds(0), &failed, seconds(0));
        assert!(node.writes() > 0);
    }
    for at in 0..5 {
        let number = second.iter().filter(|one| **one == at).count();
        assert!((50..=200).contains(&number), "{number} in second {at}");
    }
}

#[test]
fn only_the_first_write_after_a_start_is_put_off() {
    let mut node = Node::new();
    node.policy.first_write = node.began + seconds(5);
    let setting_up = status(Readiness::SettingUp, Code::Staging, "1 of 2");
    node.say(seconds(0), &setting_up, seconds(4));
    assert_eq!(node.sent.len(), 0);
    node.say(seconds(4), &ready(), seconds(5));
    node.say(seconds(6), &setting_up, seconds(6));
    let is_condition = |work: &Work| matches!(work, Work::WriteCondition { .. });
    let conditions = node.sent.iter().filter(|(_, one)| is_condition(&one.0));
    let at: Vec<u64> = conditions.map(|(at, _)| at.as_secs()).collect();
    assert_eq!(at, [5, 6]);
}

#[test]
fn a_server_that_is_away_is_asked_less_and_less_often_and_then_told_the_newest_within_half_a_minute()
 {
    let mut node = Node::new();
    node.answer = Err(WriteError::Down);
    node.say(seconds(0), &ready(), seconds(600));
    assert!((20..=40).contains(&node.sent.len()), "{}", node.sent.len());
    assert_eq!(node.writes(), 0, "it has not read the Node yet");
    node.answer = Ok(json!({}));
    let before = node.sent.len();
    node.say(seconds(600), &ready(), seconds(630));
    let works: Vec<&Work> = node.sent[before..].iter().map(|(_, one)| &one.0).collect();
    assert!(
        matches!(works[..], [Work::ReadNode, Work::WriteCondition { .. }]),
        "{works:?}"
    );
}

#[test]
fn a_refusal_is_left_alone_for_half_an_hour_or_until_the_configuration_is_read_again() {
    let mut node = Node::new();
    node.answer = Err(WriteError::Refused("PATCH /x: no".to_owned()));
    node.say(seconds(0), &ready(), seconds(1300));
    assert_eq!(node.sent.len(), 1);
    node.policy.configured(SWITCHES);
    node.say(seconds(1301), &ready(), seconds(1302));
    assert_eq!(node.sent.len(), 2);
}

#[test]
fn a_refused_event_keeps_no_condition_from_being_written() {
    let mut node = Node::new();
    let answer = |node: &mut Node, at: u64, status: &Arc<Status>| {
        let now = node.began + seconds(at);
        node.policy.observe(status, Node::time(seconds(at)));
        let mut works = Vec::new();
        while let Some(request) = node.policy.next(now, Node::time(seconds(at))) {
            works.push(request.0.clone());
            let refused = matches!(request.0, Work::CreateEvent { .. });
            let answer = match refused {
                true => Err(WriteError::Refused("POST /events: no".to_owned())),
                false => Ok(json!({})),
            };
            node.policy.answered(request, &answer, now);
        }
        works
    };
    let is_condition = |work: &Work| matches!(work, Work::WriteCondition { .. });
    let on_its_way = status(Readiness::SettingUp, Code::Staging, "x");
    answer(&mut node, 0, &on_its_way);
    let first = answer(&mut node, 0, &ready());
    assert!(
        matches!(first.last(), Some(Work::CreateEvent { .. })),
        "{first:?}"
    );
    let failed = status(Readiness::Failed, Code::NodeNotReady, "gone");
    let then = answer(&mut node, 1, &failed);
    assert!(then.len() == 1 && is_condition(&then[0]), "{then:?}");
    // The event is tried again in half an hour.
    let due = node.policy.due(node.began + seconds(2)).unwrap();
    assert!(due > node.began + seconds(2));
    let later = answer(&mut node, 1900, &failed);
    assert!(
        later
            .iter()
            .any(|work| matches!(work, Work::CreateEvent { .. })),
        "{later:?}"
    );
}

const OFF: NodeOutletSwitches = NodeOutletSwitches {
    condition: false,
    events: true,
};

#[test]
fn what_stood_there_keeps_its_time_and_switched_off_it_is_taken_away_once() {
    let since: Timestamp = "2026-11-21T20:15:00Z".parse().unwrap();
    let condition = NodeCondition::from_status(&ready(), None);
    let mut node = Node::new();
    node.answer = Ok(condition.patch(since, since));
    node.say(seconds(0), &ready(), seconds(1));
    let (_, OutletRequest(Work::WriteCondition { transition, .. })) = &node.sent[1] else {
        panic!("{:?}", node.sent);
    };
    assert_eq!(*transition, since);
    node.policy.configured(OFF);
    node.say(seconds(2), &ready(), seconds(7200));
    let removed = node
        .sent
        .iter()
        .filter(|(_, one)| one.0 == Work::RemoveCondition);
    assert_eq!(removed.count(), 1);
    assert_eq!(node.sent.len(), 3);
    assert_eq!(
        node.policy.stopped(since),
        None,
        "nothing is there to correct"
    );
}

#[test]
fn a_daemon_that_starts_switched_off_removes_what_an_earlier_run_or_version_left() {
    let former =
        json!({"status": {"conditions": [{"type": "WindrowBootstrap", "status": "True"}]}});
    let annotated = json!({"metadata": {"annotations": {"windrow.dev/bootstrap": "{}"}}});
    let own = NodeCondition::from_status(&ready(), None)
        .patch(Timestamp::UNIX_EPOCH, Timestamp::UNIX_EPOCH);
    for (found, removes) in [
        (former, true),
        (annotated, true),
        (own, true),
        (json!({}), false),
    ] {
        let mut node = Node::new();
        node.policy.configured(OFF);
        node.answer = Ok(found);
        node.say(seconds(0), &ready(), seconds(7200));
        let works: Vec<&Work> = node.sent.iter().map(|(_, request)| &request.0).collect();
        if removes {
            assert!(
                matches!(works[..], [Work::ReadNode, Work::RemoveCondition]),
                "{works:?}"
            );
        } else {
            assert!(matches!(works[..], [Work::ReadNode]), "{works:?}");
        }
    }
}

#[test]
fn every_write_removes_the_condition_of_earlier_versions() {
    let condition = NodeCondition::from_status(&ready(), None);
    let since = Timestamp::UNIX_EPOCH;
    for patch in [
        condition.patch(since, since),
        NodeCondition::stopped().patch(since, since),
        NodeCondition::removal(),
    ] {
        let conditions = patch["status"]["conditions"].as_array().unwrap();
        assert!(
            conditions.contains(&json!({"$patch": "delete", "type": "WindrowBootstrap"})),
            "{patch}"
        );
    }
}

#[test]
fn an_event_that_is_gone_is_written_anew_and_one_that_is_refused_for_good_is_dropped() {
    let mut node = Node::new();
    let mut failed = Status::clone(&ready());
    failed.staging.failed.push(FailedFile {
        file: "a.yaml".into(),
        since: Timestamp::UNIX_EPOCH,
        reason: "ApplyManifestFailed".to_owned(),
        message: "no matches".to_owned(),
    });
    let failed = Arc::new(failed);
    node.say(seconds(0), &failed, seconds(1));
    node.say(seconds(2), &ready(), seconds(3));
    node.say(seconds(4), &failed, seconds(5));
    let counts = |node: &Node| -> Vec<u32> {
        let counts = node.sent.iter().filter_map(|(_, one)| match &one.0 {
            Work::CreateEvent { .. } => Some(1),
            Work::CountEvent { count, .. } => Some(*count),
            _ => None,
        });
        counts.collect()
    };
    assert_eq!(counts(&node), [1, 2]);
    node.say(seconds(6), &ready(), seconds(7));
    node.policy.observe(&failed, Node::time(seconds(8)));
    let now = node.began + seconds(8);
    let third = node.policy.next(now, Node::time(seconds(8))).unwrap();
    node.policy.answered(third, &Err(WriteError::Missing), now);
    node.send(seconds(9));
    assert_eq!(counts(&node), [1, 2, 1]);
    node.say(seconds(10), &ready(), seconds(11));
    node.answer = Err(WriteError::Invalid);
    node.say(seconds(12), &failed, seconds(13));
    assert_eq!(counts(&node).len(), 4, "it is not tried again");
}
