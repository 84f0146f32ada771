//! Claims as rows of a solver problem, identical ones as one row, and the way back.

use super::demand::{Claim, Demand};
use super::expand::{Class, deal};
use rota_solver::SolveError;
use rota_solver::price::Identical;
use rota_solver::problem::Problem;
use serde::{Deserialize, Serialize};
use smallvec::SmallVec;
use std::collections::HashSet;

/// Which speeds an objective goes by. A type where a claim cannot be stays closed to it in all of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
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
    /// Where all GPUs are alike to all claims, the problem has one pool; this is the part of each type in it.
    parts: Option<Vec<f64>>,
}

/// A number of a claim that must be equal for claims to be identical, by the claim's index.
pub(super) type Key<'a> = &'a dyn Fn(usize) -> f64;

impl Rows {
    /// The rows of a demand; none if no claim takes part. Claims are one row if their rates, gangs and all keys are the same.
    pub fn new(demand: &Demand<'_>, speeds: Speeds, identical: Identical, keys: &[Key<'_>]) -> Result<Option<Self>, SolveError> {
        let types = demand.gpus.len();
        let claims = demand.participants()?;
        if claims.is_empty() {
            return Ok(None);
        }
        let classes = if identical == Identical::Merge { by_class(demand, &claims, keys) } else { None };
        let firsts = classes.as_ref().map_or(&claims, |classes| &classes.firsts);
        let mut rates = Vec::with_capacity(firsts.len() * types);
        let mut sizes = Vec::with_capacity(firsts.len());
        let mut fair = Vec::with_capacity(firsts.len());
        let parts = if identical == Identical::Merge { one_pool(demand, firsts, speeds) } else { None };
        for &claim in firsts {
            let claim = &demand.claims[claim as usize];
            sizes.push(claim.gang);
            let start = rates.len();
            fair.push(write_rates(claim, demand.gpus, speeds, &mut rates));
            if parts.is_some() {
                let speed = rates.drain(start..).fold(0.0, f64::max);
                rates.push(speed);
            }
        }
        let pools = if parts.is_some() { vec![demand.gpus.iter().sum()] } else { demand.gpus.to_vec() };
        let mut lists = vec![fair];
        lists.extend(keys.iter().map(|key| firsts.iter().map(|&claim| key(claim as usize)).collect::<Vec<f64>>()));
        let merges = identical == Identical::Merge && classes.is_none();
        let (counts, mut row_of) = match classes {
            Some(classes) => (classes.counts, Some(classes.row_of)),
            None => (vec![1.0; claims.len()], None),
        };
        let mut problem = Problem::owned(pools, sizes, rates, counts)?;
        if merges {
            let extras: Vec<&[f64]> = lists.iter().map(Vec::as_slice).collect();
            if let Some(merged) = problem.merge_if_smaller(&extras)? {
                (problem, lists, row_of) = (merged.problem, merged.extras, Some(merged.row_of));
            }
        }
        let keys = lists.split_off(1);
        let fair = lists.pop().unwrap_or_default();
        Ok(Some(Self { problem, fair, keys, claims, row_of, all_claims: demand.claims.len(), parts }))
    }

    /// The row of a claim, by its place among those that take part.
    pub fn row(&self, place: usize) -> usize {
        self.row_of.as_ref().map_or(place, |rows| rows[place] as usize)
    }

    /// What every claim gets, claims × types, from what each row got on average. No member of a row falls below the row's floor.
    pub fn expand(&self, shares: Vec<f64>, floors: &[f64]) -> Vec<f64> {
        self.expand_in_order(shares, floors, |_| {})
    }

    /// As [`Self::expand`]; what is to be had above the floor goes to the members of a row in the order that `order` brings them into.
    pub fn expand_in_order(&self, shares: Vec<f64>, floors: &[f64], order: impl Fn(&mut [u32])) -> Vec<f64> {
        let shares = self.dealt(shares, floors, order);
        match &self.parts {
            None => shares,
            Some(parts) => shares.iter().flat_map(|time| parts.iter().map(move |part| time * part)).collect(),
        }
    }

    /// What every claim gets, claims × pools.
    fn dealt(&self, shares: Vec<f64>, floors: &[f64], order: impl Fn(&mut [u32])) -> Vec<f64> {
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
        // The members of all rows in one list, row by row.
        let mut ends = vec![0_usize; self.problem.rows() + 1];
        for &row in row_of {
            ends[row as usize + 1] += 1;
        }
        for row in 0..self.problem.rows() {
            ends[row + 1] += ends[row];
        }
        let (mut next, mut members) = (ends.clone(), vec![0; self.claims.len()]);
        for (&claim, &row) in self.claims.iter().zip(row_of) {
            members[next[row as usize]] = claim;
            next[row as usize] += 1;
        }
        for row in 0..self.problem.rows() {
            let class = Class { rates: self.problem.rates(row), shares: &shares[row * types..][..types], floor: floors[row] };
            let members = &mut members[ends[row]..ends[row + 1]];
            order(members);
            deal(&class, members, &mut expanded);
        }
        expanded
    }

    /// Calls for every claim that takes part: its row and the rate that shares (claims × types) give it.
    pub fn each_rate(&self, shares: &[f64], mut call: impl FnMut(usize, f64)) {
        let types = self.parts.as_ref().map_or(self.problem.columns(), Vec::len);
        for (place, &claim) in self.claims.iter().enumerate() {
            let row = self.row(place);
            let (rates, share) = (self.problem.rates(row), &shares[claim as usize * types..][..types]);
            // In one pool every type has the one rate.
            let rate = |gpu_type: usize| rates[gpu_type.min(rates.len() - 1)];
            call(row, share.iter().enumerate().map(|(gpu_type, time)| rate(gpu_type) * time).sum());
        }
    }
}

