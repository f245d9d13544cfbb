//! Which of the charts that RKE2 packages its configuration selects, and which it disables.

use windrow_model::findings::Location;
use windrow_model::manifest::{MapEntry, Node};

use super::config::{ConfigItem, Rke2ConfigFile, in_order, pairs};

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

    /// The charts of the CNIs and ingress controllers that a written selection leaves out: RKE2 disables them, too (rke2
    /// `pkg/cli/cmds`, `disableExceptSelected`).
    pub fn not_selected(&self) -> impl Iterator<Item = (String, Location)> {
        let lists = [
            (
                &self.cni,
                &["calico", "canal", "cilium", "flannel", "multus"][..],
            ),
            (&self.ingress_controller, &["ingress-nginx", "traefik"]),
        ];
        lists.into_iter().flat_map(|(selected, all)| {
            let at = selected.first().map(|item| item.at.clone());
            let left_out = all
                .iter()
                .filter(|name| selected.iter().all(|item| item.text != **name));
            let left_out = left_out.filter_map(move |name| Some((*name, at.clone()?)));
            left_out.flat_map(|(name, at)| {
                [format!("rke2-{name}"), format!("rke2-{name}-crd")]
                    .map(|chart| (chart, at.clone()))
            })
        })
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
