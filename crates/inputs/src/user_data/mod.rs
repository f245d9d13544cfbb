//! Reads user-data as cloud-init does: packed or not, one cloud-config or several in a multipart message or an archive,
//! or another type. Only cloud-configs are read. Everything else is reported, because it could still write manifests.
//!
//! Source: cloud-init's `cloudinit/user_data.py`, `cloudinit/handlers/`, `cloudinit/mergers/`.

mod archive;
pub(crate) mod first_line;
mod jinja;
mod merge;
mod mime;
#[cfg(test)]
mod tests;

pub use jinja::stand_in;
pub(super) use merge::{NOTHING, takes_nothing};

use windrow_model::manifest::file_kind::{FileKind, begins_with, is_cloud_config, kind_of};
use windrow_model::manifest::{NodeValue, Problem, ReadLimits, encoding, yaml};
use windrow_model::reasons::Code;

use crate::extract::{Extraction, extract_parts, unclear};

/// The type of a file.
#[derive(Debug, Clone, PartialEq)]
pub enum OpenedFile {
    /// One text without a wrapping: manifests, or a configuration. Its keys tell its kind.
    Text(Vec<u8>),
    /// A wrapping with configurations.
    Wrapped(Wrapped),
}

/// The content of a wrapping.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Wrapped {
    /// The name of the text to which the lines of the problems and notes refer.
    pub shown: String,
    /// The configurations, in the order of cloud-init.
    pub parts: Vec<ConfigPart>,
    /// Problems, and parts that were not read.
    pub problems: Vec<Problem>,
    /// Notes for the user about how the file was read, each with its line.
    pub notes: Vec<(u32, String)>,
    /// The total size of the parts, with the blank lines before them.
    bytes: usize,
}

/// The headers that request a part's merging. Python compares their names case-sensitively.
const MERGE_HEADERS: [&str; 2] = ["Merge-Type", "X-Merge-Type"];
/// Restricts a part to the VM with this number among those that were launched together
/// (`cloudinit/filters/launch_index.py`, 26.2).
pub(super) const LAUNCH_INDEX: &str = "launch-index";
pub(super) const ONE_MACHINE: &str =
    "whether this is for the node at all (`launch-index`); give the user-data of one node";
/// More parts are not read: each has its own cost.
const MOST_PARTS: usize = 1000;
/// More text is not read either. A part has a blank line for each line before it.
const MOST_BYTES: usize = 8 << 20;

/// A configuration inside a file.
#[derive(Debug, Clone, PartialEq)]
pub struct ConfigPart {
    /// Its name in messages: the file's name if its lines are lines of the file, else with its first line in the file.
    pub shown: String,
    /// Its text. Blank lines replace the text before it in the file.
    pub text: String,
    /// Its first line in the file.
    first: u32,
    /// Whether its lines are those of the file.
    mapped: bool,
    /// The merging that its headers request.
    merge: Option<String>,
}

/// The types that cloud-init recognises by the beginning of a text, longest first (`cloudinit/handlers/__init__.py`,
/// `INCLUSION_TYPES_MAP`).
const BEGINNINGS: [(&str, &str); 9] = [
    ("#cloud-config-archive", "text/cloud-config-archive"),
    ("#cloud-config-jsonp", "text/cloud-config-jsonp"),
    ("## template: jinja", "text/jinja2"),
    ("#cloud-boothook", "text/cloud-boothook"),
    ("#include-once", "text/x-include-once-url"),
    ("#cloud-config", "text/cloud-config"),
    ("#part-handler", "text/part-handler"),
    ("#include", "text/x-include-url"),
    ("#!", "text/x-shellscript"),
];

fn type_of(text: &str) -> Option<&'static str> {
    let mut beginnings = BEGINNINGS.iter();
    let found = beginnings.find(|(beginning, _)| begins_with(text, beginning));
    found.map(|(_, kind)| *kind)
}

