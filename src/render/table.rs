//! The plan as text for a terminal: the order, the dependencies of each file with their rules, then findings with advice.

use std::fmt::Write as _;

use windrow_model::findings::{Finding, Location};
use windrow_model::reasons::{Code, Severity};
use windrow_plan::rules::{NeedCondition, Tier};
use windrow_plan::{
    HoldAdvice, NameAdvice, Outlook, Plan, PlanDocument, PlanFile, Requirement, SatisfiedBy,
    SourceMap,
};
use windrow_simulate::rehearse::check::CheckVerdict;

use super::checks::write_verdict;
use super::graph::{BoxClass, BoxKind};
use super::text;
use crate::printable::printable;
use crate::render::{fit, wrap};

/// Requirements that only order are listed up to this many per file: they never keep a node from coming up, and `-o
/// json` has them all.
const ADVISORY_SHOWN: usize = 6;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Style {
    /// How many columns it may use.
    pub width: usize,
    pub color: bool,
}

impl Default for Style {
    fn default() -> Self {
        Self {
            width: 100,
            color: false,
        }
    }
}

impl Style {
    fn paint(self, code: &str, text: &str) -> String {
        if self.color {
            format!("\u{1b}[{code}m{text}\u{1b}[0m")
        } else {
            text.to_owned()
        }
    }

    pub fn strong(self, text: &str) -> String {
        self.paint("1", text)
    }

    pub fn dim(self, text: &str) -> String {
        self.paint("2", text)
    }

    pub fn good(self, text: &str) -> String {
        self.paint("32", text)
    }

    pub fn waiting(self, text: &str) -> String {
        self.paint("33", text)
    }

    pub fn bad(self, text: &str) -> String {
        self.paint("31", text)
    }

    pub fn severity(self, severity: Severity) -> String {
        let word = format!("{:<7}", severity.as_str());
        match severity {
            Severity::Error => self.bad(&word),
            Severity::Warning => self.waiting(&word),
            Severity::Info | Severity::Notice => self.dim(&word),
        }
    }
}

pub fn table(plan: &Plan, style: Style) -> String {
    let mut out = String::new();
    head(&mut out, plan, style);
    let advice = &plan.names;
    let unordered = (0..plan.files.len()).filter(|file| !plan.order.contains(file));
    for (position, file) in plan.order.iter().copied().chain(unordered).enumerate() {
        let number = plan.order.contains(&file).then_some(position + 1);
        one_file(&mut out, plan, &plan.files[file], number, style);
        if waits_for_needs(&plan.files[file]) {
            let text = match plan.advise_on_hold(file) {
                HoldAdvice::Name(path) => advise_name(&path, advice),
                HoldAdvice::NoName(why) => format!("no other name avoids the hold: {why}"),
            };
            paragraph(&mut out, style, "name", &text);
        }
    }
    out.push_str(&findings(&plan.findings_ahead(), style));
    verdict(&mut out, plan, style);
    out
}

/// Findings under their heading; empty if there are no findings.
pub fn findings(findings: &[Finding], style: Style) -> String {
    let mut out = String::new();
    if !findings.is_empty() {
        let _ = writeln!(out, "\n{}", style.strong("Findings"));
        for finding in findings {
            one_finding(&mut out, finding, style);
        }
    }
    out
}

fn head(out: &mut String, plan: &Plan, style: Style) {
    let held = plan
        .files
        .iter()
        .filter(|file| file.held_at_boot().is_some())
        .count();
    let platform = match plan.platform {
        Some(platform) => format!(" on {platform}"),
        None => String::new(),
    };
    let _ = writeln!(
        out,
        "{}{platform}: {}, {held} held at a fresh boot, in order of release\n",
        style.strong("Plan"),
        count(plan.files.len(), "manifest file"),
    );
}

fn count(number: usize, what: &str) -> String {
    match number {
        1 => format!("1 {what}"),
        _ => format!("{number} {what}s"),
    }
}

fn one_file(out: &mut String, plan: &Plan, file: &PlanFile, number: Option<usize>, style: Style) {
    let number = number.map_or("-".to_owned(), |number| number.to_string());
    let path = printable(&file.path);
    let objects = count(file.documents.len(), "object");
    let state = if let Some(owner) = file.owner.filter(|_| file.skipped.is_none()) {
        let state = match file.path.applied_by() {
            Some(other) => format!("by {other}"),
            None => format!("not touched: {owner}'s"),
        };
        style.dim(&fit(&state, 24))
    } else {
        let state = BoxKind::for_file(file);
        match state.class() {
            BoxClass::Free if is_refused_by_api(plan, file) => style.bad("will fail"),
            BoxClass::Free => style.good(state.badge()),
            BoxClass::Held => style.waiting(state.badge()),
            BoxClass::Wrong => style.bad(state.badge()),
            BoxClass::Other => style.dim(state.badge()),
        }
    };
    let room = style.width.saturating_sub(38).min(44);
    let _ = writeln!(
        out,
        "{number:>3}  {}{}  {objects:>10}  {state}",
        style.strong(&path),
        " ".repeat(room.saturating_sub(path.chars().count())),
    );
    if let Some((why, at)) = &file.hold {
        paragraph(
            out,
            style,
            "hold",
            &format!("by its own annotation ({}): {why}", place(file, at)),
        );
    }
    if let Some(why) = &file.refused {
        paragraph(out, style, "refused", why);
    }
    if let Some(marker) = &file.skipped {
        let text = format!("by {marker}, which Windrow did not make: RKE2 does not apply it");
        paragraph(out, style, "skipped", &text);
    }
    if file.owner.is_none() {
        waiting(out, plan, file, style);
    }
}

