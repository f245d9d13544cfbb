//! One boot by itself, beside what others say: what came of what was expected.

use std::collections::BTreeMap;

use windrow_decide::flight::Appeared;

use super::evidence::{Evidence, Hand, InBoot, all_there};
use super::shipped::values;
use super::versions::Numbers;
use super::{LearnedEntry, Provider};
use crate::row::{ObservedBoot, ObservedThing};

/// What one who brings did in one boot, for who compares it with what others say of it.
pub(crate) struct Deed<'b> {
    pub(crate) provider: Provider,
    pub(crate) version: Option<Numbers>,
    in_boot: InBoot<'b>,
}

/// What came of some things that were expected.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Outcome {
    /// All of them, after this long where that is known, in milliseconds.
    Came(Option<u64>),
    /// Not this one.
    Missed(Appeared),
    /// This one came from somebody else.
    FromOther(Appeared, String),
    /// The boot does not say.
    NotKnown,
}

/// A boot by itself.
pub(crate) struct BootDeeds<'b> {
    pub(crate) deeds: Vec<Deed<'b>>,
    came: BTreeMap<&'b Appeared, Hand>,
}

impl<'b> BootDeeds<'b> {
    pub(crate) fn of(boot: &'b [&'b ObservedBoot]) -> Self {
        let mut evidence = Evidence::gather(boot);
        let by = std::mem::take(&mut evidence.by).into_iter();
        let deeds = by.flat_map(|(provider, versions)| {
            versions
                .into_iter()
                .filter_map(move |(version, mut boots)| {
                    let in_boot = boots.remove(&0)?;
                    let provider = provider.clone();
                    Some(Deed {
                        provider,
                        version,
                        in_boot,
                    })
                })
        });
        Self {
            deeds: deeds.collect(),
            came: evidence.came.pop().unwrap_or_default(),
        }
    }

    /// What became of what an entry says of one who brings.
    pub(crate) fn outcomes(&self, deed: &Deed<'b>, entry: &LearnedEntry) -> Outcome {
        // What may be its own and was said to be is.
        let own = InBoot {
            things: deed.all().collect(),
            ..InBoot::default()
        };
        let missing = entry.things.iter();
        let missing = missing.filter(|what| !own.things.contains_key(what));
        let mut is_known = true;
        for what in missing {
            match self.came.get(what) {
                Some(Hand::Unknown) => is_known = false,
                Some(other) => return Outcome::FromOther(what.clone(), other.words()),
                None if !deed.in_boot.is_whole => is_known = false,
                // What comes only where a value is true need not come.
                None if !values(&entry.by, what).is_empty() => is_known = false,
                None => return Outcome::Missed(what.clone()),
            }
        }
        match is_known {
            true => Outcome::Came(all_there(&deed.provider, &own, entry.things.iter())),
            false => Outcome::NotKnown,
        }
    }
}

impl<'b> Deed<'b> {
    /// What came from it, and what may have.
    fn all(&self) -> impl Iterator<Item = (&'b Appeared, &'b ObservedThing)> + '_ {
        let InBoot {
            things, perhaps, ..
        } = &self.in_boot;
        things
            .iter()
            .chain(perhaps)
            .map(|(what, thing)| (*what, *thing))
    }

    /// How many of these things came from it, or may have; and how many others did.
    pub(crate) fn count(&self, is_said: impl Fn(&Appeared) -> bool) -> (usize, usize) {
        let said = self.all().filter(|(what, _)| is_said(what)).count();
        let others = self.in_boot.things.keys().filter(|what| !is_said(what));
        (said, others.count())
    }
}
