//! Explain: everything that stands in a waiting job's way, with numbers.

use crate::api::{Blocker, Explanation, JobState};
use crate::clock::rfc3339;
use crate::http::privacy::Viewer;
use crate::machine::platform::{Caller, Platform, Refusal, RefusalKind};
use crate::queue::world::{LiveWorld, no_such_job};
use crate::store::record::JobRecord;
use crate::view::board::plural;
use rota_core::snapshot::LOSSES_MAX;
use rota_core::{GpuId, JobId, Phase};
use rota_engine::State;
use rota_engine::explain::{GpuBlocker, WaitReason};
use std::collections::BTreeSet;

fn blocker(kind: &str, text: String) -> Blocker {
    Blocker { kind: kind.to_owned(), text, gpu: None, job: None, pid: None }
}

impl<P: Platform> LiveWorld<P> {
    pub(crate) fn explain(&self, id: u64, caller: &Caller, state: &State) -> Result<Explanation, Refusal> {
        let viewer = &Viewer::of(caller, self.config.users.private);
        let Some(record) = self.records.jobs.get(&id) else {
            let record = self.journal.store.job(id).map_err(|error| Refusal::new(RefusalKind::Unavailable, error.to_string()))?;
            let record = record.ok_or_else(|| no_such_job(id))?;
            let told = record.reason.clone().filter(|_| viewer.sees(record.uid));
            let reason = told.unwrap_or_else(|| format!("it is {}", record.state.word()));
            return Ok(Explanation::plain(id, record.state, reason));
        };
        if record.state.has_gpus() {
            let gpus = record.gpu_indices.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ");
            let since = record.started_ns.map(rfc3339).unwrap_or_default();
            let place = if gpus.is_empty() { "without a GPU".to_owned() } else { format!("on GPU {gpus}") };
            let mut reason = format!("it is {} {place} since {since}", record.state.word());
            if record.spec.ask.preemptible && record.progress.losses >= LOSSES_MAX {
                let losses = record.progress.losses;
                reason = format!("{reason}; it lost its work {losses} times by being stopped for others, so it runs to its end");
            }
            if let Some(words) = self.extras_in_words(record) {
                reason = format!("{reason}; {words}");
            }
            return Ok(Explanation::plain(id, record.state, reason));
        }
        let reasons = self.row(id).filter(|row| row.index() < state.jobs.len()).map(|row| state.why_waiting(row));
        let mut blockers = Vec::new();
        for reason in reasons.unwrap_or_default() {
            match reason {
                WaitReason::Held => blockers.extend(self.hold_blockers(record, viewer)),
                WaitReason::Dependencies(jobs) => blockers.extend(jobs.iter().filter_map(|job| self.dependency_blocker(*job))),
                WaitReason::Drained => {
                    let text = "the queue is drained: nothing is started until `rota resume`";
                    blockers.push(blocker("drain", text.to_owned()));
                }
                WaitReason::Promised { gpus, after } => blockers.push(self.promise_blocker(&gpus, &after)),
                WaitReason::Order { free } => blockers.push(self.order_blocker(record, &free)),
                WaitReason::Gpus { free, blocked } => blockers.extend(self.gpu_blockers(record, viewer, &free, &blocked)),
            }
        }
        // A guarded model says who decides, the model or its guard, and why.
        let decides = self.board.read().warnings.get("policy").filter(|said| said.starts_with("learned: ")).cloned();
        if !blockers.is_empty() {
            blockers.extend(decides.map(|said| blocker("order", said)));
        }
        if let Some(said) = self.board.read().engine.clone().filter(|_| record.spec.ask.gpus > 0) {
            blockers.push(blocker("gpu", said));
        }
        if let Some(problem) = self.board.read().warnings.get("store") {
            blockers.insert(0, blocker("disk", problem.clone()));
        }
        let head = what_it_needs(record);
        let texts = blockers.iter().map(|blocker| blocker.text.as_str()).collect::<Vec<_>>().join(", ");
        let reason = match (record.state, blockers.first().map(|first| first.kind.as_str())) {
            (JobState::Waiting, Some("gpu" | "order")) => format!("{head}; {texts}"),
            (_, None) => format!("{head}; it is about to start"),
            _ => texts,
        };
        let expected = self.board.read().prediction(id);
        let ahead = expected.as_ref().map_or_else(Vec::new, |expected| self.ahead_of(id, expected.position, state));
        let cause = dominant(&blockers, &ahead);
        let (earliest_start, start_p50, start_p90, start_note) = expected
            .map(|expected| (expected.start_p10, expected.start_p50, expected.start_p90, expected.note))
            .unwrap_or_default();
        let plain = Explanation::plain(id, record.state, reason);
        Ok(Explanation { blockers, earliest_start, start_p50, start_p90, start_note, cause, ..plain })
    }

