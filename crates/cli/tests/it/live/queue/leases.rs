//! Leases: jobs that are stopped for others save their work, leave, and go on where they were.

use crate::live::{Daemon, line_of, until};
use serde_json::{Value, json};
use std::io::{Read, Write};
use std::net::TcpStream;
use std::path::{Path, PathBuf};

/// The training that asks for its lease.
fn leased() -> String {
    concat!(env!("CARGO_MANIFEST_DIR"), "/tests/it/live/queue/leased.py").to_owned()
}

/// Submits a training of so many steps, and gives its number and the journal of its steps.
fn train(daemon: &Daemon, name: &str, steps: u32, seconds_per_step: f64) -> (u64, PathBuf) {
    let journal = daemon.file(name);
    let (steps, seconds) = (steps.to_string(), seconds_per_step.to_string());
    let command = ["--preemptible", "--name", name, "--", "python3", &leased(), journal.to_str().unwrap(), &steps, &seconds];
    (daemon.submit(&command), journal)
}

/// The steps in a journal, in order.
fn steps_in(journal: &Path) -> Vec<u64> {
    let text = std::fs::read_to_string(journal).unwrap_or_default();
    text.lines().map(|line| line.split(' ').next().unwrap().parse().unwrap()).collect()
}

/// What happened to a job, as the API tells it.
fn events(daemon: &Daemon, id: u64) -> String {
    daemon.request("GET", &format!("/api/v1/jobs/{id}/events"), b"").1
}

#[test]
fn two_trainings_take_turns_on_one_gpu_and_no_step_is_done_twice() {
    // A turn is long enough for a training to start in it, on a busy machine too.
    let daemon = Daemon::configured("a100:1", "policy = 'rr:quantum=2'\n[jobs]\nmin_run_seconds = 0.2\n");
    let jobs = [train(&daemon, "first", 130, 0.03), train(&daemon, "second", 130, 0.03)];
    let committed = jobs.each_ref().map(|(id, journal)| {
        let job = daemon.wait_one(*id);
        assert_eq!(job["state"], "done", "{job}");
        assert!(job["attempts"].as_u64().unwrap() > 1, "it was never stopped: {job}");
        assert_eq!(steps_in(journal), (1..=130).collect::<Vec<_>>(), "each step is done once, in order");
        // On a busy machine a job may be stopped before its first step, and then never again.
        job["steps_done"].as_u64().unwrap_or(0)
    });
    assert!(committed.iter().all(|steps| *steps < 130), "the last commit came before the end: {committed:?}");
    assert!(committed.iter().any(|steps| *steps > 0), "nothing was ever committed");
}

#[test]
fn what_was_committed_is_known_to_a_daemon_that_was_killed() {
    let mut daemon = Daemon::configured("a100:1", "policy = 'rr:quantum=0.4'\n[jobs]\nmin_run_seconds = 0.2\n");
    let jobs = [train(&daemon, "first", 60, 0.03), train(&daemon, "second", 60, 0.03)];
    for _ in 0..3 {
        let seen = steps_in(&jobs[0].1).len() + steps_in(&jobs[1].1).len();
        until("the jobs have gone on", || steps_in(&jobs[0].1).len() + steps_in(&jobs[1].1).len() > seen + 12);
        daemon.restart();
    }
    for (id, journal) in &jobs {
        let job = daemon.wait_one(*id);
        assert_eq!(job["state"], "done", "{job}: {}", daemon.log(*id));
        assert_eq!(steps_in(journal), (1..=60).collect::<Vec<_>>(), "no step is lost after its commit, and none is done twice");
    }
}

