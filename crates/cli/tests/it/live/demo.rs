//! `rota demo`: under ten seconds to the first job, found by plain commands, and gone without a trace.

use crate::live::{kill, program, until};
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::path::Path;
use std::process::{Command, Stdio};

/// A call in which nothing names a daemon.
fn plain(home: &Path, arguments: &[&str]) -> Command {
    let mut command = Command::new(program());
    command.args(arguments).current_dir(home);
    command.env_remove("ROTA_STATE").env("TMPDIR", home).env("HOME", home).env("XDG_STATE_HOME", home.join("none"));
    command
}

/// The answer to a GET on the port.
fn get(address: &str, path: &str) -> String {
    let mut stream = TcpStream::connect(address).unwrap();
    write!(stream, "GET {path} HTTP/1.1\r\nhost: {address}\r\nconnection: close\r\n\r\n").unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    answer
}

#[test]
fn the_demo_runs_jobs_within_ten_seconds_is_found_and_leaves_nothing() {
    let home = tempfile::tempdir().unwrap();
    let mut demo = plain(home.path(), &["demo"]).stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
    let mut said = String::new();
    let mut lines = BufReader::new(demo.stdout.take().unwrap()).lines();
    while !said.contains("Ctrl-C ends the demo") {
        said.push_str(&lines.next().unwrap_or_else(|| panic!("it ended: {said}")).unwrap());
        said.push('\n');
    }
    let seconds: f64 = said.split("the first after ").nth(1).unwrap().split(' ').next().unwrap().parse().unwrap();
    assert!(seconds < 10.0, "{said}");
    // A plain command in the next terminal finds it.
    let status = plain(home.path(), &["status", "--json"]).output().unwrap();
    let status: serde_json::Value = serde_json::from_slice(&status.stdout).unwrap();
    assert!(status["running"].as_u64().unwrap() > 0 && status["gpus"].as_array().unwrap().len() == 4, "{status:#}");
    let queue = String::from_utf8(plain(home.path(), &["queue"]).output().unwrap().stdout).unwrap();
    assert!(queue.contains("bert (9 jobs)") && queue.contains("llama-finetune"), "{queue}");
    // The link signs in once.
    let link = said.split_whitespace().find(|word| word.contains("/sign-in/")).unwrap();
    let (address, path) = link.strip_prefix("http://").unwrap().split_once('/').unwrap();
    let answer = get(address, &format!("/{path}"));
    assert!(answer.starts_with("HTTP/1.1 303") && answer.to_lowercase().contains("set-cookie: rota_session="), "{answer}");
    assert!(get(address, &format!("/{path}")).starts_with("HTTP/1.1 401"));
    kill(demo.id(), rustix::process::Signal::INT);
    assert!(demo.wait().unwrap().success());
    until("nothing of it is left", || std::fs::read_dir(home.path()).unwrap().next().is_none());
}
