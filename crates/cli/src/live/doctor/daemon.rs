//! The daemon: does it answer, is it of this version, what does it complain of, is its port open.

use super::{Examined, Finding};
use std::net::{TcpStream, ToSocketAddrs};
use std::time::Duration;

const PATIENCE: Duration = Duration::from_secs(3);

pub fn look(examined: &Examined) -> Vec<Finding> {
    let status = match &examined.status {
        Ok(status) => status,
        Err(why) => {
            let remedy = "start it with `rota up --detach`, or as a service (docs/live.md); `--state` names another";
            return vec![Finding::fail("daemon", why.clone(), remedy)];
        }
    };
    let mut findings = vec![Finding::ok("daemon", format!("pid {} answers on {}", status.pid, status.socket))];
    let own = env!("CARGO_PKG_VERSION");
    findings.push(if status.version == own {
        Finding::ok("version", format!("{own}, the daemon and this program"))
    } else {
        let text = format!("the daemon is of version {}, this program of {own}", status.version);
        Finding::warn("version", text, "restart the daemon with the newer program: jobs run on")
    });
    for warning in &status.warnings {
        findings.push(Finding::warn("warning", warning.clone(), "the daemon says so itself, and is silent when it is mended"));
    }
    if status.draining {
        findings.push(Finding::warn("drained", "the queue is drained: nothing is started", "`rota resume`"));
    }
    findings.push(files(status.pid));
    findings.push(port(status.http.as_deref()));
    findings
}

/// Connections below which a lab's users could be in each other's way.
const CONNECTIONS_FEW: usize = 1000;

/// The files that the daemon may have open decide how many connections it accepts.
fn files(pid: u32) -> Finding {
    let limits = std::fs::read_to_string(format!("/proc/{pid}/limits")).unwrap_or_default();
    let line = limits.lines().find_map(|line| line.strip_prefix("Max open files"));
    let Some(soft) = line.and_then(|line| line.split_whitespace().next()) else {
        return Finding::warn(
            "files",
            "it is not known how many files the daemon may have open",
            "look as root, or as the daemon's user",
        );
    };
    let Ok(files) = soft.parse::<usize>() else { return Finding::ok("files", "the daemon may have any number of files open") };
    let connections = rota_daemon::connections_for(files, rota_daemon::config::Limits::default().files_reserve);
    let text = format!("the daemon may have {files} files open, which is enough for {connections} connections");
    if connections < CONNECTIONS_FEW {
        Finding::warn("files", text, "give it more: `LimitNOFILE=65536` in its unit, or `ulimit -Hn` where it is started by hand")
    } else {
        Finding::ok("files", text)
    }
}

fn port(http: Option<&str>) -> Finding {
    let Some(url) = http else { return Finding::ok("port", "there is no HTTP API on a port, by the settings") };
    let address = url.split_once("://").map_or(url, |(_, rest)| rest).trim_end_matches('/');
    let opened = address.to_socket_addrs().and_then(|mut addresses| {
        let address = addresses.next().ok_or_else(|| std::io::Error::other("no such address"))?;
        TcpStream::connect_timeout(&address, PATIENCE)
    });
    match opened {
        Ok(_) => Finding::ok("port", format!("{url} can be reached")),
        Err(error) => {
            let remedy = "look for a firewall on loopback, or choose another port with `port` in the settings";
            Finding::fail("port", format!("{url} cannot be reached: {error}"), remedy)
        }
    }
}
