//! Tests of manifests inside other files, and of the lines of their problems.

use std::io::Write;

use proptest::prelude::*;
use windrow_model::reasons::Code;

use super::*;

const HARVESTER: &str = r#"schemeVersion: 1
token: example
os:
  hostname: n1
  writeFiles:
    - path: /etc/motd
      content: hello
    - path: /var/lib/rancher/rke2/server/manifests/10-tenant.yaml
      permissions: "0600"
      content: |
        apiVersion: v1
        kind: Namespace
        metadata:
          name: tenant
        ---
        apiVersion: v1
        kind: Secret
        metadata:
          name: yes
    - path: /var/lib/rancher/rke2/server/manifests/sub/20.yaml
      content: "apiVersion: v1\nkind: A\n"
install:
  mode: create
"#;

fn take(text: &str) -> Extraction {
    extract("config.yaml", text, &ReadLimits::default())
}

fn one_file(text: &str) -> Extracted {
    let mut extraction = take(text);
    assert_eq!(extraction.problems, vec![], "{text}");
    assert_eq!(extraction.files.len(), 1, "{text}");
    extraction.files.remove(0)
}

fn problem_at(text: &str) -> (u32, String) {
    let problem = take(text).problems.remove(0);
    (problem.line.unwrap(), problem.message)
}

fn cloud_config(file: &str) -> String {
    format!("#cloud-config\nwrite_files:\n- path: /x/server/manifests/a.yaml\n{file}")
}

#[test]
fn files_are_known_by_what_is_in_them() {
    for (text, kind) in [
        (HARVESTER, FileKind::HarvesterConfig),
        ("os:\n  write_files: []\n", FileKind::HarvesterConfig),
        ("schemeversion: 1\n", FileKind::HarvesterConfig),
        (
            "install: {mode: join}\ntoken: x\n",
            FileKind::HarvesterConfig,
        ),
        ("#cloud-config\npackages: []\n", FileKind::CloudInit),
        ("write_files: []\n", FileKind::CloudInit),
        ("name: x\nstages:\n  initramfs: []\n", FileKind::Yip),
        ("apiVersion: v1\nkind: A\n", FileKind::Manifests),
        ("apiVersion: v1\nkind: A\nstages: {}\n", FileKind::Manifests),
        ("# nothing\n", FileKind::Manifests),
        ("[1]\n", FileKind::Manifests),
        // Mistakes do not hide the kind of the file.
        (
            "os:\n\twriteFiles: []\ninstall: {}\n",
            FileKind::HarvesterConfig,
        ),
        ("#cloud-config\na: b: c\n", FileKind::CloudInit),
        ("stages:\n  a: {\n", FileKind::Yip),
    ] {
        assert_eq!(kind_of(text), kind, "{text:?}");
    }
}

#[test]
fn a_harvester_configuration_brings_what_it_writes_below_manifests() {
    let extraction = take(HARVESTER);
    assert!(extraction.is_harvester());
    let paths: Vec<_> = extraction
        .files
        .iter()
        .map(|file| file.path.as_str())
        .collect();
    assert_eq!(paths, ["10-tenant.yaml", "sub/20.yaml"]);
    assert_eq!(extraction.files[0].source, "config.yaml");
    assert_eq!(extraction.files[0].lines, InnerLines::Follow { first: 11 });
    assert_eq!(extraction.files[1].lines, InnerLines::Begin { line: 21 });
}

#[test]
fn what_is_wrong_inside_is_told_with_the_outer_line() {
    let extraction = take(HARVESTER);
    let tenant = extraction.files[0].read(&ReadLimits::default());
    assert_eq!(tenant.problems[0].line, Some(19));
    let namespace = tenant.objects().next().unwrap();
    assert_eq!(namespace.line, 11);
    assert_eq!(namespace.node.entry("metadata").unwrap().line, 13);
    assert_eq!(tenant.documents[1].line, 16);
    let other = extraction.files[1].read(&ReadLimits::default());
    assert_eq!(other.problems[0].line, Some(21));
}

