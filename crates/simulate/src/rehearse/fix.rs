//! A configuration corrected, where that is mechanical: names, the order of documents, what one file must
//! not hold together, and what an annotation asks for. The files themselves are never touched.

mod annotate;
mod source;
mod split;

use std::collections::{BTreeMap, BTreeSet};

use windrow_model::findings::Finding;
use windrow_model::manifest::{AddonName, ManifestPath, ReadLimits, is_manifest_name};
use windrow_model::reasons::Code;

pub use self::source::{Corrected, GivenFile, Lacking};
use self::split::NamedLines;
pub(super) use self::split::cut;
use super::carriers;
use super::layout::LayoutMove;

/// The same files without what `findings` say of them, with what some of them lack and as `layout` names and parts them, as far as
/// that can be corrected.
pub fn corrected(
    sources: &[GivenFile],
    findings: &[Finding],
    lacking: &[Lacking],
    layout: &[LayoutMove],
    limits: &ReadLimits,
) -> Corrected {
    let mut left = Vec::new();
    let mut copies = sources.to_vec();
    // What keeps the lines where they are comes first.
    for copy in &mut copies {
        if copy.carries.is_some()
            && let Some(text) = carriers::corrected(&copy.shown, &copy.text, limits)
        {
            copy.text = text;
        }
    }
    for finding in findings {
        annotate::weaken(&mut copies, finding);
    }
    let lines = |copy: &GivenFile, code: Code| -> Vec<u32> {
        let of = findings.iter().filter(|one| one.code == code);
        let places = of.flat_map(|one| &one.at);
        let here = places.filter(|at| at.file == copy.shown);
        here.map(|at| at.line.unwrap_or(1)).collect()
    };
    // Who stands where is known by lines: what moves them is asked before any of them moves.
    let split: Vec<_> = copies
        .iter()
        .map(|copy| {
            let named = NamedLines {
                brings: lines(copy, Code::SameFile),
                needs: lines(copy, Code::InstallerInFile),
            };
            split::manifests(copy, &named, layout, limits)
        })
        .collect();
    let split_paths: BTreeSet<ManifestPath> = split
        .iter()
        .flatten()
        .map(|split| split.path.clone())
        .collect();
    let mut addons: BTreeSet<AddonName> = copies
        .iter()
        .flat_map(GivenFile::manifests)
        .map(|path| path.addon())
        .collect();
    annotate::add(&mut copies, lacking, &mut left);
    let mut written = Vec::new();
    for (copy, manifests) in copies.into_iter().zip(split) {
        let addons = &mut addons;
        match (&manifests[..], copy.carries.is_none()) {
            ([], _) => written.push(copy),
            ([split, ..], true) => {
                written.extend(split::file(copy, split, addons, limits, &mut left));
            }
            (_, false) => {
                let copy = split::carrier(copy, &manifests, addons, limits, &mut left);
                written.push(copy);
            }
        }
    }
    // What a split file is to be called is not known before the next look.
    let whole = layout.iter().filter(|one| one.lines.is_empty());
    let advised: BTreeMap<_, _> = whole
        .filter(|one| !split_paths.contains(&one.from))
        .map(|one| (one.from.clone(), one.to.clone()))
        .collect();
    rename(&mut written, &advised);
    let before = sources
        .iter()
        .map(|source| (source.name.clone(), source.text.clone()));
    let mut files: Vec<(String, String)> = written
        .into_iter()
        .map(|copy| (copy.name, copy.text))
        .collect();
    if before.eq(files.iter().cloned()) {
        files.clear();
    }
    Corrected { files, left }
}

/// Gives every manifest a name that an Addon can have, no two the same, and where it can be the one that is advised.
fn rename(copies: &mut [GivenFile], advised: &BTreeMap<ManifestPath, ManifestPath>) {
    let mut addons: BTreeSet<AddonName> = BTreeSet::new();
    let mut wanted: Vec<(usize, ManifestPath)> = Vec::new();
    for (number, copy) in copies.iter().enumerate() {
        wanted.extend(copy.manifests().into_iter().map(|path| (number, path)));
    }
    // A name with one dot keeps it; of the others each gets one of its own.
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

/// A name of lower-case letters, digits and `-`, which no Addon has yet.
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
    fn an_advised_name_is_given_in_a_directory_and_in_a_configuration_and_not_to_a_file_that_is_split()
     {
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
            corrected(&[source], &[], &[], &advised, &limits).files
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

        let both = format!("{secret}---\napiVersion: v1\nkind: Namespace\nmetadata: {{name: t}}\n");
        let finding = Finding {
            code: Code::SameFile,
            severity: Code::SameFile.severity(),
            message: String::new(),
            at: vec![windrow_model::findings::Location::line("cluster.yaml", 5)],
            incident: None,
        };
        let split = corrected(&[manifest(&both)], &[finding], &[], &advised, &limits);
        let names: Vec<&str> = split.files.iter().map(|(name, _)| name.as_str()).collect();
        assert_eq!(names, ["cluster.yaml"]);
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
        let files = corrected(&[source], &[], &[], &[], &ReadLimits::default()).files;
        let mended = text.replace("write_files", "writeFiles");
        assert_eq!(files, [("Site_A.yaml".to_owned(), mended)]);
    }
}
