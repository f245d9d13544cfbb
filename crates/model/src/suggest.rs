//! Did you mean: the known name nearest to a wrong one.

/// The name that was most likely meant, if one is near enough.
pub fn nearest<'n>(wrong: &str, names: impl Iterator<Item = &'n str>) -> Option<&'n str> {
    let wrong = folded(wrong);
    // A quarter of a name may be mistyped; short names must fit better.
    let limit = (wrong.len() / 4).clamp(1, 4);
    names
        .filter_map(|name| {
            let folded = folded(name);
            let near = folded.len().abs_diff(wrong.len()) <= limit;
            let distance = near.then(|| distance(&wrong, &folded))?;
            (distance <= limit).then_some((distance, name))
        })
        .min()
        .map(|(_, name)| name)
}

/// Case and separators are what people get wrong first; they count for nothing here.
fn folded(name: &str) -> Vec<u8> {
    name.bytes()
        .filter(|byte| !b"-_. ".contains(byte))
        .map(|byte| byte.to_ascii_lowercase())
        .collect()
}

/// How many letters must be changed, added, dropped or swapped with their neighbour.
fn distance(a: &[u8], b: &[u8]) -> usize {
    let mut before: Vec<usize> = Vec::new();
    let mut last: Vec<usize> = (0..=b.len()).collect();
    for (i, x) in a.iter().enumerate() {
        let mut row = vec![i + 1];
        for (j, y) in b.iter().enumerate() {
            let mut cost = (last[j] + usize::from(x != y))
                .min(last[j + 1] + 1)
                .min(row[j] + 1);
            if i > 0 && j > 0 && *x == b[j - 1] && a[i - 1] == *y {
                cost = cost.min(before[j - 1] + 1);
            }
            row.push(cost);
        }
        before = std::mem::replace(&mut last, row);
    }
    last[b.len()]
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
