//! Python's random numbers: the Mersenne Twister (MT19937) as `random.Random(seed)` seeds and reads it.
//!
//! Gavel's workloads are drawn with it, so the same seed gives the same jobs only if every draw here takes the same
//! words from the generator as Python does. Rota's own streams are in [`crate::random`].

/// Words of state.
const WORDS: usize = 624;
/// How far ahead the word is that each new one is mixed with.
const AHEAD: usize = 397;

/// A stream of Python's random numbers.
#[derive(Clone, Debug)]
pub struct Mersenne {
    state: [u32; WORDS],
    /// The next word to give out; at the end, the state is renewed first.
    position: usize,
}

impl Mersenne {
    /// The stream of `random.Random(seed)`. Wider than a seed, so that streams numbered from a seed do not overflow.
    pub fn new(seed: u128) -> Self {
        // The key is the seed in words, the lowest first; zero is one word.
        let mut key = Vec::with_capacity(4);
        let mut rest = seed;
        while key.is_empty() || rest > 0 {
            key.push(rest as u32);
            rest >>= 32;
        }
        Self { state: state_of(&key), position: WORDS }
    }

    /// The next 32 bits.
    fn word(&mut self) -> u32 {
        if self.position >= WORDS {
            self.renew();
        }
        let mut word = self.state[self.position];
        self.position += 1;
        word ^= word >> 11;
        word ^= word << 7 & 0x9d2c_5680;
        word ^= word << 15 & 0xefc6_0000;
        word ^ word >> 18
    }

    fn renew(&mut self) {
        for index in 0..WORDS {
            let mixed = self.state[index] & 0x8000_0000 | self.state[(index + 1) % WORDS] & 0x7fff_ffff;
            let twist = if mixed & 1 == 1 { 0x9908_b0df } else { 0 };
            self.state[index] = self.state[(index + AHEAD) % WORDS] ^ mixed >> 1 ^ twist;
        }
        self.position = 0;
    }

    /// `random()`: uniform in [0, 1) with 53 random bits.
    pub fn unit(&mut self) -> f64 {
        let high = f64::from(self.word() >> 5);
        let low = f64::from(self.word() >> 6);
        (high * 67_108_864.0 + low) / 9_007_199_254_740_992.0
    }

    /// A number between two bounds, as Python's `uniform(low, high)` draws it.
    pub fn uniform(&mut self, low: f64, high: f64) -> f64 {
        low + (high - low) * self.unit()
    }

    /// `expovariate(rate)`: exponential with a mean of 1 / `rate`.
    pub fn exponential(&mut self, rate: f64) -> f64 {
        -(1.0 - self.unit()).ln() / rate
    }

    /// `getrandbits(count)`, for at most 64 bits.
    pub fn bits(&mut self, count: u32) -> u64 {
        match count.min(64) {
            0 => 0,
            few @ 1..=32 => u64::from(self.word() >> (32 - few)),
            // The low word is drawn first; the surplus is cut from the high one.
            many => u64::from(self.word()) | u64::from(self.word() >> (64 - many)) << 32,
        }
    }

    /// A whole number below `bound`, each equally likely; 0 if `bound` is 0.
    pub fn below(&mut self, bound: u64) -> u64 {
        let count = u64::BITS - bound.leading_zeros();
        loop {
            let drawn = self.bits(count);
            if drawn < bound.max(1) {
                return drawn;
            }
        }
    }

    /// `choice(items)`; `None` if there are none.
    pub fn choice<'i, T>(&mut self, items: &'i [T]) -> Option<&'i T> {
        if items.is_empty() { None } else { items.get(self.below(items.len() as u64) as usize) }
    }

    /// Puts items into a random order, as Python's `shuffle(items)` does.
    pub fn shuffle<T>(&mut self, items: &mut [T]) {
        for last in (1..items.len()).rev() {
            let other = self.below(last as u64 + 1) as usize;
            items.swap(last, other);
        }
    }

    /// `sample(range(population), count)`: different whole numbers below `population`, in the order drawn. Asking for
    /// more than there are gives all of them.
    pub fn sample(&mut self, population: usize, count: usize) -> Vec<usize> {
        let count = count.min(population);
        // Python keeps a list of those left while that is no larger than a set of those taken would be.
        let mut set_size = 21_usize;
        if count > 5 {
            let mut power = 1_usize;
            while power < count.saturating_mul(3) {
                power = power.saturating_mul(4);
            }
            set_size = power.saturating_add(set_size);
        }
        let mut taken = Vec::with_capacity(count);
        if population <= set_size {
            let mut left = (0..population).collect::<Vec<_>>();
            for _ in 0..count {
                let drawn = self.below(left.len() as u64) as usize;
                taken.push(left.swap_remove(drawn));
            }
        } else {
            let mut seen = std::collections::HashSet::with_capacity(count);
            while taken.len() < count {
                let drawn = self.below(population as u64) as usize;
                if seen.insert(drawn) {
                    taken.push(drawn);
                }
            }
        }
        taken
    }
}

