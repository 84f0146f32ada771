//! `rota adapt`.

use super::numbers::{seconds, window};
use clap::{Args, Subcommand, ValueEnum};
use rota_learn::adapt::network::architecture::ModelKind;
use rota_learn::adapt::train::images::FASHION_MNIST;
use std::path::PathBuf;

/// `rota adapt`.
#[derive(Args)]
#[command(after_help = "\
Examples:
  rota adapt learn --tables simulations.csv --table ConvNet2/late --compat --episodes 10000 --seed 1
  rota adapt learn --tables simulations.csv --table ConvNet2/early --exact --episodes 100 --seed 1
  rota adapt evaluate --tables simulations.csv --leave-one-out
  rota adapt run --images 8000 --side 14 --budget 135 --up 45 --decide 011 --seed 1 --out run
  rota adapt sweep --images 10000 --side 14 --seeds 1:3 --out tables.csv")]
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
    /// Train a network under a time budget, and let it grow when GPUs come
    Run(AdaptRunArgs),
    /// Run every triple of actions from one trained beginning, and write a table
    Sweep(AdaptSweepArgs),
    /// Learn the study's policies, transfers and curricula, and draw its 25 plots
    Plot(AdaptPlotArgs),
    /// Measure a training step in CPU time of one thread
    Bench(AdaptBenchArgs),
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
  rota adapt evaluate --tables simulations.csv --leave-one-out --policy mine.safetensors
  rota adapt evaluate --tables simulations.csv --on own.csv")]
pub struct AdaptEvaluateArgs {
    /// A CSV file of recorded runs
    #[arg(long, value_name = "FILE")]
    pub tables: PathBuf,
    /// Judge on each table what was learned from all others
    #[arg(long, required_unless_present = "on", conflicts_with = "on")]
    pub leave_one_out: bool,
    /// Learn from --tables and judge on the tables of this file: how much better than a network that does not grow
    #[arg(long, value_name = "FILE", conflicts_with = "policy")]
    pub on: Option<PathBuf>,
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

/// How time passes in a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum CostWord {
    /// As on the study's GPU: a deepening costs 3 to 4 % of an epoch
    Recorded,
    /// By multiplications: a deepening is paid in full
    Arithmetic,
    /// By the clock on the wall
    Wall,
}

/// How time passes in a sweep: the runs share their beginnings, so that none has a clock on the wall of its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum SimulatedCostWord {
    /// As on the study's GPU: a deepening costs 3 to 4 % of an epoch
    Recorded,
    /// By multiplications: a deepening is paid in full
    Arithmetic,
}

/// A model and its images.
#[derive(Args)]
pub struct WorkArgs {
    /// `ConvNet`, `ConvNet2`, `ConvNet3`, `LargeConvNet`, `FeedForward1`, `FeedForward2`, `FeedForward3` or
    /// `BatchNormConvolution`
    #[arg(long, value_name = "MODEL", default_value = "ConvNet2", value_parser = str::parse::<ModelKind>)]
    pub model: ModelKind,
    /// A folder with IDX files (MNIST, Fashion-MNIST) or CIFAR-10's binary batches
    #[arg(long, value_name = "DIR", default_value = FASHION_MNIST)]
    pub data: PathBuf,
    /// Train on the first N images
    #[arg(long, value_name = "N")]
    pub images: Option<usize>,
    /// Score by the first N test images
    #[arg(long, value_name = "N")]
    pub test_images: Option<usize>,
    /// Resize images to N×N pixels
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=512))]
    pub side: Option<u16>,
    /// Images in a batch
    #[arg(long, value_name = "N", default_value_t = 64, value_parser = clap::value_parser!(u16).range(2..))]
    pub batch: u16,
    /// Repeat the study's faults: a `ReLU` on the scores, Adam rebuilt before every epoch, layers frozen after a loss of GPUs
    #[arg(long)]
    pub compat: bool,
}

/// `rota adapt run`.
#[derive(Args)]
#[command(after_help = "\
Examples:
  rota adapt run --images 8000 --side 14 --budget 135 --up 45 --decide 011 --seed 1 --out run
  rota adapt run --images 8000 --side 14 --budget 135 --up 45 --down 90 --decide default --tables simulations.csv --seed 1
  rota adapt run --images 8000 --side 14 --budget 60 --cost wall --seed 1 --json")]
