//! Counterfactuals are true: a job that asks for what is suggested starts when it was said to, and no smaller change of that kind would
//! have done. The judge is the simulator, in another world than the one the suggestion was made in.

#![allow(clippy::unwrap_used, reason = "a test")]

use rota_core::event::EventKind;
use rota_core::random::RandomStream;
use rota_core::{Bound, Cluster, End, Event, Job, JobChange, JobId, MilliGpu, NewJob, Phase, Span, Time};
use rota_engine::{Engine, Session};
use rota_forecast::changes::{changed, kinds};
use rota_forecast::world::Arrival;
use rota_forecast::{ArrivingWorld, Change, ChangeOptions, Fork, Holds, LengthBelief, RunLength, Subject};
use rota_sim::{SimOptions, SimulatedWorld};
use std::cell::Cell;
use std::mem::discriminant;
use std::sync::Arc;

const POLICIES: [&str; 9] =
    ["fcfs", "fcfs:backfill=easy", "fcfs:backfill=greedy", "sjf", "priority", "srtf", "las", "lag-match", "wfq"];
const DECISIONS_MAX: u64 = 3000;

fn options(has_time: &dyn Fn() -> bool) -> ChangeOptions<'_> {
    ChangeOptions {
        gpu_types: vec!["a100".into(), "t4".into()],
        share_by_memory: Some(MilliGpu(250)),
        decisions_max: DECISIONS_MAX,
        own_decisions_max: DECISIONS_MAX,
        wants_types: false,
        has_time,
    }
}

/// A job as somebody might submit it.
fn draw(stream: &mut RandomStream, at: Time) -> NewJob {
    let gpus = [1, 1, 1, 2, 3, 4][stream.below(6) as usize];
    let seconds = 5.0 + stream.exponential(200.0);
    let is_shared = gpus == 1 && stream.below(3) == 0;
    let job = Job {
        gpus,
        share: if is_shared { MilliGpu(250) } else { MilliGpu::WHOLE },
        memory_mib: if is_shared { 2000 + 1000 * stream.below(10) as u32 } else { 0 },
        priority: stream.below(4) as i32,
        estimate: Span::from_seconds(seconds),
        preemptible: stream.below(2) == 0,
        ..Job::new(at, Span::from_seconds(seconds).unwrap())
    };
    let gpu_types = [vec![], vec!["a100".into()], vec!["t4".into()]][stream.below(3) as usize].clone();
    let user = ["ada", "bob", "cy"][stream.below(3) as usize].into();
    NewJob { job, user, project: "".into(), job_type: "".into(), gpu_types }
}

/// A random queue at a random moment.
fn state(seed: u64) -> Fork {
    let mut stream = RandomStream::new(seed, "states");
    let policy = POLICIES[stream.below(POLICIES.len() as u64) as usize];
    let count = 8 + stream.below(25);
    let mut at = Time::ZERO;
    let mut arrivals = Vec::new();
    for number in 0..count {
        at = at + Span::from_seconds(stream.exponential(15.0)).unwrap();
        arrivals.push(Arrival { number: 100 + number, request: draw(&mut stream, at), after: Vec::new() });
    }
    let lengths = arrivals
        .iter()
        .map(|arrival| RunLength { belief: LengthBelief::Estimated(arrival.request.job.work.seconds()), limit_seconds: None });
    let lengths = lengths.collect::<Vec<_>>();
    let bound = Bound::empty("a queue", Cluster::from_spec("a100:4,t4:4", 4).unwrap());
    let engine = Engine::new(Arc::new(bound), rota_policy::build(policy).unwrap(), &SimOptions::default().engine());
    let world = ArrivingWorld::going_on(&engine.state, Time::ZERO, Vec::new(), arrivals.into(), Span::ZERO);
    let mut session = Session::new(engine, world);
    let mut now = Time::ZERO;
    for _ in 0..count + stream.below(10) {
        let Some(moment) = session.advance(&mut |_| {}) else { break };
        let target = session.ask();
        session.hand_in(&target, &mut |_| {});
        now = moment.now;
    }
    let rows = session.engine.state.jobs.len();
    Fork {
        pending: session.pending(),
        numbers: session.world.numbers().to_vec(),
        engine: session.engine,
        now,
        lengths: lengths[..rows].to_vec(),
        stop_time: Span::ZERO,
        holds: Holds::default(),
        recent: None,
    }
}

/// When the job starts if it asks for something else, as the simulator says. `None` if it does not within the limit, or never could.
fn judge(fork: &Fork, row: JobId, change: &Change, options: &ChangeOptions<'_>) -> Option<Time> {
    let mut engine = fork.with_median_lengths();
    let bound = Arc::clone(&engine.state.bound);
    let job = bound.whole_job(row);
    let name = |name| Box::from(bound.names.text(name));
    let request = NewJob {
        user: name(job.user),
        project: name(job.project),
        job_type: name(job.kind),
        gpu_types: job.gpu_types.iter().map(|kind| name(*kind)).collect(),
        job: Job { arrival: fork.now, ..job },
    };
    let rows = engine.state.jobs.len();
    let (events, row) = if let Change::Priority(priority) = change {
        let change = JobChange::Priority(*priority);
        (vec![EventKind::Changed { job: row, change, note: () }], row)
    } else {
        let request = Box::new(changed(&request, change, options));
        let admitted = EventKind::Admitted { job: JobId::from_index(rows), request };
        (vec![EventKind::ended(row, End::Cancelled), admitted], JobId::from_index(rows))
    };
    let world = {
        let mut after = engine.clone();
        for event in &events {
            after.record(&Event::at(fork.now, event.clone()));
        }
        if after.state.jobs.len() <= row.index() {
            return None;
        }
        SimulatedWorld::going_on(&after.state, fork.now, &SimOptions::default())
    };
    engine.state.take_doomed();
    let mut session = Session::resumed(engine, world, fork.pending);
    for event in events {
        session.replay(&Event::at(fork.now, event));
    }
    let mut start = None;
    let mut decisions = 0;
    while start.is_none() && decisions < DECISIONS_MAX {
        let mut observe = |event: &Event| {
            if matches!(event.kind, EventKind::Started { job, .. } if job == row) {
                start.get_or_insert(event.time_ns);
            }
        };
        session.advance(&mut observe)?;
        let target = session.ask();
        session.hand_in(&target, &mut observe);
        decisions += 1;
    }
    start
}

