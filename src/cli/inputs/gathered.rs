//! The result of reading a verb's inputs.

use windrow_decide::settings::ConfigFile;
use windrow_model::findings::{Finding, Location};
use windrow_model::manifest::extract::Extracted;
use windrow_model::manifest::{self, FileContent, ManifestFile, ManifestPath, ReadLimits};
use windrow_plan::SourceMap;
use windrow_plan::rke2::config::Rke2ConfigFile;
use windrow_plan::version::Version;

use super::markers::ForeignMarker;

/// The result of reading a verb's inputs.
#[derive(Default)]
pub(in crate::cli) struct Inputs {
    pub(in crate::cli) files: Vec<Input>,
    /// Was a Harvester configuration among them?
    pub(in crate::cli) harvester: bool,
    /// Does one preset a storage network?
    pub(in crate::cli) preset: bool,
    /// The preset storage network.
    pub(in crate::cli) storage_network: Option<String>,
    /// The configurations that carry manifests: the name in messages, and the text.
    pub(in crate::cli) carriers: Vec<(String, String)>,
    /// The parts of RKE2's and Windrow's own configuration that they write.
    pub(in crate::cli) configuration: Vec<Extracted>,
    /// Markers that keep files from RKE2 and that Windrow did not make.
    pub(in crate::cli) markers: Vec<ForeignMarker>,
    /// Carriers that are parts of an envelope, by their names in messages: they cannot be written as they are.
    pub(in crate::cli) parts: Vec<String>,
    /// Windrow's own configuration, as separate files.
    pub(in crate::cli) own: Vec<ConfigFile>,
    /// Files with accepted findings: the name in messages, and the text.
    pub(in crate::cli) accepted: Vec<(String, String)>,
    /// Files that a carrier takes in, by their names in messages.
    pub(in crate::cli) beside: Vec<String>,
    /// RKE2's configuration on this machine, where the inputs are its manifests.
    pub(in crate::cli) node_rke2: Vec<Rke2ConfigFile>,
    /// RKE2's version, where a configuration says it.
    pub(in crate::cli) rke2: Option<Version>,
    /// Problems of the configurations that carry manifests.
    pub(in crate::cli) findings: Vec<Finding>,
    /// Every input that cannot be used, with its file.
    pub(in crate::cli) errors: Vec<String>,
}

/// All documents of a file may take this many times the memory of one.
const WHOLE_FILE: usize = 8;

/// One manifest file.
pub(in crate::cli) struct Input {
    /// Its path.
    pub(in crate::cli) path: ManifestPath,
    pub(in crate::cli) content: FileContent,
    pub(in crate::cli) shown: SourceMap,
    /// Who writes it later, if it is not there from the beginning.
    pub(in crate::cli) late: Option<String>,
    /// The destination, if a configuration writes it.
    pub(super) destination: Option<Destination>,
    pub(in crate::cli) limits: ReadLimits,
}

/// The data directory below which a configuration writes a file, and the line that says so.
pub(super) struct Destination {
    pub(super) data_dir: String,
    pub(super) at: Location,
}

impl Inputs {
    /// How many things the inputs yielded.
    pub(super) fn looked_at(&self) -> usize {
        self.files.len()
            + self.carriers.len()
            + self.own.len()
            + self.accepted.len()
            + self.findings.len()
            + self.errors.len()
    }

    /// Are Windrow's own files all that there is?
    pub(in crate::cli) fn only_own(&self) -> bool {
        self.looked_at() == self.own.len() + self.accepted.len()
    }
}

impl Input {
    /// The file, read whole. Its documents together may take more memory than one of them may: simulated time needs all
    /// of them.
    pub(in crate::cli) fn manifest(&self) -> ManifestFile {
        let limits = ReadLimits {
            expanded_bytes: WHOLE_FILE * self.limits.expanded_bytes,
            ..self.limits.clone()
        };
        manifest::read(&self.path, &self.content, &limits)
    }
}

/// Adds a separate manifest file, which no configuration carries.
pub(super) fn own_manifest(
    inputs: &mut Inputs,
    path: &str,
    shown: String,
    content: FileContent,
    limits: &ReadLimits,
) {
    manifest(
        inputs,
        path,
        content,
        SourceMap::itself(shown),
        None,
        limits,
    );
}

/// Adds a manifest file.
pub(super) fn manifest(
    inputs: &mut Inputs,
    path: &str,
    content: FileContent,
    shown: SourceMap,
    late: Option<String>,
    limits: &ReadLimits,
) {
    inputs.files.push(Input {
        path: path.into(),
        limits: limits.clone(),
        content,
        shown,
        late,
        destination: None,
    });
}
