//! Events about files, as entries of the journal: each one separately, up to a number per minute. The others of the
//! same kind are summed up in one entry every few seconds. Many files that come at once, or one file that changes
//! all the time, do not fill the journal.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use tokio::time::Instant;
use windrow_decide::Event;
use windrow_model::reasons::Code;

/// Most entries of one code in a period.
const MOST_OF_CODE: usize = 20;
/// Most entries of one code about one file in a period.
const MOST_OF_FILE: usize = 3;
const PERIOD: Duration = Duration::from_secs(60);
/// How long events are collected before they are summed up.
const COLLECTED: Duration = Duration::from_secs(10);
/// How many files a sum names. This many events or fewer are written one by one.
const NAMED: usize = 3;

/// The written and the suppressed events of each code.
#[derive(Debug, Default)]
pub(super) struct EventJournal(BTreeMap<Code, CodeEvents>);

#[derive(Debug)]
struct CodeEvents {
    began: Instant,
    written: usize,
    of_file: BTreeMap<String, usize>,
    left_out: Option<LeftOut>,
}

#[derive(Debug)]
struct LeftOut {
    due: Instant,
    count: usize,
    files: BTreeSet<String>,
    first: Vec<Event>,
}

impl EventJournal {
    pub(super) fn take(&mut self, event: Event, now: Instant) -> Option<Event> {
        let Some(file) = event.file.clone() else {
            return Some(event);
        };
        let events = self.0.entry(event.code).or_insert_with(|| CodeEvents {
            began: now,
            written: 0,
            of_file: BTreeMap::new(),
            left_out: None,
        });
        if now.duration_since(events.began) >= PERIOD {
            events.began = now;
            events.written = 0;
            events.of_file.clear();
        }
        let of_file = events.of_file.entry(file.clone()).or_default();
        // After others that were left out it would be out of order.
        if events.left_out.is_none() && events.written < MOST_OF_CODE && *of_file < MOST_OF_FILE {
            events.written += 1;
            *of_file += 1;
            return Some(event);
        }
        let left_out = events.left_out.get_or_insert_with(|| LeftOut {
            due: now + COLLECTED,
            count: 0,
            files: BTreeSet::new(),
            first: Vec::new(),
        });
        left_out.count += 1;
        left_out.files.insert(file);
        if left_out.first.len() < NAMED {
            left_out.first.push(event);
        }
        None
    }

    pub(super) fn due(&self) -> Option<Instant> {
        let left_out = self
            .0
            .values()
            .filter_map(|events| events.left_out.as_ref());
        left_out.map(|left_out| left_out.due).min()
    }

    pub(super) fn sums(&mut self, now: Instant) -> Vec<Event> {
        let mut sums = Vec::new();
        for (code, events) in &mut self.0 {
            if let Some(left_out) = events.left_out.take_if(|left_out| left_out.due <= now) {
                sums.extend(left_out.sum(*code));
            }
        }
        sums
    }

    /// All sums, due or not.
    pub(super) fn finish(&mut self) -> Vec<Event> {
        let left_out = self.0.iter_mut();
        let left_out = left_out.filter_map(|(code, events)| Some((*code, events.left_out.take()?)));
        left_out
            .flat_map(|(code, left_out)| left_out.sum(code))
            .collect()
    }
}

impl LeftOut {
    fn sum(self, code: Code) -> Vec<Event> {
        if self.count <= self.first.len() {
            return self.first;
        }
        let named = self.files.iter().take(NAMED).map(String::as_str);
        let named = named.collect::<Vec<_>>().join(", ");
        let message = match self.files.len() {
            files if files <= NAMED => format!("{code} {} more times: {named}", self.count),
            files => format!(
                "{code}: {files} more files: {named} and {} more (windrow status -v)",
                files - NAMED
            ),
        };
        vec![Event::new(code, message)]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn held(file: &str) -> Event {
        Event {
            code: Code::Held,
            file: Some(file.to_owned()),
            message: format!("{file} held"),
        }
    }

    #[tokio::test]
    async fn many_files_that_come_at_once_are_a_bounded_number_of_entries() {
        let mut journal = EventJournal::default();
        let now = Instant::now();
        let names: Vec<String> = (0..500).map(|number| format!("{number:03}.yaml")).collect();
        let written: Vec<Event> = names
            .iter()
            .filter_map(|name| journal.take(held(name), now))
            .collect();
        assert_eq!(written.len(), MOST_OF_CODE);
        assert!(journal.sums(now).is_empty(), "more may come");
        let due = journal.due().unwrap();
        let sums = journal.sums(due);
        assert_eq!(sums.len(), 1);
        assert_eq!((sums[0].code, sums[0].file.as_ref()), (Code::Held, None));
        assert_eq!(
            sums[0].message,
            "held: 480 more files: 020.yaml, 021.yaml, 022.yaml and 477 more (windrow status -v)"
        );
        assert_eq!(journal.due(), None);
        assert!(journal.take(held("a"), now + PERIOD).is_some());
    }

    #[tokio::test]
    async fn a_file_that_changes_all_the_time_is_summed_up_and_others_are_not() {
        let mut journal = EventJournal::default();
        let now = Instant::now();
        let written = (0..20).filter_map(|_| journal.take(held("a.yaml"), now));
        assert_eq!(written.count(), MOST_OF_FILE);
        let sums = journal.finish();
        assert_eq!(sums.len(), 1);
        assert_eq!(sums[0].message, "held 17 more times: a.yaml");
        assert!(journal.take(held("b.yaml"), now).is_some());
    }

    #[tokio::test]
    async fn a_few_events_over_the_limit_are_written_whole_and_an_event_of_no_file_always_is() {
        let mut journal = EventJournal::default();
        let now = Instant::now();
        for _ in 0..MOST_OF_FILE {
            journal.take(held("a.yaml"), now);
        }
        assert_eq!(journal.take(held("a.yaml"), now), None);
        assert_eq!(journal.finish(), [held("a.yaml")]);
        for _ in 0..100 {
            let event = Event::new(Code::Started, String::new());
            assert!(journal.take(event, now).is_some());
        }
    }
}
