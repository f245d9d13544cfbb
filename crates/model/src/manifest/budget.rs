//! The memory that values may take, counted before it is allocated. 16 MiB of `[],` are five million lists, and an
//! alias of eight bytes may expand to a megabyte.

use super::{MapEntry, Node, NodeValue, Problem, ReadLimits};
use crate::reasons::Code;
use crate::text;

/// Most problems that are reported for one file.
pub const MOST_PROBLEMS: usize = 1000;

/// Bytes that the allocator adds to each allocation.
const OVERHEAD: usize = 16;

pub(super) struct MemoryBudget {
    left: usize,
}

/// No memory is left.
pub(super) struct BudgetSpent;

impl MemoryBudget {
    /// `taken` is the memory that the documents before this one take.
    pub(super) fn new(limits: &ReadLimits, taken: usize) -> Self {
        Self {
            left: limits.expanded_bytes.saturating_sub(taken),
        }
    }

    pub(super) fn take(&mut self, bytes: usize) -> Result<(), BudgetSpent> {
        self.left = self.left.checked_sub(bytes).ok_or(BudgetSpent)?;
        Ok(())
    }

    /// Takes the memory by which one more item makes a list grow.
    pub(super) fn grow<T>(&mut self, items: &Vec<T>) -> Result<(), BudgetSpent> {
        self.grow_by(items, 1)
    }

    /// Takes the memory by which `more` items make a list grow.
    pub(super) fn grow_by<T>(&mut self, items: &Vec<T>, more: usize) -> Result<(), BudgetSpent> {
        let (needed, there) = (items.len() + more, items.capacity());
        if needed <= there {
            return Ok(());
        }
        self.take((needed.max(2 * there).max(4) - there) * size_of::<T>())
    }

    pub(super) fn give(&mut self, bytes: usize) {
        self.left += bytes;
    }

    /// Gives back the unused capacity of a finished list.
    pub(super) fn trim<T>(&mut self, items: &mut Vec<T>) {
        let before = items.capacity();
        if items.len() <= before / 2 {
            items.shrink_to_fit();
            self.give((before - items.capacity()) * size_of::<T>());
        }
    }
}

pub(super) fn memory_of_text(text: &str) -> usize {
    match text.len() {
        0 => 0,
        length => length + OVERHEAD,
    }
}

pub fn memory_of_node(node: &Node) -> usize {
    match &node.value {
        NodeValue::Null | NodeValue::Bool(_) | NodeValue::Number(_) => 0,
        NodeValue::String(text) => memory_of_text(text),
        NodeValue::Sequence(items) => {
            items.capacity() * size_of::<Node>() + items.iter().map(memory_of_node).sum::<usize>()
        }
        NodeValue::Mapping(entries) => {
            let behind =
                |entry: &MapEntry| memory_of_text(&entry.key) + memory_of_node(&entry.value);
            entries.capacity() * size_of::<MapEntry>() + entries.iter().map(behind).sum::<usize>()
        }
    }
}

/// The message about a document that exceeds the memory limit, alone or together with the documents before it.
pub(super) fn exceeded(limits: &ReadLimits, taken: usize) -> String {
    let what = match taken {
        0 => "document",
        _ => "documents up to this one",
    };
    let their = match taken {
        0 => "its",
        _ => "their",
    };
    format!(
        "the values of the {what}, {their} aliases written out, would take more than {} of memory, so Windrow cannot predict how RKE2 reads it; split it, or raise staging.limits.expandedBytes",
        shown(limits.expanded_bytes as u64)
    )
}

/// A size, with its unit.
pub(super) fn shown(bytes: u64) -> String {
    match bytes {
        bytes if bytes >= 1 << 20 && bytes.is_multiple_of(1 << 20) => {
            format!("{} MiB", bytes >> 20)
        }
        bytes if bytes >= 1 << 10 && bytes.is_multiple_of(1 << 10) => {
            format!("{} KiB", bytes >> 10)
        }
        bytes => format!("{bytes} bytes"),
    }
}

/// Keeps only the problems that will be reported.
pub(super) fn cut(problems: &mut Vec<Problem>) {
    const LONGEST: usize = 2000;
    if problems.len() > MOST_PROBLEMS {
        problems.truncate(MOST_PROBLEMS);
        problems.push(Problem {
            code: Code::LimitExceeded,
            line: None,
            message: format!(
                "only the first {MOST_PROBLEMS} of its problems are reported; fix these first"
            ),
        });
    }
    for problem in problems {
        problem.message = text::cut(std::mem::take(&mut problem.message), LONGEST);
    }
}
