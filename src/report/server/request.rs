//! Judges a request: its method, path, query and token. Pure.

use std::time::Duration;

use http::{HeaderMap, Method, StatusCode, Uri};
use sha2::{Digest, Sha256};
use subtle::ConstantTimeEq;
use windrow_plan::rules::parse_duration;

/// How long a request waits for the next generation by default, and at most.
const WAIT: Duration = Duration::from_secs(60);
pub(super) const LONGEST_WAIT: Duration = Duration::from_secs(5 * 60);

/// A request that can be answered.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum StatusRequest {
    /// `/healthz`: does Windrow answer?
    Health,
    /// `/status`.
    Status,
    /// `/status?generation=N`: the document once its generation differs.
    Change {
        /// The generation that the client has.
        from: u64,
        /// For how long at most.
        wait: Duration,
    },
}

/// A request that is refused.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct RefusedRequest(pub(super) StatusCode, pub(super) String);

fn refused<T>(status: StatusCode, why: impl Into<String>) -> Result<T, RefusedRequest> {
    Err(RefusedRequest(status, why.into()))
}

/// Judges a request. `token` is the one to present; without one every request but `/healthz` is refused.
pub(super) fn judge(
    method: &Method,
    uri: &Uri,
    headers: &HeaderMap,
    token: Option<&str>,
) -> Result<StatusRequest, RefusedRequest> {
    if method != Method::GET {
        return refused(StatusCode::METHOD_NOT_ALLOWED, "only GET is answered");
    }
    // It shows only that the program runs.
    if uri.path() == "/healthz" {
        return Ok(StatusRequest::Health);
    }
    if !is_shown(headers, token) {
        return refused(
            StatusCode::UNAUTHORIZED,
            "show the node's token: Authorization: Bearer …",
        );
    }
    if uri.path() != "/status" {
        return refused(StatusCode::NOT_FOUND, "there are /status and /healthz");
    }
    query(uri.query().unwrap_or_default())
}

fn query(query: &str) -> Result<StatusRequest, RefusedRequest> {
    let (mut from, mut wait) = (None, None);
    for pair in query.split('&').filter(|pair| !pair.is_empty()) {
        let (key, value) = pair.split_once('=').unwrap_or((pair, ""));
        match key {
            "generation" => match value.parse::<u64>() {
                Ok(generation) => from = Some(generation),
                Err(_) => {
                    return refused(StatusCode::BAD_REQUEST, "generation: write a whole number");
                }
            },
            "timeout" => match parse_duration(value) {
                Ok(timeout) => wait = Some(timeout.min(LONGEST_WAIT)),
                Err(_) => {
                    return refused(
                        StatusCode::BAD_REQUEST,
                        "timeout: write a duration like 30s or 2m",
                    );
                }
            },
            _ => {
                return refused(
                    StatusCode::BAD_REQUEST,
                    "there are the parameters generation and timeout",
                );
            }
        }
    }
    match (from, wait) {
        (None, None) => Ok(StatusRequest::Status),
        (None, Some(_)) => refused(
            StatusCode::BAD_REQUEST,
            "timeout: say with generation= from which one on you wait",
        ),
        (Some(from), wait) => Ok(StatusRequest::Change {
            from,
            wait: wait.unwrap_or(WAIT),
        }),
    }
}

/// Was the token presented? The comparison takes equally long for every token.
fn is_shown(headers: &HeaderMap, token: Option<&str>) -> bool {
    let mut shown = headers.get_all(http::header::AUTHORIZATION).iter();
    let (Some(token), Some(header), None) = (token, shown.next(), shown.next()) else {
        return false;
    };
    let bytes = header.as_bytes();
    let Some((scheme, shown)) = bytes.split_at_checked("Bearer ".len()) else {
        return false;
    };
    // Of one length, whatever is shown.
    let (shown, token) = (Sha256::digest(shown.trim_ascii()), Sha256::digest(token));
    scheme.eq_ignore_ascii_case(b"Bearer ") && bool::from(shown.as_slice().ct_eq(token.as_slice()))
}

#[cfg(test)]
mod tests {
    use super::*;

    const TOKEN: &str = "0123456789abcdef";

    fn ask(method: &Method, uri: &str, authorization: &[&str]) -> Result<StatusRequest, u16> {
        let mut headers = HeaderMap::new();
        for value in authorization {
            headers.append(http::header::AUTHORIZATION, value.parse().unwrap());
        }
        judge(method, &uri.parse().unwrap(), &headers, Some(TOKEN))
            .map_err(|refused| refused.0.as_u16())
    }

    #[test]
    fn the_token_has_to_be_shown_before_anything_is_told() {
        let good = format!("Bearer {TOKEN}");
        let get = &Method::GET;
        assert_eq!(ask(get, "/status", &[&good]), Ok(StatusRequest::Status));
        assert_eq!(
            ask(get, "/status", &[&format!("bearer  {TOKEN} ")]),
            Ok(StatusRequest::Status)
        );
        for wrong in [
            &[] as &[&str],
            &["Bearer"],
            &["Bearer "],
            &["Bearer 0123456789abcdeg"],
            &["Bearer 0123456789abcdef0"],
            &["Basic 0123456789abcdef"],
            &[TOKEN],
            &[&good, &good],
        ] {
            assert_eq!(ask(get, "/status", wrong), Err(401), "{wrong:?}");
            assert_eq!(ask(get, "/elsewhere", wrong), Err(401), "{wrong:?}");
        }
        assert_eq!(ask(get, "/elsewhere", &[&good]), Err(404));
        assert_eq!(ask(get, "/healthz", &[]), Ok(StatusRequest::Health));
        assert_eq!(ask(&Method::POST, "/status", &[&good]), Err(405));
        let without = judge(get, &"/status".parse().unwrap(), &HeaderMap::new(), None);
        assert_eq!(without.unwrap_err().0, StatusCode::UNAUTHORIZED);
        let mut empty = HeaderMap::new();
        empty.insert(http::header::AUTHORIZATION, "Bearer ".parse().unwrap());
        assert!(judge(get, &"/status".parse().unwrap(), &empty, None).is_err());
    }

    #[test]
    fn a_change_is_waited_for_and_not_for_ever() {
        let good = format!("Bearer {TOKEN}");
        let ask = |query: &str| ask(&Method::GET, &format!("/status?{query}"), &[&good]);
        let change = |from, seconds| {
            Ok(StatusRequest::Change {
                from,
                wait: Duration::from_secs(seconds),
            })
        };
        assert_eq!(ask("generation=7"), change(7, 60));
        assert_eq!(ask("generation=7&timeout=30s"), change(7, 30));
        assert_eq!(ask("timeout=2m&generation=0"), change(0, 120));
        assert_eq!(ask("generation=7&timeout=99h"), change(7, 300));
        assert_eq!(ask(""), Ok(StatusRequest::Status));
        for wrong in [
            "generation=x",
            "generation=-1",
            "timeout=30s",
            "a=b",
            "generation=7&timeout=soon",
        ] {
            assert_eq!(ask(wrong), Err(400), "{wrong}");
        }
    }
}
