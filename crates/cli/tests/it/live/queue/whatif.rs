//! What would have been, asked of a daemon about its own jobs; and what would start a job that waits.

use crate::live::{Daemon, until};
use serde_json::Value;

#[test]
fn the_daemons_own_history_is_repeated_start_by_start() {
    let daemon = Daemon::start("a100:2,t4:1");
    let held = daemon.shell(&["--hold"], "sleep 0.3");
    let mut jobs = vec![held];
    for number in 0..18_u32 {
        let line = format!("sleep 0.{}", 1 + number * 7 % 5);
        let priority = (number % 3).to_string();
        let mut options = vec!["--priority", &priority];
        let before = jobs.last().unwrap().to_string();
        match number % 6 {
            1 => options.extend(["--gpus", "2", "--gpu-type", "a100"]),
            2 => options.extend(["--gpu-type", "t4"]),
            3 => options.extend(["--after", &before]),
            4 => options.extend(["--gpu-ids", "1"]),
            _ => options.extend(["--estimate", "2s"]),
        }
        jobs.push(daemon.shell(&options, &line));
    }
    daemon.ok(&["release", &held.to_string()]);
    daemon.wait(&jobs);
    let said = daemon.json(&["whatif", "--policy", "fcfs", "--add", "a100:1", "--json"]);
    let fidelity = &said["fidelity"];
    assert_eq!((fidelity["jobs"].as_u64(), fidelity["start_order"].as_f64()), (Some(19), Some(1.0)), "{said:#}");
    let names = said["alternatives"].as_array().unwrap().iter().map(|one| one["name"].clone()).collect::<Vec<_>>();
    assert_eq!(names, ["as it was", "fcfs", "+a100:1"]);
    for since in ["yesterday", "2026-01-01", "7d", "2026-01-01T00:00:00+01:00"] {
        let said = daemon.json(&["whatif", "--since", since, "--policy", "fcfs", "--json"]);
        assert_eq!(said["jobs"], 19, "{since}");
    }
    let text = daemon.ok(&["whatif", "--policy", "fcfs"]);
    let fit = ", 100.0 % of all pairs of 19 jobs start in the recorded order";
    assert!(text.lines().any(|line| line.starts_with("Replayed under ") && line.contains(fit)), "{text}");
}

#[test]
fn a_daemon_without_a_past_says_so() {
    let daemon = Daemon::start("a100:1");
    assert!(daemon.refusal(1, &["whatif"]).contains("no job with a GPU has ended"));
}

fn changes(said: &Value) -> Vec<(String, bool)> {
    let found = said["counterfactuals"].as_array().unwrap();
    found.iter().map(|one| (one["change"].as_str().unwrap().to_owned(), one["is_now"].as_bool().unwrap())).collect()
}

#[test]
fn explain_says_what_would_start_a_job_now_and_it_does() {
    let daemon = Daemon::start("a100:4,t4:2");
    let running = daemon.shell(&["--gpus", "2", "--gpu-type", "a100", "--estimate", "600s"], "sleep 600");
    daemon.until_state(running, "running");
    let wide = ["--gpus", "4", "--gpu-type", "a100", "--estimate", "600s"];
    let waiting = daemon.shell(&wide, "sleep 600");
    let said = daemon.explain(waiting);
    assert!(said["cause"].is_string(), "{said:#}");
    // Two GPUs of each type are free: two would do, and so would four of both types.
    let expected = [("--gpus 2".to_owned(), true), ("--any-type without --gpu-type".to_owned(), true)];
    assert_eq!(changes(&said), expected, "{said:#}");
    assert_eq!(said["counterfactuals"][0]["delays"], serde_json::json!([]), "{said:#}");
    let text = daemon.ok(&["explain", &waiting.to_string()]);
    assert!(text.contains("would start now with: --gpus 2"), "{text}");
    // A job that is not submitted yet hears the same in its place.
    daemon.ok(&["cancel", &waiting.to_string()]);
    let dry = daemon.json(&[&["submit", "--dry-run", "--json"], &wide[..], &["--", "sleep", "600"]].concat());
    assert_eq!((dry["starts_now"].as_bool(), changes(&dry)), (Some(false), expected.to_vec()), "{dry:#}");
    assert!(dry["start"].is_string(), "{dry:#}");
    assert_eq!(daemon.json(&["queue", "--json"]).as_array().unwrap().len(), 1, "nothing was submitted");
    // The change does what was said.
    let narrow = daemon.shell(&["--gpus", "2", "--gpu-type", "a100", "--estimate", "600s"], "sleep 600");
    daemon.until_state(narrow, "running");
}

