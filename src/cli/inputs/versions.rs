//! Which versions run on the node and which hardware it has, according to the command line and the inputs. `check`
//! and `plan` share it, so that they use the same facts.

use std::path::Path;

use clap::builder::{PossibleValuesParser, TypedValueParser};
use windrow_harvester::HarvesterVersion;
use windrow_host::hardware_class;
use windrow_model::findings::{Finding, Location};
use windrow_model::reasons::Code;
use windrow_plan::knowledge::NodeFacts;
use windrow_plan::rules::Platform;
use windrow_plan::version::Version;
use windrow_preflight::Preflight;
use windrow_preflight::installer::{KernelArguments, findings_with};
use windrow_simulate::rehearse::modelled::{self, UnreadVersion};

use super::facts::node_facts;
use super::gathered::Inputs;
use super::text_of;
use crate::fs;

/// The versions that the command line names, and the machine.
#[derive(Debug, Clone, Default, clap::Args)]
pub(in crate::cli) struct NamedVersions {
    /// Harvester's version [default: the one of the ISO that the inputs name, or else the newest one that Windrow models,
    /// if a Harvester configuration is among the inputs]
    #[arg(long, value_name = "VERSION")]
    pub(in crate::cli) harvester: Option<HarvesterVersion>,
    /// RKE2's version. It decides which objects kube-apiserver accepts, which kinds RKE2 provides, which feature gates are
    /// valid, and whether RKE2 rewrites HelmCharts (up to 1.35) [default: the version of the definition or of --harvester]
    #[arg(long, value_name = "VERSION")]
    pub(in crate::cli) rke2: Option<Version>,
    /// The server's hardware class, as in `windrow preflight` and `windrow knowledge show` (16cpu-64g-nvme), or the saved output
    /// of `windrow preflight -o json`: times that Windrow learned on this class take precedence
    #[arg(long, value_name = "CLASS|FILE", value_parser = hardware)]
    pub(in crate::cli) hardware: Option<String>,
}

pub(in crate::cli) fn platform() -> impl TypedValueParser<Value = Platform> {
    PossibleValuesParser::new(["harvester", "rke2"]).map(|name| match name.as_str() {
        "harvester" => Platform::Harvester,
        _ => Platform::Rke2,
    })
}

/// A hardware class, or the class in a saved preflight.
fn hardware(text: &str) -> Result<String, String> {
    let path = Path::new(text);
    if !fs::is_file(path) {
        return match text.contains(['/', '.']) {
            true => Err("there is no such file, and a class has neither `/` nor `.`".to_owned()),
            false => Ok(text.to_owned()),
        };
    }
    let read: Preflight = serde_json::from_str(&text_of(path)?)
        .map_err(|error| format!("not what `windrow preflight -o json` prints: {error}"))?;
    let unknown = "the CPUs or the memory of this host are unknown: set the class";
    hardware_class(&read.host).ok_or_else(|| unknown.to_owned())
}

#[derive(Debug, Clone)]
pub(in crate::cli) struct Versions {
    /// `None` if Windrow cannot tell that Harvester runs there.
    pub(in crate::cli) harvester: Option<HarvesterVersion>,
    named_harvester: Option<HarvesterVersion>,
    /// RKE2's version from the command line, from a configuration, or from the named version of Harvester.
    pub(in crate::cli) named_rke2: Option<Version>,
    hardware: Option<String>,
}

impl Versions {
    /// The versions of the node that the inputs are for, if `windrow.yaml` says that it is of this platform.
    pub(in crate::cli) fn new(
        named: &NamedVersions,
        inputs: &Inputs,
        says: Option<Platform>,
    ) -> Self {
        let runs_harvester = inputs.harvester || says == Some(Platform::Harvester);
        Self {
            harvester: named
                .harvester
                .or(runs_harvester.then_some(HarvesterVersion::LATEST)),
            named_harvester: named.harvester,
            named_rke2: named
                .rke2
                .or(inputs.rke2)
                .or(named.harvester.and_then(HarvesterVersion::rke2)),
            hardware: named.hardware.clone(),
        }
    }

