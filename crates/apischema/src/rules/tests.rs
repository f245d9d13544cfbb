//! Tests valid objects, and each of them with one error.

mod single;

use windrow_model::manifest::{self, FileContent, ReadLimits};
use windrow_plan::kubernetes::Minors;

/// The messages about a text: line, field and message.
fn said(text: &str) -> Vec<String> {
    let content = FileContent::Bytes(text.as_bytes().to_vec());
    let file = manifest::read("a.yaml", &content, &ReadLimits::default());
    assert_eq!(file.problems, [], "{text}");
    let problems = file
        .objects()
        .flat_map(|object| crate::check(object, Minors::ALL));
    problems
        .map(|problem| format!("{}: {}: {}", problem.line, problem.field, problem.message))
        .collect()
}

/// Checks each error: the replaced text, its replacement, and the message.
fn hold(whole: &str, mistakes: &[(&str, &str, &str)]) {
    assert_eq!(said(whole), [""; 0]);
    for (right, wrong, words) in mistakes {
        assert_eq!(whole.matches(right).count(), 1, "{right}");
        let said = said(&whole.replace(right, wrong));
        assert!(
            said.len() == 1 && said[0].contains(words),
            "{wrong}: {said:?}"
        );
    }
}

#[test]
fn pods_are_held_to_rules_over_several_fields() {
    let pod = "apiVersion: v1
kind: Pod
metadata: {name: a}
spec:
  hostNetwork: true
  dnsPolicy: None
  dnsConfig: {nameservers: [10.0.0.1]}
  tolerations: [{key: a, operator: Equal, value: b, effect: NoExecute, tolerationSeconds: 5}]
  affinity: {nodeAffinity: {requiredDuringSchedulingIgnoredDuringExecution: {nodeSelectorTerms: [{matchExpressions: [{key: k, operator: In, values: [v]}]}]}}}
  initContainers: [{name: init, image: a}]
  containers:
  - name: a
    image: b
    ports: [{containerPort: 80, hostPort: 80}]
    resources: {limits: {cpu: 1, memory: 1Gi}, requests: {cpu: 500m, memory: 512Mi}}
    livenessProbe: {httpGet: {port: 80}, successThreshold: 1}
    securityContext: {privileged: true, allowPrivilegeEscalation: true}
    envFrom: [{configMapRef: {name: a}}]
  volumes:
  - {name: v, emptyDir: {}}
  - {name: s, secret: {secretName: a}}
  - {name: e, ephemeral: {volumeClaimTemplate: {spec: {accessModes: [ReadWriteOnce], resources: {requests: {storage: 1Gi}}}}}}
";
    hold(
        pod,
        &[
            (
                "cpu: 500m",
                "cpu: 2",
                "15: spec.containers[0].resources.requests: is not valid: must be less than or equal to cpu limit",
            ),
            (
                "memory: 512Mi",
                "memory: 1100M",
                "less than or equal to memory limit",
            ),
            (
                "httpGet: {port: 80}, ",
                "",
                "livenessProbe: is missing: must specify one of: exec",
            ),
            (
                "{httpGet: {port: 80}, ",
                "{httpGet: {port: 80}, tcpSocket: {port: 80}, ",
                "is not allowed there: may not specify more than 1 of",
            ),
            ("successThreshold: 1", "successThreshold: 2", "must be 1"),
            (
                "{name: v, emptyDir: {}}",
                "{name: v, emptyDir: {}, hostPath: {path: /a}}",
                "may not specify more than 1 volume type",
            ),
            (
                "hostPort: 80}",
                "hostPort: 81}",
                "must match `hostPort` when `hostNetwork` is true",
            ),
            (
                "{name: init, image: a}",
                "{name: init, image: a, readinessProbe: {exec: {command: [a]}}}",
                "may not be set for init containers",
            ),
            (
                "dnsConfig: {nameservers: [10.0.0.1]}",
                "dnsConfig: {}",
                "must provide at least one DNS nameserver",
            ),
            (
                "[10.0.0.1]",
                "[dns.example.com]",
                "must be a valid IP address",
            ),
            (
                "operator: Equal, value: b",
                "operator: Exists, value: b",
                "value must be empty when `operator` is 'Exists'",
            ),
            (
                "key: a, operator: Equal, value: b",
                "value: b",
                "operator must be Exists when `key` is empty",
            ),
            (
                "effect: NoExecute",
                "effect: NoSchedule",
                "effect must be 'NoExecute'",
            ),
            (
                "operator: In, values: [v]",
                "operator: In",
                "must be specified when `operator` is 'In' or 'NotIn'",
            ),
            (
                "operator: In, values",
                "operator: Exists, values",
                "may not be specified when `operator` is 'Exists'",
            ),
            (
                "allowPrivilegeEscalation: true",
                "allowPrivilegeEscalation: false",
                "cannot set `allowPrivilegeEscalation` to false",
            ),
            (
                "{configMapRef: {name: a}}",
                "{prefix: A}",
                "must specify one of: configMapRef, secretRef",
            ),
            (
                "{configMapRef: {name: a}}",
                "{configMapRef: {}}",
                "configMapRef.name: is missing",
            ),
            ("{secretName: a}", "{}", "secret.secretName: is missing"),
            (
                "{name: s, secret",
                "{name: v, secret",
                "spec.volumes[1].name: has a value that appears twice",
            ),
            ("storage: 1Gi", "storage: 0", "must be greater than zero"),
            (
                "storage: 1Gi",
                "storage: null",
                "resources[storage]: is missing",
            ),
            (
                "accessModes: [ReadWriteOnce], ",
                "",
                "volumeClaimTemplate.spec.accessModes: is missing",
            ),
        ],
    );
}

