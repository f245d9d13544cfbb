mod charts;
mod claims;
mod harvester;
mod nodes;
mod refusals;

use windrow_model::manifest::{self, FileContent, ReadLimits};

use super::*;

fn found(text: &str, platform: Option<Platform>) -> Vec<String> {
    let content = FileContent::Bytes(text.as_bytes().to_vec());
    let file = manifest::read("a.yaml", &content, &ReadLimits::default());
    assert_eq!(file.problems, []);
    let mut check = CrossCheck::default();
    for object in file.objects() {
        check.add(object, &SourceMap::itself("a.yaml"));
    }
    let refusals = check.refusals(&ServiceRanges::default(), &|_: &_| true);
    let of_pods = refusals.findings;
    let findings = of_pods.into_iter().chain(check.finish(platform).0);
    findings
        .map(|one| {
            let unknown = if one.severity == Severity::Notice {
                "unknown: "
            } else {
                ""
            };
            format!("{unknown}{}: {}", one.at[0], one.message)
        })
        .collect()
}

const CHART: &str = "---\napiVersion: helm.cattle.io/v1\nkind: HelmChart\nmetadata: {name: a}\nspec: {chart: a, repo: 'https://charts.example.org'}\n";

fn bound(role: &str) -> String {
    format!(
        "apiVersion: rbac.authorization.k8s.io/v1\nkind: ClusterRoleBinding\nmetadata: {{name: b}}\n\
         roleRef: {{apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: {role}}}\nsubjects:\n\
         - {{kind: ServiceAccount, name: server, namespace: argocd}}\n"
    )
}

#[test]
fn a_role_that_nothing_brings_is_missed() {
    let missing = found(&bound("no-such-role"), None);
    assert!(
        missing.len() == 1 && missing[0].starts_with("a.yaml:4: "),
        "{missing:?}"
    );
    for role in ["view", "cluster-admin", "system:node-proxier", "rke2-canal"] {
        assert_eq!(found(&bound(role), None), [""; 0], "{role}");
    }
    let with_chart = bound("no-such-role") + CHART;
    assert_eq!(
        found(&with_chart, None),
        [
            "unknown: a.yaml:4: ClusterRoleBinding b: nothing here creates ClusterRole no-such-role; a.yaml may"
        ]
    );
    let own = "---\napiVersion: rbac.authorization.k8s.io/v1\nkind: ClusterRole\nmetadata: {name: no-such-role}\n";
    assert_eq!(found(&(bound("no-such-role") + own), None), [""; 0]);
    assert_eq!(
        found(&bound("no-such-role"), Some(Platform::Harvester)),
        [""; 0]
    );
}

#[test]
fn a_namespace_that_a_published_manifest_left_to_kubectl_is_missed() {
    let account = |namespace: &str| {
        format!(
            "---\napiVersion: v1\nkind: ServiceAccount\nmetadata: {{name: server{namespace}}}\n"
        )
    };
    let forgotten = found(&(bound("view") + &account("")), None);
    assert!(
        forgotten.len() == 1 && forgotten[0].starts_with("a.yaml:6: "),
        "{forgotten:?}"
    );
    assert_eq!(
        found(&(bound("view") + &account(", namespace: argocd")), None),
        [""; 0]
    );
    assert_eq!(found(&bound("view"), None), [""; 0]);
}

#[test]
fn a_chart_s_configuration_that_is_misspelt_is_named() {
    let config = |name: &str| {
        format!(
            "apiVersion: helm.cattle.io/v1\nkind: HelmChartConfig\nmetadata: {{name: {name}, namespace: kube-system}}\n"
        )
    };
    let wrong = found(&config("rke2-ingres-nginx"), None);
    assert!(
        wrong.len() == 1 && wrong[0].contains("rke2-ingress-nginx"),
        "{wrong:?}"
    );
    for name in ["rke2-canal", "longhorn"] {
        assert_eq!(found(&config(name), None), [""; 0], "{name}");
    }
}

