//! A job: what a user asks to run.

use crate::{GpuId, JobId, Name, Span, Time};
use serde::{Deserialize, Serialize};
use std::fmt;

/// A share of one GPU in thousandths. Integer, because 0.1 + 0.2 must equal 0.3.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct MilliGpu(pub u16);

impl MilliGpu {
    /// A whole GPU, not shared.
    pub const WHOLE: Self = Self(1000);

    /// From a fraction in (0, 1], rounded to a thousandth.
    pub fn from_fraction(fraction: f64) -> Option<Self> {
        let milli = (fraction * 1000.0).round();
        (1.0..=1000.0).contains(&milli).then_some(Self(milli as u16))
    }

    /// The share as a fraction of a GPU.
    pub fn fraction(self) -> f64 {
        f64::from(self.0) / 1000.0
    }
}

impl fmt::Display for MilliGpu {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{}", self.fraction())
    }
}

/// When a dependency lets its dependant go.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum DependencyCondition {
    /// Only after the other job finished well.
    Ok,
    /// After the other job ended, however it ended.
    Any,
}

/// "Start me after that one."
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Dependency {
    /// The job to wait for.
    pub job: JobId,
    /// What must have become of it.
    pub condition: DependencyCondition,
}

/// One job of a workload, as its user gave it. What became of it is a [`crate::JobState`].
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[expect(clippy::struct_excessive_bools, reason = "each is a fact of its own")]
pub struct Job {
    /// Its row in the workload.
    pub id: JobId,
    /// What its own file calls it, where that is not simply its number.
    pub label: Option<Box<str>>,
    /// The line of the trace it came from, for messages; 0 if generated.
    pub line: u32,
    /// Who asked for it (or the virtual cluster, where no more is known).
    pub user: Name,
    /// The project, virtual cluster or account that it belongs to, where that is known beside the user.
    pub project: Name,
    /// Job type: what throughput tables are keyed by.
    pub kind: Name,
    /// What a user's jobs are told apart by where lengths are learned: the [`mark`](crate::mark) of its program or name; 0 where its job
    /// type says it.
    pub program: u64,
    /// When it is submitted.
    pub arrival: Time,
    /// Gang size: GPUs it needs at once, all of one type unless [`Job::any_type`] says otherwise.
    pub gpus: u32,
    /// GPU types it accepts; empty means any.
    pub gpu_types: Box<[Name]>,
    /// How much of each of its GPUs it needs.
    pub share: MilliGpu,
    /// Memory it needs on each of its GPUs; 0 means not known (a whole GPU has enough).
    pub memory_mib: u32,
    /// Jobs share a GPU only with those of the same group: under MPS, say, only those of one user can.
    pub group: u32,
    /// Over how many nodes its gang may be spread; 0 means any number.
    pub nodes_max: u32,
    /// Run time, alone, on the reference GPU; with [`Job::steps`] it is found from the throughput table. Once the job is bound to a
    /// cluster this is zero, and the length is in [`Bound::truth`](crate::Bound::truth).
    pub work: Span,
    /// Training steps, for jobs whose length is given in steps of their job type; 0 if given as time.
    pub steps: f64,
    /// How long its user says it will run; policies and reservations use it instead of the truth.
    pub estimate: Option<Span>,
    /// How long it is reckoned to run if its user does not say; nothing is learned from that.
    pub usual: Option<Span>,
    /// Larger runs first under the `priority` policy.
    pub priority: i32,
    /// Fair share weight.
    pub weight: f64,
    /// The job's tickets in the policy `lottery`.
    pub tickets: u32,
    /// When it should be finished.
    pub deadline: Option<Time>,
    /// Jobs that must end first.
    pub after: Box<[Dependency]>,
    /// How busy it keeps the share of the GPU it has, 0 to 1; drives the power model.
    pub utilisation: f64,
    /// Each attempt fails when this much work is done (recorded failures, fault injection).
    pub fails_at: Option<Span>,
    /// How often a failed attempt is tried again.
    pub retries: u32,
    /// Whether it may be stopped for others and started again later.
    pub preemptible: bool,
    /// Whether it saves its work when it is stopped and goes on from there; otherwise it begins anew.
    pub saves_progress: bool,
    /// The only GPUs it may use; empty means any.
    pub only: Box<[GpuId]>,
    /// Whether its gang may span several GPU types. One type is preferred where it has enough GPUs.
    pub any_type: bool,
    /// Whether a process of its user holds its GPUs: nobody chose its length, and it teaches nothing about lengths.
    pub is_claim: bool,
}

impl Job {
    /// A plain job: one whole GPU of any type, everything else at its default.
    pub fn new(arrival: Time, work: Span) -> Self {
        Self {
            id: JobId(0),
            label: None,
            line: 0,
            user: Name::NONE,
            project: Name::NONE,
            kind: Name::NONE,
            program: 0,
            arrival,
            gpus: 1,
            gpu_types: Box::default(),
            share: MilliGpu::WHOLE,
            memory_mib: 0,
            group: 0,
            nodes_max: 0,
            work,
            steps: 0.0,
            estimate: None,
            usual: None,
            priority: 0,
            weight: 1.0,
            tickets: 1,
            deadline: None,
            after: Box::default(),
            utilisation: 1.0,
            fails_at: None,
            retries: 0,
            preemptible: true,
            saves_progress: true,
            only: Box::default(),
            any_type: false,
            is_claim: false,
        }
    }

    /// What people and files call this job: its label, or its number.
    pub fn display_id(&self) -> String {
        self.label.as_ref().map_or_else(|| self.id.to_string(), ToString::to_string)
    }
}
