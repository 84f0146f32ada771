//! The packed families: `max-min-packed`, `makespan-packed`, `ftf-packed`, `water-filling-packed`, `max-throughput-cost-slo-packed`.
//!
//! Each asks the packing for the largest common part of some rates, for a rise above floors, or for a sum above floors. Finish-time
//! fairness asks for ever higher levels until the rates they stand for just fit.

use super::demand::{Allocation, Demand, relative_gap};
use super::finish_time::{Memory, slope_and_bend};
use super::makespan::inverted;
use super::max_throughput::{FLOOR_SLACK as DEADLINE_SLACK, Value, rate_in_time};
use super::packing::{FLOOR_SLACK, Packing};
use super::rows::Speeds;
use super::{Allocator, Solver};
use rota_solver::SolveError;
use rota_solver::packed::{Class, PackedGoal, PackedSolution, Use};
use serde::{Deserialize, Serialize};

/// The largest common part of the classes' weights that all can have, as rates.
struct Part {
    reached: f64,
    upper_bound: f64,
    uses: Vec<Use>,
}

/// Maximises the part; weights of 0 ask for nothing.
fn largest_part(packing: &mut Packing, weights: &[f64]) -> Result<Part, SolveError> {
    if weights.iter().all(|&weight| weight <= 0.0) {
        return Ok(Part { reached: 0.0, upper_bound: 0.0, uses: Vec::new() });
    }
    // In units of what the worst-off class could have alone the part is of the order of 1, whatever the weights are.
    let best = |class: &Class| class.rates.iter().copied().fold(0.0, f64::max);
    let alone = packing.problem.classes.iter().zip(weights).filter(|(_, weight)| **weight > 0.0);
    let scale = alone.map(|(class, weight)| best(class) / weight).fold(f64::INFINITY, f64::min);
    for (class, &weight) in packing.problem.classes.iter_mut().zip(weights) {
        class.weight = if weight > 0.0 { weight * scale } else { 1.0 };
    }
    let rising = weights.iter().map(|&weight| if weight > 0.0 { 1.0 } else { 0.0 }).collect();
    let solution = packing.solve(&PackedGoal::Rise { floors: vec![0.0; weights.len()], rising })?;
    Ok(Part { reached: solution.value * scale, upper_bound: solution.upper_bound * scale, uses: solution.uses })
}

/// The part that uses give.
fn part_of(packing: &Packing, weights: &[f64], uses: &[Use]) -> f64 {
    let rates = packing.rates(uses);
    let parts = rates.iter().zip(weights).filter(|(_, weight)| **weight > 0.0).map(|(rate, weight)| rate / weight);
    let least = parts.fold(f64::INFINITY, f64::min);
    if least.is_finite() { least } else { 0.0 }
}

/// The uses of the largest part, and with prices of the greatest sum above it.
fn topped_up(packing: &Packing, weights: &[f64], found: Part, solver: Solver) -> (Vec<Use>, f64) {
    let floors = weights.iter().map(|weight| weight * found.reached * (1.0 - FLOOR_SLACK)).collect();
    let second = match solver {
        Solver::Price => packing.greatest_sum(floors),
        Solver::Interior => None,
    };
    // A second pass that lost more than it was allowed to is not worth having.
    let kept = second.filter(|uses| part_of(packing, weights, uses) >= found.reached * (1.0 - 2e-6));
    let uses = kept.unwrap_or(found.uses);
    let part = part_of(packing, weights, &uses);
    (uses, part)
}

/// The objective of `max-min-packed`.
#[derive(Clone, Serialize, Deserialize)]
pub(super) struct MaxMinPacked(pub Solver);

/// The rate that is one unit of the max-min measure, by class.
fn units(packing: &Packing, demand: &Demand<'_>) -> Vec<f64> {
    let unit = |class: usize| {
        let claim = packing.claim(demand, class);
        claim.weight * packing.fair[class] / claim.gang
    };
    (0..packing.members.len()).map(unit).collect()
}

impl Allocator for MaxMinPacked {
    fn allocate(&mut self, demand: &Demand<'_>) -> Result<Allocation, SolveError> {
        let weight = |claim: usize| demand.claims[claim].weight;
        let Some(mut packing) = Packing::new(demand, &[&weight])? else { return Ok(Allocation::nothing(demand)) };
        let units = units(&packing, demand);
        let found = largest_part(&mut packing, &units)?;
        let upper_bound = found.upper_bound;
        let (uses, objective) = topped_up(&packing, &units, found, self.0);
        let gap = relative_gap(objective, upper_bound.max(objective));
        Ok(Allocation { objective, upper_bound: upper_bound.max(objective), gap, ..packing.allocation(demand, &uses) })
    }
}

