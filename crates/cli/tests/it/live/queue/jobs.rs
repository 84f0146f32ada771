//! What a person does with the queue, and what the queue promises in return.

use crate::live::{Daemon, is_alive, kill, line_of, until};
use rustix::process::Signal;
use serde_json::json;
use std::io::{BufRead, BufReader};
use std::process::Stdio;
use std::time::{Duration, Instant};

/// A line for the shell that goes on until a file is there.
fn until_file(path: &std::path::Path) -> String {
    format!("while [ ! -e '{}' ]; do sleep 0.02; done", path.display())
}

fn order_of(daemon: &Daemon, name: &str) -> Vec<String> {
    std::fs::read_to_string(daemon.file(name)).unwrap().lines().map(str::to_owned).collect()
}

#[test]
fn higher_priorities_start_first_and_equal_ones_in_their_order() {
    let daemon = Daemon::start("a100:1");
    let (go, order) = (daemon.file("go"), daemon.file("order"));
    let first = daemon.shell(&[], &until_file(&go));
    daemon.until_state(first, "running");
    let write = |word: &str| format!("echo {word} >> '{}'", order.display());
    let mut ids = vec![first];
    for (word, priority) in [("low", "-1"), ("plain", "0"), ("plain-too", "0"), ("high", "5")] {
        ids.push(daemon.shell(&["--priority", priority], &write(word)));
    }
    std::fs::write(&go, "").unwrap();
    daemon.wait(&ids);
    assert_eq!(order_of(&daemon, "order"), ["high", "plain", "plain-too", "low"]);
}

#[test]
fn a_job_waits_for_others_to_end_well_or_at_all() {
    let daemon = Daemon::start("a100:4");
    let go = daemon.file("go");
    let good = daemon.shell(&[], &format!("{}; exit 0", until_file(&go)));
    let bad = daemon.shell(&[], &format!("{}; exit 1", until_file(&go)));
    let (good, bad) = (good.to_string(), bad.to_string());
    let after_good = daemon.shell(&["--after", &good], "true");
    let after_bad = daemon.shell(&["--after", &bad], "true");
    let after_any = daemon.shell(&["--after", &format!("{good}:ok,{bad}:any")], "true");
    let after_that = daemon.shell(&["--after", &after_bad.to_string()], "true");
    for id in [after_good, after_bad, after_any, after_that] {
        let why = daemon.explain(id);
        assert_eq!((&why["state"], &why["blockers"][0]["kind"]), (&json!("waiting"), &json!("dependency")), "{why:#}");
    }
    std::fs::write(&go, "").unwrap();
    let ended = daemon.wait(&[after_good, after_bad, after_any, after_that]);
    let states = ended.iter().map(|job| job["state"].as_str().unwrap()).collect::<Vec<_>>();
    assert_eq!(states, ["done", "failed", "done", "failed"]);
    assert_eq!(ended[1]["reason"], format!("job {bad}, which it waits for, did not end well"));
    assert_eq!(ended[1]["attempts"], 0);
    // Whoever comes after the end is treated as whoever came before it.
    let late = [
        daemon.shell(&["--after", &good], "true"),
        daemon.shell(&["--after", &bad], "true"),
        daemon.shell(&["--after", &format!("{bad}:any")], "true"),
    ];
    let late = daemon.wait(&late);
    let states = late.iter().map(|job| job["state"].as_str().unwrap()).collect::<Vec<_>>();
    assert_eq!(states, ["done", "failed", "done"]);
    assert_eq!((&late[1]["attempts"], &late[1]["reason"]), (&json!(0), &ended[1]["reason"]));
}

