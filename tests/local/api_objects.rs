//! What the API server would refuse, as an image builder meets it: `windrow plan` names it with its line, and `windrow check --details` has it
//! refused in the API server's words.

#![allow(clippy::unwrap_used, reason = "a helper of tests fails as a test does")]

use std::fs;
use std::process::{Command, Output};

/// A mistake: the manifest, the line and the code of the finding, and the API server's words; none where it takes the object.
struct Mistake {
    text: &'static str,
    line: u32,
    code: &'static str,
    words: &'static str,
}

const MISTAKES: &[Mistake] = &[
    Mistake {
        text: "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}\ndata:\n  port: 8080\n",
        line: 5,
        code: "api-wrong-type",
        words: "cannot unmarshal number into Go struct field ConfigMap.data of type string",
    },
    Mistake {
        text: "apiVersion: v1\nkind: Pod\nmetadata: {name: a}\nspec:\n  containers:\n  - name: a\n    image: b\n    env:\n    - name: PORT\n      value: 8080\n",
        line: 10,
        code: "api-wrong-type",
        words: "cannot unmarshal number into Go struct field EnvVar.spec.containers.env.value of type string",
    },
    Mistake {
        text: "apiVersion: apps/v1\nkind: Deployment\nmetadata: {name: a}\nspec:\n  selector: {matchLabels: {app: a}}\n  template:\n    metadata:\n      labels: {app: b}\n    spec: {containers: [{name: a, image: b}]}\n",
        line: 8,
        code: "api-invalid",
        words: "`selector` does not match template `labels`",
    },
    Mistake {
        text: "apiVersion: v1\nkind: Secret\nmetadata: {name: a}\ndata:\n  password: hunter 2!\n",
        line: 5,
        code: "api-wrong-type",
        words: "Secret in version \"v1\" cannot be handled as a Secret",
    },
    Mistake {
        text: "apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: a\n  labels:\n    greeting: hello world\n",
        line: 6,
        code: "api-invalid",
        words: "ConfigMap \"a\" is invalid: metadata.labels: Invalid value: \"[redacted]\"",
    },
    Mistake {
        text: "apiVersion: v1\nkind: Pod\nmetadata: {name: a}\nspec:\n  containers:\n  - name: a\n    image: b\n    resources:\n      limits: {cpu: 1}\n      requests: {cpu: 1500m}\n",
        line: 10,
        code: "api-invalid",
        words: "Pod \"a\" is invalid: spec.containers[0].resources.requests: Invalid value: \"[redacted]\": must be less than or equal to cpu limit",
    },
    Mistake {
        text: "apiVersion: policy/v1beta1\nkind: PodDisruptionBudget\nmetadata: {name: a}\n",
        line: 1,
        code: "api-removed-version",
        words: "no matches for kind \"PodDisruptionBudget\" in version \"policy/v1beta1\"",
    },
    Mistake {
        text: "apiVersion: batch/v1beta1\nkind: CronJob\nmetadata: {name: a}\n",
        line: 1,
        code: "api-removed-version",
        words: "no matches for kind \"CronJob\" in version \"batch/v1beta1\"",
    },
    Mistake {
        text: "apiVersion: apiextensions.k8s.io/v1beta1\nkind: CustomResourceDefinition\nmetadata: {name: as.example.com}\n",
        line: 1,
        code: "api-removed-version",
        words: "in version \"apiextensions.k8s.io/v1beta1\"",
    },
    Mistake {
        text: "apiVersion: apps/v1\nkind: Deploymnt\nmetadata: {name: a}\n",
        line: 1,
        code: "api-unknown-kind",
        words: "Deploymnt",
    },
    Mistake {
        text: "apiVersion: v1\nkind: Deployment\nmetadata: {name: a}\n",
        line: 1,
        code: "api-unknown-kind",
        words: "Deployment",
    },
    Mistake {
        text: "apiVersion: batch/v1\nkind: CronJob\nmetadata: {name: a}\nspec:\n  schedule: every day\n  jobTemplate: {spec: {template: {spec: {restartPolicy: Never, containers: [{name: a, image: b}]}}}}\n",
        line: 5,
        code: "api-invalid",
        words: "CronJob.batch \"a\" is invalid: spec.schedule: Invalid value: \"[redacted]\"",
    },
    Mistake {
        text: "apiVersion: helm.cattle.io/v1\nkind: HelmChart\nmetadata: {name: a, namespace: kube-system}\nspec:\n  chart: a\n  valuesContent:\n    a: b\n",
        line: 7,
        code: "api-wrong-type",
        words: "spec.valuesContent in body must be of type string: \"object\"",
    },
    Mistake {
        text: "apiVersion: v1\nkind: PersistentVolumeClaim\nmetadata: {name: a}\nspec:\n  accessModes: [ReadWriteOnce]\n  resources: {requests: {storage: 1Gi}}\n  storageClassName: nowhere\n",
        line: 7,
        code: "claim-without-class",
        words: "",
    },
    Mistake {
        text: "apiVersion: rbac.authorization.k8s.io/v1\nkind: ClusterRoleBinding\nmetadata: {name: a}\nroleRef:\n  apiGroup: rbac.authorization.k8s.io\n  kind: ClusterRole\n  name: no-such-role\n",
        line: 7,
        code: "role-without-provider",
        words: "",
    },
    Mistake {
        text: "apiVersion: helm.cattle.io/v1\nkind: HelmChartConfig\nmetadata:\n  name: rke2-ingres-nginx\n  namespace: kube-system\n",
        line: 4,
        code: "chart-config-without-chart",
        words: "",
    },
];

