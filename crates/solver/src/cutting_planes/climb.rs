//! Concave maximisation over prices: cutting planes, made quick on many rows by settling most of them.
//!
//! [`climb`] is the plain method on a list of rows: ask the master for prices, pass over the rows, add the cut. It is stabilised by
//! asking half way between the master's prices and the best ones known. [`peak`] makes it quick: within a small box around good
//! prices nearly every row's choice is fixed (a test per row proves it), so only the open rows are passed over again and again. Good
//! prices come from samples of the open rows, whose error shrinks with the box. A box that turns out too small is widened, so the
//! result never depends on luck, only the time does.

use crate::master::{Master, PriceBox};
use crate::sweep::{Oracle, PerPool, Rows, Tally};

/// Rows that are passed over as they are; more are first thinned by settling.
const OPEN_LIMIT: usize = 3072;
/// Rows in a sample.
pub(crate) const SAMPLE: usize = 2048;
/// How the box shrinks after a sample: a few standard errors of a sample of that size.
const SHRINK: f64 = 0.3;

/// When a climb may stop.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Goal {
    /// Relative distance between value and bound.
    pub tolerance: f64,
    /// If given: stop as soon as a mixture loads no pool above this, or the value is clearly above it.
    pub threshold: Option<f64>,
    /// Share of the way from the best prices to the master's at which to ask next; 1 = the master's own.
    pub stride: f64,
    /// The most passes that are made.
    pub steps: usize,
}

/// Where a climb ended.
#[derive(Debug)]
pub(crate) struct Peak {
    pub prices: PerPool,
    /// The value at those prices: a true value of the function, so a certificate.
    pub value: f64,
    /// The rows' choices there, added up (fixed part included).
    pub tally: Tally,
    /// Prices whose allocations, mixed with these weights, come nearest to the bound.
    pub mixture: Vec<(PerPool, f64)>,
    /// The sum of that mixture.
    pub mixed: Tally,
    pub at_edge: bool,
    /// Rows that the mixture may treat differently; empty means all of them.
    pub open: Option<Vec<u32>>,
    pub steps: usize,
    /// Relative radius of the box it ended in; infinite for the whole space.
    pub radius: f64,
    /// The allocation itself, where it did not come from prices.
    pub shares: Option<Vec<f64>>,
}

impl Peak {
    /// A maximum found without cutting planes, with its allocation.
    pub fn of_shares(prices: PerPool, value: f64, tally: Tally, mixed: Tally, shares: Vec<f64>) -> Self {
        let (mixture, radius) = (Vec::new(), f64::INFINITY);
        Self { prices, value, tally, mixture, mixed, at_edge: false, open: None, steps: 1, radius, shares: Some(shares) }
    }

    /// The fullest pool under the mixture.
    pub fn load(&self) -> f64 {
        self.mixed.usage.iter().fold(f64::NEG_INFINITY, |most, &usage| most.max(usage))
    }
}

/// Cutting planes over some rows, each counted `weight` times, beside a fixed sum.
pub(crate) fn climb(
    oracle: &Oracle<'_>,
    rows: Rows<'_>,
    weight: f64,
    fixed: &Tally,
    bounds: &PriceBox,
    start: &[f64],
    goal: Goal,
) -> Peak {
    let ask = |prices: &[f64]| {
        let mut cut = fixed.clone();
        cut.add(&oracle.tally(rows, prices), weight);
        cut
    };
    let mut best = PerPool::from_slice(start);
    let mut best_tally = ask(&best);
    let mut best_value = best_tally.value(&best);
    let mut asked = vec![best.clone()];
    let mut master = Master::new(bounds.clone(), best_tally.clone());
    let mut stride = goal.stride;
    let mut steps = 1;
    while steps < goal.steps {
        let solved = master.solve();
        let gap = master.value - best_value;
        if gap <= goal.tolerance * master.value.abs().max(best_value.abs()) || reached(&master, best_value, goal) {
            break;
        }
        // The last stretch needs the master's exact corners.
        if gap <= 1e-5 * best_value.abs() {
            stride = 1.0;
        }
        let query: PerPool =
            best.iter().zip(&master.prices).map(|(best, next)| (best + stride * (next - best)).max(0.0)).collect();
        let cut = ask(&query);
        steps += 1;
        let value = cut.value(&query);
        let lowers = cut.value(&master.prices) < master.value - 1e-15 * master.value.abs();
        if value > best_value {
            (best_value, best_tally) = (value, cut.clone());
            best.clone_from(&query);
        } else if !lowers {
            // Neither better nor a new bound: nearer to the master, or, there already, as exact as the numbers allow.
            if stride >= 1.0 || !solved {
                break;
            }
            stride = 1.0;
        }
        asked.push(query);
        master.add(cut);
    }
    let mixture = master.mixture().into_iter().map(|(cut, share)| (asked[cut].clone(), share)).collect();
    let (mixed, at_edge) = (master.mixed(), master.at_edge());
    Peak {
        prices: best,
        value: best_value,
        tally: best_tally,
        mixture,
        mixed,
        at_edge,
        open: None,
        steps,
        radius: f64::INFINITY,
        shares: None,
    }
}

