//! From the API.

use std::path::Path;
use std::time::Duration;

use http::Request;
use kube::Client;
use kube::client::Body;
use serde_json::Value;
use tokio::time::timeout;
use windrow_harvester::objects::{Kind, Listed, Objects, items, text};
use windrow_model::manifest::GroupKind;
use windrow_model::redact;

use super::complete;
use crate::apiserver::ApiServer;
use crate::observe::cluster::explain;

/// A page takes no longer.
const PATIENCE: Duration = Duration::from_secs(20);
/// Objects in a page.
const PAGE: usize = 500;
/// Most objects of one kind that are taken in: a hundred nodes full of pods.
pub const LARGEST_LIST: usize = 25_000;

/// A client for kube-apiserver, once it answers.
///
/// # Errors
///
/// Why it cannot be asked.
pub async fn reach(api: &ApiServer, file: &Path) -> Result<Client, String> {
    let client = api.client(file).await?;
    match timeout(PATIENCE, client.apiserver_version()).await {
        Ok(Ok(_)) => Ok(client),
        Ok(Err(error)) => Err(explain(&error)),
        Err(_) => Err(late()),
    }
}

/// Lists these kinds.
pub async fn list(client: &Client, kinds: &[Kind]) -> Objects {
    let mut objects = Objects::default();
    ask(client, kinds, &mut objects).await;
    objects
}

/// Lists these kinds too.
pub async fn ask(client: &Client, kinds: &[Kind], objects: &mut Objects) {
    for kind in kinds {
        let listed = match all(client, *kind).await {
            Ok(items) => Listed::Objects(items),
            Err(why) => Listed::Unknown(why),
        };
        objects.insert(kind.group_kind(), listed);
    }
}

/// Lists kinds of which only the name is known: discovery says where their objects are.
pub async fn ask_by_name(client: &Client, kinds: &[GroupKind], objects: &mut Objects) {
    for kind in kinds {
        let listed = match by_name(client, kind).await {
            Ok(items) => Listed::Objects(items),
            Err(why) => Listed::Unknown(why),
        };
        objects.insert(kind.clone(), listed);
    }
}

async fn by_name(client: &Client, kind: &GroupKind) -> Result<Vec<Value>, String> {
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
                &version,
                &kind.kind,
            )
            .await
        }
        // It is not served: it has no objects.
        None => Ok(Vec::new()),
    }
}

async fn all(client: &Client, kind: Kind) -> Result<Vec<Value>, String> {
    let version = kind.api_version();
    pages(client, &kind.path(), kind.query(), &version, kind.kind).await
}

async fn pages(
    client: &Client,
    path: &str,
    query: &str,
    version: &str,
    kind: &str,
) -> Result<Vec<Value>, String> {
    let mut items = Vec::new();
    let mut next = String::new();
    loop {
        let path = format!("{path}?limit={PAGE}{query}{next}");
        let Some(mut page) = get(client, &path).await? else {
            return Ok(Vec::new());
        };
        if let Some(Value::Array(found)) = page.get_mut("items").map(Value::take) {
            let found = found.into_iter();
            items.extend(found.map(|item| complete(item, version, kind)));
        }
        if items.len() > LARGEST_LIST {
            return Err(format!("there are more than {LARGEST_LIST}"));
        }
        match text(&page, "/metadata/continue") {
            "" => return Ok(items),
            token => next = format!("&continue={}", escaped(token)),
        }
    }
}

/// What is at a path; `None` when there is nothing.
pub(super) async fn get(client: &Client, path: &str) -> Result<Option<Value>, String> {
    let request = Request::get(path)
        .body(Body::empty())
        .map_err(|error| error.to_string())?;
    let answer = timeout(PATIENCE, async {
        let response = client.send(request).await.map_err(|e| explain(&e))?;
        let status = response.status().as_u16();
        let body = response.into_body().collect_bytes().await;
        Ok((status, body.map_err(|e| explain(&e))?))
    });
    let (status, body) = answer.await.unwrap_or_else(|_| Err(late()))?;
    let value: Option<Value> = serde_json::from_slice(&body).ok();
    match (status, value) {
        (200, Some(value)) => Ok(Some(value)),
        (200, None) => Err("the answer is no JSON".to_owned()),
        (404, _) => Ok(None),
        (status, Some(value)) => {
            let why = redact::message(text(&value, "/message"));
            Err(format!("{status}: {why}"))
        }
        (status, None) => Err(format!("HTTP {status}")),
    }
}

fn late() -> String {
    format!("no answer within {} s", PATIENCE.as_secs())
}

/// A token of the API in a query.
pub fn escaped(token: &str) -> String {
    let mut out = String::new();
    for byte in token.bytes() {
        match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'_' | b'.' | b'~' => {
                out.push(char::from(byte));
            }
            other => out.push_str(&format!("%{other:02X}")),
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_is_escaped_for_a_query() {
        assert_eq!(escaped("aZ9-_.~"), "aZ9-_.~");
        assert_eq!(escaped("a+b/c="), "a%2Bb%2Fc%3D");
    }
}
