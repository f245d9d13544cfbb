//! Configuration files and their content, as values.

use std::path::PathBuf;

use super::error::ConfigError;

/// The purpose of a configuration file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ConfigFileRole {
    /// `windrow.yaml`, `conf.d`.
    Settings,
    /// `rules.d`.
    Rules,
    /// `knowledge.d`: facts about other systems.
    Knowledge,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ConfigFile {
    pub role: ConfigFileRole,
    /// Its base name. If several files have it, only one counts.
    pub name: String,
    pub path: PathBuf,
    /// Empty if it only masks.
    pub text: String,
}

/// All configuration files that count, in the order in which they are merged.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ConfigFiles {
    pub files: Vec<ConfigFile>,
    pub errors: Vec<ConfigError>,
    /// Does the configuration of Harvester's installer preset a storage network? Some rules depend on it.
    pub preset: bool,
}