/// Whether an error of the plan says that the API server refuses an object of this file.
fn is_refused_by_api(plan: &Plan, file: &PlanFile) -> bool {
    let codes = [
        Code::ApiUnknownKind,
        Code::ApiRemovedVersion,
        Code::ApiWrongType,
        Code::ApiInvalid,
    ];
    let refused = plan.findings.iter();
    let mut refused = refused
        .filter(|finding| finding.severity == Severity::Error && codes.contains(&finding.code))
        .flat_map(|finding| &finding.at);
    refused.any(|at| file_at(plan, at).is_some_and(|other| std::ptr::eq(other, file)))
}

/// The manifest at this place: a configuration may have several, one after another.
fn file_at<'p>(plan: &'p Plan, at: &Location) -> Option<&'p PlanFile> {
    let files = plan.files.iter().filter(|file| file.shown.file == at.file);
    let begun = files.filter(|file| at.line.is_none_or(|line| file.shown.first_line <= line));
    begun.max_by_key(|file| file.shown.first_line)
}

fn waits_for_needs(file: &PlanFile) -> bool {
    file.held_at_boot().is_some() && file.refused.is_none() && file.hold.is_none() && !file.harmful
}

/// The time that another name would save.
fn advise_name(path: &str, advice: &NameAdvice) -> String {
    let passes = match advice.passes_then {
        1 => "one pass".to_owned(),
        more => format!("{more} passes"),
    };
    format!(
        "as {path} it would not be held: RKE2 would apply it after its dependencies, and all files in {passes} instead of {} ({} s less). \
         Only rename it in an image that has not booted yet",
        advice.passes,
        advice.saves().as_secs(),
    )
}

/// One line of a file's list: a need, and all requirements with the same need, tier and rule.
struct NeedGroup<'a> {
    first: &'a Requirement,
    document: &'a PlanDocument,
    more: usize,
}

fn groups(file: &PlanFile) -> Vec<NeedGroup<'_>> {
    let mut groups: Vec<NeedGroup<'_>> = Vec::new();
    for document in &file.documents {
        for requirement in document.requires.iter().filter(|one| one.takes_part()) {
            let known = groups.iter_mut().find(|group| {
                group.first.need == requirement.need
                    && group.first.tier == requirement.tier
                    && group.first.origin.rule == requirement.origin.rule
            });
            match known {
                Some(group) => group.more += 1,
                None => groups.push(NeedGroup {
                    first: requirement,
                    document,
                    more: 0,
                }),
            }
        }
    }
    groups
}

fn waiting(out: &mut String, plan: &Plan, file: &PlanFile, style: Style) {
    let (required, advisory): (Vec<_>, Vec<_>) = groups(file)
        .into_iter()
        .partition(|group| group.first.tier == Tier::Required);
    for group in required.iter().chain(advisory.iter().take(ADVISORY_SHOWN)) {
        one_group(out, plan, file, group, style);
    }
    if advisory.len() > ADVISORY_SHOWN {
        let rest = advisory.len() - ADVISORY_SHOWN;
        paragraph(
            out,
            style,
            "",
            &format!("and {rest} more that only affect the order; -o json lists them"),
        );
    }
}

fn one_group(out: &mut String, plan: &Plan, file: &PlanFile, group: &NeedGroup<'_>, style: Style) {
    let need = &plan.needs[group.first.need];
    let target = &need.target;
    let what = match &need.condition {
        NeedCondition::Served => format!("{target} served"),
        NeedCondition::Exists => format!("{target} exists"),
        NeedCondition::Ready => format!("{target} ready"),
        NeedCondition::Expression(_) => format!("{target}: {}", group.first.reason),
    };
    let by = match &group.first.satisfied_by {
        SatisfiedBy::File { file, line } => format!("from {}:{line}", plan.files[*file].path),
        SatisfiedBy::Platform {
            by,
            condition: None,
        } => format!("from {by}"),
        SatisfiedBy::Platform {
            by,
            condition: Some(condition),
        } => format!("from {by} if {condition}"),
        SatisfiedBy::SameFile { .. } => "from the same file".to_owned(),
        SatisfiedBy::Cluster => "looked up in the cluster".to_owned(),
        SatisfiedBy::Installer { file, line } => {
            format!("which {}:{line} may provide", plan.files[*file].path)
        }
        SatisfiedBy::Nobody => "which no known component provides".to_owned(),
    };
    let learned = group.first.learned.as_ref();
    let by = match learned {
        Some(learned) => format!("{by}, {learned}"),
        None => by,
    };
    let for_whom = match (file.documents.len(), group.more) {
        (1, _) => String::new(),
        (_, 0) => format!("for {}; ", group.document.object),
        (_, more) => format!("for {} and {more} more; ", group.document.object),
    };
    let in_pass = file.is_met_in_first_pass(plan, group.first);
    let label = match group.first.tier {
        _ if in_pass => "follows",
        Tier::Required => "needs",
        Tier::Advisory => "after",
    };
    let in_pass = if in_pass { " in the same pass" } else { "" };
    paragraph(
        out,
        style,
        label,
        &format!(
            "{what}, {by}{in_pass} ({for_whom}{}, {})",
            place(file, &group.first.origin.at),
            group.first.origin.rule
        ),
    );
}

