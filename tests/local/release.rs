//! What `packaging/release` makes, with a stand-in for the program, which takes minutes to build: every file that a release has, whether
//! it holds what it says, and whether its signatures verify.

#![allow(clippy::unwrap_used, reason = "a helper of tests fails as a test does")]

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use serde_json::Value;
use sha2::{Digest, Sha256};

const VERSION: &str = env!("CARGO_PKG_VERSION");
/// What `packaging/release` calls, and a tool that has nothing to do with it and reads the images.
const TOOLS: &[&str] = &[
    "git",
    "dpkg-deb",
    "rpmbuild",
    "mksquashfs",
    "xz",
    "python3",
    "openssl",
    "gpg",
    "skopeo",
];

fn repository(path: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join(path)
}

fn run(command: &mut Command) -> Output {
    command
        .current_dir(env!("CARGO_MANIFEST_DIR"))
        .output()
        .unwrap_or_else(|error| panic!("{command:?}: {error}"))
}

fn succeed(command: &mut Command) -> String {
    let output = run(command);
    assert!(output.status.success(), "{command:?}: {output:?}");
    String::from_utf8(output.stdout).unwrap()
}

/// What is missing for a release, where nothing forbids to go without.
fn skipped() -> bool {
    let found = |tool: &&&str| {
        let path = std::env::var_os("PATH").unwrap_or_default();
        std::env::split_paths(&path).any(|directory| directory.join(tool).exists())
    };
    let missing: Vec<_> = TOOLS.iter().filter(|tool| !found(tool)).collect();
    if missing.is_empty() && repository(".git").exists() {
        return false;
    }
    assert!(
        std::env::var_os("CI").is_none(),
        "a release needs git's repository and {missing:?}"
    );
    println!("skipped: a release needs git's repository and {missing:?}");
    true
}

fn json(text: &str) -> Value {
    serde_json::from_str(text).unwrap()
}

/// The digests of SHA256SUMS, which are true.
fn sums(release: &Path) -> BTreeMap<String, String> {
    let text = fs::read_to_string(release.join("SHA256SUMS")).unwrap();
    let lines = text.lines().map(|line| line.split_once("  ").unwrap());
    lines
        .map(|(digest, name)| {
            let content = fs::read(release.join(name)).unwrap();
            let real: String = Sha256::digest(content)
                .iter()
                .map(|byte| format!("{byte:02x}"))
                .collect();
            assert_eq!(digest, real, "{name}");
            (name.to_owned(), real)
        })
        .collect()
}

/// A directory with something that is packed in place of the programs.
fn stand_in(directory: &Path) -> PathBuf {
    let place = directory.join("programs");
    fs::create_dir(&place).unwrap();
    for name in ["windrow", "windrowd"] {
        fs::write(place.join(name), "a program\n").unwrap();
    }
    place
}

/// A key of each kind, made for one test: the file of the one, and the home of GnuPG with the other.
fn keys(directory: &Path) -> (PathBuf, PathBuf) {
    let key = directory.join("key.pem");
    let generate = [
        "ecparam",
        "-genkey",
        "-name",
        "prime256v1",
        "-noout",
        "-out",
    ];
    succeed(Command::new("openssl").args(generate).arg(&key));
    let home = directory.join("gnupg");
    fs::create_dir(&home).unwrap();
    let permissions = std::os::unix::fs::PermissionsExt::from_mode(0o700);
    fs::set_permissions(&home, permissions).unwrap();
    succeed(
        Command::new("gpg")
            .env("GNUPGHOME", &home)
            .args(["--batch", "--passphrase", "", "--quick-generate-key"])
            .args(["A test <test@windrow.invalid>", "ed25519", "sign", "0"]),
    );
    (key, home)
}

#[test]
fn the_version_is_the_same_in_manifest_manual_changelog_and_script() {
    let check = |version: &str| {
        run(Command::new(repository("packaging/release")).args(["--check", "--untagged", version]))
    };
    let agreed = check(VERSION);
    assert!(agreed.status.success(), "{agreed:?}");
    let refused = check("99.0.0");
    assert_eq!(refused.status.code(), Some(1));
    let said = String::from_utf8(refused.stderr).unwrap();
    // Everything at once.
    for what in [
        "Cargo.toml says",
        "packaging/man/windrow.1",
        "packaging/man/windrow-journal.7",
        "packaging/rpm/windrow.spec",
    ] {
        assert!(said.contains(what), "{what} is not in {said}");
    }
    // A release is a heading with a day, the newest first; what comes next stands before all of them.
    let changelog = fs::read_to_string(repository("CHANGELOG.md")).unwrap();
    let mut headings = changelog
        .lines()
        .filter_map(|line| line.strip_prefix("## "));
    assert_eq!(headings.next(), Some("Unreleased"));
    for heading in headings {
        let (_, day) = heading.split_once(" - ").expect("VERSION - YYYY-MM-DD");
        assert!(day.parse::<jiff::civil::Date>().is_ok(), "{heading}");
    }
    // The crates are asked for in exactly this version.
    let manifest = fs::read_to_string(repository("Cargo.toml")).unwrap();
    let crates = manifest
        .lines()
        .filter(|line| line.contains("path = \"crates/"));
    for line in crates {
        assert!(
            line.contains(&format!("version = \"={VERSION}\"")),
            "{line}"
        );
    }
}

