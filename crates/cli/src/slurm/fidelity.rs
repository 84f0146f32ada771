//! How well a simulation repeats what a cluster manager really did, told before anybody believes the simulation of something else.

use rota_core::bind::BadJobs;
use rota_core::event::EventKind;
use rota_core::{Bound, Cluster, Span, ThroughputTable, Workload};
use rota_sim::SimOptions;
use serde::Serialize;
use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

/// A start is called the same if it differs by no more than this.
const SAME_START_SECONDS: f64 = 600.0;

/// A replay against what was recorded.
#[derive(Clone, Debug, Serialize)]
pub struct Fidelity {
    /// The policy of the replay.
    pub policy: String,
    /// The cluster of the replay.
    pub cluster: String,
    /// Jobs whose start was recorded.
    pub jobs: usize,
    /// Mean waiting time as recorded.
    pub wait_mean_recorded_s: f64,
    /// Mean waiting time in the replay.
    pub wait_mean_replayed_s: f64,
    /// Half of the jobs start closer to their recorded start than this.
    pub start_error_median_s: f64,
    /// The part of the jobs that start within ten minutes of their recorded start.
    pub starts_within_600_s: f64,
    /// The rank correlation (Spearman) of recorded and replayed waiting times; null where either is all the same.
    pub wait_rank_correlation: Option<f64>,
}

/// Runs a workload under a policy and compares its waiting times with recorded ones, which are by line of the log.
pub fn measure(
    workload: Workload,
    waits: &HashMap<u32, Span>,
    mut cluster: Cluster,
    policy: &str,
) -> anyhow::Result<Option<Fidelity>> {
    // The lengths in a log are those on the GPUs that the jobs had.
    for kind in &mut cluster.types {
        kind.speed = 1.0;
    }
    let description = cluster.describe();
    let bound = Arc::new(Bound::new(workload, cluster, &ThroughputTable::default(), BadJobs::Skip)?);
    let mut replayed = vec![None; bound.jobs.len()];
    let configured = rota_learn::registry().build(policy)?;
    rota_sim::simulate(
        &bound,
        configured,
        &SimOptions::default(),
        &mut |event| {
            if let EventKind::Started { job, .. } = event.kind {
                let arrival = bound.job(job).arrival;
                replayed[job.index()].get_or_insert(event.time_ns.seconds() - arrival.seconds());
            }
        },
        &|| 0.0,
    );
    let recorded_of = |line: u32| waits.get(&line).map(|wait| wait.seconds());
    let pairs =
        bound.jobs.iter().zip(&replayed).filter_map(|(job, replayed)| recorded_of(job.line).zip(*replayed)).collect::<Vec<_>>();
    if pairs.is_empty() {
        return Ok(None);
    }
    let mut errors = pairs.iter().map(|(recorded, replayed)| (recorded - replayed).abs()).collect::<Vec<_>>();
    errors.sort_by(f64::total_cmp);
    let count = pairs.len() as f64;
    let (recorded, replayed): (Vec<f64>, Vec<f64>) = pairs.into_iter().unzip();
    Ok(Some(Fidelity {
        policy: policy.to_owned(),
        cluster: description,
        jobs: recorded.len(),
        wait_mean_recorded_s: recorded.iter().sum::<f64>() / count,
        wait_mean_replayed_s: replayed.iter().sum::<f64>() / count,
        start_error_median_s: errors[errors.len() / 2],
        starts_within_600_s: errors.partition_point(|error| *error <= SAME_START_SECONDS) as f64 / count,
        wait_rank_correlation: correlation(&ranks(&recorded), &ranks(&replayed)),
    }))
}

impl Fidelity {
    /// The same in words.
    pub fn describe(&self) -> String {
        let span = |seconds: f64| Span::from_seconds(seconds).unwrap_or_default();
        let ranks =
            self.wait_rank_correlation.map_or_else(String::new, |value| format!("; rank correlation of waits {value:.2}"));
        format!(
            "fidelity of a replay ({} jobs under {} on {}): mean wait {} recorded, {} replayed; half of the starts are off by at most {}, \
             {:.0} % by at most 10 minutes{ranks}",
            self.jobs,
            self.policy,
            self.cluster,
            span(self.wait_mean_recorded_s),
            span(self.wait_mean_replayed_s),
            span(self.start_error_median_s),
            self.starts_within_600_s * 100.0,
        )
    }
}

