//! Options of `rota whatif`.

use super::ReadArgs;
use super::numbers::{factor, seconds};
use crate::live::args::{StateArgs, moment};
use clap::{Args, ValueEnum};
use std::path::PathBuf;

/// Whether jobs share GPUs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum SharingWord {
    /// Jobs whose need of memory is known share GPUs
    On,
    /// Every job has its GPUs to itself
    Off,
}

/// `rota whatif`.
#[derive(Args)]
#[command(after_help = "\
Examples:
  rota whatif             this site's own jobs: the usual policies, more and fewer GPUs, more jobs
  rota whatif --policy lag-history --add a100:8 -o whatif.html
  rota whatif --since 2026-11-01 --remove node:1 --quota 8
  rota whatif --trace sacct.txt --cluster a100:32 --policy las --arrivals 1.2 --json

Each --policy, --add, --remove, --arrivals, --quota, --sharing and --power-cap is one alternative to what really happened. With --together \
all changes are made at once, under each policy.")]
pub struct WhatIfArgs {
    #[command(flatten)]
    pub state: StateArgs,
    /// The jobs of a trace (any known format, also `sacct -P`), in place of this site's own
    #[arg(long, value_name = "FILE", conflicts_with = "since", requires = "cluster")]
    pub trace: Option<PathBuf>,
    /// Jobs that ended since this moment, as 7d (ago), yesterday, 2026-11-16 or 2026-11-16T18:00:00Z; all if not given
    #[arg(long, value_name = "TIME", value_parser = moment)]
    pub since: Option<String>,
    /// The GPUs that the jobs ran on, as for `rota sim`; this machine's if not given
    #[arg(long, value_name = "SPEC")]
    pub cluster: Option<String>,
    /// The policy that really ran; the daemon's if not given, for a trace `fcfs` or `priority` with reservations
    #[arg(long, value_name = "P")]
    pub ran: Option<String>,
    /// A policy to compare
    #[arg(long = "policy", value_name = "P")]
    pub policies: Vec<String>,
    /// GPUs to add, such as `a100:8`, or `node:1` for one more node
    #[arg(long, value_name = "TYPE:COUNT")]
    pub add: Vec<String>,
    /// GPUs to take away, such as `a100:4`, or `node:1` for one node less
    #[arg(long, value_name = "TYPE:COUNT")]
    pub remove: Vec<String>,
    /// Jobs come so many times as fast
    #[arg(long, value_name = "FACTOR", value_parser = factor)]
    pub arrivals: Vec<f64>,
    /// One user has at most so many GPUs at once
    #[arg(long, value_name = "GPUS", value_parser = clap::value_parser!(u32).range(1..))]
    pub quota: Vec<u32>,
    /// Jobs share GPUs by memory, or never
    #[arg(long, value_enum)]
    pub sharing: Vec<SharingWord>,
    /// Power limit of the GPUs, as for `rota sim`
    #[arg(long, value_name = "CAP")]
    pub power_cap: Vec<rota_gpu::PowerCap>,
    /// Make all changes at once, under each policy
    #[arg(long)]
    pub together: bool,
    /// GPUs on each node of a cluster given as TYPE:COUNT, and on nodes that are added
    #[arg(long, value_name = "N", default_value_t = 8, value_parser = clap::value_parser!(u32).range(1..))]
    pub gpus_per_node: u32,
    /// What a job loses whenever it is started again. If not given, the daemon's setting, or 0 for a trace
    #[arg(long, value_name = "SECONDS", value_parser = seconds)]
    pub restart_cost: Option<f64>,
    /// Seed of everything random. If not given, the daemon's, or 0 for a trace
    #[arg(long, value_name = "N")]
    pub seed: Option<u64>,
    #[command(flatten)]
    pub read: ReadArgs,
    /// Write a page whose first line is the answer
    #[arg(short = 'o', long, value_name = "FILE.html")]
    pub out: Option<PathBuf>,
    /// Print JSON
    #[arg(long)]
    pub json: bool,
}
