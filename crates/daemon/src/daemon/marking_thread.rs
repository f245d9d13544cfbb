//! Marks new files in a separate thread, so that even a long tick delays no marker.
//!
//! ```text
//!   watch ──> the thread: a provisional marker if there is none ──> the loop: scans, decides, keeps or lifts it
//! ```
//!
//! The thread never replaces or removes a marker. The loop lifts no marker of a file about which an event is still on
//! its way. Without the thread the loop marks new files.

use std::collections::BTreeMap;
use std::io;
use std::iter;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, TrySendError, sync_channel};
use std::thread::{self, JoinHandle};
use std::time::Instant;

use tokio::sync::mpsc;
use windrow_decide::Mark;
use windrow_model::manifest::{ManifestPath, MarkerPath};

use super::clock::Clock;
use crate::act::{Arrivals, MarkerOutcome, Markers};
use crate::configuration::Published;
use crate::files::is_missing;
use crate::fs;
use crate::observe::files::FileEvent;
use crate::report::metrics::DaemonCounters;

/// Most events that are handled together: the loop receives them once all of their files are marked.
const MOST_TOGETHER: usize = 64;
/// Most events that wait for the thread, and most that wait for the loop. Further ones are dropped, and the loop reads the
/// directory instead.
pub(super) const MOST_WAITING: usize = 4096;

#[derive(Debug, Clone)]
pub(super) struct MarkingContext {
    pub(super) configured: Published,
    pub(super) clock: Clock,
    pub(super) to_loop: mpsc::Sender<FileEvent>,
    pub(super) counters: DaemonCounters,
}

#[derive(Debug)]
pub(super) struct MarkingThread {
    arrivals: Arc<Arrivals>,
    thread: io::Result<JoinHandle<()>>,
}

impl MarkingThread {
    /// Begins to mark the files of a directory, and counts in `arrivals` the events that the loop has not received. The
    /// watch calls the returned function with each event; the thread ends when that function is dropped.
    pub(super) fn begin(
        directory: PathBuf,
        arrivals: Arc<Arrivals>,
        context: MarkingContext,
    ) -> (Self, impl FnMut(FileEvent) + Send + 'static) {
        let loop_end = LoopEnd {
            arrivals: Arc::clone(&arrivals),
            to_loop: context.to_loop.clone(),
        };
        let (to_thread, events) = sync_channel(MOST_WAITING);
        let marking = Marking {
            markers: Markers::new(&directory),
            directory,
            context,
            loop_end: loop_end.clone(),
        };
        let thread = thread::Builder::new()
            .name("markers".to_owned())
            .spawn(move || marking.run(&events));
        let hear = move |event: FileEvent| {
            if let Some(file) = event.file() {
                loop_end.arrivals.add(file);
            }
            match to_thread.try_send((event, Instant::now())) {
                Ok(()) => {}
                Err(TrySendError::Full((event, _))) => loop_end.arrivals.lose(event.file()),
                // Without the thread, the loop receives it at once.
                Err(TrySendError::Disconnected((event, _))) => loop_end.send(event),
            }
        };
        (Self { arrivals, thread }, hear)
    }

    pub(super) fn heard(&self, event: &FileEvent) {
        if let Some(file) = event.file() {
            self.arrivals.remove(file);
        }
    }

    pub(super) fn arrivals(&self) -> &Arrivals {
        if self.thread.as_ref().is_ok_and(JoinHandle::is_finished) {
            // Its last events do not come any more.
            self.arrivals.clear();
        }
        &self.arrivals
    }
}

#[derive(Debug, Clone)]
struct LoopEnd {
    arrivals: Arc<Arrivals>,
    to_loop: mpsc::Sender<FileEvent>,
}

impl LoopEnd {
    /// Neither the watch nor the thread waits for the loop.
    fn send(&self, event: FileEvent) {
        match self.to_loop.try_send(event) {
            Ok(()) => {}
            Err(mpsc::error::TrySendError::Full(event)) => self.arrivals.lose(event.file()),
            // The daemon has ended.
            Err(mpsc::error::TrySendError::Closed(_)) => {}
        }
    }
}

