//! `rota up --engine slurm --shadow`: what a policy would do in Slurm's place. It only reads.
//!
//! At every look Slurm's jobs are put on a copy of its cluster twice: once as they are now, to see what the policy would start next;
//! and once from the first look on, to keep score. Jobs run to their end in both: Slurm's jobs do not take turns.

use super::past::{SeenJob, SeenJobs};
use crate::live::args::UpArgs;
use crate::live::client::{Failure, usual_dir};
use crate::output::{print, remark};
use anyhow::Context;
use rota_core::bind::BadJobs;
use rota_core::event::EventKind;
use rota_core::{Bound, Cluster, GpuId, Job, Span, ThroughputTable, Time, Workload};
use rota_daemon::Config;
use rota_exec::slurm::{SlurmClient, SlurmError, SlurmNode};
use rota_sim::SimOptions;
use serde::Serialize;
use std::collections::HashMap;
use std::fmt::Write as _;
use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

/// The length of a job that has no time limit and has not ended, for the policies that ask.
const UNKNOWN_LENGTH_SECONDS: u64 = 3600;
const NANOS: u64 = 1_000_000_000;

/// A job that the policy would start.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct WouldStart {
    id: String,
    user: String,
    gpus: u32,
    nodes: Vec<String>,
}

/// The score since the first look.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Score {
    /// Jobs that both Slurm and the policy have started since.
    jobs: usize,
    wait_mean_slurm_s: Option<f64>,
    wait_mean_policy_s: Option<f64>,
    gpu_hours_slurm: f64,
    gpu_hours_policy: f64,
}

/// What one look has shown.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Look {
    policy: String,
    waiting: usize,
    running: usize,
    free_gpus: u32,
    would_start: Vec<WouldStart>,
    score: Score,
}

/// Watches Slurm until it is interrupted.
pub fn run(args: &UpArgs, config: &Config) -> anyhow::Result<()> {
    let policy = config.policy.clone();
    rota_learn::registry().build(&policy)?;
    let folder = usual_dir(&args.state);
    std::fs::create_dir_all(&folder).with_context(|| folder.display().to_string())?;
    let mut client = SlurmClient::new(config.engine.slurm.settings());
    let failed = |error: SlurmError| anyhow::Error::new(Failure(error.to_string()));
    let (major, minor) = client.version().map_err(failed)?;
    let mut nodes = client.nodes().map_err(failed)?;
    let mut seen = SeenJobs::open(&folder.join("shadow-jobs.txt"), now())?;
    let cluster = cluster_of(&nodes)?;
    print(&format!(
        "rota is ready: the shadow of {policy} on Slurm {major}.{minor:02}, {}; it only reads, and keeps what it sees in {}",
        cluster.describe(),
        folder.display()
    ))?;
    let mut last: Option<Look> = None;
    loop {
        match client.every_job().and_then(|jobs| client.nodes().map(|nodes| (jobs, nodes))) {
            Ok((jobs, found)) => {
                nodes = found;
                if seen.look(&jobs, now()) {
                    seen.save()?;
                }
            }
            Err(error) if error.is_passing() => {
                remark(&format!("{error}; tried again in {} s", client.pause().as_secs()));
                continue;
            }
            Err(error) => return Err(failed(error)),
        }
        let look = look(&policy, &seen, &nodes, now())?;
        let file = folder.join("shadow.json");
        std::fs::write(&file, serde_json::to_vec(&look)?).with_context(|| file.display().to_string())?;
        let is_news =
            last.as_ref().is_none_or(|last| (&last.would_start, last.score.jobs) != (&look.would_start, look.score.jobs));
        if is_news {
            print(&look.describe()?)?;
        }
        last = Some(look);
    }
}

fn now() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs())
}

/// What a policy would do with what was seen.
fn look(policy: &str, seen: &SeenJobs, nodes: &[SlurmNode], now: u64) -> anyhow::Result<Look> {
    let waiting = seen.jobs.values().filter(|job| job.start.is_none() && job.end.is_none() && job.eligible.is_some()).count();
    let running = seen.jobs.values().filter(|job| job.start.is_some() && job.end.is_none()).count();
    let free = |node: &SlurmNode| node.gpus.iter().map(|one| node.free(one.kind.as_deref())).sum::<u32>();
    Ok(Look {
        policy: policy.to_owned(),
        waiting,
        running,
        free_gpus: nodes.iter().map(free).sum(),
        would_start: would_start(policy, seen, nodes, now)?,
        score: score(policy, seen, nodes, now)?,
    })
}

