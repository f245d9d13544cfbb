//! Why a pod does not work, and since when.
//!
//! ```text
//!   not scheduled ──> since its condition          containers wait ──> since it was last Ready, or its start
//!   not Ready     ──> since its condition          crash loop      ──> since the loop began, as far as its newest run shows
//! ```

use jiff::{SignedDuration, Timestamp};
use serde_json::Value;
use windrow_model::object::pods::container_statuses;

use super::subject;
use crate::incidents::platform::pending::owner;
use crate::incidents::platform::quoted;
use crate::objects::{Condition, restarts, text};
use crate::upgrade::time;

/// Why a container that crashed waits (kubernetes `pkg/kubelet/kuberuntime/kuberuntime_manager.go`, `doBackOff`).
pub(super) const CRASH_LOOP: &str = "CrashLoopBackOff";
/// The kubelet doubles its pause from 10 s to at most 300 s (kubernetes `pkg/kubelet/kubelet.go`, `initialCrashLoopBackOff`,
/// `MaxCrashLoopBackOff`), so five restarts in a row take five minutes.
const LOOPS: u64 = 5;
const LONGEST_PAUSE: SignedDuration = SignedDuration::from_secs(300);
/// The pauses before the longest one, in the words of the kubelet. From 1.35 on, its configuration can lower the longest one.
const SHORTER_PAUSES: [&str; 5] = [
    "back-off 10s ",
    "back-off 20s ",
    "back-off 40s ",
    "back-off 1m20s ",
    "back-off 2m40s ",
];
/// After a run of this length the kubelet begins again with its shortest pause (client-go `util/flowcontrol/backoff.go`,
/// `hasExpired`: twice the longest pause).
const STEADY: SignedDuration = SignedDuration::from_secs(600);

/// A pod that does not work, since when and why.
pub(super) struct PodFault<'o> {
    pub(super) pod: &'o Value,
    pub(super) since: Timestamp,
    pub(super) why: String,
    pub(super) is_unplaced: bool,
}

/// Static pods belong to their Node: they have only their own name.
pub(super) fn owner_of(pod: &Value) -> String {
    match text(pod, "/metadata/ownerReferences/0/kind") {
        "Node" => subject(pod, "Pod"),
        _ => owner(pod),
    }
}

/// Why a pod does not work; `None` if it works, has ended or is being deleted.
pub(super) fn fault(pod: &Value) -> Option<PodFault<'_>> {
    if pod.pointer("/metadata/deletionTimestamp").is_some() {
        return None;
    }
    let started =
        time(pod, "/status/startTime").or_else(|| time(pod, "/metadata/creationTimestamp"));
    let not_ready = Condition::of(pod, "Ready").filter(|ready| !ready.is_true());
    let not_ready_since = not_ready.and_then(|ready| ready.since());
    let (since, why, is_unplaced) = match text(pod, "/status/phase") {
        "Pending" => match Condition::of(pod, "PodScheduled").filter(Condition::is_false) {
            Some(scheduled) => {
                let words = quoted(&scheduled.words());
                (scheduled.since().or(started), words, true)
            }
            // A pod whose sandbox is made again is Pending again.
            None => {
                let why = waiting(pod).unwrap_or_else(|| "Pending".to_owned());
                (not_ready_since.or(started), why, false)
            }
        },
        "Running" => {
            let loops = container_statuses(pod).filter(|one| is_looping(one));
            let begin = loops.map(|one| loop_began(one, started));
            match begin.min() {
                Some(began) => {
                    let first = began.into_iter().chain(not_ready_since).min();
                    (first, waiting(pod)?, false)
                }
                None => {
                    not_ready?;
                    let why = waiting(pod).unwrap_or_else(|| "not Ready".to_owned());
                    (not_ready_since, why, false)
                }
            }
        }
        _ => return None,
    };
    Some(PodFault {
        pod,
        since: since?,
        why,
        is_unplaced,
    })
}

/// Why its containers wait, how often they were restarted, and when one last ended.
pub(super) fn waiting(pod: &Value) -> Option<String> {
    let mut reasons = container_statuses(pod).map(|one| text(one, "/state/waiting/reason"));
    let reason = reasons.find(|reason| !reason.is_empty())?;
    let times = match restarts(pod) {
        0 => return Some(reason.to_owned()),
        1 => "1 restart".to_owned(),
        times => format!("{times} restarts"),
    };
    let ends =
        container_statuses(pod).filter_map(|one| time(one, "/lastState/terminated/finishedAt"));
    let last = ends
        .max()
        .map_or(String::new(), |last| format!(", last exit {last}"));
    Some(format!("{reason}, {times}{last}"))
}

fn is_looping(container: &Value) -> bool {
    let restarts = container.pointer("/restartCount").and_then(Value::as_u64);
    text(container, "/state/waiting/reason") == CRASH_LOOP
        && restarts.is_some_and(|restarts| restarts >= LOOPS)
}

/// When a container began to crash again and again. The restarts of earlier months count too, so only its newest run and the present
/// pause show it: after a long run, the loop began with its end; in the longest pause, each restart took at least this pause.
fn loop_began(container: &Value, started: Option<Timestamp>) -> Option<Timestamp> {
    let ended = time(container, "/lastState/terminated/finishedAt");
    let Some(ended) = ended else {
        return started;
    };
    let began = time(container, "/lastState/terminated/startedAt").unwrap_or(ended);
    if ended.duration_since(began) >= STEADY {
        return Some(ended);
    }
    let words = text(container, "/state/waiting/message");
    if SHORTER_PAUSES.iter().any(|pause| words.contains(pause)) {
        return Some(began);
    }
    let restarts = container.pointer("/restartCount").and_then(Value::as_i64);
    let pauses = i32::try_from(restarts.unwrap_or_default()).unwrap_or(i32::MAX);
    let all = LONGEST_PAUSE.saturating_mul(pauses);
    let earliest = began.checked_sub(all).ok();
    earliest.max(started)
}
