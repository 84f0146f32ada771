//! When waiting jobs are expected to start, as the daemon says it.

use crate::live::{Daemon, until};
use serde_json::Value;

/// What is expected of these jobs, once the daemon has looked at all of them.
fn predictions(daemon: &Daemon, jobs: &[u64]) -> Vec<Value> {
    let mut found = Vec::new();
    until("the daemon has looked ahead", || {
        let said = daemon.json(&["predict", "--json"]);
        let said = said.as_array().unwrap().clone();
        let of = |id: &u64| said.iter().find(|job| job["id"] == *id).cloned();
        found = jobs.iter().filter_map(of).collect();
        found.len() == jobs.len()
    });
    found
}

#[test]
fn each_waiting_job_has_a_start_of_its_own() {
    let daemon = Daemon::start("a100:1");
    let submit = |estimate: &str| daemon.shell(&["--estimate", estimate], "sleep 600");
    let running = submit("600s");
    daemon.until_state(running, "running");
    let waiting = [submit("300s"), submit("300s"), submit("300s")];
    let said = predictions(&daemon, &waiting);
    let start = |job: &Value, which: &str| job[which].as_str().unwrap().to_owned();
    for (place, job) in said.iter().enumerate() {
        assert_eq!(job["position"], place + 1, "{said:#?}");
        let times = ["start_p10", "start_p50", "start_p90"].map(|which| start(job, which));
        assert!(times[0] < times[1] && times[1] < times[2], "{job:#}");
        assert!(start(job, "end_p50") > times[1], "{job:#}");
    }
    assert!(said.windows(2).all(|pair| start(&pair[0], "start_p50") < start(&pair[1], "start_p50")), "{said:#?}");
    assert_eq!(said[0]["depends_on"][0], running);
    assert_eq!(said[1]["depends_on"][0], waiting[0]);
    let shown = daemon.json(&["show", "--json", &waiting[0].to_string()]);
    assert!(shown["start_p10"].is_string() && shown["start_p50"].is_string() && shown["start_p90"].is_string(), "{shown:#}");
}

#[test]
fn the_jobs_of_an_array_start_one_after_the_other_and_those_that_wait_for_it_later() {
    let daemon = Daemon::start("a100:1");
    let running = daemon.shell(&["--estimate", "600s"], "sleep 600");
    daemon.until_state(running, "running");
    let array = daemon.json(&["submit", "--json", "--estimate", "300s", "--array", "1-11", "--", "sleep", "600"]);
    let ids = array["ids"].as_array().unwrap().iter().map(|id| id.as_u64().unwrap()).collect::<Vec<_>>();
    assert_eq!(ids.len(), 11);
    let after = daemon.shell(&["--after", &ids[10].to_string(), "--estimate", "60s"], "sleep 60");
    let held = daemon.shell(&["--estimate", "60s", "--hold"], "sleep 60");
    let said = predictions(&daemon, &[&ids[..], &[after, held]].concat());
    let starts = said.iter().map(|job| job["start_p50"].as_str().map(str::to_owned)).collect::<Vec<_>>();
    assert!(starts[..12].iter().all(Option::is_some), "{said:#?}");
    assert!(starts[..12].windows(2).all(|pair| pair[0] < pair[1]), "{starts:?}");
    assert_eq!((starts[12].as_deref(), &said[12]["note"]), (None, &Value::from("not known: the job is held")));
}

#[test]
fn a_start_that_depends_on_a_job_without_an_estimate_is_unknown_until_it_ends() {
    let daemon = Daemon::start("a100:1");
    let running = daemon.shell(&[], "sleep 600");
    daemon.until_state(running, "running");
    let waiting = daemon.shell(&["--estimate", "300s"], "sleep 600");
    let said = &predictions(&daemon, &[waiting])[0];
    assert!(said["start_p50"].is_null(), "{said:#}");
    assert_eq!(said["depends_on"][0], running);
    let note = said["note"].as_str().unwrap();
    assert_eq!(note, format!("not known until job {running}, whose length is not known, ends"));
    let table = daemon.ok(&["predict", &waiting.to_string()]);
    assert!(table.contains(note), "{table}");
    assert!(daemon.refusal(1, &["predict", &running.to_string()]).contains("does not wait"));
}

#[test]
fn held_jobs_and_drained_queues_have_no_start() {
    let daemon = Daemon::start("a100:2");
    let held = daemon.shell(&["--estimate", "60s", "--hold"], "true");
    assert_eq!(predictions(&daemon, &[held])[0]["note"], "not known: the job is held");
    daemon.ok(&["drain"]);
    let waiting = daemon.shell(&["--estimate", "60s"], "true");
    assert_eq!(predictions(&daemon, &[waiting])[0]["note"], "not known: the queue is drained");
}

#[test]
fn predictions_are_scored_on_a_trace() {
    let daemon = Daemon::start("a100:1");
    let trace = daemon.file("trace.csv");
    let row = |number: u32| format!("{number},{},{},1,ada", number * 100, 60 + 80 * (number % 2));
    let rows = std::iter::once("id,arrival_s,duration_s,gpus,user".to_owned()).chain((0..300).map(row));
    let text = rows.collect::<Vec<_>>().join("\n");
    std::fs::write(&trace, text).unwrap();
    let path = trace.display().to_string();
    let words = ["predict", "--score", "--trace", &path, "--cluster", "a100:1", "--policy", "fcfs", "--draws", "20", "--json"];
    let score = daemon.json(&words);
    assert!(score["jobs"].as_u64().unwrap() > 50, "{score:#}");
    let coverage = score["coverage_p10_p90"].as_f64().unwrap();
    assert!((0.0..=1.0).contains(&coverage) && score["bias_s"].is_f64() && score["error_median_s"].is_f64(), "{score:#}");
}
