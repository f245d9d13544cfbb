//! How long one simulated bootstrap takes. The aims are those of `windrow check --details`: 100 seeds of a Harvester configuration under
//! 0.5 s, 100 seeds of 2,000 documents on five servers under 10 s. Each seed is two bootstraps, with Windrow and without it.

use std::hint::black_box;
use std::ops::RangeFrom;
use std::sync::Arc;

use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use jiff::Timestamp;
use windrow_plan::rules::RuleSet;
use windrow_simulate::{
    BootstrapVerdict, Faults, JoinRole, JoiningNode, PreparedSetup, Run, Scenario, Setup,
    SimulatedDirectory, with_windrow,
};

/// 2026-01-01T00:00:00Z
const START: Timestamp = Timestamp::constant(1_767_225_600, 0);

fn benchmark(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("simulated bootstrap of first-vm");
    group.throughput(Throughput::Elements(1));
    // As a rehearsal does it: files are read once for all seeds.
    group.bench_function("without Windrow", |bencher| {
        let (setup, known) = read(Setup::first_vm(START));
        let mut seeds = 0..;
        bencher.iter(|| black_box(known.without_windrow(&setup, next(&mut seeds))));
    });
    group.bench_function("with Windrow", |bencher| {
        let (setup, known) = read(Setup::first_vm(START));
        let mut seeds = 0..;
        bencher.iter(|| black_box(known.with_windrow(&setup, next(&mut seeds))));
    });
    for (name, faults) in [
        ("with Windrow, its files read each time", Faults::NONE),
        ("with Windrow and every fault", Faults::ALL),
    ] {
        group.bench_function(name, |bencher| {
            let setup = Setup::first_vm(START);
            let mut seeds = 0..;
            bencher.iter(|| black_box(with_windrow(&setup, &faults, next(&mut seeds))));
        });
    }
    group.finish();

    let mut group = criterion.benchmark_group("simulated bootstrap of RKE2 with two files");
    group.throughput(Throughput::Elements(1));
    group.bench_function("with Windrow", |bencher| {
        let (setup, known) = read(single());
        let mut seeds = 0..;
        bencher.iter(|| black_box(known.with_windrow(&setup, next(&mut seeds))));
    });
    group.finish();

    let mut group = criterion.benchmark_group("simulated bootstrap of RKE2 with ten files");
    group.throughput(Throughput::Elements(1));
    group.bench_function("with Windrow", |bencher| {
        let (setup, known) = read(ordinary());
        let mut seeds = 0..;
        bencher.iter(|| black_box(known.with_windrow(&setup, next(&mut seeds))));
    });
    group.finish();

    let mut group =
        criterion.benchmark_group("simulated bootstrap of 2,000 documents, five servers");
    group.sample_size(10);
    group.throughput(Throughput::Elements(1));
    group.bench_function("with Windrow", |bencher| {
        let (setup, known) = read(fleet());
        let mut seeds = 0..;
        bencher.iter(|| black_box(known.with_windrow(&setup, next(&mut seeds))));
    });
    group.finish();
}

/// A setup whose files are read, and which comes up with Windrow.
fn read(setup: Setup) -> (Setup, PreparedSetup) {
    let known = PreparedSetup::read(&setup);
    complete(&known.with_windrow(&setup, 0));
    (setup, known)
}

fn next(seeds: &mut RangeFrom<u64>) -> u64 {
    seeds.next().unwrap_or_default()
}

fn complete(run: &Run) {
    assert_eq!(
        run.outcome.verdict,
        BootstrapVerdict::Complete,
        "the bootstrap completes, or this measures nothing"
    );
}

/// RKE2 alone, and an object that waits for its namespace in another file.
fn single() -> Setup {
    let mut files = SimulatedDirectory::new();
    let namespace = "apiVersion: v1\nkind: Namespace\nmetadata: {name: shop}\n";
    let object = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a, namespace: shop}\n";
    files.write("b.yaml", namespace, START);
    files.write("a.yaml", object, START);
    setup(files, Vec::new())
}

/// What an image of an ordinary server carries: a namespace, a kind, a class, a chart and an application, in
/// an order in which hardly any of it can be applied at first.
fn ordinary() -> Setup {
    let mut files = SimulatedDirectory::new();
    for (path, text) in ORDINARY {
        files.write(*path, *text, START);
    }
    setup(files, Vec::new())
}

