use std::time::Duration;

use windrow_model::manifest::{GroupKind, ObjectRef};

use super::*;
use crate::rules::{Platform, RuleSet};

const HEAD: &str =
    "apiVersion: windrow.dev/v1\nkind: Knowledge\nmetadata: {name: site}\nentries:\n";

/// The errors of a file whose entries begin on line 5.
fn errors_of(entries: &str) -> Vec<String> {
    let text = format!("{HEAD}{entries}");
    let (_, errors) = RuleSet::load(&[("site.yaml".to_owned(), text)]);
    errors.iter().map(ToString::to_string).collect()
}

#[test]
fn what_is_shipped_loads_without_an_error_and_names_its_source() {
    let (knowledge, errors) = load_shipped();
    assert!(errors.is_empty(), "{errors:#?}");
    let written: usize = SHIPPED
        .iter()
        .map(|(_, text)| {
            text.lines()
                .filter(|line| line.starts_with("  - name: "))
                .count()
        })
        .sum();
    let names = knowledge.entries.iter().map(|entry| &entry.name);
    let names: std::collections::BTreeSet<&String> = names.collect();
    assert_eq!(names.len(), written);
    for entry in &knowledge.entries {
        assert!(
            entry.source.contains(char::is_numeric) || entry.source.contains('/'),
            "{}",
            entry.name
        );
    }
}

/// If a kind had two scopes, one of them would be wrong.
#[test]
fn a_kind_has_one_scope_in_everything_that_is_shipped() {
    let mut scopes = std::collections::BTreeMap::new();
    for entry in Knowledge::shipped().entries() {
        for known in &entry.brings.kinds {
            let scope = scopes.entry(known.kind.clone()).or_insert(known.namespaced);
            assert_eq!(*scope, known.namespaced, "{} in {}", known.kind, entry.name);
        }
    }
}

/// They are only in the data of the crate `windrow-apischema`, with the minors that serve them.
#[test]
fn kinds_of_kube_apiserver_are_listed_by_no_entry_that_is_shipped() {
    for entry in Knowledge::shipped().entries() {
        if matches!(entry.bringer, Bringer::Kubernetes { .. }) {
            assert_eq!(entry.brings.kinds, [], "{}", entry.name);
        }
        for known in &entry.brings.kinds {
            let scope =
                kubernetes_presence(&known.kind.group, &known.kind.kind, &NodeFacts::default());
            assert_eq!(scope, None, "{} in {}", known.kind, entry.name);
        }
    }
}

#[test]
fn every_file_of_the_directory_is_shipped() {
    let directory = concat!(env!("CARGO_MANIFEST_DIR"), "/data/knowledge");
    let files = std::fs::read_dir(directory).unwrap();
    let names = files.map(|entry| entry.unwrap().file_name().into_string().unwrap());
    let mut names: Vec<String> = names.collect();
    let mut shipped: Vec<String> = SHIPPED.iter().map(|(file, _)| (*file).to_owned()).collect();
    names.sort();
    shipped.sort();
    assert_eq!(names, shipped);
}

#[test]
fn what_brings_a_kind_depends_on_platform_versions_and_configuration() {
    let by = |group: &str, kind: &str, node: &NodeFacts| {
        Knowledge::shipped().provider_of_kind(&GroupKind::new(group, kind), node)
    };
    let harvester = NodeFacts::from(Some(Platform::Harvester));
    let rke2 = NodeFacts::from(Some(Platform::Rke2));
    let sure = |provider: Option<Provider>| provider.is_some_and(|one| one.condition.is_none());
    assert!(sure(by(
        "monitoring.coreos.com",
        "ServiceMonitor",
        &harvester
    )));
    assert_eq!(by("monitoring.coreos.com", "ServiceMonitor", &rke2), None);
    let image = |version: &str| {
        let node = harvester.clone().with_harvester(Some(version));
        by("harvesterhci.io", "VirtualMachineImageDownloader", &node)
    };
    assert!(sure(image("v1.5.0")));
    assert!(!sure(image("v1.4.3")));
    let class = |version: &str| {
        let node = rke2.clone().with_kubernetes(Some(version.parse().unwrap()));
        by("resource.k8s.io", "DeviceClass", &node)
    };
    assert!(sure(class("v1.35.0")));
    assert!(class("v1.32.0").unwrap().condition.is_some());
    assert!(
        by("k8s.cni.cncf.io", "NetworkAttachmentDefinition", &rke2)
            .unwrap()
            .condition
            .is_some()
    );
    // A kind of a present group, which another version may have.
    let newer = by("longhorn.io", "Shard", &harvester).unwrap();
    assert!(newer.condition.is_some(), "{newer:?}");
    assert_eq!(by("apps", "Deploymnt", &rke2), None);
    // A kind of kube-apiserver that this version does not have.
    let old = rke2
        .clone()
        .with_kubernetes(Some("v1.31.0".parse().unwrap()));
    assert_eq!(by("scheduling.k8s.io", "Workload", &old), None);
}

