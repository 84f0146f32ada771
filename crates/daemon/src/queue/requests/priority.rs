//! Priority: a job that waits may be moved ahead of others, or behind them.

use crate::api::JobState;
use crate::machine::platform::{Caller, Platform, Refusal, RefusalKind};
use crate::queue::world::LiveWorld;
use crate::store::journal::Note;
use rota_core::event::EventKind;
use rota_core::{Event, JobChange};

impl<P: Platform> LiveWorld<P> {
    /// Gives a job that waits, or is held, another priority; everything is decided anew at once.
    pub(crate) fn prioritise(&mut self, id: u64, priority: i32, caller: &Caller, events: &mut Vec<Event>) -> Result<(), Refusal> {
        let record = self.touch(id, caller)?;
        if !matches!(record.state, JobState::Waiting | JobState::Held) {
            let message =
                format!("job {id} has its GPUs already (it is {}): its priority changes nothing any more", record.state.word());
            return Err(Refusal::new(RefusalKind::Conflict, message));
        }
        let before = record.spec.ask.priority;
        if before == priority {
            return Ok(());
        }
        let note = Note { before: Some(before.into()), ..Note::by(&caller.user) };
        self.commit_one(EventKind::Changed { job: id, change: JobChange::Priority(priority), note }, events)
    }
}
