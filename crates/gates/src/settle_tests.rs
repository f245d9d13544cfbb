use super::*;
use crate::catalogue::Catalogue;
use crate::dependencies::broken;
use crate::testing::{api, at, request};
use crate::verdicts::FailedDropIn;
use crate::{Component, drop_in};
use std::collections::BTreeMap;
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
    let inputs = SettleInputs {
        requests,
        target: &at(version),
        files: &[],
        own: OWN,
        current,
        rke2,
        unread: None,
    };
    settle(&inputs, history)
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
    assert_eq!(result.content, None, "a gate without a request is removed");
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
    assert_eq!(gone.content, None, "an empty drop-in does not count");
}

#[test]
fn what_a_trial_has_shown_counts_on_that_version_only() {
    // The catalogue does not have it; a user forced it, and kube-apiserver accepted it.
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
            gates: vec![(good[0].clone(), "not in effect".to_owned())],
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
    // Directly before the start, the version is known.
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
            gates: vec![(good[0].clone(), "not in effect".to_owned())],
        }),
        ..TrialHistory::default()
    };
    let versions = ["1.34.2", "1.35.2"].map(|text| text.parse::<Version>().unwrap());
    for target in [
        TargetVersion::OneOf(versions.to_vec()),
        TargetVersion::Unknown,
    ] {
        let inputs = SettleInputs {
            requests: &good,
            target: &target,
            files: &[],
            own: OWN,
            current: None,
            rke2: Rke2State::Stopped,
            unread: None,
        };
        let result = settle(&inputs, &history);
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
    assert!(
        result.pending,
        "a gate that was taken back is removed at a boot"
    );
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
    let partly = good
        .clone()
        .without_proof_of(std::slice::from_ref(&unseen), OWN);
    assert_eq!(partly.content, good.content, "this content is in force");
    assert!(proves(&partly, std::slice::from_ref(&seen)));
    let nothing = good
        .clone()
        .without_proof_of(&[seen.clone(), unseen.clone()], OWN);
    assert!(proves(&nothing, &[]));

    // A record from before the field existed.
    let old = serde_json::to_string(&good).unwrap();
    assert!(!old.contains("verified"), "{old}");
    let old: KnownGood = serde_json::from_str(&old).unwrap();
    assert!(proves(&old, &[seen, unseen]));
}

const BOTH: [Rke2State; 2] = [Rke2State::Stopped, Rke2State::Running];

#[test]
fn a_configuration_that_was_not_read_completely_removes_and_adds_nothing() {
    let current = written(&[api("ImageVolume", true)]);
    let requests = [api("APIResponseCompression", false)];
    for (rke2, requests) in BOTH
        .into_iter()
        .flat_map(|rke2| [(rke2, &[][..]), (rke2, &requests)])
    {
        let inputs = SettleInputs {
            requests,
            target: &at("1.34.2"),
            files: &[],
            own: OWN,
            current: Some(&current),
            rke2,
            unread: Some("the configuration has errors"),
        };
        let result = settle(&inputs, &TrialHistory::default());
        assert_eq!(result.content.as_ref(), Some(&current));
        assert!(!result.pending && result.removed.is_empty());
        assert!(
            result
                .difference()
                .contains("still set: ImageVolume=true (kube-apiserver)")
        );
        assert!(matches!(result.withheld, Some(Withheld::Unread(_))));
        // An upgrade does not stop because of it.
        let locked = written(&[
            api("ImageVolume", true),
            api("AuthorizeNodeWithSelectors", false),
        ]);
        let inputs = SettleInputs {
            current: Some(&locked),
            ..inputs
        };
        let result = settle(&inputs, &TrialHistory::default());
        assert_eq!(result.content.as_ref(), Some(&current));
        assert_eq!(result.dropped.len(), 1);
    }
}

#[test]
fn a_boot_names_each_gate_that_it_removes() {
    let there = [
        api("ImageVolume", true),
        api("APIResponseCompression", false),
    ];
    let asked = [api("ImageVolume", true)];
    let history = TrialHistory::default();
    let result = settled(
        &asked,
        "1.34.2",
        Some(&written(&there)),
        Rke2State::Stopped,
        &history,
    );
    assert_eq!(
        result.removed,
        [there[1].clone()].map(|gate| GateRequest {
            at: Location::line(OWN, 4),
            ..gate
        })
    );
    assert!(result.dropped.is_empty());
    let running = settled(
        &asked,
        "1.34.2",
        Some(&written(&there)),
        Rke2State::Running,
        &history,
    );
    assert!(running.removed.is_empty() && running.pending);
}

