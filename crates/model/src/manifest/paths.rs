//! Paths in the manifests directory, and RKE2's interpretation of their names (k3s `pkg/deploy/controller.go`).
//!
//! ```text
//!   ManifestPath   net/bridge.v1.yaml        ──> marker()  MarkerPath  net/bridge.v1.yaml.skip
//!     name()  BaseName     bridge.v1.yaml    <── hides()
//!     addon() AddonName    bridge
//! ```
//!
//! Each is made once, at the source of its text: the scan, the state file, a request or the command line. They read as
//! text, so that messages accept them, but none can be used as another.

use std::borrow::{Borrow, Cow};
use std::fmt;
use std::ops::Deref;

use schemars::{JsonSchema, Schema, SchemaGenerator};
use serde::{Deserialize, Serialize};
use smol_str::SmolStr;

/// The suffix of a marker's name: `x.yaml.skip` keeps RKE2 from applying every `x.yaml`.
pub const MARKER_SUFFIX: &str = ".skip";

/// RKE2's default data directory (`k3s pkg/datadir`).
pub const DATA_DIR: &str = "/var/lib/rancher/rke2";
/// The directory from which Edge Image Builder creates manifests itself (`extract/image_builder.rs`). A path with this
/// prefix is not in RKE2's directory.
pub const APPLIED_BY_IMAGE_BUILDER: &str = "/opt/eib-k8s/manifests/";

/// Whether this is the base name of a file that RKE2 applies. Extensions count in upper case too; a leading dot hides a
/// file.
pub fn is_manifest_name(base: &str) -> bool {
    if base.starts_with('.') {
        return false;
    }
    base.rsplit_once('.').is_some_and(|(_, extension)| {
        ["yaml", "yml", "json"]
            .iter()
            .any(|known| extension.eq_ignore_ascii_case(known))
    })
}