    /// The jobs that are expected to start before this one and could use a GPU that it could use.
    fn ahead_of(&self, id: u64, position: u32, state: &State) -> Vec<u64> {
        let row_of = |id| self.row(id).filter(|row| row.index() < state.jobs.len());
        let Some(own) = row_of(id) else { return Vec::new() };
        let types = &state.bound.shape(own).types;
        let view = self.board.read();
        let before = view.predictions.jobs.iter().filter(|other| other.position < position && other.start_p50.is_some());
        let waits = |id: &u64| {
            row_of(*id).is_some_and(|row| {
                matches!(state.jobs[row.index()].phase, Phase::Waiting | Phase::Blocked)
                    && state.bound.shape(row).types.iter().any(|kind| types.contains(kind))
            })
        };
        before.map(|other| other.id).filter(waits).collect()
    }

    /// The holds on a job, in words.
    fn hold_blockers(&self, record: &JobRecord, viewer: &Viewer) -> Vec<Blocker> {
        let mut blockers = Vec::new();
        if record.user_hold {
            blockers.push(blocker("hold", format!("it is held; `rota release {}` lets it go", record.id)));
        }
        if let Some(due) = record.not_before {
            let ahead = due.saturating_sub(self.platform.now().0).cast_signed();
            let at = rfc3339(self.platform.wall_ns() + ahead);
            let why = record.reason.as_deref().filter(|_| viewer.sees(record.uid)).unwrap_or("it failed");
            blockers.push(blocker("retry", format!("attempt {} ended: {why}; it is tried again at {at}", record.attempts)));
        }
        if record.quota_hold {
            let most = self.config.users.quota_of(&record.user).gpus.unwrap_or(0);
            blockers.push(blocker("quota", format!("{} may have {most} GPUs at once, and has them", record.user)));
        }
        blockers
    }

    /// A job that must end first, in words.
    fn dependency_blocker(&self, job: JobId) -> Option<Blocker> {
        let other = self.records.jobs.get(&self.rows.id(job)?)?;
        let text = format!("it waits for job {}, which is {}", other.id, other.state.word());
        Some(Blocker { job: Some(other.id), ..blocker("dependency", text) })
    }

    /// GPUs that are promised to the job and that others are still leaving, in words.
    fn promise_blocker(&self, gpus: &[GpuId], after: &[JobId]) -> Blocker {
        let (who, many) = (self.numbers(after), plural(after.len() as u32));
        let text = format!("GPU {} goes to it as soon as job{many} {who} has left it", self.indices(gpus));
        Blocker { job: after.first().and_then(|job| self.rows.id(*job)), ..blocker("order", text) }
    }

    /// There is room, and another job has a better claim to it, in words.
    fn order_blocker(&self, record: &JobRecord, free: &[GpuId]) -> Blocker {
        if record.spec.ask.gpus == 0 {
            return blocker(
                "order",
                format!("a processor slot is free; jobs before it come first (policy `{}`)", self.switches.policy),
            );
        }
        let view = self.board.read();
        let promised = view.promises.iter().filter(|(job, _)| **job != record.id).min_by_key(|(_, at)| **at);
        let free = self.indices(free);
        let text = match promised {
            Some((job, at)) => format!("GPU {free} would do, but job {job} is to have it from about {}", rfc3339(*at)),
            None => format!("GPU {free} would do; jobs before it come first (policy `{}`)", self.switches.policy),
        };
        Blocker { job: promised.map(|(job, _)| *job), ..blocker("order", text) }
    }

