use super::*;

#[test]
fn a_name_that_is_hidden_from_another_directory_has_its_marker_there() {
    let directory = tempfile::tempdir().unwrap();
    std::fs::create_dir(directory.path().join("other")).unwrap();
    std::fs::write(directory.path().join("other/a.yaml.skip"), "").unwrap();
    let found = list_manifests(directory.path(), Timestamp::now()).unwrap();
    let marker = found.markers[0].clone();
    assert_eq!(
        marker_of(&"sub/a.yaml".into(), std::slice::from_ref(&marker)),
        "other/a.yaml.skip"
    );
    assert_eq!(marker_of(&"b.yaml".into(), &[marker]), "b.yaml.skip");
}

#[test]
fn a_request_that_the_disk_does_not_take_lasts_as_long_as_the_boot() {
    let root = tempfile::tempdir().unwrap();
    let layout = Layout::new(root.path());
    let manifests = layout.manifests();
    std::fs::create_dir_all(&manifests).unwrap();
    std::fs::write(manifests.join("a.yaml"), "").unwrap();
    // The state directory cannot be made, or has no free space.
    std::fs::write(layout.state_dir(), "").unwrap();
    let order = Order {
        layout: &layout,
        by: "ann",
        reason: "test",
        at: Timestamp::UNIX_EPOCH,
    };
    let file = ["a.yaml".to_owned()];
    assert_eq!(
        hold(&order, &file).unwrap()[0].result,
        Ok(ManualChange::Held)
    );
    let released = release(&order, Which::Named(&file), &ReadLimits::default()).unwrap();
    assert_eq!(released[0].result, Ok(ManualChange::Released));
    // They have the same time and file, so the later one is kept.
    let laid = crate::observe::requests::read_spool(&layout.run_dir().join("requests"));
    let laid = laid.unwrap();
    assert_eq!(laid.len(), 1);
    let laid = laid[0].1.as_ref().unwrap();
    assert!(!laid.manual().hold);
    // Only for that content.
    let content = FileContent::Bytes(Vec::new());
    let read = manifest::read("a.yaml", &content, &ReadLimits::default());
    assert_eq!(laid.digest, Some(read.digest));
}

#[test]
fn what_no_marker_hides_is_not_held_and_says_why() {
    use std::ffi::OsStr;
    use std::os::unix::ffi::OsStrExt as _;

    let root = tempfile::tempdir().unwrap();
    let layout = Layout::new(root.path());
    let manifests = layout.manifests();
    std::fs::create_dir_all(&manifests).unwrap();
    std::os::unix::fs::symlink("nowhere", manifests.join("a.yaml")).unwrap();
    let name = OsStr::from_bytes(b"\xff.yaml");
    std::fs::write(manifests.join(name), "").unwrap();
    let order = Order {
        layout: &layout,
        by: "ann",
        reason: "test",
        at: Timestamp::UNIX_EPOCH,
    };
    for (file, why) in [("a.yaml", "leads nowhere"), ("\\xff.yaml", "not UTF-8")] {
        let held = hold(&order, &[file.to_owned()]).unwrap();
        let said = held[0].result.as_ref().unwrap_err();
        assert!(said.contains(why), "{said}");
    }
    assert_eq!(list_manifests(&manifests, order.at).unwrap().markers, []);
}

#[test]
fn what_is_rke2s_own_is_neither_held_nor_released() {
    let root = tempfile::tempdir().unwrap();
    let layout = Layout::new(root.path());
    let manifests = layout.manifests();
    std::fs::create_dir_all(&manifests).unwrap();
    std::fs::write(manifests.join("rke2-canal.yaml"), "").unwrap();
    let order = Order {
        layout: &layout,
        by: "ann",
        reason: "test",
        at: Timestamp::UNIX_EPOCH,
    };
    let file = ["rke2-canal.yaml".to_owned()];
    let limits = ReadLimits::default();
    let release = || release(&order, Which::Named(&file), &limits).unwrap();
    let held = hold(&order, &file).unwrap();
    for outcome in [&held[0], &release()[0]] {
        let said = outcome.result.as_ref().unwrap_err();
        assert!(said.contains("RKE2's own"), "{said}");
    }
    assert_eq!(list_manifests(&manifests, order.at).unwrap().markers, []);
    assert!(!layout.run_dir().exists() && !layout.state_dir().exists());

    // A file that an earlier version has hidden comes back.
    let path = ManifestPath::from("rke2-canal.yaml");
    let mark = Mark::provisional(&path, order.at);
    let made = Markers::new(&manifests).create(&path.marker(), &mark);
    assert_eq!(made.unwrap(), MarkerOutcome::Changed);
    assert_eq!(release()[0].result, Ok(ManualChange::Released));
    assert_eq!(list_manifests(&manifests, order.at).unwrap().markers, []);
    assert!(!layout.run_dir().exists() && !layout.state_dir().exists());
}

