//! DataVolumes of CDI.

use windrow_model::manifest::Node;
use windrow_model::quantity::milli;

use super::{Judged, field, line_of, text};

const MODES: [&str; 4] = [
    "ReadOnlyMany",
    "ReadWriteMany",
    "ReadWriteOnce",
    "ReadWriteOncePod",
];
/// KubeVirt has no smaller disk.
const LEAST_BYTES: i128 = 1024 * 1024;

impl Judged {
    /// `validateDataVolumeSpec`, which ends at the first fault.
    pub(super) fn data_volume(&mut self, spec: &Node) {
        let forms = ["pvc", "storage"].map(|name| Some((name, field(spec, name)?)));
        let (name, form) = match forms {
            [Some(form), None] | [None, Some(form)] => form,
            _ => return self.add_at(spec, "spec", "it needs exactly one of `pvc` and `storage`"),
        };
        let at = format!("spec.{name}");
        if self.has_no_size(spec, form, name) || self.has_other_modes(form, name) {
            return;
        }
        let sources = ["source", "sourceRef"].map(|name| field(spec, name));
        let from = ["dataSource", "dataSourceRef"].map(|name| Some((name, field(form, name)?)));
        if from.iter().any(Option::is_some) {
            if let Some(source) = sources.into_iter().flatten().next() {
                let why = "`dataSource` is a source already";
                self.add_at(source, "spec.source", why);
            }
            for (name, source) in from.into_iter().flatten() {
                self.data_source(source, &format!("{at}.{name}"));
            }
            return;
        }
        match sources {
            [Some(source), None] => self.source(spec, source),
            [None, Some(source)] => {
                if text(source, "kind") != "DataSource" {
                    let line = line_of(source, "kind");
                    self.add(line, "spec.sourceRef.kind", "only DataSource is possible");
                } else if text(source, "name").is_empty() {
                    self.add(
                        line_of(source, "name"),
                        "spec.sourceRef.name",
                        "it is missing",
                    );
                }
            }
            _ => {
                let why = "it needs exactly one of `source` and `sourceRef`";
                self.add_at(spec, "spec.source", why);
            }
        }
    }

    fn has_no_size(&mut self, spec: &Node, form: &Node, name: &str) -> bool {
        let at = format!("spec.{name}.resources.requests.storage");
        let of_source = |name: &str| {
            spec.get("source")
                .is_some_and(|source| field(source, name).is_some())
        };
        let is_clone =
            field(spec, "sourceRef").is_some() || of_source("pvc") || of_source("snapshot");
        let Some(size) = form.at(&["resources", "requests", "storage"]) else {
            let is_missing = name == "pvc" || !is_clone;
            if is_missing {
                self.add_at(form, &at, "it is missing");
            }
            return is_missing;
        };
        let amount = match size.as_str() {
            Some(text) => milli(text),
            None => milli(&size.to_json().to_string()),
        };
        let is_small = amount.is_some_and(|amount| amount < LEAST_BYTES * 1000);
        if is_small {
            self.add_at(size, &at, "a disk has at least 1Mi");
        }
        is_small
    }

    fn has_other_modes(&mut self, form: &Node, name: &str) -> bool {
        let at = format!("spec.{name}.accessModes");
        let modes = form.list("accessModes");
        let before = self.problems.len();
        if name == "pvc" && modes.len() != 1 {
            self.add(
                line_of(form, "accessModes"),
                &at,
                "it needs exactly one mode",
            );
        }
        for mode in modes {
            if !mode.as_str().is_some_and(|mode| MODES.contains(&mode)) {
                self.add_at(mode, &at, &format!("write one of {}", MODES.join(", ")));
            }
        }
        self.problems.len() > before
    }

    fn data_source(&mut self, source: &Node, at: &str) {
        for name in ["name", "kind"] {
            if text(source, name).is_empty() {
                self.add(
                    line_of(source, name),
                    &format!("{at}.{name}"),
                    "it is missing",
                );
            }
        }
        if text(source, "apiGroup").is_empty() && text(source, "kind") != "PersistentVolumeClaim" {
            let why = "only a PersistentVolumeClaim has none";
            self.add(line_of(source, "apiGroup"), &format!("{at}.apiGroup"), why);
        }
        if at.ends_with("Ref") && !text(source, "namespace").is_empty() {
            let why = "CDI takes none";
            self.add(
                line_of(source, "namespace"),
                &format!("{at}.namespace"),
                why,
            );
        }
    }

    fn source(&mut self, spec: &Node, source: &Node) {
        const FIELD: &str = "spec.source";
        let set: Vec<_> = source
            .entries()
            .iter()
            .filter(|entry| !entry.value.is_null())
            .collect();
        let [entry] = set[..] else {
            return self.add_at(source, FIELD, "it needs exactly one kind of source");
        };
        let content = text(spec, "contentType");
        let has_other_content = match &*entry.key {
            "blank" => content == "archive",
            "registry" => !["", "kubevirt"].contains(&content),
            _ => !["", "kubevirt", "archive"].contains(&content),
        };
        if has_other_content {
            let why = "write kubevirt, or archive for a source other than blank and registry";
            return self.add(line_of(spec, "contentType"), "spec.contentType", why);
        }
        let (kind, from) = (&*entry.key, &entry.value);
        let at = format!("{FIELD}.{kind}");
        let required: &[&str] = match kind {
            "pvc" | "snapshot" => &["namespace", "name"],
            "imageio" => &["secretRef", "diskId"],
            "vddk" => &["secretRef", "uuid", "backingFile", "thumbprint"],
            _ => &[],
        };
        for name in required {
            if text(from, name).is_empty() {
                return self.add(
                    line_of(from, name),
                    &format!("{at}.{name}"),
                    "it is missing",
                );
            }
        }
        match kind {
            "gcs" | "http" | "imageio" | "s3" | "vddk" => {
                let address = text(from, "url");
                let scheme = address
                    .split_once(':')
                    .map(|(scheme, _)| scheme.to_lowercase());
                if !scheme.is_some_and(|scheme| ["http", "https", "gs"].contains(&&*scheme)) {
                    let why = "write an address that begins with http://, https:// or gs://";
                    self.add(line_of(from, "url"), &format!("{at}.url"), why);
                }
            }
            "registry" => self.registry(from, &at),
            _ => {}
        }
    }

    fn registry(&mut self, registry: &Node, at: &str) {
        let address = field(registry, "url");
        let stream = field(registry, "imageStream");
        let pull = text(registry, "pullMethod");
        let (node, why) = match (address, stream) {
            (Some(_), Some(_)) | (None, None) => {
                (registry, "it needs exactly one of `url` and `imageStream`")
            }
            (Some(address), _)
                if !["docker", "oci-archive"]
                    .map(Some)
                    .contains(&scheme(address)) =>
            {
                (
                    address,
                    "write an address that begins with docker:// or oci-archive://",
                )
            }
            _ if !["", "pod", "node"].contains(&pull) => {
                (registry, "`pullMethod` is one of pod, node")
            }
            (_, Some(stream)) if stream.as_str() == Some("") || pull != "node" => (
                stream,
                "an `imageStream` needs a name, and `pullMethod: node`",
            ),
            _ => return,
        };
        self.add_at(node, at, why);
    }
}

fn scheme(address: &Node) -> Option<&str> {
    Some(address.as_str()?.split_once(':')?.0)
}
