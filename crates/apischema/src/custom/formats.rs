//! The text formats that kube-apiserver validates in the schemas of custom objects.
//!
//! Source: pkg/apiserver/validation/formats.go of k8s.io/apiextensions-apiserver v0.36.3 lists them; k8s.io/kube-openapi
//! (pkg/validation/strfmt) implements them. A format that is not in this list has no effect in kube-apiserver, and none here.

use std::net::Ipv6Addr;
use std::sync::LazyLock;

use regex::Regex;
use windrow_plan::kubernetes::Minors;

use crate::formats;

/// Whether a text has the format.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Verdict {
    Fits,
    Not,
    Unknown,
}

impl From<bool> for Verdict {
    fn from(fits: bool) -> Self {
        if fits { Self::Fits } else { Self::Not }
    }
}

pub(super) fn judge(format: &str, text: &str, minors: Minors) -> Verdict {
    // kube-apiserver treats `date-time` and `datetime` as the same format.
    match &*format.replace('-', "") {
        "date" => is_date(text).into(),
        "datetime" => is_date_time(text).into(),
        "duration" => (is_go_duration(text) || is_worded_duration(text)).into(),
        "byte" => matches(
            text,
            r"^(?:[A-Za-z0-9+/]{4})*(?:[A-Za-z0-9+/]{2}==|[A-Za-z0-9+/]{3}=|[A-Za-z0-9+/]{4})$",
        ),
        "uuid" => is_uuid(text, "[0-9a-f]", "[0-9a-f]"),
        "uuid3" => is_uuid(text, "3", "[0-9a-f]"),
        "uuid4" => is_uuid(text, "4", "[89ab]"),
        "uuid5" => is_uuid(text, "5", "[89ab]"),
        "ipv4" => (formats::is_address(text) && text.contains('.')).into(),
        "ipv6" => text.parse::<Ipv6Addr>().is_ok().into(),
        "cidr" => formats::is_network(text).into(),
        "mac" => is_hardware_address(text).into(),
        "uri" => judge_uri(text),
        "email" => judge_email(text),
        "hostname" => judge_hostname(text),
        "hexcolor" => matches(text, "^#?([0-9a-fA-F]{3}|[0-9a-fA-F]{6})$"),
        "k8sshortname" => since(34, minors, formats::is_dns_label(text)),
        "k8slongname" => since(34, minors, formats::is_subdomain(text)),
        "bsonobjectid" | "isbn" | "isbn10" | "isbn13" | "creditcard" | "ssn" | "rgbcolor" => {
            Verdict::Unknown
        }
        _ => Verdict::Fits,
    }
}

/// The verdict for a format that older minors do not have.
fn since(minor: u16, minors: Minors, fits: bool) -> Verdict {
    match fits || minors.last() < minor {
        true => Verdict::Fits,
        false if minors.first() >= minor => Verdict::Not,
        false => Verdict::Unknown,
    }
}

fn matches(text: &str, pattern: &str) -> Verdict {
    match Regex::new(pattern) {
        Ok(regex) => regex.is_match(text).into(),
        Err(_) => Verdict::Unknown,
    }
}

fn is_uuid(text: &str, third: &str, fourth: &str) -> Verdict {
    let third = match third {
        "[0-9a-f]" => "[0-9a-f]{4}".to_owned(),
        digit => format!("{digit}[0-9a-f]{{3}}"),
    };
    matches(
        text,
        &format!(
            "(?i)^[0-9a-f]{{8}}-?[0-9a-f]{{4}}-?{third}-?{fourth}[0-9a-f]{{3}}-?[0-9a-f]{{12}}$"
        ),
    )
}

fn is_date(text: &str) -> bool {
    let bytes = text.as_bytes();
    let digits = |range: std::ops::Range<usize>| bytes[range].iter().all(u8::is_ascii_digit);
    bytes.len() == 10
        && digits(0..4)
        && digits(5..7)
        && digits(8..10)
        && text.parse::<jiff::civil::Date>().is_ok()
}

