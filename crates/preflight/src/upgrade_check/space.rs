//! Facts that no list of objects contains: space on nodes, and certificates. The caller asks each node beforehand.

use std::collections::BTreeMap;

use jiff::{Span, Timestamp};
use windrow_harvester::incidents::OwnNode;
use windrow_harvester::node_condition::ANNOTATION;
use windrow_harvester::objects::{ObjectKind, text, texts};
use windrow_harvester::system_image::{
    LEAST_PARTITION, NEW_IMAGE, NEW_IMAGE_4300, SystemPartition, mebibytes,
};
use windrow_harvester::versions::Fact;
use windrow_model::findings::Evidence;

use super::{CheckFacts, CheckResult, Cluster, NoFacts};

const GIB: u64 = 1 << 30;
/// The size of the new images (validator.go defaultNewImageSize).
const NEW_IMAGES: u64 = 13 * GIB;
/// How full the kubelet lets a file system become. Harvester looks for the kubelet's own setting in the wrong place, and so
/// always uses this value.
const FULLEST: f64 = 85.0;
/// The required free space (validator.go defaultMinFreeDiskSpace).
const FREE: u64 = 30 * GIB;
const CERTIFICATE_DAYS: i64 = 7;

/// The file system that the kubelet and its images are on, in bytes (`/stats/summary`, `.node.fs`).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct NodeSpace {
    pub capacity: u64,
    pub used: u64,
    /// Available for images.
    pub available: u64,
}

/// The answers of the nodes, one by one. Empty fields were not requested, as for a saved cluster.
#[derive(Debug, Clone, Default)]
pub struct NodeReadings {
    /// Space by node, or why it is unknown.
    pub space: BTreeMap<String, Result<NodeSpace, String>>,
    /// When the first of kube-apiserver's certificates ends, by address.
    pub certificates: BTreeMap<String, Result<Timestamp, String>>,
    /// The files on the disk of the node on which this runs, or which the report is about.
    pub own: Option<OwnNode>,
    /// The gates that the new Kubernetes rejects, or why they are unknown.
    pub gates: Option<Result<Vec<Evidence>, String>>,
}

pub(super) fn images(cluster: &Cluster<'_>) -> CheckResult {
    const ADDRESS: &str = "rke2.io/internal-ip";
    let mut facts = each(cluster, |space, subject, facts| {
        let full = (space.used + NEW_IMAGES) as f64 / space.capacity.max(1) as f64 * 100.0;
        if full > FULLEST {
            let said = format!(
                "{} of {} GiB, and {full:.0} % with the new images",
                space.used / GIB,
                space.capacity / GIB
            );
            facts.add(subject, "stats.node.fs.usedBytes", said);
        }
    })?;
    for node in cluster.nodes()? {
        if !texts(node, "/metadata/annotations").contains_key(ADDRESS) {
            let subject = format!("Node {}", text(node, "/metadata/name"));
            facts.add(
                subject,
                &format!("metadata.annotations[{ADDRESS}]"),
                "absent",
            );
        }
    }
    Ok(facts)
}

pub(super) fn free(cluster: &Cluster<'_>) -> CheckResult {
    let (required, fault) = match required_space(cluster)? {
        Ok(required) => (required, None),
        Err(fault) => (FREE, Some(fault)),
    };
    let mut facts = each(cluster, |space, subject, facts| {
        if space.available < required {
            let said = format!("{} GiB", space.available / GIB);
            facts.add(subject, "stats.node.fs.availableBytes", said);
        }
    })?;
    facts.problems.extend(fault);
    Ok(facts)
}

/// The free space that the new release asks for, if it asks for another amount than Harvester does (`version/validator.go`
/// MinFreeDiskSpaceGBAnnotation), or why the webhook cannot read it.
fn required_space(cluster: &Cluster<'_>) -> Result<Result<u64, Evidence>, NoFacts> {
    const LEAST: &str = "harvesterhci.io/minFreeDiskSpaceGB";
    let Some(to) = cluster.to else {
        return Ok(Ok(FREE));
    };
    let name = format!("v{to}");
    let version = cluster
        .objects
        .get(ObjectKind::VERSION, "harvester-system", &name)?;
    let annotations = version.map(|version| texts(version, "/metadata/annotations"));
    let Some(least) = annotations.and_then(|mut annotations| annotations.remove(LEAST)) else {
        return Ok(Ok(FREE));
    };
    let number = least.parse().ok().filter(|_| !least.starts_with('+'));
    Ok(number
        .map(|least: u64| least.saturating_mul(GIB))
        .ok_or_else(|| {
            let subject = format!("Version harvester-system/{name}");
            Evidence::new(subject, format!("metadata.annotations[{LEAST}]"), least)
        }))
}

