//! Tests of the scalar and key tables. Each row was confirmed on the real deploy controller or in its libraries.

use proptest::prelude::*;
use serde_json::{Value as Json, json};

use super::*;
use crate::manifest::ReadLimits;

fn value(text: &str) -> Json {
    let node = parse(text, 1, &ReadLimits::default());
    node.unwrap_or_else(|problems| panic!("{text:?}: {problems:?}"))
        .unwrap_or_else(|| panic!("{text:?}: no document"))
        .to_json()
}

fn problems(text: &str) -> Vec<Problem> {
    match parse(text, 1, &ReadLimits::default()) {
        Ok(node) => panic!("{text:?} was read as {node:?}"),
        Err(problems) => problems,
    }
}

fn message(text: &str) -> String {
    problems(text).remove(0).message
}

#[test]
fn plain_scalars_are_read_as_rke2_was_seen_to_read_them() {
    for (text, expected) in [
        ("yes", json!(true)),
        ("Yes", json!(true)),
        ("YES", json!(true)),
        ("y", json!(true)),
        ("Y", json!(true)),
        ("on", json!(true)),
        ("no", json!(false)),
        ("n", json!(false)),
        ("Off", json!(false)),
        ("True", json!(true)),
        ("TRUE", json!(true)),
        ("tRUE", json!("tRUE")),
        ("0644", json!(420)),
        ("0o644", json!(420)),
        ("0x1F", json!(31)),
        ("0b101", json!(5)),
        ("1_000", json!(1000)),
        ("1:30", json!("1:30")),
        ("1e3", json!(1000)),
        (".5", json!(0.5)),
        ("-0", json!(0)),
        ("+7", json!(7)),
        ("~", json!(null)),
        ("Null", json!(null)),
        ("", json!(null)),
        ("2026-11-21", json!("2026-11-21")),
        ("2026-11-21T10:00:00Z", json!("2026-11-21T10:00:00Z")),
        ("12345678901234567890", json!(1.234_567_890_123_456_7e19)),
        ("08", json!(8)),
        ("0x", json!("0x")),
        ("1.0", json!(1)),
        ("-0.0", json!(0)),
        ("1.5", json!(1.5)),
        ("1e400", json!("1e400")),
        ("9223372036854775807", json!(i64::MAX)),
        ("-9223372036854775808", json!(i64::MIN)),
        ("+9223372036854775808", json!(9_223_372_036_854_775_808.0)),
        ("-9223372036854775809", json!(-9_223_372_036_854_775_808.0)),
        (
            "1234567890123456789.0",
            json!(1_234_567_890_123_456_800_i64),
        ),
        (".1_0", json!(0.1)),
        ("._1", json!("._1")),
        ("_1", json!("_1")),
        ("-", json!("-")),
        ("0b-101", json!(-5)),
        ("nan", json!("nan")),
        ("infinity", json!("infinity")),
        ("1 2", json!("1 2")),
    ] {
        // As a value of a map: a single `-` would begin a list.
        if text == "-" {
            continue;
        }
        assert_eq!(value(&format!("v: {text}\n"))["v"], expected, "{text}");
    }
}

#[test]
fn quoted_scalars_stay_strings() {
    for text in ["yes", "1", "~", "", "0x1F", "2026-11-21", "<<"] {
        assert_eq!(value(&format!("v: \"{text}\"\n"))["v"], json!(text));
        assert_eq!(value(&format!("v: '{text}'\n"))["v"], json!(text));
    }
    assert_eq!(value("v: |\n  yes\n")["v"], json!("yes\n"));
    assert_eq!(value("v: >-\n  12\n")["v"], json!("12"));
}

#[test]
fn tags_say_what_a_scalar_is() {
    for (text, expected) in [
        ("!!str yes", json!("yes")),
        ("!!str ~", json!("~")),
        ("!!bool \"yes\"", json!(true)),
        ("!!int \"3\"", json!(3)),
        ("!!float 1", json!(1)),
        ("!!binary aGk=", json!("hi")),
        ("!!null ''", json!(null)),
        ("!foo bar", json!("bar")),
        ("!foo 12", json!("12")),
        ("! 12", json!("12")),
        ("!!timestamp 2026-11-21", json!("2026-11-21")),
    ] {
        assert_eq!(value(&format!("v: {text}\n"))["v"], expected, "{text}");
    }
    for text in [
        "!!int x",
        "!!int 1.5",
        "!!bool maybe",
        "!!float yes",
        "!!null x",
        "!!timestamp soon",
        "!!timestamp 2026-11-021",
        "!!binary '*'",
    ] {
        assert_eq!(
            problems(&format!("a: 1\nv: {text}\n"))[0].line,
            Some(2),
            "{text}"
        );
    }
}