#[test]
fn services_and_ingresses_are_held_to_rules_over_several_fields() {
    hold(
        "apiVersion: v1
kind: Service
metadata: {name: a}
spec: {type: LoadBalancer, externalTrafficPolicy: Local, ports: [{port: 80, nodePort: 30080}], loadBalancerSourceRanges: [10.0.0.0/8]}
",
        &[
            ("[10.0.0.0/8]", "[10.0.0.0]", "must be a valid CIDR value"),
            ("type: LoadBalancer", "type: NodePort", "loadBalancerSourceRanges: is not allowed there: may only be used when `type` is 'LoadBalancer'"),
        ],
    );
    let plain = "apiVersion: v1
kind: Service
metadata: {name: a}
spec: {type: ClusterIP, clusterIP: 10.43.0.9, ports: [{port: 80}]}
";
    hold(
        plain,
        &[
            (
                "{port: 80}",
                "{port: 80, nodePort: 30080}",
                "4: spec.ports[0].nodePort: is not allowed there: may not be used when `type` is 'ClusterIP'",
            ),
            ("10.43.0.9", "dns.example.com", "must be a valid IP address"),
            (
                "ports: ",
                "externalTrafficPolicy: Local, ports: ",
                "may only be set for externally-accessible services",
            ),
        ],
    );
    hold(
        "apiVersion: v1
kind: Service
metadata: {name: a}
spec: {ports: [{name: http, port: 80}, {name: https, port: 443}]}
",
        &[
            (
                "name: https",
                "name: http",
                "spec.ports[1].name: has a value that appears twice",
            ),
            (
                "port: 443",
                "port: 80",
                "spec.ports[1]: has a value that appears twice",
            ),
            ("name: https", "name: Https", "lowercase RFC 1123 label"),
        ],
    );
    hold(
        "apiVersion: v1
kind: Service
metadata: {name: a}
spec: {type: ExternalName, externalName: db.example.com.}
",
        &[
            ("db.example.com.", "DB_1", "lowercase RFC 1123 subdomain"),
            (
                ", externalName: db.example.com.",
                "",
                "spec.externalName: is missing",
            ),
        ],
    );
    hold(
        "apiVersion: networking.k8s.io/v1
kind: Ingress
metadata: {name: a}
spec:
  tls: [{hosts: [a.example.com], secretName: t}]
  rules: [{host: '*.example.com', http: {paths: [{path: /a, pathType: Prefix, backend: {service: {name: s, port: {number: 80}}}}]}}]
",
        &[
            ("'*.example.com'", "10.0.0.1", "must be a DNS name in lower case"),
            ("'*.example.com'", "a.example.com:8443", "must be a DNS name in lower case"),
            ("[a.example.com]", "[A.example.com]", "spec.tls[0].hosts"),
            ("path: /a", "path: a", "must be an absolute path"),
            ("path: /a", "path: /a//b", "must not contain '//'"),
            ("path: /a", "path: /a/..", "cannot end with '/..'"),
            ("backend: {service: {name: s, port: {number: 80}}}", "backend: {}", "must specify one of: resource, service"),
        ],
    );
    hold(
        "apiVersion: networking.k8s.io/v1
kind: NetworkPolicy
metadata: {name: a}
spec: {podSelector: {}, ingress: [{from: [{ipBlock: {cidr: 10.0.0.0/8, except: [10.1.0.0/16]}}], ports: [{port: 80, endPort: 90}]}]}
",
        &[
            ("{ipBlock: {cidr: 10.0.0.0/8, except: [10.1.0.0/16]}}", "{}", "must specify a peer"),
            ("except: [10.1.0.0/16]}}", "except: []}, podSelector: {}}", "may not specify both"),
            ("10.1.0.0/16", "11.1.0.0/16", "must be a strict subset of `cidr`"),
            ("10.1.0.0/16", "10.0.0.0/8", "spec.ingress[0].from[0].ipBlock.except[0]"),
            ("endPort: 90", "endPort: 70", "must be greater than or equal to `port`"),
            ("port: 80, ", "", "may not be specified when `port` is not specified"),
            ("cidr: 10.0.0.0/8", "cidr: 10.0.0.0/64", "must be a valid CIDR value"),
        ],
    );
}

