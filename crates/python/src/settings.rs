//! What Python asks for, as JSON, and the environments that it becomes.

use rota_core::{Cluster, Span};
use rota_learn::environment::Environment;
use rota_learn::environment::batch::{Batch, BatchTrace, Choosing, Sequences};
use rota_learn::environment::classroom_compat::ClassroomCompat;
use rota_learn::environment::queue::{self, Cost, JOBS_SEEN, Play};
use rota_learn::environment::vector::{AtEnd, Vector};
use rota_learn::simulated::{Episodes, Scenario};
use rota_sim::{Restart, SimOptions};
use rota_trace::ReadOptions;
use serde::Deserialize;
use std::path::Path;
use std::sync::Arc;

/// The most environments side by side.
const ENVIRONMENTS_MAX: usize = 65_536;
/// The most numbers in the array of observations.
const NUMBERS_MAX: usize = 1 << 28;
/// Jobs in an episode on a trace, unless it is said otherwise.
const STRETCH: usize = 256;
/// Jobs that `RLScheduler`'s protocol shows.
const BATCH_ROWS: usize = 128;

/// What can be set.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Settings {
    env: String,
    num_envs: usize,
    seed: u64,
    auto_reset: bool,
    #[serde(default)]
    cluster: Option<String>,
    #[serde(default)]
    gpus_per_node: Option<u32>,
    #[serde(default)]
    place: Option<String>,
    #[serde(default)]
    objective: Option<String>,
    #[serde(default)]
    jobs_seen: Option<usize>,
    #[serde(default)]
    stretch: Option<usize>,
    #[serde(default)]
    estimates: Option<bool>,
    #[serde(default)]
    backfill: Option<bool>,
    #[serde(default)]
    resort: Option<bool>,
    #[serde(default)]
    judging: bool,
}

/// Settings that make no environment.
#[derive(Debug, thiserror::Error)]
pub enum SettingsError {
    /// Not the JSON that is expected, or a setting that is not known.
    #[error("settings: {0}")]
    Json(#[from] serde_json::Error),
    /// A setting with a value that cannot be.
    #[error("{0}")]
    Value(String),
}

fn wrong(error: impl std::fmt::Display) -> SettingsError {
    SettingsError::Value(error.to_string())
}

/// Reads settings and makes their environments.
pub fn vector(json: &[u8]) -> Result<Vector, SettingsError> {
    let settings = serde_json::from_slice::<Settings>(json)?;
    if !(1..=ENVIRONMENTS_MAX).contains(&settings.num_envs) {
        return Err(wrong(format!("num_envs: {} is not from 1 to {ENVIRONMENTS_MAX}", settings.num_envs)));
    }
    let (make, rows) = settings.maker()?;
    let first = make()?;
    let numbers = settings.num_envs.saturating_mul(rows).saturating_mul(first.features().len());
    if numbers > NUMBERS_MAX {
        return Err(wrong(format!(
            "{} environments of {rows} rows have {numbers} numbers; at most {NUMBERS_MAX}",
            settings.num_envs
        )));
    }
    let mut environments = vec![first];
    for _ in 1..settings.num_envs {
        environments.push(make()?);
    }
    let at_end = if settings.auto_reset { AtEnd::BeginNext } else { AtEnd::Stand };
    Ok(Vector::new(environments, rows, at_end, settings.seed))
}

type Maker = Box<dyn Fn() -> Result<Box<dyn Environment>, SettingsError>>;

impl Settings {
    /// How one environment is made, and its rows.
    fn maker(&self) -> Result<(Maker, usize), SettingsError> {
        let (kind, file) =
            self.env.split_once(':').map_or((self.env.as_str(), None), |(kind, file)| (kind, Some(Path::new(file))));
        self.refuse_what_does_not_belong(kind)?;
        match (kind, file) {
            ("classroom-compat", None) => {
                let gpus = self.cluster("gpu:4")?.gpus.len();
                Ok((Box::new(move || Ok(Box::new(ClassroomCompat::new(gpus)))), gpus))
            }
            ("classroom", None) => self.queue(Scenario::classroom(self.cluster("gpu:4")?, self.options()?), Cost::Wait),
            ("trace", Some(file)) => self.trace(file),
            ("swf-compat", Some(file)) => self.batch(file),
            ("trace" | "swf-compat", None) => Err(wrong(format!("env `{kind}` needs a file: `{kind}:FILE`"))),
            ("classroom" | "classroom-compat", Some(_)) => Err(wrong(format!("env `{kind}` takes no file"))),
            _ => Err(wrong(format!("unknown env `{kind}`; known are classroom, classroom-compat, swf-compat:FILE, trace:FILE"))),
        }
    }