#[test]
fn keys_are_scalars_too() {
    for (key, expected) in [
        ("y", "true"),
        ("n", "false"),
        ("yes", "true"),
        ("1", "1"),
        ("0x10", "16"),
        ("2.5", "2.5"),
        ("1e20", "1e+20"),
        ("100000.0", "100000"),
        ("0.00001", "1e-05"),
        ("\"y\"", "y"),
        ("!!str 010", "010"),
        (".inf", ".inf"),
        ("2026-11-21", "2026-11-21"),
    ] {
        let read = value(&format!("{key}: x\n"));
        assert_eq!(read, json!({expected: "x"}), "{key}");
    }
    assert_eq!(value("{x: 1, y: 2}"), json!({"x": 1, "true": 2}));
}

#[test]
fn of_keys_that_are_read_as_something_else_the_first_hundred_are_remembered() {
    let text: String = (0..300)
        .map(|number| format!("0x{number:x}: a\n"))
        .collect();
    let mut reader = YamlReader::default();
    reader.read(&text, 1, &ReadLimits::default()).unwrap();
    let keys = &reader.aside.keys;
    assert_eq!(keys.len(), 100);
    assert_eq!((&*keys[10].written, &*keys[10].read), ("0xa", "10"));
}

#[test]
fn a_key_that_json_cannot_have_refuses_the_document() {
    for key in ["null", "~", "", "18446744073709551615", "[a]", "? {a: 1}\n"] {
        let text = format!("a: 1\n{key}: x\n");
        assert!(parse(&text, 1, &ReadLimits::default()).is_err(), "{key}");
    }
    assert!(message("{{ name }}: x\n").contains("quote the key"));
}

#[test]
fn infinity_and_not_a_number_refuse_the_document() {
    let all = problems("a: .inf\nb: fine\nc:\n- -.INF\n- .nan\n");
    let lines: Vec<_> = all.iter().map(|problem| problem.line).collect();
    assert_eq!(lines, [Some(1), Some(4), Some(5)]);
}

#[test]
fn the_last_of_one_key_wins_silently() {
    assert_eq!(value("a: 1\nb: 2\na: 3\n"), json!({"a": 3, "b": 2}));
    let many: String = (0..40).map(|n| format!("k{}: {n}\n", n % 20)).collect();
    let read = value(&many);
    assert_eq!(read.as_object().unwrap().len(), 20);
    assert_eq!(read["k3"], json!(23));
}

#[test]
fn anchors_aliases_and_merges_work_within_a_document() {
    let text = "base: &b {x: 1, y1: 2}\nmore: &m {x: 9, z: 3}\na: {<<: *b, x: 5}\nb: {x: 5, <<: *b}\nc: {<<: [*b, *m]}\nd: *b\ne: {<<: {q: 1}}\nf: {\"<<\": 1}\n";
    let read = value(text);
    assert_eq!(read["a"], json!({"x": 5, "y1": 2}));
    // The reader merges in place: earlier entries are overwritten.
    assert_eq!(read["b"], json!({"x": 1, "y1": 2}));
    assert_eq!(read["c"], json!({"x": 1, "y1": 2, "z": 3}));
    assert_eq!(read["d"], json!({"x": 1, "y1": 2}));
    assert_eq!(read["e"], json!({"q": 1}));
    assert_eq!(read["f"], json!({"<<": 1}));
    // An anchor of the same name inside another was defined later.
    assert_eq!(value("v: &a [&a [x]]\nw: *a\n")["w"], json!(["x"]));
    assert!(message("a: *nowhere\n").contains("no anchor"));
    assert!(message("a: &a [*a]\n").contains("that contains it"));
    assert!(message("a: {<<: 1}\n").contains("`<<` takes a map"));
    assert!(message("s: &s [{a: 1}]\na: {<<: *s}\n").contains("`<<` takes a map"));
}

#[test]
fn an_alias_bomb_is_refused_in_no_time() {
    let mut text = "a0: &a0 [x, x, x, x, x, x, x, x, x, x]\n".to_owned();
    for level in 1..30 {
        let aliases = vec![format!("*a{}", level - 1); 10].join(", ");
        text.push_str(&format!("a{level}: &a{level} [{aliases}]\n"));
    }
    assert!(message(&text).contains("aliases"));
    let limits = ReadLimits {
        alias_nodes: 5,
        ..ReadLimits::default()
    };
    let problems = parse("a: &a [1, 2, 3]\nb: *a\nc: *a\n", 1, &limits).unwrap_err();
    assert_eq!(problems[0].code, Code::LimitExceeded);
    assert_eq!(problems[0].line, Some(3));
    assert!(problems[0].message.contains("staging.limits.aliasNodes"));
}

