//! Prints CPU seconds of the kernels beside Clarabel on the same problem; absolute times mean little on a shared machine, ratios more.

#![expect(clippy::print_stdout, reason = "printing is what this program is for")]

use rota_solver::SolveError;
use rota_solver::match_prices::{Matching, match_by_prices};
use rota_solver::max_sum::{SumGoal, max_sum_with_floors};
use rota_solver::packed::{Class, PackedProblem, Pair};
use rota_solver::price::{Method, Options, Warm, max_min, maximise_level};
use rota_solver::problem::Problem;
use rota_solver::requirement::Requirement;
use rota_solver::water::water_filling;
use std::time::Instant;

/// A small generator, so that every run solves the same problems.
struct Numbers(u64);

impl Numbers {
    fn next(&mut self) -> f64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 11) as f64 / (1_u64 << 53) as f64
    }

    fn pick(&mut self, choices: &[f64]) -> f64 {
        choices[((self.next() * choices.len() as f64) as usize).min(choices.len() - 1)]
    }
}

/// Rows with sizes 1 to 8 and weights 1 to 4 on pools that hold about a third of what is asked for.
struct Case {
    problem: Problem,
    weights: Vec<f64>,
}

fn case(rows: usize, columns: usize, templates: Option<usize>, seed: u64) -> Result<Case, SolveError> {
    let mut numbers = Numbers(seed);
    for _ in 0..8 {
        numbers.next();
    }
    let draw = |numbers: &mut Numbers, column: usize| (0.3 + numbers.next()) * (1.0 + column as f64 * numbers.next());
    let table: Vec<Vec<f64>> =
        (0..templates.unwrap_or(0)).map(|_| (0..columns).map(|c| draw(&mut numbers, c)).collect()).collect();
    let (mut sizes, mut weights, mut rates) = (Vec::new(), Vec::new(), Vec::new());
    for _ in 0..rows {
        sizes.push(numbers.pick(&[1.0, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0, 2.0, 4.0, 8.0]));
        weights.push(numbers.pick(&[1.0, 1.0, 2.0, 4.0]));
        if table.is_empty() {
            rates.extend((0..columns).map(|column| draw(&mut numbers, column)));
        } else {
            rates.extend_from_slice(&table[(numbers.next() * table.len() as f64) as usize]);
        }
    }
    // Units for about a seventh of the demand in all, unevenly over the pools.
    let parts: Vec<f64> = (0..columns).map(|column| 3.0 + 2.0 * column as f64).collect();
    let capacities: Vec<f64> = parts.iter().map(|part| 0.3 * rows as f64 * part / parts.iter().sum::<f64>()).collect();
    Ok(Case { problem: Problem::new(&capacities, &sizes, &rates)?, weights })
}

/// The same rows on half of the pools: with so many rows the slowest one's own best otherwise bounds the level.
fn halved(problem: &Problem) -> Result<Problem, SolveError> {
    let capacities: Vec<f64> = problem.capacities().iter().map(|units| units * 0.5).collect();
    let rates: Vec<f64> = (0..problem.rows()).flat_map(|row| problem.rates(row).iter().copied()).collect();
    Problem::new(&capacities, problem.sizes(), &rates)
}

/// CPU time would need the platform; one thread that never waits makes the wall a fair stand-in. Best of some runs.
fn timed<T>(runs: usize, mut call: impl FnMut() -> Result<T, SolveError>) -> Result<(f64, T), SolveError> {
    let mut best: Option<(f64, T)> = None;
    for _ in 0..runs {
        let start = Instant::now();
        let result = call()?;
        let seconds = start.elapsed().as_secs_f64();
        if best.as_ref().is_none_or(|(least, _)| seconds < *least) {
            best = Some((seconds, result));
        }
    }
    best.ok_or(SolveError::Empty("runs"))
}

fn level_line(name: &str, case: &Case, requirement: &Requirement, backend: bool) -> Result<(), SolveError> {
    let options = Options::default();
    let (cold, solution) = timed(3, || maximise_level(&case.problem, requirement, &options, None))?;
    let warm = Warm { level: solution.level * 1.001, ..solution.warm() };
    let (again, _) = timed(3, || maximise_level(&case.problem, requirement, &options, Some(&warm)))?;
    print!(
        "{name:<44} {:>9.3} ms, warm {:>8.3} ms, gap {:.1e}, violation {:.1e}, {:?}, {} passes",
        cold * 1e3,
        again * 1e3,
        solution.gap,
        case.problem.violation(&solution.shares),
        solution.method,
        solution.steps
    );
    if backend {
        let only = Options { first: Method::Backend, ..Options::default() };
        let (seconds, other) = timed(1, || maximise_level(&case.problem, requirement, &only, None))?;
        print!("; clarabel {:.1} ms ({:.0} times), gap {:.1e}", seconds * 1e3, seconds / cold, other.gap);
    }
    println!();
    Ok(())
}

