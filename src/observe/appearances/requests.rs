//! Lists in pages and watches of metadata. Objects are read one after the other and dropped: their metadata may be large.

use std::time::Duration;

use http::Request;
use http::header::ACCEPT;
use http_body_util::BodyExt as _;
use kube::client::Body;
use serde::Deserialize;
use tokio::time::timeout;
use windrow_decide::flight::ObjectMetadata;

use crate::apiserver::{self, Connection, DEAD, Reply, RequestFailure, WATCH_SECONDS};
use crate::causes;
use crate::observe::objects::escaped;

/// How long an answer may take. A watch lasts longer.
pub(super) const ANSWER: Duration = Duration::from_secs(15);
/// Objects in a page. Of large ones fewer are asked for.
const PAGE: usize = 100;
/// The longest page, and the longest line of a watch. etcd takes no object that is larger than a line.
const LONGEST_PAGE: usize = 8 << 20;
const LONGEST_LINE: usize = 4 << 20;
/// What a buffer keeps of its size between two lines.
const ROOM: usize = 16 << 10;

const LIST: &str = "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1";
const OBJECT: &str = "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1";

/// A page of a list.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct Page {
    metadata: PageMetadata,
    /// kube-apiserver writes `null` for none.
    items: Option<Vec<Item>>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct PageMetadata {
    resource_version: String,
    #[serde(rename = "continue")]
    next: String,
}

/// An object, or the Status in its place.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Item {
    metadata: ObjectMetadata,
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

/// A change.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Change {
    /// It is new, or was changed.
    There(ObjectMetadata),
    /// It is gone.
    Gone(ObjectMetadata),
}

/// What is listed and watched.
#[derive(Debug, Clone, Copy)]
pub(super) struct Resource {
    /// The path of all its objects.
    pub(super) path: &'static str,
    /// Which of them, as a query that begins with `&`.
    pub(super) query: &'static str,
    /// Take the list from kube-apiserver's memory? It would read every Secret from etcd otherwise.
    pub(super) from_memory: bool,
}

/// The pages of a list.
pub(super) struct Pages<'c> {
    connection: &'c Connection,
    resource: Resource,
    most: usize,
    next: String,
    /// The version of the whole list: its watch begins there.
    pub(super) version: String,
    done: bool,
}

impl<'c> Pages<'c> {
    pub(super) fn new(connection: &'c Connection, resource: Resource) -> Self {
        Self {
            connection,
            resource,
            most: PAGE,
            next: String::new(),
            version: String::new(),
            done: false,
        }
    }

    /// The next page; `None` after the last one.
    pub(super) async fn next(&mut self) -> Result<Option<Vec<ObjectMetadata>>, RequestFailure> {
        while !self.done {
            let Resource { path, query, .. } = self.resource;
            let version = match (self.resource.from_memory, self.next.is_empty()) {
                (true, true) => "&resourceVersion=0",
                _ => "",
            };
            let path = format!("{path}?limit={}{query}{version}{}", self.most, self.next);
            let page = match page(self.connection, &path).await {
                Err(RequestFailure::TooLarge(_)) if self.most > 1 => {
                    self.most = (self.most / 10).max(1);
                    continue;
                }
                answer => answer?,
            };
            self.done = page.metadata.next.is_empty();
            self.next = format!("&continue={}", escaped(&page.metadata.next));
            self.version = page.metadata.resource_version;
            let items = page.items.into_iter().flatten();
            let items = items.map(|item| item.metadata);
            return Ok(Some(items.collect()));
        }
        Ok(None)
    }
}

async fn page(connection: &Connection, path: &str) -> Result<Page, RequestFailure> {
    connection.wait().await;
    let request = request(path, LIST);
    let reply = apiserver::send(connection.client(), request, ANSWER, LONGEST_PAGE).await;
    reply.and_then(Reply::json)
}

fn request(path: &str, form: &str) -> http::Result<Request<Body>> {
    Request::get(path).header(ACCEPT, form).body(Body::empty())
}

/// A watch that is open.
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
        let Resource { path, query, .. } = resource;
        let path = format!(
            "{path}?watch=true&allowWatchBookmarks=true&timeoutSeconds={WATCH_SECONDS}{query}&resourceVersion={}",
            escaped(version)
        );
        connection.wait().await;
        let request = request(&path, OBJECT);
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

/// What came of a watch, taken apart into lines.
#[derive(Default)]
struct LineBuffer {
    /// What came of lines that are not read yet.
    received: Vec<u8>,
    /// Up to where it is known to have no end of a line.
    looked: usize,
}

impl LineBuffer {
    /// Takes the next whole line from what was received.
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

/// How many lines of a watch can be read that comes in pieces of this size, and what is wrong with the next one.
pub(crate) fn read_lines(bytes: &[u8], piece: usize) -> (usize, Option<String>) {
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
