//! Tests of whole files, as RKE2 reads them, and of hostile ones.

mod digest;
mod limits;

use super::*;

fn file(bytes: impl AsRef<[u8]>) -> ManifestFile {
    read(
        "x.yaml",
        &FileContent::Bytes(bytes.as_ref().to_vec()),
        &ReadLimits::default(),
    )
}

fn names(bytes: impl AsRef<[u8]>) -> Vec<String> {
    let file = file(bytes);
    assert_eq!(file.problems, vec![]);
    file.objects().map(|object| object.id.to_string()).collect()
}

fn located_problems(bytes: impl AsRef<[u8]>) -> Vec<(Code, u32, String)> {
    let file = file(bytes);
    assert!(file.refused().is_some(), "{file:?}");
    file.problems
        .into_iter()
        .map(|problem| (problem.code, problem.line.unwrap(), problem.message))
        .collect()
}

fn lines(bytes: impl AsRef<[u8]>) -> Vec<(Code, u32)> {
    located_problems(bytes)
        .into_iter()
        .map(|(code, line, _)| (code, line))
        .collect()
}

fn map(name: &str) -> String {
    format!("apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: {name}\n")
}

fn problems_of_file(bytes: impl AsRef<[u8]>) -> Vec<(Code, u32, String)> {
    let problems = file(bytes).problems.into_iter();
    problems
        .map(|problem| (problem.code, problem.line.unwrap(), problem.message))
        .collect()
}

#[test]
fn what_stands_behind_the_end_of_a_document_is_told_with_its_line() {
    let (a, b) = (map("a"), map("b"));
    let text = format!("{a}...\n# nothing\n\n{b}---\n{b}");
    let read = file(&text);
    assert_eq!(read.objects().count(), 2, "{read:?}");
    assert_eq!(read.refused(), None, "RKE2 does not refuse it");
    let told = problems_of_file(&text);
    assert_eq!(told.len(), 1, "{told:?}");
    assert_eq!((told[0].0, told[0].1), (Code::BehindDocumentEnd, 8));
    assert_eq!(told[0].0.severity(), Severity::Error);
    // The text that RKE2 never reads need not be YAML.
    assert_eq!(
        lines_of(&problems_of_file(format!("{a}...\n}}}} {{\n"))),
        [6]
    );
    assert_eq!(
        lines_of(&problems_of_file(format!("\u{feff}{a}...\nb\u{feff}: 1\n"))),
        [6]
    );
    for harmless in [
        "...\n",
        "...\n# a comment\n\n",
        "...\n...\n",
        "... # a comment\n",
        "...\n---\n",
    ] {
        assert_eq!(
            problems_of_file(format!("{a}{harmless}")),
            [],
            "{harmless:?}"
        );
    }
}

fn lines_of(told: &[(Code, u32, String)]) -> Vec<u32> {
    told.iter().map(|one| one.1).collect()
}

#[test]
fn a_line_of_a_certificate_that_cuts_the_file_is_to_be_indented() {
    let text = format!(
        "{}data:\n  ca.crt: |\n-----BEGIN CERTIFICATE-----\nMIIa\n-----END CERTIFICATE-----\n",
        map("a")
    );
    let mut all = problems_of_file(text);
    assert_eq!(all.len(), 1, "one thing is wrong: {all:?}");
    let (code, line, message) = all.remove(0);
    assert_eq!((code, line), (Code::FileRefused, 7));
    assert!(
        message.contains("indent all of its lines") && !message.contains("its own line"),
        "{message}"
    );
    let (.., message) = problems_of_file(format!("{}--- foo\n", map("a"))).remove(0);
    assert!(
        message.contains("text follows `---`; put it on its own line"),
        "{message}"
    );
}

