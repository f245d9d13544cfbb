//! Files of the node: configuration, Windrow's own state, markers. Some are only read to learn which secrets there are.

use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

use serde_json::{Map, Value, json};
use windrow_decide::settings::STATUS_TOKEN_CREDENTIAL;
use windrow_model::manifest::{self, ReadLimits, yaml};
use windrow_model::redact::{Learner, REDACTED};

use super::claims::reader_of;
use super::collection::{CollectedPart, Collection, Wanted};
use crate::archive::CollectedContent;
use crate::files::read_text;
use crate::fs;
use crate::observe::rke2;
use crate::observe::scan::{FileStamps, ScanResult, ScannedContent, scan};

const CONFIGURATION: &[(&str, &str)] = &[
    (
        windrow_harvester::INSTALLER_CONFIG,
        "harvester/harvester.config",
    ),
    (
        "/etc/rancher/rancherd/config.yaml",
        "harvester/rancherd.yaml",
    ),
    ("/etc/harvester-release.yaml", "harvester/release.yaml"),
    (REGISTRIES, "rke2/registries.yaml"),
];

/// Credentials for registries, among other things. RKE2 reads only this file.
const REGISTRIES: &str = "/etc/rancher/rke2/registries.yaml";

/// The kernel's command line: an installer's configuration often has an address with a secret.
const COMMAND_LINE: &str = "/proc/cmdline";

/// Facts about the machine, as the kernel and the distribution write them.
const FACTS: &[(&str, &str)] = &[
    ("/etc/os-release", "host/os-release"),
    ("/proc/version", "host/kernel"),
    (COMMAND_LINE, "host/cmdline"),
    ("/proc/uptime", "host/uptime"),
    ("/proc/loadavg", "host/loadavg"),
    ("/proc/meminfo", "host/meminfo"),
    ("/proc/pressure/cpu", "host/pressure-cpu"),
    ("/proc/pressure/io", "host/pressure-io"),
    ("/proc/pressure/memory", "host/pressure-memory"),
    ("/proc/self/mounts", "host/mounts"),
];

/// Files that hold nothing but a secret.
const SECRETS: &[&str] = &["server/token", "server/node-token", "server/agent-token"];

/// Where systemd keeps the status server's token if it is a credential: while the daemon runs, and before.
const CREDENTIALS: &[&str] = &[
    "/run/credentials/windrow.service",
    "/run/credstore",
    "/etc/credstore",
];

pub(super) fn collect(collection: &mut Collection<'_>) {
    collection.report_progress("configuration and state");
    learn(collection);
    let layout = collection.wanted.layout.clone();
    for (place, name) in CONFIGURATION {
        file(collection, &layout.path(place), name, "configuration");
    }
    let found = rke2::config_files(&layout);
    for error in found.errors {
        collection.missing("a configuration file of RKE2", error);
    }
    for one in found.files {
        let path = PathBuf::from(&one.path);
        let name = match path
            .parent()
            .is_some_and(|above| above.ends_with("config.yaml.d"))
        {
            true => format!("rke2/config.yaml.d/{}", one.name()),
            false => "rke2/config.yaml".to_owned(),
        };
        parsed(collection, &path, &name, "RKE2's configuration", &one.text);
    }
    for directory in layout.config_dirs() {
        let name = layout.shown(&directory);
        tree(
            collection,
            &directory,
            &format!("windrow{name}"),
            "Windrow's configuration",
        );
    }
    tree(
        collection,
        &layout.state_dir(),
        "windrow/state",
        "Windrow's state",
    );
    for (place, name) in FACTS {
        let path = layout.path(place);
        if let Ok(mut text) = fs::read_to_string(&path) {
            let source = (*place).to_owned();
            if *place == COMMAND_LINE {
                text = without_queries(&text, &mut collection.into.learner);
            }
            collection.add(
                (*name).to_owned(),
                "the machine",
                source,
                CollectedPart::text(text, false),
            );
        }
    }
    if collection.wanted.manifests {
        manifests(collection);
    }
}

