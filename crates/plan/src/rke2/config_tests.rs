use proptest::prelude::*;

use super::*;

const API: &str = "kube-apiserver-arg";

fn drop_in(name: &str, text: &str) -> Rke2ConfigFile {
    Rke2ConfigFile::new(ConfigLayer::DropIn, format!("config.yaml.d/{name}"), text)
}

fn main_file(text: &str) -> Rke2ConfigFile {
    Rke2ConfigFile::new(ConfigLayer::Main, "config.yaml", text)
}

fn texts(effective: &MergedConfig, key: &str) -> Vec<String> {
    effective
        .list(key)
        .iter()
        .map(|item| item.text.clone())
        .collect()
}

#[test]
fn config_yaml_is_read_first_and_drop_ins_in_byte_order() {
    let files = [
        drop_in("Z.yaml", "kube-apiserver-arg+: z"),
        drop_in("a.YML", "kube-apiserver-arg+: a"),
        drop_in("100.yaml", "kube-apiserver-arg+: hundred"),
        drop_in("99.yaml", "kube-apiserver-arg+: ninety-nine"),
        drop_in(".hidden.yaml", "kube-apiserver-arg+: hidden"),
        drop_in("notes.txt", "kube-apiserver-arg: never"),
        drop_in("backup.yaml.bak", "kube-apiserver-arg: never"),
        drop_in("yaml", "kube-apiserver-arg: never"),
        main_file("kube-apiserver-arg: main"),
    ];
    let merged = merge(&files);
    assert_eq!(
        texts(&merged, API),
        ["main", "hidden", "hundred", "ninety-nine", "z", "a"]
    );
    assert_eq!(
        merged.list(API)[1].at,
        Location::line("config.yaml.d/.hidden.yaml", 1)
    );
}

#[test]
fn a_plain_key_without_a_value_wipes_and_one_that_appends_nothing_does_not() {
    let before = || main_file("kube-apiserver-arg: [a]");
    let wiped = merge(&[before(), drop_in("10.yaml", "kube-apiserver-arg:\n")]);
    assert!(!texts(&wiped, API).contains(&"a".to_owned()));
    assert_eq!(wiped.wiped.len(), 1);
    let kept = merge(&[before(), drop_in("10.yaml", "kube-apiserver-arg+:\n")]);
    assert_eq!(texts(&kept, API), ["a"]);
    assert_eq!(kept.wiped.len(), 0);
}

#[test]
fn a_plain_key_replaces_and_wipes_earlier_appends_too() {
    let files = [
        main_file("kube-apiserver-arg: [a]"),
        drop_in("10.yaml", "kube-apiserver-arg+:\n- b\n"),
        drop_in("20.yaml", "x: 1\nkube-apiserver-arg:\n- c\n"),
        drop_in("30.yaml", "kube-apiserver-arg+: [d]"),
    ];
    let merged = merge(&files);
    assert_eq!(texts(&merged, API), ["c", "d"]);
    assert_eq!(merged.wiped.len(), 1);
    assert_eq!(
        merged.wiped[0].by,
        Location::line("config.yaml.d/20.yaml", 2)
    );
    let wiped: Vec<&str> = merged.wiped[0]
        .items
        .iter()
        .map(|item| item.text.as_str())
        .collect();
    assert_eq!(wiped, ["a", "b"]);
}

#[test]
fn scalars_become_lists_when_they_are_appended_and_appending_to_nothing_sets() {
    let files = [
        drop_in("1.yaml", "kubelet-arg+: max-pods=200"),
        drop_in("2.yaml", "kubelet-arg+: v=4"),
        drop_in("3.yaml", "kubelet-arg+: [true, 5]"),
    ];
    assert_eq!(
        texts(&merge(&files), "kubelet-arg"),
        ["max-pods=200", "v=4", "true", "5"]
    );
}

