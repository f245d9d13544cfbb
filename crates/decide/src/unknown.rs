//! Why a node is Unknown: one of five kinds, which require different reactions.

use std::fmt;

use windrow_model::reasons::Code;

use super::status::Status;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum UnknownKind {
    /// The node or Windrow has just started.
    FirstChecks,
    /// Nothing shows whether it is a server or an agent.
    NoRole,
    /// Something does not answer, or sends an unusable answer.
    NoAnswer,
    /// The credential has no permission.
    Refused,
    ProbesOff,
}

impl UnknownKind {
    pub fn of(code: Code) -> Self {
        match code {
            Code::ProbePending => Self::FirstChecks,
            Code::RoleUnknown => Self::NoRole,
            Code::ProbeRefused | Code::Forbidden | Code::CredentialRefused => Self::Refused,
            Code::ProbeOff | Code::NotProbed => Self::ProbesOff,
            _ => Self::NoAnswer,
        }
    }

    /// In a word or two, for one line.
    pub fn as_word(self) -> &'static str {
        match self {
            Self::FirstChecks => "checking",
            Self::NoRole => "no role",
            Self::NoAnswer => "no answer",
            Self::Refused => "refused",
            Self::ProbesOff => "probes off",
        }
    }
}

impl fmt::Display for UnknownKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::FirstChecks => "first checks running",
            Self::NoRole => "role not known",
            Self::NoAnswer => "cannot be asked",
            Self::Refused => "refused",
            Self::ProbesOff => "probes are off",
        })
    }
}

impl Status {
    /// Only for a node that is Unknown.
    pub fn why_unknown(&self) -> UnknownKind {
        UnknownKind::of(self.reason.code)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_code_of_the_unknown_is_of_one_of_five_kinds_with_words_of_its_own() {
        for (code, words) in [
            (Code::ProbePending, "first checks running"),
            (Code::RoleUnknown, "role not known"),
            (Code::ProbeUnknown, "cannot be asked"),
            (Code::ApiUnreachable, "cannot be asked"),
            (Code::StateUnknown, "cannot be asked"),
            (Code::ProbeRefused, "refused"),
            (Code::CredentialRefused, "refused"),
            (Code::ProbeOff, "probes are off"),
            (Code::NotProbed, "probes are off"),
        ] {
            assert_eq!(UnknownKind::of(code).to_string(), words, "{code}");
        }
    }
}
