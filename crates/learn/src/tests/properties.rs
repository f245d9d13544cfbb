//! With any boots: the file loads, gives the same result again, and does not depend on how the boots were merged.

use jiff::Timestamp;
use proptest::collection::vec;
use proptest::option;
use proptest::prelude::*;
use windrow_decide::flight::Appeared;
use windrow_model::manifest::{GroupKind, ObjectRef};
use windrow_plan::readiness::node::{NodeRole, Phase};
use windrow_plan::rules::Platform;
use windrow_replay::BootState;

use super::loaded;
use crate::bounds::complaint;
use crate::row::{
    ObservedBoot, ObservedBringer, ObservedPhase, ObservedRefusal, ObservedThing, PhaseName,
    ROW_FORMAT, Who,
};
use crate::{BootSet, KnowledgeFile, Summary};

/// Names that are also words or numbers in YAML. Some of them are read differently by YAML or a terminal, or are not
/// possible for any object, or for some kinds.
fn name() -> impl Strategy<Value = String> {
    let words = [
        "widgets",
        "no",
        "on",
        "null",
        "1e3",
        "0x1f",
        "rke2-canal",
        "cert-manager",
        "y",
    ];
    let odd = [
        "1.5",
        "a.b-c",
        "a..b",
        "A",
        "a:b",
        "a_b",
        LONG,
        "a: b",
        "#a",
        "a\nb",
        "\u{1b}[31m",
        "- a",
    ];
    prop_oneof![
        9 => proptest::sample::select(words.to_vec()),
        1 => proptest::sample::select(odd.to_vec()),
    ]
    .prop_map(str::to_owned)
}

/// One character longer than a label may be.
const LONG: &str = "a123456789b123456789c123456789d123456789e123456789f123456789g123";

fn kind() -> impl Strategy<Value = GroupKind> {
    let groups = [
        "example.com",
        "widgets.example.com",
        "cert-manager.io",
        "harvesterhci.io",
        "kubevirt.io",
        "apps",
        "",
        "a..example.com",
        "a.-b.example.com",
    ];
    let kinds = [
        "Widget",
        "Certificate",
        "Setting",
        "VirtualMachine",
        "No",
        "widget",
    ];
    (
        proptest::sample::select(groups.to_vec()),
        proptest::sample::select(kinds.to_vec()),
    )
        .prop_map(|(group, kind)| GroupKind::new(group, kind))
}

fn what() -> impl Strategy<Value = Appeared> {
    prop_oneof![
        4 => (kind(), any::<bool>()).prop_map(|(kind, namespaced)| Appeared::Kind { kind, namespaced }),
        1 => name().prop_map(|name| Appeared::Object(ObjectRef::cluster("", "Namespace", name))),
        1 => name().prop_map(|name| Appeared::Object(ObjectRef::cluster("storage.k8s.io", "StorageClass", name))),
        1 => (name(), name())
            .prop_map(|(space, name)| Appeared::Object(ObjectRef::namespaced("", "LimitRange", space, name))),
    ]
}

fn who() -> impl Strategy<Value = Who> {
    let version = || {
        option::of(proptest::sample::select(vec![
            "1.2.3",
            "v1.3",
            "104.1.0+up57.0.3",
            "x",
        ]))
    };
    let repository = option::of(proptest::sample::select(vec![
        "a.example.com/x",
        "b.example.com",
    ]));
    prop_oneof![
        4 => (name(), version(), repository, any::<bool>()).prop_map(|(name, version, repository, manifest)| Who::Chart {
            name,
            version: version.map(str::to_owned),
            repository: repository.map(str::to_owned),
            manifest,
        }),
        1 => (name(), name()).prop_map(|(name, namespace)| Who::Release { name, namespace }),
        1 => name().prop_map(|bundle| Who::Fleet { bundle }),
        1 => kind().prop_map(|kind| Who::Owner { kind }),
        1 => Just(Who::Unknown),
    ]
}

fn bringer() -> impl Strategy<Value = ObservedBringer> {
    let ms = || option::of(0..200_000_000u64);
    let thing =
        || (what(), ms(), ms()).prop_map(|(what, after, api)| ObservedThing { what, after, api });
    (who(), any::<bool>(), vec(thing(), 0..4)).prop_map(|(by, done, things)| ObservedBringer {
        by,
        done,
        things,
    })
}

