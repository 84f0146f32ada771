//! Options of the commands about jobs.

use super::daemon::StateArgs;
use super::select::{JobWord, SelectArgs, job_word};
use super::{duration, gpu_mebibytes, mebibytes};
use clap::Args;
use rota_daemon::api::{NoticeReach, PreemptNotice};
use std::ffi::OsString;
use std::path::PathBuf;

/// `rota submit` and `rota run`.
#[derive(Args)]
#[command(after_help = "\
Examples:
  rota submit python train.py --lr 0.1                    one whole GPU
  rota submit -g 4 --time-limit 12:00:00 torchrun …       four of one type
  rota submit --memory 8G python small.py                 shares a GPU by memory
  rota submit --memory auto python small.py               the same, by what it took before
  rota submit -n bert --param lr=0.1,0.01 --param seed=1,2 python train.py --lr {lr} --seed {seed}
  rota submit --array 0-9 --after 17 python eval.py --fold {index}
  rota submit --dry-run -g 4 torchrun …                   when would it start? Submits nothing
  rota run nvidia-smi                                     wait, show the output, exit with its code

Options of Rota come before the program; what follows the program belongs to it. `--` before the program is accepted.")]
#[expect(clippy::struct_excessive_bools, reason = "each is a flag of its own")]
pub struct SubmitArgs {
    #[command(flatten)]
    pub state: StateArgs,
    /// GPUs needed at once, all of one type (see --any-type); 0 runs on the processor alone
    #[arg(short = 'g', long, value_name = "N", default_value_t = 1)]
    pub gpus: u32,
    /// The only GPUs it may use, by index
    #[arg(long, value_name = "LIST", value_delimiter = ',')]
    pub gpu_ids: Vec<u32>,
    /// GPU types it accepts
    #[arg(long = "gpu-type", value_name = "T", value_delimiter = ',')]
    pub gpu_types: Vec<String>,
    /// The GPUs may be of several types, where no type has enough of them
    #[arg(long)]
    pub any_type: bool,
    /// Memory needed on each GPU, as 8000 (MiB) or 8G: the job may share the GPU with others that fit beside it. `auto` goes by what
    /// earlier runs of the same program took (`rota profiles`), and the first run has a GPU to itself
    #[arg(long, value_name = "SIZE|auto", value_parser = memory)]
    pub memory: Option<Memory>,
    /// With --memory auto: memory to add to what is predicted
    #[arg(long, value_name = "SIZE", value_parser = gpu_mebibytes)]
    pub buffer: Option<u32>,
    /// With --memory auto: the class its memory is learned under, in place of one made from the command
    #[arg(long, value_name = "NAME")]
    pub profile_as: Option<String>,
    /// With --memory auto: a program never measured is first run by itself for so many epochs, as `--epochs=N`
    #[arg(long, value_name = "N")]
    pub profile_epochs: Option<u32>,
    /// What kind of training it is, by its name in the site's throughput table (`sharing.throughputs`). It shares a GPU only with
    /// jobs where both together get more done than one after the other
    #[arg(long, value_name = "T")]
    pub job_type: Option<String>,
    /// Share of each GPU, above 0 and at most 1
    #[arg(long, value_name = "FRACTION")]
    pub share: Option<f64>,
    /// Share the GPUs with no other job
    #[arg(long)]
    pub exclusive: bool,
    /// Higher runs first
    #[arg(long, value_name = "N", default_value_t = 0, allow_negative_numbers = true)]
    pub priority: i32,
    /// Fair share weight
    #[arg(long, value_name = "W", default_value_t = 1.0)]
    pub weight: f64,
    /// Lottery tickets
    #[arg(long, value_name = "T", default_value_t = 1)]
    pub tickets: u32,
    /// How long it will run, as 90, 90s, 15m, 2h or 1d: backfill and explanations use it
    #[arg(long, value_name = "TIME", value_parser = duration)]
    pub estimate: Option<f64>,
    /// When it should be finished, as 2026-11-16T18:00 (local) or 2026-11-16T18:00:00Z
    #[arg(long, value_name = "TIME")]
    pub deadline: Option<String>,
    /// End it after this long
    #[arg(long, value_name = "TIME", value_parser = duration)]
    pub time_limit: Option<f64>,
    /// Start only after another job has ended: with exit code 0 (`ID` or `ID:ok`), or in any way (`ID:any`)
    #[arg(long, value_name = "ID[:ok|any]", value_delimiter = ',')]
    pub after: Vec<String>,
    /// How many times to try again after a failure
    #[arg(long, value_name = "N", default_value_t = 0)]
    pub retries: u32,
    /// Wait before the first of these tries; doubled each time
    #[arg(long, value_name = "TIME", value_parser = duration)]
    pub retry_delay: Option<f64>,
    /// A name for people
    #[arg(short = 'n', long, value_name = "NAME")]
    pub name: Option<String>,
    /// What its GPU time is counted under, beside your name
    #[arg(long, value_name = "NAME")]
    pub project: Option<String>,
    /// A repeated submit with the same key returns the same job
    #[arg(long, value_name = "KEY")]
    pub key: Option<String>,
    /// The directory it runs in [default: this one]
    #[arg(long, value_name = "DIR")]
    pub cwd: Option<PathBuf>,
    /// A variable of its environment, beside all of this shell's
    #[arg(long, value_name = "K=V")]
    pub env: Vec<OsString>,
    /// Share its GPU through NVIDIA's MPS, with jobs of the same user only
    #[arg(long)]
    pub mps: bool,
    /// Part of the GPU's threads it may use; implies --mps
    #[arg(long, value_name = "P")]
    pub threads_percent: Option<u32>,
    /// It may be stopped for others and started again later
    #[arg(long)]
    pub preemptible: bool,
    /// It saves its work when it is asked to stop, within its grace time, and goes on from there; implies --preemptible
    #[arg(long)]
    pub saves_progress: bool,
    /// How it is told to save and leave for others: signal=USR1,grace=60,to=main|all. It leaves with exit code 85 or by the signal,
    /// and goes on later; implies --preemptible
    #[arg(long, value_name = "signal=S,grace=T,to=W", value_parser = preempt)]
    pub preempt: Option<PreemptNotice>,
    /// An argument that is added to the command when it goes on with what it saved, as --resume
    #[arg(long, value_name = "ARG", allow_hyphen_values = true)]
    pub resume_arg: Option<OsString>,
    /// How long it trains, as 90, 15m or 2h, all its runs together: told to the job (`rota.adapt`), which ends by itself
    #[arg(long, value_name = "TIME", value_parser = duration)]
    pub budget: Option<f64>,
    /// Offer the job up to this many more GPUs while no other job needs them; it is asked to give them back, and has its grace time for that
    #[arg(long, value_name = "N", default_value_t = 0, requires = "budget")]
    pub extra_gpus: u32,
    /// It is a script with Gavel's iterator: it gets the variables and arguments that Gavel's dispatcher gives, a process for each GPU,
    /// and goes on until it has done all its steps; implies --preemptible
    #[arg(long, requires = "total_steps", conflicts_with_all = ["preempt", "saves_progress"])]
    pub gavel: bool,
    /// With --gavel: the steps it has to do in all
    #[arg(long, value_name = "N", requires = "gavel")]
    pub total_steps: Option<u64>,
    /// With --gavel: the option by which the script is told its steps
    #[arg(long, value_name = "ARG", requires = "gavel", default_value = "--num_steps", allow_hyphen_values = true)]
    pub steps_arg: String,
    /// With --gavel: the folder with the data, which takes the place of `%s` in the command
    #[arg(long, value_name = "DIR", requires = "gavel")]
    pub data_dir: Option<PathBuf>,
    /// Do not start it before `rota release`
    #[arg(long)]
    pub hold: bool,
    /// Time between asking it to stop and killing it
    #[arg(long, value_name = "TIME", value_parser = duration)]
    pub grace: Option<f64>,
    /// Memory of the machine it may use, as 8000 (MiB) or 8G (where control groups are permitted)
    #[arg(long, value_name = "SIZE", value_parser = mebibytes)]
    pub host_memory: Option<u64>,
    /// Processors it may use (where control groups are permitted)
    #[arg(long, value_name = "N")]
    pub cpus: Option<f64>,
    /// One job for each index, as 0-9 or 1,3,8-12 or 0-100:10; `{index}` in the command stands for it
    #[arg(long, value_name = "LIST")]
    pub array: Option<String>,
    /// One job for each combination of values; `{NAME}` in the command stands for one
    #[arg(long = "param", value_name = "NAME=V,V,…")]
    pub params: Vec<String>,
    /// Submit nothing: say when the job would start, what would start it sooner, and on which GPU type it would be done first
    #[arg(long)]
    pub dry_run: bool,
    /// Submit it even if the program cannot be found now
    #[arg(long)]
    pub force: bool,
    /// Print JSON
    #[arg(long)]
    pub json: bool,
    /// The program and its arguments
    #[arg(required = true, trailing_var_arg = true, value_name = "COMMAND")]
    pub command: Vec<OsString>,
}