/// Learns the secrets of this node, so that they are found wherever they occur.
fn learn(collection: &mut Collection<'_>) {
    let layout = &collection.wanted.layout;
    let mut paths: Vec<PathBuf> = SECRETS
        .iter()
        .map(|name| layout.data_dir().join(name))
        .collect();
    paths.push(layout.path("/etc/rancher/node/password"));
    paths.extend(collection.wanted.secret_files.iter().cloned());
    let credentials = CREDENTIALS.iter().map(|directory| layout.path(directory));
    paths.extend(credentials.map(|directory| directory.join(STATUS_TOKEN_CREDENTIAL)));
    for path in paths {
        if let Ok(text) = read_text(&path) {
            collection.into.learner.secret(text.trim());
        }
    }
    // `password,user,uid,group` a line.
    if let Ok(text) = read_text(&layout.data_dir().join("server/cred/passwd")) {
        for password in text.lines().filter_map(|line| line.split(',').next()) {
            collection.into.learner.secret(password);
        }
    }
    for path in [
        rke2::admin_kubeconfig(layout),
        layout.default_kubeconfig(),
        layout.kubelet_kubeconfig(),
    ] {
        if let Ok(text) = read_text(&path)
            && let Ok(Some(node)) = yaml::parse(&text, 1, &ReadLimits::default())
        {
            collection.into.learner.value(&node.to_json());
        }
    }
}

fn file(collection: &mut Collection<'_>, path: &Path, name: &str, what: &str) {
    match read_text(path) {
        Ok(text) => parsed(collection, path, name, what, &text),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => {}
        Err(error) => collection.missing(path.display().to_string(), error.to_string()),
    }
}

/// YAML and JSON are parsed, and written without comments: only in a tree is it known which values are secret.
fn parsed(collection: &mut Collection<'_>, path: &Path, name: &str, what: &str, text: &str) {
    let source = path.display().to_string();
    // The flight recorder's file and the one before it.
    let lines_of_json = name.ends_with(".jsonl") || name.ends_with(".jsonl.1");
    if lines_of_json || name.ends_with(".skip") {
        let found = lines(text, lines_of_json);
        return collection.add(name.to_owned(), what, source, found);
    }
    match yaml::parse(text, 1, &ReadLimits::default()).map(|node| node.map(|node| node.to_json())) {
        // A password in a separate file has this shape, and no configuration has.
        Ok(Some(Value::String(_) | Value::Number(_))) => {
            let why = "left out: it is a single value, and no key says which";
            collection.missing(source, why);
        }
        Ok(Some(mut tree)) => {
            reduce(collection, path, &mut tree);
            let found = CollectedPart::tree(tree, text.len());
            collection.add(name.to_owned(), what, source, found);
        }
        Ok(None) => {
            let found = CollectedPart::tree(Value::Null, 0);
            collection.add(name.to_owned(), what, source, found);
        }
        Err(problems) => {
            let line = |problem: &manifest::Problem| match problem.line {
                Some(line) => format!("line {line}: {}", problem.message),
                None => problem.message.clone(),
            };
            let why: Vec<String> = problems.iter().map(line).collect();
            let why = format!(
                "left out, because an unreadable file cannot be searched ({})",
                why.join("; ")
            );
            collection.missing(source, why);
        }
    }
}

/// Removes the parts that only some readers of a file may know.
fn reduce(collection: &mut Collection<'_>, path: &Path, tree: &mut Value) {
    let layout = &collection.wanted.layout;
    let learner = &mut collection.into.learner;
    if path == layout.path(REGISTRIES) {
        hide_logins(tree, learner);
    }
    if let Some(reader) = reader_of(layout, path) {
        reader.reduce(tree, learner);
    }
}

/// Hides the user names for registries: robot accounts have names that only their owner knows.
fn hide_logins(registries: &mut Value, learner: &mut Learner) {
    let configs = registries.get_mut("configs").and_then(Value::as_object_mut);
    for config in configs.into_iter().flat_map(Map::values_mut) {
        let Some(user) = config.pointer_mut("/auth/username") else {
            continue;
        };
        if let Some(name) = user.as_str() {
            learner.perhaps(name);
        }
        if !user.is_null() {
            *user = REDACTED.into();
        }
    }
}

