//! Intake: what users ask for becomes jobs.

use crate::api::{self, AfterCondition, Claim, ClaimMode, State, Submit, Submitted};
use crate::machine::CPU;
use crate::platform::{Caller, Platform, Refusal, RefusalKind, Reply};
use crate::profiles::class_of;
use crate::record::{Holder, Record, Spec, fill_in};
use crate::sharing::{ProfileRun, group_of, wait_for_profile};
use crate::store::Entry;
use crate::text::Text;
use crate::world::{Change, LiveWorld};
use rota_core::{Dependency, DependencyCondition, Event, EventKind, Job, JobId, MilliGpu, Span, Time};
use rota_engine::State as EngineState;
use serde_json::json;
use std::collections::HashMap;
use std::sync::Arc;

/// The most jobs that one array or sweep may make.
const ARRAY_MAX: usize = 100_000;
/// The most bytes of a command with its environment: what the system would refuse to run anyway.
const COMMAND_BYTES_MAX: usize = 2 << 20;

/// A submit and where its answer goes.
pub(crate) type Asked = (Box<Submit>, Caller, Reply<Submitted>);

/// A submit that was found sound, with its jobs.
pub(crate) struct Accepted {
    pub ids: Vec<u64>,
    pub changes: Vec<Change>,
    pub events: Vec<EventKind>,
}

impl<P: Platform> LiveWorld<P> {
    pub(crate) fn take_submits(&mut self, asked: Vec<Asked>, state: &mut EngineState, events: &mut Vec<Event>) {
        if asked.is_empty() {
            return;
        }
        let mut accepted = Vec::new();
        let mut changes = Vec::new();
        let mut keys: HashMap<(u32, String), Vec<u64>> = HashMap::new();
        for (ask, caller, reply) in asked {
            let key = ask.key.clone().map(|key| (caller.uid, key));
            if let Some(ids) = key.as_ref().and_then(|key| keys.get(key)) {
                accepted.push((ids.clone(), true, Vec::new(), reply));
                continue;
            }
            match self.existing(&ask, &caller).and_then(|known| match known {
                Some(ids) => Ok((ids, true, Vec::new())),
                None => self.accept(*ask, &caller, state).map(|new| {
                    changes.extend(new.changes);
                    (new.ids, false, new.events)
                }),
            }) {
                Ok((ids, existing, kinds)) => {
                    keys.extend(key.map(|key| (key, ids.clone())));
                    accepted.push((ids, existing, kinds, reply));
                }
                Err(refusal) => _ = reply.send(Err(refusal)),
            }
        }
        let outcome = self.commit(changes);
        for (ids, existing, kinds, reply) in accepted {
            match &outcome {
                Ok(()) => {
                    for kind in kinds {
                        self.tell(events, kind);
                    }
                    _ = reply.send(Ok(Submitted { ids, existing }));
                }
                Err(error) => {
                    for id in &ids {
                        self.quota_held.remove(id);
                    }
                    let jobs = &self.jobs;
                    self.profile_runs.retain(|_, run| jobs.contains_key(run));
                    _ = reply.send(Err(Refusal::new(RefusalKind::Unavailable, format!("the job was not accepted: {error}"))));
                }
            }
        }
    }

    /// The jobs that a repeated submit made the first time.
    fn existing(&self, ask: &Submit, caller: &Caller) -> Result<Option<Vec<u64>>, Refusal> {
        let Some(key) = &ask.key else { return Ok(None) };
        let ids =
            self.store.by_key(caller.uid, key).map_err(|error| Refusal::new(RefusalKind::Unavailable, error.to_string()))?;
        Ok(Some(ids).filter(|ids| !ids.is_empty()))
    }

    pub(crate) fn accept(&mut self, mut ask: Submit, caller: &Caller, state: &mut EngineState) -> Result<Accepted, Refusal> {
        if !caller.may_write {
            return Err(Refusal::new(RefusalKind::Forbidden, "this token may only read"));
        }
        check(&ask)?;
        if ask.mps || ask.threads_percent.is_some() {
            let refused = |problem: String| Refusal::new(RefusalKind::BadInput, format!("--mps: {problem}"));
            if ask.gpus != 1 {
                return Err(refused(format!("a job under MPS has one GPU, not {}", ask.gpus)));
            }
            self.platform.check_mps().map_err(refused)?;
        }
        let unmet = self.check_after(&ask.after)?;
        let env = Arc::new(std::mem::take(&mut ask.env));
        let specs = expand(ask, caller)?;
        self.check_room(specs.len(), caller)?;
        self.check_quota(&specs, caller)?;
        let first = self.next_id;
        self.take_all_in(specs, caller, &env, unmet, state).inspect_err(|_| {
            // A run that was to come first is not made, either.
            self.profile_runs.retain(|_, run| *run < first);
        })
    }

