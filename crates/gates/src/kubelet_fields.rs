//! The fields of the kubelet's own configuration files: their names, types and texts. Data has them with the flags that set the same
//! values (`data/arguments.txt`), so the rules of the flags hold for them too.

use windrow_model::findings::{Finding, Location};
use windrow_model::manifest::{Node, NodeValue};
use windrow_model::reasons::{Code, Severity};
use windrow_model::suggest::nearest;
use windrow_model::unchecked::{CanStop, NotChecked};
use windrow_plan::rke2::KubeletField;
use windrow_plan::rke2::config::{ConfigItem, MergedConfig};
use windrow_plan::rke2::value_form::{ValueForm, is_duration};

use super::known_arguments::{FieldKind, KNOWN, TEXTS};

const KUBELET: &str = "kubelet";

/// Judges each field, and returns those whose values no rule judges.
pub(super) fn judge(config: &MergedConfig, findings: &mut Vec<Finding>) -> Vec<NotChecked> {
    let mut unchecked = Vec::new();
    for field in &config.kubelet_fields {
        let mut refuse = |severity: Severity, message: String, at: Location| {
            findings.push(Finding {
                incident: None,
                code: Code::ComponentArgumentInvalid,
                severity,
                message,
                at: vec![at],
            });
        };
        let name = &field.name;
        let Some((kind, flag)) = KNOWN.fields.get(name.as_str()) else {
            let known = KNOWN.fields.keys().copied();
            let hint = match nearest(name, known) {
                Some(near) => format!("; did you mean `{near}`?"),
                None => ": remove it".to_owned(),
            };
            let message = format!(
                "the configuration of the kubelet has no field `{name}`, and it ignores this one{hint}"
            );
            refuse(Severity::Warning, message, field.at.clone());
            continue;
        };
        if let Some(expected) = kind.refusal(&field.value) {
            let message = format!(
                "kubelet does not start: `{name}` in its configuration is {}: write {expected}",
                field.value.type_name()
            );
            refuse(Severity::Error, message, field.at.clone());
            continue;
        }
        if !matches!(kind, FieldKind::Text | FieldKind::List | FieldKind::Map) {
            continue;
        }
        let is_overruled = flag.is_some_and(|flag| !config.flag("kubelet-arg", flag).is_empty());
        let is_empty = scalar(&field.value).is_empty() && field.value.entries().is_empty();
        if is_overruled || is_empty {
            continue;
        }
        let form = flag.and_then(|flag| {
            TEXTS
                .get(&(KUBELET, flag))
                .or_else(|| TEXTS.get(&("*", flag)))
        });
        match form {
            Some(ValueForm::Any) => {}
            // A list of objects has its own rules in the kubelet.
            _ if field
                .value
                .items()
                .iter()
                .any(|item| !item.entries().is_empty()) => {}
            None | Some(ValueForm::File) => unchecked.push(NotChecked {
                what: format!("`{name}` of kubelet"),
                why: "Windrow has no rule for this text".to_owned(),
                can_stop: CanStop::Component,
                at: vec![field.at.clone()],
            }),
            Some(form) => {
                let text = as_argument(field, flag.unwrap_or_default());
                if let Some(expected) = form.refusal(&text) {
                    let message = format!(
                        "kubelet does not start: the value of `{name}` in its configuration is wrong: {expected}"
                    );
                    refuse(Severity::Error, message, field.at.clone());
                }
            }
        }
    }
    unchecked
}

/// The values of the fields for a flag, as the flag would have them, or of a field by its own name.
pub(super) fn values_of(config: &MergedConfig, flag: &str) -> Vec<ConfigItem> {
    let fields = config.kubelet_fields.iter().filter(|field| {
        let known = KNOWN.fields.get(field.name.as_str());
        known.is_some_and(|(_, own)| field.name == flag || *own == Some(flag))
    });
    let items = fields.map(|field| ConfigItem {
        text: as_argument(field, flag),
        at: field.at.clone(),
    });
    items.collect()
}

