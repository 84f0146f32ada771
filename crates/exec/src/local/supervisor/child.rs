//! The job's main process, from fork to exec.
//!
//! The process is made and set up first and waits at a gate; it becomes the job's program only when the supervisor
//! opens the gate, after `supervisor.json` is durable. A supervisor that dies before leaves no job behind: the gate
//! closes and the process ends.
#![expect(
    unsafe_code,
    reason = "between fork and exec only plain system calls are allowed, and rustix has neither fork nor exec"
)]

use std::convert::Infallible;
use std::ffi::{CStr, CString, NulError, OsStr};
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd, RawFd};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use rustix::io::Errno;
use rustix::process::{Pid, PidfdFlags, Resource, Rlimit, Signal, WaitId, WaitIdOptions};
use rustix::thread::{Gid, Uid};

use crate::local::run_directory::spec::{MARK, RunAs, RunSpec};
use crate::local::supervisor::failure::Step;
use crate::local::supervisor::signals;

/// What is looked through when the environment has no `PATH`.
const DEFAULT_PATH: &str = "/usr/local/bin:/usr/bin:/bin";

const SHELL: &CStr = c"/bin/sh";

/// Everything exec needs, made before the fork: afterwards nothing may be allocated.
#[derive(Debug)]
pub(crate) struct Program {
    /// Files to try, in order.
    files: Vec<CString>,
    arguments: Vec<CString>,
    environment: Vec<CString>,
    cwd: CString,
    user: Option<(Uid, Gid, Vec<Gid>)>,
    no_new_privileges: bool,
    resource_limits: Vec<(Resource, Rlimit)>,
}

impl Program {
    /// `user` is whom to become, if that is another.
    pub(crate) fn new(spec: &RunSpec, mark: &Path, user: Option<&RunAs>) -> Result<Self, NulError> {
        let (files, arguments) =
            (candidates(spec)?, spec.command.iter().map(|argument| c_string(argument)).collect::<Result<_, _>>()?);
        let job = spec.job.to_string();
        let is = |name: &OsStr, other: &str| name.as_bytes() == other.as_bytes();
        let mut environment = Vec::new();
        for (position, (name, value)) in spec.env.iter().enumerate() {
            // Of a name given twice the last counts; most programs would see the first.
            let again = spec.env[position + 1..].iter().any(|(later, _)| later == name);
            if !again && !is(name, MARK) {
                environment.push(variable(name, value)?);
            }
        }
        if !spec.env.iter().any(|(name, _)| is(name, "ROTA_JOB_ID")) {
            environment.push(variable(OsStr::new("ROTA_JOB_ID"), OsStr::new(&job))?);
        }
        environment.push(variable(OsStr::new(MARK), mark.as_os_str())?);
        let group = |gid: &u32| Gid::from_raw(*gid);
        let user = user.map(|user| (Uid::from_raw(user.uid), group(&user.gid), user.groups.iter().map(group).collect()));
        let cwd = c_string(spec.cwd.as_os_str())?;
        let resource_limits = spec.resource_limits.capped();
        Ok(Self { files, arguments, environment, cwd, user, no_new_privileges: spec.no_new_privileges, resource_limits })
    }

