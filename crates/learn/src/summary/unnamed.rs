//! Whose the kinds of a chart's `crds/` are. Helm writes no release on them: a boot says only which charts were being installed when they
//! came. Several boots tell these apart.
//!
//! | in the boots in which the kind came | whose it is |
//! |---|---|
//! | a chart was being installed in 9 of 10, and each other one was not in [`FEWEST_BOOTS`] of them, or was installed without it and the kind did not come | this chart's, in all of them |
//! | a chart was being installed in 9 of 10, in some alone | this chart's, in those |
//! | otherwise | not known |
//!
//! A boot in which it came while that chart was not being installed contradicts.

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};

use windrow_decide::flight::Appeared;
use windrow_plan::knowledge::{FEWEST_BOOTS, FEWEST_OF_TEN};

use super::evidence::who_words;
use crate::row::{ObservedBoot, ObservedBringer};

/// Who may have brought a kind, in words.
type Candidates = BTreeSet<String>;

/// Whose a kind is.
#[derive(Debug, PartialEq, Eq)]
enum Whose {
    /// Of this one, in every boot in which it can be.
    Of(String),
    /// Of this one where no other can be.
    AloneOf(String),
    NotKnown,
}

/// The boots with every kind beside who brought it, as far as they tell that together.
pub(crate) fn attribute<'b>(boots: &[&'b ObservedBoot]) -> Vec<Cow<'b, ObservedBoot>> {
    let whose = judge_all(boots);
    boots
        .iter()
        .map(
            |boot| match boot.brought.iter().any(|one| !one.perhaps.is_empty()) {
                true => Cow::Owned(attributed(boot, &whose)),
                false => Cow::Borrowed(*boot),
            },
        )
        .collect()
}

fn attributed(boot: &ObservedBoot, whose: &BTreeMap<&Appeared, Whose>) -> ObservedBoot {
    let mut boot = boot.clone();
    for (what, whose) in whose {
        let may_be = |one: &ObservedBringer| one.perhaps.iter().any(|thing| thing.what == **what);
        let candidates: Vec<usize> = (0..boot.brought.len())
            .filter(|number| may_be(&boot.brought[*number]))
            .collect();
        let (by, is_alone) = match whose {
            Whose::Of(by) => (by, true),
            Whose::AloneOf(by) => (by, candidates.len() == 1),
            Whose::NotKnown => continue,
        };
        let is_by = |number: &&usize| who_words(&boot.brought[**number].by) == *by;
        let mut those = candidates.iter().filter(is_by);
        // Two versions of one chart are not told apart.
        let (Some(&number), None, true) = (those.next(), those.next(), is_alone) else {
            continue;
        };
        for other in candidates {
            let one = &mut boot.brought[other];
            let own = one.perhaps.iter().position(|thing| thing.what == **what);
            let thing = own.map(|place| one.perhaps.remove(place));
            if other == number {
                one.things.extend(thing);
            }
        }
    }
    boot
}

fn judge_all<'b>(boots: &[&'b ObservedBoot]) -> BTreeMap<&'b Appeared, Whose> {
    let all = |boot: &'b ObservedBoot| boot.brought.iter();
    let unnamed = boots
        .iter()
        .flat_map(|boot| all(boot))
        .flat_map(|one| &one.perhaps);
    let unnamed: BTreeSet<&Appeared> = unnamed.map(|thing| &thing.what).collect();
    let mut came: BTreeMap<&Appeared, BTreeMap<usize, Candidates>> = BTreeMap::new();
    let mut installed: Vec<Candidates> = Vec::new();
    for (number, boot) in boots.iter().enumerate() {
        for one in &boot.brought {
            for thing in one.all().filter(|thing| unnamed.contains(&thing.what)) {
                let boots = came.entry(&thing.what).or_default();
                boots.entry(number).or_default().insert(who_words(&one.by));
            }
        }
        let done = all(boot).filter(|one| one.done && boot.is_whole());
        installed.push(done.map(|one| who_words(&one.by)).collect());
    }
    let came = came.into_iter();
    came.map(|(what, boots)| {
        let without = installed.iter().enumerate();
        let without = without.filter(|(number, _)| !boots.contains_key(number));
        let without: Vec<&Candidates> = without.map(|(_, installed)| installed).collect();
        (
            what,
            judge(&boots.into_values().collect::<Vec<_>>(), &without),
        )
    })
    .collect()
}

