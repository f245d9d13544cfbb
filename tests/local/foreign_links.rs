//! Level 3: links in the tree of another machine (`--root`). As on that machine, they lead inside the tree, and never to a file of the
//! machine on which the program runs.

#![allow(clippy::unwrap_used, reason = "a helper of tests fails as a test does")]

use std::collections::BTreeMap;
use std::fs;
use std::io::Read as _;
use std::os::unix::fs::{MetadataExt as _, symlink};
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use flate2::read::GzDecoder;
use nix::sys::signal::Signal;
use tempfile::TempDir;

use crate::file_access::{READ, VERBS};
use crate::support::apiserver::ApiServer;
use crate::support::daemon::Node;

/// In every file outside of the tree, and in the names of some.
const SECRET: &str = "marten-elm-7754";
const MANIFESTS: &str = "var/lib/rancher/rke2/server/manifests";
const CONFIG_MAP: &str =
    "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a, namespace: default}\n";

/// Verbs that change something, besides those that look.
const CHANGING: &[&str] = &[
    "hold marten-elm-7754.yaml",
    "release marten-elm-7754.yaml",
    "hold a.yaml",
    "gates apply --yes",
    "gates rollback --yes",
    "repair --undo --yes",
    "add given/a.yaml --replace",
    "cleanup",
];

/// A tree, and a directory outside of it with the same files.
struct Place {
    directory: TempDir,
}

impl Place {
    fn new() -> Self {
        let directory = tempfile::tempdir().unwrap();
        let place = Self { directory };
        place.write("work/given/a.yaml", CONFIG_MAP);
        fs::create_dir_all(place.root()).unwrap();
        for path in READ {
            place.write(&format!("outside/{path}"), &content_of(path));
        }
        let planted = format!("outside/{MANIFESTS}/{SECRET}.yaml");
        place.write(&planted, &content_of("a.yaml"));
        place.write("outside/var/lib/rancher/windrow/webhooks.json", "{}");
        place
    }

    fn path(&self, path: &str) -> PathBuf {
        self.directory.path().join(path)
    }

    fn root(&self) -> PathBuf {
        self.path("disk/root")
    }

