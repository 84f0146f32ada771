//! Builders in the words of the domain: a scene is a workload on a cluster; an outcome is what became of each job.

use rota_core::bind::BadJobs;
use rota_core::event::EventKind;
use rota_core::{Bound, Cluster, End, Event, Job, Span, ThroughputTable, Time, Workload};
use rota_sim::{SimOptions, Tally, simulate};
use std::sync::Arc;

pub fn seconds(value: f64) -> Span {
    Span::from_seconds(value).unwrap()
}

/// A job of one GPU.
pub fn job(arrival: f64, duration: f64) -> Job {
    Job::new(Time::from_seconds(arrival).unwrap(), seconds(duration))
}

pub fn gang(gpus: u32, arrival: f64, duration: f64) -> Job {
    Job { gpus, ..job(arrival, duration) }
}

pub fn scene(cluster: &str, jobs: impl IntoIterator<Item = Job>) -> Arc<Bound> {
    let cluster = Cluster::from_spec(cluster, 8).unwrap();
    on_cluster(cluster, jobs)
}

pub fn on_cluster(cluster: Cluster, jobs: impl IntoIterator<Item = Job>) -> Arc<Bound> {
    let mut workload = Workload::new("scene");
    jobs.into_iter().for_each(|job| workload.push(job));
    workload.finish();
    Arc::new(Bound::new(workload, cluster, &ThroughputTable::default(), BadJobs::Refuse).unwrap())
}

pub struct Outcome {
    pub events: Vec<Event>,
    pub first_start: Vec<Option<f64>>,
    /// When each job ended well.
    pub finish: Vec<Option<f64>>,
    pub failed: Vec<bool>,
    pub tally: Tally,
}

pub fn run(bound: &Arc<Bound>, policy: &str) -> Outcome {
    run_with(bound, policy, &SimOptions::default())
}

pub fn run_with(bound: &Arc<Bound>, policy: &str, options: &SimOptions) -> Outcome {
    let count = bound.jobs.len();
    let mut outcome = Outcome {
        events: Vec::new(),
        first_start: vec![None; count],
        finish: vec![None; count],
        failed: vec![false; count],
        tally: Tally::default(),
    };
    let mut observe = |event: &Event| {
        let now = event.time_ns.seconds();
        match &event.kind {
            EventKind::Started { job, .. } => {
                outcome.first_start[job.index()].get_or_insert(now);
            }
            EventKind::Ended { job, end: End::Finished, .. } => outcome.finish[job.index()] = Some(now),
            EventKind::Ended { job, end: End::Crashed | End::Dependency | End::NeverFits, .. } => {
                outcome.failed[job.index()] = true;
            }
            _ => {}
        }
        outcome.events.push(event.clone());
    };
    let policy = rota_policy::build(policy).unwrap();
    let tally = simulate(bound, policy, options, &mut observe, &|| 0.0);
    outcome.tally = tally;
    outcome
}

impl Outcome {
    /// Finish times in the order of the jobs.
    pub fn finishes(&self) -> Vec<f64> {
        self.finish.iter().map(|finish| finish.unwrap_or(f64::NAN)).collect()
    }

    pub fn makespan(&self) -> f64 {
        self.finishes().into_iter().fold(0.0, f64::max)
    }

    /// Jobs in the order of their first start.
    pub fn start_order(&self) -> Vec<usize> {
        let mut order = (0..self.first_start.len()).collect::<Vec<_>>();
        order.sort_by(|a, b| self.first_start[*a].partial_cmp(&self.first_start[*b]).unwrap());
        order
    }
}

/// Mean wait, mean turnaround and throughput of single-GPU jobs.
pub fn textbook_metrics(bound: &Bound, outcome: &Outcome) -> (f64, f64, f64) {
    let count = bound.jobs.len() as f64;
    let turnaround = bound.jobs.iter().zip(outcome.finishes()).map(|(job, finish)| finish - job.arrival.seconds()).sum::<f64>();
    let work = bound.jobs.iter().map(|job| bound.truth(job.id).work.seconds()).sum::<f64>();
    ((turnaround - work) / count, turnaround / count, count / outcome.makespan())
}
