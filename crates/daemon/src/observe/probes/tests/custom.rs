//! Configured probes, against servers, files and units that misbehave.

use std::time::Duration;

use jiff::SignedDuration;
use windrow_plan::readiness::node::{
    CustomProbe, CustomQuestion, FileQuestion, HttpQuestion, ObjectQuestion, Phase, ProbeSeverity,
};
use windrow_plan::rules::Expression;

use super::*;
use crate::observe::probes::custom;
use crate::observe::probes::looks::Looks;
use crate::testing::hide;
use crate::testing::replies::{ServerReply, TestServer};

pub(super) fn probe(question: CustomQuestion) -> CustomProbe {
    CustomProbe {
        name: "mine".to_owned(),
        question,
        period: Duration::from_secs(30),
        timeout: Duration::from_secs(20),
        rise: 1,
        fall: 1,
        severity: ProbeSeverity::Wanted,
        roles: vec![NodeRole::FirstServer],
        phase: Phase::Node,
        message: None,
    }
}

async fn ask(place: &TestNode, question: CustomQuestion) -> ProbeOutcome {
    custom::ask(
        &place.context(),
        &Looks::default(),
        NodeRole::FirstServer,
        "n1",
        &probe(question),
    )
    .await
}

fn http(url: &str) -> HttpQuestion {
    HttpQuestion {
        url: url.to_owned(),
        status: Vec::new(),
        contains: None,
        ca_file: None,
        insecure: false,
        headers_file: None,
    }
}

fn file(path: &str) -> FileQuestion {
    FileQuestion {
        path: path.to_owned(),
        exists: true,
        contains: None,
        newer_than: None,
    }
}

fn object(api_version: &str, kind: &str, name: &str, expression: &str) -> CustomQuestion {
    CustomQuestion::Object(ObjectQuestion {
        api_version: api_version.to_owned(),
        kind: kind.to_owned(),
        namespace: Some("web".to_owned()),
        name: (!name.is_empty()).then(|| name.to_owned()),
        expression: (!expression.is_empty()).then(|| Expression::compile(expression).unwrap()),
    })
}

#[tokio::test]
async fn an_answer_over_http_has_to_have_the_status_and_the_text() {
    let place = TestNode::new();
    let server = TestServer::http(|target| match target {
        "/ok" => ServerReply::ok("all is well"),
        "/login" => ServerReply::Http(401, String::new()),
        "/moved" => ServerReply::Http(302, String::new()),
        _ => ServerReply::Http(503, String::new()),
    })
    .await;
    let at = |path: &str| http(&format!("{}{path}", server.url));
    let ask = async |question| ask(&place, CustomQuestion::Http(question)).await;
    assert_eq!(ask(at("/ok")).await, ProbeOutcome::Passed);
    assert_eq!(failed(&ask(at("/other")).await), "HTTP 503");
    assert_eq!(failed(&ask(at("/moved")).await), "HTTP 302", "not followed");
    // Refused: the state is unknown, unless the probe expects a refusal.
    assert!(unknown(&ask(at("/login")).await).ends_with("HTTP 401"));
    let mut expected = at("/login");
    expected.status = vec![200, 401];
    assert_eq!(ask(expected).await, ProbeOutcome::Passed);
    let mut text = at("/ok");
    text.contains = Some("is well".to_owned());
    assert_eq!(ask(text.clone()).await, ProbeOutcome::Passed);
    text.contains = Some("is bad".to_owned());
    assert!(failed(&ask(text).await).contains("does not contain `is bad`"));
    let refused = ask(http("http://127.0.0.1:1/")).await;
    assert_eq!(failed(&refused), "127.0.0.1:1 refuses connections");
}

#[tokio::test]
async fn headers_come_from_a_file_and_neither_they_nor_a_query_are_ever_told() {
    let place = TestNode::new();
    let server = TestServer::http(|_| ServerReply::Http(403, String::new())).await;
    let mut question = http(&format!("{}/v2/?token=s3cret", server.url));
    question.headers_file = Some("/etc/windrow/h".to_owned());
    let missing = ask(&place, CustomQuestion::Http(question.clone())).await;
    assert!(unknown(&missing).contains("headersFile /etc/windrow/h"));
    place.write(
        "/etc/windrow/h",
        "# who I am\nAuthorization: Bearer s3cret\nX-Site: rack 7\n",
    );
    let refused = ask(&place, CustomQuestion::Http(question.clone())).await;
    assert!(!format!("{refused:?}").contains("s3cret"), "{refused:?}");
    let asked = server.asked().join("\n").to_lowercase();
    assert!(asked.contains("authorization: bearer s3cret"), "{asked}");
    assert!(asked.contains("x-site: rack 7"), "{asked}");
    place.write("/etc/windrow/h", "Authorization: ok\ns3cret\n");
    let wrong = unknown(&ask(&place, CustomQuestion::Http(question)).await);
    assert!(wrong.contains("line 2 is not"), "{wrong}");
    assert!(!wrong.contains("s3cret"), "{wrong}");
}

