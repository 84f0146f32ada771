//! Against the reference data beside the repository (`make parity`): what our own policies reach on Gavel's trace.

use crate::rota::{json, root};

/// The folder of reference data; without it there is nothing to compare with, which only CI takes for a failure.
fn reference() -> Option<std::path::PathBuf> {
    let folder = root().join("../shared/data/gavel");
    let there = folder.is_dir();
    assert!(there || std::env::var("CI").is_err(), "{} is missing", folder.display());
    there.then_some(folder)
}

#[test]
fn lag_policies_beat_their_marks_on_the_96_job_trace() {
    let Some(folder) = reference() else {
        println!("skipped: no reference data");
        return;
    };
    let at = |name: &str| folder.join(name).to_str().unwrap().to_owned();
    let (trace, table) = (at("traces/max_min_fairness.trace"), at("physical_cluster_throughputs.json"));
    // Gavel's max_min_fairness_perf has a mean JCT of 13,766 s here, and no schedule can have less than 10,241 s.
    for (policy, jct_max) in [("lag-match", 12_400.0), ("lag-gittins:sigma=1", 12_100.0), ("lag-srsf", 11_600.0)] {
        let args = ["sim", "--trace", &trace, "--cluster", "8:16:24", "--throughputs", &table, "--policy", policy, "--json"];
        let summary = json(&args);
        let (jct, rho) = (summary["jct_mean_s"].as_f64().unwrap(), summary["ftf_worst"].as_f64().unwrap());
        assert!(jct <= jct_max, "{policy}: mean JCT {jct}");
        assert!(rho <= 1.1, "{policy}: worst rho {rho}");
        assert_eq!(summary["completed"], 96);
    }
}

#[test]
fn parity_gavel_mechanism_repeats_a_recorded_run() {
    let Some(folder) = reference() else {
        println!("skipped: no reference data");
        return;
    };
    let at = |name: &str| folder.join(name).to_str().unwrap().to_owned();
    let (trace, table) = (at("traces/max_min_fairness.trace"), at("physical_cluster_throughputs.json"));
    for (policy, jct, makespan, utilisation) in
        [("fifo_perf", 18_643.392, 68_321.278, 0.728_453), ("gandiva", 17_128.807, 64_183.084, 0.776_720)]
    {
        let mut args = vec!["sim", "--mechanism", "gavel", "--trace", &trace, "--cluster", "8:16:24", "--throughputs", &table];
        args.extend(["--policy", policy, "--seed", "0", "--json"]);
        let summary = json(&args);
        let number = |name: &str| summary[name].as_f64().unwrap();
        assert!((number("jct_mean_s") - jct).abs() < 0.01, "{policy}: {}", summary["jct_mean_s"]);
        assert!((number("makespan_s") - makespan).abs() < 0.01, "{policy}: {}", summary["makespan_s"]);
        assert!((number("utilisation") - utilisation).abs() < 0.002, "{policy}: {}", summary["utilisation"]);
        assert_eq!((&summary["completed"], &summary["mechanism"]), (&96.into(), &"gavel".into()));
    }
}

