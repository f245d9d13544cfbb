//! Tests each row of the judgement's table, and the rules around it.

use windrow_model::reasons::Code;

use super::*;

#[test]
fn everything_starts_unknown() {
    for role in [NodeRole::FirstServer, NodeRole::Agent, NodeRole::Unknown] {
        let mut node = Node::harvester(role);
        let judged = node.judge();
        assert_eq!(judged.readiness, Readiness::Unknown);
        assert_eq!(judged.code, Code::ProbePending);
        assert!(judged.message.contains("not asked yet"), "{judged:?}");
    }
}

#[test]
fn a_first_failure_is_not_believed_and_not_called_unasked_either() {
    let mut node = Node::new(NodeRole::Agent, Platform::Rke2);
    node.passes_but(&["kubelet"]);
    node.answer("kubelet", ProbeOutcome::failed("no"));
    let judged = node.judge();
    assert_eq!(judged.readiness, Readiness::Unknown);
    assert_eq!(judged.code, Code::ProbePending);
    assert_eq!(judged.message, "kubelet: first checks running");
    node.refused("kubelet", "HTTP 403");
    assert_eq!(node.judge().code, Code::ProbeUnknown, "asked often enough");
}

/// Alternating answers of these kinds.
fn alternating(node: &mut Node, probe: &str, answers: &str) {
    for answer in answers.chars() {
        let outcome = match answer {
            'P' => ProbeOutcome::Passed,
            'F' => ProbeOutcome::failed("etcd failed"),
            _ => ProbeOutcome::unknown("GET /readyz", "504"),
        };
        node.answer(probe, outcome);
    }
}

#[test]
fn failures_and_unknown_answers_that_alternate_end_passing() {
    for (answers, expected) in [
        ("FU", Readiness::Ready),
        ("FUF", Readiness::SettingUp),
        ("FUFUFU", Readiness::SettingUp),
        ("UFU", Readiness::Unknown),
        ("UUFUUF", Readiness::Unknown),
        ("UUFFUFF", Readiness::SettingUp),
        ("FUFP", Readiness::Ready),
        ("FUFUUU", Readiness::Unknown),
    ] {
        let mut node = Node::new(NodeRole::Agent, Platform::Rke2);
        node.passes_but(&[]);
        alternating(&mut node, "apiserver", answers);
        assert_eq!(node.judge().readiness, expected, "{answers}");
    }
}

#[test]
fn a_probe_that_never_passed_is_not_called_pending_while_its_answers_alternate() {
    let mut node = Node::new(NodeRole::Agent, Platform::Rke2);
    node.passes_but(&["apiserver"]);
    alternating(&mut node, "apiserver", "FUFU");
    assert_eq!(
        node.verdict(),
        (Readiness::SettingUp, Phase::Api, Code::ApiNotReady)
    );
    assert!(node.judge().message.contains("etcd failed"));
}

#[test]
fn ready_is_said_when_every_required_probe_passes_and_not_before() {
    for required in specs(NodeRole::FirstServer, Some(Platform::Harvester))
        .into_iter()
        .filter(|spec| spec.severity == ProbeSeverity::Required)
    {
        let id = required.id.as_str();
        let mut node = Node::harvester(NodeRole::FirstServer);
        node.passes_but(&[id]);
        assert_eq!(node.judge().readiness, Readiness::Unknown, "{id}");
        node.fails(id, "no");
        let (readiness, phase, code) = node.verdict();
        assert_eq!(
            (readiness, phase, code),
            (Readiness::SettingUp, required.phase, required.code)
        );
        node.answer(id, ProbeOutcome::Passed);
        let judged = node.judge();
        assert_eq!(judged.readiness, Readiness::Ready, "{id}");
        assert_eq!((judged.phase, judged.pace), (Phase::Ready, None));
        assert!(
            judged
                .phases
                .iter()
                .all(|phase| phase.state == PhaseState::Done)
        );
    }
}