#[test]
fn failures_are_retried_later_and_later() {
    let daemon = Daemon::start("a100:1");
    let times = daemon.file("times");
    let line = format!("date +%s%N >> '{}'; [ $ROTA_ATTEMPT = 3 ]", times.display());
    let id = daemon.shell(&["--retries", "5", "--retry-delay", "0.1"], &line);
    let job = daemon.wait_one(id);
    assert_eq!((&job["state"], &job["attempts"], &job["exit_code"]), (&json!("done"), &json!(3), &json!(0)), "{job:#}");
    let times = order_of(&daemon, "times").iter().map(|line| line.parse::<u64>().unwrap()).collect::<Vec<_>>();
    assert!(times[1] - times[0] >= 100_000_000 && times[2] - times[1] >= 200_000_000, "{times:?}");
    let id = daemon.shell(&["--retries", "1", "--retry-delay", "0.01"], "echo try $ROTA_ATTEMPT; exit 9");
    let job = daemon.wait_one(id);
    assert_eq!((&job["state"], &job["attempts"], &job["reason"]), (&json!("failed"), &json!(2), &json!("exit code 9")));
    assert_eq!(daemon.ok(&["logs", &id.to_string(), "--attempt", "1"]), "try 1\n");
    assert_eq!(daemon.log(id), "try 2\n");
    // A retry by hand is a new job.
    let again: u64 = daemon.ok(&["retry", &id.to_string()]).trim().parse().unwrap();
    assert!(again > id && daemon.wait_one(again)["exit_code"] == 9);
}

#[test]
fn a_job_that_is_held_between_two_tries_stays_held() {
    let daemon = Daemon::start("a100:1");
    let id = daemon.shell(&["--retries", "1", "--retry-delay", "0.4"], "[ $ROTA_ATTEMPT = 2 ]");
    until("it has failed once", || daemon.explain(id)["blockers"][0]["kind"] == "retry");
    daemon.ok(&["hold", &id.to_string()]);
    until("its time has come", || daemon.explain(id)["blockers"].as_array().unwrap().len() == 1);
    let other = daemon.shell(&["--priority", "-5"], "true");
    daemon.wait_one(other);
    assert_eq!((daemon.state_of(id), &daemon.show(id)["attempts"]), ("held".to_owned(), &json!(1)));
    daemon.ok(&["release", &id.to_string()]);
    assert_eq!(daemon.wait_one(id)["state"], "done");
}

#[test]
fn a_time_limit_ends_a_job() {
    let daemon = Daemon::start("a100:1");
    let id = daemon.shell(&["--time-limit", "0.2", "--grace", "0.1"], "sleep 600");
    let job = daemon.wait_one(id);
    assert_eq!(job["state"], "failed", "{job:#}");
    assert!(job["reason"].as_str().unwrap().contains("time limit of 0.2 s"), "{job:#}");
}

#[test]
fn hold_release_drain_and_resume() {
    let mut daemon = Daemon::start("a100:2");
    let held = daemon.shell(&["--hold"], "true");
    assert_eq!(daemon.state_of(held), "held");
    daemon.ok(&["drain"]);
    let drained = daemon.shell(&[], "true");
    daemon.ok(&["release", &held.to_string()]);
    let why = daemon.explain(drained);
    assert_eq!(why["blockers"][0]["kind"], "drain", "{why:#}");
    // It stays drained over a restart.
    daemon.restart();
    let without_gpu = daemon.shell(&["-g", "0"], "true");
    assert!(daemon.ok(&["status"]).contains("DRAINED"));
    for id in [held, drained, without_gpu] {
        assert_eq!(daemon.state_of(id), "waiting");
    }
    daemon.ok(&["resume"]);
    assert!(daemon.wait(&[held, drained, without_gpu]).iter().all(|job| job["state"] == "done"));
    // One GPU alone.
    daemon.ok(&["drain", "--gpus", "0"]);
    let elsewhere = daemon.shell(&[], "true");
    assert_eq!(daemon.wait_one(elsewhere)["gpu_indices"], json!([1]));
    let there = daemon.shell(&["--gpu-ids", "0"], "true");
    assert!(daemon.explain(there)["reason"].as_str().unwrap().contains("GPU 0 is drained"));
    daemon.ok(&["resume", "--gpus", "0"]);
    assert_eq!(daemon.wait_one(there)["gpu_indices"], json!([0]));
    // `down --drain` waits for what runs.
    let go = daemon.file("go");
    let last = daemon.shell(&[], &until_file(&go));
    daemon.until_state(last, "running");
    let down = daemon.call(&["down", "--drain"]).stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
    until("it drains", || daemon.json(&["status", "--json"])["draining"] == true);
    std::fs::write(&go, "").unwrap();
    assert!(down.wait_with_output().unwrap().status.success());
    assert!(daemon.ended().success());
    daemon.up();
    assert_eq!(daemon.state_of(last), "done");
}

