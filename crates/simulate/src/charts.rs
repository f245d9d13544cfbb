//! Rewrites HelmCharts in the way of RKE2 up to 1.35 when it starts: cluster-wide values go into `spec.set`, and the whole file
//! is written again, without its comments (rke2 `pkg/bootstrap`).

use serde_json::{Value, json};
use windrow_model::manifest::{self, FileContent, ReadLimits};

use super::files::SimulatedDirectory;

/// The values that RKE2 adds to every chart that does not opt out.
const VALUES: [(&str, &str); 4] = [
    ("global.clusterCIDR", "10.42.0.0/16"),
    ("global.clusterDNS", "10.43.0.10"),
    ("global.clusterDomain", "cluster.local"),
    ("global.serviceCIDR", "10.43.0.0/16"),
];
const OPT_OUT: &str = "rke2.cattle.io/inject-cluster-config";

/// The files that RKE2 rewrites, including hidden ones, with their new content.
pub(super) fn rewritten(files: &SimulatedDirectory) -> Vec<(String, FileContent)> {
    files
        .manifests()
        .filter_map(|(path, file)| {
            let FileContent::Bytes(bytes) = &**file.content() else {
                return None;
            };
            // Reading every file of a large directory for this would cost more than all the rest.
            memchr::memmem::find(bytes, b"HelmChart")?;
            let after = rewrite(path, file.content())?;
            (after != *bytes).then(|| (path.to_owned(), FileContent::Bytes(after)))
        })
        .collect()
}

fn rewrite(path: &str, content: &FileContent) -> Option<Vec<u8>> {
    let file = manifest::read(path, content, &ReadLimits::default());
    if file.refused().is_some() {
        return None;
    }
    let mut any = false;
    let texts: Vec<String> = file
        .objects()
        .map(|object| {
            let mut json = object.node.to_json();
            let chart = object.id.group == "helm.cattle.io" && object.id.kind == "HelmChart";
            if chart && json["metadata"]["annotations"][OPT_OUT] != "false" {
                any = true;
                set(&mut json);
            }
            json.to_string()
        })
        .collect();
    any.then(|| texts.join("\n---\n").into_bytes())
}

fn set(chart: &mut Value) {
    if !chart["spec"].is_object() {
        chart["spec"] = json!({});
    }
    if !chart["spec"]["set"].is_object() {
        chart["spec"]["set"] = json!({});
    }
    for (key, value) in VALUES {
        chart["spec"]["set"][key] = value.into();
    }
}

#[cfg(test)]
mod tests {
    use jiff::Timestamp;

    use super::*;

    const CHART: &str = "# a comment\napiVersion: helm.cattle.io/v1\nkind: HelmChart\nmetadata: {name: c, namespace: kube-system}\nspec: {chart: c}\n";

    #[test]
    fn a_chart_is_written_again_once_and_is_the_same_content_to_windrow() {
        let mut files = SimulatedDirectory::new();
        files.write("c.yaml", CHART, Timestamp::UNIX_EPOCH);
        files.write("d.yaml", "a: HelmChart\n", Timestamp::UNIX_EPOCH);
        let refuses = CHART.replace(
            "kube-system}",
            "kube-system, annotations: {rke2.cattle.io/inject-cluster-config: \"false\"}}",
        );
        files.write("e.yaml", refuses, Timestamp::UNIX_EPOCH);
        let written = rewritten(&files);
        let paths: Vec<&str> = written.iter().map(|(path, _)| path.as_str()).collect();
        assert_eq!(paths, ["c.yaml"]);
        let digest = |content: &FileContent| {
            manifest::read("c.yaml", content, &ReadLimits::default()).digest
        };
        let before = digest(&FileContent::Bytes(CHART.as_bytes().to_vec()));
        assert_eq!(digest(&written[0].1), before);
        let (path, content) = written.into_iter().next().unwrap();
        files.put(path, content, Timestamp::UNIX_EPOCH);
        assert_eq!(rewritten(&files), []);
    }
}
