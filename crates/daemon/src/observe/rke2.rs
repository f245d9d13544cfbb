//! RKE2 on the disk: its configuration files, and the version that will start.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use windrow_gates::{ResolvedVersion, SilentBinary, VersionCandidates, resolve};
use windrow_harvester::HarvesterVersion;
use windrow_model::manifest::yaml;
use windrow_plan::rke2::config::{ConfigLayer, Rke2ConfigFile, is_read, merge};
use windrow_plan::rke2::{KubeletFiles, write_kubeconfig};

use super::program::NodeProgram;
use super::rke2_binary::{binary, version_inside};
use crate::files::read_text;
use crate::fs;
use crate::layout::Layout;

/// `rke2 --version` only prints.
const PATIENCE: Duration = Duration::from_secs(10);

/// Configuration files, and those that cannot be read: each with its path and why.
#[derive(Debug, Default)]
pub struct FoundConfigFiles {
    pub files: Vec<Rke2ConfigFile>,
    pub errors: Vec<String>,
}

impl FoundConfigFiles {
    pub fn file(&mut self, place: ConfigLayer, path: &Path) {
        match read_text(path) {
            Ok(text) => {
                self.files
                    .push(Rke2ConfigFile::new(place, path.display().to_string(), text))
            }
            Err(error) => self.refuse(path, &error),
        }
    }

    /// Adds every file of a directory that RKE2 would read as a drop-in.
    pub fn drop_ins(&mut self, directory: &Path) {
        let entries = match fs::read_dir(directory) {
            Ok(entries) => entries,
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
            let named = entry.file_name().to_str().is_some_and(is_read);
            if named && !entry.file_type().is_ok_and(|kind| kind.is_dir()) {
                self.file(ConfigLayer::DropIn, &entry.path());
            }
        }
    }

    fn below(&mut self, directory: &Path, paths: &mut Vec<PathBuf>) {
        let listed: io::Result<Vec<_>> = fs::read_dir(directory).and_then(Iterator::collect);
        match listed {
            Ok(entries) => {
                for entry in entries {
                    match entry.file_type().is_ok_and(|kind| kind.is_dir()) {
                        true => self.below(&entry.path(), paths),
                        false => paths.push(entry.path()),
                    }
                }
            }
            Err(error) => self.refuse(directory, &error),
        }
    }

    fn refuse(&mut self, path: &Path, error: &io::Error) {
        self.errors
            .push(format!("{}: cannot be read: {error}", path.display()));
    }
}

/// The node's `config.yaml` and `config.yaml.d`, as far as they exist.
pub fn config_files(layout: &Layout) -> FoundConfigFiles {
    let mut found = FoundConfigFiles::default();
    let main = layout.path("/etc/rancher/rke2/config.yaml");
    if fs::symlink_metadata(&main).is_ok() {
        found.file(ConfigLayer::Main, &main);
    }
    let drop_ins = layout.rke2_config_dir();
    if fs::exists(&drop_ins) {
        found.drop_ins(&drop_ins);
    }
    found
}

/// As [`config_files`], with the kubelet's own files: those in RKE2's directory for them, and those in its arguments.
/// Feature gates can be in all of these.
pub fn config_and_kubelet_files(layout: &Layout) -> FoundConfigFiles {
    let mut found = config_files(layout);
    let named = KubeletFiles::new(&merge(&found.files));
    let mut paths = Vec::new();
    let drop_ins = layout.data_dir().join("agent/etc/kubelet.conf.d");
    if fs::exists(&drop_ins) {
        found.below(&drop_ins, &mut paths);
    }
    if let Some(directory) = &named.directory {
        found.below(&layout.path(&directory.text), &mut paths);
    }
    paths.extend(named.file.as_ref().map(|file| layout.path(&file.text)));
    for path in paths {
        let Some(place) = named.place(&layout.shown(&path)) else {
            continue;
        };
        match read_text(&path) {
            Ok(text) => found.files.push(Rke2ConfigFile {
                path: place,
                ..Rke2ConfigFile::new(ConfigLayer::Kubelet, path.display().to_string(), text)
            }),
            Err(error) => found.refuse(&path, &error),
        }
    }
    found
}

