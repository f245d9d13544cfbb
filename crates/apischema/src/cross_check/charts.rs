//! Judges whether helm-controller's Job can install a chart at all: how the HelmChart refers to it, and the length of its name.
//!
//! The Job runs klipper-helm's `entry`: `helm repo add NAME REPO`, then `helm install NAME CHART` in a container that has no
//! repositories and no charts of its own. With `repo`, CHART is `NAME/CHART` (helm-controller v0.15.13 and v0.17.7,
//! `pkg/controllers/chart/chart.go`, `job`).

use windrow_model::findings::Finding;
use windrow_model::manifest::Object;
use windrow_model::reasons::Code;
use windrow_plan::SourceMap;

use super::finding;

/// A Job's name is a label of its pods, of at most 63 characters (Kubernetes `pkg/apis/batch/validation`), and helm-controller
/// puts `helm-install-` before the name of the chart.
const LONGEST_NAME: usize = 63 - "helm-install-".len();

/// With this annotation, helm-controller leaves the chart alone.
const UNMANAGED: &str = "helmcharts.helm.cattle.io/unmanaged";

/// The finding on a HelmChart that no retry can install.
pub(super) fn uninstallable(object: &Object, shown: &SourceMap) -> Option<Finding> {
    if object.annotation(UNMANAGED).is_some() {
        return None;
    }
    let name = object.id.name.to_string();
    let (why, line) = if name.len() > LONGEST_NAME && !object.is_name_generated() {
        let length = name.len();
        let why = format!(
            "its name has {length} characters, and a name of more than {LONGEST_NAME} is too long for its Job"
        );
        let line = object.node.at(&["metadata", "name"]).map(|node| node.line);
        (why, line)
    } else {
        reference(object)?
    };
    let code = Code::ChartNotInstallable;
    let words = [("object", &*object.id.to_string()), ("why", &*why)];
    Some(finding(code, code.say(&words), vec![shown.at(line)]))
}

/// Why Helm cannot find the chart that the HelmChart refers to, and the line of it.
fn reference(object: &Object) -> Option<(String, Option<u32>)> {
    let spec = object.node.get("spec");
    let text = |key: &str| {
        let value = spec?.get(key)?;
        let text = value.as_str().filter(|text| !text.is_empty())?;
        Some((text, Some(value.line)))
    };
    if text("chartContent").is_some() {
        return None;
    }
    let Some((chart, line)) = text("chart") else {
        let line = spec.map_or(object.line, |spec| spec.line);
        let why = "it has neither `chart` nor `chartContent`, and helm-controller ignores it";
        return Some((why.to_owned(), Some(line)));
    };
    let Some((repo, line_of_repo)) = text("repo") else {
        let is_found = chart.contains("://") || chart.starts_with("stable/");
        // An image of the user's may have charts and repositories.
        if is_found || text("jobImage").is_some() {
            return None;
        }
        let why =
            format!("`{chart}` is neither a URL nor a chart of a repository: `repo` is missing");
        return Some((why, line));
    };
    if repo.starts_with("oci://") {
        let repo = repo.trim_end_matches('/');
        let why = format!(
            "`helm repo add` refuses oci:// addresses; write `chart: {repo}/{chart}` without `repo`"
        );
        return Some((why, line_of_repo));
    }
    // The names of charts in a virtual repository of Artifactory, and in a ChartMuseum with several projects (Harbor), have a prefix.
    let has_prefixes = ["artifactory", ".jfrog.io", "/chartrepo"];
    if !chart.contains('/') || has_prefixes.iter().any(|part| repo.contains(part)) {
        return None;
    }
    let why = if chart.contains("://") {
        format!("Helm searches for `{chart}` in the repository, because `repo` is set")
    } else {
        let last = chart.rsplit('/').next().unwrap_or(chart);
        format!("the repository has no chart `{chart}`; write `chart: {last}`")
    };
    Some((why, line))
}
