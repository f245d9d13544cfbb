use std::fs;

use serde_json::json;

use super::*;
use crate::json_values::{ValueBudget, ValueError};

fn owner() -> ArchiveOwner {
    ArchiveOwner {
        host: "n1.example".to_owned(),
        created: "2026-11-21T20:15:00Z".parse().unwrap(),
    }
}

fn item(path: &str, content: CollectedContent) -> CollectedItem {
    CollectedItem {
        path: path.to_owned(),
        what: "a thing".to_owned(),
        source: "/somewhere".to_owned(),
        content,
        truncated: false,
    }
}

fn packed(collected: Collected) -> Vec<u8> {
    let mut bytes = Vec::new();
    pack(collected, &owner(), &mut bytes).unwrap();
    bytes
}

#[test]
fn the_committed_schema_is_that_of_the_index() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/docs/report.schema.json");
    let schema = serde_json::to_string_pretty(&schemars::schema_for!(ReportIndex)).unwrap() + "\n";
    if std::env::var_os("WINDROW_UPDATE").is_some() {
        fs::write(path, &schema).unwrap();
    }
    assert!(
        fs::read_to_string(path).unwrap_or_default() == schema,
        "docs/report.schema.json is not current: WINDROW_UPDATE=1 writes it"
    );
}

#[test]
fn an_archive_has_one_directory_named_after_host_and_time() {
    assert_eq!(owner().name(), "windrow-report-n1.example-20261121T201500Z");
    let odd = ArchiveOwner {
        host: "../a b/é".to_owned(),
        ..owner()
    };
    assert_eq!(odd.name(), "windrow-report-a-b-20261121T201500Z");
    let bytes = packed(Collected {
        items: vec![item("host/links", CollectedContent::Text("x".to_owned()))],
        ..Collected::default()
    });
    let mut archive = tar::Archive::new(flate2::read::GzDecoder::new(&bytes[..]));
    let names: Vec<String> = archive
        .entries()
        .unwrap()
        .map(|entry| entry.unwrap().path().unwrap().display().to_string())
        .collect();
    let at = |path: &str| format!("{}/{path}", owner().name());
    assert_eq!(names, [at("report.json"), at("host/links")]);
}

#[test]
fn what_is_packed_can_be_read_with_its_index() {
    let nodes = json!({"apiVersion": "v1", "kind": "List", "items": [{"kind": "Node"}]});
    let mut collected = Collected {
        items: vec![
            item(&objects_path("", "Node"), CollectedContent::Tree(nodes)),
            item(
                "manifests/m.yaml",
                CollectedContent::Trees(vec![json!(1), json!(2)]),
            ),
        ],
        ..Collected::default()
    };
    collected.missing("the journal", "it is not there");
    let archive = Archive::read(&packed(collected)[..]).unwrap();
    assert_eq!(archive.index.host, "n1.example");
    assert_eq!(archive.index.files[0].path, "cluster/core_Node.json");
    assert_eq!(archive.index.missing[0].why, "it is not there");
    assert_eq!(archive.objects("", "Node").unwrap()[0]["kind"], "Node");
    assert_eq!(archive.objects("", "Pod"), None);
    assert_eq!(archive.files["manifests/m.yaml"], b"1\n---\n2\n");
}

#[test]
fn a_secret_of_one_file_is_taken_out_of_all_the_others_and_of_the_index() {
    let secret = "Tr0ub4dor&3x";
    let mut collected = Collected {
        items: vec![
            item(
                "journal/a.log",
                CollectedContent::Text(format!("saw {secret} again")),
            ),
            item(
                "rke2/config.yaml",
                CollectedContent::Tree(json!({ "token": secret })),
            ),
        ],
        ..Collected::default()
    };
    collected.missing("a thing", format!("cannot open {secret}"));
    let bytes = packed(collected);
    let archive = Archive::read(&bytes[..]).unwrap();
    assert_eq!(archive.files["journal/a.log"], b"saw [redacted] again");
    assert_eq!(archive.index.missing[0].why, "cannot open [redacted]");
    assert_eq!(archive.index.redacted, 2);
}

