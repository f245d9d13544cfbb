//! Finds the configuration files, and which of them masks which.
//!
//! The rules are those of systemd: `windrow.yaml`, then `conf.d/*.yaml`, sorted by file name over all directories; of
//! two files with one name the one in the later directory counts; a link to `/dev/null` (or an empty file) masks
//! without saying anything. `rules.d/*.yaml` and `knowledge.d/*.yaml` likewise.

use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};

use windrow_decide::settings::{ConfigError, ConfigFile, ConfigFileRole, ConfigFiles};
use windrow_model::findings::Location;
use windrow_plan::knowledge::without_boots;

use crate::files::{is_missing, read_text};
use crate::fs;
use crate::layout::Layout;

pub const MAIN_NAME: &str = "it is not read: rename it to windrow.yaml";

pub fn find(layout: &Layout) -> ConfigFiles {
    let mut finder = Finder::default();
    let directories = layout.config_dirs();
    for directory in &directories {
        finder.refuse_main_names(directory);
    }
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
            match NodeReads::of_name(&name) {
                NodeReads::Yes => drop(names.insert(name, entry.path())),
                NodeReads::No(why) => self.found.errors.push(ConfigError {
                    at: Location::file(entry.path().display().to_string()),
                    message: why.to_owned(),
                }),
                NodeReads::NotMeant => {}
            }
        }
    }

    fn refuse_main_names(&mut self, directory: &Path) {
        for name in ["windrow.yml", "windrow.json"] {
            let path = directory.join(name);
            if fs::symlink_metadata(&path).is_ok() {
                self.found.errors.push(ConfigError {
                    at: Location::file(path.display().to_string()),
                    message: MAIN_NAME.to_owned(),
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

/// Whether a node reads a file of this name in `conf.d`, `rules.d` or `knowledge.d`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NodeReads {
    Yes,
    /// It was meant to be read, and is not: why.
    No(&'static str),
    /// A file of an editor or a package manager, which is not a mistake.
    NotMeant,
}

impl NodeReads {
    /// Decides only by the file's name.
    pub fn of_name(name: &str) -> Self {
        if name.starts_with('.') {
            return Self::NotMeant;
        }
        if name.ends_with(".yaml") {
            return Self::Yes;
        }
        let name = name.to_ascii_lowercase();
        let mut ends = [".yaml", ".yml", ".json"].iter();
        match ends.any(|end| name.ends_with(end)) {
            true => Self::No("it is not read: rename it, so that its name ends in .yaml"),
            false => Self::NotMeant,
        }
    }
}

/// Reads a configuration file; a link to `/dev/null` masks and is empty.
fn read(path: &Path) -> io::Result<String> {
    if fs::read_link(path).is_ok_and(|target| target == Path::new("/dev/null")) {
        return Ok(String::new());
    }
    read_text(path)
}
