//! Tests objects with the complete check.

use windrow_model::manifest::{self, FileContent, ManifestPath, Object, ReadLimits};
use windrow_plan::kubernetes::built_in_kinds;

use super::*;

/// A VirtualMachine that every KubeVirt takes.
pub(crate) const MACHINE: &str = "apiVersion: kubevirt.io/v1\nkind: VirtualMachine\nmetadata: {name: a}\nspec:\n  \
                       runStrategy: Always\n  template:\n    spec:\n      domain:\n        memory: {guest: 1Gi}\n        devices:\n          \
                       disks: [{name: root, disk: {bus: virtio}}]\n      \
                       volumes: [{name: root, containerDisk: {image: a}}]\n";

fn objects(text: &str) -> Vec<Object> {
    let path = ManifestPath::from("a.yaml");
    let content = FileContent::Bytes(text.as_bytes().to_vec());
    let file = manifest::read(&path, &content, &ReadLimits::default());
    assert_eq!(file.problems, [], "{text}");
    file.objects().cloned().collect()
}

/// The messages about a text: line, field and message.
fn said(text: &str, minors: Minors) -> Vec<String> {
    let objects = objects(text);
    let problems = objects.iter().flat_map(|object| check(object, minors));
    problems
        .map(|problem| format!("{}: {}: {}", problem.line, problem.field, problem.message))
        .collect()
}

/// The messages of kube-apiserver.
fn refusals(text: &str) -> Vec<String> {
    let objects = objects(text);
    let problems = objects.iter().flat_map(|object| check(object, Minors::ALL));
    problems.filter_map(|problem| problem.refusal).collect()
}

fn deployment(selector: &str, labels: &str, container: &str) -> String {
    format!(
        "apiVersion: apps/v1\nkind: Deployment\nmetadata: {{name: web}}\nspec:\n  selector: {{matchLabels: {selector}}}\n  \
         template:\n    metadata: {{labels: {labels}}}\n    spec:\n      containers:\n      - {container}\n"
    )
}

#[test]
fn unknown_kinds_and_removed_versions_say_what_is_meant() {
    for (api_version, kind, words) in [
        ("apps/v1", "Deploymnt", "did you mean Deployment?"),
        ("v1", "Deployment", "Deployment is in apps/v1"),
        ("apps/v2", "Deployment", "Deployment is in apps/v1"),
        (
            "policy/v1beta1",
            "PodDisruptionBudget",
            "since 1.25; write policy/v1",
        ),
        ("batch/v1beta1", "CronJob", "since 1.25; write batch/v1"),
        (
            "apiextensions.k8s.io/v1beta1",
            "CustomResourceDefinition",
            "since 1.22; write apiextensions.k8s.io/v1",
        ),
        (
            "extensions/v1beta1",
            "Ingress",
            "since 1.22; write networking.k8s.io/v1",
        ),
        (
            "policy/v1beta1",
            "PodSecurityPolicy",
            "since 1.25; nothing replaces it",
        ),
        (
            "resource.k8s.io/v1beta1",
            "ResourceClaim",
            "runtime-config=resource.k8s.io/v1beta1=true",
        ),
        (
            "autoscaling/v2beta2",
            "HorizontalPodAutoscaler",
            "since 1.26; write autoscaling/v2",
        ),
    ] {
        let text = format!("kind: {kind}\napiVersion: {api_version}\nmetadata: {{name: a}}\n");
        let said = said(&text, Minors::of_version(36));
        assert!(
            said.len() == 1 && said[0].starts_with("2: ") && said[0].contains(words),
            "{said:?}"
        );
    }
}

#[test]
fn kinds_that_others_bring_are_not_judged() {
    for (api_version, kind) in [
        ("example.com/v1", "Widget"),
        ("gateway.networking.k8s.io/v1", "Gateway"),
        ("snapshot.storage.k8s.io/v1", "VolumeSnapshot"),
        ("helm.cattle.io/v1", "HelmChart"),
        ("metrics.k8s.io/v1beta1", "PodMetrics"),
    ] {
        let text =
            format!("kind: {kind}\napiVersion: {api_version}\nmetadata: {{name: a}}\nspec: 5\n");
        assert_eq!(said(&text, Minors::ALL), [""; 0], "{kind}");
    }
}

