//! An error in an object.

use windrow_model::manifest::Object;
use windrow_model::redact::REDACTED;

use crate::path::Path;

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum ProblemKind {
    /// The group and version have no such kind.
    UnknownKind,
    /// The version is no longer served.
    RemovedVersion,
    /// kube-apiserver serves it only if configured to.
    OffByDefault,
    /// It cannot be decoded.
    WrongType,
    /// kube-apiserver drops it.
    UnknownField,
    /// It is accepted once, and fails whenever RKE2 applies its file again.
    RefusedAgain,
    /// It fails the validation.
    Invalid,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Problem {
    pub kind: ProblemKind,
    /// Line in the file, starting at 1.
    pub line: u32,
    /// The field, as Kubernetes writes it; empty for the object as a whole.
    pub field: String,
    pub message: String,
    /// The message of kube-apiserver; `None` if it does not reject the object, or is never asked.
    pub refusal: Option<String>,
}

impl Problem {
    pub fn refuses(&self) -> bool {
        !matches!(
            self.kind,
            ProblemKind::UnknownField | ProblemKind::OffByDefault | ProblemKind::RefusedAgain
        )
    }

    /// A validation error in the words of kube-apiserver (`Required value`). It does not quote the value.
    pub(crate) fn invalid(line: u32, path: &Path<'_>, reason: Reason, why: &str) -> Self {
        let field = path.to_string();
        let words = reason.words();
        let comma = if why.is_empty() { "" } else { ": " };
        Self {
            kind: ProblemKind::Invalid,
            line,
            refusal: Some(format!("{field}: {words}{comma}{why}")),
            message: match (reason, why) {
                (Reason::Required, "") => "is missing, and is required".to_owned(),
                (Reason::Required, why) => format!("is missing: {why}"),
                (Reason::Duplicate, _) => {
                    "has a value that appears twice; rename or remove one".to_owned()
                }
                (Reason::NotFound, why) => format!("names a missing object: {why}"),
                (Reason::Invalid | Reason::Unsupported, why) => format!("is not valid: {why}"),
                (Reason::TooLong, why) => format!("is too long: {why}"),
                (Reason::Forbidden, why) => format!("is not allowed there: {why}"),
            },
            field,
        }
    }
}

/// The types of validation errors in kube-apiserver.
#[derive(Clone, Copy)]
pub(crate) enum Reason {
    Required,
    Duplicate,
    NotFound,
    Invalid,
    Unsupported,
    TooLong,
    Forbidden,
}

impl Reason {
    /// kube-apiserver quotes the value. These messages never do, because it may be a secret.
    fn words(self) -> String {
        match self {
            Self::Required => "Required value".to_owned(),
            Self::Duplicate => format!("Duplicate value: {REDACTED:?}"),
            Self::NotFound => format!("Not found: {REDACTED:?}"),
            Self::Invalid => format!("Invalid value: {REDACTED:?}"),
            Self::Unsupported => format!("Unsupported value: {REDACTED:?}"),
            Self::TooLong => "Too long".to_owned(),
            Self::Forbidden => "Forbidden".to_owned(),
        }
    }
}

/// Sorts the errors by line, and completes the messages of validation errors.
pub(crate) fn complete(object: &Object, problems: &mut Vec<Problem>) {
    problems.sort_by(|a, b| (a.line, &a.field, a.kind).cmp(&(b.line, &b.field, b.kind)));
    problems.dedup_by(|a, b| (a.kind, &a.field, a.line) == (b.kind, &b.field, b.line));
    for problem in problems.iter_mut() {
        if problem.kind == ProblemKind::Invalid
            && let Some(words) = &mut problem.refusal
        {
            *words = invalid(object, words);
        }
    }
}

/// The message of kube-apiserver about an invalid object.
pub(crate) fn invalid(object: &Object, words: &str) -> String {
    let kind = object.id.group_kind();
    format!("{kind} \"{}\" is invalid: {words}", object.id.name)
}
