//! Multipart user-data: a MIME message whose parts are cloud-configs, scripts and more.

use mail_parser::{Encoding, Message, MessageParser, MessagePart, MimeHeaders as _, PartType};
use windrow_model::manifest::{ReadLimits, encoding};

use super::{
    LAUNCH_INDEX, MERGE_HEADERS, ONE_MACHINE, Payload, Wrapped, below, part_name, take, type_of,
};

/// More than any platform provides; every few bytes could be a part or a header with its own cost.
const LONGEST: usize = 4 << 20;
/// More lines that could begin a part are not read.
const MOST_PARTS: usize = 10_000;
/// cloud-init treats a text as MIME if it has this word in its first bytes, with their number
/// (`cloudinit/user_data.py`, `convert_string`).
const VERSION: (&str, usize) = ("mime-version:", 4096);
/// Types of packed parts (`DECOMP_TYPES` there).
const PACKED: [&str; 8] = [
    "application/gzip",
    "application/gzip-compressed",
    "application/gzipped",
    "application/x-compress",
    "application/x-compressed",
    "application/x-gunzip",
    "application/x-gzip",
    "application/x-gzip-compressed",
];

/// The text before a message's headers, if there is any. Python's reader treats the first line that is not a header as
/// the body, and then cloud-init does not treat the text as a message.
pub(super) fn in_front(text: &str) -> Option<&'static str> {
    let bare = text.trim_start_matches('\u{feff}');
    let is_comment = |line: &str| line.starts_with('#');
    let mut rest = bare;
    while let Some((line, below)) = rest.split_once('\n') {
        if !line.trim().is_empty() && !is_comment(line) {
            break;
        }
        rest = below;
    }
    let what = match bare.lines().next() {
        _ if bare.len() < text.len() => "a byte-order mark",
        Some(line) if is_comment(line) => "a comment",
        _ => "a blank line",
    };
    (rest.len() < text.len() && is_mime(rest)).then_some(what)
}

/// Whether it begins with the headers of a message.
pub(super) fn is_mime(text: &str) -> bool {
    let mut told = false;
    for line in text.lines() {
        let line = line.trim_end();
        let lower = line.to_ascii_lowercase();
        told |= lower.starts_with("mime-version:") || lower.starts_with("content-type: multipart/");
        let name = line.split_once(':').map_or("", |(name, _)| name);
        let header = !name.is_empty()
            && name
                .bytes()
                .all(|byte| byte.is_ascii_alphanumeric() || byte == b'-');
        // Mail programs begin a file like this.
        let from = line.starts_with("From ");
        if line.is_empty() || !(header || from || line.starts_with([' ', '\t'])) {
            break;
        }
    }
    told
}

/// Ignores a message, as cloud-init does.
pub(super) fn pass_over(wrapped: &mut Wrapped, why: &str) {
    wrapped.refused(1, why);
}

pub(super) fn read(wrapped: &mut Wrapped, shown: &str, text: &str, limits: &ReadLimits) {
    let beginning = &text.as_bytes()[..text.len().min(VERSION.1)];
    if !beginning
        .to_ascii_lowercase()
        .windows(VERSION.0.len())
        .any(|word| word == VERSION.0.as_bytes())
    {
        let why = format!(
            "without the header `MIME-Version: 1.0` in its first {} bytes it is not a multipart message to cloud-init",
            VERSION.1
        );
        return pass_over(wrapped, &why);
    }
    if text.len() > LONGEST {
        wrapped.not_looked_at(
            1,
            &format!("a multipart message of more than {LONGEST} bytes"),
        );
        return;
    }
    if text.lines().filter(|line| line.starts_with("--")).count() > MOST_PARTS {
        wrapped.not_looked_at(
            1,
            &format!("a multipart message of more than {MOST_PARTS} parts"),
        );
        return;
    }
    let Some(message) = MessageParser::new().parse(text) else {
        wrapped.not_looked_at(1, "its headers cannot be read");
        return;
    };
    take_parts(wrapped, shown, text, &message, limits);
    if wrapped.parts.is_empty() && wrapped.problems.is_empty() && wrapped.notes.is_empty() {
        wrapped.refused(1, "the message has no part; check its boundary");
    }
}