#[test]
fn a_full_type_is_told_of_another_and_of_the_type_that_is_done_first() {
    let daemon = Daemon::start("a100:1,t4:1");
    let running = daemon.shell(&["--gpu-type", "a100", "--estimate", "600s"], "sleep 600");
    daemon.until_state(running, "running");
    let waiting = daemon.shell(&["--gpu-type", "a100", "--estimate", "60s"], "sleep 600");
    assert_eq!(changes(&daemon.explain(waiting)), [("--gpu-type t4".to_owned(), true)]);
    let dry = daemon.json(&["submit", "--dry-run", "--json", "--estimate", "60s", "--", "sleep", "60"]);
    assert_eq!((dry["starts_now"].as_bool(), dry["first_done"].as_str()), (Some(true), Some("t4")), "{dry:#}");
    let text = daemon.ok(&["submit", "--dry-run", "--estimate", "60s", "--", "sleep", "60"]);
    assert!(text.starts_with("it would start now\n") && text.contains("it would be done first on t4"), "{text}");
}

#[test]
fn a_shared_gpu_has_room_for_less_memory() {
    let daemon = Daemon::start("a100:1");
    let memory = |daemon: &Daemon| daemon.json(&["gpus", "--json"])[0]["memory_total_mib"].as_u64().unwrap();
    let whole = memory(&daemon);
    let half = (whole / 2).to_string();
    let running = daemon.shell(&["--memory", &half, "--estimate", "600s"], "sleep 600");
    daemon.until_state(running, "running");
    let more = (whole * 3 / 5).to_string();
    let waiting = daemon.shell(&["--memory", &more, "--estimate", "60s"], "sleep 600");
    let said = daemon.explain(waiting);
    let (change, is_now) = changes(&said).first().cloned().expect("a change is suggested");
    assert!(is_now && change.starts_with("--memory "), "{said:#}");
    daemon.ok(&["cancel", &waiting.to_string()]);
    let less = change.trim_start_matches("--memory ").to_owned();
    let fits = daemon.shell(&["--memory", &less, "--estimate", "60s"], "sleep 600");
    daemon.until_state(fits, "running");
}

#[test]
fn running_held_and_ended_jobs_have_no_counterfactuals() {
    let daemon = Daemon::start("a100:1");
    let running = daemon.shell(&[], "sleep 600");
    let held = daemon.shell(&["--hold"], "true");
    daemon.until_state(running, "running");
    for job in [running, held] {
        assert_eq!(changes(&daemon.explain(job)), [], "job {job}");
    }
    daemon.ok(&["cancel", &held.to_string()]);
    until("it is over", || daemon.state_of(held) == "cancelled");
    assert_eq!(changes(&daemon.explain(held)), []);
}

#[test]
fn a_job_that_lost_its_work_is_repeated_with_its_true_length() {
    let daemon = Daemon::configured("a100:1", "policy = 'srtf'\n[jobs]\nmin_run_seconds = 0.2\n");
    let long = daemon.shell(&["--preemptible", "--estimate", "4s"], "sleep 4");
    daemon.until_state(long, "running");
    let last = daemon.shell(&["--estimate", "60s"], "sleep 0.1");
    std::thread::sleep(std::time::Duration::from_secs(2));
    let short = daemon.shell(&["--estimate", "0.5s"], "sleep 0.5");
    daemon.wait(&[long, last, short]);
    assert_eq!(daemon.show(long)["preemptions"], 1);
    let said = daemon.json(&["whatif", "--policy", "srtf", "--json"]);
    let error = said["fidelity"]["error_of_waits"].as_f64().unwrap();
    assert!(error < 0.15, "the last job waited for 6.5 s, two of them for work that was lost: {said:#}");
}

#[test]
fn a_job_that_waited_for_one_that_never_started_waits_as_long_in_the_replay() {
    let daemon = Daemon::start("a100:1");
    let held = daemon.shell(&["--hold"], "true");
    let other = daemon.shell(&["--after", &format!("{held}:any")], "sleep 0.1");
    std::thread::sleep(std::time::Duration::from_secs(2));
    daemon.ok(&["cancel", &held.to_string()]);
    daemon.wait(&[other]);
    let said = daemon.json(&["whatif", "--policy", "fcfs", "--json"]);
    let fidelity = &said["fidelity"];
    assert_eq!(fidelity["jobs"], 1, "{said:#}");
    assert!(fidelity["wait_mean_replayed_s"].as_f64().unwrap() > 1.5, "{said:#}");
    assert!(fidelity["error_of_waits"].as_f64().unwrap() < 0.1, "{said:#}");
    // Where no job can be held it is said.
    let exported = daemon.rota(&["history", "export", "-o", daemon.file("past.csv").to_str().unwrap()]);
    let told = String::from_utf8(exported.stderr).unwrap();
    assert!(told.contains("1 job waited for jobs that are not in this past"), "{told}");
}
