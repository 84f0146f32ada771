//! `rota alloc` as the interface describes it.

use crate::rota::{json, refusal, stdout};
use std::fs;
use tempfile::TempDir;

const FIELDS: &[&str] = &["policy", "jobs", "rows", "types", "objective", "upper_bound", "gap", "solve_seconds", "solver"];

fn alloc(args: &[&str]) -> serde_json::Value {
    json(&[&["alloc"], args, &["--json"]].concat())
}

fn number(document: &serde_json::Value, field: &str) -> f64 {
    document[field].as_f64().unwrap_or_else(|| panic!("{field} in {document}"))
}

#[test]
fn every_policy_of_shares_answers_with_a_proof() {
    let names = [
        "isolated",
        "proportional",
        "max-min",
        "max-min-perf",
        "max-min-packed",
        "water-filling",
        "water-filling-perf",
        "water-filling-packed",
        "ftf",
        "ftf-perf",
        "ftf-packed",
        "makespan",
        "makespan-perf",
        "makespan-packed",
        "max-throughput-perf",
        "max-throughput-cost-perf",
        "max-throughput-cost-slo-perf",
        "max-throughput-cost-slo-packed",
        "strategy-proof",
        "hierarchical",
    ];
    for name in names {
        let document = alloc(&["--random", "24", "--cluster", "v100:4,p100:4,k80:4", "--policy", name, "--seed", "3"]);
        for field in FIELDS {
            assert!(!document[field].is_null(), "{name}: {field}");
        }
        assert_eq!((document["policy"].as_str(), number(&document, "jobs"), number(&document, "types")), (Some(name), 24.0, 3.0));
        assert!(number(&document, "gap") <= 1e-4, "{name}: {document}");
        assert!(number(&document, "objective") > 0.0, "{name}: {document}");
    }
}

#[test]
fn both_solvers_and_both_names_agree() {
    let drawn = ["--random", "40", "--cluster", "8:8:8", "--policy"];
    for (ours, theirs) in
        [("max-min-perf", "max_min_fairness_perf"), ("makespan", "min_total_duration"), ("ftf-perf", "finish_time_fairness_perf")]
    {
        let price = alloc(&[&drawn[..], &[ours]].concat());
        let interior = alloc(&[&drawn[..], &[theirs, "--solver", "interior"]].concat());
        let (one, other) = (number(&price, "objective"), number(&interior, "objective"));
        assert!((one - other).abs() <= 1e-6 * one, "{ours}: {one} and {other}");
        assert_eq!(interior["policy"], ours);
    }
}

#[test]
fn a_file_is_taken_as_jobs_that_are_here_now() {
    let folder = TempDir::new().unwrap();
    let path = folder.path().join("jobs.csv");
    fs::write(&path, "arrival_s,gpus,duration_s\n0,1,100\n50,1,100\n90,2,100\n").unwrap();
    let path = path.to_str().unwrap();
    let document = alloc(&["--jobs", path, "--cluster", "gpu:2", "--policy", "max-min-perf"]);
    // Two jobs of one GPU at x and one of two at x/2 each: x + x + x = 2.
    assert!((number(&document, "objective") - 2.0 / 3.0).abs() < 1e-6, "{document}");
    assert_eq!((number(&document, "jobs"), number(&document, "rows")), (3.0, 2.0));
    let makespan = alloc(&["--jobs", path, "--cluster", "gpu:2", "--policy", "makespan-perf"]);
    assert!((number(&makespan, "objective") - 200.0).abs() < 1e-3, "{makespan}");
}

#[test]
fn unknown_types_and_distinct_draw_jobs_that_all_differ() {
    let invented = alloc(&["--random", "50", "--cluster", "moon:8,sun:16", "--policy", "max-min-perf"]);
    let distinct = alloc(&["--random", "50", "--cluster", "8:8:8", "--policy", "max-min-perf", "--distinct"]);
    assert_eq!((number(&invented, "rows"), number(&distinct, "rows")), (50.0, 50.0));
    let again = alloc(&["--random", "50", "--cluster", "8:8:8", "--policy", "max-min-perf", "--distinct"]);
    assert_eq!(distinct["objective"], again["objective"]);
    let other = alloc(&["--random", "50", "--cluster", "8:8:8", "--policy", "max-min-perf", "--distinct", "--seed", "1"]);
    assert_ne!(distinct["objective"], other["objective"]);
}

#[test]
fn the_table_says_who_gets_what() {
    let text = stdout(&["alloc", "--random", "30", "--cluster", "v100:4,p100:4,k80:4", "--policy", "max-min-packed"]);
    for part in [
        "30 jobs on 4 v100",
        "mean part of their time",
        "part of the GPUs used",
        "policy       max-min-packed",
        "(proven)",
        "solve time",
    ] {
        assert!(text.contains(part), "no `{part}` in:\n{text}");
    }
}

#[test]
fn what_cannot_be_is_refused() {
    let base = ["alloc", "--random", "5", "--cluster", "8:8:8"];
    let with = |more: &[&str]| refusal(&[&base[..], more].concat());
    assert!(with(&["--policy", "max-min-prf"]).contains("unknown policy `max-min-prf`"));
    assert!(with(&["--policy", "fcfs"]).contains("gives no time shares"));
    assert!(refusal(&["alloc", "--random", "0", "--cluster", "8:8:8", "--policy", "max-min"]).contains("--random"));
    assert!(refusal(&["alloc", "--cluster", "8:8:8", "--policy", "max-min"]).contains("--jobs"));
    assert!(
        refusal(&["alloc", "--random", "5", "--cluster", "moon:8", "--policy", "max-throughput-cost-perf"]).contains("`moon`")
    );
    let folder = TempDir::new().unwrap();
    let write = |name: &str, content: &str| {
        let path = folder.path().join(name);
        fs::write(&path, content).unwrap();
        path.to_str().unwrap().to_owned()
    };
    let jobs = write("jobs.csv", "arrival_s,gpus,steps,job_type\n0,1,100,net\n");
    let zero = write("zero.csv", "job_type,gpus,v100\nnet,1,0\nother,1,1\n");
    let nan = write("nan.csv", "job_type,gpus,v100\nnet,1,NaN\n");
    let refused =
        |table: &str| refusal(&["alloc", "--jobs", &jobs, "--cluster", "v100:8", "--policy", "max-min", "--throughputs", table]);
    assert!(refused(&zero).contains("net"));
    assert!(refused(&nan).contains("nan.csv"));
}
