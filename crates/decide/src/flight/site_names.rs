//! The site's names in lines recorded for learning: kept, hashed, or left out.
//!
//! Site names are the names of namespaces, objects, releases, Addons, bundles and owners. Kinds, groups, charts,
//! versions and programs are the same everywhere, and are kept.

use smol_str::SmolStr;
use windrow_model::manifest::sha256_hex;

use super::{Appeared, FlightLine, Provenance, RecordedAppearance, RecordedRelease};
use crate::settings::SiteNames;

/// The prefix of a hashed name. No name in Kubernetes contains a colon.
const PREFIX: &str = "sha256:";
/// Hexadecimal digits of the digest: 48 bits are enough to distinguish the names of a site.
const DIGITS: usize = 12;

/// A name as recorded with `flight.names: hash`: the same on every node and at every time, so that flights can be
/// compared. A short or common name can be guessed from its digest.
pub fn hashed_name(name: &str) -> String {
    let digest = sha256_hex(name.as_bytes());
    format!("{PREFIX}{}", digest.get(..DIGITS).unwrap_or_default())
}

impl FlightLine {
    /// Changes the site's names according to the setting. Lines that a replay needs keep theirs.
    #[must_use]
    pub fn with_names(mut self, names: SiteNames) -> Self {
        let recorded = |name: &str| match names {
            SiteNames::Keep => name.to_owned(),
            SiteNames::Hash if name.is_empty() => String::new(),
            SiteNames::Hash => hashed_name(name),
            SiteNames::Drop => String::new(),
        };
        let change = |name: &mut String| *name = recorded(name);
        match &mut self {
            FlightLine::Appeared(RecordedAppearance { what, by, .. }) => {
                if let Appeared::Object(object) = what {
                    object.name = recorded(&object.name).into();
                    object.namespace = object
                        .namespace
                        .take()
                        .map(|name| SmolStr::from(recorded(&name)));
                }
                match by {
                    Provenance::Helm {
                        release, namespace, ..
                    } => {
                        change(release);
                        change(namespace);
                    }
                    Provenance::Addon { name } | Provenance::Owner { name, .. } => change(name),
                    Provenance::Fleet { bundle } => change(bundle),
                    Provenance::HelmUnnamed | Provenance::Manager { .. } | Provenance::NotKnown => {
                    }
                }
            }
            FlightLine::Release(RecordedRelease {
                release, namespace, ..
            }) => {
                change(release);
                change(namespace);
            }
            _ => {}
        }
        self
    }
}

#[cfg(test)]
mod tests {
    use jiff::Timestamp;
    use windrow_model::manifest::{GroupKind, ObjectRef};

    use super::*;

    fn lines() -> Vec<FlightLine> {
        let appeared = |what, by| {
            FlightLine::Appeared(RecordedAppearance {
                at: Timestamp::UNIX_EPOCH,
                created: None,
                was_there: false,
                what,
                by,
            })
        };
        let object = || {
            let mut object = ObjectRef::cluster("", "LimitRange", "site-object");
            object.namespace = Some("site-namespace".into());
            Appeared::Object(object)
        };
        let name = || "site-name".to_owned();
        let kind = || GroupKind::new("example.com", "Widget");
        vec![
            appeared(
                object(),
                Provenance::Helm {
                    release: "site-release".to_owned(),
                    namespace: "site-namespace".to_owned(),
                    chart: Some("widgets".to_owned()),
                    version: Some("1.2.3".to_owned()),
                },
            ),
            appeared(object(), Provenance::Addon { name: name() }),
            appeared(object(), Provenance::Fleet { bundle: name() }),
            appeared(
                Appeared::Kind {
                    kind: kind(),
                    namespaced: true,
                },
                Provenance::Owner {
                    kind: kind(),
                    name: name(),
                },
            ),
            appeared(
                Appeared::Kind {
                    kind: kind(),
                    namespaced: true,
                },
                Provenance::Manager {
                    name: "virt-operator".to_owned(),
                },
            ),
            FlightLine::Release(RecordedRelease {
                at: Timestamp::UNIX_EPOCH,
                release: "site-release".to_owned(),
                namespace: "site-namespace".to_owned(),
                status: "deployed".to_owned(),
                began: None,
                modified: None,
                was_there: false,
            }),
        ]
    }

    fn text(names: SiteNames) -> String {
        let lines = lines().into_iter().map(|line| line.with_names(names));
        serde_json::to_string(&lines.collect::<Vec<_>>()).unwrap()
    }

    #[test]
    fn a_sites_names_are_kept_hashed_or_left_out_and_what_is_the_same_everywhere_stays() {
        assert_eq!(
            text(SiteNames::Keep),
            serde_json::to_string(&lines()).unwrap()
        );
        for names in [SiteNames::Hash, SiteNames::Drop] {
            let text = text(names);
            assert!(!text.contains("site-"), "{text}");
            for word in [
                "widgets",
                "1.2.3",
                "virt-operator",
                "example.com",
                "Widget",
                "LimitRange",
                "deployed",
            ] {
                assert!(text.contains(word), "{word}: {text}");
            }
            let hashed = text.contains(&hashed_name("site-release"));
            assert_eq!(hashed, names == SiteNames::Hash, "{text}");
        }
    }

    #[test]
    fn the_same_name_has_the_same_digest_everywhere() {
        // `printf kube-system | sha256sum` prints the same digits.
        assert_eq!(hashed_name("kube-system").len(), PREFIX.len() + DIGITS);
        assert_eq!(hashed_name("a"), "sha256:ca978112ca1b");
        assert_ne!(hashed_name("a"), hashed_name("b"));
    }
}
