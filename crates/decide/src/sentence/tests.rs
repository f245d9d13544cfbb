use windrow_model::reasons::Code;
use windrow_plan::rules::RuleSet;

use super::*;
use crate::settings::Settings;
use crate::status::{ExpectationSource, Phase, PhaseExpectation, PhaseStatus};
use crate::{Ledger, StagingState};

const ALL: [Readiness; 5] = [
    Readiness::Ready,
    Readiness::Degraded,
    Readiness::SettingUp,
    Readiness::Failed,
    Readiness::Unknown,
];
const PACES: [Option<Pace>; 5] = [
    None,
    Some(Pace::Moving),
    Some(Pace::Slow),
    Some(Pace::Stalled),
    Some(Pace::Stuck),
];
const PHASES: [Phase; 10] = [
    Phase::Network,
    Phase::Rke2Installed,
    Phase::Api,
    Phase::Node,
    Phase::Rancher,
    Phase::HarvesterChart,
    Phase::Settings,
    Phase::StorageNetwork,
    Phase::Manifests,
    Phase::Ready,
];

fn at(minutes: i64) -> Timestamp {
    Timestamp::from_second(1_800_000_000 + minutes * 60).unwrap()
}

/// A probed node that came to its phase at minute 0.
fn node(readiness: Readiness, phase: Phase, pace: Option<Pace>) -> Status {
    let mut state = StagingState::new(
        Settings::default(),
        RuleSet::default(),
        None,
        Ledger::default(),
        at(0),
    );
    let mut status = state.decide(at(0)).status;
    status.readiness = readiness;
    status.phase = phase;
    status.pace = pace;
    status.since = at(0);
    status.phase_since = Some(at(0));
    status.reason.code = Code::NodeNotReady;
    status.reason.message = "127.0.0.1:6443 refuses connections, and so on for a while".to_owned();
    status.phases = vec![PhaseStatus::current(phase)];
    status.headline = published(&status, at(0)).headline;
    status
}

#[test]
fn each_line_has_65_characters_at_most_begins_with_its_word_and_has_room_for_a_reason() {
    for readiness in ALL {
        for phase in PHASES {
            for pace in PACES {
                for minutes in [0, 1, 23, 59, 61, 125, 1_439, 2_881, 525_600] {
                    let status = node(readiness, phase, pace);
                    let lines = [
                        one_line(&status, at(minutes)),
                        published(&status, at(minutes)).summary,
                    ];
                    for line in lines {
                        assert!(line.chars().count() <= LINE_CHARS, "{line}");
                        assert!(line.starts_with(word(&status)), "{line}");
                        let reason = line.split_once(": ").unwrap().1;
                        assert!(reason.chars().count() >= 10, "{line}");
                    }
                }
            }
        }
    }
}

#[test]
fn the_first_word_tells_every_readiness_from_every_other() {
    let mut lines: Vec<String> = ALL
        .into_iter()
        .map(|readiness| one_line(&node(readiness, Phase::Api, None), at(0)))
        .map(|line| line.split([':', '(']).next().unwrap().trim().to_owned())
        .collect();
    assert_eq!(
        lines,
        ["Ready", "Degraded", "Setting up", "Failed", "Unknown"]
    );
    lines.sort();
    lines.dedup();
    assert_eq!(lines.len(), ALL.len());
}

#[test]
fn a_boot_that_hangs_is_told_with_its_step_its_time_and_its_pace() {
    let hung = node(Readiness::SettingUp, Phase::Api, Some(Pace::Stalled));
    assert_eq!(
        headline(&hung, at(23)),
        "Setting up (kube-apiserver, 23 min, stalled)"
    );
    let line = published(&hung, at(23));
    assert_eq!(
        line.headline,
        "Setting up (kube-apiserver, 20+ min, stalled)"
    );
    assert_eq!(line.next, Some(at(30)));
    let moving = node(Readiness::SettingUp, Phase::Api, Some(Pace::Moving));
    assert_eq!(headline(&moving, at(0)), "Setting up (kube-apiserver)");
    let stuck = node(Readiness::Failed, Phase::Rke2Installed, Some(Pace::Stuck));
    assert_eq!(
        headline(&stuck, at(2)),
        "Failed (install RKE2, 2 min, stuck)"
    );
    // A node that was lost after it was Ready is not in the bootstrap: nothing of it stalls.
    let lost = node(Readiness::Failed, Phase::Api, Some(Pace::Stalled));
    assert_eq!(
        headline(&lost, at(63)),
        "Failed (kube-apiserver, 1 h 3 min)"
    );
}

