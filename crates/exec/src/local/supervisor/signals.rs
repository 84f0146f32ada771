//! Signals as things to read: every signal is blocked in the supervisor, so that none can end it by accident, and the
//! few that mean something are read from a descriptor.
#![expect(unsafe_code, reason = "rustix has neither signal masks nor signalfd")]

use std::io;
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, FromRawFd, OwnedFd};

/// What a supervisor is told by signals.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Told {
    /// TERM: end the job, with grace.
    Stop,
    /// INT or QUIT: end the job at once.
    Kill,
    /// USR1: give the job its notice, by its own signal.
    Notice,
    /// USR2: the job has heard by other means that it must leave, and its grace begins.
    Heard,
    /// CHLD: a process of the job has ended.
    ChildEnded,
}

/// The signals that mean something.
const MEANT: [libc::c_int; 6] = [libc::SIGTERM, libc::SIGINT, libc::SIGQUIT, libc::SIGUSR1, libc::SIGUSR2, libc::SIGCHLD];

/// The descriptor signals are read from.
#[derive(Debug)]
pub(crate) struct Signals(OwnedFd);

impl Signals {
    /// Blocks every signal of this thread and opens the descriptor.
    pub(crate) fn block_all() -> io::Result<Self> {
        // A daemon that ignores CHLD would hand that on, and the kernel would throw exit statuses away.
        ignore_not(MEANT);
        let mut all = MaybeUninit::<libc::sigset_t>::uninit();
        let mut read = MaybeUninit::<libc::sigset_t>::uninit();
        // SAFETY: both sets are initialised by sigfillset and sigemptyset before they are used; the calls keep no pointer.
        let raw = unsafe {
            libc::sigfillset(all.as_mut_ptr());
            libc::sigemptyset(read.as_mut_ptr());
            for signal in MEANT {
                libc::sigaddset(read.as_mut_ptr(), signal);
            }
            if libc::sigprocmask(libc::SIG_SETMASK, all.as_ptr(), std::ptr::null_mut()) != 0 {
                return Err(io::Error::last_os_error());
            }
            libc::signalfd(-1, read.as_ptr(), libc::SFD_CLOEXEC | libc::SFD_NONBLOCK)
        };
        if raw < 0 {
            return Err(io::Error::last_os_error());
        }
        // SAFETY: the descriptor is new and nobody else's.
        Ok(Self(unsafe { OwnedFd::from_raw_fd(raw) }))
    }

    /// The next thing told, if any.
    pub(crate) fn next(&self) -> Option<Told> {
        let mut info = [0; size_of::<libc::signalfd_siginfo>()];
        loop {
            rustix::io::read(&self.0, &mut info).ok().filter(|length| *length == info.len())?;
            // The signal's number is the first field.
            let number = u32::from_ne_bytes([info[0], info[1], info[2], info[3]]);
            match number.cast_signed() {
                libc::SIGTERM => return Some(Told::Stop),
                libc::SIGINT | libc::SIGQUIT => return Some(Told::Kill),
                libc::SIGUSR1 => return Some(Told::Notice),
                libc::SIGUSR2 => return Some(Told::Heard),
                libc::SIGCHLD => return Some(Told::ChildEnded),
                _ => {}
            }
        }
    }
}

impl AsFd for Signals {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

/// Makes signals what they are in a new login: nothing blocked, nothing ignored. Safe between fork and exec.
pub(crate) fn reset_all() {
    ignore_not(1..=64);
    let mut none = MaybeUninit::<libc::sigset_t>::uninit();
    // SAFETY: async-signal-safe calls on a set initialised by sigemptyset.
    unsafe {
        libc::sigemptyset(none.as_mut_ptr());
        libc::sigprocmask(libc::SIG_SETMASK, none.as_ptr(), std::ptr::null_mut());
    }
}

fn ignore_not(signals: impl IntoIterator<Item = libc::c_int>) {
    // The kernel's structure, whose layout differs between machines; all zeros is "default, nothing else" in each. The C
    // library's call would refuse the two signals it keeps to itself, which can be inherited as ignored all the same.
    let default = [0_u64; 8];
    for signal in signals {
        // SAFETY: async-signal-safe; the kernel reads less than there is. KILL and STOP are refused and need nothing.
        unsafe { libc::syscall(libc::SYS_rt_sigaction, signal, default.as_ptr(), std::ptr::null::<u64>(), 8_usize) };
    }
}
