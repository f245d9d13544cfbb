//! The scheduler: the probes that run, and the handling of one that hangs.

use std::sync::Arc;
use std::time::Duration;

use tokio::time::Instant;
use windrow_model::findings::Location;
use windrow_plan::readiness::node::{ProbeSeverity, ProbeTuning};
use windrow_plan::rke2::KubeletHealth;
use windrow_plan::rules::Platform;

use super::*;
use crate::observe::probes::ask::{ProbedNode, Prober};
use crate::observe::probes::schedule::{
    Agenda, AskedProbe, Beat, ProbePace, probe, repeat_question,
};
use crate::testing::replies::{ServerReply, TestServer};

const PATIENCE: Duration = Duration::from_secs(600);

async fn next(events: &mut mpsc::Receiver<ClusterEvent>) -> NodeEvent {
    let event = tokio::time::timeout(PATIENCE, events.recv()).await;
    match event.unwrap().unwrap() {
        ClusterEvent::Node(event) => event,
        other => panic!("{other:?}"),
    }
}

fn wants(platform: Platform) -> Interests {
    Interests {
        probes: Some(ProbeInterest {
            platform: Some(platform),
            installed: true,
            ..ProbeInterest::default()
        }),
        ..Interests::default()
    }
}

#[tokio::test]
async fn probing_begins_with_the_role_and_ends_when_it_is_switched_off() {
    let place = TestNode::new();
    place.write("/var/lib/rancher/rke2/server/tls/server-ca.crt", "");
    place.write("/proc/sys/kernel/random/boot_id", "boot-7\n");
    let (interests, wanted) = watch::channel(wants(Platform::Harvester));
    let (events, mut told) = mpsc::channel(64);
    let task = tokio::spawn(probe(Arc::new(place.context()), wanted, events));
    match next(&mut told).await {
        NodeEvent::Probing { role, boot, specs } => {
            assert_eq!((role, boot.as_str()), (NodeRole::FirstServer, "boot-7"));
            assert!(specs.iter().any(|spec| spec.id.as_str() == "apiserver"));
            assert!(
                specs.iter().all(|spec| !spec.day_zero),
                "it was installed before"
            );
        }
        other => panic!("{other:?}"),
    }
    let mut answered = std::collections::BTreeSet::new();
    while answered.len() < 10 {
        if let NodeEvent::Probed(id, _) = next(&mut told).await {
            answered.insert(id);
        }
    }
    interests.send(Interests::default()).unwrap();
    while next(&mut told).await != NodeEvent::NotProbing {}
    drop(told);
    task.await.unwrap();
}

#[tokio::test]
async fn a_kubelet_whose_health_endpoint_is_switched_off_is_not_asked_and_its_line_is_named() {
    let place = TestNode::new();
    place.write("/var/lib/rancher/rke2/server/tls/server-ca.crt", "");
    place.write(
        "/etc/rancher/rke2/config.yaml",
        "write-kubeconfig-mode: '600'\nkubelet-arg:\n- healthz-port=0\n",
    );
    let (_interests, wanted) = watch::channel(wants(Platform::Rke2));
    let (events, mut told) = mpsc::channel(64);
    let task = tokio::spawn(probe(Arc::new(place.context()), wanted, events));
    let specs = match next(&mut told).await {
        NodeEvent::Probing { specs, .. } => specs,
        other => panic!("{other:?}"),
    };
    let kubelet = specs.iter().find(|spec| spec.id.as_str() == "kubelet");
    let kubelet = kubelet.unwrap();
    assert_eq!(kubelet.severity, ProbeSeverity::Wanted);
    let at = kubelet.off.as_ref().unwrap().to_string();
    assert!(at.ends_with("config.yaml:3"), "{at}");
    drop(told);
    task.await.unwrap();
}

#[tokio::test]
async fn a_server_that_joined_its_cluster_once_stays_a_joined_server() {
    let place = TestNode::new();
    place.write("/var/lib/rancher/rke2/server/tls/server-ca.crt", "");
    let mut joined = wants(Platform::Harvester);
    joined.probes.as_mut().unwrap().joined = true;
    let (_interests, wanted) = watch::channel(joined);
    let (events, mut told) = mpsc::channel(64);
    let task = tokio::spawn(probe(Arc::new(place.context()), wanted, events));
    match next(&mut told).await {
        NodeEvent::Probing { role, .. } => assert_eq!(role, NodeRole::JoinedServer),
        other => panic!("{other:?}"),
    }
    drop(told);
    task.await.unwrap();
}

