//! The price kernel: the highest common level at which every row's requirement fits the pools, with a proof.
//!
//! For one level, put a price on each pool, prices summing to 1: every row then pays at least its cheapest way to its requirement, and
//! if that adds up to more than 1 at any prices, the level is out of reach. The level starts above the optimum and falls to where the
//! prices found so far forbid no more; each stop is a proven upper bound. The first level whose requirements a mixture of allocations
//! meets is therefore optimal, and the mixture is the allocation. The result carries what it really achieves, the proven bound and the
//! relative gap between them; above the tolerance a second, plainer method is tried, then the linear-program backend.

use crate::backend;
use crate::climb::{Goal, Peak, SAMPLE, climb, peak, radii, sample_of};
use crate::envelope::IDLE;
use crate::error::{SolveError, check_length};
use crate::master::{PriceBox, Scale};
use crate::mix::recover;
use crate::problem::Problem;
use crate::requirement::{Ceiling, Requirement};
use crate::sweep::{Oracle, PerPool, Rows, Seen, Tally};
use serde::{Deserialize, Serialize};
use smallvec::smallvec;

/// How far, relatively, a mixture may overload a pool and still count as reaching its level.
const REACHED: f64 = 1e-9;

/// Part of the dearest pool's price from which on a cost is one, and not noise.
pub(crate) const CLEAR_COST: f64 = 1e-7;

/// How far above its rate, relatively, a row is asked what more would cost: what it can still gain for nothing if that costs something.
const ABOVE: f64 = 1e-7;

/// How a problem is solved.
#[derive(Debug, Clone, PartialEq)]
pub struct Options {
    /// Relative gap above which the next method is tried.
    pub tolerance: f64,
    /// Seconds the linear-program backend may take, should it be needed.
    pub backend_seconds: f64,
    /// The method to begin with; those after it remain as fallbacks.
    pub first: Method,
    /// The last method that may be tried, however good the answer is by then.
    pub last: Method,
    /// What is known of identical rows.
    pub identical: Identical,
}

impl Default for Options {
    fn default() -> Self {
        Self { tolerance: 1e-9, backend_seconds: 60.0, first: Method::Prices, last: Method::Backend, identical: Identical::Merge }
    }
}

impl Options {
    /// The methods to try, in order.
    pub(crate) fn methods(&self) -> impl Iterator<Item = Method> + use<> {
        let (first, last) = (self.first, self.last.max(self.first));
        [Method::Prices, Method::PlainCuts, Method::Backend].into_iter().filter(move |method| (first..=last).contains(method))
    }
}

/// What to do about identical rows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Identical {
    /// Look for them, and solve for one in place of all.
    Merge,
    /// Nothing: the caller has merged them, or wants each row to stand for itself.
    Keep,
}

/// What found a solution, quickest first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Method {
    /// Cutting planes on prices with settled rows.
    Prices,
    /// Cutting planes over all rows, without shortcuts.
    PlainCuts,
    /// The linear-program backend.
    Backend,
}

/// What an earlier solve leaves for the next one of nearly the same problem.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Warm {
    /// Price per pool, summing to 1.
    pub prices: Vec<f64>,
    /// The level reached.
    pub level: f64,
}

/// What keeps the level from rising.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Bound {
    /// The pools: at the prices returned, any more costs more than there is.
    Pools,
    /// Rows at their own best rates.
    Rows,
}

/// A certified allocation.
#[derive(Debug, Clone, PartialEq)]
pub struct LevelSolution {
    /// Fractions of time, rows × pools.
    pub shares: Vec<f64>,
    /// The level that `shares` really give, recomputed from them.
    pub level: f64,
    /// No allocation reaches a higher level than this.
    pub upper_bound: f64,
    /// `(upper_bound − level) / upper_bound`.
    pub gap: f64,
    /// The method that found the solution.
    pub method: Method,
    /// Prices that prove the bound (if pools are what bounds), and a warm start for the next solve.
    pub prices: Vec<f64>,
    /// What bounds the level.
    pub bound_by: Bound,
    /// Passes of the cutting planes.
    pub steps: usize,
}