#[test]
fn a_wanted_probe_that_fails_degrades_and_one_that_is_unknown_does_not() {
    let mut node = Node::harvester(NodeRole::Agent);
    node.passes_but(&["disk-space"]);
    node.answer("disk-space", ProbeOutcome::unknown("statvfs", "EIO"));
    assert_eq!(node.judge().readiness, Readiness::Ready);
    node.fails("disk-space", "/var/lib/rancher: 4% free");
    let judged = node.judge();
    assert_eq!(
        (judged.readiness, judged.code),
        (Readiness::Degraded, Code::DiskLow)
    );
    assert!(judged.message.contains("4% free"), "{}", judged.message);
}

#[test]
fn a_degraded_node_is_not_ready_between_a_restart_and_the_first_answers_that_count() {
    let mut node = Node::harvester(NodeRole::Agent);
    node.passes_but(&["clock"]);
    node.fails("clock", "not synchronised");
    assert_eq!(node.judge().readiness, Readiness::Degraded);
    // Windrow restarts in the same boot.
    node.boots(NodeRole::Agent, "boot-1");
    node.passes_but(&["clock"]);
    let pending = (Readiness::Unknown, Phase::Ready, Code::ProbePending);
    assert_eq!(node.verdict(), pending, "it has not answered yet");
    node.answer("clock", ProbeOutcome::failed("not synchronised"));
    assert_eq!(node.verdict(), pending, "once is not often enough");
    node.fails("clock", "not synchronised");
    assert_eq!(node.judge().readiness, Readiness::Degraded);
}

#[test]
fn a_wanted_probe_of_the_table_settles_within_seconds_unless_it_asks_for_what_is_rolled_out() {
    let specs = specs(NodeRole::FirstServer, Some(Platform::Harvester));
    let pause = |name: &str| {
        let spec = specs.iter().find(|spec| spec.id.as_str() == name);
        spec.unwrap().first_pause().as_secs()
    };
    assert_eq!(pause("clock"), 5);
    assert_eq!(pause("kubevirt"), 30);
    assert_eq!(pause("apiserver"), 10, "required");
}

/// As in k3s#4787.
#[test]
fn under_an_alarm_of_etcd_the_node_is_not_ready_and_will_not_be_by_itself() {
    let mut node = Node::harvester(NodeRole::JoinedServer);
    node.passes_but(&[]);
    node.fails("etcd", "HTTP 503");
    assert_eq!(node.judge().readiness, Readiness::Degraded);
    let alarm = ProbeOutcome::Failed {
        why: "alarm NOSPACE".to_owned(),
        code: Some(Code::EtcdAlarm),
        stuck: true,
    };
    node.settles("etcd", &alarm);
    let judged = node.judge();
    assert_eq!(
        (judged.readiness, judged.phase, judged.code),
        (Readiness::Failed, Phase::Api, Code::EtcdAlarm)
    );
    assert_eq!(judged.pace, Some(Pace::Stuck));
    assert_eq!(judged.message, "etcd refuses writes: alarm NOSPACE");
    node.answer("etcd", ProbeOutcome::Passed);
    assert_eq!(node.judge().readiness, Readiness::Ready);
}

#[test]
fn a_control_loop_that_is_down_degrades_and_without_any_leader_the_node_is_not_ready() {
    let mut node = Node::new(NodeRole::FirstServer, Platform::Rke2);
    node.passes_but(&[]);
    assert_eq!(node.judge().readiness, Readiness::Ready);
    let down = |code| ProbeOutcome::Failed {
        why: "refused".to_owned(),
        code,
        stuck: false,
    };
    node.settles("scheduler", &down(None));
    let (readiness, _, code) = node.verdict();
    assert_eq!(
        (readiness, code),
        (Readiness::Degraded, Code::SchedulerDown)
    );
    node.settles("scheduler", &down(Some(Code::NoActiveLeader)));
    assert_eq!(
        node.verdict(),
        (Readiness::Failed, Phase::Api, Code::NoActiveLeader)
    );
    // A server without it: a witness, or `disable-scheduler`.
    node.refused("scheduler", "no static pod on this node yet");
    assert_eq!(node.judge().readiness, Readiness::Ready);
}

