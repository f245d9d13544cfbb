//! What packaging/ci brings into pipelines, run as pre-commit, GitHub Actions and GitLab CI would run it.

#![allow(clippy::unwrap_used, reason = "a helper of tests fails as a test does")]

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use windrow_model::manifest::{Node, yaml};

const GOOD: &str = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a, namespace: default}\n";
const BAD: &str = "apiVersion: v1\nkind: ConfigMap\nmetadata: [\n";

fn root() -> PathBuf {
    env!("CARGO_MANIFEST_DIR").into()
}

fn parsed(path: &str) -> Node {
    let text = fs::read_to_string(root().join(path)).unwrap();
    yaml::parse_configuration(&text).unwrap().unwrap()
}

/// A repository with a file that is fine and one that RKE2 refuses.
fn repository() -> tempfile::TempDir {
    let place = tempfile::tempdir().unwrap();
    fs::create_dir(place.path().join("my files")).unwrap();
    fs::write(place.path().join("my files/good.yaml"), GOOD).unwrap();
    fs::write(place.path().join("bad.yaml"), BAD).unwrap();
    place
}

fn run(place: &Path, command: &mut Command) -> Output {
    let program = Path::new(env!("CARGO_BIN_EXE_windrow")).parent().unwrap();
    let path = format!("{}:{}", program.display(), std::env::var("PATH").unwrap());
    command
        .current_dir(place)
        .env("PATH", path)
        .output()
        .unwrap()
}

fn said(output: &Output) -> String {
    String::from_utf8_lossy(&output.stdout).into_owned()
}

#[test]
fn the_hooks_of_pre_commit_have_what_it_asks_for_and_fail_with_the_file_that_fails() {
    let hooks = parsed(".pre-commit-hooks.yaml");
    let place = repository();
    let entry = |id: &str| {
        let mut all = hooks.items().iter();
        let hook = all.find(|hook| hook.str_at(&["id"]) == Some(id)).unwrap();
        for key in ["name", "description", "language"] {
            assert!(hook.str_at(&[key]).is_some(), "{id}: {key}");
        }
        assert_eq!(hook.str_at(&["language"]), Some("script"));
        root().join(hook.str_at(&["entry"]).unwrap())
    };
    let each = |arguments: &[&str]| {
        run(
            place.path(),
            Command::new(entry("windrow-check")).args(arguments),
        )
    };
    let fine = each(&["--runs=1", "my files/good.yaml"]);
    assert_eq!(fine.status.code(), Some(0), "{fine:?}");
    let both = each(&[
        "--runs=1",
        "--output=github",
        "my files/good.yaml",
        "bad.yaml",
    ]);
    assert_eq!(both.status.code(), Some(4), "{both:?}");
    assert!(
        said(&both).contains("::error file=bad.yaml,line="),
        "{both:?}"
    );
    assert!(said(&both).contains("windrow check: pass"), "{both:?}");
    assert_eq!(
        each(&["--runs", "1", "my files/good.yaml"]).status.code(),
        Some(64)
    );
    assert_eq!(each(&[]).status.code(), Some(64), "nothing was looked at");
    let together = entry("windrow-check-together");
    let output = run(place.path(), Command::new(together).args(["--runs=1", "."]));
    assert_eq!(output.status.code(), Some(4), "{output:?}");
}

/// Runs the step of the action with these inputs.
fn action(place: &Path, inputs: &[(&str, &str)]) -> Output {
    let action = parsed("packaging/ci/github/action.yml");
    assert_eq!(action.str_at(&["runs", "using"]), Some("composite"));
    let step = &action.at(&["runs", "steps"]).unwrap().items()[0];
    assert_eq!(step.str_at(&["shell"]), Some("bash"));
    let mut command = Command::new("bash");
    // As GitHub runs it: https://docs.github.com/actions, `jobs.<job_id>.steps[*].shell`.
    command.args(["--noprofile", "--norc", "-e", "-o", "pipefail", "-c"]);
    command.arg(step.str_at(&["run"]).unwrap());
    for entry in step.get("env").unwrap().entries() {
        let expression = entry.value.as_str().unwrap();
        let name = expression.strip_prefix("${{ inputs.").unwrap();
        let name = name.strip_suffix(" }}").unwrap();
        let declared = action.at(&["inputs", name]);
        let declared = declared.unwrap_or_else(|| panic!("{name} is no input"));
        let given = inputs.iter().find(|(input, _)| *input == name);
        let default = declared.str_at(&["default"]).unwrap_or_default();
        command.env(&*entry.key, given.map_or(default, |(_, value)| value));
    }
    run(place, &mut command)
}

#[test]
fn the_action_of_github_annotates_and_writes_what_it_is_asked_for() {
    let place = repository();
    let fine = action(
        place.path(),
        &[
            ("config", "my files/good.yaml\n"),
            ("options", "--runs=1\n\n"),
            ("page", "page.html"),
        ],
    );
    assert_eq!(fine.status.code(), Some(0), "{fine:?}");
    assert_eq!(said(&fine), "windrow check: pass\n");
    assert!(place.path().join("page.html").exists());
    let bad = action(
        place.path(),
        &[
            ("config", "bad.yaml"),
            ("options", "--runs=1"),
            ("sarif", "a b.sarif"),
        ],
    );
    assert_eq!(bad.status.code(), Some(4), "{bad:?}");
    assert!(
        said(&bad).contains("::error file=bad.yaml,line="),
        "{bad:?}"
    );
    let sarif = fs::read_to_string(place.path().join("a b.sarif")).unwrap();
    assert!(sarif.contains("\"file-refused\""), "{sarif}");
}

#[test]
fn the_job_of_gitlab_writes_its_artifacts_and_checks_nothing_unnamed() {
    let place = repository();
    let job = parsed("packaging/ci/gitlab.yml");
    let job = job.get("windrow-check").unwrap();
    let script: Vec<&str> = job
        .get("script")
        .unwrap()
        .items()
        .iter()
        .map(|line| line.as_str().unwrap())
        .collect();
    let run_job = |config: &str| {
        let mut command = Command::new("sh");
        command.args(["-e", "-c", &script.join("\n")]);
        command
            .env("WINDROW_CONFIG", config)
            .env("WINDROW_OPTIONS", "--runs=1");
        run(place.path(), &mut command)
    };
    assert_eq!(run_job("").status.code(), Some(64));
    let bad = run_job("bad.yaml");
    assert_eq!(bad.status.code(), Some(4), "{bad:?}");
    let junit = job.str_at(&["artifacts", "reports", "junit"]).unwrap();
    let junit = fs::read_to_string(place.path().join(junit)).unwrap();
    assert!(junit.contains("<failure type=\"file-refused\""), "{junit}");
    for path in job.at(&["artifacts", "paths"]).unwrap().items() {
        assert!(place.path().join(path.as_str().unwrap()).exists());
    }
}
