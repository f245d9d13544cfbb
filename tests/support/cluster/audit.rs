//! The writes to the API server in order, with their authors: its own audit log.

use std::fs;
use std::path::Path;

use serde_json::Value;

/// Every request and how it was answered, for a test that reads the log itself.
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

/// kube-apiserver's arguments for a log of the writes, with its file in a directory.
pub(super) fn arguments(dir: &Path) -> [String; 2] {
    log(&dir.join("audit.log"), WRITES)
}

/// kube-apiserver's arguments for a log of every request.
pub(crate) fn everything(path: &Path) -> [String; 2] {
    log(path, EVERYTHING)
}

fn log(path: &Path, policy: &str) -> [String; 2] {
    let file = path.with_extension("policy.yaml");
    fs::write(&file, policy).expect("the log's directory is writable");
    [
        format!("--audit-policy-file={}", file.display()),
        format!("--audit-log-path={}", path.display()),
    ]
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
    let log = fs::read_to_string(dir.join("audit.log")).unwrap_or_default();
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
