//! `windrow gates`: which feature gates are set, by whom, and whether the components start with them.

mod oracle;
mod trial;

use std::fs;
use std::path::{Path, PathBuf};

use windrow_decide::settings::{self, ConfigFileRole, ConfigFiles};
use windrow_gates::{
    Component, DROP_IN, GateRequest, ResolvedVersion, TargetVersion, Trial, TrialStatus, assess,
    check, drop_in, resolve,
};
use windrow_model::manifest::extract::{Extraction, FileKind, extract, kind_of};
use windrow_model::manifest::user_data::{self, OpenedFile};
use windrow_model::manifest::{Problem, ReadLimits, yaml};
use windrow_model::reasons::Code;
use windrow_plan::rke2::config::{ConfigLayer, Rke2ConfigFile, is_read, merge};
use windrow_plan::version::Version;

use super::document::now;
use super::inputs::{
    STANDARD_INPUT, carried_configuration, is_standard_input, other_configurations,
    say_if_ambiguous, say_notes, standard_input,
};
use super::{Context, Exit, style};
use crate::act::StateFile;
use crate::apiserver::ApiServer;
use crate::configuration;
use crate::daemon::gates::hook;
use crate::files::read_bytes;
use crate::layout::Layout;
use crate::observe::effect;
use crate::observe::rke2::{FoundConfigFiles, candidates, config_files};
use crate::render::GatesReport;
use crate::report::journal;

/// Check feature gates before they keep a component from starting, and show what is set
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    #[command(subcommand)]
    verb: GatesVerb,
}

#[derive(Debug, clap::Subcommand)]
enum GatesVerb {
    /// Would every component start? Everything that is wrong is said at once
    Check(LookArgs),
    /// Show which gates are set, and where each comes from
    Show(LookArgs),
    /// Try what the configuration asks for on the running server: rke2-server is restarted, and
    /// everything put back when kube-apiserver does not come up with it
    Apply(ApplyArgs),
    /// Put back what was in force before the last change, or end the trial that is under way
    Rollback(RollbackArgs),
    /// Take out of Windrow's drop-in what the RKE2 that is about to start would refuse (systemd runs
    /// this before each of its starts)
    #[command(hide = true)]
    Settle,
}

#[derive(Debug, clap::Args)]
struct LookArgs {
    /// Directories of RKE2 drop-ins, single configuration files, Harvester configurations, cloud-init
    /// user-data, yip files, or `-`; the node's own configuration when none is given
    #[arg(value_name = "PATH")]
    paths: Vec<PathBuf>,
    /// The version that will start, such as v1.35 or v1.35.6+rke2r1; found out when it is not given
    #[arg(long, value_name = "VERSION")]
    target: Option<Version>,
    /// Output format
    #[arg(short, long, value_enum, default_value_t = Output::Table)]
    output: Output,
}

#[derive(Debug, clap::Args)]
struct ApplyArgs {
    /// Try gates that the check refuses, too: the trial shows whether it was right
    #[arg(long)]
    force: bool,
    /// Do not ask whether rke2-server may be restarted
    #[arg(short, long)]
    yes: bool,
}

