use std::collections::BTreeSet;
use std::fs;
use std::os::unix::fs::symlink;

use nix::sys::inotify::{AddWatchFlags, InitFlags, Inotify};
use windrow_decide::OnFailure;
use windrow_model::reasons::Code;

use super::*;

fn marker(path: &str) -> MarkerPath {
    MarkerPath::parse(path).unwrap()
}

pub(in super::super) fn mark(file: &str) -> Mark {
    Mark {
        by: Mark::BY.to_owned(),
        file: file.into(),
        code: Code::WaitsForKind,
        why: "the kind Widget.example.com is not served by the API yet".into(),
        since: Timestamp::UNIX_EPOCH,
        on_failure: OnFailure::Lift,
        digest: "0".repeat(64).into(),
        release: format!("windrow release {file}"),
    }
}

#[test]
fn a_marker_is_created_whole_and_removed_and_leaves_nothing_behind() {
    let directory = tempfile::tempdir().unwrap();
    let markers = Markers::new(directory.path());
    let path = &marker("a.yaml.skip");
    let mut mark = mark("a.yaml");
    assert_eq!(markers.create(path, &mark).unwrap(), MarkerOutcome::Changed);
    assert_eq!(
        markers.create(path, &mark).unwrap(),
        MarkerOutcome::Unchanged
    );
    mark.code = Code::WaitsForNamespace;
    assert_eq!(markers.create(path, &mark).unwrap(), MarkerOutcome::Changed);
    assert_eq!(markers.read(path).unwrap(), Some(mark));
    assert_eq!(fs::read_dir(directory.path()).unwrap().count(), 1);
    assert_eq!(markers.remove(path).unwrap(), MarkerOutcome::Changed);
    assert_eq!(markers.remove(path).unwrap(), MarkerOutcome::Unchanged);
    assert_eq!(fs::read_dir(directory.path()).unwrap().count(), 0);
}

#[test]
fn who_removes_a_marker_is_stopped_by_who_replaces_its_file_and_not_by_another_removal() {
    let directory = tempfile::tempdir().unwrap();
    let markers = Markers::new(directory.path());
    let path = &marker("a.yaml.skip");
    markers.create(path, &mark("a.yaml")).unwrap();
    let guard = markers.guard(path).unwrap();
    assert!(guard.is_some());
    assert!(markers.remove(path).is_err());
    drop(guard);
    let place = ParentDirectory::find(directory.path(), path);
    let other = lock(&place.unwrap().unwrap(), FlockArg::LockSharedNonblock).unwrap();
    assert!(other.is_some());
    assert_eq!(markers.remove(path).unwrap(), MarkerOutcome::Changed);
    drop(other);
}

#[test]
fn a_new_marker_has_no_other_name_before() {
    let directory = tempfile::tempdir().unwrap();
    let events = Inotify::init(InitFlags::IN_NONBLOCK).unwrap();
    events
        .add_watch(directory.path(), AddWatchFlags::IN_ALL_EVENTS)
        .unwrap();
    let markers = Markers::new(directory.path());
    markers
        .create(&marker("a.yaml.skip"), &mark("a.yaml"))
        .unwrap();
    let events = events.read_events().unwrap().into_iter();
    let names: BTreeSet<_> = events.filter_map(|event| event.name).collect();
    // Without a name, its inode number stands for it.
    let names: Vec<_> = names
        .iter()
        .filter(|name| !name.to_string_lossy().starts_with('#'))
        .collect();
    assert_eq!(names, ["a.yaml.skip"]);
}

#[test]
fn markers_that_are_changed_together_have_each_its_own_result() {
    let directory = tempfile::tempdir().unwrap();
    fs::create_dir(directory.path().join("sub")).unwrap();
    fs::write(directory.path().join("theirs.yaml.skip"), "").unwrap();
    let markers = Markers::new(directory.path());
    let many = (0..MOST_TOGETHER).map(|number| format!("{number}.yaml"));
    let others = [
        "a.yaml",
        "theirs.yaml",
        "no/where.yaml",
        &"a".repeat(251),
        "sub/a.yaml",
    ];
    let names: Vec<String> = others.map(str::to_owned).into_iter().chain(many).collect();
    let paths: Vec<MarkerPath> = names
        .iter()
        .map(|name| marker(&format!("{name}.skip")))
        .collect();
    let marks: Vec<Mark> = names.iter().map(|name| mark(name)).collect();
    let expected = |outcome: MarkerOutcome| {
        let mut all = vec![Some(outcome); names.len()];
        all[1] = Some(MarkerOutcome::Foreign);
        all[2] = Some(MarkerOutcome::NoDirectory);
        all[3] = None;
        all
    };
    let outcomes = |results: Vec<Result<MarkerOutcome, MarkerError>>| {
        let results = results.into_iter();
        results.map(Result::ok).collect::<Vec<_>>()
    };
    let marks: Vec<_> = paths.iter().zip(&marks).collect();
    let created = markers.create_all(&marks);
    assert!(created[3].as_ref().is_err_and(|error| {
        let said = error.to_string();
        said.contains(paths[3].as_str()) && said.contains("shorter")
    }));
    assert_eq!(outcomes(created), expected(MarkerOutcome::Changed));
    for (path, mark) in [&marks[0], &marks[4], &marks[names.len() - 1]] {
        assert_eq!(markers.read(path).unwrap().as_ref(), Some(*mark));
    }
    assert_eq!(
        outcomes(markers.create_all(&marks)),
        expected(MarkerOutcome::Unchanged)
    );
    let paths: Vec<&MarkerPath> = paths.iter().collect();
    assert_eq!(
        outcomes(markers.remove_all(&paths)),
        expected(MarkerOutcome::Changed)
    );
    let left = fs::read_dir(directory.path()).unwrap();
    let mut left: Vec<_> = left.map(|entry| entry.unwrap().file_name()).collect();
    left.sort();
    assert_eq!(left, ["sub", "theirs.yaml.skip"]);
}

