//! Level 4: what the libraries of RKE2 and Kubernetes make of the same bytes.
//!
//! A Go process stays and answers (`tests/cluster/node/second-opinion`; `tests/cluster/build node` makes it). The inputs are
//! drawn from seeds, so that a disagreement comes again. `WINDROW_SEEDS` is how many each test draws, or `FROM..UNTIL`.
//!
//! What is listed is agreed to be different, each with its reason: `LISTED` of each part, and docs/dev/reliability.md. A
//! disagreement that is not listed is a fault: of Windrow, because what Go's libraries do is what the node does.

#![allow(clippy::unwrap_used, reason = "a helper of tests fails as a test does")]

mod configuration;
mod manifests;
mod values;

use std::collections::BTreeMap;
use std::env;
use std::io::{Read as _, Write as _};
use std::ops::Range;
use std::path::PathBuf;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

use serde_json::Value;
use windrow_fuzz::Draw;

/// Inputs of a test, when nothing else is said: some seconds.
const SEEDS: u64 = 10_000;

/// The Go process.
struct SecondOpinion {
    child: Child,
    asks: ChildStdin,
    answers: ChildStdout,
}

impl SecondOpinion {
    /// `None` where it was not built, unless `WINDROW_REQUIRE_CLUSTER` wants it.
    fn start() -> Option<Self> {
        let program = program();
        if !program.is_file() {
            let said = format!(
                "there is no {}: run tests/cluster/build node",
                program.display()
            );
            assert!(env::var_os("WINDROW_REQUIRE_CLUSTER").is_none(), "{said}");
            println!("skipped: {said}");
            return None;
        }
        let mut child = Command::new(program)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        Some(Self {
            asks: child.stdin.take().unwrap(),
            answers: child.stdout.take().unwrap(),
            child,
        })
    }

    /// What Go makes of it, or why it refuses it.
    fn of(&mut self, kind: char, question: &[u8]) -> Result<Value, String> {
        let length = u32::try_from(question.len()).unwrap();
        let mut asked = vec![u8::try_from(kind).unwrap()];
        asked.extend(length.to_be_bytes());
        asked.extend(question);
        self.asks.write_all(&asked).unwrap();
        let mut length = [0; 4];
        self.answers.read_exact(&mut length).unwrap();
        let mut answer = vec![0; u32::from_be_bytes(length).try_into().unwrap()];
        self.answers.read_exact(&mut answer).unwrap();
        let mut answer: Value = serde_json::from_slice(&answer).unwrap();
        match answer["error"].as_str() {
            Some(why) => Err(why.to_owned()),
            None => Ok(answer["value"].take()),
        }
    }
}

impl Drop for SecondOpinion {
    fn drop(&mut self) {
        // It may have ended by itself.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Where `tests/cluster/build` puts it.
fn program() -> PathBuf {
    let home = || PathBuf::from(env::var_os("HOME").unwrap_or_default()).join(".cache");
    let caches = || env::var_os("XDG_CACHE_HOME").map_or_else(home, PathBuf::from);
    let cache =
        env::var_os("WINDROW_CACHE").map_or_else(|| caches().join("windrow"), PathBuf::from);
    cache.join("assets/node/current/second-opinion")
}

fn seeds() -> Range<u64> {
    let Ok(said) = env::var("WINDROW_SEEDS") else {
        return 0..SEEDS;
    };
    match said.split_once("..") {
        Some((from, until)) => from.parse().unwrap()..until.parse().unwrap(),
        None => 0..said.parse().unwrap(),
    }
}

/// How an input was read.
enum Opinions {
    /// Alike.
    Same,
    /// Differently, and that is listed under this name.
    Listed(&'static str),
    /// Differently: the input, and what each says.
    Differ(String),
}

/// What is read differently, and why it stays so.
struct Listed {
    name: &'static str,
    /// An input that is.
    example: &'static str,
    /// For whoever reads the list.
    _why: &'static str,
}

/// Asks about the inputs of all seeds, and about the examples of what is listed.
fn compare<I>(
    listed: &[Listed],
    example: impl Fn(&str) -> I,
    draw: impl Fn(&mut Draw) -> I,
    ask: impl Fn(&I, &mut SecondOpinion) -> Opinions,
) {
    let Some(mut go) = SecondOpinion::start() else {
        return;
    };
    let (mut met, mut found) = (BTreeMap::new(), Vec::new());
    for Listed {
        name,
        example: input,
        ..
    } in listed
    {
        match ask(&example(input), &mut go) {
            Opinions::Listed(found) if found == *name => {}
            Opinions::Differ(how) => found.push(format!("{name}: {how}")),
            _ => found.push(format!("{name}: {input:?} is read alike")),
        }
    }
    let seeds = seeds();
    for seed in seeds.clone() {
        match ask(&draw(&mut Draw::new(seed)), &mut go) {
            Opinions::Same => {}
            Opinions::Listed(name) => *met.entry(name).or_insert(0_u64) += 1,
            Opinions::Differ(how) => found.push(format!("seed {seed}: {how}")),
        }
    }
    println!("{} inputs; listed: {met:?}", seeds.end - seeds.start);
    for name in met.keys() {
        let known = listed.iter().any(|known| known.name == *name);
        assert!(known, "{name} is not listed");
    }
    assert!(
        found.is_empty(),
        "{} disagree\n{}",
        found.len(),
        found[..found.len().min(20)].join("\n\n")
    );
}
