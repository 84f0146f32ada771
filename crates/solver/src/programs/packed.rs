//! Sharing with pairs: classes of identical agents run alone or two together in one place, and the smallest normalised rate is maximised.
//!
//! A pair of classes of equal size uses the pool once and gives rates to both; a class may pair with itself if it has two agents. Agents
//! of a class are treated alike, which loses nothing: the average of an allocation over exchanges of identical agents is an allocation
//! with the same minimum. Columns (single or pair, on a pool) are generated: those the duals say are worth having enter the linear program until
//! none is left. The dual bound covers columns never generated, so the gap is proven against the full problem.

use crate::error::{SolveError, check_length, check_non_negative, check_positive};
use crate::lp::{Clarabel, LinearProgram, LpBackend, LpSolution, LpStatus, Relation};
use crate::thin::thinned;

/// A class of agents that are identical.
#[derive(Debug, Clone, PartialEq)]
pub struct Class {
    /// The number of agents in the class.
    pub count: f64,
    /// Units each holds.
    pub size: f64,
    /// The rate that counts as one unit of the common level.
    pub weight: f64,
    /// Rate alone, per pool.
    pub rates: Vec<f64>,
}

/// Two agents in one place.
#[derive(Debug, Clone, PartialEq)]
pub struct Pair {
    /// Class of the one.
    pub first: usize,
    /// Class of the other; may be the same.
    pub second: usize,
    /// Rates of the one beside the other, per pool.
    pub first_rates: Vec<f64>,
    /// Rates of the other beside the one, per pool.
    pub second_rates: Vec<f64>,
}

/// Classes, pairs and pools.
#[derive(Debug, Clone, PartialEq)]
pub struct PackedProblem {
    /// Units in each pool.
    pub capacities: Vec<f64>,
    /// The classes of agents.
    pub classes: Vec<Class>,
    /// The pairs that may be formed; those of unequal size or of a lone agent with itself are ignored.
    pub pairs: Vec<Pair>,
}

/// Time spent by the agents of a class or pair on a pool, summed over agents.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Use {
    /// The class, or the first of the pair.
    pub first: usize,
    /// The second of the pair, if it is one.
    pub second: Option<usize>,
    /// The pool that is used.
    pub pool: usize,
    /// Total time, in agents' (or pairs') whole times.
    pub amount: f64,
}

/// A certified packed allocation.
#[derive(Debug, Clone, PartialEq)]
pub struct PackedSolution {
    /// What runs where, for how long in total; entries of no weight are left out.
    pub uses: Vec<Use>,
    /// The objective that `uses` really give.
    pub value: f64,
    /// No allocation does better.
    pub upper_bound: f64,
    /// Relative distance between the two.
    pub gap: f64,
    /// Pair columns that were generated.
    pub generated: usize,
    /// Linear programs solved.
    pub rounds: usize,
    /// For each class what it must have costs the objective, in the last program: 0 for a class that could have more for nothing.
    pub burdens: Vec<f64>,
}

/// Classes up to which gathering is worth its time, which grows with the cube of their number.
const GATHERED_CLASSES_MAX: usize = 256;

/// How the allocation of a solution is written down.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Finish {
    Spread,
    Gathered,
}

/// What is maximised over packed allocations.
#[derive(Debug, Clone, PartialEq)]
pub enum PackedGoal {
    /// The smallest rate over weight of any class.
    MaxMin,
    /// The common rise: every class has its floor plus `rising` times weight times the level.
    Rise {
        /// Rate each agent keeps, by class.
        floors: Vec<f64>,
        /// How fast each class rises; 0 holds it at its floor.
        rising: Vec<f64>,
    },
    /// The sum of `gains[class]·factors[pool]·rate` over agents, each class keeping its floor per agent.
    Sum {
        /// Gain per unit of rate, by class.
        gains: Vec<f64>,
        /// Gain factor by pool (1 / cost, say).
        factors: Vec<f64>,
        /// Rate each agent must reach, by class.
        floors: Vec<f64>,
    },
}

impl PackedGoal {
    /// What a unit of a column adds to the objective.
    fn gain(&self, column: &Column) -> f64 {
        match self {
            PackedGoal::MaxMin | PackedGoal::Rise { .. } => 0.0,
            PackedGoal::Sum { gains, factors, .. } => {
                column.members().map(|(class, rate)| gains[class] * factors[column.pool] * rate).sum()
            }
        }
    }