#[test]
fn the_first_blocker_is_the_one_that_the_others_wait_for() {
    let mut node = Node::harvester(NodeRole::FirstServer);
    for probe in ["harvester", "apiserver", "node", "rke2-service"] {
        node.fails(probe, "no");
    }
    assert_eq!(
        node.verdict(),
        (Readiness::SettingUp, Phase::Api, Code::RkeServiceDown)
    );
}

#[test]
fn a_refusal_is_unknown_and_never_not_ready() {
    let mut node = Node::harvester(NodeRole::JoinedServer);
    node.passes_but(&["node"]);
    node.refused("node", "403: cannot read all nodes");
    let judged = node.judge();
    assert_eq!(
        (judged.readiness, judged.code),
        (Readiness::Unknown, Code::ProbeUnknown)
    );
    assert!(
        judged
            .message
            .contains("403: cannot read all nodes (GET something)"),
        "{}",
        judged.message
    );
    // Not even if the node was Ready before.
    node.passes_but(&[]);
    assert_eq!(node.judge().readiness, Readiness::Ready);
    node.refused("node", "401: Unauthorized");
    assert_eq!(node.judge().readiness, Readiness::Unknown);
}

#[test]
fn what_was_ready_in_this_boot_and_lost_what_it_needs_has_failed_and_after_a_reboot_sets_up() {
    let mut node = Node::new(NodeRole::Agent, Platform::Rke2);
    node.passes_but(&[]);
    assert_eq!(node.judge().readiness, Readiness::Ready);
    node.fails("kubelet", "connection refused");
    assert_eq!(
        node.verdict(),
        (Readiness::Failed, Phase::Node, Code::KubeletUnhealthy)
    );
    // Windrow restarts in the same boot: the node has still lost it, and is not starting.
    node.boots(NodeRole::Agent, "boot-1");
    node.fails("kubelet", "connection refused");
    assert_eq!(node.judge().readiness, Readiness::Failed);
    node.boots(NodeRole::Agent, "boot-2");
    node.fails("kubelet", "connection refused");
    assert_eq!(node.judge().readiness, Readiness::SettingUp);
}

#[test]
fn a_transition_excuses_what_fails_for_a_while() {
    for (kind, code) in [
        (Transition::Upgrade, Code::Upgrading),
        (Transition::Drain, Code::Draining),
        (Transition::Promotion, Code::Promoting),
        (Transition::Restart, Code::Restarting),
    ] {
        let mut node = Node::harvester(NodeRole::JoinedServer);
        node.passes_but(&[]);
        node.judge();
        node.event(NodeEvent::Transition(kind, Some("told".to_owned().into())));
        let judged = node.judge();
        assert_eq!(judged.readiness, Readiness::Ready, "{kind:?}");
        assert_eq!(judged.transition.map(|shown| shown.kind), Some(kind));
        node.fails("apiserver", "connection refused");
        let (readiness, phase, said) = node.verdict();
        assert_eq!(
            (readiness, phase, said),
            (Readiness::SettingUp, Phase::Api, code)
        );
        node.later(216);
        assert_eq!(node.judge().readiness, Readiness::Failed, "{kind:?}");
        node.settles("apiserver", &ProbeOutcome::Passed);
        let judged = node.judge();
        assert_eq!((judged.readiness, judged.code), (Readiness::Degraded, code));
        node.event(NodeEvent::Transition(kind, None));
        assert_eq!(node.judge().readiness, Readiness::Ready, "{kind:?}");
    }
}

#[test]
fn an_upgrade_excuses_what_it_rolls_out_and_nothing_else_that_is_wanted() {
    let upgrade =
        |on: bool| NodeEvent::Transition(Transition::Upgrade, on.then(|| "told".to_owned().into()));
    for probe in [
        "charts",
        "kubevirt",
        "virt-handler",
        "longhorn-node",
        "cluster-provisioned",
    ] {
        let mut node = Node::harvester(NodeRole::FirstServer);
        node.passes_but(&[]);
        node.judge();
        node.fails(probe, "it rolls out");
        assert_eq!(node.judge().readiness, Readiness::Degraded, "{probe}");
        // A drain alone does not explain it, and does not prevent an upgrade from explaining it.
        node.event(NodeEvent::Transition(
            Transition::Drain,
            Some("told".to_owned().into()),
        ));
        assert_eq!(node.judge().readiness, Readiness::Degraded, "{probe}");
        node.event(upgrade(true));
        assert_eq!(
            node.verdict(),
            (Readiness::SettingUp, Phase::Ready, Code::Upgrading),
            "{probe}"
        );
        assert!(node.judge().message.contains("it rolls out"), "{probe}");
        node.fails("longhorn-disks", "DiskPressure");
        assert_eq!(node.judge().readiness, Readiness::Degraded, "{probe}");
        node.settles("longhorn-disks", &ProbeOutcome::Passed);
        node.event(upgrade(false));
        assert_eq!(node.judge().readiness, Readiness::Degraded, "{probe}");
    }
}