/// The admin kubeconfig of a server: the one that RKE2 is asked to write, or else the one that it uses itself. The first
/// can be in a home directory, which the unit's sandbox hides.
pub fn admin_kubeconfig(layout: &Layout) -> PathBuf {
    // RKE2 has changed into this directory before it reads a relative path (k3s `pkg/server/server.go`).
    let base = layout.data_dir().join("server");
    let written = match write_kubeconfig(&config_files(layout).files) {
        Some(item) if item.text.starts_with('/') => layout.path(&item.text),
        Some(item) => base.join(&item.text),
        None => layout.default_kubeconfig(),
    };
    let own = layout.own_admin_kubeconfig();
    let can_be_read = |path: &Path| {
        let is_file = fs::metadata(path).is_ok_and(|found| found.is_file());
        is_file && fs::open(path).is_ok()
    };
    if !can_be_read(&written) && can_be_read(&own) {
        own
    } else {
        written
    }
}

/// Finds the kubeconfig to use now. A first boot makes it late, and a configuration can move it.
pub type FindKubeconfig = Arc<dyn Fn() -> PathBuf + Send + Sync>;

pub fn resolved(found: &VersionCandidates) -> ResolvedVersion {
    resolve(found, |release| {
        let release = release.parse::<HarvesterVersion>();
        release.map_or_else(|_| Vec::new(), HarvesterVersion::may_ship)
    })
}

/// The version that will start. A binary of this machine that does not show its version is run to print it.
pub async fn candidates(layout: &Layout, data_dir: &str) -> VersionCandidates {
    let mut found = candidates_on_disk(layout, data_dir);
    if found.silent.is_some()
        && let Some(binary) = binary(layout)
        && let Some(program) = NodeProgram::new(layout, binary)
    {
        found.installed = printed_version(&program).await;
        found.silent = found.silent.filter(|_| found.installed.is_none());
    }
    found
}

/// As [`candidates`], only from files on the disk; nothing is run.
pub fn candidates_on_disk(layout: &Layout, data_dir: &str) -> VersionCandidates {
    let data_dir = layout.path(data_dir);
    let binary = binary(layout);
    let installed = binary.as_deref().and_then(version_inside);
    let is_silent = binary.is_some() && installed.is_none();
    let silent = if layout.is_this_machine() {
        SilentBinary::ReportsNoVersion
    } else {
        SilentBinary::NotRun
    };
    VersionCandidates {
        silent: is_silent.then_some(silent),
        installed,
        data: names(&data_dir.join("data")),
        images: names(&data_dir.join("agent/images"))
            .iter()
            .filter_map(|name| version_in(name))
            .collect(),
        harvester: harvester(layout),
        upgrade: None,
    }
}

async fn printed_version(rke2: &NodeProgram) -> Option<String> {
    let mut command = rke2.command();
    command.arg("--version");
    let output = tokio::time::timeout(PATIENCE, command.output()).await;
    version_in(&String::from_utf8_lossy(&output.ok()?.ok()?.stdout))
}

/// The version of RKE2 whose programs it unpacked last: `bin` of its data directory is a link to them. Only that link
/// is read.
pub fn unpacked(layout: &Layout) -> Option<String> {
    let programs = fs::read_link(layout.data_dir().join("bin")).ok()?;
    version_in(programs.to_str()?)
}

/// Harvester's release, according to the image.
pub fn harvester(layout: &Layout) -> Option<String> {
    let text = read_text(&layout.path("/etc/harvester-release.yaml")).ok()?;
    let release = yaml::parse_configuration(&text).ok()??;
    release.str_at(&["harvester"]).map(str::to_owned)
}

fn names(directory: &PathBuf) -> Vec<String> {
    let Ok(entries) = fs::read_dir(directory) else {
        return Vec::new();
    };
    let mut names: Vec<String> = entries
        .flatten()
        .filter_map(|entry| entry.file_name().into_string().ok())
        .collect();
    names.sort();
    names
}

