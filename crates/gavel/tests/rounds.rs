//! Gavel's rounds on small made-up workloads: the defects that are kept, what is refused, and what the events tell.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

use rota_core::bind::BadJobs;
use rota_core::{Bound, Cluster, End, Event, EventKind, GpuId, Job, JobId, Span, ThroughputTable, Time, Workload};
use rota_gavel::{GavelError, GavelOptions, GavelTally, POLICY_NAMES, Prices, simulate};
use std::collections::{BTreeMap, BTreeSet};

/// A job type that makes 10 steps a second on every type and gang size, 6 beside another.
fn table() -> ThroughputTable {
    let mut table = ThroughputTable::new("test");
    for gpu_type in ["v100", "p100", "k80"] {
        for gpus in [1, 2, 4, 8] {
            table.insert("net", gpus, gpu_type, 10.0);
            table.insert_pair(("net", gpus), ("net", gpus), gpu_type, (6.0, 6.0));
        }
    }
    table
}

/// Jobs given as arrival in seconds, steps and gang size.
fn bind(jobs: &[(f64, f64, u32)], cluster: &str) -> Bound {
    let mut workload = Workload::default();
    let kind = workload.names.intern("net");
    for (index, &(arrival, steps, gpus)) in jobs.iter().enumerate() {
        let mut job = Job::new(Time::from_seconds(arrival).unwrap(), Span::ZERO);
        (job.id, job.kind, job.steps, job.gpus) = (JobId::from_index(index), kind, steps, gpus);
        job.deadline = Some(Time::from_seconds(arrival + steps).unwrap());
        workload.jobs.push(job);
    }
    Bound::new(workload, Cluster::from_spec(cluster, 1).unwrap(), &table(), BadJobs::Refuse).unwrap()
}

fn run(bound: &Bound, policy: &str, options: &GavelOptions) -> (GavelTally, Vec<Event>) {
    let mut events = Vec::new();
    let tally = simulate(bound, &table(), policy, options, &mut |event| events.push(event.clone())).unwrap();
    (tally, events)
}

fn plain(bound: &Bound, policy: &str) -> GavelTally {
    run(bound, policy, &GavelOptions::default()).0
}

fn is_near(one: f64, other: f64) -> bool {
    (one - other).abs() < 1e-6
}

#[test]
fn a_job_waits_half_an_hour_for_a_share_beside_idle_gpus() {
    // The second is done in the first round, after which shares are computed at 360 s; those of the third at 2520 s.
    let bound = bind(&[(0.0, 100_000.0, 1), (0.0, 100.0, 1), (400.0, 415.0, 1)], "v100:3");
    let tally = plain(&bound, "max-min-perf");
    assert!(is_near(tally.completions[2].unwrap(), 2520.0 + 41.5), "{:?}", tally.completions);
    let options = GavelOptions { reset_seconds: 0.0, ..GavelOptions::default() };
    let (tally, _) = run(&bound, "max-min-perf", &options);
    assert!(is_near(tally.completions[2].unwrap(), 720.0 + 41.5), "{:?}", tally.completions);
}

#[test]
fn an_idle_gap_is_charged_to_who_runs_after_it() {
    let bound = bind(&[(0.0, 415.0, 1), (10_000.0, 415.0, 1)], "v100:1");
    let tally = plain(&bound, "fifo-perf");
    assert!(is_near(tally.utilisation, 1.0), "{}", tally.utilisation);
    assert!(is_near(tally.completions[1].unwrap(), 10_041.5));
}

#[test]
fn a_gang_with_fewer_steps_left_than_gpus_is_given_up() {
    let bound = bind(&[(0.0, 3605.0, 8), (0.0, 3608.0, 8)], "v100:16");
    let (tally, events) = run(&bound, "fifo-perf", &GavelOptions::default());
    assert_eq!(tally.completions[0], None);
    assert!(is_near(tally.completions[1].unwrap(), 360.8));
    let failed = events
        .iter()
        .filter(|event| matches!(event.kind, EventKind::Ended { end: End::Crashed | End::Dependency | End::NeverFits, .. }))
        .count();
    assert_eq!(failed, 1);
}

