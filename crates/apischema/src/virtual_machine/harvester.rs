//! What Harvester's own webhook refuses (`pkg/webhook/resources/virtualmachine/validator.go`, v1.4.0 to v1.8.2).

use serde_json::Value;
use windrow_model::manifest::{Node, Object};
use windrow_model::quantity::{is_quantity, milli};

use super::Judged;

const RESERVED: &str = "harvesterhci.io/reservedMemory";
const CLAIMS: &str = "harvesterhci.io/volumeClaimTemplates";
const STRATEGY: &str = "harvesterhci.io/maintain-mode-strategy";
/// `MaintenanceModeStrategyValidValues`.
const STRATEGIES: [&str; 4] = [
    "Migrate",
    "Shutdown",
    "ShutdownAndRestartAfterDisable",
    "ShutdownAndRestartAfterEnable",
];

impl Judged {
    pub(super) fn of_harvester(&mut self, object: &Object, machine: &Node) {
        if let Some(grace) = machine.get("terminationGracePeriodSeconds")
            && grace.to_json().as_i64().is_some_and(|grace| grace < 0)
        {
            let at = "spec.template.spec.terminationGracePeriodSeconds";
            self.add(grace, at, "it is negative");
        }
        let labels = object.node.at(&["metadata", "labels"]);
        // From v1.8 on; before, another word counts as Migrate.
        if let Some(strategy) = labels.and_then(|labels| labels.get(STRATEGY))
            && !self.is_before((1, 8))
        {
            self.one_of(
                strategy,
                &format!("metadata.labels[{STRATEGY}]"),
                &STRATEGIES,
            );
        }
        let annotations = object.node.at(&["metadata", "annotations"]);
        if let Some(claims) = annotations.and_then(|all| all.get(CLAIMS))
            && let Some(text) = claims.as_str().filter(|text| !text.is_empty())
            && let Err(why) = are_claims(text)
        {
            self.add(claims, &format!("metadata.annotations[{CLAIMS}]"), why);
        }
        self.reserved_memory(object, machine);
    }

    /// checkReservedMemoryAnnotation.
    fn reserved_memory(&mut self, object: &Object, machine: &Node) {
        let annotations = object.node.at(&["metadata", "annotations"]);
        let Some(node) = annotations.and_then(|all| all.get(RESERVED)) else {
            return;
        };
        let amount = |path: &[&str]| {
            let node = machine.at(path)?;
            match node.as_str() {
                Some(text) => milli(text),
                None => milli(&node.to_json().to_string()),
            }
        };
        let limit = amount(&["domain", "resources", "limits", "memory"]);
        let Some(limit) = limit.filter(|limit| *limit != 0) else {
            return;
        };
        let guest = amount(&["domain", "memory", "guest"]).filter(|_| !self.is_before((1, 6)));
        let why = match node.as_str() {
            None | Some("") => return,
            Some(text) => match milli(text) {
                None => "write a quantity, for example 256Mi",
                Some(reserved) if reserved < 0 => "it is negative",
                Some(reserved) if reserved >= limit => "it has to be less than `limits.memory`",
                Some(reserved) if guest.is_some_and(|guest| guest + reserved > limit) => {
                    "together with `memory.guest` it is more than `limits.memory`"
                }
                Some(_) => return,
            },
        };
        self.add(node, &format!("metadata.annotations[{RESERVED}]"), why);
    }
}

/// checkVolumeClaimTemplatesAnnotation.
fn are_claims(text: &str) -> Result<(), &'static str> {
    let claims: Vec<Value> = match serde_json::from_str(text) {
        Ok(Value::Null) => Vec::new(),
        Ok(Value::Array(claims)) => claims,
        _ => return Err("it is not a JSON list of claims"),
    };
    for claim in claims {
        let name = claim.pointer("/metadata/name").and_then(Value::as_str);
        if name.is_none_or(str::is_empty) {
            return Err("a claim in it has no `metadata.name`");
        }
        let size = claim.pointer("/spec/resources/requests/storage");
        if let Some(size) = size.and_then(Value::as_str)
            && !is_quantity(size)
        {
            return Err("the `storage` of a claim in it is not a quantity, like 10Gi");
        }
    }
    Ok(())
}
