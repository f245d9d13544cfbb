//! The message about a check without an answer: first the reason, then the request, which few users need.

use windrow_model::reasons::Code;

/// In one line: `why (asked)` for a request, otherwise `asked: why`. A refusal begins with the forbidden action.
pub(super) fn in_words(asked: &str, why: &str, code: Option<Code>) -> String {
    let Some((method, rest)) = asked
        .split_once(' ')
        .filter(|(method, _)| is_method(method))
    else {
        return format!("{asked}: {why}");
    };
    if code != Some(Code::ProbeRefused) {
        return format!("{why} ({asked})");
    }
    let target = rest.split([' ', '?']).next().unwrap_or_default();
    let verb = if method == "GET" { "read" } else { "change" };
    format!("forbidden to {verb} {} ({asked}: {why})", subject(target))
}

fn is_method(word: &str) -> bool {
    !word.is_empty() && word.bytes().all(|byte| byte.is_ascii_uppercase())
}

/// The usual name of the target: kube-apiserver's plural for an object, or otherwise the path without the scheme of its server.
fn subject(target: &str) -> &str {
    let path = target.split_once("://").map_or(target, |(_, rest)| rest);
    let mut parts = path.split('/').skip(1);
    let below = match parts.next() {
        Some("api") => parts.nth(1),
        Some("apis") => parts.nth(2),
        _ => None,
    };
    let plural = match below {
        // For an object in a namespace, unless the request was for the namespace itself.
        Some("namespaces") => parts.nth(1).or(below),
        below => below,
    };
    plural.filter(|_| path.starts_with('/')).unwrap_or(path)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_refusal_begins_with_what_is_forbidden_and_a_missing_answer_with_why() {
        for (asked, said) in [
            (
                "GET /api/v1/nodes/n1 as system:node:n1",
                "forbidden to read nodes",
            ),
            (
                "GET /api/v1/namespaces/kube-system/services/web as admin",
                "forbidden to read services",
            ),
            (
                "GET /apis/apps/v1/namespaces/cattle-system/deployments/rancher as admin",
                "forbidden to read deployments",
            ),
            (
                "PATCH /apis/harvesterhci.io/v1beta1/settings/server-version (a dry run that changes nothing) as admin",
                "forbidden to change settings",
            ),
            (
                "GET /api/v1/namespaces/shop as admin",
                "forbidden to read namespaces",
            ),
            ("GET /readyz as admin", "forbidden to read /readyz"),
            (
                "GET https://10.0.0.9/v1/harvester/cluster/local",
                "forbidden to read 10.0.0.9/v1/harvester/cluster/local",
            ),
        ] {
            let refused = in_words(asked, "HTTP 403", Some(Code::ProbeRefused));
            assert_eq!(refused, format!("{said} ({asked}: HTTP 403)"));
            assert_eq!(
                in_words(asked, "no answer", None),
                format!("no answer ({asked})")
            );
        }
        let why = "there is no limit";
        assert_eq!(
            in_words("the sensors", why, None),
            "the sensors: there is no limit"
        );
    }
}
