//! Remarks about a configuration, for one release or several.

use std::collections::BTreeMap;

use windrow_harvester::HarvesterVersion;
use windrow_model::findings::{Finding, Location};
use windrow_model::reasons::{Code, Severity};

#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum RemarkKind {
    /// The installer stops.
    Refused,
    /// The installer passes it on, and the installed system cannot work.
    Overlooked,
    /// The installer stops under a condition that the file does not show.
    Depends,
    /// The same, but the file does not request an automatic installation: the installer may ask.
    Asks,
    /// The installer passes it on, and the node comes up in another way than the file probably means.
    Unintended,
    /// The installer does not read this key.
    Ignored(String),
    /// The same, but what the key requests happens anyway.
    Unneeded(String),
}

#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Remark {
    pub(super) line: u32,
    pub(super) kind: RemarkKind,
    /// The problem and its fix.
    pub(super) why: String,
}

pub(super) type Remarks = Vec<Remark>;

impl Remark {
    pub(super) fn refused(line: u32, why: impl Into<String>) -> Self {
        let kind = RemarkKind::Refused;
        let why = why.into();
        Self { line, kind, why }
    }

    pub(super) fn ignored(line: u32, key: &str, why: impl Into<String>) -> Self {
        let kind = RemarkKind::Ignored(key.to_owned());
        let why = why.into();
        Self { line, kind, why }
    }
}

/// The releases to check, and whether their answer is certain.
pub(super) struct AskedReleases {
    pub(super) releases: Vec<HarvesterVersion>,
    /// The requested version, if its sources were not read.
    pub(super) unread: Option<HarvesterVersion>,
}

pub(super) fn findings(
    shown: &str,
    asked: &AskedReleases,
    remarks: BTreeMap<Remark, Vec<HarvesterVersion>>,
) -> Vec<Finding> {
    let found = remarks.into_iter().map(|(remark, by)| {
        let is_certain = by.len() == asked.releases.len() && asked.unread.is_none();
        let (code, severity, message) = match remark.kind {
            RemarkKind::Refused if is_certain => {
                let code = Code::InstallerRefuses;
                (code, code.severity(), code.say(&[("why", &remark.why)]))
            }
            RemarkKind::Overlooked if is_certain => {
                let code = Code::InstallerOverlooks;
                (code, code.severity(), code.say(&[("why", &remark.why)]))
            }
            RemarkKind::Unintended => {
                let code = Code::InstallerUnintended;
                (code, code.severity(), code.say(&[("why", &remark.why)]))
            }
            RemarkKind::Unneeded(key) => {
                let code = Code::InstallerIgnores;
                let message = code.say(&[("key", &key), ("why", &remark.why)]);
                (code, Severity::Notice, message)
            }
            RemarkKind::Ignored(key) => {
                let code = Code::InstallerIgnores;
                let severity = match is_certain {
                    true => code.severity(),
                    false => Severity::Notice,
                };
                (
                    code,
                    severity,
                    code.say(&[("key", &key), ("why", &remark.why)]),
                )
            }
            kind => {
                let code = Code::InstallerDepends;
                let severity = match kind {
                    RemarkKind::Asks => Severity::Notice,
                    _ => code.severity(),
                };
                let releases = span(&by);
                let by = match (&kind, asked.unread) {
                    (RemarkKind::Refused, Some(version)) => {
                        format!("v{version} was not read, and {releases} refuse it: ")
                    }
                    (RemarkKind::Refused, None) => format!("{releases} refuse it: "),
                    (RemarkKind::Overlooked, Some(version)) => {
                        format!("v{version} was not read, and {releases} do not look at it: ")
                    }
                    (RemarkKind::Overlooked, None) => format!("{releases} do not look at it: "),
                    _ => String::new(),
                };
                let why = format!("{by}{}", remark.why);
                (code, severity, code.say(&[("why", &why)]))
            }
        };
        Finding {
            incident: None,
            code,
            severity,
            message,
            at: vec![Location::line(shown, remark.line)],
        }
    });
    found.collect()
}

/// The minor releases, in words.
fn span(releases: &[HarvesterVersion]) -> String {
    let minor = |release: &HarvesterVersion| format!("v{}.{}", release.major, release.minor);
    let (Some(first), Some(last)) = (releases.first(), releases.last()) else {
        return String::new();
    };
    let (oldest, newest) = (minor(first), minor(last));
    match first == last {
        true => format!("releases of {oldest}"),
        false => format!("releases of {oldest} to {newest}"),
    }
}
