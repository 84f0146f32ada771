//! Several jobs on one GPU: how much of its memory each is given, what is learned from how much they take, and what becomes of those for
//! whom it was not enough.

use crate::api::text::Text;
use crate::api::{self, AfterCondition, Submit};
use crate::config::{OnOveruse, Sharing};
use crate::machine::platform::{Caller, Outcome, Platform, Refusal, RefusalKind};
use crate::memory::out_of_memory;
use crate::memory::profiles::{ClassKey, class_of};
use crate::queue::rows::Translator;
use crate::queue::world::{LiveWorld, over};
use crate::store::journal::{Note, QueueEvent, RunReport};
use crate::store::record::{JobRecord, Spec};
use rota_core::event::EventKind;
use rota_core::{End, Event, JobChange, MilliGpu, Slice, StopCause};
use rota_engine::State;
use rota_exec::{Cause, ExitRecord};
use std::sync::Arc;

/// A job that was not given enough waits this long before it is tried again with more: its GPU's memory is to be free again.
const AGAIN_NS: u64 = 1_000_000_000;
/// What a job may take beyond what it was given before it counts: drivers keep some for themselves.
const OVERUSE_MIB: u64 = 64;

impl<P: Platform> LiveWorld<P> {
    fn class_key(&self, record: &JobRecord) -> ClassKey {
        let class = record.spec.profile.clone().unwrap_or_else(|| class_of(&record.spec.ask, &self.config.sharing));
        ClassKey { uid: record.uid, class }
    }

    /// Memory to give a job, where that is not simply what it asked for.
    pub(crate) fn memory_for(&self, record: &JobRecord) -> Option<u32> {
        let ask = &record.spec.ask;
        // What was not enough is never given again.
        let raised = record.memory_mib.filter(|_| record.ooms > 0);
        if !ask.memory_auto || record.is_claim() {
            return raised;
        }
        let rules = Sharing {
            job_buffer_mib: ask.buffer_mib.unwrap_or(self.config.sharing.job_buffer_mib),
            ..self.config.sharing.clone()
        };
        let kinds: Vec<String> = if ask.gpu_types.is_empty() {
            self.devices.machine.gpu_types().map(str::to_owned).collect()
        } else {
            ask.gpu_types.clone()
        };
        self.memory.profiles.predict(&self.class_key(record), &kinds, &rules).max(raised)
    }

    /// Notes that a job's memory is predicted, so that it is given anew when more is known.
    pub(crate) fn follow_profile(&mut self, record: &JobRecord) {
        if record.spec.ask.memory_auto {
            self.memory.predicted.entry(self.class_key(record)).or_default().insert(record.id);
        }
        if record.spec.is_profile_run {
            self.memory.profile_runs.insert(self.class_key(record), record.id);
        }
    }

    /// The run that is to come before a job, so that its class is known: one that is under way already, or a new one.
    pub(crate) fn profile_run_before(&self, spec: &Spec, caller: &Caller) -> ProfileRun {
        let ask = &spec.ask;
        let (Some(epochs), Some(class)) = (ask.profile_epochs.filter(|_| ask.memory_auto), &spec.profile) else {
            return ProfileRun::NotNeeded;
        };
        let key = ClassKey { uid: caller.uid, class: class.clone() };
        if self.memory.profiles.predict(&key, &[], &self.config.sharing).is_some() {
            return ProfileRun::NotNeeded;
        }
        if let Some(&id) = self.memory.profile_runs.get(&key) {
            return ProfileRun::UnderWay(id);
        }
        let run = Submit {
            command: Arc::new(with_epochs(&ask.command, epochs)),
            name: Some(format!("profile of {class}")),
            time_limit_seconds: Some(self.config.sharing.profile_seconds),
            estimate_seconds: None,
            // As early as its first job, and not tried again: whoever waits for it runs either way.
            retries: 0,
            key: None,
            profile_epochs: None,
            ..(**ask).clone()
        };
        ProfileRun::New(Box::new(Spec { ask: Arc::new(run), is_profile_run: true, ..spec.clone() }))
    }

