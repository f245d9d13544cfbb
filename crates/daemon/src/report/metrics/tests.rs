//! The metrics of a status; documentation, rules and dashboard have to use exactly these.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;

use regex::Regex;
use serde_json::{Value, json};
use windrow_decide::Status;
use windrow_gates::TrialOutcome;
use windrow_gates::trial::TrialState;
use windrow_model::reasons::REASONS;

use super::families::{DELIVERIES, OUTCOMES, PACES, READINESS, TRANSITIONS, TRIALS, word};
use super::*;
use crate::report::publish::sample;

/// The most samples of a node for any status: from its own probes, its findings and its configuration.
const MOST_SAMPLES: usize = 300;

fn at(second: i64) -> Timestamp {
    Timestamp::from_second(second).unwrap()
}

fn status(fields: Value) -> Status {
    let mut document = serde_json::to_value(sample("x")).unwrap();
    let all = document.as_object_mut().unwrap();
    for (key, value) in fields.as_object().unwrap() {
        all.insert(key.clone(), value.clone());
    }
    serde_json::from_value(document).unwrap()
}

/// A status that has something of everything.
fn full() -> Status {
    let since = "2026-11-24T01:00:00Z";
    let at = json!({"file": "/etc/windrow/windrow.yaml", "line": 3});
    let held = |file: &str, code: &str, by: &str, since: &str, overdue: bool| {
        json!({"file": file, "since": since, "code": code, "why": "it \"waits\"\n", "by": by,
            "overdue": overdue, "blockers": []})
    };
    let done = |file: &str, cause: &str| json!({"file": file, "since": since, "cause": cause});
    let probe = |id: &str, state: &str, severity: &str| json!({"id": id, "state": state, "severity": severity, "since": since});
    let off =
        json!({"id": "load", "state": "unknown", "severity": "wanted", "since": since, "off": at});
    let hook = |event: &str, state: &str| json!({"event": event, "console": "https://c", "at": at, "state": state, "since": since});
    let phase = |name: &str, state: &str| {
        json!({"name": name, "state": state, "done": 1, "total": 2, "began": since, "seconds": 7,
        "expected": {"seconds": 300, "from": "default"}})
    };
    let finding = |code: &str, severity: &str| json!({"code": code, "severity": severity, "message": "secret.yaml is bad", "at": [at]});
    status(json!({
        "generation": 41, "host": "node1", "nodeName": "node1.example", "readiness": "SettingUp", "phase": "api",
        "phaseSince": since, "firstReady": null, "platform": "harvester", "role": "first-server", "pace": "stalled",
        "transition": {"kind": "upgrade", "since": since, "message": "m"},
        "phases": [phase("network", "done"), phase("api", "current"), phase("node", "pending")],
        "staging": {"total": 8, "settled": false,
            "held": [
                held("vm.yaml", "waits-for-kind", "windrow", "2026-11-24T00:30:00Z", true),
                held("later.yaml", "waits-for-kind", "windrow", since, false),
                held("hand.yaml", "held-by-hand", "windrow", "2026-11-01T00:00:00Z", false),
                held("theirs.yaml", "held-by-other", "other", "2026-11-01T00:00:00Z", false)],
            "notHeld": [],
            "released": [done("a.yaml", "met")],
            "applied": [done("b.yaml", "free"), done("c.yaml", "escaped")],
            "failed": [{"file": "bad.yaml", "since": since, "reason": "r", "message": "m"}]},
        "probes": [probe("disk-space", "passing", "wanted"), probe("apiserver", "failing", "required"),
            probe("harvester", "unknown", "required"), off, probe("user/registry", "failing", "required")],
        "findings": [finding("webhook-failing", "warning"), finding("webhook-failing", "warning"), finding("addon-stuck", "error")],
        "webhooks": [hook("NODE_READY", "waiting"), hook("NODE_READY", "failing")],
        "gates": {"versions": ["1.34.2"], "because": "b", "asked": [{"component": "kubelet", "gate": "G", "value": true, "at": at}],
            "effective": [], "leftOut": [], "pending": true,
            "trial": {"requests": ["r"], "change": "apply", "by": "ann", "at": since, "state": "rolled-back", "since": since,
                "gates": "G=true", "outcome": "rolled-back"}},
    }))
}

