//! Is an upgrade on its way, and to which version? Asked of those who carry upgrades out: Harvester, and
//! the system-upgrade-controller.

use std::time::Duration;

use kube::Client;
use serde_json::Value;

use crate::gates::Upgrade;

/// An answer takes no longer.
const ANSWER: Duration = Duration::from_secs(10);
/// The newest Upgrade of Harvester.
const HARVESTER: &str = "/apis/harvesterhci.io/v1beta1/namespaces/harvester-system/upgrades?labelSelector=harvesterhci.io%2FlatestUpgrade%3Dtrue";
/// All plans of the system-upgrade-controller.
const PLANS: &str = "/apis/upgrade.cattle.io/v1/plans";

/// Looks. `None`: none is on its way.
///
/// # Errors
///
/// In a line, when kube-apiserver does not say; what was known before is then the best that is known.
pub async fn upgrade(client: &Client) -> Result<Option<Upgrade>, String> {
    if let Some(list) = get(client, HARVESTER).await?
        && let Some(upgrade) = of_harvester(&list)
    {
        return Ok(Some(upgrade));
    }
    Ok(get(client, PLANS).await?.as_ref().and_then(of_plans))
}

/// `None` when the kind is not served here.
async fn get(client: &Client, path: &str) -> Result<Option<Value>, String> {
    let request = http::Request::get(path)
        .body(Vec::new())
        .map_err(|error| error.to_string())?;
    match tokio::time::timeout(ANSWER, client.request::<Value>(request)).await {
        Ok(Ok(value)) => Ok(Some(value)),
        Ok(Err(kube::Error::Api(status))) if status.code == 404 => Ok(None),
        Ok(Err(error)) => Err(error.to_string()),
        Err(_) => Err(format!("no answer within {} s", ANSWER.as_secs())),
    }
}

fn of_harvester(list: &Value) -> Option<Upgrade> {
    let upgrade = list["items"].as_array()?.first()?;
    let state = upgrade["metadata"]["labels"]["harvesterhci.io/upgradeState"].as_str()?;
    if matches!(state, "" | "Succeeded" | "Failed") {
        return None;
    }
    // One that was made from an image alone names no version.
    let version = upgrade["spec"]["version"].as_str().unwrap_or_default();
    Some(match version.is_empty() {
        true => Upgrade::Somewhere,
        false => Upgrade::Harvester(version.to_owned()),
    })
}

/// A plan that installs RKE2 may act on this node at any moment; once it has, its version is the
/// installed one and changes nothing.
fn of_plans(list: &Value) -> Option<Upgrade> {
    list["items"].as_array()?.iter().find_map(|plan| {
        let image = plan["spec"]["upgrade"]["image"].as_str()?;
        if !image.contains("rke2-upgrade") {
            return None;
        }
        let version = [&plan["spec"]["version"], &plan["status"]["latestVersion"]];
        let version = version.into_iter().find_map(|version| version.as_str())?;
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
                "metadata": {"labels": {"harvesterhci.io/upgradeState": state}},
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
        assert_eq!(of_harvester(&list("Succeeded", "v1.7.0")), None);
        assert_eq!(of_harvester(&json!({"items": []})), None);
    }

    #[test]
    fn a_plan_counts_when_it_installs_rke2() {
        let plans = json!({"items": [
            {"spec": {"upgrade": {"image": "registry/other-tool"}, "version": "v9"}},
            {"spec": {"upgrade": {"image": "rancher/rke2-upgrade"}, "channel": "https://x"},
             "status": {"latestVersion": "v1.34.2-rke2r1"}}
        ]});
        assert_eq!(
            of_plans(&plans),
            Some(Upgrade::Rke2("v1.34.2-rke2r1".to_owned()))
        );
        assert_eq!(of_plans(&json!({"items": []})), None);
    }
}
