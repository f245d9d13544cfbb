//! The pages as they are sent. Each is made once for a view, and all clients that ask for it read the same bytes.
//!
//! All pages together are bounded. If there is no room for a new one, the oldest one goes, and clients that still read
//! it lose the connection: a client that reads slowly keeps nothing in memory. Unread pages go with their view.

use std::collections::VecDeque;
use std::io;
use std::sync::{Arc, Mutex, Weak};

use axum::body::{Body, Bytes};
use futures::stream::unfold;

use crate::locked::lock;

pub(super) const MOST_BYTES: usize = 32 << 20;
/// The bytes that are copied for one reader at a time.
const CHUNK: usize = 16 << 10;

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum PageKey {
    Rack,
    RackPart,
    Document,
    Node(String),
    NodePart(String),
}

pub(super) struct Pages {
    most: usize,
    kept: Mutex<VecDeque<KeptPage>>,
}

struct KeptPage {
    key: PageKey,
    view: u64,
    text: Arc<String>,
}

impl Pages {
    pub(super) fn new(most: usize) -> Self {
        Self {
            most,
            kept: Mutex::default(),
        }
    }

    /// The page of this view, made if it is not there.
    ///
    /// # Errors
    ///
    /// Those of `make`.
    pub(super) fn get<E>(
        &self,
        key: PageKey,
        view: u64,
        make: impl FnOnce() -> Result<String, E>,
    ) -> Result<SharedPage, E> {
        // Locked while it is made: a request for the same page meanwhile gets this one.
        let mut kept = lock(&self.kept);
        let known = kept
            .iter()
            .find(|page| page.view == view && page.key == key);
        let text = match known {
            Some(page) => page.text.clone(),
            None => {
                let text = Arc::new(make()?);
                let is_read = |page: &KeptPage| Arc::weak_count(&page.text) > 0;
                kept.retain(|page| page.view == view || is_read(page));
                let mut bytes: usize = kept.iter().map(|page| page.text.len()).sum();
                bytes += text.len();
                while bytes > self.most
                    && let Some(oldest) = kept.pop_front()
                {
                    bytes -= oldest.text.len();
                }
                kept.push_back(KeptPage {
                    key,
                    view,
                    text: text.clone(),
                });
                text
            }
        };
        Ok(SharedPage {
            length: text.len(),
            text: Arc::downgrade(&text),
        })
    }
}

pub(super) struct SharedPage {
    pub(super) length: usize,
    text: Weak<String>,
}

impl SharedPage {
    /// Its bytes. They end with an error once the page is gone.
    pub(super) fn into_body(self) -> Body {
        Body::from_stream(unfold(0, move |from| {
            let next = self.next(from);
            async move { next }
        }))
    }

    fn next(&self, from: usize) -> Option<(io::Result<Bytes>, usize)> {
        if from >= self.length {
            return None;
        }
        let Some(text) = self.text.upgrade() else {
            return Some((Err(io::ErrorKind::TimedOut.into()), self.length));
        };
        let to = self.length.min(from + CHUNK);
        let chunk = text.as_bytes().get(from..to)?;
        Some((Ok(Bytes::copy_from_slice(chunk)), to))
    }
}

#[cfg(test)]
mod tests {
    use std::convert::Infallible;

    use axum::body::to_bytes;
    use proptest::prelude::*;

    use super::*;

    fn node(number: usize) -> PageKey {
        PageKey::Node(number.to_string())
    }

    fn get(pages: &Pages, key: PageKey, view: u64, length: usize) -> SharedPage {
        let made = pages.get(key, view, || Ok::<_, Infallible>("x".repeat(length)));
        made.unwrap_or_else(|never| match never {})
    }

    async fn read(page: SharedPage) -> Option<usize> {
        let read = to_bytes(page.into_body(), usize::MAX).await;
        read.ok().map(|bytes| bytes.len())
    }

    #[tokio::test]
    async fn a_page_is_made_once_for_a_view_and_read_whole() {
        let pages = Pages::new(1 << 20);
        for length in [0, 1, CHUNK, CHUNK + 1, 3 * CHUNK] {
            let view = length as u64;
            let first = get(&pages, PageKey::Document, view, length);
            let second = pages.get(PageKey::Document, view, || Err("it is made twice"));
            assert!(second.is_ok_and(|second| second.text.ptr_eq(&first.text)));
            assert_eq!(read(first).await, Some(length));
        }
        let other = get(&pages, PageKey::Document, 99, 7);
        assert_eq!(read(other).await, Some(7));
    }

    #[tokio::test]
    async fn a_reader_of_an_old_page_loses_it_when_there_is_no_room_and_new_ones_do_not_wait() {
        let pages = Pages::new(100);
        let old = get(&pages, PageKey::Rack, 1, 60);
        let kept = get(&pages, PageKey::Rack, 2, 40);
        let large = get(&pages, PageKey::Rack, 3, 50);
        assert_eq!(read(old).await, None);
        assert_eq!((read(kept).await, read(large).await), (Some(40), Some(50)));
        // A page that is larger than the whole room is sent nevertheless.
        let larger = get(&pages, PageKey::Rack, 4, 300);
        assert_eq!(read(larger).await, Some(300));
    }

    proptest! {
        #[test]
        fn pages_have_a_bound_whatever_is_read(
            asked in prop::collection::vec((0..4_usize, 0..6_u64, 1..60_usize, any::<bool>()), 1..80),
        ) {
            let pages = Pages::new(100);
            let mut readers = Vec::new();
            for (number, view, length, is_read) in asked {
                let page = get(&pages, node(number), view, length);
                prop_assert!(page.next(0).is_some_and(|(chunk, _)| chunk.is_ok()));
                if is_read {
                    readers.push(page);
                }
                let kept = lock(&pages.kept);
                let bytes: usize = kept.iter().map(|page| page.text.len()).sum();
                prop_assert!(bytes <= 100, "{bytes}");
                // A reader's page is in `pages` or gone: no reader keeps a page.
                let alive = readers.iter().filter(|reader| reader.text.strong_count() > 0);
                for reader in alive {
                    prop_assert!(kept.iter().any(|page| reader.text.ptr_eq(&Arc::downgrade(&page.text))));
                }
            }
        }
    }
}
