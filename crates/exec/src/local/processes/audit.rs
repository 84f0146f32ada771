//! The kernel's audit session of a job: a number that the supervisor gets once, that every process below it keeps, and that is not given
//! again until the machine is restarted. A process can leave its parent, its session and its output and clear its environment; it cannot
//! leave its audit session without a right that jobs do not have.

use std::fs;
use std::io;

/// The session of a process that has none.
const NO_SESSION: u32 = u32::MAX;

/// Begins an audit session, on behalf of a user, for this process and all that will come from it. `None` where the kernel has no audit
/// sessions, or does not let this process begin one because it is in one already.
pub(crate) fn begin(uid: u32) -> Option<u32> {
    let before = session_of("self").ok();
    fs::write("/proc/self/loginuid", uid.to_string()).ok()?;
    session_of("self").ok().filter(|session| *session != NO_SESSION && Some(*session) != before)
}

/// The audit session of a process.
pub(crate) fn session_of(process: &str) -> io::Result<u32> {
    let text = fs::read_to_string(format!("/proc/{process}/sessionid"))?;
    text.trim().parse().map_err(|_| io::Error::from(io::ErrorKind::InvalidData))
}
