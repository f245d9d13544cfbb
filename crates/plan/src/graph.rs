//! Small graph algorithms on files and documents, with readable results: one shortest cycle rather than all remaining
//! nodes.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};

/// A directed graph on `0..len`: an edge goes from the node that waits to the node that it waits for.
#[derive(Debug, Clone)]
pub(super) struct Graph {
    edges: Vec<Vec<usize>>,
}

impl Graph {
    pub(super) fn new(len: usize) -> Self {
        Self {
            edges: vec![Vec::new(); len],
        }
    }

    /// Adds an edge; a second one between the same two changes nothing.
    pub(super) fn add(&mut self, from: usize, to: usize) {
        if !self.edges[from].contains(&to) {
            self.edges[from].push(to);
        }
    }

    pub(super) fn remove(&mut self, from: usize, to: usize) {
        self.edges[from].retain(|&other| other != to);
    }

    /// Whether `to` can be reached from `from`.
    pub(super) fn reaches(&self, from: usize, to: usize) -> bool {
        let mut seen = std::collections::HashSet::from([from]);
        let mut stack = vec![from];
        while let Some(node) = stack.pop() {
            if node == to {
                return true;
            }
            for &next in &self.edges[node] {
                if seen.insert(next) {
                    stack.push(next);
                }
            }
        }
        false
    }

    /// The nodes that can be reached from any of these by at least one edge.
    pub(super) fn reachable(&self, from: impl Iterator<Item = usize>) -> Vec<bool> {
        let mut seen = vec![false; self.edges.len()];
        let mut stack: Vec<usize> = from.collect();
        while let Some(node) = stack.pop() {
            for &next in &self.edges[node] {
                if !std::mem::replace(&mut seen[next], true) {
                    stack.push(next);
                }
            }
        }
        seen
    }

    /// The sets of nodes that all reach each other, of two or more nodes (or one with an edge to
    /// itself). Tarjan's algorithm, without recursion: hostile input can be deep.
    pub(super) fn knots(&self) -> Vec<Vec<usize>> {
        const UNSEEN: usize = usize::MAX;
        let len = self.edges.len();
        let (mut index, mut low) = (vec![UNSEEN; len], vec![0; len]);
        let mut on_stack = vec![false; len];
        let (mut stack, mut knots, mut next_index) = (Vec::new(), Vec::new(), 0);
        for root in 0..len {
            if index[root] != UNSEEN {
                continue;
            }
            let mut calls = vec![(root, 0usize)];
            while let Some(&mut (node, ref mut edge)) = calls.last_mut() {
                if *edge == 0 {
                    index[node] = next_index;
                    low[node] = next_index;
                    next_index += 1;
                    stack.push(node);
                    on_stack[node] = true;
                }
                if let Some(&to) = self.edges[node].get(*edge) {
                    *edge += 1;
                    if index[to] == UNSEEN {
                        calls.push((to, 0));
                    } else if on_stack[to] {
                        low[node] = low[node].min(index[to]);
                    }
                    continue;
                }
                calls.pop();
                if let Some(&(parent, _)) = calls.last() {
                    low[parent] = low[parent].min(low[node]);
                }
                if low[node] == index[node] {
                    let mut knot = Vec::new();
                    while let Some(member) = stack.pop() {
                        on_stack[member] = false;
                        knot.push(member);
                        if member == node {
                            break;
                        }
                    }
                    if knot.len() > 1 || self.edges[node].contains(&node) {
                        knot.sort_unstable();
                        knots.push(knot);
                    }
                }
            }
        }
        knots.sort_unstable();
        knots
    }

    /// One shortest cycle inside a knot, beginning with its smallest member. Tries at most `tries` members as
    /// beginnings, so that a huge knot costs no more than that many searches.
    pub(super) fn shortest_cycle(&self, knot: &[usize], tries: usize) -> Vec<usize> {
        let mut best: Vec<usize> = Vec::new();
        for &start in knot.iter().take(tries) {
            let bound = if best.is_empty() {
                usize::MAX
            } else {
                best.len()
            };
            if let Some(cycle) = self.cycle_through(start, knot, bound) {
                best = cycle;
                if best.len() == 1 {
                    break;
                }
            }
        }
        if let Some(first) = (0..best.len()).min_by_key(|&i| best[i]) {
            best.rotate_left(first);
        }
        best
    }

    /// A shortest cycle through `start` with fewer than `bound` nodes.
    fn cycle_through(&self, start: usize, knot: &[usize], bound: usize) -> Option<Vec<usize>> {
        let mut parent = std::collections::HashMap::new();
        let mut queue = VecDeque::from([(start, 1usize)]);
        while let Some((node, length)) = queue.pop_front() {
            if length >= bound {
                return None;
            }
            for &next in &self.edges[node] {
                if next == start {
                    let mut cycle = vec![node];
                    let mut at = node;
                    while at != start {
                        at = parent[&at];
                        cycle.push(at);
                    }
                    cycle.reverse();
                    return Some(cycle);
                }
                if knot.binary_search(&next).is_ok() && !parent.contains_key(&next) {
                    parent.insert(next, node);
                    queue.push_back((next, length + 1));
                }
            }
        }
        None
    }