#[test]
fn workloads_claims_and_namespaces_are_held_to_rules_over_several_fields() {
    hold(
        "apiVersion: apps/v1
kind: Deployment
metadata: {name: a}
spec:
  minReadySeconds: 10
  strategy: {type: RollingUpdate, rollingUpdate: {maxSurge: 25%, maxUnavailable: 1}}
  selector: {matchLabels: {a: b}}
  template: {metadata: {labels: {a: b}}, spec: {containers: [{name: a, image: b}]}}
",
        &[
            (
                "type: RollingUpdate",
                "type: Recreate",
                "may not be specified when strategy `type` is 'Recreate'",
            ),
            (
                "maxSurge: 25%, maxUnavailable: 1",
                "maxSurge: 0, maxUnavailable: 0%",
                "may not be 0 when `maxSurge` is 0",
            ),
            (
                "maxSurge: 25%",
                "maxSurge: quarter",
                "must be a numeric string followed by an ending '%'",
            ),
            (
                "minReadySeconds: 10",
                "minReadySeconds: 600",
                "must be greater than minReadySeconds",
            ),
        ],
    );
    hold(
        "apiVersion: batch/v1
kind: Job
metadata: {name: a}
spec: {template: {spec: {restartPolicy: Never, containers: [{name: a, image: b}]}}}
",
        &[(
            "spec: {template",
            "spec: {selector: {matchLabels: {a: b}}, template",
            "`selector` not auto-generated",
        )],
    );
    hold(
        "apiVersion: v1
kind: PersistentVolume
metadata: {name: a}
spec: {capacity: {storage: 1Gi}, accessModes: [ReadWriteOnce], local: {path: /a}, nodeAffinity: {required: {nodeSelectorTerms: [{matchExpressions: [{key: k, operator: Exists}]}]}}}
",
        &[
            ("local: {path: /a}, ", "", "must specify a volume type"),
            ("local: {path: /a}", "local: {path: /a}, hostPath: {path: /a}", "more than 1 volume type"),
            (", nodeAffinity: {required: {nodeSelectorTerms: [{matchExpressions: [{key: k, operator: Exists}]}]}}", "", "Local volume requires node affinity"),
        ],
    );
    hold(
        "apiVersion: v1\nkind: Namespace\nmetadata: {name: a, labels: {pod-security.kubernetes.io/enforce: baseline}}\n",
        &[(
            "baseline",
            "base",
            "must be one of privileged, baseline, restricted",
        )],
    );
    hold(
        "apiVersion: autoscaling/v2
kind: HorizontalPodAutoscaler
metadata: {name: a}
spec: {scaleTargetRef: {apiVersion: apps/v1, kind: Deployment, name: a}, minReplicas: 1, maxReplicas: 3, metrics: [{type: Resource, resource: {name: cpu, target: {type: Utilization, averageUtilization: 80}}}]}
",
        &[
            ("minReplicas: 1", "minReplicas: 0", "must be greater than 0"),
            ("maxReplicas: 3", "maxReplicas: 0", "must be greater than 0"),
            (
                "minReplicas: 1",
                "minReplicas: 4",
                "must be greater than or equal to `minReplicas`",
            ),
            ("type: Resource, ", "type: Resources, ", "supported values"),
            (", averageUtilization: 80", "", "must set either a target raw value or a target utilization"),
        ],
    );
    hold(
        "apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingWebhookConfiguration
metadata: {name: a}
webhooks:
- name: a.example.com
  sideEffects: None
  admissionReviewVersions: [v1]
  timeoutSeconds: 5
  clientConfig: {service: {name: a, namespace: b, path: /a}}
  rules: [{operations: [CREATE], apiGroups: [''], apiVersions: [v1], resources: [pods]}]
",
        &[
            ("a.example.com", "example.com", "at least three segments"),
            (
                "clientConfig: {service: {name: a, namespace: b, path: /a}}",
                "clientConfig: {}",
                "exactly one of url or service",
            ),
            ("path: /a", "path: a", "must start with a '/'"),
            (
                "timeoutSeconds: 5",
                "timeoutSeconds: 60",
                "between 1 and 30 seconds",
            ),
            (", resources: [pods]", "", "rules[0].resources: is missing"),
        ],
    );
}

