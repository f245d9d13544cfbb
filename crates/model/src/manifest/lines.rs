//! Maps lines of an inner file to lines of the outer one.

use std::cell::OnceCell;

use crate::manifest::Node;

/// How lines of an extracted file map to lines of the outer one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum InnerLines {
    /// A literal block (`content: |`): its first line is this one, and the others follow.
    Follow {
        /// Line of the outer file, counted from 1.
        first: u32,
    },
    /// Quoted, plain, folded, encoded or appended text: only its first line can be determined, and every problem inside
    /// is reported with that line.
    Begin {
        /// Line of the outer file, counted from 1.
        line: u32,
    },
}

impl InnerLines {
    pub fn outer(self, inner: u32) -> u32 {
        match self {
            InnerLines::Follow { first } => first.saturating_add(inner.saturating_sub(1)),
            InnerLines::Begin { line } => line,
        }
    }
}

/// The lines of a configuration.
pub struct OuterLines<'t> {
    text: &'t str,
    /// Their offsets; computed when the first line is requested.
    starts: OnceCell<Vec<u32>>,
}

impl<'t> OuterLines<'t> {
    pub fn new(text: &'t str) -> Self {
        let starts = OnceCell::new();
        Self { text, starts }
    }

    /// A line, counted from 1.
    pub fn get(&self, line: u32) -> Option<&'t str> {
        let starts = self.starts.get_or_init(|| {
            let breaks = self.text.match_indices('\n');
            let starts = breaks.map(|(at, _)| u32::try_from(at + 1).unwrap_or(u32::MAX));
            std::iter::once(0).chain(starts).collect()
        });
        let at = usize::try_from(line).ok()?.checked_sub(1)?;
        let start = usize::try_from(*starts.get(at)?).ok()?;
        self.text.get(start..)?.lines().next()
    }
}

/// A literal block begins in the line after its `|`. The outer text shows whether the value is one, and this counts
/// only if the first line of the content is there.
pub fn inner_lines(outer: &OuterLines<'_>, content: &Node, text: &str) -> InnerLines {
    let first = content.line.saturating_add(1);
    let opens_block = outer.get(content.line).is_some_and(|line| {
        let code = line.split(" #").next().unwrap_or(line).trim_end();
        let indicators = code.trim_end_matches(|ch: char| matches!(ch, '+' | '-' | '0'..='9'));
        indicators.ends_with('|')
    });
    let follows = text
        .lines()
        .zip(first..)
        .find(|(line, _)| !line.trim().is_empty())
        .is_some_and(|(line, number)| {
            outer
                .get(number)
                .is_some_and(|outer| outer.trim() == line.trim())
        });
    if opens_block && follows {
        InnerLines::Follow { first }
    } else {
        InnerLines::Begin { line: content.line }
    }
}