fn levels() -> Result<(), SolveError> {
    for rows in [64, 256, 1024, 2048, 4096, 16384] {
        let case = case(rows, 3, None, rows as u64)?;
        level_line(&format!("max-min, {rows} distinct rows x 3"), &case, &Requirement::max_min(&case.weights)?, rows <= 2048)?;
    }
    for columns in [8, 16] {
        let case = case(4096, columns, None, 5)?;
        level_line(&format!("max-min, 4096 distinct rows x {columns}"), &case, &Requirement::max_min(&case.weights)?, false)?;
    }
    for (name, templates) in [("26 templates", Some(26)), ("distinct", None)] {
        let case = case(1_000_000, 8, templates, 3)?;
        level_line(&format!("max-min, 1000000 rows x 8, {name}"), &case, &Requirement::max_min(&case.weights)?, false)?;
    }
    let mut tight = case(1_000_000, 8, None, 3)?;
    tight.problem = halved(&tight.problem)?;
    level_line("max-min, 1000000 rows x 8, distinct, contended", &tight, &Requirement::max_min(&tight.weights)?, false)?;
    let case = case(2048, 3, None, 9)?;
    let mut numbers = Numbers(4);
    let steps: Vec<f64> = (0..2048).map(|_| 10_f64.powf(2.0 + 0.7 * numbers.next())).collect();
    level_line("makespan, 2048 rows x 3", &case, &Requirement::makespan(&steps)?, true)?;
    let elapsed: Vec<f64> = steps.iter().map(|steps| steps * numbers.next()).collect();
    let expected: Vec<f64> =
        steps.iter().zip(&elapsed).map(|(steps, elapsed)| elapsed + steps * (2.0 + 4.0 * numbers.next())).collect();
    level_line("finish-time fairness, 2048 rows x 3", &case, &Requirement::finish_time(&steps, &elapsed, &expected)?, true)?;
    let (seconds, water) = timed(3, || water_filling(&case.problem, &case.weights, &Options::default()))?;
    println!("{:<44} {:>9.3} ms, {} stages, gap {:.1e}", "water filling, 2048 rows x 3", seconds * 1e3, water.stages, water.gap);
    Ok(())
}

fn sums() -> Result<(), SolveError> {
    for (rows, columns) in [(2048, 3), (16384, 3), (4096, 8)] {
        let case = case(rows, columns, None, 11)?;
        let minimum = max_min(&case.problem, &case.weights, &Options::default(), None)?;
        let floors: Vec<f64> = case.weights.iter().map(|weight| weight * minimum.level * (1.0 - 1e-7)).collect();
        let goal = SumGoal { weights: &vec![1.0; rows], factors: &vec![1.0; columns], floors: &floors };
        let (seconds, solution) = timed(3, || max_sum_with_floors(&case.problem, &goal, &Options::default()))?;
        let split =
            solution.shares.chunks_exact(columns).filter(|row| row.iter().filter(|share| **share > 1e-9).count() > 2).count();
        print!(
            "{:<44} {:>9.3} ms, gap {:.1e}, shortfall {:.1e}, {:?}, {split} rows on more than two",
            format!("max-sum over max-min, {rows} rows x {columns}"),
            seconds * 1e3,
            solution.gap,
            solution.shortfall,
            solution.method
        );
        let only = Options { first: Method::Backend, ..Options::default() };
        let (other, _) = timed(1, || max_sum_with_floors(&case.problem, &goal, &only))?;
        println!("; clarabel {:.1} ms ({:.0} times)", other * 1e3, other / seconds);
    }
    Ok(())
}

/// Types × sizes, every pair of equal size, combined rates of 50 to 100 % each.
fn packed_case(jobs: usize) -> PackedProblem {
    let mut numbers = Numbers(77);
    let mut classes = Vec::new();
    for kind in 0..26 {
        for size in [1.0, 2.0, 4.0, 8.0] {
            // Not every type comes in every size.
            if classes.len() < 83 && (size < 8.0 || kind % 3 != 0) {
                let rates: Vec<f64> = (0..3).map(|column| (0.4 + numbers.next()) * (1.0 + f64::from(column))).collect();
                let count = (jobs as f64 / 83.0 * (0.3 + 1.4 * numbers.next())).ceil();
                classes.push(Class { count, size, weight: 0.5 + numbers.next(), rates });
            }
        }
    }
    let mut pairs = Vec::new();
    for first in 0..classes.len() {
        for second in first..classes.len() {
            if (classes[first].size - classes[second].size).abs() < 0.5 {
                let mut shared = |class: usize| -> Vec<f64> {
                    let kept = 0.3 + 0.65 * numbers.next();
                    classes[class].rates.iter().map(|rate| rate * kept).collect()
                };
                let (first_rates, second_rates) = (shared(first), shared(second));
                pairs.push(Pair { first, second, first_rates, second_rates });
            }
        }
    }
    PackedProblem { capacities: vec![0.06 * jobs as f64, 0.10 * jobs as f64, 0.14 * jobs as f64], classes, pairs }
}

fn others() -> Result<(), SolveError> {
    let packed = packed_case(2048);
    let (seconds, solution) = timed(2, || packed.max_min(60.0))?;
    println!(
        "{:<44} {:>9.3} ms, gap {:.1e}, {} of {} pairs generated, {} rounds",
        format!("packed max-min, {} classes, {} pairs", packed.classes.len(), packed.pairs.len()),
        seconds * 1e3,
        solution.gap,
        solution.generated,
        packed.pairs.len() * 3,
        solution.rounds
    );
    let mut numbers = Numbers(6);
    let values: Vec<f64> = (0..2048 * 3).map(|_| numbers.next()).collect();
    let sizes: Vec<f64> = (0..2048).map(|_| numbers.pick(&[1.0, 1.0, 2.0, 4.0, 8.0])).collect();
    let matching = Matching { values: &values, sizes: &sizes, capacities: &[256.0; 3] };
    let (seconds, _) = timed(5, || match_by_prices(&matching))?;
    println!("{:<44} {:>9.3} ms", "matching by prices, 2048 rows x 3", seconds * 1e3);
    for size in [64, 256, 512] {
        let costs: Vec<f64> = (0..size * size).map(|cell| (1 + cell % size) as f64 * numbers.next()).collect();
        let (seconds, _) = timed(3, || rota_solver::assign::assign_dense(size, size, &costs))?;
        println!("{:<44} {:>9.3} ms", format!("assignment, {size} x {size}"), seconds * 1e3);
    }
    Ok(())
}

fn main() -> Result<(), SolveError> {
    levels()?;
    sums()?;
    others()
}