struct Marking {
    directory: PathBuf,
    markers: Markers,
    context: MarkingContext,
    loop_end: LoopEnd,
}

impl Marking {
    fn run(self, events: &Receiver<(FileEvent, Instant)>) {
        while let Ok(first) = events.recv() {
            let more = events.try_iter().take(MOST_TOGETHER - 1);
            let together: Vec<_> = iter::once(first).chain(more).collect();
            self.mark(&together);
            for (event, _) in together {
                self.loop_end.send(event);
            }
        }
    }

    fn mark(&self, events: &[(FileEvent, Instant)]) {
        let configuration = Arc::clone(&self.context.configured.borrow());
        let staging = &configuration.settings().staging;
        // The first event about a file is the last one here.
        let files: BTreeMap<&ManifestPath, Instant> = events
            .iter()
            .rev()
            .filter_map(|(event, heard)| Some((event.file()?, *heard)))
            .filter(|(file, _)| staging.may_hold(file) && is_there(&self.directory, file))
            .collect();
        let now = self.context.clock.now();
        let marks: Vec<(MarkerPath, Mark)> = files
            .keys()
            .map(|file| (file.marker(), Mark::provisional(file, now)))
            .collect();
        let marks: Vec<_> = marks.iter().map(|(path, mark)| (path, mark)).collect();
        // What fails is tried again by the loop, and reported there.
        let made = self.markers.create_missing(&marks);
        for (outcome, heard) in made.iter().zip(files.values()) {
            if matches!(outcome, Ok(MarkerOutcome::Changed)) {
                self.context.counters.marked(heard.elapsed());
            }
        }
    }
}

