//! Level 4: advice on feature gates and `runtime-config`, applied and given to the real kube-apiserver of the same minor.

use std::collections::{BTreeMap, BTreeSet};

use support::cluster::{Minor, refusal, skipped};
use windrow_gates::catalogue::{Catalogue, Gate};
use windrow_gates::{Assessment, Component, TargetVersion, assess};
use windrow_model::reasons::{Code, Severity};
use windrow_plan::rke2::config::{ConfigLayer, Rke2ConfigFile, merge};

use crate::support;

/// Arguments of kube-apiserver.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
struct Arguments {
    gates: BTreeMap<String, bool>,
    runtime_config: BTreeSet<String>,
    disabled_plugins: BTreeSet<String>,
}

impl Arguments {
    fn with_gate(mut self, gate: &str, value: bool) -> Self {
        self.gates.insert(gate.to_owned(), value);
        self
    }

    fn serving(mut self, key: &str) -> Self {
        self.runtime_config.insert(key.to_owned());
        self
    }

    fn items(&self) -> Vec<String> {
        let gates = self.gates.iter();
        let gates = gates.map(|(gate, value)| format!("feature-gates={gate}={value}"));
        let keys = self.runtime_config.iter();
        let keys = keys.map(|key| format!("runtime-config={key}=true"));
        let plugins = self.disabled_plugins.iter();
        let plugins = plugins.map(|plugin| format!("disable-admission-plugins={plugin}"));
        gates.chain(keys).chain(plugins).collect()
    }

    fn judged_by_windrow(&self, minor: Minor) -> Assessment {
        let list = serde_json::json!({ "kube-apiserver-arg": self.items() }).to_string();
        let file = Rke2ConfigFile::new(ConfigLayer::Main, "config.yaml", list);
        let version = minor.text().parse().expect("a version");
        assess(&merge(&[file]), None, &TargetVersion::Known(version))
    }

    async fn refused_by(&self, minor: Minor) -> Option<String> {
        let items = self.items().into_iter();
        let items: Vec<String> = items.map(|item| format!("--{item}")).collect();
        let items: Vec<&str> = items.iter().map(String::as_str).collect();
        refusal(minor, &items).await
    }

    /// The arguments after each alternative that a message offers for the minor that runs.
    fn advised(&self, message: &str) -> Vec<Self> {
        let mut all = Vec::new();
        for key in quoted_after(message, "runtime-config=") {
            all.push(self.clone().serving(key.trim_end_matches("=true")));
        }
        for plugin in quoted_after(message, "disable-admission-plugins=") {
            let mut arguments = self.clone();
            arguments.disabled_plugins.insert(plugin.to_owned());
            all.push(arguments);
        }
        if message.contains("together with the upgrade") {
            return all;
        }
        if let Some((_, change)) = message.split_once("Replace ")
            && let Some((old, new)) = change.split_once(" in `runtime-config` with ")
        {
            let mut arguments = self.clone();
            for key in quoted(old) {
                assert!(arguments.runtime_config.remove(key), "{message}");
            }
            let [new, ..] = quoted(new)[..] else {
                panic!("{message}");
            };
            all.push(arguments.serving(new.trim_end_matches("=true")));
        }
        if let Some((_, rest)) = message.split_once("Remove `")
            && let Some((key, _)) = rest.split_once('`')
        {
            let mut arguments = self.clone();
            assert!(arguments.runtime_config.remove(key), "{message}");
            all.push(arguments);
        }
        all
    }
}

/// What stands between backticks.
fn quoted(text: &str) -> Vec<&str> {
    text.split('`').skip(1).step_by(2).collect()
}

fn quoted_after<'t>(message: &'t str, flag: &str) -> Vec<&'t str> {
    let quoted = quoted(message).into_iter();
    quoted.filter_map(|text| text.strip_prefix(flag)).collect()
}

fn takes_true(gate: &Gate, minor: Minor) -> bool {
    let minor = minor.text().parse().expect("a minor");
    gate.takes(true).contains(&minor)
}

/// Each gate that needs an API, without it and with each version of that API that some minor needs.
fn with_apis(minor: Minor) -> BTreeSet<Arguments> {
    let catalogue = Catalogue::builtin();
    let mut inputs = BTreeSet::new();
    for gate in catalogue.gates().filter(|gate| takes_true(gate, minor)) {
        let apis = catalogue
            .minors()
            .filter_map(|minor| gate.watched_api(minor));
        for api in apis {
            let alone = Arguments::default().with_gate(gate.name(), true);
            inputs.insert(alone.clone().serving(&api.group_version));
            inputs.insert(alone);
        }
    }
    inputs
}

