//! Two jobs on one GPU: their speeds beside each other are measured, kept over a restart, and tell of pairs that were never seen.

use crate::live::{Daemon, until};
use serde_json::{Value, json};

/// A site that has measured `a` and `b`, alone and beside each other, and nothing else.
fn table() -> Value {
    json!({ "a100": {
        "('a', 1)": { "null": 200.0, "('a', 1)": [120.0, 120.0], "('b', 1)": [180.0, 190.0] },
        "('b', 1)": { "null": 200.0, "('a', 1)": [190.0, 180.0], "('b', 1)": [130.0, 130.0] },
    } })
}

fn train(daemon: &Daemon, job_type: &str) -> u64 {
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/it/live/queue/shared.py");
    let folder = daemon.folder.path().join("running");
    std::fs::create_dir_all(&folder).unwrap();
    let folder = folder.display().to_string();
    daemon.submit(&["--preemptible", "--job-type", job_type, "--", "python3", script, &folder, "200"])
}

/// The speed of a job type, alone or beside another, and how often it was measured.
fn speed(daemon: &Daemon, job_type: &str, beside: Option<&str>) -> Option<(f64, u64)> {
    let (status, body) = daemon.request("GET", "/api/v1/speeds", b"");
    assert_eq!(status, 200, "{body}");
    let speeds = serde_json::from_str::<Vec<Value>>(&body).unwrap();
    let line = speeds.iter().find(|line| line["job_type"] == job_type && line["beside"].as_str() == beside)?;
    Some((line["steps_per_second"].as_f64()?, line["measurements"].as_u64()?))
}

/// Waits until a speed was measured and has come near this one: the first measurements may have seen the other job start.
fn until_near(daemon: &Daemon, job_type: &str, beside: Option<&str>, expected: f64) {
    let mut known = None;
    let is_near = |(speed, measurements): (f64, u64)| measurements > 0 && (speed - expected).abs() < 15.0;
    until(&format!("`{job_type}` beside {beside:?} is measured"), || {
        known = speed(daemon, job_type, beside);
        known.is_some_and(is_near)
    });
}

#[test]
fn jobs_that_share_a_gpu_are_measured_and_tell_of_pairs_never_seen() {
    let folder = tempfile::tempdir().unwrap();
    let site = folder.path().join("site.json");
    std::fs::write(&site, table().to_string()).unwrap();
    let config = format!(
        "policy = 'max-min-packed'\nmechanism = 'rounds'\nround_seconds = 1.0\nsharing.throughputs = '{}'\n[jobs]\nmin_run_seconds = 0.0\n",
        site.display()
    );
    let mut daemon = Daemon::configured("a100:1", &config);
    let first = train(&daemon, "a");
    until_near(&daemon, "a", None, 200.0);
    let second = train(&daemon, "b");
    // Not what the site's table says of them, and not taken for steps alone.
    until_near(&daemon, "a", Some("b"), 150.0);
    until_near(&daemon, "b", Some("a"), 150.0);
    let alone = speed(&daemon, "a", None).unwrap().0;
    assert!((alone - 200.0).abs() < 15.0, "{alone}");
    daemon.restart();
    let kept = speed(&daemon, "a", Some("b")).expect("known after a restart");
    assert!(kept.1 > 0 && (kept.0 - 150.0).abs() < 15.0, "{kept:?}");
    let file = daemon.folder.path().join("speeds.json");
    let shown = daemon.ok(&["throughputs", "live", "-o", file.to_str().unwrap()]);
    assert!(shown.contains("a beside b"), "{shown}");
    let written = serde_json::from_str::<Value>(&std::fs::read_to_string(&file).unwrap()).unwrap();
    let written = written["a100"]["('a', 1)"]["('b', 1)"][1].as_f64().expect("a pair in Gavel's form");
    assert!((written - 150.0).abs() < 20.0, "{written}");
    daemon.ok(&["cancel", &first.to_string(), &second.to_string()]);
    daemon.wait(&[first, second]);
    // A type of which only its speed alone is known: its pairs are those of the reference that stands in for it.
    let third = train(&daemon, "new");
    until("a pair that was never seen is expected", || {
        speed(&daemon, "new", Some("a")).is_some_and(|(expected, measurements)| expected > 10.0 && measurements == 0)
    });
    daemon.ok(&["cancel", &third.to_string()]);
}
