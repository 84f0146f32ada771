//! Maximises the summed gain of all rows under floors: the second pass after a maximised minimum, and the cost and deadline objectives.
//!
//! Maximise `Σ count·weight[i]·factor[j]·rate[i][j]·share[i][j]` with every row at or above its floor. Prices per pool separate the rows
//! here too: at any prices the sum of the rows' best surpluses plus the prices themselves bounds the optimum from above. The bound is
//! minimised with the same cutting planes as the level search, and the same mixture gives an allocation whose splits are gathered into
//! few rows, so that it resembles a vertex. The result carries realised value, proven bound and relative gap.

use crate::backend;
use crate::climb::{Goal, Peak, SAMPLE, climb, peak, sample_of};
use crate::error::{SolveError, check_length, check_non_negative};
use crate::master::{PriceBox, Scale};
use crate::mix::recover;
use crate::price::{Identical, Method, Options};
use crate::problem::Problem;
use crate::requirement::Requirement;
use crate::sweep::{Gain, Oracle, Rows, Tally};

/// What is maximised, and under which floors.
#[derive(Debug, Clone, Copy)]
pub struct SumGoal<'a> {
    /// Gain per unit of rate, one per row.
    pub weights: &'a [f64],
    /// Gain factor per pool (1 / cost, say).
    pub factors: &'a [f64],
    /// The rate each row must reach.
    pub floors: &'a [f64],
    /// Prices that proved the bound of a similar problem, to begin with.
    pub near: Option<&'a [f64]>,
}

/// A certified allocation of greatest sum.
#[derive(Debug, Clone, PartialEq)]
pub struct SumSolution {
    /// Fractions of time, rows × pools.
    pub shares: Vec<f64>,
    /// The sum that `shares` really give.
    pub value: f64,
    /// No allocation that keeps the floors has a greater sum.
    pub upper_bound: f64,
    /// `(upper_bound − value) / upper_bound`.
    pub gap: f64,
    /// Largest relative shortfall of any row below its floor.
    pub shortfall: f64,
    /// The method that found the solution.
    pub method: Method,
    /// Prices per pool that prove the bound.
    pub prices: Vec<f64>,
}

/// Maximises a sum under floors; identical rows are merged first.
pub fn max_sum_with_floors(problem: &Problem, goal: &SumGoal<'_>, options: &Options) -> Result<SumSolution, SolveError> {
    check_length("weights", goal.weights.len(), problem.rows())?;
    check_length("floors", goal.floors.len(), problem.rows())?;
    check_length("factors", goal.factors.len(), problem.columns())?;
    check_non_negative("weights", goal.weights)?;
    check_non_negative("floors", goal.floors)?;
    check_non_negative("factors", goal.factors)?;
    if (0..problem.rows()).any(|row| goal.floors[row] > problem.best_rate(row)) {
        return Err(SolveError::Infeasible);
    }
    if let Some(near) = goal.near {
        check_length("prices to begin with", near.len(), problem.columns())?;
        check_non_negative("prices to begin with", near)?;
    }
    if options.identical == Identical::Keep {
        let floors = Requirement::floors(goal.floors.to_vec())?;
        return Kernel::new(problem, &floors, goal.weights, goal).solve(options);
    }
    let mut merged = problem.merge(&[goal.weights, goal.floors])?;
    let floors = Requirement::floors(std::mem::take(&mut merged.extras[1]))?;
    let mut solution = Kernel::new(&merged.problem, &floors, &merged.extras[0], goal).solve(options)?;
    solution.shares = merged.expand(&solution.shares);
    Ok(solution)
}

/// The merged problem with its gains scaled so that the greatest conceivable sum is 1.
struct Kernel<'a> {
    problem: &'a Problem,
    floors: &'a Requirement,
    weights: &'a [f64],
    factors: Vec<f64>,
    scale: f64,
    /// Prices to begin with, if there are any.
    near: Option<Vec<f64>>,
}

