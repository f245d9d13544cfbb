//! Requests by hand, from the spool into the staging state.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use jiff::Timestamp;
use windrow_decide::{Event, OrderError, StagingState};
use windrow_model::manifest::ManifestPath;
use windrow_model::reasons::Code;

use crate::fs;
use crate::observe::requests::{
    self, RequestAction, Spooled, SpooledRequest, UnreadRequest, read_spool,
};

/// The spools, and what was taken over but not yet removed.
pub(super) struct SpooledRequests {
    spools: [PathBuf; 2],
    taken: BTreeSet<PathBuf>,
    /// The failures of the last look that were reported.
    unread: BTreeSet<PathBuf>,
    /// Requests about feature gates, for the gate controller, which removes them.
    forwarded: BTreeSet<PathBuf>,
}

/// The result of a look into the spool.
#[derive(Debug, Default)]
pub(super) struct TakenRequests {
    /// What to report.
    pub(super) events: Vec<Event>,
    /// Are there new requests about feature gates?
    pub(super) about_gates: bool,
    /// The results of cures.
    pub(super) repairs: Vec<SpooledRequest>,
}

/// What a person asked for.
struct Asked {
    file: ManifestPath,
    hold: bool,
}

/// The orders of one look into the spool.
#[derive(Default)]
struct Orders {
    /// Those that came since the last look and were entered.
    new: Vec<Asked>,
    /// Those that wait: with what they are, and whether they came after the new ones.
    waiting: Vec<(PathBuf, Asked, String, bool)>,
}

impl Orders {
    /// Does a new order take the place of this one? It is about the same file, or says the opposite of another file of its name.
    fn replace(&self, asked: &Asked) -> bool {
        self.new.iter().any(|new| {
            let is_opposite = new.file.name() == asked.file.name() && new.hold != asked.hold;
            new.file == asked.file || is_opposite
        })
    }
}

impl SpooledRequests {
    pub(super) fn new(spools: [PathBuf; 2]) -> Self {
        Self {
            spools,
            taken: BTreeSet::new(),
            unread: BTreeSet::new(),
            forwarded: BTreeSet::new(),
        }
    }

    /// Hands every new request over. Those about files stay while the directory is missing or cannot be read: nothing is known of the files.
    pub(super) fn take_spooled(
        &mut self,
        state: &mut StagingState,
        (manifests, are_files_known): (&Path, bool),
        now: Timestamp,
    ) -> TakenRequests {
        let mut spooled = Vec::new();
        let mut events = Vec::new();
        for spool in &self.spools {
            match read_spool(spool) {
                Ok(found) => spooled.extend(found),
                Err(error) => {
                    let what = format!("list the requests in {}", spool.display());
                    events.push(failed(&what, &error.to_string()));
                }
            }
        }
        spooled.retain(|(_, request)| {
            let is_about_file = |request: &SpooledRequest| {
                matches!(request.action, RequestAction::Hold | RequestAction::Release)
            };
            are_files_known || !request.as_ref().is_ok_and(is_about_file)
        });
        let mut taken = self.take_read(spooled, state, manifests, now);
        taken.events.splice(0..0, events);
        taken
    }

