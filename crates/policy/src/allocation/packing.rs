//! Packed allocations: jobs may share GPUs in pairs. The classes they are solved by, and the way from classes back to jobs.
//!
//! Jobs of one class are alike in everything the objective looks at, so they get alike: each its part of the time its class spends alone
//! and in pairs with each other class. Who pairs with whom follows the order of the claims, so that a job has few partners. Only
//! gangs of equal size pair, and only where both together are quicker than one after the other.

use super::demand::{Allocation, Claim, Demand, PairShare};
use super::rows::Key;
use rota_solver::SolveError;
use rota_solver::packed::{Class, PackedGoal, PackedProblem, PackedSolution, Pair, Use};
use std::collections::HashMap;

/// Seconds one linear program may take.
const SECONDS: f64 = 600.0;

/// Given up of every floor in a second pass, relatively.
pub(super) const FLOOR_SLACK: f64 = 1e-7;

/// Rates of both, by type.
type PairOnTypes = Box<[(f64, f64)]>;

/// The classes of a demand.
pub(super) struct Packing {
    pub problem: PackedProblem,
    /// The claims of each class, in order.
    pub members: Vec<Vec<usize>>,
    /// Mean speed over all GPUs, by class.
    pub fair: Vec<f64>,
    claims: usize,
}

impl Packing {
    /// The classes of the claims that take part, equal in job class, speeds, gang and keys; none if nobody takes part.
    pub fn new(demand: &Demand<'_>, keys: &[Key<'_>]) -> Result<Option<Self>, SolveError> {
        demand.check()?;
        let mut class_of: HashMap<Vec<u64>, usize> = HashMap::new();
        let mut members: Vec<Vec<usize>> = Vec::new();
        for (index, claim) in demand.claims.iter().enumerate().filter(|(_, claim)| demand.takes_part(claim)) {
            let mut key = vec![u64::from(claim.class), claim.gang.to_bits()];
            key.extend(claim.rates.iter().map(|rate| rate.to_bits()));
            key.extend(keys.iter().map(|key| key(index).to_bits()));
            let next = members.len();
            let class = *class_of.entry(key).or_insert(next);
            if class == next {
                members.push(Vec::new());
            }
            members[class].push(index);
        }
        if members.is_empty() {
            return Ok(None);
        }
        let total: f64 = demand.gpus.iter().sum();
        let first = |class: &Vec<usize>| &demand.claims[class[0]];
        let classes = members
            .iter()
            .map(|list| Class {
                count: list.len() as f64,
                size: first(list).gang,
                weight: 1.0,
                rates: first(list).rates.to_vec(),
            })
            .collect();
        let fair = members
            .iter()
            .map(|list| first(list).rates.iter().zip(demand.gpus).map(|(rate, gpus)| rate * gpus / total).sum())
            .collect();
        let pairs = pairs(demand, &members);
        let problem = PackedProblem { capacities: demand.gpus.to_vec(), classes, pairs };
        Ok(Some(Self { problem, members, fair, claims: demand.claims.len() }))
    }

    /// The first claim of a class: as good as any.
    pub fn claim<'a>(&self, demand: &Demand<'a>, class: usize) -> &'a Claim {
        &demand.claims[self.members[class][0]]
    }

    /// The best allocation for a goal, spread over many columns.
    pub fn solve(&self, goal: &PackedGoal) -> Result<PackedSolution, SolveError> {
        self.problem.solve(goal, SECONDS)
    }

    /// The same in few columns.
    pub fn solve_gathered(&self, goal: &PackedGoal) -> Result<PackedSolution, SolveError> {
        self.problem.solve_gathered(goal, SECONDS)
    }

    /// The greatest sum of rates over fair rates above floors; none if it cannot be had.
    pub fn greatest_sum(&self, floors: Vec<f64>) -> Option<Vec<Use>> {
        let gains = self.fair.iter().map(|fair| fair.recip()).collect();
        let goal = PackedGoal::Sum { gains, factors: vec![1.0; self.problem.capacities.len()], floors };
        self.solve_gathered(&goal).ok().map(|solution| solution.uses)
    }

    /// The rate of each class's jobs.
    pub fn rates(&self, uses: &[Use]) -> Vec<f64> {
        let beside: HashMap<(usize, usize), usize> =
            self.problem.pairs.iter().enumerate().map(|(index, pair)| ((pair.first, pair.second), index)).collect();
        let mut rates = vec![0.0; self.members.len()];
        for used in uses {
            let mut add = |class: usize, rate: f64| rates[class] += used.amount * rate / self.problem.classes[class].count;
            match used.second.and_then(|second| beside.get(&(used.first, second)).map(|&pair| (second, pair))) {
                Some((second, pair)) => {
                    add(used.first, self.problem.pairs[pair].first_rates[used.pool]);
                    add(second, self.problem.pairs[pair].second_rates[used.pool]);
                }
                None => add(used.first, self.problem.classes[used.first].rates[used.pool]),
            }
        }
        rates
    }

    /// What each claim gets, with objective and bound still to be filled in.
    pub fn allocation(&self, demand: &Demand<'_>, uses: &[Use]) -> Allocation {
        let types = demand.gpus.len();
        let mut allocation = Allocation { rows: self.members.len(), solver: "clarabel-columns", ..Allocation::nothing(demand) };
        debug_assert_eq!(self.claims, demand.claims.len());
        for used in uses {
            let one = &self.members[used.first];
            match used.second {
                None => {
                    let share = used.amount / one.len() as f64;
                    for &claim in one {
                        allocation.shares[claim * types + used.pool] += share;
                    }
                }
                Some(second) if second == used.first => pair_within(one, used, &mut allocation.pairs),
                Some(second) => pair_between(one, &self.members[second], used, &mut allocation.pairs),
            }
        }
        allocation
    }
}