impl LevelSolution {
    /// For each row, whether the proof says that no allocation of this level can give it clearly more: more rate would cost something.
    pub fn closed_rows(&self, problem: &Problem, requirement: &Requirement) -> Vec<bool> {
        self.costs_of_more(problem, requirement).iter().map(|&cost| cost > CLEAR_COST).collect()
    }

    /// For each row, what more rate would cost at the proof's prices, relative to as many units of the dearest pool; zero if the pools are
    /// not what bounds the level. Compared with the dearest pool, because prices from the backend carry noise that would look large beside
    /// a row's own small costs. Asked a little above what the level gives: a row that just exhausts what is free to it stands on a corner,
    /// and at the corner itself rounding decides whether the next step seems free or not.
    pub(crate) fn costs_of_more(&self, problem: &Problem, requirement: &Requirement) -> Vec<f64> {
        let mut more = vec![0.0; problem.rows()];
        if self.bound_by == Bound::Rows {
            return more;
        }
        let units = self.prices.iter().zip(problem.capacities()).filter(|(_, capacity)| **capacity > 0.0);
        let units: Vec<f64> = units.map(|(price, capacity)| price / capacity).collect();
        let dearest = units.iter().copied().fold(0.0, f64::max);
        if units.iter().all(|&unit| unit > CLEAR_COST * dearest) {
            // Nothing is free.
            more.fill(1.0);
            return more;
        }
        let above = |row: usize| requirement.at(row, self.upper_bound).0.min(problem.best_rate(row)) * (1.0 + ABOVE);
        let base: Vec<f64> = (0..problem.rows()).map(above).collect();
        let raised = Requirement { base, slope: Vec::new(), bend: Vec::new(), ceiling: requirement.ceiling };
        let oracle = Oracle { problem, requirement: &raised, gain: None, level: 0.0 };
        oracle.visit(Rows::All, &self.prices, &mut |seen: &Seen<'_>| {
            let choice = &seen.choice;
            if choice.right != IDLE {
                let left = if choice.left == IDLE { 0.0 } else { seen.costs[choice.left] };
                more[seen.row] = (seen.costs[choice.right] - left) / (dearest * problem.sizes()[seen.row]);
            }
        });
        more
    }

    /// The warm start for a similar problem.
    pub fn warm(&self) -> Warm {
        Warm { prices: self.prices.clone(), level: self.level }
    }
}

/// Finds the prices that forbid a level most clearly, from prices and the radius in which to trust them.
pub(crate) type Inner<'a> = dyn FnMut(&Oracle<'_>, &[f64], f64) -> Result<Peak, SolveError> + 'a;

/// Where a search may begin.
pub(crate) struct Guess {
    prices: PerPool,
    level: f64,
    /// Relative radius within which the prices are trusted.
    radius: f64,
}

/// A level that prices prove to be the highest and a mixture of choices reaches, before that mixture is made an allocation: a caller that goes on
/// from the level alone need not pay for one.
#[derive(Debug)]
pub struct Reached {
    /// As it will be, but for the shares.
    pub solution: LevelSolution,
    search: Search,
}

impl Reached {
    /// Works out the allocation.
    pub fn shares(&self, problem: &Problem, requirement: &Requirement) -> Vec<f64> {
        recover(&Oracle { problem, requirement, gain: None, level: self.search.upper }, &self.search.peak)
    }
}

/// How far the level search got: a proven bound and the allocation that comes nearest to it.
#[derive(Debug)]
pub(crate) struct Search {
    pub upper: f64,
    /// Prices at which the requirements of any higher level cost more than there is; none if rows' own limits are the bound.
    pub proof: Option<PerPool>,
    pub peak: Peak,
    pub steps: usize,
}

/// Maximises the smallest `rate/weight`.
pub fn max_min(problem: &Problem, weights: &[f64], options: &Options, warm: Option<&Warm>) -> Result<LevelSolution, SolveError> {
    maximise_level(problem, &Requirement::max_min(weights.to_vec())?, options, warm)
}

