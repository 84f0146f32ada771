//! The machine: its GPUs, its policy, its state at a glance.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// Whether a GPU is free, and why not.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "lowercase")]
pub enum GpuState {
    /// No job and no stranger is on the GPU.
    Free,
    /// The GPU has jobs, and room for more.
    Shared,
    /// The GPU has jobs, and no room for more.
    Full,
    /// A process that Rota did not start is on the GPU.
    Stranger,
    /// The GPU gets no new jobs.
    Drained,
    /// The GPU does not answer.
    Lost,
}

/// A GPU as its users see it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
#[expect(missing_docs, reason = "the names are the documentation: they are fixed by the interface")]
pub struct Gpu {
    pub index: u32,
    pub uuid: String,
    pub name: String,
    #[serde(rename = "type")]
    pub kind: String,
    pub node: String,
    pub state: GpuState,
    pub memory_total_mib: u64,
    pub memory_used_mib: Option<u64>,
    pub utilisation_percent: Option<u32>,
    pub memory_utilisation_percent: Option<u32>,
    pub power_watts: Option<f64>,
    pub temperature_c: Option<u32>,
    pub jobs: Vec<u64>,
    pub processes: Vec<GpuProcess>,
}

/// A process on a GPU.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[expect(missing_docs, reason = "the names are the documentation: they are fixed by the interface")]
pub struct GpuProcess {
    pub pid: u32,
    pub user: Option<String>,
    pub name: Option<String>,
    pub memory_mib: Option<u64>,
    /// The job it belongs to; null for a stranger's.
    pub job: Option<u64>,
}

/// The speed of a job type on a GPU type.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Speed {
    /// The job type.
    pub job_type: String,
    /// The gang size.
    pub gpus: u32,
    /// The GPU type.
    pub gpu_type: String,
    /// The type of the job on the same GPUs; none for a job alone.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub beside: Option<String>,
    /// Steps per second of the whole gang.
    pub steps_per_second: f64,
    /// How often it was measured; 0 if it is only believed, from other GPU types or other pairs.
    pub measurements: u32,
}

/// The whole state at a glance.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
#[expect(missing_docs, reason = "the names are the documentation")]
pub struct Status {
    pub version: String,
    pub pid: u32,
    pub state_dir: String,
    pub socket: String,
    pub http: Option<String>,
    pub started_at: String,
    pub driver: String,
    pub policy: String,
    pub draining: bool,
    pub waiting: u64,
    pub held: u64,
    pub running: u64,
    pub gpus: Vec<Gpu>,
    /// Decisions of the scheduler since the daemon started, and the longest of them.
    pub decisions: u64,
    pub decision_seconds_max: f64,
    /// What an administrator should look at.
    pub warnings: Vec<String>,
}

/// A change of policy.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct PolicyChange {
    /// The policy with its parameters: `name:key=value,…`.
    pub policy: String,
}

/// A machine whose GPUs are used.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct NodeView {
    /// The machine's name.
    pub name: String,
    /// The number of its GPUs.
    pub gpus: u64,
    /// Whether it answers. Nothing is started on a machine that does not.
    pub answers: bool,
    /// Whether it is the daemon's own.
    pub is_home: bool,
    /// The jobs that run there.
    pub jobs: Vec<u64>,
}

/// What to drain or to take into use again.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct Drain {
    /// The GPUs to drain; empty means the whole queue.
    #[serde(default)]
    pub gpus: Vec<u32>,
    /// Stop the daemon when nothing runs any more.
    #[serde(default)]
    pub then_exit: bool,
}
