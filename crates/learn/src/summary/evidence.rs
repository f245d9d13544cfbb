//! Weighs the providers: an entry contains a thing if at least half of the boots in which it could be observed confirm
//! it.
//!
//! A boot in which the chart was deployed counts for a thing that came from it, and against a thing that did not come,
//! or came from another provider. A boot in which a thing came from an unknown provider does not count.

use std::collections::{BTreeMap, BTreeSet};

use windrow_decide::flight::Appeared;
use windrow_plan::knowledge::{ClassTimes, FEWEST_BOOTS, Seen};
use windrow_plan::rules::Platform;

use super::names::{make_unique, name_entries};
use super::shipped::{component, of_harvester, operator, values};
use super::versions::{Numbers, VersionSpan, numbers};
use super::{LearnedEntry, Provider, count, day};
use crate::interval::predict;
use crate::row::{ObservedBoot, ObservedBringer, ObservedThing, Who};

/// The evidence of boots, by provider.
#[derive(Debug, Default)]
pub(super) struct Evidence<'b> {
    boots: &'b [&'b ObservedBoot],
    /// For each boot: the provider of each thing.
    came: Vec<BTreeMap<&'b Appeared, Hand>>,
    by: BTreeMap<Provider, BTreeMap<Option<Numbers>, ByBoot<'b>>>,
    /// The addresses of each chart, with the things from each address.
    addresses: BTreeMap<&'b str, BTreeMap<&'b str, BTreeSet<&'b Appeared>>>,
}

/// A provider's results, by the index of the boot.
type ByBoot<'b> = BTreeMap<usize, InBoot<'b>>;

#[derive(Debug, Default)]
struct InBoot<'b> {
    /// It was done, and the boot shows which things did not come.
    is_whole: bool,
    things: BTreeMap<&'b Appeared, &'b ObservedThing>,
}

/// The provider of a thing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Hand {
    Known,
    Unknown,
}

/// The evidence of the boots with some versions.
struct Votes<'b> {
    for_it: BTreeMap<&'b Appeared, BTreeSet<usize>>,
    against: BTreeMap<&'b Appeared, BTreeSet<usize>>,
}

