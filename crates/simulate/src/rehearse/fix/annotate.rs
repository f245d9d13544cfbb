//! Annotations in a corrected copy: what one asks for is weakened, and one that is lacking is added.

use windrow_model::findings::Finding;
use windrow_model::manifest::yaml;
use windrow_model::reasons::Code;

use super::source::{GivenFile, Lacking};

/// The annotation that orders.
const DEPENDS_ON: &str = "windrow.dev/depends-on";

/// What an annotation asks for is weakened: from Ready to there, or from a must to an order. Only where
/// its line names one object alone.
pub(super) fn weaken(copies: &mut [GivenFile], finding: &Finding) {
    let weaker = match finding.code {
        Code::ClaimBoundBeforeUse | Code::Unobservable | Code::NodeReadyCycle => "(exists)",
        Code::RequiredCycle => "(advisory)",
        _ => return,
    };
    let Some(at) = finding.at.last() else { return };
    let Some(place) = at
        .line
        .and_then(|line| usize::try_from(line).ok())
        .and_then(|line| line.checked_sub(1))
    else {
        return;
    };
    let Some(copy) = copies.iter_mut().find(|copy| copy.shown == at.file) else {
        return;
    };
    let mut lines: Vec<String> = copy.text.split_inclusive('\n').map(str::to_owned).collect();
    if let Some(line) = lines.get_mut(place)
        && let Some(other) = weakened(line, weaker)
    {
        *line = other;
        copy.text = lines.concat();
    }
}

fn weakened(line: &str, weaker: &str) -> Option<String> {
    let (key, value) = line.split_once("depends-on: ")?;
    let end = line.len() - line.trim_end().len();
    let (bare, end) = value.split_at(value.len() - end);
    let quote = bare.chars().next().filter(|ch| matches!(ch, '"' | '\''));
    let inner = bare.trim_matches(|ch| Some(ch) == quote);
    if inner.is_empty() || inner.contains([',', '#', '|', '>', '{', '}']) || inner.contains(weaker)
    {
        return None;
    }
    let inner = match weaker {
        "(exists)" => inner.replace(" (ready)", ""),
        _ => inner.to_owned(),
    };
    let quote = quote.map(String::from).unwrap_or_default();
    Some(format!(
        "{key}depends-on: {quote}{inner} {weaker}{quote}{end}"
    ))
}

/// Requirements that objects lack are added to their annotations. Where that cannot be done line by line
/// the object stays as it is, and it is said.
pub(super) fn add(copies: &mut [GivenFile], lacking: &[Lacking], left: &mut Vec<String>) {
    let mut places: Vec<(&Lacking, String)> = Vec::new();
    for one in lacking {
        match places.iter_mut().find(|(known, _)| known.at == one.at) {
            Some((_, references)) => {
                references.push_str(", ");
                references.push_str(&one.reference);
            }
            None => places.push((one, one.reference.clone())),
        }
    }
    // From the last line to the first: what is added moves only what is done already.
    places.sort_by_key(|(one, _)| std::cmp::Reverse(one.at.line));
    for (one, references) in places {
        let Some(copy) = copies.iter_mut().find(|copy| copy.shown == one.at.file) else {
            continue;
        };
        let place = one.at.line.and_then(|line| usize::try_from(line).ok());
        let place = place.and_then(|line| line.checked_sub(1));
        let lines: Vec<&str> = copy.text.split_inclusive('\n').collect();
        match place.and_then(|place| annotated(&lines, place, &references)) {
            Some(text) => copy.text = text,
            None => left.push(format!(
                "{}: the annotation {DEPENDS_ON}: {references} is not added, because `metadata` is not written line by line here; add it by hand",
                one.at
            )),
        }
    }
}

/// The lines with one annotation more, below the `metadata` that stands in this one.
fn annotated(lines: &[&str], place: usize, references: &str) -> Option<String> {
    let line = lines.get(place)?;
    let behind = line.trim_start().strip_prefix("metadata:")?.trim();
    let with = |at: usize, other: String| {
        let before = lines.get(..at).unwrap_or_default().concat();
        let after = lines.get(at + 1..).unwrap_or_default().concat();
        Some(format!("{before}{other}{after}"))
    };
    if behind.starts_with('{') {
        let in_it = behind.contains("annotations") || !behind.ends_with('}');
        let (before, after) = line.split_once('{').filter(|_| !in_it)?;
        let quoted = yaml::to_text(&yaml::DoubleQuoted(references)).ok()?;
        let annotations = format!("annotations: {{{DEPENDS_ON}: {}}}", quoted.trim_end());
        return with(place, format!("{before}{{{annotations}, {after}"));
    }
    if !behind.is_empty() && !behind.starts_with('#') {
        return None;
    }
    let value = yaml::to_text(&references).ok()?;
    let (first, width) = below(lines, place)?;
    let annotations = siblings(lines, first, width)
        .find(|number| lines[*number].trim_start().starts_with("annotations:"));
    let Some(annotations) = annotations else {
        let pad = " ".repeat(width);
        let added = format!("{pad}annotations:\n{pad}  {DEPENDS_ON}: {value}");
        return with(place, format!("{line}{added}"));
    };
    // Written on one line, or empty.
    if lines[annotations].trim() != "annotations:" {
        return None;
    }
    let (first, width) = below(lines, annotations)?;
    let known = siblings(lines, first, width)
        .find(|number| lines[*number].trim_start().starts_with(DEPENDS_ON));
    match known {
        Some(known) => {
            let plain =
                |value: &str| !value.is_empty() && !value.contains(['"', '\'', '#', '|', '>']);
            let (_, value) = lines[known].split_once(": ")?;
            let bare = lines[known].trim_end();
            plain(value.trim()).then_some(())?;
            with(known, format!("{bare}, {references}\n"))
        }
        None => {
            let pad = " ".repeat(width);
            let added = format!("{pad}{DEPENDS_ON}: {value}");
            with(annotations, format!("{}{added}", lines[annotations]))
        }
    }
}

