//! What the processes a supervisor has waited for have used.
#![expect(unsafe_code, reason = "rustix has no getrusage")]

use std::mem::MaybeUninit;

/// Processor time and memory.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Usage {
    pub(crate) user_seconds: f64,
    pub(crate) system_seconds: f64,
    pub(crate) max_rss_kib: u64,
}

impl Usage {
    /// Of all waited children, and of theirs.
    pub(crate) fn of_children() -> Self {
        let mut usage = MaybeUninit::<libc::rusage>::zeroed();
        // SAFETY: the kernel fills the structure; all zeros is a valid one if it does not.
        let usage = unsafe {
            libc::getrusage(libc::RUSAGE_CHILDREN, usage.as_mut_ptr());
            usage.assume_init()
        };
        let seconds = |time: libc::timeval| time.tv_sec as f64 + time.tv_usec as f64 / 1e6;
        Self {
            user_seconds: seconds(usage.ru_utime),
            system_seconds: seconds(usage.ru_stime),
            max_rss_kib: usage.ru_maxrss.unsigned_abs(),
        }
    }
}
