//! Jobs as `squeue` lists them: our own allocations, or the jobs of everybody.

use std::time::Duration;

use super::error::SlurmError;
use super::gres::{GpuCount, gpus_of};
use super::host_list::expand;
use super::inventory::columns;
use super::times::{read_limit, read_time};

/// Stands between the fields of our own jobs. Comments and reasons do not have it.
const SEPARATOR: char = '\u{1f}';

/// The fields of our own jobs. The comment is the last, because others write it.
const OWN_FIELDS: [&str; 9] = ["%i", "%T", "%S", "%e", "%l", "%P", "%N", "%r", "%k"];

/// The fields of everybody's jobs, with their widths. None of them is a text of the job's owner.
const EVERY_FIELDS: [(&str, usize); 15] = [
    ("JobArrayID", 40),
    ("UserName", 64),
    ("State", 20),
    ("SubmitTime", 24),
    ("StartTime", 24),
    ("EndTime", 24),
    ("TimeLimit", 20),
    ("NumNodes", 12),
    ("NumTasks", 12),
    ("tres-per-node", 128),
    ("tres-per-job", 128),
    ("tres-per-task", 128),
    ("tres-alloc", 256),
    ("NodeList", 512),
    ("Reason", 64),
];

/// What Slurm says a job is doing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SlurmState {
    /// The job waits.
    Pending,
    /// The job has its nodes.
    Running,
    /// Slurm is ending the job's processes.
    Ending,
    /// The job is over, in Slurm's word: `CANCELLED`, `TIMEOUT`, `PREEMPTED`, `NODE_FAIL` and so on.
    Over(String),
}

impl SlurmState {
    fn of(word: &str) -> Self {
        match word {
            "PENDING" | "REQUEUED" | "REQUEUE_HOLD" | "REQUEUE_FED" | "SPECIAL_EXIT" | "RESV_DEL_HOLD" => Self::Pending,
            "RUNNING" | "CONFIGURING" | "SUSPENDED" | "RESIZING" | "STAGE_OUT" | "SIGNALING" | "STOPPED" => Self::Running,
            "COMPLETING" => Self::Ending,
            other => Self::Over(other.to_owned()),
        }
    }
}

/// One of our own jobs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OwnJob {
    /// Slurm's number of it.
    pub id: String,
    /// What Slurm says it is doing.
    pub state: SlurmState,
    /// When it started or, while it waits, is expected to start; seconds since 1970.
    pub start: Option<u64>,
    /// When its time limit ends.
    pub end: Option<u64>,
    /// How long it may run.
    pub limit: Option<Duration>,
    /// Its nodes, once it has them.
    pub nodes: Vec<String>,
    /// Why it waits or ended, in Slurm's word; empty if Slurm gives none.
    pub reason: String,
    /// The comment it was submitted with.
    pub comment: String,
}

/// The arguments by which `squeue` lists the jobs of a user, those that ended lately included.
pub(super) fn own_arguments(user: u32) -> Vec<String> {
    let format = OWN_FIELDS.join(&SEPARATOR.to_string());
    vec!["-h".to_owned(), format!("--user={user}"), "--states=all".to_owned(), "-o".to_owned(), format]
}

/// Reads the jobs of one user. Lines of other forms are left out: a comment may have line breaks.
pub fn read_own_jobs(answer: &str) -> Vec<OwnJob> {
    let job = |line: &str| {
        let mut fields = line.splitn(OWN_FIELDS.len(), SEPARATOR);
        let mut next = || fields.next().map(str::trim);
        let job = OwnJob {
            id: next()?.to_owned(),
            state: SlurmState::of(next()?),
            start: read_time(next()?),
            end: read_time(next()?),
            limit: read_limit(next()?),
            nodes: {
                next()?;
                expand(next()?).unwrap_or_default()
            },
            reason: Some(next()?).filter(|reason| *reason != "None").unwrap_or_default().to_owned(),
            comment: next()?.to_owned(),
        };
        job.id.starts_with(|letter: char| letter.is_ascii_digit()).then_some(job)
    };
    answer.lines().filter_map(job).collect()
}

/// A job of anybody's.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EveryJob {
    /// Slurm's number of it, with its place in an array.
    pub id: String,
    /// The job's owner.
    pub user: String,
    /// What Slurm says it is doing.
    pub state: SlurmState,
    /// When it was submitted; seconds since 1970.
    pub submitted: u64,
    /// When it started or is expected to.
    pub start: Option<u64>,
    /// When it ended or its time limit ends.
    pub end: Option<u64>,
    /// How long it may run.
    pub limit: Option<Duration>,
    /// The GPUs it has or asks for.
    pub gpus: Vec<GpuCount>,
    /// How many nodes it has or asks for.
    pub node_count: u32,
    /// Its nodes, once it has them.
    pub nodes: Vec<String>,
    /// Why it waits.
    pub reason: String,
}

/// The arguments by which `squeue` lists everybody's jobs, each job of an array by itself.
pub(super) fn every_arguments() -> Vec<String> {
    let format = EVERY_FIELDS.map(|(name, width)| format!("{name}:{width}")).join(",");
    ["-h", "-a", "-r", "--states=all", "-O", &format].map(str::to_owned).to_vec()
}

