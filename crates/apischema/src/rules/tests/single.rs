//! Tests the rules about one kind each. kube-apiserver 1.31 and 1.36 rejected all of these objects, unless a test names a minor.

use windrow_plan::kubernetes::Minors;

use super::{hold, said};
use crate::ProblemKind;

#[test]
fn resources_that_cannot_be_shared_are_asked_for_as_they_are_limited() {
    hold(
        "apiVersion: v1\nkind: Pod\nmetadata: {name: a}\nspec:\n  containers:\n  - name: a\n    image: b\n    \
         resources: {limits: {cpu: 1, nvidia.com/gpu: 2, hugepages-2Mi: 4Mi}, requests: {cpu: 500m, nvidia.com/gpu: '2'}}\n",
        &[
            (
                "gpu: '2'",
                "gpu: '1'",
                "must be equal to nvidia.com/gpu limit",
            ),
            (
                "nvidia.com/gpu: 2, ",
                "",
                "limits[nvidia.com/gpu]: is missing",
            ),
            (
                "hugepages-2Mi: 4Mi",
                "hugepages-2Mi: 5Mi",
                "a multiple of the page's size",
            ),
            ("hugepages-2Mi: 4Mi", "storage: 1", "must be cpu, memory,"),
            ("hugepages-2Mi: 4Mi", "'a b/c': 1", "a b/c"),
            ("cpu: 1,", "cpu: 100m,", "less than or equal to cpu limit"),
        ],
    );
    let huge = "apiVersion: v1\nkind: Pod\nmetadata: {name: a}\nspec: {containers: [{name: a, image: b, resources: {limits: {hugepages-2Mi: 4Mi}}}]}\n";
    assert!(said(huge)[0].contains("hugepages require cpu or memory"));
    let part = huge.replace("hugepages-2Mi: 4Mi", "nvidia.com/gpu: 500m");
    assert!(said(&part)[0].contains("must be an integer"));
    // Resources of Kubernetes itself can be overcommitted, and a limit without a request is also the request.
    for shared in [
        "requests: {kubernetes.io/foo: 1500m}",
        "limits: {nvidia.com/gpu: 1}",
    ] {
        let pod = huge.replace("limits: {hugepages-2Mi: 4Mi}", shared);
        assert_eq!(said(&pod), [""; 0], "{shared}");
    }
}

#[test]
fn a_container_reads_fields_of_its_pod_that_there_are() {
    hold(
        "apiVersion: v1\nkind: Pod\nmetadata: {name: a}\nspec:\n  containers:\n  - name: a\n    image: b\n    env:\n    \
         - {name: A, valueFrom: {fieldRef: {fieldPath: status.hostIPs}}}\n    \
         - {name: B, valueFrom: {fieldRef: {fieldPath: \"metadata.labels['a']\"}}}\n  volumes:\n  \
         - {name: v, downwardAPI: {items: [{path: a, fieldRef: {fieldPath: metadata.annotations}}]}}\n",
        &[
            ("status.hostIPs", "status.foo", "supported values"),
            ("status.hostIPs", "metadata.annotations", "supported values"),
            (
                "fieldPath: metadata.annotations",
                "fieldPath: spec.nodeName",
                "supported values",
            ),
        ],
    );
}

#[test]
fn pods_share_all_of_their_host_or_nothing() {
    let pod = "apiVersion: v1\nkind: Pod\nmetadata: {name: a}\nspec:\n  hostNetwork: true\n  securityContext: {windowsOptions: {hostProcess: true}}\n  \
               initContainers: [{name: i, image: b}]\n  containers: [{name: a, image: b}]\n";
    hold(
        pod,
        &[
            (
                "hostNetwork: true",
                "hostNetwork: false",
                "hostNetwork must be true",
            ),
            (
                "{name: a, image: b}",
                "{name: a, image: b, securityContext: {windowsOptions: {hostProcess: false}}}",
                "must be the pod's",
            ),
            (
                "  securityContext: {windowsOptions: {hostProcess: true}}\n  initContainers: [{name: i, ",
                "  initContainers: [{name: i, securityContext: {windowsOptions: {hostProcess: true}}, ",
                "or none",
            ),
            (
                "[{name: i",
                "[{name: a",
                "initContainers[0].name: has a value that appears twice",
            ),
            (
                "containers: [{name: a",
                "ephemeralContainers: [{name: e, image: b}]\n  containers: [{name: a",
                "it is for a pod that runs",
            ),
        ],
    );
}

