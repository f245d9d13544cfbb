//! The parts of an object that a flight may contain: enough for decisions, and nothing that helps an attacker.
//!
//! Names, kinds, numbers, switches and status texts stay. Everything that may hold a secret is left out: by its place
//! (a Secret's data, an environment, cloud-init), by its key, and by its form.

use serde_json::{Value, json};
use windrow_model::redact;

/// Replaces an omitted text.
pub(super) const LEFT_OUT: &str = "(left out)";

/// A longer text is not a name. The beginning of a status text is enough.
const LONGEST_NAME: usize = 253;
const LONGEST_STATUS: usize = 2048;

/// Keys whose value is left out everywhere, with all its fields. Compared without case.
const SECRET_KEYS: &[&str] = &[
    "args",
    "binarydata",
    "cabundle",
    "command",
    "content",
    "managedfields",
    "networkdata",
    "networkdatabase64",
    "set",
    "stringdata",
    "userdata",
    "userdatabase64",
    "value",
    "valuescontent",
];

/// Parts of a key that show a secret, unless the key ends like a reference. The report's redactor adds its own.
const SECRET_WORDS: &[&str] = &[
    "password",
    "passwd",
    "token",
    "secret",
    "credential",
    "publickey",
    "authorized",
];

/// Ends of keys that name an object.
const REFERENCE_ENDS: &[&str] = &["name", "names", "namespace", "ref", "refs", "kind"];

/// The object without everything that may be secret.
pub(super) fn object(object: &Value) -> Value {
    let mut copy = object.clone();
    let kind = object["kind"].as_str().unwrap_or_default().to_owned();
    let Value::Object(fields) = &mut copy else {
        return LEFT_OUT.into();
    };
    for (key, value) in fields {
        match key.as_str() {
            "apiVersion" | "kind" => {}
            "metadata" => metadata(value, kind == "Secret"),
            // The files of a ConfigMap, and everything in a Secret except its name.
            "data" => blank(value),
            _ if kind == "Secret" => blank(value),
            "status" => within(value, ObjectPart::Status),
            _ => entry(key, value, ObjectPart::Elsewhere),
        }
    }
    if kind == "NetworkAttachmentDefinition"
        && let Some(bridge) = bridge(object)
    {
        copy["spec"]["config"] = json!({"bridge": bridge}).to_string().into();
    }
    copy
}

/// The bridge in the configuration of a network, which is a text of JSON: a rule reads it. The rest of the text is left out.
fn bridge(network: &Value) -> Option<String> {
    let config = network["spec"]["config"].as_str()?;
    let config: Value = serde_json::from_str(config).ok()?;
    let bridge = config["bridge"].as_str()?;
    is_plain(bridge).then(|| bridge.to_owned())
}

#[derive(Clone, Copy, PartialEq)]
enum ObjectPart {
    Status,
    Elsewhere,
}

fn metadata(value: &mut Value, secret: bool) {
    let Value::Object(fields) = value else {
        return blank(value);
    };
    fields.remove("managedFields");
    for (key, value) in fields {
        match (key.as_str(), value) {
            ("annotations", Value::Object(annotations)) => {
                for (name, value) in annotations {
                    // Decisions depend on these annotations, and every reason prints them as well.
                    let ours = name.starts_with("windrow.dev/")
                        || name == "config.kubernetes.io/depends-on";
                    match ours {
                        true => {}
                        // Anyone may have put a copy of the data there.
                        false if secret && !redact::is_owners_annotation(name) => blank(value),
                        false => entry(name, value, ObjectPart::Elsewhere),
                    }
                }
            }
            (key, value) => entry(key, value, ObjectPart::Elsewhere),
        }
    }
}

fn within(value: &mut Value, place: ObjectPart) {
    match value {
        Value::Object(fields) => {
            for (key, value) in fields {
                entry(key, value, place);
            }
        }
        Value::Array(items) => items.iter_mut().for_each(|item| within(item, place)),
        Value::String(text) => match place {
            ObjectPart::Status => {
                shorten(text);
                if redact::tells_a_secret(text) {
                    *text = redact::message(text);
                }
            }
            ObjectPart::Elsewhere if is_plain(text) => {}
            ObjectPart::Elsewhere => LEFT_OUT.clone_into(text),
        },
        Value::Null | Value::Bool(_) | Value::Number(_) => {}
    }
}