/// Memory that is asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Memory {
    /// So much on each GPU.
    Mib(u32),
    /// As much as earlier runs took.
    Auto,
}

fn memory(text: &str) -> Result<Memory, String> {
    if text == "auto" {
        return Ok(Memory::Auto);
    }
    gpu_mebibytes(text).map(Memory::Mib).map_err(|wrong| format!("{wrong}, or `auto`"))
}

/// Reads `signal=USR1,grace=60,to=main`.
fn preempt(text: &str) -> Result<PreemptNotice, String> {
    let wrong = |part: &str| format!("`{part}` is not signal=NAME, grace=TIME or to=main|all");
    let mut notice = PreemptNotice { signal: "USR1".to_owned(), grace_seconds: None, to: NoticeReach::default() };
    for part in text.split(',') {
        match part.split_once('=') {
            Some(("signal", name)) => name.trim_start_matches("SIG").clone_into(&mut notice.signal),
            Some(("grace", time)) => notice.grace_seconds = Some(duration(time)?),
            Some(("to", "main")) => notice.to = NoticeReach::Main,
            Some(("to", "all")) => notice.to = NoticeReach::All,
            _ => return Err(wrong(part)),
        }
    }
    Ok(notice)
}

/// `rota batch`.
#[derive(Args)]
#[command(after_help = "\
The file has the columns Directory, Executable (-1: python3), Filename, Epochs, Priority (lower first), and is never changed.
Each row runs `Executable Filename --epochs=E --id=K` in its Directory, with a number K that is never used again.

