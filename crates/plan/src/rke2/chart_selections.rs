//! Which of the charts that RKE2 packages its configuration selects, and which it disables.

use std::collections::BTreeMap;

use windrow_model::findings::Location;
use windrow_model::manifest::{MapEntry, Node};

use super::config::{ConfigItem, Rke2ConfigFile, in_order, pairs};
use super::keys::{CNI, INGRESS};

/// Names that RKE2 always adds to `disable`: k3s' own files, which it does not have (rke2 `pkg/rke2/rke2.go`). Read in the sources,
/// never seen.
const ALWAYS_DISABLED: [&str; 2] = ["coredns", "servicelb"];

/// The settings of RKE2's configuration for its packaged charts. A list without a setting is empty.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ChartSelections {
    /// `cni`
    pub cni: Vec<ConfigItem>,
    /// `ingress-controller`
    pub ingress_controller: Vec<ConfigItem>,
    /// `disable`
    pub disabled: Vec<ConfigItem>,
}

impl ChartSelections {
    /// The disabled components, and where.
    pub fn switched_off(&self) -> impl Iterator<Item = (String, Location)> {
        let disabled = self.disabled.iter();
        disabled.map(|item| (item.text.clone(), item.at.clone()))
    }

    /// The names for which RKE2 deletes files of its manifests directory: those that `disable` has, those of the CNIs and ingress
    /// controllers that a written selection leaves out (rke2 `pkg/cli/cmds`, `disableExceptSelected`), and those that RKE2 always
    /// disables.
    pub fn deleted_names(&self) -> DeletedNames {
        let mut names: BTreeMap<String, Option<Location>> = BTreeMap::new();
        names.extend(ALWAYS_DISABLED.map(|name| (name.to_owned(), None)));
        names.extend(self.switched_off().map(|(name, at)| (name, Some(at))));
        let cnis = CNI.into_iter().chain(["multus"]).collect();
        for (selected, all) in [
            (&self.cni, cnis),
            (&self.ingress_controller, Vec::from(INGRESS)),
        ] {
            let Some(first) = selected.first() else {
                continue;
            };
            let is_selected = |name: &&str| selected.iter().any(|item| item.text == *name);
            for name in all.iter().filter(|name| !is_selected(name)) {
                for chart in [format!("rke2-{name}"), format!("rke2-{name}-crd")] {
                    names.insert(chart, Some(first.at.clone()));
                }
            }
        }
        DeletedNames(names)
    }
}

/// The names for which RKE2 deletes files, each with its place; `None` for a name that RKE2 always adds.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DeletedNames(BTreeMap<String, Option<Location>>);

impl DeletedNames {
    /// The name for which RKE2 deletes this file of the manifests directory, and what the file has created: its own without
    /// the ending, or that of a directory above it (k3s `pkg/deploy/controller.go`, `shouldDisableFile`).
    pub fn of(&self, path: &str) -> Option<(&str, Option<&Location>)> {
        let above = path.match_indices('/').map(|(end, _)| &path[..end]);
        let name = path.rsplit('/').next().unwrap_or(path);
        let own = name.rsplit_once('.').map_or(name, |(own, _)| own);
        let found = above
            .chain([own])
            .find_map(|name| self.0.get_key_value(name));
        found.map(|(name, at)| (name.as_str(), at.as_ref()))
    }
}

/// Reads them from RKE2's files, merged as RKE2 does. A file that RKE2 refuses has no effect.
pub fn chart_selections(files: &[Rke2ConfigFile]) -> ChartSelections {
    let mut selections = ChartSelections::default();
    for file in in_order(files) {
        for entry in pairs(file).unwrap_or_default() {
            selections.take(file, &entry);
        }
    }
    selections
}

