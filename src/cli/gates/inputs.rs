//! The configuration that gates are checked against: the given files, or the node's own.

use std::path::{Path, PathBuf};

use windrow_decide::settings::{self, ConfigFileRole, ConfigFiles};
use windrow_gates::{DROP_IN, GateRequest};
use windrow_inputs::extract::{Extracted, Extraction, FileKind, kind_of};
use windrow_inputs::user_data::{self, OpenedFile};
use windrow_model::manifest::{Problem, ReadLimits, yaml};
use windrow_model::reasons::Code;
use windrow_plan::rke2::config::{ConfigLayer, Rke2ConfigFile, is_read};
use windrow_plan::rke2::{KubeletFiles, Rke2Role};
use windrow_plan::version::Version;
use windrow_preflight::installer::of_configuration;
use windrow_simulate::rehearse::membership::membership;

use crate::cli::inputs::{
    STANDARD_INPUT, carried_configuration, definition_in, extract_file, is_standard_input,
    other_configurations, rke2_files, say_how_read, say_notes, standard_input,
};
use crate::cli::{Exit, complain};
use crate::configuration;
use crate::files::{read_bytes, read_text};
use crate::fs;
use crate::layout::Layout;
use crate::observe::rke2::{FoundConfigFiles, config_and_kubelet_files};

#[derive(Default)]
pub(super) struct GateInputs {
    pub(super) files: Vec<Rke2ConfigFile>,
    pub(super) requests: Vec<GateRequest>,
    pub(super) own: Option<String>,
    pub(super) data_dir: String,
    /// The command of RKE2 that reads the files.
    pub(super) role: Rke2Role,
    /// Whether one of them configures Harvester.
    pub(super) is_of_harvester: bool,
    errors: Vec<String>,
    /// Whether anything was left unchecked.
    pub(super) not_looked_at: bool,
    pub(super) version: Option<Version>,
    /// The parts of RKE2's configuration that user-data and other files write.
    carried: Vec<Extracted>,
    settings: ConfigFiles,
    wrong: Vec<String>,
}

