//! What Harvester and RKE2 ask of a machine: data with its sources, `data/minimums.yaml`.

use std::sync::LazyLock;

use serde::Deserialize;
use windrow_model::manifest::yaml;
use windrow_plan::rules::Platform;

use crate::PlannedRole;
use crate::sockets::Protocol;

/// What is published.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct PublishedMinimums {
    #[serde(rename = "apiVersion")]
    _api_version: String,
    #[serde(rename = "kind")]
    _kind: String,
    /// Figures.
    pub minimums: Vec<PublishedMinimum>,
    /// What etcd asks of its disk.
    pub etcd: EtcdBound,
    /// How far clocks may be apart.
    pub clock: ClockBound,
    /// What listens where.
    pub ports: NeededPorts,
}

/// A figure of a machine.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Figure {
    /// Logical processors.
    Cpus,
    /// Memory in GiB.
    MemoryGib,
    /// Speed of a management link in Mb/s.
    LinkMbps,
    /// The one disk that the system and the data are on, in GiB.
    SingleDiskGib,
    /// The disk of the system, where the data are on another, in GiB.
    SystemDiskGib,
    /// The disk of the data, in GiB.
    DataDiskGib,
}

/// What is asked of a figure.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PublishedMinimum {
    /// Who asks.
    pub platform: Platform,
    /// Of what.
    pub figure: Figure,
    /// Less is not supported at all.
    pub least: u64,
    /// What is asked for in production, or recommended.
    pub better: u64,
    /// Does the platform's installer look at it?
    pub installer: bool,
    /// Where it is published.
    pub source: String,
}

/// What etcd asks of its disk.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct EtcdBound {
    /// The longest that 99 of 100 writes may take, in milliseconds.
    pub fsync_p99_millis: u32,
    /// Where it is published.
    pub source: String,
}

/// How far clocks may be apart.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ClockBound {
    /// Milliseconds.
    pub offset_millis: u32,
    /// Where it is published.
    pub source: String,
}

/// What listens where.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct NeededPorts {
    /// Where it is published.
    pub source: String,
    /// The ports.
    pub list: Vec<NeededPort>,
}

/// A port that has to be free.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct NeededPort {
    /// The port.
    pub port: u16,
    /// Its protocol.
    pub protocol: Protocol,
    /// The platform; absent for both.
    pub platform: Option<Platform>,
    /// The roles.
    pub roles: Vec<PlannedRole>,
    /// Who listens there.
    #[serde(rename = "for")]
    pub listener: String,
    /// Does the platform do without it, where another is chosen or none?
    #[serde(default)]
    pub packaged: bool,
}

impl PublishedMinimums {
    /// What comes with Windrow.
    pub fn shipped() -> &'static Self {
        static SHIPPED: LazyLock<PublishedMinimums> = LazyLock::new(|| {
            parse(include_str!("../data/minimums.yaml"))
                .expect("the data can be read, which a test holds")
        });
        &SHIPPED
    }

    /// What a platform asks of a figure.
    pub fn of(&self, platform: Platform, figure: Figure) -> Option<&PublishedMinimum> {
        let mut minimums = self.minimums.iter();
        minimums.find(|one| one.platform == platform && one.figure == figure)
    }

    /// The ports that a node needs.
    pub fn ports(
        &self,
        platform: Platform,
        role: PlannedRole,
    ) -> impl Iterator<Item = &NeededPort> {
        let ports = self.ports.list.iter();
        ports.filter(move |one| {
            one.platform.is_none_or(|only| only == platform) && one.roles.contains(&role)
        })
    }
}

fn parse(text: &str) -> Result<PublishedMinimums, String> {
    let root = yaml::parse_configuration(text).map_err(|errors| format!("{errors:?}"))?;
    let root = root.ok_or("it is empty")?;
    serde_json::from_value(root.to_json()).map_err(|error| error.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_published_minimums_can_be_read_and_each_has_its_source() {
        let known = parse(include_str!("../data/minimums.yaml")).unwrap();
        for one in &known.minimums {
            assert!(one.least <= one.better, "{one:?}");
            assert!(one.source.contains('/'), "{one:?}");
        }
        for platform in [Platform::Harvester, Platform::Rke2] {
            for figure in [Figure::Cpus, Figure::MemoryGib] {
                assert!(known.of(platform, figure).is_some());
            }
        }
    }

    #[test]
    fn a_worker_needs_no_port_of_etcd_and_rke2_none_of_kube_vip() {
        let known = PublishedMinimums::shipped();
        let ports = |platform, role| -> Vec<u16> {
            known.ports(platform, role).map(|one| one.port).collect()
        };
        let worker = ports(Platform::Rke2, PlannedRole::Worker);
        assert!(worker.contains(&10250) && !worker.contains(&2379) && !worker.contains(&2112));
        let server = ports(Platform::Harvester, PlannedRole::Server);
        assert!(server.contains(&2379) && server.contains(&6443) && server.contains(&2112));
        let witness = ports(Platform::Harvester, PlannedRole::Witness);
        assert!(witness.contains(&2380) && !witness.contains(&6443));
    }
}
