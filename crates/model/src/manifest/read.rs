//! Reads one manifest file: documents, their objects, and everything that RKE2 will refuse.

use super::budget::{self, MOST_PROBLEMS};
use super::digest::{self, ContentDigest};
use super::split::{self, AfterSeparator, BadSeparator, Chunk};
use super::template;
use super::yaml::ReadKey;
use super::{
    Document, FileContent, ManifestFile, Node, NodeValue, Object, Problem, ReadLimits, encoding,
    json, objects, yaml,
};
use crate::reasons::Code;

/// The maximum nesting, for any configuration: values are dropped and compared recursively.
const DEEPEST: usize = 1000;

/// Reads a file as RKE2 would. Never fails: errors are in `problems`.
pub fn read(path: &str, content: &FileContent, limits: &ReadLimits) -> ManifestFile {
    ManifestReader::new(path, limits, None).read(content)
}

/// Like [`read`], but gives each object to `visit` and then drops it: of a large file only one document is in memory at
/// a time. `documents` stays empty.
pub fn read_each(
    path: &str,
    content: &FileContent,
    limits: &ReadLimits,
    visit: &mut dyn FnMut(&Object),
) -> ManifestFile {
    ManifestReader::new(path, limits, Some(visit)).read(content)
}

/// A file that is being read.
struct ManifestReader<'v> {
    file: ManifestFile,
    limits: ReadLimits,
    visit: Option<&'v mut dyn FnMut(&Object)>,
    canon: ContentDigest,
    /// Number of objects so far.
    objects: usize,
    /// The memory of the kept values.
    taken: usize,
}

impl<'v> ManifestReader<'v> {
    fn new(path: &str, limits: &ReadLimits, visit: Option<&'v mut dyn FnMut(&Object)>) -> Self {
        Self {
            file: ManifestFile {
                path: path.into(),
                documents: Vec::new(),
                problems: Vec::new(),
                sha256: String::new(),
                digest: String::new(),
            },
            limits: ReadLimits {
                depth: limits.depth.min(DEEPEST),
                ..limits.clone()
            },
            visit,
            canon: ContentDigest::new(),
            objects: 0,
            taken: 0,
        }
    }

    fn read(mut self, content: &FileContent) -> ManifestFile {
        let bytes = match content {
            FileContent::Bytes(bytes) => bytes,
            other => return without_bytes(&self.file.path, other, &self.limits),
        };
        if bytes.len() as u64 > self.limits.file_bytes {
            let mut file = without_bytes(&self.file.path, content, &self.limits);
            file.sha256 = digest::sha256_hex(bytes);
            return file;
        }
        self.file.sha256 = digest::sha256_hex(bytes);
        match std::str::from_utf8(bytes) {
            Ok(text) => self.documents(text, &[]),
            Err(error) => self.not_utf8(bytes, error.valid_up_to()),
        }
        let mut file = self.file;
        budget::cut(&mut file.problems);
        file.problems.sort_by_key(|problem| problem.line);
        // A refused file has no objects that could identify it, so its bytes do.
        file.digest = match file.refused() {
            None => self.canon.finish(),
            Some(_) => digest::sha256_hex(format!("refused {}", file.sha256).as_bytes()),
        };
        file
    }

    /// Whether reading on would change nothing.
    fn is_full(&self) -> bool {
        self.file.problems.len() > MOST_PROBLEMS
    }

    fn refuse(&mut self, line: u32, message: impl Into<String>) {
        self.file.problems.push(refused(line, message.into()));
    }

    fn exceed(&mut self, line: Option<u32>, message: String) {
        self.file.problems.push(Problem {
            code: Code::LimitExceeded,
            line,
            message,
        });
    }

