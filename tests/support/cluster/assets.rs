//! Where the binaries are: a user's `KUBEBUILDER_ASSETS` first, then what `tests/cluster/build` left in the cache, then
//! `PATH`.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::{env, fs};

use super::super::objects::{Gvk, resource};

/// The Kubernetes versions that a cluster can be made of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Minor {
    /// 1.31: the oldest that is judged. Only kube-apiserver.
    V1_31,
    /// 1.33: the last minor that lets KEP-4601 be switched off.
    V1_33,
    /// 1.36: the current one.
    V1_36,
}

impl Minor {
    /// The minor as it is written, `1.36`.
    pub(crate) fn text(self) -> &'static str {
        match self {
            Self::V1_31 => "1.31",
            Self::V1_33 => "1.33",
            Self::V1_36 => "1.36",
        }
    }
}

/// The versions of helm-controller that a cluster can have, each built as Harvester's RKE2 has it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum HelmVersion {
    /// 0.16.13: Harvester v1.5.2, v1.6.0 and v1.6.1.
    V0_16,
    /// 0.17.1: Harvester v1.7.2 and v1.8.1.
    V0_17,
    /// 0.17.7: Harvester v1.8.2. The 0.16.26 of v1.7.3 has the same controllers.
    V0_17_7,
}

/// The module with KubeVirt's programs.
const KUBEVIRT: &str = "kubevirt-1.7";

/// What `tests/cluster/build` made of one of its modules.
fn built(module: &str) -> PathBuf {
    let cache = env::var_os("WINDROW_CACHE")
        .map(PathBuf::from)
        .unwrap_or_else(|| {
            let caches = env::var_os("XDG_CACHE_HOME").map(PathBuf::from);
            caches
                .unwrap_or_else(|| {
                    PathBuf::from(env::var_os("HOME").unwrap_or_default()).join(".cache")
                })
                .join("windrow")
        });
    cache.join("assets").join(module).join("current")
}

/// The path of helm-controller, or one line that says how to get it.
pub(crate) fn find_helm_controller(version: HelmVersion) -> Result<PathBuf, String> {
    let module = match version {
        HelmVersion::V0_16 => "helm-0.16",
        HelmVersion::V0_17 => "helm-0.17",
        HelmVersion::V0_17_7 => "helm-0.17.7",
    };
    let program = built(module).join("helm-controller");
    executable(&program)
        .then_some(program)
        .ok_or_else(|| format!("no helm-controller in the cache: run tests/cluster/build {module}"))
}

/// The path of one of the programs with Harvester's own code, or one line that says how to get it.
pub(crate) fn find_harvester(name: &str) -> Result<PathBuf, String> {
    let program = built("harvester").join(name);
    executable(&program).then_some(program).ok_or_else(|| {
        format!("no {name} of Harvester in the cache: run tests/cluster/build harvester")
    })
}

/// The path of one of KubeVirt's programs, or one line that says how to get it.
pub(crate) fn find_kubevirt(name: &str) -> Result<PathBuf, String> {
    let program = built(KUBEVIRT).join(name);
    executable(&program)
        .then_some(program)
        .ok_or_else(|| format!("no {name} in the cache: run tests/cluster/build {KUBEVIRT}"))
}

/// The CustomResourceDefinitions of KubeVirt as YAML, by name. There are none if it is not built.
pub(crate) fn kubevirt_definitions() -> BTreeMap<String, String> {
    let files = fs::read_dir(built(KUBEVIRT)).into_iter().flatten();
    let paths = files.map(|file| file.expect("the cache can be read").path());
    let definitions = paths.filter(|path| path.extension().is_some_and(|end| end == "yaml"));
    let texts = definitions.map(|path| {
        let text = fs::read_to_string(&path).expect("the cache can be read");
        let name = path.file_stem().expect("it has a name").to_string_lossy();
        (name.into_owned(), text)
    });
    texts.collect()
}

/// The path of a program, or one line that says where it was looked for and how to get it.
pub(crate) fn find(minor: Minor, name: &str) -> Result<PathBuf, String> {
    let kubernetes = built(&format!("k8s-{}", minor.text()));
    let node = built("node");
    let mut places = Vec::new();
    // A user's own binaries are of one version, which counts as the current one.
    if minor == Minor::V1_36 {
        places.extend(env::var_os("KUBEBUILDER_ASSETS").map(PathBuf::from));
    }
    places.extend([kubernetes, node]);
    if minor == Minor::V1_36 || name == "etcd" {
        places.extend(env::split_paths(&env::var_os("PATH").unwrap_or_default()));
    }
    places
        .iter()
        .map(|dir| dir.join(name))
        .find(|path| executable(path))
        .ok_or_else(|| match name {
            "etcd" => {
                "no etcd in KUBEBUILDER_ASSETS or PATH: install Debian's etcd-server".to_owned()
            }
            _ => format!(
                "no {name} {} in KUBEBUILDER_ASSETS, the cache or PATH: run tests/cluster/build",
                minor.text()
            ),
        })
}

/// The published CustomResourceDefinition of a kind as YAML, where there is one. Where `WINDROW_REQUIRE_CLUSTER` is set it is a
/// failure that none were taken out of their modules.
pub(crate) fn published_kind(gvk: Gvk) -> Option<String> {
    let (group, version, kind) = gvk;
    let plural = resource(gvk).plural;
    let found = ["kinds", "kinds-typed", "kinds-rancher"].into_iter().find_map(|module| {
        let folder = built(module);
        assert!(
            folder.exists() || env::var_os("WINDROW_REQUIRE_CLUSTER").is_none(),
            "WINDROW_REQUIRE_CLUSTER is set, and there are no kinds in the cache: run tests/cluster/build {module}"
        );
        fs::read_to_string(folder.join(format!("{plural}.{group}.yaml"))).ok()
    });
    let text = found?;
    let in_this_version = text.contains(&format!("name: {version}\n"));
    assert!(in_this_version, "the published {kind} has no {version}");
    Some(text)
}

fn executable(path: &Path) -> bool {
    path.is_file() && nix::unistd::access(path, nix::unistd::AccessFlags::X_OK).is_ok()
}
