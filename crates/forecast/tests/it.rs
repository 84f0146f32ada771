//! Forecasts of small queues, whose starts can be found by hand.

#![allow(clippy::unwrap_used, reason = "a test")]

use rota_core::bind::BadJobs;
use rota_core::event::EventKind;
use rota_core::{
    Bound, Cluster, DependencyCondition, Event, Job, JobId, MilliGpu, NewJob, Span, ThroughputTable, Time, Workload,
};
use rota_engine::Session;
use rota_forecast::score::replay;
use rota_forecast::{
    Change, ChangeOptions, ForecastOptions, Fork, Holds, LengthBelief, RecentArrivals, RunLength, Score, ScoreOptions, Subject,
};
use rota_sim::{SimOptions, SimulatedWorld};
use std::sync::Arc;

const SECOND: u64 = 1_000_000_000;

fn seconds(seconds: u64) -> Span {
    Span::from_whole_seconds(seconds)
}

/// A queue of jobs that all arrived at 0, on some GPUs, after its first decision. Each job: its GPUs, and its estimate if it has one.
fn queue(jobs: &[(u32, Option<f64>)], gpus: &str, policy: &str) -> Fork {
    queue_at(Time::ZERO, jobs, gpus, policy)
}

/// The same for jobs that arrived at another moment.
fn queue_at(now: Time, jobs: &[(u32, Option<f64>)], gpus: &str, policy: &str) -> Fork {
    let job = |&(gpus, estimate): &(u32, Option<f64>)| {
        let estimate = estimate.and_then(Span::from_seconds);
        Job { gpus, estimate, ..Job::new(now, seconds(1_000_000)) }
    };
    queue_of(now, jobs.iter().map(job).collect(), gpus, policy)
}

/// The same of any jobs.
fn queue_of(now: Time, jobs: Vec<Job>, gpus: &str, policy: &str) -> Fork {
    let mut workload = Workload::new("queue");
    workload.names.intern("ada");
    let length = |job: &Job| RunLength {
        belief: job.estimate.map_or(LengthBelief::Unknown, |estimate| LengthBelief::Estimated(estimate.seconds())),
        limit_seconds: None,
    };
    let (lengths, numbers) = (jobs.iter().map(length).collect(), (0..jobs.len() as u64).map(|number| 100 + number).collect());
    workload.jobs = jobs;
    workload.finish();
    let bound = Bound::new(workload, Cluster::from_spec(gpus, 8).unwrap(), &ThroughputTable::default(), BadJobs::Refuse).unwrap();
    let options = SimOptions::default();
    let mut session: Session<SimulatedWorld> = rota_sim::session(&Arc::new(bound), rota_policy::build(policy).unwrap(), &options);
    session.advance(&mut |_| {}).unwrap();
    let target = session.ask();
    session.hand_in(&target, &mut |_| {});
    Fork {
        pending: session.pending(),
        engine: session.engine.clone(),
        now,
        numbers,
        lengths,
        stop_time: Span::ZERO,
        holds: Holds::default(),
        recent: None,
    }
}

/// A job that its user says takes so long.
fn estimated(gpus: u32, estimate: u64) -> Job {
    Job { gpus, estimate: Some(seconds(estimate)), ..Job::new(Time::ZERO, seconds(1_000_000)) }
}

fn options() -> ChangeOptions<'static> {
    ChangeOptions {
        gpu_types: vec!["gpu".into()],
        share_by_memory: Some(MilliGpu(250)),
        decisions_max: 1000,
        own_decisions_max: 1000,
        wants_types: false,
        has_time: &|| true,
    }
}

fn middle(fork: &Fork) -> Vec<Option<f64>> {
    let starts = fork.starts(&ForecastOptions { draws: 200, ..ForecastOptions::default() });
    starts.iter().map(|forecast| forecast.start_p50.map(Time::seconds)).collect()
}

