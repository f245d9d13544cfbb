use proptest::prelude::*;

use super::*;

const ROOM: usize = 65;

fn said(headline: &str, without_step: &str, reason: &str) -> String {
    said_of(Code::NodeNotReady, headline, without_step, reason)
}

fn said_of(code: Code, headline: &str, without_step: &str, reason: &str) -> String {
    let headlines = Headlines {
        whole: headline.to_owned(),
        without_step: without_step.to_owned(),
        without_time: without_step.to_owned(),
    };
    fit(&headlines, code, reason, ROOM)
}

#[test]
fn for_how_long_is_left_out_where_the_reason_cannot_be_read_beside_it() {
    let headlines = Headlines {
        whole: "Setting up node (23 min)".to_owned(),
        without_step: "Setting up node (23 min)".to_owned(),
        without_time: "Setting up node".to_owned(),
    };
    let said = |reason: &str| fit(&headlines, Code::NodeNotReady, reason, ROOM);
    assert_eq!(
        said("system-upgrade-controller is not ready yet"),
        "Setting up node: system-upgrade-controller is not ready yet"
    );
    assert_eq!(
        said("the Deployment shop/frontend-site1 is not ready yet"),
        "Setting up node: the Deployment shop/frontend-site1 is not ready"
    );
    assert_eq!(
        said("rke2 is not ready yet"),
        "Setting up node (23 min): rke2 is not ready yet"
    );
}

#[test]
fn of_an_incident_the_general_comes_first() {
    let reason = "the kubelet of node n1 is stuck: the certificate has run out";
    let word = "Setting up node";
    let general = "Setting up node: the kubelet of node n1 is stuck";
    assert_eq!(said_of(Code::EtcdLearner, word, word, reason), general);
    assert_ne!(said_of(Code::NodeNotReady, word, word, reason), general);
}

#[test]
fn of_two_halves_the_first_says_enough() {
    let word = "Ready";
    let reason = "first-machine.yaml is held by somebody else; every required probe passes";
    assert_eq!(
        said(word, word, reason),
        "Ready: first-machine.yaml is held by somebody else"
    );
    let reason = "RKE2 does not run: no default route; rke2-server crashes again and again";
    let full = "Setting up (api, 23 min, stalled)";
    assert_eq!(
        said(full, "Setting up (23 min, stalled)", reason),
        "Setting up (api, 23 min, stalled): no default route"
    );
    assert_eq!(
        said("Setting up (api)", "Setting up", reason),
        "Setting up: no default route; rke2-server crashes again and again"
    );
}

#[test]
fn the_particular_stands_alone_where_both_do_not_fit_and_it_is_a_sentence() {
    for (headline, reason, line) in [
        (
            "Setting up node",
            "a certificate runs out: server-ca.crt has run out",
            "Setting up node: server-ca.crt has run out",
        ),
        (
            "Setting up (api)",
            "RKE2 does not run: rke2-server.service is starting (start)",
            "Setting up (api): rke2-server.service is starting",
        ),
        (
            "Failed (api)",
            "kube-apiserver is not ready: 127.0.0.1:6443 refuses connections",
            "Failed (api): kube-apiserver (:6443) refuses connections",
        ),
        (
            "Setting up (api, 23 min, stalled)",
            "kube-apiserver is not ready: 127.0.0.1:6443 refuses connections",
            "Setting up: kube-apiserver (:6443) refuses connections",
        ),
        (
            "Setting up (api, 3 min)",
            "RKE2's supervisor does not answer: 127.0.0.1:9345 refuses connections",
            "Setting up: RKE2's supervisor (:9345) refuses connections",
        ),
        // The address of another node shows where to look.
        (
            "Setting up (api, 3 min)",
            "the VIP does not answer on its ports: 192.0.2.222:9345 refuses connections",
            "Setting up (api, 3 min): 192.0.2.222:9345 refuses connections",
        ),
        (
            "Unknown (refused, node, 4 min)",
            "node is not known: forbidden to read nodes (GET /api/v1/nodes/n1 as system:node:n1: HTTP 403)",
            "Unknown (refused, node, 4 min): forbidden to read nodes",
        ),
        // A reader without the context would have to ask: what does?
        (
            "Setting up node (of a node with a long name)",
            "this node has no vote in etcd: it has been a learner for 25 min",
            "Setting up node: this node has no vote in etcd",
        ),
        (
            "Setting up (harvester-chart, 20+ min, stalled)",
            "the VIP does not answer: no answer within 4 s",
            "Setting up: the VIP does not answer: no answer within 4 s",
        ),
        // Without its file, it has no meaning.
        (
            "Setting up (manifests)",
            "bad.yaml:3: RKE2 will refuse the whole file: line 5 is not valid YAML",
            "Setting up (manifests): bad.yaml:3: line 5 is not valid YAML",
        ),
        (
            "Setting up (manifests)",
            "RKE2 could not apply service.yaml: Applying manifest at \"/var/lib/rancher/rke2/server/manifests/service.yaml\" failed: it is invalid",
            "Setting up (manifests): RKE2 could not apply service.yaml",
        ),
    ] {
        assert_eq!(
            said(headline, headline.split(" (").next().unwrap(), reason),
            line
        );
    }
}

