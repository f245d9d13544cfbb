//! Lists in pages and watches of metadata. Objects are read one after the other and dropped: their metadata may be large.

use std::ops::Deref;
use std::time::Duration;

use http::header::ACCEPT;
use http::{Request, Response};
use http_body_util::{BodyExt as _, Limited};
use kube::client::Body;
use serde::Deserialize;
use tokio::time::timeout;
use windrow_decide::flight::ObjectMetadata;
use windrow_model::redact;

use crate::apiserver::{Connection, DEAD, WATCH_SECONDS, explain};
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

/// Why a request came to nothing.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Failure {
    /// The version is too old: list again.
    Expired,
    /// kube-apiserver's answer, in a line.
    Answered(String),
    /// There was none, or it could not be read.
    Otherwise(String),
    /// The page was too large.
    TooLarge,
}

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
    pub(super) async fn next(&mut self) -> Result<Option<Vec<ObjectMetadata>>, Failure> {
        while !self.done {
            let Resource { path, query, .. } = self.resource;
            let version = match (self.resource.from_memory, self.next.is_empty()) {
                (true, true) => "&resourceVersion=0",
                _ => "",
            };
            let path = format!("{path}?limit={}{query}{version}{}", self.most, self.next);
            let page = match page(self.connection, &path).await {
                Err(Failure::TooLarge) if self.most > 1 => {
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

async fn page(connection: &Connection, path: &str) -> Result<Page, Failure> {
    let answer = timeout(ANSWER, async {
        let response = send(connection, path, LIST).await?;
        read(response).await
    });
    let body = answer.await.unwrap_or_else(|_| Err(late()))?;
    serde_json::from_slice(&body).map_err(|error| Failure::Otherwise(error.to_string()))
}

async fn read(response: Response<Body>) -> Result<impl Deref<Target = [u8]>, Failure> {
    let body = Limited::new(response.into_body(), LONGEST_PAGE);
    match body.collect().await {
        Ok(body) => Ok(body.to_bytes()),
        Err(error) if error.is::<http_body_util::LengthLimitError>() => Err(Failure::TooLarge),
        Err(error) => Err(Failure::Otherwise(error.to_string())),
    }
}

/// Sends a request. An answer that is none is a failure.
async fn send(connection: &Connection, path: &str, form: &str) -> Result<Response<Body>, Failure> {
    connection.wait().await;
    let request = Request::get(path)
        .header(ACCEPT, form)
        .body(Body::empty())
        .map_err(|error| Failure::Otherwise(error.to_string()))?;
    let response = connection.client().send(request).await;
    let response = response.map_err(|error| Failure::Otherwise(explain(&error)))?;
    let status = response.status().as_u16();
    match status {
        200 => Ok(response),
        // A kind that is not served has no objects yet.
        404 => Err(Failure::Otherwise("it is not served".to_owned())),
        410 => Err(Failure::Expired),
        _ => {
            let body = read(response).await?;
            let said: Item = serde_json::from_slice(&body).unwrap_or_default();
            let why = redact::message(&said.message);
            Err(Failure::Answered(format!("{status}: {why}")))
        }
    }
}

fn late() -> Failure {
    Failure::Otherwise(format!("no answer within {} s", ANSWER.as_secs()))
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
    ) -> Result<Self, Failure> {
        let Resource { path, query, .. } = resource;
        let path = format!(
            "{path}?watch=true&allowWatchBookmarks=true&timeoutSeconds={WATCH_SECONDS}{query}&resourceVersion={}",
            escaped(version)
        );
        let answer = timeout(ANSWER, send(connection, &path, OBJECT)).await;
        Ok(Self {
            body: answer.unwrap_or_else(|_| Err(late()))?.into_body(),
            lines: LineBuffer::default(),
        })
    }

    /// The next change, and `version` as of it; `None` when kube-apiserver ended the watch after its time.
    pub(super) async fn next(&mut self, version: &mut String) -> Result<Option<Change>, Failure> {
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
                    LineKind::Error if line.object.code == 410 => return Err(Failure::Expired),
                    LineKind::Error => {
                        let (code, why) = (line.object.code, redact::message(&line.object.message));
                        return Err(Failure::Answered(format!("{code}: {why}")));
                    }
                }
            }
            match timeout(DEAD, self.body.frame()).await {
                // Silent, or ended: it is continued where it was.
                Err(_) | Ok(None) => return Ok(None),
                Ok(Some(Err(error))) => return Err(Failure::Otherwise(error.to_string())),
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
    fn next(&mut self) -> Result<Option<Line>, Failure> {
        let new = self.received.get(self.looked..).unwrap_or_default();
        let Some(end) = new.iter().position(|byte| *byte == b'\n') else {
            self.looked = self.received.len();
            return match self.looked > LONGEST_LINE {
                true => Err(Failure::Otherwise(
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
            .map_err(|error| Failure::Otherwise(error.to_string()))
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
                Err(failure) => return (read, Some(format!("{failure:?}"))),
            }
        }
    }
    (read, None)
}