#[tokio::test]
async fn rke2s_data_directory_and_probes_of_the_configuration_may_change_while_the_node_is_probed()
{
    let place = TestNode::new();
    place.write("/data/rke2/server/tls/server-ca.crt", "");
    let (interests, wanted) = watch::channel(wants(Platform::Rke2));
    let (events, mut told) = mpsc::channel(64);
    let context = Arc::new(place.context());
    let task = tokio::spawn(probe(context.clone(), wanted, events));
    let first = next(&mut told).await;
    assert!(
        matches!(
            first,
            NodeEvent::Probing {
                role: NodeRole::Unknown,
                ..
            }
        ),
        "{first:?}"
    );
    let mut changed = wants(Platform::Rke2);
    if let Some(probes) = &mut changed.probes {
        probes.data_dir = "/data/rke2".to_owned();
        let question = windrow_plan::readiness::node::CustomQuestion::File(
            windrow_plan::readiness::node::FileQuestion {
                path: "/nowhere".to_owned(),
                exists: true,
                contains: None,
                newer_than: None,
            },
        );
        probes.custom = Arc::new([super::custom::probe(question)]);
    }
    interests.send(changed).unwrap();
    loop {
        if let NodeEvent::Probing { role, specs, .. } = next(&mut told).await {
            assert_eq!(role, NodeRole::FirstServer);
            assert!(specs.iter().any(|spec| spec.id.as_str() == "user/mine"));
            break;
        }
    }
    assert!(
        context
            .layout()
            .manifests()
            .ends_with("data/rke2/server/manifests")
    );
    loop {
        if let NodeEvent::Probed(id, outcome) = next(&mut told).await
            && id.as_str() == "user/mine"
        {
            assert_eq!(failed(&outcome), "there is no /nowhere");
            break;
        }
    }
    drop(told);
    task.await.unwrap();
}

#[tokio::test]
async fn a_probe_that_hangs_is_unknown_and_keeps_no_other_waiting() {
    let mut place = TestNode::new();
    let silent = TestServer::http(|_| ServerReply::Nothing).await;
    place.admin(&silent);
    let healthy = TestServer::http(|_| ServerReply::ok("ok")).await;
    place.endpoints.kubelet.clone_from(&healthy.url);
    let prober = Arc::new(Prober::new(Arc::new(place.context())));
    let probed = ProbedNode {
        interest: ProbeInterest {
            platform: Some(Platform::Rke2),
            installed: false,
            ..ProbeInterest::default()
        },
        role: NodeRole::FirstServer,
        name: "n1".to_owned(),
        kubelet: KubeletHealth::default(),
    };
    let (events, mut told) = mpsc::channel(64);
    let ask = |name: &str, timeout: Duration| {
        let specs = specs(NodeRole::FirstServer, Some(Platform::Rke2));
        let mut spec = specs
            .into_iter()
            .find(|spec| spec.id.as_str() == name)
            .unwrap();
        spec.period = Duration::from_millis(5);
        spec.timeout = timeout;
        let pace = ProbePace::for_spec(&spec, Beat::new());
        let asked = (name.to_owned(), vec![AskedProbe::new(spec, pace)]);
        let (prober, probed) = (prober.clone(), probed.clone());
        let repeated = repeat_question(prober, probed, asked, Agenda::default(), events.clone());
        tokio::spawn(repeated)
    };
    // This one outlasts the test: every answer comes from the other.
    let hangs = ask("node", PATIENCE * 60);
    let goes_on = ask("kubelet", PATIENCE);
    for _ in 0..3 {
        match next(&mut told).await {
            NodeEvent::Probed(id, outcome) => {
                assert_eq!((id.as_str(), outcome), ("kubelet", ProbeOutcome::Passed));
            }
            other => panic!("{other:?}"),
        }
    }
    hangs.abort();
    goes_on.abort();
    ask("node", Duration::from_millis(50));
    loop {
        if let NodeEvent::Probed(id, outcome) = next(&mut told).await
            && id.as_str() == "node"
        {
            assert!(unknown(&outcome).contains("no answer within"));
            break;
        }
    }
}

