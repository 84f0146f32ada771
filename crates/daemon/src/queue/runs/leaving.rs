//! Nodes that will be gone soon, because their allocation ends: nothing more is started there, and their jobs are told to leave.

use crate::machine::platform::Platform;
use crate::queue::world::LiveWorld;
use crate::store::journal::Note;
use rota_core::Event;
use rota_core::event::{EventKind, StopCause};
use rota_engine::State;
use rota_exec::NodeName;

impl<P: Platform> LiveWorld<P> {
    /// Takes note that nodes are leaving. Jobs that can save are told to, as when they make room for others; other jobs are ended and
    /// begin anew elsewhere, because the end of their node would end them, too.
    pub(crate) fn take_leaving(&mut self, nodes: &[String], reason: &str, state: &State, events: &mut Vec<Event>) {
        self.devices.leaving.extend(nodes.iter().cloned());
        for node in nodes {
            self.set_node(&NodeName::new(node), false, state, events);
        }
        let machine = &self.devices.machine;
        let is_there =
            |uuid: &String| machine.gpu_of(uuid).is_some_and(|gpu| nodes.iter().any(|node| node == machine.node_of(gpu)));
        let affected = self.running().filter(|record| record.stop_cause.is_none() && record.gpu_uuids.iter().any(is_there));
        for record in affected.cloned().collect::<Vec<_>>() {
            let cause = if record.spec.ask.preemptible { StopCause::Preempt } else { StopCause::Evict };
            let stopping = EventKind::Stopping { job: record.id, cause, note: Note::default() };
            // What is not written down is not done: the end of the node will be told.
            if self.commit(vec![stopping.into()], events).is_ok() {
                self.pace.stopping(record.id, self.platform.now());
                self.platform.make_leave(&record);
            }
        }
        if !reason.is_empty() {
            self.board.write().warnings.insert("node", reason.to_owned());
        }
    }
}
