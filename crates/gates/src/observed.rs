//! The feature gates that a component reports, and the arguments of its static pod.

use std::collections::BTreeMap;
use std::time::Duration;

use windrow_model::manifest::{Node, yaml};

use super::{Component, GateRequest, syntax};

#[derive(Debug, Clone, Default, PartialEq)]
pub struct ObservedGates {
    /// The value in effect of every gate of the component (`kubernetes_feature_enabled`).
    pub gates: BTreeMap<String, bool>,
    /// When its process was started, in seconds of the wall clock.
    pub started: Option<f64>,
}

pub fn metrics(text: &str) -> ObservedGates {
    let mut observed = ObservedGates::default();
    for line in text.lines() {
        if let Some(rest) = line.strip_prefix("kubernetes_feature_enabled{") {
            let Some((labels, value)) = rest.rsplit_once("} ") else {
                continue;
            };
            let name = labels
                .split(',')
                .find_map(|label| label.strip_prefix("name=\""));
            if let Some(name) = name.and_then(|name| name.strip_suffix('"')) {
                observed
                    .gates
                    .insert(name.to_owned(), value.trim().starts_with('1'));
            }
        } else if let Some(value) = line.strip_prefix("process_start_time_seconds ") {
            observed.started = value.trim().parse().ok();
        }
    }
    observed
}

impl ObservedGates {
    /// How long after the boot its process was started. The process reports this time with `booted` added: `btime` of
    /// `/proc/stat`, in seconds, which moves whenever the wall clock is set. So `booted` must be read together with the
    /// metrics.
    pub fn started_after_boot(&self, booted: u64) -> Option<Duration> {
        let booted = f64::from(u32::try_from(booted).ok()?);
        Duration::try_from_secs_f64(self.started? - booted).ok()
    }

    /// A message for each of these gates that is not in effect as requested.
    pub fn differences(&self, asked: &[GateRequest]) -> Vec<String> {
        asked
            .iter()
            .filter_map(|request| match self.gates.get(&request.gate) {
                Some(value) if *value == request.value => None,
                Some(value) => Some(format!("{} is {value}", request.gate)),
                None => Some(format!("{} is not known to it", request.gate)),
            })
            .collect()
    }
}

/// The gates in the arguments of a static pod's manifest. If a gate occurs twice, the last value counts, as in the
/// component. `None` if the text is not such a manifest.
pub fn pod_arguments(component: Component, text: &str) -> Option<BTreeMap<String, bool>> {
    let gates = flag_values(component, text, "feature-gates")?;
    let gates = gates.iter().flat_map(|text| syntax::pairs(text, true));
    Some(
        gates
            .filter_map(Result::ok)
            .map(|pair| (pair.name, pair.value))
            .collect(),
    )
}

/// The value of a flag in the arguments of a static pod's manifest: the last one, as in the component.
pub fn pod_flag(component: Component, text: &str, flag: &str) -> Option<String> {
    flag_values(component, text, flag)?.pop()
}

fn flag_values(component: Component, text: &str, flag: &str) -> Option<Vec<String>> {
    let pod = yaml::parse_configuration(text).ok()??;
    let containers = pod.get("spec")?.get("containers")?.items();
    let container = containers
        .iter()
        .find(|container| container.str_at(&["name"]) == Some(component.as_str()))?;
    let arguments = ["command", "args"]
        .into_iter()
        .filter_map(|key| container.get(key))
        .flat_map(Node::items);
    let values = arguments.filter_map(Node::as_str).filter_map(|argument| {
        let value = argument.strip_prefix("--")?.strip_prefix(flag)?;
        value.strip_prefix('=')
    });
    Some(values.map(str::to_owned).collect())
}

#[cfg(test)]
mod tests {
    use windrow_model::findings::Location;

    use super::*;

    #[test]
    fn metrics_tell_the_gates_in_effect_and_when_the_process_began() {
        let observed = metrics(
            "# HELP kubernetes_feature_enabled [BETA] …\n\
             kubernetes_feature_enabled{name=\"APIResponseCompression\",stage=\"BETA\"} 0\n\
             kubernetes_feature_enabled{name=\"NodeSwap\",stage=\"\"} 1\n\
             kubernetes_feature_enabled{stage=\"ALPHA\",name=\"ImageVolume\"} 1\n\
             kubernetes_feature_enabled{broken\n\
             process_start_time_seconds 1.7953404e+09\n",
        );
        assert_eq!(observed.gates.len(), 3);
        assert_eq!(observed.started, Some(1.795_340_4e9));
        let asked = |gate: &str, value| GateRequest {
            component: Component::KubeApiserver,
            gate: gate.to_owned(),
            value,
            when: None,
            reason: None,
            at: Location::line("x", 1),
        };
        assert!(observed.differences(&[asked("NodeSwap", true)]).is_empty());
        assert_eq!(
            observed.differences(&[asked("APIResponseCompression", true), asked("New", true)]),
            ["APIResponseCompression is false", "New is not known to it"]
        );
    }

    #[test]
    fn the_start_of_a_process_does_not_depend_on_the_wall_clock() {
        // The clock is set back by an hour: the kernel moves `btime`, and the process adds the new one.
        for booted in [1_795_340_000_u64, 1_795_336_400] {
            let text = format!("process_start_time_seconds {booted}.5\n");
            let started = metrics(&text).started_after_boot(booted);
            assert_eq!(started, Some(Duration::from_millis(500)));
        }
        let unknown = ObservedGates::default();
        assert_eq!(unknown.started_after_boot(0), None);
        let before = metrics("process_start_time_seconds 5\n");
        assert_eq!(before.started_after_boot(6), None);
    }

    #[test]
    fn a_static_pods_last_value_of_a_gate_counts() {
        let text = "spec:\n  containers:\n  - name: kube-apiserver\n    command: [kube-apiserver]\n    args:\n    - \"--feature-gates=A=true,B=false\"\n    - \"--v=2\"\n    - --feature-gates=kube:A=false\n";
        let gates = pod_arguments(Component::KubeApiserver, text).unwrap();
        assert_eq!(
            gates,
            BTreeMap::from([("A".to_owned(), false), ("B".to_owned(), false)])
        );
        assert_eq!(pod_arguments(Component::KubeScheduler, text), None);
        assert_eq!(pod_arguments(Component::KubeApiserver, "spec: ["), None);
    }
}
