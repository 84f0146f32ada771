//! GPUs beyond those a job asked for: offered to running jobs that want them while nobody waits for them, and asked back when a job does.
//!
//! What must hold: a GPU that a job has as an extra one is occupied to the scheduler until the job has given it back or has ended. A
//! withdrawal has an end: a job that has not given its GPU back by then is killed and goes on later from what it saved, so that a waiting
//! job has its GPU within the grace time.

use crate::api::{JobState, Submit};
use crate::machine::platform::{ExtraRequest, Platform, Refusal, RefusalKind};
use crate::queue::commit::Entry;
use crate::queue::world::LiveWorld;
use crate::store::record::JobRecord;
use rota_core::event::EventKind;
use rota_core::{Event, ExtraStep, GpuId, Phase, StopCause, Time};
use rota_engine::State;
use std::collections::HashSet;
use std::sync::Arc;

/// Runs that asked for offers, by job and attempt. A daemon that was started again hears of them anew.
#[derive(Debug, Default)]
pub struct ExtraListeners(HashSet<(u64, u32)>);

/// What a submit cannot mean about extra GPUs and a budget.
pub fn check(ask: &Submit) -> Result<(), Refusal> {
    let bad = |message: String| Err(Refusal::new(RefusalKind::BadInput, message));
    if let Some(budget) = ask.budget_seconds
        && !(budget.is_finite() && budget > 0.0 && budget <= 1e9)
    {
        return bad(format!("--budget: {budget} is not a length of time in seconds above 0"));
    }
    if ask.extra_gpus == 0 {
        return Ok(());
    }
    if ask.budget_seconds.is_none() {
        return bad("--extra-gpus: say with --budget how long the job trains; it plans with that".to_owned());
    }
    let is_shared =
        ask.share.is_some() || ask.memory_mib.is_some() || ask.memory_auto || ask.mps || ask.threads_percent.is_some();
    if ask.gpus == 0 || is_shared || ask.gavel.is_some() {
        return bad(
            "--extra-gpus: only a job with whole GPUs of its own can be offered more; it does not go with --gpus 0, --share, \
             --memory, --mps or --gavel"
                .to_owned(),
        );
    }
    Ok(())
}

impl<P: Platform> LiveWorld<P> {
    /// Takes in what a job says of extra GPUs.
    pub(crate) fn take_extra_request(
        &mut self,
        request: &ExtraRequest,
        state: &State,
        events: &mut Vec<Event>,
    ) -> Result<(), Refusal> {
        match request {
            ExtraRequest::Listen(holder) => {
                let record = self.lease_of(*holder)?;
                if record.spec.ask.extra_gpus > 0 {
                    self.listeners.0.insert((record.id, record.attempts));
                }
                Ok(())
            }
            ExtraRequest::Keep { holder, kept } => {
                let record = self.lease_of(*holder)?;
                let asked_back = record.progress.extras.iter().filter(|extra| extra.withdrawn_at.is_some());
                let over = record.progress.extras.len().saturating_sub(*kept as usize);
                let gpus = asked_back.take(over).map(|extra| extra.uuid.clone()).collect::<Vec<_>>();
                self.move_extras(&record, &gpus, ExtraStep::Returned, state, events)
            }
        }
    }

    /// Offers GPUs that nobody waits for, asks for those that somebody needs, and ends jobs that did not give theirs back. To be called
    /// when everything is decided that can be.
    pub(crate) fn review_extras(&mut self, state: &State, events: &mut Vec<Event>) {
        self.listeners.0.retain(|(job, attempt)| {
            self.records.jobs.get(job).is_some_and(|record| record.attempts == *attempt && record.state.has_gpus())
        });
        if (self.listeners.0.is_empty() && self.devices.offered.is_empty()) || self.journal.retry_at.is_some() {
            return;
        }
        self.end_overdue(events);
        let needy = self.needy(state);
        if !needy.is_empty() {
            self.withdraw_for(&needy, state, events);
        } else if !self.switches.is_draining && !self.pace.awaits_look {
            self.offer(state, events);
        }
    }

    /// When the first withdrawal has to be over.
    pub(crate) fn next_withdrawal_end(&self) -> Option<Time> {
        if self.devices.offered.is_empty() || self.journal.retry_at.is_some() {
            return None;
        }
        self.running().filter(|record| record.stop_cause.is_none()).filter_map(|record| self.withdrawal_end(record)).min()
    }

    /// When a job must have given back what it was asked for.
    pub(crate) fn withdrawal_end(&self, record: &JobRecord) -> Option<Time> {
        let first = record.progress.extras.iter().filter_map(|extra| extra.withdrawn_at).min()?;
        let grace = record.notice_grace(self.config.jobs.grace_seconds);
        Some(Time(first.saturating_add((grace * 1e9) as u64)))
    }

