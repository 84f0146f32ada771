//! Simulations that the daemon runs for its users.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// Where the jobs of a simulation come from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "lowercase")]
pub enum SimulationSource {
    /// What this queue recorded.
    History,
    /// A trace that is sent along.
    Trace,
}

/// What is to be simulated.
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
    /// Of everything random.
    #[serde(default)]
    pub seed: Option<u64>,
}

/// A simulation that was begun.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct SimulationStarted {
    /// Its number.
    pub id: u64,
}

/// Where a simulation is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "lowercase")]
pub enum SimulationState {
    /// It goes on.
    Running,
    /// Its results are there.
    Done,
    /// It has none.
    Failed,
    /// Somebody stopped it.
    Cancelled,
}

/// A simulation.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Simulation {
    /// Its number.
    pub id: u64,
    /// Where it is.
    pub state: SimulationState,
    /// How much of it is done, 0 to 1; null until that can be said.
    pub progress: Option<f64>,
    /// The policies, in the order asked for.
    pub policies: Vec<String>,
    /// Why it failed.
    pub error: Option<String>,
    /// One summary a policy, as `rota sim --json` prints it; empty until it is done.
    pub results: Vec<serde_json::Value>,
}