#[test]
fn as_long_as_a_name_is_not_known_no_other_gate_is_removed() {
    let there = [
        api("ImageVolume", true),
        api("APIResponseCompression", false),
    ];
    let current = written(&there);
    let history = TrialHistory::default();
    // A typing error in the name.
    let asked = [
        api("ImageVolum", true),
        api("APIResponseCompression", false),
    ];
    let result = settled(
        &asked,
        "1.34.2",
        Some(&current),
        Rke2State::Stopped,
        &history,
    );
    assert!(same(&result.kept, &there));
    let why = result.withheld.as_ref().unwrap().to_string();
    assert!(why.starts_with("`ImageVolum=true` cannot"), "{why}");
    assert!(
        result
            .difference()
            .starts_with("still set: ImageVolume=true")
    );
    // The valid request is still written.
    let asked = [api("ImageVolum", true), api("APIResponseCompression", true)];
    let result = settled(
        &asked,
        "1.34.2",
        Some(&current),
        Rke2State::Stopped,
        &history,
    );
    assert!(same(
        &result.kept,
        &[
            api("ImageVolume", true),
            api("APIResponseCompression", true)
        ]
    ));
    // A gate that is not meant for this version is not an error.
    let mut asked = [api("ImageVolume", true)];
    asked[0].when = Some("<1.34".parse().unwrap());
    let result = settled(
        &asked,
        "1.34.2",
        Some(&current),
        Rke2State::Stopped,
        &history,
    );
    assert_eq!(result.content, None);
}

#[test]
fn a_replacement_that_was_rolled_back_does_not_remove_what_it_was_to_replace() {
    let current = written(&[api("ImageVolume", false)]);
    let asked = [api("ImageVolume", true)];
    let history = TrialHistory {
        rejected: Some(Rejected {
            version: "1.34.2".to_owned(),
            gates: vec![(asked[0].clone(), "not in effect".to_owned())],
        }),
        ..TrialHistory::default()
    };
    for rke2 in BOTH {
        let result = settled(&asked, "1.34.2", Some(&current), rke2, &history);
        assert_eq!(result.content.as_ref(), Some(&current));
        assert!(!result.pending && result.removed.is_empty());
        assert!(matches!(result.withheld, Some(Withheld::Incomplete { .. })));
    }
}

#[test]
fn a_known_gate_that_cannot_be_written_keeps_no_other_gate_from_being_removed() {
    let current = written(&[api("APIResponseCompression", false)]);
    // Locked since 1.34.
    let locked = [api("AuthorizeNodeWithSelectors", false)];
    let rolled_back = [api("ImageVolume", true)];
    let history = TrialHistory {
        rejected: Some(Rejected {
            version: "1.34.2".to_owned(),
            gates: vec![(rolled_back[0].clone(), "not in effect".to_owned())],
        }),
        ..TrialHistory::default()
    };
    for asked in [locked, rolled_back] {
        let settled = |rke2| settled(&asked, "1.34.2", Some(&current), rke2, &history);
        let result = settled(Rke2State::Stopped);
        assert_eq!((result.content, result.withheld), (None, None));
        assert_eq!(result.removed.len(), 1);
        assert!(settled(Rke2State::Running).pending);
    }
}

#[test]
fn a_drop_in_that_failed_is_neither_tried_nor_written_until_the_version_or_the_request_changes() {
    let current = written(&[api("ImageVolume", true)]);
    let mut history = TrialHistory::default();
    history.failed.add(FailedDropIn {
        version: "1.34.2".to_owned(),
        content: None,
        why: "kube-apiserver was not ready".to_owned(),
    });
    for rke2 in BOTH {
        let result = settled(&[], "1.34.2", Some(&current), rke2, &history);
        assert_eq!(result.content.as_ref(), Some(&current), "{rke2:?}");
        assert!(!result.pending && result.removed.is_empty());
        assert!(matches!(result.withheld, Some(Withheld::Failed { .. })));
        let other = settled(&[], "1.35.6", Some(&current), rke2, &history);
        assert_eq!(other.withheld, None);
        assert_eq!(other.pending, rke2 == Rke2State::Running);
        let asked = [api("APIResponseCompression", false)];
        let other = settled(&asked, "1.34.2", Some(&current), rke2, &history);
        assert_eq!(other.withheld, None);
    }
}

