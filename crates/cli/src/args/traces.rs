//! What `rota trace` takes.

use super::ReadArgs;
use clap::{Args, Subcommand, ValueEnum};
use std::path::PathBuf;

/// `rota trace`.
#[derive(Args)]
pub struct TraceArgs {
    #[command(subcommand)]
    pub command: TraceCommand,
}

/// What to do with traces.
#[derive(Subcommand)]
pub enum TraceCommand {
    /// Say what was understood of a trace: jobs, GPUs, span, load, distributions
    #[command(after_help = "Example:\n  rota trace info philly.csv --cluster gpu:400")]
    Info(InfoArgs),
    /// Write a trace in one of Rota's formats
    #[command(after_help = "Examples:\n  rota trace convert sacct.txt -o jobs.csv\n  rota trace convert jobs.csv -o jobs.toml")]
    Convert(ConvertArgs),
    /// Generate a workload
    #[command(after_help = "\
Examples:
  rota trace gen --model classroom --seed 7 -o tasks.csv
  rota trace gen --model poisson --jobs 1000 --rate 12 --multi-gpu -o jobs.csv
  rota trace gen --model gavel-continuous --jobs 1500 --rate 2 --multi-gpu --seed 0 -o jobs.csv
  rota trace gen --config scenarios/poisson-small.toml --seed 3 -o jobs.csv")]
    Gen(GenArgs),
    /// Give the jobs of a trace to the live queue at their arrival times
    #[command(after_help = "\
A job of a Gavel trace runs its command as Gavel's dispatcher would; a job of another trace sleeps for its length.

Examples:
  rota trace run gavel.trace --run-dir workloads --data-dir /data
  rota trace run jobs.csv --speedup 60                  an hour of the trace in a minute")]
    Run(RunTraceArgs),
}

/// `rota trace run`.
#[derive(Args)]
pub struct RunTraceArgs {
    #[command(flatten)]
    pub state: crate::live::args::StateArgs,
    /// The trace
    pub file: PathBuf,
    /// How many times faster jobs arrive, and jobs without a command end
    #[arg(long, value_name = "X", default_value_t = 1.0, value_parser = super::numbers::positive_seconds)]
    pub speedup: f64,
    /// The folder that the working directories of a Gavel trace are in [default: this one]
    #[arg(long, value_name = "DIR")]
    pub run_dir: Option<PathBuf>,
    /// The folder with the data, which takes the place of `%s` in the commands of a Gavel trace
    #[arg(long, value_name = "DIR")]
    pub data_dir: Option<PathBuf>,
    /// Throughput table for jobs given in steps
    #[arg(long, value_name = "FILE")]
    pub throughputs: Option<PathBuf>,
    #[command(flatten)]
    pub read: ReadArgs,
    /// Print JSON
    #[arg(long)]
    pub json: bool,
}

/// `rota trace info`.
#[derive(Args)]
pub struct InfoArgs {
    /// The trace
    pub file: PathBuf,
    /// Give the load it would put on this cluster
    #[arg(long, value_name = "SPEC")]
    pub cluster: Option<String>,
    /// GPUs on each node of a cluster given as TYPE:COUNT
    #[arg(long, value_name = "N", default_value_t = 8, value_parser = clap::value_parser!(u32).range(1..))]
    pub gpus_per_node: u32,
    /// Throughput table for jobs given in steps
    #[arg(long, value_name = "FILE")]
    pub throughputs: Option<PathBuf>,
    #[command(flatten)]
    pub read: ReadArgs,
    /// Print as JSON
    #[arg(long)]
    pub json: bool,
}

/// A format Rota writes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum WrittenFormat {
    /// Rota's CSV
    Csv,
    /// Rota's TOML
    Toml,
    /// Gavel's ten columns (jobs given in steps)
    Gavel,
    /// The standard workload format
    Swf,
}

const WHOLE_STEPS: &str = "Cut parts of steps off in Gavel's format: Gavel's own reader takes whole steps only";

