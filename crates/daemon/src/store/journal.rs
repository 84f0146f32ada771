//! The journal: what happened in this queue, as typed events in the order in which they were written.
//!
//! It is the same event type as the simulator's, in the realm of a real queue: jobs have numbers that are never given twice, GPUs are
//! known by their UUID. Job records, runs, the scheduler's state and what people are told are folds over it.

use crate::api::JobState;
use crate::store::extras;
use crate::store::groups::Membership;
use crate::store::record::{JobRecord, Spec};
use rota_core::event::EventKind;
use rota_core::{End, ExtraStep, Hold, JobChange, Realm, StopCause};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use std::sync::Arc;

/// The realm of a real queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Live;

impl Realm for Live {
    type Job = u64;
    type Gpu = String;
    type Node = String;
    type Request = Submission;
    type Launch = Launch;
    type Report = RunReport;
    type Note = Note;
}

/// An event of this queue.
pub type QueueEvent = EventKind<Live>;

/// What a new job asked for, and who asked.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Submission {
    /// The job's owner.
    pub uid: u32,
    /// The owner's name.
    pub user: String,
    /// GPUs it needs at once.
    pub gpus: u32,
    /// Row of the job's environment.
    pub env_id: i64,
    /// Memory it is given on each GPU, where that is predicted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub memory_mib: Option<u32>,
    /// The job's place in its group, if it is in one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub group: Option<Membership>,
    /// What was asked for. It is written once, with the job, and read from there.
    #[serde(skip)]
    pub spec: Option<Arc<Spec>>,
}

/// What is written down when a job is started.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Launch {
    /// The attempt, counted from 1.
    pub attempt: u32,
    /// The indices of its GPUs, as people count them.
    pub indices: Vec<u32>,
    /// What tells this run from any other that ever had its directory.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub identity: Option<String>,
}

/// What is known of a run that ended.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct RunReport {
    /// The attempt, counted from 1; 0 for a job that never ran.
    pub attempt: u32,
    /// The exit code of the job.
    pub exit_code: Option<i32>,
    /// The signal that ended the job.
    pub signal: Option<i32>,
    /// Why it ended as it did, for people.
    pub reason: Option<String>,
    /// Who ended it.
    pub by: Option<String>,
    /// When the run really ended, in nanoseconds since 1970. That may be long before anybody heard of it.
    pub ended_ns: Option<i64>,
    /// How long it ran, in nanoseconds.
    pub ran_ns: u64,
    /// The indices of its GPUs.
    pub gpus: Vec<u32>,
    /// Work done in this run, in seconds on the reference GPU.
    pub work_seconds: Option<f64>,
    /// Work of all runs that is kept, in nanoseconds on the reference GPU.
    pub kept_work_ns: Option<u64>,
    /// How long the job ran for the work that it has now, in nanoseconds.
    pub kept_run_ns: Option<u64>,
    /// How long the job ran, in this run and in those before, for work that it lost with the end of this run, in nanoseconds.
    pub lost_run_ns: u64,
    /// Whether the job saved its work and left as it was asked to.
    pub has_saved: bool,
    /// Whether the job was killed because it did not leave in time.
    pub is_overdue: bool,
    /// GPU time of all runs until now, in nanoseconds.
    pub service_ns: u64,
    /// The job is not tried again before this moment of the queue's time.
    pub not_before: Option<u64>,
    /// Memory it is given from now on, because what it had was not enough.
    pub memory_mib: Option<u32>,
    /// Whether the run ended for want of GPU memory.
    pub is_out_of_memory: bool,
    /// The most memory seen on one of its GPUs.
    pub peak_memory_mib: Option<u64>,
    /// Energy of all attempts.
    pub energy_joules: Option<f64>,
}

impl RunReport {
    /// The part of the job's run time until now whose work it kept; `None` where the time is not known.
    pub fn kept_part(&self) -> Option<f64> {
        let kept_ns = self.kept_run_ns?;
        Some(if self.lost_run_ns == 0 { 1.0 } else { kept_ns as f64 / (kept_ns as f64 + self.lost_run_ns as f64) })
    }
}