/// Whether the threshold is decided either way.
fn reached(master: &Master, value: f64, goal: Goal) -> bool {
    let Some(threshold) = goal.threshold else { return false };
    if value > threshold {
        return master.value - value <= 0.2 * (value - threshold);
    }
    let mixed = master.mixed();
    mixed.usage.iter().all(|&usage| usage <= threshold * (1.0 + 5e-14))
}

/// Radius per pool: relative to the price, with a part that lets unused pools come into play.
pub(crate) fn radii(prices: &[f64], radius: f64) -> PerPool {
    let mean = prices.iter().sum::<f64>() / prices.len() as f64;
    prices.iter().map(|price| radius * (price + 0.1 * mean)).collect()
}

/// Evenly spread rows of a list with a deterministic jitter, so that no periodic order of rows is met in step.
pub(crate) fn sample(rows: &[u32]) -> Vec<u32> {
    sample_of(rows, SAMPLE)
}

/// As [`sample`], of a given size.
pub(crate) fn sample_of(rows: &[u32], size: usize) -> Vec<u32> {
    let mut state = 0x2545_F491_4F6C_DD1D_u64;
    let mut picked: Vec<u32> = (0..size)
        .map(|index| {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            let jitter = (state >> 11) as f64 / (1_u64 << 53) as f64;
            rows[(((index as f64 + jitter) * rows.len() as f64 / size as f64) as usize).min(rows.len() - 1)]
        })
        .collect();
    picked.dedup();
    picked
}

/// The maximum over the whole box, starting from good prices and a guess of how good they are (relative radius; infinite = unknown).
pub(crate) fn peak(oracle: &Oracle<'_>, fixed: &Tally, whole: &PriceBox, start: &[f64], radius: f64, goal: Goal) -> Peak {
    let rows = oracle.problem.rows();
    let mut center = PerPool::from_slice(start);
    let mut radius = radius;
    for attempt in 0..16 {
        if radius > 1.0 && (rows <= OPEN_LIMIT || radius > 8.0) {
            break;
        }
        let peak = peak_in_box(oracle, fixed, whole, &center, radius, goal);
        if !peak.at_edge || is_decided(&peak, goal) {
            return peak;
        }
        radius = if attempt < 6 { wider(&peak) } else { peak.radius * 12.0 };
        center = peak.prices;
    }
    climb(oracle, Rows::All, 1.0, fixed, whole, &center, goal)
}

/// A box of prices, with the rows that are settled in all of it added up and the others listed.
struct Room {
    bounds: PriceBox,
    fixed: Tally,
    open: Vec<u32>,
    center: PerPool,
    /// Relative radius around the center.
    radius: f64,
    /// Smaller boxes would settle hardly any more rows.
    is_last: bool,
}

impl Room {
    fn new(oracle: &Oracle<'_>, fixed: &Tally, whole: &PriceBox, center: &[f64], radius: f64) -> Self {
        let reach = radii(center, radius);
        let (settled, open) = oracle.classify(Rows::All, center, &reach, 0.0);
        let mut fixed = fixed.clone();
        fixed.add(&settled, 1.0);
        let is_last = open.len() <= OPEN_LIMIT;
        Self { bounds: whole.around(center, &reach), fixed, open, center: PerPool::from_slice(center), radius, is_last }
    }

    /// A smaller box in this one.
    fn within(&self, oracle: &Oracle<'_>, center: &[f64], radius: f64) -> Self {
        let reach = radii(center, radius);
        let (settled, open) = oracle.classify(Rows::Some(&self.open), center, &reach, 0.0);
        let mut fixed = self.fixed.clone();
        fixed.add(&settled, 1.0);
        // In a wide box nearly all rows are open whatever the prices; only in a narrow one is that a sign of ties that no price resolves.
        let shrinks = radius > 0.02 || open.len() * 10 < self.open.len() * 9;
        let is_last = open.len() <= OPEN_LIMIT || !shrinks;
        Self { bounds: self.bounds.around(center, &reach), fixed, open, center: PerPool::from_slice(center), radius, is_last }
    }
}

