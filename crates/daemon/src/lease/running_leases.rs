//! The leases of running jobs. The queue's thread begins, stops and ends them; the threads of the service renew them without asking it.

use crate::clock::{Clock, SystemClock};
use crate::config::{Config, Mechanism};
use crate::lease::gavel::UpdateLeaseRequest;
use crate::lease::meter::{Counting, Meter, Told};
use crate::lease::token::{LeaseHolder, LeaseKey};
use crate::machine::platform::{Refusal, RefusalKind};
use crate::store::record::JobRecord;
use rota_core::{Span, SpeedSample, StopCause, Time};
use std::collections::{BTreeMap, HashMap};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};
use tokio::sync::watch;

/// The part of a round by which a lease lasts longer than the round.
const SLACK_PART: u64 = 20;

/// What a listener hears of a lease.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Standing {
    /// The seconds that the job has to save and leave, once it was asked to.
    pub stop: Option<f64>,
    /// When the lease ends, by the queue's clock.
    pub until: Time,
    /// Whether the run has ended.
    pub is_over: bool,
    /// The GPUs beyond its own that the run may use.
    pub extras: usize,
}

/// What a job has told of a run.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct RunProgress {
    /// Steps done since the job's first start.
    pub steps: u64,
    /// Steps done in this run.
    pub run_steps: u64,
    /// How long the run took for them.
    pub ran: Span,
}

struct Lease {
    number: u32,
    /// The GPUs of the run.
    gpus: Vec<String>,
    /// Processes that hold the lease together.
    world: u32,
    /// Whether the job's asking was written down.
    is_taken: bool,
    /// When the first process asked for it, by the queue's clock.
    began: Option<Time>,
    /// The steps that a job submitted for Gavel's iterator has to do in all.
    gavel_steps: Option<u64>,
    /// From where its processes count their steps: a script submitted for Gavel's iterator may use ours.
    counting: Counting,
    /// Steps done before this run.
    steps_before: u64,
    ranks: BTreeMap<u32, Told>,
    /// When the run was started, by the queue's clock.
    started: Option<Time>,
    meter: Meter,
    /// The step after which all processes of the gang stop.
    last_step: Option<u64>,
    /// Whether the plan for the next round stops the job.
    leaves_next: bool,
    standing: watch::Sender<Standing>,
}

impl Lease {
    fn steps(&self) -> u64 {
        if self.counting == Counting::Process {
            return self.steps_before + self.ranks.values().map(|told| told.steps).sum::<u64>();
        }
        self.ranks.values().map(|told| told.steps).max().unwrap_or(self.steps_before).max(self.steps_before)
    }

    /// The processes speak this protocol. What was told in the other one is forgotten: its numbers mean something else.
    fn count(&mut self, counting: Counting) {
        if std::mem::replace(&mut self.counting, counting) != counting {
            self.ranks.clear();
            self.meter = Meter::new(counting);
        }
    }
}

/// The answer to a renewal.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Renewal {
    /// The seconds that the job has to save and leave, once it was asked to.
    pub stop: Option<f64>,
    /// How long the lease lasts, from its beginning.
    pub max_seconds: f64,
    /// The step after which all processes of a gang stop.
    pub last_step: Option<u64>,
}

/// The terms of a lease as Gavel's iterator knows them.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct GavelTerms {
    /// The most steps that a process may do in this run.
    pub max_steps: u64,
    /// The most seconds that it may take.
    pub max_duration: f64,
}

/// As good as for ever, to Gavel's iterator.
const GAVEL_FOREVER_SECONDS: f64 = 1e9;

/// The leases of running jobs.
pub struct RunningLeases {
    key: LeaseKey,
    address: SocketAddr,
    /// Where jobs keep their checkpoints.
    checkpoints: Checkpoints,
    clock: SystemClock,
    mechanism: Mechanism,
    length: Span,
    /// The time to leave in, for jobs that do not say.
    grace_seconds: f64,
    table: Mutex<HashMap<u64, Lease>>,
}

/// Where jobs keep their checkpoints.
#[derive(Clone, Debug)]
pub struct Checkpoints {
    state_dir: PathBuf,
    /// A folder of the site's choice.
    elsewhere: Option<PathBuf>,
}

