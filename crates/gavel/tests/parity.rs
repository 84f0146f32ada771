//! Against Gavel's own runs, recorded beside the repository: job by job where nothing is left to a solver, and the mean
//! completion time or the makespan where a solver picks one of many optimal shares.

#![expect(clippy::unwrap_used, clippy::print_stdout, reason = "a test that cannot go on has failed; figures are for the reader")]

use rota_core::bind::BadJobs;
use rota_core::{Bound, Cluster, ThroughputTable, Workload};
use rota_gavel::{GavelOptions, GavelTally, Prices, simulate};
use rota_trace::generate::{GavelStatic, Generator, Seeded};
use std::collections::HashMap;
use std::path::PathBuf;

/// The folder of reference data; `None` with a word to the reader where there is none, which CI does not allow.
fn reference() -> Option<PathBuf> {
    let root = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../../shared/data/gavel");
    if root.is_dir() {
        return Some(root);
    }
    assert_ne!(std::env::var("CI").as_deref(), Ok("true"), "the reference data is missing at {}", root.display());
    println!("skipped: no reference data at {}", root.display());
    None
}

/// One recorded run.
struct Recorded {
    row: HashMap<String, String>,
}

impl Recorded {
    fn text(&self, column: &str) -> &str {
        &self.row[column]
    }

    fn number(&self, column: &str) -> f64 {
        self.row[column].parse().unwrap()
    }
}

fn recorded_runs(root: &std::path::Path) -> Vec<Recorded> {
    let mut reader = csv::Reader::from_path(root.join("reference-results.csv")).unwrap();
    reader.deserialize().map(|row| Recorded { row: row.unwrap() }).filter(|run| run.text("solver") != "SCS").collect()
}

fn workload(root: &std::path::Path, trace: &str, with_slo: bool, table: &ThroughputTable) -> Workload {
    if trace == "static_n60" {
        let settings = GavelStatic { jobs: 60, slo: with_slo, ..GavelStatic::default() };
        return Generator::GavelStatic(Seeded { seed: 0, settings }).run_with(table).unwrap();
    }
    rota_trace::read(&root.join("traces").join(trace), &rota_trace::ReadOptions::default()).unwrap().workload
}

fn repeat(root: &std::path::Path, run: &Recorded) -> (Bound, GavelTally) {
    let table = rota_trace::read_throughputs(&root.join(run.text("throughputs"))).unwrap();
    let note = run.text("note");
    let has_prices = note.contains("gcp_prices_SLOs");
    let workload = workload(root, run.text("trace"), has_prices, &table);
    let cluster = Cluster::from_spec(run.text("cluster_v100_p100_k80"), 1).unwrap();
    let bound = Bound::new(workload, cluster, &table, BadJobs::Refuse).unwrap();
    let options = GavelOptions {
        round_seconds: run.number("round_s"),
        seed: run.text("seed").parse().unwrap(),
        reset_seconds: if note.contains("min_reset_s=0") { 0.0 } else { 1920.0 },
        gpus_per_server: run.text("gpus_per_server").split(':').next().unwrap().parse().unwrap(),
        prices: has_prices.then(Prices::gcp),
        ..GavelOptions::default()
    };
    let tally = simulate(&bound, &table, run.text("policy"), &options, &mut |_| {}).unwrap();
    (bound, tally)
}

fn mean_jct(bound: &Bound, tally: &GavelTally) -> f64 {
    let jcts = bound.jobs.iter().zip(&tally.completions).filter_map(|(job, end)| Some((*end)? - job.arrival.seconds()));
    let jcts = jcts.collect::<Vec<_>>();
    jcts.iter().sum::<f64>() / jcts.len() as f64
}

/// Repeats all recorded runs of these policies and says how far each is off.
fn compare(policies: &[&str], check: impl Fn(&Recorded, &Bound, &GavelTally, &std::path::Path)) {
    let Some(root) = reference() else { return };
    let (mut compared, mut failed) = (0, 0);
    for run in recorded_runs(&root).iter().filter(|run| policies.contains(&run.text("policy"))) {
        let begun = std::time::Instant::now();
        let (bound, tally) = repeat(&root, run);
        let (jct, makespan) = (mean_jct(&bound, &tally), tally.makespan_seconds);
        let off = |value: f64, column: &str| 100.0 * (value / run.number(column) - 1.0);
        println!(
            "{} {} {} {}: mean JCT {jct:.3} ({:+.3} %), makespan {makespan:.3} ({:+.3} %), utilisation {:.6} ({}), leases {:.2} ({}), cost {:.2} ({}), slo {} ({}), solves {} ({}), {:.1} s",
            run.text("trace"),
            run.text("cluster_v100_p100_k80"),
            run.text("policy"),
            run.text("note"),
            off(jct, "avg_jct_s"),
            off(makespan, "makespan_s"),
            tally.utilisation,
            run.text("utilisation"),
            tally.lease_extension_percent,
            run.text("lease_ext_pct"),
            tally.cost_usd,
            run.text("total_cost_usd"),
            tally.slo_violations,
            run.text("slo_violations"),
            tally.decisions,
            run.text("num_solves"),
            begun.elapsed().as_secs_f64(),
        );
        let checked = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| check(run, &bound, &tally, &root)));
        failed += u32::from(checked.is_err());
        compared += 1;
    }
    assert_eq!(failed, 0, "of {compared} runs so many are off");
    assert!(compared > 0, "no run of {policies:?} is recorded");
}