/// On the daemon's only thread.
#[tokio::test]
async fn a_look_at_the_machine_that_hangs_keeps_nothing_else_waiting() {
    let mut place = TestNode::new();
    place.write("/proc/loadavg", "0.1 0.1 0.1 1/1 1\n");
    place.write("/proc/stat", "cpu0 1\n");
    let healthy = TestServer::http(|_| ServerReply::ok("ok")).await;
    place.endpoints.kubelet.clone_from(&healthy.url);
    let prober = Arc::new(Prober::new(Arc::new(place.context())));
    let probed = ProbedNode {
        interest: ProbeInterest {
            platform: Some(Platform::Rke2),
            ..ProbeInterest::default()
        },
        role: NodeRole::FirstServer,
        name: "n1".to_owned(),
        kubelet: KubeletHealth::default(),
    };
    let (end, ended) = std::sync::mpsc::channel();
    let hangs = {
        let prober = prober.clone();
        let look = move || {
            ended.recv().unwrap();
            ProbeOutcome::Passed
        };
        tokio::spawn(async move { prober.look_as("load", look).await })
    };
    while !prober.is_looking("load") {
        tokio::task::yield_now().await;
    }
    let outcome = |answer: crate::observe::probes::answer::ProbeAnswer, probe: &str| {
        answer.outcome_of(probe, probe)
    };
    let kubelet = prober.ask(&probed, "kubelet").await;
    assert_eq!(outcome(kubelet, "kubelet"), ProbeOutcome::Passed);
    let again = outcome(prober.ask(&probed, "load").await, "load");
    assert!(unknown(&again).contains("has no answer yet"), "{again:?}");
    // The look ends, and the next one is made.
    end.send(()).unwrap();
    assert_eq!(hangs.await.unwrap(), ProbeOutcome::Passed);
    assert!(!prober.is_looking("load"));
    let next = outcome(prober.ask(&probed, "load").await, "load");
    assert_eq!(next, ProbeOutcome::Passed);
}

#[tokio::test]
async fn a_question_answers_each_of_its_probes_as_often_as_its_own_period_says() {
    let place = TestNode::new();
    let node = r#"{"metadata": {"labels": {"kubevirt.io/schedulable": "true"}}, "status": {}}"#;
    let server = TestServer::http(move |_| ServerReply::ok(node)).await;
    place.admin(&server);
    let probed = ProbedNode {
        interest: ProbeInterest {
            platform: Some(Platform::Harvester),
            ..ProbeInterest::default()
        },
        role: NodeRole::FirstServer,
        name: "n1".to_owned(),
        kubelet: KubeletHealth::default(),
    };
    let specs = specs(probed.role, probed.interest.platform);
    let periods = [
        ("node", Duration::from_millis(5)),
        ("virt-handler", PATIENCE),
    ];
    let probes = periods.map(|(name, period)| {
        let mut spec = specs
            .iter()
            .find(|spec| spec.id.as_str() == name)
            .unwrap()
            .clone();
        spec.period = period;
        let pace = ProbePace::for_spec(&spec, Beat::new());
        AskedProbe::new(spec, pace)
    });
    let (events, mut told) = mpsc::channel(64);
    let prober = Arc::new(Prober::new(Arc::new(place.context())));
    let asked = ("node".to_owned(), Vec::from(probes));
    tokio::spawn(repeat_question(
        prober,
        probed,
        asked,
        Agenda::default(),
        events,
    ));
    let mut answers = Vec::new();
    while answers.iter().filter(|(name, _)| name == "node").count() < 4 {
        if let NodeEvent::Probed(id, outcome) = next(&mut told).await {
            answers.push((id.to_string(), outcome));
        }
    }
    let (of_node, of_handler): (Vec<_>, Vec<_>) =
        answers.into_iter().partition(|(name, _)| name == "node");
    let not_ready = "its kubelet has not reported yet";
    assert!(
        of_node
            .iter()
            .all(|(_, outcome)| failed(outcome) == not_ready)
    );
    assert_eq!(
        of_handler,
        [("virt-handler".to_owned(), ProbeOutcome::Passed)]
    );
    let heads = server.asked();
    assert!(
        heads.iter().all(|head| head.contains("/nodes/n1 ")),
        "{heads:?}"
    );
}