#[test]
fn another_policy_counts_at_once_and_after_a_restart() {
    let mut daemon = Daemon::configured("a100:1", "policy = 'fcfs'");
    let (go, order) = (daemon.file("go"), daemon.file("order"));
    let first = daemon.shell(&[], &until_file(&go));
    daemon.until_state(first, "running");
    let mut ids = vec![first];
    for (word, estimate) in [("long", "100"), ("short", "1")] {
        ids.push(daemon.shell(&["--estimate", estimate], &format!("echo {word} >> '{}'", order.display())));
    }
    assert!(daemon.refusal(2, &["policy", "set", "nonsense"]).contains("nonsense"));
    daemon.ok(&["policy", "set", "sjf"]);
    assert_eq!(daemon.ok(&["policy", "show"]), "sjf\n");
    daemon.restart();
    assert_eq!(daemon.ok(&["policy", "show"]), "sjf\n");
    std::fs::write(&go, "").unwrap();
    assert!(daemon.wait(&ids).iter().all(|job| job["state"] == "done"));
    assert_eq!(order_of(&daemon, "order"), ["short", "long"]);
}

#[test]
fn a_repeated_submit_with_a_key_is_the_same_job() {
    let mut daemon = Daemon::start("a100:1");
    let mark = daemon.file("mark");
    let line = format!("echo ran >> '{}'", mark.display());
    let id = daemon.shell(&["--key", "monday"], &line);
    assert_eq!(daemon.shell(&["--key", "monday"], &line), id);
    daemon.wait_one(id);
    assert_eq!(daemon.shell(&["--key", "monday"], &line), id);
    daemon.restart();
    assert_eq!(daemon.shell(&["--key", "monday"], &line), id);
    let array =
        |daemon: &Daemon| daemon.json(&["submit", "--json", "--key", "many", "--array", "1-3", "--", "true"])["ids"].clone();
    assert_eq!(array(&daemon), array(&daemon));
    let other = daemon.shell(&["--key", "tuesday"], &line);
    assert_ne!(other, id);
    daemon.wait_one(other);
    assert_eq!(std::fs::read_to_string(&mark).unwrap().lines().count(), 2);
}

#[test]
fn arrays_and_sweeps() {
    let daemon = Daemon::start("a100:2");
    let ids = daemon.json(&["submit", "--json", "--array", "1,3-4", "--", "sh", "-c", "echo {index} $ROTA_ARRAY_INDEX"]);
    let ids = ids["ids"].as_array().unwrap().iter().map(|id| id.as_u64().unwrap()).collect::<Vec<_>>();
    assert!(daemon.wait(&ids).iter().all(|job| job["state"] == "done"));
    assert_eq!(ids.iter().map(|id| daemon.log(*id)).collect::<Vec<_>>(), ["1 1\n", "3 3\n", "4 4\n"]);
    let ids = daemon.json(&[
        "submit",
        "--json",
        "--param",
        "lr=0.1,0.01",
        "--param",
        "seed=1,2",
        "--",
        "sh",
        "-c",
        "echo {lr} {seed} $ROTA_PARAM_LR",
    ]);
    let ids = ids["ids"].as_array().unwrap().iter().map(|id| id.as_u64().unwrap()).collect::<Vec<_>>();
    daemon.wait(&ids);
    let logs = ids.iter().map(|id| daemon.log(*id)).collect::<Vec<_>>();
    assert_eq!(logs, ["0.1 1 0.1\n", "0.1 2 0.1\n", "0.01 1 0.01\n", "0.01 2 0.01\n"]);
}

