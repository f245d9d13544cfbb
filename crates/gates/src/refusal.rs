//! Finds a component's own message in its log when it does not start because of a feature gate.
//!
//! The texts are those of `component-base/featuregate` (Kubernetes 1.28 to 1.36), and of kube-apiserver's own options
//! up to 1.34 (`pkg/controlplane/apiserver/options/validation.go`, `pkg/kubeapiserver/options/authentication.go`). The
//! texts around them differ between minors and components, so only these are searched.

use std::ops::RangeBounds;

use jiff::Timestamp;

use super::GateRequest;

/// The maximum length of a shown line, in characters.
const LONGEST: usize = 400;

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ComponentRefusal {
    /// The named gates, in the component's order. If a gate is on while its dependency is off, both are named, and
    /// either may be the one that was set: some are on by default.
    pub gates: Vec<String>,
    /// Its line, without the prefix of the container runtime.
    pub line: String,
}

impl ComponentRefusal {
    pub fn names_any_of(&self, gates: &[GateRequest]) -> bool {
        let mut gates = gates.iter();
        gates.any(|gate| self.gates.contains(&gate.gate))
    }
}

/// How the message of a component that does not start begins. Elsewhere in a line, the same words may come from others:
/// the kubelet logs names of images, and kube-apiserver logs the user agents of clients.
const FATAL: [&str; 5] = [
    "\"command failed\" ",
    "\"failed to set feature gates",
    "failed to set feature gates",
    "Error: ",
    "panic: ",
];
/// The same in a line of JSON, in which quoted texts are escaped.
const FATAL_IN_JSON: &str = "\"msg\":\"command failed\"";

const BEFORE: [&str; 4] = [
    "unrecognized feature gate: ",
    "cannot set feature gate ",
    "missing bool value for ",
    "invalid value of ",
];
/// The text between a gate and its dependencies, which are in brackets.
const BETWEEN: &str = " is enabled, but depends on features that are disabled: [";
/// The text between a gate and its dependency in kube-apiserver's own messages.
const ONE_BETWEEN: [&str; 2] = [
    " feature requires ",
    " feature gate can only be enabled if the ",
];

/// The kubelet's first message after it has accepted its gates (`cmd/kubelet/app/server.go`, `Run`). Its log is kept
/// over restarts.
const KUBELET_TOOK_GATES: &str = "\"Kubelet version\" ";

/// The last refusal in a log with a time in the range `said`, if no kubelet has accepted its gates after it. Lines
/// without a time from the container runtime always count.
pub fn last(log: &str, said: impl RangeBounds<Timestamp>) -> Option<ComponentRefusal> {
    log.lines()
        .rev()
        .take_while(|line| !line.contains(KUBELET_TOOK_GATES))
        .find_map(|line| {
            let (at, text) = runtime(line);
            let counts = at.is_none_or(|at| said.contains(&at));
            counts.then(|| refusal(text)).flatten()
        })
}

/// The prefix of the container runtime on each line: `<RFC 3339> <stream> <F|P> `.
fn runtime(line: &str) -> (Option<Timestamp>, &str) {
    let mut parts = line.splitn(4, ' ');
    let (Some(at), Some("stdout" | "stderr"), Some("F" | "P"), Some(text)) =
        (parts.next(), parts.next(), parts.next(), parts.next())
    else {
        return (None, line);
    };
    match at.parse() {
        Ok(at) => (Some(at), text),
        Err(_) => (None, line),
    }
}

/// A line without klog's header: `E1121 20:00:00.123456       1 run.go:72] `.
fn without_head(text: &str) -> &str {
    let mut letters = text.chars();
    let is_head = matches!(letters.next(), Some('I' | 'W' | 'E' | 'F'))
        && letters.next().is_some_and(|letter| letter.is_ascii_digit());
    match text.split_once("] ") {
        Some((head, message)) if is_head && !head.contains('"') => message,
        _ => text,
    }
}