    fn take_all_in(
        &mut self,
        specs: Vec<Spec>,
        caller: &Caller,
        env: &Arc<Vec<(Text, Text)>>,
        unmet: bool,
        state: &mut EngineState,
    ) -> Result<Accepted, Refusal> {
        let mut accepted = Accepted { ids: Vec::new(), changes: Vec::new(), events: Vec::new() };
        for mut spec in specs {
            spec.profile = spec.ask.memory_auto.then(|| class_of(&spec.ask, &self.config.sharing));
            match self.profile_run_before(&spec, caller) {
                ProfileRun::NotNeeded => {}
                ProfileRun::UnderWay(run) => wait_for_profile(&mut spec, run),
                ProfileRun::New(run) => {
                    let id = self.take_in(*run, caller, env, unmet, &mut accepted, state)?;
                    wait_for_profile(&mut spec, id);
                }
            }
            let id = self.take_in(spec, caller, env, unmet, &mut accepted, state)?;
            accepted.ids.push(id);
        }
        Ok(accepted)
    }

    /// Makes one job of a submit.
    fn take_in(
        &mut self,
        spec: Spec,
        caller: &Caller,
        env: &Arc<Vec<(Text, Text)>>,
        unmet: bool,
        accepted: &mut Accepted,
        state: &mut EngineState,
    ) -> Result<u64, Refusal> {
        let stamp = self.stamp();
        let id = self.next_id;
        let mut record = Record {
            id,
            uid: caller.uid,
            user: caller.user.clone(),
            state: if spec.ask.hold { State::Held } else { State::Waiting },
            user_hold: spec.ask.hold,
            spec: Arc::new(spec),
            env_id: 0,
            exit_code: None,
            signal: None,
            reason: None,
            gpu_uuids: Vec::new(),
            gpu_indices: Vec::new(),
            submitted_ns: stamp.wall_ns,
            started_ns: None,
            finished_ns: None,
            arrived_at: stamp.at,
            started_at: None,
            attempts: 0,
            failures: 0,
            preemptions: 0,
            service_ns: 0,
            not_before: None,
            cancel: false,
            memory_mib: None,
            ooms: 0,
            peak_memory_mib: None,
            energy_joules: None,
        };
        record.memory_mib = self.memory_for(&record);
        let job = self
            .admit(&record, state)
            .map_err(|refusal| Refusal { message: self.too_large(&record, refusal.message), ..refusal })?;
        self.next_id += 1;
        if unmet {
            // As if it had been submitted a moment earlier: when it came must not decide what becomes of it.
            self.numbers.remove(&id);
            let failed = self.failed_dependency(&record);
            accepted.changes.push(Change { env: Some(Arc::clone(env)), ..failed });
            return Ok(id);
        }
        self.follow_profile(&record);
        accepted.events.push(EventKind::Submitted { job });
        if record.user_hold {
            accepted.events.push(EventKind::Held { job });
        }
        if self.is_over_quota(&record, &accepted.changes) {
            self.quota_held.insert(id);
            let note = format!("{} has as many GPUs as it may have at once", record.user);
            self.board.write().notes.insert(id, note);
            accepted.events.push(EventKind::Held { job });
        }
        let detail = json!({ "gpus": record.spec.ask.gpus, "user": record.user });
        let entry = Entry { job: Some(id), kind: "submitted", detail };
        accepted.changes.push(Change { record, env: Some(Arc::clone(env)), entry });
        Ok(id)
    }

    /// Whether a job that is waited for has ended badly already. Jobs that never were cannot be waited for.
    fn check_after(&self, after: &[api::After]) -> Result<bool, Refusal> {
        let gone = after.iter().map(|after| after.id).filter(|id| !self.jobs.contains_key(id)).collect::<Vec<_>>();
        let ended = self.store.states_of(&gone).map_err(|error| Refusal::new(RefusalKind::Unavailable, error.to_string()))?;
        if let Some(id) = gone.iter().find(|id| !ended.contains_key(id)) {
            return Err(Refusal::new(
                RefusalKind::BadInput,
                format!("--after: there is no job {id}; `rota queue --all` lists them"),
            ));
        }
        let has_failed = |after: &api::After| {
            after.condition == AfterCondition::Ok && ended.get(&after.id).is_some_and(|state| *state != State::Done)
        };
        Ok(after.iter().any(has_failed))
    }

