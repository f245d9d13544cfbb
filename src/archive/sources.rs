//! Every file that a report may have. Nothing else leaves the node, no matter which part collected it: `docs/report.md`
//! describes each file.

/// Paths in the archive, as [`matches()`] reads them.
const SOURCES: &[&str] = &[
    // Windrow's own documents, and the manifests: `src/cli/report.rs`.
    "manifests.json",
    "markers.json",
    "plan.json",
    "settings.json",
    "status.json",
    "versions.json",
    // Files of the node: `src/inspect/collect/files.rs`. Those of Windrow's directories have a reader (`claims.rs`).
    "harvester/harvester.config",
    "harvester/rancherd.yaml",
    "harvester/release.yaml",
    "host/cmdline",
    "host/kernel",
    "host/loadavg",
    "host/meminfo",
    "host/mounts",
    "host/os-release",
    "host/pressure-cpu",
    "host/pressure-io",
    "host/pressure-memory",
    "host/uptime",
    "manifests/**",
    "rke2/config.yaml",
    "rke2/config.yaml.d/*",
    "rke2/registries.yaml",
    "windrow/etc/rancher/windrow/**",
    "windrow/etc/windrow/**",
    "windrow/run/windrow/**",
    "windrow/state/**",
    "windrow/usr/lib/windrow/**",
    "node/own.json",
    // Commands: `src/inspect/collect/commands.rs`.
    "host/addresses",
    "host/clock",
    "host/failed-units",
    "host/file-systems",
    "host/inodes",
    "host/jobs",
    "host/links",
    "host/routes",
    "journal/*.log",
    "units.json",
    // Requests to kube-apiserver: `src/inspect/collect/cluster.rs`.
    "cluster/*.json",
    "cluster/readyz",
];

pub(super) fn is_known(path: &str) -> bool {
    SOURCES.iter().any(|source| matches(source, path))
}

/// Whether a path matches this pattern. `*` stands for a part of a name, and `**` at the end for everything below.
pub(crate) fn matches(pattern: &str, path: &str) -> bool {
    let Some((before, after)) = pattern.split_once('*') else {
        return pattern == path;
    };
    let Some(rest) = path.strip_prefix(before) else {
        return false;
    };
    if after == "*" {
        return !rest.is_empty();
    }
    let name = rest.strip_suffix(after);
    name.is_some_and(|name| !name.is_empty() && !name.contains('/'))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_files_of_known_sources_are_in_a_report() {
        for path in [
            "status.json",
            "host/cmdline",
            "journal/rke2-server.log",
            "rke2/config.yaml.d/90-a.yaml",
            "manifests/a/b.yaml",
            "cluster/core_Secret (helm-releases).json",
            "windrow/state/gates/trial.json",
        ] {
            assert!(is_known(path), "{path}");
        }
        for path in [
            "",
            "report.json",
            "host/shadow",
            "host/cmdline/x",
            "journal/a/b.log",
            "cluster/.json/x",
            "windrow/etc/shadow",
            "windrow/state/",
            "rke2/registries.yaml.bak",
        ] {
            assert!(!is_known(path), "{path}");
        }
    }
}
