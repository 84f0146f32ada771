//! Intake: what users ask for becomes jobs.

use crate::api::text::Text;
use crate::api::{self, AfterCondition, ClaimMode, GpuClaim, JobState, Submit, Submitted};
use crate::forecast::changes::Candidate;
use crate::machine::platform::{Caller, Platform, Refusal, RefusalKind, Reply};
use crate::memory::profiles::class_of;
use crate::memory::sharing::{ProfileRun, wait_for_profile};
use crate::queue::arrays::{PendingArray, expand};
use crate::queue::commit::Entry;
use crate::queue::records::{environment_bytes, held_bytes};
use crate::queue::rows::{Translator, is_slice};
use crate::queue::submit_checks::check;
use crate::queue::world::LiveWorld;
use crate::store::groups::GroupWish;
use crate::store::journal::{Note, Submission};
use crate::store::record::{Holder, JobRecord, Spec, command_bytes};
use rota_core::event::EventKind;
use rota_core::{Event, Hold};
use rota_engine::State;
use std::collections::HashMap;
use std::sync::Arc;

/// A submit and where its answer goes.
pub(crate) type Asked = (Box<Submit>, Caller, Reply<Submitted>);

/// A submit that was found sound, with its jobs.
#[derive(Default)]
pub(crate) struct Accepted {
    /// The numbers of the jobs that the caller asked for.
    pub ids: Vec<u64>,
    /// What is to be written.
    pub entries: Vec<Entry>,
    /// GPUs of those among them that are in play.
    gpus_in_play: u32,
}

/// What all jobs of one submit have in common.
pub(crate) struct Origin<'a> {
    /// The user who submits them.
    pub caller: &'a Caller,
    /// The environment of the jobs.
    pub env: &'a Arc<Vec<(Text, Text)>>,
    /// Whether a job that they wait for has ended badly.
    pub unmet: bool,
}

impl Accepted {
    /// Gives the jobs another specification, made from the one they have.
    pub fn respecify(&mut self, change: impl Fn(&Spec) -> Arc<Spec>) {
        for entry in &mut self.entries {
            if let EventKind::Admitted { request, .. } = &mut entry.event {
                request.spec = request.spec.as_deref().map(&change);
                request.group = request.spec.as_ref().and_then(|spec| spec.membership);
            }
        }
    }
}

impl<P: Platform> LiveWorld<P> {
    pub(crate) fn take_submits(&mut self, asked: Vec<Asked>, state: &State, events: &mut Vec<Event>) {
        if asked.is_empty() {
            return;
        }
        let mut accepted = Vec::new();
        let mut entries = Vec::new();
        let mut keys: HashMap<(u32, String), Vec<u64>> = HashMap::new();
        for (ask, caller, reply) in asked {
            let key = ask.key.clone().map(|key| (caller.uid, key));
            if let Some(ids) = key.as_ref().and_then(|key| keys.get(key)) {
                accepted.push((ids.clone(), true, reply));
                continue;
            }
            let reply = match &key {
                None => reply,
                Some((uid, key)) => match self.join_array(*uid, key, reply) {
                    Some(reply) => reply,
                    None => continue,
                },
            };
            if Self::is_large(&ask) && self.existing(&ask, &caller).is_ok_and(|known| known.is_none()) {
                self.begin_array(*ask, &caller, state, reply);
                continue;
            }
            match self.existing(&ask, &caller).and_then(|known| match known {
                Some(ids) => Ok((ids, true)),
                None => self.accept(*ask, &caller, state).map(|new| {
                    entries.extend(new.entries);
                    (new.ids, false)
                }),
            }) {
                Ok((ids, existing)) => {
                    keys.extend(key.map(|key| (key, ids.clone())));
                    accepted.push((ids, existing, reply));
                }
                Err(refusal) => _ = reply.send(Err(refusal)),
            }
        }
        let outcome = self.commit(entries, events);
        for (ids, existing, reply) in accepted {
            _ = reply.send(match &outcome {
                Ok(()) => Ok(Submitted { group: self.group_of(&ids), ids, existing }),
                Err(error) => Err(Refusal::new(RefusalKind::Unavailable, format!("the job was not accepted: {error}"))),
            });
        }
        if outcome.is_err() {
            let jobs = &self.records.jobs;
            self.memory.profile_runs.retain(|_, run| jobs.contains_key(run));
        }
    }

