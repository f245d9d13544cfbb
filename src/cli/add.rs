//! `windrow add`: marker first, manifest second.
//!
//! A manifest that is copied into the directory of a running RKE2 races it: RKE2 may read the file before it is marked,
//! or half of it. Here the marker is in place before the file has a name that RKE2 reads. From then on, the daemon
//! decides.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use windrow_decide::Mark;
use windrow_model::manifest::{
    self, AddonName, FileContent, ManifestPath, MarkerPath, ReadLimits, is_manifest_name,
};
use windrow_model::reasons::{Code, Severity};
use windrow_plan::rke2;

use super::document::{daemon_runs, now};
use super::inputs::{STANDARD_INPUT, is_standard_input, standard_input};
use super::{Context, Exit, complain};
use crate::act::{MarkerOutcome, Markers};
use crate::files::{self, Durability};
use crate::fs;
use crate::observe::scan::ScannedDirectory;
use crate::orders::holds::{list_manifests, marker_of};

/// Add manifests to a running node without a race
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    /// Files to add; each keeps its base name. `-` needs --name
    #[arg(required = true, value_name = "FILE")]
    files: Vec<PathBuf>,
    /// The file name for standard input
    #[arg(long, value_name = "NAME")]
    name: Option<String>,
    /// Also add files that RKE2 would refuse
    #[arg(long)]
    force: bool,
    /// Replace files of the same name with different content
    #[arg(long)]
    replace: bool,
}

struct AddedFile {
    from: PathBuf,
    /// The destination: the manifests directory itself, with the same name.
    path: ManifestPath,
    bytes: Vec<u8>,
}

pub(super) fn run(args: Args, context: &Context) -> anyhow::Result<Exit> {
    let now = now();
    let manifests = context.manifests();
    let limits = context.settings().settings.staging.limits;
    let found = list_manifests(&manifests, now)?;
    let mut errors = Vec::new();
    let files = read_all(&args, &limits, &mut errors);
    for file in &files {
        check(file, &args, &limits, &manifests, &found, &mut errors);
    }
    collisions(&files, &found, &mut errors);
    if !errors.is_empty() {
        complain(&errors);
        eprintln!("windrow: no file was added");
        return Ok(Exit::Failed);
    }
    let runs = daemon_runs(context);
    let mut exit = Exit::Ok;
    for file in &files {
        match put(file, &manifests, &found, now) {
            Ok(said) => println!("{}: {said}", file.path),
            Err(error) => {
                eprintln!("windrow: {}: {error:#}", file.path);
                exit = Exit::Failure;
            }
        }
    }
    if runs.is_err() {
        println!(
            "Windrow's daemon does not run. The files stay held until you start it (systemctl start windrow), or \
             until you run `windrow release FILE`."
        );
    }
    Ok(exit)
}

fn read_all(args: &Args, limits: &ReadLimits, errors: &mut Vec<String>) -> Vec<AddedFile> {
    let mut files = Vec::new();
    if args.name.is_some() && !args.files.iter().any(|path| is_standard_input(path)) {
        errors.push("--name only works with standard input (`-`)".to_owned());
    }
    for path in &args.files {
        let shown = path.display();
        if is_standard_input(path) {
            let Some(name) = args.name.as_ref().filter(|name| !name.contains('/')) else {
                errors.push(format!(
                    "{STANDARD_INPUT}: set the file name with --name, without a directory"
                ));
                continue;
            };
            match standard_input(limits.file_bytes) {
                Ok(bytes) => files.push(AddedFile {
                    from: STANDARD_INPUT.into(),
                    path: name.as_str().into(),
                    bytes,
                }),
                Err(error) => errors.push(error),
            }
            continue;
        }
        let Some(name) = path.file_name().and_then(|name| name.to_str()) else {
            errors.push(format!("{shown}: not a file name that RKE2 can use"));
            continue;
        };
        // A file that is not regular could block forever.
        match fs::metadata(path) {
            Ok(metadata) if !metadata.is_file() => {
                errors.push(format!("{shown}: not a regular file"));
            }
            Ok(metadata) if metadata.len() > limits.file_bytes => errors.push(format!(
                "{shown}: it has {} bytes, the limit is {}; split it or raise \
                 staging.limits.fileBytes",
                metadata.len(),
                limits.file_bytes
            )),
            Ok(_) => match fs::read(path) {
                Ok(bytes) => files.push(AddedFile {
                    from: path.clone(),
                    path: name.into(),
                    bytes,
                }),
                Err(error) => errors.push(format!("{shown}: cannot be read: {error}")),
            },
            Err(error) => errors.push(format!("{shown}: cannot be read: {error}")),
        }
    }
    files
}

