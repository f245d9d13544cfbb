//! Objects from the API.

use std::fmt;
use std::time::Duration;

use http::Request;
use http_body_util::{BodyExt as _, LengthLimitError, Limited};
use kube::Client;
use kube::client::Body;
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, PercentEncode, utf8_percent_encode};
use serde_json::Value;
use tokio::time::timeout;
use windrow_harvester::objects::{KindListing, ObjectKind, Objects, items, text};
use windrow_model::manifest::GroupKind;
use windrow_model::redact;

use super::item::complete;
use crate::apiserver::ApiServer;
use crate::kubeconfig::KubeconfigFiles;
use crate::observe::cluster::explain;

/// How long a page may take.
const PATIENCE: Duration = Duration::from_secs(20);
/// Objects in a page, and the longest one. Of large objects fewer are asked for at once.
const PAGE: usize = 500;
const LONGEST_PAGE: usize = 16 << 20;
/// Larger kinds are not read. A hundred nodes full of pods have this many.
const LARGEST_LIST: usize = 25_000;

/// How much more memory the objects of one look may take, in bytes, by an estimate.
#[derive(Debug)]
pub struct Room(usize);

impl Room {
    /// For the daemon: its unit has 512 MiB, and reading a page takes some of it too.
    pub const fn of_the_daemon() -> Self {
        Self(192 << 20)
    }

    /// For a person, who waits for the answer.
    pub const fn of_a_person() -> Self {
        Self(2 << 30)
    }

    /// Counts the memory of an object.
    fn take(&mut self, object: &Value) -> Result<usize, ListFailure> {
        let bytes = memory_of(object);
        self.0 = self.0.checked_sub(bytes).ok_or(ListFailure::TooLarge)?;
        Ok(bytes)
    }
}

/// The approximate memory of a value.
fn memory_of(value: &Value) -> usize {
    // The overhead of an allocation. The nodes of a map are rarely full: twice the key is an estimate.
    const OVERHEAD: usize = 16;
    let of_text = |text: &String| text.capacity() + OVERHEAD;
    size_of::<Value>()
        + match value {
            Value::Null | Value::Bool(_) | Value::Number(_) => 0,
            Value::String(text) => of_text(text),
            Value::Array(items) => OVERHEAD + items.iter().map(memory_of).sum::<usize>(),
            Value::Object(map) => {
                let entry = |(key, value): (&String, &Value)| {
                    2 * size_of::<String>() + of_text(key) + memory_of(value)
                };
                OVERHEAD + map.iter().map(entry).sum::<usize>()
            }
        }
}

/// Why a kind was not listed.
#[derive(Debug)]
enum ListFailure {
    TooLarge,
    Otherwise(String),
}

impl From<String> for ListFailure {
    fn from(why: String) -> Self {
        Self::Otherwise(why)
    }
}

impl fmt::Display for ListFailure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::TooLarge => {
                f.write_str("too large: the objects take more memory than there is for them")
            }
            Self::Otherwise(why) => f.write_str(why),
        }
    }
}

/// A client for kube-apiserver, once it answers.
///
/// # Errors
///
/// Why it does not answer.
pub async fn reach(
    api: &ApiServer,
    kubeconfig: impl Into<KubeconfigFiles>,
) -> Result<Client, String> {
    let client = api.client(kubeconfig).await?;
    match timeout(PATIENCE, client.apiserver_version()).await {
        Ok(Ok(_)) => Ok(client),
        Ok(Err(error)) => Err(explain(&error)),
        Err(_) => Err(late()),
    }
}

/// Lists these kinds for a person.
pub async fn list(client: &Client, kinds: &[ObjectKind]) -> Objects {
    let mut objects = Objects::default();
    ask(client, kinds, &mut objects, &mut Room::of_a_person()).await;
    objects
}

/// Lists these kinds too, as far as there is room.
pub async fn ask(client: &Client, kinds: &[ObjectKind], objects: &mut Objects, room: &mut Room) {
    for kind in kinds {
        let found = all(client, *kind, room).await;
        objects.insert(kind.group_kind(), listed(found));
    }
}

