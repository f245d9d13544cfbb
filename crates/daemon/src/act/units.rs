//! Jobs for systemd's units.

use std::time::Duration;

use zbus::Connection;

/// Longer than systemd takes to queue a job.
const ANSWER: Duration = Duration::from_secs(10);

/// Queues a restart of a unit and does not wait for it: RKE2's may take half an hour.
///
/// # Errors
///
/// In a line, when there is no bus, or systemd refuses or does not answer.
pub async fn restart(unit: &str) -> Result<(), String> {
    let queued = async {
        let connection = Connection::system().await?;
        connection
            .call_method(
                Some("org.freedesktop.systemd1"),
                "/org/freedesktop/systemd1",
                Some("org.freedesktop.systemd1.Manager"),
                "RestartUnit",
                &(unit, "replace"),
            )
            .await
    };
    match tokio::time::timeout(ANSWER, queued).await {
        Ok(answer) => answer.map(|_| ()).map_err(|error| error.to_string()),
        Err(_) => Err(format!(
            "systemd gave no answer within {} s",
            ANSWER.as_secs()
        )),
    }
}
