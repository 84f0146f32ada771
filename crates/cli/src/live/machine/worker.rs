//! `rota worker`: this machine's GPUs for a daemon on another machine.

use crate::live::args::WorkerArgs;
use crate::live::client::{Failure, usual_dir};
use crate::output;
use anyhow::Context;
use rota_daemon::{WorkerError, WorkerOptions};

/// Works until it is told to end.
pub fn worker(args: &WorkerArgs) -> anyhow::Result<()> {
    let options = WorkerOptions {
        join: args.join.clone(),
        token_file: args.token_file.clone(),
        name: args.name.clone(),
        virtual_gpus: args.virtual_gpus.clone(),
        is_in_allocation: args.allocation,
        down_file: args.down_file.clone(),
        gpus: args.gpus.clone(),
        gpu_type: args.gpu_type.clone(),
        state_dir: usual_dir(&args.state).join("worker"),
        address: args.address,
        keep_days: args.keep_days,
        program: std::env::current_exe().context("finding this program")?,
        remark: Box::new(|text| output::remark(&format!("rota worker: {text}"))),
    };
    rota_daemon::work(options).map_err(|error| match error {
        WorkerError::Token(_) | WorkerError::Gpu(_) => anyhow::Error::new(error),
        WorkerError::Work(_) => anyhow::Error::new(Failure(error.to_string())),
    })
}
