//! Positions of boxes and edges: the layered method (Sugiyama, Tagawa, Toda 1981).
//!
//! Boxes are in columns, each to the right of all its dependencies. An edge that passes a column gets
//! its own lane there, so that no edge ever runs behind a box. The order within a column is
//! chosen for few crossings, the heights so that edges are as level as they can be.

use std::collections::BTreeMap;

use super::super::graph::{BoxGraph, Edge};

const GAP: f64 = 26.0;
const LANE_GAP: f64 = 12.0;

/// A box to place: its height and the middles of its rows, from its top.
pub(super) struct Shape {
    pub(super) height: f64,
    pub(super) rows: Vec<f64>,
    pub(super) first: bool,
    /// Tie-break: smaller is higher.
    pub(super) order: usize,
}

pub(super) struct BoxLayout {
    /// Column and top of every box.
    pub(super) boxes: Vec<(usize, f64)>,
    pub(super) routes: Vec<Route>,
    pub(super) columns: usize,
    pub(super) height: f64,
}

#[derive(Debug, Clone, Default)]
pub(super) struct Route {
    /// It was reversed for the layout: it runs from right to left.
    pub(super) reversed: bool,
    /// Middle of its lane in every column between its ends: column, height.
    pub(super) lanes: Vec<(usize, f64)>,
}

struct ColumnSlot {
    column: usize,
    height: f64,
    gap: f64,
    top: f64,
    order: f64,
    /// Slots on the left that it is connected to: slot, height there, height here.
    left: Vec<(usize, f64, f64)>,
    /// Slots on the right, likewise.
    right: Vec<(usize, f64, f64)>,
}

pub(super) fn layout(graph: &BoxGraph, shapes: &[Shape]) -> BoxLayout {
    let reversed = reversed(graph, shapes);
    let column = columns(graph, shapes, &reversed);
    let mut slots: Vec<ColumnSlot> = shapes
        .iter()
        .zip(&column)
        .map(|(shape, column)| ColumnSlot {
            column: *column,
            height: shape.height,
            gap: GAP,
            top: 0.0,
            order: shape.order as f64,
            left: Vec::new(),
            right: Vec::new(),
        })
        .collect();
    let lanes = lay_lanes(graph, shapes, &column, &reversed, &mut slots);
    let count = column.iter().max().map_or(0, |last| last + 1);
    let mut members: Vec<Vec<usize>> = vec![Vec::new(); count];
    for (slot, one) in slots.iter().enumerate() {
        members[one.column].push(slot);
    }
    arrange(&mut slots, &mut members);
    place(&mut slots, &members);
    let height = slots
        .iter()
        .map(|slot| slot.top + slot.height)
        .fold(0.0, f64::max);
    let routes = lanes
        .into_iter()
        .zip(&reversed)
        .map(|(lanes, reversed)| Route {
            reversed: *reversed,
            lanes: lanes
                .into_iter()
                .map(|slot| {
                    (
                        slots[slot].column,
                        slots[slot].top + slots[slot].height / 2.0,
                    )
                })
                .collect(),
        })
        .collect();
    BoxLayout {
        boxes: (0..shapes.len())
            .map(|id| (slots[id].column, slots[id].top))
            .collect(),
        routes,
        columns: count,
        height,
    }
}

