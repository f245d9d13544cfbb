//! `windrow rehearse`: a boot before the image is burned.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsStr;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use jiff::Timestamp;

use super::inputs::{self, Input, Inputs};
use super::{Context, Exit, complain, style};
use crate::files::{Durability, read_text, replace};
use crate::gates::{Target, Version, assess};
use crate::manifest::Limits;
use crate::manifest::extract::Extracted;
use crate::plan::{Finding, examine, link};
use crate::reasons::Code;
use crate::rehearse::proofs::{Given, image_list, not_bundled, proofs};
use crate::rehearse::{NodeRehearsal, Rehearsal, carriers, rehearse};
use crate::render;
use crate::rke2::config::{ConfigFile as Rke2File, Place, is_read, merge};
use crate::rules::Platform;
use crate::settings::{self, ConfigFiles};
use crate::simulate::{Files, HarvesterVersion, Scenario, Setup};

/// 2026-01-01T00:00:00Z: a rehearsal is the same whenever it is held.
const POWER_ON: Timestamp = Timestamp::constant(1_767_225_600, 0);

/// Rehearse a boot in simulated time, with Windrow and without it
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    /// Harvester configurations, cloud-init user-data, yip files, manifests or directories of them,
    /// or `-`: together one node
    #[arg(value_name = "CONFIG", required_unless_present = "node")]
    paths: Vec<PathBuf>,
    /// One of several nodes and its configuration; once for each file of it
    #[arg(long, value_name = "NAME=CONFIG", value_parser = node, conflicts_with = "paths")]
    node: Vec<(String, PathBuf)>,
    /// Harvester's version [default: the newest that is modelled, where a Harvester configuration is
    /// given]
    #[arg(long, value_name = "VERSION")]
    harvester: Option<HarvesterVersion>,
    /// RKE2's version: feature gates are checked against it
    #[arg(long, value_name = "VERSION")]
    rke2: Option<Version>,
    /// Directories or files with further rule packs
    #[arg(long, value_name = "DIR", num_args = 1..)]
    rules: Vec<PathBuf>,
    /// Lists of the images of an air-gapped bundle, one image a line: every other image is a finding
    #[arg(long, value_name = "FILE", num_args = 1..)]
    images: Vec<PathBuf>,
    /// Write corrected copies into this directory, where correcting is mechanical
    #[arg(long, value_name = "DIR")]
    fix: Option<PathBuf>,
    /// By how many seeds: each is one possible course of events
    #[arg(long, value_name = "N", default_value_t = 100,
          value_parser = clap::value_parser!(u64).range(1..=100_000))]
    seeds: u64,
    /// Output format
    #[arg(short, long, value_enum, default_value_t = Output::Text)]
    output: Output,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum Output {
    Text,
    Json,
    /// A page of its own, to be looked at in a browser
    Html,
}

fn node(text: &str) -> Result<(String, PathBuf), String> {
    match text.split_once('=') {
        Some((name, path)) if !name.is_empty() && !path.is_empty() => {
            Ok((name.to_owned(), path.into()))
        }
        _ => Err("write it as NAME=CONFIG".to_owned()),
    }
}

pub(super) fn run(args: Args, _context: &Context) -> anyhow::Result<Exit> {
    let mut nodes: Vec<(String, Vec<PathBuf>)> = Vec::new();
    if !args.paths.is_empty() {
        nodes.push((name_of(&args.paths), args.paths.clone()));
    }
    for (name, path) in &args.node {
        match nodes.iter_mut().find(|(known, _)| known == name) {
            Some((_, paths)) => paths.push(path.clone()),
            None => nodes.push((name.clone(), vec![path.clone()])),
        }
    }
    let mut rehearsals = Vec::new();
    let mut addons = Addons::default();
    for (name, paths) in &nodes {
        match one(&args, name, paths, &mut addons) {
            Ok(rehearsal) => rehearsals.push(rehearsal),
            Err((exit, errors)) => {
                complain(&errors);
                return Ok(exit);
            }
        }
    }
    let rehearsal = Rehearsal::of(rehearsals, addons.findings());
    print(&rehearsal, args.output)?;
    Ok(match rehearsal.passes() {
        true => Exit::Ok,
        false => Exit::Failed,
    })
}

