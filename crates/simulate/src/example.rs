//! The example that the program includes, so that the sandbox needs no other files.

use std::sync::Arc;

use jiff::Timestamp;
use windrow_harvester::HarvesterVersion;
use windrow_inputs::extract;
use windrow_model::manifest::file_kind::installer_reads;
use windrow_model::manifest::{Node, ReadLimits, yaml};
use windrow_plan::rules::RuleSet;

use super::files::SimulatedDirectory;
use super::run::Setup;
use super::scenario::Scenario;

/// `examples/first-vm/harvester-config.yaml`
pub const FIRST_VM: &str = include_str!("../data/first-vm.yaml");

impl Setup {
    /// The first virtual machine of a Harvester node, with the rules that Windrow ships.
    pub fn first_vm(start: Timestamp) -> Self {
        Self::harvester_config(
            "harvester-config.yaml",
            FIRST_VM,
            HarvesterVersion::LATEST,
            start,
        )
    }

    /// A node that is installed with this Harvester configuration. [`windrow_inputs::extract::extract`] reports its
    /// errors; here the wrong parts are left out.
    pub fn harvester_config(
        source: &str,
        text: &str,
        version: HarvesterVersion,
        start: Timestamp,
    ) -> Self {
        let preset = Self::preset_storage_network(text);
        let mut files = SimulatedDirectory::new();
        for file in extract::extract(source, text, &ReadLimits::default()).files {
            files.write(file.path, file.content, start);
        }
        Self {
            scenario: Scenario::harvester(version, preset.as_deref(), start),
            files,
            changes: Vec::new(),
            settings: Arc::default(),
            rules: Arc::new(RuleSet::shipped()),
            joins: Vec::new(),
        }
    }

    pub fn preset_storage_network(text: &str) -> Option<String> {
        let config = yaml::parse_configuration(text).ok().flatten();
        config
            .iter()
            .flat_map(Node::entries)
            .filter(|entry| installer_reads(&entry.key, "systemSettings"))
            .find_map(|entry| entry.value.str_at(&["storage-network"]))
            .map(str::to_owned)
    }
}
