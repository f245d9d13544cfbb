//! Verbs that change markers: hold, release, add, cleanup, the fail-safe.

use super::*;

#[test]
fn hold_and_release_work_at_once_and_are_recorded_with_who_and_why() {
    let node = Node::new();
    node.manifest("a.yaml", CONFIG_MAP);
    let ran = node.run(&["hold", "a.yaml", "--reason", "maintenance"]);
    assert_eq!(ran.code, 0, "{ran:?}");
    let mark = node.marker("a.yaml").unwrap();
    assert_eq!(mark["by"], "windrow");
    assert_eq!(mark["code"], "held-by-hand");
    assert_eq!(mark["onFailure"], "keep");
    assert!(mark["why"].as_str().unwrap().contains("maintenance"));
    let ran = node.run(&["release", "a.yaml"]);
    assert_eq!(ran.code, 0, "{ran:?}");
    assert!(node.marker("a.yaml").is_none());
    let requests = node.requests();
    assert_eq!(requests.len(), 2);
    assert_eq!(requests[0]["action"], "hold");
    assert_eq!(requests[0]["by"], "ada");
    assert_eq!(requests[0]["reason"], "maintenance");
    assert_eq!(requests[1]["action"], "release");
}

#[test]
fn somebody_elses_marker_is_neither_replaced_nor_removed() {
    let node = Node::new();
    node.manifest("a.yaml", CONFIG_MAP);
    node.manifest("a.yaml.skip", "");
    for verb in ["hold", "release"] {
        let ran = node.run(&[verb, "a.yaml"]);
        assert_eq!(ran.code, 1, "{ran:?}");
        assert!(ran.err.contains("did not make"), "{ran:?}");
    }
    assert_eq!(
        fs::read(node.path(MANIFESTS).join("a.yaml.skip")).unwrap(),
        b""
    );
    assert!(node.requests().is_empty());
}

#[test]
fn the_daemon_will_learn_of_what_was_recorded_alone() {
    let node = Node::new();
    node.manifest("a.yaml", CONFIG_MAP);
    node.manifest("foreign.yaml", CONFIG_MAP);
    node.manifest("foreign.yaml.skip", "");
    for verb in ["hold", "release"] {
        let refused = node.run(&[verb, "foreign.yaml"]);
        assert_eq!(refused.code, 1, "{refused:?}");
        assert!(!refused.out.contains("will see this"), "{refused:?}");
        let done = node.run(&[verb, "a.yaml"]);
        assert!(done.out.contains("will see this"), "{done:?}");
    }
}

#[test]
fn every_unknown_file_is_named_and_nothing_is_held() {
    let node = Node::new();
    node.manifest("a.yaml", CONFIG_MAP);
    let ran = node.run(&["hold", "a.yaml", "x.yaml", "y.yaml"]);
    assert_eq!(ran.code, 64, "{ran:?}");
    assert!(
        ran.err.contains("x.yaml") && ran.err.contains("y.yaml"),
        "{ran:?}"
    );
    assert!(node.marker("a.yaml").is_none());
}

#[test]
fn the_failsafe_lifts_what_may_be_lifted_whatever_lies_beside_it() {
    let node = Node::new();
    for name in ["lift", "keep"] {
        node.manifest(&format!("{name}.yaml"), CONFIG_MAP);
        node.manifest(&format!("{name}.yaml.skip"), &mark(name));
    }
    node.manifest("foreign.yaml.skip", "harvester");
    node.manifest("broken.yaml.skip", "{\"by\": \"windrow\", ");
    symlink("nowhere", node.path(MANIFESTS).join("link.yaml.skip")).unwrap();
    node.write("etc/windrow/windrow.yaml", "stagin: [\n");
    let ran = node.run(&["release", "--failsafe"]);
    assert_eq!(ran.code, 0, "{ran:?}");
    assert!(node.marker("lift.yaml").is_none());
    assert!(node.marker("keep.yaml").is_some());
    for kept in ["foreign.yaml.skip", "broken.yaml.skip", "link.yaml.skip"] {
        let path = node.path(MANIFESTS).join(kept);
        assert!(fs::symlink_metadata(path).is_ok(), "{kept}");
        assert!(ran.out.contains(kept), "{kept}: {ran:?}");
    }
    assert!(ran.out.contains("1 lifted, 4 kept"), "{ran:?}");
}

