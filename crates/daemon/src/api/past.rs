//! The past as pictures and tables are made of it: bars, buckets, curves and sums.

use super::JobState;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// A GPU that is here, or was.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct GpuName {
    /// The GPU's UUID.
    pub uuid: String,
    /// The GPU's index when it was last seen.
    pub index: u32,
    /// The maker's name of it.
    pub name: String,
    /// The GPU's type, as jobs and policies name it.
    #[serde(rename = "type")]
    pub kind: String,
}

/// The jobs on each GPU over time.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Timeline {
    /// The start, RFC 3339.
    pub from: String,
    /// The end, RFC 3339.
    pub to: String,
    /// The GPUs of this machine, and those that are gone and have bars.
    pub gpus: Vec<GpuName>,
    /// Runs that touch this time, in order of their starts.
    pub bars: Vec<TimelineBar>,
    /// There were more: only the latest are here.
    pub truncated: bool,
}

/// One run of a job on its GPUs.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct TimelineBar {
    /// The job's number.
    pub job: u64,
    /// The job's name.
    pub name: Option<String>,
    /// The job's owner.
    pub user: String,
    /// The state of the job now.
    pub state: JobState,
    /// How this run ended: `finished`, `failed`, `preempted`, `evicted`, `retried`, `cancelled`, `lost`; null while it goes on.
    pub end: Option<String>,
    /// UUIDs of its GPUs.
    pub gpus: Vec<String>,
    /// Share of each of them, in thousandths.
    pub share_milli: u16,
    /// The start, RFC 3339.
    pub start: String,
    /// The end, RFC 3339; null while the run goes on.
    pub finish: Option<String>,
}

/// What a job did over time.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct JobSamples {
    /// The job's number.
    pub job: u64,
    /// The samples, in order of time.
    pub points: Vec<JobPoint>,
}

/// What a job did over some seconds.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct JobPoint {
    /// The end of the time it stands for.
    pub at: String,
    /// Its own memory on each of its GPUs, on average.
    pub memory_mib: Option<f64>,
    /// Its own use of its GPUs, where the driver tells; that of its GPUs otherwise.
    pub utilisation_percent: Option<f64>,
    /// The power that the job's GPUs drew for it, summed.
    pub power_watts: Option<f64>,
}

/// An amount of GPU use.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Use {
    /// Jobs that had GPUs in this time.
    pub jobs: u64,
    /// GPUs × share × hours.
    pub gpu_hours: f64,
    /// Energy, where it was measured.
    pub energy_kwh: Option<f64>,
    /// What as many hours of such GPUs cost at list prices, where those are known.
    pub cost_usd: Option<f64>,
    /// GPU hours with less than 5 % of use, where that was measured.
    pub idle_gpu_hours: Option<f64>,
}

/// The GPU use of a user or a project.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct NamedUse {
    /// Who; null for what has no project.
    pub name: Option<String>,
    /// The use of the GPUs in that time.
    #[serde(flatten)]
    pub used: Use,
}

/// The use of one GPU.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct GpuUse {
    /// The GPU's UUID.
    pub uuid: String,
    /// The GPU's index when it was last seen.
    pub index: u32,
    /// The GPU's type.
    #[serde(rename = "type")]
    pub kind: String,
    /// The use of the GPUs in that time.
    #[serde(flatten)]
    pub used: Use,
}

/// A job that held GPUs and did little with them.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct WastefulJob {
    /// The job's number.
    pub job: u64,
    /// The job's name.
    pub name: Option<String>,
    /// The job's owner.
    pub user: String,
    /// GPU hours with less than 5 % of use.
    pub idle_gpu_hours: f64,
}

/// The use of the GPUs in some time.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Usage {
    /// The start, RFC 3339.
    pub from: String,
    /// The end, RFC 3339.
    pub to: String,
    /// All of it.
    pub total: Use,
    /// The use of each user, the largest first.
    pub users: Vec<NamedUse>,
    /// The use of each project, the largest first.
    pub projects: Vec<NamedUse>,
    /// The use of each GPU, in the order of their indices.
    pub gpus: Vec<GpuUse>,
    /// The jobs with the most idle GPU time, the worst first.
    pub waste: Vec<WastefulJob>,
}

/// How much of each GPU was given out, and how much of it was used, over time.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Heatmap {
    /// The start, RFC 3339.
    pub from: String,
    /// The end, RFC 3339.
    pub to: String,
    /// The length of a bucket.
    pub bucket_seconds: f64,
    /// One row for each GPU.
    pub gpus: Vec<HeatmapRow>,
}

/// One GPU over time. Null where nothing is known: before the first record, in the future, or while the daemon did not run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct HeatmapRow {
    /// The GPU's UUID.
    pub uuid: String,
    /// The GPU's index when it was last seen.
    pub index: u32,
    /// The part that jobs had, 0 to 1.
    pub allocated: Vec<Option<f64>>,
    /// The part that was busy, 0 to 1.
    pub used: Vec<Option<f64>>,
    /// The mean power the GPU drew in each bucket.
    pub power_watts: Vec<Option<f64>>,
}