#[test]
fn harvester_takes_its_keys_in_any_spelling() {
    for key in ["writeFiles", "write_files", "writefiles", "WriteFiles"] {
        let text = format!("os:\n  {key}:\n  - Path: /r/server/manifests/a.yaml\n    CONTENT: x\n");
        assert_eq!(one_file(&text).content, b"x", "{key}");
    }
    // cloud-init does not.
    let text = "#cloud-config\nwriteFiles:\n- {path: /r/server/manifests/a.yaml, content: x}\n";
    assert_eq!(take(text).files, vec![]);
}

#[test]
fn yip_writes_files_in_any_stage() {
    let text = "name: x\nstages:\n  initramfs:\n  - name: a\n    files:\n    - path: /var/lib/rancher/rke2/server/manifests/a.yaml\n      content: |-\n        a: 1\n  network.before:\n  - commands: [ls]\n  - files:\n    - {path: /k/server/manifests/b.yaml, content: YTog, encoding: base64}\n";
    let extraction = take(text);
    assert_eq!(extraction.files.len(), 2);
    assert_eq!(extraction.files[0].lines, InnerLines::Follow { first: 8 });
    assert_eq!(extraction.files[1].content, b"a: ");
}

#[test]
fn encodings_are_decoded() {
    let mut packer = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    packer.write_all(b"a: 1\n").unwrap();
    let packed = packer.finish().unwrap();
    let mut encoded = String::new();
    for group in packed.chunks(3) {
        const DIGITS: &[u8; 64] =
            b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
        let bits = group
            .iter()
            .fold(0u32, |bits, byte| bits << 8 | u32::from(*byte))
            << (8 * (3 - group.len()));
        for digit in 0..4 {
            let value = usize::try_from(bits >> (18 - 6 * digit) & 63).unwrap();
            let padding = digit > group.len();
            encoded.push(if padding {
                '='
            } else {
                char::from(DIGITS[value])
            });
        }
    }
    for name in ["gz+b64", "gzip+base64"] {
        let file = one_file(&cloud_config(&format!(
            "  encoding: {name}\n  content: {encoded}\n"
        )));
        assert_eq!(file.content, b"a: 1\n");
        assert_eq!(file.lines, InnerLines::Begin { line: 5 });
    }
    let wrapped = cloud_config("  encoding: b64\n  content: |\n    YTog\n    MQo=\n");
    assert_eq!(one_file(&wrapped).content, b"a: 1\n");
    assert_eq!(
        one_file(&cloud_config("  encoding: text/plain\n  content: x\n")).content,
        b"x"
    );
    assert_eq!(one_file(&cloud_config("  owner: root\n")).content, b"");
}

#[test]
fn what_cannot_be_taken_out_is_told_with_its_line() {
    for (text, line, words) in [
        (
            cloud_config("  encoding: b64\n  content: '*'\n"),
            5,
            "not valid base64",
        ),
        (
            cloud_config("  encoding: gz+b64\n  content: YTog\n"),
            5,
            "cannot be unpacked",
        ),
        (
            cloud_config("  encoding: rot13\n  content: x\n"),
            4,
            "`encoding: rot13`",
        ),
        (cloud_config("  content: {a: 1}\n"), 4, "begin it with `|`"),
        (
            cloud_config("  source: {uri: http://x}\n  content: x\n"),
            4,
            "fetched from `source`",
        ),
        (
            cloud_config("  append: true\n  content: x\n"),
            4,
            "`append` adds this",
        ),
        (
            cloud_config("  content: x\n---\nwrite_files: []\n"),
            6,
            "a second document begins here",
        ),
        (
            "os:\n- write_files: []\n".to_owned(),
            2,
            "`os` is a list, not a map",
        ),
        (
            "stages:\n  boot: {files: []}\n".to_owned(),
            2,
            "`stages.boot` is a map, not a list",
        ),
        (cloud_config("- content: x\n"), 4, "without `path`"),
        (cloud_config("- path: 12\n"), 4, "not a string"),
        (
            cloud_config("- path: /a/server/manifests/\n"),
            4,
            "is a directory",
        ),
        (
            "#cloud-config\nwrite_files: {a: 1}\n".to_owned(),
            2,
            "not a list",
        ),
        ("os:\n  a: b: c\n".to_owned(), 2, "must be quoted"),
    ] {
        let (at, message) = problem_at(&text);
        assert_eq!(at, line, "{text:?}: {message}");
        assert!(message.contains(words), "{text:?}: {message}");
    }
}

