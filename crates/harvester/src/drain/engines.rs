//! Engines that an instance manager of Longhorn still lists although their volume is not attached to its node.
//!
//! Longhorn removes the manager's budget only when the manager lists no engine at all, so one stale entry keeps a drain waiting
//! (Longhorn `controller/instance_manager_controller.go`, `canDeleteInstanceManagerPDB`).

use serde_json::Value;

use crate::objects::text;

/// An engine that an instance manager lists and that does not run there.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StaleEngine<'o> {
    /// The name of the engine, and of its process.
    pub name: &'o str,
    /// Its state according to the instance manager.
    pub state: &'o str,
    /// The contradiction in the Engine object: object, field and value.
    pub because: String,
}

/// The stale engines of an instance manager. Entries that start or stop are left out: during a migration a volume has two engines
/// for a while, and a detached one is listed until its process has ended. An entry that appeared once may still disappear.
pub fn stale_engines<'o>(manager: &'o Value, engines: &[Value]) -> Vec<StaleEngine<'o>> {
    let listed = manager.pointer("/status/instanceEngines");
    let listed = listed.and_then(Value::as_object);
    let settled = listed
        .into_iter()
        .flatten()
        .filter(|(_, entry)| !matches!(text(entry, "/status/state"), "starting" | "stopping"));
    settled
        .filter_map(|(name, entry)| {
            let engine = engines
                .iter()
                .find(|engine| text(engine, "/metadata/name") == name);
            Some(StaleEngine {
                name,
                state: text(entry, "/status/state"),
                because: not_here(manager, name, engine)?,
            })
        })
        .collect()
}

/// Why an engine does not run in this manager; `None` if it does, or is about to.
fn not_here(manager: &Value, name: &str, engine: Option<&Value>) -> Option<String> {
    let Some(engine) = engine else {
        return Some(format!("Engine {name} does not exist"));
    };
    let (node, user) = (
        text(engine, "/spec/nodeID"),
        text(engine, "/status/instanceManagerName"),
    );
    if node.is_empty() && text(engine, "/status/currentState") == "stopped" {
        return Some(format!(
            "Engine {name} is on no node (status.currentState stopped)"
        ));
    }
    let elsewhere = !node.is_empty() && node != text(manager, "/spec/nodeID");
    let by_another = !user.is_empty() && user != text(manager, "/metadata/name");
    (elsewhere && by_another)
        .then(|| format!("Engine {name} runs on {node} (instanceManagerName {user})"))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn manager(state: &str) -> Value {
        json!({"metadata": {"name": "im-1"}, "spec": {"nodeID": "n1"},
            "status": {"instanceEngines": {"pvc-a-e-0": {"spec": {"name": "pvc-a-e-0"}, "status": {"state": state}}}}})
    }

    fn engine(name: &str, node: &str, manager: &str, state: &str) -> Value {
        json!({"metadata": {"name": name}, "spec": {"nodeID": node},
            "status": {"currentState": state, "instanceManagerName": manager}})
    }

    fn found(state: &str, engines: &[Value]) -> Vec<String> {
        let manager = manager(state);
        let found = stale_engines(&manager, engines);
        found.into_iter().map(|one| one.because).collect()
    }

    #[test]
    fn an_engine_that_is_gone_stopped_or_elsewhere_is_stale() {
        let another = engine("pvc-b-e-0", "n1", "im-1", "running");
        assert_eq!(
            found("running", &[another]),
            ["Engine pvc-a-e-0 does not exist"]
        );
        assert_eq!(
            found("stopped", &[engine("pvc-a-e-0", "", "", "stopped")]),
            ["Engine pvc-a-e-0 is on no node (status.currentState stopped)"]
        );
        assert_eq!(
            found("running", &[engine("pvc-a-e-0", "n2", "im-2", "running")]),
            ["Engine pvc-a-e-0 runs on n2 (instanceManagerName im-2)"]
        );
    }

    #[test]
    fn an_engine_that_runs_moves_or_is_being_detached_is_not() {
        for one in [
            // Attached here.
            engine("pvc-a-e-0", "n1", "im-1", "running"),
            // Being detached: it still runs.
            engine("pvc-a-e-0", "", "im-1", "running"),
            // To be started on another node, and not running there yet.
            engine("pvc-a-e-0", "n2", "im-1", "running"),
            engine("pvc-a-e-0", "n2", "", "stopped"),
            // This node's older manager, whose volumes a newer one takes over.
            engine("pvc-a-e-0", "n1", "im-9", "running"),
        ] {
            assert_eq!(
                found("running", std::slice::from_ref(&one)),
                [""; 0],
                "{one}"
            );
        }
        assert_eq!(found("starting", &[]), [""; 0]);
        assert_eq!(found("stopping", &[]), [""; 0]);
        assert_eq!(
            stale_engines(&json!({"status": {"instanceEngines": []}}), &[]),
            []
        );
    }
}