/// How many jobs were asked about, how many changes were suggested, and how many of these start the job at once.
#[derive(Default)]
struct Tally {
    asked: u32,
    suggested: u32,
    at_once: u32,
}

/// Asks what would start the waiting jobs of a random queue sooner, and lets the simulator judge every answer.
fn check(seed: u64, options: &ChangeOptions<'_>, tally: &mut Tally) {
    let fork = state(seed);
    let waiting = fork.engine.state.jobs.iter().enumerate().filter(|(_, job)| job.phase == Phase::Waiting);
    for row in waiting.map(|(row, _)| JobId::from_index(row)).take(3).collect::<Vec<_>>() {
        tally.asked += 1;
        let subject = Subject::Waiting(row);
        let changes = fork.changes(&subject, options);
        let context = || format!("seed {seed}, policy {}, job {row}", fork.engine.policy());
        for found in &changes.counterfactuals {
            tally.suggested += 1;
            tally.at_once += u32::from(found.start == fork.now);
            assert_eq!(judge(&fork, row, &found.change, options), Some(found.start), "{}: {found:?}", context());
            assert!(changes.start.is_none_or(|start| found.start < start), "{}: {changes:?}", context());
            let request = changed_request(&fork, row);
            let smaller = kinds(&fork.with_median_lengths().state, &subject, &request, options)
                .into_iter()
                .find(|kind| kind.contains(&found.change))
                .unwrap();
            for change in smaller.iter().take_while(|change| **change != found.change) {
                assert_eq!(discriminant(change), discriminant(&found.change));
                let start = judge(&fork, row, change, options);
                assert_ne!(start, Some(fork.now), "{}: {change} is smaller than {}", context(), found.change);
            }
        }
    }
}

#[test]
fn suggested_changes_start_the_job_when_they_say_and_no_smaller_change_would_have() {
    let mut tally = Tally::default();
    (0..400).for_each(|seed| check(seed, &options(&|| true), &mut tally));
    assert!(tally.asked >= 1000, "only {} waiting jobs", tally.asked);
    assert!(tally.suggested >= 300 && tally.at_once >= 100, "{} suggestions, {} at once", tally.suggested, tally.at_once);
}

#[test]
fn suggested_changes_are_as_true_where_time_runs_out() {
    let mut tally = Tally::default();
    for seed in 400..500_u64 {
        // The time is up after so many looks at the clock, which may be in the middle of any trial.
        let looks = Cell::new(1 + seed % 90);
        let has_time = || looks.replace(looks.get().saturating_sub(1)) > 0;
        check(seed, &options(&has_time), &mut tally);
    }
    assert!(tally.suggested >= 20, "{} suggestions", tally.suggested);
}

fn changed_request(fork: &Fork, row: JobId) -> NewJob {
    let bound = &fork.engine.state.bound;
    let job = bound.whole_job(row);
    let gpu_types = job.gpu_types.iter().map(|kind| bound.names.text(*kind).into()).collect();
    NewJob { job, user: "".into(), project: "".into(), job_type: "".into(), gpu_types }
}

#[test]
fn a_new_job_is_told_when_it_starts_and_where_it_is_done_first() {
    let fork = (0..200).map(state).find(|fork| fork.engine.state.jobs.iter().any(|job| job.phase == Phase::Waiting)).unwrap();
    let length = RunLength { belief: LengthBelief::Estimated(60.0), limit_seconds: None };
    let mut stream = RandomStream::new(3, "a new job");
    let request = NewJob { gpu_types: Vec::new(), ..draw(&mut stream, fork.now) };
    let request = NewJob { job: Job { gpus: 1, share: MilliGpu::WHOLE, memory_mib: 0, ..request.job }, ..request };
    let wanted = ChangeOptions { wants_types: true, ..options(&|| true) };
    let changes = fork.changes(&Subject::New { request: Box::new(request), after: Vec::new(), length }, &wanted);
    assert!(changes.start.is_some_and(|start| start >= fork.now) && changes.end > changes.start, "{changes:?}");
    assert_eq!(changes.by_type.len(), 2, "{changes:?}");
    assert!(changes.by_type[0].2 <= changes.by_type[1].2, "{changes:?}");
}

#[test]
fn a_job_whose_length_is_unknown_may_still_be_told_what_starts_it_now() {
    let mut fork = state(1);
    fork.lengths.iter_mut().for_each(|length| length.belief = LengthBelief::Unknown);
    let waiting = fork.engine.state.jobs.iter().position(|job| job.phase == Phase::Waiting);
    if let Some(row) = waiting.map(JobId::from_index) {
        let changes = fork.changes(&Subject::Waiting(row), &options(&|| true));
        assert_eq!(changes.end, None, "{changes:?}");
    }
}