#[test]
fn memory_is_counted_before_it_is_taken() {
    let limits = ReadLimits {
        expanded_bytes: 1 << 20,
        ..ReadLimits::default()
    };
    let long = "x".repeat(10_000);
    let aliases = vec!["*a"; 200].join(", ");
    let nested = |named: bool| {
        let anchors: String = (0..90).map(|level| format!("&a{level} [")).collect();
        let mut text = format!("a: {anchors}\"{long}\"{}\n", "]".repeat(90));
        if named {
            let aliases: Vec<String> = (0..90).map(|level| format!("*a{level}")).collect();
            text.push_str(&format!("b: [{}]\n", aliases.join(", ")));
        }
        text
    };
    for text in [
        format!("a: &a \"{long}\"\nb: [{aliases}]\n"),
        format!("a: [{}]\n", "[],".repeat(40_000)),
        format!("a: [{}]\n", "[x],".repeat(10_000)),
        "a: 1\n".repeat(20_000),
        "- \n".repeat(40_000),
        format!("a: \"{}\"\n", "x".repeat(1 << 20)),
        format!("a: !!binary \"{}\"\n", "////".repeat(1 << 17)),
        format!(
            "a: &a {{b: \"{long}\"}}\nc:\n{}",
            "- {<<: *a}\n".repeat(200)
        ),
        nested(true),
        // The limit is enough for the aliases, but not for the maps that they are merged into.
        format!(
            "a: &a {{{}}}\nb:\n{}",
            (0..100).map(|key| format!("k{key}: ,")).collect::<String>(),
            "- {<<: *a}\n".repeat(60)
        ),
    ] {
        let problems = parse(&text, 1, &limits).unwrap_err();
        assert_eq!(problems[0].code, Code::LimitExceeded, "{:.50}", text);
        assert!(problems[0].message.contains("staging.limits.expandedBytes"));
    }
    // An anchor without an alias costs nothing, and one that replaces another frees its memory.
    assert!(parse(&nested(false), 1, &limits).is_ok());
    let again = format!("- &a \"{}\"\n- *a\n", "x".repeat(1000)).repeat(400);
    assert!(parse(&again, 1, &limits).is_ok());
}

#[test]
fn deep_nesting_is_refused_whichever_way_it_is_written() {
    let limits = ReadLimits::default();
    for text in [
        "[".repeat(1_000_000),
        "{a: ".repeat(10_000),
        (0..500).map(|n| format!("{}a:\n", " ".repeat(n))).collect(),
        format!("{}x\n", "- ".repeat(100_000)),
    ] {
        let problems = parse(&text, 1, &limits).unwrap_err();
        assert_eq!(problems[0].code, Code::LimitExceeded);
    }
    assert!(
        parse(
            &format!("{}{}", "[".repeat(100), "]".repeat(100)),
            1,
            &limits
        )
        .is_ok()
    );
    let chain = "a: &a [[[[1]]]]\nb: &b [[[[*a]]]]\nc: [[[[*b]]]]\n";
    let few = ReadLimits {
        depth: 10,
        ..limits
    };
    assert!(parse("a: &a [[[[1]]]]\nb: [[[[*a]]]]\n", 1, &few).is_ok());
    assert_eq!(parse(chain, 1, &few).unwrap_err()[0].line, Some(3));
}

#[test]
fn a_text_with_many_tag_directives_is_refused_before_it_is_parsed() {
    let tags = |count: usize| -> String {
        (0..count)
            .map(|tag| format!("%TAG !t{tag}! tag:example.com,2026:\n"))
            .collect()
    };
    let whole = |count: usize| format!("{}--- \na: !t0!x b\n", tags(count));
    assert!(parse_configuration(&whole(MOST_TAGS)).is_ok());
    let refused = parse(&whole(MOST_TAGS + 1), 1, &ReadLimits::default()).unwrap_err();
    assert_eq!(refused[0].code, Code::LimitExceeded);
    assert_eq!(refused[0].line, Some(101));
    // In a text they are not directives.
    let text: String = "  %TAG a\n".repeat(2 * MOST_TAGS);
    assert!(parse(&format!("a: |\n{text}"), 1, &ReadLimits::default()).is_ok());
}