#[derive(Debug, clap::Args)]
struct RollbackArgs {
    /// Do not ask whether rke2-server may be restarted
    #[arg(short, long)]
    yes: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum Output {
    Table,
    Json,
}

pub(super) fn run(args: Args, context: &Context) -> anyhow::Result<Exit> {
    let (look, shows) = match args.verb {
        GatesVerb::Check(look) => (look, false),
        GatesVerb::Show(look) => (look, true),
        GatesVerb::Apply(apply) => return trial::apply(&apply, context),
        GatesVerb::Rollback(rollback) => return trial::rollback(&rollback, context),
        GatesVerb::Settle => return Ok(before_start(&context.layout)),
    };
    let inputs = if look.paths.is_empty() {
        GateInputs::node(&context.layout)
    } else {
        GateInputs::gather(&look.paths)
    };
    if let Some(exit) = inputs.refused() {
        return Ok(exit);
    }
    let resolved = match look.target {
        Some(version) => ResolvedVersion {
            target: TargetVersion::Known(version),
            because: "named on the command line".to_owned(),
        },
        None if look.paths.is_empty() => found_out(&context.layout, &inputs.data_dir)?,
        None => ResolvedVersion {
            target: TargetVersion::Unknown,
            because: "name it with --target".to_owned(),
        },
    };
    let on_node = look.paths.is_empty();
    let data_dir = inputs.data_dir.clone();
    let not_looked_at = inputs.not_looked_at;
    let mut report = judge(inputs, &resolved);
    if on_node {
        confirm(context, &data_dir, &resolved, &mut report)?;
    }
    if shows && on_node {
        observe(context, &data_dir, &mut report)?;
    }
    let text = match look.output {
        Output::Table => report.to_table(style()),
        Output::Json => report.to_json(),
    };
    print(&text)?;
    Ok(match report.starts {
        _ if shows => Exit::Ok,
        Some(true) if not_looked_at => Exit::Unknown,
        Some(true) => Exit::Ok,
        Some(false) => Exit::Failed,
        None => Exit::Unknown,
    })
}

/// What is done before each start of RKE2. It must never keep RKE2 from starting, so it never fails.
fn before_start(layout: &Layout) -> Exit {
    journal::start(journal::EVERYTHING);
    for event in &hook::before_start(layout, now()) {
        journal::write_event(event);
    }
    Exit::Ok
}

fn found_out(layout: &Layout, data_dir: &str) -> anyhow::Result<ResolvedVersion> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?;
    let mut found = runtime.block_on(candidates(layout, data_dir));
    // As the daemon has last seen it.
    found.upgrade = StateFile::Upgrade.recall(layout).unwrap_or_default();
    Ok(resolve(&found))
}

/// Adds what the running components say, as far as the caller's rights reach.
fn observe(context: &Context, data_dir: &str, report: &mut GatesReport) -> anyhow::Result<()> {
    let layout = context.layout.clone().with_data_dir(data_dir);
    let kubeconfig = layout.admin_kubeconfig();
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?;
    let api = ApiServer::new();
    for component in Component::ALL {
        let observed = runtime.block_on(async {
            let client = effect::client(&api, &kubeconfig, component).await?;
            effect::observed(&client).await
        });
        let pod = effect::pod(&layout, component);
        report.observe(component, observed, pod.as_ref());
    }
    // One that cannot be read is the daemon's to complain about.
    let trial: Option<Trial> = StateFile::Trial.recall(&layout).unwrap_or_default();
    let own = layout.gates_drop_in().display().to_string();
    report.trial = trial.map(|trial| TrialStatus::new(&trial, &own, None));
    Ok(())
}

/// What the node's configuration would do.
fn node_report(context: &Context) -> anyhow::Result<Result<GatesReport, Exit>> {
    let inputs = GateInputs::node(&context.layout);
    if let Some(exit) = inputs.refused() {
        return Ok(Err(exit));
    }
    let resolved = found_out(&context.layout, &inputs.data_dir)?;
    let data_dir = inputs.data_dir.clone();
    let mut report = judge(inputs, &resolved);
    confirm(context, &data_dir, &resolved, &mut report)?;
    Ok(Ok(report))
}

fn confirm(
    context: &Context,
    data_dir: &str,
    resolved: &ResolvedVersion,
    report: &mut GatesReport,
) -> anyhow::Result<()> {
    let layout = context.layout.clone().with_data_dir(data_dir);
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?;
    runtime.block_on(oracle::confirm(&layout, resolved, report));
    Ok(())
}

/// What the files do once Windrow's drop-in is among them.
fn judge(inputs: GateInputs, resolved: &ResolvedVersion) -> GatesReport {
    let GateInputs {
        mut files,
        requests,
        own,
        ..
    } = inputs;
    let on_node = own.is_some();
    let own = own.unwrap_or_else(|| DROP_IN.to_owned());
    // What lies there of Windrow's was written for what was asked for then.
    if on_node || !requests.is_empty() {
        files.retain(|file| file.name() != DROP_IN);
    }
    let planned = drop_in(&requests, &resolved.target, &merge(&files));
    if let Some(content) = &planned.content {
        files.push(Rke2ConfigFile::new(
            ConfigLayer::DropIn,
            own.clone(),
            content.clone(),
        ));
    }
    let mut assessment = assess(&merge(&files), Some(&own), &resolved.target);
    for finding in check(&requests, &resolved.target) {
        // Said of a request it is said with the reason and the place a person wrote it at.
        if !assessment.findings.contains(&finding) {
            assessment.findings.push(finding);
        }
    }
    assessment
        .findings
        .retain(|finding| finding.at.is_empty() || finding.at.iter().any(|at| at.file != own));
    GatesReport::new(resolved, &assessment, &planned, &own)
}

