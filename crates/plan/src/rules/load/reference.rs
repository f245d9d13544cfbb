//! `references:` of a pack: fields that name other objects.

use windrow_model::manifest::NodeValue;

use super::parts::{kind, required_kind};
use super::{Heading, PackItem};
use crate::rules::fields::{Errors, Fields};
use crate::rules::matching::scalar;
use crate::rules::{Beside, FieldPath, NeedCondition, Reference, ReferenceNamespace};

/// The keys of a reference, in addition to those of its heading.
pub(super) const KEYS: &[&str] = &[
    "from",
    "under",
    "paths",
    "to",
    "namespace",
    "condition",
    "only",
    "unless",
    "except",
    "suffix",
    "ifDeclared",
];

pub(super) fn reference(
    fields: &Fields<'_>,
    heading: Heading,
    errors: &mut Errors<'_>,
) -> Option<PackItem> {
    fields.filled("from", errors);
    fields.filled("paths", errors);
    let from = fields
        .list("from", errors)
        .iter()
        .filter_map(|node| kind(node, errors))
        .collect();
    let to = required_kind(fields, "to", ": the kind of the named objects", errors);
    let condition = fields.word(
        "condition",
        &[
            ("exists", NeedCondition::Exists),
            ("ready", NeedCondition::Ready),
        ],
        errors,
    );
    let under = field_paths("under", fields, errors);
    let mut paths = field_paths("paths", fields, errors);
    if !under.is_empty() {
        paths = under
            .iter()
            .flat_map(|prefix| paths.iter().map(|path| path.below(prefix)))
            .collect();
    }
    Some(PackItem::Reference(Reference {
        name: heading.name,
        from,
        paths,
        only: beside("only", fields, errors),
        unless: beside("unless", fields, errors),
        except: fields
            .texts("except", errors)
            .into_iter()
            .map(|(text, _)| text.to_owned())
            .collect(),
        suffix: fields.text("suffix", errors).unwrap_or_default().to_owned(),
        to: to?,
        namespace: namespace(fields, errors),
        condition: condition.unwrap_or(NeedCondition::Exists),
        if_declared: fields.flag("ifDeclared", false, errors),
        at: heading.at,
    }))
}

fn field_paths(key: &str, fields: &Fields<'_>, errors: &mut Errors<'_>) -> Vec<FieldPath> {
    let mut paths = Vec::new();
    for (text, line) in fields.texts(key, errors) {
        match FieldPath::parse(text) {
            Ok(path) => paths.push(path),
            Err(error) => errors.at(line, format!("`{key}`: {error}")),
        }
    }
    paths
}

fn namespace(fields: &Fields<'_>, errors: &mut Errors<'_>) -> ReferenceNamespace {
    let beside = fields
        .get("namespace")
        .filter(|node| !node.entries().is_empty());
    if let Some(node) = beside {
        let key = Fields::new(node, "`namespace`", &["beside"], errors)
            .and_then(|namespace| namespace.required("beside", errors));
        return key.map_or(ReferenceNamespace::Same, |key| {
            ReferenceNamespace::Beside(key.to_owned())
        });
    }
    fields
        .word(
            "namespace",
            &[
                ("same", ReferenceNamespace::Same),
                ("cluster", ReferenceNamespace::Cluster),
                ("slash", ReferenceNamespace::Slash),
            ],
            errors,
        )
        .unwrap_or(ReferenceNamespace::Same)
}

/// `{kind: Role}`, `{kind: [Role, null]}`, `{optional: true}`: keys next to a name.
fn beside(key: &str, fields: &Fields<'_>, errors: &mut Errors<'_>) -> Vec<Beside> {
    let Some(node) = fields.get(key) else {
        return Vec::new();
    };
    if node.entries().is_empty() {
        errors.at(
            node.line,
            format!("`{key}` must map keys next to the name to the values that count, like `{{kind: Role}}`"),
        );
    }
    node.entries()
        .iter()
        .map(|entry| {
            let values = match &entry.value.value {
                NodeValue::Sequence(items) => items.as_slice(),
                _ => std::slice::from_ref(&entry.value),
            };
            Beside {
                key: entry.key.clone(),
                values: values.iter().map(|value| scalar(Some(value))).collect(),
            }
        })
        .collect()
}