/// The state that a key of any length seeds (`init_by_array` of the generator's authors).
fn state_of(key: &[u32]) -> [u32; WORDS] {
    let spread = |word: u32| word ^ word >> 30;
    let mut state = [0_u32; WORDS];
    state[0] = 19_650_218;
    for index in 1..WORDS {
        state[index] = spread(state[index - 1]).wrapping_mul(1_812_433_253).wrapping_add(index as u32);
    }
    let mut index = 1;
    let advance = |index: &mut usize, state: &mut [u32; WORDS]| {
        *index += 1;
        if *index == WORDS {
            state[0] = state[WORDS - 1];
            *index = 1;
        }
    };
    for step in 0..WORDS.max(key.len()) {
        let part = step % key.len();
        let mixed = state[index] ^ spread(state[index - 1]).wrapping_mul(1_664_525);
        state[index] = mixed.wrapping_add(key[part]).wrapping_add(part as u32);
        advance(&mut index, &mut state);
    }
    for _ in 1..WORDS {
        let mixed = state[index] ^ spread(state[index - 1]).wrapping_mul(1_566_083_941);
        state[index] = mixed.wrapping_sub(index as u32);
        advance(&mut index, &mut state);
    }
    state[0] = 0x8000_0000;
    state
}

#[cfg(test)]
mod tests {
    use super::*;

    fn units(seed: u128) -> [u64; 3] {
        let mut stream = Mersenne::new(seed);
        [stream.unit(), stream.unit(), stream.unit()].map(f64::to_bits)
    }

    #[test]
    fn random_is_that_of_cpython_for_seeds_of_any_length() {
        for (seed, expected) in [
            (0, [0.844_421_851_525_048_1, 0.757_954_402_940_302_5, 0.420_571_580_830_845]),
            (2, [0.956_034_271_889_249_4, 0.947_827_487_059_349_4, 0.056_551_367_726_808_69]),
            ((1 << 40) + 7, [0.613_703_777_993_651_1, 0.814_916_297_330_948_7, 0.945_011_508_759_287_3]),
            ((1 << 64) + 5, [0.510_578_376_936_511_2, 0.879_758_652_801_219_9, 0.514_936_529_849_113_8]),
        ] {
            assert_eq!(units(seed), expected.map(f64::to_bits), "seed {seed}");
        }
        let mut stream = Mersenne::new(1);
        let far = (0..2000).map(|_| stream.unit()).last().unwrap();
        assert_eq!(far.to_bits(), 0.449_966_374_697_454_7_f64.to_bits(), "the state has been renewed several times");
    }

    #[test]
    fn whole_numbers_and_bits_are_those_of_cpython() {
        let mut stream = Mersenne::new(2);
        assert_eq!([(); 8].map(|()| stream.below(26)), [1, 2, 2, 11, 5, 23, 25, 21]);
        let mut stream = Mersenne::new(11);
        let bits = [1, 7, 32, 33, 48, 64].map(|count| stream.bits(count));
        assert_eq!(bits, [0, 110, 2_404_204_071, 7_975_165_867, 131_068_577_310_725, 9_368_018_003_224_643_702]);
        let mut stream = Mersenne::new(12);
        let wide = [(); 3].map(|()| stream.below((1 << 40) + 3));
        assert_eq!(wide, [590_448_785_118, 771_661_357_177, 838_131_086_565]);
        assert_eq!((stream.below(0), stream.below(1), stream.bits(0)), (0, 0, 0));
    }

    #[test]
    fn distributions_and_choices_are_those_of_cpython() {
        let mut stream = Mersenne::new(9);
        assert_eq!(stream.uniform(1.5, 3.0).to_bits(), 2.194_511_036_722_532_f64.to_bits());
        assert_eq!(stream.exponential(1.0 / 2400.0).to_bits(), 1_121.535_264_912_554_f64.to_bits());
        assert_eq!(stream.choice(b"abcdefg"), Some(&b'b'));
        assert_eq!(stream.choice::<u8>(&[]), None);
    }

    #[test]
    fn shuffles_and_samples_are_those_of_cpython() {
        let mut types = ["v100", "p100", "k80"];
        Mersenne::new(5).shuffle(&mut types);
        assert_eq!(types, ["v100", "p100", "k80"]);
        let mut numbers = [0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11];
        Mersenne::new(3).shuffle(&mut numbers);
        assert_eq!(numbers, [1, 7, 10, 0, 6, 11, 4, 5, 2, 8, 9, 3]);
        let mut stream = Mersenne::new(0);
        assert_eq!((stream.sample(10, 2), stream.sample(40, 2)), (vec![6, 9], vec![2, 16]));
        let mut stream = Mersenne::new(4);
        assert_eq!(stream.sample(30, 8), [7, 9, 3, 23, 12, 15, 4, 2]);
        assert_eq!(stream.sample(200, 7), [17, 5, 102, 140, 74, 195, 15]);
        assert_eq!(stream.sample(3, 5), [0, 1, 2]);
    }
}
