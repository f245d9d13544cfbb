//! Recognises where a file is written on a node: into a manifests directory, into RKE2's or Windrow's own
//! configuration, into a misspelt manifests directory, or anywhere else.

use windrow_model::manifest::{DATA_DIR, is_manifest_name};
use windrow_model::suggest::nearest;

/// The data directory of k3s.
const K3S: &str = "/var/lib/rancher/k3s";
/// The deploy controller's directory, below the data directory.
const DIRECTORY: [&str; 2] = ["server", "manifests"];

#[derive(Debug, PartialEq, Eq)]
pub(crate) enum ManifestPlace {
    /// Into a `server/manifests` directory.
    Below {
        /// The data directory above it.
        data_dir: String,
        /// The path below it.
        path: String,
    },
    /// Into a directory that resembles one, and why nothing reads it.
    NextTo(String),
    /// Anywhere else.
    Elsewhere,
}

fn parts(written: &str) -> Vec<&str> {
    let mut parts = Vec::new();
    for part in written.split('/') {
        match part {
            "" | "." => {}
            ".." => drop(parts.pop()),
            part => parts.push(part),
        }
    }
    parts
}

/// The place of a path in its written form. `..` is resolved, as the writer of the file does.
pub(crate) fn manifest_place(written: &str) -> Result<ManifestPlace, String> {
    let parts = parts(written);
    let Some(at) = parts.windows(2).position(|pair| pair == DIRECTORY) else {
        return Ok(match meant(&parts) {
            Some(meant) => ManifestPlace::NextTo(format!(
                "it reads the directory server/manifests; did you mean {meant}?"
            )),
            None => ManifestPlace::Elsewhere,
        });
    };
    let below = &parts[at + 2..];
    if below.is_empty() || written.ends_with('/') {
        return Err(format!(
            "the path `{written}` is a directory; write the file's name behind it"
        ));
    }
    Ok(ManifestPlace::Below {
        data_dir: format!("/{}", parts[..at].join("/")),
        path: below.join("/"),
    })
}

/// The path that was probably meant by one whose directories resemble RKE2's.
fn meant(parts: &[&str]) -> Option<String> {
    let (name, directories) = parts.split_last()?;
    if !is_manifest_name(name) {
        return None;
    }
    let like = |part: &str, meant: &'static str| nearest(part, [meant].into_iter()).is_some();
    let manifests = directories
        .iter()
        .position(|part| like(part, "manifests"))?;
    let (above, behind) = (&directories[..manifests], &directories[manifests + 1..]);
    let path = match above.split_last() {
        Some((server, above)) if *server == "server" => above,
        Some((server, above))
            if above.starts_with(&["var", "lib", "rancher"]) && like(server, "server") =>
        {
            above
        }
        _ if above == ["var", "lib", "rancher", "rke2"] => above,
        _ => return None,
    };
    let path = [path, &DIRECTORY, behind, &[name]].concat();
    Some(format!("/{}", path.join("/")))
}

/// Whether RKE2 reads a file by its name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum NameInDirectory {
    Read,
    /// It has the form of a marker: `a.yaml.skip`.
    Marker,
    /// An ending that hides a file on purpose: `a.yaml.bak`.
    SetAside,
    NotRead,
}

/// Endings of files that are kept but not used.
const SET_ASIDE: [&str; 10] = [
    "bak", "backup", "disabled", "dist", "example", "off", "old", "orig", "sample", "save",
];

/// Whether the name's ending keeps a file without using it.
pub fn is_set_aside(path: &str) -> bool {
    name_in_directory(path) == NameInDirectory::SetAside
}

/// How RKE2 treats the name of a file in its directory (`shouldSkipFile` in k3s `pkg/deploy/controller.go`).
pub(crate) fn name_in_directory(path: &str) -> NameInDirectory {
    let base = path.rsplit('/').next().unwrap_or_default();
    let ending = base.rsplit_once('.').map_or("", |(_, ending)| ending);
    let is_set_aside = |known: &str| ending.eq_ignore_ascii_case(known);
    if is_manifest_name(base) {
        NameInDirectory::Read
    } else if ending == "skip" {
        NameInDirectory::Marker
    } else if base.ends_with('~') || SET_ASIDE.iter().any(|known| is_set_aside(known)) {
        NameInDirectory::SetAside
    } else {
        NameInDirectory::NotRead
    }
}

/// Why RKE2 with this data directory does not read manifests below that one; `None` when it does. `named` is the place
/// that sets the data directory, if there is one.
pub fn not_read(written: &str, data_dir: &str, named: Option<&str>) -> Option<String> {
    let data_dir = format!("/{}", parts(data_dir).join("/"));
    if written == data_dir {
        return None;
    }
    let reads = format!("it reads {data_dir}/server/manifests");
    Some(match (written, named) {
        (K3S, _) => format!("that directory is k3s'; {reads}"),
        (_, Some(named)) => format!("{reads}, which is below the data-dir of {named}"),
        _ => format!("{reads} unless its data-dir is {written}, and nothing here sets that"),
    })
}

