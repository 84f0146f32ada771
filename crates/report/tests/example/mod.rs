//! A small run that can be worked out by hand.
//!
//! Two v100 (40 W idle, 300 W full, 2.48 USD/h). Job 0 needs one GPU for 100 s and is preempted at 60 s for job 1,
//! which needs both GPUs for 50 s; its restart at 110 s takes 10 s. Job 2 keeps one GPU half busy for 40 s.

use rota_core::bind::BadJobs;
use rota_core::{Bound, Cluster, End, Event, EventKind, GpuId, GpuList, Job, JobId, Span, ThroughputTable, Time, Workload};
use rota_report::{Recorder, RecorderOptions, Run, RunMeta};

pub fn at(seconds: u64) -> Time {
    Time(seconds * 1_000_000_000)
}

pub fn job(arrival: u64, work: u64) -> Job {
    Job::new(at(arrival), Span::from_whole_seconds(work))
}

pub fn bind(jobs: Vec<Job>, cluster: &str) -> Bound {
    let mut workload = Workload::new("by hand");
    workload.jobs = jobs;
    bind_workload(workload, cluster)
}

pub fn bind_workload(mut workload: Workload, cluster: &str) -> Bound {
    workload.finish();
    Bound::new(workload, Cluster::from_spec(cluster, 8).unwrap(), &ThroughputTable::new("none"), BadJobs::Refuse).unwrap()
}

pub fn submitted(time: u64, job: u32) -> Event {
    Event { time_ns: at(time), kind: EventKind::Submitted { job: JobId(job) } }
}

pub fn started(time: u64, job: u32, gpus: &[u32]) -> Event {
    let gpus = gpus.iter().map(|&gpu| GpuId(gpu)).collect::<GpuList>();
    Event { time_ns: at(time), kind: EventKind::started(JobId(job), gpus) }
}

pub fn finished(time: u64, job: u32) -> Event {
    Event { time_ns: at(time), kind: EventKind::ended(JobId(job), End::Finished) }
}

pub fn event(time: u64, kind: EventKind) -> Event {
    Event { time_ns: at(time), kind }
}

pub fn fold(bound: &Bound, events: &[Event]) -> Run {
    let restart_cost = Span::from_whole_seconds(10);
    let mut recorder = Recorder::new(bound, RecorderOptions { timeline: true, restart_cost });
    for event in events {
        recorder.observe(event);
    }
    recorder.finish(events.last().map_or(Time::ZERO, |event| event.time_ns))
}

pub fn three_jobs() -> (Bound, Run) {
    let bound = bind(
        vec![
            job(0, 100),
            Job { gpus: 2, deadline: Some(at(100)), ..job(10, 50) },
            Job { utilisation: 0.5, deadline: Some(at(70)), ..job(20, 40) },
        ],
        "v100:2",
    );
    let run = fold(
        &bound,
        &[
            submitted(0, 0),
            started(0, 0, &[0]),
            submitted(10, 1),
            submitted(20, 2),
            started(20, 2, &[1]),
            finished(60, 2),
            event(60, EventKind::ended(JobId(0), End::Preempted)),
            started(60, 1, &[0, 1]),
            finished(110, 1),
            started(110, 0, &[1]),
            finished(160, 0),
        ],
    );
    (bound, run)
}

pub fn meta(policy: &str) -> RunMeta {
    RunMeta {
        policy: policy.to_owned(),
        mechanism: "event".to_owned(),
        seed: 7,
        restart_cost_seconds: 10.0,
        events: 11,
        ..RunMeta::default()
    }
}
