//! The past of jobs and GPUs, as one document.

use super::job::Job;
use super::machine::Gpu;
use super::submit::Submit;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use utoipa::ToSchema;

/// The past, for reports and for the simulator.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct History {
    /// The machine's name.
    pub host: String,
    /// The GPUs of the machine.
    pub gpus: Vec<Gpu>,
    /// Jobs that are over and were in the queue in the time asked for, in order of arrival.
    pub jobs: Vec<PastJob>,
    /// Jobs that still run. The last run of each is taken to end now.
    #[serde(default)]
    pub running: Vec<PastJob>,
    /// Use and power of the GPUs over that time.
    pub samples: Vec<GpuSample>,
    /// How the scheduler is set.
    #[serde(default)]
    pub scheduler: Option<SchedulerSettings>,
    /// Whether there are earlier jobs than one answer has.
    #[serde(default)]
    pub truncated: bool,
}

impl History {
    /// The same history, in which jobs that still run end now: until now they had their GPUs.
    #[must_use]
    pub fn up_to_now(mut self) -> Self {
        self.jobs.append(&mut self.running);
        self
    }
}

/// How the scheduler is set: with the same settings the simulator decides as it does.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct SchedulerSettings {
    /// The policy in force.
    pub policy: String,
    /// The seed of everything random.
    pub seed: u64,
    /// Which free GPUs a job gets.
    pub place: String,
    /// The length of a round, where time is shared in rounds.
    pub round_seconds: Option<f64>,
    /// What a job loses whenever it is started again, where that is set.
    pub restart_seconds: Option<f64>,
    /// How long a job runs at the least before it is stopped for others, where that is set.
    pub min_run_seconds: Option<f64>,
    /// Memory of each GPU that no job is given, in MiB.
    #[serde(default)]
    pub buffer_mib: u32,
}

/// A job that is over, with all its runs.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct PastJob {
    /// The job as its users see it.
    pub job: Job,
    /// What was asked for, without the environment.
    pub ask: Submit,
    /// When it arrived, in nanoseconds of the queue's own time.
    pub arrived_at_ns: u64,
    /// The run time the scheduler expected.
    pub believed_seconds: f64,
    /// Share of each GPU it was given, in thousandths.
    pub share_milli: u16,
    /// Memory on each GPU it was counted with.
    pub memory_mib: u32,
    /// When its user let it go, in nanoseconds of the queue's own time, if it was held before its first start.
    #[serde(default)]
    pub released_at_ns: Option<u64>,
    /// Steps that it did, if it told them.
    #[serde(default)]
    pub steps: Option<u64>,
    /// When the jobs ended that it waited for, in nanoseconds of the queue's own time, by their numbers.
    #[serde(default)]
    pub awaited_ends_ns: BTreeMap<u64, u64>,
    /// The job's runs, in order.
    pub runs: Vec<PastRun>,
}

impl PastJob {
    /// The length of the job, as the sum of what `measure` says of its runs. Work that the job lost because it was stopped for others does
    /// not count: under another policy it may not be stopped. Failed attempts and runs on lost GPUs take their time under every policy.
    pub fn length(&self, measure: impl Fn(&PastRun) -> f64) -> f64 {
        self.runs.iter().fold(0.0, |length, run| {
            let usual = if self.ask.saves_progress { 1.0 } else { 0.0 };
            let kept = if run.end == "preempted" { run.kept_part.unwrap_or(usual) } else { 1.0 };
            (length + measure(run)) * kept
        })
    }
}

/// One run of a job on GPUs.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct PastRun {
    /// UUIDs of its GPUs.
    pub gpu_uuids: Vec<String>,
    /// The start of the run, in nanoseconds of the queue's own time.
    pub start_ns: u64,
    /// The end of the run, in nanoseconds of the queue's own time.
    pub end_ns: u64,
    /// What was done in that time, in seconds of a job that is alone on its GPUs: less than it took where others were in its way.
    pub work_seconds: f64,
    /// The part of the job's run time until then whose work it kept, 0 to 1. Missing where an earlier version wrote the run down.
    #[serde(default)]
    pub kept_part: Option<f64>,
    /// How it ended: `finished`, `failed`, `preempted`, `evicted`, `retried`, `cancelled`, `lost`; or that it did not: `running`.
    pub end: String,
}

/// What a GPU did over some seconds.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct GpuSample {
    /// The GPU's UUID.
    pub uuid: String,
    /// The end of the time it stands for.
    pub at: String,
    /// The length of that time.
    pub span_seconds: u32,
    /// How busy the GPU was.
    pub utilisation_percent: Option<f64>,
    /// Memory in use.
    pub memory_used_mib: Option<f64>,
    /// The mean power the GPU drew.
    pub power_watts: Option<f64>,
}