/// Which edges have to be reversed so that no cycle is left: those that lead back to a box that is still being visited,
/// files visited in their order.
fn reversed(graph: &BoxGraph, shapes: &[Shape]) -> Vec<bool> {
    #[derive(Clone, Copy, PartialEq)]
    enum VisitMark {
        New,
        Open,
        Closed,
    }
    let mut outgoing: Vec<Vec<usize>> = vec![Vec::new(); shapes.len()];
    for (id, edge) in graph.edges.iter().enumerate() {
        outgoing[edge.from.0].push(id);
    }
    let mut marks = vec![VisitMark::New; shapes.len()];
    let mut reversed = vec![false; graph.edges.len()];
    let mut starts: Vec<usize> = (0..shapes.len()).collect();
    starts.sort_by_key(|id| (!shapes[*id].first, shapes[*id].order));
    for start in starts {
        if marks[start] != VisitMark::New {
            continue;
        }
        marks[start] = VisitMark::Open;
        let mut stack = vec![(start, 0)];
        while let Some((id, next)) = stack.pop() {
            let Some(&edge) = outgoing[id].get(next) else {
                marks[id] = VisitMark::Closed;
                continue;
            };
            stack.push((id, next + 1));
            let to = graph.edges[edge].to.0;
            match marks[to] {
                VisitMark::Open => reversed[edge] = true,
                VisitMark::New => {
                    marks[to] = VisitMark::Open;
                    stack.push((to, 0));
                }
                VisitMark::Closed => {}
            }
        }
    }
    reversed
}

fn ends(edge: &Edge, reversed: bool) -> ((usize, usize), (usize, usize)) {
    if reversed {
        (edge.to, edge.from)
    } else {
        (edge.from, edge.to)
    }
}

/// The column of each box: one right of the last box that it needs.
fn columns(graph: &BoxGraph, shapes: &[Shape], reversed: &[bool]) -> Vec<usize> {
    let shift = usize::from(shapes.iter().any(|shape| shape.first));
    let mut column: Vec<usize> = shapes
        .iter()
        .map(|shape| if shape.first { 0 } else { shift })
        .collect();
    // At most as many rounds as boxes: the reversed graph has no cycle.
    for _ in 0..shapes.len() {
        let mut changed = false;
        for (edge, reversed) in graph.edges.iter().zip(reversed) {
            let (from, to) = ends(edge, *reversed);
            // An object from another provider is there no sooner than an object that is applied at once.
            let least = column[from.0].max(shift) + 1;
            if from.0 != to.0 && column[to.0] < least {
                column[to.0] = least;
                changed = true;
            }
        }
        if !changed {
            break;
        }
    }
    column
}

/// Gives every edge its lanes. Edges out of one row share them.
fn lay_lanes(
    graph: &BoxGraph,
    shapes: &[Shape],
    column: &[usize],
    reversed: &[bool],
    slots: &mut Vec<ColumnSlot>,
) -> Vec<Vec<usize>> {
    let mut shared: BTreeMap<(usize, usize, bool, usize), usize> = BTreeMap::new();
    let mut lanes = Vec::new();
    for (edge, reversed) in graph.edges.iter().zip(reversed) {
        let (from, to) = ends(edge, *reversed);
        let mut path = Vec::new();
        let mut at = (from.0, shapes[from.0].rows[from.1]);
        for between in column[from.0] + 1..column[to.0] {
            let lane = *shared
                .entry((from.0, from.1, *reversed, between))
                .or_insert_with(|| {
                    slots.push(ColumnSlot {
                        column: between,
                        height: 2.0,
                        gap: LANE_GAP,
                        top: 0.0,
                        order: slots[from.0].order,
                        left: Vec::new(),
                        right: Vec::new(),
                    });
                    slots.len() - 1
                });
            tie(slots, at, (lane, 1.0));
            at = (lane, 1.0);
            path.push(lane);
        }
        tie(slots, at, (to.0, shapes[to.0].rows[to.1]));
        lanes.push(path);
    }
    lanes
}

fn tie(slots: &mut [ColumnSlot], from: (usize, f64), to: (usize, f64)) {
    if !slots[to.0].left.contains(&(from.0, from.1, to.1)) {
        slots[from.0].right.push((to.0, to.1, from.1));
        slots[to.0].left.push((from.0, from.1, to.1));
    }
}

