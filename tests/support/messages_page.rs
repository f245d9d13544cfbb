//! `docs/dev/messages.md`: what Windrow says, each message with an example. The examples of reason codes are made of
//! `message_examples.txt`, all others by the program itself.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::Path;
use std::process::{Command, Stdio};

use jiff::{SignedDuration, Timestamp};
use serde_json::{Value, json};
use windrow_decide::settings::{ConfigFile, ConfigFileRole, ConfigFiles, Settings, merge};
use windrow_decide::{Ledger, StagingState, Status, sentence};
use windrow_model::manifest::ObjectRef;
use windrow_model::reasons::{Code, REASONS, Reason, Severity};
use windrow_plan::readiness::node::{BUILTIN, Pace, Phase, PhaseStatus, ProbeSeverity, Readiness};
use windrow_plan::readiness::{KindSeen, ObjectSeen, ObservedCluster, Verdict, judge};
use windrow_plan::rules::RuleSet;

use super::apiserver::ApiServer;
use super::daemon::kept_by_this_test;
use super::said::{self, Said};

const EXAMPLES: &str = include_str!("message_examples.txt");

/// A message as a person reads it, and where it comes from.
#[derive(Debug, Clone)]
pub(crate) struct Message {
    /// A code, a kind or a key.
    pub(crate) from: String,
    pub(crate) text: String,
    pub(crate) advice: &'static str,
}

/// Every message of the page, by its part.
pub(crate) fn messages() -> Vec<(&'static str, Vec<Message>)> {
    let mut parts: Vec<(&'static str, Vec<Message>)> = Vec::new();
    for reason in REASONS {
        let message = Message {
            from: reason.id.to_owned(),
            text: example(reason),
            advice: reason.advice,
        };
        match parts.iter_mut().find(|(part, _)| *part == reason.section) {
            Some((_, known)) => known.push(message),
            None => parts.push((reason.section, vec![message])),
        }
    }
    parts.push(("In one line", lines(None)));
    let of_probe = |file: &str| file.to_owned();
    parts.push(("Reasons of the probes", texts(said::of_probes(), of_probe)));
    parts.push(("Answers of the verbs", answers()));
    let of_verb = |file: &str| format!("src/cli/{file}.rs");
    parts.push((
        "Other messages of the verbs",
        texts(said::of_verbs(), of_verb),
    ));
    let elsewhere = said::of_speakers().into_iter();
    parts.extend(elsewhere.map(|(part, said)| (part, texts(said, |file| format!("{file}.rs")))));
    parts.push(("Verdicts of objects", verdicts()));
    parts.push(("Errors of the configuration", configuration_errors()));
    parts
}

/// The page.
pub(crate) fn messages_page() -> String {
    let mut page = String::from(
        "# Messages\n\nAll messages of Windrow, each with an example. For the advice, use `journalctl -x` or `windrow why \
         CODE`, or see [reasons.md](../reasons.md).\n`tests/support/messages_page.rs` generates this page. The fields of reason codes come from \
         `message_examples.txt` in its directory,\nand the fields of other texts from `said_examples.txt` and `said_examples_elsewhere.txt`. The page lists every text in the program's sources\n\
         automatically, except for the words of other programs, such as kube-apiserver's refusal of a field. The answers\nof verbs, each with its exit code, come from the program itself, on a node on which nothing runs and on a node where verbs succeed.\n`tests/local/forms.rs` checks that all \
         messages have one form: one subject, one reason, no text of a library.\n",
    );
    for (part, messages) in messages() {
        let _ = write!(page, "\n## {part}\n\n| of | says |\n|---|---|\n");
        for Message { from, text, .. } in messages {
            let text = text.replace('|', "\\|").replace('<', "&lt;");
            let _ = writeln!(page, "| `{from}` | {text} |");
        }
    }
    page
}

/// The values of fields, by code; `*` has those of every code.
fn fields() -> BTreeMap<&'static str, Vec<(&'static str, &'static str)>> {
    let mut fields: BTreeMap<_, Vec<_>> = BTreeMap::new();
    for line in EXAMPLES.lines().filter(|line| !line.starts_with('#')) {
        let (code, rest) = line.split_once(' ').expect("a code and its fields");
        fields.entry(code).or_default().extend(pairs(rest));
    }
    fields
}

