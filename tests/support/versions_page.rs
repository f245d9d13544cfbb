//! `docs/versions.md`: the facts about Harvester's releases, with their sources.

use std::fmt::Write as _;

use windrow_harvester::HarvesterVersion;
use windrow_harvester::versions::{Fact, HarvesterRelease, HarvesterVersions, KnownFact};
use windrow_simulate::rehearse::modelled::PLAYED;

const RULES: &str = "
| version | a fact holds | a simulation |
|---|---|---|
| one of the releases below | yes or no | has no caveat |
| a patch between two of them | as for both, if they agree; otherwise unknown | says that Windrow has no facts about it; exit 5 if its start is unknown |
| a patch after the newest | as for the newest, if the fact did not change in the newest two minors; otherwise unknown | the same |
| a candidate or a build before a release | as for this release; a fact that changed with it is unknown | the same |
| older than the oldest, or of a newer minor | unknown | uses the nearest release, exit 5 |

A verdict is unknown if it depends on an unknown fact. A kind is unknown if its group belongs to kube-apiserver, RKE2 or Harvester, and no release here has this kind. For a version without facts, Windrow assumes
the RKE2 minor of the release before it.
";

/// The page.
pub(crate) fn versions_page() -> String {
    let known = HarvesterVersions::shipped();
    let (from, to) = (known.read.from, known.read.to);
    let mut page = format!(
        "# Versions of Harvester\n\n\
         Windrow's facts about Harvester, Rancher, KubeVirt and Longhorn hold for some versions. This page is generated from\n\
         `crates/harvester/data/versions.yaml`, which names the source of each fact. The facts come from the sources of v{from} to v{to},\n\
         as of {}. For the kinds of each version, see [knowledge.md](knowledge.md). Nothing on this page was tried on a node.\n\
         \n## Versions without facts\n{RULES}",
        known.read.at
    );
    releases(&mut page, &known.releases);
    facts(&mut page, &known.facts, to);
    page
}

fn releases(page: &mut String, releases: &[HarvesterRelease]) {
    page.push_str(
        "\n## Contents of each release\n\n\
         A dash means that Windrow has no data.\n\n\
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
        "\n## Facts by version\n\n\
         `check --harvester` simulates the marked facts if they hold for the version.\n\n\
         | fact | releases | meaning | simulated |\n|---|---|---|---|\n",
    );
    for fact in facts {
        let played = if PLAYED.contains(&fact.name) {
            "yes"
        } else {
            ""
        };
        let _ = writeln!(
            page,
            "| `{}` | {} | {} | {played} |",
            fact.name.name(),
            range(fact, newest),
            fact.says
        );
    }
}

/// The releases for which a fact holds, in words.
fn range(fact: &KnownFact, newest: HarvesterVersion) -> String {
    let mut range = match (fact.since, fact.before) {
        (None, None) => "all".to_owned(),
        (Some(since), None) if since > newest => {
            format!("none; v{since} on, without all of its facts")
        }
        (Some(since), None) => format!("v{since} on"),
        (None, Some(before)) => format!("before v{before}"),
        (Some(since), Some(before)) => format!("v{since} on, before v{before}"),
    };
    for except in &fact.except {
        let _ = write!(range, ", not v{except}");
    }
    range
}
