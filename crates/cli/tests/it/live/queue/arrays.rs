//! Arrays of thousands with long commands: they hold one copy, keep nobody waiting, and are accepted whole or not at all.

use crate::live::queue::users::shared;
use crate::live::{Daemon, refused, until};
use serde_json::{Value, json};
use std::process::Stdio;
use std::time::{Duration, Instant};

const JOBS: usize = 2000;

/// A command that prints its index, with an argument of a hundred thousand bytes.
fn long_command(key: &str) -> Vec<String> {
    let options = ["submit", "--json", "--hold", "--key", key, "--array"].map(str::to_owned);
    let mut words = options.to_vec();
    words.extend([format!("1-{JOBS}"), "--".to_owned()]);
    words.extend(["sh", "-c", "echo {index}"].map(str::to_owned));
    words.push(format!("{{index}}{}", "x".repeat(100_000)));
    words
}

fn store_bytes(daemon: &Daemon) -> u64 {
    ["rota.db", "rota.db-wal"]
        .iter()
        .filter_map(|name| std::fs::metadata(daemon.state.join(name)).ok())
        .map(|meta| meta.len())
        .sum()
}

fn memory_kib(daemon: &Daemon) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{}/status", daemon.pid())).unwrap();
    let line = status.lines().find(|line| line.starts_with("VmHWM:")).unwrap().to_owned();
    line.split_whitespace().nth(1).unwrap().parse().unwrap()
}

#[test]
fn an_array_of_long_commands_holds_one_copy_and_keeps_nobody_waiting() {
    let Some((daemon, ann, bob)) = shared("a100:1", "") else { return };
    let before = memory_kib(&daemon);
    let words = long_command("k");
    let words = words.iter().map(String::as_str).collect::<Vec<_>>();
    let mut submit = bob.call(&daemon, &words).stdout(Stdio::piped()).spawn().unwrap();
    let mut waits = Vec::new();
    while submit.try_wait().unwrap().is_none() {
        let since = Instant::now();
        ann.submit(&daemon, &["--hold"], "true");
        waits.push(since.elapsed());
    }
    let answer: Value = serde_json::from_slice(&submit.wait_with_output().unwrap().stdout).unwrap();
    let ids = answer["ids"].as_array().unwrap().iter().map(|id| id.as_u64().unwrap()).collect::<Vec<_>>();
    assert_eq!(ids.len(), JOBS);
    // On a machine that does much else a submit takes long by itself; it does not wait for the array.
    assert!(waits.iter().all(|wait| *wait < Duration::from_secs(10)), "{waits:?}");
    assert!(store_bytes(&daemon) < 32 << 20, "{} bytes of store", store_bytes(&daemon));
    assert!(memory_kib(&daemon) < before + (100 << 10), "{} KiB more", memory_kib(&daemon) - before);
    // Each has its own command, whole where one looks at it and in short where all are listed.
    let job = daemon.show(ids[7]);
    assert_eq!((&job["command"][2], job["command"][3].as_str().unwrap().len()), (&json!("echo 8"), 100_001));
    assert!(job["command"][3].as_str().unwrap().starts_with("8xxx"));
    let listed = daemon.ok(&["queue", "--json", "--all"]);
    assert!(listed.len() < 20 << 20 && listed.contains("bytes in all"), "{} bytes", listed.len());
    assert!(bob.call(&daemon, &["release", &ids[41].to_string()]).status().unwrap().success());
    assert_eq!(daemon.wait_one(ids[41])["state"], "done");
    assert_eq!(daemon.log(ids[41]), "42\n");
    // The same again is a new job with the same index.
    let again = bob.json(&daemon, &["retry", "--json", &ids[41].to_string()]);
    let again = again["ids"].as_array().map_or_else(|| again["id"].as_u64(), |ids| ids[0].as_u64()).unwrap();
    daemon.wait_one(again);
    assert_eq!(daemon.log(again), "42\n");
}

#[test]
fn an_array_is_whole_whenever_the_daemon_is_killed() {
    let mut daemon = Daemon::start("a100:1");
    let words = long_command("whole");
    let words = words.iter().map(String::as_str).collect::<Vec<_>>();
    let mut submit = daemon.call(&words).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    let count = |daemon: &Daemon| {
        let path = daemon.state.join("rota.db");
        let open =
            rusqlite::Connection::open(path).and_then(|store| store.query_row("SELECT count(*) FROM jobs", [], |row| row.get(0)));
        open.unwrap_or(0_u64)
    };
    until("some of it is there", || count(&daemon) > 0);
    daemon.kill();
    submit.wait().unwrap();
    daemon.up();
    until("all of it is there", || count(&daemon) == JOBS as u64);
    // The same submit is told of the same jobs, and makes no others.
    let answer = daemon.json(&words);
    assert_eq!(answer["ids"].as_array().unwrap().len(), JOBS, "{answer}");
    assert_eq!(count(&daemon), JOBS as u64);
    let mut ids = answer["ids"].as_array().unwrap().clone();
    ids.dedup();
    assert_eq!(ids.len(), JOBS);
}

#[test]
fn one_user_holds_so_many_bytes() {
    let Some((daemon, ann, bob)) = shared("a100:1", "[limits]\nuser_mib = 1\narray_max = 3000\ncommand_kib = 500\n") else {
        return;
    };
    let long = "x".repeat(100_000);
    let mut taken = 0;
    let said = loop {
        let words = ["submit", "--hold", "--", "true", &format!("{taken}"), &long];
        let output = bob.call(&daemon, &words).output().unwrap();
        if !output.status.success() {
            break String::from_utf8(output.stderr).unwrap();
        }
        taken += 1;
        assert!(taken < 20, "there is no limit");
    };
    assert!((5..=10).contains(&taken) && said.contains("limits.user_mib") && said.contains("1 MiB"), "{taken}: {said}");
    // What others hold is not hers, and what is over is not held.
    assert!(ann.submit(&daemon, &["--hold"], "true") > 0);
    let first = 1.to_string();
    assert!(bob.call(&daemon, &["cancel", &first]).status().unwrap().success());
    assert!(
        bob.call(&daemon, &["submit", "--hold", "--", "true", "again", &long]).stdout(Stdio::null()).status().unwrap().success()
    );
    let said = refused(2, &mut ann.call(&daemon, &["submit", "--array", "1-3001", "--", "true"]));
    assert!(said.contains("3001 jobs") && said.contains("limits.array_max"), "{said}");
    let words = ["submit", "--", "true", &long, &long, &long, &long, &long, &long];
    let said = refused(2, &mut ann.call(&daemon, &words));
    assert!(said.contains("limits.command_kib"), "{said}");
}
