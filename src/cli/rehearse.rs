//! `windrow rehearse`: a boot before the image is burned.

mod fleet;

use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use fleet::{Cluster, Laid, ReadNode, together};
use jiff::Timestamp;
use windrow_decide::settings::{self, ConfigFiles};
use windrow_gates::{Target, Version, assess};
use windrow_harvester::HarvesterVersion;
use windrow_model::manifest::extract::Extracted;
use windrow_model::manifest::{Content, Limits};
use windrow_plan::rke2::config::merge;
use windrow_plan::rules::{Platform, parse_duration};
use windrow_plan::{Finding, examine_content, link};
use windrow_simulate::rehearse::fix::{Lacking, Source, corrected};
use windrow_simulate::rehearse::guesses::guesses;
use windrow_simulate::rehearse::membership::{Membership, membership};
use windrow_simulate::rehearse::proofs::{Given, asked, image_list, lacking, not_bundled, proofs};
use windrow_simulate::rehearse::{Ended, Part, Rehearsal, carriers, modelled};
use windrow_simulate::{DirectoryChange, Scenario, Setup, SimulatedDirectory};

use super::inputs::{self, ForeignMarker, Input, Inputs, rke2_files, skipped_by};
use super::{Context, Exit, complain, style};
use crate::files::{Durability, read_text, replace};
use crate::render;

/// 2026-01-01T00:00:00Z: a rehearsal is the same whenever it is held.
const POWER_ON: Timestamp = Timestamp::constant(1_767_225_600, 0);

/// What cloud-init and yip write when units have started already is there after so long, and up to so
/// much later. Modelled.
const LATE: (Duration, Duration) = (Duration::from_secs(10), Duration::from_secs(50));

/// Rehearse a boot in simulated time, with Windrow and without it
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    /// Harvester configurations, cloud-init user-data, yip files, manifests or directories of them,
    /// or `-`: together one node
    #[arg(value_name = "CONFIG", required_unless_present = "node")]
    paths: Vec<PathBuf>,
    /// One of several nodes of a cluster and its configuration; once for each file of it
    #[arg(long, value_name = "NAME=CONFIG", value_parser = node, conflicts_with = "paths")]
    node: Vec<(String, PathBuf)>,
    /// Harvester's version [default: the newest that is modelled, where a Harvester configuration is
    /// given]
    #[arg(long, value_name = "VERSION")]
    harvester: Option<HarvesterVersion>,
    /// RKE2's version: feature gates are checked against it, and up to 1.35 it rewrites HelmCharts
    /// [default: that of --harvester]
    #[arg(long, value_name = "VERSION")]
    rke2: Option<Version>,
    /// Restart a node (the first one, or the one that is named) so long after power-on; can be
    /// repeated
    #[arg(long, value_name = "[NODE=]TIME", value_parser = reboot)]
    reboot: Vec<(Option<String>, Duration)>,
    /// A directory or file with further rule packs; can be repeated
    #[arg(long, value_name = "DIR")]
    rules: Vec<PathBuf>,
    /// A list of the images of an air-gapped bundle, one image a line: every image that is in no list
    /// is a finding; can be repeated
    #[arg(long, value_name = "FILE")]
    images: Vec<PathBuf>,
    /// Write a corrected copy of all files into this directory, where correcting is mechanical
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

fn reboot(text: &str) -> Result<(Option<String>, Duration), String> {
    let (node, after) = match text.split_once('=') {
        Some((node, after)) => (Some(node.to_owned()), after),
        None => (None, text),
    };
    parse_duration(after)
        .map(|after| (node, after))
        .map_err(|_| format!("`{after}` is not a duration; write it like 20m"))
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
    let mut read = Vec::new();
    for (name, paths) in nodes {
        match one(&args, &name, &paths) {
            Ok(node) => read.push(node),
            Err((exit, errors)) => {
                complain(&errors);
                return Ok(exit);
            }
        }
    }
    let Cluster {
        setup,
        nodes,
        findings,
    } = match together(read, &args.reboot) {
        Ok(cluster) => cluster,
        Err(error) => {
            complain(&[error]);
            return Ok(Exit::Usage);
        }
    };
    let mut rehearsed = play(&setup, args.seeds).nodes(&setup, args.seeds, nodes);
    for node in &mut rehearsed {
        node.beyond.extend(args.rke2.and_then(modelled::rke2));
    }
    let rehearsal = Rehearsal::of(rehearsed, findings);
    print(&rehearsal, args.output)?;
    Ok(match rehearsal.worst() {
        Ended::Complete => Exit::Ok,
        Ended::Unknown => Exit::Unknown,
        _ => Exit::Failed,
    })
}