Examples:
  rota batch trainings.csv                 all rows, packed by what they need of the GPUs' memory
  rota batch trainings.csv --check         only look for mistakes
  rota batch trainings.csv --num 20        twenty rows at a time, sorted by priority
  rota batch trainings.csv --run second    all rows once more

Without --run, a file goes on where it stopped.")]
#[expect(clippy::struct_excessive_bools, reason = "each is a flag of its own")]
pub struct BatchArgs {
    #[command(flatten)]
    pub state: StateArgs,
    /// The table of trainings
    #[arg(value_name = "FILE.csv")]
    pub file: PathBuf,
    /// Rows in a batch; the next batch begins when all rows of one have ended [default: all rows in one batch]
    #[arg(long, short, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    pub num: Option<u32>,
    /// The row the header is in, from 0, or `none`
    #[arg(long, value_name = "ROW|none", default_value = "0")]
    pub header: String,
    /// Share GPUs through NVIDIA's MPS
    #[arg(long)]
    pub mps: bool,
    /// Part of the GPU's threads each may use; implies --mps
    #[arg(long, value_name = "P")]
    pub thread_percentage: Option<u32>,
    /// Memory to add to what is predicted for each row [default: what the daemon's settings say]
    #[arg(long, value_name = "SIZE", value_parser = gpu_mebibytes)]
    pub buffer: Option<u32>,
    /// A script that was never measured first runs alone for so many epochs
    #[arg(long, value_name = "N", default_value_t = 2)]
    pub profile_epochs: u32,
    /// A name for this run of the file: another name runs all rows anew
    #[arg(long, value_name = "NAME", default_value = "first")]
    pub run: String,
    /// Only check the file
    #[arg(long)]
    pub check: bool,
    /// Wait for the end (the default)
    #[arg(long, conflicts_with = "no_wait")]
    pub wait: bool,
    /// Only give the rows to the queue
    #[arg(long, conflicts_with = "num")]
    pub no_wait: bool,
    /// The page with the Gantt chart [default: FILE-report.html here]
    #[arg(long, value_name = "FILE.html")]
    pub report: Option<PathBuf>,
    /// Print JSON
    #[arg(long)]
    pub json: bool,
}