#[test]
fn a_job_with_a_signal_of_its_own_saves_leaves_and_resumes() {
    let daemon = Daemon::configured("a100:1", "policy = 'rr:quantum=0.4'\n[jobs]\nmin_run_seconds = 0.3\n");
    let script = "save() { echo saved >> \"$ROTA_CHECKPOINT_DIR/state\"; exit 85; }\n\
        trap save USR1\n\
        if [ \"$1\" = --resume ]; then echo resumed from $ROTA_RESUME_FROM; exit 0; fi\n\
        while :; do sleep 0.02; done";
    let options = ["--preempt", "signal=USR1,grace=20,to=main", "--resume-arg", "--resume"];
    let command = ["--", "sh", "-c", script, "job"];
    let id = daemon.submit(&[&options[..], &command].concat());
    daemon.until_state(id, "running");
    let other = daemon.shell(&["--preemptible"], "exit 0");
    let job = daemon.wait_one(id);
    assert_eq!(job["state"], "done", "{job}");
    assert_eq!(job["attempts"], 2, "{job}");
    assert!(daemon.log(id).contains("resumed from"), "{}", daemon.log(id));
    assert_eq!(daemon.wait_one(other)["state"], "done");
}

#[test]
fn a_job_that_ignores_its_notice_is_killed_and_reported() {
    let daemon = Daemon::configured("a100:1", "policy = 'rr:quantum=0.3'\n[jobs]\nmin_run_seconds = 0.2\n");
    let stubborn = "trap '' USR1; i=0; while [ $i -lt 100 ]; do sleep 0.02; i=$((i+1)); done";
    let id = daemon.shell(&["--preempt", "signal=USR1,grace=0.2"], stubborn);
    daemon.until_state(id, "running");
    let others = [daemon.shell(&["--preemptible"], "sleep 0.1"), daemon.shell(&["--preemptible"], "sleep 0.1")];
    until("its second run begins", || daemon.show(id)["attempts"].as_u64() > Some(1));
    let told = events(&daemon, id);
    assert!(told.contains("work_lost") && told.contains("did not leave within 0.2 s"), "{told}");
    // Twice is enough: then it runs to its end.
    let job = daemon.wait_one(id);
    assert_eq!(job["state"], "done", "{job}");
    assert!(job["attempts"].as_u64().unwrap() <= 3, "{job}");
    daemon.wait(&others);
}

#[test]
fn a_job_that_lost_its_work_twice_runs_to_its_end() {
    let daemon = Daemon::configured("a100:1", "policy = 'rr:quantum=0.3'\n[jobs]\nmin_run_seconds = 0.1\n");
    let jobs = [daemon.shell(&["--preemptible"], "sleep 2"), daemon.shell(&["--preemptible"], "sleep 2")];
    let mut spared = String::new();
    until("one of them is spared", || {
        spared = jobs.iter().map(|id| daemon.explain(*id)["reason"].to_string()).collect::<Vec<_>>().join("\n");
        spared.contains("lost its work")
    });
    for job in daemon.wait(&jobs) {
        assert_eq!(job["state"], "done", "{job}");
        assert!(job["attempts"].as_u64().unwrap() <= 3, "{job}");
    }
}

#[test]
fn signals_and_rounds_that_cannot_be_meant_are_refused() {
    let daemon = Daemon::start("a100:1");
    let refusal = daemon.refusal(2, &["submit", "--preempt", "signal=KILL", "--", "true"]);
    assert!(refusal.contains("cannot save") && refusal.contains("USR1"), "{refusal}");
    let refusal = daemon.refusal(2, &["submit", "--preempt", "sgnal=USR1", "--", "true"]);
    assert!(refusal.contains("signal=NAME"), "{refusal}");
    let refusal = daemon.refusal(2, &["submit", "--resume-arg", "--resume", "--", "true"]);
    assert!(refusal.contains("--preempt"), "{refusal}");
    let settings = daemon.file("rounds.toml");
    std::fs::write(&settings, "mechanism = 'rounds'\nround_seconds = 20.0\n[jobs]\nrestart_seconds = 3.0\n").unwrap();
    let refusal = daemon.refusal(2, &["config", "check", settings.to_str().unwrap()]);
    assert!(refusal.contains("ten restarts") && refusal.contains("30"), "{refusal}");
}