/// A separate type for one kind of text: cheap to clone, and in JSON the same as its text.
macro_rules! text_type {
    ($(#[$doc:meta])* $name:ident) => {
        $(#[$doc])*
        #[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
        #[serde(transparent)]
        pub struct $name(SmolStr);

        impl $name {
            pub fn as_str(&self) -> &str {
                &self.0
            }
        }

        /// The schema is the one of any text.
        impl JsonSchema for $name {
            fn inline_schema() -> bool {
                true
            }

            fn schema_name() -> Cow<'static, str> {
                str::schema_name()
            }

            fn json_schema(generator: &mut SchemaGenerator) -> Schema {
                str::json_schema(generator)
            }
        }

        impl Deref for $name {
            type Target = str;

            fn deref(&self) -> &str {
                &self.0
            }
        }

        impl AsRef<str> for $name {
            fn as_ref(&self) -> &str {
                &self.0
            }
        }

        /// So that a map can be searched by text.
        impl Borrow<str> for $name {
            fn borrow(&self) -> &str {
                &self.0
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.pad(&self.0)
            }
        }

        impl PartialEq<str> for $name {
            fn eq(&self, other: &str) -> bool {
                self.as_str() == other
            }
        }

        impl From<$name> for SmolStr {
            fn from(text: $name) -> Self {
                text.0
            }
        }

        impl From<$name> for String {
            fn from(text: $name) -> Self {
                text.0.into()
            }
        }

        impl From<&$name> for String {
            fn from(text: &$name) -> Self {
                text.as_str().to_owned()
            }
        }

        impl PartialEq<&str> for $name {
            fn eq(&self, other: &&str) -> bool {
                self.as_str() == *other
            }
        }
    };
}

/// A text type that accepts any text.
macro_rules! from_text {
    ($name:ident) => {
        impl From<&str> for $name {
            fn from(text: &str) -> Self {
                Self(text.into())
            }
        }

        impl From<SmolStr> for $name {
            fn from(text: SmolStr) -> Self {
                Self(text)
            }
        }

        impl From<String> for $name {
            fn from(text: String) -> Self {
                Self(text.into())
            }
        }
    };
}

text_type! {
    /// A manifest file's path below the manifests directory, with `/`. Paths are ordered as RKE2 applies their files:
    /// by their bytes. Any text can be a path; its base name decides whether RKE2 applies the file
    /// ([`is_manifest_name`]).
    #[derive(Default)]
    ManifestPath
}
from_text!(ManifestPath);

text_type! {
    /// A marker's path below the manifests directory: its base name ends in `.skip`, in lower case.
    MarkerPath
}

text_type! {
    /// The last part of a manifest file's path. A marker hides its base name, extension included, in every directory
    /// below the manifests directory (`controller.go`: the keys of `skips` have no directory).
    BaseName
}
from_text!(BaseName);

text_type! {
    /// The name of an Addon, the object that RKE2 makes for a file in `kube-system`: the base name up to its first
    /// dot. So `a.yaml`, `a.json` and `sub/a.b.yaml` share one, and remove each other's objects.
    AddonName
}
from_text!(AddonName);

impl ManifestPath {
    /// The base name, which a marker hides.
    pub fn name(&self) -> BaseName {
        last_part(&self.0).into()
    }

    /// The program that applies the file in place of RKE2, which does not read it then: no marker hides it.
    pub fn applied_by(&self) -> Option<&'static str> {
        self.starts_with(APPLIED_BY_IMAGE_BUILDER)
            .then_some("Edge Image Builder")
    }

    /// The name of the file's Addon. Files that RKE2 does not apply have no Addon, and share none with another file.
    pub fn addon(&self) -> AddonName {
        if self.applied_by().is_some() {
            return AddonName(self.0.clone());
        }
        up_to_first_dot(last_part(&self.0)).into()
    }

    /// The marker in the same directory.
    pub fn marker(&self) -> MarkerPath {
        MarkerPath([self.as_str(), MARKER_SUFFIX].concat().into())
    }

    /// The path of a second file in the same directory, for objects that must not be in this one. Its Addon's name is
    /// not `taken`.
    #[must_use]
    pub fn objects_path(&self, taken: impl Fn(&str) -> bool) -> Self {
        let base = last_part(&self.0);
        let directory = self.0.strip_suffix(base).unwrap_or_default();
        let extension = base
            .rsplit_once('.')
            .map_or("yaml", |(_, extension)| extension);
        let first = format!("{}-objects", up_to_first_dot(base));
        let numbered = (2..).map(|number| format!("{first}-{number}"));
        let mut names = std::iter::once(first.clone()).chain(numbered);
        let name = names.find(|name| !taken(name)).unwrap_or(first);
        format!("{directory}{name}.{extension}").into()
    }
}

impl MarkerPath {
    /// A path whose base name ends in `.skip`; `None` for any other. RKE2 also treats a directory with such a name as a
    /// marker.
    pub fn parse(path: &str) -> Option<Self> {
        path.ends_with(MARKER_SUFFIX).then(|| Self(path.into()))
    }

    /// The base name that it hides, in every directory.
    pub fn hides(&self) -> BaseName {
        last_part(self.file_text()).into()
    }

    /// The manifest file in the same directory. It need not exist.
    pub fn file(&self) -> ManifestPath {
        self.file_text().into()
    }

    fn file_text(&self) -> &str {
        self.0.strip_suffix(MARKER_SUFFIX).unwrap_or(&self.0)
    }
}

impl BaseName {
    /// The name of the Addon of a file of this name.
    pub fn addon(&self) -> AddonName {
        up_to_first_dot(&self.0).into()
    }

