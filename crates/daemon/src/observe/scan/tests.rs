//! Scans of real directories with errors of all kinds.

mod bounds;

use std::ffi::OsStr;
use std::fs::{self, File, create_dir, create_dir_all, write};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::os::unix::net::UnixListener;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use nix::sys::stat::Mode;
use nix::unistd::{geteuid, mkfifo};
use tempfile::TempDir;

use windrow_decide::Mark;

use super::read::read;
use super::*;

/// Long after every file of the test was written, so that all stamps are settled.
fn later() -> Timestamp {
    Timestamp::now() + Duration::from_secs(3600)
}

fn look(dir: &Path) -> ScannedDirectory {
    look_again(dir, &FileStamps::new())
}

fn look_again(dir: &Path, seen: &FileStamps) -> ScannedDirectory {
    match scan(dir, &ReadLimits::default(), seen, later()) {
        ScanResult::Found(found) => found,
        other => panic!("{other:?}"),
    }
}

fn paths(found: &ScannedDirectory) -> Vec<&str> {
    found.files.iter().map(|file| file.path.as_str()).collect()
}

fn content(found: &ScannedDirectory, path: &str) -> FileContent {
    let file = found.files.iter().find(|file| file.path == path);
    match &file
        .unwrap_or_else(|| panic!("no {path} in {found:?}"))
        .state
    {
        ScannedContent::Read(content) => content.clone(),
        ScannedContent::Unchanged => panic!("{path} was not read"),
    }
}

fn bytes(text: &str) -> FileContent {
    FileContent::Bytes(text.as_bytes().to_vec())
}

fn mark(file: &str) -> Mark {
    Mark {
        by: Mark::BY.to_owned(),
        file: file.into(),
        code: windrow_model::reasons::Code::WaitsForKind,
        why: "test".into(),
        since: Timestamp::UNIX_EPOCH,
        on_failure: windrow_decide::OnFailure::Lift,
        digest: "".into(),
        release: String::new(),
    }
}

#[test]
fn it_walks_as_rke2_does() {
    let dir = TempDir::new().unwrap();
    let at = dir.path();
    create_dir_all(at.join("sub/deeper")).unwrap();
    create_dir(at.join(".hidden")).unwrap();
    create_dir(at.join("dir.yaml")).unwrap();
    for file in [
        "b.yaml",
        "a.yml",
        "X.YML",
        "c.json",
        ".dot.yaml",
        "note.txt",
        "d.yaml.tmp",
        "sub/x.yaml",
        "sub/deeper/y.yaml",
        ".hidden/z.yaml",
        "dir.yaml/in.yaml",
        "sub-.yaml",
    ] {
        write(at.join(file), file).unwrap();
    }
    let found = look(at);
    assert_eq!(
        paths(&found),
        [
            ".hidden/z.yaml",
            "X.YML",
            "a.yml",
            "b.yaml",
            "c.json",
            "dir.yaml/in.yaml",
            "sub-.yaml",
            "sub/deeper/y.yaml",
            "sub/x.yaml",
        ]
    );
    assert_eq!(content(&found, "sub/x.yaml"), bytes("sub/x.yaml"));
    assert_eq!(found.directories.len(), 5);
    assert_eq!(found.clone().into_directory().files.len(), 9);
}

#[test]
fn a_missing_directory_and_one_that_is_none_are_told_apart() {
    let dir = TempDir::new().unwrap();
    let seen = FileStamps::new();
    let missing = scan(
        &dir.path().join("no/such"),
        &ReadLimits::default(),
        &seen,
        later(),
    );
    assert_eq!(missing, ScanResult::Missing);
    write(dir.path().join("file"), "").unwrap();
    let file = scan(
        &dir.path().join("file"),
        &ReadLimits::default(),
        &seen,
        later(),
    );
    assert!(matches!(file, ScanResult::Unreadable { .. }), "{file:?}");
    assert_eq!(
        look(dir.path()),
        ScannedDirectory {
            directories: vec![dir.path().to_owned()],
            ..ScannedDirectory::default()
        }
    );
}

