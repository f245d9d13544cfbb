//! Commands of the pages, run as they stand there: those that an image builder types, and the first ten minutes.

#![allow(clippy::unwrap_used, reason = "a helper of tests fails as a test does")]

use std::collections::BTreeSet;
use std::fs;
use std::io::{BufRead as _, BufReader, Lines, Write as _};
use std::path::Path;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

use crate::support::markdown::{Document, commands, documents};

/// Pages whose commands need no node.
const PAGES: [&str; 9] = [
    "docs/guides/image-builder.md",
    "docs/guides/make-ci-pass.md",
    "docs/guides/github-actions.md",
    "docs/guides/first-rule-pack.md",
    "README.md",
    "docs/check.md",
    "docs/flight.md",
    "docs/install-cloud-init.md",
    "docs/install-harvester.md",
];
/// The verbs among them that read files alone. What a page has for a node beside them is left out.
const READ_FILES: [&str; 5] = ["check", "plan", "gates", "config", "replay"];

/// The files that the pages speak of, by the names that they have there.
fn lay_out(place: &Path) {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    for (from, to) in [
        (
            "examples/first-vm/harvester-config.yaml",
            "harvester-config.yaml",
        ),
        ("examples/first-vm/harvester-config.yaml", "first.yaml"),
        (
            "packaging/harvester/install-config.yaml",
            "install-config.yaml",
        ),
        ("packaging/cloud-init/user-data.yaml", "user-data.yaml"),
        ("tests/flights/first-vm.jsonl", "flight.jsonl"),
    ] {
        fs::copy(root.join(from), place.join(to)).unwrap();
    }
    let pack = "apiVersion: windrow.dev/v1\nkind: RulePack\nmetadata: {name: site}\n";
    for (name, text) in [
        (
            "second.yaml",
            "scheme_version: 1\nserver_url: https://10.0.0.2:443\ninstall: {mode: join}\n",
        ),
        ("conf.d/10.yaml", "staging: {overdueAfter: 10m}\n"),
        ("rules.d/site.yaml", pack),
        ("my-rules.yaml", pack),
        (
            "manifests/namespace.yaml",
            "apiVersion: v1\nkind: Namespace\nmetadata: {name: db}\n",
        ),
    ] {
        fs::create_dir_all(place.join(name).parent().unwrap()).unwrap();
        fs::write(place.join(name), text).unwrap();
    }
}

/// A shell that finds the program, in a directory.
fn shell(command: &str, place: &Path) -> Command {
    let program = Path::new(env!("CARGO_BIN_EXE_windrow")).parent().unwrap();
    let path = format!("{}:{}", program.display(), std::env::var("PATH").unwrap());
    let mut shell = Command::new("sh");
    shell.args(["-c", command]).current_dir(place);
    shell.env("PATH", path);
    shell
}

#[test]
fn every_command_of_the_image_builders_pages_does_what_it_says() {
    let place = tempfile::tempdir().unwrap();
    lay_out(place.path());
    let typed: BTreeSet<String> = documents(&PAGES)
        .iter()
        .flat_map(Document::typed)
        .map(|line| line.text)
        .collect();
    let reads_files = |line: &&String| {
        let commands = commands(line);
        commands[0][0] == "windrow" && READ_FILES.contains(&&*commands[0][1])
    };
    let mut run = 0;
    for command in typed.iter().filter(reads_files) {
        let output = shell(command, place.path())
            .stdin(Stdio::null())
            .output()
            .unwrap();
        assert!(output.status.success(), "{command}: {output:?}");
        run += 1;
    }
    assert!(run > 25, "{run}");
    for (written, begins) in [
        ("plan.svg", "<svg"),
        ("check.html", "<!doctype html>"),
        ("check.sarif", "{"),
        ("check.xml", "<?xml"),
    ] {
        let text = fs::read_to_string(place.path().join(written)).unwrap();
        assert!(text.starts_with(begins), "{written}: {text}");
    }
}

/// What a reader of `docs/ten-minutes.md` does, in its order.
#[derive(Debug)]
enum Deed<'g> {
    Types(&'g str),
    PressesEnter,
}

fn deeds(guide: &str) -> Vec<Deed<'_>> {
    let mut in_console = false;
    let mut deeds = Vec::new();
    for line in guide.lines() {
        match line {
            "```console" => in_console = true,
            "```" => in_console = false,
            _ if in_console => deeds.extend(line.strip_prefix("$ ").map(Deed::Types)),
            _ if line.starts_with("Press Enter") => deeds.push(Deed::PressesEnter),
            _ => {}
        }
    }
    deeds
}

/// The first terminal, in which a sandbox runs.
struct FirstTerminal {
    sandbox: Child,
    keys: ChildStdin,
    lines: Lines<BufReader<ChildStdout>>,
    stops: usize,
}

impl FirstTerminal {
    fn open(mut shell: Command) -> Self {
        let shell = shell.stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut sandbox = shell.spawn().unwrap();
        Self {
            keys: sandbox.stdin.take().unwrap(),
            lines: BufReader::new(sandbox.stdout.take().unwrap()).lines(),
            sandbox,
            stops: 0,
        }
    }

    /// Reads on until the clock stops; returns what was said.
    fn until_it_stops(&mut self) -> String {
        let mut said = String::new();
        for line in self.lines.by_ref() {
            let line = line.unwrap();
            said += &(line.clone() + "\n");
            if line.contains("-- stopped at ") {
                self.stops += 1;
                return said;
            }
        }
        said
    }
}

#[test]
fn every_command_of_ten_minutes_with_windrow_does_what_it_says() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let guide = fs::read_to_string(root.join("docs/ten-minutes.md")).unwrap();
    let place = tempfile::tempdir().unwrap();
    let shell = |command: &str| shell(command, place.path());
    let mut terminal: Option<FirstTerminal> = None;
    let mut typed = 0;
    let mut last_words = String::new();
    for deed in deeds(&guide) {
        match deed {
            Deed::Types(command) if command.starts_with("windrow sandbox") => {
                let mut first = FirstTerminal::open(shell(&format!("exec {command}")));
                first.until_it_stops();
                terminal = Some(first);
            }
            Deed::PressesEnter => {
                let first = terminal.as_mut().unwrap();
                first.keys.write_all(b"\n").unwrap();
                // It ends, or stops once more.
                last_words = first.until_it_stops();
            }
            Deed::Types(command) => {
                let expected = command.split_once("exit code ").map_or(0, |(_, code)| {
                    let digits: String = code.chars().take_while(char::is_ascii_digit).collect();
                    digits.parse().unwrap()
                });
                let output = shell(command).output().unwrap();
                assert_eq!(
                    output.status.code(),
                    Some(expected),
                    "{command}: {output:?}"
                );
                typed += 1;
            }
        }
    }
    let mut first = terminal.unwrap();
    assert_eq!((first.stops, typed), (2, 16), "{last_words}");
    assert!(first.sandbox.wait().unwrap().success());
    for words in [
        "the node comes up, and everything is applied",
        "Windrow's last word: Ready",
        "never configured",
    ] {
        assert!(last_words.contains(words), "{words}: {last_words}");
    }
    let picture = fs::read_to_string(place.path().join("boot.svg")).unwrap();
    assert!(picture.starts_with("<svg"), "{picture}");
}
