//! Collects the content of `windrow report`: files, the output of commands, the cluster's objects. Everything is
//! bounded in size and in time, and every gap is noted with the reason: reports are needed most on nodes where little
//! works.
//!
//! It changes nothing and requires nothing: no daemon, no cluster, no writable disk.

mod claims;
mod cluster;
mod collection;
mod commands;
mod files;
mod reduce;

use tokio::time::Instant;

use self::collection::{CollectedPart, Collection, MOST_MEMORY};
pub(crate) use self::collection::{OnProgress, Wanted};
use crate::apiserver::ApiServer;
use crate::archive::{Collected, OWN_NODE};

pub(crate) async fn collect(
    api: &ApiServer,
    wanted: &Wanted,
    into: &mut Collected,
    on_progress: OnProgress<'_>,
) {
    let mut collection = Collection {
        wanted,
        until: Instant::now() + wanted.patience,
        bytes: 0,
        room: MOST_MEMORY,
        into,
        on_progress,
    };
    files::collect(&mut collection);
    let own = serde_json::to_value(&wanted.own).unwrap_or_default();
    let bytes = own.to_string().len();
    let found = CollectedPart::tree(own, bytes);
    let source = "the node's own files".to_owned();
    collection.add(
        OWN_NODE.to_owned(),
        "known incidents of the node",
        source,
        found,
    );
    commands::collect(&mut collection).await;
    cluster::collect(api, &mut collection).await;
}
