//! Ignition and Butane.

use std::collections::BTreeMap;
use std::io::Write as _;

use windrow_model::reasons::Code;

use super::*;

const MANIFESTS: &str = "/var/lib/rancher/rke2/server/manifests";
const NAMESPACE: &str = "apiVersion: v1\nkind: Namespace\nmetadata: {name: one}\n";

/// Files next to a configuration, by their paths.
pub(super) struct Beside(pub(super) BTreeMap<&'static str, &'static str>);

impl FilesBeside for Beside {
    fn read(&self, path: &str) -> Result<Option<FileBeside>, String> {
        Ok(self.0.get(path).map(|text| FileBeside {
            shown: format!("dir/{path}"),
            bytes: text.as_bytes().to_vec(),
        }))
    }

    fn below(&self, directory: &str) -> Result<Option<Vec<String>>, String> {
        let before = format!("{directory}/");
        let below = self.0.keys().filter_map(|path| path.strip_prefix(&before));
        let below: Vec<String> = below.map(str::to_owned).collect();
        Ok((!below.is_empty()).then_some(below))
    }
}

fn take(text: &str) -> Extraction {
    extract("c.yaml", text, &ReadLimits::default())
}

fn take_beside(text: &str, files: &[(&'static str, &'static str)]) -> Extraction {
    let beside = Beside(files.iter().copied().collect());
    extract_beside("c.yaml", text, &ReadLimits::default(), &beside)
}

/// One file in Ignition, with the text after its path.
fn ignition(file: &str) -> String {
    format!(
        "{{\n \"ignition\": {{\"version\": \"3.4.0\"}},\n \"storage\": {{\"files\": [\n  {{\"path\": \"{MANIFESTS}/a.yaml\",\n   {file}}}\n ]}}\n}}\n"
    )
}

fn butane(storage: &str) -> String {
    format!("variant: fcos\nversion: 1.5.0\nstorage:\n{storage}")
}

fn the_file(extraction: &Extraction) -> &Extracted {
    assert_eq!(extraction.problems, vec![]);
    let [file] = &extraction.files[..] else {
        panic!("{:?}", extraction.files);
    };
    file
}

/// The code, the line and the message of the first problem.
fn the_problem(text: &str) -> (Code, u32, String) {
    let extraction = take(text);
    let mut problems = extraction.problems.into_iter();
    let problem = problems.next().unwrap_or_else(|| panic!("{text}"));
    (problem.code, problem.line.unwrap(), problem.message)
}

#[test]
fn ignition_carries_files_in_its_addresses() {
    let base64 = "YXBpVmVyc2lvbjogdjEKa2luZDogTmFtZXNwYWNlCm1ldGFkYXRhOiB7bmFtZTogb25lfQo=";
    let percent = "apiVersion%3A%20v1%0Akind%3A%20Namespace%0Ametadata%3A%20%7Bname%3A%20one%7D%0A";
    for source in [
        format!("data:;base64,{base64}"),
        format!("data:text/plain;charset=utf-8;base64,{base64}"),
        format!("data:,{percent}"),
    ] {
        let text = ignition(&format!("\"contents\": {{\"source\": \"{source}\"}}"));
        let extraction = take(&text);
        assert_eq!(extraction.kind, FileKind::Ignition);
        let file = the_file(&extraction);
        assert_eq!(file.content, NAMESPACE.as_bytes(), "{source}");
        assert_eq!((file.path.as_str(), file.late.as_ref()), ("a.yaml", None));
        assert_eq!((file.written_at, file.lines.outer(3)), (4, 5), "{source}");
    }
}

