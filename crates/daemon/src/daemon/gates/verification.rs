//! Verifies whether RKE2 is up with its gates. It asks the components themselves: systemd only knows that RKE2 was
//! started, and the previous kube-apiserver may answer `/readyz`.

use std::time::{Duration, Instant};

use jiff::Timestamp;
use windrow_gates::trial::InEffect;
use windrow_gates::{
    Component, ComponentLook, ComponentRefusal, GateRequest, Verdict, is_newer, judge_look, list,
};

use crate::apiserver::ApiServer;
use crate::layout::Layout;
use crate::observe::effect::{self, ObservedProcess};
use crate::observe::probes::disabled_components;
use crate::observe::rke2::admin_kubeconfig;
use crate::observe::systemd::Unit;

/// How long to wait for the other components, which start after kube-apiserver.
const OTHERS: Duration = Duration::from_secs(30);

pub(super) struct Verification<'a> {
    pub(super) api: &'a ApiServer,
    pub(super) layout: &'a Layout,
    /// rke2-server, started after the drop-in was changed.
    pub(super) unit: &'a Unit,
    pub(super) gates: Vec<GateRequest>,
    /// After a failed trial: the gates that the trial had and the restored drop-in does not have.
    pub(super) failed: Vec<GateRequest>,
    /// The components whose arguments change, so that their processes must be new ones.
    pub(super) changed: Vec<Component>,
    /// A component's messages count from this time on.
    pub(super) since: Option<Timestamp>,
}

#[derive(Debug, Clone, PartialEq)]
pub(super) struct VerificationResult {
    pub(super) ready: bool,
    pub(super) in_effect: InEffect,
    pub(super) refused: bool,
    pub(super) why: Option<String>,
    pub(super) apiserver: bool,
    pub(super) unverified: Vec<Unverified>,
}

#[derive(Debug, Clone, PartialEq)]
pub(super) struct Unverified {
    /// The gates that it should have; none after a removal.
    pub(super) gates: Vec<GateRequest>,
    pub(super) why: String,
}

impl VerificationResult {
    pub(super) fn not_yet(why: impl Into<String>) -> Self {
        Self {
            ready: false,
            in_effect: InEffect::Unknown,
            refused: false,
            why: Some(why.into()),
            apiserver: false,
            unverified: Vec::new(),
        }
    }

    fn as_asked() -> Self {
        Self {
            ready: true,
            in_effect: InEffect::AsAsked,
            refused: false,
            why: None,
            apiserver: true,
            unverified: Vec::new(),
        }
    }

    fn otherwise(why: String) -> Self {
        Self {
            ready: true,
            in_effect: InEffect::Otherwise,
            ..Self::not_yet(why)
        }
    }
}