    fn documents(&mut self, text: &str, bad_lines: &[u32]) {
        let most = self.limits.documents;
        let (mut chunks, bad) = split::split(text, most.saturating_add(1));
        let certificates = self.separators(bad);
        chunks.retain(|chunk| {
            let within = |(begin, end): &(u32, u32)| (begin..end).contains(&&chunk.line);
            !certificates.iter().any(within)
        });
        if chunks.len() > most {
            self.exceed(
                Some(chunks[most].line),
                format!("the file has more than {most} documents; split it, or raise staging.limits.documents"),
            );
            chunks.truncate(most);
        }
        let mut reader = yaml::YamlReader::default();
        for chunk in chunks {
            if self.is_full() {
                return;
            }
            reader.taken = self.taken;
            match document(text, &chunk, bad_lines, &self.limits, &mut reader) {
                Ok(Some(node)) => {
                    self.document(node, &reader.aside.keys);
                    self.file.problems.extend(reader.aside.unread.map(unread));
                }
                Ok(None) => self.refuse(
                    chunk.line,
                    "the document has no content but is not empty to RKE2, which refuses it for its missing kind; remove it",
                ),
                Err(problems) => self.file.problems.extend(problems),
            }
        }
    }

    /// Reports text after a `---` that is not a comment. A certificate is reported once, not at each of its two lines,
    /// and not at the text between them. Returns the first and last line of each certificate.
    fn separators(&mut self, bad: Vec<BadSeparator>) -> Vec<(u32, u32)> {
        let mut inside: Option<(u32, u32)> = None;
        let mut certificates = Vec::new();
        for separator in bad.into_iter().take(MOST_PROBLEMS + 1) {
            let line = separator.line;
            let message = match separator.behind {
                AfterSeparator::CertificateEnd if inside.is_some() => {
                    certificates.extend(inside.take().map(|(begin, _)| (begin, line)));
                    continue;
                }
                AfterSeparator::CertificateBegin | AfterSeparator::CertificateEnd => {
                    inside = Some((line, u32::MAX));
                    "invalid document separator: a certificate or key (`-----BEGIN`) that is not indented ends the document; \
                     indent all of its lines, deeper than the key before them"
                }
                AfterSeparator::Text => {
                    "invalid document separator: text follows `---`; put it on its own line or behind a `#`, or indent the \
                     line if it belongs to a value"
                }
            };
            self.refuse(line, message);
        }
        certificates.extend(inside);
        certificates
    }

    /// Adds the objects of a document. `keys` are the keys that RKE2 reads as another text than the written one.
    fn document(&mut self, node: Node, keys: &[ReadKey]) {
        let line = node.line;
        let most = self.limits.documents.saturating_sub(self.objects);
        // One more shows that there are too many.
        let (mut objects, problems) = objects::of_document(node, keys, most.saturating_add(1));
        self.file.problems.extend(problems);
        if objects.len() > most {
            self.exceed(
                Some(objects[most].line),
                format!(
                    "the file has more than {} objects; split it, or raise staging.limits.documents",
                    self.limits.documents
                ),
            );
            objects.truncate(most);
        }
        self.objects += objects.len();
        for object in &objects {
            self.canon.object(object);
        }
        match &mut self.visit {
            Some(visit) => objects.iter().for_each(visit),
            None => {
                // They stay in memory, together with those of the following documents.
                let memory = objects
                    .iter()
                    .map(|object| budget::memory_of_node(&object.node));
                self.taken += memory.sum::<usize>();
                self.file.documents.push(Document { line, objects });
            }
        }
    }

