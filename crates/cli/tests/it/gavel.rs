//! `--mechanism gavel`: Gavel's policies by both spellings, in single runs and in sweeps, and what it refuses.

use crate::rota::{json, refusal, stdout};
use std::fs;
use tempfile::TempDir;

/// A workload of Gavel's own, drawn with the built-in table.
fn workload(folder: &TempDir) -> String {
    let path = folder.path().join("jobs.toml");
    fs::write(&path, "[generate]\nmodel = \"gavel-continuous\"\njobs = 60\njobs_per_hour = 20.0\nseed = 1\n").unwrap();
    path.to_str().unwrap().to_owned()
}

#[test]
fn both_spellings_are_one_policy() {
    let folder = TempDir::new().unwrap();
    let trace = workload(&folder);
    let run = |policy: &str, more: &[&str]| {
        let args = ["sim", "--mechanism", "gavel", "--trace", &trace, "--cluster", "4:4:4", "--policy", policy, "--json"];
        json(&[&args[..], more].concat())
    };
    for (ours, theirs) in [("max-min-perf", "max_min_fairness_perf"), ("allox", "allox_alpha=1.0")] {
        let (one, other) = (run(ours, &[]), run(theirs, &[]));
        assert_eq!((&one["completed"], &one["mechanism"]), (&60.into(), &"gavel".into()));
        assert_eq!(one["jct_mean_s"], other["jct_mean_s"]);
    }
    let windowed = run("fifo", &["--window", "10:19"]);
    assert_eq!(windowed["jobs"], 10);
}

#[test]
fn what_gavel_does_not_have_is_refused() {
    let folder = TempDir::new().unwrap();
    let trace = workload(&folder);
    let refused =
        |more: &[&str]| refusal(&[&["sim", "--mechanism", "gavel", "--trace", &trace, "--cluster", "4:4:4"][..], more].concat());
    assert!(refused(&["--policy", "lag-match"]).contains("policy `lag-match` is not one that Gavel has"));
    assert!(refused(&["--policy", "gandiva"]).contains("needs a throughput table that has pairs"));
    assert!(refused(&["--policy", "fifo", "--node-mtbf", "100"]).contains("--node-mtbf does not go with --mechanism gavel"));
    let out = folder.path().join("sweep");
    let sweep = ["sweep", "--mechanism", "gavel", "--policies", "srtf", "--clusters", "4:4:4", "--rates", "20", "--out"];
    assert!(refusal(&[&sweep[..], &[out.to_str().unwrap()]].concat()).contains("policy `srtf` is not one that Gavel has"));
}

#[test]
fn a_sweep_runs_it() {
    let folder = TempDir::new().unwrap();
    let out = folder.path().to_str().unwrap();
    let grid = ["sweep", "--mechanism", "gavel", "--policies", "fifo-perf,max-min-perf", "--clusters", "4:4:4"];
    stdout(&[&grid[..], &["--model", "gavel-continuous", "--rates", "10,20", "--jobs", "40", "--out", out]].concat());
    let results = fs::read_to_string(folder.path().join("results.csv")).unwrap();
    assert_eq!(results.lines().count(), 1 + 2 * 2);
}