#[test]
fn a_binding_names_a_role_that_there_can_be() {
    hold(
        "apiVersion: rbac.authorization.k8s.io/v1
kind: RoleBinding
metadata: {name: a}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: Role, name: r}
subjects: [{kind: ServiceAccount, name: s, namespace: d}]
",
        &[
            (
                "apiGroup: rbac.authorization.k8s.io",
                "apiGroup: apps",
                "supported values: \"rbac.authorization.k8s.io\"",
            ),
            (
                "kind: Role,",
                "kind: Pod,",
                "supported values: \"Role\", \"ClusterRole\"",
            ),
        ],
    );
}

#[test]
fn a_config_map_holds_a_mebibyte() {
    let with = |bytes: usize| {
        let text = "x".repeat(bytes);
        said(&format!(
            "apiVersion: v1\nkind: ConfigMap\nmetadata: {{name: a}}\ndata: {{a: {text}}}\n"
        ))
    };
    assert_eq!(with(1 << 20), [""; 0]);
    let more = with((1 << 20) + 1);
    assert!(
        more.len() == 1 && more[0].contains("may not be more than 1048576 bytes"),
        "{more:?}"
    );
}

#[test]
fn what_a_controller_alone_makes_objects_from_is_not_validated() {
    for text in [
        "apiVersion: apps/v1
kind: StatefulSet
metadata: {name: a}
spec:
  serviceName: a
  selector: {matchLabels: {a: b}}
  template: {metadata: {labels: {a: b}}, spec: {containers: [{name: A_, image: b}]}}
  volumeClaimTemplates: [{metadata: {name: v}, spec: {accessModes: [], resources: {requests: {storage: 0}}}}]
",
        "apiVersion: batch/v1
kind: CronJob
metadata: {name: a}
spec:
  schedule: '0 3 * * *'
  jobTemplate: {metadata: {labels: {a: hello world}}, spec: {template: {spec: {restartPolicy: Never, containers: [{name: a, image: b}]}}}}
",
    ] {
        assert_eq!(said(text), [""; 0], "{text}");
    }
}