    /// Bytes that are not UTF-8 refuse a YAML document. In a JSON document each becomes U+FFFD.
    fn not_utf8(&mut self, bytes: &[u8], valid: usize) {
        if let [0xff, 0xfe, ..] | [0xfe, 0xff, ..] = bytes {
            return self.utf16(bytes);
        }
        let bad_lines: Vec<u32> = bytes
            .split(|byte| *byte == b'\n')
            .zip(1..)
            .filter(|(line, _)| std::str::from_utf8(line).is_err())
            .map(|(_, number)| number)
            .take(MOST_BAD_LINES + 1)
            .collect();
        // A binary file, cut at each NUL, would give thousands of problems.
        if bytes.contains(&0) || bad_lines.len() > MOST_BAD_LINES {
            let line = 1 + bytes[..valid].iter().filter(|byte| **byte == b'\n').count();
            self.refuse(
                u32::try_from(line).unwrap_or(u32::MAX),
                "the file is not text: it has bytes that are not UTF-8; save it as UTF-8, or remove it",
            );
            return;
        }
        let replaced: usize = bytes
            .utf8_chunks()
            .map(|chunk| chunk.valid().len() + 3 * chunk.invalid().len())
            .sum();
        if replaced as u64 > self.limits.file_bytes {
            let limit = budget::shown(self.limits.file_bytes);
            return self.exceed(
                bad_lines.first().copied(),
                format!("the text is not UTF-8 here, and read as RKE2 reads it the file has {replaced} bytes, more than {limit}; save the file as UTF-8"),
            );
        }
        self.documents(&encoding::lossy(bytes), &bad_lines);
    }

    /// RKE2's line reader splits UTF-16 at single bytes. Only big-endian text that ends in a line break survives, as
    /// one document; everything else is refused.
    fn utf16(&mut self, bytes: &[u8]) {
        let whole = bytes.starts_with(&[0xfe, 0xff])
            && bytes.len().is_multiple_of(2)
            && bytes.ends_with(b"\n");
        let units = bytes
            .chunks_exact(2)
            .map(|pair| u16::from_be_bytes([pair[0], pair[1]]));
        let decoded: Option<String> = char::decode_utf16(units)
            .take(if whole { usize::MAX } else { 0 })
            .collect::<Result<_, _>>()
            .ok()
            .filter(|_| whole);
        let Some(text) = decoded else {
            return self.refuse(
                1,
                "the file is UTF-16, which RKE2 cannot read; save it as UTF-8",
            );
        };
        let text = text.trim_start_matches('\u{feff}');
        match yaml::parse(text, 1, &self.limits) {
            Ok(Some(node)) => self.document(node, &[]),
            Ok(None) => self.refuse(
                1,
                "the file is UTF-16 without content, which RKE2 refuses; remove it",
            ),
            Err(problems) => self.file.problems.extend(problems),
        }
    }
}

/// A file with more lines that are not UTF-8 is not a text.
const MOST_BAD_LINES: usize = 100;

/// The documents of a file as values, with any content; without those that are not valid YAML.
pub fn nodes(text: &str, limits: &ReadLimits) -> Vec<Node> {
    nodes_and_problems(text, limits).0
}

/// Like [`nodes`], and why the other documents are not valid YAML.
pub fn nodes_and_problems(text: &str, limits: &ReadLimits) -> (Vec<Node>, Vec<Problem>) {
    let (nodes, problems, _) = nodes_problems_and_repeated_key(text, limits);
    (nodes, problems)
}

/// As [`nodes_and_problems`], with the line of the first key that appears twice in one map. Only the last of its values is
/// read.
pub fn nodes_problems_and_repeated_key(
    text: &str,
    limits: &ReadLimits,
) -> (Vec<Node>, Vec<Problem>, Option<u32>) {
    let (chunks, _) = split::split(text, limits.documents);
    let mut reader = yaml::YamlReader::default();
    let (mut nodes, mut problems, mut repeated) = (Vec::new(), Vec::new(), None);
    for chunk in &chunks {
        match document(text, chunk, &[], limits, &mut reader) {
            Ok(node) => nodes.extend(node),
            Err(wrong) => problems.extend(wrong),
        }
        repeated = repeated.or_else(|| reader.aside.repeated.first().map(|key| key.line));
    }
    (nodes, problems, repeated)
}

