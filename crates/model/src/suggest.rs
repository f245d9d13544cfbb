//! Did you mean: the known name nearest to a wrong one.

use std::fmt;

use strsim::damerau_levenshtein;

/// A wrong value that is so similar to one of a field's closed list that it was probably meant as this one.
///
/// This is the only case in which a message may quote a value of a manifest. Any other value may be a secret in the
/// wrong place.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Slip<'v> {
    written: &'v str,
    meant: &'v str,
}

impl<'v> Slip<'v> {
    /// The slip, if the value resembles one that the field accepts.
    pub fn find(written: &'v str, allowed: impl Iterator<Item = &'v str>) -> Option<Self> {
        let meant = nearest(written, allowed)?;
        Some(Self { written, meant })
    }
}

impl fmt::Display for Slip<'_> {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { written, meant } = self;
        write!(out, "`{written}` is not valid; did you mean `{meant}`?")
    }
}

/// The name that was most likely meant, if one is similar enough.
pub fn nearest<'n>(wrong: &str, names: impl Iterator<Item = &'n str>) -> Option<&'n str> {
    let wrong = folded(wrong);
    names
        .filter_map(|name| {
            let folded = folded(name);
            // A third of the longer one may be mistyped (`costum`); short names must fit better.
            let limit = (wrong.len().max(folded.len()) / 3).clamp(1, 4);
            let near = folded.len().abs_diff(wrong.len()) <= limit;
            let distance = near.then(|| damerau_levenshtein(&wrong, &folded))?;
            (distance <= limit).then_some((distance, name))
        })
        .min()
        .map(|(_, name)| name)
}

/// Ignores case and separators, the most common mistakes.
fn folded(name: &str) -> String {
    name.chars()
        .filter(|letter| !"-_. ".contains(*letter))
        .map(|letter| letter.to_ascii_lowercase())
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const NAMES: [&str; 4] = [
        "ImageVolume",
        "NodeSwap",
        "PodReadyToStartContainersCondition",
        "KubeletPSI",
    ];

    #[test]
    fn slips_of_the_keyboard_find_the_name_that_was_meant() {
        for (wrong, meant) in [
            ("ImageVolumes", "ImageVolume"),
            ("ImgaeVolume", "ImageVolume"),
            ("Node-Swap", "NodeSwap"),
            ("NodeSwapp", "NodeSwap"),
            ("ndoeswa", "NodeSwap"),
            ("nudeswop", "NodeSwap"),
            (
                "PodReadyToStartContainerCondition",
                "PodReadyToStartContainersCondition",
            ),
        ] {
            assert_eq!(nearest(wrong, NAMES.into_iter()), Some(meant), "{wrong}");
        }
    }

    #[test]
    fn a_name_that_resembles_nothing_suggests_nothing() {
        for wrong in ["", "X", "TotallyDifferent", "é日本"] {
            assert_eq!(nearest(wrong, NAMES.into_iter()), None, "{wrong}");
        }
    }
}
