use std::sync::{Arc, Mutex};

use serde_json::json;
use windrow_rack::{Inventory, Rack, read_event};

use super::*;

fn start() -> Timestamp {
    Timestamp::constant(1_795_000_000, 0)
}

/// The number-th event of a machine.
fn report(machine: u64, number: u64) -> NodeReport {
    let event = json!({
        "specversion": "1.0", "id": format!("{machine}-{number}"), "type": "dev.windrow.node.phase",
        "data": {"hostname": format!("n{machine}"), "bootId": "b", "sequence": number, "uptimeSeconds": number,
            "readiness": "SettingUp", "phase": "api"},
    });
    let at = start() + SignedDuration::from_secs(i64::try_from(number).unwrap());
    read_event(event.to_string().as_bytes(), at).unwrap()
}

fn owner(records: impl Fn() -> Vec<(NodeIdentity, NodeRecord)> + Send + 'static) -> StoreOwner {
    StoreOwner {
        records: Box::new(records),
        folded: Box::new(|folded| folded.unwrap()),
    }
}

fn rack(restored: Restored) -> Rack {
    let mut rack = Rack::new(Inventory::default());
    for (identity, record) in restored.records {
        rack.restore(identity, record).unwrap();
    }
    for report in &restored.reports {
        rack.take(report).unwrap();
    }
    rack
}

#[tokio::test]
async fn what_was_kept_is_there_again_and_one_process_has_it() {
    let directory = tempfile::tempdir().unwrap();
    let (opened, restored) = Store::open(directory.path(), start()).unwrap();
    assert!(restored.reports.is_empty() && restored.notes.is_empty());
    let store = opened.start(owner(Vec::new)).unwrap();
    for number in 1..4 {
        store.keep(report(1, number)).await.unwrap();
    }
    assert!(matches!(
        Store::open(directory.path(), start()),
        Err(StoreError::InUse(_))
    ));
    // As after kill -9: the file now has every report that was confirmed.
    let copy = tempfile::tempdir().unwrap();
    fs::copy(directory.path().join(FILE), copy.path().join(FILE)).unwrap();
    let (_, restored) = Store::open(copy.path(), start()).unwrap();
    let expected: Vec<NodeReport> = (1..4).map(|number| report(1, number)).collect();
    assert_eq!(restored.reports, expected);
    assert!(restored.notes.is_empty(), "{:?}", restored.notes);
}

#[test]
fn nobody_else_reads_the_file_even_where_its_directory_is_open_to_all() {
    use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _};
    let directory = tempfile::tempdir().unwrap();
    let open = fs::Permissions::from_mode(0o755);
    fs::set_permissions(directory.path(), open).unwrap();
    let (_opened, _) = Store::open(directory.path(), start()).unwrap();
    let mode = fs::metadata(directory.path().join(FILE)).unwrap().mode();
    assert_eq!(mode & 0o777, 0o600);
}

#[tokio::test]
async fn what_there_is_too_much_of_is_folded_and_nothing_is_lost() {
    let directory = tempfile::tempdir().unwrap();
    let (opened, _) = Store::open(directory.path(), start()).unwrap();
    let known = Arc::new(Mutex::new(Rack::new(Inventory::default())));
    let shared = known.clone();
    let records = move || {
        let rack = shared.lock().unwrap();
        let records = rack.records();
        records
            .map(|(one, record)| (one.clone(), record.clone()))
            .collect()
    };
    let store = opened.start_within(10, 1 << 20, owner(records)).unwrap();
    for number in 1..200 {
        let report = report(number % 7, number);
        known.lock().unwrap().take(&report).unwrap();
        store.keep(report).await.unwrap();
    }
    // Its thread ends with it.
    drop(store);
    let restored = loop {
        match Store::open(directory.path(), start()) {
            Ok((_, restored)) => break restored,
            Err(StoreError::InUse(_)) => tokio::task::yield_now().await,
            Err(error) => panic!("{error}"),
        }
    };
    assert!(restored.reports.len() <= 10, "{}", restored.reports.len());
    assert_eq!(restored.records.len(), 7);
    let now = start() + SignedDuration::from_secs(300);
    assert_eq!(rack(restored).view(now), known.lock().unwrap().view(now));
    // A machine without news for long is forgotten.
    let (_, later) = Store::open(directory.path(), start() + KEPT + KEPT).unwrap();
    assert!(later.records.is_empty());
}