fn document<'t>(
    text: &'t str,
    chunk: &Chunk,
    bad_lines: &[u32],
    limits: &ReadLimits,
    reader: &mut yaml::YamlReader<'t>,
) -> Result<Option<Node>, Vec<Problem>> {
    let content = &text[chunk.range.clone()];
    if content.trim_start().starts_with('{') {
        reader.aside = yaml::DocumentNotes::default();
        return json::parse(content, chunk.line, limits, reader.taken)
            .map(Some)
            .map_err(|problem| vec![problem]);
    }
    // The following separator is not one of its lines.
    let last = chunk.line + split::count_lines(content) - u32::from(content.ends_with('\n'));
    let bad = bad_lines
        .iter()
        .filter(|line| (chunk.line..=last).contains(line));
    let problems: Vec<Problem> = bad.map(|line| no_utf8(*line)).collect();
    if !problems.is_empty() {
        return Err(problems);
    }
    let content = content.strip_prefix('\u{feff}').unwrap_or(content);
    let node = reader
        .read(content, chunk.line, limits)
        .map_err(|problems| template::explain_templates(problems, content, chunk.line))?;
    Ok(node.filter(|node| !matches!(node.value, NodeValue::Null)))
}

/// Reports text after `...` without a `---`.
fn unread(line: u32) -> Problem {
    Problem {
        code: Code::BehindDocumentEnd,
        line: Some(line),
        message: "the line `...` before it ends the document, and RKE2 silently ignores all that follows; write `---` in \
                  its place"
            .to_owned(),
    }
}

fn no_utf8(line: u32) -> Problem {
    refused(
        line,
        "the text is not UTF-8 here; save the file as UTF-8".to_owned(),
    )
}

/// The problem with an entry that has no bytes, or too many.
fn without_bytes(path: &str, content: &FileContent, limits: &ReadLimits) -> ManifestFile {
    let (code, message) = match content {
        FileContent::Bytes(bytes) => too_large(bytes.len() as u64, limits),
        FileContent::TooLarge { size } => too_large(*size, limits),
        FileContent::NoRoom { size } => (
            Code::FileTooLarge,
            format!(
                "the file has {size} bytes and was not read: with the files before it the directory has more than {} to read at one look; split the directory, or raise staging.limits.directoryBytes",
                budget::shown(limits.directory_bytes)
            ),
        ),
        FileContent::Fifo => (
            Code::SpecialFile,
            "a FIFO, not a file: RKE2 hangs forever when it opens it; remove it".to_owned(),
        ),
        FileContent::Special { what } => {
            (Code::SpecialFile, format!("{what}, not a file; remove it"))
        }
        FileContent::DanglingSymlink { target } => (
            Code::DanglingSymlink,
            format!(
                "broken symbolic link ({target}): RKE2 applies no files while the link exists; remove it or create its target"
            ),
        ),
        FileContent::SymlinkOutside { target } => (
            Code::SymlinkOutside,
            format!(
                "symbolic link to {target}, which is outside the manifests directory, not followed; replace the link with the file"
            ),
        ),
        FileContent::NotUtf8Name { special: None } => {
            (Code::FileNameNotText, Code::FileNameNotText.say(&[]))
        }
        FileContent::NotUtf8Name {
            special: Some(what),
        } => (
            Code::FileNameNotText,
            format!(
                "{what}, not a file, at a path that is not UTF-8: RKE2 stops at it, at a FIFO forever, and Windrow cannot hold it; remove it"
            ),
        ),
        FileContent::Unreadable { error } => (
            Code::FileUnreadable,
            format!("cannot be read: {error}; fix the permissions or the file system"),
        ),
    };
    ManifestFile {
        path: path.into(),
        documents: Vec::new(),
        digest: digest::sha256_hex(message.as_bytes()),
        problems: vec![Problem {
            code,
            line: None,
            message,
        }],
        sha256: String::new(),
    }
}

fn too_large(size: u64, limits: &ReadLimits) -> (Code, String) {
    (
        Code::FileTooLarge,
        format!(
            "the file has {size} bytes, the limit is {}; split it, or raise staging.limits.fileBytes",
            limits.file_bytes
        ),
    )
}

fn refused(line: u32, message: String) -> Problem {
    Problem {
        code: Code::FileRefused,
        line: Some(line),
        message,
    }
}
