//! Which process is meant: a pid alone is reused, a pid with its start and its boot is not.

use std::fs;
use std::io::{self, Read};
use std::os::fd::OwnedFd;
use std::sync::OnceLock;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{Pid, PidfdFlags, pidfd_open};
use serde::{Deserialize, Serialize};

/// A process that no later process can be mistaken for.
#[derive(Clone, Debug, Eq, PartialEq, Serialize, Deserialize)]
pub struct Identity {
    /// The process id.
    pub pid: u32,
    /// When it started, in clock ticks since boot: field 22 of `/proc/PID/stat`.
    pub start_ticks: u64,
    /// The boot it belongs to.
    pub boot_id: String,
}

impl Identity {
    /// The identity of the process that has this pid now.
    pub fn of(pid: u32) -> io::Result<Self> {
        let stat = Stat::read(pid)?;
        Ok(Self { pid, start_ticks: stat.start_ticks, boot_id: boot_id()? })
    }

    /// A handle on this very process, if it has not ended.
    pub(crate) fn open(&self) -> io::Result<Option<OwnedFd>> {
        if self.boot_id != boot_id()? {
            return Ok(None);
        }
        open_process(self.pid, self.start_ticks)
    }
}

/// A handle on the process with this pid and start, if it has not ended. Zombies have ended.
pub(crate) fn open_process(pid: u32, start_ticks: u64) -> io::Result<Option<OwnedFd>> {
    let Some(raw) = pid.try_into().ok().and_then(Pid::from_raw) else { return Ok(None) };
    // The handle first: what is read afterwards under this pid is about the process in hand, or the handle shows
    // that it has ended.
    let pidfd = match pidfd_open(raw, PidfdFlags::empty()) {
        Ok(pidfd) => pidfd,
        Err(rustix::io::Errno::SRCH | rustix::io::Errno::INVAL) => return Ok(None),
        Err(error) => return Err(error.into()),
    };
    let same = match Stat::read(pid) {
        Ok(stat) => stat.start_ticks == start_ticks,
        Err(error) if gone(&error) => false,
        Err(error) => return Err(error),
    };
    Ok((same && !has_ended(&pidfd)?).then_some(pidfd))
}

/// Whether the process behind a pidfd has ended.
pub(crate) fn has_ended(pidfd: &OwnedFd) -> io::Result<bool> {
    let mut wanted = [PollFd::new(pidfd, PollFlags::IN)];
    loop {
        match poll(&mut wanted, Some(&Timespec::default())) {
            Ok(ready) => return Ok(ready > 0),
            Err(rustix::io::Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
    }
}

/// This boot of this machine. It is read once: no process outlives its boot, and supervisors have it from the process that made them.
pub(crate) fn boot_id() -> io::Result<String> {
    static BOOT_ID: OnceLock<String> = OnceLock::new();
    if let Some(known) = BOOT_ID.get() {
        return Ok(known.clone());
    }
    let read = fs::read_to_string("/proc/sys/kernel/random/boot_id")?.trim().to_owned();
    Ok(BOOT_ID.get_or_init(|| read).clone())
}

/// Whether an error is about this process or this machine, and not about what was to be opened: it says nothing, and passes.
pub(crate) fn is_shortage(error: &io::Error) -> bool {
    matches!(error.raw_os_error(), Some(libc::EMFILE | libc::ENFILE | libc::ENOMEM))
}

/// The parent of a process, if the process is there.
pub fn parent_of(pid: u32) -> Option<u32> {
    Stat::read(pid).ok().map(|stat| stat.parent)
}

/// Whether an error of reading below `/proc/PID` means that the process is gone.
pub(crate) fn gone(error: &io::Error) -> bool {
    error.kind() == io::ErrorKind::NotFound || error.raw_os_error() == Some(libc::ESRCH)
}

/// What `/proc/PID/stat` says, as far as it is needed here.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) struct Stat {
    pub(crate) state: u8,
    pub(crate) parent: u32,
    pub(crate) session: u32,
    pub(crate) start_ticks: u64,
}

impl Stat {
    pub(crate) fn read(pid: u32) -> io::Result<Self> {
        // One read: the kernel makes the text anew for each, and it is never this long.
        let mut text = [0; 1024];
        let length = fs::File::open(format!("/proc/{pid}/stat"))?.read(&mut text)?;
        Self::parse(&text[..length])
            .ok_or_else(|| io::Error::new(io::ErrorKind::InvalidData, format!("/proc/{pid}/stat is not understood")))
    }

    /// The second field is the program's name in brackets and may hold anything, brackets and blanks too: everything
    /// else comes after the last bracket.
    pub(crate) fn parse(text: &[u8]) -> Option<Self> {
        let name_end = text.iter().rposition(|byte| *byte == b')')?;
        let rest = str::from_utf8(text.get(name_end + 1..)?).ok()?;
        let mut fields = rest.split_ascii_whitespace();
        let state = *fields.next()?.as_bytes().first()?;
        let parent = fields.next()?.parse().ok()?;
        let session = fields.nth(1)?.parse().ok()?;
        let start_ticks = fields.nth(15)?.parse().ok()?;
        Some(Self { state, parent, session, start_ticks })
    }

    /// Dead, though its parent has not yet asked how it ended.
    pub(crate) fn is_dead(&self) -> bool {
        matches!(self.state, b'Z' | b'X')
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_with_brackets_and_blanks_hides_nothing() {
        let text = b"77 (a) b (c)) S 5 76 70 0 -1 4194560 1 0 0 0 1 2 3 4 20 0 1 0 987654 1000 10";
        assert_eq!(Stat::parse(text), Some(Stat { state: b'S', parent: 5, session: 70, start_ticks: 987_654 }));
    }

    #[test]
    fn this_process_is_itself_and_no_other() {
        let identity = Identity::of(std::process::id()).unwrap();
        assert!(identity.open().unwrap().is_some());
        assert!(Identity { start_ticks: identity.start_ticks + 1, ..identity.clone() }.open().unwrap().is_none());
        assert!(Identity { boot_id: "another".to_owned(), ..identity }.open().unwrap().is_none());
    }
}