impl Checkpoints {
    /// The folders of a queue.
    pub fn new(state_dir: &Path, config: &Config) -> Self {
        Self { state_dir: state_dir.to_owned(), elsewhere: config.jobs.checkpoint_dir.clone() }
    }

    /// The folder of a job.
    pub fn of(&self, job: u64) -> PathBuf {
        self.elsewhere.as_ref().map_or_else(
            || self.state_dir.join("jobs").join(job.to_string()).join("checkpoint"),
            |folder| folder.join(job.to_string()),
        )
    }
}

impl RunningLeases {
    /// No leases yet, for the service at this address.
    pub fn new(key: LeaseKey, address: SocketAddr, checkpoints: Checkpoints, clock: SystemClock, config: &Config) -> Self {
        Self {
            key,
            address,
            checkpoints,
            clock,
            mechanism: config.mechanism,
            length: Span::from_seconds(config.round_seconds).unwrap_or_default(),
            grace_seconds: config.jobs.grace_seconds,
            table: Mutex::new(HashMap::new()),
        }
    }

    /// Where the service answers.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// The queue's clock.
    pub fn clock(&self) -> &SystemClock {
        &self.clock
    }

    /// Where jobs keep their checkpoints.
    pub fn checkpoints(&self) -> &Checkpoints {
        &self.checkpoints
    }

    /// The token of a run.
    pub fn token(&self, record: &JobRecord) -> String {
        self.key.token(LeaseHolder { job: record.id, lease: record.attempts })
    }

