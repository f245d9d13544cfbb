//! Lists in pages.

use std::fmt;
use std::time::Duration;

use http::Request;
use http::header::ACCEPT;
use kube::Client;
use kube::client::Body;
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, PercentEncode, utf8_percent_encode};
use serde_json::Value;
use windrow_harvester::objects::text;

use crate::apiserver::{LONGEST, RequestFailure, if_found, send};

/// How long a page may take.
pub(super) const PATIENCE: Duration = Duration::from_secs(20);
/// Objects in a page. Of large objects fewer are asked for at once.
const PAGE: usize = 500;

/// Why a kind was not listed.
#[derive(Debug)]
pub(super) enum ListFailure {
    TooLarge,
    /// The pages took longer than kube-apiserver keeps their state: the token with which it goes on.
    Expired(String),
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
            Self::Expired(_) => f.write_str("the list expired while it was read"),
            Self::Otherwise(why) => f.write_str(why),
        }
    }
}

/// What a list is asked for as.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ListForm {
    /// Whole objects.
    Objects,
    /// Their metadata: the rest does not leave kube-apiserver.
    Metadata,
}

impl ListForm {
    /// The media type.
    pub fn accept(self) -> &'static str {
        match self {
            ListForm::Objects => "application/json",
            ListForm::Metadata => {
                "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1"
            }
        }
    }
}

/// Hands every object of a list to `take`, page by page.
pub(super) async fn every_page(
    client: &Client,
    path: &str,
    query: &str,
    form: ListForm,
    mut take: impl FnMut(Value) -> Result<(), ListFailure>,
) -> Result<(), ListFailure> {
    let (mut next, mut most) = (String::new(), PAGE);
    loop {
        let path = format!("{path}?limit={most}{query}{next}");
        let mut page = match get_as(client, &path, form).await {
            Ok(Some(page)) => page,
            Ok(None) => return Ok(()),
            // Large objects come in smaller pages.
            Err(ListFailure::TooLarge) if most > 1 => {
                most = (most / 10).max(1);
                continue;
            }
            // What is left comes from a newer state of the cluster: kube-apiserver gives the token for it with its
            // refusal. The names come in order, so none comes twice.
            Err(ListFailure::Expired(token)) if next != following(&token) => {
                next = following(&token);
                continue;
            }
            Err(why) => return Err(why),
        };
        if let Some(Value::Array(found)) = page.get_mut("items").map(Value::take) {
            found.into_iter().try_for_each(&mut take)?;
        }
        match text(&page, "/metadata/continue") {
            "" => return Ok(()),
            token => next = following(token),
        }
    }
}

/// The query of the page that a token stands for.
fn following(token: &str) -> String {
    format!("&continue={}", escaped(token))
}

/// The object at a path; `None` when there is none.
pub(super) async fn get(client: &Client, path: &str) -> Result<Option<Value>, ListFailure> {
    get_as(client, path, ListForm::Objects).await
}

async fn get_as(client: &Client, path: &str, form: ListForm) -> Result<Option<Value>, ListFailure> {
    let request = Request::get(path)
        .header(ACCEPT, form.accept())
        .body(Body::empty());
    let reply = match send(client, request, PATIENCE, LONGEST).await {
        Err(RequestFailure::TooLarge(_)) => return Err(ListFailure::TooLarge),
        reply => reply.map_err(|failure| failure.to_string())?,
    };
    if reply.status == 410 {
        let said: Value = serde_json::from_slice(&reply.body).unwrap_or_default();
        let token = text(&said, "/metadata/continue");
        if !token.is_empty() {
            return Err(ListFailure::Expired(token.to_owned()));
        }
    }
    Ok(if_found(reply.json()).map_err(|failure| failure.to_string())?)
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
    use super::*;

    #[test]
    fn a_token_is_escaped_for_a_query() {
        assert_eq!(escaped("aZ9-_.~").to_string(), "aZ9-_.~");
        assert_eq!(escaped("a+b/c=").to_string(), "a%2Bb%2Fc%3D");
    }
}
