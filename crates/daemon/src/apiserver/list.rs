//! Lists in pages, for all who list.

use std::time::Duration;

use http::Request;
use http::header::ACCEPT;
use kube::Client;
use kube::client::Body;
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, PercentEncode, utf8_percent_encode};
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::Value;
use windrow_harvester::objects::text;

use super::{LONGEST, Reply, RequestFailure, send};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ListForm {
    Objects,
    /// Their metadata: the rest does not leave kube-apiserver.
    Metadata,
}

impl ListForm {
    pub fn accept(self) -> &'static str {
        match self {
            ListForm::Objects => "application/json",
            ListForm::Metadata => {
                "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1"
            }
        }
    }
}

#[derive(Debug, Clone, Copy)]
pub struct ListBounds {
    pub patience: Duration,
    /// Objects in a page. Pages of large objects are smaller.
    pub page: usize,
    pub longest: usize,
}

impl ListBounds {
    /// Pages of 500 objects, as kubectl reads them.
    pub const fn of(patience: Duration) -> Self {
        Self {
            patience,
            page: 500,
            longest: LONGEST,
        }
    }
}

/// The reaction when kube-apiserver has forgotten the state of the cluster that the list began with (five minutes).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum WhenExpired {
    /// The rest comes from a newer state. kube-apiserver gives the token for it with its refusal. The names come in
    /// order, so none comes twice.
    GoOn,
    /// The list has failed: a watch from its version on would miss the changes in between.
    Fail,
}

#[derive(Debug)]
pub struct Page<T> {
    pub items: Vec<T>,
    /// The version of the whole list: its watch begins there.
    pub version: String,
    /// In bytes.
    pub bytes: usize,
}

pub struct Pages {
    path: String,
    query: String,
    form: ListForm,
    pub bounds: ListBounds,
    expired: WhenExpired,
    next: String,
    done: bool,
}

#[derive(Deserialize)]
struct List<T> {
    #[serde(default)]
    metadata: ListMetadata,
    /// kube-apiserver writes `null` for none.
    items: Option<Vec<T>>,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct ListMetadata {
    resource_version: String,
    #[serde(rename = "continue")]
    next: String,
}

impl List<Value> {
    /// # Errors
    ///
    /// It is not a list.
    fn of_values(mut list: Value) -> Result<Self, RequestFailure> {
        let [resource_version, next] = ["/metadata/resourceVersion", "/metadata/continue"]
            .map(|at| text(&list, at).to_owned());
        let items = match list.get_mut("items").map(Value::take) {
            Some(Value::Array(items)) => Some(items),
            Some(Value::Null) => None,
            None if list.is_object() => None,
            _ => {
                let why = "the answer cannot be read: no list of objects";
                return Err(RequestFailure::Other(why.to_owned()));
            }
        };
        let metadata = ListMetadata {
            resource_version,
            next,
        };
        Ok(Self { metadata, items })
    }
}

impl Pages {
    pub fn new(
        path: &str,
        query: &str,
        form: ListForm,
        bounds: ListBounds,
        expired: WhenExpired,
    ) -> Self {
        Self {
            path: path.to_owned(),
            query: query.to_owned(),
            form,
            bounds,
            expired,
            next: String::new(),
            done: false,
        }
    }

    /// Reads the list from kube-apiserver's memory, because etcd would have to read much for it. Only its first page is
    /// requested that way.
    pub fn read_from_memory(mut self) -> Self {
        "&resourceVersion=0".clone_into(&mut self.next);
        self
    }

    pub fn is_done(&self) -> bool {
        self.done
    }

    /// The next page, as a type that takes little memory; `None` after the last one.
    ///
    /// # Errors
    ///
    /// Why it cannot be had.
    pub async fn next<T: DeserializeOwned>(
        &mut self,
        client: &Client,
    ) -> Result<Option<Page<T>>, RequestFailure> {
        self.next_read_by(client, Reply::json::<List<T>>).await
    }

    /// As [`Self::next`], with values, within a bound on their memory. Pages of objects that take much are smaller.
    ///
    /// # Errors
    ///
    /// Why it cannot be had.
    pub async fn next_values(
        &mut self,
        client: &Client,
    ) -> Result<Option<Page<Value>>, RequestFailure> {
        self.next_read_by(client, |reply| reply.value().and_then(List::of_values))
            .await
    }

    async fn next_read_by<T>(
        &mut self,
        client: &Client,
        read: impl Fn(Reply) -> Result<List<T>, RequestFailure>,
    ) -> Result<Option<Page<T>>, RequestFailure> {
        while !self.done {
            let ListBounds {
                patience,
                page,
                longest,
            } = self.bounds;
            let Self {
                path, query, next, ..
            } = &*self;
            let request = Request::get(format!("{path}?limit={page}{query}{next}"))
                .header(ACCEPT, self.form.accept())
                .body(Body::empty());
            let reply = send(client, request, patience, longest).await;
            if let Ok(reply) = &reply
                && reply.status == 410
                && self.expired == WhenExpired::GoOn
            {
                let said = serde_json::from_slice::<List<()>>(&reply.body);
                let token = said.map_or_else(|_| String::new(), |said| said.metadata.next);
                let next = following(&token);
                if !token.is_empty() && next != self.next {
                    self.next = next;
                    continue;
                }
            }
            let bytes = reply.as_ref().map_or(0, |reply| reply.body.len());
            let List { metadata, items } = match reply.and_then(&read) {
                Err(failure) if failure.is_too_large() && page > 1 => {
                    self.bounds.page = (page / 10).max(1);
                    continue;
                }
                list => list?,
            };
            self.done = metadata.next.is_empty();
            self.next = following(&metadata.next);
            return Ok(Some(Page {
                items: items.unwrap_or_default(),
                version: metadata.resource_version,
                bytes,
            }));
        }
        Ok(None)
    }
}

fn following(token: &str) -> String {
    format!("&continue={}", escaped(token))
}

/// Characters that need no escape in a query (RFC 3986).
const NOT_UNRESERVED: &AsciiSet = &NON_ALPHANUMERIC
    .remove(b'-')
    .remove(b'_')
    .remove(b'.')
    .remove(b'~');

/// Percent-encoded for a query.
pub fn escaped(value: &str) -> PercentEncode<'_> {
    utf8_percent_encode(value, NOT_UNRESERVED)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_without_a_list_is_no_empty_list() {
        let items_of = |list: &str| {
            let list = List::of_values(serde_json::from_str(list).unwrap());
            list.map(|list| list.items.unwrap_or_default().len())
        };
        assert_eq!(items_of(r#"{"items": [{}]}"#), Ok(1));
        for none in ["{}", r#"{"items": null}"#] {
            assert_eq!(items_of(none), Ok(0), "{none}");
        }
        for other in [r#"{"items": "no list"}"#, r#"{"items": {}}"#, "[]", "7"] {
            assert!(items_of(other).is_err(), "{other}");
        }
    }

    #[test]
    fn a_token_is_escaped_for_a_query() {
        assert_eq!(escaped("aZ9-_.~").to_string(), "aZ9-_.~");
        assert_eq!(escaped("a+b/c=").to_string(), "a%2Bb%2Fc%3D");
    }
}
