//! Whether an upgrade is under way, and to which version. Harvester and the system-upgrade-controller carry upgrades
//! out, so their objects are read.
//!
//! The fields, and where they are defined:
//!
//! | field | source |
//! |---|---|
//! | Harvester's Upgrade: `spec.version`, `status.repoInfo` | harvester/harvester `pkg/apis/harvesterhci.io/v1beta1/upgrade.go`, `pkg/controller/master/upgrade/repoinfo/repoinfo.go` |
//! | its labels `harvesterhci.io/latestUpgrade`, `harvesterhci.io/upgradeState` | `pkg/controller/master/upgrade/{upgrade_controller,common}.go` |
//! | an UpgradePlan: `status.currentPhase`, `status.releaseMetadata` | harvester/upgrade-toolkit `api/v1beta1/upgradeplan_types.go` |
//! | a Plan: `spec.version`, `spec.upgrade.image`, `status.latestVersion`, the condition `Complete` | rancher/system-upgrade-controller `pkg/apis/upgrade.cattle.io/v1/types.go` |

use std::time::Duration;

use kube::Client;
use serde_json::Value;
use windrow_gates::Upgrade;
use windrow_harvester::objects::{ObjectKind, is_true, items};
use windrow_harvester::restart;
use windrow_harvester::upgrade::{plans_under_way, under_way};
use windrow_model::manifest::yaml;
use windrow_plan::version::Version;

use crate::apiserver::{self, LONGEST, Reply, if_found};

const ANSWER: Duration = Duration::from_secs(10);
/// The newest Upgrade of Harvester.
const NEWEST: &str = "?labelSelector=harvesterhci.io%2FlatestUpgrade%3Dtrue";

/// `None`: no upgrade is under way.
///
/// # Errors
///
/// In a line, when kube-apiserver does not answer; then the last known result counts.
pub async fn upgrade(client: &Client) -> Result<Option<Upgrade>, String> {
    if let Some(list) = get(client, &format!("{}{NEWEST}", upgrades())).await?
        && let Some(upgrade) = of_harvester(&list)
    {
        return Ok(Some(upgrade));
    }
    if let Some(list) = get(client, &ObjectKind::UPGRADE_PLAN.path()).await?
        && let Some(upgrade) = of_toolkit(&list)
    {
        return Ok(Some(upgrade));
    }
    Ok(of_plans(&plans(client).await?))
}

/// The Plans of the namespaces in which system-upgrade-controller works.
async fn plans(client: &Client) -> Result<Vec<Value>, String> {
    let mut plans = Vec::new();
    for path in ObjectKind::PLAN.paths() {
        let list = get(client, &path).await?.unwrap_or_default();
        plans.extend_from_slice(items(&list, "/items"));
    }
    Ok(plans)
}

/// All Upgrades of Harvester: one that was just made has no label yet.
fn upgrades() -> String {
    ObjectKind::UPGRADE.path_in("harvester-system")
}

/// The upgrade that is in progress, in a line with the object.
///
/// # Errors
///
/// In a line, when kube-apiserver does not answer or refuses.
pub async fn upgrade_in_progress(client: &Client) -> Result<Option<String>, String> {
    let upgrades = get(client, &upgrades()).await?.unwrap_or_default();
    let upgrade_plans = get(client, &ObjectKind::UPGRADE_PLAN.path())
        .await?
        .unwrap_or_default();
    Ok(restart::upgrade_in_progress(
        items(&upgrades, "/items"),
        items(&upgrade_plans, "/items"),
        &plans(client).await?,
    ))
}

/// `None` when the kind is not served here.
async fn get(client: &Client, path: &str) -> Result<Option<Value>, String> {
    let reply = apiserver::get(client, path, ANSWER, LONGEST).await;
    let found = if_found(reply.and_then(Reply::value));
    found.map_err(|failure| failure.to_string())
}

fn of_harvester(list: &Value) -> Option<Upgrade> {
    let upgrade = under_way(list["items"].as_array()?)?;
    // The description of the new release: it is there once its repository has been read, before any node is changed.
    if let Some(kubernetes) = upgrade["status"]["repoInfo"].as_str().and_then(kubernetes) {
        return Some(Upgrade::Rke2(kubernetes));
    }
    // An Upgrade that was created only from an image names no version.
    let version = upgrade["spec"]["version"].as_str().unwrap_or_default();
    Some(match version.is_empty() {
        true => Upgrade::Somewhere,
        false => Upgrade::Harvester(version.to_owned()),
    })
}

/// The target Kubernetes version is only known after its release was read (`status.releaseMetadata`).
fn of_toolkit(list: &Value) -> Option<Upgrade> {
    let plan = plans_under_way(list["items"].as_array()?).next()?;
    let kubernetes = plan["status"]["releaseMetadata"]["kubernetes"].as_str();
    let kubernetes = kubernetes.filter(|version| version.parse::<Version>().is_ok());
    Some(match kubernetes {
        Some(version) => Upgrade::Rke2(version.to_owned()),
        None => Upgrade::Somewhere,
    })
}

/// The Kubernetes version of a Harvester release, from the YAML that describes it.
fn kubernetes(release: &str) -> Option<String> {
    let release = yaml::parse_configuration(release).ok()??;
    let version = release.str_at(&["release", "kubernetes"])?;
    version
        .parse::<Version>()
        .is_ok()
        .then(|| version.to_owned())
}

