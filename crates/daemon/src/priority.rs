//! Priority: a job that waits may be moved ahead of others, or behind them.

use crate::api::{State, Submit};
use crate::platform::{Caller, Platform, Refusal, RefusalKind};
use crate::record::{Record, Spec};
use crate::world::LiveWorld;
use rota_engine::State as EngineState;
use serde_json::json;
use std::sync::Arc;

impl<P: Platform> LiveWorld<P> {
    /// Gives a job that waits, or is held, another priority; everything is decided anew at once.
    pub(crate) fn prioritise(&mut self, id: u64, priority: i32, caller: &Caller, state: &mut EngineState) -> Result<(), Refusal> {
        let record = self.touch(id, caller)?;
        if !matches!(record.state, State::Waiting | State::Held) {
            let message =
                format!("job {id} has its GPUs already (it is {}): its priority changes nothing any more", record.state.word());
            return Err(Refusal::new(RefusalKind::Conflict, message));
        }
        let before = record.spec.ask.priority;
        if before == priority {
            return Ok(());
        }
        let spec = Spec { ask: Submit { priority, ..record.spec.ask.clone() }, ..(*record.spec).clone() };
        let changed = Record { spec: Arc::new(spec), ..(*record).clone() };
        self.commit_one(changed, "priority", json!({ "by": caller.user, "from": before, "to": priority }))?;
        if let Some(job) = self.number(id) {
            state.reprioritise(job, priority);
        }
        // The scheduler is told no event, and must decide all the same.
        self.telemetry.wants_decision = true;
        Ok(())
    }
}
