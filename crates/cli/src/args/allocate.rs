//! What `rota alloc` takes.

use clap::{Args, ValueEnum};
use std::path::PathBuf;

/// What solves an allocation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum SolverWord {
    /// Prices on GPU types: quick, few types per job
    Price,
    /// Interior point, one row per job, as Gavel does
    Interior,
}

/// `rota alloc`.
#[derive(Args)]
#[command(after_help = "\
Examples:
  rota alloc --random 2048 --cluster v100:128,p100:128,k80:128 --policy max-min-perf
  rota alloc --jobs jobs.csv --cluster a100:8,t4:16 --policy ftf-perf --json
  rota alloc --random 16384 --distinct --cluster 1000:1600:2300 --policy max-min-perf --solver interior")]
pub struct AllocArgs {
    /// The jobs: a trace of any known format, all of them taken as here now
    #[arg(long, value_name = "FILE", required_unless_present = "random", conflicts_with = "random")]
    pub jobs: Option<PathBuf>,
    /// Draw this many jobs instead: types of the throughput table, gangs of 1, 2, 4 and 8
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=10_000_000))]
    pub random: Option<u32>,
    /// With --random: every job has speeds of its own
    #[arg(long, requires = "random")]
    pub distinct: bool,
    /// The cluster: `v100:8,p100:16`, Gavel's `8:16:24`, or a TOML file with nodes
    #[arg(long, value_name = "SPEC")]
    pub cluster: String,
    /// A policy that gives time shares, such as `max-min-perf` (Gavel's names work too)
    #[arg(long, value_name = "P")]
    pub policy: String,
    /// Seed of the draws
    #[arg(long, value_name = "N", default_value_t = 0)]
    pub seed: u64,
    /// What solves it
    #[arg(long, value_enum, default_value = "price")]
    pub solver: SolverWord,
    /// Steps per second by job type, gang size and GPU type (CSV, TOML or Gavel's JSON); the built-in table if not given
    #[arg(long, value_name = "FILE")]
    pub throughputs: Option<PathBuf>,
    /// Print as JSON
    #[arg(long)]
    pub json: bool,
}