/// A list or a map as the text of a flag.
fn as_argument(field: &KubeletField, flag: &str) -> String {
    let between = match flag {
        "eviction-hard" | "eviction-soft" => '<',
        _ => '=',
    };
    match &field.value.value {
        NodeValue::Sequence(items) => {
            let items: Vec<String> = items.iter().map(scalar).collect();
            items.join(",")
        }
        NodeValue::Mapping(entries) => {
            let pairs = entries.iter();
            let pairs: Vec<String> = pairs
                .map(|entry| format!("{}{between}{}", entry.key, scalar(&entry.value)))
                .collect();
            pairs.join(",")
        }
        _ => scalar(&field.value),
    }
}

/// A scalar; another value as a word that no rule takes for an empty one.
fn scalar(node: &Node) -> String {
    match &node.value {
        NodeValue::String(text) => text.clone(),
        NodeValue::Number(number) => number.to_string(),
        NodeValue::Bool(value) => value.to_string(),
        NodeValue::Null => String::new(),
        NodeValue::Sequence(_) | NodeValue::Mapping(_) => "…".to_owned(),
    }
}

fn is_number_in_words(text: Option<&str>) -> bool {
    let text = text.filter(|text| text.parse::<i64>().is_err());
    text.and_then(|text| text.parse::<f64>().ok())
        .is_some_and(|number| number.fract() == 0.0)
}

impl FieldKind {
    /// What the kubelet expects instead of this value (encoding/json into the Go type).
    fn refusal(self, node: &Node) -> Option<&'static str> {
        let number = match &node.value {
            NodeValue::Number(number) => Some(number.to_string()),
            _ => None,
        };
        let whole = number.as_deref().and_then(|text| text.parse::<i64>().ok());
        let text = node.as_str();
        let (fits, expected) = match self {
            Self::Bool => (node.as_bool().is_some(), "true or false, without quotes"),
            // A number with a fraction or an exponent is read as a text.
            Self::Int => (
                whole.is_some() || is_number_in_words(text),
                "a whole number, without quotes",
            ),
            Self::Int32 => (
                whole.is_some_and(|whole| i32::try_from(whole).is_ok()) || is_number_in_words(text),
                "a whole number up to 2147483647, without quotes",
            ),
            // A fraction is read as a text.
            Self::Number => (
                number.is_some() || text.is_some_and(|text| text.parse::<f64>().is_ok()),
                "a number",
            ),
            Self::Text => (text.is_some(), "a text"),
            Self::Duration => (
                text.is_some_and(is_duration),
                "a duration such as 30s or 5m",
            ),
            Self::List => (matches!(node.value, NodeValue::Sequence(_)), "a list"),
            Self::Map => (
                matches!(node.value, NodeValue::Mapping(_))
                    && node
                        .entries()
                        .iter()
                        .all(|entry| entry.value.as_str().is_some()),
                "a map of texts, with quotes around numbers",
            ),
            Self::Object => (matches!(node.value, NodeValue::Mapping(_)), "a map"),
        };
        (!fits).then_some(expected)
    }
}

#[cfg(test)]
mod tests {
    use windrow_plan::rke2::config::{ConfigLayer, Rke2ConfigFile, merge};

    use crate::{JudgedArguments, TargetVersion, judge_arguments};

    fn judged(text: &str) -> JudgedArguments {
        let file = Rke2ConfigFile::new(
            ConfigLayer::Kubelet,
            "/var/lib/rancher/rke2/agent/etc/kubelet.conf.d/50-a.conf",
            format!(
                "apiVersion: kubelet.config.k8s.io/v1beta1\nkind: KubeletConfiguration\n{text}"
            ),
        );
        let target = TargetVersion::Known("v1.33.5".parse().unwrap());
        judge_arguments(&merge(&[file]), &target)
    }

