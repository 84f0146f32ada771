//! What happened: the one event type of both worlds. State, reports and charts are folds over these.

use crate::{GpuId, JobId, MilliGpu, NodeId, Time};
use serde::{Deserialize, Serialize};
use smallvec::SmallVec;
use std::fmt;

/// Version of the event format, written with every journal. Readers refuse versions they do not know.
pub const EVENT_VERSION: u16 = 1;

/// The GPUs of a gang; most are small, so they live inside the event.
pub type GpuList = SmallVec<[GpuId; 4]>;

/// Why a job failed for good or for this attempt.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum FailReason {
    /// The job itself ended with an error.
    Crashed,
    /// A job it had to wait for did not end well.
    Dependency,
    /// No node that could hold it will come back.
    NeverFits,
    /// Its user or an administrator ended it.
    Cancelled,
    /// Nobody can say how it ended: its supervisor was killed, or the machine was restarted under it.
    Lost,
}

impl fmt::Display for FailReason {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(match self {
            Self::Crashed => "crashed",
            Self::Dependency => "a job it waits for failed",
            Self::NeverFits => "the nodes it needs were lost",
            Self::Cancelled => "cancelled",
            Self::Lost => "nobody can say how it ended",
        })
    }
}

/// What happened to whom.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "event", rename_all = "snake_case")]
pub enum EventKind {
    /// The job was submitted and waits (or waits for its dependencies).
    Submitted {
        /// Which job.
        job: JobId,
    },
    /// The job began or resumed on these GPUs.
    Started {
        /// Which job.
        job: JobId,
        /// Its gang, in ascending order.
        gpus: GpuList,
    },
    /// The scheduler took the job's GPUs; its progress is kept.
    Preempted {
        /// Which job.
        job: JobId,
    },
    /// The job lost its GPUs with a node; progress since its last checkpoint is gone.
    Evicted {
        /// Which job.
        job: JobId,
    },
    /// An attempt ended with an error and the job will be tried again from the beginning.
    Retried {
        /// Which job.
        job: JobId,
    },
    /// The job ended well.
    Finished {
        /// Which job.
        job: JobId,
    },
    /// The job ended badly, for good.
    Failed {
        /// Which job.
        job: JobId,
        /// Why.
        reason: FailReason,
    },
    /// The job may not be started until it is released, once for every time it was held.
    Held {
        /// Which job.
        job: JobId,
    },
    /// One hold on the job was lifted.
    Released {
        /// Which job.
        job: JobId,
    },
    /// Others than the scheduler's jobs hold so much of a GPU from now on: a stranger's process, or an administrator who drains it.
    Occupied {
        /// Which GPU.
        gpu: GpuId,
        /// Share of it, in thousandths.
        share: MilliGpu,
        /// Memory on it.
        memory_mib: u32,
    },
    /// A node went away, after the jobs on it were evicted.
    NodeLost {
        /// Which node.
        node: NodeId,
    },
    /// A node came back, empty.
    NodeReturned {
        /// Which node.
        node: NodeId,
    },
}

impl EventKind {
    /// The job this is about, if it is about one.
    pub fn job(&self) -> Option<JobId> {
        match *self {
            Self::Submitted { job }
            | Self::Started { job, .. }
            | Self::Preempted { job }
            | Self::Evicted { job }
            | Self::Retried { job }
            | Self::Finished { job }
            | Self::Failed { job, .. }
            | Self::Held { job }
            | Self::Released { job } => Some(job),
            Self::Occupied { .. } | Self::NodeLost { .. } | Self::NodeReturned { .. } => None,
        }
    }
}

/// One thing that happened, and when.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Event {
    /// When, in nanoseconds since the trace's zero.
    pub time_ns: Time,
    /// What.
    #[serde(flatten)]
    pub kind: EventKind,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn events_keep_their_form_on_disk() {
        let event = Event {
            time_ns: Time(5),
            kind: EventKind::Started { job: JobId(3), gpus: GpuList::from_slice(&[GpuId(1), GpuId(2)]) },
        };
        let text = serde_json::to_string(&event).unwrap();
        assert_eq!(text, r#"{"time_ns":5,"event":"started","job":3,"gpus":[1,2]}"#);
        assert_eq!(serde_json::from_str::<Event>(&text).unwrap(), event);
    }
}
