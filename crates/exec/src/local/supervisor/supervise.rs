//! The supervisor: takes a run directory, starts its job once, and stays until nothing of the job is left.
//!
//! One thread, one `poll`. Because the supervisor is the reaper of everything the job leaves behind, "no children"
//! means "no process of the job": it neither looks for processes nor polls for their end.

use std::io;
use std::os::fd::OwnedFd;
use std::path::Path;
use std::process::ExitCode;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use rustix::event::{PollFd, PollFlags, poll};
use rustix::io::Errno;
use rustix::process::{Signal, WaitOptions};

use crate::executor::{Notice, Reach};
use crate::local::confinement::cgroup::JobCgroup;
use crate::local::processes::audit;
use crate::local::processes::identity::Identity;
use crate::local::processes::tree::ProcessTable;
use crate::local::run_directory::record::{Cause, ExitRecord, PreparedRecord};
use crate::local::run_directory::run_dir::{RunDir, SPEC, SUPERVISOR, VOID, seal, unseal};
use crate::local::run_directory::spec::{RunAs, RunSpec};
use crate::local::run_directory::taken::Taken;
use crate::local::supervisor::child::{Prepared, Program, Report};
use crate::local::supervisor::detach::detach;
use crate::local::supervisor::failure::{Step, explain, is_want_of_room};
use crate::local::supervisor::logs::{Log, OutputPipe, Pumped};
use crate::local::supervisor::signals::{Signals, Told};
use crate::local::supervisor::timer::{Timer, since_boot};
use crate::local::supervisor::usage::Usage;

/// What a job leaves behind when its main process has ended by itself has at most this long to end.
const LEFTOVERS_GRACE_MAX: Duration = Duration::from_secs(5);

/// How soon a tree that did not die is killed again, at first and at most: processes may fork while they are killed.
const KILL_AGAIN_MIN: Duration = Duration::from_millis(20);
const KILL_AGAIN_MAX: Duration = Duration::from_secs(1);

/// The body of the hidden command `rota __supervise DIR`: runs the job of a run directory and returns when its record
/// is written.
///
/// To be called first thing in a process of its own with one thread: it closes every descriptor but the standard ones
/// and makes those `/dev/null`. Exits with 0 if the record is written; 3 if the directory is void or was taken before,
/// 1 if it could not be taken, and in both cases nothing was started.
pub fn supervise(dir: &Path) -> ExitCode {
    ExitCode::from(supervise_to_code(dir))
}

/// As [`supervise`], for a process that must not return to its caller.
pub(crate) fn supervise_to_code(dir: &Path) -> u8 {
    match run(dir) {
        Ok(Outcome::Recorded) => 0,
        Ok(Outcome::Refused) => 3,
        Err(_) => 1,
    }
}

enum Outcome {
    Recorded,
    Refused,
}

fn run(name: &Path) -> io::Result<Outcome> {
    let path = std::fs::canonicalize(name)?;
    detach()?;
    let _ = rustix::thread::set_name(c"rota-supervise");
    let signals = Signals::block_all()?;
    rustix::process::set_child_subreaper(Some(rustix::process::getpid()))?;
    let dir = RunDir::open(&path)?;
    let Some(_lock) = take(&dir)? else { return Ok(Outcome::Refused) };
    let spec: RunSpec = dir
        .read(SPEC)?
        .and_then(|contents| unseal(&contents))
        .ok_or_else(|| io::Error::new(io::ErrorKind::InvalidData, "no whole spec.json"))?;
    let record = PreparedRecord::prepare(&dir)?;
    let ended = match start(&dir, [&path, name], &spec, &signals) {
        Ok(mut job) => {
            job.supervise(&signals);
            job.into_record(&spec)
        }
        Err(NotStarted { cause, message }) => never_ran(cause, message),
    };
    record.commit(&dir, ended)?;
    Ok(Outcome::Recorded)
}

/// Takes the directory, unless it is void or another supervisor had it. Whoever holds the lock decides: either `adopt`
/// has declared the directory void, and then it is never started, or we write `supervisor.json` before we let go.
fn take(dir: &RunDir) -> io::Result<Option<OwnedFd>> {
    let lock = match dir.try_lock()? {
        Some(lock) => lock,
        // A supervisor keeps the lock as long as its job runs: no use in waiting for it.
        None if dir.exists(SUPERVISOR)? => return Ok(None),
        None => dir.lock()?,
    };
    Ok((!dir.exists(VOID)? && !dir.exists(SUPERVISOR)?).then_some(lock))
}

/// A job that was never run, and why.
struct NotStarted {
    cause: Cause,
    message: String,
}

impl NotStarted {
    fn because(message: impl Into<String>) -> Self {
        Self { cause: Cause::CouldNotStart, message: message.into() }
    }

