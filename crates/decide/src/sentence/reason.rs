//! Shortens a reason so that it fits into a line.
//!
//! A reason begins with a general part, and continues with a particular part, which has more information:
//!
//! ```text
//! bad.yaml:3: RKE2 will refuse the whole file: line 5 is not valid YAML (and 2 more held)
//! ╰─ place ─╯ ╰────────── general ──────────╯  ╰───── particular ─────╯ ╰── an aside ───╯
//! ```
//!
//! If a reason only says that something is unknown, its cause follows: the cause goes first, with the name of its file.
//!
//! If not all of it fits, the line has the first of these that does: the reason without its aside; only the particular
//! part, if it is a sentence with its own subject; both once more without the step in the headline, because the reason
//! names it better; only the general part, or its first half (halves are joined by a semicolon). If none fits, the
//! reason is cut. For an incident, the general part comes first, because the particular part has little meaning without
//! it.

use windrow_model::reasons::Code;

use crate::text::shorten;

/// The part of the table whose reasons are incidents.
const INCIDENTS: &str = "Known incidents";

/// A sentence that begins or ends with one of these is not clear without its context.
const PRONOUNS: [&str; 12] = [
    "it", "its", "they", "them", "their", "this", "that", "these", "so", "one", "once", "none",
];

/// The end of a general part that adds nothing to the headline.
const NOT_KNOWN: &str = " is not known";

/// Words that make a sentence if a subject precedes them: the verbs of Windrow's own texts, and the most frequent ones
/// of Kubernetes and systemd.
const VERBS: &[&str] = &[
    "answers", "are", "asks", "can", "cannot", "crashes", "differ", "do", "does", "ended", "ends",
    "exceeds", "failed", "fails", "gives", "grants", "had", "has", "have", "is", "keeps", "lacks",
    "loses", "may", "must", "names", "needs", "refused", "refuses", "runs", "said", "says",
    "should", "stays", "stopped", "takes", "waits", "wants", "was", "were", "will", "works",
];

/// The text before a reason.
pub(super) struct Headlines {
    pub(super) whole: String,
    pub(super) without_step: String,
    /// The word and the pace. The duration appears only together with the reason.
    pub(super) without_time: String,
}

/// A headline with as much of a reason as fits.
pub(super) fn fit(headlines: &Headlines, code: Code, reason: &str, room: usize) -> String {
    let whole = headlines.whole.as_str();
    let without_step = headlines.without_step.as_str();
    if let Some(cause) = cause_of_unknown(reason) {
        return fit_cause(headlines, reason, &cause, room);
    }
    let wordings = Wordings::of(reason);
    let shorter = wordings.shorter.as_str();
    let particular: Vec<&str> = wordings.particular.iter().map(String::as_str).collect();
    let general: Vec<&str> = wordings.general.iter().map(String::as_str).collect();
    let both = |text| [(whole, text), (without_step, text)];
    let of_general: Vec<(&str, &str)> = general.iter().copied().flat_map(both).collect();
    // Only the selected line is written.
    let mut lines = vec![(whole, reason), (whole, shorter)];
    if code.reason().section == INCIDENTS {
        lines.extend(&of_general);
    }
    let mut untimed = vec![reason, shorter];
    untimed.extend(particular.iter().chain(&general));
    // The headline already says that it continues.
    let ended: Vec<&str> = untimed
        .iter()
        .filter_map(|text| text.strip_suffix(" yet"))
        .collect();
    untimed.extend(ended);
    let (particular, half) = particular.split_at(1.min(particular.len()));
    lines.extend(particular.iter().map(|text| (whole, *text)));
    lines.push((without_step, shorter));
    lines.extend(particular.iter().map(|text| (without_step, *text)));
    lines.extend(half.iter().map(|text| (whole, *text)));
    lines.extend(half.iter().map(|text| (without_step, *text)));
    lines.extend(&of_general);
    let without_time = headlines.without_time.as_str();
    lines.extend(untimed.into_iter().map(|text| (without_time, text)));
    let length =
        |(headline, text): &&(&str, &str)| headline.chars().count() + 2 + text.chars().count();
    let write = |(headline, text): &(&str, &str)| format!("{headline}: {text}");
    match lines.iter().find(|line| length(line) <= room) {
        Some(line) => write(line),
        None => {
            let shortest = lines.iter().min_by_key(length);
            shorten(&shortest.map_or_else(|| reason.to_owned(), write), room)
        }
    }
}

/// A headline with the cause of something unknown; as much of it as fits.
fn fit_cause(headlines: &Headlines, reason: &str, cause: &Cause, room: usize) -> String {
    let whole = headlines.whole.as_str();
    let lines = [
        (whole, reason),
        (whole, without_aside(reason)),
        (whole, &cause.whole),
        (whole, &cause.first),
        (&headlines.without_step, &cause.whole),
        (&headlines.without_step, &cause.first),
        (&headlines.without_time, &cause.first),
    ];
    let lines = lines.map(|(headline, text)| format!("{headline}: {text}"));
    let fits = lines.iter().find(|line| line.chars().count() <= room);
    let [.., last] = &lines;
    fits.cloned().unwrap_or_else(|| shorten(last, room))
}