    /// Gives a job to the scheduler, or says why it can never run here.
    pub(crate) fn admit(&mut self, record: &Record, state: &mut EngineState) -> Result<JobId, Refusal> {
        let job = self.scheduler_job(record, state)?;
        let admitted = state.admit(&mut self.binder, job, &self.table);
        let number = admitted.map_err(|problem| Refusal::new(RefusalKind::BadInput, self.say(&problem)))?;
        debug_assert_eq!(number.index(), self.ids.len());
        self.ids.push(record.id);
        self.numbers.insert(record.id, number);
        Ok(number)
    }

    pub(crate) fn say(&self, problem: &rota_core::bind::BindProblem) -> String {
        use rota_core::bind::BindProblem;
        let machine = if self.machine.devices.is_empty() {
            "this machine has no GPU; `rota up --virtual-gpus a100:4` makes some to try things with".to_owned()
        } else {
            let mut counts: Vec<(&str, u32)> = Vec::new();
            for kind in &self.machine.kinds {
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
                format!("--gpus: {wanted} GPUs of one type that this job may use are more than there are: {machine}")
            }
            BindProblem::MemoryTooLarge { wanted, largest } => {
                format!("--memory: {wanted} MiB is more than any GPU it may use has ({largest} MiB)")
            }
            BindProblem::UnknownGpuType { given, .. } => format!("--gpu-type: there is no `{given}` here: {machine}"),
            other => other.to_string(),
        }
    }

    /// The job as the scheduler sees it.
    fn scheduler_job(&self, record: &Record, state: &mut EngineState) -> Result<Job, Refusal> {
        let ask = &record.spec.ask;
        let seconds = |value: f64| Span::from_seconds(value).unwrap_or(Span::from_whole_seconds(1)).max(Span(1));
        let (believed, share, memory_mib) = self.model.of(record);
        let gpu_types = if ask.gpus == 0 {
            vec![CPU.to_owned()]
        } else if ask.gpu_types.is_empty() {
            self.machine.gpu_types().map(str::to_owned).collect()
        } else {
            ask.gpu_types.clone()
        };
        if gpu_types.is_empty() || (ask.gpus > 0 && gpu_types.iter().any(|kind| kind == CPU)) {
            let none = rota_core::bind::BindProblem::GangTooLarge { wanted: ask.gpus, largest: String::new() };
            return Err(Refusal::new(RefusalKind::BadInput, self.say(&none)));
        }
        let only = self.gpus_numbered(&ask.gpu_ids)?;
        let names = &mut Arc::make_mut(&mut state.bound).names;
        let after = ask.after.iter().filter_map(|after| {
            let condition =
                if after.condition == AfterCondition::Ok { DependencyCondition::Ok } else { DependencyCondition::Any };
            Some(Dependency { job: self.number(after.id).filter(|_| self.jobs.contains_key(&after.id))?, condition })
        });
        let deadline = ask.deadline.as_deref().map(|text| self.moment(text)).transpose()?;
        Ok(Job {
            label: None,
            user: names.intern(&record.user),
            kind: ask.job_type.as_ref().map_or(rota_core::Name::NONE, |kind| names.intern(kind)),
            gpus: ask.gpus.max(1),
            gpu_types: gpu_types.iter().map(|kind| names.intern(kind)).collect(),
            share: MilliGpu(share),
            memory_mib,
            group: group_of(record),
            estimate: Some(seconds(believed)),
            priority: ask.priority,
            weight: ask.weight,
            tickets: ask.tickets,
            after: after.collect(),
            retries: ask.retries,
            preemptible: ask.preemptible,
            only: only.into(),
            deadline,
            ..Job::new(Time(record.arrived_at), seconds(believed))
        })
    }

    /// A wall-clock moment in the queue's time.
    fn moment(&self, text: &str) -> Result<Time, Refusal> {
        let time: jiff::Timestamp = text.parse().map_err(|error| {
            Refusal::new(RefusalKind::BadInput, format!("--deadline: `{text}`: {error}; write it as 2026-11-16T18:00:00Z"))
        })?;
        let ahead = time.as_nanosecond() - i128::from(self.platform.wall_ns());
        if ahead < 0 {
            return Err(Refusal::new(RefusalKind::BadInput, format!("--deadline: {text} is in the past")));
        }
        Ok(Time(self.platform.now().0.saturating_add(ahead as u64)))
    }

