//! Policies that learn durations: they learn what happened and nothing else.

use crate::scene::{gang, job, on_cluster, run, seconds};
use proptest::prelude::*;
use rota_core::bind::BadJobs;
use rota_core::{Bound, Cluster, Event, Job, Span, ThroughputTable, Time, Workload};
use std::sync::Arc;

const LEARNING: &[&str] = &[
    "lag-history:tick=20",
    "gittins:classes=on",
    "sjf:estimates=history",
    "sjf:estimates=history,backfill=conservative",
    "sjf:estimates=history,backfill=greedy",
];

/// One drawn job: its user, when it arrives, how long it runs, how wide it is, and how much longer it runs in the other world.
type Drawn = (usize, u32, u32, u32, u32);

fn scene_of(drawn: &[Drawn], work: impl Fn(&Drawn, usize) -> Span) -> Arc<Bound> {
    let mut workload = Workload::new("drawn");
    let users = ["ada", "bea", "cyd"].map(|name| workload.names.intern(name));
    for (position, row) in drawn.iter().enumerate() {
        let &(user, arrival, _, gpus, _) = row;
        let estimate = (position % 3 == 0).then(|| seconds(600.0));
        let plain = Job::new(Time::from_seconds(f64::from(arrival)).unwrap(), work(row, position));
        workload.push(Job { user: users[user], gpus, estimate, ..plain });
    }
    let cluster = Cluster::from_spec("fast:4,slow:2", 4).unwrap();
    Arc::new(Bound::new(workload, cluster, &ThroughputTable::default(), BadJobs::Refuse).unwrap())
}

fn before(events: &[Event], moment: f64) -> Vec<&Event> {
    events.iter().filter(|event| event.time_ns.seconds() < moment).collect()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    /// The durations of jobs that are not over at a moment are changed, and nothing that was decided before that moment changes.
    #[test]
    fn nobody_looks_ahead(
        mut drawn in prop::collection::vec((0_usize..3, 0_u32..900, 1_u32..400, 1_u32..4, 1_u32..5000), 2..40),
        moment in 1_u32..1500,
    ) {
        drawn.sort_by_key(|row| row.1);
        let moment = f64::from(moment);
        let plain = scene_of(&drawn, |row, _| seconds(f64::from(row.2)));
        for policy in LEARNING {
            let as_it_was = run(&plain, policy);
            let is_over = |position: usize| as_it_was.finish[position].is_some_and(|end| end < moment);
            let has_started = |position: usize| as_it_was.first_start[position].is_some_and(|start| start < moment);
            let other = scene_of(&drawn, |row, position| {
                let (length, more) = (f64::from(row.2), f64::from(row.4));
                // A job that runs may turn out longer; one that has not begun may turn out anything.
                seconds(if is_over(position) { length } else if has_started(position) { length + more } else { more })
            });
            let otherwise = run(&other, policy);
            prop_assert_eq!(before(&as_it_was.events, moment), before(&otherwise.events, moment), "{} looks ahead", policy);
        }
    }
}

#[test]
fn a_user_of_short_jobs_goes_first_once_that_is_known() {
    // Twelve jobs of each user teach; then one of each arrives while the only GPU is busy, the long one first.
    let mut workload = Workload::new("two users");
    let (quick, slow) = (workload.names.intern("quick"), workload.names.intern("slow"));
    for round in 0..12 {
        workload.push(Job { user: slow, ..job(f64::from(round) * 10_000.0, 5000.0) });
        workload.push(Job { user: quick, ..job(f64::from(round) * 10_000.0, 20.0) });
    }
    workload.push(job(200_000.0, 100.0));
    workload.push(Job { user: slow, ..job(200_001.0, 5000.0) });
    workload.push(Job { user: quick, ..job(200_002.0, 20.0) });
    let bound = Arc::new(
        Bound::new(workload, Cluster::from_spec("gpu:1", 1).unwrap(), &ThroughputTable::default(), BadJobs::Refuse).unwrap(),
    );
    for policy in LEARNING {
        let outcome = run(&bound, policy);
        assert!(outcome.finish[26] < outcome.finish[25], "{policy}: {:?}", &outcome.finish[24..]);
    }
}

#[test]
fn a_job_that_outlives_its_kind_is_not_nearly_done_for_ever() {
    // Thirty jobs of 100 s taught what a job is; one runs on for hours. A new job does not wait for it until the end.
    let mut jobs = (0..30).map(|number| job(f64::from(number) * 200.0, 100.0)).collect::<Vec<_>>();
    jobs.push(job(7000.0, 90_000.0));
    jobs.push(job(10_000.0, 100.0));
    let bound = on_cluster(Cluster::from_spec("gpu:1", 1).unwrap(), jobs);
    for policy in ["lag-history", "gittins:classes=on"] {
        let outcome = run(&bound, policy);
        assert!(outcome.finish[31].unwrap() < 11_500.0, "{policy}: {:?}", outcome.finish[31]);
    }
}

#[test]
fn a_wide_job_is_not_passed_by_jobs_that_may_outlast_its_reservation() {
    // Single jobs take 1,000 s and gangs 10 s, by all that is known. The gang that comes last waits for both GPUs until about 201,100; the
    // single job that arrives just before one of them falls free must not take it.
    let teach = |number: u32| {
        let at = f64::from(number) * 5000.0;
        [job(at, 1000.0), gang(2, at + 2000.0, 10.0)]
    };
    let mut jobs = (0..20).flat_map(teach).collect::<Vec<_>>();
    jobs.extend([job(200_000.0, 1000.0), job(200_100.0, 1000.0), gang(2, 200_200.0, 10.0), job(200_900.0, 1000.0)]);
    let bound = on_cluster(Cluster::from_spec("gpu:2", 2).unwrap(), jobs);
    let outcome = run(&bound, "sjf:estimates=history");
    assert!(outcome.first_start[42] < outcome.first_start[43], "{:?}", &outcome.first_start[40..]);
}

/// When six jobs of 20,000 s ended that came together on one GPU, after twenty such jobs: those of one user, or of nobody known.
fn ends_of_six_alike(user: &str) -> Vec<f64> {
    let mut workload = Workload::new("six alike");
    let user = workload.names.intern(user);
    let arrivals = (0..20).map(|number| f64::from(number) * 30_000.0).chain([600_000.0; 6]);
    arrivals.for_each(|at| workload.push(Job { user, ..job(at, 20_000.0) }));
    workload.finish();
    let cluster = Cluster::from_spec("gpu:1", 1).unwrap();
    let bound = Arc::new(Bound::new(workload, cluster, &ThroughputTable::default(), BadJobs::Refuse).unwrap());
    let mut ends = run(&bound, "lag-history").finish[20..].iter().map(|end| end.unwrap() - 600_000.0).collect::<Vec<_>>();
    ends.sort_by(f64::total_cmp);
    ends
}

#[test]
fn jobs_alike_take_fewer_turns_where_they_are_of_one_user() {
    let (of_one, of_anybody) = (ends_of_six_alike("ada"), ends_of_six_alike(""));
    assert!(of_one[0] < 50_000.0 && of_anybody[0] > 90_000.0, "{of_one:?} {of_anybody:?}");
    assert!(of_one.iter().sum::<f64>() < 0.8 * of_anybody.iter().sum::<f64>(), "{of_one:?} {of_anybody:?}");
}
