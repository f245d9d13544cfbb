//! Watches whose objects have a bound on their memory. The library reads each line of an answer into values, with any
//! content, and users decide about the content of their objects.

use futures::TryStreamExt as _;
use http::Request;
use http_body_util::{BodyExt as _, StreamBody};
use hyper::body::Frame;
use kube::Client;
use kube::client::Body;
use tower::BoxError;

use super::answer::MOST_MEMORY;

/// The memory of a map, however few keys it has, and of a value in addition to its content.
const MAP: usize = 640;
const VALUE: usize = 64;

/// A client that works like `client`, except that its stream ends with an error at a line that takes more memory than
/// an answer may.
pub(super) fn with_bounded_lines(client: &Client) -> Client {
    let namespace = client.default_namespace().to_owned();
    let client = client.clone();
    let bounded = tower::service_fn(move |request: Request<Body>| {
        let client = client.clone();
        async move {
            let response = client.send(request).await.map_err(|error| match error {
                kube::Error::Service(error) => error,
                error => error.into(),
            })?;
            let mut line = LineMemory::default();
            Ok::<_, BoxError>(response.map(|body| {
                let pieces = body.into_data_stream().map_err(BoxError::from);
                StreamBody::new(pieces.and_then(move |piece| {
                    let counted = line.add(&piece).map(|()| Frame::data(piece));
                    std::future::ready(counted)
                }))
            }))
        }
    });
    Client::new(bounded, namespace)
}

/// An upper estimate of the memory that the values of the current line take.
#[derive(Debug, Default)]
struct LineMemory {
    bytes: usize,
    in_text: bool,
    is_escaped: bool,
    /// The last byte has begun a map, which may be empty.
    is_opened: bool,
}

impl LineMemory {
    fn add(&mut self, piece: &[u8]) -> Result<(), BoxError> {
        for byte in piece {
            let is_opened = std::mem::take(&mut self.is_opened);
            if is_opened && *byte != b'}' {
                self.bytes += MAP;
            }
            self.bytes += 1;
            match byte {
                _ if self.is_escaped => self.is_escaped = false,
                b'\\' if self.in_text => self.is_escaped = true,
                b'"' => self.in_text = !self.in_text,
                // No text of JSON has a line break.
                b'\n' => *self = Self::default(),
                _ if self.in_text => {}
                b'{' => self.is_opened = true,
                b'[' | b',' => self.bytes += VALUE,
                _ => {}
            }
            if self.bytes > MOST_MEMORY {
                return Err("an object of a watch takes too much memory".into());
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_of_a_watch_has_a_bound_on_its_memory_and_the_next_one_begins_at_nothing() {
        let maps = |count: usize| format!("[{}1]\n", r#"{"key":"a"},"#.repeat(count));
        let fits = |text: &str, piece: usize| {
            let mut line = LineMemory::default();
            let mut pieces = text.as_bytes().chunks(piece);
            pieces.all(|piece| line.add(piece).is_ok())
        };
        for piece in [1, 7, 1 << 20] {
            assert!(fits(&maps(40_000).repeat(9), piece));
            assert!(!fits(&maps(260_000), piece));
        }
        let empty = format!("[{}1]\n", "{},".repeat(500_000));
        let text = format!("[\"{}\"]\n", "{\\\",".repeat(500_000));
        assert!(fits(&empty, 4096) && fits(&text, 4096));
        assert!(!fits(&"x".repeat(MOST_MEMORY + 1), 1 << 20));
    }
}