/// The configuration that is looked at.
#[derive(Default)]
struct GateInputs {
    files: Vec<Rke2ConfigFile>,
    requests: Vec<GateRequest>,
    /// Where Windrow's drop-in is, or would be.
    own: Option<String>,
    data_dir: String,
    /// What cannot be read or used at all.
    errors: Vec<String>,
    /// Is there something that was not looked at?
    not_looked_at: bool,
    /// Windrow's own configuration, and what is wrong with it.
    settings: ConfigFiles,
    wrong: Vec<String>,
}

impl GateInputs {
    fn node(layout: &Layout) -> Self {
        let FoundConfigFiles { files, errors } = config_files(layout);
        let loaded = configuration::load(layout);
        Self {
            files,
            requests: loaded.settings.feature_gates,
            own: Some(layout.rke2_config_dir().join(DROP_IN).display().to_string()),
            data_dir: loaded.settings.data_dir,
            errors,
            wrong: loaded.errors.iter().map(ToString::to_string).collect(),
            ..Self::default()
        }
    }

    fn gather(paths: &[PathBuf]) -> Self {
        let mut inputs = Self::default();
        for path in paths {
            if is_standard_input(path) {
                match standard_input(ReadLimits::default().file_bytes) {
                    Ok(bytes) => inputs.text(STANDARD_INPUT.to_owned(), bytes, ConfigLayer::DropIn),
                    Err(error) => inputs.errors.push(error),
                }
            } else if path.is_dir() {
                inputs.directory(path);
            } else {
                inputs.file(path);
            }
        }
        let loaded = settings::merge(std::mem::take(&mut inputs.settings));
        inputs.requests = loaded.settings.feature_gates;
        let wrong = loaded.errors.iter().map(ToString::to_string);
        inputs.wrong.extend(wrong);
        inputs
    }

    /// A directory of drop-ins, or one that holds `config.yaml` and `config.yaml.d` as
    /// `/etc/rancher/rke2` does.
    fn directory(&mut self, path: &Path) {
        let mut found = FoundConfigFiles::default();
        let below = path.join("config.yaml.d");
        let whole = below.is_dir();
        if whole {
            let main = path.join("config.yaml");
            if fs::symlink_metadata(&main).is_ok() {
                found.file(ConfigLayer::Main, &main);
            }
            found.drop_ins(&below);
        } else {
            found.drop_ins(path);
            for file in &mut found.files {
                if file.name() == "config.yaml" {
                    file.place = ConfigLayer::Main;
                }
            }
        }
        self.errors.extend(found.errors);
        for file in found.files {
            self.text(file.path, file.text.into_bytes(), file.place);
        }
        let read_above = |name: &str| match whole {
            true => name == "config.yaml",
            false => is_read(name),
        };
        for (path, bytes) in other_configurations(path, read_above) {
            self.text(path.display().to_string(), bytes, ConfigLayer::DropIn);
        }
    }

    fn file(&mut self, path: &Path) {
        let shown = path.display().to_string();
        let place = match path.file_name().is_some_and(|name| name == "config.yaml") {
            true => ConfigLayer::Main,
            false => ConfigLayer::DropIn,
        };
        match read_bytes(path) {
            Ok(bytes) => self.text(shown, bytes, place),
            Err(error) => self
                .errors
                .push(format!("{shown}: cannot be read: {error}")),
        }
    }

