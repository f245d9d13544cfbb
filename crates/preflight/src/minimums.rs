//! The requirements of Harvester and RKE2 for a machine. The data and their sources are in `data/minimums.yaml`.

use std::sync::LazyLock;

use serde::Deserialize;
use windrow_model::manifest::yaml;
use windrow_plan::rules::Platform;

use crate::PlannedRole;
use crate::sockets::Protocol;

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct PublishedMinimums {
    #[serde(rename = "apiVersion")]
    _api_version: String,
    #[serde(rename = "kind")]
    _kind: String,
    pub minimums: Vec<PublishedMinimum>,
    /// Limit for the write times of etcd's disk.
    pub etcd: EtcdBound,
    /// Limit for the difference between clocks.
    pub clock: ClockBound,
    /// Ports that must be free, and who uses them.
    pub ports: NeededPorts,
}

/// A measured property of a machine.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Figure {
    /// Logical processors.
    Cpus,
    /// Memory in GiB.
    MemoryGib,
    /// Speed of a management link in Mb/s.
    LinkMbps,
    /// The only disk, which holds both the system and the data, in GiB.
    SingleDiskGib,
    /// The system disk, if the data are on another disk, in GiB.
    SystemDiskGib,
    /// The data disk, in GiB.
    DataDiskGib,
}

#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PublishedMinimum {
    pub platform: Platform,
    pub figure: Figure,
    /// A machine with less is not supported.
    pub least: u64,
    /// The minimum for production, or the recommended value.
    pub better: u64,
    /// Whether the installer of the platform checks it.
    pub installer: bool,
    pub source: String,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct EtcdBound {
    /// The longest time that 99 of 100 writes may take, in milliseconds.
    pub fsync_p99_millis: u32,
    pub source: String,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ClockBound {
    pub offset_millis: u32,
    pub source: String,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct NeededPorts {
    pub source: String,
    pub list: Vec<NeededPort>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct NeededPort {
    pub port: u16,
    pub protocol: Protocol,
    /// Absent if both platforms need the port.
    pub platform: Option<Platform>,
    pub roles: Vec<PlannedRole>,
    #[serde(rename = "for")]
    pub listener: String,
    /// True if the platform can replace or omit this component.
    #[serde(default)]
    pub packaged: bool,
}

impl PublishedMinimums {
    pub fn shipped() -> &'static Self {
        static SHIPPED: LazyLock<PublishedMinimums> = LazyLock::new(|| {
            parse(include_str!("../data/minimums.yaml"))
                .expect("the data can be read, which a test holds")
        });
        &SHIPPED
    }

    pub fn of(&self, platform: Platform, figure: Figure) -> Option<&PublishedMinimum> {
        let mut minimums = self.minimums.iter();
        minimums.find(|one| one.platform == platform && one.figure == figure)
    }

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