#[tokio::test]
async fn a_question_whose_own_probe_is_off_is_asked_for_the_others() {
    let place = TestNode::new();
    place.write("/var/lib/rancher/rke2/server/tls/server-ca.crt", "");
    let node = r#"{"metadata": {"labels": {"kubevirt.io/schedulable": "true"}}, "status": {"conditions": [
        {"type": "EtcdIsVoter", "status": "True"}, {"type": "DiskPressure", "status": "True"}]}}"#;
    let server = TestServer::http(move |_| ServerReply::ok(node)).await;
    place.admin(&server);
    let mut wanted = wants(Platform::Harvester);
    if let Some(probes) = &mut wanted.probes {
        probes.tunings = Arc::new([ProbeTuning {
            name: "node".to_owned(),
            off: Some(Location::file("windrow.yaml")),
            period: None,
            fall: None,
            only_wanted: false,
            limit: None,
        }]);
    }
    let (_interests, wanted) = watch::channel(wanted);
    let (events, mut told) = mpsc::channel(64);
    let task = tokio::spawn(probe(Arc::new(place.context()), wanted, events));
    let expected = [
        ("etcd-member", ProbeOutcome::Passed),
        ("node-conditions", ProbeOutcome::failed("DiskPressure")),
        ("virt-handler", ProbeOutcome::Passed),
    ];
    let mut answered = 0;
    while answered < expected.len() {
        if let NodeEvent::Probed(id, outcome) = next(&mut told).await {
            assert_ne!(id.as_str(), "node");
            if let Some((_, expected)) = expected.iter().find(|(name, _)| *name == id.as_str()) {
                assert_eq!(outcome, *expected, "{id}");
                answered += 1;
            }
        }
    }
    drop(told);
    task.await.unwrap();
}

#[tokio::test]
async fn questions_that_begin_again_add_no_answer_and_those_of_day_0_end_once_it_is_installed() {
    let place = TestNode::new();
    place.write("/var/lib/rancher/rke2/server/tls/server-ca.crt", "");
    let mut wanted = wants(Platform::Harvester);
    let probes = wanted.probes.as_mut().unwrap();
    probes.installed = false;
    let before = wanted.clone();
    let (interests, wanted) = watch::channel(wanted);
    let (events, mut told) = mpsc::channel(64);
    let task = tokio::spawn(probe(Arc::new(place.context()), wanted, events));
    let mut answers = std::collections::BTreeMap::<String, usize>::new();
    let mut take =
        async |answers: &mut std::collections::BTreeMap<String, usize>| match next(&mut told).await
        {
            NodeEvent::Probed(id, _) => {
                *answers.entry(id.to_string()).or_default() += 1;
                None
            }
            NodeEvent::Probing { specs, .. } => Some(specs),
            _ => None,
        };
    while !["nic-carrier", "rancherd", "certificates"]
        .iter()
        .all(|probe| answers.contains_key(*probe))
    {
        take(&mut answers).await;
    }
    // A reload, and the first Ready.
    let mut changed = before.clone();
    changed.probes.as_mut().unwrap().custom = Arc::new([super::custom::probe(
        windrow_plan::readiness::node::CustomQuestion::File(
            windrow_plan::readiness::node::FileQuestion {
                path: "/nowhere".to_owned(),
                exists: true,
                contains: None,
                newer_than: None,
            },
        ),
    )]);
    let reloaded = changed.clone();
    changed.probes.as_mut().unwrap().installed = true;
    for interest in [reloaded, changed] {
        interests.send(interest).unwrap();
        while take(&mut answers).await.is_none() {}
    }
    // The question before the change was answered before the first question of this one.
    while !answers.contains_key("user/mine") {
        take(&mut answers).await;
    }
    assert_eq!(answers["certificates"], 1, "{answers:?}");
    drop(told);
    task.await.unwrap();
}

#[test]
fn probes_that_are_due_within_a_few_seconds_are_asked_together() {
    let beat = Beat::new();
    let (ms, seconds) = (Duration::from_millis, Duration::from_secs);
    let start = beat.nearest(Instant::now(), seconds(60));
    for pause in [10, 20, 30, 40, 3600].map(seconds) {
        for answered in [0, 40, 2_400].map(ms) {
            let due = beat.nearest(start + answered, pause);
            assert_eq!(due, start + pause, "{answered:?} after the beat");
        }
    }
    let short = beat.nearest(start + ms(40), seconds(2));
    assert_eq!(short, start + ms(2_040));
}

