//! Level 5: the power of an emulated machine is cut while Windrow holds, releases and writes gates.
//!
//! `WINDROW_POWER_CUTS=50` sets the number of cuts (2), `WINDROW_SEED=n` their moments.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::time::{Duration, Instant};

use machine::say;
use qemu::{Disk, Guest, skipped};
use serde_json::Value;
use windrow_decide::{FileStage, Ledger, Mark};
use windrow_model::manifest::ManifestPath;

use crate::image::{CONFIG, DROP_IN, MANIFESTS, image};
use crate::support::machine;
use crate::support::qemu;

const STATE: &str = "/var/lib/rancher/windrow";

/// A generator of our own: the moments depend on the seed alone (SplitMix64).
struct Chance(u64);

impl Chance {
    fn below(&mut self, bound: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (z ^ (z >> 31)) % bound
    }
}

fn number(name: &str, default: u64) -> u64 {
    let set = std::env::var(name).ok();
    set.map_or(default, |text| {
        text.parse()
            .unwrap_or_else(|_| panic!("{name} is no number"))
    })
}

/// The seed of a node under load: its cloud-init does its work once, and the boots after a cut are quick.
const LOADED: &str = r#"#cloud-config
growpart: {mode: "off"}
resize_rootfs: false
write_files:
  - path: /etc/windrow/conf.d/20-site.yaml
    content: |
      platform: rke2
  - {path: /etc/windrow-load, content: ""}
  - {path: /etc/cloud/cloud-init.disabled, content: ""}
"#;

/// The promises of the guest (`tests/image/load`): the last word about each file, and about the gates.
#[derive(Default)]
struct Promises {
    /// `held` or `released`; absent while it is changing.
    files: BTreeMap<String, String>,
    /// Which set of gates; absent while it is changing.
    gates: Option<String>,
    /// What was begun, to report what a cut may have hit.
    begun: Vec<String>,
    count: usize,
}

impl Promises {
    fn heard(&mut self, line: &str) {
        assert!(!line.starts_with("failed"), "{line}");
        let Some((word, about)) = line.split_once(' ') else {
            return;
        };
        self.count += 1;
        match (word, word.strip_prefix('?')) {
            ("held" | "released", _) => {
                self.begun.retain(|begun| !begun.ends_with(about));
                self.files.insert(about.to_owned(), word.to_owned());
            }
            ("gates", _) => {
                self.begun.retain(|begun| !begun.starts_with("?gates"));
                self.gates = Some(about.to_owned());
            }
            (_, Some("gates")) => {
                self.gates = None;
                self.begun.retain(|begun| !begun.starts_with("?gates"));
                self.begun.push(line.to_owned());
            }
            (_, Some(_)) => {
                self.files.remove(about);
                self.begun.retain(|begun| !begun.ends_with(about));
                self.begun.push(line.to_owned());
            }
            _ => {}
        }
    }
}

/// The gates of a drop-in, or of a request.
fn gates_of(text: &str) -> BTreeSet<String> {
    const KNOWN: [&str; 2] = ["APIResponseCompression", "StorageVersionHash"];
    let plain = text.replace(['"', ' '], "").replace(':', "=");
    KNOWN
        .iter()
        .flat_map(|gate| [format!("{gate}=true"), format!("{gate}=false")])
        .filter(|gate| plain.contains(gate.as_str()))
        .collect()
}

/// The sets that the load asks for, in its order.
fn asked() -> [BTreeSet<String>; 3] {
    let set = |gates: &[&str]| gates.iter().map(|&gate| gate.to_owned()).collect();
    [
        set(&["APIResponseCompression=false"]),
        set(&["APIResponseCompression=true", "StorageVersionHash=false"]),
        set(&["StorageVersionHash=true"]),
    ]
}

/// What one cut left.
#[derive(Debug, Default)]
struct Left {
    temporaries: usize,
    careless: usize,
    careless_broken: usize,
}

