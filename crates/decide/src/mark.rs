//! The content of Windrow's markers: who holds the file, why, since when, and how to release it.
//!
//! Windrow recognises its own markers at any size and from any version: an older version wrote them without a limit,
//! and a newer one may use reasons that this version does not know. A marker that cannot be parsed as a whole is read
//! line by line, like in the fail-safe's script (`systemd/failsafe`): `"by": "windrow"` on a separate line.

use std::io::{self, BufRead, BufReader, Read};

use jiff::Timestamp;
use schemars::JsonSchema;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use smol_str::SmolStr;
use windrow_model::manifest::{ManifestPath, MarkerPath};
use windrow_model::reasons::Code;
use windrow_model::text::shell_word;

use super::text::shorten;

/// The largest marker that is parsed as one document, in bytes. Windrow writes smaller ones.
const WHOLE: u64 = 64 << 10;
/// The part of a line that is read, in bytes.
const LINE: usize = 64 << 10;
/// The part of a marker that is read line by line, in bytes.
const LINES: u64 = 256 << 20;
/// The longest reason in a marker, in characters.
const WHY_CHARS: usize = 1000;

/// The content of a marker that Windrow made: who, why, since when, how to release. RKE2 looks only
/// at the marker's name.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Mark {
    /// Always `windrow`.
    pub by: String,
    /// The held file.
    pub file: ManifestPath,
    /// Reason code.
    pub code: Code,
    /// Why, in one line, at the time of the hold. `windrow why FILE` shows the present reason.
    pub why: SmolStr,
    /// Since when the file is held.
    pub since: Timestamp,
    /// The action of the fail-safe when Windrow cannot run.
    pub on_failure: OnFailure,
    /// Digest of the held content.
    pub digest: SmolStr,
    /// How to release it by hand.
    pub release: String,
}

impl Mark {
    /// The value of `by` in every marker that Windrow made.
    pub const BY: &'static str = "windrow";

    /// Keeps a file from RKE2 while it is written and read. `windrow add` creates this marker before the file.
    pub fn provisional(path: &ManifestPath, now: Timestamp) -> Self {
        Self {
            by: Self::BY.to_owned(),
            file: path.clone(),
            code: Code::Provisional,
            why: Code::Provisional.say(&[]).into(),
            since: now,
            on_failure: OnFailure::Lift,
            digest: "".into(),
            release: Self::release_command(path),
        }
    }

    /// The command that releases a file, with quotes if its name needs them.
    pub fn release_command(file: &ManifestPath) -> String {
        let word = shell_word(file);
        if file.starts_with('-') {
            format!("windrow release -- {word}")
        } else {
            format!("windrow release {word}")
        }
    }

    /// Does it say that RKE2 has applied the file, and that the file is to be applied only once?
    pub(super) fn says_applied_once(&self) -> bool {
        says_applied_once(self.code)
    }

    /// `None` if Windrow did not make the marker.
    pub fn parse(content: &[u8]) -> Option<Self> {
        serde_json::from_slice::<Self>(content)
            .ok()
            .filter(|mark| mark.by == Self::BY)
    }

    pub fn to_json(&self) -> String {
        // A struct of strings and enums always serialises.
        serde_json::to_string_pretty(self).unwrap_or_default() + "\n"
    }
}

/// The action of the fail-safe on a hold when Windrow cannot run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum OnFailure {
    /// The fail-safe lifts it: RKE2 does what it would have done without Windrow.
    Lift,
    /// It stays: a release would do harm, or a user asked for the hold.
    Keep,
}

impl Mark {
    /// A reason for a marker: cut, so that the marker can always be read back.
    pub fn shortened(why: &str) -> SmolStr {
        shorten(why, WHY_CHARS).into()
    }

    /// Does the marker at `path` hide the name that this was written for? Files with the same name share a marker in
    /// any directory.
    pub fn was_made_for(&self, path: &MarkerPath) -> bool {
        self.file.name() == path.hides()
    }