impl GateInputs {
    pub(super) fn node(layout: &Layout) -> Self {
        let loaded = configuration::load(layout);
        let layout = &layout.clone().with_data_dir(&loaded.settings.data_dir);
        let FoundConfigFiles { files, errors } = config_and_kubelet_files(layout);
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

    pub(super) fn gather(paths: &[PathBuf]) -> Self {
        let mut inputs = Self::default();
        for path in paths {
            if is_standard_input(path) {
                match standard_input(ReadLimits::default().file_bytes) {
                    Ok(bytes) => {
                        inputs.named(STANDARD_INPUT.to_owned(), bytes, ConfigLayer::DropIn)
                    }
                    Err(error) => inputs.errors.push(error),
                }
            } else if fs::is_dir(path) {
                inputs.directory(path);
            } else {
                inputs.file(path);
            }
        }
        inputs.files.extend(rke2_files(&inputs.carried));
        let loaded = settings::merge(std::mem::take(&mut inputs.settings));
        inputs.requests = loaded.settings.feature_gates;
        let wrong = loaded.errors.iter().map(ToString::to_string);
        inputs.wrong.extend(wrong);
        inputs
    }

    /// A directory of drop-ins, or one that holds `config.yaml` and `config.yaml.d` as
    /// `/etc/rancher/rke2` does.
    fn directory(&mut self, path: &Path) {
        match definition_in(path) {
            Ok(None) => {}
            Ok(Some(definition)) => return self.file(&definition),
            Err(error) => return self.errors.push(error),
        }
        let mut found = FoundConfigFiles::default();
        let below = path.join("config.yaml.d");
        let whole = fs::is_dir(&below);
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
        self.kubelet_directory(path);
    }

    fn kubelet_directory(&mut self, directory: &Path) {
        let entries = fs::read_dir(directory).into_iter().flatten().flatten();
        let names = entries.filter_map(|entry| entry.file_name().into_string().ok());
        for name in names.filter(|name| KubeletFiles::is_read(name)) {
            let path = directory.join(&name);
            let is_one =
                |text: &String| object_kind(text).as_deref() == Some(KUBELET_CONFIGURATION);
            if let Some(text) = read_text(&path).ok().filter(is_one) {
                let shown = path.display().to_string();
                self.kubelet(Rke2ConfigFile::new(ConfigLayer::Kubelet, shown, text));
            }
        }
    }

    fn file(&mut self, path: &Path) {
        let shown = path.display().to_string();
        let place = match path.file_name().is_some_and(|name| name == "config.yaml") {
            true => ConfigLayer::Main,
            false => ConfigLayer::DropIn,
        };
        match read_bytes(path) {
            Ok(bytes) => self.named(shown, bytes, place),
            Err(error) => self
                .errors
                .push(format!("{shown}: cannot be read: {error}")),
        }
    }

    /// A given file, or standard input: an object of Kubernetes is not a configuration of RKE2.
    fn named(&mut self, shown: String, bytes: Vec<u8>, place: ConfigLayer) {
        match std::str::from_utf8(&bytes).ok().and_then(object_kind) {
            Some(kind) if kind != KUBELET_CONFIGURATION => self.errors.push(format!(
                "{shown}: this is a {kind}, not a configuration of RKE2, so its gates are not checked. Pass the files that RKE2 reads"
            )),
            _ => self.text(shown, bytes, place),
        }
    }

    /// A file, or standard input; its content shows its kind.
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
            let extraction = extract_file(&file.shown, &file.text, &ReadLimits::default());
            return self.carried(&file.shown, &file.text, extraction);
        }
        if object_kind(&file.text).as_deref() == Some(KUBELET_CONFIGURATION) {
            return self.kubelet(file);
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
                "{}: RKE2 only reads names that end in .yaml or .yml",
                file.path
            )),
        }
    }

    /// The kubelet's own file, as if it were in RKE2's directory or in `kubelet-arg`.
    fn kubelet(&mut self, mut file: Rke2ConfigFile) {
        file.place = ConfigLayer::Kubelet;
        file.path = KubeletFiles::as_read(file.name());
        self.files.push(file);
    }

    fn problems(&mut self, shown: &str, problems: &[Problem]) {
        for problem in problems {
            let line = problem
                .line
                .map_or(String::new(), |line| format!(":{line}"));
            let message = &problem.message;
            match problem.code {
                // A manifest sets no gates.
                Code::PathNotRead | Code::PathSetAside | Code::FileModeUnintended => {}
                Code::KeyNotRead => self.errors.push(format!("{shown}{line}: {message}")),
                Code::UserDataIgnored => eprintln!("windrow: {shown}{line}: {message}"),
                Code::NotLookedAt => {
                    eprintln!("windrow: {shown}{line}: {message}");
                    self.not_looked_at = true;
                }
                // The reader's messages can quote a line, and these files hold secrets.
                _ => self.errors.push(format!(
                    "{shown}{line}: cannot be read here; `windrow plan` shows the reason"
                )),
            }
        }
    }

    fn carried(&mut self, shown: &str, text: &str, extraction: Extraction) {
        say_how_read(shown, text, &extraction);
        self.is_of_harvester |= extraction.kind == FileKind::HarvesterConfig;
        let version = extraction.rke2_version.as_deref();
        let of_release = || of_configuration(shown, text)?.version.rke2();
        self.version = version
            .and_then(|version| version.parse().ok())
            .or_else(of_release)
            .or(self.version);
        self.problems(shown, &extraction.problems);
        self.problems(shown, &extraction.configuration_problems);
        let membership = membership(shown, text, &extraction.configuration);
        if membership.rke2_role() == Rke2Role::Agent {
            self.role = Rke2Role::Agent;
        }
        let own = carried_configuration(&extraction.configuration);
        let settings = own
            .into_iter()
            .filter(|file| file.role == ConfigFileRole::Settings);
        self.settings.files.extend(settings);
        for inner in extraction.configuration {
            match std::str::from_utf8(&inner.content) {
                Ok(_) => self.carried.push(inner),
                Err(_) => self
                    .errors
                    .push(format!("{shown}: {} is not UTF-8 text", inner.path)),
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

    pub(super) fn unusable(&self) -> Vec<String> {
        self.errors.iter().chain(&self.wrong).cloned().collect()
    }

    pub(super) fn refused(&self) -> Option<Exit> {
        complain(&self.unusable());
        if !self.errors.is_empty() {
            return Some(Exit::Usage);
        }
        (!self.wrong.is_empty()).then_some(Exit::Configuration)
    }

    pub(super) fn is_empty(&self) -> bool {
        self.files.is_empty() && self.requests.is_empty()
    }
}

const KUBELET_CONFIGURATION: &str = "KubeletConfiguration";

fn object_kind(text: &str) -> Option<String> {
    if kind_of(text) != FileKind::Manifests {
        return None;
    }
    let text = text.trim_start().trim_start_matches("---");
    let first = text.split("\n---").next().unwrap_or(text);
    let root = yaml::parse(first, 1, &ReadLimits::default()).ok()??;
    root.get("apiVersion")?;
    let kind = root.get("kind")?.as_str()?;
    // The file may hold secrets: of its content only names are shown.
    let is_name = kind.len() <= 63 && kind.chars().all(|letter| letter.is_ascii_alphanumeric());
    Some(match is_name {
        true => kind.to_owned(),
        false => "Kubernetes object".to_owned(),
    })
}

fn asks_for_gates(text: &str) -> bool {
    matches!(yaml::parse(text, 1, &ReadLimits::default()), Ok(Some(root)) if root.get("featureGates").is_some())
}
