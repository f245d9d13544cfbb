//! RKE2's certificates: when do they expire? RKE2 renews them when it starts, and only then.

use std::path::{Path, PathBuf};

use jiff::Timestamp;
use windrow_plan::readiness::node::ProbeOutcome;

use super::context::ProbeContext;

/// A certificate with no more days left than these fails the probe.
const DAYS: i64 = 14;
const DAY: i64 = 24 * 60 * 60;
/// No certificate is longer.
const LARGEST: u64 = 1 << 20;

/// The first to expire.
pub(super) fn expiry(context: &ProbeContext) -> ProbeOutcome {
    let mut soonest: Option<(i64, String)> = None;
    let mut unreadable = None;
    for path in files(context) {
        let name = path
            .file_name()
            .map(|name| name.to_string_lossy().into_owned())
            .unwrap_or_default();
        match not_after(&path) {
            Ok(at) => {
                if soonest.as_ref().is_none_or(|(known, _)| at < *known) {
                    soonest = Some((at, name));
                }
            }
            Err(why) => unreadable = Some((name, why)),
        }
    }
    let Some((at, name)) = soonest else {
        let (asked, why) = unreadable.unwrap_or_else(|| {
            (
                "RKE2's certificates".to_owned(),
                "there are none yet".to_owned(),
            )
        });
        return ProbeOutcome::unknown(asked, why);
    };
    judge((context.now)(), at, &name)
}

fn judge(now: Timestamp, at: i64, name: &str) -> ProbeOutcome {
    let days = (at - now.as_second()).div_euclid(DAY);
    match days {
        ..0 => ProbeOutcome::failed(format!("{name} has run out")),
        0..=DAYS => ProbeOutcome::failed(format!("{name} runs out in {days} days")),
        _ => ProbeOutcome::Passed,
    }
}

fn files(context: &ProbeContext) -> Vec<PathBuf> {
    let layout = context.layout();
    let data = layout.data_dir();
    [data.join("server/tls"), data.join("agent")]
        .iter()
        .filter_map(|directory| std::fs::read_dir(directory).ok())
        .flatten()
        .flatten()
        .map(|entry| entry.path())
        .filter(|path| path.extension().is_some_and(|ending| ending == "crt"))
        .collect()
}

/// When the certificate ends, in seconds since 1970. Of a chain, the first one: the leaf.
///
/// # Errors
///
/// Why it cannot be read.
pub fn not_after(path: &Path) -> Result<i64, String> {
    let length = std::fs::metadata(path).map_err(|error| error.to_string())?;
    if !length.is_file() || length.len() > LARGEST {
        return Err("it is no certificate file".to_owned());
    }
    let text = std::fs::read(path).map_err(|error| error.to_string())?;
    let (_, pem) = x509_parser::pem::parse_x509_pem(&text).map_err(|error| error.to_string())?;
    let certificate = pem.parse_x509().map_err(|error| error.to_string())?;
    Ok(certificate.validity().not_after.timestamp())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_certificate_is_told_of_two_weeks_before_it_runs_out() {
        let now = Timestamp::from_second(1_800_000_000).unwrap();
        let at = |days: i64| judge(now, now.as_second() + days * DAY, "a.crt");
        assert_eq!(at(15), ProbeOutcome::Passed);
        assert_eq!(at(14), ProbeOutcome::failed("a.crt runs out in 14 days"));
        assert_eq!(at(-1), ProbeOutcome::failed("a.crt has run out"));
    }
}