impl<'b> Evidence<'b> {
    pub(super) fn gather(boots: &'b [&'b ObservedBoot]) -> Self {
        let mut evidence = Self {
            boots,
            ..Self::default()
        };
        for boot in boots {
            evidence.note_addresses(boot);
        }
        for (number, boot) in boots.iter().enumerate() {
            evidence.came.push(BTreeMap::new());
            for one in &boot.brought {
                evidence.take(number, boot, one);
            }
        }
        evidence
    }

    fn note_addresses(&mut self, boot: &'b ObservedBoot) {
        for one in &boot.brought {
            if let Who::Chart {
                name,
                repository: Some(repository),
                ..
            } = &one.by
            {
                let addresses = self.addresses.entry(name).or_default();
                let things = addresses.entry(repository).or_default();
                things.extend(one.things.iter().map(|thing| &thing.what));
            }
        }
    }

    /// The address of a chart, if two charts of the same name provide completely different things.
    fn address(&self, name: &str, repository: Option<&str>) -> Option<String> {
        let mut sets = self.addresses.get(name)?.values();
        let first = sets.next()?;
        let is_other = |set: &BTreeSet<&Appeared>| !set.is_empty() && set.is_disjoint(first);
        let differs = !first.is_empty() && sets.any(is_other);
        repository.filter(|_| differs).map(str::to_owned)
    }

    fn take(&mut self, number: usize, boot: &'b ObservedBoot, one: &'b ObservedBringer) {
        if let Who::Chart {
            name,
            version,
            repository,
            ..
        } = &one.by
            && component(name).is_none()
        {
            let provider = Provider::Chart {
                name: name.clone(),
                repository: self.address(name, repository.as_deref()),
                values: Vec::new(),
            };
            let is_whole = one.done && boot.is_whole();
            let version = numbers(version.as_deref());
            self.in_boot(provider, version, number).is_whole |= is_whole;
        }
        for thing in &one.things {
            let hand = match self.provider(boot, &one.by, &thing.what) {
                Some((provider, version)) => {
                    let done = one.done || !matches!(provider, Provider::Chart { .. });
                    let whole = done && boot.is_whole();
                    let in_boot = self.in_boot(provider, version, number);
                    in_boot.is_whole |= whole;
                    in_boot.things.insert(&thing.what, thing);
                    Hand::Known
                }
                None if one.by == Who::Unknown => Hand::Unknown,
                None => Hand::Known,
            };
            self.came[number].insert(&thing.what, hand);
        }
    }

    fn in_boot(
        &mut self,
        provider: Provider,
        version: Option<Numbers>,
        number: usize,
    ) -> &mut InBoot<'b> {
        let by_version = self.by.entry(provider).or_default();
        let by_boot = by_version.entry(version).or_default();
        by_boot.entry(number).or_default()
    }

    /// The provider in a knowledge file, with its version; `None` if a file cannot express it.
    fn provider(
        &self,
        boot: &ObservedBoot,
        who: &Who,
        what: &Appeared,
    ) -> Option<(Provider, Option<Numbers>)> {
        let name = match who {
            Who::Chart { name, .. } | Who::Release { name, .. } => Some(name),
            Who::Unknown | Who::Addon { .. } => return None,
            _ => None,
        };
        if let Some(provider) = name.and_then(|name| component(name)) {
            return Some((provider, numbers(boot.kubernetes.as_deref())));
        }
        if let Who::Chart {
            name,
            version,
            repository,
            manifest: true,
        } = who
        {
            let repository = self.address(name, repository.as_deref());
            return Some((chart(name, repository), numbers(version.as_deref())));
        }
        if boot.platform == Some(Platform::Harvester)
            && let Some(provider) = of_harvester(what)
        {
            return Some((provider, numbers(boot.harvester.as_deref())));
        }
        match who {
            Who::Chart { name, version, .. } => {
                Some((chart(name, None), numbers(version.as_deref())))
            }
            Who::Owner { kind } => Some((operator(kind)?, numbers(boot.kubernetes.as_deref()))),
            _ => None,
        }
    }

    pub(super) fn into_entries(self) -> Vec<LearnedEntry> {
        let mut entries = Vec::new();
        for (provider, versions) in &self.by {
            let mut own: Vec<LearnedEntry> = Vec::new();
            for (span, by_boot) in self.ranges(provider, versions) {
                own.extend(self.entries_of(provider, span, &by_boot));
            }
            name_entries(&mut own);
            entries.extend(own);
        }
        make_unique(&mut entries);
        entries
    }

    /// Neighbouring versions with the same things are one range.
    fn ranges<'e>(
        &self,
        provider: &Provider,
        versions: &'e BTreeMap<Option<Numbers>, ByBoot<'b>>,
    ) -> Vec<(VersionSpan, BTreeMap<usize, &'e InBoot<'b>>)> {
        let mut ranges: Vec<(Numbers, Numbers, BTreeSet<&Appeared>, BTreeMap<_, _>)> = Vec::new();
        let mut unversioned = None;
        for (version, by_boot) in versions {
            let by_boot: BTreeMap<usize, &InBoot<'b>> =
                by_boot.iter().map(|(number, one)| (*number, one)).collect();
            let votes = self.votes(provider, &by_boot);
            let things = votes.confident();
            let Some(version) = *version else {
                unversioned = Some(by_boot);
                continue;
            };
            match ranges.last_mut() {
                Some((_, to, same, all)) if *same == things => {
                    *to = version;
                    all.extend(by_boot);
                }
                _ => ranges.push((version, version, things, by_boot)),
            }
        }
        let highest = ranges.last().map(|(_, to, ..)| *to);
        let mut found: Vec<_> = ranges
            .into_iter()
            .map(|(from, to, _, all)| (VersionSpan::over(from, to), all))
            .collect();
        if let Some(all) = unversioned {
            // An unknown version counts as the newest.
            let from = highest.and_then(|highest| VersionSpan::only(Some(highest)).before);
            found.push((VersionSpan { from, before: None }, all));
        }
        found
    }

    fn votes(&self, provider: &Provider, by_boot: &BTreeMap<usize, &InBoot<'b>>) -> Votes<'b> {
        let mut votes = Votes {
            for_it: BTreeMap::new(),
            against: BTreeMap::new(),
        };
        for (number, one) in by_boot {
            for what in one.things.keys() {
                votes.for_it.entry(*what).or_default().insert(*number);
            }
        }
        let things: Vec<&Appeared> = votes.for_it.keys().copied().collect();
        for (number, one) in by_boot {
            for what in &things {
                let is_against = match self.came[*number].get(what) {
                    _ if one.things.contains_key(what) => false,
                    Some(Hand::Unknown) => false,
                    Some(_) => true,
                    // A thing that depends on a value need not come.
                    None => one.is_whole && values(provider, what).is_empty(),
                };
                if is_against {
                    votes.against.entry(*what).or_default().insert(*number);
                }
            }
        }
        votes
    }

    /// Things with the same condition and the same boots are one entry.
    fn entries_of(
        &self,
        provider: &Provider,
        versions: VersionSpan,
        by_boot: &BTreeMap<usize, &InBoot<'b>>,
    ) -> Vec<LearnedEntry> {
        /// A condition, the boots with these things, and the boots without them.
        type Together = (Vec<String>, BTreeSet<usize>, BTreeSet<usize>);
        let votes = self.votes(provider, by_boot);
        let mut together: BTreeMap<Together, BTreeSet<&Appeared>> = BTreeMap::new();
        for what in votes.confident() {
            let (came, of) = (votes.came(what), votes.of(what));
            let key = (values(provider, what), came, of);
            together.entry(key).or_default().insert(what);
        }
        let mut entries: Vec<LearnedEntry> = together
            .into_iter()
            .filter_map(|((condition, came, of), things)| {
                let last = came.iter().map(|number| day(self.boots[*number])).max()?;
                let times = by_boot.iter().filter_map(|(number, one)| {
                    let hardware = self.boots[*number].hardware.as_deref();
                    let ms = all_there(provider, one, things.iter().copied())?;
                    Some((hardware, ms))
                });
                let times: Vec<(Option<&str>, u64)> = times.collect();
                let all: Vec<u64> = times.iter().map(|(_, ms)| *ms).collect();
                let mut by = provider.clone();
                if let Provider::Chart { values, .. } = &mut by {
                    *values = condition;
                }
                Some(LearnedEntry {
                    name: String::new(),
                    by,
                    versions,
                    things: things.into_iter().cloned().collect(),
                    times: predict(&all),
                    timed: all.len(),
                    times_on: by_class(&times),
                    seen: Seen {
                        boots: count(came.len()),
                        of: count(of.len()),
                        last,
                    },
                })
            })
            .collect();
        // The entry that most boots confirm gets the plain name.
        entries.sort_by_key(|entry| std::cmp::Reverse((entry.seen.boots, entry.things.len())));
        entries
    }
}

