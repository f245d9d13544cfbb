//! Volumes, disks and the volumes that a VM makes for itself.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use windrow_model::grammars::is_dns_label;
use windrow_model::manifest::Node;

use super::networks::is_pci;
use super::{Judged, devices, has, text};

const VOLUME: &str = "spec.template.spec.volumes[]";
const DISK: &str = "spec.template.spec.domain.devices.disks[]";
/// Bytes of user data.
const MOST: usize = 2048;
const SOURCES: [&str; 15] = [
    "persistentVolumeClaim",
    "dataVolume",
    "cloudInitNoCloud",
    "cloudInitConfigDrive",
    "containerDisk",
    "ephemeral",
    "emptyDisk",
    "hostDisk",
    "configMap",
    "secret",
    "sysprep",
    "downwardAPI",
    "serviceAccount",
    "downwardMetrics",
    "memoryDump",
];

impl Judged {
    pub(super) fn volumes(&mut self, spec: &Node) {
        for volume in spec.list("volumes") {
            let set: Vec<&str> = SOURCES.into_iter().filter(|one| has(volume, one)).collect();
            // KubeVirt 1.8 has `containerPath` too.
            if set.len() > 1 || (set.is_empty() && !has(volume, "containerPath")) {
                self.add(volume, VOLUME, "it needs exactly one source");
            }
            for name in ["cloudInitNoCloud", "cloudInitConfigDrive"] {
                if let Some(source) = volume.get(name).filter(|node| !node.is_null()) {
                    self.cloud_init(source, &format!("{VOLUME}.{name}"));
                }
            }
            for (source, name) in [
                ("configMap", "name"),
                ("dataVolume", "name"),
                ("persistentVolumeClaim", "claimName"),
                ("secret", "secretName"),
                ("serviceAccount", "serviceAccountName"),
            ] {
                if let Some(node) = volume.get(source).filter(|node| !node.is_null())
                    && text(node, name).is_none()
                {
                    let field = format!("{VOLUME}.{source}.{name}");
                    self.add(node, &field, "it is missing");
                }
            }
            if let Some(host) = volume.get("hostDisk").filter(|_| self.on_harvester) {
                let why = "Harvester does not enable the feature gate HostDisk";
                self.add(host, &format!("{VOLUME}.hostDisk"), why);
            }
        }
    }

    fn cloud_init(&mut self, source: &Node, field: &str) {
        let secret = |key: &str| {
            let secret = source.get(key)?;
            text(secret, "name").map(|_| secret)
        };
        let user = [
            secret("secretRef"),
            text(source, "userDataBase64").map(|found| found.0),
            text(source, "userData").map(|found| found.0),
        ];
        let network = [
            secret("networkDataSecretRef"),
            text(source, "networkDataBase64").map(|found| found.0),
            text(source, "networkData").map(|found| found.0),
        ];
        for (sources, what) in [(&user, "user data"), (&network, "network data")] {
            if sources.iter().flatten().count() > 1 {
                let why = format!("it has more than one source of {what}");
                self.add(source, field, &why);
            }
        }
        if user.iter().chain(&network).all(Option::is_none) {
            self.add(source, field, "it has neither user data nor network data");
        }
        for key in ["userData", "networkData"] {
            let plain = text(source, key);
            let coded_key = format!("{key}Base64");
            let coded = text(source, &coded_key).filter(|_| plain.is_none());
            let too_long = format!("more than {MOST} bytes; put it into a Secret");
            if let Some((node, words)) = plain
                && words.len() > MOST
            {
                self.add(node, &format!("{field}.{key}"), &too_long);
            }
            if let Some((node, words)) = coded {
                // Go skips the ends of lines.
                let words: String = words.chars().filter(|one| !"\r\n".contains(*one)).collect();
                let field = format!("{field}.{coded_key}");
                match STANDARD.decode(words) {
                    Ok(bytes) if bytes.len() > MOST => self.add(node, &field, &too_long),
                    Ok(_) => {}
                    Err(_) => self.add(node, &field, "it is not base64"),
                }
            }
        }
    }