#[test]
fn a_job_that_is_cancelled_and_stopping_does_not_run_again() {
    let mut fork = queue(&[(1, Some(5000.0)), (1, Some(60.0))], "gpu:1", "fcfs");
    let stopping = EventKind::Stopping { job: JobId(0), cause: rota_core::StopCause::Cancel, note: () };
    fork.engine.record(&Event::at(fork.now, stopping));
    fork.holds.stopped_for_good = vec![(JobId(0), rota_core::End::Cancelled)];
    assert_eq!(middle(&fork), [Some(0.0)]);
}

#[test]
fn jobs_that_are_held_by_a_quota_or_for_a_time_start_when_these_let_them_go() {
    // The first name of every workload of these tests.
    let user = Workload::new("queue").names.intern("ada");
    let ada = |gpus, estimate| Job { user, ..estimated(gpus, estimate) };
    let mut fork =
        queue_of(Time::ZERO, vec![ada(1, 100), ada(1, 50), ada(1, 10), estimated(4, 60)], "gpu:4", "fcfs:backfill=none");
    assert_eq!(fork.engine.state.bound.names.text(user), "ada");
    let numbers = |fork: &Fork| fork.starts(&ForecastOptions::default()).iter().map(|job| job.number).collect::<Vec<_>>();
    // The second and the third job are held: they had not started when their user's quota was met.
    for job in [1, 2] {
        fork.engine.record(&Event::at(fork.now, EventKind::ended(JobId(job), rota_core::End::Evicted)));
    }
    fork.engine.record(&Event::at(fork.now, EventKind::Held { job: JobId(1), hold: rota_core::Hold::Quota, note: () }));
    fork.engine.record(&Event::at(fork.now, EventKind::Held { job: JobId(2), hold: rota_core::Hold::Delay, note: () }));
    assert_eq!(numbers(&fork), [101, 102, 103]);
    assert_eq!(fork.starts(&ForecastOptions::default())[0].start_p50, None, "nothing is known of holds");
    fork.holds = Holds {
        limits: rota_sim::QuotaLimits::of_all(Some(1)),
        by_quota: vec![JobId(1)],
        until: vec![(Time::ZERO + seconds(30), JobId(2))],
        ..Holds::default()
    };
    let starts = middle(&fork);
    // The delay ends after half a minute, and the job's lengths are drawn around 10 s; the quota lets the other go when both have ended.
    assert_eq!(starts[1], Some(30.0), "{starts:?}");
    assert!(starts[0].is_some_and(|start| start > 30.0), "{starts:?}");
    assert!(starts[2].is_some_and(|start| start >= starts[0].unwrap_or_default()), "the gang needs all GPUs: {starts:?}");
}

#[test]
fn a_job_that_shares_a_gpu_depends_on_the_one_that_leaves() {
    let shared = |memory_mib, estimate| Job { share: MilliGpu(250), memory_mib, ..estimated(1, estimate) };
    let fork = queue_of(Time::ZERO, vec![shared(19_000, 60), shared(19_000, 600_000), shared(19_000, 60)], "a100:1", "fcfs");
    let starts = fork.starts(&ForecastOptions::default());
    assert_eq!((starts[0].number, &*starts[0].depends_on), (102, &[100][..]), "{starts:?}");
}

#[test]
fn a_start_that_is_too_far_ahead_is_told_from_one_that_is_never_possible() {
    let year = 365 * 86_400;
    let far = queue_of(Time::ZERO, vec![estimated(1, year), estimated(1, year), estimated(1, 60)], "gpu:1", "fcfs");
    let starts = far.starts(&ForecastOptions::default());
    assert!(starts[1].start_p50.is_none() && starts[1].is_far, "{starts:?}");
    let unknown = queue(&[(1, None), (1, Some(60.0))], "gpu:1", "fcfs");
    assert!(!unknown.starts(&ForecastOptions::default())[0].is_far);
}

#[test]
fn a_job_that_is_stopped_for_another_is_among_the_delays() {
    let with = |priority, estimate| Job { priority, preemptible: true, ..estimated(1, estimate) };
    let fork = queue_of(Time::ZERO, vec![with(1, 1000), with(0, 60)], "gpu:1", "priority:preempt=true,age=0");
    let changes = fork.changes(&Subject::Waiting(JobId(1)), &options());
    let found = changes.counterfactuals.iter().find(|found| matches!(found.change, Change::Priority(_))).unwrap();
    assert_eq!((&found.change, found.start), (&Change::Priority(2), Time::ZERO), "no other job waits: {changes:?}");
    assert_eq!(found.delays, [(100, seconds(60))], "{changes:?}");
}

