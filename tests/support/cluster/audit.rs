//! The writes to the API server in order, with their authors: its own audit log.

use std::fs;
use std::path::{Path, PathBuf};

use serde_json::Value;

/// Reads are recorded too.
const EVERYTHING: &str = "apiVersion: audit.k8s.io/v1
kind: Policy
omitStages: [RequestReceived]
rules: [{level: Metadata}]
";

/// Reads are not recorded; of a write, its author, the object and the answer.
const WRITES: &str = "apiVersion: audit.k8s.io/v1
kind: Policy
omitStages: [RequestReceived]
rules:
  - {level: None, verbs: [get, list, watch]}
  - {level: Metadata}
";

/// One write.
#[derive(Clone, Debug)]
pub(crate) struct Write {
    /// The program, as its user agent begins: `deploy-controller`.
    pub(crate) program: String,
    /// `create`, `update`, `patch`, `delete`.
    pub(crate) verb: String,
    /// The plural, with the subresource: `addons`, `pods/binding`.
    pub(crate) resource: String,
    /// The object's name; empty where the API server chose it.
    pub(crate) name: String,
    /// The answer's code.
    pub(crate) code: u64,
}

impl Write {
    /// Whether it succeeded.
    pub(crate) fn done(&self) -> bool {
        self.code < 300
    }
}

/// What the API server records of the requests to it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum AuditLog {
    /// Nothing.
    #[default]
    Off,
    /// Every write: [`Cluster::writes`](super::Cluster::writes).
    Writes,
    /// Every request and how it was answered, for a test that reads the log itself.
    Everything,
}

impl AuditLog {
    /// kube-apiserver's arguments for it, with its files in a directory.
    pub(super) fn arguments(self, dir: &Path) -> Vec<String> {
        let policy = match self {
            Self::Off => return Vec::new(),
            Self::Writes => WRITES,
            Self::Everything => EVERYTHING,
        };
        let file = dir.join("audit.policy.yaml");
        fs::write(&file, policy).expect("the cluster's directory is writable");
        vec![
            format!("--audit-policy-file={}", file.display()),
            format!("--audit-log-path={}", file_in(dir).display()),
        ]
    }
}

/// The log's file.
pub(super) fn file_in(dir: &Path) -> PathBuf {
    dir.join("audit.log")
}

/// The requests that were refused (403), in a log of every request: who asked, and for what.
pub(crate) fn refused(path: &Path) -> Vec<(String, String)> {
    let log = fs::read_to_string(path).expect("kube-apiserver writes its log");
    log.lines()
        .filter_map(|line| serde_json::from_str::<Value>(line).ok())
        .filter(|event| event["responseStatus"]["code"] == 403)
        .map(|event| {
            let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
            (text(&event["user"]["username"]), text(&event["requestURI"]))
        })
        .collect()
}

pub(super) fn writes(dir: &Path) -> Vec<Write> {
    let log = fs::read_to_string(file_in(dir)).unwrap_or_default();
    log.lines()
        // The last line may be half written.
        .filter_map(|line| serde_json::from_str::<Value>(line).ok())
        // A trial writes nothing.
        .filter(|event| !event["requestURI"].to_string().contains("dryRun="))
        .map(|event| {
            let object = &event["objectRef"];
            let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
            let agent = text(&event["userAgent"]);
            Write {
                program: agent.split('/').next().unwrap_or_default().to_owned(),
                verb: text(&event["verb"]),
                resource: match object["subresource"].as_str() {
                    Some(sub) => format!("{}/{sub}", text(&object["resource"])),
                    None => text(&object["resource"]),
                },
                name: text(&object["name"]),
                code: event["responseStatus"]["code"].as_u64().unwrap_or_default(),
            }
        })
        .collect()
}
