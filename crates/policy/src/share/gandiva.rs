//! Gandiva's packing: when there are more jobs than GPUs, jobs are put together in pairs at random, pairs that do not pay are parted
//! again, and what is left, singles and pairs, gets equal shares of every GPU type.
//!
//! A pair pays where its two jobs together make more than one job alone, on average over the GPUs of the cluster.

use crate::allocation::{Allocation, Allocator, Claim, Demand, PairShare, SolveError, Solver, allocator, isolated_share};
use rota_core::JobId;
use rota_core::random::RandomStream;
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, HashMap};

/// Pairs that were tried and kept.
#[derive(Clone, Serialize, Deserialize)]
pub struct Gandiva {
    stream: RandomStream,
    partners: BTreeMap<JobId, JobId>,
}

impl Gandiva {
    /// Before its first pair.
    pub fn new() -> Self {
        Self { stream: RandomStream::new(0, "gandiva"), partners: BTreeMap::new() }
    }
}

/// What two jobs make together, in parts of what each makes alone, on average over the GPUs on which both can run.
fn parts_together(a: &Claim, b: &Claim, demand: &Demand<'_>) -> f64 {
    let Some(rates) = demand.pairs.pair(a.class, b.class).filter(|_| (a.gang - b.gang).abs() < 1e-9) else { return 0.0 };
    let (mut parts, mut gpus) = (0.0, 0.0);
    for (index, &(of_a, of_b)) in rates.iter().enumerate() {
        if a.rates[index] > 0.0 && b.rates[index] > 0.0 {
            parts += demand.gpus[index] * (of_a / a.rates[index] + of_b / b.rates[index]);
            gpus += demand.gpus[index];
        }
    }
    if gpus > 0.0 { parts / gpus } else { 0.0 }
}

impl Gandiva {
    /// Parts pairs that lost a member or do not pay, then tries new ones among the jobs without a partner.
    fn pair_up(&mut self, demand: &Demand<'_>) {
        let claims = demand.claims.iter().map(|claim| (claim.id, claim)).collect::<HashMap<_, _>>();
        let pays = |a: &JobId, b: &JobId| match (claims.get(a), claims.get(b)) {
            (Some(a), Some(b)) => parts_together(a, b, demand) > 1.0,
            _ => false,
        };
        self.partners.retain(|a, b| pays(a, b));
        let mut single = demand.claims.iter().filter(|claim| !self.partners.contains_key(&claim.id)).collect::<Vec<_>>();
        for _ in 0..single.len() {
            if single.len() < 2 {
                return;
            }
            let first = self.stream.below(single.len() as u64) as usize;
            let second = (first + 1 + self.stream.below(single.len() as u64 - 1) as usize) % single.len();
            let (a, b) = (single[first].id, single[second].id);
            if pays(&a, &b) {
                self.partners.insert(a, b);
                self.partners.insert(b, a);
                single.swap_remove(first.max(second));
                single.swap_remove(first.min(second));
            }
        }
    }
}

impl Allocator for Gandiva {
    fn allocate(&mut self, demand: &Demand<'_>) -> Result<Allocation, SolveError> {
        // Without a need to pack, everybody gets an equal share; the demand is checked there.
        let mut allocation = allocator("isolated", Solver::Price)
            .map_or(Err(SolveError::Empty("allocators")), |mut alone| alone.allocate(demand))?;
        let wanted = demand.claims.iter().map(|claim| claim.gang).sum::<f64>();
        if wanted <= demand.gpus.iter().sum::<f64>() {
            return Ok(allocation);
        }
        self.pair_up(demand);
        let index_of = demand.claims.iter().enumerate().map(|(index, claim)| (claim.id, index)).collect::<HashMap<_, _>>();
        let stands = demand.claims.len() - self.partners.len() / 2;
        let types = demand.gpus.len();
        for (index, claim) in demand.claims.iter().enumerate() {
            let shares = isolated_share(demand.gpus, stands, claim.gang);
            let row = &mut allocation.shares[index * types..(index + 1) * types];
            let Some(partner) = self.partners.get(&claim.id) else {
                for (gpu_type, share) in shares.into_iter().enumerate() {
                    row[gpu_type] = if claim.rates[gpu_type] > 0.0 { share } else { 0.0 };
                }
                continue;
            };
            row.fill(0.0);
            let second = index_of[partner];
            let rates = demand.pairs.pair(claim.class, demand.claims[second].class).unwrap_or_default();
            let usable = rates.iter().enumerate().filter(|(_, rate)| index < second && rate.0 > 0.0 && rate.1 > 0.0);
            let together = usable.map(|(gpu_type, _)| PairShare { first: index, second, gpu_type, share: shares[gpu_type] });
            allocation.pairs.extend(together);
        }
        allocation.rows = stands;
        Ok(allocation)
    }

    fn reseed(&mut self, seed: u64) {
        self.stream = RandomStream::new(seed, "gandiva");
    }

    fn renumber(&mut self, rows: &rota_core::Renumbering) {
        let partners = std::mem::take(&mut self.partners).into_iter();
        self.partners = partners.filter_map(|(a, b)| Some((rows.new_of(a)?, rows.new_of(b)?))).collect();
    }
}
