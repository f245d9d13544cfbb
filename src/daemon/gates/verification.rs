//! Is RKE2 up with the gates that it was given? The components themselves are asked: systemd only knows that it was
//! started, and `/readyz` may be answered by the previous kube-apiserver.

use std::time::{Duration, Instant};

use jiff::Timestamp;
use windrow_gates::trial::InEffect;
use windrow_gates::{Component, ComponentRefusal, GateRequest, ObservedGates, list};

use crate::apiserver::ApiServer;
use crate::layout::Layout;
use crate::observe::effect;
use crate::observe::rke2::admin_kubeconfig;
use crate::observe::systemd::Unit;

/// How long to wait for the other components, which start after kube-apiserver.
const OTHERS: Duration = Duration::from_secs(30);
/// By how many seconds the clock of processes is coarser than systemd's.
const COARSE: f64 = 2.0;

/// What is verified.
pub(super) struct Verification<'a> {
    pub(super) api: &'a ApiServer,
    pub(super) layout: &'a Layout,
    /// rke2-server, started after the drop-in was changed.
    pub(super) unit: &'a Unit,
    /// The gates that should be in effect.
    pub(super) gates: Vec<GateRequest>,
    /// Do kube-apiserver's arguments change, so that its process must be a new one?
    pub(super) restarts_apiserver: bool,
    /// A component's messages count from this time on.
    pub(super) since: Option<Timestamp>,
}

/// What a look found.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct VerificationResult {
    pub(super) ready: bool,
    pub(super) in_effect: InEffect,
    /// Has a component refused its gates?
    pub(super) refused: bool,
    /// What is wrong, or still missing.
    pub(super) why: Option<String>,
    /// What cannot be observed.
    pub(super) unverified: Vec<String>,
}

impl VerificationResult {
    pub(super) fn not_yet(why: impl Into<String>) -> Self {
        Self {
            ready: false,
            in_effect: InEffect::Unknown,
            refused: false,
            why: Some(why.into()),
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
    /// Looks. `as_asked`: since when kube-apiserver has the right gates while the others were not seen.
    pub(super) async fn run(&self, as_asked: Option<Instant>) -> VerificationResult {
        let apiserver = self.apiserver().await;
        if apiserver.in_effect != InEffect::AsAsked {
            return self.with_refusal(apiserver);
        }
        let mut unverified = Vec::new();
        for component in Component::ALL {
            let gates = self.gates_of(component);
            if component == Component::KubeApiserver || gates.is_empty() {
                continue;
            }
            if let Some(said) = self.refusal(component) {
                return VerificationResult::otherwise(format!("{component} says: {}", said.line));
            }
            match self.component(component, &gates).await {
                Ok(()) => {}
                Err(Unseen::Otherwise(why)) => return VerificationResult::otherwise(why),
                Err(Unseen::Unknown(why)) => {
                    unverified.push(format!("{} of {component}: {why}", list(&gates)));
                }
            }
        }
        let waits = !unverified.is_empty() && as_asked.is_none_or(|since| since.elapsed() < OTHERS);
        VerificationResult {
            in_effect: match waits {
                true => InEffect::Unknown,
                false => InEffect::AsAsked,
            },
            why: unverified.first().cloned(),
            unverified,
            ..apiserver
        }
    }

    fn gates_of(&self, component: Component) -> Vec<GateRequest> {
        let mut gates = self.gates.clone();
        gates.retain(|gate| gate.component == component);
        gates
    }

    /// What a component says of gates since the trial's were written. The kubelet's lines have no date and stay in its log over
    /// restarts: of those only what names a gate of the trial counts.
    fn refusal(&self, component: Component) -> Option<ComponentRefusal> {
        let (said, _) = effect::refusal(self.layout, component, self.since)?;
        let tried = |name: &String| self.gates.iter().any(|gate| gate.gate == *name);
        let counts = component != Component::Kubelet || said.gates.iter().any(tried);
        counts.then_some(said)
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
        let observed = match effect::observed(&client).await {
            Ok(observed) => observed,
            Err(why) => {
                return VerificationResult {
                    ready: !self.restarts_apiserver,
                    ..VerificationResult::not_yet(format!("kube-apiserver's metrics: {why}"))
                };
            }
        };
        if self.restarts_apiserver && !self.is_new(&observed) {
            return VerificationResult::not_yet("the kube-apiserver of before still answers");
        }
        let differences = observed.differences(&self.gates_of(component));
        if differences.is_empty() {
            return VerificationResult {
                ready: true,
                in_effect: InEffect::AsAsked,
                refused: false,
                why: None,
                unverified: Vec::new(),
            };
        }
        VerificationResult::otherwise(format!(
            "not in effect: kube-apiserver says that {}{}",
            differences.join(", "),
            self.arguments_of(component)
        ))
    }

    /// The gates that the static pod was given, in words.
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

    async fn component(&self, component: Component, gates: &[GateRequest]) -> Result<(), Unseen> {
        let client = effect::client(self.api, &admin_kubeconfig(self.layout), component)
            .await
            .map_err(Unseen::Unknown)?;
        let observed = effect::observed(&client).await.map_err(Unseen::Unknown)?;
        let differences = observed.differences(gates);
        match (differences.is_empty(), self.is_new(&observed)) {
            (true, _) => Ok(()),
            (false, true) => Err(Unseen::Otherwise(format!(
                "not in effect: {component} says that {}",
                differences.join(", ")
            ))),
            (false, false) => Err(Unseen::Unknown(
                "the process of before still runs".to_owned(),
            )),
        }
    }

    /// Was this process started after the unit was?
    fn is_new(&self, observed: &ObservedGates) -> bool {
        let unit = Duration::from_micros(self.unit.started).as_secs_f64();
        observed
            .started
            .is_some_and(|started| started + COARSE >= unit)
    }
}

enum Unseen {
    Otherwise(String),
    Unknown(String),
}