/// A namespace with a Deployment, a ConfigMap, a Service and the objects that refer to it.
fn shop() -> String {
    "apiVersion: apps/v1
kind: Deployment
metadata: {name: web, namespace: shop}
spec:
  selector: {matchLabels: {app: web}}
  template:
    metadata: {labels: {app: web, tier: front}}
    spec:
      serviceAccountName: web
      imagePullSecrets: [{name: registry}]
      priorityClassName: high
      initContainers: [{name: init, image: a, env: [{name: A, valueFrom: {secretKeyRef: {name: keys, key: a}}}]}]
      containers:
      - name: web
        image: a
        ports: [{name: http, containerPort: 80}]
        readinessProbe: {httpGet: {path: /, port: http}}
        livenessProbe: {tcpSocket: {port: \"80\"}}
        env: [{name: A, valueFrom: {configMapKeyRef: {name: settings, key: a}}}]
        envFrom: [{configMapRef: {name: settings}}, {secretRef: {name: maybe, optional: true}}]
      volumes:
      - {name: c, configMap: {name: settings, items: [{key: b, path: b}]}}
      - {name: s, secret: {secretName: keys, items: [{key: a, path: a}]}}
      - {name: p, projected: {sources: [{configMap: {name: kube-root-ca.crt}}, {secret: {name: keys}}]}}
      - {name: d, persistentVolumeClaim: {claimName: data}}
---
apiVersion: v1
kind: ConfigMap
metadata: {name: settings, namespace: shop}
data: {a: x, b: y}
---
apiVersion: v1
kind: Secret
metadata: {name: keys, namespace: shop}
stringData: {a: x}
---
apiVersion: v1
kind: Secret
metadata: {name: registry, namespace: shop}
---
apiVersion: v1
kind: ServiceAccount
metadata: {name: web, namespace: shop}
---
apiVersion: v1
kind: PersistentVolumeClaim
metadata: {name: data, namespace: shop}
spec: {storageClassName: \"\"}
---
apiVersion: scheduling.k8s.io/v1
kind: PriorityClass
metadata: {name: high}
value: 5
---
apiVersion: v1
kind: Service
metadata: {name: web, namespace: shop}
spec: {selector: {app: web}, ports: [{name: www, port: 80, targetPort: http}]}
---
apiVersion: networking.k8s.io/v1
kind: Ingress
metadata: {name: web, namespace: shop}
spec:
  defaultBackend: {service: {name: web, port: {name: www}}}
  rules: [{http: {paths: [{path: /, pathType: Prefix, backend: {service: {name: web, port: {number: 80}}}}]}}]
---
apiVersion: autoscaling/v2
kind: HorizontalPodAutoscaler
metadata: {name: web, namespace: shop}
spec: {scaleTargetRef: {apiVersion: apps/v1, kind: Deployment, name: web}, maxReplicas: 3}
---
apiVersion: policy/v1
kind: PodDisruptionBudget
metadata: {name: web, namespace: shop}
spec: {minAvailable: 1, selector: {matchLabels: {app: web}}}
"
    .to_owned()
}

/// Each mistake: the replaced text, its replacement, and the message.
const MISTAKES: [(&str, &str, &str); 17] = [
    (
        "serviceAccountName: web",
        "serviceAccountName: wob",
        "a.yaml:9: Deployment shop/web names ServiceAccount shop/wob, which",
    ),
    (
        "imagePullSecrets: [{name: registry}]",
        "imagePullSecrets: [{name: regstry}]",
        "a.yaml:10: Deployment shop/web names Secret shop/regstry",
    ),
    (
        "priorityClassName: high",
        "priorityClassName: higher",
        "names PriorityClass higher",
    ),
    (
        "configMapRef: {name: settings}",
        "configMapRef: {name: setting}",
        "names ConfigMap shop/setting,",
    ),
    (
        "secret: {name: keys}",
        "secret: {name: kees}",
        "names Secret shop/kees",
    ),
    (
        "claimName: data",
        "claimName: date",
        "names PersistentVolumeClaim shop/date",
    ),
    (
        "key: a}}}]\n        envFrom",
        "key: c}}}]\n        envFrom",
        "a.yaml:19: Deployment shop/web reads the key c of ConfigMap shop/settings",
    ),
    (
        "items: [{key: b, path: b}]",
        "items: [{key: d, path: b}]",
        "reads the key d of ConfigMap",
    ),
    (
        "items: [{key: a, path: a}]",
        "items: [{key: z, path: a}]",
        "reads the key z of Secret shop/keys",
    ),
    (
        "selector: {app: web}, ports",
        "selector: {app: webb}, ports",
        "Service shop/web selects app=webb",
    ),
    (
        "{path: /, port: http}",
        "{path: /, port: https}",
        "a.yaml:17: Deployment shop/web refers to the port https of the container",
    ),
    (
        "tcpSocket: {port: \"80\"}",
        "tcpSocket: {port: web}",
        "refers to the port web of the container",
    ),
    (
        "targetPort: http}",
        "targetPort: htpp}",
        "Service shop/web refers to the port htpp",
    ),
    (
        "port: {number: 80}",
        "port: {number: 8080}",
        "Ingress shop/web refers to the port 8080 of Service shop/web",
    ),
    (
        "service: {name: web, port: {name: www}}",
        "service: {name: wep, port: {name: www}}",
        "Ingress shop/web names Service shop/wep",
    ),
    (
        "kind: Deployment, name: web",
        "kind: Deployment, name: wep",
        "HorizontalPodAutoscaler shop/web names Deployment shop/wep",
    ),
    (
        "selector: {matchLabels: {app: web}}}",
        "selector: {matchLabels: {app: wep}}}",
        "PodDisruptionBudget shop/web selects app=wep",
    ),
];

#[test]
fn what_a_workload_names_is_looked_for_in_all_files() {
    assert_eq!(found(&shop(), None), [""; 0]);
    for (right, wrong, words) in MISTAKES {
        assert_eq!(shop().matches(right).count(), 1, "{right}");
        let said = found(&shop().replace(right, wrong), None);
        assert!(
            said.len() == 1 && said[0].contains(words),
            "{wrong}: {said:?}"
        );
    }
}

#[test]
fn what_something_else_may_bring_is_not_missed() {
    let custom = "---\napiVersion: example.com/v1\nkind: Widget\nmetadata: {name: a}\n";
    for (right, wrong, words) in MISTAKES {
        // A reference to an absent key or port is an error, independent of other objects.
        let stays = words.contains("ConfigMap shop/settings")
            || words.contains("of ConfigMap")
            || words.contains("refers to");
        for other in [CHART, custom] {
            let said = found(&(shop().replace(right, wrong) + other), None);
            assert_eq!(said.len(), usize::from(stays), "{wrong} {other}: {said:?}");
        }
        // This creates nothing.
        let other = "---\napiVersion: helm.cattle.io/v1\nkind: HelmChartConfig\n\
                     metadata: {name: rke2-canal, namespace: kube-system}\n";
        let said = found(&(shop().replace(right, wrong) + other), None);
        assert_eq!(said.len(), 1, "{wrong}: {said:?}");
    }
    for (right, other) in [
        ("serviceAccountName: web", "serviceAccountName: default"),
        (
            "priorityClassName: high",
            "priorityClassName: system-node-critical",
        ),
        // Pods get labels while they run, and a container's port needs no name.
        (
            "selector: {app: web}, ports",
            "selector: {app: web, leader: \"true\"}, ports",
        ),
        ("targetPort: http}", "targetPort: 9999}"),
    ] {
        assert_eq!(
            found(&shop().replace(right, other), None),
            [""; 0],
            "{other}"
        );
    }
}

#[test]
fn a_volume_that_a_stateful_set_claims_itself_is_not_missed() {
    let set = |template: &str| {
        format!(
            "apiVersion: apps/v1\nkind: StatefulSet\nmetadata: {{name: a, namespace: shop}}\nspec:\n  \
             template: {{spec: {{volumes: [{{name: d, persistentVolumeClaim: {{claimName: d}}}}]}}}}\n  \
             volumeClaimTemplates: [{{metadata: {{name: {template}}}}}]\n"
        )
    };
    assert_eq!(found(&set("d"), None), [""; 0]);
    assert_eq!(found(&set("other"), None).len(), 1);
}

#[test]
fn pods_that_their_namespace_refuses_are_found_with_the_label_and_only_where_nothing_changes_them()
{
    let with = |level: &str, object: &str| {
        format!(
            "apiVersion: v1\nkind: Namespace\nmetadata:\n  name: web\n  labels:\n    pod-security.kubernetes.io/enforce: {level}\n---\n{object}"
        )
    };
    let pod = "apiVersion: v1\nkind: Pod\nmetadata: {name: p, namespace: web}\nspec: {hostNetwork: true, containers: [{name: a}]}\n";
    let job = "apiVersion: batch/v1\nkind: CronJob\nmetadata: {name: c, namespace: web}\n\
        spec: {jobTemplate: {spec: {template: {spec: {containers: [{name: a}]}}}}}\n";
    let refused = "a.yaml:11: pod security refuses Pod web/p: hostNetwork is true; its namespace enforces baseline";
    assert_eq!(found(&with("baseline", pod), None), [refused]);
    assert_eq!(found(&with("privileged", pod), None), [""; 0]);
    assert_eq!(found(&with("baseline", job), None), [""; 0]);
    let of_job = found(&with("restricted", job), None);
    let starts = "a.yaml:11: pod security refuses CronJob web/c: ";
    assert!(
        of_job.len() == 1 && of_job[0].starts_with(starts),
        "{of_job:?}"
    );
    let suspended = job.replace("spec: {jobTemplate", "spec: {suspend: true, jobTemplate");
    assert_eq!(found(&with("restricted", &suspended), None), [""; 0]);
    let elsewhere = pod.replace("namespace: web", "namespace: shop");
    assert_eq!(found(&with("baseline", &elsewhere), None), [""; 0]);
    let policy = "---\napiVersion: kyverno.io/v1\nkind: ClusterPolicy\nmetadata: {name: a}\n";
    let changed = with("baseline", pod) + policy;
    assert_eq!(found(&changed, None), [format!("unknown: {refused}")]);
    // Two manifests of the namespace that disagree.
    let twice =
        with("baseline", pod) + "---\napiVersion: v1\nkind: Namespace\nmetadata: {name: web}\n";
    assert_eq!(found(&twice, None), [""; 0]);
}

#[test]
fn values_that_helm_cannot_read_and_keys_that_no_chart_reads_are_named() {
    let chart = |kind: &str, values: &str| {
        let values = values.replace('\n', "\n    ");
        format!(
            "apiVersion: helm.cattle.io/v1\nkind: {kind}\nmetadata: {{name: rke2-ingress-nginx, namespace: kube-system}}\n\
             spec:\n  valuesContent: |-\n    {values}\n"
        )
    };
    let codes = |text: &str| -> Vec<(Code, Option<u32>)> {
        let file = manifest::read(
            "a.yaml",
            &FileContent::Bytes(text.as_bytes().to_vec()),
            &ReadLimits::default(),
        );
        let object = file.objects().next().unwrap();
        let found = values::judge(object, &SourceMap::itself("a.yaml"));
        found.iter().map(|one| (one.code, one.at[0].line)).collect()
    };
    for kind in ["HelmChart", "HelmChartConfig"] {
        for good in [
            "controller:\n  kind: DaemonSet\n  labels: {a.b/c: d}",
            "",
            "# nothing",
        ] {
            assert_eq!(codes(&chart(kind, good)), [], "{good}");
        }
        for bad in ["a:\n  b: 1\n c: 2", "- a", "just text", "a: [1"] {
            let found = codes(&chart(kind, bad));
            assert_eq!(found, [(Code::ChartValuesInvalid, Some(5))], "{bad}");
        }
        let dotted = codes(&chart(kind, "controller.replicaCount: 3\nb: 1"));
        assert_eq!(dotted, [(Code::ChartValueIgnored, Some(5))]);
    }
}

#[test]
fn a_chart_in_place_of_one_of_rke2s_is_an_error_unless_it_is_disabled_or_rke2s_own() {
    let codes = |spec: &str, disabled: &[&str]| -> Vec<Code> {
        let text = format!(
            "apiVersion: helm.cattle.io/v1\nkind: HelmChart\nmetadata: {{name: rke2-coredns, namespace: kube-system}}\nspec: {spec}\n"
        );
        let file = manifest::read(
            "a.yaml",
            &FileContent::Bytes(text.into()),
            &ReadLimits::default(),
        );
        let mut across = CrossCheck::default();
        across.disable(disabled.iter().map(|name| (*name).to_owned()));
        for object in file.objects() {
            across.add(object, &SourceMap::itself("a.yaml"));
        }
        let (found, _) = across.finish(Some(Platform::Rke2));
        found.into_iter().map(|one| one.code).collect()
    };
    let theirs = "{chart: coredns, repo: 'https://charts.example.org'}";
    assert_eq!(codes(theirs, &[]), [Code::PackagedChartReplaced]);
    assert_eq!(codes(theirs, &["rke2-coredns"]), []);
    assert_eq!(codes("{chartContent: aGVsbG8=}", &[]), []);
}

#[test]
fn a_name_that_something_else_may_bring_is_listed_and_a_cluster_network_is_missing() {
    let unjudged = |text: &str| {
        let content = FileContent::Bytes(text.as_bytes().to_vec());
        let file = manifest::read("a.yaml", &content, &ReadLimits::default());
        let mut check = CrossCheck::default();
        for object in file.objects() {
            check.add(object, &SourceMap::itself("a.yaml"));
        }
        let (found, unjudged) = check.finish(None);
        (found.len(), unjudged)
    };
    let text = shop().replace(
        "configMapRef: {name: settings}",
        "configMapRef: {name: other}",
    );
    let (found, listed) = unjudged(&(text + CHART));
    assert_eq!((found, listed.len()), (0, 1));
    assert_eq!(listed[0].what, "ConfigMap shop/other");
    assert_eq!(listed[0].at[0].line, Some(20));
    let uplink = "---\napiVersion: network.harvesterhci.io/v1beta1\nkind: VlanConfig\nmetadata: {name: a}\n\
                  spec: {clusterNetwork: NAME}\n";
    let network = "---\napiVersion: network.harvesterhci.io/v1beta1\nkind: ClusterNetwork\nmetadata: {name: data}\n";
    for (name, missing) in [("data", 0), ("mgmt", 0), ("date", 1)] {
        let (found, _) = unjudged(&(uplink.replace("NAME", name) + network + CHART));
        assert_eq!(found, missing, "{name}");
    }
}

#[test]
fn user_data_that_cloud_init_cannot_read_is_found_wherever_a_vm_gets_it() {
    let broken = "#cloud-config\npackages: [a\n";
    let whole = "#cloud-config\npackages: [a]\n";
    for (object, coded) in [
        (
            "kind: Secret\nmetadata: {name: a}\nstringData: {userdata: TEXT}\n",
            false,
        ),
        (
            "kind: Secret\nmetadata: {name: a}\ndata: {userdata: TEXT}\n",
            true,
        ),
        (
            "kind: ConfigMap\nmetadata: {name: a}\ndata: {userdata: TEXT}\n",
            false,
        ),
    ] {
        let with = |text: &str| {
            let text = match coded {
                true => base64::Engine::encode(&base64::engine::general_purpose::STANDARD, text),
                false => text.to_owned(),
            };
            let text = object.replace("TEXT", &format!("{text:?}"));
            let content = FileContent::Bytes(format!("apiVersion: v1\n{text}").into_bytes());
            let file = manifest::read("a.yaml", &content, &ReadLimits::default());
            let object = file.objects().next().unwrap();
            user_data::judge(object, &SourceMap::itself("a.yaml"))
        };
        let (findings, listed) = with(broken);
        assert_eq!((findings.len(), listed.len()), (1, 0), "{object}");
        assert_eq!(findings[0].code, Code::UserDataUnreadable);
        let (findings, listed) = with(whole);
        assert_eq!((findings.len(), listed.len()), (0, 1), "{object}");
        assert_eq!(with("packages: [a\n"), (Vec::new(), Vec::new()));
        let (findings, listed) = with("#cloud-config\nhostname: {{ name }}\npackages: [a\n");
        assert_eq!((findings.len(), listed.len()), (0, 1), "{object}");
        let (findings, listed) = with("#cloud-config\nhostname: a\nhostname: b\n");
        assert_eq!((findings.len(), listed.len()), (0, 1), "{object}");
    }
}
