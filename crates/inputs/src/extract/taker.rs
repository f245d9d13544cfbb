//! Extracts the files that one configuration writes, as its reader would: Harvester's installer, cloud-init or yip.

use windrow_model::manifest::encoding::is_gzip;
use windrow_model::reasons::Code;

use super::unread::entry_keys;
use super::write_time::{WriteTime, is_early, unknown_stage};
use super::{
    Extracted, Extraction, FileKind, FilesBeside, InnerLines, Node, NodeValue, OuterLines, Problem,
    ReadLimits, field, not_looked_at,
};
use crate::manifest_path::{
    ManifestPlace, NameInDirectory, configuration, manifest_place, name_in_directory,
};

pub(super) struct Extractor<'t> {
    pub(super) source: &'t str,
    pub(super) beside: &'t dyn FilesBeside,
    pub(super) lines: OuterLines<'t>,
    pub(super) limits: &'t ReadLimits,
    pub(super) kind: FileKind,
    pub(super) extraction: &'t mut Extraction,
    /// Bytes extracted so far, and those of other files that were checked.
    taken: u64,
    looked_into: u64,
    /// When the files that are extracted now are written.
    pub(super) moment: WriteTime,
    pub(super) late: Option<String>,
}

impl<'t> Extractor<'t> {
    pub(super) fn new(
        source: &'t str,
        text: &'t str,
        limits: &'t ReadLimits,
        beside: &'t dyn FilesBeside,
        extraction: &'t mut Extraction,
    ) -> Self {
        Self {
            source,
            beside,
            lines: OuterLines::new(text),
            limits,
            kind: extraction.kind,
            extraction,
            taken: 0,
            looked_into: 0,
            moment: WriteTime::EARLY,
            late: None,
        }
    }

    /// The installer turns it into a yip file: its files are written in the stage initramfs, and its commands run once,
    /// at the installation. A configuration from an address is merged into it (harvester-installer `pkg/config/cos.go`,
    /// `pkg/console/install_panels.go`, v1.8.0).
    pub(super) fn harvester(&mut self, root: &Node) {
        let os = field(root, "os");
        let of_os = |name: &str| os.and_then(|os| field(os, name));
        self.list(of_os("writeFiles"), "os.writeFiles");
        self.commands(
            of_os("afterInstallChrootCommands"),
            "os.afterInstallChrootCommands",
        );
        let address = field(root, "install").and_then(|install| field(install, "configUrl"));
        if let Some(address) =
            address.filter(|address| !address.is_null() && address.as_str() != Some(""))
        {
            let what = "the configuration at `install.configUrl`, which the installer merges into this one";
            self.not_looked_at(address.line, what);
        }
    }

    pub(super) fn cloud_init(&mut self, root: &Node) {
        self.list(root.get("write_files"), "write_files");
        for key in ["bootcmd", "runcmd"] {
            self.commands(root.get(key), key);
        }
    }

    /// yip accepts cloud-init's keys only after a first line that is exactly `#cloud-config`, as the first step of its
    /// stage boot (`pkg/schema/loader_cloudinit.go`, `pkg/schema/cloudinit/config.go`, v1.9.6).
    pub(super) fn yip(&mut self, text: &str, root: &Node) {
        let with_cloud_config = text.lines().next().map(str::trim_end) == Some("#cloud-config");
        if with_cloud_config {
            self.stage("boot");
            self.list(root.get("write_files"), "write_files");
            self.commands(root.get("runcmd"), "runcmd");
        }
        for stage in root.get("stages").map_or(&[][..], Node::entries) {
            if let Some(why) = unknown_stage(&stage.key) {
                let what = format!("whether a program runs the stage `{}`: {why}", stage.key);
                self.not_looked_at(stage.line, &what);
            }
            self.stage(&stage.key);
            for step in stage.value.items() {
                let called = |key: &str| format!("stages.{}[].{key}", stage.key);
                self.list(step.get("files"), &called("files"));
                self.commands(step.get("commands"), &called("commands"));
                self.fetched(step, &called);
            }
        }
    }

    fn stage(&mut self, stage: &str) {
        self.moment = WriteTime::for_stage(stage);
        self.late = (!is_early(stage)).then(|| format!("yip, stage {stage}"));
    }

    /// The files that a step fetches. Only mudler/yip unpacks images; a data source gives a whole configuration
    /// (`pkg/plugins/datasource.go`).
    fn fetched(&mut self, step: &Node, called: &dyn Fn(&str) -> String) {
        for (list, path) in [("downloads", "path"), ("unpack_images", "target")] {
            for one in step.list(list) {
                self.target(one.get(path), &called(list));
            }
        }
        let git = step.get("git").and_then(|git| git.get("path"));
        self.target(git, &called("git"));
        let providers = step
            .get("datasource")
            .and_then(|from| from.get("providers"));
        if let Some(providers) = providers.filter(|providers| !providers.items().is_empty()) {
            let what = format!("{}: it has its own user-data", called("datasource"));
            self.not_looked_at(providers.line, &what);
        }
    }