    /// The jobs that a repeated submit made the first time.
    fn existing(&self, ask: &Submit, caller: &Caller) -> Result<Option<Vec<u64>>, Refusal> {
        let Some(key) = &ask.key else { return Ok(None) };
        let ids = self
            .journal
            .store
            .by_key(caller.uid, key)
            .map_err(|error| Refusal::new(RefusalKind::Unavailable, error.to_string()))?;
        Ok(Some(ids).filter(|ids| !ids.is_empty()))
    }

    pub(crate) fn accept(&mut self, mut ask: Submit, caller: &Caller, state: &State) -> Result<Accepted, Refusal> {
        let unmet = self.check_submit(&ask, caller)?;
        let env = std::mem::take(&mut ask.env);
        let group = self.group_wish(&ask, caller)?;
        let specs = expand(ask, caller, self.config.limits.array_max)?;
        self.check_specs(&specs, &env, caller)?;
        let first = self.next_id;
        self.take_all_in(specs, &Origin { caller, env: &env, unmet }, group, state).inspect_err(|_| {
            // A run that was to come first is not made, either.
            self.memory.profile_runs.retain(|_, run| *run < first);
        })
    }

    /// Says what cannot be meant by a submit, or whether a job that it waits for has ended badly already.
    pub(crate) fn check_submit(&mut self, ask: &Submit, caller: &Caller) -> Result<bool, Refusal> {
        if !caller.may_write {
            return Err(Refusal::new(RefusalKind::Forbidden, "this token may only read"));
        }
        check(ask, self.config.limits.command_kib)?;
        if ask.mps || ask.threads_percent.is_some() {
            let refused = |problem: String| Refusal::new(RefusalKind::BadInput, format!("--mps: {problem}"));
            if ask.gpus != 1 {
                return Err(refused(format!("a job under MPS has one GPU, not {}", ask.gpus)));
            }
            self.platform.check_mps().map_err(refused)?;
        }
        self.check_after(&ask.after)
    }

    /// Whether there is room for the jobs of a submit.
    pub(crate) fn check_specs(&self, specs: &[Spec], env: &[(Text, Text)], caller: &Caller) -> Result<(), Refusal> {
        self.check_room(specs.len(), caller)?;
        let command = specs.first().map_or(0, |spec| command_bytes(&spec.ask.command));
        let more = held_bytes(specs.len(), command + environment_bytes(env));
        let (held, most) = (self.records.bytes_of(caller.uid), self.config.limits.user_mib << 20);
        if held + more > most {
            let message = format!(
                "the jobs of {} hold {} KiB of commands and environments, these would hold {} KiB more, and one user may have {} MiB (limits.user_mib): put long lists into a file, or wait until some jobs are over",
                caller.user,
                held >> 10,
                more >> 10,
                most >> 20
            );
            return Err(Refusal::new(RefusalKind::TooMany, message));
        }
        self.check_quota(specs, caller)
    }

    fn take_all_in(
        &mut self,
        specs: Vec<Spec>,
        origin: &Origin<'_>,
        mut group: Option<GroupWish>,
        state: &State,
    ) -> Result<Accepted, Refusal> {
        let mut accepted = Accepted::default();
        for mut spec in specs {
            spec.profile = spec.ask.memory_auto.then(|| class_of(&spec.ask, &self.config.sharing));
            match self.profile_run_before(&spec, origin.caller) {
                ProfileRun::NotNeeded => {}
                ProfileRun::UnderWay(run) => wait_for_profile(&mut spec, run),
                ProfileRun::New(run) => {
                    let id = self.take_next(&run, origin, &mut accepted, state)?;
                    wait_for_profile(&mut spec, id);
                }
            }
            spec.membership = group.as_mut().map(|wish| wish.place(self.next_id));
            let id = self.take_next(&spec, origin, &mut accepted, state)?;
            accepted.ids.push(id);
        }
        Ok(accepted)
    }

    /// Makes one job of a submit, with the next number.
    fn take_next(&mut self, spec: &Spec, origin: &Origin<'_>, accepted: &mut Accepted, state: &State) -> Result<u64, Refusal> {
        let id = self.next_id;
        self.take_in(id, spec, origin, accepted, state)?;
        self.next_id += 1;
        Ok(id)
    }

