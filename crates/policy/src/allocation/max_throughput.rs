//! `max-throughput-perf` and its kin: the most steps, or the most steps per dollar, whoever makes them.
//!
//! With deadlines, a claim that can still make its own asks for the rate that does. First the fraction of those rates that all can have
//! together is made as large as it can be, up to all of them, then the sum is maximised with that as floors: where not every deadline can be
//! kept, everybody with one gets the same part of what it needs, rather than nobody anything. Deadlines that have passed, or that the
//! claim could not keep even alone, ask for nothing.
//!
//! Which of several identical claims make the steps is all the same to the sum: those with the least left to do go first, so that each
//! waits for as little as possible.

use super::demand::{Allocation, Claim, Demand, relative_gap};
use super::interior;
use super::level::method_name;
use super::rows::{Rows, Speeds};
use super::{Allocator, Solver};
use rota_solver::SolveError;
use rota_solver::max_sum::{SumGoal, max_sum_with_floors};
use rota_solver::price::maximise_level;
use rota_solver::requirement::Requirement;
use serde::{Deserialize, Serialize};

/// Given up of floors that all can have together, relatively, so that rounding cannot make them infeasible.
pub(super) const FLOOR_SLACK: f64 = 1e-9;

/// What is summed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) enum Value {
    /// Steps per second.
    Steps,
    /// Steps per second over dollars per GPU-hour.
    StepsPerDollar,
    /// The same, deadlines kept as far as possible.
    StepsPerDollarInTime,
}

impl Value {
    /// What a step is worth on each type.
    pub fn factors(self, demand: &Demand<'_>) -> Result<Vec<f64>, SolveError> {
        if self == Value::Steps {
            return Ok(vec![1.0; demand.gpus.len()]);
        }
        let bad = |index: &usize| demand.gpus[*index] > 0.0 && demand.prices[*index] <= 0.0;
        match (0..demand.gpus.len()).find(bad) {
            Some(index) => Err(SolveError::Number {
                what: "price",
                index,
                value: demand.prices[index],
                wanted: "above zero, which steps per dollar need",
            }),
            None => Ok(demand.prices.iter().map(|price| if *price > 0.0 { price.recip() } else { 0.0 }).collect()),
        }
    }
}

/// The rate that keeps a claim's deadline; 0 if there is none, it has passed, or even the best rate would not do.
pub(super) fn rate_in_time(claim: &Claim, gpus: &[f64]) -> f64 {
    let best = claim.rates.iter().zip(gpus).filter(|(_, gpus)| **gpus > 0.0).fold(0.0, |best: f64, (&rate, _)| best.max(rate));
    match claim.deadline {
        Some(seconds) if seconds > 0.0 && seconds.is_finite() && claim.remaining <= best * seconds => claim.remaining / seconds,
        _ => 0.0,
    }
}

#[derive(Clone, Serialize, Deserialize)]
pub(super) struct MaxThroughput {
    value: Value,
    solver: Solver,
}

impl MaxThroughput {
    pub fn new(value: Value, solver: Solver) -> Self {
        Self { value, solver }
    }

    /// The floors of the second step from the rates that keep deadlines.
    fn floors(&self, rows: &Rows, wanted: &[f64]) -> Result<Vec<f64>, SolveError> {
        if wanted.iter().all(|&rate| rate <= 0.0) {
            return Ok(wanted.to_vec());
        }
        let level = match self.solver {
            Solver::Price => {
                maximise_level(&rows.problem, &Requirement::max_min(wanted.to_vec())?, &self.solver.options(), None)?.level
            }
            Solver::Interior => interior::highest_level(&rows.problem, wanted)?.level,
        };
        let part = (level * (1.0 - FLOOR_SLACK)).min(1.0);
        Ok(wanted.iter().map(|rate| rate * part).collect())
    }
}

impl Allocator for MaxThroughput {
    fn allocate(&mut self, demand: &Demand<'_>) -> Result<Allocation, SolveError> {
        let in_time = self.value == Value::StepsPerDollarInTime;
        let wanted = |claim: usize| if in_time { rate_in_time(&demand.claims[claim], demand.gpus) } else { 0.0 };
        let Some(rows) = Rows::new(demand, Speeds::Real, self.solver.identical(), &[&wanted])? else {
            return Ok(Allocation::nothing(demand));
        };
        let factors = self.value.factors(demand)?;
        let floors = self.floors(&rows, &rows.keys[0])?;
        let (shares, objective, upper_bound, solver) = match self.solver {
            Solver::Price => {
                let goal = SumGoal { weights: &vec![1.0; rows.problem.rows()], factors: &factors, floors: &floors, near: None };
                let found = max_sum_with_floors(&rows.problem, &goal, &self.solver.options())?;
                (found.shares, found.value, found.upper_bound, method_name(found.method))
            }
            Solver::Interior => {
                let found = interior::greatest_sum(&rows.problem, &factors, &floors)?;
                (found.shares, found.value, found.upper_bound, "clarabel")
            }
        };
        let shortest_first = |members: &mut [u32]| {
            let left = |member: u32| demand.claims[member as usize].remaining;
            members.sort_by(|&one, &other| left(one).total_cmp(&left(other)));
        };
        Ok(Allocation {
            shares: rows.expand_in_order(shares, &floors, shortest_first),
            pairs: Vec::new(),
            objective,
            upper_bound,
            gap: relative_gap(objective, upper_bound),
            rows: rows.problem.rows(),
            solver,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::super::demand::NoPairs;
    use super::*;
    use rota_core::JobId;

    #[test]
    fn of_identical_claims_those_with_least_left_go_first() {
        let claim = |id: u32, remaining: f64| Claim {
            id: JobId(id),
            class: 0,
            rates: Box::new([2.0]),
            gang: 1.0,
            weight: 1.0,
            remaining,
            age: 0.0,
            deadline: None,
            entity: 0,
        };
        let claims = [claim(0, 300.0), claim(1, 10.0), claim(2, 20.0)];
        let demand = Demand { claims: &claims, gpus: &[2.0], prices: &[1.0], pairs: &NoPairs, entities: &[] };
        let found = MaxThroughput::new(Value::Steps, Solver::Price).allocate(&demand).unwrap();
        for (share, wanted) in found.shares.iter().zip([0.0, 1.0, 1.0]) {
            assert!((share - wanted).abs() < 1e-6, "{:?}", found.shares);
        }
    }
}
