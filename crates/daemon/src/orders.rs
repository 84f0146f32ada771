//! Orders of administrators: another policy, GPUs or the whole queue drained and resumed.

use crate::api;
use crate::platform::{Caller, Platform, Refusal, RefusalKind};
use crate::store::Entry;
use crate::world::{Leave, LiveWorld, needs_admin};
use rota_core::{Event, GpuId};
use rota_engine::State as EngineState;
use serde_json::json;

impl<P: Platform> LiveWorld<P> {
    pub(crate) fn set_policy(&mut self, policy: String, caller: &Caller) -> Result<(), Refusal> {
        needs_admin(caller)?;
        if let Err(error) = rota_policy::build(&policy) {
            return Err(Refusal::new(RefusalKind::BadInput, error.to_string()));
        }
        let stamp = self.stamp();
        let entry = Entry { job: None, kind: "policy", detail: json!({ "policy": policy }) };
        let seq = self.next_seq;
        let outcome = self.store.transaction(|writer| {
            writer.set_meta("policy", &policy)?;
            writer.event(seq, stamp, &entry)
        });
        self.note_store(&outcome);
        outcome.map_err(|error| Refusal::new(RefusalKind::Unavailable, error.to_string()))?;
        self.next_seq += 1;
        self.policy.clone_from(&policy);
        self.board.write().policy.clone_from(&policy);
        self.leave = Some(Leave::Rebuild(policy));
        Ok(())
    }

    pub(crate) fn drain(
        &mut self,
        drain: &api::Drain,
        caller: &Caller,
        state: &EngineState,
        events: &mut Vec<Event>,
    ) -> Result<(), Refusal> {
        needs_admin(caller)?;
        let gpus = self.gpus_numbered(&drain.gpus)?;
        if gpus.is_empty() {
            self.set_draining(true)?;
        }
        for gpu in gpus {
            self.drained_gpus.insert(gpu);
            self.occupy(gpu, state, events);
        }
        self.exit_when_idle |= drain.then_exit;
        self.show_gpus(state);
        Ok(())
    }

    pub(crate) fn resume(
        &mut self,
        gpus: &[u32],
        caller: &Caller,
        state: &EngineState,
        events: &mut Vec<Event>,
    ) -> Result<(), Refusal> {
        needs_admin(caller)?;
        let gpus = self.gpus_numbered(gpus)?;
        if gpus.is_empty() {
            self.set_draining(false)?;
            self.exit_when_idle = false;
        }
        let resumed = if gpus.is_empty() { self.drained_gpus.iter().copied().collect() } else { gpus };
        for gpu in resumed {
            self.drained_gpus.remove(&gpu);
            self.occupy(gpu, state, events);
        }
        // A decision is due although nothing may have changed for the scheduler.
        self.telemetry.wants_decision = true;
        self.show_gpus(state);
        Ok(())
    }

    fn set_draining(&mut self, draining: bool) -> Result<(), Refusal> {
        let outcome = self.store.transaction(|writer| writer.set_meta("draining", if draining { "yes" } else { "no" }));
        self.note_store(&outcome);
        outcome.map_err(|error| Refusal::new(RefusalKind::Unavailable, error.to_string()))?;
        self.draining = draining;
        self.board.write().draining = draining;
        Ok(())
    }

    pub(crate) fn gpus_numbered(&self, indices: &[u32]) -> Result<Vec<GpuId>, Refusal> {
        let find = |&index: &u32| {
            self.machine.gpu_numbered(index).ok_or_else(|| {
                let known = self.machine.devices.iter().map(|device| device.index.to_string()).collect::<Vec<_>>().join(", ");
                let known = if known.is_empty() { "none".to_owned() } else { known };
                Refusal::new(RefusalKind::BadInput, format!("there is no GPU {index}; this machine has {known}"))
            })
        };
        indices.iter().map(find).collect()
    }
}