/// Jobs 50 to 149 of a workload that Gavel's own driver draws (seed 7, 1.2 jobs an hour, gangs, 12:12:12). Completion times of some of them,
/// from a run of Gavel's simulator (commit c4fa400). The steps of jobs 89 and 125 have parts: cut off, these end a second or two earlier.
#[test]
fn parity_gavel_mechanism_repeats_a_window_of_a_drawn_workload() {
    let Some(folder) = reference() else {
        println!("skipped: no reference data");
        return;
    };
    let table = folder.join("simulation_throughputs.json").to_str().unwrap().to_owned();
    let scratch = tempfile::tempdir().unwrap();
    let at = |name: &str| scratch.path().join(name).to_str().unwrap().to_owned();
    let (trace, jobs) = (at("drawn.trace"), at("jobs.csv"));
    let mut draw = vec!["trace", "gen", "--model", "gavel-continuous", "--jobs", "1000", "--rate", "1.2", "--seed", "7"];
    draw.extend(["--multi-gpu", "--throughputs", &table, "-o", &trace]);
    let drawn = crate::rota::rota(&draw);
    assert!(drawn.status.success(), "{}", String::from_utf8_lossy(&drawn.stderr));
    let recorded = [
        ("fifo-perf", 142_393.402, [(50, 8_120.620_379), (89, 52_523.040_599), (125, 111_304.860_938), (135, 676_026.259_498)]),
        ("isolated", 158_437.035, [(50, 4_547.845_027), (89, 32_261.486_349), (125, 17_577.574_896), (84, 2_488_157.469_307)]),
    ];
    for (policy, mean, completions) in recorded {
        let mut args = vec!["sim", "--mechanism", "gavel", "--trace", &trace, "--cluster", "12:12:12", "--throughputs", &table];
        args.extend(["--policy", policy, "--seed", "7", "--window", "50:149", "--jobs-csv", &jobs, "--json"]);
        let summary = json(&args);
        assert!((summary["jct_mean_s"].as_f64().unwrap() - mean).abs() < 0.001, "{policy}: {}", summary["jct_mean_s"]);
        let rows = std::fs::read_to_string(&jobs).unwrap();
        for (job, completion) in completions {
            let row = rows.lines().find(|row| row.split(',').next() == Some(&job.to_string())).unwrap();
            let jct: f64 = row.split(',').nth(7).unwrap().parse().unwrap();
            assert!((jct - completion).abs() < 0.001, "{policy}, job {job}: {jct} against {completion}");
        }
    }
}

/// Gavel's traces with the clusters and tables its recorded runs used.
const TRACES: [(&str, &str, &str); 6] = [
    ("max_min_fairness.trace", "8:16:24", "physical_cluster_throughputs.json"),
    ("static_n60_seed0_single.tsv", "8:8:8", "simulation_throughputs.json"),
    ("artifact_evaluation.trace", "2:0:4", "physical_cluster_throughputs.json"),
    ("small_test.trace", "2:2:2", "simulation_throughputs.json"),
    ("medium_test.trace", "2:2:2", "simulation_throughputs.json"),
    ("debug.trace", "2:2:2", "simulation_throughputs.json"),
];

/// Longer ones without recorded runs, on clusters that are busy with them; the last is more than its cluster can do for months.
const LONG_TRACES: [(&str, &str, &str); 3] = [
    ("continuous_lam1800_seed0_multi_1500.tsv", "36:36:36", "simulation_throughputs.json"),
    ("103959.trace", "8:16:24", "simulation_throughputs.json"),
    ("6214e9.trace", "36:36:36", "simulation_throughputs.json"),
];

/// Mean JCT, makespan and worst rho of each policy.
fn figures(folder: &std::path::Path, trace: (&str, &str, &str), policies: &[&str], more: &[&str]) -> Vec<(f64, f64, f64)> {
    let at = |name: &str| folder.join(name).to_str().unwrap().to_owned();
    let (path, table) = (at(&format!("traces/{}", trace.0)), at(trace.2));
    let mut args = vec!["sim", "--trace", &path, "--cluster", trace.1, "--throughputs", &table, "--json"];
    args.extend(policies.iter().flat_map(|policy| ["--policy", policy]));
    args.extend(more);
    let summaries = json(&args);
    let list = summaries.as_array().cloned().unwrap_or_else(|| vec![summaries.clone()]);
    let figure = |summary: &serde_json::Value, name: &str| summary[name].as_f64().unwrap();
    let figures = list.iter().map(|run| (figure(run, "jct_mean_s"), figure(run, "makespan_s"), figure(run, "ftf_worst")));
    figures.collect()
}

