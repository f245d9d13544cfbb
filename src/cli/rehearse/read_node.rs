//! One node of a simulation: its files are read, planned, searched for proofs, and prepared for the simulation.

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use windrow_apischema::ApiCheck;
use windrow_decide::settings::{self, Loaded, Settings};
use windrow_gates::{ResolvedVersion, TargetVersion};
use windrow_model::findings::Finding;
use windrow_model::manifest::{FileContent, ManifestFile};
use windrow_model::reasons::{Code, Severity};
use windrow_model::unchecked::NotChecked;
use windrow_plan::knowledge::{NodeFacts, phase_of};
use windrow_plan::readiness::node::{NodeRole, Phase};
use windrow_plan::rke2::{PodNetwork, Rke2Role, SharedValues, embedded_registry};
use windrow_plan::rules::{Platform, RuleSet};
use windrow_plan::version::Version;
use windrow_plan::{Plan, examine_content, link};
use windrow_preflight::installer;
use windrow_simulate::rehearse::carriers;
use windrow_simulate::rehearse::check::acceptance::Acceptances;
use windrow_simulate::rehearse::check::{InputSize, InputSizes, keys_in};
use windrow_simulate::rehearse::guesses::add_what_comes;
use windrow_simulate::rehearse::identity::NodeIdentity;
use windrow_simulate::rehearse::layout::LayoutProposal;
use windrow_simulate::rehearse::membership::{Membership, membership};
use windrow_simulate::rehearse::pod_network::missing_network;
use windrow_simulate::rehearse::proofs::{ProofInputs, asked, image_list, not_bundled, proofs};
use windrow_simulate::rehearse::{SeenPhase, UsedTimes};
use windrow_simulate::{DirectoryChange, Scenario, Setup, SimulatedDirectory};

use super::super::inputs::{
    self, ForeignMarker, Input, Inputs, REGISTRIES, RulesOfNode, Versions, judge_directory,
    rke2_files, skipped_by, text_of,
};
use super::args::{POWER_ON, SetupArgs, UnusableInput};
use super::findings::NodeFindings;
use super::fix::sources;
use super::fleet::{LaidManifest, ReadNode};
use super::unjudged::{contents_of_charts, names_outside, of_profile, other_parts};
use crate::cli::Exit;
use crate::cli::gates::judge_files;
use crate::cli::installed::with_installed;
use crate::render::GatesReport;

/// The delay of files that cloud-init and yip write after units have started: the earliest one, and how much later it
/// can be. Modelled.
const LATE: (Duration, Duration) = (Duration::from_secs(10), Duration::from_secs(50));

