//! How long one decision takes with many held documents. Everything is decided each time, whatever changed. The aim is 1 ms for
//! 2,000.

use std::hint::black_box;

use criterion::{BenchmarkId, Criterion, criterion_group, criterion_main};
use jiff::Timestamp;
use windrow_decide::settings::Settings;
use windrow_decide::{ClusterEvent, Directory, FileChange, Ledger, StagingState};
use windrow_model::manifest::{FileContent, GroupKind};
use windrow_plan::readiness::KindSeen;
use windrow_plan::rules::{Platform, RuleSet};

/// A directory with `documents` custom objects of kinds that are never served, ten to a file. All are held, and all of
/// that is
/// reported already.
fn held_documents(documents: usize, now: Timestamp) -> StagingState {
    let files = (0..documents / 10)
        .map(|file| {
            let text: String = (0..10)
                .map(|document| {
                    format!("---\napiVersion: g{file}.example.com/v1\nkind: Widget\nmetadata: {{name: w-{document}}}\n")
                })
                .collect();
            FileChange {
                path: format!("{file:05}.yaml").into(),
                content: Some(FileContent::Bytes(text.into_bytes()).into()),
            }
        })
        .collect();
    let mut state = StagingState::new(
        Settings::default(),
        RuleSet::shipped(),
        Some(Platform::Rke2),
        Ledger::default(),
        now,
    );
    state.take_directory(Directory {
        files,
        markers: Vec::new(),
    });
    state.take_event(ClusterEvent::ApiReachable, now);
    state.take_event(ClusterEvent::Addons(Default::default()), now);
    for action in state.decide(now).actions {
        state.record_done(&action);
    }
    state
}

fn benchmark(criterion: &mut Criterion) {
    let now: Timestamp = "2026-01-01T00:00:00Z".parse().expect("a timestamp");
    for (name, change) in [
        (
            "decide, one kind changed",
            one_kind as fn(u64) -> ClusterEvent,
        ),
        ("decide, kube-apiserver went or came", kube_apiserver),
    ] {
        let mut group = criterion.benchmark_group(name);
        for documents in [200, 2_000, 20_000] {
            let mut state = held_documents(documents, now);
            let held = state.decide(now).status.staging.held.len();
            assert_eq!(
                held,
                documents / 10,
                "everything is held, or this measures nothing"
            );
            let mut number = 0;
            group.bench_function(BenchmarkId::from_parameter(documents), |bencher| {
                bencher.iter(|| {
                    number += 1;
                    state.take_event(change(number), now);
                    black_box(state.decide(now))
                });
            });
        }
        group.finish();
    }
}

/// The state of the first file's kind changes, and with it why the file waits.
fn one_kind(number: u64) -> ClusterEvent {
    let kind = GroupKind::new("g0.example.com", "Widget");
    let seen = match number % 2 {
        0 => KindSeen::NotServed,
        _ => KindSeen::Unknown {
            why: "the server is not able to handle the request".to_owned(),
        },
    };
    ClusterEvent::Kind(kind, seen)
}

/// Every file waits for another reason.
fn kube_apiserver(number: u64) -> ClusterEvent {
    match number % 2 {
        0 => ClusterEvent::ApiReachable,
        _ => ClusterEvent::ApiUnreachable {
            why: "connection refused".to_owned(),
        },
    }
}

criterion_group!(benches, benchmark);
criterion_main!(benches);
