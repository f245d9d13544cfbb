//! Windrow's own rules and settings: this machine's, the given ones, and those in a configuration for a node.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use windrow_decide::settings::{
    ConfigError, ConfigFile, ConfigFileRole, ConfigFiles, Loaded, rule_sources,
};
use windrow_inputs::extract::{Extracted, InnerLines};
use windrow_model::findings::Location;
use windrow_plan::rules::{RuleError, RuleSet};

use super::gathered::Inputs;
use super::own_kind::{OwnKind, own_kind};
use super::sources::{STANDARD_INPUT, is_standard_input, text_of};
use crate::configuration::{MAIN_NAME, NodeReads};
use crate::fs;
use crate::layout::Layout;

/// This machine's rules, those of the given directories and files, and those that follow from a preset storage network;
/// and every error in them and in the settings.
pub(in crate::cli) fn rules(
    loaded: &Loaded,
    further: &[PathBuf],
    preset: bool,
) -> (Arc<RuleSet>, Vec<ConfigError>) {
    let RulesOfNode { rules, errors, .. } = rules_of_node(loaded, further, preset);
    (rules, errors)
}

pub(in crate::cli) struct RulesOfNode {
    pub(in crate::cli) rules: Arc<RuleSet>,
    pub(in crate::cli) packs: Vec<(String, String)>,
    pub(in crate::cli) errors: Vec<ConfigError>,
}

/// The node's rules, with the texts that they were loaded from. Each file is read once: it may be a pipe.
pub(in crate::cli) fn rules_of_node(
    loaded: &Loaded,
    further: &[PathBuf],
    preset: bool,
) -> RulesOfNode {
    let mut errors = loaded.errors.clone();
    let mut packs = rule_sources(&loaded.files, preset);
    if further.is_empty() && !preset {
        let rules = Arc::clone(&loaded.rules);
        return RulesOfNode {
            rules,
            packs,
            errors,
        };
    }
    for path in further {
        let why = match rule_files(path) {
            Ok(files) if files.is_empty() => "no rule packs (*.yaml) in this directory".to_owned(),
            Ok(files) => {
                packs.extend(files);
                continue;
            }
            Err(error) => format!("cannot be read: {error}"),
        };
        errors.push(ConfigError {
            at: Location::file(path.display().to_string()),
            message: why,
        });
    }
    let (rules, wrong) = RuleSet::load(&packs);
    for RuleError { at, message } in wrong {
        let error = ConfigError { at, message };
        // The node's own packs were loaded before, and their errors printed.
        if !errors.contains(&error) {
            errors.push(error);
        }
    }
    RulesOfNode {
        rules: Arc::new(rules),
        packs,
        errors,
    }
}

pub(super) fn take_own(inputs: &mut Inputs, shown: &str, text: &str) -> bool {
    let path = Path::new(shown);
    match own_kind(path, text) {
        Some(OwnKind::Configuration(role)) => inputs.own.push(ConfigFile {
            role,
            name: path
                .file_name()
                .unwrap_or_default()
                .to_string_lossy()
                .into_owned(),
            path: path.to_owned(),
            text: text.to_owned(),
        }),
        Some(OwnKind::Accepted) => inputs.accepted.push((shown.to_owned(), text.to_owned())),
        None => return false,
    }
    true
}

/// Windrow's own configuration on the node: the files that configurations write, and its own files among the inputs, in the order in
/// which the node would read them. A file that it would not read is an error.
pub(in crate::cli) fn own_configuration(inputs: &Inputs) -> ConfigFiles {
    let mut errors = unread_configuration(&inputs.configuration);
    let mut own = inputs.own.clone();
    own.retain(|file| match why_unread(&file.path) {
        None => true,
        Some(message) => {
            let at = Location::file(file.path.display().to_string());
            errors.push(ConfigError { at, message });
            false
        }
    });
    own.sort_by_key(|file| (file.name != "windrow.yaml", file.name.clone()));
    let mut files = carried_configuration(&inputs.configuration);
    files.extend(own);
    ConfigFiles {
        files,
        errors,
        preset: inputs.preset,
    }
}

