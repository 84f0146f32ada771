//! The simulated world: it runs a bound workload under a policy and tells an observer every event.
//!
//! Time jumps from event to event. Everything that happens at one moment is reported together, then one decision is made: two jobs
//! that end at the same nanosecond free their GPUs before anybody is placed. Same inputs and seed, same events, byte for byte.

mod ends;
mod learning;
mod outcome;
mod quotas;
mod restraints;
mod world;

pub use ends::Ends;
pub use learning::{Learning, simulate_learning};
pub use outcome::{carry_out, end_of};
pub use quotas::{QuotaLimits, Quotas};
pub use restraints::{RestrainedWorld, Restraints};
pub use rota_engine::{Restart, Tally};
pub use world::SimulatedWorld;

use rota_core::{Bound, Event, Score, Span};
use rota_engine::{Engine, EngineOptions, Session};
use rota_policy::Configured;
use std::sync::Arc;

/// How a target becomes plans over time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mechanism {
    /// Decide on every arrival, completion or release; preempt whenever the policy says so.
    Event,
    /// Time sharing: running jobs hold their GPUs until the round ends; what falls free meanwhile is given out at once.
    Rounds {
        /// Length of a round.
        length: Span,
    },
}

/// Random loss of nodes.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct NodeFaults {
    /// Mean time between two losses of one node.
    pub mean_uptime: Span,
    /// Mean time until it returns.
    pub mean_repair: Span,
}

/// Everything a simulation depends on beside the workload, the cluster and the policy.
#[derive(Clone, Copy, Debug)]
pub struct SimOptions {
    /// How targets become plans.
    pub mechanism: Mechanism,
    /// Seed of all random streams.
    pub seed: u64,
    /// Which GPUs a job gets.
    pub score: Score,
    /// What it costs to start again.
    pub restart: Restart,
    /// How long a job that is stopped for others takes to leave its GPUs.
    pub stop_time: Span,
    /// Random loss of nodes, if any.
    pub faults: Option<NodeFaults>,
    /// Stop when the jobs with these ids (first, last) are over.
    pub window: Option<(u32, u32)>,
}

impl Default for SimOptions {
    fn default() -> Self {
        Self {
            mechanism: Mechanism::Event,
            seed: 0,
            score: Score::Consolidate,
            restart: Restart::default(),
            stop_time: Span::ZERO,
            faults: None,
            window: None,
        }
    }
}

impl SimOptions {
    /// What the engine needs of them.
    pub fn engine(&self) -> EngineOptions {
        let round = match self.mechanism {
            Mechanism::Event => None,
            Mechanism::Rounds { length } => Some(length),
        };
        EngineOptions { seed: self.seed, score: self.score, restart: self.restart, round }
    }
}

/// A simulation at its beginning: it can be stepped decision by decision, and forked.
pub fn session(bound: &Arc<Bound>, policy: Configured, options: &SimOptions) -> Session<SimulatedWorld> {
    let engine = Engine::new(Arc::clone(bound), policy, &options.engine());
    Session::new(engine, SimulatedWorld::new(Arc::clone(bound), options))
}

/// Runs one simulation to its end. `seconds` is the caller's clock, for the tally of decision times alone.
pub fn simulate(
    bound: &Arc<Bound>,
    policy: Configured,
    options: &SimOptions,
    observe: &mut dyn FnMut(&Event),
    seconds: &dyn Fn() -> f64,
) -> Tally {
    session(bound, policy, options).run(observe, seconds)
}