    fn take_read(
        &mut self,
        mut spooled: Vec<Spooled>,
        state: &mut StagingState,
        manifests: &Path,
        now: Timestamp,
    ) -> TakenRequests {
        let mut taken = TakenRequests::default();
        let unread = std::mem::take(&mut self.unread);
        // By their names, which begin with the time.
        spooled.sort_by(|(one, _), (other, _)| one.file_name().cmp(&other.file_name()));
        let known = std::mem::take(&mut self.forwarded);
        let mut orders = Orders::default();
        for (mut path, request) in spooled {
            if self.taken.contains(&path) {
                continue;
            }
            match request {
                Ok(request) if request.action.is_about_gates() => {
                    self.forwarded.insert(path);
                    continue;
                }
                Ok(request) if request.action.of_repair().is_some() => {
                    taken.repairs.push(request);
                }
                Ok(request) => {
                    let was_taken = requests::is_taken(&path);
                    let Some(ours) = requests::take(path) else {
                        continue;
                    };
                    path = ours;
                    let verb = match request.action {
                        RequestAction::Hold => "hold",
                        _ => "release",
                    };
                    let file = Path::new(&request.file)
                        .strip_prefix(manifests)
                        .ok()
                        .and_then(Path::to_str)
                        .unwrap_or(&request.file);
                    let file = &ManifestPath::from(file);
                    // An earlier process did not finish it, and a version that did not know of it may have run since.
                    let order = request.manual();
                    if was_taken && state.has_later_order(file, &order) {
                        self.taken.insert(path);
                        continue;
                    }
                    let namesakes = request.namesakes.iter();
                    let mut released: BTreeMap<ManifestPath, String> = namesakes
                        .map(|(path, digest)| (ManifestPath::from(path.as_str()), digest.clone()))
                        .chain(request.digest.clone().map(|digest| (file.clone(), digest)))
                        .collect();
                    let has_waited = was_taken || unread.contains(&path);
                    // Nobody could read the file when it was released. What it holds now may be something else.
                    if has_waited && let Some(known) = state.known_digest(file) {
                        released.entry(file.clone()).or_insert(known);
                    }
                    let asked = Asked {
                        file: file.clone(),
                        hold: order.hold,
                    };
                    let what = format!("{verb} {file}, as {} asked", request.by);
                    let entered = state.hold_or_release(file, &released, order, now);
                    let was_told =
                        matches!(entered, Err(OrderError::NotNow(_))) && unread.contains(&path);
                    if let Err(error) = &entered
                        && !was_told
                    {
                        taken.events.push(failed(&what, &error.to_string()));
                    }
                    // A failed read is no answer: the request stays.
                    if let Err(OrderError::NotNow(_)) = entered {
                        self.unread.insert(path.clone());
                        let is_last = !has_waited && orders.replace(&asked);
                        orders.waiting.push((path, asked, what, is_last));
                        continue;
                    }
                    if entered.is_ok() && !has_waited {
                        orders.new.push(asked);
                    }
                }
                Err(UnreadRequest::NotNow(why)) => {
                    if !unread.contains(&path) {
                        let what = format!("read the request {} (it is kept)", path.display());
                        taken.events.push(failed(&what, &why));
                    }
                    self.unread.insert(path);
                    continue;
                }
                Err(UnreadRequest::Broken(why)) => {
                    let what = format!("read the request {}", path.display());
                    taken.events.push(failed(&what, &why));
                }
            }
            self.taken.insert(path);
        }
        // By the order in which they came: the clock may have been set in between.
        let waiting = std::mem::take(&mut orders.waiting).into_iter();
        for (path, asked, what, is_last) in waiting {
            if !is_last && orders.replace(&asked) {
                taken.events.push(failed(&what, "a later order counts"));
                self.unread.remove(&path);
                self.taken.insert(path);
            }
        }
        taken.about_gates = self.forwarded.iter().any(|path| !known.contains(path));
        taken
    }

    /// Removes the requests that were taken over. To be called once their consequences are on disk. A request that
    /// cannot be removed is not taken twice.
    pub(super) fn finish(&mut self) {
        self.taken.retain(|path| match fs::remove_file(path) {
            Ok(()) => false,
            Err(error) => error.kind() != std::io::ErrorKind::NotFound,
        });
    }
}

fn failed(what: &str, why: &str) -> Event {
    Event {
        code: Code::ActionFailed,
        file: None,
        message: Code::ActionFailed.say(&[("what", what), ("error", why)]),
    }
}

#[cfg(test)]
mod tests {
    use windrow_decide::settings::Settings;
    use windrow_decide::{Directory, FileChange, Ledger};
    use windrow_model::manifest::FileContent;
    use windrow_plan::rules::RuleSet;

    use super::*;

    const WIDGET: &str = "apiVersion: example.com/v1\nkind: Widget\nmetadata: {name: a}\n";

    fn state(text: &str) -> StagingState {
        let (settings, rules) = (Settings::default(), RuleSet::shipped());
        let now = Timestamp::UNIX_EPOCH;
        let mut state = StagingState::new(settings, rules, None, Ledger::default(), now);
        scan_text(&mut state, text);
        state
    }

    fn scan_text(state: &mut StagingState, text: &str) {
        scanned(state, FileContent::Bytes(text.into()));
    }

    fn scanned(state: &mut StagingState, content: FileContent) {
        state.take_directory(Directory {
            files: vec![FileChange {
                path: "a.yaml".into(),
                content: Some(std::sync::Arc::new(content)),
            }],
            markers: Vec::new(),
        });
    }

    fn is_held(state: &mut StagingState) -> bool {
        let decision = state.decide(Timestamp::UNIX_EPOCH);
        !decision.status.staging.held.is_empty()
    }