#[test]
fn run_ends_as_its_job_does() {
    let daemon = Daemon::start("a100:1");
    for (line, code, shown) in
        [("echo out; echo err >&2", 0, "out\nerr\n"), ("exit 7", 7, ""), ("kill -9 $$", 137, ""), ("kill -TERM $$", 143, "")]
    {
        let output = daemon.rota(&["run", "--", "sh", "-c", line]);
        assert_eq!((output.status.code(), String::from_utf8_lossy(&output.stdout).as_ref()), (Some(code), shown), "{line}");
    }
    let output = daemon.rota(&["run", "--", "/no/such/program"]);
    assert_ne!(output.status.code(), Some(0));
    assert!(String::from_utf8_lossy(&output.stderr).contains("/no/such/program"));
}

#[test]
fn logs_are_followed_to_the_end_and_cut_from_the_front() {
    let daemon = Daemon::start("a100:1");
    let go = daemon.file("go");
    let id = daemon.shell(&[], &format!("seq 1 1000; {}; printf 'no newline'", until_file(&go)));
    let mut following = daemon.call(&["logs", "-f", &id.to_string()]).stdout(Stdio::piped()).spawn().unwrap();
    let mut lines = BufReader::new(following.stdout.take().unwrap()).lines();
    for number in 1..=1000 {
        assert_eq!(lines.next().unwrap().unwrap(), number.to_string());
    }
    std::fs::write(&go, "").unwrap();
    assert_eq!(lines.next().unwrap().unwrap(), "no newline");
    assert!(lines.next().is_none() && following.wait().unwrap().success());
    assert_eq!(daemon.ok(&["logs", "--tail", "2", &id.to_string()]), "1000\nno newline");
    assert_eq!(daemon.ok(&["logs", "-n", "0", &id.to_string()]), "");
    assert_eq!(daemon.ok(&["logs", "-n", "5000", &id.to_string()]).lines().count(), 1001);
}

#[test]
fn wait_says_how_all_of_them_ended() {
    let daemon = Daemon::start("a100:2");
    let (good, bad) = (daemon.shell(&[], "true"), daemon.shell(&[], "exit 4"));
    daemon.wait(&[good, bad]);
    assert!(daemon.ok(&["wait", &good.to_string()]).is_empty());
    assert!(daemon.refusal(1, &["wait", &good.to_string(), &bad.to_string()]).contains("exit code 4"));
    let long = daemon.shell(&[], "sleep 600");
    assert!(daemon.refusal(1, &["wait", "--timeout", "0.1", &long.to_string()]).contains("has not ended in time"));
}

#[test]
fn a_wide_job_starts_under_a_stream_of_narrow_ones() {
    let daemon = Daemon::start("a100:2");
    let narrow = |count: usize| (0..count).map(|_| daemon.shell(&["--estimate", "0.3"], "sleep 0.1")).collect::<Vec<_>>();
    let mut narrow_ids = narrow(4);
    let wide = daemon.shell(&["-g", "2", "--estimate", "1"], "true");
    // There is always a narrow job that would fit, and the wide one starts all the same.
    let since = Instant::now();
    while daemon.state_of(wide) == "waiting" {
        assert!(since.elapsed() < Duration::from_secs(20), "the wide job starves: {:#}", daemon.explain(wide));
        if daemon.json(&["queue", "--in", "waiting", "--json"]).as_array().unwrap().len() < 6 {
            narrow_ids.extend(narrow(3));
        }
    }
    let job = daemon.wait_one(wide);
    assert_eq!((&job["state"], &job["gpu_indices"]), (&json!("done"), &json!([0, 1])));
    assert!(daemon.wait(&narrow_ids).iter().all(|job| job["state"] == "done"));
}

