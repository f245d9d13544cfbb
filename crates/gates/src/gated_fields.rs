//! Fields of the kubelet's configuration that need a feature gate.

use std::collections::BTreeMap;

use windrow_model::reasons::Code;
use windrow_plan::rke2::config::MergedConfig;
use windrow_plan::version::Version;

use super::assess::uses;
use super::catalogue::{Catalogue, GateStanding};
use super::dependencies::value;
use super::findings::Findings;
use super::{Component, syntax};

/// Fields of a KubeletConfiguration that the kubelet refuses while a gate is off, and their values that it takes all the same. From
/// `pkg/kubelet/apis/config/validation/validation.go` of Kubernetes v1.31.14 to v1.37.2.
const GATED_FIELDS: [(&str, &[&str], &str); 13] = [
    (
        "cpuCFSQuotaPeriod",
        &["100ms", "0.1s", "100000us"],
        "CustomCPUCFSQuotaPeriod",
    ),
    ("imageMaximumGCAge", &["0", "0s"], "ImageMaximumGCAge"),
    (
        "serverTLSBootstrap",
        &["false"],
        "RotateKubeletServerCertificate",
    ),
    ("shutdownGracePeriod", &["0", "0s"], "GracefulNodeShutdown"),
    (
        "shutdownGracePeriodCriticalPods",
        &["0", "0s"],
        "GracefulNodeShutdown",
    ),
    (
        "shutdownGracePeriodByPodPriority",
        &[],
        "GracefulNodeShutdownBasedOnPodPriority",
    ),
    ("memorySwap.swapBehavior", &[""], "NodeSwap"),
    (
        "crashLoopBackOff.maxContainerRestartPeriod",
        &[],
        "KubeletCrashLoopBackOffMax",
    ),
    ("tracing.endpoint", &[], "KubeletTracing"),
    ("enableSystemLogQuery", &["false"], "NodeLogQuery"),
    (
        "imagePullCredentialsVerificationPolicy",
        &[""],
        "KubeletEnsureSecretPulledImages",
    ),
    (
        "preloadedImagesVerificationAllowlist",
        &[],
        "KubeletEnsureSecretPulledImages",
    ),
    ("memoryReservationPolicy", &["", "None"], "MemoryQoS"),
];

pub(super) fn judge(config: &MergedConfig, versions: &[Version], findings: &mut Findings) {
    let catalogue = Catalogue::builtin();
    let uses = uses(Component::Kubelet, config);
    for version in versions.iter().filter(|one| catalogue.covers(one.minor)) {
        let pairs = uses
            .iter()
            .flat_map(|item| syntax::pairs(&item.text, false).into_iter().flatten());
        let pairs: Vec<syntax::Pair> = pairs.collect();
        let set: BTreeMap<&str, bool> = pairs.iter().map(|one| (&*one.name, one.value)).collect();
        for item in &config.kubelet_fields {
            let mut rows = GATED_FIELDS.iter().filter_map(|(field, free, gate)| {
                let (written, at) = item.text_at(field)?;
                (!free.contains(&&*written)).then_some((field, gate, at))
            });
            let Some((field, gate, at)) = rows.next() else {
                continue;
            };
            let is_gone = matches!(
                catalogue.gate(gate).map(|gate| gate.at(*version)),
                Some(GateStanding::Gone(_))
            );
            if is_gone || value(catalogue, *version, &set, gate).0 {
                continue;
            }
            let message = format!(
                "kubelet {version} does not start: `{field}` in its configuration needs the feature gate `{gate}`, which is off. Remove the field, or set {gate}=true"
            );
            findings.push(Code::ComponentArgumentInvalid, message, vec![at.clone()]);
        }
    }
}