#[test]
fn a_key_is_told_by_what_is_written() {
    let notes = "  annotations:\n    n: 5\n    other: 6\n    false: 7\n";
    let told = problems_of_file(format!("{}{notes}", map("a")));
    assert_eq!(told.len(), 2, "of one key the last wins: {told:?}");
    assert!(
        told[0]
            .2
            .starts_with("`metadata.annotations.other` is a number"),
        "{told:?}"
    );
    assert!(
        told[1]
            .2
            .starts_with("`metadata.annotations.false` is a number"),
        "{told:?}"
    );
    let told = problems_of_file(format!("{}  annotations: {{n: 5, 0x1F: 6}}\n", map("a")));
    for (told, key, read) in [(&told[0], "n", "false"), (&told[1], "0x1F", "31")] {
        let begins = format!(
            "`metadata.annotations.{key}` is a number, not a string, and RKE2 reads the key `{key}` as `{read}`"
        );
        assert!(told.2.starts_with(&begins), "{told:?}");
    }
}

#[test]
fn a_template_is_told_as_one() {
    let first = "{{- if .Values.enabled }}\napiVersion: v1\nkind: ConfigMap\n{{- end }}\n";
    let (code, line, message) = located_problems(first).remove(0);
    assert_eq!((code, line), (Code::FileRefused, 1));
    let inside = map("{{ .Release.Name }}");
    let alone = format!(
        "{}data:\n{{{{- range .Values.all }}}}\n  a: b\n{{{{- end }}}}\n",
        map("a")
    );
    for message in [
        message,
        located_problems(inside).remove(0).2,
        located_problems(alone).remove(0).2,
    ] {
        assert!(message.contains("looks like a Helm template"), "{message}");
        assert!(message.contains("`helm template`"), "{message}");
    }
    // Braces of another program, and a template in a text, are not Helm's.
    let other = located_problems(map("{{ hostname }}")).remove(0).2;
    assert!(!other.contains("Helm"), "{other}");
    let quoted = format!("{}data:\n  a: |\n    {{{{- if .Values.x }}}}\n", map("a"));
    assert_eq!(problems_of_file(quoted), []);
    let elsewhere = format!(
        "{}data:\n  a: '{{{{ .Values.x }}}}'\n\n\n  b: }}\n",
        map("a")
    );
    let elsewhere = located_problems(elsewhere).remove(0).2;
    assert!(!elsewhere.contains("Helm"), "{elsewhere}");
}

#[test]
fn files_that_rke2_reads_are_read() {
    let a = map("a");
    let b = map("b");
    for (text, count) in [
        (String::new(), 0),
        ("# only a comment\n---\n\n".to_owned(), 0),
        (format!("\u{feff}{a}"), 1),
        (format!("\u{feff}---\n{a}"), 1),
        (format!("{a}---\n{b}").replace('\n', "\r\n"), 2),
        (format!("--- # comment\n{a}"), 1),
        (format!("---\n---\n\n---\n{a}---\n"), 1),
        (format!("{a}...\n---\n{b}"), 2),
        (format!("{a}data:\n  t: |\n    x\n    ---\n    y\n"), 1),
        (
            r#"{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"a"}}"#.to_owned(),
            1,
        ),
        (
            format!(
                "{a}---\n\n  {{\"apiVersion\":\"v1\",\n\"kind\":\"ConfigMap\",\"metadata\":{{\"name\":\"b\"}}}}\n---\n{a}"
            ),
            3,
        ),
        (a.clone(), 1),
    ] {
        assert_eq!(names(&text).len(), count, "{text:?}");
    }
    let wide: Vec<u8> = format!("\u{feff}{a}")
        .encode_utf16()
        .flat_map(u16::to_be_bytes)
        .collect();
    assert_eq!(names(wide).len(), 1);
}