#[test]
fn packed_content_is_unpacked_and_what_is_appended_follows() {
    let mut packer = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    packer.write_all(NAMESPACE.as_bytes()).unwrap();
    let packed = base64::Engine::encode(
        &base64::engine::general_purpose::STANDARD,
        packer.finish().unwrap(),
    );
    let text = ignition(&format!(
        "\"contents\": {{\"compression\": \"gzip\", \"source\": \"data:;base64,{packed}\"}},\n\"append\": [{{\"source\": \"data:,%23x\"}}]"
    ));
    let expected = format!("{NAMESPACE}#x");
    assert_eq!(the_file(&take(&text)).content, expected.as_bytes());
    // The earlier content of the file is unknown.
    let alone = ignition("\"append\": [{\"source\": \"data:,x\"}]");
    let (code, line, _) = the_problem(&alone);
    assert_eq!((code, line), (Code::NotLookedAt, 5));
}

#[test]
fn what_ignition_fetches_merges_or_runs_is_named() {
    let fetched = ignition("\"contents\": {\"source\": \"https://example.com/a.yaml\"}");
    let (code, line, message) = the_problem(&fetched);
    assert_eq!((code, line), (Code::NotLookedAt, 5));
    assert!(message.contains("is fetched from `source`"), "{message}");
    for (text, what) in [
        (
            "ignition:\n  config:\n    merge:\n    - source: https://example.com/b.ign\n",
            "merged into this one",
        ),
        (
            "ignition:\n  config:\n    replace:\n      source: https://example.com/b.ign\n",
            "replaces this one",
        ),
        (
            "storage:\n  links:\n  - path: /etc/rancher/rke2/config.yaml\n    target: /data/config.yaml\n",
            "storage.links",
        ),
        (
            "systemd:\n  units:\n  - name: a.service\n    contents: |\n      [Service]\n      ExecStart=/bin/sh -c 'true; \\\n        cp /x /etc/rancher/rke2/config.yaml'\n",
            "a.service names /etc/rancher/",
        ),
    ] {
        let text = format!("variant: flatcar\nversion: 1.0.0\n{text}");
        let (code, _, message) = the_problem(&text);
        assert_eq!(code, Code::NotLookedAt, "{text}");
        assert!(message.contains(what), "{text}: {message}");
    }
    // A condition and a comment write nothing.
    let unit = "systemd:\n  units:\n  - name: a.service\n    contents: |\n      # /etc/rancher/\n      [Unit]\n      ConditionPathExists=/etc/rancher/rke2/config.yaml\n      [Service]\n      ExecStartPre=-/usr/bin/mkdir -p /etc/rancher/rke2\n      ExecStart=/bin/true\n";
    assert_eq!(
        take(&format!("variant: fcos\nversion: 1.5.0\n{unit}")).problems,
        []
    );
}

#[test]
fn what_ignition_or_butane_refuses_is_an_error_with_its_line() {
    let bad = |file: &str| ignition(&format!("\"contents\": {file}"));
    let twice = format!(
        "  files:\n  - path: {MANIFESTS}/a.yaml\n    contents: {{inline: x}}\n  - path: {MANIFESTS}/a.yaml\n    contents: {{inline: y}}\n"
    );
    for (text, line, words) in [
        (
            bad("{\"source\": \"data:;base64,@\"}"),
            5,
            "cannot be read: unexpected character 1",
        ),
        (
            bad("{\"source\": 1}"),
            5,
            "`source` is a number, not a string",
        ),
        (
            bad("{\"source\": \"data:,x\", \"compression\": \"xz\"}"),
            5,
            "must be `gzip` or left out",
        ),
        (
            bad("{\"source\": \"data:,x\", \"compression\": \"gzip\"}"),
            5,
            "cannot be unpacked",
        ),
        (butane(&twice), 7, "is written twice, first in line 5"),
        (
            butane("  files:\n  - contents: {inline: x}\n"),
            5,
            "a file without `path`",
        ),
        (
            butane("  files: {}\n"),
            4,
            "`storage.files` is a map, not a list",
        ),
        (
            butane(&format!(
                "  files:\n  - path: {MANIFESTS}/a.yaml\n    contents: {{inline: x, source: 'data:,y'}}\n"
            )),
            6,
            "both set the content",
        ),
        (
            "{\"ignition\": {}}".to_owned(),
            1,
            "`ignition.version` is missing",
        ),
        (
            "{\"ignition\": {\"version\": \"3.0.0\"},\n x}".to_owned(),
            2,
            "Ignition reads JSON",
        ),
    ] {
        let (code, at, message) = the_problem(&text);
        assert_eq!((code, at), (Code::InputRefused, line), "{text}: {message}");
        assert!(message.contains(words), "{text}: {message}");
    }
}

