use super::*;
use crate::Component;
use crate::testing::{api, at};
use windrow_model::findings::Location;
use windrow_plan::version::Version;

const OWN: &str = "/etc/rancher/rke2/config.yaml.d/99-zz9-windrow-gates.yaml";

fn settled(
    requests: &[GateRequest],
    version: &str,
    current: Option<&str>,
    rke2: Rke2State,
    history: &TrialHistory,
) -> Settled {
    let current = current.map(|text| (OWN, text));
    settle(
        requests,
        &at(version),
        &MergedConfig::default(),
        current,
        rke2,
        history,
    )
}

fn written(requests: &[GateRequest]) -> String {
    text(requests).unwrap()
}

#[test]
fn while_nothing_runs_what_is_asked_for_is_written() {
    let asked = [api("ImageVolume", true)];
    let result = settled(
        &asked,
        "1.34.2",
        None,
        Rke2State::Stopped,
        &TrialHistory::default(),
    );
    assert_eq!(result.content, Some(written(&asked)));
    assert!(!result.pending);
    let result = settled(
        &[],
        "1.34.2",
        Some(&written(&asked)),
        Rke2State::Stopped,
        &TrialHistory::default(),
    );
    assert_eq!(result.content, None, "what nobody asks for any more goes");
    assert!(result.dropped.is_empty());
}

#[test]
fn nothing_is_added_behind_the_back_of_a_running_server() {
    let asked = [api("ImageVolume", true)];
    let result = settled(
        &asked,
        "1.34.2",
        None,
        Rke2State::Running,
        &TrialHistory::default(),
    );
    assert_eq!(result.content, None);
    assert!(result.pending);
    let current = written(&asked);
    let result = settled(
        &asked,
        "1.34.2",
        Some(&current),
        Rke2State::Running,
        &TrialHistory::default(),
    );
    assert_eq!(result.content, Some(current));
    assert!(!result.pending);
}

#[test]
fn what_the_version_that_will_start_refuses_is_taken_out_whether_or_not_a_server_runs() {
    let asked = [
        api("ImageVolume", true),
        api("AuthorizeNodeWithSelectors", false),
    ];
    let current = written(&asked);
    for rke2 in [Rke2State::Running, Rke2State::Stopped] {
        let old = settled(
            &asked,
            "1.33.3",
            Some(&current),
            rke2,
            &TrialHistory::default(),
        );
        assert_eq!(old.content.as_deref(), Some(current.as_str()));
        let new = settled(
            &asked,
            "1.36.3",
            Some(&current),
            rke2,
            &TrialHistory::default(),
        );
        assert_eq!(new.content, Some(written(&asked[..1])), "{rke2:?}");
        assert_eq!(new.dropped.len(), 1);
        assert_eq!(new.dropped[0].request.gate, "AuthorizeNodeWithSelectors");
        assert!(!new.pending);
    }
    let gone = settled(
        &asked[1..],
        "1.36.3",
        Some(&written(&asked[1..])),
        Rke2State::Running,
        &TrialHistory::default(),
    );
    assert_eq!(gone.content, None, "an empty drop-in is no drop-in");
}

#[test]
fn what_a_trial_has_shown_counts_on_that_version_only() {
    // No catalogue knows it; a person forced it, and kube-apiserver took it.
    let asked = [api("NotInAnyCatalogue", true)];
    let current = written(&asked);
    let proven = TrialHistory {
        proven: Some(Proven {
            version: "1.36.3".to_owned(),
            gates: asked.to_vec(),
        }),
        ..TrialHistory::default()
    };
    let kept = settled(
        &asked,
        "1.36.3",
        Some(&current),
        Rke2State::Running,
        &proven,
    );
    assert_eq!(kept.content.as_deref(), Some(current.as_str()));
    let later = settled(
        &asked,
        "1.36.4",
        Some(&current),
        Rke2State::Running,
        &proven,
    );
    assert_eq!(later.content, None);

    let good = [api("ImageVolume", true)];
    let rejected = TrialHistory {
        rejected: Some(Rejected {
            version: "1.34.2".to_owned(),
            gates: good.to_vec(),
            why: "not in effect".to_owned(),
        }),
        ..TrialHistory::default()
    };
    let again = settled(&good, "1.34.2", None, Rke2State::Stopped, &rejected);
    assert_eq!(again.content, None);
    assert!(
        again.asked.left_out[0]
            .why
            .contains("rolled back (not in effect)")
    );
    let later = settled(&good, "1.35.2", None, Rke2State::Stopped, &rejected);
    assert!(later.content.is_some());
}

#[test]
fn a_drop_in_is_read_as_it_was_written() {
    let mut asked = vec![api("A", true), api("B", false)];
    asked[1].component = Component::Kubelet;
    asked[1].reason = Some("because".to_owned());
    let found = read_gates(OWN, &written(&asked), &asked[1..]);
    assert!(same(&found, &asked));
    assert_eq!(found[0].at, Location::line(OWN, 4));
    assert_eq!(found[1], asked[1], "with its reason");
    assert!(read_gates(OWN, "not: [yaml", &[]).is_empty());
}

