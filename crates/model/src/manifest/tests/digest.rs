//! Tests of the checksum and the digest of the objects.

use proptest::prelude::*;

use super::*;

#[test]
fn the_checksum_is_that_of_the_bytes() {
    assert_eq!(
        file("").sha256,
        "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"
    );
}

#[test]
fn what_rke2_writes_into_helm_charts_is_not_new_content() {
    let chart = |spec: &str, rest: &str| {
        file(format!(
            "apiVersion: helm.cattle.io/v1\nkind: HelmChart\nmetadata:\n  name: x\nspec:\n  chart: y\n{spec}{rest}"
        ))
        .digest
    };
    let plain = chart("", "");
    assert_eq!(plain, chart("  set: {}\n", ""));
    assert_eq!(
        plain,
        chart(
            "  set:\n    global.clusterDNS: 10.43.0.10\n",
            "status: {}\n"
        )
    );
    assert_ne!(plain, chart("  set:\n    other: 1\n", ""));
    assert_eq!(
        chart("  set:\n    other: 1\n", ""),
        chart("  set:\n    global.x: 2\n    other: 1\n", "")
    );
    // Only HelmCharts are rewritten.
    let map = map("a");
    assert_ne!(
        file(&map).digest,
        file(format!("{map}status: {{}}\n")).digest
    );
}

#[test]
fn refused_files_are_told_apart_by_their_bytes() {
    assert_ne!(file("a: b: c").digest, file("a: b: d").digest);
    assert_ne!(file("").digest, file("a: b: d").digest);
    assert_eq!(file("").digest, file("# nothing\n---\n").digest);
}

/// Any JSON value that YAML can hold.
fn json() -> impl Strategy<Value = serde_json::Value> {
    let leaf = prop_oneof![
        Just(serde_json::Value::Null),
        any::<bool>().prop_map(Into::into),
        any::<i32>().prop_map(Into::into),
        "[ -~\n]{0,12}".prop_map(Into::into),
    ];
    leaf.prop_recursive(4, 40, 6, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..5).prop_map(Into::into),
            prop::collection::btree_map("[a-z<.0-9~]{0,6}", inner, 0..5)
                .prop_map(|map| map.into_iter().collect::<serde_json::Map<_, _>>().into()),
        ]
    })
}

/// Writes a value in block style, its keys backwards, with comments between.
fn block(value: &serde_json::Value, indent: usize, out: &mut String) {
    use serde_json::Value as Json;
    let pad = " ".repeat(indent);
    match value {
        Json::Object(map) if !map.is_empty() => {
            for (key, value) in map.iter().rev() {
                out.push_str(&format!(
                    "\n{pad}# about it\n{pad}{}:",
                    Json::from(key.as_str())
                ));
                block(value, indent + 1, out);
            }
        }
        Json::Array(items) if !items.is_empty() => {
            for item in items {
                out.push_str(&format!("\n\n{pad}-"));
                block(item, indent + 1, out);
            }
        }
        other => out.push_str(&format!("   {other} # leaf")),
    }
}

fn with_metadata(value: serde_json::Value) -> serde_json::Value {
    serde_json::json!({"apiVersion": "v1", "kind": "A", "metadata": {"name": "a"}, "spec": value})
}

proptest! {
    #[test]
    fn the_digest_knows_values_and_nothing_else(value in json(), other in json()) {
        let as_json = with_metadata(value.clone());
        let mut as_yaml = String::from("# a comment\n---");
        block(&as_json, 0, &mut as_yaml);
        let from_json = file(as_json.to_string());
        let from_yaml = file(&as_yaml);
        prop_assert_eq!(&from_yaml.problems, &vec![], "{}", as_yaml);
        prop_assert_eq!(
            from_yaml.objects().next().unwrap().node.to_json(),
            as_json,
            "{}", as_yaml
        );
        prop_assert_eq!(&from_json.digest, &from_yaml.digest);
        let changed = file(with_metadata(other.clone()).to_string());
        prop_assert_eq!(changed.digest == from_json.digest, other == value);
    }

    #[test]
    fn no_bytes_make_the_reader_panic_and_every_line_is_in_the_file(
        bytes in prop_oneof![
            prop::collection::vec(any::<u8>(), 0..200),
            "(---|\\.\\.\\.|[a-c]: |\\{|\\}|\"|- |\n|\r\n| |\t|&a|\\*a|<<: |#|kind|items|: |\u{feff}){0,30}"
                .prop_map(String::into_bytes),
        ]
    ) {
        let last = u32::try_from(bytes.split(|byte| *byte == b'\n').count()).unwrap();
        let read = file(&bytes);
        for problem in &read.problems {
            let line = problem.line.unwrap();
            prop_assert!(line >= 1 && line <= last, "{line} of {last}");
        }
        for object in read.objects() {
            prop_assert!(object.line >= 1 && object.line <= last);
        }
    }
}
