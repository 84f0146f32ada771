//! Options of the commands about the machine and its past.

use super::daemon::StateArgs;
use super::select::{JobWord, job_word};
use super::{duration, moment};
use clap::{Args, Subcommand, ValueEnum};
use std::path::PathBuf;

/// `rota profiles`.
#[derive(Args)]
#[command(after_help = "\
Examples:
  rota profiles                                          what is known of each program
  rota profiles --forget 'python3 /home/me/train.py'     measure it anew")]
pub struct ProfilesArgs {
    #[command(flatten)]
    pub state: StateArgs,
    /// Forget one of your classes: its next run is measured anew
    #[arg(long, value_name = "CLASS")]
    pub forget: Option<String>,
    /// Print JSON
    #[arg(long)]
    pub json: bool,
}

/// `rota top`.
#[derive(Args)]
#[command(after_help = "\
Keys: arrows select, enter says why, l shows the log, c cancels, h holds, r releases, / finds, s sorts, x folds groups, + and - change \
the priority, ? lists all keys, q quits.
NO_COLOR=1 draws without colours.")]
pub struct TopArgs {
    #[command(flatten)]
    pub state: StateArgs,
    /// Time between two looks
    #[arg(long, value_name = "SECONDS", default_value = "1", value_parser = interval)]
    pub interval: f64,
}

/// How GPUs are claimed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum ClaimModeWord {
    /// All of the GPUs named with --from
    Queue,
    /// As many as --gpus says of the GPUs named with --from, whichever are free first
    Schedule,
}

/// How granted GPUs are printed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum ClaimNames {
    /// By number, as `rota gpus` counts them: the order of the PCI bus
    Index,
    /// By UUID, which means the same card to every program
    Uuid,
}

/// `rota claim`.
#[derive(Args)]
#[command(after_help = "\
Examples:
  export CUDA_VISIBLE_DEVICES=$(rota claim --gpus 1)              any GPU, until this shell ends
  python train.py --cuda $(rota claim --from 0,1 --mode queue)    exactly 0 and 1

The grant lives as long as the process that called `rota claim`, or the one named with --pid.")]
pub struct ClaimArgs {
    #[command(flatten)]
    pub state: StateArgs,
    /// How many GPUs [default: 1, or all of --from in mode queue]
    #[arg(long, value_name = "N")]
    pub gpus: Option<u32>,
    /// The only GPUs that will do
    #[arg(long, value_name = "LIST", value_delimiter = ',')]
    pub from: Vec<u32>,
    /// Exactly those named, or any of them
    #[arg(long, value_enum, default_value = "schedule")]
    pub mode: ClaimModeWord,
    /// Give up after this long, with exit code 1
    #[arg(long, value_name = "TIME", value_parser = duration)]
    pub timeout: Option<f64>,
    /// The process whose life the grant is tied to [default: the one that called rota]
    #[arg(long, value_name = "PID")]
    pub pid: Option<u32>,
    /// How to print the GPUs [default: index, or uuid on a machine with several models]
    #[arg(long, value_enum, value_name = "HOW")]
    pub print: Option<ClaimNames>,
    /// A name for people
    #[arg(long, value_name = "NAME")]
    pub name: Option<String>,
    /// Print JSON
    #[arg(long)]
    pub json: bool,
}

/// `rota history`.
#[derive(Args)]
pub struct HistoryArgs {
    #[command(subcommand)]
    pub verb: HistoryVerb,
}

/// What to do with the past.
#[derive(Subcommand)]
pub enum HistoryVerb {
    /// Write the jobs that are over, with their measured lengths, as a trace
    Export {
        #[command(flatten)]
        state: StateArgs,
        /// The file: CSV, or TOML if its name ends so
        #[arg(short, long, value_name = "FILE")]
        out: PathBuf,
        /// Only jobs that ended since this moment, as 1h or 7d (ago), today, 2026-11-16 or 2026-11-16T18:00:00Z
        #[arg(long, value_name = "TIME", value_parser = moment)]
        since: Option<String>,
        /// Also write the speeds that were measured (.csv, .toml or .json); jobs of those types get their lengths in steps
        #[arg(long, value_name = "FILE")]
        throughputs: Option<PathBuf>,
    },
}

/// `rota report`.
#[derive(Args)]
#[command(after_help = "\
Examples:
  rota report -o today.html --since today
  rota report -o hour.html --since 1h
  rota report group:7 -o sweep.html
  rota report 17 18 19 -o sweep.html")]
pub struct ReportArgs {
    #[command(flatten)]
    pub state: StateArgs,
    /// Only these jobs: numbers, ranges (3-9) or groups (group:7); all that are over if none is named
    #[arg(value_name = "JOB", value_parser = job_word)]
    pub what: Vec<JobWord>,
    /// Only jobs that ended since this moment, as 1h or 7d (ago), today, 2026-11-16 or 2026-11-16T18:00:00Z
    #[arg(long, value_name = "TIME", value_parser = moment)]
    pub since: Option<String>,
    /// The page to write
    #[arg(short, long, value_name = "FILE.html")]
    pub out: PathBuf,
}

/// `rota record`.
#[derive(Args)]
pub struct RecordArgs {
    #[command(flatten)]
    pub state: StateArgs,
    /// The file to write [default: the terminal]
    #[arg(short, long, value_name = "FILE")]
    pub out: Option<PathBuf>,
    /// Time between two looks
    #[arg(short, long, value_name = "SECONDS", default_value = "1", value_parser = interval)]
    pub interval: f64,
    /// Stop after so many looks
    #[arg(long, value_name = "N")]
    pub count: Option<u64>,
}

fn interval(text: &str) -> Result<f64, String> {
    duration(text).and_then(|seconds| if seconds >= 0.01 { Ok(seconds) } else { Err("write 0.01 or more".to_owned()) })
}