/// Whether there is anything under this name. A missing file needs no marker; a file that cannot be examined needs one.
pub(super) fn is_there(directory: &Path, file: &ManifestPath) -> bool {
    let found = fs::symlink_metadata(directory.join(file.as_str()));
    !found.is_err_and(|error| is_missing(&error))
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use tokio::sync::watch;
    use windrow_model::reasons::Code;

    use super::*;
    use crate::configuration::Configuration;
    use crate::layout::Layout;
    use crate::report::metrics::tests::markers_counted;

    /// A manifests directory of a node, and the results of its events.
    struct Directory {
        root: tempfile::TempDir,
        layout: Layout,
        counters: DaemonCounters,
    }

    impl Directory {
        fn with_configuration(text: &str) -> Self {
            let root = tempfile::tempdir().unwrap();
            let layout = Layout::new(root.path());
            fs::create_dir_all(layout.manifests()).unwrap();
            fs::create_dir_all(layout.path("/etc/windrow")).unwrap();
            fs::write(layout.path("/etc/windrow/windrow.yaml"), text).unwrap();
            let counters = DaemonCounters::default();
            Self {
                root,
                layout,
                counters,
            }
        }

        fn write(&self, name: &str) -> FileEvent {
            fs::write(self.layout.manifests().join(name), "").unwrap();
            FileEvent::Written { path: name.into() }
        }

        fn mark(&self, name: &str) -> Option<Mark> {
            let marker = ManifestPath::from(name).marker();
            Markers::new(self.layout.manifests()).read(&marker).unwrap()
        }

        fn begin(
            &self,
        ) -> (
            MarkingThread,
            impl FnMut(FileEvent) + use<>,
            mpsc::Receiver<FileEvent>,
        ) {
            self.begin_with(MOST_WAITING)
        }

        fn begin_with(
            &self,
            most_waiting: usize,
        ) -> (
            MarkingThread,
            impl FnMut(FileEvent) + use<>,
            mpsc::Receiver<FileEvent>,
        ) {
            let (to_loop, heard) = mpsc::channel(most_waiting);
            let configuration = Arc::new(Configuration::load(&Layout::new(self.root.path())));
            let context = MarkingContext {
                configured: watch::channel(configuration).1,
                clock: Clock::real(),
                to_loop,
                counters: self.counters.clone(),
            };
            let manifests = self.layout.manifests();
            let (thread, hear) = MarkingThread::begin(manifests, Arc::default(), context);
            (thread, hear, heard)
        }
    }

    #[test]
    fn a_file_is_marked_when_the_loop_hears_of_it_and_until_then_its_marker_stays() {
        let directory = Directory::with_configuration("");
        let (thread, mut hear, mut heard) = directory.begin();
        let events = ["a.yaml", "b.yaml", "a.yaml"].map(|name| directory.write(name));
        for event in &events {
            hear(event.clone());
        }
        for event in &events {
            assert_eq!(heard.blocking_recv().as_ref(), Some(event));
            let file = event.file().unwrap();
            assert_eq!(directory.mark(file).unwrap().code, Code::Provisional);
            assert!(thread.arrivals().names().contains(&file.name()), "{file}");
            thread.heard(event);
        }
        assert_eq!(thread.arrivals().names(), BTreeSet::new());
        assert_eq!(
            markers_counted(&directory.counters),
            2.0,
            "one latency for each"
        );
    }

    #[test]
    fn no_marker_is_made_where_one_is_or_where_none_may_be() {
        let directory = Directory::with_configuration("");
        let markers = Markers::new(directory.layout.manifests());
        let mut held = Mark::provisional(&"held.yaml".into(), jiff::Timestamp::UNIX_EPOCH);
        held.code = Code::HeldByHand;
        markers
            .create(&ManifestPath::from("held.yaml").marker(), &held)
            .unwrap();
        let theirs = directory.layout.manifests().join("theirs.yaml.skip");
        fs::write(&theirs, "").unwrap();
        let gone = FileEvent::Written {
            path: "gone.yaml".into(),
        };
        let names = ["held.yaml", "theirs.yaml", "rke2-canal.yaml", "last.yaml"];
        let (_thread, mut hear, mut heard) = directory.begin();
        hear(gone);
        for event in names.map(|name| directory.write(name)) {
            hear(event);
        }
        while heard.blocking_recv().unwrap().file() != Some(&"last.yaml".into()) {}
        assert_eq!(directory.mark("held.yaml"), Some(held));
        assert_eq!(fs::read(theirs).unwrap(), b"");
        for name in ["gone.yaml", "rke2-canal.yaml"] {
            assert_eq!(directory.mark(name), None, "{name}");
        }
        assert!(directory.mark("last.yaml").is_some());
        assert_eq!(markers_counted(&directory.counters), 1.0);
    }

    #[test]
    fn nothing_is_marked_while_staging_is_off() {
        let directory = Directory::with_configuration("staging: {enabled: false}\n");
        let (_thread, mut hear, mut heard) = directory.begin();
        hear(directory.write("a.yaml"));
        assert!(heard.blocking_recv().is_some());
        assert_eq!(directory.mark("a.yaml"), None);
    }

    #[test]
    fn without_the_thread_the_loop_hears_of_every_event_and_nothing_is_on_its_way() {
        let directory = Directory::with_configuration("");
        let (mut thread, mut hear, mut heard) = directory.begin();
        thread.thread = Err(io::Error::other("no thread"));
        hear(directory.write("a.yaml"));
        let event = heard.blocking_recv().unwrap();
        thread.heard(&event);
        assert_eq!(thread.arrivals().names(), BTreeSet::new());
    }

    #[test]
    fn events_that_find_no_room_are_dropped_and_the_loop_has_to_read_the_directory() {
        let directory = Directory::with_configuration("");
        let (thread, mut hear, mut heard) = directory.begin_with(1);
        let events = ["a.yaml", "b.yaml"].map(|name| directory.write(name));
        for event in &events {
            hear(event.clone());
        }
        // The thread ends once it has passed everything on.
        drop(hear);
        while !thread.thread.as_ref().unwrap().is_finished() {
            thread::yield_now();
        }
        assert!(thread.arrivals().has_lost());
        assert_eq!(heard.blocking_recv().as_ref(), Some(&events[0]));
        assert!(
            directory.mark("b.yaml").is_some(),
            "it is marked all the same"
        );
    }
}
