//! The machine that this daemon runs on: its clock, the messages of its threads, and its executor.

use crate::clock::{Clock, SystemClock};
use crate::machine::platform::{Message, Outcome, Platform};
use crate::machine::run_requests::RunRequests;
use crate::store::record::JobRecord;
use rota_core::Time;
use rota_exec::{CompositeExecutor, Executor, Identity, RunKey};
use std::sync::mpsc::{Receiver, RecvTimeoutError};
use std::time::Duration;

/// Messages taken at once: enough to share one write to the disk, few enough to answer soon.
const BATCH_MAX: usize = 8192;

/// The machine that this daemon runs on.
pub struct SystemPlatform {
    clock: SystemClock,
    inbox: Receiver<Message>,
    executor: CompositeExecutor,
    requests: RunRequests,
}

impl SystemPlatform {
    /// A platform whose jobs are run by this executor.
    pub fn new(clock: SystemClock, inbox: Receiver<Message>, executor: CompositeExecutor, requests: RunRequests) -> Self {
        Self { clock, inbox, executor, requests }
    }
}

impl Platform for SystemPlatform {
    fn now(&self) -> Time {
        self.clock.now()
    }

    fn wall_ns(&self) -> i64 {
        self.clock.wall_ns()
    }

    fn wait(&mut self, until: Option<Time>) -> Option<Vec<Message>> {
        let first = match until {
            None => self.inbox.recv().map_err(|_| RecvTimeoutError::Disconnected),
            Some(until) => self.inbox.recv_timeout(Duration::from_nanos(until.0.saturating_sub(self.now().0))),
        };
        match first {
            Ok(first) => Some(std::iter::once(first).chain(self.inbox.try_iter()).take(BATCH_MAX).collect()),
            Err(RecvTimeoutError::Timeout) => Some(Vec::new()),
            Err(RecvTimeoutError::Disconnected) => None,
        }
    }

    fn executor(&self) -> &dyn Executor {
        &self.executor
    }

    fn executor_mut(&mut self) -> &mut dyn Executor {
        &mut self.executor
    }

    fn requests(&mut self) -> &mut RunRequests {
        &mut self.requests
    }

    fn watch_holder(&mut self, record: &JobRecord) -> Option<Outcome> {
        let holder = record.spec.holder.as_ref()?;
        let identity = Identity { pid: holder.pid, start_ticks: holder.start_ticks, boot_id: holder.boot_id.clone() };
        let claim = RunKey { job: record.id, attempt: record.attempts };
        (!self.executor.watch_holder(claim, &identity)).then_some(Outcome::HolderGone)
    }
}