    /// Learns from an attempt that ended.
    pub(crate) fn learn(&mut self, before: &JobRecord, after: &JobRecord, outcome: &Outcome) {
        let Outcome::Ended(exit) = outcome else { return };
        let Some(kind) = before.gpu_uuids.first().and_then(|uuid| self.devices.machine.gpu_of(uuid)) else { return };
        let kind = self.devices.machine.kinds[kind.index()].clone();
        let key = self.class_key(before);
        let wall_ns = self.platform.wall_ns();
        if after.ooms > before.ooms {
            // What had a whole GPU and not enough of it needs more than there is.
            let whole =
                self.memory.estimates.memory_mib.iter().find(|(known, _)| *known == kind).map_or(0, |(_, memory)| *memory);
            let least = after.memory_mib.unwrap_or(whole + 1);
            let profile = self.memory.profiles.raise(&key, &kind, least, wall_ns).clone();
            self.keep_profile(&key, &kind, &profile);
            return;
        }
        let is_whole = matches!(exit.cause, Cause::Exited if exit.code == Some(0)) || exit.cause == Cause::TimeLimit;
        let peak = after.peak_memory_mib.and_then(|peak| u32::try_from(peak).ok()).unwrap_or(0);
        if let Some(profile) = self.memory.profiles.learn(&key, &kind, peak, is_whole, wall_ns).cloned() {
            self.keep_profile(&key, &kind, &profile);
        }
    }

    fn keep_profile(&mut self, key: &ClassKey, kind: &str, profile: &crate::memory::profiles::Profile) {
        // What the store refuses is known until the daemon ends, and learned again by the next run.
        let surplus = self.memory.profiles.surplus();
        let outcome = self.journal.store.transaction(|writer| {
            writer.put_profile(key, kind, profile)?;
            surplus.as_ref().map_or(Ok(()), |surplus| writer.forget_profile(surplus))
        });
        self.note_store(&outcome);
        if let Some(surplus) = surplus {
            self.memory.profiles.forget(&surplus);
        }
    }

    /// What is known of the memory of programs: the caller's, or everybody's for an administrator.
    pub(crate) fn profiles_of(&self, caller: &Caller) -> Vec<api::Profile> {
        let mut profiles = self.memory.profiles.view(&self.config.sharing);
        profiles.retain(|profile| caller.is_admin || profile.uid == caller.uid);
        profiles
    }

    /// Gives the waiting jobs of a class what is known by now.
    pub(crate) fn reshape_class(&mut self, record: &JobRecord, state: &State, events: &mut Vec<Event>) {
        let key = self.class_key(record);
        if record.spec.is_profile_run {
            self.memory.profile_runs.remove(&key);
        }
        let Some(ids) = self.memory.predicted.remove(&key) else { return };
        let ids = ids.into_iter().filter(|id| self.records.jobs.contains_key(id)).collect::<std::collections::BTreeSet<_>>();
        for &id in &ids {
            self.reshape(id, state, events);
        }
        if !ids.is_empty() {
            self.memory.predicted.insert(key, ids);
        }
    }

    /// Gives a job that does not run as much memory as is right by now; one that can have it on no GPU has failed.
    pub(crate) fn reshape(&mut self, id: u64, state: &State, events: &mut Vec<Event>) {
        let (Some(record), Some(job)) = (self.records.jobs.get(&id).cloned(), self.row(id)) else { return };
        if record.state.has_gpus() || state.jobs.get(job.index()).is_some_and(|job| job.phase.has_gpus()) {
            return;
        }
        let memory_mib = if record.spec.ask.memory_auto { self.memory_for(&record) } else { record.memory_mib };
        let changed = JobRecord { memory_mib, ..(*record).clone() };
        let (_, share, given) = self.memory.estimates.of(&changed);
        let slice = Slice { share: MilliGpu(share), memory_mib: given, group: group_of(&changed), ..Slice::default() };
        let now = state.bound.shape_of.get(job.index()).map(|_| state.bound.shape(job).slice());
        if now.is_some_and(|now| Slice { class: None, ..now } == slice) {
            return;
        }
        let translator = Translator { machine: &self.devices.machine, estimates: &self.memory.estimates };
        let problem = translator.new_job(&changed, &self.rows, self.stamp()).and_then(|new| state.check(&new).err());
        let event: QueueEvent = match problem {
            None => {
                let change = JobChange::Slice { share: slice.share, memory_mib: given, group: slice.group };
                EventKind::Changed { job: id, change, note: Note { memory_mib, ..Note::default() } }
            }
            Some(problem) => {
                let reason = format!("it can never run here: {}", self.too_large(&record, self.say(&problem)));
                over(id, End::NeverFits, reason)
            }
        };
        // If the store refuses, the job waits for what may never be free, and is told so at the next start.
        _ = self.commit(vec![event.into()], events);
    }