/// Boxes that may turn out too small before the search begins anew.
const WIDENINGS: usize = 8;

/// The maximum over a box, by settling, sampling and shrinking. A box that turns out too small is replaced by a wider one in the box
/// before it, where most rows are settled already; `at_edge` says whether the first box itself held the maximum back. If a sample already
/// did not fit that, the sample's own end is returned, without a list of open rows: a place to go on from, not a result.
fn peak_in_box(oracle: &Oracle<'_>, fixed: &Tally, whole: &PriceBox, start: &[f64], radius: f64, goal: Goal) -> Peak {
    let mut room = Room::new(oracle, fixed, whole, start, radius);
    let mut outer: Vec<Room> = Vec::new();
    let mut widenings = 0;
    loop {
        let held = if room.is_last {
            let exact = Goal { tolerance: goal.tolerance.min(within_box(room.radius, goal)), ..goal };
            let peak = climb(oracle, Rows::Some(&room.open), 1.0, &room.fixed, &room.bounds, &room.center, exact);
            let peak = Peak { radius: room.radius, open: Some(std::mem::take(&mut room.open)), ..peak };
            if !peak.at_edge || is_decided(&peak, goal) {
                return peak;
            }
            peak
        } else {
            let picked = sample(&room.open);
            let weight = room.open.len() as f64 / picked.len() as f64;
            let rough = Goal { tolerance: within_box(room.radius, goal), threshold: None, ..goal };
            let guess = climb(oracle, Rows::Some(&picked), weight, &room.fixed, &room.bounds, &room.center, rough);
            if let Some(done) =
                goal.threshold.and_then(|threshold| mixture_of_all(oracle, &room.open, &room.fixed, &guess, threshold))
            {
                return done;
            }
            if !guess.at_edge {
                let inner = room.within(oracle, &guess.prices, room.radius * SHRINK);
                outer.push(std::mem::replace(&mut room, inner));
                continue;
            }
            Peak { radius: room.radius, ..guess }
        };
        widenings += 1;
        let wider = wider(&held);
        let too_small = |outer: &Room| outer.radius <= wider || outer.bounds.holds_back(&held.prices, whole);
        while outer.last().is_some_and(too_small) {
            outer.pop();
        }
        match outer.last() {
            Some(outer) if widenings < WIDENINGS => room = outer.within(oracle, &held.prices, wider),
            _ => return held,
        }
    }
}

/// The radius to try after a box that was too small. A sample that runs into the edge of its box only says that the middle was off. All
/// open rows in the last, small box say more: the maximum is some of its radii further on.
fn wider(held: &Peak) -> f64 {
    held.radius * if held.open.is_none() { 1.5 } else { 12.0 }
}

/// Whether all that was asked for is known, be the maximum where it may.
fn is_decided(peak: &Peak, goal: Goal) -> bool {
    let decided = |threshold: f64| peak.value > threshold || peak.load() <= threshold * (1.0 + 5e-14);
    peak.open.is_some() && goal.threshold.is_some_and(decided)
}

/// How exact a value in a box must be. Near its top the function is round: prices good to a part of the radius need a value good to the
/// square of that. A sum under floors is flatter than a level, because most rows have no choice: a climb that stopped early would end at
/// the edge of any box, however well that was chosen.
fn within_box(radius: f64, goal: Goal) -> f64 {
    let flat = if goal.threshold.is_some() { 1e-3 } else { 1e-4 };
    (flat * (radius * radius).min(1.0)).max(1e-14)
}

/// Where a sample's mixture leaves room to spare, the same mixture of all open rows may well fit: then the level is decided at once.
fn mixture_of_all(oracle: &Oracle<'_>, open: &[u32], fixed: &Tally, guess: &Peak, threshold: f64) -> Option<Peak> {
    if guess.load() > 0.99 * threshold {
        return None;
    }
    let mut mixed = fixed.clone();
    for (prices, weight) in &guess.mixture {
        mixed.add(&oracle.tally(Rows::Some(open), prices), *weight);
    }
    let mut tally = fixed.clone();
    tally.add(&oracle.tally(Rows::Some(open), &guess.prices), 1.0);
    let value = tally.value(&guess.prices);
    let (prices, mixture) = (guess.prices.clone(), guess.mixture.clone());
    let peak = Peak {
        prices,
        value,
        tally,
        mixture,
        mixed,
        at_edge: false,
        open: Some(open.to_vec()),
        steps: guess.steps,
        radius: guess.radius,
        shares: None,
    };
    (peak.load() <= threshold).then_some(peak)
}
