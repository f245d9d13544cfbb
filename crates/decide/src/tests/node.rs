//! A probed node: staging and probes form one status.

use windrow_model::findings::{Finding, Location};
use windrow_model::reasons::Severity;
use windrow_plan::readiness::node::{NodeEvent, NodeRole, Pace, ProbeOutcome, specs};
use windrow_plan::rules::Platform;

use super::*;

/// Probes the node in a role, and lets every probe pass.
fn healthy(node: &mut Node, role: NodeRole) {
    let probes = specs(role, Some(Platform::Harvester));
    node.observe(ClusterEvent::Node(NodeEvent::Probing {
        role,
        boot: "boot-1".to_owned(),
        specs: probes.clone(),
    }));
    for probe in probes {
        node.observe(ClusterEvent::Node(NodeEvent::Probed(
            probe.id,
            ProbeOutcome::Passed,
        )));
    }
}

#[test]
fn a_probed_node_is_ready_when_its_manifests_and_its_probes_are_and_not_before() {
    let mut node = Node::new(&[("a.yaml", &free("a"))]);
    healthy(&mut node, NodeRole::FirstServer);
    assert_eq!(node.tick().status.readiness, Readiness::Unknown);
    node.api();
    let status = node.tick().status;
    assert_eq!(
        (status.readiness, status.phase),
        (Readiness::SettingUp, Phase::Manifests)
    );
    node.applied("a.yaml");
    let status = node.tick().status;
    assert_eq!(
        (status.readiness, status.reason.code, status.role),
        (Readiness::Ready, Code::NodeReady, NodeRole::FirstServer)
    );
    assert!(status.staging.settled);
    assert_eq!(
        status.phases.last().map(|phase| phase.name),
        Some(Phase::Ready)
    );
    assert!(!status.probes.is_empty());
    assert_eq!(status.vip, None, "not found yet");
    let vip = Vip {
        address: "10.0.0.9".to_owned(),
        mode: Some(VipMode::Static),
    };
    node.observe(ClusterEvent::Node(NodeEvent::Vip(vip.clone())));
    assert_eq!(node.tick().status.vip, Some(vip));
    assert!(status.summary.chars().count() <= 65, "{}", status.summary);
}

#[test]
fn the_node_is_probed_unless_that_is_switched_off() {
    let mut node = Node::on(Some(Platform::Harvester), &[]);
    let wanted = node.state.interests().probes.unwrap();
    assert_eq!(wanted.platform, Some(Platform::Harvester));
    assert!(!wanted.installed);
    let mut settings = Settings::default();
    settings.probes.enabled = false;
    node.state
        .configure(settings, rules(), Some(Platform::Harvester));
    assert!(node.state.interests().probes.is_none());
}

#[test]
fn the_status_says_which_platform_the_node_is_once_that_is_known() {
    for platform in [None, Some(Platform::Rke2), Some(Platform::Harvester)] {
        let status = Node::on(platform, &[]).tick().status;
        assert_eq!(status.platform, platform);
    }
}

#[test]
fn a_node_on_which_a_manifest_moved_a_while_ago_is_slow_and_stalls_only_later() {
    let mut node = Node::new(&[("a.yaml", &free("a")), ("b.yaml", &free("b"))]);
    node.api();
    let pace_after = |node: &mut Node, minutes: i64| {
        node.later(minutes);
        healthy(node, NodeRole::FirstServer);
        node.tick().status.pace
    };
    assert_eq!(pace_after(&mut node, 0), Some(Pace::Moving));
    node.later(15);
    node.applied("a.yaml");
    node.tick();
    assert_eq!(pace_after(&mut node, 10), Some(Pace::Slow));
    assert_eq!(pace_after(&mut node, 10), Some(Pace::Stalled));
}

#[test]
fn a_node_whose_manifest_is_held_on_purpose_does_not_say_that_every_one_is_applied() {
    let mut node = Node::new(&[("a.yaml", &free("a")), ("b.yaml", &free("b"))]);
    node.markers.insert(marker_of("b.yaml"), None);
    node.scan();
    healthy(&mut node, NodeRole::FirstServer);
    node.api();
    node.applied("a.yaml");
    let status = node.tick().status;
    assert_eq!(
        (status.readiness, status.reason.message.as_str()),
        (
            Readiness::Ready,
            "b.yaml is held by somebody else; every required probe passes"
        )
    );
}

#[test]
fn an_agent_needs_no_api_server_of_its_own_to_be_ready() {
    let mut node = Node::new(&[]);
    healthy(&mut node, NodeRole::Agent);
    assert_eq!(node.tick().status.readiness, Readiness::Ready);
}