    pub(super) fn disks(&mut self, spec: &Node) {
        let at = |field: &str| format!("{DISK}.{field}");
        for disk in devices(spec, "disks") {
            match text(disk, "name") {
                None => self.add(disk, &at("name"), "it is missing"),
                Some((name, word)) if !is_dns_label(word) => {
                    let why =
                        "it has only lower-case letters, digits and `-`, and at most 63 characters";
                    self.add(name, &at("name"), why);
                }
                Some(_) => {}
            }
            let targets = ["cdrom", "disk", "lun"];
            if targets.iter().filter(|one| has(disk, one)).count() > 1 {
                self.add(disk, DISK, "it is more than one of disk, lun and cdrom");
            }
            let is_of_disk = |volume: &&Node| {
                text(disk, "name").is_some_and(|name| volume.str_at(&["name"]) == Some(name.1))
            };
            let volume = spec.list("volumes").iter().find(is_of_disk);
            if let Some(cdrom) = disk.get("cdrom")
                && volume.is_none()
                && self.is_before((1, 8))
            {
                let why = "before Harvester v1.8 it needs a volume of its name";
                self.add(cdrom, &at("cdrom"), why);
            }
            let is_claim = |volume: &Node| {
                ["persistentVolumeClaim", "dataVolume"]
                    .iter()
                    .any(|one| has(volume, one))
            };
            if let Some(lun) = disk.get("lun").filter(|node| !node.is_null())
                && volume.is_some_and(|volume| !is_claim(volume))
            {
                let why = "a LUN needs a volume of a claim";
                self.add(lun, &at("lun"), why);
            }
            let bus = disk.str_at(&["disk", "bus"]);
            if let Some(node) = disk.at(&["disk", "readonly"])
                && bus == Some("sata")
                && node.as_bool() == Some(true)
            {
                let why = "a SATA disk cannot be read-only";
                self.add(node, &at("disk.readonly"), why);
            }
            if let Some(node) = disk.at(&["disk", "pciAddress"])
                && let Some(address) = node.as_str().filter(|text| !text.is_empty())
                && (!is_pci(address) || (bus != Some("virtio") && !self.has_preference))
            {
                let why = "write it as 0000:81:01.0, on the bus virtio";
                self.add(node, &at("disk.pciAddress"), why);
            }
            for (field, words) in [
                ("cache", &["none", "writeback", "writethrough"][..]),
                ("io", &["native", "threads"]),
                ("errorPolicy", &["enospace", "ignore", "report", "stop"]),
            ] {
                if let Some((node, _)) = text(disk, field) {
                    self.one_of(node, &at(field), words);
                }
            }
            if let Some((node, serial)) = text(disk, "serial") {
                let is_right =
                    |letter: char| letter.is_ascii_alphanumeric() || "_.+-".contains(letter);
                if serial.len() > 256 || !serial.chars().all(is_right) {
                    let why = "it has only letters, digits and `_.+-`, and at most 256";
                    self.add(node, &at("serial"), why);
                }
            }
        }
    }

    pub(super) fn data_volume_templates(&mut self, spec: &Node, machine: &Node) {
        const FIELD: &str = "spec.dataVolumeTemplates[]";
        for template in spec.list("dataVolumeTemplates") {
            let name = template.str_at(&["metadata", "name"]);
            let is_named = |volume: &Node| {
                let names = [
                    ["dataVolume", "name"],
                    ["persistentVolumeClaim", "claimName"],
                ];
                names.iter().any(|path| volume.str_at(path) == name)
            };
            let why = match name {
                None => Some("its `metadata.name` is missing"),
                Some(_) if !machine.list("volumes").iter().any(is_named) => {
                    Some("no volume of the VM names it")
                }
                Some(_) => None,
            };
            if let Some(why) = why {
                self.add(template, FIELD, why);
            }
            // From Harvester v1.5 on.
            let Some(volume) = template.get("spec").filter(|_| !self.is_before((1, 5))) else {
                continue;
            };
            let forms =
                ["pvc", "storage"].map(|one| volume.get(one).filter(|node| !node.is_null()));
            let form = match forms {
                [Some(form), None] | [None, Some(form)] => form,
                _ => {
                    let field = format!("{FIELD}.spec");
                    self.add(
                        volume,
                        &field,
                        "it needs exactly one of `pvc` and `storage`",
                    );
                    continue;
                }
            };
            let from_claim = has(form, "dataSource") || has(form, "dataSourceRef");
            let sources = ["source", "sourceRef"]
                .iter()
                .filter(|one| has(volume, one))
                .count();
            let field = format!("{FIELD}.spec.source");
            match (from_claim, sources) {
                (true, 1..) => self.add(volume, &field, "`dataSource` is a source already"),
                (false, 0 | 2..) => {
                    self.add(
                        volume,
                        &field,
                        "it needs exactly one of `source` and `sourceRef`",
                    );
                }
                _ => {}
            }
            if let Some(source) = volume.get("source").filter(|node| !node.is_null()) {
                let set = source
                    .entries()
                    .iter()
                    .filter(|one| !one.value.is_null())
                    .count();
                if set != 1 {
                    self.add(source, &field, "it needs exactly one kind of source");
                }
            }
        }
    }
}
