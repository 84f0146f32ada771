//! The owner of the other end of a connection on loopback. The kernel is asked for that one socket (`sock_diag`), which costs the same
//! however many there are; where it does not answer such questions, its table of all sockets is read.

use crate::watchmen::connection::Link;
use rustix::net::{AddressFamily, RecvFlags, SendFlags, SocketFlags, SocketType, netlink, recv, send, socket_with};
use std::fmt::Write as _;
use std::net::{IpAddr, SocketAddr};

/// A socket of this machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OwnedSocket {
    /// The user who made it.
    pub uid: u32,
    /// Its number, by which processes that hold it are found.
    pub inode: u64,
}

/// The client's socket of a connection, if the client is on this machine and has not closed it.
pub fn of(link: &Link) -> Option<OwnedSocket> {
    if !link.client.ip().to_canonical().is_loopback() {
        return None;
    }
    let found = match asked(link) {
        Ok(found) => found,
        Err(_) => in_table(link),
    };
    // A socket that was closed belongs to nobody.
    found.filter(|socket| socket.inode != 0)
}

const HEADER_BYTES: usize = 16;
const SOCK_DIAG_BY_FAMILY: u16 = 20;
const NLMSG_ERROR: u16 = 2;
const NLM_F_REQUEST: u16 = 1;
const IPPROTO_TCP: u8 = 6;
/// Where an answer has the user and the number of the socket.
const UID_AT: usize = HEADER_BYTES + 4 + 48 + 12;
const INODE_AT: usize = UID_AT + 4;

/// Asks the kernel for the socket. An error means that it does not answer such questions.
fn asked(link: &Link) -> rustix::io::Result<Option<OwnedSocket>> {
    let netlink = socket_with(AddressFamily::NETLINK, SocketType::DGRAM, SocketFlags::CLOEXEC, Some(netlink::SOCK_DIAG))?;
    send(&netlink, &question(link), SendFlags::empty())?;
    let mut answer = [0; 1024];
    // The kernel has answered before the question was sent.
    let (_, length) = recv(&netlink, &mut answer[..], RecvFlags::DONTWAIT)?;
    let answer = &answer[..length.min(answer.len())];
    let number = |at: usize| answer.get(at..at + 4).map(|bytes| u32::from_ne_bytes([bytes[0], bytes[1], bytes[2], bytes[3]]));
    let kind = answer.get(4..6).map(|bytes| u16::from_ne_bytes([bytes[0], bytes[1]]));
    match kind {
        Some(SOCK_DIAG_BY_FAMILY) => {
            Ok(number(UID_AT).zip(number(INODE_AT)).map(|(uid, inode)| OwnedSocket { uid, inode: inode.into() }))
        }
        Some(NLMSG_ERROR) => {
            match number(HEADER_BYTES).map(|code| rustix::io::Errno::from_raw_os_error(code.cast_signed().wrapping_neg())) {
                Some(rustix::io::Errno::NOENT) => Ok(None),
                other => Err(other.unwrap_or(rustix::io::Errno::IO)),
            }
        }
        _ => Err(rustix::io::Errno::IO),
    }
}

/// The question for one socket: a header, `inet_diag_req_v2`, and in it both ends as the client's socket has them.
fn question(link: &Link) -> [u8; 72] {
    let mut bytes = [0; 72];
    let mut put = |at: usize, part: &[u8]| bytes[at..at + part.len()].copy_from_slice(part);
    put(0, &72_u32.to_ne_bytes());
    put(4, &SOCK_DIAG_BY_FAMILY.to_ne_bytes());
    put(6, &NLM_F_REQUEST.to_ne_bytes());
    let (client, server) = (link.client.ip().to_canonical(), link.server.ip().to_canonical());
    let family = if client.is_ipv4() { AddressFamily::INET } else { AddressFamily::INET6 };
    put(16, &[u8::try_from(family.as_raw()).unwrap_or(0), IPPROTO_TCP]);
    put(20, &u32::MAX.to_ne_bytes());
    put(24, &link.client.port().to_be_bytes());
    put(26, &link.server.port().to_be_bytes());
    for (at, address) in [(28, client), (44, server)] {
        match address {
            IpAddr::V4(address) => put(at, &address.octets()),
            IpAddr::V6(address) => put(at, &address.octets()),
        }
    }
    // Any socket with these ends, whatever its cookie.
    put(64, &[0xff; 8]);
    bytes
}

fn in_table(link: &Link) -> Option<OwnedSocket> {
    // A socket made for IPv6 may speak with an address of IPv4.
    ["/proc/self/net/tcp", "/proc/self/net/tcp6"].iter().find_map(|table| {
        let table = std::fs::read_to_string(table).ok()?;
        table.lines().find_map(|row| socket_in(row, link))
    })
}

fn socket_in(row: &str, link: &Link) -> Option<OwnedSocket> {
    let mut fields = row.split_whitespace().skip(1);
    let (theirs, ours) = (fields.next()?, fields.next()?);
    let is_end = |text: &str, end: SocketAddr| written(end).iter().any(|form| form == text);
    if !(is_end(theirs, link.client) && is_end(ours, link.server)) {
        return None;
    }
    Some(OwnedSocket { uid: fields.nth(4)?.parse().ok()?, inode: fields.nth(1)?.parse().ok()? })
}

/// An address as the kernel's tables have it: words of four bytes, each in the machine's own order. One of IPv4 has two forms.
fn written(end: SocketAddr) -> Vec<String> {
    let octets = match end.ip() {
        IpAddr::V4(ip) => vec![ip.octets().to_vec(), ip.to_ipv6_mapped().octets().to_vec()],
        IpAddr::V6(ip) => vec![ip.octets().to_vec()],
    };
    let form = |octets: &Vec<u8>| {
        let mut text = String::new();
        for word in octets.chunks_exact(4) {
            // Writing to a string cannot fail.
            _ = write!(text, "{:08X}", u32::from_ne_bytes([word[0], word[1], word[2], word[3]]));
        }
        format!("{text}:{:04X}", end.port())
    };
    octets.iter().map(form).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::{TcpListener, TcpStream};

    #[test]
    fn the_kernel_and_its_table_name_the_same_owner() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        for address in [listener.local_addr().unwrap(), {
            let port = listener.local_addr().unwrap().port();
            format!("[::ffff:127.0.0.1]:{port}").parse().unwrap()
        }] {
            let client = TcpStream::connect(address).unwrap();
            let (accepted, from) = listener.accept().unwrap();
            let link = Link { client: from, server: accepted.local_addr().unwrap() };
            let by_table = in_table(&link).unwrap();
            assert_eq!(by_table.uid, rustix::process::geteuid().as_raw());
            if let Ok(by_kernel) = asked(&link) {
                assert_eq!(by_kernel, Some(by_table));
            }
            assert_eq!(of(&link), Some(by_table));
            drop(client);
            assert_eq!(of(&link), None, "a closed socket is nobody's");
        }
    }

    #[test]
    fn others_machines_are_not_asked_about() {
        let link = |client: &str| Link { client: client.parse().unwrap(), server: "127.0.0.1:1".parse().unwrap() };
        assert_eq!(of(&link("192.0.2.1:5000")), None);
        assert_eq!(of(&link("127.0.0.1:1")), None);
    }
}
