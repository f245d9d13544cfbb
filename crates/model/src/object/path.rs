//! The versions and the paths of kinds in kube-apiserver.

/// The `apiVersion` of an object: `v1`, `apps/v1`.
pub fn api_version(group: &str, version: &str) -> String {
    match group {
        "" => version.to_owned(),
        group => format!("{group}/{version}"),
    }
}

/// The path below which kube-apiserver serves the kinds of this version.
pub fn api_root(api_version: &str) -> String {
    match api_version.contains('/') {
        true => format!("/apis/{api_version}"),
        false => format!("/api/{api_version}"),
    }
}

/// The plural of a kind in paths, formed like those of Kubernetes.
pub fn plural_of(kind: &str) -> String {
    let kind = kind.to_ascii_lowercase();
    match kind.as_bytes() {
        [.., b's' | b'x'] if kind != "endpoints" => format!("{kind}es"),
        [.., b'a' | b'e' | b'o', b'y'] | [] => format!("{kind}s"),
        [start @ .., b'y'] => format!("{}ies", String::from_utf8_lossy(start)),
        _ if kind == "endpoints" => kind,
        _ => format!("{kind}s"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_core_group_has_paths_of_its_own() {
        assert_eq!(api_root(&api_version("", "v1")), "/api/v1");
        assert_eq!(api_root(&api_version("apps", "v1")), "/apis/apps/v1");
    }

    #[test]
    fn a_plural_is_formed_as_kubernetes_forms_it() {
        for (kind, plural) in [
            ("Pod", "pods"),
            ("Ingress", "ingresses"),
            ("NetworkPolicy", "networkpolicies"),
            ("Gateway", "gateways"),
            ("Endpoints", "endpoints"),
        ] {
            assert_eq!(plural_of(kind), plural);
        }
    }
}