/// Follows kube-openapi, which accepts texts that are not valid times.
fn is_date_time(text: &str) -> bool {
    static TIME: LazyLock<Option<Regex>> = LazyLock::new(|| {
        Regex::new(r"^([0-9]{2}):([0-9]{2}):([0-9]{2})(?:.[0-9]+)?(?:z|[+-][0-9]{2}:[0-9]{2})$")
            .ok()
    });
    let lower = text.to_lowercase();
    let mut parts = lower.split('t');
    let (Some(date), Some(time), Some(pattern)) = (parts.next(), parts.next(), &*TIME) else {
        return false;
    };
    let fits =
        |found: regex::Captures<'_>| &found[1] <= "23" && &found[2] <= "59" && &found[3] <= "59";
    is_date(date) && pattern.captures(time).is_some_and(fits)
}

/// Follows Go's `time.ParseDuration`: `1h30m`, `-1.5s`, `0`.
fn is_go_duration(text: &str) -> bool {
    matches(text, r"^[-+]?0$") == Verdict::Fits
        || matches(
            text,
            r"^[-+]?(?:(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:ns|us|µs|μs|ms|s|m|h))+$",
        ) == Verdict::Fits
}

/// Follows Scala, anywhere in the text: `22 ns`, `3 days`.
fn is_worded_duration(text: &str) -> bool {
    const UNITS: [&[&str]; 8] = [
        &["ns", "nano"],
        &["us", "µs", "micro"],
        &["ms", "milli"],
        &["s", "sec"],
        &["m", "min"],
        &["h", "hr", "hour"],
        &["d", "day"],
        &["w", "wk", "week"],
    ];
    static PART: LazyLock<Option<Regex>> =
        LazyLock::new(|| Regex::new(r"([0-9]+)[ \t\n\f\r]*([A-Za-zµ]+)").ok());
    let is_unit = |unit: &str| {
        let unit = unit.to_lowercase();
        UNITS.iter().any(|names| {
            names.contains(&&*unit) || names.last().is_some_and(|long| unit.starts_with(long))
        })
    };
    let Some(pattern) = &*PART else {
        return true;
    };
    let all: Vec<regex::Captures<'_>> = pattern.captures_iter(text).collect();
    let is_read = |part: &regex::Captures<'_>| part[1].parse::<i64>().is_ok();
    all.iter().all(is_read) && all.iter().any(|part| is_unit(&part[2]))
}

/// Follows Go's `net.ParseMAC`: 6, 8 or 20 bytes.
fn is_hardware_address(text: &str) -> bool {
    let parts = |separator: char, digits: usize| {
        let parts: Vec<&str> = text.split(separator).collect();
        let fits =
            |part: &&str| part.len() == digits && part.bytes().all(|b| b.is_ascii_hexdigit());
        parts.iter().all(fits) && matches!(parts.len() * digits / 2, 6 | 8 | 20)
    };
    parts(':', 2) || parts('-', 2) || parts('.', 4)
}

/// Follows Go's `url.ParseRequestURI`: a scheme, or a path that begins with `/`.
fn judge_uri(text: &str) -> Verdict {
    let is_control = |byte: u8| byte < b' ' || byte == 0x7f;
    let scheme = matches(text, r"^[A-Za-z][A-Za-z0-9+.-]*:");
    if text.bytes().any(is_control) || (scheme == Verdict::Not && !text.starts_with('/')) {
        return (text == "*").into();
    }
    match matches(
        text,
        r"^(?:[A-Za-z][A-Za-z0-9+.-]*://[A-Za-z0-9.-]+(?::[0-9]*)?)?(?:/[A-Za-z0-9._~/-]*)?(?:\?[A-Za-z0-9._~=&-]*)?$",
    ) {
        Verdict::Fits => Verdict::Fits,
        _ => Verdict::Unknown,
    }
}

