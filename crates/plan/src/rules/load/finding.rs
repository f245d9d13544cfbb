//! `findings:` of a pack: what is wrong with objects of a kind, and what to say of it.

use windrow_model::manifest::Node;
use windrow_model::reasons::Severity;
use windrow_model::redact::quoted;

use super::parts::kind;
use super::{PackItem, heading};
use crate::rules::fields::{Errors, Fields};
use crate::rules::{FindingRule, MessageTemplate, Platform};

/// Most things that a finding shows.
const MOST_EVIDENCE: usize = 16;

pub(super) fn finding(
    node: &Node,
    pack: &str,
    platform: Option<Platform>,
    errors: &mut Errors<'_>,
) -> Option<PackItem> {
    let before = errors.count();
    let keys = [
        "name",
        "enabled",
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
    let fields = Fields::new(node, "the finding", &keys, errors)?;
    let at = errors.location(fields.line());
    let (name, enabled) = heading(&fields, pack, errors)?;
    if !enabled {
        return Some(PackItem::Off { name, at });
    }
    let of = match fields.get("kind") {
        Some(node) => kind(node, errors),
        None => {
            errors.at(
                fields.line(),
                "the finding lacks `kind: {group: ..., kind: ...}`: whose objects are looked at",
            );
            None
        }
    };
    if let Some(of) = &of
        && of.group.is_empty()
        && of.kind == "Secret"
    {
        errors.at(
            fields.line(),
            "Secrets are not looked at: what is found is shown to everybody",
        );
    }
    if fields.get("when").is_none() {
        errors.at(
            fields.line(),
            "the finding lacks `when`: the CEL condition on `object` by which it is recognised",
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
    let message = template(&fields, "message", errors);
    let advice = fields.required("advice", errors);
    let documentation = documentation(&fields, errors);
    let evidence = evidence(&fields, errors);
    let when = fields.expression("when", errors);
    let rule = FindingRule {
        name,
        at,
        platform,
        kind: of?,
        namespace: fields.text("namespace", errors).map(str::to_owned),
        object: fields.text("object", errors).map(str::to_owned),
        when: when?,
        severity: severity.unwrap_or(Severity::Warning),
        message: message?,
        evidence,
        advice: advice?.to_owned(),
        documentation: documentation.map(str::to_owned),
    };
    (errors.count() == before).then_some(PackItem::Finding(rule))
}

/// The address of a page; people are sent there.
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
