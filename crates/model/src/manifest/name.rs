//! Checks names as kube-apiserver does.
//!
//! Source: `ValidateObjectMeta` and the name functions of each kind (`k8s.io/apimachinery/pkg/api/validation`,
//! `pkg/apis/*/validation`), compared with kube-apiserver of two minor versions by
//! `tests/kubernetes/names_in_cluster.rs`. Only names that every version refuses are reported.

use super::GroupKind;
use crate::grammars::is_label_of_any_length;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum NameRule {
    /// A DNS subdomain of RFC 1123.
    Subdomain,
    /// One label of a DNS subdomain.
    Label,
    /// Valid as a segment of a URL path.
    PathSegment,
}

/// The longest name of a CronJob: the names of its Jobs are eleven characters longer, and a Job's name is a label of
/// its pods.
const LONGEST_CRON_JOB: usize = 52;

/// Groups whose kinds may have any name: kube-apiserver does not serve them itself.
const AGGREGATED: [&str; 5] = [
    "custom.metrics.k8s.io",
    "ext.cattle.io",
    "external.metrics.k8s.io",
    "metrics.k8s.io",
    "subresources.kubevirt.io",
];

/// Why no kube-apiserver accepts an object of this kind under this name, with a valid name; `None` when one might
/// accept it.
pub fn object_name_error(kind: &GroupKind, name: &str) -> Option<String> {
    let rule = rule(kind)?;
    let longest = match (kind.group.as_str(), kind.kind.as_str()) {
        ("batch", "CronJob") => LONGEST_CRON_JOB,
        _ => usize::MAX,
    };
    judge(rule, longest, name)
}

/// Like [`object_name_error`] for the name of a namespace, in any field.
pub fn namespace_name_error(name: &str) -> Option<String> {
    object_name_error(&GroupKind::new("", "Namespace"), name)
}

/// kube-apiserver's message about such a name; for lengths its message is longer.
pub fn object_name_refusal(kind: &GroupKind, name: &str) -> Option<&'static str> {
    object_name_error(kind, name)?;
    let harmless = name.split('.').all(is_label_of_any_length);
    let words = match rule(kind)? {
        NameRule::Label if harmless && name.contains('.') => "must not contain dots",
        _ if harmless => "it is too long",
        NameRule::PathSegment => "may not contain '/'",
        NameRule::Label => {
            "a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', and must start and end \
             with an alphanumeric character (e.g. 'my-name',  or '123-abc', regex used for validation is \
             '[a-z0-9]([-a-z0-9]*[a-z0-9])?')"
        }
        NameRule::Subdomain => {
            "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and must start \
             and end with an alphanumeric character (e.g. 'example.com', regex used for validation is \
             '[a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')"
        }
    };
    Some(words)
}

fn rule(kind: &GroupKind) -> Option<NameRule> {
    let rule = match (kind.group.as_str(), kind.kind.as_str()) {
        // The name of a Service may begin with a digit from 1.36 on.
        ("", "Namespace" | "Service") | ("apps", "StatefulSet") => NameRule::Label,
        // Only the store's own restrictions are checked.
        ("policy", "PodDisruptionBudget") => NameRule::PathSegment,
        (
            "rbac.authorization.k8s.io",
            "ClusterRole" | "ClusterRoleBinding" | "Role" | "RoleBinding",
        ) => NameRule::PathSegment,
        (
            "",
            "ConfigMap"
            | "Endpoints"
            | "LimitRange"
            | "Node"
            | "PersistentVolume"
            | "PersistentVolumeClaim"
            | "Pod"
            | "PodTemplate"
            | "ReplicationController"
            | "ResourceQuota"
            | "Secret"
            | "ServiceAccount",
        )
        | ("apps", "DaemonSet" | "Deployment" | "ReplicaSet")
        | ("autoscaling", "HorizontalPodAutoscaler")
        | ("batch", "CronJob" | "Job")
        | ("coordination.k8s.io", "Lease")
        | ("discovery.k8s.io", "EndpointSlice")
        | ("networking.k8s.io", "Ingress" | "IngressClass" | "NetworkPolicy")
        | ("node.k8s.io", "RuntimeClass")
        | ("scheduling.k8s.io", "PriorityClass")
        | ("storage.k8s.io", "StorageClass")
        | ("apiextensions.k8s.io", "CustomResourceDefinition")
        | (
            "admissionregistration.k8s.io",
            "MutatingWebhookConfiguration" | "ValidatingWebhookConfiguration",
        ) => NameRule::Subdomain,
        // All groups that a CustomResourceDefinition adds.
        (group, _) if is_custom(group) => NameRule::Subdomain,
        _ => return None,
    };
    Some(rule)
}

