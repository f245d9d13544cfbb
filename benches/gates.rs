//! Feature gates: 50 gates over 20 drop-ins, from texts to findings. Aim: under 5 ms.

use std::hint::black_box;

use criterion::{Criterion, criterion_group, criterion_main};
use windrow_gates::catalogue::{Catalogue, GateStanding};
use windrow_gates::{TargetVersion, assess};
use windrow_plan::rke2::config::{ConfigLayer, Rke2ConfigFile, merge};
use windrow_plan::version::Minor;

fn drop_ins() -> Vec<Rke2ConfigFile> {
    let minor = Minor::v1(35);
    let names: Vec<&str> = Catalogue::builtin()
        .gates()
        .filter(|gate| matches!(gate.at(minor), GateStanding::Known(_)))
        .map(|gate| gate.name())
        .take(50)
        .collect();
    (0..20)
        .map(|number| {
            let mut text = String::from("token: not-read\ntls-san:\n- a.example\n");
            let component = ["kube-apiserver", "kubelet"][number % 2];
            text.push_str(&format!("{component}-arg+:\n- v={number}\n"));
            for name in names.iter().skip(number).step_by(20) {
                text.push_str(&format!("- \"feature-gates+={name}=true\"\n"));
            }
            let path = format!("config.yaml.d/{number:02}-part.yaml");
            Rke2ConfigFile::new(ConfigLayer::DropIn, path, text)
        })
        .collect()
}

fn gates(criterion: &mut Criterion) {
    let files = drop_ins();
    let target = TargetVersion::Known(Minor::v1(35).into());
    criterion.bench_function("check of 50 gates over 20 drop-ins", |bencher| {
        bencher.iter(|| assess(&merge(black_box(&files)), None, &target));
    });
}

criterion_group!(benches, gates);
criterion_main!(benches);
