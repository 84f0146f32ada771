//! What administrators set: the policy, and whether the queue or single GPUs are drained.

use crate::forecast::fork::ForkSender;
use crate::machine::inventory::Machine;
use crate::store::journal::QueueEvent;
use crate::store::{Store, StoreError};
use rota_core::GpuId;
use rota_core::event::EventKind;
use std::collections::HashSet;

/// Why the loop over the world was left.
#[derive(Clone, Debug)]
pub enum Leave {
    /// Another policy is to decide.
    SetPolicy(String),
    /// The nodes or their GPUs are others than before.
    Inventory,
    /// The next round is to be planned.
    PlanRound,
    /// A copy of the queue is asked for, to be run forward.
    Fork(ForkSender),
    /// The daemon ends; jobs run on.
    Exit,
}

/// What administrators set.
#[derive(Clone, Debug, Default)]
pub struct Switches {
    /// The policy in force.
    pub policy: String,
    /// Whether nothing is started.
    pub is_draining: bool,
    /// Whether the daemon ends when no job has GPUs any more.
    pub exit_when_idle: bool,
    /// Whether nodes or GPUs have come or gone that the scheduler does not know of.
    pub has_new_inventory: bool,
    /// Why the loop is to be left.
    pub leave: Option<Leave>,
}

impl Switches {
    /// Takes in an event. Each of them is also kept in the store, with the event.
    pub fn take_in(&mut self, event: &QueueEvent, machine: &Machine, drained: &mut HashSet<GpuId>) {
        match event {
            EventKind::PolicySet { policy, .. } => {
                self.policy = policy.to_string();
                self.leave = Some(Leave::SetPolicy(self.policy.clone()));
            }
            EventKind::Drained { gpu: None, .. } => self.is_draining = true,
            EventKind::Resumed { gpu: None, .. } => self.is_draining = false,
            EventKind::Drained { gpu: Some(uuid), .. } => drained.extend(machine.gpu_of(uuid)),
            EventKind::Resumed { gpu: Some(uuid), .. } => {
                if let Some(gpu) = machine.gpu_of(uuid) {
                    drained.remove(&gpu);
                }
            }
            _ => {}
        }
    }

    /// What a store says of them.
    pub fn restored(store: &Store, machine: &Machine, policy: String) -> Result<(Self, HashSet<GpuId>), StoreError> {
        let is_draining = store.meta("draining")?.as_deref() == Some("yes");
        let drained = store.drained_gpus()?.iter().filter_map(|uuid| machine.gpu_of(uuid)).collect();
        Ok((Self { policy, is_draining, ..Self::default() }, drained))
    }
}