/// Whether RKE2 certainly does not read them. Otherwise Windrow cannot tell whether it does.
pub fn is_never_read(written: &str, named: Option<&str>) -> bool {
    named.is_some() || written == K3S
}

/// Directories of RKE2's and Windrow's configuration, the beginnings of RKE2's files of variables (rke2
/// `bundle/lib/systemd/system/rke2-server.service`), and k3s' directory, which is written by mistake.
const CONFIGURATION: [&str; 8] = [
    "/etc/rancher/rke2/",
    "/etc/rancher/k3s/",
    "/etc/default/rke2-",
    "/etc/sysconfig/rke2-",
    "/usr/lib/windrow/",
    "/run/windrow/",
    "/etc/windrow/",
    "/etc/rancher/windrow/",
];

/// The kubelet's own configuration directory, below RKE2's data directory.
const KUBELET: &str = "/agent/etc/kubelet.conf.d/";

/// The path on the node, if RKE2, its kubelet or Windrow reads it as its configuration.
pub(crate) fn configuration(written: &str) -> Option<String> {
    let path = format!("/{}", parts(written).join("/"));
    let mut directories = CONFIGURATION.iter();
    let is_one = directories.any(|directory| path.starts_with(directory));
    (is_one || path.contains(KUBELET)).then_some(path)
}

/// Whether a path with this beginning may be one whose file Windrow checks. The rest of the path is unknown.
pub(crate) fn could_be_looked_at(beginning: &str) -> bool {
    let manifests = format!("{DATA_DIR}/server/manifests/");
    let mut directories = CONFIGURATION.into_iter().chain([manifests.as_str()]);
    directories.any(|directory| directory != beginning && directory.starts_with(beginning))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_directory_that_resembles_rke2s_is_told_with_the_path_that_was_meant() {
        const MEANT: &str = "did you mean /var/lib/rancher/rke2/server/manifests/a.yaml?";
        for directory in [
            "server/manifest",
            "server/mainfests",
            "server/Manifests",
            "server/manifests.d",
            "manifests",
            "sever/manifests",
        ] {
            let path = format!("/var/lib/rancher/rke2/{directory}/a.yaml");
            match manifest_place(&path) {
                Ok(ManifestPlace::NextTo(why)) => assert!(why.ends_with(MEANT), "{path}: {why}"),
                other => panic!("{path}: {other:?}"),
            }
        }
    }

    #[test]
    fn other_files_are_none_of_rke2s_manifests() {
        for path in [
            "/var/lib/rancher/rke2/agent/pod-manifests/etcd.yaml",
            "/var/lib/rancher/rke2/agent/images/a.tar.zst",
            "/var/lib/rancher/rke2/server/manifest/README",
            "/opt/manifests/a.yaml",
            "/etc/rancher/rancherd/config.yaml.d/a.yaml",
            "/etc/motd",
            "/var/lib/rancher/rke2/server/manifests/../x.yaml",
        ] {
            assert_eq!(manifest_place(path), Ok(ManifestPlace::Elsewhere), "{path}");
        }
    }

    #[test]
    fn a_path_that_leads_up_again_is_where_it_leads() {
        for path in [
            "/var/lib/rancher/rke2/server/tls/../manifests/a.yaml",
            "/var/lib/rancher/rke2/server/manifests/sub/../a.yaml",
        ] {
            let expected = ManifestPlace::Below {
                data_dir: DATA_DIR.to_owned(),
                path: "a.yaml".to_owned(),
            };
            assert_eq!(manifest_place(path), Ok(expected), "{path}");
        }
    }

    #[test]
    fn only_the_directory_below_rkes_data_directory_is_read() {
        assert_eq!(
            not_read("/data/rke2", "/data/rke2/", Some("c.yaml:3")),
            None
        );
        assert_eq!(not_read(DATA_DIR, DATA_DIR, None), None);
        let k3s = not_read("/var/lib/rancher/k3s", DATA_DIR, None).unwrap();
        assert!(
            k3s.starts_with(
                "that directory is k3s'; it reads /var/lib/rancher/rke2/server/manifests"
            ),
            "{k3s}"
        );
        let named = not_read(DATA_DIR, "/data", Some("c.yaml:3")).unwrap();
        assert_eq!(
            named,
            "it reads /data/server/manifests, which is below the data-dir of c.yaml:3"
        );
        let elsewhere = not_read("/data", DATA_DIR, None).unwrap();
        assert!(
            elsewhere.ends_with("unless its data-dir is /data, and nothing here sets that"),
            "{elsewhere}"
        );
        assert!(is_never_read("/var/lib/rancher/k3s", None));
        assert!(!is_never_read("/data", None));
    }
}