fn take_parts(
    wrapped: &mut Wrapped,
    shown: &str,
    text: &str,
    message: &Message<'_>,
    limits: &ReadLimits,
) {
    for part in &message.parts {
        match &part.body {
            PartType::Multipart(_) => {}
            PartType::Message(_) => {
                let line = line_of(text, part.offset_body);
                wrapped.not_looked_at(line, "a part that is itself a message");
            }
            _ => {
                let length = offset(part.offset_end.saturating_sub(part.offset_body));
                if !wrapped.has_room(line_of(text, part.offset_body), length) {
                    return;
                }
                take_part(wrapped, shown, text, part, limits);
            }
        }
    }
}

/// Adds one part of a message. Unreadable content is reported.
fn take_part(
    wrapped: &mut Wrapped,
    shown: &str,
    text: &str,
    part: &MessagePart<'_>,
    limits: &ReadLimits,
) {
    let first = line_of(text, part.offset_body);
    // A part without a type, or with an invalid one, is plain text.
    let stated = part
        .content_type()
        .and_then(|kind| Some(format!("{}/{}", kind.ctype(), kind.subtype()?).to_ascii_lowercase()))
        .unwrap_or_else(|| "text/plain".to_owned());
    let packed = PACKED.contains(&stated.as_str());
    // Only a part without encoding has its lines in the file.
    let mapped = part.encoding == Encoding::None && !packed;
    let body = match mapped {
        true => Ok(raw(text, part).to_owned()),
        false => decoded(part, &stated, packed, limits),
    };
    let body = match body {
        Ok(body) => body,
        Err(what) => return wrapped.not_looked_at(first, &what),
    };
    let looked_at = packed
        || matches!(
            stated.as_str(),
            "text/plain" | "text/x-not-multipart" | "text/x-shellscript"
        );
    let kind = match type_of(&body).filter(|_| looked_at) {
        Some(kind) => kind,
        None if packed => "text/plain",
        None => &stated,
    };
    let mut headers = part.headers.iter();
    if headers.any(|header| header.name().eq_ignore_ascii_case(LAUNCH_INDEX)) {
        wrapped.not_looked_at(first, ONE_MACHINE);
    }
    // cloud-init does not keep such a header of a packed part (`cloudinit/user_data.py`, 26.2).
    let merge = merge_header(text, part).filter(|_| !packed);
    let called = part_name(shown, first);
    let payload = Payload {
        shown: if mapped { shown } else { &called },
        text: match mapped {
            true => below(first, &body),
            false => body,
        },
        first,
        mapped,
        merge: merge.map(|merge| merge.trim().to_owned()),
        alone: false,
    };
    take(wrapped, payload, kind, limits);
}

/// The text of an encoded or packed part, or a problem if it cannot be read.
fn decoded(
    part: &MessagePart<'_>,
    stated: &str,
    packed: bool,
    limits: &ReadLimits,
) -> Result<String, String> {
    if part.is_encoding_problem {
        return Err(
            "a part whose Content-Transfer-Encoding cannot be undone; encode it again".to_owned(),
        );
    }
    let mut bytes = part.contents().to_vec();
    if packed {
        bytes = encoding::gunzip(&bytes, limits.file_bytes)
            .map_err(|why| format!("a part of the type {stated} that is not valid gzip: {why}"))?;
    }
    String::from_utf8(bytes)
        .map_err(|_| format!("a part of the type {stated} that is not UTF-8 text"))
}

/// The header with which a part requests its merging.
fn merge_header<'t>(text: &'t str, part: &MessagePart<'_>) -> Option<&'t str> {
    MERGE_HEADERS.into_iter().find_map(|name| {
        let header = part.headers.iter().find(|header| header.name() == name)?;
        text.get(offset(header.offset_start)..offset(header.offset_end))
    })
}

fn offset(at: u32) -> usize {
    usize::try_from(at).unwrap_or(usize::MAX)
}

/// The body without decoding.
fn raw<'t>(text: &'t str, part: &MessagePart<'_>) -> &'t str {
    let (start, end) = (offset(part.offset_body), offset(part.offset_end));
    text.get(start..end.max(start).min(text.len()))
        .unwrap_or_default()
}

fn line_of(text: &str, at: u32) -> u32 {
    let before = text.as_bytes().get(..offset(at)).unwrap_or_default();
    let breaks = before.iter().filter(|byte| **byte == b'\n').count();
    u32::try_from(breaks).unwrap_or(u32::MAX).saturating_add(1)
}
