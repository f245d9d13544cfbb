//! Tests of objects that are refused because of other objects of the files. Each was confirmed with kube-apiserver 1.31
//! and 1.36.

use windrow_plan::rke2::config::{ConfigLayer, Rke2ConfigFile};
use windrow_plan::rke2::service_ranges;

use super::*;

/// Code, lines and message of each finding, for an RKE2 with this configuration.
fn refused(text: &str, configuration: Option<&str>) -> Vec<String> {
    let content = FileContent::Bytes(text.as_bytes().to_vec());
    let file = manifest::read("a.yaml", &content, &ReadLimits::default());
    assert_eq!(file.problems, [], "{text}");
    let mut check = CrossCheck::default();
    for object in file.objects() {
        check.add(object, &SourceMap::itself("a.yaml"));
    }
    let files =
        configuration.map(|text| Rke2ConfigFile::new(ConfigLayer::Main, "config.yaml", text));
    let ranges = service_ranges(files.as_slice());
    let all = check.refusals(&ranges, &|_: &_| true).findings.into_iter();
    all.map(|one| {
        let lines: Vec<String> = one
            .at
            .iter()
            .filter_map(|at| at.line)
            .map(|line| line.to_string())
            .collect();
        format!("{} {}: {}", one.code.as_str(), lines.join(","), one.message)
    })
    .collect()
}

/// The whole has no findings, and each change has the expected one.
fn hold(whole: &str, changes: &[(&str, &str, &str)]) {
    assert_eq!(refused(whole, Some("token: a\n")), [""; 0], "{whole}");
    for (right, wrong, words) in changes {
        assert_eq!(whole.matches(right).count(), 1, "{right}");
        let found = refused(&whole.replace(right, wrong), Some("token: a\n"));
        assert!(
            found.len() == 1 && found[0].contains(words),
            "{wrong}: {found:?}"
        );
    }
}

const SERVICES: &str = "apiVersion: v1
kind: Service
metadata: {name: a}
spec: {type: NodePort, clusterIP: 10.43.0.50, ports: [{port: 80, nodePort: 30001}]}
---
apiVersion: v1
kind: Service
metadata: {name: b}
spec: {type: NodePort, clusterIP: 10.43.0.51, ports: [{port: 80, nodePort: 30002}]}
---
apiVersion: scheduling.k8s.io/v1
kind: PriorityClass
metadata: {name: a}
value: 1
globalDefault: true
---
apiVersion: scheduling.k8s.io/v1
kind: PriorityClass
metadata: {name: b}
value: 2
";

#[test]
fn what_one_object_only_may_have_is_not_given_twice() {
    hold(
        SERVICES,
        &[
            (
                "30002",
                "30001",
                "taken-twice 9,4: Service b and Service a both have the node port 30001/TCP",
            ),
            (
                "10.43.0.51",
                "10.43.0.50",
                "taken-twice 9,4: Service b and Service a both have the cluster IP 10.43.0.50",
            ),
            (
                "value: 2",
                "value: 2\nglobalDefault: true",
                "taken-twice 21,15: PriorityClass b and PriorityClass a",
            ),
        ],
    );
    // The same object in two documents.
    let same = SERVICES
        .replace("name: b", "name: a")
        .replace("30002", "30001");
    assert_eq!(refused(&same, None), [""; 0]);
}

#[test]
fn services_have_what_rke2_keeps_for_them() {
    hold(
        SERVICES,
        &[
            (
                "30002",
                "8080",
                "api-invalid 9: the API server refuses Service b: spec.ports.nodePort is not one of RKE2's node ports, 30000-32767",
            ),
            (
                "10.43.0.51",
                "10.96.0.1",
                "is not an address in RKE2's service-cidr",
            ),
            (
                "type: NodePort, clusterIP: 10.43.0.51,",
                "ipFamilyPolicy: RequireDualStack, type: NodePort,",
                "has one only",
            ),
            (
                "type: NodePort, clusterIP: 10.43.0.51,",
                "ipFamilies: [IPv6], type: NodePort,",
                "has none",
            ),
        ],
    );
    let other = SERVICES
        .replace("30002", "8080")
        .replace("10.43.0.51", "'fd00::5'");
    let other = other
        .replace("10.43.0.50", "10.1.0.5")
        .replace("30001", "8081");
    let wide = "service-node-port-range: 8000-9000\nservice-cidr: [10.1.0.0/16, 'fd00::/112']\n";
    assert_eq!(refused(&other, Some(wide)), [""; 0]);
    // RKE2's configuration may be elsewhere.
    let unknown = refused(&SERVICES.replace("30002", "8080"), None);
    assert!(
        unknown.len() == 1 && unknown[0].starts_with("admission-unknown 9: "),
        "{unknown:?}"
    );
}