    /// Makes the process, which waits at its gate with standard output and error on `output`.
    pub(crate) fn prepare(&self, output: BorrowedFd<'_>, cgroup: Option<BorrowedFd<'_>>) -> io::Result<Prepared> {
        let (gate_reader, gate_writer) = rustix::pipe::pipe_with(rustix::pipe::PipeFlags::CLOEXEC)?;
        let (report_reader, report_writer) = rustix::pipe::pipe_with(rustix::pipe::PipeFlags::CLOEXEC)?;
        rustix::fs::fcntl_setfl(&report_reader, rustix::fs::OFlags::NONBLOCK)?;
        let arguments = pointers(&self.arguments);
        let environment = pointers(&self.environment);
        // `/bin/sh FILE ARGUMENTS`, for scripts without a first line that names their interpreter.
        let mut script = vec![SHELL.as_ptr(), std::ptr::null()];
        script.extend_from_slice(arguments.get(1..).unwrap_or(&[]));
        if script.len() == 2 {
            script.push(std::ptr::null());
        }
        let supervisor = rustix::process::getpid();
        match fork(cgroup)? {
            Forked::Parent { pid, pidfd, in_cgroup } => {
                Ok(Prepared { pid, pidfd, in_cgroup, gate: gate_writer, report: report_reader })
            }
            Forked::Child => {
                // The gate must close when the supervisor dies: this end is not to be held by the process that waits.
                // SAFETY: the descriptor is this process's copy, used no more.
                unsafe { rustix::io::close(gate_writer.as_raw_fd()) };
                let mut images = Images { arguments: &arguments, environment: &environment, script: &mut script };
                let Err((step, error)) = self.become_job(supervisor, output, gate_reader.as_fd(), &mut images);
                let mut message = [0; REPORT_BYTES];
                message[0] = step as u8;
                message[1..].copy_from_slice(&error.raw_os_error().to_ne_bytes());
                let _ = rustix::io::write(&report_writer, &message);
                // SAFETY: ends this process without running anything of the supervisor's.
                unsafe { libc::_exit(127) }
            }
        }
    }

    /// The life of the process before it is the job. Nothing here allocates.
    fn become_job(
        &self,
        supervisor: Pid,
        output: BorrowedFd<'_>,
        gate: BorrowedFd<'_>,
        images: &mut Images<'_>,
    ) -> Result<Infallible, (Step, Errno)> {
        let at = |step: Step| move |error: Errno| (step, error);
        rustix::process::setsid().map_err(at(Step::Session))?;
        duplicate(output, libc::STDOUT_FILENO).map_err(at(Step::Output))?;
        duplicate(output, libc::STDERR_FILENO).map_err(at(Step::Output))?;
        signals::reset_all();
        // Before the user is changed: the number of processes is looked at there.
        for (resource, limit) in &self.resource_limits {
            rustix::process::setrlimit(*resource, *limit).map_err(at(Step::Limits))?;
        }
        if let Some((uid, gid, groups)) = &self.user {
            rustix::thread::set_thread_groups(groups).map_err(at(Step::User))?;
            rustix::thread::set_thread_res_gid(*gid, *gid, *gid).map_err(at(Step::User))?;
            rustix::thread::set_thread_res_uid(*uid, *uid, *uid).map_err(at(Step::User))?;
            let same = rustix::process::getuid() == *uid && rustix::process::geteuid() == *uid;
            let same_group = rustix::process::getgid() == *gid && rustix::process::getegid() == *gid;
            // A way back to root would make all this a pretence.
            let way_back = !uid.is_root() && rustix::thread::set_thread_uid(Uid::ROOT).is_ok();
            if !same || !same_group || way_back {
                return Err((Step::User, Errno::PERM));
            }
        }
        if self.no_new_privileges {
            rustix::thread::set_no_new_privs(true).map_err(at(Step::User))?;
        }
        // Only now: changing the user forgets it.
        rustix::process::set_parent_process_death_signal(Some(Signal::KILL)).map_err(at(Step::Session))?;
        if rustix::process::getppid() != Some(supervisor) {
            return Err((Step::Gate, Errno::SRCH));
        }
        rustix::process::umask(rustix::fs::Mode::from_raw_mode(0o022));
        rustix::process::chdir(self.cwd.as_c_str()).map_err(at(Step::Directory))?;
        wait_at(gate).map_err(at(Step::Gate))?;
        Err((Step::Program, self.exec(images)))
    }