fn check(
    file: &AddedFile,
    args: &Args,
    limits: &ReadLimits,
    manifests: &Path,
    found: &ScannedDirectory,
    errors: &mut Vec<String>,
) {
    let from = file.from.display();
    if !is_manifest_name(&file.path) {
        errors.push(format!(
            "{from}: RKE2 only reads names that end in .yaml, .yml or .json and do not begin with a dot"
        ));
        return;
    }
    if let Some(owner) = rke2::owner(&file.path) {
        errors.push(format!(
            "{from}: {} belongs to {owner}, and Windrow does not change it. Use another file name. To change a \
             component of RKE2, use a HelmChartConfig",
            file.path
        ));
        return;
    }
    if let Some(why) = file.path.name().addon_error() {
        let message = Code::AddonNameInvalid.say(&[("name", &why)]);
        errors.push(format!("{from}: {message}"));
    }
    let read = manifest::read(&file.path, &FileContent::Bytes(file.bytes.clone()), limits);
    for problem in &read.problems {
        if problem.code.severity() == Severity::Error && !args.force {
            let line = problem
                .line
                .map_or(String::new(), |line| format!(":{line}"));
            errors.push(format!(
                "{from}{line}: {} ({}; --force adds it anyway)",
                problem.message, problem.code
            ));
        }
    }
    let there = manifests.join(file.path.as_str());
    if found.files.iter().any(|known| known.path == file.path)
        && !args.replace
        && fs::read(&there).ok().as_ref() != Some(&file.bytes)
    {
        errors.push(format!(
            "{from}: {} already exists with different content; --replace replaces it (RKE2 then deletes the objects \
             that the new file does not have)",
            there.display()
        ));
    }
}

/// Files that RKE2 would treat as the same: each would delete the objects of the other.
fn collisions(files: &[AddedFile], found: &ScannedDirectory, errors: &mut Vec<String>) {
    let mut addons: BTreeMap<AddonName, Vec<String>> = BTreeMap::new();
    for file in files {
        let others = addons.entry(file.path.addon()).or_default();
        others.push(file.from.display().to_string());
    }
    for (addon, mut places) in addons {
        let ours = |path: &ManifestPath| files.iter().any(|file| file.path == *path);
        places.extend(
            found
                .files
                .iter()
                .filter(|known| !ours(&known.path))
                .filter(|known| is_manifest_name(&known.path.name()) && known.path.addon() == addon)
                .map(|known| format!("{} in the manifests directory", known.path)),
        );
        if places.len() > 1 {
            errors.push(format!(
                "{}: they share the Addon {addon}, so RKE2 would delete the objects of one file when it applies the \
                 other; rename all but one",
                places.join(", ")
            ));
        }
    }
}

fn put(
    file: &AddedFile,
    manifests: &Path,
    found: &ScannedDirectory,
    now: jiff::Timestamp,
) -> anyhow::Result<&'static str> {
    let there = manifests.join(file.path.as_str());
    if fs::read(&there).ok().as_ref() == Some(&file.bytes) {
        return Ok("already exists, unchanged");
    }
    let markers = Markers::new(manifests);
    let known = marker_of(&file.path, &found.markers);
    let held = markers.read(&known)?.is_some();
    let path = if held { known } else { file.path.marker() };
    let mark = Mark::provisional(&file.path, now);
    place_behind(&markers, (&path, &mark), || {
        files::replace(&there, &file.bytes, 0o600, Durability::Durable)
    })?;
    Ok(if held {
        "added; its name was already held, and stays held until the next decision"
    } else {
        "added, held by a marker"
    })
}

/// Places a file while its marker is there and cannot be lifted: a decision about the former content may be on its way.
fn place_behind(
    markers: &Markers,
    (path, mark): (&MarkerPath, &Mark),
    place: impl FnOnce() -> std::io::Result<()>,
) -> anyhow::Result<()> {
    let _guard = loop {
        match markers.create_missing(&[(path, mark)]).pop().transpose()? {
            // A foreign marker hides the name: RKE2 will not read the file.
            Some(MarkerOutcome::Foreign) => break None,
            Some(MarkerOutcome::NoDirectory) => {
                anyhow::bail!("the manifests directory is gone")
            }
            Some(MarkerOutcome::Changed | MarkerOutcome::Unchanged) | None => {}
        }
        // The marker may be gone again, or replaced.
        if let Some(guard) = markers.guard(path)? {
            break Some(guard);
        }
    };
    Ok(place()?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_is_never_placed_without_its_marker() {
        let directory = tempfile::tempdir().unwrap();
        let markers = Markers::new(directory.path());
        let file = ManifestPath::from("a.yaml");
        let (path, mark) = (file.marker(), Mark::provisional(&file, now()));
        // Once for a file that was held before, once for another.
        for _ in 0..2 {
            place_behind(&markers, (&path, &mark), || {
                // The daemon lifts it by a decision about the former content.
                assert!(markers.remove(&path).is_err());
                assert!(markers.read(&path).unwrap().is_some());
                Ok(())
            })
            .unwrap();
            assert!(markers.read(&path).unwrap().is_some());
        }
        assert_eq!(markers.remove(&path).unwrap(), MarkerOutcome::Changed);
    }

    #[test]
    fn what_is_rke2s_own_is_not_added_even_when_it_is_forced() {
        let args = Args {
            files: Vec::new(),
            name: None,
            force: true,
            replace: true,
        };
        let directory = tempfile::tempdir().unwrap();
        let found = list_manifests(directory.path(), now()).unwrap();
        for (name, is_refused) in [("rke2-canal.yaml", true), ("rke2-canal-config.yaml", false)] {
            let file = AddedFile {
                from: name.into(),
                path: name.into(),
                bytes: Vec::new(),
            };
            let mut errors = Vec::new();
            let limits = ReadLimits::default();
            check(&file, &args, &limits, directory.path(), &found, &mut errors);
            let said = errors.iter().any(|error| error.contains("belongs to RKE2"));
            assert_eq!(said, is_refused, "{errors:?}");
        }
    }
}
