//! A list for tests, as kube-apiserver would serve it.

use std::convert::Infallible;

use http::header::ACCEPT;
use http::{Request, Response};
use kube::Client;
use kube::client::Body;
use serde_json::{Value, json};

/// A list of objects of some size, in pages as large as requested. Their names are numbers.
#[derive(Clone, Copy)]
pub struct ServedList {
    pub objects: usize,
    pub size: usize,
    /// How many small maps each of them has in addition.
    pub maps: usize,
    /// The object before which the token of a page is too old.
    pub expires_at: usize,
}

impl ServedList {
    /// Thirty objects.
    pub fn thirty(size: usize) -> Self {
        Self {
            objects: 30,
            size,
            maps: 0,
            expires_at: 0,
        }
    }

    pub fn client(self) -> Client {
        let serve = tower::service_fn(move |request| async move {
            let (status, body) = self.answer(&request);
            let body = Body::from(body.to_string().into_bytes());
            let response = Response::builder().status(status).body(body).unwrap();
            Ok::<_, Infallible>(response)
        });
        Client::new(serve, "default")
    }

    fn answer(self, request: &Request<Body>) -> (u16, Value) {
        let query = request.uri().query().unwrap();
        let value = |key: &str| query.split('&').find_map(|one| one.strip_prefix(key));
        let most: usize = value("limit=").unwrap().parse().unwrap();
        let token = value("continue=").unwrap_or("0");
        let first: usize = token.trim_start_matches("new").parse().unwrap();
        if first > 0 && first == self.expires_at && !token.starts_with("new") {
            let renewed = json!({"continue": format!("new{first}")});
            let said = "The provided continue parameter is too old";
            return (
                410,
                json!({"kind": "Status", "code": 410, "message": said, "metadata": renewed}),
            );
        }
        let accepted = request.headers()[ACCEPT].to_str().unwrap();
        let is_metadata = accepted.contains("PartialObjectMetadataList");
        let last = (first + most).min(self.objects);
        let object = |number: usize| {
            let large = "x".repeat(self.size);
            let metadata = json!({"name": number.to_string(), "resourceVersion": "5", "annotations": {"x": large}});
            if is_metadata {
                return json!({"metadata": metadata});
            }
            let container = json!({"name": "a", "env": [{"value": large}]});
            let tolerations = vec![json!({"key": "a"}); self.maps];
            json!({"metadata": metadata, "spec": {"containers": [container], "tolerations": tolerations}})
        };
        let next = match last < self.objects {
            true => last.to_string(),
            false => String::new(),
        };
        let items: Vec<Value> = (first..last).map(object).collect();
        let metadata = json!({"resourceVersion": "9", "continue": next});
        (200, json!({"items": items, "metadata": metadata}))
    }
}