/// The part of each type in all GPUs, if all of them are alike to all claims. Then nothing is gained by telling types apart, and every
/// row would be indifferent between them, which is what costs a solver most.
fn one_pool(demand: &Demand<'_>, claims: &[u32], speeds: Speeds) -> Option<Vec<f64>> {
    if speeds == Speeds::Real {
        return None;
    }
    let usable =
        |claim: &Claim| claim.rates.iter().zip(demand.gpus).all(|(&rate, &gpus)| gpus <= 0.0 || rate >= f64::MIN_POSITIVE);
    let total: f64 = demand.gpus.iter().sum();
    let alike = claims.iter().all(|&claim| usable(&demand.claims[claim as usize]));
    alike.then(|| demand.gpus.iter().map(|gpus| gpus / total).collect())
}

/// Identical claims by their first one.
struct Classes {
    firsts: Vec<u32>,
    counts: Vec<f64>,
    row_of: Vec<u32>,
}

/// Kinds of claims in one class up to which they are compared one by one.
const KINDS_MAX: usize = 8;

/// Claims looked at to see whether classes repeat among very many.
const LOOKED_AT: usize = 4096;

/// Whether some thousands of very many claims, taken evenly, are all of different classes: then looking at all would gain little.
fn seem_all_different(demand: &Demand<'_>, claims: &[u32]) -> bool {
    let looked_at = claims.iter().step_by(claims.len() / LOOKED_AT + 1).map(|&claim| demand.claims[claim as usize].class);
    claims.len() >= 16 * LOOKED_AT && looked_at.clone().collect::<HashSet<u32>>().len() == looked_at.count()
}

/// Identical claims, found by their classes: few claims of a class differ at all. None if that is not so, and then they must be merged as
/// rows; but where it is, no row is written for a claim that has none of its own.
fn by_class(demand: &Demand<'_>, claims: &[u32], keys: &[Key<'_>]) -> Option<Classes> {
    let most = claims.iter().map(|&claim| demand.claims[claim as usize].class).max()?;
    if most as usize > 4 * claims.len() + 64 || seem_all_different(demand, claims) {
        return None;
    }
    let mut kinds: Vec<SmallVec<[u32; KINDS_MAX]>> = vec![SmallVec::new(); most as usize + 1];
    let mut found = Classes { firsts: Vec::new(), counts: Vec::new(), row_of: Vec::with_capacity(claims.len()) };
    for &claim in claims {
        let own = &demand.claims[claim as usize];
        let same = |first: usize| {
            let other = &demand.claims[first];
            let same_rates = own.rates.iter().zip(&other.rates).all(|(a, b)| a.to_bits() == b.to_bits());
            let same_keys = keys.iter().all(|key| key(claim as usize).to_bits() == key(first).to_bits());
            same_rates && same_keys && own.gang.to_bits() == other.gang.to_bits()
        };
        let kinds = &mut kinds[own.class as usize];
        let known = kinds.iter().copied().find(|&row| same(found.firsts[row as usize] as usize));
        let row = match known {
            Some(row) => row,
            None if kinds.len() == KINDS_MAX => return None,
            None => {
                kinds.push(found.firsts.len() as u32);
                found.firsts.push(claim);
                found.counts.push(0.0);
                found.firsts.len() as u32 - 1
            }
        };
        found.counts[row as usize] += 1.0;
        found.row_of.push(row);
    }
    // All different: nothing is gained, and the rows are the claims.
    (found.firsts.len() < claims.len()).then_some(found)
}

/// Appends a claim's speeds and returns its mean speed over all GPUs.
fn write_rates(claim: &Claim, gpus: &[f64], speeds: Speeds, rates: &mut Vec<f64>) -> f64 {
    let usable = || claim.rates.iter().zip(gpus).filter(|(_, gpus)| **gpus > 0.0);
    let best = if speeds == Speeds::Best { usable().fold(0.0, |best: f64, (&rate, _)| best.max(rate)) } else { 0.0 };
    let start = rates.len();
    rates.extend(claim.rates.iter().map(|&rate| if rate >= f64::MIN_POSITIVE { speeds.on(rate, best) } else { 0.0 }));
    let (mut weighted, mut total) = (0.0, 0.0);
    for (speed, gpus) in rates[start..].iter().zip(gpus) {
        weighted += speed * gpus;
        total += gpus;
    }
    // Where only time counts, a claim's equal part is all its time, closed types or not.
    if speeds == Speeds::Unit { 1.0 } else { weighted / total }
}