impl Look {
    fn describe(&self) -> anyhow::Result<String> {
        let mut text = format!("{} jobs wait in Slurm, {} run, {} GPUs are free\n", self.waiting, self.running, self.free_gpus);
        if self.would_start.is_empty() {
            writeln!(text, "  {} would start nothing now", self.policy)?;
        }
        for job in &self.would_start {
            let gpus = if job.gpus == 1 { "1 GPU".to_owned() } else { format!("{} GPUs", job.gpus) };
            writeln!(
                text,
                "  {} would start job {} of {} now: {gpus} on {}",
                self.policy,
                job.id,
                job.user,
                job.nodes.join(", ")
            )?;
        }
        let score = &self.score;
        let wait =
            |seconds: Option<f64>| seconds.and_then(Span::from_seconds).map_or_else(|| "-".to_owned(), |span| span.to_string());
        write!(
            text,
            "  so far: {} jobs started; mean wait {} under Slurm, {} under {}; GPU hours used {:.2} and {:.2}",
            score.jobs,
            wait(score.wait_mean_slurm_s),
            wait(score.wait_mean_policy_s),
            self.policy,
            score.gpu_hours_slurm,
            score.gpu_hours_policy
        )?;
        Ok(text)
    }
}

/// The cluster as Slurm describes it. Nodes that Slurm starts nothing on count only while jobs are on them.
fn cluster_of(nodes: &[SlurmNode]) -> anyhow::Result<Cluster> {
    let mut text = String::new();
    for node in nodes.iter().filter(|node| node.is_usable() || !node.used.is_empty()) {
        let gpus = node.gpus.iter().map(|one| format!("{}:{}", one.kind.as_deref().unwrap_or("gpu"), one.count));
        writeln!(text, "[[node]]\nname = {:?}\ngpus = {:?}", node.name, gpus.collect::<Vec<_>>().join(","))?;
    }
    let mut cluster = Cluster::from_toml(&text).context("the nodes that Slurm lists")?;
    // Lengths are those on the GPUs that the jobs had.
    cluster.types.iter_mut().for_each(|kind| kind.speed = 1.0);
    Ok(cluster)
}

/// Jobs on the cluster's copy, with Slurm's numbers in the order of the workload's lines.
struct Copy<'s> {
    workload: Workload,
    cluster: Cluster,
    /// The GPUs of each node that no running job has.
    free: HashMap<String, Vec<GpuId>>,
    jobs: Vec<(&'s str, &'s SeenJob)>,
}

impl<'s> Copy<'s> {
    fn new(nodes: &[SlurmNode]) -> anyhow::Result<Self> {
        let cluster = cluster_of(nodes)?;
        let free = cluster.nodes.iter().map(|node| (node.name.clone(), node.gpus.clone().map(GpuId).collect())).collect();
        Ok(Self { workload: Workload::new("Slurm"), cluster, free, jobs: Vec::new() })
    }

    /// Adds a job. One that runs keeps the GPUs of its nodes.
    fn add(&mut self, id: &'s str, seen: &'s SeenJob, arrival_ns: u64, length: u64, is_there: bool) {
        let mut job = Job::new(Time(arrival_ns), Span(length.max(1) * NANOS));
        job.gpus = seen.gpu_count();
        job.preemptible = false;
        job.saves_progress = false;
        job.estimate = seen.limit.and_then(|limit| Span::from_seconds(limit.as_secs_f64()));
        job.user = self.workload.names.intern(&seen.user);
        job.any_type = seen.gpus.len() > 1;
        job.gpu_types =
            seen.gpus.iter().filter_map(|one| one.kind.as_deref()).map(|kind| self.workload.names.intern(kind)).collect();
        if is_there {
            job.only = self.taken(seen).into();
        }
        self.jobs.push((id, seen));
        job.line = self.jobs.len() as u32;
        self.workload.push(job);
    }

    /// GPUs for a running job on its own nodes; none if they are not known well enough.
    fn taken(&mut self, seen: &SeenJob) -> Vec<GpuId> {
        let mut taken = Vec::new();
        let share = (seen.gpu_count() as usize).div_ceil(seen.nodes.len().max(1));
        for node in &seen.nodes {
            if let Some(free) = self.free.get_mut(node) {
                let count = share.min(seen.gpu_count() as usize - taken.len()).min(free.len());
                taken.extend(free.drain(..count));
            }
        }
        taken.sort_unstable();
        if taken.len() == seen.gpu_count() as usize { taken } else { Vec::new() }
    }

    /// Runs the jobs under a policy. Tells of each start: the moment, the job's place among those added, its GPUs; and of each end.
    fn play(self, policy: &str, mut told: impl FnMut(u64, usize, Option<&[GpuId]>, &Bound)) -> anyhow::Result<()> {
        let mut workload = self.workload;
        workload.finish();
        let bound = Arc::new(Bound::new(workload, self.cluster, &ThroughputTable::default(), BadJobs::Skip)?);
        let configured = rota_learn::registry().build(policy)?;
        let mut observe = |event: &rota_core::Event| match &event.kind {
            EventKind::Started { job, gpus, .. } => {
                told(event.time_ns.0, bound.job(*job).line as usize - 1, Some(gpus.as_slice()), &bound);
            }
            EventKind::Ended { job, .. } => told(event.time_ns.0, bound.job(*job).line as usize - 1, None, &bound),
            _ => {}
        };
        rota_sim::simulate(&bound, configured, &SimOptions::default(), &mut observe, &|| 0.0);
        Ok(())
    }
}

