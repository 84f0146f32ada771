//! The objectives written straight down for a simplex, a variable per job and type.

use super::Case;
use microlp::{ComparisonOp, LinearExpr, OptimizationDirection, Problem, SolveOutcome, Variable};

/// Times and pools; `gain` per unit of share.
fn base(case: &Case, gain: impl Fn(usize, usize) -> f64) -> (Problem, Vec<Vec<Option<Variable>>>) {
    let mut problem = Problem::new(OptimizationDirection::Maximize);
    let mut cells: Vec<Vec<Option<Variable>>> = Vec::new();
    for claim in 0..case.claims.len() {
        let row: Vec<Option<Variable>> = (0..case.gpus.len())
            .map(|kind| {
                let open = case.takes_part(claim) && case.claims[claim].rates[kind] > 0.0 && case.gpus[kind] > 0.0;
                open.then(|| problem.add_var(gain(claim, kind), (0.0, 1.0)))
            })
            .collect();
        let mut time = LinearExpr::empty();
        row.iter().flatten().for_each(|variable| time.add(*variable, 1.0));
        if row.iter().any(Option::is_some) {
            problem.add_constraint(time, ComparisonOp::Le, 1.0);
        }
        cells.push(row);
    }
    for kind in 0..case.gpus.len() {
        let mut load = LinearExpr::empty();
        let mut any = false;
        for (claim, row) in cells.iter().enumerate() {
            if let Some(variable) = row[kind] {
                load.add(variable, case.claims[claim].gang / case.gpus[kind]);
                any = true;
            }
        }
        if any {
            problem.add_constraint(load, ComparisonOp::Le, 1.0);
        }
    }
    (problem, cells)
}

fn optimum(problem: &Problem) -> Option<f64> {
    match problem.solve() {
        Ok(SolveOutcome::Solution(solution)) => Some(solution.objective()),
        _ => None,
    }
}

fn rate(cells: &[Option<Variable>], speeds: &[f64], unit: f64) -> LinearExpr {
    let mut sum = LinearExpr::empty();
    for (cell, speed) in cells.iter().zip(speeds) {
        if let Some(variable) = cell {
            sum.add(*variable, speed / unit);
        }
    }
    sum
}

/// The highest level with `rate ≥ base + slope·level` for every claim with either; none if even the bases do not fit.
fn highest(case: &Case, speeds: &[Vec<f64>], base_rates: &[f64], slopes: &[f64]) -> Option<f64> {
    let (mut problem, cells) = base(case, |_, _| 0.0);
    let level = problem.add_var(1.0, (0.0, f64::INFINITY));
    for claim in 0..case.claims.len() {
        let unit = case.best_rate(claim).max(1e-12);
        if slopes[claim] > 0.0 || base_rates[claim] > 0.0 {
            let mut sum = rate(&cells[claim], &speeds[claim], unit);
            sum.add(level, -slopes[claim] / unit);
            problem.add_constraint(sum, ComparisonOp::Ge, base_rates[claim] / unit);
        }
    }
    optimum(&problem)
}

fn slopes(case: &Case, slope: impl Fn(usize) -> f64) -> Vec<f64> {
    (0..case.claims.len()).map(|claim| if case.takes_part(claim) { slope(claim) } else { 0.0 }).collect()
}

pub fn max_min(case: &Case, speeds: &[Vec<f64>]) -> f64 {
    let slopes = slopes(case, |claim| case.unit_rate(claim, speeds));
    highest(case, speeds, &vec![0.0; case.claims.len()], &slopes).unwrap()
}

pub fn makespan(case: &Case, speeds: &[Vec<f64>]) -> f64 {
    let slopes = slopes(case, |claim| case.claims[claim].remaining);
    1.0 / highest(case, speeds, &vec![0.0; case.claims.len()], &slopes).unwrap()
}

pub fn part_in_time(case: &Case, wanted: &[f64]) -> f64 {
    if wanted.iter().all(|&rate| rate <= 0.0) {
        return 1.0;
    }
    highest(case, &case.real(), &vec![0.0; case.claims.len()], wanted).unwrap()
}

