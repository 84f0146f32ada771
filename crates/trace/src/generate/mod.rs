//! Workloads from a model and a seed: the same seed gives the same jobs on every machine.
//!
//! Each concern (arrivals, durations, …) draws from its own stream, so changing one leaves the others as they were.
//! Models whose names start with `gavel-` repeat Gavel's workloads draw for draw, from Python's random numbers.

mod classroom;
mod gavel;
mod gavel_table;
mod poisson;

pub use classroom::{Classroom, ClassroomTask, Range, TaskType, classroom};
pub use gavel::{GavelContinuous, GavelJob, GavelStatic, GavelTrace, gavel_continuous, gavel_static, gavel_trace};
pub use gavel_table::REFERENCE_GPU_TYPE;
pub use poisson::{DurationModel, GangWeights, Poisson, poisson};

use crate::error::{Fault, Problem, TraceError};
use rota_core::{ThroughputTable, Workload};
use serde::Deserialize;
use std::path::Path;

/// The most jobs one generator makes.
pub const JOBS_MAX: u32 = 20_000_000;

/// A generator as a `[generate]` table gives it.
#[derive(Clone, Debug, Deserialize)]
#[serde(tag = "model", rename_all = "kebab-case")]
pub enum Generator {
    /// The three task types of the teaching environment.
    Classroom(Seeded<Classroom>),
    /// Jobs arrive as a Poisson process.
    Poisson(Seeded<Poisson>),
    /// Gavel's jobs that keep arriving.
    GavelContinuous(Seeded<GavelContinuous>),
    /// Gavel's jobs that are all there at the start.
    GavelStatic(Seeded<GavelStatic>),
    /// What Gavel's script for traces writes.
    GavelTrace(Seeded<GavelTrace>),
}

/// A model's settings with the seed.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Seeded<Settings> {
    /// The seed of all streams.
    pub seed: u64,
    /// The model's settings.
    pub settings: Settings,
}

impl<'de, Settings: Deserialize<'de>> Deserialize<'de> for Seeded<Settings> {
    /// Takes `seed` out and leaves the rest to the settings, which refuse what they do not know.
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let mut table = toml::Table::deserialize(deserializer)?;
        let seed = match table.remove("seed") {
            None => 0,
            Some(value) => value
                .as_integer()
                .and_then(|seed| u64::try_from(seed).ok())
                .ok_or_else(|| serde::de::Error::custom("seed: give a whole number from 0"))?,
        };
        let settings =
            Settings::deserialize(toml::Value::Table(table)).map_err(|error| serde::de::Error::custom(error.message()))?;
        Ok(Self { seed, settings })
    }
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct GeneratorFile {
    generate: Generator,
}

/// Reads the `[generate]` table of a TOML file, to be changed before it is run.
pub fn read(path: &Path) -> Result<Generator, TraceError> {
    let source_name = path.display().to_string();
    let text = std::fs::read_to_string(path).map_err(|error| TraceError::whole_file(&source_name, Problem::from_read(error)))?;
    // The trace reader names line and field of whatever is wrong; here only a file it accepts is left to be read.
    crate::parse(
        &source_name,
        text.as_bytes(),
        &crate::ReadOptions { format: Some(crate::Format::RotaToml), ..Default::default() },
    )?;
    let file = toml::from_str::<GeneratorFile>(&text);
    file.map(|file| file.generate).map_err(|_| TraceError::whole_file(&source_name, Problem::NoGenerator))
}

impl Generator {
    /// Refuses settings that make no sense.
    pub(crate) fn check(&self, jobs_max: u32) -> Result<(), Fault> {
        match self {
            Self::Classroom(seeded) => seeded.settings.check(jobs_max),
            Self::Poisson(seeded) => seeded.settings.check(jobs_max),
            Self::GavelContinuous(seeded) => seeded.settings.check(jobs_max),
            Self::GavelStatic(seeded) => seeded.settings.check(jobs_max),
            Self::GavelTrace(seeded) => seeded.settings.check(jobs_max),
        }
    }

    /// Refuses settings that make no sense, naming the one: for settings that come from elsewhere than a file.
    pub fn validate(&self) -> Result<(), TraceError> {
        let located =
            |fault: Fault| TraceError { path: "generate".to_owned(), line: 0, field: fault.field, problem: fault.problem };
        self.check(JOBS_MAX).map_err(located)
    }

    /// A model by its name, with its default settings and seed 0.
    pub fn named(model: &str) -> Option<Self> {
        match model {
            "classroom" => Some(Self::Classroom(Seeded::default())),
            "poisson" => Some(Self::Poisson(Seeded::default())),
            "gavel-continuous" => Some(Self::GavelContinuous(Seeded::default())),
            "gavel-static" => Some(Self::GavelStatic(Seeded::default())),
            "gavel-trace" => Some(Self::GavelTrace(Seeded::default())),
            _ => None,
        }
    }

    /// Makes the workload; models that give jobs in steps take the speeds from this table, and refuse one that lacks
    /// what they draw.
    pub fn run_with(&self, table: &ThroughputTable) -> Result<Workload, TraceError> {
        match self {
            Self::Classroom(seeded) => Ok(classroom(&seeded.settings, seeded.seed)),
            Self::Poisson(seeded) => Ok(poisson(&seeded.settings, seeded.seed)),
            Self::GavelContinuous(seeded) => gavel_continuous(&seeded.settings, seeded.seed, table),
            Self::GavelStatic(seeded) => gavel_static(&seeded.settings, seeded.seed, table),
            Self::GavelTrace(seeded) => gavel_trace(&seeded.settings, seeded.seed, table),
        }
    }
}

/// The models there are, by name.
pub const MODELS: [&str; 5] = ["classroom", "poisson", "gavel-continuous", "gavel-static", "gavel-trace"];

fn check_jobs(jobs: u32, jobs_max: u32, field: &'static str) -> Result<(), Fault> {
    if jobs == 0 || jobs > JOBS_MAX {
        return Err(Problem::out_of_range(&jobs.to_string(), "a number of jobs from 1 to 20000000").within(field));
    }
    if jobs > jobs_max { Err(Problem::TooManyJobs { limit: jobs_max }.within(field)) } else { Ok(()) }
}

fn check_range(value: f64, low: f64, high: f64, allowed: &'static str, field: &'static str) -> Result<(), Fault> {
    if (low..=high).contains(&value) { Ok(()) } else { Err(Problem::out_of_range(&value.to_string(), allowed).within(field)) }
}