    /// The machine refused; whether that passes is for its error to say.
    fn refused(error: &io::Error, message: String) -> Self {
        Self { cause: if is_want_of_room(error) { Cause::NoRoom } else { Cause::CouldNotStart }, message }
    }
}

fn start(dir: &RunDir, names: [&Path; 2], spec: &RunSpec, signals: &Signals) -> Result<Job, NotStarted> {
    let user = whom_to_become(spec)?;
    let path = names[0];
    let log = Log::open(spec, names, user).map_err(|error| {
        NotStarted::refused(&error, format!("log `{}`: {error}; choose another place for it", spec.log.display()))
    })?;
    let program = Program::new(spec, path, user)
        .map_err(|_| NotStarted::because("command, directory or environment contains a NUL byte; remove it"))?;
    let system = |error: io::Error| NotStarted::refused(&error, format!("this machine could not make a process: {error}"));
    let own = Identity::of(std::process::id()).map_err(system)?;
    let owner = spec.run_as.as_ref().map_or_else(|| rustix::process::geteuid().as_raw(), |user| user.uid);
    let audit_session = audit::begin(owner);
    let output = OutputPipe::new().map_err(system)?;
    let timer = Timer::new().map_err(system)?;
    let mut notes = Vec::new();
    let name = format!("rota-{}.{}-{}-{}", spec.job, spec.attempt, own.pid, own.start_ticks);
    let cgroup = Cgroup(JobCgroup::create(spec, &name, &mut notes));
    let folder = cgroup.0.as_ref().and_then(|cgroup| cgroup.open().ok());
    let prepared = program
        .prepare(std::os::fd::AsFd::as_fd(&output.writer), folder.as_ref().map(std::os::fd::AsFd::as_fd))
        .map_err(system)?;
    if let Some(cgroup) = cgroup.0.as_ref().filter(|_| !prepared.in_cgroup)
        && let Err(error) = cgroup.add(prepared.pid)
    {
        notes.push(format!("limits not enforced: cannot put the job into its cgroup: {error}"));
    }
    let taken = Identity::of(prepared.pid).and_then(|process| {
        Ok(Taken {
            job: spec.job,
            attempt: spec.attempt,
            supervisor: own,
            process: Some(process),
            cgroup: cgroup.0.as_ref().map(|cgroup| cgroup.path().to_owned()),
            mark: path.to_owned(),
            log_pipe: output.inode()?,
            audit_session,
            notes,
        })
    });
    match taken.map_err(system).and_then(|taken| announce(dir, path, taken, signals)) {
        Ok(process) => Ok(Job::begin(spec, prepared, process, output, log, cgroup, timer)),
        Err(not_started) => {
            prepared.cancel();
            Err(not_started)
        }
    }
}

/// Says who supervises what, durable before the job runs: whoever comes after a power loss must not think that it never
/// started. The last moment to be stopped without having started.
fn announce(dir: &RunDir, path: &Path, taken: Taken, signals: &Signals) -> Result<Option<Identity>, NotStarted> {
    seal(&taken)
        .and_then(|contents| dir.publish(SUPERVISOR, &contents))
        .and_then(|()| dir.sync())
        .map_err(|error| NotStarted::refused(&error, format!("run directory `{}`: {error}; make room there", path.display())))?;
    while let Some(told) = signals.next() {
        if told != Told::ChildEnded {
            return Err(NotStarted { cause: Cause::StopRequested, message: "stopped before it was started".to_owned() });
        }
    }
    Ok(taken.process)
}

/// Whose the job is to be, if that is not us already.
fn whom_to_become(spec: &RunSpec) -> Result<Option<&RunAs>, NotStarted> {
    let Some(user) = &spec.run_as else { return Ok(None) };
    let (uid, gid) = (rustix::process::geteuid(), rustix::process::getegid());
    if uid.is_root() {
        Ok(Some(user))
    } else if uid.as_raw() == user.uid && gid.as_raw() == user.gid {
        Ok(None)
    } else {
        Err(NotStarted::because(explain(spec, Step::User, &Errno::PERM.into())))
    }
}

/// A job's cgroup, which goes when its supervisor is done.
struct Cgroup(Option<JobCgroup>);

impl Drop for Cgroup {
    fn drop(&mut self) {
        if let Some(cgroup) = &self.0 {
            cgroup.remove();
        }
    }
}

/// What is being done with the job.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Phase {
    /// Nothing, it runs.
    Running,
    /// It was asked to end and has until the deadline.
    Ending { deadline: Duration },
    /// It is being killed, next time at the deadline.
    Killing { pause: Duration },
}

/// How the main process ended.
struct Ended {
    code: Option<i32>,
    signal: Option<i32>,
    at: Duration,
    unix_ns: u64,
}