    /// A refusal of a job whose memory was predicted says where that comes from.
    pub(crate) fn too_large(&self, record: &JobRecord, refusal: String) -> String {
        match &record.spec.profile {
            Some(class) if self.memory_for(record).is_some() => {
                format!("{refusal}, by what is known of `{class}`; `rota profiles --forget` has it measured anew")
            }
            _ => refusal,
        }
    }

    /// Whether a failed attempt failed for want of a GPU's memory; if so, what became of it is written into `after`, with whether it
    /// is to be tried again.
    pub(crate) fn ran_out_of_memory(&self, record: &JobRecord, exit: &ExitRecord, after: &mut RunReport) -> Option<bool> {
        if record.spec.ask.gpus == 0 {
            return None;
        }
        let (_, share, given) = self.memory.estimates.of(record);
        // Asked to stop by a daemon that died before it had gone: what it took was written down.
        let was_seen = record.peak_memory_mib.is_some_and(|peak| peak > u64::from(given) + OVERUSE_MIB);
        let overused = exit.cause == Cause::StopRequested
            && match &record.stop_cause {
                Some(cause) => *cause == StopCause::Overuse,
                None => share != MilliGpu::WHOLE.0 && was_seen && !record.cancel,
            };
        let sign = match exit.cause {
            Cause::Exited if exit.code != Some(0) => {
                out_of_memory::sign_in(&self.platform.log_end(record, out_of_memory::LOG_BYTES))
            }
            _ => None,
        };
        if !overused && sign.is_none() {
            return None;
        }
        let peak = after.peak_memory_mib.and_then(|peak| u32::try_from(peak).ok()).unwrap_or(0);
        let most = self.memory.estimates.most(&record.spec.ask);
        let had_all = share == MilliGpu::WHOLE.0 || given >= most;
        let more = (f64::from(given.max(peak)) * self.config.sharing.oom_growth).ceil().min(f64::from(most)) as u32;
        let what = if overused {
            format!("it used {peak} MiB of a GPU it shares and was given {given} MiB")
        } else {
            let given = if share == MilliGpu::WHOLE.0 { "a GPU to itself".to_owned() } else { format!("{given} MiB") };
            format!("out of GPU memory: it had {given} (its peak was {peak} MiB; its log says `{}`)", sign.unwrap_or_default())
        };
        let again = !had_all && record.ooms < self.config.sharing.oom_retries && !record.cancel;
        if !had_all {
            after.memory_mib = Some(more);
        }
        after.is_out_of_memory = true;
        after.reason = Some(if again { format!("{what}; tried again with {more} MiB") } else { what });
        if again {
            after.not_before = Some(self.platform.now().0 + AGAIN_NS);
        }
        Some(again)
    }