#[test]
fn fifo_puts_everybody_on_the_v100s() {
    let jobs = [(0.0, 3000.0, 1); 12];
    let tally = plain(&bind(&jobs, "2:2:2"), "fifo");
    // Twelve jobs of 300 s two at a time, though there are six GPUs.
    assert!(is_near(tally.makespan_seconds, 1800.0), "{}", tally.makespan_seconds);
    assert!(is_near(plain(&bind(&jobs, "2:2:2"), "fifo-perf").makespan_seconds, 600.0));
}

#[test]
fn a_window_ends_the_run_and_its_jobs_keep_their_times() {
    let jobs = (0..40).map(|index| (f64::from(index) * 500.0, 5000.0 + f64::from(index), 1)).collect::<Vec<_>>();
    let bound = bind(&jobs, "2:1:0");
    let whole = plain(&bound, "max-min-perf");
    let options = GavelOptions { window: Some((5, 9)), ..GavelOptions::default() };
    let (windowed, _) = run(&bound, "max-min-perf", &options);
    assert!(windowed.makespan_seconds < whole.makespan_seconds);
    assert_eq!(windowed.completions[5..10], whole.completions[5..10]);
}

#[test]
fn a_restart_costs_only_those_that_move() {
    let options = |restart_cost_seconds| GavelOptions { restart_cost_seconds, ..GavelOptions::default() };
    let alone = bind(&[(0.0, 10_000.0, 1)], "v100:1");
    assert_eq!(run(&alone, "isolated", &options(60.0)).0.completions, run(&alone, "isolated", &options(0.0)).0.completions);
    let shared = bind(&[(0.0, 10_000.0, 1); 3], "v100:1");
    let (free, dear) = (run(&shared, "isolated", &options(0.0)).0, run(&shared, "isolated", &options(60.0)).0);
    assert!(dear.makespan_seconds > free.makespan_seconds + 60.0);
}

#[test]
fn shares_without_rounds_end_jobs_at_arrivals() {
    let jobs = (0..30).map(|index| (f64::from(index) * 1000.0, 8000.0, 1)).collect::<Vec<_>>();
    let bound = bind(&jobs, "v100:2");
    let options = GavelOptions { ideal: true, reset_seconds: 0.0, ..GavelOptions::default() };
    let (tally, _) = run(&bound, "max-min-perf", &options);
    assert!(tally.completions.iter().all(Option::is_some));
    assert!(is_near(tally.completions[0].unwrap(), 1000.0), "{:?}", tally.completions[0]);
}

#[test]
fn gpus_that_fill_no_server_are_left_out() {
    let bound = bind(&[(0.0, 3000.0, 1); 4], "v100:3,p100:2");
    let options = GavelOptions { gpus_per_server: 2, ..GavelOptions::default() };
    assert!(is_near(run(&bound, "fifo-perf", &options).0.makespan_seconds, 300.0));
    let options = GavelOptions { gpus_per_server: 4, ..GavelOptions::default() };
    let refused = simulate(&bound, &table(), "fifo", &options, &mut |_| {}).unwrap_err();
    assert_eq!(refused, GavelError::NoServers(4));
}

#[test]
fn what_gavel_cannot_run_is_refused_in_words() {
    let refused = |bound: &Bound, policy: &str, options: &GavelOptions| {
        simulate(bound, &table(), policy, options, &mut |_| {}).unwrap_err().to_string()
    };
    let plain = GavelOptions::default();
    let gang = bind(&[(0.0, 100.0, 2)], "2:0:0");
    for (policy, words) in [
        ("srsf", "is not one that Gavel has"),
        ("allox", "jobs of one GPU; job 0 wants more"),
        ("max-throughput-cost-perf", "needs a price of v100"),
    ] {
        let message = refused(&gang, policy, &plain);
        assert!(message.contains(words), "{message}");
    }
    let slow = bind(&[(0.0, 100.0, 1)], "0:2:0");
    assert!(refused(&slow, "ftf", &plain).contains("GPUs of type v100"));
    let wrong = GavelOptions { round_seconds: 0.0, ..GavelOptions::default() };
    assert!(refused(&gang, "fifo", &wrong).contains("round_seconds: 0 must be above 0"));
    let mut sharing = bind(&[(0.0, 100.0, 1)], "2:0:0");
    sharing.shapes[0].share = rota_core::MilliGpu(500);
    assert!(refused(&sharing, "fifo", &plain).contains("has a share of a GPU"));
    let mut bound = bind(&[(0.0, 100.0, 1)], "2:0:0");
    bound.jobs[0].deadline = None;
    let priced = GavelOptions { prices: Some(Prices::gcp()), ..GavelOptions::default() };
    assert!(refused(&bound, "max-throughput-cost-slo-perf", &priced).contains("a deadline of every job; job 0 has none"));
}

