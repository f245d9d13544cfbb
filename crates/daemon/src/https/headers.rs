//! The headers of every answer, for any path, method or error.

use http::header::{
    CACHE_CONTROL, CONTENT_SECURITY_POLICY, REFERRER_POLICY, STRICT_TRANSPORT_SECURITY,
    X_CONTENT_TYPE_OPTIONS,
};
use http::{HeaderMap, HeaderValue};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Scheme {
    Http,
    Https,
}

/// A page has a separate policy.
const POLICY: &str =
    "default-src 'none'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'";
/// 30 days. A browser applies it to all ports of the host name, and only if it trusts the certificate.
const ONLY_HTTPS: &str = "max-age=2592000";

/// Adds the headers that an answer lacks: it is only for its reader, and no browser treats it as another type than it
/// declares.
pub(super) fn protect(headers: &mut HeaderMap, scheme: Scheme) {
    for (name, value) in [
        (CACHE_CONTROL, "no-store"),
        (CONTENT_SECURITY_POLICY, POLICY),
        (REFERRER_POLICY, "no-referrer"),
        (X_CONTENT_TYPE_OPTIONS, "nosniff"),
    ] {
        let value = HeaderValue::from_static(value);
        headers.entry(name).or_insert(value);
    }
    if scheme == Scheme::Https {
        let value = HeaderValue::from_static(ONLY_HTTPS);
        headers.insert(STRICT_TRANSPORT_SECURITY, value);
    }
}
