//! Inputs drawn from a seed: the same seed draws the same input everywhere.

/// Numbers from a seed (splitmix64).
#[derive(Debug)]
pub struct Draw(u64);

impl Draw {
    /// Begins with a seed.
    pub fn new(seed: u64) -> Self {
        Self(seed)
    }

    /// The next number, below a bound.
    pub fn below(&mut self, bound: usize) -> usize {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        let number = usize::try_from((mixed ^ (mixed >> 31)) >> 1).unwrap_or(usize::MAX);
        number % bound.max(1)
    }

    /// One of several.
    pub fn one<'o, T>(&mut self, of: &'o [T]) -> &'o T {
        &of[self.below(of.len())]
    }

    /// At most this many of them, put together.
    pub fn text(&mut self, pieces: &[&str], most: usize) -> String {
        (0..self.below(most + 1))
            .map(|_| *self.one(pieces))
            .collect()
    }

    /// Other bytes, near one of these: a few places are taken out, or replaced with one of the pieces, a part of another
    /// of them, or a byte.
    pub fn near(&mut self, corpus: &[Vec<u8>], pieces: &[&str]) -> Vec<u8> {
        let mut bytes = self.one(corpus).clone();
        for _ in 0..=self.below(4) {
            let at = self.below(bytes.len() + 1);
            let until = (at + self.below(6)).min(bytes.len());
            let put: Vec<u8> = match self.below(6) {
                0 => Vec::new(),
                1 => vec![u8::try_from(self.below(256)).unwrap_or_default()],
                2 => {
                    let other = self.one(corpus);
                    let from = self.below(other.len() + 1);
                    let most = (from + self.below(64)).min(other.len());
                    other[from..most].to_vec()
                }
                _ => self.one(pieces).as_bytes().to_vec(),
            };
            bytes.splice(at..until, put);
        }
        bytes
    }
}
