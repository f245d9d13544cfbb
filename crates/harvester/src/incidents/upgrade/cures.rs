//! The cures for a Plan that hangs and for a stale engine.

use serde_json::{Value, json};

use crate::incidents::cure::{Cure, CureGoal, CureStep, SavedObject};
use crate::objects::{ObjectKind, items, named, text};

/// Time limit for the reaction of a controller, in seconds.
const PATIENCE: u32 = 300;

/// Restarts the controller, which then reads every Plan. Its Deployment stays unchanged, because otherwise Fleet or Helm would
/// report it as Modified.
pub(super) fn restart_controller(
    plan: &Value,
    paused: Option<&Value>,
    pods: &[&Value],
) -> Option<Cure> {
    // Several pods mean a running rollout, and none means that the Deployment creates no pods.
    let [pod] = pods else { return None };
    let gone = CureGoal::Gone {
        path: ObjectKind::POD.path_of(pod),
        uid: text(pod, "/metadata/uid").to_owned(),
    };
    let no_way_back = "its Deployment makes another one";
    let mut steps = vec![
        CureStep::delete(ObjectKind::POD, pod, no_way_back, gone, PATIENCE)
            .afterwards("its Deployment makes another one, which reads every Plan"),
        CureStep::wait(
            "wait until system-upgrade-controller is Available",
            CureGoal::Condition {
                path: ObjectKind::DEPLOYMENT.object_path(
                    text(pod, "/metadata/namespace"),
                    "system-upgrade-controller",
                ),
                condition: "Available".to_owned(),
            },
            PATIENCE,
        ),
    ];
    steps.extend(plan_moves(plan, paused));
    Some(Cure {
        summary: "start system-upgrade-controller again".to_owned(),
        changes: vec![
            format!(
                "Pod {} is deleted; nothing of the Plan is changed",
                named(pod)
            ),
            "Jobs that run already go on".to_owned(),
        ],
        saves: vec![SavedObject::of(ObjectKind::POD, pod)],
        // The pod is another one after each restart.
        purpose: Some(format!(
            "{} {} {}\n",
            ObjectKind::PLAN.path_of(plan),
            text(plan, "/metadata/uid"),
            text(plan, "/status/latestHash")
        )),
        steps,
    })
}

/// The progress of the Plan. `None` if the awaited Job has an unknown name.
fn plan_moves(plan: &Value, paused: Option<&Value>) -> Option<CureStep> {
    if let Some(job) = paused {
        let goal = CureGoal::AtLeast {
            path: ObjectKind::JOB.path_of(job),
            field: "/spec/parallelism".to_owned(),
            value: 1,
        };
        let say = format!("wait until Job {} is let go", named(job));
        return Some(CureStep::wait(say, goal, PATIENCE));
    }
    let is_idle = items(plan, "/status/applying").is_empty();
    is_idle.then(|| {
        let goal = CureGoal::Differs {
            path: ObjectKind::PLAN.path_of(plan),
            field: "/status/applying".to_owned(),
            value: plan
                .pointer("/status/applying")
                .cloned()
                .unwrap_or(json!(null)),
        };
        let say = format!("wait until Plan {} applies to a node", named(plan));
        CureStep::wait(say, goal, PATIENCE)
    })
}

