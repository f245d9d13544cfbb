//! One manifest file: documents, the objects in them, and everything RKE2 will refuse.

use super::split::{self, Behind, Chunk};
use super::template;
use super::{
    Content, Document, Limits, ManifestFile, Node, Problem, Value, digest, json, objects, yaml,
};
use crate::reasons::Code;

/// Deeper nesting than this is not read, whatever the configuration allows: values are dropped and
/// compared recursively.
const DEEPEST: usize = 1000;

/// Reads a file as RKE2 would. Never fails: what is wrong stands in `problems`, all of it.
pub fn read(path: &str, content: &Content, limits: &Limits) -> ManifestFile {
    let bytes = match content {
        Content::Bytes(bytes) => bytes,
        other => return without_bytes(path, other, limits),
    };
    if bytes.len() as u64 > limits.file_bytes {
        let mut file = without_bytes(path, content, limits);
        file.sha256 = digest::sha256_hex(bytes);
        return file;
    }
    let limits = Limits {
        depth: limits.depth.min(DEEPEST),
        ..limits.clone()
    };
    let mut file = ManifestFile {
        path: path.to_owned(),
        documents: Vec::new(),
        problems: Vec::new(),
        sha256: digest::sha256_hex(bytes),
        digest: String::new(),
    };
    match std::str::from_utf8(bytes) {
        Ok(text) => documents(text, &[], &limits, &mut file),
        Err(error) => not_utf8(bytes, error.valid_up_to(), &limits, &mut file),
    }
    // What could not be read has no objects to be known by.
    file.digest = match file.refused() {
        None => digest::of(file.objects()),
        Some(_) => digest::sha256_hex(format!("refused {}", file.sha256).as_bytes()),
    };
    file
}

/// The documents of a file as values, whatever they declare; without those that are no YAML.
pub(crate) fn nodes(text: &str, limits: &Limits) -> Vec<Node> {
    let (chunks, _) = split::split(text);
    let mut reader = yaml::Reader::default();
    chunks
        .iter()
        .filter_map(|chunk| document(text, chunk, &[], limits, &mut reader).ok()?)
        .collect()
}

fn documents(text: &str, bad_lines: &[u32], limits: &Limits, file: &mut ManifestFile) {
    let (mut chunks, bad) = split::split(text);
    // A certificate is told once: not by each of its two lines, and not by the text between them.
    let mut inside: Option<(u32, u32)> = None;
    let mut certificates = Vec::new();
    for separator in bad {
        let line = separator.line;
        let message = match separator.behind {
            Behind::CertificateEnd if inside.is_some() => {
                certificates.extend(inside.take().map(|(begin, _)| (begin, line)));
                continue;
            }
            Behind::CertificateBegin | Behind::CertificateEnd => {
                inside = Some((line, u32::MAX));
                "invalid document separator: a certificate or key (`-----BEGIN`) that is not indented ends the document; \
                 indent all of its lines, deeper than the key before them"
            }
            Behind::Text => {
                "invalid document separator: text follows `---`; put it on a line of its own or behind a `#`, or indent the \
                 line if it belongs to a value"
            }
        };
        file.problems.push(refused(line, message.to_owned()));
    }
    certificates.extend(inside);
    chunks.retain(|chunk| {
        let within = |(begin, end): &(u32, u32)| (begin..end).contains(&&chunk.line);
        !certificates.iter().any(within)
    });
    if chunks.len() > limits.documents {
        file.problems.push(Problem {
            code: Code::LimitExceeded,
            line: Some(chunks[limits.documents].line),
            message: format!(
                "the file has {} documents, more than {}; split it, or raise staging.limits.documents",
                chunks.len(),
                limits.documents
            ),
        });
        chunks.truncate(limits.documents);
    }
    let mut reader = yaml::Reader::default();
    for chunk in chunks {
        match document(text, &chunk, bad_lines, limits, &mut reader) {
            Ok(Some(node)) => {
                let line = node.line;
                let (objects, problems) = objects::of_document(node, &reader.aside.keys);
                file.documents.push(Document { line, objects });
                file.problems.extend(problems);
                file.problems.extend(reader.aside.unread.map(unread));
            }
            Ok(None) => file.problems.push(refused(
                chunk.line,
                "the document has no content but is not empty to RKE2, which refuses it for its missing kind; remove it"
                    .to_owned(),
            )),
            Err(problems) => file.problems.extend(problems),
        }
    }
    file.problems.sort_by_key(|problem| problem.line);
}

