//! `rota learn`.

use super::numbers::{seconds, window};
use crate::live::args::StateArgs;
use clap::{Args, Subcommand, ValueEnum};
use std::path::PathBuf;

/// `rota learn`.
#[derive(Args)]
#[command(after_help = "\
Examples:
  rota learn train --env classroom --algo es --objective wait --steps 400000 --seed 1 -o wait.safetensors
  rota learn eval --env classroom --model wait.safetensors --against sjf:backfill=greedy --against priority --seeds 1000:1199
  rota learn train --env swf-compat:lublin-2.swf --resort --seed 1 -o batch.safetensors
  rota sim --trace jobs.swf --cluster gpu:256 --policy learned:model=batch.safetensors,guard=sjf
  rota learn shadow --model batch.safetensors --against fcfs")]
pub struct LearnArgs {
    #[command(subcommand)]
    pub verb: LearnVerb,
}

/// What to do.
#[derive(Subcommand)]
pub enum LearnVerb {
    /// Train a model
    Train(TrainArgs),
    /// Let models and rules play the same episodes, and compare them in pairs
    Eval(EvalArgs),
    /// Measure how fast an environment and a network are
    Bench(BenchArgs),
    /// Simulate a model on this site's own history, beside the policy in force
    Shadow(ShadowArgs),
}

/// Which environment is played, and with what.
#[derive(Args, Clone)]
pub struct EnvArgs {
    /// `classroom`, `classroom-compat`, `swf-compat:FILE` or `trace:FILE`
    #[arg(long, value_name = "ENV")]
    pub env: String,
    /// The cluster [default: gpu:4 for the classroom, what the head of the file says or 256 processors for swf-compat; `trace` needs one]
    #[arg(long, value_name = "SPEC")]
    pub cluster: Option<String>,
    /// GPUs on each node of a cluster given as TYPE:COUNT
    #[arg(long, value_name = "N", default_value_t = 8, value_parser = clap::value_parser!(u32).range(1..))]
    pub gpus_per_node: u32,
    /// With swf-compat: other jobs are backfilled while the chosen one waits
    #[arg(long, conflicts_with = "resort")]
    pub backfill: bool,
    /// With swf-compat: the queue is sorted again at every event, instead of keeping to the chosen job
    #[arg(long)]
    pub resort: bool,
    /// With trace: only these jobs (first and last id)
    #[arg(long, value_name = "FIRST:LAST", value_parser = window)]
    pub window: Option<(u32, u32)>,
    /// With trace: jobs in one episode [default: all]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    pub stretch: Option<u32>,
    /// With classroom and trace: what a job loses whenever it is started again
    #[arg(long, value_name = "SECONDS", default_value_t = 0.0, value_parser = seconds)]
    pub restart_cost: f64,
    /// With classroom and trace: which free GPUs a job gets
    #[arg(long, value_name = "SCORE", default_value = "consolidate", value_parser = ["consolidate", "spread", "best-fit", "worst-fit", "least-busy", "random"])]
    pub place: String,
}

/// A way to train.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum AlgorithmWord {
    /// Proximal policy optimisation, with masks
    Ppo,
    /// An evolution strategy on common episodes
    Es,
    /// Plain policy gradients, for teaching
    Reinforce,
    /// Q-learning with a linear expectation, for teaching
    Q,
}

