//! The journal of a server that is not set up: rancherd at its Cluster, rke2-server at its starts. It is only read when
//! another observation gives a reason.

use std::process::Stdio;
use std::time::Duration;

use tokio::process::Command;
use windrow_harvester::incidents::{ServerStarts, WebhookBreaks, webhook_panic};

use super::pod_logs::{logs, tail};
use super::probes;
use super::systemd::{RKE2_SERVER, Systemd, Unit};
use crate::fs;
use crate::layout::Layout;

/// Fewer restarts are not a loop.
const MANY: u32 = 5;
const JOURNALCTL: &str = "journalctl";
const PATIENCE: Duration = Duration::from_secs(10);
/// How far back it looks, and how much it prints at most.
const SINCE: &str = "--since=-30min";
const LINES: &str = "--lines=20000";
/// rancherd leaves this once it is done (rancherd `pkg/rancherd/rancher.go`).
const DONE: &str = "/var/lib/rancher/rancherd/bootstrapped";
/// How many of the newest logs of a container are read.
const LOGS: usize = 4;

/// How rancher-webhook failed on rancherd's Cluster. `None`: rancherd is done or missing, the webhook is not on this
/// node, or the journal has no such failure.
pub async fn webhook_breaks(layout: &Layout) -> Option<WebhookBreaks> {
    let is_there = |path: &str| fs::symlink_metadata(layout.path(path)).is_ok();
    let logs = logs(layout, "cattle-system_rancher-webhook-", "rancher-webhook");
    // For saved files there is no journal and there are no units.
    if !layout.is_this_machine() || is_there(DONE) || logs.is_empty() {
        return None;
    }
    let breaks = WebhookBreaks::read(&journal(JOURNALCTL, "rancherd.service").await?)?;
    let mut newest = logs.iter().take(LOGS).filter_map(|log| tail(log));
    let panic = newest.find_map(|log| webhook_panic(&log));
    Some(WebhookBreaks { panic, ..breaks })
}

/// How rke2-server's last starts ended. `None`: systemd does not restart it all the time, or that is unknown. After an
/// operator has stopped it, its count of restarts stays, and it is not started again.
pub async fn server_starts(layout: &Layout) -> Option<ServerStarts> {
    if !layout.is_this_machine() {
        return None;
    }
    let unit = Systemd::connect()
        .await
        .ok()?
        .unit(RKE2_SERVER)
        .await
        .ok()?;
    if !is_restarted_again_and_again(&unit) {
        return None;
    }
    let journal = journal(JOURNALCTL, RKE2_SERVER).await?;
    Some(ServerStarts {
        restarts: unit.restarts,
        etcd_answers: probes::etcd_answers().await,
        ..ServerStarts::read(&journal)
    })
}

fn is_restarted_again_and_again(unit: &Unit) -> bool {
    !unit.is_active() && !unit.is_down() && unit.restarts >= MANY
}

/// Its lines begin with seconds since 1970, and name the process.
async fn journal(journalctl: &str, unit: &str) -> Option<String> {
    let unit = format!("--unit={unit}");
    let mut command = Command::new(journalctl);
    command
        .args([
            &unit,
            "--output=short-unix",
            SINCE,
            LINES,
            "--no-pager",
            "--quiet",
        ])
        .stdin(Stdio::null())
        .kill_on_drop(true);
    let answer = tokio::time::timeout(PATIENCE, command.output()).await;
    Some(String::from_utf8_lossy(&answer.ok()?.ok()?.stdout).into_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_server_is_in_a_loop_while_systemd_starts_it_for_the_fifth_time_and_more() {
        for (active, restarts, expected) in [
            ("activating", MANY - 1, false),
            ("activating", MANY, true),
            ("deactivating", MANY + 1, true),
            ("active", MANY + 1, false),
            ("inactive", MANY + 1, false),
            ("failed", MANY + 1, false),
        ] {
            let unit = Unit {
                active: active.to_owned(),
                restarts,
                ..Unit::default()
            };
            let found = is_restarted_again_and_again(&unit);
            assert_eq!(found, expected, "{active} {restarts}");
        }
    }

    #[tokio::test]
    async fn the_journal_of_one_unit_is_asked_for_with_seconds_since_1970() {
        // `echo` prints the arguments for journalctl.
        let asked = journal("echo", RKE2_SERVER).await.unwrap();
        for word in ["--unit=rke2-server.service", "--output=short-unix"] {
            assert!(asked.split_whitespace().any(|one| one == word), "{asked}");
        }
        assert_eq!(journal("/nonexistent/journalctl", RKE2_SERVER).await, None);
    }
}