    /// What a new job asks for and what is given to it; a refusal if it can never run here.
    pub(crate) fn request_of(
        &self,
        id: u64,
        spec: &Spec,
        caller: &Caller,
        state: &State,
    ) -> Result<(Submission, JobRecord), Refusal> {
        let spec = Arc::new(spec.clone());
        let mut request = Submission {
            uid: caller.uid,
            user: caller.user.clone(),
            gpus: spec.ask.gpus,
            env_id: 0,
            memory_mib: None,
            group: spec.membership,
            spec: Some(spec),
        };
        let mut record = JobRecord::new(id, &request, self.stamp());
        request.memory_mib = self.memory_for(&record);
        record.memory_mib = request.memory_mib;
        self.check_fit(&record, state)
            .map_err(|refusal| Refusal { message: self.too_large(&record, refusal.message), ..refusal })?;
        Ok((request, record))
    }

    /// Makes one job of a submit.
    pub(crate) fn take_in(
        &mut self,
        id: u64,
        spec: &Spec,
        origin: &Origin<'_>,
        accepted: &mut Accepted,
        state: &State,
    ) -> Result<(), Refusal> {
        let (request, record) = self.request_of(id, spec, origin.caller, state)?;
        let admitted = EventKind::Admitted { job: id, request: Box::new(request) };
        accepted.entries.push(Entry { event: admitted, env: Some(Arc::clone(origin.env)) });
        if origin.unmet {
            // As if it had been submitted a moment earlier: when it came must not decide what becomes of it.
            accepted.entries.push(self.failed_for(id, &record.spec.ask.after).into());
            return Ok(());
        }
        self.follow_profile(&record);
        if self.is_over_quota(&record, accepted.gpus_in_play) {
            let note = format!("{} has as many GPUs as it may have at once", record.user);
            self.board.write().notes.insert(id, note);
            accepted.entries.push(EventKind::Held { job: id, hold: Hold::Quota, note: Note::default() }.into());
        } else if !record.user_hold {
            accepted.gpus_in_play += record.spec.ask.gpus;
        }
        Ok(())
    }

    /// What a submit would become, or why it would be refused. Of an array it is the first job.
    pub(crate) fn candidate(&mut self, ask: Submit, caller: &Caller, state: &State) -> Result<Candidate, Refusal> {
        let is_unmet = self.check_submit(&ask, caller)?;
        let mut specs = expand(ask, caller, self.config.limits.array_max)?;
        self.check_specs(&specs, &[], caller)?;
        let jobs = specs.len() as u32;
        specs.truncate(1);
        let Some(mut spec) = specs.pop() else { return Err(Refusal::new(RefusalKind::BadInput, "the array has no job")) };
        spec.profile = spec.ask.memory_auto.then(|| class_of(&spec.ask, &self.config.sharing));
        let (_, record) = self.request_of(self.next_id, &spec, caller, state)?;
        let translator = Translator { machine: &self.devices.machine, estimates: &self.memory.estimates };
        let request = translator.new_job(&record, &self.rows, self.stamp());
        let request = request.ok_or_else(|| Refusal::new(RefusalKind::BadInput, "no GPU of this machine could take the job"))?;
        let stays = if is_unmet {
            Some("a job that it waits for did not end well: it would fail at once".to_owned())
        } else {
            record.user_hold.then(|| "it would be held until `rota release`".to_owned())
        };
        let quota = self.is_over_quota(&record, 0).then(|| {
            format!("{} has as many GPUs as it may have at once: it would wait until other jobs of {0} end", record.user)
        });
        Ok(Candidate { request, record, jobs, stays, quota })
    }

    /// Whether a job that is waited for has ended badly already. Jobs that never were cannot be waited for.
    pub(crate) fn check_after(&self, after: &[api::After]) -> Result<bool, Refusal> {
        let gone = after.iter().map(|after| after.id).filter(|id| !self.records.jobs.contains_key(id)).collect::<Vec<_>>();
        let ended =
            self.journal.store.states_of(&gone).map_err(|error| Refusal::new(RefusalKind::Unavailable, error.to_string()))?;
        if let Some(id) = gone.iter().find(|id| !ended.contains_key(id)) {
            return Err(Refusal::new(
                RefusalKind::BadInput,
                format!("--after: there is no job {id}; `rota queue --all` lists them"),
            ));
        }
        let has_failed = |after: &api::After| {
            after.condition == AfterCondition::Ok && ended.get(&after.id).is_some_and(|state| *state != JobState::Done)
        };
        Ok(after.iter().any(has_failed))
    }

