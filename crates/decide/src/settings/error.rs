//! Errors in a configuration file.

use std::fmt;

use windrow_model::findings::Location;

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ConfigError {
    pub at: Location,
    /// The error and its fix.
    pub message: String,
}

impl fmt::Display for ConfigError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.at, self.message)
    }
}