    /// Nodes before those that wait for them, otherwise in ascending order. Nodes in a cycle come last, in ascending
    /// order.
    pub(super) fn order(&self) -> Vec<usize> {
        let len = self.edges.len();
        let mut waits_for: Vec<usize> = self.edges.iter().map(Vec::len).collect();
        let mut waiting: Vec<Vec<usize>> = vec![Vec::new(); len];
        for (from, edges) in self.edges.iter().enumerate() {
            for &to in edges {
                waiting[to].push(from);
            }
        }
        let mut free: BinaryHeap<Reverse<usize>> = (0..len)
            .filter(|&node| waits_for[node] == 0)
            .map(Reverse)
            .collect();
        let mut order = Vec::with_capacity(len);
        let mut done = vec![false; len];
        while let Some(Reverse(node)) = free.pop() {
            order.push(node);
            done[node] = true;
            for &from in &waiting[node] {
                waits_for[from] -= 1;
                if waits_for[from] == 0 {
                    free.push(Reverse(from));
                }
            }
        }
        order.extend((0..len).filter(|&node| !done[node]));
        order
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn graph(len: usize, edges: &[(usize, usize)]) -> Graph {
        let mut graph = Graph::new(len);
        for &(from, to) in edges {
            graph.add(from, to);
        }
        graph
    }

    #[test]
    fn the_shortest_cycle_is_found_among_longer_ones_and_what_hangs_on_them() {
        // 0→1→2→3→0 is longer than 2→4→2; 5 only leads to the knot.
        let graph = graph(6, &[(0, 1), (1, 2), (2, 3), (3, 0), (2, 4), (4, 2), (5, 0)]);
        let knots = graph.knots();
        assert_eq!(knots, [vec![0, 1, 2, 3, 4]]);
        assert_eq!(graph.shortest_cycle(&knots[0], 100), [2, 4]);
    }

    #[test]
    fn what_is_reached_over_other_nodes_is_reached_and_the_beginning_only_over_a_cycle() {
        let graph = graph(5, &[(0, 1), (1, 2), (2, 1), (3, 4)]);
        let reached = graph.reachable([0].into_iter());
        assert_eq!(reached, [false, true, true, false, false]);
    }

    #[test]
    fn order_puts_what_is_waited_for_first_and_keeps_ascending_order_otherwise() {
        let graph = graph(4, &[(0, 3), (3, 2)]);
        assert_eq!(graph.order(), [1, 2, 3, 0]);
    }

    #[test]
    fn a_chain_of_a_hundred_thousand_needs_no_stack() {
        let len = 100_000;
        let mut graph = Graph::new(len);
        for node in 1..len {
            graph.add(node - 1, node);
        }
        assert!(graph.knots().is_empty());
        assert_eq!(graph.order()[0], len - 1);
    }

    proptest! {
        #[test]
        fn a_cycle_that_is_reported_is_one_and_none_is_shorter(
            edges in proptest::collection::vec((0usize..9, 0usize..9), 0..24),
        ) {
            let graph = graph(9, &edges);
            let reference = shortest_by_trying_all(&graph);
            let found = graph
                .knots()
                .iter()
                .map(|knot| graph.shortest_cycle(knot, usize::MAX))
                .min_by_key(Vec::len);
            prop_assert_eq!(found.as_ref().map(Vec::len), reference);
            if let Some(cycle) = found {
                for (position, &node) in cycle.iter().enumerate() {
                    let next = cycle[(position + 1) % cycle.len()];
                    prop_assert!(graph.edges[node].contains(&next));
                }
            }
        }

        #[test]
        fn without_cycles_every_node_comes_after_all_it_waits_for(
            edges in proptest::collection::vec((0usize..12, 0usize..12), 0..40),
        ) {
            let forward: Vec<_> = edges.into_iter().filter(|(from, to)| from < to).collect();
            let graph = graph(12, &forward);
            let order = graph.order();
            let place = |node| order.iter().position(|&other| other == node);
            for (from, to) in forward {
                prop_assert!(place(to) < place(from));
            }
        }
    }

    /// The reference: powers of the adjacency matrix.
    fn shortest_by_trying_all(graph: &Graph) -> Option<usize> {
        let len = graph.edges.len();
        let mut reach: Vec<Vec<bool>> = (0..len)
            .map(|from| (0..len).map(|to| graph.edges[from].contains(&to)).collect())
            .collect();
        for length in 1..=len {
            if (0..len).any(|node| reach[node][node]) {
                return Some(length);
            }
            reach = (0..len)
                .map(|from| {
                    (0..len)
                        .map(|to| {
                            (0..len).any(|via| reach[from][via] && graph.edges[via].contains(&to))
                        })
                        .collect()
                })
                .collect();
        }
        None
    }
}