/// Whether this is a group that no kube-apiserver has by default. Its own groups have no dot, or end in `k8s.io`.
/// Definitions add some of the latter, and these are not checked.
fn is_custom(group: &str) -> bool {
    let own = !group.contains('.') || group == "k8s.io" || group.ends_with(".k8s.io");
    !own && !AGGREGATED.contains(&group)
}

fn judge(rule: NameRule, longest: usize, name: &str) -> Option<String> {
    let longest = longest.min(match rule {
        NameRule::Subdomain => 253,
        NameRule::Label => 63,
        NameRule::PathSegment => usize::MAX,
    });
    let wrong = match rule {
        NameRule::PathSegment if matches!(name, "." | "..") => {
            return Some(format!("`{name}` would be part of a path; choose another"));
        }
        NameRule::PathSegment => name.contains(['/', '%']).then_some("has no `/` and no `%`"),
        NameRule::Subdomain => (!name.split('.').all(is_label_of_any_length)).then_some(
            "has only lower-case letters, digits, `-` and `.`, and each part of it begins and ends with a letter or digit (RFC 1123)",
        ),
        NameRule::Label => (!is_label_of_any_length(name)).then_some(
            "has only lower-case letters, digits and `-`, and begins and ends with a letter or digit (RFC 1123)",
        ),
    };
    if let Some(right) = wrong {
        let better = better(rule, longest, name);
        return Some(format!(
            "such a name {right}; call it {better}, for example"
        ));
    }
    (name.len() > longest).then(|| {
        format!(
            "it has {} characters, and {longest} is the most; shorten it",
            name.len()
        )
    })
}

fn better(rule: NameRule, longest: usize, name: &str) -> String {
    let kept = |ch: char| match rule {
        NameRule::PathSegment => !matches!(ch, '/' | '%'),
        NameRule::Subdomain => ch.is_ascii_alphanumeric() || ch == '.',
        NameRule::Label => ch.is_ascii_alphanumeric(),
    };
    let text: String = name
        .chars()
        .map(|ch| if kept(ch) { ch } else { '-' })
        .take(longest)
        .collect();
    if rule == NameRule::PathSegment {
        return text;
    }
    let labels: Vec<String> = text
        .to_ascii_lowercase()
        .split('.')
        .map(|label| label.trim_matches('-').to_owned())
        .filter(|label| !label.is_empty())
        .collect();
    match labels.is_empty() {
        true => "object".to_owned(),
        false => labels.join("."),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn error(group: &str, kind: &str, name: &str) -> Option<String> {
        object_name_error(&GroupKind::new(group, kind), name)
    }

    #[test]
    fn a_name_is_judged_by_the_rule_of_its_kind() {
        for name in ["a", "1a", "a.b-c", &"a".repeat(253)] {
            assert_eq!(error("", "ConfigMap", name), None, "{name}");
            assert_eq!(error("kubevirt.io", "VirtualMachine", name), None, "{name}");
        }
        let long = "a".repeat(254);
        for name in ["A_b", "a b", "-a", "a-", "a..b", ".a", "ä", "a/b", &long] {
            assert!(error("", "Secret", name).is_some(), "{name}");
            assert!(error("example.com", "Widget", name).is_some(), "{name}");
        }
        assert_eq!(error("", "Namespace", "1a"), None);
        assert!(error("", "Namespace", "a.b").is_some());
        assert!(error("", "Service", &"a".repeat(64)).is_some());
        assert!(error("batch", "CronJob", &"a".repeat(53)).is_some());
        let rbac = "rbac.authorization.k8s.io";
        assert_eq!(error(rbac, "ClusterRole", "system:A_b"), None);
        for name in ["a/b", "a%b", "..", "."] {
            assert!(error(rbac, "Role", name).is_some(), "{name}");
        }
    }

    #[test]
    fn what_is_not_known_for_certain_is_not_told() {
        for (group, kind) in [
            ("ext.cattle.io", "Token"),
            ("metrics.k8s.io", "PodMetrics"),
            ("gateway.networking.k8s.io", "Gateway"),
            ("storage.k8s.io", "CSIDriver"),
            ("apiregistration.k8s.io", "APIService"),
        ] {
            assert_eq!(error(group, kind, "A_b"), None, "{kind}");
        }
        assert!(error("", "ConfigMap", "{{ .Hostname }}-a").is_some());
    }

    #[test]
    fn a_better_name_is_one_that_is_taken() {
        for (kind, name, better) in [
            ("ConfigMap", "A_b", "a-b"),
            ("ConfigMap", "_.Ä", "object"),
            ("ConfigMap", "My Map.yaml", "my-map.yaml"),
            ("Namespace", "Team.A", "team-a"),
        ] {
            let why = error("", kind, name).unwrap();
            assert!(why.contains(&format!("call it {better},")), "{why}");
            assert_eq!(error("", kind, better), None);
        }
    }
}