    /// The name that RKE2 would give to the Addon of a file of this name, why it cannot, and a valid name for the file:
    /// the `name` of `addon-name-invalid`.
    pub fn addon_error(&self) -> Option<String> {
        let name = up_to_first_dot(&self.0);
        let problem = if name.is_empty() {
            "is empty"
        } else if name.len() > 253 {
            "is longer than 253 characters"
        } else if !name
            .bytes()
            .all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'-')
        {
            "may have only lower-case letters, digits and `-` (RFC 1123)"
        } else if name.starts_with('-') || name.ends_with('-') {
            "must begin and end with a letter or digit (RFC 1123)"
        } else {
            return None;
        };
        Some(format!(
            "`{name}`, and a name {problem}; rename the file, for example to {}",
            better_name(&self.0)
        ))
    }
}

fn last_part(path: &str) -> &str {
    path.rsplit_once('/').map_or(path, |(_, name)| name)
}

fn up_to_first_dot(base: &str) -> &str {
    base.split_once('.').map_or(base, |(name, _)| name)
}

/// A similar name that is valid for an Addon.
fn better_name(base: &str) -> String {
    let (name, rest) = base.split_once('.').unwrap_or((base, "yaml"));
    let mut better: String = name
        .chars()
        .map(|ch| match ch.to_ascii_lowercase() {
            ch @ ('a'..='z' | '0'..='9') => ch,
            _ => '-',
        })
        .take(253)
        .collect();
    better = better.trim_matches('-').to_owned();
    if better.is_empty() {
        better.push_str("manifest");
    }
    format!("{better}.{rest}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_extension_and_a_leading_dot_decide_what_rke2_applies() {
        for name in ["a.yaml", "a.yml", "a.json", "X.YML", "a.b.Json", "-.yaml"] {
            assert!(is_manifest_name(name), "{name}");
        }
        for name in [
            "",
            "yaml",
            ".yaml",
            ".a.yaml",
            "a.yaml.skip",
            "a.yaml.d",
            "a.tmp",
            "a.yaml~",
        ] {
            assert!(!is_manifest_name(name), "{name}");
        }
    }

    #[test]
    fn an_addon_is_called_like_the_file_up_to_its_first_dot() {
        for name in ["foo.yaml", "foo.bar.yml", "foo.json"] {
            let name = BaseName::from(name);
            assert_eq!(name.addon(), "foo");
            assert_eq!(name.addon_error(), None);
        }
    }

    #[test]
    fn what_something_else_than_rke2_applies_shares_no_addon() {
        let path = |text: &str| ManifestPath::from(text);
        let applied = path("/opt/eib-k8s/manifests/foo.yaml");
        assert_eq!(applied.applied_by(), Some("Edge Image Builder"));
        assert_ne!(applied.addon(), path("foo.yaml").addon());
        assert_eq!(path("opt/eib-k8s/manifests/foo.yaml").applied_by(), None);
    }

    #[test]
    fn a_name_that_no_addon_can_have_is_told_with_a_better_one() {
        for (name, better) in [
            ("Upper.yaml", "upper.yaml"),
            ("under_score.yaml", "under-score.yaml"),
            ("-a-.yaml", "a.yaml"),
            ("grün.yml", "gr-n.yml"),
            ("___.json", "manifest.json"),
        ] {
            let error = BaseName::from(name).addon_error().unwrap();
            assert!(error.ends_with(&format!("to {better}")), "{error}");
        }
        let long = format!("{}.yaml", "a".repeat(254));
        let error = BaseName::from(long).addon_error().unwrap();
        assert!(error.contains("253"));
    }

    #[test]
    fn a_marker_hides_one_base_name_in_every_directory() {
        let path = ManifestPath::from("net/bridge.v1.yaml");
        assert_eq!(path.marker(), "net/bridge.v1.yaml.skip");
        assert_eq!(path.marker().hides(), path.name());
        assert_eq!(path.marker().file(), path);
        assert_eq!(path.name(), "bridge.v1.yaml");
        assert_eq!(path.addon(), "bridge");
        for other in ["a.yaml", "a.yaml.SKIP", "a.skip/b.yaml", ""] {
            assert_eq!(MarkerPath::parse(other), None, "{other}");
        }
        assert_eq!(MarkerPath::parse(".skip").unwrap().hides(), "");
    }
}
