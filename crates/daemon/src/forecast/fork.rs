//! A copy of the queue at one moment. It costs the queue's thread a few milliseconds where thousands of jobs wait.

use crate::forecast::learned::Learned;
use crate::machine::platform::Platform;
use crate::queue::world::LiveWorld;
use crate::store::record::JobRecord;
use rota_core::snapshot::work_done;
use rota_core::{JobId, Span, Time};
use rota_engine::{Engine, Pending, Session, World};
use rota_forecast::{Fork, LengthBelief, RunLength};
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
    /// How long jobs take to leave when they are stopped for others.
    pub stop_time: Span,
}

impl QueueFork {
    /// A moment of the queue's time in nanoseconds since 1970.
    pub fn wall(&self, time: Time) -> i64 {
        wall_of(time, self.now, self.wall_ns)
    }

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

    /// Another copy, with what is believed of the length of each job.
    pub fn believed(&self, learned: &Learned) -> Fork {
        Fork {
            engine: self.engine.clone(),
            pending: self.pending,
            now: self.now,
            numbers: self.numbers.clone(),
            lengths: self.lengths(learned),
            stop_time: self.stop_time,
            recent: None,
        }
    }
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
        stop_time: Span::ZERO,
    };
    // A daemon that ends has no forecaster any more.
    _ = asker.send(fork);
}
