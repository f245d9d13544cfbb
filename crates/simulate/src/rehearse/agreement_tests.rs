//! Tests that a plan and a rehearsal of the same files never contradict each other.

use std::collections::BTreeMap;
use std::sync::Arc;

use jiff::Timestamp;
use windrow_harvester::HarvesterVersion;
use windrow_model::manifest::{FileContent, ReadLimits};
use windrow_plan::rules::{Platform, RuleSet};
use windrow_plan::{Outlook, SourceMap, examine_content, link};

use super::guesses::add_what_comes;
use super::{Ending, rehearse};
use crate::{Chance, Scenario, Setup, SimulatedDirectory};

/// Documents from which small sets are drawn: declared and undeclared kinds and namespaces, certain and possible parts of the
/// platform, targets of annotations and rules, known charts and an unknown one, and an operator with its consequences.
const DOCUMENTS: &[&str] = &[
    "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: plain, namespace: default}\n",
    "apiVersion: v1\nkind: Namespace\nmetadata: {name: apps}\n",
    "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: in-apps, namespace: apps}\n",
    "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: nowhere, namespace: nowhere}\n",
    "apiVersion: apps/v1\nkind: Deploymnt\nmetadata: {name: mistyped, namespace: default}\n",
    "apiVersion: apiextensions.k8s.io/v1\nkind: CustomResourceDefinition\nmetadata: {name: widgets.example.com}\nspec:\n  group: example.com\n  names: {kind: Widget, plural: widgets}\n  scope: Namespaced\n  versions: [{name: v1, served: true, storage: true}]\n",
    "apiVersion: example.com/v1\nkind: Widget\nmetadata: {name: w, namespace: default}\n",
    "apiVersion: example.com/v1\nkind: Gadget\nmetadata: {name: g, namespace: default}\n",
    "apiVersion: helm.cattle.io/v1\nkind: HelmChart\nmetadata: {name: metallb, namespace: kube-system}\nspec: {chart: metallb, repo: https://metallb.github.io/metallb, targetNamespace: metallb-system, createNamespace: true}\n",
    "apiVersion: metallb.io/v1beta1\nkind: IPAddressPool\nmetadata: {name: p, namespace: metallb-system}\n",
    "apiVersion: metallb.io/v1beta1\nkind: Newer\nmetadata: {name: n, namespace: default}\n",
    "apiVersion: helm.cattle.io/v1\nkind: HelmChart\nmetadata: {name: unknown, namespace: kube-system}\nspec: {chart: unknown, repo: https://example.com}\n",
    "apiVersion: apiextensions.k8s.io/v1\nkind: CustomResourceDefinition\nmetadata: {name: kubevirts.kubevirt.io}\nspec:\n  group: kubevirt.io\n  names: {kind: KubeVirt, plural: kubevirts}\n  scope: Namespaced\n  versions: [{name: v1, served: true, storage: true}]\n",
    "apiVersion: apps/v1\nkind: Deployment\nmetadata: {name: virt-operator, namespace: default}\nspec: {selector: {matchLabels: {a: b}}, template: {metadata: {labels: {a: b}}, spec: {containers: [{name: c, image: i}]}}}\n",
    "apiVersion: kubevirt.io/v1\nkind: KubeVirt\nmetadata: {name: ours, namespace: default}\n",
    "apiVersion: instancetype.kubevirt.io/v1beta1\nkind: VirtualMachineClusterPreference\nmetadata: {name: p}\n",
    "apiVersion: monitoring.coreos.com/v1\nkind: ServiceMonitor\nmetadata: {name: m, namespace: default}\n",
    "apiVersion: longhorn.io/v1beta2\nkind: RecurringJob\nmetadata: {name: r, namespace: longhorn-system}\n",
    "apiVersion: crd.projectcalico.org/v1\nkind: GlobalNetworkPolicy\nmetadata: {name: g}\n",
    "apiVersion: k8s.cni.cncf.io/v1\nkind: NetworkAttachmentDefinition\nmetadata: {name: n, namespace: default}\n",
    "apiVersion: devices.harvesterhci.io/v1beta1\nkind: PCIDevice\nmetadata: {name: d}\n",
    "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: dns, namespace: default, annotations: {windrow.dev/depends-on: \"/namespaces/kube-system/Service/rke2-coredns-rke2-coredns, apps/namespaces/kube-system/DaemonSet/rke2-ingress-nginx-controller\"}}\n",
    "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: after-rancher, namespace: default, annotations: {windrow.dev/depends-on: \"management.cattle.io/namespaces/fleet-local/ManagedChart/harvester, apps/namespaces/harvester-system/Deployment/harvester\"}}\n",
    "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: after-database, namespace: default, annotations: {windrow.dev/depends-on: apps/namespaces/db/StatefulSet/postgres}}\n",
    "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: after-app, namespace: default, annotations: {windrow.dev/depends-on: /namespaces/default/ConfigMap/after-schema}}\n",
    "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: after-schema, namespace: default, labels: {needs: schema}}\n",
    "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: after-rollout, namespace: default, labels: {needs: rollout}}\n",
    "apiVersion: ours.example.org/v1\nkind: Thing\nmetadata: {name: t, namespace: ours}\n",
];

