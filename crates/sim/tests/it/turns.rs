//! Who goes first among jobs that ask for the same, under policies that divide time.

use crate::scene::{job, run};
use rota_core::bind::BadJobs;
use rota_core::cluster::Outage;
use rota_core::{Bound, Cluster, Job, NodeId, ThroughputTable, Time, Workload};
use std::sync::Arc;

const SHARING: [&str; 4] = ["max-min", "max-min-perf", "ftf-perf", "water-filling-perf"];

/// A job of half a second on GPUs of one type.
type Ask = (&'static str, u32, f64);

/// The first starts of jobs.
fn starts(cluster: &Cluster, asks: &[Ask], policy: &str) -> Vec<f64> {
    let mut workload = Workload::new("turns");
    for &(kind, gpus, arrival) in asks {
        let gpu_types = [workload.names.intern(kind)].into_iter().collect();
        workload.push(Job { gpus, gpu_types, ..job(arrival, 0.5) });
    }
    workload.finish();
    let bound = Bound::new(workload, cluster.clone(), &ThroughputTable::default(), BadJobs::Refuse).unwrap();
    run(&Arc::new(bound), policy).first_start.into_iter().map(Option::unwrap).collect()
}

#[test]
fn jobs_that_are_owed_the_same_start_in_the_order_in_which_they_came() {
    let cluster = Cluster::from_spec("p100:4,k80:2", 4).unwrap();
    let all = |kind, gpus, count: usize| vec![(kind, gpus, 0.0); count];
    // Gangs of one size and of two, which are matched in different ways.
    for asks in [all("k80", 2, 8), [all("k80", 2, 6), all("p100", 1, 9), all("p100", 2, 6)].concat()] {
        for policy in SHARING {
            let starts = starts(&cluster, &asks, policy);
            for second in 1..asks.len() {
                let is_alike = asks[second - 1] == asks[second];
                assert!(!is_alike || starts[second - 1] <= starts[second], "{policy}: before {second} of {starts:?}");
            }
        }
    }
}

#[test]
fn jobs_whose_gpus_were_not_there_yet_are_not_behind_those_that_came_later() {
    let mut cluster = Cluster::from_spec("p100:4,k80:1", 4).unwrap();
    let k80 = cluster.nodes.len() - 1;
    cluster.outages = vec![Outage { node: NodeId::from_index(k80), from: Time::ZERO, until: Time::from_seconds(6.0) }];
    // A job of the other type makes the shares new while the first of the waiting ones runs.
    let asks = [("k80", 1, 0.0), ("k80", 1, 1.0), ("k80", 1, 2.0), ("k80", 1, 3.0), ("k80", 1, 6.25), ("p100", 1, 6.25)];
    for policy in SHARING {
        let starts = starts(&cluster, &asks, policy);
        assert_eq!(starts[..5], [6.0, 6.5, 7.0, 7.5, 8.0], "{policy}");
    }
}
