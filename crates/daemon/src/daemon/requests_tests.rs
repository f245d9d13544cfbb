use std::sync::Arc;

use jiff::SignedDuration;
use tempfile::TempDir;
use windrow_decide::settings::Settings;
use windrow_decide::{Action, Directory, FileChange, Ledger};
use windrow_model::manifest::{FileContent, ReadLimits, read};
use windrow_plan::rules::RuleSet;

use super::*;

const NOW: Timestamp = Timestamp::UNIX_EPOCH;
const WIDGET: &str = "apiVersion: example.com/v1\nkind: Widget\nmetadata: {name: a}\n";
const OTHER: &str = "apiVersion: example.com/v1\nkind: Widget\nmetadata: {name: b}\n";
const FREE: &str = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}\n";

/// An order of ann, a second after the epoch for each in `at`.
fn order(action: &str, file: &str, at: i64) -> String {
    let at = NOW + SignedDuration::from_secs(at);
    format!(r#"{{"action":"{action}","file":"{file}","by":"ann","at":"{at}"}}"#)
}

/// A release of a.yaml only for this content.
fn release_of(content: &str, at: i64) -> String {
    let digest = read("a.yaml", &text(content), &ReadLimits::default()).digest;
    order("release", "a.yaml", at).replace('}', &format!(r#","digest":"{digest}"}}"#))
}

fn text(text: &str) -> FileContent {
    FileContent::Bytes(text.into())
}

fn unreadable() -> FileContent {
    let error = "Input/output error (os error 5)".to_owned();
    FileContent::Unreadable { error }
}

fn file(path: &str, content: impl Into<Option<FileContent>>) -> FileChange {
    FileChange {
        path: path.into(),
        content: content.into().map(Arc::new),
    }
}

struct Site {
    place: TempDir,
    requests: SpooledRequests,
    state: StagingState,
}

impl Site {
    /// With an order in the spool, and a directory that no process has read.
    fn unread(order: &str) -> Self {
        Self::after(order, Arc::default())
    }

    fn after(order: &str, ledger: Arc<Ledger>) -> Self {
        let place = tempfile::tempdir().unwrap();
        let spools = [place.path().to_owned(), place.path().join("nowhere")];
        let (settings, rules) = (Settings::default(), RuleSet::shipped());
        let site = Self {
            place,
            requests: SpooledRequests::new(spools),
            state: StagingState::new(settings, rules, None, ledger, NOW),
        };
        site.put("1.json", order);
        site
    }

    fn new(order: &str) -> Self {
        let mut site = Self::unread(order);
        site.scan([file("a.yaml", text(WIDGET))]);
        site
    }

    fn put(&self, name: &str, order: &str) {
        fs::write(self.place.path().join(name), order).unwrap();
    }

    fn scan(&mut self, files: impl Into<Vec<FileChange>>) {
        self.state.take_directory(Directory {
            files: files.into(),
            markers: Vec::new(),
        });
    }

    /// Takes the spooled orders. Returns the reports.
    fn take(&mut self) -> Vec<String> {
        self.take_if(true)
    }

    fn take_if(&mut self, are_files_known: bool) -> Vec<String> {
        let manifests = (Path::new("/nowhere"), are_files_known);
        let taken = self.requests.take_spooled(&mut self.state, manifests, NOW);
        messages(taken)
    }

    fn is_held(&mut self) -> bool {
        let decision = self.state.decide(NOW);
        !decision.status.staging.held.is_empty()
    }

    /// Ends the look. Returns how many orders are left in the spool.
    fn left(&mut self) -> usize {
        self.requests.finish();
        read_spool(self.place.path()).unwrap().len()
    }
}

fn messages(taken: TakenRequests) -> Vec<String> {
    let events = taken.events.into_iter();
    events.map(|event| event.message.to_string()).collect()
}

#[test]
fn a_request_that_cannot_be_read_now_is_kept_and_told_once() {
    let mut site = Site::new(&order("release", "a.yaml", 0));
    for told in [1, 0] {
        let why = UnreadRequest::NotNow("Input/output error (os error 5)".to_owned());
        let found = vec![(site.place.path().join("1.json"), Err(why))];
        let manifests = Path::new("/nowhere");
        let taken = site
            .requests
            .take_read(found, &mut site.state, manifests, NOW);
        assert_eq!(taken.events.len(), told, "{:?}", taken.events);
        assert_eq!((site.left(), site.is_held()), (1, true));
    }
    assert_eq!(site.take(), [""; 0]);
    assert_eq!((site.left(), site.is_held()), (0, false));
}

#[test]
fn a_request_about_a_marker_that_cannot_be_read_is_kept_and_told_once() {
    let mut site = Site::new(&order("release", "a.yaml", 0));
    site.scan([file("a.yaml", None), file("a.yaml.skip", unreadable())]);
    for told in [1, 0] {
        assert_eq!(site.take().len(), told);
        assert_eq!((site.left(), site.is_held()), (1, true));
    }
    site.scan([file("a.yaml", None)]);
    assert_eq!(site.take(), [""; 0]);
    assert_eq!((site.left(), site.is_held()), (0, false));
}

#[test]
fn a_release_that_waited_for_an_unreadable_file_counts_for_no_content_that_came_since() {
    for (is_known, there, is_released) in [
        (true, WIDGET, true),
        (true, OTHER, false),
        // Neither the operator nor any process has read it.
        (false, WIDGET, false),
    ] {
        let release = order("release", "a.yaml", 0);
        let mut earlier = Site::new(&release);
        earlier.state.decide(NOW);
        let ledger = match is_known {
            true => Arc::clone(earlier.state.ledger()),
            false => Arc::default(),
        };
        let mut site = Site::after(&release, ledger);
        site.scan([file("a.yaml", unreadable())]);
        for _ in 0..2 {
            site.take();
            site.state.decide(NOW);
            assert_eq!(site.left(), 1);
        }
        site.scan([file("a.yaml", text(there))]);
        assert_eq!(site.take().is_empty(), is_released);
        assert_eq!((site.left(), site.is_held()), (0, !is_released));
    }
}

#[test]
fn a_release_that_waited_counts_for_no_content_that_came_since_into_another_file_of_its_name() {
    let mut site = Site::unread(&release_of(WIDGET, 0));
    for content in [unreadable(), text(OTHER)] {
        let other = file("sub/a.yaml", content);
        site.scan([file("a.yaml", text(WIDGET)), other]);
        site.take();
        assert!(site.is_held());
    }
}

#[test]
fn a_release_that_waited_lifts_no_later_hold_of_another_file_of_this_name() {
    let mut site = Site::unread(&order("release", "sub/a.yaml", 0));
    for sub in [file("sub", unreadable()), file("sub/a.yaml", text(FREE))] {
        site.scan([file("b/a.yaml", text(FREE)), sub]);
        site.take();
        if site.state.ledger().files.is_empty() {
            assert!(!site.is_held());
            site.put("2.json", &order("hold", "b/a.yaml", 0));
            site.take();
        }
        assert!(site.is_held());
    }
}

/// The clock was set back between the two orders, so the later one has the earlier time.
#[test]
fn a_release_that_waits_gives_way_to_a_later_hold_whatever_the_clock_says() {
    for (later, gives_way) in [("hold", true), ("release", false)] {
        let mut site = Site::unread(&order("release", "sub/a.yaml", 8 * 3600));
        site.scan([file("b/a.yaml", text(FREE)), file("sub", unreadable())]);
        site.take();
        assert_eq!(site.left(), 1, "it waits");
        site.put("0.json", &order(later, "b/a.yaml", 0));
        let told = site.take();
        assert_eq!(told.len(), usize::from(gives_way));
        assert!(told.iter().all(|told| told.contains(LATER)), "{told:?}");
        assert_eq!(site.left(), usize::from(!gives_way));
        let files = ["b/a.yaml", "sub/a.yaml"];
        site.scan(files.map(|path| file(path, text(FREE))));
        site.take();
        assert_eq!(site.is_held(), gives_way);
    }
}

/// Only the last of these three counts.
#[test]
fn a_release_between_two_holds_of_one_look_gives_way_to_the_second() {
    let mut site = Site::unread(&order("hold", "b/a.yaml", 0));
    site.put("2.json", &order("release", "sub/a.yaml", 0));
    site.put("3.json", &order("hold", "b/a.yaml", 0));
    site.scan([file("b/a.yaml", text(FREE)), file("sub", unreadable())]);
    let told = site.take();
    assert!(told.iter().any(|told| told.contains(LATER)), "{told:?}");
    assert_eq!((site.left(), site.is_held()), (0, true));
}

/// Remembered times move with the clock, and the time of a request does not.
#[test]
fn a_release_that_waits_is_later_than_a_hold_before_it_although_the_clock_was_set_meanwhile() {
    let mut site = Site::unread(&release_of(WIDGET, 60));
    site.scan([file("a.yaml", unreadable())]);
    let hold = SpooledRequest::new(RequestAction::Hold, "ann", NOW).manual();
    let entered = site
        .state
        .hold_or_release(&"a.yaml".into(), &[].into(), hold, NOW);
    assert_eq!(entered, Ok(()));
    site.take();
    assert_eq!(site.left(), 1, "it waits");
    site.state
        .shift_clock(SignedDuration::from_hours(24 * 365 * 56));
    site.scan([file("a.yaml", text(WIDGET))]);
    assert_eq!(site.take(), [""; 0]);
    assert!(!site.is_held());
}

#[test]
fn a_release_that_is_taken_again_counts_for_the_content_that_was_released() {
    let mut before = Site::new(&release_of(WIDGET, 0));
    assert_eq!(before.take(), [""; 0]);
    assert!(!before.is_held());
    // The ledger was lost, so the next daemon reads the request again, with the same content or a changed one.
    for (there, is_held) in [(format!("# again\n{WIDGET}"), false), (OTHER.into(), true)] {
        let mut again = Site::unread(&release_of(WIDGET, 0));
        again.requests = SpooledRequests::new(before.requests.spools.clone());
        again.scan([file("a.yaml", text(&there))]);
        let told = again.take();
        assert_eq!(told.len(), usize::from(is_held));
        let is_told = |told: &String| told.contains("content of a.yaml is not the one");
        assert!(told.iter().all(is_told), "{told:?}");
        assert_eq!(again.is_held(), is_held);
    }
}

#[test]
fn a_release_counts_for_the_content_of_every_file_of_that_name() {
    let namesakes = r#","namesakes":{"sub/a.yaml":"what it was when it was released"}}"#;
    let release = order("release", "a.yaml", 0).replace('}', namesakes);
    let mut site = Site::unread(&release);
    let files = ["a.yaml", "sub/a.yaml"];
    site.scan(files.map(|path| file(path, text(WIDGET))));
    let told = site.take().concat();
    assert!(told.contains("content of sub/a.yaml is not"), "{told}");
    assert!(site.is_held());
}

#[test]
fn an_order_that_was_taken_back_between_the_read_and_the_decision_is_not_carried_out() {
    let mut site = Site::new(&order("release", "a.yaml", 0));
    let found = read_spool(site.place.path()).unwrap();
    fs::remove_file(site.place.path().join("1.json")).unwrap();
    let manifests = Path::new("/nowhere");
    let taken = site
        .requests
        .take_read(found, &mut site.state, manifests, NOW);
    assert_eq!(messages(taken), [""; 0]);
    assert!(site.is_held());
}

#[test]
fn an_order_stays_while_the_directory_cannot_be_read() {
    let mut site = Site::new(&order("release", "a.yaml", 0));
    assert_eq!(site.take_if(false), [""; 0]);
    assert_eq!((site.left(), site.is_held()), (1, true));
    site.take();
    assert_eq!((site.left(), site.is_held()), (0, false));
}

#[test]
fn an_unfinished_order_of_an_earlier_process_overrides_no_later_one() {
    let mut site = Site::new("");
    fs::remove_file(site.place.path().join("1.json")).unwrap();
    site.put("1.taken", &order("hold", "a.yaml", 0));
    let later = SpooledRequest::new(RequestAction::Release, "bob", Timestamp::MAX).manual();
    let entered = site
        .state
        .hold_or_release(&"a.yaml".into(), &[].into(), later, NOW);
    assert_eq!(entered, Ok(()));
    let told = site.take().concat();
    assert!(told.contains(LATER), "{told}");
    assert_eq!((site.left(), site.is_held()), (0, false));
}

#[test]
fn what_no_marker_hides_is_not_held_by_hand() {
    let mut site = Site::unread(&order("hold", "a.yaml", 0));
    let target = "nowhere".to_owned();
    site.scan([file("a.yaml", FileContent::DanglingSymlink { target })]);
    let told = site.take().concat();
    assert!(told.contains("leads nowhere"), "{told}");
    let decision = site.state.decide(NOW);
    let mut actions = decision.actions.iter();
    assert!(!actions.any(|action| matches!(action, Action::Hold { .. })));
}
