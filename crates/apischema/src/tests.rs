//! Whole objects through the whole check.

use windrow_model::manifest::{self, FileContent, ManifestPath, Object, ReadLimits};

use super::*;

fn objects(text: &str) -> Vec<Object> {
    let path = ManifestPath::from("a.yaml");
    let content = FileContent::Bytes(text.as_bytes().to_vec());
    let file = manifest::read(&path, &content, &ReadLimits::default());
    assert_eq!(file.problems, [], "{text}");
    file.objects().cloned().collect()
}

/// What is said of a text: line, field and message.
fn said(text: &str, minors: Minors) -> Vec<String> {
    let objects = objects(text);
    let problems = objects.iter().flat_map(|object| check(object, minors));
    problems
        .map(|problem| format!("{}: {}: {}", problem.line, problem.field, problem.message))
        .collect()
}

/// What kube-apiserver would say.
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
        (deployment("{a: b}", "{a: b, l: \"hello world\"}", "{name: a, image: b}"), "`hello world` is not valid"),
        (deployment("{a: b}", "{a: b}", "{name: A_, image: b}"), "spec.template.spec.containers[0].name"),
        ("apiVersion: batch/v1\nkind: CronJob\nmetadata: {name: a}\nspec:\n  schedule: every day\n  jobTemplate: {spec: {template: {spec: {restartPolicy: Never, containers: [{name: a, image: b}]}}}}\n".to_owned(), "5: spec.schedule: `every day` is not valid: it has 2 fields"),
        ("apiVersion: batch/v1\nkind: Job\nmetadata: {name: a}\nspec: {template: {spec: {containers: [{name: a, image: b}]}}}\n".to_owned(), "restartPolicy: `Always` is not valid"),
        ("apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a, labels: {a: \"hello world\"}}\n".to_owned(), "metadata.labels: `hello world`"),
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
}

