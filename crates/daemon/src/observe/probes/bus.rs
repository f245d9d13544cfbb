//! systemd and timedate1 over D-Bus. Properties are read, and no method is called that changes anything.

use std::collections::{BTreeSet, HashMap};
use std::fmt;

use tokio::sync::Mutex;
use zbus::{OwnedObjectPath, OwnedVariant};

use crate::causes::of_bus;
use crate::observe::systemd::SystemdJob;

const SYSTEMD: &str = "org.freedesktop.systemd1";
const MANAGER_PATH: &str = "/org/freedesktop/systemd1";
const MANAGER: &str = "org.freedesktop.systemd1.Manager";
const UNIT: &str = "org.freedesktop.systemd1.Unit";
const SERVICE: &str = "org.freedesktop.systemd1.Service";
const TIMEDATE: &str = "org.freedesktop.timedate1";
const TIMEDATE_PATH: &str = "/org/freedesktop/timedate1";
const PROPERTIES: &str = "org.freedesktop.DBus.Properties";

/// The system bus, connected at the first question and again after the connection was lost.
pub(super) struct Bus {
    address: Option<String>,
    connection: Mutex<Option<zbus::Connection>>,
}

#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(super) struct UnitState {
    /// `loaded`, `not-found`, `masked`, `bad-setting`, `error`…
    pub(super) load: String,
    /// `active`, `activating`, `inactive`, `failed`…
    pub(super) active: String,
    /// `running`, `start`, `auto-restart`…
    pub(super) sub: String,
    /// `enabled`, `disabled`, `masked`…
    pub(super) file: String,
    /// How often systemd has restarted it automatically.
    pub(super) restarts: u32,
    /// `success`, `exit-code`, `signal`…
    pub(super) result: String,
    /// How its main process ended; `None` while it runs, and before its first end.
    pub(super) end: Option<ProcessEnd>,
    /// The units that systemd starts or stops before it starts this one, while its start waits.
    pub(super) waits_for: Vec<String>,
}

/// How a process ended (`ExecMainCode` and `ExecMainStatus`). systemd resets both when it starts the next process.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ProcessEnd {
    Exited(i32),
    Signalled(i32),
}

impl ProcessEnd {
    /// From `waitid(2)`: `CLD_EXITED`, `CLD_KILLED`, `CLD_DUMPED`.
    fn new(code: i32, status: i32) -> Option<Self> {
        match code {
            1 => Some(Self::Exited(status)),
            2 | 3 => Some(Self::Signalled(status)),
            _ => None,
        }
    }
}

impl fmt::Display for ProcessEnd {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Exited(code) => write!(f, "exit code {code}"),
            Self::Signalled(signal) => write!(f, "signal {signal}"),
        }
    }
}

/// More jobs than a boot has in front of one unit.
const MOST_JOBS: usize = 200;

impl UnitState {
    pub(super) fn queued(&self) -> Option<String> {
        let (first, others) = self.waits_for.split_first()?;
        Some(match others.len() {
            0 => format!("systemd first waits for {first}"),
            more => format!("systemd first waits for {first} and {more} more"),
        })
    }
}

impl Bus {
    pub(super) fn new(address: Option<String>) -> Self {
        Self {
            address,
            connection: Mutex::default(),
        }
    }

    /// A service unit. One that does not exist is `not-found`, not an error.
    pub(super) async fn unit(&self, name: &str) -> Result<UnitState, String> {
        let path: OwnedObjectPath = self
            .call(SYSTEMD, MANAGER_PATH, MANAGER, "LoadUnit", &(name,))
            .await?;
        let unit = self.properties(path.as_str(), UNIT).await?;
        let service = self.properties(path.as_str(), SERVICE).await;
        let text = |all: &HashMap<String, OwnedVariant>, key: &str| -> String {
            all.get(key)
                .and_then(|value| <&str>::try_from(value).ok())
                .unwrap_or_default()
                .to_owned()
        };
        let number = |all: &HashMap<String, OwnedVariant>, key: &str| -> i32 {
            let value = all.get(key).and_then(|value| i32::try_from(value).ok());
            value.unwrap_or_default()
        };
        // A unit that is not installed has no service properties.
        let service = service.unwrap_or_default();
        let active = text(&unit, "ActiveState");
        let waits_for = if active == "inactive" {
            // Without an answer, the message only has less detail.
            self.queued_behind(name).await.unwrap_or_default()
        } else {
            Vec::new()
        };
        Ok(UnitState {
            waits_for,
            load: text(&unit, "LoadState"),
            active,
            sub: text(&unit, "SubState"),
            file: text(&unit, "UnitFileState"),
            restarts: service
                .get("NRestarts")
                .and_then(|value| u32::try_from(value).ok())
                .unwrap_or_default(),
            result: text(&service, "Result"),
            end: ProcessEnd::new(
                number(&service, "ExecMainCode"),
                number(&service, "ExecMainStatus"),
            ),
        })
    }

