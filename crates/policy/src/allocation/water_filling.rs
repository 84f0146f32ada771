//! `water-filling`, `water-filling-perf`, `hierarchical`: levels rise together; who cannot rise further stays, and the others rise on.
//!
//! Hierarchical: entities rise together, each dividing its rise among its own jobs that can still rise, by weight or all to the first.
//! The objective reported is that of max-min, the measure of the claim that is worst off.

use super::demand::{Allocation, Demand, EntityRule, relative_gap};
use super::level::method_name;
use super::max_min::units;
use super::rows::{Rows, Speeds};
use super::{Allocator, Solver};
use rota_solver::SolveError;
use rota_solver::price::{Identical, Options};
use rota_solver::water::{WaterSolution, water_filling, water_filling_with};
use serde::{Deserialize, Serialize};

#[derive(Clone, Serialize, Deserialize)]
pub(super) struct WaterFilling {
    speeds: Speeds,
    solver: Solver,
}

impl WaterFilling {
    pub fn new(speeds: Speeds, solver: Solver) -> Self {
        Self { speeds, solver }
    }
}

impl Allocator for WaterFilling {
    fn allocate(&mut self, demand: &Demand<'_>) -> Result<Allocation, SolveError> {
        let weight = |claim: usize| demand.claims[claim].weight;
        let Some(rows) = Rows::new(demand, self.speeds, self.solver.identical(), &[&weight])? else {
            return Ok(Allocation::nothing(demand));
        };
        let units = units(&rows, &rows.keys[0]);
        let filled = water_filling(&rows.problem, &units, &self.solver.options())?;
        Ok(finish(&rows, &units, filled))
    }
}

/// Shares, and the measure of the worst-off claim against what no allocation could give it.
fn finish(rows: &Rows, units: &[f64], filled: WaterSolution) -> Allocation {
    let shares = rows.expand(filled.shares, &filled.levels);
    let mut objective = f64::INFINITY;
    rows.each_rate(&shares, |row, rate| objective = objective.min(rate / units[row]));
    let own = (0..rows.problem.rows()).map(|row| rows.problem.best_rate(row) / units[row]).fold(f64::INFINITY, f64::min);
    let upper_bound = own.min(filled.first_bound).max(objective);
    Allocation {
        shares,
        pairs: Vec::new(),
        objective,
        upper_bound,
        gap: relative_gap(objective, upper_bound),
        rows: rows.problem.rows(),
        solver: method_name(filled.method),
    }
}

#[derive(Clone, Serialize, Deserialize)]
pub(super) struct Hierarchical {
    solver: Solver,
}

impl Hierarchical {
    pub fn new(solver: Solver) -> Self {
        Self { solver }
    }
}

impl Allocator for Hierarchical {
    fn allocate(&mut self, demand: &Demand<'_>) -> Result<Allocation, SolveError> {
        demand.check()?;
        let rule = |claim: usize| {
            demand.entities.get(demand.claims[claim].entity as usize).map_or(EntityRule::Fairness, |entity| entity.rule)
        };
        let weight = |claim: usize| demand.claims[claim].weight;
        let entity = |claim: usize| if demand.entities.is_empty() { 0.0 } else { f64::from(demand.claims[claim].entity) };
        // Jobs that wait for each other are never identical.
        let turn = |claim: usize| if rule(claim) == EntityRule::Fifo { f64::from(demand.claims[claim].id.0) } else { -1.0 };
        let identical = if self.solver == Solver::Price { Identical::Merge } else { Identical::Keep };
        let Some(rows) = Rows::new(demand, Speeds::Real, identical, &[&weight, &entity, &turn])? else {
            return Ok(Allocation::nothing(demand));
        };
        let measure = units(&rows, &rows.keys[0]);
        let per_weight = units(&rows, &vec![1.0; rows.problem.rows()]);
        let options = Options { ..self.solver.options() };
        let filled = water_filling_with(&rows.problem, &options, |_, finals| {
            let risen = weights_of_stage(demand, &rows, finals);
            risen.iter().zip(&per_weight).map(|(weight, unit)| weight * unit).collect()
        })?;
        let gap = filled.gap;
        let mut allocation = finish(&rows, &measure, filled);
        // The levels of entities are the objective; the worst-off claim alone has no bound worth telling.
        allocation.upper_bound = allocation.objective;
        allocation.gap = gap;
        Ok(allocation)
    }
}

/// The weight with which each row rises in a stage: its entity's, divided among the entity's rows that can still rise.
fn weights_of_stage(demand: &Demand<'_>, rows: &Rows, finals: &[bool]) -> Vec<f64> {
    let count = rows.problem.rows();
    let entities = demand.entities.len().max(1);
    let entity_of = |row: usize| rows.keys[1][row] as usize;
    let (mut open_weight, mut first): (Vec<f64>, Vec<Option<usize>>) = (vec![0.0; entities], vec![None; entities]);
    for row in (0..count).filter(|&row| !finals[row]) {
        let entity = entity_of(row);
        open_weight[entity] += rows.keys[0][row] * rows.problem.counts()[row];
        let earlier = first[entity].is_none_or(|other| rows.keys[2][row] < rows.keys[2][other]);
        if earlier {
            first[entity] = Some(row);
        }
    }
    (0..count)
        .map(|row| {
            let entity = entity_of(row);
            let (weight, rule) =
                demand.entities.get(entity).map_or((1.0, EntityRule::Fairness), |entity| (entity.weight, entity.rule));
            match rule {
                _ if finals[row] => 0.0,
                EntityRule::Fairness => weight * rows.keys[0][row] / open_weight[entity],
                EntityRule::Fifo => {
                    if first[entity] == Some(row) {
                        weight
                    } else {
                        0.0
                    }
                }
            }
        })
        .collect()
}