fn name_of(paths: &[PathBuf]) -> String {
    let names: Vec<String> = paths
        .iter()
        .map(|path| path.display().to_string())
        .collect();
    names.join(", ")
}

/// All seeds, on every processor. What comes of it is the same on any number of them.
fn play(setup: &Setup, seeds: u64) -> Part {
    let workers = std::thread::available_parallelism().map_or(1, |count| count.get() as u64);
    let each = seeds.div_ceil(workers).max(1);
    let ranges: Vec<_> = (0..workers)
        .map(|worker| worker * each + 1..=((worker + 1) * each).min(seeds))
        .filter(|range| !range.is_empty())
        .collect();
    std::thread::scope(|scope| {
        let parts: Vec<_> = ranges
            .into_iter()
            .map(|range| scope.spawn(|| Part::of(setup, range)))
            .collect();
        let mut all: Option<Part> = None;
        for part in parts {
            let part = match part.join() {
                Ok(part) => part,
                Err(panic) => std::panic::resume_unwind(panic),
            };
            match &mut all {
                Some(all) => all.merge(part),
                None => all = Some(part),
            }
        }
        all.unwrap_or_else(|| Part::of(setup, 1..=seeds))
    })
}

fn one(args: &Args, name: &str, paths: &[PathBuf]) -> Result<ReadNode, Refused> {
    // What is on this machine has nothing to do with the node: only what its own files say counts.
    let limits = settings::Settings::default().staging.limits;
    let Inputs {
        files,
        harvester,
        preset,
        storage_network,
        carriers,
        configuration,
        markers,
        parts,
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
    let manifests: Vec<_> = files.iter().map(Input::manifest).collect();
    let examined: Vec<_> = files
        .iter()
        .map(|file| {
            let (content, shown) = (&file.content, file.shown.clone());
            let examined = examine_content(
                &file.path,
                content,
                &file.limits,
                shown,
                &rules,
                Some(platform),
            );
            Arc::new(examined.skipped_by(skipped_by(&markers, &file.path)))
        })
        .collect();
    let plan = link(&examined, &rules, Some(platform));
    let mut disabled = Vec::new();
    for (shown, text) in &carriers {
        findings.extend(carriers::findings(shown, text, &limits));
        disabled.extend(carriers::disabled(shown, text, &limits));
    }
    disabled.extend(markers.iter().filter_map(ForeignMarker::disables));
    let images = images(&args.images)?;
    let shown = |file: &Input| skipped_by(&markers, &file.path).is_none();
    let read: Vec<_> = files
        .iter()
        .zip(&manifests)
        .filter(|(file, _)| shown(file))
        .map(|(file, read)| (read, &file.shown))
        .collect();
    let given = Given {
        files: &read,
        plan: &plan,
        disabled: &disabled,
        images: images.as_ref(),
    };
    findings.extend(proofs(&given));
    let lacking = lacking(&given);
    let asked = asked(&read);
    let may_bring = guesses(&plan);
    let cannot_run = images
        .as_ref()
        .map(|images| not_bundled(&read, images))
        .unwrap_or_default();
    findings.extend(plan.findings);
    let rke2 = args
        .rke2
        .or(args.harvester.and_then(HarvesterVersion::rke2));
    findings.extend(gates(&configuration, rke2));
    if let Some(directory) = &args.fix {
        fix(
            directory,
            &sources(&files, &carriers, &parts),
            &findings,
            &lacking,
            &limits,
        )?;
    }
    let laid = files
        .iter()
        .zip(&manifests)
        .filter(|(file, _)| shown(file))
        .map(|(file, read)| Laid::of(file, read))
        .collect();
    let membership = carriers
        .iter()
        .map(|(shown, text)| membership(shown, text, &limits))
        .fold(Membership::default(), Membership::and);
    let mut directory = SimulatedDirectory::new();
    let mut changes = Vec::new();
    for marker in markers {
        directory.put(marker.path, Content::Bytes(Vec::new()), POWER_ON);
    }
    for file in files {
        let path = file.path;
        match file.late {
            None => directory.put(path, file.content, POWER_ON),
            Some(by) => changes.push(DirectoryChange {
                after: LATE.0,
                late: LATE.1,
                by: Some(by),
                path,
                content: Some(file.content),
            }),
        }
    }
    let scenario = match version {
        Some(version) => Scenario::harvester(version, storage_network.as_deref(), POWER_ON),
        None => Scenario::rke2(POWER_ON),
    };
    // Up to 1.35 RKE2 rewrites charts; what runs is taken to do so where nobody says.
    let minor = rke2.or(version.and_then(HarvesterVersion::rke2));
    let setup = Setup {
        scenario: Scenario {
            disabled: disabled.into_iter().map(|(name, _)| name).collect(),
            cannot_run,
            asked,
            may_bring,
            rewrites_charts: minor.is_none_or(Version::rewrites_charts),
            ..scenario
        },
        files: directory,
        changes,
        settings: Arc::new(loaded.settings),
        rules: rules.into(),
        joins: Vec::new(),
    };
    Ok(ReadNode {
        name: name.to_owned(),
        membership,
        laid,
        setup,
        findings,
    })
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

/// The files as a person gave them.
fn sources(files: &[Input], carriers: &[(String, String)], parts: &[String]) -> Vec<Source> {
    for part in parts {
        eprintln!(
            "windrow: {part}: a part of a file cannot be corrected in a copy; mend it by hand"
        );
    }
    let whole = carriers.iter().filter(|(shown, _)| !parts.contains(shown));
    let carried = whole.map(|(shown, text)| Source {
        name: Path::new(shown)
            .file_name()
            .and_then(OsStr::to_str)
            .filter(|_| shown != "standard input")
            .unwrap_or("stdin.yaml")
            .to_owned(),
        shown: shown.clone(),
        text: text.clone(),
        carries: files
            .iter()
            .filter(|file| file.shown.file == *shown)
            .map(|file| file.path.clone())
            .collect(),
    });
    let plain = files
        .iter()
        .filter(|file| carriers.iter().all(|(shown, _)| *shown != file.shown.file))
        .filter_map(|file| match &file.content {
            Content::Bytes(bytes) => Some(Source {
                name: file.path.clone(),
                shown: file.shown.file.clone(),
                text: String::from_utf8_lossy(bytes).into_owned(),
                carries: Vec::new(),
            }),
            _ => None,
        });
    carried.chain(plain).collect()
}

/// Writes what can be corrected; the files themselves stay as they are.
fn fix(
    directory: &Path,
    sources: &[Source],
    findings: &[Finding],
    lacking: &[Lacking],
    limits: &Limits,
) -> Result<(), Refused> {
    let corrected = corrected(sources, findings, lacking, limits);
    for left in &corrected.left {
        eprintln!("windrow: {left}");
    }
    for (name, text) in corrected.files {
        let path = directory.join(&name);
        let above = path.parent().unwrap_or(directory);
        let written = fs::create_dir_all(above).and_then(|()| match path.exists() {
            true => Err(std::io::Error::other(
                "it is there already; name a new directory",
            )),
            false => replace(&path, text.as_bytes(), 0o600, Durability::Volatile),
        });
        if let Err(error) = written {
            let message = format!("{}: cannot be written: {error}", path.display());
            return Err((Exit::Usage, vec![message]));
        }
        let same = |source: &Source| source.name == name && source.text == text;
        if !sources.iter().any(same) {
            eprintln!("windrow: {} is corrected", path.display());
        }
    }
    Ok(())
}

/// Would every component start with the gates that the configuration sets?
fn gates(configuration: &[Extracted], version: Option<Version>) -> Vec<Finding> {
    let files = rke2_files(configuration);
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
        Output::Json => crate::printable::json_pretty(rehearsal)? + "\n",
        Output::Html => render::page(rehearsal),
    };
    match std::io::stdout().write_all(text.as_bytes()) {
        // `windrow rehearse | head` is no error.
        Err(error) if error.kind() == std::io::ErrorKind::BrokenPipe => Ok(()),
        result => Ok(result?),
    }
}