async fn advice_is_taken(minor: Minor) {
    if skipped(minor) {
        return;
    }
    let mut played = BTreeSet::new();
    for input in with_apis(minor) {
        let judged = input.judged_by_windrow(minor);
        // Without its API a gate keeps kube-apiserver from being ready, after it took its arguments.
        let is_refused = judged.findings.iter().any(|finding| {
            finding.severity == Severity::Error && finding.code != Code::GateApiNotServed
        });
        let refused = input.refused_by(minor).await;
        assert_eq!(refused.is_some(), is_refused, "{input:?}: {refused:?}");
        for finding in &judged.findings {
            let advised = input.advised(&finding.message);
            let is_for_later = finding.message.contains("together with the upgrade");
            let is_about_apis = matches!(
                finding.code,
                Code::GateApiNotServed | Code::RuntimeConfigRefused
            );
            assert!(
                !advised.is_empty() || is_for_later || !is_about_apis,
                "{}",
                finding.message
            );
            played.extend(
                advised
                    .into_iter()
                    .map(|advised| (advised, finding.message.clone())),
            );
        }
    }
    assert!(!played.is_empty());
    for (advised, message) in played {
        // One of several findings may leave another: each alone must not be what stops kube-apiserver.
        let others = advised.judged_by_windrow(minor).findings;
        let is_finished = !others
            .iter()
            .any(|finding| finding.code == Code::RuntimeConfigRefused);
        if is_finished {
            let refused = advised.refused_by(minor).await;
            assert_eq!(refused, None, "{message}\n{advised:?}");
        }
    }
}

/// All gates that depend on others, with what they depend on, as the message about each advises.
async fn gates_with_their_dependencies_are_taken(minor: Minor) {
    if skipped(minor) {
        return;
    }
    let version: windrow_plan::version::Minor = minor.text().parse().expect("a minor");
    let catalogue = Catalogue::builtin();
    let mut together = Arguments::default();
    for gate in catalogue.gates().filter(|gate| takes_true(gate, minor)) {
        let mut input = Arguments::default().with_gate(gate.name(), true);
        for need in gate.needs(Component::KubeApiserver, version) {
            input = input.with_gate(need, false);
        }
        for finding in input.judged_by_windrow(minor).findings {
            if finding.code == Code::GateDependency
                && let Some((_, list)) = finding.message.split_once("Set `")
            {
                let (list, _) = list.split_once(" to true").expect("the advised value");
                for need in quoted(&format!("`{list}")) {
                    input = input.with_gate(need, true);
                }
                together.gates.extend(input.gates.clone());
            }
        }
    }
    assert!(!together.gates.is_empty());
    assert_eq!(together.refused_by(minor).await, None, "{together:?}");
}

#[tokio::test]
async fn advice_on_the_apis_of_gates_is_taken_by_kube_apiserver_1_31() {
    advice_is_taken(Minor::V1_31).await;
}

#[tokio::test]
async fn advice_on_the_apis_of_gates_is_taken_by_kube_apiserver_1_33() {
    advice_is_taken(Minor::V1_33).await;
}

#[tokio::test]
async fn advice_on_the_apis_of_gates_is_taken_by_kube_apiserver_1_36() {
    advice_is_taken(Minor::V1_36).await;
}

#[tokio::test]
async fn advice_on_dependencies_of_gates_is_taken_by_each_minor() {
    for minor in [Minor::V1_31, Minor::V1_33, Minor::V1_36] {
        gates_with_their_dependencies_are_taken(minor).await;
    }
}

/// Every group version that some minor registers, on the minors whose kube-apiserver is here.
#[tokio::test]
async fn a_group_version_is_refused_by_kube_apiserver_exactly_if_windrow_says_so() {
    let catalogue = Catalogue::builtin();
    let minors = catalogue.minors();
    let known: BTreeSet<&str> = minors
        .flat_map(|minor| catalogue.registered(minor))
        .collect();
    for minor in [Minor::V1_31, Minor::V1_33, Minor::V1_36] {
        if skipped(minor) {
            return;
        }
        let refused = |key: &str| {
            let arguments = Arguments::default().serving(key);
            !arguments.judged_by_windrow(minor).starts()
        };
        let (bad, good): (Vec<&str>, Vec<&str>) = known.iter().partition(|key| refused(key));
        let all = Arguments {
            runtime_config: good.iter().map(ToString::to_string).collect(),
            ..Arguments::default()
        };
        assert_eq!(all.refused_by(minor).await, None);
        for key in bad.into_iter().chain(["example.com/v1", "resource.k8s.io"]) {
            let arguments = Arguments::default().serving(key);
            assert!(arguments.refused_by(minor).await.is_some(), "{key}");
        }
    }
}