/// The smallest worst ratio, by halving: for a given ratio, can everybody have the rate it asks for?
pub fn finish_time(case: &Case, speeds: &[Vec<f64>]) -> f64 {
    let jobs = (0..case.claims.len()).filter(|&claim| case.takes_part(claim)).count() as f64;
    let expected = |claim: usize| {
        let shares: Vec<f64> = case.gpus.iter().map(|gpus| gpus / jobs / case.claims[claim].gang).collect();
        let time = shares.iter().sum::<f64>().max(1.0);
        let private: f64 = shares.iter().zip(&speeds[claim]).map(|(share, speed)| share / time * speed).sum();
        case.claims[claim].remaining / private
    };
    let taking: Vec<usize> = (0..case.claims.len()).filter(|&claim| case.takes_part(claim)).collect();
    let asked = |ratio: f64| -> Option<Vec<f64>> {
        let mut rates = vec![0.0; case.claims.len()];
        for &claim in &taking {
            let seconds = ratio * expected(claim) - case.claims[claim].age;
            if seconds <= 0.0 {
                return None;
            }
            rates[claim] = case.claims[claim].remaining / seconds;
        }
        Some(rates)
    };
    // Everybody can have the asked-for rates if the level that scales them all reaches 1.
    let fits =
        |ratio: f64| asked(ratio).is_some_and(|rates| highest(case, speeds, &vec![0.0; rates.len()], &rates).unwrap() >= 1.0);
    let (mut low, mut high) = (0.0, 1.0);
    while !fits(high) {
        (low, high) = (high, high * 2.0);
    }
    for _ in 0..60 {
        let middle = 0.5 * (low + high);
        if fits(middle) { high = middle } else { low = middle }
    }
    high
}

/// The greatest sum of `factors·rate` above floors.
pub fn sum(case: &Case, factors: &[f64], floors: &[f64]) -> Option<f64> {
    let (mut problem, cells) = base(case, |claim, kind| factors[kind] * case.claims[claim].rates[kind]);
    for claim in 0..case.claims.len() {
        if floors[claim] > 0.0 {
            let unit = case.best_rate(claim);
            problem.add_constraint(rate(&cells[claim], &case.claims[claim].rates, unit), ComparisonOp::Ge, floors[claim] / unit);
        }
    }
    optimum(&problem)
}

/// The measure each claim ends at when all rise together and who cannot rise stays: a claim is final if it alone cannot rise above the level.
pub fn water_levels(case: &Case, speeds: &[Vec<f64>]) -> Vec<f64> {
    let count = case.claims.len();
    let units: Vec<f64> = slopes(case, |claim| case.unit_rate(claim, speeds));
    let mut levels = vec![0.0; count];
    let mut open: Vec<bool> = units.iter().map(|unit| *unit > 0.0).collect();
    while open.iter().any(|open| *open) {
        let rates = |levels: &[f64]| -> Vec<f64> {
            levels.iter().zip(&units).map(|(level, unit)| level * unit * (1.0 - 1e-10)).collect()
        };
        let rising: Vec<f64> = units.iter().zip(&open).map(|(unit, open)| if *open { *unit } else { 0.0 }).collect();
        let Some(rise) = highest(case, speeds, &rates(&levels), &rising) else { break };
        for claim in (0..count).filter(|&claim| open[claim]) {
            levels[claim] += rise;
        }
        let mut closed = false;
        for claim in 0..count {
            if open[claim] {
                let alone: Vec<f64> = (0..count).map(|other| if other == claim { units[claim] } else { 0.0 }).collect();
                let more = highest(case, speeds, &rates(&levels), &alone).unwrap_or(0.0);
                if more <= 1e-7 * levels[claim].max(1e-6) {
                    open[claim] = false;
                    closed = true;
                }
            }
        }
        if !closed {
            break;
        }
    }
    levels
}