/// `a=one two b=three`: a field begins where a word has `=` behind a name.
fn pairs(text: &'static str) -> Vec<(&'static str, &'static str)> {
    let is_field = |name: &str| !name.is_empty() && name.bytes().all(|b| b.is_ascii_lowercase());
    let mut starts = Vec::new();
    let mut at = 0;
    for word in text.split(' ') {
        let name = word.split('=').next().unwrap_or_default();
        if word.contains('=') && is_field(name) && FIELDS.contains(&name) {
            starts.push(at);
        }
        at += word.len() + 1;
    }
    let ends = starts.iter().skip(1).map(|next| next - 1);
    let ends: Vec<usize> = ends.chain([text.len()]).collect();
    let spans = starts.iter().zip(ends);
    spans
        .filter_map(|(start, end)| text[*start..end].split_once('='))
        .collect()
}

/// Every name of a field in a template.
const FIELDS: &[&str] = &[
    "age",
    "annotation",
    "backend",
    "by",
    "change",
    "claim",
    "class",
    "code",
    "component",
    "condition",
    "console",
    "count",
    "difference",
    "done",
    "error",
    "event",
    "expected",
    "field",
    "file",
    "files",
    "flag",
    "gate",
    "gates",
    "held",
    "how",
    "image",
    "is",
    "key",
    "kind",
    "labels",
    "level",
    "limit",
    "manifests",
    "marker",
    "mode",
    "mount",
    "name",
    "near",
    "need",
    "nodes",
    "object",
    "other",
    "outlet",
    "path",
    "phase",
    "place",
    "played",
    "port",
    "probe",
    "role",
    "rule",
    "seconds",
    "seeds",
    "seen",
    "size",
    "state",
    "step",
    "subject",
    "target",
    "thing",
    "time",
    "value",
    "version",
    "was",
    "what",
    "who",
    "why",
    "word",
];

fn example(reason: &Reason) -> String {
    let all = fields();
    let of = |code: &str| all.get(code).cloned().unwrap_or_default();
    let mut values = of(reason.id);
    values.extend(of("*"));
    reason.code.say(&values)
}

/// The reasons of a node in the line of 65 characters that login prompts, webhooks and `windrow console --once` have, with
/// no more of a headline than the word and the step; or of one that has been there for so long and hangs.
pub(crate) fn lines(hangs_since: Option<SignedDuration>) -> Vec<Message> {
    let lines = REASONS.iter().filter_map(|reason| {
        let (readiness, phase, place) = node_with(reason)?;
        let mut status = node();
        status.readiness = readiness;
        status.phase = phase;
        status.reason.code = reason.code;
        status.reason.message = format!("{place}{}", example(reason));
        status.pace = hangs_since.map(|_| Pace::Stalled);
        let now = Timestamp::UNIX_EPOCH + hangs_since.unwrap_or_default();
        // Of a document that is not a node's the line is its summary.
        status.headline = sentence::headline(&status, now);
        Some(Message {
            from: reason.id.to_owned(),
            text: sentence::one_line(&status, now),
            advice: "",
        })
    });
    lines.collect()
}

/// How a node stands that has this reason, and what stands before the reason; `None` where it cannot be a node's.
fn node_with(reason: &Reason) -> Option<(Readiness, Phase, &'static str)> {
    let row = BUILTIN.iter().find(|row| row.code == reason.code);
    match (reason.section, reason.code) {
        (_, Code::NodeReady) => Some((Readiness::Ready, Phase::Ready, "")),
        (_, Code::ApplyFailed | Code::NotApplied | Code::Staging) => {
            Some((Readiness::SettingUp, Phase::Manifests, ""))
        }
        (_, Code::ApiUnreachable | Code::StateUnknown) => {
            Some((Readiness::Unknown, Phase::Manifests, ""))
        }
        ("Why a file is held", _) => {
            Some((Readiness::SettingUp, Phase::Manifests, "web-vm.yaml: "))
        }
        ("What is wrong with a manifests directory", _) if reason.severity == Severity::Error => {
            Some((Readiness::Degraded, Phase::Ready, "web-vm.yaml:5: "))
        }
        ("Known incidents", _) if reason.severity == Severity::Error => {
            Some((Readiness::Degraded, Phase::Ready, ""))
        }
        (
            "How the node is judged",
            Code::ProbeUnknown
            | Code::ProbeRefused
            | Code::ProbePending
            | Code::ProbeOff
            | Code::RoleUnknown,
        ) => Some((Readiness::Unknown, Phase::Node, "")),
        ("How the node is judged", _) => Some((Readiness::SettingUp, Phase::Api, "")),
        ("What a probe found", _) => match row.map(|row| (row.severity, row.phase)) {
            Some((ProbeSeverity::Wanted, _)) => Some((Readiness::Degraded, Phase::Ready, "")),
            Some((ProbeSeverity::Required, phase)) => Some((Readiness::SettingUp, phase, "")),
            None => Some((Readiness::SettingUp, Phase::Api, "")),
        },
        _ => None,
    }
}

