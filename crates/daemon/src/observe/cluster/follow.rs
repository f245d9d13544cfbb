//! The watches of a session: turns the changes that the one loop (`apiserver`) reports into events.

use windrow_decide::ClusterEvent;

use super::session::ApiSession;
use crate::apiserver::{Followed, WatchChange, WatchSink};

impl ApiSession {
    /// Lists and watches until the receiver of the events is gone. `meaning` turns a change into events.
    pub(super) async fn follow<F>(&self, followed: &Followed, meaning: F)
    where
        F: FnMut(WatchChange) -> Vec<ClusterEvent> + Send,
    {
        let mut sink = EventSink {
            session: self,
            request: followed.request(),
            meaning,
        };
        followed.follow(&self.connection, &mut sink).await;
    }
}

struct EventSink<'s, F> {
    session: &'s ApiSession,
    request: String,
    meaning: F,
}

impl<F> WatchSink for EventSink<'_, F>
where
    F: FnMut(WatchChange) -> Vec<ClusterEvent> + Send,
{
    async fn take(&mut self, change: WatchChange) -> bool {
        let mut events = Vec::new();
        if let WatchChange::Failed(failure) = &change {
            if failure.is_doubtful() {
                self.session.doubt.notify_one();
            }
            if failure.is_forbidden() {
                events.push(ClusterEvent::Refused {
                    what: self.request.clone(),
                    why: failure.to_string(),
                });
            }
        }
        events.extend((self.meaning)(change));
        self.session.send(events).await
    }
}