    fn end_overdue(&mut self, events: &mut Vec<Event>) {
        let now = self.platform.now();
        let is_overdue = |record: &&Arc<JobRecord>| self.withdrawal_end(record).is_some_and(|end| end <= now);
        let overdue = self.running().filter(is_overdue).cloned().collect::<Vec<_>>();
        for record in overdue {
            self.stop(&record, StopCause::Preempt, true, events);
        }
    }

    /// Jobs that could run and have no GPUs, in the order in which they came.
    fn needy(&self, state: &State) -> Vec<Arc<JobRecord>> {
        if self.switches.is_draining {
            return Vec::new();
        }
        let is_ready = |record: &&Arc<JobRecord>| {
            let phase = self.row(record.id).and_then(|row| state.jobs.get(row.index())).map(|job| job.phase);
            record.state == JobState::Waiting
                && record.spec.ask.gpus > 0
                && !record.quota_hold
                && record.not_before.is_none()
                && phase == Some(Phase::Waiting)
        };
        self.records.jobs.values().filter(is_ready).cloned().collect()
    }

    /// Asks for as many GPUs as the waiting jobs need beyond those that are free or on their way.
    fn withdraw_for(&mut self, needy: &[Arc<JobRecord>], state: &State, events: &mut Vec<Event>) {
        let mut idle = self.idle_gpus(state);
        let is_coming = |gpu: &GpuId| {
            let uuid = self.devices.machine.name(*gpu);
            let lender = self.devices.offered.get(gpu).and_then(|job| self.records.jobs.get(job));
            lender.is_some_and(|record| record.usable_extras().all(|extra| extra.uuid != uuid))
        };
        let (mut coming, mut lent): (Vec<_>, Vec<_>) = self.devices.offered.keys().copied().partition(is_coming);
        lent.sort_unstable();
        let mut wanted = Vec::new();
        for record in needy {
            let mut missing = record.spec.ask.gpus as usize;
            for pool in [&mut idle, &mut coming] {
                missing -= self.take_usable(pool, record, missing).len();
            }
            wanted.extend(self.take_usable(&mut lent, record, missing));
        }
        for gpu in wanted {
            let Some(record) = self.devices.offered.get(&gpu).and_then(|job| self.records.jobs.get(job)).cloned() else {
                continue;
            };
            let uuid = self.devices.machine.name(gpu);
            // What is not written down is not asked for; it is tried again.
            _ = self.move_extras(&record, &[uuid], ExtraStep::Withdrawn, state, events);
        }
    }

    /// Takes up to so many GPUs out of a pool that the job could use.
    fn take_usable(&self, pool: &mut Vec<GpuId>, record: &JobRecord, most: usize) -> Vec<GpuId> {
        let ask = &record.spec.ask;
        let is_usable = |gpu: &GpuId| {
            let Some(device) = self.devices.machine.device(*gpu) else { return false };
            let kind = &self.devices.machine.kinds[gpu.index()];
            (ask.gpu_ids.is_empty() || ask.gpu_ids.contains(&device.index))
                && (ask.gpu_types.is_empty() || ask.gpu_types.contains(kind))
        };
        let taken = pool.iter().copied().filter(is_usable).take(most).collect::<Vec<_>>();
        pool.retain(|gpu| !taken.contains(gpu));
        taken
    }

    /// Gives idle GPUs to jobs that want more, one job after the other.
    fn offer(&mut self, state: &State, events: &mut Vec<Event>) {
        let mut idle = self.idle_gpus(state);
        let mut listeners = self.listeners.0.iter().map(|(job, _)| *job).collect::<Vec<_>>();
        listeners.sort_unstable();
        for job in listeners {
            let Some(record) = self.records.jobs.get(&job).filter(|record| record.stop_cause.is_none()).cloned() else {
                continue;
            };
            let open = (record.spec.ask.extra_gpus as usize).saturating_sub(record.progress.extras.len());
            let gpus = idle.iter().copied().filter(|gpu| self.is_sibling(&record, *gpu)).take(open).collect::<Vec<_>>();
            idle.retain(|gpu| !gpus.contains(gpu));
            let uuids = gpus.into_iter().map(|gpu| self.devices.machine.name(gpu)).collect::<Vec<_>>();
            _ = self.move_extras(&record, &uuids, ExtraStep::Offered, state, events);
        }
    }

    /// Whether a GPU is like those of a job, and on the same node: the job sees it from its start.
    fn is_sibling(&self, record: &JobRecord, gpu: GpuId) -> bool {
        let machine = &self.devices.machine;
        let first = record.gpu_uuids.first().and_then(|uuid| machine.gpu_of(uuid));
        first.is_some_and(|first| {
            machine.node_of(first) == machine.node_of(gpu)
                && machine.device(first).map(|device| &device.name) == machine.device(gpu).map(|device| &device.name)
        })
    }