    /// The rate each agent of a class must reach.
    fn floor(&self, class: usize) -> f64 {
        match self {
            PackedGoal::MaxMin => 0.0,
            PackedGoal::Rise { floors, .. } | PackedGoal::Sum { floors, .. } => floors[class],
        }
    }

    /// How fast a class rises with the level.
    fn rising(&self, class: usize) -> f64 {
        match self {
            PackedGoal::MaxMin => 1.0,
            PackedGoal::Rise { rising, .. } => rising[class],
            PackedGoal::Sum { .. } => 0.0,
        }
    }

    /// Whether there is a level to maximise.
    fn has_level(&self) -> bool {
        !matches!(self, PackedGoal::Sum { .. })
    }

    fn check(&self, classes: usize, pools: usize) -> Result<(), SolveError> {
        let lists = match self {
            PackedGoal::MaxMin => Vec::new(),
            PackedGoal::Rise { floors, rising } => {
                if rising.iter().all(|&rising| rising <= 0.0) {
                    return Err(SolveError::Empty("class that rises"));
                }
                vec![(floors, classes), (rising, classes)]
            }
            PackedGoal::Sum { gains, factors, floors } => vec![(gains, classes), (factors, pools), (floors, classes)],
        };
        for (list, length) in lists {
            check_length("packed goal", list.len(), length)?;
            check_non_negative("packed goal", list)?;
        }
        Ok(())
    }
}

/// A single or a pair on a pool; the single of class `c` has no second member.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Column {
    pub first: (usize, f64),
    pub second: Option<(usize, f64)>,
    pub pool: usize,
    pub size: f64,
}

impl Column {
    pub fn members(&self) -> impl Iterator<Item = (usize, f64)> {
        [Some(self.first), self.second].into_iter().flatten()
    }
}

/// Multipliers made valid: what a class's rate, a class's time and a pool are worth.
struct Duals {
    rates: Vec<f64>,
    times: Vec<f64>,
    pools: Vec<f64>,
}

impl PackedProblem {
    fn check(&self) -> Result<(), SolveError> {
        if self.classes.is_empty() {
            return Err(SolveError::Empty("classes"));
        }
        let pools = self.capacities.len();
        check_non_negative("capacities", &self.capacities)?;
        for (index, class) in self.classes.iter().enumerate() {
            check_length("class rates", class.rates.len(), pools)?;
            check_non_negative("class rates", &class.rates)?;
            check_positive("class count, size and weight", &[class.count, class.size, class.weight])?;
            if !class.rates.iter().zip(&self.capacities).any(|(&rate, &capacity)| rate > 0.0 && capacity > 0.0) {
                return Err(SolveError::HopelessRow(index));
            }
        }
        for pair in &self.pairs {
            if pair.first.max(pair.second) >= self.classes.len() {
                return Err(SolveError::Shape {
                    what: "pair",
                    expected: self.classes.len(),
                    found: pair.first.max(pair.second) + 1,
                });
            }
            check_length("pair rates", pair.first_rates.len(), pools)?;
            check_length("pair rates", pair.second_rates.len(), pools)?;
            check_non_negative("pair rates", &pair.first_rates)?;
            check_non_negative("pair rates", &pair.second_rates)?;
        }
        Ok(())
    }

    /// All columns, singles first.
    fn columns(&self) -> (Vec<Column>, usize) {
        let mut columns = Vec::new();
        let open = |pool: &usize| self.capacities[*pool] > 0.0;
        for (index, class) in self.classes.iter().enumerate() {
            for pool in (0..self.capacities.len()).filter(open).filter(|&pool| class.rates[pool] > 0.0) {
                columns.push(Column { first: (index, class.rates[pool]), second: None, pool, size: class.size });
            }
        }
        let singles = columns.len();
        for pair in &self.pairs {
            let (one, other) = (&self.classes[pair.first], &self.classes[pair.second]);
            let same_size = (one.size - other.size).abs() <= 1e-12 * one.size;
            if same_size && (pair.first != pair.second || one.count >= 2.0) {
                for pool in (0..self.capacities.len()).filter(open) {
                    let (first, second) = (pair.first_rates[pool], pair.second_rates[pool]);
                    if first + second > 0.0 {
                        columns.push(Column {
                            first: (pair.first, first),
                            second: Some((pair.second, second)),
                            pool,
                            size: one.size,
                        });
                    }
                }
            }
        }
        (columns, singles)
    }

