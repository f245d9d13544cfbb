//! The note on the Lease that lets one server at a time try gates. With it, the servers of a cluster inform each other
//! about trials.
//!
//! An entry is written before rke2-server is restarted. It is removed when the trial is kept, and gets a reason when
//! the trial is rolled back. So a drop-in that fails costs the cluster one trial, even if the server that tried it
//! never comes back.
//!
//! Any client with `update` on the Lease may write it. So each server checks it, and it can only prevent a trial: no
//! server copies a part of it to a drop-in.

use std::fmt;

use jiff::{SignedDuration, Timestamp};
use serde::{Deserialize, Serialize};
use windrow_model::text::cut;

use super::check::is_version_text;

/// The number of drop-ins in a note.
const REMEMBERED: usize = 8;
/// The longest text of a note, in bytes. A Kubernetes object has room for four times as much.
const LONGEST: usize = 64 << 10;
/// The longest reason, in characters.
const LONGEST_REASON: usize = 400;
/// The longest name of a server or request, in bytes.
const LONGEST_NAME: usize = 200;

/// How long a trial without a known end counts after its server has lost the lease. A server that was removed never
/// reports the end.
const UNKNOWN_END: SignedDuration = SignedDuration::from_hours(24);

/// A drop-in that a server tries, or has tried.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct TriedDropIn {
    /// The server's name in leases.
    pub by: String,
    pub request: String,
    /// The version in the form of [`super::version_text`].
    pub version: String,
    /// The text; `None` for the removal of all gates.
    #[serde(default)]
    pub content: Option<String>,
    /// When the trial's restart began.
    pub at: Timestamp,
    /// Why it was rolled back; absent while its end is unknown.
    #[serde(default)]
    pub why: Option<String>,
}

impl TriedDropIn {
    fn is_same_trial(&self, other: &TriedDropIn) -> bool {
        (&self.by, &self.request) == (&other.by, &other.request)
    }

    fn is_same_text(&self, other: &TriedDropIn) -> bool {
        (&self.version, &self.content) == (&other.version, &other.content)
    }

    /// The first field with a value that no server writes.
    fn wrong_field(&self) -> Option<&'static str> {
        let is_name = |name: &str| {
            (1..=LONGEST_NAME).contains(&name.len())
                && name.bytes().all(|byte| byte.is_ascii_graphic())
        };
        let is_reason = |why: &str| {
            why.chars().count() <= LONGEST_REASON + 1 && !why.chars().any(char::is_control)
        };
        let content = self.content.as_deref().unwrap_or_default();
        let checked = [
            ("by", is_name(&self.by)),
            ("request", is_name(&self.request)),
            ("version", is_version_text(&self.version)),
            ("content", content.len() <= LONGEST / 2),
            ("why", self.why.as_deref().is_none_or(is_reason)),
        ];
        let wrong = checked.into_iter().find(|(_, is_right)| !is_right);
        wrong.map(|(field, _)| field)
    }
}

/// Why a note cannot be parsed: a newer Windrow, or another client, wrote it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UnreadableTrialNote(String);

impl fmt::Display for UnreadableTrialNote {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "the annotation windrow.dev/note of the Lease windrow-gates cannot be read: {}",
            self.0
        )
    }
}

/// The end of a trial, as reported to the other servers.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct TrialEnd {
    pub tried: TriedDropIn,
    /// Why it was rolled back; absent if it ended in another way.
    #[serde(default)]
    pub why: Option<String>,
}

/// The oldest entry first.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct TrialNote(Vec<TriedDropIn>);

impl TrialNote {
    /// Parses a note. Without one, no server has tried anything.
    ///
    /// # Errors
    ///
    /// No server of this version writes such a note. The earlier trials are then unknown.
    pub fn parse(text: Option<&str>) -> Result<Self, UnreadableTrialNote> {
        let Some(text) = text else {
            return Ok(Self::default());
        };
        let unreadable = |why: String| Err(UnreadableTrialNote(cut(why, 120)));
        if text.len() > LONGEST {
            return unreadable(format!("it has more than {LONGEST} bytes"));
        }
        let note: Self = match serde_json::from_str(text) {
            Ok(note) => note,
            Err(error) => return unreadable(error.to_string().escape_debug().to_string()),
        };
        if note.0.len() > REMEMBERED {
            return unreadable(format!("it has more than {REMEMBERED} entries"));
        }
        match note.0.iter().find_map(TriedDropIn::wrong_field) {
            Some(field) => unreadable(format!("no server writes such a `{field}`")),
            None => Ok(note),
        }
    }