    /// Sees to jobs that take more memory of a GPU than they were given: what they take counts as taken, and beside others they are
    /// stopped.
    pub(crate) fn watch_overuse(&mut self, gpu: rota_core::GpuId, on_it: &[Arc<JobRecord>], events: &mut Vec<Event>) {
        let look = self.devices.telemetry.looks.get(gpu.index());
        let used_by = |id: u64| {
            let theirs = look.into_iter().flat_map(|look| &look.processes).filter(|process| process.job == Some(id));
            theirs.filter_map(|process| process.memory_mib).sum::<u64>()
        };
        let mut overused = 0;
        let mut culprits = Vec::new();
        for record in on_it {
            let (_, share, given) = self.memory.estimates.of(record);
            if share == MilliGpu::WHOLE.0 || given == 0 {
                continue;
            }
            let beyond = used_by(record.id).saturating_sub(u64::from(given));
            if beyond > OVERUSE_MIB {
                overused += beyond;
                culprits.push((record.clone(), u64::from(given) + beyond, given));
            }
        }
        self.devices.telemetry.overused_mib[gpu.index()] = u32::try_from(overused).unwrap_or(u32::MAX);
        for (record, used, given) in culprits {
            if self.devices.telemetry.marked.insert((record.id, record.attempts)) {
                // What the store refuses is known until the daemon ends.
                let overused = EventKind::Overused { job: record.id, used_mib: used, given_mib: given };
                _ = self.commit(vec![overused.into()], events);
            }
            let stops = self.config.sharing.on_overuse == OnOveruse::Retry && on_it.len() > 1;
            if stops && let Some(record) = self.records.jobs.get(&record.id).cloned() {
                self.stop(&record, StopCause::Overuse, false, events);
            }
        }
    }

    /// Forgets what is known of a class of the caller's.
    pub(crate) fn forget_profile(
        &mut self,
        class: String,
        caller: &Caller,
        state: &State,
        events: &mut Vec<Event>,
    ) -> Result<(), Refusal> {
        if !caller.may_write {
            return Err(Refusal::new(RefusalKind::Forbidden, "this token may only read"));
        }
        let key = ClassKey { uid: caller.uid, class };
        let outcome = self.journal.store.transaction(|writer| writer.forget_profile(&key));
        self.note_store(&outcome);
        outcome.map_err(|error| Refusal::new(RefusalKind::Unavailable, error.to_string()))?;
        if !self.memory.profiles.forget(&key) {
            let message = format!("you have no profile `{}`; `rota profiles` lists them", key.class);
            return Err(Refusal::new(RefusalKind::NotFound, message));
        }
        for id in self.memory.predicted.get(&key).cloned().unwrap_or_default() {
            self.reshape(id, state, events);
        }
        Ok(())
    }
}

/// With whom a job may share a GPU: under MPS with those of the same user, otherwise with all that are not under MPS.
pub(crate) fn group_of(record: &JobRecord) -> u32 {
    if record.is_under_mps() { record.uid.wrapping_add(1).max(1) } else { 0 }
}

/// What is to be done before a job whose class may not be known.
pub(crate) enum ProfileRun {
    /// The job needs no profile.
    NotNeeded,
    /// Wait for this run.
    UnderWay(u64),
    /// Make this run, and wait for it.
    New(Box<Spec>),
}

/// A job waits for the run that tells how much memory it needs, however that ends.
pub(crate) fn wait_for_profile(spec: &mut Spec, run: u64) {
    Arc::make_mut(&mut spec.ask).after.push(api::After { id: run, condition: AfterCondition::Any });
}

/// A command for so many epochs in place of its own.
fn with_epochs(command: &[Text], epochs: u32) -> Vec<Text> {
    let wanted = Text::from(format!("--epochs={epochs}").as_str());
    let mut changed = Vec::with_capacity(command.len() + 1);
    let mut is_told = false;
    let mut words = command.iter().peekable();
    while let Some(word) = words.next() {
        let is_bare = word.0 == b"--epochs";
        if is_bare || word.0.starts_with(b"--epochs=") {
            if is_bare {
                words.next();
            }
            if !std::mem::replace(&mut is_told, true) {
                changed.push(wanted.clone());
            }
        } else {
            changed.push(word.clone());
        }
    }
    if !is_told {
        changed.push(wanted);
    }
    changed
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_profile_run_has_its_own_number_of_epochs() {
        let told = |command: &[&str]| {
            let command = command.iter().map(|word| Text::from(*word)).collect::<Vec<_>>();
            with_epochs(&command, 2).iter().map(Text::lossy).collect::<Vec<_>>().join(" ")
        };
        assert_eq!(told(&["python", "a.py"]), "python a.py --epochs=2");
        assert_eq!(told(&["python", "a.py", "--epochs", "50", "-x"]), "python a.py --epochs=2 -x");
        assert_eq!(told(&["python", "a.py", "--epochs=50", "--epochs=60"]), "python a.py --epochs=2");
    }
}
