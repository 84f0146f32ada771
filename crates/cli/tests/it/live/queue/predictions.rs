//! When waiting jobs are expected to start, as the daemon says it.

use crate::live::{Daemon, program, until};
use crate::rota::{json, refusal, stdout};
use serde_json::Value;
use std::io::{BufRead, BufReader, Write};
use std::os::unix::net::UnixListener;
use std::process::Output;

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
        let ends = ["end_p10", "end_p50", "end_p90"].map(|which| start(job, which));
        assert!(ends[0] < ends[1] && ends[1] < ends[2], "{job:#}");
        assert!(times.iter().zip(&ends).all(|(start, end)| start < end), "{job:#}");
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
    let output = daemon.rota(&["predict", &waiting.to_string()]);
    let (table, remark) = (String::from_utf8(output.stdout).unwrap(), String::from_utf8(output.stderr).unwrap());
    assert!(table.contains(note.strip_prefix("not known ").unwrap()), "{table}");
    let explained = "nine of ten jobs start after BETWEEN, and nine of ten before AND; lengths are learned from 0 ended jobs";
    assert_eq!(remark.trim_end(), explained);
    let said = daemon.refusal(1, &["predict", &running.to_string()]);
    assert!(said.contains(&format!("job {running} does not wait: it is running")), "{said}");
    let said = daemon.refusal(1, &["predict", &waiting.to_string(), "99"]);
    assert!(said.contains("there is no job 99"), "{said}");
}

#[test]
fn how_earlier_predictions_turned_out_is_said_beside_the_next_ones() {
    let daemon = Daemon::start("a100:1");
    let running = daemon.shell(&["--estimate", "600s"], "sleep 600");
    daemon.until_state(running, "running");
    let waiting = (0..22).map(|_| daemon.shell(&["--estimate", "60s"], "true")).collect::<Vec<_>>();
    predictions(&daemon, &waiting);
    daemon.ok(&["cancel", &running.to_string()]);
    for id in waiting {
        daemon.until_state(id, "done");
    }
    let running = daemon.shell(&["--estimate", "600s"], "sleep 600");
    daemon.until_state(running, "running");
    daemon.shell(&["--estimate", "60s"], "true");
    until("the daemon says how its predictions turned out", || {
        let remark = String::from_utf8(daemon.rota(&["predict"]).stderr).unwrap();
        remark.contains("of the last 22 jobs whose start was predicted, ")
    });
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

#[test]
fn the_own_past_is_scored_as_the_daemon_is_set() {
    let daemon = Daemon::configured("a100:1", "policy = 'priority:preempt=true'\n[jobs]\nmin_run_seconds = 60.0\n");
    let first = daemon.shell(&["--preemptible", "--estimate", "2s"], "sleep 1.5");
    daemon.until_state(first, "running");
    let second = daemon.shell(&["--priority", "5", "--estimate", "1s"], "true");
    daemon.wait(&[first, second]);
    // Without the daemon's settings the second job would stop the first one, and would not wait.
    let score = daemon.json(&["predict", "--score", "--draws", "20", "--json"]);
    assert_eq!(score["jobs"].as_u64().unwrap() + score["unknown"].as_u64().unwrap(), 1, "{score:#}");
}

/// What `rota predict` prints when a daemon answers with these predictions, and with a waiting job when it is asked for one.
fn predict_of(answer: &str, arguments: &[&str]) -> Output {
    let folder = tempfile::tempdir().unwrap();
    let listener = UnixListener::bind(folder.path().join("rota.sock")).unwrap();
    let answer = answer.to_owned();
    // The thread ends with the test.
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let mut stream = BufReader::new(stream.unwrap());
            let (mut first, mut line) = (String::new(), String::new());
            stream.read_line(&mut first).unwrap();
            while line != "\r\n" {
                line.clear();
                stream.read_line(&mut line).unwrap();
            }
            let body = if first.contains("/api/v1/jobs/") { r#"{"state":"waiting"}"# } else { &answer };
            let text = format!("HTTP/1.0 200 OK\r\ncontent-length: {}\r\n\r\n{body}", body.len());
            stream.get_mut().write_all(text.as_bytes()).unwrap();
        }
    });
    let mut command = std::process::Command::new(program());
    command.arg("predict").args(arguments).env("ROTA_STATE", folder.path()).output().unwrap()
}

