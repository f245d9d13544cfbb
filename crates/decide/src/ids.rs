//! A set of small numbers: files or needs of one plan, in their order.

use std::hash::{Hash, Hasher};

/// The set. A number takes a bit, so that emptying it and filling it anew costs no allocation.
#[derive(Debug, Clone, Default)]
pub(super) struct Ids {
    words: Vec<u64>,
}

/// So many numbers are in one word.
const BITS: usize = u64::BITS as usize;

impl Ids {
    /// Every number below `end`.
    pub(super) fn below(end: usize) -> Self {
        let mut ids = Self {
            words: vec![u64::MAX; end.div_ceil(BITS)],
        };
        if let Some(last) = ids.words.last_mut()
            && !end.is_multiple_of(BITS)
        {
            *last = (1 << (end % BITS)) - 1;
        }
        ids
    }

    pub(super) fn insert(&mut self, id: usize) {
        let word = id / BITS;
        if word >= self.words.len() {
            self.words.resize(word + 1, 0);
        }
        self.words[word] |= 1 << (id % BITS);
    }

    pub(super) fn contains(&self, id: usize) -> bool {
        let word = self.words.get(id / BITS);
        word.is_some_and(|word| word & (1 << (id % BITS)) != 0)
    }

    /// Those of the other as well.
    pub(super) fn join(&mut self, other: &Self) {
        if self.words.len() < other.words.len() {
            self.words.resize(other.words.len(), 0);
        }
        for (word, others) in self.words.iter_mut().zip(&other.words) {
            *word |= others;
        }
    }

    /// None from `end` on any more.
    pub(super) fn cut(&mut self, end: usize) {
        self.words.truncate(end.div_ceil(BITS));
        if let Some(last) = self.words.get_mut(end / BITS) {
            *last &= (1 << (end % BITS)) - 1;
        }
    }

    /// All words up to the last one in which there is a number.
    fn full(&self) -> &[u64] {
        let last = self.words.iter().rposition(|word| *word != 0);
        last.map_or(&[], |last| &self.words[..=last])
    }

    /// Every number, in order.
    pub(super) fn iter(&self) -> impl Iterator<Item = usize> {
        let words = self.words.iter().enumerate();
        words.flat_map(|(place, word)| {
            let mut left = *word;
            std::iter::from_fn(move || {
                let bit = (left != 0).then(|| left.trailing_zeros() as usize)?;
                left &= left - 1;
                Some(place * BITS + bit)
            })
        })
    }
}

/// However much room each of them has.
impl PartialEq for Ids {
    fn eq(&self, other: &Self) -> bool {
        self.full() == other.full()
    }
}

impl Eq for Ids {}

impl Hash for Ids {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.full().hash(state);
    }
}

impl<'a> Extend<&'a usize> for Ids {
    fn extend<T: IntoIterator<Item = &'a usize>>(&mut self, ids: T) {
        ids.into_iter().for_each(|id| self.insert(*id));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_come_once_and_in_order_over_the_ends_of_words() {
        let mut ids = Ids::default();
        ids.extend(&[200, 0, 63, 64, 63]);
        assert_eq!(ids.iter().collect::<Vec<_>>(), [0, 63, 64, 200]);
        assert!(ids.contains(63) && !ids.contains(65) && !ids.contains(1_000));
        let mut few = Ids::default();
        few.insert(1);
        few.join(&ids);
        assert_eq!(few.iter().collect::<Vec<_>>(), [0, 1, 63, 64, 200]);
    }

    #[test]
    fn sets_of_the_same_numbers_are_equal_however_they_grew() {
        let mut one = Ids::below(200);
        one.cut(3);
        assert_eq!(one, Ids::below(3));
        assert_ne!(one, Ids::below(4));
        one.cut(0);
        assert_eq!(one, Ids::default());
    }

    #[test]
    fn a_cut_leaves_what_is_below_it() {
        for end in [0, 1, 63, 64, 65, 130, 200] {
            let mut ids = Ids::below(130);
            ids.cut(end);
            assert!(ids.iter().eq(0..end.min(130)), "{end}");
        }
    }

    #[test]
    fn all_below_a_number_are_all_below_it() {
        for end in [0, 1, 63, 64, 65, 130] {
            assert!(Ids::below(end).iter().eq(0..end), "{end}");
        }
    }
}