fn indent(line: &str) -> usize {
    line.len() - line.trim_start_matches(' ').len()
}

fn says_nothing(line: &str) -> bool {
    line.trim().is_empty() || line.trim_start().starts_with('#')
}

/// The first line of the map below this key, and how far it is moved to the right.
fn below(lines: &[&str], key: usize) -> Option<(usize, usize)> {
    let first = (key + 1..lines.len()).find(|number| !says_nothing(lines[*number]))?;
    let width = indent(lines[first]);
    (width > indent(lines[key])).then_some((first, width))
}

/// The lines of that map's keys.
fn siblings<'l>(
    lines: &'l [&str],
    first: usize,
    width: usize,
) -> impl Iterator<Item = usize> + use<'l> {
    let inside =
        move |number: &usize| says_nothing(lines[*number]) || indent(lines[*number]) >= width;
    (first..lines.len())
        .take_while(inside)
        .filter(move |number| !says_nothing(lines[*number]) && indent(lines[*number]) == width)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_object_is_asked_for_less_and_a_line_that_is_not_plain_stays() {
        let exists = |line: &str| weakened(line, "(exists)");
        assert_eq!(
            exists("    windrow.dev/depends-on: /Node/n1\n").unwrap(),
            "    windrow.dev/depends-on: /Node/n1 (exists)\n"
        );
        assert_eq!(
            exists("  config.kubernetes.io/depends-on: \"/Node/n1 (ready)\"").unwrap(),
            "  config.kubernetes.io/depends-on: \"/Node/n1 (exists)\""
        );
        for line in [
            "  windrow.dev/depends-on: /Node/n1, /Node/n2\n",
            "  windrow.dev/depends-on: >-\n",
            "  windrow.dev/depends-on: /Node/n1 (exists)\n",
            "  a: b\n",
        ] {
            assert_eq!(exists(line), None, "{line}");
        }
    }

    fn added(text: &str) -> Option<String> {
        let lines: Vec<&str> = text.split_inclusive('\n').collect();
        let place = lines.iter().position(|line| line.contains("metadata"))?;
        annotated(&lines, place, "/Node/n1")
    }

    #[test]
    fn an_annotation_is_added_where_the_metadata_are_written_line_by_line() {
        for (before, after) in [
            (
                "kind: A\nmetadata:\n  name: x\nspec: {}\n",
                "kind: A\nmetadata:\n  annotations:\n    windrow.dev/depends-on: /Node/n1\n  name: x\nspec: {}\n",
            ),
            (
                "    metadata: # mine\n\n      name: x\n",
                "    metadata: # mine\n      annotations:\n        windrow.dev/depends-on: /Node/n1\n\n      name: x\n",
            ),
            (
                "metadata:\n  name: x\n  annotations:\n      a: b\nspec:\n  annotations: {}\n",
                "metadata:\n  name: x\n  annotations:\n      windrow.dev/depends-on: /Node/n1\n      a: b\nspec:\n  annotations: {}\n",
            ),
            (
                "metadata:\n  annotations:\n    windrow.dev/depends-on: /Node/n0 (exists)\n",
                "metadata:\n  annotations:\n    windrow.dev/depends-on: /Node/n0 (exists), /Node/n1\n",
            ),
            (
                "metadata: {name: x}\nspec: {}\n",
                "metadata: {annotations: {windrow.dev/depends-on: \"/Node/n1\"}, name: x}\nspec: {}\n",
            ),
        ] {
            assert_eq!(added(before).as_deref(), Some(after), "{before}");
        }
    }

    #[test]
    fn metadata_that_are_written_otherwise_stay_and_are_told() {
        for text in [
            "metadata: &m\n  name: x\n",
            "metadata: {name: x,\n  namespace: y}\n",
            "metadata: {name: x, annotations: {a: b}}\n",
            "metadata:\n  name: x\n  annotations: {a: b}\n",
            "metadata:\n  annotations:\n    windrow.dev/depends-on: >-\n      /Node/n0\n",
            "{\"metadata\": {\"name\": \"x\"}}\n",
            "metadata:\nspec: {}\n",
        ] {
            assert_eq!(added(text), None, "{text}");
        }
    }
}