/// `rota learn train`.
#[derive(Args)]
#[expect(clippy::struct_excessive_bools, reason = "each is a flag of the command line")]
pub struct TrainArgs {
    #[command(flatten)]
    pub env: EnvArgs,
    /// The algorithm; `es` plays whole episodes, the others learn from single steps
    #[arg(long, value_enum, default_value = "es")]
    pub algo: AlgorithmWord,
    /// What to make small (or large: reward) [default: reward for classroom-compat, bsld for swf-compat, wait otherwise]
    #[arg(long, value_name = "OBJECTIVE", value_parser = rota_learn::task::Objective::WORDS)]
    pub objective: Option<String>,
    /// How much a second of the makespan counts beside the objective
    #[arg(long, value_name = "W", default_value_t = 0.0, value_parser = seconds)]
    pub makespan_weight: f64,
    /// With --objective energy: how much longer the mean completion time may become under power limits, as a part of it
    #[arg(long, value_name = "PART", default_value_t = 0.1, value_parser = seconds)]
    pub jct_slack: f64,
    /// Steps of the environment to learn from (jobs, where the simulator plays) [default: 50,000 for classroom-compat, 20 million for
    /// swf-compat (60 with --resort), 4 million otherwise]
    #[arg(long, value_name = "N")]
    pub steps: Option<u64>,
    /// Seed of everything random
    #[arg(long, value_name = "N")]
    pub seed: u64,
    /// Sizes of the hidden layers; `none` for a linear score [default: none for swf-compat and trace with es, 16 otherwise]
    #[arg(long, value_name = "N,…")]
    pub hidden: Option<String>,
    /// The features that a score may use: `all`, `still` (those that do not change while a job waits), or names
    /// [default: still for trace, all otherwise]
    #[arg(long, value_name = "NAME,…")]
    pub features: Option<String>,
    /// With es: known rules that a search is begun from, the best first
    #[arg(long, value_name = "N", default_value_t = 3, value_parser = clap::value_parser!(u64).range(1..=20))]
    pub restarts: u64,
    /// With es: episodes that each candidate plays in a generation
    #[arg(long, value_name = "N", default_value_t = 8, value_parser = clap::value_parser!(u64).range(1..))]
    pub episodes: u64,
    /// Episodes that the best checkpoint is chosen by [default: 256 for swf-compat without --resort, 32 otherwise]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    pub validation: Option<u64>,
    /// With classroom, trace and es: a better job may take GPUs from a running one
    #[arg(long)]
    pub preempt: bool,
    /// With classroom, trace and es: the best job that does not fit holds a reservation, which others may not delay
    #[arg(long, conflicts_with = "preempt")]
    pub reserve: bool,
    /// Do not show the model how long jobs are estimated to run
    #[arg(long)]
    pub no_estimates: bool,
    /// Begin by imitating a rule of the environment, or a policy where the simulator plays
    #[arg(long, value_name = "P", conflicts_with = "resume")]
    pub imitate: Option<String>,
    /// Go on from this model; it is kept unless something better is found
    #[arg(long, value_name = "MODEL")]
    pub resume: Option<PathBuf>,
    /// Where to write the model; its training curve is written beside it, as SVG
    #[arg(short, long, value_name = "MODEL")]
    pub output: PathBuf,
    /// Print the training curve as JSON
    #[arg(long)]
    pub json: bool,
}

/// `rota learn eval`.
#[derive(Args)]
pub struct EvalArgs {
    #[command(flatten)]
    pub env: EnvArgs,
    /// A model to judge; several may be given
    #[arg(long, value_name = "MODEL")]
    pub model: Vec<PathBuf>,
    /// A rule of the environment, or a policy where the simulator plays; several may be given
    #[arg(long, value_name = "P", num_args = 1..)]
    pub against: Vec<String>,
    /// How many episodes, from the first [default: 10 for swf-compat, 1 for a whole trace, 200 otherwise]
    #[arg(long, value_name = "N", conflicts_with = "seeds", value_parser = clap::value_parser!(u64).range(1..=1_000_000))]
    pub episodes: Option<u64>,
    /// The episodes with these seeds (first and last)
    #[arg(long, value_name = "FIRST:LAST", value_parser = window)]
    pub seeds: Option<(u32, u32)>,
    /// A policy with values to choose from, such as `las:first=60/600/3600`: the best on training episodes plays; several may be given
    #[arg(long, value_name = "P")]
    pub tune: Vec<String>,
    /// With trace: the jobs that policies are tuned on (first and last id) [default: those of --window]
    #[arg(long, value_name = "FIRST:LAST", value_parser = window, requires = "tune")]
    pub tune_window: Option<(u32, u32)>,
    /// Draw the means with their intervals into this SVG file
    #[arg(long, value_name = "FILE")]
    pub plot: Option<PathBuf>,
    /// Print as JSON
    #[arg(long)]
    pub json: bool,
}

/// `rota learn bench`.
#[derive(Args)]
pub struct BenchArgs {
    #[command(flatten)]
    pub env: EnvArgs,
    /// Episodes to play [default: as many as two CPU seconds are enough for]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..=1_000_000))]
    pub episodes: Option<u64>,
    /// With classroom and trace: waiting jobs that are seen
    #[arg(long, value_name = "N", default_value_t = 128, value_parser = clap::value_parser!(u64).range(1..=256))]
    pub jobs_seen: u64,
    /// Print as JSON
    #[arg(long)]
    pub json: bool,
}

/// `rota learn shadow`.
#[derive(Args)]
pub struct ShadowArgs {
    #[command(flatten)]
    pub state: StateArgs,
    /// The model
    #[arg(long, value_name = "MODEL")]
    pub model: PathBuf,
    /// Policies to compare with, beside the one in force
    #[arg(long, value_name = "P", num_args = 1..)]
    pub against: Vec<String>,
    /// Only jobs submitted since then (RFC 3339)
    #[arg(long, value_name = "TIME")]
    pub since: Option<String>,
    /// Print as JSON
    #[arg(long)]
    pub json: bool,
}
