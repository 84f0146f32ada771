//! Allocations of time: from who wants what and what there is, to the part of its time each job should spend on each GPU type.
//!
//! The path: a [`Demand`] is checked, its claims become rows of a solver problem with identical claims as one row (`rows`), a family of
//! objectives solves it (one file each), and what a row of identical claims got is dealt out to its members (`expand`). Packed families
//! go another way, over classes that run alone or in pairs (`packing`). Everything is a function of the demand alone, but for
//! finish-time fairness, which remembers by job what a private share would have done.
//!
//! Always: claims that can run nowhere or have no weight get nothing and do not count in any minimum; bad numbers are errors.

mod demand;
mod equal_shares;
mod expand;
mod finish_time;
mod interior;
mod level;
mod makespan;
mod max_min;
mod max_throughput;
mod packed;
mod packing;
mod rows;
mod strategy_proof;
mod water_filling;

pub use demand::{Allocation, Claim, Demand, Entity, EntityRule, NoPairs, PairRates, PairShare};
pub(crate) use equal_shares::isolated_share;
pub use rota_solver::SolveError;

use crate::memory::{MemoryError, from_bytes, to_bytes};
use rota_core::Renumbering;
use rows::Speeds;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

/// How allocations are computed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Solver {
    /// Prices on GPU types: quick, ends at something like a vertex, and a second pass leaves no GPU time idle that helps anyone.
    Price,
    /// One program per objective as Gavel writes it, every job its own row, solved by an interior-point method. The result lies in the
    /// middle of all optimal ones; there is no second pass.
    Interior,
}

/// Turns demands into allocations; may remember what it needs from one to the next.
pub trait Allocator: RememberAllocations + Send {
    /// The allocation for a demand.
    fn allocate(&mut self, demand: &Demand<'_>) -> Result<Allocation, SolveError>;

    /// Sets the seed of what is drawn at random, before the first allocation. Most draw nothing.
    fn reseed(&mut self, _seed: u64) {}

    /// Jobs have other rows from now on.
    fn renumber(&mut self, _rows: &Renumbering) {}
}

/// What an allocator remembers: cloned for a fork, written down for a restart. Every allocator that is plain data has this.
pub trait RememberAllocations {
    /// A copy that goes its own way from here.
    fn fork(&self) -> Box<dyn Allocator>;
    /// Everything it remembers, as bytes.
    fn save(&self) -> Vec<u8>;
    /// Takes up what was saved.
    fn load(&mut self, bytes: &[u8]) -> Result<(), MemoryError>;
}

impl<T: Allocator + Clone + Serialize + DeserializeOwned + 'static> RememberAllocations for T {
    fn fork(&self) -> Box<dyn Allocator> {
        Box::new(self.clone())
    }

    fn save(&self) -> Vec<u8> {
        to_bytes(self)
    }

    fn load(&mut self, bytes: &[u8]) -> Result<(), MemoryError> {
        *self = from_bytes(bytes)?;
        Ok(())
    }
}

/// Every name that [`allocator`] knows.
pub const NAMES: &[&str] = &[
    "isolated",
    "proportional",
    "max-min",
    "max-min-perf",
    "max-min-packed",
    "water-filling",
    "water-filling-perf",
    "water-filling-packed",
    "ftf",
    "ftf-perf",
    "ftf-packed",
    "makespan",
    "makespan-perf",
    "makespan-packed",
    "max-throughput-perf",
    "max-throughput-cost-perf",
    "max-throughput-cost-slo-perf",
    "max-throughput-cost-slo-packed",
    "strategy-proof",
    "hierarchical",
    "gandiva",
];

/// The allocator of a name.
pub fn allocator(name: &str, solver: Solver) -> Option<Box<dyn Allocator>> {
    use max_throughput::Value;
    Some(match name {
        "isolated" => Box::new(equal_shares::Isolated),
        "proportional" => Box::new(equal_shares::Proportional),
        "max-min" => Box::new(max_min::MaxMin::new(Speeds::Unit, solver)),
        "max-min-perf" => Box::new(max_min::MaxMin::new(Speeds::Real, solver)),
        "water-filling" => Box::new(water_filling::WaterFilling::new(Speeds::Unit, solver)),
        "water-filling-perf" => Box::new(water_filling::WaterFilling::new(Speeds::Real, solver)),
        "hierarchical" => Box::new(water_filling::Hierarchical::new(solver)),
        "ftf" => Box::new(finish_time::FinishTime::new(Speeds::Best, solver)),
        "ftf-perf" => Box::new(finish_time::FinishTime::new(Speeds::Real, solver)),
        "makespan" => Box::new(makespan::Makespan::new(Speeds::Best, solver)),
        "makespan-perf" => Box::new(makespan::Makespan::new(Speeds::Real, solver)),
        "max-throughput-perf" => Box::new(max_throughput::MaxThroughput::new(Value::Steps, solver)),
        "max-throughput-cost-perf" => Box::new(max_throughput::MaxThroughput::new(Value::StepsPerDollar, solver)),
        "max-throughput-cost-slo-perf" => Box::new(max_throughput::MaxThroughput::new(Value::StepsPerDollarInTime, solver)),
        "max-min-packed" => Box::new(packed::MaxMinPacked(solver)),
        "water-filling-packed" => Box::new(packed::WaterFillingPacked),
        "ftf-packed" => Box::new(packed::FinishTimePacked::new(solver)),
        "makespan-packed" => Box::new(packed::MakespanPacked(solver)),
        "max-throughput-cost-slo-packed" => Box::new(packed::InTimePacked),
        "strategy-proof" => Box::new(strategy_proof::StrategyProof(solver)),
        "gandiva" => Box::new(crate::share::gandiva::Gandiva::new()),
        _ => return None,
    })
}