#[test]
fn a_wide_gang_is_told_the_size_that_would_start() {
    let fork = queue(&[(192, Some(500.0)), (256, Some(500.0))], "gpu:256", "fcfs");
    let changes = fork.changes(&Subject::Waiting(JobId(1)), &options());
    assert_eq!(changes.counterfactuals[0].change, Change::Gpus(64), "{changes:?}");
}

#[test]
fn only_what_a_user_could_ask_for_is_proposed() {
    let fork = queue(&[(1, Some(500.0)), (2, Some(500.0))], "a100:2,t4:2", "fcfs");
    let request = |gpu_types: &[&str], gpus| NewJob {
        job: estimated(gpus, 60),
        user: "ada".into(),
        project: "".into(),
        job_type: "".into(),
        gpu_types: gpu_types.iter().map(|name| Box::from(*name)).collect(),
    };
    let subject = Subject::Waiting(JobId(1));
    let proposed = |request: &NewJob, options: &ChangeOptions<'_>| {
        rota_forecast::changes::kinds(&fork.engine.state, &subject, request, options).concat()
    };
    let both = ChangeOptions { gpu_types: vec!["a100".into(), "t4".into()], ..options() };
    assert!(proposed(&request(&[], 2), &both).contains(&Change::AnyType));
    assert!(!proposed(&request(&["a100"], 2), &both).contains(&Change::AnyType), "`--any-type` leaves the type that was named");
    let memory = |options: &ChangeOptions<'_>| {
        proposed(&request(&[], 1), options).iter().any(|change| matches!(change, Change::MemoryMib(_)))
    };
    let shared = Job { share: MilliGpu(250), memory_mib: 1000, ..estimated(1, 500) };
    let shared = queue_of(Time::ZERO, vec![shared], "a100:2,t4:2", "fcfs");
    let fork_of_shared = |options: &ChangeOptions<'_>| {
        let kinds = rota_forecast::changes::kinds(&shared.engine.state, &subject, &request(&[], 1), options).concat();
        kinds.iter().any(|change| matches!(change, Change::MemoryMib(_)))
    };
    assert!(!memory(&both) && fork_of_shared(&both));
    assert!(!fork_of_shared(&ChangeOptions { share_by_memory: None, ..both }), "whole GPUs were asked for");
}

#[test]
fn nothing_is_known_of_failures_to_come() {
    let drawn = |fails_at: Option<Span>| {
        let mut workload = Workload::new("a log");
        for number in 0..60 {
            let fails_at = fails_at.filter(|_| number >= 40);
            workload.push(Job { fails_at, ..Job::new(Time(number * 400 * SECOND), seconds(1000)) });
        }
        workload.finish();
        let table = Arc::new(ThroughputTable::default());
        let bound = Bound::new(workload, Cluster::from_spec("gpu:1", 1).unwrap(), &table, BadJobs::Refuse).unwrap();
        let options = ScoreOptions {
            every: 1,
            again: None,
            forecast: ForecastOptions { draws: 20, ..ForecastOptions::default() },
            engine: SimOptions::default().engine(),
            stop_time: Span::ZERO,
            arrivals: false,
        };
        let outcomes = replay(&bound, &table, rota_policy::build("fcfs").unwrap(), &options, &mut |_| {});
        // The first forty jobs take 40,000 s; no job that fails has ended before, and none of them runs at this forecast.
        let told = outcomes.iter().filter(|told| told.made_at < Time(40_000 * SECOND)).map(|told| (told.number, told.said));
        let mut told = told.collect::<Vec<_>>();
        told.sort_unstable();
        told
    };
    assert_eq!(drawn(None), drawn(Some(seconds(3))));
    assert!(drawn(None).len() > 40);
}

