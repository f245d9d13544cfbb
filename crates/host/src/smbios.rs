//! Reads memory modules from the tables of the firmware, as Linux provides them (`/sys/firmware/dmi/tables/DMI`). The layouts are
//! from the System Management BIOS Reference Specification (DSP0134): types 17 (memory device) and 19 (memory array mapped
//! address).

use crate::MemoryModule;

const MEMORY_DEVICE: u8 = 17;
const MAPPED_ADDRESS: u8 = 19;
const END: u8 = 127;
const KIB: u64 = 1 << 10;
const MIB: u64 = 1 << 20;
/// No board has more modules.
const MOST_MODULES: usize = 256;

#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct InstalledMemory {
    /// The modules by slot, without empty slots.
    pub modules: Vec<MemoryModule>,
    /// Mapped bytes; `None` if the tables do not contain them.
    pub mapped: Option<u64>,
}

/// Reads the tables. Truncated or inconsistent structures are ignored.
pub fn installed_memory(tables: &[u8]) -> InstalledMemory {
    let mut found = InstalledMemory::default();
    let mut rest = tables;
    while let Some((structure, after)) = next(rest) {
        rest = after;
        match structure.kind() {
            MEMORY_DEVICE if found.modules.len() < MOST_MODULES => {
                found.modules.extend(structure.module());
            }
            MAPPED_ADDRESS => {
                if let Some(bytes) = structure.mapped() {
                    found.mapped = Some(found.mapped.unwrap_or_default().saturating_add(bytes));
                }
            }
            END => break,
            _ => {}
        }
    }
    found.modules.sort();
    found
}

/// A structure: its formatted part and the strings after it.
struct Structure<'t> {
    formatted: &'t [u8],
    texts: &'t [u8],
}

fn next(tables: &[u8]) -> Option<(Structure<'_>, &[u8])> {
    let length = usize::from(*tables.get(1)?);
    if length < 4 {
        return None;
    }
    let (formatted, behind) = tables.split_at_checked(length)?;
    // An empty string ends the strings.
    let end = behind.windows(2).position(|pair| pair == [0, 0])?;
    let (texts, rest) = behind.split_at_checked(end + 2)?;
    Some((Structure { formatted, texts }, rest))
}

impl Structure<'_> {
    fn kind(&self) -> u8 {
        self.formatted.first().copied().unwrap_or(END)
    }

    fn bytes<const N: usize>(&self, at: usize) -> Option<[u8; N]> {
        self.formatted.get(at..at + N)?.try_into().ok()
    }

    fn word(&self, at: usize) -> Option<u16> {
        self.bytes(at).map(u16::from_le_bytes)
    }

    fn double_word(&self, at: usize) -> Option<u32> {
        self.bytes(at).map(u32::from_le_bytes)
    }

    fn quad_word(&self, at: usize) -> Option<u64> {
        self.bytes(at).map(u64::from_le_bytes)
    }

    /// The string whose number is at an offset.
    fn text(&self, at: usize) -> Option<String> {
        let number = usize::from(*self.formatted.get(at)?).checked_sub(1)?;
        let text = self.texts.split(|byte| *byte == 0).nth(number)?;
        let text = String::from_utf8_lossy(text).trim().to_owned();
        (!text.is_empty()).then_some(text)
    }

    fn module(&self) -> Option<MemoryModule> {
        const UNKNOWN: u16 = 0xffff;
        const EXTENDED: u16 = 0x7fff;
        const IN_KIB: u16 = 0x8000;
        let size = match self.word(0x0c)? {
            0 | UNKNOWN => return None,
            EXTENDED => u64::from(self.double_word(0x1c)? & 0x7fff_ffff).saturating_mul(MIB),
            kib if kib & IN_KIB != 0 => u64::from(kib & !IN_KIB).saturating_mul(KIB),
            mib => u64::from(mib).saturating_mul(MIB),
        };
        let slot = self.text(0x10).or_else(|| self.text(0x11));
        let slot = slot.unwrap_or_else(|| "(a slot without a name)".to_owned());
        Some(MemoryModule { slot, size })
    }

    fn mapped(&self) -> Option<u64> {
        const EXTENDED: u32 = 0xffff_ffff;
        let (first, last, unit) = match self.double_word(0x04)? {
            EXTENDED => (self.quad_word(0x0f)?, self.quad_word(0x17)?, 1),
            start => (start.into(), self.double_word(0x08)?.into(), KIB),
        };
        let units = last.checked_sub(first)?.checked_add(1)?;
        units.checked_mul(unit)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn structure(kind: u8, length: u8, fields: &[(usize, &[u8])], texts: &[&str]) -> Vec<u8> {
        let mut bytes = vec![0; usize::from(length)];
        (bytes[0], bytes[1]) = (kind, length);
        for (at, field) in fields {
            bytes[*at..*at + field.len()].copy_from_slice(field);
        }
        for text in texts {
            bytes.extend(text.as_bytes());
            bytes.push(0);
        }
        if texts.is_empty() {
            bytes.push(0);
        }
        bytes.push(0);
        bytes
    }

    fn module(size: u16, extended: u32, slot: &str) -> Vec<u8> {
        let fields: [(usize, &[u8]); 3] = [
            (0x0c, &size.to_le_bytes()),
            (0x10, &[1]),
            (0x1c, &extended.to_le_bytes()),
        ];
        structure(17, 0x28, &fields, &[slot])
    }

    #[test]
    fn modules_are_read_by_slot_in_each_way_of_writing_a_size_and_empty_slots_are_none() {
        let tables = [
            structure(0, 24, &[], &["Vendor", "1.0"]),
            module(0x7fff, 64 * 1024, "DIMM B1"),
            module(16 * 1024, 0, "DIMM A1"),
            module(0, 0, "DIMM A2"),
            module(0xffff, 0, "DIMM A3"),
            module(0x8000 | 512, 0, "flash"),
            structure(127, 4, &[], &[]),
            module(1024, 0, "behind the end"),
        ]
        .concat();
        let found = installed_memory(&tables);
        let shown: Vec<(&str, u64)> = found
            .modules
            .iter()
            .map(|one| (one.slot.as_str(), one.size / KIB))
            .collect();
        assert_eq!(
            shown,
            [("DIMM A1", 16 << 20), ("DIMM B1", 64 << 20), ("flash", 512)]
        );
        assert_eq!(found.mapped, None);
    }

    #[test]
    fn mapped_ranges_are_added_whatever_they_are_counted_in() {
        let low: [(usize, &[u8]); 2] = [
            (0x04, &0_u32.to_le_bytes()),
            (0x08, &(2 * 1024 * 1024 - 1_u32).to_le_bytes()),
        ];
        let high: [(usize, &[u8]); 3] = [
            (0x04, &u32::MAX.to_le_bytes()),
            (0x0f, &(4_u64 << 30).to_le_bytes()),
            (0x17, &((66_u64 << 30) - 1).to_le_bytes()),
        ];
        let tables = [structure(19, 31, &low, &[]), structure(19, 31, &high, &[])].concat();
        assert_eq!(installed_memory(&tables).mapped, Some(64 << 30));
    }

    #[test]
    fn a_table_with_more_modules_than_a_board_can_have_is_read_up_to_a_bound() {
        let tables = module(1024, 0, "DIMM").repeat(MOST_MODULES + 1);
        assert_eq!(installed_memory(&tables).modules.len(), MOST_MODULES);
    }

    proptest! {
        #[test]
        fn no_table_is_too_broken_to_read(tables in proptest::collection::vec(any::<u8>(), 0..400)) {
            installed_memory(&tables);
        }
    }
}