/// Follows the events and checks that they can have happened, in this order, on this cluster.
fn check_events(bound: &Bound, events: &[Event], packs: bool, note: &str) -> BTreeMap<JobId, Time> {
    let mut on: BTreeMap<JobId, Vec<GpuId>> = BTreeMap::new();
    let (mut submitted, mut ended) = (BTreeSet::new(), BTreeMap::new());
    let mut last = Time::ZERO;
    for event in events {
        assert!(event.time_ns >= last, "{note}: {event:?} after {last:?}");
        last = event.time_ns;
        match &event.kind {
            EventKind::Submitted { job } => {
                assert_eq!(event.time_ns, bound.job(*job).arrival, "{note}");
                assert!(submitted.insert(*job), "{note}");
            }
            EventKind::Started { job, gpus, .. } => {
                assert!(submitted.contains(job) && !ended.contains_key(job), "{note}: {event:?}");
                assert_eq!(gpus.len(), bound.job(*job).gpus as usize, "{note}: {event:?}");
                for gpu in gpus {
                    let holders = on.values().filter(|held| held.contains(gpu)).count();
                    assert!(holders <= usize::from(packs), "{note}: {event:?}");
                }
                assert!(on.insert(*job, gpus.to_vec()).is_none(), "{note}: {event:?}");
            }
            EventKind::Ended { job, end: End::Preempted, .. } => assert!(on.remove(job).is_some(), "{note}: {event:?}"),
            EventKind::Ended { job, end: End::Finished, .. }
            | EventKind::Ended { job, end: End::Crashed | End::Dependency | End::NeverFits, .. } => {
                assert!(on.remove(job).is_some(), "{note}: {event:?}");
                ended.insert(*job, event.time_ns);
            }
            other => panic!("{note}: {other:?}"),
        }
    }
    ended
}

#[test]
fn events_of_every_policy_can_have_happened() {
    let gangs = [1, 2, 1, 4, 1, 1, 8, 1, 2, 1];
    for policy in POLICY_NAMES {
        let jobs = (0..60_u32).map(|index| {
            let gpus = if policy == "allox" { 1 } else { gangs[index as usize % gangs.len()] };
            (f64::from(index / 4 * 700), 2000.0 + f64::from(index * 137 % 97 * 211), gpus)
        });
        let bound = bind(&jobs.collect::<Vec<_>>(), "8:8:8");
        let options = GavelOptions { prices: Some(Prices::gcp()), seed: 3, ..GavelOptions::default() };
        let (tally, events) = run(&bound, policy, &options);
        let packs = policy.ends_with("packed") || policy == "gandiva";
        let ended = check_events(&bound, &events, packs, policy);
        assert_eq!(ended.len(), bound.jobs.len(), "{policy}");
        for (job, end) in tally.completions.iter().enumerate() {
            let told = ended[&JobId::from_index(job)].seconds();
            assert!(end.is_none_or(|end| (end - told).abs() < 1e-8), "{policy}: job {job}");
        }
        assert_eq!((tally.events, tally.end), (events.len() as u64, events.last().unwrap().time_ns), "{policy}");
    }
}

#[test]
fn types_that_gavel_does_not_know_come_after_those_it_does() {
    let mut table = ThroughputTable::new("test");
    for gpu_type in ["v100", "h100", "a100"] {
        table.insert("net", 1, gpu_type, 10.0);
    }
    let mut workload = Workload::default();
    let kind = workload.names.intern("net");
    let mut job = Job::new(Time::ZERO, Span::ZERO);
    (job.kind, job.steps) = (kind, 100.0);
    workload.jobs.push(job);
    let cluster = Cluster::from_spec("a100:1,h100:1,v100:1", 1).unwrap();
    let bound = Bound::new(workload, cluster, &table, BadJobs::Refuse).unwrap();
    let mut started = None;
    simulate(&bound, &table, "max-min-perf", &GavelOptions::default(), &mut |event| {
        if let EventKind::Started { gpus, .. } = &event.kind {
            started = Some(gpus[0]);
        }
    })
    .unwrap();
    assert_eq!(bound.cluster.type_of(started.unwrap()).name, "v100");
}
