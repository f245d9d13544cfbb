//! StorageClasses on Harvester: the place of data, encryption, and the annotations with which CDI makes volumes.

use std::collections::BTreeMap;

use serde_json::Value;
use windrow_model::manifest::{Node, Object};

use super::{Judged, line_of, text};
use crate::release::MinorRelease;

const PARAMETERS: &str = "parameters";
const OVERHEAD: &str = "cdi.harvesterhci.io/filesystemOverhead";
const CLONE: &str = "cdi.harvesterhci.io/storageProfileCloneStrategy";
const SNAPSHOT_CLASS: &str = "cdi.harvesterhci.io/storageProfileVolumeSnapshotClass";
const MODES: &str = "cdi.harvesterhci.io/storageProfileVolumeModeAccessModes";

/// Provisioners of which CDI knows the access modes, and the first release of Harvester with them (`pkg/storagecapabilities` of CDI
/// v1.61.0, v1.62.0 and v1.64.0; of Harvester's own two, its mutator). Older releases than v1.6 do not ask.
const PROVISIONERS: [(&str, MinorRelease); 52] = [
    ("block.csi.ibm.com", (1, 6)),
    ("blockvolume.csi.oraclecloud.com", (1, 7)),
    ("cephfs.csi.ceph.com", (1, 6)),
    ("cinder.csi.openstack.org", (1, 6)),
    ("csi-isilon.dellemc.com", (1, 6)),
    ("csi-powermax.dellemc.com", (1, 6)),
    ("csi-powerstore.dellemc.com", (1, 6)),
    ("csi-unity.dellemc.com", (1, 6)),
    ("csi-vxflexos.dellemc.com", (1, 6)),
    ("csi.hpe.com", (1, 6)),
    ("csi.huawei.com", (1, 6)),
    ("csi.ovirt.org", (1, 6)),
    ("csi.san.synology.com", (1, 8)),
    ("csi.trident.netapp.io", (1, 6)),
    ("csi.vsphere.vmware.com", (1, 6)),
    ("disk.csi.azure.com", (1, 6)),
    ("driver.longhorn.io", (1, 6)),
    ("ebs.csi.aws.com", (1, 6)),
    ("efs.csi.aws.com", (1, 6)),
    ("file.csi.azure.com", (1, 6)),
    ("hspc.csi.hitachi.com", (1, 6)),
    ("infinibox-csi-driver", (1, 6)),
    ("k8s-sigs.io/nfs-subdir-external-provisioner", (1, 6)),
    ("k8s.io/minikube-hostpath", (1, 6)),
    ("kubernetes.io/aws-ebs", (1, 6)),
    ("kubernetes.io/azure-disk", (1, 6)),
    ("kubernetes.io/azure-file", (1, 6)),
    ("kubernetes.io/gce-pd", (1, 6)),
    // CDI looks at its volumes from v1.7 on.
    ("kubernetes.io/no-provisioner", (1, 6)),
    ("kubernetes.io/portworx-volume", (1, 6)),
    ("kubernetes.io/rbd", (1, 6)),
    ("kubernetes.io/storageos", (1, 6)),
    ("kubesan.gitlab.io", (1, 6)),
    ("kubevirt.io.hostpath-provisioner", (1, 6)),
    ("kubevirt.io/hostpath-provisioner", (1, 6)),
    ("linstor.csi.linbit.com", (1, 6)),
    ("lvm.driver.harvesterhci.io", (1, 6)),
    ("manila.csi.openstack.org", (1, 6)),
    ("nfs.csi.k8s.io", (1, 6)),
    ("openshift-storage.cephfs.csi.ceph.com", (1, 6)),
    ("openshift-storage.rbd.csi.ceph.com", (1, 6)),
    ("pd.csi.storage.gke.io", (1, 6)),
    ("pxd.openstorage.org", (1, 6)),
    ("pxd.portworx.com", (1, 6)),
    ("rbd.csi.ceph.com", (1, 6)),
    ("rook-ceph.cephfs.csi.ceph.com", (1, 8)),
    ("rook-ceph.rbd.csi.ceph.com", (1, 6)),
    ("spectrumscale.csi.ibm.com", (1, 6)),
    ("storageos", (1, 6)),
    ("topolvm.cybozu.com", (1, 6)),
    ("topolvm.io", (1, 6)),
    ("vpc.block.csi.ibm.io", (1, 8)),
];

impl Judged {
    pub(super) fn storage_class(&mut self, object: &Object) {
        if let Some(parameters) = object.node.get(PARAMETERS) {
            if let Some(place) = parameters.get("dataLocality")
                && place
                    .as_str()
                    .is_some_and(|word| !["disabled", "best-effort"].contains(&word))
            {
                let why = "Harvester takes only disabled and best-effort; a VM on strict-local data cannot migrate";
                self.add_at(place, "parameters.dataLocality", why);
            }
            if let Some(encrypted) = parameters.get("encrypted") {
                self.encryption(parameters, encrypted);
            }
        }
        if self.is_since((1, 6)) {
            self.annotations_of_cdi(object);
        }
    }

