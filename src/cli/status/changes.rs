//! The changes in a status document, one line each, for `windrow status --watch`.

use std::collections::BTreeMap;

use windrow_decide::{ProbeStatus, StagingStatus, Status};
use windrow_model::findings::Finding;
use windrow_model::reasons::Code;
use windrow_plan::readiness::node::ProbeId;

use super::stand;

/// The changes from one document to the next. Without an earlier one, the state of the node.
pub(super) fn changes(before: Option<&Status>, after: &Status) -> Vec<String> {
    let mut lines = Vec::new();
    if before.is_none_or(|before| stands(before) != stands(after)) {
        lines.push(format!("{}: {}", stand(after), after.reason.message));
    }
    if let Some(before) = before {
        files(&mut lines, &before.staging, &after.staging);
        probes(&mut lines, &before.probes, &after.probes);
        findings(&mut lines, &before.findings, &after.findings);
    }
    lines
}

/// The parts of the node's own line that count as a change: its duration does not.
fn stands(status: &Status) -> (String, Option<windrow_decide::Pace>, &str) {
    (stand(status), status.pace, &status.reason.message)
}

fn files(lines: &mut Vec<String>, before: &StagingStatus, after: &StagingStatus) {
    let (before, after) = (by_file(before), by_file(after));
    for (file, (state, why)) in &after {
        let was = before.get(file).map(|(was, _)| *was);
        if was == Some(state) {
            continue;
        }
        let was = was.map_or(String::new(), |was| format!(" (was {was})"));
        let why = match *why {
            "" => String::new(),
            why => format!(": {why}"),
        };
        lines.push(format!("{file} {state}{was}{why}"));
    }
    let gone = before.keys().filter(|file| !after.contains_key(*file));
    lines.extend(gone.map(|file| format!("{file} gone")));
}

fn by_file(staging: &StagingStatus) -> BTreeMap<&str, (&'static str, &str)> {
    let held = staging.held.iter();
    let held = held.map(|one| (one.file.as_str(), ("held", one.why.as_str())));
    let not_held = staging.not_held.iter();
    let not_held = not_held.map(|one| (one.file.as_str(), ("not held", one.error.as_str())));
    let released = staging.released.iter();
    let released = released.map(|one| (one.file.as_str(), ("released", "")));
    let applied = staging.applied.iter();
    let applied = applied.map(|one| (one.file.as_str(), ("applied", "")));
    let failed = staging.failed.iter();
    let failed = failed.map(|one| (one.file.as_str(), ("failed", one.message.as_str())));
    let files = held.chain(not_held).chain(released);
    files.chain(applied).chain(failed).collect()
}

/// A probe in its first checks is not a change, and neither is its first pass.
fn probes(lines: &mut Vec<String>, before: &[ProbeStatus], after: &[ProbeStatus]) {
    let known: BTreeMap<&ProbeId, &ProbeStatus> =
        before.iter().map(|probe| (&probe.id, probe)).collect();
    let is_pending = |probe: &ProbeStatus| probe.code == Some(Code::ProbePending);
    for probe in after.iter().filter(|probe| !is_pending(probe)) {
        let was = known.get(&probe.id).filter(|was| !is_pending(was));
        let (id, state) = (probe.id.as_str(), probe.state.as_str());
        match (was, probe.message.as_str()) {
            (Some(was), _) if was.state == probe.state => {}
            (None, "") => {}
            (Some(_), "") => lines.push(format!("probe {id} {state} again")),
            (_, why) => lines.push(format!("probe {id} {state}: {why}")),
        }
    }
}