fn name_of(paths: &[PathBuf]) -> String {
    let names: Vec<String> = paths
        .iter()
        .map(|path| path.display().to_string())
        .collect();
    names.join(", ")
}

fn one(
    args: &Args,
    name: &str,
    paths: &[PathBuf],
    addons: &mut Addons,
) -> Result<NodeRehearsal, Refused> {
    // What is on this machine has nothing to do with the node: only what its own files say counts.
    let limits = settings::Settings::default().staging.limits;
    let Inputs {
        files,
        harvester,
        preset,
        storage_network,
        carriers,
        configuration,
        mut findings,
        errors,
    } = inputs::gather(paths, &limits);
    if !errors.is_empty() {
        return Err((Exit::Usage, errors));
    }
    let loaded = settings::merge(ConfigFiles {
        files: inputs::carried_configuration(&configuration),
        errors: Vec::new(),
        preset,
    });
    let (rules, errors) = inputs::rules(&loaded, &args.rules, preset);
    if !errors.is_empty() {
        return Err((Exit::Configuration, errors));
    }
    let version = args
        .harvester
        .or(harvester.then_some(HarvesterVersion::LATEST));
    let platform = version.map_or(Platform::Rke2, |_| Platform::Harvester);
    let examined: Vec<_> = files
        .iter()
        .map(|file| {
            Arc::new(examine(
                &file.manifest,
                file.shown.clone(),
                &rules,
                Some(platform),
            ))
        })
        .collect();
    let plan = link(&examined, &rules, Some(platform));
    let mut disabled = Vec::new();
    for (shown, text) in &carriers {
        findings.extend(carriers::findings(shown, text, &limits));
        disabled.extend(carriers::disabled(shown, text, &limits));
    }
    let images = images(&args.images)?;
    let read: Vec<_> = files
        .iter()
        .map(|file| (&file.manifest, &file.shown))
        .collect();
    findings.extend(proofs(&Given {
        files: &read,
        plan: &plan,
        disabled: &disabled,
        images: images.as_ref(),
    }));
    let cannot_run = images
        .as_ref()
        .map(|images| not_bundled(&read, images))
        .unwrap_or_default();
    findings.extend(plan.findings);
    findings.extend(gates(&configuration, args.rke2));
    if let Some(directory) = &args.fix {
        fix(directory, &carriers, &limits)?;
    }
    addons.take(name, &files);
    let mut directory = Files::new();
    for file in files {
        directory.put(file.manifest.path, file.content, POWER_ON);
    }
    let scenario = match version {
        Some(version) => Scenario::harvester(version, storage_network.as_deref(), POWER_ON),
        None => Scenario::rke2(POWER_ON),
    };
    let setup = Setup {
        scenario: Scenario {
            disabled: disabled.into_iter().map(|(name, _)| name).collect(),
            cannot_run,
            ..scenario
        },
        files: directory,
        changes: Vec::new(),
        settings: loaded.settings,
        rules,
    };
    Ok(rehearse(name, &setup, args.seeds, findings))
}

/// What wrong use or a file that cannot be read ends with.
type Refused = (Exit, Vec<String>);

/// The images of all lists; none are asked for where there is no list.
fn images(lists: &[PathBuf]) -> Result<Option<BTreeSet<String>>, Refused> {
    let mut images = BTreeSet::new();
    for list in lists {
        let text = read_text(list).map_err(|error| {
            let message = format!("{}: cannot be read: {error}", list.display());
            (Exit::Usage, vec![message])
        })?;
        images.extend(image_list(&text));
    }
    Ok((!lists.is_empty()).then_some(images))
}