    /// The run that a token was made for.
    pub fn holder(&self, token: &str) -> Option<LeaseHolder> {
        self.key.holder(token)
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<u64, Lease>> {
        self.table.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes note of a job's record after it has changed: its lease begins, is called back, or ends.
    pub fn follow(&self, record: &JobRecord) {
        let mut table = self.lock();
        if !record.state.has_gpus() || record.is_claim() {
            if let Some(lease) = table.remove(&record.id) {
                begin_anew_beside(&mut table, record.id, &lease.gpus);
                lease.standing.send_modify(|standing| standing.is_over = true);
            }
            return;
        }
        let is_new = table.get(&record.id).is_none_or(|lease| lease.number != record.attempts);
        if is_new {
            let until = self.end_of_term(self.clock.now(), false);
            let counting = record.spec.ask.gavel.as_ref().map_or(Counting::Job, |_| Counting::Process);
            begin_anew_beside(&mut table, record.id, &record.gpu_uuids);
            let lease = Lease {
                number: record.attempts,
                gpus: record.gpu_uuids.clone(),
                world: record.spec.ask.gavel.as_ref().map_or(1, |_| record.spec.ask.gpus.max(1)),
                gavel_steps: record.spec.ask.gavel.as_ref().map(|gavel| gavel.total_steps),
                counting,
                is_taken: record.progress.is_leased,
                began: None,
                steps_before: record.progress.step.unwrap_or(0),
                ranks: BTreeMap::new(),
                started: record.started_at.map(Time),
                meter: Meter::new(counting),
                last_step: None,
                leaves_next: false,
                standing: watch::Sender::new(Standing { stop: None, until, is_over: false, extras: 0 }),
            };
            table.insert(record.id, lease);
        }
        let Some(lease) = table.get_mut(&record.id) else { return };
        lease.is_taken |= record.progress.is_leased;
        let extras = record.usable_extras().count();
        lease.standing.send_if_modified(|standing| std::mem::replace(&mut standing.extras, extras) != extras);
        if record.stop_cause == Some(StopCause::Preempt) && lease.standing.borrow().stop.is_none() {
            let grace = record.notice_grace(self.grace_seconds);
            lease.standing.send_modify(|standing| standing.stop = Some(grace));
        }
    }

    /// The plan for the next round stops these jobs and no others.
    pub fn plan_next(&self, leaving: &[u64]) {
        let now = self.clock.now();
        for (job, lease) in self.lock().iter_mut() {
            lease.leaves_next = leaving.contains(job);
            let until = self.end_of_term(now, lease.leaves_next);
            lease.standing.send_if_modified(|standing| {
                let is_longer = until > standing.until && standing.stop.is_none();
                if is_longer {
                    standing.until = until;
                }
                is_longer
            });
        }
    }

    /// When a lease that is renewed now ends.
    fn end_of_term(&self, now: Time, leaves_next: bool) -> Time {
        match self.mechanism {
            Mechanism::Event => now + self.length,
            // The next round is planned at half time.
            Mechanism::Rounds if leaves_next || self.is_first_half(now) => self.end_of_round(now) + self.slack(),
            Mechanism::Rounds => self.end_of_round(now) + self.length + self.slack(),
        }
    }

    fn is_first_half(&self, now: Time) -> bool {
        now.0 % self.length.0.max(1) < self.length.0 / 2
    }

    /// A lease lasts a little longer than its round, so that the job is asked to stop before it leaves by itself.
    fn slack(&self) -> Span {
        Span(self.length.0 / SLACK_PART)
    }

    fn end_of_round(&self, now: Time) -> Time {
        let round = self.length.0.max(1);
        Time((now.0 / round + 1).saturating_mul(round))
    }

    /// The number of the lease that a job has now, if it has one.
    pub fn number(&self, job: u64) -> Option<u32> {
        self.lock().get(&job).map(|lease| lease.number)
    }

    /// A process of the job asks for its lease. Says whether that is news, which is to be written down.
    pub fn join(&self, holder: LeaseHolder, rank: u32, world: u32) -> Result<bool, Refusal> {
        if world == 0 || rank >= world || world > 1024 {
            let message = format!("rank {rank} of {world}: ranks count from 0 and are below the number of processes");
            return Err(Refusal::new(RefusalKind::BadInput, message));
        }
        let mut table = self.lock();
        let lease = current(&mut table, holder)?;
        lease.count(Counting::Job);
        lease.world = lease.world.max(world);
        let now = self.clock.now();
        lease.began.get_or_insert(now);
        let steps = lease.steps_before;
        lease.ranks.entry(rank).or_insert(Told { steps, seconds: 0.0 });
        Ok(!lease.is_taken)
    }

    /// How long a lease lasts, for a process that has run for so long in it.
    pub fn max_seconds(&self, holder: LeaseHolder, seconds: f64) -> Result<f64, Refusal> {
        let mut table = self.lock();
        let lease = current(&mut table, holder)?;
        let now = self.clock.now();
        let until = lease.standing.borrow().until;
        Ok(seconds + until.since(now).seconds())
    }

    /// A process tells how far it is.
    pub fn tell(&self, holder: LeaseHolder, rank: u32, steps: u64, seconds: f64) -> Result<(), Refusal> {
        note(current(&mut self.lock(), holder)?, rank, steps, seconds, self.clock.now())
    }

    /// A process tells how far it is, and asks how long it may go on.
    pub fn renew(&self, holder: LeaseHolder, rank: u32, steps: u64, seconds: f64) -> Result<Renewal, Refusal> {
        let mut table = self.lock();
        let lease = current(&mut table, holder)?;
        let now = self.clock.now();
        note(lease, rank, steps, seconds, now)?;
        // A daemon that was started again hears from the job how long it has run.
        lease.began.get_or_insert(Time(now.0.saturating_sub((seconds * 1e9) as u64)));
        let stop = lease.standing.borrow().stop;
        if stop.is_some() {
            if lease.world > 1 {
                // The first process that asks fixes it. No other can be further than one step ahead of it.
                let next = lease.steps() + 1;
                lease.last_step.get_or_insert(next);
            }
            return Ok(Renewal { stop, max_seconds: seconds, last_step: lease.last_step });
        }
        let until = self.end_of_term(now, lease.leaves_next);
        // Nobody needs to be woken: the one who asks is told.
        lease.standing.send_if_modified(|standing| {
            standing.until = standing.until.max(until);
            false
        });
        let until = lease.standing.borrow().until;
        Ok(Renewal { stop, max_seconds: seconds + until.since(now).seconds(), last_step: None })
    }

    /// A process with Gavel's iterator begins; none if the job is gone. Says whether its asking is to be written down.
    pub fn gavel_init(&self, job: u64) -> Result<Option<(LeaseHolder, bool, GavelTerms)>, Refusal> {
        let mut table = self.lock();
        let Some(lease) = table.get_mut(&job) else { return Ok(None) };
        let max_steps = gavel_share(job, lease)?;
        lease.count(Counting::Process);
        let now = self.clock.now();
        lease.began.get_or_insert(now);
        let max_duration = lease.standing.borrow().until.since(now).seconds();
        let holder = LeaseHolder { job, lease: lease.number };
        Ok(Some((holder, !lease.is_taken, GavelTerms { max_steps, max_duration })))
    }

    /// A process with Gavel's iterator has nearly used up its lease; none if the job is gone.
    pub fn gavel_update(&self, ask: &UpdateLeaseRequest) -> Result<Option<GavelTerms>, Refusal> {
        let mut table = self.lock();
        let Some(lease) = table.get_mut(&ask.job_id) else { return Ok(None) };
        let max_steps = gavel_share(ask.job_id, lease)?;
        lease.count(Counting::Process);
        let now = self.clock.now();
        note_gavel(lease, ask, now)?;
        let stop = lease.standing.borrow().stop.is_some();
        if !stop {
            let until = self.end_of_term(now, lease.leaves_next);
            lease.standing.send_if_modified(|standing| {
                standing.until = standing.until.max(until);
                false
            });
        }
        let left = lease.standing.borrow().until.since(now).seconds();
        let ends_here = stop || lease.leaves_next;
        if lease.world == 1 {
            let left = if stop { 0.0 } else { left };
            return Ok(Some(GavelTerms { max_steps, max_duration: ask.duration + left }));
        }
        // Gavel's iterator asks when it has used up most of its lease, and never again if the lease does not grow: where it stops, all stop.
        let is_last = ask.duration + left <= ask.max_duration && ask.duration >= ask.max_duration / 2.0;
        if !ends_here && lease.last_step.is_none() && !is_last {
            return Ok(Some(GavelTerms { max_steps, max_duration: ask.duration + left }));
        }
        // The first process that asks fixes the last step, far enough ahead for the others to hear of it.
        let rate = if ask.duration > 0.0 { ask.steps as f64 / ask.duration } else { 0.0 };
        let last = ask.steps + ((left * rate) as u64).max(1);
        let last = *lease.last_step.get_or_insert(last.min(max_steps));
        Ok(Some(GavelTerms { max_steps: last, max_duration: GAVEL_FOREVER_SECONDS }))
    }

    /// Listens to a lease.
    pub fn listen(&self, holder: LeaseHolder) -> Result<watch::Receiver<Standing>, Refusal> {
        Ok(current(&mut self.lock(), holder)?.standing.subscribe())
    }

    /// How long a lease lasts, from its beginning.
    pub fn length(&self, holder: LeaseHolder, standing: Standing) -> f64 {
        let began = current(&mut self.lock(), holder).ok().and_then(|lease| lease.began);
        standing.until.since(began.unwrap_or_else(|| self.clock.now())).seconds()
    }

    /// How fast the job was since this was last asked, if it has told of so many steps.
    pub fn speed(&self, job: u64, least_steps: u64) -> Option<SpeedSample> {
        self.lock().get_mut(&job)?.meter.take(least_steps)
    }

    /// Whether the processes of a job count their steps by Gavel's iterator.
    pub fn counts_by_gavel(&self, job: u64) -> bool {
        self.lock().get(&job).is_some_and(|lease| lease.counting == Counting::Process)
    }

    /// How long the present run of a job took from its start to its first step.
    pub fn start_took(&self, job: u64) -> Option<Span> {
        let table = self.lock();
        let lease = table.get(&job)?;
        Some(lease.meter.first_step()?.since(lease.started?))
    }

    /// What a job has told of its present run, if it has told anything.
    pub fn progress(&self, job: u64) -> Option<RunProgress> {
        let table = self.lock();
        let lease = table.get(&job)?;
        let seconds = lease.ranks.values().map(|told| told.seconds).fold(0.0, f64::max);
        let ran = Span::from_seconds(seconds).filter(|ran| *ran > Span::ZERO)?;
        let steps = lease.steps();
        Some(RunProgress { steps, run_steps: steps.saturating_sub(lease.steps_before), ran })
    }
}

/// A job begins or ends on these GPUs: the speeds of the other jobs there are measured anew.
fn begin_anew_beside(table: &mut HashMap<u64, Lease>, job: u64, gpus: &[String]) {
    let shares = |lease: &Lease| lease.gpus.iter().any(|gpu| gpus.contains(gpu));
    for (_, lease) in table.iter_mut().filter(|(other, lease)| **other != job && shares(lease)) {
        lease.meter.begin_anew();
    }
}

fn current(table: &mut HashMap<u64, Lease>, holder: LeaseHolder) -> Result<&mut Lease, Refusal> {
    let LeaseHolder { job, lease: number } = holder;
    let is_over = |now: &str| {
        Refusal::new(
            RefusalKind::Conflict,
            format!("lease {number} of job {job} is over: {now}; what it saves from now on is not taken"),
        )
    };
    match table.get_mut(&job) {
        None => Err(is_over("the job is not running")),
        Some(lease) if lease.number != number => Err(is_over(&format!("the job has lease {} now", lease.number))),
        Some(lease) => Ok(lease),
    }
}

/// The steps that each process of a job with Gavel's iterator has to do in this run.
fn gavel_share(job: u64, lease: &Lease) -> Result<u64, Refusal> {
    let Some(total) = lease.gavel_steps else {
        let message = format!("job {job} was not submitted with --gavel");
        return Err(Refusal::new(RefusalKind::Conflict, message));
    };
    Ok(total.saturating_sub(lease.steps_before).div_ceil(lease.world.max(1).into()))
}

fn note_gavel(lease: &mut Lease, ask: &UpdateLeaseRequest, now: Time) -> Result<(), Refusal> {
    let bad = |message: String| Err(Refusal::new(RefusalKind::BadInput, message));
    if !ask.duration.is_finite() || ask.duration < 0.0 {
        return bad(format!("duration: {} is not a length of time", ask.duration));
    }
    let Ok(worker) = u32::try_from(ask.worker_id) else { return bad(format!("worker_id: there is no GPU {}", ask.worker_id)) };
    let before = lease.ranks.get(&worker).copied();
    if before.is_none() && lease.ranks.len() >= lease.world as usize {
        return bad(format!("worker_id: the job has {} processes, and {worker} is not one of them", lease.world));
    }
    let before = before.unwrap_or_default();
    if ask.steps < before.steps {
        return bad(format!("steps: {} is below {}, which the process has told before", ask.steps, before.steps));
    }
    lease.ranks.insert(worker, Told { steps: ask.steps, seconds: ask.duration.max(before.seconds) });
    lease.meter.note(worker, Told { steps: ask.steps, seconds: ask.duration }, 0, now);
    Ok(())
}

fn note(lease: &mut Lease, rank: u32, steps: u64, seconds: f64, now: Time) -> Result<(), Refusal> {
    lease.count(Counting::Job);
    let bad = |message: String| Err(Refusal::new(RefusalKind::BadInput, message));
    if !seconds.is_finite() || seconds < 0.0 {
        return bad(format!("seconds: {seconds} is not a length of time"));
    }
    if rank >= lease.world.max(1) {
        return bad(format!("rank: {rank} is not below {}, the number of processes that the lease was granted to", lease.world));
    }
    let before = lease.ranks.get(&rank).copied().unwrap_or_default();
    let reached = before.steps.max(lease.steps_before);
    if steps < reached {
        return bad(format!(
            "steps: {steps} is below {reached}, which the job has reached before; steps count from the job's first start"
        ));
    }
    lease.ranks.insert(rank, Told { steps, seconds: seconds.max(before.seconds) });
    lease.meter.note(rank, Told { steps, seconds }, lease.steps_before, now);
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::api::JobState;
    use crate::store::journal::{Stamp, Submission};

    fn record(attempt: u32) -> JobRecord {
        let request =
            Submission { uid: 0, user: "ada".to_owned(), gpus: 1, env_id: 0, memory_mib: None, group: None, spec: None };
        let mut record = JobRecord::new(7, &request, Stamp { at: 0, wall_ns: 0 });
        (record.state, record.attempts) = (JobState::Running, attempt);
        record
    }

    fn leases(config: &Config) -> RunningLeases {
        let folder = tempfile::tempdir().unwrap();
        let key = LeaseKey::of(folder.path()).unwrap();
        let checkpoints = Checkpoints::new(folder.path(), config);
        RunningLeases::new(key, "127.0.0.1:1".parse().unwrap(), checkpoints, SystemClock::from(Time(1)), config)
    }

    const FIRST: LeaseHolder = LeaseHolder { job: 7, lease: 1 };

    #[test]
    fn steps_that_fall_and_leases_that_are_over_are_refused() {
        let leases = leases(&Config::default());
        assert_eq!(leases.join(FIRST, 0, 1).unwrap_err().kind, RefusalKind::Conflict, "it does not run yet");
        leases.follow(&record(1));
        assert!(leases.join(FIRST, 0, 1).unwrap());
        leases.tell(FIRST, 0, 10, 1.0).unwrap();
        assert_eq!(leases.tell(FIRST, 0, 9, 2.0).unwrap_err().kind, RefusalKind::BadInput);
        assert_eq!(leases.tell(FIRST, 1, 10, 2.0).unwrap_err().kind, RefusalKind::BadInput, "there is one process");
        assert_eq!(leases.tell(FIRST, 0, 10, f64::NAN).unwrap_err().kind, RefusalKind::BadInput);
        leases.follow(&record(2));
        assert_eq!(leases.renew(FIRST, 0, 11, 3.0).unwrap_err().kind, RefusalKind::Conflict);
        let second = LeaseHolder { job: 7, lease: 2 };
        assert!(leases.renew(second, 0, 11, 3.0).unwrap().max_seconds > 300.0);
    }

    #[test]
    fn the_first_process_of_a_gang_that_asks_fixes_the_last_step_for_all() {
        let leases = leases(&Config::default());
        leases.follow(&record(1));
        for rank in 0..3 {
            leases.join(FIRST, rank, 3).unwrap();
            leases.tell(FIRST, rank, 5, 1.0).unwrap();
        }
        leases.follow(&JobRecord { stop_cause: Some(StopCause::Preempt), ..record(1) });
        assert_eq!(leases.renew(FIRST, 1, 8, 2.0).unwrap().last_step, Some(9));
        assert_eq!(leases.renew(FIRST, 0, 9, 2.0).unwrap().last_step, Some(9));
        let renewal = leases.renew(FIRST, 2, 8, 2.0).unwrap();
        assert_eq!((renewal.last_step, renewal.stop), (Some(9), Some(10.0)));
        assert_eq!(leases.progress(7).unwrap().run_steps, 9);
    }

    #[test]
    fn processes_of_a_gavel_gang_whose_lease_does_not_grow_stop_at_one_step() {
        let config = Config { mechanism: Mechanism::Rounds, round_seconds: 1000.0, ..Config::default() };
        let leases = leases(&config);
        leases.follow(&record(1));
        {
            let mut table = leases.lock();
            let lease = table.get_mut(&7).unwrap();
            (lease.gavel_steps, lease.world) = (Some(100_000), 2);
        }
        let ask = |worker: u64, steps: u64, max_duration: f64| {
            let ask =
                UpdateLeaseRequest { job_id: 7, worker_id: worker, steps, duration: steps as f64, max_steps: 0, max_duration };
            leases.gavel_update(&ask).unwrap().unwrap()
        };
        let first = [ask(0, 0, 0.0), ask(1, 0, 0.0)];
        assert!(first.iter().all(|terms| (terms.max_duration - 1050.0).abs() < 2.0), "{first:?}");
        assert_eq!(ask(0, 100, 2300.0).max_steps, 50_000, "it asks again later");
        // The clock stands in the first half of the round, and the lease is as long as it was: the iterator does not ask again.
        let fixed = ask(0, 1200, 2300.0);
        assert!((2248..=2251).contains(&fixed.max_steps), "{fixed:?}");
        assert_eq!(ask(1, 1201, 2300.0).max_steps, fixed.max_steps);
    }

    #[test]
    fn a_lease_ends_with_the_next_round_unless_the_plan_stops_the_job() {
        let config = Config { mechanism: Mechanism::Rounds, round_seconds: 1000.0, ..Config::default() };
        let leases = leases(&config);
        leases.follow(&record(1));
        leases.join(FIRST, 0, 1).unwrap();
        let seconds = |leases: &RunningLeases| leases.renew(FIRST, 0, 0, 0.0).unwrap().max_seconds.round();
        assert!((seconds(&leases) - 1050.0).abs() < 2.0, "nothing is planned in the first half of a round");
        let late = RunningLeases { clock: SystemClock::from(Time(600_000_000_000)), ..leases };
        late.plan_next(&[7]);
        assert!((seconds(&late) - 450.0).abs() < 2.0, "{}", seconds(&late));
        late.plan_next(&[]);
        assert!((seconds(&late) - 1450.0).abs() < 2.0, "{}", seconds(&late));
    }
}
