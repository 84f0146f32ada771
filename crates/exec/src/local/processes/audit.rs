//! The kernel's audit session of a job: a number that the supervisor gets once, that every process below it keeps, and that is not given
//! again until the machine is restarted. A process can leave its parent, its session and its output and clear its environment; it cannot
//! leave its audit session without a right that jobs do not have.

use std::fs;
use std::io::{self, Read};

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
    // One read: the number is never this long.
    let mut text = [0; 32];
    let length = fs::File::open(format!("/proc/{process}/sessionid"))?.read(&mut text)?;
    let number = str::from_utf8(&text[..length]).ok().and_then(|text| text.trim().parse().ok());
    number.ok_or_else(|| io::ErrorKind::InvalidData.into())
}
