//! `/live`: server-sent events, a message whenever there is something new to fetch. Each takes a connection for as long as its
//! reader likes, so a peer has only some.

use std::collections::HashMap;
use std::convert::Infallible;
use std::net::IpAddr;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use axum::body::{Body, Bytes};
use tokio::sync::watch;
use tokio::time::timeout;

use crate::https::Peer;
use crate::locked::lock;

/// Most of one peer.
pub(super) const MOST_OF_ONE: usize = 64;
/// Messages come no closer than this, and a view is drawn again after this time: ages go on.
const BETWEEN: Duration = Duration::from_secs(1);
const AGES: Duration = Duration::from_secs(20);

#[derive(Default)]
pub(super) struct LiveStreams(Mutex<HashMap<Peer, usize>>);

/// One of them. It counts while this exists.
pub(super) struct LiveStream {
    peer: Peer,
    streams: Arc<LiveStreams>,
}

impl LiveStreams {
    pub(super) fn begin(self: &Arc<Self>, address: IpAddr) -> Option<LiveStream> {
        let peer = Peer::from(address);
        let mut streams = lock(&self.0);
        let own = streams.entry(peer).or_default();
        if *own >= MOST_OF_ONE {
            return None;
        }
        *own += 1;
        Some(LiveStream {
            peer,
            streams: self.clone(),
        })
    }
}

impl Drop for LiveStream {
    fn drop(&mut self) {
        let mut streams = lock(&self.streams.0);
        if let Some(own) = streams.get_mut(&self.peer) {
            *own -= 1;
            if *own == 0 {
                streams.remove(&self.peer);
            }
        }
    }
}

impl LiveStream {
    /// Its messages: the number of the current view, and of each change.
    pub(super) fn into_body(self, mut changes: watch::Receiver<u64>) -> Body {
        changes.mark_unchanged();
        let begun = (changes, self, true);
        Body::from_stream(futures::stream::unfold(
            begun,
            |(mut changes, stream, first)| async move {
                if !first {
                    tokio::time::sleep(BETWEEN).await;
                    match timeout(AGES, changes.changed()).await {
                        Ok(Ok(())) | Err(_) => {}
                        Ok(Err(_)) => return None,
                    }
                }
                let generation = *changes.borrow_and_update();
                let message = Bytes::from(format!("retry: 2000\ndata: {generation}\n\n"));
                Some((Ok::<_, Infallible>(message), (changes, stream, false)))
            },
        ))
    }
}
