//! Crowds: one user with more connections or streams than anybody needs, and another who does not notice.

use crate::live::http::port::{Port, read_chunk, read_head, read_reply};
use crate::live::queue::users::{User, shared};
use crate::live::{Daemon, until};
use rustix::process::{Pid, Resource, Rlimit, Uid, getrlimit, prlimit, setrlimit};
use rustix::thread::set_thread_res_uid;
use serde_json::json;
use std::io::{BufReader, Read, Write};
use std::net::TcpStream;
use std::os::unix::net::UnixStream;
use std::process::Stdio;
use std::time::{Duration, Instant};

/// Connections of another user, which are held until this is dropped.
struct Crowd(Vec<Box<dyn Send>>);

impl Crowd {
    /// As many connections as can be had, up to so many, each with the same first words.
    fn of<S: Write + Send + 'static>(
        user: &User,
        count: usize,
        words: &str,
        connect: impl Fn() -> std::io::Result<S> + Sync,
    ) -> Self {
        let held = std::thread::scope(|scope| {
            let opened = scope.spawn(|| {
                // This thread alone is the other user from now on; its sockets are that user's.
                let uid = Uid::from_raw(user.uid);
                set_thread_res_uid(uid, uid, uid).unwrap();
                let mut held: Vec<Box<dyn Send>> = Vec::new();
                for mut stream in (0..count).filter_map(|_| connect().ok()) {
                    // One that is refused at once does not hear this.
                    _ = stream.write_all(words.as_bytes());
                    held.push(Box::new(stream));
                }
                held
            });
            opened.join().unwrap()
        });
        assert!(!held.is_empty(), "nobody came");
        Self(held)
    }
}

/// Lets this process have as many files open as it may: a crowd needs them.
fn raise_files() {
    let limit = getrlimit(Resource::Nofile);
    setrlimit(Resource::Nofile, Rlimit { current: limit.maximum, maximum: limit.maximum }).unwrap();
}

fn set_files(daemon: &Daemon, current: Option<u64>) -> Rlimit {
    let pid = Pid::from_raw(i32::try_from(daemon.pid()).unwrap());
    // The daemon was started with this process's hard limit.
    prlimit(pid, Resource::Nofile, Rlimit { current, maximum: getrlimit(Resource::Nofile).maximum }).unwrap()
}

/// The files that a daemon has open.
fn open_files(daemon: &Daemon) -> u64 {
    std::fs::read_dir(format!("/proc/{}/fd", daemon.pid())).unwrap().count() as u64
}

#[test]
fn a_crowd_of_one_users_connections_is_not_noticed_by_another() {
    raise_files();
    let Some((mut daemon, ann, bob)) = shared("a100:4", "[watchmen]\nport = 0\nauth = false") else { return };
    // As on a machine with few files: what counts is the limit at the start.
    daemon.kill();
    daemon.limit_files(1024);
    daemon.up();
    let soft = std::fs::read_to_string(format!("/proc/{}/limits", daemon.pid())).unwrap();
    assert!(soft.lines().any(|line| line.starts_with("Max open files") && line.contains("1024 ")), "{soft}");
    let held = (0..4).map(|_| ann.submit(&daemon, &[], "sleep 600")).collect::<Vec<_>>();
    for id in &held {
        daemon.until_state(*id, "running");
    }
    let watchmen = daemon
        .greeting
        .split("watchmen http://127.0.0.1:")
        .nth(1)
        .unwrap()
        .split(',')
        .next()
        .unwrap()
        .trim()
        .parse::<u16>()
        .unwrap();
    let port = Port::of(&daemon).address.port();
    let socket = daemon.state.join("rota.sock");
    let wait = format!("GET /api/v1/jobs/{}/wait HTTP/1.1\r\nhost: rota\r\n\r\n", held[0]);
    let crowds = [
        Crowd::of(&bob, 1100, "", || UnixStream::connect(&socket)),
        Crowd::of(&bob, 300, &wait, || UnixStream::connect(&socket)),
        Crowd::of(&bob, 629, "", || TcpStream::connect(("127.0.0.1", watchmen))),
        Crowd::of(&bob, 300, "", || TcpStream::connect(("127.0.0.1", port))),
    ];
    assert_eq!(crowds.iter().map(|crowd| crowd.0.len()).sum::<usize>(), 1100 + 300 + 629 + 300);
    assert!(open_files(&daemon) < 768, "there are files left for the scheduler");
    // He is told why, and she is served.
    until("he is told why", || {
        let output = bob.call(&daemon, &["status"]).output().unwrap();
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(1), "{said}");
        said.contains("connections open") && said.contains("limits.connections_per_user")
    });
    let since = Instant::now();
    let id = ann.submit(&daemon, &["--gpus", "0"], "exit 7");
    assert_eq!(daemon.wait_one(id)["exit_code"], 7);
    assert!(since.elapsed() < Duration::from_secs(20), "she waited {:?}", since.elapsed());
    for id in &held {
        assert_eq!(daemon.state_of(*id), "running");
        assert!(ann.call(&daemon, &["cancel", &id.to_string()]).status().unwrap().success());
    }
    assert!(daemon.wait(&held).iter().all(|job| job["state"] == "cancelled"));
    drop(crowds);
    until("he is let in again", || {
        bob.call(&daemon, &["status"]).stdout(Stdio::null()).stderr(Stdio::null()).status().unwrap().success()
    });
}