#[test]
fn a_folder_for_checkpoints_that_cannot_be_made_is_said_in_the_reason() {
    let daemon = Daemon::start("a100:1");
    let blocked = daemon.file("blocked");
    std::fs::write(&blocked, "").unwrap();
    let config = format!("[jobs]\ncheckpoint_dir = '{}'\n", blocked.join("below").display());
    let daemon = Daemon::configured("a100:1", &config);
    let id = daemon.shell(&[], "exit 0");
    until("the reason is given", || daemon.show(id)["reason"].as_str().is_some_and(|text| text.contains("checkpoint")));
    let reason = daemon.show(id)["reason"].as_str().unwrap().to_owned();
    assert!(reason.contains("jobs.checkpoint_dir"), "{reason}");
}

/// Asks the lease service, and gives the status and the answer.
fn ask(daemon: &Daemon, route: &str, token: &str, body: &Value) -> (u16, Value) {
    let address = line_of(&daemon.state.join("lease"));
    let mut stream = TcpStream::connect(&address).unwrap();
    let body = body.to_string();
    let head = format!(
        "POST /lease/v1/{route} HTTP/1.1\r\nhost: {address}\r\nauthorization: Bearer {token}\r\ncontent-length: {}\r\nconnection: close\r\n\r\n",
        body.len()
    );
    stream.write_all((head + &body).as_bytes()).unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    let status = answer.split_whitespace().nth(1).unwrap().parse().unwrap();
    (status, serde_json::from_str(answer.split_once("\r\n\r\n").unwrap().1).unwrap())
}

#[test]
fn what_a_run_may_not_say_of_its_lease_is_refused_with_the_reason() {
    let daemon = Daemon::start("a100:1");
    let file = daemon.file("token");
    let id = daemon.shell(&["--preemptible"], &format!("echo $ROTA_LEASE_TOKEN > '{}'; exec sleep 60", file.display()));
    let token = line_of(&file);
    let says = |route: &str, token: &str, body: Value, status: u16, part: &str| {
        let (given, answer) = ask(&daemon, route, token, &body);
        assert_eq!(given, status, "{route} {body}: {answer}");
        assert!(answer.to_string().contains(part), "{route} {body}: {answer}");
    };
    says("grant", "17.1.abc", json!({ "lease": 1 }), 401, "ROTA_LEASE_TOKEN");
    says("grant", &token, json!({ "lease": 2 }), 409, "lease 1");
    says("grant", &token, json!({ "lease": 1, "rnk": 0 }), 400, "rnk");
    says("grant", &token, json!({ "lease": 1, "rank": 3, "world": 2 }), 400, "rank 3");
    says("grant", &token, json!({ "lease": 1 }), 200, "max_seconds");
    says("progress", &token, json!({ "lease": 1, "steps": 10, "seconds": 1.0 }), 200, "{}");
    says("progress", &token, json!({ "lease": 1, "steps": 9, "seconds": 2.0 }), 400, "below 10");
    says("commit", &token, json!({ "lease": 1, "step": 10, "path": "nothing" }), 400, "there is no `nothing`");
    says("commit", &token, json!({ "lease": 1, "step": 10, "path": "../../1/log" }), 400, "there is no");
    std::fs::write(daemon.state.join(format!("jobs/{id}/checkpoint/saved")), "").unwrap();
    says("commit", &token, json!({ "lease": 1, "step": 10, "path": "saved" }), 200, "10");
    says("commit", &token, json!({ "lease": 1, "step": 9, "path": "saved" }), 400, "below 10");
    assert_eq!(daemon.show(id)["steps_done"], 10);
    daemon.ok(&["cancel", &id.to_string()]);
    daemon.until_state(id, "cancelled");
    says("commit", &token, json!({ "lease": 1, "step": 11, "path": "saved" }), 404, "no job");
}

/// The speeds that the daemon knows, as `rota throughputs live` prints them.
fn speeds(daemon: &Daemon) -> Vec<Value> {
    serde_json::from_value(daemon.json(&["throughputs", "live", "--json"])).unwrap()
}

