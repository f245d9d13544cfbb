//! Reads the query of a request. Pure.

use std::time::Duration;

use windrow_plan::rules::parse_duration;

/// How long a request waits for the next generation by default, and at most.
const WAIT: Duration = Duration::from_secs(60);
pub(super) const LONGEST_WAIT: Duration = Duration::from_secs(5 * 60);

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum StatusRequest {
    /// `/status`.
    Now,
    /// `/status?generation=N`: the document once its generation differs.
    Change {
        from: u64,
        /// For how long at most.
        wait: Duration,
    },
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct RefusedRequest(pub(super) &'static str);

fn refused<T>(why: &'static str) -> Result<T, RefusedRequest> {
    Err(RefusedRequest(why))
}

pub(super) fn parse_query(query: &str) -> Result<StatusRequest, RefusedRequest> {
    let (mut from, mut wait) = (None, None);
    for pair in query.split('&').filter(|pair| !pair.is_empty()) {
        let (key, value) = pair.split_once('=').unwrap_or((pair, ""));
        match key {
            "generation" => match value.parse::<u64>() {
                Ok(generation) => from = Some(generation),
                Err(_) => return refused("generation: write a whole number"),
            },
            "timeout" => match parse_duration(value) {
                Ok(timeout) => wait = Some(timeout.min(LONGEST_WAIT)),
                Err(_) => return refused("timeout: write a duration like 30s or 2m"),
            },
            _ => return refused("there are the parameters generation and timeout"),
        }
    }
    match (from, wait) {
        (None, None) => Ok(StatusRequest::Now),
        (None, Some(_)) => refused("timeout: say with generation= from which one on you wait"),
        (Some(from), wait) => Ok(StatusRequest::Change {
            from,
            wait: wait.unwrap_or(WAIT),
        }),
    }
}

pub fn refusal(query: &str) -> Option<&'static str> {
    parse_query(query).err().map(|RefusedRequest(why)| why)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_change_is_waited_for_and_not_for_ever() {
        let change = |from, seconds| {
            Ok(StatusRequest::Change {
                from,
                wait: Duration::from_secs(seconds),
            })
        };
        assert_eq!(parse_query("generation=7"), change(7, 60));
        assert_eq!(parse_query("generation=7&timeout=30s"), change(7, 30));
        assert_eq!(parse_query("timeout=2m&generation=0"), change(0, 120));
        assert_eq!(parse_query("generation=7&timeout=99h"), change(7, 300));
        assert_eq!(parse_query(""), Ok(StatusRequest::Now));
        for wrong in [
            "generation=x",
            "generation=-1",
            "timeout=30s",
            "a=b",
            "generation=7&timeout=soon",
        ] {
            assert!(parse_query(wrong).is_err(), "{wrong}");
        }
    }
}
