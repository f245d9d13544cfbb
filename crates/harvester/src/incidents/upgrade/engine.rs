//! A stale engine keeps the budget of an instance manager on a node that is to be drained (harvester#7366, harvester#8977,
//! longhorn#6552).

use jiff::Timestamp;
use serde_json::Value;
use windrow_model::findings::Evidence;
use windrow_model::reasons::Code;

use super::super::finding::IncidentFinding;
use super::cures;
use crate::drain::{CORDON, StaleEngine, cordoned_since, is_cordoned_for_long, stale_engines};
use crate::objects::{ObjectKind, Objects, Unlisted, named, text};

pub(super) fn find(objects: &Objects, now: Timestamp) -> Result<Vec<IncidentFinding>, Unlisted> {
    let managers = objects.all(ObjectKind::INSTANCE_MANAGER)?;
    if managers.is_empty() {
        return Ok(Vec::new());
    }
    let mut findings = Vec::new();
    for node in objects.all(ObjectKind::NODE)? {
        let Some(since) = cordoned_since(node).filter(|_| is_cordoned_for_long(node, now)) else {
            continue;
        };
        let engines = objects.all(ObjectKind::LONGHORN_ENGINE)?;
        let name = text(node, "/metadata/name");
        for manager in managers
            .iter()
            .filter(|one| text(one, "/spec/nodeID") == name)
        {
            let stale = stale_engines(manager, engines);
            if !stale.is_empty() && has_budget(objects, manager)? {
                findings.push(kept_budget(objects, manager, since, &stale)?);
            }
        }
    }
    Ok(findings)
}

/// Longhorn's budget has the name of its instance manager.
fn has_budget(objects: &Objects, manager: &Value) -> Result<bool, Unlisted> {
    let (namespace, name) = (
        text(manager, "/metadata/namespace"),
        text(manager, "/metadata/name"),
    );
    Ok(objects.get(ObjectKind::BUDGET, namespace, name)?.is_some())
}

fn kept_budget(
    objects: &Objects,
    manager: &Value,
    since: Timestamp,
    stale: &[StaleEngine<'_>],
) -> Result<IncidentFinding, Unlisted> {
    let node = text(manager, "/spec/nodeID");
    let subject = format!("InstanceManager {}", named(manager));
    let names: Vec<&str> = stale.iter().map(|engine| engine.name).collect();
    let why = format!("{node} is to be drained, and it lists {}", names.join(", "));
    let mut finding = IncidentFinding::new(Code::EngineStale, &subject, &why);
    for engine in stale {
        let field = format!("status.instanceEngines[{}].status.state", engine.name);
        let value = format!("{}; {}", engine.state, engine.because);
        finding.evidence.push(Evidence::new(&subject, field, value));
    }
    let budget = format!("PodDisruptionBudget {}", named(manager));
    finding.evidence.extend([
        Evidence::new(budget, "metadata", "it exists"),
        Evidence::new(
            format!("Node {node}"),
            format!("taint {CORDON}"),
            format!("since {since}"),
        ),
    ]);
    let mut of_engines = Vec::new();
    for engine in stale {
        let orphans = orphans(objects, node, engine.name)?;
        finding.evidence.extend(orphans.iter().map(|orphan| {
            let subject = format!("Orphan {}", named(orphan));
            Evidence::new(subject, "spec.parameters.InstanceName", engine.name)
        }));
        of_engines.push(orphans);
    }
    finding.cure = cures::end_stale(manager, &of_engines);
    finding.proof = vec![format!(
        "Longhorn deletes the budget of a cordoned node's instance manager only once it lists no engine; {} that it \
         lists is not attached here",
        if stale.len() == 1 { "the one" } else { "what" }
    )];
    Ok(finding)
}

/// Longhorn's record of an unused engine process. Deleting it ends the process. Exists from Longhorn 1.9 on.
pub(in crate::incidents) fn orphans<'o>(
    objects: &'o Objects,
    node: &str,
    engine: &str,
) -> Result<Vec<&'o Value>, Unlisted> {
    let is_its = |orphan: &&Value| {
        text(orphan, "/spec/orphanType") == "engine-instance"
            && text(orphan, "/spec/nodeID") == node
            && text(orphan, "/spec/parameters/InstanceName") == engine
    };
    let all = objects.all(ObjectKind::ORPHAN)?.iter();
    Ok(all.filter(is_its).collect())
}