/// Follows Go's `mail.ParseAddress` for simple addresses.
fn judge_email(text: &str) -> Verdict {
    let atom = "[A-Za-z0-9_+-]+";
    match matches(text, &format!(r"^{atom}(?:\.{atom})*@{atom}(?:\.{atom})*$")) {
        Verdict::Fits => Verdict::Fits,
        _ if !text.contains('@') => Verdict::Not,
        _ => Verdict::Unknown,
    }
}

fn judge_hostname(text: &str) -> Verdict {
    if !text.is_ascii() {
        return Verdict::Unknown;
    }
    let too_long = text.len() > 255 || text.split('.').any(|part| part.len() > 63);
    // The ASCII characters of the class `\p{S}` (symbols).
    let name = r"[A-Za-z0-9$+<=>^`|~]";
    let pattern = format!(
        r"^({name}((-?{name}{{0,62}})?)|({name}(([A-Za-z0-9$+<=>^`|~-]{{0,61}}{name})?)(\.)){{1,}}([a-zA-Z]){{2,63}})$"
    );
    match matches(text, &pattern) {
        Verdict::Fits => (!too_long).into(),
        other => other,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn all(format: &str, text: &str) -> Verdict {
        judge(format, text, Minors::ALL)
    }

    #[test]
    fn texts_are_judged_as_kube_openapi_judges_them() {
        for (format, right, wrong) in [
            ("date", "2026-02-28", "2026-02-30"),
            ("date-time", "2026-01-31T12:00:00Z", "2026-01-31 12:00:00Z"),
            (
                "date-time",
                "2026-01-31t12:00:00.5+02:00",
                "2026-01-31T24:00:00Z",
            ),
            ("datetime", "2026-01-31T23:59:59Z", "soon"),
            ("duration", "1h30m", "1 fortnight"),
            ("duration", "22 ns", "ten seconds"),
            ("duration", "3 days", "5"),
            ("duration", "-.5s", ""),
            ("byte", "YQ==", "YQ"),
            ("byte", "YWJj", ""),
            ("uuid", "123e4567-e89b-12d3-a456-426614174000", "123e4567"),
            (
                "uuid4",
                "123E4567e89b42d3a456426614174000",
                "123e4567-e89b-12d3-a456-426614174000",
            ),
            ("ipv4", "10.0.0.1", "10.0.0.256"),
            ("ipv4", "010.000.0.1", "fe80::1"),
            ("ipv6", "fe80::1", "10.0.0.1"),
            ("cidr", "10.0.0.0/8", "10.0.0.0"),
            ("cidr", "fd00::/64", "10.0.0.0/33"),
            ("mac", "52:54:00:12:34:56", "52:54:00:12:34"),
            ("mac", "5254.0012.3456", "52:54:00:12:34:5g"),
            ("uri", "https://example.com:8443/a?b=c", "example.com"),
            ("uri", "/a/b", ""),
            ("email", "a.b@example.com", "example.com"),
            ("hostname", "a-b.example.com", "a_b.example.com"),
            ("hostname", "node1", "-a"),
            ("hexcolor", "#FFF", "red"),
        ] {
            assert_eq!(all(format, right), Verdict::Fits, "{format} {right}");
            assert_eq!(all(format, wrong), Verdict::Not, "{format} {wrong}");
        }
    }

    #[test]
    fn what_is_not_read_here_is_not_judged_and_what_kube_apiserver_does_not_know_is_taken() {
        for (format, text) in [
            ("email", "A B <a@example.com>"),
            ("uri", "https://[::1]:80/"),
            ("hostname", "bücher.example"),
            ("isbn", "x"),
        ] {
            assert_eq!(all(format, text), Verdict::Unknown, "{format} {text}");
        }
        assert_eq!(all("quantity", "not one"), Verdict::Fits);
        let short = |minor| judge("k8s-short-name", "Not-Short", Minors::of_version(minor));
        assert_eq!(short(33), Verdict::Fits);
        assert_eq!(short(34), Verdict::Not);
        assert_eq!(all("k8s-short-name", "Not-Short"), Verdict::Unknown);
    }
}
