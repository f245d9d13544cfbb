//! `windrow report`: the node's state and its causes, without secrets, in one archive for support staff who cannot log
//! in.

use std::collections::BTreeSet;
use std::io::{IsTerminal as _, Write as _};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use anyhow::{Context as _, bail};
use serde_json::{Value, json};
use windrow_decide::Ledger;
use windrow_model::manifest::{ManifestFile, Object, read_each};
use windrow_plan::rules::parse_duration;

use super::document::{self, FoundStatus, now};
use super::inputs::{self, Input};
use super::out::stdout;
use super::{Context, Exit, config, plan};
use crate::apiserver::ApiServer;
use crate::archive::{ArchiveOwner, Collected, CollectedContent, CollectedItem, ReportIndex, pack};
use crate::daemon::node_findings::read_own_node;
use crate::files::{Durability, read_text, replace};
use crate::fs;
use crate::inspect::collect::{Wanted, collect};
use crate::layout::Layout;
use crate::observe::scan::{FileStamps, ScanResult, scan};
use crate::render::PlanReport;

/// Maximum size of a foreign marker in the report, in bytes.
const FOREIGN_MARKER: u64 = 64 << 10;

/// Collect the node's state in one archive, without secrets
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    /// The file to write: an archive; `-` is standard output [default: windrow-report-HOST-TIME.tar.gz here]
    #[arg(long, value_name = "FILE")]
    output_file: Option<PathBuf>,
    /// Also include the manifests, not only a list of their objects; Secrets without their data
    #[arg(long)]
    with_manifests: bool,
    /// The cluster's kubeconfig [default: the node's own]. With --root, Windrow only contacts the cluster if you set this option
    #[arg(long, value_name = "FILE")]
    kubeconfig: Option<PathBuf>,
    /// Maximum time to collect, at most 1h; the archive omits anything that takes longer. A number without a unit is in seconds
    #[arg(long, value_name = "DURATION", default_value = "2m", value_parser = patience)]
    timeout: Duration,
}

fn patience(text: &str) -> Result<Duration, String> {
    let patience = match text.parse() {
        Ok(seconds) => Duration::from_secs(seconds),
        Err(_) => parse_duration(text)?,
    };
    match (1..=3600).contains(&patience.as_secs()) {
        true => Ok(patience),
        false => Err("write a duration from 1s to 1h".to_owned()),
    }
}

pub(super) fn run(args: Args, context: &Context) -> anyhow::Result<Exit> {
    let standard = args.output_file.as_deref() == Some(Path::new("-"));
    if standard && stdout().is_terminal() {
        eprintln!(
            "windrow: the archive cannot be written to a terminal: set a file with --output-file, or redirect the output"
        );
        return Ok(Exit::Usage);
    }
    let head = ArchiveOwner {
        host: host(&context.layout),
        created: now(),
    };
    let began = Instant::now();
    let mut progress = |what: &str| eprintln!("[{:>3} s] {what}", began.elapsed().as_secs());
    let mut collected = Collected::default();
    progress("the state of Windrow");
    let plain = own(context, &mut collected);
    let settings = context.settings().settings;
    let layout = context.layout.clone().with_data_dir(&settings.data_dir);
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?;
    let own = read_own_node(&layout, &settings.staging.limits, now());
    let secret_files = settings.status_server.secret_files();
    let wanted = Wanted {
        secret_files: secret_files.map(|file| layout.path(file)).collect(),
        own: runtime.block_on(own),
        plain,
        layout,
        live: context.layout.is_this_machine(),
        kubeconfig: args.kubeconfig,
        manifests: args.with_manifests,
        patience: args.timeout,
    };
    let api = match wanted.kubeconfig {
        Some(_) => ApiServer::for_person(&context.layout),
        None => ApiServer::for_verb(&context.layout),
    };
    runtime.block_on(collect(&api, &wanted, &mut collected, &mut progress));
    progress("removing secrets");
    let mut bytes = Vec::new();
    let index = pack(collected, &head, &mut bytes)?;
    if standard {
        stdout().lock().write_all(&bytes)?;
        stdout().flush()?;
        summary(&index, bytes.len(), "standard output");
        return Ok(Exit::Ok);
    }
    let path = args
        .output_file
        .unwrap_or_else(|| PathBuf::from(format!("{}.tar.gz", head.name())));
    write(&path, &bytes)?;
    summary(&index, bytes.len(), &path.display().to_string());
    println!("{}", path.display());
    Ok(Exit::Ok)
}

fn write(path: &Path, bytes: &[u8]) -> anyhow::Result<()> {
    if fs::is_dir(path) {
        bail!("{} is a directory: set a file", path.display());
    }
    // `x.tar.gz` without a directory is in the working directory.
    let whole = match path.parent() {
        Some(above) if above.as_os_str().is_empty() => Path::new(".").join(path),
        _ => path.to_owned(),
    };
    replace(&whole, bytes, 0o600, Durability::Durable).with_context(|| {
        format!(
            "cannot write {}: set another file with -o, or `-` for standard output",
            path.display()
        )
    })
}

fn summary(index: &ReportIndex, bytes: usize, place: &str) {
    eprintln!(
        "{place}: {} files, {} KiB, {} secrets removed",
        index.files.len(),
        bytes.div_ceil(1024),
        index.redacted
    );
    for missing in &index.missing {
        eprintln!("missing: {}: {}", missing.what, missing.why);
    }
    eprintln!(
        "Check the archive before you send it: `tar -xzf` unpacks it, and report.json lists its contents."
    );
}

/// The host's name, from the kernel.
fn host(layout: &Layout) -> String {
    fs::read_to_string(layout.path("/proc/sys/kernel/hostname"))
        .map(|name| name.trim().to_owned())
        .unwrap_or_default()
}

