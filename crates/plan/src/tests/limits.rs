//! Tests of the findings about a file that exceeds a limit.

use super::*;

fn examined(text: &str, limits: &ReadLimits) -> Examined {
    let content = FileContent::Bytes(text.as_bytes().to_vec());
    let (shown, rules) = (SourceMap::itself("a.yaml"), RuleSet::shipped());
    examine_content(&"a.yaml".into(), &content, limits, shown, &rules, None)
}

fn large(name: &str, bytes: usize) -> String {
    let head = config_map(name, "");
    format!("{head}data: {{a: \"{}\"}}\n", "x".repeat(bytes))
}

#[test]
fn the_documents_of_a_file_are_examined_one_by_one() {
    let limits = ReadLimits {
        expanded_bytes: 1 << 20,
        ..ReadLimits::default()
    };
    let text = format!("{}---\n{}", large("a", 600_000), large("b", 600_000));
    let file = examined(&text, &limits);
    assert_eq!(file.findings, []);
    assert_eq!(file.objects.len(), 2);
}

#[test]
fn an_object_that_no_api_server_takes_is_named_and_not_given_to_the_rules() {
    let needs = depends_on("a", "ConfigMap/default/b");
    let text = |bytes: usize| format!("{needs}data: {{a: \"{}\"}}\n", "x".repeat(bytes));
    assert_eq!(
        examined(&text(1), &ReadLimits::default()).objects[0]
            .wants
            .len(),
        1
    );
    let file = examined(&text(9 << 20), &ReadLimits::default());
    let codes: Vec<Code> = file.findings.iter().map(|finding| finding.code).collect();
    assert_eq!(codes, [Code::LimitExceeded]);
    let message = &file.findings[0].message;
    assert!(
        message.contains("kube-apiserver accepts no object of more than 3 MiB"),
        "{message}"
    );
    assert_eq!(file.objects[0].wants.len(), 0);
}

#[test]
fn nothing_of_a_file_that_goes_beyond_a_limit_waits() {
    let needs = depends_on("a", "ConfigMap/default/b");
    let wants = |text: &str| {
        examined(text, &ReadLimits::default()).objects[0]
            .wants
            .len()
    };
    assert_eq!(wants(&needs), 1);
    let beyond = format!("{needs}---\n{}", large("z", 9 << 20));
    assert_eq!(wants(&beyond), 0);
}

#[test]
fn a_reference_by_the_longest_name_is_followed_and_by_a_longer_one_not() {
    let pod = |name: &str| {
        format!(
            "apiVersion: v1\nkind: Pod\nmetadata: {{name: p}}\nspec: {{volumes: [{{name: v, configMap: {{name: {name}}}}}]}}\n"
        )
    };
    for (length, followed) in [(1000, 1), (1001, 0)] {
        let file = examined(&pod(&"n".repeat(length)), &ReadLimits::default());
        let wants = file.objects[0].wants.iter();
        let named = wants.filter(|want| want.reason.contains("nnn"));
        assert_eq!(named.count(), followed, "{length}");
    }
}

#[test]
fn that_a_limit_is_exceeded_is_told_however_much_else_is() {
    // Each has a name that no API server accepts.
    let mut text: String = (0..2500)
        .map(|number| config_map(&format!("A_{number}"), "") + "---\n")
        .collect();
    text.push_str(&large("z", 9 << 20));
    let file = examined(&text, &ReadLimits::default());
    let codes: Vec<Code> = file.findings.iter().map(|finding| finding.code).collect();
    assert_eq!(codes.len(), 2000);
    assert!(codes.contains(&Code::LimitExceeded));
}

#[test]
fn a_file_that_no_marker_hides_is_labelled_and_kept_from_being_held() {
    let content = FileContent::NotUtf8Name { special: None };
    let (shown, rules) = (SourceMap::itself("x.yaml"), RuleSet::shipped());
    let limits = ReadLimits::default();
    let file = examine_content(
        &"\\xff_A.yaml".into(),
        &content,
        &limits,
        shown,
        &rules,
        None,
    );
    assert_eq!(
        (file.trouble, file.refused),
        (Some(FileObstacle::Refused), None)
    );
    assert!(FileObstacle::Refused.why_not_held().is_some());
}

