//! Acting on files with the rights of the job's user: a root supervisor must not open for a user what the user could
//! not open.
#![expect(unsafe_code, reason = "rustix has no setfsuid")]

use std::io;

use rustix::io::Errno;
use rustix::process::{getegid, geteuid, getgroups};
use rustix::thread::{Gid, set_thread_groups};

use crate::local::run_directory::spec::RunAs;

/// Whose rights files are opened with.
#[derive(Clone, Debug)]
pub(crate) enum Rights {
    /// The supervisor's own.
    Own,
    /// Those of the job's user, which is another.
    User(RunAs),
}

impl Rights {
    /// Does something to files with these rights, or not at all if they cannot be had.
    pub(crate) fn with<T>(&self, act: impl FnOnce() -> io::Result<T>) -> io::Result<T> {
        let Self::User(user) = self else { return act() };
        let own_groups = getgroups()?;
        let own = (geteuid().as_raw(), getegid().as_raw());
        let groups: Vec<Gid> = user.groups.iter().map(|gid| Gid::from_raw(*gid)).collect();
        set_thread_groups(&groups)?;
        let done = if become_for_files(user.uid, user.gid) { act() } else { Err(Errno::PERM.into()) };
        become_for_files(own.0, own.1);
        set_thread_groups(&own_groups)?;
        done
    }
}

/// Whether it worked, which these calls do not say themselves: they return what was before, and -1 changes nothing.
fn become_for_files(uid: u32, gid: u32) -> bool {
    // SAFETY: plain calls on this thread, which is the only one. Going away from user 0 drops its rights over files, coming
    // back restores them.
    unsafe {
        libc::setfsgid(gid);
        libc::setfsuid(uid);
        libc::setfsuid(u32::MAX).cast_unsigned() == uid && libc::setfsgid(u32::MAX).cast_unsigned() == gid
    }
}
