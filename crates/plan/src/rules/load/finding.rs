//! `findings:` of a pack: problems of objects of a kind, and their messages.

use windrow_model::reasons::Severity;
use windrow_model::redact::quoted;

use super::parts::required_kind;
use super::{Heading, PackItem};
use crate::rules::fields::{Errors, Fields};
use crate::rules::{FindingRule, MessageTemplate, Platform};

/// Most pieces of evidence in a finding.
const MOST_EVIDENCE: usize = 16;

/// The keys of a finding, in addition to those of its heading.
pub(super) const KEYS: &[&str] = &[
    "kind",
    "namespace",
    "object",
    "when",
    "severity",
    "message",
    "evidence",
    "advice",
    "documentation",
];

pub(super) fn finding(
    fields: &Fields<'_>,
    heading: Heading,
    platform: Option<Platform>,
    errors: &mut Errors<'_>,
) -> Option<PackItem> {
    let kind = required_kind(fields, "kind", ": the kind of the objects to check", errors);
    if let Some(kind) = &kind
        && kind.group.is_empty()
        && kind.kind == "Secret"
    {
        errors.at(
            fields.line(),
            "Secrets are not checked: anyone can read the findings",
        );
    }
    if fields.get("when").is_none() {
        fields.lacks(
            "`when`: the CEL condition on `object` by which it is recognised",
            errors,
        );
    }
    let severity = fields.word(
        "severity",
        &[
            ("info", Severity::Info),
            ("notice", Severity::Notice),
            ("warning", Severity::Warning),
            ("error", Severity::Error),
        ],
        errors,
    );
    fields.required("message", errors);
    let message = template(fields, "message", errors);
    let advice = fields.required("advice", errors);
    let documentation = documentation(fields, errors);
    let evidence = evidence(fields, errors);
    let when = fields.expression("when", errors);
    Some(PackItem::Finding(FindingRule {
        name: heading.name,
        at: heading.at,
        platform,
        kind: kind?,
        namespace: fields.text("namespace", errors).map(str::to_owned),
        object: fields.text("object", errors).map(str::to_owned),
        when: when?,
        severity: severity.unwrap_or(Severity::Warning),
        message: message?,
        evidence,
        advice: advice?.to_owned(),
        documentation: documentation.map(str::to_owned),
    }))
}

/// The address of a page for users.
fn documentation<'n>(fields: &Fields<'n>, errors: &mut Errors<'_>) -> Option<&'n str> {
    let address = fields.text("documentation", errors)?;
    let is_one = address.starts_with("https://") || address.starts_with("http://");
    if !is_one || address.contains(char::is_whitespace) {
        errors.at(
            fields.line_of("documentation"),
            format!(
                "`documentation` is {}, expected an address like https://wiki.example/nic",
                quoted(address)
            ),
        );
        return None;
    }
    Some(address)
}

fn template(fields: &Fields<'_>, key: &str, errors: &mut Errors<'_>) -> Option<MessageTemplate> {
    let text = fields.get(key)?.as_str()?;
    MessageTemplate::parse(text)
        .map_err(|why| errors.at(fields.line_of(key), format!("`{key}`: {why}")))
        .ok()
}

fn evidence(fields: &Fields<'_>, errors: &mut Errors<'_>) -> Vec<(String, MessageTemplate)> {
    let pairs = fields.pairs("evidence", errors);
    if pairs.len() > MOST_EVIDENCE {
        errors.at(
            fields.line_of("evidence"),
            format!("`evidence` has more than {MOST_EVIDENCE} entries"),
        );
    }
    let mut found = Vec::new();
    for (key, text, line) in pairs {
        match MessageTemplate::parse(text) {
            Ok(template) => found.push((key.to_owned(), template)),
            Err(why) => errors.at(line, format!("`evidence` of `{key}`: {why}")),
        }
    }
    found
}
