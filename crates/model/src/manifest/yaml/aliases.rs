//! Determines the anchors that an alias may refer to, and how much aliases may add.

use std::collections::HashSet;

/// The names after a `*`. A document with too many of them may use any name.
pub(super) enum Aliases<'t> {
    Any,
    These(HashSet<&'t str>),
}

impl<'t> Aliases<'t> {
    const MOST: usize = 10_000;

    pub(super) fn in_text(text: &'t str) -> Self {
        let mut names = HashSet::new();
        for (at, _) in text.match_indices('*') {
            let rest = &text[at + 1..];
            let is_name = |ch: char| ch.is_ascii_alphanumeric() || ch == '_' || ch == '-';
            let end = rest.find(|ch| !is_name(ch)).unwrap_or(rest.len());
            if end > 0 {
                names.insert(&rest[..end]);
            }
            if names.len() > Self::MOST {
                return Self::Any;
            }
        }
        Self::These(names)
    }

    pub(super) fn has(&self, name: &str) -> bool {
        match self {
            Self::Any => true,
            Self::These(names) => names.contains(name),
        }
    }
}

/// The share of decoding work that may come from aliases, as the YAML library in RKE2 limits it.
mod share {
    pub(super) const LOW: f64 = 400_000.0;
    pub(super) const HIGH: f64 = 4_000_000.0;
    pub(super) const MOST: f64 = 0.99;
    pub(super) const LEAST: f64 = 0.10;
}

pub(super) fn allowed_share(decoded: usize) -> f64 {
    let decoded = decoded as f64;
    if decoded <= share::LOW {
        return share::MOST;
    }
    if decoded >= share::HIGH {
        return share::LEAST;
    }
    let along = (decoded - share::LOW) / (share::HIGH - share::LOW);
    share::MOST - (share::MOST - share::LEAST) * along
}
