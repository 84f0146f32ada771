//! Groups of jobs, and what is done to many jobs at once.

use super::job::JobState;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use utoipa::ToSchema;

/// How many members of a group are in which state. A member that was run again counts once, by its newest job.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct GroupCounts {
    /// Members that ended with exit code 0.
    pub done: u64,
    /// Members that have GPUs: starting, running or stopping.
    pub running: u64,
    /// Members that wait.
    pub waiting: u64,
    /// Members that are held.
    pub held: u64,
    /// Members that ended with another exit code, or by a signal.
    pub failed: u64,
    /// Members that were cancelled.
    pub cancelled: u64,
    /// Members whose end is not known.
    pub lost: u64,
}

impl GroupCounts {
    /// Counts jobs in a state.
    pub fn add(&mut self, state: JobState, jobs: u64) {
        let count = match state {
            JobState::Done => &mut self.done,
            JobState::Starting | JobState::Running | JobState::Stopping => &mut self.running,
            JobState::Waiting => &mut self.waiting,
            JobState::Held => &mut self.held,
            JobState::Failed => &mut self.failed,
            JobState::Cancelled => &mut self.cancelled,
            JobState::Lost => &mut self.lost,
        };
        *count += jobs;
    }

    /// The number of members in all states.
    pub fn all(&self) -> u64 {
        self.open() + self.done + self.failed + self.cancelled + self.lost
    }

    /// Members that are not over.
    pub fn open(&self) -> u64 {
        self.running + self.waiting + self.held
    }

    /// In words: `12 done, 3 running, 1 failed`.
    pub fn words(&self) -> String {
        let counts = [
            (self.done, "done"),
            (self.running, "running"),
            (self.waiting, "waiting"),
            (self.held, "held"),
            (self.failed, "failed"),
            (self.cancelled, "cancelled"),
            (self.lost, "lost"),
        ];
        let words = counts.iter().filter(|(count, _)| *count > 0).map(|(count, word)| format!("{count} {word}"));
        words.collect::<Vec<_>>().join(", ")
    }
}

/// A group: the jobs of one array, sweep or batch.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Group {
    /// The group's number, which is that of its first job.
    pub id: u64,
    /// The name that was given, or the script that the jobs run; empty where it is another user's and users have privacy.
    pub name: String,
    /// The owner's name.
    pub user: String,
    /// The project that the jobs' GPU time is counted under.
    pub project: Option<String>,
    /// The GPUs that each job asked for.
    pub gpus_requested: u32,
    /// The names of the parameters, in the order in which they were given.
    pub params: Vec<String>,
    /// The number of jobs in each state.
    pub counts: GroupCounts,
    /// The moment of the submit, RFC 3339.
    pub submitted_at: String,
    /// The end of the last job, RFC 3339; null while one is not over.
    pub finished_at: Option<String>,
}

/// A group with a row for each of its members.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct GroupDetail {
    /// The group, as it is in lists.
    #[serde(flatten)]
    pub group: Group,
    /// The members, in the order of the submit.
    pub members: Vec<GroupMember>,
}

/// One member of a group: its parameters, and what came of it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct GroupMember {
    /// The newest job of this member.
    pub id: u64,
    /// The member's name, as `bert[lr=0.1,seed=2]`.
    pub name: Option<String>,
    /// The member's index in an array.
    pub array_index: Option<u64>,
    /// The member's parameters.
    pub params: BTreeMap<String, String>,
    /// The state of the newest job.
    pub state: JobState,
    /// Its exit code.
    pub exit_code: Option<i32>,
    /// The signal that ended it.
    pub signal: Option<i32>,
    /// How long its last attempt ran, or has run so far.
    pub duration_seconds: Option<f64>,
    /// The last line that it wrote, for its owner and for administrators.
    pub result: Option<String>,
    /// Jobs that this member had: more than 1 where it was run again.
    pub jobs: u32,
}

/// What is done to jobs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "lowercase")]
pub enum JobVerb {
    /// End the jobs.
    Cancel,
    /// Keep waiting jobs from starting.
    Hold,
    /// Let held jobs start.
    Release,
    /// Run jobs that are over again, as new jobs.
    Retry,
}

/// One thing that is done to many jobs.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct JobsAction {
    /// What is done.
    pub verb: JobVerb,
    /// The numbers of the jobs.
    pub ids: Vec<u64>,
    /// Only jobs that are still in one of these states are touched; empty means all.
    #[serde(default)]
    pub states: Vec<JobState>,
}

/// What came of it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct JobsActed {
    /// The jobs that it was done to; the new jobs of a retry.
    pub ids: Vec<u64>,
    /// Jobs that were left alone because they are in another state by now.
    pub skipped: Vec<u64>,
    /// Jobs that it could not be done to, and why.
    pub refused: Vec<JobRefused>,
}

/// A job that something could not be done to.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct JobRefused {
    /// The job's number.
    pub id: u64,
    /// Why it could not be done, in words.
    pub reason: String,
}
