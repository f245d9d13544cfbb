//! What is corrected, and what comes of it.

use windrow_model::findings::Location;
use windrow_model::manifest::ManifestPath;

/// A file that a person gave.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GivenFile {
    /// Its path in the corrected copy.
    pub name: String,
    /// How findings call it.
    pub shown: String,
    /// Its text.
    pub text: String,
    /// The manifests that a configuration carries, by their paths; `None` for a manifest.
    pub carries: Option<Vec<ManifestPath>>,
}

impl GivenFile {
    /// The paths of its manifests: its own, or those that it carries.
    pub(super) fn manifests(&self) -> Vec<ManifestPath> {
        match &self.carries {
            None => vec![self.name.as_str().into()],
            Some(carried) => carried.clone(),
        }
    }
}

/// A requirement that an object lacks.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Lacking {
    /// Where the object's `metadata` stands.
    pub at: Location,
    /// What it is to wait for, as `windrow.dev/depends-on` takes it.
    pub reference: String,
}

/// A corrected copy.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Corrected {
    /// The files, the correct ones too: the copy stands for the whole. Empty when nothing can be
    /// corrected.
    pub files: Vec<(String, String)>,
    /// What has to be corrected by hand, and why.
    pub left: Vec<String>,
}