#[test]
fn what_rancher_monitoring_and_seeder_make_on_a_harvester_is_known() {
    let harvester = NodeFacts::from(Some(Platform::Harvester));
    let of_version = |version| harvester.clone().with_harvester(Some(version));
    let is_sure = |name: &str, node: &NodeFacts| {
        let namespace = ObjectRef::cluster("", "Namespace", name);
        let provider = Knowledge::shipped().provider_of_object(&namespace, node);
        provider.is_some_and(|one| one.condition.is_none())
    };
    for version in ["v1.4.3", "v1.7.1", "v1.8.2"] {
        for name in [
            "cattle-dashboards",
            "cattle-fleet-clusters-system",
            "cattle-global-data",
            "cattle-impersonation-system",
            "local",
        ] {
            let node = of_version(version);
            assert!(is_sure(name, &node), "{name} of {version}");
        }
    }
    let cluster_api = "cattle-provisioning-capi-system";
    assert!(is_sure(cluster_api, &of_version("v1.7.1")));
    assert!(!is_sure(cluster_api, &of_version("v1.8.0")));

    let enabled = harvester
        .clone()
        .with_addons(["harvester-seeder".to_owned()]);
    for (group, kind) in [
        ("metal.harvesterhci.io", "Inventory"),
        ("bmc.tinkerbell.org", "Machine"),
        ("tinkerbell.org", "Hardware"),
    ] {
        let by = |node| Knowledge::shipped().provider_of_kind(&GroupKind::new(group, kind), node);
        assert_eq!(by(&enabled).unwrap().condition, None, "{kind}");
        let asks = by(&harvester).unwrap().condition.unwrap();
        assert_eq!(asks, "the addon harvester-seeder is enabled");
    }
}

#[test]
fn a_sites_entry_takes_the_place_of_a_shipped_one_of_its_name_and_adds_others() {
    let text = HEAD.replace("site", "charts")
        + "  - {name: metallb, by: {chart: metallb}, namespaces: [ours], source: our wiki}\n"
        + "  - {name: ours, by: {rke2: our-chart}, groups: [ours.example.com], source: our wiki}\n";
    let (rules, errors) = RuleSet::load(&[("site.yaml".to_owned(), text)]);
    assert_eq!(errors, []);
    let entries = rules.knowledge.entries();
    let of_name = |entries: &[KnowledgeEntry]| {
        let named = entries
            .iter()
            .filter(|entry| entry.name == "charts/metallb");
        named.cloned().collect::<Vec<_>>()
    };
    // The built-in one has a part for each version range, and all of them are replaced.
    let shipped = Knowledge::shipped().entries();
    assert!(of_name(shipped).len() > 1);
    let metallb = of_name(entries);
    assert_eq!(metallb.len(), 1);
    assert_eq!(entries.len(), shipped.len() - of_name(shipped).len() + 2);
    assert_eq!(
        metallb[0].brings.objects,
        [ObjectRef::cluster("", "Namespace", "ours")]
    );
    let kind = GroupKind::new("ours.example.com", "Thing");
    let provider = rules.provider_of_kind(&kind, &NodeFacts::default());
    assert_eq!(provider, Some(Provider::certain("RKE2's chart our-chart")));
}