#[test]
fn nothing_that_could_block_is_opened() {
    let dir = TempDir::new().unwrap();
    let at = dir.path();
    mkfifo(&at.join("fifo.yaml"), Mode::S_IRWXU).unwrap();
    mkfifo(&at.join("m.yaml.skip"), Mode::S_IRWXU).unwrap();
    symlink("fifo.yaml", at.join("to-fifo.yaml")).unwrap();
    let _listener = UnixListener::bind(at.join("sock.yaml")).unwrap();
    symlink("/dev/null", at.join("null.yaml")).unwrap();
    write(at.join("good.yaml"), "x").unwrap();
    let found = look(at);
    assert_eq!(content(&found, "fifo.yaml"), FileContent::Fifo);
    assert_eq!(content(&found, "to-fifo.yaml"), FileContent::Fifo);
    assert_eq!(
        content(&found, "sock.yaml"),
        FileContent::Special { what: "a socket" }
    );
    assert!(matches!(
        content(&found, "null.yaml"),
        FileContent::SymlinkOutside { .. }
    ));
    assert_eq!(content(&found, "good.yaml"), bytes("x"));
    assert_eq!(found.markers[0].mark, None);
    // Even when the kind changes between the look and the open.
    assert_eq!(
        read(&at.join("fifo.yaml"), 10).unwrap().0,
        FileContent::Fifo
    );
    assert!(matches!(
        read(&at.join("sock.yaml"), 10).unwrap().0,
        FileContent::Special { .. }
    ));
    assert!(read(&at.join("null.yaml"), 10).is_err());
}

#[test]
fn links_are_followed_within_the_directory_only() {
    let outside = TempDir::new().unwrap();
    write(outside.path().join("secret.yaml"), "secret").unwrap();
    let dir = TempDir::new().unwrap();
    let at = dir.path();
    create_dir(at.join("real")).unwrap();
    write(at.join("real/a.yaml"), "a").unwrap();
    write(at.join("data"), "d").unwrap();
    symlink("data", at.join("in.yaml")).unwrap();
    symlink(outside.path().join("secret.yaml"), at.join("out.yaml")).unwrap();
    symlink(outside.path(), at.join("outdir")).unwrap();
    symlink("/no/such", at.join("dangling.yaml")).unwrap();
    symlink("nowhere", at.join("any-name")).unwrap();
    symlink("real", at.join("linked")).unwrap();
    symlink("../linked", at.join("real/again")).unwrap();
    symlink(".", at.join("loop")).unwrap();
    symlink("two.yaml", at.join("one.yaml")).unwrap();
    symlink("one.yaml", at.join("two.yaml")).unwrap();
    let found = look(at);
    assert_eq!(content(&found, "in.yaml"), bytes("d"));
    let target = outside.path().join("secret.yaml").display().to_string();
    assert_eq!(
        content(&found, "out.yaml"),
        FileContent::SymlinkOutside { target }
    );
    assert!(matches!(
        content(&found, "outdir"),
        FileContent::SymlinkOutside { .. }
    ));
    assert_eq!(
        content(&found, "dangling.yaml"),
        FileContent::DanglingSymlink {
            target: "/no/such".to_owned()
        }
    );
    assert!(matches!(
        content(&found, "any-name"),
        FileContent::DanglingSymlink { .. }
    ));
    assert!(matches!(
        content(&found, "one.yaml"),
        FileContent::DanglingSymlink { .. }
    ));
    // A linked directory is followed by one level, a loop by one round.
    assert_eq!(content(&found, "linked/a.yaml"), bytes("a"));
    assert_eq!(content(&found, "real/again/a.yaml"), bytes("a"));
    assert_eq!(content(&found, "loop/in.yaml"), bytes("d"));
    assert!(
        !paths(&found)
            .iter()
            .any(|path| path.starts_with("loop/loop"))
    );
    assert!(
        !paths(&found)
            .iter()
            .any(|path| path.starts_with("linked/again/"))
    );
    assert!(!format!("{found:?}").contains(&format!("{:?}", b"secret".to_vec())));
}

#[test]
fn the_directory_itself_may_be_reached_through_a_link() {
    let dir = TempDir::new().unwrap();
    create_dir(dir.path().join("real")).unwrap();
    write(dir.path().join("real/a.yaml"), "a").unwrap();
    symlink("a.yaml", dir.path().join("real/b.yaml")).unwrap();
    symlink("real", dir.path().join("link")).unwrap();
    assert_eq!(paths(&look(&dir.path().join("link"))), ["a.yaml", "b.yaml"]);
}

#[test]
fn below_a_link_to_the_directory_itself_rke2_follows_no_further_link() {
    let dir = TempDir::new().unwrap();
    let real = dir.path().join("real");
    create_dir_all(real.join("sub")).unwrap();
    write(real.join("sub/a.yaml"), "a").unwrap();
    symlink("sub", real.join("linked")).unwrap();
    symlink("nowhere", real.join("any-name")).unwrap();
    symlink("nowhere", real.join("dangling.yaml")).unwrap();
    symlink("real", dir.path().join("link")).unwrap();
    let found = look(&dir.path().join("link"));
    assert_eq!(paths(&found), ["dangling.yaml", "sub/a.yaml"]);
    assert!(matches!(
        content(&found, "dangling.yaml"),
        FileContent::Unreadable { .. }
    ));
}