    /// RKE2's, and so Kubernetes'.
    pub(in crate::cli) fn kubernetes(&self) -> Option<Version> {
        self.named_rke2
            .or(self.harvester.and_then(HarvesterVersion::rke2))
    }

    /// Harvester's release.
    pub(in crate::cli) fn release(&self) -> Option<String> {
        self.harvester.map(|version| format!("v{version}"))
    }

    /// Versions without a model, a sentence each.
    pub(in crate::cli) fn beyond(&self) -> Vec<String> {
        let harvester = self.harvester.and_then(modelled::harvester);
        let harvester = harvester.and_then(UnreadVersion::unmodelled);
        let rke2 = self.named_rke2.and_then(modelled::rke2);
        harvester.into_iter().chain(rke2).collect()
    }

    /// The finding on a version of Harvester without facts, which Windrow treats like its neighbours.
    pub(in crate::cli) fn unread(&self) -> Option<Finding> {
        let unread = self.harvester.and_then(modelled::harvester);
        unread.and_then(UnreadVersion::finding)
    }

    fn unread_release(&self) -> Option<String> {
        let harvester = self
            .harvester
            .filter(|version| modelled::harvester(*version).is_some());
        let rke2 = self
            .named_rke2
            .filter(|version| modelled::rke2(*version).is_some());
        let harvester = harvester.map(|version| format!("Harvester v{version}"));
        harvester.or(rke2.map(|version| format!("RKE2 v{version}")))
    }

    /// The judgement of Harvester's installer on the configurations: of the given version, or of all. It skips a line for which `said` already
    /// has a finding about its reading. Parameters without a configuration are a configuration of their own.
    pub(in crate::cli) fn installer(
        &self,
        (carriers, kernel_arguments): (&[NamedText], &[NamedText]),
        said: &[Finding],
    ) -> Vec<Finding> {
        let is_said = |finding: &Finding| {
            said.iter().any(|earlier| {
                let is_reading = matches!(
                    earlier.code,
                    Code::InputRefused | Code::KeyNotRead | Code::NotLookedAt
                );
                is_reading && earlier.at == finding.at
            })
        };
        let lines: Vec<&str> = kernel_arguments
            .iter()
            .map(|(_, text)| text.as_str())
            .collect();
        let arguments = KernelArguments::read(&lines.join("\n"));
        let judge = |(shown, text): &NamedText| {
            findings_with(shown, text, self.named_harvester, arguments.as_ref())
        };
        let found = carriers.iter().flat_map(judge);
        let mut found: Vec<Finding> = found.filter(|finding| !is_said(finding)).collect();
        if let (Some(arguments), [(shown, _), ..], []) = (&arguments, kernel_arguments, carriers) {
            found.extend(match arguments.fetch_configuration() {
                true => vec![not_given(shown)],
                false => {
                    findings_with(shown, ONLY_ARGUMENTS, self.named_harvester, Some(arguments))
                }
            });
        }
        found
    }

    /// The known facts about the node. A version without a source is unknown.
    pub(in crate::cli) fn facts(&self, inputs: &Inputs, platform: Option<Platform>) -> NodeFacts {
        let harvester = self.named_harvester.map(|version| version.to_string());
        node_facts(inputs, platform)
            .with_kubernetes(self.named_rke2)
            .with_harvester(harvester.as_deref())
            .with_unread_release(self.unread_release())
            .with_machine(None, self.hardware.clone())
    }
}

/// The name of a file in messages, and its text.
type NamedText = (String, String);

/// A configuration that has only what the command line adds.
const ONLY_ARGUMENTS: &str = "install: {}\n";

fn not_given(shown: &str) -> Finding {
    let what = "the configuration at `harvester.install.config_url`; provide it together with the kernel command line";
    Finding {
        incident: None,
        code: Code::NotLookedAt,
        severity: Code::NotLookedAt.severity(),
        message: Code::NotLookedAt.say(&[("what", what)]),
        at: vec![Location::line(shown, 1)],
    }
}