    /// Maximises the smallest `rate/weight`.
    pub fn max_min(&self, seconds: f64) -> Result<PackedSolution, SolveError> {
        self.solve(&PackedGoal::MaxMin, seconds)
    }

    /// Maximises a goal by column generation; `seconds` limits each linear program. The result is spread over many columns.
    pub fn solve(&self, goal: &PackedGoal, seconds: f64) -> Result<PackedSolution, SolveError> {
        self.solve_and_finish(goal, seconds, Finish::Spread)
    }

    /// As [`Self::solve`], gathered into few columns unless there are very many classes.
    pub fn solve_gathered(&self, goal: &PackedGoal, seconds: f64) -> Result<PackedSolution, SolveError> {
        let few = self.classes.len() <= GATHERED_CLASSES_MAX;
        self.solve_and_finish(goal, seconds, if few { Finish::Gathered } else { Finish::Spread })
    }

    fn solve_and_finish(&self, goal: &PackedGoal, seconds: f64, finish: Finish) -> Result<PackedSolution, SolveError> {
        self.check()?;
        goal.check(self.classes.len(), self.capacities.len())?;
        let (columns, singles) = self.columns();
        let mut active: Vec<usize> = (0..singles).chain(self.promising(&columns, singles)).collect();
        let mut included = vec![false; columns.len()];
        for &column in &active {
            included[column] = true;
        }
        let mut best: Option<PackedSolution> = None;
        let mut bound = f64::INFINITY;
        let mut burdens = Vec::new();
        let mut best_amounts: Vec<(usize, f64)> = Vec::new();
        for round in 1..=40 {
            let solution = match self.restricted(goal, &columns, &active, seconds) {
                // Floors that singles and a few pairs cannot meet may be met by all pairs together.
                Err(SolveError::Infeasible) if active.len() < columns.len() => {
                    active = (0..columns.len()).collect();
                    included.fill(true);
                    continue;
                }
                other => other?,
            };
            let mut duals = self.duals(goal, &solution);
            let mut entering = self.repair(goal, &columns, &mut duals);
            bound = bound.min(self.dual_value(goal, &duals));
            burdens.clone_from(&duals.rates);
            let found = self.realise(goal, &columns, &active, &solution);
            if let Some((amounts, value)) = found
                && best.as_ref().is_none_or(|best| value > best.value)
            {
                best_amounts = amounts;
                best = Some(PackedSolution {
                    uses: Vec::new(),
                    value,
                    upper_bound: bound,
                    gap: 0.0,
                    generated: active.len() - singles,
                    rounds: round,
                    burdens: Vec::new(),
                });
            }
            entering.retain(|&(column, _)| !included[column]);
            entering.sort_by(|left, right| right.1.total_cmp(&left.1).then(left.0.cmp(&right.0)));
            let closed = best.as_ref().is_some_and(|best| bound - best.value <= 1e-9 * bound.abs());
            if entering.is_empty() || closed {
                break;
            }
            for &(column, _) in entering.iter().take(4 * self.classes.len()) {
                included[column] = true;
                active.push(column);
            }
        }
        let mut best = best.ok_or(SolveError::Infeasible)?;
        best.upper_bound = bound.max(best.value);
        best.burdens = burdens;
        self.write_uses(goal, &columns, best_amounts, finish, &mut best);
        best.gap = if best.upper_bound > 0.0 { (best.upper_bound - best.value) / best.upper_bound } else { 0.0 };
        Ok(best)
    }