    /// The units whose jobs run now and which the job of `name` is queued behind, directly or not. None if it has no
    /// job, or the job runs.
    async fn queued_behind(&self, name: &str) -> Result<Vec<String>, String> {
        let jobs: Vec<SystemdJob> = self
            .call(SYSTEMD, MANAGER_PATH, MANAGER, "ListJobs", &())
            .await?;
        let mut numbers: Vec<u32> = jobs
            .iter()
            .filter(|(_, unit, _, state, ..)| unit == name && state == "waiting")
            .map(|(number, ..)| *number)
            .collect();
        let mut running = BTreeSet::new();
        let mut next = 0;
        while let Some(number) = numbers.get(next).copied() {
            next += 1;
            let before: Vec<SystemdJob> = self
                .call(SYSTEMD, MANAGER_PATH, MANAGER, "GetJobBefore", &(number,))
                .await?;
            for (number, unit, _, state, ..) in before {
                if state == "running" {
                    running.insert(unit);
                } else if !numbers.contains(&number) && numbers.len() < MOST_JOBS {
                    numbers.push(number);
                }
            }
        }
        Ok(running.into_iter().collect())
    }

    pub(super) async fn stopping(&self) -> Result<bool, String> {
        let state: OwnedVariant = self
            .call(
                SYSTEMD,
                MANAGER_PATH,
                PROPERTIES,
                "Get",
                &(MANAGER, "SystemState"),
            )
            .await?;
        Ok(<&str>::try_from(&state).is_ok_and(|state| state == "stopping"))
    }

    pub(super) async fn synchronised(&self) -> Result<bool, String> {
        let value: OwnedVariant = self
            .call(
                TIMEDATE,
                TIMEDATE_PATH,
                PROPERTIES,
                "Get",
                &(TIMEDATE, "NTPSynchronized"),
            )
            .await?;
        bool::try_from(&value).map_err(|error| error.to_string())
    }

    async fn properties(
        &self,
        path: &str,
        interface: &str,
    ) -> Result<HashMap<String, OwnedVariant>, String> {
        self.call(SYSTEMD, path, PROPERTIES, "GetAll", &(interface,))
            .await
    }

    async fn call<T, B>(
        &self,
        service: &str,
        path: &str,
        interface: &str,
        method: &str,
        body: &B,
    ) -> Result<T, String>
    where
        T: serde::de::DeserializeOwned + zbus::zvariant::Type,
        B: serde::Serialize + zbus::zvariant::DynamicType,
    {
        let connection = self.connection().await?;
        let answer = connection
            .call_method(Some(service), path, Some(interface), method, body)
            .await;
        match answer {
            Ok(message) => message
                .body()
                .deserialize::<T>()
                .map_err(|error| error.to_string()),
            Err(error) => {
                if !matches!(error, zbus::Error::MethodError(..)) {
                    // The bus itself failed: the next call connects again.
                    *self.connection.lock().await = None;
                }
                Err(of_bus(&error))
            }
        }
    }

    async fn connection(&self) -> Result<zbus::Connection, String> {
        let mut known = self.connection.lock().await;
        if let Some(connection) = &*known {
            return Ok(connection.clone());
        }
        let connected = match &self.address {
            None => zbus::Connection::system().await,
            Some(address) => {
                let builder = zbus::connection::Builder::address(address.as_str());
                builder.build().await
            }
        };
        let connection = connected.map_err(|error| of_bus(&error))?;
        *known = Some(connection.clone());
        Ok(connection)
    }
}