    #[test]
    fn a_field_of_another_type_or_form_stops_the_kubelet() {
        for (text, part) in [
            ("maxPods: \"110\"", "`maxPods` in its configuration is"),
            ("failSwapOn: \"no\"", "true or false"),
            ("syncFrequency: 60", "a duration such as 30s"),
            (
                "evictionHard: {memory.available: 100}",
                "quotes around numbers",
            ),
            (
                "evictionHard: {memory.free: 100Mi}",
                "`evictionHard` in its configuration is wrong",
            ),
            ("cpuManagerPolicy: statik", "none, static"),
            ("enforceNodeAllocatable: pods", "write a list"),
            (
                "evictionSoft: {memory.available: 1Gi}",
                "`memory.available` is in `eviction-soft`",
            ),
            (
                "imageGCHighThresholdPercent: 70",
                "must be less than `image-gc-high-threshold` (70)",
            ),
            (
                "shutdownGracePeriod: 30s\nshutdownGracePeriodCriticalPods: 60s",
                "`shutdownGracePeriodCriticalPods` (60s) must not be more than `shutdownGracePeriod` (30s)",
            ),
            (
                "enforceNodeAllocatable: [pods, kube-reserved]",
                "needs `kube-reserved-cgroup`",
            ),
        ] {
            let found: Vec<String> = judged(text)
                .findings
                .into_iter()
                .map(|one| one.message)
                .collect();
            assert!(
                found.len() == 1 && found[0].contains(part),
                "{text}: {found:?}"
            );
        }
    }

    #[test]
    fn valid_fields_are_no_finding_and_texts_without_a_rule_are_listed() {
        let text = "maxPods: 200\nevictionHard: {memory.available: 100Mi, nodefs.available: 10%}\n\
                    evictionSoft: {memory.available: 1Gi}\nevictionSoftGracePeriod: {memory.available: 90s}\n\
                    systemReserved: {cpu: 500m}\ncpuManagerPolicy: static\nlogging: {verbosity: 2}\nshutdownGracePeriod: 60s\n\
                    memoryThrottlingFactor: 0.9\nserializeImagePulls: false\nreservedMemory:\n- numaNode: 0\n  limits: {memory: 1Gi}\n";
        let judged = judged(text);
        assert_eq!(judged.findings, []);
        assert_eq!(judged.unchecked, []);
        let listed = super::tests::judged("showHiddenMetricsForVersion: '1.30'").unchecked;
        assert_eq!(listed[0].what, "`showHiddenMetricsForVersion` of kubelet");
    }

    #[test]
    fn a_later_file_and_a_flag_count_instead_of_an_earlier_file() {
        let directory = "/var/lib/rancher/rke2/agent/etc/kubelet.conf.d";
        let file = |name: &str, text: &str| {
            Rke2ConfigFile::new(ConfigLayer::Kubelet, format!("{directory}/{name}"), text)
        };
        let target = TargetVersion::Known("v1.33.5".parse().unwrap());
        for (first, second) in [
            ("cpuManagerPolicy: statik", "cpuManagerPolicy: none"),
            ("maxPods: \"1\"", "maxPods: 100"),
            (
                "enforceNodeAllocatable: [pods, kube-reserved]",
                "enforceNodeAllocatable: [pods]",
            ),
            ("evictionSoft: {memory.available: 5%}", "evictionSoft: null"),
            (
                "evictionSoft: {memory.available: 5%}",
                "evictionSoft: {memory.available: null}",
            ),
        ] {
            let files = [file("50-a.conf", first), file("60-b.conf", second)];
            assert_eq!(
                judge_arguments(&merge(&files), &target).findings,
                [],
                "{first}"
            );
        }
        let main = "kubelet-arg: [cpu-manager-policy=none]";
        let files = [
            Rke2ConfigFile::new(ConfigLayer::Main, "config.yaml", main),
            file("50-a.conf", "cpuManagerPolicy: statik"),
        ];
        assert_eq!(judge_arguments(&merge(&files), &target).findings, []);
        let main = "kubelet-arg: [config=/etc/kubelet.yaml, cpu-manager-policy=static]";
        let file = Rke2ConfigFile::new(ConfigLayer::Main, "config.yaml", main);
        assert_eq!(judge_arguments(&merge(&[file]), &target).findings, []);
    }

    #[test]
    fn a_misspelt_field_is_a_warning() {
        let found = judged("maxPod: 100").findings;
        assert!(
            found[0].message.ends_with("did you mean `maxPods`?"),
            "{found:?}"
        );
    }
}