fn families(status: Option<Status>) -> Families {
    let counters = DaemonCounters::default();
    counters.decided();
    counters.woke(3, 4);
    counters.marked(Duration::from_millis(3));
    Families {
        status: status.map(Arc::new),
        process: ProcessFacts {
            resident_bytes: Some(12_345_678),
            cpu: Some(Duration::from_millis(1500)),
            open_files: Some(21),
            started: Some(at(1_000)),
            requests: 5,
            watches: 2,
        },
        counters,
        now: at(2_000),
    }
}

/// How many markers' latencies were counted.
pub(crate) fn markers_counted(counters: &DaemonCounters) -> f64 {
    let families = Families {
        counters: counters.clone(),
        ..families(None)
    };
    let text = write(families, TextFormat::OpenMetrics).unwrap();
    samples(&text)["windrow_marker_latency_seconds_count"]
}

fn text(status: Option<Status>) -> String {
    write(families(status), TextFormat::OpenMetrics).unwrap()
}

/// The samples of a text, without comments.
fn samples(text: &str) -> BTreeMap<&str, f64> {
    let lines = text.lines().filter(|line| !line.starts_with('#'));
    let samples = lines.map(|line| {
        let (name, value) = line.rsplit_once(' ').unwrap();
        (name, value.parse().unwrap_or_else(|_| panic!("{line}")))
    });
    samples.collect()
}

fn types(text: &str) -> BTreeMap<String, String> {
    let lines = text.lines().filter_map(|line| line.strip_prefix("# TYPE "));
    let types = lines.map(|line| line.split_once(' ').unwrap());
    types
        .map(|(name, kind)| (name.to_owned(), kind.to_owned()))
        .collect()
}

fn full_text() -> String {
    let ready = Status {
        first_ready: Some(at(7)),
        ..full()
    };
    text(Some(full())) + &text(Some(ready))
}