/// A job from the moment its gate opens.
struct Job {
    pid: u32,
    process: Option<Identity>,
    report: Report,
    output: Option<OwnedFd>,
    log: Log,
    cgroup: Cgroup,
    timer: Timer,
    grace: Duration,
    notice: Notice,
    phase: Phase,
    cause: Option<Cause>,
    started: Duration,
    started_unix_ns: u64,
    ended: Option<Ended>,
}

impl Job {
    fn begin(
        spec: &RunSpec,
        prepared: Prepared,
        process: Option<Identity>,
        output: OutputPipe,
        log: Log,
        cgroup: Cgroup,
        timer: Timer,
    ) -> Self {
        let OutputPipe { reader, writer } = output;
        // The job's copies are to be the only ones: when they are closed, so is the log.
        drop(writer);
        let started = since_boot();
        let started_unix_ns = unix_ns();
        let pid = prepared.pid;
        let report = prepared.go();
        let limit = spec.time_limit.and_then(|limit| started.checked_add(limit));
        timer.set(limit);
        Self {
            pid,
            process,
            report,
            output: Some(reader),
            log,
            cgroup,
            timer,
            grace: spec.grace,
            notice: spec.notice.unwrap_or(Notice::usual(spec.grace)),
            phase: Phase::Running,
            cause: None,
            started,
            started_unix_ns,
            ended: None,
        }
    }

    /// Returns when no process of the job is left.
    fn supervise(&mut self, signals: &Signals) {
        loop {
            self.wait(signals);
            // Read before reaping, or the word of an end that comes in between would be taken without being heeded.
            // Heeded after reaping: a job that has ended by itself is not said to have been stopped by what came later.
            let told: Vec<Told> = std::iter::from_fn(|| signals.next()).collect();
            if !self.reap() {
                return;
            }
            for told in told {
                self.heed(told);
            }
            if self.timer.expired() {
                self.deadline();
            }
        }
    }

    /// Waits for anything to happen, and takes output to the log.
    fn wait(&mut self, signals: &Signals) {
        let mut wanted = vec![PollFd::new(signals, PollFlags::IN), PollFd::new(&self.timer, PollFlags::IN)];
        wanted.extend(self.output.as_ref().map(|output| PollFd::new(output, PollFlags::IN)));
        if poll(&mut wanted, None).is_err() {
            // No memory, if anything: the job is not to suffer for it, and must not be left.
            std::thread::sleep(KILL_AGAIN_MIN);
        }
        let heard = wanted.get(2).map_or(PollFlags::empty(), PollFd::revents);
        // Nobody can write any more, and everything was read: most short jobs say nothing.
        let is_done = heard == PollFlags::HUP;
        if let Some(output) = self.output.take_if(|_| !heard.is_empty())
            && !is_done
            && self.log.pump(&output) != Pumped::Closed
        {
            self.output = Some(output);
        }
    }

    /// Takes the status of every process that has ended; false when none is left.
    fn reap(&mut self) -> bool {
        let left = loop {
            match rustix::process::wait(WaitOptions::NOHANG) {
                Ok(Some((pid, status))) => {
                    if pid.as_raw_nonzero().get().unsigned_abs() == self.pid {
                        let (code, signal) = (status.exit_status(), status.terminating_signal());
                        self.ended = Some(Ended { code, signal, at: since_boot(), unix_ns: unix_ns() });
                    }
                }
                Ok(None) => break true,
                Err(Errno::INTR) => {}
                Err(_) => break false,
            }
        };
        if left && self.ended.is_some() {
            self.end_leftovers();
        }
        left
    }

    /// The main process has ended and others are left: they have their own, short grace.
    fn end_leftovers(&mut self) {
        let latest = since_boot() + self.grace.min(LEFTOVERS_GRACE_MAX);
        match self.phase {
            Phase::Running => self.end(latest),
            Phase::Ending { deadline } if deadline > latest => {
                self.phase = Phase::Ending { deadline: latest };
                self.timer.set(Some(latest));
            }
            Phase::Ending { .. } | Phase::Killing { .. } => {}
        }
    }

    fn heed(&mut self, told: Told) {
        match told {
            Told::Stop if self.phase == Phase::Running => {
                self.blame(Cause::StopRequested);
                self.end(since_boot().saturating_add(self.grace));
            }
            Told::Notice | Told::Heard if self.phase == Phase::Running => {
                self.blame(Cause::StopRequested);
                self.give_notice(told == Told::Notice);
            }
            Told::ChildEnded | Told::Stop | Told::Notice | Told::Heard => {}
            Told::Kill => {
                self.blame(Cause::StopRequested);
                self.kill(KILL_AGAIN_MIN);
            }
        }
    }