#[test]
fn what_another_version_wrote_is_counted() {
    let directory = tempfile::tempdir().unwrap();
    let (opened, _) = Store::open(directory.path(), start()).unwrap();
    let transaction = opened.database.as_ref().unwrap().begin_write().unwrap();
    {
        let mut reports = transaction.open_table(REPORTS).unwrap();
        let known = serde_json::to_vec(&report(1, 1)).unwrap();
        reports.insert(0, known.as_slice()).unwrap();
        reports.insert(1, b"[]".as_slice()).unwrap();
        let mut records = transaction.open_table(RECORDS).unwrap();
        records.insert("{}", b"of later".as_slice()).unwrap();
    }
    transaction.commit().unwrap();
    drop(opened);
    let (_, restored) = Store::open(directory.path(), start()).unwrap();
    assert_eq!(restored.reports, [report(1, 1)]);
    assert_eq!(restored.notes.len(), 1, "{:?}", restored.notes);
    let note = &restored.notes[0];
    assert!(note.ends_with("does not show: 2"), "{note}");
}

#[test]
fn of_a_file_with_more_than_is_kept_the_newest_is_read_and_the_rest_counted() {
    let directory = tempfile::tempdir().unwrap();
    let (mut opened, _) = Store::open(directory.path(), start()).unwrap();
    let reports: Vec<NodeReport> = (1..9).map(|number| report(number, number)).collect();
    let mut rack = Rack::new(Inventory::default());
    for report in &reports {
        rack.take(report).unwrap();
    }
    let records = rack.records();
    let records: Vec<_> = records
        .map(|(one, record)| (one.clone(), record.clone()))
        .collect();
    opened.fold(&records).unwrap();
    opened.append(&reports).unwrap();
    let now = start() + SignedDuration::from_secs(10);
    let all = read_within(opened.database.as_ref().unwrap(), now, 100, 1 << 20)
        .ok()
        .unwrap();
    assert_eq!(
        (all.reports.len(), all.records.len(), all.left_out),
        (8, 8, 0)
    );
    let half = all.held.iter().take(4).map(|held| held.bytes).sum();
    let some = read_within(opened.database.as_ref().unwrap(), now, 100, half)
        .ok()
        .unwrap();
    assert_eq!(some.reports, reports[4..]);
    let record = serde_json::to_vec(&records[7].1).unwrap().len();
    let some = read_within(opened.database.as_ref().unwrap(), now, 2, 2 * record + 10)
        .ok()
        .unwrap();
    let kept: Vec<&str> = some
        .records
        .iter()
        .map(|(one, _)| one.host.as_str())
        .collect();
    assert_eq!(kept, ["n8", "n7"]);
    assert!(some.reports.len() <= 4, "{}", some.reports.len());
    // The reports that are left out stay in the file until they are folded.
    assert_eq!(some.held.len(), 8);
    assert_eq!(some.left_out, 6 + 8 - some.reports.len());
}

#[tokio::test]
async fn that_reports_cannot_be_folded_is_said() {
    let directory = tempfile::tempdir().unwrap();
    let (opened, _) = Store::open(directory.path(), start()).unwrap();
    // Another table has the name, and another type.
    let transaction = opened.database.as_ref().unwrap().begin_write().unwrap();
    transaction.delete_table(RECORDS).unwrap();
    let other: TableDefinition<'_, u64, u64> = TableDefinition::new("records");
    transaction.open_table(other).unwrap();
    transaction.commit().unwrap();
    let (say, said) = mpsc::channel();
    let owner = StoreOwner {
        records: Box::new(Vec::new),
        folded: Box::new(move |folded| say.send(folded).unwrap()),
    };
    let store = opened.start_within(0, 0, owner).unwrap();
    store.keep(report(1, 1)).await.unwrap();
    // Its thread ends with it.
    drop(store);
    let why = said.recv().unwrap().unwrap_err();
    assert!(why.contains("records"), "{why}");
}

#[test]
fn a_file_that_cannot_be_read_is_set_aside() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join(FILE);
    let mut ends = Vec::new();
    for content in [
        &b"not a database"[..],
        &[0xff; 20_000],
        b"redb\x1a\x0a\xa9\x0d\x0a",
        &[&[0; 5000][..], b"x"].concat(),
    ] {
        fs::write(&path, content).unwrap();
        let (opened, restored) = Store::open(directory.path(), start()).unwrap();
        assert_eq!(restored.notes.len(), 1, "{:?}", restored.notes);
        ends.push(restored.notes[0].clone());
        drop(opened);
    }
    assert!(ends[1].contains("rack.redb.broken-2"), "{ends:?}");
    assert_eq!(
        fs::read(directory.path().join("rack.redb.broken-1")).unwrap(),
        b"not a database"
    );
    // A file in place of the directory is not a broken database.
    let file = directory.path().join("file");
    fs::write(&file, "").unwrap();
    assert!(matches!(
        Store::open(&file, start()),
        Err(StoreError::Io { .. })
    ));
}

