//! The port of the lease service, on loopback. It stays the same over restarts of the daemon, because running jobs know it.

use std::io;
use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::path::Path;

/// The file that has the address of the service, below the state directory.
const ADDRESS: &str = "lease";

/// Opens the port: the one of the configuration, else the one that running jobs know, else any free one.
pub fn open(state_dir: &Path, configured: u16) -> io::Result<TcpListener> {
    let path = state_dir.join(ADDRESS);
    let known = std::fs::read_to_string(&path).ok().and_then(|text| text.trim().parse::<SocketAddr>().ok());
    let at = |port: u16| SocketAddr::from((Ipv4Addr::LOCALHOST, port));
    let listener = if configured != 0 {
        TcpListener::bind(at(configured))?
    } else {
        match known {
            Some(known) if known.ip().is_loopback() => match TcpListener::bind(known) {
                Ok(listener) => listener,
                // Another program has it. Jobs that know the old one run to the end of their lease and go on later.
                Err(_) => TcpListener::bind(at(0))?,
            },
            _ => TcpListener::bind(at(0))?,
        }
    };
    listener.set_nonblocking(true)?;
    std::fs::write(path, format!("{}\n", listener.local_addr()?))?;
    Ok(listener)
}