/// Lists kinds whose version and plural are not known: discovery says where their objects are.
pub async fn ask_by_name(
    client: &Client,
    kinds: &[GroupKind],
    objects: &mut Objects,
    room: &mut Room,
) {
    for kind in kinds {
        let found = by_name(client, kind, room).await;
        objects.insert(kind.clone(), listed(found));
    }
}

fn listed(found: Result<Vec<Value>, ListFailure>) -> KindListing {
    match found {
        Ok(items) => KindListing::Objects(items),
        Err(why) => KindListing::Unknown(why.to_string()),
    }
}

async fn by_name(
    client: &Client,
    kind: &GroupKind,
    room: &mut Room,
) -> Result<Vec<Value>, ListFailure> {
    let version = match kind.group.as_str() {
        "" => "v1".to_owned(),
        group => match get(client, &format!("/apis/{group}")).await? {
            Some(served) => text(&served, "/preferredVersion/groupVersion").to_owned(),
            None => return Ok(Vec::new()),
        },
    };
    let root = match kind.group.is_empty() {
        true => format!("/api/{version}"),
        false => format!("/apis/{version}"),
    };
    let served = get(client, &root).await?.unwrap_or_default();
    let resources = items(&served, "/resources").iter();
    let mut plurals = resources
        .filter(|one| text(one, "/kind") == kind.kind)
        .map(|one| text(one, "/name"))
        .filter(|name| !name.is_empty() && !name.contains('/'));
    match plurals.next() {
        Some(plural) => {
            pages(
                client,
                &format!("{root}/{plural}"),
                "",
                (&version, &kind.kind),
                room,
            )
            .await
        }
        // A kind that is not served has no objects.
        None => Ok(Vec::new()),
    }
}

async fn all(
    client: &Client,
    kind: ObjectKind,
    room: &mut Room,
) -> Result<Vec<Value>, ListFailure> {
    let version = kind.api_version();
    let named = (version.as_str(), kind.kind);
    let mut found = Vec::new();
    for query in kind.queries() {
        found.extend(pages(client, &kind.path(), query, named, room).await?);
    }
    Ok(found)
}

async fn pages(
    client: &Client,
    path: &str,
    query: &str,
    named: (&str, &str),
    room: &mut Room,
) -> Result<Vec<Value>, ListFailure> {
    let mut items = Vec::new();
    let mut taken = 0;
    let found = every_page(client, path, query, |item| {
        let item = complete(item, named.0, named.1);
        taken += room.take(&item)?;
        items.push(item);
        match items.len() > LARGEST_LIST {
            true => Err(format!("there are more than {LARGEST_LIST}").into()),
            false => Ok(()),
        }
    });
    match found.await {
        Ok(()) => Ok(items),
        // Dropped objects leave their room to others.
        Err(why) => {
            room.0 += taken;
            Err(why)
        }
    }
}

/// Hands every object of a list to `take`, page by page.
async fn every_page(
    client: &Client,
    path: &str,
    query: &str,
    mut take: impl FnMut(Value) -> Result<(), ListFailure>,
) -> Result<(), ListFailure> {
    let (mut next, mut most) = (String::new(), PAGE);
    loop {
        let mut page = match get(client, &format!("{path}?limit={most}{query}{next}")).await {
            Ok(Some(page)) => page,
            Ok(None) => return Ok(()),
            // Large objects come in smaller pages.
            Err(ListFailure::TooLarge) if most > 1 => {
                most = (most / 10).max(1);
                continue;
            }
            Err(why) => return Err(why),
        };
        if let Some(Value::Array(found)) = page.get_mut("items").map(Value::take) {
            found.into_iter().try_for_each(&mut take)?;
        }
        match text(&page, "/metadata/continue") {
            "" => return Ok(()),
            token => next = format!("&continue={}", escaped(token)),
        }
    }
}

