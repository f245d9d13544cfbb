//! Tests a change of an object and its requests: the tested, the written and the restored values.

use serde_json::json;

use super::*;

const PATH: &str = "/apis/kubevirt.io/v1/namespaces/default/virtualmachines/db";

fn machine() -> Value {
    json!({"kind": "VirtualMachine", "metadata": {"name": "db", "namespace": "default", "uid": "u1"},
        "spec": {"runStrategy": "Always", "template": {}}})
}

fn goal() -> CureGoal {
    CureGoal::Gone {
        path: "/x".to_owned(),
        uid: "1".to_owned(),
    }
}

/// Halted, without its template, and with a label.
fn changed(vm: &Value) -> ObjectChange<'_> {
    ObjectChange::of(ObjectKind::VM, vm)
        .still("/spec/paused")
        .still("/metadata/name")
        .set("/spec/runStrategy", json!("Halted"))
        .set("/spec/template", Value::Null)
        .set("/spec/mark", json!(1))
        // It already has this value.
        .set("/metadata/namespace", json!("default"))
}

fn requests(step: &CureStep) -> (&CureRequest, &CureRequest) {
    match (&step.request, &step.way_back) {
        (Some(there), Some(WayBack::Request(back))) => (there, back),
        other => panic!("{other:?}"),
    }
}

/// The object after a JSON patch whose tests succeed.
fn patched(object: &Value, request: &CureRequest) -> Value {
    let mut object = object.clone();
    for operation in request.body.as_array().unwrap() {
        let path = text(operation, "/path");
        let (parent, name) = path.rsplit_once('/').unwrap();
        let value = operation.get("value").cloned().unwrap_or_default();
        let seen = object.pointer(path).cloned();
        let fields = object.pointer_mut(parent).unwrap().as_object_mut().unwrap();
        match (text(operation, "/op"), seen) {
            ("test", seen) => assert_eq!(seen.unwrap_or_default(), value, "{operation}"),
            ("add", None) | ("replace", Some(_)) => drop(fields.insert(name.to_owned(), value)),
            ("remove", Some(_)) => drop(fields.remove(name)),
            other => panic!("{other:?}: {operation}"),
        }
    }
    object
}

#[test]
fn a_change_tests_what_was_diagnosed_before_it_writes_and_its_way_back_tests_what_was_written() {
    let vm = machine();
    let step = changed(&vm).step("stop it", goal(), 7);
    assert_eq!((step.say.as_str(), step.patience), ("stop it", 7));
    assert_eq!(step.goal, goal());
    let (there, back) = requests(&step);
    let test = |path: &str, value: Value| json!({"op": "test", "path": path, "value": value});
    assert_eq!(
        there.body,
        json!([
            test("/metadata/uid", json!("u1")),
            test("/spec/paused", Value::Null),
            test("/metadata/name", json!("db")),
            test("/spec/runStrategy", json!("Always")),
            {"op": "replace", "path": "/spec/runStrategy", "value": "Halted"},
            test("/spec/template", json!({})),
            {"op": "remove", "path": "/spec/template"},
            test("/spec/mark", Value::Null),
            {"op": "add", "path": "/spec/mark", "value": 1},
        ])
    );
    // Fields that only had to be unchanged may have changed since. That must not prevent the reversal.
    assert_eq!(
        back.body,
        json!([
            test("/metadata/uid", json!("u1")),
            test("/spec/mark", json!(1)),
            {"op": "remove", "path": "/spec/mark"},
            test("/spec/template", Value::Null),
            {"op": "add", "path": "/spec/template", "value": {}},
            test("/spec/runStrategy", json!("Halted")),
            {"op": "replace", "path": "/spec/runStrategy", "value": "Always"},
        ])
    );
    let after = patched(&vm, there);
    assert_eq!(
        after["spec"],
        json!({"runStrategy": "Halted", "mark": 1}),
        "{after}"
    );
    assert_eq!(patched(&after, back), vm);
}

#[test]
fn a_step_back_waits_for_the_first_field_as_it_was() {
    let vm = machine();
    let back = changed(&vm).step_back("start it", 9);
    assert_eq!((back.say.as_str(), back.patience), ("start it", 9));
    assert!(back.way_back.is_none());
    let expected = CureGoal::Field {
        path: PATH.to_owned(),
        before: None,
        field: "/spec/runStrategy".to_owned(),
        value: json!("Always"),
    };
    assert_eq!(back.goal, expected);
    let step = changed(&vm).step("", goal(), 1);
    assert_eq!(back.request.as_ref(), Some(requests(&step).1));
    let nothing = ObjectChange::of(ObjectKind::VM, &vm).step_back("", 1);
    assert!(nothing.goal.is_reached(Some(&vm)));
    assert!(!nothing.goal.is_reached(None));
}

#[test]
fn a_change_is_sent_and_tried_where_the_object_or_its_status_is() {
    let vm = machine();
    let whole = ObjectChange::of(ObjectKind::VM, &vm).set("/spec/mark", json!(1));
    let status = ObjectChange::of_status(ObjectKind::VM, &vm).set("/status", json!({}));
    for (change, url) in [(whole, PATH.to_owned()), (status, format!("{PATH}/status"))] {
        let step = change.step("", goal(), 1);
        let (request, back) = requests(&step);
        assert_eq!((request.url(), back.url()), (url.clone(), url.clone()));
        assert_eq!(request.path, PATH, "the object itself is read");
        assert_eq!(request.say(), format!("PATCH {url}"));
        assert_eq!(
            (request.method.verb(), request.method.content_type()),
            ("PATCH", "application/json-patch+json")
        );
        let tried = (format!("{url}?dryRun=All"), request.body.clone());
        assert_eq!(request.as_trial(), tried);
    }
}