/// A plan that installs RKE2 may act on this node at any moment. Once it has, its version is the installed one and
/// nothing changes.
fn of_plans(plans: &[Value]) -> Option<Upgrade> {
    plans.iter().find_map(|plan| {
        let image = plan["spec"]["upgrade"]["image"].as_str()?;
        // Whether it has been carried out on every selected node. Older controllers do not report that.
        if !image.contains("rke2-upgrade") || is_true(plan, "Complete") {
            return None;
        }
        // The image's own tag is the version that runs; an image without one gets the plan's version as its tag.
        let tag = image.rsplit_once(':').map(|(_, tag)| tag);
        let version = [
            tag.filter(|tag| tag.parse::<Version>().is_ok()),
            plan["spec"]["version"].as_str(),
            plan["status"]["latestVersion"].as_str(),
        ];
        let version = version
            .into_iter()
            .flatten()
            .find(|text| !text.is_empty())?;
        Some(Upgrade::Rke2(version.to_owned()))
    })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn an_upgrade_of_harvester_counts_until_it_is_over() {
        let list = |state: &str, version: &str| {
            json!({"items": [{
                "metadata": {"labels": {"harvesterhci.io/latestUpgrade": "true", "harvesterhci.io/upgradeState": state}},
                "spec": {"version": version}
            }]})
        };
        assert_eq!(
            of_harvester(&list("UpgradingNodes", "v1.7.0")),
            Some(Upgrade::Harvester("v1.7.0".to_owned()))
        );
        assert_eq!(
            of_harvester(&list("PreparingNodes", "")),
            Some(Upgrade::Somewhere)
        );
        // Harvester has not got to it yet: its version counts nevertheless.
        assert!(of_harvester(&list("", "v1.7.0")).is_some());
        assert_eq!(of_harvester(&list("Succeeded", "v1.7.0")), None);
        assert_eq!(of_harvester(&json!({"items": []})), None);
    }

    #[test]
    fn the_kubernetes_of_a_harvester_release_is_read_from_the_release_itself() {
        let list = |release: &str| {
            json!({"items": [{
                "metadata": {"labels": {"harvesterhci.io/latestUpgrade": "true"}},
                "spec": {"image": "harvester-system/image-x"},
                "status": {"repoInfo": release}
            }]})
        };
        let release = "release:\n  harvester: v1.9.0\n  harvesterChart: 1.9.0\n  kubernetes: v1.36.1+rke2r1\n";
        assert_eq!(
            of_harvester(&list(release)),
            Some(Upgrade::Rke2("v1.36.1+rke2r1".to_owned()))
        );
        for nothing in [
            "",
            "release: {}",
            "release: [",
            "release:\n  kubernetes: soon\n",
        ] {
            assert_eq!(
                of_harvester(&list(nothing)),
                Some(Upgrade::Somewhere),
                "{nothing}"
            );
        }
    }

    #[test]
    fn an_upgrade_plan_counts_in_every_phase_but_its_two_last_ones() {
        let list = |status: Value| json!({"items": [{"metadata": {"name": "up"}, "spec": {"version": "v1.10.0"}, "status": status}]});
        for phase in ["", "NodeUpgrading", "a phase of tomorrow"] {
            let plans = list(json!({"currentPhase": phase}));
            assert_eq!(of_toolkit(&plans), Some(Upgrade::Somewhere), "{phase}");
        }
        for phase in ["Succeeded", "Failed"] {
            assert_eq!(of_toolkit(&list(json!({"currentPhase": phase}))), None);
        }
        let read = json!({"currentPhase": "ClusterUpgrading", "releaseMetadata": {"kubernetes": "v1.36.1+rke2r1"}});
        let to = Upgrade::Rke2("v1.36.1+rke2r1".to_owned());
        assert_eq!(of_toolkit(&list(read)), Some(to));
        assert_eq!(of_toolkit(&json!({"items": []})), None);
    }

    #[test]
    fn a_plan_counts_when_it_installs_rke2() {
        let plans = [
            json!({"spec": {"upgrade": {"image": "registry/other-tool"}, "version": "v9"}}),
            json!({"spec": {"upgrade": {"image": "rancher/rke2-upgrade"}, "channel": "https://x"},
                "status": {"latestVersion": "v1.34.2-rke2r1"}}),
        ];
        assert_eq!(
            of_plans(&plans),
            Some(Upgrade::Rke2("v1.34.2-rke2r1".to_owned()))
        );
        assert_eq!(of_plans(&[]), None);
    }

    #[test]
    fn a_plans_image_has_the_last_word_and_a_plan_that_is_carried_out_has_none() {
        let plans = |image: &str, version: &str, complete: &str| {
            [json!({
                "spec": {"upgrade": {"image": image}, "version": version},
                "status": {"latestVersion": "v1.33.3-rke2r1",
                    "conditions": [{"type": "Validated", "status": "True"}, {"type": "Complete", "status": complete}]}
            })]
        };
        for (image, version, to) in [
            (
                "localhost:5000/rancher/rke2-upgrade",
                "v1.34.2+rke2r1",
                "v1.34.2+rke2r1",
            ),
            (
                "rancher/rke2-upgrade:v1.35.2-rke2r1",
                "v1.34.2+rke2r1",
                "v1.35.2-rke2r1",
            ),
            ("rancher/rke2-upgrade:latest", "", "v1.33.3-rke2r1"),
        ] {
            let upgrade = of_plans(&plans(image, version, "False"));
            assert_eq!(upgrade, Some(Upgrade::Rke2(to.to_owned())), "{image}");
            assert_eq!(of_plans(&plans(image, version, "True")), None, "{image}");
        }
    }
}
