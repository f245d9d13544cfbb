//! The node's part of a boot, and usual times.

use super::*;

#[test]
fn what_lay_there_before_makes_no_boot_with_files_and_what_came_does() {
    let with = |mut boot: Segment, place: usize, stage| {
        if let Some((_, FlightLine::Decision(one))) = boot.lines.get_mut(place) {
            one.files.insert("a.yaml".into(), stage);
        }
        boot
    };
    let earlier = [
        with(whole_boot("was applied", 0, 60), 0, RecordedStage::Applied),
        with(whole_boot("came", 10_000, 600), 2, RecordedStage::Released),
    ];
    let usual = |now: Segment| {
        let segments = earlier.iter().cloned().chain([now]).collect();
        let usual = last(&flights(segments)).usual.unwrap();
        (usual.boots, usual.median_seconds)
    };
    assert_eq!(usual(whole_boot("now", 20_000, 70)), (1, 60.0));
    let came = with(whole_boot("now", 20_000, 70), 2, RecordedStage::Released);
    assert_eq!(usual(came), (1, 600.0));
}

#[test]
fn the_usual_time_of_two_boots_lies_between_them_and_a_boot_cut_off_does_not_count() {
    let mut cut = whole_boot("cut", 20_000, 900);
    if let Some((_, FlightLine::Decision(first))) = cut.lines.first_mut() {
        **first = with_api(setting_up(20_000, Phase::Network), 19_000, None);
    }
    let all = vec![
        whole_boot("a", 0, 60),
        whole_boot("b", 10_000, 100),
        cut,
        whole_boot("now", 30_000, 70),
    ];
    let timeline = last(&flights(all));
    let usual = timeline.usual.unwrap();
    assert_eq!((usual.boots, usual.median_seconds), (2, 80.0));
}

#[test]
fn a_phase_that_a_boot_came_to_twice_took_both_times() {
    let earlier = segment(
        Some("a"),
        0,
        vec![
            with_api(setting_up(0, Phase::Network), 0, None),
            setting_up(10, Phase::Api),
            setting_up(30, Phase::Network),
            decision(35, Readiness::Ready, Phase::Ready, Code::NodeReady),
        ],
    );
    let timeline = last(&flights(vec![earlier, whole_boot("now", 1000, 60)]));
    let network = &timeline.phases[0];
    assert_eq!(network.name, Phase::Network);
    assert_eq!(network.usual.unwrap().median_seconds, 15.0);
}

#[test]
fn a_restart_of_windrow_is_said_and_takes_no_time_from_the_boot() {
    let answered = |at, phase, started, api| with_api(setting_up(at, phase), started, Some(api));
    let flights = flights(vec![
        segment(Some("a"), 0, vec![answered(10, Phase::Api, 0, 10)]),
        segment(
            Some("a"),
            60,
            vec![
                answered(60, Phase::Node, 60, 61),
                decision(90, Readiness::Ready, Phase::Ready, Code::NodeReady),
            ],
        ),
    ]);
    let timeline = last(&flights);
    assert_eq!(timeline.end.at, 90.0);
    let [restarted, otherwise] = &timeline.cautions[..] else {
        panic!("{:?}", timeline.cautions);
    };
    assert!(restarted.starts_with("Windrow began again at 01:00"));
    // The decisions in this test are handmade.
    assert!(otherwise.starts_with("this version makes 3 decisions differently"));
    // kube-apiserver answered the first process; the second process had to ask again.
    assert_eq!(
        BootCourse::read(&boots(&flights)[0]).unwrap().api,
        Some(10.0)
    );
}

#[test]
fn what_the_node_waits_for_is_a_step_for_each_reason_with_its_last_words() {
    let with = |at, code, message: &str| {
        let mut one = decision(at, Readiness::SettingUp, Phase::Api, code);
        one.reason.message = message.to_owned();
        one
    };
    let boot = segment(
        Some("a"),
        0,
        vec![
            with_api(with(0, Code::RkeServiceDown, "down"), 0, None),
            with(20, Code::ApiUnreachable, "refuses connections"),
            with(30, Code::ApiUnreachable, "answers 500"),
            decision(50, Readiness::Ready, Phase::Ready, Code::NodeReady),
        ],
    );
    let timeline = last(&flights(vec![boot]));
    let steps: Vec<_> = timeline
        .chain
        .iter()
        .map(|step| (step.from, step.text.as_str()))
        .collect();
    assert_eq!(steps, [(0.0, "down"), (20.0, "answers 500")]);
}

#[test]
fn a_file_that_is_gone_is_not_listed_and_one_that_was_held_before_is() {
    let mut first = with_api(setting_up(0, Phase::Manifests), 0, Some(0));
    for path in ["gone.yaml", "held.yaml"] {
        first = with_file(first, path, HELD);
    }
    let entry = LedgerEntry {
        digest: "d".into(),
        first_seen: after(-500),
        since: after(-400),
        state: FileStage::Held {
            code: Code::WaitsForKind,
            why: "a kind".into(),
        },
        reported: Default::default(),
        manual: None,
    };
    first.ledger = Some(Ledger {
        files: BTreeMap::from([("held.yaml".into(), std::sync::Arc::new(entry))]),
        ..Ledger::default()
    });
    let mut later = setting_up(40, Phase::Manifests);
    later.forgotten = vec!["gone.yaml".into()];
    let timeline = last(&flights(vec![segment(Some("a"), 0, vec![first, later])]));
    let files: Vec<_> = timeline
        .files
        .iter()
        .map(|file| file.file.as_str())
        .collect();
    assert_eq!(files, ["held.yaml"]);
}
