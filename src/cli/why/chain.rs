//! A held file, its dependencies down to the root cause, and its future.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;

use jiff::Timestamp;
use windrow_decide::why::{ExplainedBlocker, ExplainedFile};
use windrow_decide::{Blocker, Holder};
use windrow_plan::rules::Tier;

use super::{WhyView, lines};
use crate::cli::document::age;
use crate::printable::shell_word;

/// Maximum depth of a file in the text, below the requested file.
const DEEPEST: usize = 24;

pub(super) struct FilesText<'a> {
    files: BTreeMap<&'a str, &'a ExplainedFile>,
    shown: BTreeSet<&'a str>,
    /// The files above the current one.
    above: Vec<&'a str>,
    view: WhyView,
}

impl<'a> FilesText<'a> {
    pub(super) fn new(files: &'a [ExplainedFile], view: WhyView) -> Self {
        Self {
            files: files
                .iter()
                .map(|file| (file.file.as_str(), file))
                .collect(),
            shown: BTreeSet::new(),
            above: Vec::new(),
            view,
        }
    }

    /// A file, its dependencies with their sources, and its future.
    pub(super) fn write_file(&mut self, out: &mut String, file: &'a ExplainedFile) {
        self.write_chain(out, file, 0);
        self.write_roots(out, file);
        outlook(out, file, self.view);
    }

    fn write_chain(&mut self, out: &mut String, file: &'a ExplainedFile, depth: usize) {
        let WhyView { at, style, .. } = self.view;
        self.shown.insert(&file.file);
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
        self.above.push(&file.file);
        for need in &file.waits_for {
            write_need(out, &need.blocker, depth + 2, self.view);
            self.write_bringer(out, need, depth + 6);
        }
        self.above.pop();
    }

    fn write_bringer(&mut self, out: &mut String, need: &'a ExplainedBlocker, depth: usize) {
        let Some(file) = need.blocker.brought_by.as_deref() else {
            return;
        };
        let behind = self.files.get(file).copied();
        let line = match behind.filter(|_| self.above.len() < DEEPEST) {
            _ if need.root => format!("provided by {file}"),
            _ if self.above.contains(&file) => {
                format!("provided by {file}, which waits for this file (a cycle)")
            }
            _ if self.shown.contains(file) => {
                format!("provided by {file} (explained elsewhere in this answer)")
            }
            Some(behind) => return self.write_chain(out, behind, depth),
            None => format!(
                "provided by {file}, which also waits: windrow why {}",
                shell_word(file)
            ),
        };
        lines(out, depth, &line, self.view.style);
    }

    /// The blockers without a staged file, if the chain does not begin with them.
    fn write_roots(&self, out: &mut String, file: &ExplainedFile) {
        let mut found = Vec::new();
        self.collect_roots(file, &mut BTreeSet::new(), &mut found);
        let at_top = |message: &String| {
            let mut top = file.waits_for.iter();
            top.any(|need| need.root && need.blocker.message == *message)
        };
        for message in found.iter().filter(|one| self.view.verbose || !at_top(one)) {
            lines(out, 0, &format!("Root cause: {message}"), self.view.style);
        }
    }

    fn collect_roots<'f>(
        &self,
        file: &'f ExplainedFile,
        seen: &mut BTreeSet<&'f str>,
        found: &mut Vec<String>,
    ) where
        'a: 'f,
    {
        if !seen.insert(&file.file) {
            return;
        }
        for need in &file.waits_for {
            if need.root && !found.contains(&need.blocker.message) {
                found.push(need.blocker.message.clone());
            }
            let behind = need.waits_for_file();
            let Some(behind) = behind.and_then(|file| self.files.get(file.as_str())) else {
                continue;
            };
            if behind.waits_for.is_empty() {
                let message = format!("{} is {}: {}", behind.file, behind.state, behind.why);
                if !found.contains(&message) {
                    found.push(message);
                }
            }
            self.collect_roots(behind, seen, found);
        }
    }
}

fn write_need(out: &mut String, need: &Blocker, depth: usize, view: WhyView) {
    let style = view.style;
    let after = need.tier == Tier::Advisory;
    if view.verbose {
        let verb = match after {
            true => "comes after",
            false => "needs",
        };
        let wanted = format!("{verb} {} ({})", need.what, need.condition);
        lines(out, depth, &wanted, style);
        lines(out, depth + 4, &need.message, style);
        let asked = format!(
            "required by {}; {} at {}",
            need.required_by, need.origin.rule, need.origin.at
        );
        lines(out, depth + 4, &asked, style);
    } else {
        let only_order = match after {
            true => " (ordering only)",
            false => "",
        };
        let line = format!("{}{only_order}", need.message);
        lines(out, depth, &line, style);
    }
    if let Some(usual) = &need.usual {
        lines(out, depth + 4, usual, style);
    }
}

/// A deadline as a time of day; with the date if that is not today.
fn by_time(at: Timestamp, deadline: Timestamp) -> String {
    let [today, day] = [at, deadline].map(|time| time.strftime("%Y-%m-%d").to_string());
    let time = deadline.strftime("%H:%M UTC");
    match day == today {
        true => format!("by {time}"),
        false => format!("by {day} {time}"),
    }
}

fn outlook(out: &mut String, file: &ExplainedFile, view: WhyView) {
    let WhyView { at, verbose, style } = view;
    if file.state != "held" {
        return;
    }
    let when = match (file.by, file.deadline) {
        (Some(Holder::Other), _) => {
            "Windrow did not make this marker, and does not remove it. Remove it yourself if nothing else manages it."
                .to_owned()
        }
        _ if file.overdue && file.harmful => {
            "Its deadline has passed, but it stays held because its release would do harm.".to_owned()
        }
        _ if file.overdue => {
            "It has waited longer than usual. It stays held because RKE2 could not apply it, or because an annotation requires the wait."
                .to_owned()
        }
        (_, Some(deadline)) if deadline > at => {
            let latest = format!(
                "in {} at the latest ({}).",
                age(at, deadline),
                by_time(at, deadline)
            );
            match file.waits_for.is_empty() {
                true => format!("It will be released {latest}"),
                false => format!("It will be released as soon as its dependencies are ready, or {latest}"),
            }
        }
        _ if file.waits_for.is_empty() => "It stays held until you release it.".to_owned(),
        _ => "It will be released as soon as its dependencies are ready.".to_owned(),
    };
    lines(out, 0, &when, style);
    if let Some(path) = &file.name_spares_hold {
        let name = format!("Tip: named {path} in the image, it would not be held.");
        lines(out, 0, &name, style);
    } else if let Some(why) = file.no_name_spares_hold.as_ref().filter(|_| verbose) {
        let none = format!("No other name would avoid the hold: {why}.");
        lines(out, 0, &none, style);
    }
    if let Some(command) = &file.release {
        lines(out, 0, &format!("To release it now: {command}"), style);
    }
}

#[cfg(test)]
mod tests {
    use windrow_model::findings::Location;
    use windrow_plan::Origin;

    use super::*;
    use crate::render::Style;

    #[test]
    fn after_how_long_it_was_there_in_earlier_boots_is_told_below_what_is_waited_for() {
        let need = |usual: Option<&str>| Blocker {
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
        };
        let view = WhyView {
            at: Timestamp::UNIX_EPOCH,
            verbose: false,
            style: Style::default(),
        };
        let shown = |usual| {
            let mut out = String::new();
            write_need(&mut out, &need(usual), 2, view);
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
