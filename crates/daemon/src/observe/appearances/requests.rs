//! Lists in pages and watches of metadata. Objects are read one after the other and dropped: their metadata may be large.

use std::time::Duration;

use http::Request;
use http::header::ACCEPT;
use http_body_util::BodyExt as _;
use kube::client::Body;
use serde::Deserialize;
use tokio::time::timeout;
use windrow_decide::flight::ObjectMetadata;
use windrow_harvester::objects::ObjectKind;

use crate::apiserver::{
    self, Connection, DEAD, ListBounds, ListForm, Pages, RequestFailure, WATCH_SECONDS,
    WhenExpired, escaped,
};
use crate::causes;

/// How long an answer may take. A watch lasts longer.
const ANSWER: Duration = Duration::from_secs(15);
const BOUNDS: ListBounds = ListBounds {
    patience: ANSWER,
    page: 100,
    longest: 8 << 20,
};
/// The longest line of a watch. etcd takes no object that is larger.
const LONGEST_LINE: usize = 4 << 20;
/// The room that a buffer keeps between two lines.
const ROOM: usize = 16 << 10;

const OBJECT: &str = "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1";

/// An object, or the Status in its place.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct Item {
    pub(super) metadata: ObjectMetadata,
    code: u16,
    message: String,
}

#[derive(Debug, Deserialize)]
struct Line {
    #[serde(rename = "type")]
    kind: LineKind,
    object: Item,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "UPPERCASE")]
enum LineKind {
    Added,
    Modified,
    Deleted,
    Bookmark,
    Error,
}

#[derive(Debug, PartialEq, Eq)]
pub(super) enum Change {
    /// It is new, or was changed.
    There(ObjectMetadata),
    Gone(ObjectMetadata),
}

#[derive(Debug, Clone, Copy)]
pub(super) struct Resource {
    /// Of which kind.
    pub(super) kind: ObjectKind,
    /// A selector, as a query that begins with `&`.
    pub(super) query: &'static str,
    /// Whether to take the list from kube-apiserver's memory. It would read every Secret from etcd otherwise.
    pub(super) from_memory: bool,
}

impl Resource {
    /// The pages of its list, whose version a watch begins at.
    pub(super) fn pages(&self) -> Pages {
        let form = ListForm::Metadata;
        let pages = Pages::new(
            &self.kind.path(),
            self.query,
            form,
            BOUNDS,
            WhenExpired::Fail,
        );
        match self.from_memory {
            true => pages.read_from_memory(),
            false => pages,
        }
    }
}

pub(super) struct Watch {
    body: Body,
    lines: LineBuffer,
}

impl Watch {
    /// Opens it after this version.
    pub(super) async fn open(
        connection: &Connection,
        resource: Resource,
        version: &str,
    ) -> Result<Self, RequestFailure> {
        let (kind, query) = (resource.kind, resource.query);
        let path = format!(
            "{}?watch=true&allowWatchBookmarks=true&timeoutSeconds={WATCH_SECONDS}{query}&resourceVersion={}",
            kind.path(),
            escaped(version)
        );
        connection.wait().await;
        let request = Request::get(path)
            .header(ACCEPT, OBJECT)
            .body(Body::empty());
        Ok(Self {
            body: apiserver::open(connection.client(), request, ANSWER).await?,
            lines: LineBuffer::default(),
        })
    }

    /// The next change, and `version` as of it; `None` when kube-apiserver ended the watch after its time.
    pub(super) async fn next(
        &mut self,
        version: &mut String,
    ) -> Result<Option<Change>, RequestFailure> {
        loop {
            while let Some(line) = self.lines.next()? {
                if line.kind != LineKind::Error {
                    version.clone_from(&line.object.metadata.resource_version);
                }
                match line.kind {
                    LineKind::Added | LineKind::Modified => {
                        return Ok(Some(Change::There(line.object.metadata)));
                    }
                    LineKind::Deleted => return Ok(Some(Change::Gone(line.object.metadata))),
                    LineKind::Bookmark => {}
                    LineKind::Error => {
                        let Item { code, message, .. } = line.object;
                        return Err(RequestFailure::refused(code, &message));
                    }
                }
            }
            match timeout(DEAD, self.body.frame()).await {
                // Silent, or ended: it is continued where it was.
                Err(_) | Ok(None) => return Ok(None),
                Ok(Some(Err(error))) => {
                    return Err(RequestFailure::Other(causes::in_words(&error)));
                }
                Ok(Some(Ok(frame))) => {
                    let data = frame.into_data().unwrap_or_default();
                    self.lines.received.extend_from_slice(&data);
                }
            }
        }
    }
}

#[derive(Default)]
struct LineBuffer {
    /// Received bytes whose lines are not read yet.
    received: Vec<u8>,
    /// Up to here there is no end of a line.
    looked: usize,
}

impl LineBuffer {
    /// Takes the next whole line from the received bytes.
    fn next(&mut self) -> Result<Option<Line>, RequestFailure> {
        let new = self.received.get(self.looked..).unwrap_or_default();
        let Some(end) = new.iter().position(|byte| *byte == b'\n') else {
            self.looked = self.received.len();
            return match self.looked > LONGEST_LINE {
                true => Err(RequestFailure::Other(
                    "a line of a watch is too long".to_owned(),
                )),
                false => Ok(None),
            };
        };
        let end = self.looked + end;
        let line = serde_json::from_slice(&self.received[..end]);
        self.received.drain(..=end);
        self.received.shrink_to(ROOM);
        self.looked = 0;
        line.map(Some)
            .map_err(|error| RequestFailure::Other(error.to_string()))
    }
}

/// How many lines of a watch that comes in pieces of this size can be read, and the error in the next one.
pub fn read_lines(bytes: &[u8], piece: usize) -> (usize, Option<String>) {
    let mut lines = LineBuffer::default();
    let mut read = 0;
    for piece in bytes.chunks(piece.max(1)) {
        lines.received.extend_from_slice(piece);
        loop {
            match lines.next() {
                Ok(Some(_)) => read += 1,
                Ok(None) => break,
                Err(failure) => return (read, Some(failure.to_string())),
            }
        }
    }
    (read, None)
}
