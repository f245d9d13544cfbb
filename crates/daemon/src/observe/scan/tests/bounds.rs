//! The amount that one scan reads, and the rest that it leaves to the next.

use super::*;

#[test]
fn a_large_file_is_not_read() {
    let dir = TempDir::new().unwrap();
    let file = File::create(dir.path().join("big.yaml")).unwrap();
    file.set_len(200 << 20).unwrap();
    let found = look(dir.path());
    assert_eq!(
        content(&found, "big.yaml"),
        FileContent::TooLarge { size: 200 << 20 }
    );
}

#[test]
fn a_large_directory_is_read_in_parts() {
    let dir = TempDir::new().unwrap();
    for name in ["a.yaml", "b.yaml", "c.yaml"] {
        write(dir.path().join(name), "x".repeat(60)).unwrap();
    }
    let limits = ReadLimits {
        directory_bytes: 100,
        ..ReadLimits::default()
    };
    let look = |seen: &FileStamps| match scan(dir.path(), &limits, seen, later()) {
        ScanResult::Found(found) => found,
        other => panic!("{other:?}"),
    };
    let mut seen = FileStamps::new();
    for expected in ["a.yaml", "b.yaml", "c.yaml"] {
        let found = look(&seen);
        assert_eq!(paths(&found), ["a.yaml", "b.yaml", "c.yaml"]);
        let mut read = Vec::new();
        for file in &found.files {
            match &file.state {
                ScannedContent::Read(FileContent::Bytes(_)) => read.push(file.path.as_str()),
                ScannedContent::Read(FileContent::NoRoom { size: 60 })
                | ScannedContent::Unchanged => {}
                other => panic!("{other:?}"),
            }
        }
        assert_eq!(read, [expected]);
        seen = found.stamps();
    }
}

#[test]
fn files_are_read_until_the_bound_is_reached_and_not_until_it_is_near() {
    let dir = TempDir::new().unwrap();
    for name in ["a.yaml", "b.yaml", "c.yaml"] {
        write(dir.path().join(name), "x".repeat(50)).unwrap();
    }
    let limits = ReadLimits {
        directory_bytes: 100,
        ..ReadLimits::default()
    };
    let ScanResult::Found(found) = scan(dir.path(), &limits, &FileStamps::new(), later()) else {
        panic!("it is there");
    };
    assert_eq!(content(&found, "b.yaml"), bytes(&"x".repeat(50)));
    let no_room = FileContent::NoRoom { size: 50 };
    assert_eq!(content(&found, "c.yaml"), no_room);
}

#[test]
fn a_whole_directory_is_read_in_eight_scans_at_most_and_what_had_no_room_is_said() {
    let dir = TempDir::new().unwrap();
    let names: Vec<String> = (0..10).map(|number| format!("{number}.yaml")).collect();
    for name in &names {
        write(dir.path().join(name), "x".repeat(60)).unwrap();
    }
    let limits = ReadLimits {
        directory_bytes: 100,
        ..ReadLimits::default()
    };
    let (mut read, mut left) = (Vec::new(), Vec::new());
    let markers = scan_whole(
        dir.path(),
        &limits,
        later(),
        &mut |path, content| match content {
            FileContent::NoRoom { .. } => left.push(path.to_string()),
            _ => read.push(path.to_string()),
        },
    );
    assert!(markers.is_some());
    assert_eq!((&*read, &*left), names.split_at(8));
}

#[test]
fn a_file_that_is_read_at_each_look_keeps_no_other_from_being_read() {
    let dir = TempDir::new().unwrap();
    for name in ["a.yaml", "b.yaml", "z.yaml"] {
        write(dir.path().join(name), "x".repeat(60)).unwrap();
    }
    let limits = ReadLimits {
        directory_bytes: 100,
        ..ReadLimits::default()
    };
    // The clock is behind: a file written just now may be written again with the same stamp.
    let now = Timestamp::UNIX_EPOCH;
    let mut seen = FileStamps::new();
    let mut read = Vec::new();
    for _ in 0..3 {
        let ScanResult::Found(found) = scan(dir.path(), &limits, &seen, now) else {
            panic!("it is there");
        };
        seen = found.stamps();
        read.extend(found.files.iter().filter_map(|file| match file.state {
            ScannedContent::Read(FileContent::Bytes(_)) => Some(file.path.clone()),
            _ => None,
        }));
    }
    assert_eq!(read, ["a.yaml", "b.yaml", "z.yaml"]);
}