#[test]
fn of_something_that_is_not_known_the_cause_is_shown() {
    let headline = "Unknown (no answer, api, 3 min)";
    for (reason, line) in [
        (
            "apiserver is not known: /etc/rancher/rke2/rke2.yaml: it is empty: write a kubeconfig there, or restart RKE2 if it is RKE2's own (GET /readyz as admin)",
            "Unknown (no answer, api, 3 min): rke2.yaml: it is empty",
        ),
        (
            "apiserver is not known: /etc/rancher/rke2/rke2.yaml:1: not valid YAML; did not find expected node content (GET /readyz as admin)",
            "Unknown (no answer, api, 3 min): rke2.yaml:1: not valid YAML",
        ),
        (
            "apiserver is not known: the server's certificate is not valid yet; the clock says 2023-11-29, and the certificate begins 2026-11-28: set the clock (GET /readyz as admin)",
            "Unknown: the server's certificate is not valid yet",
        ),
        (
            "apiserver is not known: 192.0.2.222:6443: No route to host (GET /readyz as admin)",
            "Unknown: 192.0.2.222:6443: No route to host",
        ),
    ] {
        assert_eq!(said(headline, "Unknown", reason), line);
    }
}

#[test]
fn a_sentence_has_a_subject_and_a_verb() {
    for sentence in [
        "server-ca.crt has run out",
        "there is no Node n1 yet",
        "etcd, poststarthook/rbac failed",
    ] {
        assert!(stands_alone(sentence), "{sentence}");
    }
    for none in [
        "HTTP 503",
        "no answer within 4 s",
        "it has been a learner",
        "its Job failed 6 times",
        "has run out",
        "",
    ] {
        assert!(!stands_alone(none), "{none}");
    }
}

#[test]
fn what_is_in_brackets_is_one_piece() {
    assert_eq!(split("a (b: c): d", ": "), ("a (b: c)", Some("d")));
    assert_eq!(split("a) é: b: c", ": "), ("a) é", Some("b: c")));
    assert_eq!(split("a) b", ": "), ("a) b", None));
    assert_eq!(without_aside("a (b (c))"), "a");
    assert_eq!(without_aside("a (b) c"), "a (b) c");
    assert_eq!(without_aside("(b)"), "(b)");
}

proptest! {
    #[test]
    fn a_line_is_short_enough_begins_with_its_word_and_is_cut_only_where_nothing_fits(
        step in "[a-z-]{0,16}",
        general in "[a-zé]{1,12}( [a-z0-9]{1,9}){1,8}",
        particular in proptest::option::of("[a-z0-9.:]{2,20} (is|has|refuses) [a-z]{1,30}"),
        aside in proptest::option::of("[a-z: ]{0,40}"),
    ) {
        let mut reason = general.clone();
        for more in particular.iter().map(|text| format!(": {text}")).chain(aside.iter().map(|text| format!(" ({text})"))) {
            reason.push_str(&more);
        }
        let (headline, short) = (format!("Setting up ({step})"), "Setting up");
        let line = said(&headline, short, &reason);
        let chars = |text: &str| text.chars().count();
        prop_assert!(chars(&line) <= ROOM, "{}", line);
        prop_assert!(line.starts_with(short), "{}", line);
        let room = ROOM - chars(short) - 2;
        let general_fits = chars(&general) <= room;
        let particular_fits = particular.as_deref().is_some_and(|text| stands_alone(text) && chars(text) <= room);
        prop_assert_eq!(line.ends_with('…'), !(general_fits || particular_fits), "{}", line);
        // A text that fits is not changed.
        if chars(&headline) + 2 + chars(&reason) <= ROOM {
            prop_assert_eq!(&line, &format!("{}: {}", headline, reason));
        }
        // The particular part goes last.
        if particular_fits {
            prop_assert!(line.contains(particular.as_deref().unwrap_or_default()), "{}", line);
        }
    }

    #[test]
    fn any_text_makes_a_line(reason in "\\PC{0,200}", headline in "[A-Z][a-z]{1,60}") {
        let line = said(&headline, "Ready", &reason);
        prop_assert!(line.chars().count() <= ROOM, "{}", line);
    }
}
