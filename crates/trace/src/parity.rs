//! Reads the published traces kept beside the repository and compares them with what is known of them.

use crate::{Format, Loaded, ReadOptions, default_throughputs, read};
use std::collections::BTreeMap;
use std::path::PathBuf;

/// A file of the reference data; `None` with a word to the reader where there is none, which CI does not allow.
fn data(path: &str) -> Option<PathBuf> {
    let root = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../../shared/data");
    if root.is_dir() {
        return Some(root.join(path));
    }
    assert_ne!(std::env::var("CI").as_deref(), Ok("true"), "the reference data is missing at {}", root.display());
    println!("skipped: no reference data at {}", root.display());
    None
}

fn load(path: &str) -> Option<Loaded> {
    data(path).map(|path| read(&path, &ReadOptions::default()).unwrap())
}

#[test]
fn parity_philly_has_its_known_size() {
    let Some(loaded) = load("philly/philly.csv") else { return };
    let jobs = &loaded.workload.jobs;
    assert_eq!((loaded.format, jobs.len()), (Format::Philly, 82_247));
    let gpu_seconds = jobs.iter().map(|job| u128::from(job.work.0) * u128::from(job.gpus)).sum::<u128>() / 1_000_000_000;
    assert_eq!(gpu_seconds, 3_521_082_502);
    let mut gangs = BTreeMap::new();
    for job in jobs {
        *gangs.entry(job.gpus).or_insert(0) += 1;
    }
    let expected = [(1, 76_627), (2, 1818), (4, 1870), (8, 1643), (12, 7), (16, 199), (24, 7), (32, 67), (64, 6), (128, 3)];
    assert_eq!(gangs, BTreeMap::from(expected));
    assert_eq!(loaded.notes, ["time zero is 2017-09-04 10:30:41"]);
    assert!(jobs.is_sorted_by_key(|job| job.arrival) && jobs[0].arrival.0 == 0);
}

#[test]
fn parity_gavel_traces_have_their_number_of_lines() {
    for (name, format, count) in [
        ("103959.trace", Format::Gavel10, 861),
        ("6214e9.trace", Format::Gavel10, 1985),
        ("artifact_evaluation.trace", Format::Gavel10, 15),
        ("debug.trace", Format::Gavel10, 14),
        ("max_min_fairness.trace", Format::Gavel10, 96),
        ("medium_test.trace", Format::Gavel10, 20),
        ("small_test.trace", Format::Gavel10, 20),
        ("continuous_lam1800_seed0_multi_1500.tsv", Format::GavelTsv, 1500),
        ("static_n60_seed0_single.tsv", Format::GavelTsv, 60),
    ] {
        let Some(loaded) = load(&format!("gavel/traces/{name}")) else { return };
        assert_eq!((loaded.format, loaded.workload.jobs.len()), (format, count), "{name}");
        assert!(loaded.workload.jobs.iter().all(|job| job.label.is_none()), "{name}");
    }
}

/// Gavel draws a duration and multiplies it with the V100's throughput to get steps: our table must give it back.
#[test]
fn parity_steps_over_throughput_are_the_drawn_durations() {
    let Some(loaded) = load("gavel/traces/continuous_lam1800_seed0_multi_1500.tsv") else { return };
    let table = default_throughputs();
    for job in &loaded.workload.jobs {
        let job_type = loaded.workload.names.text(job.kind);
        let speed = table.get(job_type, job.gpus, "v100").unwrap();
        assert!((job.steps / speed / job.work.seconds() - 1.0).abs() < 1e-9, "{job:?}");
    }
}
