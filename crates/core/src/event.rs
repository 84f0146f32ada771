//! What happened: the one event type of both worlds. State, records, reports and charts are folds over these.
//!
//! The simulated world and the scheduler speak of rows in their tables ([`Tables`]); the live journal speaks of job numbers and device
//! names and adds what only a real queue knows. Both use the same [`EventKind`]: a [`Realm`] says what jobs and GPUs are called there.

use crate::bind::NewJob;
use crate::{GpuId, JobId, MilliGpu, NodeId, Span, Time};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use smallvec::SmallVec;
use std::fmt;

/// Version of the event format, written with every journal. Readers refuse versions they do not know.
pub const EVENT_VERSION: u16 = 2;

/// The GPUs of a gang; most are small, so they live inside the event.
pub type GpuList = SmallVec<[GpuId; 4]>;

/// Jobs that something waits for; mostly none or one.
pub type JobList = SmallVec<[JobId; 2]>;

/// What a world calls its jobs and GPUs, and what it writes down with them.
pub trait Realm: Clone + fmt::Debug + PartialEq {
    /// The name of a job.
    type Job: Copy + fmt::Debug + PartialEq + Serialize + DeserializeOwned;
    /// The name of a GPU.
    type Gpu: Clone + fmt::Debug + PartialEq + Serialize + DeserializeOwned;
    /// The name of a node.
    type Node: Clone + fmt::Debug + PartialEq + Serialize + DeserializeOwned;
    /// What a new job asked for.
    type Request: Clone + fmt::Debug + PartialEq + Serialize + DeserializeOwned;
    /// What is written down when a job is started.
    type Launch: Clone + fmt::Debug + Default + PartialEq + Serialize + DeserializeOwned;
    /// What is known of a run that ended.
    type Report: Clone + fmt::Debug + Default + PartialEq + Serialize + DeserializeOwned;
    /// Who caused an event, and how.
    type Note: Clone + fmt::Debug + Default + PartialEq + Serialize + DeserializeOwned;
}

/// The realm of the simulator and the scheduler: rows in their tables.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Tables;

impl Realm for Tables {
    type Job = JobId;
    type Gpu = GpuId;
    type Node = NodeId;
    type Request = NewJob;
    type Launch = ();
    type Report = ();
    type Note = ();
}

/// How a run ended, or the wait of a job that never ran.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum End {
    /// The job ended well.
    Finished,
    /// The job itself ended with an error, and is not tried again.
    Crashed,
    /// A job it had to wait for did not end well.
    Dependency,
    /// No node that could hold the job will come back, or the machine has changed and cannot hold it any more.
    NeverFits,
    /// The job's user or an administrator ended it.
    Cancelled,
    /// Nobody can say how the job ended: its supervisor was killed, or the machine was restarted under it.
    Lost,
    /// The scheduler took the job's GPUs; the job waits again.
    Preempted,
    /// The job lost its GPUs with a node or a device, or never got to run; it waits again.
    Evicted,
    /// An attempt ended with an error; the job will be tried again from the beginning.
    Retried,
}

impl End {
    /// Every way in which a run can end.
    pub const ALL: [Self; 9] = [
        Self::Finished,
        Self::Crashed,
        Self::Dependency,
        Self::NeverFits,
        Self::Cancelled,
        Self::Lost,
        Self::Preempted,
        Self::Evicted,
        Self::Retried,
    ];

    /// Whether the job is over, rather than waiting for another run.
    pub fn is_over(self) -> bool {
        !matches!(self, Self::Preempted | Self::Evicted | Self::Retried)
    }
}

impl fmt::Display for End {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(match self {
            Self::Finished => "finished",
            Self::Crashed => "crashed",
            Self::Dependency => "a job it waits for failed",
            Self::NeverFits => "the nodes it needs were lost",
            Self::Cancelled => "cancelled",
            Self::Lost => "nobody can say how it ended",
            Self::Preempted => "preempted",
            Self::Evicted => "lost its GPUs",
            Self::Retried => "failed, and is tried again",
        })
    }
}

/// Why a running job is being stopped.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum StopCause {
    /// The job's user or an administrator cancelled it.
    Cancel,
    /// The policy wants the job's GPUs for others.
    Preempt,
    /// The job's GPU was lost; the job is to be tried again.
    Evict,
    /// The job's GPU was lost, and the job has failed for this reason.
    Fail(String),
    /// The job used more memory than it was given, beside others.
    Overuse,
}

/// Why a job may not be started.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Hold {
    /// The job's user holds it.
    User,
    /// The job failed and is tried again after a delay.
    Delay,
    /// The job's user has as many GPUs as one user may have.
    Quota,
    /// The job runs on a GPU that is not there any more: it must not be started a second time.
    Astray,
}

/// Why a decision is made.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Occasion {
    /// Something happened, or the policy asked to be called.
    Event,
    /// A round ended.
    Tick,
    /// The plan just made was carried out.
    FollowUp,
}