/// Opens a file. `shown` is its name in messages.
pub fn open(shown: &str, bytes: Vec<u8>, limits: &ReadLimits) -> OpenedFile {
    let mut wrapped = Wrapped {
        shown: shown.to_owned(),
        ..Wrapped::default()
    };
    if encoding::is_gzip(&bytes) {
        return unpack(wrapped, &bytes, limits);
    }
    let Ok(text) = std::str::from_utf8(&bytes) else {
        return OpenedFile::Text(bytes);
    };
    if let Some(what) = mime::in_front(text) {
        let why = format!(
            "{what} comes before the headers, so cloud-init does not read it as a multipart message; remove that text"
        );
        mime::pass_over(&mut wrapped, &why);
        return OpenedFile::Wrapped(wrapped);
    }
    if mime::is_mime(text) {
        mime::read(&mut wrapped, shown, text, limits);
        return wrapped.done();
    }
    if let Some((line, why)) = marked(text).or_else(|| encoded(text)) {
        wrapped.refused(line, &why);
        return OpenedFile::Wrapped(wrapped);
    }
    let plain = match type_of(text) {
        None | Some("text/cloud-config") => true,
        // To YAML these are comments: a file with the keys of another kind is of that kind.
        Some(_) => match kind_of(text) {
            FileKind::HarvesterConfig
            | FileKind::Yip
            | FileKind::Ignition
            | FileKind::Butane
            | FileKind::ImageBuilder => true,
            FileKind::Manifests => has_objects(text),
            FileKind::CloudInit => false,
        },
    };
    if plain {
        return OpenedFile::Text(bytes);
    }
    let part = Payload {
        shown,
        text: text.to_owned(),
        first: 1,
        mapped: true,
        merge: None,
        alone: true,
    };
    take(
        &mut wrapped,
        part,
        type_of(text).unwrap_or_default(),
        limits,
    );
    wrapped.done()
}

/// Why cloud-init does not recognise a text with a byte-order mark. A cloud-config is reported where its files are
/// extracted, and the readers of other files ignore the mark.
fn marked(text: &str) -> Option<first_line::FirstLineFault> {
    let bare = text.strip_prefix('\u{feff}')?;
    let is_cloud_config = type_of(bare)? == "text/cloud-config";
    let is_others = match kind_of(bare) {
        FileKind::CloudInit => false,
        FileKind::Manifests => has_objects(bare),
        _ => true,
    };
    first_line::fault(text).filter(|_| !is_cloud_config && !is_others)
}

/// Why cloud-init does not read user-data in base64. Some platforms take it so from their users and decode it, but not those that
/// read a file of an image.
fn encoded(text: &str) -> Option<first_line::FirstLineFault> {
    let digits: String = text.split_ascii_whitespace().collect();
    let is_long = digits.len() >= "#cloud-config".len();
    let decoded = is_long
        .then(|| encoding::decode_base64(digits.as_bytes()))?
        .ok()?;
    let kind = type_of(std::str::from_utf8(&decoded).ok()?)?;
    let why =
        "the file is user-data in base64, which cloud-init does not decode; write it as it is";
    (kind != "text/x-shellscript").then(|| (1, why.to_owned()))
}

/// Unpacks gzip. The lines are those of the unpacked text.
fn unpack(mut wrapped: Wrapped, packed: &[u8], limits: &ReadLimits) -> OpenedFile {
    let unpacked = encoding::gunzip(packed, limits.file_bytes).and_then(|bytes| {
        String::from_utf8(bytes).map_err(|_| "it holds no UTF-8 text".to_owned())
    });
    let shown = format!("{} (unpacked)", wrapped.shown);
    match unpacked.map(|text| open(&shown, text.into_bytes(), limits)) {
        Ok(OpenedFile::Wrapped(inner)) => return OpenedFile::Wrapped(inner),
        Ok(OpenedFile::Text(bytes)) => {
            let text = String::from_utf8_lossy(&bytes).into_owned();
            if kind_of(&text) == FileKind::Manifests {
                let what = "packed manifests: RKE2 reads no packed file; unpack it";
                wrapped.not_looked_at(1, what);
            } else {
                wrapped.parts.push(ConfigPart {
                    shown,
                    text,
                    first: 1,
                    mapped: true,
                    merge: None,
                });
            }
        }
        Err(why) => wrapped.not_looked_at(1, &format!("it begins as gzip does, but {why}")),
    }
    OpenedFile::Wrapped(wrapped)
}

/// Whether it is a configuration, or a wrapping of one. Used for files with any name; a script, or a text that only
/// resembles a configuration, is not one.
pub fn is_configuration(bytes: &[u8]) -> bool {
    if encoding::is_gzip(bytes) {
        let unpacked = encoding::gunzip(bytes, ReadLimits::default().file_bytes);
        return unpacked.is_ok_and(|inner| !encoding::is_gzip(&inner) && is_configuration(&inner));
    }
    let Ok(text) = std::str::from_utf8(bytes) else {
        return false;
    };
    let begins_as_one = match type_of(text) {
        Some(kind) => !kind.starts_with("text/x-shellscript"),
        None => mime::is_mime(text) || mime::in_front(text).is_some(),
    };
    let is_yaml = || yaml::parse(text, 1, &ReadLimits::default()).is_ok_and(|root| root.is_some());
    begins_as_one || (kind_of(text) != FileKind::Manifests && is_yaml())
}