#[tokio::test]
async fn a_certificate_is_checked_unless_it_is_said_that_it_is_not() {
    let place = TestNode::new();
    let (server, certificate) = TestServer::https_as("127.0.0.1", |_| ServerReply::ok("ok")).await;
    let mut question = http(&server.url);
    let distrusted = ask(&place, CustomQuestion::Http(question.clone())).await;
    assert_ne!(distrusted, ProbeOutcome::Passed);
    question.ca_file = Some("/etc/ca.pem".to_owned());
    let missing = ask(&place, CustomQuestion::Http(question.clone())).await;
    assert!(unknown(&missing).contains("caFile /etc/ca.pem"));
    place.write("/etc/ca.pem", "no certificate\n");
    let empty = ask(&place, CustomQuestion::Http(question.clone())).await;
    assert!(unknown(&empty).contains("caFile /etc/ca.pem"));
    place.write("/etc/ca.pem", certificate);
    let trusted = ask(&place, CustomQuestion::Http(question.clone())).await;
    assert_eq!(trusted, ProbeOutcome::Passed);
    question.ca_file = None;
    question.insecure = true;
    assert_eq!(
        ask(&place, CustomQuestion::Http(question)).await,
        ProbeOutcome::Passed
    );
}

#[tokio::test]
async fn a_server_that_is_silent_has_failed_and_one_that_talks_nonsense_is_not_known() {
    let place = TestNode::new();
    let silent = TestServer::http(|_| ServerReply::Nothing).await;
    let mut late = probe(CustomQuestion::Http(http(&silent.url)));
    late.timeout = Duration::from_secs(1);
    let outcome = custom::ask(
        &place.context(),
        &Looks::default(),
        NodeRole::FirstServer,
        "n1",
        &late,
    )
    .await;
    assert_eq!(failed(&outcome), "no answer within 1 s");
    let garbage = TestServer::http(|_| ServerReply::Garbage).await;
    let outcome = ask(&place, CustomQuestion::Http(http(&garbage.url))).await;
    unknown(&outcome);
}

#[tokio::test]
async fn a_port_has_to_be_listened_at_and_the_message_is_the_authors() {
    let place = TestNode::new();
    let server = TestServer::http(|_| ServerReply::ok("")).await;
    let at = |port| CustomQuestion::Tcp {
        host: "127.0.0.1".to_owned(),
        port,
    };
    assert_eq!(ask(&place, at(server.port)).await, ProbeOutcome::Passed);
    let mut unreachable = probe(at(1));
    unreachable.message = Some("the SAN is gone, call storage".to_owned());
    let outcome = custom::ask(
        &place.context(),
        &Looks::default(),
        NodeRole::FirstServer,
        "n1",
        &unreachable,
    )
    .await;
    let said = failed(&outcome);
    assert!(
        said.starts_with("the SAN is gone, call storage (127.0.0.1:1 refuses "),
        "{said}"
    );
}

#[tokio::test]
async fn a_file_is_there_or_not_says_something_and_is_new() {
    let place = TestNode::new();
    let ask = async |question| ask(&place, CustomQuestion::File(question)).await;
    let mut absent = file("/run/maintenance");
    assert_eq!(
        failed(&ask(absent.clone()).await),
        "there is no /run/maintenance"
    );
    absent.exists = false;
    assert_eq!(ask(absent.clone()).await, ProbeOutcome::Passed);
    let path = place.write("/run/maintenance", "planned");
    assert_eq!(failed(&ask(absent).await), "/run/maintenance is there");
    let mut text = file("/run/maintenance");
    text.contains = Some("plan".to_owned());
    assert_eq!(ask(text.clone()).await, ProbeOutcome::Passed);
    text.contains = Some("plane".to_owned());
    assert!(failed(&ask(text).await).contains("does not contain"));
    // Only the beginning of a large file is read.
    for (length, is_found) in [(250 << 10, true), (256 << 10, false)] {
        place.write("/run/large", "-".repeat(length) + "the end");
        let mut large = file("/run/large");
        large.contains = Some("the end".to_owned());
        assert_eq!(
            ask(large).await == ProbeOutcome::Passed,
            is_found,
            "{length}"
        );
    }
    let mut new = file("/run/maintenance");
    new.newer_than = Some(Duration::from_secs(3600));
    assert_eq!(ask(new.clone()).await, ProbeOutcome::Passed);
    let long_ago = Timestamp::now() - SignedDuration::from_hours(2);
    let written = fs::File::options().write(true).open(&path).unwrap();
    written.set_modified(long_ago.into()).unwrap();
    assert!(failed(&ask(new).await).contains("not written for too long"));
    // Links that lead to each other: whether there is a file is unknown.
    std::os::unix::fs::symlink("loop", place.layout().path("/run/loop")).unwrap();
    let mut endless = file("/run/loop");
    for exists in [true, false] {
        endless.exists = exists;
        unknown(&ask(endless.clone()).await);
    }
    // A directory that the sandbox of the unit hides.
    let _hidden = hide(&place.layout().path("/root"));
    let mut hidden = file("/root/done");
    for exists in [true, false] {
        hidden.exists = exists;
        assert!(unknown(&ask(hidden.clone()).await).contains("sandbox"));
    }
    // A FIFO would block a reader forever.
    let fifo = place.layout().path("/run/fifo");
    nix::unistd::mkfifo(&fifo, nix::sys::stat::Mode::S_IRWXU).unwrap();
    let mut hangs = file("/run/fifo");
    hangs.contains = Some("x".to_owned());
    assert!(unknown(&ask(hangs).await).contains("not a regular file"));
}