fn entry(key: &str, value: &mut Value, place: ObjectPart) {
    if key == "openAPIV3Schema" {
        // Nine tenths of a CustomResourceDefinition, and no decision depends on it.
        *value = Value::Null;
    } else if is_secret_key(key, value) {
        blank(value);
    } else {
        within(value, place);
    }
}

fn is_secret_key(key: &str, value: &Value) -> bool {
    let lower = key.to_lowercase();
    if SECRET_KEYS.contains(&lower.as_str()) {
        return true;
    }
    let reference = REFERENCE_ENDS.iter().any(|end| lower.ends_with(end));
    // A map or list under such a key (`secret: {secretName: x}`) is searched.
    let texts = match value {
        Value::Object(_) => return false,
        Value::Array(items) => items.iter().map(Value::as_str).collect(),
        one => vec![Some(one.as_str().unwrap_or_default())],
    };
    let by_word = || SECRET_WORDS.iter().any(|word| lower.contains(word));
    let by_key = |text: &Option<&str>| text.is_some_and(|text| redact::is_secret(key, text));
    !reference && ((!value.is_array() && by_word()) || texts.iter().any(by_key))
}

/// Leaves every text out. Maps keep their keys, so that the fields stay visible.
fn blank(value: &mut Value) {
    match value {
        Value::Object(fields) => {
            fields.values_mut().for_each(blank);
            // A key that does not look like a name may be the secret itself, written in the wrong place.
            let named = |key: String| match redact::tells_a_secret(&key) {
                true => LEFT_OUT.to_owned(),
                false => key,
            };
            let all = std::mem::take(fields).into_iter();
            *fields = all.map(|(key, value)| (named(key), value)).collect();
        }
        Value::Array(items) => items.iter_mut().for_each(blank),
        // Whether a text is empty matters (a setting without a value), and reveals nothing.
        Value::String(text) if text.is_empty() => {}
        Value::String(text) => LEFT_OUT.clone_into(text),
        Value::Number(_) => *value = 0.into(),
        Value::Null | Value::Bool(_) => {}
    }
}

fn shorten(text: &mut String) {
    if text.len() > LONGEST_STATUS {
        let end = (0..=LONGEST_STATUS)
            .rev()
            .find(|at| text.is_char_boundary(*at))
            .unwrap_or(0);
        text.truncate(end);
    }
}

/// Does it look like a name, a path or a word, and not like a key or a token?
fn is_plain(text: &str) -> bool {
    let named = text.len() <= LONGEST_NAME
        && text
            .chars()
            .all(|ch| ch.is_ascii_alphanumeric() || "-_./: ,*()".contains(ch));
    named
        && !text.contains("://")
        && !text.split([' ', '/', '.', ':', '-', '_']).any(is_token)
        && !redact::tells_a_secret(text)
}