const DEFINITION: &str = "apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: widgets.example.com}
spec:
  group: example.com
  scope: Namespaced
  names: {kind: Widget, plural: widgets, shortNames: [wd]}
  conversion: {strategy: Webhook, webhook: {clientConfig: {service: {name: a, namespace: b}}, conversionReviewVersions: [v1]}}
  versions:
  - name: v1
    served: true
    storage: true
    subresources: {status: {}}
    additionalPrinterColumns: [{name: A, type: string, jsonPath: .spec.a}]
    schema:
      openAPIV3Schema:
        type: object
        properties:
          metadata: {type: object}
          spec:
            type: object
            x-kubernetes-validations: [{rule: has(self.a)}]
            oneOf: [{required: [a]}, {required: [list]}]
            properties:
              a: {type: string, default: large, enum: [large, small]}
              list: {type: array, x-kubernetes-list-type: map, x-kubernetes-list-map-keys: [k], items: {type: object, required: [k], properties: {k: {type: string}}}}
              set: {type: array, x-kubernetes-list-type: set, items: {type: string}}
              port: {x-kubernetes-int-or-string: true, anyOf: [{type: integer}, {type: string}]}
              free: {type: object, x-kubernetes-preserve-unknown-fields: true}
              map: {type: object, additionalProperties: {type: string}}
  - {name: v1beta1, served: false, storage: false, schema: {openAPIV3Schema: {type: object}}}
";

#[test]
fn a_definition_is_held_to_the_rules_of_definitions() {
    hold(
        DEFINITION,
        &[
            (
                "name: widgets.example.com",
                "name: widget.example.com",
                "3: metadata.name: is not valid: must be spec.names.plural",
            ),
            ("scope: Namespaced", "scope: Namespace", "spec.scope"),
            ("shortNames: [wd]", "shortNames: [W_D]", "DNS-1035 label"),
            (
                "shortNames: [wd]",
                "listKind: Widget",
                "kind and listKind may not be the same",
            ),
            (
                "  scope:",
                "  preserveUnknownFields: true\n  scope:",
                "set x-kubernetes-preserve-unknown-fields to true",
            ),
            (
                "storage: false",
                "storage: true",
                "must have exactly one version marked as storage version",
            ),
            (
                "storage: true",
                "storage: false",
                "must have exactly one version marked as storage version",
            ),
            (
                "clientConfig: {service: {name: a, namespace: b}}, ",
                "",
                "required when strategy is set to Webhook",
            ),
            (
                ", conversionReviewVersions: [v1]",
                "",
                "conversionReviewVersions: is missing",
            ),
            (
                "strategy: Webhook",
                "strategy: None",
                "should not be set when strategy is not set to Webhook",
            ),
            ("name: v1beta1", "name: 1v", "DNS-1035 label"),
            ("{type: object}}}", "{}}}", "must not be empty at the root"),
            (
                "schema: {openAPIV3Schema: {type: object}}",
                "schema: {}",
                "openAPIV3Schema: is missing",
            ),
            (
                "type: string, jsonPath",
                "type: text, jsonPath",
                "must be one of integer",
            ),
            (
                "jsonPath: .spec.a",
                "jsonPath: spec.a",
                "must be a simple json path starting with .",
            ),
        ],
    );
    let approved = DEFINITION.replace("example.com", "example.k8s.io");
    assert!(said(&approved)[0].contains("protected groups must have approval annotation"));
}

