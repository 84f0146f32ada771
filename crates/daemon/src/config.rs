//! The configuration: a TOML file, every field with a default that suits one machine.

use rota_core::Score;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

/// Every setting with its default and its meaning.
pub const SCHEMA: &str = include_str!("config.toml");

/// What is wrong with a configuration.
#[derive(Debug, thiserror::Error)]
pub enum ConfigError {
    /// Cannot be read.
    #[error("{path}: {problem}")]
    File {
        /// The file.
        path: String,
        /// Why.
        problem: String,
    },
    /// Cannot be meant.
    #[error("{field}: {problem}")]
    Value {
        /// Which field.
        field: String,
        /// What is wrong, and what would be right.
        problem: String,
    },
}

/// Everything a site can set.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Config {
    /// Who runs next: any name of `rota policies`.
    pub policy: String,
    /// Which GPUs a job gets: consolidate, spread, best-fit, worst-fit, least-busy, random.
    pub place: String,
    /// Seed of random policies.
    pub seed: u64,
    /// Port of the HTTP API on loopback; 0 takes any free one.
    pub port: u16,
    /// Whether there is an HTTP API on a port at all; the socket is always there.
    pub http: bool,
    /// Jobs.
    pub jobs: Jobs,
    /// GPUs.
    pub gpus: Gpus,
    /// Several jobs on one GPU.
    pub sharing: Sharing,
    /// Users.
    pub users: Users,
    /// What is recorded.
    pub telemetry: Telemetry,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            policy: "priority".to_owned(),
            place: "consolidate".to_owned(),
            seed: 0,
            port: 0,
            http: true,
            jobs: Jobs::default(),
            gpus: Gpus::default(),
            sharing: Sharing::default(),
            users: Users::default(),
            telemetry: Telemetry::default(),
        }
    }
}

/// What happens to a job that loses its GPU or its machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum OnLoss {
    /// It waits again, from the beginning or its own checkpoint.
    Requeue,
    /// It has failed (GPU) or is lost (machine), unless it has retries left.
    Fail,
}

/// How jobs are run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Jobs {
    /// Seconds between asking a job to stop and killing it.
    pub grace_seconds: f64,
    /// How long a job is believed to run that says nothing of it: reservations reckon with it.
    pub estimate_seconds: f64,
    /// Seconds before a failed job is tried again; doubled each time.
    pub retry_delay_seconds: f64,
    /// The most a job's log may hold before it is turned over.
    pub log_mib: u64,
    /// How many turned-over logs are kept.
    pub log_files: u32,
    /// What happens when the GPU under a job is lost.
    pub on_gpu_loss: OnLoss,
    /// What happens to jobs that ran when the machine was restarted.
    pub on_reboot: OnLoss,
    /// The most jobs that may wait in all.
    pub waiting_max: usize,
    /// Jobs without GPUs that may run at once; 0 means one a processor.
    pub cpu_slots: u32,
    /// Whether each job gets a control group of its own where that is permitted.
    pub cgroups: bool,
}

impl Default for Jobs {
    fn default() -> Self {
        Self {
            grace_seconds: 10.0,
            estimate_seconds: 3600.0,
            retry_delay_seconds: 5.0,
            log_mib: 256,
            log_files: 2,
            on_gpu_loss: OnLoss::Requeue,
            on_reboot: OnLoss::Fail,
            waiting_max: 1_000_000,
            cpu_slots: 0,
            cgroups: true,
        }
    }
}

/// When a GPU is free.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Gpus {
    /// The only GPUs used, by index or UUID; empty means all.
    pub only: Vec<String>,
    /// Processes that never count as strangers, by name.
    pub ignore_processes: Vec<String>,
    /// Users whose processes never count as strangers.
    pub ignore_users: Vec<String>,
    /// A stranger's process with at most this much memory does not count.
    pub stranger_memory_mib: u64,
    /// Memory in use that belongs to no process counts as a stranger's above this.
    pub unowned_memory_mib: u64,
    /// A GPU without any known process counts as a stranger's if it is busier than this; 100 turns the rule off.
    pub busy_percent: u32,
    /// Whether jobs that share may run beside a stranger where the memory fits.
    pub share_with_strangers: bool,
    /// The most jobs on one GPU, of those that say how much memory they need.
    pub jobs_per_gpu: u16,
    /// Seconds between two looks at the GPUs.
    pub look_seconds: f64,
}

impl Default for Gpus {
    fn default() -> Self {
        let desktop = ["Xorg", "Xwayland", "gnome-shell", "kwin_wayland", "nvidia-persistenced", "nvidia-cuda-mps-server"];
        Self {
            only: Vec::new(),
            ignore_processes: desktop.map(str::to_owned).to_vec(),
            ignore_users: Vec::new(),
            stranger_memory_mib: 0,
            unowned_memory_mib: 512,
            busy_percent: 100,
            share_with_strangers: true,
            jobs_per_gpu: 8,
            look_seconds: 0.5,
        }
    }
}

/// What happens to a job that uses more of a GPU's memory than it asked for, while others are on that GPU.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum OnOveruse {
    /// It is stopped, and started again with more.
    Retry,
    /// It is marked and runs on.
    Mark,
}

/// Several jobs on one GPU.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Sharing {
    /// Memory that is kept free on every GPU whose jobs share it.
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
    /// How much more it gets each time.
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

/// What one user may have.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Quota {
    /// GPUs at once.
    pub gpus: Option<u32>,
    /// Jobs that wait or run.
    pub jobs: Option<usize>,
}