    /// Says why a job can never run here, if it cannot.
    fn check_fit(&self, record: &JobRecord, state: &State) -> Result<(), Refusal> {
        let ask = &record.spec.ask;
        self.gpus_numbered(&ask.gpu_ids)?;
        if let Some(text) = &ask.deadline {
            self.check_deadline(text)?;
        }
        let translator = Translator { machine: &self.devices.machine, estimates: &self.memory.estimates };
        let problem = match translator.new_job(record, &self.rows, self.stamp()) {
            Some(new) => state.check(&new).err(),
            None => Some(rota_core::bind::BindProblem::GangTooLarge { wanted: ask.gpus, largest: String::new() }),
        };
        problem.map_or(Ok(()), |problem| Err(Refusal::new(RefusalKind::BadInput, self.say(&problem))))
    }

    pub(crate) fn say(&self, problem: &rota_core::bind::BindProblem) -> String {
        use rota_core::bind::BindProblem;
        let machine = if self.devices.machine.devices.is_empty() {
            "this machine has no GPU; `rota up --virtual-gpus a100:4` makes some to try things with".to_owned()
        } else {
            let mut counts: Vec<(&str, u32)> = Vec::new();
            for kind in &self.devices.machine.kinds {
                match counts.iter_mut().find(|(known, _)| known == kind) {
                    Some((_, count)) => *count += 1,
                    None => counts.push((kind, 1)),
                }
            }
            let counts = counts.iter().map(|(kind, count)| format!("{count} {kind}")).collect::<Vec<_>>().join(", ");
            format!("this machine has {counts}")
        };
        match problem {
            BindProblem::GangTooLarge { wanted, .. } => {
                let way_out = self.mixed_way_out(*wanted);
                format!("--gpus: {wanted} GPUs are more than this job may use together: {machine}{way_out}")
            }
            BindProblem::MemoryTooLarge { wanted, largest } => {
                format!("--memory: {wanted} MiB is more than any GPU it may use has ({largest} MiB)")
            }
            BindProblem::UnknownGpuType { given, .. } => format!("--gpu-type: there is no `{given}` here: {machine}"),
            other => other.to_string(),
        }
    }

    /// How a gang that no single type has enough GPUs for could run after all, or why the slices of the machine do not help.
    fn mixed_way_out(&self, wanted: u32) -> String {
        let kinds = &self.devices.machine.kinds;
        let whole = kinds.iter().filter(|kind| !is_slice(kind)).count();
        if whole >= wanted as usize {
            "; `--any-type` lets it span types, and `--gpu-ids` names the very GPUs".to_owned()
        } else if kinds.len() >= wanted as usize {
            "; a process can use one MIG slice only, so that slices do not count".to_owned()
        } else {
            String::new()
        }
    }

    fn check_deadline(&self, text: &str) -> Result<(), Refusal> {
        let time: jiff::Timestamp = text.parse().map_err(|error| {
            Refusal::new(RefusalKind::BadInput, format!("--deadline: `{text}`: {error}; write it as 2026-11-16T18:00:00Z"))
        })?;
        if time.as_nanosecond() < i128::from(self.platform.wall_ns()) {
            return Err(Refusal::new(RefusalKind::BadInput, format!("--deadline: {text} is in the past")));
        }
        Ok(())
    }

    fn check_room(&self, jobs: usize, caller: &Caller) -> Result<(), Refusal> {
        let most = self.config.jobs.waiting_max;
        let there = self.records.jobs.len() + self.backlog.arrays.iter().map(PendingArray::left).sum::<usize>();
        if there + jobs > most {
            let message = format!("the queue is full: {there} jobs wait or run, and {most} may (jobs.waiting_max)");
            return Err(Refusal::new(RefusalKind::TooMany, message));
        }
        let Some(most) = self.config.users.quota_of(&caller.user).jobs else { return Ok(()) };
        let theirs = self.records.jobs.values().filter(|record| record.uid == caller.uid).count();
        if theirs + jobs > most {
            let message = format!("{} has {theirs} jobs in the queue, and may have {most}", caller.user);
            return Err(Refusal::new(RefusalKind::TooMany, message));
        }
        Ok(())
    }

