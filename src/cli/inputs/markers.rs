//! Markers among a verb's inputs: `x.yaml.skip` hides every `x.yaml` from RKE2, no matter who made it.

use std::io::Read;
use std::path::Path;

use windrow_decide::Mark;
use windrow_inputs::extract::Extracted;
use windrow_model::findings::Location;
use windrow_model::manifest::{ManifestPath, MarkerPath};
use windrow_plan::rke2;

use super::super::document::now;
use crate::fs;
use crate::observe::scan::MarkerEntry;

pub(in crate::cli) struct ForeignMarker {
    pub(in crate::cli) path: MarkerPath,
}

impl ForeignMarker {
    pub(super) fn from_entry(marker: MarkerEntry) -> Option<Self> {
        marker.mark.is_none().then_some(Self { path: marker.path })
    }

    /// The packaged component of RKE2 that it switches off, if any, and where.
    pub(in crate::cli) fn disables(&self) -> Option<(String, Location)> {
        let hidden = self.path.hides();
        let is_rke2s = rke2::owner(&hidden.as_str().into()) == Some("RKE2");
        let component = hidden.strip_suffix(".yaml").filter(|_| is_rke2s)?;
        Some((component.to_owned(), Location::file(self.path.as_str())))
    }

    pub(super) fn at(path: &Path) -> Option<Self> {
        let metadata = fs::symlink_metadata(path).ok()?;
        // RKE2 looks only at the name: an unreadable marker counts too.
        let marker = MarkerPath::parse(&path.file_name()?.to_string_lossy())?;
        let is_ours =
            metadata.is_file() && fs::open(path).is_ok_and(|file| is_windrows(file, &marker));
        (!is_ours).then_some(Self { path: marker })
    }

    pub(super) fn carried(file: &Extracted) -> Option<Self> {
        let path = MarkerPath::parse(&file.path)?;
        (!is_windrows(&file.content[..], &path)).then_some(Self { path })
    }
}

fn is_windrows(content: impl Read, path: &MarkerPath) -> bool {
    Mark::read(content, path, now()).is_ok_and(|mark| mark.is_some())
}

pub(in crate::cli) fn skipped_by<'m>(
    markers: &'m [ForeignMarker],
    path: &ManifestPath,
) -> Option<&'m MarkerPath> {
    if path.applied_by().is_some() {
        return None;
    }
    let name = path.name();
    let mut paths = markers.iter().map(|marker| &marker.path);
    paths.find(|marker| marker.hides() == name)
}