    /// A spool with one request, and its file.
    fn spooled(request: &str) -> (tempfile::TempDir, SpooledRequests, PathBuf) {
        let place = tempfile::tempdir().unwrap();
        let path = place.path().join("1.json");
        fs::write(&path, request).unwrap();
        let spools = [place.path().to_owned(), place.path().join("nowhere")];
        (place, SpooledRequests::new(spools), path)
    }

    const RELEASE: &str =
        r#"{"action":"release","file":"a.yaml","by":"ann","at":"1970-01-01T00:00:00Z"}"#;

    #[test]
    fn a_request_that_cannot_be_read_now_is_kept_and_told_once() {
        let (_place, mut requests, path) = spooled(RELEASE);
        let mut state = self::state(WIDGET);
        let (manifests, now) = (Path::new("/nowhere"), Timestamp::UNIX_EPOCH);
        for told in [1, 0] {
            let why = UnreadRequest::NotNow("Input/output error (os error 5)".to_owned());
            let found = vec![(path.clone(), Err(why))];
            let taken = requests.take_read(found, &mut state, manifests, now);
            assert_eq!(taken.events.len(), told, "{:?}", taken.events);
            requests.finish();
            assert!(path.exists() && is_held(&mut state));
        }
        let taken = requests.take_spooled(&mut state, (manifests, true), now);
        assert_eq!(taken.events, []);
        assert!(!is_held(&mut state));
        requests.finish();
        assert!(!path.exists());
    }

    #[test]
    fn a_request_about_a_marker_that_cannot_be_read_is_kept_and_told_once() {
        let (place, mut requests, _) = spooled(RELEASE);
        let mut state = self::state(WIDGET);
        let (manifests, now) = (Path::new("/nowhere"), Timestamp::UNIX_EPOCH);
        let error = "Input/output error (os error 5)".to_owned();
        let file = |path: &str, content: Option<FileContent>| FileChange {
            path: path.into(),
            content: content.map(std::sync::Arc::new),
        };
        let unreadable = FileContent::Unreadable { error };
        state.take_directory(Directory {
            files: vec![file("a.yaml", None), file("a.yaml.skip", Some(unreadable))],
            markers: Vec::new(),
        });
        for told in [1, 0] {
            let taken = requests.take_spooled(&mut state, (manifests, true), now);
            assert_eq!(taken.events.len(), told, "{:?}", taken.events);
            requests.finish();
            assert_eq!(read_spool(place.path()).unwrap().len(), 1);
            assert!(is_held(&mut state));
        }
        state.take_directory(Directory {
            files: vec![file("a.yaml", None)],
            markers: Vec::new(),
        });
        let taken = requests.take_spooled(&mut state, (manifests, true), now);
        assert_eq!(taken.events, []);
        assert!(!is_held(&mut state));
        requests.finish();
        assert!(read_spool(place.path()).unwrap().is_empty());
    }

    #[test]
    fn a_release_that_waited_for_an_unreadable_file_counts_for_no_content_that_came_since() {
        const OTHER: &str = "apiVersion: example.com/v1\nkind: Widget\nmetadata: {name: b}\n";
        let now = Timestamp::UNIX_EPOCH;
        for (is_known, there, is_released) in [
            (true, WIDGET, true),
            (true, OTHER, false),
            // Neither the person nor any process has read it.
            (false, WIDGET, false),
        ] {
            let (place, mut requests, _) = spooled(RELEASE);
            let mut earlier = self::state(WIDGET);
            earlier.decide(now);
            let ledger = match is_known {
                true => std::sync::Arc::clone(earlier.ledger()),
                false => std::sync::Arc::default(),
            };
            let (settings, rules) = (Settings::default(), RuleSet::shipped());
            let mut state = StagingState::new(settings, rules, None, ledger, now);
            let error = "Input/output error (os error 5)".to_owned();
            scanned(&mut state, FileContent::Unreadable { error });
            let manifests = (Path::new("/nowhere"), true);
            for _ in 0..2 {
                requests.take_spooled(&mut state, manifests, now);
                state.decide(now);
                requests.finish();
            }
            assert_eq!(read_spool(place.path()).unwrap().len(), 1);
            scan_text(&mut state, there);
            let taken = requests.take_spooled(&mut state, manifests, now);
            assert_eq!(taken.events.is_empty(), is_released, "{:?}", taken.events);
            assert_eq!(!is_held(&mut state), is_released);
            requests.finish();
            assert!(read_spool(place.path()).unwrap().is_empty());
        }
    }