/// Judges a disk after a cut: nothing of Windrow's is half-written, and every promise is kept.
fn judge_disk(root: &Path, promises: &Promises) -> Left {
    let mut left = Left::default();
    let entries = |path: &str| -> BTreeMap<String, Vec<u8>> {
        let Ok(entries) = std::fs::read_dir(root.join(path.trim_start_matches('/'))) else {
            return BTreeMap::new();
        };
        entries
            .map(|entry| entry.expect("an entry"))
            .filter(|entry| entry.path().is_file())
            .map(|entry| {
                let name = entry.file_name().to_string_lossy().into_owned();
                (name, std::fs::read(entry.path()).expect("a file"))
            })
            .collect()
    };
    let temporary = |name: &str| name.starts_with(".windrow-") && name.ends_with(".tmp");
    let shown = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();

    let manifests = entries(MANIFESTS);
    for (name, content) in &manifests {
        if temporary(name) {
            left.temporaries += 1;
        } else if name.ends_with(".skip") {
            let mark = Mark::parse(content);
            assert!(mark.is_some(), "{name} is no marker: {:?}", shown(content));
        }
    }
    // What the daemon has not read yet is on the disk as a request, and it may be busy with the one before it.
    let requests = entries(&format!("{STATE}/requests"));
    // A release stands in the ledger before its marker goes; the next start takes the marker away.
    let ledger = entries(STATE).remove("ledger.json");
    let ledger = ledger.and_then(|content| serde_json::from_slice::<Ledger>(&content).ok());
    let let_through = |name: &String| {
        let path = ManifestPath::from(name.as_str());
        let entry = ledger.as_ref().and_then(|ledger| ledger.files.get(&path));
        entry.is_some_and(|entry| !matches!(entry.state, FileStage::Held { .. }))
    };
    for (name, word) in &promises.files {
        let there = manifests.contains_key(&format!("{name}.skip"));
        let asked = requests
            .keys()
            .any(|request| request.contains(name.as_str()));
        assert!(
            asked || there == (word == "held") || (there && let_through(name)),
            "{name} was said to be {word}"
        );
    }

    for (name, content) in entries(CONFIG) {
        if temporary(&name) {
            left.temporaries += 1;
            continue;
        }
        assert_eq!(name, DROP_IN);
        let gates = gates_of(&shown(&content));
        assert!(
            asked().contains(&gates) && content.ends_with(b"\n"),
            "no set that was asked for: {:?}",
            shown(&content)
        );
    }
    if let Some(gates) = &promises.gates {
        let wanted = &asked()[gates.parse::<usize>().expect("a number")];
        let drop_in = entries(CONFIG).remove(DROP_IN).unwrap_or_default();
        assert_eq!(&gates_of(&shown(&drop_in)), wanted, "gates were promised");
    }

    for (name, content) in entries(STATE) {
        assert!(!name.contains("corrupt"), "{name}: a ledger was set aside");
        if temporary(&name) {
            left.temporaries += 1;
        } else if name == "ledger.json" {
            let ledger = serde_json::from_slice::<Ledger>(&content);
            assert!(ledger.is_ok(), "{ledger:?} {:?}", shown(&content));
        }
    }
    for place in ["gates", "gates/last-known-good", "requests"] {
        for (name, content) in entries(&format!("{STATE}/{place}")) {
            if temporary(&name) {
                left.temporaries += 1;
            } else if name.ends_with(".json") {
                let value = serde_json::from_slice::<Value>(&content);
                assert!(value.is_ok(), "{place}/{name}: {:?}", shown(&content));
            }
        }
    }

    for (name, content) in entries("/var/lib/rancher/careless") {
        if !name.starts_with('.') {
            left.careless += 1;
            left.careless_broken += usize::from(content.len() != 4000);
        }
    }
    left
}

/// Judges the boot after a cut: Windrow has come to what the disk asks for.
fn judge_boot(facts: &str, promises: &Promises) {
    let facts: Value = serde_json::from_str(facts).expect("facts");
    let text = |name: &str| facts[name].as_str().unwrap_or_default().to_owned();
    assert_eq!(text("active"), "active", "{facts:#}");
    let there = facts["manifests"].as_object().expect("the directory");
    for (name, word) in &promises.files {
        let marked = there.contains_key(&format!("{name}.skip"));
        assert_eq!(marked, word == "held", "{name} was {word}: {facts:#}");
    }
    // A file whose kind is not served and that was never released is held.
    for (name, content) in there.iter().filter(|(name, _)| name.starts_with("load-")) {
        if name.ends_with(".skip") {
            let mark = content
                .as_str()
                .and_then(|text| Mark::parse(text.as_bytes()));
            assert!(mark.is_some(), "{name}: {content}");
        }
    }
    let wishes = gates_of(&text("wishes"));
    assert_eq!(gates_of(&text("dropIn")), wishes, "{facts:#}");
    let state = facts["state"].to_string();
    assert!(!state.contains("corrupt"), "{state}");
    let failed = &facts["status"]["staging"]["failed"];
    assert!(
        failed.as_array().is_none_or(Vec::is_empty),
        "{failed}: {facts:#}"
    );
}

/// Lets the load send this many words, and cuts within the time that the next one takes.
fn cut(guest: Guest, promises: &mut Promises, chance: &mut Chance) {
    let words = 3 + chance.below(30);
    let began = Instant::now();
    for _ in 0..words {
        promises.heard(&guest.next());
    }
    let one = u64::try_from(began.elapsed().as_micros()).unwrap_or(u64::MAX) / words;
    let until = Instant::now() + Duration::from_micros(chance.below(one.max(1)));
    while let Some(line) = guest.within(until.saturating_duration_since(Instant::now())) {
        promises.heard(&line);
    }
    for line in guest.cut() {
        promises.heard(&line);
    }
}

#[test]
fn a_power_cut_leaves_nothing_half_written_and_windrow_goes_on_where_it_was() {
    if skipped() {
        return;
    }
    let cuts = number("WINDROW_POWER_CUTS", 2);
    let seed = number("WINDROW_SEED", 1);
    let mut chance = Chance(seed);
    let disk = Disk::new(image(), LOADED);
    let mut promises = Promises::default();
    let mut total = Left::default();
    for cut_number in 1..=cuts {
        let guest = disk.boot();
        judge_boot(&guest.wait_for("facts"), &promises);
        guest.wait_for("load");
        cut(guest, &mut promises, &mut chance);
        let read = disk.read_back(&["/var/lib/rancher", "/etc/rancher"]);
        let left = judge_disk(read.path(), &promises);
        say(&format!(
            "cut {cut_number} of {cuts} (seed {seed}) after {} words, within {:?}: {left:?}",
            promises.count, promises.begun
        ));
        promises.count = 0;
        total.temporaries = left.temporaries;
        total.careless += left.careless;
        total.careless_broken += left.careless_broken;
    }
    let guest = disk.boot();
    judge_boot(&guest.wait_for("facts"), &promises);
    say(&format!(
        "{cuts} cuts: all of Windrow's files whole; of {} files of a careless writer {} broken",
        total.careless, total.careless_broken
    ));
}
