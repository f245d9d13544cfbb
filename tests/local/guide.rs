//! Every command of the image builder's guide and of the first ten minutes, run as it stands there.

#![allow(clippy::unwrap_used, reason = "a helper of tests fails as a test does")]

use std::fs;
use std::io::{BufRead as _, BufReader, Lines, Write as _};
use std::path::Path;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

/// The lines that are typed: those that begin with `$` in a block of a console.
fn commands(guide: &str) -> Vec<&str> {
    let blocks = guide.split("```console\n").skip(1);
    let lines = blocks.flat_map(|block| block.split("```").next().unwrap().lines());
    lines.filter_map(|line| line.strip_prefix("$ ")).collect()
}

#[test]
fn every_command_of_the_image_builders_guide_does_what_it_says() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let guide = fs::read_to_string(root.join("docs/guides/image-builder.md")).unwrap();
    let place = tempfile::tempdir().unwrap();
    let example = root.join("examples/first-vm/harvester-config.yaml");
    fs::copy(example, place.path().join("harvester-config.yaml")).unwrap();
    let second = "scheme_version: 1\nserver_url: https://10.0.0.2:443\ninstall: {mode: join}\n";
    fs::write(place.path().join("second.yaml"), second).unwrap();
    for (directory, name, text) in [
        ("conf.d", "10.yaml", "staging: {overdueAfter: 10m}\n"),
        (
            "rules.d",
            "site.yaml",
            "apiVersion: windrow.dev/v1\nkind: RulePack\nmetadata: {name: site}\n",
        ),
    ] {
        fs::create_dir(place.path().join(directory)).unwrap();
        fs::write(place.path().join(directory).join(name), text).unwrap();
    }
    let program = Path::new(env!("CARGO_BIN_EXE_windrow")).parent().unwrap();
    let path = format!("{}:{}", program.display(), std::env::var("PATH").unwrap());
    let commands = commands(&guide);
    assert!(commands.len() > 10, "{commands:?}");
    for command in commands {
        let output = Command::new("sh")
            .args(["-c", command])
            .current_dir(place.path())
            .env("PATH", &path)
            .output()
            .unwrap();
        assert!(output.status.success(), "{command}: {output:?}");
    }
    for (written, begins) in [
        ("plan.svg", "<svg"),
        ("rehearsal.html", "<!doctype html>"),
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
    let shell = |command: &str| {
        let program = Path::new(env!("CARGO_BIN_EXE_windrow")).parent().unwrap();
        let path = format!("{}:{}", program.display(), std::env::var("PATH").unwrap());
        let mut shell = Command::new("sh");
        shell.args(["-c", command]).current_dir(place.path());
        shell.env("PATH", &path);
        shell
    };
    let mut terminal: Option<FirstTerminal> = None;
    let mut typed = 0;
    let mut last_words = String::new();
    for deed in deeds(&guide) {
        match deed {
            Deed::Types(command) if command.starts_with("windrow run --sandbox") => {
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
