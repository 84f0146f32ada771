//! Options of the commands about several machines: `worker`, `node`.

use super::StateArgs;
use clap::{Args, Subcommand};
use std::net::IpAddr;
use std::path::PathBuf;

/// `rota worker`.
#[derive(Args)]
#[command(after_help = "\
Examples:
  rota up --workers-port 7411 --workers-bind 10.0.0.1          on the machine with the queue
  rota worker --join 10.0.0.1:7411 --token-file worker-token   on each other machine

The daemon writes the file `worker-token` into its state directory; each other machine needs a copy.
The worker stays in the foreground, and connects again whenever the connection is lost. Its jobs run on when it ends, and are found again by the next one.
docs/cluster.md has a lab of three machines, step by step.")]
pub struct WorkerArgs {
    /// The address of the daemon: HOST:PORT of `rota up --workers-port`
    #[arg(long, value_name = "ADDR")]
    pub join: String,
    /// A copy of the file `worker-token` in the daemon's state directory
    #[arg(long, value_name = "FILE")]
    pub token_file: PathBuf,
    /// The name of this node [default: the name of this machine]
    #[arg(long, value_name = "N")]
    pub name: Option<String>,
    /// Invented GPUs in place of real ones: real processes, modelled telemetry
    #[arg(long, value_name = "TYPE:COUNT,…")]
    pub virtual_gpus: Option<String>,
    /// This worker is in an allocation of a cluster manager: when it is told to end, its jobs end, too, and wait again
    #[arg(long)]
    pub allocation: bool,
    /// The file by which the daemon says that it has ended for good: this worker then leaves when nothing runs here any more
    #[arg(long, value_name = "FILE", requires = "allocation")]
    pub down_file: Option<PathBuf>,
    /// The only GPUs that are used, by index or UUID, as a cluster manager's `CUDA_VISIBLE_DEVICES` names them
    #[arg(long, value_name = "LIST", value_delimiter = ',')]
    pub gpus: Vec<String>,
    /// The type of its GPUs, in the cluster manager's word [default: as the driver calls them]
    #[arg(long, value_name = "TYPE")]
    pub gpu_type: Option<String>,
    /// The address at which other nodes reach this one, for jobs over several nodes [default: where its connection comes from]
    #[arg(long, value_name = "IP")]
    pub address: Option<IpAddr>,
    /// How many days the directories of runs that are over are kept on this machine; the daemon has their output
    #[arg(long, value_name = "DAYS", default_value = "7", value_parser = days)]
    pub keep_days: f64,
    #[command(flatten)]
    pub state: StateArgs,
}

/// Days from none to ten years.
fn days(text: &str) -> Result<f64, String> {
    match text.parse::<f64>() {
        Ok(days) if (0.0..=3650.0).contains(&days) => Ok(days),
        _ => Err("write a number of days from 0 to 3650".to_owned()),
    }
}

/// `rota node`.
#[derive(Args)]
#[command(after_help = "\
Examples:
  rota node list           the machines, whether they answer, and the jobs on them
  rota node forget clara   clara is switched off and will not come back: its jobs are over")]
pub struct NodeArgs {
    #[command(subcommand)]
    pub verb: NodeVerb,
}

/// What to do with nodes.
#[derive(Subcommand)]
pub enum NodeVerb {
    /// List the machines whose GPUs are used
    List {
        #[command(flatten)]
        state: StateArgs,
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
    /// Forget a lost machine that will not come back, and end its jobs
    #[command(after_help = "\
Jobs on a machine that does not answer may still be running. Use this only when you know that they are not, for example because the \
machine is switched off. Jobs that save their work through their leases wait again; the others end as lost. If the worker comes back \
after all, it kills what is left of them.")]
    Forget {
        #[command(flatten)]
        state: StateArgs,
        /// The machine's name, as `rota node list` prints it
        #[arg(value_name = "NAME")]
        name: String,
    },
}
