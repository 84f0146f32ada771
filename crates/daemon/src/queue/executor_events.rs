//! What the executor tells of runs and devices, other than the ends of runs.

use crate::api::JobState;
use crate::machine::platform::Platform;
use crate::queue::world::LiveWorld;
use rota_core::Event;
use rota_engine::State;
use rota_exec::{DeviceKey, ExecutorEvent};

/// The warning about a run whose end cannot be read.
pub(crate) const UNREADABLE: &str = "unreadable";
/// The warning about GPUs that MPS does not leave.
const MPS: &str = "mps";
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
            // This machine is the only node, and a GPU that is lost is seen by those who look at it.
            ExecutorEvent::Accepted { .. }
            | ExecutorEvent::NodeGone { .. }
            | ExecutorEvent::NodeBack(_)
            | ExecutorEvent::InventoryChanged(_)
            // Ends are messages of their own, see `message_of`.
            | ExecutorEvent::Ended { .. }
            | ExecutorEvent::HolderGone { .. } => {}
        }
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
