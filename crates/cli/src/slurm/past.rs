//! What the shadow has seen of Slurm's jobs, kept in a file in the columns of `sacct -P`, so that `rota import sacct` reads it, too.

use anyhow::Context;
use rota_exec::slurm::{EveryJob, GpuCount, SlurmState, gpus_of, read_time};
use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::time::Duration;

const HEADER: &str = "JobID|User|State|Submit|Start|End|ElapsedRaw|TimelimitRaw|ReqTRES|NodeList|Eligible";

/// Reasons of Slurm's for which nobody could start a job.
const NOT_ELIGIBLE: [&str; 7] =
    ["Dependency", "DependencyNeverSatisfied", "JobHeldUser", "JobHeldAdmin", "BeginTime", "JobArrayTaskLimit", "BadConstraints"];

/// A job as it was seen.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SeenJob {
    /// The job's owner.
    pub user: String,
    /// The GPUs that the job asked for.
    pub gpus: Vec<GpuCount>,
    /// When it was submitted, in seconds since 1970.
    pub submitted: u64,
    /// From when on it could have been started; `None` while it cannot.
    pub eligible: Option<u64>,
    /// When Slurm started it.
    pub start: Option<u64>,
    /// When it ended.
    pub end: Option<u64>,
    /// How long it may run.
    pub limit: Option<Duration>,
    /// The nodes it has.
    pub nodes: Vec<String>,
}

impl SeenJob {
    /// All its GPUs.
    pub fn gpu_count(&self) -> u32 {
        self.gpus.iter().map(|one| one.count).sum()
    }
}

/// All jobs with GPUs that were seen, by Slurm's number and the time of submission: Slurm gives its numbers again after a while.
#[derive(Debug, Default)]
pub struct SeenJobs {
    path: PathBuf,
    pub jobs: BTreeMap<(String, u64), SeenJob>,
    /// When the first look was, in seconds since 1970.
    pub since: u64,
}

impl SeenJobs {
    /// Takes up what an earlier shadow has seen.
    pub fn open(path: &Path, now: u64) -> anyhow::Result<Self> {
        let mut seen = Self { path: path.to_owned(), jobs: BTreeMap::new(), since: now };
        let text = match std::fs::read_to_string(path) {
            Ok(text) => text,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(seen),
            Err(error) => return Err(error).with_context(|| path.display().to_string()),
        };
        for (number, line) in (1..).zip(text.lines()) {
            if let Some(since) = line.strip_prefix("# since ") {
                seen.since = read_time(since).with_context(|| format!("{}:{number}: no time", path.display()))?;
            } else if line != HEADER {
                let (key, job) =
                    read_line(line).with_context(|| format!("{}:{number}: not a line of a shadow", path.display()))?;
                seen.jobs.insert(key, job);
            }
        }
        Ok(seen)
    }

    /// Takes in what `squeue` lists now. Says whether anything has changed.
    pub fn look(&mut self, listed: &[EveryJob], now: u64) -> bool {
        let mut changed = false;
        let mut there = std::collections::HashSet::new();
        for job in listed.iter().filter(|job| !job.gpus.is_empty()) {
            let key = (job.id.clone(), job.submitted);
            there.insert(key.clone());
            // A job that was over before the first look is not ours to count.
            let is_over = matches!(job.state, SlurmState::Over(_));
            if is_over && !self.jobs.contains_key(&key) && job.end.is_some_and(|end| end <= self.since) {
                continue;
            }
            let seen = self.jobs.entry(key).or_insert_with(|| SeenJob {
                user: job.user.clone(),
                gpus: job.gpus.clone(),
                submitted: job.submitted,
                eligible: None,
                start: None,
                end: None,
                limit: job.limit,
                nodes: Vec::new(),
            });
            let before = seen.clone();
            follow(seen, job, now);
            changed |= *seen != before;
        }
        for (_, job) in self.jobs.iter_mut().filter(|(key, job)| job.end.is_none() && !there.contains(*key)) {
            // Slurm has forgotten it between two looks.
            job.end = Some(now);
            changed = true;
        }
        changed
    }

    /// Writes the file anew, whole.
    pub fn save(&self) -> anyhow::Result<()> {
        let mut text = format!("# since {}\n{HEADER}\n", clock(Some(self.since)));
        for ((id, submitted), job) in &self.jobs {
            let state = match (job.start, job.end) {
                (_, None) if job.start.is_some() => "RUNNING",
                (None, None) => "PENDING",
                (None, Some(_)) => "CANCELLED",
                _ => "COMPLETED",
            };
            let elapsed = job.start.zip(job.end).map_or(0, |(start, end)| end.saturating_sub(start));
            let limit = job.limit.map_or_else(String::new, |limit| (limit.as_secs() / 60).to_string());
            let gpus = job.gpus.iter().map(|one| match &one.kind {
                Some(kind) => format!("gres/gpu:{kind}={}", one.count),
                None => format!("gres/gpu={}", one.count),
            });
            let gpus = gpus.collect::<Vec<_>>().join(",");
            let nodes = job.nodes.join(",");
            let (submit, start, end, eligible) = (clock(Some(*submitted)), clock(job.start), clock(job.end), clock(job.eligible));
            writeln!(text, "{id}|{}|{state}|{submit}|{start}|{end}|{elapsed}|{limit}|{gpus}|{nodes}|{eligible}", job.user)?;
        }
        let new = self.path.with_extension("new");
        std::fs::write(&new, text).with_context(|| new.display().to_string())?;
        std::fs::rename(&new, &self.path).with_context(|| self.path.display().to_string())
    }
}