/// Who caused an event, and what people are told about it.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Note {
    /// The user who asked for it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub by: Option<String>,
    /// The value before the change.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub before: Option<i64>,
    /// Memory that the job is given, where it is predicted.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub memory_mib: Option<u32>,
}

impl Note {
    /// Something that a user asked for.
    pub fn by(user: &str) -> Self {
        Self { by: Some(user.to_owned()), ..Self::default() }
    }
}

/// The word that people and scripts know an end by.
pub fn end_word(end: End) -> &'static str {
    match end {
        End::Finished => "finished",
        End::Crashed | End::Dependency | End::NeverFits => "failed",
        End::Cancelled => "cancelled",
        End::Lost => "lost",
        End::Preempted => "preempted",
        End::Evicted => "evicted",
        End::Retried => "retried",
    }
}

/// The end of a word, where it tells one.
pub fn end_of_word(word: &str) -> Option<End> {
    let ends = [End::Finished, End::Crashed, End::Cancelled, End::Lost, End::Preempted, End::Evicted, End::Retried];
    ends.into_iter().find(|end| end_word(*end) == word)
}

/// The word that people and scripts know an event by.
pub fn word(event: &QueueEvent) -> &'static str {
    match event {
        EventKind::Admitted { .. } => "submitted",
        EventKind::Submitted { .. } => "arrived",
        EventKind::Changed { change: JobChange::Priority(_), .. } => "priority",
        EventKind::Changed { change: JobChange::Slice { .. }, .. } => "memory",
        EventKind::Changed { change: JobChange::WorkLost, .. } => "work_lost",
        EventKind::Started { .. } => "started",
        EventKind::Stopping { .. } => "stopping",
        EventKind::Promised { .. } => "promised",
        EventKind::Ended { end, .. } => end_word(*end),
        EventKind::Held { hold: Hold::User, .. } => "held",
        EventKind::Released { hold: Hold::User, .. } => "released",
        EventKind::Released { hold: Hold::Delay | Hold::Astray, .. } => "ready",
        EventKind::Held { .. } => "quota_held",
        EventKind::Released { .. } => "quota_released",
        EventKind::Occupied { .. } => "occupied",
        EventKind::Overused { .. } => "overuse",
        EventKind::DeviceLost { .. } => "gpu_lost",
        EventKind::DeviceReturned { .. } => "gpu_returned",
        EventKind::Drained { .. } => "drained",
        EventKind::Resumed { .. } => "resumed",
        EventKind::PolicySet { .. } => "policy",
        EventKind::RestartMeasured { .. } => "restart_measured",
        EventKind::SpeedMeasured { .. } => "speed_measured",
        EventKind::Leased { .. } => "leased",
        EventKind::Committed { .. } => "committed",
        EventKind::Progress { .. } => "progress",
        EventKind::Extra { step: ExtraStep::Offered, .. } => "offered",
        EventKind::Extra { step: ExtraStep::Withdrawn, .. } => "withdrawn",
        EventKind::Extra { step: ExtraStep::Returned, .. } => "returned",
        EventKind::NodeLost { .. } => "node_lost",
        EventKind::NodeReturned { .. } => "node_returned",
        EventKind::Decided { .. } => "decided",
    }
}

/// Events that only the scheduler needs, until its image is newer: nobody is told of them, and they are dropped then.
pub const INNER: [&str; 5] = ["decided", "occupied", "promised", "restart_measured", "speed_measured"];

