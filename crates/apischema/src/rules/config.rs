//! Validates ConfigMaps and Secrets.

use windrow_model::manifest::{Node, decode_base64};

use super::Checker;
use crate::formats;
use crate::path::Path;
use crate::problem::Reason;

/// The types of Secrets with required keys, at least one of each set.
const KEYS: [(&str, &[&[&str]]); 5] = [
    ("kubernetes.io/tls", &[&["tls.crt"], &["tls.key"]]),
    ("kubernetes.io/dockerconfigjson", &[&[".dockerconfigjson"]]),
    ("kubernetes.io/dockercfg", &[&[".dockercfg"]]),
    ("kubernetes.io/basic-auth", &[&["username", "password"]]),
    ("kubernetes.io/ssh-auth", &[&["ssh-privatekey"]]),
];

/// Size limit of all values of a ConfigMap or Secret together.
const LARGEST: usize = 1 << 20;

/// The levels of the Pod Security Standards (k8s.io/pod-security-admission v0.36.3, `api/helpers.go`).
const LEVELS: [&str; 3] = ["privileged", "baseline", "restricted"];

impl Checker<'_> {
    /// The admission plugin for pod security, which is enabled everywhere, rejects unknown levels.
    pub(super) fn namespace(&mut self, node: &Node) {
        let metadata = Path::ROOT.field("metadata");
        let at = metadata.field("labels");
        for mode in ["enforce", "audit", "warn"] {
            let key = format!("pod-security.kubernetes.io/{mode}");
            let Some(entry) = node
                .at(&["metadata", "labels"])
                .and_then(|labels| labels.entry(&key))
            else {
                continue;
            };
            let level = entry.value.as_str();
            if level.is_some_and(|level| !LEVELS.contains(&level)) {
                let why = format!("must be one of {}", LEVELS.join(", "));
                self.add(entry.line, &at.key(&key), Reason::Invalid, &why);
            }
        }
        for mode in ["enforce", "audit", "warn"] {
            let key = format!("pod-security.kubernetes.io/{mode}-version");
            let labels = node.at(&["metadata", "labels"]);
            let Some(entry) = labels.and_then(|labels| labels.entry(&key)) else {
                continue;
            };
            let version = entry.value.as_str();
            if version.is_some_and(|version| !is_policy_version(version)) {
                let why = "must be latest or a minor, like v1.31";
                self.add(entry.line, &at.key(&key), Reason::Invalid, why);
            }
        }
    }

    fn total_size(&mut self, node: &Node, fields: &[&str]) {
        let lists = fields.iter().filter_map(|field| node.get(field));
        let values = lists.flat_map(|list| list.entries());
        let size: usize = values
            .map(|entry| {
                let text = entry.value.as_str().unwrap_or_default();
                match fields.contains(&"stringData") || fields == ["binaryData"] {
                    // The smallest possible size.
                    true => text.len() / 4 * 3,
                    false => text.len(),
                }
            })
            .sum();
        if size > LARGEST {
            let why = format!("may not be more than {LARGEST} bytes");
            self.add(node.line, &Path::ROOT, Reason::TooLong, &why);
        }
    }

    pub(super) fn config_map(&mut self, node: &Node) {
        self.total_size(node, &["data"]);
        self.total_size(node, &["binaryData"]);
        let text = node.get("data").map_or(&[][..], Node::entries);
        for field in ["data", "binaryData"] {
            let at = Path::ROOT.field(field);
            for entry in node.get(field).map_or(&[][..], Node::entries) {
                self.config_key(entry.line, &at, &entry.key);
                if field == "binaryData" && text.iter().any(|other| other.key == entry.key) {
                    let why = "duplicate of key present in data";
                    self.add(entry.line, &at.key(&entry.key), Reason::Invalid, why);
                }
            }
        }
    }

    pub(super) fn secret(&mut self, node: &Node) {
        self.total_size(node, &["data", "stringData"]);
        for field in ["data", "stringData"] {
            let at = Path::ROOT.field(field);
            for entry in node.get(field).map_or(&[][..], Node::entries) {
                self.config_key(entry.line, &at, &entry.key);
            }
        }
        let Some(kind) = node.str_at(&["type"]) else {
            return;
        };
        let value = |key: &str| {
            let plain = node
                .get("stringData")
                .and_then(|data| data.get(key)?.as_str());
            let coded = || node.get("data").and_then(|data| data.get(key)?.as_str());
            match plain {
                Some(text) => Some(text.as_bytes().to_vec()),
                None => decode_base64(coded()?.as_bytes()).ok(),
            }
        };
        let at = Path::ROOT.field("data");
        let has = |key: &str| {
            let fields = ["data", "stringData"]
                .iter()
                .filter_map(|field| node.get(field));
            fields.filter_map(|data| data.entry(key)).count() > 0
        };
        const ACCOUNT: &str = "kubernetes.io/service-account.name";
        let account = node.at(&["metadata", "annotations"]);
        let account = account.and_then(|node| node.get(ACCOUNT)?.as_str());
        if kind == "kubernetes.io/service-account-token" && account.is_none_or(str::is_empty) {
            let metadata = Path::ROOT.field("metadata");
            let at = metadata.field("annotations");
            let why = format!("a Secret of type {kind} names its ServiceAccount there");
            self.add(node.line, &at.key(ACCOUNT), Reason::Required, &why);
        }
        let wanted = KEYS.iter().find(|(name, _)| *name == kind);
        for keys in wanted.map_or(&[][..], |(_, keys)| keys) {
            if !keys.iter().any(|key| has(key)) {
                self.add(
                    node.line,
                    &at.key(keys[0]),
                    Reason::Required,
                    &format!("a Secret of type {kind} has it"),
                );
            }
        }
        let json = match kind {
            "kubernetes.io/dockerconfigjson" => ".dockerconfigjson",
            "kubernetes.io/dockercfg" => ".dockercfg",
            _ => return,
        };
        if let Some(bytes) = value(json)
            && !is_json(&bytes)
        {
            let line = ["stringData", "data"]
                .iter()
                .find_map(|field| node.get(field)?.entry(json))
                .map_or(node.line, |entry| entry.line);
            let why = "must be JSON";
            self.add(line, &at.key(json), Reason::Invalid, why);
        }
    }

    fn config_key(&mut self, line: u32, path: &Path<'_>, key: &str) {
        if !formats::is_config_key(key) {
            let why = "a valid config key must consist of alphanumeric characters, '-', '_' or '.'";
            self.add(line, &path.key(key), Reason::Invalid, why);
        }
    }
}

/// A version of the Pod Security Standards (k8s.io/pod-security-admission v0.36.3, `api/helpers.go`).
fn is_policy_version(text: &str) -> bool {
    let minor = text.strip_prefix("v1.").unwrap_or_default();
    let is_number = !minor.is_empty() && minor.bytes().all(|byte| byte.is_ascii_digit());
    text == "latest" || (is_number && (minor == "0" || !minor.starts_with('0')))
}

fn is_json(bytes: &[u8]) -> bool {
    serde_json::from_slice::<serde_json::Value>(bytes).is_ok()
}