    /// Reads the marker at `path`; `None` if it is not Windrow's, or is a copy that hides another name than Windrow
    /// wrote it for: then a user made it. `since` is the time of the hold if the marker has no time.
    ///
    /// # Errors
    ///
    /// The errors of the reader.
    pub fn read(from: impl Read, path: &MarkerPath, since: Timestamp) -> io::Result<Option<Self>> {
        let mut from = from;
        let mut head = Vec::new();
        from.by_ref().take(WHOLE).read_to_end(&mut head)?;
        if let Some(mark) = Self::parse(&head) {
            return Ok(Some(mark).filter(|mark| mark.was_made_for(path)));
        }
        let rest = from.take(LINES);
        let mut lines = BufReader::new(io::Cursor::new(head).chain(rest));
        let mut known = MarkFields::default();
        let mut line = Vec::new();
        while next_line(&mut lines, &mut line)? {
            known.take(&line);
        }
        Ok(known
            .mark(path, since)
            .filter(|mark| mark.was_made_for(path)))
    }
}

/// Reads the next line without its end, up to the limit; false at the end.
fn next_line(from: &mut impl BufRead, line: &mut Vec<u8>) -> io::Result<bool> {
    line.clear();
    let mut any = false;
    loop {
        let bytes = from.fill_buf()?;
        if bytes.is_empty() {
            return Ok(any);
        }
        any = true;
        let end = bytes.iter().position(|byte| *byte == b'\n');
        let part = &bytes[..end.unwrap_or(bytes.len())];
        let room = LINE.saturating_sub(line.len()).min(part.len());
        line.extend_from_slice(&part[..room]);
        let used = end.map_or(bytes.len(), |end| end + 1);
        from.consume(used);
        if end.is_some() {
            return Ok(true);
        }
    }
}

/// The fields that were found in the lines of a marker.
#[derive(Default)]
struct MarkFields {
    is_ours: bool,
    file: Option<ManifestPath>,
    code: Option<Code>,
    why: Option<String>,
    since: Option<Timestamp>,
    on_failure: Option<OnFailure>,
    digest: Option<String>,
}

impl MarkFields {
    fn take(&mut self, line: &[u8]) {
        let text = String::from_utf8_lossy(line);
        let text = text.trim_start_matches(' ');
        self.is_ours |= text.strip_suffix(',').unwrap_or(text) == r#""by": "windrow""#;
        let field = |name: &str| text.strip_prefix(name)?.strip_prefix(": ");
        if let Some(said) = field(r#""file""#) {
            first(&mut self.file, said);
        } else if let Some(said) = field(r#""code""#) {
            first(&mut self.code, said);
        } else if let Some(said) = field(r#""why""#) {
            let cut = || Some(said.trim_start_matches('"').to_owned());
            first(&mut self.why, said);
            self.why = self.why.take().or_else(cut);
        } else if let Some(said) = field(r#""since""#) {
            first(&mut self.since, said);
        } else if let Some(said) = field(r#""onFailure""#) {
            first(&mut self.on_failure, said);
        } else if let Some(said) = field(r#""digest""#) {
            first(&mut self.digest, said);
        }
    }

    fn mark(self, path: &MarkerPath, since: Timestamp) -> Option<Mark> {
        let file = self.file.filter(|file| !file.is_empty());
        let file = file.unwrap_or_else(|| path.file());
        self.is_ours.then(|| Mark {
            by: Mark::BY.to_owned(),
            code: self.code.unwrap_or(Code::Held),
            why: Mark::shortened(&self.why.unwrap_or_default()),
            since: self.since.unwrap_or(since),
            // If no line says what to do on a failure, a release may do harm.
            on_failure: self.on_failure.unwrap_or(OnFailure::Keep),
            digest: self.digest.unwrap_or_default().into(),
            release: Mark::release_command(&file),
            file,
        })
    }
}

fn first<T: DeserializeOwned>(known: &mut Option<T>, said: &str) {
    if known.is_none() {
        *known = serde_json::from_str(said.strip_suffix(',').unwrap_or(said)).ok();
    }
}