#[test]
fn a_marker_that_is_there_is_kept_where_only_missing_ones_are_made() {
    let directory = tempfile::tempdir().unwrap();
    let markers = Markers::new(directory.path());
    let (held, new) = (marker("held.yaml.skip"), marker("new.yaml.skip"));
    markers.create(&held, &mark("held.yaml")).unwrap();
    let mut other = mark("held.yaml");
    other.code = Code::Provisional;
    let results = markers.create_missing(&[(&held, &other), (&new, &mark("new.yaml"))]);
    let results: Vec<_> = results.into_iter().map(Result::unwrap).collect();
    assert_eq!(results, [MarkerOutcome::Unchanged, MarkerOutcome::Changed]);
    assert_eq!(markers.read(&held).unwrap(), Some(mark("held.yaml")));
}

#[test]
fn a_marker_that_another_process_makes_at_the_same_time_is_not_called_somebody_elses() {
    let directory = tempfile::tempdir().unwrap();
    for round in 0..200 {
        let file = format!("{round}.yaml");
        let path = marker(&format!("{file}.skip"));
        let start = std::sync::Barrier::new(2);
        // The daemon's first marker, and an operator's.
        let outcomes: Vec<MarkerOutcome> = std::thread::scope(|scope| {
            let make = |code| {
                let (markers, path, start) = (Markers::new(directory.path()), &path, &start);
                let mut mark = mark(&file);
                scope.spawn(move || {
                    mark.code = code;
                    start.wait();
                    markers.create(path, &mark).unwrap()
                })
            };
            let both = [make(Code::Provisional), make(Code::HeldByHand)];
            both.map(|one| one.join().unwrap()).into()
        });
        assert!(!outcomes.contains(&MarkerOutcome::Foreign), "{round}");
    }
    let left = fs::read_dir(directory.path()).unwrap();
    let left = left.map(|entry| entry.unwrap().file_name());
    let names: Vec<_> = left
        .filter(|name| name.to_string_lossy().starts_with('.'))
        .collect();
    assert!(names.is_empty(), "{names:?}");
}

#[test]
fn what_somebody_else_made_is_neither_replaced_nor_removed() {
    let directory = tempfile::tempdir().unwrap();
    let markers = Markers::new(directory.path());
    let at = |name: &str| directory.path().join(name);
    fs::write(at("empty.yaml.skip"), "").unwrap();
    fs::write(at("text.yaml.skip"), "{\"by\": \"harvester\"}").unwrap();
    fs::create_dir(at("directory.yaml.skip")).unwrap();
    symlink("/dev/null", at("link.yaml.skip")).unwrap();
    symlink("nowhere", at("dangling.yaml.skip")).unwrap();
    nix::unistd::mkfifo(&at("fifo.yaml.skip"), Mode::S_IRUSR).unwrap();
    for name in ["empty", "text", "directory", "link", "dangling", "fifo"] {
        let path = marker(&format!("{name}.yaml.skip"));
        let before = fs::symlink_metadata(at(path.as_str())).unwrap().file_type();
        let created = markers.create(&path, &mark(name)).unwrap();
        assert_eq!(created, MarkerOutcome::Foreign, "{name}");
        assert_eq!(
            markers.remove(&path).unwrap(),
            MarkerOutcome::Foreign,
            "{name}"
        );
        let after = fs::symlink_metadata(at(path.as_str())).unwrap().file_type();
        assert_eq!(after, before, "{name}");
    }
    assert_eq!(fs::read_dir(directory.path()).unwrap().count(), 6);
}

