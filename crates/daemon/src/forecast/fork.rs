//! A copy of the queue at one moment. It costs the queue's thread a few milliseconds where thousands of jobs wait.

use crate::config::Users;
use crate::forecast::learned::Learned;
use crate::machine::inventory::CPU;
use crate::machine::platform::Platform;
use crate::queue::world::LiveWorld;
use crate::store::record::JobRecord;
use rota_core::snapshot::work_done;
use rota_core::{End, JobId, Span, StopCause, Time};
use rota_engine::{Engine, Pending, Session, World};
use rota_forecast::{ArrivalPool, Fork, Holds, LengthBelief, QuotaLimits, RunLength};
use std::sync::Arc;
use std::sync::mpsc::Sender;

/// The queue at one moment.
pub struct QueueFork {
    /// State, policy and placement.
    pub engine: Engine,
    /// What the session has not come to yet.
    pub pending: Pending,
    /// The moment, in the queue's time.
    pub now: Time,
    /// The same moment, in nanoseconds since 1970.
    pub wall_ns: i64,
    /// The number of each row's job.
    pub numbers: Vec<u64>,
    /// The record of each row's job, while it is not over.
    pub records: Vec<Option<Arc<JobRecord>>>,
    /// GPUs that users may have at once.
    pub limits: QuotaLimits,
}

impl QueueFork {
    /// The records of jobs that run, and the seconds each has behind it on its best GPU type.
    pub fn running(&self) -> impl Iterator<Item = (&JobRecord, f64)> {
        let state = &self.engine.state;
        let rows = self.records.iter().zip(&state.jobs).enumerate();
        rows.filter(|(_, (_, job))| job.phase.has_gpus()).filter_map(|(row, (record, job))| {
            let done = work_done(job, self.now).at_speed(state.bound.best_speed(JobId::from_index(row)));
            Some((record.as_deref()?, done.seconds()))
        })
    }

    /// What is believed of the length of each job.
    pub fn lengths(&self, learned: &Learned) -> Vec<RunLength> {
        let unknown = RunLength { belief: LengthBelief::Unknown, limit_seconds: None };
        let length =
            |record: &Option<Arc<JobRecord>>| record.as_deref().map_or_else(|| unknown.clone(), |record| learned.length(record));
        self.records.iter().map(length).collect()
    }

    /// The same copy, to be run forward with these lengths. Jobs that are stopped for others are taken to leave at once.
    pub fn into_fork(self, lengths: Vec<RunLength>, recent: Option<Arc<ArrivalPool>>) -> Fork {
        let holds = self.holds();
        let Self { engine, pending, now, numbers, .. } = self;
        Fork { engine, pending, now, numbers, lengths, stop_time: Span::ZERO, holds, recent }
    }

    /// What keeps jobs from starting beside a lack of GPUs, and which of those that are stopping will not wait again.
    fn holds(&self) -> Holds {
        let mut holds = Holds { limits: self.limits.clone(), processor: Some(CPU.into()), ..Holds::default() };
        for (row, record) in self.records.iter().enumerate() {
            let (job, Some(record)) = (JobId::from_index(row), record) else { continue };
            if record.user_hold {
                holds.by_user.push(job);
            }
            if record.quota_hold {
                holds.by_quota.push(job);
            }
            if let Some(until) = record.not_before {
                holds.until.push((Time(until), job));
            }
            let end = match record.stop_cause {
                _ if record.cancel => Some(End::Cancelled),
                Some(StopCause::Cancel | StopCause::Overuse) => Some(End::Cancelled),
                Some(StopCause::Fail(_)) if record.failures >= record.spec.ask.retries => Some(End::Crashed),
                _ => None,
            };
            holds.stopped_for_good.extend(end.map(|end| (job, end)));
        }
        holds
    }
}

/// GPUs that users may have at once, by the settings.
fn limits(users: &Users) -> QuotaLimits {
    let of_user = users.quota.iter().map(|(user, quota)| (user.as_str().into(), quota.gpus)).collect();
    let limits = QuotaLimits { usual: users.default.gpus, of_user };
    if limits.usual.is_none() && limits.of_user.values().all(Option::is_none) { QuotaLimits::default() } else { limits }
}

/// A moment of the queue's time in nanoseconds since 1970, by one that is known in both.
pub fn wall_of(time: Time, now: Time, wall_ns: i64) -> i64 {
    wall_ns.saturating_add(time.0.cast_signed().saturating_sub(now.0.cast_signed()))
}

/// Where a copy goes.
pub type ForkSender = Sender<QueueFork>;

/// Hands a copy of the queue to the thread that asked for one.
pub fn hand_over<P: Platform>(session: &Session<LiveWorld<P>>, asker: &ForkSender) {
    let world = &session.world;
    let numbers = world.rows.ids().to_vec();
    let fork = QueueFork {
        engine: session.engine.clone(),
        pending: session.pending(),
        now: world.now(),
        wall_ns: world.platform.wall_ns(),
        records: numbers.iter().map(|id| world.records.jobs.get(id).cloned()).collect(),
        numbers,
        limits: limits(&world.config.users),
    };
    // A daemon that ends has no forecaster any more.
    _ = asker.send(fork);
}