    /// For each GPU the job might use, why it does not have it, in words.
    fn gpu_blockers(&self, record: &JobRecord, viewer: &Viewer, free: &[GpuId], blocked: &[(GpuId, GpuBlocker)]) -> Vec<Blocker> {
        if record.spec.ask.gpus == 0 {
            return vec![blocker("order", "all processor slots are taken".to_owned())];
        }
        let ask = &record.spec.ask;
        let could_mix = !ask.any_type && ask.gpu_ids.is_empty() && free.len() >= ask.gpus as usize;
        let way_out = if could_mix { "; with `--any-type` a job may use GPUs of several types" } else { "" };
        let free = (!free.is_empty()).then(|| blocker("gpu", format!("GPU {} is free{way_out}", self.indices(free))));
        let blocked = blocked.iter().filter_map(|(gpu, found)| {
            let device = self.devices.machine.device(*gpu)?;
            if crate::slurm::nodes::is_promise(self.devices.machine.node_of(*gpu)) {
                // It can be had only through an allocation, of which more is said.
                return None;
            }
            Some(Blocker { gpu: Some(device.index), ..self.gpu_blocker(*gpu, &format!("GPU {}", device.index), viewer, found)? })
        });
        free.into_iter().chain(blocked).collect()
    }

    /// Why a GPU cannot take a job, in words.
    fn gpu_blocker(&self, gpu: GpuId, name: &str, viewer: &Viewer, found: &GpuBlocker) -> Option<Blocker> {
        if self.devices.lost.contains(&gpu) {
            return Some(blocker("gpu", format!("{name} is lost")));
        }
        if self.devices.drained.contains(&gpu) {
            return Some(blocker("gpu", format!("{name} is drained")));
        }
        if let Some(job) = self.devices.astray_on(gpu) {
            let text = format!("{name} runs job {job}, which has lost another of its GPUs");
            return Some(Blocker { job: Some(job), ..blocker("gpu", text) });
        }
        if let Some(other) = self.devices.offered.get(&gpu).and_then(|job| self.records.jobs.get(job)) {
            let text = match self.withdrawal_end(other) {
                Some(_) => format!("{name} is lent to job {}, which gives it back by {}", other.id, self.withdrawal_text(other)),
                None => format!("{name} is lent to job {}", other.id),
            };
            return Some(Blocker { job: Some(other.id), ..blocker("gpu", text) });
        }
        if self.devices.held.contains(&gpu) {
            return Some(blocker("gpu", format!("{name} is still held by the MPS server of jobs that have ended")));
        }
        let (jobs, text) = match found {
            GpuBlocker::NodeLost => {
                let node = self.devices.machine.node_of(gpu);
                return Some(blocker("gpu", format!("{name} is lost with its node {node}")));
            }
            GpuBlocker::Outside => return Some(self.held_by_strangers(gpu, name)),
            GpuBlocker::Group(jobs) | GpuBlocker::Taken(jobs) if !viewer.sees(self.record_at(jobs)?.uid) => {
                (jobs, format!("{name} runs job {}", self.record_at(jobs)?.id))
            }
            GpuBlocker::Group(jobs) => {
                let other = self.record_at(jobs)?;
                let how = if other.is_under_mps() { format!("under MPS of {}", other.user) } else { "without MPS".to_owned() };
                (jobs, format!("{name} runs job {} {how}, and is not shared with others", other.id))
            }
            GpuBlocker::Slower(jobs) => {
                let (who, many) = (self.numbers(jobs), plural(jobs.len() as u32));
                (jobs, format!("{name} has room, but with it beside job{many} {who} less would get done"))
            }
            GpuBlocker::Memory { jobs, left_mib } => {
                let (who, many) = (self.numbers(jobs), plural(jobs.len() as u32));
                (jobs, format!("{name} has {} of its memory left beside job{many} {who}", gib(u64::from(*left_mib))))
            }
            GpuBlocker::Taken(jobs) => {
                let other = self.record_at(jobs)?;
                let until = self.believed_end(other).map(|at| format!(" until about {} by its estimate", rfc3339(at)));
                let what = if other.is_claim() { "is claimed as job" } else { "runs job" };
                (jobs, format!("{name} {what} {}{}", other.id, until.unwrap_or_default()))
            }
        };
        Some(Blocker { job: jobs.first().and_then(|job| self.rows.id(*job)), ..blocker("gpu", text) })
    }