#[test]
fn what_is_tried_is_trusted_on_its_version_until_the_trial_is_over() {
    let asked = [api("NotInAnyCatalogue", true)];
    let current = written(&asked);
    let history = TrialHistory {
        tried: Some(Proven {
            version: "1.36.3".to_owned(),
            gates: asked.to_vec(),
        }),
        ..TrialHistory::default()
    };
    let during = settled(
        &asked,
        "1.36.3",
        Some(&current),
        Rke2State::Running,
        &history,
    );
    assert_eq!(during.content.as_deref(), Some(current.as_str()));
    assert!(during.dropped.is_empty());
    let other = settled(
        &asked,
        "1.36.4",
        Some(&current),
        Rke2State::Running,
        &history,
    );
    assert_eq!(other.content, None, "an upgrade came in between");
    let after = settled(
        &asked,
        "1.36.3",
        Some(&current),
        Rke2State::Running,
        &TrialHistory::default(),
    );
    assert_eq!(after.content, None);
}

#[test]
fn what_is_tried_during_an_upgrade_is_trusted_on_each_version_that_was_asked_for() {
    let asked = [api("NotInAnyCatalogue", true)];
    let current = written(&asked);
    let after = |tried_on: &str, version: &str| {
        let history = TrialHistory {
            tried: Some(Proven {
                version: tried_on.to_owned(),
                gates: asked.to_vec(),
            }),
            ..TrialHistory::default()
        };
        let running = Rke2State::Running;
        settled(&asked, version, Some(&current), running, &history).content
    };
    // Right before the start, it is known which of them starts.
    for (tried_on, version, stays) in [
        ("1.35.2 or 1.36.3", "1.35.2", true),
        ("1.35.2 or 1.36.3", "1.36.3", true),
        ("1.35.2 or 1.36.3", "1.36.4", false),
        ("a version that is not known", "1.36.4", true),
    ] {
        let left = after(tried_on, version).is_some();
        assert_eq!(left, stays, "{tried_on}, then {version}");
    }
}

#[test]
fn what_was_rolled_back_does_not_come_back_while_the_version_is_not_certain() {
    let good = [api("ImageVolume", true)];
    let history = TrialHistory {
        rejected: Some(Rejected {
            version: "1.34.2".to_owned(),
            gates: good.to_vec(),
            why: "not in effect".to_owned(),
        }),
        ..TrialHistory::default()
    };
    let versions = ["1.34.2", "1.35.2"].map(|text| text.parse::<Version>().unwrap());
    for target in [
        TargetVersion::OneOf(versions.to_vec()),
        TargetVersion::Unknown,
    ] {
        let result = settle(
            &good,
            &target,
            &MergedConfig::default(),
            None,
            Rke2State::Stopped,
            &history,
        );
        assert_eq!(result.content, None, "{target:?}");
    }
}

#[test]
fn a_drop_in_in_which_nothing_is_refused_stays_byte_for_byte_while_the_server_runs() {
    let asked = [api("ImageVolume", true)];
    let ours = written(&asked);
    let current = format!("{ours}# looked at by ann\n");
    let running = |asked: &[GateRequest]| {
        let history = TrialHistory::default();
        settled(
            asked,
            "1.34.2",
            Some(&current),
            Rke2State::Running,
            &history,
        )
    };
    let result = running(&asked);
    assert_eq!(result.content.as_ref(), Some(&current));
    assert!(!result.pending);
    let result = running(&[]);
    assert_eq!(result.content.as_ref(), Some(&current));
    assert!(result.pending, "what is taken back goes with a boot");
}

#[test]
fn what_was_kept_without_being_seen_in_effect_is_not_proven() {
    let (seen, unseen) = (api("A", true), api("B", true));
    let good = KnownGood {
        version: "1.36.3".to_owned(),
        at: jiff::Timestamp::UNIX_EPOCH,
        content: Some(written(&[seen.clone(), unseen.clone()])),
        previous: None,
        verified: None,
    };
    let proves = |good: &KnownGood, gates: &[GateRequest]| same(&good.proven(OWN).gates, gates);
    assert!(proves(&good, &[seen.clone(), unseen.clone()]));
    let partly = good.clone().without_proof_of(&[unseen.clone()], OWN);
    assert_eq!(partly.content, good.content, "it is what is in force");
    assert!(proves(&partly, &[seen.clone()]));
    let nothing = good
        .clone()
        .without_proof_of(&[seen.clone(), unseen.clone()], OWN);
    assert!(proves(&nothing, &[]));

    // A record from before there was the field.
    let old = serde_json::to_string(&good).unwrap();
    assert!(!old.contains("verified"), "{old}");
    let old: KnownGood = serde_json::from_str(&old).unwrap();
    assert!(proves(&old, &[seen, unseen]));
}