fn refusal(text: &str) -> Option<ComponentRefusal> {
    // The component continues after this one: a warning, or an unrelated failure.
    let message = without_head(text);
    let is_fatal = FATAL.iter().any(|fatal| message.starts_with(fatal))
        || (text.starts_with('{') && text.contains(FATAL_IN_JSON));
    if !is_fatal {
        return None;
    }
    // Some versions name the first gate, others all that they refuse.
    let mut named: Vec<(usize, &str)> = BEFORE
        .iter()
        .flat_map(|before| text.match_indices(before))
        .map(|(at, before)| (at, leading(&text[at + before.len()..])))
        .collect();
    for (at, between) in text.match_indices(BETWEEN) {
        named.push((at, trailing(&text[..at])));
        let off = &text[at + between.len()..];
        let off = &off[..off.find(']').unwrap_or(off.len())];
        named.extend(off.split([',', ' ']).map(|name| (at, leading(name))));
    }
    for between in ONE_BETWEEN {
        for (at, between) in text.match_indices(between) {
            let needed = text[at + between.len()..].trim_start_matches(is_quote);
            let rest = &needed[leading(needed).len()..];
            // The same words also precede other arguments.
            if rest.trim_start_matches(is_quote).starts_with(" feature") {
                named.push((at, trailing(text[..at].trim_end_matches(is_quote))));
                named.push((at, leading(needed)));
            }
        }
    }
    named.sort_by_key(|(at, _)| *at);
    let mut gates: Vec<String> = Vec::new();
    for (_, name) in named {
        if !name.is_empty() && !gates.iter().any(|known| known == name) {
            gates.push(name.to_owned());
        }
    }
    (!gates.is_empty()).then(|| ComponentRefusal {
        gates,
        line: text.chars().take(LONGEST).collect(),
    })
}

fn is_name(letter: char) -> bool {
    letter.is_ascii_alphanumeric() || matches!(letter, '_' | '-')
}

/// A quote, or its escape within a text of the log.
fn is_quote(letter: char) -> bool {
    matches!(letter, '"' | '\\')
}

fn leading(text: &str) -> &str {
    // If prefixes are split, the name may follow one.
    let text = text.strip_prefix("kube:").unwrap_or(text);
    &text[..text.find(|ch| !is_name(ch)).unwrap_or(text.len())]
}

