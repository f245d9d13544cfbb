//! Claims of storage and their StorageClasses: which class does nothing create, and which one gives a volume that no pod can use?

use std::collections::{BTreeMap, BTreeSet};

use windrow_model::findings::{Finding, Location};
use windrow_model::manifest::{Node, Object, ReadLimits, json};
use windrow_model::reasons::Code;
use windrow_plan::SourceMap;
use windrow_plan::knowledge::Brings;
use windrow_plan::rules::Platform;

use super::finding;
use crate::release::MinorRelease;

/// Harvester's own classes (harvester v1.4.0 to v1.8.2, `deploy/charts/harvester`, with the chart of Longhorn in it).
const OF_HARVESTER: [&str; 4] = [
    "harvester-longhorn",
    "longhorn",
    "longhorn-static",
    "vmstate-persistence",
];
/// The first release that names the class of a new image `lh-UID`; before, it is `longhorn-NAME` (harvester `pkg/util/image.go`
/// v1.7.1, GetImageStorageClassName; `pkg/image/common/operator.go` v1.8.0, GetStorageClassName).
const CLASS_BY_UID: MinorRelease = (1, 8);
/// The class of an image that Harvester made.
const OF_IMAGES: [&str; 2] = ["longhorn-", "lh-"];
/// The annotation of a VM from which Harvester creates its claims.
const TEMPLATES: &str = "harvesterhci.io/volumeClaimTemplates";

/// The claims, classes and images of all files.
#[derive(Debug, Default)]
pub(super) struct Claims {
    claims: Vec<Claim>,
    /// Those of the annotation, which only Harvester reads.
    of_annotations: Vec<Claim>,
    classes: BTreeSet<String>,
    has_default_class: bool,
    /// Longhorn's classes whose volumes cannot migrate.
    fixed: BTreeSet<String>,
    /// Images that Harvester keeps as a backing image of Longhorn, by name.
    images: BTreeMap<String, Location>,
}

#[derive(Debug)]
struct Claim {
    object: String,
    class: Option<String>,
    /// ReadWriteMany, as a block device.
    is_shared_block: bool,
    at: Location,
}

/// A claim whose class nothing creates.
pub(super) struct Classless<'c> {
    pub(super) object: &'c str,
    pub(super) what: String,
    pub(super) why: String,
    pub(super) at: &'c Location,
}

impl Claims {
    pub(super) fn add(&mut self, object: &Object, shown: &SourceMap) {
        let id = &object.id;
        let owner = id.to_string();
        let at = |line| shown.at(Some(line));
        let list = |path: &[&str]| object.node.at(path).map_or(&[][..], Node::items);
        match (id.group.as_str(), id.kind.as_str()) {
            ("storage.k8s.io", "StorageClass") => self.add_class(object),
            ("harvesterhci.io", "VirtualMachineImage")
                if object.node.str_at(&["spec", "backend"]) != Some("cdi")
                    // A saved image names its class, which an upgrade keeps (v1.8.2 `pkg/image/common/operator.go`).
                    && object.node.str_at(&["status", "storageClassName"]).is_none_or(str::is_empty) =>
            {
                self.images.insert(id.name.to_string(), at(object.line));
            }
            ("", "PersistentVolumeClaim") => {
                let spec = object.node.get("spec");
                self.claims
                    .extend(spec.and_then(|spec| claim(&owner, spec, at)));
            }
            ("apps", "StatefulSet") => {
                let templates = list(&["spec", "volumeClaimTemplates"]).iter();
                let specs = templates.filter_map(|template| template.get("spec"));
                self.claims
                    .extend(specs.filter_map(|spec| claim(&owner, spec, at)));
            }
            ("kubevirt.io", "VirtualMachine") => {
                let written = object.annotation(TEMPLATES).and_then(|(text, line)| {
                    let templates = json::parse(text, line, &ReadLimits::default(), 0);
                    Some((templates.ok()?, line))
                });
                for (templates, line) in written.iter() {
                    let specs = templates.items().iter();
                    let specs = specs.filter_map(|template| template.get("spec"));
                    let claims = specs.filter_map(|spec| claim(&owner, spec, |_| at(*line)));
                    self.of_annotations.extend(claims);
                }
                let volumes = list(&["spec", "dataVolumeTemplates"]).iter();
                self.claims
                    .extend(volumes.filter_map(|volume| of_data_volume(&owner, volume, at)));
            }
            ("cdi.kubevirt.io", "DataVolume") => {
                self.claims.extend(of_data_volume(&owner, &object.node, at));
            }
            _ => {}
        }
    }