    /// Tries the files in the order of `PATH`, as `execvp` does.
    fn exec(&self, images: &mut Images<'_>) -> Errno {
        let mut failure = Errno::NOENT;
        for file in &self.files {
            // SAFETY: pointers to NUL-terminated strings, ended by a null pointer, all made before the fork.
            unsafe { libc::execve(file.as_ptr(), images.arguments.as_ptr(), images.environment.as_ptr()) };
            let mut error = last_error();
            if error == Errno::NOEXEC {
                images.script[1] = file.as_ptr();
                // SAFETY: as above.
                unsafe { libc::execve(SHELL.as_ptr(), images.script.as_ptr(), images.environment.as_ptr()) };
                error = last_error();
            }
            match error {
                Errno::ACCESS => failure = error,
                Errno::NOENT | Errno::NOTDIR | Errno::STALE | Errno::NODEV | Errno::TIMEDOUT => {}
                other => return other,
            }
        }
        failure
    }
}

/// What exec is given.
struct Images<'a> {
    arguments: &'a [*const libc::c_char],
    environment: &'a [*const libc::c_char],
    script: &'a mut [*const libc::c_char],
}

/// A process that waits at its gate.
#[derive(Debug)]
pub(crate) struct Prepared {
    pub(crate) pid: u32,
    pub(crate) in_cgroup: bool,
    pidfd: OwnedFd,
    gate: OwnedFd,
    report: OwnedFd,
}

impl Prepared {
    /// Opens the gate: from here on the job may be running.
    pub(crate) fn go(self) -> Report {
        // If nobody waits there any more, the report or the exit status says why.
        let _ = rustix::io::write(&self.gate, &[1]);
        Report(self.report)
    }

    /// Ends the process, which never becomes the job.
    pub(crate) fn cancel(self) {
        let _ = rustix::process::pidfd_send_signal(&self.pidfd, Signal::KILL);
        let _ = rustix::process::waitid(WaitId::PidFd(self.pidfd.as_fd()), WaitIdOptions::EXITED);
    }
}

/// Where the process says what kept it from becoming the job. Exec closes it.
#[derive(Debug)]
pub(crate) struct Report(OwnedFd);

const REPORT_BYTES: usize = 5;

impl Report {
    /// What went wrong, to be asked once the process has ended.
    pub(crate) fn failure(&self) -> Option<(Step, io::Error)> {
        let mut message = [0; REPORT_BYTES];
        rustix::io::read(&self.0, &mut message).ok().filter(|length| *length == REPORT_BYTES)?;
        let [step, errno @ ..] = message;
        Some((Step::from_number(step)?, io::Error::from_raw_os_error(i32::from_ne_bytes(errno))))
    }
}

pub(crate) enum Forked {
    Parent { pid: u32, pidfd: OwnedFd, in_cgroup: bool },
    Child,
}

/// The argument of `clone3`, as in `linux/sched.h` since 5.7.
#[repr(C)]
#[derive(Default)]
struct CloneArguments {
    flags: u64,
    pidfd: u64,
    child_tid: u64,
    parent_tid: u64,
    exit_signal: u64,
    stack: u64,
    stack_size: u64,
    tls: u64,
    set_tid: u64,
    set_tid_size: u64,
    cgroup: u64,
}

const CLONE_PIDFD: u64 = 0x1000;
const CLONE_INTO_CGROUP: u64 = 0x2_0000_0000;