/// A marker as Windrow writes it, with a reason of this length.
fn long_mark(file: &str, on_failure: &str, length: usize) -> String {
    let mark = serde_json::json!({
        "by": "windrow", "file": file, "code": "waits-for-kind", "why": "x".repeat(length),
        "since": "2026-01-01T00:00:00Z", "onFailure": on_failure, "digest": "0a", "release": "",
    });
    // In the order in which it is written, a field on each line.
    let fields = [
        "by",
        "file",
        "code",
        "why",
        "since",
        "onFailure",
        "digest",
        "release",
    ];
    let lines: Vec<String> = fields
        .iter()
        .map(|field| format!("  \"{field}\": {}", mark[field]))
        .collect();
    format!("{{\n{}\n}}\n", lines.join(",\n"))
}

#[test]
fn a_marker_of_any_size_is_windrows_for_every_verb() {
    for length in [65_536, 70_000, 3 << 20] {
        let node = Node::new();
        let lay = |name: &str, on_failure: &str| {
            node.manifest(name, CONFIG_MAP);
            let mark = long_mark(name, on_failure, length);
            node.manifest(&format!("{name}.skip"), &mark);
        };
        lay("lift.yaml", "lift");
        lay("keep.yaml", "keep");
        lay("hand.yaml", "lift");
        let ran = node.run(&["release", "--failsafe"]);
        assert_eq!(ran.code, 0, "{}", ran.err);
        assert!(ran.out.contains("2 lifted, 1 kept"), "{}", ran.err);
        assert!(!ran.out.contains("did not make"));
        assert!(node.marker("lift.yaml").is_none() && node.marker("keep.yaml").is_some());
        lay("hand.yaml", "lift");
        assert_eq!(node.run(&["release", "hand.yaml"]).code, 0);
        assert!(node.marker("hand.yaml").is_none());
        assert_eq!(node.run(&["cleanup"]).code, 0);
        assert!(node.marker("keep.yaml").is_none());
    }
}

#[test]
fn a_reason_however_long_leaves_a_marker_and_a_request_that_can_be_read_back() {
    let node = Node::new();
    node.manifest("a.yaml", CONFIG_MAP);
    let reason = "because ".repeat(15_000);
    let ran = node.run(&["hold", "a.yaml", "--reason", &reason]);
    assert_eq!(ran.code, 0, "{}", ran.err);
    let mark = node.marker("a.yaml").unwrap();
    assert!(mark["why"].as_str().unwrap().chars().count() <= 1000);
    assert!(node.requests()[0]["reason"].as_str().unwrap().len() < 2000);
    assert_eq!(node.run(&["release", "a.yaml"]).code, 0);
    assert!(node.marker("a.yaml").is_none());
}

/// A manifest's name with this many bytes.
fn name_of(length: usize) -> String {
    format!("{}.yaml", "a".repeat(length - 5))
}

#[test]
fn names_of_every_length_that_has_room_for_a_marker_are_held_released_and_cleaned_up() {
    for length in [128, 200, 245, 250] {
        let node = Node::new();
        let name = name_of(length);
        node.manifest(&name, CONFIG_MAP);
        for (verb, there) in [("hold", true), ("release", false), ("hold", true)] {
            let ran = node.run(&[verb, &name]);
            assert_eq!(ran.code, 0, "{verb} {length}: {ran:?}");
            assert_eq!(node.marker(&name).is_some(), there, "{verb} {length}");
        }
        let requests = node.requests();
        assert!(
            requests
                .iter()
                .all(|request| request["file"] == name.as_str())
        );
        assert_eq!(requests.len(), 3, "{length}");
        let lift = long_mark(&name, "lift", 1);
        node.manifest(&format!("{name}.skip"), &lift);
        let ran = node.run(&["cleanup"]);
        assert_eq!(ran.code, 0, "{length}: {ran:?}");
        assert!(ran.out.contains("1 lifted"), "{ran:?}");
        assert!(!ran.out.contains("not recorded"), "{ran:?}");
        assert_eq!(node.requests().len(), 4, "{length}");
    }
}

#[test]
fn a_name_without_room_for_a_marker_is_said_not_to_be_held() {
    let node = Node::new();
    let name = name_of(251);
    node.manifest(&name, CONFIG_MAP);
    let ran = node.run(&["hold", &name]);
    assert_eq!(ran.code, 1, "{ran:?}");
    assert!(
        ran.err.contains("256 bytes") && ran.err.contains("shorter name"),
        "{ran:?}"
    );
    assert!(
        !ran.out.contains("held by") && node.requests().is_empty(),
        "{ran:?}"
    );
    let there = node.path(MANIFESTS).join(&name);
    fs::remove_file(&there).unwrap();
    node.write(&name, CONFIG_MAP);
    let ran = node.run(&["add", &name]);
    assert_ne!(ran.code, 0, "{ran:?}");
    assert!(ran.err.contains("shorter name"), "{ran:?}");
    assert!(!there.exists(), "it would be applied at once");
}

