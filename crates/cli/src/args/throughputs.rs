//! What `rota throughputs` takes.

use super::numbers::fraction;
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
    /// Write a table in one of Rota's formats
    #[command(after_help = "Example:\n  rota throughputs convert simulation_throughputs.json -o speeds.csv")]
    Convert(ConvertThroughputsArgs),
    /// Estimate how fast new job types are beside others, from a few measured pairs
    #[command(after_help = "\
Examples:
  rota throughputs estimate --table speeds.csv --observed new.csv -o filled.csv    fill in the pairs of new job types
  rota throughputs estimate --table speeds.csv --holdout 0.8                       how far such estimates can be trusted

The table must know all pairs of its job types; the observed one has the speeds alone of the new types and a few of their pairs.
Errors are absolute, in parts of the speed alone: 0.05 is a twentieth of it.")]
    Estimate(EstimateThroughputsArgs),
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

/// `rota throughputs convert`.
#[derive(Args)]
pub struct ConvertThroughputsArgs {
    /// The table (CSV, TOML or Gavel's JSON)
    pub file: PathBuf,
    /// Where to write it; its ending (.csv or .toml) tells the format
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
    /// Where to write the filled table; its ending (.csv or .toml) tells the format
    #[arg(short, long, value_name = "FILE", requires = "observed")]
    pub output: Option<PathBuf>,
    /// Print what was found as JSON
    #[arg(long)]
    pub json: bool,
}