/// Reads the files of one node. `is_alone`: no other node is given.
pub(super) fn read_node(
    args: &SetupArgs,
    (name, paths): (&str, &[PathBuf]),
    is_alone: bool,
) -> Result<ReadNode, UnusableInput> {
    // The files on this machine have nothing to do with the node: only the node's own files count.
    let limits = settings::Settings::default().staging.limits;
    let mut inputs = inputs::gather(paths, &limits);
    if !inputs.errors.is_empty() {
        return Err((Exit::Usage, inputs.errors));
    }
    let only_own = inputs.only_own();
    let (loaded, in_force) = configuration(args, &inputs);
    let rules = in_force.rules;
    let (named, other_releases) = with_installed(&args.versions, &inputs);
    let named_platform = args.platform.or(loaded.settings.platform);
    let versions = Versions::new(&named, &inputs, named_platform);
    let platform = match versions.harvester {
        Some(_) => Platform::Harvester,
        None => Platform::Rke2,
    };
    let disabled = inputs::disabled(&inputs);
    let facts = versions.facts(&inputs, Some(platform));
    // A configuration that writes RKE2's and is not Harvester's is only for RKE2.
    let is_said = platform == Platform::Harvester
        || named_platform.is_some()
        || inputs.rke2.is_some()
        || args.versions.rke2.is_some()
        || !rke2_files(&inputs.configuration).is_empty();
    let facts = match is_said {
        true => facts,
        false => facts.assumed(),
    };
    let plan = plan(&inputs, &rules, &facts);

    let mut findings = std::mem::take(&mut inputs.findings);
    findings.extend(other_releases);
    findings.extend(versions.installer((&inputs.carriers, &inputs.kernel_arguments), &findings));
    findings.extend(webhooks(&inputs, &findings));
    for (shown, text) in &inputs.carriers {
        findings.extend(carriers::findings(shown, text, &limits));
    }
    let manifests: Vec<ManifestFile> = inputs.files.iter().map(Input::manifest).collect();
    let sizes = sizes(&inputs, &manifests);
    let images = images(&args.images)?;
    let unhidden: Vec<(&Input, &ManifestFile)> = inputs
        .files
        .iter()
        .zip(&manifests)
        .filter(|(file, _)| skipped_by(&inputs.markers, &file.path).is_none())
        .collect();
    let read: Vec<_> = unhidden
        .iter()
        .map(|(file, read)| (*read, &file.shown))
        .collect();
    let api = ApiCheck::new(versions.kubernetes(), Some(platform));
    let mut api = api
        .of_release(versions.release())
        .on(facts.clone())
        .without(disabled.iter().map(|(name, _)| name.clone()))
        .within(inputs::ranges(&inputs, Some(platform)));
    for (manifest, shown) in &read {
        api.add(manifest, shown);
    }
    api.add_brought(&plan);
    let api = api.finish();
    let given = ProofInputs {
        files: &read,
        plan: &plan,
        disabled: &disabled,
        images: images.as_ref(),
    };
    findings.extend(proofs(&given));
    findings.extend(api.findings);
    // The files of another node may provide the missing objects.
    findings.extend(match is_alone {
        true => plan.findings_ahead(),
        false => plan.findings.clone(),
    });
    let carriers = inputs.carriers.iter();
    let membership = carriers
        .map(|(shown, text)| membership(shown, text, &inputs.configuration))
        .reduce(Membership::and)
        .unwrap_or_else(|| membership("", "", &inputs.configuration));
    let role = membership.rke2_role();
    let rke2 = rke2_files(&inputs.configuration);
    // Harvester writes these values itself.
    let shared =
        SharedValues::read(&rke2, versions.named_rke2).filter(|_| platform == Platform::Rke2);
    let network = PodNetwork::read(&rke2).filter(|_| platform == Platform::Rke2);
    if let Some(network) = network.filter(|_| !membership.joins) {
        findings.extend(missing_network(&read, &network, &disabled));
    }
    let GatesReport {
        findings: mut gates,
        not_checked: arguments,
        stops,
        ..
    } = gates_report(
        &inputs,
        &loaded.settings,
        (versions.named_rke2, role, platform == Platform::Harvester),
    );
    let directory = judge_directory(&inputs.configuration, &inputs.carriers);
    let mut not_checked = directory.not_checked;
    let stopping = [Code::ConfigFileRefused, Code::ComponentArgumentInvalid];
    let (refused, unread): (Vec<_>, Vec<_>) = directory
        .findings
        .into_iter()
        .partition(|finding| stopping.contains(&finding.code));
    let registry = (platform == Platform::Rke2 && role == Rke2Role::Server).then(|| {
        let mut files = inputs.configuration.iter();
        let registries = files.find(|file| file.path == REGISTRIES);
        let registries = registries.map(|file| String::from_utf8_lossy(&file.content));
        embedded_registry(&rke2, registries.as_deref(), versions.named_rke2)
    });
    let registry = registry.flatten();
    let is_refused = registry
        .as_ref()
        .is_some_and(|finding| finding.severity == Severity::Error);
    let component_stops = stops || is_refused || !refused.is_empty();
    gates.extend(refused);
    gates.extend(registry);
    findings.extend(unread);
    not_checked.extend(of_profile(&rke2, role, &inputs.carriers));
    not_checked.extend(contents_of_charts(&read));
    not_checked.extend(names_outside(&read, images.is_some()));
    not_checked.extend(api.unjudged);
    for (shown, text) in inputs.carriers.iter().filter(|_| inputs.harvester) {
        not_checked.extend(installer::unjudged(shown, text, named.harvester));
    }
    for (shown, text) in &inputs.kernel_arguments {
        not_checked.extend(installer::unjudged(shown, text, named.harvester));
    }
    for (shown, text) in &inputs.carriers {
        not_checked.extend(other_parts(shown, text));
    }
    let is_named = |one: &NotChecked| one.at.iter().any(|at| directory.named_at.contains(at));
    not_checked.extend(arguments.into_iter().filter(|one| !is_named(one)));
    let mut accepted = Acceptances::default();
    for (shown, text) in &inputs.accepted {
        accepted.extend(Acceptances::read(shown, text));
    }
    for (read, shown) in &read {
        accepted.annotations(read, shown);
    }
    let given_files = args.fix.is_some().then(|| sources(&inputs));

    let times = UsedTimes::of(&plan, &facts);
    let mut cannot_run = images
        .as_ref()
        .map(|images| not_bundled(&read, images))
        .unwrap_or_default();
    cannot_run.extend(api.without_pods);
    let mut texts = inputs.carriers.iter().map(|(_, text)| text);
    let makes_namespaces = if membership.joins {
        Some("another node".to_owned())
    } else {
        let is_made = |text: &String| text.contains("kubectl") || text.contains("helm ");
        texts
            .any(is_made)
            .then(|| "a command of the configuration".to_owned())
    };
    let mut scenario = Scenario {
        cannot_run,
        makes_namespaces,
        refused: api.refused,
        asked: asked(&read, &plan),
        node: facts,
        ..scenario(&versions, inputs.storage_network.as_deref())
    };
    add_what_comes(&mut scenario, &plan, &rules);
    let waits_in_a_circle = |finding: &Finding| finding.code == Code::NodeReadyCycle;
    if findings.iter().any(waits_in_a_circle) {
        scenario.leave_nodes_out();
    }
    let laid = unhidden
        .iter()
        .map(|(file, read)| LaidManifest::new(file, read))
        .collect();
    let carriers = inputs.carriers.iter();
    let identity = carriers
        .map(|(shown, text)| NodeIdentity::read(shown, text))
        .fold(NodeIdentity::default(), NodeIdentity::and);
    let (files, changes) = lay_out(inputs.files, inputs.markers);
    Ok(ReadNode {
        name: name.to_owned(),
        membership,
        identity,
        shared,
        packs: in_force.packs,
        laid,
        proposals: LayoutProposal::all(&plan),
        given_files,
        findings: NodeFindings {
            configuration: in_force.errors,
            files: findings,
            gates,
            component_stops,
            not_checked,
            layout: Vec::new(),
            accepted,
            learned: plan.learned_share(),
            inputs: sizes,
            times,
            phases: Phase::ALL
                .iter()
                .filter_map(|phase| phase_of(&plan.phases, *phase, false, NodeRole::FirstServer))
                .map(SeenPhase::from)
                .collect(),
            only_own,
        },
        setup: Setup {
            scenario,
            files,
            changes,
            settings: Arc::new(loaded.settings),
            rules,
            joins: Vec::new(),
        },
    })
}