    /// GPUs with nothing on them that are promised to nobody.
    fn idle_gpus(&self, state: &State) -> Vec<GpuId> {
        let promised = state.handovers.iter().flat_map(|handover| handover.gpus.iter().copied());
        let promised = promised.chain(state.jobs.iter().flat_map(|job| job.gpus.iter().copied())).collect::<HashSet<_>>();
        let gpus = (0..self.devices.machine.devices.len()).map(GpuId::from_index);
        let is_idle = |gpu: &GpuId| {
            let is_node_up = state.nodes_up[self.devices.machine.cluster.gpus[gpu.index()].node.index()];
            let uuid = &self.devices.machine.devices[gpu.index()].uuid;
            let is_used = self.running().any(|record| record.is_on(uuid));
            is_node_up && !is_used && !promised.contains(gpu) && self.devices.outside(*gpu, 0).share.0 == 0
        };
        gpus.filter(is_idle).collect()
    }

    /// Writes down that extra GPUs of a job change hands, and what that makes of them to the scheduler.
    fn move_extras(
        &mut self,
        record: &JobRecord,
        uuids: &[String],
        step: ExtraStep,
        state: &State,
        events: &mut Vec<Event>,
    ) -> Result<(), Refusal> {
        let before = self.devices.offered.clone();
        let mut entries = Vec::<Entry>::new();
        for uuid in uuids {
            let Some(gpu) = self.devices.machine.gpu_of(uuid) else { continue };
            match step {
                ExtraStep::Offered => _ = self.devices.offered.insert(gpu, record.id),
                ExtraStep::Returned => _ = self.devices.offered.remove(&gpu),
                ExtraStep::Withdrawn => {}
            }
            entries.push(EventKind::Extra { job: record.id, gpu: uuid.clone(), step }.into());
            entries.extend(self.occupied(gpu, state, events).map(Into::into));
        }
        self.commit(entries, events).map_err(|error| {
            self.devices.offered = before;
            Refusal::new(RefusalKind::Unavailable, error.to_string())
        })
    }

    /// The GPUs that a run had beyond its own are free with its end.
    pub(crate) fn free_extras(&mut self, before: &JobRecord, state: &State, events: &mut Vec<Event>) {
        let gpus = before.progress.extras.iter().filter_map(|extra| self.devices.machine.gpu_of(&extra.uuid));
        let gpus = gpus.collect::<Vec<_>>();
        self.devices.offered.retain(|_, job| *job != before.id);
        self.occupy_all(gpus.into_iter(), state, events);
    }

    /// Finds the extra GPUs of jobs that were under way when the daemon ended.
    pub(crate) fn find_extras(&mut self, state: &State, events: &mut Vec<Event>) {
        let lent = self.records.running().flat_map(|record| record.progress.extras.iter().map(|extra| (record.id, &extra.uuid)));
        let lent = lent.filter_map(|(job, uuid)| Some((self.devices.machine.gpu_of(uuid)?, job))).collect::<Vec<_>>();
        self.devices.offered.extend(lent.iter().copied());
        self.occupy_all(lent.into_iter().map(|(gpu, _)| gpu), state, events);
    }

    /// What is said of a running job's extra GPUs, in words.
    pub(crate) fn extras_in_words(&self, record: &JobRecord) -> Option<String> {
        let index = |uuid: &String| Some(self.devices.machine.device(self.devices.machine.gpu_of(uuid)?)?.index.to_string());
        let named = |is_asked: bool| {
            let extras = record.progress.extras.iter().filter(|extra| extra.withdrawn_at.is_some() == is_asked);
            extras.filter_map(|extra| index(&extra.uuid)).collect::<Vec<_>>().join(", ")
        };
        let (lent, asked) = (named(false), named(true));
        let lent =
            (!lent.is_empty()).then(|| format!("it has GPU {lent} beyond those it asked for, until a waiting job needs it"));
        let asked =
            (!asked.is_empty()).then(|| format!("it was asked to give GPU {asked} back by {}", self.withdrawal_text(record)));
        let words = lent.into_iter().chain(asked).collect::<Vec<_>>();
        (!words.is_empty()).then(|| words.join("; "))
    }

    /// The wall-clock end of a job's withdrawal.
    pub(crate) fn withdrawal_text(&self, record: &JobRecord) -> String {
        let ahead = self.withdrawal_end(record).map_or(0, |end| end.0.saturating_sub(self.platform.now().0).cast_signed());
        crate::clock::rfc3339(self.platform.wall_ns() + ahead)
    }
}