#[test]
fn a_release_holds_what_it_says_and_its_signatures_verify() {
    if skipped() {
        return;
    }
    let directory = tempfile::tempdir().unwrap();
    let (key, home) = keys(directory.path());
    let program = stand_in(directory.path());
    let release = directory.path().join("release");
    let mut command = Command::new(repository("packaging/release"));
    command.args([
        "--untagged",
        "--fast",
        "--image",
        "registry.example.com/windrow",
    ]);
    for machine in ["x86_64", "aarch64"] {
        let program = format!("{machine}-unknown-linux-musl={}", program.display());
        command.args(["--programs", &program]);
    }
    command
        .arg("--key")
        .arg(&key)
        .args(["--gpg", "test@windrow.invalid"]);
    succeed(
        command
            .env("GNUPGHOME", &home)
            .arg("-o")
            .arg(&release)
            .arg(VERSION),
    );

    let sums = sums(&release);
    let provenance = format!("windrow-{VERSION}.provenance.json");
    for suffix in [
        "-source.tar.xz",
        "-oci.tar",
        ".provenance.json",
        "_amd64.deb",
        "_arm64.deb",
        ".x86_64.rpm",
        ".aarch64.rpm",
        "x86_64-overlay.tar.gz",
        "aarch64-overlay.tar.gz",
        "x86_64-sysext.raw",
        "aarch64-sysext.raw",
        "x86_64-unknown-linux-musl",
        "aarch64-unknown-linux-musl.cdx.json",
        "aarch64-unknown-linux-musl.spdx.json",
        "x86_64-unknown-linux-musl.licences.txt",
    ] {
        assert!(
            sums.keys().any(|name| name.ends_with(suffix)),
            "{suffix}: {sums:?}"
        );
    }
    assert_is_about_all_files(&release, &provenance, &sums);
    assert_signed(&release, &home);
    assert_images(&release);
    let package = release.join(format!("windrow_{VERSION}-1_arm64.deb"));
    let control = succeed(Command::new("dpkg-deb").arg("--info").arg(package));
    assert!(control.contains("Architecture: arm64"), "{control}");
}

/// The statement's subjects are the files of the release, and its source is the commit that the tarball is of.
fn assert_is_about_all_files(release: &Path, name: &str, sums: &BTreeMap<String, String>) {
    let statement = json(&fs::read_to_string(release.join(name)).unwrap());
    assert_eq!(statement["_type"], "https://in-toto.io/Statement/v1");
    assert_eq!(statement["predicateType"], "https://slsa.dev/provenance/v1");
    let subjects = statement["subject"].as_array().unwrap().iter();
    let subjects: BTreeMap<_, _> = subjects
        .map(|one| {
            (
                one["name"].as_str().unwrap(),
                one["digest"]["sha256"].as_str().unwrap(),
            )
        })
        .collect();
    let others = sums.iter().filter(|(file, _)| *file != name);
    let others: BTreeMap<_, _> = others
        .map(|(file, sum)| (file.as_str(), sum.as_str()))
        .collect();
    assert_eq!(subjects, others);
    let built = &statement["predicate"]["buildDefinition"];
    assert_eq!(built["externalParameters"]["version"], VERSION);
    let commit = built["resolvedDependencies"][0]["digest"]["gitCommit"].as_str();
    let head = succeed(Command::new("git").args(["rev-parse", "HEAD"]));
    assert_eq!(commit, Some(head.trim()));
}

