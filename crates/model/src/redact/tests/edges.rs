//! What is easily let through, or taken out though it is public: at the edges of each rule.

use serde_json::json;

use super::{text, value};
use crate::redact::{Learner, REDACTED, message, messages, quoted, tells_a_secret};

const HEXADECIMAL: &str = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855";

#[test]
fn conditions_and_items_of_an_object_quote_no_values_either() {
    let said = r#"spec.password: Invalid value: "hunter2": too short"#;
    let shown = "spec.password: Invalid value: [redacted]: too short";
    let object = |said: &str| {
        json!({
            "message": said,
            "note": "untouched",
            "status": {
                "conditions": [{"type": "Ready", "message": said}],
                "lastError": said,
                "inner": {"deep": [{"errorMessage": said}]},
            },
        })
    };
    let mut found = json!({"items": [object(said)], "status": {"message": said}});
    messages(&mut found);
    assert_eq!(
        found,
        json!({"items": [object(shown)], "status": {"message": shown}})
    );
}

#[test]
fn under_a_field_that_names_something_only_a_name_is_shown() {
    for hidden in [
        "hunter2 and more",
        "hunter2!",
        "hunter2&x=y",
        &"n".repeat(254),
    ] {
        let said = format!("metadata.name: Invalid value: {hidden:?}: not a name");
        assert!(!message(&said).contains(hidden), "{}", message(&said));
    }
    let longest = format!(
        "metadata.name: Invalid value: \"{}\": too long",
        "n".repeat(253)
    );
    assert_eq!(message(&longest), longest);
}

#[test]
fn a_digest_tells_no_secret_and_a_row_of_digits_may() {
    let digest = format!("sha256:{HEXADECIMAL}");
    for public in [
        digest.as_str(),
        &format!("docker.io/rancher/harvester@{digest}"),
        "kube-system",
    ] {
        assert!(!tells_a_secret(public), "{public}");
    }
    for secret in [HEXADECIMAL, "token=geheim", "K8x3Qm9Zr2Vt7Yb1Nc5L"] {
        assert!(tells_a_secret(secret), "{secret}");
    }
}

#[test]
fn an_error_quotes_names_and_few_words_and_of_the_rest_the_length() {
    assert_eq!(quoted("kube-system"), "`kube-system`");
    assert_eq!(quoted(&"a".repeat(60)), format!("`{}`", "a".repeat(60)));
    assert_eq!(quoted(&"a".repeat(61)), "a text of 61 characters");
    assert_eq!(quoted("a\nb"), "a text of 3 characters");
    assert_eq!(quoted("K8x3Qm9Zr2Vt7Yb1Nc5L"), "a text of 20 characters");
    assert_eq!(quoted("über{}"), "a text of 6 characters");
}

#[test]
fn what_stands_within_the_data_of_a_secret_is_known_elsewhere() {
    let inner = "Zr2Vt7-Yb1Nc5-Qm9";
    let mut learner = Learner::default();
    learner.value(&json!({
        "apiVersion": "v1", "kind": "Secret",
        "stringData": {"config": format!("user: ann\npassword: {inner}\n")},
    }));
    let line = format!("login with {inner} failed");
    assert_eq!(
        learner.redactor().text(&line),
        "login with [redacted] failed"
    );
}

#[test]
fn a_line_of_any_length_and_any_letters_is_looked_at() {
    for before in ["", "x", "xx", "xxx"] {
        let long = format!("{}{before} ", "€".repeat(3_000));
        assert_eq!(
            text(&format!("{long}token=abc end")),
            format!("{long}token=[redacted] end")
        );
    }
}

#[test]
fn a_value_ends_where_its_own_quotation_ends_and_nowhere_else() {
    for (before, after) in [
        // An apostrophe within a word opens no quotation.
        (
            "the node's token: ab'cd ef",
            "the node's token: [redacted] ef",
        ),
        ("it's 'token=abc' here", "it's 'token=[redacted]' here"),
        // What closes the quotation around it is no value.
        ("x='password=' user=ann", "x='password=' user=ann"),
        ("'password=abc' user=ann", "'password=[redacted]' user=ann"),
    ] {
        assert_eq!(text(before), after, "{before}");
    }
}

#[test]
fn annotations_of_a_secret_are_hidden_but_for_those_that_say_whose_it_is() {
    let shown = value(&json!({
        "apiVersion": "v1", "kind": "Secret",
        "metadata": {"name": "s", "annotations": {
            "example.com/copy": "geheim",
            "reflector.example.com/payload": "{\"pin\": \"geheim\"}",
            "meta.helm.sh/release-name": "store",
            "windrow.dev/hold": "not today",
        }},
    }));
    assert_eq!(
        shown["metadata"]["annotations"],
        json!({
            "example.com/copy": REDACTED,
            "reflector.example.com/payload": REDACTED,
            "meta.helm.sh/release-name": "store",
            "windrow.dev/hold": "not today",
        })
    );
}

#[test]
fn of_a_webhooks_address_no_part_of_the_path_is_shown_however_short_its_host() {
    for (url, shown) in [
        ("https://a/hook/x9/y8", "https://a/[redacted]"),
        ("http://a.b/hook?x=1", "http://a.b/[redacted]"),
        ("a.b/hook", "a.b/[redacted]"),
        ("https://a.b:8443", "https://a.b:8443"),
        ("https://a.b/", "https://a.b/"),
    ] {
        let hook = json!({"event": "NODE_READY", "url": url});
        assert_eq!(value(&hook)["url"], shown, "{url}");
    }
}