/// The object at a path; `None` when there is none.
async fn get(client: &Client, path: &str) -> Result<Option<Value>, ListFailure> {
    let request = Request::get(path)
        .body(Body::empty())
        .map_err(|error| error.to_string())?;
    let answer = timeout(PATIENCE, async {
        let response = client.send(request).await.map_err(|e| explain(&e))?;
        let status = response.status().as_u16();
        let body = Limited::new(response.into_body(), LONGEST_PAGE);
        let body = body
            .collect()
            .await
            .map_err(|error| match error.is::<LengthLimitError>() {
                true => ListFailure::TooLarge,
                false => ListFailure::Otherwise(error.to_string()),
            })?;
        Ok::<_, ListFailure>((status, body.to_bytes()))
    });
    let (status, body) = answer.await.unwrap_or_else(|_| Err(late().into()))?;
    let value: Option<Value> = serde_json::from_slice(&body).ok();
    match (status, value) {
        (200, Some(value)) => Ok(Some(value)),
        (200, None) => Err("the answer is no JSON".to_owned().into()),
        (404, _) => Ok(None),
        (status, Some(value)) => {
            let why = redact::message(text(&value, "/message"));
            Err(format!("{status}: {why}").into())
        }
        (status, None) => Err(format!("HTTP {status}").into()),
    }
}

fn late() -> String {
    format!("no answer within {} s", PATIENCE.as_secs())
}

/// Characters that need no escape in a query (RFC 3986).
const NOT_UNRESERVED: &AsciiSet = &NON_ALPHANUMERIC
    .remove(b'-')
    .remove(b'_')
    .remove(b'.')
    .remove(b'~');

/// A token of the API in a query.
pub fn escaped(token: &str) -> PercentEncode<'_> {
    utf8_percent_encode(token, NOT_UNRESERVED)
}

#[cfg(test)]
mod tests {
    use std::convert::Infallible;

    use http::Response;
    use serde_json::json;

    use super::*;

    /// Serves 30 objects of some size, in pages as large as requested.
    async fn serve(request: Request<Body>, size: usize) -> Result<Response<Body>, Infallible> {
        let number = |key: &str| -> Option<usize> {
            let query = request.uri().query()?;
            let value = query.split('&').find_map(|one| one.strip_prefix(key))?;
            value.parse().ok()
        };
        let (most, first) = (number("limit=").unwrap(), number("continue=").unwrap_or(0));
        let last = (first + most).min(30);
        let items: Vec<Value> = (first..last)
            .map(|number| json!({"metadata": {"name": number.to_string()}, "data": "x".repeat(size)}))
            .collect();
        let next = if last < 30 {
            last.to_string()
        } else {
            String::new()
        };
        let page = json!({"items": items, "metadata": {"continue": next}});
        Ok(Response::new(Body::from(page.to_string().into_bytes())))
    }

    async fn listed_with(size: usize, room: &mut Room) -> Result<usize, String> {
        let serve = tower::service_fn(move |request| serve(request, size));
        let client = Client::new(serve, "default");
        let mut objects = Objects::default();
        let pods = ObjectKind::ALL
            .iter()
            .find(|kind| kind.kind == "Pod")
            .unwrap();
        ask(&client, &[*pods], &mut objects, room).await;
        match objects.all(*pods) {
            Ok(found) => Ok(found.len()),
            Err(why) => Err(why.to_string()),
        }
    }

    #[tokio::test]
    async fn objects_for_which_there_is_no_room_are_unknown_and_leave_theirs_to_others() {
        let mut room = Room(1 << 20);
        assert_eq!(listed_with(1000, &mut room).await, Ok(30));
        let left = room.0;
        assert!(left < (1 << 20) - 30 * 1000, "{left}");
        let why = listed_with(50_000, &mut room).await.unwrap_err();
        assert!(why.contains("too large"), "{why}");
        assert_eq!(room.0, left);
    }

    #[tokio::test]
    async fn of_large_objects_fewer_are_read_at_once() {
        // Thirty of them exceed one page.
        assert_eq!(
            listed_with(1 << 20, &mut Room::of_the_daemon()).await,
            Ok(30)
        );
    }

    #[test]
    fn a_token_is_escaped_for_a_query() {
        assert_eq!(escaped("aZ9-_.~").to_string(), "aZ9-_.~");
        assert_eq!(escaped("a+b/c=").to_string(), "a%2Bb%2Fc%3D");
    }
}
