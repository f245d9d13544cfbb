//! What no list of objects has: space on nodes and certificates. It is asked of each node beforehand.

use std::collections::BTreeMap;

use jiff::{Span, Timestamp};
use windrow_model::findings::Evidence;

use super::{Cluster, Looked, NoAnswer, Seen};
use crate::incidents::OwnNode;
use crate::objects::{text, texts};
use crate::system_image::{NEW_IMAGE, mebibytes};

const GIB: u64 = 1 << 30;
/// What the new images take (validator.go defaultNewImageSize).
const NEW_IMAGES: u64 = 13 * GIB;
/// How full the kubelet lets a file system become. Harvester looks for the kubelet's own setting at a place where it never
/// is, and always takes this.
const FULLEST: f64 = 85.0;
/// What had to be free (validator.go defaultMinFreeDiskSpace).
const FREE: u64 = 30 * GIB;
const CERTIFICATE_DAYS: i64 = 7;

/// The file system that the kubelet and its images are on, in bytes (`/stats/summary`, `.node.fs`).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct NodeSpace {
    /// How large it is.
    pub capacity: u64,
    /// How much is used.
    pub used: u64,
    /// How much is free for images.
    pub available: u64,
}

/// What was asked of the nodes one by one. What is empty was not asked: as of a saved cluster.
#[derive(Debug, Clone, Default)]
pub struct NodeReadings {
    /// Space by node, or why it is not known.
    pub space: BTreeMap<String, Result<NodeSpace, String>>,
    /// When the first of kube-apiserver's certificates ends, by address.
    pub certificates: BTreeMap<String, Result<Timestamp, String>>,
    /// What the node has on its disk on which this runs, or which the report is about.
    pub own: Option<OwnNode>,
    /// The gates that the new Kubernetes does not take, or why that is not known.
    pub gates: Option<Result<Vec<Evidence>, String>>,
}

pub(super) fn images(cluster: &Cluster<'_>) -> Looked {
    const ADDRESS: &str = "rke2.io/internal-ip";
    let mut seen = each(cluster, |space, subject, seen| {
        let full = (space.used + NEW_IMAGES) as f64 / space.capacity.max(1) as f64 * 100.0;
        if full > FULLEST {
            let said = format!(
                "{} of {} GiB, and {full:.0} % with the new images",
                space.used / GIB,
                space.capacity / GIB
            );
            seen.wrong(subject, "stats.node.fs.usedBytes", said);
        }
    })?;
    for node in cluster.nodes()? {
        if !texts(node, "/metadata/annotations").contains_key(ADDRESS) {
            let subject = format!("Node {}", text(node, "/metadata/name"));
            seen.wrong(
                subject,
                &format!("metadata.annotations[{ADDRESS}]"),
                "absent",
            );
        }
    }
    Ok(seen)
}

pub(super) fn free(cluster: &Cluster<'_>) -> Looked {
    each(cluster, |space, subject, seen| {
        if space.available < FREE {
            let said = format!("{} GiB", space.available / GIB);
            seen.wrong(subject, "stats.node.fs.availableBytes", said);
        }
    })
}

fn each(
    cluster: &Cluster<'_>,
    judge: impl Fn(NodeSpace, String, &mut Seen),
) -> Result<Seen, NoAnswer> {
    let mut seen = Seen::default();
    for node in cluster.nodes()? {
        let name = text(node, "/metadata/name");
        match cluster.readings.space.get(name) {
            Some(Ok(space)) => judge(*space, format!("Node {name}"), &mut seen),
            Some(Err(why)) => seen.unknown.push(format!("Node {name}: {why}")),
            None => seen.unknown.push(format!("Node {name}: it was not asked")),
        }
    }
    Ok(seen)
}

/// A new system is written beside the ones that are there. One with holes takes less than its length: it is no proof.
pub(super) fn system_images(cluster: &Cluster<'_>) -> Looked {
    let own = cluster.readings.own.as_ref();
    let Some((own, images)) = own.and_then(|own| Some((own, own.images.as_ref()?))) else {
        let why = "it is known of a node of Harvester only where this runs on it, or in its report";
        return Err(NoAnswer::NotAsked(why));
    };
    let mut seen = Seen::default();
    if images.free < NEW_IMAGE {
        let subject = format!("Node {}", own.name);
        let (free, capacity) = (mebibytes(images.free), mebibytes(images.capacity));
        seen.wrong(
            &subject,
            "free on COS_STATE",
            format!("{free} of {capacity}"),
        );
        if let Some(passive) = images.passive {
            let (allocated, length) = (mebibytes(passive.allocated), mebibytes(passive.length));
            seen.wrong(
                subject,
                "passive.img takes",
                format!("{allocated} of {length}"),
            );
        }
    }
    Ok(seen)
}

pub(super) fn certificates(cluster: &Cluster<'_>) -> Looked {
    if cluster.readings.certificates.is_empty() {
        return Err(NoAnswer::Unknown("kube-apiserver was not asked".to_owned()));
    }
    let mut seen = Seen::default();
    let least = cluster.now + Span::new().hours(24 * CERTIFICATE_DAYS);
    for (address, until) in &cluster.readings.certificates {
        match until {
            Ok(until) if *until < least => {
                seen.wrong(
                    format!("kube-apiserver {address}"),
                    "certificate notAfter",
                    until.to_string(),
                );
            }
            Ok(_) => {}
            Err(why) => seen
                .unknown
                .push(format!("kube-apiserver {address}: {why}")),
        }
    }
    Ok(seen)
}