#[test]
fn markers_are_found_in_every_directory_with_the_mark_in_them() {
    let dir = TempDir::new().unwrap();
    let at = dir.path();
    create_dir_all(at.join("sub/d.yaml.skip")).unwrap();
    write(at.join("a.yaml.skip"), "foreign").unwrap();
    write(at.join("b.yaml.skip"), vec![b'x'; 200_000]).unwrap();
    write(at.join("c.yaml.SKIP"), "").unwrap();
    write(at.join("sub/e.yaml.skip"), mark("e.yaml").to_json()).unwrap();
    let markers = look(at).markers;
    let told: Vec<_> = markers
        .iter()
        .map(|marker| {
            let file = marker.mark.as_ref().map(|mark| mark.file.as_str());
            (marker.path.as_str(), marker.path.hides(), file)
        })
        .collect();
    assert_eq!(
        told,
        [
            ("a.yaml.skip", "a.yaml".into(), None),
            ("b.yaml.skip", "b.yaml".into(), None),
            ("sub/d.yaml.skip", "d.yaml".into(), None),
            ("sub/e.yaml.skip", "e.yaml".into(), Some("e.yaml")),
        ]
    );
}

#[test]
fn a_marker_that_has_not_changed_is_not_opened_again() {
    let dir = TempDir::new().unwrap();
    let at = dir.path();
    let path = at.join("a.yaml.skip");
    write(&path, mark("b/a.yaml").to_json()).unwrap();
    // Its remembered stamp did not come from reading it.
    let mut seen = look(at).stamps();
    seen.markers.get_mut("a.yaml.skip").unwrap().1 = Some(mark("remembered").into());
    let remembered = look_again(at, &seen);
    assert_eq!(remembered.markers[0].mark, Some(mark("remembered").into()));
    assert_eq!(remembered.stamps(), seen);
    // Another file of the same size in its place is read.
    write(at.join("new"), mark("c/a.yaml").to_json()).unwrap();
    fs::rename(at.join("new"), &path).unwrap();
    let third = look_again(at, &seen);
    assert_eq!(third.markers[0].mark, Some(mark("c/a.yaml").into()));
}

#[test]
fn what_has_not_changed_is_not_read_again() {
    let dir = TempDir::new().unwrap();
    let at = dir.path();
    write(at.join("a.yaml"), "1").unwrap();
    write(at.join("b.yaml"), "1").unwrap();
    write(at.join("c.yaml"), "1").unwrap();
    let first = look(at);
    let second = look_again(at, &first.stamps());
    assert!(
        second
            .files
            .iter()
            .all(|file| file.state == ScannedContent::Unchanged)
    );
    assert_eq!(second.stamps(), first.stamps());
    assert!(
        second
            .into_directory()
            .files
            .iter()
            .all(|file| file.content.is_none())
    );
    // With the same size and name, by rename.
    write(at.join("new"), "2").unwrap();
    fs::rename(at.join("new"), at.join("a.yaml")).unwrap();
    fs::remove_file(at.join("c.yaml")).unwrap();
    let third = look_again(at, &first.stamps());
    assert_eq!(paths(&third), ["a.yaml", "b.yaml"]);
    assert_eq!(content(&third, "a.yaml"), bytes("2"));
    assert_eq!(third.files[1].state, ScannedContent::Unchanged);
}

#[test]
fn a_file_that_only_just_changed_is_read_again() {
    let dir = TempDir::new().unwrap();
    write(dir.path().join("a.yaml"), "1").unwrap();
    let now = Timestamp::now();
    let ScanResult::Found(first) =
        scan(dir.path(), &ReadLimits::default(), &FileStamps::new(), now)
    else {
        panic!("not found");
    };
    assert!(!first.files[0].stamp.settled);
    let second = look_again(dir.path(), &first.stamps());
    assert_eq!(content(&second, "a.yaml"), bytes("1"));
    assert_eq!(
        look_again(dir.path(), &second.stamps()).files[0].state,
        ScannedContent::Unchanged
    );
}

