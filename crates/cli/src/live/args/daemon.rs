//! Options of `rota up` and `rota down`, and those that all live commands have.

use clap::Args;
use std::net::IpAddr;
use std::path::PathBuf;

/// Which daemon is meant.
#[derive(Args, Clone, Debug)]
pub struct StateArgs {
    /// The daemon's state directory [env: `ROTA_STATE`] [default: ~/.local/state/rota, or /var/lib/rota for root]
    #[arg(long, value_name = "DIR", action = clap::ArgAction::Append, global = true)]
    pub state: Vec<PathBuf>,
}

/// `rota up`.
#[derive(Args)]
#[command(after_help = "\
Examples:
  rota up --detach                                   this machine's GPUs, in the background
  rota up --virtual-gpus a100:4,t4:2 --state /tmp/q  try everything without a GPU
  rota up --config /etc/rota.toml --foreground       for systemd
  rota up --engine slurm --shadow --policy sjf       say what a policy would do in Slurm's place
  rota up --bind 0.0.0.0 --port 8443 --tls-cert cert.pem --tls-key key.pem   for other machines")]
pub struct UpArgs {
    #[command(flatten)]
    pub state: StateArgs,
    /// Settings (`rota config schema` shows them all)
    #[arg(long, value_name = "FILE")]
    pub config: Option<PathBuf>,
    /// Invented GPUs in place of real ones: real processes, modelled telemetry
    #[arg(long, value_name = "TYPE:COUNT,…")]
    pub virtual_gpus: Option<String>,
    /// Port of the HTTP API and the page; 0 takes any free one
    #[arg(long, value_name = "N")]
    pub port: Option<u16>,
    /// Address to listen on; others than loopback need a certificate [default: 127.0.0.1]
    #[arg(long, value_name = "ADDR")]
    pub bind: Option<IpAddr>,
    /// Certificate chain for TLS, as PEM
    #[arg(long, value_name = "FILE", requires = "tls_key")]
    pub tls_cert: Option<PathBuf>,
    /// Its key, as PEM
    #[arg(long, value_name = "FILE", requires = "tls_cert")]
    pub tls_key: Option<PathBuf>,
    /// A second port on loopback for clients of watchmen [without a number: 62333]
    #[arg(long, value_name = "N", num_args = 0..=1, default_missing_value = "62333")]
    pub watchmen_port: Option<u16>,
    /// A port for `rota worker` on other machines; 0 takes any free one
    #[arg(long, value_name = "N")]
    pub workers_port: Option<u16>,
    /// The address of that port [default: 127.0.0.1]
    #[arg(long, value_name = "ADDR", requires = "workers_port")]
    pub workers_bind: Option<IpAddr>,
    /// The policy (`rota policies` lists them)
    #[arg(long, value_name = "P")]
    pub policy: Option<String>,
    /// When running jobs may be stopped for others: whenever something happens, or only when a round ends
    #[arg(long, value_name = "HOW", value_parser = ["event", "rounds"])]
    pub mechanism: Option<String>,
    /// Length of a round, for --mechanism rounds
    #[arg(long, value_name = "SECONDS", value_parser = crate::args::numbers::positive_seconds)]
    pub round: Option<f64>,
    /// How long a job runs at the least before it is stopped for others [default: ten times what a restart costs]
    #[arg(long, value_name = "SECONDS", value_parser = super::duration)]
    pub min_run: Option<f64>,
    /// What gives GPUs beside those of this machine: nothing, or a Slurm cluster ([engine.slurm] in the settings)
    #[arg(long, value_name = "ENGINE", value_parser = ["local", "slurm"])]
    pub engine: Option<String>,
    /// Only read, say what the policy would do in Slurm's place, and keep score; goes with --engine slurm
    #[arg(long, requires = "engine", conflicts_with_all = ["detach", "virtual_gpus"])]
    pub shadow: bool,
    /// Power limit of the GPUs while the daemon runs: `best`, watts, or `v100=175,a40=200`; needs root, and is put back at the end
    #[arg(long, value_name = "CAP")]
    pub power_cap: Option<String>,
    /// Stay in the foreground (the default)
    #[arg(long, conflicts_with = "detach")]
    pub foreground: bool,
    /// Go to the background once it is ready
    #[arg(long)]
    pub detach: bool,
}

/// `rota down`.
#[derive(Args)]
#[command(
    after_help = "Running jobs go on, and are found again by the next `rota up`. With --drain the daemon waits for them first."
)]
pub struct DownArgs {
    #[command(flatten)]
    pub state: StateArgs,
    /// Start nothing more, and stop when nothing runs
    #[arg(long)]
    pub drain: bool,
}

/// `rota backup`.
#[derive(Args)]
#[command(after_help = "\
Example:
  rota backup /backups/rota-$(date +%F).db

The copy is of one moment, and the daemon goes on meanwhile. It has every job, event, token and setting made live; the logs of \
jobs are plain files in the folder `jobs` of the state directory.")]
pub struct BackupArgs {
    #[command(flatten)]
    pub state: StateArgs,
    /// The file to write; it must not be there yet
    #[arg(value_name = "FILE")]
    pub file: PathBuf,
    /// Print JSON
    #[arg(long)]
    pub json: bool,
}

/// `rota restore`.
#[derive(Args)]
#[command(after_help = "\
Example:
  rota down && rota restore /backups/rota-2026-11-16.db && rota up --detach

The database that was there is kept beside it. Where a job would run a second time because the backup is older than its run, the \
queue is left drained: `rota resume` starts it again.")]
pub struct RestoreArgs {
    #[command(flatten)]
    pub state: StateArgs,
    /// The backup
    #[arg(value_name = "FILE")]
    pub file: PathBuf,
    /// Print JSON
    #[arg(long)]
    pub json: bool,
}

/// A command that only needs the daemon.
#[derive(Args)]
pub struct PlainArgs {
    #[command(flatten)]
    pub state: StateArgs,
    /// Print JSON
    #[arg(long)]
    pub json: bool,
}