/// The smallest cluster that could have run what was recorded: of each type the most GPUs that were in use at once.
///
/// GPUs whose type is not recorded may be of any type. They count as a type of their own only as far as the others are not enough.
pub fn smallest_cluster(workload: &Workload, waits: &HashMap<u32, Span>, gpus_per_node: u32) -> anyhow::Result<Cluster> {
    let mut changes: Vec<(u64, i64, Option<&str>)> = Vec::new();
    for job in &workload.jobs {
        let Some(wait) = waits.get(&job.line) else { continue };
        let start = job.arrival + *wait;
        let kind = job.gpu_types.first().map(|name| workload.names.text(*name));
        changes.push((start.0, i64::from(job.gpus), kind));
        changes.push(((start + job.work).0, -i64::from(job.gpus), kind));
    }
    // At one moment ends come first.
    changes.sort_unstable();
    let mut now: BTreeMap<Option<&str>, (i64, i64)> = BTreeMap::new();
    let (mut total, mut most) = (0, 0);
    for (_, change, kind) in changes {
        let (count, peak) = now.entry(kind).or_default();
        *count += change;
        *peak = (*peak).max(*count);
        total += change;
        most = most.max(total);
    }
    let typed = now.iter().filter_map(|(kind, (_, peak))| kind.map(|kind| (kind.to_owned(), *peak))).collect::<Vec<_>>();
    let rest = most - typed.iter().map(|(_, peak)| peak).sum::<i64>();
    let rest = (rest > 0).then(|| ("gpu".to_owned(), rest));
    let counts = typed.into_iter().chain(rest).map(|(name, count)| format!("{name}:{count}")).collect::<Vec<_>>();
    if counts.is_empty() {
        return Ok(Cluster::default());
    }
    Ok(Cluster::from_spec(&counts.join(","), gpus_per_node)?)
}

/// The rank of each value; equal values share the mean of their ranks.
fn ranks(values: &[f64]) -> Vec<f64> {
    let mut order = (0..values.len()).collect::<Vec<_>>();
    order.sort_by(|&a, &b| values[a].total_cmp(&values[b]));
    let mut ranks = vec![0.0; values.len()];
    let mut from = 0;
    while from < order.len() {
        let same = order[from..].iter().take_while(|&&place| values[place].total_cmp(&values[order[from]]).is_eq()).count();
        let rank = from as f64 + (same as f64 - 1.0) / 2.0;
        order[from..from + same].iter().for_each(|&place| ranks[place] = rank);
        from += same;
    }
    ranks
}

fn correlation(first: &[f64], second: &[f64]) -> Option<f64> {
    let count = first.len() as f64;
    let mean = |values: &[f64]| values.iter().sum::<f64>() / count;
    let (mean_first, mean_second) = (mean(first), mean(second));
    let product = first.iter().zip(second).map(|(a, b)| (a - mean_first) * (b - mean_second)).sum::<f64>();
    let square = |values: &[f64], mean: f64| values.iter().map(|value| (value - mean).powi(2)).sum::<f64>();
    let scale = (square(first, mean_first) * square(second, mean_second)).sqrt();
    (scale > 0.0).then(|| product / scale)
}

#[cfg(test)]
mod tests {
    use super::*;
    use rota_core::{Job, Time};

    fn second(seconds: u64) -> Span {
        Span(seconds * 1_000_000_000)
    }

    /// Jobs of one GPU as (arrival, length, recorded wait).
    fn log(rows: &[(u64, u64, u64)]) -> (Workload, HashMap<u32, Span>) {
        let mut workload = Workload::new("test");
        let mut waits = HashMap::new();
        for (line, &(arrival, length, wait)) in (1..).zip(rows) {
            workload.push(Job { line, ..Job::new(Time(second(arrival).0), second(length)) });
            waits.insert(line, second(wait));
        }
        workload.finish();
        (workload, waits)
    }

    #[test]
    fn a_log_of_first_come_first_served_is_repeated_exactly() {
        let (workload, waits) = log(&[(0, 100, 0), (10, 100, 90), (20, 50, 180), (400, 10, 0)]);
        let cluster = smallest_cluster(&workload, &waits, 8).unwrap();
        assert_eq!(cluster.gpus.len(), 1);
        let fidelity = measure(workload, &waits, cluster, "fcfs").unwrap().unwrap();
        assert_eq!((fidelity.jobs, fidelity.start_error_median_s, fidelity.starts_within_600_s), (4, 0.0, 1.0));
        assert_eq!(fidelity.wait_rank_correlation, Some(1.0));
        assert!((fidelity.wait_mean_recorded_s - fidelity.wait_mean_replayed_s).abs() < 1e-9);
    }

    #[test]
    fn a_log_of_another_order_is_told_from_it() {
        let (workload, waits) = log(&[(0, 1000, 0), (10, 1000, 2990), (20, 1000, 1980), (30, 1000, 970)]);
        let cluster = smallest_cluster(&workload, &waits, 8).unwrap();
        let fidelity = measure(workload, &waits, cluster, "fcfs").unwrap().unwrap();
        assert!(fidelity.starts_within_600_s < 0.6 && fidelity.start_error_median_s > 600.0, "{fidelity:?}");
    }

    #[test]
    fn types_that_were_not_recorded_take_what_is_left() {
        let (mut workload, waits) = log(&[(0, 100, 0), (0, 100, 0), (0, 100, 0)]);
        let name = workload.names.intern("a100");
        workload.jobs[0].gpu_types = Box::new([name]);
        let cluster = smallest_cluster(&workload, &waits, 8).unwrap();
        assert_eq!(cluster.describe(), "1 a100, 2 gpu on 2 nodes");
    }
}
