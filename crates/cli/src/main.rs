//! The binary `rota`: reads the command line, calls the crates, prints.
//!
//! Exit codes: 0 done, 1 failed, 2 bad usage or input. Data goes to stdout, progress and remarks to stderr.

mod adapt;
mod allocate;
mod args;
mod inputs;
mod learn;
mod live;
mod measure;
mod output;
mod policies;
mod shell;
mod simulate;
mod slurm;
mod sweep;
mod traces;
mod whatif;

use args::{Cli, Command};
use rota_daemon::api::JobVerb;
use std::process::ExitCode;

fn main() -> ExitCode {
    // What was typed is not given back to the memory: the process ends with it.
    let cli = std::mem::ManuallyDrop::new(Cli::read());
    match run(&cli.command) {
        Ok(code) => code,
        // A reader that closed its end (`rota policies | head`) has had what it wanted.
        Err(error) if output::is_closed_pipe(&error) => ExitCode::SUCCESS,
        Err(error) => {
            output::remark(&format!("rota: {error:#}"));
            if error.is::<live::client::Failure>() { ExitCode::FAILURE } else { ExitCode::from(2) }
        }
    }
}

fn run(command: &Command) -> anyhow::Result<ExitCode> {
    match command {
        Command::Run(args) => return live::jobs::run(args),
        Command::Wait(args) => return live::jobs::wait(args),
        Command::Batch(args) => return live::jobs::batch(args),
        Command::Top(args) => return live::top::run(args),
        Command::Doctor(args) => return live::doctor::doctor(args),
        Command::Check(args) => return live::daemon::check(args),
        Command::Supervise { dir } => return Ok(dir.as_ref().map_or_else(rota_exec::nurse, |dir| rota_exec::supervise(dir))),
        Command::Gang { workers, command } => return live::jobs::gang(workers, command),
        Command::Keep => {
            rota_daemon::keep();
            return Ok(ExitCode::SUCCESS);
        }
        Command::Demo(args) => return live::daemon::demo(args),
        Command::Complete { words } => return live::complete::complete(words),
        Command::Sim(args) => simulate::run(args),
        Command::Sweep(args) => sweep::run(args),
        Command::WhatIf(args) => whatif::run(args),
        Command::Trace(args) => traces::run(args),
        Command::Import(args) => slurm::import(args),
        Command::Alloc(args) => allocate::run(args),
        Command::Throughputs(args) => traces::run_throughputs(args),
        Command::Learn(args) => learn::run(args),
        Command::Adapt(args) => adapt::run(args),
        Command::Policies(args) => policies::run(args),
        Command::Up(args) => live::daemon::up(args),
        Command::Down(args) => live::daemon::down(args),
        Command::Backup(args) => live::daemon::backup(args),
        Command::Restore(args) => live::daemon::restore(args),
        Command::Notify(args) => live::daemon::notify(&args.verb),
        Command::Config(args) => live::daemon::config(&args.verb),
        Command::Status(args) => live::machine::status(args),
        Command::Gpus(args) => live::machine::gpus(args),
        Command::Worker(args) => live::machine::worker(args),
        Command::Node(args) => live::machine::node(&args.verb),
        Command::Drain(args) => live::machine::drain(args, "drain"),
        Command::Resume(args) => live::machine::drain(args, "resume"),
        Command::Policy(args) => live::machine::policy(&args.verb),
        Command::Claim(args) => live::machine::claim(args),
        Command::Profiles(args) => live::machine::profiles(args),
        Command::Submit(args) => live::jobs::submit(args),
        Command::Queue(args) => live::jobs::queue(args),
        Command::Show(args) => live::jobs::show(args),
        Command::Explain(args) => live::jobs::explain(args),
        Command::Predict(args) => live::predict::run(args),
        Command::Logs(args) => live::jobs::logs(args),
        Command::Cancel(args) => live::jobs::act(args, JobVerb::Cancel),
        Command::Hold(args) => live::jobs::act(args, JobVerb::Hold),
        Command::Release(args) => live::jobs::act(args, JobVerb::Release),
        Command::Priority(args) => live::jobs::prioritise(args),
        Command::Retry(args) => live::jobs::act(args, JobVerb::Retry),
        Command::Token(args) => live::daemon::token(&args.verb),
        Command::History(args) => live::past::history(args),
        Command::Report(args) => live::past::report(args),
        Command::Record(args) => live::machine::record(args),
        Command::Completions(args) => shell::completions(args),
        Command::Man(args) => shell::man(args),
    }?;
    Ok(ExitCode::SUCCESS)
}