/// Maximises the common level of a requirement. Identical rows are merged first and get identical shares.
pub fn maximise_level(
    problem: &Problem,
    requirement: &Requirement,
    options: &Options,
    warm: Option<&Warm>,
) -> Result<LevelSolution, SolveError> {
    // Checked before merging, so that errors name the caller's rows.
    let cap = requirement.cap(problem)?;
    if let Some(warm) = warm {
        check_length("warm prices", warm.prices.len(), problem.columns())?;
    }
    if options.identical == Identical::Keep {
        return solve_merged(problem, requirement, cap, options, warm);
    }
    let lists = [&requirement.base, &requirement.slope, &requirement.bend];
    let extras: Vec<&[f64]> = lists.iter().filter(|list| !list.is_empty()).map(|list| list.as_slice()).collect();
    let Some(merged) = problem.merge_if_smaller(&extras)? else {
        return solve_merged(problem, requirement, cap, options, warm);
    };
    let mut lists = merged.extras.iter().cloned();
    let mut next = |list: &Vec<f64>| if list.is_empty() { Vec::new() } else { lists.next().unwrap_or_default() };
    let smaller = Requirement {
        base: next(&requirement.base),
        slope: next(&requirement.slope),
        bend: next(&requirement.bend),
        ceiling: requirement.ceiling,
    };
    let mut solution = solve_merged(&merged.problem, &smaller, cap, options, warm)?;
    solution.shares = merged.expand(&solution.shares);
    Ok(solution)
}

/// The highest level by prices alone, every row standing for itself. None if prices end short of it: then [`maximise_level`] has other ways.
pub fn reach_level(problem: &Problem, requirement: &Requirement, warm: Option<&Warm>) -> Result<Option<Reached>, SolveError> {
    let cap = requirement.cap(problem)?;
    if let Some(warm) = warm {
        check_length("warm prices", warm.prices.len(), problem.columns())?;
    }
    let oracle = Oracle { problem, requirement, gain: None, level: cap };
    let search = by_prices(&oracle, cap, warm.and_then(usable))?;
    let over = (search.peak.load() - 1.0).max(0.0);
    if over > REACHED {
        return Ok(None);
    }
    let level = search.upper * (1.0 - over);
    let solution = solution(&search, Vec::new(), level, Method::Prices, search.steps);
    Ok(Some(Reached { solution, search }))
}

fn solve_merged(
    problem: &Problem,
    requirement: &Requirement,
    cap: f64,
    options: &Options,
    warm: Option<&Warm>,
) -> Result<LevelSolution, SolveError> {
    let oracle = Oracle { problem, requirement, gain: None, level: cap };
    let mut best: Option<LevelSolution> = None;
    let mut steps = 0;
    for method in options.methods() {
        let outcome = run(&oracle, cap, method, options, warm);
        let search = match outcome {
            // An allocation in hand is worth more than a fallback's complaint.
            Err(error) if best.is_none() => return Err(error),
            Err(_) => break,
            Ok(search) => search,
        };
        steps += search.steps;
        let solution = certify(&oracle, &search, method, steps);
        if best.as_ref().is_none_or(|best| solution.gap < best.gap) {
            best = Some(solution);
        }
        if best.as_ref().is_some_and(|best| best.gap <= options.tolerance) {
            break;
        }
    }
    best.ok_or(SolveError::Empty("method that applies"))
}

fn run(oracle: &Oracle<'_>, cap: f64, method: Method, options: &Options, warm: Option<&Warm>) -> Result<Search, SolveError> {
    let columns = oracle.columns();
    let whole = PriceBox::whole(columns, 1.0, Scale::Simplex);
    let nothing = Tally::new(columns);
    match method {
        Method::Prices => by_prices(oracle, cap, warm.and_then(usable)),
        Method::PlainCuts => {
            let plain = Goal { stride: 1.0, steps: 3000, ..EXACT };
            search(oracle, cap, None, 1e-15, &mut |oracle, prices, _| {
                Ok(climb(oracle, Rows::All, 1.0, &nothing, &whole, prices, plain))
            })
        }
        Method::Backend => {
            search(oracle, cap, None, 1e-15, &mut |oracle, _, _| backend::least_load(oracle, options.backend_seconds))
        }
    }
}