/// 1.31 drops the field, because its feature gate is off.
#[test]
fn who_sees_all_of_proc_is_nobody_on_the_host() {
    let pod = "apiVersion: v1\nkind: Pod\nmetadata: {name: a}\nspec: {containers: [{name: a, image: b, securityContext: {procMount: Unmasked}}]}\n";
    assert_eq!(said(pod), [""; 0]);
    let apart = pod.replace("spec: {", "spec: {hostUsers: false, ");
    assert_eq!(said_in(&apart, 36), [""; 0]);
    assert!(said_in(pod, 36)[0].contains("`hostUsers` must be false"));
}

#[test]
fn classes_and_apis_have_the_names_that_are_theirs() {
    hold(
        "apiVersion: scheduling.k8s.io/v1\nkind: PriorityClass\nmetadata: {name: a}\nvalue: 1000000000\n",
        &[
            ("name: a", "name: system-a", "reserved for system use"),
            ("1000000000", "1000000001", "maximum allowed value"),
        ],
    );
    hold(
        "apiVersion: apiregistration.k8s.io/v1\nkind: APIService\nmetadata: {name: v1.example.com}\n\
         spec: {group: example.com, version: v1, groupPriorityMinimum: 100, versionPriority: 10, service: {name: a, namespace: b}}\n",
        &[(
            "name: v1.example.com",
            "name: v1.example.org",
            "must be its version and group: v1.example.com",
        )],
    );
}

#[test]
fn a_replication_controller_selects_its_own_pods() {
    let without = "apiVersion: v1\nkind: ReplicationController\nmetadata: {name: a}\nspec: {template: {spec: {containers: [{name: a, image: b}]}}}\n";
    assert!(said(without)[0].contains("spec.selector: is missing"));
    let with = without.replace(
        "template: {spec",
        "template: {metadata: {labels: {a: b}}, spec",
    );
    assert_eq!(said(&with), [""; 0]);
    let other = with.replace("spec: {template", "spec: {selector: {a: c}, template");
    assert!(
        said(&other)[0].contains("does not match template"),
        "{other}"
    );
}

#[test]
fn labels_and_annotations_that_something_reads_say_what_it_can_read() {
    hold(
        "apiVersion: v1\nkind: Namespace\nmetadata: {name: a, labels: {pod-security.kubernetes.io/warn-version: v1.31}}\n",
        &[("v1.31", "'1.31'", "must be latest or a minor")],
    );
    hold(
        "apiVersion: v1\nkind: Secret\ntype: kubernetes.io/service-account-token\nmetadata: {name: a, annotations: {kubernetes.io/service-account.name: a}}\n",
        &[(
            "kubernetes.io/service-account.name",
            "other",
            "metadata.annotations[kubernetes.io/service-account.name]: is missing",
        )],
    );
}

#[test]
fn policies_judge_something_and_deny_or_warn() {
    hold(
        "apiVersion: admissionregistration.k8s.io/v1\nkind: ValidatingAdmissionPolicy\nmetadata: {name: a}\nspec:\n  \
         matchConstraints: {resourceRules: [{apiGroups: [''], apiVersions: [v1], operations: [CREATE], resources: [services]}]}\n  \
         validations: [{expression: 'true'}]\n",
        &[
            (
                "validations: [{expression: 'true'}]",
                "failurePolicy: Fail",
                "must contain at least one item",
            ),
            (
                "matchConstraints: {resourceRules: [{apiGroups: [''], apiVersions: [v1], operations: [CREATE], resources: [services]}]}",
                "failurePolicy: Fail",
                "matchConstraints: is missing",
            ),
        ],
    );
    hold(
        "apiVersion: admissionregistration.k8s.io/v1\nkind: ValidatingAdmissionPolicyBinding\nmetadata: {name: a}\nspec: {policyName: a, validationActions: [Deny]}\n",
        &[
            ("[Deny]", "[Deny, Warn]", "both Deny and Warn"),
            (
                ", validationActions: [Deny]",
                "",
                "spec.validationActions: is missing",
            ),
            ("policyName: a, ", "", "spec.policyName: is missing"),
        ],
    );
}

