//! Simulations that the daemon runs for its users.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// Where the jobs of a simulation come from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "lowercase")]
pub enum SimulationSource {
    /// The jobs that this queue recorded.
    History,
    /// A trace that is sent along.
    Trace,
}

/// A simulation that a user asks for.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct SimulationAsk {
    /// Where the jobs come from.
    pub source: SimulationSource,
    /// Of the history: only jobs that ended since this moment, RFC 3339.
    #[serde(default)]
    pub since: Option<String>,
    /// The trace itself.
    #[serde(default)]
    pub text: Option<String>,
    /// Its format; found by its content if not given.
    #[serde(default)]
    pub format: Option<String>,
    /// GPU types and counts, as `a100:2,t4:2`; this machine's own GPUs if not given.
    #[serde(default)]
    pub cluster: Option<String>,
    /// The policies to compare, 1 to 8.
    pub policies: Vec<String>,
    /// The seed of all random numbers.
    #[serde(default)]
    pub seed: Option<u64>,
}

/// A simulation that was begun.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct SimulationStarted {
    /// The simulation's number.
    pub id: u64,
}

/// The state of a simulation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "lowercase")]
pub enum SimulationState {
    /// The simulation runs.
    Running,
    /// The simulation has ended, and its results are there.
    Done,
    /// The simulation has ended without results.
    Failed,
    /// A user stopped the simulation.
    Cancelled,
}

/// A simulation, with its results once it is done.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Simulation {
    /// The simulation's number.
    pub id: u64,
    /// The state of the simulation.
    pub state: SimulationState,
    /// How much of it is done, 0 to 1; null until that can be said.
    pub progress: Option<f64>,
    /// The policies, in the order asked for.
    pub policies: Vec<String>,
    /// Why the simulation failed.
    pub error: Option<String>,
    /// One summary a policy, as `rota sim --json` prints it; empty until it is done.
    pub results: Vec<serde_json::Value>,
    /// The same summary of what really happened, where the jobs are those of this queue. Its chart comes after those of the policies.
    #[serde(default)]
    pub happened: Option<serde_json::Value>,
}
