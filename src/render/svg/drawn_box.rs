//! A box of the picture, and its measures in pixels.

use super::super::graph::{BoxKind, GraphBox};
use super::metrics::width;

pub(super) const MARGIN: f64 = 28.0;
pub(super) const TOP: f64 = 86.0;
pub(super) const HEADER: f64 = 34.0;
pub(super) const ROW: f64 = 22.0;
pub(super) const PAD: f64 = 12.0;
pub(super) const NARROWEST: f64 = 170.0;
pub(super) const TEXT: f64 = 12.0;
pub(super) const SMALL: f64 = 11.0;

pub(super) struct DrawnBox<'a> {
    pub(super) one: &'a GraphBox,
    pub(super) shown: Vec<usize>,
    pub(super) hidden: usize,
    pub(super) width: f64,
}

pub(super) fn badge_width(kind: BoxKind) -> f64 {
    width(kind.badge(), SMALL, false) + 14.0
}