/// Whose a kind is, from who was being installed in each boot in which it came, and who was in each whole boot in which it did not.
fn judge(came: &[Candidates], without: &[&Candidates]) -> Whose {
    let everyone: BTreeSet<&String> = came.iter().flatten().collect();
    let fits = |one: &str| {
        let boots = came
            .iter()
            .filter(|candidates| candidates.contains(one))
            .count();
        boots as u64 * 10 >= came.len() as u64 * FEWEST_OF_TEN
    };
    let is_told_from = |one: &str, other: &str| {
        let tells = |with: &Candidates| with.contains(one) && !with.contains(other);
        let tells_not = |with: &&&Candidates| with.contains(other) && !with.contains(one);
        let boots = came.iter().filter(|candidates| tells(candidates)).count()
            + without.iter().filter(tells_not).count();
        boots >= FEWEST_BOOTS as usize
    };
    let is_it = |one: &&&String| {
        let mut others = everyone.iter().filter(|other| *other != *one);
        fits(one) && others.all(|other| is_told_from(one, other))
    };
    let mut those = everyone.iter().filter(is_it);
    if let (Some(one), None) = (those.next(), those.next()) {
        return Whose::Of((*one).clone());
    }
    let alone = came.iter().filter(|candidates| candidates.len() == 1);
    let alone: BTreeSet<&String> = alone.flatten().collect();
    match alone.len() {
        1 => alone
            .into_iter()
            .find(|one| fits(one))
            .map_or(Whose::NotKnown, |one| Whose::AloneOf(one.clone())),
        _ => Whose::NotKnown,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn candidates(names: &str) -> Candidates {
        names.chars().map(String::from).collect()
    }

    /// Each word a boot: the charts that were being installed when the kind came.
    fn whose(came: &str, without: &str) -> Whose {
        let sets = |words: &str| -> Vec<Candidates> {
            words
                .split(' ')
                .filter(|word| !word.is_empty())
                .map(candidates)
                .collect()
        };
        judge(&sets(came), &sets(without).iter().collect::<Vec<_>>())
    }

    #[test]
    fn a_chart_has_a_kind_where_enough_boots_tell_it_from_every_other() {
        let of = |name: &str| Whose::Of(name.to_owned());
        let alone = |name: &str| Whose::AloneOf(name.to_owned());
        for (came, without, expected) in [
            ("a", "", of("a")),
            ("ab ab ab ab", "", Whose::NotKnown),
            ("ab a a a ab ab", "", of("a")),
            // Not by one or two boots.
            ("ab a a ab ab", "", alone("a")),
            // No boot has it alone, and all of them together say it.
            ("ab ab ab ac ac ac", "", of("a")),
            ("abc abc ab ab ab", "", Whose::NotKnown),
            // Where the other is installed without it, the kind does not come.
            ("ab ab", "b b b", of("a")),
            ("ab ab", "b b ab c", Whose::NotKnown),
            // One boot of ten may say otherwise, and not two.
            ("a a a a a a a ab ab b", "", of("a")),
            ("a a a a a a ab ab b b", "", Whose::NotKnown),
            // Each alone: both cannot be.
            ("a b", "", Whose::NotKnown),
            ("a a a b b b", "", Whose::NotKnown),
        ] {
            assert_eq!(
                whose(came, without),
                expected,
                "{came:?} without {without:?}"
            );
        }
    }
}
