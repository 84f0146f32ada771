//! What `rota throughputs` takes.

use super::numbers::{fraction, positive_seconds, seconds};
use crate::live::args::StateArgs;
use clap::{Args, Subcommand};
use std::path::PathBuf;

/// `rota throughputs`.
#[derive(Args)]
pub struct ThroughputsArgs {
    #[command(subcommand)]
    pub command: ThroughputsCommand,
}

/// What to do with throughput tables.
#[derive(Subcommand)]
pub enum ThroughputsCommand {
    /// Say what a table knows: job types, gangs, GPU types, pairs
    #[command(after_help = "Example:\n  rota throughputs show speeds.csv")]
    Show(ShowThroughputsArgs),
    /// Write a table in one of Rota's formats or in Gavel's
    #[command(after_help = "Example:\n  rota throughputs convert simulation_throughputs.json -o speeds.csv")]
    Convert(ConvertThroughputsArgs),
    /// Estimate how fast new job types are beside others, from a few measured pairs
    #[command(after_help = "\
Examples:
  rota throughputs estimate --table speeds.csv --observed new.csv -o filled.csv
  rota throughputs estimate --table speeds.csv --holdout 0.8     how far estimates can be trusted

The first example fills in the pairs of new job types. The table must know all pairs of its own job types; the observed one has the \
speeds alone of the new types and a few of their pairs.
Errors are absolute, in parts of the speed alone: 0.05 is a twentieth of it.")]
    Estimate(EstimateThroughputsArgs),
    /// Say how fast the jobs of the queue were, by the steps that they told while they ran
    #[command(after_help = "\
Example:
  rota throughputs live -o speeds.json

Jobs with a lease (`rota.Iterator`, Gavel's iterator) and a job type (`rota submit --job-type`) are measured while they run alone on their \
GPUs. A speed in brackets is believed, from other GPU types, and not written to the file.")]
    Live(LiveThroughputsArgs),
    /// Measure how fast workloads run here: alone, in pairs on one GPU, and in gangs
    #[command(after_help = "\
Examples:
  rota throughputs measure examples/workloads/gavel/workloads.toml -o speeds.json
  rota throughputs measure mine.toml -o speeds.json --only ResNet-18 --kinds alone,gangs --gangs 2,4 --seconds 60

The GPUs are claimed from the queue (`rota up`), so that no other job disturbs the measurement. Workloads must count their steps with \
`rota.Iterator`; each is run for the warm-up and the measured seconds, then ended. One that fails has speed 0, with the reason on stderr.
The file is written after every measurement; --resume goes on with a file that is not complete.

A file of workloads:
  [[workload]]
  job_type = \"ResNet-18 (batch size {batch_size})\"
  batch_sizes = [16, 32]
  directory = \"image_classification/cifar10\"     # where to run it, relative to this file
  command = [\"python3\", \"main.py\", \"--batch_size\", \"{batch_size}\"]
  gangs = true                                   # it can run on several GPUs, one process each")]
    Measure(MeasureThroughputsArgs),
}

/// What is measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum MeasuredKind {
    /// Each workload on one GPU of its own
    Alone,
    /// Every two workloads on one GPU
    Pairs,
    /// Workloads that can, on several GPUs
    Gangs,
}

/// `rota throughputs measure`.
#[derive(Args)]
pub struct MeasureThroughputsArgs {
    #[command(flatten)]
    pub state: StateArgs,
    /// The workloads (TOML)
    pub workloads: PathBuf,
    /// Where to write the table; its ending (.json as Gavel has it, .csv or .toml) tells the format
    #[arg(short, long, value_name = "FILE")]
    pub output: PathBuf,
    /// Only workloads whose job type contains one of these texts
    #[arg(long, value_name = "TEXT", value_delimiter = ',')]
    pub only: Vec<String>,
    /// Only these GPU types
    #[arg(long, value_name = "TYPE", value_delimiter = ',')]
    pub gpu_type: Vec<String>,
    /// What to measure
    #[arg(long, value_enum, value_delimiter = ',', default_values = ["alone", "pairs", "gangs"])]
    pub kinds: Vec<MeasuredKind>,
    /// Sizes of the gangs; those larger than the number of GPUs of a type are left out
    #[arg(long, value_name = "N", value_delimiter = ',', default_values = ["2", "4", "8"], value_parser = clap::value_parser!(u32).range(2..=1024))]
    pub gangs: Vec<u32>,
    /// How long each measurement lasts
    #[arg(long, value_name = "SECONDS", default_value = "150", value_parser = positive_seconds)]
    pub seconds: f64,
    /// How long workloads run before their steps are counted
    #[arg(long, value_name = "SECONDS", default_value = "10", value_parser = seconds)]
    pub warm_up: f64,
    /// How long a workload may take to its first step before it counts as failed
    #[arg(long, value_name = "SECONDS", default_value = "300", value_parser = positive_seconds)]
    pub start_timeout: f64,
    /// Go on with a file that is there, and measure only what it lacks
    #[arg(long)]
    pub resume: bool,
    /// Print the measurements as JSON
    #[arg(long)]
    pub json: bool,
}

/// `rota throughputs show`.
#[derive(Args)]
pub struct ShowThroughputsArgs {
    /// The table (CSV, TOML or Gavel's JSON); the built-in one if not given
    pub file: Option<PathBuf>,
    /// Print as JSON
    #[arg(long)]
    pub json: bool,
}

/// `rota throughputs live`.
#[derive(Args)]
pub struct LiveThroughputsArgs {
    #[command(flatten)]
    pub state: StateArgs,
    /// Where to write what was measured; the ending (.csv, .toml, or .json as Gavel has it) tells the format
    #[arg(short, long, value_name = "FILE")]
    pub output: Option<PathBuf>,
    /// Print as JSON
    #[arg(long)]
    pub json: bool,
}

/// `rota throughputs convert`.
#[derive(Args)]
pub struct ConvertThroughputsArgs {
    /// The table (CSV, TOML or Gavel's JSON)
    pub file: PathBuf,
    /// Where to write it; its ending (.csv, .toml, or .json as Gavel has it) tells the format
    #[arg(short, long, value_name = "FILE")]
    pub output: PathBuf,
}

/// `rota throughputs estimate`.
#[derive(Args)]
pub struct EstimateThroughputsArgs {
    /// A table that knows all pairs of its job types
    #[arg(long, value_name = "FILE")]
    pub table: PathBuf,
    /// Speeds alone and a few pairs of new job types; without it, each type of the table is treated as new in turn
    #[arg(long, value_name = "FILE")]
    pub observed: Option<PathBuf>,
    /// Seed of everything random
    #[arg(long, value_name = "N", default_value_t = 0)]
    pub seed: u64,
    /// Use only this many job types of the table as references, drawn by the seed
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    pub references: Option<u32>,
    /// Part of the measured pairs that is hidden to measure the error
    #[arg(long, value_name = "FRACTION", default_value_t = 0.5, value_parser = fraction)]
    pub holdout: f64,
    /// Where to write the filled table; its ending (.csv, .toml or .json) tells the format
    #[arg(short, long, value_name = "FILE", requires = "observed")]
    pub output: Option<PathBuf>,
    /// Print what was found as JSON
    #[arg(long)]
    pub json: bool,
}