/// A file whose process is killed after a number of calls that change it.
#[derive(Debug)]
struct DyingFile {
    file: FileBackend,
    left: Mutex<u32>,
}

impl DyingFile {
    fn alive(&self) -> io::Result<&FileBackend> {
        let mut left = self.left.lock().unwrap();
        *left = left.checked_sub(1).ok_or(io::ErrorKind::Other)?;
        Ok(&self.file)
    }
}

impl redb::StorageBackend for DyingFile {
    fn len(&self) -> io::Result<u64> {
        self.file.len()
    }

    fn read(&self, offset: u64, out: &mut [u8]) -> io::Result<()> {
        self.file.read(offset, out)
    }

    fn set_len(&self, len: u64) -> io::Result<()> {
        self.alive()?.set_len(len)
    }

    fn sync_data(&self) -> io::Result<()> {
        self.alive()?.sync_data()
    }

    fn write(&self, offset: u64, data: &[u8]) -> io::Result<()> {
        self.alive()?.write(offset, data)
    }
}

#[test]
fn a_file_that_was_being_made_when_the_power_went_is_made_again_without_a_word() {
    let mut calls = 0;
    loop {
        let directory = tempfile::tempdir().unwrap();
        let file = fs::File::create_new(directory.path().join(FILE)).unwrap();
        let file = DurableLength(DyingFile {
            file: FileBackend::new(file).unwrap(),
            left: Mutex::new(calls),
        });
        let made = Database::builder().create_with_backend(file);
        let finished = made.is_ok();
        drop(made);
        let (_, restored) = Store::open(directory.path(), start()).unwrap();
        assert!(restored.notes.is_empty(), "{calls}: {:?}", restored.notes);
        if finished {
            break;
        }
        calls += 1;
    }
    assert!(calls > 5, "{calls}");
}

/// A file that models the state on the disk: as a disk leaves it that loses its power after any write.
#[derive(Debug, Default, Clone)]
struct LosingFile(Arc<Mutex<LosingState>>);

#[derive(Debug, Default)]
struct LosingState {
    now: Vec<u8>,
    on_disk: u64,
    /// A header that relies on more than is on the disk.
    lost: bool,
}

impl redb::StorageBackend for LosingFile {
    fn len(&self) -> io::Result<u64> {
        Ok(self.0.lock().unwrap().now.len() as u64)
    }

    fn read(&self, offset: u64, out: &mut [u8]) -> io::Result<()> {
        let offset = usize::try_from(offset).unwrap();
        out.copy_from_slice(&self.0.lock().unwrap().now[offset..offset + out.len()]);
        Ok(())
    }

    fn set_len(&self, len: u64) -> io::Result<()> {
        let len = usize::try_from(len).unwrap();
        self.0.lock().unwrap().now.resize(len, 0);
        Ok(())
    }

    fn sync_data(&self) -> io::Result<()> {
        let mut state = self.0.lock().unwrap();
        state.on_disk = state.now.len() as u64;
        Ok(())
    }

    fn write(&self, offset: u64, data: &[u8]) -> io::Result<()> {
        let mut state = self.0.lock().unwrap();
        let at = usize::try_from(offset).unwrap();
        state.now[at..at + data.len()].copy_from_slice(data);
        state.lost |= state.on_disk < state.now.len() as u64;
        Ok(())
    }
}

#[test]
fn nothing_is_written_into_a_file_whose_length_a_power_cut_would_take_back() {
    let grow = |backend: Box<dyn Fn(LosingFile) -> Database>| {
        let file = LosingFile::default();
        let database = backend(file.clone());
        for number in 0..200 {
            let transaction = database.begin_write().unwrap();
            let bytes = vec![7; 20_000];
            let mut table = transaction.open_table(REPORTS).unwrap();
            table.insert(number, bytes.as_slice()).unwrap();
            drop(table);
            transaction.commit().unwrap();
        }
        file.0.lock().unwrap().lost
    };
    let create = |file| Database::builder().create_with_backend(file).unwrap();
    assert!(grow(Box::new(create)), "the library by itself");
    let create = |file| Database::builder().create_with_backend(DurableLength(file));
    assert!(!grow(Box::new(move |file| create(file).unwrap())));
}