#[test]
fn every_mistake_is_an_error_with_its_line() {
    let said = errors_of(concat!(
        "  - {name: a, by: {chart: a}, kind: [], source: s}\n",
        "  - {name: b, by: {chart: a, rke2: b}, groups: [g], source: s}\n",
        "  - {name: c, by: {chart: a, cni: canal}, groups: [g], source: s}\n",
        "  - {name: d, by: {chart: a}, versions: 1.5, groups: [g], source: s}\n",
        "  - {name: e, by: {chart: a}, versions: '1.5', groups: [g]}\n",
        "  - {name: f, by: {harvester: x, phase: late}, groups: [g], source: s}\n",
        "  - {name: g, by: {chart: a}, groups: [g], after: {from: 2m, to: 1m}, source: s}\n",
        "  - {name: h, by: {chart: a}, kinds: [{group: g, cluster: [K], versions: '>=1 || 2'}], source: s}\n",
    ));
    let expected = [
        "site.yaml:5: the entry has no key `kind`; did you mean `kinds`?",
        "site.yaml:5: the entry lacks `kinds`, `groups`, `namespaces`, `objects` or `storageClasses`: it brings nothing",
        "site.yaml:6: `by` names exactly one of kubernetes, rke2, harvester, chart, operator",
        "site.yaml:7: `cni` does not go with `chart`",
        "site.yaml:8: `versions` of the entry is a number, expected a string; put it in quotes",
        "site.yaml:9: the entry lacks `source`",
        "site.yaml:9: `versions`: `1.5` is neither `>=VERSION` nor `<VERSION`; write it like \">=1.5 <1.8\"",
        "site.yaml:10: `phase` is `late`, expected rancher or definitions or operators",
        "site.yaml:11: `from` of `after` is longer than `to`",
        "site.yaml:12: `versions`: `2` is neither `>=VERSION` nor `<VERSION`; write it like \">=1.5 <1.8\"",
    ];
    assert_eq!(said, expected);
}

/// Versions of one chart: the kinds of old versions, the kinds from a version on, and those in two version ranges.
#[test]
fn kinds_of_an_entry_may_have_versions_of_their_own() {
    let text = HEAD.to_owned()
        + "  - name: ours\n    by: {kubernetes: always}\n    source: our wiki\n    kinds:\n"
        + "      - {group: o.example.com, namespaced: [Always]}\n"
        + "      - {group: o.example.com, namespaced: [Once], versions: \"<1.33\"}\n"
        + "      - {group: o.example.com, namespaced: [Later], versions: \">=1.32.5 <1.33 || >=1.33.2\"}\n";
    let (rules, errors) = RuleSet::load(&[("site.yaml".to_owned(), text)]);
    assert_eq!(errors, []);
    let sure = |kind: &str, version: &str| {
        let node = NodeFacts::default().with_kubernetes(Some(version.parse().unwrap()));
        let provider = rules.provider_of_kind(&GroupKind::new("o.example.com", kind), &node);
        provider.is_some_and(|one| one.condition.is_none())
    };
    let brought = |version: &str| ["Always", "Once", "Later"].map(|kind| sure(kind, version));
    assert_eq!(brought("v1.32.4"), [true, true, false]);
    assert_eq!(brought("v1.32.5"), [true, true, true]);
    assert_eq!(brought("v1.33.1"), [true, false, false]);
    assert_eq!(brought("v1.33.2"), [true, false, true]);
}

fn helm_chart(text: &str) -> InstalledChart {
    let content = windrow_model::manifest::FileContent::Bytes(text.as_bytes().to_vec());
    let limits = windrow_model::manifest::ReadLimits::default();
    let file = windrow_model::manifest::read("a.yaml", &content, &limits);
    installed_chart(file.objects().next().unwrap()).unwrap()
}

/// The guards of a release's kinds: webhook, configuration and Deployment.
fn guarding(chart: &str) -> Vec<String> {
    let chart = helm_chart(chart);
    let entries = Knowledge::shipped().brought_by_chart(&chart);
    let webhooks = entries.flat_map(|entry| entry.guarding(&chart));
    webhooks
        .map(|one| format!("{} {} {}", one.name, one.configuration.name, one.backend))
        .collect()
}

