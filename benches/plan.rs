//! How long a plan takes: reading, examining and linking documents, on one core.
//!
//! The aim is 10,000 documents (about 30 MB) in half a second, growing linearly.

use std::hint::black_box;
use std::sync::Arc;

use criterion::{BenchmarkId, Criterion, Throughput, criterion_group, criterion_main};
use windrow_model::manifest::{self, FileContent, ReadLimits};
use windrow_plan::rules::{Platform, RuleSet};
use windrow_plan::{self as plan, SourceMap};

/// One document in ten brings a kind, the others are a mix of what people really ship; every
/// document is about 3 kB, a file has ten of them.
fn directory(documents: usize) -> Vec<(String, Vec<u8>)> {
    (0..documents / 10)
        .map(|file| {
            let mut text = String::new();
            for document in 0..10 {
                text.push_str("---\n");
                text.push_str(&one(file, document));
            }
            (format!("{file:05}.yaml"), text.into_bytes())
        })
        .collect()
}

fn one(file: usize, document: usize) -> String {
    match document {
        0 => crd(file),
        1 => format!("apiVersion: v1\nkind: Namespace\nmetadata: {{name: tenant-{file}}}\n"),
        2..=4 => config_map(file, document),
        5..=7 => deployment(file, document),
        _ => format!(
            "apiVersion: g{}.example.com/v1\nkind: Widget\nmetadata: {{name: w-{document}, namespace: tenant-{file}}}\nspec:\n{}",
            // Of another file, so that there are edges.
            (file * 7 + document) % 100,
            padding(40),
        ),
    }
}

fn crd(file: usize) -> String {
    let mut text = format!(
        "apiVersion: apiextensions.k8s.io/v1\nkind: CustomResourceDefinition\nmetadata:\n  name: widgets.g{file}.example.com\nspec:\n  group: g{file}.example.com\n  names: {{kind: Widget, plural: widgets}}\n  scope: Namespaced\n  versions:\n  - name: v1\n    served: true\n    storage: true\n    schema:\n      openAPIV3Schema:\n        type: object\n        properties:\n"
    );
    for field in 0..90 {
        text.push_str(&format!(
            "          field{field}:\n            description: The {field}th thing that can be said about a widget.\n            type: string\n"
        ));
    }
    text
}

fn config_map(file: usize, document: usize) -> String {
    format!(
        "apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: settings-{document}\n  namespace: tenant-{file}\ndata:\n{}",
        padding(40)
    )
}

fn padding(lines: usize) -> String {
    (0..lines)
        .map(|line| {
            format!(
                "  key-{line}: some value that is about as long as values usually are, {line}\n"
            )
        })
        .collect()
}

fn deployment(file: usize, document: usize) -> String {
    let mut text = format!(
        "apiVersion: apps/v1\nkind: Deployment\nmetadata:\n  name: app-{document}\n  namespace: tenant-{file}\nspec:\n  replicas: 2\n  selector: {{matchLabels: {{app: app-{document}}}}}\n  template:\n    metadata: {{labels: {{app: app-{document}}}}}\n    spec:\n      serviceAccountName: default\n      volumes:\n      - name: settings\n        configMap: {{name: settings-2}}\n      containers:\n      - name: main\n        image: registry.example.com/app:1.2.3\n        envFrom:\n        - configMapRef: {{name: settings-3}}\n        env:\n"
    );
    for variable in 0..50 {
        text.push_str(&format!(
            "        - name: VARIABLE_{variable}\n          value: \"{variable} and more\"\n"
        ));
    }
    text
}

fn plan(files: &[(String, Vec<u8>)], rules: &RuleSet) -> usize {
    let examined: Vec<Arc<plan::Examined>> = files
        .iter()
        .map(|(path, bytes)| {
            let content = FileContent::Bytes(bytes.clone());
            let file = manifest::read(path, &content, &ReadLimits::default());
            Arc::new(plan::examine(
                &file,
                SourceMap::itself(path),
                rules,
                Some(Platform::Rke2),
            ))
        })
        .collect();
    plan::link(&examined, rules, Some(Platform::Rke2))
        .order
        .len()
}

fn benchmark(criterion: &mut Criterion) {
    let rules = RuleSet::shipped();
    let mut group = criterion.benchmark_group("plan");
    group.sample_size(10);
    for documents in [1_000, 10_000, 100_000] {
        let files = directory(documents);
        let bytes = files.iter().map(|(_, bytes)| bytes.len() as u64).sum();
        group.throughput(Throughput::Bytes(bytes));
        group.bench_with_input(
            BenchmarkId::from_parameter(documents),
            &files,
            |bencher, files| {
                bencher.iter(|| black_box(plan(files, &rules)));
            },
        );
    }
    group.finish();
}

criterion_group!(benches, benchmark);
criterion_main!(benches);
