//! `rota sim`, `rota trace` and `rota policies` as the interface describes them.

use crate::rota::{files, json, rota, stdout};
use std::fs;
use tempfile::TempDir;

const FOUR: &str = "scenarios/teaching-four.csv";

/// Names and order of the summary, which scripts rely on.
const SUMMARY_FIELDS: &[&str] = &[
    "policy",
    "mechanism",
    "seed",
    "jobs",
    "completed",
    "failed",
    "makespan_s",
    "jct_mean_s",
    "jct_p50_s",
    "jct_p90_s",
    "jct_p99_s",
    "wait_mean_s",
    "wait_p99_s",
    "turnaround_mean_s",
    "throughput_jobs_per_h",
    "utilisation",
    "energy_kwh",
    "cost_usd",
    "preemptions",
    "ftf_worst",
    "ftf_unfair_fraction",
    "slo_violations",
    "allocations",
    "allocation_seconds_mean",
    "allocation_seconds_max",
    "wall_seconds",
    "events",
    "bsld_mean",
];

#[test]
fn the_four_teaching_jobs_overlap() {
    let summary = json(&["sim", "--trace", FOUR, "--cluster", "t4:3", "--policy", "fcfs", "--json"]);
    assert_eq!(summary["makespan_s"], 80.83);
    let alone = json(&["sim", "--trace", FOUR, "--cluster", "t4:1", "--policy", "fcfs", "--json"]);
    assert_eq!(alone["makespan_s"], 125.02);
}

#[test]
fn the_summary_has_the_fields_scripts_rely_on() {
    let text = stdout(&["sim", "--trace", FOUR, "--cluster", "t4:2", "--policy", "fcfs", "--json"]);
    let positions = SUMMARY_FIELDS.iter().map(|field| text.find(&format!("\"{field}\"")).unwrap_or_else(|| panic!("no {field}")));
    let positions = positions.collect::<Vec<_>>();
    assert!(positions.is_sorted(), "not in order");
    let several = json(&["sim", "--trace", FOUR, "--cluster", "t4:2", "--policy", "fcfs", "--policy", "sjf", "--json"]);
    assert_eq!(several.as_array().unwrap().len(), 2);
    assert_eq!(several[1]["policy"], "sjf");
}