fn has_objects(text: &str) -> bool {
    let root = yaml::parse(text, 1, &ReadLimits::default()).ok().flatten();
    root.is_some_and(|root| root.get("apiVersion").is_some() && root.get("kind").is_some())
}

fn is_no_map(text: &str) -> bool {
    let root = yaml::parse(text, 1, &ReadLimits::default()).ok().flatten();
    root.is_some_and(|root| !matches!(root.value, NodeValue::Mapping(_)))
}

/// A part with its type.
struct Payload<'p> {
    shown: &'p str,
    text: String,
    first: u32,
    mapped: bool,
    merge: Option<String>,
    /// Whether it is the whole file.
    alone: bool,
}

impl Payload<'_> {
    /// Its text without the blank lines that replace the text before it.
    fn body(&self) -> &str {
        let before = usize::try_from(self.first.saturating_sub(1)).unwrap_or_default();
        match self.mapped {
            true => self.text.get(before..).unwrap_or_default(),
            false => &self.text,
        }
    }
}

impl Wrapped {
    /// Extracts the files of each part.
    pub fn extract(&self, limits: &ReadLimits) -> Vec<Extraction> {
        let parts = self.parts.iter();
        extract_parts(parts.map(|part| (&*part.shown, &*part.text)), limits)
    }

    fn done(mut self) -> OpenedFile {
        let is_ignored = |problem: &Problem| problem.code == Code::UserDataIgnored;
        let nothing = self.parts.is_empty() && self.problems.iter().all(is_ignored);
        if nothing && self.notes.is_empty() {
            self.refused(1, "the file has no part that it reads");
        } else if nothing {
            self.not_looked_at(1, "this file: it has no cloud-config that cloud-init reads");
        }
        merge::merge(&mut self);
        OpenedFile::Wrapped(self)
    }

    fn problem(&mut self, code: Code, line: u32, fields: &[(&str, &str)]) {
        self.problems.push(Problem {
            code,
            line: Some(line),
            message: code.say(fields),
        });
    }

    /// Whether there is room for a part of this length that begins at line `first`. If not, that is reported.
    fn has_room(&mut self, first: u32, length: usize) -> bool {
        let before = usize::try_from(first).unwrap_or(usize::MAX);
        self.bytes = self.bytes.saturating_add(before).saturating_add(length);
        let parts = self.parts.len() + self.problems.len() + self.notes.len();
        let room = self.bytes <= MOST_BYTES && parts < MOST_PARTS;
        if !room {
            self.not_looked_at(first, "this part and those after it: there are too many");
        }
        room
    }

    fn not_looked_at(&mut self, line: u32, what: &str) {
        self.problem(Code::NotLookedAt, line, &[("what", what)]);
    }

    /// Reports a part whose first line only resembles a right one.
    fn is_refused(&mut self, part: &Payload<'_>) -> bool {
        let Some((line, why)) = first_line::fault(part.body()) else {
            return false;
        };
        let line = if part.mapped {
            part.first + line - 1
        } else {
            part.first
        };
        self.refused(line, &why);
        true
    }

    fn refused(&mut self, line: u32, why: &str) {
        self.problems.push(Problem {
            code: Code::InputRefused,
            line: Some(line),
            message: format!("cloud-init ignores this: {why}"),
        });
    }

    fn ignored(&mut self, line: u32, why: &str) {
        self.problem(Code::UserDataIgnored, line, &[("why", why)]);
    }
}