    pub(super) fn not_looked_at(&mut self, line: u32, what: &str) {
        self.extraction.problems.push(not_looked_at(line, what));
    }

    pub(super) fn problem(&mut self, line: u32, message: String) {
        self.extraction.problems.push(Problem {
            code: Code::InputRefused,
            line: Some(line),
            message,
        });
    }

    /// The value of a key of a file. cloud-init and yip accept only the exact name of a key.
    pub(super) fn field<'n>(&self, file: &'n Node, name: &str) -> Option<&'n Node> {
        match self.kind {
            FileKind::HarvesterConfig => field(file, name),
            _ => file.get(name),
        }
    }

    fn list(&mut self, files: Option<&Node>, name: &str) {
        let Some(files) = files else { return };
        if !files.is_null() && !matches!(files.value, NodeValue::Sequence(_)) {
            self.problem(
                files.line,
                format!(
                    "`{name}` is {}, not a list; begin each file with `- path:`",
                    files.type_name()
                ),
            );
        }
        let is_map = |file: &&Node| matches!(file.value, NodeValue::Mapping(_));
        for file in files.items().iter().filter(is_map) {
            self.extraction.written += 1;
            if let Err((line, message)) = self.file(file) {
                self.problem(line, message);
            }
        }
    }

    fn file(&mut self, file: &Node) -> Result<(), (u32, String)> {
        let Some(path) = self.field(file, "path") else {
            return Err((
                file.line,
                "a file without `path`; write where it goes".to_owned(),
            ));
        };
        let Some(written) = path.as_str() else {
            let message = format!("`path` is {}, not a string; quote it", path.type_name());
            return Err((path.line, message));
        };
        match manifest_place(written).map_err(|why| (path.line, why))? {
            ManifestPlace::Below {
                data_dir,
                path: below,
            } => self.manifest(file, data_dir, below, path.line)?,
            ManifestPlace::NextTo(why) => self.is_not_read(path.line, written, &why),
            ManifestPlace::Elsewhere => match configuration(written) {
                Some(path) => self.configuration(file, path),
                None => self.script(file, written),
            },
        }
        Ok(())
    }

    fn manifest(
        &mut self,
        file: &Node,
        data_dir: String,
        path: String,
        written_at: u32,
    ) -> Result<(), (u32, String)> {
        let slips = entry_keys(self.kind, file);
        self.extraction.problems.extend(slips);
        if let Some(problem) = self.is_from_elsewhere(file) {
            self.extraction.problems.push(problem);
            return Ok(());
        }
        let slip = self.unknown_encoding(file);
        self.extraction.problems.extend(slip);
        let (content, lines) = self.content(file)?;
        let extracted = self.extracted(file, path, content, lines);
        let extracted = Extracted {
            data_dir,
            written_at,
            ..extracted
        };
        self.keep_manifest(file.line, extracted);
        Ok(())
    }

    fn configuration(&mut self, file: &Node, path: String) {
        let slips = entry_keys(self.kind, file).into_iter();
        let slips = slips.chain(self.unknown_encoding(file));
        self.extraction.configuration_problems.extend(slips);
        if let Some(problem) = self.is_from_elsewhere(file) {
            self.extraction.configuration_problems.push(problem);
            return;
        }
        match self.content(file) {
            Ok((content, lines)) => {
                let extracted = self.extracted(file, path, content, lines);
                self.keep_configuration(file.line, extracted);
            }
            Err((line, message)) => self.configuration_problem(line, message),
        }
    }

    /// Adds a manifest if there is room.
    pub(super) fn keep_manifest(&mut self, line: u32, file: Extracted) {
        let size = file.content.len();
        let too_much = if size as u64 > self.limits.file_bytes {
            Some(format!(
                "the file has {size} bytes, the limit is {}; split it, or raise staging.limits.fileBytes",
                self.limits.file_bytes
            ))
        } else {
            self.keep(&file.content).err()
        };
        match too_much {
            Some(message) => self.extraction.problems.push(Problem {
                code: Code::FileTooLarge,
                line: Some(line),
                message,
            }),
            None => {
                self.unread_name(&file);
                self.extraction.files.push(file);
            }
        }
    }

    /// Reports a manifest under a name that RKE2 does not read. Other files are in the directory on purpose.
    fn unread_name(&mut self, file: &Extracted) {
        let Extracted {
            path,
            written_at,
            content,
            ..
        } = file;
        let code = match name_in_directory(path) {
            NameInDirectory::NotRead => Code::PathNotRead,
            NameInDirectory::SetAside => Code::PathSetAside,
            NameInDirectory::Read | NameInDirectory::Marker => return,
        };
        if file.data_dir.is_empty() || !(is_gzip(content) || resembles_manifest(content)) {
            return;
        }
        let why =
            "it reads only names that end in .yaml, .yml or .json and do not begin with a dot";
        self.extraction.problems.push(Problem {
            code,
            line: Some(*written_at),
            message: code.say(&[("path", path), ("why", why)]),
        });
    }

    /// Adds a file of RKE2's or Windrow's own configuration if there is room.
    pub(super) fn keep_configuration(&mut self, line: u32, file: Extracted) {
        match self.keep(&file.content) {
            Ok(()) => self.extraction.configuration.push(file),
            Err(message) => self.configuration_problem(line, message),
        }
    }

    pub(super) fn configuration_problem(&mut self, line: u32, message: String) {
        self.extraction.configuration_problems.push(Problem {
            code: Code::ConfigurationInvalid,
            line: Some(line),
            message,
        });
    }

    /// Reports a path that no program reads.
    pub(super) fn is_not_read(&mut self, line: u32, path: &str, why: &str) {
        self.extraction.problems.push(Problem {
            code: Code::PathNotRead,
            line: Some(line),
            message: Code::PathNotRead.say(&[("path", path), ("why", why)]),
        });
    }

    fn extracted(
        &self,
        file: &Node,
        path: String,
        content: Vec<u8>,
        lines: InnerLines,
    ) -> Extracted {
        let is_cloud_init = self.kind == FileKind::CloudInit;
        let asks = |key: &str| {
            file.get(key)
                .filter(|value| is_cloud_init && is_true(value))
        };
        let (moment, late) = match asks("defer").is_some() {
            // That comes after multi-user.target.
            true => (
                WriteTime::DEFERRED,
                Some("cloud-init, final stage".to_owned()),
            ),
            false => (self.moment, self.late.clone()),
        };
        Extracted {
            path,
            data_dir: String::new(),
            written_at: file.line,
            content,
            source: self.source.to_owned(),
            carrier: self.source.to_owned(),
            lines,
            late,
            moment,
            appends: asks("append").map(|append| append.line),
        }
    }

    /// Counts the extracted bytes: a hundred small archives may hold a gigabyte.
    fn keep(&mut self, content: &[u8]) -> Result<(), String> {
        let taken = self.taken + content.len() as u64;
        if taken > self.limits.directory_bytes {
            return Err(format!(
                "with this file more than {} bytes would be extracted from the configuration, so Windrow cannot predict how RKE2 reads it; split the configuration, or raise staging.limits.directoryBytes",
                self.limits.directory_bytes
            ));
        }
        self.taken = taken;
        Ok(())
    }

    /// A file that Windrow does not read here. If it is a script, it may write files that matter.
    fn script(&mut self, file: &Node, path: &str) {
        if self.has_looked_enough() {
            return;
        }
        if let Ok((content, lines)) = self.content(file) {
            self.look_into(file.line, &content, lines, path);
        }
    }

    /// Whether the limit for checked bytes is reached.
    pub(super) fn has_looked_enough(&self) -> bool {
        self.looked_into > self.limits.directory_bytes
    }

    /// Searches a file that Windrow does not read here.
    pub(super) fn look_into(&mut self, line: u32, content: &[u8], lines: InnerLines, path: &str) {
        self.looked_into += content.len() as u64;
        if self.has_looked_enough() {
            self.not_looked_at(line, "the files from here on: they are too large together");
        } else if content.starts_with(b"#!") {
            self.names_directory(content, lines, path);
        }
    }
}

/// Whether a text has the keys of an object at the beginning of a line. It may be a template, which is not YAML.
fn resembles_manifest(content: &[u8]) -> bool {
    let text = String::from_utf8_lossy(content);
    let has = |key: &str| {
        let mut lines = text
            .lines()
            .map(|line| line.trim_start_matches(['{', ' ', '"']));
        lines.any(|line| line.starts_with(key))
    };
    has("apiVersion") && has("kind")
}

/// cloud-init's `util.get_cfg_option_bool` (26.2), which accepts a text in any case.
pub(super) fn is_true(value: &Node) -> bool {
    match &value.value {
        NodeValue::Bool(is_true) => *is_true,
        NodeValue::Number(number) => number.as_i64() == Some(1),
        NodeValue::String(text) => {
            let text = text.trim().to_lowercase();
            ["true", "1", "on", "yes"].contains(&text.as_str())
        }
        _ => false,
    }
}