/// The per-job completions that were recorded of a run, if they were.
fn recorded_jobs(root: &std::path::Path, run: &Recorded) -> Option<HashMap<usize, f64>> {
    let trace = if run.text("trace") == "static_n60" { "static60_" } else { &format!("{}__", run.text("trace")) };
    let name = format!("jct/{trace}{}__{}.csv", run.text("cluster_v100_p100_k80").replace(':', "-"), run.text("policy"));
    let mut reader = csv::Reader::from_path(root.join(name)).ok()?;
    let rows = reader.deserialize::<HashMap<String, String>>().map(Result::unwrap);
    Some(rows.map(|row| (row["job_id"].parse().unwrap(), row["end_s"].parse().unwrap())).collect())
}

fn job_by_job(run: &Recorded, bound: &Bound, tally: &GavelTally, root: &std::path::Path) {
    let jct = mean_jct(bound, tally);
    assert!((jct - run.number("avg_jct_s")).abs() <= 0.01, "mean JCT {jct}, recorded {}", run.text("avg_jct_s"));
    assert!((tally.makespan_seconds - run.number("makespan_s")).abs() <= 0.01);
    if let Some(jobs) = recorded_jobs(root, run) {
        for (job, end) in tally.completions.iter().enumerate() {
            assert_eq!(end.is_some(), jobs.contains_key(&job), "job {job}");
            let off = end.unwrap_or_default() - jobs.get(&job).copied().unwrap_or_default();
            assert!(off.abs() <= 1.0, "job {job} is off by {off} s");
        }
    }
}

#[test]
fn parity_fifo() {
    compare(&["fifo", "fifo_perf", "fifo_packed"], job_by_job);
}

#[test]
fn parity_equal_shares() {
    compare(&["isolated", "proportional"], job_by_job);
}

#[test]
fn parity_gandiva_and_allox() {
    compare(&["gandiva", "allox"], job_by_job);
}

fn mean_within(percent: f64) -> impl Fn(&Recorded, &Bound, &GavelTally, &std::path::Path) {
    move |run, bound, tally, _| {
        let off = 100.0 * (mean_jct(bound, tally) / run.number("avg_jct_s") - 1.0);
        assert!(off.abs() <= percent, "{}: mean JCT is off by {off} %", run.text("policy"));
    }
}

fn makespan_within(percent: f64) -> impl Fn(&Recorded, &Bound, &GavelTally, &std::path::Path) {
    move |run, _, tally, _| {
        let off = 100.0 * (tally.makespan_seconds / run.number("makespan_s") - 1.0);
        assert!(off.abs() <= percent, "{}: makespan is off by {off} %", run.text("policy"));
    }
}

#[test]
fn parity_max_min() {
    compare(&["max_min_fairness", "max_min_fairness_perf"], mean_within(2.0));
}

#[test]
fn parity_max_min_packed() {
    compare(&["max_min_fairness_packed"], mean_within(2.0));
}

#[test]
fn parity_water_filling() {
    let policies =
        ["max_min_fairness_water_filling", "max_min_fairness_water_filling_perf", "max_min_fairness_water_filling_packed"];
    compare(&policies, mean_within(2.0));
}

#[test]
fn parity_finish_time_fairness() {
    let policies = ["finish_time_fairness", "finish_time_fairness_perf", "finish_time_fairness_packed"];
    compare(&policies, mean_within(2.0));
}

#[test]
fn parity_makespan() {
    compare(&["min_total_duration", "min_total_duration_perf"], makespan_within(2.0));
    compare(&["min_total_duration_packed"], makespan_within(4.0));
}

#[test]
fn parity_max_sum() {
    compare(&["max_sum_throughput_perf"], mean_within(2.0));
}

#[test]
fn parity_cost() {
    let policies = ["max_sum_throughput_normalized_by_cost_perf", "max_sum_throughput_normalized_by_cost_perf_SLOs"];
    compare(&policies, mean_within(2.0));
}
