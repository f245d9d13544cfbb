//! Reads kube-vip's log about the address that it gets from DHCP.
//!
//! kube-vip uses a separate socket on UDP port 68. If the system's DHCP client has that port exclusively, kube-vip
//! cannot bind it and logs that (harvester#8389). The number of sockets bound to the port proves nothing: wickedd can
//! have two (harvester#1835).

use jiff::{SignedDuration, Timestamp};

use super::pod_logs::{logs, tail};
use crate::layout::Layout;

/// An older complaint proves nothing: kube-vip asks again long before a lease ends.
const RECENT: SignedDuration = SignedDuration::from_hours(24);
/// The message of Go's network library when the DHCP client's port is taken.
const TAKEN: &str = ":68: bind: address already in use";

/// The last line in which kube-vip reports that it cannot bind UDP port 68, in the log of its newest start.
pub fn port_68_refused(layout: &Layout, now: Timestamp) -> Option<String> {
    let newest = logs(layout, "harvester-system_kube-vip-", "kube-vip");
    let log = tail(newest.first()?)?;
    let line = log.lines().rfind(|line| line.contains(TAKEN))?;
    // As the container runtime writes it: time, stream, F or P, and the text.
    let mut parts = line.splitn(4, ' ');
    let at: Timestamp = parts.next()?.parse().ok()?;
    let said = parts.nth(2)?.trim();
    (now.duration_since(at) < RECENT).then(|| said.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_kube_vip_itself_says_in_its_newest_start_and_of_late_counts() {
        let root = tempfile::tempdir().unwrap();
        let layout = Layout::new(root.path());
        let now: Timestamp = "2026-11-22T00:10:00Z".parse().unwrap();
        let write = |path: &str, text: &str| {
            let path = root.path().join("var/log/pods").join(path);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, text).unwrap();
        };
        let refused = "level=error msg=\"listen udp4 :68: bind: address already in use\"";
        let line = |at: &str| format!("{at} stderr F {refused}\n");
        assert_eq!(port_68_refused(&layout, now), None, "no log at all");

        write(
            "kube-system_other-1/kube-vip/0.log",
            &line("2026-11-22T00:00:00Z"),
        );
        assert_eq!(port_68_refused(&layout, now), None, "another's log");

        let pod = "harvester-system_kube-vip-x7l2k_0f1e";
        write(
            &format!("{pod}/kube-vip/0.log"),
            &format!(
                "2026-11-22T00:00:00Z stderr F starting\n{}2026-11-22T00:00:05Z stderr F bound TCP :2112\n",
                line("2026-11-22T00:00:01.123456789Z")
            ),
        );
        assert_eq!(port_68_refused(&layout, now).as_deref(), Some(refused));
        let later = now + SignedDuration::from_hours(25);
        assert_eq!(port_68_refused(&layout, later), None, "a day ago");

        let started_anew = "2026-11-22T00:05:00Z stderr F obtained a lease\n";
        write(&format!("{pod}/kube-vip/1.log"), started_anew);
        assert_eq!(port_68_refused(&layout, now), None, "it has bound it since");
    }
}