/// Why a node would not read a file of Windrow's own under this path, as far as its name says.
fn why_unread(path: &Path) -> Option<String> {
    let name = path.file_name()?.to_str()?;
    if path.file_stem().is_some_and(|stem| stem == "windrow") && name != "windrow.yaml" {
        return matches!(NodeReads::of_name(name), NodeReads::No(_)).then(|| MAIN_NAME.to_owned());
    }
    if let NodeReads::No(why) = NodeReads::of_name(name) {
        return Some(why.to_owned());
    }
    let mut directories = Layout::new("/").config_dirs().into_iter();
    let is_below = |directory: PathBuf| {
        let directory = directory.strip_prefix("/").unwrap_or(&directory).to_owned();
        path.parent()
            .is_some_and(|parent| parent.ends_with(directory))
    };
    let lies_beside = name != "windrow.yaml" && directories.any(is_below);
    lies_beside.then(|| {
        "it is not read in this place: put it into conf.d, rules.d or knowledge.d below this directory"
            .to_owned()
    })
}

/// The files that configurations write below Windrow's directories and that the node would not read.
pub(in crate::cli) fn unread_configuration(configuration: &[Extracted]) -> Vec<ConfigError> {
    let directories = Layout::new("/").config_dirs();
    let unread = configuration.iter().filter_map(|file| {
        let path = Path::new(&file.path);
        let places = ["", "conf.d", "rules.d", "knowledge.d"];
        let mut places = places
            .iter()
            .flat_map(|below| directories.iter().map(move |known| known.join(below)));
        places.find(|place| path.parent() == Some(place))?;
        let line = match file.lines {
            InnerLines::Follow { first } => first,
            InnerLines::Begin { line } => line,
        };
        Some(ConfigError {
            at: Location::line(&file.source, line),
            message: format!("{}: {}", file.path, why_unread(path)?),
        })
    });
    unread.collect()
}

/// Windrow's own configuration among the files that configurations write, as the node would read it: in the same order,
/// without masked files. It has the names and line numbers of the files that carry it. Where those lines are not
/// contiguous, a place is given by the line at which it begins there and by its own line.
pub(in crate::cli) fn carried_configuration(configuration: &[Extracted]) -> Vec<ConfigFile> {
    let directories = Layout::new("/").config_dirs();
    let mut files = BTreeMap::new();
    for file in configuration {
        let path = Path::new(&file.path);
        let (Some(directory), Some(name)) = (path.parent(), path.file_name()) else {
            continue;
        };
        let name = name.to_string_lossy().into_owned();
        let at = |below: &str| {
            directories
                .iter()
                .position(|known| known.join(below) == directory)
        };
        let (place, role, rank) = if let Some(rank) = at("conf.d") {
            (1, ConfigFileRole::Settings, rank)
        } else if let Some(rank) = at("rules.d") {
            (2, ConfigFileRole::Rules, rank)
        } else if let Some(rank) = at("knowledge.d") {
            (3, ConfigFileRole::Knowledge, rank)
        } else if let Some(rank) = at("").filter(|_| name == "windrow.yaml") {
            (0, ConfigFileRole::Settings, rank)
        } else {
            continue;
        };
        if NodeReads::of_name(&name) != NodeReads::Yes {
            continue;
        }
        let text = String::from_utf8_lossy(&file.content);
        let (path, text) = match file.lines {
            // Blank lines before it have no meaning, but make its line numbers those of the outer file.
            InnerLines::Follow { first } => {
                let before = usize::try_from(first.saturating_sub(1)).unwrap_or_default();
                (file.source.clone(), "\n".repeat(before) + &text)
            }
            InnerLines::Begin { line } => (
                format!("{}:{line}: {}", file.source, file.path),
                text.into_owned(),
            ),
        };
        let counts = ConfigFile {
            role,
            name: name.clone(),
            path: path.into(),
            text,
        };
        let known = files
            .entry((place, name, &file.source))
            .or_insert((rank, None));
        if rank >= known.0 {
            *known = (rank, Some(counts));
        }
    }
    files.into_values().filter_map(|(_, file)| file).collect()
}

pub(in crate::cli) fn rule_files(path: &Path) -> std::io::Result<Vec<(String, String)>> {
    if is_standard_input(path) {
        let text = text_of(path).map_err(std::io::Error::other)?;
        return Ok(vec![(STANDARD_INPUT.to_owned(), text)]);
    }
    let mut paths = vec![path.to_owned()];
    if fs::is_dir(path) {
        paths = fs::read_dir(path)?
            .map(|entry| Ok(entry?.path()))
            .collect::<std::io::Result<_>>()?;
        paths.retain(|path| {
            path.extension()
                .is_some_and(|one| one == "yaml" || one == "yml")
        });
        paths.sort();
    }
    paths
        .into_iter()
        .map(|path| Ok((path.display().to_string(), fs::read_to_string(&path)?)))
        .collect()
}
