//! When RKE2's certificates expire. RKE2 renews them when it starts, and only then.
//!
//! kube-controller-manager and kube-scheduler serve with certificates in separate directories. Until RKE2 v1.30.13,
//! v1.31.9, v1.32.5 and v1.33.1 they make these themselves, valid for a year, and keep the file over every restart of
//! RKE2 (rancher#41125); from those on RKE2 makes and renews them (k3s#12285).

use std::path::{Path, PathBuf};

use jiff::Timestamp;
use windrow_model::reasons::Code;
use windrow_plan::readiness::node::{ProbeLimit, ProbeOutcome};

use super::context::ProbeContext;

use crate::fs;

const DAY: i64 = 24 * 60 * 60;
const LARGEST: u64 = 1 << 20;
/// The directories of the components' serving certificates, below RKE2's data directory.
const COMPONENTS: [&str; 2] = [
    "server/tls/kube-controller-manager",
    "server/tls/kube-scheduler",
];
/// The directories of RKE2's own certificates. Other directories below `server/tls` contain no serving certificates.
const RKE2S: [&str; 3] = ["server/tls", "server/tls/etcd", "agent"];

struct CertificateFile {
    path: PathBuf,
    /// Its name in messages: below `server/tls` or `agent`.
    name: String,
    is_components: bool,
}

/// The first to expire, and how many more do. If none does, the first that cannot be read.
pub(super) fn expiry(context: &ProbeContext, limit: Option<ProbeLimit>) -> ProbeOutcome {
    let mut ends = Vec::new();
    let mut unreadable = Vec::new();
    for file in files(context) {
        match not_after(&file.path) {
            Ok(at) => ends.push((at, file)),
            Err(why) => unreadable.push((file.name, why)),
        }
    }
    ends.sort_by(|(a, one), (b, other)| (a, &one.name).cmp(&(b, &other.name)));
    unreadable.sort();
    match judge((context.now)(), &ends, limit) {
        ProbeOutcome::Passed if !unreadable.is_empty() => {
            let (asked, why) = unreadable.swap_remove(0);
            ProbeOutcome::unknown(asked, why)
        }
        ProbeOutcome::Passed if ends.is_empty() => {
            ProbeOutcome::unknown("RKE2's certificates", "there are none yet")
        }
        outcome => outcome,
    }
}

fn judge(
    now: Timestamp,
    ends: &[(i64, CertificateFile)],
    limit: Option<ProbeLimit>,
) -> ProbeOutcome {
    let fewest = match limit {
        Some(ProbeLimit::Left(time)) => i64::try_from(time.as_secs()).unwrap_or(i64::MAX) / DAY,
        _ => 0,
    };
    let days = |at: &i64| (at - now.as_second()).div_euclid(DAY);
    let ending: Vec<_> = ends
        .iter()
        .map(|(at, file)| (days(at), file))
        .filter(|(days, _)| *days <= fewest)
        .collect();
    let Some((days, first)) = ending.first() else {
        return ProbeOutcome::Passed;
    };
    let (name, more) = (&first.name, ending.len() - 1);
    let mut why = format!("{name} runs out in {days} days");
    if *days < 0 {
        why = format!("{name} has run out");
    }
    if more > 0 {
        why = format!("{why} (and {more} more)");
    }
    // An action that helps a component's certificate helps RKE2's own too.
    match ending.iter().any(|(_, file)| file.is_components) {
        true => ProbeOutcome::failed_as(Code::ComponentCertificateExpiring, why),
        false => ProbeOutcome::failed(why),
    }
}

fn files(context: &ProbeContext) -> Vec<CertificateFile> {
    let layout = context.layout();
    let data = layout.data_dir();
    let below = |directory: &str| {
        let entries = fs::read_dir(data.join(directory));
        let paths = entries.into_iter().flatten().flatten();
        paths
            .map(|entry| entry.path())
            .filter(|path| path.extension().is_some_and(|ending| ending == "crt"))
            .map(|path| {
                let name = path.file_name().unwrap_or_default().to_string_lossy();
                let name = match directory.strip_prefix("server/tls/") {
                    Some(directory) => format!("{directory}/{name}"),
                    None => name.into_owned(),
                };
                CertificateFile {
                    is_components: COMPONENTS.contains(&directory),
                    path,
                    name,
                }
            })
            .collect::<Vec<_>>()
    };
    let directories = RKE2S.iter().chain(&COMPONENTS);
    directories.flat_map(|directory| below(directory)).collect()
}

/// When the certificate ends, in seconds since 1970. For a chain, the first one counts: the leaf.
///
/// # Errors
///
/// Why it cannot be read.
pub fn not_after(path: &Path) -> Result<i64, String> {
    let length = fs::metadata(path).map_err(|error| error.to_string())?;
    if !length.is_file() || length.len() > LARGEST {
        return Err("it is not a certificate file".to_owned());
    }
    let text = fs::read(path).map_err(|error| error.to_string())?;
    let (_, pem) = x509_parser::pem::parse_x509_pem(&text).map_err(|error| error.to_string())?;
    let certificate = pem.parse_x509().map_err(|error| error.to_string())?;
    Ok(certificate.validity().not_after.timestamp())
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    fn named(name: &str, is_components: bool) -> CertificateFile {
        CertificateFile {
            path: PathBuf::new(),
            name: name.to_owned(),
            is_components,
        }
    }

    #[test]
    fn a_certificate_is_told_of_as_long_before_it_runs_out_as_the_limit_says() {
        let now = Timestamp::from_second(1_800_000_000).unwrap();
        let limit = |days: u64| Some(ProbeLimit::Left(Duration::from_secs(days * 86_400)));
        let at = |days: i64, least| {
            let ends = [(now.as_second() + days * DAY, named("a.crt", false))];
            judge(now, &ends, limit(least))
        };
        assert_eq!(at(15, 14), ProbeOutcome::Passed);
        assert_eq!(
            at(14, 14),
            ProbeOutcome::failed("a.crt runs out in 14 days")
        );
        assert_eq!(
            at(30, 30),
            ProbeOutcome::failed("a.crt runs out in 30 days")
        );
        assert_eq!(at(-1, 14), ProbeOutcome::failed("a.crt has run out"));
    }

    #[test]
    fn where_a_components_own_runs_out_too_the_reason_is_the_one_that_helps_both() {
        let now = Timestamp::from_second(1_800_000_000).unwrap();
        let ends = [
            (now.as_second() - 1, named("etcd/client.crt", false)),
            (now.as_second() + DAY, named("kube-scheduler/a.crt", true)),
            (now.as_second() + 99 * DAY, named("b.crt", false)),
        ];
        let limit = Some(ProbeLimit::Left(Duration::from_secs(14 * 86_400)));
        let why = "etcd/client.crt has run out (and 1 more)";
        assert_eq!(
            judge(now, &ends, limit),
            ProbeOutcome::failed_as(Code::ComponentCertificateExpiring, why)
        );
    }
}
