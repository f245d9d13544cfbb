//! RKE2's own files among the inputs, as they lie in `/etc/rancher/rke2`.

use std::path::Path;

use windrow_inputs::extract::Extracted;
use windrow_plan::rke2::is_rke2_config;

use super::gathered::Inputs;

const DIRECTORY: &str = "/etc/rancher/rke2";

/// The path on the node of a file that is one of RKE2's own by its place or its keys; `None` for any other. A file
/// below `manifests` is meant as a manifest, whatever it contains.
fn path_on_node(shown: &str, text: &str) -> Option<String> {
    let path = Path::new(shown);
    if let Some(at) = shown.find(&DIRECTORY[1..]) {
        let path = format!("/{}", &shown[at..]);
        if path.starts_with(&format!("{DIRECTORY}/")) {
            return Some(path);
        }
    }
    if path
        .file_name()
        .is_some_and(|name| name == "registries.yaml")
        && is_registries(text)
    {
        return Some(format!("{DIRECTORY}/registries.yaml"));
    }
    let above = path.parent().and_then(Path::file_name);
    if above.is_some_and(|above| above == "manifests") || !is_rke2_config(text) {
        return None;
    }
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    Some(match above {
        Some(above) if above == "config.yaml.d" => format!("{DIRECTORY}/config.yaml.d/{name}"),
        _ => format!("{DIRECTORY}/config.yaml"),
    })
}

/// Whether it has the keys of registries.yaml.
fn is_registries(text: &str) -> bool {
    let has = |key: &str| text.lines().any(|line| line.starts_with(key));
    let is_object = has("apiVersion:") || has("kind:");
    !is_object && ["auths:", "configs:", "mirrors:"].into_iter().any(has)
}

/// Takes a file that is a configuration of RKE2; false for any other.
pub(super) fn take_rke2_config(inputs: &mut Inputs, shown: &str, text: &str) -> bool {
    let Some(path) = path_on_node(shown, text) else {
        return false;
    };
    let mut known = inputs.configuration.iter();
    if let Some(other) = known.find(|file| file.path == path && file.carrier == file.source) {
        inputs.errors.push(format!(
            "{} and {shown} would both be {path} on the node; pass one of them, or each as a node of its own: --node \
             NAME=PATH",
            other.source
        ));
    } else {
        let content = text.as_bytes().to_vec();
        let file = Extracted::given(path, shown, content);
        inputs.configuration.push(file);
    }
    true
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rke2s_configuration_is_known_by_its_place_and_by_its_keys_but_not_among_manifests() {
        let main = Some("/etc/rancher/rke2/config.yaml");
        for (shown, text, path) in [
            ("config.yaml", "cni: cilium\ntls-san+: [a]\n", main),
            ("twice.yaml", "token: a\ntls-san: [a]\ntls-san: [b]\n", main),
            ("node1.yml", "write-kubeconfig-mode: '0600'\n", main),
            ("standard input", "disable: [rke2-canal]\n", main),
            ("img/etc/rancher/rke2/config.yaml", "cni: [\n", main),
            (
                "img/etc/rancher/rke2/config.yaml.d/10-cni.yaml",
                "",
                Some("/etc/rancher/rke2/config.yaml.d/10-cni.yaml"),
            ),
            (
                "config.yaml.d/10-cni.yaml",
                "cni: none\n",
                Some("/etc/rancher/rke2/config.yaml.d/10-cni.yaml"),
            ),
            (
                "img/etc/rancher/rke2/registries.yaml",
                "",
                Some("/etc/rancher/rke2/registries.yaml"),
            ),
            (
                "registries.yaml",
                "mirrors: {}\n",
                Some("/etc/rancher/rke2/registries.yaml"),
            ),
            ("registries.yaml", "a: b\n", None),
            ("manifests/config.yaml", "cni: cilium\n", None),
            ("values.yaml", "cni: {exclusive: false}\n", None),
            ("values.yaml", "debug: true\n", None),
            ("values.yaml", "image: x\nreplicas: 2\ndebug: true\n", None),
            ("a.yaml", "apiVersion: v1\nkind: Node\ntoken: x\n", None),
            ("a.yaml", "", None),
        ] {
            let found = path_on_node(shown, text);
            assert_eq!(found.as_deref(), path, "{shown}: {text}");
        }
    }
}
