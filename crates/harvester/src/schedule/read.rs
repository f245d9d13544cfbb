//! A cluster as the scheduler sees it, from its objects.

use std::collections::BTreeMap;

use serde_json::Value;
use windrow_model::object::Labels;

use super::{NodeSelector, SchedulerNode, SchedulerPod, SchedulerView};
use crate::objects::{ObjectKind, Objects, Unlisted, named, text, texts};

pub(crate) const SCHEDULER_KINDS: &[ObjectKind] = &[
    ObjectKind::NODE,
    ObjectKind::POD,
    ObjectKind::NAMESPACE,
    ObjectKind::CLAIM,
    ObjectKind::VOLUME,
];

impl SchedulerView {
    /// Keeps the pods in the order of their list.
    ///
    /// # Errors
    ///
    /// The objects that could not be listed or read, in a line.
    pub(crate) fn read(objects: &Objects) -> Result<Self, String> {
        let all = |kind: ObjectKind| objects.all(kind).map_err(|e: Unlisted| e.to_string());
        Ok(Self {
            nodes: all(ObjectKind::NODE)?
                .iter()
                .map(SchedulerNode::parse)
                .collect::<Result<_, _>>()?,
            pods: all(ObjectKind::POD)?
                .iter()
                .map(SchedulerPod::parse)
                .collect::<Result<_, _>>()?,
            namespaces: namespaces(objects),
            claims: claims(objects)?,
        })
    }
}

fn namespaces(objects: &Objects) -> Option<BTreeMap<String, Labels>> {
    let namespaces = objects.all(ObjectKind::NAMESPACE).ok()?;
    let labels = |namespace: &Value| {
        let name = text(namespace, "/metadata/name").to_owned();
        (name, texts(namespace, "/metadata/labels"))
    };
    Some(namespaces.iter().map(labels).collect())
}

/// Which nodes reach each claim. A claim that could not be listed has no entry, and causes Unknown if a pod needs it.
fn claims(objects: &Objects) -> Result<BTreeMap<String, Option<NodeSelector>>, String> {
    let (Ok(claims), Ok(volumes)) = (
        objects.all(ObjectKind::CLAIM),
        objects.all(ObjectKind::VOLUME),
    ) else {
        return Ok(BTreeMap::new());
    };
    let mut reached = BTreeMap::new();
    for claim in claims {
        let name = text(claim, "/spec/volumeName");
        let volume = volumes
            .iter()
            .find(|volume| text(volume, "/metadata/name") == name);
        if let Some(volume) = volume {
            let nodes = NodeSelector::parse(volume.pointer("/spec/nodeAffinity/required"))?;
            reached.insert(named(claim), nodes);
        }
    }
    Ok(reached)
}
