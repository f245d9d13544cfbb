//! systemd over D-Bus: the state of a unit.

use std::time::Duration;

use nix::time::{ClockId, clock_gettime};
use zbus::zvariant::DynamicType;
use zbus::{Connection, Message, OwnedObjectPath, OwnedVariant};

/// Longer than any answer of systemd takes, but short enough for a boot that waits.
const ANSWER: Duration = Duration::from_secs(2);
const DESTINATION: &str = "org.freedesktop.systemd1";

/// Where systemd looks for units, the first that counts first (systemd.unit(5)).
pub const UNIT_DIRECTORIES: [&str; 5] = [
    "/etc/systemd/system",
    "/run/systemd/system",
    "/usr/local/lib/systemd/system",
    "/usr/lib/systemd/system",
    "/lib/systemd/system",
];

/// RKE2's units: a node runs one of them.
pub const RKE2_UNITS: [&str; 2] = ["rke2-server.service", "rke2-agent.service"];
/// The unit with kube-apiserver.
pub const RKE2_SERVER: &str = RKE2_UNITS[0];
/// The agent's.
pub const RKE2_AGENT: &str = RKE2_UNITS[1];

#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Unit {
    /// `active`, `activating`, `inactive`, `failed` and the like.
    pub active: String,
    /// Identifies one start of the unit; empty when it never ran.
    pub invocation: String,
    /// When its main process was started, in microseconds of the monotonic clock; 0 if it never was.
    pub started: u64,
    /// How often systemd has restarted it automatically.
    pub restarts: u32,
    /// Whether a start, stop or restart of it is queued or under way.
    pub job: bool,
}

/// A row of systemd's list of jobs: number, unit, kind, state, and the paths of job and unit.
pub(super) type SystemdJob = (
    u32,
    String,
    String,
    String,
    OwnedObjectPath,
    OwnedObjectPath,
);

impl Unit {
    /// Whether systemd reports it as running. Active is not ready.
    pub fn is_active(&self) -> bool {
        self.active == "active"
    }

    /// How long its main process has existed, if it was ever started. Setting the wall clock does not change it.
    pub fn age(&self) -> Option<Duration> {
        let now = clock_gettime(ClockId::CLOCK_MONOTONIC).ok()?;
        let started = Duration::from_micros(self.started);
        (self.started > 0).then(|| Duration::from(now).saturating_sub(started))
    }

    /// Whether it is neither running nor being started.
    pub fn is_down(&self) -> bool {
        matches!(self.active.as_str(), "inactive" | "failed")
    }

    /// Whether it was stopped, or never started, and nothing is about to start it. An operator may start a failed unit
    /// again.
    pub fn is_stopped(&self) -> bool {
        self.active == "inactive" && !self.job
    }
}

#[derive(Debug, Clone)]
pub struct Systemd {
    connection: Connection,
}

impl Systemd {
    /// Connects.
    ///
    /// # Errors
    ///
    /// In a line, when there is no bus or it does not answer.
    pub async fn connect() -> Result<Self, String> {
        let connection = limited(Connection::system()).await?;
        Ok(Self { connection })
    }

    /// The state of a unit. One that is not installed is down.
    ///
    /// # Errors
    ///
    /// In a line, when systemd does not answer.
    pub async fn unit(&self, name: &str) -> Result<Unit, String> {
        let answer = self.manager("LoadUnit", &(name,)).await?;
        let path: OwnedObjectPath = answer
            .body()
            .deserialize()
            .map_err(|error| error.to_string())?;
        let invocation: Vec<u8> = self.property(&path, "Unit", "InvocationID").await?;
        Ok(Unit {
            active: self.property(&path, "Unit", "ActiveState").await?,
            invocation: invocation
                .iter()
                .map(|byte| format!("{byte:02x}"))
                .collect(),
            started: self
                .property(&path, "Service", "ExecMainStartTimestampMonotonic")
                .await?,
            restarts: self.property(&path, "Service", "NRestarts").await?,
            job: self.jobs().await?.iter().any(|job| job.1 == name),
        })
    }

    async fn jobs(&self) -> Result<Vec<SystemdJob>, String> {
        let answer = self.manager("ListJobs", &()).await?;
        answer
            .body()
            .deserialize()
            .map_err(|error| error.to_string())
    }

    async fn manager<B>(&self, method: &str, body: &B) -> Result<Message, String>
    where
        B: serde::Serialize + DynamicType,
    {
        let path = "/org/freedesktop/systemd1";
        let interface = format!("{DESTINATION}.Manager");
        limited(self.connection.call_method(
            Some(DESTINATION),
            path,
            Some(interface.as_str()),
            method,
            body,
        ))
        .await
    }

    async fn property<T>(
        &self,
        path: &OwnedObjectPath,
        interface: &str,
        name: &str,
    ) -> Result<T, String>
    where
        T: TryFrom<OwnedVariant>,
        T::Error: std::fmt::Display,
    {
        let interface = format!("{DESTINATION}.{interface}");
        let answer = limited(self.connection.call_method(
            Some(DESTINATION),
            path,
            Some("org.freedesktop.DBus.Properties"),
            "Get",
            &(interface, name),
        ))
        .await?;
        let value: OwnedVariant = answer
            .body()
            .deserialize()
            .map_err(|error| error.to_string())?;
        T::try_from(value).map_err(|error| format!("{name}: {error}"))
    }
}

async fn limited<T, E: std::fmt::Display>(
    answer: impl Future<Output = Result<T, E>>,
) -> Result<T, String> {
    match tokio::time::timeout(ANSWER, answer).await {
        Ok(answer) => answer.map_err(|error| error.to_string()),
        Err(_) => Err(format!(
            "systemd gave no answer within {} s",
            ANSWER.as_secs()
        )),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_age_of_a_unit_is_known_once_it_was_started() {
        let mut unit = Unit::default();
        assert_eq!(unit.age(), None);
        unit.started = 1;
        let up = Duration::from(clock_gettime(ClockId::CLOCK_MONOTONIC).unwrap());
        assert!(unit.age().unwrap() >= up.saturating_sub(Duration::from_micros(1)));
    }

    #[test]
    fn a_unit_runs_is_down_or_is_between_and_one_that_is_queued_is_not_stopped() {
        for (active, job, is_active, is_down, is_stopped) in [
            ("active", false, true, false, false),
            ("activating", true, false, false, false),
            ("deactivating", true, false, false, false),
            ("inactive", false, false, true, true),
            ("inactive", true, false, true, false),
            ("failed", false, false, true, false),
        ] {
            let unit = Unit {
                active: active.to_owned(),
                job,
                ..Unit::default()
            };
            let found = (unit.is_active(), unit.is_down(), unit.is_stopped());
            assert_eq!(found, (is_active, is_down, is_stopped), "{active} {job}");
        }
    }
}