#[test]
fn the_steps_that_jobs_tell_become_the_speed_of_their_type_and_survive_a_kill() {
    let mut daemon = Daemon::configured("a100:1,t4:1", "policy = 'max-min-perf:tick=1'\n");
    assert_eq!(speeds(&daemon), Vec::<Value>::new());
    let journal = daemon.file("journal");
    let command = ["python3", &leased(), journal.to_str().unwrap(), "30", "0.05"];
    let options = ["--preemptible", "--job-type", "net", "--gpu-type", "a100", "--"];
    let id = daemon.submit(&[&options[..], &command].concat());
    assert_eq!(daemon.wait_one(id)["state"], "done");
    until("the speed is shown", || !speeds(&daemon).is_empty());
    let known = speeds(&daemon);
    let [on_a100, on_t4] = known.as_slice() else { panic!("{known:?}") };
    assert_eq!(
        (&on_a100["job_type"], &on_a100["gpu_type"], &on_a100["measurements"]),
        (&json!("net"), &json!("a100"), &json!(1))
    );
    let speed = on_a100["steps_per_second"].as_f64().unwrap();
    assert!(speed > 1.0 && speed < 20.0, "it sleeps for 0.05 s before each step, and asks the daemon after it: {known:?}");
    assert_eq!((&on_t4["measurements"], &on_t4["steps_per_second"]), (&json!(0), &on_a100["steps_per_second"]), "believed");
    daemon.restart();
    assert_eq!(speeds(&daemon), known, "the journal knows it");
    let table = daemon.file("speeds.csv");
    daemon.ok(&["history", "export", "-o", daemon.file("jobs.csv").to_str().unwrap(), "--throughputs", table.to_str().unwrap()]);
    let jobs = std::fs::read_to_string(daemon.file("jobs.csv")).unwrap();
    assert!(jobs.contains("steps") && jobs.contains(",30"), "{jobs}");
    assert!(std::fs::read_to_string(&table).unwrap().contains("net,1"));
}

#[test]
fn a_run_that_was_stopped_cannot_commit_for_the_one_that_follows() {
    let daemon = Daemon::configured("a100:1", "policy = 'rr:quantum=0.4'\n[jobs]\nmin_run_seconds = 0.2\n");
    let line = format!("echo $ROTA_LEASE_TOKEN > '{}/token-'$ROTA_LEASE; exec sleep 60", daemon.folder.path().display());
    // It never asks for a lease: it is stopped by a signal, and starts anew.
    let id = daemon.shell(&["--preemptible"], &line);
    let first = line_of(&daemon.file("token-1"));
    let other = daemon.shell(&["--preemptible"], "exit 0");
    line_of(&daemon.file("token-2"));
    assert_eq!(daemon.wait_one(other)["state"], "done");
    std::fs::write(daemon.state.join(format!("jobs/{id}/checkpoint/saved")), "").unwrap();
    let (status, answer) = ask(&daemon, "commit", &first, &json!({ "lease": 1, "step": 5, "path": "saved" }));
    assert_eq!(status, 409, "{answer}");
    assert!(answer.to_string().contains("lease 1 of job 1 is over: the job has lease 2 now"), "{answer}");
    assert_eq!(daemon.show(id)["steps_done"], Value::Null);
    daemon.ok(&["cancel", &id.to_string()]);
}

#[test]
fn rounds_shorter_than_ten_measured_restarts_are_a_warning() {
    let config = "policy = 'max-min:stay=0'\nmechanism = 'rounds'\nround_seconds = 1.0\n[jobs]\nmin_run_seconds = 0.0\n";
    let daemon = Daemon::configured("a100:1", config);
    let slow = "trap 'sleep 0.4; exit 85' USR1; while :; do sleep 0.02; done";
    let options = ["--preempt", "signal=USR1,grace=20", "--job-type", "slow"];
    let jobs = [daemon.shell(&options, slow), daemon.shell(&options, slow)];
    until("the warning is given", || {
        daemon.json(&["status", "--json"])["warnings"].to_string().contains("ten restarts of `slow`")
    });
    daemon.ok(&["cancel", &jobs[0].to_string(), &jobs[1].to_string()]);
}
