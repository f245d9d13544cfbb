//! The data of `data/kubernetes.txt`, which are parsed on first use.

use std::collections::BTreeSet;
use std::sync::LazyLock;

use super::minors::Minors;

#[derive(Debug)]
pub struct KindFact {
    /// For example `apps/v1`.
    pub api_version: &'static str,
    pub kind: &'static str,
    pub namespaced: bool,
    /// `None` if kube-apiserver serves the kind only when configured to.
    pub definition: Option<&'static str>,
    pub minors: Minors,
}

#[derive(Debug)]
pub struct RemovedKind {
    pub api_version: &'static str,
    pub kind: &'static str,
    /// The first minor that did not serve it.
    pub minor: u16,
    pub replacement: Option<&'static str>,
}

#[derive(Debug, Default)]
pub struct Facts {
    pub kinds: Vec<KindFact>,
    pub removed: Vec<RemovedKind>,
    pub cluster_roles: BTreeSet<&'static str>,
}

const DATA: &str = include_str!("../../data/kubernetes.txt");

/// The default is never used: the data are built in, and a test reads every line of them.
pub static FACTS: LazyLock<Facts> = LazyLock::new(|| Facts::read(DATA).unwrap_or_default());

impl Facts {
    /// Reads the facts. Fails with the first unreadable line.
    fn read(text: &'static str) -> Result<Self, &'static str> {
        let mut facts = Self::default();
        for line in text.lines().filter(|line| !line.starts_with('#')) {
            facts.read_fact(line).ok_or(line)?;
        }
        Ok(facts)
    }

    fn read_fact(&mut self, line: &'static str) -> Option<()> {
        let words: Vec<&'static str> = line.split(' ').collect();
        match words.as_slice() {
            ["kind", api_version, kind, scope, definition, minors @ ..] => {
                self.kinds.push(KindFact {
                    api_version,
                    kind,
                    namespaced: match *scope {
                        "namespaced" => true,
                        "cluster" => false,
                        _ => return None,
                    },
                    definition: (*definition != "-").then_some(definition),
                    minors: Minors::read(minors.first().copied())?,
                });
            }
            ["removed", api_version, kind, minor, replacement, ..] => {
                self.removed.push(RemovedKind {
                    api_version,
                    kind,
                    minor: minor.parse().ok()?,
                    replacement: (*replacement != "-").then_some(replacement),
                });
            }
            ["role", name, ..] => {
                self.cluster_roles.insert(name);
            }
            _ => return None,
        }
        Some(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_line_of_the_data_is_read() {
        let facts = Facts::read(DATA).unwrap();
        assert!(facts.kinds.len() > 80);
        assert!(facts.removed.len() > 50);
        assert!(facts.cluster_roles.contains("cluster-admin"));
    }
}
