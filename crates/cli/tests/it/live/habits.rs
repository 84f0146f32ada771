//! What people type without thinking: it works, or they are told at once what would.

use crate::live::{Daemon, kill, until};
use std::io::{BufRead, BufReader};
use std::process::{Command, Stdio};

#[test]
fn a_command_needs_no_dashes_and_the_usual_short_names_work() {
    let daemon = Daemon::start("a100:1");
    let id = daemon.json(&[
        "add",
        "--json",
        "-n",
        "short",
        "--memory",
        "8G",
        "--time-limit",
        "01:00:00",
        "sh",
        "-c",
        "echo $0",
        "--json",
    ]);
    let id = id["id"].as_u64().unwrap();
    let job = daemon.wait_one(id);
    assert_eq!((&job["memory_mib"], &job["time_limit_seconds"], &job["name"]), (&8192.into(), &3600.0.into(), &"short".into()));
    assert_eq!(daemon.log(id), "--json\n");
    let held = daemon.submit(&["--hold", "true"]);
    assert!(daemon.ok(&["ls"]).contains("held"));
    daemon.ok(&["kill", &held.to_string()]);
    assert_eq!(daemon.state_of(held), "cancelled");
    assert!(daemon.ok(&["ls", "-a", "-n", "short"]).contains("short"));
    daemon.ok(&["history", "export", "--since", "1h", "-o", daemon.file("past.csv").to_str().unwrap()]);
}

#[test]
fn what_cannot_run_is_told_at_submit() {
    let daemon = Daemon::start("a100:1");
    let said = daemon.refusal(2, &["submit", "slep", "3"]);
    assert!(said.contains("there is no program `slep` in PATH; did you mean `sleep`?"), "{said}");
    let said = daemon.refusal(2, &["submit", "sleep 3"]);
    assert!(said.contains("`sleep 3` is one word") && said.contains("without quotes"), "{said}");
    let said = daemon.refusal(2, &["submit", "--param", "lr=1,2", "echo", "{rl}"]);
    assert!(said.contains("`{rl}` is not a parameter of this submit; did you mean `{lr}`?"), "{said}");
    let said = daemon.refusal(2, &["policy", "set", "fcsf"]);
    assert!(said.contains("unknown policy `fcsf`; did you mean `fcfs`?") && !said.contains("srtf"), "{said}");
    assert_eq!(daemon.json(&["queue", "--all", "--json"]).as_array().unwrap().len(), 0);
}

#[test]
fn status_says_what_runs_and_what_waits_and_why_and_a_pipe_is_never_cut() {
    let daemon = Daemon::start("a100:1");
    let long = "a-name-that-is-much-longer-than-any-terminal-would-show-of-it-in-one-column";
    let runs = daemon.submit(&["-n", long, "sleep", "60"]);
    daemon.until_state(runs, "running");
    daemon.submit(&["-n", "next", "true"]);
    let status = daemon.ok(&["status"]);
    let line = |word: &str| status.lines().find(|line| line.contains(word)).unwrap_or_else(|| panic!("{status}")).to_owned();
    assert!(line(long).contains("running"), "{status}");
    assert!(line("next").contains("waiting") && line("next").contains("needs 1 GPU; 0 of 1 free"), "{status}");
    // Times of people are local and relative.
    let shown = daemon.ok(&["show", &runs.to_string()]);
    assert!(shown.lines().any(|line| line.starts_with("started") && line.ends_with(" ago)")), "{shown}");
}

#[test]
fn a_gang_that_waits_is_told_how_many_gpus_of_one_type_are_free() {
    let daemon = Daemon::start("a100:4,t4:2");
    let runs = daemon.shell(&["-g", "2", "--gpu-type", "a100"], "sleep 60");
    daemon.until_state(runs, "running");
    // Four GPUs are free in all, and none of them is of use without the others.
    daemon.submit(&["-n", "gang", "-g", "4", "true"]);
    let status = daemon.ok(&["status"]);
    assert!(status.contains("needs 4 GPUs; 2 of 4 a100 free"), "{status}");
    // Virtual GPUs are named as such.
    assert!(status.contains("a100 (virtual)") && status.contains("t4 (virtual)"), "{status}");
}

#[test]
fn ctrl_c_leaves_a_job_that_runs_and_a_second_one_cancels_it() {
    let daemon = Daemon::start("a100:2");
    for presses in [1, 2] {
        let mut run = daemon.call(&["run", "sleep", "60"]).stderr(Stdio::piped()).stdout(Stdio::null()).spawn().unwrap();
        let mut said = BufReader::new(run.stderr.take().unwrap()).lines();
        let id: u64 = said.next().unwrap().unwrap().strip_prefix("job ").unwrap().parse().unwrap();
        daemon.until_state(id, "running");
        kill(run.id(), rustix::process::Signal::INT);
        let line = said.find(|line| !line.as_ref().unwrap().is_empty()).unwrap().unwrap();
        assert!(line.contains(&format!("job {id} goes on without this terminal: `rota logs -f {id}`")), "{line}");
        if presses == 2 {
            kill(run.id(), rustix::process::Signal::INT);
            assert_eq!(said.next().unwrap().unwrap(), format!("job {id} is cancelled"));
        }
        assert_eq!(run.wait().unwrap().code(), Some(130));
        match presses {
            1 => assert_eq!(daemon.state_of(id), "running"),
            _ => until("it is cancelled", || daemon.state_of(id) == "cancelled"),
        }
    }
}

/// What bash offers for a line.
fn offered(daemon: &Daemon, line: &str) -> Vec<String> {
    let script = daemon.file("complete.bash");
    std::fs::write(&script, daemon.ok(&["completions", "bash"])).unwrap();
    let program = crate::live::program();
    let bash = format!(
        "source {}; rota() {{ {} \"$@\"; }}; COMP_LINE='{line}'; COMP_POINT=${{#COMP_LINE}}; _rota_live; printf '%s\\n' \"${{COMPREPLY[@]}}\"",
        script.display(),
        program.display(),
    );
    let output = Command::new("bash").args(["--norc", "-c", &bash]).env("ROTA_STATE", &daemon.state).output().unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    text.lines().filter(|word| !word.is_empty()).map(str::to_owned).collect()
}

#[test]
fn a_shell_completes_jobs_groups_names_states_and_policies() {
    let daemon = Daemon::start("a100:1");
    let group = daemon.json(&["submit", "--json", "--hold", "-n", "bert", "--array", "1-2", "true"])["group"].as_u64().unwrap();
    assert_eq!(offered(&daemon, "rota cancel "), ["2", "1", &format!("group:{group}")]);
    // bash takes what follows a colon for a word of its own.
    assert_eq!(offered(&daemon, "rota cancel group:"), [group.to_string()]);
    assert_eq!(offered(&daemon, "rota cancel --name be"), ["bert"]);
    assert_eq!(offered(&daemon, "rota cancel --state he"), ["held"]);
    assert_eq!(offered(&daemon, "rota up --policy max-min-p"), ["max-min-perf", "max-min-packed"]);
}
