//! Facts that need a request or a measurement: addresses in use, occupied ports, servers that answer, and the write time of a
//! disk.

use std::net::IpAddr;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use windrow_host::Reading;

use crate::address_claims::AddressClaim;
use crate::sockets::Protocol;

/// Requests and their results. An absent field was not requested.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct Surroundings {
    /// Whether the user disabled all network requests.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub offline: bool,
    /// Why no network request was possible; the facts belong to another machine.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub not_asked: Option<String>,
    /// Targets of the configured disk names.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub devices: Vec<DeviceReading>,
    /// Addresses that must be free.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub addresses: Vec<VipReading>,
    /// Processes on ports that the node needs.
    pub ports: Reading<Vec<PortHolder>>,
    /// Whether there is a default route.
    pub default_route: Reading<bool>,
    /// Name servers.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub name_servers: Vec<DnsReading>,
    /// Time servers.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub time_servers: Vec<NtpReading>,
    /// The cluster to join.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub join: Option<JoinReading>,
    /// Write time of the disk.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub fsync: Option<Reading<FsyncReading>>,
}

/// An address that must be free.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct VipReading {
    /// The address.
    pub address: String,
    /// Whether this machine already has the address.
    #[serde(default)]
    pub own: bool,
    /// Other hosts that claim the address.
    pub claims: Reading<Vec<AddressClaim>>,
}

/// A listener on a port.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct PortHolder {
    /// The port.
    pub port: u16,
    /// Its protocol.
    pub protocol: Protocol,
    /// The address that it listens on.
    pub address: IpAddr,
    /// The process; absent if Windrow has no permission to see it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub process: Option<String>,
}

/// A disk name from the configuration.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct DeviceReading {
    /// The name, for example `/dev/disk/by-label/OS`.
    pub device: String,
    /// The whole device behind the name, for example `sda`.
    pub leads_to: Reading<String>,
}

/// Why a server gave no answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum NoAnswer {
    /// The server was asked, but gave no valid answer.
    Silent,
    /// The server answered, but without the requested information.
    Refused,
    /// This machine could not ask the server, which proves nothing about the server.
    NotAsked,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Unanswered {
    pub kind: NoAnswer,
    /// The end of a sentence that starts with the server.
    pub why: String,
}

impl Unanswered {
    pub fn silent(why: impl Into<String>) -> Self {
        Self {
            kind: NoAnswer::Silent,
            why: why.into(),
        }
    }

    pub fn not_asked(why: impl Into<String>) -> Self {
        Self {
            kind: NoAnswer::NotAsked,
            why: why.into(),
        }
    }

    pub fn refused(why: impl Into<String>) -> Self {
        Self {
            kind: NoAnswer::Refused,
            why: why.into(),
        }
    }
}

/// A name server.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct DnsReading {
    /// Address of the server.
    pub server: String,
    /// The requested name.
    pub name: String,
    /// The addresses in the answer, or the reason why there is none.
    pub answer: Reading<Vec<IpAddr>>,
    /// The kind of failure; absent if there is an answer, and in documents of older versions.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub no_answer: Option<NoAnswer>,
}

impl DnsReading {
    pub fn of(server: String, name: String, asked: Result<Vec<IpAddr>, Unanswered>) -> Self {
        let (answer, no_answer) = parts(asked);
        Self {
            server,
            name,
            answer,
            no_answer,
        }
    }
}

/// A time server.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct NtpReading {
    /// Name or address of the server.
    pub server: String,
    /// How far the clock is behind the server, in milliseconds, or the reason why there is no answer.
    pub behind_millis: Reading<i64>,
    /// The kind of failure; absent if there is an answer, and in documents of older versions.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub no_answer: Option<NoAnswer>,
}

impl NtpReading {
    pub fn of(server: String, asked: Result<i64, Unanswered>) -> Self {
        let (behind_millis, no_answer) = parts(asked);
        Self {
            server,
            behind_millis,
            no_answer,
        }
    }
}

/// The cluster to join.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct JoinReading {
    /// Address with the port.
    pub server: String,
    /// Whether the cluster accepts a connection, or the reason why it does not.
    pub answers: Reading<bool>,
    /// The kind of failure; absent if there is a connection, and in documents of older versions.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub no_answer: Option<NoAnswer>,
}

impl JoinReading {
    pub fn of(server: String, asked: Result<(), Unanswered>) -> Self {
        let (answers, no_answer) = parts(asked.map(|()| true));
        Self {
            server,
            answers,
            no_answer,
        }
    }
}

fn parts<T>(asked: Result<T, Unanswered>) -> (Reading<T>, Option<NoAnswer>) {
    match asked {
        Ok(answer) => (Reading::Known(answer), None),
        Err(Unanswered { kind, why }) => (Reading::unknown(why), Some(kind)),
    }
}

/// Write times of the disk.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct FsyncReading {
    /// The directory of the test file.
    pub directory: String,
    /// Number of measured writes.
    pub writes: u32,
    /// Median, in microseconds.
    pub p50_micros: u64,
    /// 99th percentile, in microseconds.
    pub p99_micros: u64,
    /// Maximum, in microseconds.
    pub max_micros: u64,
}

impl FsyncReading {
    /// With fewer writes the 99th percentile means nothing.
    pub const FEWEST: usize = 100;

    /// Summarizes the write times, in microseconds.
    ///
    /// # Errors
    ///
    /// There are too few writes.
    pub fn of(directory: String, mut micros: Vec<u64>) -> Result<Self, String> {
        let count = micros.len();
        if count < Self::FEWEST {
            return Err(format!(
                "only {count} writes to {directory} ended in time: too few to tell"
            ));
        }
        micros.sort_unstable();
        let at = |percent: usize| micros[(count * percent).div_ceil(100).saturating_sub(1)];
        Ok(Self {
            directory,
            writes: u32::try_from(count).unwrap_or(u32::MAX),
            p50_micros: at(50),
            p99_micros: at(99),
            max_micros: at(100),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentiles_are_those_of_the_writes_and_too_few_writes_tell_nothing() {
        let micros: Vec<u64> = (1..=200).rev().collect();
        let read = FsyncReading::of("/d".to_owned(), micros).unwrap();
        assert_eq!(
            (
                read.writes,
                read.p50_micros,
                read.p99_micros,
                read.max_micros
            ),
            (200, 100, 198, 200)
        );
        let few = FsyncReading::of("/d".to_owned(), vec![1; 99]).unwrap_err();
        assert!(few.contains("only 99"), "{few}");
    }
}
