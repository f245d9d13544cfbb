//! `embedded-registry` without a registry that is mirrored: it does not start then (rke2-docs `install/airgap.md`), and some releases of
//! RKE2 wait for it until they end (rancher/rke2#9755; `pkg/executor/staticpod/staticpod.go`, read at each tag of 1.30 to 1.36).

use windrow_model::findings::Finding;
use windrow_model::manifest::ReadLimits;
use windrow_model::manifest::yaml;
use windrow_model::reasons::Severity;

use super::config::Rke2ConfigFile;
use super::keys::{fatal, is_true, unintended};
use super::written_keys::written;
use crate::version::Version;

/// The patches of a minor that wait: the first and the last one.
const WAITING: [(u16, u16, u16); 5] = [
    (31, 14, 14),
    (32, 10, 12),
    (33, 6, 8),
    (34, 2, 4),
    (35, 0, 1),
];

/// What is wrong with `embedded-registry` in the configuration of a server. `registries` is the text of its registries.yaml, if it is
/// among the inputs.
pub fn embedded_registry(
    files: &[Rke2ConfigFile],
    registries: Option<&str>,
    version: Option<Version>,
) -> Option<Finding> {
    let keys = written(files);
    let key = keys.get("embedded-registry");
    let at = key.filter(|_| is_true(key))?.at.as_ref()?;
    if registries.is_some_and(|text| has_mirrors(text) != Some(false)) {
        return None;
    }
    let waits = version.is_some_and(|version| {
        let mut rows = WAITING.iter();
        rows.any(|(minor, first, last)| {
            version.minor.minor == *minor
                && version
                    .patch
                    .is_some_and(|patch| (*first..=*last).contains(&patch))
        })
    });
    Some(match (waits, registries) {
        (true, Some(_)) => {
            let why = "RKE2 does not start: it waits for the embedded registry, which never starts without `mirrors` in registries.yaml";
            fatal(why, at)
        }
        (true, None) => {
            let why = "RKE2 does not start if /etc/rancher/rke2/registries.yaml has no `mirrors`: this release waits for the embedded registry. The file is not among the inputs";
            Finding {
                severity: Severity::Warning,
                ..fatal(why, at)
            }
        }
        (false, _) => {
            let why = "the embedded registry does not start without `mirrors` in /etc/rancher/rke2/registries.yaml";
            unintended(why, at)
        }
    })
}

/// `None` if the file cannot be read.
fn has_mirrors(text: &str) -> Option<bool> {
    let root = yaml::input(text, &ReadLimits::default()).ok()?.root;
    let mirrors = root.as_ref().and_then(|root| root.get("mirrors"));
    Some(mirrors.is_some_and(|mirrors| !mirrors.entries().is_empty()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rke2::config::ConfigLayer;

    #[test]
    fn an_embedded_registry_needs_a_mirror_and_some_releases_wait_for_it() {
        let judged = |key: &str, registries: Option<&str>, version: Option<&str>| {
            let file = Rke2ConfigFile::new(ConfigLayer::Main, "config.yaml", key);
            let version = version.map(|text| text.parse().unwrap());
            embedded_registry(&[file], registries, version).map(|finding| finding.severity)
        };
        let on = "embedded-registry: true\n";
        let mirrored = "mirrors:\n  '*': {}\n";
        for (version, without_file, without_mirror) in [
            ("v1.31.13", Severity::Warning, Severity::Warning),
            ("v1.31.14", Severity::Warning, Severity::Error),
            ("v1.32.9", Severity::Warning, Severity::Warning),
            ("v1.32.12", Severity::Warning, Severity::Error),
            ("v1.35.1", Severity::Warning, Severity::Error),
            ("v1.35.2", Severity::Warning, Severity::Warning),
        ] {
            let version = Some(version);
            assert_eq!(judged(on, None, version), Some(without_file), "{version:?}");
            for registries in ["configs: {}\n", "", "mirrors:\n", "mirrors: {}\n"] {
                let found = judged(on, Some(registries), version);
                assert_eq!(found, Some(without_mirror), "{version:?} {registries}");
            }
            assert_eq!(judged(on, Some(mirrored), version), None);
        }
        assert_eq!(judged(on, Some("mirrors: [\n"), None), None);
        for off in ["embedded-registry: false\n", "cni: canal\n"] {
            assert_eq!(judged(off, None, Some("v1.35.1")), None);
        }
    }
}