fn configuration(args: &SetupArgs, inputs: &Inputs) -> (Loaded, RulesOfNode) {
    let loaded = settings::merge(inputs::own_configuration(inputs));
    let in_force = inputs::rules_of_node(&loaded, &args.rules, inputs.preset);
    (loaded, in_force)
}

/// On the node the installer's webhooks are Windrow's too. One that Windrow cannot use is off, and the node works without it. A line that the
/// installer rejects is not reported again.
fn webhooks(inputs: &Inputs, said: &[Finding]) -> Vec<Finding> {
    let configurations = inputs.carriers.iter().filter(|_| inputs.harvester);
    let errors = configurations.flat_map(|(shown, text)| settings::installer_errors(shown, text));
    let new = errors.filter(|error| !said.iter().any(|finding| finding.at.contains(&error.at)));
    let code = Code::ConfigurationInvalid;
    new.map(|error| Finding {
        incident: None,
        code,
        severity: Severity::Warning,
        message: code.say(&[("why", &error.message)]),
        at: vec![error.at],
    })
    .collect()
}

/// How much each input has: objects in manifests, keys in configurations.
fn sizes(inputs: &Inputs, manifests: &[ManifestFile]) -> InputSizes {
    let objects = inputs.files.iter().zip(manifests);
    let objects = objects.map(|(file, read)| {
        let objects = read.objects().count() as u64;
        (file.shown.file.clone(), InputSize { objects, keys: 0 })
    });
    let carriers = inputs.carriers.iter();
    let carriers = carriers.map(|(shown, text)| (shown.clone(), keys_in(text)));
    let parameters = inputs.kernel_arguments.iter();
    let parameters = parameters.map(|(shown, _)| (shown.clone(), 0));
    let written = inputs.configuration.iter().map(|file| {
        let text = String::from_utf8_lossy(&file.content);
        (file.source.clone(), keys_in(&text))
    });
    let own = inputs.own.iter();
    let own = own.map(|file| (file.path.display().to_string(), keys_in(&file.text)));
    let keys = carriers.chain(parameters).chain(written).chain(own);
    let keys = keys.map(|(shown, keys)| (shown, InputSize { objects: 0, keys }));
    let mut sizes = InputSizes::new();
    for (shown, size) in objects.chain(keys) {
        let sum: &mut InputSize = sizes.entry(shown).or_default();
        sum.objects += size.objects;
        sum.keys += size.keys;
    }
    sizes
}

