//! Flights as text, like a daemon writes them: boots of a node with charts that provide kinds. The program's tests also
//! use them.

use serde_json::{Value, json};

/// 2026-01-01T00:00:00Z
const START: i64 = 1_767_225_600;

/// A boot of a node that installs a chart. Tests change its fields.
#[derive(Debug, Clone)]
pub(crate) struct BootScript {
    /// Identifies the boot, and is the number of days after the first one.
    pub(crate) number: i64,
    pub(crate) chart: String,
    /// `None` if the HelmChart has no version.
    pub(crate) version: Option<String>,
    /// The kinds that come from it, and after how many seconds.
    pub(crate) kinds: Vec<(String, i64)>,
    /// The provider; the release of the chart if it is null.
    pub(crate) by: Value,
    /// Does Helm reach `deployed`?
    pub(crate) deployed: bool,
    /// How long kube-apiserver takes, in seconds.
    pub(crate) api: i64,
    /// Is the node Ready at the end?
    pub(crate) ready: bool,
}

impl BootScript {
    /// A boot in which the chart `widgets` provides `Widget.widgets.example.com`.
    pub(crate) fn new(number: i64) -> Self {
        Self {
            number,
            chart: "widgets".to_owned(),
            version: Some("1.4.2".to_owned()),
            kinds: vec![("Widget".to_owned(), 20)],
            by: Value::Null,
            deployed: true,
            api: 60,
            ready: true,
        }
    }

    /// The time of a second of this boot.
    pub(crate) fn at(&self, seconds: i64) -> String {
        let time = START + self.number * 86_400 + seconds;
        jiff::Timestamp::from_second(time).map_or_else(|_| String::new(), |time| time.to_string())
    }

    pub(crate) fn lines(&self) -> String {
        let applied = self.api + 15;
        let mut lines = vec![
            json!({"is": "flight", "version": 1, "windrow": "0.1.0", "at": self.at(0), "boot": format!("boot-{}", self.number)}),
            json!({"is": "configuration", "at": self.at(0), "digest": "", "origin": [], "platform": "rke2", "settings": {}, "rules": []}),
            json!({"is": "machine", "at": self.at(1), "hardware": "16cpu-64g-nvme", "kubernetes": "v1.35.3+rke2r1", "role": "first-server"}),
            self.file(),
            self.decision(
                2,
                "SettingUp",
                "api",
                json!({"widgets.yaml": {"is": "released"}}),
            ),
            self.decision(self.api, "SettingUp", "manifests", json!({})),
            self.decision(
                applied,
                "SettingUp",
                "manifests",
                json!({"widgets.yaml": {"is": "applied"}}),
            ),
        ];
        let mut last = applied;
        for (kind, after) in &self.kinds {
            let by = match &self.by {
                Value::Null => json!({"is": "helm", "release": self.chart, "namespace": "default"}),
                by => by.clone(),
            };
            let kind =
                json!({"kind": {"group": "widgets.example.com", "kind": kind}, "namespaced": true});
            lines.push(
                json!({"is": "appeared", "at": self.at(applied + after), "kind": kind, "by": by}),
            );
            last = last.max(applied + after);
        }
        let status = if self.deployed { "deployed" } else { "failed" };
        lines.push(json!({"is": "release", "at": self.at(last + 2), "release": self.chart, "namespace": "default", "status": status,
            "began": self.at(applied + 1), "modified": self.at(last + 2)}));
        if self.ready {
            lines.push(self.decision(last + 10, "Ready", "ready", json!({})));
        }
        let lines = lines.iter().map(|line| format!("{line}\n"));
        lines.collect()
    }

    fn file(&self) -> Value {
        let mut spec = json!({"chart": self.chart, "repo": "https://charts.example.com/stable"});
        if let Some(version) = &self.version {
            spec["version"] = json!(version);
        }
        let object = json!({"apiVersion": "helm.cattle.io/v1", "kind": "HelmChart",
            "metadata": {"name": self.chart, "namespace": "default"}, "spec": spec});
        let id = json!({"group": "helm.cattle.io", "kind": "HelmChart", "namespace": "default", "name": self.chart});
        let object = json!({"id": id, "version": "v1", "line": 1, "object": object, "lines": []});
        json!({"is": "files", "at": self.at(1), "files": [{"path": "widgets.yaml", "sha256": "00", "digest": "00",
            "documents": [{"line": 1, "objects": [object]}]}]})
    }

    fn decision(&self, seconds: i64, readiness: &str, phase: &str, files: Value) -> Value {
        let answered = (seconds >= self.api).then(|| self.at(self.api));
        let api = json!({"about": "api", "started": self.at(0), "firstReachable": answered, "unreachable": null});
        let ledger = (seconds == 2).then(|| json!({"version": 1, "files": {}}));
        json!({"is": "decision", "at": self.at(seconds), "facts": {"api": api}, "readiness": readiness, "phase": phase,
            "reason": {"code": "staging", "message": "on its way"}, "summary": "", "files": files, "ledger": ledger})
    }
}