#[test]
fn files_of_one_name_are_held_and_released_together_and_named() {
    let node = Node::new();
    fs::create_dir(node.path(MANIFESTS).join("sub")).unwrap();
    node.manifest("pair.yaml", CONFIG_MAP);
    node.manifest("sub/pair.yaml", CONFIG_MAP);
    let ran = node.run(&["hold", "sub/pair.yaml"]);
    assert_eq!(ran.code, 0, "{ran:?}");
    assert!(ran.out.contains("sub/pair.yaml held by ada"), "{ran:?}");
    assert!(ran.out.contains("\npair.yaml is also held"), "{ran:?}");
    let ran = node.run(&["release", "pair.yaml"]);
    assert_eq!(ran.code, 0, "{ran:?}");
    assert!(ran.out.contains("pair.yaml released by ada"), "{ran:?}");
    assert!(
        ran.out.contains("\nsub/pair.yaml is also released"),
        "{ran:?}"
    );
    let request = node.requests().pop().unwrap();
    assert_eq!(request["namesakes"]["sub/pair.yaml"], request["digest"]);
    assert!(node.marker("pair.yaml").is_none() && node.marker("sub/pair.yaml").is_none());
}

#[test]
fn cleanup_keeps_what_a_person_holds_and_says_how_to_free_it() {
    let node = Node::new();
    for name in ["vm.yaml", "own.yaml", "free.yaml"] {
        node.manifest(name, CONFIG_MAP);
        node.manifest(&format!("{name}.skip"), &long_mark(name, "keep", 1));
    }
    assert_eq!(
        node.run(&["hold", "vm.yaml", "--reason", "not yet"]).code,
        0
    );
    node.manifest("own.yaml.skip", "\n");
    let ran = node.run(&["cleanup"]);
    assert_eq!(ran.code, 0, "{ran:?}");
    let kept = node.path(MANIFESTS).join("vm.yaml.skip");
    assert!(
        kept.exists()
            && ran
                .out
                .contains("kept   vm.yaml.skip: held by hand: not yet")
    );
    assert!(
        ran.out.contains(&format!("rm {}", kept.display())),
        "{ran:?}"
    );
    assert!(
        ran.out
            .contains("kept   own.yaml.skip: Windrow did not make it"),
        "{ran:?}"
    );
    assert!(
        ran.out.contains("lifted free.yaml.skip") && ran.out.contains("echo >"),
        "{ran:?}"
    );
    assert!(ran.out.contains("1 lifted, 2 kept"), "{ran:?}");
}

#[test]
fn who_is_not_root_hears_that_it_needs_root_and_not_that_the_marker_is_foreign() {
    use std::os::unix::fs::PermissionsExt as _;
    use std::os::unix::process::CommandExt as _;
    if !nix::unistd::geteuid().is_root() {
        eprintln!("skipped: only root can become nobody");
        return;
    }
    let node = Node::new();
    node.manifest("a.yaml", CONFIG_MAP);
    assert_eq!(node.run(&["hold", "a.yaml"]).code, 0);
    // A directory that cannot be read, with a marker that can.
    let mut directory = node.path(MANIFESTS);
    while directory.starts_with(node.root.path()) {
        fs::set_permissions(&directory, fs::Permissions::from_mode(0o755)).unwrap();
        directory.pop();
    }
    let program = node.path("windrow");
    // By another process: a file that this one writes cannot be executed while a child of another test has it open.
    let copied = Command::new("cp")
        .arg(env!("CARGO_BIN_EXE_windrow"))
        .arg(&program)
        .status();
    assert!(copied.unwrap().success());
    let run = |arguments: &[&str]| {
        let mut command = Command::new(&program);
        command.arg("--root").arg(node.root.path()).args(arguments);
        command.uid(65_534).gid(65_534).current_dir("/");
        Ran::of(command.output().unwrap())
    };
    for verb in ["release", "hold"] {
        let ran = run(&[verb, "a.yaml"]);
        assert_eq!(ran.code, 1, "{ran:?}");
        assert!(ran.err.contains("needs root"), "{ran:?}");
        assert!(!ran.err.contains("did not make"), "{ran:?}");
    }
    // The fail-safe's script goes on where the program could not look.
    let ran = run(&["release", "--failsafe"]);
    assert_eq!(ran.code, 1, "{ran:?}");
    assert!(ran.err.contains("cannot be read"), "{ran:?}");
    assert!(node.marker("a.yaml").is_some());
}

