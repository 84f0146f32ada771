//! What `rota sim`, `rota sweep` and `rota policies` take.

use super::SolverWord;
use super::numbers::{positive_hours, positive_seconds, seconds, window};
use clap::{Args, ValueEnum};
use std::path::PathBuf;

/// How a target becomes plans over time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum MechanismWord {
    /// Decide on every arrival, completion and release
    Event,
    /// Share time in rounds: a running job keeps its GPUs until the round ends (not with the lag policies, which decide at every event)
    Rounds,
    /// Gavel's own rounds, defects included: for comparison with its published results
    Gavel,
}

/// What every simulation needs to know beside its jobs, cluster and policy.
#[derive(Args, Clone, Debug)]
pub struct ModelArgs {
    /// GPUs on each node of a cluster given as TYPE:COUNT
    #[arg(long, value_name = "N", default_value_t = 8, value_parser = clap::value_parser!(u32).range(1..))]
    pub gpus_per_node: u32,
    /// Steps per second by job type, gang size and GPU type (CSV, TOML or Gavel's JSON); the built-in table if not given
    #[arg(long, value_name = "FILE")]
    pub throughputs: Option<PathBuf>,
    /// What GPUs cost: a history (CSV: `time_s,gpu_type,usd_per_gpu_hour`) or constants (TOML); list prices if not given
    #[arg(long, value_name = "FILE")]
    pub prices: Option<PathBuf>,
    /// How decisions are timed
    #[arg(long, value_enum, default_value = "event")]
    pub mechanism: MechanismWord,
    /// Length of a round, for --mechanism rounds and gavel
    #[arg(long, value_name = "SECONDS", default_value_t = 360.0, value_parser = positive_seconds)]
    pub round: f64,
    /// What solves the allocations of policies that divide time (`price` if not given; `gavel` always uses `interior`)
    #[arg(long, value_enum)]
    pub solver: Option<SolverWord>,
    /// With --mechanism gavel: every job gets exactly its share from one arrival to the next, instead of rounds
    #[arg(long)]
    pub ideal: bool,
    /// What a job loses whenever it is started again
    #[arg(long, value_name = "SECONDS", default_value_t = 0.0, value_parser = seconds)]
    pub restart_cost: f64,
    /// How long a job that is stopped for others takes to leave its GPUs
    #[arg(long, value_name = "SECONDS", default_value_t = 0.0, value_parser = seconds)]
    pub stop_seconds: f64,
    /// How often jobs save their progress; without it a lost node costs a job everything since its last start
    #[arg(long, value_name = "SECONDS", value_parser = seconds)]
    pub checkpoint: Option<f64>,
    /// Mean hours between losses of a node; nodes are not lost without it
    #[arg(long, value_name = "HOURS", value_parser = positive_hours)]
    pub node_mtbf: Option<f64>,
    /// Mean hours until a lost node returns
    #[arg(long, value_name = "HOURS", default_value_t = 4.0, value_parser = positive_hours)]
    pub node_repair: f64,
    /// Which free GPUs a job gets
    #[arg(long, value_name = "SCORE", default_value = "consolidate", value_parser = ["consolidate", "spread", "best-fit", "worst-fit", "least-busy", "random"])]
    pub place: String,
}

/// How a trace is read.
#[derive(Args, Clone, Debug)]
pub struct ReadArgs {
    /// Format of the trace; found by its content if not given
    #[arg(long, value_name = "FORMAT")]
    pub format: Option<String>,
    /// Leave out lines and jobs that cannot be used, and say how many
    #[arg(long)]
    pub skip_bad: bool,
}

/// `rota sim`.
#[derive(Args)]
#[command(after_help = "\
Examples:
  rota sim --trace philly.csv --cluster gpu:400 --policy fcfs --policy srtf --policy las --out report
  rota sim --trace jobs.toml --cluster v100:8,p100:16 --policy lottery:seed=7 --mechanism rounds --round 60
  rota sim --trace sacct.txt --cluster a100:32 --policy fcfs:backfill=easy --json

With --out the folder gets summary.json, jobs.csv, events.jsonl, pictures (SVG and PNG) and report.html.")]
pub struct SimArgs {
    /// The workload: a trace of any known format, or a TOML file with a [generate] table
    #[arg(long, value_name = "FILE")]
    pub trace: PathBuf,
    /// The cluster: `v100:8,p100:16`, Gavel's `8:16:24`, or a TOML file with nodes
    #[arg(long, value_name = "SPEC")]
    pub cluster: String,
    /// A policy, e.g. `fcfs` or `rr:quantum=60`; several are compared (`rota policies` lists them)
    #[arg(long = "policy", value_name = "P", default_value = "lag-match")]
    pub policies: Vec<String>,
    /// Seed of everything random
    #[arg(long, value_name = "N", default_value_t = 0)]
    pub seed: u64,
    /// Measure only these jobs (first and last id), and stop when they are over
    #[arg(long, value_name = "FIRST:LAST", value_parser = window)]
    pub window: Option<(u32, u32)>,
    #[command(flatten)]
    pub model: ModelArgs,
    #[command(flatten)]
    pub read: ReadArgs,
    /// Policies do not know the speeds of --throughputs: they learn them while jobs run, twice a round, as a live queue does
    #[arg(long, conflicts_with_all = ["explain", "pareto"])]
    pub learn_speeds: bool,
    /// Power limit of the GPUs: `best` (least energy at 94 % of the speed), `best=0.9`, watts, or `v100=175,a40=200`
    #[arg(long, value_name = "CAP")]
    pub power_cap: Option<rota_gpu::PowerCap>,
    /// Simulate every policy under several power caps, and draw mean JCT against the energy of busy GPUs
    #[arg(long, value_name = "FILE.svg", conflicts_with_all = ["power_cap", "out", "jobs_csv", "explain", "window"])]
    pub pareto: Option<PathBuf>,
    /// Write the whole report into this folder
    #[arg(long, value_name = "DIR")]
    pub out: Option<PathBuf>,
    /// Write one line a job to this file (one policy only)
    #[arg(long, value_name = "FILE")]
    pub jobs_csv: Option<PathBuf>,
    /// Say why this job waited, and for how long each time (one policy only)
    #[arg(long, value_name = "JOB")]
    pub explain: Option<u32>,
    /// Print the summary as JSON
    #[arg(long)]
    pub json: bool,
    /// Policies simulated at the same time; all cores if not given
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1024))]
    pub jobs_parallel: Option<u32>,
    /// For a daemon: charts go into this folder, progress to stderr as JSON, and all ends when stdin does
    #[arg(long, value_name = "DIR", hide = true)]
    pub served: Option<PathBuf>,
}