pub struct AdaptRunArgs {
    #[command(flatten)]
    pub work: WorkArgs,
    /// The job's seconds
    #[arg(long, value_name = "SECONDS", value_parser = seconds)]
    pub budget: f64,
    /// When the job is given more GPUs, so that its network may grow; several may be given
    #[arg(long, value_name = "SECONDS", value_parser = seconds)]
    pub up: Vec<f64>,
    /// When GPUs are taken away again, so that its network becomes smaller; several may be given
    #[arg(long, value_name = "SECONDS", value_parser = seconds)]
    pub down: Vec<f64>,
    /// `nothing`, `random`, `default` (needs --tables), actions such as `011`, or a policy file
    #[arg(long, value_name = "HOW", default_value = "nothing")]
    pub decide: String,
    /// Recorded runs that the default decision maker learns from
    #[arg(long, value_name = "FILE")]
    pub tables: Option<PathBuf>,
    /// How time passes
    #[arg(long, value_enum, default_value = "recorded")]
    pub cost: CostWord,
    /// Seed of everything random
    #[arg(long, value_name = "N")]
    pub seed: u64,
    /// Write metrics.csv, best.safetensors and last.safetensors to this folder
    #[arg(long, value_name = "DIR")]
    pub out: Option<PathBuf>,
    /// Print as JSON
    #[arg(long)]
    pub json: bool,
}

/// `rota adapt sweep`.
#[derive(Args)]
#[command(after_help = "\
Examples:
  rota adapt sweep --images 10000 --side 14 --seeds 1:3 --out tables.csv
  rota adapt sweep --images 10000 --side 14 --seeds 1:3 --cost recorded --cost arithmetic --out tables.csv
  rota adapt sweep --images 10000 --side 14 --cost arithmetic --budget 600 --seeds 1:3 --out arithmetic.csv

A sweep that was ended goes on where it was when the same command is given again. By default a network trains four epochs, \
may then grow, and trains six more; with --cost arithmetic it has the time of 24 more epochs of the network that does not grow.
With both costs one training serves both tables, which are then named SCENARIO-recorded and SCENARIO-arithmetic.")]
pub struct AdaptSweepArgs {
    #[command(flatten)]
    pub work: WorkArgs,
    /// The scenario's name in the table
    #[arg(long, value_name = "NAME", default_value = "middle")]
    pub scenario: String,
    /// When the network may grow
    #[arg(long, value_name = "SECONDS", default_value_t = 44.9, value_parser = seconds)]
    pub opens: f64,
    /// The seconds of each run; several costs have one each, in their order [recorded 117.6, arithmetic 315]
    #[arg(long, value_name = "SECONDS", value_parser = seconds)]
    pub budget: Vec<f64>,
    /// How time passes; both may be given
    #[arg(long, value_enum, default_value = "recorded")]
    pub cost: Vec<SimulatedCostWord>,
    /// Seeds (first and last)
    #[arg(long, value_name = "FIRST:LAST", default_value = "1:3", value_parser = window)]
    pub seeds: (u32, u32),
    /// The table to write; runs that have ended are kept beside it until it is whole
    #[arg(long, value_name = "FILE")]
    pub out: PathBuf,
    /// Print as JSON
    #[arg(long)]
    pub json: bool,
}

/// `rota adapt bench`.
#[derive(Args)]
#[command(after_help = "\
Example:
  rota adapt bench --model ConvNet2 --side 28 --grow 011 --steps 20 --json")]
pub struct AdaptBenchArgs {
    /// The model
    #[arg(long, value_name = "MODEL", default_value = "ConvNet2", value_parser = str::parse::<ModelKind>)]
    pub model: ModelKind,
    /// Pixels of an image's side
    #[arg(long, value_name = "N", default_value_t = 28, value_parser = clap::value_parser!(u16).range(1..=512))]
    pub side: u16,
    /// Colours of an image
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u16).range(1..=16))]
    pub channels: u16,
    /// Deepen these blocks first, such as `011`
    #[arg(long, value_name = "ACTIONS", default_value = "")]
    pub grow: String,
    /// Training steps to measure
    #[arg(long, value_name = "N", default_value_t = 20, value_parser = clap::value_parser!(u32).range(1..=100_000))]
    pub steps: u32,
    /// Print as JSON
    #[arg(long)]
    pub json: bool,
}

/// `rota adapt plot`.
#[derive(Args)]
#[command(after_help = "\
Examples:
  rota adapt plot --tables simulations.csv --seed 1 --out plots
  rota adapt plot --tables simulations.csv --seed 1 --episodes-max 2000 --out quick")]
pub struct AdaptPlotArgs {
    /// A CSV file of recorded runs with the five scenarios of `ConvNet2` and `ConvNet3`
    #[arg(long, value_name = "FILE")]
    pub tables: PathBuf,
    /// Seed of everything random
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub seed: u64,
    /// Learn from at most N episodes where the study takes 10,000 to 75,000
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    pub episodes_max: Option<u64>,
    /// The folder to write SVG files to
    #[arg(long, value_name = "DIR")]
    pub out: PathBuf,
    /// Print the names of the files as JSON
    #[arg(long)]
    pub json: bool,
}