#[test]
fn a_published_line_changes_seldom_and_says_when() {
    let waiting = node(Readiness::SettingUp, Phase::Manifests, Some(Pace::Slow));
    let mut now = at(0);
    let mut said = Vec::new();
    while now < at(3 * DAY) {
        let Published { headline, next, .. } = published(&waiting, now);
        let next = next.unwrap();
        assert!(next > now, "{now}");
        let just_before = next - SignedDuration::from_secs(1);
        assert_eq!(published(&waiting, just_before).headline, headline);
        said.push(headline);
        now = next;
    }
    assert!(said.len() < 20, "{said:?}");
    assert!(
        said.contains(&"Setting up (manifests, 1+ d, slow)".to_owned()),
        "{said:?}"
    );
    let mut settled = node(Readiness::Ready, Phase::Ready, None);
    settled.phase_since = None;
    let line = published(&settled, at(90));
    assert_eq!((line.headline.as_str(), line.next), ("Ready", None));
}

#[test]
fn a_node_that_is_not_probed_is_in_no_step() {
    let mut bare = node(Readiness::SettingUp, Phase::Staging, None);
    bare.phases.clear();
    bare.phase_since = None;
    let line = published(&bare, at(5));
    assert_eq!((line.headline.as_str(), line.next), ("Setting up", None));
    bare.readiness = Readiness::Unknown;
    bare.reason.code = Code::NotProbed;
    assert_eq!(published(&bare, at(5)).headline, "Unknown (probes off)");
}

#[test]
fn a_document_of_an_older_version_says_what_it_says() {
    let mut old = node(Readiness::SettingUp, Phase::Api, None);
    old.headline = String::new();
    old.summary = "Unknown: Windrow's daemon does not run".to_owned();
    assert_eq!(one_line(&old, at(1)), old.summary);
}

#[test]
fn how_long_it_takes_is_told_beside_what_is_usual_and_where_that_is_known_from() {
    let expected = |seconds, usual: Option<UsualTime>| {
        let mut hung = node(Readiness::SettingUp, Phase::Api, Some(Pace::Stalled));
        hung.phases[0].expected = Some(PhaseExpectation {
            seconds,
            from: match usual {
                Some(_) => ExpectationSource::EarlierBoots,
                None => ExpectationSource::Default,
            },
            usual,
        });
        hung
    };
    let usual = |boots, median| UsualTime {
        boots,
        median,
        p90: median,
    };
    let told = |status: &Status| expected_time(status).unwrap();
    assert_eq!(told(&expected(900, None)), "15 min by default");
    let known = expected(300, Some(usual(4, 190)));
    assert_eq!(told(&known), "usually 3 min (4 boots)");
    assert_eq!(
        told(&expected(90, Some(usual(1, 12)))),
        "usually 12 s (1 boot)"
    );
    assert_eq!(
        pace_note(&known).unwrap(),
        "stalled: nothing has moved for 20 minutes or more; usually 3 min (4 boots)"
    );
    let moving = node(Readiness::SettingUp, Phase::Api, Some(Pace::Moving));
    assert_eq!((pace_note(&moving), expected_time(&moving)), (None, None));
}

#[test]
fn a_boot_hangs_until_the_node_was_ready_and_not_where_a_probe_is_off() {
    let hung = node(Readiness::SettingUp, Phase::Api, Some(Pace::Stalled));
    assert_eq!(hung.hangs(), Some(Pace::Stalled));
    for pace in [None, Some(Pace::Moving), Some(Pace::Slow)] {
        assert_eq!(node(Readiness::SettingUp, Phase::Api, pace).hangs(), None);
    }
    let mut was_ready = hung.clone();
    was_ready.first_ready = Some(at(0));
    let mut off = hung.clone();
    off.reason.code = Code::ProbeOff;
    let mut bare = hung;
    bare.phases.clear();
    assert_eq!([was_ready, off, bare].map(|one| one.hangs()), [None; 3]);
}

#[test]
fn a_node_on_its_way_is_as_it_is_since_it_came_to_its_phase_and_another_since_it_has_its_word() {
    for readiness in ALL {
        let mut one = node(readiness, Phase::Api, None);
        (one.since, one.phase_since) = (at(3), Some(at(7)));
        let is_under_way = matches!(readiness, Readiness::SettingUp | Readiness::Unknown);
        assert_eq!(
            since(&one),
            if is_under_way { at(7) } else { at(3) },
            "{readiness:?}"
        );
        one.phase_since = None;
        assert_eq!(since(&one), at(3), "{readiness:?}");
    }
}

#[test]
fn the_bootstrap_began_with_its_first_phase() {
    let mut booting = node(Readiness::SettingUp, Phase::Rancher, None);
    (booting.since, booting.phase_since) = (at(9), Some(at(9)));
    let mut first = PhaseStatus::current(Phase::Network);
    first.began = Some(at(2));
    booting.phases.insert(0, first);
    assert_eq!((began(&booting), since(&booting)), (at(2), at(9)));
    booting.first_ready = Some(at(5));
    assert_eq!(began(&booting), at(9));
}

#[test]
fn a_failed_node_may_recover_unless_it_is_stuck() {
    let note = |pace| pace_note(&node(Readiness::Failed, Phase::Api, pace)).unwrap();
    assert!(note(None).contains("may recover"));
    assert!(!note(Some(Pace::Stuck)).contains("may recover"));
}