/// The pairs of classes that are worth having. On a type where the two are no quicker than one after the other they have no rate.
fn pairs(demand: &Demand<'_>, members: &[Vec<usize>]) -> Vec<Pair> {
    let mut known: HashMap<(u32, u32), Option<PairOnTypes>> = HashMap::new();
    let mut pairs = Vec::new();
    for first in 0..members.len() {
        for second in first..members.len() {
            let (one, other) = (&demand.claims[members[first][0]], &demand.claims[members[second][0]]);
            if one.gang.to_bits() != other.gang.to_bits() || (first == second && members[first].len() < 2) {
                continue;
            }
            let rates = known.entry((one.class, other.class)).or_insert_with(|| demand.pairs.pair(one.class, other.class));
            let Some(rates) = rates.as_ref().filter(|rates| rates.len() == demand.gpus.len()) else { continue };
            let kept = |index: usize| {
                let (mine, theirs) = rates[index];
                let (alone, other_alone) = (one.rates[index], other.rates[index]);
                let both = mine > 0.0 && theirs > 0.0 && alone > 0.0 && other_alone > 0.0;
                if both && mine / alone + theirs / other_alone > 1.0 { (mine, theirs) } else { (0.0, 0.0) }
            };
            let (first_rates, second_rates): (Vec<f64>, Vec<f64>) = (0..rates.len()).map(kept).unzip();
            if first_rates.iter().any(|rate| *rate > 0.0) {
                pairs.push(Pair { first, second, first_rates, second_rates });
            }
        }
    }
    pairs
}

/// Neighbours share: two by two, and the last three among themselves where their number is odd.
fn pair_within(members: &[usize], used: &Use, pairs: &mut Vec<PairShare>) {
    let each = 2.0 * used.amount / members.len() as f64;
    let mut push = |first: usize, second: usize, share: f64| {
        pairs.push(PairShare { first: members[first], second: members[second], gpu_type: used.pool, share });
    };
    let by_twos = if members.len().is_multiple_of(2) { members.len() } else { members.len().saturating_sub(3) };
    for first in (0..by_twos).step_by(2) {
        push(first, first + 1, each);
    }
    if by_twos < members.len() {
        for (first, second) in [(0, 1), (0, 2), (1, 2)] {
            push(by_twos + first, by_twos + second, each / 2.0);
        }
    }
}

/// Both classes in order: the next of the one fills up the next of the other.
fn pair_between(one: &[usize], other: &[usize], used: &Use, pairs: &mut Vec<PairShare>) {
    let (each, other_each) = (used.amount / one.len() as f64, used.amount / other.len() as f64);
    let (mut first, mut second) = (0, 0);
    let (mut open, mut other_open) = (each, other_each);
    while first < one.len() && second < other.len() {
        let share = open.min(other_open);
        // What is left by rounding is no partnership.
        if share > 1e-12 {
            pairs.push(PairShare { first: one[first], second: other[second], gpu_type: used.pool, share });
        }
        (open, other_open) = (open - share, other_open - share);
        if open <= 1e-12 {
            (first, open) = (first + 1, each);
        }
        if other_open <= 1e-12 {
            (second, other_open) = (second + 1, other_each);
        }
    }
}