/// The node as it is simulated.
fn scenario(versions: &Versions, storage_network: Option<&str>) -> Scenario {
    let scenario = match versions.harvester {
        Some(version) => Scenario::harvester(version, storage_network, POWER_ON),
        None => Scenario::rke2(POWER_ON),
    };
    Scenario {
        // Up to 1.35 RKE2 rewrites charts. An unknown version is treated the same.
        rewrites_charts: versions.kubernetes().is_none_or(Version::rewrites_charts),
        ..scenario
    }
}

fn plan(inputs: &Inputs, rules: &RuleSet, node: &NodeFacts) -> Plan {
    let examined: Vec<_> = inputs
        .files
        .iter()
        .map(|file| {
            let (content, shown) = (&file.content, file.shown.clone());
            let examined = examine_content(
                &file.path,
                content,
                &file.limits,
                shown,
                rules,
                node.platform,
            );
            Arc::new(examined.skipped_by(skipped_by(&inputs.markers, &file.path)))
        })
        .collect();
    link(&examined, rules, node)
}

fn images(lists: &[PathBuf]) -> Result<Option<BTreeSet<String>>, UnusableInput> {
    let mut images = BTreeSet::new();
    for list in lists {
        let text = text_of(list).map_err(|error| (Exit::Usage, vec![error]))?;
        images.extend(image_list(&text));
    }
    Ok((!lists.is_empty()).then_some(images))
}

/// The errors of components that would not start with the gates in the node's configuration.
fn gates_report(
    inputs: &Inputs,
    settings: &Settings,
    (version, role, is_of_harvester): (Option<Version>, Rke2Role, bool),
) -> GatesReport {
    let files = rke2_files(&inputs.configuration);
    let requests = settings.feature_gates.clone();
    let resolved = ResolvedVersion {
        target: version.map_or(TargetVersion::Unknown, TargetVersion::Known),
        because: "set it with --rke2".to_owned(),
    };
    judge_files(files, &requests, None, (&resolved, role, is_of_harvester))
}

/// The files on the node's disk at power-on, and the files that are written later.
fn lay_out(
    files: Vec<Input>,
    markers: Vec<ForeignMarker>,
) -> (SimulatedDirectory, Vec<DirectoryChange>) {
    let mut directory = SimulatedDirectory::new();
    let mut changes = Vec::new();
    for marker in markers {
        directory.put(marker.path, FileContent::Bytes(Vec::new()), POWER_ON);
    }
    for file in files {
        let path = file.path;
        match file.late {
            None => directory.put(path, file.content, POWER_ON),
            Some(by) => changes.push(DirectoryChange {
                after: LATE.0,
                late: LATE.1,
                by: Some(by),
                path: path.into(),
                content: Some(file.content),
            }),
        }
    }
    (directory, changes)
}