/// A root with one manifest, `a.yaml`.
fn root_with_manifest() -> (tempfile::TempDir, Layout) {
    let root = tempfile::tempdir().unwrap();
    let layout = Layout::new(root.path());
    std::fs::create_dir_all(layout.manifests()).unwrap();
    std::fs::write(layout.manifests().join("a.yaml"), "").unwrap();
    (root, layout)
}

fn order(layout: &Layout) -> Order<'_> {
    Order {
        layout,
        by: "ann",
        reason: "test",
        at: Timestamp::UNIX_EPOCH,
    }
}

#[test]
fn the_daemon_can_know_of_an_order_before_its_marker_changes() {
    use nix::sys::inotify::{AddWatchFlags, InitFlags, Inotify};

    let (_root, layout) = root_with_manifest();
    let [spool, _] = crate::orders::spool::spools(&layout);
    std::fs::create_dir_all(&spool).unwrap();
    let inotify = Inotify::init(InitFlags::IN_NONBLOCK).unwrap();
    let changes = AddWatchFlags::IN_CREATE | AddWatchFlags::IN_MOVED_TO | AddWatchFlags::IN_DELETE;
    let requests = inotify.add_watch(&spool, changes).unwrap();
    inotify.add_watch(&layout.manifests(), changes).unwrap();
    // The events of one instance come in the order of the changes.
    let first_of_each = || {
        let events = inotify.read_events().unwrap();
        let of_requests = |event: &&nix::sys::inotify::InotifyEvent| {
            event.wd == requests && event.mask.contains(AddWatchFlags::IN_MOVED_TO)
        };
        let is_marker = |event: &nix::sys::inotify::InotifyEvent| {
            event.name.as_deref() == Some("a.yaml.skip".as_ref())
        };
        let published = events.iter().position(|event| of_requests(&event));
        (published, events.iter().position(is_marker))
    };
    let file = ["a.yaml".to_owned()];
    hold(&order(&layout), &file).unwrap();
    let (published, marked) = first_of_each();
    assert!(published.unwrap() < marked.unwrap(), "hold");
    release(&order(&layout), Which::Named(&file), &ReadLimits::default()).unwrap();
    let (published, unmarked) = first_of_each();
    assert!(published.unwrap() < unmarked.unwrap(), "release");
}

#[test]
fn an_order_that_failed_is_taken_back_unless_the_daemon_has_taken_it() {
    let (_root, layout) = root_with_manifest();
    let [spool, _] = crate::orders::spool::spools(&layout);
    let publish = || {
        let digests = BTreeMap::new();
        let file = "a.yaml".into();
        publish_file_request(&order(&layout), RequestAction::Release, &file, digests).unwrap()
    };
    let path = || {
        std::fs::read_dir(&spool)
            .unwrap()
            .next()
            .unwrap()
            .unwrap()
            .path()
    };
    assert_eq!(withdraw(publish()), "");
    assert_eq!(std::fs::read_dir(&spool).unwrap().count(), 0);
    let request = publish();
    let path = path();
    assert!(crate::observe::requests::take(path.clone()).is_some());
    assert!(withdraw(request).contains("the daemon has the order"));
    let read = crate::observe::requests::read_spool(&spool).unwrap();
    assert!(
        matches!(read.as_slice(), [(_, Ok(_))]),
        "it is read after a restart: {read:?}"
    );
    let request = publish();
    assert_eq!(withdraw(request), "");
    assert_eq!(
        crate::observe::requests::take(path),
        None,
        "it was taken back"
    );
}
