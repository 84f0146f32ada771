//! What can be typed: the types behind `--help`. What it means is decided in the module of each command.

use crate::live::args::{
    BatchArgs, ClaimArgs, ConfigArgs, DoctorArgs, DownArgs, DrainArgs, HistoryArgs, JobArgs, JobsArgs, LogsArgs, NotifyArgs,
    PlainArgs, PolicyArgs, PriorityArgs, ProfilesArgs, QueueArgs, RecordArgs, ReportArgs, SubmitArgs, TokenArgs, TopArgs, UpArgs,
    WaitArgs,
};
use clap::{Args, FromArgMatches, Parser, Subcommand, ValueEnum};
use std::ffi::OsString;
use std::path::PathBuf;

/// Rota decides whose turn it is on the GPU.
#[derive(Parser)]
#[command(name = "rota", version, about, long_about = None, max_term_width = WIDTH_MAX, after_help = "\
Examples:
  rota up --detach                                                          the queue on this machine's GPUs
  rota submit -- python train.py                                            one job on one GPU
  rota status                                                               what runs, what waits and why
  rota sim --trace jobs.csv --cluster a100:8 --policy fcfs --policy sjf     compare two policies on a log
  rota sim --trace scenarios/classroom.toml --cluster t4:4 --policy las     one policy, with a Gantt chart
  rota trace info philly.csv --cluster gpu:400                              what is in a trace
  rota policies                                                             what there is to choose from")]
pub struct Cli {
    #[command(subcommand)]
    pub command: Command,
}

impl Cli {
    /// What this process was called with; ends it where that cannot be meant, or asks for help.
    pub fn read() -> Self {
        let words: Vec<OsString> = std::env::args_os().collect();
        match words.get(1) {
            // Every supervisor is a copy of this process: it had better be small.
            Some(word) if word == SUPERVISE => {
                return Self { command: Command::Supervise { dir: words.get(2).map(PathBuf::from) } };
            }
            Some(word) if word == rota_daemon::KEEP => return Self { command: Command::Keep },
            Some(word) if word == "submit" => {}
            _ => return Self::parse_from(words),
        }
        let mut alone = submit_alone();
        let matches = alone.try_get_matches_from_mut(&words[1..]).unwrap_or_else(|error| error.exit());
        let args = SubmitArgs::from_arg_matches(&matches).unwrap_or_else(|error| error.format(&mut alone).exit());
        Self { command: Command::Submit(args) }
    }
}

/// `rota submit` by itself. It is called in loops, and the options of all the other commands, which it does not need, take
/// longer to set up than the daemon takes to answer.
fn submit_alone() -> clap::Command {
    let command = clap::Command::new("submit").bin_name("rota submit").max_term_width(WIDTH_MAX);
    SubmitArgs::augment_args(command).about(SUBMIT_ABOUT)
}

const SUPERVISE: &str = "__supervise";
const SUBMIT_ABOUT: &str = "Give a job to the queue, and print its number";
const WIDTH_MAX: usize = 100;

