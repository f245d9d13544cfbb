//! Names of container images.

/// Completes a name as containerd does: with the registry, `library` and the tag (distribution's
/// `reference.ParseDockerRef`). A tag next to a digest has no effect.
pub fn full_name(image: &str) -> String {
    let is_registry = |part: &str| {
        part == "localhost" || part.contains(|ch: char| ".:".contains(ch) || ch.is_uppercase())
    };
    let (registry, rest) = match image.split_once('/') {
        Some(("index.docker.io", rest)) => ("docker.io", rest),
        Some((registry, rest)) if is_registry(registry) => (registry, rest),
        _ => ("docker.io", image),
    };
    let (name, digest) = match rest.split_once('@') {
        Some((name, digest)) => (name, Some(digest)),
        None => (rest, None),
    };
    let (path, tag) = name.rsplit_once(':').unwrap_or((name, "latest"));
    let library = match registry == "docker.io" && !path.contains('/') {
        true => "library/",
        false => "",
    };
    match digest {
        Some(digest) => format!("{registry}/{library}{path}@{digest}"),
        None => format!("{registry}/{library}{path}:{tag}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_name_leaves_out_is_added_as_containerd_adds_it() {
        for (image, expected) in [
            ("nginx", "docker.io/library/nginx:latest"),
            ("nginx:1", "docker.io/library/nginx:1"),
            ("docker.io/nginx", "docker.io/library/nginx:latest"),
            ("index.docker.io/nginx:1", "docker.io/library/nginx:1"),
            ("a/b/c", "docker.io/a/b/c:latest"),
            ("localhost/a", "localhost/a:latest"),
            ("registry:5000/a/b", "registry:5000/a/b:latest"),
            ("Registry/a:1", "Registry/a:1"),
            ("a@sha256:01", "docker.io/library/a@sha256:01"),
            ("registry:5000/a:1@sha256:01", "registry:5000/a@sha256:01"),
        ] {
            assert_eq!(full_name(image), expected);
        }
    }
}
