//! `docs/versions.md`: what is known of Harvester's releases, and from which source.

use std::fmt::Write as _;

use windrow_harvester::HarvesterVersion;
use windrow_harvester::versions::{Fact, HarvesterRelease, HarvesterVersions, KnownFact};
use windrow_simulate::rehearse::modelled::PLAYED;

const RULES: &str = "
| version | a fact holds | a rehearsal |
|---|---|---|
| was read | yes or no | as it is |
| a patch between two that were read | as for both, where they agree; else unknown | says that it was not read; exit 5 where its start is unknown |
| a patch after the newest | as for the newest, where nothing turned in the newest two minors; else unknown | the same |
| a candidate or a build before a release | as for that release, but what turned with it is unknown | the same |
| older than the oldest, or of a newer minor | unknown | is played like the nearest, exit 5 |

A verdict that rests on an unknown fact is unknown. So is a kind of a group of kube-apiserver, RKE2 or Harvester that no release here has. The RKE2 of a version that was not read is taken to have the minor of the release
before it.
";

/// The page.
pub(crate) fn versions_page() -> String {
    let known = HarvesterVersions::shipped();
    let (from, to) = (known.read.from, known.read.to);
    let mut page = format!(
        "# Versions of Harvester\n\n\
         What Windrow says of Harvester, Rancher, KubeVirt and Longhorn holds for some versions. This page is made from\n\
         `crates/harvester/data/versions.yaml`; the sources were read on {}, for v{from} to v{to}. Which kinds come with which\n\
         version stands in [knowledge.md](knowledge.md). Nothing on this page was tried on a node.\n\
         \n## Versions that were not read\n{RULES}",
        known.read.at
    );
    releases(&mut page, &known.releases);
    facts(&mut page, &known.facts, to);
    changes(&mut page, known);
    page
}

fn releases(page: &mut String, releases: &[HarvesterRelease]) {
    page.push_str(
        "\n## What is in a release\n\n\
         What was not read has a dash.\n\n\
         | Harvester | RKE2 | Rancher | Fleet | rancher-webhook | helm-controller | KubeVirt | CDI | Longhorn | kube-vip | whereabouts | upgraded from |\n\
         |---|---|---|---|---|---|---|---|---|---|---|---|\n",
    );
    for release in releases {
        let from = release.upgradable_from.map(|from| format!("v{from}"));
        let cells = [
            &release.rke2,
            &release.rancher,
            &release.fleet,
            &release.rancher_webhook,
            &release.helm_controller,
            &release.kubevirt,
            &release.cdi,
            &release.longhorn,
            &release.kube_vip,
            &release.whereabouts,
            &from,
        ];
        let cells: Vec<&str> = cells
            .iter()
            .map(|cell| cell.as_deref().unwrap_or("–"))
            .collect();
        let _ = writeln!(page, "| v{} | {} |", release.version, cells.join(" | "));
    }
}

fn facts(page: &mut String, facts: &[KnownFact], newest: HarvesterVersion) {
    page.push_str(
        "\n## What is known, by version\n\n\
         `rehearse --harvester` plays what is marked, as far as the version has it.\n\n\
         | fact | releases | what | played | source |\n|---|---|---|---|---|\n",
    );
    for fact in facts {
        let played = if PLAYED.contains(&fact.name) {
            "yes"
        } else {
            ""
        };
        let _ = writeln!(
            page,
            "| `{}` | {} | {} | {played} | {} |",
            fact.name.name(),
            range(fact, newest),
            fact.says,
            fact.source
        );
    }
}

/// The releases for which a fact holds, in words.
fn range(fact: &KnownFact, newest: HarvesterVersion) -> String {
    let mut range = match (fact.since, fact.before) {
        (None, None) => "all".to_owned(),
        (Some(since), None) if since > newest => format!("none; v{since} on, not read in full"),
        (Some(since), None) => format!("v{since} on"),
        (None, Some(before)) => format!("before v{before}"),
        (Some(since), Some(before)) => format!("v{since} on, before v{before}"),
    };
    for except in &fact.except {
        let _ = write!(range, ", not v{except}");
    }
    range
}

fn changes(page: &mut String, known: &HarvesterVersions) {
    page.push_str("\n## What each release turned\n\n| release | holds from here on | holds no more |\n|---|---|---|\n");
    let read: Vec<HarvesterVersion> = known.read_releases().collect();
    for pair in read.windows(2) {
        let turned = |to: bool| -> Vec<String> {
            let holds = |fact: &Fact, release| fact.holds(release).assumed();
            let turned = Fact::ALL.iter().filter(|fact| {
                holds(fact, pair[0]) != holds(fact, pair[1]) && holds(fact, pair[1]) == to
            });
            turned.map(|fact| format!("`{}`", fact.name())).collect()
        };
        let (begun, ended) = (turned(true), turned(false));
        if !begun.is_empty() || !ended.is_empty() {
            let _ = writeln!(
                page,
                "| v{} | {} | {} |",
                pair[1],
                begun.join(", "),
                ended.join(", ")
            );
        }
    }
}