#[test]
fn jobs_start_one_after_the_other_and_not_all_at_once() {
    let fork = queue(&[(1, Some(100.0)), (1, Some(200.0)), (1, Some(50.0)), (1, Some(50.0))], "gpu:1", "fcfs");
    let starts = fork.starts(&ForecastOptions { draws: 400, ..ForecastOptions::default() });
    let median = |place: usize| starts[place].start_p50.unwrap().0 as f64 / SECOND as f64;
    assert_eq!(starts.iter().map(|job| (job.number, job.position)).collect::<Vec<_>>(), [(101, 1), (102, 2), (103, 3)]);
    for (place, expected) in [(0, 100.0), (1, 310.0), (2, 365.0)] {
        assert!((median(place) - expected).abs() < 0.15 * expected, "job {place}: {} s, about {expected} s", median(place));
    }
    for job in &starts {
        assert!(job.start_p10 < job.start_p50 && job.start_p50 < job.start_p90, "{job:?}");
        assert!(job.start_p50 < job.end_p50 && job.end_p10 < job.end_p50 && job.end_p50 < job.end_p90, "{job:?}");
    }
    assert_eq!(starts[0].depends_on, [100]);
    assert_eq!(starts[2].depends_on, [102]);
}

#[test]
fn a_gang_depends_on_the_job_that_leaves_its_gpus_last() {
    let starts =
        queue(&[(1, Some(3000.0)), (1, Some(10.0)), (2, Some(60.0))], "gpu:2", "fcfs").starts(&ForecastOptions::default());
    assert_eq!((starts[0].number, &*starts[0].depends_on), (102, &[100][..]));
}

#[test]
fn a_queue_that_is_years_old_is_still_told_what_would_start_a_job_sooner() {
    let now = Time::ZERO + seconds(3 * 365 * 86_400);
    let fork = queue_at(now, &[(3, Some(100.0)), (4, Some(50.0))], "gpu:4", "fcfs");
    let options = options();
    let changes = fork.changes(&Subject::Waiting(JobId(1)), &options);
    assert!(changes.start.is_some_and(|start| start > now) && changes.end > changes.start, "{changes:?}");
    assert!(changes.counterfactuals.iter().any(|found| found.change == Change::Gpus(1) && found.start == now), "{changes:?}");
}

#[test]
fn a_job_that_is_not_submitted_starts_after_the_jobs_that_it_waits_for() {
    let fork = queue(&[(1, Some(1000.0))], "gpu:2", "fcfs");
    let options = options();
    let start = |after: Vec<(u64, DependencyCondition)>| {
        let request = NewJob {
            job: Job { gpus: 1, ..Job::new(Time::ZERO, seconds(1)) },
            user: "ada".into(),
            project: "".into(),
            job_type: "".into(),
            gpu_types: Vec::new(),
        };
        let length = RunLength { belief: LengthBelief::Estimated(60.0), limit_seconds: None };
        fork.changes(&Subject::New { request: Box::new(request), after, length }, &options).start
    };
    assert_eq!(start(Vec::new()), Some(Time::ZERO));
    assert_eq!(start(vec![(100, DependencyCondition::Ok)]), Some(Time::ZERO + seconds(1000)));
}

#[test]
fn the_policy_in_force_decides_who_is_next() {
    let jobs = [(1, Some(5.0)), (1, Some(5000.0)), (1, Some(10.0))];
    let order = |policy| {
        let mut starts = queue(&jobs, "gpu:1", policy).starts(&ForecastOptions::default());
        starts.sort_by_key(|job| job.position);
        starts.iter().map(|job| job.number).collect::<Vec<_>>()
    };
    assert_eq!(order("fcfs"), [101, 102]);
    assert_eq!(order("sjf"), [102, 101]);
}

#[test]
fn what_happens_in_a_forecast_teaches_the_policy_nothing() {
    // Long and short jobs in turn. A policy that learned from them would soon let the short ones pass; nothing is known of either yet.
    let jobs = (0..120).map(|number| (1, Some(if number % 2 == 0 { 5000.0 } else { 10.0 }))).collect::<Vec<_>>();
    let starts = queue(&jobs, "gpu:1", "sjf:estimates=history").starts(&ForecastOptions::default());
    assert_eq!(starts.len(), 119);
    assert!(starts.iter().all(|job| u64::from(job.position) == job.number - 100), "{starts:?}");
}

