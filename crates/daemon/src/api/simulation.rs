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
    #[schema(value_type = Vec<Object>)]
    pub results: Vec<serde_json::Value>,
    /// The same summary of what really happened, where the jobs are those of this queue. Its chart comes after those of the policies.
    #[serde(default)]
    #[schema(value_type = Option<Object>)]
    pub happened: Option<serde_json::Value>,
}

/// The schedule of a simulated policy: the jobs on each GPU, in seconds since the beginning of the simulation.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct ScheduleBars {
    /// The type of each GPU, in order.
    pub gpus: Vec<String>,
    /// The first moment of the simulation.
    pub from_s: f64,
    /// The last moment of the simulation.
    pub until_s: f64,
    /// The bars, in order of their ends; null if there are too many to draw them one by one.
    pub bars: Option<Vec<ScheduleBar>>,
}

/// One stay of a job on GPUs.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct ScheduleBar {
    /// The job, as the trace names it.
    pub job: String,
    /// The job's type; empty if it has none.
    pub kind: String,
    /// The job's user; empty if it has none.
    pub user: String,
    /// The GPUs, counted from 0 in the order of the schedule's list.
    pub gpus: Vec<u32>,
    /// The start of the stay.
    pub start_s: f64,
    /// The end of the stay.
    pub end_s: f64,
    /// How the stay ended.
    pub end: ScheduleEnd,
}

/// How the stay of a job on GPUs ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "lowercase")]
pub enum ScheduleEnd {
    /// The job was done.
    Finished,
    /// The scheduler took the GPUs.
    Preempted,
    /// A node was lost.
    Evicted,
    /// The attempt or the job failed.
    Failed,
    /// The simulation ended first.
    Cut,
}