/// The first RKE2 version in a text: `v1.35.6+rke2r1`, `v1.35.6-rke2r1`.
fn version_in(text: &str) -> Option<String> {
    let is_version = |ch: char| ch.is_ascii_alphanumeric() || matches!(ch, '.' | '+' | '-');
    text.match_indices("v1.").find_map(|(at, _)| {
        let rest = &text[at..];
        let end = rest.find(|ch| !is_version(ch)).unwrap_or(rest.len());
        let word = &rest[..end];
        let rke2 = word.find("rke2r")?;
        let digits = word[rke2 + 5..].bytes().take_while(u8::is_ascii_digit);
        let word = &word[..rke2 + 5 + digits.count()];
        word.parse::<windrow_plan::version::Version>()
            .is_ok()
            .then(|| word.to_owned())
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_are_found_in_what_the_binary_prints_and_in_names_of_images() {
        for (text, version) in [
            (
                "rke2 version v1.35.6+rke2r1 (abc)\ngo version go1.24",
                Some("v1.35.6+rke2r1"),
            ),
            (
                "rke2-images.linux-amd64-v1.34.2-rke2r1.tar.zst",
                Some("v1.34.2-rke2r1"),
            ),
            (
                "rke2-images-multus-v1.33.3-rke2r12.tar",
                Some("v1.33.3-rke2r12"),
            ),
            ("rke2-images.linux-amd64.tar.zst", None),
            ("harvester-images-v1.7.0.tar", None),
        ] {
            assert_eq!(version_in(text).as_deref(), version, "{text}");
        }
    }

    #[tokio::test]
    async fn rke2s_directories_have_candidates_and_a_binary_of_another_machine_is_not_run() {
        let place = tempfile::tempdir().unwrap();
        let layout = Layout::new(place.path());
        let data = layout.data_dir();
        fs::create_dir_all(data.join("data/v1.34.2-rke2r1-0a1b2c3d")).unwrap();
        fs::create_dir_all(data.join("agent/images")).unwrap();
        let image = "rke2-images.linux-amd64-v1.33.3-rke2r1.tar.zst";
        fs::write(data.join("agent/images").join(image), "").unwrap();
        // Another process writes the program: one that is open for writing in this one cannot be run.
        let binary = layout.path("/usr/local/bin/rke2");
        fs::create_dir_all(binary.parent().unwrap()).unwrap();
        let script = r#"printf '%s\n' '#!/bin/sh' 'echo >>"$0.ran"' 'echo v1.35.6+""rke2r1' >"$0"; chmod +x "$0""#;
        let written = std::process::Command::new("sh")
            .args(["-c", script])
            .arg(&binary)
            .status();
        assert!(written.unwrap().success());
        let found = candidates(&layout, "/var/lib/rancher/rke2").await;
        assert_eq!(found.data, ["v1.34.2-rke2r1-0a1b2c3d"]);
        assert_eq!(found.images, ["v1.33.3-rke2r1"]);
        assert_eq!(found.installed, None);
        assert_eq!(found.silent, Some(SilentBinary::NotRun));
        let ran = layout.path("/usr/local/bin/rke2.ran");
        assert!(!ran.exists());
        let printed = printed_version(&NodeProgram::of_test(binary)).await;
        assert_eq!(printed.as_deref(), Some("v1.35.6+rke2r1"));
        assert!(ran.exists());
    }

    #[test]
    fn the_version_that_was_unpacked_last_shows_in_a_link() {
        let place = tempfile::tempdir().unwrap();
        let layout = Layout::new(place.path());
        assert_eq!(unpacked(&layout), None);
        fs::create_dir_all(layout.data_dir()).unwrap();
        let programs = "/var/lib/rancher/rke2/data/v1.35.6-rke2r1-0a1b2c3d/bin";
        std::os::unix::fs::symlink(programs, layout.data_dir().join("bin")).unwrap();
        assert_eq!(unpacked(&layout), Some("v1.35.6-rke2r1".to_owned()));
    }

    #[test]
    fn the_admin_kubeconfig_is_the_written_one_or_else_rke2s_own() {
        let root = tempfile::tempdir().unwrap();
        let layout = Layout::new(root.path());
        let write = |path: &Path, text: &str| {
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        };
        let (default, own) = (layout.default_kubeconfig(), layout.own_admin_kubeconfig());
        assert_eq!(admin_kubeconfig(&layout), default, "nothing is there yet");
        write(&own, "{}");
        assert_eq!(admin_kubeconfig(&layout), own);
        write(&default, "{}");
        assert_eq!(admin_kubeconfig(&layout), default);
        let config = layout.path("/etc/rancher/rke2/config.yaml");
        write(&config, "write-kubeconfig: /root/kube.yaml");
        assert_eq!(
            admin_kubeconfig(&layout),
            own,
            "the old default does not count"
        );
        write(&layout.path("/root/kube.yaml"), "{}");
        assert_eq!(admin_kubeconfig(&layout), layout.path("/root/kube.yaml"));
        write(&config, "write-kubeconfig: kube.yaml");
        let relative = layout.data_dir().join("server/kube.yaml");
        write(&relative, "{}");
        assert_eq!(admin_kubeconfig(&layout), relative);
        fs::remove_file(&own).unwrap();
        fs::remove_file(&relative).unwrap();
        assert_eq!(admin_kubeconfig(&layout), relative, "it is still to come");
    }

    #[test]
    fn the_files_are_those_that_rke2_reads() {
        let root = tempfile::tempdir().unwrap();
        let directory = root.path().join("etc/rancher/rke2/config.yaml.d");
        fs::create_dir_all(directory.join("dir.yaml")).unwrap();
        fs::write(directory.join(".hidden.YML"), "a: 1").unwrap();
        fs::write(directory.join("b.yaml.tmp"), "a: 1").unwrap();
        fs::write(root.path().join("etc/rancher/rke2/config.yaml"), "a: 1").unwrap();
        nix::unistd::mkfifo(&directory.join("fifo.yaml"), nix::sys::stat::Mode::S_IRWXU).unwrap();
        let found = config_files(&Layout::new(root.path()));
        let names: Vec<&str> = found.files.iter().map(Rke2ConfigFile::name).collect();
        assert_eq!(names, ["config.yaml", ".hidden.YML"]);
        assert_eq!(found.errors.len(), 1);
        assert!(found.errors[0].contains("not a regular file"));
    }

    #[test]
    fn the_kubelets_files_are_those_of_rke2s_directory_and_those_that_arguments_name() {
        let root = tempfile::tempdir().unwrap();
        let write = |path: &str, text: &str| {
            let path = root.path().join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        };
        let data = "var/lib/rancher/rke2/agent/etc/kubelet.conf.d";
        write(
            &format!("{data}/00-rke2-defaults.conf"),
            "featureGates: {Old: true}",
        );
        write(&format!("{data}/50-a.conf"), "featureGates: {A: true}");
        write("etc/kubelet.yaml", "featureGates: {A: false}");
        write("etc/kubelet.d/below/b.conf", "featureGates: {B: true}");
        let layout = Layout::new(root.path());
        let arguments = |text: &str| {
            write("etc/rancher/rke2/config.yaml", text);
            let found = config_and_kubelet_files(&layout);
            let merged = merge(&found.files);
            assert_eq!(merged.findings, []);
            let gates = merged.kubelet_gates.into_iter().map(|gate| gate.text);
            (gates.collect::<Vec<_>>(), found.errors.len())
        };
        assert_eq!(arguments(""), (vec!["A=true".to_owned()], 0));
        let (gates, errors) =
            arguments("kubelet-arg: [config=/etc/kubelet.yaml, config-dir=/etc/kubelet.d]");
        assert_eq!(
            (gates.join(" "), errors),
            ("A=false B=true A=true".to_owned(), 0)
        );
    }
}
