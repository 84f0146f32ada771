//! The binary `rota`: reads the command line, calls the crates, prints.
//!
//! Exit codes: 0 done, 1 failed, 2 bad usage or input. Data goes to stdout, progress and remarks to stderr.

mod alloc;
mod alloc_inputs;
mod args;
mod gavel;
mod inputs;
mod output;
mod policies;
mod sim;
mod sweep;
mod sweep_charts;
mod sweep_grid;
mod sweep_rows;
mod throughputs;
mod trace;

use args::{Cli, Command};
use clap::Parser;
use std::process::ExitCode;

fn main() -> ExitCode {
    let cli = Cli::parse();
    let done = match &cli.command {
        Command::Sim(args) => sim::run(args),
        Command::Sweep(args) => sweep::run(args),
        Command::Trace(args) => trace::run(args),
        Command::Alloc(args) => alloc::run(args),
        Command::Throughputs(args) => throughputs::run(args),
        Command::Policies(args) => policies::run(args),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        // A reader that closed its end (`rota policies | head`) has had what it wanted.
        Err(error) if output::is_closed_pipe(&error) => ExitCode::SUCCESS,
        Err(error) => {
            output::remark(&format!("rota: {error:#}"));
            ExitCode::from(2)
        }
    }
}
