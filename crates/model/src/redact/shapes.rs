//! Recognises secrets only by their shape: `table.rs` has the shapes, this is the search.
//!
//! It begins with one search for all beginnings at once, so that a text without any costs one pass.

mod table;

use std::sync::{LazyLock, OnceLock};

use aho_corasick::{AhoCorasick, MatchKind};
use regex::{Captures, Regex};

use self::table::{PATTERNS, PREFIXED};
use super::pattern::OnSecret;
use super::{REDACTED, programs};

fn patterns_of() -> impl Iterator<Item = &'static (&'static [&'static str], &'static str)> {
    PATTERNS.iter().chain(programs::PATTERNS)
}

/// All beginnings in one search.
static BEGINNINGS: LazyLock<Option<AhoCorasick>> = LazyLock::new(|| {
    AhoCorasick::builder()
        .match_kind(MatchKind::LeftmostLongest)
        .build(PREFIXED.iter().map(|(prefix, ..)| prefix))
        .ok()
});

/// Each is compiled when a text first has one of its hints. All of them would take 3.3 MB until the daemon ends, and
/// the first message of any condition would compile them; a node's messages have few of the hints.
static REGEXES: LazyLock<Vec<OnceLock<Regex>>> =
    LazyLock::new(|| patterns_of().map(|_| OnceLock::new()).collect());

/// The hints of all patterns, in order, each with the index of its pattern.
static HINTS: LazyLock<(Option<AhoCorasick>, Vec<usize>)> = LazyLock::new(|| {
    let all = patterns_of().enumerate();
    let (owners, hints): (Vec<usize>, Vec<&str>) = all
        .flat_map(|(at, (hints, _))| hints.iter().map(move |hint| (at, *hint)))
        .unzip();
    let search = AhoCorasick::builder()
        .ascii_case_insensitive(true)
        .build(hints);
    (search.ok(), owners)
});

pub(super) fn redact(text: &str, found: OnSecret<'_>) -> String {
    let text = patterns(&prefixed(text, found), found);
    programs::spaced(&text, found)
}

fn prefixed(text: &str, found: OnSecret<'_>) -> String {
    let mut out = String::new();
    let mut done = 0;
    let Some(search) = BEGINNINGS.as_ref() else {
        return text.to_owned();
    };
    for begin in search.find_iter(text) {
        let (from, at) = (begin.start(), begin.end());
        let (_, of, least, _) = PREFIXED[begin.pattern().as_usize()];
        let bytes = text.as_bytes();
        let inside =
            from > 0 && (bytes[from - 1].is_ascii_alphanumeric() || bytes[from - 1] == b'_');
        if from < done || inside {
            continue;
        }
        let length = bytes[at..].iter().take_while(|byte| of.has(**byte)).count();
        if length < least {
            continue;
        }
        found(&text[from..at + length], true);
        out.push_str(&text[done..from]);
        out.push_str(REDACTED);
        done = at + length;
    }
    out.push_str(&text[done..]);
    out
}

fn patterns(text: &str, found: OnSecret<'_>) -> String {
    let (Some(search), owners) = (&HINTS.0, &HINTS.1) else {
        return text.to_owned();
    };
    let mut hinted: Vec<bool> = patterns_of().map(|(hints, _)| hints.is_empty()).collect();
    let mut missing = hinted.iter().filter(|hinted| !**hinted).count();
    for hint in search.find_overlapping_iter(text) {
        let one = &mut hinted[owners[hint.pattern().as_usize()]];
        if !std::mem::replace(one, true) {
            missing -= 1;
            if missing == 0 {
                break;
            }
        }
    }
    let mut text = text.to_owned();
    let candidates = REGEXES.iter().zip(patterns_of()).zip(&hinted);
    for ((regex, (_, pattern)), _) in candidates.filter(|(_, hinted)| **hinted) {
        text = regex
            .get_or_init(|| super::pattern::regex(pattern))
            .replace_all(&text, |captures: &Captures<'_>| {
                let whole = captures.get_match();
                let from = captures.get(1).map_or(whole.start(), |kept| kept.end());
                let to = captures.get(2).map_or(whole.end(), |kept| kept.start());
                let secret = text[from..to].trim_matches(['"', '\'']);
                if secret.is_empty() || secret == REDACTED {
                    return whole.as_str().to_owned();
                }
                found(secret, true);
                let (before, after) = (&text[whole.start()..from], &text[to..whole.end()]);
                format!("{before}{REDACTED}{after}")
            })
            .into_owned();
    }
    text
}
