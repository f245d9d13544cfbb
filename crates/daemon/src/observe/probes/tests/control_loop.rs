//! kube-controller-manager and kube-scheduler.

use windrow_gates::Component;
use windrow_model::reasons::Code;

use super::*;
use crate::observe::probes::components::control_loop;
use crate::testing::replies::{ServerReply, TestServer};

const SCHEDULER: Component = Component::KubeScheduler;
const MANAGER: Component = Component::KubeControllerManager;

fn lay_pod(place: &TestNode, component: Component, argument: &str) {
    let path = format!("/var/lib/rancher/rke2/agent/pod-manifests/{component}.yaml");
    let text = format!(
        "spec:\n  containers:\n  - name: {component}\n    command: [{component}]\n    args: [--profiling=false, {argument}]\n"
    );
    place.write(&path, text);
}

fn code(outcome: &ProbeOutcome) -> Option<Code> {
    match outcome {
        ProbeOutcome::Failed { code, .. } => *code,
        other => panic!("expected a failure, not {other:?}"),
    }
}

#[tokio::test]
async fn a_server_without_the_static_pod_is_not_asked() {
    let place = TestNode::new();
    for component in [MANAGER, SCHEDULER] {
        let outcome = control_loop(&place.context(), component, "n1").await;
        assert!(unknown(&outcome).contains("no static pod"), "{outcome:?}");
    }
}

#[tokio::test]
async fn the_components_own_health_decides_and_its_port_is_that_of_its_static_pod() {
    let mut place = TestNode::new();
    lay_pod(&place, SCHEDULER, "--leader-elect=true");
    let healthy = TestServer::https(|target| match target {
        "/healthz" => ServerReply::ok("ok"),
        _ => ServerReply::Http(404, String::new()),
    })
    .await;
    place.endpoints.scheduler.clone_from(&healthy.url);
    let context = place.context();
    assert_eq!(
        control_loop(&context, SCHEDULER, "n1").await,
        ProbeOutcome::Passed
    );
    place.endpoints.scheduler = "https://127.0.0.1:1".to_owned();
    let (_, port) = healthy.url.rsplit_once(':').unwrap();
    lay_pod(&place, SCHEDULER, &format!("--secure-port={port}"));
    let context = place.context();
    assert_eq!(
        control_loop(&context, SCHEDULER, "n1").await,
        ProbeOutcome::Passed
    );
    lay_pod(&place, SCHEDULER, "--secure-port=0");
    let off = control_loop(&context, SCHEDULER, "n1").await;
    assert!(unknown(&off).contains("secure-port=0"), "{off:?}");
}

#[tokio::test]
async fn where_no_other_server_leads_a_component_that_is_down_stops_the_whole_cluster() {
    let lease = |holder: &str, at: Timestamp| {
        let lease =
            format!(r#"{{"spec": {{"holderIdentity": "{holder}_1", "renewTime": "{at}"}}}}"#);
        ServerReply::ok(&lease)
    };
    let now = Timestamp::now();
    let stopped = Some(Code::NoActiveLeader);
    for (reply, expected) in [
        (lease("host2", now), None),
        (lease("host1", now), stopped),
        (
            lease("host2", now - jiff::SignedDuration::from_mins(3)),
            stopped,
        ),
        (ServerReply::Http(404, String::new()), stopped),
        // Windrow cannot tell whether another one leads.
        (ServerReply::Http(503, String::new()), None),
    ] {
        let place = TestNode::new();
        place.write("/proc/sys/kernel/hostname", "host1\n");
        lay_pod(&place, MANAGER, "--leader-elect=true");
        let shown = format!("{reply:?}");
        let server = TestServer::http(move |_| reply.clone()).await;
        place.admin(&server);
        let outcome = control_loop(&place.context(), MANAGER, "n1").await;
        assert_eq!(code(&outcome), expected, "{shown}");
        let asked = server.asked().join("");
        let path = "/namespaces/kube-system/leases/kube-controller-manager ";
        assert!(asked.contains(path), "{asked}");
    }
}