/// How long a job that has not ended may still take.
fn time_left(job: &SeenJob, now: u64) -> u64 {
    let run = job.start.map_or(0, |start| now.saturating_sub(start));
    job.limit.map_or(UNKNOWN_LENGTH_SECONDS, |limit| limit.as_secs()).saturating_sub(run).max(1)
}

/// What the policy would start now beside what runs.
fn would_start(policy: &str, seen: &SeenJobs, nodes: &[SlurmNode], now: u64) -> anyhow::Result<Vec<WouldStart>> {
    let mut copy = Copy::new(nodes)?;
    let open = || seen.jobs.iter().filter(|(_, job)| job.end.is_none());
    for ((id, _), job) in open().filter(|(_, job)| job.start.is_some()) {
        copy.add(id, job, 0, time_left(job, now), true);
    }
    let mut waiting = open().filter(|(_, job)| job.start.is_none() && job.eligible.is_some()).collect::<Vec<_>>();
    waiting.sort_by_key(|((id, submitted), _)| (*submitted, id.parse::<u64>().unwrap_or(u64::MAX)));
    for ((id, _), job) in waiting {
        // All at one moment: the policy chooses among all of them. Those that came first are first in the workload.
        copy.add(id, job, 1, time_left(job, now), false);
    }
    let jobs = copy.jobs.clone();
    let mut found = Vec::new();
    copy.play(policy, |time, place, gpus, bound| {
        // What starts later than at the first moment waits for something.
        let (id, job) = jobs[place];
        if let Some(gpus) = gpus.filter(|_| time < NANOS && job.start.is_none()) {
            let mut on = gpus
                .iter()
                .map(|gpu| bound.cluster.nodes[bound.cluster.gpus[gpu.index()].node.index()].name.clone())
                .collect::<Vec<_>>();
            on.dedup();
            found.push(WouldStart { id: id.to_owned(), user: job.user.clone(), gpus: job.gpu_count(), nodes: on });
        }
    })?;
    Ok(found)
}

/// Waiting times and GPU hours since the first look: Slurm's as they were, the policy's as they would have been.
fn score(policy: &str, seen: &SeenJobs, nodes: &[SlurmNode], now: u64) -> anyhow::Result<Score> {
    let since = seen.since;
    let mut copy = Copy::new(nodes)?;
    let mut score =
        Score { jobs: 0, wait_mean_slurm_s: None, wait_mean_policy_s: None, gpu_hours_slurm: 0.0, gpu_hours_policy: 0.0 };
    for ((id, _), job) in &seen.jobs {
        let Some(eligible) = job.eligible.filter(|_| job.start.is_some() || job.end.is_none()) else { continue };
        if let Some(start) = job.start {
            let ran = job.end.unwrap_or(now).saturating_sub(start.max(since));
            score.gpu_hours_slurm += f64::from(job.gpu_count()) * ran as f64 / 3600.0;
        }
        let was_there = job.start.is_some_and(|start| start < since);
        let length = match (job.start, job.end) {
            (Some(start), Some(end)) => end.saturating_sub(if was_there { since } else { start }),
            (Some(start), None) => now.saturating_sub(if was_there { since } else { start }) + time_left(job, now),
            _ => time_left(job, now),
        };
        let arrival = if was_there { 0 } else { eligible.saturating_sub(since) * NANOS + 1 };
        copy.add(id, job, arrival, length, was_there);
    }
    let jobs = copy.jobs.clone();
    let horizon = now.saturating_sub(since) * NANOS;
    let (mut waits, mut begun) = (Vec::new(), HashMap::new());
    copy.play(policy, |time, place, gpus, _| {
        if gpus.is_some() && time <= horizon {
            begun.insert(place, time);
            let job = jobs[place].1;
            if let (Some(start), Some(eligible)) = (job.start.filter(|&start| start >= since), job.eligible) {
                let arrival = eligible.max(since);
                waits.push((
                    start.saturating_sub(arrival) as f64,
                    time as f64 / NANOS as f64 - arrival.saturating_sub(since) as f64,
                ));
            }
        } else if gpus.is_none()
            && let Some(start) = begun.remove(&place)
        {
            let seconds = (time.min(horizon) - start) as f64 / NANOS as f64;
            score.gpu_hours_policy += f64::from(jobs[place].1.gpu_count()) * seconds / 3600.0;
        }
    })?;
    let mean = |values: Vec<f64>| (!values.is_empty()).then(|| values.iter().sum::<f64>().max(0.0) / values.len() as f64);
    score.jobs = waits.len();
    score.wait_mean_slurm_s = mean(waits.iter().map(|(slurm, _)| *slurm).collect());
    score.wait_mean_policy_s = mean(waits.iter().map(|(_, policy)| *policy).collect());
    Ok(score)
}

#[cfg(test)]
#[path = "shadow_test.rs"]
mod tests;
