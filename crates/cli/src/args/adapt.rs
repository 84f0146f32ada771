//! `rota adapt`.

use clap::{Args, Subcommand};
use std::path::PathBuf;

/// `rota adapt`.
#[derive(Args)]
#[command(after_help = "\
Examples:
  rota adapt learn --tables simulations.csv --table ConvNet2/late --compat --episodes 10000 --seed 1
  rota adapt learn --tables simulations.csv --table ConvNet2/early --exact --episodes 100 --seed 1
  rota adapt evaluate --tables simulations.csv --leave-one-out")]
pub struct AdaptArgs {
    #[command(subcommand)]
    pub verb: AdaptVerb,
}

/// What to do.
#[derive(Subcommand)]
pub enum AdaptVerb {
    /// Learn on a table which blocks to deepen
    Learn(AdaptLearnArgs),
    /// Compare ways of choosing by their regret, with each table left out in turn
    Evaluate(AdaptEvaluateArgs),
}

/// `rota adapt learn`.
#[derive(Args)]
#[command(after_help = "\
Examples:
  rota adapt learn --tables simulations.csv --table ConvNet2/early --compat --episodes 75000 --seed 1 -o early.safetensors
  rota adapt learn --tables simulations.csv --table ConvNet2/late --compat --episodes 10000 --seed 1 \\
    --from early.safetensors --temperature 10 -o early-late.safetensors
  rota adapt learn --tables simulations.csv --table ConvNet2/late --exact --episodes 100 --seed 1 --json")]
pub struct AdaptLearnArgs {
    /// A CSV file of recorded runs, as `rota adapt sweep` writes it
    #[arg(long, value_name = "FILE")]
    pub tables: PathBuf,
    /// The table: model and scenario, such as ConvNet2/early or ConvNet2-E
    #[arg(long, value_name = "NAME")]
    pub table: String,
    /// Learn exactly as the study does: its reward, step size and colliding layer vocabulary
    #[arg(long, conflicts_with = "exact")]
    pub compat: bool,
    /// Follow the exact expected gradient; --episodes then counts its updates
    #[arg(long)]
    pub exact: bool,
    /// Episodes to learn from
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..=100_000_000))]
    pub episodes: u64,
    /// Seed of everything random
    #[arg(long, value_name = "N")]
    pub seed: u64,
    /// Start from this policy (a transfer; several in turn are a curriculum)
    #[arg(long, value_name = "POLICY")]
    pub from: Option<PathBuf>,
    /// Explore with this temperature at first; it falls by a tenth with every episode, down to 1
    #[arg(long, value_name = "T", default_value_t = 1.0, value_parser = temperature, conflicts_with = "exact")]
    pub temperature: f64,
    /// Read the layers' vectors from this CSV file (id, layer, e0 … e15) instead of drawing them
    #[arg(long, value_name = "FILE")]
    pub vocabulary: Option<PathBuf>,
    /// Where to write the policy
    #[arg(short, long, value_name = "POLICY")]
    pub output: Option<PathBuf>,
    /// Write one row an episode (episode, objective, accuracy) to this CSV file
    #[arg(long, value_name = "FILE", conflicts_with = "exact")]
    pub log: Option<PathBuf>,
    /// Print as JSON
    #[arg(long)]
    pub json: bool,
}

fn temperature(text: &str) -> Result<f64, String> {
    let value = text.parse::<f64>().ok().filter(|value| value.is_finite() && *value >= 1.0);
    value.ok_or_else(|| "give a number of at least 1".to_owned())
}

/// `rota adapt evaluate`.
#[derive(Args)]
#[command(after_help = "\
Examples:
  rota adapt evaluate --tables simulations.csv --leave-one-out --json
  rota adapt evaluate --tables simulations.csv --leave-one-out --policy mine.safetensors")]
pub struct AdaptEvaluateArgs {
    /// A CSV file of recorded runs
    #[arg(long, value_name = "FILE")]
    pub tables: PathBuf,
    /// Judge on each table what was learned from all others
    #[arg(long, required = true)]
    pub leave_one_out: bool,
    /// Seeds of the default decision maker
    #[arg(long, value_name = "N", default_value_t = 5, value_parser = clap::value_parser!(u64).range(1..=1000))]
    pub seeds: u64,
    /// Judge this policy too; several may be given. Policies are judged on every table, also those that they learned on
    #[arg(long, value_name = "POLICY")]
    pub policy: Vec<PathBuf>,
    /// The layers' vectors that those policies learned with, where they were read from a file
    #[arg(long, value_name = "FILE", requires = "policy")]
    pub vocabulary: Option<PathBuf>,
    /// Print as JSON
    #[arg(long)]
    pub json: bool,
}