#[test]
fn an_object_knows_its_names_and_its_line() {
    let file = file(
        "# c\napiVersion: kubevirt.io/v1\nkind: VirtualMachine\nmetadata:\n  name: web\n  namespace: a\n  annotations:\n    k: v\n---\napiVersion: batch/v1\nkind: Job\nmetadata: {generateName: j-}\n",
    );
    let objects: Vec<_> = file.objects().collect();
    assert_eq!(
        objects[0].id,
        ObjectRef::namespaced("kubevirt.io", "VirtualMachine", "a", "web")
    );
    assert_eq!((objects[0].version.as_str(), objects[0].line), ("v1", 2));
    assert_eq!(objects[0].annotation("k"), Some(("v", 8)));
    assert!(!objects[0].is_name_generated());
    assert_eq!((objects[1].id.name.as_str(), objects[1].line), ("j-", 10));
    assert!(objects[1].is_name_generated());
}

#[test]
fn lists_are_flattened_by_one_level() {
    let text = "apiVersion: v1\nkind: List\nitems:\n- apiVersion: v1\n  kind: ConfigMap\n  metadata: {name: a}\n- apiVersion: v1\n  kind: List\n  items: []\n";
    let read = file(text);
    assert_eq!(
        read.objects().map(|object| object.line).collect::<Vec<_>>(),
        [4]
    );
    assert_eq!(lines(text), [(Code::ObjectRefused, 7)]);
    let typed = "apiVersion: x.dev/v1\nkind: ProbeList\nitems:\n- metadata: {name: a}\n- {kind: Other, apiVersion: v1, metadata: {name: b}}\n";
    assert_eq!(names(typed), ["Probe a", "Other b"]);
    assert_eq!(file(typed).objects().next().unwrap().id.group, "x.dev");
    // Neither a kind with this name nor a field makes a List.
    let named = "apiVersion: v1\nkind: List\nitems:\n- {apiVersion: x.dev/v1, kind: DenyList, metadata: {name: a}}\n- {apiVersion: x.dev/v1, kind: Order, metadata: {name: b}, items: []}\n";
    assert_eq!(file(named).problems, []);
    assert_eq!(names(named), ["DenyList a", "Order b"]);
    assert_eq!(
        lines("apiVersion: v1\nkind: List\nitems: {a: 1}\n"),
        [(Code::FileRefused, 3)]
    );
    assert_eq!(
        lines("apiVersion: v1\nkind: List\nitems: [1, {kind: A}]\n"),
        [(Code::FileRefused, 3), (Code::ObjectRefused, 3)]
    );
}

#[test]
fn files_that_rke2_refuses_are_refused_with_a_line() {
    let a = map("a");
    for (text, expected) in [
        (format!("{a}--- foo\n{a}"), vec![5]),
        (format!("%YAML 1.1\n---\n{a}"), vec![1]),
        (format!("{a}---\na: b: c\n---\n{a}---\n\tx\n"), vec![6, 13]),
        (format!("{a}}}\n"), vec![5]),
        (format!("[{a}]"), vec![2]),
        ("--- # nothing\n---\n".to_owned(), vec![1]),
        (format!("{a}---\nnull\n"), vec![6]),
        (format!("{a}---\njust text\n"), vec![6]),
        ("[1, 2]".to_owned(), vec![1]),
        ("{apiVersion: v1}".to_owned(), vec![1]),
        ("{\"a\": 1}\n{\"b\": 2}\n".to_owned(), vec![2]),
        ("{\n\"a\": .5\n}".to_owned(), vec![2]),
        ("\u{feff}".to_owned(), vec![1]),
        (format!("{a}---\n? {{a: 1}}\n: 2\n"), vec![6]),
    ] {
        let found: Vec<_> = lines(&text).into_iter().map(|(_, line)| line).collect();
        assert_eq!(found, expected, "{text:?}: {:?}", located_problems(&text));
        assert!(
            located_problems(&text)
                .iter()
                .all(|told| told.0 == Code::FileRefused)
        );
    }
}