/// The cause of something unknown.
struct Cause {
    whole: String,
    first: String,
}

/// The cause in `SUBJECT is not known: PLACE: CAUSE; MORE`. Only the name of a path is kept.
fn cause_of_unknown(reason: &str) -> Option<Cause> {
    let (general, particular) = split(without_aside(reason), ": ");
    let particular = without_aside(particular.filter(|_| general.ends_with(NOT_KNOWN))?);
    let (first, rest) = split(particular, ": ");
    let (place, text) = match rest {
        Some(rest) if !first.contains(' ') => (Some(base_name(first)), rest),
        _ => (None, particular),
    };
    let placed = |text: &str| match place {
        Some(place) => format!("{place}: {text}"),
        None => text.to_owned(),
    };
    let clause = split(split(text, "; ").0, ": ").0;
    Some(Cause {
        whole: placed(text),
        first: placed(clause),
    })
}

fn base_name(path: &str) -> &str {
    let name = path.rsplit('/').next().unwrap_or(path);
    if path.starts_with('/') { name } else { path }
}

/// The wordings of a reason that are clear without the rest, the most exact one first.
struct Wordings {
    /// All of it except the aside.
    shorter: String,
    /// Empty if it is not a sentence. With its place, if it has one.
    particular: Vec<String>,
    general: Vec<String>,
}

impl Wordings {
    fn of(reason: &str) -> Self {
        let text = without_aside(reason);
        let (first, rest) = split(text, ": ");
        let (place, general, particular) = match rest {
            // A file, an object or a probe is not a sentence.
            Some(rest) if !first.contains(' ') => {
                let (general, particular) = split(rest, ": ");
                (Some(first), general, particular)
            }
            rest => (None, first, rest),
        };
        let halves = |text: &str| {
            let text = without_aside(text).to_owned();
            let half = split(&text, "; ").0.to_owned();
            [text, half]
        };
        let placed = |text: &String| place.map(|place| format!("{place}: {text}"));
        let particular = particular.filter(|text| stands_alone(text));
        // A port with its name is longer, and preferred.
        let particular = particular.map(|text| {
            let named = named_port(general, text);
            let named = named.iter().flat_map(|named| halves(named));
            named.chain(halves(text)).collect::<Vec<_>>()
        });
        let particular = particular.into_iter().flatten();
        let general = halves(general);
        Self {
            shorter: text.to_owned(),
            particular: particular
                .map(|text| placed(&text).unwrap_or(text))
                .collect(),
            general: general
                .into_iter()
                .flat_map(|text| [placed(&text), Some(text)])
                .flatten()
                .collect(),
        }
    }
}

/// `kube-apiserver (:6443) refuses connections` for `127.0.0.1:6443 refuses connections`: few users know this node's
/// own ports. The name is the subject of the general part.
fn named_port(general: &str, particular: &str) -> Option<String> {
    let (address, rest) = particular.split_once(' ')?;
    let (host, port) = address.rsplit_once(':')?;
    let is_own = host.starts_with("127.") || host == "[::1]";
    let words: Vec<&str> = general
        .split_whitespace()
        .take_while(|word| !VERBS.contains(word))
        .collect();
    (is_own && !words.is_empty()).then(|| format!("{} (:{port}) {rest}", words.join(" ")))
}

/// Is it a sentence with its own subject?
fn stands_alone(text: &str) -> bool {
    let mut words = text.split_whitespace();
    let Some(first) = words.next() else {
        return false;
    };
    // A refusal of the credential does not name it.
    if first == "forbidden" {
        return true;
    }
    let is_number = first.bytes().all(|byte| byte.is_ascii_digit());
    let last = text.split_whitespace().next_back().unwrap_or_default();
    let asks_back = [first, last].iter().any(|word| PRONOUNS.contains(word));
    !is_number && !asks_back && !VERBS.contains(&first) && words.any(|word| VERBS.contains(&word))
}

/// The text before the first boundary, and the text after it. Text in brackets is not split.
fn split<'a>(text: &'a str, boundary: &str) -> (&'a str, Option<&'a str>) {
    let at = text
        .match_indices(boundary)
        .map(|(at, _)| at)
        .find(|at| depths(text).take(text[..*at].chars().count() + 1).last() == Some(0));
    match at {
        Some(at) => (&text[..at], Some(text[at + boundary.len()..].trim_start())),
        None => (text, None),
    }
}

/// A text without the brackets at its end.
fn without_aside(text: &str) -> &str {
    if !text.ends_with(')') {
        return text;
    }
    let opening = text.char_indices().zip(depths(text));
    let opening = opening
        .filter(|((_, one), depth)| *one == '(' && *depth == 0)
        .last();
    match opening {
        Some(((at, _), _)) if at > 0 => text.get(..at).unwrap_or(text).trim_end(),
        _ => text,
    }
}

/// How many brackets are open before each character.
fn depths(text: &str) -> impl Iterator<Item = usize> {
    text.chars().scan(0_usize, |depth, one| {
        let before = *depth;
        match one {
            '(' | '[' => *depth += 1,
            ')' | ']' => *depth = depth.saturating_sub(1),
            _ => {}
        }
        Some(before)
    })
}

#[cfg(test)]
mod tests;