/// Adds a part by its type.
fn take(wrapped: &mut Wrapped, part: Payload<'_>, kind: &str, limits: &ReadLimits) {
    let line = part.first;
    match kind {
        "text/cloud-config" => match kind_of(&part.text) {
            FileKind::HarvesterConfig => {
                wrapped.not_looked_at(line, "a Harvester configuration inside user-data: Harvester's installer reads only a separate file");
            }
            FileKind::Yip => {
                wrapped.not_looked_at(
                    line,
                    "a yip file inside user-data: yip reads only a separate file",
                );
            }
            kind @ (FileKind::Ignition | FileKind::Butane | FileKind::ImageBuilder) => {
                let what = format!(
                    "{} inside user-data: cloud-init does nothing with it",
                    kind.name()
                );
                wrapped.not_looked_at(line, &what);
            }
            FileKind::Manifests if has_objects(&part.text) => {
                wrapped.not_looked_at(line, "a manifest inside user-data: cloud-init does nothing with it; write it as a file with `write_files`");
            }
            FileKind::Manifests if is_no_map(&part.text) => {
                wrapped.ignored(line, "this part is not a cloud-config: it has no keys");
            }
            FileKind::Manifests | FileKind::CloudInit => wrapped.parts.push(cloud_config(part)),
        },
        "text/jinja2" => template(wrapped, part, limits),
        "text/cloud-config-archive" => archive::take_parts(wrapped, &part, limits),
        "text/x-include-url" | "text/x-include-once-url" => {
            wrapped.not_looked_at(
                line,
                "it includes what cloud-init fetches from an address (`#include`)",
            );
        }
        "text/cloud-config-jsonp" => {
            wrapped.not_looked_at(
                line,
                "a patch in JSON of the parts before it (`#cloud-config-jsonp`)",
            );
        }
        "text/part-handler" => {
            wrapped.not_looked_at(line, "a program that takes other parts (`#part-handler`)");
        }
        "text/cloud-boothook" => script(
            wrapped,
            &part,
            "a script that runs early in the boot (`#cloud-boothook`)",
        ),
        kind if kind.starts_with("text/x-shellscript") => script(wrapped, &part, "a script"),
        _ if part.text.trim().is_empty() => {}
        _ if wrapped.is_refused(&part) => {}
        kind => wrapped.ignored(
            line,
            &format!("it takes no part of the type {kind} that begins like this one"),
        ),
    }
}

/// Windrow cannot tell the effects of a script, as with `runcmd`. It counts if it is the whole file, or if it contains
/// the name of a directory whose files Windrow checks.
fn script(wrapped: &mut Wrapped, part: &Payload<'_>, what: &str) {
    if type_of(&part.text) == Some("text/x-shellscript")
        && let Some(why) = first_line::script_fault(part.body())
    {
        return wrapped.problems.push(Problem {
            code: Code::InputRefused,
            line: Some(part.first),
            message: why,
        });
    }
    match unclear(part.body()) {
        Some((number, directory)) => {
            let line = if part.mapped {
                part.first + number - 1
            } else {
                part.first
            };
            wrapped.not_looked_at(
                line,
                &format!("{what}, which names {directory}: Windrow cannot tell its effect there"),
            );
        }
        None if part.alone => {
            wrapped.not_looked_at(part.first, &format!("{what}: nothing else is in the file"))
        }
        None => wrapped
            .notes
            .push((part.first, format!("{what}: its effect is not checked"))),
    }
}

/// The part as a separate file. Its type makes it a cloud-config, with any first line.
fn cloud_config(part: Payload<'_>) -> ConfigPart {
    const HEADER: &str = "#cloud-config\n";
    let Payload {
        shown,
        mut text,
        first,
        mapped,
        merge,
        ..
    } = part;
    if !is_cloud_config(&text) {
        // It has a blank line before it if its lines are those of the file: its headers end with one.
        let before = usize::try_from(first).unwrap_or_default().saturating_sub(2);
        text = match mapped && text.get(before..=before) == Some("\n") {
            true => format!("{}{HEADER}{}", &text[..before], &text[before + 1..]),
            false => format!("{HEADER}{text}"),
        };
    }
    ConfigPart {
        shown: shown.to_owned(),
        text,
        first,
        mapped,
        merge,
    }
}

/// A template, which cloud-init renders before it recognises the type.
fn template(wrapped: &mut Wrapped, mut part: Payload<'_>, limits: &ReadLimits) {
    let (first, mapped) = (part.first, part.mapped);
    let at = |line: u32| if mapped { line } else { first };
    let rendered = match jinja::render(&part.text) {
        Ok(rendered) => rendered,
        Err((line, why)) => return wrapped.not_looked_at(at(line), why),
    };
    for (line, expression, stand_in) in rendered.expressions {
        wrapped.notes.push((
            at(line),
            format!(
                "cloud-init fills in `{expression}` on the node; it is read here as `{stand_in}`"
            ),
        ));
    }
    for (line, what) in rendered.unknown {
        wrapped.not_looked_at(at(line), &what);
    }
    part.text = rendered.text;
    match type_of(&part.text) {
        None | Some("text/jinja2") if wrapped.is_refused(&part) => {}
        None | Some("text/jinja2") => {
            wrapped.ignored(first, "after `## template: jinja` no line names the format; write `#cloud-config` into the second line");
        }
        Some(kind) => take(wrapped, part, kind, limits),
    }
}

/// The name of a part whose lines are not those of the file.
fn part_name(file: &str, line: u32) -> String {
    format!("{file}:{line}: part")
}

/// A text that begins in this line of a file.
fn below(first: u32, text: &str) -> String {
    let before = usize::try_from(first.saturating_sub(1)).unwrap_or_default();
    "\n".repeat(before) + text
}
