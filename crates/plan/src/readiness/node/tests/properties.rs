//! Tests properties that hold for all answers.

use proptest::prelude::*;

use super::*;

#[derive(Debug, Clone, Copy)]
enum Answer {
    Pass,
    Fail,
    Refuse,
}

fn answer() -> impl Strategy<Value = Answer> {
    prop_oneof![
        4 => Just(Answer::Pass),
        1 => Just(Answer::Fail),
        1 => Just(Answer::Refuse),
    ]
}

fn outcome(answer: Answer) -> ProbeOutcome {
    match answer {
        Answer::Pass => ProbeOutcome::Passed,
        Answer::Fail => ProbeOutcome::failed("no"),
        Answer::Refuse => ProbeOutcome::unknown("GET it", "403"),
    }
}

fn role() -> impl Strategy<Value = NodeRole> {
    prop_oneof![
        Just(NodeRole::FirstServer),
        Just(NodeRole::JoinedServer),
        Just(NodeRole::Agent),
        Just(NodeRole::Witness),
        Just(NodeRole::Unknown),
    ]
}

fn platform() -> impl Strategy<Value = Platform> {
    prop_oneof![Just(Platform::Harvester), Just(Platform::Rke2)]
}

proptest! {
    #[test]
    fn never_ready_with_a_required_probe_that_did_not_pass_and_never_not_ready_by_a_refusal(
        role in role(),
        platform in platform(),
        answers in prop::collection::vec((any::<prop::sample::Index>(), answer()), 0..200),
        silence in 0_i64..10,
    ) {
        let mut node = Node::new(role, platform);
        node.passes_but(&[]);
        for (which, answer) in answers {
            let probes = node.probes();
            node.answer(which.get::<String>(&probes), outcome(answer));
            node.now += SignedDuration::from_secs(1);
        }
        node.now += SignedDuration::from_mins(silence);
        let judged = node.judge();
        let now = node.now;
        let seen = node.seen.as_ref().unwrap();
        let required = || listed(seen, &node.memory)
            .filter(|track| track.spec.severity == ProbeSeverity::Required)
            .map(|track| as_of(track, now).0);
        let arrived = matches!(judged.readiness, Readiness::Ready | Readiness::Degraded);
        if arrived {
            prop_assert!(required().all(|state| state == ProbeState::Passing), "{judged:?}");
            prop_assert_ne!(role, NodeRole::Unknown);
        }
        let wrong = matches!(judged.readiness, Readiness::SettingUp | Readiness::Failed);
        prop_assert_eq!(wrong, required().any(|state| state == ProbeState::Failing));
        if let Some(wake) = judged.next_wake {
            prop_assert!(wake > now);
        }
        prop_assert!(!judged.message.is_empty());
        prop_assert!(!judged.message.contains('{'), "{}", judged.message);
    }

    #[test]
    fn a_state_changes_only_after_enough_answers_and_none_stays_passing_without_a_pass(
        rise in 1_u32..5,
        fall in 1_u32..5,
        answers in prop::collection::vec(answer(), 0..100),
    ) {
        let now = Timestamp::from_second(1_800_000_000).unwrap();
        let mut spec = specs(NodeRole::Agent, None).remove(0);
        (spec.rise, spec.fall) = (rise, fall);
        let mut track = Track::new(spec, now);
        let mut history: Vec<ProbeState> = Vec::new();
        for answer in answers {
            let before = track.state;
            track.take(ProbeResult { outcome: outcome(answer), at: now });
            let kind = match answer {
                Answer::Pass => ProbeState::Passing,
                Answer::Fail => ProbeState::Failing,
                Answer::Refuse => ProbeState::Unknown,
            };
            history.push(kind);
            let newest = |count: u32| &history[history.len().saturating_sub(count as usize)..];
            let run = history.iter().rev().take_while(|state| **state == kind).count();
            let enough = if kind == ProbeState::Passing { rise } else { fall };
            if run >= enough as usize {
                prop_assert_eq!(track.state, kind);
            }
            let has_no_pass = newest(fall).len() == fall as usize
                && !newest(fall).contains(&ProbeState::Passing);
            if has_no_pass {
                prop_assert_ne!(track.state, ProbeState::Passing, "{:?}", history);
            }
            if track.state == before {
                continue;
            }
            match track.state {
                ProbeState::Passing => prop_assert!(run >= rise as usize, "{:?}", history),
                ProbeState::Failing => {
                    prop_assert!(has_no_pass, "{:?}", history);
                    let without_pass = history.iter().rev();
                    let without_pass = without_pass.take_while(|state| **state != ProbeState::Passing);
                    let failed = without_pass.filter(|state| **state == ProbeState::Failing);
                    prop_assert!(failed.count() * 2 > fall as usize, "{:?}", history);
                }
                ProbeState::Unknown => prop_assert!(has_no_pass, "{:?}", history),
            }
        }
    }
}

proptest! {
    // Each case is a day with several hundred thousand answers.
    #![proptest_config(ProptestConfig::with_cases(4))]

    #[test]
    fn a_healthy_node_with_hiccups_is_ready_for_a_whole_day(
        role in prop_oneof![Just(NodeRole::FirstServer), Just(NodeRole::JoinedServer), Just(NodeRole::Agent)],
        seed in any::<u64>(),
    ) {
        let mut node = Node::harvester(role);
        node.passes_but(&[]);
        let ready = node.judge();
        prop_assert_eq!(ready.readiness, Readiness::Ready);
        let mut noise = seed | 1;
        let mut draw = move |below: u64| {
            // xorshift64*: good enough for noise, and reproducible for the same seed.
            noise ^= noise >> 12;
            noise ^= noise << 25;
            noise ^= noise >> 27;
            noise.wrapping_mul(0x2545_F491_4F6C_DD1D) % below
        };
        // When each probe runs next, and how many of its last answers were hiccups.
        let mut due: Vec<(ProbeSpec, Timestamp, u32)> = specs(role, node.platform)
            .into_iter()
            .map(|spec| (spec, node.now, 0))
            .collect();
        let end = node.now + SignedDuration::from_hours(24);
        let mut answers = 0_u32;
        while node.now < end {
            let next = due.iter_mut().min_by_key(|(_, at, _)| *at).unwrap();
            let (spec, at, hiccups) = next;
            node.now = node.now.max(*at);
            // An occasional hiccup: a slow or refused answer, but never `fall` in a row.
            let hiccup = draw(20) == 0 && *hiccups + 1 < spec.fall;
            let said = match (hiccup, draw(2)) {
                (false, _) => ProbeOutcome::Passed,
                (true, 0) => ProbeOutcome::failed("a hiccup"),
                (true, _) => ProbeOutcome::unknown("GET it", "timed out"),
            };
            let period = i64::try_from(spec.period.as_millis()).unwrap();
            let jitter = i64::try_from(draw(u64::try_from(period / 5).unwrap())).unwrap();
            *at = node.now + SignedDuration::from_millis(period + jitter);
            *hiccups = if hiccup { *hiccups + 1 } else { 0 };
            let id = spec.id.clone();
            node.event(NodeEvent::Probed(id, said));
            answers += 1;
            if hiccup || answers.is_multiple_of(50) {
                let judged = node.judge();
                prop_assert_eq!(judged.readiness, Readiness::Ready, "{:?}", judged);
            }
        }
        prop_assert!(answers > 50_000, "{}", answers);
    }
}
