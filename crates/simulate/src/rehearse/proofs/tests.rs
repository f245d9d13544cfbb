use std::sync::Arc;

use windrow_model::manifest::{FileContent, ReadLimits, read};
use windrow_plan::rules::RuleSet;
use windrow_plan::{examine, link};

use super::*;

/// The codes and positions of the proofs for some files.
fn proved(
    files: &[(&str, &str)],
    disabled: &[(String, Location)],
    images: Option<&BTreeSet<String>>,
) -> Vec<(Code, String)> {
    proved_with(&RuleSet::shipped(), files, disabled, images)
}

fn proved_with(
    rules: &RuleSet,
    files: &[(&str, &str)],
    disabled: &[(String, Location)],
    images: Option<&BTreeSet<String>>,
) -> Vec<(Code, String)> {
    let platform = Some(Platform::Rke2);
    let read: Vec<(ManifestFile, SourceMap)> = files
        .iter()
        .map(|(path, text)| {
            let content = FileContent::Bytes(text.as_bytes().to_vec());
            (
                read(path, &content, &ReadLimits::default()),
                SourceMap::itself(*path),
            )
        })
        .collect();
    let examined: Vec<_> = read
        .iter()
        .map(|(file, shown)| Arc::new(examine(file, shown.clone(), rules, platform)))
        .collect();
    let plan = link(&examined, rules, platform);
    let files: Vec<(&ManifestFile, &SourceMap)> =
        read.iter().map(|(file, shown)| (file, shown)).collect();
    proofs(&ProofInputs {
        files: &files,
        plan: &plan,
        disabled,
        images,
    })
    .into_iter()
    .map(|finding| (finding.code, finding.at[0].to_string()))
    .collect()
}

fn alone(text: &str) -> Vec<(Code, String)> {
    proved(&[("a.yaml", text)], &[], None)
}

const GUARD: &str = "\
apiVersion: v1
kind: Namespace
metadata: {name: guard}
---
apiVersion: v1
kind: Service
metadata: {name: guard, namespace: guard}
spec: {selector: {app: guard}}
---
apiVersion: apps/v1
kind: Deployment
metadata: {name: guard, namespace: guard}
spec:
  selector: {matchLabels: {app: guard}}
  template:
    metadata: {labels: {app: guard}}
    spec: {containers: [{name: a, image: guard:v1}]}
