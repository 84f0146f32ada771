//! One request to the daemon and its whole answer, over the daemon's socket.
//!
//! Most commands ask once and end. For them, setting up a runtime takes longer than asking (docs/decisions/start-up.md). So the request
//! is written, and the answer is read until the daemon closes the connection: HTTP 1.0, in which an answer ends with its connection.

use hyper::{Method, StatusCode};
use std::io::{self, Read, Write};
use std::os::unix::net::UnixStream;
use std::path::Path;

/// Headers that an answer may have.
const HEADERS_MAX: usize = 64;
/// Most answers are no longer than this, and all heads are shorter.
const FIRST_BYTES: usize = 4 << 10;
/// The most memory that is set aside because an answer says how long it is.
const RESERVED_BYTES_MAX: usize = 64 << 20;

/// The daemon's answer.
pub struct Answer {
    /// Whether the daemon did what was asked.
    pub status: StatusCode,
    /// The header `link`, which names the next page of a list.
    pub link: Option<String>,
    bytes: Vec<u8>,
    head_length: usize,
}

impl Answer {
    /// What was asked for, without the headers.
    pub fn body(&self) -> &[u8] {
        &self.bytes[self.head_length..]
    }
}

/// Why there is no answer.
pub enum Unanswered {
    /// No daemon listens on the socket.
    NoDaemon(io::Error),
    /// The daemon went away before it had answered.
    WentAway,
}

/// Asks the daemon that listens on a socket.
pub fn exchange(socket: &Path, method: &Method, path: &str, body: &[u8]) -> Result<Answer, Unanswered> {
    let mut stream = UnixStream::connect(socket).map_err(Unanswered::NoDaemon)?;
    let length = body.len();
    let head =
        format!("{method} {path} HTTP/1.0\r\nhost: rota\r\ncontent-type: application/json\r\ncontent-length: {length}\r\n\r\n");
    // A daemon that refuses a large body may close before it has read all of it. Then writing fails, and so does reading after the
    // answer: a whole answer counts all the same.
    let _ = stream.write_all(&[head.as_bytes(), body].concat());
    let mut bytes = Vec::with_capacity(FIRST_BYTES);
    let mut is_closed = (&stream).take(FIRST_BYTES as u64).read_to_end(&mut bytes).is_ok();
    // A long list is read into memory that is large enough from the beginning.
    bytes.reserve(length_told(&bytes).unwrap_or(0).min(RESERVED_BYTES_MAX));
    is_closed &= stream.read_to_end(&mut bytes).is_ok();
    read_answer(bytes, is_closed).ok_or(Unanswered::WentAway)
}

/// The length that the head of an answer tells, if all of the head is there.
fn length_told(bytes: &[u8]) -> Option<usize> {
    let mut headers = [httparse::EMPTY_HEADER; HEADERS_MAX];
    let mut head = httparse::Response::new(&mut headers);
    head.parse(bytes).ok()?;
    header(&head, "content-length")?.parse().ok()
}

fn header<'a>(head: &httparse::Response<'_, 'a>, name: &str) -> Option<&'a str> {
    let found = head.headers.iter().find(|header| header.name.eq_ignore_ascii_case(name))?;
    std::str::from_utf8(found.value).ok()
}

/// Splits an answer into its parts; nothing if it is not whole. One without a length is whole when the daemon has closed the connection.
fn read_answer(bytes: Vec<u8>, is_closed: bool) -> Option<Answer> {
    let mut headers = [httparse::EMPTY_HEADER; HEADERS_MAX];
    let mut head = httparse::Response::new(&mut headers);
    let httparse::Status::Complete(head_length) = head.parse(&bytes).ok()? else { return None };
    let status = StatusCode::from_u16(head.code?).ok()?;
    let link = header(&head, "link").map(str::to_owned);
    let length = header(&head, "content-length").and_then(|length| length.parse::<usize>().ok());
    let is_whole = length.map_or(is_closed, |length| bytes.len() - head_length >= length);
    is_whole.then_some(Answer { status, link, bytes, head_length })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::net::UnixListener;

    /// The answer of a daemon that reads the head of a request, says just this and closes the connection.
    fn answer_to(said: &'static str, body: &[u8]) -> Result<Answer, Unanswered> {
        let folder = tempfile::tempdir().unwrap();
        let socket = folder.path().join("rota.sock");
        let listener = UnixListener::bind(&socket).unwrap();
        let daemon = std::thread::spawn(move || {
            let mut stream = listener.accept().unwrap().0;
            let mut head = Vec::new();
            while !head.ends_with(b"\r\n\r\n") {
                let mut byte = [0];
                stream.read_exact(&mut byte).unwrap();
                head.extend(byte);
            }
            assert!(head.starts_with(b"POST /api HTTP/1.0\r\n"));
            stream.write_all(said.as_bytes()).unwrap();
        });
        let answer = exchange(&socket, &Method::POST, "/api", body);
        daemon.join().unwrap();
        answer
    }

    #[test]
    fn an_answer_is_read_to_its_end() {
        let answer = answer_to("HTTP/1.0 201 Created\r\nLink: </next>; rel=\"next\"\r\ncontent-length: 2\r\n\r\n{}", b"");
        let answer = answer.ok().unwrap();
        assert_eq!((answer.status, answer.body()), (StatusCode::CREATED, b"{}".as_slice()));
        assert_eq!(answer.link.as_deref(), Some("</next>; rel=\"next\""));
        assert_eq!(answer_to("HTTP/1.0 200 OK\r\n\r\nuntil the end", b"").ok().unwrap().body(), b"until the end");
    }

    #[test]
    fn an_answer_that_breaks_off_is_none() {
        for said in ["", "HTTP/1.0 200 OK\r\ncontent-len", "HTTP/1.0 200 OK\r\ncontent-length: 9\r\n\r\n{}", "what\r\n\r\n"] {
            assert!(matches!(answer_to(said, b""), Err(Unanswered::WentAway)), "{said}");
        }
    }

    #[test]
    fn a_refusal_counts_though_the_body_was_not_read() {
        let answer = answer_to("HTTP/1.0 413 Payload Too Large\r\ncontent-length: 0\r\n\r\n", &vec![b'x'; 1 << 22]);
        assert!(answer.is_ok_and(|answer| answer.status == StatusCode::PAYLOAD_TOO_LARGE));
    }

    #[test]
    fn without_a_daemon_there_is_no_answer() {
        let nowhere = Path::new("/nonexistent/rota.sock");
        assert!(matches!(exchange(nowhere, &Method::GET, "/", b""), Err(Unanswered::NoDaemon(_))));
    }
}