#[test]
fn that_a_node_was_installed_is_remembered_in_the_ledger_and_only_told_once() {
    let mut node = Node::new(&[]);
    node.api();
    healthy(&mut node, NodeRole::FirstServer);
    let decision = node.tick();
    assert!(decision.ledger.node.installed);
    assert_eq!(decision.ledger.node.ready_boot, "boot-1");
    assert_eq!(node.ledger_on_disk.node, decision.ledger.node);
    let again = node.tick();
    assert!(again.actions.is_empty(), "{:?}", again.actions);
    assert!(
        again
            .status
            .probes
            .iter()
            .all(|probe| probe.id.as_str() != "managed-chart"),
        "day 0 is over"
    );
}

fn finding(severity: Severity) -> Finding {
    Finding {
        incident: None,
        code: Code::GateLocked,
        severity,
        message: "the gate is locked".to_owned(),
        at: vec![Location::line("windrow.yaml", 3)],
    }
}

#[test]
fn an_error_that_others_found_degrades_a_node_that_works_until_it_is_mended() {
    let mut node = Node::new(&[]);
    node.api();
    healthy(&mut node, NodeRole::FirstServer);
    node.state
        .set_findings("gates", &[finding(Severity::Warning)]);
    let status = node.tick().status;
    assert_eq!(status.readiness, Readiness::Ready, "a warning does not");
    assert_eq!(status.findings.len(), 1);
    node.state
        .set_findings("gates", &[finding(Severity::Error)]);
    let status = node.tick().status;
    assert_eq!(
        (status.readiness, status.reason.code),
        (Readiness::Degraded, Code::GateLocked)
    );
    assert_eq!(status.reason.message, "windrow.yaml:3: the gate is locked");
    node.state.set_findings("gates", &[]);
    assert_eq!(node.tick().status.readiness, Readiness::Ready);
}

fn own_finding(code: Code, at: &[Location]) -> Finding {
    Finding {
        incident: None,
        code,
        severity: Severity::Warning,
        message: "what is wrong".to_owned(),
        at: at.to_vec(),
    }
}

#[test]
fn a_node_on_which_nothing_else_is_wrong_says_in_its_line_what_is_wrong_with_windrow_itself() {
    let mut node = Node::new(&[]);
    node.api();
    healthy(&mut node, NodeRole::FirstServer);
    let line = Location::line("windrow.yaml", 3);
    let error = own_finding(Code::ConfigurationInvalid, std::slice::from_ref(&line));
    let rest = own_finding(Code::ConfigurationInvalid, &[]);
    let webhook = own_finding(Code::WebhookGivenUp, std::slice::from_ref(&line));
    let says = |node: &mut Node, found: &[Finding], webhooks: &[Finding]| {
        node.state.set_findings("configuration", found);
        node.state.set_findings("webhooks", webhooks);
        let status = node.tick().status;
        assert!(status.summary.chars().count() <= 65, "{}", status.summary);
        assert_eq!(status.readiness, Readiness::Ready);
        assert_eq!(status.reason.code, Code::NodeReady);
        assert!(
            status
                .reason
                .message
                .ends_with("every required probe passes")
        );
        status.summary
    };
    let one = says(
        &mut node,
        std::slice::from_ref(&error),
        std::slice::from_ref(&webhook),
    );
    assert_eq!(
        one,
        "Ready: the configuration has 1 error (windrow config check)"
    );
    let mut many = vec![error.clone(); 20];
    let twenty = says(&mut node, &many, &[]);
    assert_eq!(
        twenty,
        "Ready: the configuration has 20 errors (windrow config check)"
    );
    many.push(rest);
    let more = says(&mut node, &many, &[]);
    assert_eq!(
        more,
        "Ready: the configuration has 20+ errors (windrow config check)"
    );
    let undelivered = says(&mut node, &[], &[webhook.clone(), webhook]);
    assert_eq!(
        undelivered,
        "Ready: 2 webhooks are not delivered (windrow status)"
    );
    assert!(says(&mut node, &[], &[]).starts_with("Ready: every manifest"));
    // Problems of the node come first.
    node.state.set_findings("configuration", &[error]);
    node.state
        .set_findings("gates", &[finding(Severity::Error)]);
    let status = node.tick().status;
    assert_eq!(status.reason.message, "windrow.yaml:3: the gate is locked");
}

#[test]
fn a_node_that_is_cordoned_is_ready_and_says_that_it_takes_no_pods() {
    let mut node = Node::new(&[]);
    node.api();
    healthy(&mut node, NodeRole::Agent);
    assert!(node.tick().status.summary.starts_with("Ready: every"));
    node.observe(ClusterEvent::Node(NodeEvent::Cordoned(true)));
    let status = node.tick().status;
    assert_eq!(status.summary, "Ready: takes no pods (SchedulingDisabled)");
    assert_eq!(
        (status.readiness, status.reason.code),
        (Readiness::Ready, Code::NodeReady)
    );
}

