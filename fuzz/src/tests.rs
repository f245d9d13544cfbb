//! Every corpus goes through its target: what was found once stays mended.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use super::{Draw, target, targets};

/// The largest file of a corpus.
const LARGEST: u64 = 16 << 10;

fn corpus() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("corpus")
}

fn entries(directory: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(directory).into_iter().flatten();
    let mut paths: Vec<PathBuf> = entries
        .map(|entry| entry.expect("an entry").path())
        .collect();
    paths.sort();
    paths
}

#[test]
fn every_target_takes_its_corpus_and_each_beginning_of_it() {
    for target in targets() {
        let files = entries(&corpus().join(target.name));
        assert!(!files.is_empty(), "fuzz/corpus/{} is empty", target.name);
        for file in files {
            let bytes = fs::read(&file).expect("a file of the corpus");
            println!("{}", file.display());
            (target.run)(&bytes);
            // Torn in the middle, as by a power cut or a connection that ends.
            for part in 1..8 {
                (target.run)(&bytes[..bytes.len() * part / 8]);
            }
        }
        (target.run)(&[]);
    }
}

#[test]
fn every_corpus_is_a_targets_and_small() {
    let mut names = BTreeSet::new();
    for target in targets() {
        assert!(
            names.insert(target.name),
            "two targets are called {}",
            target.name
        );
    }
    for directory in entries(&corpus()) {
        let name = directory
            .file_name()
            .and_then(|name| name.to_str())
            .unwrap_or_default();
        assert!(target(name).is_some(), "no target is called {name}");
        for file in entries(&directory) {
            let size = fs::metadata(&file).expect("a file").len();
            assert!(size <= LARGEST, "{}: {size} bytes", file.display());
        }
    }
}

/// Bytes that readers stumble over.
const PIECES: [&str; 24] = [
    "\n",
    " ",
    ":",
    "-",
    "---\n",
    "\"",
    "'",
    "{",
    "}",
    "[",
    "]",
    ",",
    "&a ",
    "*a",
    "<<: ",
    "\\",
    "\0",
    "\u{202e}",
    "é",
    "null",
    "-1",
    "99999999999999999999",
    "1e2147483647",
    "1e-2147483648",
];

/// `WINDROW_FUZZ_ROUNDS` is how many inputs each target gets, `WINDROW_FUZZ` the one target that does.
#[test]
fn every_target_takes_what_is_near_its_corpus() {
    let number = |name: &str| std::env::var(name).ok().and_then(|said| said.parse().ok());
    let rounds: u64 = number("WINDROW_FUZZ_ROUNDS").unwrap_or(1_500);
    let only = std::env::var("WINDROW_FUZZ").ok();
    let mut broken = Vec::new();
    for target in targets().filter(|target| only.as_deref().is_none_or(|only| only == target.name))
    {
        let files = entries(&corpus().join(target.name));
        let corpus: Vec<Vec<u8>> = files
            .iter()
            .map(|file| fs::read(file).expect("a file"))
            .collect();
        for seed in 0..rounds {
            let bytes = Draw::new(seed).near(&corpus, &PIECES);
            if std::panic::catch_unwind(|| (target.run)(&bytes)).is_err() {
                broken.push(format!(
                    "{} {seed}: {:?}",
                    target.name,
                    String::from_utf8_lossy(&bytes)
                ));
                break;
            }
        }
    }
    assert!(broken.is_empty(), "{}", broken.join("\n"));
}