/// `rota queue`.
#[derive(Args)]
#[command(after_help = "\
Examples:
  rota queue                     what waits and runs
  rota queue --all --limit 20    with the last that ended
  rota queue group:7             every job of a group, one row each
  rota queue --state waiting     only jobs that wait
  rota queue --json | jq '.[] | select(.state == \"waiting\") | .reason'

`--state` takes a state of jobs (waiting, held, running, failed, …) or the daemon's directory, and may be given twice.")]
pub struct QueueArgs {
    #[command(flatten)]
    pub select: SelectArgs,
    /// A row for every job, also of groups
    #[arg(long, short = 'x', alias = "expand")]
    pub unfold: bool,
    /// Jobs that are over, too
    #[arg(long, short)]
    pub all: bool,
    /// Only jobs in this state
    #[arg(long = "in", value_name = "STATE")]
    pub wanted: Option<String>,
    /// Only jobs of this project
    #[arg(long, value_name = "NAME")]
    pub project: Option<String>,
    /// No more than this
    #[arg(long, value_name = "N")]
    pub limit: Option<u32>,
    /// Print JSON
    #[arg(long)]
    pub json: bool,
}

/// A command about one job.
#[derive(Args)]
pub struct JobArgs {
    #[command(flatten)]
    pub state: StateArgs,
    /// The job, or a group as group:7
    #[arg(value_name = "JOB", value_parser = job_word)]
    pub job: JobWord,
    /// Print JSON
    #[arg(long)]
    pub json: bool,
}

/// `rota explain`.
#[derive(Args)]
#[command(after_help = "\
Examples:
  rota explain 17                what keeps job 17 waiting, and what would start it sooner
  rota explain 17 --json         the same for programs")]
pub struct ExplainArgs {
    #[command(flatten)]
    pub state: StateArgs,
    /// The number of the job
    #[arg(value_name = "JOB", value_parser = job_word)]
    pub job: JobWord,
    /// Print JSON
    #[arg(long)]
    pub json: bool,
}

/// `rota priority`.
#[derive(Args)]
#[command(after_help = "\
Examples:
  rota priority 17 10      ahead of those below 10
  rota priority 17 -5      behind those above -5

The policy `priority`, which is the default, looks at it; jobs that run keep their GPUs.")]
pub struct PriorityArgs {
    #[command(flatten)]
    pub state: StateArgs,
    /// The job, which waits or is held
    #[arg(value_name = "ID")]
    pub id: u64,
    /// Higher runs first
    #[arg(value_name = "N", allow_negative_numbers = true)]
    pub priority: i32,
    /// Print JSON
    #[arg(long)]
    pub json: bool,
}

/// `rota wait`.
#[derive(Args)]
pub struct WaitArgs {
    #[command(flatten)]
    pub select: SelectArgs,
    /// Print JSON
    #[arg(long)]
    pub json: bool,
    /// Give up after this long, with exit code 1
    #[arg(long, value_name = "TIME", value_parser = duration)]
    pub timeout: Option<f64>,
}

/// `rota logs`.
#[derive(Args)]
#[command(after_help = "\
Examples:
  rota logs -f 17              follow one job
  rota logs --tail 1 group:7   the last line of every job of a group
  rota logs -n 20 3-5          the last 20 lines of three jobs")]
pub struct LogsArgs {
    #[command(flatten)]
    pub state: StateArgs,
    /// Jobs: numbers (17), ranges (3-9) or groups (group:7)
    #[arg(value_name = "JOB", value_parser = job_word)]
    pub what: Vec<JobWord>,
    /// Jobs with this name, or of a group with this name; `*` stands for any letters
    #[arg(long, value_name = "NAME")]
    pub name: Option<String>,
    /// Jobs of this user; `all` for every user's
    #[arg(short = 'u', long, value_name = "USER")]
    pub user: Option<String>,
    /// Go on until the job is over
    #[arg(short, long)]
    pub follow: bool,
    /// Only so many of the last lines
    #[arg(short = 'n', long, value_name = "LINES")]
    pub tail: Option<usize>,
    /// Of this attempt [default: the last]
    #[arg(long, value_name = "N")]
    pub attempt: Option<u32>,
}