#[test]
fn a_report_with_more_secrets_than_can_be_known_says_so() {
    for (room, is_full) in [(100, false), (10, true)] {
        let mut collected = Collected {
            learner: Learner::within(room),
            ..Collected::default()
        };
        collected.learner.secret("first-secret-1A");
        let missing = Archive::read(&packed(collected)[..]).unwrap().index.missing;
        let says_so = missing.iter().any(|missing| missing.what == MANY_SECRETS.0);
        assert_eq!(says_so, is_full);
    }
}

#[test]
fn json_without_items_is_not_a_list_of_objects() {
    let read = |json: &str| items_of(json.as_bytes(), &mut ValueBudget::default());
    for json in [
        "[]",
        "\"items\"",
        "7",
        "true",
        "null",
        "{}",
        r#"{"items": {}}"#,
    ] {
        assert_eq!(read(json), Err(ValueError::NoList), "{json}");
    }
    assert_eq!(read(r#"{"items": [7]}"#), Ok(vec![json!(7)]));
}

#[test]
fn what_is_no_archive_is_refused_with_what_to_do() {
    let refused = |bytes: &[u8]| Archive::read(bytes).unwrap_err().to_string();
    assert!(refused(b"not packed at all").contains("not an archive of windrow report"));
    let whole = packed(Collected::default());
    assert!(refused(&whole[..whole.len() / 2]).contains("cut off"));
    let mut builder = tar::Builder::new(GzEncoder::new(Vec::new(), Compression::default()));
    append(&mut builder, &owner(), "other.json", "{}").unwrap();
    let other = builder.into_inner().unwrap().finish().unwrap();
    assert!(refused(&other).contains("has no report.json"));
    let mut builder = tar::Builder::new(GzEncoder::new(Vec::new(), Compression::default()));
    let newer = r#"{"apiVersion": "windrow.dev/v9", "kind": "Report"}"#;
    append(&mut builder, &owner(), INDEX, newer).unwrap();
    let newer = builder.into_inner().unwrap().finish().unwrap();
    assert!(refused(&newer).contains("windrow.dev/v9"));
}

fn archive_of(index: &str, files: &[(&str, &str)]) -> Vec<u8> {
    let mut builder = tar::Builder::new(GzEncoder::new(Vec::new(), Compression::default()));
    append(&mut builder, &owner(), INDEX, index).unwrap();
    for (path, text) in files {
        append(&mut builder, &owner(), path, text).unwrap();
    }
    builder.into_inner().unwrap().finish().unwrap()
}

fn index_with(unknown: &str) -> String {
    let index = json!({
        "apiVersion": "windrow.dev/v1", "kind": "Report", "created": "2026-11-21T20:15:00Z", "host": "n",
        "windrow": "0", "files": [], "missing": [], "redacted": 0,
    });
    format!("{{\"unknown\": {unknown}, {}", &index.to_string()[1..])
}

#[test]
fn an_index_that_is_larger_than_windrow_writes_is_refused() {
    let values = |bytes: usize| index_with(&format!("[{}0]", "0,".repeat(bytes / 2)));
    assert!(Archive::read(&archive_of(&values(1 << 20), &[])[..]).is_ok());
    let refused = Archive::read(&archive_of(&values(4 << 20), &[])[..]).unwrap_err();
    assert!(
        matches!(refused, ReadError::FileTooLarge { .. }),
        "{refused}"
    );
    assert!(refused.to_string().contains("report.json"), "{refused}");
}

#[test]
fn a_long_path_is_read_and_one_longer_than_any_file_system_takes_is_refused() {
    let read = |length: usize| {
        let path = "a/".repeat(length / 2) + "b";
        let archive = Archive::read(&archive_of(&index_with("0"), &[(&path, "x")])[..])?;
        Ok::<_, ReadError>(archive.files.contains_key(&path))
    };
    assert!(read(20).unwrap());
    assert!(read(1000).unwrap());
    assert!(matches!(read(5000), Err(ReadError::TooLarge)));
}

#[test]
fn a_path_in_a_header_of_pax_is_read() {
    let mut builder = tar::Builder::new(GzEncoder::new(Vec::new(), Compression::default()));
    append(&mut builder, &owner(), INDEX, &index_with("0")).unwrap();
    let path = format!("x/{}", "a".repeat(150));
    builder
        .append_pax_extensions([("path", path.as_bytes())])
        .unwrap();
    let mut header = tar::Header::new_ustar();
    header.set_size(1);
    header.set_path("x/short").unwrap();
    header.set_cksum();
    builder.append(&header, &b"y"[..]).unwrap();
    let bytes = builder.into_inner().unwrap().finish().unwrap();
    let archive = Archive::read(&bytes[..]).unwrap();
    let names: Vec<&str> = archive.files.keys().map(String::as_str).collect();
    assert_eq!(names, [&path[2..]]);
}

#[test]
fn only_the_files_that_are_asked_for_are_in_memory() {
    let files = [("a.json", "{}"), ("b.json", "{}"), ("c/a.json", "{}")];
    let bytes = archive_of(&index_with("0"), &files);
    let Packed::Report(archive) = Packed::read(&bytes, &["a.json"]).unwrap() else {
        panic!("it is a report");
    };
    assert!(archive.files.keys().eq(["a.json"]));
}

#[test]
fn the_index_of_another_version_is_not_quoted_at_length() {
    let index = json!({"apiVersion": "x".repeat(10_000), "kind": "Report"}).to_string();
    let refused = Archive::read(&archive_of(&index, &[])[..]).unwrap_err();
    assert!(refused.to_string().len() < 300, "{refused}");
}

#[test]
fn a_file_that_no_source_claims_is_left_out_and_named() {
    let collected = Collected {
        items: vec![
            item("host/shadow", CollectedContent::Text("hunter2".to_owned())),
            item("host/routes", CollectedContent::Text("x".to_owned())),
        ],
        ..Collected::default()
    };
    let archive = Archive::read(&packed(collected)[..]).unwrap();
    assert!(archive.files.keys().eq(["host/routes"]));
    assert_eq!(archive.index.missing[0].what, "host/shadow");
    assert_eq!(archive.index.missing[0].why, UNKNOWN_SOURCE);
}

#[test]
fn a_file_for_which_a_reader_has_no_room_is_left_out_and_named() {
    let collected = Collected {
        items: vec![
            item("host/links", CollectedContent::Text("x".repeat(100_000))),
            item("host/routes", CollectedContent::Text("x".to_owned())),
        ],
        ..Collected::default()
    };
    let index = pack_within(50_000, collected, &owner(), io::sink()).unwrap();
    assert_eq!(index.files.len(), 1);
    assert_eq!(index.files[0].path, "host/routes");
    assert_eq!(index.missing[0].what, "host/links");
}

#[test]
fn names_that_lead_elsewhere_are_not_read() {
    let mut builder = tar::Builder::new(GzEncoder::new(Vec::new(), Compression::default()));
    append(&mut builder, &owner(), INDEX, &index_with("0")).unwrap();
    let mut header = tar::Header::new_gnu();
    header.set_size(1);
    header.as_mut_bytes()[..9].copy_from_slice(b"x/../evil");
    header.set_entry_type(tar::EntryType::Regular);
    header.set_cksum();
    builder.append(&header, &b"x"[..]).unwrap();
    let bytes = builder.into_inner().unwrap().finish().unwrap();
    assert!(Archive::read(&bytes[..]).unwrap().files.is_empty());
}

#[test]
fn a_copy_of_a_boot_log_that_was_cut_off_is_read_up_to_there() {
    let lines: String = (0..4000)
        .map(|line| format!("{{\"a\":{line}}}\n"))
        .collect();
    let mut packer = GzEncoder::new(Vec::new(), Compression::default());
    packer.write_all(lines.as_bytes()).unwrap();
    let packed = packer.finish().unwrap();
    let Ok(Packed::Flight(part)) = Packed::read(&packed[..packed.len() / 2], &[]) else {
        panic!("it is not read");
    };
    assert!(!part.is_empty() && lines.as_bytes().starts_with(&part));
}