#[test]
fn a_chart_s_webhooks_are_named_after_its_release_and_refuse_only_where_they_fail_closed() {
    let chart = |name: &str, spec: &str| {
        format!(
            "apiVersion: helm.cattle.io/v1\nkind: HelmChart\nmetadata: {{name: {name}, namespace: kube-system}}\nspec: {{{spec}}}\n"
        )
    };
    let certs = "chart: cert-manager, targetNamespace: certs, set: {crds.enabled: true}";
    assert_eq!(
        guarding(&chart("cert-manager", certs)),
        ["webhook.cert-manager.io cert-manager-webhook Deployment certs/cert-manager-webhook"]
    );
    assert_eq!(
        guarding(&chart("tls", certs)),
        [
            "webhook.cert-manager.io tls-cert-manager-webhook Deployment certs/tls-cert-manager-webhook"
        ]
    );
    let database = |version: &str| {
        guarding(&chart(
            "pg",
            &format!("chart: cloudnative-pg, version: {version}"),
        ))
    };
    assert_eq!(database("0.24.0").len(), database("0.23.0").len() + 1);
    assert!(!guarding(&chart("metallb", "chart: metallb")).is_empty());
    for lets_pass in [
        "chart: metallb, set: {crds.validationFailurePolicy: Ignore}",
        "chart: metallb, valuesContent: '{crds: {validationFailurePolicy: Ignore}}'",
        "chart: cloudnative-pg, set: {webhook.validating.create: false}",
        // Its pods create the configuration.
        "chart: kyverno",
        // They ignore failures.
        "chart: keda",
        "chart: gatekeeper",
    ] {
        assert_eq!(guarding(&chart("a", lets_pass)), [""; 0], "{lets_pass}");
    }
}

#[test]
fn an_operator_s_webhooks_are_beside_its_object_or_where_it_says() {
    let guarding = |group: &str, kind: &str, namespace: Option<&str>| {
        let kind = GroupKind::new(group, kind);
        let entries = Knowledge::shipped().brought_by_operator(&kind);
        let webhooks = entries.flat_map(|(_, entry)| entry.guarding_beside(namespace));
        let webhooks = webhooks.map(|one| format!("{} {}", one.configuration, one.backend));
        webhooks.collect::<Vec<_>>()
    };
    let virt = guarding("kubevirt.io", "KubeVirt", Some("machines"));
    let api = "MutatingWebhookConfiguration virt-api-mutator Deployment machines/virt-api";
    assert!(virt.iter().any(|one| one == api), "{virt:?}");
    let cdi = guarding("cdi.kubevirt.io", "CDI", None);
    assert!(cdi.iter().all(|one| one.ends_with("cdi/cdi-apiserver")) && !cdi.is_empty());
    // Without a namespace, the location of its pods is unknown.
    assert_eq!(guarding("kubevirt.io", "KubeVirt", None), [""; 0]);
}

/// The schema is written by hand, so its keys must match those in the code.
#[test]
fn the_schema_knows_every_key_that_is_read_and_no_other() {
    let text = std::fs::read_to_string(concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/../../docs/knowledge.schema.json"
    ));
    let schema: serde_json::Value = serde_json::from_str(&text.unwrap()).unwrap();
    for (definition, keys) in [
        ("entry", load::ENTRY_KEYS),
        ("by", load::BY_KEYS),
        ("kinds", load::KIND_KEYS),
        ("webhook", webhook::WEBHOOK_KEYS),
        ("storageClass", load::CLASS_KEYS),
        ("times", learned::TIMES_KEYS),
        ("timesOn", learned::CLASS_TIMES_KEYS),
        ("seen", learned::SEEN_KEYS),
        ("phase", learned::PHASE_KEYS),
        ("refusal", learned::REFUSAL_KEYS),
    ] {
        let properties = schema["definitions"][definition]["properties"].as_object();
        let mut known: Vec<&str> = properties.unwrap().keys().map(String::as_str).collect();
        let mut read = keys.to_vec();
        known.sort_unstable();
        read.sort_unstable();
        assert_eq!(known, read, "{definition}");
    }
}

