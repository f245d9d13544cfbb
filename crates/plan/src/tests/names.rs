//! Tests of names that avoid holds.

use super::*;

fn namespace(name: &str) -> String {
    format!("apiVersion: v1\nkind: Namespace\nmetadata: {{name: {name}}}\n")
}

fn secret(name: &str, namespace: &str) -> String {
    format!("apiVersion: v1\nkind: Secret\nmetadata: {{name: {name}, namespace: {namespace}}}\n")
}

/// The new names, and the number of passes without and with them.
fn advised(files: &[(&str, &str)]) -> (Vec<String>, usize, usize) {
    let plan = plan(files);
    let advice = &plan.names;
    let names = advice.renames.iter().map(|one| one.to.to_string());
    let names: Vec<String> = names.collect();
    // With the new names the plan is as predicted.
    let renamed: Vec<(&str, &str)> = plan
        .files
        .iter()
        .enumerate()
        .map(|(id, file)| {
            let (_, text) = files.iter().find(|(path, _)| file.path == *path).unwrap();
            let path = advice.new_path_of(id).unwrap_or(&file.path);
            (path.as_str(), *text)
        })
        .collect();
    assert_eq!(super::plan(&renamed).names.passes, advice.passes_then);
    (names, advice.passes, advice.passes_then)
}

#[test]
fn a_file_before_its_namespace_is_called_so_that_it_comes_last() {
    let files = [
        ("cluster.yaml", &*secret("s", "t")),
        ("common.yaml", &*namespace("t")),
        ("operator.yaml", &*secret("o", "t")),
    ];
    let expected = vec!["zz-cluster.yaml".to_owned()];
    assert_eq!(advised(&files), (expected, 2, 1));
    let saved = plan(&files).names.saves();
    assert_eq!(saved, Duration::from_secs(15));
}

#[test]
fn where_one_pass_suffices_there_is_nothing_to_say() {
    let files = [("a.yaml", &*namespace("t")), ("b.yaml", &*secret("s", "t"))];
    assert_eq!(advised(&files), (vec![], 1, 1));
}

#[test]
fn what_waits_for_a_moved_file_moves_behind_it_and_the_new_names_keep_that_order() {
    let middle = format!("{}---\n{}", secret("s", "t"), namespace("u"));
    let files = [
        ("a.yaml", &*secret("s", "u")),
        ("b.yaml", &*middle),
        ("z.yaml", &*namespace("t")),
    ];
    let expected = ["zz1-b.yaml", "zz2-a.yaml"].map(str::to_owned);
    assert_eq!(advised(&files), (expected.to_vec(), 3, 1));
}

#[test]
fn names_that_others_have_are_not_proposed() {
    let files = [
        ("a.yaml", &*secret("s", "t")),
        ("common.yaml", &*namespace("t")),
        ("zz-a.more.yaml", "# nothing\n"),
        ("zz-z.yaml", "# nothing\n"),
    ];
    let expected = vec!["zzz-a.yaml".to_owned()];
    assert_eq!(advised(&files), (expected, 2, 1));
}

#[test]
fn a_name_does_not_help_where_more_than_an_order_is_asked_for() {
    let waits = depends_on("a", "/Namespace/t (exists)");
    let files = [("a.yaml", &*waits), ("common.yaml", &*namespace("t"))];
    assert_eq!(advised(&files), (vec![], 2, 2));
    // The definition would be directly before its object, and its kind may not be served yet.
    assert_eq!(
        advised(&[("a.yaml", WIDGET), ("crds.yaml", CRD)]),
        (vec![], 2, 2)
    );
    // A file that has both fails in its first pass under every name.
    let both = format!("{CRD}---\n{WIDGET}---\n{}", secret("s", "t"));
    let files = [("a.yaml", &*both), ("common.yaml", &*namespace("t"))];
    assert_eq!(advised(&files), (vec![], 2, 2));
    // A file that waits for something else is not counted, and nor is one that waits for it.
    let files = [
        ("a.yaml", &*format!("{}---\n{WIDGET}", namespace("t"))),
        ("b.yaml", &*secret("s", "t")),
    ];
    assert_eq!(advised(&files), (vec![], 0, 0));
}

#[test]
fn a_long_chain_costs_no_more_than_a_look() {
    let files: Vec<(String, String)> = (0..3000)
        .map(|number| {
            let text = format!(
                "{}---\n{}",
                secret("s", &format!("t{}", number + 1)),
                namespace(&format!("t{number}"))
            );
            (format!("{number:04}.yaml"), text)
        })
        .collect();
    let files: Vec<(&str, &str)> = files
        .iter()
        .map(|(path, text)| (path.as_str(), text.as_str()))
        .chain([(
            "last.yaml",
            "apiVersion: v1\nkind: Namespace\nmetadata: {name: t3000}\n",
        )])
        .collect();
    assert_eq!(plan(&files).names, NameAdvice::default());
}