const ORDINARY: &[(&str, &str)] = &[
    (
        "00-web.yaml",
        "apiVersion: apps/v1\nkind: Deployment\nmetadata: {name: web, namespace: shop}\nspec: {replicas: 2, \
         selector: {matchLabels: {app: web}}, template: {metadata: {labels: {app: web}}, spec: {containers: \
         [{name: web, image: web}]}}}\n---\napiVersion: v1\nkind: Service\nmetadata: {name: web, namespace: \
         shop}\nspec: {ports: [{port: 80}], selector: {app: web}}\n",
    ),
    (
        "10-settings.yaml",
        "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: web, namespace: shop}\ndata: {colour: blue}\n",
    ),
    (
        "20-widget.yaml",
        "apiVersion: example.dev/v1\nkind: Widget\nmetadata: {name: one, namespace: shop}\nspec: {size: 1}\n",
    ),
    (
        "30-chart.yaml",
        "apiVersion: helm.cattle.io/v1\nkind: HelmChart\nmetadata: {name: store, namespace: kube-system}\n\
         spec: {chart: store, repo: 'https://charts.example.dev'}\n",
    ),
    (
        "40-after-the-chart.yaml",
        "apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: store\n  namespace: shop\n  annotations: \
         {windrow.dev/depends-on: helm.cattle.io/namespaces/kube-system/HelmChart/store}\n",
    ),
    (
        "50-claim.yaml",
        "apiVersion: v1\nkind: PersistentVolumeClaim\nmetadata: {name: data, namespace: shop}\nspec: \
         {storageClassName: local, accessModes: [ReadWriteOnce], resources: {requests: {storage: 1Gi}}}\n",
    ),
    (
        "60-database.yaml",
        "apiVersion: apps/v1\nkind: StatefulSet\nmetadata: {name: db, namespace: shop}\nspec: {serviceName: \
         db, selector: {matchLabels: {app: db}}, template: {metadata: {labels: {app: db}}, spec: {containers: \
         [{name: db, image: db}], volumes: [{name: data, persistentVolumeClaim: {claimName: data}}]}}}\n",
    ),
    (
        "70-class.yaml",
        "apiVersion: storage.k8s.io/v1\nkind: StorageClass\nmetadata: {name: local}\nprovisioner: \
         example.dev/local\n",
    ),
    (
        "80-kind.yaml",
        "apiVersion: apiextensions.k8s.io/v1\nkind: CustomResourceDefinition\nmetadata: {name: \
         widgets.example.dev}\nspec: {group: example.dev, scope: Namespaced, names: {kind: Widget, plural: \
         widgets}, versions: [{name: v1, served: true, storage: true, schema: {openAPIV3Schema: {type: \
         object, x-kubernetes-preserve-unknown-fields: true}}}]}\n",
    ),
    (
        "90-namespace.yaml",
        "apiVersion: v1\nkind: Namespace\nmetadata: {name: shop}\n",
    ),
];

/// Forty files of fifty documents on each of five servers; each file but the first needs the namespace
/// of the one before it.
fn fleet() -> Setup {
    let mut files = SimulatedDirectory::new();
    for file in 0..40 {
        let mut text =
            format!("apiVersion: v1\nkind: Namespace\nmetadata: {{name: team-{file}}}\n");
        for document in 0..49 {
            let (api, kind, team, rest) = match document % 4 {
                0 => ("v1", "ConfigMap", file.max(1) - 1, "data: {key: value}"),
                1 => (
                    "apps/v1",
                    "Deployment",
                    file,
                    "spec: {replicas: 2, selector: {matchLabels: {app: a}}, template: {metadata: \
                     {labels: {app: a}}, spec: {containers: [{name: main, image: app}]}}}",
                ),
                2 => ("v1", "Service", file, "spec: {ports: [{port: 80}]}"),
                _ => ("v1", "Secret", file, "stringData: {a: b}"),
            };
            text += &format!(
                "---\napiVersion: {api}\nkind: {kind}\nmetadata: {{name: n{file}-{document}, \
                 namespace: team-{team}}}\n{rest}\n"
            );
        }
        files.write(format!("{file:02}.yaml"), text, START);
    }
    let joins = (2..=5)
        .map(|number| JoiningNode {
            name: format!("n{number}"),
            role: JoinRole::Server,
            files: files.clone(),
            changes: Vec::new(),
            settings: Arc::default(),
            rules: Arc::new(RuleSet::shipped()),
        })
        .collect();
    setup(files, joins)
}

fn setup(files: SimulatedDirectory, joins: Vec<JoiningNode>) -> Setup {
    Setup {
        scenario: Scenario::rke2(START),
        files,
        changes: Vec::new(),
        settings: Arc::default(),
        rules: Arc::new(RuleSet::shipped()),
        joins,
    }
}

criterion_group!(benches, benchmark);
criterion_main!(benches);