fn windrow(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_windrow"))
        .args(arguments)
        .output()
        .unwrap()
}

#[test]
fn every_mistake_of_the_list_is_named_and_a_rehearsal_has_it_refused() {
    for mistake in MISTAKES {
        let directory = tempfile::tempdir().unwrap();
        fs::write(directory.path().join("a.yaml"), mistake.text).unwrap();
        let path = directory.path().to_str().unwrap();
        let refused = !mistake.words.is_empty();

        let plan = windrow(&["plan", path, "--platform", "rke2", "-o", "json"]);
        assert_eq!(
            plan.status.code(),
            Some(if refused { 4 } else { 0 }),
            "{}\n{plan:?}",
            mistake.text
        );
        let plan: serde_json::Value = serde_json::from_slice(&plan.stdout).unwrap();
        let findings = plan["findings"].as_array().unwrap();
        let finding = findings.iter().find(|one| one["code"] == mistake.code);
        let finding = finding.unwrap_or_else(|| panic!("{}\n{findings:#?}", mistake.text));
        assert_eq!(finding["at"][0]["line"], mistake.line, "{finding}");

        let rehearsal = windrow(&["check", "--details", path, "--runs", "2"]);
        let said = String::from_utf8_lossy(&rehearsal.stdout);
        let flat = said.split_whitespace().collect::<Vec<_>>().join(" ");
        assert!(flat.contains(mistake.words), "{}\n{said}", mistake.text);
        assert_eq!(
            rehearsal.status.code() == Some(0),
            !refused,
            "{}\n{said}",
            mistake.text
        );
    }
}

#[test]
fn a_custom_object_of_a_version_that_its_definition_does_not_serve_cannot_work() {
    let directory = tempfile::tempdir().unwrap();
    let definition = "apiVersion: apiextensions.k8s.io/v1\nkind: CustomResourceDefinition\nmetadata: {name: widgets.example.com}\n\
                      spec:\n  group: example.com\n  scope: Cluster\n  names: {kind: Widget, plural: widgets}\n  \
                      versions: [{name: v1, served: true, storage: true, schema: {openAPIV3Schema: {type: object}}}]\n";
    fs::write(directory.path().join("10-kind.yaml"), definition).unwrap();
    let object = "apiVersion: example.com/v2\nkind: Widget\nmetadata: {name: a}\n";
    fs::write(directory.path().join("20-object.yaml"), object).unwrap();
    let plan = windrow(&["plan", directory.path().to_str().unwrap()]);
    let said = String::from_utf8_lossy(&plan.stdout);
    assert_eq!(plan.status.code(), Some(4), "{said}");
    let flat = said.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(
        flat.contains("does not serve example.com/v2; it serves v1"),
        "{said}"
    );
}

#[test]
fn a_published_manifest_without_its_namespace_is_recognised() {
    let directory = tempfile::tempdir().unwrap();
    let text = "apiVersion: v1\nkind: ServiceAccount\nmetadata:\n  name: argocd-server\n---\n\
                apiVersion: rbac.authorization.k8s.io/v1\nkind: ClusterRoleBinding\nmetadata: {name: argocd-server}\n\
                roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: view}\n\
                subjects:\n- kind: ServiceAccount\n  name: argocd-server\n  namespace: argocd\n";
    fs::write(directory.path().join("install.yaml"), text).unwrap();
    let plan = windrow(&["plan", directory.path().to_str().unwrap()]);
    let said = String::from_utf8_lossy(&plan.stdout);
    assert!(said.contains("namespace-forgotten"), "{said}");
    assert_eq!(plan.status.code(), Some(0), "{said}");
}