    /// A job that is wider than its user's share would wait for ever.
    fn check_quota(&self, specs: &[Spec], caller: &Caller) -> Result<(), Refusal> {
        let Some(most) = self.config.users.quota_of(&caller.user).gpus else { return Ok(()) };
        match specs.iter().map(|spec| spec.ask.gpus).max() {
            Some(wanted) if wanted > most => {
                let message = format!("--gpus: {wanted} GPUs are more than the {most} that {} may have at once", caller.user);
                Err(Refusal::new(RefusalKind::BadInput, message))
            }
            _ => Ok(()),
        }
    }

    /// Whether a job must wait for others of its user, beside those accepted with it. Jobs that are held by their user keep nobody waiting.
    pub(crate) fn is_over_quota(&self, record: &JobRecord, gpus_beside: u32) -> bool {
        let Some(most) = self.config.users.quota_of(&record.user).gpus else { return false };
        let counts =
            |other: &&Arc<JobRecord>| other.uid == record.uid && other.id != record.id && !other.user_hold && !other.quota_hold;
        let in_play = self.records.jobs.values().filter(counts).map(|other| other.spec.ask.gpus).sum::<u32>();
        in_play + gpus_beside + record.spec.ask.gpus > most
    }

    /// Lets jobs into play that waited for others of their user.
    pub(crate) fn release_quota(&mut self, events: &mut Vec<Event>) {
        if self.records.quota_held.is_empty() {
            return;
        }
        let held = self.records.quota_held.iter().filter_map(|id| self.records.jobs.get(id)).cloned();
        let mut order = held.collect::<Vec<_>>();
        order.sort_by_key(|record| (std::cmp::Reverse(record.spec.ask.priority), record.id));
        for record in order {
            if !self.is_over_quota(&record, 0) {
                let released = EventKind::Released { job: record.id, hold: Hold::Quota, note: Note::default() };
                // If the store refuses, it is let into play when the next job of its user ends.
                if self.commit(vec![released.into()], events).is_ok() {
                    self.board.write().notes.remove(&record.id);
                }
            }
        }
    }

    pub(crate) fn claim(
        &mut self,
        claim: &GpuClaim,
        caller: &Caller,
        state: &State,
        events: &mut Vec<Event>,
    ) -> Result<u64, Refusal> {
        let bad = |message: String| Err(Refusal::new(RefusalKind::BadInput, message));
        let from = if claim.from.is_empty() {
            self.devices.machine.devices.iter().map(|device| device.index).collect()
        } else {
            claim.from.clone()
        };
        let gpus = match claim.mode {
            ClaimMode::Queue if claim.from.is_empty() => claim.gpus,
            ClaimMode::Queue => from.len() as u32,
            ClaimMode::Schedule => claim.gpus,
        };
        if gpus == 0 {
            return bad("--gpus: a claim needs at least one GPU".to_owned());
        }
        if gpus as usize > from.len() {
            return bad(format!("--gpus: {gpus} GPUs out of {} cannot be had", from.len()));
        }
        let Ok(identity) = rota_exec::Identity::of(claim.pid) else {
            return bad(format!("--pid: there is no process {}", claim.pid));
        };
        let ask = Submit { gpus, gpu_ids: from, name: claim.name.clone(), ..api::plain_submit() };
        let holder = Holder { pid: identity.pid, start_ticks: identity.start_ticks, boot_id: identity.boot_id };
        let spec = Spec {
            ask: Arc::new(ask),
            gid: caller.gid,
            array_index: None,
            is_template: false,
            values: Vec::new(),
            membership: None,
            holder: Some(holder),
            program: None,
            profile: None,
            is_profile_run: false,
            client: None,
        };
        self.accept_claim(&spec, caller, state, events)
    }

    pub(crate) fn accept_claim(
        &mut self,
        spec: &Spec,
        caller: &Caller,
        state: &State,
        events: &mut Vec<Event>,
    ) -> Result<u64, Refusal> {
        let mut accepted = self.accept((*spec.ask).clone(), caller, state)?;
        accepted.respecify(|_| Arc::new(spec.clone()));
        let ids = accepted.ids;
        self.commit(accepted.entries, events).map_err(|error| Refusal::new(RefusalKind::Unavailable, error.to_string()))?;
        let id = ids[0];
        if let Some(record) = self.records.jobs.get(&id).cloned()
            && let Some(outcome) = self.platform.watch_holder(&record)
        {
            // The process ended while it was asking.
            self.queue_end(&record, outcome);
        }
        Ok(id)
    }
}
