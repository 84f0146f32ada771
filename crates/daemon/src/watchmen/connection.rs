//! The process at the other end of a connection on loopback: the kernel knows the socket's owner, and `/proc` the process that holds it.

use crate::store::record::Holder;
use crate::watchmen::clients::Asker;
use std::fmt::Write as _;
use std::net::{IpAddr, SocketAddr};

/// Programs that only pass on what others say: their lives and users tell nothing of those others.
const MESSENGERS: [&str; 12] = [
    "sshd",
    "sshd-session",
    "sshd-auth",
    "ssh",
    "nginx",
    "haproxy",
    "caddy",
    "envoy",
    "traefik",
    "apache2",
    "socat",
    "docker-proxy",
];

/// Both ends of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Link {
    /// The client's address.
    pub client: SocketAddr,
    /// The daemon's address.
    pub server: SocketAddr,
}

/// A socket of this machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Socket {
    uid: u32,
    inode: u64,
}

/// Whoever has the other end.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Neighbour {
    /// The user id of the process's owner.
    pub uid: u32,
    /// The process, where the daemon may look for it.
    pub process: Option<Asker>,
}

impl Link {
    /// The process at the client's end, if it is on this machine and does not pass on requests of others.
    pub fn neighbour(&self) -> Option<Neighbour> {
        let socket = self.socket()?;
        let pid = socket.pid();
        let name = pid.and_then(|pid| std::fs::read_to_string(format!("/proc/{pid}/comm")).ok()).unwrap_or_default();
        let is_messenger = MESSENGERS.contains(&name.trim_end());
        (!is_messenger).then(|| Neighbour { uid: socket.uid, process: pid.and_then(asker) })
    }

    fn socket(&self) -> Option<Socket> {
        if !self.client.ip().to_canonical().is_loopback() {
            return None;
        }
        // A socket made for IPv6 may speak with an address of IPv4.
        ["/proc/self/net/tcp", "/proc/self/net/tcp6"].iter().find_map(|table| {
            let table = std::fs::read_to_string(table).ok()?;
            table.lines().find_map(|row| socket_in(row, self))
        })
    }
}

fn socket_in(row: &str, link: &Link) -> Option<Socket> {
    let mut fields = row.split_whitespace().skip(1);
    let (theirs, ours) = (fields.next()?, fields.next()?);
    let is_end = |text: &str, end: SocketAddr| written(end).iter().any(|form| form == text);
    if !(is_end(theirs, link.client) && is_end(ours, link.server)) {
        return None;
    }
    Some(Socket { uid: fields.nth(4)?.parse().ok()?, inode: fields.nth(1)?.parse().ok()? })
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

impl Socket {
    fn pid(&self) -> Option<u32> {
        let mark = format!("socket:[{}]", self.inode);
        let processes = std::fs::read_dir("/proc").ok()?.flatten();
        let pids = processes.filter_map(|entry| entry.file_name().to_str()?.parse::<u32>().ok());
        let own = pids.filter(|pid| crate::access::users::owner_of_process(*pid) == Some(self.uid));
        let has = |pid: &u32| {
            let files = std::fs::read_dir(format!("/proc/{pid}/fd")).into_iter().flatten().flatten();
            files
                .map(|file| std::fs::read_link(file.path()))
                .any(|target| target.is_ok_and(|target| target.as_os_str() == mark.as_str()))
        };
        own.filter(has).min()
    }
}

fn asker(pid: u32) -> Option<Asker> {
    let is_helper = is_helper(&std::fs::read(format!("/proc/{pid}/cmdline")).ok()?);
    let parent = rota_exec::parent_of(pid).filter(|parent| *parent > 1).and_then(holder);
    Some(Asker { holder: holder(pid)?, is_helper, parent })
}

/// A process as it can be told from a later one with its number.
pub fn holder(pid: u32) -> Option<Holder> {
    let identity = rota_exec::Identity::of(pid).ok()?;
    Some(Holder { pid: identity.pid, start_ticks: identity.start_ticks, boot_id: identity.boot_id })
}

/// Whether this is the command with which scripts ask for GPUs: it prints them and ends.
fn is_helper(command_line: &[u8]) -> bool {
    let words = command_line.split(|byte| *byte == 0).collect::<Vec<_>>();
    words.contains(&&b"-mwatchmen.wait"[..]) || words.windows(2).any(|pair| pair == [&b"-m"[..], b"watchmen.wait"])
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::{TcpListener, TcpStream};

    #[test]
    fn a_connection_of_this_process_is_found_to_be_its_own() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        for address in [listener.local_addr().unwrap(), {
            let port = listener.local_addr().unwrap().port();
            format!("[::ffff:127.0.0.1]:{port}").parse().unwrap()
        }] {
            let _client = TcpStream::connect(address).unwrap();
            let (accepted, client) = listener.accept().unwrap();
            let link = Link { client, server: accepted.local_addr().unwrap() };
            let neighbour = link.neighbour().unwrap();
            assert_eq!(neighbour.uid, rustix::process::geteuid().as_raw());
            let asker = neighbour.process.unwrap();
            assert_eq!((asker.holder.pid, asker.is_helper), (std::process::id(), false));
            assert_eq!(asker.parent.map(|parent| parent.pid), Some(std::os::unix::process::parent_id()));
        }
    }

    #[test]
    fn nobody_is_found_where_there_is_no_connection() {
        let link = |client: &str| Link { client: client.parse().unwrap(), server: "127.0.0.1:1".parse().unwrap() };
        assert_eq!(link("127.0.0.1:1").neighbour(), None);
        assert_eq!(link("192.0.2.1:5000").neighbour(), None);
    }

    #[test]
    fn the_command_for_scripts_is_known_by_its_name() {
        assert!(is_helper(b"/usr/bin/python3\0-m\0watchmen.wait\0--task_name\0a\0"));
        assert!(is_helper(b"python\0-mwatchmen.wait\0"));
        assert!(!is_helper(b"python\0train.py\0--wait\0watchmen.wait\0"));
    }
}