    /// For each class the pairs that keep most of its speed: the first guess at what matters.
    fn promising(&self, columns: &[Column], singles: usize) -> Vec<usize> {
        let mut scored: Vec<Vec<(f64, usize)>> = vec![Vec::new(); self.classes.len()];
        for (index, column) in columns.iter().enumerate().skip(singles) {
            let kept = |(class, rate): (usize, f64)| {
                let alone = self.classes[class].rates[column.pool];
                if alone > 0.0 { rate / alone } else { 1.0 }
            };
            let score: f64 = column.members().map(kept).sum();
            // A pair that is slower in total than its members one after the other cannot help.
            if score > 1.0 {
                column.members().for_each(|(class, _)| scored[class].push((score, index)));
            }
        }
        let mut chosen: Vec<usize> = Vec::new();
        for mut list in scored {
            list.sort_by(|left, right| right.0.total_cmp(&left.0).then(left.1.cmp(&right.1)));
            chosen.extend(list.iter().take(4 * self.capacities.len()).map(|entry| entry.1));
        }
        chosen.sort_unstable();
        chosen.dedup();
        chosen
    }

    /// The linear program over some columns: rate rows (scaled by count and weight), time rows, pool rows, in this order.
    fn restricted(
        &self,
        goal: &PackedGoal,
        columns: &[Column],
        active: &[usize],
        seconds: f64,
    ) -> Result<LpSolution, SolveError> {
        let mut program = LinearProgram::default();
        let level = goal.has_level().then(|| program.add_variable(1.0));
        let classes = self.classes.len();
        let (mut rates, mut times, mut pools) =
            (vec![Vec::new(); classes], vec![Vec::new(); classes], vec![Vec::new(); self.capacities.len()]);
        for &index in active {
            let column = &columns[index];
            let variable = program.add_variable(goal.gain(column));
            let same = column.second.is_some_and(|(second, _)| second == column.first.0);
            let joined = if same {
                vec![(column.first.0, column.members().map(|member| member.1).sum())]
            } else {
                column.members().collect()
            };
            for (class, rate) in joined {
                let scale = self.classes[class].count * self.classes[class].weight;
                rates[class].push((variable, rate / scale));
                times[class].push((variable, if same { 2.0 } else { 1.0 } / self.classes[class].count));
            }
            pools[column.pool].push((variable, column.size / self.capacities[column.pool]));
        }
        for (class, mut terms) in rates.into_iter().enumerate() {
            terms.extend(level.map(|level| (level, -goal.rising(class))).filter(|term| term.1 < 0.0));
            program.add_constraint(terms, Relation::AtLeast, goal.floor(class) / self.classes[class].weight);
        }
        for terms in times.into_iter().chain(pools) {
            program.add_constraint(terms, Relation::AtMost, 1.0);
        }
        let solution = Clarabel { tolerance: 1e-9 }.solve(&program, seconds)?;
        match solution.status {
            LpStatus::Optimal | LpStatus::Inaccurate => Ok(solution),
            LpStatus::Infeasible => Err(SolveError::Infeasible),
            LpStatus::Unbounded => Err(SolveError::Backend("unbounded".to_owned())),
            LpStatus::Limit => Err(SolveError::Backend("limit reached".to_owned())),
        }
    }

    /// The backend's multipliers with the right signs, and for max-min with rate multipliers whose sum, by rise, is exactly 1.
    fn duals(&self, goal: &PackedGoal, solution: &LpSolution) -> Duals {
        let classes = self.classes.len();
        let mut rates: Vec<f64> = solution.duals[..classes].iter().map(|dual| (-dual).max(0.0)).collect();
        if goal.has_level() {
            let rising: f64 = (0..classes).map(|class| goal.rising(class)).sum();
            let sum: f64 = rates.iter().enumerate().map(|(class, rate)| rate * goal.rising(class)).sum();
            for rate in &mut rates {
                *rate = if sum > 0.0 { *rate / sum } else { 1.0 / rising };
            }
        }
        let positive = |list: &[f64]| list.iter().map(|dual| dual.max(0.0)).collect();
        Duals { rates, times: positive(&solution.duals[classes..2 * classes]), pools: positive(&solution.duals[2 * classes..]) }
    }

