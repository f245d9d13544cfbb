//! The bytes that a file will have.
//!
//! cloud-init (`cloudinit/config/cc_write_files.py`, 26.2) accepts the name of an encoding in any case. yip
//! (`pkg/plugins/file_decoder.go`, v1.9.6), which also writes Harvester's files, compares case-sensitively. To both, an
//! unknown name means plain text.

use std::borrow::Cow;

use windrow_model::manifest::encoding;

use super::taker::Extractor;
use super::{
    FileKind, InnerLines, Node, NodeValue, Problem, inner_lines, key_not_read, not_looked_at,
};

#[derive(Clone, Copy, PartialEq, Eq)]
enum Encoding {
    Plain,
    Base64,
    Gzip,
    GzipInBase64,
    /// A name that cloud-init and yip do not have.
    Unknown,
}

impl Encoding {
    fn from_name(name: &str, kind: FileKind) -> Self {
        let name = match kind {
            FileKind::CloudInit => name.trim().to_lowercase(),
            _ => name.to_owned(),
        };
        match name.as_str() {
            "" | "text/plain" => Self::Plain,
            "b64" | "base64" => Self::Base64,
            "gz" | "gzip" => Self::Gzip,
            "gz+b64" | "gzip+b64" | "gz+base64" | "gzip+base64" => Self::GzipInBase64,
            _ => Self::Unknown,
        }
    }
}

type DecodedContent = (Vec<u8>, InnerLines);

impl Extractor<'_> {
    fn encoding(&self, file: &Node) -> Encoding {
        let name = self.field(file, "encoding").and_then(Node::as_str);
        Encoding::from_name(name.unwrap_or_default(), self.kind)
    }

    /// The problem with an encoding that its reader does not have.
    pub(super) fn unknown_encoding(&self, file: &Node) -> Option<Problem> {
        let name = self.field(file, "encoding")?;
        (self.encoding(file) == Encoding::Unknown).then(|| {
            let key = format!("encoding: {}", name.as_str().unwrap_or_default());
            let why = "this encoding is unknown, so the content is read as it is; use b64 or gz+b64, or none";
            key_not_read(&key, name.line, why)
        })
    }

    /// Why this content will not be the content of the file. cloud-init fetches the `source`, and uses `content` only
    /// if that fails. The other readers have no `source`.
    pub(super) fn is_from_elsewhere(&self, file: &Node) -> Option<Problem> {
        let source = file
            .get("source")
            .filter(|_| self.kind == FileKind::CloudInit)?;
        let is_fetched = match &source.value {
            NodeValue::Null => false,
            NodeValue::Mapping(_) => source.str_at(&["uri"]).is_some(),
            _ => true,
        };
        let why = "the file's content is fetched from `source`; write it as `content`";
        is_fetched.then(|| not_looked_at(source.line, why))
    }

    pub(super) fn content(&self, file: &Node) -> Result<DecodedContent, (u32, String)> {
        let Some(content) = self.field(file, "content") else {
            if let Some(from) = self
                .field(file, "source")
                .or_else(|| self.field(file, "url"))
            {
                let message = "the content comes from elsewhere, and Windrow cannot read it; write it as `content`";
                return Err((from.line, message.to_owned()));
            }
            return Ok((Vec::new(), InnerLines::Begin { line: file.line }));
        };
        let text = match &content.value {
            NodeValue::String(text) => text.as_str(),
            NodeValue::Null => "",
            _ => {
                let message = format!(
                    "`content` is {}, not text; begin it with `|`",
                    content.type_name()
                );
                return Err((content.line, message));
            }
        };
        let begin = InnerLines::Begin { line: content.line };
        let decoded = |digits: &[u8]| {
            encoding::decode_base64(&self.digits(digits)).map_err(|why| {
                let message = format!("`content` is not valid base64: {why}; encode it again");
                (content.line, message)
            })
        };
        let unpacked = |packed: &[u8]| {
            encoding::gunzip(packed, self.limits.file_bytes).map_err(|why| {
                let message =
                    format!("`content` cannot be unpacked: {why}; pack it again with gzip");
                (content.line, message)
            })
        };
        let is_binary = self.is_binary(content);
        let bytes = match is_binary {
            true => decoded(text.as_bytes())?,
            false => text.as_bytes().to_vec(),
        };
        match self.encoding(file) {
            Encoding::Plain | Encoding::Unknown if is_binary => Ok((bytes, begin)),
            Encoding::Plain | Encoding::Unknown => {
                Ok((bytes, inner_lines(&self.lines, content, text)))
            }
            Encoding::Base64 => Ok((decoded(&bytes)?, begin)),
            Encoding::Gzip => Ok((unpacked(&bytes)?, begin)),
            Encoding::GzipInBase64 => Ok((unpacked(&decoded(&bytes)?)?, begin)),
        }
    }

    /// The part of a base64 text that is decoded. Python skips every character that is not a digit; any such character
    /// except space is a mistake.
    fn digits<'b>(&self, text: &'b [u8]) -> Cow<'b, [u8]> {
        match self.kind {
            FileKind::CloudInit => text
                .iter()
                .copied()
                .filter(|byte| !byte.is_ascii_whitespace())
                .collect(),
            _ => text.into(),
        }
    }

    /// Whether the value has the tag `!!binary`. It is in the text as it is written.
    fn is_binary(&self, content: &Node) -> bool {
        let line = self.lines.get(content.line);
        line.is_some_and(|line| line.contains("!!binary"))
    }
}