#[test]
fn out_writes_the_whole_report() {
    let folder = TempDir::new().unwrap();
    let out = folder.path().join("report");
    stdout(&["sim", "--trace", FOUR, "--cluster", "t4:2", "--policy", "fcfs", "--out", out.to_str().unwrap()]);
    let names = files(&out).into_iter().map(|(name, _)| name).collect::<Vec<_>>();
    for expected in
        ["summary.json", "jobs.csv", "events.jsonl", "gantt.svg", "gantt.png", "utilisation.svg", "jct-cdf.svg", "report.html"]
    {
        assert!(names.iter().any(|name| name == expected), "no {expected} in {names:?}");
    }
    let jobs = std::fs::read_to_string(out.join("jobs.csv")).unwrap();
    assert_eq!(
        jobs.lines().next().unwrap(),
        "job_id,job_type,gpus,priority,arrival_s,start_s,finish_s,jct_s,wait_s,service_gpu_s,preemptions,energy_wh,status"
    );
    assert_eq!(jobs.lines().count(), 5);
    let events = std::fs::read_to_string(out.join("events.jsonl")).unwrap();
    assert_eq!(events.lines().next().unwrap(), r#"{"version":2}"#);
    assert_eq!(events.lines().count(), 1 + 3 * 4, "submitted, started and finished for each job");
}

#[test]
fn several_policies_get_a_folder_each_and_a_comparison() {
    let folder = TempDir::new().unwrap();
    let out = folder.path().to_str().unwrap();
    stdout(&["sim", "--trace", FOUR, "--cluster", "t4:2", "--policy", "fcfs", "--policy", "rr:quantum=5", "--out", out]);
    let names = files(folder.path()).into_iter().map(|(name, _)| name).collect::<Vec<_>>();
    for expected in ["comparison.svg", "report.html", "fcfs/jobs.csv", "fcfs/events.jsonl", "rr-quantum-5/gantt.svg"] {
        assert!(names.iter().any(|name| name == expected), "no {expected} in {names:?}");
    }
}

#[test]
fn the_same_seed_gives_the_same_bytes_on_any_number_of_threads() {
    let run = |threads: &str| {
        let folder = TempDir::new().unwrap();
        let out = folder.path().join("out");
        let args = [
            "sim",
            "--trace",
            "scenarios/classroom.toml",
            "--cluster",
            "t4:4",
            "--policy",
            "lottery",
            "--policy",
            "random",
            "--policy",
            "las",
            "--seed",
            "7",
            "--node-mtbf",
            "0.01",
            "--node-repair",
            "0.005",
            "--jobs-parallel",
            threads,
            "--out",
            out.to_str().unwrap(),
        ];
        stdout(&args);
        // Times of the machine stand in the summary and the page; everything else is the run's alone.
        files(&out)
            .into_iter()
            .filter(|(name, _)| name != "summary.json" && name != "report.html" && !name.starts_with("comparison"))
            .collect::<Vec<_>>()
    };
    let one = run("1");
    assert!(one.len() > 10);
    assert!(one == run("2") && one == run("8"));
}

#[test]
fn every_policy_runs_by_itself_with_one_command_and_shows_a_picture() {
    for policy in json(&["policies", "--json"]).as_array().unwrap() {
        // A learned policy needs a model, see `learn.rs`.
        let Some(name) = policy["name"].as_str().filter(|name| *name != "learned") else { continue };
        let text = stdout(&["sim", "--trace", FOUR, "--cluster", "t4:2", "--policy", name]);
        assert!(text.contains(name) && text.contains('█'), "{name}: {text}");
    }
}

#[test]
fn gavel_traces_run_with_the_built_in_table() {
    let folder = TempDir::new().unwrap();
    let trace = folder.path().join("jobs.trace");
    let row = |steps: u32, gpus: u32, arrival: u32| {
        format!("ResNet-18 (batch size 128)\tcommand\tdir\t--num_steps\t1\t{steps}\t{gpus}\t1\t-1.000000\t{arrival}\n")
    };
    std::fs::write(&trace, row(17_995, 1, 0) + &row(23_985, 2, 10)).unwrap();
    let summary = json(&["sim", "--trace", trace.to_str().unwrap(), "--cluster", "2:2:2", "--policy", "fcfs", "--json"]);
    assert_eq!(summary["completed"], 2);
    // 17,995 steps at 17.995 steps/s on a v100: 1,000 s.
    assert!((summary["jct_p90_s"].as_f64().unwrap() - 1000.0).abs() < 5.0, "{summary}");
}

#[test]
fn a_history_survives_conversion() {
    let folder = TempDir::new().unwrap();
    let at = |name: &str| folder.path().join(name).to_str().unwrap().to_owned();
    stdout(&[
        "trace",
        "gen",
        "--model",
        "poisson",
        "--jobs",
        "200",
        "--rate",
        "30",
        "--multi-gpu",
        "--slo",
        "--multi-priority",
        "--seed",
        "3",
        "-o",
        &at("a.csv"),
    ]);
    stdout(&["trace", "convert", &at("a.csv"), "-o", &at("b.toml")]);
    stdout(&["trace", "convert", &at("b.toml"), "-o", &at("c.csv")]);
    assert_eq!(std::fs::read(at("a.csv")).unwrap(), std::fs::read(at("c.csv")).unwrap());
    let info = json(&["trace", "info", &at("b.toml"), "--cluster", "a100:16", "--json"]);
    assert_eq!(info["jobs"], 200);
    assert!(info["offered_load"].as_f64().unwrap() > 0.0);
}

#[test]
fn a_reader_that_goes_away_is_no_error() {
    use std::process::{Command, Stdio};
    let mut child = Command::new(assert_cmd::cargo::cargo_bin!("rota"))
        .arg("policies")
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    drop(child.stdout.take());
    assert!(child.wait().unwrap().success());
}

#[test]
fn help_has_examples() {
    for command in [&["sim"][..], &["sweep"], &["trace", "info"], &["trace", "convert"], &["trace", "gen"], &["policies"]] {
        let args = command.iter().copied().chain(["--help"]).collect::<Vec<_>>();
        let help = String::from_utf8(rota(&args).stdout).unwrap();
        assert!(help.contains("Example"), "{command:?}");
    }
}

#[test]
fn costs_follow_the_prices_in_force() {
    let folder = TempDir::new().unwrap();
    let path = |name: &str, content: &str| {
        let path = folder.path().join(name);
        fs::write(&path, content).unwrap();
        path.to_str().unwrap().to_owned()
    };
    // One GPU for an hour and a half, then two jobs with half a GPU each for an hour, which share one.
    let trace = path("jobs.csv", "arrival_s,duration_s,share\n0,5400,1\n7200,3600,0.5\n7200,3600,0.5\n");
    let prices = path("prices.csv", "time_s,gpu_type,usd_per_gpu_hour\n0,t4,1\n3600,t4,4\n7200,t4,10\n");
    let cost = |prices: Option<&str>| {
        let mut args = vec!["sim", "--trace", &trace, "--cluster", "t4:1", "--policy", "fcfs", "--json"];
        args.extend(prices.into_iter().flat_map(|path| ["--prices", path]));
        json(&args)["cost_usd"].as_f64().unwrap()
    };
    assert!((cost(Some(&prices)) - (1.0 + 2.0 + 10.0)).abs() < 1e-9);
    assert!((cost(None) - 2.5 * 0.35).abs() < 1e-9, "the list price of a t4");
    let constant = path("prices.toml", "[usd_per_gpu_hour]\nt4 = 2\n");
    assert!((cost(Some(&constant)) - 5.0).abs() < 1e-9);
}
