//! Tests at the edges of each rule: secrets that are easily missed, and public texts that are easily removed.

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
                // Text that is not a message stays unchanged: decisions depend on it.
                "selector": "token=web-1",
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
        // An apostrophe inside a word does not open a quotation.
        (
            "the node's token: ab'cd ef",
            "the node's token: [redacted] ef",
        ),
        ("it's 'token=abc' here", "it's 'token=[redacted]' here"),
        // The end of the surrounding quotation is not a value.
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
    // With the letter before it, it would be the name of something else.
    assert_eq!(
        text(r#"msg="done\npin=1234 next""#),
        r#"msg="done\npin=[redacted] next""#
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

#[test]
fn behind_the_scheme_of_an_authorization_the_secret_goes_and_the_rest_stays() {
    for scheme in ["Bearer", "basic", "Token"] {
        for gap in [" ", " \t "] {
            let line = format!("sent Authorization: {scheme}{gap}abc-geheim to the host");
            assert_eq!(
                text(&line),
                format!("sent Authorization: {scheme}{gap}[redacted] to the host")
            );
        }
    }
}

#[test]
fn under_a_key_of_any_kind_a_name_is_shown_and_what_a_machine_drew_is_not() {
    let labels = json!({"someKey": "rack-one", "otherKey": "K8x3Qm9Zr2Vt7Yb1Nc5L"});
    assert_eq!(
        value(&labels),
        json!({"someKey": "rack-one", "otherKey": REDACTED})
    );
}

#[test]
fn a_key_is_split_into_words_only_where_a_sign_stands_close_enough() {
    let key = |length: usize| format!("{}-token=abc-geheim", "x".repeat(length - 6));
    assert!(!text(&key(128)).contains("geheim"));
    assert_eq!(text(&key(129)), key(129));
    // The letter of a line break is not part of the key, and a key of that letter is still a key.
    assert_eq!(text(r"\ntoken=abc x"), r"\ntoken=[redacted] x");
    assert_eq!(text(r#"{\"pin\": 1234}"#), text(r#"{\"pin\": 1234}"#));
}

#[test]
fn a_private_key_without_its_armour_is_hidden_however_long_it_is() {
    for header in [
        &[0x30, 0x3e][..],
        &[0x30, 0x81, 0xa4],
        &[0x30, 0x82, 4, 0xa4],
    ] {
        let mut key = header.to_vec();
        key.extend([2, 1, 1]);
        key.extend((0..60).map(|at: u8| at.wrapping_mul(37)));
        let encoded = BASE64_STANDARD_NO_PAD.encode(&key);
        assert!(
            !text(&format!("data {encoded} end")).contains(&encoded),
            "{header:?}"
        );
    }
}

#[test]
fn what_says_nothing_is_shown_behind_a_key_too() {
    for nothing in ["", "null", "true", "none,", "redacted", REDACTED] {
        let line = format!("password: {nothing}");
        assert_eq!(text(&line), line);
    }
}

#[test]
fn a_text_that_holds_nothing_secret_keeps_every_blank_and_one_that_does_is_still_read() {
    let plain = json!({"data": "{ \"a\":  1 }"});
    assert_eq!(value(&plain), plain);
    let nested = json!({"data": "{ \"a\": {\"password\": [\"x1\", \"y2\"]} }"});
    let shown = value(&nested).to_string();
    assert!(!shown.contains("x1") && !shown.contains("y2"), "{shown}");
}

#[test]
fn a_path_is_not_searched_for_and_what_only_begins_like_one_is() {
    let known = |secret: &str| {
        let mut learner = Learner::default();
        learner.secret(secret);
        !learner
            .redactor()
            .text(&format!("it was {secret}"))
            .contains(secret)
    };
    assert!(!known("/etc/rancher/rke2/rke2.yaml"));
    let long = "/Zr2Vt7Yb1Nc5LQm9".repeat(8);
    assert!(known(&long), "{} bytes are no path", long.len());
    assert!(known("/Zr2 Vt7 Yb1 Nc5"));
}

#[test]
fn base64_is_read_over_line_breaks() {
    assert_eq!(encoded::decode(b"/+\n//\r\n"), Some(vec![0xff, 0xef, 0xff]));
}

#[test]
fn a_secret_is_known_in_the_base64_of_urls_as_well() {
    let mut learner = Learner::default();
    learner.secret("geheim-und-~~~???-0A");
    let encoded = BASE64_STANDARD_NO_PAD.encode(b"geheim-und-~~~???-0A");
    let in_a_url = encoded.replace('+', "-").replace('/', "_");
    assert_ne!(encoded, in_a_url);
    let redactor = learner.redactor();
    for form in [encoded, in_a_url] {
        assert!(
            !redactor.text(&format!("GET /x?y={form}z")).contains(&form),
            "{form}"
        );
    }
}

#[test]
fn a_value_without_quotation_ends_with_its_line() {
    let said = "spec.password: Invalid value: hunter2\nspec.name: Required value";
    assert_eq!(
        message(said),
        "spec.password: Invalid value: [redacted]\nspec.name: Required value"
    );
}

#[test]
fn of_a_go_value_every_part_is_taken_as_one() {
    let said = r#"spec.password: Invalid value: map[string]interface {}{"a":"hunter2"}: no"#;
    assert_eq!(
        message(said),
        "spec.password: Invalid value: [redacted]: no"
    );
}

#[test]
fn where_a_token_lies_is_shown_and_a_token_in_its_place_is_not() {
    for shown in ["serviceAccountToken: path: token", "token: name: my-secret"] {
        assert_eq!(text(shown), shown);
    }
    for hidden in ["token: path: K8x3Qm9Zr2Vt7Yb1Nc5L", "token: user: ann"] {
        assert_ne!(text(hidden), hidden);
    }
}

#[test]
fn a_key_of_a_known_service_is_taken_out_of_the_middle_of_a_text_and_what_is_around_it_stays() {
    let key = format!("glpat-{}", "a".repeat(20));
    for (found, expected) in [
        (
            format!("{key} and {key} were seen"),
            "[redacted] and [redacted] were seen",
        ),
        (format!("seen: {key}, twice"), "seen: [redacted], twice"),
    ] {
        assert_eq!(text(&found), expected);
    }
    // Inside a longer word it is not such a key.
    let word = format!("the x{key}");
    assert_eq!(text(&word), word);
}

#[test]
fn however_often_one_word_stands_in_a_text_the_others_are_looked_for() {
    let often = "bearer, ".repeat(500);
    let shown = text(&format!("{often}neighbor 10.0.0.1 password geheim04"));
    assert!(shown.ends_with("[redacted]"), "{}", &shown[4000..]);
}

#[test]
fn a_map_named_http_that_asks_for_no_address_is_shown_as_it_is() {
    for http in [json!({"port": 80}), json!("off"), json!({"url": 1})] {
        let found = json!({ "http": http });
        assert_eq!(value(&found), found);
    }
}

#[test]
fn a_manifest_inside_a_text_is_read_whatever_its_lines_look_like() {
    for found in [
        "apiVersion: v1\nkind: Secret\nstringData: {user: geheim01}",
        "apiVersion: v1\nkind: Secret\nstringData:\n  user: geheim01",
        "{\"apiVersion\": \"v1\", \"kind\": \"Secret\", \"stringData\": {\"user\": \"geheim01\"}}",
    ] {
        let shown = value(&json!({ "file": found })).to_string();
        assert!(!shown.contains("geheim"), "{shown}");
        assert!(shown.contains("user"), "{shown}");
    }
}

#[test]
fn texts_within_texts_are_read_as_deep_as_anybody_packs_them_and_no_depth_is_too_deep() {
    let mut found =
        json!({"apiVersion": "v1", "kind": "Secret", "stringData": {"user": "geheim01"}});
    for depth in 1..12 {
        found = json!({ "file": found.to_string() });
        let shown = value(&found).to_string();
        assert!(depth > 4 || !shown.contains("geheim"), "{depth}: {shown}");
    }
}

#[test]
fn a_limit_is_shown_and_of_several_errors_each_value_is_taken_by_itself() {
    for (said, expected) in [
        (
            "metadata.name: Too long: must have at most 63 bytes",
            "metadata.name: Too long: must have at most 63 bytes",
        ),
        (
            "spec.volumes[0].password: Not found: \"a geheim\"",
            "spec.volumes[0].password: Not found: [redacted]",
        ),
        (
            "[spec.password: Invalid value: geheim, spec.pin: Invalid value: 12345]",
            "[spec.password: Invalid value: [redacted], spec.pin: Invalid value: [redacted]]",
        ),
    ] {
        assert_eq!(message(said), expected);
    }
}

#[test]
fn what_was_taken_out_before_teaches_nothing() {
    let mut learner = Learner::default();
    learner.text("spec.password: Invalid value: [redacted]: too short");
    let line = "the value [redacted] is too short";
    assert_eq!(learner.redactor().text(line), line);
}

#[test]
fn the_text_inside_a_value_in_base64_is_known_elsewhere() {
    let packed = BASE64_STANDARD_NO_PAD.encode("geheim-word-01");
    let mut learner = Learner::default();
    learner.value(&json!({ "password": packed }));
    let shown = learner.redactor().text("it said geheim-word-01 to me");
    assert_eq!(shown, "it said [redacted] to me");
}

#[test]
fn letters_that_hide_the_parts_of_a_web_key_hide_nothing_elsewhere() {
    let key = json!({"kty": "RSA", "n": "public", "d": "geheim01", "k": "geheim02"});
    let shown = value(&key).to_string();
    assert!(
        !shown.contains("geheim") && shown.contains("public"),
        "{shown}"
    );
    let other = json!({"d": "disk", "p": "port", "k": "kind"});
    assert_eq!(value(&other), other);
}

#[test]
fn the_words_of_a_command_are_known_elsewhere() {
    let mut learner = Learner::default();
    learner.value(&json!({"runcmd": ["join 'Geheim-word-01' --as=Geheim-word-02 | sh"]}));
    let redactor = learner.redactor();
    for said in ["it ran Geheim-word-01", "it ran Geheim-word-02"] {
        assert_eq!(redactor.text(said), "it ran [redacted]");
    }
}

#[test]
fn base64_is_unpacked_as_often_as_anybody_packs_it_and_no_packing_is_too_deep() {
    let mut packed = "password: geheim-word-01".to_owned();
    for depth in 1..8 {
        packed = BASE64_STANDARD_NO_PAD.encode(&packed);
        let shown = text(&packed);
        assert!(depth > 3 || shown == REDACTED, "{depth}: {shown}");
    }
}

#[test]
fn of_an_address_that_others_may_post_to_the_host_is_shown() {
    let found = json!({"slackWebhookUrl": "https://hooks.example/services/T0/geheim"});
    let shown = value(&found).to_string();
    assert!(!shown.contains("geheim"), "{shown}");
    assert!(
        shown.contains("https://hooks.example/[redacted]"),
        "{shown}"
    );
}

#[test]
fn behind_a_flag_that_may_name_a_key_a_name_stays_and_a_key_does_not() {
    let named = "mount --volume-key rack-7 --debug";
    assert_eq!(text(named), named);
    assert_eq!(
        text("mount --volume-key K8x3Qm9Zr2Vt7Yb1Nc5L --debug"),
        "mount --volume-key [redacted] --debug"
    );
}

#[test]
fn what_a_secrets_key_says_holds_for_the_map_below_it_but_for_what_describes_the_secret() {
    for hidden in [
        json!({"secrets": {"FOO": "Xq1"}}),
        json!({"secretEnv": {"FOO": "Xq1"}}),
        json!({"extraSecretData": {"a": {"b": "Xq1"}}}),
        json!({"envSecrets": [{"name": "a", "value": "Xq1"}]}),
        json!({"passwords": {"postgres": "Xq1"}}),
        json!({"tokens": {"admin": "Xq1"}}),
        json!({"secret": {"value": "Xq1"}}),
        json!({"privateKey": {"pem": "Xq1"}}),
        json!({"tlsKey": {"value": "Xq1"}}),
        json!({"tls.key": "Xq1"}),
        json!({"auth": {"root": "Xq1"}}),
        json!({"htpasswd": {"admin": "Xq1"}}),
        json!({"spec": {"template": {"stringData": {"a": "Xq1"}}}}),
        json!({"vault": {"unseal": "Xq1"}}),
        json!({"sshKey": "Xq1"}),
        json!({"configs": {"secret": {"extra": {"custom": "Xq1"}}}}),
        json!({"pin": {"door": 7_654_321}}),
        json!({"routing_key": "Xq1"}),
        json!({"kind": "Secret", "data": {"a": "Xq1"}}),
        json!({"kind": "SecretList", "items": [{"metadata": {"name": "s"}, "data": {"a": "Xq1"}}]}),
        json!({"webhook": {"url": "https://hooks.example.com/Xq1"}}),
        json!({"webhook_configs": [{"url": "https://hooks.example.com/Xq1"}]}),
        json!({"HTTPS_PROXY": "user:Xq1@proxy:3128"}),
        json!({"http-proxy": {"httpsProxy": "user:Xq1@proxy:3128"}}),
    ] {
        let shown = value(&hidden).to_string();
        assert!(
            !shown.contains("Xq1") && !shown.contains("7654321"),
            "{shown}"
        );
    }
    for shown in [
        json!({"secret": {"secretName": "shop-tls", "optional": true, "items": [{"key": "a", "path": "b"}]}}),
        json!({"auth": {"enabled": true, "username": "shop"}}),
        json!({"secretKeyRef": {"name": "shop-db", "key": "password"}}),
        json!({"imagePullSecrets": [{"name": "registry"}]}),
        json!({"serviceAccountToken": {"audience": "vault", "expirationSeconds": 3600, "path": "token"}}),
        json!({"kind": "SecretList", "items": []}),
        json!({"webhooks": [{"name": "w", "failurePolicy": "Fail"}]}),
        json!({"noProxy": "10.0.0.0/8", "HTTP_PROXY": "http://proxy:3128"}),
    ] {
        assert_eq!(value(&shown), shown);
    }
}

#[test]
fn what_programs_are_given_is_taken_out_and_the_rest_of_their_lines_stays() {
    for (before, after) in [
        (
            "url=jdbc:oracle:thin:scott/Tiger7711Blue@db:1521/x",
            "url=jdbc:oracle:thin:scott/[redacted]@db:1521/x",
        ),
        (
            "zip -P Zebra out.zip data",
            "zip -P [redacted] out.zip data",
        ),
        ("7z a -pZebra out.7z data", "7z a -p[redacted] out.7z data"),
        ("unrar x -hpZebra a.rar", "unrar x -hp[redacted] a.rar"),
        (
            "restic --password-command \"echo Heron\" backup",
            "restic --password-command \"[redacted]\" backup",
        ),
        (
            "rclone config create s s3 secret_access_key otter-maple-river",
            "rclone config create s s3 secret_access_key [redacted]",
        ),
        ("stats auth admin:raven", "stats auth admin:[redacted]"),
        (
            "user ann insecure-password raven",
            "user ann insecure-password [redacted]",
        ),
        (
            "protocol bgp a {\n  password \"correct horse battery\";\n}",
            "protocol bgp a {\n  password [redacted];\n}",
        ),
        (
            "variable \"db_password\" {\n  default = \"lynx fern\"\n}",
            "variable \"db_password\" {\n  default = [redacted]\n}",
        ),
        (
            "root=LABEL=x ds=nocloud-net;s=https://seed.example/?k=vole quiet",
            "root=LABEL=x ds=nocloud-net;s=https://seed.example/?[redacted] quiet",
        ),
        (
            "harvester.install.config_url=https://seed.example/a.yaml?k=vole b=c",
            "harvester.install.config_url=https://seed.example/a.yaml?[redacted] b=c",
        ),
        // These have none.
        ("zip -r out.zip data", "zip -r out.zip data"),
        (
            "variable \"region\" {\n  default = \"a\"\n}",
            "variable \"region\" {\n  default = \"a\"\n}",
        ),
        (
            "ds=nocloud-net;s=https://seed.example/a/",
            "ds=nocloud-net;s=https://seed.example/a/",
        ),
        (
            "set the password \"ann\" has",
            "set the password \"ann\" has",
        ),
    ] {
        assert_eq!(text(before), after, "{before}");
    }
}

#[test]
fn a_login_among_arguments_loses_its_password() {
    let found = json!([
        "--user",
        "admin:stoat",
        "--creds=ann:lynx:x",
        "-pWeasel2288Ash",
        "-p8080",
        "--user",
        "1000:1000",
        "--user",
        "ann",
        "-u",
        "https://h.example",
        "-parallel=Four4"
    ]);
    let shown = json!([
        "--user",
        "admin:[redacted]",
        "--creds=ann:[redacted]",
        "-p[redacted]",
        "-p8080",
        "--user",
        "1000:1000",
        "--user",
        "ann",
        "-u",
        "https://h.example",
        "-parallel=Four4"
    ]);
    assert_eq!(value(&found), shown);
}

#[test]
fn a_slip_in_a_secret_or_beside_a_name_shows_nothing() {
    let secret = json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "s"}, "type": "Opaque", "immutable": true,
        "imutable": "marten elm", "dta": {"a": "otter"}});
    let shown = json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "s"}, "type": "Opaque", "immutable": true,
        "imutable": REDACTED, "dta": {"a": REDACTED}});
    assert_eq!(value(&secret), shown);
    let env = json!([{"name": "DB_PASSWORD", "valeu": "badger oak"}, {"name": "MODE", "valeu": "fast"},
        {"name": "TOKEN", "valueFrom": {"secretKeyRef": {"name": "a", "key": "b"}}}]);
    let shown = json!([{"name": "DB_PASSWORD", "valeu": REDACTED}, {"name": "MODE", "valeu": "fast"},
        {"name": "TOKEN", "valueFrom": {"secretKeyRef": {"name": "a", "key": "b"}}}]);
    assert_eq!(value(&env), shown);
}