#[test]
fn a_marker_of_any_size_is_replaced_and_removed_as_ours() {
    let directory = tempfile::tempdir().unwrap();
    let markers = Markers::new(directory.path());
    let mut huge = mark("a.yaml");
    huge.why = "x".repeat(1 << 20).into();
    for act in ["replace", "remove"] {
        fs::write(directory.path().join("a.yaml.skip"), huge.to_json()).unwrap();
        let outcome = match act {
            "replace" => markers.create(&marker("a.yaml.skip"), &mark("a.yaml")),
            _ => markers.remove(&marker("a.yaml.skip")),
        };
        assert_eq!(outcome.unwrap(), MarkerOutcome::Changed, "{act}");
    }
    assert_eq!(fs::read_dir(directory.path()).unwrap().count(), 0);
}

#[test]
fn a_name_that_leaves_no_room_for_the_markers_is_said_to_be_too_long() {
    let directory = tempfile::tempdir().unwrap();
    let markers = Markers::new(directory.path());
    let named = |length: usize| marker(&("a".repeat(length) + ".skip"));
    let longest = named(250);
    let made = markers.create(&longest, &mark(&longest.hides())).unwrap();
    assert_eq!(made, MarkerOutcome::Changed);
    assert_eq!(markers.remove(&longest).unwrap(), MarkerOutcome::Changed);
    let error = markers.create(&named(251), &mark("a")).unwrap_err();
    let said = error.to_string();
    assert!(
        said.contains("256 bytes") && said.contains("shorter"),
        "{said}"
    );
}

#[test]
fn a_directory_of_a_name_that_is_too_long_is_no_fault_of_the_markers_name() {
    let directory = tempfile::tempdir().unwrap();
    let markers = Markers::new(directory.path());
    let path = format!("{}/a.yaml.skip", "d".repeat(300));
    let error = markers
        .create(&marker(&path), &mark("a"))
        .unwrap_err()
        .to_string();
    assert!(!error.contains("shorter"), "{error}");
    assert!(error.contains("a.yaml.skip"), "{error}");
}

#[test]
fn a_file_where_a_directory_was_has_its_marker_in_the_manifests_directory() {
    let directory = tempfile::tempdir().unwrap();
    let markers = Markers::new(directory.path());
    fs::write(directory.path().join("sub"), "").unwrap();
    let created = markers
        .create(&marker("sub/a.yaml.skip"), &mark("a"))
        .unwrap();
    assert_eq!(created, MarkerOutcome::Changed);
    assert!(directory.path().join("a.yaml.skip").exists());
}

#[test]
fn no_link_on_the_way_leads_a_marker_out_of_the_directory() {
    let directory = tempfile::tempdir().unwrap();
    let outside = tempfile::tempdir().unwrap();
    let markers = Markers::new(directory.path());
    symlink(outside.path(), directory.path().join("sub")).unwrap();
    // It hides `sub/a.yaml` from its own directory.
    let created = markers
        .create(&marker("sub/a.yaml.skip"), &mark("a.yaml"))
        .unwrap();
    assert_eq!(created, MarkerOutcome::Changed);
    assert!(directory.path().join("a.yaml.skip").exists());
    let removed = markers.remove(&marker("sub/a.yaml.skip")).unwrap();
    assert_eq!(removed, MarkerOutcome::Changed);
    for path in [
        "../a.yaml.skip",
        "/etc/a.yaml.skip",
        "a/../../b.skip",
        "a//b.skip",
    ] {
        let created = markers.create(&marker(path), &mark("a"));
        let error = created.unwrap_err().to_string();
        assert!(error.contains("plain path"), "{path}: {error}");
    }
    assert_eq!(fs::read_dir(outside.path()).unwrap().count(), 0);
}

#[test]
fn a_directory_that_is_gone_has_nothing_to_hold() {
    let directory = tempfile::tempdir().unwrap();
    let markers = Markers::new(directory.path().join("server/manifests"));
    for path in ["a.yaml.skip", "sub/a.yaml.skip"].map(marker) {
        let outcome = markers.create(&path, &mark("a")).unwrap();
        assert_eq!(outcome, MarkerOutcome::NoDirectory);
        assert_eq!(markers.remove(&path).unwrap(), MarkerOutcome::NoDirectory);
    }
}

#[test]
fn a_copy_of_a_marker_under_another_name_is_left_where_it_is() {
    let directory = tempfile::tempdir().unwrap();
    let markers = Markers::new(directory.path());
    let path = &marker("a.yaml.skip");
    markers.create(path, &mark("a.yaml")).unwrap();
    let copy = directory.path().join("b.yaml.skip");
    fs::copy(directory.path().join("a.yaml.skip"), &copy).unwrap();
    let removed = markers.remove(&marker("b.yaml.skip")).unwrap();
    assert_eq!(removed, MarkerOutcome::Foreign);
    assert!(copy.exists());
    assert_eq!(markers.remove(path).unwrap(), MarkerOutcome::Changed);
}