#[test]
fn names_that_are_no_text_are_told_and_stay_two() {
    let dir = TempDir::new().unwrap();
    for name in [&b"\xff.yaml"[..], b"\xfe.yaml"] {
        write(dir.path().join(OsStr::from_bytes(name)), "x").unwrap();
    }
    let found = look(dir.path());
    assert_eq!(paths(&found), ["\\xfe.yaml", "\\xff.yaml"]);
    let expected = FileContent::NotUtf8Name { special: None };
    assert_eq!(content(&found, "\\xff.yaml"), expected);
}

#[test]
fn what_is_no_file_cannot_be_hidden_at_a_path_that_is_no_text() {
    let dir = TempDir::new().unwrap();
    let below = dir.path().join(OsStr::from_bytes(b"\xff"));
    create_dir(&below).unwrap();
    let own = OsStr::from_bytes(b"\xfe.yaml");
    for path in [below.join("a.yaml"), dir.path().join(own)] {
        mkfifo(&path, Mode::S_IRWXU).unwrap();
    }
    let _socket = UnixListener::bind(below.join("b.yaml")).unwrap();
    let found = look(dir.path());
    for (path, what) in [
        ("\\xff/a.yaml", "a FIFO"),
        ("\\xfe.yaml", "a FIFO"),
        ("\\xff/b.yaml", "a socket"),
    ] {
        let special = Some(what);
        assert_eq!(content(&found, path), FileContent::NotUtf8Name { special });
    }
}

#[test]
fn what_may_not_be_read_is_told() {
    if geteuid().is_root() {
        eprintln!("skipped: root may read everything");
        return;
    }
    let dir = TempDir::new().unwrap();
    write(dir.path().join("a.yaml"), "x").unwrap();
    create_dir(dir.path().join("locked")).unwrap();
    for name in ["a.yaml", "locked"] {
        let nothing = fs::Permissions::from_mode(0o000);
        fs::set_permissions(dir.path().join(name), nothing).unwrap();
    }
    let found = look(dir.path());
    assert!(matches!(
        content(&found, "a.yaml"),
        FileContent::Unreadable { .. }
    ));
    assert!(matches!(
        content(&found, "locked"),
        FileContent::Unreadable { .. }
    ));
}

#[test]
fn what_could_not_be_read_is_read_again_and_a_marker_of_that_sort_is_not_taken_for_a_foreign_one() {
    let entry = |path: &str, content: FileContent| FileEntry {
        path: path.into(),
        state: ScannedContent::Read(content),
        stamp: ScanStamp::default(),
    };
    let error = || "Input/output error".to_owned();
    let found = ScannedDirectory {
        files: vec![
            entry("a.yaml", FileContent::Unreadable { error: error() }),
            entry("b.yaml", FileContent::Bytes(Vec::new())),
        ],
        markers: vec![MarkerEntry {
            path: ManifestPath::from("a.yaml").marker(),
            mark: None,
            unreadable: Some(error()),
            stamp: ScanStamp::default(),
        }],
        directories: Vec::new(),
    };
    let stamps = found.stamps();
    let known: Vec<&str> = stamps.files.keys().map(|path| path.as_str()).collect();
    assert_eq!((known, stamps.markers.len()), (vec!["b.yaml"], 0));
    let directory = found.into_directory();
    assert!(directory.markers.is_empty());
    let last = directory.files.last().unwrap();
    let content = last.content.as_deref().unwrap();
    assert_eq!(last.path.as_str(), "a.yaml.skip");
    assert!(matches!(content, FileContent::Unreadable { .. }));
}

#[test]
fn files_that_come_and_go_while_it_looks_are_there_or_not() {
    let dir = TempDir::new().unwrap();
    let at = dir.path();
    write(at.join("stays.yaml"), "x").unwrap();
    let done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while !done.load(Ordering::Relaxed) {
                for n in 0..20 {
                    create_dir_all(at.join(format!("d{n}"))).unwrap();
                    write(at.join(format!("d{n}/f.yaml")), "text").unwrap();
                    symlink("stays.yaml", at.join(format!("l{n}.yaml"))).unwrap();
                }
                for n in 0..20 {
                    fs::remove_dir_all(at.join(format!("d{n}"))).unwrap();
                    fs::remove_file(at.join(format!("l{n}.yaml"))).unwrap();
                }
            }
        });
        for _ in 0..200 {
            let found = look(at);
            assert!(paths(&found).contains(&"stays.yaml"));
            for file in &found.files {
                assert!(
                    matches!(&file.state, ScannedContent::Read(FileContent::Bytes(_))),
                    "{file:?}"
                );
            }
        }
        done.store(true, Ordering::Relaxed);
    });
}