/// A warm start brought back to the simplex, if it has any content.
fn usable(warm: &Warm) -> Option<Guess> {
    let sum: f64 = warm.prices.iter().sum();
    let fine = sum.is_finite() && sum > 0.0 && warm.prices.iter().all(|&price| price >= 0.0) && warm.level.is_finite();
    let prices = warm.prices.iter().map(|price| price / sum).collect();
    fine.then_some(Guess { prices, level: warm.level, radius: 0.1 })
}

/// The goal of a search that is to end at the optimum itself.
const EXACT: Goal = Goal { tolerance: 1e-15, threshold: Some(1.0), stride: 0.5, steps: 600 };

/// Rows from which on most of them are settled once for all levels near the estimated one.
const MANY_ROWS: usize = 8192;

/// The level search with prices: from a guess if there is one, or else from an estimate on a sample.
fn by_prices(oracle: &Oracle<'_>, cap: f64, guess: Option<Guess>) -> Result<Search, SolveError> {
    let start = guess.or_else(|| estimate(oracle, cap));
    let linear = oracle.requirement.bend.is_empty() && oracle.requirement.ceiling == Ceiling::Common;
    if linear
        && oracle.problem.rows() > MANY_ROWS
        && let Some(guess) = &start
        && let Some(found) = windowed(oracle, cap, guess)
    {
        return Ok(found);
    }
    let columns = oracle.columns();
    let (whole, nothing) = (PriceBox::whole(columns, 1.0, Scale::Simplex), Tally::new(columns));
    search(oracle, cap, start, 1e-15, &mut |oracle, prices, radius| Ok(peak(oracle, &nothing, &whole, prices, radius, EXACT)))
}

/// The search within a window of prices and levels around a guess. Rows that have the same choice in all of it are added up once, as a
/// function of the level; the search is over the others alone. None if the optimum is not in a window of any size tried.
fn windowed(oracle: &Oracle<'_>, cap: f64, guess: &Guess) -> Option<Search> {
    let (mut center, mut level, mut radius) = (guess.prices.clone(), guess.level.min(cap), guess.radius);
    let whole = PriceBox::whole(oracle.columns(), 1.0, Scale::Simplex);
    for _ in 0..4 {
        if level <= 0.0 || radius > 0.3 {
            return None;
        }
        let reach = radii(&center, radius);
        let bounds = whole.around(&center, &reach).into_whole();
        let (settled, open) = oracle.at_level(level).classify(Rows::All, &center, &reach, radius);
        let (problem, requirement) = (oracle.problem.sampled(&open, 1.0), oracle.requirement.sampled(&open));
        let rest = Oracle { problem: &problem, requirement: &requirement, gain: None, level };
        let top = (level * (1.0 + radius)).min(cap);
        let mut here = settled.clone();
        here.add(&rest.tally(Rows::All, &center), 1.0);
        let bound = level + (1.0 - here.value(&center)) / here.value_growth(&center);
        let start = if bound > level * (1.0 - radius) && bound < top {
            Start { level: bound, prices: center.clone(), radius, proof: Some(center.clone()) }
        } else {
            Start { level: top, prices: center.clone(), radius, proof: None }
        };
        let found = descend(&rest, start, 1e-15, &mut |rest, prices, radius| {
            let mut fixed = settled.clone();
            for (usage, growth) in fixed.usage.iter_mut().zip(&settled.growth) {
                *usage += growth * (rest.level - level);
            }
            Ok(peak(rest, &fixed, &bounds, prices, radius, EXACT))
        });
        let Ok(mut found) = found else { return None };
        let too_low = found.proof.is_none() && top < cap;
        let too_high = found.upper < level * (1.0 - radius);
        // Where rows at their best are the bound and all fits, prices prove nothing and may be any.
        let fits_at_cap = found.upper >= cap && found.peak.load() <= 1.0;
        if !too_low && !too_high && (fits_at_cap || !bounds.holds_back(&found.peak.prices, &whole)) {
            let named = |list: Vec<u32>| list.into_iter().map(|row| open[row as usize]).collect();
            found.peak.open = Some(found.peak.open.take().map_or_else(|| open.clone(), named));
            return Some(found);
        }
        (center, level, radius) = (found.peak.prices, found.upper.min(cap), radius * 4.0);
    }
    None
}

