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
    findings.push(port(status.http.as_deref()));
    findings
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