    fn encryption(&mut self, parameters: &Node, encrypted: &Node) {
        let Some(word) = encrypted.as_str() else {
            return;
        };
        match word {
            "1" | "t" | "T" | "true" | "TRUE" | "True" => {}
            "0" | "f" | "F" | "false" | "FALSE" | "False" => return,
            _ => {
                let why = "it is neither true nor false";
                return self.add_at(encrypted, "parameters.encrypted", why);
            }
        }
        let keys = SECRETS.as_flattened();
        let missing = keys.iter().filter(|key| parameters.get(key).is_none());
        let missing: Vec<String> = missing.map(|key| format!("`{key}`")).collect();
        if !missing.is_empty() {
            let why = format!("a class that encrypts needs {}", missing.join(", "));
            return self.add_at(encrypted, PARAMETERS, &why);
        }
        let named =
            SECRETS.map(|[name, namespace]| [text(parameters, name), text(parameters, namespace)]);
        if named.iter().any(|one| *one != named[0]) {
            let why = "all names and namespaces of its Secrets have to be the same";
            self.add_at(encrypted, PARAMETERS, why);
        } else if named[0].contains(&"") {
            let why = "the Secret of a class that encrypts needs a name and a namespace";
            self.add(line_of(parameters, SECRETS[0][0]), PARAMETERS, why);
        } else if named[0].iter().any(|name| name.contains("${")) {
            let why = "Harvester looks up the Secret when the class is made, and does not replace `${...}`";
            self.add(line_of(parameters, SECRETS[0][0]), PARAMETERS, why);
        }
    }

    fn annotations_of_cdi(&mut self, object: &Object) {
        let annotation = |key: &str| object.annotation(key);
        let known = [OVERHEAD, CLONE, SNAPSHOT_CLASS, MODES];
        let provisioner = text(&object.node, "provisioner");
        let line = line_of(&object.node, "provisioner");
        let at = |key: &str| format!("metadata.annotations[{key}]");
        let Some((_, first)) = known.into_iter().find_map(annotation) else {
            let is_known = PROVISIONERS
                .iter()
                .any(|(name, since)| *name == provisioner && self.is_since(*since));
            if !is_known && !provisioner.is_empty() {
                let why = format!(
                    "of this provisioner CDI does not know the access modes; add the annotation {MODES}, for example {{\"Filesystem\":[\"ReadWriteOnce\"]}}"
                );
                self.add(line, "provisioner", &why);
            }
            return;
        };
        if provisioner == "driver.longhorn.io"
            && object.node.str_at(&[PARAMETERS, "dataEngine"]) == Some("v1")
        {
            let why = "a class of Longhorn's engine v1 has no annotations of CDI";
            self.add(first, "metadata.annotations", why);
        }
        if let Some((overhead, line)) = annotation(OVERHEAD) {
            let is_share = match overhead.split_once('.') {
                None => ["0", "1"].contains(&overhead),
                Some(("0", digits)) => {
                    (1..=3).contains(&digits.len())
                        && digits.bytes().all(|one| one.is_ascii_digit())
                }
                Some(_) => false,
            };
            if !is_share {
                let why =
                    "write a number from 0 to 1 with at most three decimals, for example 0.055";
                self.add(line, &at(OVERHEAD), why);
            }
        }
        let strategy = annotation(CLONE);
        if let Some((strategy, line)) = strategy
            && !["copy", "csi-clone", "snapshot"].contains(&strategy)
        {
            self.add(line, &at(CLONE), "write one of copy, csi-clone, snapshot");
        }
        match (annotation(SNAPSHOT_CLASS), strategy) {
            (Some(("", line)), _) => self.add(line, &at(SNAPSHOT_CLASS), "it names no class"),
            (None, Some(("snapshot", line))) if self.gets_no_snapshot_class(object) => {
                let why = format!("the strategy snapshot needs the annotation {SNAPSHOT_CLASS}");
                self.add(line, &at(CLONE), &why);
            }
            _ => {}
        }
        if let Some((modes, line)) = annotation(MODES)
            && !are_modes(modes)
        {
            let why = "write it as JSON, for example {\"Block\":[\"ReadWriteMany\"]}";
            self.add(line, &at(MODES), why);
        }
    }

    /// Harvester's mutator adds one for its LVM driver and Longhorn's engine v2.
    fn gets_no_snapshot_class(&self, object: &Object) -> bool {
        let is_v2 = object.node.str_at(&[PARAMETERS, "dataEngine"]) == Some("v2");
        match text(&object.node, "provisioner") {
            "lvm.driver.harvesterhci.io" => false,
            "driver.longhorn.io" => !is_v2,
            _ => true,
        }
    }
}

/// The names and namespaces of the Secret of an encrypted class.
pub(crate) const SECRETS: [[&str; 2]; 3] = [
    [
        "csi.storage.k8s.io/provisioner-secret-name",
        "csi.storage.k8s.io/provisioner-secret-namespace",
    ],
    [
        "csi.storage.k8s.io/node-stage-secret-name",
        "csi.storage.k8s.io/node-stage-secret-namespace",
    ],
    [
        "csi.storage.k8s.io/node-publish-secret-name",
        "csi.storage.k8s.io/node-publish-secret-namespace",
    ],
];

/// Access modes by volume mode.
fn are_modes(json: &str) -> bool {
    let Ok(modes) = serde_json::from_str::<BTreeMap<String, Vec<Value>>>(json) else {
        return json.trim() == "null";
    };
    let known = [
        "ReadOnlyMany",
        "ReadWriteMany",
        "ReadWriteOnce",
        "ReadWriteOncePod",
    ];
    modes.iter().all(|(mode, modes)| {
        ["Block", "Filesystem"].contains(&&**mode)
            && modes
                .iter()
                .all(|mode| mode.as_str().is_some_and(|mode| known.contains(&mode)))
    })
}