#[test]
fn a_key_that_resembles_a_list_of_arguments_is_a_warning() {
    for key in [
        "kube-apiserver-args",
        "kube_apiserver_arg",
        "kubeApiserverArg",
        "kube-apiserver-args+",
    ] {
        let merged = merge(&[main_file(&format!("a: 1\n{key}: [v=4]"))]);
        assert!(texts(&merged, API).is_empty(), "{key}");
        let found = &merged.findings[0];
        assert_eq!(found.severity, Severity::Warning, "{key}");
        assert_eq!(found.at[0].line, Some(2));
        assert!(
            found.message.contains("did you mean `kube-apiserver-arg`?"),
            "{}",
            found.message
        );
    }
    let merged = merge(&[main_file(
        "kube-apiserver-image: a\nnode-label: [a=b]\ntoken: c",
    )]);
    assert_eq!(merged.findings, []);
}

#[test]
fn a_key_without_a_value_becomes_an_empty_item_that_stops_the_component() {
    for text in [
        "kube-apiserver-arg:",
        "kube-apiserver-arg: null",
        "kube-apiserver-arg: ['']",
        "kube-apiserver-arg: [~]",
    ] {
        let merged = merge(&[main_file(text)]);
        assert_eq!(texts(&merged, API), [""], "{text}");
        assert_eq!(merged.findings.len(), 1, "{text}");
        assert_eq!(merged.findings[0].code, Code::ComponentArgumentInvalid);
        assert!(merged.findings[0].message.contains("--=true"));
    }
    // Something appended to it, or it appended to something, makes it valid.
    let mended = [
        main_file("kube-apiserver-arg:"),
        drop_in("1.yaml", "kube-apiserver-arg+: [a]"),
    ];
    assert_eq!(texts(&merge(&mended), API), ["a"]);
    let appended = [
        main_file("kube-apiserver-arg: [a]"),
        drop_in("1.yaml", "kube-apiserver-arg+:"),
    ];
    assert_eq!(texts(&merge(&appended), API), ["a"]);
    assert_eq!(merge(&[main_file("kube-apiserver-arg: []")]), {
        let mut empty = MergedConfig::default();
        empty.lists.insert(API.to_owned(), Vec::new());
        empty
    });
}

#[test]
fn a_key_that_stands_twice_in_one_file_is_looked_at_twice() {
    let text = "kube-apiserver-arg+: [a]\nkube-apiserver-arg+: [b]\n";
    assert_eq!(texts(&merge(&[main_file(text)]), API), ["a", "b"]);
}