/// `rota trace convert`.
#[derive(Args)]
pub struct ConvertArgs {
    /// The trace
    pub file: PathBuf,
    /// Where to write it; its ending (.csv, .toml, .trace, .swf) tells the format
    #[arg(short, long, value_name = "FILE")]
    pub output: PathBuf,
    /// The format to write
    #[arg(long, value_enum)]
    pub to: Option<WrittenFormat>,
    #[arg(long, help = WHOLE_STEPS)]
    pub whole_steps: bool,
    #[command(flatten)]
    pub read: ReadArgs,
}

/// `rota trace gen`.
#[derive(Args)]
#[expect(clippy::struct_excessive_bools, reason = "each is a flag of its own")]
pub struct GenArgs {
    /// What generates it
    #[arg(long, value_name = "MODEL", value_parser = rota_trace::generate::MODELS, required_unless_present = "config")]
    pub model: Option<String>,
    /// Settings from the [generate] table of a TOML file (ranges, distributions)
    #[arg(long, value_name = "FILE", conflicts_with = "model")]
    pub config: Option<PathBuf>,
    /// Throughput table that turns run times into steps, for the gavel models
    #[arg(long, value_name = "FILE")]
    pub throughputs: Option<PathBuf>,
    /// How many jobs
    #[arg(long, value_name = "N")]
    pub jobs: Option<u32>,
    /// Arrivals per hour
    #[arg(long, value_name = "JOBS_PER_HOUR")]
    pub rate: Option<f64>,
    /// Seed of all draws
    #[arg(long, value_name = "N")]
    pub seed: Option<u64>,
    /// Gangs of 1, 2, 4 and 8 GPUs instead of single GPUs
    #[arg(long)]
    pub multi_gpu: bool,
    /// A fifth of the jobs with five times the weight
    #[arg(long)]
    pub multi_priority: bool,
    /// A deadline for every job, at 1.2, 2 or 10 times its length
    #[arg(long)]
    pub slo: bool,
    /// Where to write it; its ending tells the format
    #[arg(short, long, value_name = "FILE")]
    pub output: PathBuf,
    /// The format to write
    #[arg(long, value_enum)]
    pub to: Option<WrittenFormat>,
    #[arg(long, help = WHOLE_STEPS)]
    pub whole_steps: bool,
}

/// `rota import`.
#[derive(Args)]
pub struct ImportArgs {
    #[command(subcommand)]
    pub source: ImportSource,
}

/// Where the jobs come from.
#[derive(Subcommand)]
pub enum ImportSource {
    /// Turn what Slurm's accounting has recorded into a trace
    #[command(after_help = "\
First it says how well a simulation of the same jobs repeats what Slurm did. Without --cluster that is on the smallest cluster that \
could have run them.

Examples:
  rota import sacct -o year.csv                                      asks sacct for the last year
  rota import sacct log.txt -o year.csv --cluster v100:32,a100:16    a file, with the GPUs
  sacct -a -D -X -P -S now-30days -o JobID,User,Account,State,Submit,Start,End,ElapsedRaw,TimelimitRaw,AllocTRES,ReqTRES > log.txt")]
    Sacct(SacctArgs),
}

/// `rota import sacct`.
#[derive(Args)]
pub struct SacctArgs {
    /// Output of `sacct -P`; without it sacct is asked
    pub file: Option<PathBuf>,
    /// Where to write the trace; its ending (.csv, .toml, .swf) tells the format
    #[arg(short, long, value_name = "FILE")]
    pub output: PathBuf,
    /// The cluster that the jobs ran on, for the replay
    #[arg(long, value_name = "SPEC")]
    pub cluster: Option<String>,
    /// GPUs on each node of the replay's cluster
    #[arg(long, value_name = "N", default_value_t = 8, value_parser = clap::value_parser!(u32).range(1..))]
    pub gpus_per_node: u32,
    /// From when on sacct is asked for jobs, in Slurm's words
    #[arg(long, value_name = "TIME", default_value = "now-365days", conflicts_with = "file")]
    pub since: String,
    /// Until when
    #[arg(long, value_name = "TIME", default_value = "now", conflicts_with = "file")]
    pub until: String,
    /// The folder with Slurm's programs
    #[arg(long, value_name = "DIR", conflicts_with = "file")]
    pub bin_dir: Option<PathBuf>,
    /// Skip bad lines, and list them
    #[arg(long)]
    pub skip_bad: bool,
    /// Print the fidelity and the counts as JSON
    #[arg(long)]
    pub json: bool,
}
