//! The daemon's own machine as one of the nodes of a run that is on several: its part is run by the daemon's own executor.

use std::collections::HashSet;
use std::sync::mpsc::Sender;
use std::sync::{Arc, Mutex, PoisonError};

use super::protocol::HeldState;
use super::runner::Input;
use crate::LocalExecutor;
use crate::executor::{Adoption, EventSink, Executor, ExecutorEvent, KnownRun, RunKey};

/// An executor that two have in hand.
pub(crate) type SharedExecutor = Arc<Mutex<LocalExecutor>>;

/// The runs that are on the daemon's own machine and on other nodes.
#[derive(Clone, Default)]
pub(super) struct HomeRuns(Arc<Mutex<HashSet<RunKey>>>);

impl HomeRuns {
    pub(super) fn insert(&self, run: RunKey) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).insert(run);
    }

    /// Where the events of the daemon's own executor go: those of these runs to their part, all others to the caller.
    pub(super) fn sink(&self, caller: EventSink, inputs: Sender<Input>) -> EventSink {
        let runs = self.clone();
        Arc::new(move |event: ExecutorEvent| {
            let mut known = runs.0.lock().unwrap_or_else(PoisonError::into_inner);
            let is_over = matches!(event, ExecutorEvent::Ended { .. });
            let is_ours = event.run().is_some_and(|run| if is_over { known.remove(&run) } else { known.contains(&run) });
            drop(known);
            if is_ours {
                // A daemon that ends has nobody who wants to know.
                _ = inputs.send(Input::Event(event));
            } else {
                caller(event);
            }
        })
    }
}

/// The daemon's own machine.
pub(super) struct HomeNode {
    pub(super) executor: SharedExecutor,
    pub(super) runs: HomeRuns,
    pub(super) inputs: Sender<Input>,
}

impl HomeNode {
    /// Takes over the part of a run that an earlier daemon has started here.
    pub(super) fn adopt(&self, known: &KnownRun) -> HeldState {
        self.runs.insert(known.run);
        let state = match self.executor.lock().unwrap_or_else(PoisonError::into_inner).adopt(known) {
            Adoption::Running => HeldState::Running,
            Adoption::Unknown => HeldState::Unknown,
            Adoption::Ended(end) => HeldState::Ended(end),
        };
        if let Some(identity) = known.identity.clone() {
            // A daemon that ends has nobody who wants to know.
            _ = self.inputs.send(Input::Adopted(known.run, identity, state.clone()));
        }
        state
    }
}