/// Orders each column for few crossings: by the mean position of a slot's neighbours.
fn arrange(slots: &mut [ColumnSlot], members: &mut [Vec<usize>]) {
    for column in members.iter_mut() {
        column.sort_by(|a, b| slots[*a].order.total_cmp(&slots[*b].order));
        stack_up(slots, column);
    }
    for round in 0..12 {
        let rightwards = round % 2 == 0;
        let sweep: Vec<usize> = if rightwards {
            (0..members.len()).collect()
        } else {
            (0..members.len()).rev().collect()
        };
        for id in sweep {
            let mut keyed: Vec<(f64, usize)> = members[id]
                .iter()
                .map(|slot| (pull(slots, *slot, rightwards, !rightwards), *slot))
                .collect();
            keyed.sort_by(|a, b| a.0.total_cmp(&b.0));
            members[id] = keyed.into_iter().map(|(_, slot)| slot).collect();
            stack_up(slots, &members[id]);
        }
    }
}

/// The height at which a slot would be level with its neighbours on the given sides.
fn pull(slots: &[ColumnSlot], slot: usize, left: bool, right: bool) -> f64 {
    let own = &slots[slot];
    let ties = own
        .left
        .iter()
        .filter(|_| left)
        .chain(own.right.iter().filter(|_| right));
    let (sum, count) = ties.fold((0.0, 0.0), |(sum, count), (other, there, here)| {
        (
            sum + slots[*other].top + there - here + own.height / 2.0,
            count + 1.0,
        )
    });
    if count == 0.0 {
        own.top + own.height / 2.0
    } else {
        sum / count
    }
}

fn stack_up(slots: &mut [ColumnSlot], column: &[usize]) {
    let mut top = 0.0;
    for slot in column {
        slots[*slot].top = top;
        top += slots[*slot].height + slots[*slot].gap;
    }
}

/// Heights: each column is moved, with its order and gaps, until its edges are as level as possible.
fn place(slots: &mut [ColumnSlot], members: &[Vec<usize>]) {
    for round in 0..24 {
        let rightwards = round % 2 == 0;
        let sweep: Vec<usize> = if rightwards {
            (0..members.len()).collect()
        } else {
            (0..members.len()).rev().collect()
        };
        for id in sweep {
            // The last rounds look both ways, so that neither side wins.
            let both = round >= 12;
            let wish: Vec<f64> = members[id]
                .iter()
                .map(|slot| {
                    pull(slots, *slot, both || rightwards, both || !rightwards)
                        - slots[*slot].height / 2.0
                })
                .collect();
            settle(slots, &members[id], &wish);
        }
    }
    let highest = slots.iter().map(|slot| slot.top).fold(f64::MAX, f64::min);
    for slot in slots.iter_mut() {
        slot.top -= highest;
    }
}

/// The tops closest to the wishes (least squares) that keep order and gaps: isotonic regression by pooling neighbours
/// that would overlap.
fn settle(slots: &mut [ColumnSlot], column: &[usize], wish: &[f64]) {
    let mut offsets = Vec::with_capacity(column.len());
    let mut offset = 0.0;
    for (position, slot) in column.iter().enumerate() {
        if position > 0 {
            let above = &slots[column[position - 1]];
            offset += above.height + above.gap.max(slots[*slot].gap);
        }
        offsets.push(offset);
    }
    let mut pools: Vec<(f64, f64)> = Vec::new();
    for (wish, offset) in wish.iter().zip(&offsets) {
        let mut pool = (wish - offset, 1.0);
        while let Some(&(mean, weight)) = pools.last() {
            if mean <= pool.0 {
                break;
            }
            pools.pop();
            pool = (
                (mean * weight + pool.0 * pool.1) / (weight + pool.1),
                weight + pool.1,
            );
        }
        pools.push(pool);
    }
    let mut values = pools
        .iter()
        .flat_map(|(mean, weight)| std::iter::repeat_n(*mean, *weight as usize));
    for (slot, offset) in column.iter().zip(&offsets) {
        slots[*slot].top = values.next().unwrap_or_default() + offset;
    }
}
