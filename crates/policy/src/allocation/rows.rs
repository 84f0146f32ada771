//! Claims as rows of a solver problem, identical ones as one row, and the way back.

use super::demand::{Claim, Demand};
use super::expand::{Class, deal};
use rota_solver::SolveError;
use rota_solver::price::Identical;
use rota_solver::problem::Problem;

/// Which speeds an objective goes by. A type where a claim cannot be stays closed to it in all of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Speeds {
    /// Those of the claim.
    Real,
    /// 1 everywhere: time counts, not progress.
    Unit,
    /// The claim's best one everywhere: GPU types are taken to be alike.
    Best,
}

impl Speeds {
    /// The speed on a type that gives `rate`.
    fn on(self, rate: f64, best: f64) -> f64 {
        match self {
            Speeds::Real => rate,
            Speeds::Unit => 1.0,
            Speeds::Best => best,
        }
    }
}

/// The claims that take part, merged.
pub(super) struct Rows {
    /// What is solved; its counts say how many claims a row stands for.
    pub problem: Problem,
    /// For each row, the claims' mean speed over all GPUs: what an equal part of everything is measured by.
    pub fair: Vec<f64>,
    /// For each list of keys asked for, its number for each row.
    pub keys: Vec<Vec<f64>>,
    /// The claims that take part, in order.
    pub claims: Vec<u32>,
    /// The row of each of them; none if each has its own.
    row_of: Option<Vec<u32>>,
    all_claims: usize,
}

/// A number of a claim that must be equal for claims to be identical, by the claim's index.
pub(super) type Key<'a> = &'a dyn Fn(usize) -> f64;

impl Rows {
    /// The rows of a demand; none if no claim takes part. Claims are one row if their rates, gangs and all keys are the same.
    pub fn new(demand: &Demand<'_>, speeds: Speeds, identical: Identical, keys: &[Key<'_>]) -> Result<Option<Self>, SolveError> {
        demand.check()?;
        let types = demand.gpus.len();
        let claims: Vec<u32> = (0..demand.claims.len())
            .filter(|&claim| demand.takes_part(&demand.claims[claim]))
            .map(|claim| claim as u32)
            .collect();
        if claims.is_empty() {
            return Ok(None);
        }
        let mut rates = Vec::with_capacity(claims.len() * types);
        let mut sizes = Vec::with_capacity(claims.len());
        let mut fair = Vec::with_capacity(claims.len());
        for &claim in &claims {
            let claim = &demand.claims[claim as usize];
            sizes.push(claim.gang);
            fair.push(write_rates(claim, demand.gpus, speeds, &mut rates));
        }
        let mut lists = vec![fair];
        lists.extend(keys.iter().map(|key| claims.iter().map(|&claim| key(claim as usize)).collect::<Vec<f64>>()));
        let mut problem = Problem::owned(demand.gpus.to_vec(), sizes, rates, vec![1.0; claims.len()])?;
        let mut row_of = None;
        if identical == Identical::Merge {
            let extras: Vec<&[f64]> = lists.iter().map(Vec::as_slice).collect();
            if let Some(merged) = problem.merge_if_smaller(&extras)? {
                (problem, lists, row_of) = (merged.problem, merged.extras, Some(merged.row_of));
            }
        }
        let keys = lists.split_off(1);
        let fair = lists.pop().unwrap_or_default();
        Ok(Some(Self { problem, fair, keys, claims, row_of, all_claims: demand.claims.len() }))
    }

    /// The row of a claim, by its place among those that take part.
    pub fn row(&self, place: usize) -> usize {
        self.row_of.as_ref().map_or(place, |rows| rows[place] as usize)
    }

    /// What every claim gets, claims × types, from what each row got on average. No member of a row falls below the row's floor.
    pub fn expand(&self, shares: Vec<f64>, floors: &[f64]) -> Vec<f64> {
        let types = self.problem.columns();
        if self.row_of.is_none() && self.claims.len() == self.all_claims {
            return shares;
        }
        let mut expanded = vec![0.0; self.all_claims * types];
        let Some(row_of) = &self.row_of else {
            for (&claim, share) in self.claims.iter().zip(shares.chunks_exact(types)) {
                expanded[claim as usize * types..][..types].copy_from_slice(share);
            }
            return expanded;
        };
        let mut members: Vec<Vec<u32>> = vec![Vec::new(); self.problem.rows()];
        for (&claim, &row) in self.claims.iter().zip(row_of) {
            members[row as usize].push(claim);
        }
        for (row, members) in members.iter().enumerate() {
            let class = Class { rates: self.problem.rates(row), shares: &shares[row * types..][..types], floor: floors[row] };
            deal(&class, members, &mut expanded);
        }
        expanded
    }

    /// Calls for every claim that takes part: its row and the rate that shares (claims × types) give it.
    pub fn each_rate(&self, shares: &[f64], mut call: impl FnMut(usize, f64)) {
        let types = self.problem.columns();
        for (place, &claim) in self.claims.iter().enumerate() {
            let row = self.row(place);
            let share = &shares[claim as usize * types..][..types];
            call(row, self.problem.rates(row).iter().zip(share).map(|(rate, time)| rate * time).sum());
        }
    }
}

/// Appends a claim's speeds and returns its mean speed over all GPUs.
fn write_rates(claim: &Claim, gpus: &[f64], speeds: Speeds, rates: &mut Vec<f64>) -> f64 {
    let best = claim.rates.iter().zip(gpus).filter(|(_, gpus)| **gpus > 0.0).fold(0.0, |best: f64, (&rate, _)| best.max(rate));
    let (mut weighted, mut total) = (0.0, 0.0);
    for (&rate, &gpus) in claim.rates.iter().zip(gpus) {
        let speed = if rate >= f64::MIN_POSITIVE { speeds.on(rate, best) } else { 0.0 };
        rates.push(speed);
        weighted += speed * gpus;
        total += gpus;
    }
    // Where only time counts, a claim's equal part is all its time, closed types or not.
    if speeds == Speeds::Unit { 1.0 } else { weighted / total }
}