#[test]
fn what_is_wrong_with_manifests_that_rke2_does_not_read_does_not_degrade_an_agent() {
    // RKE2 cannot use this name.
    let mut node = Node::new(&[("Not_A_Name.yaml", &free("a"))]);
    node.api();
    healthy(&mut node, NodeRole::Agent);
    let status = node.tick().status;
    assert!(!status.findings.is_empty());
    assert_eq!(status.readiness, Readiness::Ready);
}

#[test]
fn a_changed_file_of_rke2s_own_that_it_cannot_apply_keeps_the_node_from_being_ready() {
    let mut node = Node::new(&[("rke2-canal.yaml", &free("a"))]);
    node.api();
    healthy(&mut node, NodeRole::FirstServer);
    assert_eq!(node.tick().status.readiness, Readiness::Ready);
    node.fails("rke2-canal.yaml", "no matches for kind");
    let status = node.tick().status;
    assert_eq!(
        (status.readiness, status.reason.code),
        (Readiness::SettingUp, Code::ApplyFailed)
    );
    assert!(status.reason.message.contains("rke2-canal.yaml"));
    // Applied at last. An earlier event no longer counts.
    node.applied("rke2-canal.yaml");
    assert_eq!(node.tick().status.readiness, Readiness::Ready);
}

#[test]
fn a_file_in_a_cycle_that_waits_for_something_else_is_not_said_to_have_failed() {
    // The file in the cycle yields. The ConfigMap may still come.
    let files = [
        (
            "a.yaml",
            waits_for("a", "/namespaces/default/ConfigMap/b (exists)"),
        ),
        (
            "b.yaml",
            waits_for(
                "b",
                "/namespaces/default/ConfigMap/a (exists), /namespaces/default/ConfigMap/x (exists)",
            ),
        ),
    ];
    let files = files.each_ref().map(|(path, text)| (*path, text.as_str()));
    let mut node = Node::new(&files);
    node.api();
    node.observe(ClusterEvent::Object(config_map("x"), ObjectSeen::Absent));
    healthy(&mut node, NodeRole::FirstServer);
    let status = node.tick().status;
    assert!(
        status
            .findings
            .iter()
            .any(|one| one.code == Code::RequiredCycle)
    );
    let held = &status.staging.held;
    assert!(
        held.iter()
            .any(|file| file.file == "b.yaml" && file.deadline.is_none())
    );
    assert_eq!(status.readiness, Readiness::SettingUp);
}

#[test]
fn a_node_whose_probes_are_switched_off_is_not_judged() {
    let mut node = Node::new(&[]);
    node.api();
    healthy(&mut node, NodeRole::FirstServer);
    assert_eq!(node.tick().status.readiness, Readiness::Ready);
    node.observe(ClusterEvent::Node(NodeEvent::NotProbing));
    let status = node.tick().status;
    assert_eq!(
        (status.readiness, status.reason.code),
        (Readiness::Unknown, Code::NotProbed)
    );
    assert!(status.phases.is_empty() && status.probes.is_empty());
}

#[test]
fn a_file_that_waits_without_a_deadline_keeps_the_node_setting_up_and_is_no_failure() {
    let mut node = Node::new(&[("a.yaml", WIDGET)]);
    node.api();
    let kind = GroupKind::new("example.com", "Widget");
    node.observe(ClusterEvent::Kind(kind, KindSeen::NotServed));
    healthy(&mut node, NodeRole::FirstServer);
    let status = node.tick().status;
    assert_eq!(status.staging.held[0].deadline, None);
    assert_eq!(status.findings[0].code, Code::KindWithoutProvider);
    assert_eq!(status.readiness, Readiness::SettingUp);
}

#[test]
fn kube_apiserver_answers_when_it_answers_windrow_whatever_its_step_waits_for() {
    let mut node = Node::new(&[("a.yaml", WIDGET)]);
    let answers = |node: &mut Node| node.tick().status.staging.api_answers;
    assert_eq!(answers(&mut node), None);
    node.observe(ClusterEvent::Node(NodeEvent::Probing {
        role: NodeRole::FirstServer,
        boot: "boot-1".to_owned(),
        specs: specs(NodeRole::FirstServer, Some(Platform::Rke2)),
    }));
    node.api();
    // No probe of the step api has run yet.
    assert_eq!(answers(&mut node), Some(true));
    let until = crate::why::until_applied(&node.tick().status);
    assert_eq!(until, "RKE2 applies it at its next pass, within 15 s");
    let why = "refused".to_owned();
    node.observe(ClusterEvent::ApiUnreachable { why: why.clone() });
    assert_eq!(answers(&mut node), Some(false));
    node.observe(ClusterEvent::CredentialRefused { why });
    assert_eq!(answers(&mut node), Some(true), "it answers that it refuses");
}