const LIMITED: &str = "apiVersion: v1
kind: LimitRange
metadata: {name: l}
spec: {limits: [{type: Container, max: {cpu: 2}, default: {cpu: 200m}}, {type: PersistentVolumeClaim, min: {storage: 1Gi}}]}
---
apiVersion: v1
kind: Pod
metadata: {name: p}
spec: {containers: [{name: a, image: b, resources: {limits: {cpu: 2}, requests: {cpu: 800m}}}]}
---
apiVersion: v1
kind: PersistentVolumeClaim
metadata: {name: c}
spec: {accessModes: [ReadWriteOnce], resources: {requests: {storage: 1Gi}}}
---
apiVersion: v1
kind: Pod
metadata: {name: q, namespace: other}
spec: {containers: [{name: a, image: b, resources: {limits: {cpu: 20}}}]}
";

#[test]
fn a_limit_range_keeps_out_what_it_does_not_allow() {
    hold(
        LIMITED,
        &[
            (
                "limits: {cpu: 2}, ",
                "limits: {cpu: 3}, ",
                "admission-refuses 6,1: LimitRange l refuses Pod p: a container has more than 2 cpu",
            ),
            (
                "limits: {cpu: 2}, ",
                "",
                "asks for more cpu than it may take",
            ),
            (
                "storage: 1Gi}}}\n---",
                "storage: 100Mi}}}\n---",
                "LimitRange l refuses PersistentVolumeClaim c: it requests less storage",
            ),
        ],
    );
    // An earlier object may be faster.
    let parts: Vec<&str> = LIMITED.split("---\n").collect();
    let pod = parts[1].replace("limits: {cpu: 2}", "limits: {cpu: 3}");
    let before = refused(&format!("{pod}---\n{}", parts[0]), None);
    assert!(
        before.len() == 1 && before[0].starts_with("admission-unknown"),
        "{before:?}"
    );
    // A webhook may give a pod other limits.
    let webhook = "---\napiVersion: admissionregistration.k8s.io/v1\nkind: MutatingWebhookConfiguration\nmetadata: {name: w}\n";
    let changed = refused(&format!("{}---\n{pod}{webhook}", parts[0]), None);
    assert!(
        changed.len() == 1 && changed[0].starts_with("admission-unknown"),
        "{changed:?}"
    );
}

#[test]
fn a_quota_keeps_out_what_is_more_than_it_allows() {
    hold(
        "apiVersion: v1\nkind: ResourceQuota\nmetadata: {name: q}\nspec: {hard: {services.nodeports: 1, requests.storage: 2Gi, count/services: 2}}\n---\n\
         apiVersion: v1\nkind: Service\nmetadata: {name: a}\nspec: {type: NodePort, ports: [{port: 80}]}\n---\n\
         apiVersion: v1\nkind: Service\nmetadata: {name: b}\nspec: {type: ClusterIP, ports: [{port: 80}]}\n---\n\
         apiVersion: v1\nkind: PersistentVolumeClaim\nmetadata: {name: c}\nspec: {resources: {requests: {storage: 2Gi}}}\n",
        &[
            (
                "type: ClusterIP",
                "type: NodePort",
                "admission-refuses 11,1: ResourceQuota q refuses Service b: with it more than 1 of services.nodeports are taken",
            ),
            (
                "requests: {storage: 2Gi}",
                "requests: {storage: 3Gi}",
                "more than 2Gi of requests.storage",
            ),
            (
                "count/services: 2",
                "count/services: 1",
                "more than 1 of count/services",
            ),
            (
                "services.nodeports: 1",
                "services.nodeports: 0",
                "more than 0 of services.nodeports",
            ),
        ],
    );
}

const COUNTED: &str = "apiVersion: v1
kind: ResourceQuota
metadata: {name: q}
spec: {hard: {limits.cpu: 2, requests.memory: 1Gi, count/daemonsets.apps: 0, count/cronjobs.batch: 1, pods: 3}}
---
apiVersion: apps/v1
kind: Deployment
metadata: {name: d}
spec: {replicas: 1, template: {spec: {containers: [{name: a, image: b, resources: {limits: {cpu: 1, memory: 512Mi}}}]}}}
---
apiVersion: v1
kind: Pod
metadata: {name: p}
spec: {containers: [{name: a, image: b, resources: {limits: {cpu: 1}, requests: {memory: 1Gi}}}]}
---
apiVersion: batch/v1
kind: CronJob
metadata: {name: c}
spec: {suspend: true, jobTemplate: {spec: {template: {spec: {containers: [{name: a, image: b}]}}}}}
";