fn trailing(text: &str) -> &str {
    let start = text.rfind(|ch| !is_name(ch)).map_or(0, |at| at + 1);
    text.get(start..).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_gates_are_found_in_the_words_of_every_minor() {
        for (line, gates) in [
            (
                "E1121 20:00:00.1 1 run.go:72] \"command failed\" err=\"unrecognized feature gate: NotAGate\"",
                &["NotAGate"][..],
            ),
            (
                "E1121 20:00:00.1 1 run.go:72] \"command failed\" err=\"cannot set feature gate AuthorizeNodeWithSelectors to false, feature is locked to true\"",
                &["AuthorizeNodeWithSelectors"],
            ),
            (
                "Error: invalid argument \"X=true\" for \"--feature-gates\" flag: unrecognized feature gate: X",
                &["X"],
            ),
            (
                "E1 1 run.go:72] \"command failed\" err=\"GangScheduling is enabled, but depends on features that are disabled: [GenericWorkload]\"",
                &["GangScheduling", "GenericWorkload"],
            ),
            (
                "\"command failed\" err=\"failed to set feature gates from initial flags-based config: unrecognized feature gate: kube:ImageVolume\"",
                &["ImageVolume"],
            ),
            // The kubelet of 1.36.
            (
                "\"command failed\" err=\"failed to set feature gates from initial flags-based config: [cannot set feature gate AuthorizeNodeWithSelectors to false, feature is locked to true, unrecognized feature gate: NotAGate]\"",
                &["AuthorizeNodeWithSelectors", "NotAGate"],
            ),
            (
                "\"command failed\" err=\"[OneByDefault is enabled, but depends on features that are disabled: [AtomicFIFO, Other], TwoByDefault is enabled, but depends on features that are disabled: [AtomicFIFO]]\"",
                &["OneByDefault", "AtomicFIFO", "Other", "TwoByDefault"],
            ),
            // kube-apiserver 1.31 and 1.33.
            (
                "E1 1 run.go:72] \"command failed\" err=\"[, AuthorizeNodeWithSelectors feature requires AuthorizeWithSelectors feature to be enabled]\"",
                &["AuthorizeNodeWithSelectors", "AuthorizeWithSelectors"],
            ),
            (
                "E1 1 run.go:72] \"command failed\" err=\"[, UnknownVersionInteroperabilityProxy feature requires StorageVersionAPI feature flag to be enabled]\"",
                &["UnknownVersionInteroperabilityProxy", "StorageVersionAPI"],
            ),
            (
                "E1 1 run.go:72] \"command failed\" err=\"[, the \\\"ServiceAccountTokenNodeBinding\\\" feature gate can only be enabled if the \\\"ServiceAccountTokenNodeBindingValidation\\\" feature gate is also enabled, ]\"",
                &[
                    "ServiceAccountTokenNodeBinding",
                    "ServiceAccountTokenNodeBindingValidation",
                ],
            ),
            (
                "E1 1 run.go:72] \"command failed\" err=\"a feature requires an argument\"",
                &[],
            ),
            ("panic: unrecognized feature gate: NotAGate", &["NotAGate"]),
            (
                "E1 1 server.go:205] \"failed to set feature gates from initial flags-based config\" err=\"unrecognized feature gate: NotAGate\"",
                &["NotAGate"],
            ),
            (
                "{\"ts\":1.5,\"caller\":\"cli/run.go:72\",\"msg\":\"command failed\",\"err\":\"unrecognized feature gate: NotAGate\"}",
                &["NotAGate"],
            ),
            (
                "W1121 feature_gate.go:354] Setting GA feature gate X=true. It will be removed in a future release.",
                &[],
            ),
            (
                "E1 1 run.go:72] \"command failed\" err=\"context deadline exceeded\"",
                &[],
            ),
        ] {
            let said = last(line, ..).map(|refusal| refusal.gates);
            assert_eq!(said.unwrap_or_default(), gates, "{line}");
        }
    }

    #[test]
    fn the_words_of_a_refusal_in_a_text_of_another_user_are_none() {
        for line in [
            // The name of an image.
            "E1129 20:00:00.1 9 pod_workers.go:1301] \"Error syncing pod, skipping\" err=\"failed to \\\"StartContainer\\\" for \\\"a\\\" with \
             InvalidImageName: \\\"Failed to apply default image tag \\\\\\\"\\\\\\\"command failed\\\\\\\" err= Error: unrecognized feature gate: X\\\\\\\"\\\"\"",
            // The name of a client.
            "I1129 20:00:00.1 1 trace.go:236] Trace[1]: \"List\" user-agent:] \"command failed\" panic: unrecognized feature gate: X,verb:LIST (812ms):",
            "{\"ts\":1.5,\"msg\":\"Trace\",\"userAgent\":\"\\\"msg\\\":\\\"command failed\\\" unrecognized feature gate: X\"}",
        ] {
            let said = last(line, ..).filter(|said| said.gates == ["X"]);
            assert_eq!(said, None, "{line}");
        }
    }

    #[test]
    fn what_an_earlier_start_said_does_not_count() {
        let log = "2026-11-21T20:00:00.5Z stderr F Error: unrecognized feature gate: Old\n\
                   2026-11-21T20:01:00.5Z stderr F Error: unrecognized feature gate: New\n\
                   2026-11-21T20:01:01.5Z stderr F I1121 something else\n";
        let at = |text: &str| text.parse::<Timestamp>().unwrap();
        let said = last(log, at("2026-11-21T20:00:30Z")..).unwrap();
        assert_eq!(said.gates, ["New"]);
        assert_eq!(said.line, "Error: unrecognized feature gate: New");
        assert_eq!(last(log, at("2026-11-21T20:02:00Z")..), None);
        // A line with exactly the time of the start belongs to this start.
        let said = last(log, at("2026-11-21T20:01:00.5Z")..).unwrap();
        assert_eq!(said.gates, ["New"]);
        // The clock was ahead when the last one was written.
        let said = last(log, ..=at("2026-11-21T20:00:45Z")).unwrap();
        assert_eq!(said.gates, ["Old"]);
    }

    #[test]
    fn what_a_kubelet_refused_before_one_took_its_gates_is_over() {
        let refused = "E1121 20:00:00.1 1 run.go:72] \"command failed\" err=\"failed to set feature gates from initial flags-based config: unrecognized feature gate: X\"\n";
        let took = "I1121 20:00:05.1 1 server.go:525] \"Kubelet version\" kubeletVersion=\"v1.33.3+rke2r1\"\nI1121 20:00:06.1 1 a.go:1] \"Started\"\n";
        let gates = |log: &str| last(log, ..).map(|said| said.gates.join(" "));
        assert_eq!(gates(&format!("{refused}{took}")), None);
        assert_eq!(gates(&format!("{took}{refused}")).as_deref(), Some("X"));
    }
}