#[test]
fn an_added_file_has_its_marker_and_says_that_the_daemon_is_away() {
    let node = Node::new();
    let from = node.write("new.yaml", CONFIG_MAP);
    let ran = node.run(&["add", "new.yaml"]);
    assert_eq!(ran.code, 0, "{ran:?}");
    let there = node.path(MANIFESTS).join("new.yaml");
    assert_eq!(fs::read(&there).unwrap(), fs::read(&from).unwrap());
    assert_eq!(node.marker("new.yaml").unwrap()["onFailure"], "lift");
    assert!(ran.out.contains("does not run"), "{ran:?}");
    let left: Vec<_> = fs::read_dir(node.path(MANIFESTS)).unwrap().collect();
    assert_eq!(left.len(), 2, "{left:?}");
}

#[test]
fn add_refuses_what_would_do_harm_all_of_it_at_once() {
    let node = Node::new();
    node.manifest("there.yaml", CONFIG_MAP);
    node.manifest("twin.one.yaml", CONFIG_MAP);
    node.write("in/there.yaml", WIDGET);
    node.write("in/twin.yaml", WIDGET);
    node.write("in/Upper_Case.yaml", WIDGET);
    node.write("in/bad.yaml", "kind: [\n");
    node.write("in/notes.txt", "");
    let ran = node.run(&[
        "add",
        "in/there.yaml",
        "in/twin.yaml",
        "in/Upper_Case.yaml",
        "in/bad.yaml",
        "in/notes.txt",
        "in/missing.yaml",
    ]);
    assert_eq!(ran.code, 4, "{ran:?}");
    for expected in [
        "--replace",
        "share the Addon twin",
        "Upper_Case",
        "in/bad.yaml:",
        "in/notes.txt",
        "in/missing.yaml",
        "no file was added",
    ] {
        assert!(ran.err.contains(expected), "{expected}: {ran:?}");
    }
    let path = node.path(MANIFESTS);
    assert_eq!(
        fs::read_to_string(path.join("there.yaml")).unwrap(),
        CONFIG_MAP
    );
    assert!(!path.join("bad.yaml").exists());
    let ran = node.run(&["add", "--force", "in/bad.yaml"]);
    assert_eq!(ran.code, 0, "{ran:?}");
    let ran = node.run(&["add", "--replace", "in/there.yaml"]);
    assert_eq!(ran.code, 0, "{ran:?}");
    assert_eq!(fs::read_to_string(path.join("there.yaml")).unwrap(), WIDGET);
    assert!(node.marker("there.yaml").is_some());
}

fn mark(on_failure: &str) -> String {
    format!(
        r#"{{"by":"windrow","file":"{on_failure}.yaml","code":"waits-for-kind","why":"x","since":"2026-01-01T00:00:00Z","onFailure":"{on_failure}","digest":"0a","release":""}}"#
    )
}

#[test]
fn the_failsafe_records_no_release_of_a_file_that_nobody_had_read() {
    let node = Node::new();
    for (name, code, digest) in [
        ("new.yaml", "being-read", ""),
        ("read.yaml", "waits-for-kind", "0a"),
    ] {
        node.manifest(name, CONFIG_MAP);
        let mark = serde_json::json!({
            "by": "windrow", "file": name, "code": code, "why": "x", "since": "2026-01-01T00:00:00Z",
            "onFailure": "lift", "digest": digest, "release": "",
        });
        node.manifest(&format!("{name}.skip"), &mark.to_string());
    }
    let ran = node.run(&["release", "--failsafe"]);
    assert_eq!(ran.code, 0, "{ran:?}");
    assert!(node.marker("new.yaml").is_none() && node.marker("read.yaml").is_none());
    let files: Vec<Value> = node
        .requests()
        .iter()
        .map(|one| one["file"].clone())
        .collect();
    assert_eq!(files, ["read.yaml"]);
}