#[test]
fn a_key_that_nothing_reads_is_an_error_with_the_one_that_was_meant() {
    for (text, key) in [
        (
            ignition("\"content\": {\"source\": \"data:,x\"}"),
            "content",
        ),
        (ignition("\"contents\": {\"sorce\": \"data:,x\"}"), "sorce"),
        (ignition("\"contents\": {\"inline\": \"x\"}"), "inline"),
        (
            "variant: fcos\nversion: 1.5.0\nstorages: {}\n".to_owned(),
            "storages",
        ),
        (butane("  file: []\n"), "file"),
    ] {
        let (code, _, message) = the_problem(&text);
        assert_eq!(code, Code::KeyNotRead, "{text}");
        assert!(message.contains(&format!("`{key}`")), "{message}");
    }
}

#[test]
fn older_versions_of_ignition_are_not_looked_at() {
    let text = "{\"ignition\": {\"version\": \"2.3.0\"}, \"storage\": {\"files\": []}}";
    let (code, _, message) = the_problem(text);
    assert_eq!(code, Code::NotLookedAt);
    assert!(message.contains("a version other than 3.x"), "{message}");
}

#[test]
fn butane_writes_text_and_files_beside_it_each_with_its_own_lines() {
    let text = butane(&format!(
        "  files:\n  - path: {MANIFESTS}/a.yaml\n    contents:\n      inline: |\n        apiVersion: v1\n        kind: Namespace\n        metadata: {{name: one}}\n  - path: {MANIFESTS}/b.yaml\n    contents:\n      local: b.yaml\n  - path: /etc/rancher/rke2/config.yaml\n    contents:\n      inline: 'cni: cilium'\n"
    ));
    let extraction = take_beside(&text, &[("b.yaml", NAMESPACE)]);
    assert_eq!(
        (extraction.kind, &extraction.problems[..]),
        (FileKind::Butane, &[][..])
    );
    let [inline, local] = &extraction.files[..] else {
        panic!("{extraction:?}");
    };
    assert_eq!(
        (inline.content.as_slice(), inline.lines.outer(2)),
        (NAMESPACE.as_bytes(), 9)
    );
    assert_eq!(
        (local.source.as_str(), local.lines.outer(2)),
        ("dir/b.yaml", 2)
    );
    assert_eq!((local.carrier.as_str(), local.written_at), ("c.yaml", 11));
    assert_eq!(extraction.configuration[0].content, b"cni: cilium");
}

#[test]
fn a_tree_is_copied_and_a_file_that_is_missing_is_an_error() {
    let tree = butane("  trees:\n  - local: tree\n    path: /var/lib/rancher\n");
    let extraction = take_beside(&tree, &[("tree/rke2/server/manifests/a.yaml", NAMESPACE)]);
    let file = the_file(&extraction);
    assert_eq!(
        (file.path.as_str(), file.data_dir.as_str()),
        ("a.yaml", "/var/lib/rancher/rke2")
    );
    let missing = butane(&format!(
        "  files:\n  - path: {MANIFESTS}/a.yaml\n    contents: {{local: a.yaml}}\n  trees:\n  - local: tree\n"
    ));
    let problems = take_beside(&missing, &[]).problems;
    assert_eq!(
        problems
            .iter()
            .map(|one| (one.code, one.line))
            .collect::<Vec<_>>(),
        [(Code::InputRefused, Some(6)), (Code::InputRefused, Some(8)),]
    );
    // Windrow cannot read the files next to a text without a directory.
    let codes: Vec<_> = take(&missing).problems.iter().map(|one| one.code).collect();
    assert_eq!(codes, [Code::NotLookedAt; 2]);
}