#[test]
fn parity_rounds_beat_gavels_mechanism_on_every_trace() {
    let Some(folder) = reference() else {
        println!("skipped: no reference data");
        return;
    };
    let policies = [
        "fifo-perf",
        "fifo-packed",
        "max-min-perf",
        "max-min-packed",
        "water-filling-perf",
        "water-filling-packed",
        "ftf-perf",
        "makespan-perf",
        "max-throughput-perf",
        "max-throughput-cost-perf",
        "gandiva",
    ];
    // Gavel's mechanism takes minutes for the packed policies on the other long ones.
    for &trace in TRACES.iter().chain(&LONG_TRACES[1..2]) {
        let ours = figures(&folder, trace, &policies, &["--mechanism", "rounds"]);
        let theirs = figures(&folder, trace, &policies, &["--mechanism", "gavel"]);
        for ((policy, ours), theirs) in policies.iter().zip(ours).zip(theirs) {
            assert!(ours.0 < theirs.0, "{policy} on {}: {} against {}", trace.0, ours.0, theirs.0);
        }
    }
}

#[test]
fn parity_marks_of_the_better_mechanism_hold() {
    let Some(folder) = reference() else {
        println!("skipped: no reference data");
        return;
    };
    for (restart, least_gain) in [("0", 0.08), ("30", 0.12)] {
        let with =
            |mechanism| figures(&folder, TRACES[0], &["max-min-perf"], &["--mechanism", mechanism, "--restart-cost", restart]);
        let (ours, theirs) = (with("rounds")[0].0, with("gavel")[0].0);
        assert!(ours <= (1.0 - least_gain) * theirs, "restart {restart} s: {ours} against {theirs}");
    }
    let makespan = figures(&folder, TRACES[0], &["makespan-perf"], &["--mechanism", "rounds"])[0].1;
    assert!(makespan <= 58_308.0 * 1.005, "makespan {makespan}");
    for mechanism in ["event", "rounds"] {
        let lag = ["lag-match", "lag-gittins:sigma=1", "lag-srsf"];
        let found = figures(&folder, TRACES[0], &lag, &["--mechanism", mechanism]);
        for ((policy, jct_max), (jct, _, _)) in lag.iter().zip([12_400.0, 12_100.0, 11_600.0]).zip(found) {
            assert!(jct <= jct_max, "{policy} with {mechanism}: {jct}");
        }
    }
    for trace in TRACES.iter().chain(&LONG_TRACES) {
        for mechanism in ["event", "rounds"] {
            let rho = figures(&folder, *trace, &["lag-match"], &["--mechanism", mechanism])[0].2;
            assert!(rho <= 1.1, "lag-match on {} with {mechanism}: worst rho {rho}", trace.0);
        }
    }
}

#[test]
fn parity_learned_durations_keep_up_where_types_differ() {
    let Some(folder) = reference() else {
        println!("skipped: no reference data");
        return;
    };
    // Little is learned from so few jobs; it must not cost anything.
    for trace in TRACES[..2].iter().chain(&LONG_TRACES[..2]) {
        let found = figures(&folder, *trace, &["lag-match", "lag-history"], &[]);
        let (without, with) = (found[0], found[1]);
        assert!(with.0 <= 1.01 * without.0, "lag-history on {}: {} against {}", trace.0, with.0, without.0);
        assert!(with.2 <= 1.1, "lag-history on {}: worst rho {}", trace.0, with.2);
    }
}

#[test]
fn parity_marks_on_the_philly_trace() {
    let Some(folder) = reference() else {
        println!("skipped: no reference data");
        return;
    };
    let trace = folder.join("../philly/philly.csv").to_str().unwrap().to_owned();
    // The marks of the longer runs are in benches/history.py.
    for (policy, jct_max) in [("las", 36_000.0), ("sjf:estimates=history", 70_000.0)] {
        let summary = json(&["sim", "--trace", &trace, "--cluster", "gpu:400", "--policy", policy, "--json"]);
        let jct = summary["jct_mean_s"].as_f64().unwrap();
        assert!(jct <= jct_max, "{policy}: mean JCT {jct}");
    }
}