/// The command line without the queries of its URLs.
fn without_queries(text: &str, learner: &mut Learner) -> String {
    let word = |word: &str| -> String {
        let url = word.find("://");
        let query = url.and_then(|url| Some(url + word[url..].find('?')?));
        let Some((before, query)) = query.map(|at| word.split_at(at + 1)) else {
            return word.to_owned();
        };
        for parameter in query.split('&') {
            learner.perhaps(
                parameter
                    .split_once('=')
                    .map_or(parameter, |(_, value)| value),
            );
        }
        format!("{before}{REDACTED}")
    };
    let words: Vec<String> = text.split(' ').map(word).collect();
    words.join(" ")
}

/// A JSON value a line; other lines as text. They stay lines (`stay`) if a reader expects lines.
fn lines(text: &str, stay: bool) -> CollectedPart {
    let trees: Vec<Value> = text
        .lines()
        .map(|line| serde_json::from_str(line).unwrap_or_else(|_| json!(line)))
        .collect();
    CollectedPart {
        content: match stay {
            true => CollectedContent::Lines(trees),
            false => CollectedContent::Trees(trees),
        },
        bytes: text.len(),
        truncated: false,
    }
}

/// Every file below a directory that a reader of Windrow claims, two levels deep. Other files are listed by name, and
/// stay on the node.
fn tree(collection: &mut Collection<'_>, directory: &Path, name: &str, what: &str) {
    let mut todo = vec![(directory.to_owned(), name.to_owned(), 0)];
    while let Some((directory, name, depth)) = todo.pop() {
        let Ok(entries) = fs::read_dir(&directory) else {
            continue;
        };
        let mut entries: Vec<_> = entries.filter_map(Result::ok).collect();
        entries.sort_by_key(fs::DirEntry::file_name);
        for entry in entries.into_iter().take(500) {
            let Some(own) = entry.file_name().to_str().map(str::to_owned) else {
                continue;
            };
            let name = format!("{name}/{own}");
            match entry.file_type() {
                Ok(kind) if kind.is_dir() && depth < 2 => {
                    todo.push((entry.path(), name, depth + 1));
                }
                // The run-time directory holds the status and the lock too, /usr/lib/windrow the package's scripts.
                Ok(kind) if kind.is_file() && !is_of_program(&entry) => {
                    match reason_to_leave_out(collection.wanted, &entry.path()) {
                        Some(why) => collection.missing(entry.path().display().to_string(), why),
                        None => file(collection, &entry.path(), &name, what),
                    }
                }
                _ => {}
            }
        }
    }
}

/// Why a file in a directory of Windrow stays on the node, if it does.
fn reason_to_leave_out(wanted: &Wanted, path: &Path) -> Option<String> {
    let is_same = |secret: &PathBuf| {
        let real = |path: &Path| fs::canonicalize(path).ok();
        secret == path || real(path).is_some_and(|path| real(secret) == Some(path))
    };
    let certificate = wanted.layout.status_certificate();
    let why = if path == certificate || wanted.secret_files.iter().any(is_same) {
        "it holds a token or a key"
    } else if reader_of(&wanted.layout, path).is_none() {
        "Windrow does not read this file"
    } else {
        return None;
    };
    Some(format!("left out: {why}"))
}

/// Whether it is a part of Windrow, and neither configuration nor state.
fn is_of_program(entry: &fs::DirEntry) -> bool {
    const PARTS: &[&str] = &["lock", "status.json", "windrow-orphans.service"];
    let is_script = |found: fs::Metadata| found.permissions().mode() & 0o111 != 0;
    let name = entry.file_name();
    PARTS.iter().any(|part| name == *part) || entry.metadata().is_ok_and(is_script)
}