#[test]
fn a_start_that_depends_on_a_job_of_unknown_length_is_unknown_and_says_on_which() {
    let fork = queue(&[(1, None), (1, Some(60.0)), (2, Some(60.0)), (1, Some(60.0))], "gpu:2", "fcfs:backfill=greedy");
    let starts = fork.starts(&ForecastOptions::default());
    // The second job runs beside the unknown one; the gang needs both GPUs; the last one takes the GPU of the second.
    assert_eq!((starts[0].number, starts[0].start_p50, &*starts[0].depends_on), (102, None, &[100][..]));
    // It would start sooner if the unknown one ended before: only when it starts at the latest is known.
    assert_eq!((starts[1].number, starts[1].start_p50, &*starts[1].depends_on), (103, None, &[100][..]));
    assert!(starts[1].start_p90.is_some_and(|latest| latest.0 / SECOND < 150), "{:?}", starts[1]);
    assert_eq!(starts.iter().map(|job| job.position).collect::<Vec<_>>(), [2, 1]);
}

#[test]
fn a_forecast_changes_nothing_and_says_the_same_twice() {
    let fork = queue(&[(1, Some(100.0)), (1, Some(200.0)), (1, Some(50.0))], "gpu:1", "las");
    let options = ForecastOptions { draws: 20, ..ForecastOptions::default() };
    assert_eq!(fork.starts(&options), fork.starts(&options));
    assert_ne!(fork.starts(&options), fork.starts(&ForecastOptions { seed: 1, ..options }));
}

#[test]
fn without_time_there_are_fewer_draws_and_not_none() {
    let fork = queue(&[(1, Some(100.0)), (1, Some(200.0)), (1, Some(50.0))], "gpu:1", "las");
    let few = fork.starts_while(&ForecastOptions::default(), &|| false, &|| true).unwrap();
    assert_eq!(few, fork.starts(&ForecastOptions { draws: 20, ..ForecastOptions::default() }));
    assert_ne!(few, fork.starts(&ForecastOptions::default()));
}

#[test]
fn a_forecast_that_is_not_wanted_any_more_ends_in_the_middle_of_a_draw() {
    let jobs = vec![(1, Some(100.0)); 500];
    let fork = queue(&jobs, "gpu:1", "fcfs");
    let asked = std::cell::Cell::new(0);
    let is_wanted = || {
        asked.set(asked.get() + 1);
        asked.get() < 3
    };
    assert_eq!(fork.starts_while(&ForecastOptions::default(), &|| true, &is_wanted), None);
    // One draw of 500 starts asks more often than this.
    assert_eq!(asked.get(), 4, "the draw went on");
    let one = ForecastOptions { draws: 1, ..ForecastOptions::default() };
    assert_eq!(fork.starts_while(&one, &|| true, &|| true), Some(fork.starts(&one)));
}

#[test]
fn a_drained_queue_starts_nothing() {
    let mut fork = queue(&[(1, Some(100.0)), (1, Some(10.0))], "gpu:1", "fcfs");
    fork.engine.record(&Event::at(Time::ZERO, EventKind::Drained { gpu: None, note: () }));
    assert_eq!(fork.starts(&ForecastOptions::default())[0].start_p50, None);
}

