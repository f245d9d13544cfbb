//! What the API does.

use super::outlets::compare;
use super::*;

#[test]
fn all_well() {
    let Some(node) = node() else { return };
    let machine = ready(node);
    compare(
        &machine,
        "Everything works",
        "Every part of the node responds, and every manifest is applied.",
    );
}

#[test]
fn an_api_that_does_not_answer_yet() {
    let Some(node) = bare_node() else { return };
    // RKE2's unit becomes active when its API answers.
    let machine = boot(node.file("/etc/rke2-wait", ""));
    rest_of_rke2::start(&machine);
    wait_reason(&machine, "rke-service-down");
    compare(
        &machine,
        "The API is not available yet",
        "RKE2 was started, but its unit is not active yet. kube-apiserver refuses connections.",
    );
}

#[test]
fn an_api_that_went_away() {
    let Some(node) = node() else { return };
    let machine = ready(node);
    machine.sh("pkill -STOP -x rke2-standin; pkill -KILL -x kube-apiserver");
    wait_readiness(&machine, "Failed");
    compare(
        &machine,
        "The API has stopped",
        "The node was Ready. kube-apiserver has exited, and RKE2 does not restart it.",
    );
}

#[test]
fn an_api_that_is_too_slow_to_answer() {
    let Some(node) = node() else { return };
    let machine = ready(node);
    machine.sh("pkill -STOP kube-apiserver");
    wait_status(&machine, "no longer Ready", |status| {
        status["readiness"] != "Ready"
    });
    compare(
        &machine,
        "The API takes too long to answer",
        "kube-apiserver accepts connections, but answers no request in time.",
    );
}

#[test]
fn a_certificate_that_has_expired() {
    let Some(node) = node() else { return };
    let machine = ready(node);
    let mut expired =
        rcgen::CertificateParams::new(vec!["rack7".to_owned()]).expect("a certificate");
    expired.not_after = rcgen::date_time_ymd(2026, 1, 1);
    expired.not_before = rcgen::date_time_ymd(2025, 1, 1);
    let key = rcgen::KeyPair::generate().expect("a key");
    let certificate = expired.self_signed(&key).expect("a certificate");
    machine.write("/root/tls/server-ca.crt", &certificate.pem());
    machine.sh("systemctl restart windrow.service");
    wait_readiness(&machine, "Degraded");
    compare(
        &machine,
        "A certificate of RKE2 has expired",
        "A certificate below RKE2's data directory is no longer valid.",
    );
}
