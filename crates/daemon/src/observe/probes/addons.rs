//! Harvester's Addons. For an Addon that is not settled, it also examines the pods of its Job.

use serde_json::Value;
use windrow_harvester::addons::{AddonParts, AddonState, is_settled, job_of, judge};
use windrow_plan::readiness::node::ProbeOutcome;

use super::context::ProbeContext;
use super::kubernetes::{Ask, Credential, NamespacedName, items, object};

/// More Addons in trouble are counted, not named.
const NAMED: usize = 3;

pub(super) async fn settled(context: &ProbeContext, node: &str) -> ProbeOutcome {
    let addons = match items(&context.kubernetes, Ask::Addons, node).await {
        Ok(addons) => addons,
        Err(unknown) => return unknown,
    };
    let mut wrong = Vec::new();
    let mut not_known = None;
    for addon in addons.iter().filter(|addon| !is_settled(addon)) {
        let text = |key: &str| addon["metadata"][key].as_str().unwrap_or_default();
        let named = NamespacedName {
            namespace: text("namespace"),
            name: text("name"),
        };
        match state(context, node, addon, named).await {
            Ok(state) if state.is_on_its_way() => {}
            Ok(state) => wrong.push(format!("{}: {}", named.name, state.say())),
            Err(unknown) => not_known = Some(unknown),
        }
    }
    let more = wrong.len().saturating_sub(NAMED);
    wrong.truncate(NAMED);
    match (wrong.as_slice(), not_known) {
        ([], None) => ProbeOutcome::Passed,
        ([], Some(unknown)) => unknown,
        (wrong, _) => {
            let more = match more {
                0 => String::new(),
                more => format!("; and {more} more"),
            };
            ProbeOutcome::failed(format!("{}{more}", wrong.join("; ")))
        }
    }
}

async fn state(
    context: &ProbeContext,
    node: &str,
    addon: &Value,
    named: NamespacedName<'_>,
) -> Result<AddonState, ProbeOutcome> {
    let chart = found(context, node, Ask::HelmChart(named)).await?;
    let job_name = chart.as_ref().and_then(job_of);
    let job_named = job_name
        .as_deref()
        .map(|name| NamespacedName { name, ..named });
    let job = match job_named {
        Some(named) => found(context, node, Ask::Job(named)).await?,
        None => None,
    };
    let pods = match job_named.filter(|_| job.is_some()) {
        Some(named) => found(context, node, Ask::JobPods(named)).await?,
        None => None,
    };
    let pods = pods.as_ref().and_then(|list| list["items"].as_array());
    let parts = AddonParts {
        addon,
        chart: chart.as_ref(),
        job: job.as_ref(),
        pods: pods.map_or(&[], Vec::as_slice),
    };
    Ok(judge(&parts, (context.now)()))
}

/// `None` when it does not exist; an error when that is unknown.
async fn found(
    context: &ProbeContext,
    node: &str,
    ask: Ask<'_>,
) -> Result<Option<Value>, ProbeOutcome> {
    match object(&context.kubernetes, ask, Credential::Admin, node, "").await {
        Ok(value) => Ok(Some(value)),
        Err(ProbeOutcome::Failed { .. }) => Ok(None),
        Err(unknown) => Err(unknown),
    }
}