#[test]
fn a_deletion_names_its_object_by_uid_and_says_that_there_is_no_way_back() {
    let vm = machine();
    let step =
        CureStep::delete(ObjectKind::VM, &vm, "it is gone", goal(), 5).afterwards("made again");
    assert_eq!(step.say, "delete VirtualMachine default/db");
    assert_eq!(step.afterwards.as_deref(), Some("made again"));
    let why = "it is gone".to_owned();
    assert_eq!(step.way_back, Some(WayBack::None { why }));
    let request = step.request.unwrap();
    let options = json!({"apiVersion": "v1", "kind": "DeleteOptions",
        "propagationPolicy": "Background", "preconditions": {"uid": "u1"}});
    assert_eq!((request.url(), &request.body), (PATH.to_owned(), &options));
    assert_eq!(request.say(), format!("DELETE {PATH}"));
    assert_eq!(
        (request.method.verb(), request.method.content_type()),
        ("DELETE", "application/json")
    );
    let (url, body) = request.as_trial();
    let mut only_tried = options;
    only_tried["dryRun"] = json!(["All"]);
    assert_eq!((url, body), (PATH.to_owned(), only_tried));

    let mut other = vm.clone();
    other["metadata"]["uid"] = json!("u2");
    assert_eq!(request.judge(Some(&vm)), RequestState::Due);
    assert_eq!(request.judge(Some(&other)), RequestState::Applied);
    assert_eq!(request.judge(None), RequestState::Applied);
}

#[test]
fn a_change_is_due_while_all_is_as_diagnosed_applied_once_it_is_as_wanted_and_outdated_otherwise() {
    let vm = machine();
    let step = changed(&vm).step("", goal(), 1);
    let (request, back) = requests(&step);
    let after = patched(&vm, request);
    let with = |object: &Value, field: &str, value: Value| {
        let mut object = object.clone();
        object["spec"][field] = value;
        object
    };
    let outdated = |why: &str| RequestState::Outdated(why.to_owned());
    assert_eq!(request.judge(Some(&vm)), RequestState::Due);
    assert_eq!(request.judge(Some(&after)), RequestState::Applied);
    assert_eq!(back.judge(Some(&after)), RequestState::Due);
    assert_eq!(back.judge(Some(&vm)), RequestState::Applied);
    assert_eq!(request.judge(None), outdated("it does not exist any more"));
    let mut other = after.clone();
    other["metadata"]["uid"] = json!("u2");
    let another = outdated("it is another object of the same name");
    assert_eq!(request.judge(Some(&other)), another);
    for (field, value) in [
        ("paused", json!(true)),
        ("runStrategy", json!("Manual")),
        ("mark", json!(2)),
    ] {
        let why = format!("/spec/{field} has changed since the diagnosis");
        let seen = request.judge(Some(&with(&vm, field, value)));
        assert_eq!(seen, outdated(&why));
    }
    // Another client has written one half, so the other half no longer matches the diagnosis.
    let half = with(&vm, "runStrategy", json!("Halted"));
    let why = "/spec/runStrategy has changed since the diagnosis";
    assert_eq!(request.judge(Some(&half)), outdated(why));
    let changed_since = with(&after, "runStrategy", json!("Manual"));
    assert_eq!(back.judge(Some(&changed_since)), outdated(why));
}

fn vm(name: &str) -> Value {
    json!({"kind": "VirtualMachine", "metadata": {"name": name, "namespace": "d", "uid": name}, "spec": {}})
}

#[test]
fn tried_is_of_each_object_the_next_request_up_to_a_step_that_only_waits() {
    let goal = || CureGoal::Gone {
        path: "/x".to_owned(),
        uid: "1".to_owned(),
    };
    let set = |vm: &Value, field: &str| {
        let change = ObjectChange::of(ObjectKind::VM, vm).set(field, json!(true));
        change.step(field, goal(), 1)
    };
    let (db, web) = (vm("db"), vm("web"));
    let cure = Cure {
        summary: String::new(),
        changes: Vec::new(),
        saves: Vec::new(),
        purpose: None,
        steps: vec![
            set(&db, "/spec/a"),
            set(&db, "/spec/b"),
            set(&web, "/spec/a"),
            CureStep::wait("wait", goal(), 1),
            set(&web, "/spec/b"),
        ],
    };
    let tried = |done: usize| {
        let requests = cure.requests_to_try(done).into_iter();
        let fields = requests.map(|one| {
            let name = one.path.rsplit('/').next().unwrap_or_default();
            format!("{name}{}", text(&one.body, "/1/path"))
        });
        fields.collect::<Vec<_>>()
    };
    assert_eq!(tried(0), ["db/spec/a", "web/spec/a"]);
    assert_eq!(tried(1), ["db/spec/b", "web/spec/a"]);
    assert_eq!(tried(2), ["web/spec/a"]);
    assert_eq!(tried(3), [""; 0]);
    assert_eq!(tried(4), ["web/spec/b"]);
    assert_eq!(tried(9), [""; 0]);
}

#[test]
fn a_cure_is_told_from_another_by_the_uids_of_what_it_saves() {
    let cure = |uid: &str| Cure {
        summary: "s".to_owned(),
        changes: Vec::new(),
        saves: vec![SavedObject {
            path: "/a".to_owned(),
            object: json!({"metadata": {"uid": uid, "resourceVersion": uid.len()}}),
        }],
        purpose: None,
        steps: Vec::new(),
    };
    assert!(cure("1").saves_the_same(&cure("1")));
    assert!(!cure("1").saves_the_same(&cure("2")));
    assert_eq!(cure("1").carried_out_for(), cure("1").carried_out_for());
    assert_ne!(cure("1").carried_out_for(), cure("2").carried_out_for());
}