#[test]
fn a_quota_keeps_out_pods_that_take_too_much_or_do_not_say_how_much() {
    hold(
        COUNTED,
        &[
            (
                "limits: {cpu: 1, memory: 512Mi}",
                "limits: {memory: 512Mi}",
                "admission-refuses 6,1: ResourceQuota q refuses Deployment d: each container must set its limits.cpu",
            ),
            (
                "limits: {cpu: 1, memory: 512Mi}",
                "limits: {cpu: 2500m, memory: 512Mi}",
                "one pod takes more than 2 of limits.cpu",
            ),
            (
                "limits: {cpu: 1}, requests: {memory: 1Gi}",
                "limits: {cpu: 1}, requests: {memory: 2Gi}",
                "ResourceQuota q refuses Pod p: with it more than 1Gi of requests.memory are taken",
            ),
            (
                "limits: {cpu: 1}, requests",
                "requests",
                "ResourceQuota q refuses Pod p: each container must set its limits.cpu",
            ),
            (
                "suspend: true",
                "suspend: false",
                "refuses CronJob c: each container must set its limits.cpu, requests.memory",
            ),
            (
                "count/cronjobs.batch: 1",
                "count/cronjobs.batch: 0",
                "more than 0 of count/cronjobs.batch",
            ),
        ],
    );
    // No pods, or a LimitRange that completes them.
    let silent = COUNTED.replace("limits: {cpu: 1, memory: 512Mi}", "limits: {memory: 512Mi}");
    let none = silent.replace("replicas: 1", "replicas: 0");
    let range = "---\napiVersion: v1\nkind: LimitRange\nmetadata: {name: l}\nspec: {limits: [{type: Container, default: {cpu: 1}}]}\n";
    for text in [none, format!("{silent}{range}")] {
        assert_eq!(refused(&text, None), [""; 0], "{text}");
    }
    // Something may set the missing values.
    let scaler = "---\napiVersion: autoscaling.k8s.io/v1\nkind: VerticalPodAutoscaler\nmetadata: {name: v}\n";
    let scaled = refused(&format!("{silent}{scaler}"), None);
    assert!(
        scaled.len() == 1 && scaled[0].starts_with("admission-unknown"),
        "{scaled:?}"
    );
}

#[test]
fn what_a_container_does_not_say_may_come_with_a_chart_or_by_rancher() {
    let quota = "apiVersion: v1\nkind: ResourceQuota\nmetadata: {name: q, namespace: shop}\nspec: {hard: {requests.cpu: 4}}\n---\n";
    let range = "apiVersion: v1\nkind: LimitRange\nmetadata: {name: l, namespace: shop}\nspec: {limits: [{type: Pod, max: {cpu: 2}}]}\n---\n";
    let pod = "apiVersion: v1\nkind: Pod\nmetadata: {name: p, namespace: shop}\nspec: {containers: [{name: a, image: b, resources: {}}]}\n";
    let chart = "---\napiVersion: helm.cattle.io/v1\nkind: HelmChart\nmetadata: {name: c, namespace: kube-system}\nspec: {targetNamespace: shop}\n";
    let rancher = "---\napiVersion: v1\nkind: Namespace\nmetadata: {name: shop, annotations: {field.cattle.io/containerDefaultResourceLimit: '{\"limitsCpu\":\"500m\"}'}}\n";
    let code = |text: &str| {
        let found = refused(text, None);
        assert_eq!(found.len(), 1, "{found:?}");
        found[0].split(' ').next().unwrap().to_owned()
    };
    for bound in [quota, range] {
        let silent = format!("{bound}{pod}");
        assert_eq!(code(&silent), "admission-refuses");
        for more in [chart, rancher] {
            assert_eq!(code(&format!("{silent}{more}")), "admission-unknown");
            // Its own values are too large, independent of other objects.
            let much = silent.replace("resources: {}", "resources: {limits: {cpu: 5}}");
            assert_eq!(code(&format!("{much}{more}")), "admission-refuses");
        }
    }
}