#[test]
fn binary_data_that_is_a_text_is_searched_however_short_it_is() {
    use base64::prelude::BASE64_STANDARD;
    let [secret, plain, bare] =
        ["password=vole", "mode=fast", "vole"].map(|text| BASE64_STANDARD.encode(text));
    let found =
        json!({"binaryData": {"a.env": secret, "b.env": plain, "token": bare, "c": "AAECAw=="}});
    let shown = json!({"binaryData": {"a.env": REDACTED, "b.env": plain, "token": REDACTED, "c": "AAECAw=="}});
    assert_eq!(value(&found), shown);
}

#[test]
fn values_of_a_chart_that_cannot_be_read_are_left_out() {
    let found = json!({"valuesContent": "a: {\nname: TOKEN\nvalue: vole fir\n"});
    assert_eq!(
        value(&found),
        json!({"valuesContent": "[left out: 33 bytes]"})
    );
    let found = json!({"valuesContent": "typhaKey: ermine-cedar-lake\nb: c\n"});
    let shown = value(&found)["valuesContent"].to_string();
    assert!(!shown.contains("ermine") && shown.contains('c'), "{shown}");
}

#[test]
fn a_text_with_a_key_or_an_error_in_each_of_its_places_is_searched_to_its_end() {
    // With the rest of the text for each of them, this would take minutes.
    for part in [
        "Not found: (",
        "Too many: a b ",
        "token=a ",
        "token={a:",
        "token=| ",
        "token=[path: ",
        "somekey=",
        "somekey=[",
        "--some-key [",
        "value 'a ",
        "name: token value: ",
        "password: path: ",
        "-----BEGIN PRIVATE KEY-----",
        "a://b:c",
        "\"token\\\":",
    ] {
        let said = part.repeat((64 << 10) / part.len()) + "\npassword: hunter2\n";
        let shown = text(&said);
        assert!(!shown.contains("hunter2"), "{part}");
    }
}

#[test]
fn a_long_value_of_a_key_that_may_have_a_secret_is_taken_out_whole() {
    let random = "aB3_".repeat(1000);
    for (before, after) in [
        (format!("someKey={random} x"), "someKey=[redacted] x"),
        (
            format!("someKey=\"{random}\" x"),
            "someKey=\"[redacted]\" x",
        ),
        (
            format!("Not found: {random} {{\"a\":1}}"),
            "Not found: [redacted]",
        ),
    ] {
        assert_eq!(text(&before), after, "{before:.40}");
    }
}

#[test]
fn secrets_beyond_what_the_second_net_knows_are_taken_out_where_they_stand() {
    let mut learner = Learner::within(30);
    learner.text("token=first-secret-1A");
    assert!(!learner.is_full());
    learner.text("token=last-secret-9Z");
    assert!(learner.is_full());
    let redactor = learner.redactor();
    let shown = redactor.text("token=last-secret-9Z of first-secret-1A");
    assert_eq!(shown, "token=[redacted] of [redacted]");
}