#[test]
fn whole_objects_are_taken() {
    for text in [
        deployment("{a: b}", "{a: b}", "{name: a, image: b, resources: {limits: {cpu: 0.5, memory: 1Gi}}}"),
        "apiVersion: v1\nkind: Service\nmetadata: {name: a}\nspec: {ports: [{port: 80, targetPort: http}]}\n".to_owned(),
        "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}\ndata: {port: \"8080\", none: null}\n".to_owned(),
        // RKE2 drops labels that are no text, and says so elsewhere.
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

const WIDGET: &str = "
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: widgets.example.com}
spec:
  group: example.com
  scope: Namespaced
  names: {kind: Widget, plural: widgets}
  versions:
  - name: v1
    served: true
    storage: true
    schema:
      openAPIV3Schema:
        type: object
        required: [spec]
        properties:
          spec:
            type: object
            required: [running, size]
            properties:
              running: {type: boolean}
              size: {type: integer, minimum: 1, maximum: 9, default: 3}
              strategy: {type: string, enum: [Always, Halted]}
              name: {type: string, pattern: '^[a-z]+$', maxLength: 5}
              port: {x-kubernetes-int-or-string: true}
              some: {type: string, nullable: true}
              any: {type: object, x-kubernetes-preserve-unknown-fields: true}
              map: {type: object, additionalProperties: {type: string}}
              list: {type: array, minItems: 1, items: {type: object, properties: {a: {type: string}}}}
              either: {anyOf: [{type: integer}, {type: string}], x-kubernetes-int-or-string: true}
              when: {type: string, format: date-time}
  - {name: v1alpha1, served: false, storage: false, schema: {openAPIV3Schema: {type: object}}}
";

fn custom(spec: &str) -> Vec<String> {
    custom_of("example.com/v1", spec)
}

fn custom_of(api_version: &str, spec: &str) -> Vec<String> {
    let kind = CustomKind::read(&objects(WIDGET)[0]).unwrap();
    let text =
        format!("apiVersion: {api_version}\nkind: Widget\nmetadata: {{name: a}}\nspec: {spec}\n");
    let problems = kind.check(&objects(&text)[0]);
    problems
        .iter()
        .map(|problem| format!("{}: {}: {}", problem.line, problem.field, problem.message))
        .collect()
}

#[test]
fn a_custom_object_is_held_to_its_definition() {
    for spec in [
        "{running: true}",
        "{running: true, size: 9, strategy: Always, name: abc, port: 80, some: null, any: {x: {y: 1}}, name: null}",
        "{running: true, port: http, map: {a: b}, list: [{a: b}], size: null, either: 5}",
    ] {
        assert_eq!(custom(spec), [""; 0], "{spec}");
    }
    for (spec, words) in [
        (
            "{running: \"true\"}",
            "4: spec.running: must be of type boolean, and is a string; remove the quotation marks",
        ),
        ("{}", "spec.running: is missing"),
        ("{running: null}", "spec.running: is missing"),
        (
            "{running: true, list: [null]}",
            "spec.list[0]: `null` is not valid",
        ),
        (
            "{running: true, size: 0}",
            "should be greater than or equal to 1",
        ),
        (
            "{running: true, size: 10}",
            "should be less than or equal to 9",
        ),
        (
            "{running: true, strategy: always}",
            "did you mean `Always`?",
        ),
        ("{running: true, name: ABC}", "should match '^[a-z]+$'"),
        (
            "{running: true, name: abcdef}",
            "may have at most 5 characters",
        ),
        (
            "{running: true, port: true}",
            "must be of type integer or string",
        ),
        (
            "{running: true, map: {a: 5}}",
            "spec.map[a]: must be of type string",
        ),
        ("{running: true, list: []}", "should have at least 1 items"),
        (
            "{running: true, list: [{b: c}]}",
            "spec.list[0].b: is no field that the definition knows",
        ),
        ("{running: true, runing: false}", "did you mean `running`?"),
        (
            "{running: true, either: [1]}",
            "must be of type integer or string",
        ),
        ("5", "spec: must be of type object"),
    ] {
        let said = custom(spec);
        assert!(
            said.len() == 1 && said[0].contains(words),
            "{spec}: {said:?}"
        );
    }
}

#[test]
fn a_version_that_the_definition_does_not_serve_is_named() {
    for version in ["v2", "v1alpha1"] {
        let said = custom_of(&format!("example.com/{version}"), "{running: true}");
        assert!(
            said.len() == 1 && said[0].contains("it serves v1"),
            "{said:?}"
        );
    }
}

#[test]
fn what_rke2_and_kubevirt_bring_is_known_as_far_as_all_versions_agree() {
    let check = |api_version: &str, kind: &str, spec: &str| {
        let text = format!(
            "apiVersion: {api_version}\nkind: {kind}\nmetadata: {{name: a}}\nspec: {spec}\n"
        );
        let object = &objects(&text)[0];
        let known = CustomKind::known(&object.id.group_kind()).unwrap();
        let problems = known.check(object).into_iter();
        problems
            .map(|one| format!("{}: {}", one.field, one.message))
            .collect::<Vec<_>>()
    };
    let vm = |spec: &str| check("kubevirt.io/v1", "VirtualMachine", spec);
    assert_eq!(
        vm("{runStrategy: Always, template: {spec: {x: 1}}}"),
        [""; 0]
    );
    assert_eq!(
        check(
            "kubevirt.io/v1alpha3",
            "VirtualMachine",
            "{running: \"true\"}"
        ),
        [""; 0]
    );
    assert!(vm("{running: \"true\"}")[0].contains("must be of type boolean"));
    assert!(vm("{runStrategy: always}")[0].contains("did you mean `Always`?"));
    let chart = |spec: &str| check("helm.cattle.io/v1", "HelmChart", spec);
    assert_eq!(
        chart("{valuesContent: \"a: b\", set: {a: 5, b: c}, driver: x}"),
        [""; 0]
    );
    assert!(chart("{valuesContent: {a: b}}")[0].contains("must be of type string"));
}