#[test]
fn a_claim_is_granted_soon_and_lives_as_long_as_its_process() {
    let daemon = Daemon::start("a100:3");
    let holder = |modes: &str| {
        // The shell is the process that called: the grant is tied to it.
        let line = format!("'{}' claim {modes} || echo refused; read line", crate::live::program().display());
        let mut command = std::process::Command::new("sh");
        command.arg("-c").arg(line).env("ROTA_STATE", &daemon.state).stdin(Stdio::piped()).stdout(Stdio::piped());
        let since = Instant::now();
        let mut shell = command.spawn().unwrap();
        let mut granted = String::new();
        BufReader::new(shell.stdout.take().unwrap()).read_line(&mut granted).unwrap();
        (shell, granted.trim().to_owned(), since.elapsed())
    };
    let gpu = |index: usize| daemon.json(&["gpus", "--json"])[index]["state"].clone();
    let (mut both, granted, took) = holder("--from 0,1 --mode queue");
    assert_eq!(granted, "0,1");
    eprintln!("a claim took {} ms", took.as_millis());
    assert!(took < Duration::from_secs(1), "granted after {took:?}");
    until("the GPUs are shown as taken", || gpu(0) != "free");
    let (mut one, granted, _) = holder("--from 1,2 --gpus 1 --mode schedule");
    assert_eq!(granted, "2", "1 is taken");
    let (mut late, refused, _) = holder("--from 2 --mode queue --timeout 0.2 2>/dev/null");
    assert_eq!(refused, "refused");
    late.kill().unwrap();
    late.wait().unwrap();
    // A job waits for the claim, and starts when its process is killed.
    let job = daemon.shell(&["--gpu-ids", "2"], "true");
    assert!(daemon.explain(job)["reason"].as_str().unwrap().contains("claimed"));
    one.kill().unwrap();
    one.wait().unwrap();
    assert_eq!(daemon.wait_one(job)["state"], "done");
    both.kill().unwrap();
    both.wait().unwrap();
    until("the GPUs are free", || (0..3).all(|index| gpu(index) == "free"));
}

#[test]
fn a_claim_survives_a_restart_and_ends_with_a_process_that_ended_meanwhile() {
    let mut daemon = Daemon::start("a100:1");
    let mut holder = std::process::Command::new("sleep").arg("600").spawn().unwrap();
    assert_eq!(daemon.ok(&["claim", "--pid", &holder.id().to_string()]), "0\n");
    daemon.restart();
    let job = daemon.shell(&[], "true");
    until("the claim stands in its way", || daemon.explain(job)["reason"].as_str().unwrap().contains("claimed"));
    daemon.kill();
    holder.kill().unwrap();
    holder.wait().unwrap();
    daemon.up();
    assert_eq!(daemon.wait_one(job)["state"], "done");
}

#[test]
fn a_claim_that_nobody_waits_for_any_more_is_not_granted() {
    let daemon = Daemon::start("a100:1");
    let blocker = daemon.shell(&[], "sleep 600");
    daemon.until_state(blocker, "running");
    for signal in [Signal::INT, Signal::TERM] {
        let mut claim = daemon.call(&["claim"]).stdout(Stdio::null()).spawn().unwrap();
        until("it waits", || daemon.json(&["queue", "--in", "waiting", "--json"]) != json!([]));
        // Only once it listens to signals: the kernel shows which are caught.
        let caught = || {
            let status = std::fs::read_to_string(format!("/proc/{}/status", claim.id())).unwrap();
            let mask = status
                .lines()
                .find_map(|line| line.strip_prefix("SigCgt:"))
                .map(|mask| u64::from_str_radix(mask.trim(), 16).unwrap());
            mask.unwrap_or(0) >> (signal.as_raw() - 1) & 1 == 1
        };
        until("it listens", caught);
        kill(claim.id(), signal);
        assert_eq!(claim.wait().unwrap().code(), Some(1));
        assert_eq!(daemon.json(&["queue", "--in", "waiting", "--json"]), json!([]));
    }
}

#[test]
fn a_list_that_is_cut_keeps_what_is_not_over() {
    let daemon = Daemon::start("a100:1");
    let over = (0..4).map(|_| daemon.shell(&[], "true")).collect::<Vec<_>>();
    daemon.wait(&over);
    let held = daemon.shell(&["--hold"], "true");
    let ids = |arguments: &[&str]| {
        let arguments = ["queue", "--json"].iter().chain(arguments).copied().collect::<Vec<_>>();
        daemon.json(&arguments).as_array().unwrap().iter().map(|job| job["id"].as_u64().unwrap()).collect::<Vec<_>>()
    };
    assert_eq!(ids(&["--all", "--limit", "3"]), [over[2], over[3], held]);
    assert_eq!(ids(&["--limit", "3"]), [held]);
    let own = daemon.show(held)["user"].as_str().unwrap().to_owned();
    assert_eq!(ids(&["--all", "--limit", "2", "--user", &own]), [over[3], held]);
    assert!(ids(&["--all", "--user", "nobody-of-that-name"]).is_empty());
}

