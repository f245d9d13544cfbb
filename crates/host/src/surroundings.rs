//! What only asking tells: addresses in use, ports that are taken, servers that answer, the time a disk takes.

use std::net::IpAddr;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use windrow_harvester::vip_check::AddressClaim;

use crate::Reading;
use crate::sockets::Protocol;

/// What was asked, and what came of it. What is absent was not asked.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct Surroundings {
    /// Was nothing asked of the network, because that was wanted?
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub offline: bool,
    /// Why nothing could be asked of the network: it is another machine's.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub not_asked: Option<String>,
    /// Where the names of the configured disks lead.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub devices: Vec<DeviceReading>,
    /// Addresses that have to be free.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub addresses: Vec<VipReading>,
    /// Who listens on ports that the node needs.
    pub ports: Reading<Vec<PortHolder>>,
    /// Is there a default route?
    pub default_route: Reading<bool>,
    /// The name servers.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub name_servers: Vec<DnsReading>,
    /// The time servers.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub time_servers: Vec<NtpReading>,
    /// The cluster that is to be joined.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub join: Option<JoinReading>,
    /// What a write to the disk takes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub fsync: Option<Reading<FsyncReading>>,
}

/// An address that has to be free.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct VipReading {
    /// The address.
    pub address: String,
    /// Is it this machine's own already?
    #[serde(default)]
    pub own: bool,
    /// Who else claims it.
    pub claims: Reading<Vec<AddressClaim>>,
}

/// Who listens on a port.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct PortHolder {
    /// The port.
    pub port: u16,
    /// Its protocol.
    pub protocol: Protocol,
    /// The address that is listened on.
    pub address: IpAddr,
    /// The process; absent where it may not be seen.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub process: Option<String>,
}

/// A disk as the configuration names it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct DeviceReading {
    /// The name: `/dev/disk/by-label/OS`.
    pub device: String,
    /// The whole device that it leads to: `sda`.
    pub leads_to: Reading<String>,
}

/// What it means that a server's answer is not known.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum NoAnswer {
    /// It was asked, and nothing came that is an answer.
    Silent,
    /// It answered, and does not say what it was asked for.
    Refused,
    /// It could not be asked from here, which says nothing of it.
    NotAsked,
}

/// Why there is no answer of a server.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Unanswered {
    /// What it means.
    pub kind: NoAnswer,
    /// The end of a sentence that begins with the server.
    pub why: String,
}

impl Unanswered {
    /// It was asked, and nothing came that is an answer.
    pub fn silent(why: impl Into<String>) -> Self {
        Self {
            kind: NoAnswer::Silent,
            why: why.into(),
        }
    }

    /// It could not be asked.
    pub fn not_asked(why: impl Into<String>) -> Self {
        Self {
            kind: NoAnswer::NotAsked,
            why: why.into(),
        }
    }

    /// It answered, and does not say what it was asked for.
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
    /// Its address.
    pub server: String,
    /// The name that it was asked for.
    pub name: String,
    /// The addresses that it knows; or why it does not answer.
    pub answer: Reading<Vec<IpAddr>>,
    /// What it means that the answer is not known; absent where it is known, and in documents of older versions.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub no_answer: Option<NoAnswer>,
}

impl DnsReading {
    /// What came of a question.
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
    /// Its name or address.
    pub server: String,
    /// How far the clock is behind it, in milliseconds; or why it does not tell.
    pub behind_millis: Reading<i64>,
    /// What it means that it does not tell; absent where it tells, and in documents of older versions.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub no_answer: Option<NoAnswer>,
}

impl NtpReading {
    /// What came of a question.
    pub fn of(server: String, asked: Result<i64, Unanswered>) -> Self {
        let (behind_millis, no_answer) = parts(asked);
        Self {
            server,
            behind_millis,
            no_answer,
        }
    }
}

/// The cluster that is to be joined.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct JoinReading {
    /// Its address, with the port.
    pub server: String,
    /// Does it take a connection? Or why not.
    pub answers: Reading<bool>,
    /// What it means that it takes none; absent where it does, and in documents of older versions.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub no_answer: Option<NoAnswer>,
}

impl JoinReading {
    /// What came of a connection.
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

/// What a write to the disk takes.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct FsyncReading {
    /// The directory that was written to.
    pub directory: String,
    /// How many writes were measured.
    pub writes: u32,
    /// The middle one, in microseconds.
    pub p50_micros: u64,
    /// The one that 99 of 100 do not exceed, in microseconds.
    pub p99_micros: u64,
    /// The longest, in microseconds.
    pub max_micros: u64,
}

impl FsyncReading {
    /// Fewer writes prove nothing about one in a hundred.
    pub const FEWEST: usize = 100;

    /// Sums up how long each write took, in microseconds.
    ///
    /// # Errors
    ///
    /// Too few writes.
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