    /// The numbers of GPUs, as people count them.
    fn indices(&self, gpus: &[GpuId]) -> String {
        let devices = gpus.iter().filter_map(|gpu| self.devices.machine.device(*gpu));
        devices.map(|device| device.index.to_string()).collect::<Vec<_>>().join(", ")
    }

    fn record_at(&self, jobs: &[JobId]) -> Option<&JobRecord> {
        self.records.jobs.get(&self.rows.id(*jobs.first()?)?).map(|record| &**record)
    }

    fn numbers(&self, jobs: &[JobId]) -> String {
        jobs.iter().filter_map(|job| self.rows.id(*job)).map(|id| id.to_string()).collect::<Vec<_>>().join(", ")
    }

    fn held_by_strangers(&self, gpu: GpuId, name: &str) -> Blocker {
        let look = self.devices.telemetry.looks.get(gpu.index());
        let stranger = look.and_then(|look| {
            look.processes.iter().filter(|process| process.job.is_none()).max_by_key(|process| process.memory_mib)
        });
        let free = look.and_then(|look| look.reading.as_ref()).map_or(0, |reading| reading.memory_free_mib);
        let held = match stranger {
            Some(process) => {
                let who = process.user.as_deref().map_or_else(|| "an unknown user".to_owned(), str::to_owned);
                format!("held by pid {} of {who}", process.pid)
            }
            None => "held by nobody known".to_owned(),
        };
        let text = format!("{name} has {} free ({held})", gib(free));
        Blocker { pid: stranger.map(|process| process.pid), ..blocker("gpu", text) }
    }

    /// When a running job is believed to end, in nanoseconds since 1970; nothing is said of one that said nothing.
    fn believed_end(&self, record: &JobRecord) -> Option<i64> {
        let believed = record.spec.ask.estimate_seconds.or(record.spec.ask.time_limit_seconds)?;
        let end = record.started_ns? + (believed * 1e9) as i64;
        Some(end.max(self.platform.wall_ns()))
    }
}

/// What keeps a job waiting most: the jobs that are expected to start before it, or else its GPUs. Of many GPUs that are taken the number
/// counts, not each one.
fn dominant(blockers: &[Blocker], ahead: &[u64]) -> Option<String> {
    let first = blockers.first()?;
    if matches!(first.kind.as_str(), "gpu" | "order") {
        match ahead {
            [] => {}
            [one] => return Some(format!("job {one} is expected to start before it")),
            several => return Some(format!("{} jobs are expected to start before it", several.len())),
        }
    }
    let blocked = || blockers.iter().filter(|blocker| blocker.kind == "gpu" && blocker.gpu.is_some());
    if first.kind != "gpu" || blocked().next().is_none() {
        return Some(first.text.clone());
    }
    let taken = blocked().filter(|blocker| blocker.job.is_some());
    let jobs = taken.clone().filter_map(|blocker| blocker.job).collect::<BTreeSet<_>>();
    match (blocked().count(), taken.count()) {
        (1, _) => blocked().next().map(|only| only.text.clone()),
        (gpus, 0) => Some(format!("{gpus} of the GPUs that it could use are not to be had")),
        (_, 1) => blocked().find(|blocker| blocker.job.is_some()).map(|only| only.text.clone()),
        (_, taken) => {
            Some(format!("{taken} of the GPUs that it could use are taken, by {} job{}", jobs.len(), plural(jobs.len() as u32)))
        }
    }
}

fn what_it_needs(record: &JobRecord) -> String {
    let ask = &record.spec.ask;
    match (ask.gpus, record.memory()) {
        (0, _) => "needs a processor slot".to_owned(),
        (gpus, Some(memory)) => format!("needs {gpus} × {}", gib(u64::from(memory))),
        (gpus, None) => format!("needs {gpus} whole GPU{}", plural(gpus)),
    }
}

/// Memory as people say it.
fn gib(mib: u64) -> String {
    format!("{:.1} GiB", mib as f64 / 1024.0)
}
