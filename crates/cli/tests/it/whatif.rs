//! `rota whatif` on traces: fidelity, alternatives, the page, and what cannot be meant.

use crate::rota::{json, refusal, stdout};
use serde_json::Value;
use std::fmt::Write as _;
use std::path::Path;

/// What `sacct -P` prints of jobs that a scheduler ran in order of arrival on four GPUs, over eight days.
fn sacct(path: &Path) {
    let mut text = "JobID|User|Account|State|Submit|Start|End|ElapsedRaw|TimelimitRaw|AllocTRES\n".to_owned();
    let mut free = [0_u64; 4];
    let stamp = |second: u64| {
        let (day, second) = (1 + second / 86_400, second % 86_400);
        format!("2026-03-{day:02}T{:02}:{:02}:{:02}", second / 3600, second / 60 % 60, second % 60)
    };
    let mut last_start = 0;
    for job in 0..400_u64 {
        let submit = job * 1700 + job * job % 900;
        let length = 600 + job * 7919 % 9000;
        free.sort_unstable();
        let start = submit.max(free[0]).max(last_start);
        (free[0], last_start) = (start + length, start);
        let user = ["ada", "bob", "cy"][job as usize % 3];
        // Memory takes everything.
        _ = writeln!(
            text,
            "{job}|{user}|lab|COMPLETED|{}|{}|{}|{length}|300|gres/gpu=1,gres/gpu:a100=1",
            stamp(submit),
            stamp(start),
            stamp(start + length)
        );
    }
    std::fs::write(path, text).unwrap();
}

#[test]
fn a_recorded_log_is_repeated_and_alternatives_are_compared_with_intervals() {
    let folder = tempfile::tempdir().unwrap();
    let (trace, page) = (folder.path().join("sacct.txt"), folder.path().join("whatif.html"));
    sacct(&trace);
    let (trace, page_name) = (trace.display().to_string(), page.display().to_string());
    let words = [
        "whatif",
        "--trace",
        &trace,
        "--cluster",
        "a100:4",
        "--policy",
        "sjf:estimates=history",
        "--add",
        "a100:2",
        "--remove",
        "a100:1",
        "--arrivals",
        "1.1",
        "--quota",
        "1",
        "--sharing",
        "off",
        "-o",
        &page_name,
        "--json",
    ];
    let said: Value = json(&words);
    let fidelity = &said["fidelity"];
    assert_eq!((fidelity["jobs"].as_u64(), fidelity["start_order"].as_f64()), (Some(400), Some(1.0)), "{fidelity:#}");
    assert!(fidelity["error_of_waits"].as_f64().unwrap() < 0.01, "{fidelity:#}");
    let alternatives = said["alternatives"].as_array().unwrap();
    let names = alternatives.iter().map(|one| one["name"].as_str().unwrap()).collect::<Vec<_>>();
    assert_eq!(
        names,
        ["as it was", "sjf:estimates=history", "+a100:2", "-a100:1", "arrivals x 1.1", "quota of 1 GPUs a user", "no GPU shared"]
    );
    let change = |place: usize| alternatives[place]["wait_change"].clone();
    let more = change(2);
    assert!(more["low_s"].as_f64() < more["mean_s"].as_f64() && more["high_s"].as_f64().unwrap() < 0.0, "{more}");
    for worse in [3, 4, 5] {
        assert!(change(worse)["mean_s"].as_f64().unwrap() > 0.0, "{}: {}", names[worse], change(worse));
    }
    assert_eq!(change(6)["mean_s"], 0.0, "nobody shared");
    for one in alternatives {
        assert!(one["jct_mean_s"].is_f64() && one["completed"] == 400 && one["policy"].is_string(), "{one:#}");
    }
    let answer = said["answer"].as_str().unwrap();
    assert!(answer.starts_with("+a100:2: the mean wait would have been "), "{answer}");
    let html = std::fs::read_to_string(page).unwrap();
    let body = &html[html.find("<body>").unwrap()..];
    assert!(body.trim_start_matches("<body>").trim_start().starts_with(&format!("<h1>{answer}</h1>")), "the answer comes first");
    assert!(html.contains("<svg") && html.contains("no GPU shared"));
}

#[test]
fn all_changes_can_be_made_together_under_each_policy() {
    let folder = tempfile::tempdir().unwrap();
    let trace = folder.path().join("sacct.txt");
    sacct(&trace);
    let trace = trace.display().to_string();
    let words = [
        "whatif",
        "--trace",
        &trace,
        "--cluster",
        "a100:4",
        "--policy",
        "fcfs",
        "--policy",
        "las",
        "--add",
        "node:1",
        "--arrivals",
        "1.5",
        "--together",
    ];
    let text = stdout(&words);
    for name in ["fcfs, +node:1, arrivals x 1.5", "las, +node:1, arrivals x 1.5", "100.0 % of all pairs of 400 jobs"] {
        assert!(text.contains(name), "{text}");
    }
}

#[test]
fn a_trace_without_starts_says_that_nothing_is_known_of_the_fit() {
    let folder = tempfile::tempdir().unwrap();
    let trace = folder.path().join("jobs.csv");
    std::fs::write(&trace, "arrival_s,duration_s,gpus\n0,100,1\n1,100,1\n2,100,1\n").unwrap();
    let words = ["whatif", "--trace", trace.to_str().unwrap(), "--cluster", "gpu:1", "--json"];
    let said: Value = json(&words);
    assert!(said["fidelity"].is_null(), "{said:#}");
    let alternatives = said["alternatives"].as_array().unwrap();
    assert!(alternatives.len() >= 6, "the usual ones");
    assert!(alternatives.iter().all(|one| one["wait_change"]["low_s"].is_null()), "three jobs have no interval");
}

#[test]
fn what_cannot_be_meant_is_said() {
    let folder = tempfile::tempdir().unwrap();
    let trace = folder.path().join("jobs.csv");
    std::fs::write(&trace, "arrival_s,duration_s,gpus\n0,100,2\n").unwrap();
    let trace = trace.to_str().unwrap();
    let fails = |words: &[&str], says: &str| {
        let said = refusal(&[&["whatif", "--trace", trace], words].concat());
        assert!(said.contains(says), "{words:?}: {said}");
    };
    fails(&[], "--cluster");
    fails(&["--cluster", "gpu:2", "--policy", "nonsense"], "nonsense");
    fails(&["--cluster", "gpu:2", "--remove", "gpu:2"], "no GPU would be left");
    fails(&["--cluster", "gpu:2", "--remove", "gpu:1"], "no job fits");
    fails(&["--cluster", "gpu:2", "--add", "gpu"], "TYPE:COUNT");
    fails(&["--cluster", "gpu:2", "--sharing", "on"], "how much memory");
    fails(&["--cluster", "gpu:2", "--arrivals", "0"], "--arrivals");
    fails(&["--cluster", "gpu:2", "--power-cap", "100"], "was not measured");
}