#[test]
fn a_machine_that_shuts_down_is_neither_ready_nor_failed() {
    let mut node = Node::new(NodeRole::Agent, Platform::Rke2);
    node.passes_but(&[]);
    node.judge();
    node.event(NodeEvent::Transition(
        Transition::Shutdown,
        Some("reboot.target".to_owned().into()),
    ));
    assert_eq!(
        node.verdict(),
        (Readiness::SettingUp, Phase::Ready, Code::ShuttingDown)
    );
    node.fails("rke2-service", "inactive");
    assert_eq!(node.judge().code, Code::ShuttingDown);
}

#[test]
fn slow_stalled_and_stuck_are_three_things() {
    let mut node = Node::new(NodeRole::FirstServer, Platform::Rke2);
    node.passes_but(&["apiserver", "node", "kubelet"]);
    node.fails("apiserver", "etcd failed");
    assert_eq!(node.judge().pace, Some(Pace::Moving));
    node.later(10);
    node.fails("apiserver", "poststarthook/rbac failed");
    node.later(12);
    assert_eq!(
        node.judge().pace,
        Some(Pace::Slow),
        "15 minutes are usual, and something moved"
    );
    node.later(8);
    assert_eq!(node.judge().pace, Some(Pace::Stalled));
    // A repeated message is not progress: two alternating errors do not hide a stall.
    node.fails("apiserver", "etcd failed");
    assert_eq!(node.judge().pace, Some(Pace::Stalled));
    node.settles("apiserver", &ProbeOutcome::stuck("the unit is masked"));
    let judged = node.judge();
    assert_eq!(
        (judged.readiness, judged.pace),
        (Readiness::Failed, Some(Pace::Stuck))
    );
}

#[test]
fn how_long_a_phase_takes_counts_from_when_those_before_it_were_over() {
    let mut node = Node::new(NodeRole::FirstServer, Platform::Rke2);
    node.passes_but(&["rke2-installed", "apiserver"]);
    node.fails("rke2-installed", "not installed");
    node.fails("apiserver", "connection refused");
    node.later(10);
    node.settles("rke2-installed", &ProbeOutcome::Passed);
    assert_eq!(node.judge().phase, Phase::Api);
    node.later(14);
    assert_eq!(node.judge().pace, Some(Pace::Moving));
    node.later(1);
    assert_eq!(node.judge().pace, Some(Pace::Slow));
}

#[test]
fn the_judgement_asks_to_be_woken_when_time_alone_changes_it() {
    let mut node = Node::new(NodeRole::Agent, Platform::Rke2);
    node.passes_but(&[]);
    assert_eq!(node.judge().readiness, Readiness::Ready);
    let wake = node.judge().next_wake.unwrap();
    node.now = wake;
    let judged = node.judge();
    assert_eq!(judged.readiness, Readiness::Unknown, "no longer answers");
    assert!(
        judged.message.contains("no longer answers"),
        "{}",
        judged.message
    );
}