#[test]
fn a_shared_gpu_is_shared_in_the_forecast() {
    // Four jobs of a quarter of the GPU each run together, and the fifth waits for the first end among them.
    let mut workload = Workload::new("shared");
    for _ in 0..5 {
        let share = rota_core::MilliGpu(250);
        workload.push(Job { share, memory_mib: 1000, ..Job::new(Time::ZERO, seconds(1_000_000)) });
    }
    workload.finish();
    let bound =
        Bound::new(workload, Cluster::from_spec("a100:1", 1).unwrap(), &ThroughputTable::default(), BadJobs::Refuse).unwrap();
    let mut session = rota_sim::session(&Arc::new(bound), rota_policy::build("fcfs").unwrap(), &SimOptions::default());
    session.advance(&mut |_| {}).unwrap();
    let target = session.ask();
    session.hand_in(&target, &mut |_| {});
    let fork = Fork {
        pending: session.pending(),
        engine: session.engine.clone(),
        now: Time::ZERO,
        numbers: (1..6).collect(),
        lengths: vec![RunLength { belief: LengthBelief::Estimated(100.0), limit_seconds: None }; 5],
        stop_time: Span::ZERO,
        holds: Holds::default(),
        recent: None,
    };
    let starts = fork.starts(&ForecastOptions { draws: 200, ..ForecastOptions::default() });
    assert_eq!(starts.len(), 1);
    // The first of four ends is well before the middle of one.
    assert!(starts[0].start_p50.unwrap().0 / SECOND < 80, "{:?}", starts[0]);
}

#[test]
fn a_job_behind_a_reservation_starts_after_it() {
    // The wide job waits for the first; the narrow one would delay it, so it comes after the wide one although a GPU is free.
    let fork = queue(&[(1, Some(100.0)), (2, Some(100.0)), (1, Some(5000.0))], "gpu:2", "fcfs:backfill=easy");
    let starts = fork.starts(&ForecastOptions { draws: 200, ..ForecastOptions::default() });
    assert_eq!(starts.iter().map(|job| (job.number, job.position)).collect::<Vec<_>>(), [(101, 1), (102, 2)]);
    let median = |place: usize| starts[place].start_p50.unwrap().seconds();
    assert!(median(0) > 80.0 && median(1) > median(0) + 50.0, "{} s and {} s", median(0), median(1));
}

#[test]
fn a_start_does_not_move_along_with_the_clock() {
    let mut fork = queue(&[(1, Some(600.0)), (1, Some(60.0))], "gpu:1", "fcfs");
    let median = |fork: &Fork| fork.starts(&ForecastOptions::default())[0].start_p50.unwrap().seconds();
    let before = median(&fork);
    fork.now = Time::ZERO + seconds(200);
    let after = median(&fork);
    assert!((after - before).abs() < 60.0, "said {before} s at first, and {after} s after 200 s");
}

#[test]
fn a_job_that_is_in_nobodys_way_moves_no_expected_start() {
    let alone = queue(&[(1, Some(600.0)), (1, Some(60.0))], "gpu:1", "fcfs");
    let beside = queue(&[(1, Some(1e6)), (1, Some(600.0)), (1, Some(60.0))], "gpu:2", "fcfs");
    let beside = Fork { numbers: vec![7, 100, 101], ..beside };
    let times = |fork: &Fork| {
        let job = &fork.starts(&ForecastOptions::default())[0];
        (job.number, job.start_p10, job.start_p50, job.start_p90)
    };
    assert_eq!(times(&alone), times(&beside));
}

#[test]
fn a_changed_cluster_is_forecast_with_what_is_left_of_it() {
    // Gangs of four A100 came until yesterday. Now there are two T4: nobody can wait behind such gangs any more.
    let mut recent = RecentArrivals::default();
    for number in 0..50 {
        let at = Time::ZERO + seconds(number * 600);
        let job = Job { gpus: 4, ..Job::new(at, Span(1)) };
        let request = NewJob { job, user: "ada".into(), project: "".into(), job_type: "".into(), gpu_types: vec!["a100".into()] };
        let length = RunLength { belief: LengthBelief::Estimated(1e6), limit_seconds: None };
        recent.came(number, at, request, length, 1.0);
    }
    let fork = queue(&[(2, Some(600.0)), (1, Some(60.0)), (2, Some(60.0))], "t4:2", "fcfs");
    let alone = fork.starts(&ForecastOptions::default());
    let now = Time::ZERO + seconds(50 * 600);
    let pool = recent.pool(now);
    assert!(pool.is_some());
    assert_eq!(Fork { recent: pool, ..fork }.starts(&ForecastOptions::default()), alone);
}