    fn add_class(&mut self, object: &Object) {
        const DEFAULT: [&str; 2] = [
            "storageclass.kubernetes.io/is-default-class",
            "storageclass.beta.kubernetes.io/is-default-class",
        ];
        let is_default = |key| {
            let value = object.annotation(key);
            value.is_some_and(|(value, _)| value == "true")
        };
        self.has_default_class |= DEFAULT.into_iter().any(is_default);
        let name = object.id.name.to_string();
        let migratable = object.node.str_at(&["parameters", "migratable"]);
        let is_longhorn = object.node.str_at(&["provisioner"]) == Some("driver.longhorn.io");
        if is_longhorn && migratable != Some("true") {
            self.fixed.insert(name.clone());
        }
        self.classes.insert(name);
    }

    /// Adds the known classes of charts in these files.
    pub(super) fn add_brought(&mut self, brings: &Brings) {
        for object in &brings.objects {
            if object.group == "storage.k8s.io" && object.kind == "StorageClass" {
                self.classes.insert(object.name.to_string());
            }
        }
        self.has_default_class |= brings.classes.iter().any(|class| class.is_default);
    }

    fn of(&self, platform: Option<Platform>) -> impl Iterator<Item = &Claim> {
        let of_harvester = match platform {
            Some(Platform::Harvester) => &self.of_annotations[..],
            _ => &[],
        };
        self.claims.iter().chain(of_harvester)
    }

    /// The claims whose volume no pod can use, and those that name the class of an image before anybody knows its name.
    pub(super) fn unusable(
        &self,
        platform: Option<Platform>,
        release: Option<MinorRelease>,
    ) -> Vec<Finding> {
        let by_uid = platform == Some(Platform::Harvester)
            && release.is_some_and(|release| release >= CLASS_BY_UID);
        let judged = self.of(platform).filter_map(|claim| {
            let class = claim.class.as_deref()?;
            let words = [("object", &*claim.object), ("what", class)];
            let mut at = vec![claim.at.clone()];
            if claim.is_shared_block && self.fixed.contains(class) {
                let code = Code::VolumeNotMigratable;
                return Some(finding(code, code.say(&words), at));
            }
            let image = self.images.get(class.strip_prefix("longhorn-")?)?;
            if !by_uid || self.classes.contains(class) || OF_HARVESTER.contains(&class) {
                return None;
            }
            at.push(image.clone());
            let code = Code::ImageClassUnknown;
            Some(finding(code, code.say(&words), at))
        });
        judged.collect()
    }

    /// The claims that stay Pending because nothing creates their class, if the platform's own classes are known.
    pub(super) fn without_class(&self, platform: Option<Platform>) -> Vec<Classless<'_>> {
        let Some(platform) = platform else {
            return Vec::new();
        };
        let is_harvester = platform == Platform::Harvester;
        let is_there = |class: &str| {
            // A claim with an empty class is bound to a volume by hand.
            class.is_empty()
                || self.classes.contains(class)
                || is_harvester && OF_HARVESTER.contains(&class)
                || is_harvester && OF_IMAGES.iter().any(|start| class.starts_with(start))
        };
        let claims = self.of(Some(platform));
        let missing = claims.filter_map(|claim| {
            let (what, why) = match &claim.class {
                None if self.has_default_class || is_harvester => return None,
                None => (
                    "a default StorageClass".to_owned(),
                    "names no StorageClass, and RKE2 itself has no default".to_owned(),
                ),
                Some(class) if is_there(class) => return None,
                Some(class) => (
                    format!("StorageClass {class}"),
                    format!("names StorageClass {class}, which nothing here creates"),
                ),
            };
            let (object, at) = (&*claim.object, &claim.at);
            Some(Classless {
                object,
                what,
                why,
                at,
            })
        });
        missing.collect()
    }
}

fn claim(object: &str, spec: &Node, at: impl Fn(u32) -> Location) -> Option<Claim> {
    // Bound to one volume by hand.
    if spec.str_at(&["volumeName"]).is_some() {
        return None;
    }
    let class = spec
        .get("storageClassName")
        .filter(|class| !class.is_null());
    let is_shared = |mode: &Node| mode.as_str() == Some("ReadWriteMany");
    let is_block = spec.str_at(&["volumeMode"]) == Some("Block");
    Some(Claim {
        object: object.to_owned(),
        class: class.and_then(Node::as_str).map(str::to_owned),
        is_shared_block: is_block && spec.list("accessModes").iter().any(is_shared),
        at: at(class.map_or(spec.line, |class| class.line)),
    })
}

/// The claim that CDI creates for a DataVolume. Without a class, its own default may count.
fn of_data_volume(object: &str, volume: &Node, at: impl Fn(u32) -> Location) -> Option<Claim> {
    let spec = volume.get("spec")?;
    let spec = spec.get("storage").or_else(|| spec.get("pvc"))?;
    claim(object, spec, at).filter(|claim| claim.class.is_some())
}
