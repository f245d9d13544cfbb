//! `windrow-ready.target`, for units of the node that wait for it. systemd is asked to start it each time the node
//! becomes ready; the target itself makes sure that the node is. A node that is Degraded works, so it counts, as it does
//! for `windrow wait --for ready`, which the target runs.

use std::time::Duration;

use windrow_decide::Readiness;
use zbus::Connection;

use crate::backoff::Backoff;
use crate::report::publish::{PublishedStatus, StatusWatch};

const TARGET: &str = "windrow-ready.target";
const PATIENCE: Duration = Duration::from_secs(10);
/// First and longest pause between two tries.
const PAUSES: (Duration, Duration) = (Duration::from_millis(500), Duration::from_secs(30));

/// Follows the status until its publisher is gone. `address` replaces the system's bus.
pub async fn follow(address: Option<String>, mut status: StatusWatch) {
    let mut backoff = Backoff::new(PAUSES.0, PAUSES.1);
    loop {
        if until(&mut status, true).await.is_none() {
            return;
        }
        match start(address.as_deref()).await {
            Ok(()) => {
                backoff.reset();
                if until(&mut status, false).await.is_none() {
                    return;
                }
            }
            // D-Bus may be late or away, and an overlay may lack the target: neither is worth reporting.
            Err(why) => {
                tracing::debug!("{TARGET} is not started: {why}");
                backoff.wait().await;
            }
        }
    }
}

/// Waits until the node is Ready or Degraded, or until it is neither.
async fn until(status: &mut StatusWatch, ready: bool) -> Option<()> {
    let fits = |status: &Option<PublishedStatus>| {
        status
            .as_deref()
            .is_some_and(|status| is_ready(status.readiness) == ready)
    };
    status.wait_for(fits).await.ok().map(drop)
}

fn is_ready(readiness: Readiness) -> bool {
    matches!(readiness, Readiness::Ready | Readiness::Degraded)
}

/// Asks systemd to start the target. The answer says that the job is queued; it does not wait for the job.
async fn start(address: Option<&str>) -> Result<(), String> {
    let asked = async {
        let connection = match address {
            Some(address) => zbus::connection::Builder::address(address).build().await?,
            None => Connection::system().await?,
        };
        connection
            .call_method(
                Some("org.freedesktop.systemd1"),
                "/org/freedesktop/systemd1",
                Some("org.freedesktop.systemd1.Manager"),
                "StartUnit",
                &(TARGET, "fail"),
            )
            .await
    };
    match tokio::time::timeout(PATIENCE, asked).await {
        Ok(answer) => answer.map(drop).map_err(|error| error.to_string()),
        Err(_) => Err("systemd does not answer".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use tokio::sync::{mpsc, watch};

    use super::*;
    use crate::report::publish::sample;
    use crate::testing::bus;

    struct FakeSystemd {
        jobs: mpsc::UnboundedSender<(String, String)>,
    }

    #[zbus::interface(name = "org.freedesktop.systemd1.Manager")]
    impl FakeSystemd {
        fn start_unit(&self, name: &str, mode: &str) -> zbus::OwnedObjectPath {
            self.jobs.send((name.to_owned(), mode.to_owned())).unwrap();
            "/org/freedesktop/systemd1/job/1".try_into().unwrap()
        }
    }

    fn status(readiness: Readiness) -> Option<PublishedStatus> {
        let mut status = sample("x");
        status.readiness = readiness;
        Some(PublishedStatus::new(status))
    }

    #[tokio::test]
    async fn the_target_is_started_once_when_the_node_works_over_a_bus_that_comes_late() {
        let place = tempfile::tempdir().unwrap();
        let address = format!("unix:path={}/bus", place.path().display());
        let (publisher, receiver) = watch::channel(None);
        let following = tokio::spawn(follow(Some(address.clone()), receiver));
        // The node works, so units may start, and there is no bus yet.
        publisher.send_replace(status(Readiness::Degraded));
        let Some(_daemon) = bus::start(&address).await else {
            eprintln!("skipped: there is no dbus-daemon");
            return;
        };
        let (jobs, mut asked) = mpsc::unbounded_channel();
        let _systemd = zbus::connection::Builder::address(address.as_str())
            .serve_at("/org/freedesktop/systemd1", FakeSystemd { jobs })
            .name("org.freedesktop.systemd1")
            .build()
            .await
            .unwrap();
        let wanted = (TARGET.to_owned(), "fail".to_owned());
        assert_eq!(asked.recv().await.as_ref(), Some(&wanted));

        // One job while it works: other changes start none.
        publisher.send_replace(status(Readiness::Ready));
        publisher.send_replace(status(Readiness::Degraded));
        drop(publisher);
        following.await.unwrap();
        assert!(asked.try_recv().is_err(), "it was asked for once");
    }
}
