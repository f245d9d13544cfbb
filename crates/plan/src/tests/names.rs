//! Names that spare holds.

use super::*;

fn namespace(name: &str) -> String {
    format!("apiVersion: v1\nkind: Namespace\nmetadata: {{name: {name}}}\n")
}

fn secret(name: &str, namespace: &str) -> String {
    format!("apiVersion: v1\nkind: Secret\nmetadata: {{name: {name}, namespace: {namespace}}}\n")
}

/// The new names, how many passes there are without them and how many with them.
fn advised(files: &[(&str, &str)]) -> (Vec<String>, usize, usize) {
    let plan = plan(files);
    let advice = plan.advise_names();
    let names = advice.renames.iter().map(|one| one.to.to_string());
    let names: Vec<String> = names.collect();
    // With the new names the plan is as it was said to be.
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
    assert_eq!(
        super::plan(&renamed).advise_names().passes,
        advice.passes_then
    );
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
    let saved = plan(&files).advise_names().saves();
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
    // The definition would be right before its object, and may not be served yet.
    assert_eq!(
        advised(&[("a.yaml", WIDGET), ("crds.yaml", CRD)]),
        (vec![], 2, 2)
    );
    // What waits for something else is not counted, and nor is what waits for that.
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
    assert_eq!(plan(&files).advise_names(), NameAdvice::default());
}