#[test]
fn a_node_that_is_not_ready_asks_to_be_woken_when_its_pace_changes_and_a_ready_one_does_not() {
    let mut node = Node::new(NodeRole::FirstServer, Platform::Rke2);
    node.event(NodeEvent::Probing {
        role: NodeRole::FirstServer,
        boot: "boot-1".to_owned(),
        specs: Vec::new(),
    });
    assert_eq!(node.judge().readiness, Readiness::Ready);
    assert_eq!(node.judge().next_wake, None);
    node.manifests = Manifests::Waiting {
        code: Code::WaitsForKind,
        message: "vm.yaml: kind is not served".to_owned(),
        done: 2,
        total: 3,
        moved: node.now,
    };
    let mut paces = vec![node.judge().pace];
    while let Some(wake) = node.judge().next_wake {
        node.now = wake;
        paces.push(node.judge().pace);
    }
    let expected = [Pace::Moving, Pace::Slow, Pace::Stalled];
    assert_eq!(paces, expected.map(Some));
}

#[test]
fn manifests_that_wait_are_the_last_phase_before_ready() {
    let mut node = Node::new(NodeRole::FirstServer, Platform::Rke2);
    node.passes_but(&[]);
    node.manifests = Manifests::Waiting {
        code: Code::WaitsForKind,
        message: "vm.yaml: kind is not served".to_owned(),
        done: 2,
        total: 3,
        moved: node.now,
    };
    let judged = node.judge();
    assert_eq!(
        (judged.readiness, judged.phase, judged.code),
        (Readiness::SettingUp, Phase::Manifests, Code::WaitsForKind)
    );
    let phase = judged
        .phases
        .iter()
        .find(|phase| phase.name == Phase::Manifests);
    assert_eq!(
        phase.map(|phase| (phase.state, phase.done, phase.total)),
        Some((PhaseState::Current, 2, 3))
    );
    node.fails("apiserver", "etcd failed");
    assert_eq!(
        node.judge().phase,
        Phase::Api,
        "an earlier phase counts first"
    );
    node.passes_but(&[]);
    node.manifests = Manifests::Unknown {
        code: Code::StateUnknown,
        message: "not listed".to_owned(),
        total: 3,
    };
    assert_eq!(node.judge().readiness, Readiness::Unknown);
}

#[test]
fn a_node_that_is_promoted_keeps_what_is_known_and_is_judged_by_its_new_role() {
    let mut node = Node::harvester(NodeRole::Agent);
    node.passes_but(&[]);
    assert_eq!(node.judge().readiness, Readiness::Ready);
    node.becomes(NodeRole::JoinedServer, "boot-1");
    let judged = node.judge();
    assert_eq!(judged.readiness, Readiness::Unknown, "servers answer more");
    assert!(judged.message.contains("supervisor"), "{}", judged.message);
    node.passes_but(&[]);
    assert_eq!(node.judge().readiness, Readiness::Ready);
}

#[test]
fn a_role_that_is_not_known_is_never_ready() {
    let mut node = Node::new(NodeRole::Unknown, Platform::Rke2);
    node.passes_but(&[]);
    let (readiness, _, code) = node.verdict();
    assert_eq!((readiness, code), (Readiness::Unknown, Code::ProbePending));
    assert_eq!(node.judge().message, "role: first checks running");
    node.now = node.judge().next_wake.unwrap();
    node.later(1);
    let (readiness, _, code) = node.verdict();
    assert_eq!((readiness, code), (Readiness::Unknown, Code::RoleUnknown));
    node.fails("rke2-installed", "no rke2 unit");
    assert_eq!(
        node.verdict(),
        (
            Readiness::SettingUp,
            Phase::Rke2Installed,
            Code::RkeNotInstalled
        )
    );
}

#[test]
fn the_wall_clock_being_set_makes_nothing_stale_and_nothing_stalled() {
    let mut node = Node::new(NodeRole::Agent, Platform::Rke2);
    node.passes_but(&["kubelet"]);
    node.fails("kubelet", "no");
    node.judge();
    let jump = SignedDuration::from_hours(10_000);
    node.now += jump;
    node.seen.as_mut().unwrap().clock_jumped(jump);
    node.memory.clock_jumped(jump);
    let judged = node.judge();
    assert_eq!(
        (judged.readiness, judged.pace),
        (Readiness::SettingUp, Some(Pace::Moving))
    );
}