fn assert_signed(release: &Path, home: &Path) {
    let sums = release.join("SHA256SUMS");
    let armoured = release.join("SHA256SUMS.asc");
    succeed(
        Command::new("gpg")
            .env("GNUPGHOME", home)
            .arg("--verify")
            .arg(armoured)
            .arg(&sums),
    );
    let text = fs::read_to_string(release.join("SHA256SUMS.sig")).unwrap();
    assert!(verifies(release, &text, &fs::read(&sums).unwrap()));
    assert!(!verifies(release, &text, b"something else"));

    // https://github.com/secure-systems-lab/dsse: the type and the payload are signed with their lengths.
    let envelope =
        fs::read_to_string(release.join(format!("windrow-{VERSION}.intoto.jsonl"))).unwrap();
    let envelope = json(&envelope);
    let payload = fs::read(release.join(format!("windrow-{VERSION}.provenance.json"))).unwrap();
    assert_eq!(decoded(envelope["payload"].as_str().unwrap()), payload);
    let mut signed =
        format!("DSSEv1 28 application/vnd.in-toto+json {} ", payload.len()).into_bytes();
    signed.extend(&payload);
    assert!(verifies(
        release,
        envelope["signatures"][0]["sig"].as_str().unwrap(),
        &signed
    ));
}

fn decoded(text: &str) -> Vec<u8> {
    base64::Engine::decode(&base64::engine::general_purpose::STANDARD, text).unwrap()
}

/// Whether openssl takes it for a signature of this content by the release's key.
fn verifies(release: &Path, signature: &str, content: &[u8]) -> bool {
    let directory = tempfile::tempdir().unwrap();
    let (signature_file, content_file) = (
        directory.path().join("sig"),
        directory.path().join("content"),
    );
    fs::write(&signature_file, decoded(signature)).unwrap();
    fs::write(&content_file, content).unwrap();
    let mut command = Command::new("openssl");
    command
        .args(["dgst", "-sha256", "-verify"])
        .arg(release.join("cosign.pub"));
    run(command
        .arg("-signature")
        .arg(signature_file)
        .arg(content_file))
    .status
    .success()
}

/// Both images are for both machines, and each has a signature where cosign looks for it.
fn assert_images(release: &Path) {
    let archive = release.join(format!("windrow-{VERSION}-oci.tar"));
    let signatures = release.join(format!("windrow-{VERSION}-oci.sig.tar"));
    for (tag, entrypoint) in [
        (VERSION.to_owned(), "/usr/bin/windrow"),
        (
            format!("{VERSION}-installer"),
            "/windrow/tree/usr/bin/windrow",
        ),
    ] {
        let image = format!("oci-archive:{}:{tag}", archive.display());
        let index = succeed(Command::new("skopeo").args(["inspect", "--raw", &image]));
        let manifests = json(&index)["manifests"].as_array().unwrap().clone();
        for (manifest, machine) in manifests.iter().zip(["arm64", "amd64"]) {
            assert_eq!(manifest["platform"]["architecture"], machine);
            let config = succeed(Command::new("skopeo").args([
                "--override-arch",
                machine,
                "inspect",
                "--config",
                &image,
            ]));
            assert_eq!(json(&config)["config"]["Entrypoint"][0], entrypoint);
        }
        // All of it is read, and its digests looked at.
        let copy = tempfile::tempdir().unwrap();
        let copied = format!("dir:{}", copy.path().display());
        succeed(Command::new("skopeo").args([
            "copy",
            "--insecure-policy",
            "--all",
            &image,
            &copied,
        ]));

        let digest: String = Sha256::digest(index.as_bytes())
            .iter()
            .map(|byte| format!("{byte:02x}"))
            .collect();
        let signature = format!("oci-archive:{}:sha256-{digest}.sig", signatures.display());
        let manifest = json(&succeed(
            Command::new("skopeo").args(["inspect", "--raw", &signature]),
        ));
        let layer = &manifest["layers"][0];
        let copy = tempfile::tempdir().unwrap();
        let copied = format!("dir:{}", copy.path().display());
        succeed(Command::new("skopeo").args(["copy", "--insecure-policy", &signature, &copied]));
        let blob = layer["digest"]
            .as_str()
            .unwrap()
            .trim_start_matches("sha256:");
        let payload = fs::read(copy.path().join(blob)).unwrap();
        let said = json(std::str::from_utf8(&payload).unwrap());
        assert_eq!(
            said["critical"]["image"]["docker-manifest-digest"],
            format!("sha256:{digest}")
        );
        assert_eq!(
            said["critical"]["identity"]["docker-reference"],
            "registry.example.com/windrow"
        );
        let annotation = layer["annotations"]["dev.cosignproject.cosign/signature"]
            .as_str()
            .unwrap();
        assert!(verifies(release, annotation, &payload));
    }
}

#[test]
fn the_same_program_is_packed_into_the_same_bytes_by_whomever() {
    if skipped() {
        return;
    }
    let directory = tempfile::tempdir().unwrap();
    let program = stand_in(directory.path());
    let packed = |name: &str, umask: &str, zone: &str| {
        let out = directory.path().join(name);
        let mut command = Command::new("sh");
        command.args(["-c", "umask $0; exec \"$@\"", umask]);
        command
            .arg(repository("packaging/build"))
            .args(["--fast", "-o"])
            .arg(&out);
        command.arg("--programs").arg(&program).env("TZ", zone);
        succeed(command.args(["deb", "rpm", "tar", "sysext"]));
        sums(&out)
    };
    let one = packed("one", "022", "UTC");
    assert!(one.len() >= 7, "{one:?}");
    assert_eq!(one, packed("another place", "077", "Pacific/Auckland"));
}