#[test]
fn a_kind_that_only_some_minors_serve_is_judged_by_the_minor() {
    let text = "apiVersion: resource.k8s.io/v1\nkind: DeviceClass\nmetadata: {name: a}\nspec: {}\n";
    assert_eq!(said(text, Minors::of_version(35)), [""; 0]);
    assert_eq!(said(text, Minors::ALL), [""; 0]);
    let old = said(text, Minors::of_version(33));
    assert!(old[0].contains("from 1.34 on"), "{old:?}");
    let all = built_in_kinds();
    let by_all = |kind: &str| {
        let known = all.iter().find(|one| one.kind == kind).unwrap();
        known.is_served_by_all()
    };
    assert!(by_all("ConfigMap") && !by_all("DeviceClass"));
}

#[test]
fn what_the_specification_asks_for_is_claimed_with_its_field() {
    let text = deployment("{a: b}", "{a: b}", "{name: a, image: b}");
    let claimed = |text: &str| claims(&objects(text)[0], Minors::ALL);
    assert_eq!(claimed(&text), []);
    let without = text.replace("  selector: {matchLabels: {a: b}}\n", "");
    assert_eq!(
        claimed(&without),
        [(
            "required apps.v1.DeploymentSpec selector".to_owned(),
            "spec.selector".to_owned()
        )]
    );
}

#[test]
fn values_of_the_wrong_type_are_named_with_line_and_field() {
    for (text, words, refusal) in [
        (
            "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}\ndata:\n  port: 8080\n",
            "5: data[port]: must be text, and is a number; put it in quotation marks",
            "json: cannot unmarshal number into Go struct field ConfigMap.data of type string",
        ),
        (
            "apiVersion: v1\nkind: Secret\nmetadata: {name: a}\ndata:\n  a: not base64!\n",
            "5: data[a]: is not base64",
            "Secret in version \"v1\" cannot be handled as a Secret",
        ),
        (
            "apiVersion: v1\nkind: Service\nmetadata: {name: a}\nspec:\n  ports:\n  - port: \"80\"\n",
            "6: spec.ports[0].port: must be a whole number, and is a string; remove the quotation marks",
            "json: cannot unmarshal string into Go struct field ServicePort.spec.ports.port of type int32",
        ),
    ] {
        let (said, refusals) = (said(text, Minors::ALL), refusals(text));
        assert!(said.len() == 1 && said[0].starts_with(words), "{said:?}");
        assert!(refusals[0].contains(refusal), "{refusals:?}");
    }
    let text = deployment(
        "{a: b}",
        "{a: b}",
        "{name: a, image: b, env: [{name: PORT, value: 8080}]}",
    );
    let said = said(&text, Minors::ALL);
    assert!(
        said[0].contains("spec.template.spec.containers[0].env[0].value: must be text"),
        "{said:?}"
    );
}

#[test]
fn unknown_fields_are_dropped_and_the_one_that_was_meant_is_named() {
    let text = deployment(
        "{a: b}",
        "{a: b}",
        "{name: a, image: b, imagePullpolicy: Always}",
    );
    let said = said(&text, Minors::ALL);
    assert!(
        said[0].contains("is dropped; did you mean `imagePullPolicy`?"),
        "{said:?}"
    );
    assert_eq!(refusals(&text), [""; 0]);
}

#[test]
fn what_validation_refuses_is_named() {
    for (text, words) in [
        (deployment("{a: b}", "{a: c}", "{name: a, image: b}"), "`selector` does not match template `labels`"),
        (deployment("{a: b}", "{a: b, l: \"hello world\"}", "{name: a, image: b}"), "is not valid"),
        (deployment("{a: b}", "{a: b}", "{name: A_, image: b}"), "spec.template.spec.containers[0].name"),
        ("apiVersion: batch/v1\nkind: CronJob\nmetadata: {name: a}\nspec:\n  schedule: every day\n  jobTemplate: {spec: {template: {spec: {restartPolicy: Never, containers: [{name: a, image: b}]}}}}\n".to_owned(), "5: spec.schedule: is not valid: it has 2 fields"),
        ("apiVersion: batch/v1\nkind: Job\nmetadata: {name: a}\nspec: {template: {spec: {containers: [{name: a, image: b}]}}}\n".to_owned(), "restartPolicy: is not valid"),
        ("apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a, labels: {a: \"hello world\"}}\n".to_owned(), "3: metadata.labels: is not valid"),
        ("apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}\ndata: {\"a b\": c}\n".to_owned(), "data[a b]"),
        ("apiVersion: v1\nkind: Service\nmetadata: {name: a}\nspec: {ports: [{port: 1}, {port: 2}]}\n".to_owned(), "spec.ports[0].name: is missing"),
        (
            "apiVersion: v1\nkind: Pod\nmetadata: {name: a}\nspec:\n  containers:\n  - null\n"
                .to_owned(),
            "6: spec.containers[0].name: is missing",
        ),
    ] {
        let said = said(&text, Minors::ALL);
        assert!(said.iter().any(|one| one.contains(words)), "{words}: {said:?}");
    }
    let said =
        refusals("apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}\ndata: {\"a b\": c}\n");
    assert!(
        said.len() == 1
            && said[0].starts_with(
                "ConfigMap \"a\" is invalid: data[a b]: Invalid value: \"[redacted]\""
            ),
        "{said:?}"
    );
}