/// A node that is probed.
fn node() -> Status {
    let now = Timestamp::UNIX_EPOCH;
    let mut state = StagingState::new(
        Settings::default(),
        RuleSet::default(),
        None,
        Ledger::default(),
        now,
    );
    let mut status = state.decide(now).status;
    status.phases = vec![PhaseStatus::current(Phase::Ready)];
    status
}

/// Texts of the program's sources.
fn texts(said: Vec<Said>, of: impl Fn(&str) -> String) -> Vec<Message> {
    let message = |said: Said| Message {
        from: of(&said.file),
        text: said.text,
        advice: "",
    };
    said.into_iter().map(message).collect()
}

/// What somebody types on a node on which neither Windrow nor RKE2 runs, and whose answer says so.
const ORDERS: &[&[&str]] = &[
    &["console", "--once"],
    &["hold", "web.yaml", "--reason", "not tonight"],
    &["hold", "gone.yaml"],
    &["release", "web.yaml", "--reason", "ticket 4711"],
    &["release", "web.yaml"],
    &["release", "gone.yaml"],
    &["release", "--all"],
    &["release"],
    &["add", "new.yaml"],
    &["add", "none.yaml"],
    &["wait", "--for", "ready", "--timeout", "1s"],
    &["wait", "--for", "applied"],
    &["repair"],
    &["repair", "addon-stuck"],
    &["gates", "check"],
    &["gates", "apply"],
    &["gates", "rollback"],
    &["why", "web.yaml"],
    &["diagnose"],
    &["timeline"],
    &["config", "check"],
    &["cleanup"],
];

/// The same where Windrow runs, or where a cluster can be asked; and which line of the answer comes first.
const SUCCESSES: &[(&[&str], &str)] = &[
    (&["wait", "--for", "ready", "--timeout", "1m"], "the node"),
    (&["wait", "--for", "staged", "--timeout", "1m"], "every"),
    (
        &["wait", "--for", "released=ns.yaml", "--timeout", "1m"],
        "ns.yaml",
    ),
    (
        &["wait", "--for", "applied=ns.yaml", "--timeout", "1m"],
        "ns.yaml",
    ),
    (&["repair", "addon-stuck", "--yes"], "Nothing"),
    (&["repair", DRIVER, "--dry-run"], "Feature harvester: tried"),
    (&["repair", DRIVER, "--yes"], "saved in"),
    (&["repair", "--undo", "--yes"], "undone"),
];
const DRIVER: &str = "driver-without-feature";

/// The program's answers, with its exit code.
fn answers() -> Vec<Message> {
    let node = tempfile::tempdir().expect("a node");
    let manifests = node.path().join("var/lib/rancher/rke2/server/manifests");
    std::fs::create_dir_all(&manifests).expect("its manifests");
    let units = node.path().join("usr/lib/systemd/system");
    std::fs::create_dir_all(&units).expect("its units");
    std::fs::write(units.join("windrow.service"), "[Unit]\n").expect("a unit");
    let manifest = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: web}\n";
    for path in [manifests.join("web.yaml"), node.path().join("new.yaml")] {
        std::fs::write(path, manifest).expect("a manifest");
    }
    let failures = ORDERS
        .iter()
        .flat_map(|order| answer(node.path(), order, ""));
    let mut messages: Vec<Message> = failures.collect();
    let node = tempfile::tempdir().expect("a node");
    let _api = make_well(node.path());
    let well = SUCCESSES.iter();
    messages.extend(well.flat_map(|(order, first)| answer(node.path(), order, first)));
    messages
}

