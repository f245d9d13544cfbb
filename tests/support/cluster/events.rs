//! The deploy controller's events in the order in which they were written.
//!
//! A list would not do: it has one Event with a count for a repeated message.

use std::sync::{Arc, Mutex};

use futures::StreamExt as _;
use k8s_openapi::api::core::v1::Event;
use kube::Client;
use kube::api::{Api, WatchEvent, WatchParams};
use tokio::task::JoinHandle;

/// The longest watch that the API server allows without complaint.
const LONGEST: u32 = 294;

/// Records from its start for [`LONGEST`] seconds.
pub(crate) struct Recorder {
    events: Arc<Mutex<Vec<Event>>>,
    task: JoinHandle<()>,
}

impl Recorder {
    /// Records events from now on.
    pub(crate) async fn start(client: Client) -> Self {
        let api: Api<Event> = Api::namespaced(client, "kube-system");
        let params = WatchParams::default().timeout(LONGEST);
        let mut stream = api
            .watch(&params, "0")
            .await
            .expect("the API server answers")
            .boxed();
        let events = Arc::new(Mutex::new(Vec::new()));
        let seen = events.clone();
        let task = tokio::spawn(async move {
            while let Some(change) = stream.next().await {
                let (WatchEvent::Added(event) | WatchEvent::Modified(event)) =
                    change.expect("the watch goes on")
                else {
                    continue;
                };
                let component = event.source.as_ref().and_then(|by| by.component.as_deref());
                if component == Some("deploy") {
                    seen.lock()
                        .expect("its other user does not panic")
                        .push(event);
                }
            }
        });
        Self { events, task }
    }

    /// The deploy controllers' events about Addons whose names begin with this prefix.
    pub(crate) fn about(&self, prefix: &str) -> Vec<Event> {
        assert!(!self.task.is_finished(), "the watch of events has ended");
        let events = self.events.lock().expect("its other user does not panic");
        let name = |event: &Event| event.involved_object.name.clone().unwrap_or_default();
        events
            .iter()
            .filter(|event| name(event).starts_with(prefix))
            .cloned()
            .collect()
    }
}

impl Drop for Recorder {
    fn drop(&mut self) {
        self.task.abort();
    }
}
