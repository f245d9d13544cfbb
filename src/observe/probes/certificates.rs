//! RKE2's certificates: when do they expire? RKE2 renews them when it starts, and only then.

use std::path::{Path, PathBuf};

use jiff::Timestamp;
use windrow_plan::readiness::node::{ProbeLimit, ProbeOutcome};

use super::context::ProbeContext;

const DAY: i64 = 24 * 60 * 60;
/// No certificate is longer.
const LARGEST: u64 = 1 << 20;

/// The first to expire.
pub(super) fn expiry(context: &ProbeContext, limit: Option<ProbeLimit>) -> ProbeOutcome {
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
    judge((context.now)(), at, &name, limit)
}

fn judge(now: Timestamp, at: i64, name: &str, limit: Option<ProbeLimit>) -> ProbeOutcome {
    let days = (at - now.as_second()).div_euclid(DAY);
    let fewest = match limit {
        Some(ProbeLimit::Left(time)) => i64::try_from(time.as_secs()).unwrap_or(i64::MAX) / DAY,
        _ => 0,
    };
    match days {
        ..0 => ProbeOutcome::failed(format!("{name} has run out")),
        days if days <= fewest => ProbeOutcome::failed(format!("{name} runs out in {days} days")),
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
        return Err("it is not a certificate file".to_owned());
    }
    let text = std::fs::read(path).map_err(|error| error.to_string())?;
    let (_, pem) = x509_parser::pem::parse_x509_pem(&text).map_err(|error| error.to_string())?;
    let certificate = pem.parse_x509().map_err(|error| error.to_string())?;
    Ok(certificate.validity().not_after.timestamp())
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn a_certificate_is_told_of_as_long_before_it_runs_out_as_the_limit_says() {
        let now = Timestamp::from_second(1_800_000_000).unwrap();
        let limit = |days: u64| Some(ProbeLimit::Left(Duration::from_secs(days * 86_400)));
        let at = |days: i64, least| judge(now, now.as_second() + days * DAY, "a.crt", limit(least));
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
}
