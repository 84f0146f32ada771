//! What is left once all rows have the level, for very many rows.
//!
//! At the prices that prove a level, a pool that costs nothing is not what holds the level down, and rows whose whole requirement costs
//! nothing are served by such pools alone. All other rows have just their level, and more would take from another row: they keep what
//! the first pass gave them, but for about as many ties as there are pools. What is left of the free pools is then divided between the
//! rows that live on them, so that the sum of their gains is greatest: a problem with fewer rows, fewer pools and no ties with the rest.

use crate::max_sum::{SumGoal, max_sum_with_floors};
use crate::price::{Bound, CLEAR_COST, Options, Reached};
use crate::problem::Problem;
use crate::requirement::Requirement;

/// Given up of a floor, relatively, so that rounding cannot make the floors infeasible.
const SLACK: f64 = 1e-9;

/// An allocation that reaches the level and leaves nothing free that a row could use. None if rows' own limits hold the level down,
/// because then prices do not say which rows could have more, or if what is left cannot be divided with such options.
pub fn top_up(
    problem: &Problem,
    requirement: &Requirement,
    reached: &Reached,
    weights: &[f64],
    options: &Options,
) -> Option<Vec<f64>> {
    let solution = &reached.solution;
    if solution.bound_by == Bound::Rows {
        return None;
    }
    let unit = |pool: usize| solution.prices[pool] / problem.capacities()[pool];
    let pools: Vec<usize> = (0..problem.columns()).filter(|&pool| problem.capacities()[pool] > 0.0).collect();
    let dearest = pools.iter().map(|&pool| unit(pool)).fold(0.0, f64::max);
    let (free, priced): (Vec<usize>, Vec<usize>) = pools.iter().partition(|&&pool| unit(pool) <= CLEAR_COST * dearest);
    let columns = problem.columns();
    let mut shares = reached.shares(problem, requirement);
    let costs = solution.costs_of_more(problem, requirement);
    let share = |row: usize, pool: usize| shares[row * columns + pool];
    let is_loose = |row: usize| costs[row] <= CLEAR_COST && priced.iter().all(|&pool| share(row, pool) == 0.0);
    let mut left: Vec<f64> = free.iter().map(|&pool| problem.capacities()[pool]).collect();
    let mut loose = Vec::new();
    for row in 0..problem.rows() {
        if is_loose(row) {
            loose.push(row);
            continue;
        }
        let units = problem.sizes()[row] * problem.counts()[row];
        for (left, &pool) in left.iter_mut().zip(&free) {
            *left -= units * share(row, pool);
        }
    }
    if loose.is_empty() {
        return Some(shares);
    }
    let of = |list: &[f64]| loose.iter().map(|&row| list[row]).collect::<Vec<f64>>();
    let rates = loose.iter().flat_map(|&row| free.iter().map(move |&pool| problem.rates(row)[pool])).collect();
    let left = left.into_iter().map(|left| left.max(0.0)).collect();
    let few = Problem::owned(left, of(problem.sizes()), rates, of(problem.counts())).ok()?;
    let floor =
        |(place, &row): (usize, &usize)| (requirement.at(row, solution.level).0 * (1.0 - SLACK)).min(few.best_rate(place));
    let floors: Vec<f64> = loose.iter().enumerate().map(floor).collect();
    let goal = SumGoal { weights: &of(weights), factors: &vec![1.0; free.len()], floors: &floors, near: None };
    let divided = max_sum_with_floors(&few, &goal, options).ok().filter(|divided| divided.shortfall <= SLACK)?;
    for (&row, times) in loose.iter().zip(divided.shares.chunks_exact(free.len())) {
        for (&pool, time) in free.iter().zip(times) {
            shares[row * columns + pool] = *time;
        }
    }
    Some(shares)
}
