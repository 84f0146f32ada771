//! Settings of jobs that share a GPU.

use serde::{Deserialize, Serialize};
use std::path::PathBuf;

/// What happens to a job that uses more of a GPU's memory than it asked for, while others are on that GPU.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum OnOveruse {
    /// The job is stopped, and started again with more memory.
    Retry,
    /// The job is marked and runs on.
    Mark,
}

/// Several jobs on one GPU.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Sharing {
    /// Memory that is kept free on every GPU that jobs share.
    pub buffer_mib: u32,
    /// Memory added to what is predicted for each job.
    pub job_buffer_mib: u32,
    /// Which of the peaks measured counts, from 0 to 1.
    pub quantile: f64,
    /// Part of that peak that is added to it.
    pub margin: f64,
    /// A first run that is made to learn a program's memory is ended after this long.
    pub profile_seconds: f64,
    /// Options that do not change how much memory a program needs.
    pub ignore_arguments: Vec<String>,
    /// How often a job that ran out of a GPU's memory is tried again with more.
    pub oom_retries: u32,
    /// The factor by which a job's memory grows after each failure.
    pub oom_growth: f64,
    /// What happens to a job that uses more memory than it asked for beside others.
    pub on_overuse: OnOveruse,
    /// Speeds of job types alone and beside others, as `rota sim --throughputs` reads them; relative to this file. Jobs name theirs with
    /// `--job-type`, and share a GPU only where more gets done together.
    pub throughputs: Option<PathBuf>,
    /// The program that controls MPS, looked for on the `PATH` if it has no slash.
    pub mps_control: PathBuf,
}

impl Default for Sharing {
    fn default() -> Self {
        let ignored = [
            "--epochs",
            "--id",
            "--seed",
            "--name",
            "--run-name",
            "--lr",
            "--learning-rate",
            "--momentum",
            "--weight-decay",
            "--steps",
            "--max-steps",
            "--checkpoint",
            "--checkpoint-dir",
            "--resume",
            "--output",
            "--output-dir",
            "--out",
            "--log-dir",
            "--save-dir",
        ];
        Self {
            buffer_mib: 512,
            job_buffer_mib: 0,
            quantile: 0.95,
            margin: 0.05,
            profile_seconds: 600.0,
            ignore_arguments: ignored.map(str::to_owned).to_vec(),
            oom_retries: 2,
            oom_growth: 1.5,
            on_overuse: OnOveruse::Retry,
            throughputs: None,
            mps_control: PathBuf::from("nvidia-cuda-mps-control"),
        }
    }
}