/// Whether a job is over, asked on a connection that is open already.
fn has_ended(mut stream: &UnixStream, job: u64) -> bool {
    stream.write_all(format!("GET /api/v1/jobs/{job}/wait?timeout=0.2 HTTP/1.1\r\nhost: rota\r\n\r\n").as_bytes()).unwrap();
    let mut stream = BufReader::new(stream);
    let (status, headers) = read_head(&mut stream);
    let length = headers.iter().find(|(name, _)| name == "content-length").and_then(|(_, value)| value.parse().ok());
    let mut body = vec![0; length.unwrap_or_else(|| panic!("status {status}, {headers:?}"))];
    stream.read_exact(&mut body).unwrap();
    let job: serde_json::Value = serde_json::from_slice(&body).unwrap();
    assert_eq!(status, 200, "{job:#}");
    job["state"] != json!("running")
}

#[test]
fn an_end_that_cannot_be_read_is_read_later_and_is_no_end() {
    let daemon = Daemon::start("a100:8");
    let go = daemon.file("go");
    let line = format!("while [ ! -e '{}' ]; do sleep 0.02; done; exit $1", go.display());
    let jobs = (0..8).map(|code: i32| daemon.submit(&["--", "sh", "-c", &line, "sh", &code.to_string()])).collect::<Vec<_>>();
    for id in &jobs {
        daemon.until_state(*id, "running");
    }
    let asking = UnixStream::connect(daemon.state.join("rota.sock")).unwrap();
    asking.set_read_timeout(Some(crate::live::PATIENCE)).unwrap();
    // The daemon has taken the connection once it has answered.
    assert!(!has_ended(&asking, jobs[0]));
    // No file can be opened from now on, by whatever cause.
    let before = set_files(&daemon, Some(3));
    std::fs::write(&go, "").unwrap();
    for (id, code) in jobs.iter().zip(0..) {
        let dir = daemon.run_dir(*id, 1);
        until(
            "it has ended",
            || matches!(rota_exec::adopt(&dir), Ok(rota_exec::Adopted::Ended(exit)) if exit.code == Some(code)),
        );
    }
    // While nothing can be read, nothing is decided: the connection that is open already sees no end.
    for _ in 0..3 {
        assert!(!has_ended(&asking, jobs[0]));
    }
    set_files(&daemon, before.current);
    for (job, code) in daemon.wait(&jobs).iter().zip(0..) {
        let expected = if code == 0 { json!(["done", 0]) } else { json!(["failed", code]) };
        assert_eq!(json!([job["state"], job["exit_code"]]), expected, "{job:#}");
    }
}