    fn check_room(&self, jobs: usize, caller: &Caller) -> Result<(), Refusal> {
        let most = self.config.jobs.waiting_max;
        if self.jobs.len() + jobs > most {
            let message = format!("the queue is full: {} jobs wait or run, and {most} may (jobs.waiting_max)", self.jobs.len());
            return Err(Refusal::new(RefusalKind::TooMany, message));
        }
        let Some(most) = self.config.users.quota_of(&caller.user).jobs else { return Ok(()) };
        let theirs = self.jobs.values().filter(|record| record.uid == caller.uid).count();
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

    /// Whether a job must wait for others of its user, given those accepted with it. Jobs that are held by their user keep nobody waiting.
    pub(crate) fn is_over_quota(&self, record: &Record, with: &[Change]) -> bool {
        let Some(most) = self.config.users.quota_of(&record.user).gpus else { return false };
        let counts = |other: &Record| {
            other.uid == record.uid && other.id != record.id && !other.user_hold && !self.quota_held.contains(&other.id)
        };
        let theirs = self.jobs.values().map(|other| &**other).chain(with.iter().map(|change| &change.record));
        let in_play = theirs.filter(|other| counts(other)).map(|other| other.spec.ask.gpus).sum::<u32>();
        in_play + record.spec.ask.gpus > most
    }

    /// Lets jobs into play that waited for others of their user.
    pub(crate) fn release_quota(&mut self, events: &mut Vec<Event>) {
        if self.quota_held.is_empty() {
            return;
        }
        let mut order = self.quota_held.iter().filter_map(|id| self.jobs.get(id)).cloned().collect::<Vec<_>>();
        order.sort_by_key(|record| (std::cmp::Reverse(record.spec.ask.priority), record.id));
        for record in order {
            if !self.is_over_quota(&record, &[]) {
                self.quota_held.remove(&record.id);
                self.board.write().notes.remove(&record.id);
                if let Some(job) = self.number(record.id) {
                    self.tell(events, EventKind::Released { job });
                }
            }
        }
    }

    pub(crate) fn claim(
        &mut self,
        claim: &Claim,
        caller: &Caller,
        state: &mut EngineState,
        events: &mut Vec<Event>,
    ) -> Result<u64, Refusal> {
        let bad = |message: String| Err(Refusal::new(RefusalKind::BadInput, message));
        let from = if claim.from.is_empty() {
            self.machine.devices.iter().map(|device| device.index).collect()
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
            ask,
            gid: caller.gid,
            array_index: None,
            values: Vec::new(),
            holder: Some(holder),
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
        state: &mut EngineState,
        events: &mut Vec<Event>,
    ) -> Result<u64, Refusal> {
        let mut accepted = self.accept(spec.ask.clone(), caller, state)?;
        for change in &mut accepted.changes {
            change.record.spec = Arc::new(spec.clone());
        }
        let (ids, kinds) = (accepted.ids, accepted.events);
        self.commit(accepted.changes).map_err(|error| Refusal::new(RefusalKind::Unavailable, error.to_string()))?;
        for kind in kinds {
            self.tell(events, kind);
        }
        let id = ids[0];
        if let Some(record) = self.jobs.get(&id).cloned()
            && let Some(outcome) = self.platform.watch_holder(&record)
        {
            // The process ended while it was asking.
            self.queue_end(&record, outcome);
        }
        Ok(id)
    }
}

/// Says what cannot be meant, by the name of the option.
fn check(ask: &Submit) -> Result<(), Refusal> {
    let bad = |message: String| Err(Refusal::new(RefusalKind::BadInput, message));
    if ask.command.is_empty() || ask.command[0].0.is_empty() {
        return bad("there is no command; write it after `--`, as in `rota submit -- python train.py`".to_owned());
    }
    let bytes = ask.command.iter().map(|part| part.0.len() + 1).sum::<usize>()
        + ask.env.iter().map(|(name, value)| name.0.len() + value.0.len() + 2).sum::<usize>();
    if bytes > COMMAND_BYTES_MAX {
        return bad(format!(
            "the command and its environment have {bytes} bytes, and {COMMAND_BYTES_MAX} is the most a program is given: put long lists into a file"
        ));
    }
    if ask.command.iter().chain(std::iter::once(&ask.cwd)).any(|text| text.0.contains(&0)) {
        return bad("a command cannot hold a zero byte".to_owned());
    }
    if ask
        .env
        .iter()
        .any(|(name, value)| name.0.is_empty() || name.0.contains(&b'=') || name.0.contains(&0) || value.0.contains(&0))
    {
        return bad("--env: write NAME=VALUE; a name is not empty and holds no `=`".to_owned());
    }
    if !ask.cwd.0.starts_with(b"/") {
        return bad(format!("--cwd: `{}` is not a full path", ask.cwd.lossy()));
    }
    if ask.memory_auto && (ask.memory_mib.is_some() || ask.share.is_some() || ask.gpus == 0) {
        return bad("--memory auto: it cannot go with a number of MiB, with --share or with --gpus 0".to_owned());
    }
    if ask.profile_epochs == Some(0) {
        return bad("--profile-epochs: 0 epochs measure nothing; write 1 or more".to_owned());
    }
    if let Some(share) = ask.share
        && !(0.001..=1.0).contains(&share)
    {
        return bad(format!("--share: {share} is not between 0.001 and 1"));
    }
    if !(ask.weight.is_finite() && ask.weight > 0.0 && ask.weight <= 1e6) {
        return bad(format!("--weight: {} is not a number above 0", ask.weight));
    }
    let times = [
        ("--estimate", ask.estimate_seconds),
        ("--time-limit", ask.time_limit_seconds),
        ("--grace", ask.grace_seconds),
        ("--retry-delay", ask.retry_delay_seconds),
    ];
    for (option, value) in times {
        if let Some(value) = value
            && !(value.is_finite() && (0.0..=1e9).contains(&value))
        {
            return bad(format!("{option}: {value} is not a length of time in seconds"));
        }
    }
    if ask.time_limit_seconds == Some(0.0) {
        return bad("--time-limit: 0 leaves no time to run".to_owned());
    }
    if ask.tickets == 0 {
        return bad("--tickets: a job needs at least one".to_owned());
    }
    if ask.threads_percent.is_some_and(|percent| percent == 0 || percent > 100) {
        return bad("--threads-percent: write 1 to 100".to_owned());
    }
    let mut seen = ask.gpu_ids.clone();
    seen.sort_unstable();
    seen.dedup();
    if seen.len() != ask.gpu_ids.len() {
        return bad("--gpu-ids: a GPU is named twice".to_owned());
    }
    let texts = [&ask.name, &ask.project, &ask.key, &ask.profile_as, &ask.job_type, &ask.number_argument];
    for text in texts.into_iter().flatten() {
        if text.is_empty() || text.len() > 256 || text.chars().any(char::is_control) {
            let these = "--name, --project, --key, --profile-as and --job-type";
            return bad(format!("{these}: 1 to 256 characters, none of them a control character"));
        }
    }
    Ok(())
}

/// One job for each index and each combination of values.
fn expand(ask: Submit, caller: &Caller) -> Result<Vec<Spec>, Refusal> {
    let bad = |message: String| Err(Refusal::new(RefusalKind::BadInput, message));
    let mut count = ask.array.len().max(1);
    for param in &ask.params {
        if param.values.is_empty() || param.name.is_empty() {
            return bad(format!("--param {}: write NAME=VALUE,VALUE,…", param.name));
        }
        count = count.saturating_mul(param.values.len());
    }
    if count > ARRAY_MAX {
        return bad(format!("{count} jobs in one submit are more than the {ARRAY_MAX} that one may make"));
    }
    let mut combinations: Vec<Vec<(String, String)>> = vec![Vec::new()];
    for param in &ask.params {
        combinations = combinations
            .iter()
            .flat_map(|before| {
                param.values.iter().map(|value| {
                    let mut combination = before.clone();
                    combination.push((param.name.clone(), value.clone()));
                    combination
                })
            })
            .collect();
    }
    let indices = if ask.array.is_empty() { vec![None] } else { ask.array.iter().copied().map(Some).collect::<Vec<_>>() };
    let plain = Submit { array: Vec::new(), params: Vec::new(), ..ask };
    let mut specs = Vec::with_capacity(count);
    for index in indices {
        for values in &combinations {
            let mut command = plain.command.clone();
            if let Some(index) = index {
                command = fill_in(&command, "index", &index.to_string());
            }
            for (name, value) in values {
                command = fill_in(&command, name, value);
            }
            let ask = Submit { command, ..plain.clone() };
            specs.push(Spec {
                ask,
                gid: caller.gid,
                array_index: index,
                values: values.clone(),
                holder: None,
                profile: None,
                is_profile_run: false,
                client: None,
            });
        }
    }
    Ok(specs)
}
