//! Options of `rota predict`.

use super::numbers::seconds;
use crate::live::args::StateArgs;
use clap::Args;
use std::path::PathBuf;

/// Reads the number of a job.
fn job_number(text: &str) -> Result<u64, String> {
    text.parse().map_err(|_| match text.strip_prefix("group:") {
        Some(_) => format!("give the numbers of jobs, such as 17; `rota show {text}` lists the jobs of the group"),
        None => "give the number of a job, such as 17; `rota predict` alone lists all that wait".to_owned(),
    })
}

/// `rota predict`.
#[derive(Args)]
#[command(after_help = "\
Examples:
  rota predict                          when each waiting job is expected to start
  rota predict 17                       the same for one job
  rota predict --score                  how good predictions would have been for past jobs
  rota predict --score --trace jobs.csv --cluster a100:8 --policy fcfs    the same for a trace")]
#[expect(clippy::struct_excessive_bools, reason = "each is a flag of its own")]
pub struct PredictArgs {
    #[command(flatten)]
    pub state: StateArgs,
    /// The jobs; all that wait if not given
    #[arg(value_name = "ID", value_parser = job_number)]
    pub ids: Vec<u64>,
    /// Replay past jobs, predict their starts on the way, and say how often the predictions held
    #[arg(long, conflicts_with = "ids")]
    pub score: bool,
    /// With --score: the jobs of a trace, in place of this site's past
    #[arg(long, value_name = "FILE", requires = "score", requires = "cluster")]
    pub trace: Option<PathBuf>,
    /// With --trace: the GPUs, as for `rota sim`
    #[arg(long, value_name = "SPEC", requires = "trace")]
    pub cluster: Option<String>,
    /// With --trace: its format; found by its content if not given
    #[arg(long, value_name = "FORMAT", requires = "trace")]
    pub format: Option<String>,
    /// With --trace: leave out lines and jobs that cannot be used, and say how many
    #[arg(long, requires = "trace")]
    pub skip_bad: bool,
    /// With --score: the policy. If not given, the one in force on this machine's queue, or `lag-match` for a trace
    #[arg(long, value_name = "P", requires = "score")]
    pub policy: Option<String>,
    /// With --score: predict one in so many of the jobs that have to wait; 1 for all. If not given, a 500th of the number of jobs, so that a
    /// long past takes minutes and not hours
    #[arg(long, value_name = "N", requires = "score", value_parser = clap::value_parser!(u32).range(1..))]
    pub every: Option<u32>,
    /// With --score: predict those jobs again every so many seconds while they wait; 0 for never
    #[arg(long, value_name = "SECONDS", default_value_t = 3600.0, requires = "score", value_parser = seconds)]
    pub again: f64,
    /// With --score: how often lengths are drawn for one prediction
    #[arg(long, value_name = "N", default_value_t = 100, requires = "score", value_parser = clap::value_parser!(u32).range(1..=10_000))]
    pub draws: u32,
    /// With --score: predict as if no more jobs came
    #[arg(long, requires = "score")]
    pub no_arrivals: bool,
    /// With --score: write every prediction and the true start to this file
    #[arg(long, value_name = "FILE", requires = "score")]
    pub csv: Option<PathBuf>,
    /// With --cluster: GPUs on each node
    #[arg(long, value_name = "N", default_value_t = 8, requires = "cluster", value_parser = clap::value_parser!(u32).range(1..))]
    pub gpus_per_node: u32,
    /// With --score: what a job loses whenever it is started again. If not given, the daemon's setting, or 0 for a trace
    #[arg(long, value_name = "SECONDS", requires = "score", value_parser = seconds)]
    pub restart_cost: Option<f64>,
    /// Print JSON
    #[arg(long)]
    pub json: bool,
}