/// The proposed moves: source file, target file, and the lines of the objects.
fn split(files: &[(&str, &str)]) -> Vec<(String, String, Vec<u32>)> {
    let plan = plan(files);
    let parts = plan.advise_split().into_iter().map(|part| {
        let from = plan.files[part.file].path.to_string();
        (from, part.to.to_string(), part.lines.into_iter().collect())
    });
    parts.collect()
}

fn part(from: &str, to: &str, lines: &[u32]) -> (String, String, Vec<u32>) {
    (from.to_owned(), to.to_owned(), lines.to_vec())
}

#[test]
fn files_that_need_each_other_are_split_where_that_parts_them() {
    let first = format!("{}---\n{}", namespace("t"), secret("s", "u"));
    let second = format!("{}---\n{}", namespace("u"), secret("s", "t"));
    let files = [("a.yaml", &*first), ("b.yaml", &*second)];
    // The second file comes after the first one, and only the first one's secret is too early.
    assert_eq!(split(&files), [part("a.yaml", "zz-a.yaml", &[5])]);
}

#[test]
fn a_definition_and_its_objects_are_parted_and_what_nothing_needs_early_moves_as_a_whole() {
    let both = format!("{CRD}---\n{WIDGET}");
    let lines = u32::try_from(CRD.lines().count()).unwrap();
    let files = [
        ("a.yaml", &*both),
        ("b.yaml", &*secret("s", "t")),
        ("c.yaml", &*namespace("t")),
    ];
    assert_eq!(
        split(&files),
        [
            part("b.yaml", "zz1-b.yaml", &[]),
            part("a.yaml", "zz2-a.yaml", &[lines + 2]),
        ],
        "what needs a kind comes last"
    );
}

#[test]
fn what_moves_comes_behind_what_it_needs_of_another_file_that_is_split() {
    let third = "apiVersion: v1\nkind: ServiceAccount\nmetadata: {name: a, namespace: x}\n";
    let first = format!("{}---\n{}", namespace("t"), secret("s", "u"));
    let second = format!("{}---\n{}---\n{third}", namespace("v"), namespace("u"));
    let fourth = format!("{}---\n{}", namespace("x"), secret("s", "v"));
    let files = [
        ("a.yaml", &*first),
        ("b.yaml", &*second),
        ("c.yaml", &*fourth),
        ("d.yaml", &*secret("s", "t")),
    ];
    assert_eq!(
        split(&files),
        [
            part("a.yaml", "zz-a.yaml", &[5]),
            part("b.yaml", "zz-b.yaml", &[9]),
        ]
    );
}

#[test]
fn nothing_is_split_where_names_suffice_or_an_order_does_not() {
    let files = [
        ("a.yaml", &*secret("s", "t")),
        ("common.yaml", &*namespace("t")),
    ];
    assert_eq!(split(&files), []);
    let waits = depends_on("a", "/Namespace/t (exists)");
    let first = format!("{}---\n{waits}", namespace("u"));
    let second = format!("{}---\n{}", namespace("t"), secret("s", "u"));
    assert_eq!(split(&[("a.yaml", &*first), ("b.yaml", &*second)]), []);
}

#[test]
fn every_hold_says_whether_a_name_would_have_spared_it() {
    let say = |files: &[(&str, &str)]| plan(files).advise_on_hold(0);
    let (object, space) = (secret("s", "t"), namespace("t"));
    assert_eq!(
        say(&[("a.yaml", &object), ("common.yaml", &space)]),
        HoldAdvice::Name("zz-a.yaml".into())
    );
    let no = |files: &[(&str, &str)]| match say(files) {
        HoldAdvice::NoName(why) => why,
        HoldAdvice::Name(path) => panic!("{path}"),
    };
    let waits = depends_on("a", "/Namespace/t (exists)");
    assert_eq!(
        no(&[("a.yaml", &waits), ("common.yaml", &space)]),
        "it waits for more than another file order can provide"
    );
    assert_eq!(
        no(&[("a.yaml", WIDGET), ("crds.yaml", CRD)]),
        "its dependencies would not exist in an earlier pass either"
    );
    let hold = config_map("h", "windrow.dev/hold: not yet");
    assert_eq!(
        no(&[("a.yaml", &hold)]),
        "its dependencies are not the reason for the hold"
    );
}