/// What is changed about a job that is known already.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum JobChange {
    /// The priority it has from now on.
    Priority(i32),
    /// What it takes of each GPU, because more is known of it. The job must not be on GPUs.
    Slice {
        /// Share of each GPU.
        share: MilliGpu,
        /// Memory on each GPU.
        memory_mib: u32,
        /// The group of jobs it may share a GPU with.
        group: u32,
    },
    /// Its last run did not leave in time when it was asked to, and what it did since it last saved is lost.
    WorkLost,
}

/// What becomes of a GPU beyond those that a job asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ExtraStep {
    /// The run may use it from now on, until it is asked for it.
    Offered,
    /// The run was asked to give it back. It holds it until it has.
    Withdrawn,
    /// The run uses it no more.
    Returned,
}

fn is_default<T: Default + PartialEq>(value: &T) -> bool {
    *value == T::default()
}

/// What happened to a job, a GPU, a node or the queue.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "event", rename_all = "snake_case", bound = "")]
pub enum EventKind<R: Realm = Tables> {
    /// A job that nobody knew of before was accepted.
    Admitted {
        /// The job it happened to.
        job: R::Job,
        /// What it asked for.
        request: Box<R::Request>,
    },
    /// A job that is known already was submitted and waits (or waits for its dependencies).
    Submitted {
        /// The job it happened to.
        job: R::Job,
    },
    /// Something about the job was changed.
    Changed {
        /// The job it happened to.
        job: R::Job,
        /// What is different from now on.
        change: JobChange,
        /// Who asked for it.
        #[serde(default, skip_serializing_if = "is_default")]
        note: R::Note,
    },
    /// The job began or resumed on these GPUs.
    Started {
        /// The job it happened to.
        job: R::Job,
        /// Its gang, in ascending order.
        gpus: SmallVec<[R::Gpu; 4]>,
        /// What was written down with the start.
        #[serde(default, skip_serializing_if = "is_default")]
        launch: R::Launch,
    },
    /// The job was asked to stop. It holds its GPUs until it has ended.
    Stopping {
        /// The job it happened to.
        job: R::Job,
        /// The reason for it, in the words of the domain.
        cause: StopCause,
        /// Who asked for it.
        #[serde(default, skip_serializing_if = "is_default")]
        note: R::Note,
    },
    /// These GPUs go to the job as soon as the jobs that are leaving them have ended.
    Promised {
        /// The job that will start.
        job: R::Job,
        /// Its gang, in ascending order.
        gpus: SmallVec<[R::Gpu; 4]>,
        /// The jobs that must end first.
        after: SmallVec<[R::Job; 2]>,
    },
    /// A run of the job ended, or its wait.
    Ended {
        /// The job it happened to.
        job: R::Job,
        /// The way in which it ended.
        end: End,
        /// What is known of the run.
        #[serde(default, skip_serializing_if = "is_default")]
        report: R::Report,
    },
    /// The job may not be started until it is released, once for every time it was held.
    Held {
        /// The job it happened to.
        job: R::Job,
        /// The reason for it, in the words of the domain.
        hold: Hold,
        /// Who asked for it.
        #[serde(default, skip_serializing_if = "is_default")]
        note: R::Note,
    },
    /// One hold on the job was lifted.
    Released {
        /// The job it happened to.
        job: R::Job,
        /// The hold that was lifted.
        hold: Hold,
        /// Who asked for it.
        #[serde(default, skip_serializing_if = "is_default")]
        note: R::Note,
    },
    /// Others than the scheduler's jobs hold so much of a GPU from now on: a stranger's process, or an administrator who drains it.
    Occupied {
        /// The GPU it happened to.
        gpu: R::Gpu,
        /// Share of it, in thousandths.
        share: MilliGpu,
        /// Memory on it.
        memory_mib: u32,
    },
    /// The job was seen to use more memory of a GPU than it was given.
    Overused {
        /// The job it happened to.
        job: R::Job,
        /// Memory it used.
        used_mib: u64,
        /// Memory it was given.
        given_mib: u32,
    },
    /// A GPU does not answer any more.
    DeviceLost {
        /// The GPU it happened to.
        gpu: R::Gpu,
    },
    /// A GPU that was lost answers again.
    DeviceReturned {
        /// The GPU it happened to.
        gpu: R::Gpu,
    },
    /// Nothing more is started: on one GPU, or anywhere. Nobody is stopped for it.
    Drained {
        /// The GPU; none means the whole queue.
        gpu: Option<R::Gpu>,
        /// Who asked for it.
        #[serde(default, skip_serializing_if = "is_default")]
        note: R::Note,
    },
    /// Jobs are started again: on one GPU, or anywhere.
    Resumed {
        /// The GPU; none means the whole queue.
        gpu: Option<R::Gpu>,
        /// Who asked for it.
        #[serde(default, skip_serializing_if = "is_default")]
        note: R::Note,
    },
    /// Another policy decides from now on.
    PolicySet {
        /// The policy, as `name:key=value,…`.
        policy: Box<str>,
        /// Who asked for it.
        #[serde(default, skip_serializing_if = "is_default")]
        note: R::Note,
    },
    /// It was measured how long jobs of a type that are stopped and started again do nothing.
    RestartMeasured {
        /// The job type; empty for jobs without one.
        #[serde(default)]
        job_type: Box<str>,
        /// From the request to stop until the job is gone, and from its next start until its first step.
        cost: Span,
        /// The part of it from the start until the first step.
        #[serde(default)]
        start: Span,
    },
    /// It was measured how fast jobs of a type are on GPUs of one type.
    SpeedMeasured {
        /// The job type.
        job_type: Box<str>,
        /// The gang size.
        gpus: u32,
        /// The GPU type.
        gpu_type: Box<str>,
        /// The type of the job on the same GPUs, if there was one.
        #[serde(default, skip_serializing_if = "is_default")]
        beside: Option<Box<str>>,
        /// Steps that the job did.
        steps: u64,
        /// How long it took for them.
        ran: Span,
    },
    /// The job asked for the lease of its present run: it hears of a stop through it, and needs no signal.
    Leased {
        /// The job it happened to.
        job: R::Job,
    },
    /// The job saved its work, and goes on from there when it is started again.
    Committed {
        /// The job it happened to.
        job: R::Job,
        /// Steps done since the job's first start that are saved.
        step: u64,
        /// Where they are saved, below the job's folder for checkpoints.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        checkpoint: Option<Box<str>>,
    },
    /// What the job told of its progress in a run that ends.
    Progress {
        /// The job it happened to.
        job: R::Job,
        /// Steps done since the job's first start, saved or not.
        steps: u64,
        /// Steps done in this run.
        run_steps: u64,
        /// How long the run took for them.
        ran: Span,
    },
    /// A GPU beyond those that the job asked for changed hands. To the scheduler it is occupied while the job has it.
    Extra {
        /// The job it happened to.
        job: R::Job,
        /// The GPU it happened to.
        gpu: R::Gpu,
        /// What became of it.
        step: ExtraStep,
    },
    /// A node does not answer any more: nothing is started on it. Jobs that are still on it end by events of their own.
    NodeLost {
        /// The node it happened to.
        node: R::Node,
    },
    /// A node that was lost answers again.
    NodeReturned {
        /// The node it happened to.
        node: R::Node,
    },
    /// The scheduler looked at everything and decided. What came of it follows as events of its own; a policy that remembers its
    /// decisions remembers this one after a restart because the decision is made again at this place.
    Decided {
        /// The reason for it, in the words of the domain.
        occasion: Occasion,
    },
}