#[test]
fn predictions_of_a_replayed_log_hold_about_as_often_as_they_say() {
    // Two users: one's jobs take about a minute, the other's about an hour. Lengths are learned on the way, from nothing.
    let mut workload = Workload::new("log");
    let users = ["ada", "bob"].map(|name| workload.names.intern(name));
    let mut stream = rota_core::random::RandomStream::new(7, "log");
    let mut at = 0.0;
    for number in 0..700_u32 {
        at += stream.exponential(700.0);
        let user = usize::from(stream.unit() < 0.3);
        let length = [60.0, 3600.0][user] * (0.4 * stream.normal()).exp();
        let gpus = 1 + number % 2;
        workload.push(Job { user: users[user], gpus, ..Job::new(Time((at * 1e9) as u64), Span::from_seconds(length).unwrap()) });
    }
    workload.finish();
    let table = Arc::new(ThroughputTable::default());
    let bound = Bound::new(workload, Cluster::from_spec("gpu:3", 3).unwrap(), &table, BadJobs::Refuse).unwrap();
    let options = ScoreOptions {
        every: 8,
        again: None,
        forecast: ForecastOptions { draws: 30, ..ForecastOptions::default() },
        engine: SimOptions::default().engine(),
        stop_time: Span::ZERO,
        arrivals: true,
    };
    let outcomes = replay(&bound, &table, rota_policy::build("fcfs:backfill=none").unwrap(), &options, &mut |_| {});
    let score = Score::of(&outcomes).all;
    assert!(score.jobs > 30, "{score:?}");
    assert!(score.coverage_p10_p90.is_some_and(|part| (0.7..0.92).contains(&part)), "{score:?}");
    let error = score.error_median_s.unwrap();
    assert!(score.limits_error_median_s.is_some_and(|limits| error < limits / 2.0), "{score:?}");
    assert!(score.next_error_median_s.is_some_and(|next| error < next), "{score:?}");
}

#[test]
fn rows_of_ended_jobs_may_go_while_a_log_is_replayed() {
    let mut workload = Workload::new("many");
    for number in 0..3000_u64 {
        workload.push(Job::new(Time(number * 10 * SECOND), seconds(30)));
    }
    workload.finish();
    let table = Arc::new(ThroughputTable::default());
    let bound = Bound::new(workload, Cluster::from_spec("gpu:2", 2).unwrap(), &table, BadJobs::Refuse).unwrap();
    let options = ScoreOptions {
        every: 500,
        again: Some(seconds(3600)),
        forecast: ForecastOptions { draws: 5, ..ForecastOptions::default() },
        engine: SimOptions::default().engine(),
        stop_time: Span::ZERO,
        arrivals: true,
    };
    let mut arrived = 0;
    let outcomes = replay(&bound, &table, rota_policy::build("fcfs").unwrap(), &options, &mut |count| arrived = count);
    let score = Score::of(&outcomes);
    assert_eq!(arrived, 3000);
    assert!(score.at_submission.jobs >= 4 && score.while_waiting.jobs >= 4, "{score:?}");
}

#[test]
fn an_estimate_that_no_user_gave_predicts_nothing() {
    let table = Arc::new(ThroughputTable::default());
    let unknown = |estimate, usual| {
        let mut workload = Workload::new("few");
        for _ in 0..6 {
            workload.push(Job { estimate, usual, ..Job::new(Time::ZERO, seconds(10)) });
        }
        workload.finish();
        let bound = Bound::new(workload, Cluster::from_spec("gpu:1", 1).unwrap(), &table, BadJobs::Refuse).unwrap();
        let options = ScoreOptions {
            every: 1,
            again: None,
            forecast: ForecastOptions { draws: 5, ..ForecastOptions::default() },
            engine: SimOptions::default().engine(),
            stop_time: Span::ZERO,
            arrivals: false,
        };
        Score::of(&replay(&bound, &table, rota_policy::build("fcfs").unwrap(), &options, &mut |_| {})).all.unknown
    };
    let hour = Some(seconds(3600));
    assert_eq!((unknown(hour, None), unknown(None, hour)), (0, 5));
}