fn findings(lines: &mut Vec<String>, before: &[Finding], after: &[Finding]) {
    let same = |one: &Finding, other: &Finding| {
        (one.code, &one.at) == (other.code, &other.at)
            && one.incident.as_ref().map(|of| &of.subject)
                == other.incident.as_ref().map(|of| &of.subject)
    };
    let new = after
        .iter()
        .filter(|one| !before.iter().any(|known| same(known, one)));
    lines.extend(new.map(|one| format!("{} {}: {}", one.severity.as_str(), one.code, one.line())));
    let over = before
        .iter()
        .filter(|one| !after.iter().any(|known| same(known, one)));
    lines.extend(over.map(|one| format!("over: {}: {}", one.code, one.message)));
}

#[cfg(test)]
mod tests {
    use windrow_model::findings::Location;
    use windrow_plan::readiness::node::{ProbeSeverity, ProbeState};

    use super::*;

    fn status(text: &str) -> Status {
        serde_json::from_str(text).unwrap()
    }

    fn sample() -> Status {
        status(
            r#"{"apiVersion": "windrow.dev/v1", "kind": "Status", "generation": 1,
            "readiness": "SettingUp", "phase": "api", "since": "2026-01-01T00:00:00Z",
            "reason": {"code": "apiserver-not-ready", "message": "kube-apiserver is not ready: 500"},
            "summary": "x", "staging": {"total": 1, "held": [{"file": "a.yaml",
              "since": "2026-01-01T00:00:00Z", "code": "waits-for-namespace",
              "why": "Namespace shop does not exist yet", "by": "windrow", "blockers": []}],
              "released": [], "applied": [], "failed": []},
            "findings": [], "versions": {"windrow": "0.1.0"}}"#,
        )
    }

    fn probe(state: ProbeState, message: &str, code: Option<Code>) -> ProbeStatus {
        let mut probes: Vec<ProbeStatus> = serde_json::from_str(
            r#"[{"id": "clock", "state": "passing", "severity": "wanted", "since": "2026-01-01T00:00:00Z"}]"#,
        )
        .unwrap();
        let probe = probes.remove(0);
        assert_eq!(probe.severity, ProbeSeverity::Wanted);
        ProbeStatus {
            state,
            message: message.to_owned(),
            code,
            ..probe
        }
    }

    #[test]
    fn the_first_line_says_where_the_node_stands_and_later_ones_what_is_new() {
        let mut before = sample();
        assert_eq!(
            changes(None, &before),
            ["Setting up, step: kube-apiserver: kube-apiserver is not ready: 500"]
        );
        before.probes = vec![probe(
            ProbeState::Unknown,
            "not asked yet",
            Some(Code::ProbePending),
        )];
        let mut after = before.clone();
        assert_eq!(changes(Some(&before), &after), [""; 0]);
        // Only the time and the number of the document.
        after.generation = 2;
        // Its first checks passed, as expected.
        after.probes = vec![probe(ProbeState::Passing, "", None)];
        assert_eq!(changes(Some(&before), &after), [""; 0]);

        let mut later = after.clone();
        let held = later.staging.held.remove(0);
        later.staging.applied = serde_json::from_value(serde_json::json!([
            {"file": held.file, "since": held.since, "cause": "met"}
        ]))
        .unwrap();
        later.probes = vec![probe(
            ProbeState::Failing,
            "90 s behind",
            Some(Code::ClockNotSynchronised),
        )];
        later.findings = vec![Finding {
            code: Code::AddonCollision,
            severity: Code::AddonCollision.severity(),
            message: "these files share the Addon a".to_owned(),
            at: vec![Location::file("a.yaml"), Location::file("sub/a.yaml")],
            incident: None,
        }];
        assert_eq!(
            changes(Some(&after), &later),
            [
                "a.yaml applied (was held)",
                "probe clock failing: 90 s behind",
                "error addon-collision: a.yaml, sub/a.yaml: these files share the Addon a",
            ]
        );
        let mut end = later.clone();
        end.staging.applied.clear();
        end.probes = after.probes.clone();
        end.findings.clear();
        assert_eq!(
            changes(Some(&later), &end),
            [
                "a.yaml gone",
                "probe clock passing again",
                "over: addon-collision: these files share the Addon a",
            ]
        );
    }
}