fn manifests(collection: &mut Collection<'_>) {
    let directory = collection.wanted.layout.manifests();
    // Nothing is compared with an earlier look: every file is read, whenever it is.
    let now = jiff::Timestamp::UNIX_EPOCH;
    let limits = ReadLimits::default();
    let ScanResult::Found(found) = scan(&directory, &limits, &FileStamps::new(), now) else {
        return;
    };
    for entry in found.files {
        let source = directory.join(entry.path.as_str()).display().to_string();
        let bytes = match entry.state {
            ScannedContent::Read(manifest::FileContent::Bytes(bytes)) => bytes,
            ScannedContent::Read(other) => {
                let read = manifest::read(&entry.path, &other, &limits);
                for problem in read.problems {
                    collection.missing(&source, problem.message);
                }
                continue;
            }
            ScannedContent::Unchanged => continue,
        };
        match String::from_utf8(bytes) {
            Ok(text) => {
                let documents = manifest::nodes(&text, &limits);
                // Without keys, Windrow cannot tell which parts are secret.
                let document = |node: &manifest::Node| match node.to_json() {
                    tree @ Value::Object(_) => tree,
                    _ => json!("[left out: it is not an object]"),
                };
                let found = CollectedPart {
                    content: CollectedContent::Trees(documents.iter().map(document).collect()),
                    bytes: text.len(),
                    truncated: false,
                };
                collection.add(
                    format!("manifests/{}", entry.path),
                    "a manifest",
                    source,
                    found,
                );
            }
            Err(_) => collection.missing(source, "it is not UTF-8 text"),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;
    use std::time::Duration;

    use tokio::time::Instant;
    use windrow_decide::settings::{StatusServer, StatusServerMetrics};
    use windrow_harvester::incidents::{OwnNode, SavedObject};
    use windrow_harvester::objects::ObjectKind;

    use super::super::collection::MOST_MEMORY;
    use super::*;
    use crate::archive::Collected;
    use crate::layout::Layout;

    fn secret_files(root: &Path) -> Vec<PathBuf> {
        let settings = StatusServer {
            token_file: Some("/etc/rancher/windrow/rack.json".to_owned()),
            metrics: StatusServerMetrics {
                enabled: true,
                token_file: Some("/etc/windrow/conf.d/metrics.yaml".to_owned()),
            },
            ..StatusServer::default()
        };
        let layout = Layout::new(root);
        let files = settings.secret_files();
        files.map(|file| layout.path(file)).collect()
    }

    /// The results of a collection below this root, and the reported gaps.
    fn collected(root: &Path, collect: impl FnOnce(&mut Collection<'_>)) -> Collected {
        let wanted = Wanted {
            kubeconfig: None,
            layout: Layout::new(root),
            live: false,
            manifests: false,
            secret_files: secret_files(root),
            own: OwnNode::default(),
            plain: BTreeSet::new(),
            patience: Duration::ZERO,
        };
        let mut into = Collected::default();
        collect(&mut Collection {
            wanted: &wanted,
            until: Instant::now(),
            bytes: 0,
            room: MOST_MEMORY,
            into: &mut into,
            on_progress: &mut |_| {},
        });
        into
    }

    #[test]
    fn a_file_that_is_not_there_is_no_gap_and_one_that_cannot_be_read_is() {
        let root = tempfile::tempdir().unwrap();
        let there = root.path().join("there.yaml");
        fs::write(&there, "a: 1\n").unwrap();
        // A directory cannot be read as a file.
        let nowhere = root.path().join("nowhere.yaml");
        let paths = [there.as_path(), &nowhere, root.path()];
        let into = collected(root.path(), |collection| {
            for path in paths {
                file(collection, path, "name.yaml", "what it is");
            }
        });
        assert_eq!(into.items.len(), 1);
        assert_eq!(into.items[0].source, there.display().to_string());
        let missing: Vec<&str> = into.missing.iter().map(|one| &*one.what).collect();
        assert_eq!(missing, [root.path().to_str().unwrap()]);
    }

    #[test]
    fn files_of_lines_are_read_line_by_line_and_others_as_a_whole() {
        let root = tempfile::tempdir().unwrap();
        let into = collected(root.path(), |collection| {
            for (name, text) in [
                ("flight.jsonl", "{\"a\": 1}\n{\"a\": 2}\n"),
                ("flight.jsonl.1", "{\"a\": 1}\nno JSON: [\n"),
                ("a.yaml.skip", "{\"by\": \"windrow\"}\n"),
                ("state.json", "{\"a\": 1}"),
            ] {
                parsed(collection, Path::new(name), name, "what it is", text);
            }
        });
        let (one, two) = (json!({"a": 1}), json!({"a": 2}));
        let found: Vec<&CollectedContent> = into.items.iter().map(|one| &one.content).collect();
        let [
            CollectedContent::Lines(now),
            CollectedContent::Lines(before),
            CollectedContent::Trees(marker),
            CollectedContent::Tree(state),
        ] = found[..]
        else {
            panic!("they are read otherwise");
        };
        assert_eq!(now, &[one.clone(), two]);
        assert_eq!(before, &[one.clone(), json!("no JSON: [")]);
        assert_eq!(marker, &[json!({"by": "windrow"})]);
        assert_eq!(state, &one);
    }

    const KNOWN_GOOD: &str = "gates/last-known-good/gates.json";

    #[test]
    fn of_windrows_directories_neither_its_key_nor_a_part_of_the_program_is_read() {
        let root = tempfile::tempdir().unwrap();
        let layout = Layout::new(root.path());
        let state = layout.state_dir();
        fs::create_dir_all(state.join("a/b/too-deep")).unwrap();
        fs::create_dir_all(layout.gates_dir().join("last-known-good")).unwrap();
        for name in ["ledger.json", "lock", "status.json", KNOWN_GOOD] {
            fs::write(state.join(name), "{}").unwrap();
        }
        fs::write(layout.status_certificate(), "a private key").unwrap();
        let script = state.join("script");
        fs::write(&script, "").unwrap();
        fs::set_permissions(&script, fs::Permissions::from_mode(0o755)).unwrap();
        std::os::unix::fs::symlink("ledger.json", state.join("webhooks.json")).unwrap();
        let into = collected(root.path(), |collection| {
            tree(collection, &state, "state", "Windrow's state");
        });
        let names: Vec<&str> = into.items.iter().map(|item| &*item.path).collect();
        assert_eq!(
            names,
            ["state/ledger.json", &*format!("state/{KNOWN_GOOD}")]
        );
        let missing: Vec<&str> = into.missing.iter().map(|missing| &*missing.what).collect();
        assert_eq!(missing, [layout.status_certificate().to_str().unwrap()]);
    }

    #[test]
    fn what_only_its_file_shows_to_be_a_secret_is_taken_out_of_it() {
        let root = tempfile::tempdir().unwrap();
        let layout = Layout::new(root.path());
        for (place, text) in [
            (
                REGISTRIES,
                "configs: {r: {auth: {username: sable-larch, password: x}}, s: {tls: {ca_file: /a}}}\n",
            ),
            (
                COMMAND_LINE,
                "root=LABEL=x ds=nocloud-net;s=https://h/?k=vole a.b=http://h/c?vole&d quiet ip=dhcp?\n",
            ),
            (
                "/etc/windrow/windrow.yaml",
                "webhooks: [{event: A, pasword: polecat-fir}]\n",
            ),
            (
                "/etc/windrow/rules.d/a.yaml",
                "kind: RulePack\npasword: polecat-fir\n",
            ),
            ("/etc/windrow/note.yaml", "a: polecat-fir\n"),
        ] {
            let path = layout.path(place);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        }
        let into = collected(root.path(), super::collect);
        let shown = format!("{:?}", into.items);
        for secret in ["sable-larch", "vole", "polecat-fir"] {
            assert!(!shown.contains(secret), "{secret}: {shown}");
        }
        for kept in [
            "root=LABEL=x ds=nocloud-net;s=https://h/?[redacted] a.b=http://h/c?[redacted]",
            "quiet ip=dhcp?",
            "/a",
            "RulePack",
        ] {
            assert!(shown.contains(kept), "{kept}: {shown}");
        }
        assert_eq!(into.items.len(), 4);
    }

    #[test]
    fn what_a_repair_saved_is_sent_without_its_environment_and_patches_of_secrets() {
        let root = tempfile::tempdir().unwrap();
        let pod = json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "suc-1", "uid": "u"},
            "spec": {"nodeName": "n1", "containers": [{"name": "c", "image": "i",
                "env": [{"name": "FOO", "value": "Kite99Peak"}], "args": ["--x", "Swan12Loch"]}]}});
        let message =
            r#"secret.v1 cattle-system/console modified {"data":{"x":"QmFkZ2VyOTFNb3Nz"}}"#;
        let chart = json!({"apiVersion": "management.cattle.io/v3", "kind": "ManagedChart",
            "metadata": {"name": "harvester"},
            "status": {"conditions": [{"type": "Ready", "message": message}]}});
        let saves = [(ObjectKind::POD, &pod), (ObjectKind::MANAGED_CHART, &chart)];
        let record = json!({"apiVersion": "windrow.dev/v1", "kind": "Repair", "code": "plan-stuck",
            "changed": [{"step": 0, "before": pod, "after": pod}],
            "cure": {"saves": saves.map(|(kind, object)| SavedObject::of(kind, object))}});
        let repairs = Layout::new(root.path()).state_dir().join("repairs");
        fs::create_dir_all(&repairs).unwrap();
        fs::write(repairs.join("plan-stuck-a-0.json"), record.to_string()).unwrap();
        let into = collected(root.path(), super::collect);
        let [item] = &into.items[..] else {
            panic!("{:?}", into.items);
        };
        let shown = format!("{:?}", item.content);
        for secret in ["Kite99Peak", "Swan12Loch", "QmFkZ2VyOTFNb3Nz"] {
            assert!(!shown.contains(secret), "{secret}: {shown}");
        }
        for kept in ["plan-stuck", "suc-1", "nodeName", "cattle-system/console"] {
            assert!(shown.contains(kept), "{kept}: {shown}");
        }
    }

    #[test]
    fn a_token_of_any_name_stays_on_the_node_and_is_learned() {
        let root = tempfile::tempdir().unwrap();
        let layout = Layout::new(root.path());
        let write = |place: &str, text: &str| {
            let path = layout.path(place);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        };
        // The settings name the first two, and the third leads to one of them.
        let secrets = [
            ("/etc/rancher/windrow/rack.json", "walnut-heron-91-birch"),
            ("/etc/windrow/conf.d/metrics.yaml", "quartz-otter-32-maple"),
            (
                "/run/credstore/windrow.status-token",
                "cedar-raven-57-tulip",
            ),
        ];
        for (place, secret) in secrets {
            write(place, secret);
        }
        std::fs::hard_link(
            layout.path("/etc/rancher/windrow/rack.json"),
            layout.path("/etc/windrow/conf.d/60-link.yaml"),
        )
        .unwrap();
        for place in ["my.secret", "password.yaml", "pin.json", "conf.d/50.yaml~"] {
            write(&format!("/etc/rancher/windrow/{place}"), "48151623");
        }
        write("/etc/windrow/windrow.yaml", "console: {enabled: true}\n");
        let mut into = collected(root.path(), super::collect);
        let names: Vec<&str> = into.items.iter().map(|item| &*item.path).collect();
        assert_eq!(names, ["windrow/etc/windrow/windrow.yaml"]);
        let missing = into
            .missing
            .iter()
            .filter(|missing| missing.why.starts_with("left out: "));
        assert_eq!(missing.count(), 7);
        let redactor = std::mem::take(&mut into.learner).redactor();
        for (_, secret) in secrets {
            let text = redactor.text(&format!("the token is {secret}."));
            assert!(!text.contains(secret), "{text}");
        }
    }
}