#[test]
fn what_an_operator_took_back_stays_back_whenever_it_is_asked_for() {
    let asked = [api("ImageVolume", false)];
    let history = TrialHistory {
        taken_back: Some(TakenBack {
            by: "ann".to_owned(),
            at: jiff::Timestamp::UNIX_EPOCH,
            request: Some(request_text(&asked)),
            version: "1.34.2".to_owned(),
            content: Some(written(&asked)),
        }),
        ..TrialHistory::default()
    };
    let current = written(&[api("ImageVolume", true)]);
    for rke2 in BOTH {
        for (version, current) in [("1.34.2", Some(current.as_str())), ("1.35.6", None)] {
            let result = settled(&asked, version, current, rke2, &history);
            assert_eq!(result.content.as_deref(), current, "{rke2:?}");
            assert!(!result.pending && result.taken_back == history.taken_back);
            let by = "ann".to_owned();
            assert_eq!(result.withheld, Some(Withheld::TakenBack { by }));
            assert!(result.difference().contains("not set: ImageVolume=false"));
        }
        let result = settled(&[], "1.34.2", Some(&current), rke2, &history);
        assert!(result.withheld.is_none());
        // A boot without the file does not end it.
        assert_eq!(result.taken_back, history.taken_back);
    }
}

#[test]
fn what_was_taken_back_while_the_configuration_had_errors_is_what_it_asks_for_without_them() {
    let asked = [api("ImageVolume", true)];
    let history = TrialHistory {
        taken_back: Some(TakenBack {
            by: "ann".to_owned(),
            at: jiff::Timestamp::UNIX_EPOCH,
            request: None,
            version: "1.34.2".to_owned(),
            content: None,
        }),
        ..TrialHistory::default()
    };
    let result = settled(&asked, "1.34.2", None, Rke2State::Stopped, &history);
    assert_eq!(result.content, None);
    assert_eq!(
        result.taken_back.unwrap().request,
        Some(request_text(&asked))
    );
}

#[test]
fn no_gate_is_removed_without_which_the_check_says_that_a_component_stops() {
    let catalogue = Catalogue::builtin();
    let mut tried = 0;
    for (version, component) in ["1.34.2", "1.35.6", "1.36.3"]
        .into_iter()
        .flat_map(|version| Component::ALL.map(|component| (version, component)))
        .filter(|(_, component)| component.setting().is_some())
    {
        let number: Version = version.parse().unwrap();
        for gate in catalogue.gates() {
            let off = [request(component, gate.name(), false)];
            let mut others: BTreeMap<&str, bool> = gate
                .needs(component, number.minor)
                .map(|need| (need, false))
                .collect();
            if others.is_empty() || drop_in(&off, &at(version), &merge(&[])).content.is_none() {
                continue;
            }
            // All other dependants are off as well: only Windrow's gate makes the difference.
            let is_the_cause = loop {
                let found = broken(catalogue, component, number, &others);
                match found.iter().find(|it| it.gate != gate.name()) {
                    Some(other) => drop(others.insert(other.gate, false)),
                    None => break !found.is_empty(),
                }
            };
            if !is_the_cause {
                continue;
            }
            tried += 1;
            let pairs: Vec<String> = others.keys().map(|name| format!("{name}=false")).collect();
            let site = format!(
                "{}:\n- feature-gates={}\n",
                component.argument(),
                pairs.join(",")
            );
            let files = [Rke2ConfigFile::new(
                ConfigLayer::DropIn,
                "50-site.yaml",
                site,
            )];
            let current = written(&off);
            for rke2 in BOTH {
                let inputs = SettleInputs {
                    requests: &[],
                    target: &at(version),
                    files: &files,
                    own: OWN,
                    current: Some(&current),
                    rke2,
                    unread: None,
                };
                let result = settle(&inputs, &TrialHistory::default());
                assert_eq!(
                    result.content.as_ref(),
                    Some(&current),
                    "{} {version}",
                    gate.name()
                );
                assert!(!result.pending);
                assert!(matches!(result.withheld, Some(Withheld::Fatal(_))));
                // Without the other file, nothing depends on it.
                let result = settle(
                    &SettleInputs {
                        files: &[],
                        ..inputs
                    },
                    &TrialHistory::default(),
                );
                assert_eq!(result.withheld, None);
            }
        }
    }
    assert!(tried > 10, "{tried}");
}
