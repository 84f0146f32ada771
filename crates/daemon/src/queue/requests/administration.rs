//! What administrators do: another policy, GPUs or the whole queue drained and resumed.

use crate::api;
use crate::machine::platform::{Caller, Platform, Refusal, RefusalKind};
use crate::queue::world::{LiveWorld, needs_admin};
use crate::store::journal::{Note, QueueEvent};
use rota_core::event::EventKind;
use rota_core::{Event, GpuId};
use rota_engine::State;

impl<P: Platform> LiveWorld<P> {
    pub(crate) fn set_policy(&mut self, policy: &str, caller: &Caller, events: &mut Vec<Event>) -> Result<(), Refusal> {
        needs_admin(caller)?;
        if let Err(error) = self.registry.build(policy) {
            return Err(Refusal::new(RefusalKind::BadInput, error.to_string()));
        }
        self.commit_one(EventKind::PolicySet { policy: policy.into(), note: Note::by(&caller.user) }, events)?;
        policy.clone_into(&mut self.board.write().policy);
        Ok(())
    }

    pub(crate) fn drain(
        &mut self,
        drain: &api::Drain,
        caller: &Caller,
        state: &State,
        events: &mut Vec<Event>,
    ) -> Result<(), Refusal> {
        needs_admin(caller)?;
        let gpus = self.gpus_numbered(&drain.gpus)?;
        let drained = |gpu| EventKind::Drained { gpu, note: Note::by(&caller.user) };
        self.switch(&gpus, drained, state, events)?;
        self.switches.exit_when_idle |= drain.then_exit;
        self.board.write().is_down_asked |= drain.then_exit;
        Ok(())
    }

    pub(crate) fn resume(
        &mut self,
        gpus: &[u32],
        caller: &Caller,
        state: &State,
        events: &mut Vec<Event>,
    ) -> Result<(), Refusal> {
        needs_admin(caller)?;
        let gpus = self.gpus_numbered(gpus)?;
        let resumed = |gpu| EventKind::Resumed { gpu, note: Note::by(&caller.user) };
        if gpus.is_empty() {
            self.switches.exit_when_idle = false;
            let all = self.devices.drained.iter().copied().collect::<Vec<_>>();
            if !all.is_empty() {
                self.switch(&all, resumed, state, events)?;
            }
        }
        self.switch(&gpus, resumed, state, events)?;
        // A decision is due although nothing may have changed for the scheduler.
        self.pace.wants_decision = true;
        Ok(())
    }

    /// Drains or resumes GPUs, or the whole queue if none is named.
    fn switch(
        &mut self,
        gpus: &[GpuId],
        event: impl Fn(Option<String>) -> QueueEvent,
        state: &State,
        events: &mut Vec<Event>,
    ) -> Result<(), Refusal> {
        let named = gpus.iter().map(|gpu| event(Some(self.devices.machine.name(*gpu))).into());
        let entries = if gpus.is_empty() { vec![event(None).into()] } else { named.collect() };
        self.commit(entries, events).map_err(|error| Refusal::new(RefusalKind::Unavailable, error.to_string()))?;
        self.occupy_all(gpus.iter().copied(), state, events);
        self.board.write().draining = self.switches.is_draining;
        self.show_gpus(state);
        Ok(())
    }

    /// An administrator says that a node is gone for good: its jobs are lost, or wait again if they have saved their work.
    pub(crate) fn forget_node(&mut self, node: &str, caller: &Caller) -> Result<(), Refusal> {
        needs_admin(caller)?;
        let forgotten = self.platform.executor_mut().forget_node(&node.into());
        forgotten.map_err(|problem| Refusal::new(RefusalKind::Conflict, problem))
    }

    pub(crate) fn gpus_numbered(&self, indices: &[u32]) -> Result<Vec<GpuId>, Refusal> {
        let machine = &self.devices.machine;
        let find = |&index: &u32| {
            machine.gpu_numbered(index).ok_or_else(|| {
                let known = machine.devices.iter().map(|device| device.index.to_string()).collect::<Vec<_>>().join(", ");
                let known = if known.is_empty() { "none".to_owned() } else { known };
                Refusal::new(RefusalKind::BadInput, format!("there is no GPU {index}; this machine has {known}"))
            })
        };
        indices.iter().map(find).collect()
    }
}