/// What people and scripts are told with an event.
pub fn detail(event: &QueueEvent) -> Value {
    match event {
        EventKind::Admitted { request, .. } => {
            let group = request.group.map(|membership| membership.group);
            match group {
                Some(group) => json!({ "gpus": request.gpus, "user": request.user, "group": group }),
                None => json!({ "gpus": request.gpus, "user": request.user }),
            }
        }
        EventKind::Changed { change: JobChange::Priority(to), note, .. } => {
            json!({ "by": note.by, "from": note.before, "to": to })
        }
        EventKind::Changed { change: JobChange::Slice { memory_mib, .. }, .. } => json!({ "memory_mib": memory_mib }),
        EventKind::Committed { step, checkpoint, .. } => json!({ "step": step, "checkpoint": checkpoint }),
        EventKind::Progress { steps, run_steps, ran, .. } => {
            json!({ "steps": steps, "run_steps": run_steps, "seconds": ran.seconds() })
        }
        EventKind::Started { gpus, launch, .. } => json!({ "attempt": launch.attempt, "gpus": launch.indices, "uuids": gpus }),
        EventKind::Stopping { cause, note, .. } => {
            let why = match cause {
                StopCause::Cancel => "cancelled".to_owned(),
                StopCause::Preempt => "preempted".to_owned(),
                StopCause::Evict => "gpu_lost".to_owned(),
                StopCause::Fail(why) => why.clone(),
                StopCause::Overuse => "overuse".to_owned(),
            };
            json!({ "by": note.by, "why": why })
        }
        EventKind::Ended { report, .. } => json!({
            "attempt": report.attempt, "exit_code": report.exit_code, "signal": report.signal, "reason": report.reason, "by": report.by,
            "seconds": report.ran_ns as f64 / 1e9, "gpus": report.gpus, "ended_at": report.ended_ns.map(crate::clock::rfc3339),
            "work_seconds": report.work_seconds, "kept_part": report.kept_part(),
        }),
        EventKind::Held { note, .. } | EventKind::Released { note, .. } => json!({ "by": note.by }),
        EventKind::Overused { used_mib, given_mib, .. } => json!({ "used_mib": used_mib, "given_mib": given_mib }),
        EventKind::Extra { gpu, .. } | EventKind::DeviceLost { gpu } | EventKind::DeviceReturned { gpu } => {
            json!({ "uuid": gpu })
        }
        EventKind::Drained { gpu, note } | EventKind::Resumed { gpu, note } => json!({ "uuid": gpu, "by": note.by }),
        EventKind::PolicySet { policy, note } => json!({ "policy": policy, "by": note.by }),
        EventKind::NodeLost { node } | EventKind::NodeReturned { node } => json!({ "node": node }),
        EventKind::Submitted { .. }
        | EventKind::Changed { change: JobChange::WorkLost, .. }
        | EventKind::Leased { .. }
        | EventKind::Promised { .. }
        | EventKind::Occupied { .. }
        | EventKind::RestartMeasured { .. }
        | EventKind::SpeedMeasured { .. }
        | EventKind::Decided { .. } => json!({}),
    }
}

/// A moment by both clocks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stamp {
    /// The queue's time.
    pub at: u64,
    /// Nanoseconds since 1970.
    pub wall_ns: i64,
}

