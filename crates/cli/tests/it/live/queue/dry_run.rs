//! What a submit would come to: `rota submit --dry-run` says the same as the submit itself would.

use crate::live::Daemon;
use serde_json::Value;

fn dry_run(daemon: &Daemon, options: &[&str]) -> Value {
    daemon.json(&[&["submit", "--dry-run", "--json", "--estimate", "60s"], options, &["--", "sleep", "600"]].concat())
}

/// Why it is not said when the job would start.
fn note(said: &Value) -> &str {
    assert!(said["start"].is_null() && said["starts_now"] == false, "{said:#}");
    said["note"].as_str().unwrap()
}

#[test]
fn a_job_that_would_not_start_by_itself_is_told_why() {
    let daemon = Daemon::start("a100:2");
    assert!(note(&dry_run(&daemon, &["--hold"])).contains("it would be held"));
    let failed = daemon.shell(&[], "false");
    assert_eq!(daemon.wait_one(failed)["state"], "failed");
    assert!(note(&dry_run(&daemon, &["--after", &failed.to_string()])).contains("it would fail at once"));
    let held = daemon.shell(&["--hold"], "true");
    let after_held = format!("it would wait for job {held}, whose length is not known");
    assert_eq!(note(&dry_run(&daemon, &["--after", &held.to_string()])), after_held);
    daemon.ok(&["drain"]);
    assert!(note(&dry_run(&daemon, &[])).contains("the queue is drained"));
    daemon.ok(&["resume"]);
    assert_eq!(dry_run(&daemon, &[])["starts_now"], true);
}

#[test]
fn a_job_would_start_after_those_that_it_waits_for() {
    let daemon = Daemon::start("a100:2");
    let running = daemon.shell(&["--estimate", "1h"], "sleep 600");
    daemon.until_state(running, "running");
    let said = dry_run(&daemon, &["--after", &format!("{running}:any")]);
    assert_eq!((said["starts_now"].as_bool(), said["note"].as_str()), (Some(false), None), "{said:#}");
    let left = said["start"].as_str().unwrap().parse::<jiff::Timestamp>().unwrap().duration_since(jiff::Timestamp::now());
    assert!((3000..=3600).contains(&left.as_secs()), "in {left:?}");
}

#[test]
fn a_user_who_has_all_they_may_have_is_told_so() {
    let daemon = Daemon::configured("a100:4", "[users.default]\ngpus = 2\n");
    daemon.until_state(daemon.shell(&["-g", "2", "--estimate", "60s"], "sleep 600"), "running");
    let said = dry_run(&daemon, &[]);
    assert!(said["note"].as_str().is_some_and(|note| note.contains("has as many GPUs as it may have at once")), "{said:#}");
    let left = said["start"].as_str().unwrap().parse::<jiff::Timestamp>().unwrap().duration_since(jiff::Timestamp::now());
    assert!((30..=60).contains(&left.as_secs()), "its other job ends in a minute: in {left:?}");
}

#[test]
fn a_job_that_its_user_held_counts_against_the_quota_when_it_is_released() {
    let daemon = Daemon::configured("a100:4", "[users.default]\ngpus = 2\n");
    let held = [(); 2].map(|()| daemon.shell(&["-g", "2", "--hold", "--estimate", "60s"], "sleep 600"));
    daemon.ok(&["release", &held[0].to_string(), &held[1].to_string()]);
    daemon.until_state(held[0], "running");
    let why = daemon.explain(held[1]);
    assert_eq!((why["state"].as_str(), why["blockers"][0]["kind"].as_str()), (Some("waiting"), Some("quota")), "{why:#}");
    daemon.ok(&["cancel", &held[0].to_string()]);
    daemon.until_state(held[1], "running");
}

#[test]
fn a_submit_of_several_jobs_says_that_the_first_is_meant_and_a_missing_program_is_refused() {
    let daemon = Daemon::start("a100:2");
    let text = daemon.ok(&["submit", "--dry-run", "--array", "0-9", "--", "sleep", "1"]);
    assert!(text.starts_with("10 jobs would be submitted; this is about the first of them\nit would start now\n"), "{text}");
    assert!(daemon.refusal(2, &["submit", "--dry-run", "--", "no-such-program-anywhere"]).contains("no-such-program-anywhere"));
}