fn api(target: &str) -> ServerReply {
    match target {
        "/apis/apps/v1" => ServerReply::ok(
            r#"{"resources": [{"name": "deployments/scale", "kind": "Deployment", "namespaced": true},
                              {"name": "deployments", "kind": "Deployment", "namespaced": true}]}"#,
        ),
        "/api/v1" => ServerReply::ok(
            r#"{"resources": [{"name": "nodes", "kind": "Node", "namespaced": false}]}"#,
        ),
        "/apis/apps/v1/namespaces/web/deployments/proxy"
        | "/api/v1/namespaces/web/services/proxy" => {
            ServerReply::ok(r#"{"status": {"availableReplicas": 2}}"#)
        }
        "/api/v1/nodes/n1" => ServerReply::ok(r#"{"metadata": {"labels": {"gpu": "yes"}}}"#),
        _ => ServerReply::Http(404, "{}".to_owned()),
    }
}

#[tokio::test]
async fn an_object_is_found_by_its_kind_and_judged_by_an_expression() {
    let place = TestNode::new();
    let server = TestServer::http(api).await;
    place.admin(&server);
    let of = |expression: &str| object("apps/v1", "Deployment", "proxy", expression);
    assert_eq!(ask(&place, of("")).await, ProbeOutcome::Passed);
    let more = "object.status.availableReplicas > 1";
    assert_eq!(ask(&place, of(more)).await, ProbeOutcome::Passed);
    let said = ask(&place, of("object.status.availableReplicas > 2")).await;
    assert!(failed(&said).ends_with("is not as the probe's expression wants"));
    let said = ask(&place, of("object.status.ready > 2")).await;
    assert!(
        failed(&said).contains("`ready` is not there yet"),
        "{said:?}"
    );
    let said = ask(
        &place,
        of("object.status.availableReplicas.startsWith('x')"),
    )
    .await;
    unknown(&said);
    let gone = ask(&place, object("apps/v1", "Deployment", "gone", "")).await;
    assert_eq!(failed(&gone), "there is no Deployment gone");
    let kind = ask(&place, object("apps/v1", "Deploymint", "x", "")).await;
    assert_eq!(failed(&kind), "apps/v1 has no kind Deploymint");
    let version = ask(&place, object("apps/v9", "Deployment", "x", "")).await;
    assert_eq!(failed(&version), "apps/v9 is not served");
    let own = ask(
        &place,
        object("v1", "Node", "", "'gpu' in object.metadata.labels"),
    )
    .await;
    assert_eq!(own, ProbeOutcome::Passed);
}

#[tokio::test]
async fn a_node_asks_with_its_identity_what_it_may_and_nothing_else() {
    let place = TestNode::new();
    let server = TestServer::http(api).await;
    place.identity(&server);
    let context = place.context();
    let ask = async |question| {
        custom::ask(
            &context,
            &Looks::default(),
            NodeRole::Agent,
            "n1",
            &probe(question),
        )
        .await
    };
    let service = ask(object("v1", "Service", "proxy", "")).await;
    assert_eq!(service, ProbeOutcome::Passed);
    assert_eq!(
        ask(object("v1", "Node", "", "")).await,
        ProbeOutcome::Passed
    );
    let before = server.asked().len();
    for question in [
        object("apps/v1", "Deployment", "proxy", ""),
        object("v1", "Node", "n2", ""),
        object("v1", "Pod", "x", ""),
        object("example.com/v1", "Service", "x", ""),
    ] {
        assert!(unknown(&ask(question).await).contains("not asked"));
    }
    assert_eq!(server.asked().len(), before);
}
