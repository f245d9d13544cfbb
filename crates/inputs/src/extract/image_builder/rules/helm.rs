//! The rules about charts and their repositories (`pkg/image/validation/kubernetes.go`).

use std::collections::HashSet;

use super::super::text;
use super::{Broken, Node, is_empty, is_set, word};
use crate::extract::FilesBeside;

const CERTIFICATES: &str = "kubernetes/helm/certs";

pub(super) fn check(kubernetes: &Node, beside: &dyn FilesBeside, broken: &mut Vec<Broken>) {
    let Some(helm) = kubernetes.get("helm") else {
        return;
    };
    let charts = helm.list("charts");
    if charts.is_empty() {
        return;
    }
    let mut releases = HashSet::new();
    for chart in charts {
        let name = word(Some(chart), "name");
        let release = match word(Some(chart), "releaseName") {
            "" => name,
            release => release,
        };
        if !releases.insert(release) {
            let why = format!("two charts have the release {release}; set `releaseName`");
            broken.push((chart.line, why));
        }
        if is_set(chart, "createNamespace") && !is_set(chart, "targetNamespace") {
            let why = format!("the chart {name} has `createNamespace` without `targetNamespace`");
            broken.push((chart.line, why));
        }
        if let Some(values) = chart.get("valuesFile").filter(|values| !is_empty(values))
            && !text(values).ends_with(".yaml")
            && !text(values).ends_with(".yml")
        {
            let why = format!("`valuesFile` of the chart {name} must end in .yaml or .yml");
            broken.push((values.line, why));
        }
    }
    for repository in helm.list("repositories") {
        let name = word(Some(repository), "name");
        let used = charts
            .iter()
            .any(|chart| word(Some(chart), "repositoryName") == name);
        if name.is_empty() {
            let why = "a repository without `name`";
            broken.push((repository.line, why.to_owned()));
        } else if !used {
            let why = format!("no chart is from the repository {name}");
            broken.push((repository.line, why));
        }
        for why in repository_faults(repository) {
            broken.push((repository.line, format!("the repository {name} {why}")));
        }
        if let Some(file) = repository.get("caFile").filter(|file| !is_empty(file)) {
            let path = format!("{CERTIFICATES}/{}", text(file));
            let ends = [".pem", ".crt", ".cer"]
                .iter()
                .any(|end| path.ends_with(end));
            if !ends {
                let why =
                    format!("`caFile` of the repository {name} must end in .pem, .crt or .cer");
                broken.push((file.line, why));
            } else if beside.is_known() && matches!(beside.read(&path), Ok(None)) {
                broken.push((file.line, format!("{path} is not next to the definition")));
            }
        }
    }
}

fn repository_faults(repository: &Node) -> Vec<&'static str> {
    let url = word(Some(repository), "url");
    let scheme = url.split_once("://").map_or("", |(scheme, _)| scheme);
    let is_plain = is_set(repository, "plainHTTP");
    let is_unverified = is_set(repository, "skipTLSVerify");
    let has_authority = is_set(repository, "caFile");
    let credential = |key| {
        repository
            .at(&["authentication", key])
            .is_some_and(|node| !is_empty(node))
    };
    let (user, password) = (credential("username"), credential("password"));
    let mut faults = Vec::new();
    let mut add = |is_broken: bool, why| {
        if is_broken {
            faults.push(why);
        }
    };
    add(url.is_empty(), "has no `url`");
    add(
        !url.is_empty() && !["http", "https", "oci"].contains(&scheme),
        "needs a `url` that begins with oci://, http:// or https://",
    );
    add(user && !password, "has a `username` without `password`");
    add(password && !user, "has a `password` without `username`");
    add(
        is_plain && is_unverified,
        "has both `plainHTTP` and `skipTLSVerify`",
    );
    add(
        scheme == "http" && !is_plain,
        "has an http:// address and needs `plainHTTP: true`",
    );
    add(
        scheme == "https" && is_plain,
        "has an https:// address and `plainHTTP: true`",
    );
    add(
        scheme == "http" && is_unverified,
        "has an http:// address and `skipTLSVerify: true`",
    );
    add(
        has_authority && (is_unverified || is_plain || scheme == "http"),
        "has a `caFile`, which is only for verified TLS",
    );
    faults
}