#[test]
fn cleanup_takes_back_every_hold_and_the_gates_and_nothing_of_anybody_elses() {
    let node = Node::new();
    for name in ["lift", "keep"] {
        node.manifest(&format!("{name}.yaml"), CONFIG_MAP);
        node.manifest(&format!("{name}.yaml.skip"), &mark(name));
    }
    node.manifest("foreign.yaml.skip", "harvester");
    let gates = node.write(
        "etc/rancher/rke2/config.yaml.d/99-zz9-windrow-gates.yaml",
        "kube-apiserver-arg+: [feature-gates+=A=true]\n",
    );
    let theirs = node.write(
        "etc/rancher/rke2/config.yaml.d/90-site.yaml",
        "cni: canal\n",
    );
    let ran = node.run(&["cleanup"]);
    assert_eq!(ran.code, 0, "{ran:?}");
    assert!(node.marker("lift.yaml").is_none() && node.marker("keep.yaml").is_none());
    assert!(node.path(MANIFESTS).join("foreign.yaml.skip").exists());
    assert!(!gates.exists() && theirs.exists());
    for said in [
        "lifted lift.yaml.skip",
        "lifted keep.yaml.skip",
        "may do harm",
        "99-zz9-windrow-gates.yaml",
    ] {
        assert!(ran.out.contains(said), "{said}: {ran:?}");
    }
    // A file that was applied meanwhile is not held again by a later installation.
    let files: Vec<Value> = node
        .requests()
        .iter()
        .map(|one| one["file"].clone())
        .collect();
    assert_eq!(files, ["keep.yaml", "lift.yaml"]);

    let again = node.run(&["cleanup"]);
    assert_eq!(again.code, 0, "{again:?}");
    assert!(again.out.contains("0 lifted, 1 kept"), "{again:?}");
}

#[test]
fn no_gate_comes_back_after_a_cleanup_in_the_middle_of_a_trial() {
    let node = Node::new();
    let drop_in = "kube-apiserver-arg+:\n- \"feature-gates+=APIResponseCompression=false\"\n";
    node.write("usr/local/bin/rke2", "\0v1.34.2+rke2r1\0");
    for state in ["rolling-back", "verifying"] {
        let record = serde_json::json!({
            "request": "1", "change": "apply", "by": "ann", "at": "2026-11-28T00:00:00Z", "forced": false,
            "version": "1.34.2", "asked": {"content": null}, "saved": {"content": drop_in}, "state": state,
            "since": "2026-11-28T00:00:00Z", "started": true,
        });
        node.write(
            "var/lib/rancher/windrow/gates/trial.json",
            &record.to_string(),
        );
        let gates = node.write(
            "etc/rancher/rke2/config.yaml.d/99-zz9-windrow-gates.yaml",
            drop_in,
        );
        let ran = node.run(&["cleanup"]);
        assert_eq!(ran.code, 0, "{ran:?}");
        assert!(ran.out.contains("rolled back"), "{ran:?}");
        assert!(!node.path("var/lib/rancher/windrow/gates").exists());
        assert_eq!(node.run(&["gates", "settle"]).code, 0);
        assert!(!gates.exists(), "{state}");
    }
}

/// A command in a mount namespace in which the manifests directory is read-only; `None`, after a line that says so, where mounting is
/// not allowed.
fn on_a_read_only_directory(node: &Node, args: &[&str]) -> Option<Output> {
    let script =
        "mount --bind \"$0\" \"$0\" && mount -o remount,bind,ro \"$0\" || exit 99; exec \"$@\"";
    let mut command = Command::new("unshare");
    command
        .args(["--mount", "sh", "-c", script])
        .arg(node.path(MANIFESTS))
        .arg(env!("CARGO_BIN_EXE_windrow"))
        .arg("--root")
        .arg(node.root.path())
        .args(args);
    let done = command.output().ok();
    let done = done.filter(|done| !matches!(done.status.code(), Some(99) | None));
    if done.is_none() {
        eprintln!("skipped: a read-only directory needs the right to mount");
    }
    done
}

#[test]
fn an_order_that_was_refused_leaves_nothing_that_could_be_carried_out_later() {
    let node = Node::new();
    node.manifest("a.yaml", CONFIG_MAP);
    node.manifest("b.yaml", CONFIG_MAP);
    assert_eq!(node.run(&["hold", "a.yaml"]).code, 0);
    let before = node.requests().len();
    for order in [["release", "a.yaml"], ["hold", "b.yaml"]] {
        let Some(refused) = on_a_read_only_directory(&node, &order) else {
            return;
        };
        assert_eq!(refused.status.code(), Some(1), "{refused:?}");
        let spool = node.path("var/lib/rancher/windrow/requests");
        let left = fs::read_dir(spool).unwrap().count();
        assert_eq!(left, before, "{order:?}: {refused:?}");
    }
    assert!(node.marker("a.yaml").is_some() && node.marker("b.yaml").is_none());
    // What can be done is done and recorded.
    assert_eq!(node.run(&["release", "a.yaml"]).code, 0);
    assert_eq!(node.requests().len(), before + 1);
}