/// Reads everybody's jobs.
pub fn read_every_job(answer: &str) -> Result<Vec<EveryJob>, SlurmError> {
    let widths = EVERY_FIELDS.map(|(_, width)| width);
    let mut jobs = Vec::new();
    for line in answer.lines().filter(|line| !line.trim().is_empty()) {
        let fields = columns(line, &widths);
        let wrong = |wanted| SlurmError::Answer { program: "squeue".to_owned(), line: line.trim().to_owned(), wanted };
        let submitted = read_time(fields[3]).ok_or_else(|| wrong("time of submission"))?;
        // NumNodes may be `2-4`, NumTasks may be a mark for "unknown".
        let number = |text: &str| text.split('-').next().and_then(|text| text.parse::<u32>().ok());
        let node_count = number(fields[7]).unwrap_or(1).max(1);
        let tasks = number(fields[8]).filter(|&tasks| tasks < 1_000_000).unwrap_or(1).max(1);
        jobs.push(EveryJob {
            id: fields[0].to_owned(),
            user: fields[1].to_owned(),
            state: SlurmState::of(fields[2]),
            submitted,
            start: read_time(fields[4]),
            end: read_time(fields[5]),
            limit: read_limit(fields[6]),
            gpus: asked(&fields, node_count, tasks),
            node_count,
            nodes: expand(fields[13]).unwrap_or_default(),
            reason: Some(fields[14]).filter(|reason| *reason != "None").unwrap_or_default().to_owned(),
        });
    }
    Ok(jobs)
}

/// The GPUs of a job: those it was given, where Slurm counts them, or else those it asked for.
fn asked(fields: &[&str], node_count: u32, tasks: u32) -> Vec<GpuCount> {
    let times = |list: &str, factor: u32| {
        let mut gpus = gpus_of(list);
        for one in &mut gpus {
            one.count = one.count.saturating_mul(factor);
        }
        gpus
    };
    let ways = [times(fields[12], 1), times(fields[10], 1), times(fields[9], node_count), times(fields[11], tasks)];
    ways.into_iter().find(|gpus| !gpus.is_empty()).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn our_own_jobs_whatever_their_comments_say() {
        let line = |fields: [&str; 9]| fields.join("\u{1f}") + "\n";
        let text =
            line(["1", "RUNNING", "2026-11-17T14:20:14", "2026-11-17T14:30:14", "10:00", "main", "v[1-2]", "None", "rota:x:1"])
                + &line(["2", "PENDING", "N/A", "N/A", "UNLIMITED", "main", "", "Resources", "rota:x:2\u{1f}more"])
                + "a broken line\n"
                + &line(["3", "PREEMPTED", "N/A", "N/A", "1-00:00:00", "main", "v1", "None", "(null)"]);
        let jobs = read_own_jobs(&text);
        assert_eq!(jobs.len(), 3);
        assert_eq!((jobs[0].state.clone(), jobs[0].nodes.join(" ")), (SlurmState::Running, "v1 v2".to_owned()));
        assert_eq!(jobs[0].end.zip(jobs[0].start).map(|(end, start)| end - start), Some(600));
        assert_eq!((jobs[1].reason.as_str(), jobs[1].limit, jobs[1].start), ("Resources", None, None));
        assert_eq!(jobs[2].state, SlurmState::Over("PREEMPTED".to_owned()));
    }

    fn every_line(values: [&str; 15]) -> String {
        let cells = values.iter().zip(EVERY_FIELDS).map(|(value, (_, width))| format!("{value:width$}")).collect::<Vec<_>>();
        cells.concat() + "\n"
    }

    #[test]
    fn gpus_are_found_however_they_were_asked_for() {
        let base =
            ["7_2", "ann", "PENDING", "2026-11-17T14:20:12", "N/A", "N/A", "10:00", "2", "4", "", "", "", "", "", "Priority"];
        let with = |index: usize, text: &'static str| {
            let mut values = base;
            values[index] = text;
            read_every_job(&every_line(values)).unwrap().remove(0)
        };
        let count = |job: &EveryJob| job.gpus.iter().map(|one| one.count).sum::<u32>();
        assert_eq!(count(&with(9, "gres:gpu:v100:3")), 6);
        assert_eq!(count(&with(10, "gres/gpu:v100:3")), 3);
        assert_eq!(count(&with(11, "gres:gpu:1")), 4);
        assert_eq!(count(&with(12, "cpu=1,gres/gpu=5")), 5);
        assert_eq!(count(&with(8, "4294967294")), 0);
        let job = with(9, "gres:gpu:v100:3");
        assert_eq!((job.id.as_str(), job.user.as_str(), job.reason.as_str(), job.node_count), ("7_2", "ann", "Priority", 2));
        let mut values = base;
        values[3] = "yesterday";
        assert!(read_every_job(&every_line(values)).unwrap_err().to_string().contains("time of submission"));
    }
}