#[test]
fn a_schema_of_a_definition_has_to_be_structural() {
    hold(
        DEFINITION,
        &[
            (
                "map: {type: object, additionalProperties: {type: string}}",
                "map: {additionalProperties: {type: string}}",
                "must not be empty for specified object fields",
            ),
            (
                "additionalProperties: {type: string}",
                "additionalProperties: {}",
                "must not be empty for specified object fields",
            ),
            (
                "set: {type: array, x-kubernetes-list-type: set, items: {type: string}}",
                "set: {type: array}",
                "items: is missing: must be specified",
            ),
            ("set: {type: array", "set: {type: list", "supported values"),
            (
                "required: [k], ",
                "",
                "it must have a default or be a required property",
            ),
            (
                "x-kubernetes-list-map-keys: [k]",
                "x-kubernetes-list-map-keys: [q]",
                "entries must all be names of item properties",
            ),
            ("default: large", "default: larg", "did you mean"),
            (
                "default: large, enum: [large, small]",
                "default: 5",
                "must be of type string",
            ),
            (
                "{required: [a]}",
                "{required: [a], type: object}",
                "must be empty to be structural",
            ),
            (
                "{required: [a]}",
                "{required: [a], description: text}",
                "must not be set here to be structural",
            ),
            (
                "metadata: {type: object}",
                "metadata: {type: object, properties: {labels: {type: object}}}",
                "must not specify anything other than name and generateName",
            ),
            (
                "free: {type: object",
                "free: {type: object, additionalProperties: false, properties: {a: {type: string}}",
                "mutual exclusive",
            ),
            (
                "x-kubernetes-preserve-unknown-fields: true",
                "x-kubernetes-preserve-unknown-fields: false",
                "must be true or undefined",
            ),
            (
                ", default: large, enum: [large, small]",
                ", pattern: '^(?!a)'",
                "must be a valid regular expression",
            ),
            (
                "{rule: has(self.a)}",
                "{rule: ' '}",
                "rule is not specified",
            ),
            (
                "        type: object\n        properties:",
                "        type: object\n        anyOf: [{required: [spec]}]\n        properties:",
                "not allowed at the root of the schema if the status subresource is enabled",
            ),
            (
                "metadata: {type: object}",
                "metadata: {type: object}\n          kind: {type: integer}",
                "properties[kind].type: is not valid: must be string",
            ),
            (
                "enum: [large, small]",
                "uniqueItems: true",
                "uniqueItems cannot be set to true",
            ),
            (
                "enum: [large, small]",
                "$ref: '#/definitions/a'",
                "$ref is not supported",
            ),
        ],
    );
}

#[test]
fn an_empty_list_at_the_root_of_a_schema_is_none() {
    let root = DEFINITION.replace(
        "        type: object\n        properties:",
        "        type: object\n        anyOf: []\n        properties:",
    );
    assert_eq!(said(&root), [""; 0]);
}

#[test]
fn what_alternatives_of_a_schema_say_of_fields_has_to_be_defined_at_its_root() {
    let part = "anyOf: [{properties: {other: {maxLength: 5}}}]";
    let plain = DEFINITION.replace("    subresources: {status: {}}\n", "");
    let root = plain.replace(
        "        type: object\n        properties:",
        &format!("        type: object\n        {part}\n        properties:"),
    );
    let said = said(&root);
    assert!(
        said.len() == 1 && said[0].contains("it has to be defined outside of `allOf`"),
        "{said:?}"
    );
    // kube-apiserver looks for it only there.
    let below = plain.replace("{required: [a]}", "{properties: {other: {maxLength: 5}}}");
    assert_eq!(super::tests::said(&below), [""; 0]);
}

/// The description of the field forbids it, but kube-apiserver 1.31 and 1.36 accept it, and Windows drivers are published with
/// it.
#[test]
fn a_mount_path_may_hold_a_colon() {
    let pod = "apiVersion: v1\nkind: Pod\nmetadata: {name: p}\nspec:\n  containers:\n  - {name: c, image: i, volumeMounts: [{name: v, mountPath: 'C:\\csi'}]}\n  volumes: [{name: v, emptyDir: {}}]\n";
    assert_eq!(said(pod), [""; 0]);
}

#[test]
fn an_object_as_the_cluster_prints_it_cannot_be_created() {
    let with = |version: &str| {
        format!(
            "apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: a\n  creationTimestamp: null\n  generation: 3\n  resourceVersion: '{version}'\n"
        )
    };
    let found = said(&with("4711"));
    assert!(
        found.len() == 1 && found[0].starts_with("7: metadata.resourceVersion: "),
        "{found:?}"
    );
    for taken in ["", "0"] {
        assert_eq!(said(&with(taken)), [""; 0], "{taken}");
    }
}
