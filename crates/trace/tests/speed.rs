//! How long reading and generating take. Not run by default: `cargo test --release -p rota-trace --test speed -- --ignored --nocapture`.

#![expect(clippy::print_stdout, reason = "the times are the result")]

use rota_trace::generate::{Poisson, poisson};
use rota_trace::{ReadOptions, parse, write_csv, write_toml};
use std::time::{Duration, Instant};

fn timed<Output>(what: &str, limit: Duration, run: impl FnOnce() -> Output) -> Output {
    let started = Instant::now();
    let output = run();
    let took = started.elapsed();
    println!("{what}: {took:?}");
    assert!(took < limit, "{what} took {took:?}, more than {limit:?}");
    output
}

#[test]
#[ignore = "measures time, in release builds"]
fn a_million_jobs_are_read_within_two_seconds() {
    let config = Poisson { jobs: 1_000_000, jobs_per_hour: 600.0, estimate_sigma: 0.5, ..Poisson::default() };
    let workload = timed("generate 1,000,000 jobs", Duration::from_secs(1), || poisson(&config, 1));
    let mut text = Vec::new();
    timed("write them as CSV", Duration::from_secs(4), || write_csv(&workload, &mut text).unwrap());
    println!("{} MB", text.len() / 1_000_000);
    let read = timed("read them as CSV", Duration::from_secs(2), || parse("t.csv", &text, &ReadOptions::default()).unwrap());
    assert_eq!(read.workload.jobs.len(), 1_000_000);
    text.clear();
    timed("write them as TOML", Duration::from_secs(6), || write_toml(&workload, &mut text).unwrap());
    timed("read them as TOML", Duration::from_secs(20), || parse("t.toml", &text, &ReadOptions::default()).unwrap());
}

#[test]
#[ignore = "measures time, in release builds"]
fn the_philly_trace_is_read_within_a_tenth_of_a_second() {
    let path = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../shared/data/philly/philly.csv");
    if !path.exists() {
        println!("skipped: no reference data at {}", path.display());
        return;
    }
    // The best of several: a busy machine slows single runs, never speeds them up.
    let once = || {
        let started = Instant::now();
        rota_trace::read(&path, &ReadOptions::default()).unwrap();
        started.elapsed()
    };
    let times = [(); 7].map(|()| once());
    println!("read philly.csv: {times:?}");
    assert!(times.iter().min() < Some(&Duration::from_millis(100)), "{times:?}");
}
