//! Policies that learn durations: they learn what happened and nothing else.

use crate::scene::{gang, job, on_cluster, run, seconds};
use proptest::prelude::*;
use rota_core::bind::BadJobs;
use rota_core::{Bound, Cluster, Event, Job, Span, ThroughputTable, Time, Workload};
use std::sync::Arc;

/// Those that order jobs by what they learned.
const ORDERING: &[&str] = &[
    "lag-history:tick=20",
    "gittins:classes=on",
    "sjf:estimates=history",
    "sjf:estimates=history,backfill=conservative",
    "sjf:estimates=history,backfill=greedy",
    "srsf:estimates=history",
];
/// Those that only reserve by it.
const RESERVING: &[&str] =
    &["fcfs:backfill=easy,estimates=history", "priority:backfill=conservative,estimates=history", "lottery:estimates=history"];

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
        for policy in ORDERING.iter().chain(RESERVING) {
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
    for policy in ORDERING {
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
    for policy in ["lag-history", "gittins:classes=on", "srsf:estimates=history"] {
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

#[test]
fn jobs_pass_a_reservation_by_what_earlier_jobs_taught() {
    // Users say that every job takes ten hours. Those of ada take 50 s, those of bea 5,000 s, those of cyd 20,000 s. While a job of bea has
    // one of two GPUs, a gang waits for both. By the users' word no other job may pass the gang; by what is learned that of ada may.
    let mut workload = Workload::new("a gap");
    let [ada, bea, cyd] = ["ada", "bea", "cyd"].map(|name| workload.names.intern(name));
    let said = |user, plain: Job| Job { user, estimate: Some(seconds(36_000.0)), ..plain };
    for round in 0..20 {
        let at = f64::from(round) * 30_000.0;
        workload.push(said(bea, job(at, 5000.0)));
        workload.push(said(ada, job(at, 50.0)));
        workload.push(said(cyd, job(at + 6000.0, 20_000.0)));
    }
    workload.push(said(bea, job(700_000.0, 5000.0)));
    workload.push(said(bea, gang(2, 700_100.0, 5000.0)));
    workload.push(said(cyd, job(700_200.0, 20_000.0)));
    workload.push(said(ada, job(700_300.0, 50.0)));
    workload.finish();
    let cluster = Cluster::from_spec("gpu:2", 2).unwrap();
    let bound = Arc::new(Bound::new(workload, cluster, &ThroughputTable::default(), BadJobs::Refuse).unwrap());
    for policy in ["fcfs:backfill=easy", "priority", "least-loaded", "fcfs:backfill=conservative"] {
        let starts = run(&bound, policy).first_start;
        assert!(starts[63] > starts[61], "{policy}: {:?}", &starts[60..]);
        let separator = if policy.contains(':') { ',' } else { ':' };
        let starts = run(&bound, &format!("{policy}{separator}estimates=history")).first_start;
        assert_eq!(starts[63], Some(700_300.0), "{policy} by history: {:?}", &starts[60..]);
        assert!(starts[62] > starts[61], "{policy} by history: {:?}", &starts[60..]);
    }
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

/// The ranks that `gittins` gives to jobs when they come, in a run that another policy decides; in a forecast from the first decision on,
/// or not.
fn first_ranks(is_forecast: bool) -> Vec<u64> {
    let jobs = (0..200).map(|number| Job::new(Time::from_seconds(f64::from(number) * 90.0).unwrap(), seconds(100.0)));
    let mut workload = Workload::new("a row");
    jobs.for_each(|job| workload.push(job));
    workload.finish();
    let cluster = Cluster::from_spec("gpu:2", 2).unwrap();
    let bound = Arc::new(Bound::new(workload, cluster, &ThroughputTable::default(), BadJobs::Refuse).unwrap());
    let mut session = rota_sim::session(&bound, rota_policy::build("fcfs").unwrap(), &rota_sim::SimOptions::default());
    let mut watched = rota_policy::build("gittins").unwrap().policy;
    if is_forecast {
        watched.begin_forecast();
    }
    let mut context = rota_policy::Context { stream: rota_core::random::RandomStream::new(0, "policy"), problems: Vec::new() };
    let mut ranks = Vec::new();
    while session.advance(&mut |_| {}).is_some() {
        if let Some(snapshot) = session.snapshot() {
            let is_new = |job: rota_core::JobId| snapshot.states[job.index()].starts == 0;
            if let rota_core::Wish::Order { ranks: given, .. } = watched.decide(&snapshot, &mut context).wish {
                ranks.extend(given.iter().filter(|(job, _)| is_new(*job)).map(|(_, rank)| rank.to_bits()));
            }
        }
        let target = session.ask();
        session.hand_in(&target, &mut |_| {});
    }
    ranks.dedup();
    ranks
}

#[test]
fn what_happens_in_a_forecast_teaches_gittins_nothing() {
    assert_eq!(first_ranks(true).len(), 1);
    assert!(first_ranks(false).len() > 3);
}
