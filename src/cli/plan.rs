//! `windrow plan`: the order of a manifests directory, offline.

use std::path::PathBuf;
use std::sync::Arc;

use windrow_apischema::ApiCheck;
use windrow_decide::settings::{self, ConfigError, ConfigFiles, Loaded};
use windrow_model::findings::Finding;
use windrow_model::manifest::ReadLimits;
use windrow_model::reasons::Code;
use windrow_plan::rules::{Platform, RuleSet};
use windrow_plan::{Plan, examine_content, link};
use windrow_simulate::rehearse::carriers;
use windrow_simulate::rehearse::check::CheckVerdict;
use windrow_simulate::rehearse::proofs::switched_off;

use super::inputs::{self, Inputs, NamedVersions, Versions, skipped_by};
use super::installed::with_installed;
use super::out::print_whole;
use super::output::Output;
use super::{Context, Exit, complain, style};
use crate::observe::platform::detect;
use crate::observe::rke2::config_files;
use crate::render;

/// Show the order in which manifests are applied, and why
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    /// Manifests directories, manifest files, Harvester configurations, cloud-init user-data, yip
    /// files, Ignition, Butane, Edge Image Builder definitions, or `-` [default: this node's manifests
    /// directory]
    #[arg(value_name = "PATH")]
    paths: Vec<PathBuf>,
    /// Output format
    #[arg(short, long, value_parser = Output::one_of(FORMATS), default_value = "table")]
    output: Output,
    /// The platform of the manifests, if neither a Harvester configuration nor --harvester names it
    #[arg(long, value_parser = inputs::platform(), conflicts_with = "harvester")]
    platform: Option<Platform>,
    #[command(flatten)]
    versions: NamedVersions,
    /// A directory or file with additional rule packs or knowledge; can be repeated
    #[arg(long, value_name = "PATH")]
    rules: Vec<PathBuf>,
}

const FORMATS: &[Output] = &[
    Output::Table,
    Output::Json,
    Output::Yaml,
    Output::Dot,
    Output::Mermaid,
    Output::Svg,
];

pub(super) fn run(args: Args, context: &Context) -> anyhow::Result<Exit> {
    let loaded = context.settings();
    let limits = &loaded.settings.staging.limits;
    let on_node = args.paths.is_empty();
    let mut inputs = match on_node {
        true => inputs::node(context, limits),
        false => inputs::gather(&args.paths, limits),
    };
    // Manifests without a configuration are for this machine.
    if inputs.carriers.is_empty() {
        inputs.node_rke2 = config_files(&context.layout).files;
    }
    if !inputs.errors.is_empty() {
        complain(&inputs.errors);
        return Ok(Exit::Usage);
    }
    if on_node && inputs.files.is_empty() {
        complain(&[inputs::nothing_in(&context.manifests())]);
        return Ok(Exit::Usage);
    }
    // The node of a configuration that writes Windrow's own files has those in addition to the files on this machine.
    let carried = inputs::own_configuration(&inputs);
    let loaded = match carried.files.is_empty() && carried.errors.is_empty() {
        true => loaded,
        false => settings::merge(ConfigFiles {
            files: loaded.files.iter().cloned().chain(carried.files).collect(),
            ..carried
        }),
    };
    let (rules, errors) = inputs::rules(&loaded, &args.rules, inputs.preset);
    if !errors.is_empty() {
        complain(&errors);
        return Ok(Exit::Configuration);
    }
    let (named, other_releases) = with_installed(&args.versions, &inputs);
    inputs.findings.extend(other_releases);
    let is_harvester = inputs.harvester || named.harvester.is_some();
    let platform = args
        .platform
        .or(is_harvester.then_some(Platform::Harvester))
        .or(inputs.rke2.map(|_| Platform::Rke2))
        .or(loaded.settings.platform)
        .or_else(|| on_node.then(|| detect(&context.layout)).flatten());
    let versions = Versions::new(&named, &inputs, loaded.settings.platform);
    let plan = plan_inputs(inputs, &rules, platform, &versions);
    print(&plan, args.output)?;
    Ok(exit_of(&plan))
}

/// The plan of the node's own manifests directory, which was gathered.
pub(super) fn plan_node(
    context: &Context,
    loaded: &Loaded,
    mut inputs: Inputs,
) -> Result<Plan, Vec<ConfigError>> {
    inputs.node_rke2 = config_files(&context.layout).files;
    let (rules, errors) = inputs::rules(loaded, &[], inputs.preset);
    if !errors.is_empty() {
        return Err(errors);
    }
    let platform = loaded.settings.platform.or_else(|| detect(&context.layout));
    let versions = Versions::new(&NamedVersions::default(), &inputs, None);
    Ok(plan_inputs(inputs, &rules, platform, &versions))
}

fn plan_inputs(
    inputs: Inputs,
    rules: &RuleSet,
    platform: Option<Platform>,
    versions: &Versions,
) -> Plan {
    let limits = ReadLimits::default();
    let disabled = inputs::disabled(&inputs);
    let facts = versions.facts(&inputs, platform);
    let api = ApiCheck::new(versions.kubernetes(), platform);
    let mut api = api
        .of_release(versions.release())
        .on(facts.clone())
        .without(disabled.iter().map(|(name, _)| name.clone()))
        .within(inputs::ranges(&inputs, platform));
    for file in &inputs.files {
        if skipped_by(&inputs.markers, &file.path).is_none() {
            api.add(&file.manifest(), &file.shown);
        }
    }
    let examined: Vec<_> = inputs
        .files
        .into_iter()
        .map(|file| {
            let marker = skipped_by(&inputs.markers, &file.path);
            let (path, content, limits) = (&file.path, &file.content, &file.limits);
            let examined = examine_content(path, content, limits, file.shown, rules, platform);
            Arc::new(examined.skipped_by(marker))
        })
        .collect();
    let mut plan = link(&examined, rules, facts);
    api.add_brought(&plan);
    plan.add_findings(api.finish().findings);
    plan.findings.extend(switched_off(&plan, &disabled));
    let carriers = inputs.carriers.iter();
    let beyond = versions.beyond().into_iter().map(|how| Finding {
        incident: None,
        code: Code::BootUnknown,
        severity: Code::BootUnknown.severity(),
        message: Code::BootUnknown.say(&[("how", &how)]),
        at: Vec::new(),
    });
    plan.findings.extend(beyond);
    plan.findings.extend(versions.unread());
    let slips = carriers.flat_map(|(shown, text)| carriers::findings(shown, text, &limits));
    let installer = versions.installer(
        (&inputs.carriers, &inputs.kernel_arguments),
        &inputs.findings,
    );
    plan.findings.splice(0..0, slips);
    plan.findings.splice(0..0, installer);
    plan.findings.splice(0..0, inputs.findings);
    plan
}

fn print(plan: &Plan, output: Output) -> anyhow::Result<()> {
    print_whole(&match output {
        Output::Dot => render::dot(plan),
        Output::Mermaid => render::mermaid(plan),
        Output::Svg => render::svg(plan),
        Output::Json | Output::Yaml => {
            output.render(&render::PlanReport::from_plan(plan), String::new)?
        }
        _ => render::table(plan, style()),
    })
}

/// Follows the last line of the plan.
fn exit_of(plan: &Plan) -> Exit {
    CheckVerdict::from_plan(plan).outcome().into()
}
