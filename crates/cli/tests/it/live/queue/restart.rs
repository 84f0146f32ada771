//! What a restart of the daemon must not change, what a drained queue must not do, and old state directories.

use crate::live::{Daemon, line_of, until};
use serde_json::{Value, json};
use std::path::Path;

/// The states of a job as the journal told them, one word each.
fn told(daemon: &Daemon, id: u64) -> Vec<String> {
    let (status, body) = daemon.request("GET", &format!("/api/v1/jobs/{id}/events"), b"");
    assert_eq!(status, 200, "{body}");
    let events: Value = serde_json::from_str(&body).unwrap();
    let events = events.as_array().cloned().unwrap_or_default();
    events.iter().map(|event| event["kind"].as_str().unwrap_or_default().to_owned()).collect()
}

#[test]
fn a_drained_queue_stops_nobody() {
    for policy in ["rr:quantum=0.2", "las:first=0.1", "srtf", "max-min:tick=0.2", "lag-match:tick=0.2", "priority:preempt=true"] {
        let daemon = Daemon::with(&["--virtual-gpus", "a100:1", "--policy", policy], "", &[]);
        let runs = daemon.submit(&["--preemptible", "--estimate", "1000", "--", "sleep", "600"]);
        daemon.until_state(runs, "running");
        daemon.ok(&["drain"]);
        // It would take the GPU under each of these policies, sooner or later.
        let waits = daemon.submit(&["--preemptible", "--estimate", "1", "--priority", "9", "--", "true"]);
        // A submit that is refused or accepted comes after everything that was due before it.
        for _ in 0..20 {
            daemon.ok(&["hold", &waits.to_string()]);
            daemon.ok(&["release", &waits.to_string()]);
        }
        assert_eq!((daemon.state_of(runs).as_str(), daemon.state_of(waits).as_str()), ("running", "waiting"), "{policy}");
        assert_eq!(daemon.show(runs)["attempts"], 1, "{policy}");
    }
}

#[test]
fn a_drained_gpu_stays_drained_and_its_job_runs_on() {
    let mut daemon = Daemon::with(&["--virtual-gpus", "a100:2", "--policy", "rr:quantum=0.2"], "", &[]);
    let ids = [0, 1].map(|_| daemon.submit(&["--preemptible", "--saves-progress", "--estimate", "1000", "--", "sleep", "600"]));
    for id in ids {
        daemon.until_state(id, "running");
    }
    let on_drained = ids.into_iter().find(|id| daemon.show(*id)["gpu_indices"] == json!([0])).unwrap();
    daemon.ok(&["drain", "--gpus", "0"]);
    let waits = daemon.submit(&["--preemptible", "--saves-progress", "--estimate", "1000", "--", "sleep", "600"]);
    // The other GPU is shared out in turns.
    until("it has had a turn", || daemon.show(waits)["attempts"] != json!(0));
    assert_eq!(daemon.show(on_drained)["attempts"], 1, "its GPU would be of no use to anybody");
    daemon.restart();
    let gpus = daemon.json(&["gpus", "--json"]);
    assert_eq!(gpus[0]["state"], "drained", "{gpus:#}");
    assert_eq!(daemon.show(on_drained)["attempts"], 1);
    daemon.ok(&["resume", "--gpus", "0"]);
    until("it is given out again", || daemon.json(&["gpus", "--json"])[0]["state"] != "drained");
}

#[test]
fn a_state_directory_of_the_version_before_goes_on() {
    let folder = tempfile::tempdir().unwrap();
    let state = folder.path().join("state");
    std::fs::create_dir(&state).unwrap();
    let old = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/state-of-schema-6.db");
    std::fs::copy(old, state.join("rota.db")).unwrap();
    // It had seven jobs: one done, one failed, two that ran, one of them preemptible, a gang that waited, one held, one that waited for
    // another.
    let mut daemon = Daemon::at(folder, state, &["--virtual-gpus", "a100:2"], "", &[]);
    daemon.up();
    let jobs = daemon.wait(&[1, 2, 3, 4, 5, 7]);
    let states = jobs.iter().map(|job| job["state"].as_str().unwrap().to_owned()).collect::<Vec<_>>();
    // Nobody can say what became of those that ran: their run directories are not there.
    assert_eq!(states, ["done", "failed", "lost", "lost", "done", "failed"]);
    assert_eq!(jobs[4]["priority"], 3);
    assert_eq!(daemon.state_of(6), "held");
    daemon.ok(&["release", "6"]);
    assert_eq!(daemon.wait_one(6)["state"], "done");
    assert_eq!(told(&daemon, 1), ["submitted", "started", "finished"], "what was written before is told as it was");
    assert_eq!(daemon.submit(&["--", "true"]), 8, "numbers go on");
}

#[test]
fn a_job_that_lost_one_of_its_gpus_and_is_tried_again_starts_on_others() {
    let mut daemon = Daemon::start("a100:2,t4:2");
    let first = daemon.shell(&["-g", "2", "--gpu-type", "a100"], "sleep 600");
    daemon.until_state(first, "running");
    let (begun, go) = (daemon.file("begun"), daemon.file("go"));
    // It fails the first time, and runs on the two GPUs that are left then.
    let line = format!(
        "echo begun >> '{}'; while [ ! -e '{}' ]; do sleep 0.02; done; test $ROTA_ATTEMPT = 2",
        begun.display(),
        go.display()
    );
    let job = daemon.shell(&["-g", "2", "--retries", "1", "--retry-delay", "0.05"], &line);
    line_of(&begun);
    assert_eq!(daemon.show(job)["gpu_indices"], json!([2, 3]));
    daemon.kill();
    daemon.set_gpus("a100:2,t4:1");
    daemon.up();
    assert_eq!(daemon.state_of(job), "running", "it runs on without one of its GPUs");
    daemon.ok(&["cancel", &first.to_string()]);
    daemon.until_state(first, "cancelled");
    std::fs::write(&go, "").unwrap();
    let ended = daemon.wait_one(job);
    assert_eq!((&ended["state"], &ended["attempts"], &ended["gpu_indices"]), (&json!("done"), &json!(2), &json!([0, 1])));
}

#[test]
fn a_lock_that_a_killed_daemon_left_to_a_process_is_waited_for() {
    let mut daemon = Daemon::start("a100:1");
    daemon.kill();
    // A process that was being made when the daemon was killed holds the lock until it has become another program.
    let mut left = std::process::Command::new("flock").arg(daemon.state.join("lock")).args(["sleep", "0.5"]).spawn().unwrap();
    until("the lock is held", || {
        let tried = std::process::Command::new("flock").arg("--nonblock").arg(daemon.state.join("lock")).arg("true").status();
        !tried.unwrap().success()
    });
    daemon.up();
    left.wait().unwrap();
}