impl<'b> Votes<'b> {
    /// The boots in which it came.
    fn came(&self, what: &Appeared) -> BTreeSet<usize> {
        self.for_it.get(what).cloned().unwrap_or_default()
    }

    /// The boots in which it could be observed.
    fn of(&self, what: &Appeared) -> BTreeSet<usize> {
        let sides = [&self.for_it, &self.against];
        let numbers = sides.into_iter().filter_map(|side| side.get(what));
        numbers.flatten().copied().collect()
    }

    /// The things that at least half of the boots confirm.
    fn confident(&self) -> BTreeSet<&'b Appeared> {
        let is_confident = |(what, numbers): &(&&'b Appeared, &BTreeSet<usize>)| {
            numbers.len() * 2 >= self.of(what).len()
        };
        let confident = self.for_it.iter().filter(is_confident);
        confident.map(|(what, _)| *what).collect()
    }
}

/// The times for each class of hardware with enough boots. Empty if all boots have one class, because its times would be
/// the times of all boots.
fn by_class(times: &[(Option<&str>, u64)]) -> Vec<(ClassTimes, usize)> {
    let mut classes: BTreeMap<Option<&str>, Vec<u64>> = BTreeMap::new();
    for (hardware, ms) in times {
        classes.entry(*hardware).or_default().push(*ms);
    }
    let is_one = classes.len() == 1;
    let classes = classes
        .into_iter()
        .filter(|(_, times)| !is_one && times.len() >= FEWEST_BOOTS as usize);
    let row = |(hardware, times): (Option<&str>, Vec<u64>)| {
        let row = ClassTimes {
            hardware: hardware?.into(),
            times: predict(&times)?,
        };
        Some((row, times.len()))
    };
    classes.filter_map(row).collect()
}

/// When all of some things existed in a boot, in milliseconds after their provider could begin.
fn all_there<'a>(
    provider: &Provider,
    one: &InBoot<'_>,
    things: impl Iterator<Item = &'a Appeared>,
) -> Option<u64> {
    let is_platform = matches!(provider, Provider::Rke2 { .. } | Provider::Harvester { .. });
    let time = |what: &Appeared| {
        let thing = one.things.get(what)?;
        if is_platform { thing.api } else { thing.after }
    };
    let times: Option<Vec<u64>> = things.map(time).collect();
    times?.into_iter().max()
}

fn chart(name: &str, repository: Option<String>) -> Provider {
    Provider::Chart {
        name: name.to_owned(),
        repository,
        values: Vec::new(),
    }
}