    /// The text of the note, without the oldest entries if it would be too long.
    pub fn text(&self) -> String {
        let mut entries = self.0.as_slice();
        loop {
            let text = serde_json::to_string(entries).unwrap_or_default();
            match entries.split_first() {
                Some((_, later)) if text.len() > LONGEST => entries = later,
                _ => return text,
            }
        }
    }

    /// Adds an entry before a trial restarts rke2-server.
    ///
    /// # Errors
    ///
    /// The other servers could not read its entry.
    pub fn begun(mut self, trial: TriedDropIn) -> Result<Self, UnreadableTrialNote> {
        if let Some(field) = trial.wrong_field() {
            return Err(UnreadableTrialNote(format!(
                "the other servers do not read this `{field}`"
            )));
        }
        self.0
            .retain(|entry| !entry.is_same_trial(&trial) && !entry.is_same_text(&trial));
        self.0.push(trial);
        let late = self.0.len().saturating_sub(REMEMBERED);
        self.0.drain(..late);
        Ok(self)
    }

    /// Notes the end of a trial: rolled back for this reason, or in a way that does not matter to other servers.
    #[must_use]
    pub fn ended(mut self, end: &TrialEnd) -> Self {
        let TrialEnd { tried, why } = end;
        match why {
            Some(why) => {
                let entries = self.0.iter_mut();
                for entry in entries.filter(|entry| entry.is_same_trial(tried)) {
                    entry.why = Some(cut(why.replace(char::is_control, " "), LONGEST_REASON));
                }
            }
            None => self.0.retain(|entry| !entry.is_same_trial(tried)),
        }
        self
    }

    /// Notes that Windrow is removed from a server, which then cannot report the end of its trials.
    #[must_use]
    pub fn left_by(mut self, server: &str) -> Self {
        self.0
            .retain(|entry| entry.why.is_some() || entry.by != server);
        self
    }

    /// Does the holder of the lease have an unfinished trial?
    pub fn has_begun(&self, holder: &str) -> bool {
        let mut entries = self.0.iter();
        entries.any(|entry| entry.why.is_none() && entry.by == holder)
    }