/// `rota sweep`.
#[derive(Args)]
#[command(after_help = "\
Examples:
  rota sweep --policies fcfs,sjf,las --clusters gpu:64 --multi-gpu --rates 8,12,16,20,24 --jobs 2000 --seeds 0,1,2 --out sweep
  rota sweep scenarios/sweep-small.toml --out sweep
  rota sweep --model gavel-static --multi-gpu --jobs 100,200,300 --policies fcfs,srtf --clusters 36:36:36 --out static
  rota sweep --out sweep --resume                                    go on where it stopped

The folder gets results.csv (one row a run), sweep.toml (what was asked), pictures of mean JCT against load (of makespan and JCT \
against the number of jobs for gavel-static), and in distributions/ those of completion times and finish-time fairness at each load.")]
#[expect(clippy::struct_excessive_bools, reason = "each is a flag of its own")]
pub struct SweepArgs {
    /// A TOML file that says what to sweep (`scenarios/sweep-small.toml` shows the fields)
    #[arg(value_name = "FILE.toml")]
    pub file: Option<PathBuf>,
    /// Policies, separated by commas; one with several parameters goes in a file
    #[arg(long, value_name = "P,…", value_delimiter = ',')]
    pub policies: Vec<String>,
    /// Clusters, separated by semicolons
    #[arg(long, value_name = "SPEC;…", value_delimiter = ';')]
    pub clusters: Vec<String>,
    /// Seeds of the workload and of the policies
    #[arg(long, value_name = "N,…", value_delimiter = ',')]
    pub seeds: Vec<u64>,
    /// Arrivals per hour, one workload each
    #[arg(long, value_name = "JOBS_PER_HOUR,…", value_delimiter = ',')]
    pub rates: Vec<f64>,
    /// Jobs in each workload; for gavel-static the numbers to sweep over
    #[arg(long, value_name = "N,…", value_delimiter = ',')]
    pub jobs: Vec<u32>,
    /// What generates the workloads [default: poisson]
    #[arg(long, value_name = "MODEL", value_parser = crate::sweep::grid::SWEPT_MODELS)]
    pub model: Option<String>,
    /// Gangs of 1, 2, 4 and 8 GPUs instead of single GPUs
    #[arg(long)]
    pub multi_gpu: bool,
    /// A fifth of the jobs with five times the weight
    #[arg(long)]
    pub multi_priority: bool,
    /// A deadline for every job, at 1.2, 2 or 10 times its length
    #[arg(long)]
    pub slo: bool,
    /// Jobs that fill the cluster are there at the start (gavel-continuous)
    #[arg(long)]
    pub steady_state: bool,
    /// Measure only these jobs (first and last id), and stop each run when they are over
    #[arg(long, value_name = "FIRST:LAST", value_parser = window)]
    pub window: Option<(u32, u32)>,
    /// Steps per second by job type, gang size and GPU type; the built-in table if not given
    #[arg(long, value_name = "FILE")]
    pub throughputs: Option<PathBuf>,
    /// What GPUs cost, as for `rota sim`; list prices if not given
    #[arg(long, value_name = "FILE")]
    pub prices: Option<PathBuf>,
    /// A trace to run instead of generated workloads
    #[arg(long, value_name = "FILE", conflicts_with_all = ["rates", "jobs", "model"])]
    pub trace: Option<PathBuf>,
    /// How decisions are timed [default: event]
    #[arg(long, value_enum)]
    pub mechanism: Option<MechanismWord>,
    /// Length of a round, for --mechanism rounds and gavel [default: 360]
    #[arg(long, value_name = "SECONDS", value_parser = positive_seconds)]
    pub round: Option<f64>,
    /// With --mechanism gavel: every job gets exactly its share from one arrival to the next, instead of rounds
    #[arg(long)]
    pub ideal: bool,
    /// What a job loses whenever it is started again [default: 0]
    #[arg(long, value_name = "SECONDS", value_parser = seconds)]
    pub restart_cost: Option<f64>,
    /// GPUs on each node of a cluster given as TYPE:COUNT [default: 8]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    pub gpus_per_node: Option<u32>,
    /// Runs at the same time; all cores if not given
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1024))]
    pub jobs_parallel: Option<u32>,
    /// The folder for results and pictures
    #[arg(long, value_name = "DIR")]
    pub out: PathBuf,
    /// Go on with the sweep begun in --out
    #[arg(long)]
    pub resume: bool,
    /// Print the rows as JSON
    #[arg(long)]
    pub json: bool,
}

/// `rota policies`.
#[derive(Args)]
#[command(after_help = "Examples:\n  rota policies\n  rota policies --json\n  rota policies las")]
pub struct PoliciesArgs {
    /// Show only this one, with its parameters
    pub name: Option<String>,
    /// Print as JSON
    #[arg(long)]
    pub json: bool,
}