/// Prices and level of a sample of the rows, for problems large enough to be worth it. The sample of a very large problem is itself
/// estimated by a sample.
fn estimate(oracle: &Oracle<'_>, cap: f64) -> Option<Guess> {
    let count = oracle.problem.rows();
    if count <= 2 * SAMPLE {
        return None;
    }
    let size = (count / 16).max(SAMPLE);
    let rows: Vec<u32> = (0..count as u32).collect();
    let picked = sample_of(&rows, size);
    let problem = oracle.problem.sampled(&picked, rows.len() as f64 / picked.len() as f64);
    let requirement = oracle.requirement.sampled(&picked);
    // A sample need not contain a row that asks for anything, and its floors may not fit: then there is no estimate.
    let own = requirement.cap(&problem).ok()?.min(cap);
    let small = Oracle { problem: &problem, requirement: &requirement, gain: None, level: own };
    // A few standard errors of a sample of that size.
    if picked.len() > 2 * SAMPLE {
        let found = by_prices(&small, own, None).ok()?;
        let prices = found.proof.unwrap_or(found.peak.prices);
        return Some(Guess { prices, level: found.upper, radius: 4.0 / (picked.len() as f64).sqrt() });
    }
    let whole = PriceBox::whole(oracle.columns(), 1.0, Scale::Simplex);
    let nothing = Tally::new(oracle.columns());
    let rough = Goal { tolerance: 1e-4, threshold: Some(1.0), stride: 0.5, steps: 300 };
    let found =
        search(&small, own, None, 1e-3, &mut |oracle, prices, radius| Ok(peak(oracle, &nothing, &whole, prices, radius, rough)));
    // The search stops as soon as the level is decided; as a guess for all rows the very best prices serve better.
    let search = found.ok()?;
    let polish = Goal { tolerance: 1e-5, threshold: None, ..rough };
    let here = small.at_level(search.upper);
    let polished = climb(&here, Rows::All, 1.0, &nothing, &whole, &search.peak.prices, polish);
    Some(Guess { prices: polished.prices, level: search.upper, radius: 4.0 / (SAMPLE as f64).sqrt() })
}

/// Where a descent of the level begins.
struct Start {
    level: f64,
    prices: PerPool,
    radius: f64,
    /// Prices that forbid anything above the level, if there are any.
    proof: Option<PerPool>,
}

/// Lowers the level until a mixture meets it.
pub(crate) fn search(
    oracle: &Oracle<'_>,
    cap: f64,
    start: Option<Guess>,
    precision: f64,
    inner: &mut Inner<'_>,
) -> Result<Search, SolveError> {
    let columns = oracle.columns();
    let start = match start {
        Some(Guess { prices, level, radius }) => {
            let level = first_bound(oracle, cap, level.clamp(0.0, cap), &prices);
            Start { level, radius, proof: (level < cap).then(|| prices.clone()), prices }
        }
        None => Start { level: cap, prices: smallvec![1.0 / columns as f64; columns], radius: f64::INFINITY, proof: None },
    };
    descend(oracle, start, precision, inner)
}

/// The search itself: each round forbids a level or ends.
fn descend(oracle: &Oracle<'_>, start: Start, precision: f64, inner: &mut Inner<'_>) -> Result<Search, SolveError> {
    let Start { mut level, mut prices, mut radius, mut proof } = start;
    let mut steps = 0;
    for round in 0.. {
        let here = oracle.at_level(level);
        let peak = inner(&here, &prices, radius)?;
        steps += peak.steps;
        let forbidden = peak.value > 1.0 && peak.load() > 1.0 + 5e-14;
        if !forbidden || round >= 60 {
            return Ok(Search { upper: level, proof, peak, steps });
        }
        if level <= 0.0 {
            return if peak.value > 1.0 + 1e-10 {
                Err(SolveError::Infeasible)
            } else {
                Ok(Search { upper: 0.0, proof, peak, steps })
            };
        }
        let next = lower_level(oracle, level, &peak);
        if next >= level * (1.0 - precision) {
            if !peak.at_edge || radius == f64::INFINITY {
                return Ok(Search { upper: level, proof, peak, steps });
            }
            // No progress because the prices were held back, not because there is none to make.
            (prices, radius) = (peak.prices, f64::INFINITY);
            continue;
        }
        // Near its top the value is round: prices that fall short of it by some part are off by about the root of that.
        // A box that held the prices back was too small, whatever the level did.
        let widened = if peak.at_edge { radius.min(peak.radius) * 8.0 } else { 0.0 };
        radius = (0.7 * ((level - next) / level).sqrt()).clamp(1e-7, 1.0).max(widened);
        if next <= level * 0.5 {
            radius = f64::INFINITY;
        }
        prices = peak.prices;
        proof = Some(prices.clone());
        level = next;
    }
    Err(SolveError::Empty("rounds"))
}

