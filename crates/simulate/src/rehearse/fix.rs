//! Makes mechanical corrections: names of manifests, and in a configuration that writes files the spelling of a key and the
//! braces that yip would interpret. It never changes the original files. The advice of a finding explains what to split and what
//! to annotate.

use std::collections::{BTreeMap, BTreeSet};

use windrow_model::manifest::{AddonName, ManifestPath, ReadLimits, is_manifest_name};

use super::carriers;
use super::layout::LayoutMove;

/// An input file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GivenFile {
    /// Path in the corrected copy.
    pub name: String,
    /// Name in findings.
    pub shown: String,
    pub text: String,
    /// Paths of the manifests in a configuration; `None` for a manifest.
    pub carries: Option<Vec<ManifestPath>>,
}

impl GivenFile {
    /// The paths of its manifests: its own path, or the paths in the configuration.
    fn manifests(&self) -> Vec<ManifestPath> {
        match &self.carries {
            None => vec![self.name.as_str().into()],
            Some(carried) => carried.clone(),
        }
    }
}

/// The files with the names that `layout` or RKE2 requires, as paths and texts. Correct files are included, because the copy
/// replaces all files. Empty if nothing can be corrected.
pub fn corrected(
    sources: &[GivenFile],
    layout: &[LayoutMove],
    limits: &ReadLimits,
) -> Vec<(String, String)> {
    let mut copies = sources.to_vec();
    for copy in &mut copies {
        if copy.carries.is_some()
            && let Some(text) = carriers::corrected(&copy.shown, &copy.text, limits)
        {
            copy.text = text;
        }
    }
    let advised: BTreeMap<_, _> = layout
        .iter()
        .filter(|one| one.is_whole())
        .map(|one| (one.from.clone(), one.to.clone()))
        .collect();
    rename(&mut copies, &advised);
    let is_same = |(copy, source): (&GivenFile, &GivenFile)| {
        copy.name == source.name && copy.text == source.text
    };
    if copies.iter().zip(sources).all(is_same) {
        return Vec::new();
    }
    let copies = copies.into_iter();
    copies.map(|copy| (copy.name, copy.text)).collect()
}

/// Gives every manifest a unique name that is valid for an Addon, and the advised name if possible.
fn rename(copies: &mut [GivenFile], advised: &BTreeMap<ManifestPath, ManifestPath>) {
    let mut addons: BTreeSet<AddonName> = BTreeSet::new();
    let mut wanted: Vec<(usize, ManifestPath)> = Vec::new();
    for (number, copy) in copies.iter().enumerate() {
        wanted.extend(copy.manifests().into_iter().map(|path| (number, path)));
    }
    // A name with one dot keeps it; each of the others gets a new name.
    wanted.sort_by_key(|(_, path)| path.name().matches('.').count());
    let mut names: BTreeMap<(usize, ManifestPath), ManifestPath> = BTreeMap::new();
    for (number, path) in wanted {
        if !is_manifest_name(&path.name()) {
            continue;
        }
        let mut better = advised.get(&path).unwrap_or(&path).clone();
        let valid = better.name().addon_error().is_none();
        if !valid || addons.contains(&better.addon()) {
            better = plain(&path, &addons);
        }
        addons.insert(better.addon());
        if better == path {
            continue;
        }
        match copies[number].carries.is_none() {
            true => copies[number].name = better.to_string(),
            false => {
                names.insert((number, path), better);
            }
        }
    }
    for ((number, path), name) in names {
        let text = copies[number]
            .text
            .split_inclusive('\n')
            .map(|line| match line.contains("path:") {
                true => line.replace(
                    &format!("/server/manifests/{path}"),
                    &format!("/server/manifests/{name}"),
                ),
                false => line.to_owned(),
            })
            .collect();
        copies[number].text = text;
    }
}

/// A name of lower-case letters, digits and `-` that no other Addon has.
fn plain(path: &ManifestPath, taken: &BTreeSet<AddonName>) -> ManifestPath {
    let name = path.name();
    let directory = path.strip_suffix(name.as_str()).unwrap_or_default();
    let (stem, extension) = name.rsplit_once('.').unwrap_or((&name, "yaml"));
    let stem: String = stem
        .chars()
        .map(|ch| match ch.is_ascii_alphanumeric() {
            true => ch.to_ascii_lowercase(),
            false => '-',
        })
        .collect();
    let stem = stem.trim_matches('-');
    let stem = if stem.is_empty() { "manifest" } else { stem };
    let numbered = (2..).map(|number| format!("{stem}-{number}"));
    let mut free = std::iter::once(stem.to_owned())
        .chain(numbered)
        .filter(|stem| !taken.contains(stem.as_str()));
    let stem = free.next().unwrap_or_else(|| stem.to_owned());
    format!("{directory}{stem}.{extension}").into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_manifest_gets_a_name_of_its_own_that_rke2_can_use() {
        let source = |name: &str| GivenFile {
            name: name.to_owned(),
            shown: name.to_owned(),
            text: String::new(),
            carries: None,
        };
        let mut copies: Vec<GivenFile> =
            ["Site_A.yaml", "site.maps.yaml", "site.yaml", "sub/site.yml"]
                .map(source)
                .to_vec();
        rename(&mut copies, &BTreeMap::new());
        let names: Vec<&str> = copies.iter().map(|copy| copy.name.as_str()).collect();
        assert_eq!(
            names,
            [
                "site-a.yaml",
                "site-maps.yaml",
                "site.yaml",
                "sub/site-2.yml"
            ]
        );
    }

    #[test]
    fn an_advised_name_is_given_in_a_directory_and_in_a_configuration() {
        let advised = [LayoutMove::whole("cluster.yaml", "zz-cluster.yaml")];
        let secret = "apiVersion: v1\nkind: Secret\nmetadata: {name: s, namespace: t}\n";
        let manifest = |text: &str| GivenFile {
            name: "cluster.yaml".to_owned(),
            shown: "cluster.yaml".to_owned(),
            text: text.to_owned(),
            carries: None,
        };
        let limits = ReadLimits::default();
        let names = |source: GivenFile| -> Vec<(String, String)> {
            corrected(&[source], &advised, &limits)
        };
        let expected = [("zz-cluster.yaml".to_owned(), secret.to_owned())];
        assert_eq!(names(manifest(secret)), expected);

        let config = "#cloud-config\nwrite_files:\n- path: /var/lib/rancher/rke2/server/manifests/cluster.yaml\n  content: |\n    kind: Secret\n";
        let carried = GivenFile {
            name: "user-data".to_owned(),
            shown: "user-data".to_owned(),
            text: config.to_owned(),
            carries: Some(vec!["cluster.yaml".into()]),
        };
        let renamed = config.replace("/cluster.yaml", "/zz-cluster.yaml");
        assert_eq!(names(carried), [("user-data".to_owned(), renamed)]);
    }

    #[test]
    fn a_configuration_that_carries_no_manifest_is_corrected_and_keeps_its_name() {
        let text =
            "scheme_version: 1\nos:\n  write_files:\n  - path: /etc/test.txt\n    content: a\n";
        let source = GivenFile {
            name: "Site_A.yaml".to_owned(),
            shown: "Site_A.yaml".to_owned(),
            text: text.to_owned(),
            carries: Some(Vec::new()),
        };
        let files = corrected(&[source], &[], &ReadLimits::default());
        let mended = text.replace("write_files", "writeFiles");
        assert_eq!(files, [("Site_A.yaml".to_owned(), mended)]);
    }
}