#[test]
fn an_ingress_names_one_class() {
    hold(
        "apiVersion: networking.k8s.io/v1\nkind: Ingress\nmetadata: {name: a, annotations: {kubernetes.io/ingress.class: nginx}}\n\
         spec: {ingressClassName: nginx, defaultBackend: {service: {name: a, port: {number: 80}}}}\n",
        &[(
            "ingress.class: nginx",
            "ingress.class: caddy",
            "metadata.annotations[kubernetes.io/ingress.class]",
        )],
    );
    let class = "apiVersion: networking.k8s.io/v1\nkind: IngressClass\nmetadata: {name: a}\n";
    assert!(said(class)[0].contains("spec.controller: is missing"));
}

#[test]
fn a_class_of_ingresses_has_parameters_of_a_group_and_a_scope() {
    let class = "apiVersion: networking.k8s.io/v1\nkind: IngressClass\nmetadata: {name: a}\nspec:\n  controller: a.b/c\n  parameters:\n";
    hold(
        &format!("{class}    {{apiGroup: a.b, kind: C, name: d, scope: Cluster}}\n"),
        &[
            ("a.b, kind", "a.b/v1, kind", "spec.parameters.apiGroup"),
            ("Cluster", "cluster", "spec.parameters.scope"),
            ("Cluster", "Namespace", "spec.parameters.namespace"),
            (
                "Cluster",
                "Cluster, namespace: e",
                "spec.parameters.namespace",
            ),
        ],
    );
    hold(
        &format!("{class}    {{kind: C, name: d, scope: Namespace, namespace: e}}\n"),
        &[
            (", scope: Namespace", "", "spec.parameters.namespace"),
            ("namespace: e", "namespace: E", "spec.parameters.namespace"),
        ],
    );
}

#[test]
fn names_that_were_not_filled_in_are_none() {
    hold(
        "apiVersion: rbac.authorization.k8s.io/v1\nkind: ClusterRoleBinding\nmetadata: {name: a}\nroleRef: {kind: ClusterRole, name: a}\n\
         subjects: [{kind: ServiceAccount, name: account, namespace: a}, {kind: User, name: $(user)}]\n",
        &[("name: account", "name: $(account)", "subjects[0].name")],
    );
    hold(
        "apiVersion: admissionregistration.k8s.io/v1\nkind: MutatingWebhookConfiguration\nmetadata: {name: a}\nwebhooks:\n\
         - {name: server.kubeflow.svc, admissionReviewVersions: [v1], sideEffects: None, clientConfig: {url: 'https://a'}}\n",
        &[(
            "server.kubeflow.svc",
            "server.$(namespace).svc",
            "webhooks[0].name",
        )],
    );
}

#[test]
fn metadata_and_small_kinds_are_held_to_their_rules() {
    hold(
        "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a, finalizers: [a.b/c, orphan], ownerReferences: [{apiVersion: v1, kind: Pod, name: a, uid: b}]}\n",
        &[
            ("a.b/c", "a.b", "neither a standard finalizer"),
            ("uid: b", "uid: ''", "ownerReferences[0].uid: is missing"),
        ],
    );
    hold(
        "apiVersion: v1\nkind: PersistentVolumeClaim\nmetadata: {name: a}\nspec: {accessModes: [ReadWriteOncePod], resources: {requests: {storage: 1Gi}}}\n",
        &[(
            "[ReadWriteOncePod]",
            "[ReadWriteOncePod, ReadWriteOnce]",
            "other access modes",
        )],
    );
    let lease = "apiVersion: coordination.k8s.io/v1\nkind: Lease\nmetadata: {name: a}\nspec: {leaseDurationSeconds: 0}\n";
    assert!(said(lease)[0].contains("must be greater than 0"));
    let class =
        "apiVersion: node.k8s.io/v1\nkind: RuntimeClass\nmetadata: {name: a}\nhandler: Foo_Bar\n";
    assert!(said(class)[0].contains("RFC 1123 label"));
}

/// 1.31 accepts it.
#[test]
fn what_claims_are_made_from_asks_for_storage() {
    let set = "apiVersion: apps/v1\nkind: StatefulSet\nmetadata: {name: a}\nspec:\n  serviceName: a\n  selector: {matchLabels: {a: b}}\n  \
               template: {metadata: {labels: {a: b}}, spec: {containers: [{name: a, image: b}]}}\n  \
               volumeClaimTemplates: [{metadata: {name: v}, spec: {accessModes: [ReadWriteOnce]}}]\n";
    assert_eq!(said_in(set, 31), [""; 0]);
    assert!(said_in(set, 36)[0].contains("spec.resources[storage]: is missing"));
}

