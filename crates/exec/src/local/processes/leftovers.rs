//! A job's processes, found with its supervisor or without.
//!
//! While the supervisor lives, everything below it is the job's. Once it was killed, its main process is killed with
//! it, and the others are children of whoever reaps orphans. Then a process is the job's only if that can be proved:
//! it is the main process; or in the job's cgroup; or in the job's audit session; or carries the run directory in its
//! environment; or is in the main process's session and holds the job's output pipe, which no other process has; or stems
//! from one of these, or shares the main process's session with one.

use std::collections::BTreeSet;
use std::ffi::OsString;
use std::fs;
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{Signal, pidfd_send_signal};

use crate::local::confinement::cgroup::JobCgroup;
use crate::local::processes::audit;
use crate::local::processes::identity::{boot_id, is_shortage, open_process};
use crate::local::processes::tree::{Member, ProcessTable};
use crate::local::run_directory::spec::MARK;
use crate::local::run_directory::taken::{Taken, taken};

/// How long [`kill_leftovers`] waits for what it has killed to be gone.
const GONE_MAX: Duration = Duration::from_secs(5);

/// The processes of a running job, its supervisor not included: to tell them from strangers on a GPU. Empty if the job
/// has not started, has ended, or its directory cannot be read.
pub fn job_processes(dir: &Path) -> Vec<u32> {
    job_processes_in(dir, &ProcessTable::read())
}

/// [`job_processes`] with the processes read before, for those who ask about many jobs.
pub fn job_processes_in(dir: &Path, table: &ProcessTable) -> Vec<u32> {
    let Ok(Some(taken)) = of_this_boot(dir) else { return Vec::new() };
    let members = if supervisor_in(&taken, table) { below_supervisor(&taken, table) } else { proven(&taken, table) };
    members.unwrap_or_default().into_iter().map(|member| member.pid).collect()
}

/// Kills what is left of a job whose supervisor was killed, and returns how many processes that were. Does nothing while
/// the supervisor lives, and never touches a process that is not provably the job's.
pub fn kill_leftovers(dir: &Path) -> usize {
    try_kill_leftovers(dir).unwrap_or(0)
}

/// [`kill_leftovers`] for a caller who gives the job's GPUs to others afterwards: fails where it cannot be told what is left.
pub(crate) fn try_kill_leftovers(dir: &Path) -> io::Result<usize> {
    let Some(taken) = of_this_boot(dir)? else { return Ok(0) };
    let cgroup = taken.cgroup.as_deref().and_then(JobCgroup::existing);
    let since = Instant::now();
    let mut killed = BTreeSet::new();
    loop {
        let table = ProcessTable::try_read()?;
        if supervisor_in(&taken, &table) {
            return Ok(killed.len());
        }
        let left = proven(&taken, &table)?;
        let mut dying = Vec::new();
        for member in left {
            dying.extend(kill(member, &mut killed)?);
        }
        if let Some(cgroup) = &cgroup {
            cgroup.kill();
        }
        // Again until none is found: they may have forked while they were killed.
        if dying.is_empty() || !wait_for(&dying, GONE_MAX.saturating_sub(since.elapsed())) {
            break;
        }
    }
    if let Some(cgroup) = &cgroup {
        cgroup.remove();
    }
    Ok(killed.len())
}

fn kill(member: Member, killed: &mut BTreeSet<Member>) -> io::Result<Option<OwnedFd>> {
    let Some(pidfd) = known(open_process(member.pid, member.start_ticks))?.flatten() else { return Ok(None) };
    if pidfd_send_signal(&pidfd, Signal::KILL).is_err() {
        return Ok(None);
    }
    killed.insert(member);
    Ok(Some(pidfd))
}

/// Waits until every one of these has ended; false if the time is over first.
fn wait_for(processes: &[OwnedFd], within: Duration) -> bool {
    let until = Instant::now() + within;
    processes.iter().all(|process| {
        let left = until.saturating_duration_since(Instant::now());
        let left = Timespec { tv_sec: left.as_secs().cast_signed(), tv_nsec: left.subsec_nanos().into() };
        poll(&mut [PollFd::new(process, PollFlags::IN)], Some(&left)).is_ok_and(|ready| ready > 0)
    })
}