/// A sequence of letters and digits that does not look like a name.
fn is_token(word: &str) -> bool {
    let has = |test: fn(&char) -> bool| word.chars().any(|ch| test(&ch));
    let mixed =
        has(char::is_ascii_uppercase) && has(char::is_ascii_lowercase) && has(char::is_ascii_digit);
    (word.len() >= 16 && mixed) || (word.len() >= 32 && has(char::is_ascii_digit))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_secret_of_any_kind_of_object_stays() {
        let objects = [
            json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "s",
                "annotations": {"kubectl.kubernetes.io/last-applied-configuration": "{\"hunter2\": 1}"}},
                "data": {"k": "aHVudGVyMg=="}, "stringData": {"k": "hunter2"},
                "status": {"note": "hunter2"}}),
            json!({"apiVersion": "v1", "kind": "ConfigMap", "data": {"cloud.cfg": "hunter2"}}),
            json!({"apiVersion": "apps/v1", "kind": "Deployment", "spec": {"template": {"spec": {
                "containers": [{"env": [{"name": "P", "value": "hunter2"}],
                    "args": ["--password=hunter2"], "command": ["hunter2"]}]}}}}),
            json!({"apiVersion": "kubevirt.io/v1", "kind": "VirtualMachine", "spec": {"template": {
                "spec": {"volumes": [{"cloudInitNoCloud": {"userData": "hunter2",
                    "networkData": "hunter2"}}]}}}}),
            json!({"apiVersion": "helm.cattle.io/v1", "kind": "HelmChart", "spec": {
                "valuesContent": "hunter2", "set": {"adminPassword": "hunter2"}}}),
            json!({"apiVersion": "harvesterhci.io/v1beta1", "kind": "Setting", "value": "hunter2"}),
            json!({"kind": "X", "spec": {"password": "hunter2", "bootstrapToken": "hunter2",
                "url": "https://hunter2@host/", "n": {"apiKey": "hunter2"},
                "hostPublicKey": "hunter2", "authorized": "hunter2",
                "pin": "K10aB3dE5fG7hI9jK1lhunter2", "DSN": "hunter2/x", "regcodes": ["hunter2"],
                "note": "docker login -u ann -p hunter2 reg.example"}}),
            json!({"kind": "Secret", "metadata": {"name": "s", "annotations": {"note": "hunter2"}},
                "data": {"hunter2Ab9cD3eF5gH7": "x"}}),
            json!({"kind": "X", "status": {"error": "it said password=hunter2 to me"}}),
        ];
        for before in objects {
            let after = object(&before).to_string();
            assert!(!after.contains("hunter2"), "{after}");
            assert!(!after.contains("aHVudGVyMg"), "{after}");
        }
    }

    #[test]
    fn what_looks_like_no_name_is_left_out_wherever_it_stands() {
        let long = "x".repeat(LONGEST_NAME + 1);
        for text in [
            long.as_str(),
            "https://host/path",
            "it's said",
            "0123456789abcdef0123456789abcdef",
            "dir/Xa9Xa9Xa9Xa9Xa9Xa9",
        ] {
            let noted = object(&json!({"kind": "X", "spec": {"note": text}}));
            assert_eq!(noted["spec"]["note"], LEFT_OUT, "{text}");
        }
        let name = "x".repeat(LONGEST_NAME);
        let noted = json!({"kind": "X", "spec": {"note": name}});
        assert_eq!(object(&noted), noted);
    }

    #[test]
    fn of_a_long_text_of_a_status_the_beginning_stays() {
        let kept = "\u{e4}".repeat(LONGEST_STATUS / 2 - 1);
        let noted = object(&json!({"kind": "X", "status": {"note": format!("{kept}.\u{e4}")}}));
        assert_eq!(noted["status"]["note"], format!("{kept}."));
        let whole = json!({"kind": "X", "status": {"note": format!("{kept}\u{e4}")}});
        assert_eq!(object(&whole), whole);
    }

    #[test]
    fn what_decisions_are_made_by_stays() {
        let vm = json!({"apiVersion": "kubevirt.io/v1", "kind": "VirtualMachine",
            "metadata": {"name": "vm", "namespace": "default", "labels": {"a": "Rack7b"},
                "annotations": {"windrow.dev/depends-on": "/Secret/x (ready), y"}},
            "spec": {"runStrategy": "RerunOnFailure", "running": true, "template": {"spec": {
                "volumes": [{"persistentVolumeClaim": {"claimName": "vm-disk"}},
                    {"cloudInitNoCloud": {"secretRef": {"name": "vm-init"}}}],
                "authorizedGroups": ["admins"], "accessCredentials": [{"sshPublicKey": {"source": "vm-keys"}}],
                "networks": [{"multus": {"networkName": "default/vlan-1"}}]}}},
            "status": {"conditions": [{"type": "Ready", "message": "Any words, even \"these\""}]}});
        assert_eq!(object(&vm), vm);
        // Every reason prints these, so they are kept unchanged.
        let long = "/namespaces/default/ConfigMap/0123456789abcdef0123456789abcdef";
        for key in ["windrow.dev/depends-on", "config.kubernetes.io/depends-on"] {
            let ordered =
                json!({"kind": "X", "metadata": {"name": "x", "annotations": {key: long}}});
            assert_eq!(object(&ordered), ordered);
        }
        let empty = json!({"kind": "Setting", "value": "", "default": ""});
        assert_eq!(object(&empty), empty);
        let network = |config: &str| json!({"kind": "NetworkAttachmentDefinition", "spec": {"config": config}});
        let whole =
            network(r#"{"type": "bridge", "bridge": "uplink-br", "ipam": {"token": "hunter2"}}"#);
        assert_eq!(object(&whole), network(r#"{"bridge":"uplink-br"}"#));
        for config in [
            "hunter2=",
            "[1]",
            r#"{"bridge": "a?b"}"#,
            r#"{"bridge": 1}"#,
        ] {
            assert_eq!(object(&network(config)), network(LEFT_OUT), "{config}");
        }
    }
}
