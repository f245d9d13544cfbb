//! Tests of values above the limits, and of entries that are not files.

use super::*;

#[test]
fn limits_are_kept_and_named() {
    let limits = ReadLimits {
        file_bytes: 100,
        documents: 2,
        ..ReadLimits::default()
    };
    let many = "a: 1\n---\n".repeat(5);
    let read_few = read("x", &FileContent::Bytes(many.into_bytes()), &limits);
    let problem = read_few
        .problems
        .iter()
        .find(|problem| problem.code == Code::LimitExceeded)
        .unwrap();
    assert_eq!(problem.line, Some(5));
    assert!(problem.message.contains("staging.limits.documents"));
    let big = read("x", &FileContent::Bytes(vec![b'#'; 101]), &limits);
    assert_eq!(big.problems[0].code, Code::FileTooLarge);
    assert!(big.problems[0].message.contains("101"));
    assert_eq!(big.sha256.len(), 64);
    let just_fits = read("x", &FileContent::Bytes(vec![b'#'; 100]), &limits);
    assert_eq!(just_fits.problems, []);
}

#[test]
fn what_takes_too_much_memory_is_told_and_not_taken() {
    let limits = ReadLimits {
        expanded_bytes: 1 << 20,
        documents: 100,
        ..ReadLimits::default()
    };
    let few = |text: &str| {
        let read = read(
            "x.yaml",
            &FileContent::Bytes(text.as_bytes().to_vec()),
            &limits,
        );
        let exceeded = read
            .problems
            .iter()
            .filter(|problem| problem.code == Code::LimitExceeded);
        assert!(exceeded.count() >= 1, "{text:.60}");
        assert!(read.problems.len() <= MOST_PROBLEMS + 1);
        assert!(read.objects().count() <= 100);
    };
    few(&format!("{{\"a\": [{}1]}}", "[],".repeat(50_000)));
    few(&"---\na: 1\n".repeat(200));
    few(&format!("a:\n{}", "- !!int x\n".repeat(2000)));
    few(&"--- a\n".repeat(2000));
    // A text with a byte-order mark inside is copied before it is read.
    few(&format!("a: \u{feff}b\n{}", "# x\n".repeat(100_000)));
    let object = "- {apiVersion: v1, kind: A, metadata: {name: a}}\n";
    few(&format!(
        "apiVersion: v1\nkind: List\nitems:\n{}",
        object.repeat(101)
    ));
    // The limit is for all documents together, unless each is dropped after its check.
    let large = format!("{}x: {}\n", map("a"), "y".repeat(600_000));
    let two = format!("{large}---\n{large}");
    few(&two);
    let read_two = read(
        "x.yaml",
        &FileContent::Bytes(two.clone().into_bytes()),
        &limits,
    );
    let message = &read_two.problems[0].message;
    assert!(
        message.contains("up to this one") && message.contains("more than 1 MiB"),
        "{message}"
    );
    let mut seen = 0;
    let content = FileContent::Bytes(two.clone().into_bytes());
    let each = read_each("x.yaml", &content, &limits, &mut |_| seen += 1);
    assert_eq!((seen, &each.problems), (2, &Vec::new()));
    assert_eq!(each.digest, file(&two).digest);
    assert_eq!(each.sha256, file(&two).sha256);
}

#[test]
fn a_name_that_no_api_server_takes_is_not_repeated() {
    let long = "x".repeat(100_000);
    for text in [
        format!("apiVersion: v1\nkind: A\nmetadata: {{name: {long}}}\n"),
        format!("apiVersion: v1\nkind: {long}\nmetadata: {{name: a}}\n"),
        format!("apiVersion: {long}\nkind: A\nmetadata: {{name: a}}\n"),
    ] {
        let read = file(&text);
        assert_eq!(read.problems[0].code, Code::ObjectRefused);
        assert!(read.problems[0].message.contains("100000 bytes"));
        assert!(read.problems[0].message.len() < 200);
    }
}

#[test]
fn what_is_no_file_is_told_by_its_code() {
    let text = |text: &str| text.to_owned();
    for (content, code) in [
        (FileContent::Fifo, Code::SpecialFile),
        (FileContent::Special { what: "a socket" }, Code::SpecialFile),
        (
            FileContent::NotUtf8Name { special: None },
            Code::FileNameNotText,
        ),
        (
            FileContent::NotUtf8Name {
                special: Some("a FIFO"),
            },
            Code::FileNameNotText,
        ),
        (FileContent::TooLarge { size: 1 << 40 }, Code::FileTooLarge),
        (
            FileContent::DanglingSymlink {
                target: text("/no"),
            },
            Code::DanglingSymlink,
        ),
        (
            FileContent::SymlinkOutside {
                target: text("/etc"),
            },
            Code::SymlinkOutside,
        ),
        (
            FileContent::Unreadable {
                error: text("denied"),
            },
            Code::FileUnreadable,
        ),
    ] {
        let read = read("x.yaml", &content, &ReadLimits::default());
        assert_eq!(read.problems[0].code, code);
        assert_eq!(read.documents, vec![]);
        assert_eq!(read.sha256, "");
    }
}
