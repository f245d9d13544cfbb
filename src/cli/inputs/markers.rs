//! Markers among what a person gives: `x.yaml.skip` keeps every `x.yaml` from RKE2, whoever made it.

use crate::decide::Mark;
use crate::manifest::MARKER_SUFFIX;
use crate::manifest::extract::Extracted;
use crate::observe::scan::MarkerEntry;
use crate::plan::base_name;

/// A marker that Windrow did not make, so that it never removes it.
pub(in crate::cli) struct ForeignMarker {
    /// Its path below the manifests directory.
    pub(in crate::cli) path: String,
}

impl ForeignMarker {
    /// In a directory.
    pub(super) fn seen(marker: MarkerEntry) -> Option<Self> {
        marker.mark.is_none().then_some(Self { path: marker.path })
    }

    /// In a configuration.
    pub(super) fn carried(file: &Extracted) -> Option<Self> {
        let hides = base_name(&file.path).ends_with(MARKER_SUFFIX);
        (hides && Mark::parse(&file.content).is_none()).then(|| Self {
            path: file.path.clone(),
        })
    }
}

/// The first of these markers that hides this file; in whatever directory it is.
pub(in crate::cli) fn skipped_by<'m>(markers: &'m [ForeignMarker], path: &str) -> Option<&'m str> {
    let hides = |marker: &&ForeignMarker| {
        base_name(&marker.path).strip_suffix(MARKER_SUFFIX) == Some(base_name(path))
    };
    let marker = markers.iter().find(hides)?;
    Some(&marker.path)
}
