//! `rota __gang`: the processes of a gang with Gavel's iterator, one for each GPU, which meet at a port of this machine.

use anyhow::{Context, bail};
use std::ffi::OsString;
use std::net::{Ipv4Addr, TcpListener};
use std::os::unix::process::ExitStatusExt;
use std::process::{Command, ExitCode, ExitStatus};
use std::sync::mpsc;

/// Starts a process for each worker and waits for all of them. If one fails the others are ended, and its exit code is given.
pub fn gang(workers: &[u32], command: &[OsString]) -> anyhow::Result<ExitCode> {
    let Some((program, arguments)) = command.split_first() else { bail!("there is no command") };
    let port = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).and_then(|port| port.local_addr());
    let port = port.context("finding a free port for the gang")?.port().to_string();
    let size = workers.len().to_string();
    let (ended, ends) = mpsc::channel();
    let mut pids = Vec::new();
    for (rank, worker) in workers.iter().enumerate() {
        let rank = rank.to_string();
        let mut child = Command::new(program)
            .args(arguments)
            .args(["--local_rank", &rank, "--master_addr", "127.0.0.1", "--master_port", &port])
            .args(["--world_size", &size, "--rank", &rank])
            .env("GAVEL_WORKER_ID", worker.to_string())
            .spawn()
            .with_context(|| format!("starting {}", program.display()))?;
        pids.push(child.id());
        let ended = ended.clone();
        // The receiver is there until all have ended, or one has failed.
        std::thread::spawn(move || _ = ended.send(child.wait()));
    }
    for _ in workers {
        let status = ends.recv().context("waiting for the gang")?.context("waiting for the gang")?;
        if !status.success() {
            for pid in pids.iter().filter_map(|pid| rustix::process::Pid::from_raw(i32::try_from(*pid).ok()?)) {
                // The supervisor of the job ends what is left of it.
                _ = rustix::process::kill_process(pid, rustix::process::Signal::TERM);
            }
            return Ok(code_of(status));
        }
    }
    Ok(ExitCode::SUCCESS)
}

/// The exit code of a process as a shell would give it.
fn code_of(status: ExitStatus) -> ExitCode {
    let code = status.code().or_else(|| status.signal().map(|signal| 128 + signal)).unwrap_or(1);
    ExitCode::from(u8::try_from(code).unwrap_or(1))
}