/// A message quotes a value only if it resembles a value of a closed list.
#[test]
fn no_message_quotes_a_value_that_may_be_a_secret() {
    let text = "apiVersion: v1\nkind: Pod\nmetadata: {name: a, labels: {a: hunter01 x}, annotations: {a: b}}\nspec:\n  \
                restartPolicy: hunter02\n  hostNetwork: hunter03\n  priority: 4711000000001\n  nodeSelector: {a: hunter04 x}\n  \
                volumes: [{name: a, emptyDir: {sizeLimit: hunter05 x, medium: hunter06}}]\n  containers:\n  - {name: a, image: a, \
                imagePullPolicy: hunter07, resources: {limits: {cpu: hunter08 x, memory: -4711}}, ports: [{containerPort: 471100, \
                protocol: hunter09}], securityContext: {runAsUser: -4711, procMount: hunter10}}\n---\napiVersion: \
                batch/v1\nkind: CronJob\nmetadata: {name: a, creationTimestamp: hunter11}\nspec: {schedule: hunter12 * * * *, \
                concurrencyPolicy: hunter13, jobTemplate: {spec: {completionMode: hunter14, template: {spec: {restartPolicy: hunter15, \
                containers: [{name: a, image: a}]}}}}}\n---\napiVersion: v1\nkind: Service\nmetadata: {name: a}\nspec: {type: \
                hunter16, clusterIP: hunter17, ports: [{port: 4711000, nodePort: hunter18, targetPort: hunter-19-hunter-19}], \
                sessionAffinity: hunter20, externalName: hunter21 x}\n---\napiVersion: v1\nkind: Secret\nmetadata: {name: a}\ndata: \
                {a: hunter22*}\n";
    let all = objects(text);
    let problems: Vec<Problem> = all
        .iter()
        .flat_map(|object| check(object, Minors::ALL))
        .collect();
    assert!(problems.len() >= 20, "{problems:#?}");
    for problem in problems {
        let shown = format!("{problem:?}");
        assert!(
            !shown.contains("hunter") && !shown.contains("4711"),
            "{problem:#?}"
        );
    }
    let slip = deployment(
        "{a: b}",
        "{a: b}",
        "{name: a, image: b, imagePullPolicy: always}",
    );
    let said = said(&slip, Minors::ALL);
    assert!(
        said[0].ends_with("`always` is not valid; did you mean `Always`?"),
        "{said:?}"
    );
}

#[test]
fn whole_objects_are_taken() {
    for text in [
        deployment("{a: b}", "{a: b}", "{name: a, image: b, resources: {limits: {cpu: 0.5, memory: 1Gi}}}"),
        deployment("{a: b}", "{a: b}", "{name: a, image: b, resources: {limits: {cpu: ' 1 ', memory: Mi}}}"),
        "apiVersion: v1\nkind: Service\nmetadata: {name: a}\nspec: {ports: [{port: 80, targetPort: http}]}\n".to_owned(),
        "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}\ndata: {port: \"8080\", none: null}\n".to_owned(),
        // RKE2 drops labels that are not texts, and another check reports that.
        "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a, annotations: {a: 5}}\n".to_owned(),
    ] {
        let path = ManifestPath::from("a.yaml");
        let content = FileContent::Bytes(text.as_bytes().to_vec());
        let file = manifest::read(&path, &content, &ReadLimits::default());
        for object in file.objects() {
            assert_eq!(check(object, Minors::ALL), [], "{text}");
        }
    }
}
