//! The union of boots by their ids, and the rows of a knowledge file.

use std::collections::BTreeMap;

use jiff::Timestamp;
use windrow_model::manifest::yaml;

use crate::bounds::{LARGEST_ROW, complaint};
use crate::row::ObservedBoot;

/// The maximum number of boots in a file: the newest ones.
pub const MOST_BOOTS: usize = 500;
/// The maximum number of boots in memory while more are read. A file takes the newest of them.
const MOST_IN_MEMORY: usize = 4 * MOST_BOOTS;
/// The maximum size of the rows of a file, in bytes. A node reads no configuration file of more than 4 MiB.
const MOST_BYTES: usize = 5 << 19;

/// One row for each boot; only the newest boots if there are too many.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct BootSet(BTreeMap<(Timestamp, String), ObservedBoot>);

/// The parts of a knowledge file that `windrow knowledge learn` uses.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct KnowledgeFile {
    /// Absent in a handwritten file.
    pub boots: Option<Vec<ObservedBoot>>,
    /// Sentences about the rows that could not be used.
    pub refused: Vec<String>,
}

impl BootSet {
    /// Adds a boot. If there are two rows for one boot, the one with more information stays.
    pub fn add(&mut self, boot: ObservedBoot) {
        let twin = self.0.keys().find(|(_, id)| *id == boot.id).cloned();
        let boot = match twin.and_then(|key| self.0.remove(&key)) {
            Some(known) => boot.or_better(known),
            None => boot,
        };
        self.0.insert((boot.at, boot.id.clone()), boot);
        if self.0.len() > MOST_IN_MEMORY {
            self.0.pop_first();
        }
    }

    /// The newest boots that fit in a file, in the order of age, the oldest first.
    pub fn boots(&self) -> Vec<&ObservedBoot> {
        let mut bytes = 0;
        let newest = self.0.values().rev().take(MOST_BOOTS);
        let mut kept: Vec<&ObservedBoot> = newest
            .take_while(|boot| {
                bytes += boot.line().len() + 3;
                bytes <= MOST_BYTES
            })
            .collect();
        kept.reverse();
        kept
    }

    /// Is this boot not in the set? A boot older than all boots of a full set may have been dropped.
    pub fn lacks(&self, boot: &ObservedBoot) -> bool {
        let is_full = self.0.len() >= MOST_IN_MEMORY;
        let oldest = self.0.values().next().filter(|_| is_full);
        let may_have_gone = oldest.is_some_and(|oldest| boot.at <= oldest.at);
        !may_have_gone && self.0.values().all(|one| one.id != boot.id)
    }

    /// The number of boots, including those that no file takes.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

impl FromIterator<ObservedBoot> for BootSet {
    fn from_iter<T: IntoIterator<Item = ObservedBoot>>(boots: T) -> Self {
        let mut set = Self::default();
        for boot in boots {
            set.add(boot);
        }
        set
    }
}

impl KnowledgeFile {
    /// Reads the rows of a knowledge file. `None` if the text is not such a file.
    pub fn read(text: &str) -> Option<Self> {
        let document = yaml::parse_configuration(text).ok()??;
        let is = |key: &str, value: &str| document.str_at(&[key]) == Some(value);
        if !is("apiVersion", "windrow.dev/v1") || !is("kind", "Knowledge") {
            return None;
        }
        let Some(entry) = document.entry("boots") else {
            return Some(Self::default());
        };
        let mut file = Self {
            boots: Some(Vec::new()),
            refused: Vec::new(),
        };
        let Some(rows) = entry.value.as_str() else {
            file.refused.push(format!(
                "line {}: `boots` has to be text with one boot a line",
                entry.line
            ));
            return Some(file);
        };
        for (number, row) in (entry.line + 1..).zip(rows.lines()) {
            if row.trim().is_empty() {
                continue;
            }
            match read_row(row) {
                Ok(boot) => file.boots.get_or_insert_default().push(boot),
                Err(why) => file.refused.push(format!("line {number}: {why}")),
            }
        }
        Some(file)
    }
}

fn read_row(row: &str) -> Result<ObservedBoot, String> {
    if row.len() > LARGEST_ROW {
        return Err("the boot is larger than a row can be, and is left out".to_owned());
    }
    let boot: ObservedBoot = serde_json::from_str(row)
        .map_err(|error| format!("not a boot that this program reads ({error}): left out"))?;
    match complaint(&boot) {
        Some(why) => Err(why),
        None => Ok(boot),
    }
}