#[test]
fn a_pod_that_ends_leaves_a_quota_to_the_next() {
    let quota = "apiVersion: v1\nkind: ResourceQuota\nmetadata: {name: q}\nspec: {hard: {requests.cpu: 1}}\n";
    let pod = |name: &str, policy: &str| {
        format!(
            "---\napiVersion: v1\nkind: Pod\nmetadata: {{name: {name}}}\nspec: {{restartPolicy: {policy}, containers: [{{name: a, image: b, \
             resources: {{limits: {{cpu: 1}}}}}}]}}\n"
        )
    };
    let of = |policies: [&str; 3]| {
        let pods = ["a", "b", "c"].into_iter().zip(policies);
        let pods: String = pods.map(|(name, policy)| pod(name, policy)).collect();
        let found = refused(&format!("{quota}{pods}"), None);
        found
            .iter()
            .map(|one| one.split(' ').next().unwrap().to_owned())
            .collect::<Vec<_>>()
    };
    assert_eq!(of(["Never", "OnFailure", "Never"]), ["admission-unknown"]);
    assert_eq!(of(["Always", "Never", "Never"]), ["admission-refuses"]);
    assert_eq!(
        of(["Never", "Always", "Always"]),
        ["admission-unknown", "admission-refuses"]
    );
    let counted = quota.replace("requests.cpu", "count/pods");
    let found = refused(
        &format!("{counted}{}{}", pod("a", "Never"), pod("b", "Never")),
        None,
    );
    assert!(found[0].starts_with("admission-refuses"), "{found:?}");
}

#[test]
fn a_limit_range_bounds_what_a_whole_pod_takes() {
    let range = "apiVersion: v1\nkind: LimitRange\nmetadata: {name: l}\nspec: {limits: [{type: Pod, max: {cpu: 2}}]}\n---\n";
    let pod = "apiVersion: v1\nkind: Pod\nmetadata: {name: p}\nspec: {containers: [{name: a, image: b, resources: {limits: {cpu: 1}}}, \
               {name: c, image: b, resources: {limits: {cpu: 900m}}}]}\n";
    hold(
        &format!("{range}{pod}"),
        &[
            (
                "900m",
                "1100m",
                "LimitRange l refuses Pod p: a pod has more than 2 cpu",
            ),
            (
                "max: {cpu: 2}",
                "max: {memory: 2Gi}",
                "a pod has no limit of memory",
            ),
            (
                "max: {cpu: 2}",
                "min: {memory: 2Gi}",
                "a pod has no request of memory",
            ),
        ],
    );
}

const POLICY: &str = "apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicy
metadata: {name: p}
spec:
  matchConstraints:
    resourceRules: [{apiGroups: [''], apiVersions: [v1], operations: [CREATE], resources: [services]}]
    namespaceSelector: {matchExpressions: [{key: kubernetes.io/metadata.name, operator: NotIn, values: [kube-system]}]}
  validations: [{expression: \"object.spec.type != 'NodePort'\", message: no NodePort}]
---
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicyBinding
metadata: {name: p}
spec: {policyName: p, validationActions: [Deny]}
---
apiVersion: v1
kind: Service
metadata: {name: a}
spec: {type: ClusterIP, ports: [{port: 80}]}
---
apiVersion: v1
kind: Service
metadata: {name: b, namespace: kube-system}
spec: {type: NodePort, ports: [{port: 80}]}
";

#[test]
fn what_a_policy_may_refuse_is_not_known() {
    hold(
        POLICY,
        &[
            (
                "ClusterIP",
                "NodePort",
                "admission-unknown 15,1: ValidatingAdmissionPolicy p may refuse Service a: its rule does not hold: no NodePort",
            ),
            (
                "object.spec.type != 'NodePort'",
                "variables.a",
                "its rule is not judged: no NodePort",
            ),
            (
                "values: [kube-system]",
                "values: [other]",
                "may refuse Service kube-system/b",
            ),
        ],
    );
    // No binding denies by it, or it applies to something else.
    for (right, other) in [
        ("[Deny]", "[Audit]"),
        ("policyName: p", "policyName: q"),
        ("resources: [services]", "resources: [pods]"),
    ] {
        let text = POLICY
            .replace(right, other)
            .replace("ClusterIP", "NodePort");
        assert_eq!(refused(&text, None), [""; 0], "{other}");
    }
    let pods = POLICY
        .replace("resources: [services]", "resources: [pods]")
        .replace(
            "object.spec.type != 'NodePort'",
            "object.spec.hostNetwork != true",
        );
    let deployment = "---\napiVersion: apps/v1\nkind: Deployment\nmetadata: {name: d}\nspec: {template: {spec: {hostNetwork: true}}}\n";
    let found = refused(&(pods + deployment), None);
    assert!(
        found.len() == 1 && found[0].contains("may refuse Deployment d"),
        "{found:?}"
    );
}

#[test]
fn an_object_without_a_name_is_made_again() {
    let text = "apiVersion: v1\nkind: ConfigMap\nmetadata: {generateName: load-}\n";
    let found = super::found(text, None);
    assert!(
        found.len() == 1 && found[0].contains("generateName"),
        "{found:?}"
    );
}