fn each(cluster: &Cluster<'_>, judge: impl Fn(NodeSpace, String, &mut CheckFacts)) -> CheckResult {
    let mut facts = CheckFacts::default();
    for node in cluster.nodes()? {
        let name = text(node, "/metadata/name");
        match cluster.readings.space.get(name) {
            Some(Ok(space)) => judge(*space, format!("Node {name}"), &mut facts),
            Some(Err(why)) => facts.unknown.push(format!("Node {name}: {why}")),
            None => facts.unknown.push(format!("Node {name}: it was not asked")),
        }
    }
    Ok(facts)
}

/// Room on a node's partition of system images, in bytes.
struct SystemRoom {
    node: String,
    capacity: u64,
    free: u64,
}

/// The partition of each node: the own one from its disk, others from the reports of their daemons.
fn system_rooms(cluster: &Cluster<'_>) -> Result<(Vec<SystemRoom>, Vec<String>), NoFacts> {
    let own = cluster.readings.own.as_ref();
    let (mut rooms, mut unknown) = (Vec::new(), Vec::new());
    for node in cluster.nodes()? {
        let name = text(node, "/metadata/name");
        let read = own
            .filter(|own| own.name == name)
            .and_then(|own| own.images.as_ref())
            .map(|images| (images.capacity, images.free));
        let described = || {
            let partition = SystemPartition::from_node(node)?;
            Some((partition.capacity << 20, partition.free << 20))
        };
        match read.or_else(described) {
            Some((capacity, free)) => rooms.push(SystemRoom {
                node: name.to_owned(),
                capacity,
                free,
            }),
            None => unknown.push(format!(
                "Node {name} was not looked at: its annotation {ANNOTATION} does not say how large COS_STATE is"
            )),
        }
    }
    Ok((rooms, unknown))
}

/// Does the new release need more than 3 GiB? An unread one is assumed to be like the newest.
fn needs_large_image(cluster: &Cluster<'_>) -> bool {
    let needs = cluster
        .to
        .map(|to| Fact::UpgradeImage4300.holds(to).assumed());
    needs.unwrap_or_default()
}

/// On a partition of 8 GiB, an upgrade to v1.8.0 or later writes a corrupt image of the system (harvester#10687).
pub(super) fn system_partitions(cluster: &Cluster<'_>) -> CheckResult {
    if !needs_large_image(cluster) {
        let why =
            "only an upgrade to v1.8.0 or later needs a larger partition: name it with --harvester";
        return Err(NoFacts::NotChecked(why));
    }
    let (rooms, unknown) = system_rooms(cluster)?;
    let mut facts = CheckFacts {
        unknown,
        ..CheckFacts::default()
    };
    for room in rooms.iter().filter(|room| room.capacity < LEAST_PARTITION) {
        let subject = format!("Node {}", room.node);
        facts.add(subject, "size of COS_STATE", mebibytes(room.capacity));
    }
    Ok(facts)
}

/// A new system is written next to the existing ones. A sparse image takes less than its length, so this is not a proof.
pub(super) fn system_images(cluster: &Cluster<'_>) -> CheckResult {
    let (rooms, unknown) = system_rooms(cluster)?;
    let is_large = needs_large_image(cluster);
    if rooms.is_empty() && !is_large {
        let why = "it is known of a node only if Windrow runs on it, or from its report";
        return Err(NoFacts::NotChecked(why));
    }
    let needed = if is_large { NEW_IMAGE_4300 } else { NEW_IMAGE };
    let mut facts = CheckFacts {
        unknown,
        ..CheckFacts::default()
    };
    let own = cluster.readings.own.as_ref();
    for room in rooms.iter().filter(|room| room.free < needed) {
        let subject = format!("Node {}", room.node);
        let (free, capacity) = (mebibytes(room.free), mebibytes(room.capacity));
        let said = format!("{free} of {capacity}");
        facts.add(&subject, "free on COS_STATE", said);
        let images = own.filter(|own| own.name == room.node);
        let images = images.and_then(|own| own.images.as_ref());
        if let Some(passive) = images.and_then(|images| images.passive) {
            let (allocated, length) = (mebibytes(passive.allocated), mebibytes(passive.length));
            let said = format!("{allocated} of {length}");
            facts.add(subject, "passive.img takes", said);
        }
    }
    Ok(facts)
}

pub(super) fn certificates(cluster: &Cluster<'_>) -> CheckResult {
    if cluster.readings.certificates.is_empty() {
        return Err(NoFacts::Unknown("kube-apiserver was not asked".to_owned()));
    }
    let mut facts = CheckFacts::default();
    let least = cluster.now + Span::new().hours(24 * CERTIFICATE_DAYS);
    for (address, until) in &cluster.readings.certificates {
        match until {
            Ok(until) if *until < least => {
                facts.add(
                    format!("kube-apiserver {address}"),
                    "certificate notAfter",
                    until.to_string(),
                );
            }
            Ok(_) => {}
            Err(why) => facts
                .unknown
                .push(format!("kube-apiserver {address}: {why}")),
        }
    }
    Ok(facts)
}