#[test]
fn a_program_is_tried_before_it_is_released() {
    let tried = |program: &Path| run(Command::new(repository("packaging/try")).arg(program));
    let built = Path::new(env!("CARGO_BIN_EXE_windrow")).parent().unwrap();
    let output = tried(built);
    assert!(output.status.success(), "{output:?}");
    let directory = tempfile::tempdir().unwrap();
    for broken in ["windrow", "windrowd"] {
        for name in ["windrow", "windrowd"] {
            let from = match name == broken {
                true => PathBuf::from("/bin/true"),
                false => built.join(name),
            };
            fs::copy(from, directory.path().join(name)).unwrap();
        }
        let output = tried(directory.path());
        assert_eq!(output.status.code(), Some(1), "{output:?}");
        let said = String::from_utf8(output.stderr).unwrap();
        assert!(
            said.contains(&format!("does not say \"{broken} ")),
            "{said}"
        );
    }
}

/// The workflow can be read in one look since it only calls the script.
#[test]
fn the_workflow_of_a_release_calls_the_script_with_options_that_it_has() {
    let text = fs::read_to_string(repository(".github/workflows/release.yml")).unwrap();
    let script = fs::read_to_string(repository("packaging/release")).unwrap();
    let usage: String = script
        .lines()
        .take_while(|line| line.starts_with('#'))
        .collect();
    let calls: Vec<&str> = text
        .lines()
        .filter(|line| line.contains("packaging/release -") || line.contains("options"))
        .collect();
    assert!(calls.len() >= 4, "{text}");
    for word in calls
        .iter()
        .flat_map(|line| line.split([' ', '(', ')', '"']))
    {
        if word.starts_with("--") {
            assert!(usage.contains(word), "packaging/release has no {word}");
        }
    }
    let parsed = windrow_model::manifest::yaml::parse_configuration(&text)
        .unwrap()
        .unwrap();
    let steps = parsed.at(&["jobs", "release", "steps"]).unwrap().items();
    assert!(steps.iter().any(|step| {
        step.str_at(&["run"])
            .is_some_and(|run| run.contains("packaging/release \"${options[@]}\""))
    }));
}

/// Cargo looks whether a packed crate builds, which takes minutes; what it could lack is what its source includes from outside of it.
#[test]
fn every_crate_can_be_packed_with_all_that_it_includes() {
    let directory = tempfile::tempdir().unwrap();
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let mut package = Command::new(cargo);
    package.args(["package", "--workspace", "--no-verify", "--allow-dirty"]);
    package.args(["--exclude", "windrow-fuzz"]);
    succeed(
        package
            .args(["--offline", "--target-dir"])
            .arg(directory.path()),
    );
    let packed = directory.path().join("package");
    let names: Vec<PathBuf> = fs::read_dir(&packed)
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.extension().is_some_and(|end| end == "crate"))
        .collect();
    let crates = fs::read_dir(repository("crates")).unwrap();
    // And the program.
    let members = crates.filter(|entry| entry.as_ref().unwrap().path().join("Cargo.toml").exists());
    assert_eq!(names.len(), members.count() + 1, "{names:?}");
    for name in &names {
        succeed(
            Command::new("tar")
                .arg("-xzf")
                .arg(name)
                .arg("-C")
                .arg(&packed),
        );
    }
    let mut sources = Vec::new();
    sources_below(&packed, &mut sources);
    let included = regex::Regex::new(r#"include_(?:str|bytes)!\(\s*"([^"]+)""#).unwrap();
    let mut found = 0;
    for source in sources {
        let text = fs::read_to_string(&source).unwrap();
        for path in included.captures_iter(&text) {
            found += 1;
            let path = source.parent().unwrap().join(&path[1]);
            assert!(
                path.exists(),
                "{} includes {}",
                source.display(),
                path.display()
            );
        }
    }
    assert!(found > 10, "{found}");
}

/// Rust's sources, without the tests: those of a crate are not run from its package.
fn sources_below(directory: &Path, found: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(directory).unwrap() {
        let path = entry.unwrap().path();
        let name = path.file_name().unwrap().to_string_lossy().into_owned();
        if path.is_dir() && name != "tests" && name != "benches" {
            sources_below(&path, found);
        } else if name.ends_with(".rs") && !name.ends_with("tests.rs") {
            found.push(path);
        }
    }
}
