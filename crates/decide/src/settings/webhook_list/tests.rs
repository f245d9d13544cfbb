//! Reading a list of webhooks, and the messages about invalid ones.

use super::*;

fn ours(text: &str) -> WebhookList {
    read_webhooks(
        "windrow.yaml",
        &yaml::parse_configuration(text).unwrap().unwrap(),
    )
}

fn messages(listed: &WebhookList) -> Vec<String> {
    listed.errors.iter().map(ToString::to_string).collect()
}

#[test]
fn a_webhook_is_read_with_everything_it_says() {
    let listed = ours(
        "- event: NODE_READY\n  method: put\n  headers: {X-Rack: [r1, r2], X-One: one}\n  \
         url: https://console.example:8443/n/{{.Hostname}}?t=secret\n  \
         payload: 'ready {{.IPAddrV4}}'\n  insecure: true\n  \
         basicAuth: {user: ann, password: secret}\n  every: 5m\n- {event: NODE_FAILED, url: 'http://c'}\n",
    );
    assert_eq!(messages(&listed), [""; 0]);
    let hook = &listed.hooks[0];
    assert_eq!(hook.at, Location::line("windrow.yaml", 1));
    assert_eq!(
        (hook.event, hook.method.as_str()),
        (WebhookEvent::NodeReady, "PUT")
    );
    assert_eq!(hook.headers.len(), 3);
    assert!(hook.insecure && hook.payload.is_some());
    assert_eq!(hook.every, Some(Duration::from_secs(300)));
    assert_eq!(
        hook.basic_auth,
        Some(("ann".to_owned(), "secret".to_owned()))
    );
    assert_eq!(hook.console(), "https://console.example:8443");
    let shown = format!("{listed:?}");
    assert!(
        !shown.contains("secret") && !shown.contains("ann"),
        "{shown}"
    );
    let other = &listed.hooks[1];
    assert_eq!(other.method, "POST");
    assert!(other.payload.is_none() && other.basic_auth.is_none() && !other.insecure);
    assert_eq!(other.every, None);
}

#[test]
fn how_often_an_event_is_sent_again_has_bounds_and_is_no_word_of_harvesters() {
    for (every, expected) in [
        (
            "9s",
            "webhooks[0].every: 9s is too short: write 10s or more",
        ),
        ("25h", "webhooks[0].every: write 24h or less"),
        ("often", "webhooks[0].every: "),
        ("[60s]", "webhooks[0].every: expected a duration"),
    ] {
        let listed = ours(&format!(
            "- {{event: NODE_SEEN, url: 'http://c', every: {every}}}\n"
        ));
        assert!(listed.hooks.is_empty(), "{every}");
        let said = messages(&listed);
        assert!(said[0].contains(expected), "{said:?}");
    }
    for every in ["10s", "24h"] {
        let listed = ours(&format!(
            "- {{event: NODE_SEEN, url: 'http://c', every: {every}}}\n"
        ));
        assert_eq!(messages(&listed), [""; 0]);
    }
    let text = "install: {webhooks: [{event: NODE_SEEN, url: 'http://c', every: 60s}]}\n";
    let listed = read_harvesters_webhooks("x", text);
    let said = messages(&listed);
    assert!(said[0].contains("every: unknown key"), "{said:?}");
}

#[test]
fn what_is_wrong_with_one_webhook_is_named_with_its_line_and_the_others_stay() {
    let listed = ours(
        "- event: NODE_RAEDY\n  url: http://c\n- event: NODE_READY\n  url: ftp://c\n  methd: GET\n\
         - url: http://c\n- event: STARTED\n  url: http://c\n- event: NODE_READY\n  \
         url: 'http://c/{{.Nothing}}'\n  payload: '{{if .Hostname}}'\n  method: CONNECT\n  \
         headers: {'a b': x}\n  insecure: maybe\n  basicAuth: {user: 1, pass: geheim}\n\
         - event: NODE_READY\n- just text\n- {event: NODE_READY, url: 'http://good'}\n",
    );
    assert_eq!(listed.hooks.len(), 1);
    let said = messages(&listed);
    for expected in [
        "windrow.yaml:1: webhooks[0].event: expected one of NODE_READY, ",
        "windrow.yaml:4: webhooks[1].url: it has to begin with http://",
        "windrow.yaml:5: webhooks[1].methd: unknown key: did you mean `method`?",
        "windrow.yaml:6: webhooks[2].event: it is missing",
        "windrow.yaml:7: webhooks[3].event: STARTED is sent only by Harvester's installer",
        "windrow.yaml:10: webhooks[4].url: there is no field .Nothing",
        "windrow.yaml:11: webhooks[4].payload: the Go template action {{if .Hostname}}",
        "windrow.yaml:12: webhooks[4].method: expected one of POST",
        "windrow.yaml:13: webhooks[4].headers: a header",
        "windrow.yaml:14: webhooks[4].insecure: expected true or false",
        "windrow.yaml:15: webhooks[4].basicAuth: user has to be a text",
        "windrow.yaml:15: webhooks[4].basicAuth: unknown key `pass`",
        "windrow.yaml:16: webhooks[5].url: it is missing",
        "windrow.yaml:17: webhooks[6]: expected a map",
    ] {
        assert!(
            said.iter().any(|said| said.starts_with(expected)),
            "missing: {expected}\nsaid: {said:#?}"
        );
    }
    assert_eq!(said.len(), 14, "{said:#?}");
    assert!(!said.iter().any(|said| said.contains("geheim")));
    assert!(!ours("a: b\n").errors.is_empty());
    assert!(ours("null\n").errors.is_empty());
}