/// Deletes Longhorn's records for the processes of stale engines, which ends these processes. This requires a record for every
/// stale engine. Longhorn before v1.9 has no records, and deleting the budget instead would end live processes of the instance
/// manager.
pub(super) fn end_stale(manager: &Value, orphans: &[Vec<&Value>]) -> Option<Cure> {
    if orphans.iter().any(Vec::is_empty) {
        return None;
    }
    let orphans: Vec<&Value> = orphans.iter().flatten().copied().collect();
    let delete = |orphan: &&Value| {
        let gone = CureGoal::Gone {
            path: ObjectKind::ORPHAN.path_of(orphan),
            uid: text(orphan, "/metadata/uid").to_owned(),
        };
        let no_way_back = "the process is ended; no Engine was using it";
        CureStep::delete(ObjectKind::ORPHAN, orphan, no_way_back, gone, PATIENCE)
            .afterwards("Longhorn ends the process of that engine, and no other")
    };
    let mut steps: Vec<CureStep> = orphans.iter().map(delete).collect();
    steps.push(CureStep::wait(
        format!(
            "wait until Longhorn has removed the budget of {}",
            named(manager)
        ),
        CureGoal::AtLeast {
            path: ObjectKind::BUDGET.path_of(manager),
            field: "/status/disruptionsAllowed".to_owned(),
            value: 1,
        },
        PATIENCE,
    ));
    Some(Cure {
        summary: "have Longhorn end the processes of engines that are gone".to_owned(),
        changes: orphans
            .iter()
            .map(|orphan| {
                let engine = text(orphan, "/spec/parameters/InstanceName");
                format!(
                    "the process of engine {engine} on {} ends",
                    text(orphan, "/spec/nodeID")
                )
            })
            .collect(),
        saves: orphans
            .iter()
            .map(|orphan| SavedObject::of(ObjectKind::ORPHAN, orphan))
            .collect(),
        purpose: None,
        steps,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pod(name: &str) -> Value {
        json!({"kind": "Pod", "metadata": {"name": name, "namespace": "cattle-system", "uid": format!("u-{name}")}})
    }

    fn plan(applying: &[&str]) -> Value {
        json!({"kind": "Plan", "metadata": {"name": "up", "namespace": "cattle-system"},
            "status": {"applying": applying}})
    }

    fn orphan(name: &str) -> Value {
        json!({"kind": "Orphan", "metadata": {"name": name, "namespace": "longhorn-system", "uid": format!("u-{name}")},
            "spec": {"nodeID": "n1", "parameters": {"InstanceName": "pvc-a-e-0"}}})
    }

    #[test]
    fn the_controllers_one_pod_is_deleted_and_the_plan_has_to_move() {
        let pod = pod("suc-1");
        let idle = plan(&[]);
        let cure = restart_controller(&idle, None, &[&pod]).unwrap();
        let request = cure.requests_to_try(0)[0];
        assert_eq!(request.path, "/api/v1/namespaces/cattle-system/pods/suc-1");
        assert_eq!(request.body["preconditions"]["uid"], "u-suc-1");
        let moves = &cure.steps[2].goal;
        assert!(!moves.is_reached(Some(&idle)) && moves.is_reached(Some(&plan(&["n1"]))));
        // Starts a Job that was never started.
        let job = json!({"metadata": {"name": "j", "namespace": "cattle-system"}, "spec": {"parallelism": 0}});
        let cure = restart_controller(&plan(&["n1"]), Some(&job), &[&pod]).unwrap();
        assert!(!cure.steps[2].goal.is_reached(Some(&job)));
        // The name of the Job is unknown, so the last step waits for the controller.
        let cure = restart_controller(&plan(&["n1"]), None, &[&pod]).unwrap();
        assert_eq!(cure.steps.len(), 2);
    }

    #[test]
    fn a_plan_is_one_reason_to_restart_the_controller_whichever_pod_it_has_then() {
        let mut plan = plan(&["n1"]);
        plan["metadata"]["uid"] = json!("p");
        plan["status"]["latestHash"] = json!("h1");
        let cure =
            |plan: &Value, name: &str| restart_controller(plan, None, &[&pod(name)]).unwrap();
        let [first, next] = ["suc-1", "suc-2"].map(|name| cure(&plan, name));
        assert_eq!(first.carried_out_for(), next.carried_out_for());
        assert!(!first.saves_the_same(&next));
        // Another version of the Plan is another repair.
        plan["status"]["latestHash"] = json!("h2");
        let other = cure(&plan, "suc-2");
        assert_ne!(other.carried_out_for(), next.carried_out_for());
    }

    #[test]
    fn a_controller_without_a_pod_or_in_a_rollout_is_not_restarted() {
        let (one, two) = (pod("a"), pod("b"));
        assert_eq!(restart_controller(&plan(&[]), None, &[]), None);
        assert_eq!(restart_controller(&plan(&[]), None, &[&one, &two]), None);
    }

    #[test]
    fn stale_engines_end_by_their_orphans_and_only_where_each_has_one() {
        let manager = json!({"kind": "InstanceManager",
            "metadata": {"name": "im-1", "namespace": "longhorn-system"}});
        let orphan = orphan("o1");
        let cure = end_stale(&manager, &[vec![&orphan]]).unwrap();
        let request = cure.requests_to_try(0)[0];
        assert!(
            request.path.ends_with("/longhorn-system/orphans/o1"),
            "{request:?}"
        );
        assert_eq!(request.body["preconditions"]["uid"], "u-o1");
        let budget = &cure.steps[1].goal;
        assert!(budget.path().ends_with("/poddisruptionbudgets/im-1"));
        assert!(budget.is_reached(None), "Longhorn deletes it");
        assert_eq!(end_stale(&manager, &[vec![&orphan], vec![]]), None);
    }
}