/// The place in a file, as short as possible: in the file itself the line is enough.
fn place(file: &PlanFile, at: &Location) -> String {
    match at.line {
        Some(line) if at.file == file.shown.file && file.shown == SourceMap::itself(&at.file) => {
            format!("line {line}")
        }
        _ => at.to_string(),
    }
}

/// Column at which texts below a file begin.
const INDENT: usize = 14;

fn paragraph(out: &mut String, style: Style, label: &str, text: &str) {
    for (row, line) in wrap(&printable(text), style.width.saturating_sub(INDENT))
        .iter()
        .enumerate()
    {
        let label = format!("{:<9}", if row == 0 { label } else { "" });
        let label = match label.trim_end() {
            "needs" | "hold" => style.waiting(&label),
            "refused" => style.bad(&label),
            _ => style.dim(&label),
        };
        let _ = writeln!(out, "     {}", format!("{label}{line}").trim_end());
    }
}

fn one_finding(out: &mut String, finding: &Finding, style: Style) {
    let _ = writeln!(
        out,
        "  {}  {}",
        style.severity(finding.severity),
        style.strong(finding.code.as_str())
    );
    let mut lines = Vec::new();
    if !finding.at.is_empty() {
        let places: Vec<String> = finding.at.iter().map(ToString::to_string).collect();
        lines.push(places.join(", "));
    }
    lines.push(finding.message.clone());
    let advice = finding.code.reason().advice;
    if !finding.message.contains(advice) {
        lines.push(advice.to_owned());
    }
    for text in lines {
        text::paragraph(out, &text, 11, style.width);
    }
}

fn verdict(out: &mut String, plan: &Plan, style: Style) {
    let errors_of = |findings: &[Finding]| {
        let errors = findings.iter().map(|finding| finding.severity);
        errors
            .filter(|severity| *severity == Severity::Error)
            .count()
    };
    let verdict = CheckVerdict::from_plan(plan);
    let sentence = match plan.outlook() {
        // As many as the list above this line has.
        Outlook::CannotWork { .. } if errors_of(&plan.findings) > 0 => format!(
            "It cannot work as it is: {}.",
            count(errors_of(&plan.findings_ahead()), "error")
        ),
        Outlook::CannotWork { missing } => format!(
            "It cannot work as it is: no known component provides {}.",
            first_of(&missing)
        ),
        Outlook::Unknown { .. } if is_partly_read(plan) => {
            "Windrow cannot tell whether it can work: it could not check everything.".to_owned()
        }
        Outlook::Unknown { unless } => format!(
            "Windrow cannot tell whether it can work. It can if {}.",
            first_of(&unless)
        ),
        Outlook::Works if verdict == CheckVerdict::Fail => {
            format!(
                "It cannot work as it is: {}.",
                count(errors_of(&plan.findings_ahead()), "error")
            )
        }
        Outlook::Works if verdict == CheckVerdict::Unknown => {
            "Windrow cannot tell whether it can work: see the findings above.".to_owned()
        }
        Outlook::Works if plan.files.is_empty() => "There is nothing to stage.".to_owned(),
        Outlook::Works => every_file(plan),
    };
    write_verdict(out, verdict.outcome(), &sentence, style);
    if let Some(learned) = plan.learned_share().sentence() {
        for line in wrap(&learned, style.width) {
            let _ = writeln!(out, "{}", style.dim(&line));
        }
    }
}

fn is_partly_read(plan: &Plan) -> bool {
    let mut codes = plan.findings.iter().map(|finding| finding.code);
    codes.any(|code| code == Code::NotLookedAt)
}

/// The first of them, and the number of the rest.
fn first_of(all: &[String]) -> String {
    let first = printable(all.first().map_or("", String::as_str));
    match all.len() {
        0 | 1 => first,
        number => format!("{first} and {} more", number - 1),
    }
}

/// The last line if only foreign markers keep files from being released.
fn every_file(plan: &Plan) -> String {
    let skipped = plan.files.iter().filter(|file| file.skipped.is_some());
    match skipped.count() {
        0 => "All dependencies can be met: every file can be released. `windrow check` validates more."
            .to_owned(),
        skipped => format!(
            "RKE2 skips {}; every other file can be released. `windrow check` validates more.",
            count(skipped, "file")
        ),
    }
}