    fn deadline(&mut self) {
        match self.phase {
            Phase::Running => {
                self.blame(Cause::TimeLimit);
                self.end(since_boot().saturating_add(self.grace));
            }
            Phase::Ending { .. } => self.kill(KILL_AGAIN_MIN),
            Phase::Killing { pause } => self.kill((pause * 2).min(KILL_AGAIN_MAX)),
        }
    }

    /// The first reason counts, and none does once the main process has ended by itself.
    fn blame(&mut self, cause: Cause) {
        if self.ended.is_none() {
            self.cause.get_or_insert(cause);
        }
    }

    /// Asks every process to end. One that is stopped is continued, or it could not heed.
    fn end(&mut self, deadline: Duration) {
        self.phase = Phase::Ending { deadline };
        signal_all(&[Signal::TERM, Signal::CONT]);
        self.timer.set(Some(deadline));
    }

    /// The job must save and leave. It hears of it by its own signal, or has heard of it already; its grace begins.
    fn give_notice(&mut self, by_signal: bool) {
        let deadline = since_boot().saturating_add(self.notice.grace);
        self.phase = Phase::Ending { deadline };
        self.timer.set(Some(deadline));
        let Some(signal) = Signal::from_named_raw(self.notice.signal).filter(|_| by_signal) else { return };
        match self.notice.reach {
            Reach::All => signal_all(&[signal, Signal::CONT]),
            Reach::Main => {
                let main = self.pid;
                let table = ProcessTable::read();
                table.descendants([std::process::id()]).into_iter().filter(|member| member.pid == main).for_each(|member| {
                    member.signal(&[signal, Signal::CONT]);
                });
            }
        }
    }

    fn kill(&mut self, pause: Duration) {
        self.phase = Phase::Killing { pause };
        if let Some(cgroup) = &self.cgroup.0 {
            cgroup.kill();
        }
        // Also with a cgroup: a process of root may have left it.
        signal_all(&[Signal::KILL]);
        self.timer.set(Some(since_boot() + pause));
    }

    /// What there is to say at the end.
    fn into_record(mut self, spec: &RunSpec) -> ExitRecord {
        // Whatever of the job is left in the pipe; a stranger who was handed the pipe may write on, and is not waited for.
        if let Some(output) = &self.output {
            self.log.pump(output);
        }
        let ended = self.ended.unwrap_or_else(|| Ended { code: None, signal: None, at: since_boot(), unix_ns: unix_ns() });
        let usage = Usage::of_children();
        let mut record = ExitRecord {
            code: ended.code,
            signal: ended.signal,
            cause: self.cause.unwrap_or(Cause::Exited),
            started_unix_ns: self.started_unix_ns,
            finished_unix_ns: ended.unix_ns,
            duration_ns: u64::try_from(ended.at.saturating_sub(self.started).as_nanos()).unwrap_or(u64::MAX),
            process: self.process,
            user_seconds: usage.user_seconds,
            system_seconds: usage.system_seconds,
            max_rss_kib: usage.max_rss_kib,
            log_lost_bytes: self.log.lost_bytes(),
            message: None,
        };
        if let Some((step, error)) = self.report.failure() {
            let is_passing = error.raw_os_error() == Some(libc::EAGAIN);
            record.cause = if is_passing { Cause::NoRoom } else { Cause::CouldNotStart };
            (record.code, record.signal) = (None, None);
            record.message = Some(explain(spec, step, &error));
        } else if self.cause.is_none()
            && record.code != Some(0)
            && self.cgroup.0.as_ref().is_some_and(|group| group.out_of_memory_kills() > 0)
        {
            record.cause = Cause::OutOfMemory;
            record.message = Some(spec.memory_max_bytes.map_or_else(
                || "killed because its cgroup or the machine ran out of memory; use less".to_owned(),
                |limit| format!("used more than its {} MiB of memory; ask for more, or use less", limit >> 20),
            ));
        }
        record
    }
}

/// Signals everything below this process, which is the whole job.
fn signal_all(signals: &[Signal]) {
    for member in ProcessTable::read().descendants([std::process::id()]) {
        member.signal(signals);
    }
}

/// The record of a job that was never run.
fn never_ran(cause: Cause, message: String) -> ExitRecord {
    let now = unix_ns();
    ExitRecord {
        code: None,
        signal: None,
        cause,
        started_unix_ns: now,
        finished_unix_ns: now,
        duration_ns: 0,
        process: None,
        user_seconds: 0.0,
        system_seconds: 0.0,
        max_rss_kib: 0,
        log_lost_bytes: 0,
        message: Some(message),
    }
}

fn unix_ns() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_nanos()).unwrap_or(u64::MAX)
}