/// Is this the reason of a file that RKE2 has applied and is to apply only once?
pub(super) fn says_applied_once(code: Code) -> bool {
    matches!(code, Code::HeldAppliedOnce | Code::OnceUnconfirmed)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mark(why: &str) -> Mark {
        Mark {
            by: Mark::BY.to_owned(),
            file: "sub/b.yaml".into(),
            code: Code::WaitsForKind,
            why: why.into(),
            since: "2026-03-01T12:00:00Z".parse().unwrap(),
            on_failure: OnFailure::Lift,
            digest: "0".repeat(64).into(),
            release: "windrow release sub/b.yaml".to_owned(),
        }
    }

    fn read(content: &str) -> Option<Mark> {
        let path = ManifestPath::from("b.yaml").marker();
        Mark::read(content.as_bytes(), &path, Timestamp::UNIX_EPOCH).unwrap()
    }

    #[test]
    fn the_command_that_releases_a_file_works_for_every_name() {
        let command = |file: &str| Mark::release_command(&file.into());
        assert_eq!(command("a/b.yaml"), "windrow release a/b.yaml");
        assert_eq!(command("--help.yaml"), "windrow release -- --help.yaml");
        assert_eq!(command(" space .yaml"), "windrow release ' space .yaml'");
    }

    #[test]
    fn a_marker_of_any_size_is_known_with_what_it_says() {
        for length in [0, 1000, 65_535, 65_536, 70_000, 1 << 20, 3 << 20] {
            let written = mark(&"é\"\\".repeat(length / 4));
            let read = read(&written.to_json()).unwrap();
            let same = |mark: &Mark| (mark.file.clone(), mark.code, mark.since, mark.on_failure);
            assert_eq!(same(&read), same(&written), "{length}");
            assert_eq!(read.digest, written.digest);
            assert!(read.why.starts_with('é') || length == 0, "{length}");
        }
        // Each line in its place, followed by padding.
        let padded = mark("x").to_json() + &" \n".repeat(100_000);
        assert_eq!(read(&padded).unwrap().on_failure, OnFailure::Lift);
    }

    #[test]
    fn a_marker_of_another_version_is_ours_and_kept_where_it_says_nothing() {
        let newer = mark("x")
            .to_json()
            .replace("waits-for-kind", "waits-for-godot");
        assert_eq!(read(&newer).unwrap().code, Code::Held);
        assert_eq!(read(&newer).unwrap().on_failure, OnFailure::Lift);
        let bare = read("{\n  \"by\": \"windrow\"\n}\n").unwrap();
        assert_eq!(
            (bare.file.as_str(), bare.on_failure),
            ("b.yaml", OnFailure::Keep)
        );
    }

    #[test]
    fn a_copy_of_a_marker_under_another_name_is_foreign() {
        let written = mark("x").to_json();
        let cut = written.trim_end_matches("}\n");
        for content in [written.as_str(), cut] {
            for (marker, is_ours) in [("b.yaml", true), ("c/b.yaml", true), ("c.yaml", false)] {
                let path = ManifestPath::from(marker).marker();
                let read = Mark::read(content.as_bytes(), &path, Timestamp::UNIX_EPOCH).unwrap();
                assert_eq!(read.is_some(), is_ours, "{marker}");
            }
        }
    }

    #[test]
    fn a_marker_that_only_speaks_of_windrow_is_foreign() {
        for foreign in [
            "",
            "\n",
            "held because \"by\": \"windrow\" was gone\n",
            "{\"by\": \"harvester\"}\n",
            "{\n  \"by\": \"harvester\",\n  \"note\": \"by windrow\"\n}\n",
            "{\"by\": \"windrow\", ",
        ] {
            assert_eq!(read(foreign), None, "{foreign:?}");
        }
        assert_eq!(read(&"x".repeat(1 << 20)), None);
    }

    #[test]
    fn what_is_written_can_always_be_read_back_as_a_whole() {
        let mut largest = mark("");
        largest.why = Mark::shortened(&"\u{1}".repeat(1 << 20));
        largest.file = "\u{1}".repeat(4096).into();
        largest.release = format!("windrow release {}", largest.file);
        let text = largest.to_json();
        assert!((text.len() as u64) < WHOLE, "{}", text.len());
        assert_eq!(Mark::parse(text.as_bytes()), Some(largest));
    }
}