impl Verification<'_> {
    /// `as_asked`: since when kube-apiserver has had the right gates while the others were not observed.
    pub(super) async fn run(&self, as_asked: Option<Instant>) -> VerificationResult {
        let disabled = disabled_components(self.layout);
        let apiserver = if disabled.contains(&Component::KubeApiserver) {
            self.without_apiserver()
        } else {
            self.apiserver().await
        };
        if apiserver.in_effect != InEffect::AsAsked {
            return self.with_refusal(apiserver);
        }
        let mut unverified = Vec::new();
        let mut waits_for = None;
        for component in Component::ALL {
            let gates = self.gates_of(component);
            let is_changed = self.changed.contains(&component);
            if disabled.contains(&component) {
                let why = format!("{}: {component} does not run on this server", list(&gates));
                unverified.extend((!gates.is_empty()).then_some(Unverified { gates, why }));
                continue;
            }
            if component == Component::KubeApiserver || gates.is_empty() && !is_changed {
                continue;
            }
            let look = self.look(component, &gates).await;
            match judge_look(component, is_changed, look) {
                Verdict::Verified => {}
                Verdict::Otherwise(why) => return VerificationResult::otherwise(why),
                Verdict::Waits(why) => waits_for = waits_for.or(Some(why)),
                Verdict::Unverified(why) => {
                    let why = format!("{} of {component}: {why}", list(&gates));
                    unverified.push(Unverified { gates, why });
                }
            }
        }
        let waits = waits_for.is_some()
            || !unverified.is_empty() && as_asked.is_none_or(|since| since.elapsed() < OTHERS);
        let first = || unverified.first().map(|unverified| unverified.why.clone());
        VerificationResult {
            in_effect: if waits {
                InEffect::Unknown
            } else {
                InEffect::AsAsked
            },
            why: waits_for.or_else(first),
            unverified,
            ..apiserver
        }
    }

    fn gates_of(&self, component: Component) -> Vec<GateRequest> {
        let mut gates = self.gates.clone();
        gates.retain(|gate| gate.component == component);
        gates
    }

    /// The refusal in a component's log since the trial's gates were written, if it names one of them: an old static
    /// pod may start once more, and the kubelet's lines have no date.
    fn refusal(&self, component: Component) -> Option<ComponentRefusal> {
        let (said, _) = effect::refusal(self.layout, component, self.since)?;
        said.names_any_of(&self.gates).then_some(said)
    }

    fn with_refusal(&self, result: VerificationResult) -> VerificationResult {
        if result.ready {
            return result;
        }
        let said = [Component::KubeApiserver, Component::Kubelet]
            .into_iter()
            .find_map(|component| {
                let said = self.refusal(component)?;
                Some(format!("{component} says: {}", said.line))
            });
        match said {
            Some(said) => VerificationResult {
                refused: true,
                ..VerificationResult::not_yet(said)
            },
            None => result,
        }
    }

    /// The kube-apiserver that RKE2's kubeconfig leads to is that of another server, and says nothing about this start.
    fn without_apiserver(&self) -> VerificationResult {
        if !self.unit.is_active() {
            return VerificationResult::not_yet(format!("rke2-server is {}", self.unit.active));
        }
        VerificationResult::as_asked()
    }

    async fn apiserver(&self) -> VerificationResult {
        let component = Component::KubeApiserver;
        let client = match effect::client(self.api, &admin_kubeconfig(self.layout), component).await
        {
            Ok(client) => client,
            Err(why) => return VerificationResult::not_yet(why),
        };
        if let Err(why) = effect::ready(&client).await {
            return VerificationResult::not_yet(format!("kube-apiserver is not ready: {why}"));
        }
        if !self.unit.is_active() {
            return VerificationResult::not_yet(format!("rke2-server is {}", self.unit.active));
        }
        let restarts = self.changed.contains(&component);
        let process = match effect::observed_process(&client).await {
            Ok(process) => process,
            Err(unseen) => {
                return VerificationResult {
                    ready: !restarts,
                    ..VerificationResult::not_yet(format!(
                        "kube-apiserver's metrics: {}",
                        unseen.why
                    ))
                };
            }
        };
        if restarts && !self.is_new(&process) && !self.is_of_before(&process) {
            return VerificationResult::not_yet("the kube-apiserver of before still answers");
        }
        let differences = process.gates.differences(&self.gates_of(component));
        if differences.is_empty() {
            return VerificationResult::as_asked();
        }
        VerificationResult::otherwise(format!(
            "not in effect: kube-apiserver says that {}{}",
            differences.join(", "),
            self.arguments_of(component)
        ))
    }

    fn arguments_of(&self, component: Component) -> String {
        let Some(arguments) = effect::pod(self.layout, component) else {
            return String::new();
        };
        let missing: Vec<String> = self
            .gates_of(component)
            .iter()
            .filter(|gate| arguments.get(&gate.gate) != Some(&gate.value))
            .map(|gate| format!("{}={}", gate.gate, gate.value))
            .collect();
        match missing.as_slice() {
            [] => "; its static pod has the arguments".to_owned(),
            missing => format!(
                "; its static pod does not have {}: another file of RKE2's configuration wins",
                missing.join(", ")
            ),
        }
    }

    async fn look(&self, component: Component, gates: &[GateRequest]) -> ComponentLook {
        let look = self.ask(component, gates).await;
        let is_verified = matches!(
            &look,
            ComponentLook::Reports { is_new: true, differences } if differences.is_empty()
        );
        // A running process counts more than the log of an earlier one.
        let refusal = self.refusal(component).filter(|_| !is_verified);
        refusal.map_or(look, |said| ComponentLook::Refuses(said.line))
    }

    async fn ask(&self, component: Component, gates: &[GateRequest]) -> ComponentLook {
        if let Some(address) = effect::elsewhere(self.layout, component) {
            let why = format!("it listens on {address}, where Windrow does not ask it");
            return ComponentLook::Unreadable(why);
        }
        let kubeconfig = admin_kubeconfig(self.layout);
        let client = match effect::client(self.api, &kubeconfig, component).await {
            Ok(client) => client,
            Err(why) => return ComponentLook::Unreadable(why),
        };
        match effect::observed_process(&client).await {
            Ok(process) => ComponentLook::Reports {
                is_new: self.is_new(&process),
                differences: process.gates.differences(gates),
            },
            Err(unseen) if unseen.is_silent => ComponentLook::Silent(unseen.why),
            Err(unseen) => ComponentLook::Unreadable(unseen.why),
        }
    }

    /// A process without the failed gates never had them: a static pod whose arguments are again the previous ones
    /// stays.
    fn is_of_before(&self, process: &ObservedProcess) -> bool {
        !process.gates.differences(&self.failed).is_empty()
    }

    fn is_new(&self, process: &ObservedProcess) -> bool {
        is_newer(process.age, self.unit.age())
    }
}

