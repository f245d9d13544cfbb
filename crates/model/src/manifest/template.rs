//! Templates where manifests should be: what a chart's `templates/` has, copied as it is.

use std::collections::BTreeSet;

use super::Problem;

/// What to do with one.
const ADVICE: &str = "It looks like a Helm template, and RKE2 renders none: render it first with `helm template`, or install \
                      its chart with a HelmChart";

/// Instead of what is wrong with it as JSON.
pub(super) const INSTEAD_OF_JSON: &str = "the document begins with a template's braces, which RKE2 takes for JSON and refuses. It looks like a Helm template, and \
     RKE2 renders none: render it first with `helm template`, or install its chart with a HelmChart";

/// Does a document begin with a template's action?
pub(super) fn begins(text: &str) -> bool {
    text.trim_start().starts_with("{{")
}

/// What is wrong with a document as YAML, with what it probably is. Lines are counted from `first_line`.
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
        // An action that stands alone is often noticed a line later.
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