const SITE: &str = "apiVersion: windrow.dev/v1\nkind: RulePack\nmetadata: {name: site}\nprovides:\n  - {by: our image, groups: [ours.example.org], objects: [{kind: Namespace, name: ours}]}\nrules:\n  - name: schema\n    match: {kind: ConfigMap, labels: {needs: schema}}\n    reason: the schema is older\n    onDeadline: keep\n    requires: [{object: {kind: ConfigMap, namespace: db, name: schema}, expression: object.data.version == '7'}]\n  - name: rollout\n    match: {kind: ConfigMap, labels: {needs: rollout}}\n    reason: the rollout comes first\n    requires: [{object: {group: apps, kind: ReplicaSet, namespace: db, name: rollout}, condition: ready}, {kind: {group: example.io, kind: Database}}]\n";

fn rules() -> RuleSet {
    let mut sources = RuleSet::shipped_sources();
    sources.push(("site.yaml".to_owned(), SITE.to_owned()));
    let (rules, errors) = RuleSet::load(&sources);
    assert_eq!(errors, []);
    rules
}

fn drawn(seed: u64) -> BTreeMap<String, String> {
    let mut chance = Chance::new(seed);
    let mut files: BTreeMap<String, Vec<&str>> = BTreeMap::new();
    let count = 1 + chance.below(4);
    for document in DOCUMENTS {
        if chance.one_in(9) {
            let file = format!("{}.yaml", chance.below(count));
            files.entry(file).or_default().push(document);
        }
    }
    let joined = files
        .into_iter()
        .map(|(path, texts)| (path, texts.join("---\n")));
    joined.collect()
}

/// The plan's verdict on the files, and the end of their rehearsal with Windrow.
fn verdicts(
    files: &BTreeMap<String, String>,
    platform: Platform,
    rules: &Arc<RuleSet>,
) -> (Outlook, Ending) {
    let start = Timestamp::UNIX_EPOCH;
    let mut scenario = match platform {
        Platform::Harvester => Scenario::harvester(HarvesterVersion::LATEST, None, start),
        Platform::Rke2 => Scenario::rke2(start),
    };
    let limits = ReadLimits::default();
    let mut directory = SimulatedDirectory::new();
    let mut examined = Vec::new();
    for (path, text) in files {
        directory.write(path.clone(), text.clone(), start);
        let content = FileContent::Bytes(text.clone().into_bytes());
        let shown = SourceMap::itself(path.as_str());
        let path = path.as_str().into();
        let one = examine_content(&path, &content, &limits, shown, rules, Some(platform));
        examined.push(Arc::new(one));
    }
    let plan = link(&examined, rules, &scenario.node);
    add_what_comes(&mut scenario, &plan, rules);
    let setup = Setup {
        scenario,
        files: directory,
        changes: Vec::new(),
        settings: Arc::default(),
        rules: Arc::clone(rules),
        joins: Vec::new(),
    };
    let rehearsal = rehearse("n", &setup, 2, Vec::new());
    (plan.outlook(), rehearsal.worst())
}

#[test]
fn a_plan_and_a_rehearsal_of_small_sets_end_in_the_same_verdict() {
    let rules = Arc::new(rules());
    let mut seen = [0; 3];
    for seed in 0..300 {
        let platform = match seed % 2 {
            0 => Platform::Rke2,
            _ => Platform::Harvester,
        };
        let files = drawn(seed);
        let (outlook, ending) = verdicts(&files, platform, &rules);
        let class = match (&outlook, ending) {
            (Outlook::Works, Ending::Complete) => 0,
            (Outlook::Unknown { .. }, Ending::Unknown) => 1,
            (Outlook::CannotWork { .. }, Ending::Stuck | Ending::Deadlocked) => 2,
            _ => panic!("seed {seed} on {platform}: {outlook:?}, but {ending:?}\n{files:#?}"),
        };
        seen[class] += 1;
    }
    assert!(seen.iter().all(|count| *count > 15), "{seen:?}");
}