#[test]
fn a_queue_without_predictions_says_why() {
    let long = "12000 jobs wait or run: starts are predicted for queues of up to 10000";
    let long_answer = format!(r#"{{"made_at":null,"learned_from":0,"note":"{long}","jobs":[]}}"#);
    let early_answer = r#"{"made_at":null,"learned_from":0,"note":null,"jobs":[]}"#;
    let early = "no prediction has been made yet; try again in a few seconds";
    for (answer, why) in [(long_answer.as_str(), long), (early_answer, early)] {
        let said = |arguments: &[&str]| {
            let output = predict_of(answer, arguments);
            let [stdout, stderr] =
                [output.stdout, output.stderr].map(|text| String::from_utf8(text).unwrap().trim_end().to_owned());
            (output.status.code().unwrap(), stdout, stderr)
        };
        assert_eq!(said(&[]), (0, why.to_owned(), String::new()));
        assert_eq!(said(&["--json"]), (0, "[]".to_owned(), why.to_owned()));
        let (code, stdout, stderr) = said(&["17"]);
        assert!(code == 1 && stdout.is_empty() && stderr.contains(why) && !stderr.contains("does not wait"), "{stderr}");
    }
    let empty = r#"{"made_at":"2026-11-01T00:00:00Z","learned_from":0,"note":null,"jobs":[]}"#;
    for (arguments, printed) in [(&[][..], "no job waits\n"), (&["--json"], "[]\n")] {
        let output = predict_of(empty, arguments);
        assert_eq!((output.stdout, output.stderr), (printed.into(), Vec::new()));
    }
}

#[test]
fn options_of_a_score_are_refused_without_it_and_below_zero() {
    for option in
        ["--every=2", "--again=60", "--draws=20", "--no-arrivals", "--csv=starts.csv", "--policy=fcfs", "--restart-cost=1"]
    {
        let said = refusal(&["predict", option]);
        assert!(said.contains("--score"), "{option}: {said}");
    }
    for option in ["--again=-5", "--restart-cost=-1", "--again=nan"] {
        let said = refusal(&["predict", "--score", option]);
        assert!(said.contains("give a number from 0"), "{option}: {said}");
    }
    refusal(&["predict", "--score", "--again", "-5"]);
    refusal(&["predict", "--score", "--restart-cost", "-1"]);
}

#[test]
fn a_job_that_is_not_there_is_named_before_anything_was_predicted() {
    let daemon = Daemon::start("a100:1");
    let said = daemon.refusal(1, &["predict", "99"]);
    assert!(said.contains("there is no job 99"), "{said}");
}

#[test]
fn what_is_not_the_number_of_a_job_is_refused_with_an_example() {
    let said = refusal(&["predict", "group:13"]);
    assert!(said.contains("give the numbers of jobs, such as 17; `rota show group:13` lists the jobs of the group"), "{said}");
    assert!(refusal(&["predict", "train"]).contains("give the number of a job, such as 17"));
}

#[test]
fn jobs_that_cannot_run_are_left_out_of_a_score_and_figures_of_nothing_are_null() {
    let folder = tempfile::tempdir().unwrap();
    let trace = folder.path().join("trace.csv");
    let rows = (0..60).map(|job| format!("{},120,{},ada\n", job * 60, if job == 7 { 2 } else { 1 }));
    let text = std::iter::once("arrival_s,duration_s,gpus,user\n".to_owned()).chain(rows).collect::<String>();
    std::fs::write(&trace, text).unwrap();
    let words = ["predict", "--score", "--trace", trace.to_str().unwrap(), "--cluster", "a100:1", "--policy", "fcfs"];
    let words = [&words[..], &["--draws", "20", "--again", "0"]].concat();
    let said = refusal(&words);
    assert!(said.contains("trace.csv:9: job 7: gpus: a gang of 2") && said.contains("--skip-bad"), "{said}");
    let score = json(&[&words[..], &["--skip-bad", "--json"]].concat());
    assert!(score["at_submission"]["jobs"].as_u64().unwrap() > 10 && score["error_median_s"].is_f64(), "{score:#}");
    assert_eq!(score["while_waiting"]["jobs"], 0);
    for figure in ["coverage_p10_p90", "bias_s", "error_median_s", "wait_median_s", "next_error_median_s"] {
        assert!(score["while_waiting"][figure].is_null(), "{figure}: {score:#}");
    }
    let table = stdout(&[&words[..], &["--skip-bad"]].concat());
    let row = table.lines().find(|line| line.starts_with("error of p50, median")).unwrap();
    assert_eq!(row.matches(" s").count(), 2, "the last column is blank: {table}");
}
