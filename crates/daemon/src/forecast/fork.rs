//! A copy of the queue at one moment. It costs the queue's thread a few milliseconds where thousands of jobs wait.

use crate::machine::platform::Platform;
use crate::queue::world::LiveWorld;
use crate::store::record::JobRecord;
use rota_core::{Span, Time};
use rota_engine::{Engine, Pending, Session, World};
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
