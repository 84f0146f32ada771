//! The caller of Gavel's protocol, which has no tokens: the kernel says whose process has the other end of the connection. It must be a
//! process of the run that it speaks for.

use crate::lease::routes::LeaseService;
use crate::machine::platform::{Refusal, RefusalKind};
use crate::watchmen::connection::Link;
use std::net::SocketAddr;

/// The run that a call speaks for.
struct Run {
    job: u64,
    lease: u32,
    /// The user that its processes run as.
    uid: u32,
}

/// Refuses the call of a process that is none of the job's present run. A job that has no run has nothing to guard.
pub async fn check(service: &LeaseService, client: SocketAddr, job: u64) -> Result<(), Refusal> {
    let Some(lease) = service.leases.number(job) else { return Ok(()) };
    let Some(owner) = service.board.read().jobs.get(&job).map(|record| record.uid) else { return Ok(()) };
    let own_uid = rustix::process::geteuid().as_raw();
    // Only a daemon of root's runs jobs as their owners.
    let run = Run { job, lease, uid: if own_uid == 0 { owner } else { own_uid } };
    let link = Link { client, server: service.leases.address() };
    let checked = tokio::task::spawn_blocking(move || check_process(&link, &run)).await;
    checked.unwrap_or_else(|_| Err(Refusal::new(RefusalKind::Unavailable, "the caller could not be looked up; try again")))
}

fn check_process(link: &Link, run: &Run) -> Result<(), Refusal> {
    let Run { job, lease, uid } = run;
    let refuse = |who: String| {
        let message = format!("job {job}: {who}; only processes of the job's present run may ask for its lease");
        Err(Refusal::new(RefusalKind::Forbidden, message))
    };
    let Some(neighbour) = link.neighbour() else { return refuse("the caller is not a process of this machine".to_owned()) };
    if neighbour.uid != *uid {
        return refuse(format!("the caller is a process of user {}, and the job's are of user {uid}", neighbour.uid));
    }
    let Some(pid) = neighbour.process.map(|process| process.holder.pid) else {
        return refuse("the caller's process is not to be found".to_owned());
    };
    let Ok(environment) = std::fs::read(format!("/proc/{pid}/environ")) else {
        return refuse(format!("the environment of process {pid}, which calls, cannot be read"));
    };
    let has = |variable: String| environment.split(|byte| *byte == 0).any(|entry| entry == variable.as_bytes());
    if has(format!("ROTA_JOB_ID={job}")) && has(format!("ROTA_LEASE={lease}")) {
        return Ok(());
    }
    refuse(format!("process {pid}, which calls, is none of its lease {lease}"))
}
