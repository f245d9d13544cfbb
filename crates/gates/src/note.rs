//! What the servers of a cluster tell each other about trials: the note on the Lease that lets one of them at a time try gates.
//!
//! An entry is written before rke2-server is restarted. It goes when the trial is kept, and gets a reason when the trial is rolled back. So
//! a drop-in that fails costs the cluster one trial, also if the server that tried it never comes back.

use jiff::{SignedDuration, Timestamp};
use serde::{Deserialize, Serialize};

/// How many drop-ins are remembered.
const REMEMBERED: usize = 8;
/// The longest text of a note, in bytes. An object of Kubernetes has room for four times as much.
const LONGEST: usize = 64 << 10;
/// The longest reason, in characters.
const LONGEST_REASON: usize = 400;

/// How long a trial counts whose end is not known, once its server has no lease. A server that was removed never reports it.
const UNKNOWN_END: SignedDuration = SignedDuration::from_hours(24);

/// A drop-in that a server tries, or has tried.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct TriedDropIn {
    /// The server, by its name in leases.
    pub by: String,
    /// The trial, by its request.
    pub request: String,
    /// The version, as [`super::version_text`] writes it.
    pub version: String,
    /// The text; `None` for the removal of all gates.
    #[serde(default)]
    pub content: Option<String>,
    /// When the trial's restart began.
    pub at: Timestamp,
    /// Why it was rolled back; absent while its end is not known.
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
}

/// How a trial ended, for the other servers.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct TrialEnd {
    /// The trial.
    pub tried: TriedDropIn,
    /// Why it was rolled back; absent if it ended otherwise.
    #[serde(default)]
    pub why: Option<String>,
}

/// The note: the oldest entry first.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct TrialNote(Vec<TriedDropIn>);

impl TrialNote {
    /// Reads it. A note that cannot be read says nothing.
    pub fn parse(text: Option<&str>) -> Self {
        text.and_then(|text| serde_json::from_str(text).ok())
            .unwrap_or_default()
    }

    /// Writes it, without the oldest entries if it is too long.
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

    /// A trial is about to restart rke2-server.
    #[must_use]
    pub fn begun(mut self, trial: TriedDropIn) -> Self {
        self.0
            .retain(|entry| !entry.is_same_trial(&trial) && !entry.is_same_text(&trial));
        self.0.push(trial);
        let late = self.0.len().saturating_sub(REMEMBERED);
        self.0.drain(..late);
        self
    }

    /// A trial has ended: rolled back for this reason, or otherwise without anything that other servers should know.
    #[must_use]
    pub fn ended(mut self, end: &TrialEnd) -> Self {
        let TrialEnd { tried, why } = end;
        match why {
            Some(why) => {
                let entries = self.0.iter_mut();
                for entry in entries.filter(|entry| entry.is_same_trial(tried)) {
                    entry.why = Some(why.chars().take(LONGEST_REASON).collect());
                }
            }
            None => self.0.retain(|entry| !entry.is_same_trial(tried)),
        }
        self
    }

    /// A server is left by Windrow: nobody will report the end of what it has begun.
    #[must_use]
    pub fn left_by(mut self, server: &str) -> Self {
        self.0
            .retain(|entry| entry.why.is_some() || entry.by != server);
        self
    }

    /// Has the holder of the lease begun a trial that has not ended?
    pub fn has_begun(&self, holder: &str) -> bool {
        let mut entries = self.0.iter();
        entries.any(|entry| entry.why.is_none() && entry.by == holder)
    }

    /// Why a drop-in is not to be tried, if a trial of it did not succeed. A person may ask again for what the own server has tried.
    /// What another `holder` of the lease has begun is still in progress.
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
            None => format!("{by} began to try the same at {at}, and its end is not known"),
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
                note = note.begun(attempt.clone());
                match end {
                    End::Kept => note = note.ended(&end_of(&attempt, None)),
                    End::RolledBack => note = note.ended(&end_of(&attempt, Some("it did not come up"))),
                    End::Unknown => {}
                }
                if !matches!(end, End::Kept) {
                    failures[usize::from(gate)] += 1;
                }
                note = TrialNote::parse(Some(&note.text()));
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
        let note = TrialNote::default().begun(first.clone());
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
        let note = TrialNote::default().begun(first.clone());
        // As another server reads it.
        let note = TrialNote::parse(Some(&note.text()));
        for is_automatic in [false, true] {
            let why = note.against(&second, is_automatic, None).unwrap();
            assert!(why.contains("its end is not known"), "{why}");
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
        let note = TrialNote::default().begun(first.clone());
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
            note = note.begun(trial("node1", &format!("r{number}"), &gate));
        }
        assert_eq!(note.0.len(), REMEMBERED);
        let mut large = trial("node1", "r", "A");
        large.content = Some("x".repeat(LONGEST / 2));
        let mut larger = large.clone();
        (larger.request, larger.version) = ("s".to_owned(), "1.35.0".to_owned());
        let note = TrialNote::default().begun(large).begun(larger.clone());
        let kept = TrialNote::parse(Some(&note.text()));
        assert_eq!(kept.0, [larger], "the newest");
        assert_eq!(TrialNote::parse(Some("since noon")), TrialNote::default());
        assert_eq!(TrialNote::parse(None), TrialNote::default());
    }
}