/// The record of a job after an event about it. `before` is `None` for a job that is new; nothing comes of other events about a job that
/// is not known.
pub fn fold(before: Option<&JobRecord>, event: &QueueEvent, stamp: Stamp) -> Option<JobRecord> {
    if let EventKind::Admitted { job, request } = event {
        return Some(JobRecord::new(*job, request, stamp));
    }
    let mut record = before?.clone();
    match event {
        EventKind::Changed { change: JobChange::Priority(priority), .. } => {
            let mut spec = (*record.spec).clone();
            Arc::make_mut(&mut spec.ask).priority = *priority;
            record.spec = Arc::new(spec);
        }
        EventKind::Changed { change: JobChange::WorkLost, .. } => record.progress.losses += 1,
        EventKind::Changed { note, .. } => record.memory_mib = note.memory_mib,
        EventKind::Leased { .. } => record.progress.is_leased = true,
        EventKind::Committed { step, checkpoint, .. } => {
            let runs_ns = record.started_at.map_or(0, |started| stamp.at.saturating_sub(started));
            record.progress.committed_run_ns = record.progress.run_time_ns() + runs_ns;
            (record.progress.step, record.progress.has_saved) = (Some(*step), true);
            record.progress.checkpoint = checkpoint.as_deref().map(str::to_owned);
        }
        EventKind::Progress { steps, .. } => record.progress.steps_told = Some(*steps),
        EventKind::Extra { gpu, step, .. } => extras::fold(&mut record.progress.extras, gpu, *step, stamp),
        EventKind::Started { gpus, launch, .. } => {
            record.state = if record.is_claim() { JobState::Running } else { JobState::Starting };
            record.attempts = launch.attempt;
            record.gpu_uuids = gpus.iter().filter(|gpu| !gpu.starts_with(SLOT)).cloned().collect();
            record.gpu_indices.clone_from(&launch.indices);
            record.identity.clone_from(&launch.identity);
            (record.started_ns, record.started_at) = (Some(stamp.wall_ns), Some(stamp.at));
            (record.exit_code, record.signal, record.reason) = (None, None, None);
            record.progress.is_leased = false;
            record.progress.extras.clear();
        }
        EventKind::Stopping { cause, .. } => {
            record.state = JobState::Stopping;
            record.cancel |= *cause == StopCause::Cancel;
            record.stop_cause = Some(cause.clone());
        }
        EventKind::Ended { end, report, .. } => end_record(&mut record, *end, report, stamp),
        EventKind::Held { hold: Hold::User, .. } => {
            record.user_hold = true;
            record.state = JobState::Held;
        }
        EventKind::Released { hold: Hold::User, .. } => {
            record.user_hold = false;
            record.state = JobState::Waiting;
        }
        EventKind::Held { hold, .. } => record.quota_hold |= *hold == Hold::Quota,
        EventKind::Released { hold: Hold::Delay, .. } => (record.not_before, record.reason) = (None, None),
        EventKind::Released { hold, .. } => record.quota_hold &= *hold != Hold::Quota,
        EventKind::Overused { used_mib, .. } => record.peak_memory_mib = record.peak_memory_mib.max(Some(*used_mib)),
        EventKind::Admitted { .. }
        | EventKind::Submitted { .. }
        | EventKind::Promised { .. }
        | EventKind::Occupied { .. }
        | EventKind::DeviceLost { .. }
        | EventKind::DeviceReturned { .. }
        | EventKind::Drained { .. }
        | EventKind::Resumed { .. }
        | EventKind::PolicySet { .. }
        | EventKind::RestartMeasured { .. }
        | EventKind::SpeedMeasured { .. }
        | EventKind::NodeLost { .. }
        | EventKind::NodeReturned { .. }
        | EventKind::Decided { .. } => {}
    }
    Some(record)
}

/// The name of a place in which a job without GPUs runs begins with this; its number follows.
pub const SLOT: &str = "cpu:";

fn end_record(record: &mut JobRecord, end: End, report: &RunReport, stamp: Stamp) {
    if report.attempt > 0 {
        (record.exit_code, record.signal) = (report.exit_code, report.signal);
    }
    record.reason.clone_from(&report.reason);
    record.service_ns = record.service_ns.max(report.service_ns);
    record.not_before = report.not_before;
    record.memory_mib = report.memory_mib.or(record.memory_mib);
    record.ooms += u32::from(report.is_out_of_memory);
    record.peak_memory_mib = report.peak_memory_mib.or(record.peak_memory_mib);
    record.energy_joules = report.energy_joules.or(record.energy_joules);
    record.preemptions += u32::from(end == End::Preempted);
    record.progress.leaves += u32::from(report.has_saved);
    if let Some(work_ns) = report.kept_work_ns {
        record.progress.work_ns = work_ns;
    }
    record.progress.run_ns = report.kept_run_ns.or(record.progress.run_ns);
    let is_loss = end == End::Preempted && !record.progress.has_saved && !record.spec.ask.saves_progress;
    record.progress.losses += u32::from(is_loss);
    record.failures += u32::from(end == End::Retried);
    record.stop_cause = None;
    record.progress.extras.clear();
    record.cancel |= end == End::Cancelled && report.by.is_some();
    record.state = match end {
        End::Finished => JobState::Done,
        End::Crashed | End::Dependency | End::NeverFits => JobState::Failed,
        End::Cancelled => JobState::Cancelled,
        End::Lost => JobState::Lost,
        End::Preempted | End::Evicted | End::Retried if record.user_hold => JobState::Held,
        End::Preempted | End::Evicted | End::Retried => JobState::Waiting,
    };
    if end.is_over() {
        record.finished_ns = Some(report.ended_ns.unwrap_or(stamp.wall_ns));
    } else {
        record.started_at = None;
    }
}