#[test]
fn a_chart_that_is_switched_off_is_named_only_where_nothing_else_brings_it() {
    let kind = GroupKind::new("snapshot.storage.k8s.io", "VolumeSnapshot");
    let by = |platform| {
        let node = NodeFacts::from(Some(platform)).without(["rke2-snapshot-controller-crd"]);
        let provider = Knowledge::shipped().provider_of_kind(&kind, &node);
        provider.unwrap().by
    };
    assert_eq!(by(Platform::Harvester), "Harvester's CSI snapshotter");
    assert_eq!(
        by(Platform::Rke2),
        "RKE2's chart rke2-snapshot-controller-crd"
    );
}

const LEARNED: &str = "\
apiVersion: windrow.dev/v1
kind: Knowledge
metadata: {name: learned}
entries:
  - name: chart-widgets
    by: {chart: widgets}
    versions: \">=1.4.2 <1.4.3\"
    kinds: [{group: widgets.example.com, namespaced: [Widget]}]
    times: {p5: 12s, p25: 15s, half: 20s, p75: 28s, p95: 1m}
    seen: {boots: 13, of: 14, last: 2026-11-23}
    source: learned from 14 boots
phases:
  - phase: api
    platform: harvester
    versions: \">=1.7.0 <1.7.1\"
    hardware: 16cpu-64g-nvme
    installed: true
    times: {p5: 1m, p25: 80s, half: 90s, p75: 2m, p95: 3m}
    seen: {boots: 14, of: 14, last: 2026-11-23}
refusals:
  - kind: {group: cert-manager.io, kind: Certificate}
    said: failed calling webhook
    seen: {boots: 3, of: 14, last: 2026-11-20}