#[test]
fn every_part_of_the_status_is_a_sample() {
    let text = text(Some(full()));
    let samples = samples(&text);
    for (name, value) in [
        (r#"windrow_build_info{version="0.1.0"}"#, 1.0),
        (
            r#"windrow_node_info{node="node1.example",host="node1",role="first-server",platform="harvester"}"#,
            1.0,
        ),
        (r#"windrow_rke2_info{version="1.34.2"}"#, 1.0),
        (r#"windrow_reason_info{code="staging"}"#, 1.0),
        (r#"windrow_readiness{state="SettingUp"}"#, 1.0),
        (r#"windrow_readiness{state="Ready"}"#, 0.0),
        (r#"windrow_phase{phase="api"}"#, 1.0),
        (r#"windrow_phase{phase="rke2-installed"}"#, 0.0),
        (r#"windrow_pace{state="stalled"}"#, 1.0),
        (r#"windrow_boot_hangs{pace="stalled"}"#, 1.0),
        (r#"windrow_boot_hangs{pace="stuck"}"#, 0.0),
        (r#"windrow_transition{kind="upgrade"}"#, 1.0),
        (r#"windrow_transition{kind="drain"}"#, 0.0),
        (
            "windrow_current_phase_start_timestamp_seconds",
            1_795_482_000.0,
        ),
        (r#"windrow_phase_duration_seconds{phase="network"}"#, 7.0),
        (r#"windrow_phase_expected_seconds{phase="node"}"#, 300.0),
        (
            r#"windrow_phase_start_timestamp_seconds{phase="api"}"#,
            1_795_482_000.0,
        ),
        (r#"windrow_manifests{state="held"}"#, 2.0),
        (r#"windrow_manifests{state="kept"}"#, 1.0),
        (r#"windrow_manifests{state="held-by-other"}"#, 1.0),
        (r#"windrow_manifests{state="not-held"}"#, 0.0),
        (r#"windrow_manifests{state="released"}"#, 1.0),
        (r#"windrow_manifests{state="applied"}"#, 2.0),
        (r#"windrow_manifests{state="failed"}"#, 1.0),
        ("windrow_manifests_escaped", 1.0),
        ("windrow_manifests_overdue", 1.0),
        // Without those that are kept on purpose.
        (
            "windrow_oldest_hold_start_timestamp_seconds",
            1_795_480_200.0,
        ),
        ("windrow_staging_settled", 0.0),
        (
            r#"windrow_probe_passing{probe="disk-space",severity="wanted"}"#,
            1.0,
        ),
        (
            r#"windrow_probe_passing{probe="apiserver",severity="required"}"#,
            0.0,
        ),
        (
            r#"windrow_probe_passing{probe="user/registry",severity="required"}"#,
            0.0,
        ),
        (r#"windrow_probes{state="passing"}"#, 1.0),
        (r#"windrow_probes{state="failing"}"#, 2.0),
        (r#"windrow_probes{state="unknown"}"#, 1.0),
        (r#"windrow_probes{state="off"}"#, 1.0),
        (
            r#"windrow_findings{code="webhook-failing",severity="warning"}"#,
            2.0,
        ),
        (
            r#"windrow_findings{code="addon-stuck",severity="error"}"#,
            1.0,
        ),
        (
            r#"windrow_webhooks{event="NODE_READY",state="failing"}"#,
            1.0,
        ),
        (
            r#"windrow_webhooks{event="NODE_READY",state="delivered"}"#,
            0.0,
        ),
        (r#"windrow_feature_gates{state="asked"}"#, 1.0),
        ("windrow_feature_gates_pending", 1.0),
        (r#"windrow_gate_trial{state="rolled-back"}"#, 1.0),
        (r#"windrow_gate_trial_outcome{outcome="rolled-back"}"#, 1.0),
        (r#"windrow_gate_trial_outcome{outcome="kept"}"#, 0.0),
        ("windrow_status_generation", 41.0),
        ("windrow_time_seconds", 2_000.0),
        ("windrow_decisions_total", 1.0),
        ("windrow_wakeups_total", 1.0),
        (r#"windrow_waiting_events{queue="cluster"}"#, 4.0),
        (r#"windrow_marker_latency_seconds_bucket{le="0.002"}"#, 0.0),
        (r#"windrow_marker_latency_seconds_bucket{le="0.005"}"#, 1.0),
        ("windrow_marker_latency_seconds_count", 1.0),
        ("windrow_apiserver_requests_total", 5.0),
        ("windrow_apiserver_watches_total", 2.0),
        ("windrow_process_resident_memory_bytes", 12_345_678.0),
        ("windrow_process_cpu_seconds_total", 1.5),
        ("windrow_process_open_fds", 21.0),
        ("windrow_process_start_time_seconds", 1_000.0),
    ] {
        assert_eq!(samples.get(name), Some(&value), "{name}\n{text}");
    }
}

#[test]
fn what_is_not_known_is_absent() {
    let known = full_text();
    // Before the first decision, only the program's own metrics exist.
    let nothing = text(None);
    for name in types(&nothing).keys() {
        assert!(types(&known).contains_key(name), "{name}");
        assert!(!name.starts_with("windrow_readiness"), "{nothing}");
    }
    let unknown = Families {
        process: ProcessFacts::default(),
        ..families(Some(status(
            json!({"gates": {"versions": ["1.34.2", "1.35.0"], "because": "b", "asked": [],
            "effective": [], "leftOut": []}}),
        )))
    };
    let unknown = write(unknown, TextFormat::OpenMetrics).unwrap();
    for name in [
        "windrow_process_resident_memory_bytes",
        "windrow_process_cpu_seconds",
        "windrow_process_open_fds",
        "windrow_process_start_time_seconds",
        "windrow_pace",
        "windrow_boot_hangs",
        "windrow_phase_duration_seconds",
        "windrow_phase_start_timestamp_seconds",
        "windrow_current_phase_start_timestamp_seconds",
        "windrow_first_ready_timestamp_seconds",
        "windrow_oldest_hold_start_timestamp_seconds",
        "windrow_probe_passing",
        "windrow_probes",
        "windrow_findings",
        "windrow_webhooks",
        "windrow_rke2",
        "windrow_gate_trial",
        "windrow_gate_trial_outcome",
    ] {
        assert!(types(&known).contains_key(name), "{name} is never there");
        assert!(!types(&unknown).contains_key(name), "{name}: {unknown}");
    }
    let known = samples(&known);
    for name in [
        r#"windrow_probe_passing{probe="harvester",severity="required"}"#,
        r#"windrow_probe_passing{probe="load",severity="wanted"}"#,
        // It is not over: these are its earlier stays.
        r#"windrow_phase_duration_seconds{phase="api"}"#,
    ] {
        assert!(!known.contains_key(name), "{name}");
    }
}

#[test]
fn no_file_message_or_address_is_a_label_and_the_number_of_samples_is_bounded() {
    let mut big = full();
    let probe = big.probes.last().unwrap().clone();
    let held = big.staging.held[0].clone();
    let hook = big.webhooks[0].clone();
    for number in 0..1_000 {
        let mut probe = probe.clone();
        probe.id = windrow_plan::readiness::node::ProbeId::user(&format!("p{number}"));
        big.probes.push(probe);
        let mut held = held.clone();
        held.file = format!("file-{number}.yaml").as_str().into();
        big.staging.held.push(held);
        let mut hook = hook.clone();
        hook.console = format!("https://c{number}");
        big.webhooks.push(hook);
    }
    let text = text(Some(big));
    let samples = samples(&text);
    for hidden in [".yaml", "secret", "waits\\\"", "https:", "ann"] {
        let shown: Vec<_> = samples
            .keys()
            .filter(|name| name.contains(hidden))
            .collect();
        assert!(shown.is_empty(), "{hidden}: {shown:?}");
    }
    let count = samples.len();
    assert!(count <= MOST_SAMPLES, "{count}");
    // Each finding's code and severity adds one sample, and both come from tables.
    assert!(text.lines().all(|line| {
        let code = line.strip_prefix("windrow_findings{code=\"");
        let code = code.and_then(|rest| rest.split('"').next());
        code.is_none_or(|code| REASONS.iter().any(|reason| reason.id == code))
    }));
}

#[test]
fn each_state_of_the_status_document_has_its_row() {
    let schema = serde_json::to_value(schemars::schema_for!(Status)).unwrap();
    let words = |of: &str| -> BTreeSet<String> {
        let one = &schema["$defs"][of];
        let consts = one["oneOf"].as_array().into_iter().flatten();
        let consts = consts.flat_map(|one| match &one["enum"] {
            Value::Array(several) => several.clone(),
            _ => vec![one["const"].clone()],
        });
        let words: BTreeSet<String> = consts
            .filter_map(|one| one.as_str().map(str::to_owned))
            .collect();
        assert!(!words.is_empty(), "{of}: {one:#}");
        words
    };
    fn rows<T: serde::Serialize>(all: &[T]) -> BTreeSet<String> {
        all.iter().map(word).collect()
    }
    assert_eq!(rows(&READINESS), words("Readiness"));
    assert_eq!(rows(&PACES), words("Pace"));
    assert_eq!(rows(&TRANSITIONS), words("Transition"));
    assert_eq!(rows(&DELIVERIES), words("DeliveryState"));
    assert_eq!(rows::<TrialState>(&TRIALS), words("TrialState"));
    assert_eq!(rows::<TrialOutcome>(&OUTCOMES), words("TrialOutcome"));
}

#[test]
fn the_older_format_calls_a_family_as_its_samples() {
    let open = text(Some(full()));
    let older = write(families(Some(full())), TextFormat::Prometheus).unwrap();
    assert_eq!(samples(&open), samples(&older));
    assert!(open.ends_with("# EOF\n") && !older.contains("EOF"));
    let types = types(&older);
    assert_eq!(types["windrow_build_info"], "gauge");
    assert_eq!(types["windrow_decisions_total"], "counter");
    assert_eq!(types["windrow_marker_latency_seconds"], "histogram");
    for name in types.keys() {
        let help = older
            .lines()
            .filter(|line| line.starts_with(&format!("# HELP {name} ")));
        assert_eq!(help.count(), 1, "{name}");
    }
}

#[test]
fn who_asks_for_openmetrics_gets_it() {
    for (accept, format) in [
        ("", TextFormat::Prometheus),
        ("*/*", TextFormat::Prometheus),
        ("text/plain;version=0.0.4", TextFormat::Prometheus),
        (
            "application/openmetrics-text;version=1.0.0,text/plain;version=0.0.4;q=0.5,*/*;q=0.1",
            TextFormat::OpenMetrics,
        ),
        (
            "text/plain, Application/OpenMetrics-Text ; version=0.0.1",
            TextFormat::OpenMetrics,
        ),
    ] {
        assert_eq!(TextFormat::accepted(accept), format, "{accept}");
    }
}

fn file(path: &str) -> String {
    fs::read_to_string(format!("{}/../../{path}", env!("CARGO_MANIFEST_DIR"))).unwrap()
}

/// The rows of the table of metrics: name and type, and the labels in front of each `:` or `,`.
fn documented() -> BTreeMap<String, String> {
    let page = file("docs/metrics.md");
    let rows = page
        .lines()
        .filter_map(|line| line.strip_prefix("| `windrow_"));
    let rows = rows.map(|row| {
        let mut cells = row.split(" | ");
        let name = cells.next().unwrap().trim_end_matches('`');
        (format!("windrow_{name}"), cells.next().unwrap().to_owned())
    });
    rows.collect()
}

#[test]
fn the_page_has_every_metric_with_its_type_and_no_other() {
    assert_eq!(documented(), types(&full_text()));
}

fn sample_names() -> BTreeSet<String> {
    let mut names = BTreeSet::new();
    for (name, kind) in types(&full_text()) {
        let suffixes: &[&str] = match kind.as_str() {
            "counter" => &["_total"],
            "info" => &["_info"],
            "histogram" => &["_bucket", "_sum", "_count"],
            _ => &[""],
        };
        names.extend(suffixes.iter().map(|suffix| format!("{name}{suffix}")));
    }
    names
}

#[test]
fn rules_their_tests_and_the_dashboard_name_only_metrics_that_there_are() {
    let known = sample_names();
    let metric = Regex::new(r"\bwindrow_[a-z_0-9]+").unwrap();
    let recorded = Regex::new(r"\bwindrow:[a-z_0-9:]+").unwrap();
    let rules = file("packaging/monitoring/windrow.rules.yml");
    for path in [
        "windrow.rules.yml",
        "windrow.rules.test.yml",
        "windrow.dashboard.json",
    ] {
        let text = file(&format!("packaging/monitoring/{path}"));
        let names: BTreeSet<&str> = metric.find_iter(&text).map(|one| one.as_str()).collect();
        assert!(names.len() > 10, "{path}: {names:?}");
        for name in names {
            assert!(known.contains(name), "{path}: there is no {name}");
        }
        for name in recorded.find_iter(&text).map(|one| one.as_str()) {
            let rule = format!("record: {name}\n");
            assert!(rules.contains(&rule), "{path}: no rule records {name}");
        }
    }
    // Words of labels, too: a misspelt one would never fire.
    let labels = Regex::new(r#"(state|phase|pace|kind|code|severity)=(~?)"([^"]+)""#).unwrap();
    let text = full_text();
    for one in labels.captures_iter(&rules) {
        let (label, words) = (&one[1], one[3].split('|'));
        for word in words.filter(|word| label != "code" && *word != "failing") {
            let sample = format!("{label}=\"{word}\"");
            assert!(
                text.contains(&sample),
                "windrow.rules.yml: there is no {sample}"
            );
        }
    }
    for alert in rules
        .lines()
        .filter_map(|line| line.trim().strip_prefix("- alert: "))
    {
        let tested = format!("alertname: {alert}\n");
        let tests = file("packaging/monitoring/windrow.rules.test.yml");
        assert!(tests.matches(&tested).count() >= 2, "{alert} is not tested");
        assert!(
            file("docs/metrics.md").contains(&format!("`{alert}`")),
            "{alert}"
        );
    }
}