    /// A file, or what came from standard input; what it is, it says itself.
    fn text(&mut self, shown: String, bytes: Vec<u8>, place: ConfigLayer) {
        let bytes = match user_data::open(&shown, bytes, &ReadLimits::default()) {
            OpenedFile::Text(bytes) => bytes,
            OpenedFile::Wrapped(found) => {
                say_notes(&found);
                self.problems(&found.shown, &found.problems);
                let extractions = found.extract(&ReadLimits::default());
                for (part, extraction) in found.parts.iter().zip(extractions) {
                    self.carried(&part.shown, &part.text, extraction);
                }
                return;
            }
        };
        let Ok(text) = String::from_utf8(bytes) else {
            self.errors
                .push(format!("{shown}: cannot be read: it is not UTF-8 text"));
            return;
        };
        let mut file = Rke2ConfigFile::new(place, shown, text);
        if kind_of(&file.text) != FileKind::Manifests {
            let extraction = extract(&file.shown, &file.text, &ReadLimits::default());
            return self.carried(&file.shown, &file.text, extraction);
        }
        if asks_for_gates(&file.text) {
            return self.setting(file.shown, file.text);
        }
        if file.shown == STANDARD_INPUT {
            "stdin.yaml".clone_into(&mut file.path);
        }
        match is_read(file.name()) {
            true => self.files.push(file),
            false => self.errors.push(format!(
                "{}: RKE2 reads only names that end in .yaml or .yml",
                file.path
            )),
        }
    }

    /// Takes what is wrong with a file that carries configuration.
    fn problems(&mut self, shown: &str, problems: &[Problem]) {
        for problem in problems {
            let line = problem
                .line
                .map_or(String::new(), |line| format!(":{line}"));
            let message = &problem.message;
            match problem.code {
                // A manifest sets no gates.
                Code::PathNotRead => {}
                Code::KeyNotRead => self.errors.push(format!("{shown}{line}: {message}")),
                Code::UserDataIgnored => eprintln!("windrow: {shown}{line}: {message}"),
                Code::NotLookedAt => {
                    eprintln!("windrow: {shown}{line}: {message}");
                    self.not_looked_at = true;
                }
                // The reader's words can quote a line, and these files hold secrets.
                _ => self.errors.push(format!(
                    "{shown}{line}: cannot be read here; `windrow plan` says why"
                )),
            }
        }
    }

    /// Takes the configuration out of a file that carries it.
    fn carried(&mut self, shown: &str, text: &str, extraction: Extraction) {
        say_if_ambiguous(shown, text);
        self.problems(shown, &extraction.problems);
        self.problems(shown, &extraction.configuration_problems);
        let own = carried_configuration(&extraction.configuration);
        let settings = own
            .into_iter()
            .filter(|file| file.role == ConfigFileRole::Settings);
        self.settings.files.extend(settings);
        for inner in extraction.configuration {
            let Ok(text) = String::from_utf8(inner.content) else {
                self.errors
                    .push(format!("{shown}: {} is not UTF-8 text", inner.path));
                continue;
            };
            let place = match inner.path.strip_prefix("/etc/rancher/rke2/") {
                Some("config.yaml") => Some(ConfigLayer::Main),
                Some(below) if below.starts_with("config.yaml.d/") => Some(ConfigLayer::DropIn),
                _ => None,
            };
            if let Some(place) = place {
                self.files.push(Rke2ConfigFile {
                    place,
                    path: inner.path,
                    shown: inner.source,
                    text,
                    lines: inner.lines,
                });
            }
        }
    }

    fn setting(&mut self, shown: String, text: String) {
        let name = shown.rsplit('/').next().unwrap_or(&shown).to_owned();
        self.settings.files.push(settings::ConfigFile {
            role: ConfigFileRole::Settings,
            name,
            path: shown.into(),
            text,
        });
    }

    /// Says what cannot be used, if anything.
    fn refused(&self) -> Option<Exit> {
        for line in self.errors.iter().chain(&self.wrong) {
            eprintln!("windrow: {line}");
        }
        if !self.errors.is_empty() {
            return Some(Exit::Usage);
        }
        (!self.wrong.is_empty()).then_some(Exit::Configuration)
    }
}

/// Is it Windrow's own configuration, with gates in it?
fn asks_for_gates(text: &str) -> bool {
    matches!(yaml::parse(text, 1, &ReadLimits::default()), Ok(Some(root)) if root.get("featureGates").is_some())
}

fn print(text: &str) -> anyhow::Result<()> {
    use std::io::Write as _;
    match std::io::stdout().write_all(text.as_bytes()) {
        // `windrow gates show | head` is no error.
        Err(error) if error.kind() == std::io::ErrorKind::BrokenPipe => Ok(()),
        result => Ok(result?),
    }
}
