//! A held file, what it waits for down to the root, and what becomes of it.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;

use jiff::Timestamp;
use windrow_decide::Holder;
use windrow_plan::rules::Tier;

use super::{WhyView, lines};
use crate::cli::document::age;
use crate::report::why::{ExplainedBlocker, ExplainedFile};

pub(super) fn explained_file(out: &mut String, file: &ExplainedFile, depth: usize, view: WhyView) {
    let WhyView { at, style, .. } = view;
    let state = match file.state {
        "held" => style.waiting("held"),
        "failed" | "not held" => style.bad(file.state),
        "applied" => style.good("applied"),
        other => other.to_owned(),
    };
    let _ = writeln!(
        out,
        "{}{} is {state}, for {}",
        " ".repeat(depth),
        style.strong(&file.file),
        age(file.since, at)
    );
    if file.waits_for.is_empty() {
        lines(out, depth + 2, &file.why, style);
    }
    for link in &file.waits_for {
        chain_link(out, link, depth + 2, view);
    }
}

fn chain_link(out: &mut String, link: &ExplainedBlocker, depth: usize, view: WhyView) {
    let (style, blocker) = (view.style, &link.blocker);
    let after = blocker.tier == Tier::Advisory;
    if view.verbose {
        let verb = match after {
            true => "comes after",
            false => "needs",
        };
        let wanted = format!("{verb} {} ({})", blocker.what, blocker.condition);
        lines(out, depth, &wanted, style);
        lines(out, depth + 4, &blocker.message, style);
        let asked = format!(
            "asked for by {}; {} at {}",
            blocker.required_by, blocker.origin.rule, blocker.origin.at
        );
        lines(out, depth + 4, &asked, style);
    } else {
        let only_order = match after {
            true => " (only an order)",
            false => "",
        };
        let line = format!("{}{only_order}", blocker.message);
        lines(out, depth, &line, style);
    }
    if let Some(usual) = &blocker.usual {
        lines(out, depth + 4, usual, style);
    }
    match (&link.because, &blocker.brought_by) {
        (Some(because), _) => explained_file(out, because, depth + 4, view),
        (None, Some(file)) if link.cycle => lines(
            out,
            depth + 4,
            &format!("{file} brings it, which waits for this one: a cycle"),
            style,
        ),
        (None, Some(file)) if link.explained_elsewhere => {
            let more = format!("{file} brings it, which is explained elsewhere in this answer");
            lines(out, depth + 4, &more, style);
        }
        (None, Some(file)) if link.not_explained => {
            let more = format!("{file} brings it, which waits too: windrow why {file}");
            lines(out, depth + 4, &more, style);
        }
        (None, Some(file)) => lines(out, depth + 4, &format!("{file} brings it"), style),
        (None, None) => {}
    }
}

/// The blockers that no staged file stands behind, where the chain does not begin with them.
pub(super) fn roots(out: &mut String, file: &ExplainedFile, files: &Explained<'_>, view: WhyView) {
    let mut found = Vec::new();
    collect_roots(file, files, &mut BTreeSet::new(), &mut found);
    let at_top = |message: &String| {
        let mut top = file.waits_for.iter();
        top.any(|link| link.root && link.blocker.message == *message)
    };
    for message in found.iter().filter(|one| view.verbose || !at_top(one)) {
        lines(out, 0, &format!("Root: {message}"), view.style);
    }
}

/// Where each file of an answer is explained.
pub(super) type Explained<'a> = BTreeMap<&'a str, &'a ExplainedFile>;

/// Each is explained in one place, whatever waits for it.
pub(super) fn explained<'a>(files: &'a [ExplainedFile], into: &mut Explained<'a>) {
    for file in files {
        explain_below(file, into);
    }
}

fn explain_below<'a>(file: &'a ExplainedFile, into: &mut Explained<'a>) {
    into.entry(file.file.as_str()).or_insert(file);
    for below in file
        .waits_for
        .iter()
        .filter_map(|link| link.because.as_ref())
    {
        explain_below(below, into);
    }
}

