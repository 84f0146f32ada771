//! The process at the other end of a connection on loopback: the kernel knows the socket's owner, and `/proc` the process that holds it.

use crate::machine::socket_owner::{self, OwnedSocket};
use crate::store::record::Holder;
use crate::watchmen::clients::Asker;
use std::net::SocketAddr;

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

/// Whoever has the other end.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Neighbour {
    /// The user id of the process's owner.
    pub uid: u32,
    /// The process, where the daemon may look for it.
    pub process: Option<Asker>,
}

impl Neighbour {
    /// The process, if it is of this user.
    pub fn process_of(self, uid: u32) -> Option<Asker> {
        self.process.filter(|_| self.uid == uid)
    }
}

impl Link {
    /// The process at the client's end, if it is on this machine and does not pass on requests of others.
    pub fn neighbour(&self) -> Option<Neighbour> {
        let socket = socket_owner::of(self)?;
        let pid = holder_of(socket);
        let name = pid.and_then(|pid| std::fs::read_to_string(format!("/proc/{pid}/comm")).ok()).unwrap_or_default();
        let is_messenger = MESSENGERS.contains(&name.trim_end());
        (!is_messenger).then(|| Neighbour { uid: socket.uid, process: pid.and_then(|pid| asker(pid, socket.uid)) })
    }
}

/// The process that holds a socket, where the daemon may look for it.
fn holder_of(socket: OwnedSocket) -> Option<u32> {
    let mark = format!("socket:[{}]", socket.inode);
    let processes = std::fs::read_dir("/proc").ok()?.flatten();
    let pids = processes.filter_map(|entry| entry.file_name().to_str()?.parse::<u32>().ok());
    let own = pids.filter(|pid| crate::access::users::owner_of_process(*pid) == Some(socket.uid));
    let has = |pid: &u32| {
        let files = std::fs::read_dir(format!("/proc/{pid}/fd")).into_iter().flatten().flatten();
        files
            .map(|file| std::fs::read_link(file.path()))
            .any(|target| target.is_ok_and(|target| target.as_os_str() == mark.as_str()))
    };
    own.filter(has).min()
}

fn asker(pid: u32, uid: u32) -> Option<Asker> {
    let is_helper = is_helper(&std::fs::read(format!("/proc/{pid}/cmdline")).ok()?);
    // Only a process of the same user can be the one that is asked for.
    let is_own = |parent: &u32| *parent > 1 && crate::access::users::owner_of_process(*parent) == Some(uid);
    let parent = rota_exec::parent_of(pid).filter(is_own).and_then(holder);
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
