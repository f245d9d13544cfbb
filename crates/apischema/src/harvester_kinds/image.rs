//! VirtualMachineImages.

use windrow_model::grammars::label_value_error;
use windrow_model::manifest::{Node, Object};

use super::{Judged, field, line_of, text};

const CLASS: &str = "harvesterhci.io/storageClassName";

impl Judged {
    pub(super) fn image(&mut self, object: &Object, spec: &Node) {
        let name = text(spec, "displayName");
        let why = match label_value_error(name) {
            _ if spec.get("displayName").is_none() => None,
            _ if name.is_empty() => Some("an image needs a name for users"),
            // Its mutator writes a label with it, before kube-apiserver validates the image.
            Some(why) if self.is_since_patch((1, 8), 2) => Some(why),
            _ => None,
        };
        if let Some(why) = why {
            self.add(line_of(spec, "displayName"), "spec.displayName", why);
        }
        let source = text(spec, "sourceType");
        let has_address = !text(spec, "url").is_empty();
        match source {
            "download" | "restore" if !has_address => {
                let why = format!("an image with `sourceType: {source}` needs an address");
                self.add(line_of(spec, "url"), "spec.url", &why);
            }
            "upload" | "export-from-volume" | "clone" if has_address => {
                let why = format!("an image with `sourceType: {source}` has no address");
                self.add(line_of(spec, "url"), "spec.url", &why);
            }
            _ => {}
        }
        if source == "export-from-volume" {
            for name in ["pvcName", "pvcNamespace"] {
                if text(spec, name).is_empty() {
                    let why = "an image of a volume needs the name and namespace of its claim";
                    self.add(line_of(spec, name), &format!("spec.{name}"), why);
                }
            }
        }
        let annotated = object
            .annotation(CLASS)
            .filter(|(class, _)| !class.is_empty());
        let target = text(spec, "targetStorageClassName");
        if let Some((class, line)) = annotated
            && self.is_since((1, 5))
            && !target.is_empty()
            && class != target
        {
            let why = "it differs from `spec.targetStorageClassName`";
            self.add(line, &format!("metadata.annotations[{CLASS}]"), why);
        }
        // CDI does not encrypt.
        if source == "clone" && text(spec, "backend") != "cdi" {
            self.image_encryption(spec, object.annotation(CLASS).is_some());
        }
    }

    fn image_encryption(&mut self, spec: &Node, has_class: bool) {
        const FIELD: &str = "spec.securityParameters";
        let Some(parameters) = field(spec, "securityParameters") else {
            let why = "an image with `sourceType: clone` needs them";
            return self.add_at(spec, FIELD, why);
        };
        for name in ["cryptoOperation", "sourceImageName", "sourceImageNamespace"] {
            if text(parameters, name).is_empty() {
                let why = "an image with `sourceType: clone` needs it";
                self.add(line_of(parameters, name), &format!("{FIELD}.{name}"), why);
            }
        }
        if text(parameters, "cryptoOperation") == "encrypt" && !has_class {
            let why = format!(
                "an encrypted image needs the annotation {CLASS} with a class that encrypts"
            );
            self.add_at(parameters, FIELD, &why);
        }
    }
}
