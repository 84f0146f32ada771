//! Where supervisors come from: one small process of the daemon's that forks a supervisor for each run directory it is
//! told of. Forking it costs a tenth of starting a large program anew, and the supervisors share its memory.
//!
//! The nursery has one thread, holds nothing but its socket, and ends when the daemon does. Supervisors outlive it.

use std::ffi::OsStr;
use std::io::{self, IoSlice, IoSliceMut};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::process::{Child, Command, ExitCode, Stdio};

use rustix::event::{PollFd, PollFlags, poll};
use rustix::io::Errno;
use rustix::net::{
    AddressFamily, RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer, SendAncillaryMessage, SendFlags,
    SocketFlags, SocketType, recvmsg, sendmsg, socketpair,
};
use rustix::process::{Pid, Resource, Rlimit, WaitOptions, getrlimit, prlimit};
use serde::{Deserialize, Serialize};

use crate::local::processes::identity::Identity;
use crate::local::supervisor::child::{Forked, fork, leave};
use crate::local::supervisor::signals::Signals;
use crate::local::supervisor::supervise::supervise_to_code;

/// The longest path the kernel takes.
const PATH_MAX: usize = 4096;

/// What the nursery answers; a handle on the new process comes with it.
#[derive(Serialize, Deserialize)]
enum Answer {
    Born(Identity),
    Failed(i32),
}

/// The daemon's end of the nursery.
#[derive(Debug)]
pub(crate) struct Nursery {
    process: Child,
    socket: OwnedFd,
}

impl Nursery {
    /// Starts a nursery process, whose supervisors may have so many files open if that is given.
    pub(crate) fn start(mut program: Command, files_max: Option<u64>) -> io::Result<Self> {
        let (socket, theirs) = socketpair(AddressFamily::UNIX, SocketType::SEQPACKET, SocketFlags::CLOEXEC, None)?;
        // No closure to run before exec: so the standard library spawns without copying a large daemon's page tables.
        let process = program.env_clear().stdin(theirs).stdout(Stdio::null()).stderr(Stdio::null()).spawn()?;
        let nursery = Self { process, socket };
        if let Some(files_max) = files_max {
            // Before it is asked for the first supervisor, which inherits it.
            nursery.set_files_max(files_max)?;
        }
        Ok(nursery)
    }

    fn set_files_max(&self, files_max: u64) -> io::Result<()> {
        let maximum = getrlimit(Resource::Nofile).maximum;
        let current = Some(maximum.map_or(files_max, |maximum| maximum.min(files_max)));
        let pid = i32::try_from(self.process.id()).ok().and_then(Pid::from_raw);
        prlimit(pid, Resource::Nofile, Rlimit { current, maximum })?;
        Ok(())
    }

    /// Has a supervisor made for a run directory.
    pub(crate) fn ask(&self, dir: &Path) -> io::Result<(Identity, OwnedFd)> {
        rustix::net::send(&self.socket, dir.as_os_str().as_bytes(), SendFlags::NOSIGNAL)?;
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
        let mut handles = RecvAncillaryBuffer::new(&mut space);
        let mut text = [0; 512];
        let got = recvmsg(&self.socket, &mut [IoSliceMut::new(&mut text)], &mut handles, RecvFlags::CMSG_CLOEXEC)?;
        if got.bytes == 0 {
            return Err(io::Error::new(io::ErrorKind::BrokenPipe, "the process that makes supervisors has ended"));
        }
        let pidfd = handles.drain().find_map(|message| match message {
            RecvAncillaryMessage::ScmRights(mut handles) => handles.next(),
            _ => None,
        });
        match (serde_json::from_slice(&text[..got.bytes])?, pidfd) {
            (Answer::Born(identity), Some(pidfd)) => Ok((identity, pidfd)),
            (Answer::Failed(error), _) => Err(io::Error::from_raw_os_error(error)),
            (Answer::Born(_), None) => Err(io::Error::other("no room for a handle on the supervisor")),
        }
    }
}

impl Drop for Nursery {
    fn drop(&mut self) {
        // It would end by itself; killed, it can be waited for without fear. Its supervisors go on.
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// The body of the hidden command `rota __supervise`, whose standard input is the daemon's socket: makes supervisors
/// until the daemon is gone. To be called first thing in a process of its own with one thread.
pub fn nurse() -> ExitCode {
    // A signal to the daemon's terminal is not meant for it. Refused only to a leader of a group, which is as good.
    let _ = rustix::process::setsid();
    let _ = rustix::thread::set_name(c"rota-nursery");
    let socket = io::stdin();
    match Signals::block_all().and_then(|signals| serve(socket.as_fd(), &signals)) {
        Ok(()) => ExitCode::SUCCESS,
        Err(_) => ExitCode::FAILURE,
    }
}

fn serve(socket: BorrowedFd<'_>, signals: &Signals) -> io::Result<()> {
    let mut path = [0; PATH_MAX];
    loop {
        let mut wanted = [PollFd::from_borrowed_fd(socket, PollFlags::IN), PollFd::new(signals, PollFlags::IN)];
        match poll(&mut wanted, None) {
            Ok(_) | Err(Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
        let is_asked = !wanted[0].revents().is_empty();
        while signals.next().is_some() {}
        // Those who ended were told of by their handles and their records.
        while let Ok(Some(_)) = rustix::process::wait(WaitOptions::NOHANG) {}
        if is_asked {
            let (_, length) = rustix::net::recv(socket, &mut path[..], RecvFlags::empty())?;
            if length == 0 {
                return Ok(());
            }
            answer(socket, Path::new(OsStr::from_bytes(&path[..length.min(PATH_MAX)])))?;
        }
    }
}

fn answer(socket: BorrowedFd<'_>, dir: &Path) -> io::Result<()> {
    let born = match fork(None) {
        Ok(Forked::Child) => {
            // Nothing of the nursery's is dropped here: its descriptors are closed with all others, whatever their number.
            leave(supervise_to_code(dir))
        }
        // Not reaped before the next round, so this is its identity even if it has ended.
        Ok(Forked::Parent { pid, pidfd, .. }) => Identity::of(pid).map(|identity| (identity, pidfd)),
        Err(error) => Err(error),
    };
    let (answer, pidfd) = match born {
        Ok((identity, pidfd)) => (Answer::Born(identity), Some(pidfd)),
        Err(error) => (Answer::Failed(error.raw_os_error().unwrap_or(libc::EIO)), None),
    };
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut handles = SendAncillaryBuffer::new(&mut space);
    let pidfds: Vec<BorrowedFd<'_>> = pidfd.iter().map(AsFd::as_fd).collect();
    handles.push(SendAncillaryMessage::ScmRights(&pidfds));
    let text = serde_json::to_vec(&answer)?;
    sendmsg(socket, &[IoSlice::new(&text)], &mut handles, SendFlags::NOSIGNAL)?;
    Ok(())
}
