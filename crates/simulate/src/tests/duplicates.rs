//! One object in two files.

use serde_json::json;

use super::*;

fn job(image: &str) -> serde_json::Value {
    let containers = json!([{"name": "web", "image": image}]);
    json!({"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": "web"},
        "spec": {"template": {"spec": {"restartPolicy": "Never", "containers": containers}}}})
}

fn verdict_of(objects: &[serde_json::Value]) -> BootstrapVerdict {
    let mut files = SimulatedDirectory::new();
    for (number, object) in objects.iter().enumerate() {
        let name = format!("{number}.yaml");
        file(&mut files, &name, std::slice::from_ref(object));
    }
    let mut node = SimulatedNode::new(Scenario::rke2(start()), 3);
    run(&mut node, &files).verdict
}

#[test]
fn a_second_file_cannot_change_what_does_not_change() {
    let BootstrapVerdict::Stuck { missing } = verdict_of(&[job("a"), job("b")]) else {
        panic!();
    };
    let said = missing.join("\n");
    assert!(
        said.contains("1.yaml") && said.contains("failed to update default/web batch/v1, Kind=Job"),
        "{said}"
    );
    assert!(said.contains("DesiredSet - Replace Wait"), "{said}");
    assert_eq!(
        verdict_of(&[job("a"), job("a")]),
        BootstrapVerdict::Complete
    );
}