#[test]
fn what_keeps_rke2_or_windrow_from_a_file_is_told_apart() {
    let text = |text: &str| text.to_owned();
    for (content, expected) in [
        (
            FileContent::TooLarge { size: 1 << 30 },
            Some(FileObstacle::Unseen),
        ),
        (
            FileContent::NoRoom { size: 1 << 20 },
            Some(FileObstacle::Unseen),
        ),
        (
            FileContent::SymlinkOutside { target: text("/x") },
            Some(FileObstacle::Unseen),
        ),
        (
            FileContent::Unreadable {
                error: text("I/O error"),
            },
            Some(FileObstacle::Unreadable),
        ),
        (
            FileContent::DanglingSymlink { target: text("/x") },
            Some(FileObstacle::Dangling),
        ),
        (FileContent::Bytes(config_map("a", "").into()), None),
    ] {
        let (shown, rules) = (SourceMap::itself("a.yaml"), RuleSet::shipped());
        let limits = ReadLimits::default();
        let file = examine_content(&"a.yaml".into(), &content, &limits, shown, &rules, None);
        assert_eq!(file.trouble, expected, "{content:?}");
    }
}

#[test]
fn a_bad_name_is_told_whatever_else_is_wrong_with_the_file() {
    let content = FileContent::Bytes(b"}\n".to_vec());
    let (shown, rules) = (SourceMap::itself("A_b.yaml"), RuleSet::shipped());
    let limits = ReadLimits::default();
    let file = examine_content(&"A_b.yaml".into(), &content, &limits, shown, &rules, None);
    let codes: Vec<Code> = file.findings.iter().map(|finding| finding.code).collect();
    assert_eq!(codes, [Code::AddonNameInvalid, Code::FileRefused]);
}

#[test]
fn each_obstacle_in_a_file_has_words_of_its_own() {
    let all = [
        FileObstacle::Dangling,
        FileObstacle::Unreadable,
        FileObstacle::Collides,
        FileObstacle::Refused,
        FileObstacle::PartlyRefused,
        FileObstacle::Unseen,
    ];
    let words: std::collections::BTreeSet<&str> = all.iter().map(|one| one.as_str()).collect();
    assert_eq!(words.len(), all.len());
}

#[test]
fn only_files_of_one_name_are_namesakes() {
    let map = config_map("a", "");
    let alone = plan(&[("a.yaml", &map), ("b.yaml", &config_map("b", ""))]);
    assert!(alone.namesakes.is_empty());
    let two = plan(&[("a.yaml", &map), ("sub/a.yaml", &config_map("b", ""))]);
    assert_eq!(two.namesakes, [vec![0, 1]]);
}

#[test]
fn a_file_may_need_five_thousand_different_things_and_one_more_is_too_many() {
    let needs = |count: usize| {
        let names: Vec<String> = (0..count)
            .map(|number| format!("/namespaces/default/ConfigMap/n{number}"))
            .collect();
        let maps = names.chunks(100).enumerate();
        let texts = maps.map(|(at, some)| depends_on(&format!("a{at}"), &some.join(", ")));
        texts.collect::<Vec<_>>().join("---\n")
    };
    // The same requirements of many objects are not many requirements, but they also have a limit.
    let again = |maps: usize| {
        let on: Vec<String> = (0..100).map(|at| format!("/Namespace/n{at}")).collect();
        let texts = (0..maps).map(|at| depends_on(&format!("a{at}"), &on.join(", ")));
        examined(
            &texts.collect::<Vec<_>>().join("---\n"),
            &ReadLimits::default(),
        )
    };
    assert_eq!(again(400).findings, []);
    assert_eq!(again(501).findings[0].code, Code::LimitExceeded);
    for (count, expected) in [(5000, &[][..]), (5001, &[Code::LimitExceeded])] {
        let file = examined(&needs(count), &ReadLimits::default());
        let codes: Vec<Code> = file.findings.iter().map(|finding| finding.code).collect();
        assert_eq!(codes, expected, "{count}");
    }
}
