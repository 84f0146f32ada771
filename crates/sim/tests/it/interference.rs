//! Jobs that share a GPU slow each other down as the throughput table says, and share only where more gets done together.

use crate::scene::run;
use rota_core::bind::BadJobs;
use rota_core::{Bound, Cluster, Job, MilliGpu, Span, ThroughputTable, Time, Workload};
use std::sync::Arc;

/// Jobs of these kinds with a quarter of a GPU and so much memory, all there from the beginning, ten seconds each.
fn sharers(cluster: &str, kinds: &[(&str, u32)], pairs: &[(&str, &str, f64, f64)]) -> Arc<Bound> {
    let mut table = ThroughputTable::new("test");
    let mut workload = Workload::new("test");
    for (kind, memory_mib) in kinds {
        table.insert(kind, 1, "x", 10.0);
        let kind = workload.names.intern(kind);
        let job = Job::new(Time::ZERO, Span::from_whole_seconds(10));
        workload.push(Job { kind, share: MilliGpu(250), memory_mib: *memory_mib, ..job });
    }
    for (first, second, of_first, of_second) in pairs {
        table.insert_pair((first, 1), (second, 1), "x", (10.0 * of_first, 10.0 * of_second));
    }
    workload.finish();
    Arc::new(Bound::new(workload, Cluster::from_spec(cluster, 4).unwrap(), &table, BadJobs::Refuse).unwrap())
}

#[test]
fn a_job_is_slow_while_another_is_in_its_way() {
    // The first has half its speed until the second, which does not notice it, has ended.
    let bound = sharers("x:1", &[("net", 1000), ("lm", 1000)], &[("net", "lm", 0.5, 1.0)]);
    assert_eq!(run(&bound, "fcfs").finishes(), [15.0, 10.0]);
    // Nobody measured them together: each goes on as if alone.
    let bound = sharers("x:1", &[("net", 1000), ("lm", 1000)], &[("net", "net", 0.5, 0.5)]);
    assert_eq!(run(&bound, "fcfs").finishes(), [10.0, 10.0]);
    // Three: each is slowed by both others, until two of them end.
    let kinds = [("net", 1000), ("net", 1000), ("net", 1000)];
    let bound = sharers("x:1", &kinds, &[("net", "net", 0.8, 0.8)]);
    assert_eq!(run(&bound, "fcfs").finishes(), [15.625, 15.625, 15.625]);
}

#[test]
fn they_do_not_share_where_less_gets_done() {
    let kinds = [("net", 1000), ("net", 1000)];
    for (part, finishes) in [(0.6, [10.0 / 0.6, 10.0 / 0.6]), (0.5, [10.0, 20.0]), (0.4, [10.0, 20.0]), (0.0, [10.0, 20.0])] {
        let bound = sharers("x:1", &kinds, &[("net", "net", part, part)]);
        let found = run(&bound, "fcfs").finishes();
        assert!(found.iter().zip(finishes).all(|(found, expected)| (found - expected).abs() < 1e-6), "{part}: {found:?}");
    }
}

#[test]
fn each_goes_where_most_gets_done() {
    // By memory alone the third would go beside the first, which it slows; beside the second, nobody is slowed.
    let kinds = [("net", 9000), ("lm", 1000), ("vision", 1000)];
    let pairs = [("net", "lm", 0.3, 0.3), ("net", "vision", 0.7, 0.7), ("lm", "vision", 1.0, 1.0)];
    assert_eq!(run(&sharers("x:2", &kinds, &pairs), "fcfs").finishes(), [10.0, 10.0, 10.0]);
    assert_eq!(run(&sharers("x:2", &kinds, &pairs[..2]), "fcfs").finishes(), [10.0, 10.0, 10.0]);
    // On one GPU the second waits: it and the first together do less than either.
    let finishes = run(&sharers("x:1", &kinds, &pairs), "fcfs:backfill=greedy").finishes();
    assert!((finishes[1] - (10.0 / 0.7 + 10.0)).abs() < 1e-6, "{finishes:?}");
}
