//! The node's current layout.

use std::sync::{Arc, Mutex};

use crate::layout::Layout;
use crate::locked::lock;

#[derive(Clone)]
pub(super) struct CurrentLayout(Arc<Mutex<Layout>>);

impl CurrentLayout {
    pub(super) fn new(layout: Layout) -> Self {
        Self(Arc::new(Mutex::new(layout)))
    }

    pub(super) fn get(&self) -> Layout {
        lock(&self.0).clone()
    }

    pub(super) fn set_data_dir(&self, data_dir: &str) {
        let known = self.get();
        let now = known.clone().with_data_dir(data_dir);
        if now != known {
            *lock(&self.0) = now;
        }
    }
}