/// A node on which Windrow runs, with an API of Rancher that has something to repair.
fn make_well(node: &Path) -> ApiServer {
    let write = |path: &str, text: String| {
        let path = node.join(path);
        std::fs::create_dir_all(path.parent().expect("a directory")).expect("a directory");
        std::fs::write(path, text).expect("a file");
    };
    let mut status = serde_json::to_value(self::node()).expect("JSON");
    status["readiness"] = "Ready".into();
    let applied = json!({"file": "ns.yaml", "since": "2026-01-01T00:00:00Z", "cause": "free"});
    status["staging"]["total"] = json!(1);
    status["staging"]["applied"] = json!([applied]);
    status["staging"]["settled"] = json!(true);
    write(
        "run/windrow/status.json",
        kept_by_this_test(&status.to_string()),
    );
    let api = ApiServer::start();
    let rancher = "/apis/management.cattle.io/v3";
    let object = |kind: &str, spec: Value| {
        json!({"apiVersion": "management.cattle.io/v3", "kind": kind, "spec": spec,
            "metadata": {"name": "harvester", "uid": "1", "resourceVersion": "1"}})
    };
    let feature = object("Feature", json!({"value": false}));
    api.keep(&format!("{rancher}/features/harvester"), feature);
    let url = "https://releases.example/driver.tar.gz";
    let driver = object("NodeDriver", json!({"active": true, "url": url}));
    api.keep(&format!("{rancher}/nodedrivers/harvester"), driver);
    write("etc/rancher/rke2/rke2.yaml", api.kubeconfig("admin"));
    api
}

/// Below another root, the cluster is only contacted if it is named.
fn cluster_of(node: &Path, order: &[&str]) -> &'static [&'static str] {
    const KUBECONFIG: &str = "etc/rancher/rke2/rke2.yaml";
    if order.first() == Some(&"repair") && node.join(KUBECONFIG).exists() {
        &["--kubeconfig", KUBECONFIG]
    } else {
        &[]
    }
}

/// Some lines of one answer, from the first that begins like this.
fn answer(node: &Path, order: &[&str], first: &str) -> Vec<Message> {
    const LINES: usize = 3;
    let root = node.display().to_string();
    let output = Command::new(env!("CARGO_BIN_EXE_windrow"))
        .args(["--root", &root])
        .args(order)
        .args(cluster_of(node, order))
        .current_dir(node)
        .env("SUDO_USER", "ada")
        .stdin(Stdio::null())
        .output()
        .expect("the program");
    let said =
        [output.stdout, output.stderr].map(|bytes| String::from_utf8_lossy(&bytes).into_owned());
    let said = said.concat().replace(&root, "");
    // A record is named by its time.
    let time = regex::Regex::new(r"-\d{10}\b").expect("a pattern");
    let said = time.replace_all(&said, "-TIME");
    let lines = said.lines().map(str::trim).filter(|line| !line.is_empty());
    let lines = lines.skip_while(|line| !line.starts_with(first));
    let code = output.status.code().unwrap_or_default();
    let message = |line: &str| Message {
        from: format!("windrow {}: {code}", order.join(" ")),
        text: line.strip_prefix("windrow: ").unwrap_or(line).to_owned(),
        advice: "",
    };
    lines.take(LINES).map(message).collect()
}

/// Nothing else is known.
struct Nothing;

impl ObservedCluster for Nothing {
    fn object(&self, _: &ObjectRef) -> &ObjectSeen {
        &ObjectSeen::NotAsked
    }

    fn kind(&self, _: &windrow_model::manifest::GroupKind) -> &KindSeen {
        &KindSeen::NotAsked
    }
}