    #[test]
    fn a_release_that_waited_lifts_no_later_hold_of_another_file_of_this_name() {
        let (_place, mut requests, _) = spooled(&RELEASE.replace("a.yaml", "sub/a.yaml"));
        let (manifests, now) = ((Path::new("/nowhere"), true), Timestamp::UNIX_EPOCH);
        let file = |path: &str, content: FileContent| FileChange {
            path: path.into(),
            content: Some(std::sync::Arc::new(content)),
        };
        let free = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}\n";
        let content = || FileContent::Bytes(free.into());
        let error = "Input/output error (os error 5)".to_owned();
        let (settings, rules) = (Settings::default(), RuleSet::shipped());
        let mut state = StagingState::new(settings, rules, None, Ledger::default(), now);
        for sub in [
            file("sub", FileContent::Unreadable { error }),
            file("sub/a.yaml", content()),
        ] {
            state.take_directory(Directory {
                files: vec![file("b/a.yaml", content()), sub],
                markers: Vec::new(),
            });
            requests.take_spooled(&mut state, manifests, now);
            if state.ledger().files.is_empty() {
                assert!(!is_held(&mut state));
                let hold = windrow_decide::Manual {
                    hold: true,
                    by: "ann".to_owned(),
                    at: Timestamp::from_second(1).unwrap(),
                    reason: "not yet".to_owned(),
                };
                let path = "b/a.yaml".into();
                state.hold_or_release(&path, &[].into(), hold, now).unwrap();
            }
            assert!(is_held(&mut state));
        }
    }

    /// The clock was set back between the two orders, so the later one has the earlier time.
    #[test]
    fn a_release_that_waits_gives_way_to_a_later_hold_whatever_the_clock_says() {
        let at = "1970-01-01T00:00:00Z";
        let release = RELEASE
            .replace("a.yaml", "sub/a.yaml")
            .replace(at, "1970-01-01T08:00:00Z");
        let (manifests, now) = ((Path::new("/nowhere"), true), Timestamp::UNIX_EPOCH);
        let file = |path: &str, content: FileContent| FileChange {
            path: path.into(),
            content: Some(std::sync::Arc::new(content)),
        };
        let free = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}\n";
        let content = || FileContent::Bytes(free.into());
        for (later, gives_way) in [("hold", true), ("release", false)] {
            let (place, mut requests, _) = spooled(&release);
            let (settings, rules) = (Settings::default(), RuleSet::shipped());
            let mut state = StagingState::new(settings, rules, None, Ledger::default(), now);
            let error = "Input/output error (os error 5)".to_owned();
            state.take_directory(Directory {
                files: vec![
                    file("b/a.yaml", content()),
                    file("sub", FileContent::Unreadable { error }),
                ],
                markers: Vec::new(),
            });
            requests.take_spooled(&mut state, manifests, now);
            assert_eq!(read_spool(place.path()).unwrap().len(), 1, "it waits");
            let order = RELEASE
                .replace("release", later)
                .replace("a.yaml", "b/a.yaml");
            fs::write(place.path().join("0.json"), order).unwrap();
            let taken = requests.take_spooled(&mut state, manifests, now);
            let words: Vec<&str> = taken
                .events
                .iter()
                .map(|event| event.message.as_str())
                .collect();
            let is_told = words
                .iter()
                .any(|words| words.contains("a later order counts"));
            assert_eq!((words.len(), is_told), (usize::from(gives_way), gives_way));
            requests.finish();
            let left = read_spool(place.path()).unwrap().len();
            assert_eq!(left, usize::from(!gives_way));
            state.take_directory(Directory {
                files: vec![file("b/a.yaml", content()), file("sub/a.yaml", content())],
                markers: Vec::new(),
            });
            requests.take_spooled(&mut state, manifests, now);
            assert_eq!(is_held(&mut state), gives_way);
        }
    }

    #[test]
    fn a_release_that_is_taken_again_counts_for_the_content_that_was_released() {
        let content = |text: &str| FileContent::Bytes(text.into());
        let limits = windrow_model::manifest::ReadLimits::default();
        let read = windrow_model::manifest::read("a.yaml", &content(WIDGET), &limits);
        let digest = format!(r#","digest":"{}"}}"#, read.digest);
        let (place, mut requests, path) = spooled(&RELEASE.replace('}', &digest));
        let (manifests, now) = (Path::new("/nowhere"), Timestamp::UNIX_EPOCH);
        let mut before = self::state(WIDGET);
        assert_eq!(
            requests
                .take_spooled(&mut before, (manifests, true), now)
                .events,
            []
        );
        assert!(!is_held(&mut before));
        // The ledger was lost, so the next daemon reads the request again, with the same content or a changed one.
        let again = || SpooledRequests::new(requests.spools.clone());
        let mut same = state(&format!("# written again\n{WIDGET}"));
        assert_eq!(
            again()
                .take_spooled(&mut same, (manifests, true), now)
                .events,
            []
        );
        assert!(!is_held(&mut same));
        let mut other = state(&WIDGET.replace("name: a", "name: b"));
        let taken = again().take_spooled(&mut other, (manifests, true), now);
        assert!(
            taken.events[0].message.contains("has changed since"),
            "{taken:?}"
        );
        assert!(is_held(&mut other));
        drop((place, path));
    }

    #[test]
    fn a_release_counts_for_the_content_of_every_file_of_that_name() {
        let (_place, mut requests, _) = spooled(&RELEASE.replace(
            '}',
            r#","namesakes":{"sub/a.yaml":"what it was when it was released"}}"#,
        ));
        let mut state = self::state(WIDGET);
        let file = |path: &str| FileChange {
            path: path.into(),
            content: Some(std::sync::Arc::new(FileContent::Bytes(WIDGET.into()))),
        };
        state.take_directory(Directory {
            files: vec![file("a.yaml"), file("sub/a.yaml")],
            markers: Vec::new(),
        });
        let now = Timestamp::UNIX_EPOCH;
        let taken = requests.take_spooled(&mut state, (Path::new("/nowhere"), true), now);
        let said = &taken.events[0].message;
        assert!(said.contains("sub/a.yaml has changed since"), "{said}");
        assert!(is_held(&mut state));
    }

    #[test]
    fn an_order_that_was_taken_back_between_the_read_and_the_decision_is_not_carried_out() {
        let (place, mut requests, path) = spooled(RELEASE);
        let mut state = self::state(WIDGET);
        let found = read_spool(place.path()).unwrap();
        fs::remove_file(&path).unwrap();
        let (manifests, now) = (Path::new("/nowhere"), Timestamp::UNIX_EPOCH);
        let taken = requests.take_read(found, &mut state, manifests, now);
        assert_eq!(taken.events, []);
        assert!(is_held(&mut state));
    }

    #[test]
    fn an_order_stays_while_the_directory_cannot_be_read() {
        let (_place, mut requests, path) = spooled(RELEASE);
        let mut state = self::state(WIDGET);
        let (manifests, now) = (Path::new("/nowhere"), Timestamp::UNIX_EPOCH);
        let taken = requests.take_spooled(&mut state, (manifests, false), now);
        requests.finish();
        assert_eq!(taken.events, []);
        assert!(path.exists() && is_held(&mut state));
        requests.take_spooled(&mut state, (manifests, true), now);
        requests.finish();
        assert!(!path.exists() && !is_held(&mut state));
    }

    #[test]
    fn an_unfinished_order_of_an_earlier_process_overrides_no_later_one() {
        let (_place, mut requests, path) = spooled(&RELEASE.replace("release", "hold"));
        let (manifests, now) = (Path::new("/nowhere"), Timestamp::UNIX_EPOCH);
        let unfinished = path.with_extension("taken");
        fs::rename(&path, &unfinished).unwrap();
        let mut state = self::state(WIDGET);
        let later = SpooledRequest::new(RequestAction::Release, "bob", Timestamp::MAX).manual();
        state
            .hold_or_release(&"a.yaml".into(), &[].into(), later, now)
            .unwrap();
        requests.take_spooled(&mut state, (manifests, true), now);
        requests.finish();
        assert!(!is_held(&mut state) && !unfinished.exists());
    }

    #[test]
    fn what_no_marker_hides_is_not_held_by_hand() {
        let (_place, mut requests, _) = spooled(&RELEASE.replace("release", "hold"));
        let mut state = self::state(WIDGET);
        let target = "nowhere".to_owned();
        scanned(&mut state, FileContent::DanglingSymlink { target });
        let now = Timestamp::UNIX_EPOCH;
        let taken = requests.take_spooled(&mut state, (Path::new("/nowhere"), true), now);
        let said = &taken.events[0].message;
        assert!(said.contains("leads nowhere"), "{said}");
        assert_eq!(
            state
                .decide(now)
                .actions
                .iter()
                .filter(|action| matches!(action, windrow_decide::Action::Hold { .. }))
                .count(),
            0
        );
    }
}
