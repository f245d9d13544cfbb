//! What is wrong with an object.

use windrow_model::manifest::Object;
use windrow_model::redact::REDACTED;

use crate::path::Path;

/// What kind of fault it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum ProblemKind {
    /// No such kind in this group and version.
    UnknownKind,
    /// The version was served once.
    RemovedVersion,
    /// kube-apiserver serves it only where it is told to.
    OffByDefault,
    /// It cannot be decoded.
    WrongType,
    /// It is dropped.
    UnknownField,
    /// It is taken once, and fails whenever RKE2 applies its file again.
    RefusedAgain,
    /// It is not valid.
    Invalid,
}

/// Something wrong with an object.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Problem {
    /// What kind of fault it is.
    pub kind: ProblemKind,
    /// Line in the file, counted from 1.
    pub line: u32,
    /// The field, as Kubernetes writes it; empty where the object as a whole is meant.
    pub field: String,
    /// What is wrong with it, in words.
    pub message: String,
    /// What kube-apiserver says; `None` where it refuses nothing, or where it is not asked at all.
    pub refusal: Option<String>,
}

impl Problem {
    /// Does kube-apiserver refuse the object for it?
    pub fn refuses(&self) -> bool {
        !matches!(
            self.kind,
            ProblemKind::UnknownField | ProblemKind::OffByDefault | ProblemKind::RefusedAgain
        )
    }

    /// An error of validation, in the words of its kinds (`Required value`). The value is not quoted.
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
                (Reason::NotFound, why) => format!("names something that is not there: {why}"),
                (Reason::Invalid | Reason::Unsupported, why) => format!("is not valid: {why}"),
                (Reason::TooLong, why) => format!("is too long: {why}"),
                (Reason::Forbidden, why) => format!("is not allowed there: {why}"),
            },
            field,
        }
    }
}

/// The kinds of errors that kube-apiserver's validation knows.
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
    /// kube-apiserver quotes the value, and a message here never does.
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

/// Sorts them by line, and puts the words of the whole request around those of validation.
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

/// What kube-apiserver says of an object that is not valid.
pub(crate) fn invalid(object: &Object, words: &str) -> String {
    let kind = object.id.group_kind();
    format!("{kind} \"{}\" is invalid: {words}", object.id.name)
}