/// The judgement of the program on objects that are not ready.
fn verdicts() -> Vec<Message> {
    let conditions = |kind: &str, status: &str, reason: &str, message: &str| {
        json!({"status": {"conditions": [
        {"type": kind, "status": status, "reason": reason, "message": message}]}})
    };
    let objects: Vec<(&str, &str, Value)> = vec![
        (
            "apps",
            "Deployment",
            json!({"metadata": {"generation": 2}, "spec": {"replicas": 2},
            "status": {"observedGeneration": 2, "replicas": 2, "updatedReplicas": 2, "availableReplicas": 1}}),
        ),
        (
            "apps",
            "Deployment",
            json!({"metadata": {"generation": 2}, "status": {"observedGeneration": 1}}),
        ),
        (
            "apps",
            "DaemonSet",
            json!({"metadata": {"generation": 1}, "status": {"observedGeneration": 1,
            "desiredNumberScheduled": 3, "currentNumberScheduled": 3, "updatedNumberScheduled": 3, "numberAvailable": 1}}),
        ),
        (
            "apps",
            "StatefulSet",
            json!({"metadata": {"generation": 1}, "spec": {"replicas": 3},
            "status": {"observedGeneration": 1, "replicas": 3, "readyReplicas": 1, "updatedReplicas": 3}}),
        ),
        (
            "batch",
            "Job",
            json!({"status": {"active": 1, "startTime": "2026-01-01T00:00:00Z"}}),
        ),
        (
            "batch",
            "Job",
            conditions(
                "Failed",
                "True",
                "BackoffLimitExceeded",
                "it has failed too often",
            ),
        ),
        ("", "Pod", json!({"status": {"phase": "Pending"}})),
        ("", "Pod", json!({"status": {"phase": "Failed"}})),
        (
            "",
            "PersistentVolumeClaim",
            json!({"status": {"phase": "Pending"}}),
        ),
        (
            "",
            "PersistentVolumeClaim",
            json!({"status": {"phase": "Lost"}}),
        ),
        ("", "Namespace", json!({"status": {"phase": "Terminating"}})),
        (
            "",
            "Service",
            json!({"spec": {"type": "LoadBalancer", "clusterIP": "10.43.0.9"}, "status": {"loadBalancer": {}}}),
        ),
        (
            "apiextensions.k8s.io",
            "CustomResourceDefinition",
            conditions(
                "NamesAccepted",
                "False",
                "NameConflict",
                "the plural is taken",
            ),
        ),
        (
            "apiextensions.k8s.io",
            "CustomResourceDefinition",
            json!({}),
        ),
        (
            "apiregistration.k8s.io",
            "APIService",
            conditions("Available", "False", "MissingEndpoints", "no endpoints"),
        ),
        (
            "example.com",
            "Widget",
            json!({"metadata": {"generation": 2}, "status": {"observedGeneration": 1}}),
        ),
        (
            "example.com",
            "Widget",
            conditions("Ready", "False", "Waiting", "its disk is missing"),
        ),
        (
            "example.com",
            "Widget",
            conditions("Stalled", "True", "Broken", "its disk is broken"),
        ),
        (
            "example.com",
            "Widget",
            json!({"metadata": {"deletionTimestamp": "2026-01-01T00:00:00Z"}}),
        ),
    ];
    let rules = RuleSet::default();
    let mut said: Vec<Message> = Vec::new();
    for (group, kind, object) in objects {
        let id = ObjectRef::namespaced(group, kind, "shop", "web");
        let judgement = judge(&object, &id, &rules, &Nothing);
        let verdict = match judgement.verdict {
            Verdict::Ready => continue,
            Verdict::Progressing => "Progressing",
            Verdict::Failed => "Failed",
            Verdict::Unknown => "Unknown",
        };
        said.push(Message {
            from: format!("{kind}, {verdict}"),
            text: judgement.message.to_string(),
            advice: "",
        });
    }
    said
}

/// A configuration with a mistake of every sort, as `windrow config check` complains about it.
const MISTAKES: &str = "\
stagin: {}
platform: harvestr
staging:
  advisoryDeadline: 5
  rescan: soon
  limits: {fileBytes: many}
  ignore: web.yaml
probes:
  builtin: {clok: {enabled: false}}
  custom:
  - {name: Registry}
webhooks:
- {event: NODE_REDY, url: 'http://a.example/'}
- {event: NODE_READY, url: a.example}
- {event: NODE_READY, url: 'http://a.example/{{.Nothing}}'}
- {event: NODE_READY, url: 'http://a.example/', method: SEND}
statusServer: {enabled: yes please, listen: here}
featureGates:
- {gate: ImageVolume}
gates: {onChange: maybe}
";

fn configuration_errors() -> Vec<Message> {
    let settings = ConfigFile {
        role: ConfigFileRole::Settings,
        name: "windrow.yaml".to_owned(),
        path: "windrow.yaml".into(),
        text: MISTAKES.to_owned(),
    };
    let loaded = merge(ConfigFiles {
        files: vec![settings],
        ..ConfigFiles::default()
    });
    let errors = loaded.errors.iter().map(|error| Message {
        from: "windrow config check".to_owned(),
        text: error.to_string(),
        advice: "",
    });
    errors.collect()
}