#[test]
fn cancel_asks_then_kills_and_leaves_nothing() {
    let daemon = Daemon::start("a100:1");
    let (child, asked) = (daemon.file("child"), daemon.file("asked"));
    let line = format!(
        "trap 'echo asked > \"{}\"' TERM; setsid sh -c 'trap \"\" TERM; sleep 600' & echo $! > '{}'; while :; do sleep 0.05; done",
        asked.display(),
        child.display()
    );
    let id = daemon.shell(&["--grace", "0.2"], &line);
    let grandchild = line_of(&child).parse().unwrap();
    let supervisor = daemon.supervisor(id);
    let waiting = daemon.shell(&[], "true");
    let since = Instant::now();
    daemon.ok(&["cancel", &id.to_string()]);
    let job = daemon.wait_one(id);
    assert_eq!((&job["state"], &job["signal"]), (&json!("cancelled"), &json!(9)), "{job:#}");
    assert!(since.elapsed() >= Duration::from_millis(200));
    assert_eq!(line_of(&asked), "asked");
    assert!(!is_alive(grandchild) && !is_alive(supervisor));
    assert_eq!(daemon.wait_one(waiting)["state"], "done", "the queue goes on");
    assert!(daemon.refusal(1, &["cancel", &id.to_string()]).contains("over already: cancelled"));
    // One that waits is cancelled without ever starting.
    let (running, waiting) = (daemon.shell(&[], "sleep 600"), daemon.shell(&[], "true"));
    daemon.ok(&["cancel", &waiting.to_string(), &running.to_string()]);
    let jobs = daemon.wait(&[running, waiting]);
    assert_eq!((&jobs[1]["state"], &jobs[1]["attempts"]), (&json!("cancelled"), &json!(0)));
}

#[test]
fn a_supervisor_told_to_stop_by_somebody_else_does_not_make_its_job_cancelled() {
    let daemon = Daemon::start("a100:1");
    let mark = daemon.file("mark");
    let id = daemon.shell(&[], &format!("echo > '{}'; sleep 600", mark.display()));
    line_of(&mark);
    kill(daemon.supervisor(id), Signal::TERM);
    let job = daemon.wait_one(id);
    assert_eq!(job["state"], "lost", "{job:#}");
    assert!(job["reason"].as_str().unwrap().contains("supervisor"), "{job:#}");
}

#[test]
fn a_job_pinned_to_a_busy_gpu_idles_no_other_gpu() {
    for policy in ["priority", "fcfs:backfill=easy", "sjf", "wfq", "fcfs:backfill=conservative"] {
        let daemon = Daemon::with(&["--virtual-gpus", "a100:4", "--policy", policy], "", &[]);
        let holds = daemon.submit(&["--gpu-ids", "0", "--", "sleep", "600"]);
        daemon.until_state(holds, "running");
        let pinned = daemon.submit(&["--gpu-ids", "0", "--", "sleep", "600"]);
        let others = [0, 1, 2, 3].map(|_| daemon.submit(&["--", "sleep", "600"]));
        for id in &others[..3] {
            daemon.until_state(*id, "running");
        }
        assert_eq!((daemon.state_of(pinned).as_str(), daemon.state_of(others[3]).as_str()), ("waiting", "waiting"), "{policy}");
    }
}

#[test]
fn as_many_older_logs_are_kept_as_asked_for() {
    let daemon = Daemon::configured("a100:1", "[jobs]\nlog_mib = 1\nlog_files = 2\n");
    let id = daemon.shell(&[], "head -c 5000000 /dev/zero | tr '\\0' x");
    assert_eq!(daemon.wait_one(id)["state"], "done");
    let names = std::fs::read_dir(daemon.run_dir(id, 1)).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap());
    let mut logs = names.filter(|name| name.starts_with("log")).collect::<Vec<_>>();
    logs.sort_unstable();
    assert_eq!(logs, ["log", "log.1", "log.2"]);
}