/// Who may do what.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Users {
    /// Users who may touch everybody's jobs, beside root and the daemon's own.
    pub admins: Vec<String>,
    /// What every user may have at most.
    pub default: Quota,
    /// What some users may have instead, by name.
    pub quota: BTreeMap<String, Quota>,
}

impl Users {
    /// What a user may have.
    pub fn quota_of(&self, user: &str) -> &Quota {
        self.quota.get(user).unwrap_or(&self.default)
    }
}

/// What is recorded of GPUs and jobs.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Telemetry {
    /// Seconds between two samples.
    pub interval_seconds: f64,
    /// Samples older than this are thinned to one a minute.
    pub fine_hours: f64,
    /// Samples older than this are dropped.
    pub keep_days: f64,
}

impl Default for Telemetry {
    fn default() -> Self {
        Self { interval_seconds: 5.0, fine_hours: 24.0, keep_days: 90.0 }
    }
}

impl Config {
    /// Reads a file.
    pub fn read(path: &Path) -> Result<Self, ConfigError> {
        let error = |problem: String| ConfigError::File { path: path.display().to_string(), problem };
        let text = std::fs::read_to_string(path).map_err(|problem| error(problem.to_string()))?;
        let mut config: Self = toml::from_str(&text).map_err(|problem| error(problem.to_string().trim_end().to_owned()))?;
        if let (Some(table), Some(folder)) = (&mut config.sharing.throughputs, path.parent()) {
            *table = folder.join(&table);
        }
        config.check().map_err(|problem| error(problem.to_string()))?;
        Ok(config)
    }

    /// Says what cannot be meant.
    pub fn check(&self) -> Result<(), ConfigError> {
        let wrong = |field: &str, problem: String| Err(ConfigError::Value { field: field.to_owned(), problem });
        if let Err(error) = rota_policy::build(&self.policy) {
            return wrong("policy", error.to_string());
        }
        if let Err(error) = self.place.parse::<Score>() {
            return wrong("place", error.to_string());
        }
        let positive = [
            ("jobs.estimate_seconds", self.jobs.estimate_seconds),
            ("gpus.look_seconds", self.gpus.look_seconds),
            ("sharing.profile_seconds", self.sharing.profile_seconds),
            ("telemetry.interval_seconds", self.telemetry.interval_seconds),
            ("telemetry.fine_hours", self.telemetry.fine_hours),
            ("telemetry.keep_days", self.telemetry.keep_days),
        ];
        let not_negative =
            [("jobs.grace_seconds", self.jobs.grace_seconds), ("jobs.retry_delay_seconds", self.jobs.retry_delay_seconds)];
        for (field, value) in positive {
            if !value.is_finite() || value <= 0.0 || value > 1e9 {
                return wrong(field, format!("{value} is not a length of time; write a number above 0"));
            }
        }
        for (field, value) in not_negative {
            if !value.is_finite() || !(0.0..=1e9).contains(&value) {
                return wrong(field, format!("{value} is not a length of time; write 0 or more"));
            }
        }
        if self.gpus.jobs_per_gpu == 0 || self.gpus.jobs_per_gpu > 1000 {
            return wrong("gpus.jobs_per_gpu", format!("{} is not between 1 and 1000", self.gpus.jobs_per_gpu));
        }
        let parts = [
            ("sharing.quantile", self.sharing.quantile, 0.0, 1.0),
            ("sharing.margin", self.sharing.margin, 0.0, 10.0),
            ("sharing.oom_growth", self.sharing.oom_growth, 1.0, 100.0),
        ];
        for (field, value, least, most) in parts {
            if !(least..=most).contains(&value) {
                return wrong(field, format!("{value} is not between {least} and {most}"));
            }
        }
        if self.gpus.busy_percent > 100 {
            return wrong("gpus.busy_percent", format!("{} is above 100", self.gpus.busy_percent));
        }
        if self.jobs.log_mib == 0 {
            return wrong("jobs.log_mib", "a log needs room: write 1 or more".to_owned());
        }
        Ok(())
    }

    /// Where jobs are put.
    pub fn score(&self) -> Score {
        self.place.parse().unwrap_or(Score::Consolidate)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_printed_settings_are_the_defaults() {
        assert_eq!(toml::from_str::<Config>(SCHEMA).unwrap(), Config::default());
    }

    #[test]
    fn defaults_are_sound_and_read_back() {
        let config = Config::default();
        config.check().unwrap();
        let text = toml::to_string(&config).unwrap();
        assert_eq!(toml::from_str::<Config>(&text).unwrap(), config);
    }

    #[test]
    fn mistakes_are_named() {
        for (text, part) in [
            ("polcy = 'fcfs'", "unknown field `polcy`"),
            ("policy = 'nonsense'", "nonsense"),
            ("[jobs]\ngrace_seconds = -1.0", "jobs.grace_seconds"),
            ("[gpus]\njobs_per_gpu = 0", "gpus.jobs_per_gpu"),
            ("place = 'nowhere'", "consolidate"),
            ("[sharing]\nquantile = 2.0", "sharing.quantile"),
            ("[sharing]\noom_growth = 0.5", "sharing.oom_growth"),
        ] {
            let message = toml::from_str::<Config>(text)
                .map_err(|error| error.to_string())
                .and_then(|config| config.check().map_err(|error| error.to_string()));
            assert!(message.clone().unwrap_err().contains(part), "{text}: {message:?}");
        }
    }
}