#[test]
fn objects_that_rke2_refuses_are_refused_with_a_line() {
    for (text, line, words) in [
        (
            "kind: A\nmetadata: {name: a}\n",
            1,
            "`apiVersion` is missing",
        ),
        ("apiVersion: v1\nkind: A\n", 1, "`metadata.name` is missing"),
        (
            "apiVersion: v1\nkind: A\nmetadata: {labels: {}}\n",
            3,
            "`metadata.name`",
        ),
        (
            "apiVersion: v1\nkind: A\nmetadata:\n  name: yes\n",
            4,
            "is a boolean",
        ),
        (
            "apiVersion: v1\nkind: A\nmetadata:\n  name: 12\n",
            4,
            "is a number",
        ),
        (
            "apiVersion: v1\nkind: A\nmetadata: []\n",
            3,
            "`metadata` is a list",
        ),
        (
            "apiVersion: 1\nkind: A\nmetadata: {name: a}\n",
            1,
            "is a number",
        ),
        (
            "apiVersion: v1\nkind: List\nmetadata: {name: a}\n",
            1,
            "without `items`",
        ),
    ] {
        let told = located_problems(text);
        assert_eq!(
            (told[0].0, told[0].1),
            (Code::ObjectRefused, line),
            "{text:?}"
        );
        assert!(told[0].2.contains(words), "{text:?}: {told:?}");
    }
    let all =
        "kind: 1\nmetadata:\n  name: yes\n  namespace: 5\n  annotations: text\n---\nkind: A\n";
    assert_eq!(lines(all).len(), 6);
}

#[test]
fn what_lacks_most_of_an_object_is_said_once() {
    for (text, code, words) in [
        (
            "replicaCount: 1\nimage: {tag: a}\n",
            Code::FileRefused,
            "`apiVersion`, `kind` and `metadata.name` are missing",
        ),
        (
            "apiVersion: v1\nmetadata: {labels: {a: b}}\n",
            Code::FileRefused,
            "`kind` and `metadata.name` are missing",
        ),
        (
            "kind: A\nmetadata: {}\n",
            Code::ObjectRefused,
            "`apiVersion` and `metadata.name` are missing",
        ),
    ] {
        let told = located_problems(text);
        assert_eq!(told.len(), 1, "{told:?}");
        assert_eq!((told[0].0, told[0].1), (code, 1), "{told:?}");
        assert!(told[0].2.contains(words), "{told:?}");
    }
    // Because of an invalid kind RKE2 refuses the file, and the message contains the kind.
    for text in [
        "kind: ''\nreplicaCount: 1\n",
        "kind:\nreplicaCount: 1\n",
        "kind: {a: b}\nreplicaCount: 1\n",
    ] {
        let told = located_problems(text);
        assert!(
            told.iter()
                .any(|(code, line, _)| (*code, *line) == (Code::FileRefused, 1)),
            "{told:?}"
        );
    }
}

#[test]
fn a_document_without_a_kind_has_rke2_refuse_the_whole_file_and_an_item_of_a_list_only_itself() {
    let other = map("a");
    for (kind, line, words) in [
        ("", 6, "`kind` is missing"),
        ("kind: no\n", 7, "is a boolean"),
        ("kind: ''\n", 7, "`kind` is empty"),
        ("kind:\nitems: []\n", 7, "`kind` is empty"),
        ("kind: A\napiVersion: a/b/c\n", 8, "write group/version"),
    ] {
        let text = format!("{other}---\napiVersion: v1\n{kind}metadata: {{name: b}}\n");
        let told = located_problems(&text);
        assert_eq!(
            (told[0].0, told[0].1),
            (Code::FileRefused, line),
            "{told:?}"
        );
        assert!(told[0].2.contains(words), "{told:?}");
    }
    let list = "apiVersion: v1\nkind: List\nitems:\n- {apiVersion: v1, metadata: {name: a}}\n";
    assert_eq!(lines(list), [(Code::ObjectRefused, 4)]);
    let list =
        "apiVersion: v1\nkind: List\nitems:\n- {apiVersion: a/b/c, kind: A, metadata: {name: a}}\n";
    assert_eq!(lines(list), [(Code::ObjectRefused, 4)]);
}