/// The objective of `makespan-packed`.
#[derive(Clone, Serialize, Deserialize)]
pub(super) struct MakespanPacked(pub Solver);

impl Allocator for MakespanPacked {
    fn allocate(&mut self, demand: &Demand<'_>) -> Result<Allocation, SolveError> {
        let remaining = |claim: usize| demand.claims[claim].remaining;
        let Some(mut packing) = Packing::new(demand, &[&remaining])? else { return Ok(Allocation::nothing(demand)) };
        let weights: Vec<f64> = (0..packing.members.len()).map(|class| packing.claim(demand, class).remaining).collect();
        let found = largest_part(&mut packing, &weights)?;
        let upper_bound = found.upper_bound;
        let (uses, part) = topped_up(&packing, &weights, found, self.0);
        Ok(minimised(packing.allocation(demand, &uses), part, upper_bound))
    }
}

/// An allocation whose objective is one over the level reached.
fn minimised(allocation: Allocation, level: f64, upper_bound: f64) -> Allocation {
    let Allocation { shares, pairs, rows, solver, .. } = allocation;
    Allocation { pairs, ..inverted(shares, level, upper_bound.max(level), rows, solver) }
}

/// The objective of `ftf-packed`.
#[derive(Clone, Serialize, Deserialize)]
pub(super) struct FinishTimePacked {
    solver: Solver,
    memory: Memory,
}

impl FinishTimePacked {
    pub fn new(solver: Solver) -> Self {
        Self { solver, memory: Memory::default() }
    }
}

impl Allocator for FinishTimePacked {
    fn renumber(&mut self, rows: &rota_core::Renumbering) {
        self.memory.renumber(rows);
    }

    fn allocate(&mut self, demand: &Demand<'_>) -> Result<Allocation, SolveError> {
        let expected = self.memory.expected_seconds(demand, Speeds::Real)?;
        let ask = |claim: usize| slope_and_bend(demand.claims[claim].remaining, demand.claims[claim].age, expected[claim]);
        let (slope, bend) = (|claim: usize| ask(claim).0, |claim: usize| ask(claim).1);
        let Some(mut packing) = Packing::new(demand, &[&slope, &bend])? else { return Ok(Allocation::nothing(demand)) };
        let asked: Vec<(f64, f64)> = packing.members.iter().map(|members| ask(members[0])).collect();
        let needs = |level: f64| -> Vec<f64> {
            asked.iter().map(|&(slope, bend)| slope * level / (1.0 - bend * level).max(f64::MIN_POSITIVE)).collect()
        };
        let Some(mut search) = LevelSearch::new(&asked) else {
            let uses = packing.greatest_sum(vec![0.0; asked.len()]).unwrap_or_default();
            return Ok(minimised(packing.allocation(demand, &uses), 0.0, 0.0));
        };
        let mut best: Option<Part> = None;
        while let Some(level) = search.next() {
            let found = largest_part(&mut packing, &needs(level))?;
            if search.learn(level, found.reached, found.upper_bound) {
                best = Some(found);
            }
        }
        let weights = needs(search.reached);
        let uses = best.map(|best| best.uses).unwrap_or_default();
        let found = Part { reached: part_of(&packing, &weights, &uses).min(1.0), upper_bound: 1.0, uses };
        let (uses, _) = topped_up(&packing, &weights, found, self.solver);
        let rates = packing.rates(&uses);
        let level_of = |(rate, (slope, bend)): (&f64, &(f64, f64))| rate / (slope + bend * rate);
        let level = rates.iter().zip(&asked).filter(|(_, (slope, _))| *slope > 0.0).map(level_of).fold(f64::INFINITY, f64::min);
        Ok(minimised(packing.allocation(demand, &uses), level, search.forbidden))
    }
}

/// The highest level whose needs fit, between one that does and one that is proven not to.
struct LevelSearch {
    reached: f64,
    forbidden: f64,
    aim: f64,
    rounds: usize,
}

impl LevelSearch {
    /// None if nobody asks for anything.
    fn new(asked: &[(f64, f64)]) -> Option<Self> {
        // No level is reached at which somebody's time is up before it begins.
        let bends = asked.iter().filter(|(slope, bend)| *slope > 0.0 && *bend > 0.0).map(|(_, bend)| bend.recip());
        let forbidden = bends.fold(f64::INFINITY, f64::min);
        let any = asked.iter().any(|(slope, _)| *slope > 0.0);
        let aim = if forbidden.is_finite() { 0.5 * forbidden } else { 1.0 };
        any.then_some(Self { reached: 0.0, forbidden, aim, rounds: 0 })
    }