    fn write(&self, path: &str, text: &str) {
        let path = self.path(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }

    /// A link in the tree.
    fn link(&self, path: &str, target: impl AsRef<Path>) {
        let path = self.root().join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        symlink(target, path).unwrap();
    }

    fn windrow(&self, args: &[&str]) -> Output {
        let mut command = Command::new(env!("CARGO_BIN_EXE_windrow"));
        command.arg("--root").arg(self.root()).args(args);
        command.current_dir(self.path("work")).env("NO_COLOR", "1");
        command.output().unwrap()
    }

    /// All that lies outside: names, contents, and the time of the last change.
    fn outside(&self) -> BTreeMap<PathBuf, (Vec<u8>, i64, i64, u32)> {
        let mut found = BTreeMap::new();
        let mut todo = vec![self.path("outside")];
        while let Some(path) = todo.pop() {
            let metadata = fs::symlink_metadata(&path).unwrap();
            let content = if metadata.is_dir() {
                todo.extend(
                    fs::read_dir(&path)
                        .unwrap()
                        .map(|entry| entry.unwrap().path()),
                );
                Vec::new()
            } else {
                fs::read(&path).unwrap()
            };
            let changed = (metadata.ctime(), metadata.ctime_nsec());
            found.insert(path, (content, changed.0, changed.1, metadata.mode()));
        }
        found
    }
}

/// What a reader of this file takes in.
fn content_of(path: &str) -> String {
    match path {
        "etc/rancher/rke2/rke2.yaml" => format!("{{apiVersion: v1, kind: Config, {SECRET}: a}}\n"),
        "etc/windrow/rules.d/50.yaml" => format!("{{kind: RulePack, {SECRET}: a}}\n"),
        "run/windrow/status.json" => format!("{{\"{SECRET}\": \"{SECRET}\"}}"),
        path if path.contains("manifests") || path == "a.yaml" => {
            CONFIG_MAP.replace(": a,", &format!(": {SECRET},"))
        }
        path if path.ends_with("yaml") => {
            format!("{SECRET}: [{SECRET}]\nnode-label: [{SECRET}=1]\n")
        }
        _ => format!("{SECRET}\n"),
    }
}

/// The text of what a verb wrote, also of what it packed.
fn text(output: &Output, archive: &Path) -> String {
    let mut bytes = [&output.stdout[..], &output.stderr[..]].concat();
    if let Ok(file) = fs::File::open(archive) {
        GzDecoder::new(file).read_to_end(&mut bytes).unwrap();
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

type Way = (&'static str, fn(&Place));

/// Puts links that lead out of the tree in the place of its files, in one of these ways.
const WAYS: &[Way] = &[
    ("an absolute link", |place| {
        for path in READ {
            place.link(path, place.path("outside").join(path));
        }
    }),
    ("a link with `..`", |place| {
        for path in READ {
            let up = "../".repeat(path.split('/').count());
            place.link(path, format!("{up}../outside/{path}"));
        }
    }),
    ("a link with too many `..`", |place| {
        for path in READ {
            let outside = place.path("outside");
            let up = "../".repeat(40);
            place.link(path, format!("{up}{}/{path}", outside.display()));
        }
    }),
    ("a chain of links", |place| {
        for path in READ {
            place.link(path, format!("/hop/{path}"));
            place.link(&format!("hop/{path}"), format!("/further/{path}"));
            place.link(&format!("further/{path}"), place.path("outside").join(path));
        }
    }),
    ("a loop of links", |place| {
        for path in READ {
            place.link(path, format!("/{path}"));
        }
    }),
    ("a link of a directory above", |place| {
        for name in ["etc", "oem", "proc", "run", "sys", "usr", "var"] {
            place.link(name, place.path("outside").join(name));
        }
    }),
    ("a link of a directory above, with `..`", |place| {
        for name in ["etc", "oem", "proc", "run", "sys", "usr"] {
            place.link(name, format!("../../outside/{name}"));
        }
        place.link("var/lib", "../../../../outside/var/lib");
    }),
    ("a link of each directory that is written to", |place| {
        for path in [
            MANIFESTS,
            "etc/rancher/rke2/config.yaml.d",
            "run/windrow",
            "var/lib/rancher/windrow/gates",
            "var/lib/rancher/windrow/requests",
        ] {
            place.link(path, place.path("outside").join(path));
        }
    }),
    ("a link of the state directory", |place| {
        let state = "var/lib/rancher/windrow";
        place.link(state, place.path("outside").join(state));
        place.link(&format!("{MANIFESTS}/../up"), "../../../../../../..");
        place.write(&format!("disk/root/{MANIFESTS}/a.yaml"), CONFIG_MAP);
    }),
    ("a data directory with `..`", |place| {
        let config = "data-dir: /../../outside/var/lib/rancher/rke2\nkubelet-arg: [config=/../../outside/etc/rancher/rke2/config.yaml]\n";
        place.write("disk/root/etc/rancher/rke2/config.yaml", config);
        place.write(
            "disk/root/etc/windrow/windrow.yaml",
            "dataDir: /../../outside/var/lib/rancher/rke2\n",
        );
    }),
];

#[test]
fn no_verb_reads_or_changes_a_file_to_which_a_link_leads_out_of_the_tree() {
    for (way, prepare) in WAYS {
        let place = Place::new();
        prepare(&place);
        let before = place.outside();
        for verb in VERBS.iter().chain(CHANGING) {
            let verb = verb.replace("special", "given");
            let args: Vec<&str> = verb.split(' ').collect();
            let archive = place.path("work/r.tgz");
            let _ = fs::remove_file(&archive);
            let output = place.windrow(&args);
            let code = output.status.code();
            assert!(
                code.is_some_and(|code| code < 100),
                "{way}, {verb}: {output:?}"
            );
            // The verb may repeat what was typed.
            let shown = text(&output, &archive);
            if !verb.contains(SECRET) {
                assert!(!shown.contains(SECRET), "{way}, {verb}: {shown}");
            }
            assert_eq!(place.outside(), before, "{way}, {verb}: {shown}");
        }
    }
}

#[test]
fn a_report_of_a_tree_has_no_file_to_which_a_link_leads_out_of_it() {
    let place = Place::new();
    place.link(
        "etc/rancher/rke2/config.yaml.d/90.yaml",
        place.path("outside/etc/rancher/rke2/config.yaml"),
    );
    let output = place.windrow(&["report", "--output-file", "r.tgz"]);
    let shown = text(&output, &place.path("work/r.tgz"));
    assert!(
        output.status.success() && !shown.contains(SECRET),
        "{shown}"
    );
}

#[test]
fn hold_makes_no_marker_in_a_directory_to_which_a_link_leads_out_of_the_tree() {
    let place = Place::new();
    place.link(MANIFESTS, place.path("outside").join(MANIFESTS));
    let before = place.outside();
    let output = place.windrow(&["hold", &format!("{SECRET}.yaml")]);
    assert!(!output.status.success(), "{output:?}");
    assert_eq!(place.outside(), before);
}

#[test]
fn cleanup_deletes_no_drop_in_in_a_directory_to_which_a_link_leads_out_of_the_tree() {
    let place = Place::new();
    let drop_ins = "etc/rancher/rke2/config.yaml.d";
    let gates = "kubelet-arg+: [feature-gates=A=true]\n";
    place.write(
        &format!("outside/{drop_ins}/99-zz9-windrow-gates.yaml"),
        gates,
    );
    place.link(drop_ins, place.path("outside").join(drop_ins));
    let before = place.outside();
    place.windrow(&["cleanup"]);
    assert_eq!(place.outside(), before);
}

#[test]
fn an_absolute_link_leads_inside_the_tree_for_reading_writing_and_deleting() {
    let place = Place::new();
    place.write(
        "disk/root/data/rancher/rke2/server/manifests/a.yaml",
        CONFIG_MAP,
    );
    place.link("var/lib/rancher", "/data/rancher");
    place.link("etc/os-release", "/../usr/lib/os-release");
    place.write("disk/root/usr/lib/os-release", "ID=willow\n");
    let held = place
        .root()
        .join("data/rancher/rke2/server/manifests/a.yaml.skip");
    let plan = place.windrow(&["plan"]);
    assert!(text(&plan, Path::new("")).contains("a.yaml"), "{plan:?}");
    let hold = place.windrow(&["hold", "a.yaml"]);
    assert!(hold.status.success() && held.exists(), "{hold:?}");
    assert!(place.root().join("data/rancher/windrow/requests").is_dir());
    let release = place.windrow(&["release", "a.yaml"]);
    assert!(release.status.success() && !held.exists(), "{release:?}");
    let report = place.windrow(&["report", "--output-file", "r.tgz", "--with-manifests"]);
    let shown = text(&report, &place.path("work/r.tgz"));
    assert!(
        shown.contains("ID=willow") && shown.contains("ConfigMap"),
        "{shown}"
    );
    let cleanup = place.windrow(&["cleanup"]);
    let real = fs::canonicalize(place.root()).unwrap();
    let remove = format!("rm -r {}/data/rancher/windrow\n", real.display());
    let shown = text(&cleanup, Path::new(""));
    assert!(
        cleanup.status.success() && shown.contains(&remove),
        "{shown}"
    );
}

#[test]
fn a_daemon_in_a_tree_follows_absolute_links_inside_it_and_none_out_of_it() {
    let node = Node::empty();
    let outside = tempfile::tempdir().unwrap();
    for path in ["data/rancher/rke2/server/manifests", "etc/rancher/rke2"] {
        fs::create_dir_all(node.root.path().join(path)).unwrap();
    }
    fs::create_dir_all(node.path("/var/lib")).unwrap();
    symlink("/data/rancher", node.path("/var/lib/rancher")).unwrap();
    symlink(outside.path(), node.path("/run")).unwrap();
    let place = |name: &str| node.path("/data/rancher/rke2/server/manifests").join(name);
    let daemon = node.start();
    daemon.hear("WATCHDOG=1");
    // An event tells of it: the regular scan is an hour away.
    let widget =
        "apiVersion: example.com/v1\nkind: Widget\nmetadata: {name: w, namespace: default}\n";
    fs::write(place("w.yaml"), widget).unwrap();
    daemon.until("the marker", || place("w.yaml.skip").exists());
    daemon.signal(Signal::SIGTERM);
    assert!(fs::read_dir(outside.path()).unwrap().next().is_none());
    assert!(node.path("/data/rancher/windrow").is_dir());
}

#[test]
fn no_token_to_which_a_link_leads_out_of_the_tree_is_sent_to_its_cluster() {
    let api = ApiServer::start();
    let place = Place::new();
    let outside = place.path("outside/etc/hostname");
    let config = "disk/root/etc/rancher/rke2/rke2.yaml";
    place.link("absolute", &outside);
    place.link("relative", "../../outside/etc/hostname");
    for file in [
        "/absolute",
        "/relative",
        "../../../../../outside/etc/hostname",
        &outside.display().to_string(),
    ] {
        let kubeconfig = api.kubeconfig("planted");
        let token = kubeconfig
            .lines()
            .find(|line| line.contains("token: "))
            .unwrap();
        let with_file = token.replace("token: planted", &format!("tokenFile: {file}"));
        assert_ne!(with_file, token);
        place.write(config, &kubeconfig.replace(token, &with_file));
        let named = place.path(config);
        let output = place.windrow(&["diagnose", "--kubeconfig", named.to_str().unwrap()]);
        let shown = text(&output, Path::new(""));
        assert_eq!(api.asked(""), 0, "{file}: {shown}");
        assert!(!shown.contains(SECRET), "{file}: {shown}");
    }
}
