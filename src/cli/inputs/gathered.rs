//! The result of reading a verb's inputs.

use windrow_decide::settings::ConfigFile;
use windrow_inputs::extract::Extracted;
use windrow_model::findings::{Finding, Location};
use windrow_model::manifest::{self, FileContent, ManifestFile, ManifestPath, ReadLimits};
use windrow_plan::SourceMap;
use windrow_plan::rke2::config::Rke2ConfigFile;
use windrow_plan::version::Version;

use super::markers::ForeignMarker;

#[derive(Default)]
pub(in crate::cli) struct Inputs {
    pub(in crate::cli) files: Vec<Input>,
    pub(in crate::cli) harvester: bool,
    /// Whether one of them presets a storage network.
    pub(in crate::cli) preset: bool,
    pub(in crate::cli) storage_network: Option<String>,
    /// The configurations that carry manifests: the name in messages, and the text.
    pub(in crate::cli) carriers: Vec<(String, String)>,
    /// Kernel command lines with parameters of Harvester's installer: the name in messages, and the text.
    pub(in crate::cli) kernel_arguments: Vec<(String, String)>,
    /// The parts of RKE2's and Windrow's own configuration that they write.
    pub(in crate::cli) configuration: Vec<Extracted>,
    /// Markers that keep files from RKE2 and that Windrow did not make.
    pub(in crate::cli) markers: Vec<ForeignMarker>,
    /// Carriers that are parts of an envelope, by their names in messages: they cannot be written as they are.
    pub(in crate::cli) parts: Vec<String>,
    pub(in crate::cli) own: Vec<ConfigFile>,
    /// Files with accepted findings: the name in messages, and the text.
    pub(in crate::cli) accepted: Vec<(String, String)>,
    /// Files that a carrier takes in, by their names in messages.
    pub(in crate::cli) beside: Vec<String>,
    pub(in crate::cli) node_rke2: Vec<Rke2ConfigFile>,
    pub(in crate::cli) rke2: Option<Version>,
    pub(in crate::cli) findings: Vec<Finding>,
    pub(in crate::cli) errors: Vec<String>,
}

/// All documents of a file may take this many times the memory of one.
const WHOLE_FILE: usize = 8;

pub(in crate::cli) struct Input {
    pub(in crate::cli) path: ManifestPath,
    pub(in crate::cli) content: FileContent,
    pub(in crate::cli) shown: SourceMap,
    /// The component that writes it later, if it is not there from the beginning.
    pub(in crate::cli) late: Option<String>,
    pub(super) destination: Option<Destination>,
    pub(in crate::cli) limits: ReadLimits,
}

/// The data directory below which a configuration writes a file, and the line that says so.
pub(super) struct Destination {
    pub(super) data_dir: String,
    pub(super) at: Location,
}

impl Inputs {
    pub(super) fn looked_at(&self) -> usize {
        self.files.len()
            + self.carriers.len()
            + self.configuration.len()
            + self.kernel_arguments.len()
            + self.own.len()
            + self.accepted.len()
            + self.findings.len()
            + self.errors.len()
    }

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
