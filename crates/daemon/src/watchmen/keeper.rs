//! The keeper: a small process with a second handle on every connection whose answer the daemon holds back.
//!
//! Clients of watchmen give up for good when a connection is cut under them. If the daemon dies, the keeper goes on where it was: it sends
//! blanks until a daemon is there again, tells every client that it still waits, and ends. It decides nothing, and knows nothing but
//! connections.

use rustix::fd::{AsFd, BorrowedFd, OwnedFd};
use rustix::io::Errno;
use rustix::net::{
    AddressFamily, RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer, SendAncillaryMessage, SendFlags,
    SocketFlags, SocketType, recvmsg, sendmsg, socketpair,
};
use std::collections::BTreeMap;
use std::io::{self, IoSlice, IoSliceMut};
use std::mem::MaybeUninit;
use std::net::{SocketAddr, TcpStream};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// The word by which this program is told to be the keeper.
pub const KEEP: &str = "__keep";

/// A blank as a part of an answer.
const BLANK: &[u8] = b"1\r\n \r\n";
/// The last part of an answer: still waiting.
const REST: &[u8] = b"33\r\n{\"status\":\"ok\",\"available_gpus\":[],\"msg\":\"waiting\"}\r\n0\r\n\r\n";
/// So often a blank is sent, and a new daemon is looked for.
const BLANK_EVERY: Duration = Duration::from_secs(1);
const LOOK_EVERY: Duration = Duration::from_millis(100);
/// If no daemon comes for so long, none will.
const PATIENCE: Duration = Duration::from_mins(10);

/// The daemon's side.
pub struct Keeper {
    link: OwnedFd,
    next: AtomicU64,
}

/// A connection that is kept until this is dropped.
pub struct Kept {
    keeper: Arc<Keeper>,
    number: u64,
}

impl Keeper {
    /// Starts the process, out of reach of what is typed at the daemon's terminal.
    pub fn start(program: &Path) -> io::Result<Self> {
        let (ours, theirs) = socketpair(AddressFamily::UNIX, SocketType::SEQPACKET, SocketFlags::CLOEXEC, None)?;
        let mut command = Command::new(program);
        command.arg(KEEP).stdin(theirs).stdout(Stdio::null()).stderr(Stdio::null()).process_group(0).spawn()?;
        Ok(Self { link: ours, next: AtomicU64::new(1) })
    }

    /// Keeps a connection.
    pub fn keep(self: &Arc<Self>, connection: BorrowedFd<'_>) -> Option<Kept> {
        let number = self.next.fetch_add(1, Ordering::Relaxed);
        self.tell(number, Some(connection)).ok().map(|()| Kept { keeper: Arc::clone(self), number })
    }

    /// A number with a connection is kept from now on, one without is kept no longer.
    fn tell(&self, number: u64, connection: Option<BorrowedFd<'_>>) -> Result<(), Errno> {
        let connections = connection.into_iter().collect::<Vec<_>>();
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
        let mut control = SendAncillaryBuffer::new(&mut space);
        if !connections.is_empty() {
            control.push(SendAncillaryMessage::ScmRights(&connections));
        }
        // The daemon does not wait here: a connection that does not fit is not kept.
        let flags = SendFlags::NOSIGNAL | SendFlags::DONTWAIT;
        sendmsg(&self.link, &[IoSlice::new(&number.to_ne_bytes())], &mut control, flags).map(|_| ())
    }
}

impl Drop for Kept {
    fn drop(&mut self) {
        // A keeper that is gone keeps nothing.
        _ = self.keeper.tell(self.number, None);
    }
}

/// The keeper's main loop. The process was started for it, and the daemon is at its standard input.
pub fn keep() {
    let daemon = io::stdin();
    let mut kept = BTreeMap::new();
    loop {
        match heard(daemon.as_fd()) {
            Ok(Some((number, Some(connection)))) => _ = kept.insert(number, connection),
            Ok(Some((number, None))) => _ = kept.remove(&number),
            Err(Errno::INTR) => {}
            Ok(None) | Err(_) => break,
        }
    }
    finish(kept);
}

fn heard(daemon: BorrowedFd<'_>) -> Result<Option<(u64, Option<OwnedFd>)>, Errno> {
    let mut number = [0; 8];
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut control = RecvAncillaryBuffer::new(&mut space);
    let received = recvmsg(daemon, &mut [IoSliceMut::new(&mut number)], &mut control, RecvFlags::CMSG_CLOEXEC)?;
    if received.bytes < number.len() {
        return Ok(None);
    }
    let connection = control.drain().find_map(|message| match message {
        RecvAncillaryMessage::ScmRights(mut connections) => connections.next(),
        _ => None,
    });
    Ok(Some((u64::from_ne_bytes(number), connection)))
}

/// Keeps all clients waiting until a daemon answers again.
fn finish(mut kept: BTreeMap<u64, OwnedFd>) {
    let since = Instant::now();
    let mut blank_at = since;
    while !kept.is_empty() {
        let is_over = since.elapsed() > PATIENCE || kept.values().next().is_some_and(|connection| is_served(connection.as_fd()));
        if is_over {
            for connection in kept.values() {
                // Whoever has gone does not want the answer any more.
                _ = rustix::io::write(connection, REST);
            }
            return;
        }
        if blank_at.elapsed() >= BLANK_EVERY {
            blank_at = Instant::now();
            kept.retain(|_, connection| rustix::io::write(&*connection, BLANK).is_ok());
        }
        std::thread::sleep(LOOK_EVERY);
    }
}

/// Whether a daemon answers again at the address of this connection.
fn is_served(connection: BorrowedFd<'_>) -> bool {
    let server = rustix::net::getsockname(connection).ok().and_then(|address| SocketAddr::try_from(address).ok());
    server.is_some_and(|server| TcpStream::connect_timeout(&server, LOOK_EVERY).is_ok())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_parts_have_the_lengths_they_say() {
        for part in [BLANK, REST] {
            let text = std::str::from_utf8(part).unwrap();
            let (length, rest) = text.split_once("\r\n").unwrap();
            let (body, _) = rest.split_once("\r\n").unwrap();
            assert_eq!(usize::from_str_radix(length, 16).unwrap(), body.len());
        }
    }
}
