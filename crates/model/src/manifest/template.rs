//! Templates in place of manifests: a chart's `templates/`, copied without rendering.

use std::collections::BTreeSet;

use super::Problem;

/// The advice about a template.
const ADVICE: &str = "It looks like a Helm template, and RKE2 renders none: render it first with `helm template`, or install \
                      its chart with a HelmChart";

/// Replaces the error that the document has as JSON.
pub(super) const INSTEAD_OF_JSON: &str = "the document begins with a template's braces, which RKE2 takes for JSON and refuses. It looks like a Helm template, and \
     RKE2 renders none: render it first with `helm template`, or install its chart with a HelmChart";

/// Whether a document begins with a template's action.
pub(super) fn begins(text: &str) -> bool {
    text.trim_start().starts_with("{{")
}

/// The error of a document as YAML, with its probable cause. Lines are counted from `first_line`.
pub(super) fn explain_templates(
    mut problems: Vec<Problem>,
    text: &str,
    first_line: u32,
) -> Vec<Problem> {
    if !is_helms(text) {
        return problems;
    }
    let lines = (first_line..).zip(text.lines());
    let lines = lines.filter(|(_, line)| line.contains("{{"));
    let actions: BTreeSet<u32> = lines.map(|(number, _)| number).collect();
    for problem in &mut problems {
        let Some(line) = problem.line else {
            continue;
        };
        // The error of an action without other text in its line is often one line later.
        if [line, line.saturating_sub(1)]
            .iter()
            .any(|line| actions.contains(line))
        {
            let message = problem.message.trim_end_matches('.');
            problem.message = format!("{message}. {ADVICE}");
        }
    }
    problems
}

/// Actions that only Helm's templates have; other tools have braces too.
fn is_helms(text: &str) -> bool {
    text.contains("{{")
        && [
            "{{-",
            "-}}",
            ".Values.",
            ".Release.",
            ".Chart.",
            ".Capabilities.",
            "{{ include ",
            "{{ if ",
            "{{ range ",
            "{{ with ",
        ]
        .iter()
        .any(|action| text.contains(action))
}
