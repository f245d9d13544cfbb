//! Configuration files that were found and read, as values.

use std::path::PathBuf;

use super::error::ConfigError;

/// What a configuration file is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ConfigFileRole {
    /// Settings: `windrow.yaml`, `conf.d`.
    Settings,
    /// A rule pack: `rules.d`.
    Rules,
    /// What is known of other systems: `knowledge.d`.
    Knowledge,
}

/// One configuration file that counts.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ConfigFile {
    /// What it is for.
    pub role: ConfigFileRole,
    /// Its base name, by which it masks and is masked.
    pub name: String,
    /// Where it is.
    pub path: PathBuf,
    /// What it says; empty when it only masks.
    pub text: String,
}

/// All configuration files that count, in the order in which they are merged.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ConfigFiles {
    /// The files.
    pub files: Vec<ConfigFile>,
    /// Files that could not be read: they are left out.
    pub errors: Vec<ConfigError>,
    /// Does the configuration of Harvester's installer preset a storage network? Rules follow from
    /// it.
    pub preset: bool,
}