boots: |
  {\"id\":\"3f2a\"}
";

fn loaded(text: &str) -> (Knowledge, Vec<String>) {
    let mut knowledge = Knowledge::default();
    let wrong = load::add_text(&mut knowledge, "learned.yaml", text);
    (knowledge, wrong.iter().map(ToString::to_string).collect())
}

#[test]
fn what_was_learned_is_read_with_its_times_and_its_boots() {
    let (knowledge, wrong) = loaded(LEARNED);
    assert_eq!(wrong, [""; 0]);
    let entry = &knowledge.entries()[0];
    let seen = entry.seen.unwrap();
    assert_eq!((seen.boots, seen.of), (13, 14));
    assert_eq!(seen.last, jiff::civil::date(2026, 11, 23));
    assert_eq!(entry.times.unwrap().p95, Duration::from_secs(60));
    let phase = &knowledge.phases()[0];
    assert!(phase.installed && phase.hardware.as_deref() == Some("16cpu-64g-nvme"));
    assert_eq!(phase.times.p25, Duration::from_secs(80));
    assert_eq!(
        knowledge.refusals()[0].kind,
        GroupKind::new("cert-manager.io", "Certificate")
    );
}

#[test]
fn everything_that_is_wrong_with_what_was_learned_is_told_at_its_line() {
    let text = LEARNED
        .replace("boots: 13, of: 14", "boots: 15, of: 14")
        .replace("p25: 80s", "p25: 8m")
        .replace("phase: api", "phase: apy")
        .replace("last: 2026-11-20", "last: yesterday");
    let (knowledge, wrong) = loaded(&text);
    assert!(knowledge.entries().is_empty() && knowledge.phases().is_empty());
    assert!(knowledge.refusals().is_empty());
    let lines: Vec<&str> = wrong
        .iter()
        .map(|one| one.split(' ').next().unwrap())
        .collect();
    assert_eq!(
        lines,
        [
            "learned.yaml:10:",
            "learned.yaml:13:",
            "learned.yaml:18:",
            "learned.yaml:23:"
        ],
        "{wrong:#?}"
    );
}

#[test]
fn boots_are_left_out_and_everything_behind_them_keeps_its_line() {
    let wrong = LEARNED.replace(
        "boots: |\n  {\"id\":\"3f2a\"}\n",
        "boots: |\n  {\"id\":\"3f2a\"}\n\n  {\"id\":\"4b\"}\nphase: []\n",
    );
    let short = without_boots(wrong.clone());
    assert!(!short.contains("3f2a") && !short.contains("4b"), "{short}");
    let (before, after) = (loaded(&wrong), loaded(&short));
    assert_eq!(before.1, after.1);
    assert!(!after.1.is_empty(), "the key that is wrong is told");
    assert_eq!(loaded(&without_boots(LEARNED.to_owned())).1, [""; 0]);
    let none = "boots: [a]\nkind: Knowledge\n".to_owned();
    assert_eq!(without_boots(none.clone()), none);
}

#[test]
fn a_copy_of_a_shipped_file_is_recognised() {
    let (_, text) = SHIPPED[0];
    assert!(is_shipped(text) && !is_shipped(&text[1..]));
}

#[test]
fn groups_kinds_and_names_that_there_cannot_be_are_errors_with_their_line() {
    let entry = "  - name: a\n    by: {chart: a}\n    source: a v1\n    kinds:\n      - group: example.com/v1\n        namespaced: [Widget, a b]\n    groups: [Example.com]\n    namespaces: [a_b]\n    objects:\n      - {kind: Secret, namespace: B, name: a_b}\n";
    let errors = errors_of(entry);
    for (line, begins) in [
        (9, "`group`: `example.com/v1` has a version"),
        (10, "`namespaced`: `a b` is not a valid kind"),
        (11, "`groups`: `Example.com` is not a valid API group"),
        (12, "`namespaces`: such a name"),
        (14, "`name`: such a name"),
        (14, "`namespace`: such a name"),
    ] {
        let begins = format!("site.yaml:{line}: {begins}");
        let found = errors.iter().any(|error| error.starts_with(&begins));
        assert!(found, "{begins} in {errors:#?}");
    }
    assert_eq!(errors.len(), 6);
}

#[test]
fn what_harvester_brings_may_come_where_its_platform_is_only_assumed() {
    let kind = GroupKind::new("harvesterhci.io", "VirtualMachineImage");
    let provider = |node: &NodeFacts| Knowledge::shipped().provider_of_kind(&kind, node);
    let rke2 = NodeFacts::from(Some(Platform::Rke2));
    assert_eq!(provider(&rke2), None);
    let provider = provider(&rke2.assumed()).unwrap();
    assert_eq!(
        provider.condition.as_deref(),
        Some("the node runs Harvester")
    );
}

#[test]
fn a_kind_of_the_platforms_groups_is_unknown_on_a_release_that_was_not_read() {
    let condition = |group: &str, kind: &str, node: &NodeFacts| {
        let kind = GroupKind::new(group, kind);
        let provider = Knowledge::shipped().provider_of_kind(&kind, node);
        provider.map(|provider| provider.condition.is_some())
    };
    let harvester = NodeFacts::from(Some(Platform::Harvester));
    let unread = |node: &NodeFacts| node.clone().with_unread_release(Some("it".to_owned()));
    for (group, kind) in [
        ("backup.kubevirt.io", "VirtualMachineBackup"),
        ("any.harvesterhci.io", "Thing"),
        ("batch", "Thing"),
    ] {
        assert_eq!(condition(group, kind, &harvester), None, "{kind}");
        assert_eq!(condition(group, kind, &unread(&harvester)), Some(true));
    }
    let rke2 = NodeFacts::from(Some(Platform::Rke2));
    let on_rke2 = |node| condition("backup.kubevirt.io", "VirtualMachineBackup", node);
    assert_eq!(on_rke2(&unread(&rke2)), None);
    let others = condition("example.com", "Thing", &unread(&harvester));
    assert_eq!(others, None);
    let known = condition("kubevirt.io", "VirtualMachine", &unread(&harvester));
    assert_eq!(known, Some(false));
}

#[test]
fn the_experimental_upgrade_manager_brings_upgrade_plans_since_v1_8() {
    let kind = GroupKind::new("management.harvesterhci.io", "UpgradePlan");
    let condition = |version: &str| {
        let node = NodeFacts::from(Some(Platform::Harvester)).with_harvester(Some(version));
        let provider = Knowledge::shipped().provider_of_kind(&kind, &node)?;
        provider.condition
    };
    assert_eq!(condition("v1.7.3"), None);
    let asks = "the addon harvester-upgrade-manager is enabled";
    assert_eq!(condition("v1.8.2").as_deref(), Some(asks));
}