fn collect_roots<'a>(
    file: &'a ExplainedFile,
    files: &Explained<'a>,
    seen: &mut BTreeSet<&'a str>,
    found: &mut Vec<String>,
) {
    if !seen.insert(file.file.as_str()) {
        return;
    }
    for link in &file.waits_for {
        if link.root && !found.contains(&link.blocker.message) {
            found.push(link.blocker.message.clone());
        }
        let elsewhere = link.blocker.brought_by.as_ref();
        let elsewhere = elsewhere.filter(|_| link.explained_elsewhere);
        let elsewhere = elsewhere.and_then(|file| files.get(file.as_str()).copied());
        let Some(because) = link.because.as_deref().or(elsewhere) else {
            continue;
        };
        if because.waits_for.is_empty() {
            let message = format!("{} is {}: {}", because.file, because.state, because.why);
            if !found.contains(&message) {
                found.push(message);
            }
        }
        collect_roots(because, files, seen, found);
    }
}

/// A deadline as a time of day; with the date where that is not today.
fn by_time(at: Timestamp, deadline: Timestamp) -> String {
    let [today, day] = [at, deadline].map(|time| time.strftime("%Y-%m-%d").to_string());
    let time = deadline.strftime("%H:%M UTC");
    match day == today {
        true => format!("by {time}"),
        false => format!("by {day} {time}"),
    }
}

/// What will happen to it, and what a person can do.
pub(super) fn outlook(out: &mut String, file: &ExplainedFile, view: WhyView) {
    let WhyView { at, verbose, style } = view;
    if file.state != "held" {
        return;
    }
    let when = match (file.by, file.deadline) {
        (Some(Holder::Other), _) => {
            "Windrow did not make this marker and leaves it alone; whoever made it removes it."
                .to_owned()
        }
        _ if file.overdue => {
            "Its deadline has passed; it stays held because releasing it would do harm.".to_owned()
        }
        (_, Some(deadline)) if deadline > at => {
            let latest = format!(
                "in {} at the latest ({}).",
                age(at, deadline),
                by_time(at, deadline)
            );
            match file.waits_for.is_empty() {
                true => format!("Released {latest}"),
                false => format!("Released as soon as that is there, or {latest}"),
            }
        }
        _ if file.waits_for.is_empty() => "Held until a person releases it.".to_owned(),
        _ => "Released as soon as that is there.".to_owned(),
    };
    lines(out, 0, &when, style);
    if let Some(path) = &file.name_spares_hold {
        let name = format!("Called {path} in the image, it would not have been held.");
        lines(out, 0, &name, style);
    } else if let Some(why) = file.no_name_spares_hold.as_ref().filter(|_| verbose) {
        let none = format!("No other name would have spared the hold: {why}.");
        lines(out, 0, &none, style);
    }
    if let Some(command) = &file.release {
        lines(out, 0, &format!("By hand: {command}"), style);
    }
}

#[cfg(test)]
mod tests {
    use windrow_decide::Blocker;
    use windrow_model::findings::Location;
    use windrow_plan::Origin;

    use super::*;
    use crate::render::Style;

    #[test]
    fn after_how_long_it_was_there_in_earlier_boots_is_told_below_what_is_waited_for() {
        let link = |usual: Option<&str>| ExplainedBlocker {
            blocker: Blocker {
                what: "the kind Widget.example.com".to_owned(),
                condition: "served".to_owned(),
                tier: Tier::Required,
                message: "waits for the kind Widget".to_owned(),
                required_by: "Widget w".to_owned(),
                origin: Origin {
                    rule: "inferred/kind-served".to_owned(),
                    at: Location::line("widget.yaml", 1),
                },
                brought_by: None,
                usual: usual.map(str::to_owned),
            },
            root: true,
            because: None,
            cycle: false,
            explained_elsewhere: false,
            not_explained: false,
        };
        let view = WhyView {
            at: Timestamp::UNIX_EPOCH,
            verbose: false,
            style: Style::default(),
        };
        let shown = |usual| {
            let mut out = String::new();
            chain_link(&mut out, &link(usual), 2, view);
            out
        };
        let usual = "usually there after 12 s to 1 min, on 13 of 14 boots";
        assert_eq!(
            shown(Some(usual)),
            format!("  waits for the kind Widget\n      {usual}\n")
        );
        assert_eq!(shown(None), "  waits for the kind Widget\n");
    }
}