#[test]
fn of_a_list_itself_rke2_asks_for_no_more_than_a_kind() {
    let items = "items:\n- {apiVersion: v1, kind: A, metadata: {name: a}}\n";
    for head in ["kind: List\n", "apiVersion: 1\nkind: List\n"] {
        assert_eq!(names(format!("{head}{items}")), ["A a"]);
    }
    // An empty item is an object without a name.
    let read = file(format!("apiVersion: v1\nkind: List\n{items}-\n"));
    assert_eq!(read.objects().count(), 1);
    let said: Vec<_> = read.problems.iter().map(|problem| problem.code).collect();
    assert_eq!(said, [Code::ObjectRefused]);
    assert_eq!(
        lines(format!("apiVersion: a/b/c\nkind: List\n{items}")),
        [(Code::FileRefused, 1)]
    );
}

#[test]
fn bytes_behind_a_separator_are_none_of_the_document_before() {
    let (a, b) = (map("a"), map("b"));
    let mut text = format!("{a}--- # ").into_bytes();
    text.extend(b"\xff\n");
    text.extend(b.as_bytes());
    assert_eq!(names(text), ["ConfigMap a", "ConfigMap b"]);
}

#[test]
fn labels_that_are_no_text_are_dropped_and_the_object_is_not() {
    let text = "apiVersion: v1\nkind: A\nmetadata:\n  name: a\n  labels:\n    a: text\n    on: 1\n    b:\n  annotations: [x]\n";
    let file = file(text);
    assert_eq!(file.refused(), None);
    assert_eq!(file.objects().count(), 1);
    let told: Vec<_> = file.problems.iter().map(|p| (p.code, p.line)).collect();
    assert_eq!(
        told,
        [
            (Code::LabelsDropped, Some(7)),
            (Code::LabelsDropped, Some(9))
        ]
    );
    assert!(
        file.problems[0]
            .message
            .contains("`metadata.labels.on` is a number")
    );
}

#[test]
fn bytes_that_are_no_text_are_refused_with_a_line() {
    let a = map("a");
    let with = |bytes: &[u8]| [a.as_bytes(), b"x: ", bytes, b"\n"].concat();
    assert_eq!(lines(with(b"\xff")), [(Code::FileRefused, 5)]);
    assert_eq!(lines(with(b"\0")), [(Code::FileRefused, 5)]);
    assert_eq!(lines(with(b"\xff\0")), [(Code::FileRefused, 5)]);
    assert_eq!(
        lines(b"\xff\xfea\0:\0 \x001\0\n\0"),
        [(Code::FileRefused, 1)]
    );
    // Half a UTF-16 file.
    assert_eq!(lines(b"\xfe\xff\0a\0:\0 \x001\n"), [(Code::FileRefused, 1)]);
    // JSON accepts it and replaces it with U+FFFD.
    let json =
        b"{\"apiVersion\":\"v1\",\"kind\":\"A\",\"metadata\":{\"name\":\"a\"},\"x\":\"\xff\"}";
    let read = file(json);
    assert_eq!(read.problems, vec![]);
    assert_eq!(
        read.objects()
            .next()
            .unwrap()
            .node
            .get("x")
            .unwrap()
            .as_str(),
        Some("\u{fffd}")
    );
}

