//! Finds the configuration files, and which of them masks which.
//!
//! As systemd does it: `windrow.yaml`, then `conf.d/*.yaml`, sorted by file name over all
//! directories; of two files with one name the one in the later directory counts; a link to
//! `/dev/null` (or an empty file) masks without saying anything. `rules.d/*.yaml` and
//! `knowledge.d/*.yaml` likewise.

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use windrow_decide::settings::{ConfigError, ConfigFile, ConfigFileRole, ConfigFiles};
use windrow_model::findings::Location;
use windrow_plan::knowledge::without_boots;

use crate::files::{is_missing, read_text};
use crate::layout::Layout;

/// Finds and reads the configuration files.
pub fn find(layout: &Layout) -> ConfigFiles {
    let mut finder = Finder::default();
    let directories = layout.config_dirs();
    let main = directories
        .iter()
        .map(|directory| directory.join("windrow.yaml"))
        .rfind(|path| fs::symlink_metadata(path).is_ok());
    if let Some(path) = main {
        finder.read_file(ConfigFileRole::Settings, "windrow.yaml".to_owned(), path);
    }
    for (role, below) in [
        (ConfigFileRole::Settings, "conf.d"),
        (ConfigFileRole::Rules, "rules.d"),
        (ConfigFileRole::Knowledge, "knowledge.d"),
    ] {
        let mut names = BTreeMap::new();
        for directory in &directories {
            finder.list(&directory.join(below), &mut names);
        }
        for (name, path) in names {
            finder.read_file(role, name, path);
        }
    }
    finder.found
}

/// Collects the files that are found.
#[derive(Default)]
struct Finder {
    found: ConfigFiles,
}

impl Finder {
    fn list(&mut self, directory: &Path, names: &mut BTreeMap<String, PathBuf>) {
        let entries = match fs::read_dir(directory) {
            Ok(entries) => entries,
            Err(error) if is_missing(&error) => return,
            Err(error) => return self.refuse(directory, &error),
        };
        for entry in entries {
            let entry = match entry {
                Ok(entry) => entry,
                Err(error) => {
                    self.refuse(directory, &error);
                    continue;
                }
            };
            // A name that is not UTF-8 cannot end in a way that counts.
            let Ok(name) = entry.file_name().into_string() else {
                continue;
            };
            if name.starts_with('.') {
                continue;
            }
            if name.ends_with(".yaml") {
                names.insert(name, entry.path());
            } else if looks_like_configuration(&name) {
                self.found.errors.push(ConfigError {
                    at: Location::file(entry.path().display().to_string()),
                    message: "it is not read: rename it, so that its name ends in .yaml".to_owned(),
                });
            }
        }
    }

    fn read_file(&mut self, role: ConfigFileRole, name: String, path: PathBuf) {
        match read(&path) {
            Ok(text) => self.found.files.push(ConfigFile {
                role,
                name,
                path,
                text: match role {
                    ConfigFileRole::Knowledge => without_boots(text),
                    _ => text,
                },
            }),
            // Gone since it was listed.
            Err(error) if is_missing(&error) && fs::symlink_metadata(&path).is_err() => {}
            Err(error) => self.refuse(&path, &error),
        }
    }

    fn refuse(&mut self, path: &Path, error: &io::Error) {
        self.found.errors.push(ConfigError {
            at: Location::file(path.display().to_string()),
            message: format!("cannot be read and is left out: {error}"),
        });
    }
}

/// Was it meant to be read? Editors and package managers leave other names, which are no mistake.
fn looks_like_configuration(name: &str) -> bool {
    let name = name.to_ascii_lowercase();
    [".yaml", ".yml", ".json"]
        .iter()
        .any(|end| name.ends_with(end))
}

/// Reads a configuration file; a link to `/dev/null` masks and is empty.
fn read(path: &Path) -> io::Result<String> {
    if fs::read_link(path).is_ok_and(|target| target == Path::new("/dev/null")) {
        return Ok(String::new());
    }
    read_text(path)
}