fn phase() -> impl Strategy<Value = ObservedPhase> {
    let names = Phase::ALL.to_vec();
    (
        proptest::sample::select(names),
        0..700_000_000u64,
        any::<bool>(),
    )
        .prop_map(|(name, ms, open)| ObservedPhase {
            phase: PhaseName(name),
            ms,
            open,
        })
}

fn refusal() -> impl Strategy<Value = ObservedRefusal> {
    (kind(), ".{0,40}", option::of("[ -~]{1,20}")).prop_map(|(kind, said, cause)| ObservedRefusal {
        kind,
        said,
        cause,
    })
}

/// Few ids, so that the same boot occurs more than once.
fn boot() -> impl Strategy<Value = ObservedBoot> {
    let platform = option::of(prop_oneof![Just(Platform::Rke2), Just(Platform::Harvester)]);
    let end = prop_oneof![
        Just(BootState::Ready),
        Just(BootState::Underway),
        Just(BootState::Failed)
    ];
    let flags = (any::<bool>(), any::<bool>(), any::<bool>());
    let parts = (
        vec(phase(), 0..3),
        vec(bringer(), 0..4),
        vec(refusal(), 0..2),
    );
    (0..12i64, platform, end, flags, parts, option::of(name())).prop_map(
        |(
            number,
            platform,
            end,
            (installed, cut, watched),
            (phases, brought, refusals),
            hardware,
        )| ObservedBoot {
            format: ROW_FORMAT,
            at: Timestamp::from_second(1_767_225_600 + number * 4000).unwrap(),
            id: format!("{number:016x}"),
            windrow: "0.1.0".to_owned(),
            platform,
            kubernetes: Some("v1.35.3+rke2r1".to_owned()),
            harvester: (number % 2 == 0).then(|| "v1.7.0".to_owned()),
            role: NodeRole::FirstServer,
            hardware,
            installed,
            cut,
            watched,
            end,
            phases,
            polls: std::vec![u64::try_from(number).unwrap() * 1000],
            brought,
            refusals,
        },
    )
}

/// Boots that are not rejected.
fn boots() -> impl Strategy<Value = Vec<ObservedBoot>> {
    vec(boot(), 0..14).prop_map(|boots| {
        let plausible = boots.into_iter().filter(|boot| complaint(boot).is_none());
        plausible.collect()
    })
}

fn text(boots: &[ObservedBoot]) -> String {
    Summary::of_boots(&boots.iter().cloned().collect()).text()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn the_file_of_any_boots_loads_with_every_entry(boots in boots()) {
        let summary = Summary::of_boots(&boots.into_iter().collect());
        let text = summary.text();
        let rules = loaded(&text);
        let all = rules.knowledge.entries().iter();
        let learned: Vec<_> = all.filter(|entry| entry.name.starts_with("learned/")).collect();
        prop_assert_eq!(learned.len(), summary.entries.len());
        for (read, made) in learned.iter().zip(&summary.entries) {
            prop_assert_eq!(&read.name, &format!("learned/{}", made.name));
            prop_assert_eq!(read.times, made.times);
            prop_assert_eq!(read.seen, Some(made.seen));
            prop_assert_eq!(read.brings.kinds.len() + read.brings.objects.len(), made.things.len());
            prop_assert!(made.seen.boots * 2 >= made.seen.of && made.seen.boots > 0);
        }
        prop_assert_eq!(rules.knowledge.phases().len(), summary.phases.len());
        prop_assert_eq!(rules.knowledge.refusals().len(), summary.refusals.len());
    }

    #[test]
    fn any_order_any_grouping_and_any_repetition_make_the_same_bytes(boots in boots(), cut in 0..14usize, turn in 0..14usize) {
        let whole = text(&boots);
        let mut turned = boots.clone();
        turned.rotate_left(turn % boots.len().max(1));
        turned.extend(boots.iter().rev().cloned());
        prop_assert_eq!(&text(&turned), &whole);
        // Through files, in two groups that overlap.
        let middle = cut % (boots.len() + 1);
        let of_file = |part: &[ObservedBoot]| KnowledgeFile::read(&text(part)).unwrap().boots.unwrap();
        let mut merged: BootSet = of_file(&boots[middle..]).into_iter().collect();
        for boot in of_file(&boots[..(middle + 1).min(boots.len())]) {
            merged.add(boot);
        }
        prop_assert_eq!(&Summary::of_boots(&merged).text(), &whole);
    }
}