/// In new rules, 1.31 accepts only the features of 1.30.
#[test]
fn rules_speak_of_formats_from_1_32_on() {
    let definition = "apiVersion: apiextensions.k8s.io/v1\nkind: CustomResourceDefinition\nmetadata: {name: foos.example.com}\nspec:\n  group: example.com\n  \
                      names: {kind: Foo, plural: foos}\n  scope: Cluster\n  versions:\n  - name: v1\n    served: true\n    storage: true\n    schema:\n      \
                      openAPIV3Schema:\n        type: object\n        properties:\n          a: {type: string, x-kubernetes-validations: [{rule: '!format.uuid().validate(self).hasValue()'}]}\n";
    assert_eq!(said_in(definition, 36), [""; 0]);
    assert!(said_in(definition, 31)[0].contains("no formats before 1.32"));
    let other = definition.replace("!format.uuid()", "self.format.uuid()");
    assert_eq!(said_in(&other, 31), [""; 0]);
}

/// Observed at each place with the deploy controller and kube-apiserver 1.31 and 1.36.
#[test]
fn a_long_text_in_a_field_that_is_not_known_fails_the_second_time() {
    let long = "x".repeat(65);
    let again = |text: String| {
        let found = problems(&text, Minors::ALL);
        found
            .iter()
            .any(|problem| problem.kind == ProblemKind::RefusedAgain)
    };
    let map =
        |rest: &str| format!("apiVersion: v1\nkind: ConfigMap\nmetadata: {{name: a}}\n{rest}");
    let pods = |spec: &str| {
        format!(
            "apiVersion: apps/v1\nkind: Deployment\nmetadata: {{name: a}}\nspec:\n  selector: {{matchLabels: {{a: b}}}}\n  \
             template: {{metadata: {{labels: {{a: b}}}}, spec: {{{spec}}}}}\n"
        )
    };
    for fails in [
        map(&format!("sops: {{a: {long}}}\n")),
        map(&format!("sops: [{{a: {long}}}]\n")),
        map("metadata: {name: a}\n").replace(
            "{name: a}\nmetadata: {name: a}",
            &format!("{{name: a, foo: {{a: {long}}}}}"),
        ),
        map(&format!("status: {{a: {long}}}\n")),
        pods(&format!(
            "nodeSelectors: {{a: {long}}}, containers: [{{name: a, image: b}}]"
        )),
        pods(&format!(
            "containers: [{{name: a, image: b, env: [{{name: A, foo: {{a: {long}}}}}]}}]"
        )),
        map("").replace("name: a", "name: a, uid: b"),
        map("").replace(
            "name: a",
            "name: a, deletionTimestamp: '2020-01-01T00:00:00Z'",
        ),
    ] {
        assert!(again(fails.clone()), "{fails}");
    }
    for taken in [
        map(&format!("sops: {{a: {}}}\n", &long[1..])),
        map(&format!("sops: {long}\n")),
        map(&format!("sops: [{{name: {long}}}]\n")),
        map(&format!("sops: [{long}]\n")),
        map(&format!("data: {{a: {long}}}\n")),
        pods(&format!(
            "tolerations: [{{key: a, operator: Exists, foo: {{a: {long}}}}}], containers: [{{name: a, image: b}}]"
        )),
    ] {
        assert!(!again(taken.clone()), "{taken}");
    }
}

fn problems(text: &str, minors: Minors) -> Vec<crate::Problem> {
    use windrow_model::manifest::{self, FileContent, ReadLimits};
    let content = FileContent::Bytes(text.as_bytes().to_vec());
    let file = manifest::read("a.yaml", &content, &ReadLimits::default());
    assert_eq!(file.problems, [], "{text}");
    let all = file
        .objects()
        .flat_map(|object| crate::check(object, minors));
    all.collect()
}

/// The messages for kube-apiserver of this minor.
fn said_in(text: &str, minor: u16) -> Vec<String> {
    let problems = problems(text, Minors::of_version(minor));
    problems
        .into_iter()
        .map(|problem| format!("{}: {}", problem.field, problem.message))
        .collect()
}
