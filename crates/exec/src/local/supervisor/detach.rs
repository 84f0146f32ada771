//! Cutting a supervisor loose from whoever started it.
#![expect(unsafe_code, reason = "closing descriptors that nothing here owns")]

use std::io;
use std::os::fd::AsRawFd;

use rustix::fs::{Mode, OFlags};

/// A session of its own, `/` as its directory, nothing open but `/dev/null` as standard input, output and error: no
/// terminal can end it, no file system is kept busy, no pipe or socket of the daemon is kept open.
pub(crate) fn detach() -> io::Result<()> {
    // Refused only to the leader of a process group, which is as good.
    let _ = rustix::process::setsid();
    rustix::process::chdir(c"/")?;
    rustix::process::umask(Mode::from_raw_mode(0o022));
    // SAFETY: called first thing in a process of our own, before anything owns a descriptor.
    if unsafe { libc::syscall(libc::SYS_close_range, 3_u32, u32::MAX, 0_u32) } != 0 {
        close_one_by_one()?;
    }
    let null = rustix::fs::open(c"/dev/null", OFlags::RDWR | OFlags::CLOEXEC, Mode::empty())?;
    for standard in 0..=2 {
        // SAFETY: replaces a standard descriptor, which nothing owns.
        if null.as_raw_fd() != standard && unsafe { libc::dup2(null.as_raw_fd(), standard) } < 0 {
            return Err(io::Error::last_os_error());
        }
    }
    if null.as_raw_fd() <= 2 {
        // It was opened in the place of a standard descriptor that was closed, and is to stay there.
        std::mem::forget(null);
    }
    Ok(())
}

/// For kernels before 5.9 and containers that forbid `close_range`.
fn close_one_by_one() -> io::Result<()> {
    let open: Vec<i32> =
        std::fs::read_dir("/proc/self/fd")?.filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok()).collect();
    for descriptor in open.into_iter().filter(|descriptor| *descriptor > 2) {
        // SAFETY: as above; the one the list was read through is closed already.
        unsafe { libc::close(descriptor) };
    }
    Ok(())
}