#[test]
fn what_goes_on_passing_is_asked_ever_less_often_down_to_its_rest() {
    let specs = specs(NodeRole::FirstServer, Some(Platform::Harvester));
    let pauses = |name: &str| -> Vec<u64> {
        let spec = specs.iter().find(|spec| spec.id.as_str() == name).unwrap();
        let mut pace = ProbePace::for_spec(spec, Beat::new());
        let mut pauses: Vec<u64> = (0..4)
            .map(|_| (pace.period + pace.extra_pause()).as_secs())
            .collect();
        pace.hurry();
        pauses.push((pace.period + pace.extra_pause()).as_secs());
        pauses
    };
    assert_eq!(pauses("apiserver"), [10, 20, 40, 40, 10]);
    assert_eq!(pauses("rke2-installed"), [10, 20, 20, 20, 10]);
    assert_eq!(pauses("harvester"), [30, 60, 60, 60, 30]);
    assert_eq!(pauses("certificates"), [3600; 5]);
}

#[test]
fn after_unrest_an_hourly_probe_of_which_one_answer_counts_is_asked_within_seconds() {
    let specs = specs(NodeRole::FirstServer, Some(Platform::Harvester));
    let seconds = Duration::from_secs;
    for (name, longest) in [
        ("certificates", seconds(10)),
        ("hardware", seconds(10)),
        ("clock", seconds(63)),
    ] {
        let spec = specs.iter().find(|spec| spec.id.as_str() == name).unwrap();
        let pace = ProbePace::for_spec(spec, Beat::new());
        let mut asked = AskedProbe::new(spec.clone(), pace);
        assert!(!asked.answered(ProbeOutcome::Passed), "its first answer");
        let least = Instant::now() + spec.period / 2;
        assert!(asked.due() >= least, "{name} is at rest");
        asked.hurry();
        assert!(asked.due() <= Instant::now() + longest, "{name}");
        assert!(
            asked.answered(ProbeOutcome::failed("no")),
            "it stops passing"
        );
        assert!(asked.answered(ProbeOutcome::Passed), "it passes again");
    }
}

#[tokio::test]
async fn a_probe_that_rests_is_asked_at_once_when_another_one_stops_passing() {
    let place = TestNode::new();
    let route = "Iface Destination Gateway Flags RefCnt Use Metric Mask MTU Window IRTT\n\
                 eth0 00000000 0102030A 0003 0 0 0 00000000 0 0 0\n";
    place.write("/proc/net/route", route);
    place.write("/sys/class/net/eth0/device/x", "");
    place.write("/sys/class/net/eth0/carrier", "1\n");
    let prober = Arc::new(Prober::new(Arc::new(place.context())));
    let probed = ProbedNode {
        interest: ProbeInterest::default(),
        role: NodeRole::FirstServer,
        name: "n1".to_owned(),
        kubelet: KubeletHealth::default(),
    };
    let (events, mut told) = mpsc::channel(64);
    let agenda = Agenda::default();
    for spec in specs(NodeRole::FirstServer, Some(Platform::Rke2)) {
        let period = Duration::from_millis(5);
        // Longer than this test waits.
        let rest = match spec.id.as_str() {
            "default-route" => PATIENCE * 60,
            "nic-carrier" => period,
            _ => continue,
        };
        let pace = ProbePace {
            period,
            rest,
            next: rest,
            beat: Beat::new(),
        };
        let (prober, probed) = (prober.clone(), probed.clone());
        let asked = (spec.id.to_string(), vec![AskedProbe::new(spec, pace)]);
        let (agenda, events) = (agenda.clone(), events.clone());
        tokio::spawn(repeat_question(prober, probed, asked, agenda, events));
    }
    let mut answers = std::collections::BTreeMap::<String, Vec<ProbeOutcome>>::new();
    let mut take = async |answers: &mut std::collections::BTreeMap<_, Vec<_>>| {
        if let NodeEvent::Probed(id, outcome) = next(&mut told).await {
            answers.entry(id.to_string()).or_default().push(outcome);
        }
    };
    while answers.get("nic-carrier").map_or(0, Vec::len) < 5
        || !answers.contains_key("default-route")
    {
        take(&mut answers).await;
    }
    assert_eq!(answers["default-route"], [ProbeOutcome::Passed]);
    place.write("/sys/class/net/eth0/carrier", "0\n");
    while answers["default-route"].len() < 2 {
        take(&mut answers).await;
    }
    assert!(answers["nic-carrier"].contains(&ProbeOutcome::failed("eth0 without a link")));
}