impl<'a> Kernel<'a> {
    fn new(problem: &'a Problem, floors: &'a Requirement, weights: &'a [f64], goal: &SumGoal<'_>) -> Self {
        let factors = goal.factors;
        let ideal = |row: usize| {
            let best = problem.rates(row).iter().zip(factors).map(|(rate, factor)| rate * factor).fold(0.0, f64::max);
            problem.counts()[row] * weights[row] * best
        };
        let total: f64 = (0..problem.rows()).map(ideal).sum();
        let scale = if total > 0.0 && total.is_finite() { total } else { 1.0 };
        let mut factors: Vec<f64> = factors.iter().map(|factor| factor / scale).collect();
        factors.resize(problem.padded_rates().1, 0.0);
        let near = goal.near.map(|near| near.iter().map(|price| price / scale).collect());
        Self { problem, floors, weights, factors, scale, near }
    }

    fn oracle(&self) -> Oracle<'_> {
        let gain = Gain { weights: self.weights, factors: &self.factors };
        Oracle { problem: self.problem, requirement: self.floors, gain: Some(gain), level: 0.0 }
    }

    fn solve(&self, options: &Options) -> Result<SumSolution, SolveError> {
        let oracle = self.oracle();
        let mut best: Option<SumSolution> = None;
        for method in options.methods() {
            let peak = match self.run(&oracle, method, options) {
                // The prices alone may prove that the floors do not fit.
                Err(SolveError::Infeasible) => return Err(SolveError::Infeasible),
                Err(error) if method >= options.last && best.is_none() => return Err(error),
                Err(_) => continue,
                Ok(peak) => peak,
            };
            let solution = self.certify(&oracle, &peak, method);
            let sound = solution.shortfall <= 1e-9;
            if sound && solution.gap <= options.tolerance {
                return Ok(solution);
            }
            let rank =
                |solution: &SumSolution| solution.gap + if solution.shortfall <= 1e-9 { 0.0 } else { 1.0 + solution.shortfall };
            if best.as_ref().is_none_or(|best| rank(&solution) < rank(best)) {
                best = Some(solution);
            }
        }
        best.ok_or(SolveError::Infeasible)
    }

    fn run(&self, oracle: &Oracle<'_>, method: Method, options: &Options) -> Result<Peak, SolveError> {
        let columns = oracle.columns();
        if method == Method::Backend {
            return self.backend(oracle, options.backend_seconds);
        }
        // The bound contains the prices themselves: a whole pool sold at its price.
        let mut fixed = Tally::new(columns);
        fixed.usage.fill(-1.0);
        // Prices a good deal nearer than the gap asked for: the mixture that is made from them loses some of it again.
        let exact = Goal { tolerance: (1e-4 * options.tolerance).max(1e-14), threshold: None, stride: 0.5, steps: 300 };
        // Without floors no price exceeds the whole sum, 1; floors can push prices up, by how much is found out.
        let mut upper = 4.0;
        let mut start = vec![0.5 / columns as f64; columns];
        for _ in 0..12 {
            let whole = PriceBox::whole(columns, upper, Scale::Free);
            let found = if method == Method::Prices {
                self.thinned(oracle, &fixed, &whole, &start, exact)
            } else {
                climb(oracle, Rows::All, 1.0, &fixed, &whole, &start, Goal { stride: 1.0, steps: 3000, ..exact })
            };
            // Every allocation gains at least nothing, so a bound below nothing leaves none.
            if found.value > 1e-9 {
                return Err(SolveError::Infeasible);
            }
            if found.prices.iter().all(|&price| price < 0.999 * upper) {
                return Ok(found);
            }
            start = found.prices.to_vec();
            upper *= 16.0;
        }
        Err(SolveError::Backend("prices grow without bound".to_owned()))
    }

    /// Large problems: first a rough climb, then exact within a box that is widened as needed.
    fn thinned(&self, oracle: &Oracle<'_>, fixed: &Tally, whole: &PriceBox, start: &[f64], exact: Goal) -> Peak {
        if self.problem.rows() <= 2 * SAMPLE
            && let Some(near) =
                self.near.as_ref().filter(|near| near.iter().zip(&whole.upper).all(|(price, upper)| price < upper))
        {
            return peak(oracle, fixed, whole, near, 0.1, exact);
        }
        if self.problem.rows() <= 1024 {
            return climb(oracle, Rows::All, 1.0, fixed, whole, start, exact);
        }
        if self.problem.rows() <= 2 * SAMPLE {
            let near = climb(oracle, Rows::All, 1.0, fixed, whole, start, Goal { tolerance: 1e-3, ..exact });
            return peak(oracle, fixed, whole, &near.prices, 0.1, exact);
        }
        // Prices of a sample are good to a few standard errors of its size. A large sample is itself begun with a sample.
        let rows: Vec<u32> = (0..self.problem.rows() as u32).collect();
        let picked = sample_of(&rows, (rows.len() / 16).max(SAMPLE));
        let weight = rows.len() as f64 / picked.len() as f64;
        let near = if picked.len() > 2 * SAMPLE {
            let (problem, floors) = (self.problem.sampled(&picked, weight), self.floors.sampled(&picked));
            let weights: Vec<f64> = picked.iter().map(|&row| self.weights[row as usize]).collect();
            let few = Kernel {
                problem: &problem,
                floors: &floors,
                weights: &weights,
                factors: self.factors.clone(),
                scale: self.scale,
                near: None,
            };
            few.thinned(&few.oracle(), fixed, whole, start, exact)
        } else {
            climb(oracle, Rows::Some(&picked), weight, fixed, whole, start, Goal { tolerance: 1e-5, ..exact })
        };
        peak(oracle, fixed, whole, &near.prices, 4.0 / (picked.len() as f64).sqrt(), exact)
    }

    fn backend(&self, oracle: &Oracle<'_>, seconds: f64) -> Result<Peak, SolveError> {
        let gain = |row: usize, column: usize| {
            self.problem.counts()[row] * self.weights[row] * self.factors[column] * self.problem.rates(row)[column]
        };
        let layout = backend::layout(oracle, None, gain);
        let solution = backend::answer(&layout, seconds)?;
        let prices = backend::pool_prices(&layout, &solution);
        let mut tally = oracle.tally(Rows::All, &prices);
        tally.usage.iter_mut().for_each(|usage| *usage -= 1.0);
        let value = tally.value(&prices);
        let shares = backend::to_shares(oracle, &layout, &solution);
        let mixed = tally.clone();
        Ok(Peak::of_shares(prices, value, tally, mixed, shares))
    }

    /// Recomputes everything from the shares and the prices alone.
    fn certify(&self, oracle: &Oracle<'_>, peak: &Peak, method: Method) -> SumSolution {
        let shares = recover(oracle, peak);
        let columns = self.problem.columns();
        let (mut value, mut shortfall) = (0.0, 0.0_f64);
        for row in 0..self.problem.rows() {
            let share = &shares[row * columns..(row + 1) * columns];
            let gains = self.problem.rates(row).iter().zip(&self.factors).zip(share);
            value += self.problem.counts()[row]
                * self.weights[row]
                * gains.map(|((rate, factor), time)| rate * factor * time).sum::<f64>();
            let (floor, _) = self.floors.at(row, 0.0);
            if floor > 0.0 {
                shortfall = shortfall.max(1.0 - self.problem.row_rate(row, &shares) / floor);
            }
        }
        let upper = (-peak.value).max(value);
        let gap = if upper > 0.0 { (upper - value) / upper } else { 0.0 };
        let prices = peak.prices.iter().map(|price| price * self.scale).collect();
        SumSolution { shares, value: value * self.scale, upper_bound: upper * self.scale, gap, shortfall, method, prices }
    }
}