/// Since when kube-apiserver has run with its gates while the others were not observed. The time begins again whenever
/// kube-apiserver is away.
pub(super) fn since_as_asked(
    since: Option<Instant>,
    result: &VerificationResult,
    now: Instant,
) -> Option<Instant> {
    result.apiserver.then(|| since.unwrap_or(now))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_wait_for_the_other_components_begins_again_when_kube_apiserver_was_away() {
        let start = Instant::now();
        let as_asked = VerificationResult {
            ready: true,
            apiserver: true,
            ..VerificationResult::not_yet("kube-scheduler does not answer")
        };
        let since = since_as_asked(None, &as_asked, start);
        assert_eq!(since, Some(start));
        let later = start + OTHERS;
        assert_eq!(since_as_asked(since, &as_asked, later), since);
        let away = VerificationResult::not_yet("kube-apiserver is not ready");
        let since = since_as_asked(since, &away, later);
        assert_eq!(since_as_asked(since, &as_asked, later), Some(later));
    }

    #[tokio::test]
    async fn a_server_without_kube_apiserver_is_not_judged_by_that_of_another_server() {
        let root = tempfile::tempdir().unwrap();
        let layout = Layout::new(root.path());
        let config = root.path().join("etc/rancher/rke2/config.yaml");
        std::fs::create_dir_all(config.parent().unwrap()).unwrap();
        std::fs::write(config, "disable-apiserver: true\n").unwrap();
        let api = ApiServer::new();
        let own = "kube-apiserver-arg+:\n- feature-gates+=A=true\n";
        for (active, is_ready) in [("active", true), ("activating", false)] {
            let unit = Unit {
                active: active.to_owned(),
                ..Unit::default()
            };
            let verification = Verification {
                api: &api,
                layout: &layout,
                unit: &unit,
                gates: windrow_gates::read_gates("own.yaml", own, &[]),
                failed: Vec::new(),
                changed: vec![Component::KubeApiserver],
                since: None,
            };
            let result = verification.run(Some(Instant::now() - OTHERS)).await;
            assert_eq!(result.ready, is_ready, "{result:?}");
            assert_eq!(result.in_effect == InEffect::AsAsked, is_ready);
            assert_eq!(result.unverified.len(), usize::from(is_ready));
        }
    }

    #[tokio::test]
    async fn an_old_refusal_of_a_gate_that_the_trial_does_not_set_is_none() {
        let root = tempfile::tempdir().unwrap();
        let layout = Layout::new(root.path());
        let pod = root
            .path()
            .join("var/log/pods/kube-system_kube-scheduler-n1_1/kube-scheduler");
        std::fs::create_dir_all(&pod).unwrap();
        let refusal = "2026-11-21T20:00:00Z stderr F Error: unrecognized feature gate: Gone\n";
        std::fs::write(pod.join("0.log"), refusal).unwrap();
        let (api, unit) = (ApiServer::new(), Unit::default());
        for (gate, refuses) in [("Stays", false), ("Gone", true)] {
            let own = format!("kube-scheduler-arg+:\n- feature-gates+={gate}=true\n");
            let verification = Verification {
                api: &api,
                layout: &layout,
                unit: &unit,
                gates: windrow_gates::read_gates("own.yaml", &own, &[]),
                failed: Vec::new(),
                changed: vec![Component::KubeScheduler],
                since: None,
            };
            let look = verification.look(Component::KubeScheduler, &[]).await;
            assert_eq!(matches!(look, ComponentLook::Refuses(_)), refuses, "{gate}");
        }
    }

    #[test]
    fn after_a_failed_trial_a_process_that_never_had_its_gates_is_that_of_before() {
        let root = tempfile::tempdir().unwrap();
        let (api, unit) = (ApiServer::new(), Unit::default());
        let text = |gates: &str| {
            let text = format!("kube-apiserver-arg+:\n- feature-gates+={gates}\n");
            windrow_gates::read_gates("own.yaml", &text, &[])
        };
        let report = "kubernetes_feature_enabled{name=\"A\",stage=\"ALPHA\"} 0\n";
        let process = ObservedProcess {
            gates: windrow_gates::metrics(report),
            age: None,
        };
        for (failed, is_of_before) in [
            (text("A=true"), true),
            (text("A=false"), false),
            (Vec::new(), false),
        ] {
            let verification = Verification {
                api: &api,
                layout: &Layout::new(root.path()),
                unit: &unit,
                gates: Vec::new(),
                failed,
                changed: vec![Component::KubeApiserver],
                since: None,
            };
            assert_eq!(verification.is_of_before(&process), is_of_before);
        }
    }
}