fn add(into: &mut Collected, path: &str, what: &str, tree: Value) {
    into.items.push(CollectedItem {
        path: path.to_owned(),
        what: what.to_owned(),
        source: format!("windrow {}", env!("CARGO_PKG_VERSION")),
        content: CollectedContent::Tree(tree),
        truncated: false,
    });
}

/// Windrow's own part: status, plan, settings, manifests, markers and versions. Returns the SHA-256 of each manifest
/// without a Secret.
fn own(context: &Context, into: &mut Collected) -> BTreeSet<String> {
    let mut plain = BTreeSet::new();
    match document::current(context) {
        FoundStatus::Current(status) => {
            add(into, "status.json", "the status document", json!(status))
        }
        FoundStatus::Stale { why, last, .. } => {
            if let Some(last) = last {
                let what = "the last status document, which is not current";
                add(into, "status.json", what, json!(last));
            }
            into.missing("the current status document", why);
        }
    }
    let loaded = context.settings();
    let (tree, what) = (
        config::json(&loaded),
        "the configuration with the source of each value",
    );
    add(into, "settings.json", what, tree);
    let manifests = context.manifests();
    if fs::exists(&manifests) {
        let found = inputs::node(context, &loaded.settings.staging.limits);
        for error in &found.errors {
            into.missing("a manifest", error.as_str());
        }
        let mut secret = BTreeSet::new();
        let mut files = Vec::new();
        for input in &found.files {
            let (file, shown) = manifest(input);
            match shown.get("sha256").is_some() {
                true => _ = plain.insert(file.sha256.to_string()),
                // A short secret could be guessed from a digest.
                false => {
                    into.learner.secret(&file.sha256);
                    into.learner.secret(&file.digest);
                    secret.insert(file.path.to_string());
                }
            }
            files.push(shown);
        }
        learn_earlier_digests(context, &secret, into);
        add(
            into,
            "manifests.json",
            "the manifests with their objects",
            json!(files),
        );
        match plan::plan_node(context, &loaded, found) {
            Ok(plan) => add(
                into,
                "plan.json",
                "the plan",
                json!(PlanReport::from_plan(&plan)),
            ),
            Err(errors) => {
                let errors: Vec<String> = errors.iter().map(ToString::to_string).collect();
                into.missing("the plan", errors.join("; "));
            }
        }
        let markers = markers(&manifests, &loaded.settings.staging.limits);
        add(into, "markers.json", "the .skip markers", markers);
    } else {
        let why = format!("there is no {}", manifests.display());
        into.missing("manifests, plan, markers", why);
    }
    let versions = json!({"windrow": env!("CARGO_PKG_VERSION"), "arch": std::env::consts::ARCH});
    add(into, "versions.json", "versions", versions);
    plain
}

/// The digests of earlier contents of the files, from the state file.
fn learn_earlier_digests(context: &Context, of: &BTreeSet<String>, into: &mut Collected) {
    let text = read_text(&context.layout.ledger()).unwrap_or_default();
    let ledger: Ledger = serde_json::from_str(&text).unwrap_or_default();
    for (path, entry) in &ledger.files {
        if of.contains(path.as_str()) {
            into.learner.secret(&entry.digest);
        }
    }
}

fn manifest(input: &Input) -> (ManifestFile, Value) {
    let (mut objects, mut has_secret) = (Vec::new(), false);
    let mut visit = |object: &Object| {
        has_secret |= object.id.kind == "Secret";
        objects.push(json!({"object": object.id, "version": object.version, "line": object.line}));
    };
    let file = read_each(&input.path, &input.content, &input.limits, &mut visit);
    let problems: Vec<Value> = file
        .problems
        .iter()
        .map(|one| json!({"code": one.code, "line": one.line, "message": one.message}))
        .collect();
    let mut tree = json!({
        "path": file.path,
        "addon": file.path.addon(),
        "objects": objects,
        "problems": problems,
    });
    // A short secret could be guessed from a digest.
    if !has_secret {
        tree["sha256"] = json!(file.sha256);
        tree["digest"] = json!(file.digest);
    }
    (file, tree)
}

/// The content of a foreign marker, if it is a few lines of text.
fn foreign(path: &Path) -> Option<String> {
    let found = fs::symlink_metadata(path).ok()?;
    // A link may lead to a file that must not be in a report.
    let plain = found.is_file() && found.len() <= FOREIGN_MARKER;
    plain.then(|| read_text(path).ok()).flatten()
}

fn markers(manifests: &Path, limits: &windrow_model::manifest::ReadLimits) -> Value {
    let ScanResult::Found(found) = scan(manifests, limits, &FileStamps::new(), now()) else {
        return Value::Null;
    };
    found
        .markers
        .iter()
        .map(|marker| {
            let said = match &marker.mark {
                Some(mark) => json!({"mark": mark}),
                None => json!({"text": foreign(&manifests.join(marker.path.as_str()))}),
            };
            let mut told = json!({"path": marker.path, "hides": marker.path.hides()});
            if let (Some(told), Value::Object(said)) = (told.as_object_mut(), said) {
                told.extend(said);
            }
            told
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_time_out_is_a_duration_or_a_number_of_seconds() {
        for (text, seconds) in [("120", 120), ("2m", 120), ("1h", 3600), ("1s", 1)] {
            assert_eq!(patience(text), Ok(Duration::from_secs(seconds)), "{text}");
        }
        for wrong in ["0", "3601", "500ms", "2h", "", "soon", "-1"] {
            assert!(patience(wrong).is_err(), "{wrong}");
        }
    }
}
