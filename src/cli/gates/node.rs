//! The check of gates: from the files only, confirmed by the node's own components, and with the gates in effect.

use windrow_gates::{
    Component, DROP_IN, GateRequest, ResolvedVersion, TargetVersion, Trial, TrialStatus, assess,
    check, drop_in, judge_arguments,
};
use windrow_model::reasons::{Code, Severity};
use windrow_model::unchecked::CanStop;
use windrow_plan::rke2::config::{ConfigLayer, Rke2ConfigFile, merge_as};
use windrow_plan::rke2::{Rke2Role, judge_keys, unjudged_keys};

use crate::act::StateFile;
use crate::apiserver::ApiServer;
use crate::cli::{Context, Exit};
use crate::layout::Layout;
use crate::observe::effect;
use crate::observe::probes::disabled_components;
use crate::observe::rke2::{admin_kubeconfig, candidates, resolved};
use crate::render::GatesReport;

use super::inputs::GateInputs;
use super::oracle;

pub(super) fn found_out(layout: &Layout, data_dir: &str) -> anyhow::Result<ResolvedVersion> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?;
    let mut found = runtime.block_on(candidates(layout, data_dir));
    // As the daemon last saw it.
    found.upgrade = StateFile::Upgrade.recall(layout).unwrap_or_default();
    Ok(resolved(&found))
}

/// Adds the reports of the running components, as far as the caller's rights allow.
pub(super) fn observe(
    context: &Context,
    data_dir: &str,
    report: &mut GatesReport,
) -> anyhow::Result<()> {
    let layout = context.layout.clone().with_data_dir(data_dir);
    let kubeconfig = admin_kubeconfig(&layout);
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?;
    let api = ApiServer::for_verb(&layout);
    let disabled = disabled_components(&layout);
    for component in Component::ALL {
        let observed = if disabled.contains(&component) {
            // At its address is that of another server.
            Err(format!("{component} does not run on this server"))
        } else {
            runtime.block_on(async {
                let client = effect::client(&api, &kubeconfig, component).await?;
                effect::observed(&client).await
            })
        };
        let pod = effect::pod(&layout, component);
        report.observe(component, observed, pod.as_ref());
    }
    // If it cannot be read, the daemon reports it.
    let trial: Option<Trial> = StateFile::Trial.recall(&layout).unwrap_or_default();
    let own = layout.gates_drop_in().display().to_string();
    report.trial = trial.map(|trial| TrialStatus::new(&trial, &own, None));
    Ok(())
}

pub(super) fn node_report(context: &Context) -> anyhow::Result<Result<GatesReport, Exit>> {
    let inputs = GateInputs::node(&context.layout);
    if let Some(exit) = inputs.refused() {
        return Ok(Err(exit));
    }
    let resolved = found_out(&context.layout, &inputs.data_dir)?;
    let data_dir = inputs.data_dir.clone();
    let mut report = judge(inputs, &resolved);
    confirm(context, &data_dir, &resolved, &mut report)?;
    Ok(Ok(report))
}

pub(super) fn confirm(
    context: &Context,
    data_dir: &str,
    resolved: &ResolvedVersion,
    report: &mut GatesReport,
) -> anyhow::Result<()> {
    let layout = context.layout.clone().with_data_dir(data_dir);
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?;
    runtime.block_on(oracle::confirm(&layout, resolved, report));
    Ok(())
}

/// The effect of the files together with Windrow's drop-in.
pub(super) fn judge(inputs: GateInputs, resolved: &ResolvedVersion) -> GatesReport {
    let role = inputs.role;
    let is_of_harvester = inputs.is_of_harvester;
    let node = (resolved, role, is_of_harvester);
    judge_files(inputs.files, &inputs.requests, inputs.own, node)
}

/// As [`judge`], for files that the caller has read. `own` is the path of Windrow's drop-in on a node.
pub(in crate::cli) fn judge_files(
    mut files: Vec<Rke2ConfigFile>,
    requests: &[GateRequest],
    own: Option<String>,
    (resolved, role, is_of_harvester): (&ResolvedVersion, Rke2Role, bool),
) -> GatesReport {
    let on_node = own.is_some();
    let own = own.unwrap_or_else(|| DROP_IN.to_owned());
    // Windrow's drop-in on the disk was written for an earlier configuration.
    if on_node || !requests.is_empty() {
        files.retain(|file| file.name() != DROP_IN);
    }
    let mut foreign = merge_as(&files, role);
    foreign.lacks_kubelet_values |= is_of_harvester;
    let planned = drop_in(requests, &resolved.target, &foreign);
    if let Some(content) = &planned.content {
        files.push(Rke2ConfigFile::new(
            ConfigLayer::DropIn,
            own.clone(),
            content.clone(),
        ));
    }
    let mut assessment = assess(&merge_as(&files, role), Some(&own), &resolved.target);
    // On a node, RKE2 has started with these values, or its journal shows its refusal.
    if !on_node {
        let version = match resolved.target {
            TargetVersion::Known(version) => Some(version),
            TargetVersion::OneOf(_) | TargetVersion::Unknown => None,
        };
        assessment
            .findings
            .extend(judge_keys(&files, role, version));
    }
    // Without names, the components start all the same.
    let stops = assessment.findings.iter().any(|finding| {
        finding.severity == Severity::Error && finding.code != Code::ClusterDnsOutside
    });
    for finding in check(requests, &resolved.target, &foreign) {
        // The request's own finding has the reason, and the line of the operator's file.
        if !assessment.findings.contains(&finding) {
            assessment.findings.push(finding);
        }
    }
    assessment
        .findings
        .retain(|finding| finding.at.is_empty() || finding.at.iter().any(|at| at.file != own));
    let mut report = GatesReport::new(resolved, &assessment, &planned, &own);
    report.stops = stops;
    let mut arguments = judge_arguments(&foreign, &resolved.target);
    if on_node {
        for one in &mut arguments.unchecked {
            one.can_stop = CanStop::Itself;
        }
    } else {
        arguments.unchecked.extend(unjudged_keys(&files, role));
    }
    report.add_arguments(arguments);
    report
}