/// Forks, straight into the cgroup if there is one and the kernel can: moving a process there later stops every fork
/// and exit on the machine for a moment.
pub(crate) fn fork(cgroup: Option<BorrowedFd<'_>>) -> io::Result<Forked> {
    let attempts: &[Option<BorrowedFd<'_>>] = if cgroup.is_some() { &[cgroup, None] } else { &[None] };
    for attempt in attempts {
        let mut pidfd: RawFd = -1;
        let mut arguments = CloneArguments {
            flags: CLONE_PIDFD,
            pidfd: (&raw mut pidfd).addr() as u64,
            exit_signal: u64::from(libc::SIGCHLD.unsigned_abs()),
            ..CloneArguments::default()
        };
        if let Some(cgroup) = attempt {
            arguments.flags |= CLONE_INTO_CGROUP;
            arguments.cgroup = u64::from(cgroup.as_raw_fd().unsigned_abs());
        }
        // SAFETY: without shared memory this is fork. Supervisor and nursery have one thread, so the child has no lock of another
        // to wait for, and it only makes system calls until exec.
        let result = unsafe { libc::syscall(libc::SYS_clone3, &raw mut arguments, size_of::<CloneArguments>()) };
        match result {
            0 => return Ok(Forked::Child),
            // SAFETY: the kernel has made this descriptor for us.
            1.. => {
                return Ok(Forked::Parent {
                    pid: result as u32,
                    pidfd: unsafe { OwnedFd::from_raw_fd(pidfd) },
                    in_cgroup: attempt.is_some(),
                });
            }
            _ => {}
        }
        if !matches!(last_error(), Errno::NOSYS | Errno::PERM) && attempt.is_none() {
            return Err(last_error().into());
        }
    }
    // Containers may forbid clone3.
    // SAFETY: as above.
    match unsafe { libc::fork() } {
        0 => Ok(Forked::Child),
        pid @ 1.. => {
            let raw = Pid::from_raw(pid).ok_or(Errno::SRCH)?;
            match rustix::process::pidfd_open(raw, PidfdFlags::empty()) {
                Ok(pidfd) => Ok(Forked::Parent { pid: pid.unsigned_abs(), pidfd, in_cgroup: false }),
                Err(error) => {
                    // Its gate closes as this returns, so it ends by itself, unless it is ended first.
                    let _ = rustix::process::kill_process(raw, Signal::KILL);
                    Err(error.into())
                }
            }
        }
        _ => Err(io::Error::last_os_error()),
    }
}

/// Ends this process, whose work is written, without what the program does at its end: nothing of that is a supervisor's.
pub(crate) fn leave(code: u8) -> ! {
    // SAFETY: ends this process and nothing else.
    unsafe { libc::_exit(code.into()) }
}

fn last_error() -> Errno {
    // SAFETY: reads this thread's error number.
    Errno::from_raw_os_error(unsafe { *libc::__errno_location() })
}

fn duplicate(from: BorrowedFd<'_>, to: RawFd) -> Result<(), Errno> {
    // SAFETY: replaces a standard descriptor, which nothing owns here.
    if unsafe { libc::dup2(from.as_raw_fd(), to) } < 0 { Err(last_error()) } else { Ok(()) }
}

/// Returns when the gate opens; an error if the supervisor has gone.
fn wait_at(gate: BorrowedFd<'_>) -> Result<(), Errno> {
    loop {
        match rustix::io::read(gate, &mut [0_u8; 1]) {
            Ok(1) => return Ok(()),
            Ok(_) => return Err(Errno::SRCH),
            Err(Errno::INTR) => {}
            Err(error) => return Err(error),
        }
    }
}

/// The files a command may mean.
fn candidates(spec: &RunSpec) -> Result<Vec<CString>, NulError> {
    let Some(name) = spec.command.first().filter(|name| !name.is_empty()) else { return Ok(Vec::new()) };
    if name.as_bytes().contains(&b'/') {
        return Ok(vec![c_string(name)?]);
    }
    let path = spec.env.iter().rev().find(|(name, _)| name == "PATH");
    let path = path.map_or(DEFAULT_PATH.as_bytes(), |(_, value)| value.as_bytes());
    let folders = path.split(|byte| *byte == b':').map(|folder| if folder.is_empty() { &b"."[..] } else { folder });
    folders.map(|folder| CString::new([folder, b"/", name.as_bytes()].concat())).collect()
}

fn c_string(text: &OsStr) -> Result<CString, NulError> {
    CString::new(text.as_bytes())
}

fn variable(name: &OsStr, value: &OsStr) -> Result<CString, NulError> {
    CString::new([name.as_bytes(), b"=", value.as_bytes()].concat())
}

fn pointers(strings: &[CString]) -> Vec<*const libc::c_char> {
    strings.iter().map(|string| string.as_ptr()).chain([std::ptr::null()]).collect()
}
