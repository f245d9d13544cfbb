//! What was worked out before and is likely to be asked for again. Whoever runs at the same time shares it.

use std::hash::Hash;
use std::sync::{PoisonError, RwLock};

use foldhash::HashMap;

/// Values by all that they rest on. What is kept is never replaced.
#[derive(Debug)]
pub struct Memo<K, V> {
    known: RwLock<HashMap<K, V>>,
}

impl<K, V> Default for Memo<K, V> {
    fn default() -> Self {
        Self {
            known: RwLock::default(),
        }
    }
}

impl<K: Eq + Hash, V> Memo<K, V> {
    /// No more than this is kept.
    const MOST: usize = 1 << 14;

    /// What `read` takes from the value, if it is known.
    pub fn get<T>(&self, key: &K, read: impl FnOnce(&V) -> T) -> Option<T> {
        let known = self.known.read().unwrap_or_else(PoisonError::into_inner);
        known.get(key).map(read)
    }

    /// Keeps a value, while there is room.
    pub fn keep(&self, key: K, value: V) {
        if self.len() < Self::MOST {
            let mut known = self.known.write().unwrap_or_else(PoisonError::into_inner);
            known.insert(key, value);
        }
    }

    /// How many are kept.
    pub(crate) fn len(&self) -> usize {
        let known = self.known.read().unwrap_or_else(PoisonError::into_inner);
        known.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_kept_is_known_and_no_more_than_there_is_room_for() {
        let memo = Memo::default();
        for number in 0..=Memo::<usize, usize>::MOST {
            assert_eq!(memo.get(&number, |square| *square), None);
            memo.keep(number, number * number);
        }
        assert_eq!(memo.get(&3, |square| *square), Some(9));
        assert_eq!(memo.len(), Memo::<usize, usize>::MOST);
        assert_eq!(
            memo.get(&Memo::<usize, usize>::MOST, |square| *square),
            None
        );
    }
}