/// Writes what can be corrected; the files themselves stay as they are.
fn fix(directory: &Path, carriers: &[(String, String)], limits: &Limits) -> Result<(), Refused> {
    for (shown, text) in carriers {
        let Some(corrected) = carriers::corrected(shown, text, limits) else {
            continue;
        };
        let name = Path::new(shown)
            .file_name()
            .unwrap_or(OsStr::new("stdin.yaml"));
        let path = directory.join(name);
        let written = fs::create_dir_all(directory).and_then(|()| match path.exists() {
            true => Err(std::io::Error::other(
                "it is there already; name a new directory",
            )),
            false => replace(&path, corrected.as_bytes(), 0o600, Durability::Volatile),
        });
        if let Err(error) = written {
            let message = format!("{}: cannot be written: {error}", path.display());
            return Err((Exit::Usage, vec![message]));
        }
        eprintln!("windrow: {shown}, corrected, is {}", path.display());
    }
    Ok(())
}

/// Would every component start with the gates that the configuration sets?
fn gates(configuration: &[Extracted], version: Option<Version>) -> Vec<Finding> {
    let files: Vec<Rke2File> = configuration
        .iter()
        .filter(|file| file.path.starts_with("/etc/rancher/rke2/") && is_read(&file.path))
        .map(|file| Rke2File {
            place: match file.path.contains("/config.yaml.d/") {
                true => Place::DropIn,
                false => Place::Main,
            },
            path: file.path.clone(),
            text: String::from_utf8_lossy(&file.content).into_owned(),
            shown: file.source.clone(),
            lines: file.lines,
        })
        .collect();
    if files.is_empty() {
        return Vec::new();
    }
    let target = version.map_or(Target::Unknown, Target::Known);
    assess(&merge(&files), None, &target).findings
}

fn print(rehearsal: &Rehearsal, output: Output) -> anyhow::Result<()> {
    use std::io::Write as _;
    let text = match output {
        Output::Text => render::rehearsal(rehearsal, style()),
        Output::Json => serde_json::to_string_pretty(rehearsal)? + "\n",
        Output::Html => render::page(rehearsal),
    };
    match std::io::stdout().write_all(text.as_bytes()) {
        // `windrow rehearse | head` is no error.
        Err(error) if error.kind() == std::io::ErrorKind::BrokenPipe => Ok(()),
        result => Ok(result?),
    }
}

/// The Addons of all nodes: every server applies its own files, and Addons are the cluster's.
#[derive(Default)]
struct Addons {
    known: BTreeMap<String, Vec<(String, String, String)>>,
}

impl Addons {
    fn take(&mut self, node: &str, files: &[Input]) {
        for file in files {
            let name = Path::new(&file.manifest.path)
                .file_name()
                .and_then(|name| name.to_str())
                .unwrap_or_default();
            let addon = crate::manifest::addon_name(name).to_owned();
            self.known.entry(addon).or_default().push((
                node.to_owned(),
                file.manifest.digest.clone(),
                file.shown.file.clone(),
            ));
        }
    }

    fn findings(&self) -> Vec<Finding> {
        let differ = |files: &[(String, String, String)]| {
            let mut others = files.iter().skip(1);
            others.any(|(node, digest, _)| *node != files[0].0 && *digest != files[0].1)
        };
        self.known
            .iter()
            .filter(|(_, files)| differ(files))
            .map(|(addon, files)| {
                let mut nodes: Vec<&str> = files.iter().map(|(node, ..)| node.as_str()).collect();
                nodes.dedup();
                Finding {
                    incident: None,
                    code: Code::ServersDisagree,
                    severity: Code::ServersDisagree.severity(),
                    message: Code::ServersDisagree
                        .say(&[("name", addon), ("nodes", &nodes.join(" and "))]),
                    at: files
                        .iter()
                        .map(|(_, _, shown)| crate::rules::Location::file(shown))
                        .collect(),
                }
            })
            .collect()
    }
}