#[test]
fn a_value_has_its_line_in_a_text_that_the_parser_breaks_elsewhere_too() {
    let keys: String = (0..5000).map(|key| format!("k{key}: {key}\n")).collect();
    let node = parse(
        &format!("a: \"x\u{2028}y\"\n{keys}"),
        1,
        &ReadLimits::default(),
    );
    let node = node.unwrap().unwrap();
    for key in [0, 1, 700, 4999] {
        assert_eq!(node.entry(&format!("k{key}")).unwrap().line, key + 2);
    }
}

#[test]
fn syntax_errors_name_the_line_and_what_to_do() {
    for (text, line, words) in [
        ("a: 1\n\tb: 2\n", 2, "a tab cannot indent, use spaces"),
        ("a:\n\tb: 2\n", 2, "use spaces"),
        ("a: b: c\n", 1, "must be quoted"),
        ("a: 1\n}\n", 2, "remove the bracket"),
        (
            "a: [1, 2\nb: 3\n",
            2,
            "correct the indentation or the brackets",
        ),
        ("a: \"open\n", 1, "close the quotation mark"),
        ("%YAML 1.1\n", 1, "remove the directive"),
        ("a: 1\nb: @x\n", 2, "quote the value"),
        ("a: 1\nb: \u{7}\n", 2, "control character U+0007"),
        ("a: 1\nb: x\0y\n", 2, "NUL byte"),
        ("a: !b!c d\n", 1, "remove the tag"),
        ("a: [!b,c]\n", 1, "tag"),
    ] {
        let problems = problems(text);
        assert_eq!(problems[0].line, Some(line), "{text:?}: {problems:?}");
        assert!(
            problems[0].message.contains(words),
            "{text:?}: {problems:?}"
        );
        assert_eq!(problems[0].code, Code::FileRefused);
    }
}

#[test]
fn where_something_began_is_said_if_it_is_another_line() {
    let began = |text: &str| {
        let message = message(text);
        message
            .split_once("that starts in line ")
            .map(|(_, line)| line.to_owned())
    };
    assert_eq!(began("a: [b\nc: d\n"), Some("1)".to_owned()));
    assert_eq!(began("a: {b: 1]\n"), None);
}

#[test]
fn every_value_knows_its_line() {
    let text = "# first\na: 1\nb:\n  - x\n  - y: |\n      text\n    z: 2\nc: {d: 3,\n  e: 4}\n";
    let node = parse(text, 11, &ReadLimits::default()).unwrap().unwrap();
    assert_eq!(node.line, 12);
    assert_eq!(node.entry("b").unwrap().line, 13);
    let item = &node.get("b").unwrap().items()[1];
    assert_eq!((item.line, item.entry("z").unwrap().line), (15, 17));
    assert_eq!(node.at(&["c", "e"]).unwrap().line, 19);
}

#[test]
fn lines_are_those_an_editor_shows_even_among_odd_breaks() {
    let text = "a: \"x\u{2028}y\u{85}z\"\nb: 1\rc: 2\nd: 3\n";
    let node = parse(text, 1, &ReadLimits::default()).unwrap().unwrap();
    assert_eq!(node.entry("b").unwrap().line, 2);
    assert_eq!(node.entry("d").unwrap().line, 3);
}

#[test]
fn a_byte_order_mark_inside_the_text_is_a_character_of_it() {
    assert_eq!(
        value("a: \u{feff}x\n\u{feff}b: 1"),
        json!({"a": "\u{feff}x", "\u{feff}b": 1})
    );
}

#[test]
fn between_brackets_a_colon_ends_a_text_and_a_question_mark_none() {
    assert_eq!(
        value("a: [x:, y:]\nb: {c:, 'd:[': \"e:]\"}\n# f:,\n"),
        json!({"a": ["x:", "y:"], "b": {"c:": null, "d:[": "e:]"}})
    );
    // The colon is restored before any number.
    assert_eq!(value("a: [9:, \u{feff}]\n")["a"], json!(["9:", "\u{feff}"]));
    for text in [
        "a: [b?]\n",
        "a: {b: http://c/?d=e}\n",
        "a: [b?c: d]\n",
        "a: [b:?c]\n",
    ] {
        assert!(message(text).contains("must be quoted"), "{text}");
    }
    // Windrow's own files, and those of other programs, have other readers.
    assert!(parse_configuration("a: [b?]\n").is_ok());
    assert!(input("a: [b?]\n", &ReadLimits::default()).is_ok());
    assert!(input("a: [b:]\n", &ReadLimits::default()).is_err());
    assert_eq!(
        value("a: b?c\nd: [\"e?\"]\nf: [? g]\n"),
        json!({"a": "b?c", "d": ["e?"], "f": [{"g": null}]})
    );
}