fn document<'t>(
    text: &'t str,
    chunk: &Chunk,
    bad_lines: &[u32],
    limits: &Limits,
    reader: &mut yaml::Reader<'t>,
) -> Result<Option<Node>, Vec<Problem>> {
    let content = &text[chunk.range.clone()];
    if content.trim_start().starts_with('{') {
        reader.aside = yaml::Aside::default();
        return json::parse(content, chunk.line, limits)
            .map(Some)
            .map_err(|problem| vec![problem]);
    }
    let last = chunk.line + split::count_lines(content);
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
        .map_err(|problems| template::told(problems, content, chunk.line))?;
    Ok(node.filter(|node| !matches!(node.value, Value::Null)))
}

/// What stands behind `...` without a `---`.
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

/// Bytes that are not UTF-8 refuse a YAML document. In a JSON document each becomes U+FFFD.
fn not_utf8(bytes: &[u8], valid: usize, limits: &Limits, file: &mut ManifestFile) {
    if let [0xff, 0xfe, ..] | [0xfe, 0xff, ..] = bytes {
        return utf16(bytes, limits, file);
    }
    let bad_lines: Vec<u32> = bytes
        .split(|byte| *byte == b'\n')
        .zip(1..)
        .filter(|(line, _)| std::str::from_utf8(line).is_err())
        .map(|(_, number)| number)
        .collect();
    // Cut at the first NUL, a binary file would give thousands of problems.
    if bytes.contains(&0) || bad_lines.len() > 100 {
        let line = 1 + bytes[..valid].iter().filter(|byte| **byte == b'\n').count();
        file.problems.push(refused(
            u32::try_from(line).unwrap_or(u32::MAX),
            "the file is not text: it has bytes that are not UTF-8; save it as UTF-8, or remove it"
                .to_owned(),
        ));
        return;
    }
    documents(&String::from_utf8_lossy(bytes), &bad_lines, limits, file);
}

/// RKE2's line reader takes UTF-16 apart at single bytes. Only big-endian text that ends in a line
/// break comes out whole, as one document; everything else is refused.
fn utf16(bytes: &[u8], limits: &Limits, file: &mut ManifestFile) {
    let units: Vec<u16> = bytes
        .chunks_exact(2)
        .map(|pair| u16::from_be_bytes([pair[0], pair[1]]))
        .collect();
    let decoded = String::from_utf16(&units).ok().filter(|_| {
        bytes.starts_with(&[0xfe, 0xff]) && bytes.len().is_multiple_of(2) && bytes.ends_with(b"\n")
    });
    let Some(text) = decoded else {
        file.problems.push(refused(
            1,
            "the file is UTF-16, which RKE2 cannot read; save it as UTF-8".to_owned(),
        ));
        return;
    };
    let text = text.trim_start_matches('\u{feff}');
    match yaml::parse(text, 1, limits) {
        Ok(Some(node)) => {
            let line = node.line;
            let (objects, problems) = objects::of_document(node, &[]);
            file.documents.push(Document { line, objects });
            file.problems.extend(problems);
        }
        Ok(None) => file.problems.push(refused(
            1,
            "the file is UTF-16 without content, which RKE2 refuses; remove it".to_owned(),
        )),
        Err(problems) => file.problems.extend(problems),
    }
}

/// What there is to say about an entry that has no bytes, or too many.
fn without_bytes(path: &str, content: &Content, limits: &Limits) -> ManifestFile {
    let (code, message) = match content {
        Content::Bytes(bytes) => too_large(bytes.len() as u64, limits),
        Content::TooLarge { size } => too_large(*size, limits),
        Content::Fifo => (
            Code::SpecialFile,
            "a FIFO, not a file: RKE2 hangs for good when it opens it; remove it".to_owned(),
        ),
        Content::Special { what } => (Code::SpecialFile, format!("{what}, not a file; remove it")),
        Content::DanglingSymlink { target } => (
            Code::DanglingSymlink,
            format!(
                "symbolic link to {target}, which does not exist: RKE2 applies nothing at all while it is there; remove it or create the target"
            ),
        ),
        Content::SymlinkOutside { target } => (
            Code::SymlinkOutside,
            format!(
                "symbolic link to {target}, out of the manifests directory, not followed; put the file itself here"
            ),
        ),
        Content::Unreadable { error } => (
            Code::FileUnreadable,
            format!("cannot be read: {error}; mend permissions or the file system"),
        ),
    };
    ManifestFile {
        path: path.to_owned(),
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

fn too_large(size: u64, limits: &Limits) -> (Code, String) {
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
