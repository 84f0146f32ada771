//! Options of `rota demo`.

use super::daemon::StateArgs;
use clap::Args;

/// `rota demo`.
#[derive(Args)]
#[command(after_help = "\
Examples:
  rota demo                        virtual GPUs, example jobs, a link to the dashboard
  rota demo --gpus h100:8          other GPUs

While the demo runs and no other queue does, plain commands (`rota status`) find it. Ctrl-C removes all of it.")]
pub struct DemoArgs {
    #[command(flatten)]
    pub state: StateArgs,
    /// The virtual GPUs
    #[arg(long, value_name = "TYPE:COUNT,…", default_value = "a100:2,t4:2")]
    pub gpus: String,
    /// Port of the dashboard; 0 takes any free one
    #[arg(long, value_name = "N", default_value_t = 0)]
    pub port: u16,
}