/// Takes over what Slurm says of a job.
fn follow(seen: &mut SeenJob, job: &EveryJob, now: u64) {
    let could_start = !NOT_ELIGIBLE.contains(&job.reason.as_str());
    match &job.state {
        SlurmState::Pending if could_start => _ = seen.eligible.get_or_insert(now.min(now.max(job.submitted))),
        SlurmState::Pending => seen.eligible = None,
        SlurmState::Running => {
            seen.start = seen.start.or(job.start).or(Some(now));
            seen.nodes.clone_from(&job.nodes);
        }
        SlurmState::Ending | SlurmState::Over(_) => {
            if !job.nodes.is_empty() {
                seen.start = seen.start.or(job.start);
                seen.nodes.clone_from(&job.nodes);
            }
            seen.end = seen.end.or(job.end.filter(|&end| end <= now)).or(Some(now));
        }
    }
    if seen.start.is_some() {
        // Whoever was started could have been, from the submission on if it was never seen to wait.
        seen.eligible.get_or_insert(job.submitted);
    }
}

fn read_line(line: &str) -> Option<((String, u64), SeenJob)> {
    let fields = line.split('|').collect::<Vec<_>>();
    let [id, user, _, submit, start, end, _, limit, gpus, nodes, eligible] = fields.as_slice() else { return None };
    let submitted = read_time(submit)?;
    let job = SeenJob {
        user: (*user).to_owned(),
        gpus: gpus_of(gpus),
        submitted,
        eligible: read_time(eligible),
        start: read_time(start),
        end: read_time(end),
        limit: limit.parse::<u64>().ok().map(|minutes| Duration::from_secs(minutes * 60)),
        nodes: nodes.split(',').filter(|node| !node.is_empty()).map(str::to_owned).collect(),
    };
    Some((((*id).to_owned(), submitted), job))
}

/// A moment as Slurm writes it, in UTC.
fn clock(seconds: Option<u64>) -> String {
    let moment = seconds.and_then(|seconds| jiff::Timestamp::from_second(seconds.cast_signed()).ok());
    moment.map_or_else(|| "Unknown".to_owned(), |moment| moment.strftime("%Y-%m-%dT%H:%M:%S").to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn job(id: &str, state: SlurmState, reason: &str) -> EveryJob {
        EveryJob {
            id: id.to_owned(),
            user: "ann".to_owned(),
            state,
            submitted: 1000,
            start: Some(1100),
            end: None,
            limit: Some(Duration::from_mins(10)),
            gpus: gpus_of("gres/gpu:v100:2"),
            node_count: 1,
            nodes: Vec::new(),
            reason: reason.to_owned(),
        }
    }

    #[test]
    fn a_clock_reads_back() {
        for seconds in [0, 951_782_400, 1_709_164_800, 1_794_925_212] {
            assert_eq!(read_time(&clock(Some(seconds))), Some(seconds), "{}", clock(Some(seconds)));
        }
    }

    #[test]
    fn a_past_is_written_and_read_back_and_is_a_log_of_sacct() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("shadow-jobs.txt");
        let mut seen = SeenJobs::open(&path, 1050).unwrap();
        assert!(seen.look(&[job("7", SlurmState::Pending, "Dependency"), job("8", SlurmState::Pending, "Resources")], 1050));
        let get = |seen: &SeenJobs, id: &str| seen.jobs[&(id.to_owned(), 1000)].clone();
        assert_eq!((get(&seen, "7").eligible, get(&seen, "8").eligible), (None, Some(1050)));
        let running = EveryJob { nodes: vec!["v1".to_owned()], ..job("8", SlurmState::Running, "") };
        assert!(seen.look(&[job("7", SlurmState::Pending, "Priority"), running], 1110));
        assert_eq!((get(&seen, "7").eligible, get(&seen, "8").start), (Some(1110), Some(1100)));
        // Both are gone from the list: one has run, the other was cancelled.
        assert!(seen.look(&[], 1200));
        assert!(!seen.look(&[], 1210));
        seen.save().unwrap();
        let again = SeenJobs::open(&path, 5000).unwrap();
        assert_eq!((again.jobs.clone(), again.since), (seen.jobs.clone(), 1050));
        let options = rota_trace::ReadOptions { format: Some(rota_trace::Format::Sacct), ..Default::default() };
        let loaded = rota_trace::read(&path, &options).unwrap();
        assert_eq!(loaded.workload.jobs.len(), 1);
        assert_eq!(loaded.workload.jobs[0].gpus, 2);
    }
}