#[test]
fn a_node_remembers_that_it_was_installed_from_its_first_proof_on() {
    let mut node = Node::harvester(NodeRole::FirstServer);
    node.judge();
    assert!(!node.memory.installed);
    node.passes_but(&["settings"]);
    node.fails("settings", "storage-network is not set");
    assert_eq!(node.judge().readiness, Readiness::SettingUp);
    assert!(node.memory.installed, "its chart is installed");
    let mut plain = Node::new(NodeRole::FirstServer, Platform::Rke2);
    plain.passes_but(&[]);
    assert_eq!(plain.judge().readiness, Readiness::Ready);
    assert!(plain.memory.installed, "it was ready");
}

#[test]
fn a_node_remembers_that_it_joined_a_cluster() {
    for (role, joined) in [
        (NodeRole::FirstServer, false),
        (NodeRole::Agent, false),
        (NodeRole::JoinedServer, true),
    ] {
        let mut node = Node::new(role, Platform::Rke2);
        node.judge();
        node.becomes(NodeRole::FirstServer, "boot-1");
        node.judge();
        assert_eq!(node.memory.joined, joined, "{role}");
    }
}

#[test]
fn where_rke2_does_not_run_and_there_is_no_default_route_the_reason_names_both() {
    let mut node = Node::new(NodeRole::FirstServer, Platform::Rke2);
    node.passes_but(&["default-route", "rke2-service"]);
    node.fails(
        "rke2-service",
        "rke2-server has ended 5+ times (last with exit code 1)",
    );
    assert_eq!(
        node.judge().message,
        "RKE2 does not run: rke2-server has ended 5+ times (last with exit code 1)"
    );
    node.fails("default-route", "neither for IPv4 nor for IPv6");
    assert_eq!(
        node.judge().message,
        "RKE2 does not run: no default route; rke2-server has ended 5+ times (last with exit code 1)"
    );
    // A proved failure needs no other explanation.
    node.settles(
        "rke2-service",
        &ProbeOutcome::stuck("rke2-server.service is masked"),
    );
    assert_eq!(
        node.judge().message,
        "RKE2 does not run: rke2-server.service is masked"
    );
    // A running RKE2 is not explained by it.
    node.answer("rke2-service", ProbeOutcome::Passed);
    node.fails("supervisor", "HTTP 503");
    assert!(!node.judge().message.contains("default route"));
}

#[test]
fn a_full_disk_is_the_reason_for_whatever_else_fails_and_its_first_report_counts() {
    let mut node = Node::new(NodeRole::FirstServer, Platform::Rke2);
    node.passes_but(&[]);
    assert_eq!(node.judge().readiness, Readiness::Ready);
    let full = "no space left in /var/lib/rancher";
    node.answer("disk-space", ProbeOutcome::failed_as(Code::DiskFull, full));
    let judged = node.judge();
    assert_eq!(
        (judged.readiness, judged.code, judged.message.as_str()),
        (Readiness::Degraded, Code::DiskFull, full)
    );
    node.fails("rke2-service", "rke2-server failed (exit-code)");
    let judged = node.judge();
    assert_eq!(
        (judged.readiness, judged.phase, judged.code),
        (Readiness::Failed, Phase::Api, Code::DiskFull)
    );
    assert!(judged.message.starts_with(&format!("{full} (")));
    node.answer("disk-space", ProbeOutcome::Passed);
    assert_eq!(node.judge().code, Code::RkeServiceDown);
}

#[test]
fn a_write_of_windrows_own_that_found_no_space_is_the_reason_before_any_probe_says_so() {
    let mut node = Node::new(NodeRole::FirstServer, Platform::Rke2);
    node.passes_but(&[]);
    node.trouble = Some(KnownProblem {
        code: Code::DiskFull,
        message: "no space left in /var/lib/rancher/windrow".to_owned(),
    });
    assert_eq!(node.judge().code, Code::DiskFull);
    node.manifests = Manifests::Waiting {
        code: Code::WaitsForKind,
        message: "a.yaml: Widget is not served yet".to_owned(),
        done: 1,
        total: 3,
        moved: node.now,
    };
    let judged = node.judge();
    assert_eq!(
        (judged.readiness, judged.phase, judged.code),
        (Readiness::SettingUp, Phase::Manifests, Code::DiskFull)
    );
}