    /// Why a drop-in must not be tried, if a trial of it did not succeed. A user may repeat a trial of this server. A
    /// trial that another `holder` of the lease has begun is still in progress.
    pub fn against(
        &self,
        trial: &TriedDropIn,
        is_automatic: bool,
        holder: Option<&str>,
    ) -> Option<String> {
        let mut entries = self.0.iter().filter(|entry| {
            let in_progress = entry.why.is_none() && holder == Some(entry.by.as_str());
            let age = trial.at.duration_since(entry.at).abs();
            let is_over = entry.why.is_none() && age > UNKNOWN_END;
            entry.is_same_text(trial)
                && !entry.is_same_trial(trial)
                && !in_progress
                && !is_over
                && (is_automatic || entry.by != trial.by)
        });
        let entry = entries.next()?;
        let (by, version, at) = (&entry.by, &entry.version, entry.at);
        Some(match &entry.why {
            Some(why) => format!("{by} tried the same on {version} and rolled it back ({why})"),
            None => format!("{by} began to try the same at {at}, and its result is unknown"),
        })
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// How an attempt of a server ends: kept, rolled back, or without a report.
    #[derive(Debug, Clone, Copy)]
    enum End {
        Kept,
        RolledBack,
        Unknown,
    }

    proptest! {
        #[test]
        fn automatic_trials_fail_at_most_once_for_each_drop_in_however_many_servers_try(
            attempts in prop::collection::vec(
                (0..3_u8, 0..3_u8, prop::sample::select(vec![End::Kept, End::RolledBack, End::Unknown])),
                0..40,
            ),
        ) {
            let mut note = TrialNote::default();
            let mut failures = [0; 3];
            for (number, (server, gate, end)) in attempts.into_iter().enumerate() {
                let attempt = trial(&format!("node{server}"), &format!("r{number}"), &format!("G{gate}"));
                if note.against(&attempt, true, None).is_some() {
                    continue;
                }
                note = note.begun(attempt.clone()).unwrap();
                match end {
                    End::Kept => note = note.ended(&end_of(&attempt, None)),
                    End::RolledBack => note = note.ended(&end_of(&attempt, Some("it did not come up"))),
                    End::Unknown => {}
                }
                if !matches!(end, End::Kept) {
                    failures[usize::from(gate)] += 1;
                }
                note = TrialNote::parse(Some(&note.text())).unwrap();
            }
            prop_assert!(failures.iter().all(|failures| *failures <= 1), "{failures:?}");
        }
    }

    fn trial(by: &str, request: &str, gate: &str) -> TriedDropIn {
        TriedDropIn {
            by: by.to_owned(),
            request: request.to_owned(),
            version: "1.36.3".to_owned(),
            content: Some(format!(
                "kube-apiserver-arg+:\n- \"feature-gates+={gate}=true\"\n"
            )),
            at: Timestamp::UNIX_EPOCH,
            why: None,
        }
    }

    fn end_of(tried: &TriedDropIn, why: Option<&str>) -> TrialEnd {
        TrialEnd {
            tried: tried.clone(),
            why: why.map(str::to_owned),
        }
    }

    #[test]
    fn a_trial_without_a_known_end_counts_for_a_day_or_until_its_server_is_left() {
        let first = trial("node1", "r1", "A");
        let note = TrialNote::default().begun(first.clone()).unwrap();
        assert!(note.has_begun("node1") && !note.has_begun("node2"));
        let second = |hours: i64| TriedDropIn {
            at: Timestamp::from_second(hours * 3600).unwrap(),
            ..trial("node2", "r2", "A")
        };
        assert!(note.against(&second(24), true, None).is_some());
        assert_eq!(note.against(&second(25), true, None), None);
        let left = note.clone().left_by("node1");
        assert_eq!(left.against(&second(1), true, None), None);
        assert_eq!(note.clone().left_by("node2"), note);
        let failed = note.ended(&end_of(&first, Some("it did not come up")));
        assert!(!failed.has_begun("node1"));
        let known = failed.left_by("node1");
        assert!(known.against(&second(9000), true, None).is_some());
    }

    #[test]
    fn what_one_server_has_begun_no_other_tries_until_it_was_kept() {
        let (first, second) = (trial("node1", "r1", "A"), trial("node2", "r2", "A"));
        let note = TrialNote::default().begun(first.clone()).unwrap();
        // As another server reads it.
        let note = TrialNote::parse(Some(&note.text())).unwrap();
        for is_automatic in [false, true] {
            let why = note.against(&second, is_automatic, None).unwrap();
            assert!(why.contains("its result is unknown"), "{why}");
            assert_eq!(note.against(&first, is_automatic, None), None, "it goes on");
        }
        let turn = note.against(&second, true, Some("node1"));
        assert_eq!(turn, None, "it is in progress");
        let failed = note
            .clone()
            .ended(&end_of(&first, Some("unrecognized feature gate: A")));
        let why = failed.against(&second, true, Some("node1")).unwrap();
        assert!(why.ends_with("(unrecognized feature gate: A)"), "{why}");
        let kept = note.ended(&end_of(&first, None));
        assert_eq!(kept.against(&second, true, None), None);
        assert_eq!(kept.text(), "[]");
    }

    #[test]
    fn another_text_or_version_may_be_tried_and_on_the_same_server_what_a_person_asks_for() {
        let first = trial("node1", "r1", "A");
        let note = TrialNote::default().begun(first.clone()).unwrap();
        let note = note.ended(&end_of(&first, Some("it did not come up")));
        assert_eq!(note.against(&trial("node2", "r2", "B"), true, None), None);
        let mut newer = trial("node2", "r2", "A");
        newer.version = "1.36.4".to_owned();
        assert_eq!(note.against(&newer, true, None), None);
        let again = trial("node1", "r3", "A");
        assert_eq!(note.against(&again, false, None), None);
        assert!(note.against(&again, true, None).is_some());
    }

    #[test]
    fn a_text_has_one_entry_and_the_note_stays_small() {
        let mut note = TrialNote::default();
        for number in 0..40 {
            let gate = format!("G{}", number % 20);
            note = note
                .begun(trial("node1", &format!("r{number}"), &gate))
                .unwrap();
        }
        assert_eq!(note.0.len(), REMEMBERED);
        let mut large = trial("node1", "r", "A");
        large.content = Some("x".repeat(LONGEST / 2));
        let mut larger = large.clone();
        (larger.request, larger.version) = ("s".to_owned(), "1.35.0".to_owned());
        let note = TrialNote::default().begun(large).unwrap();
        let note = note.begun(larger.clone()).unwrap();
        let kept = TrialNote::parse(Some(&note.text())).unwrap();
        assert_eq!(kept.0, [larger], "the newest");
        assert_eq!(TrialNote::parse(None), Ok(TrialNote::default()));
    }

    /// A note with one entry, with another value in this field.
    fn forged(field: &str, value: serde_json::Value) -> String {
        let failed = TriedDropIn {
            why: Some("it did not come up".to_owned()),
            ..trial("node1", "r1", "A")
        };
        let mut entry = serde_json::to_value(failed).unwrap();
        entry[field] = value;
        serde_json::json!([entry]).to_string()
    }

    #[test]
    fn a_note_that_no_server_has_written_is_refused_and_a_short_reason_is_given() {
        assert!(TrialNote::parse(Some(&forged("version", "1.36.3".into()))).is_ok());
        let entry = forged("request", "r2".into());
        let nine = [entry.trim_matches(['[', ']']); REMEMBERED + 1].join(",");
        let too_long = format!("[]{}", " ".repeat(LONGEST));
        let forged = [
            "since noon".to_owned(),
            String::new(),
            "{}".to_owned(),
            "[{}]".to_owned(),
            too_long,
            format!("[{nine}]"),
            forged("run", "reboot".into()),
            forged("\u{1b}[2J", "x".into()),
            forged("by", "".into()),
            forged("by", "node1 says: run this".into()),
            forged("by", "n\u{1b}[31m".into()),
            forged("by", "n".repeat(LONGEST_NAME + 1).into()),
            forged("request", "a\nb".into()),
            forged("version", "soon".into()),
            forged("version", "1.36.3 or more".into()),
            forged("content", "x".repeat(LONGEST / 2 + 1).into()),
            forged("content", 5.into()),
            forged("at", "yesterday".into()),
            forged("why", "two\nlines".into()),
            forged("why", "\u{9b}31m".into()),
            forged("why", "x".repeat(LONGEST_REASON + 2).into()),
        ];
        for text in forged {
            let refused = TrialNote::parse(Some(&text)).unwrap_err().to_string();
            assert!(refused.chars().count() <= 220, "{refused}");
            assert!(!refused.chars().any(char::is_control), "{refused:?}");
        }
    }

    proptest! {
        #[test]
        fn what_a_server_writes_the_others_read_whatever_a_component_has_said(
            why in any::<String>(),
            version in prop::sample::select(&["1.36.3", "1.35.6 or 1.36.3", "a version that is not known"][..]),
        ) {
            let tried = TriedDropIn {
                version: version.to_owned(),
                ..trial("node-1.example_0123456789ab", "changed-17", "A")
            };
            let note = TrialNote::default().begun(tried.clone()).unwrap();
            let note = note.ended(&end_of(&tried, Some(&why.repeat(9))));
            prop_assert_eq!(TrialNote::parse(Some(&note.text())), Ok(note));
        }

        #[test]
        fn an_entry_that_the_others_could_not_read_is_not_written(by in any::<String>(), request in any::<String>()) {
            let tried = TriedDropIn { by, request, ..trial("", "", "A") };
            if let Ok(note) = TrialNote::default().begun(tried) {
                prop_assert!(TrialNote::parse(Some(&note.text())).is_ok());
            }
        }
    }
}
