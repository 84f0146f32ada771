//! What a workload looks like: how many jobs, how long, how wide, and how many GPUs it would keep busy.

use rota_core::{Cluster, Job, Span, ThroughputTable, Workload};
use serde::Serialize;
use std::collections::{BTreeMap, HashMap, HashSet};

/// The GPU type on which steps are turned into time when no cluster is given.
const REFERENCE_GPU: &str = "v100";

/// Quantiles of a set of numbers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct Quantiles {
    /// The smallest value.
    pub min: f64,
    /// One value in ten is smaller.
    pub p10: f64,
    /// Half are smaller.
    pub p50: f64,
    /// Nine in ten are smaller.
    pub p90: f64,
    /// 99 of 100 are smaller.
    pub p99: f64,
    /// The largest value.
    pub max: f64,
    /// The mean of all values.
    pub mean: f64,
}

/// A workload in numbers.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct TraceInfo {
    /// The file or the model that the jobs came from.
    pub source: String,
    /// Number of jobs.
    pub jobs: usize,
    /// Number of users.
    pub users: usize,
    /// Number of job types.
    pub job_types: usize,
    /// Seconds from the first arrival to the last.
    pub span_s: f64,
    /// GPU time of all jobs whose length is known, shares counted as such.
    pub gpu_hours: f64,
    /// Run times of single jobs.
    pub duration_s: Quantiles,
    /// Jobs in steps of a type for which the throughput table has no speed: not in any sum.
    pub jobs_without_length: usize,
    /// How many jobs there are of each gang size.
    pub gangs: BTreeMap<u32, usize>,
    /// Jobs that share their GPUs.
    pub sharing_jobs: usize,
    /// Jobs that fail in the trace.
    pub failing_jobs: usize,
    /// Mean arrivals per hour; none if all arrive at once.
    pub arrivals_per_hour: Option<f64>,
    /// GPUs that would be busy all the time from the first arrival to the last; none if all arrive at once.
    pub gpus_for_load_one: Option<f64>,
    /// GPUs of the cluster given.
    pub cluster_gpus: Option<usize>,
    /// GPU time asked for over GPU time there is, on the cluster given.
    pub offered_load: Option<f64>,
}

/// Describes a workload, and its load on a cluster if one is given.
pub fn info(workload: &Workload, cluster: Option<&Cluster>, table: &ThroughputTable) -> TraceInfo {
    let mut lengths = Lengths::new(cluster, table);
    let mut seconds = Vec::with_capacity(workload.jobs.len());
    let mut gpu_seconds = 0.0;
    let mut gangs = BTreeMap::new();
    let mut users = HashSet::new();
    let mut kinds = HashSet::new();
    for job in &workload.jobs {
        users.extend(job.user.is_some().then_some(job.user));
        kinds.extend(job.kind.is_some().then_some(job.kind));
        *gangs.entry(job.gpus).or_default() += 1;
        if let Some(length) = lengths.of(job, workload) {
            seconds.push(length);
            gpu_seconds += length * f64::from(job.gpus) * job.share.fraction();
        }
    }
    let jobs = workload.jobs.len();
    let first = workload.jobs.first().map(|job| job.arrival).unwrap_or_default();
    let span_s = workload.jobs.last().map(|job| job.arrival.since(first)).unwrap_or_default().seconds();
    let spread = (span_s > 0.0).then_some(span_s);
    let gpus_for_load_one = spread.map(|span_s| gpu_seconds / span_s);
    let cluster_gpus = cluster.map(|cluster| cluster.gpus.len());
    TraceInfo {
        source: workload.source.clone(),
        jobs,
        users: users.len(),
        job_types: kinds.len(),
        span_s,
        gpu_hours: gpu_seconds / 3600.0,
        jobs_without_length: jobs - seconds.len(),
        duration_s: quantiles(seconds),
        gangs,
        sharing_jobs: workload.jobs.iter().filter(|job| job.share.0 < 1000).count(),
        failing_jobs: workload.jobs.iter().filter(|job| job.fails_at.is_some()).count(),
        arrivals_per_hour: spread.map(|span_s| (jobs - 1) as f64 * 3600.0 / span_s),
        gpus_for_load_one,
        cluster_gpus,
        offered_load: gpus_for_load_one.zip(cluster_gpus).map(|(busy, gpus)| busy / gpus as f64),
    }
}