fn of_this_boot(dir: &Path) -> io::Result<Option<Taken>> {
    let taken = match taken(dir) {
        // Removed, or torn by a power loss: nothing of this boot.
        Err(error) if matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::InvalidData) => return Ok(None),
        taken => taken?,
    };
    let boot_id = boot_id()?;
    Ok(taken.filter(|taken| taken.supervisor.boot_id == boot_id))
}

fn supervisor_in(taken: &Taken, table: &ProcessTable) -> bool {
    table.member(taken.supervisor.pid).is_some_and(|member| member.start_ticks == taken.supervisor.start_ticks)
}

fn below_supervisor(taken: &Taken, table: &ProcessTable) -> io::Result<BTreeSet<Member>> {
    let mut members: BTreeSet<Member> = table.descendants([taken.supervisor.pid]).into_iter().collect();
    members.extend(in_cgroup(taken, table)?);
    Ok(members)
}

fn in_cgroup(taken: &Taken, table: &ProcessTable) -> io::Result<Vec<Member>> {
    let cgroup = taken.cgroup.as_deref().and_then(JobCgroup::existing);
    let pids = cgroup.map_or(Ok(Vec::new()), |cgroup| cgroup.processes())?;
    Ok(pids.into_iter().filter_map(|pid| table.member(pid)).collect())
}

/// Every living process that is provably the job's, without its supervisor's help.
fn proven(taken: &Taken, table: &ProcessTable) -> io::Result<BTreeSet<Member>> {
    // A daemon must not kill itself, whatever environment somebody has started it with.
    let ourselves = table.ancestry(std::process::id());
    let mark: OsString = [MARK.as_ref(), "=".as_ref(), taken.mark.as_os_str()].into_iter().collect();
    let session = taken.process.as_ref().map(|process| process.pid);
    let pipe = format!("pipe:[{}]", taken.log_pipe);
    let mut found: BTreeSet<Member> = in_cgroup(taken, table)?.into_iter().collect();
    let main = taken.process.as_ref().map(|process| Member { pid: process.pid, start_ticks: process.start_ticks });
    found.extend(main.filter(|main| table.member(main.pid) == Some(*main)));
    for (pid, stat) in table.iter() {
        // Nothing of the job is older than its supervisor.
        if stat.start_ticks >= taken.supervisor.start_ticks
            && (is_audited(pid, taken)? || is_marked(pid, &mark)? || (Some(stat.session) == session && holds(pid, &pipe)?))
        {
            found.extend(table.member(pid));
        }
    }
    // A session's number is not given to another while one process is left in it: one member proves all.
    if found.iter().any(|member| table.get(member.pid).is_some_and(|stat| Some(stat.session) == session)) {
        let same_session = table.iter().filter(|(_, stat)| Some(stat.session) == session);
        found.extend(same_session.filter_map(|(pid, _)| table.member(pid)));
    }
    found.extend(table.descendants(found.iter().map(|member| member.pid)));
    found.retain(|member| !ourselves.contains(&member.pid));
    Ok(found)
}

fn is_audited(pid: u32, taken: &Taken) -> io::Result<bool> {
    let Some(session) = taken.audit_session else { return Ok(false) };
    Ok(known(audit::session_of(&pid.to_string()))? == Some(session))
}

fn is_marked(pid: u32, mark: &OsString) -> io::Result<bool> {
    let environment = known(fs::read(format!("/proc/{pid}/environ")))?.unwrap_or_default();
    Ok(environment.split(|byte| *byte == 0).any(|variable| variable == mark.as_bytes()))
}

fn holds(pid: u32, pipe: &str) -> io::Result<bool> {
    let descriptors = known(fs::read_dir(format!("/proc/{pid}/fd")))?.into_iter().flatten().flatten();
    Ok(descriptors.filter_map(|entry| fs::read_link(entry.path()).ok()).any(|target| target.as_os_str() == pipe))
}

/// What was read about a process; `None` if the process is gone or another user's.
fn known<T>(read: io::Result<T>) -> io::Result<Option<T>> {
    match read {
        Err(error) if is_shortage(&error) => Err(error),
        read => Ok(read.ok()),
    }
}
