//! Asking a daemon over its port, as a browser or a script does.

use crate::live::{Daemon, PATIENCE};
use serde_json::Value;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpStream};

/// The port of a daemon.
pub struct Port {
    pub address: SocketAddr,
    /// Headers that are sent with everything.
    pub headers: Vec<(String, String)>,
}

/// What came back.
#[derive(Debug)]
pub struct Reply {
    pub status: u16,
    pub headers: Vec<(String, String)>,
    pub body: Vec<u8>,
}

impl Reply {
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(known, _)| known == name).map(|(_, value)| value.as_str())
    }

    pub fn text(&self) -> String {
        String::from_utf8_lossy(&self.body).into_owned()
    }

    pub fn json(&self) -> Value {
        serde_json::from_slice(&self.body).unwrap_or_else(|_| panic!("not JSON: {}", self.text()))
    }

    /// The word for programs of a refusal, which must have the form of all refusals.
    pub fn problem(&self) -> String {
        assert_eq!(self.header("content-type"), Some("application/problem+json"), "{self:?}");
        let problem = self.json();
        assert_eq!(problem["status"], self.status, "{problem}");
        assert!(!problem["title"].as_str().unwrap().is_empty());
        problem["type"].as_str().unwrap().to_owned()
    }
}

impl Port {
    pub fn of(daemon: &Daemon) -> Self {
        let url = std::fs::read_to_string(daemon.state.join("http")).unwrap();
        let address = url.trim().split_once("://").unwrap().1.parse().unwrap();
        Self { address, headers: Vec::new() }
    }

    /// With a token.
    pub fn with_token(daemon: &Daemon, token: &str) -> Self {
        Self { headers: vec![("authorization".to_owned(), format!("Bearer {token}"))], ..Self::of(daemon) }
    }

    /// With the daemon's own token.
    pub fn own(daemon: &Daemon) -> Self {
        Self::with_token(daemon, &own_token(daemon))
    }

    /// With a new token of this scope.
    pub fn scoped(daemon: &Daemon, name: &str, scope: &str) -> Self {
        Self::with_token(
            daemon,
            daemon.json(&["token", "create", "--name", name, "--scope", scope, "--json"])["token"].as_str().unwrap(),
        )
    }

    pub fn connect(&self) -> TcpStream {
        let stream = TcpStream::connect(self.address).unwrap();
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        stream.set_write_timeout(Some(PATIENCE)).unwrap();
        stream
    }

    /// The head of a request.
    pub fn head(&self, method: &str, path: &str, more: &[(&str, &str)]) -> String {
        let own = self.headers.iter().map(|(name, value)| (name.as_str(), value.as_str()));
        let headers =
            own.chain(more.iter().copied()).map(|(name, value)| [name, ": ", value, "\r\n"].concat()).collect::<String>();
        format!("{method} {path} HTTP/1.1\r\nhost: {}\r\n{headers}", self.address)
    }

    pub fn ask(&self, method: &str, path: &str, more: &[(&str, &str)], body: &[u8]) -> Reply {
        self.ask_on(self.connect(), method, path, more, body)
    }

    /// Asks on a connection that is there.
    pub fn ask_on<S: Read + Write>(&self, mut stream: S, method: &str, path: &str, more: &[(&str, &str)], body: &[u8]) -> Reply {
        let head = self.head(method, path, more);
        let head = format!("{head}content-length: {}\r\nconnection: close\r\n\r\n", body.len());
        // A daemon that has read enough to refuse may not read the rest.
        _ = stream.write_all(head.as_bytes()).and_then(|()| stream.write_all(body)).and_then(|()| stream.flush());
        read_reply(&mut BufReader::new(stream))
    }

    pub fn get(&self, path: &str) -> Reply {
        self.ask("GET", path, &[], b"")
    }

    pub fn send(&self, method: &str, path: &str, body: &Value) -> Reply {
        self.ask(method, path, &[("content-type", "application/json")], body.to_string().as_bytes())
    }

    pub fn post(&self, path: &str, body: &Value) -> Reply {
        self.send("POST", path, body)
    }
}

pub fn own_token(daemon: &Daemon) -> String {
    std::fs::read_to_string(daemon.state.join("token")).unwrap().trim().to_owned()
}

/// Reads one answer to its end.
pub fn read_reply(stream: &mut impl BufRead) -> Reply {
    let (status, headers) = read_head(stream);
    let mut body = Vec::new();
    let is_chunked = headers.iter().any(|(name, value)| name == "transfer-encoding" && value == "chunked");
    if is_chunked {
        while let Some(chunk) = read_chunk(stream) {
            body.extend(chunk);
        }
    } else {
        // The other end may be cut off, which is an end, too.
        _ = stream.read_to_end(&mut body);
    }
    Reply { status, headers, body }
}

pub fn read_head(stream: &mut impl BufRead) -> (u16, Vec<(String, String)>) {
    let mut line = String::new();
    _ = stream.read_line(&mut line);
    let status = line.split_whitespace().nth(1).and_then(|word| word.parse().ok()).unwrap_or(0);
    let mut headers = Vec::new();
    loop {
        line.clear();
        if stream.read_line(&mut line).unwrap_or(0) == 0 || line == "\r\n" {
            return (status, headers);
        }
        if let Some((name, value)) = line.split_once(':') {
            headers.push((name.to_lowercase(), value.trim().to_owned()));
        }
    }
}

/// The next piece of an answer that comes in pieces; nothing when it is over.
pub fn read_chunk(stream: &mut impl BufRead) -> Option<Vec<u8>> {
    let mut line = String::new();
    stream.read_line(&mut line).ok()?;
    let length = usize::from_str_radix(line.trim(), 16).ok().filter(|length| *length > 0)?;
    let mut chunk = vec![0; length + 2];
    stream.read_exact(&mut chunk).ok()?;
    chunk.truncate(length);
    Some(chunk)
}
