//! Random demands, and the plain linear programs they are compared with.

#![allow(dead_code, clippy::unwrap_used, clippy::float_cmp, reason = "each test file uses a part, and a bad case is a bad test")]

pub mod simplex;

use proptest::prelude::*;
use rota_core::JobId;
use rota_policy::allocation::{Allocation, Claim, Demand, NoPairs};

#[derive(Clone, Debug)]
pub struct Case {
    pub claims: Vec<Claim>,
    pub gpus: Vec<f64>,
    pub prices: Vec<f64>,
}

/// Five invented GPU types, gangs of 1 to 64, speeds with zeros, some jobs alike, some that can run nowhere or have no weight.
pub fn any_case() -> impl Strategy<Value = Case> {
    (2..30_usize, 0.0..2.5_f64).prop_flat_map(|(count, scarcity)| {
        let rate = prop_oneof![5 => 0.05..20.0_f64, 2 => Just(0.0), 1 => Just(1.0)];
        let claim = (
            prop::collection::vec(rate, 5),
            prop::sample::select(vec![1.0, 1.0, 2.0, 4.0, 8.0, 64.0]),
            prop::sample::select(vec![1.0, 1.0, 1.0, 5.0, 0.0]),
            1.0..1e5_f64,
            prop_oneof![Just(0.0), 0.0..1e5_f64],
            prop_oneof![2 => Just(None), 3 => (-1e3..1e5_f64).prop_map(Some)],
        );
        let gpus =
            prop_oneof![6 => 1.0..40.0_f64, 1 => Just(0.0)].prop_map(move |gpus| (gpus * 10_f64.powf(1.0 - scarcity)).ceil());
        let twins = prop::collection::vec(prop::bool::weighted(0.3), count);
        (prop::collection::vec(claim, count), prop::collection::vec(gpus, 5), prop::collection::vec(0.1..5.0_f64, 5), twins)
            .prop_map(|(drafts, mut gpus, prices, twins)| {
                gpus[4] = gpus[4].max(1.0);
                let mut claims: Vec<Claim> = Vec::new();
                for (index, (rates, gang, weight, remaining, age, deadline)) in drafts.into_iter().enumerate() {
                    let id = JobId(index as u32);
                    let mut claim =
                        Claim { id, class: 0, rates: rates.into(), gang, weight, remaining, age, deadline, entity: 0 };
                    if twins[index]
                        && let Some(earlier) = claims.last()
                    {
                        claim = Claim { id, ..earlier.clone() };
                    }
                    claims.push(claim);
                }
                // Somebody takes part.
                claims[0].weight = 1.0;
                claims[0].rates[4] = claims[0].rates[4].max(0.5);
                Case { claims, gpus, prices }
            })
    })
}

impl Case {
    pub fn demand(&self) -> Demand<'_> {
        Demand { claims: &self.claims, gpus: &self.gpus, prices: &self.prices, pairs: &NoPairs, entities: &[] }
    }

    pub fn takes_part(&self, claim: usize) -> bool {
        self.claims[claim].weight > 0.0 && self.best_rate(claim) > 0.0
    }

    pub fn best_rate(&self, claim: usize) -> f64 {
        let usable = self.claims[claim].rates.iter().zip(&self.gpus).filter(|(_, gpus)| **gpus > 0.0);
        usable.map(|(rate, _)| *rate).fold(0.0, f64::max)
    }

    fn speeds(&self, speed: impl Fn(usize, f64) -> f64) -> Vec<Vec<f64>> {
        let row = |claim: usize| {
            self.claims[claim].rates.iter().map(|&rate| if rate > 0.0 { speed(claim, rate) } else { 0.0 }).collect()
        };
        (0..self.claims.len()).map(row).collect()
    }

    pub fn real(&self) -> Vec<Vec<f64>> {
        self.speeds(|_, rate| rate)
    }

    pub fn unit(&self) -> Vec<Vec<f64>> {
        self.speeds(|_, _| 1.0)
    }

    pub fn best(&self) -> Vec<Vec<f64>> {
        self.speeds(|claim, _| self.best_rate(claim))
    }

    /// The rate that is one unit of the max-min measure.
    pub fn unit_rate(&self, claim: usize, speeds: &[Vec<f64>]) -> f64 {
        let total: f64 = self.gpus.iter().sum();
        // With time alone counting, an equal part is all the time.
        let only_time = speeds.iter().flatten().all(|&speed| speed == 0.0 || speed == 1.0);
        let fair: f64 = speeds[claim].iter().zip(&self.gpus).map(|(speed, gpus)| speed * gpus / total).sum();
        self.claims[claim].weight * if only_time { 1.0 } else { fair } / self.claims[claim].gang
    }

    pub fn rates_in_time(&self) -> Vec<f64> {
        let rate = |claim: usize| {
            let Claim { deadline, remaining, .. } = self.claims[claim];
            let possible = |seconds: &f64| *seconds > 0.0 && remaining <= self.best_rate(claim) * seconds;
            if self.takes_part(claim) { deadline.filter(possible).map_or(0.0, |seconds| remaining / seconds) } else { 0.0 }
        };
        (0..self.claims.len()).map(rate).collect()
    }

    pub fn rate(&self, claim: usize, allocation: &Allocation) -> f64 {
        self.speed_under(claim, &self.real(), allocation)
    }

    pub fn speed_under(&self, claim: usize, speeds: &[Vec<f64>], allocation: &Allocation) -> f64 {
        let types = self.gpus.len();
        speeds[claim].iter().zip(&allocation.shares[claim * types..]).map(|(speed, share)| speed * share).sum()
    }

    pub fn measure(&self, claim: usize, speeds: &[Vec<f64>], allocation: &Allocation) -> f64 {
        if self.takes_part(claim) { self.speed_under(claim, speeds, allocation) / self.unit_rate(claim, speeds) } else { 0.0 }
    }

    /// Rows and pools are not exceeded, nobody is where it cannot be, and who takes no part has nothing.
    pub fn assert_fits(&self, name: &str, allocation: &Allocation) {
        let types = self.gpus.len();
        assert_eq!(allocation.shares.len(), self.claims.len() * types);
        let mut used = vec![0.0; types];
        for (claim, row) in allocation.shares.chunks_exact(types).enumerate() {
            assert!(row.iter().sum::<f64>() <= 1.0 + 1e-9, "{name}: claim {claim}: {row:?}");
            for (gpu_type, &share) in row.iter().enumerate() {
                assert!(share >= 0.0, "{name}: {share}");
                let closed = !self.takes_part(claim) || self.claims[claim].rates[gpu_type] <= 0.0;
                assert!(!closed || share == 0.0, "{name}: claim {claim} has {share} of a closed type");
                used[gpu_type] += share * self.claims[claim].gang;
            }
        }
        for (used, gpus) in used.iter().zip(&self.gpus) {
            assert!(*used <= gpus * (1.0 + 1e-9), "{name}: {used} of {gpus} GPUs");
        }
    }
}