#[test]
fn json_is_read_as_kubernetes_reads_it() {
    let text = r#"{"apiVersion":"v1","kind":"A","metadata":{"name":"a"},
        "n":[0,-1,1.5,1e3,12345678901234567890,-0],"y":true,"z":null,
        "s":"\u00e9\ud83d\ude00\ud83d\n\/","t":"\b\f\r\t\"\\","y":false,"":{}}"#;
    let node = file(text).objects().next().unwrap().node.to_json();
    assert_eq!(
        node["n"],
        serde_json::json!([0, -1, 1.5, 1000.0, 1.234_567_890_123_456_7e19, 0])
    );
    assert_eq!(node["s"], "é\u{1f600}\u{fffd}\n/");
    assert_eq!(node["t"], "\u{8}\u{c}\r\t\"\\");
    assert_eq!(node["y"], false);
    for bad in [
        "{",
        "{\"a\"",
        "{\"a\":}",
        "{\"a\":1,}",
        "{\"a\":[1,]}",
        "{\"a\":01}",
        "{\"a\":+1}",
        "{\"a\":1.}",
        "{\"a\":1e}",
        "{\"a\":1e999}",
        "{\"a\":\"\t\"}",
        "{\"a\":\"\\x\"}",
        "{\"a\":\"\\u12\"}",
        "{\"a\":nul}",
        "{'a':1}",
        "{\"a\":\"",
    ] {
        assert_eq!(lines(bad), [(Code::FileRefused, 1)], "{bad}");
    }
    let deep = format!("{{\"a\":{}", "[".repeat(100_000));
    assert_eq!(lines(deep), [(Code::LimitExceeded, 1)]);
}

#[test]
fn no_problem_quotes_what_may_be_a_secret() {
    for text in [
        "stringData: {password: *Hunter2xyz}\n",
        "password: *Hunter2xyz\n",
        "password: &Hunter2xyz [*Hunter2xyz]\n",
        "<<: *Hunter2xyz\n",
        "*Hunter2xyz : a\n",
        "password: !Hunter2xyz!x y\n",
        "password: !<Hunter2xyz y\n",
        "password: !!int Hunter2xyz\n",
        "password: !!bool 'Hunter2xyz'\n",
        "password: !!binary Hunter2xyz*\n",
        "password: !Hunter2xyz,y z\n",
        "password: [!Hunter2xyz,y]\n",
        "password: @Hunter2xyz\n",
        "password: `Hunter2xyz\n",
        "password: %Hunter2xyz\n",
        "password: \"Hunter2xyz\n",
        "password: 'Hunter2xyz' Hunter2xyz\n",
        "password: a: Hunter2xyz\n",
        "password: |Hunter2xyz\n",
        "password: {Hunter2xyz\n",
        "password: \"\\Hunter2xyz\"\n",
        "%Hunter2xyz\n",
        "%TAG !Hunter2xyz! tag:Hunter2xyz\n%TAG !Hunter2xyz! tag:Hunter2xyz\n---\na: b\n",
        "key: |\n---Hunter2xyz\n",
        "key: |\n-----BEGIN Hunter2xyz-----\n",
        "--- Hunter2xyz\n",
        "Hunter2xyz\n",
        "- Hunter2xyz\n",
        "{\"password\": Hunter2xyz}",
        "{\"password\": 'Hunter2xyz'}",
        "{\"password\": \"Hunter2xyz}",
        "{\"password\": \"\\Hunter2xyz\"}",
        "{\"password\": \"a\"} Hunter2xyz",
        "{Hunter2xyz: 1}",
    ] {
        let read = file(text);
        assert!(!read.problems.is_empty(), "{text:?}");
        for problem in &read.problems {
            let said = problem.message.to_lowercase();
            assert!(!said.contains("unter2xyz"), "{text:?}: {said}");
            assert!(problem.line.is_some(), "{text:?}: {said}");
        }
    }
    // Each digit reveals as much as a letter.
    for text in [
        "{\"pin\": 0987612345}",
        "0987612345098761234509876: x\n",
        "18446744073709551615: x\n",
        "pin: !!bool 0987612345\n",
    ] {
        for problem in file(text).problems {
            let said = &problem.message;
            assert!(
                !["098", "1844"].iter().any(|digits| said.contains(digits)),
                "{text:?}: {said}"
            );
        }
    }
}