impl<R: Realm> EventKind<R> {
    /// The job this is about, if it is about one.
    pub fn job(&self) -> Option<R::Job> {
        match *self {
            Self::Admitted { job, .. }
            | Self::Submitted { job }
            | Self::Changed { job, .. }
            | Self::Started { job, .. }
            | Self::Stopping { job, .. }
            | Self::Promised { job, .. }
            | Self::Ended { job, .. }
            | Self::Held { job, .. }
            | Self::Released { job, .. }
            | Self::Leased { job }
            | Self::Committed { job, .. }
            | Self::Progress { job, .. }
            | Self::Extra { job, .. }
            | Self::Overused { job, .. } => Some(job),
            Self::Occupied { .. }
            | Self::DeviceLost { .. }
            | Self::DeviceReturned { .. }
            | Self::Drained { .. }
            | Self::Resumed { .. }
            | Self::PolicySet { .. }
            | Self::RestartMeasured { .. }
            | Self::SpeedMeasured { .. }
            | Self::NodeLost { .. }
            | Self::NodeReturned { .. }
            | Self::Decided { .. } => None,
        }
    }
}

impl EventKind {
    /// A run in the scheduler's tables ended.
    pub fn ended(job: JobId, end: End) -> Self {
        Self::Ended { job, end, report: () }
    }

    /// A run in the scheduler's tables began.
    pub fn started(job: JobId, gpus: GpuList) -> Self {
        Self::Started { job, gpus, launch: () }
    }
}

/// One thing that happened, and when.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(bound = "")]
pub struct Event<R: Realm = Tables> {
    /// When, in nanoseconds since the trace's zero.
    pub time_ns: Time,
    /// What happened to a job, a GPU, a node or the queue.
    #[serde(flatten)]
    pub kind: EventKind<R>,
}

impl Event {
    /// Something that happened at a moment.
    pub fn at(time_ns: Time, kind: EventKind) -> Self {
        Self { time_ns, kind }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn events_keep_their_form_on_disk() {
        let gpus = GpuList::from_slice(&[GpuId(1), GpuId(2)]);
        let event = Event::at(Time(5), EventKind::started(JobId(3), gpus));
        let text = serde_json::to_string(&event).unwrap();
        assert_eq!(text, r#"{"time_ns":5,"event":"started","job":3,"gpus":[1,2]}"#);
        assert_eq!(serde_json::from_str::<Event>(&text).unwrap(), event);
        let event = Event::at(Time(6), EventKind::ended(JobId(3), End::Crashed));
        let text = serde_json::to_string(&event).unwrap();
        assert_eq!(text, r#"{"time_ns":6,"event":"ended","job":3,"end":"crashed"}"#);
        assert_eq!(serde_json::from_str::<Event>(&text).unwrap(), event);
    }
}