impl ChartSelections {
    fn take(&mut self, file: &Rke2ConfigFile, entry: &MapEntry) {
        let (key, appends) = match entry.key.strip_suffix('+') {
            Some(key) => (key, true),
            None => (entry.key.as_str(), false),
        };
        let list = match key {
            "cni" => &mut self.cni,
            "ingress-controller" => &mut self.ingress_controller,
            "disable" => &mut self.disabled,
            _ => return,
        };
        if !appends {
            list.clear();
        }
        let items = match entry.value.as_str() {
            Some(_) => std::slice::from_ref(&entry.value),
            None => entry.value.items(),
        };
        for item in items {
            let words = Node::as_str(item).unwrap_or_default().split(',');
            let words = words.map(str::trim).filter(|word| !word.is_empty());
            list.extend(words.map(|word| ConfigItem {
                text: word.to_owned(),
                at: file.at(item.line),
            }));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rke2::config::ConfigLayer;

    fn selections(main: &str, drop_ins: &[(&str, &str)]) -> ChartSelections {
        let mut files = vec![Rke2ConfigFile::new(ConfigLayer::Main, "config.yaml", main)];
        let drop_ins = drop_ins.iter();
        files.extend(
            drop_ins.map(|(name, text)| Rke2ConfigFile::new(ConfigLayer::DropIn, *name, *text)),
        );
        chart_selections(&files)
    }

    fn words(items: &[ConfigItem]) -> Vec<&str> {
        items.iter().map(|item| item.text.as_str()).collect()
    }

    #[test]
    fn a_file_is_deleted_for_a_disabled_name_an_unselected_chart_or_a_directory_above_it() {
        let names = selections(
            "cni: [multus, cilium]\ndisable: [my-app, monitoring]\n",
            &[],
        );
        let names = names.deleted_names();
        let of = |path: &str| {
            names
                .of(path)
                .map(|(name, at)| (name.to_owned(), at.and_then(|at| at.line)))
        };
        for (path, name, line) in [
            ("my-app.yaml", "my-app", Some(2)),
            ("monitoring/x/y.yaml", "monitoring", Some(2)),
            ("rke2-canal.yaml", "rke2-canal", Some(1)),
            ("rke2-calico-crd.yaml", "rke2-calico-crd", Some(1)),
            ("coredns.yaml", "coredns", None),
        ] {
            assert_eq!(of(path), Some((name.to_owned(), line)), "{path}");
        }
        for path in [
            "my-app-2.yaml",
            "rke2-cilium.yaml",
            "rke2-multus.yaml",
            "rke2-traefik.yaml",
        ] {
            assert_eq!(of(path), None, "{path}");
        }
    }

    #[test]
    fn a_later_file_replaces_a_list_or_adds_to_it_in_the_order_of_the_names() {
        let found = selections(
            "cni: canal\ndisable: [rke2-coredns]\n",
            &[
                ("b.yaml", "disable+:\n- rke2-metrics-server\n"),
                (
                    "a.yaml",
                    "cni: 'multus, cilium'\ningress-controller: none\n",
                ),
                ("c.txt", "cni: calico\n"),
            ],
        );
        assert_eq!(words(&found.cni), ["multus", "cilium"]);
        assert_eq!(words(&found.ingress_controller), ["none"]);
        let off: Vec<_> = found.switched_off().collect();
        assert_eq!(
            off[0],
            ("rke2-coredns".to_owned(), Location::line("config.yaml", 2))
        );
        assert_eq!(
            off[1],
            (
                "rke2-metrics-server".to_owned(),
                Location::line("b.yaml", 2)
            )
        );
    }

    #[test]
    fn a_list_that_was_replaced_switches_nothing_off() {
        let found = selections("disable: rke2-canal\n", &[("a.yaml", "disable: []\n")]);
        assert_eq!(found, ChartSelections::default());
        let broken = selections("disable: [a]\n\tx: 1\n", &[("a.yaml", "cni: none\n")]);
        assert_eq!(
            (words(&broken.cni), broken.disabled.len()),
            (vec!["none"], 0)
        );
    }
}