#[test]
fn one_certificate_may_be_named_in_any_usual_form_and_only_where_one_is_checked() {
    let digest = "9F:86".to_owned() + &":ab".repeat(30);
    let listed = ours(&format!(
        "- {{event: NODE_SEEN, url: 'https://c', fingerprint: '{digest}'}}\n\
         - {{event: NODE_SEEN, url: 'https://c', fingerprint: 9f86}}\n\
         - {{event: NODE_SEEN, url: 'https://c', insecure: true, fingerprint: '{digest}'}}\n\
         - {{event: NODE_SEEN, url: 'http://c', fingerprint: '{digest}'}}\n",
    ));
    assert_eq!(listed.hooks.len(), 1);
    let pinned = "9f86".to_owned() + &"ab".repeat(30);
    assert_eq!(listed.hooks[0].fingerprint, Some(pinned));
    let said = messages(&listed);
    for (said, expected) in said.iter().zip([
        "windrow.yaml:2: webhooks[1].fingerprint: expected the SHA-256",
        "windrow.yaml:3: webhooks[2].fingerprint: `insecure: true` checks no certificate",
        "windrow.yaml:4: webhooks[3].fingerprint: plain HTTP has no certificate",
    ]) {
        assert!(said.starts_with(expected), "{said}");
    }
    assert_eq!(said.len(), 3, "{said:#?}");
}

#[test]
fn harvesters_own_file_is_read_in_lower_case_and_its_own_events_are_left_to_it() {
    let text = "schemeversion: 1\ninstall:\n  mode: create\n  webhooks:\n  - event: STARTED\n    \
                url: 'http://c/{{if}}'\n  - event: NODE_READY\n    method: POST\n    headers: {}\n    \
                url: http://c/{{.Hostname}}\n    payload: \"\"\n    insecure: true\n    \
                basicauth:\n      user: ann\n      password: secret\n  - event: OTHER\n    \
                method: GET\n    url: http://c\n";
    let listed = read_harvesters_webhooks("/oem/harvester.config", text);
    assert_eq!(listed.hooks.len(), 1);
    let hook = &listed.hooks[0];
    assert!(hook.insecure && hook.basic_auth.is_some() && hook.payload.is_none());
    let said = messages(&listed);
    assert_eq!(said.len(), 1, "{said:?}");
    assert!(said[0].starts_with("/oem/harvester.config:16: install.webhooks[2].event:"));
    assert!(read_harvesters_webhooks("x", "a: [").hooks.is_empty());
    assert!(
        read_harvesters_webhooks("x", "install: {mode: create}\n")
            .hooks
            .is_empty()
    );
}

#[test]
fn an_address_with_a_login_in_it_is_refused_with_its_line_and_not_shown() {
    for url in [
        "https://usr:geheim/tail@host",
        "https://geheim@host/{{.Hostname}}",
    ] {
        let listed = ours(&format!("- event: NODE_READY\n  url: '{url}'\n"));
        assert!(listed.hooks.is_empty());
        let said = messages(&listed);
        assert_eq!(said.len(), 1, "{said:?}");
        assert!(
            said[0].starts_with("windrow.yaml:2: webhooks[0].url: a user or a password"),
            "{said:?}"
        );
        assert!(
            said[0].contains("basicAuth") && !said[0].contains("geheim"),
            "{said:?}"
        );
    }
}

#[test]
fn there_is_a_bound() {
    let many = "- {event: NODE_READY, url: 'http://c'}\n".repeat(40);
    let listed = ours(&many);
    assert_eq!(listed.hooks.len(), MOST);
    assert_eq!(listed.errors.len(), 8);
}

#[test]
fn a_credential_that_stands_in_the_wrong_place_is_in_no_message() {
    let listed = ours(
        "- event: NODE_READY\n  url: http://c\n  headers: {'Authorization: Bearer Xq1abc': ['']}\n\
         - event: NODE_READY\n  url: http://c\n  headers: {'X-Key: Xq1abc': ''}\n\
         - event: NODE_READY\n  url: http://c\n  headers: {'Xq1abc d': ''}\n\
         - event: NODE_READY\n  url: http://c\n  payload: '{{printf \"Xq1abc\"}}'\n",
    );
    let said = messages(&listed);
    assert_eq!(said.len(), 4, "{said:?}");
    assert!(!said.concat().contains("Xq1"), "{said:?}");
    assert!(said[0].contains("Authorization: not the name"), "{said:?}");
}