    fn refuse_what_does_not_belong(&self, kind: &str) -> Result<(), SettingsError> {
        let queue = ["classroom", "trace"];
        for (name, is_given, kinds) in [
            ("backfill", self.backfill.is_some(), &["swf-compat"][..]),
            ("resort", self.resort.is_some(), &["swf-compat"]),
            ("stretch", self.stretch.is_some(), &["trace"]),
            ("objective", self.objective.is_some(), &queue),
            ("jobs_seen", self.jobs_seen.is_some(), &queue),
            ("estimates", self.estimates.is_some(), &queue),
            ("place", self.place.is_some(), &queue),
        ] {
            if is_given && !kinds.contains(&kind) {
                return Err(wrong(format!("{name} goes with {}", kinds.join(" and "))));
            }
        }
        Ok(())
    }

    fn episodes(&self) -> Episodes {
        if self.judging { Episodes::Judging } else { Episodes::Training }
    }

    fn cluster(&self, usual: &str) -> Result<Cluster, SettingsError> {
        let spec = self.cluster.as_deref().unwrap_or(usual);
        let path = Path::new(spec);
        if path.exists() || path.extension().is_some_and(|ending| ending == "toml") {
            return rota_trace::read_cluster(path).map_err(wrong);
        }
        Cluster::from_spec(spec, self.gpus_per_node.unwrap_or(8)).map_err(|error| wrong(format!("cluster: {error}")))
    }

    fn options(&self) -> Result<SimOptions, SettingsError> {
        let score = self.place.as_deref().map(str::parse).transpose().map_err(|error| wrong(format!("place: {error}")))?;
        let usual = SimOptions::default();
        let restart = Restart { cost: Span::ZERO, ..Restart::default() };
        Ok(SimOptions { score: score.unwrap_or(usual.score), restart, ..usual })
    }

    fn queue(&self, scenario: Scenario, usual: Cost) -> Result<(Maker, usize), SettingsError> {
        let cost = self.objective.as_deref().map(str::parse).transpose().map_err(wrong)?.unwrap_or(usual);
        let jobs_seen = self.jobs_seen.unwrap_or(JOBS_SEEN);
        if !(1..=rota_learn::policy::ROWS_MAX).contains(&jobs_seen) {
            return Err(wrong(format!("jobs_seen: {jobs_seen} is not from 1 to {}", rota_learn::policy::ROWS_MAX)));
        }
        let (episodes, estimates) = (self.episodes(), self.estimates.unwrap_or(true));
        let make = move || -> Result<Box<dyn Environment>, SettingsError> {
            queue::environment(&scenario, episodes, Play { cost, jobs_seen, estimates, may_wait: true }).map_err(wrong)
        };
        Ok((Box::new(make), jobs_seen + 1))
    }

    fn trace(&self, file: &Path) -> Result<(Maker, usize), SettingsError> {
        if self.cluster.is_none() {
            return Err(wrong("env `trace` needs a cluster, such as cluster=\"a100:8\""));
        }
        let table = rota_trace::default_throughputs();
        let workload = rota_trace::read_with(file, &ReadOptions::default(), &table).map_err(wrong)?.workload;
        if workload.jobs.is_empty() {
            return Err(wrong(format!("{}: has no jobs", file.display())));
        }
        let stretch = self.stretch.unwrap_or(STRETCH);
        self.queue(Scenario::trace(workload, table, stretch, self.cluster("")?, self.options()?), Cost::Jct)
    }

    fn batch(&self, file: &Path) -> Result<(Maker, usize), SettingsError> {
        let loaded = rota_trace::read(file, &ReadOptions::default()).map_err(wrong)?;
        let processors = self.cluster("gpu:256")?.gpus.len() as u32;
        let trace = Arc::new(BatchTrace::new(&loaded, processors).map_err(wrong)?);
        let choosing = match (self.backfill.unwrap_or(false), self.resort.unwrap_or(false)) {
            (true, true) => return Err(wrong("backfill and resort exclude each other")),
            (true, false) => Choosing::CommitWithBackfill,
            (false, true) => Choosing::Resort,
            (false, false) => Choosing::Commit,
        };
        let sequences = if self.judging { Sequences::Published } else { Sequences::Drawn };
        Ok((Box::new(move || Ok(Box::new(Batch::new(Arc::clone(&trace), choosing, sequences)))), BATCH_ROWS))
    }
}