/// The run times that [`info`] describes, in seconds, of jobs that have one.
pub fn lengths(workload: &Workload, cluster: Option<&Cluster>, table: &ThroughputTable) -> Vec<f64> {
    let mut lengths = Lengths::new(cluster, table);
    workload.jobs.iter().filter_map(|job| lengths.of(job, workload)).collect()
}

/// Run times of jobs, where jobs in steps are looked up once for each type and gang.
struct Lengths<'a> {
    gpu_types: Vec<&'a str>,
    table: &'a ThroughputTable,
    speeds: HashMap<(rota_core::Name, u32), Option<f64>>,
}

impl<'a> Lengths<'a> {
    fn new(cluster: Option<&'a Cluster>, table: &'a ThroughputTable) -> Self {
        let gpu_types =
            cluster.map_or_else(|| vec![REFERENCE_GPU], |cluster| cluster.types.iter().map(|kind| kind.name.as_str()).collect());
        Self { gpu_types, table, speeds: HashMap::new() }
    }

    /// Seconds on the fastest GPU type there is.
    fn of(&mut self, job: &Job, workload: &Workload) -> Option<f64> {
        if job.steps > 0.0 {
            let speed = *self.speeds.entry((job.kind, job.gpus)).or_insert_with(|| {
                let job_type = workload.names.text(job.kind);
                let speeds = self.gpu_types.iter().filter_map(|gpu_type| self.table.get(job_type, job.gpus, gpu_type));
                Some(speeds.fold(0.0, f64::max)).filter(|&speed| speed > 0.0)
            });
            if let Some(speed) = speed {
                return Some(job.steps / speed);
            }
        }
        (job.work > Span::ZERO).then(|| job.work.seconds())
    }
}

/// Quantiles by nearest rank; all 0 of nothing.
fn quantiles(mut values: Vec<f64>) -> Quantiles {
    if values.is_empty() {
        return Quantiles::default();
    }
    values.sort_unstable_by(f64::total_cmp);
    let at = |fraction: f64| values[((fraction * values.len() as f64).ceil() as usize).clamp(1, values.len()) - 1];
    let mean = values.iter().sum::<f64>() / values.len() as f64;
    Quantiles { min: at(0.0), p10: at(0.1), p50: at(0.5), p90: at(0.9), p99: at(0.99), max: at(1.0), mean }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{ReadOptions, default_throughputs, parse};

    #[test]
    fn load_is_gpu_time_asked_for_over_gpu_time_there_is() {
        let text = "arrival_s,duration_s,gpus,share,user\n0,100,2,,a\n50,100,1,0.5,b\n100,300,4,,a\n";
        let workload = parse("t.csv", text.as_bytes(), &ReadOptions::default()).unwrap().workload;
        let cluster = Cluster::from_spec("t4:7", 8).unwrap();
        let info = info(&workload, Some(&cluster), &ThroughputTable::default());
        assert_eq!((info.jobs, info.users, info.sharing_jobs), (3, 2, 1));
        assert!((info.gpu_hours * 3600.0 - 1450.0).abs() < 1e-6);
        assert!((info.gpus_for_load_one.unwrap() - 14.5).abs() < 1e-9);
        assert!((info.offered_load.unwrap() - 14.5 / 7.0).abs() < 1e-9);
        assert!((info.arrivals_per_hour.unwrap() - 72.0).abs() < 1e-9);
        assert_eq!(info.gangs, BTreeMap::from([(1, 1), (2, 1), (4, 1)]));
        assert_eq!((info.duration_s.p50, info.duration_s.max), (100.0, 300.0));
    }

    #[test]
    fn steps_become_time_on_the_fastest_type_of_the_cluster() {
        let text = "arrival_s,steps,job_type\n0,7176,A3C\n0,10,none such\n";
        let workload = parse("t.csv", text.as_bytes(), &ReadOptions::default()).unwrap().workload;
        let table = default_throughputs();
        let on_v100 = info(&workload, None, &table);
        assert!((on_v100.duration_s.max - 1000.0).abs() < 1.0, "{on_v100:?}");
        assert_eq!((on_v100.jobs_without_length, on_v100.arrivals_per_hour), (1, None));
        let cluster = Cluster::from_spec("k80:1,p100:1", 1).unwrap();
        assert!((info(&workload, Some(&cluster), &table).duration_s.max - 7176.0 / 5.681).abs() < 1.0);
    }
}