#[test]
fn a_file_written_twice_is_the_last_one() {
    let text = cloud_config("  content: x\n- {path: /x/server//manifests/./a.yaml, content: z}\n");
    assert_eq!(one_file(&text).content, b"z");
}

#[test]
fn only_a_literal_block_has_lines_that_follow() {
    for (content, lines) in [
        ("|\n    a: 1\n", InnerLines::Follow { first: 5 }),
        ("|2- # why\n\n    a: 1\n", InnerLines::Follow { first: 5 }),
        ("!!str |\n    a: 1\n", InnerLines::Follow { first: 5 }),
        (">\n    a: 1\n", InnerLines::Begin { line: 4 }),
        ("\"a |\n    b\"\n", InnerLines::Begin { line: 4 }),
        ("text |\n", InnerLines::Begin { line: 4 }),
    ] {
        let file = one_file(&cloud_config(&format!("  content: {content}")));
        assert_eq!(file.lines, lines, "{content:?}");
    }
}

proptest! {
    #[test]
    fn no_text_makes_it_panic_and_every_line_is_in_the_text(
        text in "(os|write_files|stages|path|content|encoding|b64|: |:\n|\n  |\n- |\\| *\n|- |/server/manifests/a|\\{|\\}|x| ){0,40}"
    ) {
        let last = u32::try_from(text.split('\n').count()).unwrap();
        let extraction = take(&text);
        for problem in extraction.problems {
            prop_assert!((1..=last).contains(&problem.line.unwrap()));
        }
        for file in extraction.files {
            for problem in file.read(&ReadLimits::default()).problems {
                prop_assert!((1..=last + 1).contains(&problem.line.unwrap()));
            }
        }
    }
}

#[test]
fn configuration_of_rke2_and_of_windrow_is_handed_out_with_its_lines() {
    let text = "os:\n  write_files:\n  - path: /etc/rancher/rke2/config.yaml.d/50-a.yaml\n    content: |\n      kubelet-arg:\n      - v=4\n  - path: etc//windrow/conf.d/gates.yaml\n    content: 'featureGates: {}'\n  - path: /etc/hostname\n    content: x\n  - path: /etc/rancher/rke2/config.yaml\n    encoding: rot13\n    content: x\n";
    let extraction = extract("harvester.yaml", text, &ReadLimits::default());
    assert_eq!(extraction.problems, []);
    assert_eq!(extraction.configuration_problems[0].line, Some(12));
    let paths: Vec<&str> = extraction
        .configuration
        .iter()
        .map(|file| file.path.as_str())
        .collect();
    assert_eq!(
        paths,
        [
            "/etc/rancher/rke2/config.yaml.d/50-a.yaml",
            "/etc/windrow/conf.d/gates.yaml",
            "/etc/rancher/rke2/config.yaml"
        ]
    );
    assert_eq!(extraction.configuration[0].lines.outer(2), 6);
}

#[test]
fn no_more_is_unpacked_than_there_is_room_for() {
    let plain = "#".repeat(600);
    let files: String = (0..3)
        .map(|number| {
            format!("- path: /x/server/manifests/a{number}.yaml\n  content: \"{plain}\"\n")
        })
        .collect();
    let limits = ReadLimits {
        directory_bytes: 1500,
        ..ReadLimits::default()
    };
    let extraction = extract(
        "user-data",
        &format!("#cloud-config\nwrite_files:\n{files}"),
        &limits,
    );
    assert_eq!(extraction.files.len(), 2);
    assert_eq!(extraction.problems.len(), 1);
    assert_eq!(extraction.problems[0].code, Code::FileTooLarge);
    assert_eq!(extraction.problems[0].line, Some(7));
}
