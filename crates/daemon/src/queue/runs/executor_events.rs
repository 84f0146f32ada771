//! What the executor tells of runs and devices, other than the ends of runs.

use crate::api::JobState;
use crate::machine::platform::Platform;
use crate::machine::run_requests::run_of;
use crate::queue::world::LiveWorld;
use crate::store::record::JobRecord;
use rota_core::{Event, EventKind};
use rota_engine::State;
use rota_exec::{DeviceKey, ExecutorEvent, NodeName};
use std::sync::Arc;

/// The warning about a run whose end cannot be read.
pub(crate) const UNREADABLE: &str = "unreadable";
/// The warning about GPUs that MPS does not leave.
const MPS: &str = "mps";
/// The warning about a node that does not answer.
const NODE: &str = "node";
/// The warning about everything else that an executor finds wrong.
const EXECUTOR: &str = "executor";

impl<P: Platform> LiveWorld<P> {
    /// Takes note of an event of the executor.
    pub(crate) fn take_executor_event(&mut self, event: ExecutorEvent, state: &State, events: &mut Vec<Event>) {
        match event {
            ExecutorEvent::Running { run } => {
                let is_it = |attempts: u32, state: JobState| attempts == run.attempt && state == JobState::Starting;
                if let Some(record) =
                    self.records.jobs.get(&run.job).filter(|record| is_it(record.attempts, record.state)).cloned()
                {
                    self.show_running(&record);
                }
            }
            ExecutorEvent::Unreadable { run, problem } => {
                let text = format!("it cannot be read now what has become of job {}, and is tried again: {problem}", run.job);
                self.board.write().warnings.insert(UNREADABLE, text);
            }
            ExecutorEvent::DeviceHeld { device, reason } => {
                self.board.write().warnings.insert(MPS, format!("GPU {}: {reason}", device.uuid));
                self.set_held(&device, true, state, events);
            }
            ExecutorEvent::DeviceFree { device } => {
                self.set_held(&device, false, state, events);
                if self.devices.held.is_empty() {
                    self.board.write().warnings.remove(MPS);
                }
            }
            ExecutorEvent::Warning(text) => _ = self.board.write().warnings.insert(EXECUTOR, text),
            ExecutorEvent::NodeGone { node, reason } => {
                let text = format!("node {node} is lost: {reason}; jobs on it may run on, and none is started there");
                self.board.write().warnings.insert(NODE, text);
                self.set_node(&node, false, state, events);
                self.give_up_on(&node);
            }
            ExecutorEvent::NodeBack(node) => {
                self.board.write().warnings.remove(NODE);
                self.set_node(&node.name, true, state, events);
            }
            // A loop that is left for something else finds the change when it comes back, see `poll`.
            ExecutorEvent::InventoryChanged(_) | ExecutorEvent::NodeRemoved { .. } => self.switches.has_new_inventory = true,
            ExecutorEvent::Accepted { .. }
            // Ends are messages of their own, see `message_of`.
            | ExecutorEvent::Ended { .. }
            | ExecutorEvent::HolderGone { .. }
            | ExecutorEvent::Looked(_) => {}
        }
    }

    /// Gives up the jobs on a lost node that have saved their work through their leases: they go on elsewhere, because the old run can
    /// save nothing any more. The end of any other job must be proved before the job may start again.
    fn give_up_on(&mut self, node: &NodeName) {
        let machine = &self.devices.machine;
        let is_there = |uuid: &String| machine.gpu_of(uuid).is_some_and(|gpu| machine.node_of(gpu) == node.as_str());
        let is_on_it = |record: &&Arc<JobRecord>| record.gpu_uuids.iter().any(is_there);
        let saves = |record: &&Arc<JobRecord>| record.progress.is_leased && record.progress.has_saved;
        let runs = self.running().filter(is_on_it).filter(saves).map(|record| run_of(record)).collect::<Vec<_>>();
        for run in runs {
            self.platform.executor_mut().give_up(run);
        }
    }

    /// Takes over from the executor which nodes answer.
    pub(crate) fn find_nodes(&mut self, state: &State, events: &mut Vec<Event>) {
        for node in self.platform.executor().inventory() {
            self.set_node(&node.name, node.answers, state, events);
        }
    }

    /// A node does not answer any more, or answers again.
    pub(crate) fn set_node(&mut self, name: &NodeName, is_up: bool, state: &State, events: &mut Vec<Event>) {
        let Some(node) = self.devices.machine.node_named(name.as_str()) else { return };
        let is_up = is_up && !self.devices.leaving.contains(name.as_str());
        let told = events.iter().rev().find_map(|event| match event.kind {
            EventKind::NodeLost { node: other } if other == node => Some(false),
            EventKind::NodeReturned { node: other } if other == node => Some(true),
            _ => None,
        });
        if told.unwrap_or(state.nodes_up[node.index()]) == is_up {
            return;
        }
        let node = name.as_str().to_owned();
        let event = if is_up { EventKind::NodeReturned { node } } else { EventKind::NodeLost { node } };
        // What the store refuses is found again when the store is tried again.
        _ = self.commit(vec![event.into()], events);
    }

    /// A device is held by what a run left there, or free again.
    fn set_held(&mut self, device: &DeviceKey, is_held: bool, state: &State, events: &mut Vec<Event>) {
        let Some(gpu) = self.devices.machine.gpu_of(&device.uuid) else { return };
        if is_held {
            self.devices.held.insert(gpu);
        } else {
            self.devices.held.remove(&gpu);
        }
        self.occupy_all(std::iter::once(gpu), state, events);
    }
}
