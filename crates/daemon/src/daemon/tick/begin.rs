//! Creates a daemon from its configuration and from the parts that report to it.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use tokio::sync::{mpsc, watch};
use tokio::time::Instant;
use windrow_decide::transitions::Transitions;
use windrow_decide::{Event, Ledger, StagingState};
use windrow_model::findings::Finding;
use windrow_model::reasons::Code;

use super::ledger::enter_boot;
use super::{Daemon, Link, configure};
use crate::act::{Arrivals, Executor, read_ledger};
use crate::configuration::Configuration;
use crate::daemon::appearances::{AppearanceEnds, AppearanceWatch};
use crate::daemon::clock::{Clock, SteadyClock};
use crate::daemon::configuration_events::{configuration_events, configuration_findings};
use crate::daemon::data_dir::DataDir;
use crate::daemon::event_journal::EventJournal;
use crate::daemon::flight::FlightRecorder;
use crate::daemon::full_disks::FullDisks;
use crate::daemon::gates::GatesView;
use crate::daemon::manifest_scanner::ManifestScanner;
use crate::daemon::marking_thread::{MOST_WAITING, MarkingContext};
use crate::daemon::reloading::Reloading;
use crate::daemon::remote::RemoteState;
use crate::daemon::requests::SpooledRequests;
use crate::observe::{platform, process};
use crate::orders::spool::spools;
use crate::report::metrics::DaemonCounters;
use crate::report::notify::{ServiceManager, watchdog_interval};
use crate::report::publish::Publisher;
use crate::report::server::ServerState;

impl Daemon {
    /// Publishes the configuration again whenever it changes. Reads the ledger; changes nothing yet.
    pub fn new(configuration: watch::Sender<Arc<Configuration>>, clock: Clock, link: Link) -> Self {
        let steady = SteadyClock::new(clock.clone());
        let in_force = Arc::clone(&configuration.borrow());
        let (root, layout) = (in_force.root().clone(), in_force.layout().clone());
        let loaded = &in_force.loaded;
        let mut startup = vec![Event::new(
            Code::Started,
            Code::Started.say(&[("version", env!("CARGO_PKG_VERSION"))]),
        )];
        startup.extend(configuration_events(loaded));
        let (ledger, ledger_unread) = match read_ledger(&layout.ledger()) {
            Ok(read) => {
                if let Some(why) = read.rebuilt {
                    let line = Code::LedgerRebuilt.say(&[("why", &why)]);
                    startup.push(Event::new(Code::LedgerRebuilt, line));
                }
                (read.ledger, None)
            }
            Err(error) => {
                let path = layout.ledger();
                let path = path.display();
                let what = format!("read {path} (Windrow tries again)");
                let words = [("what", what.as_str()), ("error", &error.to_string())];
                let line = Code::ActionFailed.say(&words);
                startup.push(Event::new(Code::ActionFailed, line));
                (Ledger::default(), Some(Instant::now()))
            }
        };
        let ledger = enter_boot(ledger, &layout, steady.now());
        let kind = loaded
            .settings
            .platform
            .or_else(|| platform::detect_or(&root, None));
        let full_disks = FullDisks::default();
        let full = full_disks.subscribe();
        let mut flight = FlightRecorder::none(full_disks.clone());
        let node = configure::node_facts(&layout, &loaded.rules, kind, None);
        flight.configured(&layout, loaded, (kind, node.clone()), steady.now());
        let mut state = StagingState::new(
            loaded.settings.clone(),
            Arc::clone(&loaded.rules),
            kind,
            ledger,
            steady.now(),
        );
        state.set_node(node);
        // The boot is not on the disk yet.
        state.save_ledger();
        state.set_findings("configuration", &configuration_findings(loaded));
        let (to_loop, files) = mpsc::channel(MOST_WAITING);
        let counters = DaemonCounters::default();
        let marking = MarkingContext {
            configured: configuration.subscribe(),
            clock,
            counters: counters.clone(),
            to_loop,
        };
        let arrivals = Arc::new(Arrivals::default());
        let plans = watch::channel(state.shared_plan()).0;
        let mut publisher = Publisher::new(layout.status(), process::this_process().ok());
        let transitions = Transitions::after(publisher.take_earlier().as_deref());
        Self {
            scanner: ManifestScanner::new(
                layout.manifests(),
                spools(&layout),
                Arc::clone(&arrivals),
                marking.clone(),
            ),
            data_dir: DataDir::default(),
            executor: Executor::new(layout.manifests(), layout.ledger(), arrivals),
            requests: SpooledRequests::new(spools(&layout)),
            publisher,
            transitions,
            manager: ServiceManager::default(),
            configuration,
            reloading: Reloading::default(),
            root,
            layout,
            clock: steady,
            state,
            files,
            marking,
            link,
            node_name: None,
            told: BTreeSet::new(),
            scanned_once: false,
            ledger_unread,
            deadline: None,
            retry: None,
            watchdog: watchdog_interval().map(|interval| (interval, Instant::now())),
            startup,
            gates: watch::channel(None).1,
            incidents: watch::channel(Vec::new()).1,
            webhooks: watch::channel(Vec::new()).1,
            server: watch::channel(ServerState::default()).1,
            counters,
            plans,
            flight,
            appearances: AppearanceWatch::new().0,
            harvester: None,
            withheld: BTreeMap::new(),
            held_back: BTreeSet::new(),
            events: EventJournal::default(),
            full_disks,
            reported_full: BTreeSet::new(),
            full,
        }
    }

    /// Adds the gate controller: its part of the status arrives here.
    #[must_use]
    pub fn with_gates(mut self, gates: watch::Receiver<Option<GatesView>>) -> Self {
        self.gates = gates;
        self
    }

    /// Adds the search for known incidents: its findings arrive here.
    #[must_use]
    pub fn with_incidents(mut self, incidents: watch::Receiver<Vec<Finding>>) -> Self {
        self.incidents = incidents;
        self
    }

    /// Adds the integrations over the network: their part of the status arrives here.
    #[must_use]
    pub fn with_remote(mut self, remote: RemoteState) -> Self {
        self.webhooks = remote.webhooks;
        self.server = remote.server;
        self
    }

    /// Adds the watch for new objects in the cluster, and returns its ends.
    #[must_use]
    pub fn with_appearances(mut self) -> (Self, AppearanceEnds) {
        let (appearances, ends) = AppearanceWatch::new();
        self.appearances = appearances;
        (self, ends)
    }
}
