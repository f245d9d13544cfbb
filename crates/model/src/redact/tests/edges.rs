//! What is easily let through, or taken out though it is public: at the edges of each rule.

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD_NO_PAD;
use serde_json::json;

use super::{text, value};
use crate::redact::{Learner, REDACTED, encoded, message, messages, quoted, tells_a_secret};

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

#[test]
fn both_alphabets_of_base64_are_read() {
    let bytes = Some(vec![0xff, 0xef, 0xff]);
    assert_eq!(encoded::decode(b"/+//"), bytes);
    assert_eq!(encoded::decode(b"_-__"), bytes);
    assert_eq!(encoded::decode(b"_-_*"), None);
}

#[test]
fn a_secret_is_known_in_base64_wherever_it_lies_in_the_text() {
    let secret = "geheim-und-lang-0A";
    let traces = encoded::traces(secret);
    for before in ["", "x", "xx", "xxx"] {
        let encoded = BASE64_STANDARD_NO_PAD.encode(format!("{before}{secret}yz"));
        assert!(
            traces.iter().any(|trace| encoded.contains(trace.as_str())),
            "{before}: {traces:?}"
        );
    }
    assert!(traces.iter().all(|trace| trace.len() >= secret.len()));
}

#[test]
fn a_secret_is_known_as_a_url_writes_it() {
    let mut learner = Learner::default();
    learner.secret("Zr2 Vt7/Yb1+Nc5");
    let redactor = learner.redactor();
    assert_eq!(
        redactor.text("GET /x/Zr2%20Vt7%2FYb1%2BNc5/y"),
        "GET /x/[redacted]/y"
    );
}

#[test]
fn short_numbers_are_not_searched_for_and_long_ones_are() {
    let known = |secret: &str| {
        let mut learner = Learner::default();
        learner.secret(secret);
        learner.redactor().text(&format!("it was {secret}")) != format!("it was {secret}")
    };
    assert!(!known("123456789"));
    assert!(known("1234567890"));
    assert!(known("12345678901234567890"));
}

#[test]
fn of_a_secret_of_many_lines_each_long_line_is_known_but_not_what_frames_it() {
    let line = "MIIEpAIBAAKCAQEAtq8Zr2Vt7Yb1Nc5L";
    let mut learner = Learner::default();
    learner.secret(&format!("-----BEGIN SOMETHING LONG-----\n{line}\nshort\n"));
    let redactor = learner.redactor();
    assert_eq!(redactor.text(&format!("got {line}!")), "got [redacted]!");
    for stays in ["-----BEGIN SOMETHING LONG-----", "a short one"] {
        assert_eq!(redactor.text(stays), stays);
    }
}

#[test]
fn a_password_that_is_told_in_a_text_is_known_elsewhere_if_it_is_no_mere_word() {
    let mut learner = Learner::default();
    learner.text("password: Geheim12\ntoken: accepted\n");
    let redactor = learner.redactor();
    assert_eq!(redactor.text("with Geheim12 it"), "with [redacted] it");
    assert_eq!(redactor.text("it was accepted"), "it was accepted");
}

#[test]
fn a_block_of_text_ends_where_its_key_stood_on_whichever_line() {
    assert_eq!(
        text("a: b\nc: d\npassword: |\n  geheim1\n  geheim2\nuser: c"),
        "a: b\nc: d\npassword: |\n[redacted]\nuser: c"
    );
}

#[test]
fn a_line_break_that_is_written_out_is_no_part_of_the_key_after_it() {
    assert_eq!(
        text(r#"msg="done\ntoken=abc next""#),
        r#"msg="done\ntoken=[redacted] next""#
    );
}

#[test]
fn headers_and_payload_of_something_else_than_a_webhook_are_shown() {
    let request = json!({"headers": {"X-Rack": "r12"}, "payload": "hello"});
    assert_eq!(value(&request), request);
}

#[test]
fn one_secret_of_a_text_hides_no_other() {
    let all = "Authorization: Bearer geheim01\nhttps://ann:geheim02@host/\nroot:$6$salt$geheim03:19000:0\nneighbor 10.0.0.1 password geheim04\nbgp_peers 10.0.0.1:65000:geheim05:false\nchpasswd <<EOF\nroot:geheim07\nEOF\n  Secret p6BvUCsMehGAkWvj\nabcdef.0123456789abcdef\n-----BEGIN EC PRIVATE KEY-----\ngeheim08\n-----END EC PRIVATE KEY-----\n";
    let shown = text(all);
    for secret in ["geheim", "p6BvUCsMehGAkWvj", "0123456789abcdef"] {
        assert!(!shown.contains(secret), "{shown}");
    }
}