/// What to do.
#[derive(Subcommand)]
pub enum Command {
    /// Simulate policies on a workload and compare them
    Sim(SimArgs),
    /// Simulate a grid of policies, clusters, loads and seeds on all cores
    Sweep(SweepArgs),
    /// Look into, convert and generate traces
    Trace(TraceArgs),
    /// Divide the GPUs' time among jobs once, with a proof of how good the division is
    Alloc(AllocArgs),
    /// Look into and convert throughput tables, and estimate what they lack
    Throughputs(ThroughputsArgs),
    /// List the policies and their parameters
    Policies(PoliciesArgs),
    /// Start the daemon: the queue on this machine's GPUs
    Up(UpArgs),
    /// Stop the daemon; jobs run on
    Down(DownArgs),
    /// The whole state at a glance
    Status(PlainArgs),
    /// Watch the GPUs and the queue, and act on jobs
    Top(TopArgs),
    #[command(about = SUBMIT_ABOUT)]
    Submit(SubmitArgs),
    /// Submit, show the output, and end with the job's exit code
    Run(SubmitArgs),
    /// Run a table of trainings, packed by what they need of the GPUs' memory
    Batch(BatchArgs),
    /// What is known of the memory that programs need
    Profiles(ProfilesArgs),
    /// List what waits and runs
    #[command(alias = "ps")]
    Queue(QueueArgs),
    /// One job, in full
    Show(JobArgs),
    /// Why a job waits, with numbers
    Explain(JobArgs),
    /// What a job wrote
    Logs(LogsArgs),
    /// End jobs; a second time, at once
    Cancel(JobsArgs),
    /// Do not start jobs
    Hold(JobsArgs),
    /// Start held jobs after all
    Release(JobsArgs),
    /// Move a job that waits ahead of others, or behind them
    Priority(PriorityArgs),
    /// Run jobs that are over again, as new jobs
    Retry(JobsArgs),
    /// Wait until jobs are over; exit code 0 if all ended with 0
    Wait(WaitArgs),
    /// The GPUs and who is on them
    Gpus(PlainArgs),
    /// Claim GPUs for the calling process, as long as it lives
    Claim(ClaimArgs),
    /// Start nothing more, on some GPUs or at all
    Drain(DrainArgs),
    /// Start jobs again
    Resume(DrainArgs),
    /// Say or change who runs next
    Policy(PolicyArgs),
    /// Who may speak to the daemon over its port
    Token(TokenArgs),
    /// What really happened, as a trace that `rota sim` reads
    History(HistoryArgs),
    /// A page about what really happened: Gantt, use, power, energy of jobs
    Report(ReportArgs),
    /// Write GPU use over time in the columns of nvidia-smi
    Record(RecordArgs),
    /// Be told what becomes of your jobs, by mail, chat or a hook
    Notify(NotifyArgs),
    /// Check this machine's setup, and say what to fix
    Doctor(DoctorArgs),
    /// Check and show the daemon's settings
    Config(ConfigArgs),
    /// Print what a shell needs to complete commands
    Completions(crate::shell::CompletionsArgs),
    /// Write the manual pages, one a command
    Man(crate::shell::ManArgs),
    /// Keep jobs' processes: called by the daemon
    #[command(name = SUPERVISE, hide = true)]
    Supervise {
        /// The run directory of one job; otherwise the daemon says on standard input which
        dir: Option<PathBuf>,
    },
    /// Keep connections whose answers are held back: called by the daemon
    #[command(name = rota_daemon::KEEP, hide = true)]
    Keep,
}

/// How a target becomes plans over time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum MechanismWord {
    /// Decide on every arrival, completion and release
    Event,
    /// Share time in rounds: who runs keeps its GPUs until the round ends (not with the lag policies, which weigh everybody at every event)
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
    /// Write the whole report into this folder
    #[arg(long, value_name = "DIR")]
    pub out: Option<PathBuf>,
    /// Write one line a job to this file (one policy only)
    #[arg(long, value_name = "FILE")]
    pub jobs_csv: Option<PathBuf>,
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

The folder gets results.csv (one row a run), sweep.toml (what was asked), pictures of mean JCT against load (of makespan and JCT
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
    #[arg(long, value_name = "MODEL", value_parser = crate::sweep_grid::SWEPT_MODELS)]
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
    #[command(flatten)]
    pub read: ReadArgs,
}

/// `rota trace gen`.
#[derive(Args)]
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
}

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

fn number(text: &str, least: f64, most: f64) -> Result<f64, String> {
    let value = text.parse::<f64>().ok().filter(|value| (least..=most).contains(value));
    value.ok_or_else(|| format!("give a number from {least} to {most}"))
}

fn fraction(text: &str) -> Result<f64, String> {
    number(text, 0.0, 1.0)
}

fn seconds(text: &str) -> Result<f64, String> {
    number(text, 0.0, 1e9)
}

fn positive_seconds(text: &str) -> Result<f64, String> {
    number(text, 0.001, 1e9)
}

fn positive_hours(text: &str) -> Result<f64, String> {
    number(text, 1e-6, 1e6)
}

/// Reads `FIRST:LAST`.
pub fn window(text: &str) -> Result<(u32, u32), String> {
    let parsed = text.split_once(':').and_then(|(first, last)| Some((first.parse().ok()?, last.parse().ok()?)));
    parsed
        .filter(|(first, last)| first <= last)
        .ok_or_else(|| "give FIRST:LAST, two job ids in order, such as 200:499".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory;

    #[test]
    fn submit_by_itself_is_the_submit_of_the_whole() {
        let mut whole = Cli::command();
        whole.build();
        let submit = whole.find_subcommand_mut("submit").unwrap();
        assert_eq!(submit_alone().render_long_help().to_string(), submit.render_long_help().to_string());
        assert_eq!(submit_alone().render_help().to_string(), submit.render_help().to_string());
        let refusal =
            |command: &mut clap::Command, words: &[&str]| command.try_get_matches_from_mut(words).unwrap_err().to_string();
        assert_eq!(
            refusal(&mut submit_alone(), &["submit", "--gpu", "x"]),
            refusal(&mut Cli::command(), &["rota", "submit", "--gpu", "x"])
        );
    }
}