    /// The level to try next; none once the two ends meet.
    fn next(&mut self) -> Option<f64> {
        let met = self.forbidden.is_finite() && self.forbidden - self.reached <= 2e-7 * self.forbidden;
        self.rounds += 1;
        (!met && self.rounds <= 60).then_some(self.aim)
    }

    /// Takes note of the part of a level's needs that can be had, and at most be had; true if that reaches higher than before.
    fn learn(&mut self, level: f64, part: f64, upper_bound: f64) -> bool {
        // Needs grow at least in proportion to the level: the part says how far a higher level can lie at most,
        // and a lower level, in that proportion, needs no more than there is.
        self.forbidden = self.forbidden.min(level * upper_bound.max(1.0));
        let sure = level * part.min(1.0);
        let higher = sure > self.reached;
        self.reached = self.reached.max(sure);
        self.aim = self.next_aim(level, part, part >= 1.0);
        higher
    }

    fn next_aim(&self, level: f64, part: f64, reached: bool) -> f64 {
        let (low, high) = (self.reached, self.forbidden);
        if !high.is_finite() {
            return level * part.max(1.5);
        }
        // Near the end the part is nearly linear in the level; aim a little short of where it says 1.
        let line = level * part.sqrt() * (1.0 - 5e-8);
        let middle = 0.5 * (low + high);
        if self.rounds.is_multiple_of(3) || !(line > low && line < high) || (reached && part <= 1.0) { middle } else { line }
    }
}

/// The objective of `water-filling-packed`.
#[derive(Clone, Serialize, Deserialize)]
pub(super) struct WaterFillingPacked;

impl Allocator for WaterFillingPacked {
    fn allocate(&mut self, demand: &Demand<'_>) -> Result<Allocation, SolveError> {
        let weight = |claim: usize| demand.claims[claim].weight;
        let Some(mut packing) = Packing::new(demand, &[&weight])? else { return Ok(Allocation::nothing(demand)) };
        let units = units(&packing, demand);
        for (class, &unit) in packing.problem.classes.iter_mut().zip(&units) {
            class.weight = unit;
        }
        let classes = units.len();
        let (mut floors, mut rising) = (vec![0.0; classes], vec![1.0; classes]);
        let mut upper_bound = f64::INFINITY;
        let mut last: Option<PackedSolution> = None;
        // Each stage makes at least one class final.
        for _ in 0..classes {
            let stage = match packing.solve_gathered(&PackedGoal::Rise { floors: floors.clone(), rising: rising.clone() }) {
                Ok(stage) => stage,
                // Rounding may make the floors seem out of reach: what has been reached stands.
                Err(_) if last.is_some() => break,
                Err(error) => return Err(error),
            };
            upper_bound = upper_bound.min(stage.upper_bound);
            let rates = packing.rates(&stage.uses);
            let heaviest = stage.burdens.iter().copied().fold(0.0, f64::max);
            for class in 0..classes {
                let level = floors[class] + rising[class] * stage.value.max(0.0) * units[class];
                floors[class] = level.min(rates[class]) * (1.0 - 1e-8);
                if stage.burdens[class] > 1e-5 * heaviest {
                    rising[class] = 0.0;
                }
            }
            last = Some(stage);
            if rising.iter().all(|&rising| rising <= 0.0) {
                break;
            }
        }
        let uses = last.map(|stage| stage.uses).unwrap_or_default();
        let objective = part_of(&packing, &units, &uses);
        let upper_bound = upper_bound.max(objective);
        Ok(Allocation { objective, upper_bound, gap: relative_gap(objective, upper_bound), ..packing.allocation(demand, &uses) })
    }
}

/// The objective of `max-throughput-cost-slo-packed`.
#[derive(Clone, Serialize, Deserialize)]
pub(super) struct InTimePacked;

impl Allocator for InTimePacked {
    fn allocate(&mut self, demand: &Demand<'_>) -> Result<Allocation, SolveError> {
        demand.check()?;
        let wanted = |claim: usize| rate_in_time(&demand.claims[claim], demand.gpus);
        let Some(mut packing) = Packing::new(demand, &[&wanted])? else { return Ok(Allocation::nothing(demand)) };
        let factors = Value::StepsPerDollarInTime.factors(demand)?;
        let wanted: Vec<f64> = packing.members.iter().map(|members| wanted(members[0])).collect();
        let part = (largest_part(&mut packing, &wanted)?.reached * (1.0 - DEADLINE_SLACK)).min(1.0);
        let floors = wanted.iter().map(|rate| rate * part).collect();
        let solution = packing.solve_gathered(&PackedGoal::Sum { gains: vec![1.0; wanted.len()], factors, floors })?;
        Ok(Allocation {
            objective: solution.value,
            upper_bound: solution.upper_bound,
            gap: solution.gap,
            ..packing.allocation(demand, &solution.uses)
        })
    }
}