    /// Raises the time multipliers until no column is worth more than it costs; returns the columns that were, with by how much.
    fn repair(&self, goal: &PackedGoal, columns: &[Column], duals: &mut Duals) -> Vec<(usize, f64)> {
        let mut violated = Vec::new();
        let start: Vec<f64> = duals.times.clone();
        let surplus = |column: &Column, times: &[f64]| {
            let worth: f64 = column
                .members()
                .map(|(class, rate)| {
                    let count = self.classes[class].count;
                    rate * duals.rates[class] / (count * self.classes[class].weight) - times[class] / count
                })
                .sum();
            worth + goal.gain(column) - column.size * duals.pools[column.pool] / self.capacities[column.pool]
        };
        let mut times = start.clone();
        for (index, column) in columns.iter().enumerate() {
            // Against the backend's multipliers: these are the columns it would want.
            let wanted = surplus(column, &start);
            if wanted > 1e-10 {
                violated.push((index, wanted));
            }
            let missing = surplus(column, &times);
            if missing > 0.0 {
                // Shared between the members: each pays half, in its own scale.
                let members = column.members().count() as f64;
                for (class, _) in column.members() {
                    times[class] += missing / members * self.classes[class].count;
                }
            }
        }
        duals.times = times;
        violated
    }

    fn dual_value(&self, goal: &PackedGoal, duals: &Duals) -> f64 {
        let floors = |class: usize| duals.rates[class] * goal.floor(class) / self.classes[class].weight;
        let kept: f64 = (0..self.classes.len()).map(floors).sum();
        duals.times.iter().sum::<f64>() + duals.pools.iter().sum::<f64>() - kept
    }

    /// The uses of a solution, gathered into few columns where that costs nothing.
    fn write_uses(
        &self,
        goal: &PackedGoal,
        columns: &[Column],
        amounts: Vec<(usize, f64)>,
        finish: Finish,
        best: &mut PackedSolution,
    ) {
        let thin = (finish == Finish::Gathered).then(|| thinned(self, columns, &amounts, |column| goal.gain(column)));
        let amounts = match thin.and_then(|thin| self.fit(goal, columns, thin)) {
            Some((thin, value)) if value >= best.value - 1e-10 * best.value.abs() => {
                best.value = best.value.min(value);
                thin
            }
            _ => amounts,
        };
        let write = |&(index, amount): &(usize, f64)| {
            let column = &columns[index];
            Use { first: column.first.0, second: column.second.map(|member| member.0), pool: column.pool, amount }
        };
        best.uses = amounts.iter().map(write).collect();
    }

    /// The backend's values made to fit, and what they then give; none if a floor is missed by more than rounding.
    fn realise(
        &self,
        goal: &PackedGoal,
        columns: &[Column],
        active: &[usize],
        solution: &LpSolution,
    ) -> Option<(Vec<(usize, f64)>, f64)> {
        let values = &solution.values[usize::from(goal.has_level())..];
        // Interior points leave dust on every column; a billionth of an agent's time is not worth a switch.
        self.fit(goal, columns, active.iter().copied().zip(values.iter().copied()).filter(|entry| entry.1 >= 1e-9).collect())
    }

    /// Amounts by column scaled down until they fit, and what they then give; none if a floor is missed by more than rounding.
    fn fit(&self, goal: &PackedGoal, columns: &[Column], mut amounts: Vec<(usize, f64)>) -> Option<(Vec<(usize, f64)>, f64)> {
        let (mut times, mut pools, mut rates) =
            (vec![0.0; self.classes.len()], vec![0.0; self.capacities.len()], vec![0.0; self.classes.len()]);
        let mut value = 0.0;
        for &(index, amount) in &amounts {
            let column = &columns[index];
            for (class, rate) in column.members() {
                times[class] += amount / self.classes[class].count;
                rates[class] += amount * rate / self.classes[class].count;
            }
            pools[column.pool] += amount * column.size / self.capacities[column.pool];
            value += amount * goal.gain(column);
        }
        let excess = times.iter().chain(&pools).fold(1.0_f64, |most, &used| most.max(used));
        if goal.has_level() {
            let rise =
                |class: usize| (rates[class] / excess - goal.floor(class)) / self.classes[class].weight / goal.rising(class);
            value = (0..self.classes.len()).filter(|&class| goal.rising(class) > 0.0).map(rise).fold(f64::INFINITY, f64::min)
                * excess;
        }
        let below = |class: usize| rates[class] / excess < goal.floor(class) * (1.0 - 1e-6);
        if (0..self.classes.len()).any(|class| goal.rising(class) <= 0.0 && below(class)) {
            return None;
        }
        for entry in &mut amounts {
            entry.1 /= excess;
        }
        Some((amounts, value / excess))
    }
}