#[test]
fn jobs_have_the_files_that_the_daemon_was_given_and_not_those_it_took() {
    let folder = tempfile::tempdir().unwrap();
    let state = folder.path().join("state");
    let mut daemon = Daemon::at(folder, state, &["--virtual-gpus", "a100:1"], "", &[]);
    daemon.limit_files_softly(900);
    daemon.up();
    let limits = std::fs::read_to_string(format!("/proc/{}/limits", daemon.pid())).unwrap();
    let soft =
        limits.lines().find(|line| line.starts_with("Max open files")).unwrap().split_whitespace().nth(3).unwrap().to_owned();
    assert!(soft.parse::<u64>().unwrap() > 900, "the daemon has raised its own: {soft}");
    // A caller that sends no limits of its own, as `rota submit` does.
    let (status, answer) = daemon.post("/api/v1/jobs", br#"{"command": ["sh", "-c", "ulimit -Sn"], "cwd": "/"}"#);
    assert_eq!(status, 201, "{answer}");
    let id = serde_json::from_str::<serde_json::Value>(&answer).unwrap()["ids"][0].as_u64().unwrap();
    assert_eq!(daemon.wait_one(id)["state"], "done");
    assert_eq!(daemon.log(id).trim(), "900");
}

#[test]
fn idle_and_slow_connections_on_the_socket_end() {
    let daemon = Daemon::configured("a100:1", "[http]\npatience_seconds = 0.3\n");
    for begun in ["", "GET /api/v1/status HTTP/1.1\r\nhost: rota\r\nx-slow: "] {
        let mut stream = UnixStream::connect(daemon.state.join("rota.sock")).unwrap();
        stream.write_all(begun.as_bytes()).unwrap();
        let mut answer = Vec::new();
        // However it is told, the connection ends.
        _ = stream.read_to_end(&mut answer);
        let answer = String::from_utf8_lossy(&answer).into_owned();
        assert!(answer.is_empty() || answer.contains(" 400 ") || answer.contains(" 408 "), "{answer}");
    }
    assert!(daemon.ok(&["status"]).contains("pid"));
}

/// A stream of events that is let in, or the refusal.
fn stream_of(port: &Port, from: Option<u64>) -> Result<BufReader<TcpStream>, String> {
    let mut stream = port.connect();
    let path = from.map_or_else(|| "/events".to_owned(), |from| format!("/events?last_event_id={from}"));
    stream.write_all(format!("{}\r\n", port.head("GET", &path, &[])).as_bytes()).unwrap();
    let mut stream = BufReader::new(stream);
    let (status, headers) = read_head(&mut stream);
    if status == 200 {
        return Ok(stream);
    }
    let length = headers.iter().find(|(name, _)| name == "content-length").and_then(|(_, value)| value.parse().ok()).unwrap_or(0);
    let mut body = vec![0; length];
    stream.read_exact(&mut body).unwrap();
    Err(format!("{status} {}", String::from_utf8_lossy(&body)))
}

#[test]
fn one_user_has_so_many_streams_whatever_tokens_they_come_by() {
    let daemon = Daemon::configured("a100:1", "[limits]\nstreams_per_user = 4\nstreams_max = 100\n");
    let tokens = [Port::scoped(&daemon, "one", "read"), Port::scoped(&daemon, "two", "submit")];
    let mut held = (0..4).map(|number| stream_of(&tokens[number % 2], None).unwrap()).collect::<Vec<_>>();
    for port in &tokens {
        let said = stream_of(port, None).unwrap_err();
        assert!(said.starts_with("429 ") && said.contains("4 streams") && said.contains("limits.streams_per_user"), "{said}");
    }
    let id = daemon.submit(&["--hold", "--", "true"]);
    let said = daemon.refusal(1, &["logs", "-f", &id.to_string()]);
    assert!(said.contains("limits.streams_per_user"), "{said}");
    // Those that are there hear everything, and one that ends makes room.
    for stream in &mut held {
        assert!(String::from_utf8(read_chunk(stream).unwrap()).unwrap().contains("submitted"));
    }
    held.pop();
    until("there is room again", || stream_of(&tokens[0], None).is_ok());
}

#[test]
fn streams_that_nobody_reads_hold_little_and_are_cut_off() {
    let settings = "[http]\npatience_seconds = 1.0\n[limits]\nstreams_per_user = 200\n";
    let daemon = Daemon::configured("a100:1", settings);
    let port = Port::own(&daemon);
    // A past of a few hundred kilobytes, which all of them ask for from its beginning, and take nothing of.
    daemon.json(&["submit", "--json", "--hold", "--array", "1-3000", "--", "true"]);
    let memory = || {
        let status = std::fs::read_to_string(format!("/proc/{}/status", daemon.pid())).unwrap();
        let line = status.lines().find(|line| line.starts_with("VmRSS:")).unwrap().to_owned();
        line.split_whitespace().nth(1).unwrap().parse::<u64>().unwrap()
    };
    let before = memory();
    let streams = (0..200).map(|_| stream_of(&port, Some(0)).unwrap()).collect::<Vec<_>>();
    let grown = memory().saturating_sub(before);
    assert!(grown < 200 * 512, "each holds {} KiB", grown / 200);
    drop(streams);
    until("they are gone", || stream_of(&port, None).is_ok());
}

#[test]
fn a_full_room_tells_strangers_and_lets_the_owner_in() {
    let daemon = Daemon::configured("a100:1", "[limits]\nconnections_max = 8\nconnections_per_user = 4\n");
    let port = Port::own(&daemon);
    let _held = (0..4).map(|_| stream_of(&port, None).unwrap()).collect::<Vec<_>>();
    let reply = read_reply(&mut BufReader::new(port.connect()));
    assert_eq!((reply.status, reply.problem().as_str(), reply.header("retry-after")), (429, "too-many", Some("1")));
    let said = daemon.refusal(1, &["status"]);
    assert!(said.contains("limits.connections_per_user"), "the socket and the port are one room: {said}");
}