---
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingWebhookConfiguration
metadata: {name: guard}
webhooks:
- name: pods.guard.example.com
  clientConfig: {service: {namespace: guard, name: guard, path: /}}
  rules: [{apiGroups: [\"\"], apiVersions: [v1], operations: [CREATE], resources: [pods]}]
";

#[test]
fn a_webhook_that_is_asked_about_its_own_pods_is_found_and_its_healthy_neighbours_are_not() {
    assert_eq!(
        alone(GUARD),
        [(Code::WebhookOwnPods, "a.yaml:23".to_owned())]
    );
    for healthy in [
        "  failurePolicy: Ignore\n",
        "  namespaceSelector: {matchExpressions: [{key: kubernetes.io/metadata.name, operator: NotIn, values: [guard]}]}\n",
        "  objectSelector: {matchExpressions: [{key: app, operator: DoesNotExist}]}\n",
        "  namespaceSelector: {matchLabels: {guarded: \"yes\"}}\n",
        "  matchConditions: [{name: not-own, expression: \"true\"}]\n",
    ] {
        assert_eq!(alone(&format!("{GUARD}{healthy}")), [], "{healthy}");
    }
    assert_eq!(alone(&GUARD.replace("[pods]", "[configmaps]")), []);
    assert_eq!(alone(&GUARD.replace("[CREATE]", "[DELETE]")), []);
    assert_eq!(
        alone(&GUARD.replace("{selector: {app: guard}}", "{selector: {app: other}}")),
        []
    );
}

const CLAIM: &str = "\
apiVersion: storage.k8s.io/v1
kind: StorageClass
metadata: {name: late}
provisioner: example.com/disk
volumeBindingMode: WaitForFirstConsumer
---
apiVersion: v1
kind: PersistentVolumeClaim
metadata: {name: disk, namespace: default}
spec: {storageClassName: late}
";
const USER: &str = "\
apiVersion: apps/v1
kind: Deployment
metadata:
  name: user
  namespace: default
  annotations:
    windrow.dev/depends-on: /namespaces/default/PersistentVolumeClaim/disk
spec:
  template:
    spec:
      containers: []
      volumes: [{name: d, persistentVolumeClaim: {claimName: disk}}]
";

#[test]
fn a_claim_that_binds_at_its_first_use_cannot_be_waited_for_by_its_only_user() {
    let both = |claim: &str, user: &str| proved(&[("a.yaml", claim), ("b.yaml", user)], &[], None);
    assert_eq!(
        both(CLAIM, USER),
        [(Code::ClaimBoundBeforeUse, "b.yaml:7".to_owned())]
    );
    // Bound immediately; only required to exist; used by another pod too.
    assert_eq!(
        both(&CLAIM.replace("WaitForFirstConsumer", "Immediate"), USER),
        []
    );
    assert_eq!(
        both(CLAIM, &USER.replace("Claim/disk", "Claim/disk (exists)")),
        []
    );
    let other = USER.replace("name: user", "name: other").replace(
        "    windrow.dev/depends-on: /namespaces/default/PersistentVolumeClaim/disk\n",
        "    a: b\n",
    );
    assert_eq!(
        proved(
            &[("a.yaml", CLAIM), ("b.yaml", USER), ("c.yaml", &other)],
            &[],
            None
        ),
        []
    );
}

#[test]
fn a_network_plugin_that_waits_for_a_ready_node_is_found_and_an_application_is_not() {
    let plugin = "\
apiVersion: apps/v1
kind: DaemonSet
metadata:
  name: net
  namespace: kube-system
  annotations:
    windrow.dev/depends-on: /Node/n1
spec:
  template:
    spec:
      containers: []
      volumes: [{name: cni, hostPath: {path: /etc/cni/net.d}}]
";
    assert_eq!(
        alone(plugin),
        [(Code::NodeReadyCycle, "a.yaml:7".to_owned())]
    );
    assert_eq!(alone(&plugin.replace("/etc/cni/net.d", "/var/log")), []);
    assert_eq!(alone(&plugin.replace("Node/n1", "Node/n1 (exists)")), []);
    let cloud = plugin
        .replace("DaemonSet", "Deployment")
        .replace("name: net\n", "name: cloud-controller\n")
        .replace("      volumes: [{name: cni, hostPath: {path: /etc/cni/net.d}}]\n",
            "      tolerations: [{key: node.cloudprovider.kubernetes.io/uninitialized, operator: Exists}]\n");
    assert_eq!(
        alone(&cloud),
        [(Code::NodeReadyCycle, "a.yaml:7".to_owned())]
    );
}

#[test]
fn an_address_that_nothing_gives_is_found_and_one_that_metallb_gives_is_not() {
    let text = "\
apiVersion: v1
kind: Service
metadata: {name: web, namespace: default}
spec: {type: LoadBalancer}
---
apiVersion: v1
kind: ConfigMap
metadata: {name: needs, namespace: default}
";
    let pack = "\
apiVersion: windrow.dev/v1
kind: RulePack
metadata: {name: site}
rules:
  - name: needs-an-address
    match: {kind: ConfigMap, name: needs}
    reason: it is written for the address
    requires:
      - object: {kind: Service, namespace: default, name: web}
        expression: size(object.?status.?loadBalancer.?ingress.orValue([])) > 0
        reason: the address is not there yet
";
    let with = |pack: &str, text: &str| {
        let mut sources = RuleSet::shipped_sources();
        sources.push(("site.yaml".to_owned(), pack.to_owned()));
        let (rules, errors) = RuleSet::load(&sources);
        assert_eq!(errors, []);
        proved_with(&rules, &[("a.yaml", text)], &[], None)
    };
    assert_eq!(
        with(pack, text),
        [(Code::LoadBalancerWithoutProvider, "site.yaml:9".to_owned())]
    );
    assert_eq!(with(pack, &text.replace("LoadBalancer", "ClusterIP")), []);
    // It exists, with any address.
    let exists = pack.replace(
        "size(object.?status.?loadBalancer.?ingress.orValue([])) > 0",
        "object.spec.type != ''",
    );
    assert_eq!(with(&exists, text), []);
    let pool = "---\napiVersion: metallb.io/v1beta1\nkind: IPAddressPool\nmetadata: {name: p, namespace: default}\n";
    assert_eq!(with(pack, &format!("{text}{pool}")), []);
}

#[test]
fn what_a_disabled_component_would_bring_is_found_with_both_places() {
    let text = "apiVersion: snapshot.storage.k8s.io/v1\nkind: VolumeSnapshotClass\nmetadata: {name: s}\ndriver: d\ndeletionPolicy: Delete\n";
    let off = |name: &str| vec![(name.to_owned(), Location::line("config.yaml", 3))];
    let found = proved(
        &[("a.yaml", text)],
        &off("rke2-snapshot-controller-crd"),
        None,
    );
    assert_eq!(found, [(Code::ComponentDisabled, "a.yaml:1".to_owned())]);
    assert_eq!(proved(&[("a.yaml", text)], &off("rke2-coredns"), None), []);
}

#[test]
fn an_image_that_is_in_no_list_is_found_however_its_name_is_written() {
    let list = image_list("# rke2\ndocker.io/library/guard:v1\nregistry.example.com/a/b:2\n\n");
    let with = |text: &str| proved(&[("a.yaml", text)], &[], Some(&list));
    let quiet = GUARD.replace("[pods]", "[configmaps]");
    assert_eq!(with(&quiet), []);
    assert_eq!(
        with(&quiet.replace("guard:v1", "guard:v2")),
        [(Code::ImageNotBundled, "a.yaml:17".to_owned())]
    );
    assert_eq!(
        with(&quiet.replace("guard:v1", "registry.example.com/a/b:2")),
        []
    );
    assert_eq!(alone(&quiet.replace("guard:v1", "guard:v2")), []);
}

const POOLS: &str = "\
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: pools.example.com}
spec: {group: example.com, scope: Namespaced, names: {kind: Pool, plural: pools}}
---
apiVersion: v1
kind: Service
metadata: {name: guard, namespace: default}
spec: {selector: {app: guard}, ports: [{port: 443}]}
---
apiVersion: apps/v1
kind: Deployment
metadata: {name: guard, namespace: default}
spec:
  selector: {matchLabels: {app: guard}}
  template:
    metadata: {labels: {app: guard}}
    spec: {containers: [{name: a, image: guard:v1}]}
---
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingWebhookConfiguration
metadata: {name: guard}
webhooks:
- name: guard.example.com
  clientConfig: {service: {namespace: default, name: guard}}
  rules: [{apiGroups: [example.com], apiVersions: [v1], operations: [CREATE], resources: [pools]}]
";
const POOL: &str = "\
apiVersion: example.com/v1
kind: Pool
metadata:
  name: p
  namespace: default
";

const CERT_MANAGER: &str = "\
apiVersion: helm.cattle.io/v1
kind: HelmChart
metadata: {name: cert-manager, namespace: kube-system}
spec: {chart: cert-manager, targetNamespace: certs, createNamespace: true, set: {crds.enabled: true}}
";
const ISSUER: &str = "\
apiVersion: cert-manager.io/v1
kind: ClusterIssuer
metadata:
  name: own
";

#[test]
fn an_object_that_does_not_wait_for_the_webhook_of_a_known_chart_is_found() {
    let with = |chart: &str, issuer: &str| {
        let mut all = proved(&[("a.yaml", chart), ("b.yaml", issuer)], &[], None);
        all.retain(|(code, _)| *code == Code::WebhookNotAwaited);
        all
    };
    let found = [(Code::WebhookNotAwaited, "b.yaml:3".to_owned())];
    assert_eq!(with(CERT_MANAGER, ISSUER), found);
    let waits = format!(
        "{ISSUER}  annotations:\n    windrow.dev/depends-on: apps/namespaces/certs/Deployment/cert-manager-webhook\n"
    );
    assert_eq!(with(CERT_MANAGER, &waits), []);
    let other = ISSUER.replace("ClusterIssuer", "Certificate2");
    assert_eq!(with(CERT_MANAGER, &other), []);
    // In one file it cannot wait.
    assert_eq!(with(&format!("{CERT_MANAGER}---\n{ISSUER}"), POOL), []);
    // Its pods create the configuration, so nothing is rejected before they answer.
    let kyverno = CERT_MANAGER.replace("cert-manager", "kyverno");
    let policy = "apiVersion: kyverno.io/v1\nkind: ClusterPolicy\nmetadata:\n  name: own\n";
    assert_eq!(with(&kyverno, policy), []);
}

const KUBEVIRT: &str = "\
apiVersion: kubevirt.io/v1
kind: KubeVirt
metadata: {name: kubevirt, namespace: machines}
";
const MACHINE: &str = "\
apiVersion: kubevirt.io/v1
kind: VirtualMachine
metadata:
  name: first
  namespace: default
";

#[test]
fn an_object_that_does_not_wait_for_the_webhook_of_a_known_operator_is_found() {
    let with = |machine: &str| {
        let mut all = proved(&[("a.yaml", KUBEVIRT), ("b.yaml", machine)], &[], None);
        all.retain(|(code, _)| *code == Code::WebhookNotAwaited);
        all
    };
    assert_eq!(
        with(MACHINE),
        [(Code::WebhookNotAwaited, "b.yaml:3".to_owned())]
    );
    let waits = format!(
        "{MACHINE}  annotations:\n    windrow.dev/depends-on: apps/namespaces/machines/Deployment/virt-api\n"
    );
    assert_eq!(with(&waits), []);
    assert_eq!(with(&MACHINE.replace("VirtualMachine", "KubeVirt")), []);
}

#[test]
fn an_object_that_does_not_wait_for_its_webhook_is_found_and_its_healthy_neighbours_are_not() {
    let with =
        |webhook: &str, pool: &str| proved(&[("a.yaml", webhook), ("b.yaml", pool)], &[], None);
    assert_eq!(
        with(POOLS, POOL),
        [(Code::WebhookNotAwaited, "b.yaml:3".to_owned())]
    );
    for healthy in [
        "  failurePolicy: Ignore\n",
        "  matchConditions: [{name: a, expression: 'false'}]\n",
        "  objectSelector: {matchLabels: {asked: please}}\n",
        "  namespaceSelector: {matchExpressions: [{key: kubernetes.io/metadata.name, operator: NotIn, values: [default]}]}\n",
    ] {
        assert_eq!(with(&format!("{POOLS}{healthy}"), POOL), [], "{healthy}");
    }
    for (what, other) in [
        ("resources: [pools]", "resources: [ponds]"),
        ("operations: [CREATE]", "operations: [DELETE]"),
        ("apiGroups: [example.com]", "apiGroups: [example.org]"),
        // None of these files contains the backend, and another backend is unknown.
        ("name: guard}}\n  rules", "name: other}}\n  rules"),
    ] {
        assert_eq!(with(&POOLS.replace(what, other), POOL), [], "{other}");
    }
    let waits = format!(
        "{POOL}  annotations:\n    windrow.dev/depends-on: apps/namespaces/default/Deployment/guard\n"
    );
    assert_eq!(with(POOLS, &waits), []);
    let unnamed = waits.replace("  namespace: default\n", "");
    assert_eq!(with(POOLS, &unnamed), []);
    // In one file it cannot wait.
    assert_eq!(
        alone(&format!("{POOLS}---\n{POOL}"))
            .into_iter()
            .filter(|(code, _)| *code == Code::WebhookNotAwaited)
            .count(),
        0
    );
}

#[test]
fn an_object_of_kubernetes_own_kind_waits_for_its_webhook_only_where_what_answers_cannot_need_it() {
    let with = |rule: &str, object: &str| {
        let webhook = POOLS.replace(
            "apiGroups: [example.com], apiVersions: [v1], operations: [CREATE], resources: [pools]",
            rule,
        );
        assert_ne!(webhook, POOLS);
        let mut found = proved(&[("a.yaml", &webhook), ("b.yaml", object)], &[], None);
        found.retain(|(code, _)| *code == Code::WebhookNotAwaited);
        found
    };
    let ingresses = "apiGroups: [networking.k8s.io], apiVersions: [v1], operations: [CREATE], resources: [ingresses]";
    let all = "apiGroups: ['*'], apiVersions: ['*'], operations: ['*'], resources: ['*']";
    let policies = "apiGroups: [networking.k8s.io], apiVersions: [v1], operations: ['*'], resources: [networkpolicies], scope: Namespaced";
    let of = |version: &str, kind: &str, namespace: &str| {
        format!("apiVersion: {version}\nkind: {kind}\nmetadata:\n  name: a\n{namespace}")
    };
    let elsewhere = "  namespace: elsewhere\n";
    let found = [(Code::WebhookNotAwaited, "b.yaml:3".to_owned())];
    let ingress = of("networking.k8s.io/v1", "Ingress", elsewhere);
    let policy = of("networking.k8s.io/v1", "NetworkPolicy", elsewhere);
    assert_eq!(with(ingresses, &ingress), found);
    assert_eq!(with(policies, &policy), found);
    assert_eq!(with(all, &of("v1", "ConfigMap", elsewhere)), found);
    for needed in [
        of("v1", "ConfigMap", ""),
        of("v1", "Namespace", ""),
        of("rbac.authorization.k8s.io/v1", "RoleBinding", elsewhere),
        of("scheduling.k8s.io/v1", "PriorityClass", ""),
    ] {
        assert_eq!(with(all, &needed), [], "{needed}");
    }
    assert_eq!(with(ingresses, &policy), []);
}