/// A proven bound from guessed prices: where the tangent at the guessed level reaches 1.
fn first_bound(oracle: &Oracle<'_>, cap: f64, guessed: f64, prices: &[f64]) -> f64 {
    if oracle.requirement.ceiling == Ceiling::OwnBest {
        return cap;
    }
    let tally = oracle.at_level(guessed).tally(Rows::All, prices);
    let growth = tally.value_growth(prices);
    if growth <= 0.0 {
        return cap;
    }
    let bound = guessed + (1.0 - tally.value(prices)) / growth;
    if bound > 0.0 && bound < cap { bound } else { cap }
}

/// The next level at or above the optimum, given prices that forbid this one.
fn lower_level(oracle: &Oracle<'_>, level: f64, peak: &Peak) -> f64 {
    if oracle.requirement.ceiling == Ceiling::Common {
        // The cost of a requirement is convex in the level: its tangent stays below it, so its root is above the true one.
        let growth = peak.tally.value_growth(&peak.prices);
        return if growth > 0.0 { (level - (peak.value - 1.0) / growth).max(0.0) } else { 0.0 };
    }
    // Rows that stop at their own best bend the cost the other way; it still rises, so a bracket is safe.
    let cost = |level: f64| oracle.at_level(level).tally(Rows::All, &peak.prices).value(&peak.prices) - 1.0;
    let (mut low, mut high) = (0.0, level);
    let (mut low_cost, mut high_cost) = (cost(0.0), peak.value - 1.0);
    if low_cost > 0.0 {
        return 0.0;
    }
    for round in 0..120 {
        if high - low <= 1e-15 * high || high_cost <= 2e-15 {
            break;
        }
        // Every other step halves the bracket: where the cost leaps at one end, the line alone would creep.
        let line = high - high_cost * (high - low) / (high_cost - low_cost);
        let aim = if round % 2 == 0 { line } else { 0.5 * (low + high) };
        let middle = aim.clamp(low + 1e-3 * (high - low), high - 1e-3 * (high - low));
        let middle_cost = cost(middle);
        if middle_cost > 0.0 {
            (high, high_cost) = (middle, middle_cost);
        } else {
            (low, low_cost) = (middle, middle_cost);
        }
    }
    high
}

/// Turns the end of a search into an allocation and checks it from scratch.
fn certify(oracle: &Oracle<'_>, search: &Search, method: Method, steps: usize) -> LevelSolution {
    let here = oracle.at_level(search.upper);
    let shares = recover(&here, &search.peak);
    let level = oracle.requirement.realised(oracle.problem, &shares, search.upper).max(0.0);
    solution(search, shares, level, method, steps)
}

/// What a search found, with the level that shares give.
fn solution(search: &Search, shares: Vec<f64>, level: f64, method: Method, steps: usize) -> LevelSolution {
    // The sums behind the bound are exact to some units in the last place.
    let upper_bound = (search.upper * (1.0 + 1e-14)).max(level);
    let gap = if upper_bound > 0.0 { (upper_bound - level) / upper_bound } else { 0.0 };
    let prices = search.proof.as_ref().unwrap_or(&search.peak.prices).to_vec();
    LevelSolution {
        shares,
        level,
        upper_bound,
        gap,
        method,
        prices,
        bound_by: if search.proof.is_some() { Bound::Pools } else { Bound::Rows },
        steps,
    }
}
