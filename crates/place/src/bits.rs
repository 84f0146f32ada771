//! A set of small numbers as bits, with a bit for each word that is not empty: the smallest is found without a search.

use serde::{Deserialize, Serialize};

/// Numbers in ascending order.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct BitSet {
    words: Vec<u64>,
    /// One bit per word, set if the word has any.
    filled: Vec<u64>,
}

impl BitSet {
    /// Adds a number.
    pub fn insert(&mut self, number: u32) {
        let word = (number / 64) as usize;
        if self.words.len() <= word {
            self.words.resize(word + 1, 0);
            self.filled.resize(word / 64 + 1, 0);
        }
        self.words[word] |= 1 << (number % 64);
        self.filled[word / 64] |= 1 << (word % 64);
    }

    /// Removes a number that is there.
    pub fn remove(&mut self, number: u32) {
        let word = (number / 64) as usize;
        self.words[word] &= !(1 << (number % 64));
        if self.words[word] == 0 {
            self.filled[word / 64] &= !(1 << (word % 64));
        }
    }

    /// The smallest number.
    pub fn first(&self) -> Option<u32> {
        let (place, filled) = self.filled.iter().enumerate().find(|(_, filled)| **filled != 0)?;
        let word = place * 64 + filled.trailing_zeros() as usize;
        Some(word as u32 * 64 + self.words[word].trailing_zeros())
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.filled.iter().all(|filled| *filled == 0)
    }

    /// All numbers, ascending.
    pub fn iter(&self) -> impl Iterator<Item = u32> {
        let filled = ones(&self.filled);
        filled.flat_map(|word| ones(std::slice::from_ref(&self.words[word as usize])).map(move |bit| word * 64 + bit))
    }
}

/// The places of the bits that are set.
fn ones(words: &[u64]) -> impl Iterator<Item = u32> {
    words.iter().zip(0_u32..).flat_map(|(&word, place)| {
        let mut left = word;
        std::iter::from_fn(move || {
            let bit = left.trailing_zeros();
            (left != 0).then(|| {
                left &= left - 1;
                place * 64 + bit
            })
        })
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeSet;

    proptest! {
        #[test]
        fn holds_what_a_tree_holds(changes in prop::collection::vec((prop_oneof![0_u32..70, 0_u32..9000], any::<bool>()), 0..200)) {
            let (mut set, mut tree) = (BitSet::default(), BTreeSet::new());
            for (number, adds) in changes {
                if adds {
                    set.insert(number);
                    tree.insert(number);
                } else if tree.remove(&number) {
                    set.remove(number);
                }
                prop_assert_eq!(set.first(), tree.first().copied());
                prop_assert_eq!(set.is_empty(), tree.is_empty());
            }
            prop_assert_eq!(set.iter().collect::<Vec<_>>(), tree.into_iter().collect::<Vec<_>>());
        }
    }
}