#[test]
fn an_escaped_apostrophe_is_one() {
    assert_eq!(
        value("a: \"it\\'s\"\nb: 'c\\'\nd: e\\'f\ng: \"\\\\'\\'\"\n"),
        json!({"a": "it's", "b": "c\\", "d": "e\\'f", "g": "\\''"})
    );
    let unknown = message("a: \"\\q\"\n");
    assert!(unknown.contains("write the backslash twice") && unknown.contains("unknown escape"));
    // It is parsed again for each of them, but only a limited number of times.
    assert_eq!(most_escapes(0), MOST_ESCAPES);
    assert_eq!(most_escapes(4 << 20), 16);
    let many = format!("a: \"{}\"\n", "\\'".repeat(MOST_ESCAPES + 1));
    assert!(message(&many).contains("unknown escape"));
}

/// RKE2's reader: "found unknown escape character".
#[test]
fn an_escaped_slash_is_refused_as_rke2_refuses_it() {
    for refused in [
        "a: \"b\\/c\"\n",
        "a: \"\\\\\\/\"\n",
        "a: [\"x\", \"\\/\"]\n",
        "\"\\/\": a\n",
    ] {
        assert!(message(refused).contains("write only `/`"), "{refused}");
    }
    let several = "a: \"b\n  c\\/\"\n";
    assert!(message(several).contains("write only `/`"));
    assert_eq!(
        value("a: \"b/c\"\nd: \"\\\\/\"\ne: 'f\\/g'\nh: i\\/j\n"),
        json!({"a": "b/c", "d": "\\/", "e": "f\\/g", "h": "i\\/j"})
    );
    // cloud-init's reader accepts it.
    assert!(input("a: \"b\\/c\"\n", &ReadLimits::default()).is_ok());
}

#[test]
fn a_last_line_without_a_break_is_read_like_any_other() {
    assert_eq!(value("a: |-\n  x\n\n  y "), json!({"a": "x\n\ny "}));
    assert!(message("a: \"\\").contains("close the quotation mark"));
}

#[test]
fn what_follows_the_first_document_is_not_looked_at() {
    assert_eq!(value("a: 1\n...\n}}}\n"), json!({"a": 1}));
}

#[test]
fn a_configuration_file_is_one_document_without_repeated_keys() {
    let lines = |text: &str| -> Vec<Option<u32>> {
        let problems = parse_configuration(text).unwrap_err();
        assert!(
            problems
                .iter()
                .all(|p| p.code == Code::ConfigurationInvalid)
        );
        problems.iter().map(|problem| problem.line).collect()
    };
    assert_eq!(
        parse_configuration("\u{feff}---\na: 1\n...\n")
            .unwrap()
            .unwrap()
            .line,
        2
    );
    assert_eq!(parse_configuration("# nothing\n").unwrap(), None);
    assert_eq!(lines("a: 1\n---\nb: 2\n"), [Some(2)]);
    assert_eq!(lines("a: 1\nb: {c: 1, c: 2}\na: 2\n"), [Some(2), Some(3)]);
    assert!(parse_configuration("x: &x {a: 1}\ny: {<<: *x, a: 2}\n").is_ok());
}

#[test]
fn the_installers_reader_takes_yes_and_on_for_text_in_values_and_keys() {
    let text =
        "a: [yes, Off, y, true, 'true', FALSE, ~, 0644, !!bool on]\non: {no: 1}\n---\nb: 1\n";
    let read = installers(text).unwrap().unwrap().to_json();
    let values = json!(["yes", "Off", "y", true, "true", false, null, 420, true]);
    assert_eq!(read, json!({"a": values, "on": {"no": 1}}));
}

proptest! {
    #[test]
    fn no_text_makes_the_reader_panic_and_every_line_is_in_the_text(
        text in "([ \\[\\]{}:,#&*!|>'\"%@`?\\-\\n\\r\\t\\\\.~<aby01_]|\\PC|\u{85}|\u{2028}){0,80}"
    ) {
        let last = u32::try_from(text.split('\n').count()).unwrap();
        if let Err(problems) = parse(&text, 1, &ReadLimits::default()) {
            prop_assert!(!problems.is_empty());
            for problem in problems {
                let line = problem.line.unwrap();
                prop_assert!(line >= 1 && line <= last, "{line} of {last}");
            }
        }
    }
}