#[test]
fn a_file_that_rke2_cannot_read_is_named_with_its_line_and_the_others_are_merged() {
    let files = [
        main_file("kube-apiserver-arg: [a]"),
        drop_in("10.yaml", "ok: 1\nbad: [1\n"),
        drop_in("20.yaml", "- a\n- b\n"),
        drop_in("30.yaml", "just text"),
        drop_in("40.yaml", "kube-apiserver-arg+: [b]"),
        drop_in("50.yaml", ""),
        drop_in("60.yaml", "# nothing\n"),
        drop_in("70.json.yaml", r#"{"kube-apiserver-arg+": ["c"]}"#),
    ];
    let merged = merge(&files);
    assert_eq!(texts(&merged, API), ["a", "b", "c"]);
    let places: Vec<(String, Option<u32>)> = merged
        .findings
        .iter()
        .map(|finding| {
            assert_eq!(finding.code, Code::ConfigFileRefused);
            (finding.at[0].file.clone(), finding.at[0].line)
        })
        .collect();
    assert_eq!(
        places[1..],
        [
            ("config.yaml.d/20.yaml".to_owned(), Some(1)),
            ("config.yaml.d/30.yaml".to_owned(), Some(1)),
        ]
    );
    assert_eq!(places[0].0, "config.yaml.d/10.yaml");
    assert!(places[0].1.is_some());
}

#[test]
fn what_is_no_configuration_is_tolerated_and_only_the_first_document_counts() {
    let policy = "apiVersion: audit.k8s.io/v1\nkind: Policy\nrules:\n- level: None\n---\nkube-apiserver-arg: [never]\n";
    let merged = merge(&[drop_in("92-harvester-kube-audit-policy.yaml", policy)]);
    assert_eq!(merged, MergedConfig::default());
}

#[test]
fn an_item_is_the_text_that_rke2_makes_of_it() {
    let text =
        "\" kube-apiserver-arg \": [' a=b ', [c=d], 1e3, 1e6, 12345678901234567890, .inf, yes]\n";
    let merged = merge(&[main_file(text)]);
    assert_eq!(
        texts(&merged, API),
        [
            "a=b",
            "c=d",
            "1000",
            "1e+06",
            "12345678901234567890",
            "+Inf",
            "true"
        ]
    );
    assert_eq!(merged.findings, []);
    let merged = merge(&[main_file("kube-apiserver-arg: [[a=b, c=d]]\n")]);
    assert_eq!(texts(&merged, API), ["a=b"]);
    assert_eq!(merged.findings.len(), 1, "the rest of the list is lost");
    // RKE2 reads pairs, and merges none into them.
    let merged = merge(&[main_file("x: &x {kube-apiserver-arg: [a]}\n<<: *x\n~: b\n")]);
    assert_eq!(texts(&merged, API), [""; 0]);
    assert_eq!(merged.findings, []);
}

#[test]
fn every_empty_item_is_named_at_its_line_and_once() {
    let text = "kube-apiserver-arg:\n- ''\n- a\n- ''\nkubelet-arg:\n- ~\n";
    let merged = merge(&[main_file(text)]);
    let lines: Vec<Option<u32>> = merged
        .findings
        .iter()
        .map(|finding| finding.at[0].line)
        .collect();
    assert_eq!(lines, [Some(2), Some(4), Some(6)]);
}

#[test]
fn items_that_are_no_texts_are_named() {
    let merged = merge(&[main_file(
        "kube-apiserver-arg:\n- feature-gates: A=true\n- [x, y]\nkubelet-arg: {a: b}\n",
    )]);
    let lines: Vec<Option<u32>> = merged
        .findings
        .iter()
        .map(|finding| finding.at[0].line)
        .collect();
    assert_eq!(lines, [Some(2), Some(3), Some(4)]);
}

#[test]
fn flags_are_handed_over_in_the_order_of_rke2() {
    let item = |text: &str| ConfigItem {
        text: text.to_owned(),
        at: Location::file("f"),
    };
    let flag = |items: &[&str]| -> Vec<String> {
        let items: Vec<ConfigItem> = items.iter().map(|text| item(text)).collect();
        flag_values(&items, "feature-gates")
            .into_iter()
            .map(|item| item.text)
            .collect()
    };
    assert_eq!(
        flag(&["feature-gates=A=true,B=false", "feature-gates=C=true"]),
        ["A=true,B=false", "C=true"]
    );
    assert_eq!(
        flag(&["--feature-gates+=A=true", "v=4", "feature-gates-=B=true"]),
        ["B=true", "A=true"]
    );
    assert_eq!(flag(&["feature-gates"]), ["true"]);
    assert_eq!(
        flag(&[
            "feature-gate=A=true",
            "Feature-gates=A=true",
            "----feature-gates=A=true"
        ]),
        [""; 0]
    );
    let both = [item("feature_gates=A=true"), item("feature-gates=B=true")];
    let effective = MergedConfig {
        lists: [(API.to_owned(), both.to_vec())].into(),
        ..MergedConfig::default()
    };
    let values: Vec<String> = effective
        .flag(API, "feature-gates")
        .into_iter()
        .map(|item| item.text)
        .collect();
    assert_eq!(values, ["B=true", "A=true"]);
}

#[test]
fn secrets_reach_neither_the_result_nor_any_message() {
    const SECRET: &str = "K10f00d5ecret";
    for text in [
        format!("token: {SECRET}\nagent-token: {SECRET}\nkubelet-arg: [v=1]\n"),
        format!("token: [{SECRET}\n"),
        format!("token: *{SECRET}\n"),
        format!("token: &{SECRET}\n"),
        format!("token: !!int {SECRET}\n"),
        format!("token: !{SECRET}! x\n"),
        format!("token: \"{SECRET}\n"),
        SECRET.to_owned(),
        format!("token: a: {SECRET}\n"),
        format!("? [{SECRET}]\n: x\n"),
        format!("<<: {SECRET}\n"),
    ] {
        let files = [main_file(&text), drop_in("1.yaml", &text)];
        let shown = format!("{:?} {files:?}", merge(&files));
        assert!(!shown.contains(SECRET), "{text}: {shown}");
    }
}

/// The merge according to its rule, over texts that were not parsed, written from the end: the last plain key and all
/// appends after it.
fn reference(pairs: &[(String, bool, Vec<String>)], key: &str) -> Vec<String> {
    let of_key: Vec<_> = pairs.iter().filter(|(own, ..)| own == key).collect();
    let from = of_key
        .iter()
        .rposition(|(_, appends, _)| !appends)
        .unwrap_or(0);
    of_key[from..]
        .iter()
        .flat_map(|(.., items)| items.clone())
        .collect()
}

proptest! {
    #[test]
    fn the_merge_equals_its_rule_read_from_the_end(
        files in prop::collection::btree_map(
            "[.0-9A-Za-z]{1,3}[.]yaml",
            prop::collection::vec((
                prop::sample::select(&["kube-apiserver-arg", "kubelet-arg", "etcd-arg"][..]),
                any::<bool>(),
                prop::collection::vec("[a-z]{1,4}=[a-z]{0,3}", 0..3),
                any::<bool>(),
            ), 0..4),
            0..6,
        ),
    ) {
        let mut pairs = Vec::new();
        let mut given = Vec::new();
        for (name, keys) in &files {
            let mut text = String::new();
            for (key, appends, items, flow) in keys {
                let plus = if *appends { "+" } else { "" };
                if items.is_empty() || *flow {
                    text.push_str(&format!("{key}{plus}: [{}]\n", items.join(", ")));
                } else {
                    text.push_str(&format!("{key}{plus}:\n"));
                    for item in items {
                        text.push_str(&format!("- {item}\n"));
                    }
                }
                pairs.push(((*key).to_owned(), *appends, items.clone()));
            }
            given.push(drop_in(name, &text));
        }
        // A map of names is in byte order, but its files may be passed in any order.
        given.reverse();
        let merged = merge(&given);
        for key in ["kube-apiserver-arg", "kubelet-arg", "etcd-arg"] {
            prop_assert_eq!(texts(&merged, key), reference(&pairs, key));
        }
        prop_assert_eq!(&merged.findings, &[]);
    }

    #[test]
    fn no_text_makes_the_merge_panic(texts in prop::collection::vec("\\PC{0,60}|[-a-z+: \\[\\]{}\n\"'&*!#,]{0,60}", 0..3)) {
        let files: Vec<Rke2ConfigFile> = texts.iter().enumerate().map(|(n, text)| drop_in(&format!("{n}.yaml"), text)).collect();
        let _ = merge(&files);
    }
}

#[test]
fn a_list_that_takes_the_place_of_another_leaves_nothing_of_it() {
    let merged = merge(&[
        drop_in("10.yaml", "kube-apiserver-arg: [a, b]"),
        drop_in("20.yaml", "kube-apiserver-arg: [c]"),
        drop_in("30.yaml", "kube-apiserver-arg+: [d]"),
    ]);
    assert_eq!(texts(&merged, API), ["c", "d"]);
}
