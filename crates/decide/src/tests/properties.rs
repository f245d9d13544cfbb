//! Properties of any directory, whatever happens in between.

use std::collections::BTreeSet;

use proptest::prelude::*;

use super::{Node, config_map, free, marker_of, waits_for};

/// A random directory: which file waits for which, and which of them have markers of other programs.
#[derive(Debug, Clone)]
struct Directed {
    edges: Vec<(usize, usize)>,
    crash_after: Option<usize>,
}

const FILES: usize = 7;

fn directed() -> impl Strategy<Value = Directed> {
    (
        proptest::collection::vec((0..FILES, 0..FILES), 0..14),
        proptest::option::of(0usize..30),
    )
        .prop_map(|(edges, crash_after)| Directed { edges, crash_after })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    /// A tiny RKE2 applies every file without a marker. No file may be applied before its requirements, every file is
    /// applied in the end, and a crash between any two actions changes neither.
    #[test]
    fn nothing_is_released_early_and_everything_is_released_in_the_end(directory in directed()) {
        let name = |file: usize| format!("f{file}");
        // Forward edges only: the plan handles cycles.
        let edges: BTreeSet<(usize, usize)> =
            directory.edges.iter().copied().filter(|(from, to)| from < to).collect();
        let texts: Vec<(String, String)> = (0..FILES)
            .map(|file| {
                let on: Vec<String> = edges
                    .iter()
                    .filter(|(from, _)| *from == file)
                    .map(|(_, to)| format!("/namespaces/default/ConfigMap/{} (exists)", name(*to)))
                    .collect();
                let text = if on.is_empty() { free(&name(file)) } else { waits_for(&name(file), &on.join(",")) };
                (format!("{}.yaml", name(file)), text)
            })
            .collect();
        let files: Vec<(&str, &str)> = texts.iter().map(|(path, text)| (path.as_str(), text.as_str())).collect();
        let mut node = Node::new(&files);
        node.api();
        let mut applied: BTreeSet<usize> = BTreeSet::new();
        let mut actions = 0;
        for _round in 0..=FILES * 3 {
            let decision = node.state.decide(node.now);
            let mut crashed = false;
            for action in &decision.actions {
                if directory.crash_after == Some(actions) {
                    crashed = true;
                    actions += 1;
                    break;
                }
                node.act(action);
                actions += 1;
            }
            if crashed {
                node.restart();
                node.api();
                for &file in &applied {
                    node.exists(config_map(&name(file)));
                    node.applied(&format!("{}.yaml", name(file)));
                }
                continue;
            }
            for file in 0..FILES {
                let path = format!("{}.yaml", name(file));
                if applied.contains(&file) || node.markers.contains_key(&marker_of(&path)) {
                    continue;
                }
                for (_, to) in edges.iter().filter(|(from, _)| *from == file) {
                    prop_assert!(applied.contains(to), "{path} before {}", name(*to));
                }
                applied.insert(file);
                node.exists(config_map(&name(file)));
                node.applied(&path);
            }
        }
        prop_assert_eq!(applied.len(), FILES);
        prop_assert!(node.markers.is_empty());
        let again = node.state.decide(node.now);
        prop_assert_eq!(again.actions, vec![]);
    }

    #[test]
    fn the_same_values_in_give_the_same_values_out(edges in proptest::collection::vec((0..FILES, 0..FILES), 0..20)) {
        let texts: Vec<(String, String)> = (0..FILES)
            .map(|file| {
                let on: Vec<String> = edges
                    .iter()
                    .filter(|(from, to)| *from == file && from != to)
                    .map(|(_, to)| format!("/namespaces/default/ConfigMap/f{to} (exists)"))
                    .collect();
                (format!("f{file}.yaml"), waits_for(&format!("f{file}"), &on.join(",")))
            })
            .collect();
        let files: Vec<(&str, &str)> = texts.iter().map(|(path, text)| (path.as_str(), text.as_str())).collect();
        let (mut one, mut two) = (Node::new(&files), Node::new(&files));
        let (first, second) = (one.tick(), two.tick());
        prop_assert_eq!(first.actions, second.actions);
        prop_assert_eq!(first.status, second.status);
    }
}
